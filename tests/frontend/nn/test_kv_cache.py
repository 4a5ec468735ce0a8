"""Models with a paged cache of keys and values, against attention over whole sequences."""

from __future__ import annotations

import numpy as np
import pytest

import loopwright as lw
from loopwright import relax
from loopwright.frontend import nn
from loopwright.frontend.nn.llm.kv_cache import PagedKVCache, RopeMode, TIRPagedKVCache
from loopwright.runtime import ShapeTuple, get_global_func

HEADS, KV_HEADS, DIM, LAYERS, PAGE = 4, 2, 8, 2, 4


def state(name):
    return get_global_func(f"vm.builtin.kv_state_{name}")


class Model(nn.Module):
    """Two layers of attention on given queries, keys and values."""

    def forward(self, qkv: nn.Tensor, cache: PagedKVCache):
        first = cache.attention_with_fused_qkv(0, qkv, HEADS, DIM**-0.5)
        second = cache.attention_with_fused_qkv(1, qkv * 0.5, HEADS, DIM**-0.5)
        return first + second, cache.get_query_positions(qkv.shape[1])

    def make(self, max_batch: int, total: int, chunk: int, page: int, **changed):
        given = {
            "attn_kind": "mha",
            "max_batch_size": max_batch,
            "max_total_seq_len": total,
            "prefill_chunk_size": chunk,
            "page_size": page,
            "support_sliding_window": 0,
            "layer_partition": relax.ShapeExpr([0, LAYERS]),
            "num_hidden_layers": LAYERS,
            "num_attention_heads": HEADS,
            "num_key_value_heads": KV_HEADS,
            "qk_head_dim": DIM,
            "v_head_dim": DIM,
            "mla_original_qk_head_dim": 0,
            "mla_original_v_head_dim": 0,
            "rope_mode": RopeMode.NORMAL,
            "rope_scale": 1,
            "rope_theta": 100,
            "rope_scaling": {},
            "rope_ext_factors": relax.PrimValue(0),
            "rotary_dim": DIM,
            "enable_disaggregation": False,
            "dtype": "float32",
        }
        return TIRPagedKVCache(**(given | changed))


@pytest.fixture(scope="module")
def machine():
    made = {"param_mode": "none", "effect_mode": "none"}
    sizes = dict.fromkeys(["max_batch", "total", "chunk", "page"], int)
    forward = {
        "qkv": nn.spec.Tensor([1, "n", HEADS + 2 * KV_HEADS, DIM], "float32"),
        "cache": nn.spec.Object(object_type=PagedKVCache),
    }
    mod, _ = Model().export_tvm({"forward": {**forward, "$": made}, "make": {**sizes, "$": made}})
    return relax.VirtualMachine(lw.compile(mod, "llvm"), lw.cpu())


def rotated(x):
    """x: (n, heads, DIM), the token's number is its position."""
    half = DIM // 2
    angle = np.arange(len(x))[:, None] * 100.0 ** (-np.arange(half) * 2 / DIM)
    cos, sin = np.cos(angle)[:, None], np.sin(angle)[:, None]
    a, b = x[..., :half], x[..., half:]
    return np.concatenate([a * cos - b * sin, b * cos + a * sin], axis=-1)


