"""Operators on `nn.Tensor`s. Each builds a graph operator and binds it under `name`."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Sequence
from typing import Any

from ... import relax
from ...base.errors import explain
from ...base.examples import add_examples
from ...base.names import named as _named
from ...ir.prim_expr import IntImm, PrimExpr
from ...ir.prim_op import convert
from ...relax import op as _op
from .core import Tensor, as_operand, wrap_nested
from .kernel_op import debug_func as debug_func
from .kernel_op import extern as extern
from .kernel_op import print_ as print_
from .kernel_op import tensor_expr_op as tensor_expr_op
from .kernel_op import tensor_ir_inplace_op as tensor_ir_inplace_op
from .kernel_op import tensor_ir_op as tensor_ir_op
from .layer_op import conv1d as conv1d
from .layer_op import conv1d_transpose as conv1d_transpose
from .layer_op import conv2d as conv2d
from .layer_op import conv3d as conv3d
from .layer_op import get_timestep_embedding as get_timestep_embedding
from .layer_op import group_norm as group_norm
from .layer_op import interpolate as interpolate
from .layer_op import layer_norm as layer_norm
from .layer_op import rms_norm as rms_norm
from .layer_op import scaled_dot_product_attention as scaled_dot_product_attention

IntExpr = int | PrimExpr

# ---------------------------------------------------------------- arithmetic


def _binary(
    build: Callable[..., Any], a: Tensor | int, b: Tensor | str | float, name: str
) -> Tensor:
    if not (isinstance(a, Tensor) or isinstance(b, Tensor)):
        what = f"{name} needs an nn.Tensor on at least one side"
        raise TypeError(explain(what, got=f"{type(a).__name__} and {type(b).__name__}"))
    return wrap_nested(build(as_operand(a, b), as_operand(b, a)), name)


def _of_pair(build: Callable[..., Any], doc: str, default: str = "") -> Callable[..., Tensor]:
    """The function that applies a graph operator to two tensors that broadcast, of which one may be a
    number; `default`: the result's name."""

    def apply(a: Any, b: Any, name: str = default or build.__name__) -> Tensor:
        return _binary(build, a, b, name)

    return _named(apply, build.__name__, f"{doc}, broadcast.")


add = _of_pair(_op.add, "a + b")
subtract = _of_pair(_op.subtract, "a - b")
multiply = _of_pair(_op.multiply, "a * b", "mul")
divide = _of_pair(_op.divide, "a / b")
less = _of_pair(_op.less, "a < b")
less_equal = _of_pair(_op.less_equal, "a <= b")
greater = _of_pair(_op.greater, "a > b")
greater_equal = _of_pair(_op.greater_equal, "a >= b")
equal = _of_pair(_op.equal, "a == b")
not_equal = _of_pair(_op.not_equal, "a != b")


def maximum(x1: Tensor, x2: Tensor | float, name: str = "maximum") -> Tensor:
    """The greater of both, broadcast."""
    return _binary(_op.maximum, x1, x2, name)


def minimum(x1: Tensor, x2: Tensor, name: str = "minimum") -> Tensor:
    """The smaller of both, broadcast."""
    return _binary(_op.minimum, x1, x2, name)


def where(condition: Tensor, x1: Tensor | float, x2: Tensor | float, name: str = "where") -> Tensor:
    """x1 where the condition holds, else x2."""
    args = [condition._expr, as_operand(x1, x2), as_operand(x2, x1)]
    return wrap_nested(_op.where(*args), name)


def matmul(a: Tensor, b: Tensor, out_dtype: str | None = None, name: str = "matmul") -> Tensor:
    """The matrix product, batched over leading dimensions."""
    return wrap_nested(_op.matmul(a._expr, b._expr, out_dtype=out_dtype), name)


