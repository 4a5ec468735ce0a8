"""Rare options of TFLite's operators, by what its documentation says, and what is refused beside them."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("tflite", reason="the package tflite, TFLite's schema, is not installed")

from loopwright.base.errors import LoopwrightError
from loopwright.frontend.tflite import from_tflite
from loopwright.frontend.tflite.reader import Tensor
from loopwright.relax.interpreter import Interpreter

from ...drawing import drawn
from .cases import Case, real
from .support import Graph, model
from .test_operators import compare

TABLE = drawn("test_rare")

F = np.float32
X = real(TABLE, 3, 4, 2)
MASKS = dict.fromkeys(("BeginMask", "EndMask", "EllipsisMask", "NewAxisMask", "ShrinkAxisMask"), 0)


def run(data, feeds):
    return [Interpreter(from_tflite(data))["main"](*feeds).numpy()]


def i32(*values):
    return np.array(values, np.int32)


PLACES = np.array([[1, 0], [3, 3], [2, 1]], np.int32)
ROWS = np.array([True, False, True])
CASES = [
    Case("SELECT", [ROWS, X, X + 1], lambda c, x, y: np.where(c[:, None, None], x, y)),
    Case("SELECT", [np.array([True, False]), X[0, 0], X[1, 1]], np.where),
    Case("SELECT_V2", [np.array([True, False]), X, X + 1], np.where),
    Case("STRIDED_SLICE", [X], lambda x, *_: x[1:3, 0:4:2, 1:2], [i32(1, 0, 1), i32(2, 4, 1), i32(1, 2, 1)],
         "StridedSlice", {**MASKS, "Offset": True}),
    *[Case("GATHER", [X, PLACES], lambda x, p: np.stack([a[b] for a, b in zip(x, p, strict=True)]), [],
           "Gather", {"Axis": 1, "BatchDims": b}) for b in (1, -1)],
    *[Case("MIRROR_PAD", [X], lambda x, _, m=m, w=w: np.pad(x, w, m), [np.array(w, np.int32)], "MirrorPad", {"Mode": k})
      for k, (m, w) in enumerate([("reflect", [(2, 0), (0, 3), (1, 1)]), ("symmetric", [(0, 3), (4, 0), (2, 2)])])],
    Case("UNIDIRECTIONAL_SEQUENCE_RNN", [real(TABLE, 2, 1, 4)], lambda x, w, r, b, h: x @ w.T + b,  # no activation, no state
         [real(TABLE, 5, 4), np.zeros((5, 5), F), real(TABLE, 5), np.zeros((1, 5), F)], "SequenceRNN",
         {"TimeMajor": True, "FusedActivationFunction": 0}),
    Case("CAST", [X], lambda x: x.astype(np.int32), [], "Cast", {"InDataType": 0, "OutDataType": 2}),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=[f"{c.kind}-{k}" for k, c in enumerate(CASES)])
def test_rare_options(case):
    compare(run(case.graph(), case.inputs), case.expected())


@pytest.mark.parametrize("mode", [0, 1])
@pytest.mark.parametrize("width", [(-1, 0), (0, -1), (3, 0), (0, 3), (2, 0), (0, 2), (1, 1)])
def test_what_is_mirrored(rng, mode, width):
    """`reflect` has one element less to give than `symmetric`: of 2 elements 1 and 2."""
    g = Graph()
    x = g.input((3, 2))
    pads = g.constant(np.array([(0, 0), width], np.int32))
    g.outputs = [g.op("MIRROR_PAD", [x, pads], {"shape": (3, 4)}, "MirrorPad", Mode=mode)]
    most = 1 + mode
    if min(width) >= 0 and max(width) <= most:
        value = real(rng, 3, 2)
        compare(
            run(model(g), [value]), [np.pad(value, [(0, 0), width], ("reflect", "symmetric")[mode])]
        )
        return
    with pytest.raises(LoopwrightError, match=f"mirrors axis 1 must be between 0 and {most}"):
        from_tflite(model(g))


def test_axes_of_unknown_extent_are_not_mirrored(rng):
    for widths, fits in (([(0, 0), (1, 0)], True), ([(1, 0), (0, 0)], False)):
        g = Graph()
        x = g.input((3, 2), signature=(-1, 2))
        pads = g.constant(np.array(widths, np.int32))
        g.outputs = [g.op("MIRROR_PAD", [x, pads], {"shape": (3, 3)}, "MirrorPad", Mode=0)]
        if fits:
            value = real(rng, 5, 2)
            compare(run(model(g), [value]), [np.pad(value, widths, "reflect")])
        else:
            with pytest.raises(LoopwrightError, match="a mirrored axis must have a known extent"):
                from_tflite(model(g))


def test_float16_constants(rng):
    g = Graph()
    x, half = g.input((2, 3)), real(rng, 2, 3).astype(np.float16)
    y = g.op("DEQUANTIZE", [g.constant(half)], {"shape": (2, 3)})
    g.outputs = [g.op("ADD", [x, y], {"shape": (2, 3)}, "Add")]
    value = real(rng, 2, 3)
    compare(run(model(g), [value]), [value + half.astype(F)])


def test_bytes_of_int4():
    """The first of two numbers is in the lower half of a byte."""
    bytes_ = np.uint8([0x81, 0xF7, 0x0C])
    for count in (5, 6):
        tensor = Tensor("t", "int4", (count,), None, bytes_, False)
        np.testing.assert_array_equal(tensor.array(), np.int8([1, -8, 7, -1, -4, 0])[:count])
        assert tensor.array().dtype == np.int8
    for count in (4, 7):
        with pytest.raises(LoopwrightError):
            Tensor("t", "int4", (count,), None, bytes_, False).array()


def test_a_branch_of_other_inputs():
    then = Graph()
    then.outputs = [then.op("NEG", [then.input((2,))], {"shape": (2,)})]
    g = Graph()
    inputs = [g.input((), "bool"), g.input((2,)), g.input((2,))]
    numbers = {"ThenSubgraphIndex": 1, "ElseSubgraphIndex": 1}
    g.outputs = [g.op("IF", inputs, {"shape": (2,)}, "If", **numbers)]
    with pytest.raises(LoopwrightError, match=r"graph 1 takes 1 inputs\n  got: 2"):
        from_tflite(model(g, then))


@pytest.mark.parametrize("number", [0, 2])
def test_a_branch_that_is_not_there(number):
    g, then = Graph(), Graph()
    then.outputs = [then.op("NEG", [then.input((2,))], {"shape": (2,)})]
    numbers = {"ThenSubgraphIndex": 1, "ElseSubgraphIndex": number}
    inputs = [g.input((), "bool"), g.input((2,))]
    g.outputs = [g.op("IF", inputs, {"shape": (2,)}, "If", **numbers)]
    with pytest.raises(
        LoopwrightError, match=rf"the model does not have a graph {number}\n  got: 2 graphs"
    ):
        from_tflite(model(g, then))


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def lstm(x, w, r, p, b, projection, shift, h, c, norms, clips):
    """As TFLite's kernel documents it, gates i, f, c, o."""
    outs = []
    for t in range(x.shape[1]):

        def gate(k, act, cell=None, step=x[:, t], h=h):
            total = step @ w[k].T + h @ r[k].T
            if cell is not None:
                total = total + cell * p[k if k < 2 else 2]
            if norms:
                gap = total - total.mean(-1, keepdims=True)
                total = gap / np.sqrt((gap**2).mean(-1, keepdims=True) + 1e-8) * norms[k]
            return act(total + b[k])

        i, f, g = gate(0, sigmoid, c), gate(1, sigmoid, c), gate(2, np.tanh)
        c = np.clip(f * c + i * g, -clips[0], clips[0])
        h = gate(3, sigmoid, c) * np.tanh(c)
        h = h @ projection.T + (0 if shift is None else shift)
        h = np.clip(h, -clips[1], clips[1])
        outs.append(h)
    return np.stack(outs, 1).astype(F)


