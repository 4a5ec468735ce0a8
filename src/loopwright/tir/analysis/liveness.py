"""When the memory of a function is live, across the calls that it makes.

A function and the functions that it calls are visited in the order in which they run; each
statement is a time. Memory is live from the first statement that uses it to the last; memory that
is used in a loop and was allocated before it is live while the loop runs. Arguments of a call are
live during the whole call.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...arith import Analyzer
from ...base.errors import LoopwrightError, explain
from ...ir.expr import GlobalVar
from ...ir.functor import nodes_of
from ...ir.literals import is_true
from ...ir.module import IRModule
from ...ir.prim_expr import Call, IntImm, PrimExpr, Range, StringImm, Var
from ...ir.prim_op import const
from ...runtime.tensor import Tensor
from .. import stmt as st
from ..buffer import ALIGNMENT as COMMON
from ..buffer import Buffer
from ..byte_size import UPPER_BOUNDS
from ..expr import BufferLoad
from ..function import PrimFunc

ALIGNMENT = "alignment"  # attribute of a kernel: of all memory that it is given, in bytes
_UNBOUNDED = (1 << 31) - 1  # a size from here on has no bound but that of its dtype
_SEPARATE = (st.ForKind.PARALLEL, st.ForKind.THREAD_BINDING)
_STORING = {"tir.tvm_struct_set", "tir.tvm_thread_invariant"}


@dataclass(eq=False)
class LiveRange:
    """Memory that is allocated once in the run of a function, and when it is live."""

    name: str
    kind: str
    size: int
    var: Var
    depth: int = 0  # of the loops around its allocation
    alignment: int = 1
    first: int = -1
    last: int = -1
    data: Tensor | None = None


@dataclass(eq=False)
class CallRecord:
    """A call of another function: which memory each argument points to the beginning of (None
    where that is not known), what it may point into besides, the callee's own memory, and when
    it runs."""

    callee: GlobalVar
    args: tuple[LiveRange | None, ...]
    loose: frozenset[LiveRange]
    scratch: tuple[LiveRange, ...]
    begin: int
    end: int


@dataclass
class Liveness:
    """When memory is live in `function`. Times are indices into `labels`, which say what runs.

    ranges: in the order of the walk, as `allocations` returns them function by function.
    left: memory that is not planned, and why.
    """

    function: str
    ranges: list[LiveRange] = field(default_factory=list)
    constants: list[LiveRange] = field(default_factory=list)
    calls: list[CallRecord] = field(default_factory=list)
    labels: list[str] = field(default_factory=list)
    left: dict[str, str] = field(default_factory=dict)


class Allocations:
    """Which allocations of a module's functions are planned; the same for analysis and rewriting.

    stack_bytes: memory of a called function that is not larger, and only loaded and stored
        there, stays on the stack or in registers.
    main: the function whose upper bounds of symbols (`UPPER_BOUNDS`) bound memory of symbolic size, its own and
        that of the functions that it calls.
    """

    def __init__(self, mod: IRModule, stack_bytes: int, main: GlobalVar | None = None) -> None:
        self.mod, self.stack_bytes = mod, stack_bytes
        self.bounds = Analyzer() if main is None else self._bounds(main)
        self._handed: dict[PrimFunc, set[Var]] = {}
        self._has: dict[GlobalVar, bool] = {}
        self._running: set[GlobalVar] = set()

    def stays(self, node: st.Allocate, func: PrimFunc, called: bool, separate: bool) -> str | None:
        """Why an allocation is not planned; None when it is."""
        kind = node.buffer_var.type_annotation
        if kind is not None and kind[1] not in ("", "global", "local"):
            return f"it is memory of scope {kind[1]}"
        size = self.size_of(node)
        if size is None:
            sizes = ", ".join(re.sub(r"T\.int64\((-?\d+)\)", r"\1", str(e)) for e in node.extents)
            return f"{OPEN_SIZE} ({sizes})"
        if not is_true(node.condition):
            return "it is allocated on a condition"
        if called and size <= self.stack_bytes and node.buffer_var not in self.handed(func):
            return "small"
        return "it is in a parallel loop: each thread has its own" if separate else None

    def size_of(self, node: st.Allocate) -> int | None:
        """The most bytes of an allocation; None where they have no bound."""
        return size_of(node, self.bounds)

    def _bounds(self, main: GlobalVar) -> Analyzer:
        """The ranges of integers: of the parameters of `main` by its attribute, of those of the functions that
        it calls by the arguments of all calls, of local variables by their values."""
        bounds = Analyzer()
        ranges = {var: (0, most) for var, most in limits_of(self.mod[main]).items()}

        def extend(var: Var, value: PrimExpr) -> None:
            if var.dtype.is_int:
                new, old = bounds.const_int_bound(value), ranges.get(var)
                low, high = new.min_value, new.max_value
                ranges[var] = (low, high) if old is None else (min(low, old[0]), max(high, old[1]))

        def bind(var: Var) -> None:
            low, high = ranges.get(var, (0, _UNBOUNDED))
            if low > -_UNBOUNDED and high < _UNBOUNDED:
                bounds.bind(var, Range(const(low, var.dtype), const(high + 1, var.dtype)))

        for gvar in reversed(self._callees_first(main, {main: None})):
            for var in self.mod[gvar].params:
                bind(var)
            inner_first = nodes_of(self.mod[gvar].body, st.LetStmt, Call)
            for node in reversed(inner_first):
                if isinstance(node, st.LetStmt):
                    extend(node.var, node.value)
                    bind(node.var)
                elif isinstance(node.op, GlobalVar):
                    params = getattr(self.mod.get(node.op), "params", ())
                    for var, arg in zip(params, node.args, strict=False):
                        extend(var, arg)
        return bounds

    def _callees_first(self, gvar: GlobalVar, seen: dict[GlobalVar, None]) -> list[GlobalVar]:
        order: list[GlobalVar] = []
        for callee in _callees(self.mod[gvar], self.mod):
            if callee not in seen:
                seen[callee] = None
                order += self._callees_first(callee, seen)
        return [*order, gvar]

    def handed(self, func: PrimFunc) -> set[Var]:
        """Pointers with uses other than loads and stores."""
        handed = self._handed.get(func)
        if handed is None:
            calls = nodes_of(func.body, Call)
            handed = self._handed[func] = {p for call in calls for p in _pointer_args(call)}
        return handed

    def entered(self, node: st.Stmt, separate: bool) -> GlobalVar | None:
        """The function that a statement calls, where it has planned allocations."""
        callee = called_function(node, self.mod)
        return callee if callee is not None and not separate and self.has(callee) else None

    def has(self, gvar: GlobalVar) -> bool:
        """Whether a called function, or one that it calls, has planned allocations."""
        if gvar in self._running:
            return False
        if gvar not in self._has:
            self._running.add(gvar)
            self._has[gvar] = not self._recursive(gvar) and any(
                True for _ in self._found(self.mod[gvar])
            )
            self._running.discard(gvar)
        return self._has[gvar]

    def _recursive(self, gvar: GlobalVar) -> bool:
        seen: set[GlobalVar] = set()
        todo = [gvar]
        while todo:
            for other in _callees(self.mod[todo.pop()], self.mod):
                if other is gvar:
                    return True
                if other not in seen:
                    seen.add(other)
                    todo.append(other)
        return False

    def _found(self, func: PrimFunc) -> Iterator[Any]:
        """Planned allocations and calls of functions with some."""
        for node, separate in _statements(func.body, False):
            if isinstance(node, st.Allocate) and not self.stays(node, func, True, separate):
                yield node
            if self.entered(node, separate) is not None:
                yield node

    def left_in(self, func: PrimFunc) -> dict[str, str]:
        """The memory of a called function that is not planned, and why, except what stays on the stack."""
        inside = _statements(func.body, False)
        own = [(n, separate) for n, separate in inside if isinstance(n, st.Allocate)]
        reasons = {n.buffer_var.name: self.stays(n, func, True, separate) for n, separate in own}
        return {name: why for name, why in reasons.items() if why not in (None, "small")}


def _statements(node: st.Stmt, separate: bool) -> Iterator[tuple[st.Stmt, bool]]:
    """A statement and those inside of it, and whether each is in a parallel loop."""
    yield node, separate
    inside = separate or is_separate(node)
    for part in parts_of(node):
        yield from _statements(part, inside)


def is_separate(node: st.Stmt) -> bool:
    """Whether a statement runs its body at the same time on several threads."""
    return isinstance(node, st.For) and node.kind in _SEPARATE


def parts_of(node: st.Stmt) -> list[Any]:
    """The statements directly inside a statement."""
    if isinstance(node, st.SeqStmt):
        return list(node.seq)
    if isinstance(node, st.IfThenElse):
        return [node.then_case] + ([] if node.else_case is None else [node.else_case])
    body = getattr(node, "body", None)
    return [] if body is None else [body]


def limits_of(func: PrimFunc) -> dict[Var, int]:
    """The greatest values of the parameters that the attribute `UPPER_BOUNDS` names."""
    limits = dict(func.attrs.get(UPPER_BOUNDS) or {})
    named = [p for p in func.params if p.name in limits]
    return {p: int(getattr(limits[p.name], "value", limits[p.name])) for p in named}


def size_of(node: st.Allocate, bounds: Analyzer | None = None) -> int | None:
    """Bytes of an allocation; None where they are known only at run time. bounds: the size is the most that it
    may be with these ranges of variables."""
    size = node.dtype.lane_bytes * node.dtype.lanes
    for extent in node.extents:
        if isinstance(extent, IntImm):
            most = extent.value
        elif bounds is None:
            return None
        else:
            most = bounds.const_int_bound(extent).max_value
        if most >= _UNBOUNDED:
            return None
        size *= max(most, 0)
    return size


def called_function(node: st.Stmt, mod: IRModule) -> GlobalVar | None:
    """The function of the module that a statement calls; None for any other statement."""
    call = node.value if isinstance(node, st.Evaluate) else None
    if isinstance(call, Call) and isinstance(call.op, GlobalVar):
        return call.op if isinstance(mod.get(call.op), PrimFunc) else None
    return None


def _callees(func: PrimFunc, mod: IRModule) -> list[GlobalVar]:
    return [v for v in nodes_of(func.body, GlobalVar) if isinstance(mod.get(v), PrimFunc)]


def _pointer_args(call: Call) -> list[Var]:
    return [a for a in call.args if isinstance(a, Var) and a.dtype.is_handle] + [
        a.buffer.data for a in call.args if isinstance(a, BufferLoad) and _takes_address(call)
    ]


def _takes_address(call: Call) -> bool:
    return getattr(call.op, "name", "") == "tir.address_of"


def pointers_in(node: PrimExpr | st.Stmt | Sequence[PrimExpr]) -> set[Var]:
    """The pointers that a statement or expression uses, by themselves or through a buffer."""
    return {
        n.data if isinstance(n, Buffer) else n
        for n in nodes_of(node, Var, Buffer)
        if isinstance(n, Buffer) or n.dtype.is_handle
    }


@dataclass(eq=False)
class _Loop:
    start: int
    touched: set[LiveRange] = field(default_factory=set)


class _Walk:
    """Visits a function's statements in the order in which they run."""

    def __init__(self, mod: IRModule, gvar: GlobalVar, planned: Allocations) -> None:
        self.mod, self.planned = mod, planned
        self.liveness = Liveness(gvar.name_hint)
        self.env: dict[Var, frozenset[LiveRange]] = {}
        self.starts: dict[Var, LiveRange] = {}  # pointers to the beginning of memory
        self.loops: list[_Loop] = []
        self.label = gvar.name_hint
        self.called: list[tuple[GlobalVar, PrimFunc]] = [(gvar, mod[gvar])]
        self.names: dict[str, int] = {}
        self.separate = 0

    # -- times -----------------------------------------------------------------------------------

    def tick(self) -> int:
        """The next time."""
        self.liveness.labels.append(self.label)
        return len(self.liveness.labels) - 1

    def touch(self, ranges: Any, time: int) -> None:
        """Memory is used at a time; what was allocated before a loop is live while it runs."""
        for r in ranges:
            first = time
            if len(self.loops) > r.depth:
                loop = self.loops[r.depth]
                loop.touched.add(r)
                first = loop.start
            r.first = first if r.first < 0 else min(r.first, first)
            r.last = max(r.last, time)

    def used(self, node: PrimExpr | st.Stmt | Sequence[PrimExpr]) -> frozenset[LiveRange]:
        """The memory that an expression points to or reads."""
        ranges: set[LiveRange] = set()
        for var in pointers_in(node):
            ranges |= self.env.get(var, frozenset())
        return frozenset(ranges)

    def leaf(self, node: PrimExpr | st.Stmt | Sequence[PrimExpr]) -> frozenset[LiveRange]:
        """A statement or an expression that runs at one time."""
        used = self.used(node)
        self.touch(used, self.tick())
        return used

    # -- statements ------------------------------------------------------------------------------

    def stmt(self, node: st.Stmt) -> None:
        """A statement."""
        handler = _HANDLERS.get(type(node))
        if handler is not None:
            handler(self, node)
            return
        if isinstance(node, (st.BlockRealize, st.Block, st.BufferRealize)):
            what = f"memory is planned when loops are lowered: {self.called[-1][0].name_hint} has a"
            hint = "run tir.transform.default_tir_pipeline() first"
            raise LoopwrightError(explain(f"{what} {type(node).__name__}", instead=hint))
        if len(self.called) == 1:
            self.label = _label(node)
        self.plain(node)

    def plain(self, node: st.Stmt) -> None:
        """A statement without parts."""
        used = self.leaf(node)
        if _keeps_pointers(node):
            for r in used:  # it may be used by whatever reads that place
                r.last = _FOREVER

    def allocate(self, node: st.Allocate) -> None:
        gvar, func = self.called[-1]
        called = len(self.called) > 1
        why = self.planned.stays(node, func, called, bool(self.separate))
        if why is None:
            size = self.planned.size_of(node)
            assert size is not None
            own = node.buffer_var.name
            name = f"{gvar.name_hint}.{own}" if called else own
            own = node.alignment if node.annotations else 1
            align = max(alignment_of(func) if called else 1, node.dtype.lane_bytes, own)
            kind = "scratch" if called else "tensor"
            r = LiveRange(self.unique(name), kind, size, node.buffer_var)
            r.depth, r.alignment = len(self.loops), align
            self.liveness.ranges.append(r)
            self.env[r.var], self.starts[r.var] = frozenset([r]), r
            self.stmt(node.body)
            end = len(self.liveness.labels) - 1
            if r.last == _FOREVER:
                r.last = max(end, 0)
                self.touch([r], r.last)
            return
        if why != "small":
            self.liveness.left[f"{gvar.name_hint}.{node.buffer_var.name}"] = why
        self.stmt(node.body)

    def unique(self, name: str) -> str:
        count = self.names[name] = self.names.get(name, 0) + 1
        return name if count == 1 else f"{name}#{count}"

    def allocate_const(self, node: st.AllocateConst) -> None:
        if len(self.called) == 1:
            size = node.data.numpy().nbytes
            r = LiveRange(self.unique(node.buffer_var.name), "constant", size, node.buffer_var)
            r.alignment, r.data = max(node.dtype.lane_bytes, 1), node.data
            self.liveness.constants.append(r)
        self.stmt(node.body)

    def let(self, node: st.LetStmt) -> None:
        if len(self.called) == 1:
            self.label = _label(node)
        if node.var.dtype.is_handle:
            self.env[node.var] = self.used(node.value)
            if isinstance(node.value, Var) and node.value in self.starts:
                self.starts[node.var] = self.starts[node.value]
        else:
            self.leaf(node.value)
        self.stmt(node.body)

    def attr(self, node: st.AttrStmt) -> None:
        used = self.used((node.node, node.value))
        if used:
            self.touch(used, self.tick())
        self.stmt(node.body)
        if used:
            self.touch(used, self.tick())

    def assertion(self, node: st.AssertStmt) -> None:
        self.leaf((node.condition, node.message))
        self.stmt(node.body)

    def sequence(self, node: st.SeqStmt) -> None:
        for part in node.seq:
            self.stmt(part)

    def inner(self, node: st.DeclBuffer) -> None:
        self.stmt(node.body)

    def branch(self, node: st.IfThenElse) -> None:
        self.leaf(node.condition)
        self.stmt(node.then_case)
        if node.else_case is not None:
            self.stmt(node.else_case)

    def loop(self, node: st.For) -> None:
        self.leaf((node.min, node.extent))
        apart = is_separate(node)
        self.separate += apart
        self.repeated(lambda: self.stmt(node.body))
        self.separate -= apart

    def repeat(self, node: st.While) -> None:
        def once() -> None:
            self.leaf(node.condition)
            self.stmt(node.body)

        self.repeated(once)

    def repeated(self, body: Callable[..., Any]) -> None:
        loop = _Loop(self.tick())
        self.loops.append(loop)
        body()
        self.loops.pop()
        self.touch(loop.touched, self.tick())

    def evaluate(self, node: st.Evaluate) -> None:
        callee = called_function(node, self.mod)
        if len(self.called) == 1:
            self.label = _label(node)
        if callee is None:
            self.plain(node)
            return
        func = self.mod[callee]
        used = self.used(node)
        begin = self.tick()
        self.touch(used, begin)
        need = alignment_of(func)
        for r in used:
            r.alignment = max(r.alignment, need)
        mark = len(self.liveness.ranges)
        end = begin
        if self.planned.entered(node, bool(self.separate)) is not None:
            self.called.append((callee, func))
            self.stmt(func.body)
            self.called.pop()
            end = self.tick()
            self.touch(used, end)
        else:
            left = self.planned.left_in(func)
            self.liveness.left |= {f"{callee.name_hint}.{name}": why for name, why in left.items()}
        if self.separate:
            return
        arguments = node.value.args
        args = tuple(self.starts.get(a) if isinstance(a, Var) else None for a in arguments)
        rest = [a for a, r in zip(arguments, args, strict=True) if r is None]
        scratch = tuple(self.liveness.ranges[mark:])
        self.liveness.calls.append(CallRecord(callee, args, self.used(rest), scratch, begin, end))


