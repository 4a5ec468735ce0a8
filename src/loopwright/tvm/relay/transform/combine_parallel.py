"""Several calls of one operator on one input as one: shared parts of three passes.

A branch is a call and the elementwise calls that follow it as long as all branches have the same
ones.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ....ir.op import Op
from ....ir.prim_expr import IntImm
from ....ir.structural import structural_equal
from ....ops.core import BROADCAST
from ..expr import Call, Expr, Function
from ..operators.core import VIEWS, kind_of
from ..walk import post_order, rewrite

Branch = list[Call]


@dataclass
class Combiner:
    """What differs between operators.

    op: its name. same: whether two calls of it may be one. joined: the one call of several
    branches' first ones. fits: whether an argument of a following call may be joined (its
    position, the call). follow: the one following call, of the joined value and the other
    arguments at this depth.
    parts: the results of the branches, of the joined value.
    """

    op: str
    least: int
    supported: Callable[[Call], bool]
    same: Callable[[Call, Call], bool]
    joined: Callable[[list[Branch]], Any]
    fits: Callable[[Call, Call, int], bool]
    follow: Callable[[Any, list[Branch], int], Any]
    parts: Callable[[Any, list[Branch], int], list[Any]]

    def run(self, func: Function) -> Function:
        """The function with branches joined."""
        replaced: dict[int, Any] = {}
        for group in self._groups(func):
            if len(group) >= self.least:
                self._combine(group, replaced)
        if not replaced:
            return func
        while True:  # parts of a result may be replaced themselves
            new = rewrite(func, pre=lambda node: replaced.get(id(node)))
            if new is func:
                return func
            func = new

    def _groups(self, func: Function) -> list[list[Branch]]:
        op = Op.get(self.op)
        users: dict[int, list[tuple[Call, int]]] = {}
        calls: dict[int, list[Call]] = {}
        for node in post_order(func):
            if not isinstance(node, Call):
                continue
            for i, arg in enumerate(node.args):
                users.setdefault(id(arg), []).append((node, i))
            if node.op is op and self.supported(node):
                calls.setdefault(id(node.args[0]), []).append(node)
        groups: list[list[Branch]] = []
        for same_input in calls.values():
            open_groups: list[list[Branch]] = []
            for call in same_input:
                branch = self._branch(call, users)
                group = next((g for g in open_groups if self.same(g[0][0], call)), None)
                if group is None:
                    open_groups.append([branch])
                else:
                    group.append(branch)
            groups += open_groups
        return groups

    def _branch(self, call: Call, users: dict[int, list[tuple[Call, int]]]) -> Branch:
        """A call, and what follows it alone."""
        branch = [call]
        while True:
            following = users.get(id(branch[-1]), [])
            if len(following) != 1:
                return branch
            user, position = following[0]
            simple = isinstance(user.op, Op) and kind_of(user.op) <= BROADCAST
            if not simple or position != 0:
                return branch
            branch.append(user)

    def _combine(self, branches: list[Branch], replaced: dict[int, Any]) -> None:
        value = self.joined(branches)
        depth = min(len(branch) for branch in branches)
        at = 1
        while at < depth and self._same_step(branches, at):
            value = self.follow(value, branches, at)
            at += 1
        for branch, part in zip(branches, self.parts(value, branches, at - 1), strict=True):
            replaced[id(branch[at - 1])] = part

    def _same_step(self, branches: list[Branch], at: int) -> bool:
        """Whether the calls at a depth are the same, and their other arguments can be joined."""
        first = branches[0][at]
        for branch in branches:
            call = branch[at]
            if call.op is not first.op or not structural_equal(call.attrs, first.attrs):
                return False
            positions = range(len(call.args))
            if not all(self.fits(branch[0], call, i) for i in positions):
                return False
            if not all(self._same_shape(call, first, i) for i in positions[1:]):
                return False
        return True

    def _same_shape(self, call: Call, first: Call, i: int) -> bool:
        a, b = call.args[i].checked_type, first.args[i].checked_type
        return a.dtype == b.dtype and len(a.shape) == len(b.shape)


def with_joined_weights(branches: list[Branch], axis: int, size: str = "") -> Call:
    """The first call with the weights of all branches, joined along an axis. size: the attribute that is
    the extent of that."""
    first, weights = branches[0][0], [b[0].args[1] for b in branches]
    attrs = first.attrs
    if size:
        total = sum(extents(w)[axis] for w in weights)
        attrs = attrs.replace(values={**attrs.values, size: total})
    return Call(first.op, [first.args[0], VIEWS["concatenate"](weights, axis)], attrs)


def followed(value: Any, branches: list[Branch], at: int, join: Callable[[list[Any]], Any]) -> Call:
    """The call at a depth of the joined value, and of the branches' other operands, joined."""
    call = branches[0][at]
    rest = [join([b[at].args[i] for b in branches]) for i in range(1, len(call.args))]
    return Call(call.op, [value, *rest], call.attrs)


def slices(value: Any, sizes: list[int], axis: int, rank: int) -> list[Any]:
    """The parts of a value along an axis; no others are cut from the axis `rank` on."""
    begin, parts = 0, []
    for size in sizes:
        low = [begin if i == axis else 0 for i in range(rank)]
        count = [size if i == axis else -1 for i in range(rank)]
        cut = VIEWS["strided_slice"]
        parts.append(cut(value, low, count, strides=[1] * rank, slice_mode="size"))
        begin += size
    return parts


def same_but_for(a: Call, b: Call, axis: int) -> bool:
    """Whether the weights of two calls have the same extents except along an axis."""
    pairs = enumerate(zip(extents(a.args[1]), extents(b.args[1]), strict=True))
    return all(same_extent(x, y) for i, (x, y) in pairs if i != axis)


def keeps_axes(first: Call, call: Call) -> bool:
    """Whether a call has the axes of the first of its branch: the same number, and it names none of
    them, since joined values may have others."""
    named = call.attrs is not None and "axis" in call.attrs.values
    return not named and len(extents(call)) == len(extents(first))


def extents(expr: Expr) -> list[Any]:
    """The extents of an expression: numbers where they are known."""
    shape = expr.checked_type.shape
    return [d.value if isinstance(d, IntImm) else d for d in shape]


def same_extent(a: int, b: int) -> bool:
    """Whether two extents are known to be the same."""
    return a is b or (isinstance(a, int) and isinstance(b, int) and a == b)
