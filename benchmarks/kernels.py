"""Each kernel of a model beside its floor: python -m benchmarks.kernels MODEL [--threads N]

MODEL is a name of benchmarks/models.py or an ONNX file (symbolic sizes: `--size`). The floor of a
kernel is the greater of its arithmetic at this machine's peak and its arguments' bytes at this
machine's bandwidth, both measured first. Operations are counted in the loops before they are
scheduled: an addition, a multiplication, a maximum, a call of a function are one each; what is done
for padding counts, index arithmetic does not. Kernels are called one by one, each several times in
a row with warm caches, so their sum may lie below the model's latency.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import loopwright as lw
from loopwright.explore.machine import machine
from loopwright.ir.functor import Visitor
from loopwright.ir.prim_expr import BinaryOpExpr, Call, CmpExpr, PrimExpr, Var
from loopwright.relax.interpreter import Interpreter, evaluate_scalar
from loopwright.runtime import threads
from loopwright.tir import Block, BufferStore, For, PrimFunc

from .models import load, names


def seconds(call: Callable[[], Any], least: int = 5, length: float = 0.05) -> float:
    """The least time of a call, over several."""
    call()
    best, count, end = float("inf"), 0, time.perf_counter() + length
    while count < least or time.perf_counter() < end:
        start = time.perf_counter()
        call()
        best = min(best, time.perf_counter() - start)
        count += 1
    return best


class _Counter(Visitor):
    """Adds up floating-point operations of a PrimFunc with blocks."""

    def __init__(self, sizes: dict[Var, int]) -> None:
        self.sizes = sizes
        self.times = 1
        self.found = 0

    def visit_For(self, node: For) -> None:
        times = self.times
        self.times *= int(evaluate_scalar(node.extent, self.sizes))
        self.visit(node.body)
        self.times = times

    def visit_Block(self, node: Block) -> None:
        self.visit(node.body)

    def visit_BufferStore(self, node: BufferStore) -> None:
        self.visit(node.value)

    def visit_BufferLoad(self, node: Any) -> None:
        """Indices are not counted."""

    def visit_PrimExpr(self, node: PrimExpr) -> None:
        computes = isinstance(node, (BinaryOpExpr, Call)) and not isinstance(node, CmpExpr)
        if computes and node.dtype.is_float and not _selects(node):
            self.found += self.times
        self.visit_default(node)


def _selects(node: PrimExpr) -> bool:
    return isinstance(node, Call) and node.op.name == "tir.if_then_else"


def operations(func: PrimFunc, args: list[Any]) -> int:
    """Floating-point operations of a call with these arguments."""
    sizes: dict[Var, int] = {}
    for param, arg in zip(func.params, args, strict=True):
        if param in func.buffer_map:
            # A packed weight has another rank; its extents are numbers.
            for dim, size in zip(func.buffer_map[param].shape, arg.shape, strict=False):
                if isinstance(dim, Var):
                    sizes[dim] = size
        elif isinstance(arg, int):
            sizes[param] = arg
    counter = _Counter(sizes)
    try:
        counter.visit(func.body)
    except KeyError:  # an extent of other loops' variables: a kernel on bytes, written as it runs
        return 0
    return counter.found


@dataclass
class Row:
    """What the calls of one kernel came to."""

    calls: int = 0
    seconds: float = 0.0
    flops: int = 0
    bytes: int = 0


def measure(model: Any, feeds: dict[str, np.ndarray]) -> dict[str, Row]:
    """Every kernel of a model, called with what it gets in a run on `feeds`."""
    trace = lw.lower(model)
    scheduled = trace.last("DeadCodeElimination").after
    plain = {g.name_hint: f for g, f in trace["ApplyDefaultSchedule"].before.functions.items()}
    kernels = {g.name_hint: f for g, f in scheduled.functions.items() if isinstance(f, PrimFunc)}
    public = {name: f.with_attr("global_symbol", name) for name, f in kernels.items()}
    compiled = lw.compile(lw.IRModule(public), relax_pipeline=[])
    called = {id(f): name for name, f in kernels.items()}
    rows: dict[str, Row] = {}

    def run(func: PrimFunc, args: list[Any]) -> None:
        name = called[id(func)]
        native = compiled[name]
        given = [np.asarray(a, order="C") if isinstance(a, np.ndarray) else a for a in args]
        row = rows.setdefault(name, Row())
        row.calls += 1
        # Arrays that nobody may write, as constants are, would be copied by each call.
        ready = [np.require(a, requirements="W") if isinstance(a, np.ndarray) else a for a in given]
        row.seconds += seconds(lambda: native(*ready), length=0.01)
        row.flops += operations(plain[name.removesuffix("_prepacked")], given)
        row.bytes += sum(a.nbytes for a in given if isinstance(a, np.ndarray))
        for original, used in zip(args, ready, strict=True):
            if original is not used and original.flags.writeable:
                original[...] = used

    graph = Interpreter(scheduled, run_tir=run)
    params = lw.compile(model).input_names()
    graph["main"](*(feeds[name] for name in params))
    return rows


def main() -> None:
    """Measure the machine, then the model's kernels; print the table, the dearest first."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.kernels",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("model", help=f"an ONNX file, or one of {' '.join(names())}")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--size", type=int, default=1, help="value of a file's symbolic sizes")
    options = parser.parse_args()
    threads.set_num_threads(options.threads)
    flops, rate = (figure * 1e9 for figure in machine())
    print(f"{options.threads} threads: {flops / 1e9:.0f} GF/s peak, {rate / 1e9:.1f} GB/s\n")
    if Path(options.model).exists():
        path, feeds = Path(options.model), _feeds(options.model, options.size)
    else:
        case = load(options.model)
        path, feeds = case.path, case.feeds
    rows = measure(str(path), feeds)
    total = sum(row.seconds for row in rows.values())
    print(f"{'kernel':44} calls {'us':>9}  part {'GF/s':>7} {'GB/s':>6} {'floor us':>9} of it")
    for name, row in sorted(rows.items(), key=lambda item: -item[1].seconds):
        floor = max(row.flops / flops, row.bytes / rate)
        print(
            f"{name[-44:]:44} {row.calls:5} {row.seconds * 1e6:9.1f} {row.seconds / total:5.0%} "
            f"{row.flops / row.seconds / 1e9:7.1f} {row.bytes / row.seconds / 1e9:6.1f} "
            f"{floor * 1e6:9.1f} {floor / row.seconds:5.0%}"
        )
    floors = sum(max(row.flops / flops, row.bytes / rate) for row in rows.values())
    print(f"{'all':50} {total * 1e6:9.1f} {'':29} {floors * 1e6:9.1f} {floors / total:5.0%}")


def _feeds(path: str, size: int) -> dict[str, np.ndarray]:
    """Random inputs."""
    exe = lw.compile(path)
    rng = np.random.default_rng(0)
    return {
        name: rng.random([d if isinstance(d, int) else size for d in shape]).astype(dtype)
        for name, (_, dtype, shape) in zip(exe.input_names(), exe.inputs(), strict=True)
    }


if __name__ == "__main__":
    main()