OPEN_SIZE = "its size is known only at run time"  # why memory of an unbounded size is not planned
_FOREVER = 1 << 60  # until its scope ends: a pointer to the memory is stored
_HANDLERS: dict[type, Any] = {
    st.Allocate: _Walk.allocate,
    st.AllocateConst: _Walk.allocate_const,
    st.LetStmt: _Walk.let,
    st.AttrStmt: _Walk.attr,
    st.AssertStmt: _Walk.assertion,
    st.SeqStmt: _Walk.sequence,
    st.DeclBuffer: _Walk.inner,
    st.IfThenElse: _Walk.branch,
    st.For: _Walk.loop,
    st.While: _Walk.repeat,
    st.Evaluate: _Walk.evaluate,
}


def alignment_of(func: PrimFunc) -> int:
    """The alignment that a kernel requires of all memory that is passed to it: by its attribute or
    by its buffers. Raises LoopwrightError for one that is not a power of two."""
    attribute = func.attrs.get(ALIGNMENT, 1)
    alignment = int(getattr(attribute, "value", attribute))
    if alignment < 1 or alignment & (alignment - 1):
        what = f'the attribute "{ALIGNMENT}" of a kernel is a power of two'
        raise LoopwrightError(explain(what, got=alignment, span=func.span))
    return max([alignment, *(b.data_alignment for b in func.buffers if b.data_alignment > COMMON)])


