"""The coordinates and taps of a resized axis: for arrays of numpy, which importers and references use,
and for expressions, of which operators make loops."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil
from typing import Any

import numpy as np

from .. import tir
from ..base import budget
from ..ir.prim_expr import IntImm, PrimExpr
from ..ir.prim_op import cast, const

METHODS = ("nearest_neighbor", "linear", "cubic")


def _choose(condition: PrimExpr | bool, a: PrimExpr, b: PrimExpr) -> Any:
    if isinstance(condition, IntImm):
        return a if condition.value else b
    return tir.if_then_else(condition, a, b)


@dataclass(frozen=True)
class Kit:
    """The functions that arrays and expressions do not share."""

    floor: Callable[..., Any]
    ceil: Callable[..., Any]
    rint: Callable[..., Any]
    choose: Callable[..., Any]
    index: Callable[..., Any]  # a whole number as an int64
    clamp: Callable[..., Any]  # (index, extent): the nearest index that is inside
    inside: Callable[..., Any]  # (index, extent)
    weight: Callable[..., Any]  # (number, position): as a weight at the position


EXPRESSIONS = Kit(
    tir.floor,
    tir.ceil,
    tir.round,
    _choose,
    lambda v: cast("int64", v),
    lambda i, extent: tir.max(tir.min(i, extent - 1), const(0, "int64")),
    lambda i, extent: tir.all(i >= 0, i < extent),
    lambda v, position: const(v, position.dtype) if isinstance(v, float) else v,
)
ARRAYS = Kit(
    np.floor,
    np.ceil,
    np.rint,
    np.where,
    lambda v: v.astype(np.int64),
    lambda i, extent: np.clip(i, 0, extent - 1),
    lambda i, extent: (i >= 0) & (i < extent),
    lambda v, position: np.broadcast_to(np.float64(v), position.shape),
)


@dataclass(frozen=True)
class Span:
    """An axis: its extents before and after as floats, the factor between them if it is not their
    ratio, and the part that is read, (first, last), for cropping."""

    kit: Kit
    have: Any
    want: Any
    scale: Any = None
    roi: Any = (0.0, 1.0)

    def back(self, x: PrimExpr | np.ndarray[Any, Any]) -> Any:
        """A distance in the result as one in the input."""
        return x * (self.have / self.want) if self.scale is None else x / self.scale

    def between(self, x: PrimExpr | np.ndarray[Any, Any]) -> Any:
        """The same where the last elements coincide, as the first do."""
        if self.scale is None:
            return x * ((self.have - 1) / (self.want - 1))
        # As onnxruntime and torch; ONNX's reference takes the extent before it is rounded down.
        return x * (self.have - 1) / (self.want - 1)

    def symmetric(self, x: PrimExpr | np.ndarray[Any, Any]) -> Any:
        """`back` of a result whose middle coincides with the input's."""
        if self.scale is None:
            return self.back(x)
        return self.have / 2 * (1 - self.want / (self.scale * self.have)) + self.back(x)

    def cropped(self, x: PrimExpr | np.ndarray[Any, Any]) -> Any:
        """Between the ends of the part that is read; its middle for an extent of 1."""
        (first, last), m = self.roi, self.have - 1
        step = (last - first) * m / (self.want - 1)
        return self.unless_one(first * m + x * step, x * 0 + 0.5 * (first + last) * m)

    def unless_one(
        self, position: PrimExpr | np.ndarray[Any, Any], other: PrimExpr | np.ndarray[Any, Any]
    ) -> Any:
        """`position`, or `other` where the result has one element."""
        return self.kit.choose(self.want > 1, position, other)


# The coordinate in the input of element x of the result; ONNX's coordinate_transformation_mode.
COORDINATE_MODES: dict[str, Callable[[Any, Span], Any]] = {
    "half_pixel": lambda x, s: s.back(x + 0.5) - 0.5,
    "asymmetric": lambda x, s: s.back(x),
    "align_corners": lambda x, s: s.unless_one(s.between(x), x * 0),
    "pytorch_half_pixel": lambda x, s: s.unless_one(s.back(x + 0.5) - 0.5, x * 0),
    "tf_half_pixel_for_nn": lambda x, s: s.back(x + 0.5),
    "half_pixel_symmetric": lambda x, s: s.symmetric(x + 0.5) - 0.5,
    "tf_crop_and_resize": lambda x, s: s.cropped(x),
}
# How a coordinate is rounded to the nearest element.
ROUNDING: dict[str, Callable[[Any, Kit], Any]] = {
    "round": lambda x, kit: kit.rint(x),
    "round_prefer_floor": lambda x, kit: kit.ceil(x - 0.5),
    "round_prefer_ceil": lambda x, kit: kit.floor(x + 0.5),
    "floor": lambda x, kit: kit.floor(x),
    "ceil": lambda x, kit: kit.ceil(x),
}


