"""TVM's names beside ours: python -m tools.conformance.names CLONE [--release v0.21.0]

Of the sources of a release (read from a clone of github.com/apache/tvm, nothing is kept): what each
package takes from its modules, which a script reaches as `tvm.<package>.<name>` after `import tvm`, and
the parameters of public functions, which it may give as keywords. Prints what is missing here, and the
figures.
"""

from __future__ import annotations

import argparse
import ast
import inspect
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import loopwright

from .__main__ import VERSION, archived

# What there is no code for here: tuners, other machines, TVM's own tests and builds.
LEFT_OUT = """
    auto_scheduler autotvm contrib driver.tvmc exec ffi.testing meta_schedule micro relay.backend.contrib
    relay.collage relay.qnn relax.backend.adreno relax.backend.cuda relax.backend.gpu_generic
    relax.backend.metal relax.backend.rocm relax.distributed relax.frontend.stablehlo rpc runtime.disco
    s_tir support testing tir.usmp tirx topi.cuda topi.hexagon dlight _ffi
""".split()  # noqa: SIM905
EXPORTS = """
import json, sys
import loopwright as tvm
for package, names in json.load(sys.stdin).items():
    for name in names:
        value = tvm
        try:
            for part in filter(None, [*package.split("."), name]):
                value = getattr(value, part)
        except AttributeError:
            print(package, name)
"""


def sources(clone: Path, release: str) -> Iterator[tuple[str, bool, ast.Module]]:
    """The modules of TVM's package: ("relax.op", whether it is a package's `__init__`, its text)."""
    with archived(clone, release, "python/tvm") as archive:
        for member in archive:
            path = member.name.removeprefix("python/tvm/")
            held = archive.extractfile(member) if path.endswith(".py") else None
            name = path.removesuffix(".py").removesuffix("__init__").strip("/").replace("/", ".")
            if held and not any(name == n or name.startswith(f"{n}.") for n in LEFT_OUT):
                yield name, path.endswith("__init__.py"), ast.parse(held.read())


def exports(tree: ast.Module) -> list[str]:
    """The public names that a package takes from its own modules."""
    nodes = (n for n in ast.walk(tree) if isinstance(n, ast.ImportFrom) and n.level)
    names = {alias.asname or alias.name for node in nodes for alias in node.names}
    return sorted(n for n in names if not n.startswith(("_", "*")))


def functions(tree: ast.Module) -> Iterator[tuple[str, list[str]]]:
    """(name, parameters) of public functions."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
            given = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
            yield node.name, [a.arg for a in given]


def ours(module: str, name: str) -> Any:
    """What a script finds as that function: in the module, or in a package above it; else None."""
    parts = module.split(".")
    for count in range(len(parts), -1, -1):
        value: Any = loopwright
        try:
            for part in (*filter(None, parts[:count]), name):
                value = getattr(value, part)
        except AttributeError:
            continue
        return value
    return None


def lost_parameters(function: Any, wanted: list[str]) -> list[str]:
    """Those that cannot be given as keywords."""
    try:
        has = inspect.signature(function).parameters
    except (TypeError, ValueError):
        return []
    if any(p.kind is p.VAR_KEYWORD for p in has.values()):
        return []
    return [name for name in wanted if name not in has]


def main() -> int:
    """`python -m tools.conformance.names CLONE`."""
    parser = argparse.ArgumentParser(prog="names", description=__doc__)
    parser.add_argument("clone", type=Path, help="clone of github.com/apache/tvm")
    parser.add_argument("--release", default=VERSION)
    options = parser.parse_args()
    modules = list(sources(options.clone, options.release))
    missing, total = [], 0
    for package, names in ((name, exports(tree)) for name, package, tree in modules if package):
        # Each package in a process of its own: what one loads, another would find.
        done = subprocess.run(
            [sys.executable, "-c", EXPORTS],
            input=json.dumps({package: names}), capture_output=True, text=True, check=True,
        )  # fmt: skip
        missing += done.stdout.splitlines()
        total += len(names)
    for line in missing:
        print("missing:", ".".join(line.split()))
    known, differ = 0, 0
    found = ((module, *f) for module, _, tree in modules for f in functions(tree))
    for module, name, wanted in found:
        function = ours(module, name)
        if callable(function):
            known += 1
            lost = lost_parameters(function, wanted)
            differ += bool(lost)
            if lost:
                print(f"parameters: {module}.{name} has no {', '.join(lost)}")
    print(f"names: {total - len(missing)} of {total} that packages of {options.release} export")
    print(f"parameters: {known - differ} of {known} functions take all of TVM's names")
    return 0


if __name__ == "__main__":
    sys.exit(main())
