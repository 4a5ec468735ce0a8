"""Weights: constants without values, folded and packed by recipes."""

from __future__ import annotations

import numpy as np
import pytest

import loopwright as lw
from loopwright.relax import expr as rx
from loopwright.relax import op
from loopwright.relax.block_builder import BlockBuilder
from loopwright.relax.struct_info import TensorStructInfo
from loopwright.relax.weights import transform_module
from loopwright.runtime.tensor import Tensor
from loopwright.runtime.weights import UnknownValues, Weight, Weights

# Text and JSON would have to hold values.
pytestmark = pytest.mark.no_roundtrip

SHAPES = [(8, 3, 3, 3), (8,), (8,), (8,), (8,), (8, 5)]


def network(constants: list[Tensor]) -> lw.IRModule:
    """A convolution with a batch norm, and a product."""
    weight, gamma, beta, mean, var, matrix = map(rx.Constant, constants)
    builder = BlockBuilder()
    x = rx.Var("x", TensorStructInfo((2, 3, 6, 6), "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            y = builder.emit(op.nn.conv2d(x, weight, padding=1))
            y = builder.emit(op.nn.batch_norm(y, gamma, beta, mean, var, axis=1, training=False)[0])
            y = builder.emit(op.mean(op.nn.relu(y), [2, 3]))
            y = builder.emit_output(op.matmul(y, matrix))
        builder.emit_func_output(y)
    return builder.finalize()


def test_weights_are_packed_as_constants_are(rng: np.random.Generator) -> None:
    values = [rng.uniform(0.5, 1.5, shape).astype("float32") for shape in SHAPES]
    family = Weights()
    roots = [Weight(family, shape, "float32") for shape in SHAPES]
    exe, expected = lw.compile(network(roots)), lw.compile(network([Tensor(v) for v in values]))
    assert exe.program.objects.keys() == expected.program.objects.keys()
    packed = [w for w in family.stored() if w.recipe is not None]
    (plain,) = (w for w in family.stored() if w.recipe is None)  # a small product takes it as it is
    assert plain is roots[-1] and len(packed) == 2
    transform = lw.compile(transform_module(roots, packed))
    x = rng.uniform(-1, 1, (2, 3, 6, 6)).astype("float32")
    for factor in (1.0, 2.0):
        scaled = [v * np.float32(factor) for v in values]
        transform["main"](*scaled, out=[w.storage() for w in packed])
        plain.storage()[...] = scaled[-1]
        fixed = lw.compile(network([Tensor(v) for v in scaled]))
        np.testing.assert_allclose(exe(x).numpy(), fixed(x).numpy(), rtol=1e-5, atol=1e-5)


def test_their_values_are_not_known() -> None:
    weight = Weight(Weights(), (2, 3), "float32")
    with pytest.raises(UnknownValues, match="not known while a model is compiled"):
        weight.numpy()
    assert weight.family.were_read
    assert weight.shape == (2, 3) and weight.strides == (3, 1) and weight.nbytes == 24
    assert "Weight[2, 3]" in repr(weight)
