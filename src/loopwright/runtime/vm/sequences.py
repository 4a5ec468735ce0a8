"""Sequences, optional values and maps of compiled programs: `relax.run.*` functions on registers.

A sequence is a tuple, an empty optional value is `None`, a map is a dict.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ...base.errors import explain
from .builtins import builtin, tensor_to_shape, view_of
from .steering import index_from
from .values import VMTypeError, VMValueError, arrive


def _index(operand: Any, count: int) -> int:
    """An index of a sequence, or of an axis; negative ones count from the end."""
    index = index_from(operand)
    if not -count <= index < count:
        what = "an index of a sequence is out of range"
        raise VMValueError(explain(what, got=f"{index} of {count}"))
    return index % count


def _of(value: str | Sequence[Any]) -> Sequence[Any]:
    if not isinstance(value, tuple):
        raise VMTypeError(explain("a sequence of values", got=type(value).__name__))
    return value


@builtin("relax.run.sequence")
def sequence(*items: Any) -> tuple[Any, ...]:
    """A sequence of values."""
    return items


@builtin("relax.run.sequence_at")
def sequence_at(items: str | Sequence[Any], index: Any) -> Any:
    """One value of a sequence."""
    return _of(items)[_index(index, len(items))]


@builtin("relax.run.sequence_insert")
def sequence_insert(items: Sequence[Any], value: Any, *index: Any) -> tuple[Any, ...]:
    """A sequence with a value inserted before an index, or at the end."""
    count = len(_of(items))  # which is an index, too; -1 is before the last one
    at = _index(index[0], count) if index and index_from(index[0]) != count else count
    return (*items[:at], value, *items[at:])


@builtin("relax.run.sequence_erase")
def sequence_erase(items: Sequence[Any], *index: Any) -> tuple[Any, ...]:
    """A sequence without one of its values, the last if none is said."""
    at = _index(index[0], len(_of(items))) if index else len(_of(items)) - 1
    return (*items[:at], *items[at + 1 :])


@builtin("relax.run.sequence_length")
def sequence_length(items: Sequence[Any]) -> Any:
    """The number of values, int64."""
    return arrive(np.asarray(len(_of(items)), np.int64))


@builtin("relax.run.sequence_joined")
def sequence_joined(items: Sequence[Any], axis: int, new: bool) -> Any:
    """The tensors of a sequence as one, along an axis or along a new one."""
    arrays = [view_of(v) for v in _of(items)]
    try:
        return arrive((np.stack if new else np.concatenate)(arrays, axis))
    except ValueError as error:
        what = "the tensors of a sequence cannot be joined"
        raise VMValueError(explain(what, got=f"{[a.shape for a in arrays]}: {error}")) from None


@builtin("relax.run.sequence_split")
def sequence_split(x: Any, sizes: Any, axis: int, keep: bool) -> tuple[Any, ...]:
    """A tensor cut along an axis: in parts of one size (a scalar), or of the sizes that are listed."""
    array = view_of(x)
    extent, lengths = array.shape[axis], list(tensor_to_shape(sizes))
    if not view_of(sizes).ndim:
        step = lengths[0]
        if step < 1:
            raise VMValueError(explain("the size of parts must be positive", got=step))
        lengths = [min(step, extent - k) for k in range(0, extent, step)]
    if any(n < 0 for n in lengths) or sum(lengths) != extent:
        raise VMValueError(explain(f"the sizes of parts must add up to {extent}", got=lengths))
    parts = np.split(array, np.cumsum(lengths)[:-1], axis) if lengths else []
    return tuple(arrive(np.asarray(p if keep else p.squeeze(axis), order="C")) for p in parts)


# --- optional values, maps ----------------------------------------------------------


@builtin("relax.run.has_element")
def has_element(value: object) -> Any:
    """Whether an optional value is present, bool."""
    return arrive(np.asarray(value is not None))


@builtin("relax.run.refused")
def refused(message: str) -> Any:
    """The error of a part of the program that could not be compiled."""
    raise VMValueError(message)


@builtin("relax.run.element")
def element(value: object) -> Any:
    """An optional value that must be there."""
    if value is None:
        raise VMValueError(
            explain("an optional value is empty", instead="test it with OptionalHasElement")
        )
    return value


@builtin("relax.run.rows_as_maps")
def rows_as_maps(x: Any, keys: str) -> tuple[dict[Any, float], ...]:
    """For each row of a matrix its numbers by key. keys: JSON."""
    names = json.loads(keys)
    rows = np.atleast_2d(view_of(x))
    if rows.shape[1] != len(names):
        what = f"a row must have a number for each of {len(names)} keys"
        raise VMValueError(explain(what, got=list(rows.shape)))
    return tuple(dict(zip(names, row, strict=True)) for row in rows.tolist())


@builtin("relax.run.numbers_of_map")
def numbers_of_map(
    mapping: Sequence[int] | Mapping[str | int, float], keys: str, dtype: str
) -> Any:
    """The numbers of a map, one row, in the order of the keys (JSON); 0 for a key that it has not."""
    if not isinstance(mapping, dict):
        raise VMTypeError(explain("a map is a dict", got=type(mapping).__name__))
    return arrive(np.asarray([[mapping.get(k, 0) for k in json.loads(keys)]], dtype))


@builtin("relax.run.values_of_map")
def values_of_map(
    mapping: Sequence[int] | Mapping[int, str | float], length: int, dtype: str
) -> Any:
    """The values of a map in the order of its keys, one row; texts are read as numbers. length: that
    of a row with 0 where the map, whose keys are indices then, has no entry; -1: the map's size."""
    if not isinstance(mapping, dict):
        raise VMTypeError(explain("a map is a dict", got=type(mapping).__name__))
    keys = sorted(mapping) if length < 0 else range(length)
    row = [float(mapping.get(k, 0)) for k in keys]
    return arrive(np.asarray([row]).astype(dtype))
