"""Shared parts of the rows of neural networks' operators: attributes of windows, shapes in
layouts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ....base.errors import explain
from ....ir.prim_expr import IntImm
from ....ir.prim_expr import Var as TirVar
from ....relax import op as relax_op
from ....relax.expr import Var
from ....relax.struct_info import ShapeStructInfo
from ....tir import layout as layout_of
from ..expr import Expr, const
from ..types import TensorType
from .core import Input, builder, view

R: Any = relax_op
LETTERS = {1: "W", 2: "HW", 3: "DHW"}


def whole(value: Any) -> Any:
    """A number that may be a literal as an int; other values stay."""
    if isinstance(value, IntImm):
        return value.value
    return int(value) if hasattr(value, "__index__") else value


def per_axis(value: Any, rank: int) -> tuple[Any, ...]:
    """One number for each spatial axis, from one for all or several."""
    values = tuple(map(whole, value)) if hasattr(value, "__len__") else (whole(value),)
    return values * rank if len(values) == 1 else values


def sides(value: Any, rank: int) -> tuple[Any, ...]:
    """The padding before each spatial axis, then after each, from 1, `rank` or `2 * rank`
    numbers."""
    values = tuple(map(whole, value)) if hasattr(value, "__len__") else (whole(value),)
    if len(values) not in (1, rank, 2 * rank):
        what = f"Size of padding can only be 1, {rank} or {2 * rank}"
        raise ValueError(explain(what, got=str(values)))
    return values * (2 * rank // len(values))


for _rank in LETTERS:

    def _pads(padding: Sequence[int], rank: int = _rank) -> tuple[Any, ...]:
        """The padding before each spatial axis, then after each."""
        return sides(padding, rank)

    view(f"nn.utils.get_pad_tuple{_rank}d")(_pads)


def windows(attrs: dict[str, Any], rank: int, *names: str) -> dict[str, Any]:
    """The attributes of a builder with one number for each axis in `names`, and all paddings."""
    for name in names:
        if attrs.get(name) is not None:
            attrs[name] = per_axis(attrs[name], rank)
    if "padding" in attrs:
        attrs["padding"] = sides(attrs["padding"], rank)
    return attrs


def expression(value: Expr | tuple[float, ...], dtype: str) -> Expr:
    """An expression stays; numbers become a constant."""
    return value if isinstance(value, Expr) else const(value, dtype)


def axis_of(data: TensorType, axis: int) -> int:
    """An axis counted from the first. Raises ValueError out of range."""
    rank = len(data.shape)
    if not -rank <= int(axis) < rank:
        raise ValueError(explain("the axis is out of range", got=f"{axis} of {rank}"))
    return int(axis) % rank


def extents(tensor_type: TensorType, layout: str) -> dict[str, Any]:
    """The extents of a tensor by the letters of its layout; those of blocks multiplied out."""
    plan = layout_of(layout)
    if len(plan) != len(tensor_type.shape):
        what = f"a tensor of layout {layout} has {len(plan)} axes"
        raise ValueError(explain(what, got=str(tensor_type)))
    sizes = {}
    for letter, dim in zip(plan, tensor_type.shape, strict=True):
        if letter.isupper():
            factor = plan.factor_of(letter)
            sizes[letter] = dim * factor if factor > 0 else dim
    return sizes


def as_plain(data: Var | Input, layout: str, plain: str) -> Any:
    """A tensor of a permuted layout in the plain one."""
    if layout == plain:
        return data
    if sorted(layout) != sorted(plain):
        raise ValueError(explain(f"the layout is a permutation of {plain}", got=layout))
    return builder().emit(R.permute_dims(data, [layout.index(letter) for letter in plain]))


def dims_in(tensor: Any, count: int) -> list[TirVar]:
    """The elements of a vector of integers, read at run time, as extents."""
    bb = builder()
    wide = tensor if str(tensor.struct_info.dtype) == "int64" else R.astype(tensor, "int64")
    dims = [TirVar(bb.get_unique_name("extent"), "int64") for _ in range(count)]
    bb.match_cast(bb.emit(R.tensor_to_shape(wide)), ShapeStructInfo(dims))
    return dims


def vectors(axis: str, *axes: int, count: int) -> Any:
    """The hook `arguments` for vectors along an axis of the first argument, the attribute `axis`."""

    def arguments(types: Sequence[Any], attrs: dict[str, Any]) -> Any:
        data = types[0]
        if not isinstance(data, TensorType):
            return None
        vector = TensorType((data.shape[axis_of(data, attrs[axis])],), data.dtype)
        return [vector if n in axes else None for n in range(count)]

    return arguments
