"""Makers of com.microsoft's mixtures of experts, streams and states, and of small ones beside."""

from __future__ import annotations

from .build import Builder, Value
from .onnx_contrib import add, contrib, numbers
from .onnx_tensor import UNIFORM, few


def uniform(g: Builder, dims: list, **more: float) -> Value:
    return g.new("float32", dims, **{**UNIFORM, **more})


@contrib("MoE", "QMoE")
def experts(g, op):
    count, width, inner = (g.const(g.rng.choice(n)) for n in ([2, 4], [16, 32], [16, 32]))
    rows = g.dim(least=1)
    given = [uniform(g, [rows, width]), uniform(g, [rows, count])]
    bits = g.rng.choice([4, 8])
    for to, of in ((inner, width), (width, inner)):
        if op == "MoE":
            given.append(uniform(g, [count, to, of]))
        else:
            given.append(g.new("uint8", [count, to, g.const(of[0] * bits // 8)], low=0, high=255))
            given.append(numbers(g, "float32", [count, to], 0.01, 0.1))
        given.append(uniform(g, [count, to]))
    act = g.rng.choice(["relu", "gelu", "silu", "identity"] if op == "MoE" else ["silu"])
    more = {"expert_weight_bits": bits} if op == "QMoE" else {}
    more |= {"k": g.rng.randint(1, 2), "activation_type": act}
    add(g, op, given, ("float32", [rows, width]), exact=False, final=True, **more)


@contrib("LinearAttention", "GatedDeltaNet")
def states(g, op):
    batch, length, heads, size = few(g), g.const(g.rng.randint(1, 5)), 2, g.rng.choice([4, 8])
    own = [g.const(heads), g.const(size)] if op == "GatedDeltaNet" else [g.const(heads * size)]
    q, k = (uniform(g, [batch, length, *own], low=-0.5, high=0.5) for _ in "qk")
    state = [batch, g.const(heads), g.const(size), g.const(size)]
    decay = uniform(g, [batch, length, g.const(heads)], low=-1, high=0)
    beta = uniform(g, [batch, length, g.const(heads)], low=0, high=1)
    v, last = uniform(g, [batch, length, *own]), uniform(g, state)
    if op == "GatedDeltaNet":
        given, more = [q, k, v, "", decay, beta, last], {"qk_l2_norm": g.rng.choice([0, 1])}
    else:
        given, more = [q, k, v, last, decay, beta], {"q_num_heads": heads, "kv_num_heads": heads}
    results = ("float32", v.shape), ("float32", state)
    add(g, op, given, *results, exact=False, **more)


@contrib("CausalConvWithState")
def causal(g, op):
    batch, length, width, taps = few(g), g.dim(least=1), g.const(g.rng.choice([1, 4, 16])), 3
    before = [batch, width, g.const(taps - 1)]
    given = [uniform(g, [batch, width, length]), uniform(g, [width, g.const(1), g.const(taps)])]
    given += [uniform(g, [width]), uniform(g, before)]
    act = g.rng.choice(["none", "silu"])
    results = ("float32", given[0].shape), ("float32", before)
    add(g, op, given, *results, exact=False, activation=act)


@contrib("EngramGate")
def engram(g, op):
    lead, streams, width = [few(g), g.dim(least=1)], g.const(2), g.const(g.rng.choice([4, 16]))
    key, query = (uniform(g, [*lead, streams, width]) for _ in "kq")
    scales = [uniform(g, [streams, width], low=0.5, high=2) for _ in "kqc"]
    given = [key, query, uniform(g, [*lead, width]), *scales]
    add(g, op, given, *[("float32", key.shape)] * 2, exact=False)


@contrib("HyperConnectionPreMix", "HyperConnectionPostMix")
def streams_mixed(g, op):
    lead, count, width = [g.dim(), g.dim(least=1)], g.const(2), g.const(g.rng.choice([4, 16]))
    x, mix = uniform(g, [*lead, count, width]), uniform(g, [*lead, count])
    if op.endswith("PreMix"):
        add(g, op, [x, mix], ("float32", [*lead, width]), exact=False, reduction_scale=0.5)
        return
    given = [x, uniform(g, [*lead, width]), mix]
    given += [uniform(g, [*lead, count, count])] * g.rng.choice([0, 1])
    add(g, op, given, ("float32", x.shape), exact=False)


@contrib("MRotaryEmbedding")
def rotary_of_three(g, op):
    batch, length, size = few(g), g.const(g.rng.randint(1, 6)), 16
    x = uniform(g, [batch, length, g.const(2 * size)])
    at = g.new("int64", [g.const(3), batch, length], low=0, high=7)
    table = [g.const(8), g.const(size // 2)]
    given = [x, at, *(uniform(g, table) for _ in "cs")]
    more = {"mrope_section": [3, 3, 2], "mrope_layout": g.rng.choice([0, 1]), "num_heads": 2}
    add(g, op, given, ("float32", x.shape), exact=False, interleaved=g.rng.choice([0, 1]), **more)


@contrib("DecoderMaskedMultiHeadAttention")
def one_row(g, op):
    batch, heads, size, room = few(g), g.const(2), g.const(8), g.const(7)
    row = [batch, g.const(1), g.const(16)]
    cache = [batch, heads, room, size]
    given = [*(uniform(g, row) for _ in "qkv"), "", "", *(uniform(g, cache) for _ in "kv")]
    given.append(g.weight("int32", [g.rng.randint(0, 6)], [1]))
    results = ("float32", row), ("float32", cache), ("float32", cache)
    more = {"num_heads": 2, "past_present_share_buffer": 1}
    add(g, op, given, *results, exact=False, final=True, **more)


@contrib("NGramRepeatBlock", "NGramHashMapping")
def n_grams(g, op):
    batch, length = few(g), g.const(g.rng.randint(3, 9))
    ids = g.new("int64", [batch, length], low=0, high=5)
    if op == "NGramRepeatBlock":
        scores = uniform(g, [batch, g.const(6)])
        add(g, op, [ids, scores], ("float32", scores.shape), final=True, ngram_size=2)
        return
    given = [ids, g.ints([7, 31, 101]), g.ints([11, 13, 17, 19])]
    results = ("int64", [batch, length, g.const(4)]), ("int64", [batch, g.const(2)])
    add(g, op, given, *results, max_ngram_size=3, n_head_per_ngram=2)


@contrib("CropAndResize")
def crops(g, op):
    images, count = g.const(2), g.const(3)
    x = uniform(g, [images, few(g), g.dim(least=2), g.dim(least=2)])
    rois, which = uniform(g, [count, g.const(4)]), g.new("int32", [count], low=0, high=1)
    size = g.name("w")
    g.case.weights[size] = {"dtype": "int32", "shape": [2], "values": [4, 3]}
    given = [x, rois, which, size]
    add(g, op, given, ("float32", [count, x.shape[1], g.const(4), g.const(3)]), exact=False)


@contrib("MurmurHash3")
def hashed(g, op):
    v = g.pick(["int32", "float32", "int64", "float64"], exact=True, finite=True)
    add(g, op, [v], ("uint32", v.shape), seed=g.rng.randint(0, 9), final=True)


@contrib("SampleOp")
def sample(g, op):
    v = g.pick(["float32"])
    add(g, op, [v], ("float32", v.shape))


@contrib("MoEGroupRouter")
def router(g, op):
    rows, count = g.dim(least=1), g.const(8)
    given = [uniform(g, [rows, count]), uniform(g, [count], low=-0.1, high=0.1)]
    more = {"n_group": 2, "topk_group": 1, "group_topk": 2, "top_k": 2}
    add(g, op, given, ("float32", [rows, count]), exact=False, final=True, **more)
