"""com.microsoft beside onnxruntime: (operator, inputs, options), static and symbolic."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper

import loopwright
from loopwright.base.errors import LoopwrightError
from loopwright.frontend.onnx import from_onnx

from .support import bools, close, floats, integers, interpreted, ints, operator, reference

DOMAIN = "com.microsoft"
X, Y = floats(2, 3, 4), floats(2, 3, 4, seed=1)
F32 = np.float32
ONE, TWO = np.asarray(0.02, F32), np.asarray(0.03, F32)
MIDDLE, HIGH = np.asarray(127, np.uint8), np.asarray(140, np.uint8)


def case(op_type, *inputs, **options):
    """`symbolic=False`: known extents only; `compared`: so many
    outputs, the others hold what nobody wrote; `own`: attributes of names that `operator` takes."""
    return (op_type, inputs, options)


def u8(*shape, seed=0):
    return np.random.default_rng(seed).integers(0, 256, shape).astype(np.uint8)


def i8(*shape, seed=0):
    """Up to 64: with greater ones onnxruntime's products by uint8 saturate on processors without VNNI."""
    return np.random.default_rng(seed).integers(-64, 65, shape).astype(np.int8)


IMAGE, COLUMNS = u8(2, 4, 6, 5), floats(5, low=0.01, high=0.04)
POOL = {"kernel_shape": [3, 2], "strides": [2, 1], "pads": [1, 0, 1, 1]}
QUANTIZED = [
    *[case(n, u8(2, 3), ONE, MIDDLE, u8(3, seed=1), TWO, HIGH, TWO, MIDDLE) for n in ("QLinearAdd", "QLinearMul")],
    case("QLinearAdd", i8(2, 3), ONE, np.int8(3), i8(2, 3, seed=1), TWO, np.int8(0), TWO, np.int8(-4), fed=1),
    case("QLinearSigmoid", u8(2, 3), ONE, MIDDLE, np.asarray(1 / 256, F32), np.uint8(0), fed=1),
    case("QLinearLeakyRelu", u8(2, 3), ONE, MIDDLE, TWO, HIGH, fed=1, alpha=0.2),
    case("QLinearGlobalAveragePool", IMAGE, ONE, MIDDLE, TWO, HIGH, fed=1),
    case("QLinearGlobalAveragePool", IMAGE, ONE, MIDDLE, TWO, HIGH, fed=1, channels_last=1),
    case("QLinearAveragePool", IMAGE, ONE, MIDDLE, TWO, HIGH, fed=1, **POOL),
    case("QLinearAveragePool", IMAGE, ONE, MIDDLE, TWO, HIGH, fed=1, channels_last=1, **POOL),
    case("QLinearSoftmax", u8(2, 3, 4), ONE, MIDDLE, np.asarray(1 / 256, F32), np.uint8(0), fed=1, axis=1, own={"opset": 13}),
    case("QLinearConcat", TWO, HIGH, u8(2, 3), ONE, MIDDLE, u8(2, 2), TWO, HIGH, axis=1, symbolic=False),
    case("QLinearWhere", bools(2, 3), u8(2, 3), ONE, MIDDLE, u8(2, 3, seed=1), TWO, HIGH, TWO, MIDDLE),
    case("QLinearConv", u8(1, 6, 5, 4), ONE, MIDDLE, i8(3, 4, 3, 3), floats(3, low=0.01, high=0.02), np.zeros(3, np.int8), np.asarray(0.5, F32), HIGH, integers(3, dtype=np.int32), fed=1, channels_last=1, pads=[1, 1, 1, 1]),
    case("QGemm", u8(3, 4), ONE, MIDDLE, i8(4, 5), COLUMNS, np.zeros(5, np.int8), integers(5, dtype=np.int32), np.asarray(0.5, F32), HIGH, fed=1),
    case("QGemm", u8(3, 4), ONE, MIDDLE, i8(5, 4), TWO, np.int8(3), integers(5, dtype=np.int32), fed=1, transB=1, alpha=2.0),
    case("MatMulIntegerToFloat", u8(3, 4), i8(4, 5), ONE, COLUMNS, MIDDLE, np.zeros(5, np.int8), floats(5), fed=1),
    case("MatMulIntegerToFloat", u8(2, 3, 4), u8(4, 5), ONE, TWO, fed=1),
    case("DynamicQuantizeMatMul", X, i8(4, 5), COLUMNS, np.zeros(5, np.int8), floats(5), fed=1),
    case("DynamicQuantizeMatMul", X, u8(4, 5), ONE, MIDDLE, fed=1),
    case("QuantizeLinear", X, ONE, MIDDLE, fed=1),
    case("DequantizeLinear", i8(2, 3, 4), floats(3), np.zeros(3, np.int8), fed=1, axis=1),
]  # fmt: skip


