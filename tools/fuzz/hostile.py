"""ONNX files that mean harm, written by hand: {name: function that gives the bytes of the file}."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from onnx import ModelProto, TensorProto, helper, numpy_helper

HOSTILE: dict[str, Callable[[], bytes]] = {}
HUGE = (2**31, 2**40, 2**62, 2**63 - 1, -1, -(2**63))
node = helper.make_node


def model(
    nodes: Sequence[Any],
    inputs: dict[str, Sequence[Any]] | None = None,
    weights: dict[str, Any] | None = None,
    outputs: Sequence[str] = ("y",),
    functions: Sequence[Any] = (),
    opset: int = 18,
    element: int = TensorProto.FLOAT,
) -> ModelProto:
    """A model; inputs are {name: dims}, weights {name: array or TensorProto}."""
    ports = [helper.make_tensor_value_info(n, element, d) for n, d in (inputs or {}).items()]
    stored = []
    for name, value in (weights or {}).items():
        if not isinstance(value, TensorProto):
            value = numpy_helper.from_array(np.asarray(value), name)
        value.name = name
        stored.append(value)
    results = [helper.make_empty_tensor_value_info(n) for n in outputs]
    graph = helper.make_graph(list(nodes), "hostile", ports, results, stored)
    domains = {"": opset, "own": 1, "com.microsoft": 1, "ai.onnx.ml": 4}
    versions = [helper.make_opsetid(*entry) for entry in domains.items()]
    return helper.make_model(graph, opset_imports=versions, ir_version=10, functions=functions)


def add(name: str, make: Callable[[], Any]) -> None:
    """Enter a file into the table."""

    def data() -> bytes:
        made = make()
        return made if isinstance(made, bytes) else made.SerializeToString()

    HOSTILE[name] = data


def one(
    op: str, *args: Any, opset: int = 18, outputs: Sequence[str] = ("y",), **attrs: Any
) -> Callable[[], ModelProto]:
    """One node: a list is the shape of an input, an array a weight, a str a name as it is."""

    def make() -> ModelProto:
        inputs, weights, names = {}, {}, []
        for k, arg in enumerate(args):
            if isinstance(arg, str):
                names.append(arg)
                continue
            names.append(f"x{k}")
            (inputs if isinstance(arg, list) else weights)[names[-1]] = arg
        made = [node(op, names, outputs, **attrs)]
        return model(made, inputs, weights, outputs, opset=opset)

    return make


def i64(*values: int) -> np.ndarray:
    """A vector of integers."""
    return np.array(values, np.int64)


# ---------------------------------------------------------------------- sizes, indices

for size in HUGE:
    add(f"ConstantOfShape {size}", one("ConstantOfShape", i64(size)))
    add(f"ConstantOfShape {size}, squared", one("ConstantOfShape", i64(size, size)))
    add(f"Expand to {size}", one("Expand", ["n", 1], i64(1, size)))
    add(f"Tile {size}", one("Tile", ["n", 4], i64(1, size)))
    add(f"Pad by {size}", one("Pad", ["n", 4], i64(0, size, 0, 0)))
    add(f"Pad by {size} and back", one("Pad", ["n", 4], i64(0, size, 0, -size if size > 0 else 7)))
    add(f"OneHot {size}", one("OneHot", i64(1, 2), np.int64(size), np.float32([0, 1])))
    add(f"Range {size}", one("Range", np.int64(0), np.int64(size), np.int64(1)))
    add(f"Reshape {size}", one("Reshape", ["n", 4], i64(-1, size)))
    add(f"Slice by {size}", one("Slice", ["n", 4], i64(size), i64(size), i64(1), i64(size)))
    add(f"Gather {size}", one("Gather", ["n", 4], i64(size)))
    add(f"Gather {size} of axis 1", one("Gather", ["n", 4], i64(size), axis=1))
    add(f"GatherElements {size}", one("GatherElements", [1, 4], i64(size).reshape(1, 1)))
    add(f"GatherND {size}", one("GatherND", [2, 4], i64(size, 0).reshape(1, 2)))
    add(f"axis {size}", one("Softmax", [2, 4], axis=size))
    add(f"TopK {size}", one("TopK", [2, 4], i64(size)))
    add(f"Split {size}", one("Split", [2, 4], i64(size, 2)))
    add(f"Resize to {size}", one("Resize", [1, 1, 2, 2], "", "", i64(1, 1, size, 2)))
    add(f"an input of {size}", one("Relu", [size]))
    add(f"an input of {size} rows", one("MatMul", [size, 4], [4, 4]))
    add(f"Conv, strides {size}", one("Conv", [1, 1, 8, 8], [1, 1, 3, 3], strides=[size, size]))
    add(f"Conv, dilations {size}", one("Conv", [1, 1, 8, 8], [1, 1, 3, 3], dilations=[size, 1]))
    add(f"Conv, pads {size}", one("Conv", [1, 1, 8, 8], [1, 1, 3, 3], pads=[size, 0, 0, 0]))
    add(f"Conv, group {size}", one("Conv", [1, 4, 8, 8], [4, 1, 3, 3], group=size))
    add(f"MaxPool, kernel {size}", one("MaxPool", [1, 1, 8, 8], kernel_shape=[size, 2]))
    add(f"EyeLike {size}", one("EyeLike", [3, 3], k=size))
    add(f"Trilu {size}", one("Trilu", [3, 3], np.int64(size)))
    add(f"Cast to {size}", one("Cast", [3], to=size))
    add(f"DepthToSpace {size}", one("DepthToSpace", [1, 4, 2, 2], blocksize=size))
    add(
        f"opset {size}",
        lambda size=size: model([node("Relu", ["x"], ["y"])], {"x": [2]}, opset=size),
    )
for index in (10**6, 10**9, 10**12, -(10**12)):
    for name in ("Gather", "GatherElements", "GatherND"):
        add(f"{name} {index} of a symbolic extent", one(name, ["n", 4], i64(index).reshape(1, 1)))


# ---------------------------------------------------------------------- networks, signals, trees

F32, MS, ML = np.float32, "com.microsoft", "ai.onnx.ml"
GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}


def quarters(*dims: int) -> np.ndarray:
    """A weight of this shape."""
    return np.full(dims, 0.25, F32)


def tree(count: int = 3, **changes: Any) -> Callable[[], ModelProto]:
    """A tree of `count` nodes, each but the last one a test whose ways lead to the next one; some of
    its lists are others."""

    def make() -> ModelProto:
        own = list(range(count))
        following = [min(k + 1, count - 1) for k in own]
        modes = ["BRANCH_LEQ"] * (count - 1) + ["LEAF"]
        given: dict[str, Any] = {"treeids": [0] * count, "nodeids": own, "featureids": [0] * count}
        given |= {"values": [0.0] * count, "modes": modes}
        given |= {"truenodeids": following, "falsenodeids": following}
        made = {f"nodes_{n}": v for n, v in given.items()} | {"n_targets": 1}
        made |= {"target_treeids": [0], "target_nodeids": [count - 1], "target_ids": [0]}
        made |= {"target_weights": [1.0], **changes}
        return one("TreeEnsembleRegressor", ["n", 3], domain=ML, **made)()

    return make


for size in HUGE:
    index = -(2**40) if size == -1 else size  # some count from the end
    for cell, many in GATES.items():
        add(f"{cell} of {size}", one(
            cell, [3, 2, 4], quarters(1, many * 5, 4), quarters(1, many * 5, 5), hidden_size=size))  # fmt: skip
        add(f"{cell}, {size} steps of a batch", one(
            cell, [3, 2, 4], quarters(1, many * 5, 4), quarters(1, many * 5, 5), quarters(1, many * 10),
            np.array([size % 2**31, 1], np.int32), hidden_size=5))  # fmt: skip
    add(f"a window of {size}", one("HannWindow", np.int64(size)))
    add(f"DFT of {size}", one("DFT", [1, 8, 1], np.int64(size), opset=20))
    add(f"DFT along {size}", one("DFT", [1, 8, 1], "", np.int64(size), opset=20))
    add(f"STFT by {size}", one("STFT", [1, 32, 1], np.int64(size), quarters(8)))
    add(f"STFT of {size}", one("STFT", [1, 32, 1], np.int64(2), "", np.int64(size)))
    add(f"mel bins {size}", one(
        "MelWeightMatrix", np.int64(size), np.int64(size), np.int64(16000), F32(0), F32(8000)))  # fmt: skip
    add(f"AffineGrid {size}", one("AffineGrid", [1, 2, 3], i64(1, 1, size, size), opset=20))
    add(f"RoiAlign {size}", one(
        "RoiAlign", [1, 2, 8, 8], [3, 4], i64(0, 0, size), output_height=size, output_width=size))  # fmt: skip
    add(f"RoiAlign of image {size}", one("RoiAlign", [1, 2, 8, 8], quarters(1, 4), i64(index)))
    add(f"RoiAlign, samples {size}", one(
        "RoiAlign", [1, 2, 8, 8], quarters(1, 4), i64(0), sampling_ratio=size))  # fmt: skip
    add(f"MaxRoiPool {size}", one(
        "MaxRoiPool", [1, 2, 8, 8], quarters(1, 5) * F32(size), pooled_shape=[size, 2]))  # fmt: skip
    add(f"Col2Im {size}", one("Col2Im", [1, 4, 9], i64(size, size), i64(2, 2)))
    add(f"MaxUnpool {size}", one(
        "MaxUnpool", [1, 1, 2, 2], i64(index, 0, 1, 2).reshape(1, 1, 2, 2), kernel_shape=[2, 2]))  # fmt: skip
    add(f"ReverseSequence {size}", one("ReverseSequence", [4, 2], i64(size, 1)))
    add(f"ScatterND {size}", one("ScatterND", ["n", 4], i64(size, 0).reshape(1, 2), quarters(1)))
    add(f"ScatterElements {size}", one("ScatterElements", ["n", 1], i64(size).reshape(1, 1), quarters(1, 1)))  # fmt: skip
    add(f"TensorScatter {size}", one("TensorScatter", [1, 7, 2], [1, 3, 2], i64(size), opset=24))
    add(f"NonMaxSuppression {size}", one("NonMaxSuppression", [1, 5, 4], [1, 2, 5], i64(size)))
    add(f"CenterCropPad {size}", one("CenterCropPad", ["n", 4], i64(size, 2)))
    add(f"RandomNormal {size}", one("RandomNormal", shape=[size, 2]))
    add(f"Multinomial {size}", one("Multinomial", [2, 3], sample_size=size))
    add(f"DeformConv, groups {size}", one(
        "DeformConv", [1, 2, 5, 6], quarters(3, 2, 2, 2), quarters(1, 8, 4, 5), offset_group=size, opset=22))  # fmt: skip
    add(f"Attention, {size} heads", one(
        "Attention", [1, 3, 8], [1, 3, 8], [1, 3, 8], q_num_heads=size, kv_num_heads=size, opset=23))  # fmt: skip
    heads = {"num_heads": size, "domain": MS}
    add(f"Attention of com.microsoft, {size} heads", one(
        "Attention", [1, 3, 8], quarters(8, 24), quarters(24), **heads))  # fmt: skip
    add(f"MultiHeadAttention, {size} heads", one(
        "MultiHeadAttention", [1, 3, 8], [1, 3, 8], [1, 3, 8], **heads))  # fmt: skip
    last, whole = np.array([size % 2**31], np.int32), np.array(size % 2**31, np.int32)
    add(f"GroupQueryAttention, {size} keys", one(
        "GroupQueryAttention", [1, 3, 16], [1, 3, 8], [1, 3, 8], [1, 1, 4, 8], [1, 1, 4, 8], last, whole,
        num_heads=2, kv_num_heads=1, domain=MS, outputs=("y", "k", "v")))  # fmt: skip
    add(f"RotaryEmbedding at {size}", one(
        "RotaryEmbedding", [1, 3, 8], i64(size), quarters(4, 4), quarters(4, 4), domain=MS))  # fmt: skip
    add(f"MatMulNBits {size}", one(
        "MatMulNBits", [2, 32], np.zeros((5, 1, 16), np.uint8), quarters(5, 1), N=5, K=size, bits=4,
        block_size=32, domain=MS))  # fmt: skip
    add(f"MatMulNBits, blocks of {size}", one(
        "MatMulNBits", [2, 32], np.zeros((5, 1, 16), np.uint8), quarters(5, 1), N=size, K=32, bits=4,
        block_size=size, domain=MS))  # fmt: skip
    add(
        f"ArrayFeatureExtractor {size}",
        one("ArrayFeatureExtractor", ["n", 3], i64(index), domain=ML),
    )
    add(f"a tree of {size} targets", tree(n_targets=size))
    add(f"a tree that reads column {size}", tree(nodes_featureids=[size] * 3))
    add(f"a tree whose leaf gives to {size}", tree(target_ids=[size]))
    add(f"a tree whose way is {size}", tree(nodes_truenodeids=[size] * 3))
    add(f"a tree of node {size}", tree(nodes_nodeids=[size, 1, 2]))
add("a tree in a circle", tree(nodes_truenodeids=[0, 0, 0], nodes_falsenodeids=[1, 1, 1]))
add("a tree of 100,000 tests in a row", tree(100_000))
add("a tree without leaves", tree(nodes_modes=["BRANCH_EQ"] * 3))
add("a Scan", one("Scan", [3, 2], num_scan_inputs=1, body=helper.make_graph([], "g", [], [])))
add("a sequence", lambda: model(
    [node("SequenceConstruct", ["x", "x"], ["s"]), node("SequenceAt", ["s", "k"], ["y"])], {"x": [2]},
    {"k": np.int64(2**62)}))  # fmt: skip
add("strings joined", lambda: model(
    [node("StringConcat", ["a", "a"], ["y"])], {}, {"a": np.array(["x" * 10**6], object)}, opset=20))  # fmt: skip
add("a vector machine of no vectors", one(
    "SVMRegressor", ["n", 3], domain=ML, n_supports=2**40, coefficients=[1.0], rho=[0.0]))  # fmt: skip


# ---------------------------------------------------------------------- bombs


def chain(count: int) -> ModelProto:
    """A long chain of nodes."""
    names = ["x", *(f"v{k}" for k in range(count - 1)), "y"]
    return model([node("Relu", [a], [b]) for a, b in itertools.pairwise(names)], {"x": [4]})


def doubling(count: int, folded: bool) -> ModelProto:
    """Each node joins the one before with itself."""
    names = ["x", *(f"v{k}" for k in range(count - 1)), "y"]
    nodes = [node("Concat", [a, a], [b], axis=0) for a, b in itertools.pairwise(names)]
    return model(
        nodes, {} if folded else {"x": [4]}, {"x": np.ones(4, np.float32)} if folded else {}
    )


def nested_ifs(depth: int) -> ModelProto:
    """If in If in If."""
    inner = helper.make_graph(
        [node("Relu", ["x"], ["z"])], "g", [], [helper.make_empty_tensor_value_info("z")]
    )
    for k in range(depth):
        made = node("If", ["c"], [f"z{k}"], then_branch=inner, else_branch=inner)
        inner = helper.make_graph([made], "g", [], [helper.make_empty_tensor_value_info(f"z{k}")])
    return model(
        [node("If", ["c"], ["y"], then_branch=inner, else_branch=inner)],
        {"x": [2]},
        {"c": np.array(True)},
    )


def functions(depth: int, calls: int, loops: bool = False) -> ModelProto:
    """Functions that call the next one several times; the last one itself, where `loops`."""
    made, versions = [], [helper.make_opsetid("", 18), helper.make_opsetid("own", 1)]
    for k in range(depth):
        callee = f"f{k + 1}" if k + 1 < depth else "f0" if loops else ""
        names = ["a", *(f"v{i}" for i in range(calls - 1)), "b"]
        nodes = [
            node(callee, [x], [y], domain="own") if callee else node("Relu", [x], [y])
            for x, y in itertools.pairwise(names)
        ]
        made.append(helper.make_function("own", f"f{k}", ["a"], ["b"], nodes, versions))
    return model([node("f0", ["x"], ["y"], domain="own")], {"x": [2]}, functions=made)


def branching_functions(depth: int) -> ModelProto:
    """Functions that call the next one in a branch."""
    made, versions = [], [helper.make_opsetid("", 18), helper.make_opsetid("own", 1)]
    for k in range(depth):
        callee = (
            node(f"f{k + 1}", ["a"], ["r"], domain="own")
            if k + 1 < depth
            else node("Relu", ["a"], ["r"])
        )
        ways = [
            helper.make_graph([n], "way", [], [helper.make_empty_tensor_value_info("r")])
            for n in (callee, node("Relu", ["a"], ["r"]))
        ]
        nodes = [
            node("IsInf", ["a"], ["c"]),
            node("If", ["c"], ["b"], then_branch=ways[0], else_branch=ways[1]),
        ]
        made.append(helper.make_function("own", f"f{k}", ["a"], ["b"], nodes, versions))
    return model([node("f0", ["x"], ["y"], domain="own")], {"x": []}, functions=made)


def steps(
    make: Callable[[str, str], list[Any]], count: int, first: str = "x", last: str = "y"
) -> list[Any]:
    """The nodes that `make` gives of an input's and an output's name, one after another."""
    names = [first, *(f"v{k}" for k in range(count - 1)), last]
    return [n for a, b in itertools.pairwise(names) for n in make(a, b)]


def growing(*ops: str) -> ModelProto:
    """A shape to which operators are applied again and again."""

    def step(a: str, b: str) -> list[Any]:
        names = [a, *(f"{b}.{k}" for k in range(len(ops) - 1)), b]
        return [node(op, [i, a], [o]) for op, i, o in zip(ops, names, names[1:], strict=False)]

    last = node("ConstantOfShape", ["s"], ["y"])
    return model([node("Shape", ["x"], ["n"]), *steps(step, 30, "n", "s"), last], {"x": ["n"]})


def outer() -> ModelProto:
    """A vector times itself, as a vector, again and again."""

    def step(a: str, b: str) -> list[Any]:
        views = [node("Reshape", [a, s], [f"{b}.{s}"]) for s in ("column", "row")]
        product = node("Mul", [f"{b}.column", f"{b}.row"], [f"{b}.2"])
        return [*views, product, node("Reshape", [f"{b}.2", "flat"], [b])]

    shapes = {"column": i64(-1, 1), "row": i64(1, -1), "flat": i64(-1)}
    return model(steps(step, 30), {"x": ["n"]}, shapes)


def copies() -> ModelProto:
    """A function with a constant of 4 MB, called 5,000 times."""
    versions = [helper.make_opsetid("", 18), helper.make_opsetid("own", 1)]
    large = node("Constant", [], ["c"], value=numpy_helper.from_array(np.zeros(10**6, np.float32)))
    body = [large, node("Add", ["a", "c"], ["b"])]
    call = steps(lambda a, b: [node("f", [a], [b], domain="own")], 5000)
    made = helper.make_function("own", "f", ["a"], ["b"], body, versions)
    return model(call, {"x": [10**6]}, functions=[made])


add("100,000 nodes in a chain", lambda: chain(100_000))
add("a function of 4 MB 5,000 times", copies)
add("functions 10,000 deep", lambda: functions(10_000, 1))
for depth in (20, 1000):
    add(f"functions in branches, {depth} deep", lambda depth=depth: branching_functions(depth))
add("x + x 200 times", lambda: model(steps(lambda a, b: [node("Add", [a, a], [b])], 200), {"x": ["n"]}))  # fmt: skip
add("x * relu(x) 60 times", lambda: model(
    steps(lambda a, b: [node("Relu", [a], [f"{b}r"]), node("Mul", [a, f"{b}r"], [b])], 60), {"x": ["n", 3]}))  # fmt: skip
add("an outer product of an outer product, 30 times", outer)
for names in (
    ("Add", "Mul"),
    ("Max", "Add", "Mul"),
    ("Div", "Mul"),
    ("Mod", "Mul"),
    ("Sub", "Min"),
):
    add(f"a shape by {', '.join(names)}, 30 times", lambda names=names: growing(*names))
add("a shape doubling 34 times", lambda: model([node("Shape", ["x"], ["n"]), *steps(
    lambda a, b: [node("Concat", [a, a], [b], axis=0)], 34, "n", "l"), node("ReduceSum", ["l"], ["s"]),
    node("ConstantOfShape", ["s"], ["y"])], {"x": ["n"]}))  # fmt: skip
add("integers that broadcast to 16 million", lambda: model(
    [node("Add", ["c", "r"], ["b"]), node("ReduceSum", ["b"], ["s"]), node("ConstantOfShape", ["s"], ["y"])],
    {}, {"c": np.arange(4096).reshape(-1, 1), "r": np.arange(4096).reshape(1, -1)}))  # fmt: skip
add("additions of constants of 8 MB, 2,000 times", lambda: model(
    [*steps(lambda a, b: [node("Add", [a, "w"], [b])], 2000, "w", "l"), node("Gather", ["l", "zero"], ["s"]),
    node("ConstantOfShape", ["s"], ["y"])], {}, {"w": np.ones(2**20, np.int64), "zero": i64(0)}))  # fmt: skip
add("convolutions of constants 100 times", lambda: model(
    steps(lambda a, b: [node("Conv", [a, "k"], [b], pads=[1] * 4)], 100, "w"), {}, {
    "w": np.ones((1, 64, 32, 32), np.float32), "k": np.ones((64, 64, 3, 3), np.float32) / 600}))  # fmt: skip
add("a Concat of 20,000 inputs", lambda: model(
    [node("Concat", [f"x{k}" for k in range(20_000)], ["y"], axis=0)], {f"x{k}": [2] for k in range(20_000)}))  # fmt: skip
add("a Concat of 900 symbols", lambda: model(
    [node("Concat", [f"x{k}" for k in range(900)], ["y"], axis=0)], {f"x{k}": [f"n{k}"] for k in range(900)}))  # fmt: skip
add("a Split into 20,000", lambda: model(
    [node("Split", ["x"], [f"y{k}" for k in range(20_000)], num_outputs=20_000)], {"x": [20_000]}, outputs=["y0"]))  # fmt: skip
add("a Max of 5,000", lambda: model([node("Max", ["x"] * 5000, ["y"])], {"x": [2]}))
add("an LRN of 10 ** 6 channels", one("LRN", [1, 4, 4, 4], size=10**6 + 1))
for scale in (1e9, 3e7, 1e-9):
    add(
        f"Resize by {scale}",
        one("Resize", [1, 1, 4, 4], "", np.float32([1, 1, scale, 1]), mode="cubic"),
    )
    add(f"Resize by {scale}, antialiased", one(
        "Resize", [1, 1, 4, 4], "", np.float32([1, 1, 0.5, scale]), mode="linear", antialias=1))  # fmt: skip
add("2,000 more dimensions", lambda: model(
    steps(lambda a, b: [node("Unsqueeze", [a, "zero"], [b])], 2000), {"x": [4]}, {"zero": i64(0)}))  # fmt: skip
add("Concat doubling 60 times", lambda: doubling(60, False))
add("Concat of constants doubling 34 times", lambda: doubling(34, True))
add(
    "a Concat of 20,000", lambda: model([node("Concat", ["x"] * 20_000, ["y"], axis=0)], {"x": [2]})
)
add("a Sum of 5,000", lambda: model([node("Sum", ["x"] * 5_000, ["y"])], {"x": [2]}))
add("12 Ifs in each other", lambda: nested_ifs(12))
add("functions 2 ** 24 deep", lambda: functions(24, 2))
add("functions 10 ** 6 wide", lambda: functions(2, 1000))
add("a function that calls itself", lambda: functions(1, 1, True))
add("functions that call each other", lambda: functions(3, 1, True))
add("a tensor of 5,000 dimensions", one("Relu", [1] * 5000))
add("an input that squares 30 times", lambda: model(
    [node("MatMul", [f"v{k}", f"v{k}"], [f"v{k + 1}"]) for k in range(30)], {"v0": ["n", "n"]}, outputs=["v30"]))  # fmt: skip
add("Tile of Tile 40 times", lambda: model(
    [node("Tile", [f"v{k}", "t"], [f"v{k + 1}"]) for k in range(40)], {"v0": ["n"]}, {"t": i64(10)}, ["v40"]))  # fmt: skip
add("10 ** 6 attributes", one("Transpose", [2, 3], perm=[0] * 10**6))
for text in (
    "ij,jk->ikl",
    "...",
    "i" * 300 + "->i",
    "ij->iij",
    "i.j->",
    "ij,jk",
    ",,->",
    "ab->ba->ab",
    "",
):
    add(f"Einsum {text[:12]}", one("Einsum", [2, 2], [2, 2], equation=text))


# ---------------------------------------------------------------------- what is not a graph


def changed(change: Callable[[ModelProto], object], **options: Any) -> Callable[[], ModelProto]:
    """A small model after a change."""

    def make() -> ModelProto:
        nodes = [node("Add", ["x", "w"], ["a"], "add"), node("Relu", ["a"], ["y"], "relu")]
        made = model(nodes, {"x": [2, 3]}, {"w": np.ones(3, np.float32)}, **options)
        change(made)
        return made

    return make


def tensor(dims: Sequence[int], data: bytes = b"", kind: int = 1, **more: Any) -> TensorProto:
    """A stored tensor as its fields say."""
    return TensorProto(dims=dims, raw_data=data, data_type=kind, **more)


def external(**entries: Any) -> TensorProto:
    """A tensor whose numbers are in another file."""
    made = TensorProto(dims=[4], data_type=1, data_location=TensorProto.EXTERNAL)
    for key, value in entries.items():
        made.external_data.add(key=key, value=str(value))
    return made


for name, stored in {
    "no data": tensor([3]),
    "too little data": tensor([3], b"1234"),
    "too much data": tensor([3], b"1234" * 9),
    "negative dims": tensor([-3], b"1234" * 3),
    "dims that wrap": tensor([2**32, 2**32], b""),
    "dims of 2 ** 40": tensor([2**40], b"1234"),
    "an unknown type": tensor([3], b"1234" * 3, 99),
    "no type": tensor([3], b"1234" * 3, 0),
    "strings": TensorProto(dims=[3], data_type=8, string_data=[b"a", b"\xff", b""]),
    "strings for floats": TensorProto(dims=[3], data_type=1, string_data=[b"a"] * 3),
    "both kinds of data": tensor([3], b"1234" * 3, float_data=[1, 2, 3]),
    "a segment": tensor([3], b"1234" * 3, segment=TensorProto.Segment(begin=0, end=2**62)),
    "/etc/passwd": external(location="/etc/passwd"),
    "../ files": external(location="../../../../etc/passwd", offset=0, length=16),
    "a folder": external(location="."),
    "a file that is not there": external(location="not-there.bin"),
    "a device": external(location="/dev/zero", length=2**40),
    "no location": external(offset=1),
    "an offset that is no number": external(location="model.onnx", offset="x"),
    "a negative offset": external(location="model.onnx", offset=-(2**40), length=16),
    "an offset beyond": external(location="model.onnx", offset=2**62, length=16),
    "a length of 2 ** 62": external(location="model.onnx", offset=0, length=2**62),
    "a name with a zero": external(location="a\0b"),
}.items():
    add(f"weights: {name}", lambda stored=stored: model(
        [node("Add", ["x", "w"], ["y"])], {"x": ["n"]}, {"w": TensorProto.FromString(stored.SerializeToString())}))  # fmt: skip

CHANGES: dict[str, Callable[[ModelProto], object]] = {
    "a cycle": lambda m: m.graph.node[0].input.__setitem__(0, "y"),
    "a node of itself": lambda m: m.graph.node[0].input.__setitem__(0, "a"),
    "an input that is not there": lambda m: m.graph.node[0].input.__setitem__(0, "nobody"),
    "an empty input": lambda m: m.graph.node[0].input.__setitem__(0, ""),
    "an empty result": lambda m: m.graph.node[0].output.__setitem__(0, ""),
    "a result twice": lambda m: m.graph.node[1].output.__setitem__(0, "a"),
    "a result named as an input": lambda m: m.graph.node[0].output.__setitem__(0, "x"),
    "an output that is not there": lambda m: m.graph.output[0].__setattr__("name", "nobody"),
    "an output without a name": lambda m: m.graph.output[0].__setattr__("name", ""),
    "an input without a name": lambda m: m.graph.input[0].__setattr__("name", ""),
    "the same input twice": lambda m: m.graph.input.append(m.graph.input[0]),
    "the same output twice": lambda m: m.graph.output.append(m.graph.output[0]),
    "the same weight twice": lambda m: m.graph.initializer.append(m.graph.initializer[0]),
    "no nodes": lambda m: m.graph.ClearField("node"),
    "no outputs": lambda m: m.graph.ClearField("output"),
    "no graph": lambda m: m.ClearField("graph"),
    "no opset": lambda m: m.ClearField("opset_import"),
    "no version": lambda m: m.ClearField("ir_version"),
    "no operator": lambda m: m.graph.node[0].__setattr__("op_type", ""),
    "an unknown operator": lambda m: m.graph.node[0].__setattr__("op_type", "Nothing"),
    "an unknown domain": lambda m: m.graph.node[0].__setattr__("domain", "no.where"),
    "an operator with a path": lambda m: m.graph.node[0].__setattr__("op_type", "../../x"),
    "too many inputs": lambda m: m.graph.node[1].input.extend(["x"] * 99),
    "no inputs": lambda m: m.graph.node[0].ClearField("input"),
    "an input of no type": lambda m: m.graph.input[0].ClearField("type"),
    "an input of no shape": lambda m: m.graph.input[0].type.tensor_type.ClearField("shape"),
    "an input that is a sequence": lambda m: m.graph.input[0].type.sequence_type.elem_type.SetInParent(),
    "an input of type 77": lambda m: m.graph.input[0].type.tensor_type.__setattr__("elem_type", 77),
    "a negative extent": lambda m: m.graph.input[0].type.tensor_type.shape.dim[0].__setattr__("dim_value", -5),
    "an extent of 1 MB of letters": lambda m: m.graph.input[0].type.tensor_type.shape.dim[0].__setattr__("dim_param", "n" * 10**6),
    "an extent that is code": lambda m: m.graph.input[0].type.tensor_type.shape.dim[0].__setattr__("dim_param", "__import__('os').system('touch hacked')"),
    "two names of 1 MB": lambda m: [m.graph.input[0].__setattr__("name", "x" * 10**6), m.graph.node[0].input.__setitem__(0, "x" * 10**6)],
    "names with quotes": lambda m: [m.graph.output[0].__setattr__("name", 'y"%s{0}\n\0*/'), m.graph.node[1].output.__setitem__(0, 'y"%s{0}\n\0*/')],
    "an attribute without a type": lambda m: m.graph.node[1].attribute.add(name="alpha"),
    "an attribute that refers": lambda m: m.graph.node[1].attribute.add(name="alpha", ref_attr_name="x", type=1),
    "an attribute without its graph": lambda m: m.graph.node[1].attribute.add(name="alpha", type=5),
    "a sparse weight": lambda m: m.graph.sparse_initializer.add(dims=[2**40]),
}  # fmt: skip
for name, change in CHANGES.items():
    add(name, changed(change))
add("an empty file", lambda: b"")
add("zeros", lambda: bytes(10_000))
add("noise", lambda: np.random.default_rng(0).bytes(10_000))
add("text", lambda: b'{"model": 1}' * 100)
add("groups in groups", lambda: b"\x3a\xff\xff\x03" * 30_000)
add("nested messages", lambda: b"\x0b" * 100_000)
