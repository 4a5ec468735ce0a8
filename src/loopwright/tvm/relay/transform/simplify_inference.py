"""SimplifyInference: normalizations become arithmetic, and dropout is removed.

before: %0 = nn.batch_norm(%x, %gamma, %beta, %mean, %var); %0.0
after:  %x * %scale + %shift, where scale = gamma / sqrt(var + eps), shift = beta - mean * scale
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..expr import Call, Expr, TupleGetItem, const
from ..operators.core import VIEWS
from ..types import TensorType
from ..walk import name_of
from .base import RelayPass


class _Build:
    """The builders by name: `_B.add(x, y)`."""

    def __getattr__(self, name: str) -> Any:
        return VIEWS[name]


B: Any = _Build()


def spread(vector: Expr, rank: int, axis: int) -> Any:
    """A vector along an axis of a tensor of some rank, to be broadcast."""
    after = rank - 1 - axis % rank
    return B.expand_dims(vector, axis=1, num_newaxis=after) if after else vector


def _batch_norm(call: Call, old: Call) -> Any:
    data, gamma, beta, mean, var = call.args
    attrs, type_ = call.attrs, old.args[0].checked_type
    one = const(1.0, type_.dtype)
    scale = B.divide(one, B.sqrt(B.add(var, const(attrs.epsilon, type_.dtype))))
    scale = B.multiply(scale, gamma) if attrs.scale else scale
    shift = B.multiply(B.negative(mean), scale)
    shift = B.add(shift, beta) if attrs.center else shift
    rank, axis = len(type_.shape), int(attrs.axis)
    scaled = B.multiply(data, spread(scale, rank, axis))
    return B.add(scaled, spread(shift, rank, axis))


def _by_moments(axes: Callable[[Any, int], list[int]], expand: bool) -> Callable[..., Any]:
    """The arithmetic of a normalization whose mean and variance are those of the data."""

    def rule(call: Call, old: Call) -> Any:
        data, gamma, beta = call.args
        attrs, type_ = call.attrs, old.args[0].checked_type
        rank, axis = len(type_.shape), int(attrs.axis)
        over = axes(attrs, rank)
        mean = B.mean(data, over, True, False)
        var = B.variance(data, over, True, False, with_mean=mean)
        denom = B.sqrt(B.add(var, const(attrs.epsilon, type_.dtype)))
        out = B.divide(B.subtract(data, mean), denom)
        if attrs.scale:
            out = B.multiply(out, spread(gamma, rank, axis) if expand else gamma)
        if attrs.center:
            out = B.add(out, spread(beta, rank, axis) if expand else beta)
        return out

    return rule


def _group_norm(call: Call, old: Call) -> Any:
    data, gamma, beta = call.args
    attrs, type_ = call.attrs, old.args[0].checked_type
    rank, axis, groups = len(type_.shape), int(attrs.axis), int(attrs.num_groups)
    axis %= rank
    shape = [d.value for d in type_.shape]
    split = [*shape[:axis], groups, shape[axis] // groups, *shape[axis + 1 :]]
    over = list(range(axis + 1, rank + 1))
    parts = B.reshape(data, split)
    mean = B.mean(parts, over, True, False)
    var = B.variance(parts, over, True, False, with_mean=mean)
    denom = B.sqrt(B.add(var, const(attrs.epsilon, type_.dtype)))
    out = B.reshape(B.divide(B.subtract(parts, mean), denom), shape)
    out = B.multiply(out, spread(gamma, rank, axis)) if attrs.scale else out
    return B.add(out, spread(beta, rank, axis)) if attrs.center else out


def _l2_normalize(call: Call, old: Call) -> Any:
    (data,) = call.args
    attrs = call.attrs
    dtype = old.checked_type.dtype
    square = B.sum(B.multiply(data, data), attrs.axis, True, False)
    least = B.maximum(square, const(attrs.eps, dtype))
    return B.divide(data, B.sqrt(least))


RULES: dict[str, Callable[[Any, Any], Any]] = {
    "nn.layer_norm": _by_moments(lambda attrs, rank: [int(attrs.axis)], False),
    "nn.instance_norm": _by_moments(
        lambda attrs, rank: [a for a in range(1, rank) if a != int(attrs.axis) % rank], True
    ),
    "nn.group_norm": _group_norm,
    "nn.l2_normalize": _l2_normalize,
}


class SimplifyInference(RelayPass):
    """Normalizations become arithmetic, and dropout is removed."""

    def replaced(self, old: Any, new: Any) -> Any:
        if isinstance(new, TupleGetItem) and new.index == 0:
            return _first(old.tuple_value, new.tuple_value)
        return RULES[name_of(new)](new, old) if name_of(new) in RULES else None


def _first(old: Any, new: Any) -> Any:
    """The first result of a batch_norm or dropout."""
    if name_of(new) == "nn.dropout":
        return new.args[0]
    if name_of(new) == "nn.batch_norm" and isinstance(old.args[0].checked_type, TensorType):
        return _batch_norm(new, old)
    return None
