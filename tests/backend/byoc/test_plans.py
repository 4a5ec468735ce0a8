"""What back ends make of matches, without their libraries: jobs of oneDNN, functions of BLAS, costs."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pytest

from loopwright import relax
from loopwright.backend import base, pipeline
from loopwright.backend.byoc import blas, dnnl, onednn
from loopwright.ir.prim_expr import Var
from loopwright.ir.prim_op import const
from loopwright.ir.transform import Sequential
from loopwright.relax.backend.cuda.cublas import partition_for_cublas
from loopwright.relax.byoc import PartitionReport, partition
from loopwright.relax.transform import CanonicalizeBindings
from loopwright.tvm.tensorrt import json as tensorrt_json

from ...relax.transform.graphs import graph

op, nn, dims = relax.op, relax.op.nn, relax.TensorStructInfo
# A composite that stands as an operator while it is lowered has no text.
pytestmark = pytest.mark.no_roundtrip


def weights(*shape):
    return relax.const(np.ones(shape, "float32"))


def job(build, *shapes):
    """What a graph is as one primitive, its bindings in order."""
    main = graph(build, *shapes)["main"]
    found = [b for block in main.body.blocks for b in block.bindings]
    return onednn.read({b.var: b.value for b in found if isinstance(b.value, relax.Call)})


def conv(emit, x):
    return emit(nn.conv2d(x, weights(24, 16, 1, 1)))


def product(emit, x):
    return emit(op.matmul(x, weights(16, 24)))


def swish(emit, y, low=0.0, high=6.0, scale=6.0, turned=False):
    gate = emit(op.clip(emit(op.add(y, relax.const(3.0))), low, high))
    factors = (gate, y) if turned else (y, gate)
    return op.divide(emit(op.multiply(*factors)), relax.const(scale))


IMAGE, ROWS = (1, 16, 5, 6), (4, 16)
ELTWISE = "eltwise"


@pytest.mark.parametrize(
    ("root", "rest", "post", "more"),
    [
        (conv, lambda emit, y: nn.relu(y), [(ELTWISE, "relu", 0.0, 0.0)], {}),
        (conv, lambda emit, y: nn.silu(y), [(ELTWISE, "swish", 1.0, 0.0)], {}),
        (conv, lambda emit, y: op.clip(y, -1.0, 2.0), [(ELTWISE, "clip", -1.0, 2.0)], {}),
        (conv, lambda emit, y: op.add(y, relax.const(3.0)), [(ELTWISE, "linear", 1.0, 3.0)], {}),
        (conv, lambda emit, y: op.multiply(relax.const(3.0), y), [(ELTWISE, "linear", 3.0, 0.0)], {}),
        (conv, swish, [(ELTWISE, "hardswish", 1 / 6, 0.5)], {}),
        (conv, lambda emit, y: op.add(y, weights(1, 24, 1, 1)), [], {dnnl.BIAS: (1, 24, 1, 1)}),
        (conv, lambda emit, y: op.add(y, weights(24, 1, 1)), [], {dnnl.BIAS: (24, 1, 1)}),
        (product, lambda emit, y: op.add(y, weights(24)), [], {dnnl.BIAS: (24,)}),
        (conv, lambda emit, y: op.multiply(y, weights(24, 1, 1)),
         [("binary", "multiply", (1, 24, 1, 1))], {dnnl.post_argument(0): (1, 24, 1, 1)}),
        (conv, lambda emit, y: op.add(y, weights(5, 6)),
         [("binary", "add", (1, 1, 5, 6))], {dnnl.post_argument(0): (1, 1, 5, 6)}),
        (conv, lambda emit, y: op.add(emit(nn.relu(y)), weights(24, 1, 1)),
         [(ELTWISE, "relu", 0.0, 0.0), ("binary", "add", (1, 24, 1, 1))],
         {dnnl.post_argument(1): (1, 24, 1, 1)}),
        (product, lambda emit, y: op.add(y, weights(4, 1)),
         [("binary", "add", (4, 1))], {dnnl.post_argument(0): (4, 1)}),
    ],
)  # fmt: skip
def test_what_follows_a_primitive(root, rest, post, more):
    made = job(lambda emit, x: rest(emit, root(emit, x)), IMAGE if root is conv else ROWS)
    assert made.post == post
    found = {k: o.dims for k, o in made.tensors.items() if k not in (dnnl.SRC, dnnl.WEIGHTS)}
    assert found == more
    assert made.dims == ((1, 24, 5, 6) if root is conv else (4, 24))


@pytest.mark.parametrize(
    ("root", "rest"),
    [
        (conv, lambda emit, y: swish(emit, y, high=5.0)),
        (conv, lambda emit, y: swish(emit, y, low=-1.0)),
        (conv, lambda emit, y: swish(emit, y, scale=3.0)),
        (conv, lambda emit, y: swish(emit, y, turned=True)),
        (conv, lambda emit, y: op.exp(y)),
        (conv, lambda emit, y: op.divide(y, relax.const(2.0))),
        (conv, lambda emit, y: op.subtract(y, weights(24, 1, 1))),
        (product, lambda emit, y: op.add(y, weights(1, 4, 24))),
        (conv, lambda emit, y: op.add(y, weights(2, 24, 5, 6))),
    ],
)
def test_what_oneDNN_cannot_express(root, rest):
    assert job(lambda emit, x: rest(emit, root(emit, x)), IMAGE if root is conv else ROWS) is None


def test_products_of_unknown_shapes_stay():
    infos = [dims(None, "float32", 2), dims(ROWS, "float32")]
    mod = graph(lambda emit, x, y: op.matmul(x, y), *infos)
    partition(mod, blas.backend(), cost=None, report=(report := PartitionReport()))
    assert report.refused == {"relax.matmul": "the shape of an operand is not known"}
    assert not report.decisions
    made = partition_for_cublas(mod)
    assert [g.name_hint for g in made.functions] == ["main"]


def test_only_whole_tensors_of_floats_are_operands():
    n = Var("n", "int64")
    for info in (dims((n, 16), "float32"), dims(ROWS, "float16"), dims(None, "float32", 2)):
        other = relax.const(np.ones((16, 24), str(info.dtype)))
        main = graph(lambda emit, x: emit(op.matmul(x, other)), info)["main"]  # noqa: B023
        (call,) = (b for b in main.body.blocks[0].bindings if isinstance(b.value, relax.Call))
        assert onednn.read({call.var: call.value}) is None
    made = job(product, ROWS)
    assert made.tensors[dnnl.SRC].dims == ROWS and made.tensors[dnnl.SRC].array is None
    assert made.tensors[dnnl.WEIGHTS].array.shape == (16, 24)


@pytest.mark.parametrize(
    ("build", "shapes"),
    [
        (lambda emit, x: nn.conv2d(x, weights(24, 1, 1, 16), data_layout="NHWC",
                                   kernel_layout="OHWI"), [(1, 5, 6, 16)]),
        (lambda emit, x, w: nn.conv2d(x, w), [IMAGE, (24, 16, 1, 1)]),
        (lambda emit, x: nn.conv2d(x, weights(24, 1, 1, 16), kernel_layout="OHWI"), [IMAGE]),
        (lambda emit, x: nn.conv2d_transpose(x, weights(16, 8, 3, 3), strides=2,
                                             output_padding=1), [IMAGE]),
        (lambda emit, x, w: op.matmul(x, w), [(2, 4, 16), (16, 24)]),
        (lambda emit, x, w: op.matmul(x, w), [(16,), (16,)]),
        (lambda emit, x: nn.max_pool2d(x, (2, 2), layout="NHWC"), [(1, 8, 8, 16)]),
        (lambda emit, x: nn.max_pool2d(x, (2, 2), ceil_mode=True), [IMAGE]),
        (lambda emit, x: op.mean(x, [2, 3]), [IMAGE]),
        (lambda emit, x: op.mean(x, [1, 3], keepdims=True), [IMAGE]),
        (lambda emit, x: op.mean(x, keepdims=True), [IMAGE]),
        (lambda emit, x: op.mean(x, [1, 2], keepdims=True), [(4, 5, 6)]),
        (lambda emit, x, y: op.add(x, y), [(4, 5, 6), (4, 5, 6)]),
        (lambda emit, x, y: op.add(x, y), [(1, 1, 5, 6), IMAGE]),
        (lambda emit, x: op.multiply(x, weights(*IMAGE)), [IMAGE]),
    ],
)  # fmt: skip
def test_what_has_no_primitive(build, shapes):
    assert job(build, *shapes).primitive([None, None]) is None


@pytest.mark.parametrize(
    ("build", "shapes", "work"),
    [
        (product, [ROWS], 4 * 24 * 16),
        (lambda emit, x: op.matmul(x, weights(2, 16, 24)), [(2, 4, 16)], 2 * 4 * 24 * 16),
        (lambda emit, x: nn.conv2d(x, weights(24, 16, 3, 3), padding=1), [IMAGE],
         24 * 5 * 6 * 16 * 9),
        (lambda emit, x: nn.conv2d(x, weights(16, 4, 3, 2), groups=4), [IMAGE], 16 * 3 * 5 * 4 * 6),
        (lambda emit, x: nn.conv2d_transpose(x, weights(16, 8, 2, 2), strides=2), [IMAGE],
         16 * 5 * 6 * 8 * 4),
        (lambda emit, x: nn.max_pool2d(x, (2, 2), (2, 2)), [IMAGE], 16 * 2 * 3 * onednn.PER_ELEMENT),
        (lambda emit, x: op.add(x, x), [IMAGE], math.prod(IMAGE) * onednn.PER_ELEMENT),
    ],
)  # fmt: skip
def test_the_cost_of_primitives(build, shapes, work):
    """Seconds of a call, and of as many multiply-adds."""
    main = graph(build, *shapes)["main"]
    block = SimpleNamespace(
        bindings=[b for b in main.body.blocks[0].bindings if isinstance(b.value, relax.Call)]
    )
    found = onednn.cost(SimpleNamespace(body=SimpleNamespace(blocks=[block])))
    assert found.offloaded == pytest.approx(onednn.CALL + work / onednn.RATE, rel=1e-12)
    assert found.default == pytest.approx(onednn.OWN_CALL + work / onednn.OWN_RATE, rel=1e-12)


def test_when_oneDNN_is_usable(monkeypatch):
    def fails():
        raise OSError("no engine")

    monkeypatch.setattr(dnnl, "engine", fails)
    monkeypatch.setattr(dnnl, "library_path", lambda: "there")
    assert onednn.available() == "oneDNN does not start: no engine"
    monkeypatch.setattr(dnnl, "library_path", lambda: None)
    assert onednn.available().startswith("oneDNN is not installed: pip install")
    monkeypatch.setattr(dnnl, "library_path", lambda: "there")
    monkeypatch.setattr(dnnl, "engine", lambda: 1)
    assert onednn.available() == ""


YES, NO = True, False


@pytest.mark.parametrize(
    ("a", "b", "transposed", "wanted"),
    [
        ([5], [5, 7], (NO, NO), ("gemv", (YES, 5, 7, NO))),
        ([5], [7, 5], (NO, YES), ("gemv", (NO, 7, 5, NO))),
        ([4, 5], [5], (NO, NO), ("gemv", (NO, 4, 5, YES))),
        ([5, 4], [5], (YES, NO), ("gemv", (YES, 5, 4, YES))),
        ([2, 4, 5], [5], (NO, NO), ("gemv", (NO, 8, 5, YES))),
        ([2, 5, 4], [5], (YES, NO), None),
        ([5], [2, 5, 7], (NO, NO), None),
        ([4, 5], [5, 7], (NO, NO), ("gemm", (4, 7, 5))),
        ([5, 4], [7, 5], (YES, YES), ("gemm", (4, 7, 5))),
        ([1, 5], [5, 7], (NO, NO), ("gemv", (YES, 5, 7, NO))),
        ([5, 1], [7, 5], (YES, YES), ("gemv", (NO, 7, 5, NO))),
        ([2, 4, 5], [5, 7], (NO, NO), ("gemm", (8, 7, 5))),
        ([2, 1, 5], [5, 7], (NO, NO), ("gemm", (2, 7, 5))),
        ([2, 5, 4], [5, 7], (YES, NO), None),
        ([2, 3, 4, 5], [2, 3, 5, 7], (NO, NO), ("batched", (6, 4, 7, 5))),
        ([2, 5, 4], [2, 7, 5], (YES, YES), ("batched", (2, 4, 7, 5))),
        ([2, 4, 5], [1, 5, 7], (NO, NO), None),
        ([4, 5], [2, 5, 7], (NO, NO), None),
    ],
)
def test_the_functions_of_blas(a, b, transposed, wanted):
    numbers = [[const(v, "int64") for v in shape] for shape in (a, b)]
    found = blas.plan(*numbers, transposed)
    if found is not None:
        plain = [e if isinstance(e, bool) else int(e) for e in found[1]]
        found = found[0], tuple(plain)
    assert found == wanted


def test_names_of_inputs_for_tensorrt():
    made, name = SimpleNamespace(tensors={"x": {}, "x_": {}}), tensorrt_json.Describer.input
    info = dims((2, 3), "float16")
    assert name(made, "x", info) == "x__" and name(made, "y", info) == "y"
    assert made.tensors["y"] == {"dtype": "float16", "shape": [2, 3]}
    assert name(made, "s", relax.ShapeStructInfo((2,))) is None and "s" not in made.tensors


def test_passes_and_targets_of_other_packages():
    """As entry points give them."""
    with pipeline.PIPELINES.registry.snapshot():
        assert pipeline._take("theirs", Sequential([CanonicalizeBindings()]), "p") == ["theirs"]
        assert relax.get_pipeline("theirs").names() == ["CanonicalizeBindings"]
        assert pipeline._take("made", lambda: CanonicalizeBindings(), "p") == ["made"]
        assert relax.get_pipeline("made").name == "CanonicalizeBindings"
        with pytest.raises(
            base.LoopwrightError, match="the entry point bad is not a pass\n  got: 3"
        ):
            pipeline._take("bad", 3, "p")
