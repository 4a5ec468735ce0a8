"""python -m tools.aarch64 [--cpus neon,dotprod,i8mm] [--suites quantized,onnx,networks] [--every N]

Numbers on aarch64 under qemu's user mode, beside this machine's: quantized networks, ONNX's suite (every Nth
case), random networks. Prints a table; 1 where any is wrong.
"""

from __future__ import annotations

import argparse
import logging
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import onnx

import loopwright as lw
from loopwright.base.errors import LoopwrightError
from tools.fuzz import networks
from tools.fuzz.judge import judge
from tools.onnx_suite import cases

from . import CPUS, Cpu, missing, on

Verdicts = Iterator[tuple[str, str, str]]  # what, "right", "wrong", ..., and why


def quantized(cpu: Cpu, every: int) -> Verdicts:
    """Small networks in all forms of onnxruntime's quantizer: within a step of the output of this machine."""
    from benchmarks import quantized as q

    with tempfile.TemporaryDirectory() as folder:
        where = Path(folder)
        plain = [
            q.Case("conv", q.convolutions(where / "conv.onnx", 16, 14, 4), {"x": (1, 16, 14, 14)}),
            q.Case("layers", q.layers(where / "layers.onnx", 32, 9), {"x": (1, 9, 32)}),
        ]
        rng = np.random.default_rng(0)
        for case in plain:
            case.feeds["x"] = rng.normal(size=case.feeds["x"]).astype("float32")
            for form in q.cases(case, where, ""):
                model = onnx.load(form.path)
                here = lw.compile(model).run(form.feeds)["y"].numpy()
                with on(cpu):
                    there = lw.compile(model).run(form.feeds)["y"].numpy()
                step = np.abs(here).max() / (127 if form.name.count("-") > 1 else 1e5)
                apart = float(np.abs(here.astype("float64") - there).max())
                yield (
                    form.name,
                    "right" if apart <= step else "wrong",
                    f"apart by {apart}, a step: {step}",
                )


def suite(cpu: Cpu, every: int) -> Verdicts:
    """ONNX's own cases."""
    for index in range(0, len(cases.all_cases()), every):
        with on(cpu):
            outcome = cases.run(index)
        yield cases.all_cases()[index].name, outcome.kind, outcome.message


def random_networks(cpu: Cpu, every: int) -> Verdicts:
    """Random networks, every other one quantized."""
    for seed in range(max(2000 // every, 20)):
        with on(cpu):
            outcome = judge(networks.make(seed))
        yield f"seed {seed}", outcome.kind, f"{outcome.stage}: {outcome.message}"


SUITES: dict[str, Callable[[Cpu, int], Verdicts]] = {
    "quantized": quantized, "onnx": suite, "networks": random_networks,
}  # fmt: skip


def main() -> int:
    """Run, and print each that is not right as it comes, then the table."""
    parser = argparse.ArgumentParser(prog="python -m tools.aarch64", description=__doc__)
    parser.add_argument("--cpus", default=",".join(CPUS))
    parser.add_argument("--suites", default=",".join(SUITES))
    parser.add_argument("--every", type=int, default=20, help="of ONNX's cases, one in N")
    options = parser.parse_args()
    logging.disable(logging.WARNING)  # of onnxruntime's quantizer
    if missing():
        sys.exit(f"not installed: {', '.join(missing())} (make device-tools)")
    rows = []
    for name in options.suites.split(","):
        for cpu in options.cpus.split(","):
            kinds: Counter[str] = Counter()
            try:
                for what, kind, why in SUITES[name](CPUS[cpu], options.every):
                    kinds[kind] += 1
                    if kind != "right":
                        print(
                            f"{name} on {cpu}: {what}: {kind}: {' '.join(why.split())[:300]}",
                            flush=True,
                        )
            except (ImportError, LoopwrightError) as error:
                print(f"{name} on {cpu}: {error}")
            rows.append((name, cpu, kinds))
    print("\n| suite | features | qemu | right | of | others |\n|---|---|---|---|---|---|")
    for name, cpu, kinds in rows:
        others = ", ".join(f"{n} {kind}" for kind, n in kinds.items() if kind != "right")
        right, total = kinds["right"], kinds.total()
        print(
            f"| {name} | {CPUS[cpu].features} | {CPUS[cpu].qemu} | {right} | {total} | {others} |"
        )
    return int(any(kinds["wrong"] or kinds["error"] for *_, kinds in rows))


if __name__ == "__main__":
    sys.exit(main())
