"""Planned memory, recorded stores and times, of small programs that are written by hand."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import loopwright as lw
from loopwright.base.errors import LoopwrightError
from loopwright.driver import peers
from loopwright.explore import bisect, timing
from loopwright.explore.explored import Explored
from loopwright.explore.memory import memory_of
from loopwright.explore.recording import recorded, sizes_of
from loopwright.explore.running import Event
from loopwright.runtime.profiler import Profile
from loopwright.script import from_source

from ..programs import graph, pointwise

pytestmark = [pytest.mark.no_roundtrip, pytest.mark.no_verify]

PLANNED = """
@I.ir_module
class Module:
    @T.prim_func(private=True)
    def twice(x: T.Buffer((4,), "float32"), y: T.Buffer((4,), "float32")):
        for i in range(4):
            y[i] = x[i] * T.float32(2)

    @R.function(pure=False)
    def main(x: R.Tensor((4,), "float32"), z: R.Tensor(("n",), "float32")):
        n = T.int64()
        cls = Module
        a = R.memory.alloc_storage(R.shape([65]), R.prim_value(0), R.str("global"), R.dtype("uint8"))
        b = R.memory.alloc_storage(R.shape([n * 4]), R.prim_value(0), R.str("global"), R.dtype("uint8"))
        p = R.memory.alloc_tensor(a, R.prim_value(0), R.shape([4]), R.dtype("float32"))
        q = R.memory.alloc_tensor(b, R.prim_value(0), R.shape([4]), R.dtype("float32"))
        unused = R.memory.alloc_tensor(b, R.prim_value(0), R.shape([4]), R.dtype("float32"))
        _: R.Tuple = cls.twice(x, p)
        _1: R.Tuple = cls.twice(p, q)
        _2: R.Tuple = cls.twice(x, p)
        return q
"""


def planned(mod: Any, sizes: dict[str, int]) -> Any:
    after = {g.name_hint: f for g, f in mod.functions.items()}
    steps = [SimpleNamespace(name="StaticPlanBlockMemory", after=after)]
    sets = iter(range(5, 99))
    return memory_of(SimpleNamespace(steps=steps), sizes, lambda nodes: next(sets))  # type: ignore[arg-type]


def test_memory_that_was_planned() -> None:
    """Storages begin at multiples of 64 bytes; a tensor is of the set of the call that made it first."""
    found = planned(from_source(PLANNED), {"n": 4})
    assert found["steps"] == ["twice"] * 3 and found["bytes"] == 128 + 64
    p = {"name": "p", "offset": 0, "bytes": 16, "set": 5, "first": 0, "last": 2}
    q = {"name": "q", "offset": 128, "bytes": 16, "set": 6, "first": 1, "last": 3}
    assert found["tensors"] == [p, q]
    assert planned(from_source(PLANNED), {})["bytes"] == 128 + 64  # n counts as 1
    assert planned(from_source(PLANNED), {"n": 17})["bytes"] == 128 + 128


def test_memory_that_was_not_planned() -> None:
    assert planned(graph("a = R.exp(x)", x=(8,)), {}) is None
    assert memory_of(SimpleNamespace(steps=[]), {}, len) is None  # type: ignore[arg-type]
    none: Any = SimpleNamespace(unscheduled=None)
    assert Explored.work(none, "kernel", {}) == {}


KERNEL = """
@T.prim_func
def kernel(n: T.int32, A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32x4")):
    for i in range(4):
        A[i] = T.Cast("float32", n)
        B[i] = B[i] + B[i]
"""


def test_stores_of_vectors_are_not_recorded() -> None:
    func = from_source(KERNEL)
    n = func.params[0]
    assert [b.name for b in recorded(func).shadows] == ["A"]
    assert len(recorded(func).statements) == 1
    assert sizes_of(func, [3, np.zeros(4), np.zeros(4)]) == {n: 3}
    pairs = pointwise("pairs", "X[vi, vj] + X[vi, vj]")
    sizes = {v.name: size for v, size in sizes_of(pairs, [np.zeros((3, 5))] * 2).items()}
    assert sizes == {"n": 3, "m": 5}


def test_parts_of_a_search(monkeypatch: pytest.MonkeyPatch) -> None:
    found: Any = object.__new__(bisect._Search)  # nothing is compiled
    found.peer = None
    assert found.imported() == {}  # nobody to ask
    kernel = pointwise("product", "X[vi, vj] * X[vi, vj]")
    args = [np.full((1, 2), 3, "float32"), np.zeros((1, 2), "float32")]
    event = Event(None, [], kernel, args)
    mod = lw.IRModule({"product": kernel})
    _, got = found.interpreted(event, mod)
    assert got.tolist() == [[9, 9]]
    assert not args[1].any()  # a copy was written
    for most, runs in ((1, False), (2, True)):  # 2 operations
        monkeypatch.setattr(bisect, "_INTERPRETED", most)
        assert (found.interpreted(event, mod) is not None) == runs
    bare = kernel.replace(buffer_map={})
    assert found.statement(mod, bare, args, []) == {}


def test_models_of_onnx(tmp_path: Any) -> None:
    onnx = pytest.importorskip("onnx")
    model = onnx.ModelProto(ir_version=8)
    assert peers.as_proto(model) is model
    onnx.save(model, tmp_path / "a.onnx")
    assert peers.as_proto(tmp_path / "a.onnx") == model
    with pytest.raises(LoopwrightError, match="only ONNX models have this evaluator\n  got: int"):
        peers.as_proto(3)


def test_times_of_what_cannot_be_profiled() -> None:
    class Program:
        profiles = True

        def input_names(self) -> list[str]:
            return ["x", "k"]

        def inputs(self) -> Any:
            return [("x", "float32", ("n", 4)), ("k", "int64", ())]

        def __getitem__(self, name: str) -> Any:
            return lambda *args: None

        def profile(self, *args: Any) -> Any:
            if not self.profiles:
                raise LoopwrightError("it cannot be profiled")
            return Profile([("exp", us) for us in (1.0, 2.0, 1.0, 2.0)])

    program, inputs = Program(), {"x": np.zeros((3, 4)), "k": 5}
    times = timing.timed(program, inputs, 2)
    assert times.medians() == {"exp": (6.0, 4)} and times.sizes == {"n": 3}
    assert times.runs == {"exp": [6.0, 6.0]} and len(times.calls) == 2
    program.profiles = False
    times = timing.timed(program, inputs, 2)
    assert times.runs == {} and len(times.calls) == 2 and times.sizes == {"n": 3}
