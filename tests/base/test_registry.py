"""Registries: reads, errors, origins, revisions; the package does not customise itself."""

from __future__ import annotations

import sys
from types import ModuleType

import pytest

from loopwright.base import errors
from loopwright.base.registry import Registry, customised, origin_of, registering, registries


@pytest.fixture
def colours():
    return Registry("colour", add="register_colour", error=LookupError, compiles=True)


def test_entries(colours):
    colours.register("red", 1)
    colours.register("green", 2)
    assert list(colours) == ["red", "green"] and colours["red"] == 1 and colours.get("blue") is None
    assert colours.revision == 2
    colours.remove("red")
    colours.remove("blue")
    assert dict(colours) == {"green": 2} and colours.revision == 3
    assert [(e.key, e.value, e.origin) for e in colours.entries()] == [("green", 2, "")]
    assert any(r is colours for r in registries())


def test_errors(colours):
    colours.register("green", 2, origin="paint")
    with pytest.raises(LookupError) as unknown:
        colours.lookup("grean")
    text = "unknown colour\n  got: grean\n  instead: did you mean green? (register_colour adds one)"
    assert str(unknown.value) == text
    with pytest.raises(LookupError) as taken:
        colours.register("green", 3)
    text = "colour 'green' is registered already\n  got: one of paint\n"
    assert str(taken.value) == text + (
        "  instead: take another name, or pass override=True to replace it"
    )
    assert colours.register("green", 3, override=True) == colours.lookup("green") == 3


def test_only_register_and_remove_change_it(colours):
    colours.register("green", 2)
    for change in (
        lambda: colours.update(red=1),
        lambda: colours.setdefault("red", 1),
        lambda: colours.pop("green"),
        lambda: colours.clear(),
        lambda: colours.__setitem__("red", 1),
        lambda: colours.__delitem__("green"),
    ):
        with pytest.raises(TypeError, match="changed by register and remove only"):
            change()
    assert dict(colours) == {"green": 2}


def test_origins(colours):
    def mine() -> None: ...

    colours.register("function", mine)
    colours.register("number", 1)
    colours.register("given", mine, origin="elsewhere")
    # The package's own function, but its module was imported long ago: somebody else registers it.
    colours.register("borrowed", errors.explain)
    with registering("plugin"):
        colours.register("plugged", mine)
    origins = {e.key: e.origin for e in colours.entries()}
    assert origins == {
        "function": __name__,
        "number": "",
        "given": "elsewhere",
        "borrowed": "",
        "plugged": "plugin",
    }


def test_the_package_registers_while_it_is_imported(colours, monkeypatch):
    module = ModuleType("loopwright.pretended")
    exec("def rule(): ...", module.__dict__)
    module.__spec__ = type("Spec", (), {"_initializing": True})()
    monkeypatch.setitem(sys.modules, module.__name__, module)
    with registering("plugin"):  # which needs the module, and so imports it
        colours.register("rule", module.rule)
    assert colours.origin("rule") == "loopwright.pretended" and not colours.is_customised


def test_customised(colours):
    colours.register("red", 1, origin="loopwright.x")
    assert not colours.is_customised
    colours.register("blue", 1)
    assert colours.is_customised and any(r is colours for r in customised())
    colours.remove("blue")
    assert not colours.is_customised
    colours.register("red", 2, origin="loopwright.y", override=True)
    assert not colours.is_customised
    colours.register("red", 3, override=True)
    assert colours.is_customised
    colours.remove("red")  # what was the package's own is gone all the same
    assert colours.is_customised and any(r is colours for r in customised())
    colours.compiles = False
    assert not any(r is colours for r in customised())


def test_snapshot(colours):
    colours.register("red", 1, origin="loopwright")
    with pytest.raises(KeyError), colours.snapshot():
        colours.register("green", 2)
        colours.register("red", 3, override=True)
        colours.register("blue", 4, origin="loopwright.x")  # which is imported once
        raise KeyError
    assert dict(colours) == {"red": 1, "blue": 4} and not colours.is_customised
    assert colours.revision == 5  # never a number that a cache has seen with other entries


def test_a_function_without_a_module_has_no_origin():
    """As doctest makes them."""

    def convert(model: object) -> None: ...

    convert.__module__ = None
    assert origin_of(convert) == ""
