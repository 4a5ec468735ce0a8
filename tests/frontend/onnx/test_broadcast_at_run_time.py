"""Extents of different names broadcast where one is 1 at run time, and are refused where they disagree."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import helper

import loopwright
from loopwright.frontend.onnx import from_onnx
from loopwright.ir.structural import assert_structural_equal
from loopwright.relax.interpreter import Interpreter
from loopwright.relax.transform import LegalizeOps
from loopwright.tir import Select

from .support import close, floats, graph, ints, node, reference, value

F32, BOOL = np.float32, np.bool_
SIZES = [(3, 3), (1, 3), (3, 1), (1, 1), (0, 1), (1, 0), (0, 0), (3, 4), (3, 0)]
DIFFERENT = "another extent than expected"


def model_of(nodes: Any, ports: dict[str, tuple[list[Any], Any]], **weights: Any) -> Any:
    """A model with the output y of unknown shape."""
    inputs = [value(name, dims, dtype) for name, (dims, dtype) in ports.items()]
    return graph(nodes, inputs, [helper.make_empty_tensor_value_info("y")], weights, opset=18)


def drawn(rng: Any, ports: dict[str, tuple[list[Any], Any]], sizes: dict[str, int]) -> Any:
    """Inputs whose named extents are these."""
    shapes = {name: [sizes.get(d, d) for d in dims] for name, (dims, _) in ports.items()}
    return {n: rng.integers(0, 4, s).astype(ports[n][1]) for n, s in shapes.items()}


def agree(model: Any, ports: Any, names: str, meaning: Any, rng: Any) -> None:
    """Compiled and interpreted as numpy does it, for all SIZES; what numpy refuses is refused."""
    mod = from_onnx(model)
    ways = [loopwright.compile(mod)["main"], Interpreter(mod)["main"]]
    ways.append(Interpreter(LegalizeOps()(mod))["main"])
    for sizes in SIZES:
        feeds = drawn(rng, ports, dict(zip(names, sizes, strict=True)))
        try:
            expected = meaning(*feeds.values())
        except ValueError:
            expected = None
        for run in ways:
            if expected is None:
                with pytest.raises(ValueError, match=f"{DIFFERENT}|must be|cannot be computed"):
                    run(*feeds.values())
            else:
                got = run(*feeds.values()).numpy()
                assert got.shape == expected.shape
                np.testing.assert_allclose(got, expected, rtol=1e-5)


def slope(x: Any, s: Any) -> Any:
    return np.where(x < 0, x * s, x)


NUMPY = {
    "Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Pow": np.power, "Equal": np.equal,
    "Less": np.less, "LessOrEqual": np.less_equal, "Greater": np.greater, "Max": np.maximum,
    "GreaterOrEqual": np.greater_equal, "Min": np.minimum, "Sum": np.add, "PRelu": slope,
    "Mean": lambda x, y: (x + y) / 2, "And": np.logical_and, "Or": np.logical_or,
    "Xor": np.logical_xor, "BitwiseAnd": np.bitwise_and, "BitwiseOr": np.bitwise_or,
    "BitwiseXor": np.bitwise_xor, "BitShift": np.left_shift,
}  # fmt: skip
KINDS = {"And": BOOL, "Or": BOOL, "Xor": BOOL}
KINDS |= {n: np.uint32 for n in NUMPY if n.startswith("Bit")}


@pytest.mark.sample(3)
@pytest.mark.parametrize("op_type", NUMPY)
def test_operators_of_two_tensors(op_type, rng):
    kind = KINDS.get(op_type, F32)
    ports = {"p": (["a", 5], kind), "q": (["b", 5], kind)}
    more = {"direction": "LEFT"} if op_type == "BitShift" else {}
    model = model_of([node(op_type, ["p", "q"], ["y"], **more)], ports)
    agree(model, ports, "ab", NUMPY[op_type], rng)


def expanded(x: Any, y: Any) -> Any:
    return np.broadcast_to(x, np.broadcast_shapes(x.shape, y.shape))


FORMS: dict[str, tuple[list[Any], dict[str, tuple[list[Any], Any]], Any]] = {
    "the inner axis": (
        [node("Add", ["p", "q"], ["s"]), node("Mul", ["s", "p"], ["y"])],
        {"p": ([3, "a"], F32), "q": ([3, "b"], F32)},
        lambda p, q: (p + q) * p,
    ),
    "a choice": (
        [node("Where", ["c", "p", "q"], ["y"])],
        {"c": (["a", 5], BOOL), "p": (["b", 5], F32), "q": (["a", 1], F32)},
        np.where,
    ),
    "batches of matrices": (
        [node("MatMul", ["p", "q"], ["s"]), node("Relu", ["s"], ["y"])],
        {"p": (["a", 4, 3], F32), "q": (["b", 3, 5], F32)},
        np.matmul,
    ),
    "batches of an equation": (
        [node("Einsum", ["p", "q"], ["y"], equation="...ij,...jk->...ik")],
        {"p": (["a", 4, 3], F32), "q": (["b", 3, 5], F32)},
        np.matmul,
    ),
    "a shape": (
        [node("Shape", ["q"], ["s"]), node("Expand", ["p", "s"], ["y"])],
        {"p": (["a", 5], F32), "q": (["b", 5], F32)},
        expanded,
    ),
    "a chain": (
        [
            node("Add", ["p", "q"], ["s"]),
            node("Mul", ["s", "p"], ["t"]),
            node("Add", ["q", "p"], ["u"]),
            node("Sub", ["t", "u"], ["v"]),
            node("Concat", ["v", "s"], ["w"], axis=1),
            node("Reshape", ["w", "rows"], ["y"]),
        ],
        {"p": (["a", 5], F32), "q": (["b", 5], F32)},
        lambda p, q: np.concatenate([(p + q) * p - (p + q), p + q], 1).reshape(-1, 10),
    ),
    "the first row": (
        [
            node("Slice", ["p", "zero", "one"], ["s"]),
            node("Add", ["s", "q"], ["t"]),
            node("Mul", ["t", "s"], ["y"]),
        ],
        {"p": (["a", 5], F32), "q": (["b", 5], F32)},
        lambda p, q: (p[:1] + q) * p[:1],
    ),
    "all rows of two": (
        [node("Slice", ["p", "zero", "two"], ["s"]), node("Add", ["s", "q"], ["y"])],
        {"p": (["a", 5], F32), "q": (["b", 5], F32)},
        lambda p, q: p[:2] + q,
    ),
    "rows that data chooses": (
        [
            node("NonZero", ["c"], ["n"]),
            node("Transpose", ["n"], ["at"]),
            node("GatherND", ["p", "at"], ["s"]),
            node("Add", ["s", "q"], ["t"]),
            node("Mul", ["t", "s"], ["y"]),
        ],
        {"c": (["a"], BOOL), "p": (["a", 5], F32), "q": (["b", 5], F32)},
        lambda c, p, q: (p[c] + q) * p[c],
    ),
}


@pytest.mark.parametrize("name", FORMS)
def test_forms(name, rng):
    nodes, ports, meaning = FORMS[name]
    constants = {"zero": ints(0), "one": ints(1), "two": ints(2), "rows": ints(-1, 10)}
    used = {n for each in nodes for n in each.input}
    model = model_of(nodes, ports, **{n: c for n, c in constants.items() if n in used})
    agree(model, ports, "ab", meaning, rng)


def test_a_chain_has_one_extent():
    """However many operators, in whatever order of the operands."""
    mod = from_onnx(chain_of(12))
    a, b = (p.struct_info.shape[0] for p in mod["main"].params)
    assert_structural_equal(mod["main"].ret_struct_info.shape[0], Select(a == 1, b, a))
    calls = [x.value.op.name for x in mod["main"].body.blocks[0].bindings if hasattr(x.value, "op")]
    assert calls.count("relax.broadcast_to") == 1


def chain_of(count: int) -> Any:
    names = ["p", *(f"t{k}" for k in range(count - 1)), "y"]
    nodes = [
        node("Add", [names[k], "q"] if k % 2 else ["q", names[k]], [names[k + 1]])
        for k in range(count)
    ]
    return model_of(nodes, {"p": (["a", 5], F32), "q": (["b", 5], F32)})


def test_equal_names_stay_as_they_are():
    """Nothing is added where the file says that extents are equal, or where 1 cannot meet more."""
    ports = {"p": (["a", "b"], F32), "q": (["a", "b"], F32)}
    mod = from_onnx(model_of([node("Add", ["p", "q"], ["y"])], ports))
    rows = [node("Slice", ["q", "zero", "many"], ["s"]), node("Add", ["p", "s"], ["y"])]
    cut = from_onnx(model_of(rows, ports, zero=ints(0), many=ints(512)))
    # A table of 512 positions, as many of them as there are tokens.
    length = [node("Shape", ["p"], ["sizes"]), node("Gather", ["sizes", "second"], ["n"])]
    table = [node("Slice", ["table", "zero", "n", "second"], ["t"]), node("Add", ["p", "t"], ["y"])]
    weights = {"second": ints(1), "zero": ints(0), "table": np.zeros((1, 512), np.float32)}
    positions = from_onnx(model_of([*length, *table], {"p": (["a", "b"], F32)}, **weights))
    assert "Select" not in str(positions)
    assert list(positions["main"].ret_struct_info.shape) == list(
        positions["main"].params[0].struct_info.shape
    )
    for each in (mod, cut):
        main = each["main"]
        assert main.ret_struct_info.shape[0] is main.params[0].struct_info.shape[0]
        assert "broadcast_to" not in str(each)


def test_exported_in_c(tmp_path, rng):
    ports = {"p": (["a", "c"], F32), "q": (["b", "d"], F32)}
    nodes = [node("Add", ["p", "q"], ["s"]), node("Mul", ["s", "p"], ["y"])]
    run = loopwright.compile(model_of(nodes, ports), target="c").build(tmp_path)["main"]
    for sizes in ((3, 20, 3, 20), (3, 20, 1, 20), (1, 20, 3, 1), (3, 1, 3, 20), (0, 4, 1, 1)):
        p, q = drawn(rng, ports, dict(zip("acbd", sizes, strict=True))).values()
        np.testing.assert_array_equal(run(p, q), (p + q) * p)
    with pytest.raises(RuntimeError, match=rf"{DIFFERENT} at onnx:Add:s \(b against a or 1\)"):
        run(np.ones((3, 4), F32), np.ones((2, 4), F32))


# ---------------------------------------------------------------- as exporters write them


def matches(model: Any, *runs: dict[str, np.ndarray]) -> None:
    """As onnxruntime for each of these inputs."""
    exe = loopwright.compile(model)
    for feeds in runs:
        close([v.numpy() for v in exe.run(feeds).values()], reference(model, feeds), 1e-4)


def test_attention_with_masks():
    """A mask of its own batch, of 1 or more queries, over keys that have another name."""
    nodes = [
        node("MatMul", ["q", "k"], ["scores"]),
        node("Where", ["mask", "scores", "least"], ["seen"]),
        node("Softmax", ["seen"], ["p"], axis=-1),
        node("MatMul", ["p", "v"], ["y"]),
    ]
    ports = {
        "q": (["batch", 2, "s", 4], F32),
        "k": (["batch", 2, 4, "t"], F32),
        "v": (["batch", 2, "t", 4], F32),
        "mask": (["masks", 1, "rows", "total"], BOOL),
    }

    def feeds(b: int, s: int, t: int, *mask: int) -> dict[str, np.ndarray]:
        seen = floats(mask[0], 1, *mask[1:], seed=4) > -1
        q, k, v = floats(b, 2, s, 4), floats(b, 2, 4, t, seed=1), floats(b, 2, t, 4, seed=2)
        return {"q": q, "k": k, "v": v, "mask": seen}

    model = model_of(nodes, ports, least=F32(-1e9))
    matches(model, feeds(2, 3, 5, 1, 1, 5), feeds(2, 3, 5, 2, 3, 5), feeds(2, 1, 1, 1, 1, 1))


def test_a_graph_network_by_scatter():
    """Messages of edges, weighted by an attribute of each edge or one for all, added up at their ends."""
    nodes = [
        node("Gather", ["x", "source"], ["sent"]),
        node("Mul", ["sent", "weight"], ["message"]),
        node("Shape", ["message"], ["dims"]),
        node("Unsqueeze", ["end", "one"], ["column"]),
        node("Expand", ["column", "dims"], ["at"]),
        node("Mul", ["x", "zero"], ["empty"]),
        node("ScatterElements", ["empty", "at", "message"], ["sum"], axis=0, reduction="add"),
        node("Add", ["sum", "x"], ["y"]),
    ]
    ports = {
        "x": (["nodes", 4], F32),
        "source": (["edges"], np.int64),
        "end": (["edges"], np.int64),
        "weight": (["weights", 1], F32),
    }
    model = model_of(nodes, ports, one=ints(1), zero=F32(0))
    source, end = np.array([0, 1, 2, 2, 0]), np.array([1, 2, 0, 1, 0])
    given = {"x": floats(3, 4), "source": source, "end": end}
    matches(model, *({**given, "weight": floats(n, 1, seed=1)} for n in (5, 1)))


def test_a_mixture_of_experts():
    """The tokens that an expert takes are chosen by the run: two, one or none."""
    nodes = [
        node("Greater", ["gate", "half"], ["taken"]),
        node("NonZero", ["taken"], ["found"]),
        node("Transpose", ["found"], ["at"]),
        node("GatherND", ["x", "at"], ["tokens"]),
        node("MatMul", ["tokens", "w"], ["h"]),
        node("GatherND", ["gate", "at"], ["share"]),
        node("Unsqueeze", ["share", "one"], ["column"]),
        node("Mul", ["h", "column"], ["weighted"]),
        node("Add", ["weighted", "bias"], ["out"]),
        node("ScatterND", ["x", "at", "out"], ["y"]),
    ]
    ports = {"x": (["n", 4], F32), "gate": (["n"], F32), "bias": (["m", 4], F32)}
    model = model_of(nodes, ports, half=F32(0.5), one=ints(1), w=floats(4, 4, seed=3))
    gates = [(0.7, 0.1, 0.9), (0.7, 0.1, 0.2), (0.1, 0.2, 0.3)]
    runs = [{"x": floats(3, 4), "gate": F32(g), "bias": floats(1, 4, seed=5)} for g in gates]
    matches(model, *runs, {**runs[0], "bias": floats(2, 4, seed=6)})
