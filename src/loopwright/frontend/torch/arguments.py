"""The arguments of a node as its converter takes them."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from torch._ops import OpOverload

from ..graph.registry import Converter
from ..graph.values import Value
from .context import TorchContext
from .model import TorchNode
from .pairs import Pair

# Keywords of operators that say where and how results are stored, which is ours to decide.
STORAGE = {"layout", "device", "pin_memory", "memory_format", "non_blocking"}
_AXES = {"dim", "dims", "dimension", "axis", "dim0", "dim1", "dim2"}


def converted(
    cx: TorchContext, node: TorchNode, convert: Converter, args: Sequence[Any], named: Mapping[str, Any],
    counted: bool = True,
) -> Any:  # fmt: skip
    """The outputs of a converter. It gets the arguments of the operator's schema in order, with their defaults, as
    many as it has parameters, and keyword-only ones by name.

    counted: axes are counted from 0, and along one of them a tensor without axes is a line of one element; else
        nothing is converted along an axis of such a tensor.
    """
    target = node.source.target
    if not isinstance(target, OpOverload):
        return convert(cx, node, *args, **named)
    schema = target._schema.arguments
    values = by_name(schema, args, named)
    first = next(iter(values.values()), None)
    along = [n for n in _AXES & values.keys() if values[n] not in ([], None)]
    scalar = isinstance(first, Value) and first.ndim == 0
    lines = bool(along or "dim" in values) and scalar
    if lines and not counted:
        return None
    if lines:
        values = {k: _line(cx, v) for k, v in values.items()}
    if along and counted:
        of = first if isinstance(first, Value | Pair) else node.value
        rank = max(of.ndim, 1)
        values |= {n: _counted(values[n], rank) for n in along}
    count, names = _parameters(convert)
    plain = [values[a.name] for a in schema if not a.kwarg_only]
    only = [a.name for a in schema if a.kwarg_only and a.name not in STORAGE]
    only = [name for name in only if names is None or name in names]
    outputs = convert(cx, node, *plain[:count], **{name: values[name] for name in only})
    return _without_lines(cx, node, outputs) if lines else outputs


def by_name(schema: Sequence[Any], args: Sequence[Any], named: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments by their names in a schema, in its order, those that are left out with their defaults."""
    passed = dict(zip((a.name for a in schema), args, strict=False)) | dict(named)
    return {a.name: passed.get(a.name, a.default_value) for a in schema}


@cache
def _parameters(convert: Converter) -> tuple[int | None, frozenset[str] | None]:
    """How many arguments a converter takes by position, and the names of others; None: all."""
    params = [*inspect.signature(convert).parameters.values()][2:]
    kinds = {p.kind for p in params}
    count = sum(p.kind is p.POSITIONAL_OR_KEYWORD for p in params)
    names = frozenset(p.name for p in params if p.kind is not p.VAR_KEYWORD)
    return (
        None if inspect.Parameter.VAR_POSITIONAL in kinds else count,
        None if inspect.Parameter.VAR_KEYWORD in kinds else names,
    )


def _counted(axes: Any, rank: int) -> Any:
    if isinstance(axes, (list, tuple)):
        return [_counted(a, rank) for a in axes]
    return axes + rank if isinstance(axes, int) and axes < 0 else axes


def _line(cx: TorchContext, value: Any) -> Any:
    if not isinstance(value, Value) or value.ndim:
        return value
    return value.each(cx.flat) if isinstance(value, Pair) else cx.flat(cx.value(value))


def _without_lines(cx: TorchContext, node: TorchNode, outputs: Any) -> Any:
    if isinstance(outputs, (list, tuple)):
        pairs = zip(outputs, node.value, strict=False)
        return [v if v is None else cx.value(v).reshape(cx.shape(f)) for v, f in pairs]
    shape = cx.shape(node.value)
    if isinstance(outputs, Pair):
        return outputs.each(lambda v: v.reshape(shape))
    return cx.value(outputs).reshape(shape)
