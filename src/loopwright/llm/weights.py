"""The weights of a decoder as its steps read them: norms, and products by rows of one format."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from ..base.errors import LoopwrightError, explain
from ..ops.packed import in_panels
from ..runtime.tensor import aligned
from .config import Config, pairs_first
from .formats import Columns, pack
from .stored import PLAIN, Stored

Norm = np.ndarray | None


@dataclass(frozen=True, eq=False)
class Piece:
    """Some columns of a product, of one format. arrays: as its kernel reads them, in panels of 64 columns; plain ones
    are (panels, depth, 64)."""

    format: str
    columns: int
    arrays: list[np.ndarray]
    bias: np.ndarray | None = None


Product = list[Piece]  # one after another: their columns follow each other


@dataclass(frozen=True, eq=False)
class Layer:
    """The weights of a decoder block. up: gates, then what they multiply. router: scores of experts; up and down
    are their matrices, one after another, then."""

    attn_norm: Norm
    qkv: Product
    q_norm: Norm
    k_norm: Norm
    output: Product
    post_attention_norm: Norm
    ffn_norm: Norm
    router: Product | None
    up: Product
    down: Product
    post_ffw_norm: Norm


@dataclass(frozen=True, eq=False)
class Weights:
    """The weights of a decoder. embedding: a column for each token, perhaps the head itself."""

    embedding: Product
    layers: list[Layer]
    norm: Norm
    head: Product

    def arrays(self) -> Iterator[np.ndarray]:
        """The parameters of a step, in order."""
        own = [] if self.embedding is self.head else [self.embedding]
        return arrays_of([*own, *self.layers, self.norm, self.head])


def arrays_of(value: Any) -> Iterator[np.ndarray]:
    """The arrays of a part of the weights, in order."""
    if isinstance(value, np.ndarray):
        yield value
    elif isinstance(value, list):
        yield from (array for part in value for array in arrays_of(part))
    elif isinstance(value, Layer | Piece):
        yield from (
            array for entry in fields(value) for array in arrays_of(getattr(value, entry.name))
        )


def form_of(value: Any) -> str:
    """All that code depends on of a part of the weights: the same text for layers that share code."""
    if isinstance(value, np.ndarray):
        return f"{value.dtype}{value.shape}"
    if isinstance(value, list):
        return str([form_of(part) for part in value])
    if isinstance(value, Layer | Piece):
        return str([form_of(getattr(value, entry.name)) for entry in fields(value)])
    return str(value)


def _piece(parts: Sequence[Stored], biases: Sequence[np.ndarray]) -> Piece:
    """Tensors of one format as one product."""
    form, bias = parts[0].format, aligned(np.concatenate(biases)) if biases else None
    if form in PLAIN:
        arrays = [in_panels(np.concatenate([part.plain() for part in parts]))]
    else:
        raws = [part.raw for part in parts]
        arrays = pack(form, _joined(raws) if callable(raws[0]) else raws)
    parts[0].file.release()
    return Piece(form, sum(p.rows for p in parts), [aligned(a) for a in arrays], bias)


def _stacked(products: list[Product]) -> Product:
    """The matrices of experts as one product. Raises LoopwrightError where they are of different formats."""
    pieces = []
    for first, *others in zip(*products, strict=False):
        if len({(p.format, p.columns, p.bias is None) for p in (first, *others)}) > 1 or first.bias:
            what = "the weights of experts must be of one format, without a bias"
            raise LoopwrightError(explain(what, got=", ".join(p.format for p in (first, *others))))
        arrays = zip(*(p.arrays for p in (first, *others)), strict=True)
        joined = [aligned(np.concatenate(parts)) for parts in arrays]
        pieces.append(replace(first, arrays=joined))
    return pieces


def _joined(raws: list[Callable[[], Columns]]) -> Columns:
    """The columns of tensors as those of one."""
    columns = [raw() for raw in raws]
    fields = zip(*((c.numbers, c.scale, c.least) for c in columns), strict=True)
    return Columns(*map(np.concatenate, fields))


class _Assembly:
    """Takes the tensors of a file. Raises LoopwrightError where one is missing or of another shape."""

    def __init__(
        self, config: Config, tensors: Mapping[str, Stored], interleaved: bool, offset: float
    ) -> None:
        self.config, self.tensors, self.offset = config, tensors, offset
        c, dim = config, config.head_dim
        heads = {"attn_q": c.heads, "attn_k": c.kv_heads, "attn_v": c.kv_heads}
        self.columns = {name: count * dim for name, count in heads.items()}
        rotated = ("attn_q", "attn_k") if interleaved else ()
        self.order = {name: pairs_first(heads[name], dim) for name in rotated}

    def tensor(self, name: str, *shape: int) -> Stored:
        if name not in self.tensors:
            what = "the model has no tensor that its configuration calls for"
            raise LoopwrightError(explain(what, got=name))
        return self.tensors[name].check(*shape)

    def norm(self, name: str, size: int | None = None, needed: bool = False) -> Norm:
        name = f"{name}.weight"
        if name not in self.tensors and not needed:
            return None
        values = self.tensor(name, size or self.config.width).values()
        return aligned(values + np.float32(self.offset))

    def product(self, parts: Mapping[str, int], depth: int, prefix: str = "") -> Product:
        """One product for tensors by name and columns: those of the same format are joined."""
        pieces: list[tuple[list[Stored], list[np.ndarray]]] = []
        for name, columns in parts.items():
            stored = self.tensor(f"{prefix}{name}.weight", columns, depth)
            order = self.order.get(name)
            bias = self.tensors.get(f"{prefix}{name}.bias")
            biases = [] if bias is None else [bias.check(columns).values()]
            if order is not None:
                stored, biases = stored.at(order), [values[order] for values in biases]
            last = pieces[-1] if pieces else None
            if last and last[0][0].format == stored.format and bool(last[1]) == bool(biases):
                last[0].append(stored)
                last[1].extend(biases)
            else:
                pieces.append(([stored], biases))
        return [_piece(*piece) for piece in pieces]

    def layer(self, k: int) -> Layer:
        c, prefix = self.config, f"blk.{k}."
        width, rows = c.width, c.heads * c.head_dim
        qkv = self.columns
        if f"{prefix}attn_qkv.weight" in self.tensors:
            qkv = {"attn_qkv": sum(qkv.values())}
        mixed = f"{prefix}ffn_gate_inp.weight" in self.tensors
        hidden = c.expert_hidden if mixed else c.hidden
        ups, downs = [], []
        for expert in [f".{e}" for e in range(c.experts)] if mixed else [""]:
            up = {f"ffn_gate{expert}": hidden, f"ffn_up{expert}": hidden}
            if f"{prefix}ffn_gate{expert}.weight" not in self.tensors:
                up = {f"ffn_up{expert}": 2 * hidden}  # the gate first
            ups.append(self.product(up, width, prefix))
            downs.append(self.product({f"ffn_down{expert}": width}, hidden, prefix))
        return Layer(
            attn_norm=self.norm(f"{prefix}attn_norm", needed=True),
            qkv=self.product(qkv, width, prefix),
            q_norm=self.norm(f"{prefix}attn_q_norm", c.head_dim),
            k_norm=self.norm(f"{prefix}attn_k_norm", c.head_dim),
            output=self.product({"attn_output": width}, rows, prefix),
            post_attention_norm=self.norm(f"{prefix}post_attention_norm"),
            ffn_norm=self.norm(f"{prefix}ffn_norm", needed=True),
            router=self.product({"ffn_gate_inp": c.experts}, width, prefix) if mixed else None,
            up=_stacked(ups) if mixed else ups[0],
            down=_stacked(downs) if mixed else downs[0],
            post_ffw_norm=self.norm(f"{prefix}post_ffw_norm"),
        )


def assemble(
    config: Config, tensors: Mapping[str, Stored], interleaved: bool, offset: float
) -> Weights:
    """The weights of a model, from tensors with GGUF's names.

    interleaved: rows of queries and keys are in the order of pairs (2c, 2c + 1). offset: is added to norms.
    Raises LoopwrightError where a tensor is missing, of another shape, or of a format without products.
    """
    named = {}
    for name, stored in tensors.items():
        if "_exps." in name and len(stored.shape) == 3:
            of = name.replace("_exps", ".{}")
            named |= {of.format(e): part for e, part in enumerate(stored.experts())}
        else:
            named[name] = stored
    work = _Assembly(config, named, interleaved, offset)
    vocabulary, width = config.vocabulary, config.width
    embedding = work.product({"token_embd": vocabulary}, width)
    return Weights(
        embedding,
        [work.layer(k) for k in range(config.layers)],
        work.norm("output_norm", needed=True),
        work.product({"output": vocabulary}, width) if "output.weight" in named else embedding,
    )
