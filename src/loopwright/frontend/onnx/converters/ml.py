"""ai.onnx.ml: linear models, support vectors, and what prepares their inputs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from ....base.errors import explain
from ....ir.dtype import DataType
from ....relax import op
from ...graph.object_values import constant_texts, indices_of, texts_at
from ...graph.values import Value, literal
from ..context import OnnxContext as Context
from ..reader import Node
from ..registry import converter
from .texts import texts_of

DOMAIN = "ai.onnx.ml"
_F32 = 1  # TensorProto.FLOAT


def floating(cx: Context, x: Value) -> Value:
    """Integers as float32, in which ai.onnx.ml computes."""
    return x if x.dtype.is_float else cx.onnx.Cast(x, to=_F32)


@dataclass
class Labels:
    """The names of a classifier's classes."""

    values: np.ndarray

    def __len__(self) -> int:
        return len(self.values)

    def of(self, cx: Context, chosen: Value) -> Value:
        """The labels of the chosen classes."""
        if self.values.dtype == object:
            return texts_at(cx, constant_texts(cx, self.values), chosen)
        return cx.onnx.Gather(self.values, chosen)


def class_labels(node: Node, integers: str) -> Labels:
    """The labels of attribute `integers` or classlabels_strings."""
    numbers, texts = node.integers(integers, None), node.texts("classlabels_strings", None)
    if not numbers and not texts:
        raise ValueError(explain(f"attribute {integers} or classlabels_strings is missing"))
    return Labels(np.asarray(numbers, np.int64) if numbers else np.asarray(texts, object))


def transformed(cx: Context, scores: Value, how: str) -> Value:
    """Scores (rows, classes) after `post_transform`."""
    o = cx.onnx
    match how:
        case "NONE":
            return scores
        case "LOGISTIC":
            return o.Sigmoid(scores)
        case "SOFTMAX":
            return o.Softmax(scores, axis=-1)
        case "SOFTMAX_ZERO":  # a score of (nearly) 0 stays one
            most = o.ReduceMax(scores, [-1])
            small = o.LessOrEqual(o.Abs(scores), 1e-7)
            small_ones = o.Mul(scores, o.Exp(o.Neg(most)))
            powers = o.Where(small, small_ones, o.Exp(o.Sub(scores, most)))
            total = o.ReduceSum(powers, [-1])
            shares = o.Div(powers, o.Where(o.Equal(total, 0.0), 1.0, total))
            return o.Where(o.Equal(total, 0.0), scores.dtype.numpy().type(0.5), shares)
        case "PROBIT":
            return o.Mul(_inverse_erf(cx, o.Sub(o.Mul(scores, 2.0), 1.0)), 1.41421356)
    names = "NONE, SOFTMAX, LOGISTIC, SOFTMAX_ZERO, PROBIT"
    raise ValueError(explain("unknown post_transform", got=how, instead=names))


def both_classes(cx: Context, score: Value, chance: bool, how: str) -> Value:
    """The scores of two classes of which the second's is known, after `post_transform`. chance: that
    one is the rest to 1; else it is the opposite."""
    first = cx.onnx.Sub(1.0, score) if chance else cx.onnx.Neg(score)
    scores = cx.onnx.Concat(first, score, axis=1)
    return scores if chance else transformed(cx, scores, how)


def _inverse_erf(cx: Context, x: Value) -> Value:
    """Winitzki's approximation (2008), that of onnxruntime's PROBIT, too."""
    o, a = cx.onnx, 0.147
    log = o.Log(o.Mul(o.Sub(1.0, x), o.Add(x, 1.0)))
    v = o.Add(o.Mul(log, 0.5), 2 / (math.pi * a))
    root = o.Sqrt(o.Sub(o.Mul(v, v), o.Mul(log, 1 / a)))
    return o.Mul(o.Where(o.Less(x, 0.0), -1.0, 1.0), o.Sqrt(o.Sub(root, v)))


