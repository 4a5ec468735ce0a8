"""Models offloaded to external back ends, beside the default build.

    python -m benchmarks.offload [MODEL ...] [--backends onednn blas] [--threads N] [--report]

Each model is compiled by default and with each back end, where all that it takes is offloaded, where
its declared cost says that it pays, and (`--measured`) where it was measured to. The builds take
turns, one burst of calls at a time; a figure is the median of the bursts, the ratio is that to the
default build. Outputs must agree to 1e-4 of the largest value. Results go to
benchmarks/results/offload.md.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from pathlib import Path
from typing import Any

import numpy as np

import loopwright as lw
from loopwright.frontend.onnx import from_path_or_proto
from loopwright.ir.module import IRModule
from loopwright.relax import transform as rt
from loopwright.relax.byoc import PartitionReport, get_backend, partition

from .machine import describe
from .models import Case, load

MODELS = ("centerface", "ppocr-cls", "resnet50", "mlp_b1")
RESULTS = Path(__file__).parent / "results" / "offload.md"
BURSTS, SECONDS = 15, 0.05
# What a graph goes through before it is partitioned by hand, as in `backend.cpu`.
TIDY = (
    rt.CanonicalizeBindings,
    rt.FoldConstant,
    rt.FoldBatchnormToConv2D,
    rt.CanonicalizeBindings,
    rt.DeadCodeElimination,
)


def with_numbers(case: Case) -> IRModule:
    """A model whose symbolic extents are those of its input."""
    mod = from_path_or_proto(str(case.path))
    known = {}
    for param, value in zip(mod["main"].params, case.feeds.values(), strict=False):
        pairs = zip(param.struct_info.get_shape(), value.shape, strict=True)
        known.update({dim.name: size for dim, size in pairs if isinstance(dim, lw.tir.Var)})
    return rt.BindSymbolicVars(known, "main")(mod) if known else mod


def outputs(exe: Any, feeds: list[np.ndarray]) -> list[np.ndarray]:
    """What a model answers, as arrays."""
    made = exe["main"](*feeds)
    return [made.numpy()] if hasattr(made, "numpy") else [m.numpy() for m in made]


def difference(a: list[np.ndarray], b: list[np.ndarray]) -> float:
    """The largest difference, as a part of the largest value."""
    return max(float(np.abs(x - y).max() / np.abs(y).max()) for x, y in zip(a, b, strict=True))


def milliseconds(calls: list[Any]) -> list[float]:
    """The median of the bursts of each call, by turns."""
    counts = []
    for call in calls:
        call()
        start = time.perf_counter()
        call()
        counts.append(max(1, int(SECONDS / (time.perf_counter() - start))))
    found: list[list[float]] = [[] for _ in calls]
    for _ in range(BURSTS):
        for call, count, times in zip(calls, counts, found, strict=True):
            start = time.perf_counter()
            for _ in range(count):
                call()
            times.append((time.perf_counter() - start) / count * 1e3)
    return [statistics.median(times) for times in found]


def measure(name: str, backends: list[str], costs: dict[str, Any], report: bool) -> list[str]:
    """The table's rows of one model."""
    case = load(name)
    feeds = list(case.feeds.values())
    mod = with_numbers(case)
    for step in TIDY:
        mod = step()(mod)
    builds, facts = [lw.compile(mod)], [("default", "", "", 0.0)]
    want = outputs(builds[0], feeds)
    for backend in backends:
        for words, cost in costs.items():
            made = PartitionReport()
            exe = lw.compile(partition(mod, backend, cost=cost, report=made))
            taken = sum(d.calls for d in made.decisions if d.offloaded)
            every = sum(d.calls for d in made.decisions)
            off = difference(outputs(exe, feeds), want)
            if not off <= 1e-4:
                raise SystemExit(f"{name}, {backend}: the outputs differ by {off:.1e}")
            builds.append(exe)
            facts.append((backend, words, f"{taken} of {every}", off))
            if report:
                print(made, "\n")
    times = milliseconds([lambda e=exe: e["main"](*feeds) for exe in builds])
    return [
        f"| {name} | {backend} | {words} | {taken} | {off:.0e} | {t:.3f} | {t / times[0]:.2f} |"
        for (backend, words, taken, off), t in zip(facts, times, strict=True)
    ]


def main() -> None:
    """Measure, print the table, write it down."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="*", default=MODELS)
    parser.add_argument("--backends", nargs="+", default=["onednn", "blas"])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--measured", action="store_true", help="partition by measured costs, too")
    parser.add_argument("--report", action="store_true", help="print each partition's report")
    args = parser.parse_args()
    for variable in ("LOOPWRIGHT_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ[variable] = str(args.threads)  # each is read with the first call
    usable = [b for b in args.backends if not get_backend(b).why_not()]
    for backend in set(args.backends) - set(usable):
        print(get_backend(backend).why_not())
    costs: dict[str, Any] = {"all": None, "declared": "declared"}
    if args.measured:
        costs["measured"] = "measured"
    facts = ", ".join(f"{key} {value}" for key, value in describe().items())
    lines = [
        f"{args.threads} thread(s); {facts}",
        "",
        "| model | back end | cost | offloaded | difference | ms | to default |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    print("\n".join(lines))
    for name in args.models:
        rows = measure(name, usable, costs, args.report)
        print("\n".join(rows), flush=True)
        lines += rows
    RESULTS.write_text("\n".join(["# Offloaded beside the default build", "", *lines, ""]))


if __name__ == "__main__":
    main()
