"""Rotations against numpy, for every kind of `rope_scaling`."""

from __future__ import annotations

import math

import numpy as np
import pytest

import loopwright as lw
from loopwright import relax, tir
from loopwright.frontend import nn
from loopwright.frontend.nn.llm import position_embedding as pe
from loopwright.ir import IRModule
from loopwright.runtime import tensor

HEADS, GROUPS, DIM, THETA = 3, 1, 16, 500.0
CONTEXT = {"factor": 8.0, "original_max_position_embeddings": 64}
LLAMA = {**CONTEXT, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
SCALINGS = {
    "default": {},
    "gptj": {"rope_type": "gptj"},
    "llama3": {"rope_type": "llama3", **LLAMA},
    "llama4": {"rope_type": "llama4", **LLAMA},
    "llama4, a step": {"rope_type": "llama4", **LLAMA, "high_freq_factor": 1.0},
    "yarn": {"rope_type": "yarn", **CONTEXT, "beta_fast": 32, "beta_slow": 1},
    "longrope": {
        "rope_type": "longrope", "max_position_embeddings": 512,
        "original_max_position_embeddings": 64,
    },
}  # fmt: skip


def frequencies(scaling, rotary):
    plain = THETA ** (-np.arange(rotary // 2) * 2 / rotary)
    kind, turns = scaling.get("rope_type"), plain * 64 / (2 * math.pi)
    if kind in ("llama3", "llama4"):
        low, high = scaling["low_freq_factor"], scaling["high_freq_factor"]
        if low == high:
            return np.where(turns < low, plain / 8, plain)
        blend = np.clip((turns - low) / (high - low), 0, 1)
        return (1 - blend) * plain / 8 + blend * plain
    if kind == "yarn":
        dims = [rotary * math.log(64 / (b * 2 * math.pi)) / (2 * math.log(THETA)) for b in (32, 1)]
        low, high = max(dims[0], 0), min(dims[1], rotary - 1)
        blend = np.clip((np.arange(rotary // 2) - low) / (high - low), 0, 1)
        return plain / 8 * blend + plain * (1 - blend)
    return plain


def turned(x, positions, scaling, rotary, factors=None):
    """x: (row, head, channel)."""
    angle = np.asarray(positions)[:, None] * frequencies(scaling, rotary)
    angle = angle if factors is None else angle / factors
    longer = scaling.get("rope_type") == "longrope"
    amplitude = math.sqrt(1 + math.log(8) / math.log(64)) if longer else 1.0
    cos, sin = (amplitude * f(angle)[:, None] for f in (np.cos, np.sin))
    out, half = x.astype(np.float64), rotary // 2
    interleaved = scaling.get("rope_type") in ("gptj", "llama4")
    a, b = (
        (slice(0, rotary, 2), slice(1, rotary, 2))
        if interleaved
        else (slice(half), slice(half, rotary))
    )
    first, second = out[..., a].copy(), out[..., b].copy()
    out[..., a], out[..., b] = first * cos - second * sin, second * cos + first * sin
    return out


@pytest.mark.parametrize("kind", SCALINGS)
@pytest.mark.parametrize("rotary", [DIM, 8])
def test_rows_are_split_and_turned(rng, kind, rotary):
    scaling = SCALINGS[kind]
    func = pe.llama_rope_with_position_map(
        THETA, 1.0, DIM, HEADS, GROUPS, "float32", scaling, rotary
    )
    run = lw.compile(IRModule({"main": func}), "llvm").entry_func
    qkv = rng.normal(size=(5, HEADS + 2 * GROUPS, DIM)).astype(np.float32)
    positions = np.int32([0, 3, 70, 200, 9])
    outs = [tensor(np.zeros((5, h, DIM), np.float32)) for h in (HEADS, GROUPS, GROUPS)]
    factors = rng.uniform(1, 2, rotary).astype(np.float32)
    last = tensor(factors) if kind == "longrope" else 1
    run(tensor(qkv), tensor(positions), *outs, last)
    short = factors[rotary // 2 :] if kind == "longrope" else None
    q, k, v = np.split(qkv, [HEADS, HEADS + GROUPS], axis=1)
    for out, x in zip(outs, (q, k), strict=False):
        wanted = turned(x, positions, scaling, rotary, short)
        np.testing.assert_allclose(out.numpy(), wanted, atol=1e-4)
    np.testing.assert_array_equal(outs[2].numpy(), v)
    if kind != "longrope":
        run(tensor(qkv), tensor(positions), *outs, 0)
        np.testing.assert_array_equal(outs[0].numpy(), q)


@pytest.mark.parametrize("kind", SCALINGS)
def test_angles_by_channels(kind):
    scaling = SCALINGS[kind]
    of = pe.switch_rope_freq_func(scaling)
    s, d = tir.Var("s", "int32"), tir.Var("d", "int32")
    cos, sin, bound = of(s, d, DIM, THETA, "float32")
    (freq,) = bound
    assert {str(cos.dtype), str(sin.dtype), str(freq.dtype)} == {"float32"}
    out = lw.te.compute(
        (6, DIM),
        lambda i, c: tir.Let(freq, lw.ir.variables.substitute(bound[freq], {s: i, d: c}), cos),
    )
    run = lw.compile(IRModule({"main": lw.te.create_prim_func([out])}), "llvm").entry_func
    got = tensor(np.zeros((6, DIM), np.float32))
    run(got)
    angle = np.arange(6)[:, None] * frequencies(scaling, DIM)
    interleaved = scaling.get("rope_type") in ("gptj", "llama4")
    angle = angle.repeat(2, 1) if interleaved else np.tile(angle, 2)
    amplitude = math.sqrt(1 + math.log(8) / math.log(64)) if kind == "longrope" else 1.0
    np.testing.assert_allclose(got.numpy(), amplitude * np.cos(angle), atol=1e-5)


def test_llama_rope_of_a_batch(rng):
    class Model(nn.Module):
        def forward(self, qkv: nn.Tensor, total: tir.Var):
            return pe.llama_rope(qkv, total, THETA, 1.0, HEADS, GROUPS, {}, DIM)

    spec = {"qkv": nn.spec.Tensor([2, "n", HEADS + 2 * GROUPS, DIM], "float32"), "total": int}
    mode = {"param_mode": "none", "effect_mode": "none"}
    mod, _ = Model().export_tvm({"forward": {**spec, "$": mode}})
    vm = relax.VirtualMachine(lw.compile(mod, "llvm"), lw.cpu())
    qkv = rng.normal(size=(2, 3, HEADS + 2 * GROUPS, DIM)).astype(np.float32)
    q, k, v = vm["forward"](tensor(qkv), lw.runtime.ShapeTuple([7]))
    for n in range(2):
        wanted = turned(qkv[n, :, :HEADS], [4, 5, 6], {}, DIM)
        np.testing.assert_allclose(q.numpy()[n], wanted, atol=1e-5)
    np.testing.assert_array_equal(v.numpy(), qkv[:, :, HEADS + GROUPS :])
    assert k.shape == (2, 3, GROUPS, DIM)


def test_an_unknown_kind():
    with pytest.raises(ValueError, match="no rope_type has this name"):
        pe.switch_rope_freq_func({"rope_type": "spiral"})
