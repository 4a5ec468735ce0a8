"""The command line of the searches."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from . import (
    backends,
    decisions,
    files,
    graphs,
    integers,
    kernels,
    mutants,
    networks,
    passes,
    replay,
    sanitizers,
    schedules,
    shapes,
    texts,
)
from .graphs import searching


def main() -> int:
    """`python -m tools.fuzz MACHINE`; 1 where a case was wrong, crashed or hung."""
    parser = argparse.ArgumentParser(prog="fuzz", description=__doc__)
    machines = parser.add_subparsers(dest="machine", required=True)
    for name, run, about in MACHINES:
        sub = machines.add_parser(name, help=about)
        sub.add_argument("--count", type=int, default=500, help="cases")
        sub.add_argument("--seed", type=int, default=0, help="of the first case")
        sub.add_argument("--processes", type=int, default=2)
        sub.add_argument(
            "--save", type=Path, default=Path("build/fuzz"), help="folder of what failed"
        )
        sub.add_argument("--shrink", type=int, default=40, help="most graphs to make small")
        sub.add_argument("--tree", type=Path, help="where mutants keep their copy of the source")
        sub.add_argument(
            "--budget", type=int, default=mutants.BUDGET, help="seconds of a mutant's tests"
        )
        sub.add_argument("--layers", help="of mutants: only these, as arith,tir")
        sub.add_argument("--kinds", choices=mutants.KINDS, default="all", help="of faults")
        sub.add_argument("--no-replay", action="store_true", help="judge mutants by tests alone")
        sub.set_defaults(run=run)
    sub = machines.add_parser("replay", help="judge saved cases again")
    sub.add_argument("files", nargs="+", type=Path)
    sub.set_defaults(run=replay.replay)
    options = parser.parse_args()
    return options.run(options)


GRAPHS = [
    ("graphs", graphs.make, "random graphs of ONNX's operators and of our own"),
    ("integers", integers.make, "random graphs of integers near the ends of their types"),
    ("networks", networks.make, "random networks for images, some of them quantized"),
    ("shapes", shapes.make, "random ONNX graphs whose shapes are computed by nodes"),
]
MACHINES: list[tuple[str, Any, str]] = [
    *((name, searching(name, make), about) for name, make, about in GRAPHS),
    ("files", files.search, "hostile ONNX files, by hand and by mutation"),
    ("texts", texts.search, "hostile programs as text, and target strings"),
    ("backends", backends.search, "back ends with random patterns over random graphs"),
    ("passes", passes.search, "random orders of passes over graphs and loops"),
    ("schedules", schedules.search, "random schedules of random programs"),
    ("kernels", kernels.search, "random programs under the default schedules of several CPUs"),
    ("decisions", decisions.search, "default schedules with other decisions"),
    ("sanitizers", sanitizers.search, "random graphs as C and as LLVM text, built with sanitizers"),
    ("mutants", mutants.search, "random faults in our own source, and whether tests find them"),
]

if __name__ == "__main__":
    sys.exit(main())
