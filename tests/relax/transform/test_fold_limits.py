"""How large what FoldConstant evaluates may be: the last call that is folded and the first that is not."""

from __future__ import annotations

import numpy as np
import pytest

from loopwright import relax
from loopwright.relax import op
from loopwright.relax.transform import FoldConstant
from loopwright.relax.transform.graph import fold_constant
from loopwright.script import ir as I
from loopwright.script import relax as R
from loopwright.script import tir as T


def folds(call: relax.Call) -> bool:
    bb = relax.BlockBuilder()
    with bb.function("main", []):
        bb.emit_func_output(bb.emit(call))
    return "R." + call.op.name.removeprefix("relax.") not in FoldConstant()(bb.get()).script()


def ones(*shape: int) -> relax.Constant:
    return relax.const(np.ones(shape, "float32"))


@pytest.mark.parametrize(
    ("limits", "last", "first"),
    [
        # So many elements are always few; else four for each of the arguments.
        ({"_SMALL": 8, "_GROWTH": 4}, op.broadcast_to(ones(1), (8,)), op.broadcast_to(ones(1), (9,))),
        ({"_SMALL": 8, "_GROWTH": 4}, op.broadcast_to(ones(3), (4, 3)),
         op.broadcast_to(ones(3), (5, 3))),
        ({"_SMALL": 2, "_GROWTH": 1}, op.concat([ones(2), ones(3)]), op.tile(ones(3), [2])),
        # Products of numbers: 2 * 3 * 4 and 2 * 3 * 5.
        ({"_PRODUCT": 24}, op.matmul(ones(2, 3), ones(3, 4)), op.matmul(ones(2, 3), ones(3, 5))),
        ({"_PRODUCT": 0, "_WINDOWS": 24}, op.einsum([ones(2, 3), ones(3, 4)], "ij,jk->ik"),
         op.einsum([ones(2, 3), ones(3, 5)], "ij,jk->ik")),
        ({"_WINDOWS": 36}, op.nn.max_pool2d(ones(1, 1, 4, 4), (2, 2), (1, 1)),
         op.nn.max_pool2d(ones(1, 1, 4, 5), (2, 2), (1, 1))),
        ({"_WINDOWS": 0}, op.add(ones(4), ones(4)), op.nn.max_pool2d(ones(1, 1, 2, 2), (2, 2))),
        ({"_WINDOW": 3}, op.nn.pad(ones(2), (3, 0)), op.nn.pad(ones(2), (0, 4))),
    ],
)  # fmt: skip
def test_limits(limits, last, first, monkeypatch):
    for name, value in limits.items():
        assert isinstance(getattr(fold_constant, name), int)
        monkeypatch.setattr(fold_constant, name, value)
    assert folds(last) and not folds(first)


@pytest.mark.parametrize(("size", "folded"), [(4, True), (5, False)])
def test_turns_of_kernels(size, folded, monkeypatch):
    """Two elements in 8 turns, or in 10."""
    monkeypatch.setattr(fold_constant, "_SMALL", 8)
    monkeypatch.setattr(fold_constant, "_GROWTH", 4)

    @I.ir_module
    class Module:
        @T.prim_func(private=True)
        def total(x: T.Buffer((2, size), "float32"), y: T.Buffer((2,), "float32")):
            for i, j in T.grid(2, size):
                with T.block("y"):
                    vi, vj = T.axis.remap("SR", [i, j])
                    with T.init():
                        y[vi] = T.float32(0)
                    y[vi] = y[vi] + x[vi, vj]

        @R.function
        def main() -> R.Tensor((2,), "float32"):
            cls = Module
            with R.dataflow():
                a = R.const(np.ones((2, size), "float32"))
                b = R.call_tir(cls.total, (a,), out_sinfo=R.Tensor((2,), "float32"))
                R.output(b)
            return b

    assert ("R.call_tir" not in FoldConstant()(Module).script()) == folded
