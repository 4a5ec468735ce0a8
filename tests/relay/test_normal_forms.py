"""Normal forms: what is bound by `let`, where, and that results stay."""

from typing import Any

import numpy as np
import pytest

import loopwright as lw
from loopwright import relay
from loopwright.ir import assert_structural_equal
from loopwright.relay import transform as passes
from loopwright.relay.scopes import check_basic_block_normal_form
from loopwright.relay.walk import post_order

pytestmark = pytest.mark.no_roundtrip

x, y = relay.var("x", shape=(3,)), relay.var("y", shape=(3,))
cond = relay.var("c", shape=(), dtype="bool")


def after(expr: Any, step: Any) -> relay.Function:
    """The function of an expression after a pass."""
    with passes.PassContext(opt_level=3):
        return passes.Sequential([passes.InferType(), step])(lw.IRModule.from_expr(expr))["main"]


def same(func: relay.Function, body: Any) -> None:
    """The function computes `body`, in this form."""
    assert_structural_equal(func, after(relay.Function(func.params, body), passes.InferType()))


def test_a_let_for_each_expression() -> None:
    func = after(relay.Function([x, y], x * x + y), passes.ToANormalForm())
    p, q = func.params
    a, b = relay.Var("a"), relay.Var("b")
    same(func, relay.Let(a, p * p, relay.Let(b, a + q, b)))


def test_branches_have_their_own_lets() -> None:
    shared = relay.exp(x)
    body = relay.If(cond, shared, relay.negative(shared))
    func = after(relay.Function([cond, x], body), passes.ToANormalForm())
    c, p = func.params
    a, b, d = relay.Var("a"), relay.Var("b"), relay.Var("d")
    branch = relay.If(c, a, relay.Let(b, relay.negative(a), b))
    same(func, relay.Let(a, relay.exp(p), relay.Let(d, branch, d)))


def test_lets_in_values_come_before_them() -> None:
    inner = relay.Var("v")
    body = relay.Let(inner, relay.exp(x), inner + inner) * y
    func = after(relay.Function([x, y], body), passes.ToANormalForm())
    values = []
    rest = func.body
    while isinstance(rest, relay.Let):
        assert not isinstance(rest.value, relay.Let)
        values.append(rest.value)
        rest = rest.body
    assert [v.op.name for v in values if isinstance(v, relay.Call)] == ["exp", "add", "multiply"]


def test_only_what_several_scopes_use_is_bound() -> None:
    shared = relay.exp(x)
    body = relay.If(cond, shared * y, relay.negative(shared))
    whole = relay.Function([cond, x, y], relay.abs(body) + y)
    with pytest.raises(lw.LoopwrightError, match="an expression is used in several scopes"):
        check_basic_block_normal_form(whole)
    func = after(whole, passes.ToBasicBlockNormalForm())
    assert check_basic_block_normal_form(func)
    lets = [node for node in post_order(func) if isinstance(node, relay.Let)]
    assert [let.value.op.name for let in lets] == ["exp"]


def test_functions_of_kernels_stay() -> None:
    p = relay.var("p", shape=(3,))
    kernel = relay.Function([p], relay.exp(p + p)).with_attr("Primitive", 1)
    func = after(relay.Function([x], kernel(x)), passes.ToANormalForm())
    bound = [node.value for node in post_order(func) if isinstance(node, relay.Let)]
    assert sum(isinstance(value, relay.Call) for value in bound) == 1
    assert any(isinstance(value, relay.Function) for value in bound)


def test_graphs_have_no_lets_but_of_functions_that_call_themselves() -> None:
    start = relay.Function([x], relay.exp(x) + relay.exp(x))
    func = after(after(start, passes.ToANormalForm()), passes.ToGraphNormalForm())
    same(func, relay.exp(func.params[0]) + relay.exp(func.params[0]))
    shared = relay.Var("s")
    func = after(relay.Function([x], relay.Let(shared, relay.exp(x), shared + shared)),
                 passes.ToGraphNormalForm())  # fmt: skip
    assert func.body.args[0] is func.body.args[1]
    type_ = relay.FuncType([relay.TensorType((3,))], relay.TensorType((3,)))
    again, arg = relay.Var("f", type_), relay.var("a", shape=(3,))
    loop = relay.Function([arg], again(arg))
    func = after(relay.Function([x], relay.Let(again, loop, again(x))), passes.ToGraphNormalForm())
    assert isinstance(func.body.op, relay.Let)


FORMS = [passes.ToANormalForm, passes.ToBasicBlockNormalForm, passes.ToGraphNormalForm]


@pytest.mark.parametrize("form", FORMS)
def test_results_stay(form: Any) -> None:
    shared = relay.exp(x)
    body = relay.If(cond, relay.sum(shared) * y, relay.Tuple([shared, y])[0] + shared)
    func = relay.Function([cond, x, y], body)
    for flag in (True, False):
        args = [np.array(flag), np.arange(3, dtype="float32"), np.ones(3, "float32")]
        results = [
            relay.create_executor("vm", lw.IRModule({"main": f}), target="llvm").evaluate()(*args)
            for f in (func, after(func, form()))
        ]
        assert (results[0].numpy() == results[1].numpy()).all()


def test_long_chains() -> None:
    body: Any = x
    for _ in range(3000):
        body = relay.exp(body)
    bound = after(relay.Function([x], body), passes.ToANormalForm())
    assert sum(isinstance(n, relay.Let) for n in post_order(bound)) == 3000
    back = after(bound, passes.ToGraphNormalForm())
    assert not any(isinstance(n, relay.Let) for n in post_order(back))
