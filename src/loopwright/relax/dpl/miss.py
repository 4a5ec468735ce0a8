"""Why a pattern does not match: the failure that the search got furthest before.

miss = nearest(pattern, value, bindings)
print(miss.text())   # relax.permute_dims(*) is wanted where a constant of float32 (3, 8) is
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .. import expr as rx
from ..struct_info import StructInfo, TensorStructInfo
from .matcher import FAIL, Matcher, match_goal
from .nodes import AttrPattern, CallPattern, DFPattern
from .plan import plan_of
from .text import render

_LONGEST = 100  # characters of a pattern in a message


@dataclass(frozen=True)
class Miss:
    """A part of a pattern that does not match a value, after `depth` parts that do."""

    depth: int
    expected: DFPattern
    value: Any

    def text(self) -> str:
        """The expected pattern, and the value it does not match."""
        expected, there = self.expected, shown(self.value)
        text = render(expected).splitlines()[-1]
        text = text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
        if isinstance(self.value, rx.Call):
            there += _detail(expected, self.value)
        return f"{text} is wanted where {there} is"


class _Watched(Matcher):
    """A matcher that keeps the failure with the most parts bound before it."""

    furthest: Miss | None = None

    def _run(self, goals: Sequence[Any], base: int) -> bool:
        while goals is not None:
            rule, what, value, rest = goals
            goals = rule(self, what, value, rest)
            if goals is FAIL:
                self.failed(what, value)
                goals = self._back(base)
                if goals is FAIL:
                    return False
        return True

    def failed(self, what: DFPattern, value: rx.Expr) -> None:
        depth = len(self.trail)
        if isinstance(what, DFPattern) and (self.furthest is None or depth > self.furthest.depth):
            self.furthest = Miss(depth, what, self.unwrap(value))


def nearest(pattern: DFPattern, expr: rx.Expr, bindings: Mapping[Any, Any]) -> Miss | None:
    """The furthest failure of a pattern at an expression; None if it matches."""
    watched = _Watched(plan_of(pattern), bindings)
    solved = watched.solve((match_goal, pattern, expr, None))
    return watched.furthest if solved is None else None


def _detail(pattern: DFPattern, call: rx.Call) -> str:
    """The part of a call that a pattern for calls of its operator compares."""
    if isinstance(pattern, AttrPattern) and call.attrs is not None:
        own = dict(call.attrs.items())
        return f" with {', '.join(f'{k}={own.get(k)!r}' for k in pattern.attrs)}"
    if isinstance(pattern, CallPattern) and len(pattern.args or ()) != len(call.args):
        return f" with {len(call.args)} arguments"
    return ""


def shown(value: rx.Expr) -> str:
    """An expression in a few words: its operator or kind, and its type."""
    info = getattr(value, "struct_info", None)
    if isinstance(value, rx.Call):
        op = value.op
        return getattr(op, "name", "") or f"a call of {getattr(op, 'name_hint', op)}"
    if isinstance(value, rx.Constant):
        return f"a constant of {_type(info)}"
    if isinstance(value, rx.Var):
        return f"{value.name_hint}, {_type(info)},"
    if isinstance(value, rx.TupleGetItem):
        return f"field {value.index} of a tuple"
    return f"a {type(value).__name__}"


def _type(info: StructInfo | None) -> str:
    shape = info.get_shape() if isinstance(info, TensorStructInfo) else None
    if not isinstance(info, TensorStructInfo) or shape is None:
        return str(info)
    return f"{info.dtype} ({', '.join(str(getattr(d, 'value', d)) for d in shape)})"
