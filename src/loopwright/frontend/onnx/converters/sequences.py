"""Sequences, optional values and maps: lists while importing where all is known, else objects at run time."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from ....base.errors import explain
from ....ir.prim_expr import PrimExpr
from ....relax.struct_info import TensorStructInfo
from ...graph.object_values import (
    Map,
    ObjectValue,
    Optional,
    Sequence,
    arrived,
    called,
    form_of,
    joined,
    result_of,
)
from ...graph.values import Value, literal
from ..context import OnnxContext as Context
from ..object_types import declared
from ..reader import Node, name_of
from ..registry import converter, define
from ..tensors import dtype_of

ML = "ai.onnx.ml"
_MOST_PARTS = 256  # of a sequence that is kept as a list


def _sequence(x: Value) -> ObjectValue:
    """A value that must be a sequence; one that an optional value holds is one, too."""
    form = x.form if isinstance(x, ObjectValue) else None
    if (
        isinstance(x, ObjectValue)
        and isinstance(form, Optional)
        and isinstance(form.item, Sequence)
    ):
        return x.items[0] if x.items else ObjectValue(x._context, form.item, x.expr)  # type: ignore[return-value]
    if not isinstance(x, ObjectValue) or not isinstance(form, Sequence):
        raise TypeError(explain("an input is not a sequence", got=str(form or x.info)))
    return x


def _sequence_of(cx: Context, items: list[Value]) -> ObjectValue:
    form: Any = None
    for item in items:
        form = joined(form, form_of(item))
    return ObjectValue(cx, Sequence(form), items=items)


def _index_of(position: Value | None) -> int | None:
    """A known position."""
    elements = None if position is None else position.elements
    if elements is None or elements.size != 1 or isinstance(elements.flat[0], PrimExpr):
        return None
    return int(elements.flat[0])


@converter("SequenceEmpty", 11)
def sequence_empty(cx: Context, node: Node) -> Any:
    node.skip("dtype")
    return ObjectValue(cx, Sequence(None), items=[])


define("SequenceConstruct", lambda cx, node, first, *rest: _sequence_of(cx, [first, *rest]), 11)


@converter("SequenceAt", 11)
def sequence_at(cx: Context, node: Node, sequence: Value, position: Value) -> Any:
    items, index = _sequence(sequence), _index_of(position)
    if items.items is not None and index is not None:
        if not -len(items.items) <= index < len(items.items):
            what = "input position is out of range"
            raise ValueError(explain(what, got=f"{index} of {len(items.items)}"))
        return items.items[index]
    if items.form.item is None:
        raise ValueError(explain("the kind of a sequence's values is not known"))
    return result_of(cx, items.form.item, "sequence_at", items, position)


@converter("SequenceInsert", 11)
def sequence_insert(
    cx: Context, node: Node, sequence: Value, tensor: Value, position: Value | None = None
) -> Any:
    elements, index = _sequence(sequence), _index_of(position)
    if elements.items is not None and (position is None or index is not None):
        items, count = list(elements.items), len(elements.items)
        index = count if index is None else index
        if not -count <= index <= count:
            raise ValueError(explain("input position is out of range", got=f"{index} of {count}"))
        items.insert(index, tensor)
        return _sequence_of(cx, items)
    form = Sequence(joined(elements.form.item, form_of(tensor)))
    args = [] if position is None else [position]
    return ObjectValue(cx, form, called(cx, "sequence_insert", elements, tensor, *args))


@converter("SequenceErase", 11)
def sequence_erase(cx: Context, node: Node, sequence: Value, position: Value | None = None) -> Any:
    elements, index = _sequence(sequence), _index_of(position)
    if elements.items is not None and (position is None or index is not None):
        items, count = list(elements.items), len(elements.items)
        index = count - 1 if index is None else index
        if not -count <= index < count:
            raise ValueError(explain("input position is out of range", got=f"{index} of {count}"))
        del items[index]
        return _sequence_of(cx, items)
    args = [] if position is None else [position]
    return ObjectValue(cx, elements.form, called(cx, "sequence_erase", elements, *args))


@converter("SequenceLength", 11)
def sequence_length(cx: Context, node: Node, sequence: Value) -> Any:
    items = _sequence(sequence)
    if items.items is not None:
        return cx.from_elements(np.asarray(len(items.items), object), "int64")
    return called(cx, "sequence_length", items, info=TensorStructInfo((), "int64"))


@converter("ConcatFromSequence", 11)
def concat_from_sequence(cx: Context, node: Node, sequence: Value) -> Any:
    items, axis, new = _sequence(sequence), node.integer("axis"), node.flag("new_axis")
    if items.items:
        parts = [cx.onnx.Unsqueeze(v, [axis]) if new else v for v in items.items]
        return cx.onnx.Concat(*parts, axis=axis)
    item = items.form.item
    if not isinstance(item, TensorStructInfo):
        return ObjectValue(cx, item, called(cx, "sequence_joined", items, axis, new))
    rank = item.ndim + new if item.ndim >= 0 else -1
    form = TensorStructInfo(dtype=item.dtype, ndim=rank)
    return result_of(cx, form, "sequence_joined", items, axis, new)


@converter("SplitToSequence", 11)
def split_to_sequence(cx: Context, node: Node, x: Value, split: Value | None = None) -> Any:
    axis, keep = node.integer("axis", 0), node.flag("keepdims", True) or split is not None
    if not -x.ndim <= axis < x.ndim:
        raise ValueError(explain("attribute axis is out of range", got=f"{axis} for rank {x.ndim}"))
    axis %= x.ndim
    sizes = _sizes(split, literal(x.shape[axis]))
    if sizes is not None and len(sizes) <= _MOST_PARTS:
        parts = cx.onnx.Split(x, sizes, axis=axis, outputs=len(sizes)) if len(sizes) > 1 else [x]
        parts = parts if sizes else []
        return _sequence_of(cx, [v if keep else cx.onnx.Squeeze(v, [axis]) for v in parts])
    form = TensorStructInfo(dtype=x.dtype, ndim=x.ndim - (not keep))
    split_sizes = split if split is not None else cx.onnx.Identity(np.int64(1))
    return ObjectValue(cx, Sequence(form), called(cx, "sequence_split", x, split_sizes, axis, keep))


def _sizes(split: Value | None, extent: PrimExpr | int) -> list[int] | None:
    """The sizes of the parts, where they are known."""
    if not isinstance(extent, int):
        return None
    if split is None:
        return [1] * extent
    elements = split.elements
    if elements is None or any(isinstance(e, PrimExpr) for e in elements.flat):
        return None
    if split.ndim:
        return [int(e) for e in elements.flat]
    step = int(elements.item())
    if step < 1:
        raise ValueError(explain("the size of parts must be positive", got=step))
    return [min(step, extent - k) for k in range(0, extent, step)]


@converter("SequenceMap", 17)
def sequence_map(cx: Context, node: Node, sequence: Value, *rest: Value) -> Any:
    """A graph's outputs for each value of all the sequences; other inputs stay the same."""
    body, inputs = node.graph("body"), [_sequence(sequence), *rest]
    names, each = [name_of(p.name) for p in body.input], [v for v in inputs if _is_sequence(v)]
    if all(v.items is not None for v in each):
        turns = []
        for k in range(len(each[0].items or ())):
            feeds = [v.items[k] if _is_sequence(v) else v for v in inputs]
            turns.append(cx.walk.subgraph(body, dict(zip(names, feeds, strict=True))))
        if turns:
            return [_sequence_of(cx, list(items)) for items in zip(*turns, strict=True)]
        return [ObjectValue(cx, Sequence(None), items=[]) for _ in body.output]
    count = cx.value(called(cx, "sequence_length", each[0], info=TensorStructInfo((), "int64")))
    outputs = [v.output for v in inputs]

    def turn(state: list[Value]) -> list[Value]:
        number, go, *results = state
        feeds = []
        for value, expr in zip(inputs, outputs, strict=True):
            if _is_sequence(value):
                feeds.append(result_of(cx, value.form.item, "sequence_at", expr, number))
            else:
                feeds.append(value)
        outs = cx.walk.subgraph(body, dict(zip(names, feeds, strict=True)))
        grown = []
        for before, out in zip(results, outs, strict=True):
            form = Sequence(joined(before.form.item, form_of(out)))
            grown.append(ObjectValue(cx, form, called(cx, "sequence_insert", before, out)))
        return [go, *grown]

    start: list[Value] = [ObjectValue(cx, Sequence(None), items=[]) for _ in body.output]
    return cx.walk.loop(turn, count, None, start, 0)


