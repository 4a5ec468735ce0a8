"""What the work on a model's file may cost."""

from __future__ import annotations

import pytest

from loopwright.base import budget
from loopwright.base.budget import BudgetError, allow, allow_lowering, check, room, spend, started
from loopwright.base.names import free_name
from loopwright.base.progress import heard_by, step
from loopwright.base.span import Span


@pytest.fixture
def clock(monkeypatch):
    """A clock of the thread that the test sets."""
    now = [0.0]
    monkeypatch.setattr(budget.time, "thread_time", lambda: now[0])
    monkeypatch.setattr(budget.time, "monotonic", lambda: now[0])
    for name, value in (("NODES", "10"), ("MB", "1"), ("SECONDS", "2")):
        monkeypatch.setenv(f"LOOPWRIGHT_BUDGET_{name}", value)
    return now


def test_nodes(clock):
    with started():
        spend(nodes=10)
        with pytest.raises(BudgetError, match="more nodes.*\n  got: 11 where 10 are allowed"):
            spend(nodes=1)
    with started():
        allow(size=4096)  # a node more
        spend(nodes=11)
        with pytest.raises(BudgetError, match="got: 12 where 11"):
            spend(nodes=1, at=Span("onnx:/a"))


def test_bytes(clock):
    with started():
        spend(size=1 << 20)
        with pytest.raises(BudgetError, match="MiB of constants.*\n  got: 2 where 1 are allowed"):
            spend(size=1)
    with started():
        assert room(1 << 19) and room(1 << 19) and not room(1)
        allow(size=1)
        assert room(16) and not room(1)
        with pytest.raises(BudgetError):
            spend(size=1)


def test_seconds(clock):
    with started():
        clock[0] = 2.0
        check()
        clock[0] = 2.009  # too soon to look again
        check()
        clock[0] = 2.02
        with pytest.raises(BudgetError, match="got: 2.0 where 2.0 are allowed(?s:.)*pass Fold"):
            check("Fold")
    with started():
        allow(nodes=400, size=20 << 20)  # two seconds, and one
        clock[0] += 5.0
        spend()
        clock[0] += 0.1
        with pytest.raises(BudgetError, match="got: 5.1 where 5.0"):
            spend()
        allow_lowering()
        allow_lowering()  # once
        clock[0] += 199.9
        check()
        clock[0] += 0.1
        with pytest.raises(BudgetError, match="got: 205.1 where 205.0"):
            check()


def test_inner_work_counts_for_the_outer(clock):
    with started():
        spend(nodes=9)
        with started():
            spend(nodes=1)
        with pytest.raises(BudgetError):
            spend(nodes=1)
    spend(nodes=10**9, size=10**12)  # nothing is counted
    check()
    assert room(10**12)


@pytest.mark.parametrize("name", ["NODES", "MB", "SECONDS"])
def test_no_bound(name, clock, monkeypatch):
    monkeypatch.setenv(f"LOOPWRIGHT_BUDGET_{name}", "0")
    with started():
        work = {"NODES": {"nodes": 10**9}, "MB": {"size": 10**12}, "SECONDS": {}}[name]
        clock[0] += 1e9 * (name == "SECONDS")
        spend(**work)


def test_free_names():
    assert free_name("add", ()) == "add" and free_name("add", {"add"}) == "add_1"
    assert free_name("add", {"add", "add_1", "add_3"}) == "add_2"
    assert free_name("add", {"add"}, ".") == "add.1"


def test_steps_are_told():
    inner, outer = [], []
    with step("pass", "unheard"):
        pass
    with heard_by(outer.append):
        with step("pass", "a", 2, 5):
            pass
        with step("object", "b", to=inner.append):
            pass
        with pytest.raises(ValueError), step("pass", "fails"):
            raise ValueError
    told = [(s.kind, s.name, s.number, s.total, s.seconds is None) for s in outer]
    assert told == [
        ("pass", "a", 2, 5, True),
        ("pass", "a", 2, 5, False),
        ("pass", "fails", 0, 1, True),
    ]
    assert [(s.name, s.number, s.total) for s in inner] == [("b", 0, 1)] * 2
    assert 0 <= outer[1].seconds < 60