def _keeps_pointers(node: st.Stmt) -> bool:
    """Whether a statement stores a pointer where others may read it."""
    if isinstance(node, st.BufferStore):
        return node.value.dtype.is_handle
    call = getattr(node, "value", None)
    return isinstance(call, Call) and getattr(call.op, "name", "") in _STORING


def _label(node: st.Stmt) -> str:
    """A label for a statement, in a word."""
    if isinstance(node, st.BufferStore):
        return f"store to {node.buffer.name}"
    if isinstance(node, st.LetStmt):
        return f"let {node.var.name}"
    call = node.value if isinstance(node, st.Evaluate) else None
    if isinstance(call, Call):
        if isinstance(call.op, GlobalVar):
            return call.op.name_hint
        first = call.args[0] if call.args else None
        return str(first.value) if isinstance(first, StringImm) else str(call.op.name)
    return type(node).__name__


def liveness(mod: IRModule, gvar: GlobalVar, planned: Allocations | None = None) -> Liveness:
    """When the memory of a lowered function, and of those it calls, is live.

    Raises LoopwrightError where loops are not lowered yet.
    """
    walk = _Walk(mod, gvar, planned or Allocations(mod, 0))
    walk.stmt(mod[gvar].body)
    result = walk.liveness
    for r in result.ranges:  # unused memory is never live
        if r.first < 0:
            r.first = r.last = 0
    _renumber(result)
    return result


def _renumber(liveness: Liveness) -> None:
    """Times at which something begins or ends, and the function's own statements; no others."""
    if not liveness.labels:
        liveness.labels.append(liveness.function)
    times = {t for k, t in enumerate(range(len(liveness.labels))) if _changes(liveness.labels, k)}
    for r in liveness.ranges:
        times |= {r.first, r.last}
    for c in liveness.calls:
        times |= {c.begin, c.end}
    order = sorted(times)
    number = {t: k for k, t in enumerate(order)}
    for r in liveness.ranges:
        r.first, r.last = number[r.first], number[r.last]
    for c in liveness.calls:
        c.begin, c.end = number[c.begin], number[c.end]
    liveness.labels = [liveness.labels[t] for t in order]
    for r in liveness.constants:
        r.first, r.last = 0, len(order) - 1


def _changes(labels: list[str], k: int) -> bool:
    return k == 0 or labels[k] != labels[k - 1]
