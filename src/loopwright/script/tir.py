"""The namespace `T` of TVMScript: the names behind `T.` in a prim_func.

Intrinsics come from the table in `tir/op.py`; loops, blocks, buffers and data types are here.
"""

# ruff: noqa: F811  (parameters have TVM's names, some of which are names of T as well)

from __future__ import annotations

import difflib
import inspect
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..arith.analyzer import Analyzer as _Analyzer
from ..base.errors import explain
from ..base.late import public_names as _public_names
from ..base.names import named as _named
from ..ir.dtype import DataType
from ..ir.expr import BaseExpr
from ..ir.literals import is_zero as _is_zero
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
from ..ir.prim_op import lanes_of as _lanes_of
from ..ir.prim_op import match_types as _match_types
from ..ir.prim_op import vscale  # noqa: F401
from ..ir.target import Target
from ..tir import op as _op
from ..tir import op_target as _op_target
from ..tir import stmt as _stmt
from ..tir.buffer import Buffer as _Buffer
from ..tir.expr import BufferLoad, CommReducer, ProducerLoad, Reduce  # noqa: F401
from ..tir.expr import access_dtype as _access_dtype
from ..tir.index_map import IndexMap
from ..tir.stmt import ForKind
from .parser.entry import PrimFuncDecorator
from .parser.frames import (
    BranchFrame,
    ForFrame,
    FuncFrame,
    IfFrame,
    WhileFrame,
    Wrap,
    emit,
    enclosing,
)
from .parser.macro import MacroDecorator
from .parser.region import as_operand
from .parser.tir_blocks import axis, block, block_attr, init, reads, where, writes  # noqa: F401
from .parser.tir_buffers import (  # noqa: F401
    alloc_buffer,
    allocate,
    allocate_const,
    arg,
    as_region,
    buffer,
    decl_buffer,
    func_attr,
    func_name,
    func_ret,
    match_buffer,
)
from .parser.tir_values import (  # noqa: F401
    DTYPES,
    Ptr,
    buffer_var,
    dtype_constructor,
    dtype_text,
    handle,
    intrinsic,
    name_value,
    plain_argument,
    ptr,
    var,
    void,
    with_regions,
)
from .parser.tir_values import as_integer as _as_integer

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ..tir.buffer import BufferRegion

prim_func = PrimFuncDecorator()
macro = MacroDecorator()
inline = MacroDecorator()
Buffer = buffer
buffer_decl = buffer
sblock = block
sblock_attr = block_attr
alloc_sblock = alloc_buffer
sblock_alloc_buffer = alloc_buffer
boolean = dtype_constructor("bool")
bool = boolean
for _name in DTYPES:
    globals()[_name] = dtype_constructor(_name)


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


# ------------------------------------------------------------------ loops and branches


def _range(start: int | PrimExpr, stop: PrimExpr | int | str) -> Range:
    """From start to stop; the extent is simplified, so that (i * 4, i * 4 + 4) has 4. From 0 on it is
    `stop` as written."""
    low, end = _match_types(start, stop)
    size = end - low
    plain = isinstance(size, IntImm) or _is_zero(low)
    size = size if plain else _Analyzer().simplify(size)
    return Range._make(low, size)


def _loop(
    start: PrimExpr | int,
    stop: int | PrimExpr | str | None,
    kind: ForKind,
    annotations: Any,
    tag: str = "",
) -> ForFrame[Var]:
    for bound in (start, stop):
        if bound is not None:
            _as_integer(bound, "a bound of a loop")
    if stop is None:
        extent = _convert(start)
        doms = [Range._make(_const(0, extent.dtype), extent)]
    else:
        doms = [_range(start, stop)]
    return ForFrame(doms, kind, tag, annotations)


def _loops(kind: ForKind, name: str, doc: str) -> Callable[..., ForFrame[Var]]:
    def loop(
        start: PrimExpr | int,
        stop: PrimExpr | int | None = None,
        *,
        annotations: Mapping[str, Any] | None = None,
    ) -> ForFrame[Var]:
        return _loop(start, stop, kind, annotations)

    return _named(loop, name, doc)