def _unary(build: Callable[..., Any], default: str, doc: str) -> Callable[..., Tensor]:
    """The function that applies a graph operator to a tensor; `default`: the result's name."""

    def apply(x: Tensor, name: str = default) -> Tensor:
        return wrap_nested(build(x._expr), name)

    return _named(apply, build.__name__, doc)


negative = _unary(_op.negative, "neg", "-x")
square = _unary(_op.square, "square", "x * x")
sqrt = _unary(_op.sqrt, "sqrt", "The square root.")
exp = _unary(_op.exp, "exp", "e to the power of x.")
log = _unary(_op.log, "log", "The natural logarithm.")
floor = _unary(_op.floor, "floor", "The next integer below.")
tanh = _unary(_op.tanh, "tanh", "The hyperbolic tangent.")
sigmoid = _unary(_op.sigmoid, "sigmoid", "1 / (1 + exp(-x))")

# ---------------------------------------------------------------- activations

relu = _unary(_op.nn.relu, "relu", "max(x, 0)")
relu6 = _unary(_op.nn.relu6, "relu6", "x limited to [0, 6].")
silu = _unary(_op.nn.silu, "silu", "x * sigmoid(x)")


def gelu(x: Tensor, approximate: str | None = None, name: str = "gelu") -> Tensor:
    """x times the normal distribution's cumulative function; `approximate="tanh"` for Hendrycks
    and Gimpel's approximation. Raises ValueError for another."""
    if approximate not in (None, "none", "tanh"):
        hint = 'use "tanh" or None'
        raise ValueError(explain("gelu: unknown approximate", got=repr(approximate), instead=hint))
    build = _op.nn.gelu_tanh if approximate == "tanh" else _op.nn.gelu
    return wrap_nested(build(x._expr), name)


def softmax(x: Tensor, axis: int = -1, name: str = "softmax") -> Tensor:
    """exp(x) over its sum along `axis`."""
    return wrap_nested(_op.nn.softmax(x._expr, axis), name)


def softplus(
    x: Tensor, beta: float = 1.0, threshold: float = 20.0, name: str = "softplus"
) -> Tensor:
    """log(1 + exp(beta * x)) / beta; x itself where beta * x is beyond the threshold."""
    return wrap_nested(_op.nn.softplus(x._expr, beta=beta, threshold=threshold), name)


def prelu(x: Tensor, alpha: Tensor, name: str = "prelu") -> Tensor:
    """x where positive, else alpha of its channel times x."""
    return wrap_nested(_op.nn.prelu(x._expr, alpha._expr), name)


# ---------------------------------------------------------------- reductions


def _reduction(build: Callable[..., Any], doc: str) -> Callable[..., Tensor]:
    def apply(
        x: Tensor, axis: Any = None, keepdims: bool = False, name: str = build.__name__
    ) -> Tensor:
        return wrap_nested(build(x._expr, axis, keepdims), name)

    return _named(apply, build.__name__, f"{doc} over `axis` (None: all).")


sum = _reduction(_op.sum, "The sum")
max = _reduction(_op.max, "The greatest value")
min = _reduction(_op.min, "The least value")


def cumsum(
    data: Tensor,
    axis: int | None = None,
    dtype: str | None = None,
    exclusive: bool | None = None,
    name: str = "cumsum",
) -> Tensor:
    """The running sum along `axis` (None: of the flattened tensor); `exclusive` leaves the
    element itself out."""
    return wrap_nested(_op.cumsum(data._expr, axis, dtype, bool(exclusive)), name)


def sort(x: Tensor, axis: int = -1, descending: bool = False, name: str = "sort") -> Tensor:
    """The values along `axis` in order."""
    return wrap_nested(_op.sort(x._expr, axis, descending), name)


def argsort(
    data: Tensor,
    axis: int = -1,
    descending: bool = False,
    dtype: str = "int32",
    name: str = "argsort",
) -> Tensor:
    """The indices that sort `data` along `axis`."""
    return wrap_nested(_op.argsort(data._expr, axis, descending, dtype), name)


