"""Broken and hostile files end in an error that says what is wrong, in time."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("tflite", reason="the package tflite, TFLite's schema, is not installed")

import contextlib

from loopwright.base.errors import LoopwrightError
from loopwright.frontend.tflite import from_tflite
from tests.counting import calls

from .support import Graph, model
from .test_importer import detection, doubling, lstm_model, two_convolutions

F = np.float32


def refused(data: bytes, match: str = "") -> None:
    with pytest.raises(LoopwrightError, match=match):
        from_tflite(data)


def test_no_model():
    refused(b"", "these bytes: no TFLite model, or only a part of one\n  got: 0 bytes")
    refused(b"\0" * 100, "without the mark TFL3")
    refused(b"\xff\xff\xff\x7fTFL3" + b"\0" * 100, "108 bytes that are not a whole flatbuffer")
    with pytest.raises(
        FileNotFoundError, match=r"the TFLite file does not exist\n  got: gone.tflite"
    ):
        from_tflite("gone.tflite")
    with pytest.raises(TypeError, match="a TFLite model is a path or bytes"):
        from_tflite(3)


def test_parts_of_a_file(rng):
    """Every start of a file is refused, or says the same."""
    data, _ = two_convolutions(rng)
    for size in range(8, len(data), 37):
        try:
            from_tflite(data[:size])
        except LoopwrightError:
            continue
        pytest.fail(f"{size} of {len(data)} bytes were a model")


@pytest.mark.sample(4)
@pytest.mark.parametrize("make", [lambda rng: two_convolutions(rng)[0], lambda _: doubling(),
                                  lambda rng: lstm_model(rng, True, 0.3)[0], lambda _: detection(False)[0]])  # fmt: skip
def test_changed_bytes(rng, make):
    """A changed file is a model or refused; nothing else is raised, and none takes far more work than
    the file itself."""
    data = make(rng)
    most = 5 * calls(lambda: from_tflite(data))

    def read(changed):
        with contextlib.suppress(LoopwrightError):
            from_tflite(bytes(changed))

    for _ in range(150):
        changed = bytearray(data)
        for _ in range(rng.integers(1, 4)):
            where = rng.integers(8, len(data))
            changed[where] = rng.choice([0, 1, 0x7F, 0x80, 0xFF, rng.integers(256)])
        assert calls(lambda changed=changed: read(changed)) < most


def with_tensor(**more) -> Graph:
    g = Graph()
    x = g.input((2, 3))
    g.tensor((2, 3), **more)
    g.outputs = [g.op("ADD", [x, 1], {"shape": (2, 3)}, "Add")]
    return g


def test_constants_that_do_not_fill_their_shape():
    refused(model(with_tensor(data=np.zeros(4, F), name="w")),
            "tensor w: its data does not fill its shape\n  got: 16 bytes for .2, 3. of float32")  # fmt: skip


def test_numbers_of_tensors_and_graphs():
    g = Graph()
    g.outputs = [g.op("ABS", [g.input((2, 3))], {"shape": (2, 3)})]
    g.operators[0] = ("ABS", [77], g.outputs, "", {}, None)
    refused(model(g), "tensor 77 of 2")
    g.operators[0] = ("ABS", g.outputs, g.outputs, "", {}, None)
    refused(model(g), "the graph's nodes form a cycle")


def test_graphs_that_call_each_other():
    def calling(target: int) -> Graph:
        g = Graph()
        inputs = [g.input((1,)), g.input((1,))]
        outs = [g.tensor((1,)), g.tensor((1,))]
        g.op("WHILE", inputs, outs, "While", CondSubgraphIndex=1, BodySubgraphIndex=target)
        g.outputs = outs
        return g

    cond = Graph()
    a, b = cond.input((1,)), cond.input((1,))
    cond.outputs = [cond.op("LESS", [a, b], {"shape": (1,), "dtype": "bool"})]
    refused(model(calling(2), cond, calling(2)), "in a circle")
    refused(model(calling(9), cond), "the model does not have a graph 9\n  got: 2 graphs")


def test_more_tables_than_bytes(rng):
    """A vector of a million operators that are one."""
    data, _ = two_convolutions(rng)
    big = bytearray(data) + bytearray(b"\0" * 64)
    import tflite

    graph = tflite.Model.GetRootAs(big, 0).Subgraphs(0)
    at = graph._tab.Vector(graph._tab.Offset(10)) - 4  # the number of operators
    big[at : at + 4] = (1 << 30).to_bytes(4, "little")
    read = calls(lambda: refused(bytes(big), "its tables hold more than its bytes can"))
    assert read < 10_000


def test_a_small_file_that_asks_for_much_memory():
    g = Graph()
    shape = g.constant(np.array([1 << 20, 1 << 20], np.int32))
    filled = g.op("FILL", [shape, g.constant(np.array(0, F))], {"shape": (1 << 20, 1 << 20)})
    g.inputs.append(g.tensor((1,), name="x"))
    g.outputs = [g.op("CAST", [filled], {"shape": (1 << 20, 1 << 20), "dtype": "int8"}, "Cast")]
    mod = from_tflite(model(g))  # nothing of that size is made while importing
    assert "1048576" in mod.script()
