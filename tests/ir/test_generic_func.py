"""Functions with versions by the keys of targets, and Python's operators on tensors."""

from __future__ import annotations

import operator

import pytest

from loopwright import relax
from loopwright.ir.target import Target
from loopwright.tvm.generic_func import (
    GenericFunc,
    generic_func,
    get_native_generic_func,
    override_native_generic_func,
)


@generic_func
def place(x):
    """Where it runs."""
    return "anywhere", x


@place.register("cpu")
def _on_a_processor(x):
    return "a processor", x


def test_the_target_chooses():
    assert place(1) == ("anywhere", 1) and place.__doc__ == "Where it runs."
    with Target("llvm"):
        assert place(2) == ("a processor", 2)
    with Target("cuda"):
        assert place(3) == ("anywhere", 3)
    place.register(["cuda", "x"], lambda x: ("a device", x))
    with Target("cuda"):
        assert place(4) == ("a device", 4)
    assert repr(place) == "<generic function place, versions for ['cpu', 'cuda', 'x']>"


def test_a_version_is_given_once():
    with pytest.raises(ValueError, match="cpu"):
        place.register("cpu", lambda x: x)
    place.register("cpu", _on_a_processor, override=True)
    with pytest.raises(ValueError):
        place.set_default(lambda x: x)
    alone = GenericFunc("alone")
    with pytest.raises(RuntimeError, match="alone has no version for this target and no default"):
        alone()
    alone.set_default(lambda: 1)
    assert alone() == 1
    named = get_native_generic_func("test.generic")
    assert get_native_generic_func("test.generic") is named and place.get_packed_func() is place


@pytest.mark.parametrize(
    ("name", "function"),
    {
        "add": operator.add,
        "subtract": operator.sub,
        "multiply": operator.mul,
        "divide": operator.truediv,
        "floor_divide": operator.floordiv,
        "mod": operator.mod,
        "power": operator.pow,
    }.items(),
)
def test_operators(name, function):
    x, y = (relax.Var(n, relax.TensorStructInfo((4,), "float32")) for n in "xy")
    for left, right in ((x, y), (y, x)):
        call = function(left, right)
        assert call.op.name == f"relax.{name}" and list(call.args) == [left, right]
    first, last = function(x, 2.0), function(2.0, x)
    assert (
        first.args[0] is x and last.args[1] is x and first.op.name == last.op.name == call.op.name
    )


@pytest.mark.parametrize(
    ("name", "function"),
    {
        "less": operator.lt,
        "less_equal": operator.le,
        "greater": operator.gt,
        "greater_equal": operator.ge,
    }.items(),
)
def test_comparisons(name, function):
    x, y = (relax.Var(n, relax.TensorStructInfo((4,), "float32")) for n in "xy")
    call = function(x, y)
    assert call.op.name == f"relax.{name}" and list(call.args) == [x, y]


def test_the_default_of_a_function_by_its_name():
    @override_native_generic_func("test.overridden")
    def first(x):
        return "first", x

    assert first is get_native_generic_func("test.overridden") and first(1) == ("first", 1)
    second = override_native_generic_func("test.overridden")(lambda x: ("second", x))
    assert second is first and first(2) == ("second", 2)
    first.register(lambda x: ("cpu", x), ["cpu"])  # the keys second
    with Target("llvm"):
        assert first(3) == ("cpu", 3)
