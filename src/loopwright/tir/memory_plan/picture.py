"""Drawings of memory plans: addresses upwards, time to the right; as text and as SVG."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
_NARROW = 30  # longest label of a column, in characters


@dataclass(frozen=True)
class Box:
    """Memory in the picture: `size` bytes from `offset`, steps `first` to `last`."""

    name: str
    offset: int
    size: int
    first: int
    last: int
    about: str = ""


def text_picture(
    pool: str, size: int, boxes: Sequence[Box], steps: int, width: int = 72, height: int = 16
) -> str:
    """A pool as letters: a row is a range of addresses, the lowest at the bottom; a column is a
    time step. `.` is free; a letter is the tensor that fills most of its cell."""
    columns, rows = max(1, min(width, steps)), max(1, min(height, size))
    letters = {b.name: _LETTERS[k % len(_LETTERS)] for k, b in enumerate(boxes)}
    lines = []
    for row in reversed(range(rows)):
        low, high = row * size / rows, (row + 1) * size / rows
        cells = []
        for column in range(columns):
            begin, end = column * steps // columns, max((column + 1) * steps // columns, 1)
            filled: dict[str, float] = {}
            for b in boxes:
                inside = min(high, b.offset + b.size) - max(low, b.offset)
                if inside > 0 and b.first < end and b.last >= begin:
                    filled[b.name] = inside * (min(end, b.last + 1) - max(begin, b.first))
            cells.append(letters[max(filled, key=lambda n: filled[n])] if filled else ".")
        lines.append(f"{int(low):>10} |{''.join(cells)}|")
    legend = [f"{letters[b.name]} {b.name} ({b.size})" for b in boxes]
    head = f"{pool}: {size} bytes, {steps} steps"
    return "\n".join([head, *lines, *_wrapped(legend, 76)])


def _wrapped(words: list[str], width: int) -> list[str]:
    """Words wrapped into lines."""
    lines: list[str] = []
    for word in words:
        if lines and len(lines[-1]) + len(word) + 3 <= width:
            lines[-1] += f"   {word}"
        else:
            lines.append(word)
    return lines


def svg_picture(
    title: str, pools: Sequence[tuple[str, int, Sequence[Box]]], steps: Sequence[str]
) -> str:
    """Pools (name, bytes, boxes) below each other, each with the same scale of bytes."""
    step = max(8, min(40, 1200 // max(len(steps), 1)))
    left, gap, all_height = 110, 34, 520
    whole = max(sum(size for _, size, _ in pools), 1)
    width = left + step * len(steps) + 20
    top, parts = 30, []
    for name, size, boxes in pools:
        height = max(24.0, all_height * size / whole)
        parts.append(_text(8, top + 12, f"{name}", bold=True))
        parts.append(_text(8, top + 26, f"{size} bytes"))
        frame = f'x="{left}" y="{top}" width="{step * len(steps)}" height="{height:.1f}"'
        parts.append(f'<rect {frame} fill="none" stroke="#888"/>')
        for k, b in enumerate(boxes):
            tall = height * b.size / max(size, 1)
            y = top + height - height * (b.offset + b.size) / max(size, 1)
            x, wide = left + step * b.first, step * (b.last - b.first + 1)
            about = escape(f"{b.name}: {b.size} bytes at {b.offset}, {b.about}")
            rect = f'x="{x}" y="{y:.1f}" width="{wide}" height="{max(tall, 0.5):.1f}"'
            color = f"hsl({k * 137 % 360} 60% 75%)"
            parts.append(
                f'<rect {rect} fill="{color}" stroke="#333" stroke-width="0.5">'
                f"<title>{about}</title></rect>"
            )
            if tall >= 10 and wide >= 7 * len(b.name):  # a letter takes about 7 pixels by 10
                parts.append(_text(x + 3, y + tall / 2 + 4, b.name))
        top = int(top + height + gap)
    for k, label in enumerate(steps):
        x = left + step * k + step / 2 + 4
        short = label if len(label) <= _NARROW else f"{label[: _NARROW - 1]}…"
        parts.append(
            f'<text x="{x:.1f}" y="{top - gap + 8}" transform="rotate(90 {x:.1f} {top - gap + 8})">'
            f"{escape(short)}</text>"
        )
    height = top + 7 * _NARROW
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
            'font-family="sans-serif" font-size="10">',
            f"<title>{escape(title)}</title>",
            _text(8, 16, title, bold=True),
            *parts,
            "</svg>",
            "",
        ]
    )


def _text(x: float, y: float, text: str, bold: bool = False) -> str:
    weight = ' font-weight="bold"' if bold else ""
    return f'<text x="{x:.1f}" y="{y:.1f}"{weight}>{escape(text)}</text>'
