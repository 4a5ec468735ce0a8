"""How layouts pass through Relay's operators: the fact "FInferCorrectLayout".

A rule is `rule(attrs, new, old, types) -> InferCorrectLayoutOutput | None`. `old` are the layouts in
which the arguments were named before (None: not known), `new` those in which they are stored now (None
before anything moved), `types` the arguments' types before. Its answer has the layouts of the
call's arguments and results, and the attributes for these. None: unknown.

    sum, axis=[1], NCHW stored as NCHW16c  ->  axis=[1, 4], NCHW16c -> NHW
    add, NCHW stored as NCHW16c, and HW    ->  NCHW16c, NCHW1c -> NCHW16c
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from ....base.errors import explain
from ....ir.expr import Attrs
from ....ir.op import Op
from ....ir.prim_expr import IntImm, PrimExpr
from ....tir import Layout
from ....tir import layout as layout_of
from ..types import Type

LAYOUT_RULE = "FInferCorrectLayout"
Layouts = Sequence[Any]  # a Layout each, or None
Types = Sequence[Any]
Rule = Callable[[Any, Layouts | None, Layouts, Types], Any]


@dataclass(frozen=True)
class InferCorrectLayoutOutput:
    """The layouts of a call's arguments and results, and its attributes."""

    input_layouts: Layouts
    output_layouts: Layouts
    new_attrs: Any


Output = InferCorrectLayoutOutput


def changed(attrs: Any, **values: Any) -> Any:
    """Attributes with other values; the same ones if nothing changes."""
    old_values = dict(attrs.items())
    if all(n in old_values and old_values[n] == v for n, v in values.items()):
        return attrs
    return attrs.replace(values={**old_values, **values})


def _layout(parts: Sequence[tuple[str, int]]) -> Layout | None:
    """A layout of parts; None where a block has no whole axis."""
    try:
        return layout_of("".join(f"{f if f > 0 else ''}{c}" for c, f in parts))
    except ValueError:
        return None


def new_axis(axis: int, old: Layout, new: Layout) -> int | None:
    """Where an axis is stored now; None where it is split in another way than before."""
    letter = old[axis]
    if old.factor_of(letter) != new.factor_of(letter):
        return None
    index = new.index_of(letter)
    return None if index < 0 else index


def _rank(type_: Type) -> int:
    return len(type_.shape)


def _listed(value: int | Sequence[int]) -> list[Any]:
    return [value] if isinstance(value, int) else list(value)


# ---------------------------------------------------------------------- element by element


def elementwise(attrs: Attrs, new: Layouts | None, old: Layouts, types: Types) -> Any:
    """As its one argument is stored."""
    layout = new[0] if new else old[0]
    return Output([layout], [layout], attrs)


def twice(attrs: Attrs, new: Layouts | None, old: Layouts, types: Types) -> Any:
    """Two results, as the argument is stored."""
    layout = new[0] if new else old[0]
    return Output([layout], [layout, layout], attrs)


def broadcasting(attrs: Attrs, new: Layouts | None, old: Layouts, types: Types) -> Any:
    """Two operands: the smaller one moves as the larger one did."""
    ranks = [_rank(t) for t in types]
    large = 0 if ranks[0] >= ranks[1] else 1
    old_layouts = list(old)
    if old_layouts[large] is None:
        if old_layouts[1 - large] is None or ranks[0] != ranks[1]:
            return None
        large = 1 - large
    if old_layouts[1 - large] is None:
        old_layouts[1 - large] = _layout(
            old_layouts[large].parts[len(old_layouts[large]) - ranks[1 - large] :]
        )
    if new is None:
        return Output(old_layouts, [old_layouts[large]], attrs)
    whole = [sum(c.isupper() for c in one) for one in new]
    if whole[1 - large] > whole[large]:
        return None
    large = 0 if ranks[0] == ranks[1] else large
    small = 1 - large
    target = moved_like(old_layouts[small], old_layouts[large], new[large])
    if target is None:
        return None
    layouts = [new[large], new[large]]
    layouts[small] = _repeated(target, old_layouts[small], types[small].shape)
    return Output(layouts, [new[large]], attrs)


