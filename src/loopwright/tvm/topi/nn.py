"""Tensor expressions of the operators of neural networks: `topi.nn.softmax(x)`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ... import te, tir
from ...base.late import public_names as _public_names
from ...ops import OPERATORS
from ...ops.linear import matmul as _matmul
from ...ops.manipulate import transpose as _transpose
from ...te.tensor import Tensor
from . import bits as _bits
from . import conv as _conv
from . import layers as _layers
from . import padding as _padding
from . import pooling as _pooling
from . import recurrent as _recurrent
from . import sparse as _sparse
from . import upsampling as _upsampling
from .fast import fast_softmax as fast_softmax
from .fast import softmax_by as _softmax_by
from .layers import named as _named
from .padding import Ints
from .recurrent import SQNN_CODE_TO_DTYPE as SQNN_CODE_TO_DTYPE
from .recurrent import SQNN_DTYPE_TO_CODE as SQNN_DTYPE_TO_CODE
from .utils import functions_of, get_const_int, prod, simplify

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...ir.dtype import DataType
    from ...ir.prim_expr import PrimExpr

_HELPERS = {"bitunpack", "default_kernel", "listed", "masked", "named"}
for _module in (
    _bits, _conv, _layers, _padding, _pooling, _recurrent, _sparse, _upsampling
):  # fmt: skip
    globals().update(functions_of(_module, _HELPERS))
_PREFIX = "relax.nn."
for _operator in OPERATORS.values():
    if _operator.name.startswith(_PREFIX):
        globals().setdefault(_operator.te_name, _operator)
        globals().setdefault(_operator.name.removeprefix(_PREFIX), _operator)


def dense(
    data: Tensor, weight: Tensor, bias: Tensor | None = None,
    out_dtype: DataType | str | None = None,
) -> Tensor:  # fmt: skip
    """data @ weight transposed, plus `bias`."""
    return matmul(data, weight, bias, out_dtype, transpose_b=True)


def matmul(
    tensor_a: Tensor, tensor_b: Tensor, bias: Tensor | None = None, out_dtype: Any = None,
    transpose_a: bool = False, transpose_b: bool = False,
) -> Tensor:  # fmt: skip
    """The product of matrices, each optionally transposed, plus `bias`."""
    a, b = (
        _transpose(t) if transpose else t
        for t, transpose in ((tensor_a, transpose_a), (tensor_b, transpose_b))
    )
    product = _matmul(a, b, out_dtype)
    return product if bias is None else OPERATORS["relax.add"](product, bias)


def batch_matmul(
    tensor_a: Tensor, tensor_b: Tensor, oshape: Any = None, out_dtype: Any = None,
    transpose_a: bool = False, transpose_b: bool = True,
) -> Tensor:  # fmt: skip
    """Products of matrices, one per batch element. `oshape` is ignored: it is inferred."""
    a, b = (
        _transpose(t, [0, 2, 1]) if transpose else t
        for t, transpose in ((tensor_a, transpose_a), (tensor_b, transpose_b))
    )
    return _matmul(a, b, out_dtype)


def flatten(data: Tensor) -> Tensor:
    """A matrix: the first dimension, and all others fused."""
    return OPERATORS["relax.reshape"](data, [data.shape[0], prod(data.shape[1:])])


def batch_norm(
    data: Tensor, gamma: Tensor, beta: Tensor, moving_mean: Tensor, moving_var: Tensor,
    axis: int | None = None, epsilon: float | None = None, center: bool | None = None,
    scale: bool | None = None, training: bool | None = None, momentum: float | None = None,
) -> list[Tensor]:  # fmt: skip
    """[normalized, moving mean, moving variance] of each channel of `axis` (None: 1); see the graph's
    operator. Not in training unless requested."""
    arguments = {"epsilon": epsilon, "center": center, "scale": scale, "momentum": momentum}
    options = {name: value for name, value in arguments.items() if value is not None}
    which = 1 if axis is None else axis
    norm = OPERATORS["relax.nn.batch_norm"]
    tensors = (data, gamma, beta, moving_mean, moving_var)
    return norm(*tensors, which, training=bool(training), **options)


def instance_norm(
    data: Tensor, gamma: Tensor, beta: Tensor, channel_axis: Ints, axis: Any = None,
    epsilon: float = 1e-5,
) -> Tensor:  # fmt: skip
    """Each channel of each element of the batch normalized over `axis`. Before TVM 0.19 there was no
    `channel_axis`, which is 1 then: the axes and epsilon come in its place."""
    if isinstance(channel_axis, (list, tuple)):
        epsilon = 1e-5 if axis is None else axis
        channel_axis, axis = 1, channel_axis
    norm = OPERATORS["relax.nn.instance_norm"]
    return norm(data, gamma, beta, channel_axis, list(axis), epsilon)


def _scale_shift(layout: str, *axes: int) -> Callable[..., Tensor]:
    def scale_shift(Input: Tensor, Scale: Tensor, Shift: Tensor) -> Tensor:
        def element(*i: PrimExpr) -> Any:
            channel = [i[a] for a in axes]
            return Input(*i) * Scale(*channel) + Shift(*channel)

        return te.compute(Input.shape, element, name="ScaleShift", tag="broadcast")

    scale_shift.__name__ = scale_shift.__qualname__ = f"scale_shift_{layout}"
    scale_shift.__doc__ = "Each channel times its scale plus its shift."
    return scale_shift


scale_shift_nchw = _scale_shift("nchw", 1)
scale_shift_nhwc = _scale_shift("nhwc", 3)
scale_shift_nchwc = _scale_shift("nchwc", 1, 4)


def dense_pack(
    data: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    out_dtype: DataType | str | None = None,
) -> Tensor:
    """`dense` by a weight in blocks of outputs (blocks, inputs, outputs in the block), or by a plain
    one."""
    if weight.ndim == 2:
        return dense(data, weight, bias, out_dtype)
    blocks, inputs, size = weight.shape
    shape = (simplify(blocks * size), inputs)
    plain = te.compute(
        shape, lambda o, k: weight(o // size, k, o % size), name="weight_plain", tag="injective"
    )
    return dense(data, plain, bias, out_dtype)


def softmax_common(x: Tensor, axis: int, use_fast_exp: bool) -> Tensor:
    """softmax along `axis`, by `fast_exp` on request."""
    return fast_softmax(x, axis) if use_fast_exp else softmax(x, axis)


def softmax(x: Tensor, axis: int = -1) -> Tensor:
    """exp(x - max) / sum(exp(x - max)) along `axis`."""
    return _softmax_by(tir.exp, x, axis)


def pad(
    data: Tensor, pad_before: Sequence[PrimExpr | int], pad_after: Sequence[int] | None = None,
    pad_value: float = 0.0, name: str = "PadInput", attrs: dict[str, Any] | None = None,
) -> Tensor:  # fmt: skip
    """Padding with `pad_value`: the numbers of elements before and after each dimension. The stage
    has a name, and `attrs` besides its own."""
    after = pad_before if pad_after is None else pad_after
    widths = [get_const_int(w) for pair in zip(pad_before, after, strict=True) for w in pair]
    return _named(OPERATORS["relax.nn.pad"](data, widths, "constant", pad_value), name, attrs)


__dir__ = _public_names(__name__)
