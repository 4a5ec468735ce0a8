"""Patterns of Relay: what matches, what a match becomes, and what is refused."""

import random
from typing import Any

import pytest

import loopwright as lw
from loopwright import relay
from loopwright.ir import assert_structural_equal
from loopwright.relax import dpl
from loopwright.relay.dataflow_pattern import (
    DFPatternCallback,
    FunctionPattern,
    dominates,
    has_attr,
    has_dtype,
    has_shape,
    has_type,
    is_constant,
    is_expr,
    is_if,
    is_let,
    is_op,
    is_tuple,
    is_tuple_get_item,
    is_var,
    match,
    rewrite,
    wildcard,
)
from loopwright.relay.dominators import Flow
from loopwright.relay.walk import post_order

pytestmark = pytest.mark.no_roundtrip

x, y, z = (relay.var(name, shape=(4, 4)) for name in "xyz")
ANY = wildcard()
ELEMWISE = wildcard().has_attr({"TOpPattern": 0})(None)
EXP = is_op("exp")
FN = relay.Function([x], relay.exp(x))

MATCHES: list[tuple[Any, Any, bool]] = [
    (is_op("add")(is_var("x"), is_var("y")), relay.add(y, x), True),
    (is_op("subtract")(is_var("x"), is_var("y")), relay.subtract(y, x), False),
    (is_var("x") + is_constant(), x + relay.const(1.0), True),
    (is_var("x") + is_expr(relay.const(2.0)), x + relay.const(1.0), False),
    (ANY + ANY, x + x, True),
    (ANY + ANY, x + y, False),
    (wildcard() * wildcard() / wildcard(), x * (y / z), True),
    (wildcard() * (wildcard() / wildcard()), x * y / z, True),
    (EXP(None), relay.exp(x), True),
    (EXP(wildcard()).has_dtype("float32"), relay.exp(x), True),
    (EXP(wildcard()).has_shape((4, 5)), relay.exp(x), False),
    (has_dtype("int8"), x, False),
    (wildcard().has_type(relay.TensorType((4, 4))), x, True),
    (has_shape((4, 4)), x, True),
    (has_shape((4, 4), is_var("y")), x, False),
    (has_type(relay.TensorType((4, 4))), x, True),
    (has_type(relay.TensorType((4, 4)), is_var("y")), x, False),
    (has_dtype("float32", is_var("y")), x, False),
    (has_attr({"axis": [1]}), relay.sum(x, 1), True),
    (has_attr({"axis": [1]}, is_op("max")(ANY)), relay.sum(x, 1), False),
    (is_op("sum")(wildcard()).has_attr({"axis": [1]}), relay.sum(x, 1), True),
    (is_op("sum")(wildcard()).has_attr({"keepdims": True}), relay.sum(x, 1), False),
    (is_op("sum").has_attr({"TOpPattern": 3})(wildcard()), relay.sum(x, 1), True),
    (is_op("concatenate")(is_tuple(None)), relay.concatenate([x, y], 0), True),
    (is_tuple([is_var("y"), wildcard()]), relay.Tuple([x, y]), False),
    (is_tuple_get_item(wildcard(), 1), relay.split(x, 2)[1], True),
    (is_tuple_get_item(wildcard(), 1), relay.split(x, 2)[0], False),
    (is_if(is_var("c"), ANY, ANY), relay.If(relay.var("c", "bool"), x, y), False),
    (is_if(ANY, ANY, ANY), x, False),
    (is_let(ANY, ANY, ANY), x, False),
    (wildcard().has_attr({"axis": [1]}), x, False),
    (wildcard().has_attr({"Primitive": 1}), FN.with_attr("Primitive", 1), True),
    (wildcard().has_attr({"Primitive": 1}), FN, False),
    (is_let(is_var("x"), is_var("y"), ANY), relay.Let(x, y, x), True),
    (FunctionPattern([ANY], EXP(ANY)), FN, True),
    (FunctionPattern(None, is_op("log")(ANY)), FN, False),
    (EXP(wildcard()).optional(is_op("log")), relay.log(relay.exp(x)), True),
    (is_op("log")(EXP(wildcard())).optional(is_op("abs")), relay.abs(relay.exp(x)), False),
]


@pytest.mark.parametrize(("pattern", "expr", "expected"), MATCHES)
def test_match(pattern: Any, expr: Any, expected: bool) -> None:
    assert match(pattern, expr) is expected
    assert str(pattern)


def branches(value: Any, sides: Any) -> Any:
    """A value on two ways that meet again."""
    return relay.add(relay.exp(relay.nn.relu(value)), sides(value))


DIAMOND = dominates(is_op("nn.softmax")(wildcard()), ELEMWISE, is_op("add")(None))


def test_a_dominator_takes_whatever_is_on_the_way() -> None:
    assert DIAMOND.match(branches(relay.nn.softmax(x), relay.log))
    assert not DIAMOND.match(branches(relay.nn.softmax(x), lambda v: relay.sum(v, 0)))
    assert not DIAMOND.match(relay.exp(x) + relay.log(relay.nn.softmax(x)))
    assert not DIAMOND.match(relay.exp(relay.nn.softmax(y)) + relay.log(relay.nn.softmax(x)))


def test_a_match_becomes_a_function() -> None:
    pattern = is_op("nn.relu")(is_op("add")(wildcard(), is_constant()))
    one = relay.const(1.0)
    made = pattern.partition(relay.exp(relay.nn.relu(x * y + one)), {"Composite": "c"})
    a = relay.var("a")
    func = relay.Function([a], relay.nn.relu(a + one))
    named = func.with_attrs({"Composite": "c", "PartitionedFromPattern": "add_nn.relu_"})
    assert_structural_equal(made, relay.exp(named(x * y)), map_free_vars=True)
    again = pattern.partition(made)  # what is a match already stays
    assert_structural_equal(made, again, map_free_vars=True)