def _is_sequence(value: Value) -> bool:
    return isinstance(value, ObjectValue) and isinstance(value.form, Sequence)


# ---------------------------------------------------------------- optional values


@converter("Optional", 15)
def optional(cx: Context, node: Node, value: Value | None = None) -> Any:
    if value is not None:
        node.skip("type")
        return ObjectValue(cx, Optional(form_of(value)), items=[value])
    kind = node._get("type", object, "a type", None)
    return ObjectValue(cx, Optional(None if kind is None else declared(kind)), items=[])


def _optional_items(value: Value | None) -> list[Value] | None:
    """The content of an optional value, None where it is known only at run time."""
    if value is None:
        return []
    if isinstance(value, ObjectValue) and isinstance(value.form, Optional):
        return value.items
    return [value]


@converter("OptionalHasElement", 15)
def optional_has_element(cx: Context, node: Node, value: Value | None = None) -> Any:
    items = _optional_items(value)
    if items is not None:
        return cx.from_elements(np.asarray(bool(items), object), "bool")
    return called(cx, "has_element", value, info=TensorStructInfo((), "bool"))


@converter("OptionalGetElement", 15)
def optional_get_element(cx: Context, node: Node, value: Value) -> Any:
    items = _optional_items(value)
    if items:
        return items[0]
    form = value.form.item
    if form is None or items is not None:
        raise ValueError(
            explain("an optional value is empty", instead="test it with OptionalHasElement")
        )
    return result_of(cx, form, "element", value)


