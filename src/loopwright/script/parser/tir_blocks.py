"""Blocks of the namespace `T`."""

from __future__ import annotations

import builtins as _py
from collections.abc import Callable, Sequence
from typing import Any

from ...base.errors import explain
from ...ir.dtype import DataType
from ...ir.prim_expr import IterVar, PrimExpr, Range, Var
from ...ir.prim_op import cast as _cast
from ...ir.prim_op import const as _const
from ...ir.prim_op import convert as _convert
from ...tir.buffer import BufferRegion
from ...tir.expr import BufferLoad
from .closed import READABLE
from .frames import BlockFrame, InitFrame, current, loop_range
from .tir_buffers import as_region
from .tir_values import as_integer


def block(name: str = "", no_realize: bool = False) -> BlockFrame:
    """A unit of computation."""
    return BlockFrame(name, no_realize)


def init() -> InitFrame:
    """The statements that run at the first iteration of the reduction axes of the block."""
    return InitFrame()


def where(predicate: PrimExpr | int) -> None:
    """The block runs only where this holds."""
    frame = current(BlockFrame, "T.where")
    if frame.predicate is not None:
        raise ValueError(explain("the block has a T.where already", instead="join them with and"))
    frame.predicate = _convert(predicate)


def _regions(slices: tuple[Any, ...]) -> list[BufferRegion]:
    if len(slices) == 1 and isinstance(slices[0], (list, tuple)):
        slices = tuple(slices[0])
    return [as_region(item) for item in slices]


def reads(*buffer_slices: BufferRegion | BufferLoad) -> None:
    """The regions that the block reads."""
    frame = current(BlockFrame, "T.reads")
    if frame.reads is not None:
        raise ValueError(explain("the block has T.reads already", instead="list all regions once"))
    frame.reads = _regions(buffer_slices)


def writes(*buffer_slices: BufferRegion | BufferLoad) -> None:
    """The regions that the block writes."""
    frame = current(BlockFrame, "T.writes")
    if frame.writes is not None:
        raise ValueError(explain("the block has T.writes already", instead="list all regions once"))
    frame.writes = _regions(buffer_slices)


def block_attr(attrs: dict[str, Any]) -> None:
    """Annotations of the block."""
    annotations = current(BlockFrame, "T.block_attr").annotations
    for key, value in attrs.items():
        old = annotations.get(key)
        if isinstance(old, dict) and isinstance(value, dict):
            annotations[key] = {**old, **value}
        elif annotations.setdefault(key, value) != value:
            what = f"the block has the annotation {key!r} already"
            raise ValueError(explain(what, got=value, instead=f"say it once: {annotations[key]!r}"))


def _axis(kind: int, doc: str) -> Callable[..., Var]:
    """A function that makes the axes of one kind."""

    def axis_of_kind(
        dom: PrimExpr | Range | int, binding: PrimExpr | int, dtype: DataType | str = "int32"
    ) -> Var:
        frame = current(BlockFrame, "T.axis")
        if isinstance(dom, Range):
            domain = dom
        elif isinstance(dom, (list, tuple)):
            domain = Range(*dom)
        else:
            domain = Range(dom)
        for part in (domain.min, domain.extent):
            as_integer(part, "the domain of an axis")
        value = as_integer(binding, "the binding of an axis")
        parts = (domain.min.dtype.bits, domain.extent.dtype.bits, DataType(dtype).bits)
        wide = DataType(f"int{_py.max(parts)}")
        domain = Range._make(_cast(wide, domain.min), _cast(wide, domain.extent))
        axis_var = IterVar(domain, Var("", wide), kind)
        frame.iter_vars.append(axis_var)
        frame.iter_values.append(_const(binding, wide) if isinstance(binding, int) else value)
        return axis_var.var

    axis_of_kind.__doc__ = doc
    return staticmethod(axis_of_kind)


class axis:
    """Axes of a block: `vi = T.axis.spatial(128, i)`."""

    spatial = _axis(IterVar.DataPar, "An axis whose iterations are independent.")
    reduce = _axis(IterVar.CommReduce, "An axis over which the block accumulates.")
    scan = _axis(IterVar.Ordered, "An axis whose iterations run in order.")
    opaque = _axis(IterVar.DimInfo, "An axis of which nothing is known.")

    @staticmethod
    def remap(kinds: str, bindings: Sequence[PrimExpr], dtype: DataType | str = "int32") -> Any:
        """Axes that are loop variables: "SSR" says which is spatial and which is reduced."""
        current(BlockFrame, "T.axis")
        names = {"S": axis.spatial, "R": axis.reduce}
        bindings = list(bindings)
        if len(kinds) != len(bindings) or set(kinds) - set(names):
            what = "T.axis.remap needs one letter, S or R, for each loop variable"
            raise ValueError(explain(what, got=f"{kinds!r} for {len(bindings)} variables"))
        variables = []
        for kind, binding in zip(kinds, bindings, strict=True):
            dom = loop_range(binding) if isinstance(binding, Var) else None
            if dom is None:
                what = "T.axis.remap binds variables of the loops around"
                hint = "use T.axis.spatial(extent, value) or T.axis.reduce(extent, value)"
                raise ValueError(explain(what, got=str(binding), instead=hint))
            variables.append(names[kind](dom, binding, dom.extent.dtype))
        return variables[0] if len(variables) == 1 else variables

    S = spatial
    R = reduce


READABLE.register(type, lambda owner, name: owner is axis)
