"""Tensors of texts: numpy arrays of objects in registers, and the functions `relax.run.*` on them.

What only moves texts works on numbers instead: a pool lists the distinct texts in order, and a tensor
of places in it stands for a tensor of texts. The empty text is in every pool, at 0.
"""

from __future__ import annotations

import json
import re
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np

from ...base.errors import explain
from .builtins import builtin, view_of
from .values import VMTypeError, VMValueError, arrive


def _texts(value: Any) -> np.ndarray:
    if not isinstance(value, np.ndarray) or value.dtype != object:
        got = f"{type(value).__name__} of {getattr(value, 'dtype', '?')}"
        what = "a tensor of texts is a numpy array of str objects"
        raise VMTypeError(explain(what, got=got, instead="numpy.array(..., dtype=object)"))
    return value


def _array(texts: Any, shape: tuple[int, ...]) -> np.ndarray:
    out = np.empty(len(texts), object)
    out[:] = texts
    return out.reshape(shape)


@lru_cache(maxsize=64)
def _constant(data: str) -> np.ndarray:
    shape, texts = json.loads(data)
    found = _array(texts, tuple(shape))
    found.flags.writeable = False
    return found


@builtin("relax.run.texts")
def texts(data: str) -> Any:
    """A constant tensor of texts; data: JSON of its shape and elements."""
    return _constant(data)


@builtin("relax.run.pool")
def pool(*values: Any) -> Any:
    """The distinct texts of some tensors in order, and the empty one."""
    return _array(sorted({"", *(t for v in values for t in _texts(v).flat)}), (-1,))


@builtin("relax.run.places")
def places(table: Any, value: Any) -> Any:
    """For each text its place in a table, -1 where it is not there; the first of several."""
    where: dict[str, int] = {}
    for k, text in enumerate(_texts(table).flat):
        where.setdefault(text, k)
    given = _texts(value)
    found = np.fromiter((where.get(t, -1) for t in given.flat), np.int64, given.size)
    return arrive(found.reshape(given.shape))


@builtin("relax.run.texts_at")
def texts_at(table: Any, where: Any) -> Any:
    """The texts at places of a table; those counted from the end, too."""
    return _texts(table).reshape(-1)[view_of(where)].reshape(view_of(where).shape)


@builtin("relax.run.texts_joined")
def texts_joined(a: Any, b: Any) -> Any:
    """Texts one after another, broadcast."""
    return np.asarray(_texts(a) + _texts(b), object)


@builtin("relax.run.texts_split")
def texts_split(value: Any, delimiter: str, most: int) -> tuple[Any, Any]:
    """The parts of each text, filled up with empty ones, and their numbers. delimiter: "" for any run
    of blanks; most: how often it is cut, -1 for always."""
    given = _texts(value)
    parts = [t.split(delimiter or None, most) for t in given.flat]
    width = max(map(len, parts), default=0)
    counts = np.array([len(p) for p in parts], np.int64).reshape(given.shape)
    filled = [t for p in parts for t in (*p, *[""] * (width - len(p)))]
    return _array(filled, (*given.shape, width)), arrive(counts)


@builtin("relax.run.texts_match")
def texts_match(value: Any, pattern: str) -> Any:
    """Whether a regular expression matches each text as a whole, bool."""
    wanted = re.compile(pattern)
    return arrive(
        np.array([wanted.fullmatch(t) is not None for t in _texts(value).flat], bool).reshape(
            value.shape
        )
    )


@builtin("relax.run.texts_normalized")
def texts_normalized(value: Any, case: str, exact: bool, stops: str) -> Any:
    """A vector of texts, or a row, without stop words (JSON), lower or upper ("LOWER", "UPPER",
    "NONE"). exact: stop words are compared as they are. One empty text where none is left."""
    given = _texts(value)
    if given.ndim not in (1, 2) or (given.ndim == 2 and len(given) != 1):
        raise VMValueError(explain("texts of shape (n,) or (1, n)", got=given.shape))
    words = set(json.loads(stops))
    words = words if exact else {w.lower() for w in words}
    kept = [t for t in given.flat if (t if exact else t.lower()) not in words]
    change = {"LOWER": str.lower, "UPPER": str.upper}.get(case, str)
    found = [change(t) for t in kept] or [""]
    return _array(found, (len(found),) if given.ndim == 1 else (1, len(found)))


