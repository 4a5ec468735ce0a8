"""A valid call varied: other extents, other numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .build import INTS, Builder, Dim, NotHere, Refused, Value

SIZES = {"n": 3, "m": 5, "h": 6, "w": 7, "c": 4}  # what the names of extents in samples are
TRIES = (0.8, 0.5, 0.3, 0.0)  # the share of a call that changes


def varied(g: Builder, add: Callable[[float], None]) -> None:
    """Add a call of which a share changes, less and less until it is valid; at last as it is."""
    before = len(g.case.nodes), len(g.values)
    for share in TRIES:
        try:
            return add(share)
        except (Refused, NotHere):
            if not share:
                raise
            del g.case.nodes[before[0] :], g.values[before[1] :]
    return None


class Variation:
    """Extents that are equal in the call stay equal. Not every change is valid: whoever computes it says so."""

    def __init__(self, g: Builder, share: float) -> None:
        self.g, self.share = g, share
        self.extents: dict[Any, Dim] = {d: g.const(d) for d in (0, 1)}
        self.dtypes: dict[str, str] = {}  # what becomes of dtypes that change
        self.before, self.used = len(g.values), list[Value]()

    def changes(self) -> bool:
        return self.g.rng.random() < self.share

    def extent(self, d: Any, static: bool = False) -> Dim:
        """What an extent of the call, a number or an expression of names, is in the graph."""
        if isinstance(d, str) and not d.isidentifier():
            names = {n: self.extent(n) for n in SIZES if n in d}
            runs = range(len(self.g.case.sizes))
            return tuple(eval(d, {}, {n: dim[r] for n, dim in names.items()}) for r in runs)
        if d not in self.extents:
            own: Any = SIZES.get(d, d)
            self.extents[d] = self.g.dim(static, 1) if self.changes() else self.g.const(own)
        return self.extents[d]

    def dtype_of(self, array: np.ndarray) -> str:
        return self.dtypes.get(str(array.dtype), str(array.dtype))

    def array(self, array: np.ndarray, static: bool = False) -> Any:
        """A tensor of the call with other numbers of its range, unless they are in order; static: its
        extents are known."""
        g, dtype = self.g, self.dtype_of(array)
        ordered = array.ndim == 1 and (np.diff(array) > 0).all()
        small = array.size and abs(float(array.min())) < 1 << 31 > abs(float(array.max()))
        own = [g.const(d) for d in array.shape]
        if array.ndim == 0 and dtype in INTS and array > 0 and self.changes():  # a size
            return g.weight(dtype, g.rng.randint(1, 2 * array.item()), [])
        if array.ndim == 0 or ordered or not small:
            if any(self.extents.setdefault(d, o) != o for d, o in zip(array.shape, own)):
                raise NotHere
            return g.weight(dtype, array.tolist(), array.shape)
        dims = [self.extent(d, static) for d in array.shape]
        if static and any(len(set(d)) > 1 for d in dims):
            raise NotHere
        if dims == own and not self.changes():
            return g.weight(dtype, array.tolist(), array.shape)
        dtype = g.rng.choice(INTS) if dtype in INTS else dtype
        bounds = {"low": array.min().item(), "high": array.max().item()}
        return g.new(dtype, dims, **({} if dtype == "bool" else bounds))

    def taken(self, shape: Sequence[Any], dtype: str) -> Value | None:
        """A value of the graph for a tensor of this shape, whose extents become the value's. None is taken
        twice: onnxruntime computes running statistics in place."""
        for v in reversed(self.g.values[: self.before][-4:] if self.changes() else []):
            known = {**dict(zip(shape, v.shape, strict=False)), **self.extents}
            fits = (v.dtype, v.rank, v.exact, v.finite) == (dtype, len(shape), True, True)
            if (
                fits
                and v not in self.used
                and all(known[d] == e for d, e in zip(shape, v.shape, strict=True))
            ):
                self.extents = known
                self.used.append(v)
                return v
        return None
