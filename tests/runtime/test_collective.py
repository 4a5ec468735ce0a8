"""Collectives: the operators of `relax.ccl` between workers, which are threads here."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import loopwright as lw
from loopwright import relax
from loopwright.base.errors import LoopwrightError
from loopwright.frontend import nn
from loopwright.runtime.collective import COMMUNICATOR, Alone
from loopwright.script import ir as I
from loopwright.script import relax as R

from ..engines.sharded import compiled, feeds

SIZE = 2
REDUCE = {"sum": np.add, "prod": np.multiply, "min": np.minimum, "max": np.maximum}


class Threads:
    """One of several workers in threads of this process."""

    def __init__(self, rank: int, barrier: threading.Barrier, boxes: list[Any]) -> None:
        self.rank, self.size, self.barrier, self.boxes = rank, len(boxes), barrier, boxes

    def _all(self, array: np.ndarray) -> list[np.ndarray]:
        self.boxes[self.rank] = array.copy()
        self.barrier.wait(20)
        arrays = list(self.boxes)
        self.barrier.wait(20)
        return arrays

    def allreduce(self, array: np.ndarray, op: str) -> None:
        array[...] = REDUCE[op].reduce(self._all(array))

    def broadcast(self, array: np.ndarray, root: int) -> None:
        array[...] = self._all(array)[root]

    def allgather(self, part: np.ndarray, whole: np.ndarray) -> None:
        whole[...] = np.concatenate(self._all(part))


def workers(call: Callable[[int, Any], Any], size: int = SIZE) -> list[Any]:
    """What each of the workers returns."""
    barrier, boxes = threading.Barrier(size), [None] * size
    with ThreadPoolExecutor(size) as pool:
        return list(pool.map(lambda rank: call(rank, Threads(rank, barrier, boxes)), range(size)))


@pytest.mark.parametrize("kind", ["mlp", "block"])
def test_sharded_models(kind):
    expected = np.asarray(compiled(kind, 1, 0, 1).run(feeds(kind), function="forward")["out"])
    models = [compiled(kind, SIZE, rank, 1) for rank in range(SIZE)]
    results = workers(lambda rank, c: models[rank].run(feeds(kind), function="forward", comm=c))
    for result in results:
        np.testing.assert_allclose(result["out"], expected, rtol=1e-5, atol=1e-5)


@I.ir_module
class Operators:
    @R.function
    def main(x: R.Tensor((2, 4), "float32")):
        with R.dataflow():
            doubled = R.add(x, x)
            total = R.ccl.allreduce(doubled, "sum")
            product = R.ccl.allreduce(x, "prod")
            most = R.ccl.allreduce(x, "max")
            mean = R.ccl.allreduce(x, "avg")
            first = R.ccl.broadcast_from_worker0(x)
            every = R.ccl.allgather(x, 2)
            part = R.ccl.scatter_from_worker0(x, 2, axis=1)
            rows = R.ccl.scatter_from_worker0(doubled, 2)
            out = (total, product, most, mean, first, every, part, rows)
            R.output(out)
        return out


def _expected(xs: list[np.ndarray], rank: int) -> list[np.ndarray]:
    a, b = xs
    most, halves = np.maximum(a, b), np.split(a, 2, 1)
    return [
        2 * (a + b),
        a * b,
        most,
        (a + b) / 2,
        a,
        np.concatenate(xs),
        halves[rank],
        (2 * a)[rank : rank + 1],
    ]


def test_each_operator(tmp_path):
    xs = [np.random.default_rng(k).standard_normal((2, 4)).astype("float32") for k in range(2)]
    exe = lw.compile(Operators)
    exe.export_library(tmp_path / "model.so")
    for model in (exe, lw.runtime.load_module(tmp_path / "model.so")):
        results = workers(lambda rank, c: model.run([xs[rank]], comm=c))  # noqa: B023
        for rank, result in enumerate(results):
            for value, right in zip(result.values(), _expected(xs, rank), strict=True):
                np.testing.assert_allclose(value, right, rtol=1e-6)


@pytest.mark.parametrize("dtype", ["float16", "int32"])
def test_other_dtypes(dtype):
    bb = relax.BlockBuilder()
    x = relax.Var("x", R.Tensor((3,), dtype))
    with bb.function("main", [x]):
        bb.emit_func_output(bb.emit(relax.op.ccl.allreduce(x)))
    exe, value = lw.compile(bb.get()), np.arange(3).astype(dtype)
    for result in workers(lambda rank, c: exe.run([value], comm=c)):
        assert np.array_equal(result["out"], value + value) and result["out"].dtype == dtype


def test_constants_are_not_folded():
    """What other workers have is not known when a model is compiled."""
    bb = relax.BlockBuilder()
    with bb.function("main", []):
        ones = relax.const(np.ones(3, "float32"))
        bb.emit_func_output(bb.emit(relax.op.ccl.allreduce(ones)))
    exe = lw.compile(bb.get())
    for result in workers(lambda rank, c: exe.run(comm=c), 3):
        assert np.array_equal(result["out"], [3, 3, 3])


def test_refusals():
    exe, x = lw.compile(Operators), np.ones((2, 4), "float32")
    token = COMMUNICATOR.set(None)
    try:
        with pytest.raises(LoopwrightError, match=r"one of several workers\s+got: no communicator"):
            exe["main"](x)
    finally:
        COMMUNICATOR.reset(token)
    with pytest.raises(LoopwrightError, match=r"one of 2 workers\s+got: a communicator of 1"):
        exe.run([x], comm=Alone())
    with pytest.raises(TypeError, match="int without rank, size, allreduce"):
        exe.run([x], comm=3)
    with pytest.raises(ValueError, match=r"out_features are cut into 3 equal parts\s+got: 64"):
        nn.Linear(8, 64, shard="column", tensor_parallel_shards=3)
    with pytest.raises(ValueError, match="is cut by columns or rows"):
        nn.Linear(8, 64, tensor_parallel_shards=2)
    layer = nn.Linear(8, 4, bias=False, shard="row", tensor_parallel_shards=2)
    with pytest.raises(ValueError, match=r"of a worker has the shape \(4, 4\)"):
        nn.shard_params(layer, {"weight": np.ones((3, 8), "float32")}, 0)


def test_segments():
    """A joined weight of queries and keys: each worker has its part of both."""
    cut = nn.ShardSingleDim("qk", 0, [4, 2])
    assert cut.part(np.arange(6), 1, 2).tolist() == [2, 3, 5]
    with pytest.raises(ValueError, match="is cut into 4 equal parts"):
        cut.part(np.arange(6), 0, 4)
