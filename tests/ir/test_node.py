"""Field tables, constructors, copies."""

from __future__ import annotations

import pytest

from loopwright.base.span import Span
from loopwright.ir.node import Node, define, field, ignore, same
from loopwright.ir.prim_expr import Add, Var
from loopwright.ir.prim_op import const

from .little import Func, Loop


class Plain(Node):
    name: str
    items: list = field(default_factory=list)
    level: int = field(default=3)


class Child(Plain):
    extra: str = ignore(default="x")


class Needs(Plain):
    must: int


def test_fields_have_roles_in_declared_order():
    assert [(f.name, f.role) for f in Loop.__fields__] == [
        ("var", "def"),
        ("extent", "use"),
        ("body", "use"),
        ("comment", "ignore"),
    ]


def test_a_class_knows_itself_and_the_classes_below_it():
    assert Plain.__kinds__ == {Plain, Child, Needs}
    assert Child.__kinds__ == {Child}
    assert Node.__kinds__ >= {Plain, Child, Needs, Add}


def test_constructor_takes_positions_names_and_defaults():
    node = Plain("a", level=4)
    assert (node.name, node.items, node.level, node.span) == ("a", [], 4, None)
    assert Plain("a").items is not Plain("a").items
    assert Child("a", [1], 2, "y").extra == "y"


def test_a_required_field_after_an_inherited_default_is_required():
    assert Needs("a", must=1).must == 1
    with pytest.raises(TypeError, match="Needs needs a value for must"):
        Needs("a")


def test_slots_take_no_unknown_attribute():
    with pytest.raises(AttributeError):
        Plain("a").nmae = "b"


def test_users_node_classes_have_a_key():
    assert Plain.node_key.endswith("test_node.Plain")
    assert Add.node_key == "ir.Add"


def test_replace_keeps_the_object_when_nothing_changes():
    node = Plain("a")
    assert node.replace(name="a") is node
    other = node.replace(level=9)
    assert (other.name, other.level) == ("a", 9)
    assert other.items is node.items


def test_replace_names_the_fields():
    with pytest.raises(TypeError) as error:
        Plain("a").replace(nmae="b")
    assert str(error.value) == "Plain has no field ['nmae']; it has ['name', 'items', 'level']"


def test_with_span():
    node = Plain("a")
    span = Span("f.py", 3, 3, 1, 2)
    assert node.with_span(None) is node
    assert node.with_span(span).span is span
    assert node.with_span(span).with_span(span).span is span


def test_children_looks_through_containers():
    x, y = Var("x"), Var("y")
    assert [c is x or c is y for c in Plain("a", [x, (y, {"k": x})]).children()] == [True] * 3


def test_identity():
    x = Var("x")
    assert same(x, x)
    assert not same(x, Var("x"))
    assert x.same_as(x)
    assert Plain("a") != Plain("a")


def test_function_attributes_are_copied():
    f = Func(attrs={"a": 1})
    g = f.with_attr("b", 2)
    assert (dict(f.attrs.items()), dict(g.attrs.items())) == ({"a": 1}, {"a": 1, "b": 2})
    assert dict(g.with_attrs({"c": 3}).attrs.items()) == {"a": 1, "b": 2, "c": 3}
    assert dict(g.with_attr({"a": 5}).attrs.items()) == {"a": 5, "b": 2}
    assert g.without_attr("a").attrs.keys() == ["b"]
    assert g.without_attr("zzz") is g
    f.struct_info = "known"
    assert f.with_attr("b", 2).struct_info == "known"


def test_attrs_name_what_they_have():
    attrs = Func(attrs={"a": 1, "b": 2}).attrs
    assert attrs.a == 1
    assert attrs["b"] == 2
    assert attrs.get("c", 7) == 7
    assert "c" not in attrs
    assert len(attrs) == 2
    with pytest.raises(AttributeError) as error:
        _ = attrs.c
    assert str(error.value) == "DictAttrs has no attribute 'c'; it has: a, b"


def test_make_does_not_convert():
    one = const(1)
    assert Add._make(one, one).a is one


def test_define_with_default():
    class WithDefault(Node):
        vars: tuple = define(default=())

    assert WithDefault().vars == ()


def test_texts_of_nodes_and_fields():
    assert [repr(f) for f in Loop.__fields__[::3]] == [
        "Field('var', 'def')",
        "Field('comment', 'ignore')",
    ]
    made = Plain("<a>", [1])
    assert made._plain_repr() == "Plain(name='<a>', items=[1], level=3)"
    html = made._repr_html_()
    assert html.startswith("<pre>") and html.endswith("</pre>") and "&lt;a&gt;" in html
