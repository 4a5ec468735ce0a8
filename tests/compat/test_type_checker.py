"""Functions whose arguments are checked by their annotations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Optional, Union

import pytest

from loopwright.compat.type_checker import type_checked


def one(kind):
    def func(x):
        return x

    func.__annotations__ = {"x": kind}
    return type_checked(func)


FITS = [
    (int, [5, True]),
    (float, [5, 0.5]),
    (list[int], [[5], [], (1, 2)]),
    (dict[str, int], [{"a": 0}, {}]),
    (tuple[str, int], [("x", 5)]),
    (tuple[int, ...], [(), (1, 2, 3)]),
    (Union[str, int], ["x", 5]),  # noqa: UP007
    (Optional[list[str]], [None, ["x"]]),  # noqa: UP045
    (str | None, [None, "x"]),
    (Callable[[int], int], [len, int]),
    (Any, [None, 5]),
    (set[int], [{1, 2}]),
]
MISFITS = [
    (int, "5", "x is not of type int\n  got: '5'"),
    (list[int], None, "x is not of type list"),
    (list[int], [1, "5"], r"x\[1\] is not of type int\n  got: '5'"),
    (dict[str, int], {1: 1}, "x's key 1 is not of type str"),
    (dict[str, int], {"a": "b"}, r"x\['a'\] is not of type int"),
    (tuple[int], [1], r"x is not of type tuple\[int\]"),
    (tuple[int], (1, 2), r"x is not of type tuple\[int\]\n  got: \(1, 2\)"),
    (tuple[str, int], (None, 5), r"x\[0\] is not of type str"),
    (str | int, 0.5, r"x is not of type str \| int"),
    (Callable, 42, "x is not of type .*Callable"),
]


@pytest.mark.parametrize(("kind", "values"), FITS, ids=str)
def test_fits(kind, values):
    for value in values:
        assert one(kind)(value) is value


@pytest.mark.parametrize(("kind", "value", "message"), MISFITS, ids=str)
def test_misfits(kind, value, message):
    with pytest.raises(TypeError, match=message):
        one(kind)(value)


def test_a_method_with_defaults():
    class Thing:
        @type_checked
        def scale(self, by: int, *rest: int, name: str = "x", **more: Any) -> str:
            """Doc."""
            return f"{name}{by}{len(rest)}{len(more)}"

    assert Thing().scale(2, 3, 4, extra=1) == "x221"
    assert Thing.scale.__doc__ == "Doc."
    with pytest.raises(TypeError, match="scale: name is not of type str"):
        Thing().scale(2, name=3)
    with pytest.raises(TypeError, match="missing a required argument: 'by'"):
        Thing().scale()
