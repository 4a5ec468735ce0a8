"""The registry of legalizations, and the order in which its rules are asked.

One order, for every operator: the map given to the pass, the rules for the target's kind, those
for each of the target's keys in turn, the default. A rule that answers None says "not mine", and
the next is asked; one that gives the call back says "leave it".

A rule is a function, or a hand-written kernel (`kernel.Kernel`), and may have a predicate.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ....base.errors import explain
from ....ir.op import Op, register_op
from ....ir.target import Target
from ....tir.function import PrimFunc
from .kernel import Kernel

Rule = Callable[[Any, Any], Any]
Predicate = Callable[[Any], bool]
_BY_TARGET, _DEFAULT, _EARLIER = "FLegalizeByTarget", "FLegalize", "FLegalizeEarlier"


@dataclass(frozen=True)
class Candidate:
    """A rule and where it stands in the order."""

    rule: Rule
    origin: str
    priority: int = 10

    def __str__(self) -> str:
        rule = _bare(self.rule)
        if isinstance(rule, Kernel):
            return f"{self.origin}: {rule}"
        name = getattr(rule, "__qualname__", type(rule).__name__)
        return f"{self.origin}: {getattr(rule, '__module__', '')}.{name}"

    def refusal(self, call: Any) -> str | None:
        """Why the rule does not take a call, where that can be known without asking it."""
        return _refusal(self.rule, call)

    @property
    def is_checked(self) -> bool:
        """Whether `refusal` says everything: then it is no question of who is asked first."""
        return isinstance(_bare(self.rule), Kernel)


class Conditional:
    """A rule that is asked only for the calls that a predicate accepts."""

    def __init__(self, rule: Rule, when: Predicate) -> None:
        self.rule = rule
        self.when = when

    def __call__(self, bb: Any, call: Any) -> Any:
        return self.rule(bb, call) if self.when(call) else None

    def refusal(self, call: Any) -> str | None:
        """Why a call is refused: by the predicate, else by the rule."""
        if not self.when(call):
            return f"{getattr(self.when, '__name__', 'when')} said no"
        return _refusal(self.rule, call)


def _bare(rule: Any) -> Any:
    return rule.rule if isinstance(rule, Conditional) else rule


def _refusal(rule: Any, call: Any) -> str | None:
    return rule.refusal(call) if isinstance(rule, (Kernel, Conditional)) else None


def register_legalize(
    op_name: str,
    legal_func: Any = None,
    target: Any = None,
    priority: int = 10,
    *,
    tir: Any = None,
    when: Predicate | None = None,
) -> Any:
    """Set how an operator is lowered: `f(bb, call)` returns an expression, or None for "not mine".

    target: a target kind or key ("llvm", "cpu", "avx512"); the rule is asked only under such a
        target, before the default.
    priority: rules for one target are asked from the highest down, later ones first.
    tir: instead of `f`, a kernel: a PrimFunc whose buffers are the tensors, then the results, or a
        function (call) -> PrimFunc | None. See `legalize_ops.kernel`.
    when: the rule is asked only for calls of which this is true.

    Without `legal_func` and `tir`, a decorator. Two kernels of one priority that both fit a call
    are reported when that call is legalized. Raises TypeError when a rule cannot be called.
    """
    if tir is not None:
        if legal_func is not None:
            what = f"the legalization of {op_name} is a function or a kernel"
            raise TypeError(explain(what, got="both", instead="give f or tir="))
        legal_func = Kernel(op_name, tir)
    if legal_func is None:
        return lambda fn: register_legalize(op_name, fn, target, priority, when=when)
    if not callable(legal_func):
        what = f"the legalization of {op_name} is a function f(bb, call)"
        hint = "give a kernel as tir=" if isinstance(legal_func, PrimFunc) else None
        raise TypeError(explain(what, got=repr(legal_func), instead=hint))
    rule = legal_func if when is None else Conditional(legal_func, when)
    op = register_op(op_name)
    if target is None:
        known = op.get_attr(_DEFAULT)
        if known is not None and known is not rule:
            op.set_attr(_EARLIER, (known, *op.get_attr(_EARLIER, ())))
        op.set_attr(_DEFAULT, rule, priority)
        return legal_func
    key = target.kind_name if isinstance(target, Target) else str(target)
    table = dict(op.get_attr(_BY_TARGET, {}))
    # Sorting is stable: the new one comes before others of its priority.
    rules = [(priority, rule), *table.get(key, ())]
    table[key] = tuple(sorted(rules, key=lambda rule: -rule[0]))
    op.set_attr(_BY_TARGET, table)
    return legal_func


def candidates(op: Op, target: Target | None, custom: dict[str, Rule]) -> list[Candidate]:
    """The rules for an operator under a target, in the order in which they are asked."""
    rules: list[Candidate] = []
    if op.name in custom:
        given = custom[op.name]
        rule = Kernel(op.name, given) if isinstance(given, PrimFunc) else given
        rules.append(Candidate(rule, "call-site map"))
    table = op.get_attr(_BY_TARGET)
    if table and target is not None:
        for key in target.lookup_keys:
            rules += [Candidate(rule, f"target {key}", p) for p, rule in table.get(key, ())]
    default = op.get_attr(_DEFAULT)
    if default is not None:
        rules.append(Candidate(default, "default"))
        rules += [Candidate(rule, "default before") for rule in op.get_attr(_EARLIER, ())]
    return rules


def has_own_rule(op: Op, target: Target | None) -> bool:
    """Whether somebody gave the operator another lowering under the target than its definition's:
    passes that would turn it into other operators first leave it alone."""
    table = op.get_attr(_BY_TARGET)
    by_target = table and target is not None and any(table.get(k) for k in target.lookup_keys)
    return bool(by_target) or bool(op.get_attr(_EARLIER))


def may_be_taken(call: Any, target: Target | None) -> bool:
    """Whether somebody's own rule takes a call, or may: that is seen only by asking it."""
    if not has_own_rule(call.op, target):
        return False
    *own, _ = candidates(call.op, target, {})  # the last one is the definition's
    return any(candidate.refusal(call) is None for candidate in own)


def taker(call: Any, target: Target | None) -> Candidate | None:
    """The kernel that will take a call; None where that is seen only by asking a rule."""
    for candidate in candidates(call.op, target, {}):
        if candidate.refusal(call) is None:
            return candidate if candidate.is_checked else None
    return None


__all__ = ["Candidate", "Conditional", "candidates", "may_be_taken", "register_legalize", "taker"]
