"""TopologicalSort, RemoveRedundantReshape, the passes that decompose or fold norms."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loopwright import relax
from loopwright.ir.module import IRModule
from loopwright.relax.interpreter import Interpreter
from loopwright.relax.transform import (
    DecomposeOpsForInference,
    DecomposeOpsForTraining,
    FoldBatchnormToConv2D,
    RemoveRedundantReshape,
    TopologicalSort,
)
from loopwright.script import relax as R

from ...programs import graph


def names(mod) -> str:
    """The variables that `main` binds, in order."""
    return " ".join(b.var.name_hint for block in mod["main"].body.blocks for b in block.bindings)


def operators(mod) -> list[str]:
    """The operators of `main`, in order."""
    values = [b.value for block in mod["main"].body.blocks for b in block.bindings]
    return [v.op.name.removeprefix("relax.") for v in values if isinstance(v, relax.Call)]


def same_values(before, after, *inputs) -> None:
    got, want = (Interpreter(mod)["main"](*inputs) for mod in (after, before))
    pairs = zip(got, want, strict=True) if isinstance(want, tuple) else [(got, want)]
    for a, b in pairs:
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-4, atol=1e-5)


# ---------------------------------------------------------------- TopologicalSort

ORDERS = {
    ("depth-first", "from-inputs"): "a c b d u e",
    ("depth-first", "from-outputs"): "b d u a c e",
    ("breadth-first", "from-inputs"): "a b c d u e",
    ("breadth-first", "from-outputs"): "b a d c e u",
}


@pytest.mark.parametrize(("order", "direction"), ORDERS)
def test_orders(order, direction):
    mod = graph(
        "b = R.exp(y); a = R.exp(x); c = R.negative(a); d = R.negative(b); u = R.exp(d); "
        "e = R.add(d, c)",
        x=(2,), y=(2,),
    )  # fmt: skip
    assert names(TopologicalSort(order, direction)(mod)) == ORDERS[order, direction]


def test_a_dimension_comes_after_the_cast_that_defines_it():
    text = (
        'a = R.exp(x); c = R.match_cast(y, R.Tensor((m,), "float32")); b = R.zeros((m,), "float32")'
    )
    text = f"m = T.int64(); {text}; d = R.add(c, b); e = R.add(a, a); out = (d, e)"
    mod = graph(text, x=(2,), y='R.Tensor("float32", ndim=1)')
    for order, direction in ORDERS:
        found = names(TopologicalSort(order, direction)(mod)).split()
        assert found.index("c") < found.index("b")


def test_blocks_inside_functions_are_sorted_and_plain_bindings_stay():
    @R.function(private=True)
    def main(x: R.Tensor((2,), "float32")):
        b = R.exp(x)
        a = R.exp(x)

        @R.function
        def inner(y: R.Tensor((2,), "float32")):
            with R.dataflow():
                p = R.exp(y)
                q = R.tanh(y)
                r = R.negative(p)
                s = R.add(q, r)
                R.output(s)
            return s

        c = inner(b)
        d = R.add(c, a)
        return d

    sorted_ = TopologicalSort()(IRModule({"main": main}))
    assert names(sorted_) == "b a inner c d"
    function = sorted_["main"].body.blocks[0].bindings[2].value
    assert [b.var.name_hint for b in function.body.blocks[0].bindings] == ["p", "r", "q", "s"]


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 99), st.integers(0, 99)), min_size=1, max_size=12))
def test_any_order_computes_the_same(pairs):
    lines, known = [], ["x", "y"]
    for n, (a, b) in enumerate(pairs):
        lines.append(f"v{n} = R.add({known[a % len(known)]}, R.negative({known[b % len(known)]}))")
        known.append(f"v{n}")
    mod = graph(
        "; ".join([*lines, f"out = ({known[-1]}, {known[len(known) // 2]})"]), x=(1,), y=(1,)
    )
    inputs = np.array([3.0], "float32"), np.array([5.0], "float32")
    for order, direction in ORDERS:
        after = TopologicalSort(order, direction)(mod)
        assert sorted(names(after).split()) == sorted(names(mod).split())
        assert TopologicalSort(order, direction)(after) is after
        same_values(mod, after, *inputs)


def test_orders_that_there_are_not():
    with pytest.raises(ValueError, match="no such order\n.*'random'"):
        TopologicalSort("random")
    with pytest.raises(ValueError, match="no such direction"):
        TopologicalSort(direction="sideways")


# ---------------------------------------------------------------- RemoveRedundantReshape


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("a = R.reshape(x, (6, n)); b = R.reshape(a, (n, 6)); c = R.exp(b)", ["reshape", "exp"]),
        ("a = R.reshape(x, (6, n)); b = R.reshape(a, (n, 2, 3)); c = R.exp(b)", ["exp"]),
        ("a = R.reshape(x, (n, -1, 3)); b = R.exp(a)", ["exp"]),
        ("a = R.exp(x); b = R.reshape(a, (n, 2, 3))", ["exp"]),
        ("a = R.reshape(x, (6, n)); b = R.exp(a); c = R.reshape(b, (n, 6))", None),
    ],
)
def test_reshapes(text, left):
    mod = graph(f"n = T.int64(); {text}", x=("n", 2, 3))
    after = RemoveRedundantReshape()(mod)
    if left is None:
        assert after is mod
    else:
        assert operators(after) == left
        same_values(mod, after, np.arange(24, dtype="float32").reshape(4, 2, 3) / 24)


# ---------------------------------------------------------------- norms

CHANNELS = dict.fromkeys(("gamma", "beta", "mean", "var"), (3,))
NORM = "bn = R.nn.batch_norm(x, gamma, beta, mean, var, {}); out = (bn[0], bn[1], bn[2])"
WAYS = ["axis=1", "axis=-2, center=False", "axis=1, scale=False, momentum=0.3, epsilon=0.1"]


def arrays(*shapes) -> list[np.ndarray]:
    rng = np.random.default_rng(2)
    return [rng.uniform(0.5, 2, shape).astype("float32") for shape in shapes]


@pytest.mark.parametrize("attributes", WAYS)
@pytest.mark.parametrize("training", [True, False])
def test_batch_norm(attributes, training):
    shape = (2, 3, 5)
    mod = graph(NORM.format(f"{attributes}, training={training}"), x=shape, **CHANNELS)
    after = (DecomposeOpsForTraining if training else DecomposeOpsForInference)()(mod)
    assert "nn.batch_norm" not in operators(after)
    same_values(mod, after, *arrays(shape, *[(3,)] * 4))


@pytest.mark.parametrize("attributes", ["axes=[-1]", "axes=[1, 2], center=False", "axes=[-2, -1]"])
def test_layer_norm(attributes):
    shape = (2, 3, 5)
    part = (5,) if attributes == "axes=[-1]" else (3, 5)
    mod = graph(f"a = R.nn.layer_norm(x, g, b, {attributes})", x=shape, g=part, b=part)
    after = DecomposeOpsForTraining()(mod)
    assert "nn.layer_norm" not in operators(after)
    same_values(mod, after, *arrays(shape, part, part))
    assert DecomposeOpsForInference()(mod) is mod


def test_what_cannot_be_decomposed_stays():
    mod = graph("a = R.nn.layer_norm(x, g, g, axes=[0])", x=(2, 3), g=(2,))
    assert DecomposeOpsForTraining()(mod) is mod
    mod = graph("a = R.exp(x)", x=(2,))
    assert DecomposeOpsForTraining()(mod) is mod


def test_one_function_by_name():
    mod = graph(NORM.format("axis=1"), x=(2, 3, 5), **CHANNELS)
    both = mod.with_functions({relax.GlobalVar("other"): mod["main"].without_attr("global_symbol")})
    after = DecomposeOpsForInference("other")(both)
    assert after["main"] is both["main"] and after["other"] is not both["other"]
    with pytest.raises(ValueError, match="no function of this name\n.*'nowhere'"):
        DecomposeOpsForInference("nowhere")(both)


def test_a_shape_from_a_tensor():
    mod = graph(
        "s = R.tensor_to_shape(t); a = R.reshape(x, s)", x=(6,), t='R.Tensor((2,), "int64")'
    )
    after = DecomposeOpsForInference()(mod)
    assert "tensor_to_shape" not in operators(after)
    same_values(mod, after, np.arange(6, dtype="float32"), np.array([2, 3]))


def test_batch_norms_in_training_are_folded_where_the_user_asks():
    data = dict(zip(("gamma", "beta", "mean", "var"), arrays(*[(3,)] * 4), strict=True))
    values = {k: relax.const(v) for k, v in data.items()}
    mod = graph(
        "bn = R.nn.batch_norm(x, gamma, beta, mean, var, axis=1); a = bn[0]",
        values=values,
        x=(2, 3, 5),
    )
    assert FoldBatchnormToConv2D(keep_training=True)(mod) is mod
    assert operators(FoldBatchnormToConv2D()(mod)) == ["multiply", "add"]


def test_a_norm_of_a_convolution():
    rng = np.random.default_rng(0)
    data = {k: rng.uniform(0.5, 1, 3).astype("float32") for k in ("gamma", "beta", "mean", "var")}
    data["w"] = rng.uniform(-1, 1, (3, 2, 2, 2)).astype("float32")
    values = {k: relax.const(v) for k, v in data.items()}
    x = rng.uniform(-1, 1, (1, 2, 4, 4)).astype("float32")
    for options in ("", ", scale=False", ", center=False"):
        mod = graph(
            f"c = R.nn.conv2d(x, w); bn = R.nn.batch_norm(c, gamma, beta, mean, var, axis=1, training=False{options}); a = bn[0]",
            values=values,
            x=(1, 2, 4, 4),
        )
        after = FoldBatchnormToConv2D()(mod)
        calls = [b.value.op.name for b in after["main"].body.blocks[0].bindings]
        assert calls == ["relax.nn.conv2d", "relax.add"]
        want, got = (Interpreter(m)["main"](x).numpy() for m in (mod, after))
        np.testing.assert_allclose(got, want, 1e-4, 1e-5)
        places = [[b.span for b in m["main"].body.blocks[0].bindings] for m in (mod, after)]
        assert places[1] == [places[0][0], places[0][-1]], "a node each: the product, the sum"
