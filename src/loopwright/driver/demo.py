"""`make demo`: a trained network from file to machine code, with each step shown.

    python -m loopwright.driver.demo [MODEL.onnx]

Without an argument the bundled digit classifier is used (and the output says so).
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from ..codegen.llvm.executable import Executable
from ..frontend.onnx import from_onnx
from ..ir import trace as tracing
from ..ir.module import IRModule
from ..ir.target import Target
from ..relax.expr import Function
from ..runtime import threads
from ..tir.function import PrimFunc
from .console import report
from .steps import DEFAULT_TARGET, compile_steps

BUNDLED = Path(__file__).parent / "data" / "digits.onnx"


def main(argv: list[str]) -> int:
    """Run the demo; the exit status is 0 if the result was right."""
    path = Path(argv[0]) if argv else BUNDLED
    if not argv:
        print("no model was given: this is the bundled one, which reads digits of 16 x 16 pixels\n")
    started = time.perf_counter()
    mod = from_onnx(str(path))
    imported = time.perf_counter()
    print(f"model   {path.name} ({path.stat().st_size / 1e6:.1f} MB)")
    print(f"target  {Target(DEFAULT_TARGET)}\n")
    with tracing.trace() as trace:
        exe, steps = compile_steps(mod)
    ready = time.perf_counter()
    _stages(trace, steps, mod, imported - started, ready - started)
    _one_kernel(trace, exe)
    feeds = _feeds(exe)
    return _run(path, exe, feeds)


def _count(mod: IRModule) -> str:
    graphs = [f for f in mod.functions.values() if isinstance(f, Function)]
    kernels = [f for f in mod.functions.values() if isinstance(f, PrimFunc)]
    bindings = sum(len(b.bindings) for f in graphs for b in f.body.blocks)
    return f"{bindings:>4} bindings  {len(kernels):>3} kernels"


def _stages(
    trace: tracing.Trace, steps: dict[str, float], mod: IRModule, importing: float, total: float
) -> None:
    print(f"{'stage':<34}{'ms':>8}   module after it")
    print(f"{'import':<34}{importing * 1e3:>8.1f}   {_count(mod)}")
    for record in trace:
        if record.depth <= 1 and not record.group and record.after is not None:
            print(f"{record.name:<34}{record.ms:>8.1f}   {_count(record.after)}")
    for name, seconds in steps.items():
        print(f"{name:<34}{seconds * 1e3:>8.1f}")
    print(f"{'from file to ready':<34}{total * 1e3:>8.1f}\n")


def _head(title: str, text: str, lines: int) -> None:
    rows = [row[:118] for row in text.splitlines()]
    print(f"--- {title} ".ljust(100, "-"))
    print("\n".join(rows[:lines]))
    if len(rows) > lines:
        print(f"    ... {len(rows) - lines} more lines")
    print()


def _one_kernel(trace: tracing.Trace, exe: Executable) -> None:
    """One fused kernel at every level."""
    fused = trace.last("NameDimensions").after
    names = [g.name_hint for g, f in fused.functions.items() if isinstance(f, PrimFunc)]
    kernels = [n for n in names if n in exe.program.texts]
    name = max(kernels, key=lambda n: (n.count("_"), "conv" in n, -len(exe.program.texts[n])))
    main = next(f for g, f in fused.functions.items() if isinstance(f, Function))
    graph = [row for row in main.script().splitlines() if f"({name}, " in row]
    print(f"one fused kernel, {name}, at each level:\n")
    _head("graph (Relax)", "\n".join(row.strip() for row in graph), 2)
    _head("loops (TensorIR), as fused", fused[name].script(), 24)
    _head("loops, scheduled and lowered", _middle(exe.lowered[name].script()), 20)
    _head("LLVM", _middle(exe.program.text(name), "fmul contract"), 16)
    _head("assembly", _middle(exe.program.assembly(name), "vfmadd"), 14)


def _middle(text: str, mark: str = "Broadcast") -> str:
    """A text from two lines before the first with `mark` on."""
    rows = text.splitlines()
    hits = [k for k, row in enumerate(rows) if mark in row]
    start = max(hits[0] - 2, 0) if hits else 0
    return "\n".join(rows[start:])


def _feeds(exe: Executable) -> dict[str, np.ndarray]:
    """Random inputs; symbolic sizes are 256 for images, otherwise 1."""
    feeds = {}
    for (_, dtype, shape), name in zip(exe.inputs(), exe.input_names(), strict=True):
        dims = [d if isinstance(d, int) else (1 if k == 0 else 256) for k, d in enumerate(shape)]
        values = np.random.default_rng(0).random(dims, np.float32)
        feeds[name] = (values * 255).astype(dtype)
    return feeds


def _time(call: Callable[[], Any], seconds: float = 1.0) -> float:
    """Median milliseconds of a call."""
    call()
    took, end = [], time.perf_counter() + seconds
    while time.perf_counter() < end or len(took) < 5:
        start = time.perf_counter()
        call()
        took.append((time.perf_counter() - start) * 1e3)
    return statistics.median(took)


def _run(path: Path, exe: Executable, feeds: dict[str, np.ndarray]) -> int:
    shapes = ", ".join(f"{n}: {'x'.join(map(str, v.shape))}" for n, v in feeds.items())
    print(f"running on {shapes}, {threads.num_threads()} threads")
    results = exe.run(feeds)
    latency = _time(lambda: exe.run(feeds))
    print(f"  loopwright   {latency:9.3f} ms")
    try:
        import onnx
        import onnxruntime
    except ImportError:
        print("  onnxruntime is not installed: nothing to compare with")
        return 0
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    model = onnx.load(path)
    weights = {w.name for w in model.graph.initializer}
    inputs = [i for i in model.graph.input if i.name not in weights]
    del model.graph.input[:]  # weights among the inputs are not constants to onnxruntime
    model.graph.input.extend(inputs)
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    reference = session.run(None, feeds)
    other = _time(lambda: session.run(None, feeds))
    print(
        f"  onnxruntime  {other:9.3f} ms   (loopwright takes {latency / other:.2f} times as long)"
    )
    worst = 0.0
    for got, want in zip(results.values(), reference, strict=True):
        want = np.asarray(want)
        scale = float(np.abs(want).max()) or 1.0
        worst = max(worst, float(np.abs(got.numpy() - want).max()) / scale)
    right = worst <= 1e-4
    verdict = "equal" if right else "WRONG"
    print(f"  results {verdict}: greatest relative difference {worst:.1e}")
    return 0 if right else 1


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except Exception as error:
        sys.exit(report(error))