def topk(
    data: Tensor,
    k: int = 1,
    axis: int = -1,
    ret_type: str = "both",
    largest: bool = True,
    dtype: str = "int32",
    name: str = "topk",
) -> Any:
    """The k greatest (least) values along `axis`, in order, and their indices; `ret_type`
    "values" or "indices" returns one of them."""
    return wrap_nested(_op.topk(data._expr, k, axis, ret_type, largest, dtype), name)


# ---------------------------------------------------------------- shapes


def _dims(shape: Sequence[Any]) -> list[PrimExpr]:
    return [convert(d) if isinstance(d, PrimExpr) else IntImm("int64", d) for d in shape]


def unsqueeze(x: Tensor, dim: int, name: str = "unsqueeze") -> Tensor:
    """A new axis of extent 1."""
    return wrap_nested(_op.expand_dims(x._expr, dim), name)


def squeeze(x: Tensor, axis: int | list[int] | None = -1, name: str = "squeeze") -> Tensor:
    """Without axes of extent 1 (None: all such)."""
    return wrap_nested(_op.squeeze(x._expr, axis), name)


def concat(x: list[Tensor], dim: int, name: str = "concat") -> Tensor:
    """Tensors joined along `dim`."""
    return wrap_nested(_op.concat([t._expr for t in x], dim), name)


def split(
    ary: Tensor, indices_or_sections: int | Sequence[int], axis: int = 0, name: str = "split"
) -> tuple[Tensor, ...]:
    """Pieces along `axis`: a number of them, or the indices where new ones begin."""
    return wrap_nested(_op.split(ary._expr, indices_or_sections, axis), name)


def chunk(x: Tensor, chunks: int, dim: int = 0, name: str = "chunk") -> tuple[Tensor, ...]:
    """`chunks` equal pieces along `dim`."""
    return wrap_nested(_op.split(x._expr, chunks, dim), name)


def broadcast_to(x: Tensor, shape: Sequence[IntExpr], name: str = "broadcast_to") -> Tensor:
    """x repeated to `shape` by numpy's rule."""
    return wrap_nested(_op.broadcast_to(x._expr, _dims(shape)), name)


def permute_dims(x: Tensor, axes: list[int] | None = None, name: str | None = None) -> Tensor:
    """The axes in another order (None: reversed)."""
    return wrap_nested(_op.permute_dims(x._expr, axes), name or "permute_dims")


def permute(x: Tensor, axes: list[int] | None, name: str = "permute") -> Tensor:
    """The axes in another order (None: reversed)."""
    return wrap_nested(_op.permute_dims(x._expr, axes), name)


def reshape(x: Tensor, shape: Sequence[IntExpr], name: str = "reshape") -> Tensor:
    """The same elements in another shape; one -1 is worked out."""
    return wrap_nested(_op.reshape(x._expr, _dims(shape)), name)


def repeat(x: Tensor, repeats: int, axis: int | None = None, name: str = "repeat") -> Tensor:
    """Each element `repeats` times along `axis` (None: of the flattened tensor)."""
    return wrap_nested(_op.repeat(x._expr, repeats, axis), name)


def take(x: Tensor, indices: Tensor, axis: int | None = None, name: str = "take") -> Tensor:
    """x at `indices` along `axis`."""
    return wrap_nested(_op.take(x._expr, indices._expr, axis), name)


def astype(x: Tensor, dtype: str, name: str = "astype") -> Tensor:
    """Cast to `dtype`; x itself when it has it already."""
    return x if x.dtype == str(dtype) else wrap_nested(_op.astype(x._expr, dtype), name)


def triu(x: Tensor, diagonal: int = 0, name: str = "triu") -> Tensor:
    """The upper triangle from `diagonal` on; the rest is 0."""
    return wrap_nested(_op.triu(x._expr, diagonal), name)


