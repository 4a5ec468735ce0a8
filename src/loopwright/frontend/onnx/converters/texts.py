"""Operators on texts, n-grams, and pictures in files."""

from __future__ import annotations

import json
import re
from typing import Any

from ....base.errors import explain
from ....relax.struct_info import TensorStructInfo
from ...graph.object_values import ObjectValue, Texts, called
from ...graph.values import Value
from ..context import OnnxContext as Context
from ..reader import Node
from ..registry import converter


def texts_of(x: Value) -> ObjectValue:
    """An input that must be texts. Raises TypeError."""
    if isinstance(x, ObjectValue) and isinstance(x.form, Texts):
        return x
    raise TypeError(explain("an input is not a tensor of strings", got=str(x.info)))


@converter("StringConcat", 20)
def string_concat(cx: Context, node: Node, x: Value, y: Value) -> Any:
    a, b = texts_of(x), texts_of(y)
    rank = -1 if min(a.form.ndim, b.form.ndim) < 0 else max(a.form.ndim, b.form.ndim)
    return ObjectValue(cx, Texts(rank), called(cx, "texts_joined", a, b))


@converter("StringSplit", 20)
def string_split(cx: Context, node: Node, x: Value) -> Any:
    texts = texts_of(x)
    most, ndim = node.integer("maxsplit", -1), texts.form.ndim
    pair = called(cx, "texts_split", texts, node.text("delimiter", ""), most)
    parts = called(cx, "sequence_at", pair, cx.from_elements([0], "int64"))
    info = TensorStructInfo(dtype="int64", ndim=ndim)
    counts = called(cx, "sequence_at", pair, cx.from_elements([1], "int64"), info=info)
    if ndim < 0:
        return [ObjectValue(cx, Texts(-1), parts), counts]
    return [
        ObjectValue(cx, Texts(ndim + 1), parts),
        cx.of_shape(counts, *(texts.dims or [None] * ndim)),
    ]


@converter("RegexFullMatch", 20)
def regex_full_match(cx: Context, node: Node, x: Value) -> Any:
    texts, pattern = texts_of(x), node.text("pattern")
    try:
        re.compile(pattern)
    except re.error as error:
        what = f"attribute pattern is not a regular expression: {error}"
        raise ValueError(explain(what, got=pattern)) from error
    ndim = texts.form.ndim
    matches = called(
        cx, "texts_match", texts, pattern, info=TensorStructInfo(dtype="bool", ndim=ndim)
    )
    return matches if ndim < 0 else cx.of_shape(matches, *(texts.dims or [None] * ndim))


@converter("StringNormalizer", 10)
def string_normalizer(cx: Context, node: Node, x: Value) -> Any:
    node.skip("locale")
    texts, case = texts_of(x), node.choice("case_change_action", ("NONE", "LOWER", "UPPER"))
    exact, stops = node.flag("is_case_sensitive"), json.dumps(node.texts("stopwords", []))
    return ObjectValue(cx, texts.form, called(cx, "texts_normalized", texts, case, exact, stops))


@converter("TfIdfVectorizer", 9)
def tf_idf_vectorizer(cx: Context, node: Node, x: Value) -> Any:
    mode, starts = node.text("mode"), node.integers("ngram_counts")
    pool = node.integers("pool_int64s", None) or node.texts("pool_strings", None)
    node.skip("pool_strings")
    columns = node.integers("ngram_indexes")
    lengths = [node.integer("min_gram_length"), node.integer("max_gram_length")]
    if mode not in ("TF", "IDF", "TFIDF") or not pool:
        what = "a TfIdfVectorizer has mode TF, IDF or TFIDF and a pool"
        raise ValueError(explain(what, got=mode))
    grams: list[list[Any]] = []
    for n, (start, end) in enumerate(zip(starts, [*starts[1:], len(pool)], strict=True), start=1):
        grams += [pool[k : k + n] for k in range(start, end, n)]
    if len(grams) != len(columns):
        what = "attribute ngram_indexes must have a number for each n-gram"
        raise ValueError(explain(what, got=f"{len(columns)} for {len(grams)}"))
    data = {
        "grams": grams,
        "columns": columns,
        "weights": node.reals("weights", None),
        "mode": mode,
        "lengths": lengths,
        "skips": node.integer("max_skip_count"),
    }
    ndim = x.form.ndim if isinstance(x, ObjectValue) else x.ndim
    info = TensorStructInfo(dtype="float32", ndim=max(ndim, 1))
    width = max(columns) + 1
    dims: list[Any] = [width] if ndim < 2 else [None, width]
    if ndim == 2 and not isinstance(x, ObjectValue):
        dims[0] = x.shape[0]
    return cx.of_shape(called(cx, "count_grams", x, json.dumps(data), info=info), *dims)


@converter("ImageDecoder", 20)
def image_decoder(cx: Context, node: Node, data: Value) -> Any:
    how = node.choice("pixel_format", ("RGB", "BGR", "Grayscale"))
    info = TensorStructInfo(dtype="uint8", ndim=3)
    image = called(cx, "decode_image", data, how, info=info)
    return cx.of_shape(image, None, None, 1 if how == "Grayscale" else 3)


def cast_texts(cx: Context, x: Value, dtype: str) -> Any:
    """Texts as numbers."""
    texts = texts_of(x)
    ndim = texts.form.ndim
    numbers = called(cx, "numbers_in", texts, dtype, info=TensorStructInfo(dtype=dtype, ndim=ndim))
    return numbers if ndim < 0 else cx.of_shape(numbers, *(texts.dims or [None] * ndim))


def written(cx: Context, x: Value) -> ObjectValue:
    """Numbers as texts."""
    texts = ObjectValue(cx, Texts(x.ndim), called(cx, "texts_of", x))
    texts.dims = list(x.shape)
    return texts
