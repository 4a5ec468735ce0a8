"""Integers known at import: what follows from shapes, and what rules leave to the operators."""

from __future__ import annotations

import numpy as np
import pytest

from loopwright.frontend.graph.operators import integers
from loopwright.frontend.graph.values import object_array, wrapped
from loopwright.frontend.onnx import from_onnx
from loopwright.ir.dtype import DataType
from loopwright.relax.expr import Constant
from loopwright.relax.interpreter import Interpreter

from .support import check, floats, graph, ints, node, value

X = floats(3, 4)
ONE, TWO, STEP = ints(1), ints(2), ints(-1)
# op, inputs (s is the shape of x, d its first dimension), weights, opset, attributes, and the
# elements where all are known if x is (3, 4)
CASES = [
    ("Slice", ["s"], {}, 9, {"starts": [1], "ends": [2]}, [4]),
    ("Slice", ["s"], {}, 9, {"starts": [-1], "ends": [9], "axes": [0]}, [4]),
    ("Slice", ["s", "a", "d"], {"a": ints(0)}, 17, {}, [3, 4]),
    ("Slice", ["s", "d", "a"], {"a": ints(9)}, 17, {}, []),
    ("Slice", ["s", "a", "b", "", "c"], {"a": ints(9), "b": ints(-9), "c": STEP}, 17, {}, [4, 3]),
    ("Slice", ["s", "a", "b", "", "c"], {"a": ints(-1), "b": ints(-2), "c": STEP}, 17, {}, [4]),
    ("Slice", ["s", "a", "b", "z", "c"], {"a": ints(0), "b": TWO, "z": ints(-1), "c": TWO}, 17, {}, [3]),
    ("Gather", ["s", "a"], {"a": ints(1, -2)}, 17, {}, [4, 3]),
    ("Gather", ["t", "a"], {"a": ints(1), "t": np.arange(6).reshape(2, 3)}, 17, {"axis": 1}, [[1], [4]]),
    ("Gather", ["t", "d"], {"t": np.arange(9)}, 17, {}, [3]),
    ("Concat", ["s", "a"], {"a": ints(7)}, 17, {"axis": 0}, [3, 4, 7]),
    ("Split", ["s"], {}, 17, {}, [3]),
    ("Split", ["s"], {}, 9, {"split": [1, 1]}, [3]),
    ("Unsqueeze", ["s", "a"], {"a": ints(0, 2)}, 17, {}, [[[3], [4]]]),
    ("Unsqueeze", ["s"], {}, 9, {"axes": [1]}, [[3], [4]]),
    ("Squeeze", ["d"], {}, 17, {}, 3),
    ("Squeeze", ["d", "a"], {"a": ints(0)}, 17, {}, 3),
    ("Squeeze", ["d"], {}, 9, {"axes": [0]}, 3),
    ("Reshape", ["s", "a"], {"a": ints(2, 1)}, 17, {}, [[3], [4]]),
    ("Reshape", ["s", "a"], {"a": ints(0, -1)}, 17, {}, [[3], [4]]),
    ("Reshape", ["a", "d"], {"a": ints(5, 6, 7)}, 17, {}, [5, 6, 7]),
    ("Slice", ["s", "a", "b", "", "d"], {"a": ints(0), "b": TWO}, 17, {}, [3]),
    ("Expand", ["s", "a"], {"a": ints(2, 2)}, 17, {}, [[3, 4], [3, 4]]),
    ("Expand", ["a", "d"], {"a": ints(5)}, 17, {}, [5, 5, 5]),
    ("Tile", ["s", "a"], {"a": TWO}, 17, {}, [3, 4, 3, 4]),
    ("Tile", ["a", "d"], {"a": ints(5)}, 17, {}, [5, 5, 5]),
    ("Range", ["zero", "e", "two"], {"zero": np.array(0), "two": np.array(2)}, 17, {}, [0, 2]),
    ("Range", ["e", "zero", "m"], {"zero": np.array(0), "m": np.array(-1)}, 17, {}, [3, 2, 1]),
    ("Mod", ["s", "a"], {"a": ints(-3)}, 17, {}, [0, -2]),
    ("Div", ["a", "d"], {"a": ints(-7, 7)}, 17, {}, [-2, 2]),
    ("Max", ["s", "a", "d"], {"a": ints(2)}, 17, {}, [3, 4]),
    ("Min", ["s", "a"], {"a": ints(3)}, 17, {}, [3, 3]),
    ("Neg", ["s"], {}, 17, {}, [-3, -4]),
    ("ReduceSum", ["s"], {}, 17, {}, [7]),
    ("ReduceSum", ["s", "a"], {"a": ints(0)}, 17, {"keepdims": 0}, 7),
    ("ReduceSum", ["s", "a"], {"a": np.zeros(0, np.int64)}, 17, {"keepdims": 0}, 7),
    ("ReduceProd", ["s"], {}, 17, {"axes": [0], "keepdims": 0}, 12),
    ("Less", ["s", "a"], {"a": ints(4)}, 17, {}, [True, False]),
]  # fmt: skip