def pad(
    x: Tensor, pad: list[int], mode: str = "constant", value: float = 0.0, name: str = "pad"
) -> Tensor:
    """x with `pad` = [before, after, before, after, ...] elements added on its axes in order."""
    return wrap_nested(_op.nn.pad(x._expr, pad_width=pad, pad_value=value, pad_mode=mode), name)


def full(
    shape: Sequence[IntExpr], fill_value: Tensor | float, dtype: str = "float32", name: str = "full"
) -> Tensor:
    """A tensor whose elements are all `fill_value`."""
    value = fill_value._expr if isinstance(fill_value, Tensor) else relax.const(fill_value, dtype)
    return wrap_nested(_op.full(_dims(shape), value, dtype), name)


def zeros(shape: Sequence[IntExpr], dtype: str = "float32", name: str = "zeros") -> Tensor:
    """A tensor of zeros."""
    return wrap_nested(_op.zeros(_dims(shape), dtype), name)


def ones(shape: Sequence[IntExpr], dtype: str = "float32", name: str = "ones") -> Tensor:
    """A tensor of ones."""
    return wrap_nested(_op.ones(_dims(shape), dtype), name)


def empty(shape: Sequence[IntExpr], dtype: str = "float32", name: str = "empty") -> Tensor:
    """A tensor whose elements are not set."""
    return wrap_nested(_op.builtin.alloc_tensor(relax.ShapeExpr(_dims(shape)), dtype, 0), name)


def arange(
    start: IntExpr,
    end: IntExpr | None = None,
    step: IntExpr = 1,
    dtype: str = "float32",
    name: str = "arange",
) -> Tensor:
    """start, start + step, ... below `end`; one bound given is the end."""
    first, last = (0, start) if end is None else (start, end)
    return wrap_nested(_op.arange(first, last, step, dtype), name)


# ---------------------------------------------------------------- between workers


def ccl_allreduce(
    x: Tensor, op_type: str = "sum", in_group: bool = True, name: str = "ccl_allreduce"
) -> Tensor:
    """The sum of all workers' tensors, or their "prod", "min", "max" or "avg"."""
    return wrap_nested(_op.ccl.allreduce(x._expr, op_type, in_group), name)


def ccl_allgather(x: Tensor, num_workers: int, name: str = "ccl_allgather") -> Tensor:
    """All workers' tensors, joined along the first axis."""
    return wrap_nested(_op.ccl.allgather(x._expr, num_workers), name)


def ccl_broadcast_from_worker0(x: Tensor, name: str = "broadcast_from_worker") -> Tensor:
    """The first worker's tensor."""
    return wrap_nested(_op.ccl.broadcast_from_worker0(x._expr), name)


_TENSOR_METHODS = (
    "add subtract multiply divide matmul negative less less_equal greater greater_equal astype "
    "maximum minimum reshape permute_dims repeat"
)
Tensor._build.update({n: getattr(sys.modules[__name__], n) for n in _TENSOR_METHODS.split()})

