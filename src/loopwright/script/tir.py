"""The namespace `T` of TVMScript: what stands behind `T.` in a prim_func.

Intrinsics come from the table in `tir/op.py`; loops, blocks, buffers and data types are here.
"""

from __future__ import annotations

import builtins as _py
import inspect
import re
from collections.abc import Callable
from typing import Any

import numpy as np

from ..arith.analyzer import Analyzer as _Analyzer
from ..base.errors import explain
from ..ir.dtype import DataType
from ..ir.expr import BaseExpr
from ..ir.op import Op
from ..ir.prim_expr import (  # noqa: F401  (classes that are reached as T.Add, T.Ramp, ...)
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    And,
    Broadcast,
    Call,
    Cast,
    Div,
    FloatImm,
    FloorDiv,
    FloorMod,
    IntImm,
    IterVar,
    Max,
    Min,
    Mod,
    Mul,
    Not,
    Or,
    PointerType,
    PrimExpr,
    Ramp,
    Range,
    Select,
    Shuffle,
    SizeVar,
    StringImm,
    Sub,
    Var,
)
from ..ir.prim_expr import Let as _Let
from ..ir.prim_op import cast as _cast
from ..ir.prim_op import const as _const
from ..ir.prim_op import convert as _convert
from ..ir.prim_op import match_types as _match_types
from ..ir.target import Target
from ..tir import op as _op
from ..tir import stmt as _stmt
from ..tir.buffer import Buffer as _Buffer
from ..tir.buffer import BufferRegion
from ..tir.buffer import decl_buffer as _decl_buffer
from ..tir.expr import BufferLoad, CommReducer, ProducerLoad, Reduce  # noqa: F401
from ..tir.stmt import ForKind, MatchBufferRegion
from .parser.entry import PrimFuncDecorator
from .parser.frames import (
    BlockFrame,
    BranchFrame,
    ForFrame,
    FuncFrame,
    IfFrame,
    InitFrame,
    WhileFrame,
    Wrap,
    current,
    emit,
    enclosing,
    innermost,
    loop_range,
    pointer_type,
)
from .parser.macro import MacroDecorator
from .parser.region import as_operand

prim_func = PrimFuncDecorator()
macro = MacroDecorator()
inline = MacroDecorator()


class meta_var:
    """`x = T.meta_var(value)`: x is the Python value itself, no variable of the function."""

    def __init__(self, value: Any) -> None:
        self.value = value

    @property
    def meta_value(self) -> Any:
        """The value, for a loop over it."""
        return self.value

    def __iter__(self) -> Any:
        return iter([meta_var(item) for item in self.value])


# ------------------------------------------------------------------ data types


def _dtype_constructor(name: str) -> Callable[..., PrimExpr]:
    dtype = DataType(name)

    def make(expr: Any = None, is_size_var: bool = False) -> PrimExpr:
        if expr is None:
            return SizeVar("", dtype) if is_size_var else Var("", dtype)
        if isinstance(expr, str):
            return FloatImm(dtype, float(expr)) if dtype.is_float else _const(int(expr), dtype)
        return _const(as_operand(expr), dtype)

    make.__name__ = make.__qualname__ = name
    make.__doc__ = f"A {name} variable; with an argument, that value as {name}."
    make.dtype = dtype  # type: ignore[attr-defined]
    return make


