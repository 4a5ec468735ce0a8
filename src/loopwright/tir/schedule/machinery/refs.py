"""Loops and blocks at their positions in one version of a function."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

from ....ir.expr import GlobalVar
from ....ir.node import Node
from ....ir.prim_expr import IntImm, Var
from ....ir.variables import vars_in
from ...function import PrimFunc
from ...stmt import Block, BlockRealize, For, SeqStmt, Stmt
from .errors import ScheduleError


class Ref:
    """A loop or block at its place in the current program; `stmt` is the For or the Block."""

    __slots__ = ("children", "func", "parent", "realize", "stmt")

    def __init__(self, stmt: Any, parent: Ref | None, realize: Any, func: GlobalVar) -> None:
        self.stmt = stmt
        self.parent = parent
        self.realize = realize
        self.func = func
        self.children: list[Ref] = []

    def same_as(self, other: object) -> bool:
        """Whether `other` is this very place."""
        return self is other

    @property
    def node(self) -> Any:
        """The statement in the program: a For or a BlockRealize."""
        return self.stmt if self.realize is None else self.realize

    @property
    def is_block(self) -> bool:
        """Whether this is a block, not a loop."""
        return self.realize is not None

    @staticmethod
    def inline_mark() -> Ref:
        """Means "inlined" where a loop is expected."""
        return _MARKS[0]

    @staticmethod
    def root_mark() -> Ref:
        """Means "left at the root" where a loop is expected."""
        return _MARKS[1]

    def ancestors(self) -> Iterator[Ref]:
        """The enclosing loops and blocks, the innermost first."""
        at = self.parent
        while at is not None:
            yield at
            at = at.parent

    def scope(self) -> Ref:
        """The enclosing block."""
        for ref in self.ancestors():
            if ref.realize is not None:
                return ref
        what, hint = "the root block has no block around it", "a block inside of it"
        raise ScheduleError(what, instead=hint, at=self.node)

    def loops(self) -> list[Ref]:
        """The enclosing loops within the same block, the outermost first."""
        loops: list[Ref] = []
        for ref in self.ancestors():
            if ref.realize is not None:
                break
            loops.append(ref)
        return loops[::-1]

    def blocks(self) -> list[Ref]:
        """The blocks directly inside: not those inside other blocks."""
        blocks: list[Ref] = []
        for child in self.children:
            if child.realize is not None:
                blocks.append(child)
            else:
                blocks += child.blocks()
        return blocks

    def is_under(self, other: Ref) -> bool:
        """Whether `other` is around this one, or is this one."""
        return self is other or any(ref is other for ref in self.ancestors())


_MARKS = tuple(Ref(None, None, None, GlobalVar(name)) for name in ("inline", "root"))


class Index:
    """Refs of one version of a function."""

    def __init__(self, gvar: GlobalVar, func: PrimFunc) -> None:
        self.gvar = gvar
        self.loops: dict[Var, Ref] = {}
        self.blocks: dict[Block, Ref] = {}
        self.repeated = False
        self.axes: set[Var] = set()
        self.root: Ref | None = None
        self.walk(func.body, None)

    def walk(self, stmt: Stmt, parent: Ref | None) -> None:
        """Add the loops and blocks in `stmt`."""
        kind = type(stmt)
        if kind is For:
            ref = Ref(stmt, parent, None, self.gvar)
            self.repeated = self.repeated or stmt.loop_var in self.loops
            self.loops[stmt.loop_var] = ref
            if stmt.thread_binding is not None:
                thread = stmt.thread_binding.var
                self.repeated = self.repeated or thread in self.axes
                self.axes.add(thread)
            if parent is not None:
                parent.children.append(ref)
            self.walk(stmt.body, ref)
        elif kind is BlockRealize:
            block = stmt.block
            ref = Ref(block, parent, stmt, self.gvar)
            self.repeated = self.repeated or block in self.blocks
            for axis in block.iter_vars:
                self.repeated = self.repeated or axis.var in self.axes
                self.axes.add(axis.var)
            self.blocks[block] = ref
            if parent is None:
                self.root = ref
            else:
                parent.children.append(ref)
            if block.init is not None:
                self.walk(block.init, ref)
            self.walk(block.body, ref)
        elif kind is SeqStmt:
            for item in stmt.seq:
                self.walk(item, parent)
        elif isinstance(stmt, Node):
            for name in body_fields(kind):
                self.walk(getattr(stmt, name), parent)

    def keep(self, before: Index, renamed: dict[Block, Block]) -> None:
        """Put the refs of the version before in place of those for the same loops and blocks."""
        old_blocks = {renamed.get(block, block): ref for block, ref in before.blocks.items()}
        old: dict[Any, Ref] = {**before.loops, **old_blocks}
        new: dict[Any, Ref] = {**self.loops, **self.blocks}
        retained: dict[Any, Ref] = {ref: old.get(key, ref) for key, ref in new.items()}
        for key, ref in old.items():
            if key not in new:
                ref.stmt = None
        for ref, to in retained.items():
            to.stmt, to.realize, to.parent = ref.stmt, ref.realize, retained.get(ref.parent)
            to.children = [retained[child] for child in ref.children]
        self.loops = {var: retained[ref] for var, ref in self.loops.items()}
        self.blocks = {block: retained[ref] for block, ref in self.blocks.items()}
        self.root = None if self.root is None else retained[self.root]


def check_scopes(before: Index, now: Index, func: PrimFunc) -> None:
    """Raise ScheduleError for a loop or a block that a step has left outside of a loop that its
    range or a binding depends on; `func` is the function before the step."""
    variables = (before.loops, before.axes, now.loops, now.axes)

    def check(ref: Ref, around: set[Var]) -> None:
        stmt, realize = ref.stmt, ref.realize
        loop = realize is None
        bounds = (stmt.min, stmt.extent) if loop else (*realize.iter_values, realize.predicate)
        for value in bounds:
            if type(value) is IntImm or value in around:  # nearly all
                continue
            for lost in vars_in(value):
                if lost in around or not any(lost in scope for scope in variables):
                    continue  # in its place, or of another statement
                name = f"loop {stmt.loop_var.name!r}" if loop else f"block {stmt.name_hint!r}"
                what = f"{name} would be outside of loop {lost.name!r}"
                hint = "a step for loops of fixed ranges"
                got, at = f"{value}, which depends on it", before.loops.get(lost)
                error = ScheduleError(what, got=got, instead=hint, at=at and at.stmt)
                error.func = func  # the other one makes no sense
                raise error
        inside = around | ({stmt.loop_var} if loop else {a.var for a in stmt.iter_vars})
        for child in ref.children:
            if child.realize is None:
                old = before.loops.get(child.stmt.loop_var)
            else:
                old = before.blocks.get(child.stmt)
            # An unchanged statement below variables that still exist needs no check.
            if old is not None and old.stmt is child.stmt and old.realize is child.realize:
                if _vars_around(old) <= inside:
                    continue
            check(child, inside)

    if now.root is not None:
        check(now.root, set())


def _vars_around(ref: Ref) -> set[Var]:
    """The variables of the loops and blocks around one."""
    variables: set[Var] = set()
    at = ref.parent
    while at is not None:
        variables |= (
            {at.stmt.loop_var} if at.realize is None else {a.var for a in at.stmt.iter_vars}
        )
        at = at.parent
    return variables


@cache
def body_fields(kind: type) -> tuple[str, ...]:
    """The fields of a statement's class that hold statements inside it."""
    fields = getattr(kind, "__fields__", ())
    names = ("body", "then_case", "else_case")
    return tuple(f.name for f in fields if f.name in names and issubclass(kind, Stmt))
