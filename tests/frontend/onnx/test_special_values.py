"""Operators at the ends of their types: NaN, infinities, zeros of both signs, denormals, extremes.

Each table is compiled to one model per type, with all operators side by side over the same values.
The interpreter, LLVM and C must give what numpy gives in float64, and, where it is a reference,
what onnxruntime gives.
"""

from __future__ import annotations

import math
import shutil

import ml_dtypes
import numpy as np
import pytest
from onnx import helper

import loopwright
from loopwright.frontend.onnx import from_onnx

from .support import graph, interpreted, ints, node, reference, value

pytestmark = pytest.mark.no_roundtrip
BF16 = np.dtype(ml_dtypes.bfloat16)
FLOATS = [np.dtype(t) for t in ("float32", "float64", "float16")] + [BF16]
INTS = [np.dtype(t) for t in ("int8", "int32", "int64", "uint8")]
TOLERANCE = {"float32": 4e-6, "float64": 1e-12, "float16": 2e-3, "bfloat16": 1.6e-2}
NAN, INF = math.nan, math.inf
PEER = ("float32", "float16", "int32")  # types for which onnxruntime has the operators
# onnxruntime's Sigmoid is less exact, its Sign of NaN in float16 is 0.
NOT_OF_PEER = ("Sigmoid", "Sign")


def specials(dtype):
    """Values at which functions go wrong."""
    if dtype.kind in "iu":
        ends = np.iinfo(dtype)
        values = {0, 1, 2, 3, 7, ends.max, ends.max - 1, ends.min, ends.min + 1}
        values |= {-1, -2, -3, -7} if dtype.kind == "i" else set()
        return np.asarray(sorted(values), dtype)
    ends = ml_dtypes.finfo(dtype)
    sides = [float(ends.smallest_subnormal), float(ends.tiny), float(ends.eps), float(ends.max)]
    sides += [0.0, 1e-10, 1e-4, 0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 7.0, 19.0, 50.0, 1e4, INF]
    with np.errstate(over="ignore"):
        return np.asarray([NAN, *sides, *(-v for v in sides)]).astype(dtype)


def backends(model, feeds):
    """(name, outputs) of each way to run a model."""
    mod = from_onnx(model)
    yield "interpreter", interpreted(mod, feeds)
    names = mod.attrs["input_names"]
    got = loopwright.compile(mod, target="llvm").run(feeds)
    yield "llvm", [v.numpy() for v in got.values()]
    if shutil.which("gcc"):
        built = loopwright.compile(mod, target="c").build(compiler="gcc", flags=("-O1",))
        out = built(*[feeds[n] for n in names])
        yield "C", [np.asarray(v) for v in (out if isinstance(out, (list, tuple)) else [out])]


def check_table(rows, feeds, opset=20, slack=0.0, peer=False):
    """Run `rows` (label, operator, inputs, attributes, expected) as one model of all of them.
    slack: an error that is allowed whatever the value is; peer: onnxruntime agrees, but for
    `NOT_OF_PEER`."""
    nodes, weights, outputs = [], {}, []
    for k, (_, kind, inputs, attributes, *_) in enumerate(rows):
        names = []
        for n, given in enumerate(inputs):
            names.append(given if isinstance(given, str) else f"w{k}_{n}")
            if not isinstance(given, str):
                weights[names[-1]] = given
        nodes.append(node(kind, names, [f"y{k}"], f"{kind}{k}", **attributes))
        outputs.append(helper.make_empty_tensor_value_info(f"y{k}"))
    used = {n for row in rows for n in row[2] if isinstance(n, str)}
    feeds = {n: a for n, a in feeds.items() if n in used}
    model = graph(nodes, [value(n, a.shape, a.dtype) for n, a in feeds.items()], outputs, weights)
    model.opset_import[0].version = opset
    wrong, ways = [], list(backends(model, feeds))
    if peer:
        ways.append(("onnxruntime", reference(model, feeds)))
    for name, got in ways:
        for (label, *_, want), out in zip(rows, got, strict=True):
            if name == "onnxruntime" and label in NOT_OF_PEER:
                continue
            wrong += [f"{name}: {line}" for line in differences(label, want, out, slack)]
    assert not wrong, f"{len(wrong)} wrong\n" + "\n".join(wrong[:60])


