"""Slots and late names: filled when first asked for, and not in the middle of an import."""

from __future__ import annotations

import sys
from types import ModuleType

import pytest

from loopwright import composition, relax, tir
from loopwright.base.late import Slot, Unready


@pytest.fixture
def module(monkeypatch):
    """A module of the package that is being imported: `loopwright.pretended`."""
    module = ModuleType("loopwright.pretended")
    module.__spec__ = type("Spec", (), {"_initializing": True})()
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setitem(composition.SLOTS, "test.pretended", "pretended:thing")
    return module


def test_a_slot_is_filled_when_it_is_asked_for(module):
    slot: Slot[object] = Slot("test.pretended")
    assert slot.find() is None
    with pytest.raises(Unready, match="pretended:thing"):
        slot.get()
    module.thing = object()
    assert slot.get() is slot.find() is module.thing
    del module.thing
    assert slot.get() is not None  # it stays


def test_a_mistake_in_the_table_is_told(module):
    module.__spec__ = None
    with pytest.raises(AttributeError, match="has no attribute 'thing'"):
        Slot("test.pretended").find()
    with pytest.raises(KeyError, match="nothing"):
        Slot("test.nothing").get()


def test_late_names():
    assert relax.build is sys.modules["loopwright.driver.steps"].relax_build
    assert tir.build is sys.modules["loopwright.driver"].compile
    assert relax.expr is sys.modules["loopwright.relax.expr"]
    with pytest.raises(AttributeError, match=r"module 'relax' has no attribute 'biuld'"):
        _ = relax.biuld
    assert not hasattr(relax, "__wrapped__")


OFFERED = {
    "": "compile",
    "relax": "build",
    "tir": "PrimFunc",
    "te": "compute",
    "topi": "add",
    "ir.target": "Target",
    "ir.transform": "PassContext",
    "ir.instrument": "DumpIR",
    "runtime": "load_module",
    "driver": "compile",
    "backend": "TargetBackend",
    "relax.op": "add",
    "script": "from_source",
    "script.tir": "exp",
    "script.ir": "ir_module",
    "testing": "assert_allclose",
}


@pytest.mark.parametrize("path", OFFERED)
def test_dir_shows_what_a_module_offers(path):
    module = composition.find_module(path)
    shown = [name for name in dir(module) if not name.startswith("__")]
    assert OFFERED[path] in shown
    assert [name for name in shown if name.startswith("_")] == []
    for name in shown:
        value = getattr(module, name)
        home = value.__name__ if isinstance(value, ModuleType) else type(value).__module__
        if isinstance(value, type) or hasattr(value, "__globals__"):
            home = value.__module__
        assert not home.startswith(("typing", "__future__", "collections")), name
        if isinstance(value, ModuleType):
            assert home.startswith("loopwright."), name
