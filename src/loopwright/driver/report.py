"""The result of a command, for people and for programs: `Report`, with tables that fit a page."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

WIDTH = 100  # columns of a table
_BAR = 40


@dataclass(frozen=True)
class Report:
    """The result of a command. data: printed by `--json`; text: printed else; notes, said: on
    stderr and on stdout before it, except with `--quiet`; status: the exit status."""

    data: Any
    text: str = ""
    notes: str = ""
    said: str = ""
    status: int = 0
    paged: bool = False

    def json(self) -> str:
        """The data as JSON; NaN and infinities, which it does not have, as texts."""
        return json.dumps(_plain(self.data), indent=1, ensure_ascii=False)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    if isinstance(value, (np.ndarray, np.generic)):
        return _plain(value.astype(str).tolist() if value.dtype.kind in "cV" else value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value if isinstance(value, (str, int, float, bool, type(None))) else str(value)


def shortened(text: str, width: int) -> str:
    """A text with "..." for its middle where it is longer.

    >>> shortened("fused_conv2d11_add14_divide2", 20)
    'fused_conv...divide2'
    """
    head = (width - 3) * 2 // 3 - 1
    return (
        text if len(text) <= width else f"{text[:head]}...{text[len(text) - (width - 3 - head) :]}"
    )


def figure(value: float) -> str:
    """A number with four digits.

    >>> figure(0.0123456), figure(74949.4)
    ('0.01235', '74949')
    """
    return f"{value:.0f}" if abs(value) >= 1e4 else f"{value:.4g}"


def table(
    heads: Sequence[str], rows: Sequence[Sequence[str]], texts: int = 1, width: int = WIDTH
) -> str:
    """Columns with a line below the heads; the first `texts` of them are texts, to the left, and
    shortened to fit the width."""
    widths = [max(map(len, column)) for column in zip(heads, *rows, strict=True)]
    room = width - sum(widths[texts:]) - 2 * (len(widths) - 1)
    for k in range(texts):  # a short text leaves its room to the others
        fair = max(room // (texts - k), 8)
        others = sum(min(w, fair) for w in widths[k + 1 : texts])
        widths[k] = min(widths[k], max(fair, room - others))
        room -= widths[k]
    lines = [
        "  ".join(
            shortened(cell, w).ljust(w) if k < texts else cell.rjust(w)
            for k, (cell, w) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in (heads, *rows)
    ]
    return "\n".join([lines[0], "-" * max(map(len, lines)), *lines[1:]])


def plot(values: Mapping[str, float], unit: str) -> str:
    """A bar of text for each value, the largest over the whole width."""
    most = max(values.values(), default=0.0) or 1.0
    wide = max(map(len, values), default=0)
    return "\n".join(
        f"{name.ljust(wide)}  {'#' * max(1, round(_BAR * value / most))} {figure(value)} {unit}"
        for name, value in values.items()
    )