def differences(label, want, got, slack):
    want = np.asarray(want)
    if got.shape != want.shape or got.dtype != want.dtype:
        return [f"{label}: {got.dtype}{got.shape} instead of {want.dtype}{want.shape}"]
    near = TOLERANCE.get(want.dtype.name, 0)
    a, b = (v.astype(np.float64) if v.dtype.kind not in "iub" else v for v in (got, want))
    if a.dtype.kind != "f":
        same = a == b
    else:
        floor = max(float(ml_dtypes.finfo(want.dtype).tiny), slack)
        with np.errstate(invalid="ignore", over="ignore"):
            same = (a == b) | (np.isnan(a) & np.isnan(b))
            same |= np.abs(a - b) <= near * np.abs(b) + floor
    places = np.argwhere(~same)
    if not len(places):
        return []
    at = tuple(places[0])
    return [f"{label}: {len(places)} of {same.size}; at {at} {got[at]} instead of {want[at]}"]


def meant(fn, *arrays, out=None):
    """fn in float64 (integers: as they are), in the type of the first array."""
    exact = [a if a.dtype.kind in "iub" else a.astype(np.float64) for a in arrays]
    with np.errstate(all="ignore"):
        return np.asarray(fn(*exact)).astype(out or arrays[0].dtype)


# ---------------------------------------------------------------- one value at a time


def softplus(x):
    return np.logaddexp(0, x)


def sigmoid(x):
    return np.where(x < 0, np.exp(x) / (1 + np.exp(x)), 1 / (1 + np.exp(-x)))


UNARY = {
    "Abs": np.abs,
    "Neg": np.negative,
    "Ceil": np.ceil,
    "Floor": np.floor,
    "Round": np.rint,
    "Sign": np.sign,
    "Sqrt": np.sqrt,
    "Exp": np.exp,
    "Log": np.log,
    "Relu": lambda x: np.maximum(x, 0),
    "Reciprocal": lambda x: 1 / x,
    "Sigmoid": sigmoid,
    "Tanh": np.tanh,
    "Softplus": softplus,
    "Mish": lambda x: x * np.tanh(softplus(x)),
    "Softsign": lambda x: x / (1 + np.abs(x)),
    "HardSwish": lambda x: x * np.clip(x / 6 + 0.5, 0, 1),
    "Erf": np.vectorize(math.erf),
    "Asinh": np.arcsinh,
    "Atan": np.arctan,
    "Cosh": np.cosh,
    "LeakyRelu": lambda x: np.where(x < 0, x * 0.01, x),
    "Identity": lambda x: x,
}
WITH_ATTRIBUTES = [
    (
        "Shrink",
        {"lambd": 0.75, "bias": 0.5},
        lambda x: np.select([x < -0.75, x > 0.75], [x + 0.5, x - 0.5], 0),
    ),
    ("ThresholdedRelu", {"alpha": 1.5}, lambda x: np.where(x > 1.5, x, 0)),
    ("ThresholdedRelu", {"alpha": -3.0}, lambda x: np.where(x > -3, x, 0)),
    ("HardSigmoid", {"alpha": 0.25}, lambda x: np.clip(x * 0.25 + 0.5, 0, 1)),
]


@pytest.mark.sample(4)
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_one_input(dtype):
    x = specials(dtype)
    rows = [(k, k, ["x"], {}, meant(fn, x)) for k, fn in UNARY.items()]
    rows += [(k, k, ["x"], at, meant(fn, x)) for k, at, fn in WITH_ATTRIBUTES]
    rows += [(k, k, ["x"], {}, fn(x)) for k, fn in (("IsNaN", np.isnan), ("IsInf", np.isinf))]
    low, high = np.asarray(-2, dtype), np.asarray(INF, dtype)
    rows.append(("Clip", "Clip", ["x", low, high], {}, meant(lambda v: np.clip(v, -2, INF), x)))
    check_table(rows, {"x": x}, peer=dtype.name in PEER)


