"""A pytest plugin: targets and `parameters` of tests (`pytest -p loopwright.testing.plugin`)."""

from __future__ import annotations

import pytest

from ...ir.target import Target
from ...runtime import Device, device
from .cases import groups_of
from .marks import enabled_targets, target_marks

MARKS = ("exclude_targets", "known_failing_targets", "mark_parameterizations")


def pytest_configure(config: pytest.Config) -> None:
    """Declare the marks."""
    for name in MARKS:
        config.addinivalue_line("markers", f"{name}: see loopwright.testing")


@pytest.fixture
def dev(target: str) -> Device:
    """The device of a test's target."""
    return device(Target(target).kind.name)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Give a test the targets it may run on, and the sets of its parameters."""
    for group, members in groups_of(metafunc).items():
        values = [tuple(values[index] for index, _ in members) for values in group.sets]
        names = [name for _, name in members]
        metafunc.parametrize(names, values, indirect=True, ids=group.ids)
    if "target" not in metafunc.fixturenames or metafunc._arg2fixturedefs.get("target"):
        return
    definition = metafunc.definition
    if any("target" in _names(mark) for mark in definition.iter_markers("parametrize")):
        return
    excluded = {k for mark in definition.iter_markers("exclude_targets") for k in mark.args}
    failing = {k for mark in definition.iter_markers("known_failing_targets") for k in mark.args}
    values = []
    for target, _ in enabled_targets():
        kind = target.split()[0]
        marks = [pytest.mark.xfail(reason="known to fail", strict=False)] if kind in failing else []
        if kind not in excluded:
            values.append(pytest.param(target, marks=marks))
    metafunc.parametrize("target", values)


def _names(mark: pytest.Mark) -> list[str]:
    names = mark.args[0] if mark.args else mark.kwargs["argnames"]
    return [n.strip() for n in names.split(",")] if isinstance(names, str) else list(names)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests that are skipped or expected to fail by their id, and those of targets
    without a code generator."""
    for item in items:
        target = getattr(getattr(item, "callspec", None), "params", {}).get("target")
        for mark in target_marks(target) if isinstance(target, (str, Target)) else ():
            item.add_marker(mark)
        for mark in item.iter_markers("mark_parameterizations"):
            what, ids, reason = mark.args
            if item.name.partition("[")[2].removesuffix("]") in ids:
                item.add_marker(getattr(pytest.mark, what)(reason=reason))
