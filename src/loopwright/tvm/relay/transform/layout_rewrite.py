"""Calls in other layouts: the walk of AlterOpLayout and ConvertLayout.

A value is kept as it is stored, with the layout by which its producer named it before. A call that a
rule (`operators.layouts`) knows takes its arguments so; `layout_transform` is inserted only between
different layouts, once for each value and layout. Any other use gets the value in its old layout.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ....base.errors import LoopwrightError, explain
from ....ir.op import Op
from ....tir import Layout
from ....tir import layout as layout_of
from ..expr import Call, Expr, Function, Tuple, TupleGetItem, TupleWrapper
from ..operators.core import VIEWS
from ..operators.layouts import LAYOUT_RULE, InferCorrectLayoutOutput, inferred
from ..types import TensorType, TupleType, Type
from ..walk import children, post_order, rebuilt

# (call before, its attributes, its arguments as they are stored) -> a call, or None
Alter = Callable[[Call, Any, list[Any]], Any]


@dataclass(eq=False)
class Stored:
    """A value as it is stored; the layout by which it was named before, and the one it has."""

    value: Any
    old: Layout | None = None
    new: Layout | None = None


class LayoutRewriter:
    """Rewrites one function. alter: returns the replacement of a call in another layout."""

    def __init__(self, alter: Alter, asks: Callable[[Op], bool]) -> None:
        self.alter, self.asks = alter, asks
        self.stored: dict[int, Any] = {}  # by node: Stored, or a list of them for a tuple
        self.plain: dict[int, Any] = {}  # by node: the value in its old layout
        self.moved: dict[tuple[int, str, str], Any] = {}
        self.keep: list[Any] = []

    def run(self, func: Function) -> Function:
        """The function; the same object when nothing changes."""
        for node in list(post_order(func)):
            if isinstance(node, Tuple):
                self.stored[id(node)] = [self.state(f) for f in node.fields]
            elif isinstance(node, TupleGetItem) and self._of_tuple(node):
                self.stored[id(node)] = self._field(node)
            else:
                result = self.call(node) if isinstance(node, Call) else None
                if result is None:
                    self.plain[id(node)] = self._rebuilt(node)
                else:
                    self.stored[id(node)] = result
        return self.value(func)

    def _of_tuple(self, node: TupleGetItem) -> bool:
        return isinstance(self.stored.get(id(node.tuple_value)), list)

    def _field(self, node: TupleGetItem) -> Any:
        stored = self.stored[id(node.tuple_value)][node.index]
        field = stored.value if isinstance(stored, Stored) else None
        if isinstance(field, TupleGetItem) and field.tuple_value is node.tuple_value:
            return Stored(node, stored.old, stored.new)
        return stored

    def _rebuilt(self, node: Op | Expr) -> Any:
        return rebuilt(node, {id(c): self.value(c) for c in children(node)})

    # ------------------------------------------------------------------ values

    def state(self, node: Expr) -> Any:
        """A value as it is stored."""
        stored = self.stored.get(id(node))
        return Stored(self.value(node)) if stored is None else stored

    def value(self, node: Op | Expr) -> Any:
        """A value in its old layout."""
        if id(node) not in self.plain:
            stored = self.stored.get(id(node))
            self.plain[id(node)] = node if stored is None else self._restored(stored, node)
        return self.plain[id(node)]

    def _restored(self, stored: Stored | Sequence[Stored], node: Expr | Op | None) -> Any:
        if isinstance(stored, Stored):
            return self.transform(stored.value, stored.new, stored.old)
        fields = [self._restored(f, None) for f in stored]
        if isinstance(node, Tuple):
            same = all(a is b for a, b in zip(fields, node.fields, strict=True))
            return node if same else Tuple._make(tuple(fields), span=node.span)
        return Tuple(fields)

    def transform(self, value: Expr, src: Layout | None, dst: Layout | None) -> Any:
        """A value moved from one layout to another; one of fewer axes gets those that lack."""
        if src is None or dst is None or src == dst:
            return value
        key = (id(value), str(src), str(dst))
        if key not in self.moved:
            self.keep.append(value)
            self.moved[key] = _transformed(value, src, dst)
        return self.moved[key]

    # ------------------------------------------------------------------ calls

    def call(self, call: Call) -> Any:
        """The call in another layout, None where it stays."""
        op = call.op
        if not isinstance(op, Op) or not (self.asks(op) or op.get_attr(LAYOUT_RULE) is not None):
            return None
        states = [self.state(a) for a in call.args]
        if op.get_attr(LAYOUT_RULE) is None:
            altered = self.alter(call, call.attrs, [self.value(a) for a in call.args])
            return None if altered is None else Stored(altered)
        flat = [one for s in states for one in (s if isinstance(s, list) else [s])]
        if not all(isinstance(one, Stored) for one in flat):
            return None  # tuples in tuples
        old, new = [one.old for one in flat], [one.new for one in flat]
        types = [a.checked_type for a in call.args]
        if not all(map(_tensors, types)):
            return None
        before = inferred(op, call.attrs, None, old, types)
        if before is None:
            return None
        altered = self.alter(call, before.new_attrs, list(map(_as_stored, states)))
        if altered is None and not any(n != o for n, o in zip(new, old, strict=True)):
            layouts = before.output_layouts
            return self._results(call, self._rebuilt(call), layouts, layouts)
        return self._moved(call, altered, before, flat, types)

    def _moved(
        self,
        call: Call,
        altered: Call | None,
        before: InferCorrectLayoutOutput,
        flat: list[Stored],
        types: Sequence[Type],
    ) -> Any:
        layouts = before.input_layouts
        new = [w if s.new is None else s.new for s, w in zip(flat, layouts, strict=True)]
        old = [w if s.old is None else s.old for s, w in zip(flat, layouts, strict=True)]
        target = call if altered is None else altered
        if not isinstance(target.op, Op):
            return None
        attrs = before.new_attrs if altered is None else altered.attrs
        after = inferred(target.op, attrs, new, old, types)
        if after is None:
            return None
        counts = (len(after.input_layouts), len(after.output_layouts))
        if counts != (len(flat), len(before.output_layouts)):
            what = f"the replacement of {call.op.name} has the same numbers of inputs and outputs"
            got = f"{target.op.name}, with {counts[0]} inputs and {counts[1]} outputs"
            raise LoopwrightError(explain(what, got=got, span=call.span))
        moves = iter(zip(flat, layouts, after.input_layouts, strict=True))
        args = []
        arguments = [self.state(a) for a in call.args] if altered is None else altered.args
        for arg in arguments:
            if isinstance(arg, (list, Tuple)):
                fields = arg if isinstance(arg, list) else arg.fields
                args.append(Tuple([self._argument(f, *next(moves)) for f in fields]))
            else:
                args.append(self._argument(arg, *next(moves)))
        same = target is call and after.new_attrs is call.attrs
        if same and all(a is b for a, b in zip(args, call.args, strict=True)):
            result = call
        else:
            result = Call(target.op, args, after.new_attrs, span=call.span)
        return self._results(call, result, before.output_layouts, after.output_layouts)

    def _argument(self, arg: Expr | Stored, stored: Stored, layout: Layout, target: Layout) -> Any:
        value = arg.value if isinstance(arg, Stored) else arg
        if stored.old == layout:
            return self.transform(value, stored.new, target)
        value = self.transform(value, stored.new, stored.old)
        return self.transform(value, layout, target)

    def _results(self, call: Call, new_call: Expr, old: Sequence[Any], new: Sequence[Any]) -> Any:
        if not isinstance(call.checked_type, TupleType):
            return Stored(new_call, old[0], new[0])
        if all(o == n for o, n in zip(old, new, strict=True)):
            self.plain[id(call)] = new_call
        pairs = enumerate(zip(old, new, strict=True))
        return [Stored(TupleGetItem(new_call, n), *layouts) for n, layouts in pairs]


def _as_stored(state: Stored | list[Stored]) -> Any:
    """An argument of the altered call."""
    if isinstance(state, list):
        return Tuple([s.value for s in state])
    return state.value


def _tensors(type_: Type) -> bool:
    fields = type_.fields if isinstance(type_, TupleType) else (type_,)
    return all(isinstance(f, TensorType) for f in fields)


def _whole(layout: Layout) -> str:
    return "".join(c for c in layout if c.isupper())


def _transformed(value: Expr, src: Layout, dst: Layout) -> Any:
    lacking = "".join(c for c in _whole(dst) if c not in src)
    if lacking:
        type_ = value.struct_info
        if isinstance(type_, TensorType) and all(str(d) == "1" for d in type_.shape):
            return value  # broadcast in any layout
        value = VIEWS["expand_dims"](value, 0, len(lacking))
        src = layout_of(lacking + str(src))
        if src == dst:
            return value
    return VIEWS["layout_transform"](value, str(src), str(dst))


def as_call(value: Expr | None, name: str) -> Any:
    """The result of a rule, as a call. Raises LoopwrightError."""
    call = value.tuple_value if isinstance(value, TupleWrapper) else value
    if call is not None and not isinstance(call, Call):
        what = f"the rule of {name} returns a call that replaces its own"
        raise LoopwrightError(explain(what, got=str(call), instead="or None"))
    return call
