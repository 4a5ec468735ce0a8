"""com.microsoft's SparseAttention beside onnxruntime, whose caches it writes in place, and its product
with a sparse matrix."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import helper

from loopwright.base.errors import LoopwrightError
from loopwright.driver import compile
from loopwright.frontend.onnx import from_onnx

from .support import close, floats, graph, value

onnxruntime = pytest.importorskip("onnxruntime")

SIZE, SIDE, HEADS, GROUPS, D = 16, 4, 4, 2, 16
OF_CACHE = ["past_key", "past_value", "ends", "columns", "total", "lengths"]
NAMES = ["query", "key", "value", *OF_CACHE, "cos", "sin"]


def layout(count):
    """Blocks of keys that rows of blocks see, as CSR; always the row's own."""
    rng = np.random.default_rng(count)
    some = rng.uniform(size=(count, SIDE, SIDE)) < 0.5
    dense = np.tril(some) | np.eye(SIDE, dtype=bool)
    ends = np.pad(dense.sum(2).cumsum(1), ((0, 0), (1, 0))).astype(np.int32)
    columns = np.full((count, ends.max()), -1, np.int32)
    for row, seen in zip(columns, dense, strict=True):
        row[: seen.sum()] = np.nonzero(seen)[1]
    return ends, columns


def in_place(model, feeds):
    """onnxruntime's outputs; the caches share memory with those that are given."""
    session = onnxruntime.InferenceSession(model.SerializeToString())
    values = {n: onnxruntime.OrtValue.ortvalue_from_numpy(a.copy()) for n, a in feeds.items()}
    bound = session.io_binding()
    for name, given in values.items():
        bound.bind_ortvalue_input(name, given)
    bound.bind_output("out")
    for cache in ("key", "value"):
        bound.bind_ortvalue_output(f"present_{cache}", values[f"past_{cache}"])
    session.run_with_iobinding(bound)
    return [v.numpy().copy() for v in bound.get_outputs()]


@pytest.mark.sample(6)
@pytest.mark.parametrize("symbolic", [False, True])
@pytest.mark.parametrize(
    ("batch", "rows", "length", "layouts", "options"),
    [
        (2, 5, 5, 2, {}),
        (2, 20, 20, 2, {"do_rotary": 1}),
        (2, 1, 33, 1, {"scale": 0.5}),
        (1, 1, 50, 4, {"do_rotary": 1, "rotary_interleaved": 1}),
        (1, 40, 40, 1, {"packed": True}),
    ],
)
def test_blocks_of_keys(batch, rows, length, layouts, options, symbolic):
    packed = options.get("packed", False)
    query, key, new = (floats(batch, rows, n * D, seed=n) for n in (HEADS, GROUPS, GROUPS + 1))
    new = new[..., : GROUPS * D]
    given = [np.concatenate([query, key, new], 2), None, None] if packed else [query, key, new]
    given += [floats(batch, GROUPS, SIDE * SIZE, D, seed=s) for s in (5, 6)] + [*layout(layouts)]
    given += [np.array([length], np.int32), np.full(batch, length, np.int32)]
    given += [floats(SIDE * SIZE, D // 2, seed=s) for s in (7, 8)] if "do_rotary" in options else []
    feeds = {n: a for n, a in zip(NAMES, given, strict=False) if a is not None}
    sizes = {"num_heads": HEADS, "kv_num_heads": GROUPS, "sparse_block_size": SIZE}
    attributes = sizes | {n: v for n, v in options.items() if n != "packed"}
    names = [n if n in feeds else "" for n in NAMES[: len(given)]]
    outputs = ["out", "present_key", "present_value"]
    node = helper.make_node("SparseAttention", names, outputs, domain="com.microsoft", **attributes)
    dims = {n: list(a.shape) for n, a in feeds.items()}
    if symbolic:
        for name in NAMES[:5]:
            dims.get(name, [0])[0] = "b"
        for name in NAMES[:3]:
            dims.get(name, [0, 0])[1] = "s"
        dims["lengths"] = ["b"]
    ports = [value(n, dims[n], a.dtype) for n, a in feeds.items()]
    results = [onnx.ValueInfoProto(name=n) for n in outputs]
    model = graph([node], ports, results, domains={"com.microsoft": 1})
    got = compile(model).run(feeds).values()
    close([v.numpy() for v in got], in_place(model, feeds))


def sparse_product(shapes, **attrs):
    """A model of SparseToDenseMatMul."""
    node = helper.make_node(
        "SparseToDenseMatMul", ["a", "b"], ["y"], domain="com.microsoft", **attrs
    )
    a = helper.make_sparse_tensor_value_info("a", onnx.TensorProto.FLOAT, shapes[0])
    return graph([node], [a, value("b", shapes[1])], [value("y", shapes[2])])


@pytest.mark.sample(2)
@pytest.mark.parametrize("symbolic", [False, True])
@pytest.mark.parametrize("attrs", [{}, {"alpha": -1.5}, {"transA": 1}, {"transB": 1}])
def test_products_with_a_sparse_matrix(attrs, symbolic):
    """It is dense here."""
    a, b = floats(4, 4, seed=1), floats(4, 4, seed=2)
    a[np.random.default_rng(3).uniform(size=a.shape) < 0.6] = 0
    places = np.ascontiguousarray(np.argwhere(a))
    model = sparse_product(
        [["m", "k"], ["k", "n"], ["m", "n"]] if symbolic else [[4, 4]] * 3, **attrs
    )
    device = onnxruntime.OrtDevice.make("cpu", 0)
    coo = onnxruntime.SparseTensor.sparse_coo_from_numpy
    sparse = coo(np.array(a.shape), a[a != 0], places, device)
    feeds = {
        "a": onnxruntime.OrtValue.ort_value_from_sparse_tensor(sparse),
        "b": onnxruntime.OrtValue.ortvalue_from_numpy(b),
    }
    session = onnxruntime.InferenceSession(model.SerializeToString())
    (expected,) = session.run_with_ort_values(None, feeds)
    close(list(compile(model).run({"a": a, "b": b}).values()), [expected.numpy()], 1e-5)


def test_a_sparse_output_is_refused():
    y = helper.make_sparse_tensor_value_info("y", onnx.TensorProto.FLOAT, [4])
    model = graph([helper.make_node("Identity", ["x"], ["y"])], [value("x", [4])], [y])
    with pytest.raises(LoopwrightError, match="output y is a sparse tensor"):
        from_onnx(model)