@pytest.mark.parametrize("normed", [False, True])
@pytest.mark.parametrize("shifted", [False, True])
def test_an_lstm_of_all_parts(rng, normed, shifted):
    units, wide, size = 4, 2, 3
    w, r = [real(rng, units, size) for _ in range(4)], [real(rng, units, wide) for _ in range(4)]
    p, b = [real(rng, units) for _ in range(3)], [real(rng, units) for _ in range(4)]
    projection, shift = real(rng, wide, units), real(rng, wide) if shifted else None
    h, c = real(rng, 1, wide), real(rng, 1, units)  # of one row, for all of a batch
    norms, clips = [real(rng, units) for _ in range(4 * normed)], (0.7, 0.4)
    g = Graph()
    x = g.input((2, 3, size))
    given = [*w, *r, *p, *b, projection, shift, h, c, *norms]
    numbers = [x, *(-1 if a is None else g.constant(a) for a in given)]
    out = g.op(
        "UNIDIRECTIONAL_SEQUENCE_LSTM", numbers, {"shape": (2, 3, wide)}, "UnidirectionalSequenceLSTM",
        FusedActivationFunction=4, CellClip=clips[0], ProjClip=clips[1], TimeMajor=False,
    )  # fmt: skip
    g.outputs = [out]
    value = real(rng, 2, 3, size)
    wanted = lstm(value, w, r, p, b, projection, shift, h, c, norms, clips)
    compare(run(model(g), [value]), [wanted], 2e-5)
