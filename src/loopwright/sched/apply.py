"""ApplyDefaultSchedule: schedules every kernel that has no schedule yet.

Before (-) and after (+)::

      @I.ir_module
      class Module:
          @T.prim_func(private=True)
          def main(A: T.Buffer((4, 64), "float32"), B: T.Buffer((4, 64), "float32")):
    -         for i, j in T.grid(4, 64):
    -             with T.block("add"):
    -                 vi, vj = T.axis.remap("SS", [i, j])
    -                 B[vi, vj] = A[vi, vj] + T.float32(1)
    +         T.func_attr({"tir.is_scheduled": True})
    +         for i_j_0_fused in range(16):
    +             for j_1 in T.vectorized(16):
    +                 with T.block("add"):
    +                     vi = T.axis.spatial(4, i_j_0_fused // 4)
    +                     vj = T.axis.spatial(64, i_j_0_fused % 4 * 16 + j_1)
    +                     B[vi, vj] = A[vi, vj] + T.float32(1)

Rules are tried in the order of `SCHEDULES.candidates(target)`: those of the target's kind, of its
keys, then the default ones. The first that does not return None schedules the kernel; the trace
records it and the rules tried before it, and keeps the steps of its schedule. This example is for a
CPU with 512-bit vectors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from typing import Any

from ..base.errors import explain
from ..base.foreign import named_errors
from ..base.names import free_name
from ..ir import trace
from ..ir.functor import any_node
from ..ir.literals import is_zero
from ..ir.prim_expr import PrimExpr
from ..ir.rule_table import Candidate, Choice, RuleTable, ask
from ..ir.target import Target
from ..ir.transform import FunctionPass, IRModule, PassContext
from ..tir.function import PrimFunc
from ..tir.schedule import Schedule
from ..tir.stmt import Block, For
from ..tir.stmt_functor import ExprKeeper
from .decisions import begin, finish

Rule = Callable[[PrimFunc, Target], Schedule | PrimFunc | None]
SCHEDULES: RuleTable[Rule] = RuleTable("schedule rule")


def register_schedule_rule(
    name: str, target: str = "default", *, first: bool = False
) -> Callable[[Rule], Rule]:
    """Add a rule for a target kind ("llvm"), a target key ("cpu"), or all ("default").

    `first` puts it before the existing ones.
    """

    def add(rule: Rule) -> Rule:
        if any(r.name == name for r in SCHEDULES.at(target)):
            raise ValueError(
                explain("a schedule rule of this name exists", got=f"{target}: {name}")
            )
        SCHEDULES.add(rule, target, name=name, last=not first)
        return rule

    return add


class ApplyDefaultSchedule(FunctionPass):
    """Schedules every kernel that has no schedule yet: by one of `rules`, functions like those of
    `register_schedule_rule`, or by the registered ones. A function with the attribute "tir.is_scheduled" is left
    unchanged."""

    function_type = PrimFunc

    def __init__(self, *rules: Rule) -> None:
        own = [Candidate(rule, type(rule).__name__, "an argument") for rule in rules]
        self.rules = tuple(own)

    def run_function(self, func: PrimFunc, mod: IRModule, ctx: PassContext) -> PrimFunc:
        """The scheduled function; the same one if no rule applies."""
        if func.attrs.get("tir.is_scheduled") or _never_runs(func):
            return func
        target = func.attrs.get("target") or Target.current(allow_none=True) or Target("llvm")
        old, func = func, named_apart(func)
        name = partial(name_in, mod, old)
        begin(name)
        with _recorded() as reasons:
            choice = ask(
                [*self.rules, *SCHEDULES.candidates(target)],
                lambda c: scheduled(c, func, target, name),
            )
        steps = choice.result if isinstance(choice.result, Schedule) else None
        finish(steps)
        _note(mod, old, choice, reasons, steps)
        if choice.winner is None:
            return func
        result = choice.result
        done = result.func if isinstance(result, Schedule) else result
        return done.with_attr("tir.is_scheduled", True)


_REASONS: ContextVar[list[str] | None] = ContextVar("reasons of the rule that runs", default=None)


def give_reason(text: Callable[[], str]) -> None:
    """Record in the trace, if there is one, why the running rule made its choice."""
    reasons = _REASONS.get()
    if reasons is not None and (reason := text()) not in reasons:
        reasons.append(reason)


def _never_runs(func: PrimFunc) -> bool:
    """Whether a loop of the kernel has the extent 0: what remains is not worth a schedule."""
    return any_node(func.body, lambda n: isinstance(n, For) and is_zero(n.extent), skip=PrimExpr)


def scheduled(
    candidate: Candidate[Rule], func: PrimFunc, target: Target, kernel: Callable[[], str]
) -> Schedule | PrimFunc | None:
    """The kernel as a rule schedules it; `kernel` returns its name. Raises TypeError if the rule
    returns something else, RuleError if a rule of a plug-in fails."""

    def where() -> str:
        return f'the schedule rule "{candidate.name}" ({candidate.origin}) of the kernel {kernel()}'

    reasons = _REASONS.get()
    if reasons:  # of a rule that declined
        reasons.clear()
    with named_errors(where, candidate.rule, lambda: func.span):
        result: Any = candidate.rule(func, target)
    if result is None or isinstance(result, Schedule | PrimFunc):
        return result
    hint = "return the schedule, a PrimFunc, or None to decline"
    what = f"{where()} must return a Schedule"
    raise TypeError(explain(what, got=type(result).__name__, instead=hint))


def name_in(mod: IRModule, func: PrimFunc) -> str:
    """The name of a function in its module."""
    return next((g.name_hint for g, f in mod.functions.items() if f is func), "?")


def named_apart(func: PrimFunc) -> PrimFunc:
    """The function with unique block names, by which rules find blocks: a hand-written function
    may have duplicates."""
    body = _Apart().visit(func.body)
    return func if body is func.body else func.replace(body=body)


class _Apart(ExprKeeper):
    """Numbers blocks whose names are taken, inner ones after outer ones."""

    def __init__(self) -> None:
        self.used: set[str] = set()

    def visit_Block(self, node: Block) -> Block:
        name = free_name(node.name_hint, self.used)
        self.used.add(name)
        new = self.visit_default(node)
        return new if name == node.name_hint else new.replace(name_hint=name)


@contextmanager
def _recorded() -> Iterator[list[str]]:
    """The list of the reasons that rules give; without a trace, none are collected."""
    reasons: list[str] = []
    token = _REASONS.set(None if trace.active() is None else reasons)
    try:
        yield reasons
    finally:
        _REASONS.reset(token)


def _note(
    mod: IRModule,
    func: PrimFunc,
    choice: Choice[Rule],
    reasons: list[str],
    steps: Schedule | None,
) -> None:
    recording = trace.active()
    if recording is None:
        return
    name = name_in(mod, func)
    winner = "none" if choice.winner is None else choice.winner.name
    refused = ", ".join(c.name for c, _ in choice.losers)
    recording.note("schedule", name, rule=winner, refused=refused, reasons=reasons)
    if steps is not None:
        recording.schedules[name] = steps.trace.simplified(remove_postproc=False)
