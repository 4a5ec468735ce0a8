"""Rules chosen by target, and the one order in which they are asked:

    call-site map -> the target's kind -> its keys in order -> default

    RULES: RuleTable[Rule] = RuleTable("schedule rule")
    RULES.add(tiled, "avx512", name="tiled")
    choice = ask(RULES.candidates(target), lambda candidate: candidate.rule(func))
    choice.result, choice.winner, choice.losers

Legalizations, schedules, patterns of back ends and pipelines by name are such tables. A rule that
answers None says "not mine", and the next is asked. What a `Choice` holds is for the trace: who won,
who was asked before and why they did not, who was not asked.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Generic, TypeVar

from ..base.errors import explain
from ..base.registry import Registry, origin_of
from .target import KINDS, Target

DEFAULT = "default"  # the place that is asked last, under every target
R = TypeVar("R")
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Candidate(Generic[R]):
    """A rule, its name, and where it stands in the order: "call-site map", "target llvm", "default"."""

    rule: R
    name: str
    origin: str
    priority: int = 10

    def __str__(self) -> str:
        return f"{self.origin}: {self.name}"


class RuleTable(Generic[R]):
    """Rules by what they are for (`subject`: an operator, a pipeline's name) and place: a target
    kind, a target key, or `DEFAULT`."""

    def __init__(self, what: str, label: Callable[[R], str] = str) -> None:
        self.label = label  # a rule's name where none is given
        # (subject, place, rank) -> candidate; those of lower rank are asked first.
        self.registry: Registry[tuple[str, str, int], Candidate[R]] = Registry(what, compiles=True)
        self._ordered: dict[tuple[str, str], tuple[Candidate[R], ...]] = {}
        self._revision, self._count = 0, 0

    def add(
        self,
        rule: R,
        place: Target | str = DEFAULT,
        *,
        name: str = "",
        subject: str = "",
        priority: int = 10,
        last: bool = False,
        origin: str | None = None,
    ) -> None:
        """Add a rule before those of its place that have no higher priority; with `last` behind
        those that have no lower one. `origin` says who adds it (`base.registry`)."""
        place = place.kind_name if isinstance(place, Target) else str(place)
        close = _known_like(place)
        if close:  # no error: the kind may be registered after its rules
            what = f"a {self.registry.name} for a target that is not known yet"
            _log.warning(explain(what, got=place, instead=f"did you mean {close}?"))
        shown = DEFAULT if place == DEFAULT else f"target {place}"
        candidate = Candidate(rule, name or self.label(rule), shown, priority)
        for key, known in list(self.registry.items()):
            if known.rule is rule and key[:2] == (subject, place):
                self.registry.remove(key)  # it is the latest now
        self._count += 1
        key = (subject, place, self._count if last else -self._count)
        self.registry.register(key, candidate, origin=origin_of(rule) if origin is None else origin)

    def at(self, place: str, subject: str = "") -> tuple[Candidate[R], ...]:
        """The rules of one place."""
        if self._revision != self.registry.revision:
            groups: dict[tuple[str, str], list[Candidate[R]]] = {}
            for key in sorted(self.registry, key=lambda key: key[2]):
                groups.setdefault(key[:2], []).append(self.registry[key])
            self._ordered = {
                key: tuple(sorted(group, key=lambda c: -c.priority))
                for key, group in groups.items()
            }
            self._revision = self.registry.revision
        return self._ordered.get((subject, place), ())

    def candidates(
        self, target: Target | None, subject: str = "", call_site: Mapping[str, R] | None = None
    ) -> list[Candidate[R]]:
        """The rules for a target, in the order in which they are asked; first the one that
        `call_site` has for the subject."""
        own = [] if call_site is None or subject not in call_site else [call_site[subject]]
        first = [Candidate(rule, self.label(rule), "call-site map") for rule in own]
        keys = () if target is None else target.lookup_keys
        places = dict.fromkeys([*keys, DEFAULT])
        return [*first, *(c for place in places for c in self.at(place, subject))]

    def subjects(self) -> list[str]:
        """What there are rules for."""
        return list(dict.fromkeys(subject for subject, *_ in self.registry))


def _known_like(place: str) -> str:
    """The target kind or key that an unknown place is probably meant to be, or ""."""
    known = dict.fromkeys(
        [DEFAULT, *KINDS, *(k for kind in KINDS.values() for k in kind.default_keys)]
    )
    return "" if place in known else "".join(get_close_matches(place, known, 1, 0.8))


@dataclass(frozen=True)
class Choice(Generic[R]):
    """What came of asking: a result and whose it is (both None where nobody took it), those who
    were asked before with their reasons, and those who were not asked."""

    result: Any
    winner: Candidate[R] | None
    losers: tuple[tuple[Candidate[R], str], ...]
    not_asked: tuple[Candidate[R], ...]

    def facts(self, reason: str = "", **more: Any) -> dict[str, Any]:
        """For the trace; `reason` where it is another one than who was asked says."""
        why = "first that took it" if self.losers else "first asked"
        return {
            "winner": None if self.winner is None else str(self.winner),
            "losers": [f"{candidate} ({why})" for candidate, why in self.losers],
            "not_asked": [str(candidate) for candidate in self.not_asked],
            **more,
            "reason": reason or ("no rule took it" if self.winner is None else why),
        }


def ask(
    candidates: Sequence[Candidate[R]],
    question: Callable[[Candidate[R]], Any],
    refusal: Callable[[Candidate[R]], str | None] | None = None,
) -> Choice[R]:
    """Ask rules in order until one answers. `refusal` says why a rule need not be asked."""
    losers: list[tuple[Candidate[R], str]] = []
    for k, candidate in enumerate(candidates):
        why = None if refusal is None else refusal(candidate)
        if why is None:
            result = question(candidate)
            if result is not None:
                return Choice(result, candidate, tuple(losers), tuple(candidates[k + 1 :]))
            why = "answered None"
        losers.append((candidate, why))
    return Choice(None, None, tuple(losers), ())
