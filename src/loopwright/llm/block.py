"""The step of a decoder as a Relax function: one block with switches, for all families.

    main(ids, positions, rows, seqstart, page_starts, page_ids, lengths, slots, pages..., weights...) -> logits

ids [n]: the tokens of all sequences, one after another; rows [r]: those whose logits are results
[r, vocabulary]. Keys and values are written to the pages in place, see `relax.op.nn.append_paged`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from .. import te, tir
from ..base import budget
from ..driver.options import Described
from ..ir.expr import GlobalVar
from ..ir.module import IRModule
from ..ir.prim_expr import PrimExpr
from ..ir.structural import structural_equal
from ..ops.packed import PLAIN_PARTS
from ..relax import const, op
from ..relax.block_builder import BlockBuilder
from ..relax.expr import Call, Expr, TupleGetItem, Var
from ..relax.struct_info import TensorStructInfo
from .cache import PAGE
from .config import Config
from .formats import columns_at, flattened, product
from .rope import Rope
from .stored import PLAIN
from .weights import Layer, Norm, Product, Weights, arrays_of, form_of

Angles = tuple[Expr, Expr]  # cosines and sines (n, rotary // 2) of a kind of layers
Part = tuple[Expr, int]  # a tensor (n, heads, channels) and the first of its heads that is meant


class Options(NamedTuple):
    """How a decoder is compiled. context: the most tokens of all sequences together; longrope scales positions
    by it. exact: products of quantized weights do not round their other side to bytes. pages: the dtype of keys
    and values, "float32", "float16", or "int8" with a scale for each head of a token.

    >>> llm.Options(context=4096, pages="float16").exact
    False
    """

    context: int
    exact: bool = False
    pages: str = "float32"

    def shapes(self, config: Config, count: Any) -> list[tuple[tuple[Any, ...], str]]:
        """Shapes and dtypes of a layer's pages, and of their scales."""
        heads = (count, 2, config.kv_heads, PAGE)
        scales = [(heads, "float32")] if self.pages == "int8" else []
        return [((*heads, config.head_dim), self.pages), *scales]


def build_steps(
    config: Config, weights: Weights, options: Options
) -> tuple[Described, list[np.ndarray]]:
    """A module with a step, `main`, and the arrays of its weights, in the order of its parameters."""
    ropes = {
        id(rope): rope.frequencies(options.context) for rope in (config.rope, config.local_rope)
    }
    arrays = [frequencies for frequencies, _ in ropes.values()] + list(weights.arrays())
    factors = [factor for _, factor in ropes.values()]
    forms = [form_of(p) for p in (*weights.layers, weights.norm, weights.head, weights.embedding)]
    forms.append(f"tied: {weights.embedding is weights.head}")
    rotary = config.rope.rotary, config.local_rope.rotary
    own = replace(config, rope=None, local_rope=None)  # their frequencies are parameters
    text = f"step of {own}, {rotary}, {factors}, {forms}, {options[1:]}"
    return Described(text, lambda: _module(config, weights, ropes, arrays, options)), arrays


def _module(
    config: Config, weights: Weights, ropes: Mapping[int, tuple[np.ndarray, float]],
    arrays: Sequence[np.ndarray], options: Options,
) -> IRModule:  # fmt: skip
    builder = BlockBuilder()
    budget.allow(nodes=len(arrays))  # each is in the file
    kinds: dict[tuple[str, int], GlobalVar] = {}
    calls = []
    for layer, window in zip(weights.layers, config.windows, strict=True):
        key = form_of(layer), window
        if key not in kinds:
            function = _Function(builder, config, options, list(arrays_of(layer)))
            kinds[key] = function.emit_layer(layer, window)
        calls.append(kinds[key])
    _Function(builder, config, options, arrays).emit_step(weights, ropes, calls)
    return builder.finalize()


