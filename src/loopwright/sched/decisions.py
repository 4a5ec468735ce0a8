"""Decisions of schedule rules: each has a name, by which `compile(..., decisions=...)` decides otherwise."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar

from ..base.errors import explain, suggest
from ..base.names import free_name
from ..tir.schedule import Schedule

Decisions = Mapping[str, Mapping[str, int]]  # {kernel: {name: value}}


class _ByHand:
    """The decisions that are taken by hand, the kernels that were scheduled, and the one that is."""

    def __init__(self, decisions: Decisions) -> None:
        self.decisions = decisions
        self.scheduled: set[str] = set()
        self.kernel = ""


_BY_HAND: ContextVar[_ByHand | None] = ContextVar("decisions by hand", default=None)


@contextmanager
def deciding(decisions: Decisions | None) -> Iterator[None]:
    """Let rules take these decisions instead of their defaults.

    Raises ValueError, when a kernel is scheduled, for a decision that its rule does not take, or a
    value that is not among the candidates; at the end, for kernels that were not scheduled.
    """
    by_hand = _ByHand(decisions) if decisions else None
    token = _BY_HAND.set(by_hand)
    try:
        yield
    finally:
        _BY_HAND.reset(token)
    names = set() if by_hand is None else by_hand.scheduled
    for name in decisions or ():
        if name not in names:
            what = "no kernel of this name was scheduled by a rule"
            raise ValueError(explain(what, got=name, instead=suggest(name, names, "one of")))


def decide(sch: Schedule, name: str, candidates: Iterable[int], default: int) -> int:
    """A rule's choice for the schedule: the default, unless `deciding` says otherwise. The schedule's
    trace notes it, under `name_1` and so on where the name is taken."""
    name, choices = free_name(name, _names(sch)), sorted({*candidates, default})
    by_hand, value = _BY_HAND.get(), default
    if by_hand is not None:
        value = by_hand.decisions.get(by_hand.kernel, {}).get(name, default)
        if value not in choices:
            what = "the decision has no such candidate"
            raise ValueError(explain(what, got=f"{name} = {value}", instead=f"one of {choices}"))
    if len(choices) > 1:
        sch.decide(name, choices, decision=value)
    return value


def begin(kernel: Callable[[], str]) -> None:
    """This kernel is scheduled from now on."""
    by_hand = _BY_HAND.get()
    if by_hand is not None:
        by_hand.kernel = kernel()


def finish(sch: Schedule | None) -> None:
    """This is the kernel's schedule, if a rule has returned one. Raises ValueError for a decision by hand
    that it does not take."""
    by_hand = _BY_HAND.get()
    if by_hand is None:
        return
    by_hand.scheduled.add(by_hand.kernel)
    names = set() if sch is None else _names(sch)
    for name in by_hand.decisions.get(by_hand.kernel, ()):
        if name not in names:
            what = f"the schedule of kernel {by_hand.kernel} has no decision of this name"
            raise ValueError(explain(what, got=name, instead=suggest(name, names, "it has")))


def _names(sch: Schedule) -> set[str]:
    """The names of the decisions in a schedule's trace."""
    return {str(inst.attrs[0]) for inst in sch.trace.insts if inst.kind.name == "Decide"}