def trunc_divide(a, b):
    zero = b == 0
    q = np.floor_divide(a, np.where(zero, 1, b).astype(b.dtype))
    q = q + ((q < 0) & (q * np.where(zero, 1, b) != a)).astype(a.dtype)
    return np.where(zero, 0, q)


BINARY = {
    "Add": np.add,
    "Sub": np.subtract,
    "Mul": np.multiply,
    "Div": np.divide,
    "Max": np.maximum,
    "Min": np.minimum,
    "PRelu": lambda a, b: np.where(a < 0, a * b, a),
}
COMPARE = {"Equal": np.equal, "Less": np.less, "Greater": np.greater, "LessOrEqual": np.less_equal}


@pytest.mark.sample(2)
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_two_floats(dtype):
    a, b = specials(dtype)[:, None], specials(dtype)[None]
    rows = [(k, k, ["a", "b"], {}, meant(fn, a, b)) for k, fn in BINARY.items()]
    with np.errstate(invalid="ignore"):
        rows += [(k, k, ["a", "b"], {}, fn(a, b)) for k, fn in COMPARE.items()]
    rows.append(("Mod fmod", "Mod", ["a", "b"], {"fmod": 1}, meant(np.fmod, a, b)))
    check_table(rows, {"a": a, "b": b}, peer=dtype.name in PEER)


@pytest.mark.sample(2)
@pytest.mark.parametrize("dtype", INTS, ids=str)
def test_two_integers(dtype):
    """Division by 0 is 0, as is its remainder."""
    a, b = specials(dtype)[:, None], specials(dtype)[None]
    with np.errstate(all="ignore"):
        rows = [
            (k, k, ["a", "b"], {}, BINARY[k](a, b)) for k in ("Add", "Sub", "Mul", "Max", "Min")
        ]
        rows += [(k, k, ["a", "b"], {}, fn(a, b)) for k, fn in COMPARE.items()]
        rows.append(("Div", "Div", ["a", "b"], {}, trunc_divide(a, b).astype(dtype)))
        rows.append(("Mod", "Mod", ["a", "b"], {}, np.mod(a, b)))
        rows.append(("Mod fmod", "Mod", ["a", "b"], {"fmod": 1}, np.fmod(a, b)))
        zero = np.zeros(1, dtype)
        rows.append(("Div by 0", "Div", ["a", zero], {}, np.zeros_like(a)))
        rows.append(("Div of constants", "Div", [a, b], {}, trunc_divide(a, b).astype(dtype)))
        rows.append(("Mod of constants", "Mod", [a, b], {}, np.mod(a, b)))
        rows.append(("Used", "Identity", ["b"], {}, b))
    check_table(rows, {"a": a, "b": b})


# ---------------------------------------------------------------- rows of values


def rows_of(dtype):
    """Every triple of some special values."""
    if dtype.kind in "iu":
        ends = np.iinfo(dtype)
        some = [ends.min, ends.max, 0, 1]
    else:
        most = float(ml_dtypes.finfo(dtype).max)
        some = [NAN, INF, -INF, -0.0, 1.5, -most / 4, most / 4]
    return np.asarray([[x, y, z] for x in some for y in some for z in some]).astype(dtype)


def log_sum_exp(x, axis):
    top = x.max(axis, keepdims=True)
    top = np.where(np.isinf(top), 0, top)
    return np.log(np.exp(x - top).sum(axis)) + np.squeeze(top, axis)


def softmax(x, axis):
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


REDUCE = {
    "ReduceMax": np.max,
    "ReduceMin": np.min,
    "ReduceSum": np.sum,
    "ReduceMean": np.mean,
    "ReduceL1": lambda x, axis: np.abs(x).sum(axis),
    "ReduceLogSumExp": log_sum_exp,
}


