"""Names and numbers in Relay's texts: `1`, `1i64`, `0.5f`, `True`. Each text reads back as the same bits."""

from __future__ import annotations

import json
import math
import re
from typing import Any

import numpy as np

_FLOATS = {"float16": "f16", "float32": "f", "float64": "f64"}
_INTS = {"int16": "i16", "int32": "", "int64": "i64"}
# A name is words with `/` between them; that of an operator or an attribute has `.` between names.
NAME = r"[A-Za-z_][A-Za-z0-9_]*(?:/[A-Za-z0-9_]+)*"
_NAME, _DOTTED = re.compile(NAME), re.compile(rf"{NAME}(?:\.{NAME})*")


class Names:
    """Names that are unique: of two that are the same, the second has a number behind."""

    def __init__(self) -> None:
        self._used: dict[str, int] = {}

    def unique(self, name: str) -> str:
        """A name that was not given yet: that one, else with a number behind."""
        unique = name
        while unique in self._used:
            self._used[name] += 1
            unique = f"{name}{self._used[name]}"
        self._used[unique] = 0
        return unique


def float_text(value: float, dtype: str = "float32") -> str:
    """The shortest usual text that reads back as the value, with its suffix."""
    kind = np.dtype(dtype).type
    if not math.isfinite(value):
        return f"{value}{_FLOATS[dtype]}"
    with np.errstate(over="ignore"):
        texts = (f"{value:g}", str(kind(value)), repr(float(value)))
        text = next(t for t in texts if kind(float(t)) == kind(value))
    return text.removesuffix(".0") + _FLOATS[dtype]


def scalar_text(array: np.ndarray, dtype: str) -> str | None:
    """The text of an array without axes; None if it has no such text."""
    if array.shape != ():
        return None
    if dtype == "bool":
        return str(bool(array))
    if dtype in _INTS:
        return f"{int(array)}{_INTS[dtype]}"
    if dtype in _FLOATS and not np.isnan(array):
        return float_text(float(array), dtype)
    return None


def number(text: str) -> tuple[Any, str]:
    """The value that a number's text says and its dtype. Raises ValueError.

    >>> number("2i64"), number("1e-05f")
    ((2, 'int64'), (1e-05, 'float32'))
    """
    sign = text.count("-", 0, len(text) - len(text.lstrip("-"))) % 2
    match = re.fullmatch(r"(.*?)(?:(i|f)(\d*))?", text.lstrip("-"))
    assert match is not None  # any text matches
    body, kind, width = match.groups()
    if body == "in" or (body == "nan" and kind is None):  # the "f" of "inf" is not the suffix
        raise ValueError("an infinity or NaN has a suffix: inff, nanf64")
    if kind == "f":
        return _float(body, f"float{width or 32}", sign)
    if not body.isdecimal() or not body.isascii():
        raise ValueError("a number with a point or an exponent ends in f, f16 or f64")
    value = -int(body) if sign else int(body)
    dtype = f"int{width or 32}"
    if not width and kind is None and not -(2**31) <= value < 2**31:
        dtype = "int64"
    if dtype not in _INTS:
        raise ValueError("integers are i16, i32 or i64")
    if not np.iinfo(dtype).min <= value <= np.iinfo(dtype).max:
        raise ValueError(f"{value} does not fit {dtype}")
    return value, dtype


def _float(body: str, dtype: str, sign: int) -> tuple[float, str]:
    if dtype not in _FLOATS:
        raise ValueError("floating point numbers are f16, f32 (or f) or f64")
    value = float(body)
    with np.errstate(over="ignore"):
        fits = math.isfinite(value) and abs(value) <= float(np.finfo(dtype).max)
    if not fits and body not in ("inf", "nan"):
        raise ValueError(f"{body} does not fit {dtype}")
    return (-value if sign else value), dtype


def name_text(name: str, dotted: bool = False) -> str:
    """A name as it is printed: quoted where it would not be parsed as one."""
    return name if (_DOTTED if dotted else _NAME).fullmatch(name) else quoted(name)


def quoted(text: str) -> str:
    """A string's text."""
    return json.dumps(text, ensure_ascii=False)


def unquoted(text: str) -> str:
    """The string that a text in quotes says; TVM's texts have no escapes."""
    try:
        return json.loads(text, strict=False)
    except ValueError:
        return text[1:-1]
