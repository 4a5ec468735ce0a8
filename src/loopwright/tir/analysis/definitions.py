"""Where variables and buffers are defined: undefined ones, and the rules of a valid function."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ...base.errors import explain
from ...ir.functor import Visitor
from ...ir.prim_expr import Call, IterVar, Let, PrimExpr, Var
from ...ir.structural import structural_equal
from .. import stmt as st
from ..buffer import Buffer
from ..expr import BufferLoad, CommReducer, Reduce
from ..function import PrimFunc
from ..op import is_call_to
from .query import free_of

if TYPE_CHECKING:
    from ...ir.module import IRModule
    from ...ir.node import Node


class _Scopes(Visitor):
    """Walks in the order of execution, reporting definitions and uses."""

    def __init__(self) -> None:
        self.live: dict[Var, int] = {}
        self.threads: set[Var] = set()

    # Hooks for subclasses.

    def defined(self, var: Var, node: Node) -> None:
        """`var` is defined by `node`, and not live already."""

    def redefined(self, var: Var, node: Node) -> None:
        """`var` is defined by `node` although it is live."""

    def used(self, var: Var, node: PrimExpr) -> None:
        """`var` is used by `node`."""

    def touched(self, buffer: Buffer, node: Any) -> None:
        """`buffer` is read or written by `node`."""

    # The walk.

    def define(self, var: Var, node: Any) -> None:
        if var in self.live:
            self.redefined(var, node)
        else:
            self.defined(var, node)
        self.live[var] = self.live.get(var, 0) + 1

    def leave(self, *variables: Var) -> None:
        for var in variables:
            self.live[var] -= 1
            if not self.live[var]:
                del self.live[var]

    def matched(self, buffer: Buffer, node: Node) -> list[Var]:
        """Define the variables that a matched buffer takes from its source; returns the new
        variables."""
        defined = []
        for part in (buffer.data, *buffer.shape, *buffer.strides, buffer.elem_offset):
            if isinstance(part, Var) and part not in self.live:
                self.define(part, node)
                defined.append(part)
        self.parts(buffer)
        return defined

    def parts(self, buffer: Buffer) -> None:
        self.visit((*buffer.shape, *buffer.strides))
        if buffer.elem_offset is not None:
            self.visit(buffer.elem_offset)

    def visit_Var(self, node: Var) -> None:
        self.used(node, node)

    def visit_Buffer(self, node: Buffer) -> None:
        self.visit(node.data)
        self.parts(node)

    def visit_IterVar(self, node: IterVar) -> None:
        self.visit(node.var)

    def visit_BufferLoad(self, node: BufferLoad) -> None:
        self.touched(node.buffer, node)
        self.visit(node.buffer.data)
        self.visit(node.indices)
        if node.predicate is not None:
            self.visit(node.predicate)

    def visit_BufferStore(self, node: st.BufferStore) -> None:
        self.touched(node.buffer, node)
        self.visit(node.buffer.data)
        self.visit(node.value)
        self.visit(node.indices)
        if node.predicate is not None:
            self.visit(node.predicate)

    def visit_For(self, node: st.For) -> None:
        self.visit(node.min)
        self.visit(node.extent)
        self.scope(node.loop_var, node)

    def visit_LetStmt(self, node: st.LetStmt | Let) -> None:
        self.visit(node.value)
        self.scope(node.var, node)

    visit_Let = visit_LetStmt

    def visit_Allocate(self, node: st.Allocate) -> None:
        self.visit(node.extents)
        self.visit(node.condition)
        self.scope(node.buffer_var, node)

    def visit_AllocateConst(self, node: st.AllocateConst) -> None:
        self.scope(node.buffer_var, node)

    def visit_DeclBuffer(self, node: st.DeclBuffer) -> None:
        data = node.buffer.data
        own = data not in self.live and data.name == node.buffer.name
        self.scope(data if own else None, node, node.buffer)

    def visit_BufferRealize(self, node: st.BufferRealize) -> None:
        for r in node.bounds:
            self.visit(r)
        own = node.buffer.data not in self.live
        self.scope(node.buffer.data if own else None, node, node.condition)

    def scope(self, var: Var | None, node: Let | st.Stmt, *parts: Buffer | PrimExpr) -> None:
        """The parts and the body of `node`, which defines `var` (if any) for them."""
        if var is not None:
            self.define(var, node)
        for part in (*parts, node.body):
            self.visit(part)
        if var is not None:
            self.leave(var)

    def visit_AttrStmt(self, node: st.AttrStmt) -> None:
        self.visit(node.value)
        if node.attr_key == "buffer_bind_scope":
            defined = self.matched(node.node[0], node)
            self.visit(node.body)
            self.leave(*defined)
            return
        thread = node.node if isinstance(node.node, IterVar) else None
        if thread is None or thread.var in self.live:
            self.visit(node.body)
            return
        self.define(thread.var, node)
        self.visit(node.body)
        self.leave(thread.var)

    def visit_Reduce(self, node: Reduce) -> None:
        for axis in node.axis:
            if axis.dom is not None:
                self.visit(axis.dom)
            self.define(axis.var, node)
        self.visit((node.source, node.condition, node.init))
        self.leave(*(axis.var for axis in node.axis))

    def visit_CommReducer(self, node: CommReducer) -> None:
        """A reducer has its own scope."""

    def visit_BlockRealize(self, node: st.BlockRealize) -> None:
        self.visit(node.iter_values)
        self.visit(node.predicate)
        self.visit(node.block)

    def visit_Block(self, node: st.Block) -> None:
        for axis in node.iter_vars:
            if axis.dom is not None:
                self.visit(axis.dom)
        self.inside(node)

    def inside(self, node: st.Block) -> None:
        """The parts inside a block; the domains of its axes are outside."""
        defined: list[Var] = []
        for axis in node.iter_vars:
            self.define(axis.var, node)
            defined.append(axis.var)
        for buffer in node.alloc_buffers:
            defined += self.matched(buffer, node)
        for match in node.match_buffers:
            self.touched(match.source.buffer, match)
            self.visit(match.source.region)
            defined += self.matched(match.buffer, match)
        for region in (*node.reads, *node.writes):
            self.touched(region.buffer, node)
            self.visit(region.region)
        if node.init is not None:
            self.visit(node.init)
        self.visit(node.body)
        self.leave(*defined)

    def visit_MatchBufferRegion(self, node: st.MatchBufferRegion) -> None:
        self.visit(node.source.region)

    def visit_PrimFunc(self, node: PrimFunc) -> None:
        defined = []
        for param in node.params:
            self.define(param, node)
            defined.append(param)
        for buffer in node.buffer_map.values():
            defined += [v for v in (buffer.data,) if v not in self.live]
            if buffer.data not in self.live:
                self.define(buffer.data, node)
            defined += self._shape_variables(buffer, node)
        for buffer in node.buffer_map.values():
            self.parts(buffer)
        self.visit(node.body)
        self.leave(*defined)

    def _shape_variables(self, buffer: Buffer, node: PrimFunc) -> list[Var]:
        defined = []
        for part in (*buffer.shape, *buffer.strides, buffer.elem_offset):
            if isinstance(part, Var) and part not in self.live:
                self.define(part, node)
                defined.append(part)
        return defined


class _Undefined(_Scopes):
    def __init__(self) -> None:
        super().__init__()
        self.undefined: dict[Var, None] = {}

    def used(self, var: Var, node: PrimExpr) -> None:
        if var not in self.live:
            self.undefined.setdefault(var)


def undefined_vars(node: Node, defs: Iterable[Var] | None = None) -> list[Var]:
    """The variables that `node` uses and does not define, in order of first use.

    `defs`: variables taken as defined.
    """
    walk = _Undefined()
    for var in defs or ():
        walk.live[var] = 1
    walk.visit(node)
    return list(walk.undefined)


class _Ssa(_Scopes):
    def __init__(self) -> None:
        super().__init__()
        self.seen: dict[Var, Any] = {}
        self.good = True

    def define(self, var: Var, node: Any) -> None:
        """An expression that is used twice, `let x = 1 in x + 1`, defines its variable once."""
        previous = self.seen.get(var)
        same = (
            isinstance(previous, Let)
            and isinstance(node, Let)
            and var not in self.live
            and structural_equal(previous.value, node.value)
        )
        if previous is not None and not same and not isinstance(node, st.AttrStmt):
            self.good = False
        self.seen[var] = node
        super().define(var, node)


def verify_ssa(func: PrimFunc) -> bool:
    """Whether every variable is defined once in the whole function; an expression may define its own
    again by the same value."""
    walk = _Ssa()
    walk.visit(func)
    return walk.good


class _WellFormed(_Scopes):
    """Applies the rules; each violation is a text."""

    def __init__(self, once: bool = False) -> None:
        super().__init__()
        self.once = once  # whether a statement may not define what another one has defined
        self.errors: list[str] = []
        self.ended: set[Var] = set()
        self.loops: dict[Var, int] = {}
        self.walls: list[st.Block] = []
        self.buffers: dict[Buffer, int] = {}

    def report(self, rule: str, node: Any, got: str, hint: str, tvm: str | None = None) -> None:
        span = getattr(node, "span", None)
        what = f"{rule}: {RULES[rule]}"
        self.errors.append(explain(what, got=got, instead=hint, span=span, tvm=tvm))

    def leave(self, *variables: Var) -> None:
        super().leave(*variables)
        self.ended.update(variables)

    def used(self, var: Var, node: PrimExpr) -> None:
        if var not in self.live:
            hint = "define it before, or use it inside its scope"
            state = "no longer in-scope" if var in self.ended else "never defined"
            tvm = f"Invalid use of undefined variable {var.name} at a point where it is {state}."
            self.report("undefined-variable", node, var.name, hint, tvm)
        elif self.walls and self.loops.get(var, NEVER) < len(self.walls):
            block = self.walls[-1].name_hint
            got = f"loop variable {var.name} in block {block}"
            self.report("block-boundary", node, got, "bind it to an axis of the block")

    def visit_Call(self, node: Call) -> None:
        walls = self.walls
        if is_call_to(
            node, "tvm_thread_allreduce"
        ):  # names the threads, whatever they are bound to
            self.walls = []
        self.visit_default(node)
        self.walls = walls

    def visit_PrimFunc(self, node: PrimFunc) -> None:
        self.threads.clear()
        super().visit_PrimFunc(node)

    def defined(self, var: Var, node: Node) -> None:
        if self.once and var in self.ended - self.threads and isinstance(node, _DEFINING):
            tvm = f"ill-formed, due to multiple definitions of variable {var.name}"
            self.report("defined-again", node, var.name, "make a new variable", tvm)
        if isinstance(node, st.AttrStmt):  # the threads of a function may be launched again
            self.threads.add(var)

    def redefined(self, var: Var, node: st.For) -> None:
        tvm = f"ill-formed, due to multiple nested definitions of variable {var.name}"
        self.report("defined-once", node, var.name, "make a new variable", tvm)

    def touched(self, buffer: Buffer, node: BufferLoad | st.Stmt) -> None:
        if buffer.data not in self.live:
            hint = "allocate, declare or match it around its use"
            self.report("undefined-buffer", node, buffer.name, hint)

    def visit_For(self, node: st.For) -> None:
        self.loops[node.loop_var] = len(self.walls)
        super().visit_For(node)
        self.loops.pop(node.loop_var, None)

    def visit_BlockRealize(self, node: st.BlockRealize) -> None:
        actual, expected = len(node.iter_values), len(node.block.iter_vars)
        if actual != expected:
            got = f"{actual} values for {expected} axes of block {node.block.name_hint}"
            self.report("block-bindings", node, got, "bind each axis")
        super().visit_BlockRealize(node)

    def inside(self, node: st.Block) -> None:
        wall = bool(node.iter_vars)
        if wall:
            self.walls.append(node)
        super().inside(node)
        if wall:
            self.walls.pop()


NEVER = 1 << 30  # more blocks than nest: for a variable that is not a loop's
_DEFINING = (st.For, st.LetStmt, st.Allocate, st.AttrStmt)
RULES: dict[str, str] = {
    "undefined-variable": "a variable is used where it is not defined",
    "defined-once": "a variable is defined again inside its own scope",
    "defined-again": "two statements define the same variable",
    "undefined-buffer": "a buffer is used where its memory is not defined",
    "block-boundary": "a block uses a loop variable from outside",
    "block-bindings": "a block has another number of axes than bindings",
}


def well_formed_errors(func: PrimFunc) -> list[str]:
    """Violations of the rules of a valid PrimFunc (`RULES`), as texts."""
    walk = _WellFormed()
    walk.visit(func)
    return list(dict.fromkeys(walk.errors))


def verify_well_formed(
    obj: IRModule | PrimFunc, assert_mode: bool = True, *, once: bool = True
) -> bool:
    """Whether a PrimFunc (or all those of a module) obeys the rules.

    once: no two statements may define the same variable, as ones that a pass has copied do.

    Raises ValueError naming the first violation, unless `assert_mode` is false.
    """
    walk = _WellFormed(once)

    def errors(func: PrimFunc) -> list[str]:
        walk.visit(func)
        return walk.errors

    return free_of(errors, obj, ValueError if assert_mode else None)
