"""How large what FoldConstant evaluates may be: the last call that is folded and the first that is not."""

from __future__ import annotations

import numpy as np
import pytest

from loopwright import relax, tir
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


def places(ndim: int) -> relax.Call:
    """Where each axis of a resized tensor is read: ndim times 3 numbers."""
    sizes = relax.const(np.full(ndim, 4))
    args = [relax.ShapeExpr([2] * ndim), sizes, relax.PrimValue(False), relax.StringImm("stretch")]
    info = relax.TensorStructInfo((ndim, 3), "float64")
    return op.call_pure_packed("relax.run.resize_places", *args, sinfo_args=info)


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
        ({"_SIZES": 12}, places(4), places(5)),
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

    seen = []

    def interpreted(kernel, arrays):
        seen.append(kernel)
        tir.interpreter.run(kernel, arrays)

    for fold in (FoldConstant(), FoldConstant(evaluator=interpreted)):
        assert ("R.call_tir" not in fold(Module).script()) == folded
    assert len(seen) == folded


def test_a_function_that_is_a_value_is_not_called():
    bb, made = relax.BlockBuilder(), relax.Var("f", relax.ObjectStructInfo())
    with bb.function("main", [made]):
        call = op.call_pure_packed(made, relax.const(1), sinfo_args=relax.ShapeStructInfo(ndim=1))
        bb.emit_func_output(bb.emit(call))
    assert FoldConstant()(bb.get())["main"].script() == bb.get()["main"].script()


def test_sizes_that_the_run_would_tell():
    """They are known one after the other, also through a symbol; another's functions are not called."""

    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor((8,), "float32")):
            a, b = T.int64(), T.int64()
            told = R.call_pure_packed(
                "relax.run.within", R.const(3, "int64"), R.prim_value(8), sinfo_args=R.Shape(ndim=1)
            )
            R.match_cast(told, R.Shape([a]))
            again = R.call_pure_packed(
                "vm.builtin.tensor_to_shape",
                R.shape_to_tensor(R.shape([a + 1])),
                sinfo_args=R.Shape(ndim=1),
            )
            R.match_cast(again, R.Shape([b]))
            mine = R.call_pure_packed("test.mine", R.shape([a]), sinfo_args=R.Shape(ndim=1))
            return (R.zeros(R.shape([a]), "float32"), R.strided_slice(x, [0], [0], [b]), mine)

    main = FoldConstant()(Module)["main"]
    zeros, part, mine = main.struct_info.ret.fields
    assert [str(i) for i in (zeros, part, mine)] == [
        'R.Tensor((3,), dtype="float32")', 'R.Tensor((4,), dtype="float32")', "R.Shape(ndim=1)",
    ]  # fmt: skip
    assert main.script().count("call_pure_packed") == 1