serial = _loops(ForKind.SERIAL, "serial", "A loop whose iterations run in order.")
parallel = _loops(
    ForKind.PARALLEL, "parallel", "A loop whose iterations run on the threads of the pool."
)
vectorized = _loops(ForKind.VECTORIZED, "vectorized", "A loop that becomes vector instructions.")
unroll = _loops(ForKind.UNROLLED, "unroll", "A loop whose body is repeated.")


def thread_binding(
    start: PrimExpr | int,
    stop: str | int | None = None,
    thread: str | None = None,
    *,
    annotations: dict[str, Any] | None = None,
) -> ForFrame[Var]:
    """A loop whose iterations are the threads of an axis such as "threadIdx.x"."""
    if thread is None and isinstance(stop, str):
        stop, thread = None, stop
    if thread is None:
        what = "T.thread_binding needs the name of a thread axis"
        raise ValueError(explain(what, instead='T.thread_binding(128, thread="threadIdx.x")'))
    return _loop(start, stop, ForKind.THREAD_BINDING, annotations, thread)


def grid(*extents: PrimExpr | int) -> ForFrame[tuple[Var, ...]]:
    """Nested serial loops; an extent may be a pair (start, stop)."""
    doms = []
    for extent in extents:
        pair = extent if isinstance(extent, (list, tuple)) else (0, extent)
        doms.append(_range(*pair))
    return ForFrame(doms, ForKind.SERIAL)


def While(condition: PrimExpr | int) -> WhileFrame:
    """A loop that runs while the condition holds."""
    return WhileFrame(_convert(condition))


def If(condition: PrimExpr | int) -> IfFrame:
    """A branch: `with T.If(c): with T.Then(): ...`"""
    return IfFrame(_convert(condition))


def Then() -> BranchFrame:
    """The branch taken where the condition holds."""
    return BranchFrame(True)


def Else() -> BranchFrame:
    """The branch taken where the condition does not hold."""
    return BranchFrame(False)


# ------------------------------------------------------------------ statements


def evaluate(value: PrimExpr | BufferRegion | int) -> None:
    """Evaluate an expression for its effect."""
    if isinstance(value, str):
        value = StringImm(value)
    if isinstance(value, _Buffer):
        hint = "T.evaluate(A[i]), or T.evaluate(A.data)"
        raise TypeError(explain("a buffer is not a value", got=value.name, instead=hint))
    emit(_stmt.Evaluate(as_operand(value)))


def buffer_store(buffer: _Buffer, value: Any, indices: list[Any], predicate: Any = None) -> None:
    """Store `value` at `indices`."""
    points = indices if isinstance(indices, (list, tuple)) else [indices]
    points = tuple(map(_convert, points))
    dtype = _access_dtype(buffer, points)
    stored = as_operand(value)
    if not isinstance(stored, BaseExpr):
        stored = _const(stored, buffer.dtype.element)
    if stored.dtype == stored.dtype.element and dtype != dtype.element:
        stored = Broadcast(stored, _lanes_of(dtype))
    if stored.dtype.element != dtype.element:
        stored = _cast(dtype.like(stored.dtype), stored)
    emit(_stmt.BufferStore(buffer, stored, points, predicate))


def Assert(condition: PrimExpr | int, message: PrimExpr | str | int) -> Wrap:
    """Check a condition before the rest of the scope runs."""
    cond, text = _convert(condition), _convert(message)
    return Wrap(lambda body: _stmt.AssertStmt(cond, text, body), title="T.Assert")


def LetStmt(value: PrimExpr | int, type_annotation: Any = None, *, var: Var | None = None) -> Wrap:
    """A variable for the rest of the scope."""
    bound = _convert(as_operand(value))
    if var is None:
        dtype = bound.dtype if type_annotation is None else type_annotation
        if isinstance(dtype, PointerType):
            var = Var("", dtype)
        else:
            var = Var("", getattr(dtype, "dtype", dtype))
    return Wrap(lambda body: _stmt.LetStmt(var, bound, body), var, title="a let")


