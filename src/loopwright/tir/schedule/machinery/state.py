"""The program under a schedule: what contains what, and replacing a part of it.

Functions are immutable, so a rewrite rebuilds the path from the changed loop or block to the
root. A loop is identified by its variable; a block by the table of replaced blocks that every
rewrite returns (`update(..., renamed=...)`), which moves the block's `Handle` along.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from typing import Any, NamedTuple

from ....arith import Analyzer, ConstIntBound
from ....base.late import Slot
from ....ir.expr import GlobalVar
from ....ir.literals import is_one
from ....ir.module import IRModule
from ....ir.prim_expr import IntImm, PrimExpr, Range, Var
from ...function import PrimFunc
from ...stmt import Block, BlockRealize, Evaluate, For, IfThenElse, SeqStmt, Stmt, seq
from .errors import ScheduleError
from .refs import Index, Ref, body_fields, check_scopes
from .rewriting import renew_repeated
from .scope import BlockScope

NO_OP = Evaluate(IntImm("int32", 0))


class ScheduleDebugMask(IntEnum):
    """The checks that run after each primitive."""

    VERIFY_SREF_TREE = 1
    VERIFY_CACHED_FLAGS = 2


class Handle:
    """The object that a BlockRV refers to: its block in the current program, None once it is
    gone."""

    __slots__ = ("block", "func")

    def __init__(self, func: GlobalVar, block: Block | None) -> None:
        self.func = func
        self.block = block


class CachedFlags(NamedTuple):
    """Facts about a block: whether its axes are affine in the loops around it (`affine_binding`),
    whether the blocks before it write all that it reads of them (`region_cover`), and whether that
    holds of the blocks directly inside, none of which writes what an earlier one reads
    (`stage_pipeline`)."""

    affine_binding: bool
    region_cover: bool
    stage_pipeline: bool


class Change(NamedTuple):
    """A function before a step changed it, and which of its blocks became which."""

    gvar: GlobalVar
    func: PrimFunc
    renamed: dict[Block, Block]
    index: Index | None


FLAGS: Slot[Callable[[Any, Ref], CachedFlags]] = Slot("tir.block_flags")


class ScheduleState:
    """A module that is being rewritten, with its refs."""

    def __init__(
        self, mod: IRModule | PrimFunc, *, debug_mask: str | int = "none", enable_check: bool = True
    ) -> None:
        module = IRModule({"main": mod}) if isinstance(mod, PrimFunc) else mod
        self._mod = module.frozen_copy()
        self._shown: IRModule | None = None
        self.enable_check = enable_check
        self.debug_mask = 0 if debug_mask == "none" else 3 if debug_mask == "all" else debug_mask
        self._indices: dict[GlobalVar, Index] = {}
        self._analyzers: dict[GlobalVar, tuple[Analyzer, set[Var]]] = {}
        self.handles: dict[Block, Handle] = {}
        self._changes: list[Change] = []  # since the running step has begun

    @property
    def mod(self) -> IRModule:
        """The current program; later steps do not change the returned object."""
        if self._shown is None:
            for gvar, func in list(self._mod.functions.items()):
                if isinstance(func, PrimFunc):
                    self.index(gvar)  # renames variables of repeated loops and axes
            self._shown = self._mod.clone()
        return self._shown

    def func(self, gvar: GlobalVar) -> PrimFunc:
        """The current version of a function."""
        return self._mod.functions[gvar]

    def copy(self) -> ScheduleState:
        """An independent state; handles are copied too."""
        other = ScheduleState(self._mod, debug_mask=self.debug_mask, enable_check=self.enable_check)
        other.handles = {block: Handle(h.func, h.block) for block, h in self.handles.items()}
        return other

    def index(self, gvar: GlobalVar) -> Index:
        """The refs of a function."""
        index = self._indices.get(gvar)
        if index is None:
            func = self.func(gvar)
            index = Index(gvar, func)
            if index.repeated:
                func = func.with_body(renew_repeated(func.body))
                self._mod.functions[gvar] = func
                self._shown = None
                index = Index(gvar, func)
            self._indices[gvar] = index
        return index

    def get_sref(self, stmt: Any) -> Ref:
        """The ref of a For or Block of the current program."""
        for gvar, func in self._mod.functions.items():
            if isinstance(func, PrimFunc):
                index = self.index(gvar)
                ref = (
                    index.loops.get(stmt.loop_var)
                    if isinstance(stmt, For)
                    else index.blocks.get(stmt)
                )
                if ref is not None:
                    return ref
        raise ScheduleError("this statement is not in the program", got=type(stmt).__name__)

    def get_block_scope(self, block_sref: Ref) -> BlockScope:
        """Dependencies among the blocks directly inside a block."""
        return BlockScope(block_sref)

    def _get_cached_flags(self, block_sref: Ref) -> CachedFlags:
        """The facts about a block."""
        return FLAGS.get()(self, block_sref)

    def analyzer(self, ref: Ref) -> Analyzer:
        """An analyzer that knows the shapes of the function and the loops and axes around `ref`."""
        entry = self._analyzers.get(ref.func)
        if entry is None:
            entry = self._analyzers[ref.func] = (Analyzer(), set())
            for buffer in self.func(ref.func).buffer_map.values():
                for extent in buffer.shape:
                    if isinstance(extent, Var):
                        entry[0].assume_nonnegative(extent)
        ana, bound = entry
        at: Ref | None = ref
        fresh = []
        while at is not None:
            if at.realize is None:
                if at.stmt.loop_var in bound:
                    pass
                else:
                    fresh.append((at.stmt.loop_var, at.stmt.min, at.stmt.extent))
            else:
                for axis in at.stmt.iter_vars:
                    if axis.var not in bound:
                        fresh.append((axis.var, axis.dom.min, axis.dom.extent))
            at = at.parent
        for var, low, extent in reversed(fresh):
            bound.add(var)
            bind_range(ana, var, low, extent)
        return ana

    def forget_ranges(self) -> None:
        """Start with fresh analyzers."""
        self._analyzers.clear()

    def replace(
        self, src_sref: Ref, tgt_stmt: Any, block_sref_reuse: dict[Block, Block] | None = None
    ) -> None:
        """Replace a loop or block by another statement (TVM's name for `update`). Existing refs
        follow their objects; `stmt` of removed ones becomes None."""
        if isinstance(tgt_stmt, Block):
            tgt_stmt = src_sref.realize.replace(block=tgt_stmt)
            block_sref_reuse = {src_sref.stmt: tgt_stmt.block, **(block_sref_reuse or {})}
        reuse = dict(block_sref_reuse or {})
        before = self.index(src_sref.func)
        moved = self.update(src_sref.func, {src_sref: tgt_stmt}, reuse)
        self.index(src_sref.func).keep(before, {**moved, **reuse})

    def update(
        self,
        gvar: GlobalVar,
        changes: dict[Ref, Any],
        renamed: dict[Block, Block] | None = None,
        blocks: dict[Ref, Callable[[Any], Any]] | None = None,
    ) -> dict[Block, Block]:
        """Replace statements: `changes` maps a ref to its new statement (None: remove it, and
        statements around it that become empty). `renamed` says which blocks became which inside the
        new statements. `blocks` maps blocks and loops around these to functions that change them.
        Returns all blocks that became others."""
        swap = _Swap(changes, blocks or {}, dict(renamed or {}))
        func = self.func(gvar)
        body = swap.visit(func.body)
        self.set_func(gvar, func.with_body(NO_OP if body is None else body), swap.renamed)
        return swap.renamed

    def begin(self) -> None:
        """Begin a step: what it changes can be undone."""
        self._changes.clear()

    def undo(self) -> PrimFunc | None:
        """Undo the changes of the running step; returns the function as the step had changed it."""
        if not self._changes:
            return None
        reached = self.func(self._changes[-1].gvar)
        for change in reversed(self._changes[:]):
            self.set_func(change.gvar, change.func, {b: a for a, b in change.renamed.items()})
        self._changes.clear()
        return reached

    def check_scopes(self) -> None:
        """Raise ScheduleError where the running step has left a range of a loop or a binding of a
        block outside of a loop that it depends on."""
        for change in {c.gvar: c for c in reversed(self._changes)}.values():
            if change.index is not None:
                check_scopes(change.index, self.index(change.gvar), change.func)

    def set_func(self, gvar: GlobalVar, func: PrimFunc, renamed: dict[Block, Block]) -> None:
        """Take a rewritten function; handles follow `renamed`."""
        index = self._indices.pop(gvar, None)
        self._changes.append(Change(gvar, self.func(gvar), renamed, index))
        self._mod.functions[gvar] = func
        self._shown = None
        moved = []
        for old, new in renamed.items():
            handle = self.handles.pop(old, None) if old is not new else None
            if handle is not None:
                moved.append((handle, new))
        for handle, new in moved:
            handle.block = new
            self.handles[new] = handle


class BlockDependenceInfo:
    """The dependencies among the blocks of a module, without a schedule."""

    def __init__(self, mod: IRModule | PrimFunc) -> None:
        self._state = ScheduleState(mod)
        self.mod = self._state.mod

    def get_sref(self, block: Block) -> Ref:
        """The ref of a block."""
        return self._state.get_sref(block)

    def get_block_scope(self, block_sref: Ref) -> BlockScope:
        """Dependencies among the blocks directly inside a block."""
        return BlockScope(block_sref)


def bind_range(ana: Analyzer, var: Var, low: PrimExpr, extent: PrimExpr) -> None:
    """Bind a range, but keep the variable of a loop of one iteration."""
    if isinstance(extent, IntImm) and isinstance(low, IntImm):
        last = low.value + max(extent.value, 1) - 1
        ana.update(var, ConstIntBound(low.value, last))
    elif is_one(extent):
        return
    else:
        ana.bind(var, Range.from_min_extent(low, extent))


def replaced(body: Stmt, ref: Ref, stmt: Stmt) -> Stmt:
    """The body of a function with `ref` replaced by another statement."""
    return _Swap({ref: stmt}, {}, {}).visit(body)


class _Swap:
    """Rebuilds the paths to the changed statements, and nothing else."""

    def __init__(
        self,
        changes: dict[Ref, Any],
        blocks: dict[Ref, Callable[[Any], Any]],
        renamed: dict[Block, Block],
    ) -> None:
        self.table = {id(ref.node): new for ref, new in changes.items()}
        self.blocks = {id(ref.stmt): fn for ref, fn in blocks.items()}
        self.renamed = renamed
        self.path = {id(ref.node) for ref in blocks}
        for ref in (*changes, *blocks):
            for above in ref.ancestors():
                self.path.add(id(above.node))

    def visit(self, stmt: Any) -> Any:
        key = id(stmt)
        if key in self.table:
            return self.table[key]
        kind = type(stmt)
        if kind is SeqStmt:
            items = [self.visit(s) for s in stmt.seq]
            if all(a is b for a, b in zip(items, stmt.seq, strict=True)):
                return stmt
            remaining = [s for s in items if s is not None]
            return seq(*remaining) if remaining else None
        if kind is For:
            if key not in self.path:
                return stmt
            body = self.visit(stmt.body)
            fn = self.blocks.get(key)
            if fn is not None:
                return fn(stmt.replace(body=NO_OP if body is None else body))
            return None if body is None else stmt.replace(body=body)
        if kind is BlockRealize:
            return self.realize(stmt) if key in self.path else stmt
        if kind is IfThenElse:
            then, other = self.visit(stmt.then_case), stmt.else_case
            other = None if other is None else self.visit(other)
            if then is stmt.then_case and other is stmt.else_case:
                return stmt
            if then is None:
                return None if other is None else stmt.replace(then_case=NO_OP, else_case=other)
            return stmt.replace(then_case=then, else_case=other)
        names = body_fields(kind)
        if not names:
            return stmt
        body = self.visit(stmt.body)
        return None if body is None else stmt.replace(body=body)

    def realize(self, stmt: BlockRealize) -> Any:
        block = stmt.block
        init = None if block.init is None else self.visit(block.init)
        body = self.visit(block.body)
        changed = block.replace(body=NO_OP if body is None else body, init=init)
        fn = self.blocks.get(id(block))
        if fn is not None:
            changed = fn(changed)
        if changed is not block:
            self.renamed[block] = changed
        return stmt.replace(block=changed)