def moved_like(small: Layout, old: Layout, new: Layout) -> Layout | None:
    """The layout of an operand that is broadcast along the last axes of one stored as `old`, when
    that one is stored as `new`. None where a block would be apart from its axis."""
    if not len(small):
        return small
    lead = len(old) - len(small)
    tail = old.parts[lead:]
    if lead < 0 or any(c.upper() in {t.upper() for t, _ in tail} for c, _ in old.parts[:lead]):
        return None
    pairs = {a: b for (a, _), (b, _) in zip(tail, small.parts, strict=True)}
    same = all(
        a.isupper() == b.isupper() and f == g and pairs[a] == b
        for (a, f), (b, g) in zip(tail, small.parts, strict=True)
    )
    if not same or len(set(pairs.values())) != len(pairs):
        return None
    named = {a.upper(): b.upper() for a, b in pairs.items()}
    for letter in reversed(old):
        if letter.isupper() and letter not in named:
            free = [letter, *map(chr, range(ord("A"), ord("Z") + 1))]
            named[letter] = next(c for c in free if c not in named.values())
    return new.renamed("".join(named), "".join(named.values()))


def _repeated(target: Layout, old: Layout, shape: Sequence[PrimExpr]) -> Layout | None:
    """A layout with blocks of one element for axes that are broadcast."""
    parts = []
    for letter, factor in target.parts:
        if factor > 0:
            index = old.index_of(letter.upper())
            one = index < 0 or (_is_one(shape[index]) and letter not in old)
            factor = 1 if one else factor
        parts.append((letter, factor))
    return _layout(parts)


def _is_one(dim: PrimExpr) -> bool:
    return isinstance(dim, IntImm) and dim.value == 1


# ---------------------------------------------------------------------- layouts as attributes


def fixed(inputs: Sequence[str], output: str = "") -> Rule:
    """Layouts are read from attributes, whatever the arguments are stored as. A name that is not an
    attribute is a layout. The result has that of the first argument, or that of `out_layout`."""

    def rule(attrs: Attrs, new: Layouts | None, old: Layouts, types: Types) -> Any:
        new_layouts = [layout_of(attrs.get(name, name)) for name in inputs[: len(old)]]
        out = attrs.get("out_layout", "") if not output else attrs.get(output, output)
        return Output(new_layouts, [layout_of(out) if out else new_layouts[0]], attrs)

    return rule


conv = fixed(("data_layout", "kernel_layout"))


def imaging(attrs: Attrs, new: Layouts | None, old: Layouts, types: Types) -> Any:
    """The attribute `layout` follows the data where the image's axes stay as they are, unless
    `out_layout` is given."""
    layout, out = layout_of(attrs["layout"]), attrs.get("out_layout", "")
    if new and not out and old[0] == layout and _keeps_image(new[0], layout):
        layout, attrs = new[0], changed(attrs, layout=str(new[0]))
    return Output([layout], [layout_of(out) if out else layout], attrs)


def _keeps_image(new: Layout, old: Layout) -> bool:
    """Whether rows and columns are in the same order, and not split."""
    spatial = [c for c in old if c in "DHW"]
    return [c for c in new if c.upper() in "DHW"] == spatial


def permuting_image(attrs: Attrs, new: Layouts | None, old: Layouts, types: Types) -> Any:
    """As `imaging`, for layouts without blocks."""
    blocked = bool(new) and not str(new[0]).isupper()
    return imaging(attrs, None if blocked else new, old, types)


def dense(attrs: Attrs, new: Layouts | None, old: Layouts, types: Types) -> Any:
    """A product of rows."""
    rank = _rank(types[0])
    if rank > 6:
        return None
    data = layout_of("ABDE"[: rank - 2] + "NC")
    return Output([data, layout_of(attrs.get("weight_layout", "NC"))], [data], attrs)


# ---------------------------------------------------------------------- axes as attributes


