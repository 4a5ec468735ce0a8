"""Parameters of tests as variables of a module or class, for pytest.

`parameters` needs the plugin: `pytest -p loopwright.testing.plugin`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest


def parameter(
    *values: int | Callable[..., Any],
    ids: Sequence[str] | None = None,
    by_dict: dict[str, Any] | None = None,
) -> Any:
    """A fixture, called as the variable it is assigned to, that takes each of the values:

    size = parameter(1, 7)
    def test(size): ...
    """
    if by_dict is not None:
        if values or ids:
            raise ValueError("parameter takes values, or by_dict={id: value}, not both")
        ids, values = list(by_dict), tuple(by_dict.values())

    def value(*_instance: Any, request: pytest.FixtureRequest) -> Any:
        return request.param

    names = ids or [getattr(v, "__name__", None) or str(v) for v in values]
    return pytest.fixture(params=list(values), ids=names)(value)


class Together:
    """Values that several fixtures take together: one set a test."""

    def __init__(self, sets: Sequence[Sequence[Any]], ids: Sequence[str] | None) -> None:
        self.sets = sets
        self.ids = ids or [f"set{k}" for k in range(len(sets))]


def parameters(*value_sets: Sequence[Any], ids: Sequence[str] | None = None) -> list[Any]:
    """Fixtures that take the values of one set together:

    size, dtype = parameters((1, "int8"), (7, "float32"))
    """
    if len({len(values) for values in value_sets}) != 1:
        raise ValueError(
            "parameters takes sets of one length\n  got: "
            + ", ".join(str(len(values)) for values in value_sets)
        )
    group = Together(value_sets, ids)

    def make(index: int) -> Any:
        def value(*_instance: Any, request: pytest.FixtureRequest) -> Any:
            return request.param

        value.__dict__["together"] = (group, index)
        return pytest.fixture(value)

    return [make(index) for index in range(len(value_sets[0]))]


def groups_of(metafunc: pytest.Metafunc) -> dict[Together, list[tuple[int, str]]]:
    """{group: (place, fixture)} of the fixtures that a test takes from `parameters`."""
    groups: dict[Together, list[tuple[int, str]]] = {}
    for name, definitions in metafunc._arg2fixturedefs.items():
        function = getattr(definitions[-1].func, "__func__", definitions[-1].func)
        if "together" in getattr(function, "__dict__", {}):
            group, index = function.__dict__["together"]
            groups.setdefault(group, []).append((index, name))
    return groups


def fixture(func: Callable[..., Any] | None = None, *, cache_return_value: bool = False) -> Any:
    """A fixture. `cache_return_value` has no effect: each test has its own value."""
    return pytest.fixture if func is None else pytest.fixture(func)


def skip_parameterizations(*params: str, reason: str) -> Any:
    """A test skipped with the parameters of these ids, as in test[id]."""
    return pytest.mark.mark_parameterizations("skip", params, reason)


def xfail_parameterizations(*params: str, reason: str) -> Any:
    """A test expected to fail with the parameters of these ids, as in test[id]."""
    return pytest.mark.mark_parameterizations("xfail", params, reason)
