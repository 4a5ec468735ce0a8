"""Run Apache TVM's tutorials with Loopwright as `tvm`: python -m tools.tutorials CLONE [NAME...]

CLONE is a clone of github.com/apache/tvm; the ten tutorials of v0.21.0 are read from it and nothing of
them is kept here. Each runs as it is through `python -m loopwright.compat`, but for the cells that
`LEFT_OUT` names by a text in them: those that tune or run on a GPU, and those that import a model from PyTorch
where torch and torchvision are not installed. `CI` is set, as where TVM builds its pages: then the tutorials skip
what takes hours or large downloads; the weights of networks are random instead of downloaded.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from .conformance.__main__ import ROOT, VERSION

TORCH, TUNES, GPU = "imports a model from PyTorch", "tunes", "for a GPU"
FOLDERS = ("get_started", "deep_dive/relax", "deep_dive/tensor_ir", "how_to")

# Tutorial -> a text of a cell -> why the cell is left out.
LEFT_OUT: dict[str, dict[str, str]] = {
    "ir_module": {
        "from torch import nn": TORCH,
        "class TorchModel": TORCH,
        "dl.ApplyDefaultSchedule(": GPU,
        'tvm.compile(gpu_mod, target="cuda")': GPU,
    },
    "customize_opt": {
        "class CublasDispatch": GPU,
        "MetaScheduleTuneTIR": TUNES,
        "dl.ApplyDefaultSchedule(": GPU,
        'tvm.compile(mod, target="cuda")': GPU,
    },
    "e2e_opt_model": {
        "from torchvision.models": TORCH,
        "from_exported_program": TORCH,
        'get_pipeline("static_shape_tuning"': TUNES,
        'tvm.compile(mod, target="cuda")': GPU,
    },
    "optimize_llm": {"ex = tvm.compile(mod, target": GPU},
}
# What stands for the names of a cell that is left out: the same model, as the tutorial has it as text.
STANDS_FOR: dict[str, tuple[str, str]] = {
    "ir_module": (
        "mod = mod_from_torch",
        "mod_from_torch = TVMScriptModule\n"
        "_shapes = [(256, 784), (256,), (10, 256), (10,)]\n"
        'params_from_torch = {"main": [tvm.nd.array(np.random.rand(*s).astype("float32")) for s in _shapes]}\n',
    ),
}
_RULE = re.compile(r"^#{20,}$", re.M)  # the line above a cell


def sources(clone: Path) -> dict[str, str]:
    """The tutorials' texts by name."""
    found = {}
    for folder in FOLDERS:
        under = f"docs/{folder}/tutorials/"
        git = ["git", "-C", str(clone)]
        tag = f"refs/tags/{VERSION}"
        listed = subprocess.check_output([*git, "ls-tree", "--name-only", tag, under], text=True)
        for path in (p for p in listed.split() if p.endswith(".py")):
            found[Path(path).stem] = subprocess.check_output(
                [*git, "show", f"{tag}:{path}"], text=True
            )
    return found


def kept(name: str, text: str, has_torch: bool) -> tuple[str, list[str]]:
    """(the script without the cells that are left out, why each of them is)."""
    cells, reasons = [], []
    before, stand_in = STANDS_FOR.get(name, ("", ""))
    for cell in _RULE.split(text):
        why = [why for part, why in LEFT_OUT.get(name, {}).items() if part in cell]
        why = [] if has_torch and why[:1] == [TORCH] else why
        reasons += why[:1]
        if not why:
            if stand_in and before in cell and not has_torch:
                cells.append(stand_in)
                stand_in = ""
            cells.append(cell.replace("weights=ResNet18_Weights.DEFAULT", "weights=None"))
    return "\n".join(cells), reasons


def main() -> int:
    """`python -m tools.tutorials CLONE`; 0 where all run."""
    parser = argparse.ArgumentParser(prog="tutorials", description=__doc__)
    parser.add_argument("clone", type=Path, help="clone of github.com/apache/tvm")
    parser.add_argument("names", nargs="*", help="tutorials; all without")
    options = parser.parse_args()
    has_torch = all(map(importlib.util.find_spec, ("torch", "torchvision")))
    failed = 0
    for name, text in sources(options.clone).items():
        if options.names and name not in options.names:
            continue
        script, reasons = kept(name, text, has_torch)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, f"{name}.py")
            path.write_text(script, encoding="utf-8")
            done = subprocess.run(
                [sys.executable, "-m", "loopwright.compat", str(path)],
                cwd=folder,
                env={**os.environ, "PYTHONPATH": str(ROOT / "src"), "CI": "true"},
                capture_output=True,
                text=True,
                check=False,
            )
        failed += bool(done.returncode)
        count = len(_RULE.split(text))
        left = f"; left out: {', '.join(reasons)}" if reasons else ""
        state = "fails" if done.returncode else "runs"
        print(f"{name:28} {state}, {count - len(reasons)} of {count} cells{left}", flush=True)
        if done.returncode:
            print(done.stderr[-600:])
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
