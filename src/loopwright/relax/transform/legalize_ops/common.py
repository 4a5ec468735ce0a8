"""The legalizations, and the order in which they are tried.

The order is that of every `RuleTable`: the map given to the pass, the rules for the target's kind,
those for each of the target's keys in turn, the default; the last default is the operator's
definition. A rule that returns the call itself leaves it unchanged.

A rule is a function, or a hand-written kernel (`kernel.Kernel`), and may have a predicate.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ....base.errors import explain, suggest
from ....base.foreign import named_errors
from ....base.registry import origin_of
from ....ir.op import OPS, Op, load_definitions, register_op
from ....ir.rule_table import DEFAULT, Candidate, RuleTable
from ....ir.target import Target
from ....tir.function import PrimFunc
from ...block_builder import BlockBuilder
from ...expr import Call
from .kernel import Kernel

Rule = Callable[[Any, Any], Any]
Predicate = Callable[[Any], bool]


class Conditional:
    """A rule that is tried only for calls that a predicate accepts."""

    def __init__(self, rule: Rule, when: Predicate) -> None:
        self.rule = rule
        self.when = when

    def __call__(self, bb: BlockBuilder, call: Call) -> Any:
        return self.rule(bb, call) if self.accepts(call) else None

    def accepts(self, call: Call) -> bool:
        """The answer of the predicate."""
        with named_errors(
            lambda: f"the predicate of a rule of {call.op.name}", self.when, lambda: call.span
        ):
            return self.when(call)

    def refusal(self, call: Call) -> str | None:
        """Why a call is refused: by the predicate, else by the rule."""
        if not self.accepts(call):
            return f"{getattr(self.when, '__name__', 'when')} said no"
        return _refusal(self.rule, call)


def _bare(rule: Conditional | Kernel | Callable[..., Any]) -> Any:
    return rule.rule if isinstance(rule, Conditional) else rule


def _label(rule: Conditional | Kernel | Callable[..., Any]) -> str:
    bare = _bare(rule)
    if isinstance(bare, Kernel):
        return str(bare)
    return f"{getattr(bare, '__module__', '')}.{getattr(bare, '__qualname__', type(bare).__name__)}"


LEGALIZATIONS: RuleTable[Rule] = RuleTable("legalization", _label)


def answer(candidate: Candidate[Rule], bb: BlockBuilder, call: Call) -> Any:
    """The result of a rule for a call. Raises RuleError where a rule of others fails."""
    rule = _bare(candidate.rule)
    with named_errors(lambda: f"the rule of {call.op.name} ({candidate})", rule, lambda: call.span):
        return candidate.rule(bb, call)


def refusal(candidate: Candidate[Rule], call: Call) -> str | None:
    """Why a rule does not take a call, if that can be known without calling it."""
    return _refusal(candidate.rule, call)


def _refusal(rule: Conditional | Kernel | Callable[..., Any], call: Call) -> str | None:
    return rule.refusal(call) if isinstance(rule, (Kernel, Conditional)) else None


def is_checked(candidate: Candidate[Rule]) -> bool:
    """Whether `refusal` is complete: then the order of rules does not matter."""
    return isinstance(_bare(candidate.rule), Kernel)


def register_legalize(
    op_name: str,
    legal_func: PrimFunc | int | Callable[..., Any] | None = None,
    target: str | None = None,
    priority: int = 10,
    *,
    tir: Any = None,
    when: Predicate | None = None,
) -> Any:
    """Set how an operator is lowered: `f(bb, call)` returns an expression, or None for "not mine".

    target: a target kind or key ("llvm", "cpu", "arm_cpu"); the rule is tried only for such a
        target, before the default.
    priority: rules for one target are tried from the highest down, later ones first.
    tir: instead of `f`, a kernel: a PrimFunc whose buffers are the tensors, then the results, or a
        function (call) -> PrimFunc | None. See `legalize_ops.kernel`.
    when: a predicate; the rule is tried only for calls that it accepts.

    Without `legal_func` and `tir`, a decorator. If two kernels of one priority fit a call, a
    warning is logged when the call is legalized. Raises TypeError for a rule that is not callable,
    ValueError for an unknown operator "relax.NAME".

    >>> @lw.register_legalize("relax.negative", target="llvm")
    ... def negative(bb, call):
    ...     return bb.call_te(lambda x: te.compute(x.shape, lambda *i: 0 - x(*i)), call.args[0])
    """
    origin = origin_of(tir if tir is not None else legal_func)
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
    _check_operator(op_name)
    rule = legal_func if when is None else Conditional(legal_func, when)
    op = register_op(op_name)
    if target is None and not op.has_attr("FLegalize"):
        op.set_attr("FLegalize", rule, priority)  # its definition
    else:
        key = DEFAULT if target is None else target
        LEGALIZATIONS.add(rule, key, subject=op_name, priority=priority, origin=origin)
    return legal_func


def _check_operator(op_name: str) -> None:
    """Other names than "relax.NAME" may be those of a back end's patterns, or be defined later."""
    exists = op_name in OPS or not op_name.startswith("relax.")
    if exists or not load_definitions() or op_name in OPS:
        return
    hint = suggest(op_name, [name for name in OPS if name.startswith("relax.")])
    what = "a legalization of an operator that does not exist"
    raise ValueError(explain(what, got=op_name, instead=f"{hint} @op defines one"))


def candidates(op: Op, target: Target | None, custom: dict[str, Rule]) -> list[Candidate[Rule]]:
    """The rules for an operator under a target, in the order in which they are tried."""
    own = custom.get(op.name)
    if isinstance(own, PrimFunc):
        own = Kernel(op.name, own)
    rules = LEGALIZATIONS.candidates(target, op.name, {} if own is None else {op.name: own})
    definition = op.get_attr("FLegalize")
    if definition is None:
        return rules
    level = op.level_of("FLegalize")
    defaults = [c for c in rules if c.origin == DEFAULT]
    defaults.append(Candidate(definition, _label(definition), DEFAULT, level))
    defaults.sort(key=lambda c: -c.priority)
    earlier = [replace(c, origin="default before") for c in defaults[1:]]
    return [*(c for c in rules if c.origin != DEFAULT), defaults[0], *earlier]


def may_be_taken(call: Any, target: Target | None) -> bool:
    """Whether a user's rule takes a call, or may take it (only calling it would show)."""
    own = LEGALIZATIONS.candidates(target, call.op.name)  # all but the definition
    return any(refusal(candidate, call) is None for candidate in own)


def taker(call: Call, target: Target | None) -> Candidate[Rule] | None:
    """The kernel that will take a call; None if that depends on calling a rule."""
    for candidate in candidates(call.op, target, {}):
        if refusal(candidate, call) is None:
            return candidate if is_checked(candidate) else None
    return None
