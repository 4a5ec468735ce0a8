"""Weights: constants of a model whose values are set when it is loaded, and again when they change."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from loopwright.base.errors import LoopwrightError, explain
from loopwright.runtime.dtype import item_bytes, numpy_dtype
from loopwright.runtime.tensor import Tensor, aligned_empty, row_major


class UnknownValues(LoopwrightError):
    """The values of a weight were read while a model is compiled."""


class Weights:
    """The weights of one model, in the order in which they were created."""

    def __init__(self) -> None:
        self.members: list[Weight] = []
        self.were_read = False  # whether something needed the values of one

    def stored(self) -> list[Weight]:
        """Those that compiled code reads."""
        return [w for w in self.members if w._array is not None]


class Weight(Tensor):
    """A constant of unknown values: the caller's, or computed from others by `recipe`.

    Passes see its shape and dtype; reading its values raises UnknownValues. Its memory, which compiled
    code refers to, is allocated by `storage`.
    """

    __slots__ = ("_dtype", "_shape", "family", "recipe")

    def __init__(
        self, family: Weights, shape: Sequence[int], dtype: str, recipe: Any = None
    ) -> None:
        self._array, self._ffi = None, None
        self._shape, self._dtype = tuple(shape), dtype
        self.family, self.recipe = family, recipe
        family.members.append(self)

    @property
    def shape(self) -> tuple[int, ...]:
        return self._shape

    @property
    def dtype(self) -> str:
        return self._dtype

    @property
    def strides(self) -> tuple[int, ...]:
        """Strides in elements."""
        return row_major(self._shape)

    @property
    def nbytes(self) -> int:
        return prod(self._shape) * item_bytes(self._dtype)

    def storage(self) -> np.ndarray:
        """The memory of its values, which compiled code reads."""
        if self._array is None:
            self._array = aligned_empty(self._shape, numpy_dtype(self._dtype))
        return self._array

    def view(self) -> np.ndarray:
        self.family.were_read = True
        what = "the values of a weight are not known while a model is compiled"
        raise UnknownValues(explain(what, got=f"{self._dtype}{list(self._shape)}"))

    def __tvm_ffi_object__(self) -> Any:
        self.view()

    def __repr__(self) -> str:
        return f"<Weight{list(self._shape)}, {self._dtype}>"