@pytest.mark.parametrize("symbolic", [False, True])
@pytest.mark.parametrize(
    "number", range(len(CASES)), ids=[f"{c[0]}-{k}" for k, c in enumerate(CASES)]
)
def test_of_shapes(number, symbolic):
    """Of a known shape all is computed at import; of a symbolic one, the program computes the same."""
    name, inputs, weights, opset, attributes, wanted = CASES[number]
    given = {"zero_": ints(0), "none": np.array(0), **weights}
    outputs = ["y", "rest"] if name == "Split" else ["y"]
    nodes = [
        node("Shape", ["x"], ["s"]),
        node("Gather", ["s", "zero_"], ["d"], axis=0),
        node("Gather", ["s", "none"], ["e"], axis=0),
        node(name, inputs, outputs, **attributes),
    ]
    wanted = np.array(wanted, bool if name == "Less" else np.int64)
    ports = [value("x", ["n", "m"] if symbolic else [3, 4])], [value("y", None, wanted.dtype)]
    model = graph(nodes, *ports, given, opset)
    check(model, {"x": X})
    if not symbolic:
        body = from_onnx(model)["main"].body
        (last,) = {b.value for block in body.blocks for b in block.bindings} or {body.body}
        np.testing.assert_array_equal(last.data.numpy(), wanted, strict=True)


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_integers_wrap_around_as_their_type_does(dtype):
    """Also beside elements that are within it, and beside truth values, which stay."""
    numbers = [k * (1 << bits) + by for k in (1, -1) for bits in (31, 32, 63) for by in (-1, 0, 1)]
    got = wrapped(object_array([*numbers, 3, True]), DataType(dtype))
    wide = np.array([n % (1 << 64) for n in [*numbers, 3, 1]], np.uint64)
    assert got.tolist() == wide.astype(dtype).tolist() and got[-1] is True


# The number of a case, and the most elements with which it is not computed at import any more.
LIMITS = {
    "Concat": 2,
    "Gather-8": 1,
    "Expand": 3,
    "Tile": 3,
    "Range": 1,
    "Mod": 1,
    "Max": 1,
    "Less": 1,
}


@pytest.mark.parametrize("limit", LIMITS)
def test_not_too_many_are_computed_at_import(limit, monkeypatch):
    """One element more is."""
    name, _, number = limit.partition("-")
    case = CASES[int(number)] if number else next(c for c in CASES if c[0] == name)
    _, inputs, weights, opset, attributes, wanted = case
    given = {"none": np.array(0), "zero_": ints(0), **weights}
    nodes = [
        node("Shape", ["x"], ["s"]),
        node("Gather", ["s", "zero_"], ["d"], axis=0),
        node("Gather", ["s", "none"], ["e"], axis=0),
        node(name, inputs, ["y"], **attributes),
    ]
    ports = [value("x", [3, 4])], [value("y", None, np.array(wanted).dtype)]
    model = graph(nodes, *ports, given, opset)
    known = []
    for most in (LIMITS[limit], LIMITS[limit] + 1):
        monkeypatch.setattr(integers, "MOST_ELEMENTS", most)
        known.append(isinstance(from_onnx(model)["main"].body.body, Constant))
    assert known == [False, True]
    np.testing.assert_array_equal(from_onnx(model)["main"].body.body.data.numpy(), wanted)


@pytest.mark.parametrize(
    ("name", "inputs", "weights", "opset", "attributes", "wanted"),
    [
        ("Mod", ["s", "a"], {"a": ints(-3)}, 17, {"fmod": 1}, [0, 1]),
        ("ReduceSum", ["s"], {}, 17, {"noop_with_empty_axes": 1}, [3, 4]),
        ("Less", ["s", "a"], {"a": ints(4)}, 6, {"broadcast": 1}, [True, False]),
    ],
)
def test_options_that_the_rules_leave(name, inputs, weights, opset, attributes, wanted):
    nodes = [node("Shape", ["x"], ["s"]), node(name, inputs, ["y"], **attributes)]
    ports = [value("x", [3, 4])], [value("y", None, np.array(wanted).dtype)]
    module = from_onnx(graph(nodes, *ports, weights, opset))
    np.testing.assert_array_equal(Interpreter(module)["main"](X).numpy(), wanted)


def test_arithmetic_of_old_opsets_stays_known():
    """Before opset 7 operands without attribute broadcast have one shape."""
    nodes = [node("Shape", ["x"], ["s"]), node("Add", ["s", "a"], ["y"])]
    ports = [value("x", ["n", 4])], [value("y", None, np.dtype("int64"))]
    text = from_onnx(graph(nodes, *ports, {"a": ints(1, 2)}, 6)).script()
    assert (
        "n + 1, 6" in text.replace("T.int64(1)", "1").replace("T.int64(6)", "6")
        and "R.add" not in text
    )
