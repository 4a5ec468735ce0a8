"""Nodes of a model's own domain as own operators with own kernels; own kernels on models as they are."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper

import loopwright as lw
from loopwright import relax
from loopwright.frontend.graph import registry
from loopwright.frontend.onnx import from_onnx, register_converter
from loopwright.ops import OPERATORS, Tensor, op
from loopwright.relax.transform.legalize_ops.common import LEGALIZATIONS
from loopwright.script import tir as T
from tools.zoo import MODELS, RegistryError, fetch

from ...programs import pointwise_convolution
from .support import chain


@T.prim_func
def swish_kernel(x: T.handle, y: T.handle, beta: T.float32):
    n, m = T.int64(), T.int64()
    X, Y, gate = T.match_buffer(x, (n, m)), T.match_buffer(y, (n, m)), T.alloc_buffer((n, m))
    for i, j in T.grid(n, m):
        with T.block("gate"):
            vi, vj = T.axis.remap("SS", [i, j])
            gate[vi, vj] = T.sigmoid(beta * X[vi, vj])
    for i, j in T.grid(n, m):
        with T.block("product"):
            vi, vj = T.axis.remap("SS", [i, j])
            Y[vi, vj] = X[vi, vj] * gate[vi, vj]


@pytest.fixture
def swish():
    """The operator onnxlib.swish, which has a kernel and no compute, for one test."""

    @op("onnxlib.swish")
    def swish(x: Tensor, beta: float = 1.0):
        "x * sigmoid(beta x)."

    swish.infer(lambda x, beta: relax.TensorStructInfo(x.shape, x.dtype))
    swish.numpy(lambda x, beta: x / (1 + np.exp(-beta * x)))
    lw.register_legalize("onnxlib.swish", tir=swish_kernel)
    yield
    OPERATORS.remove("onnxlib.swish")
    registry.CONVERTERS.remove(("my.domain", "Swish", 1))


def model(**attributes):
    node = helper.make_node("Swish", ["x"], ["y"], "/act", domain="my.domain", **attributes)
    after = helper.make_node("Relu", ["y"], ["z"])
    return chain(node, after, shape=["n", 8], domains={"my.domain": 1})


@pytest.mark.parametrize(
    "given, renamed, beta",
    [({}, None, 1.0), ({"beta": 2.0}, None, 2.0), ({"steepness": 3.0}, {"steepness": "beta"}, 3.0)],
)
def test_a_node_that_is_an_own_operator(swish, given, renamed, beta):
    register_converter("Swish", domain="my.domain", to="onnxlib.swish", attributes=renamed)
    mod = from_onnx(model(**given))
    assert f"R.onnxlib.swish(x, beta={beta})" in mod.script()
    steps = lw.lower(mod)
    assert any("swish_kernel_relu" in n for n in steps["FuseTIR"].changed_functions())
    x = np.linspace(-2, 2, 24, dtype="float32").reshape(3, 8)
    got = lw.compile(model(**given)).run({"x": x})["z"].numpy()
    np.testing.assert_allclose(got, np.maximum(x / (1 + np.exp(-beta * x)), 0), rtol=1e-5)


def test_an_attribute_that_the_operator_does_not_have(swish):
    register_converter("Swish", domain="my.domain", to="onnxlib.swish")
    with pytest.raises(lw.LoopwrightError, match="steepness"):
        from_onnx(model(steepness=2.0))


def test_the_inputs_are_counted(swish):
    register_converter("Swish", domain="my.domain", to="onnxlib.swish")
    node = helper.make_node("Swish", ["x", "x"], ["y"], "/act", domain="my.domain")
    with pytest.raises(lw.LoopwrightError, match=r"it takes 1 input \(x\)"):
        from_onnx(chain(node, shape=["n", 8], domains={"my.domain": 1}))


def test_many_tensors():
    register_converter("Stack", domain="my.domain", to="relax.concat")
    try:
        node = helper.make_node("Stack", ["x", "x"], ["y"], domain="my.domain", axis=1)
        mod = from_onnx(chain(node, shape=["n", 8], domains={"my.domain": 1}))
        assert "R.concat((x, x), axis=1)" in mod.script()
    finally:
        registry.CONVERTERS.remove(("my.domain", "Stack", 1))


def test_what_is_refused(swish):
    with pytest.raises(lw.LoopwrightError, match=r"not defined\n  got: onnxlib\.swisch"):
        register_converter("Swish", domain="my.domain", to="onnxlib.swisch")
    with pytest.raises(lw.LoopwrightError, match=r"onnxlib\.swish has no attribute gamma"):
        register_converter(
            "Swish", domain="my.domain", to="onnxlib.swish", attributes={"steepness": "gamma"}
        )
    with pytest.raises(lw.LoopwrightError, match="give convert, or to="):
        register_converter("Swish", domain="my.domain")
    with pytest.raises(lw.LoopwrightError, match=r"relax\.reshape are not all tensors"):
        register_converter("Swish", domain="my.domain", to="relax.reshape")


@pytest.mark.slow
@pytest.mark.no_roundtrip
def test_a_convolution_of_ones_own_in_an_imported_model():
    """Its 1x1 convolutions; the others are left to the default, and so is the layout around."""
    try:
        path = str(fetch("ppocr-cls"))
    except RegistryError as error:
        pytest.skip(str(error))
    feeds = MODELS["ppocr-cls"].feeds()
    want = lw.compile(path)["main"](feeds["x"]).numpy()

    def plain(call):
        attrs = call.attrs
        return attrs.groups == 1 and not any(attrs.padding) and list(attrs.strides) == [1, 1]

    kernel = pointwise_convolution("own_pointwise")
    with LEGALIZATIONS.registry.snapshot():
        lw.register_legalize("relax.nn.conv2d", tir=kernel, target="llvm", when=plain)
        notes = lw.lower(path).explain("relax.nn.conv2d", "legalize")
        exe = lw.compile(path)
    winners = [n.facts["winner"].split(":")[0] for n in notes]
    assert winners.count("target llvm") >= 20 and winners.count("default") >= 10
    refused = [loser for n in notes for loser in n.facts["losers"]]
    assert "target llvm: kernel own_pointwise (plain said no)" in refused
    np.testing.assert_allclose(exe["main"](feeds["x"]).numpy(), want, rtol=1e-4, atol=1e-5)
