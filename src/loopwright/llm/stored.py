"""Weights as files store them: rows of bytes in a format."""

from __future__ import annotations

from dataclasses import dataclass, replace
from mmap import ACCESS_READ, MADV_DONTNEED, mmap
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from ..base.errors import LoopwrightError, explain
from .formats import FORMATS, dequantized

PLAIN = {"f32": np.dtype("<f4"), "f16": np.dtype("<f2"), "bf16": np.dtype(ml_dtypes.bfloat16)}
PLAIN["i32"] = np.dtype("<i4")  # words of integers, see `integers`
# Elements of a row that are stored together, and their bytes.
GROUPS = {name: (1, dtype.itemsize) for name, dtype in PLAIN.items()}
GROUPS |= {name: (form.group, form.size) for name, form in FORMATS.items()}


class MappedFile:
    """A file in memory, of which the system reads and drops pages. Raises OSError."""

    def __init__(self, path: Path) -> None:
        self.size = path.stat().st_size
        with path.open("rb") as file:
            empty = not self.size
            self.map = mmap(-1, 1) if empty else mmap(file.fileno(), 0, access=ACCESS_READ)
        self.data = np.frombuffer(self.map, np.uint8)[: self.size]

    def release(self) -> None:
        """Drop the pages that were read; they are read again when they are needed."""
        if hasattr(self.map, "madvise"):
            self.map.madvise(MADV_DONTNEED)


@dataclass(frozen=True, eq=False)
class Stored:
    """A tensor of a file. raw: (rows, bytes of a row), uint8, a view of the file; or a function that
    returns the columns of a product by integers."""

    name: str
    format: str
    shape: tuple[int, ...]
    raw: Any
    file: MappedFile

    @property
    def rows(self) -> int:
        return self.shape[0]

    def check(self, *shape: int) -> Stored:
        """Itself. Raises LoopwrightError for another shape than the model's configuration says."""
        if self.shape != shape:
            what = f"tensor {self.name} does not fit the configuration of the model"
            raise LoopwrightError(explain(what, got=f"{list(self.shape)}, not {list(shape)}"))
        return self

    def values(self) -> np.ndarray:
        """Its elements, float32."""
        if self.format not in PLAIN:
            return dequantized(self.format, self.raw).reshape(self.shape)
        return self.plain().reshape(self.shape).astype(np.float32)

    def plain(self) -> np.ndarray:
        """Its rows, of a plain format, as the file has them."""
        return np.ascontiguousarray(self.raw).view(PLAIN[self.format])

    def at(self, index: np.ndarray | slice) -> Stored:
        """Some of its rows."""
        raw = self.raw[index]
        return replace(self, raw=raw, shape=(len(raw), self.shape[-1]))

    def experts(self) -> list[Stored]:
        """The matrices of a tensor of three dimensions."""
        count, rows, depth = self.shape
        pieces = self.raw.reshape(count, rows, -1)
        return [replace(self, raw=raw, shape=(rows, depth)) for raw in pieces]
