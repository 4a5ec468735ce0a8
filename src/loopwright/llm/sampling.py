"""How the next token is chosen, compiled: the most probable one, or a random one among the probable."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from .. import tir
from ..base.errors import explain
from ..driver.front import compile
from ..driver.options import Described
from ..ir.module import IRModule
from ..relax import const, op
from ..relax.block_builder import BlockBuilder
from ..relax.expr import Expr, Tuple, Var
from ..relax.struct_info import TensorStructInfo

_FEW = 256  # tokens that a nucleus usually has at most


@dataclass(frozen=True)
class Sampling:
    """How the next token is drawn. temperature: 0 takes the most probable token. top_k: only the k most probable, 0: all; top_p: of these
    the fewest whose chances sum to p; min_p: of these the ones with at least p times the greatest chance.
    repetition_penalty: logits of tokens that the sequence has are divided by it (negative ones: multiplied).

    The numbers have the meanings of Hugging Face's `generate`. Raises ValueError for numbers out of range.

    >>> llm.Sampling(temperature=0.8, top_p=0.95, seed=1).top_k
    0
    """

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        ranges = {
            "temperature": (0, 100), "top_k": (0, 1 << 31), "top_p": (0, 1), "min_p": (0, 1),
            "repetition_penalty": (0.01, 100), "seed": (0, 1 << 64),
        }  # fmt: skip
        for name, (low, high) in ranges.items():
            if not low <= (value := getattr(self, name)) <= high:
                raise ValueError(explain(f"{name} is from {low} to {high}", got=value))

    @property
    def is_plain(self) -> bool:
        """Whether the most probable token follows."""
        return self.temperature == 0 and self.repetition_penalty == 1


class Sampler:
    """Chooses tokens for the sequences of a batch, each with random numbers of its own."""

    def __init__(self, options: Sampling, vocabulary: int, count: int) -> None:
        self.options = options
        self.vocabulary = vocabulary
        self.penalized = options.repetition_penalty != 1
        self.seen = np.zeros((count, vocabulary), np.bool_)
        self.random = [np.random.default_rng([options.seed, k]) for k in range(count)]

    def __call__(self, logits: Any, batch: list[int], ids: list[list[int]]) -> list[int]:
        """The next token of sequences of the batch. ids: the tokens of each, of which new ones count."""
        o = self.options
        args: list[Any] = [logits]
        if self.penalized:
            for k, tokens in zip(batch, ids, strict=True):
                self.seen[k, tokens] = True
            args += [self.seen[batch], np.array([o.repetition_penalty], np.float32)]
        greedy = not o.temperature or o.top_k == 1 or self.vocabulary == 1
        if not greedy:
            draws = np.array([[self.random[k].random(dtype=np.float32)] for k in batch], np.float32)
            args += [np.array([v], np.float32) for v in (o.temperature, o.top_p, o.min_p)] + [draws]
        kind = self.vocabulary, self.penalized
        if greedy:
            return _compiled(*kind, 1)(*args).numpy().tolist()
        if o.top_k or o.top_p == 1:
            return _compiled(*kind, min(o.top_k, self.vocabulary))(*args)[0].numpy().tolist()
        tokens, more = _compiled(*kind, min(_FEW, self.vocabulary), True)(*args)
        if more.numpy().any():  # rare: the nucleus is larger
            tokens, _ = _compiled(*kind, self.vocabulary, True)(*args)
        return tokens.numpy().tolist()


@cache
def _compiled(vocabulary: int, *options: Any) -> Callable[..., Any]:
    """The function of `_module`."""
    text = f"choice of {vocabulary}, {options}"
    return compile(Described(text, lambda: _module(vocabulary, *options)))["main"]


def _module(vocabulary: int, penalized: bool, most: int, of_all: bool = False) -> IRModule:
    """Chooses among the `most` most probable tokens (0: all), whose chances are those among all tokens or among
    themselves: of logits (b, vocabulary) the tokens (b), int64, and whether less probable ones count, too. With most=1
    the tokens only."""
    builder, b = BlockBuilder(), tir.Var("b", "int64")

    def var(name: str, *shape: Any, dtype: str = "float32") -> Var:
        return Var(name, TensorStructInfo(shape, dtype))

    logits, seen = var("logits", b, vocabulary), var("seen", b, vocabulary, dtype="bool")
    penalty, draw = var("penalty", 1), var("draw", b, 1)
    temperature, top_p, min_p = (var(name, 1) for name in ("temperature", "top_p", "min_p"))
    inputs = [logits, *([seen, penalty] if penalized else [])]
    inputs += [temperature, top_p, min_p, draw] if most != 1 or of_all else []
    zero, emit = const(0.0, "float32"), builder.emit
    with builder.function("main", inputs):
        with builder.dataflow():
            x: Expr = logits
            if penalized:
                smaller = op.where(op.less(x, zero), op.multiply(x, penalty), op.divide(x, penalty))
                x = emit(op.where(seen, smaller, x))
            if len(inputs) < 4:
                token: Any = op.argmax(x, -1)
            else:
                x, which = emit(op.divide(x, temperature)), None
                chances = emit(op.nn.softmax(x, -1))
                if most:
                    best = emit(op.topk(chances if of_all else x, most, -1, "both", True, "int64"))
                    which = best[1]
                    chances = best[0] if of_all else emit(op.nn.softmax(best[0], -1))
                allowed = op.greater_equal(
                    chances, op.multiply(op.max(chances, -1, keepdims=True), min_p)
                )
                if most:
                    before = op.subtract(op.cumsum(chances, -1), chances)
                    allowed = emit(op.logical_and(op.less(before, top_p), allowed))
                sums = emit(op.cumsum(op.where(allowed, chances, zero), -1))
                size = most or vocabulary
                last = lambda t: op.strided_slice(t, [1], [size - 1], [size])  # noqa: E731
                passed = op.less_equal(sums, op.multiply(draw, last(sums)))
                index = op.sum(op.astype(passed, "int64"), -1, keepdims=True)
                index = emit(op.minimum(index, const(size - 1, "int64")))
                token = index if which is None else op.gather_elements(which, index, 1)
                token = Tuple([emit(op.squeeze(token, [1])), emit(last(emit(allowed)))])
            out = builder.emit_output(token)
        builder.emit_func_output(out)
    return builder.finalize()
