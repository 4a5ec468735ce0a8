"""What entry points bring, and what is said of those that bring nothing."""

from __future__ import annotations

import types
import warnings
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from loopwright.base import plugins
from loopwright.base.registry import Registry

THINGS: Registry[Any, Any] = Registry("thing of test_plugins")


@pytest.fixture(autouse=True)
def undone() -> Iterator[None]:
    with plugins.PLUGINS.snapshot(), THINGS.snapshot():
        yield


def point(given: Any, name: str = "mine", group: str = "loopwright.legalize") -> Any:
    dist = SimpleNamespace(name="lw_own")
    return SimpleNamespace(
        name=name, group=group, value="lw_own_code:GIVEN", load=lambda: given, dist=dist
    )


def loaded(*points: Any) -> list[plugins.Plugin]:
    return plugins.load_plugins(points)


def brings() -> None:
    THINGS.register("one", 1)
    THINGS.register(("two", "", 7, "llvm"), 2)


def test_a_function_registers() -> None:
    (made,) = loaded(point(brings))
    assert (made.package, made.name, made.error) == ("lw_own", "mine", "")
    assert made.brings == ("thing of test_plugins one", "thing of test_plugins two llvm")
    (other,) = loaded(point(types.ModuleType("lw_own_code"), "other"))
    assert other.brings == () and not other.error  # what another one lists is not told twice
    assert THINGS["one"] == 1


def test_one_that_registers_nothing() -> None:
    (made,) = loaded(point(3, "three"))
    wanted = "LoopwrightError: the entry point three registers nothing\n  got: 3\n  instead: "
    assert made.error.startswith(wanted)
    assert made.brings == ()


def test_broken_ones_are_told_once() -> None:
    loaded(point(3, "first"), point(4, "second"), point(brings))
    with pytest.warns(RuntimeWarning) as seen:
        plugins.warn_of_broken("loopwright.legalize")
    texts = [str(w.message) for w in seen if "lw_own" in str(w.message)]
    assert [t.split(" cannot be used: ")[0] for t in texts] == [
        "the plug-in first of lw_own",
        "the plug-in second of lw_own",
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        plugins.warn_of_broken("loopwright.legalize")
    whole = plugins.broken("loopwright.legalize")
    assert whole.count(" cannot be used: ") == 2 and "; the plug-in second" in whole
    assert plugins.broken("loopwright.legalize", "second").startswith("the plug-in second")
    assert plugins.broken("loopwright.ops") == "" == plugins.broken("loopwright.legalize", "mine")
