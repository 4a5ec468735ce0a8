"""Random numbers from keys; each operator returns the next key."""

from __future__ import annotations

import math
from typing import Any

from ....base.errors import explain
from ....ops.random import first_key
from ....relax import expr as rx
from ..expr import Constant
from .common import expression, whole
from .core import Input, R, builder, op, same, view
from .transform import dims_of

# dtype of the result -> that of the bits, and how many of them a number between 0 and 1 has.
_FRACTION = {"float32": ("uint32", 23), "float64": ("uint64", 52)}


@view("random.threefry_key")
def _threefry_key(seed: int) -> Constant:
    """The first key of a seed."""
    return Constant(first_key(int(seed)))


def _bits(key: Any, shape: Any) -> tuple[Any, Any]:
    """The next key, and random words."""
    result = builder().emit(R.random.threefry_generate(key, [whole(d) for d in shape]))
    new, words = (builder().emit(rx.TupleGetItem(result, n)) for n in (0, 1))
    return new, words


@op("random.threefry_generate", results=2, attrs="ThreefryGenerateAttrs")
def threefry_generate(key: Input, out_shape: Any) -> Any:
    """The next key, and random words of a shape."""
    return rx.Tuple(list(_bits(key, out_shape)))


same("random.threefry_split", results=2)


def _fractions(key: Any, shape: Any, dtype: str) -> tuple[Any, Any]:
    """The next key, and numbers from 0 to below 1, with the precision of their dtype's fraction."""
    if dtype not in _FRACTION:
        raise ValueError(explain("random numbers are float32 or float64", got=dtype))
    new, bits = _bits(key, shape)
    kind, count = _FRACTION[dtype]
    width = int(kind.removeprefix("uint"))
    few = R.right_shift(R.astype(bits, kind), rx.const(width - count, kind))
    return new, builder().emit(R.multiply(R.astype(few, dtype), rx.const(2.0**-count, dtype)))


@op("random.uniform", results=2, attrs="UniformAttrs", view=False)
def uniform(
    key: Input, low: Input, high: Input, out_shape: Any = (), out_dtype: str = "float32"
) -> Any:
    """The next key, and numbers from `low` to below `high`, all as likely."""
    new, values = _fractions(key, out_shape, out_dtype)
    return rx.Tuple([new, R.add(R.multiply(values, R.subtract(high, low)), low)])


@op("random.normal", results=2, attrs="NormalAttrs", view=False)
def normal(
    key: Input, mean: Input, scale: Input, out_shape: Any = (), out_dtype: str = "float32"
) -> Any:
    """The next key, and numbers of a normal distribution (Box and Muller, 1958)."""
    bb, number = builder(), lambda v: rx.const(v, out_dtype)
    new, both = _fractions(key, [2, *out_shape], out_dtype)
    one, two = (bb.emit(R.squeeze(R.strided_slice(both, [0], [n], [n + 1]), [0])) for n in (0, 1))
    radius = R.sqrt(R.multiply(number(-2.0), R.log(R.subtract(number(1.0), one))))
    values = R.multiply(radius, R.sin(R.multiply(number(2.0 * math.pi), two)))
    return rx.Tuple([new, R.add(R.multiply(values, scale), mean)])


@view("random.uniform")
def _uniform(
    key: Input, shape: Any, dtype: str = "float32", low: Any = 0.0, high: Any = 1.0
) -> Any:
    """The next key, and numbers from `low` to below `high`."""
    ends = expression(low, dtype), expression(high, dtype)
    return uniform.builder(key, *ends, shape, dtype)


@view("random.normal")
def _normal(
    key: Input, shape: Any, dtype: str = "float32", mean: Any = 0.0, scale: Any = 1.0
) -> Any:
    """The next key, and numbers of a normal distribution."""
    parameters = expression(mean, dtype), expression(scale, dtype)
    return normal.builder(key, *parameters, shape, dtype)


@op("random.multinomial", results=2, attrs="MultinomialAttrs")
def multinomial(key: Input, probs: Input, num_samples: int) -> Any:
    """The next key, and numbers of columns, drawn as often as the rows of `probs` say."""
    bb, rows = builder(), dims_of(probs)[:-1]
    zero = rx.const(0.0, "float32")
    weights = bb.emit(R.maximum(R.astype(probs, "float32"), zero))
    total = bb.emit(R.cumsum(R.divide(weights, R.sum(weights, [-1], True)), -1))
    new, drawn = _fractions(key, [*rows, int(num_samples)], "float32")
    gap = bb.emit(R.subtract(R.expand_dims(total, -1), R.expand_dims(drawn, -2)))
    above = bb.emit(R.where(R.greater(gap, zero), gap, rx.const(1.0, "float32")))
    return rx.Tuple([new, R.astype(R.argmin(above, -2), "int32")])
