"""Rules by target: the order in which they are tried, and the trace of it."""

from __future__ import annotations

import pytest

from loopwright.ir.rule_table import DEFAULT, RuleTable, ask
from loopwright.ir.target import KINDS, Target, register_target_kind


@pytest.fixture
def target():
    with KINDS.snapshot():
        register_target_kind("ruled", keys=("first", "second"), parent="llvm")
        yield Target("ruled")


@pytest.fixture
def table():
    table: RuleTable[int] = RuleTable("number", lambda rule: f"number {rule}")
    for place in (DEFAULT, "cpu", "second", "first", "ruled", "elsewhere"):
        table.add(len(place), place, subject="f")
    return table


def test_the_order(table, target):
    order = [str(c) for c in table.candidates(target, "f", {"f": 0, "g": 1})]
    assert order == [
        "call-site map: number 0",
        "target ruled: number 5",
        "target first: number 5",
        "target second: number 6",
        "target cpu: number 3",
        "default: number 7",
    ]
    assert [c.rule for c in table.candidates(None, "f")] == [7]
    assert table.candidates(target, "g") == []
    assert table.subjects() == ["f"]


def test_the_order_of_one_place():
    table: RuleTable[str] = RuleTable("word")
    for word, priority in (("a", 10), ("b", 10), ("c", 11), ("d", 9)):
        table.add(word, Target("llvm"), priority=priority)
    table.add("e", "llvm", last=True)
    assert [c.rule for c in table.at("llvm")] == ["c", "b", "a", "e", "d"]
    table.add("a", "llvm")  # once more: it is the latest now
    assert [c.rule for c in table.at("llvm")] == ["c", "a", "b", "e", "d"]


def test_what_is_told(table, target):
    rules = table.candidates(target, "f")
    choice = ask(rules, lambda c: c.rule if c.rule == 6 else None, lambda c: "odd name")
    assert choice.winner is None and choice.result is None
    assert choice.facts()["reason"] == "no rule took it"
    assert len(choice.losers) == len(rules)
    choice = ask(
        rules,
        lambda c: c.rule if c.rule in (3, 6) else None,
        lambda c: "too long" if c.rule == 6 else None,
    )
    assert choice.result == 3
    assert choice.facts() == {
        "winner": "target cpu: number 3",
        "losers": [
            "target ruled: number 5 (answered None)",
            "target first: number 5 (answered None)",
            "target second: number 6 (too long)",
        ],
        "not_asked": ["default: number 7"],
        "reason": "first that took it",
    }
    assert ask(rules, lambda c: c.rule).facts()["reason"] == "first tried"


def test_rules_are_entries_of_a_registry():
    """So they are known to be somebody's: what is compiled with them is not kept for others."""
    table: RuleTable[object] = RuleTable("thing")
    revision = table.registry.revision
    table.add(print, origin="loopwright.sched")
    assert table.registry.revision > revision and not table.registry.is_customised
    with table.registry.snapshot():
        table.add(test_the_order)
        assert table.registry.is_customised
    assert not table.registry.is_customised and len(table.at(DEFAULT)) == 1
