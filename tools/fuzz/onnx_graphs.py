"""Random ONNX graphs."""

from __future__ import annotations

from functools import partial

from . import (  # noqa: F401  their makers register themselves
    onnx_ml,
    onnx_nn,
    onnx_rows,
    onnx_shapes,
)
from .build import NotHere, finish
from .case import Case
from .onnx_build import OnnxBuilder
from .onnx_ops import MAKERS

DOMAINS = ("com.microsoft", "ai.onnx.ml", "ai.onnx.preview.training", "ai.onnx.preview")
LEFT_OUT = {"CumProd", "Upsample", "Scatter"}  # too new for onnxruntime, and too old
LEFT_OUT |= {"BitCast", "LinearAttention"}  # too new, too
# Random numbers: tests/frontend/onnx has them beside numpy's.
LEFT_OUT |= {"Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike"}
LEFT_OUT |= {"RandomUniform", "RandomUniformLike"}
# The values of a graph are tensors of numbers: tests/frontend/onnx/test_sequences.py has these.
LEFT_OUT |= {"Scan", "ImageDecoder", "RegexFullMatch", "StringConcat", "StringNormalizer"}
LEFT_OUT |= {"StringSplit", "TfIdfVectorizer", "ConcatFromSequence", "SplitToSequence"}
LEFT_OUT |= {
    f"Sequence{n}" for n in ("At", "Construct", "Empty", "Erase", "Insert", "Length", "Map")
}
LEFT_OUT |= {"Optional", "OptionalGetElement", "OptionalHasElement"}
LEFT_OUT |= {f"ai.onnx.ml::{n}" for n in ("CastMap", "CategoryMapper", "DictVectorizer", "ZipMap")}
# Inverses of random matrices, sparse ones, texts, caches in place, paths of unknown length, floats in bytes, a decoder's
# graph: tests/frontend/onnx
LEFT_OUT |= {
    f"com.microsoft::{n}"
    for n in (
        *("Inverse", "Tokenizer", "SparseAttention", "MatMulFpQ4"),
        *("DynamicTimeWarping", "BifurcationDetector", "GreedySearch", "SparseToDenseMatMul"),
    )
}
for _name in onnx_rows.ROWS:
    if _name not in LEFT_OUT:
        MAKERS.setdefault(_name, partial(onnx_rows.like_a_row, op=_name))
OPSETS = [13, 15, 17, 18, 20, 21, 22, 23, 24]


def onnx_case(seed: int) -> Case:
    """The graph of a seed."""
    for attempt in range(100):
        g = OnnxBuilder(seed * 100 + attempt)
        g.case.seed = seed
        g.case.opset = g.rng.choice(OPSETS)
        wanted = g.rng.choice([1, 1, 2, 3, 3, 4, 5, 8])
        for _ in range(wanted * 6):
            before = len(g.case.nodes), len(g.values)
            try:
                MAKERS[g.rng.choice(list(MAKERS))](g)
            except NotHere:
                del g.case.nodes[before[0] :], g.values[before[1] :]
            if len(g.case.nodes) >= wanted:
                return finish(g)
    raise NotHere(f"seed {seed} makes no graph")
