"""What compiled models say of themselves, the headers and files of exported ones, and what those in C
compute."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import loopwright as lw
from benchmarks.machine_steps import Model
from loopwright.codegen.compiled import CompiledModel
from loopwright.codegen.llvm.library import header_text, metadata_of, public_text
from loopwright.ir.module import IRModule
from loopwright.runtime.arena import Arena

from ..programs import graph, pointwise
from .stages import CPU, C, said

WEIGHT = np.arange(24, dtype="float32").reshape(8, 3) / 8
MODELS: dict[str, Any] = {
    "product": lambda: graph("y = R.matmul(x, R.const(w))", values={"w": WEIGHT}, x=(4, 8)),
    "any rows": lambda: graph(
        "a = R.exp(x); y = R.matmul(a, R.const(w))", values={"w": WEIGHT}, x=("n", 8)
    ).with_attrs({"input_names": ["an input"], "output_names": ["an output"]}),
    "results": lambda: graph(
        "a = R.sum(x, axis=[1]); b = R.less(x, z); c = R.astype(x, 'float16'); y = (a, (b, c))",
        x=("n", "m"),
        z=("n", "m"),
    ),
    "types": lambda: graph(
        "y = R.add(R.astype(a, 'int64'), R.astype(b, 'int64')); z = R.where(c, y, y)",
        a='R.Tensor((5,), "int8")',
        b='R.Tensor((5,), "uint16")',
        c='R.Tensor((5,), "bool")',
    ).with_attrs({"input_names": ["a b", "a_b", "a-b"]}),
    "a scalar": lambda: graph("y = R.multiply(x, s)", x=(3, 5), s='R.Tensor((), "float32")'),
    "kernels": lambda: IRModule(
        {name: pointwise(name, f"X[vi, vj] * {k}.0") for k, name in enumerate(("twice", "_9"), 2)}
    ),
    "machine": lambda: Model,
}


def described(exe: CompiledModel) -> dict[str, str]:
    """The signature of each function."""
    made = {"": f"{exe!r}\n{exe.function_names()}"}
    for name in exe.function_names():
        shown = exe.described(name)
        made[name] = "\n".join(
            (
                str((exe.inputs(name), exe.outputs(name))),
                str((exe.input_names(name), exe.output_names(name))),
                f"{shown}\n{shown.text(name)}\n{shown.as_lists()}",
            )
        )
    return made


@pytest.mark.no_roundtrip
@pytest.mark.parametrize("name", MODELS)
def test_native(name: str, replay: Any) -> None:
    exe = lw.compile(MODELS[name](), CPU)
    rows = {"signatures": described(exe)}
    rows["library"] = {
        "header": header_text(exe, "net"),
        "metadata": json.dumps(metadata_of(exe)),
        "static": public_text(exe, "net", False),
    }
    if exe.machine_runner is not None:
        rows["program"] = {"": exe.machine_runner.program.as_text()}
    else:  # a machine's bytecode has the places of literals, which are those of their first use anywhere
        rows["library"]["shared"] = public_text(exe, "net", True)
    replay(f"compiled/{name}", rows)


OPTIONS: dict[str, dict[str, Any]] = {
    "binary": {"weights": "binary"},
    "named": {"name": "my net-2"},
    "small stack": {"stack_bytes": 16},
}


@pytest.mark.no_roundtrip
@pytest.mark.parametrize("name", [name for name in MODELS if name != "machine"])
def test_c(name: str, replay: Any, tmp_path: Path) -> None:
    mod = MODELS[name]()
    bound = {"tir_var_upper_bound": {"n": 16, "m": 9}}
    mod = mod.with_functions({g: f.with_attrs(bound) for g, f in mod.functions.items()})
    exe = lw.compile(mod, C)
    rows = {"signatures": described(exe)}
    for label, options in OPTIONS.items():
        files = exe.render(**options)
        rows[label] = {
            **{n: str(getattr(files, n)) for n in ("source", "header", "weights_source")},
            "weights": files.weights.hex(),
            "areas": str(files.areas),
        }
        rows[label]["entries"] = str(
            [(e.name, e.inputs, e.outputs, e.fields, e.returns) for e in files.entries.values()]
        )
    arenas = [Arena("sram", limit=200), Arena("dram")]
    rows["arenas"] = {"": said(lambda: str(lw.compile(mod, C, arenas=arenas).texts))}
    rows["written"] = {k: str(written(exe, tmp_path / k, k)) for k in ("arrays", "binary")}
    replay(f"compiled/{name} in C", rows)


def written(exe: CompiledModel, folder: Path, weights: str) -> list[tuple[str, int]]:
    paths = exe.write(folder, "net", weights=weights)
    return [(p.name, p.stat().st_size) for p in paths]
