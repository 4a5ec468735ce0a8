"""Angles of rotary position embeddings: one frequency per pair of channels, and a factor of sines and cosines.

Formulas: Su et al., "RoFormer", 2021; Peng et al., "YaRN", 2023; Ding et al., "LongRoPE", 2024; "llama3" as
in Meta's Llama 3.1.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..base.errors import LoopwrightError, explain, suggest


@dataclass(frozen=True)
class Rope:
    """How one kind of a model's layers rotates queries and keys.

    rotary: the first channels of a head, which are rotated: channel c with c + rotary // 2. theta: the base of the frequencies.
    kind, options: the scaling, with the names of Hugging Face's `rope_parameters`.
    """

    rotary: int
    theta: float
    kind: str = "default"
    options: Mapping[str, Any] = field(default_factory=dict)

    def frequencies(self, context: int) -> tuple[np.ndarray, float]:
        """Angle per position of each pair, float32, and the factor. context: the most tokens of a sequence.

        Raises LoopwrightError for an unknown kind or missing or invalid options.
        """
        if self.kind not in _KINDS:
            what = "rotary embeddings are not scaled by this rule"
            raise LoopwrightError(explain(what, got=self.kind, instead=suggest(self.kind, _KINDS)))
        try:
            base = self.theta ** -(np.arange(0, self.rotary, 2, dtype=np.float64) / self.rotary)
            angles, factor = _KINDS[self.kind](self, base, context)
        except (LookupError, TypeError, ValueError, ArithmeticError) as err:
            what = f"the options of rotary embeddings scaled by {self.kind!r} are invalid"
            raise LoopwrightError(explain(what, got=f"{type(err).__name__}: {err}")) from err
        return np.asarray(angles, np.float32), float(factor)


def _linear(rope: Rope, base: np.ndarray, context: int) -> tuple[np.ndarray, float]:
    return base / rope.options["factor"], 1.0


def _by_table(rope: Rope, base: np.ndarray, context: int) -> tuple[np.ndarray, float]:
    return base / _factors(rope.options["factors"], len(base)), 1.0


def _llama3(rope: Rope, base: np.ndarray, context: int) -> tuple[np.ndarray, float]:
    names = ("factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings")
    factor, low, high, original = (rope.options[name] for name in names)
    turns = original * base / (2 * math.pi)  # of a pair, in the context of the training
    share = np.clip((turns - low) / (high - low), 0, 1)
    return base * (share + (1 - share) / factor), 1.0


def _yarn(rope: Rope, base: np.ndarray, context: int) -> tuple[np.ndarray, float]:
    get, factor = rope.options.get, rope.options["factor"]
    original = rope.options["original_max_position_embeddings"]

    def pair(turns: float) -> float:
        """The (fractional) pair that rotates this many times in the context of the training."""
        return rope.rotary * math.log(original / (turns * 2 * math.pi)) / (2 * math.log(rope.theta))

    low, high = pair(get("beta_fast") or 32), pair(get("beta_slow") or 1)
    if get("truncate", True):
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, rope.rotary - 1)
    share = np.clip((np.arange(len(base)) - low) / max(high - low, 0.001), 0, 1)
    scale = lambda m: 0.1 * m * math.log(factor) + 1.0 if factor > 1 else 1.0  # noqa: E731
    attention = get("attention_factor")
    if attention is None:
        both = get("mscale"), get("mscale_all_dim")
        attention = scale(both[0]) / scale(both[1]) if all(both) else scale(1.0)
    return base * (1 - share + share / factor), attention


def _longrope(rope: Rope, base: np.ndarray, context: int) -> tuple[np.ndarray, float]:
    get, original = rope.options.get, rope.options["original_max_position_embeddings"]
    name = "long_factor" if context > original else "short_factor"
    attention, factor = get("attention_factor"), get("factor") or 1.0
    if attention is None:
        attention = math.sqrt(1 + math.log(factor) / math.log(original)) if factor > 1 else 1.0
    return base / _factors(rope.options[name], len(base)), attention


def _factors(values: Sequence[float] | np.ndarray, count: int) -> np.ndarray:
    factors = np.asarray(values, np.float64)
    if factors.shape != (count,) or not np.all(factors > 0):
        raise ValueError(f"{count} positive factors are needed")
    return factors


_KINDS: dict[str, Callable[[Rope, np.ndarray, int], tuple[np.ndarray, float]]] = {
    "default": lambda rope, base, context: (base, 1.0),
    "none": lambda rope, base, context: (base, 1.0),
    "linear": _linear,
    "table": _by_table,
    "llama3": _llama3,
    "yarn": _yarn,
    "longrope": _longrope,
    "su": _longrope,
}
