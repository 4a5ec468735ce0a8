"""What a rule of a back end is given: the same tensors in the same places, however weights come."""

from __future__ import annotations

import numpy as np
import pytest

import loopwright as lw
from loopwright import relax
from loopwright.ir.target import register_target_kind
from loopwright.relax.byoc import Backend
from loopwright.relax.dpl import is_op, wildcard
from loopwright.script import relax as R
from loopwright.script import tir as T

X = np.linspace(-1, 1, 12, dtype="float32").reshape(3, 4)
W = np.linspace(0, 1, 9, dtype="float32").reshape(3, 3)
B = np.array(0.5, "float32")
DENSE = is_op("relax.nn.relu")(
    is_op("relax.matmul")(wildcard(), is_op("relax.add")(wildcard(), wildcard()))
)


# The operators of the patterns are gone when the modules are printed.
pytestmark = pytest.mark.no_roundtrip


@pytest.fixture(autouse=True)
def box(forgotten):
    register_target_kind("box", ("llvm", "cpu"))


def model(**weights: np.ndarray):
    """relu(w @ (x + b)); those given are constants."""

    @R.function
    def main(
        x: R.Tensor((3, 4), "float32"), w: R.Tensor((3, 3), "float32"), b: R.Tensor((), "float32")
    ):
        with R.dataflow():
            y = R.nn.relu(R.matmul(w, R.add(x, b)))
            R.output(y)
        return y

    return relax.transform.BindParams("main", weights)(lw.IRModule({"main": main}))


def run(weights: dict[str, np.ndarray], **options):
    box = Backend("box", [("box.dense", DENSE)], target="box", **options)
    exe = lw.compile(model(**weights), backends=[box])
    feeds = {k: v for k, v in {"x": X, "w": W, "b": B}.items() if k not in weights}
    out = exe.run(feeds)
    np.testing.assert_allclose(next(iter(out.values())).numpy(), np.maximum(W @ (X + B), 0), 1e-5)
    return exe


def takes(kernel: str, weights: dict[str, np.ndarray]) -> bool:
    """Whether a kernel of that name is used."""
    return kernel in [gvar.name_hint for gvar in run(weights).mod.functions]


WEIGHTS = [{}, {"w": W}, {"b": B}, {"w": W, "b": B}]


@pytest.mark.parametrize("weights", WEIGHTS, ids=" ".join)
@pytest.mark.parametrize("bind", [True, False])
def test_rules_see_the_same_inputs(weights, bind):
    seen = []

    @lw.register_legalize("box.dense", target="box")
    def rule(bb, call):
        seen.append([(a.struct_info.ndim, isinstance(a, relax.Constant)) for a in call.args])
        x, b, w = call.args
        return relax.op.nn.relu(relax.op.matmul(w, relax.op.add(x, b)))

    run(weights, bind_constants=bind)
    assert seen == [[(2, False), (0, bind and "b" in weights), (2, bind and "w" in weights)]]


@pytest.mark.parametrize("weights", WEIGHTS, ids=" ".join)
def test_one_kernel_serves_variables_and_constants(weights):
    @T.prim_func(private=True)
    def kernel(
        x: T.Buffer((3, 4), "float32"),
        b: T.Buffer((), "float32"),
        w: T.Buffer((3, 3), "float32"),
        y: T.Buffer((3, 4), "float32"),
    ):
        for i, j in T.grid(3, 4):
            y[i, j] = T.max(
                w[i, 0] * (x[0, j] + b[()])
                + w[i, 1] * (x[1, j] + b[()])
                + w[i, 2] * (x[2, j] + b[()]),
                T.float32(0),
            )

    lw.register_legalize("box.dense", tir=kernel, target="box")
    assert takes("dense_kernel", weights)


def test_a_kernel_that_knows_the_numbers_of_its_pattern():
    @T.prim_func(private=True)
    def half(
        x: T.Buffer((3, 4), "float32"),
        w: T.Buffer((3, 3), "float32"),
        y: T.Buffer((3, 4), "float32"),
    ):
        for i, j in T.grid(3, 4):
            y[i, j] = T.max(
                w[i, 0] * (x[0, j] + T.float32(0.5))
                + w[i, 1] * (x[1, j] + T.float32(0.5))
                + w[i, 2] * (x[2, j] + T.float32(0.5)),
                T.float32(0),
            )

    def is_half(call):
        return isinstance(call.args[1], relax.Constant) and call.args[1].data.numpy() == 0.5

    lw.register_legalize("box.dense", tir=half, target="box", when=is_half)
    assert takes("dense_kernel", {"b": B, "w": W})
    assert not takes("dense_kernel", {}), "the number is not known"


def test_weights_in_the_kernel_need_a_kernel_made_for_the_call():
    calls = []

    @T.prim_func(private=True)
    def wrong(x: T.Buffer((3, 4), "float32"), y: T.Buffer((3, 4), "float32")):
        for i, j in T.grid(3, 4):
            y[i, j] = x[i, j]

    def made(call):
        calls.append(call)
        w = call.args[2]
        if not isinstance(w, relax.Constant):
            return None
        (a, b, c), (d, e, f), (g, h, i) = w.data.numpy().tolist()

        @T.prim_func(private=True)
        def known(X: T.Buffer((3, 4), "float32"), Y: T.Buffer((3, 4), "float32")):
            for j in range(4):
                Y[0, j] = T.max(
                    a * (X[0, j] + 0.5) + b * (X[1, j] + 0.5) + c * (X[2, j] + 0.5), 0.0
                )
                Y[1, j] = T.max(
                    d * (X[0, j] + 0.5) + e * (X[1, j] + 0.5) + f * (X[2, j] + 0.5), 0.0
                )
                Y[2, j] = T.max(
                    g * (X[0, j] + 0.5) + h * (X[1, j] + 0.5) + i * (X[2, j] + 0.5), 0.0
                )

        return known

    lw.register_legalize("box.dense", tir=wrong, target="box")
    assert not takes("dense_kernel", {"w": W, "b": B})
    lw.register_legalize("box.dense", tir=made, target="box")
    assert takes("made", {"w": W, "b": B})
    assert len(calls) == 1


@pytest.mark.parametrize("bind", [True, False])
def test_a_rule_that_declines_leaves_the_operators(bind):
    lw.register_legalize("box.dense", lambda bb, call: None, target="box")
    run({"w": W}, bind_constants=bind)
