"""IRModule: lookup, change in place, copies, and messages."""

from __future__ import annotations

import pytest

from loopwright.ir import (
    DummyGlobalInfo,
    GlobalVar,
    IRModule,
    Target,
    VDevice,
    structural_equal,
)
from loopwright.ir.analysis import collect_call_map
from loopwright.ir.module import ON_CREATE, called_global_vars
from loopwright.ir.node import Node
from loopwright.ir.prim_expr import Call

from .little import Func

pytestmark = pytest.mark.no_roundtrip


def calls(name):
    """A function that calls another by its global variable."""
    return Func([], Call("int32", GlobalVar(name), []))


def test_lookup():
    f, g = Func(body=1), Func(body=2)
    mod = IRModule({"main": f, GlobalVar("other"): g})
    assert mod["main"] is f
    assert mod[GlobalVar("other")] is g
    assert "main" in mod
    assert GlobalVar("other") in mod
    assert "third" not in mod
    assert mod.get("third", 5) == 5
    assert mod.get("main") is f
    assert mod.get_global_var("main").name_hint == "main"
    assert [v.name_hint for v in mod.get_global_vars()] == ["main", "other"]
    assert [v.name_hint for v in mod.functions] == ["main", "other"]


def test_functions_items_are_sorted_by_name():
    mod = IRModule({"b": Func(), "a": Func()})
    assert [v.name_hint for v, _ in mod.functions_items()] == ["a", "b"]
    assert [v.name_hint for v, _ in mod.functions.items()] == ["b", "a"]


def test_unknown_names():
    mod = IRModule({"forward": Func(), "main": Func()})
    with pytest.raises(ValueError) as error:
        mod["foward"]
    assert str(error.value) == (
        "the module has no function of this name\n  got: foward\n  instead: did you mean forward?"
    )
    with pytest.raises(ValueError, match="instead: it has: forward, main"):
        mod.get_global_var("xyz")
    with pytest.raises(ValueError, match="instead: the module is empty"):
        IRModule()["main"]


def test_members_must_be_functions():
    with pytest.raises(TypeError) as error:
        IRModule({"main": 3})
    assert str(error.value) == (
        "function 'main' of a module must be an IR function\n"
        "  got: 3 of type int\n"
        "  instead: decorate it with R.function or T.prim_func, or leave it out of the module"
    )
    with pytest.raises(TypeError, match="keyed by name or GlobalVar"):
        IRModule({3: Func()})
    with pytest.raises(ValueError, match="two functions are named 'f'"):
        IRModule({"f": Func(), GlobalVar("f"): Func()})


def test_update_in_place():
    mod = IRModule({"f": Func(body=1)})
    var = mod.get_global_var("f")
    mod["f"] = Func(body=2)
    assert mod.get_global_var("f") is var
    assert mod["f"].body == 2
    mod["g"] = Func(body=3)
    mod.update({"g": Func(body=4), "h": Func(body=5)})
    mod.update(IRModule({"h": Func(body=6)}))
    assert {v.name_hint: f.body for v, f in mod.functions.items()} == {"f": 2, "g": 4, "h": 6}
    mod.remove("h")
    del mod["g"]
    assert [v.name_hint for v in mod.functions] == ["f"]
    with pytest.raises(ValueError, match="no function of this name"):
        mod.remove("g")


def test_a_function_is_added_once():
    mod = IRModule({"f": Func(body=1)})
    with pytest.raises(ValueError, match="the module has a function f already"):
        mod._add("f", Func(body=2))
    mod._add("f", Func(body=2), update=True)
    assert mod["f"].body == 2


def test_clone_shares_functions_but_not_the_table():
    mod = IRModule({"f": Func()}, global_infos={"a": [DummyGlobalInfo()]})
    copy = mod.clone()
    copy["f"] = Func(body=9)
    copy.global_infos["a"].append(DummyGlobalInfo())
    assert mod["f"].body == 0
    assert len(mod.global_infos["a"]) == 1


def test_with_functions_is_the_same_module_when_nothing_changes():
    f = Func()
    mod = IRModule({"f": f, "g": Func()}, attrs={"k": 1})
    assert mod.with_functions({mod.get_global_var("f"): f}) is mod
    made = mod.with_functions({GlobalVar("f"): Func(body=3), GlobalVar("h"): f}, remove=["g"])
    assert [v.name_hint for v in made.functions] == ["f", "h"]
    assert made["f"].body == 3
    assert made.attrs["k"] == 1
    assert [v.name_hint for v in mod.functions] == ["f", "g"]


def test_attributes():
    mod = IRModule({}, attrs={"a": 1})
    more = mod.with_attr("b", 2).with_attrs({"c": 3})
    assert dict(more.attrs.items()) == {"a": 1, "b": 2, "c": 3}
    assert more.without_attr("a").attrs.keys() == ["b", "c"]
    assert mod.attrs.keys() == ["a"]
    assert more.get_attr("b") == 2
    assert more.get_attr("zzz") is None


def test_global_infos():
    mod = IRModule(global_infos={"vdevice": [VDevice("llvm", 1)]})
    device = mod.global_infos["vdevice"][0]
    assert device.target == Target("llvm")
    assert (device.vdevice_id, device.memory_scope) == (1, "global")
    mod.update_global_info("dummy", [DummyGlobalInfo(), DummyGlobalInfo()])
    assert len(mod.global_infos["dummy"]) == 2
    assert VDevice().target is None
    assert structural_equal(VDevice("llvm"), VDevice({"kind": "llvm"}))
    assert not structural_equal(VDevice("llvm"), VDevice("c"))
    assert not structural_equal(mod, IRModule())


def test_from_expr():
    assert "main" in IRModule.from_expr(Func())
    assert "f" in IRModule.from_expr(Func(attrs={"global_symbol": "f"}), {"g": Func()})
    with pytest.raises(TypeError, match="a module is made of functions"):
        IRModule.from_expr(3)


def test_rename():
    mod = IRModule({"f": Func(attrs={"global_symbol": "f"}), "main": calls("f")})
    made = mod.replace_global_vars({"f": "better"})
    assert sorted(v.name_hint for v in made.functions) == ["better", "main"]
    assert made["better"].attrs["global_symbol"] == "better"
    assert called_global_vars(made["main"]) == {GlobalVar("better")}
    assert "f" in mod
    with pytest.raises(ValueError, match="two functions would be named 'main'"):
        mod.replace_global_vars({"f": "main"})


def test_call_map():
    mod = IRModule({"main": calls("f"), "f": calls("outside"), "g": Func()})
    found = collect_call_map(mod)
    assert {v.name_hint: [c.name_hint for c in called] for v, called in found.items()} == {
        "f": [],
        "g": [],
        "main": ["f"],
    }


def test_global_variables_take_their_functions_struct_info():
    f = Func()
    f.struct_info = "callable"
    mod = IRModule({"f": f})
    assert mod.get_global_var("f").struct_info == "callable"


def test_listeners_hear_of_every_module():
    heard = []
    ON_CREATE.register("heard", heard.append)
    try:
        mod = IRModule()
        copy = mod.clone()
        mod.frozen_copy()
    finally:
        ON_CREATE.remove("heard")
    assert heard == [mod, copy]


def test_module_is_a_node():
    assert isinstance(IRModule(), Node)
    assert isinstance(IRModule({"f": Func()}).script(), str)


def test_text_and_renaming_of_nothing():
    mod = IRModule({"f": Func()})
    assert mod.replace_global_vars({}) is mod
    assert mod.astext() == mod.script(show_meta=True)
    f = mod.get_global_var("f")
    f.struct_info = "callable"
    assert f.checked_type == "callable"