def test_the_method_that_dominates() -> None:
    whole = is_op("add")(None).dominates(is_op("nn.softmax")(wildcard()), ELEMWISE)
    free = is_op("add")(None).dominates(is_op("nn.softmax")(wildcard()))
    for sides, matches in ((relay.log, True), (lambda v: relay.sum(v, 0), False)):
        expr = branches(relay.nn.softmax(x), sides)
        assert whole.match(expr) is matches and free.match(expr)


def test_matches_do_not_overlap() -> None:
    made = EXP(EXP(wildcard())).partition(relay.exp(relay.exp(relay.exp(x))))
    calls = [n for n in post_order(made) if isinstance(n, relay.Call)]
    assert sum(isinstance(c.op, relay.Function) for c in calls) == 1
    assert sum(c.op is relay.op.get("exp") for c in calls) == 3


@pytest.mark.parametrize("seed", range(20))
def test_what_all_ways_lead_through(seed: int) -> None:
    """A place dominates one whose users all lead to it: without it nothing leads to the result."""
    rng = random.Random(seed)
    values: list[Any] = [x]
    for _ in range(12):
        values.append(relay.add(rng.choice(values[-4:]), rng.choice(values[-4:])))
    flow = Flow(values[-1])
    users = {id(p.expr): [u.expr for u in p.users] for p in flow.nodes}

    def leads(start: Any, closed: Any) -> bool:
        if start is closed:
            return False
        return start is values[-1] or any(leads(u, closed) for u in users[id(start)])

    for a in flow.nodes:
        for b in flow.nodes:
            if a is not b:
                assert flow.dominates(a.expr, b) is (not leads(b.expr, a.expr))


def test_what_is_used_outside_of_a_match_stays() -> None:
    pattern = is_op("nn.relu")(EXP(wildcard()))
    inner = relay.exp(x)
    assert pattern.partition(relay.nn.relu(inner) + inner) is not None
    whole = relay.nn.relu(inner) + inner
    assert pattern.partition(whole) is whole
    refused = relay.nn.relu(relay.exp(x))
    same = pattern.partition(refused, check=lambda found: False)
    assert_structural_equal(same, refused, map_free_vars=True)


def test_what_leads_back_into_a_match_may_be_outside() -> None:
    pattern = is_op("multiply")(is_op("add")(wildcard(), wildcard()), wildcard())
    total = x + y
    made = pattern.partition(total * relay.sigmoid(total))
    assert made.op.attrs["PartitionedFromPattern"] == "add_multiply_"
    assert [type(arg).__name__ for arg in made.args] == ["Var", "Var", "Call"]


class Swapped(DFPatternCallback):
    """`a - b` as `b - a`."""

    def __init__(self, **options: bool) -> None:
        super().__init__(**options)
        self.a, self.b = wildcard(), wildcard()
        self.pattern = self.a - self.b

    def callback(self, pre: Any, post: Any, node_map: Any) -> Any:
        assert not self.require_type or pre.checked_type == relay.TensorType((4, 4))
        return node_map[self.b][0] - node_map[self.a][0]


def test_a_callback_gives_what_stands_instead() -> None:
    made = Swapped(rewrite_once=True, require_type=True).rewrite((x - y) - z)
    assert_structural_equal(made, z - (y - x), map_free_vars=True)


def test_callbacks_that_undo_each_other_are_an_error() -> None:
    with pytest.raises(ValueError, match="still changes after 100 rewrites"):
        rewrite(Swapped(), x - y)


def test_a_wildcard_may_be_redirected_to_what_contains_it() -> None:
    inner = wildcard()
    chain = EXP(inner)
    inner.redirect_to(chain | is_var("x"))
    expr: Any = x
    for _ in range(3000):
        expr = relay.exp(expr)
    assert chain.match(expr)
    assert not chain.match(relay.exp(relay.log(x)))


def test_a_long_chain_is_partitioned() -> None:
    expr: Any = x
    for _ in range(1500):
        expr = relay.nn.relu(relay.exp(expr))
    made = is_op("nn.relu")(EXP(wildcard())).partition(expr)
    calls = [n for n in post_order(made) if isinstance(n, relay.Call)]
    assert sum(isinstance(c.op, relay.Function) for c in calls) == 1500


def test_errors_say_what_to_use() -> None:
    with pytest.raises(TypeError, match=r"patterns of relax\.dpl match Relax"):
        match(dpl.wildcard(), x)
    with pytest.raises(TypeError, match="has_attr narrow a pattern"):
        _ = wildcard() & wildcard()
    with pytest.raises(TypeError, match="wrap an expression in is_expr"):
        is_op("add")(x, wildcard())
    with pytest.raises(AttributeError, match="no operator of this name"):
        is_op("addd")


def test_partitioned_programs_compute_the_same() -> None:
    mod = lw.IRModule.from_expr(branches(relay.nn.softmax(x), relay.log))
    made = lw.IRModule({"main": DIAMOND.partition(mod["main"])})
    data = lw.runtime.tensor([[0.5, 1, 2, 3]] * 4, dtype="float32")
    results = [
        relay.create_executor("graph", m, target="llvm").evaluate()(data) for m in (mod, made)
    ]
    assert (results[0].numpy() == results[1].numpy()).all()
