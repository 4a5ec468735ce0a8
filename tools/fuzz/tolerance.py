"""How far two right answers may be apart: measured by disturbing every operator a little."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np

from loopwright.relax.interpreter import Interpreter

from .call_library import arrays as arrays

ULPS = 8  # of the type, before and after every operator
RUNS = 6
SIGNS = ([1.0], [-1.0], [-1.0, 1.0])  # of the first run, the second, and the others
# A number that moves by more than this part of itself has no right digit: tan(exp(9)). Smaller
# distances are of sums of what is drawn, -4 to 4, that cancel: those stay bounded.
NO_DIGIT, CANCELLED = 0.25, 2.0**-8


# Operators that add up what may be near 1 before a logarithm or a product: its rounding is one of
# 1, not of the result.
OF_ONE = {"relax.nn.log_softmax", "relax.nn.gelu", "relax.nn.gelu_tanh", "relax.nn.silu"}
OF_ONE |= {f"relax.nn.{kind}_norm" for kind in ("layer", "group", "instance", "batch")}
OF_ONE |= {"relax.image.resize2d", "relax.vision.multibox_transform_loc"}  # weights; places
OF_ONE.add("relax.vision.multibox_prior")
OF_ONE |= {"relax.signal.dft", "relax.sigmoid", "relax.nn.winograd_weight"}
# Sums overflow in one order and not in another: which of these they are then is open.
SUMS = re.compile("sum|mean|matmul|conv|norm|softmax|variance|std|prod|avg_pool|attention|resize")
OVERFLOWED = (np.nan, np.inf, -np.inf)
# Operators made of several sums: one of these within them may overflow and the result be a number.
COMPOSED = re.compile("attention|norm|variance|std")
# Of two zeros that are equal these may give either, whatever the signs.
CHOICE = re.compile("max|min|relu|clip")
# What these make of numbers that are none, or whose sums overflow, is open: it is run, not compared.
OPEN = re.compile(
    "dft|grid_sample|affine_grid|deform|roi|recurrence|linear_attention|winograd|det$"
)


class Disturbed(Interpreter):
    """Multiplies what operators take and give by 1 ± some units in the last place."""

    def __init__(self, mod: Any, seed: int) -> None:
        super().__init__(mod)
        self.rng, self.signs = np.random.default_rng(seed), SIGNS[min(seed, 2)]
        self.overflowed = OVERFLOWED[seed % len(OVERFLOWED)]
        self.lost = (np.nan, 0.0)[seed % 2]  # inf / inf, or a number / inf
        self.zero = (0.0, -0.0)[seed % 2]
        self.vanish = seed in (3, 5)  # what is less than its rounding becomes 0
        self.wide = seed % 2 == 1  # a product and a sum in one rounding: the product is not rounded

    def operator(self, call: Any, args: list[Any]) -> Any:
        """The operator's meaning between two disturbances."""
        name = call.op.name
        sums = bool(SUMS.search(name))
        shaken = [self.shaken(a) for a in args]
        made = super().operator(call, shaken)
        if self.wide and name == "relax.ewise_fma":
            wide = super().operator(call, [_each(a, lambda v: v.astype("float64")) for a in shaken])
            made = wide.astype(made.dtype)
        if self.wide and name == "relax.multiply" and made.dtype.kind not in "biuO":
            # What is fused with a sum does not overflow before it.
            finite = np.isinf(made) & np.isfinite(shaken[0]) & np.isfinite(shaken[1])
            most = _most(made.dtype)
            made = np.where(finite, np.clip(made, -most, most), made)
        if any(_overflows(a) for a in args):
            if OPEN.search(name):
                made = _each(made, lambda m: np.full_like(m, self.lost))
            elif sums:
                made = self.lost_in(call, made, args)
        if CHOICE.search(name):
            made = _each(made, lambda m: np.where(m == 0, self.zero, m).astype(m.dtype))
        return self.shaken(made, float(name in OF_ONE), sums)

    def lost_in(self, call: Any, made: Any, args: list[Any]) -> Any:
        """A result in which what a sum that overflows may have become is one of these, or a number:
        the sum of what is left without the signs tells where."""
        with np.errstate(all="ignore"):
            sizes = super().operator(call, [_size(a) for a in args])
        pairs = zip(*((v if isinstance(v, tuple) else (v,)) for v in (made, sizes)), strict=True)
        composed = bool(COMPOSED.search(call.op.name))
        lost = [
            np.where(composed | ~np.isfinite(s.astype("float64")), self.lost, m).astype(m.dtype)
            if m.dtype.kind not in "biuO"
            else m
            for m, s in pairs
        ]
        return tuple(lost) if isinstance(made, tuple) else lost[0]

    def shaken(self, value: Any, least: float = 0, sums: bool = False) -> Any:
        """A value disturbed, if it is of floats, as numbers of at least this size are."""
        return _each(value, lambda v: self._shaken(v, least, sums))

    def _shaken(self, value: np.ndarray, least: float, sums: bool) -> np.ndarray:
        step = self.rng.choice(self.signs, value.shape) * ULPS * unit(value.dtype)
        with np.errstate(all="ignore"):
            wide = value.astype("float64")
            moved = wide * (1 + step)  # a zero keeps its sign
            moved = np.where(np.abs(wide) < least, moved + step * least, moved)
            if self.vanish:
                moved = np.where(np.abs(wide) < np.abs(step) * least, 0, moved)
            moved = np.where(np.isfinite(wide), moved, self.overflowed) if sums else moved
            return moved.astype(value.dtype)


