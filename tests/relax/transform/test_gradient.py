"""Gradient: what it computes beside differences, what it keeps, what it refuses."""

from __future__ import annotations

import numpy as np
import pytest

from loopwright import relax, te, tir
from loopwright.base.errors import LoopwrightError
from loopwright.ir.module import IRModule
from loopwright.relax import analysis, op
from loopwright.relax.analysis.variables import bindings_of
from loopwright.relax.interpreter import Interpreter
from loopwright.relax.transform import Gradient
from loopwright.testing import check_numerical_grads, nn
from loopwright.tvm.relax.te_gradient import TE_GRADIENTS, register_te_gradient

from ...programs import graph

# Every body ends with a scalar; x and y are parameters of the shape (3, 4), z of (4,).
BODIES = {
    "a chain": "a = R.exp(x); b = R.tanh(a); c = R.sum(b)",
    "many uses": "a = R.multiply(x, x); b = R.add(a, x); c = R.sum(R.multiply(b, a))",
    "broadcast": "a = R.multiply(x, z); b = R.add(a, z); c = R.mean(R.multiply(b, b))",
    "aliases": "a = x; b = a; d = R.sin(b); e = d; c = R.sum(e)",
    "a tuple": "t = (x, y); u = t; a = u[0]; b = R.multiply(a, t[1]); c = R.sum(b)",
    "nested tuples": "t = ((x, y), z); a = t[0]; b = R.multiply(a[0], a[1]); "
    "d = R.multiply(b, t[1]); u = (t, d); v = u[0]; w = v[0]; c = R.sum(R.multiply(u[1], w[0]))",
    "parts": "p = R.split(x, 2, axis=1); q = R.concat((p[1], p[0], p[1]), axis=1); "
    "a = R.multiply(q, q); c = R.sum(R.exp(a))",
    "products": "a = R.permute_dims(x); b = R.matmul(a, y); d = R.permute_dims(b); "
    "e = R.matmul(R.permute_dims(y), x); c = R.sum(R.multiply(R.add(d, e), b))",
    "a branch of no floats": 'a = R.argmax(x, axis=1); b = R.astype(a, "float32"); d = R.sum(b); '
    "c = R.add(d, R.sum(R.multiply(x, y)))",
}
SHAPES = {"x": (3, 4), "y": (3, 4), "z": (4,)}


def inputs(seed: int = 0) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [rng.uniform(0.2, 1, shape).astype("float32") for shape in SHAPES.values()]


def flat(value):
    return [a for v in value for a in flat(v)] if isinstance(value, (tuple, list)) else [value]


def run(mod, name, *args):
    """The results of a function as flat arrays."""
    return [np.asarray(v.numpy()) for v in flat(Interpreter(mod)[name](*args))]


def agrees_with_differences(mod, args):
    """Of all parameters."""
    after = Gradient("main")(mod)
    loss, *grads = run(after, "main_adjoint", *args)
    np.testing.assert_array_equal(loss, run(mod, "main", *args)[0])
    check_numerical_grads(
        lambda *a: run(mod, "main", *[v.astype("float32") for v in a])[0],
        args,
        grads,
        delta=1e-2,
        rtol=1e-2,
    )


def calls(func) -> list[str]:
    """The operators that a function calls, in order."""
    return [b.value.op.name for b in bindings_of(func) if isinstance(b.value, relax.Call)]


@pytest.mark.parametrize("name", BODIES)
def test_beside_differences(name):
    agrees_with_differences(graph(BODIES[name], **SHAPES), inputs())


@pytest.mark.no_roundtrip  # a text's (x, y)[1] is y
def test_a_field_of_a_tuple_that_no_variable_holds():
    bb = relax.BlockBuilder()
    x, y = (relax.Var(n, relax.TensorStructInfo((3, 4), "float32")) for n in "xy")
    with bb.function("main", [x, y]):
        with bb.dataflow():
            a = bb.emit(relax.TupleGetItem(relax.Tuple([x, y]), 1))
            c = bb.emit_output(op.sum(op.multiply(a, op.multiply(a, x))))
        bb.emit_func_output(c)
    agrees_with_differences(bb.get(), inputs()[:2])


def test_the_end_of_a_checkpoint_may_be_a_result():
    mod = graph("a = R.exp(x); b = R.grad.end_checkpoint(a); c = R.sum(R.sin(b))", "c, b", x=(3, 4))
    x = inputs()[0]
    _, b, grad = run(Gradient("main")(mod), "main_adjoint", x)
    np.testing.assert_allclose(b, np.exp(x), rtol=1e-6)
    np.testing.assert_allclose(grad, np.cos(b) * b, rtol=1e-5, atol=1e-6)


