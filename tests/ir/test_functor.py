"""Visiting and rewriting from the field table."""

from __future__ import annotations

from loopwright.ir.functor import (
    Rewriter,
    Visitor,
    any_node,
    post_order_visit,
    pre_order_visit,
    rewrite,
)
from loopwright.ir.node import Node
from loopwright.ir.prim_expr import Add, IntImm, Mul, PrimExpr, Var
from loopwright.ir.prim_op import const

from .little import Loop


class Tree(Node):
    items: list
    table: dict


def test_visitor_dispatches_on_the_class_and_its_bases():
    seen = []

    class Seen(Visitor):
        def visit_Add(self, node):
            seen.append("Add")
            self.visit_default(node)

        def visit_PrimExpr(self, node):
            seen.append(type(node).__name__)

    x = Var("x")
    Seen().visit(Tree([x + 1], {"k": x * 2}))
    assert seen == ["Add", "Var", "IntImm", "Mul"]


def test_a_subclass_has_its_own_dispatch():
    class Base(Visitor):
        def visit_Var(self, node):
            self.result = "base"

    class Derived(Base):
        def visit_Var(self, node):
            self.result = "derived"

    base, derived = Base(), Derived()
    base.visit(Var("x"))
    derived.visit(Var("x"))
    assert (base.result, derived.result) == ("base", "derived")


def test_all_parts_of_a_node_go_through_a_class_s_own_visit():
    class Doubled(Rewriter):
        def visit(self, node):
            if isinstance(node, IntImm):
                return const(2 * node.value)
            return super().visit(node)

    made = Doubled().visit(Tree([const(1) + Var("x"), const(3)], {"k": const(4)}))
    assert str(made.items[0]) == "2 + x"
    assert [made.items[1].value, made.table["k"].value] == [6, 8]


def test_rewriter_keeps_what_does_not_change():
    x, y = Var("x"), Var("y")

    class Swap(Rewriter):
        def visit_Var(self, node):
            return y if node is x else node

    tree = Tree([x + 1, const(5) * y], {"a": (y,), "b": [x]})
    made = Swap().visit(tree)
    assert made is not tree
    assert made.items[0].a is y
    assert made.items[1] is tree.items[1]
    assert made.table["a"] is tree.table["a"]
    assert made.table["b"] == [y]
    assert Swap().visit(made) is made


def test_rewritten_nodes_keep_their_span():
    from loopwright.base.span import Span

    x, span = Var("x"), Span("a.py", 1, 1, 1, 2)
    made = rewrite(Add(x, 1, span), {IntImm: lambda n: const(2)})
    assert made.span is span


def test_rewrite_post_gets_rebuilt_nodes():
    x = Var("x")
    made = rewrite(
        (x + 1) * 3, {IntImm: lambda n: const(n.value + 1), Add: lambda n: Mul(n.a, n.b)}
    )
    assert isinstance(made, Mul)
    assert isinstance(made.a, Mul)
    assert (made.a.b.value, made.b.value) == (2, 4)


def test_rewrite_pre_stops():
    x = Var("x")
    made = rewrite((x + 1) * 3, None, pre=lambda n: x if isinstance(n, Add) else None)
    assert made.a is x


def test_rewrite_shared_nodes_once():
    x = Var("x")
    shared, count = x + 1, []

    def post(node):
        if isinstance(node, Add):
            count.append(node)

    made = rewrite(Tree([shared, shared], {}), post)
    assert made.items == [shared, shared]
    assert len(count) == 1
    twice = rewrite(Tree([shared, shared], {}), {IntImm: lambda n: const(7)})
    assert twice.items[0] is twice.items[1]


def test_orders():
    x = Var("x")
    loop = Loop(x, const(4), x + 1)
    post, pre = [], []
    post_order_visit(loop, lambda n: post.append(type(n).__name__))
    pre_order_visit(loop, lambda n: pre.append(type(n).__name__))
    assert post == ["Var", "IntImm", "IntImm", "Add", "Loop"]
    assert pre == ["Loop", "Var", "IntImm", "Add", "IntImm"]
    top = []
    pre_order_visit(loop, lambda n: top.append(n) or not isinstance(n, PrimExpr))
    assert [type(n).__name__ for n in top] == ["Loop", "Var", "IntImm", "Add"]


def test_deep_containers_and_shared_literals():
    x, y = Var("x"), Var("y")
    tree = Tree([[(x, [x])], 3, None, "x"], {x: {"k": (x,)}})
    made = rewrite(tree, {Var: lambda v: y if v is x else v})
    assert made.items[0] == [(y, [y])]
    assert made.items[1:] == [3, None, "x"]
    assert list(made.table) == [y]
    assert made.table[y] == {"k": (y,)}


def test_fields_that_hold_no_node_are_passed_by():
    class Mixed(Node):
        name: str
        size: int
        inner: object
        maybe: int | None

    assert [f.name for f in Mixed.__fields__ if f.plain] == ["name", "size"]
    x, y = Var("x"), Var("y")
    made = rewrite(Mixed("n", 3, x, None), {Var: lambda v: y})
    assert (made.name, made.size, made.inner, made.maybe) == ("n", 3, y, None)


def test_any_node_asks_no_more_once_one_holds():
    x, asked = Var("x"), []
    tree = Tree([x + 1, x * 2, x * 3], {})
    assert any_node(tree, lambda n: asked.append(n) or isinstance(n, Add))
    assert asked == [tree, tree.items[0]]
    assert not any_node(tree, lambda n: n is x, skip=(Add, Mul))
