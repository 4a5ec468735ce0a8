"""com.microsoft: operators on words, tokens and alignments."""

from __future__ import annotations

import json
import re
from typing import Any

import numpy as np

from ....base.errors import explain
from ....relax import op
from ....relax.struct_info import TensorStructInfo
from ...graph.object_values import ObjectValue, Texts, called
from ...graph.registry import REFUSALS
from ...graph.values import Value
from ..context import OnnxContext as Context
from ..reader import Node
from ..registry import converter, define
from .contrib import DOMAIN, counted
from .texts import texts_of


@converter("Tokenizer", 1, DOMAIN)
def tokenizer(cx: Context, node: Node, x: Value) -> Any:
    texts = texts_of(x)
    separators, token = node.texts("separators", []), node.text("tokenexp", "")
    if bool(separators) == bool(token):
        what = "a Tokenizer has attribute separators or tokenexp"
        raise ValueError(explain(what, got="both" if token else "neither"))
    for pattern in separators or [token]:
        try:
            empty = re.compile(pattern).fullmatch("") is not None
        except re.error as error:
            what = f"a Tokenizer's pattern is not a regular expression: {error}"
            raise ValueError(explain(what, got=pattern)) from error
        if empty and separators not in ([], [""]):
            what = "a Tokenizer's separator matches an empty text"
            raise ValueError(explain(what, got=pattern, instead='only one alone may, ""'))
    data = {
        "separators": separators,
        "token": token,
        "least": node.integer("mincharnum"),
        "marked": node.flag("mark"),
        "filler": node.text("pad_value"),
    }
    ndim = texts.form.ndim
    tokens = called(cx, "texts_tokens", texts, json.dumps(data))
    return ObjectValue(cx, Texts(ndim if ndim < 0 else ndim + 1), tokens)


@converter("DynamicTimeWarping", 1, DOMAIN)
def dynamic_time_warping(cx: Context, node: Node, costs: Value) -> Any:
    info = TensorStructInfo(dtype="int32", ndim=2)
    return cx.of_shape(called(cx, "warped_path", costs, info=info), 2, None)


@converter("BifurcationDetector", 1, DOMAIN)
def bifurcation_detector(
    cx: Context, node: Node, source: Value, tokens: Value, matched: Value,
    predicted: Value | None = None,
) -> Any:  # fmt: skip
    sizes = node.integer("min_ngram_size", 1), node.integer("max_ngram_size", 3)
    inputs = [source, tokens, matched, *([] if predicted is None else [predicted])]
    pair = called(cx, "bifurcation", *sizes, *inputs)
    parts = []
    for k, dims in enumerate(([None], [])):
        info = TensorStructInfo(dtype="int64", ndim=len(dims))
        part = called(cx, "sequence_at", pair, cx.from_elements([k], "int64"), info=info)
        parts.append(cx.of_shape(part, *dims))
    return parts


define("Inverse", lambda cx, node, x: op.linalg.inv(x.expr), 1, DOMAIN)


@converter("WordConvEmbedding", 1, DOMAIN)
def word_conv_embedding(
    cx: Context, node: Node, words: Value, weight: Value, bias: Value, table: Value
) -> Any:
    """words: (count, letters), 0 for none; weight: (filters, 1, window, size); table: (letters known, size).
    The greatest of tanh(convolution) over the windows within a word's letters, or one if it is shorter."""
    node.skip("embedding_size", "conv_window_size", "char_embedding_size")
    o, window = cx.onnx, weight.shape[2]
    letters = o.Unsqueeze(o.Gather(table, words), [1])
    features = o.Squeeze(o.Tanh(o.Conv(letters, weight, bias)), [3])  # (count, filters, windows)
    there = o.Cast(o.Greater(words, np.int32(0)), to=7)
    length = o.ReduceSum(there, [1], keepdims=1)
    last = o.Max(o.Sub(length, cx.from_elements([window], "int64")), np.int64(0))
    seen = o.LessOrEqual(counted(cx, features.shape[2]), last)
    best = o.ReduceMax(o.Where(o.Unsqueeze(seen, [1]), features, np.float32(-1)), [2], keepdims=0)
    first = o.Slice(there, np.array([0]), np.array([1]), np.array([1]))
    return o.Where(o.Cast(first, to=9), best, np.float32(0))


_SEARCH = (
    "a search around a decoder: compile the graphs of its attributes, and choose tokens outside"
)
_PACKED = "sequences packed after one another: pad them, and use {} on the batch"
for _name, _why in {
    **dict.fromkeys(("BeamSearch", "Sampling", "WhisperBeamSearch"), _SEARCH),
    "AttnLSTM": "an LSTM whose cell attends: write it with Loop, LSTM's products and Softmax",
    "GatherPacked": "rows in onnxruntime's own packed formats: use GatherBlockQuantized",
    "MaxpoolWithMask": "onnxruntime reads all channels' masks from the first's: use Where before MaxPool",
    "VarlenCausalConvWithState": _PACKED.format("CausalConvWithState"),
    "VarlenNGramHashMapping": _PACKED.format("NGramHashMapping"),
}.items():
    REFUSALS.register((DOMAIN, _name), _why, origin=__name__)