class _Function:
    """Emits a step or one of its layers."""

    def __init__(
        self, builder: BlockBuilder, config: Config, options: Options, arrays: Sequence[np.ndarray]
    ) -> None:
        self.builder, self.config, self.exact = builder, config, options.exact
        n, b, p, r, pages = (tir.Var(name, "int64") for name in ("n", "b", "p", "r", "pages"))
        self.n = n
        ints = {
            "ids": n, "positions": n, "rows": r, "seqstart": b + 1, "page_starts": b + 1, "page_ids": p,
            "lengths": b, "slots": n,
        }  # fmt: skip
        self.x = Var("x", TensorStructInfo((n, config.width), "float32"))
        self.ints = [Var(k, TensorStructInfo((size,), "int32")) for k, size in ints.items()]
        self.ids, self.positions, self.rows, *self.tables = self.ints
        self.pages_infos = [TensorStructInfo(*form) for form in options.shapes(config, pages)]
        self.params = {
            id(array): Var(f"w{k}", TensorStructInfo(array.shape, str(array.dtype)))
            for k, array in enumerate(arrays)
        }

    def emit_step(
        self, weights: Weights, ropes: Mapping[int, tuple[np.ndarray, float]],
        calls: Sequence[GlobalVar],
    ) -> None:  # fmt: skip
        """The step, which calls a function for each layer. ropes: frequencies and factors."""
        pages = [self.pages_of(k) for k in range(len(calls))]
        caches = [part for parts in pages for part in parts]
        with self.builder.function("main", [*self.ints, *caches, *self.params.values()]):
            with self.builder.dataflow():
                x, angles = (
                    self.embedded(weights.embedding),
                    {key: self.angles(*rope) for key, rope in ropes.items()},
                )
                for k, (layer, call) in enumerate(zip(weights.layers, calls, strict=True)):
                    own = angles[id(self.rope(self.config.windows[k]))]
                    args = [x, *own, *self.tables, *pages[k], *map(self.of, arrays_of(layer))]
                    x = self.emit(Call(call, args))
                x = self.emit(op.take(x, self.rows, axis=0))
                logits = self.product(self.norm(x, weights.norm), weights.head)
                out = self.builder.emit_output(self.capped(logits, self.config.logit_cap))
            self.builder.emit_func_output(out)

    def emit_layer(self, layer: Layer, window: int) -> GlobalVar:
        """A decoder block."""
        info = TensorStructInfo((self.n, self.rope(window).rotary // 2), "float32")
        pages, angles = self.pages_of(), (Var("cos", info), Var("sin", info))
        inputs = [self.x, *angles, *self.tables, *pages, *self.params.values()]
        with self.builder.function("layer", inputs, private=True):
            with self.builder.dataflow():
                y = self.attention(self.norm(self.x, layer.attn_norm), layer, window, pages, angles)
                x = self.emit(op.add(self.x, self.norm(y, layer.post_attention_norm)))
                y = self.norm(x, layer.ffn_norm)
                if layer.router is None:
                    y = self.gated(y, layer)
                else:
                    y = self.mixture(y, layer)
                out = op.add(x, self.norm(y, layer.post_ffw_norm))
                out = self.builder.emit_output(out)
            return self.builder.emit_func_output(out)

    def pages_of(self, layer: int | str = "") -> list[Var]:
        """A layer's pages, and their scales if they have."""
        names = (f"pages{layer}", f"scales{layer}")
        return [Var(name, info) for name, info in zip(names, self.pages_infos, strict=False)]

    def rope(self, window: int) -> Rope:
        return self.config.local_rope if window else self.config.rope

    # -- parts --------------------------------------------------------------------------------

    def emit(self, value: Expr) -> Expr:
        return self.builder.emit(value)

    def te(self, name: str, func: Callable[..., Any], *args: Any) -> Expr:
        """A kernel of our own."""
        return self.builder.emit_te(func, *args, primfunc_name_hint=name)

    def of(self, array: np.ndarray) -> Var:
        return self.params[id(array)]

    def norm(self, x: Expr, weight: Norm) -> Expr:
        if weight is None:
            return x
        return self.emit(op.nn.rms_norm(x, self.of(weight), -1, self.config.epsilon))

    def pieces(self, x: Expr, pieces: Product, chosen: Expr | None = None) -> list[Expr]:
        """The results of a product, one for each format. The only function that the form of weights matters to.
        chosen: experts (n, k); each row is for k of them, or is one of n * k."""
        results = []
        for piece in pieces:
            parts = [self.of(array) for array in piece.arrays]
            experts = [] if chosen is None else [chosen]
            if piece.format in PLAIN:
                y = self.te("matmul", partial(_product, self.config.experts), x, *parts, *experts)
                y = flattened(self.emit, y, piece.columns)
            else:
                args = self.emit, x, parts, piece.format, piece.columns, not self.exact
                matrices = 1 if chosen is None else self.config.experts
                y = self.emit(product(*args, chosen, matrices))
            results.append(y if piece.bias is None else self.emit(op.add(y, self.of(piece.bias))))
        return results

    def product(self, x: Expr, product: Product, chosen: Expr | None = None) -> Expr:
        results = self.pieces(x, product, chosen)
        return results[0] if len(results) == 1 else self.emit(op.concat(results, axis=1))

    def embedded(self, embedding: Product) -> Expr:
        """The embeddings of the tokens."""
        (piece,) = embedding
        parts = [self.of(array) for array in piece.arrays]
        if piece.format in PLAIN:
            x = self.te("embedded", _columns_at, self.ids, *parts)
        else:
            x = self.emit(columns_at(self.ids, parts, piece.format))
        if not self.config.family.scaled:
            return x
        return self.emit(op.multiply(x, const(self.config.width**0.5, "float32")))

    def capped(self, x: Expr, cap: float) -> Expr:
        if not cap:
            return x
        scaled = self.emit(op.divide(x, const(cap, "float32")))
        return self.emit(op.multiply(self.emit(op.tanh(scaled)), const(cap, "float32")))

    # -- attention ----------------------------------------------------------------------------

    def angles(self, frequencies: np.ndarray, factor: float) -> Angles:
        """Of all layers of a kind."""

        def of(function: Callable[..., PrimExpr]) -> Callable[..., Any]:
            def values(positions: te.Tensor, f: te.Tensor) -> te.Tensor:
                def value(i: PrimExpr, c: PrimExpr) -> PrimExpr:
                    return function(positions[i].astype("float32") * f[c]) * factor

                return te.compute((positions.shape[0], f.shape[0]), value)

            return values

        args = self.positions, self.of(frequencies)
        return (self.te("cosines", of(te.cos), *args), self.te("sines", of(te.sin), *args))

    def heads(self, part: Part, count: int, norm: Norm, angles: Angles | None) -> Expr:
        """Some heads of a tensor, normalized and rotated."""
        (x, first), dim = part, self.config.head_dim
        if norm is not None:
            x, first = self.norm(self.heads(part, count, None, None), norm), 0
        if angles is None and first == 0 and x.struct_info.shape[1] == count:
            return x

        def rotated(x: te.Tensor, *tables: te.Tensor) -> te.Tensor:
            def value(i: PrimExpr, h: PrimExpr, c: PrimExpr) -> PrimExpr:
                own = x[i, h + first, c]
                if not tables:
                    return own
                cos, sin = tables
                half = cos.shape[1]
                at, rotary = tir.floormod(c, half), 2 * half
                other = tir.if_then_else(
                    c < half, -x[i, h + first, c + half], x[i, h + first, c - half]
                )
                new = own * cos[i, at] + other * sin[i, at]
                return new if int(rotary) == dim else tir.if_then_else(c < rotary, new, own)

            return te.compute((x.shape[0], count, dim), value)

        return self.te("rotate", rotated, x, *(angles or ()))

    def attention(
        self, x: Expr, layer: Layer, window: int, pages: list[Var], angles: Angles
    ) -> Expr:
        c, (seqstart, *tables, slots) = self.config, self.tables
        parts: list[Part] = []
        for piece, y in zip(layer.qkv, self.pieces(x, layer.qkv), strict=True):
            count = piece.columns // c.head_dim
            heads = self.emit(op.reshape(y, (self.n, count, c.head_dim)))
            parts += [(heads, first) for first in range(count)]
        queries = self.heads(parts[0], c.heads, layer.q_norm, angles)
        keys = self.heads(parts[c.heads], c.kv_heads, layer.k_norm, angles)
        values = self.heads(parts[c.heads + c.kv_heads], c.kv_heads, None, None)
        new = self.emit(op.nn.append_paged(pages[0], keys, values, slots, *pages[1:]))
        updated = [self.emit(TupleGetItem(new, k)) for k in range(2)] if pages[1:] else [new]
        out = op.nn.attention_paged(
            queries, seqstart, updated[0], *tables, *updated[1:], scale=c.scale,
            window_size=window or None, softcap=c.attention_cap or None,
        )  # fmt: skip
        flat = op.reshape(self.emit(out), (self.n, c.heads * c.head_dim))
        return self.product(self.emit(flat), layer.output)

    # -- the gated part -----------------------------------------------------------------------

    def gated(self, x: Expr, layer: Layer, chosen: Expr | None = None) -> Expr:
        """down(act(gate(x)) * up(x)). chosen: see `pieces`."""
        hidden, activation = sum(p.columns for p in layer.up) // 2, self.config.family.activation

        def gate(*parts: te.Tensor) -> te.Tensor:
            def value(i: PrimExpr, c: PrimExpr) -> PrimExpr:
                g = parts[0][i, c]
                scaled = parts[-1][i, c + (hidden if len(parts) == 1 else 0)]
                if activation == "silu":
                    return g * te.sigmoid(g) * scaled
                inner = g * (1.0 + 0.044715 * g * g) * 0.7978845608028654  # the root of 2 / pi
                return 0.5 * g * (1.0 + te.tanh(inner)) * scaled

            return te.compute((parts[0].shape[0], hidden), value)

        y = self.te("gate", gate, *self.pieces(x, layer.up, chosen))
        return self.product(y, layer.down, chosen)

    def mixture(self, x: Expr, layer: Layer) -> Expr:
        """The sum of the experts that a row chooses, by their chances. Only their weights are read."""
        assert layer.router is not None
        used, normalized = self.config.experts_used, self.config.normalized
        chances = self.emit(op.nn.softmax(self.product(x, layer.router), -1))

        def choose(p: te.Tensor) -> list[te.Tensor]:
            """The numbers of the greatest chances, of equal ones the first; and these chances."""
            rows, experts = p.shape
            other, e, f = (te.reduce_axis((0, experts)) for _ in range(3))

            def before(i: PrimExpr, e: PrimExpr) -> PrimExpr:
                first = tir.all(p[i, other] == p[i, e], other < e)
                greater = tir.any(p[i, other] > p[i, e], first)
                return te.sum(greater.astype("int32"), axis=other)

            rank = te.compute((rows, experts), before)
            pick = lambda i, e, s, x: tir.Select(rank[i, e] == s, x, tir.const(0, x.dtype))  # noqa: E731
            number = lambda i, s: te.sum(pick(i, e, s, e.var.astype("int32")), axis=e)  # noqa: E731
            chance = lambda i, s: te.sum(pick(i, f, s, p[i, f]), axis=f)  # noqa: E731
            return [te.compute((rows, used), value) for value in (number, chance)]

        picked = self.te("choose", choose, chances)
        chosen, share = (self.emit(TupleGetItem(picked, k)) for k in range(2))
        if normalized:
            share = self.emit(op.divide(share, self.emit(op.sum(share, -1, keepdims=True))))

        def mixed(parts: te.Tensor, share: te.Tensor) -> te.Tensor:
            s = te.reduce_axis((0, used))
            value = lambda i, c: te.sum(parts[i * used + s, c] * share[i, s], axis=s)  # noqa: E731
            return te.compute((share.shape[0], parts.shape[1]), value)

        return self.te("mixed", mixed, self.gated(x, layer, chosen), share)


def _columns_at(ids: te.Tensor, weight: te.Tensor) -> te.Tensor:
    """Columns of a plain weight in panels by their numbers, as rows."""
    panels, depth, wide = weight.shape

    def value(i: PrimExpr, k: PrimExpr) -> PrimExpr:
        which = tir.max(tir.min(ids[i].astype("int64"), panels * wide - 1), 0)
        return weight[which // wide, k, which % wide].astype("float32")

    return te.compute((ids.shape[0], depth), value)


def _product(
    experts: int, x: te.Tensor, weight: te.Tensor, chosen: te.Tensor | None = None
) -> te.Tensor:
    """x by plain weights in panels, which are not copied as float32. chosen: see `_Function.pieces`; then the
    panels are those of the experts, one after another."""
    k, rows, panels = te.reduce_axis((0, weight.shape[1])), x.shape[0], weight.shape[0]
    if chosen is not None:
        n, used = chosen.shape
        each = 1 if structural_equal(rows, n * used) else used
        rows, panels = n * used, panels // experts

    def value(i: PrimExpr, p: PrimExpr, c: PrimExpr) -> PrimExpr:
        row = i
        if chosen is not None:
            which, row = chosen[tir.floordiv(i, used), tir.floormod(i, used)], tir.floordiv(i, each)
            p = which * panels + p
        return te.sum(x[row, k] * weight[p, k, c].astype("float32"), axis=k)

    attrs = {PLAIN_PARTS: "shared" if chosen is None else "apart"}
    return te.compute((rows, panels, weight.shape[2]), value, "product", attrs=attrs)
