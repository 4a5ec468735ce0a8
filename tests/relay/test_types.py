"""Relay's types: extents, which of them are the same, and unification."""

from __future__ import annotations

from typing import Any

import pytest

from loopwright import relay, tir
from loopwright.ir.structural import structural_hash
from loopwright.relay.infer import Mismatch, Unifier, substituted
from loopwright.relay.types import TypeKind, is_dynamic, same_extent, same_type

n, m = tir.Var("n", "int32"), tir.Var("m", "int32")
tensor, pair = relay.TensorType, relay.TupleType
pytestmark = pytest.mark.no_roundtrip


def test_kinds_have_the_numbers_of_tvm() -> None:
    names = ("Type", "ShapeVar", "BaseType", "Constraint", "AdtHandle", "TypeData")
    assert {k.name: k.value for k in TypeKind} == dict(zip(names, (0, 1, 2, 4, 5, 6), strict=True))
    assert relay.ShapeVar("s").kind is TypeKind.ShapeVar
    assert relay.TypeVar("t").kind is relay.IncompleteType().kind is TypeKind.Type


def test_extents() -> None:
    assert tensor(3).concrete_shape == (3,) and tensor((2, 3)).dtype == "float32"
    assert str(tensor((tir.IntImm("int64", 4),)).shape[0].dtype) == "int32"
    for dim in ("3", 1.5):
        with pytest.raises(TypeError, match="an extent is an int, an expression"):
            tensor((dim,))
    for shape in ((relay.Any(),), (n, 2)):
        with pytest.raises(TypeError, match="an extent is not known"):
            _ = tensor(shape).concrete_shape
    assert [is_dynamic(t) for t in (tensor(()), tensor((2, n)), tensor((relay.Any(),)))] == [
        False,
        True,
        True,
    ]
    assert is_dynamic(pair([tensor(2), pair([tensor(n)])])) and not is_dynamic(pair([tensor(2)]))
    assert not is_dynamic(relay.FuncType([tensor(n)], tensor(n)))


@pytest.mark.parametrize(
    ("a", "b", "same"),
    [
        (n * 2, n + n, True),
        (n + 1, 1 + n, True),
        (n + 1, n + 2, False),
        (n, m, False),
        (n * 2, m * 2, False),
    ],
)
def test_extents_that_are_the_same_number(a: Any, b: Any, same: bool) -> None:
    assert same_extent(a, b) is same_type(tensor((3, a)), tensor((3, b))) is same
    if same:
        assert structural_hash(tensor((3, a))) == structural_hash(tensor((3, b)))
    assert not same_type(tensor((3, a)), tensor((a,)))
    assert not same_type(tensor(a), tensor(a, "int8")) and same_type(tensor(a), tensor(a))


def test_one_type_of_two() -> None:
    both = Unifier()
    open_, other = relay.IncompleteType(), relay.IncompleteType()
    assert both.is_open(pair([tensor(2), open_])) and not both.is_open(pair([tensor(2)]))
    assert both.is_open(relay.FuncType([tensor(2)], open_))
    assert both.is_open(relay.FuncType([open_], tensor(2)))
    both.unify(pair([open_, tensor(2)]), pair([other, other]))
    assert str(both.full(relay.FuncType([open_], other))) == str(
        relay.FuncType([tensor(2)], tensor(2))
    )
    assert not both.is_open(open_)
    known = tensor((2, relay.Any(), n))
    assert str(both.unify(known, tensor((2, 5, n)))) == str(known)
    assert str(both.unify(tensor((2, 5, n)), known)) == str(known)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (tensor(2), tensor(3)),
        (tensor(2), tensor(2, "int8")),
        (tensor(2), tensor((2, 1))),
        (tensor(2), pair([tensor(2)])),
        (pair([tensor(2)]), pair([tensor(2), tensor(2)])),
        (relay.FuncType([], tensor(2)), relay.FuncType([tensor(2)], tensor(2))),
        (relay.FuncType([], tensor(2)), relay.FuncType([], tensor(3))),
        (relay.TypeVar("a"), relay.TypeVar("a")),
    ],
)
def test_types_that_cannot_be_one(a: Any, b: Any) -> None:
    for x, y in ((a, b), (b, a)):
        with pytest.raises(Mismatch, match="are not the same"):
            Unifier().unify(x, y)


@pytest.mark.parametrize(
    "around",
    [
        lambda t: pair([tensor(2), t]),
        lambda t: relay.FuncType([t], tensor(2)),
        lambda t: relay.FuncType([], pair([t])),
    ],
)
def test_a_type_cannot_contain_itself(around: Any) -> None:
    open_ = relay.IncompleteType()
    for a, b in ((open_, around(open_)), (around(open_), open_)):
        with pytest.raises(Mismatch, match="would contain itself"):
            Unifier().unify(a, b)


def test_generic_functions_are_of_all_types() -> None:
    t = relay.TypeVar("t")
    twice = relay.FuncType([t], pair([t, t]), [t])
    both = Unifier()
    found = both.unify(twice, relay.FuncType([tensor(2)], relay.IncompleteType()))
    assert str(both.full(found)) == str(relay.FuncType([tensor(2)], pair([tensor(2), tensor(2)])))
    plain = relay.FuncType([tensor(2)], tensor(2))
    assert both.instance(plain) == (plain, [])
    made = substituted(relay.FuncType([t], pair([t])), {id(t): tensor(3)})
    assert str(made) == str(relay.FuncType([tensor(3)], pair([tensor(3)])))