def test_symbolic_shapes():
    mod = graph("a = R.multiply(x, x); c = R.sum(R.exp(a))", x=("n", 4))
    after = Gradient("main")(mod)
    x = inputs()[0]
    _, grad = run(after, "main_adjoint", x)
    np.testing.assert_allclose(grad, 2 * x * np.exp(x * x), rtol=1e-5)
    assert analysis.well_formed(after)


def test_what_matters_is_computed_alone():
    mod = graph("a = R.exp(x); b = R.sin(y); c = R.sum(R.multiply(a, b))", **SHAPES)
    x, y, _ = mod["main"].params
    both = calls(Gradient("main", [x, y])(mod)["main_adjoint"])
    one = calls(Gradient("main", y)(mod)["main_adjoint"])
    assert "relax.cos" in one and len(one) < len(both)


def test_an_operator_without_gradient_stops_only_what_is_on_the_way():
    mod = graph("a = R.sort(y); c = R.sum(R.multiply(a, x))", **SHAPES)
    x, y, _ = mod["main"].params
    (_, grad), args = run(Gradient("main", x)(mod), "main_adjoint", *inputs()), inputs()
    np.testing.assert_allclose(grad, np.sort(args[1]))
    with pytest.raises(LoopwrightError) as error:
        Gradient("main", y)(mod)
    assert str(error.value).startswith(
        "Gradient: relax.sort has no gradient\n"
        "  instead: register one: relax.op.register_gradient for an operator, for a kernel "
        "call_tir_with_grad; or stop before it by R.grad.no_grad"
    )


def test_no_grad_is_a_constant():
    mod = graph("a = R.grad.no_grad(x); c = R.sum(R.multiply(a, x))", x=(3, 4))
    _, grad = run(Gradient("main")(mod), "main_adjoint", inputs()[0])
    np.testing.assert_array_equal(grad, inputs()[0])


def test_transposes_of_products_vanish():
    body = "a = R.matmul(R.permute_dims(x), R.permute_dims(y)); c = R.sum(R.exp(a))"
    mod = graph(body, x=(4, 3), y=(5, 4))
    backward = calls(Gradient("main")(mod)["main_adjoint"])
    # of each product the transposed operands; none of a transposed product
    assert backward.count("relax.matmul") == 3 and backward.count("relax.permute_dims") == 2 + 4
    rng = np.random.default_rng(1)
    agrees_with_differences(
        mod, [rng.uniform(0.2, 1, s).astype("float32") for s in ((4, 3), (5, 4))]
    )


def test_a_product_used_twice_is_not_computed_twice():
    body = "a = R.matmul(R.permute_dims(x), y); b = R.permute_dims(a); c = R.sum(R.matmul(a, b))"
    mod = graph(body, x=(3, 3), y=(3, 3))
    assert calls(Gradient("main")(mod)["main_adjoint"]).count("relax.matmul") == 2 + 4
    rng = np.random.default_rng(1)
    agrees_with_differences(mod, [rng.uniform(0.2, 1, (3, 3)).astype("float32") for _ in range(2)])


# ---------------------------------------------------------------- checkpoints


def stages(count, checkpoint):
    """sin and exp, `count` times, whose values are computed again in the walk back, or kept."""
    bb = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorStructInfo((3, 4), "float32"))
    stage = lambda v: op.sin(op.exp(op.multiply(v, relax.const(0.5))))  # noqa: E731
    with bb.function("main", [x]):
        with bb.dataflow():
            value = x
            for _ in range(count):
                value = nn.emit_checkpoint(stage, value) if checkpoint else bb.emit(stage(value))
            out = bb.emit_output(op.sum(value))
        bb.emit_func_output(out)
    return bb.finalize()


def test_checkpoints_change_no_value():
    kept, again = (Gradient("main")(stages(3, c)) for c in (False, True))
    for a, b in zip(*(run(mod, "main_adjoint", inputs()[0]) for mod in (kept, again)), strict=True):
        np.testing.assert_array_equal(a, b)
    # exp of each stage once more; sin only where something else needs it: nowhere
    count = [calls(mod["main_adjoint"]).count("relax.exp") for mod in (kept, again)]
    assert count == [3, 6]
    assert not any("grad" in name for name in calls(again["main_adjoint"]))


