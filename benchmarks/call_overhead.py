"""What a call costs: python -m benchmarks.call_overhead

A function that adds one to eight floats, called from numpy arrays and from tensors; beside it
onnxruntime on the same function, and numpy. Microseconds, best of many short runs in turn.
"""

from __future__ import annotations

import json
import timeit
from collections.abc import Callable

import numpy as np
import onnxruntime
from onnx import ModelProto, TensorProto, helper, numpy_helper

import loopwright

from .run import RESULTS

CALLS, ROUNDS = 2000, 30


def model() -> ModelProto:
    """y = x + 1 on eight floats, as ONNX."""
    graph = helper.make_graph(
        [helper.make_node("Add", ["x", "one"], ["y"], "/add")],
        "tiny",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [8])],
        [numpy_helper.from_array(np.ones(8, np.float32), "one")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def main() -> None:
    """Measure, print and store."""
    tiny = model()
    x = np.arange(8, dtype=np.float32)
    executable = loopwright.compile(tiny)
    entry = executable["main"]
    tensor = loopwright.runtime.tensor(x)
    session = onnxruntime.InferenceSession(tiny.SerializeToString())
    calls: dict[str, Callable[[], object]] = {
        "loopwright, exe['main'](ndarray)": lambda: entry(x),
        "loopwright, exe['main'](Tensor)": lambda: entry(tensor),
        "loopwright, exe.run(feeds)": lambda: executable.run({"x": x}),
        "onnxruntime, session.run": lambda: session.run(None, {"x": x}),
        "numpy, x + 1": lambda: x + np.float32(1),
        "an empty Python function": lambda: None,
    }
    np.testing.assert_array_equal(entry(x).numpy(), x + 1)
    best = dict.fromkeys(calls, float("inf"))
    for _ in range(ROUNDS):
        for name, call in calls.items():
            best[name] = min(best[name], timeit.timeit(call, number=CALLS) / CALLS * 1e6)
    for name, microseconds in best.items():
        print(f"{name:36} {microseconds:8.3f} us")
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / "call_overhead.json").write_text(json.dumps(best, indent=1) + "\n")


if __name__ == "__main__":
    main()
