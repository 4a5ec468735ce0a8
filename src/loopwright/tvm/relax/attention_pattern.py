"""Attention written as matmul, softmax, matmul, and its rewriting to `R.nn.attention`.

TVM's pattern of the same name, for exporters without an attention operator.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...base.errors import explain
from ...ir.prim_expr import PrimExpr
from ...relax import op as _op
from ...relax.dpl.pattern import DFPattern, is_const, is_op, wildcard
from ...relax.expr import Call, Expr
from ...relax.relations import can_prove_equal
from ...relax.struct_info import shape_dim

Matches = dict[DFPattern, Any]
_LAYOUTS = ("BSNH", "BSH")


class _Input:
    """An operand of attention: from a tensor (batch, sequence, heads, width), or without heads,
    to (batch * heads, sequence, width); the key is then transposed."""

    def __init__(self, layout: str, transpose: bool, repeat: bool) -> None:
        self.raw = wildcard()
        tensor: DFPattern = is_op("relax.repeat")(self.raw) if repeat else self.raw
        self.tensor = tensor
        self.layout = layout
        self.permuted = is_op("relax.permute_dims")(tensor)
        flat = is_op("relax.reshape")(self.permuted, wildcard())
        self.flat: DFPattern = flat if layout == "BSNH" else tensor
        self.out = is_op("relax.permute_dims")(self.flat) if transpose else self.flat
        self.transpose = transpose

    def restored(self, m: Matches) -> Any:
        """The tensor as (batch, sequence, heads, width), or None if it does not have that form."""
        value = m[self.tensor]
        dims = _dims(value)
        if self.transpose and _axes(m[self.out]) != [0, 2, 1]:
            return None
        if self.layout == "BSH":
            if len(dims) != 3:
                return None
            return _op.reshape(value, (dims[0], dims[1], 1, dims[2]))
        if len(dims) != 4 or _axes(m[self.permuted]) != [0, 2, 1, 3]:
            return None
        batch, seq, heads, width = dims
        expected = (batch * heads, seq, width)
        return value if _same(_dims(m[self.flat]), expected) else None


def make_attention_rewrite_pattern(
    qkv_layout: str, out_layout: str, with_bias: bool, with_cast: bool, with_kv_repeat: bool = False
) -> tuple[DFPattern, Callable[[Any, Matches], Any]]:
    """(pattern, rewriter) for attention expanded into primitives, for `rewrite_call`.

    qkv_layout, out_layout: "BSNH" (4-d, permuted and reshaped) or "BSH" (3-d, one head).
    with_cast: with the casts of a mixed-precision module. with_kv_repeat: key and value are
    repeated for several queries. Unsupported variants are left unchanged.
    """
    for layout in (qkv_layout, out_layout):
        if layout not in _LAYOUTS:
            what = "the layout of an attention is BSNH or BSH"
            raise ValueError(explain(what, got=repr(layout)))
    query = _Input(qkv_layout, False, False)
    key = _Input(qkv_layout, True, with_kv_repeat)
    value = _Input(qkv_layout, False, with_kv_repeat)
    astype = is_op("relax.astype")
    scale, bias = is_const(), wildcard()
    factor = astype(scale) if with_cast else scale
    scores: DFPattern = is_op("relax.multiply")(is_op("relax.matmul")(query.out, key.out), factor)
    if with_bias:
        scores = is_op("relax.add")(scores, bias)
    softmax = is_op("relax.nn.softmax")(astype(scores) if with_cast else scores)
    product = is_op("relax.matmul")(astype(softmax) if with_cast else softmax, value.out)
    out: DFPattern = product
    if out_layout == "BSNH":
        out = is_op("relax.permute_dims")(is_op("relax.reshape")(product, wildcard()))

    def rewriter(original: Expr, m: Matches) -> Any:
        q, k, v = (part.restored(m) for part in (query, key, value))
        rank = len(_dims(m[softmax]))
        last = m[softmax].attrs.axis in (-1, rank - 1)
        if q is None or k is None or v is None or not last:
            return original
        batch, seq, heads, _ = _bsnh(m[query.tensor])
        added = None
        if with_bias:
            added = _bias(m[bias], batch, seq, heads, _bsnh(m[key.tensor])[1])
            if added is None:
                return original
        attention = _op.nn.attention(q, k, v, added, float(m[scale].data.numpy()))
        if out_layout == "BSH":
            return _op.reshape(attention, _dims(m[product]))
        fits = _axes(m[out]) == [0, 2, 1, 3]
        return attention if fits and _same(_dims(original)[:3], (batch, seq, heads)) else original

    return out, rewriter


def _dims(value: Expr) -> tuple[Any, ...]:
    return value.struct_info.get_shape() or ()


def _bsnh(value: Expr) -> tuple[Any, ...]:
    dims = _dims(value)
    return dims if len(dims) == 4 else (dims[0], dims[1], 1, dims[2])


def _axes(call: Call) -> list[int]:
    axes = call.attrs.axes
    rank = len(_dims(call))
    return list(range(rank))[::-1] if axes is None else [int(a) % rank for a in axes]


def _same(a: Sequence[PrimExpr], b: Sequence[PrimExpr | int]) -> bool:
    """Whether two shapes are provably equal."""
    if len(a) != len(b):
        return False
    pairs = zip(map(shape_dim, a), map(shape_dim, b), strict=True)
    return all(can_prove_equal(x, y) for x, y in pairs)


def _bias(bias: Expr, batch: PrimExpr, seq: PrimExpr, heads: PrimExpr | int, keys: PrimExpr) -> Any:
    """The bias as (batch, heads, sequence, keys), with ones for broadcast dimensions; or None."""
    dims = _dims(bias)
    forms = [
        ((batch * heads, seq, keys), (batch, heads, seq, keys)),
        ((batch * heads, 1, keys), (batch, heads, 1, keys)),
        ((1, seq, keys), (1, 1, seq, keys)),
        ((seq, keys), (1, 1, seq, keys)),
        ((1, 1, keys), (1, 1, 1, keys)),
        ((1, keys), (1, 1, 1, keys)),
        ((keys,), (1, 1, 1, keys)),
    ]
    return next((_op.reshape(bias, new) for old, new in forms if _same(dims, old)), None)