def test_checkpoints_keep_less():
    """What is read in the walk back of the forward part is the input of each stage alone."""
    func = Gradient("main")(stages(3, True))["main_adjoint"]
    bindings = list(bindings_of(func))
    first = next(n for n, b in enumerate(bindings) if b.var.name_hint.endswith("adjoint"))
    forward = {b.var for b in bindings[:first]}
    read = {v for b in bindings[first:] for v in analysis.free_vars(b.value)} & forward
    assert {calls_of(bindings, v) for v in read} <= {"relax.sin"} and len(read) == 2


def calls_of(bindings, var):
    return next(b.value.op.name for b in bindings if b.var is var)


def test_a_value_that_both_leaves_and_starts_a_checkpoint_is_kept():
    body = """
        a = R.grad.start_checkpoint(x)
        b = R.exp(a)
        d = R.grad.end_checkpoint(b)
        e = R.grad.start_checkpoint(d)
        f = R.grad.end_checkpoint(R.sin(e))
        c = R.sum(f)
    """
    mod = graph(body, x=(3, 4))
    assert calls(Gradient("main")(mod)["main_adjoint"]).count("relax.exp") == 1
    agrees_with_differences(mod, inputs()[:1])


def test_checkpoint_of_a_tuple_of_results():
    made = nn.checkpoint(
        lambda a, b: (op.add(a, b), op.exp(a)), *graph("c = x", x=(2,))["main"].params * 2
    )
    assert [call.op.name for call in made] == ["relax.grad.end_checkpoint"] * 2


# ---------------------------------------------------------------- kernels


def test_kernels_with_a_gradient():
    def scaled(x, factor):
        return te.compute(x.shape, lambda *i: x(*i) * factor)

    def gradient(output_grad, x, factor):
        return [te.compute(x.shape, lambda *i: output_grad(*i) * factor)]

    n = tir.Var("n", "int64")
    bb = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorStructInfo((n, 4), "float32"))
    with TE_GRADIENTS.snapshot():
        register_te_gradient("test.scaled", gradient)
        factor = {"factor": tir.FloatImm("float32", 3.0)}
        with bb.function("main", [x]):
            with bb.dataflow():
                a = bb.emit_te(scaled, x, 3.0, te_grad_name="test.scaled", te_grad_kwargs=factor)
                out = bb.emit_output(op.sum(op.multiply(a, x)))
            bb.emit_func_output(out)
        after = Gradient("main")(bb.finalize())
    assert "relax.call_tir_with_grad" not in calls(after["main_adjoint"])
    _, grad = run(after, "main_adjoint", inputs()[0])
    np.testing.assert_allclose(grad, 6 * inputs()[0], rtol=1e-6)
    with pytest.raises(ValueError, match="unknown te gradient"):
        Gradient("main")(bb.finalize())


# ---------------------------------------------------------------- what is refused


def test_wrong_arguments():
    mod = graph("a = R.exp(x); c = R.sum(a)", x=(3, 4))
    two = graph("a = R.sum(x); b = (a, R.exp(x))", x=(3, 4))
    wide = graph("c = R.sum(x)", x=(3, 4), y='R.Tensor(dtype="float32", ndim=2)')
    cases = [
        (lambda: Gradient("other")(mod), ValueError, "the module has no function of this name"),
        (lambda: Gradient("main", relax.Var("v"))(mod), LoopwrightError, "main has no variable v"),
        (lambda: Gradient("main", target_index=1)(mod), LoopwrightError, "target_index is not"),
        (lambda: Gradient("main", target_index=-1)(mod), LoopwrightError, "(?s)got: -1.*0 to 0"),
        (lambda: Gradient("main")(two), LoopwrightError, "must be a variable, a"),
        (
            lambda: Gradient("main")(wide),
            LoopwrightError,
            "a gradient of zeros needs a known shape",
        ),
    ]
    for call, kind, text in cases:
        with pytest.raises(kind, match=text):
            call()


def test_forms_that_are_not_one_block():
    func = graph("c = R.sum(x)", x=(3,))["main"]
    plain = func.replace(
        body=relax.SeqExpr([relax.BindingBlock(func.body.blocks[0].bindings)], func.body.body)
    )
    with pytest.raises(LoopwrightError) as error:
        Gradient("main")(IRModule({"main": plain}))
    assert str(error.value) == (
        "the body of main must be one dataflow block\n  got: BindingBlock\n"
        "  instead: run ConvertToDataflow, or write `with R.dataflow():` around all of it"
    )


def test_integers_have_no_gradient():
    mod = graph("c = R.sum(R.exp(x))", x=(3, 4), i='R.Tensor((3,), "int64")')
    with pytest.raises(LoopwrightError, match="i has no gradient, for it is not of floats"):
        Gradient("main")(mod)