_BASES = [f"{kind}{bits}" for kind in ("int", "uint") for bits in (1, 2, 4, 8, 16, 32, 64)]
_BASES += ["float16", "float32", "float64", "bfloat16", "float8_e3m4", "float8_e4m3"]
_BASES += ["float8_e4m3b11fnuz", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2"]
_BASES += ["float8_e5m2fnuz", "float8_e8m0fnu", "float6_e2m3fn", "float6_e3m2fn", "float4_e2m1fn"]
for _name in _BASES:
    globals()[_name] = _dtype_constructor(_name)
boolean = _dtype_constructor("bool")
bool = boolean
int32: Any
int64: Any


def handle(dtype: Any = None, storage_scope: str = "global", *, is_size_var: Any = False) -> Var:
    """A pointer variable; `dtype` is what it points to."""
    kind = SizeVar if is_size_var else Var
    if dtype is None:
        return kind("", "handle")
    return kind("", "handle", type_annotation=(_dtype_text(dtype), storage_scope))


def _dtype_text(dtype: Any) -> str:
    return str(getattr(dtype, "dtype", None) or DataType(dtype))


def ptr(dtype: Any, storage_scope: str = "global", is_size_var: Any = False) -> Var:
    """A pointer variable."""
    return handle(dtype, storage_scope, is_size_var=is_size_var)


def buffer_var(dtype: Any, storage_scope: str = "global") -> Var:
    """The pointer variable of a buffer."""
    return Var("", "handle", type_annotation=pointer_type(dtype, storage_scope))


def Ptr(dtype: Any, storage_scope: str = "global") -> Var:
    """A pointer variable, as an annotation."""
    return handle(dtype, storage_scope)


def void(expr: Any = None, *, is_size_var: Any = False) -> PrimExpr:
    """A variable of no type."""
    return _dtype_constructor("void")(expr, is_size_var)


def var(dtype: Any, name: str = "") -> Var:
    """A variable."""
    return Var(name, dtype)


# ------------------------------------------------------------------ the function


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
    """The type that the function returns."""
    frame = current(FuncFrame, "T.func_ret")
    frame.ret_type = ret_type
    return ret_type


def arg(name: str, obj: Any) -> Any:
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


def name_value(name: str, value: Any) -> None:
    """Give a fresh variable, axis or buffer the name it is bound to."""
    if isinstance(value, Var):
        if not value.name:
            value.name = name
    elif isinstance(value, IterVar):
        name_value(name, value.var)
    elif isinstance(value, _Buffer):
        if not value.name:
            value.name = name
        name_value(name, value.data)
        if isinstance(value.elem_offset, Var):
            name_value(f"{name}_elem_offset", value.elem_offset)
        for i, stride in enumerate(value.strides):
            if isinstance(stride, Var):
                name_value(f"{name}_s{i}", stride)


# ------------------------------------------------------------------ buffers


def buffer(
    shape: Any,
    dtype: Any = "float32",
    data: Var | None = None,
    strides: Any = None,
    elem_offset: Any = None,
    scope: str = "global",
    align: int = 0,
    offset_factor: int = 0,
    buffer_type: str = "",
    axis_separators: Any = None,
) -> _Buffer:
    """A buffer symbol: as the annotation of a parameter, or a view of the memory `data`."""
    if isinstance(strides, (list, tuple)):
        strides = [Var(s, "int32") if isinstance(s, str) else s for s in strides]
    if isinstance(elem_offset, str):
        elem_offset = Var(elem_offset, "int32")
    elif offset_factor and elem_offset is None:
        elem_offset = Var("", _shape_dtype(shape))
    return _decl_buffer(
        shape,
        _dtype_text(dtype),
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


def _shape_dtype(shape: Any) -> Any:
    first = shape[0] if isinstance(shape, (list, tuple)) and shape else shape
    return first.dtype if isinstance(first, PrimExpr) else "int32"


Buffer = buffer
buffer_decl = buffer


def match_buffer(
    param: Any,
    shape: Any = None,
    dtype: Any = "float32",
    data: Var | None = None,
    strides: Any = None,
    elem_offset: Any = None,
    scope: str = "global",
    align: int = -1,
    offset_factor: int = 0,
    buffer_type: str = "default",
    axis_separators: Any = None,
) -> _Buffer:
    """See a handle parameter as a buffer, or, in a block, a region of a buffer as another one."""
    region = None if isinstance(param, Var) else _as_region(param)
    if shape is None:
        if region is None:
            what = f"T.match_buffer of {param} needs a shape"
            raise ValueError(explain(what, instead="T.match_buffer(a, (16, 16))"))
        shape, dtype = [axis.extent for axis in region.region], region.buffer.dtype
    rest = (strides, elem_offset, scope, align, offset_factor, buffer_type, axis_separators)
    made = buffer(shape, dtype, data, *rest)
    if region is None:
        frame = enclosing(FuncFrame)
        if frame is None:
            raise ValueError(explain("T.match_buffer stands in no prim_func"))
        if not _py.any(p is param for p in frame.params):
            what = "T.match_buffer of a variable needs a parameter of the function"
            raise ValueError(explain(what, got=str(param.name)))
        frame.buffer_map[param] = made
    else:
        frame = current(BlockFrame, "T.match_buffer of a region")
        frame.match_buffers.append(MatchBufferRegion(made, region))
    return made


def _as_region(value: Any) -> BufferRegion:
    if isinstance(value, BufferRegion):
        return value
    if isinstance(value, BufferLoad):
        return _load_region(value)
    if isinstance(value, _Buffer):
        return BufferRegion.full_region(value)
    what = "this is no region of a buffer"
    hint = "write A[i, 0:4], or A for all of it"
    raise TypeError(explain(what, got=f"{value!r} of type {type(value).__name__}", instead=hint))


def _load_region(load: BufferLoad) -> BufferRegion:
    ranges = []
    for index in load.indices:
        low, size = index, 1
        if isinstance(index, Ramp):
            low, size = index.base, index.lanes
        ranges.append(Range.from_min_extent(low, _const(size, low.dtype)))
    return BufferRegion(load.buffer, tuple(ranges))


def alloc_buffer(
    shape: Any,
    dtype: Any = "float32",
    data: Var | None = None,
    strides: Any = None,
    elem_offset: Any = None,
    scope: str = "global",
    align: int = -1,
    offset_factor: int = 0,
    buffer_type: str = "default",
    axis_separators: Any = None,
) -> _Buffer:
    """A buffer that lives in the enclosing block (or the root block)."""
    rest = (strides, elem_offset, scope, align, offset_factor, buffer_type, axis_separators)
    made = buffer(shape, dtype, data, *rest)
    frame = innermost()
    if isinstance(frame, BlockFrame):
        frame.alloc_buffers.append(made)
    else:
        current(FuncFrame, "T.alloc_buffer").root_buffers.append(made)
    return made


def decl_buffer(
    shape: Any,
    dtype: Any = "float32",
    data: Var | None = None,
    strides: Any = None,
    elem_offset: Any = None,
    scope: str = "global",
    align: int = 0,
    offset_factor: int = 0,
    buffer_type: str = "",
    axis_separators: Any = None,
) -> Wrap:
    """A view of memory for the rest of the scope; without `data`, the memory is allocated."""
    rest = (strides, elem_offset, scope, align, offset_factor, buffer_type, axis_separators)
    made = buffer(shape, dtype, data, *rest)

    def wrap(body: Any) -> Any:
        body = _stmt.DeclBuffer(made, body)
        if data is not None:
            return body
        return _stmt.Allocate(made.data, made.dtype, made.shape, _const(True, "bool"), body)

    return Wrap(wrap, made, (made,), "T.decl_buffer")


def allocate(
    extents: Any,
    dtype: Any,
    scope: str = "global",
    condition: Any = None,
    annotations: dict[str, Any] | None = None,
) -> Wrap:
    """Memory for the rest of the scope; binds the pointer to it."""
    made = DataType(_dtype_text(dtype))
    pointer = Var("", "handle", type_annotation=(str(made), scope))
    sizes = tuple(
        _convert(e) for e in (extents if isinstance(extents, (list, tuple)) else [extents])
    )
    cond = _const(True, "bool") if condition is None else _convert(condition)

    def wrap(body: Any) -> Any:
        return _stmt.Allocate(pointer, made, sizes, cond, body, dict(annotations or {}))

    return Wrap(wrap, pointer, title="T.allocate")


def allocate_const(
    data: Any, dtype: Any, extents: Any, annotations: dict[str, Any] | None = None
) -> Wrap:
    """Constant data for the rest of the scope; binds the pointer to it."""
    made = DataType(_dtype_text(dtype))
    pointer = Var("", "handle", type_annotation=(str(made), "global"))
    sizes = tuple(_convert(e) for e in extents)
    array = data if hasattr(data, "dtype") else np.asarray(data, made.numpy())
    shaped = array.reshape([int(e) for e in extents]) if isinstance(array, np.ndarray) else array

    def wrap(body: Any) -> Any:
        return _stmt.AllocateConst(pointer, made, sizes, shaped, body, dict(annotations or {}))

    return Wrap(wrap, pointer, title="T.allocate_const")


# ------------------------------------------------------------------ blocks


def block(name: str = "", no_realize: Any = False) -> BlockFrame:
    """A unit of computation."""
    return BlockFrame(name, no_realize)


def init() -> InitFrame:
    """What runs at the first iteration of the reduction axes of the block."""
    return InitFrame()


def where(predicate: Any) -> None:
    """The block runs only where this holds."""
    frame = current(BlockFrame, "T.where")
    if frame.predicate is not None:
        raise ValueError(explain("the block has a T.where already", instead="join them with and"))
    frame.predicate = _convert(predicate)


def _regions(slices: tuple[Any, ...]) -> list[BufferRegion]:
    if len(slices) == 1 and isinstance(slices[0], (list, tuple)):
        slices = tuple(slices[0])
    return [_as_region(item) for item in slices]


def reads(*buffer_slices: Any) -> None:
    """What the block reads."""
    frame = current(BlockFrame, "T.reads")
    if frame.reads is not None:
        raise ValueError(explain("the block has T.reads already", instead="list all regions once"))
    frame.reads = _regions(buffer_slices)


def writes(*buffer_slices: Any) -> None:
    """What the block writes."""
    frame = current(BlockFrame, "T.writes")
    if frame.writes is not None:
        raise ValueError(explain("the block has T.writes already", instead="list all regions once"))
    frame.writes = _regions(buffer_slices)


def block_attr(attrs: dict[str, Any]) -> None:
    """Annotations of the block."""
    current(BlockFrame, "T.block_attr").annotations.update(attrs)


sblock = block
sblock_attr = block_attr
alloc_sblock = alloc_buffer
sblock_alloc_buffer = alloc_buffer


class axis:
    """Axes of a block: `vi = T.axis.spatial(128, i)`."""

    @staticmethod
    def _push(dom: Any, binding: Any, dtype: Any, kind: int) -> Var:
        frame = current(BlockFrame, "T.axis")
        if isinstance(dom, Range):
            made = dom
        elif isinstance(dom, (list, tuple)):
            made = Range(*dom)
        else:
            made = Range(dom)
        value = _convert(binding)
        parts = (made.min.dtype.bits, made.extent.dtype.bits, DataType(dtype).bits)
        wide = DataType(f"int{_py.max(parts)}")
        made = Range._make(_cast(wide, made.min), _cast(wide, made.extent))
        axis_var = IterVar(made, Var("", wide), kind)
        frame.iter_vars.append(axis_var)
        frame.iter_values.append(_const(value.value, wide) if isinstance(value, IntImm) else value)
        return axis_var.var

    @staticmethod
    def spatial(dom: Any, binding: Any, dtype: Any = "int32") -> Var:
        """An axis whose iterations are independent."""
        return axis._push(dom, binding, dtype, IterVar.DataPar)

    @staticmethod
    def reduce(dom: Any, binding: Any, dtype: Any = "int32") -> Var:
        """An axis over which the block accumulates."""
        return axis._push(dom, binding, dtype, IterVar.CommReduce)

    @staticmethod
    def scan(dom: Any, binding: Any, dtype: Any = "int32") -> Var:
        """An axis whose iterations run in order."""
        return axis._push(dom, binding, dtype, IterVar.Ordered)

    @staticmethod
    def opaque(dom: Any, binding: Any, dtype: Any = "int32") -> Var:
        """An axis of which nothing is known."""
        return axis._push(dom, binding, dtype, IterVar.DimInfo)

    @staticmethod
    def remap(kinds: str, bindings: Any, dtype: Any = "int32") -> Any:
        """Axes that are loop variables: "SSR" says which is spatial and which is reduced."""
        current(BlockFrame, "T.axis")
        names = {"S": axis.spatial, "R": axis.reduce}
        bindings = list(bindings)
        if len(kinds) != len(bindings) or set(kinds) - set(names):
            what = "T.axis.remap needs one letter, S or R, for each loop variable"
            raise ValueError(explain(what, got=f"{kinds!r} for {len(bindings)} variables"))
        made = []
        for kind, binding in zip(kinds, bindings, strict=True):
            dom = loop_range(binding) if isinstance(binding, Var) else None
            if dom is None:
                what = "T.axis.remap binds variables of the loops around"
                hint = "use T.axis.spatial(extent, value) or T.axis.reduce(extent, value)"
                raise ValueError(explain(what, got=str(binding), instead=hint))
            made.append(names[kind](dom, binding, dom.extent.dtype))
        return made[0] if len(made) == 1 else made

    S = spatial
    R = reduce


# ------------------------------------------------------------------ loops and branches


def _range(start: Any, stop: Any) -> Range:
    """From start to stop; the extent is simplified, so that (i * 4, i * 4 + 4) has 4."""
    low, end = _match_types(start, stop)
    size = end - low
    size = size if isinstance(size, IntImm) else _Analyzer().simplify(size)
    return Range._make(low, size)


def _loop(start: Any, stop: Any, kind: ForKind, annotations: Any, tag: str = "") -> ForFrame:
    if stop is None:
        extent = _convert(start)
        doms = [Range._make(_const(0, extent.dtype), extent)]
    else:
        doms = [_range(start, stop)]
    return ForFrame(doms, kind, tag, annotations)


def serial(start: Any, stop: Any = None, *, annotations: Any = None) -> ForFrame:
    """A loop whose iterations run in order."""
    return _loop(start, stop, ForKind.SERIAL, annotations)


def parallel(start: Any, stop: Any = None, *, annotations: Any = None) -> ForFrame:
    """A loop whose iterations run on the threads of the pool."""
    return _loop(start, stop, ForKind.PARALLEL, annotations)


def vectorized(start: Any, stop: Any = None, *, annotations: Any = None) -> ForFrame:
    """A loop that becomes vector instructions."""
    return _loop(start, stop, ForKind.VECTORIZED, annotations)


def unroll(start: Any, stop: Any = None, *, annotations: Any = None) -> ForFrame:
    """A loop whose body is repeated."""
    return _loop(start, stop, ForKind.UNROLLED, annotations)


def thread_binding(
    start: Any, stop: Any = None, thread: str | None = None, *, annotations: Any = None
) -> ForFrame:
    """A loop whose iterations are the threads of an axis such as "threadIdx.x"."""
    if thread is None and isinstance(stop, str):
        stop, thread = None, stop
    if thread is None:
        what = "T.thread_binding needs the name of a thread axis"
        raise ValueError(explain(what, instead='T.thread_binding(128, thread="threadIdx.x")'))
    return _loop(start, stop, ForKind.THREAD_BINDING, annotations, thread)


def grid(*extents: Any) -> ForFrame:
    """Nested serial loops; an extent may be a pair (start, stop)."""
    doms = []
    for extent in extents:
        pair = extent if isinstance(extent, (list, tuple)) else (0, extent)
        doms.append(_range(*pair))
    return ForFrame(doms, ForKind.SERIAL)


def While(condition: Any) -> WhileFrame:
    """A loop that runs while the condition holds."""
    return WhileFrame(_convert(condition))


def If(condition: Any) -> IfFrame:
    """A branch: `with T.If(c): with T.Then(): ...`"""
    return IfFrame(_convert(condition))


def Then() -> BranchFrame:
    """The branch taken where the condition holds."""
    return BranchFrame(True)


def Else() -> BranchFrame:
    """The branch taken where the condition does not hold."""
    return BranchFrame(False)


# ------------------------------------------------------------------ statements


def evaluate(value: Any) -> None:
    """Evaluate an expression for its effect."""
    if isinstance(value, str):
        value = StringImm(value)
    emit(_stmt.Evaluate(as_operand(value)))


def buffer_store(buffer: _Buffer, value: Any, indices: Any, predicate: Any = None) -> None:
    """Store `value` at `indices`."""
    points = list(indices) if isinstance(indices, (list, tuple)) else [indices]
    from_literal = not isinstance(value, BaseExpr)
    lanes = [i.dtype.lanes for i in points if isinstance(i, PrimExpr)]
    made = as_operand(value)
    if from_literal and not isinstance(made, PrimExpr):
        made = _const(made, buffer.dtype)
    wanted = _py.max([1, *lanes[-1:]])
    if wanted > 1 and made.dtype.lanes == 1 and buffer.dtype.lanes == 1:
        made = Broadcast(made, wanted)
    if made.dtype != buffer.dtype and made.dtype.element != buffer.dtype.element:
        made = _cast(buffer.dtype.with_lanes(made.dtype.lanes), made)
    emit(_stmt.BufferStore(buffer, made, points, predicate))


def Assert(condition: Any, message: Any) -> Wrap:
    """Check a condition before the rest of the scope runs."""
    cond, text = _convert(condition), _convert(message)
    return Wrap(lambda body: _stmt.AssertStmt(cond, text, body), title="T.Assert")


def LetStmt(value: Any, type_annotation: Any = None, *, var: Var | None = None) -> Wrap:
    """A variable for the rest of the scope."""
    made = _convert(as_operand(value))
    if var is None:
        dtype = made.dtype if type_annotation is None else type_annotation
        if isinstance(dtype, PointerType):
            var = Var("", dtype)
        else:
            var = Var("", getattr(dtype, "dtype", dtype))
    return Wrap(lambda body: _stmt.LetStmt(var, made, body), var, title="a let")


def Let(expr: Any, where: dict[Var, Any] | None = None) -> PrimExpr:
    """`expr` with variables standing for values: `T.Let(x + 1, where={x: y})`."""
    ((name, value),) = (where or {}).items()
    return _Let(name, _convert(value), _convert(expr))


def let(v: Var, value: Any, body: Any = None) -> Any:
    """A let expression, or without `body` a let for the rest of the scope."""
    made = _convert(as_operand(value))
    if body is not None:
        return _Let(v, made, _convert(body))
    return Wrap(lambda inner: _stmt.LetStmt(v, made, inner), v, title="a let")


def bind(value: Any, type_annotation: Any = None, *, var: Var | None = None) -> Wrap:
    """A variable for the rest of the scope (newer spelling)."""
    return LetStmt(value, type_annotation, var=var)


def attr(node: Any, attr_key: str, value: Any) -> Wrap:
    """A note about `node` that holds for the rest of the scope."""
    made = _convert(value)
    return Wrap(lambda body: _stmt.AttrStmt(node, attr_key, made, body), title="T.attr")


def realize(buffer_slice: Any, storage_scope: str, condition: Any = True) -> Wrap:
    """A region of a buffer exists for the rest of the scope."""
    region, cond = _as_region(buffer_slice), _const(condition, "bool")

    def wrap(body: Any) -> Any:
        inner = _stmt.BufferRealize(region.buffer, region.region, cond, body)
        return _stmt.AttrStmt(region.buffer.data, "realize_scope", StringImm(storage_scope), inner)

    return Wrap(wrap, title="T.realize")


def env_thread(thread_tag: str, dtype: Any = "int32") -> Var:
    """The variable of a thread axis; `T.launch_thread` gives it its extent."""
    made = Var("", dtype)
    frame = enclosing(FuncFrame)
    if frame is None:
        raise ValueError(explain("T.env_thread stands in no prim_func"))
    frame.env_threads[made] = IterVar(None, made, IterVar.ThreadIndex, thread_tag)
    return made


def launch_thread(thread: Var | str, extent: Any) -> Wrap:
    """Run the rest of the scope on `extent` threads of an axis; binds its variable."""
    size = _convert(extent)
    if isinstance(thread, str):
        made = Var("", size.dtype)
        found = IterVar(None, made, IterVar.ThreadIndex, thread)
    else:
        frame = enclosing(FuncFrame)
        table = frame.env_threads if frame is not None else {}
        found = next((a for v, a in table.items() if v is thread), None)
        if found is None:
            what = "T.launch_thread needs a variable of T.env_thread"
            raise ValueError(explain(what, got=str(thread)))
    if found.dom is None:
        dom = Range._make(_const(0, size.dtype), size)
        axis_var = IterVar(dom, found.var, IterVar.ThreadIndex, found.thread_tag)
        if not isinstance(thread, str):
            frame.env_threads[thread] = axis_var
    else:
        axis_var = found
    virtual = axis_var.thread_tag in ("vthread", "vthread.x", "vthread.y", "vthread.z")
    key = "virtual_thread" if virtual else "thread_extent"
    return Wrap(
        lambda body: _stmt.AttrStmt(axis_var, key, size, body),
        axis_var.var,
        title="T.launch_thread",
    )


# ------------------------------------------------------------------ expressions


def min(a: Any, b: Any) -> PrimExpr:
    """The smaller of two."""
    return _op.minimum(as_operand(a), as_operand(b))


def max(a: Any, b: Any) -> PrimExpr:
    """The larger of two."""
    return _op.maximum(as_operand(a), as_operand(b))


def cast(src: Any, dtype: Any) -> PrimExpr:
    """`src` as `dtype`."""
    if isinstance(src, (str, DataType)):  # newer scripts write T.cast("float32", x) as T.Cast
        src, dtype = dtype, src
    return _cast(_dtype_text(dtype), as_operand(src))


def iter_var(v: Any, dom: Any, iter_type: str, thread_tag: str = "") -> IterVar:
    """An axis from its parts."""
    names = ("DataPar", "ThreadIndex", "CommReduce", "Ordered", "DimInfo", "Unrolled")
    names += ("Vectorized", "Parallelized", "Tensorized")
    kind = names.index(iter_type) if isinstance(iter_type, str) else int(iter_type)
    return IterVar(dom, v, kind, thread_tag)


def comm_reducer(combiner: Callable[..., Any], identity: Any) -> CommReducer:
    """A commutative reduction: `T.comm_reducer(lambda x, y: x + y, [T.float32(0)])`."""
    identities = [_convert(i) for i in identity]
    names = list(inspect.signature(combiner).parameters)
    dtypes = [i.dtype for i in identities] * 2
    parts = [Var(name, dtype) for name, dtype in zip(names, dtypes, strict=True)]
    result = combiner(*parts)
    results = result if isinstance(result, (list, tuple)) else [result]
    half = len(identities)
    made = tuple(_convert(r) for r in results)
    return CommReducer(tuple(parts[:half]), tuple(parts[half:]), made, tuple(identities))


def target(target_config: Any, host: Any = None) -> Target:
    """A target, as the value of an attribute."""
    return Target(target_config, host)


def ramp(base: Any, stride: Any, lanes: Any) -> PrimExpr:
    """The vector base, base + stride, ..."""
    return Ramp(base, stride, lanes)


def broadcast(value: Any, lanes: Any) -> PrimExpr:
    """The vector of copies of a value."""
    return Broadcast(value, lanes)


def undef(dtype: Any = "int32") -> Call:
    """A value nobody reads."""
    return Call(_dtype_text(dtype), "tir.undef", [])


def axis_separators(*positions: int) -> list[int]:
    """Axis separators of a buffer."""
    return list(positions)


def _with_regions(fn: Callable[..., Any]) -> Callable[..., Any]:
    """An intrinsic's builder that takes `A[0:4]` as a vector, and `T.float32` as a dtype.

    `dtype=` may be given to any of them: it goes first where the builder takes one, and says
    nothing new where the builder finds it from its arguments.
    """
    names = list(inspect.signature(fn).parameters)
    takes_dtype = "dtype" in names

    def build(*args: Any, **kwargs: Any) -> Any:
        values = [_plain(a) for a in args]
        words = {name: _plain(value) for name, value in kwargs.items()}
        if "dtype" in words and (not takes_dtype or names[0] == "dtype"):
            dtype = words.pop("dtype")
            values = [dtype, *values] if takes_dtype else values
        return fn(*values, **words)

    build.__name__ = build.__qualname__ = fn.__name__
    build.__doc__ = fn.__doc__
    return build


def _plain(value: Any) -> Any:
    if callable(value) and hasattr(value, "dtype"):
        return str(value.dtype)
    return as_operand(value)


for _name in _op.__all__:
    if _name not in globals() and _name not in ("maximum", "minimum"):
        globals()[_name] = _with_regions(getattr(_op, _name))
tvm_call_packed = globals()["call_packed"]
tvm_call_cpacked = globals()["call_cpacked"]

_VECTOR = re.compile(r"^(u?int\d+|float\d+(_\w+)?|bfloat16|bool)x\d+$")


def _intrinsic(name: str) -> Callable[..., Call]:
    """The builder of an intrinsic that has none in `tir.op`: its dtype is a keyword."""

    def build(*args: Any, dtype: Any = "handle") -> Call:
        return Call(_plain(dtype), f"tir.{name}", [as_operand(a) for a in args])

    build.__name__ = build.__qualname__ = name
    return build


def __getattr__(name: str) -> Any:
    if _VECTOR.match(name):
        made: Any = _dtype_constructor(name)
    elif not name.startswith("_") and Op.find(f"tir.{name}") is not None:
        made = _intrinsic(name)
    else:
        known = [n for n in globals() if not n.startswith("_")]
        raise AttributeError(_unknown("T", name, known))
    globals()[name] = made
    return made


def _unknown(space: str, name: str, known: list[str]) -> str:
    import difflib

    close = difflib.get_close_matches(name, known, 3)
    hint = f"did you mean {', '.join(f'{space}.{n}' for n in close)}?" if close else None
    return explain(f"{space} has no {name!r}", instead=hint)