@dataclass(frozen=True)
class Style:
    """How elements between others are interpolated: one of METHODS, COORDINATE_MODES and ROUNDING; the
    parameter of the cubic, and whether elements outside have no weight in it."""

    method: str
    coordinates: str
    rounding: str = "round"
    cubic_alpha: float = -0.75
    exclude: bool = False

    @property
    def dtype(self) -> str:
        """The dtype of coordinates: for the nearest element it decides ties, and onnxruntime
        computes them in float32."""
        return "float32" if self.method == "nearest_neighbor" else "float64"

    @property
    def count(self) -> int:
        """Of the elements that make one."""
        return {"nearest_neighbor": 1, "linear": 2, "cubic": 4}[self.method]

    def taps(
        self, position: PrimExpr | np.ndarray[Any, Any], extent: PrimExpr | int, kit: Kit
    ) -> list[tuple[Any, Any]]:
        """(index, weight) of the elements that the one at `position` is interpolated from; outside an
        axis its ends are repeated."""
        exclude = self.exclude and self.method == "cubic"
        taps = []
        for at, weight in self._around(position, kit):
            index = kit.index(at)
            weight = kit.weight(weight, position)
            if exclude:
                nothing = kit.weight(0.0, position)
                weight = kit.choose(kit.inside(index, extent), weight, nothing)
            taps.append((kit.clamp(index, extent), weight))
        if exclude:
            total = sum(w for _, w in taps)
            taps = [(at, w / total) for at, w in taps]
        return taps

    def _around(self, position: PrimExpr | np.ndarray[Any, Any], kit: Kit) -> list[tuple[Any, Any]]:
        if self.method == "nearest_neighbor":
            return [(ROUNDING[self.rounding](position, kit), 1.0)]
        low = kit.floor(position)
        t = position - low
        if self.method == "linear":
            return [(low, 1.0 - t), (low + 1.0, t)]
        # Keys' cubic convolution with the parameter a (Keys, 1981).
        a = self.cubic_alpha
        return [
            (low - 1.0, a * (t * t * t - 2.0 * t * t + t)),
            (low, (a + 2.0) * t * t * t - (a + 3.0) * t * t + 1.0),
            (low + 1.0, -(a + 2.0) * t * t * t + (2.0 * a + 3.0) * t * t - a * t),
            (low + 2.0, -a * (t * t * t - t * t)),
        ]

    def array_positions(
        self, have: int, want: int, scale: float | None, roi: tuple[float, float] = (0.0, 1.0)
    ) -> Any:
        """The coordinates of all elements of an axis, as an array."""
        kind = np.dtype(self.dtype).type
        with np.errstate(all="ignore"):
            factor = kind(np.float64(want) / have if scale is None else scale)
            span = Span(ARRAYS, kind(have), kind(want), factor, roi)
            return COORDINATE_MODES[self.coordinates](np.arange(want, dtype=kind), span)

    def array_taps(self, have: int, want: int, scale: float | None) -> list[tuple[Any, Any]]:
        """The indices and weights of all elements of an axis, as arrays."""
        with np.errstate(all="ignore"):
            return self.taps(self.array_positions(have, want, scale), have, ARRAYS)

    def matrix(self, have: int, want: int, scale: float) -> np.ndarray:
        """[want, have]: the weights of the elements of an axis that becomes smaller, where each
        is computed from all that it covers: the kernel widened by 1 / scale; edge pixels are repeated
        outside."""
        positions, narrow = self.array_positions(have, want, scale), min(scale, 1.0)
        radius = ceil((1 if self.method == "linear" else 2) / narrow)
        rows, taps = len(positions), 2 * radius + 2
        budget.spend(size=8 * rows * (6 * taps + have))  # taps: a few arrays on the way
        pixels = np.floor(positions)[:, None] + np.arange(-radius, radius + 2)
        weights = self._kernel((pixels - positions[:, None]) * narrow)
        if self.exclude:
            weights = weights * ((pixels >= 0) & (pixels < have))
        weights = weights / weights.sum(axis=1, keepdims=True)
        matrix = np.zeros((rows, have))
        at = np.clip(pixels, 0, have - 1).astype(np.int64)
        np.add.at(matrix, (np.arange(rows)[:, None], at), weights)
        return matrix

    def _kernel(self, distance: np.ndarray[Any, Any]) -> Any:
        """The weight of a pixel at a distance."""
        d = np.abs(distance)
        if self.method == "linear":
            return np.clip(1 - d, 0, None)
        a = self.cubic_alpha  # Keys, 1981
        near = ((a + 2) * d - (a + 3)) * d * d + 1
        far = ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
        return np.where(d <= 1, near, np.where(d < 2, far, 0))
