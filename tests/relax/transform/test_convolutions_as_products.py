"""Convolutions by computed weights as products of matrices: the same numbers for each window, stride and padding."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import loopwright as lw
from loopwright import relax
from loopwright.ir.prim_expr import Var
from loopwright.relax import op
from loopwright.relax.interpreter import Interpreter
from loopwright.relax.transform import ConvolutionsAsProducts
from loopwright.relax.transform.legalize_ops.common import LEGALIZATIONS, register_legalize

Data = list[int | Var]


def network(
    kind: str, data: Data, weight: list[int], known: bool = False, **attrs: Any
) -> lw.IRModule:
    bb = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorStructInfo(data, "float32"))
    w = relax.Var("w", relax.TensorStructInfo(weight, "float32"))
    with bb.function("main", [x] if known else [x, w]):
        with bb.dataflow():
            by = relax.const(np.ones(weight, "float32")) if known else w
            made = bb.emit_output(bb.emit(getattr(op.nn, kind)(x, by, **attrs)))
        bb.emit_func_output(made)
    return bb.get()


def names(mod: lw.IRModule) -> list[str]:
    values = [b.value for block in mod["main"].body.blocks for b in block.bindings]
    return [v.op.name.removeprefix("relax.") for v in values if isinstance(v, relax.Call)]


PADDED = {"padding": [1, 0, 2, 1]}
CASES: list[tuple[str, list[int], list[int], dict[str, Any]]] = [
    ("conv1d", [2, 4, 7], [6, 4, 3], {"padding": [1, 1]}),
    ("conv2d", [2, 4, 7, 6], [6, 4, 3, 2], PADDED | {"strides": [2, 1], "dilation": [1, 2]}),
    ("conv2d", [2, 3, 9, 17], [6, 3, 3, 3], {"strides": [2, 2]}),
    ("conv3d", [2, 2, 5, 4, 3], [3, 2, 3, 2, 3], {"padding": [1, 0, 1, 1, 0, 1]}),
    ("conv1d_transpose", [2, 4, 5], [4, 3, 3], {"strides": [2], "output_padding": [1]}),
    ("conv2d_transpose", [2, 4, 5, 6], [4, 3, 3, 2], PADDED | {"dilation": [2, 1]}),
    ("conv2d_transpose", [2, 4, 3, 2], [4, 3, 3, 3], PADDED | {"strides": [2, 3]}),
]


@pytest.mark.parametrize("symbolic", [False, True])
@pytest.mark.parametrize(("kind", "data", "weight", "attrs"), CASES)
def test_the_same_numbers(
    rng: np.random.Generator, kind: str, data: list[int], weight: list[int], attrs: dict[str, Any], symbolic: bool
) -> None:  # fmt: skip
    mod = network(kind, [Var("n", "int64") if symbolic else 2, *data[1:]], weight, **attrs)
    new = ConvolutionsAsProducts(least=0)(mod)
    assert "matmul" in names(new)
    x, w = (rng.standard_normal(shape).astype("float32") for shape in (data, weight))
    want = Interpreter(mod)["main"](x, w).numpy()
    np.testing.assert_allclose(Interpreter(new)["main"](x, w).numpy(), want, atol=1e-5)
    np.testing.assert_allclose(lw.compile(new)(x, w).numpy(), want, atol=1e-5)


@pytest.mark.parametrize(
    ("kind", "shapes", "attrs"),
    [
        ("conv2d", ([1, 4, 8, 8], [4, 4, 1, 1]), {}),  # rows are whole vectors
        ("conv2d", ([1, 4, 3, 3], [4, 1, 1, 1]), {"groups": 4}),
        ("conv2d", ([1, 3, 3, 4], [4, 4, 1, 1]), {"data_layout": "NHWC"}),
        ("conv2d", ([512, 64, 99, 99], [4, 64, 3, 3]), {}),  # the columns take too much memory
        ("conv2d_transpose", ([1, 2, 3, 3], [2, 2, 3, 3]), {"strides": [1, 1], "dilation": [2, 2], "output_padding": [1, 1]}),
    ],
)  # fmt: skip
def test_what_stays(kind: str, shapes: tuple[Data, list[int]], attrs: dict[str, Any]) -> None:
    assert names(ConvolutionsAsProducts(least=0)(network(kind, *shapes, **attrs))) == [f"nn.{kind}"]


def test_constant_weights_and_little_work_stay() -> None:
    shapes = [2, 4, 5, 5], [4, 4, 3, 3]
    assert names(ConvolutionsAsProducts(least=0)(network("conv2d", *shapes, True))) == ["nn.conv2d"]
    assert names(ConvolutionsAsProducts()(network("conv2d", *shapes))) == ["nn.conv2d"]


def test_a_kernel_of_the_users_is_kept() -> None:
    mod = network("conv2d", [2, 4, 5, 5], [4, 4, 3, 3])
    with LEGALIZATIONS.registry.snapshot(), lw.Target("llvm"):
        register_legalize("relax.nn.conv2d", lambda bb, call: None, target="llvm")
        assert names(ConvolutionsAsProducts(least=0)(mod)) == ["nn.conv2d"]
