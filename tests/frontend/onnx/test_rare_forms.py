"""Operators on texts, and forms of operators that models rarely have, beside onnxruntime or numpy."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper

import loopwright as lw
from loopwright.base.errors import LoopwrightError
from loopwright.frontend.onnx import from_onnx
from loopwright.ir import assert_structural_equal

from .support import check, floats, graph, integers, interpreted, ints, operator, reference, value

F32, ML = np.float32, "ai.onnx.ml"


def texts(*values):
    return np.array(values, dtype=object)


def arrays(results):
    results = results if isinstance(results, (tuple, list)) else (results,)
    return [r.numpy() if hasattr(r, "numpy") else np.asarray(r, object) for r in results]


def row(op_type, *inputs, **options):
    return (op_type, inputs, options)


WORDS = texts("a b  c", " the Cat", "x-y-z", "w")
LINES = texts("b", "the", "The", "A", "d")
GRAMS = {
    "min_gram_length": 1,
    "max_gram_length": 2,
    "ngram_counts": [0, 3],
    "ngram_indexes": [4, 0, 1, 3, 2],
}
NUMBERS = {"pool_int64s": [2, 3, 5, 2, 3, 3, 5]}
NAMES = {"pool_strings": list("bcdbccd")}
TEXTS = [
    row("StringConcat", WORDS, texts("-"), opset=20),
    row("StringConcat", LINES.reshape(5, 1), WORDS, opset=20),
    *[row("StringSplit", WORDS, opset=20, outputs=2, **o) for o in (
        {}, {"delimiter": "-"}, {"delimiter": " ", "maxsplit": 1}, {"maxsplit": 1})],
    row("StringSplit", WORDS.reshape(2, 2), opset=20, outputs=2, delimiter="-"),
    row("RegexFullMatch", WORDS, opset=20, pattern="[a-z-]*"),
    row("RegexFullMatch", WORDS.reshape(2, 2), opset=20, pattern=r".*\s.*"),
    *[row("StringNormalizer", LINES, opset=10, stopwords=["the", "A"], case_change_action=c,
          is_case_sensitive=s, locale="C") for c in ("LOWER", "UPPER", "NONE") for s in (0, 1)],
    row("StringNormalizer", LINES.reshape(1, 5), opset=10, is_case_sensitive=1, stopwords=["b"]),
    row("StringNormalizer", LINES, opset=10),
    *[row("TfIdfVectorizer", x, opset=9, mode=m, max_skip_count=s, **GRAMS, **p)
      for m, s in (("TF", 0), ("TF", 2), ("IDF", 1), ("TFIDF", 0))
      for x, p in ((ints(2, 3, 4, 5, 3, 5), {**NUMBERS, "weights": [0.5, 2.0, 3.0, 4.0, 5.0]}),
                   (np.array([[2, 3, 3], [5, 2, 3]]), NUMBERS))],
    row("TfIdfVectorizer", texts(*"bcdcd"), opset=9, mode="TF", max_skip_count=0, **GRAMS, **NAMES),
    row("TfIdfVectorizer", texts(*"bcdc").reshape(2, 2), opset=9, mode="TF", max_skip_count=0, **GRAMS, **NAMES),
]  # fmt: skip
NUMBERED = {
    "coefficients": [1.0, 2.0, -1.0, 0.0, 3.0, 1.0],
    "intercepts": [0.5, 0.0, -1.0],
    "post_transform": "NONE",
}
TEXTS += [
    *[row("OneHotEncoder", x, domain=ML, cats_strings=["the", "A", "b"], zeros=1) for x in (LINES, LINES.reshape(5, 1))],
    row("OneHotEncoder", LINES[:2], domain=ML, cats_strings=["the", "A", "b"], zeros=0),
    row("LinearClassifier", F32([[1, 2], [3, -4], [0, 1]]), domain=ML, outputs=2, classlabels_strings=["x", "yy", "z"], **NUMBERED),
]  # fmt: skip


@pytest.mark.parametrize(
    "number", range(len(TEXTS)), ids=[f"{c[0]}-{k}" for k, c in enumerate(TEXTS)]
)
@pytest.mark.no_roundtrip  # texts are no tensors of the script
def test_texts(number):
    op_type, inputs, options = TEXTS[number]
    model, feeds = operator(op_type, *inputs, symbolic=number % 2 == 1, **options)
    got = arrays(lw.compile(model)(*feeds.values()))
    for a, b in zip(got, reference(model, feeds), strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a, b)


PAIRS = {"cats_int64s": [4, 1], "cats_strings": ["a", "b"]}
CLASSES = {"classes_strings": ["a", "b"]}
ENCODERS = [  # what LabelEncoder of version 2 calls keys and values
    *[("LabelEncoder", CLASSES, [0, 1], o) for o in ({}, {"default_int64": 7, "default_string": "?"})],
    *[("CategoryMapper", PAIRS, [4, 1], o) for o in ({}, {"default_int64": 7, "default_string": "?"})],
]  # fmt: skip


@pytest.mark.no_roundtrip  # texts are no tensors of the script
@pytest.mark.parametrize("x", [texts("b", "x", "a"), ints(0, 1, 4)], ids=["texts", "numbers"])
@pytest.mark.parametrize(("kind", "given", "numbers", "default"), ENCODERS)
def test_older_encoders_are_label_encoders(kind, given, numbers, default, x):
    names = ("keys", "values") if x.dtype == object else ("values", "keys")
    newer = {f"{names[0]}_strings": ["a", "b"], f"{names[1]}_int64s": numbers}
    old, _ = operator(kind, x, domain=ML, **given, **default)
    new, _ = operator("LabelEncoder", x, domain=ML, **newer, **default)
    new.opset_import[1].version = 2
    assert_structural_equal(from_onnx(old), from_onnx(new))


IMAGE = floats(1, 2, 4, 3)
BACK = {"kernel_shape": [3, 2], "strides": [2, 3]}
PEAKS = [F32([[[[5, 6], [7, 8]]]]), np.array([[[[5, 7], [13, 15]]]])]
FORMS = [
    *[row("ConvTranspose", IMAGE, floats(2, 1, 3, 2), fed=1, output_shape=s, auto_pad=a, **BACK)
      for s in ([8, 7], [9, 8], [7, 6], [10, 9]) for a in ("NOTSET", "SAME_UPPER", "SAME_LOWER")],
    *[row("ConvTranspose", IMAGE, floats(2, 1, 3, 2), fed=1, auto_pad=a, **BACK)
      for a in ("VALID", "SAME_UPPER", "SAME_LOWER")],
    row("ConvTranspose", IMAGE, floats(2, 1, 3, 2), fed=1, output_padding=[1, 2], pads=[0, 1, 1, 0],
        dilations=[2, 1], **BACK),
    row("MaxUnpool", *PEAKS, kernel_shape=[2, 2], strides=[2, 2]),
    row("MaxUnpool", PEAKS[0], PEAKS[1] % 9, kernel_shape=[2, 2]),
    row("GroupNormalization", floats(2, 4, 3), floats(2), floats(2), num_groups=2, opset=18),
    row("GroupNormalization", floats(2, 4, 3), floats(4), floats(4), num_groups=2, opset=21),
    *[row("IsInf", F32([np.inf, -np.inf, 1, np.nan]), detect_negative=n, detect_positive=p)
      for n in (0, 1) for p in (0, 1)],
    *[row("Shape", IMAGE, start=s, **e) for s in (0, 1, -1) for e in ({}, {"end": 3}, {"end": -1})],
    row("Concat", floats(2, 3), floats(2, 1), axis=-1),
    row("Size", IMAGE),
    row("Mod", integers(6), ints(3, -3, 2, -2, 5, -5)),
]  # fmt: skip


@pytest.mark.parametrize("case", FORMS, ids=[f"{c[0]}-{k}" for k, c in enumerate(FORMS)])
def test_forms(case):
    op_type, inputs, options = case
    check(*operator(op_type, *inputs, **options))


def test_the_shape_of_maxunpool_adds_zeros_at_the_ends():
    """As in the standard's definition: places are those of the shape that the window gives."""
    model, feeds = operator("MaxUnpool", *PEAKS, ints(1, 1, 5, 6), fed=2, kernel_shape=[2, 2],
                            strides=[2, 2])  # fmt: skip
    expected = np.zeros((1, 1, 5, 6), F32)
    expected[0, 0, 1, [1, 3]], expected[0, 0, 3, [1, 3]] = (5, 6), (7, 8)
    np.testing.assert_array_equal(interpreted(from_onnx(model), feeds), [expected])