def along(*names: str, inputs: Sequence[str] = (), outputs: Sequence[str] = ("",)) -> Rule:
    """The attributes `names` are axes of the data. inputs: the layouts of the other arguments;
    outputs: of the results, "" for that of the data."""

    def rule(attrs: Attrs, new: Layouts | None, old: Layouts, types: Types) -> Any:
        layout, values = old[0], {}
        if layout is None:
            return None
        if new is not None:
            for name in names:
                axes = [new_axis(int(a), old[0], new[0]) for a in _listed(attrs[name])]
                values[name] = axes[0] if isinstance(attrs[name], int) else tuple(axes)
                if None in axes:
                    return rule(attrs, None, old, types)
            layout, attrs = new[0], changed(attrs, **values)
        others = [layout_of(name) for name in inputs]
        results = [layout_of(name) if name else layout for name in outputs]
        return Output([layout, *others], results, attrs)

    return rule


def ranking(attrs: Attrs, new: Layouts | None, old: Layouts, types: Types) -> Any:
    """Values and their indices along an axis, or one of them."""
    count = 2 if attrs["ret_type"] == "both" else 1
    return along("axis", outputs=("",) * count)(attrs, new, old, types)


def joining(attrs: Attrs, new: Layouts | None, old: Layouts, types: Types) -> Any:
    """Tensors side by side: all in one layout."""
    layout, axis = next((one for one in old if one is not None), None), int(attrs["axis"])
    if layout is None or not layout[axis].isupper():
        return None
    if new and all(one == new[0] for one in new) and old[0] is not None:
        index = new[0].index_of(old[0][axis])
        return Output(list(new), [new[0]], changed(attrs, axis=index)) if index >= 0 else None
    return Output([layout] * len(old), [layout], attrs)