def Let(expr: PrimExpr | int, where: dict[Var, Any] | None = None) -> PrimExpr:
    """`expr` with variables standing for values: `T.Let(x + 1, where={x: y})`."""
    ((name, value),) = (where or {}).items()
    return _Let(name, _convert(as_operand(value)), _convert(as_operand(expr)))


def let(v: Var, value: PrimExpr | int, body: PrimExpr | int | None = None) -> Any:
    """A let expression, or without `body` a let for the rest of the scope."""
    bound = _convert(as_operand(value))
    if body is not None:
        return _Let(v, bound, _convert(body))
    return Wrap(lambda inner: _stmt.LetStmt(v, bound, inner), v, title="a let")


def bind(value: PrimExpr | int, type_annotation: Any = None, *, var: Var | None = None) -> Wrap:
    """A variable for the rest of the scope (newer spelling)."""
    return LetStmt(value, type_annotation, var=var)


def attr(node: object, attr_key: str, value: PrimExpr | str | int) -> Wrap:
    """A note about `node` that holds for the rest of the scope."""
    operand = _convert(value)
    about = _convert(node) if isinstance(node, int) else node
    return Wrap(lambda body: _stmt.AttrStmt(about, attr_key, operand, body), title="T.attr")


def realize(buffer_slice: Any, storage_scope: str, condition: Any = True) -> Wrap:
    """A region of a buffer exists for the rest of the scope."""
    if isinstance(buffer_slice, _Buffer):
        what, got = "T.realize takes a region", f"the buffer {buffer_slice.name}"
        raise TypeError(explain(what, got=got, instead=f"{buffer_slice.name}[0:n, ...]"))
    region, cond = as_region(buffer_slice), _const(condition, "bool")

    def wrap(body: Any) -> Any:
        inner = _stmt.BufferRealize(region.buffer, region.region, cond, body)
        return _stmt.AttrStmt(region.buffer.data, "realize_scope", StringImm(storage_scope), inner)

    return Wrap(wrap, title="T.realize")


def env_thread(thread_tag: str, dtype: DataType | str = "int32") -> Var:
    """The variable of a thread axis; `T.launch_thread` sets its extent."""
    thread_var = Var("", dtype)
    frame = enclosing(FuncFrame)
    if frame is None:
        raise ValueError(explain("T.env_thread outside a prim_func"))
    frame.env_threads[thread_var] = IterVar(None, thread_var, IterVar.ThreadIndex, thread_tag)
    return thread_var


def launch_thread(thread: Var | str, extent: PrimExpr | int) -> Wrap:
    """Run the rest of the scope on `extent` threads of an axis; binds its variable."""
    size = _convert(extent)
    if isinstance(thread, str):
        thread_var = Var("", size.dtype)
        axis = IterVar(None, thread_var, IterVar.ThreadIndex, thread)
    else:
        frame = enclosing(FuncFrame)
        table = frame.env_threads if frame is not None else {}
        axis = next((a for v, a in table.items() if v is thread), None)
        if axis is None:
            what = "T.launch_thread needs a variable of T.env_thread"
            raise ValueError(explain(what, got=str(thread)))
    if axis.dom is None:
        dom = Range._make(_const(0, size.dtype), size)
        axis_var = IterVar(dom, axis.var, IterVar.ThreadIndex, axis.thread_tag)
        if not isinstance(thread, str) and frame is not None:
            frame.env_threads[thread] = axis_var
    else:
        axis_var = axis
    virtual = axis_var.thread_tag in ("vthread", "vthread.x", "vthread.y", "vthread.z")
    key = "virtual_thread" if virtual else "thread_extent"
    return Wrap(
        lambda body: _stmt.AttrStmt(axis_var, key, size, body),
        axis_var.var,
        title="T.launch_thread",
    )


# ------------------------------------------------------------------ expressions


def min(a: PrimExpr | int, b: PrimExpr | float) -> PrimExpr:
    """The smaller of two."""
    return _op.minimum(as_operand(a), as_operand(b))


def max(a: PrimExpr | BufferRegion | int, b: PrimExpr | BufferRegion | float) -> PrimExpr:
    """The larger of two."""
    return _op.maximum(as_operand(a), as_operand(b))


