"""Sparse constants: TFLite stores levels of dimensions, each dense or as segments of indices."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np

from ...base import budget
from ...base.errors import explain


@dataclass(frozen=True)
class Level:
    """A dense dimension of `size`, or for entry k of the levels before the indices
    [segments[k] : segments[k + 1]]."""

    size: int
    segments: np.ndarray | None = None
    indices: np.ndarray | None = None


@dataclass(frozen=True)
class Sparsity:
    """order: the axis of each level, a dimension or, from the rank on, a block of one; blocks: the
    dimensions that blocks divide."""

    order: list[int]
    blocks: list[int]
    levels: list[Level]

    def dense(self, values: np.ndarray, dims: tuple[int, ...]) -> np.ndarray:
        """The tensor of the stored values. Raises ValueError where the levels do not fit."""
        rank = len(dims)
        if sorted(self.order) != list(range(rank + len(self.blocks))) or len(self.order) != len(
            self.levels
        ):
            raise _wrong("its levels do not walk each dimension once")
        if any(not 0 <= b < rank for b in self.blocks):
            raise _wrong("a block is of no dimension")
        at = dict(zip(self.order, self.walk(values.size), strict=True))
        indices = [at[d] for d in range(rank)]
        for k, d in enumerate(self.blocks):
            indices[d] = indices[d] * self.levels[self.order.index(rank + k)].size + at[rank + k]
        for index, extent in zip(indices, dims, strict=True):
            if index.size and not 0 <= index.min() <= index.max() < extent:
                raise _wrong(f"an index outside of {list(dims)}")
        budget.spend(size=prod(dims) * values.itemsize)
        out = np.zeros(dims, values.dtype)
        out[tuple(indices)] = values
        return out

    def walk(self, count: int) -> list[np.ndarray]:
        """For each level the index of each of the `count` values."""
        sizes = [level.segments.size for level in self.levels if level.segments is not None]
        most, entries = max(count, *sizes, 1), 1
        columns: list[np.ndarray] = []
        for level in self.levels:
            if level.segments is None or level.indices is None:
                if not 0 < level.size * entries <= most:
                    raise _wrong("more entries than values")
                counts, own = level.size, np.tile(np.arange(level.size), entries)
            else:
                ends = level.segments.astype(np.int64)
                counts, own = np.diff(ends), level.indices.astype(np.int64)
                whole = ends.size == entries + 1 and ends[0] == 0 and ends[-1] == own.size
                if not whole or (counts < 0).any():
                    raise _wrong("segments that do not hold the indices")
            columns = [np.repeat(f, counts) for f in columns] + [own]
            entries = own.size
        if entries != count:
            raise _wrong(f"{count} values for {entries} entries")
        return columns


def _wrong(what: str) -> ValueError:
    return ValueError(explain("a sparse tensor is not whole", got=what))
