"""Knobs of the environment."""

from __future__ import annotations

import pytest

from loopwright.base.config import ENVIRONMENT, Knob, declare_pass_option, knob
from loopwright.base.config import PASS_OPTIONS as OPTIONS


def test_defaults(monkeypatch):
    for name, entry in ENVIRONMENT.items():
        monkeypatch.delenv(name, raising=False)
        assert knob(name) == entry.default
        assert isinstance(entry.default, entry.kind)
        assert entry.doc


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("LOOPWRIGHT_NUM_THREADS", "3", 3),
        ("LOOPWRIGHT_NUM_THREADS", "", 0),
        ("LOOPWRIGHT_CACHE", "0", False),
        ("LOOPWRIGHT_CACHE", "off", False),
        ("LOOPWRIGHT_CACHE", "1", True),
        ("LOOPWRIGHT_CACHE_DIR", "/tmp/x", "/tmp/x"),
    ],
)
def test_values(monkeypatch, name, text, value):
    monkeypatch.setenv(name, text)
    assert knob(name) == value


def test_bad_value(monkeypatch):
    monkeypatch.setenv("LOOPWRIGHT_NUM_THREADS", "many")
    with pytest.raises(ValueError) as error:
        knob("LOOPWRIGHT_NUM_THREADS")
    assert str(error.value) == (
        "environment variable LOOPWRIGHT_NUM_THREADS needs a value of type int\n"
        "  got: 'many'\n"
        f"  instead: {ENVIRONMENT['LOOPWRIGHT_NUM_THREADS'].doc}"
    )


def test_declared_options():
    declare_pass_option("test.declared", int, 3, "Three.")
    try:
        assert OPTIONS["test.declared"] == Knob("test.declared", int, 3, "Three.")
    finally:
        OPTIONS.remove("test.declared")
