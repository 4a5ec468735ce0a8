"""Rotary position embedding: pairs of channels rotated by angles that grow with the position.

The angle of pair j of r / 2 is position * theta ** (-2 j / r) (Su et al., "RoFormer", 2021), changed by the
`rope_scaling` of a configuration: a table of kinds below. A kernel computes the cosines and sines of a row once,
for all of its heads.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from .... import tir
from ....base.errors import explain
from ....ir.prim_expr import PrimExpr, Var
from ....ir.prim_op import cast, const, floordiv, floormod
from ....ops.overlap import rows
from ....ops.statements import in_vectors, long
from ....tir.buffer import Buffer
from ....tir.function import PrimFunc
from ....tir.ir_builder import BufferVar, IRBuilder
from ..core import Tensor
from ..kernel_op import tensor_ir_op
from .prim_funcs import kernel

Scaling = Mapping[str, Any]
INTERLEAVED = (
    "gptj",
    "llama4",
)  # pair j is channels 2 j and 2 j + 1; of the others, j and j + r / 2


def _real(value: Any) -> PrimExpr:
    return cast("float32", tir.convert(value))


def _by_wavelength(frequency: PrimExpr, pair: Any, rotary: int, theta: Any, s: Scaling) -> PrimExpr:
    """Llama 3.1: long waves are stretched by the factor, short ones stay, those between are blended."""
    low, high = s["low_freq_factor"], s["high_freq_factor"]
    turns = frequency * (s["original_max_position_embeddings"] / (2 * math.pi))
    stretched = frequency / s["factor"]
    if low == high:
        return tir.Select(turns < low, stretched, frequency)
    blend = tir.max(0.0, tir.min(1.0, (turns - low) / (high - low)))
    return stretched * (1.0 - blend) + frequency * blend


def _yarn(frequency: PrimExpr, pair: Any, rotary: int, theta: Any, s: Scaling) -> PrimExpr:
    """Peng et al., "YaRN", 2023: a ramp over the pairs between two numbers of turns in the first context."""
    per_log = s.get("inv_theta_log_scale")
    per_log = const(0.5, "float32") / tir.log(_real(theta)) if per_log is None else _real(per_log)
    turns = s["original_max_position_embeddings"] / (2 * math.pi)
    ends = [per_log * (rotary * math.log(turns / s[beta])) for beta in ("beta_fast", "beta_slow")]
    low, high = tir.max(ends[0], 0.0), tir.min(ends[1], float(rotary - 1))
    high = tir.Select(tir.EQ(low, high), high + 0.001, high)
    blend = tir.max(0.0, tir.min(1.0, (_real(pair) - low) / (high - low)))
    return frequency / s["factor"] * blend + frequency * (1.0 - blend)


def _unchanged(frequency: PrimExpr, pair: Any, rotary: int, theta: Any, s: Scaling) -> PrimExpr:
    return frequency


KINDS: dict[str, Callable[..., PrimExpr]] = {
    "default": _unchanged,
    "gptj": _unchanged,
    "longrope": _unchanged,  # its factors are an operand of the kernel
    "llama3": _by_wavelength,
    "llama4": _by_wavelength,
    "yarn": _yarn,
}


def kind_of(scaling: Scaling) -> str:
    """The kind of a `rope_scaling`. Raises ValueError for an unknown one."""
    kind = scaling.get("rope_type", "default")
    if kind not in KINDS:
        what = "no rope_type has this name"
        raise ValueError(explain(what, got=kind, instead=", ".join(KINDS)))
    return kind


def frequency_of(scaling: Scaling, pair: Any, rotary: int, theta: Any) -> PrimExpr:
    """The angle of a pair per position, float32."""
    exponent = _real(pair) * (-2.0 / max(rotary, 1))
    plain = tir.power(_real(theta), exponent)
    return KINDS[kind_of(scaling)](plain, pair, rotary, theta, scaling)


def _amplitude(scaling: Scaling) -> float:
    """The factor of cosines and sines (Ding et al., "LongRoPE", 2024)."""
    if kind_of(scaling) != "longrope":
        return 1.0
    first = scaling["original_max_position_embeddings"]
    longer = scaling["max_position_embeddings"] / first
    return math.sqrt(1 + math.log(longer) / math.log(first)) if longer > 1 else 1.0


class Rotation:
    """The cosines and sines of a position, and rows that are rotated by them. scale: of positions."""

    def __init__(
        self, ib: IRBuilder, rotary: int, scaling: Scaling, theta: Any, scale: Any = 1.0
    ) -> None:
        self.ib, self.rotary, self.scaling, self.theta = ib, rotary, scaling, theta
        self.scale = scale
        self.cos, self.sin = (
            ib.allocate("float32", [max(rotary // 2, 1)], name, scope="local")
            for name in ("cosines", "sines")
        )

    def at(self, position: PrimExpr, factors: Callable[[PrimExpr], PrimExpr] | None = None) -> None:
        """Compute the tables of a position; factors: of each pair's wavelength."""
        amplitude = _amplitude(self.scaling)
        for j in in_vectors(self.ib, long(self.rotary // 2)):
            angle = _real(position) * self.scale * self._frequency(j)
            angle = angle if factors is None else angle / factors(j)
            self.cos[j], self.sin[j] = tir.cos(angle) * amplitude, tir.sin(angle) * amplitude

    def _frequency(self, pair: PrimExpr) -> PrimExpr:
        return frequency_of(self.scaling, pair, self.rotary, self.theta)

    def none(self) -> None:
        """Tables that leave rows as they are."""
        for j in in_vectors(self.ib, long(self.rotary // 2)):
            self.cos[j], self.sin[j] = const(1, "float32"), const(0, "float32")

    def turn(self, source: BufferVar, at: Any, out: BufferVar, to: Any) -> None:
        """out[to, :] = source[at, :] rotated; they may be the same row."""
        ib, half = self.ib, self.rotary // 2
        first = ib.allocate("float32", [max(half, 1)], "first", scope="local")
        interleaved = kind_of(self.scaling) in INTERLEAVED
        channels = (lambda j: (j * 2, j * 2 + 1)) if interleaved else (lambda j: (j, j + half))
        real = lambda i: _real(source[(*at, i)])  # noqa: E731
        for j in in_vectors(ib, long(half)):
            a, b = channels(j)
            first[j] = real(a) * self.cos[j] - real(b) * self.sin[j]
        for j in in_vectors(ib, long(half)):
            a, b = channels(j)
            out[(*to, b)] = cast(out.dtype, real(b) * self.cos[j] + real(a) * self.sin[j])
        for j in in_vectors(ib, long(half)):
            out[(*to, channels(j)[0])] = cast(out.dtype, first[j])


def _split(
    ib: IRBuilder, turn: Rotation, at: tuple[Any, ...], dims: tuple[int, ...], buffers: Any
) -> None:
    """Queries, keys and values of a row of qkv: the first two rotated."""
    (heads, kv_heads, size), (qkv, *outs), first = dims, buffers, 0
    rotary = turn.rotary
    for out, count in zip(outs, (heads, kv_heads, kv_heads), strict=True):
        rotated = 0 if out is outs[-1] else rotary
        with rows(ib, long(count), "h") as h:
            source = (*at, first + h)
            if rotated:
                turn.turn(qkv, source, out, (*at, h))
            for i in in_vectors(ib, long(size - rotated)):
                out[(*at, h, rotated + i)] = qkv[(*source, rotated + i)]
        first += count


def llama_rope_with_position_map(
    theta: float, scale: float, head_dim: int, num_q_heads: int, num_kv_heads: int, dtype: str,
    rope_scaling: dict[str, Any], rotary_dim: int | None = None,
) -> PrimFunc:  # fmt: skip
    """A kernel that splits qkv (n, heads of q, k and v, head_dim) and turns queries and keys by their positions:
    (qkv, position_map (n), q, k, v, apply_rope: int64, not 0 where they are rotated). With "longrope" the last is
    ext_factors (rotary_dim) float32: the factors of long contexts, then those of short ones."""
    n = tir.Var("n", "int64")
    heads, rotary = (num_q_heads, num_kv_heads), head_dim if rotary_dim is None else rotary_dim
    dims = (*heads, head_dim)
    longrope = kind_of(rope_scaling) == "longrope"
    rows_of = lambda count: ((n, count, head_dim), dtype)  # noqa: E731
    last = ((max(rotary, 1),), "float32") if longrope else "int64"
    params: dict[str, Any] = {
        "qkv": rows_of(heads[0] + 2 * heads[1]),
        "position_map": ((n,), "int32"),
        **{name: rows_of(count) for name, count in zip("qkv", (*heads, heads[1]), strict=True)},
        "ext_factors" if longrope else "apply_rope": last,
    }

    def write(ib: IRBuilder, qkv: BufferVar, positions: BufferVar, *others: Any) -> None:
        *outs, option = others
        with ib.for_range(long(0), n, "row", dtype="int64", kind="parallel") as row:
            turn = Rotation(ib, rotary, rope_scaling, theta, scale)
            if longrope:
                short = n <= rope_scaling.get("original_max_position_embeddings", 0)
                first = tir.Select(short, long(rotary // 2), long(0))
                turn.at(positions[row], lambda j: option[first + j])
            else:
                with ib.if_scope(option > 0):
                    turn.at(positions[row])
                with ib.else_scope():
                    turn.none()
            _split(ib, turn, (row,), dims, (qkv, *outs))

    return kernel("fused_rope", params, write)


llama4_rope_with_position_map = llama_rope_with_position_map


def llama_rope(
    qkv: Any, total_seq_len: Any, theta: float, scale: float, num_q_heads: int, num_kv_heads: int,
    rope_scaling: dict[str, Any], rotary_dim: int | None = None,
) -> tuple[Any, Any, Any]:  # fmt: skip
    """Queries, keys and values of qkv (batch, length, heads of q, k and v, head_dim), queries and keys rotated;
    total_seq_len: how many tokens there are with these, which are the last."""
    batch, length, _, size = qkv.shape
    rotary = size if rotary_dim is None else rotary_dim
    dims = (num_q_heads, num_kv_heads, int(size))
    b, s = (tir.Var(x, "int64") for x in ("batch", "length"))
    rows_of = lambda count: ((b, s, count, size), qkv.dtype)  # noqa: E731
    params: dict[str, Any] = {"qkv": rows_of(num_q_heads + 2 * num_kv_heads)}
    counts = (num_q_heads, num_kv_heads, num_kv_heads)
    params |= {x: rows_of(count) for x, count in zip("qkv", counts, strict=True)}

    def write(ib: IRBuilder, *buffers: Any) -> None:
        with ib.for_range(long(0), b * s, "row", dtype="int64", kind="parallel") as row:
            turn = Rotation(ib, rotary, rope_scaling, theta, scale)
            at = floordiv(row, s), floormod(row, s)
            turn.at(at[1] + buffers[-1] - s)
            _split(ib, turn, at, dims, buffers[:-1])

    func = kernel("llama_rope", {**params, "total": "int64"}, write)
    outs = [Tensor.placeholder((batch, length, c, size), qkv.dtype) for c in counts]
    return tensor_ir_op(func, "llama_rope", [qkv, total_seq_len], outs)


# ---------------------------------------------------------------- angles by channels


def _rope_freq(
    kind: str, s: Any, d: Any, d_range: int, theta: Any, dtype: str,
    ext_factors: Buffer | None = None, **scaling: Any,
) -> tuple[PrimExpr, PrimExpr, dict[Var, PrimExpr]]:  # fmt: skip
    """The cosine and sine of channel d of d_range at position s, and the values of their variables."""
    if "scaling_factor" in scaling:
        scaling["factor"] = scaling.pop("scaling_factor")
    scaling = {**scaling, "rope_type": kind}
    d = tir.convert(d)
    pair = floordiv(d, 2) if kind in INTERLEAVED else floormod(d, d_range // 2)
    angle = _real(s) * frequency_of(scaling, pair, d_range, theta)
    angle = angle if ext_factors is None else angle / ext_factors[pair]
    freq, amplitude = Var("freq", "float32"), _amplitude(scaling)
    values = [cast(dtype, of(freq) * amplitude) for of in (tir.cos, tir.sin)]
    return values[0], values[1], {freq: angle}


rope_freq_default = partial(_rope_freq, "default")
rope_freq_gptj = partial(_rope_freq, "gptj")
rope_freq_llama3 = partial(_rope_freq, "llama3")
rope_freq_llama4 = partial(_rope_freq, "llama4")
rope_freq_longrope = partial(_rope_freq, "longrope")
rope_freq_yarn = partial(_rope_freq, "yarn")


def switch_rope_freq_func(rope_scaling: dict[str, Any]) -> Callable[..., Any]:
    """The function (s, d, d_range, theta, dtype) -> (cosine, sine, variables) of a `rope_scaling`. Raises ValueError
    where its kind is unknown."""
    options = {k: v for k, v in rope_scaling.items() if k != "rope_type"}
    return partial(_rope_freq, kind_of(rope_scaling), **options)
