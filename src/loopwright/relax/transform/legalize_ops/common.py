"""The registry of legalizations, and the order in which its rules are asked.

One order, for every operator: the map given to the pass, the rules for the target's kind, those
for each of the target's keys in turn, the default. A rule that answers None says "not mine", and
the next is asked; one that gives the call back says "leave it".
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ....base.errors import explain
from ....ir.op import Op, register_op
from ....ir.target import Target

Rule = Callable[[Any, Any], Any]
_BY_TARGET, _DEFAULT, _EARLIER = "FLegalizeByTarget", "FLegalize", "FLegalizeEarlier"


@dataclass(frozen=True)
class Candidate:
    """A rule and where it stands in the order."""

    rule: Rule
    origin: str

    def __str__(self) -> str:
        name = getattr(self.rule, "__qualname__", type(self.rule).__name__)
        return f"{self.origin}: {getattr(self.rule, '__module__', '')}.{name}"


def register_legalize(
    op_name: str, legal_func: Any = None, target: Any = None, priority: int = 10
) -> Any:
    """Set how an operator is lowered: `f(bb, call)` returns an expression, or None for "not mine".

    target: a target kind or key ("llvm", "cpu", "avx512"); the rule is asked only under such a
        target, before the default.
    priority: rules for one target are asked from the highest down, later ones first.

    Without `legal_func`, a decorator. Raises TypeError when it cannot be called.
    """
    if legal_func is None:
        return lambda fn: register_legalize(op_name, fn, target, priority)
    if not callable(legal_func):
        what = f"the legalization of {op_name} is a function f(bb, call)"
        raise TypeError(explain(what, got=repr(legal_func)))
    op = register_op(op_name)
    if target is None:
        known = op.get_attr(_DEFAULT)
        if known is not None and known is not legal_func:
            op.set_attr(_EARLIER, (known, *op.get_attr(_EARLIER, ())))
        op.set_attr(_DEFAULT, legal_func, priority)
        return legal_func
    key = target.kind_name if isinstance(target, Target) else str(target)
    table = dict(op.get_attr(_BY_TARGET, {}))
    # Sorting is stable: the new one comes before others of its priority.
    rules = [(priority, legal_func), *table.get(key, ())]
    table[key] = tuple(sorted(rules, key=lambda rule: -rule[0]))
    op.set_attr(_BY_TARGET, table)
    return legal_func


def candidates(op: Op, target: Target | None, custom: dict[str, Rule]) -> list[Candidate]:
    """The rules for an operator under a target, in the order in which they are asked."""
    found: list[Candidate] = []
    if op.name in custom:
        found.append(Candidate(custom[op.name], "call-site map"))
    table = op.get_attr(_BY_TARGET)
    if table and target is not None:
        for key in target.lookup_keys:
            found += [Candidate(rule, f"target {key}") for _, rule in table.get(key, ())]
    default = op.get_attr(_DEFAULT)
    if default is not None:
        found.append(Candidate(default, "default"))
        found += [Candidate(rule, "default before") for rule in op.get_attr(_EARLIER, ())]
    return found


__all__ = ["Candidate", "candidates", "register_legalize"]