@pytest.mark.parametrize("back", [None, [0, 1]])
def test_a_scan_of_opset_8_scans_each_of_a_batch(back):
    nodes = [helper.make_node("Add", ["s", "p"], ["t"]), helper.make_node("Mul", ["t", "q"], ["o"])]
    ports = [value(n, [2]) for n in "spqto"]
    body = helper.make_graph(nodes, "body", ports[:3], ports[3:])
    directions = {} if back is None else {"directions": back}
    scan = helper.make_node("Scan", ["", "s0", "x", "z"], ["last", "y"], body=body,
                            num_scan_inputs=2, **directions)  # fmt: skip
    s, x, z = floats(3, 2), floats(3, 4, 2, seed=1), floats(3, 4, 2, seed=2)
    feeds = {"s0": s, "x": x, "z": z}
    given = [value(n, a.shape) for n, a in feeds.items()]
    model = graph([scan], given, [value("last", [3, 2]), value("y", [3, 4, 2])], opset=8)
    sums = s[:, None] + x.cumsum(1)
    turned = z if back is None else z[:, ::-1]
    last, y = interpreted(from_onnx(model), feeds)
    np.testing.assert_allclose(last, sums[:, -1], rtol=1e-5)
    np.testing.assert_allclose(y, sums * turned, rtol=1e-5)


