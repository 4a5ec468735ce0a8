"""Arguments that operators must not take in silence."""

from __future__ import annotations

import numpy as np
import pytest

import loopwright
from loopwright import relax, tir
from loopwright.relax import op
from loopwright.relax.struct_info import TensorStructInfo

n = tir.Var("n", "int64")


def tensor(*shape, dtype="float32"):
    return relax.Var("x", TensorStructInfo(shape, dtype))


def packed(data=("float32",), planes=1, **attrs):
    """A product of 64 columns by 64 rows of four bits, as far as it is not changed."""
    rows = [tensor(2, 64 if k == 0 else 2, dtype=t) for k, t in enumerate(data)]
    parts = [tensor(1, 8, 64, 4, dtype="uint8")] * planes, [tensor(1, 2, 64)]
    return op.nn.matmul_packed(rows, *parts, **attrs)


REFUSED = {
    "bits must say 1, 2, 4 or 8 for each plane": lambda: packed(bits=(4, 2)),
    "block must be a multiple of 4": lambda: packed(block=6),
    "data must be the results of quantize_blocks": lambda: packed(["int8"]),
    "float32 numbers, the sums of their blocks": lambda: packed(zero=8),
    "a plane must have the shape (1, 4, 64, 4)": lambda: packed(block=16),
    "a block of bytes has at most 65536 rows": lambda: op.nn.matmul_packed(
        [tensor(2, 1 << 17, dtype="int8"), tensor(2, 1), tensor(2, 1, dtype="int32")],
        [tensor(1, 1 << 14, 64, 4, dtype="uint8")],
        [tensor(1, 1, 64)],
        block=1 << 17,
    ),
    "block must be from 1 to 65536": lambda: op.nn.quantize_blocks(tensor(2, 64), 0),
    "a dimension is an integer": lambda: op.reshape(tensor(2, 3), (2.0, 3)),
    "whose rank is too low\n  got: (2, 3) into (2, 3, 0)": lambda: op.reshape(
        tensor(2, 3), (2, 3, 0)
    ),
    "axes must name every axis once\n  got: [1, 2, 3, 3] for rank 4": lambda: op.permute_dims(
        relax.Var("x", TensorStructInfo()), [1, 2, 3, 3]
    ),
    "axis is out of range\n  got: 4\n  instead: use -4 to 3": lambda: op.permute_dims(
        relax.Var("x", TensorStructInfo()), [1, 2, 3, 4]
    ),
    "axes must name every axis once\n  got: [0, 2, 1] for rank 4": lambda: op.permute_dims(
        relax.Var("x", TensorStructInfo(relax.Var("s", relax.ShapeStructInfo(ndim=4)))), [0, 2, 1]
    ),
    "relax.nn.pad: the ranks or shapes of the operands do not fit\n  got: ": lambda: op.nn.pad(
        tensor(2, 3), [1, 1]
    ),
    "a dimension is at least -1": lambda: op.reshape(tensor(2, 3), (-2, -3)),
    "unknown mode\n  got: 'clamp'\n  instead: did you mean clip?": lambda: op.take(
        tensor(3), tensor(2, dtype="int32"), mode="clamp"
    ),
    "attribute repeats is of type int": lambda: op.repeat(tensor(2, 3), 1.5),
    "attribute repeats is of type Ints": lambda: op.tile(tensor(2, 3), (2, 1.5)),
    "repeats must not be negative\n  got: [-1]": lambda: op.repeat(tensor(2, 3), -1),
    "repeats must not be negative\n  got: [2, -2]": lambda: op.tile(tensor(2, 3), (2, -2)),
    "pool_size must be 1 or more\n  got: [0, 2]": lambda: op.nn.avg_pool2d(
        tensor(1, 2, 4, 4), pool_size=(0, 2)
    ),
    "strides must be 1 or more\n  got: [0]": lambda: op.nn.conv1d(
        tensor(1, 4, 8), tensor(4, 4, 3), strides=0
    ),
    "dilation must be 1 or more\n  got: [1, 0]": lambda: op.nn.conv2d_transpose(
        tensor(1, 4, 8, 8), tensor(4, 4, 3, 3), dilation=(1, 0)
    ),
    "output_padding must be 0 or more": lambda: op.nn.conv1d_transpose(
        tensor(1, 4, 8), tensor(4, 4, 3), output_padding=-1
    ),
    "a whole number is needed": lambda: op.nn.max_pool2d(tensor(1, 2, 4, 4), strides=(1.5, 1)),
    "indices must be integers\n  got: float32": lambda: op.gather_nd(tensor(2, 3), tensor(2, 2)),
    "indices must be integers": lambda: op.one_hot(
        tensor(2), relax.PrimValue(1.0), relax.PrimValue(0.0), 4
    ),
    "on_value and off_value must have one dtype": lambda: op.one_hot(
        tensor(2, dtype="int32"), relax.PrimValue(1.0), relax.PrimValue(0), 4
    ),
    "the depth is the extent of an axis": lambda: op.one_hot(
        tensor(2, dtype="int32"), relax.PrimValue(1.0), relax.PrimValue(0.0), -1
    ),
    "the shape cannot be broadcast": lambda: op.broadcast_to(
        tensor(2, 3), relax.Var("s", relax.ShapeStructInfo(ndim=1))
    ),
    "the channels that the weight takes must be a multiple": lambda: op.nn.conv2d_transpose(
        tensor(1, 8, 4, 4), tensor(8, 4, 3, 3), groups=3
    ),
    "pad_value must be of the tensor's dtype": lambda: op.layout_transform(
        tensor(2, 3, dtype="int32"), lambda a, b: (b, a), pad_value=2.2
    ),
    "at least one group": lambda: op.nn.conv2d(tensor(1, 4, 8, 8), tensor(4, 4, 3, 3), groups=0),
    "at least one group\n  got: -1": lambda: op.nn.conv1d_transpose(
        tensor(1, 4, 8), tensor(4, 4, 3), groups=-1
    ),
    "the weight takes n - ": lambda: op.nn.conv2d(
        tensor(2, n * 6, 28, 28), tensor(12, n - 1, 3, 3), groups=6
    ),
    "the weight takes n + ": lambda: op.nn.conv2d_transpose(
        tensor(2, n, 8, 8), tensor(n + 2, 4, 3, 3)
    ),
    "the padding takes more than the result has": lambda: op.nn.conv1d_transpose(
        tensor(1, 3, 2), tensor(3, 4, 1), padding=2
    ),
    "last_channel is not a column of 8\n  got: 8": lambda: op.nn.unpack_channels(
        tensor(1, 2, 3, 3, 4), 9
    ),
    "of 1 or more\n  got: tile 0, window 3": lambda: op.nn.winograd_tiles(
        tensor(1, 1, 6, 8, 4), tensor(), 0, [0, 0, 0, 0]
    ),
    "of 1 or more\n  got: tile -1, window 3": lambda: op.nn.winograd_weight(
        tensor(5, 3, 3, 3), -1, 4
    ),
    "products of this type\n  got: int64": lambda: op.nn.winograd_join(
        tensor(4, 4, 1, 3, 3, 4, dtype="int64"), 2, [6, 6], 4
    ),
    "last_row is not a column of 6\n  got: 6": lambda: op.nn.winograd_join(
        tensor(4, 4, 1, 3, 2, 8), tile=2, sides=[7, 4], block=4
    ),
    "output_padding is smaller": lambda: op.nn.conv2d_transpose(
        tensor(2, 3, 8, 8), tensor(3, 4, 3, 3), strides=2, output_padding=2
    ),
    "operands of different dtypes": lambda: op.nn.conv2d_transpose(
        tensor(2, 3, 8, 8), tensor(3, 4, 3, 3, dtype="int8")
    ),
    "only one dimension may be -1\n  got: [-1, -1]": lambda: op.reshape(tensor(2, 3), (-1, -1)),
    "the dtypes of reinterpret are of one width\n  got: float32 as int8": lambda: op.reinterpret(
        tensor(2), "int8"
    ),
    "label j of ij,jk->ik has two extents\n  got: 3 and 4": lambda: op.einsum(
        [tensor(2, 3), tensor(4, 5)], "ij,jk->ik"
    ),
    '"bicubic" is for images\n  got: NCDHW': lambda: op.image.grid_sample(
        tensor(1, 2, 3, 4, 5), tensor(1, 3, 2, 2, 2), "bicubic", layout="NCDHW"
    ),
    "the shape of random numbers is known before": lambda: op.random.threefry_generate(
        tensor(10, dtype="uint64"), [n]
    ),
    "needs tensors of rank 1 or more": lambda: op.matmul(tensor(), tensor(2, 3)),
    "relax.argsort: axis is out of range": lambda: op.argsort(tensor()),
    "relax.sort: axis is out of range": lambda: op.sort(tensor()),
    'update rule "delta" has 1 gates\n  got: 0': lambda: op.nn.linear_attention(
        *[tensor(1, 2, 1, 4)] * 3, tensor(1, 1, 4, 4), [], update_rule="delta"
    ),
    "needs an axis of channels\n  got: rank 1": lambda: op.nn.pack_channels(
        relax.Var("x", TensorStructInfo(None, "float32", ndim=1)), 4
    ),
    "needs an axis of channels\n  got: rank 0": lambda: op.nn.pack_channels(tensor(), 4),
    "indices must be integers\n  got: bool": lambda: op.gather_nd(
        tensor(2, 4), tensor(3, 1, dtype="bool")
    ),
    "the updates must have the data's type\n  got: float16 for float32": lambda: op.tensor_scatter(
        tensor(1, 3, 2), tensor(1, 1, 2, dtype="float16"), tensor(1, dtype="int64")
    ),
    "indices must have the shape (2, any)\n  got: (3, 1)": lambda: op.gather_nd(
        tensor(2, 4), tensor(3, 1, dtype="int64"), 1
    ),
    "must have an element to be padded from\n  got: 0 by 1, 1": lambda: op.nn.pad(
        tensor(0), [1, 1], "edge"
    ),
    "data must have blocks of 4 (NCHW4c)\n  got: 7": lambda: op.nn.conv2d(
        tensor(1, 2, 6, 5, 7),
        tensor(2, 2, 3, 3, 4, 4),
        data_layout="NCHW4c",
        kernel_layout="OIHW4i4o",
    ),
    "take more than there is\n  got: 1 in 3 of 1": lambda: op.split(tensor(1), 3),
    "less its distance to the next\n  got: 2 for 4 and 1": lambda: op.signal.frame(
        tensor(1, 2, 1), [4, 1]
    ),
    "more updates than elements\n  got: 3 for 2": lambda: op.tensor_scatter(
        tensor(1, 2, 2), tensor(1, 3, 2), tensor(1, dtype="int64"), circular=True
    ),
    "axis 1 of data must be a multiple of 9": lambda: op.image.col2im(
        tensor(1, 10, 9), [5, 5], [3, 3], [1, 1], [0] * 4, [1, 1]
    ),
    "takes the diagonal of axes of two extents\n  got: 1 and 3": lambda: op.einsum(
        (tensor(1, 3),), "ii"
    ),
    "an image's axis may not be empty": lambda: op.image.resize2d(tensor(1, 1, 0, 2), (2, 2)),
    "the image may not be empty\n  got: 0, 3": lambda: op.image.grid_sample(
        tensor(1, 1, 0, 3), tensor(1, 2, 2, 2)
    ),
    "grid_sample: unknown method\n  got: ['nearest']": lambda: op.image.grid_sample(
        tensor(1, 1, 3, 3), tensor(1, 2, 2, 2), ["nearest"]
    ),
    "one number a row": lambda: op.multinomial_from_uniform(
        tensor(2, 3), tensor(3, 2), tensor(3, 1, dtype="int64")
    ),
    "values must broadcast to the indexed elements\n  got: (3) for (2)": lambda: op.index_put(
        tensor(4), tensor(2, dtype="int64"), tensor(3)
    ),
    "x may not be empty": lambda: op.grad.take_backward(
        tensor(2), tensor(0), tensor(2, dtype="int64")
    ),
    "to [batch, heads, length, keys]\n  got: (1, 1, 1, 3, 3) for (1, 2, 3, 3)": lambda: (
        op.nn.attention(*[tensor(1, 3, 2, 4)] * 3, tensor(1, 1, 1, 3, 3))
    ),
    "to [batch, heads, length, keys]\n  got: (3, 2) for (1, 2, 3, 3)": lambda: op.nn.attention(
        *[tensor(1, 3, 2, 4)] * 3, tensor(3, 2)
    ),
    "weight must have rank 4": lambda: op.nn.conv2d_transpose(
        tensor(2, 3, 8, 8), tensor(3, 4, 6, 3, 3)
    ),
}