def cast(src: Any, dtype: Any) -> PrimExpr:
    """`src` as `dtype`."""
    if isinstance(src, (str, DataType)):  # newer scripts write T.cast("float32", x) as T.Cast
        src, dtype = dtype, src
    return _cast(dtype_text(dtype), as_operand(src))


def iter_var(
    v: Var | str,
    dom: Range | tuple[PrimExpr | int, PrimExpr | int],
    iter_type: str,
    thread_tag: str = "",
) -> IterVar:
    """An axis from its parts."""
    names = ("DataPar", "ThreadIndex", "CommReduce", "Ordered", "DimInfo", "Unrolled")
    names += ("Vectorized", "Parallelized", "Tensorized")
    kind = names.index(iter_type) if isinstance(iter_type, str) else int(iter_type)
    return IterVar(dom, v, kind, thread_tag)


def comm_reducer(combiner: Callable[..., Any], identity: Sequence[PrimExpr | int]) -> CommReducer:
    """A commutative reduction: `T.comm_reducer(lambda x, y: x + y, [T.float32(0)])`."""
    identities = [_convert(i) for i in identity]
    names = list(inspect.signature(combiner).parameters)
    dtypes = [i.dtype for i in identities] * 2
    parts = [Var(name, dtype) for name, dtype in zip(names, dtypes, strict=True)]
    result = combiner(*parts)
    results = result if isinstance(result, (list, tuple)) else [result]
    half = len(identities)
    combined = tuple(_convert(r) for r in results)
    return CommReducer(tuple(parts[:half]), tuple(parts[half:]), combined, tuple(identities))


def index_map(
    mapping: Callable[..., Any],
    *,
    inverse_index_map: Callable[..., Any] | None = None,
    index_dtype: DataType | str = "int64",
) -> IndexMap:
    """How indices move: `T.index_map(lambda i, j: (j, i))`."""
    inverse = inverse_index_map
    if inverse is not None and not isinstance(inverse, IndexMap):
        inverse = IndexMap.from_func(inverse, index_dtype=index_dtype)
    return IndexMap.from_func(mapping, inverse_index_map=inverse, index_dtype=index_dtype)


def target(target_config: str | Mapping[str, Any], host: str | None = None) -> Target:
    """A target, as the value of an attribute."""
    return Target(target_config, host)


def ramp(base: PrimExpr | int, stride: PrimExpr | int, lanes: int) -> PrimExpr:
    """The vector base, base + stride, ..."""
    return Ramp(base, stride, lanes)


def broadcast(value: PrimExpr | int, lanes: PrimExpr | int) -> PrimExpr:
    """The vector of copies of a value."""
    return Broadcast(value, lanes)


def undef(dtype: DataType | str = "int32") -> Call:
    """A value that is never read."""
    return Call(dtype_text(dtype), "tir.undef", [])


def axis_separators(*positions: int) -> list[int]:
    """Axis separators of a buffer."""
    return list(positions)


for _room in (_op, _op_target):
    for _name in _room.__all__:
        if _name not in globals() and _name not in ("maximum", "minimum"):
            globals()[_name] = with_regions(getattr(_room, _name))
tvm_call_packed = globals()["call_packed"]
tvm_call_cpacked = globals()["call_cpacked"]

_VECTOR = re.compile(r"^(u?int\d+|float\d+(_\w+)?|bfloat16|bool)x\d+$")


def __getattr__(name: str) -> Any:
    if _VECTOR.match(name):
        member: Any = dtype_constructor(name)
    elif not name.startswith("_") and Op.find(f"tir.{name}") is not None:
        member = intrinsic(name)
    else:
        raise AttributeError(_unknown("T", name, [n for n in globals() if not n.startswith("_")]))
    globals()[name] = member
    return member


def _unknown(space: str, name: str, names: list[str]) -> str:
    # pytest and inspect look up such names in every object of a module.
    close = [] if name.startswith("_") else difflib.get_close_matches(name, names)
    hint = f"did you mean {', '.join(f'{space}.{n}' for n in close)}?" if close else None
    return explain(f"{space} has no {name!r}", instead=hint)


__dir__ = _public_names(__name__)
