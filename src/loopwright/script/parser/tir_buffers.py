"""Functions and buffers of the namespace `T`."""

from __future__ import annotations

import builtins as _py
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...base.errors import explain
from ...ir.dtype import DataType
from ...ir.prim_expr import IntImm as _IntImm
from ...ir.prim_expr import PrimExpr, PrimType, Ramp, Range, Var
from ...ir.prim_op import cast as _cast
from ...ir.prim_op import const as _const
from ...ir.prim_op import convert as _convert
from ...tir import stmt as _stmt
from ...tir.buffer import Buffer as _Buffer
from ...tir.buffer import BufferRegion
from ...tir.buffer import decl_buffer as _decl_buffer
from ...tir.expr import BufferLoad
from ...tir.stmt import MatchBufferRegion
from .frames import BlockFrame, FuncFrame, Wrap, current, enclosing
from .tir_values import dtype_text, name_value


def func_name(name: str) -> None:
    """Name the function that is being built."""
    current(FuncFrame, "T.func_name").name = name


def func_attr(attrs: dict[str, Any]) -> None:
    """Attributes of the function."""
    frame = current(FuncFrame, "T.func_attr")
    if frame.is_private and "global_symbol" in attrs:
        what = "a private function has no global_symbol"
        raise ValueError(explain(what, instead="leave out private=True, or the attribute"))
    frame.attrs.update(attrs)


def func_ret(ret_type: Any) -> Any:
    """The type that the function returns, such as T.int32; None for nothing."""
    frame = current(FuncFrame, "T.func_ret")
    frame.ret_type = returned_type(ret_type)
    return frame.ret_type


def returned_type(value: object) -> PrimType | None:
    """The type of `T.int32` or `T.int32()`."""
    value = value() if callable(value) else value
    if value is None or isinstance(value, PrimType):
        return value
    if not isinstance(value, PrimExpr):
        what = "a prim_func returns a scalar or nothing"
        raise TypeError(explain(what, instead="write -> T.int32, or leave it out"))
    return PrimType(value.dtype)


def arg(name: str, obj: PrimExpr | _Buffer) -> Any:
    """A parameter: a variable, or a buffer (whose handle is the parameter)."""
    frame = current(FuncFrame, "T.arg")
    if isinstance(obj, _Buffer):
        name_value(name, obj)
        param = Var(f"{name}_handle", "handle")
        frame.buffer_map[param] = obj
    elif isinstance(obj, Var):
        name_value(name, obj)
        param = obj
    else:
        what = f"parameter {name} needs a type such as T.int32, T.handle or T.Buffer"
        raise TypeError(explain(what, got=f"{obj!r} of type {type(obj).__name__}"))
    frame.params.append(param)
    return obj


def buffer(
    shape: int | Sequence[PrimExpr | int], dtype: DataType | str = "float32",
    data: Var | None = None, strides: Sequence[Any] | None = None, elem_offset: Any = None,
    scope: str = "global", align: int = 0, offset_factor: int = 0, buffer_type: str = "",
    axis_separators: Any = None,
) -> _Buffer:  # fmt: skip
    """A buffer symbol: as the annotation of a parameter, or a view of the memory `data`."""
    index = _shape_dtype(shape)
    if isinstance(strides, (list, tuple)):
        strides = [Var(s, index) if isinstance(s, str) else s for s in strides]
    if isinstance(elem_offset, str):
        elem_offset = Var(elem_offset, index)
    elif offset_factor and elem_offset is None:
        elem_offset = Var("", index)
    return _decl_buffer(
        shape,
        dtype_text(dtype),
        "",
        data,
        strides,
        elem_offset,
        scope,
        align,
        offset_factor,
        buffer_type,
        axis_separators,
    )


def _shape_dtype(shape: int | Sequence[PrimExpr | int]) -> Any:
    first = shape[0] if isinstance(shape, (list, tuple)) and shape else shape
    return first.dtype if isinstance(first, PrimExpr) else "int32"


Buffer = buffer
buffer_decl = buffer


def match_buffer(
    param: Any, shape: Sequence[PrimExpr | int] | None = None, dtype: DataType | str = "float32",
    data: Var | None = None, strides: Sequence[Any] | None = None,
    elem_offset: PrimExpr | str | int | None = None, scope: str = "global", align: int = -1,
    offset_factor: int = 0, buffer_type: str = "default",
    axis_separators: Sequence[int] | None = None,
) -> _Buffer:  # fmt: skip
    """See a handle parameter as a buffer, or, in a block, a region of a buffer as another one."""
    region = None if isinstance(param, Var) else as_region(param)
    if shape is None:
        if region is None:
            what = f"T.match_buffer of {param} needs a shape"
            raise ValueError(explain(what, instead="T.match_buffer(a, (16, 16))"))
        shape, dtype = [axis.extent for axis in region.region], region.buffer.dtype
    rest = (strides, elem_offset, scope, align, offset_factor, buffer_type, axis_separators)
    matched = buffer(shape, dtype, data, *rest)
    if region is None:
        frame = enclosing(FuncFrame)
        if frame is None:
            raise ValueError(explain("T.match_buffer outside a prim_func"))
        if not _py.any(p is param for p in frame.params):
            what = "T.match_buffer of a variable needs a parameter of the function"
            raise ValueError(explain(what, got=str(param.name)))
        frame.buffer_map[param] = matched
    else:
        frame = current(BlockFrame, "T.match_buffer of a region")
        _check_window(matched, region)
        frame.match_buffers.append(MatchBufferRegion(matched, region))
    return matched