@pytest.mark.parametrize("message", REFUSED)
def test_refused(message):
    with pytest.raises((TypeError, ValueError)) as caught:
        relax.BlockBuilder().normalize(REFUSED[message]())
    assert message in str(caught.value)


def test_shape_expressions_may_leave_one_dimension_open():
    call = op.reshape(tensor(2, 3, 4), relax.ShapeExpr([4, -1]))
    found = relax.BlockBuilder().normalize(call).struct_info
    assert found == TensorStructInfo([4, 6], "float32")


@pytest.mark.parametrize(("name", "counts"), [("repeat", (0, 1)), ("tile", ((2, 0),))])
def test_no_copies_are_an_empty_tensor(name, counts):
    x, bb = tensor(2, 3), relax.BlockBuilder()
    with bb.function("main", [x]):
        bb.emit_func_output(bb.emit(getattr(op, name)(x, *counts)))
    given = np.ones((2, 3), "float32")
    got = loopwright.compile(bb.finalize())["main"](given).numpy()
    assert got.shape == getattr(np, name)(given, *counts).shape


def test_the_gradient_of_a_reduced_loss_is_refused_when_it_is_lowered():
    """Inference takes any, as TVM's tests write it."""
    bb = relax.BlockBuilder()
    args = [tensor(2), tensor(2, 3), tensor(2, dtype="int64")]
    with bb.function("main", args):
        bb.emit_func_output(bb.emit(op.grad.nll_loss_backward(*args)))
    with pytest.raises(ValueError, match="the gradient of a mean is one number\n  got: rank 1"):
        relax.transform.LegalizeOps()(bb.get())