def last(pick):
    return lambda x, axis: x.shape[axis] - 1 - pick(np.flip(x, axis), axis=axis)


ARG = {"ArgMax": np.argmax, "ArgMin": np.argmin}


@pytest.mark.sample(18)
@pytest.mark.parametrize("layout", ["rows", "columns", "long rows"])
@pytest.mark.parametrize("dtype", [*FLOATS, np.dtype("int32"), np.dtype("uint8")], ids=str)
def test_reductions(dtype, layout):
    x = rows_of(dtype)
    if layout == "long rows":
        x = np.concatenate([np.repeat(x[:, :1], 70, 1), x[:, 1:2], np.repeat(x[:, 2:], 70, 1)], 1)
    if layout == "columns":
        x = np.ascontiguousarray(x.T)
    axis = 0 if layout == "columns" else 1
    rows, axes = [], ints(axis)
    names = REDUCE if dtype.kind not in "iu" else ("ReduceMax", "ReduceMin")
    for k in names:
        # A sum over extremes may pass the greatest number in one order and not in another.
        if layout == "long rows" and k in ("ReduceSum", "ReduceMean", "ReduceL1"):
            continue
        want = meant(lambda v, k=k: REDUCE[k](v, axis=axis), x)
        rows.append((k, k, ["x", axes], {"keepdims": 0}, want))
    for k, fn in ARG.items():
        at = {"axis": axis, "keepdims": 0}
        exact = x if dtype.kind in "iu" else x.astype(np.float64)
        rows.append((k, k, ["x"], at, fn(exact, axis=axis)))
        rows.append((f"{k} last", k, ["x"], at | {"select_last_index": 1}, last(fn)(exact, axis)))
    if dtype.kind not in "iu":
        want = meant(lambda v: softmax(v, axis), x)
        rows.append(("Softmax", "Softmax", ["x"], {"axis": axis}, want))
    check_table(rows, {"x": x}, peer=dtype.name == "int32")


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_windows(dtype):
    """The greatest of a window of infinities is one."""
    x = rows_of(dtype)[None]
    pool = {"kernel_shape": [3], "strides": [1], "pads": [1, 1]}
    side = np.pad(x, [(0, 0), (0, 0), (1, 1)], constant_values=-INF)
    best = meant(lambda v: np.maximum(np.maximum(v[..., :-2], v[..., 1:-1]), v[..., 2:]), side)
    rows = [
        ("MaxPool", "MaxPool", ["x"], pool, best),
        ("GlobalMaxPool", "GlobalMaxPool", ["x"], {}, meant(lambda v: v.max(2, keepdims=True), x)),
    ]
    check_table(rows, {"x": x})


# ---------------------------------------------------------------- long sums