def packed(n, k, size, bits=4, zeros=False, rows=(2, 3), **options):
    blocks = -(-k // size)
    more = [u8(n, -(-blocks * bits // 8), seed=3)] if zeros else []
    inputs = (
        floats(*rows, k),
        u8(n, blocks, size * bits // 8),
        floats(n, blocks, low=0.01, high=0.1),
    )
    return case(
        "MatMulNBits", *inputs, *more, fed=1, N=n, K=k, bits=bits, block_size=size, **options
    )


def four_bits(kind, columns=5, rows=33, size=16, **options):
    scales = floats(-(-columns * rows // size), low=0.1, high=1)
    data = u8((columns * rows + 1) // 2)
    sizes = {"N": columns, "K": rows, "block_size": size, "quant_type": kind}
    return case("MatMulBnb4", floats(2, 3, rows), data, scales, fed=1, **sizes, **options)


GATED = [
    *[case("GatedRMSNorm", floats(3, 5, 16), floats(2), floats(3, 5, 16, seed=1), activation=a) for a in ("silu", "sigmoid")],
    case("BranchwiseRMSNorm", floats(3, 5, 16), floats(16), num_branches=2, epsilon=1e-3),
    case("BranchwiseRMSNorm", floats(2, 3, 4), floats(3, 4)),
    case("BranchwiseRMSNorm", floats(3, 5, 16), floats(2), num_branches=8),
    case("BranchwiseRMSNorm", floats(2, 3, 4)),
    case("LinearAttentionGate", X, floats(4), floats(4, seed=2), Y, fed=1, outputs=2),
    case("GatedAdd", X, Y, floats(2, 3, 1)),
    case("ScaledSiLU", X, alpha=1.7),
    case("ScaledSiLU", X, np.asarray(0.3, F32), fed=1),
    case("UnfoldTensor", floats(2, 7, 3), dim=1, size=3, step=2),
    case("UnfoldTensor", floats(2, 7), dim=-1, size=2),
    case("ConvTransposeWithDynamicPads", floats(1, 2, 5, 4), floats(2, 3, 3, 3), ints(1, 0, 1, 0), floats(3), fed=1, strides=[2, 1]),
    *[four_bits(k) for k in (0, 1)],
]  # fmt: skip

IDS = integers(2, 3, low=0, high=7, dtype=np.int32)
CASES = [
    *QUANTIZED,
    *GATED,
    packed(5, 64, 32),
    packed(5, 96, 32, zeros=True),
    packed(5, 64, 16, zeros=True),
    packed(70, 100, 16, zeros=True, rows=(11,)),
    packed(64, 64, 32, bits=8, zeros=True, rows=(1,)),
    packed(130, 50, 16, bits=2, rows=(2, 9)),
    *[packed(70, 100, 32, zeros=True, rows=r, accuracy_level=4) for r in ((1,), (3,), (2, 5))],
    packed(64, 32, 32, bits=8, rows=(2, 3), accuracy_level=4),
    case("GatherBlockQuantized", u8(7, 16), IDS, floats(7, 2, low=0.1, high=0.5), fed=0, block_size=16, symbolic=False),
    case("GatherBlockQuantized", u8(7, 16), IDS, floats(7, 2, low=0.1, high=0.5), u8(7, 1), fed=0, block_size=16, symbolic=False),
    case("GatherBlockQuantized", u8(7, 24), IDS, floats(7, 3, low=0.1, high=0.5), u8(7, 2), fed=0, block_size=16, symbolic=False),
    case("FusedMatMul", X, floats(5, 4), transB=1, alpha=0.5),
    case("FusedMatMul", floats(2, 4, 3), floats(2, 4, 5), transA=1),
    case("FusedMatMul", floats(4), X, transA=1, transB=1),
    case("FusedMatMul", floats(3, 2, 4), floats(2, 4, 5), transBatchA=1),
    *[case("FusedGemm", floats(3, 4), floats(5, 4), floats(5), transB=1, activation=a) for a in ("Relu", "Tanh", "Sigmoid")],
    case("FusedGemm", floats(3, 4), floats(4, 5), alpha=0.5, activation="LeakyRelu", activation_alpha=0.2),
    *[case("FusedConv", floats(2, 4, 6, 5), floats(3, 4, 3, 3), floats(3), fed=1, pads=[1, 1, 1, 1], **a) for a in ({"activation": "Relu"}, {"activation": "Clip", "activation_params": [-0.5, 0.5]}, {"activation": "HardSigmoid", "activation_params": [0.3, 0.4]})],
    case("FusedConv", floats(2, 4, 6, 5), floats(3, 4, 1, 1), floats(3), floats(2, 3, 6, 5), activation="Relu"),
    *[case("CDist", floats(3, 4), floats(5, 4), metric=m) for m in ("euclidean", "sqeuclidean")],
    case("CDist", floats(3, 4), floats(5, 4)),
    case("Unique", np.round(floats(9)), outputs=3, symbolic=False),
    case("Trilu", X, upper=0),
    case("ExpandDims", X, np.asarray([1], np.int32), fed=1),
    case("Pad", X, ints(0, 1, 2, 1, 0, 0), np.asarray([1.5], F32), fed=1),
    case("Range", np.asarray([1], np.int64), np.asarray([9], np.int64), np.asarray([3], np.int64), fed=0),
    case("GatherND", X, np.asarray([[0, 1], [1, 2]], np.int64), symbolic=False),
    case("SimplifiedLayerNormalization", X, floats(4), fed=1, domain="", epsilon=1e-3),
    case("SimplifiedLayerNormalization", X, floats(4), fed=1, domain="", outputs=2),
    case("SkipSimplifiedLayerNormalization", X, Y, floats(4), floats(4, seed=3), fed=2, epsilon=1e-3),
    case("EmbedLayerNormalization", IDS, IDS % 2, floats(7, 4), floats(5, 4, seed=1), floats(2, 4, seed=2), floats(4, seed=3), floats(4, seed=4), bools(2, 3).astype(np.int32), fed=2, outputs=3),
    case("EmbedLayerNormalization", IDS, IDS % 2, floats(7, 4), floats(5, 4, seed=1), floats(2, 4, seed=2), floats(4, seed=3), floats(4, seed=4), np.asarray([[1, 2, 1], [-1, 0, 1]], np.int32), fed=2, outputs=3),
    case("EmbedLayerNormalization", IDS, None, floats(7, 4), floats(5, 4, seed=1), None, floats(4, seed=3), floats(4, seed=4), fed=1, outputs=2),
]  # fmt: skip

B, S, P, N, D = 3, 5, 4, 2, 16  # batches, rows, cached; heads and their size are never symbolic
KNOWN = (2, 16, 32, 64)
GROUPED = (
    "Attention",
    "RotaryEmbedding",
    "RMSNorm",
    "MoE",
    "Engram",
    "Hyper",
    "Causal",
    "GatedDelta",
)
WIDE = N * D
SEQ, WEIGHT = floats(B, S, WIDE), floats(WIDE, 3 * WIDE, low=-0.4, high=0.4, seed=1)
MASK = np.asarray([[1, 1, 0, 0, 0], [1] * 5, [1, 1, 1, 1, 0]], np.int32)
LONG = np.concatenate([np.ones((B, P), np.int32), MASK], 1)
CACHE = floats(2, B, N, P, D, seed=2)
COS, SIN = floats(8, D // 2, seed=3), floats(8, D // 2, seed=4)
I32 = np.int32


def grouped(
    past=None, last=(4, 4, 4), total=5, rows=S, rotary=False, packed=False, heads=4, **more
):
    """GroupQueryAttention of `heads` and 2 heads of keys."""
    q, k, v = (
        floats(B, rows, heads * D),
        floats(B, rows, 2 * D, seed=5),
        floats(B, rows, 2 * D, seed=6),
    )
    given = [np.concatenate([q, k, v], 2), None, None] if packed else [q, k, v]
    cache = [None, None] if past is None else [floats(B, 2, past, D, seed=s) for s in (7, 8)]
    lengths = [np.asarray(last, I32), np.asarray(total, I32)]
    tables = [COS, SIN] if rotary else []
    options = {
        "num_heads": heads,
        "kv_num_heads": 2,
        "do_rotary": int(rotary),
        "outputs": 3,
        **more,
    }
    return case("GroupQueryAttention", *given, *cache, *lengths, *tables, symbolic=False, **options)


ATTENTION = [
    case("Attention", SEQ, WEIGHT, floats(3 * WIDE), fed=1, num_heads=N),
    *[case("Attention", SEQ, WEIGHT, floats(3 * WIDE), m, fed=1, num_heads=N) for m in (MASK, np.repeat(MASK[:, None], S, 1))],
    *[case("Attention", SEQ, WEIGHT, floats(3 * WIDE), np.asarray(m, I32), fed=1, num_heads=N, symbolic=False) for m in ([2, 5, 4], [3, 5, 5, 0, 1, 2])],
    case("Attention", SEQ, WEIGHT, floats(3 * WIDE), fed=1, num_heads=N, unidirectional=1, scale=0.3),
    case("Attention", SEQ, WEIGHT, floats(3 * WIDE), LONG, CACHE, fed=1, num_heads=N, unidirectional=1, outputs=2),
    case("Attention", SEQ, WEIGHT, floats(3 * WIDE), None, None, floats(B, N, S, S), fed=1, num_heads=N),
    case("Attention", SEQ, floats(WIDE, 80, low=-0.4, high=0.4), floats(80), fed=1, num_heads=N, qkv_hidden_sizes=[32, 32, 16]),
    *[case("QAttention", u8(B, S, WIDE), i8(WIDE, 3 * WIDE), floats(3 * WIDE), np.asarray(0.02, F32), np.asarray(0.02, F32), MASK, MIDDLE, np.int8(0), fed=1, num_heads=N, unidirectional=u) for u in (0, 1)],
    case("MultiHeadAttention", SEQ, floats(B, 7, WIDE), floats(B, 7, WIDE, seed=1), num_heads=N),
    case("MultiHeadAttention", SEQ, SEQ * 2, SEQ + 1, floats(3 * WIDE), MASK, fed=3, num_heads=N, scale=0.3),
    case("MultiHeadAttention", SEQ, SEQ * 2, SEQ + 1, None, None, floats(B, N, S, S), fed=3, num_heads=N, unidirectional=1),
    case("MultiHeadAttention", SEQ, floats(B, N, 7, D), floats(B, N, 7, D, seed=1), num_heads=N),
    case("MultiHeadAttention", SEQ, SEQ * 2, SEQ + 1, None, None, None, CACHE[0], CACHE[1], fed=3, num_heads=N, outputs=3),
    *[case("RotaryEmbedding", x, p, COS, SIN, fed=2, interleaved=i, **n) for i in (0, 1) for x, n in ((SEQ, {}), (floats(B, N, S, D), {})) for p in (np.asarray([2]), np.arange(15).reshape(B, S) % 8)],
    case("RotaryEmbedding", floats(B, S, 64), np.asarray([0]), COS, SIN, fed=2, num_heads=2, rotary_embedding_dim=16),
    grouped(),
    grouped(heads=2, packed=True),
    grouped(rotary=True, local_window_size=2),
    grouped(rotary=True, rotary_interleaved=1),
    grouped(past=4, last=(4, 4, 4), total=5, rows=1, rotary=True),
    grouped(past=4, last=(4, 3, 1), total=5, rows=1, rotary=True, compared=1),
    grouped(past=8, last=(4, 2, 3), total=5, rows=1, compared=1),
    grouped(softcap=2.0),
    *[grouped(last=(4, 0, 2), **options) for options in ({}, {"softcap": 2.0}, {"rotary": True})],  # rows of padding
]  # fmt: skip
CASES += ATTENTION


def experts(kind="relu", biased=True, k=2, fused=1, third=False, rows=(3, 5), **more):
    """Of 2 experts, 16 numbers in and 32 within."""
    w = [
        floats(2, 32 * fused, 16, low=-0.4, high=0.4),
        floats(2, 16, 32, low=-0.4, high=0.4, seed=1),
    ]
    b = [floats(2, 32 * fused, seed=2), floats(2, 16, seed=3)] if biased else [None, None]
    last = [floats(2, 32, 16, low=-0.4, high=0.4, seed=4)] * third
    logits = floats(int(np.prod(rows)), 2, seed=5)
    logits[::2] = 0.5  # equal ones: the last counts first
    given = [floats(*rows, 16), logits, w[0], b[0], w[1], b[1], *last]
    return case("MoE", *given, fed=2, k=k, activation_type=kind, **more)


def quantized(bits, block=0, zeros=False, chances=False, **more):
    parts, middle = [], []
    for n, (to, of) in enumerate(((32, 16), (16, 32))):
        scales = floats(2, to, *([of // block] if block else []), low=0.01, high=0.1, seed=n)
        parts += [u8(2, to, of * bits // 8, seed=n), scales, floats(2, to, seed=n + 2)]
        count = (2, to, -(-of // block * bits // 8)) if block else (2, to * bits // 8)
        middle += [u8(*count, seed=n + 7)] if zeros else [None]
    parts += [None] * 3 + middle + [None, floats(3, 2, seed=9, low=0)] if zeros or chances else []
    more = {"block_size": block, **more} if block else more
    logits = floats(3, 2, seed=5)
    logits[1] = 0.5
    given = [floats(3, 16), logits, *parts]
    return case("QMoE", *given, fed=2, k=1, expert_weight_bits=bits, activation_type="silu", **more)


STREAMS = floats(3, 5, 2, 16)
TEXT = np.array([[3, 1, 2, 3, 1, 4, 3, 1], [5, 5, 5, 5, 5, 5, 5, 5]], np.int64)
LAYOUTS = ({"mrope_section": [2, 3, 3]}, {"mrope_section": [3, 3, 2], "mrope_layout": 1})
PLACES = np.random.default_rng(0).integers(0, 8, (3, B, S))
BOXES = np.array([[0.1, 0.2, 0.8, 0.7], [-0.2, 0, 1.1, 0.9], [0.6, 0.9, -0.1, 0.2]], F32)
CROP = np.array([1, 0, 1], I32), np.array([4, 3], I32)
CASES += [
    *[experts(kind) for kind in ("relu", "gelu", "silu", "identity")],
    experts(k=1, biased=False, normalize_routing_weights=1, rows=(7,)),
    experts("swiglu", fused=2, swiglu_fusion=1, activation_alpha=1.7, activation_beta=1.0, swiglu_limit=1.5),
    quantized(4),
    quantized(8),
    quantized(4, 16),
    *[quantized(*o, zeros=True) for o in ((4,), (8,), (4, 16))],
    quantized(4, chances=True),
    *[case("LinearAttention", floats(B, S, 32), floats(B, S, 32, seed=1), SEQ, floats(B, 2, 16, 16), None, None, outputs=2, q_num_heads=2, kv_num_heads=2, update_rule="linear", **m) for m in ({}, {"scale": 0.5})],
    case("LinearAttention", floats(B, S, 32, low=-0.3, high=0.3), floats(B, S, 32, low=-0.3, high=0.3, seed=1), SEQ, floats(B, 2, 16, 16), floats(B, S, 2, low=-1, high=0), floats(B, S, 2, low=0, high=1), outputs=2, q_num_heads=2, kv_num_heads=2),
    case("CausalConvWithState", floats(3, 16, 5), floats(16, 1, 4), floats(16), floats(3, 16, 3), fed=1, outputs=2, activation="silu"),
    case("CausalConvWithState", floats(3, 16, 5), floats(16, 1, 4), fed=1, outputs=2, dilation=2),
    case("CausalConvWithState", floats(3, 5, 16), floats(16, 1, 4), floats(16), floats(3, 3, 16), fed=1, outputs=2, channels_last=1),
    case("EngramGate", floats(3, 5, 2, 16), floats(3, 5, 2, 16, seed=1), floats(3, 5, 16, seed=2), floats(2, 16), floats(2, 16, seed=3), floats(2, 16, seed=4), fed=3, outputs=2),
    *[case("HyperConnectionPreMix", STREAMS, m, reduction_scale=0.7) for m in (floats(3, 5, 2), floats(3, 5, 2, 1), floats(3, 5, 2, 16))],
    case("HyperConnectionPreMix", STREAMS.reshape(3, 5, 32), floats(3, 5, 32), num_branches=2),
    *[case("HyperConnectionPostMix", STREAMS, floats(3, 5, 16), floats(3, 5, 2), *b) for b in ([], [floats(3, 5, 2, 2)])],
    case("HyperConnectionPostMix", STREAMS.reshape(3, 5, 32), floats(3, 5, 16), floats(3, 5, 2, 16), num_branches=2),
    *[case("MRotaryEmbedding", floats(B, S, 32), PLACES, COS, SIN, fed=2, num_heads=2, interleaved=i, **m) for i in (0, 1) for m in LAYOUTS],
    case("MRotaryEmbedding", floats(B, N, S, D), PLACES, COS, SIN, fed=2, **LAYOUTS[0]),
    case("DecoderMaskedMultiHeadAttention", floats(B, 1, WIDE), floats(B, N, 7, D), floats(B, N, 7, D, seed=1), num_heads=N),
    case("DecoderMaskedMultiHeadAttention", floats(B, 1, WIDE), floats(B, 1, WIDE, seed=1), floats(B, 1, WIDE, seed=2), None, None, CACHE[0], CACHE[1], np.asarray([2], I32), outputs=3, num_heads=N, past_present_share_buffer=1),
    *[case("NGramRepeatBlock", TEXT, floats(2, 7), ngram_size=n, symbolic=False) for n in (2, 3, 8, 9)],
    *[case("CropAndResize", floats(2, 3, h, 5), BOXES, *CROP, fed=2, mode=m, extrapolation_value=-1.0, symbolic=m == "bilinear") for m in ("bilinear", "nearest") for h in (6, 1)],
    case("CropAndResize", floats(2, 3, 2, 2), BOXES, *CROP, fed=2, mode="nearest", extrapolation_value=-1.0, symbolic=False),
    *[case("CropAndResize", floats(2, 3, 6, 5), BOXES, CROP[0], np.array([1, 3], I32), fed=2, mode=m, symbolic=False) for m in ("bilinear", "nearest")],
    *[case("MurmurHash3", floats(2, 3).astype(k), positive=p, seed=7) for p, k in ((1, "int32"), (0, "float32"), (1, "int64"), (0, "float64"))],
    case("SampleOp", X),
    *[case("GatedDeltaNet", floats(B, S, 2, 16, low=-0.3, high=0.3), floats(B, S, 2, 16, low=-0.3, high=0.3, seed=1), floats(B, S, own, 16, seed=2), None, floats(B, S, own, low=-1, high=0), floats(B, S, own, low=0, high=1), *[floats(B, own, 16, 16)] * given, outputs=2, **m) for own, given, m in ((2, 1, {}), (4, 1, {"qk_l2_norm": 1, "scale": 0.5, "symbolic": False}), (2, 0, {"beta_activation": "sigmoid"}))],
    case("GatedDeltaNet", *[floats(B, S, 1, 2, low=-1e-3, high=1e-3, seed=i) for i in range(2)], floats(B, S, 1, 2, seed=2), None, floats(B, S, 1, low=-1, high=0), floats(B, S, 1, low=0, high=1), outputs=2, qk_l2_norm=1, symbolic=False),  # the epsilon counts
    case("GatedDeltaNet", floats(B * S, 2, 16, low=-0.3, high=0.3), floats(B * S, 2, 16, low=-0.3, high=0.3, seed=1), floats(B * S, 2, 16, seed=2), None, floats(B * S, 2), floats(B * S, 2, low=0, high=1), floats(B, 2, 16, 16), floats(2), floats(2, seed=9), outputs=2, gate_activation="softplus", symbolic=False),
    case("MoEGroupRouter", floats(7, 16), floats(16, low=-0.1, high=0.1), n_group=4, topk_group=2, group_topk=2, top_k=3, router_sentinel=-99.0),
    case("MoEGroupRouter", floats(7, 4), floats(4, low=-0.1, high=0.1), n_group=4, top_k=3, symbolic=False),
    *[case("NGramHashMapping", integers(2, 5, low=0, high=99), ints(7, 31, 101), ints(11, 13, 17, 19), *more, outputs=2, max_ngram_size=3, n_head_per_ngram=2, pad_id=5, symbolic=False) for more in ([], [integers(2, 2, low=0, high=99)], [None, ints(0, 11, 24, 41)])],
]  # fmt: skip


def same(op_type, inputs, **options):
    options.setdefault("domain", DOMAIN)
    own, compared = options.pop("own", {}), options.pop("compared", None)
    made, feeds = operator(op_type, *inputs, **options)
    for dim in (d for port in made.graph.input for d in port.type.tensor_type.shape.dim):
        if any(name in op_type for name in GROUPED) and dim.dim_param[1:] in map(str, KNOWN):
            dim.dim_value = int(dim.dim_param[1:])
    made.graph.node[0].attribute.extend(helper.make_attribute(n, v) for n, v in own.items())
    got, expected = interpreted(from_onnx(made), feeds), reference(made, feeds)
    for a, b in zip(got[:compared], expected[:compared], strict=True):
        if b.dtype.kind in "iu" and op_type.startswith("Q"):
            assert a.dtype == b.dtype
            assert a.shape == b.shape
            assert np.abs(a.astype(int) - b.astype(int)).max() <= 1
        else:
            close([a], [b], 2e-5)


@pytest.mark.sample(2)
@pytest.mark.parametrize("row", CASES, ids=[f"{r[0]}-{i}" for i, r in enumerate(CASES)])
def test_static(row):
    op_type, inputs, options = row
    same(op_type, inputs, **{k: v for k, v in options.items() if k != "symbolic"})


SYMBOLIC = [r for r in CASES if r[2].get("symbolic", True) and r[2].get("fed", 1)]


@pytest.mark.sample(2)
@pytest.mark.parametrize("row", SYMBOLIC, ids=[f"{r[0]}-{i}" for i, r in enumerate(SYMBOLIC)])
def test_symbolic(row):
    op_type, inputs, options = row
    same(op_type, inputs, **{**options, "symbolic": True})


@pytest.mark.parametrize("parts", [2, 3])
def test_packed_keys_and_values(parts):
    """onnxruntime has these on other devices only."""
    heads = floats(B, S, N, parts, D)
    flat = [heads[:, :, :, n].reshape(B, S, WIDE) for n in range(parts)]
    query = [SEQ] if parts == 2 else []
    results = []
    for inputs in ([*query, heads], [*query, *flat]):
        made, feeds = operator("MultiHeadAttention", *inputs, domain=DOMAIN, num_heads=N)
        results.append(interpreted(from_onnx(made), feeds))
    close(*results)


def test_inputs_left_out_before_those_that_are_there():
    lstm = floats(3, 2, 4), u8(1, 4, 12), u8(1, 3, 12, seed=1), None, None, None, None, None
    scale, zero = np.asarray([0.01], F32), np.asarray([128], np.uint8)
    made, feeds = operator(
        "DynamicQuantizeLSTM", *lstm, scale, zero, scale, zero, domain=DOMAIN, hidden_size=3
    )
    # In onnxruntime the states of the batch share one scale.
    close(interpreted(from_onnx(made), feeds), reference(made, feeds), 0.02)


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
def test_quantized_lstm_rounds_inputs_and_states_to_bytes(direction):
    ways, size = 1 + (direction == "bidirectional"), 20
    weights = u8(ways, 4, 4 * size), u8(ways, size, 4 * size, seed=1), floats(ways, 8 * size)
    scale, zero = np.full(ways, 0.01, F32), np.full(ways, 128, np.uint8)
    given = floats(9, 1, 4), *weights, None, None, None, None, scale, zero, scale, zero
    made, feeds = operator(
        "DynamicQuantizeLSTM", *given, fed=1, domain=DOMAIN, outputs=3, hidden_size=size,
        direction=direction,
    )  # fmt: skip
    expected = reference(made, feeds)
    close(interpreted(from_onnx(made), feeds), expected)
    got = loopwright.compile(made).run(feeds).values()
    close([v.numpy() for v in got], expected)


def test_quantized_lstm_rounds_the_states_of_each_sequence_by_themselves():
    """In onnxruntime a batch shares a scale, so its sequences are run one by one there: two steps after
    them keep the range of all inputs the same."""
    steps, batch, size = 33, 5, 8
    x, scale, zero = 4 * floats(steps, batch, 1), np.full(1, 0.007, F32), np.full(1, 128, np.uint8)
    weights = u8(1, 1, 4 * size), u8(1, size, 4 * size, seed=1), floats(1, 8 * size)

    def model(x):
        given = x, *weights, None, None, None, None, scale, zero, scale, zero
        return operator("DynamicQuantizeLSTM", *given, fed=1, domain=DOMAIN, hidden_size=size)

    ends = np.full((2, 1, 1), [[[x.min()]], [[x.max()]]], F32)
    each = [reference(*model(np.concatenate([x[:, [k]], ends])))[0][:steps] for k in range(batch)]
    made, feeds = model(x)
    close(interpreted(from_onnx(made), feeds), [np.concatenate(each, 2)])


def test_bias_split_gelu():
    made, feeds = operator("BiasSplitGelu", X, floats(4), domain=DOMAIN)
    left, right = np.split(X + floats(4), 2, -1)
    model, inputs = operator("Gelu", right.copy(), opset=20)
    close(interpreted(from_onnx(made), feeds), [left * reference(model, inputs)[0]])


def test_known_weights_of_few_bits_stay_so():
    """In float32 they would be eight times as large, and a step of a model reads them all."""
    op_type, inputs, options = packed(70, 512, 32)
    made, _ = operator(op_type, *inputs, domain=DOMAIN, **options)
    exe = loopwright.compile(made, "llvm")
    size = sum(c.nbytes for c in exe.program.constants.values())
    assert size <= 128 * (512 // 2 + 2 * 4 * 512 // 32)


def test_weights_of_four_bits_that_are_not_turned():
    """As documented: the product by the [N, K] matrix. onnxruntime's kernel turns it all the same."""
    _, (_, data, scales), options = four_bits(1, 5, 33)
    del options["fed"]
    parts = []
    for turned, left in ((1, np.eye(33, dtype=F32)), (0, np.eye(5, dtype=F32))):
        made, feeds = operator(
            "MatMulBnb4", left, data, scales, fed=1, domain=DOMAIN, transB=turned, **options
        )
        parts += interpreted(from_onnx(made), feeds)
    np.testing.assert_array_equal(parts[0].T, parts[1])


def test_a_cache_is_written_in_place():
    """Where a result is the past's own memory; other memory that overlaps is refused."""
    op_type, given, options = grouped(past=8, last=(4, 6, 2), total=7, rows=2, rotary=True)
    options = {n: v for n, v in options.items() if n != "symbolic"} | {"domain": DOMAIN}
    model, feeds = operator(op_type, *given, fed=6, **options)
    exe = loopwright.compile(model)
    assert not exe.machine
    expected = {name: value.numpy() for name, value in exe.run(feeds).items()}
    keys, values = (feeds[name] for name in ("x3", "x4"))
    before, out = keys.copy(), np.empty_like(expected["y0"])
    with pytest.raises(ValueError, match="`out1` shares memory with argument 4"):
        exe.run(feeds, out={"y0": out, "y1": values, "y2": keys})
    np.testing.assert_array_equal(keys, before)
    exe.run(feeds, out={"y0": out, "y1": keys, "y2": values})
    for got, name in ((out, "y0"), (keys, "y1"), (values, "y2")):
        np.testing.assert_array_equal(got, expected[name])
    changed = (keys != before).any(axis=(1, 3))
    np.testing.assert_array_equal(np.argwhere(changed)[:, 1], [3, 4, 5, 6, 1, 2])


@pytest.mark.parametrize("past", [None, 4])
def test_a_number_of_keys_beyond_all_keys_is_refused(past):
    """As a weight where it is imported, as an input where it runs."""
    last = (2, 2, 127)
    op_type, given, options = grouped(past, last, rows=3)
    options = {n: v for n, v in options.items() if n != "symbolic"} | {"domain": DOMAIN}
    model, _ = operator(op_type, *given, fed=3, **options)
    with pytest.raises(loopwright.LoopwrightError, match="an index is out of range"):
        from_onnx(model)
    model, feeds = operator(op_type, *given, **options)
    exe = loopwright.compile(model)
    with pytest.raises(IndexError, match="onnx:node: index 127 is out of range for an axis of"):
        exe.run(feeds)
    feeds["x5"][2] = 2
    exe.run(feeds)


@pytest.mark.parametrize("own", [1, 3])
def test_heads_of_values_that_do_not_fit_the_keys_are_refused(own):
    keys, values = floats(B, S, 2, 16), floats(B, S, own, 16)
    gates = floats(B, S, own, low=-1, high=0), floats(B, S, own, low=0, high=1)
    model, _ = operator("GatedDeltaNet", keys, keys, values, None, *gates, outputs=2, domain=DOMAIN)
    with pytest.raises(
        loopwright.LoopwrightError,
        match=f"a multiple of the number of key heads\n  got: {own} and 2",
    ):
        from_onnx(model)


@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize("zeros", [None, "packed", "float"])
@pytest.mark.parametrize("bits", [2, 4, 8])
def test_weights_of_few_bits_that_only_the_run_knows(bits, zeros, grouped):
    """y = x W: W is (number - zero point) * scale, each block of a column with its own; with a list of
    groups, each row says which."""
    n, k, size, per = 5, 40, 16, 8 // bits
    blocks, mask = 3, (1 << bits) - 1

    def apart(data):
        return (data[..., None] >> bits * np.arange(per) & mask).reshape(*data.shape[:-1], -1)

    x, weights = floats(2, k), u8(n, blocks, size // per)
    scales, bias = floats(n, blocks, low=0.1, high=1), floats(n, seed=4)
    middle, given = np.full((n, blocks), 1 << bits - 1), None
    if zeros == "packed":
        given = u8(n, -(-blocks // per), seed=3)
        middle = apart(given)[:, :blocks]
    elif zeros == "float":
        given = middle = floats(n, blocks, low=0, high=mask, seed=2)
    group = np.arange(k, dtype=np.int32)[::-1] % blocks
    which = group if grouped else np.arange(k) // size
    numbers = apart(weights).reshape(n, -1)[:, :k].astype(F32)
    want = x @ ((numbers - middle[:, which]) * scales[:, which]).T + bias
    made, feeds = operator(
        "MatMulNBits", x, weights, scales, given, group.copy() if grouped else None, bias,
        domain=DOMAIN, N=n, K=k, bits=bits, block_size=size,
    )  # fmt: skip
    close(interpreted(from_onnx(made), feeds), [want.astype(F32)], 1e-4)


@pytest.mark.parametrize(("bits", "size"), [(3, 16), (4, 8), (16, 32)])
def test_weights_of_other_widths_are_refused(bits, size):
    made, _ = operator(
        "MatMulNBits", floats(2, 16), u8(3, 1, 8), floats(3, 1), domain=DOMAIN, N=3, K=16,
        bits=bits, block_size=size,
    )  # fmt: skip
    with pytest.raises(LoopwrightError, match=f"bits must be 2, 4 or 8(?s:.)*{bits} and {size}"):
        from_onnx(made)
