"""com.microsoft's operators on words, tokens and alignments beside onnxruntime."""

from __future__ import annotations

import numpy as np
import pytest

from loopwright.base.errors import LoopwrightError
from loopwright.driver import compile
from loopwright.frontend.onnx import from_onnx

from .support import close, floats, integers, interpreted, operator, reference

Fail = pytest.importorskip("onnxruntime.capi.onnxruntime_pybind11_state").Fail

DOMAIN = "com.microsoft"
WORDS = ["Hello World", "I love  computer science !", "", " x ", "aab ab", "été, à b"]
LISTS = [
    {"separators": [" "]},
    {"separators": [" ", ","], "mark": 1, "mincharnum": 2},
    {"separators": ["e", "[lo]+ "], "mark": 1},
    {"separators": [""]},
    {"separators": [""], "mark": 1},
    {"tokenexp": "[a-z]+", "mincharnum": 2},
    {"tokenexp": "a|ab"},
    {"tokenexp": "a*", "mark": 1},
    {"tokenexp": "."},
    {"tokenexp": "[0-9]", "mark": 1},
]


def texts(*shape):
    return np.array(WORDS, object).reshape(shape)


def same(*args, symbolic=False, **options):
    made, feeds = operator(*args, domain=DOMAIN, symbolic=symbolic, **options)
    results = compile(made).run(feeds).values()
    for got, want in zip(results, reference(made, feeds), strict=True):
        got = got if isinstance(got, np.ndarray) else got.numpy()
        if want.dtype == object:
            assert (got.shape, got.tolist()) == (want.shape, want.tolist())
        else:
            close([got], [want])


@pytest.mark.parametrize("shape", [(6,), (2, 3)])
@pytest.mark.parametrize("options", LISTS)
def test_tokens_of_texts(options, shape):
    whole = {"mark": 0, "mincharnum": 1, "pad_value": "#", **options}
    same("Tokenizer", texts(*shape), **whole)


@pytest.mark.parametrize(
    "options",
    [{}, {"separators": [" "], "tokenexp": "a"}, {"separators": ["a*"]}, {"tokenexp": "("}],
)
def test_patterns_that_are_refused(options):
    whole = {"mark": 0, "mincharnum": 1, "pad_value": "#", **options}
    made, _ = operator("Tokenizer", texts(6), domain=DOMAIN, **whole)
    with pytest.raises(LoopwrightError, match="Tokenizer"):
        from_onnx(made)


@pytest.mark.parametrize("symbolic", [False, True])
@pytest.mark.parametrize("shape", [(5, 7), (1, 6, 3), (1, 4), (4, 1)])
def test_the_cheapest_path(shape, symbolic):
    same("DynamicTimeWarping", floats(*shape), symbolic=symbolic)
    same("DynamicTimeWarping", np.round(floats(*shape, seed=3)), symbolic=symbolic)


@pytest.mark.sample(2)
@pytest.mark.parametrize("seed", range(40))
def test_where_tokens_part_from_their_source(seed):
    rng = np.random.default_rng(seed)
    source, tokens = (rng.integers(0, 4, rng.integers(1, n)) for n in (12, 8))
    start = rng.integers(0, len(source) + 1)
    sizes = {"min_ngram_size": 1 + seed % 2, "max_ngram_size": 1 + seed % 2 + seed % 3}
    predicted = [rng.integers(0, 4, len(source) + 1 - start)] if seed % 4 else []
    given = source, tokens, np.asarray(start), *predicted
    same("BifurcationDetector", *given, outputs=2, symbolic=seed % 5 == 0, **sizes)


@pytest.mark.sample(3)
@pytest.mark.parametrize("symbolic", [False, True])
@pytest.mark.parametrize(("letters", "window"), [(6, 3), (4, 4), (5, 1)])
def test_embeddings_of_words(letters, window, symbolic):
    words = integers(7, letters, low=0, high=9, dtype=np.int32)
    words[:, 0] = np.maximum(words[:, 0], 1)  # onnxruntime leaves an empty word's row as it was
    words[3:, 2:] = 0
    weights = floats(5, 1, window, 4), floats(5, seed=1), floats(9, 4, seed=2)
    same("WordConvEmbedding", words, *weights, fed=1, symbolic=symbolic)
    words[0] = 0
    made, feeds = operator("WordConvEmbedding", words, *weights, fed=1, domain=DOMAIN)
    (got,) = interpreted(from_onnx(made), feeds)
    close([got[0]], [np.zeros(5, np.float32)])


@pytest.mark.parametrize("symbolic", [False, True])
@pytest.mark.parametrize("shape", [(4, 4), (2, 3, 5, 5), (1, 1)])
def test_inverses(shape, symbolic):
    same("Inverse", floats(*shape, seed=4), symbolic=symbolic)


@pytest.mark.parametrize("symbolic", [False, True])
@pytest.mark.parametrize(("kind", "rows"), [(0, 96), (1, 64), (1, 33)])
def test_products_with_packed_numbers(kind, rows, symbolic):
    rng, columns, blocks = np.random.default_rng(rows), 5, -(-rows // 32)
    scales = rng.uniform(0.1, 1, (columns, blocks, 1)).astype(np.float32).view(np.uint8)
    zeros = rng.integers(0, 16, (columns, blocks, kind), np.uint8)
    pairs = rng.integers(0, 256, (columns, blocks, 16), np.uint8)
    data = np.concatenate([scales, zeros, pairs], -1).reshape(-1)
    shape = np.array([rows, columns])
    given = floats(2, 3, rows), data, shape
    try:
        same("MatMulFpQ4", *given, fed=1, symbolic=symbolic, blk_quant_type=kind)
    except Fail as error:
        if "not yet supported on this hardware" not in str(error):
            raise
        pytest.skip("onnxruntime has no such kernel for this processor")


@pytest.mark.parametrize("name", ["BeamSearch", "AttnLSTM", "MaxpoolWithMask"])
def test_operators_that_are_refused_say_why(name):
    made, _ = operator(name, floats(2, 3), domain=DOMAIN)
    with pytest.raises(
        LoopwrightError, match=rf"{name} \(domain com.microsoft.*\n      \w+.*: \w+"
    ):
        from_onnx(made)