@pytest.mark.sample(4)
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_long_sums(dtype):
    """Short floats are added in float32: in their own type a sum of ones stops at 2048 or 256."""
    n = 3000
    rng = np.random.default_rng(3)
    x = rng.uniform(0.5, 1.5, (4, n)).astype(dtype)
    w = rng.uniform(0.5, 1.5, (n, 3)).astype(dtype) / np.asarray(64, dtype)
    image = x.reshape(1, 4, 50, 60)
    kernel = rng.uniform(0, 0.1, (2, 4, 20, 20)).astype(dtype)
    axes = ints(1)
    window = np.lib.stride_tricks.sliding_window_view(image.astype(np.float64), (20, 20), (2, 3))
    conv = np.einsum("nchwkl,ockl->nohw", window, kernel.astype(np.float64)).astype(dtype)
    small = meant(lambda v: v / n, x)
    rows = [
        ("ReduceSum", "ReduceSum", ["x", axes], {"keepdims": 0}, meant(lambda v: v.sum(1), x)),
        ("columns", "ReduceSum", ["t", ints(0)], {"keepdims": 0}, meant(lambda v: v.sum(1), x)),
        ("ReduceMean", "ReduceMean", ["x", axes], {"keepdims": 0}, meant(lambda v: v.mean(1), x)),
        ("MatMul", "MatMul", ["x", "w"], {}, meant(lambda a, b: a @ b, x, w)),
        ("MatMul wt", "MatMul", ["x", w], {}, meant(lambda a, b: a @ b, x, w)),
        ("Conv", "Conv", ["image", kernel], {}, conv),
        ("Softmax", "Softmax", ["x"], {"axis": 1}, meant(lambda v: softmax(v, 1), x)),
        ("CumSum", "CumSum", ["small", ints(1)], {}, meant(lambda v: v.cumsum(1), small)),
        (
            "GlobalAveragePool",
            "GlobalAveragePool",
            ["image"],
            {},
            meant(lambda v: v.mean((2, 3), keepdims=True), image),
        ),
        (
            "AveragePool",
            "AveragePool",
            ["image"],
            {"kernel_shape": [50, 60]},
            meant(lambda v: v.mean((2, 3), keepdims=True), image),
        ),
    ]
    feeds = {"x": x, "t": np.ascontiguousarray(x.T), "w": w, "image": image, "small": small}
    if dtype.itemsize == 2:
        rows = [r for r in rows if r[0] != "CumSum"]
        check_table(
            [("CumSum", "CumSum", ["small", ints(1)], {}, meant(lambda v: v.cumsum(1), small))],
            feeds,
        )
    check_table(rows, feeds, opset=18)


@pytest.mark.sample(12)
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("mean", [0.0, 1e3, -1e4])
def test_norms_of_values_far_from_zero(dtype, mean):
    """The variance does not cancel."""
    step = max(abs(mean) * float(ml_dtypes.finfo(dtype).eps) * 8, 1.0)
    rng = np.random.default_rng(5)
    x = (rng.integers(-9, 10, (2, 6, 5, 8)) * step + mean).astype(dtype)
    one, zero = np.ones(6, dtype), np.zeros(6, dtype)
    row, none = np.ones(8, dtype), np.zeros(8, dtype)

    def normal(v, axes, epsilon=1e-5):
        return (v - v.mean(axes, keepdims=True)) / np.sqrt(v.var(axes, keepdims=True) + epsilon)

    grouped = meant(lambda v: normal(v.reshape(2, 2, 3, 5, 8), (2, 3, 4)).reshape(v.shape), x)
    image = meant(lambda v: normal(v, (2, 3)), x)
    rows = [
        ("LayerNorm", "LayerNormalization", ["x", row, none], {}, meant(lambda v: normal(v, 3), x)),
        ("GroupNorm", "GroupNormalization", ["x", one, zero], {"num_groups": 2}, grouped),
        ("InstanceNorm", "InstanceNormalization", ["x", one, zero], {}, image),
        (
            "MVN",
            "MeanVarianceNormalization",
            ["x"],
            {},
            meant(lambda v: normal(v, (0, 2, 3), 1e-9), x),
        ),
    ]
    # The mean itself is rounded.
    eps = float(np.finfo(np.float64 if dtype == np.float64 else np.float32).eps)
    check_table(rows, {"x": x}, opset=21, slack=(abs(mean) / 2 + 4) * eps)


def test_an_infinite_slope_below_zero():
    x = np.float32([-1, 0, 3.5, NAN, -INF, INF])
    model = graph([node("Elu", ["x"], ["y"], alpha=INF)], [value("x", [6])], [value("y", None)])
    for name, (got,) in backends(model, {"x": x}):
        np.testing.assert_array_equal(got, np.float32([-INF, 0, 3.5, NAN, -INF, INF]), name)


def test_a_sigmoid_below_the_least_normal_number():
    x = np.float32([-80, -95, -103, -200, 50, NAN])
    model = graph([node("Sigmoid", ["x"], ["y"])], [value("x", [6])], [value("y", None)])
    expected = 1 / (1 + np.exp(-x.astype(np.float64)))
    for name, (got,) in backends(model, {"x": x}):
        np.testing.assert_allclose(got, expected, rtol=1e-5, atol=2e-45, err_msg=name)


