"""Rules chosen by target, and the one order in which they are tried:

    call-site map -> the target's kind -> its keys in order -> default

    RULES: RuleTable[Rule] = RuleTable("schedule rule")
    RULES.add(tiled, "avx512", name="tiled")
    choice = ask(RULES.candidates(target), lambda candidate: candidate.rule(func))
    choice.result, choice.winner, choice.losers

Legalizations, schedules, patterns of back ends and pipelines by name are such tables. A rule that
answers None says "not mine", and the next is tried. A `Choice` is for the trace: the rule that won,
those tried before and why they did not match, those not tried.
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

DEFAULT = "default"  # the key that is looked up last, under every target
R = TypeVar("R")
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Candidate(Generic[R]):
    """A rule, its name, and its key in the order: "call-site map", "target llvm", "default"."""

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
        # (subject, key, rank) -> candidate; those of lower rank are tried first.
        self.registry: Registry[tuple[str, str, int], Candidate[R]] = Registry(what, compiles=True)
        self._ordered: dict[tuple[str, str], tuple[Candidate[R], ...]] = {}
        self._revision, self._count = 0, 0

    def add(
        self, rule: R, key: Target | str = DEFAULT, *, name: str = "", subject: str = "",
        priority: int = 10, last: bool = False, origin: str | None = None,
    ) -> None:  # fmt: skip
        """Add a rule before those of its key that have no higher priority; with `last` behind
        those that have no lower one. `origin` says who adds it (`base.registry`)."""
        key = key.kind_name if isinstance(key, Target) else str(key)
        close = _known_like(key)
        if close:  # no error: the kind may be registered after its rules
            what = f"a {self.registry.name} for a target that is not known yet"
            _log.warning(explain(what, got=key, instead=f"did you mean {close}?"))
        shown = DEFAULT if key == DEFAULT else f"target {key}"
        candidate = Candidate(rule, name or self.label(rule), shown, priority)
        for pair, entry in list(self.registry.items()):
            if entry.rule is rule and pair[:2] == (subject, key):
                self.registry.remove(pair)  # it is the latest now
        self._count += 1
        entry_key = (subject, key, self._count if last else -self._count)
        self.registry.register(
            entry_key, candidate, origin=origin_of(rule) if origin is None else origin
        )

    def at(self, key: str, subject: str = "") -> tuple[Candidate[R], ...]:
        """The rules of one key."""
        if self._revision != self.registry.revision:
            groups: dict[tuple[str, str], list[Candidate[R]]] = {}
            for entry in sorted(self.registry, key=lambda entry: entry[2]):
                groups.setdefault(entry[:2], []).append(self.registry[entry])
            self._ordered = {
                pair: tuple(sorted(group, key=lambda c: -c.priority))
                for pair, group in groups.items()
            }
            self._revision = self.registry.revision
        return self._ordered.get((subject, key), ())

    def candidates(
        self, target: Target | None, subject: str = "", call_site: Mapping[str, R] | None = None
    ) -> list[Candidate[R]]:
        """The rules for a target, in the order in which they are tried; first the one that
        `call_site` has for the subject."""
        own = [] if call_site is None or subject not in call_site else [call_site[subject]]
        first = [Candidate(rule, self.label(rule), "call-site map") for rule in own]
        keys = () if target is None else target.lookup_keys
        ordered = dict.fromkeys([*keys, DEFAULT])
        return [*first, *(c for key in ordered for c in self.at(key, subject))]

    def subjects(self) -> list[str]:
        """The subjects that have rules."""
        return list(dict.fromkeys(subject for subject, *_ in self.registry))


def _known_like(name: str) -> str:
    """The target kind or key that an unknown name is probably meant to be, or ""."""
    names = dict.fromkeys(
        [DEFAULT, *KINDS, *(k for kind in KINDS.values() for k in kind.default_keys)]
    )
    return "" if name in names else "".join(get_close_matches(name, names, 1, 0.8))


@dataclass(frozen=True)
class Choice(Generic[R]):
    """The outcome of a choice: a result and the rule that returned it (both None if no rule
    matched), the rules that were tried before with their reasons, and those that were not tried."""

    result: Any
    winner: Candidate[R] | None
    losers: tuple[tuple[Candidate[R], str], ...]
    not_asked: tuple[Candidate[R], ...]

    def facts(self, reason: str = "", **more: str | None) -> dict[str, Any]:
        """For the trace; `reason` where it differs from the one that the order implies."""
        why = "first that took it" if self.losers else "first tried"
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
    """Try rules in order until one answers. `refusal` says why a rule need not be tried."""
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
