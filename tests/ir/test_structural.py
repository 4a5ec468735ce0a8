"""Structural equality and hash: alpha-equivalence, and where the first difference is."""

from __future__ import annotations

import math

import numpy as np
import pytest

from loopwright.ir import IRModule, StructuralKey
from loopwright.ir.node import Node, define
from loopwright.ir.prim_expr import IntImm, SizeVar, Var
from loopwright.ir.prim_op import const
from loopwright.ir.structural import (
    assert_structural_equal,
    first_mismatch,
    structural_equal,
    structural_hash,
)
from loopwright.ir.target import Target

from .little import Func, Loop

pytestmark = pytest.mark.no_roundtrip


class Box(Node):
    value: object


class Keyed(Node):
    vars: tuple = define()
    table: dict = define()


def path_of(a, b, **options):
    found = first_mismatch(a, b, **options)
    return found and found[0]


def loop(name="i", extent=8, dtype="int32", comment="", body=None):
    i = Var(name, dtype)
    return Loop(i, const(extent), i * 2 + 1 if body is None else body(i), comment)


def test_bound_variables_may_have_other_names():
    a, b = loop("i"), loop("j", comment="said")
    assert structural_equal(a, b)
    assert structural_hash(a) == structural_hash(b)


def test_types_of_variables_count():
    assert path_of(loop(dtype="int32"), loop(dtype="int64")) == "<root>.var.dtype"


def test_bound_variables_are_matched_one_to_one_both_ways():
    def nest(pick):
        i, j = Var("i"), Var("j")
        return Loop(i, const(4), Loop(j, const(4), pick(i, j)))

    first, second, both = (
        nest(lambda i, j: i + i),
        nest(lambda i, j: i + j),
        nest(lambda i, j: j + i),
    )
    assert path_of(first, second) == "<root>.body.body.b"
    assert path_of(second, first) == "<root>.body.body.b"
    assert path_of(second, both) == "<root>.body.body.a"
    assert structural_hash(first) != structural_hash(second) != structural_hash(both)


def test_one_variable_cannot_stand_for_two():
    def pair(same_var):
        i, j = Var("i"), Var("j")
        return [Loop(i, const(4), i), Loop(i if same_var else j, const(4), i if same_var else j)]

    assert path_of(pair(True), pair(False)) == "<root>[1].var"
    assert path_of(pair(False), pair(True)) == "<root>[1].var"


def test_functions_are_scopes():
    i, j = Var("i"), Var("j")
    shared = [Func([i], i + 1), Func([i], i + 2)]
    apart = [Func([i], i + 1), Func([j], j + 2)]
    assert structural_equal(shared, apart)
    assert structural_equal(apart, shared)
    assert structural_hash(shared) == structural_hash(apart)


def test_free_variables_are_themselves():
    x, y = Var("x"), Var("y")
    assert structural_equal(x + 1, x + 1)
    assert path_of(x + 1, y + 1) == "<root>.a"
    assert structural_equal(x + 1, y + 1, map_free_vars=True)
    assert structural_hash(x + 1, map_free_vars=True) == structural_hash(y + 1, map_free_vars=True)
    assert path_of(x + y, x + x, map_free_vars=True) == "<root>.b"
    assert path_of(x + x, x + y, map_free_vars=True) == "<root>.b"
    assert path_of(Var("n"), SizeVar("n"), map_free_vars=True) == "<root>"


def test_a_bound_variable_is_not_a_free_one():
    x = Var("x")
    closed, free = Loop(x, const(4), x), Loop(Var("i"), const(4), x)
    assert path_of(closed, free) == "<root>.body"
    assert path_of(free, closed) == "<root>.body"


@pytest.mark.parametrize(
    ("a", "b", "equal"),
    [
        (1, True, True),
        (1, IntImm("int32", 1), True),
        (IntImm("int64", 1), IntImm("int32", 1), False),
        (1, 1.0, False),
        (0.0, -0.0, False),
        (math.nan, math.nan, True),
        (math.nan, -math.nan, True),  # a number that is none has no sign
        ("a", "b", False),
        (None, 0, False),
        ([1, 2], (1, 2), True),
        ([1], [1, 2], False),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}, True),
        ({"a": 1}, {"a": 1, "b": 2}, False),
        (np.ones(2), np.ones(2), True),
        (np.ones(2), np.ones(2, "float32"), False),
        (np.array([np.nan]), np.array([np.nan]), True),
        (np.ones((1, 2)), np.ones((2, 1)), False),
    ],
)
def test_plain_values(a, b, equal):
    assert structural_equal(Box(a), Box(b)) is equal
    assert structural_equal(Box(b), Box(a)) is equal
    if equal:
        assert structural_hash(Box(a)) == structural_hash(Box(b))


