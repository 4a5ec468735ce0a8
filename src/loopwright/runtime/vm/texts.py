"""Tensors of texts: numpy arrays of objects in registers, and the functions `relax.run.*` on them.

Operators that only move texts work on numbers instead: a pool lists the distinct texts in order, and a
tensor of texts is represented by a tensor of indices into it. The empty text is in every pool, at 0.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np

from ...base.errors import explain
from .builtins import builtin, view_of
from .values import VMTypeError, VMValueError, arrive


def _texts(value: object) -> np.ndarray:
    if not isinstance(value, np.ndarray) or value.dtype != object:
        got = f"{type(value).__name__} of {getattr(value, 'dtype', '?')}"
        what = "a tensor of texts is a numpy array of str objects"
        raise VMTypeError(explain(what, got=got, instead="numpy.array(..., dtype=object)"))
    return value


def _array(texts: Sequence[str], shape: tuple[int, ...]) -> np.ndarray:
    out = np.empty(len(texts), object)
    out[:] = texts
    return out.reshape(shape)


@lru_cache(maxsize=64)
def _constant(data: str) -> np.ndarray:
    shape, texts = json.loads(data)
    array = _array(texts, tuple(shape))
    array.flags.writeable = False
    return array


@builtin("relax.run.texts")
def texts(data: str) -> Any:
    """A constant tensor of texts; data: JSON of its shape and elements."""
    return _constant(data)


@builtin("relax.run.pool")
def pool(*values: np.ndarray) -> Any:
    """The distinct texts of some tensors in order, and the empty one."""
    return _array(sorted({"", *(t for v in values for t in _texts(v).flat)}), (-1,))


@builtin("relax.run.places")
def indices_of(table: Any, value: np.ndarray) -> Any:
    """For each text its index in a table, -1 where it is missing; the first of several."""
    where: dict[str, int] = {}
    for k, text in enumerate(_texts(table).flat):
        where.setdefault(text, k)
    texts = _texts(value)
    indices = np.fromiter((where.get(t, -1) for t in texts.flat), np.int64, texts.size)
    return arrive(indices.reshape(texts.shape))


@builtin("relax.run.texts_at")
def texts_at(table: np.ndarray, where: Any) -> Any:
    """The texts at indices of a table; those counted from the end, too."""
    return _texts(table).reshape(-1)[view_of(where)].reshape(view_of(where).shape)


@builtin("relax.run.texts_joined")
def texts_joined(a: Any, b: Any) -> Any:
    """Texts one after another, broadcast."""
    return np.asarray(_texts(a) + _texts(b), object)


@builtin("relax.run.texts_split")
def texts_split(value: np.ndarray, delimiter: str, most: int) -> tuple[Any, Any]:
    """The parts of each text, padded with empty ones, and their numbers. delimiter: "" for any run
    of blanks; most: the maximum number of cuts, -1 for no limit."""
    texts = _texts(value)
    parts = [t.split(delimiter or None, most) for t in texts.flat]
    width = max(map(len, parts), default=0)
    counts = np.array([len(p) for p in parts], np.int64).reshape(texts.shape)
    filled = [t for p in parts for t in (*p, *[""] * (width - len(p)))]
    return _array(filled, (*texts.shape, width)), arrive(counts)


@builtin("relax.run.texts_match")
def texts_match(value: np.ndarray, pattern: str) -> Any:
    """Whether a regular expression matches each text as a whole, bool."""
    regex = re.compile(pattern)
    return arrive(
        np.array([regex.fullmatch(t) is not None for t in _texts(value).flat], bool).reshape(
            value.shape
        )
    )


@builtin("relax.run.texts_normalized")
def texts_normalized(value: np.ndarray, case: str, exact: bool, stops: str) -> Any:
    """A vector of texts, or a row, without stop words (JSON), lower or upper ("LOWER", "UPPER",
    "NONE"). exact: stop words are compared as they are. One empty text where none is left."""
    texts = _texts(value)
    if texts.ndim not in (1, 2) or (texts.ndim == 2 and len(texts) != 1):
        raise VMValueError(explain("texts of shape (n,) or (1, n)", got=texts.shape))
    words = set(json.loads(stops))
    words = words if exact else {w.lower() for w in words}
    remaining = [t for t in texts.flat if (t if exact else t.lower()) not in words]
    change = {"LOWER": str.lower, "UPPER": str.upper}.get(case, str)
    changed = [change(t) for t in remaining] or [""]
    return _array(changed, (len(changed),) if texts.ndim == 1 else (1, len(changed)))


@builtin("relax.run.texts_tokens")
def texts_tokens(value: np.ndarray, data: str) -> Any:
    """The tokens of each text, padded; data: JSON of what onnxruntime's Tokenizer has as attributes.
    None at all have no width, marked or not."""
    texts, how = _texts(value), json.loads(data)
    if texts.ndim not in (1, 2):
        raise VMValueError(explain("texts of shape (c,) or (n, c)", got=texts.shape))
    rows = [_tokens(t, how) for t in texts.flat]
    width = max(map(len, rows), default=0)
    if how["marked"] and width:
        rows, width = [["\x02", *row, "\x03"] for row in rows], width + 2
    filled = [t for row in rows for t in (*row, *[how["filler"]] * (width - len(row)))]
    return _array(filled, (*texts.shape, width))


def _tokens(text: str, how: dict[str, Any]) -> list[str]:
    if how["separators"] == [""]:
        return list(text)
    parts = [text]
    for separator in how["separators"]:
        cuts = [[(0, 0), *_longest(separator, p), (len(p), len(p))] for p in parts]
        parts = [
            p[end:start]
            for p, cut in zip(parts, cuts, strict=True)
            for (_, end), (start, _) in pairwise(cut)
        ]
    if how["token"]:
        parts = [text[start:end] for start, end in _longest(how["token"], text)]
    return [p for p in parts if len(p) >= how["least"]]


def _longest(pattern: str, text: str) -> list[tuple[int, int]]:
    """Where a regular expression matches, the longest first as in RE2; not where it matches nothing."""
    regex, at, tokens = re.compile(pattern), 0, []
    while at < len(text) and (match := regex.search(text, at)) is not None:
        at = match.start()
        ends = range(len(text), at, -1)
        end = next((e for e in ends if regex.fullmatch(text, at, e)), None)
        if end is not None:
            tokens.append((at, end))
        at += 1 if end is None else end - at
    return tokens


@builtin("relax.run.texts_of")
def texts_of(x: Any) -> Any:
    """Numbers as texts, the shortest that give them back."""
    array = view_of(x)
    return _array([_written(v) for v in array.reshape(-1)], array.shape)


def _written(number: np.generic) -> str:
    if isinstance(number, (bool, np.bool_)):
        return str(int(number))
    if number != number:
        return "NaN"
    text = str(number)
    text = {"inf": "INF", "-inf": "-INF"}.get(text, text)
    return text.removesuffix(".0")


@builtin("relax.run.numbers_in")
def numbers_in(value: np.ndarray, dtype: str) -> Any:
    """Texts as numbers of a data type."""
    texts = _texts(value)
    try:
        wide = [float(t) if "float" in dtype else int(float(t)) for t in texts.flat]
    except (ValueError, OverflowError) as error:
        raise VMValueError(explain("a text is not a number", got=str(error))) from None
    return arrive(np.array(wide).astype(dtype).reshape(texts.shape))


# --- counts of n-grams ---------------------------------------------------------------


@builtin("relax.run.count_grams")
def count_grams(x: object, data: str) -> Any:
    """The weighted counts of a pool's n-grams in a vector, or in each row.

    data: JSON of {"grams": [[element, ...], ...], "columns": the column of each, "weights" or None,
    "mode": "TF", "IDF" or "TFIDF", "lengths": [least, most], "skips": elements left out between two
    at most}. An n-gram of one element is counted without skips only.
    """
    attrs = json.loads(data)
    array = x if isinstance(x, np.ndarray) else view_of(x)
    rows = array.reshape(1, -1) if array.ndim < 2 else array
    columns = {tuple(g): c for g, c in zip(attrs["grams"], attrs["columns"], strict=True)}
    width = max(attrs["columns"], default=-1) + 1
    out = np.zeros((len(rows), width), np.float32)
    least, most = attrs["lengths"]
    for row, counted in zip(rows.tolist(), out, strict=True):
        for n in range(least, most + 1):
            for step in range(1, attrs["skips"] + 2 if n > 1 else 2):
                for start in range(len(row) - (n - 1) * step):
                    column = columns.get(tuple(row[start : start + (n - 1) * step + 1 : step]))
                    if column is not None:
                        counted[column] += 1
    weights = attrs["weights"]
    if attrs["mode"] == "IDF":
        out = (out > 0).astype(np.float32)
    if attrs["mode"] != "TF" and weights:
        scale = np.ones(width, np.float32)
        scale[attrs["columns"]] = weights
        out *= scale
    return arrive(out[0] if array.ndim < 2 else out)