def splitting(attrs: Attrs, new: Layouts | None, old: Layouts, types: Types) -> Any:
    """A tensor in pieces: of an axis that is split, whole blocks."""
    where, axis, layout = attrs["indices_or_sections"], int(attrs["axis"]), old[0]
    equal = isinstance(where, int)
    count = where if equal else len(where) + 1
    if layout is None:
        return None
    if new is not None:
        letter, size = layout[axis], types[0].shape[axis]
        block = _new_block(letter, layout, new[0])
        is_static = equal and isinstance(size, IntImm)
        cuts = [size.value // where] if is_static else [0 if block == 1 else 1] if equal else where
        if block > 0 and not any(c % block for c in cuts):
            layout = new[0]
            attrs = changed(attrs, axis=layout.index_of(letter))
            if not equal and block > 1:
                attrs = changed(attrs, indices_or_sections=tuple(c // block for c in where))
    return Output([layout], [layout] * count, attrs)


def _new_block(letter: str, old: Layout, new: Layout) -> int:
    """The number of elements of an axis that one element now holds, 0 where they do not fit."""
    if new.index_of(letter) < 0 or old.factor_of(letter) == new.factor_of(letter):
        return int(letter in new)
    return 0 if old.factor_of(letter) > 0 else new.factor_of(letter)


def squeezing(attrs: Attrs, new: Layouts | None, old: Layouts, types: Types) -> Any:
    """Axes of extent 1 are removed."""
    layout, axes = old[0], attrs["axis"]
    if layout is None:
        return None
    if axes is None:
        axes = [n for n, d in enumerate(types[0].shape) if _is_one(d)]
    axes = [int(a) % len(layout) for a in _listed(axes)]
    if new is not None:
        positions = [new_axis(a, layout, new[0]) for a in axes]
        if any(p is None for p in positions) or any(layout[a].islower() for a in axes):
            return squeezing(attrs, None, old, types)
        layout, axes = new[0], positions
        attrs = changed(attrs, axis=tuple(positions))
    rest = _layout([p for n, p in enumerate(layout.parts) if n not in axes])
    return None if rest is None else Output([layout], [rest], attrs)


def transposing(attrs: Attrs, new: Layouts | None, old: Layouts, types: Types) -> Any:
    """Axes in another order."""
    layout = old[0]
    if layout is None:
        return None
    rank = len(layout)
    axes: Any = [int(a) % rank for a in attrs["axes"] or range(rank)[::-1]]
    if new is not None:
        positions = [new_axis(a, layout, new[0]) for a in axes]
        if len(new[0]) != rank or None in positions:
            return transposing(attrs, None, old, types)
        layout, axes = new[0], positions
        attrs = changed(attrs, axes=tuple(axes))
    result = _layout([layout.parts[a] for a in axes])
    return None if result is None else Output([layout], [result], attrs)


def padding(attrs: Attrs, new: Layouts | None, old: Layouts, types: Types) -> Any:
    """Widths by axis; an axis that is padded is not split."""
    layout = old[0]
    if layout is None:
        return None
    value = layout_of("") if types[1:] and not _rank(types[1]) else None
    if new is not None:
        widths = dict(zip(layout, attrs["pad_width"], strict=True))
        pads = []
        for letter in new[0]:
            same = letter in layout and layout.factor_of(letter) == new[0].factor_of(letter)
            if not same and _grows(widths.get(letter.upper(), (0, 0))):
                return padding(attrs, None, old, types)
            pads.append(widths[letter] if same else (0, 0))
        layout, attrs = new[0], changed(attrs, pad_width=tuple(pads))
    return Output([layout, value][: len(old)], [layout], attrs)


def _grows(width: Any) -> bool:
    return any(not isinstance(w, (int, IntImm)) or int(w) != 0 for w in width)


def slicing_like(attrs: Attrs, new: Layouts | None, old: Layouts, types: Types) -> Any:
    """A tensor cut to the extents of another one of the same layout."""
    if old[0] is None or old[0] != old[1]:
        return None
    layout, axes = old[0], attrs["axes"]
    if new is not None and new[0] == new[1] and axes:
        positions = [new_axis(int(a), layout, new[0]) for a in axes]
        if None not in positions:
            layout, attrs = new[0], changed(attrs, axes=tuple(positions))
    return Output([layout, layout], [layout], attrs)


# ---------------------------------------------------------------------- slices


def slicing(attrs: Attrs, new: Layouts | None, old: Layouts, types: Types) -> Any:
    """A part of each axis; of one that is split, whole blocks."""
    layout = old[0]
    if layout is None:
        return None
    same = Output([layout], [layout], attrs)
    if new is None or new[0] == layout:
        return same
    ranges = _ranges(attrs, layout, types[0].shape)
    if ranges is None or not str(layout).isupper():
        return None
    has_axes = attrs.get("axes") is not None
    new_ranges = {}
    for letter, (begin, end, step) in ranges.items():
        block = _new_block(letter, layout, new[0])
        if block == 0 or (block > 1 and (step != 1 or begin % block or end % block)):
            return None
        new_ranges[new[0].index_of(letter)] = (begin // block, end // block, step)
    if not has_axes:
        new_ranges = _leading(new_ranges, layout, new[0], types[0].shape)
    order = list(new_ranges) if has_axes else sorted(new_ranges)
    columns = [tuple(new_ranges[n][k] for n in order) for k in range(3)]
    values: dict[str, Any] = dict(zip(("begin", "end", "strides"), columns, strict=True))
    if has_axes:
        values["axes"] = tuple(order)
    return Output(new[:1], new[:1], changed(attrs, **values, slice_mode="end"))


def _ranges(attrs: Attrs, layout: Layout, shape: Sequence[PrimExpr]) -> dict[str, Any] | None:
    """(begin, end, step) by axis; None where one is not known."""
    begin, end, steps = attrs["begin"], attrs["end"], attrs["strides"]
    if begin is None or end is None:
        return None
    axes = attrs.get("axes")
    sized = attrs.get("slice_mode", "end") == "size"
    axes = range(max(len(begin), len(end))) if axes is None else axes
    ranges = {}
    for n, axis in enumerate(axes):
        size = shape[axis]
        if not isinstance(size, IntImm):
            return None
        first = int(begin[n]) if n < len(begin) else 0
        last = int(end[n]) if n < len(end) else size.value
        step = int(steps[n]) if steps and n < len(steps) else 1
        if sized:
            first, step = first, 1
            last = size.value if last < 0 else first + last
        ranges[layout[axis]] = (first, last, step)
    return ranges


def _leading(
    ranges: dict[int, Any], old: Layout, new: Layout, shape: Sequence[PrimExpr]
) -> dict[int, Any]:
    """The ranges of all axes up to the last one that has one."""
    for index, letter in enumerate(new):
        if index not in ranges and index < max(ranges, default=-1):
            size = shape[old.index_of(letter)].value if letter in old else new.factor_of(letter)
            ranges[index] = (0, size, 1)
    return ranges


# ---------------------------------------------------------------------- reductions


def axes_of(data: Any, axis: Any, exclude: bool = False) -> list[int]:
    """The axes that are reduced, counted from the front and in order. None or none: all of them;
    exclude: all but those. Raises ValueError."""
    rank = data.struct_info.ndim if hasattr(data, "struct_info") else len(data.shape)
    axis_list = [axis] if isinstance(axis, int) else list(axis or ())
    axes = [int(a) + rank if int(a) < 0 else int(a) for a in axis_list]
    if any(not 0 <= a < rank for a in axes) or len(set(axes)) != len(axes):
        what = "the axes of a reduction are different ones of its operand"
        raise ValueError(explain(what, got=f"{axis_list} of {rank} axes"))
    if exclude:
        if not axes and axis is None:
            raise ValueError(explain("exclude needs axes to leave out", got="none"))
        return [a for a in range(rank) if a not in axes]
    return sorted(axes) or list(range(rank))


def reducing(attrs: Attrs, new: Layouts | None, old: Layouts, types: Types) -> Any:
    """Over axes; of one that is split, over both parts."""
    return _reduced(attrs, new, old, types, ordered=False)


def finding(attrs: Attrs, new: Layouts | None, old: Layouts, types: Types) -> Any:
    """The place of an element: the reduced axes stay in their order."""
    return _reduced(attrs, new, old, types, ordered=True)


def _reduced(attrs: Attrs, new: Layouts | None, old: Layouts, types: Types, ordered: bool) -> Any:
    if old[0] is None:
        return None
    axes = axes_of(types[0], attrs["axis"], attrs["exclude"])
    layout = new[0] if new else old[0]
    reduced_letters = [old[0][a] for a in axes]
    positions = sorted(axes)
    if layout != old[0]:
        if any(old[0].factor_of(c) > 0 for c in reduced_letters):
            return _reduced(attrs, None, old, types, ordered)
        positions = [n for n, c in enumerate(layout) if c.upper() in reduced_letters]
        order = [c for c, _ in groupby(layout[n].upper() for n in positions)]
        if ordered and order != [c for c in old[0] if c in reduced_letters]:
            return _reduced(attrs, None, old, types, ordered)
    if new and not (attrs["axis"] is None and layout == old[0]):
        remaining = [n for n in range(len(layout)) if n not in positions]
        attrs = changed(attrs, axis=tuple(remaining if attrs["exclude"] else positions))
    inner = [(c, 1 if f > 0 and n in positions else f) for n, (c, f) in enumerate(layout.parts)]
    result = inner if attrs["keepdims"] else [p for n, p in enumerate(inner) if n not in positions]
    out, mean = _layout(result), _layout(inner)
    if out is None or mean is None:
        return None
    return Output([layout, mean][: len(old)], [out], attrs)


def prelu(attrs: Attrs, new: Layouts | None, old: Layouts, types: Types) -> Any:
    """As the data was named before: the slopes belong to an axis."""
    return Output([old[0], layout_of("C")], [old[0]], attrs)


def inferred(
    op: Op, attrs: Attrs | None, new: Sequence[Layout] | None, old: Layouts, types: Sequence[Type]
) -> Any:
    """The answer of an operator's rule; None where it has none or where a layout is missing."""
    rule = op.get_attr(LAYOUT_RULE)
    output = None if rule is None else rule(attrs, new, old, types)
    if output is None or any(
        one is None for one in (*output.input_layouts, *output.output_layouts)
    ):
        return None
    return output