def test_probit_is_the_inverse_of_the_normal_distribution():
    """Winitzki's approximation is right to 4 digits; Phi(1) = 0.841345, Phi(-2) = 0.0227501."""
    x = F32([[0.8413447, 0.0227501], [0.5, 0.1586553]])
    given = {"coefficients": [1.0, 0.0, 0.0, 1.0], "targets": 2, "post_transform": "PROBIT"}
    model, feeds = operator("LinearRegressor", x, domain=ML, **given)
    (got,) = interpreted(from_onnx(model), feeds)
    np.testing.assert_allclose(got, [[1, -2], [0, -1]], atol=6e-3)


@pytest.mark.parametrize(
    ("case", "text"),
    [
        (row("StringNormalizer", LINES, opset=10, case_change_action="TITLE"), "NONE, LOWER, UPPER"),
        (row("RegexFullMatch", WORDS, opset=20, pattern="("), "not a regular expression"),
        (row("RegexFullMatch", ints(2), opset=20, pattern="a"), "not a tensor of strings"),
        (row("TfIdfVectorizer", ints(2), opset=9, mode="TFX", max_skip_count=0, **GRAMS, **NUMBERS),
         "has mode TF, IDF or TFIDF and a pool"),
        (row("TfIdfVectorizer", ints(2), opset=9, mode="TF", max_skip_count=0, **NUMBERS,
             **GRAMS | {"ngram_indexes": [0, 1, 2, 3]}), "4 for 5"),
        (row("ImageDecoder", np.zeros(4, np.uint8), opset=20, pixel_format="CMYK"), "BGR, Grayscale"),
        (row("CategoryMapper", ints(2), domain=ML, cats_int64s=[4], cats_strings=["a", "b"]), "1 and 2"),
        (row("ConvTranspose", IMAGE, floats(2, 1, 3, 2), auto_pad="SAME", **BACK), "must be one of"),
        (row("Scan", ints(2), IMAGE, opset=8, num_scan_inputs=1,
             body=helper.make_graph([], "b", [value("x", [1])], [value("x", [1])])), "lengths"),
        (row("Swish", IMAGE, opset=23), "no converter"),
        (row("Cast", IMAGE, to=TensorProto.COMPLEX64), "nothing is cast to complex numbers"),
        (row("SVMRegressor", floats(1, 2), domain=ML, kernel_type="COS", n_supports=1, rho=[0.0],
             support_vectors=[1.0, 2.0], coefficients=[1.0]), "LINEAR, POLY, RBF, SIGMOID"),
        (row("DepthToSpace", floats(1, 4, 2, 2), blocksize=2, mode="X"), "mode"),
    ],
)  # fmt: skip
def test_refused(case, text):
    op_type, inputs, options = case
    with pytest.raises(LoopwrightError, match=text):
        from_onnx(operator(op_type, *inputs, **options)[0])