def _check_window(window: _Buffer, region: BufferRegion) -> None:
    """Raise ValueError where a shape is not that of the region, apart from leading ones."""
    extents = [axis.extent for axis in region.region]
    lead = len(extents) - len(window.shape)
    numbers = [1] * lead + [_literal(e) for e in window.shape]
    pairs = zip(numbers, map(_literal, extents), strict=True) if lead >= 0 else ()
    if lead < 0 or _py.any(a != b for a, b in pairs if a is not None and b is not None):
        what = "the shape of T.match_buffer is not that of the region"
        shape, size = (", ".join(map(str, part)) for part in (window.shape, extents))
        raise ValueError(
            explain(what, got=f"({shape}) of a region of ({size})", instead="its extents")
        )


def _literal(extent: PrimExpr) -> int | None:
    return extent.value if isinstance(extent, _IntImm) else None


def as_region(value: BufferRegion | PrimExpr) -> BufferRegion:
    if isinstance(value, BufferRegion):
        return value
    if isinstance(value, BufferLoad):
        return _load_region(value)
    if isinstance(value, _Buffer):
        return BufferRegion.full_region(value)
    what = "this is not a region of a buffer"
    hint = "write A[i, 0:4], or A for all of it"
    raise TypeError(explain(what, got=f"{value!r} of type {type(value).__name__}", instead=hint))


def _load_region(load: BufferLoad) -> BufferRegion:
    ranges = []
    for index in load.indices:
        low, size = index, 1
        if isinstance(index, Ramp):
            low, size = index.base, index.lanes
        ranges.append(Range.from_min_extent(low, _cast(low.dtype, size)))
    return BufferRegion(load.buffer, tuple(ranges))


def alloc_buffer(
    shape: int | Sequence[PrimExpr | int], dtype: DataType | str = "float32",
    data: Var | None = None, strides: Any = None, elem_offset: Any = None, scope: str = "global",
    align: int = -1, offset_factor: int = 0, buffer_type: str = "default",
    axis_separators: Any = None,
) -> _Buffer:  # fmt: skip
    """A buffer that lives in the enclosing block (or the root block)."""
    rest = (strides, elem_offset, scope, align, offset_factor, buffer_type, axis_separators)
    allocated = buffer(shape, dtype, data, *rest)
    frame = enclosing(BlockFrame)
    if frame is not None:
        frame.alloc_buffers.append(allocated)
    else:
        current(FuncFrame, "T.alloc_buffer").root_buffers.append(allocated)
    return allocated


def decl_buffer(
    shape: int | Sequence[PrimExpr | int], dtype: DataType | str = "float32",
    data: Var | None = None, strides: Sequence[int] | None = None,
    elem_offset: PrimExpr | int | None = None, scope: str = "global", align: int = 0,
    offset_factor: int = 0, buffer_type: str = "", axis_separators: Any = None,
) -> Wrap:  # fmt: skip
    """A view of memory for the rest of the scope; without `data`, the memory is allocated."""
    rest = (strides, elem_offset, scope, align, offset_factor, buffer_type, axis_separators)
    declared = buffer(shape, dtype, data, *rest)

    def wrap(body: _stmt.Stmt) -> Any:
        body = _stmt.DeclBuffer(declared, body)
        if data is not None:
            return body
        return _stmt.Allocate(
            declared.data, declared.dtype, declared.shape, _const(True, "bool"), body
        )

    return Wrap(wrap, declared, (declared,), "T.decl_buffer")


def allocate(
    extents: list[PrimExpr | int],
    dtype: DataType | str | None,
    scope: str = "global",
    condition: PrimExpr | int | None = None,
    annotations: dict[str, Any] | None = None,
) -> Wrap:
    """Memory for the rest of the scope; binds the pointer to it."""
    element = DataType(dtype_text(dtype))
    pointer = Var("", "handle", type_annotation=(str(element), scope))
    sizes = tuple(
        _convert(e) for e in (extents if isinstance(extents, (list, tuple)) else [extents])
    )
    cond = _const(True, "bool") if condition is None else _convert(condition)

    def wrap(body: _stmt.Stmt) -> Any:
        return _stmt.Allocate(pointer, element, sizes, cond, body, dict(annotations or {}))

    return Wrap(wrap, pointer, title="T.allocate")


def allocate_const(
    data: Sequence[float],
    dtype: DataType | str,
    extents: list[Any],
    annotations: dict[str, Any] | None = None,
) -> Wrap:
    """Constant data for the rest of the scope; binds the pointer to it."""
    element = DataType(dtype_text(dtype))
    pointer = Var("", "handle", type_annotation=(str(element), "global"))
    sizes = tuple(_convert(e) for e in extents)
    array = data if hasattr(data, "dtype") else np.asarray(data, element.numpy())
    shaped = array.reshape([int(e) for e in extents]) if isinstance(array, np.ndarray) else array

    def wrap(body: _stmt.Stmt) -> Any:
        return _stmt.AllocateConst(pointer, element, sizes, shaped, body, dict(annotations or {}))

    return Wrap(wrap, pointer, title="T.allocate_const")