def _each(value: Any, change: Callable[[np.ndarray], np.ndarray]) -> Any:
    """A value with its tensors of floats changed."""
    if isinstance(value, tuple):
        return tuple(_each(v, change) for v in value)
    floats = isinstance(value, np.ndarray) and value.dtype.kind not in "biuO"
    return change(value) if floats else value


def _size(value: Any) -> Any:
    """The sizes of floats, 0 for what is none."""
    finite = lambda v: np.where(np.isfinite(v.astype("float64")), np.abs(v), 0)  # noqa: E731
    return _each(value, lambda v: finite(v).astype(v.dtype))


def _overflows(value: Any) -> bool:
    """Whether a sum of squares of a tensor's numbers may overflow in float32."""
    if not isinstance(value, np.ndarray) or value.dtype.kind in "biuO":
        return False
    with np.errstate(all="ignore"):
        sizes = value.astype("float32") ** 2 * value.size
    return not np.isfinite(sizes).all()


def _most(dtype: Any) -> Any:
    """The greatest number of a type."""
    import ml_dtypes

    return ml_dtypes.finfo(dtype).max


def unit(dtype: Any) -> float:
    """The distance of 1 from the next number of a type."""
    import ml_dtypes

    return float(ml_dtypes.finfo(dtype).eps)


def spread(mod: Any, feeds: list[np.ndarray], base: list[np.ndarray]) -> list[np.ndarray]:
    """For each output the distance that rounding can make, infinite where it decides between a
    number and none."""
    widest = [np.zeros(b.shape) for b in base]
    for run in range(RUNS):
        try:
            moved = arrays(Disturbed(mod, run)["main"](*feeds))
        except Exception:  # disturbed numbers may be refused (a depth, a count)
            return [np.full(b.shape, np.inf) for b in base]
        for k, (a, b) in enumerate(zip(moved, base, strict=True)):
            if a.shape != b.shape:
                widest[k] = np.full(b.shape, np.inf)
                continue
            widest[k] = np.maximum(widest[k], distance(a, b))
    return [np.where(no_digit(far, b), np.inf, far) for far, b in zip(widest, base, strict=True)]


def no_digit(far: np.ndarray, base: np.ndarray) -> np.ndarray:
    """Where rounding decides all digits of a float, so that any other is as right."""
    if base.dtype.kind in "biu":
        return np.zeros(base.shape, bool)
    return far > np.maximum(NO_DIGIT * np.abs(base.astype("float64")), CANCELLED)


def distance(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """|a - b|; 0 where both are the same infinity or NaN, infinite where only one is."""
    if a.dtype.kind in "biu":
        return np.where(a == b, 0.0, np.abs(a.astype("float64") - b.astype("float64")) + 1e-300)
    a, b = a.astype("float64"), b.astype("float64")
    with np.errstate(all="ignore"):
        far = np.abs(a - b)
    far = np.where(np.isnan(far), np.inf, far)
    return np.where((a == b) | (np.isnan(a) & np.isnan(b)), 0.0, far)


def differences(
    a: list[np.ndarray],
    b: list[np.ndarray],
    slack: list[np.ndarray],
    ulps: float = 0,
    *,
    single: bool = False,
    overflows: bool = False,
    wider: bool = False,
) -> str:
    """What differs between two results, "" where they agree; of which kind comes first.

    ulps: what is allowed beside the slack, in units of 1 (`single`: of float32, also for float64).
    overflows: sums may overflow in one order and not in another, so infinity may be NaN.
    wider: what overflows in b may not in a, whose steps are in a wider type.
    """
    if len(a) != len(b):
        return f"count: {len(a)} outputs, not {len(b)}"
    for k, (x, y, s) in enumerate(zip(a, b, slack, strict=True)):
        if x.dtype != y.dtype:
            return f"dtype: output {k} is {x.dtype}, not {y.dtype}"
        if x.shape != y.shape:
            return f"shape: output {k} is {x.shape}, not {y.shape}"
        if y.dtype == object:  # strings
            if not np.array_equal(x, y):
                return f"value: output {k} is {x}, not {y}"
            continue
        allowed = 6 * s
        if y.dtype.kind not in "biu":
            import ml_dtypes

            info, wide = ml_dtypes.finfo(y.dtype), np.abs(y.astype("float64"))
            wide = np.where(np.isfinite(wide), wide, 0)
            eps = max(float(info.eps), 1.2e-7 if single else 0.0)
            allowed = allowed + 32 * eps * wide + float(info.tiny) + ulps * eps
            if overflows:
                some = np.isfinite(y) if wider else np.isfinite(x) | np.isfinite(y)
                allowed = np.where(some, allowed, np.inf)
        bad = ~(distance(x, y) <= allowed)
        if bad.any():
            at = tuple(int(i) for i in np.argwhere(bad)[0])
            kinds = {kind(x[at]), kind(y[at])}
            what = "value" if len(kinds) == 1 else "/".join(sorted(kinds))
            return f"{what}: output {k}{list(at)} is {x[at]}, not {y[at]}"
    return ""


def kind(number: Any) -> str:
    """ "nan", "inf" or "number"."""
    number = float(number)
    return "nan" if np.isnan(number) else "inf" if np.isinf(number) else "number"
