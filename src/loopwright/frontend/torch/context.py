"""What converters of ATen's operators work with."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import Any, cast

import torch
from torch.utils._pytree import tree_leaves

from ...ir.dtype import DataType
from ...ir.prim_expr import PrimExpr
from ...relax import op as builders
from ...relax.block_builder import BlockBuilder
from ...relax.expr import Expr, ShapeExpr
from ...relax.struct_info import TupleStructInfo
from ..graph.context import Context
from ..graph.operators import Operators
from ..graph.values import Value
from .symbols import Symbols, integer

Number = bool | int | float
Size = int | PrimExpr  # symbolic ones are expressions


def _binary(name: str, swapped: bool = False) -> Callable[[Term, Arg], Term]:
    build = getattr(builders, name)

    def method(self: Term, other: Arg) -> Term:
        cx, dtype = self._context, str(self.dtype)
        sides = cx.tensors(dtype, other, self) if swapped else cx.tensors(dtype, self, other)
        return _called(build, *sides)

    return method


def _logical(boolean: str, bits: str) -> Callable[..., Term]:
    def method(self: Term, *other: Arg) -> Term:
        build = getattr(builders, boolean if self.dtype.is_bool else bits)
        return _called(build, *self._context.tensors(str(self.dtype), self, *other))

    return method


class Term(Value):
    """A tensor of the graph, for formulas: Python's operators and `x.name(...)` are the operators of
    `relax.op` on it. Numbers next to it get its type; comparisons by `equal` and `not_equal`; of bool,
    `&`, `|` and `~` are logical."""

    __slots__ = ()
    _context: TorchContext

    __add__, __radd__ = _binary("add"), _binary("add", swapped=True)
    __sub__, __rsub__ = _binary("subtract"), _binary("subtract", swapped=True)
    __mul__, __rmul__ = _binary("multiply"), _binary("multiply", swapped=True)
    __truediv__, __rtruediv__ = _binary("divide"), _binary("divide", swapped=True)
    __floordiv__, __mod__ = _binary("floor_divide"), _binary("floor_mod")
    __lt__, __le__, __gt__ = _binary("less"), _binary("less_equal"), _binary("greater")
    __ge__, equal, not_equal = _binary("greater_equal"), _binary("equal"), _binary("not_equal")
    maximum, minimum = _binary("maximum"), _binary("minimum")
    power, atan2, __rshift__ = _binary("power"), _binary("atan2"), _binary("right_shift")
    __and__ = _logical("logical_and", "bitwise_and")
    __or__ = _logical("logical_or", "bitwise_or")
    __invert__ = _logical("logical_not", "bitwise_not")

    def __neg__(self) -> Term:
        return _called(builders.negative, self)

    def __getattr__(self, name: str) -> Callable[..., Term]:
        build = None if name.startswith("_") else getattr(builders, name, None)
        if build is None:
            raise AttributeError(name)
        return lambda *args, **named: _called(build, self, *args, **named)


class Calls:
    """The operators of `relax.op`, or of a part of it, on Terms: `op.nn.softmax(x, 1)` is a Term, that of several
    results a list of them. Where no argument is a Term, it is an expression."""

    def __init__(self, operators: ModuleType) -> None:
        self._operators = operators

    def __getattr__(self, name: str) -> Any:
        build = getattr(self._operators, name)
        if isinstance(build, ModuleType):
            return Calls(build)
        return lambda *args, **named: _called(build, *args, **named)


def _called(build: Callable[..., Expr], *args: Any, **named: Any) -> Any:
    terms = [v for v in tree_leaves((args, named)) if isinstance(v, Value)]
    out = build(*map(_plain, args), **{k: _plain(v) for k, v in named.items()})
    if not terms:
        return out
    cx = terms[0]._context
    whole = cx.emit(out)
    if isinstance(whole.struct_info, TupleStructInfo):
        return [cx.value(whole[k]) for k in range(len(whole.struct_info.fields))]
    return cx.value(whole)


def _plain(arg: Any) -> Any:
    if isinstance(arg, (list, tuple)):
        return [*map(_plain, arg)]
    return arg.expr if isinstance(arg, Value) else arg


op: Any = Calls(builders)

Arg = Term | Number | PrimExpr  # of operators that take tensors and numbers


class TorchContext(Context):
    """The state of an import. symbols: what torch's symbolic sizes are here; values: the results of nodes
    so far, by name; splits: what needs torch at run time is refused, since eager torch runs it between the parts of
    this graph; drawn: the last random numbers; checks: numbers of failures that have to be 0, with messages."""

    def __init__(self, builder: BlockBuilder) -> None:
        super().__init__(builder)
        self.symbols: Symbols = {}
        self.values: Mapping[str, Value] = {}
        self.splits = False
        self.drawn: Expr | None = None
        self.checks: list[tuple[Expr, str]] = []

    @property
    def ops(self) -> Operators:
        """Operators on values."""
        return Operators(self)

    def value(self, expr: Value | Expr) -> Any:
        """A Term of an expression, which is bound first."""
        value = super().value(expr)
        return Term(self, value.expr) if type(value) is Value else value

    def dims(self, fake: torch.Tensor) -> list[Size]:
        """The shape of a (fake) tensor."""
        return [integer(d, self.symbols) for d in fake.shape]

    def shape(self, fake: torch.Tensor) -> ShapeExpr:
        """The shape of a (fake) tensor as an expression."""
        return ShapeExpr(self.dims(fake))

    def tensor(self, value: Arg | Value, dtype: str | None = None) -> Term:
        """A tensor, or a number as a 0-d one, in a type (its own if None)."""
        if isinstance(value, (bool, int, float)):
            if dtype is None:
                dtype = "int64" if isinstance(value, int) else "float32"
            return self.value(self.scalar(_converted(value, dtype), dtype))
        if not isinstance(value, Value):  # a symbolic size
            value = self.ops.squeeze(self.from_elements([value], "int64"))
        if dtype is not None and value.dtype != dtype:
            value = self.ops.astype(value, dtype=dtype)
        return self.value(cast(Value, value))

    def tensors(self, dtype: str, *values: Arg) -> list[Term]:
        """Tensors and numbers in one type, about to broadcast."""
        return self.broadcast_terms(*(self.tensor(v, dtype) for v in values))

    def broadcast_terms(self, *values: Value) -> list[Term]:
        """`broadcast`, as Terms."""
        return [*map(self.value, self.broadcast(*values))]

    def where(self, condition: Term, x: Arg, y: Arg) -> Term:
        """x where the condition holds, else y; one of them is a tensor, whose type the other gets."""
        kind = str((x if isinstance(x, Value) else y).dtype)
        sides = (self.tensor(v, kind) for v in (x, y))
        return op.where(*self.broadcast_terms(condition, *sides))

    def checked(self, value: Value) -> Value:
        """A result that is computed after the checks."""
        if not self.checks or not value.is_tensor:
            return value
        for info, message in self.checks:
            value = op.linalg.check(value, info, message)
        return value

    def filled(self, dims: Sequence[Size], value: Number, dtype: str) -> Term:
        """A tensor of one number."""
        return self.value(op.full(ShapeExpr(dims), self.scalar(value, dtype), dtype))

    def collected(
        self, count: Size, start: Number, at: Term, values: Term, how: str = "update"
    ) -> Term:
        """Values at positions of an axis of `count` elements, which are `start` before; those at `count` are
        dropped."""
        dims = [self.simplify(count + 1), *values.shape[1:]]
        out = self.filled(dims, start, str(values.dtype)).scatter_elements(at, values, 0, how)
        return self.part(out, 0, 0, count)

    def line(self, count: Size) -> Term:
        """0, 1, 2, ... as int64."""
        return self.value(op.arange(0, count, 1, "int64"))

    def flat(self, x: Term) -> Term:
        """All elements of a tensor in one axis."""
        return x.reshape([self.product(x.shape)])

    def part(self, x: Term, axis: int, begin: Size, end: Size) -> Term:
        """The elements of an axis from `begin` to `end`, which are within it."""
        return x.strided_slice([axis], [begin], [end], [1], True)

    def concat(self, parts: Sequence[Term], axis: int) -> Term:
        return op.concat(parts, axis)

    def stack(self, parts: Sequence[Term], axis: int) -> Term:
        return op.stack(parts, axis)


def _converted(value: Number, dtype: str) -> Number:
    """A number as torch converts it to a type: integers wrap around."""
    kind = DataType(dtype)
    if kind.is_bool:
        return bool(value)
    if not kind.is_integer:
        return float(value)
    whole = int(value) % (1 << kind.bits)
    return whole - (1 << kind.bits) if kind.is_int and whole >> (kind.bits - 1) else whole
