"""Complex numbers are moved: what onnx's evaluator gives, static and symbolic; elsewhere refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import loopwright
from loopwright.base.errors import LoopwrightError
from loopwright.frontend.onnx import from_onnx
from loopwright.ir.prim_op import add, cast, const

from .support import bools, interpreted, ints, operator

KINDS = {"complex64": TensorProto.COMPLEX64, "complex128": TensorProto.COMPLEX128}


def z(*shape: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.normal(size=shape) + 1j * rng.normal(size=shape)


PLACES = np.array([[1], [3]])
CASES = [
    ("Identity", (z(3, 4),), {}),
    ("Transpose", (z(3, 4, 5),), {"perm": [2, 0, 1]}),
    ("Reshape", (z(3, 4), ints(2, 6)), {"fed": 1, "symbolic": False}),
    ("Flatten", (z(2, 3, 4),), {}),
    ("Unsqueeze", (z(3), ints(0)), {"fed": 1}),
    ("Squeeze", (z(1, 3), ints(0)), {"fed": 1, "symbolic": False}),
    ("Expand", (z(3, 1), ints(3, 4)), {"fed": 1, "symbolic": False}),
    ("Tile", (z(3, 2), ints(2, 2)), {"fed": 1}),
    ("Concat", (z(2, 3), z(2, 4, seed=1)), {"axis": 1, "symbolic": False}),
    ("Split", (z(4, 6),), {"outputs": 2, "axis": 1, "num_outputs": 2, "symbolic": False}),
    ("Slice", (z(5, 6), ints(1), ints(5), ints(1)), {"fed": 1}),
    ("Gather", (z(5, 3), ints(4, 0, 2)), {}),
    ("GatherElements", (z(3, 3), np.array([[0, 2, 1]])), {}),
    ("GatherND", (z(4, 3), PLACES), {"symbolic": False}),
    ("ScatterND", (z(4, 3), PLACES, z(2, 3, seed=1)), {"symbolic": False}),
    ("ScatterElements", (z(3, 3), np.array([[2, 0, 1]]), z(1, 3, seed=1)), {"symbolic": False}),
    ("TensorScatter", (z(2, 4, 3), z(2, 1, 3, seed=1), ints(1, 2)), {"opset": 24, "symbolic": False}),
    ("Where", (bools(3, 4), z(3, 4), z(3, 4, seed=1)), {"symbolic": False}),
    ("Pad", (z(3, 4), ints(1, 0, 0, 2)), {"fed": 1}),
    ("Pad", (z(3, 4), ints(1, 0, 0, 2), z()), {"fed": 1}),
    ("Trilu", (z(4, 4),), {}),
    ("Compress", (z(4, 2), np.array([True, False, True, True])), {"axis": 0}),
    ("ReverseSequence", (z(4, 2), ints(2, 4)), {"symbolic": False}),
    ("DepthToSpace", (z(1, 8, 2, 3),), {"blocksize": 2, "symbolic": False}),
    ("SpaceToDepth", (z(1, 2, 4, 6),), {"blocksize": 2, "symbolic": False}),
    ("CenterCropPad", (z(5, 4), ints(3, 6)), {"fed": 1, "symbolic": False}),
    ("Shape", (z(2, 3),), {}),
    ("Size", (z(2, 3),), {}),
]  # fmt: skip


def same(model: ModelProto, feeds: dict[str, np.ndarray], got: Any) -> None:
    expected = ReferenceEvaluator(model).run(None, feeds)
    for a, b in zip(got, expected, strict=True):
        assert (a.shape, a.dtype) == (b.shape, b.dtype)
        np.testing.assert_array_equal(a, b)


@pytest.mark.sample(4)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("case", CASES, ids=lambda c: c[0])
def test_moved(case, kind):
    op_type, inputs, options = case
    given = [v.astype(kind) if v.dtype.kind == "c" else v for v in inputs]
    for symbolic in {False, options.get("symbolic", True)}:
        model, feeds = operator(op_type, *given, **{"opset": 20, **options, "symbolic": symbolic})
        same(model, feeds, interpreted(from_onnx(model), feeds))
        got = loopwright.compile(model).run(feeds).values()
        same(model, feeds, [v.numpy() for v in got])


@pytest.mark.parametrize("kind", KINDS)
def test_in_c(kind):
    model, feeds = operator("Transpose", z(3, 4, 5).astype(kind), opset=20, perm=[2, 0, 1])
    run = loopwright.compile(model, target="c").build()
    np.testing.assert_array_equal(run(*feeds.values()), np.transpose(*feeds.values(), (2, 0, 1)))


def graph(nodes: list[Any], kind: str, *constants: np.ndarray) -> ModelProto:
    """A model of c (bool) and x (4 numbers) that gives y."""
    inputs = [
        helper.make_tensor_value_info("c", TensorProto.BOOL, []),
        helper.make_tensor_value_info("x", KINDS[kind], ["n"]),
    ]
    output = helper.make_tensor_value_info("y", KINDS[kind], None)
    made = [numpy_helper.from_array(v, f"k{i}") for i, v in enumerate(constants)]
    return helper.make_model(
        helper.make_graph(nodes, "g", inputs, [output], made),
        opset_imports=[helper.make_opsetid("", 20)], ir_version=9,
    )  # fmt: skip


def way(kind: str, *sources: str) -> Any:
    output = helper.make_tensor_value_info("out", KINDS[kind], None)
    nodes = [helper.make_node("Concat", sources, ["out"], axis=0)]
    return helper.make_graph(nodes, "way", [], [output])


def body(kind: str) -> Any:
    x = [helper.make_tensor_value_info(n, KINDS[kind], ["n"]) for n in ("v", "grown", "seen")]
    c = [helper.make_tensor_value_info(n, TensorProto.BOOL, []) for n in ("before", "after")]
    count = helper.make_tensor_value_info("turn", TensorProto.INT64, [])
    nodes = [
        helper.make_node("Identity", ["before"], ["after"]),
        helper.make_node("Identity", ["v"], ["grown"]),
        helper.make_node("Identity", ["v"], ["seen"]),
    ]
    return helper.make_graph(nodes, "body", [count, c[0], x[0]], [c[1], x[1], x[2]])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("what", ["If", "Loop", "Sequence", "Where"])
def test_in_control_flow_and_sequences(kind, what):
    w = z(4, seed=3).astype(kind)
    node, constants = helper.make_node, [w]
    if what == "If":
        nodes = [
            node("If", ["c"], ["y"], then_branch=way(kind, "x"), else_branch=way(kind, "k0", "x"))
        ]
    elif what == "Loop":
        constants = [np.array(3), np.array(True)]
        loop = node("Loop", ["k0", "k1", "x"], ["last", "all"], body=body(kind))
        nodes = [loop, node("Flatten", ["all"], ["y"])]
    elif what == "Sequence":
        nodes = [
            node("SequenceConstruct", ["x", "k0"], ["s"]),
            node("ConcatFromSequence", ["s"], ["y"], axis=0),
        ]
    else:
        constants = [w[0]]
        nodes = [node("Where", ["c", "x", "k0"], ["y"])]
    model = graph(nodes, kind, *map(np.asarray, constants))
    run = loopwright.compile(model)
    for flag in (True, False):
        feeds = {"c": np.array(flag), "x": z(4).astype(kind)}
        same(model, feeds, [v.numpy() for v in run.run(feeds).values()])


@pytest.mark.parametrize("op_type", ["Cast", "Relu", "Unique", "ReduceSum"])
def test_not_computed_with(op_type):
    options = {"to": TensorProto.FLOAT} if op_type == "Cast" else {}
    model, _ = operator(op_type, z(3).astype("complex64"), opset=20, **options)
    with pytest.raises(LoopwrightError, match=f"{op_type}: it takes no complex numbers") as caught:
        from_onnx(model)
    assert "imaginary part" in str(caught.value) and "onnx:" in str(caught.value)


def test_no_arithmetic_in_loops():
    one = const(1.0, "complex64")
    for compute in (lambda: add(one, one), lambda: cast("float32", one)):
        with pytest.raises(TypeError, match="complex numbers are moved, not computed with"):
            compute()
    with pytest.raises(TypeError, match="a literal is real"):
        const(1j, "complex64")
