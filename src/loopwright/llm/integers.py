"""Weights of four bits as AWQ and GPTQ store them in folders: words of eight numbers, scales and zeros of groups.

    weight = (number - zero) * scale

The layouts: AutoAWQ's `WQLinear_GEMM`, AutoGPTQ's `QuantLinear`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from ..base.errors import LoopwrightError, explain, suggest
from .formats import Columns
from .stored import Stored

_AWQ = [0, 4, 1, 5, 2, 6, 3, 7]  # where in a word the numbers of eight columns are


def read_integers(tensors: dict[str, Stored], options: Mapping[str, Any]) -> dict[str, Stored]:
    """The tensors with products in place of their words, by the `quantization_config` of a model.

    Raises LoopwrightError for another method, other bits, or tensors that do not fit each other.
    """
    method, bits = options.get("quant_method"), options.get("bits", options.get("w_bit", 4))
    if method not in _METHODS or bits != 4:
        what = "weights quantized by this method are not supported"
        got, hint = f"{method} of {bits} bits", f"{suggest(method, _METHODS)}, of 4 bits"
        raise LoopwrightError(explain(what, got=got, instead=hint))
    result = {}
    for name, stored in tensors.items():
        base, _, kind = name.rpartition(".")
        if kind == "qweight":
            parts = [tensors.get(f"{base}.{part}") for part in ("qzeros", "scales", "g_idx")]
            result[f"{base}.weight"] = _product(stored, *parts, method, options)
        elif kind not in ("qzeros", "scales", "g_idx"):
            result[name] = stored
    return result


def _product(
    words: Stored, zeros: Stored | None, scales: Stored | None, order: Stored | None, method: str,
    options: Mapping[str, Any],
) -> Stored:  # fmt: skip
    both = words, zeros
    fit = all(s is not None and s.format == "i32" and len(s.shape) == 2 for s in both)
    if scales is None or zeros is None or not fit:
        raise _misfit(words, "no zeros or no scales")
    rows, width = words.shape
    depth, columns = (rows, 8 * width) if method == "awq" else (8 * rows, width)
    scale = scales.plain().astype(np.float32)
    zero = _by_columns(zeros.plain().view(np.uint32), _AWQ if method == "awq" else range(8))
    zero = zero + float(method == "gptq" and options.get("checkpoint_format") != "gptq_v2")
    groups = len(scale)
    if scale.shape != (groups, columns) or zero.shape != scale.shape or depth % (32 * groups):
        raise _misfit(words, f"{scale.shape} scales and {zero.shape} zeros")
    size = depth // groups
    if order is not None and np.any(order.plain().reshape(-1) != np.arange(depth) // size):
        raise _misfit(words, "rows in another order (desc_act)")

    def unpacked() -> Columns:
        numbers = _METHODS[method](words.plain().view(np.uint32))
        halves = (part.astype(np.float16).T for part in (scale, -zero * scale))
        return Columns(np.ascontiguousarray(numbers.T), *map(np.ascontiguousarray, halves))

    return replace(words, format=f"int4_{size}", shape=(columns, depth), raw=unpacked)


def _misfit(stored: Stored, got: str) -> LoopwrightError:
    return LoopwrightError(explain(f"{stored.name} is not a product that can be read", got=got))


def _numbers(words: np.ndarray) -> np.ndarray:
    """The eight numbers of each word, the lowest bits first."""
    return (words[..., None] >> np.arange(0, 32, 4, dtype=np.uint32) & 15).astype(np.uint8)


def _by_columns(words: np.ndarray, order: Any) -> np.ndarray:
    """Words of the numbers of eight columns: (rows, columns)."""
    return _numbers(words)[..., list(order)].reshape(len(words), -1)


def _by_rows(words: np.ndarray) -> np.ndarray:
    """Words of the numbers of eight rows."""
    return _numbers(words).swapaxes(1, 2).reshape(-1, words.shape[1])


_METHODS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "awq": lambda words: _by_columns(words, _AWQ),
    "gptq": _by_rows,
}