def test_selu_of_the_least_numbers_and_of_minus_zero():
    x = np.float32([-1.4e-45, -2.8e-45, -1e-40, -1e-30, 1.4e-45])
    model = graph([node("Selu", ["x"], ["y"])], [value("x", [5])], [value("y", None)])
    expected = np.where(x > 0, 1.0507, 1.0507 * 1.67326) * x.astype(np.float64)
    for name, (got,) in backends(model, {"x": x}):
        np.testing.assert_allclose(got, expected, rtol=1e-5, atol=2e-45, err_msg=name)
    for name, (got,) in backends(model, {"x": np.zeros(5, np.float32) * -1}):
        assert np.signbit(got).all(), name


NORM = lambda v, k: (v**2).sum(k, keepdims=True) ** 0.5  # noqa: E731
TERMS = {
    "ReduceL2": ({"keepdims": 1, "axes": [1]}, lambda v: NORM(v, 1)),
    "ReduceLogSum": ({"keepdims": 1, "axes": [1]}, lambda v: np.log(v.sum(1, keepdims=True))),
    "ReduceLogSumExp": (
        {"axes": [1]},
        lambda v: np.log(np.exp(v - 300).sum(1, keepdims=True)) + 300,
    ),
    "LpNormalization": ({"axis": 1}, lambda v: v / NORM(v, 1)),
    "GlobalLpPool": ({}, lambda v: NORM(v, (2, 3))),
    "LpPool": ({"kernel_shape": [2, 2]}, lambda v: np.full((1, 600, 1, 1), 600.0)),
    "LRN": ({"size": 1, "alpha": 1.0, "beta": 0.5, "bias": 0.0}, lambda v: np.ones_like(v)),
}


@pytest.mark.parametrize("dtype", [np.dtype(np.float16), BF16])
def test_terms_that_short_floats_do_not_hold(dtype):
    """The squares and sums of numbers of 300 are beyond float16, roots and logarithms of them are not."""
    x = np.full((1, 600, 2, 2), 300, dtype)
    nodes = [node(name, ["x"], [name], **kind) for name, (kind, _) in TERMS.items()]
    outputs = [value(name, None, dtype) for name in TERMS]
    model = graph(nodes, [value("x", x.shape, dtype)], outputs, opset=13)
    for way, outs in backends(model, {"x": x}):
        for (name, (_, wanted)), got in zip(TERMS.items(), outs, strict=True):
            assert got.dtype == dtype
            np.testing.assert_allclose(
                got.astype("f8"),
                wanted(x.astype("f8")),
                TOLERANCE[dtype.name],
                err_msg=f"{name} {way}",
            )


@pytest.mark.parametrize("kinds", [("int32", "int32"), ("int64", "int32"), ("int32", "int64")])
def test_integer_powers_wrap_around(kinds):
    """As numpy's do; a negative one is rounded toward zero."""
    a, b = (
        np.array([3, -3, 2, -1, 1, 7, 0, 2], kinds[0]),
        np.array([20, 41, 70, -3, -2, 0, 5, -1], kinds[1]),
    )
    exact = [pow(int(u), int(v), 1 << 64) if v >= 0 else 0 for u, v in zip(a, b, strict=True)]
    wanted = np.array(exact, np.uint64).astype(kinds[0])
    wanted[3:5] = -1, 1
    ports = [value("a", ["n"], a.dtype), value("b", ["n"], b.dtype)]
    model = graph([node("Pow", ["a", "b"], ["y"])], ports, [value("y", None, a.dtype)], opset=15)
    for name, (got,) in backends(model, {"a": a, "b": b}):
        np.testing.assert_array_equal(got, wanted, name, strict=True)


def test_the_negative_of_the_least_integer_wraps():
    least = {"w": np.int8(-128).reshape(())}
    model = graph([node("Neg", ["w"], ["y"])], [], [value("y", None)], least)
    for name, (got,) in backends(model, {}):
        assert got.dtype == np.int8 and got == -128, name