def test_attributes_that_are_literals_of_any_integer_type_are_alike():
    a, b = Func(attrs={"k": IntImm("int64", 1)}), Func(attrs={"k": IntImm("bool", 1)})
    assert structural_equal(a, b)
    assert structural_hash(a) == structural_hash(b)
    assert path_of(a, Func(attrs={"k": 2})) == '<root>.attrs["k"]'


def test_attributes_that_are_nodes_are_compared():
    a, same, b = (Func(attrs={"target": Target(t)}) for t in ("c", "c", "llvm"))
    assert structural_equal(a, same) and structural_hash(a) == structural_hash(same)
    assert path_of(a, b).startswith('<root>.attrs["target"]')
    assert structural_hash(a) != structural_hash(b)


def test_dicts_keyed_by_bound_variables_are_unordered():
    def keyed(flip):
        a, b = Var("a"), Var("b")
        table = {b: "y", a: "x"} if flip else {a: "x", b: "y"}
        return Keyed((a, b), table)

    assert structural_equal(keyed(False), keyed(True))
    assert structural_hash(keyed(False)) == structural_hash(keyed(True))
    a, b = Var("a"), Var("b")
    assert path_of(keyed(False), Keyed((a, b), {a: "y", b: "x"})).startswith("<root>.table[")


def test_the_error_says_where_and_what():
    with pytest.raises(ValueError) as error:
        assert_structural_equal(Func([], Box(3)), Func([], Box(4)))
    assert str(error.value) == (
        "StructuralEqual check failed at <root>.body.value: different values\n"
        "  got: left:  3\n"
        "       right: 4"
    )
    with pytest.raises(ValueError, match=r"at <root>\.value\[1\]: 1 items against 2"):
        assert_structural_equal(Box([1]), Box([1, 2]))


def test_modules_by_function_name():
    f, g = Func([], 1), Func([], 2)
    assert structural_equal(IRModule({"f": f, "g": g}), IRModule({"g": g, "f": f}))
    assert path_of(IRModule({"main": f}), IRModule({"main": g})) == '<root>.functions["main"].body'
    assert path_of(IRModule({"f": f}), IRModule({"g": f})) == '<root>.functions["f"]'
    assert path_of(IRModule({"f": f}, {"a": 1}), IRModule({"f": f})) == '<root>.attrs["a"]'
    assert structural_hash(IRModule({"f": f, "g": g})) == structural_hash(
        IRModule({"g": g, "f": f})
    )


def test_keys_of_dicts():
    table = {StructuralKey(loop("i")): "first"}
    assert table[StructuralKey(loop("j"))] == "first"
    assert StructuralKey(loop(extent=9)) not in table


def test_dicts_keyed_by_nodes_that_nothing_binds():
    one, two = (Box({Var("a"): 1}), Box({Var("b"): 1}))
    assert structural_equal(one, two, map_free_vars=True) and not structural_equal(one, two)
    x, y = Var("x"), Var("y")
    assert path_of(Box({x: 1, y: 2}), Box({x: 1})) == "<root>.value"
    assert structural_equal(Box({x: 1, y: 2}), Box({y: 2, x: 1}))
    assert path_of(Box({x: 1}), Box({y: 1})) == "<root>.value.key"
    assert path_of(Box({x: 1}), Box({x: 2})) == "<root>.value[x]"


def test_long_values_are_cut_in_messages():
    for length, shown in ((1000, "a" * 1000), (1001, "a" * 1000 + " ... (1001 characters)")):
        with pytest.raises(ValueError) as error:
            assert_structural_equal(Box("a" * length), Box("b"))
        assert str(error.value).splitlines()[1] == f"  got: left:  {shown}"
