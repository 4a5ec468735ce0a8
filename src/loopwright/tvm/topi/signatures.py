"""The graph operators with topi's signatures, if those differ."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ... import te
from ...base.errors import explain
from ...ir.prim_expr import PrimExpr
from ...ops import OPERATORS
from ...te.tensor import Tensor
from .nn import matmul as _matmul
from .padding import Ints
from .utils import get_const_int
from .utils import prod as prod_of


def _axes(axis: Ints | None) -> Any:
    return [axis] if isinstance(axis, int) else axis


def _reduction(name: str) -> Callable[..., Tensor]:
    def reduced(data: Tensor, axis: Ints | None = None, keepdims: bool = False) -> Tensor:
        return OPERATORS[f"relax.{name}"](data, _axes(axis), keepdims)

    reduced.__name__ = reduced.__qualname__ = name
    reduced.__doc__ = f"The {name} over `axis` (one, several, or None for all)."
    return reduced


sum = _reduction("sum")
max = _reduction("max")
min = _reduction("min")
prod = _reduction("prod")


def _arg(name: str) -> Callable[..., Tensor]:
    def index(
        data: Tensor,
        axis: int | list[int] | None = None,
        keepdims: bool = False,
        select_last_index: bool = False,
    ) -> Tensor:
        if isinstance(axis, (list, tuple)):
            (axis,) = axis
        flat = data if axis is not None else OPERATORS["relax.reshape"](data, [prod_of(data.shape)])
        which = 0 if axis is None else axis % data.ndim
        if select_last_index:
            flat = OPERATORS["relax.flip"](flat, which)
        indices = OPERATORS[f"relax.{name}"](flat, which, keepdims)
        last = flat.shape[which] - 1
        at = lambda *i: last - indices(*i) if select_last_index else indices(*i)  # noqa: E731
        shape = indices.shape if axis is not None or not keepdims else [1] * data.ndim
        rest = len(indices.shape)
        return te.compute(
            shape, lambda *i: at(*i[:rest]).astype("int32"), name=name, tag="elemwise"
        )

    index.__name__ = index.__qualname__ = name
    index.__doc__ = (
        f"The {name} along `axis` (None: of the flat tensor), an int32: the first of equal elements, "
        "or the last one."
    )
    return index


argmax = _arg("argmax")
argmin = _arg("argmin")


def collapse_sum(data: Tensor, target_shape: Sequence[Any]) -> Tensor:
    """The data summed until its shape is the target's: the reverse of broadcasting."""
    shape = [te.const(d, "int32") if isinstance(d, int) else d for d in target_shape]
    return OPERATORS["relax.collapse_sum_to"](data, shape)


def einsum(subscripts: str, *operand: Tensor) -> Tensor:
    """The sum of products that `subscripts` ("ij,jk->ik") describes, as `np.einsum`."""
    return OPERATORS["relax.einsum"](list(operand), subscripts)


def _rows(indices: Tensor) -> Tensor:
    """Positions in columns as rows."""
    return OPERATORS["relax.permute_dims"](indices, [*range(1, indices.ndim), 0])


def scatter_nd(data: Tensor, indices: Tensor, updates: Tensor, mode: str) -> Tensor:
    """The data with `updates` at the positions in the columns of `indices`; `mode`: "update", or how
    an element and its update are combined ("add", "mul", "min", "max")."""
    return OPERATORS["relax.scatter_nd"](data, _rows(indices), updates, mode)


def gather_nd(a: Tensor, indices: Tensor, batch_dims: int = 0) -> Tensor:
    """The elements (or slices) at the positions in the columns of `indices`, after `batch_dims` axes
    that both have."""
    return OPERATORS["relax.gather_nd"](a, _rows(indices), batch_dims)


def squeeze(a: Tensor, axis: int | None = None) -> Tensor:
    """The tensor without the dimensions of extent 1 at `axis` (None: all of them)."""
    return OPERATORS["relax.squeeze"](a, _axes(axis))


def arange(
    start: float, stop: float | None = None, step: int = 1, dtype: str = "float32"
) -> Tensor:
    """start, start + step, ... below `stop`; with one bound, from 0 up to it."""
    if stop is None:
        start, stop = 0, start
    bounds = [start, stop, step]
    kind = "float32" if any(isinstance(v, float) for v in bounds) else "int64"
    ends = [v if isinstance(v, PrimExpr) else te.const(v, kind) for v in bounds]
    return OPERATORS["relax.arange"](*ends, dtype)


def strided_slice(
    a: Tensor, begin: Sequence[int], end: Sequence[int], strides: Sequence[int] | None = None,
    axes: Sequence[int] | None = None, slice_mode: str = "end", assume_inbound: bool = True,
) -> Tensor:  # fmt: skip
    """Elements from `begin` to `end` in steps of `strides`, along `axes` (the first ones); in
    slice_mode "size" `end` is the number of elements, -1 for all that remain."""
    if slice_mode not in ("end", "size"):
        raise ValueError(explain('slice_mode is "end" or "size"', got=slice_mode))
    dims = list(range(len(begin))) if axes is None else list(axes)
    if slice_mode == "size":
        last = zip(begin, end, dims, strict=True)
        end = [get_const_int(a.shape[n]) if size == -1 else low + size for low, size, n in last]
        strides = None
    parts = [[te.const(v, "int64") for v in list(values)] for values in (begin, end)]
    steps = list(strides or []) + [1] * (len(dims) - len(strides or []))
    step = [te.const(v, "int64") for v in steps]
    return OPERATORS["relax.strided_slice"](a, dims, *parts, step, assume_inbound)


def one_hot(
    indices: Tensor, on_value: PrimExpr | float, off_value: PrimExpr | float, depth: int, axis: int,
    dtype: str,
) -> Tensor:  # fmt: skip
    """`on_value` if the position along the new axis equals the index, else `off_value`."""
    values = te.const(on_value, dtype), te.const(off_value, dtype)
    return OPERATORS["relax.one_hot"](indices, *values, depth, axis)


def matmul(a: Tensor, b: Tensor, transp_a: bool = False, transp_b: bool = False) -> Tensor:
    """The product of matrices, each optionally transposed."""
    return _matmul(a, b, None, None, transp_a, transp_b)


def _scan(name: str) -> Callable[..., Tensor]:
    def scanned(
        data: Tensor,
        axis: int | None = None,
        dtype: str | None = None,
        exclusive: bool | None = None,
    ) -> Tensor:
        options = {"axis": axis, "dtype": dtype, "exclusive": bool(exclusive)}
        return OPERATORS[f"relax.{name}"](data, **options)

    scanned.__name__ = scanned.__qualname__ = name
    scanned.__doc__ = f"The {name} along `axis` (None: of the flat tensor)."
    return scanned


cumsum = _scan("cumsum")
cumprod = _scan("cumprod")