def attention(qkv):
    q, k, v = np.split(qkv.astype("float64"), [HEADS, HEADS + KV_HEADS], axis=1)
    q, k = rotated(q), np.repeat(rotated(k), HEADS // KV_HEADS, axis=1)
    scores = np.einsum("ihc,jhc->hij", q, k) * DIM**-0.5
    scores[:, np.triu_indices(len(q), 1)[0], np.triu_indices(len(q), 1)[1]] = -np.inf
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    return np.einsum("hij,jhc->ihc", weights, np.repeat(v, HEADS // KV_HEADS, axis=1))


def expected(qkv):
    return attention(qkv) + attention(qkv * 0.5)


def step(machine, cache, parts):
    """A call with the tokens {sequence: qkv}."""
    counts = [len(qkv) for qkv in parts.values()]
    state("begin_forward")(cache, ShapeTuple(list(parts)), ShapeTuple(counts))
    given = np.concatenate(list(parts.values()))[None]
    out, positions = machine["forward"](lw.runtime.tensor(given), cache)
    state("end_forward")(cache)
    return np.split(out.numpy()[0], np.cumsum(counts)[:-1]), positions.numpy()


def test_sequences_grow_fork_and_shrink(machine):
    data = np.random.default_rng(0).normal(size=(3, 12, HEADS + 2 * KV_HEADS, DIM))
    a, b, c = data.astype("float32")
    cache = machine["make"](*(ShapeTuple([n]) for n in (3, 32, 16, PAGE)))
    state("add_sequence")(cache, 0)
    state("add_sequence")(cache, 7)
    (got_a, got_b), positions = step(machine, cache, {0: a[:5], 7: b[:3]})
    np.testing.assert_array_equal(positions, [*range(5), *range(3)])
    np.testing.assert_allclose(got_a, expected(a[:5]), atol=1e-5)
    np.testing.assert_allclose(got_b, expected(b[:3]), atol=1e-5)
    for n in range(5, 9):  # one token at a time, over the end of a page
        (got_a, got_b), _ = step(machine, cache, {0: a[n : n + 1], 7: b[n - 2 : n - 1]})
        np.testing.assert_allclose(got_a, expected(a[: n + 1])[-1:], atol=1e-5)
        np.testing.assert_allclose(got_b, expected(b[: n - 1])[-1:], atol=1e-5)
    state("fork_sequence")(cache, 0, 1, 6)
    state("popn")(cache, 7, 4)
    (got_c, got_b), _ = step(machine, cache, {1: c[6:9], 7: b[3:6]})
    forked = np.concatenate([a[:6], c[6:9]])
    np.testing.assert_allclose(got_c, expected(forked)[-3:], atol=1e-5)
    np.testing.assert_allclose(got_b, expected(b[:6])[-3:], atol=1e-5)
    ((got_a,), _) = step(machine, cache, {0: a[9:12]})
    np.testing.assert_allclose(got_a, expected(a)[-3:], atol=1e-5)


def test_what_the_cache_refuses(machine):
    cache = machine["make"](*(ShapeTuple([n]) for n in (1, 4, 4, PAGE)))
    state("add_sequence")(cache, 0)
    with pytest.raises(ValueError, match="a cache for 1 sequences cannot take this one"):
        state("add_sequence")(cache, 1)
    with pytest.raises(ValueError, match="no such sequence"):
        state("popn")(cache, 3, 1)
    with pytest.raises(ValueError, match="all pages of the cache are taken"):
        state("begin_forward")(cache, ShapeTuple([0]), ShapeTuple([3 * PAGE]))
    state("remove_sequence")(cache, 0)
    assert get_global_func("vm.builtin.attention_kv_cache_empty")(cache)
    qkv = np.zeros((1, 2, HEADS + 2 * KV_HEADS, DIM), "float32")
    with pytest.raises(ValueError, match="announced with 0 tokens"):
        machine["forward"](lw.runtime.tensor(qkv), cache)


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        ({"attn_kind": ["mha", "mla"]}, "do not compute this attention"),
        ({"rope_scaling": {"rope_type": "spiral"}}, "no rope_type has this name"),
        ({"v_head_dim": DIM + 1}, "take heads of one size"),
    ],
)
def test_what_the_kernels_do_not_compute(changed, text):
    with pytest.raises(ValueError, match=text):
        Model().make(1, 4, 4, PAGE, **changed)


def test_outside_of_an_export():
    with pytest.raises(RuntimeError, match="made while a method is exported"):
        Model().make(1, 4, 4, PAGE)
    alone = PagedKVCache(_expr=relax.Var("cache", relax.ObjectStructInfo()), _name="cache")
    with pytest.raises(RuntimeError, match="made while a method is exported"):
        alone.get_query_positions(2)