# ---------------------------------------------------------------- maps


@converter("ZipMap", 1, ML)
def zip_map(cx: Context, node: Node, x: Value) -> Any:
    keys = node.integers("classlabels_int64s", None) or node.texts("classlabels_strings", None)
    node.skip("classlabels_strings")
    if not keys:
        raise ValueError(explain("attribute classlabels_int64s or _strings is missing"))
    return ObjectValue(cx, Sequence(Map()), called(cx, "rows_as_maps", x, json.dumps(keys)))


@converter("DictVectorizer", 1, ML)
def dict_vectorizer(cx: Context, node: Node, x: Value) -> Any:
    keys = node.integers("int64_vocabulary", None) or node.texts("string_vocabulary", None)
    node.skip("string_vocabulary")
    if not keys:
        raise ValueError(explain("attribute int64_vocabulary or string_vocabulary is missing"))
    info = TensorStructInfo((1, len(keys)), "float32")
    return called(cx, "numbers_of_map", x, json.dumps(keys), "float32", info=info)


@converter("CastMap", 1, ML)
def cast_map(cx: Context, node: Node, x: Value) -> Any:
    to, sparse = node.text("cast_to", "TO_FLOAT"), node.text("map_form", "DENSE") == "SPARSE"
    dtype = {"TO_FLOAT": 1, "TO_INT64": 7}.get(to)
    length = node.integer("max_map", 1) if sparse else -1
    if dtype is None:
        raise ValueError(explain("CastMap returns numbers", got=to, instead="TO_FLOAT or TO_INT64"))
    info = TensorStructInfo(dtype=dtype_of(dtype), ndim=2)
    values = called(cx, "values_of_map", x, length, dtype_of(dtype), info=info)
    return arrived(cx, info, values)