add_examples(
    globals(),
    't = nn.Tensor.placeholder; x = t([2, 4], "float32")',
    """
    op.add(x, 1)  # Tensor([2, 4], "float32")
    op.subtract(1, x)  # Tensor([2, 4], "float32")
    op.multiply(x, x)  # Tensor([2, 4], "float32")
    op.divide(x, 2.0)  # Tensor([2, 4], "float32")
    op.less(x, 0)  # Tensor([2, 4], "bool")
    op.less_equal(x, 0)  # Tensor([2, 4], "bool")
    op.greater(x, 0)  # Tensor([2, 4], "bool")
    op.greater_equal(x, 0)  # Tensor([2, 4], "bool")
    op.equal(x, 0)  # Tensor([2, 4], "bool")
    op.not_equal(x, 0)  # Tensor([2, 4], "bool")
    op.maximum(x, 0)  # Tensor([2, 4], "float32")
    op.minimum(x, x)  # Tensor([2, 4], "float32")
    op.where(t([2, 1], "bool"), x, 0)  # Tensor([2, 4], "float32")
    op.matmul(x, t([3, 4, 5], "float32"))  # Tensor([3, 2, 5], "float32")
    op.negative(x)  # Tensor([2, 4], "float32")
    op.square(x)  # Tensor([2, 4], "float32")
    op.sqrt(x)  # Tensor([2, 4], "float32")
    op.exp(x)  # Tensor([2, 4], "float32")
    op.log(x)  # Tensor([2, 4], "float32")
    op.floor(x)  # Tensor([2, 4], "float32")
    op.tanh(x)  # Tensor([2, 4], "float32")
    op.sigmoid(x)  # Tensor([2, 4], "float32")
    op.relu(x)  # Tensor([2, 4], "float32")
    op.relu6(x)  # Tensor([2, 4], "float32")
    op.silu(x)  # Tensor([2, 4], "float32")
    op.gelu(x, approximate="tanh")  # Tensor([2, 4], "float32")
    op.softmax(x, axis=-1)  # Tensor([2, 4], "float32")
    op.softplus(x)  # Tensor([2, 4], "float32")
    op.prelu(x, t([4], "float32"))  # Tensor([2, 4], "float32")
    op.sum(x, axis=1)  # Tensor([2], "float32")
    op.max(x, axis=0, keepdims=True)  # Tensor([1, 4], "float32")
    op.min(x)  # Tensor([], "float32")
    op.cumsum(x, axis=1)  # Tensor([2, 4], "float32")
    op.sort(x, descending=True)  # Tensor([2, 4], "float32")
    op.argsort(x)  # Tensor([2, 4], "int32")
    op.topk(x, k=2)  # (Tensor([2, 2], "float32"), Tensor([2, 2], "int32"))
    op.unsqueeze(x, 0)  # Tensor([1, 2, 4], "float32")
    op.squeeze(t([2, 1, 4], "float32"), 1)  # Tensor([2, 4], "float32")
    op.concat([x, x], dim=1)  # Tensor([2, 8], "float32")
    op.split(x, 2, axis=1)  # (Tensor([2, 2], "float32"), Tensor([2, 2], "float32"))
    op.chunk(x, 2)  # (Tensor([1, 4], "float32"), Tensor([1, 4], "float32"))
    op.broadcast_to(x, [3, 2, 4])  # Tensor([3, 2, 4], "float32")
    op.permute_dims(x, [1, 0])  # Tensor([4, 2], "float32")
    op.permute(x, [1, 0])  # Tensor([4, 2], "float32")
    op.reshape(x, [-1])  # Tensor([8], "float32")
    op.repeat(x, 2, axis=0)  # Tensor([4, 4], "float32")
    op.take(x, t([3], "int32"), axis=1)  # Tensor([2, 3], "float32")
    op.astype(x, "float16")  # Tensor([2, 4], "float16")
    op.triu(x)  # Tensor([2, 4], "float32")
    op.pad(x, [0, 0, 1, 1])  # Tensor([2, 6], "float32")
    op.full([2, 3], 1.5)  # Tensor([2, 3], "float32")
    op.zeros([2, 3], "int32")  # Tensor([2, 3], "int32")
    op.ones([2])  # Tensor([2], "float32")
    op.empty([2, 3])  # Tensor([2, 3], "float32")
    op.arange(0, 10, 2)  # Tensor([5], "float32")
    op.ccl_allreduce(x, "max")  # Tensor([2, 4], "float32")
    op.ccl_allgather(x, num_workers=2)  # Tensor([4, 4], "float32")
    op.ccl_broadcast_from_worker0(x)  # Tensor([2, 4], "float32")
    """,
)

_FILES = tuple(f"{__package__}.{name}" for name in ("op", "kernel_op", "layer_op"))
__all__ = [
    name
    for name, value in vars(sys.modules[__name__]).items()
    if inspect.isfunction(value) and value.__module__ in _FILES and not name.startswith("_")
]