@builtin("relax.run.texts_tokens")
def texts_tokens(value: Any, data: str) -> Any:
    """The tokens of each text, filled up; data: JSON of what onnxruntime's Tokenizer has as attributes.
    None at all have no width, marked or not."""
    given, how = _texts(value), json.loads(data)
    if given.ndim not in (1, 2):
        raise VMValueError(explain("texts of shape (c,) or (n, c)", got=given.shape))
    rows = [_tokens(t, how) for t in given.flat]
    width = max(map(len, rows), default=0)
    if how["marked"] and width:
        rows, width = [["\x02", *row, "\x03"] for row in rows], width + 2
    filled = [t for row in rows for t in (*row, *[how["filler"]] * (width - len(row)))]
    return _array(filled, (*given.shape, width))


def _tokens(text: str, how: dict[str, Any]) -> list[str]:
    if how["separators"] == [""]:
        return list(text)
    parts = [text]
    for separator in how["separators"]:
        cuts = [[(0, 0), *_longest(separator, p), (len(p), len(p))] for p in parts]
        parts = [
            p[end:start]
            for p, found in zip(parts, cuts, strict=True)
            for (_, end), (start, _) in pairwise(found)
        ]
    if how["token"]:
        parts = [text[start:end] for start, end in _longest(how["token"], text)]
    return [p for p in parts if len(p) >= how["least"]]


def _longest(pattern: str, text: str) -> list[tuple[int, int]]:
    """Where a regular expression matches, the longest first as in RE2; not where it matches nothing."""
    wanted, at, found = re.compile(pattern), 0, []
    while at < len(text) and (match := wanted.search(text, at)) is not None:
        at = match.start()
        ends = range(len(text), at, -1)
        end = next((e for e in ends if wanted.fullmatch(text, at, e)), None)
        if end is not None:
            found.append((at, end))
        at += 1 if end is None else end - at
    return found


@builtin("relax.run.texts_of")
def texts_of(x: Any) -> Any:
    """Numbers as texts, the shortest that give them back."""
    array = view_of(x)
    return _array([_written(v) for v in array.reshape(-1)], array.shape)


def _written(number: Any) -> str:
    if isinstance(number, (bool, np.bool_)):
        return str(int(number))
    if number != number:
        return "NaN"
    text = str(number)
    text = {"inf": "INF", "-inf": "-INF"}.get(text, text)
    return text.removesuffix(".0")


@builtin("relax.run.numbers_in")
def numbers_in(value: Any, dtype: str) -> Any:
    """Texts as numbers of a data type."""
    given = _texts(value)
    try:
        wide = [float(t) if "float" in dtype else int(float(t)) for t in given.flat]
    except (ValueError, OverflowError) as error:
        raise VMValueError(explain("a text is no number", got=str(error))) from None
    return arrive(np.array(wide).astype(dtype).reshape(given.shape))


# --- counts of n-grams ---------------------------------------------------------------


@builtin("relax.run.count_grams")
def count_grams(x: Any, data: str) -> Any:
    """How often n-grams of a vector, or of each row, are those of a pool, weighted.

    data: JSON of {"grams": [[element, ...], ...], "columns": the column of each, "weights" or None,
    "mode": "TF", "IDF" or "TFIDF", "lengths": [least, most], "skips": elements left out between two
    at most}. An n-gram of one element is counted without skips only.
    """
    given = json.loads(data)
    array = x if isinstance(x, np.ndarray) else view_of(x)
    rows = array.reshape(1, -1) if array.ndim < 2 else array
    columns = {tuple(g): c for g, c in zip(given["grams"], given["columns"], strict=True)}
    width = max(given["columns"], default=-1) + 1
    out = np.zeros((len(rows), width), np.float32)
    least, most = given["lengths"]
    for row, counted in zip(rows.tolist(), out, strict=True):
        for n in range(least, most + 1):
            for step in range(1, given["skips"] + 2 if n > 1 else 2):
                for start in range(len(row) - (n - 1) * step):
                    column = columns.get(tuple(row[start : start + (n - 1) * step + 1 : step]))
                    if column is not None:
                        counted[column] += 1
    weights = given["weights"]
    if given["mode"] == "IDF":
        out = (out > 0).astype(np.float32)
    if given["mode"] != "TF" and weights:
        scale = np.ones(width, np.float32)
        scale[given["columns"]] = weights
        out *= scale
    return arrive(out[0] if array.ndim < 2 else out)