def _matrix(values: list[float], rows: int, what: str, dtype: DataType) -> np.ndarray:
    if rows < 1 or len(values) % rows:
        raise ValueError(explain(f"attribute {what} must have {rows} rows", got=len(values)))
    return np.asarray(values, dtype.numpy()).reshape(rows, len(values) // rows)


def _rows(cx: Context, x: Value) -> Value:
    """Floats of examples; a vector is one of them."""
    x = floating(cx, x)
    return cx.onnx.Unsqueeze(x, [0]) if x.ndim == 1 else x


def _linear(cx: Context, x: Value, weight: np.ndarray, bias: list[float] | None) -> Value:
    """x @ weight^T + bias."""
    if bias and len(bias) != len(weight):
        what = "to each row of coefficients one number is added"
        raise ValueError(explain(what, got=f"{len(weight)} rows, numbers: {len(bias)}"))
    out = cx.onnx.MatMul(x, np.ascontiguousarray(weight.T))
    return cx.onnx.Add(out, np.asarray(bias, weight.dtype)) if bias else out


@converter("LinearRegressor", 1, DOMAIN)
def linear_regressor(cx: Context, node: Node, x: Value) -> Any:
    x = _rows(cx, x)
    weight = _matrix(
        node.reals("coefficients"), node.integer("targets", 1), "coefficients", x.dtype
    )
    out = _linear(cx, x, weight, node.reals("intercepts", None))
    return cx.onnx.Cast(transformed(cx, out, node.text("post_transform", "NONE")), to=_F32)


@converter("LinearClassifier", 1, DOMAIN)
def linear_classifier(cx: Context, node: Node, x: Value) -> Any:
    node.skip("multi_class")
    x, o = _rows(cx, x), cx.onnx
    labels, intercepts = class_labels(node, "classlabels_ints"), node.reals("intercepts", [])
    values, transform = node.reals("coefficients"), node.text("post_transform", "NONE")
    columns = literal(x.shape[-1])
    rows = len(values) // columns if isinstance(columns, int) and columns else len(intercepts)
    scores = _linear(
        cx, x, _matrix(values, rows or len(labels), "coefficients", x.dtype), intercepts
    )
    if rows != 1:
        chosen = o.ArgMax(scores, axis=1, keepdims=0)
        return [labels.of(cx, chosen), o.Cast(transformed(cx, scores, transform), to=_F32)]
    chosen = o.Squeeze(o.Cast(o.Greater(scores, 0.0), to=7), [1])
    if len(labels) == 2:
        scores = both_classes(cx, scores, transform == "NONE", transform)
    return [labels.of(cx, chosen), o.Cast(scores, to=_F32)]


# ---------------------------------------------------------------- support vectors


def _kernel(cx: Context, node: Node, x: Value, vectors: np.ndarray) -> Value:
    """(rows, vectors): the kernel function of rows and support vectors."""
    o, kind = cx.onnx, node.text("kernel_type", "LINEAR")
    gamma, coef, degree = node.reals("kernel_params", None) or (0.0, 0.0, 0.0)
    if kind == "RBF":
        apart = o.Sub(o.Unsqueeze(x, [1]), vectors[None])
        return o.Exp(o.Mul(o.ReduceSumSquare(apart, [2], keepdims=0), -gamma))
    product = o.MatMul(x, np.ascontiguousarray(vectors.T))
    if kind == "LINEAR":
        return product
    scaled = o.Add(o.Mul(product, gamma), coef)
    if kind == "POLY":
        return o.Pow(scaled, float(degree))
    if kind == "SIGMOID":
        return o.Tanh(scaled)
    raise ValueError(explain("unknown kernel_type", got=kind, instead="LINEAR, POLY, RBF, SIGMOID"))


@converter("SVMRegressor", 1, DOMAIN)
def svm_regressor(cx: Context, node: Node, x: Value) -> Any:
    x, o = _rows(cx, x), cx.onnx
    kind = x.dtype.numpy().type
    count, rho = node.integer("n_supports", 0), node.reals("rho")
    coefficients = node.reals("coefficients")
    if count > 0:
        vectors = _matrix(node.reals("support_vectors"), count, "support_vectors", x.dtype)
        x = _kernel(cx, node, x, vectors)
    else:
        node.skip("support_vectors", "kernel_type", "kernel_params")
    out = _linear(cx, x, _matrix(coefficients, 1, "coefficients", x.dtype), rho[:1])
    if node.flag("one_class"):
        out = o.Where(o.Greater(out, 0.0), kind(1), kind(-1))
    return o.Cast(transformed(cx, out, node.text("post_transform", "NONE")), to=_F32)


@converter("SVMClassifier", 1, DOMAIN)
def svm_classifier(cx: Context, node: Node, x: Value) -> Any:
    x, o = _rows(cx, x), cx.onnx
    labels, sizes = class_labels(node, "classlabels_ints"), node.integers("vectors_per_class", [])
    coefficients, rho = node.reals("coefficients"), node.reals("rho")
    transform, slopes = node.text("post_transform", "NONE"), node.reals("prob_a", [])
    shifts, total = node.reals("prob_b", []), sum(sizes)
    if not total:  # one linear score for each class
        node.skip("support_vectors", "kernel_type", "kernel_params")
        weight = _matrix(coefficients, len(labels), "coefficients", x.dtype)
        scores = _linear(cx, x, weight, [rho[0]] * len(labels))
        chosen = o.ArgMax(scores, axis=1, keepdims=0)
        return [labels.of(cx, chosen), o.Cast(transformed(cx, scores, transform), to=_F32)]
    vectors = _matrix(node.reals("support_vectors"), total, "support_vectors", x.dtype)
    weight = np.asarray(coefficients, x.dtype.numpy()).reshape(-1, total)
    pairs = [(i, j) for i in range(len(sizes)) for j in range(i + 1, len(sizes))]
    if len(rho) != len(pairs) or len(weight) != len(sizes) - 1:
        what = "attributes rho and coefficients must fit vectors_per_class"
        raise ValueError(
            explain(what, got=f"{len(rho)} and {len(weight)} for {len(sizes)} classes")
        )
    ends = np.cumsum(sizes)
    machines = np.zeros((len(pairs), total), weight.dtype)
    for row, (i, j) in enumerate(pairs):
        own, other = slice(ends[i] - sizes[i], ends[i]), slice(ends[j] - sizes[j], ends[j])
        machines[row, own], machines[row, other] = weight[j - 1, own], weight[i, other]
    decided = _linear(cx, _kernel(cx, node, x, vectors), machines, rho)
    votes = np.zeros((2, len(pairs), len(sizes)), weight.dtype)  # of a pair's first, its second
    for row, pair in enumerate(pairs):
        votes[0, row, pair[0]] = votes[1, row, pair[1]] = 1
    won = o.CastLike(o.Greater(decided, 0.0), decided)
    tally = o.Add(o.MatMul(won, votes[0] - votes[1]), votes[1].sum(0))
    chosen = o.ArgMax(tally, axis=1, keepdims=0)
    scores = decided
    if slopes:
        raised = o.Add(
            o.Mul(decided, np.asarray(slopes, weight.dtype)), np.asarray(shifts, weight.dtype)
        )
        chances = o.Clip(o.Sub(1.0, o.Sigmoid(raised)), 1e-7, 1 - 1e-7)
        scores = cx.value(op.ml.couple_pairs(chances.expr))
    elif len(pairs) == 1:
        scores = o.Concat(o.Neg(decided), decided, axis=1)
    return [labels.of(cx, chosen), o.Cast(transformed(cx, scores, transform), to=_F32)]


# ---------------------------------------------------------------- preparation


def _each_column(values: list[Any], x: Value, what: str, dtype: Any = np.float32) -> np.ndarray:
    """One number for all columns of x, or one for each."""
    columns = literal(x.shape[-1])
    if len(values) != 1 and isinstance(columns, int) and len(values) != columns:
        raise ValueError(
            explain(f"attribute {what} must have 1 or {columns} numbers", got=len(values))
        )
    return np.asarray(values, dtype)


@converter("Scaler", 1, DOMAIN)
def scaler(cx: Context, node: Node, x: Value) -> Any:
    o, wide = cx.onnx, floating(cx, x)
    dtype = wide.dtype.numpy()
    offset = _each_column(node.reals("offset", [0.0]), x, "offset", dtype)
    scale = _each_column(node.reals("scale", [1.0]), x, "scale", dtype)
    return o.Cast(o.Mul(o.Sub(wide, offset), scale), to=_F32)


@converter("Normalizer", 1, DOMAIN)
def normalizer(cx: Context, node: Node, x: Value) -> Any:
    o, wide = cx.onnx, floating(cx, x)
    reductions = {"MAX": o.ReduceMax, "L1": o.ReduceL1, "L2": o.ReduceL2}
    size = reductions[node.choice("norm", reductions)](wide, [-1])
    none = o.Equal(size, 0.0)
    return o.Cast(o.Div(wide, o.Where(none, 1.0, size)), to=_F32)


@converter("Binarizer", 1, DOMAIN)
def binarizer(cx: Context, node: Node, x: Value) -> Any:
    above = cx.onnx.Greater(floating(cx, x), node.real("threshold", 0.0))
    return op.astype(above.expr, str(x.dtype))


@converter("Imputer", 1, DOMAIN)
def imputer(cx: Context, node: Node, x: Value) -> Any:
    o, read = cx.onnx, node.reals if x.dtype.is_float else node.integers
    names = ("imputed_value_floats", "replaced_value_float")
    others = ("imputed_value_int64s", "replaced_value_int64")
    own, ignored = (names, others) if x.dtype.is_float else (others, names)
    node.skip(*ignored)
    values = _each_column(read(own[0]), x, own[0], x.dtype.numpy())
    replaced = node.real(own[1], 0.0) if x.dtype.is_float else node.integer(own[1], 0)
    missing = o.IsNaN(x) if replaced != replaced else o.Equal(x, replaced)
    return o.Where(missing, values, x)


@converter("OneHotEncoder", 1, DOMAIN)
def one_hot_encoder(cx: Context, node: Node, x: Value) -> Any:
    o, kinds = cx.onnx, np.asarray(node.integers("cats_int64s", []), np.int64)
    names = node.texts("cats_strings", [])
    if not x.is_tensor:
        kinds = np.arange(len(names))
        x = indices_of(cx, constant_texts(cx, np.asarray(names, object)), texts_of(x))
    same = o.Equal(o.Unsqueeze(o.Cast(x, to=7), [-1]), kinds)
    if node.flag("zeros", True):
        last = ~np.triu(kinds[:, None] == kinds, 1).any(1)  # of equal kinds, as in onnxruntime
        return o.Cast(same if last.all() else o.And(same, last), to=_F32)
    # An unknown category is an index out of range, which is reported at run time.
    number = o.ReduceMax(o.Where(same, np.arange(len(kinds)), np.int64(-1)), [-1], keepdims=0)
    index = o.Where(o.Less(number, 0), len(kinds), number)
    return o.Gather(np.eye(len(kinds), dtype=np.float32), index)


@converter("ArrayFeatureExtractor", 1, DOMAIN)
def array_feature_extractor(cx: Context, node: Node, x: Value, indices: Value) -> Any:
    out = cx.onnx.Gather(x, cx.onnx.Reshape(indices, [-1]), axis=-1)
    return cx.onnx.Unsqueeze(out, [0]) if x.ndim == 1 else out


@converter("FeatureVectorizer", 1, DOMAIN)
def feature_vectorizer(cx: Context, node: Node, *inputs: Value) -> Any:
    o, widths = cx.onnx, node.integers("inputdimensions")
    if len(widths) != len(inputs):
        what = "attribute inputdimensions must have a number for each input"
        raise ValueError(explain(what, got=f"{len(widths)} for {len(inputs)}"))
    parts = []
    for x, width in zip(inputs, widths, strict=True):
        rows = o.Unsqueeze(x, [1]) if x.ndim == 1 else x
        if rows.ndim != 2:
            raise ValueError(explain("every input must be a vector or matrix", got=str(x.info)))
        rows = o.Cast(rows, to=_F32)
        if literal(rows.shape[1]) != width:
            rows = o.Slice(o.Pad(rows, [0, 0, 0, width]), [0], [width], [1])
        parts.append(rows)
    return o.Concat(*parts, axis=1)


@converter("LabelEncoder", 1, DOMAIN)
def label_encoder_old(cx: Context, node: Node, x: Value) -> Any:
    names = np.asarray(node.texts("classes_strings"), object)
    numbers = np.arange(len(names))
    text, number = node.text("default_string", "_Unused"), node.integer("default_int64", -1)
    if x.is_tensor:
        return _looked_up(cx, x, numbers, names, text)
    return _looked_up(cx, x, names, numbers, number)


@converter("CategoryMapper", 1, DOMAIN)
def category_mapper(cx: Context, node: Node, x: Value) -> Any:
    numbers = np.asarray(node.integers("cats_int64s"), np.int64)
    names = np.asarray(node.texts("cats_strings"), object)
    text, number = node.text("default_string", "_Unused"), node.integer("default_int64", -1)
    if len(numbers) != len(names) or not len(names):
        what = "a CategoryMapper needs equally many numbers and names"
        raise ValueError(explain(what, got=f"{len(numbers)} and {len(names)}"))
    if x.is_tensor:
        return _looked_up(cx, x, numbers, names, text)
    return _looked_up(cx, x, names, numbers, number)


@converter("LabelEncoder", 2, DOMAIN)
@converter("LabelEncoder", 4, DOMAIN)
def label_encoder(cx: Context, node: Node, x: Value) -> Any:
    keys, values = _column(node, "keys"), _column(node, "values")
    if len(keys) != len(values) or not len(keys):
        what = "a LabelEncoder needs equally many keys and values"
        raise ValueError(explain(what, got=f"{len(keys)} and {len(values)}"))
    return _looked_up(cx, x, keys, values, _default(node, values.dtype))


def _column(node: Node, name: str) -> np.ndarray:
    """The keys or values of a LabelEncoder."""
    tensor = node.tensor(f"{name}_tensor", None)
    integers, reals = node.integers(f"{name}_int64s", None), node.reals(f"{name}_floats", None)
    if tensor is not None:
        return np.asarray(tensor).ravel()
    if integers:
        return np.asarray(integers, np.int64)
    if reals:
        return np.asarray(reals, np.float32)
    return np.asarray(node.texts(f"{name}_strings"), object)


def _default(node: Node, dtype: Any) -> Any:
    tensor = node.tensor("default_tensor", None)
    text = node.text("default_string", "_Unused")
    integer, real = node.integer("default_int64", -1), node.real("default_float", -0.0)
    if tensor is not None:
        return tensor.reshape(-1).tolist()[0]
    if np.dtype(dtype).kind == "O":
        return text
    return integer if np.dtype(dtype).kind in "iu" else real


def _looked_up(
    cx: Context, x: Value, keys: np.ndarray, values: np.ndarray, default: str | float
) -> Value:
    """The value of each key, the first where a key occurs twice."""
    o = cx.onnx
    if values.dtype == object:
        numbers = _looked_up(cx, x, keys, np.arange(len(values)), len(values))
        return texts_at(cx, constant_texts(cx, np.append(values, default)), numbers)
    if keys.dtype == object:
        where = indices_of(cx, constant_texts(cx, keys), texts_of(x))
        return o.Gather(np.append(values, np.asarray(default, values.dtype)), where)
    lost = keys != keys
    unique, first = np.unique(keys[~lost], return_index=True)
    out: Any = np.asarray(default, values.dtype)
    if len(unique):
        own = values[~lost][first]
        at = o.Min(cx.value(op.bucketize(x.expr, cx.constant(unique))), len(unique) - 1)
        same = o.Equal(o.Gather(unique, at), x)
        out = o.Where(same, o.Gather(own, at), out)
    if lost.any():
        out = o.Where(o.IsNaN(x), values[lost][0], out)
    return out
