"""The converter's context: emitting, constants, known integers, checked shapes."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import reduce, wraps
from math import prod
from typing import Any, Protocol, TypeVar

import numpy as np

from ...arith import Analyzer
from ...base import budget
from ...base.errors import InternalError, LoopwrightError, explain
from ...ir.dtype import DataType, numpy_dtype
from ...ir.functor import post_order_visit
from ...ir.op import Op
from ...ir.prim_expr import IntImm, PrimExpr
from ...ir.prim_expr import Var as TirVar
from ...ir.prim_op import convert
from ...ops.extents import broadcast_differ, broadcast_extent, equal_beside, open_pairs
from ...relax import expr as rx
from ...relax import op
from ...relax.block_builder import BlockBuilder
from ...relax.expr import Call as RelaxCall
from ...relax.expr import Var as RelaxVar
from ...relax.struct_info import ShapeStructInfo, TensorStructInfo
from ...runtime.tensor import Tensor, empty
from .model import Node
from .values import Value, in_type, literal, object_array, wrapped

_MOST_FOLDED = 1 << 20  # elements; larger constants are left to the pass FoldConstant
_MOST_DIMS = 64  # numpy's
_MOST_READ = 1 << 10  # symbols for the integers of one tensor known only at run time
_MOST_COST = 1 << 16  # of an integer expression: some 2,000 operations

T = TypeVar("T")


Body = Callable[[list[Value]], list[Value]]  # an iteration: the values before and after it


class LoopBuilder(Protocol):
    """Builds a loop: its body, the limit of iterations, the first condition, the state, the number of
    scan outputs."""

    def __call__(
        self, body: Body, limit: Value | None, go: Value | None, state: list[Value], collected: int
    ) -> list[Value]: ...


class Walk(Protocol):
    """The walk over the graph, as a converter uses it."""

    def subgraph(self, graph: Any, feeds: Mapping[str, Value] = ...) -> list[Value]:
        """The outputs of a graph that is an attribute of the node. feeds: the values of its inputs."""
        ...

    def inline(self, graph: Any) -> list[Value]:
        """The same, for a graph whose outputs are those of the node that is converted."""
        ...

    def choice(self, condition: Value, *graphs: Any) -> list[Value]:
        """The outputs of one of two graphs, chosen by a condition at run time."""
        ...

    def part(self, node: Node, inputs: list[Value | None]) -> list[Any]:
        """The outputs of a node that is not in the file (part of an operator's definition), on these inputs."""
        ...

    def fork(self, condition: Value, *branches: Callable[[], list[Value]]) -> bool:
        """Convert the nodes after this one twice, once for each of two branches that compute its outputs. False
        for a node that is part of another's definition, where this is not possible."""
        ...

    @property
    def loop(self) -> LoopBuilder:
        """Builds loops."""
        ...

    def of_model(self, ask: Callable[[Any], T]) -> T:
        """The value of a function of the whole model, computed once."""
        ...

    def texts(self, array: np.ndarray) -> Value:
        """A constant of texts."""
        ...


class Context:
    """The state of an import, the first argument of a converter. `builder` is the block builder.

    >>> from loopwright.frontend.onnx import Context
    >>> Context(relax.BlockBuilder()).builder
    <loopwright.relax.block_builder.BlockBuilder object at ...>
    """

    def __init__(self, builder: BlockBuilder) -> None:
        self.builder = builder
        self.analyzer = Analyzer()
        self._walk: Walk | None = None  # of the node that is being converted
        self.draws = 0  # calls of random numbers so far
        self.dequantized: dict[
            Any, tuple[Any, ...]
        ] = {}  # by blocks: {tensor: inputs, axis, block}
        self._run_time_symbols: set[TirVar] = set()  # what data decides at run time
        self._constants: dict[Any, np.ndarray | None] = {}
        self._constants_by_key: dict[Any, rx.Constant] = {}

    @property
    def walk(self) -> Walk:
        """The walk over the graph, at the node that is being converted."""
        if self._walk is None:
            raise InternalError("no node is being converted")
        return self._walk

    @contextmanager
    def converting(self, walk: Walk) -> Iterator[None]:
        """A block in which `walk` is that of a node. Only there, so that the context does not keep the
        importer alive."""
        outer, self._walk = self._walk, walk
        try:
            yield
        finally:
            self._walk = outer

    # -- making expressions --------------------------------------------------------------------

    def emit(self, expr: Value | rx.Expr) -> RelaxVar | rx.Constant:
        """Bind an expression to a variable; a variable or constant stays."""
        if isinstance(expr, Value):
            expr = expr.expr
        if isinstance(expr, (RelaxVar, rx.Constant)):
            return expr
        return self.builder.emit(expr)

    def value(self, expr: Value | rx.Expr) -> Value:
        """The Value of an expression, which is bound first. Raises ValueError for a tensor of too
        many dimensions, LoopwrightError for an extent whose expression is too long."""
        if isinstance(expr, Value):
            return expr
        value = Value(self, self.emit(expr))
        info = value._expr.struct_info
        dims = info.get_shape() if isinstance(info, TensorStructInfo) else None
        if dims is not None and len(dims) > _MOST_DIMS:
            what = f"a tensor has at most {_MOST_DIMS} dimensions"
            raise ValueError(explain(what, got=len(dims)))
        for dim in dims or ():
            self._check_length(dim)
        return value

    def _check_length(self, value: PrimExpr) -> None:
        if not isinstance(value, (IntImm, TirVar)) and self.analyzer.costs.of(value) > _MOST_COST:
            what = "an integer of the model is an expression of more than 2,000 operations"
            hint = "give the extents that it is made of by shape_dict"
            raise LoopwrightError(explain(what, got="symbolic extents combined", instead=hint))

    def from_elements(self, elements: Any, dtype: str) -> Value:
        """A value of which every element is known: an object array, or a list of elements."""
        if not isinstance(elements, np.ndarray):
            elements = object_array(elements)
        return Value(self, None, wrapped(elements, DataType(dtype)), dtype)

    def constant(self, array: Any, dtype: str | None = None) -> rx.Constant:
        """A constant tensor. Types below a byte are stored one element per byte; `dtype` then names
        the type. A tensor is shared, not copied."""
        if isinstance(array, Tensor):
            budget.spend(size=array.nbytes)
            return rx.Constant(array)
        array = np.asarray(array)
        budget.spend(size=array.nbytes)
        kind = DataType(dtype) if dtype is not None else DataType(array.dtype.name)
        if array.flags.writeable or array.dtype != numpy_dtype(kind):
            data = empty(array.shape, numpy_dtype(kind).name)
            data.view()[...] = array
        else:  # the file's own bytes
            data = Tensor(array)
        info = TensorStructInfo(array.shape, kind)
        return rx.Constant(data, info) if kind != data.dtype else rx.Constant(data)

    def literal(self, array: np.ndarray) -> Value:
        """A constant of the file: numbers, or texts."""
        if array.dtype == object:
            return self.walk.texts(array)
        return Value(self, self.constant(array))

    def scalar(self, value: complex | np.generic, dtype: str) -> rx.Constant:
        """A 0-d constant; the same one for the same number. Raises ValueError for one that `dtype`, of
        integers, does not hold."""
        return self.once(
            (repr(value), str(dtype)), lambda: self.constant(in_type(value, dtype), str(dtype))
        )

    def once(self, key: Sequence[Any], make: Callable[[], rx.Constant]) -> rx.Constant:
        """The constant that `make` returns, built once for each key."""
        if key not in self._constants_by_key:
            self._constants_by_key[key] = make()
        return self._constants_by_key[key]

    def tensor_of(self, elements: np.ndarray, dtype: str) -> Any:
        """Known elements as a tensor expression."""
        if not any(isinstance(e, PrimExpr) for e in elements.flat):
            return self.constant(_in_type(elements, numpy_dtype(dtype)), dtype)
        tensor = self.emit(op.shape_to_tensor(rx.ShapeExpr(list(elements.flat))))
        if elements.ndim != 1:
            tensor = self.emit(op.reshape(tensor, rx.ShapeExpr(elements.shape)))
        return tensor if dtype == "int64" else self.emit(op.astype(tensor, dtype))

    # -- known integers ------------------------------------------------------------------------

    def simplify(self, value: PrimExpr | int) -> Any:
        """An integer expression simplified, a number where it is one."""
        if not isinstance(value, PrimExpr):
            return value
        self._check_length(value)
        return literal(self.analyzer.simplify(value))

    def proven(self, condition: bool | PrimExpr) -> bool:
        """Whether a condition holds for all values of the symbolic dimensions."""
        return (
            bool(condition) if isinstance(condition, bool) else self.analyzer.can_prove(condition)
        )

    def equal(self, a: PrimExpr | int, b: PrimExpr | int) -> bool:
        """Whether two dimensions are provably equal."""
        a, b = literal(a), literal(b)
        if isinstance(a, int) and isinstance(b, int):
            return a == b
        return a is b or self.analyzer.can_prove_equal(a, b)

    def product(self, dims: Sequence[Any]) -> Any:
        """The number of elements of these extents. Raises ValueError where it does not fit 64 bits."""
        size: Any = 1
        for d in map(literal, dims):
            size = size * d
        if isinstance(size, int) and size >= 1 << 63:
            text = f"[{', '.join(map(str, dims))}]"
            raise ValueError(explain("a dimension does not fit 64 bits", got=text))
        return self.simplify(size)

    def integers(
        self, value: Value | None, what: str, dims: bool = False, count: int | None = None
    ) -> list[Any]:
        """The elements of a 1-d (or 0-d) integer input; those known only at run time as symbols.
        dims: they are sizes, which may not be negative. count: how many there must be."""
        if value is None:
            raise ValueError(explain(f"input {what} is missing"))
        elements = value.elements
        if elements is not None:
            literals = [literal(e) for e in elements.flat]
            return not_negative(literals) if dims else literals
        if count is None or value.ndim != 1 or isinstance(value.shape[0], IntImm):
            length = self.count(value, what)
            if count not in (None, length):
                raise ValueError(explain(f"input {what} must hold {count} numbers", got=length))
            count = length
        name = "relax.run.sizes" if dims else "vm.builtin.tensor_to_shape"
        return self.read(name, count, value.expr, nonnegative=dims)

    def count(self, value: Value, what: str) -> int:
        """The number of elements of a 1-d (or 0-d) input. Raises ValueError where it is not known."""
        count = literal(value.shape[0]) if value.ndim == 1 else 1 if value.ndim == 0 else None
        if not isinstance(count, int):
            what = f"the length of input {what} must be known"
            hint = "give the model's input shapes: shape_dict={name: shape}"
            raise ValueError(explain(what, got=str(value.info), instead=hint))
        return count

    def read(self, name: str, count: int, *args: rx.Expr, nonnegative: bool) -> list[Any]:
        """Symbols for the integers that a function returns at run time as a shape. Raises ValueError for
        more than _MOST_READ."""
        if count > _MOST_READ:
            what = f"at most {_MOST_READ} axes, sizes or positions can be computed at run time"
            raise ValueError(explain(what, got=count, instead="a constant input"))
        info = ShapeStructInfo(ndim=count)
        shape = self.emit(op.call_pure_packed(name, *args, sinfo_args=info))
        symbols = [TirVar("read", "int64") for _ in range(count)]
        self._run_time_symbols.update(symbols)
        if nonnegative:
            for symbol in symbols:
                self.analyzer.assume_nonnegative(symbol)
        self.builder.match_cast(shape, ShapeStructInfo(symbols))
        return list(symbols)

    def numbers(self, value: Value | None, what: str) -> list[int]:
        """`integers` that are all literal."""
        elements = self.integers(value, what)
        if any(isinstance(e, PrimExpr) for e in elements):
            what = f"input {what} must hold numbers, not symbolic dimensions"
            raise ValueError(explain(what, got=", ".join(map(str, elements))))
        return [int(e) for e in elements]

    def number(self, value: Value | None, what: str, default: int | None = None) -> Any:
        """The one element of a constant input, or `default` for an input left out."""
        if value is None:
            return default
        array = value.constant
        if array is None or array.size != 1:
            hint = "make it a constant or initializer of the model"
            got = f"{value.info}"
            raise ValueError(
                explain(f"input {what} must be one known number", got=got, instead=hint)
            )
        return array.reshape(()).item()

    def constant_of(self, expr: RelaxVar | rx.Constant) -> np.ndarray | None:
        """The array of an expression made of constants by operators with a numpy meaning."""
        if isinstance(expr, rx.Constant):
            return None if expr.is_weight else expr.data.view()
        fixed: set[Any] = set()  # first of all: weights are large, and what uses them may vary
        for var, bound in self._from_below(expr, fixed):
            constants = (
                v.vid in fixed or self._constants.get(v.vid) is not None for v in _variables(bound)
            )
            if (
                bound is not None
                and (not isinstance(bound, RelaxCall) or _foldable(bound))
                and all(constants)
            ):
                fixed.add(var.vid)
            else:
                self._constants[var.vid] = None
        for var, bound in self._from_below(expr, ()):
            folded = self._fold(bound)
            self._constants[var.vid] = folded if isinstance(folded, np.ndarray) else None
        return self._constants[expr.vid]

    def _from_below(self, expr: RelaxVar, seen: Container[Any]) -> Iterator[tuple[RelaxVar, Any]]:
        """The variables that a value is computed from, in order of their bindings, with the bound expressions;
        not those that are `seen` or known. Without recursion: a chain may be thousands of operators long."""
        pending = [expr]
        while pending:
            budget.check()
            var = pending[-1]
            settled = var.vid in self._constants or var.vid in seen
            bound = None if settled else self.builder.lookup_binding(var)
            before = [
                v for v in _variables(bound) if v.vid not in self._constants and v.vid not in seen
            ]
            if before:
                pending += before
                continue
            pending.pop()
            if not settled:
                yield var, bound

    def remember(self, var: RelaxVar, constant: rx.Constant) -> None:
        """Record the values of a parameter, for operators that need them while importing."""
        self._constants[var.vid] = constant.data.view()

    def _fold(self, expr: Any) -> Any:
        if isinstance(expr, rx.Constant):
            return None if expr.is_weight else expr.data.view()
        if isinstance(expr, RelaxVar):
            return self._constants.get(expr.vid)
        if isinstance(expr, (rx.Tuple, rx.ShapeExpr)):
            parts = expr.fields if isinstance(expr, rx.Tuple) else expr.values
            fields = [self._fold(p) for p in parts]
            return None if any(m is None for m in fields) else tuple(fields)
        if isinstance(expr, rx.PrimValue):
            return self._fold(expr.value)
        if isinstance(expr, (IntImm, rx.StringImm)):
            return literal(expr) if isinstance(expr, IntImm) else expr.value
        if not isinstance(expr, PrimExpr) and isinstance(expr, RelaxCall):
            return self._fold_call(expr)
        return getattr(expr, "value", None) if isinstance(expr, PrimExpr) else None

    def _fold_call(self, call: RelaxCall) -> Any:
        info = call.struct_info
        args = [self._fold(a) for a in call.args]
        count = prod(d.value for d in info.get_shape())
        if any(a is None for a in args) or not budget.room(count * info.dtype.lane_bytes):
            return None
        attrs = {} if call.attrs is None else dict(call.attrs.items())
        meaning = call.op.get_attr("FNumpy")
        return np.asarray(meaning(*args, **attrs)).astype(numpy_dtype(info.dtype), copy=False)

    # -- shapes --------------------------------------------------------------------------------

    def with_dims(self, value: Value, dims: dict[int, Any]) -> Value:
        """The value with some dimensions replaced by expressions, which is checked at run time."""
        if not dims:
            return value
        shape = list(value.shape)
        for axis, dim in dims.items():
            shape[axis] = convert(dim)
        info = TensorStructInfo(rx.ShapeExpr(shape), value.dtype)
        return Value(self, self.builder.match_cast(value.expr, info))

    def of_shape(self, expr: rx.Expr, *dims: PrimExpr | int | None) -> Value:
        """A value of known rank with these dimensions; None is a dimension that depends on data."""
        shape = [self.symbol() if d is None else d for d in dims]
        info = TensorStructInfo(rx.ShapeExpr(shape), expr.struct_info.dtype)
        return Value(self, self.builder.match_cast(expr, info))

    def symbol(self) -> TirVar:
        """A symbol for a dimension that depends on data."""
        symbol = TirVar("found", "int64")
        self._run_time_symbols.add(symbol)
        self.analyzer.assume_nonnegative(symbol)
        return symbol

    def aligned(self, values: list[Value], axes: Sequence[Sequence[int | None]]) -> list[Value]:
        """The values with one expression for all dimensions that must be equal.

        `axes` lists groups of dimensions: for each value its axis, or None. Where two dimensions
        of a group can be neither proven equal nor refuted, the simplest is used for all, and a
        match_cast checks the others at run time.
        """
        changes: list[dict[int, Any]] = [{} for _ in values]
        for group in axes:
            dims = [(k, a, values[k].shape[a]) for k, a in enumerate(group) if a is not None]
            chosen = min((d for _, _, d in dims), key=size_of)
            for k, axis, d in dims:
                both = isinstance(d, IntImm) and isinstance(chosen, IntImm)
                if not both and not self.equal(d, chosen):
                    changes[k][axis] = chosen
        return [self.with_dims(v, c) for v, c in zip(values, changes, strict=True)]

    def broadcast(self, *values: Value) -> list[Any]:
        """Expressions of values that are about to broadcast. Where extents are compared by name only,
        all but one of the values are broadcast to the common extent, so that inference knows it."""
        if any(v.info.get_shape() is None for v in values):
            return [v.expr for v in values]
        rank = max(v.ndim for v in values)
        axes = [[_broadcast_axis(v, back) for v in values] for back in range(1, rank + 1)]
        ready, extents = self.broadcast_groups(list(values), axes)
        shapes = [list(v.shape) for v in ready]
        for group, extent in zip(axes, extents, strict=True):
            positions = [(k, a) for k, a in enumerate(group) if a is not None]
            common = (
                extent  # of names alone, inference knows the common extent of one and of others
            )
            for k, axis in sorted(positions, key=lambda position: -ready[position[0]].ndim):
                dim = shapes[k][axis]
                if isinstance(dim, TirVar) and dim is not common:
                    keeps = common is extent and not isinstance(extent, (IntImm, TirVar))
                    common, shapes[k][axis] = (dim, dim) if keeps else (common, extent)
        return [
            v.expr
            if all(a is b for a, b in zip(v.shape, shape, strict=True))
            else self.emit(op.broadcast_to(v.expr, rx.ShapeExpr(shape)))
            for v, shape in zip(ready, shapes, strict=True)
        ]

    def broadcast_dim(self, target: PrimExpr, have: PrimExpr) -> PrimExpr:
        """The extent that a target's and a tensor's broadcast to; it is checked at run time that the
        target's is 1 or that extent."""
        extent = broadcast_extent(target, have)
        with open_pairs() as pairs:
            broadcast_differ([target], [extent], both=False)
        for dim, want in pairs:
            self.builder.match_cast(rx.ShapeExpr([dim]), ShapeStructInfo([want]))
        return extent

    def equal_when_broadcast(self, a: PrimExpr, b: PrimExpr) -> bool:
        """Whether two extents that broadcast are equal, by the facts about the model's sizes."""
        return equal_beside(a, b, self.analyzer)

    def broadcast_groups(
        self, values: list[Value], axes: Sequence[Sequence[int | None]]
    ) -> tuple[list[Value], list[Any]]:
        """The values, and the extents that groups of their dimensions (see `aligned`) broadcast to.
        Dimensions that may not be 1 where another is not are asserted to be equal."""
        groups: list[list[int | None]] = []
        for group in axes:
            rest = {k: a for k, a in enumerate(group) if a is not None}
            while rest:
                first = min(rest, key=lambda k: size_of(values[k].shape[rest[k]]))
                dim = values[first].shape[rest[first]]
                dims = {k: values[k].shape[a] for k, a in rest.items()}
                same = [
                    k
                    for k, d in dims.items()
                    if self.equal(d, dim) or self.equal_when_broadcast(d, dim)
                ]
                groups.append([rest.pop(k) if k in same else None for k in range(len(values))])
        values = self.aligned(values, groups)
        one = IntImm("int64", 1)
        return values, [
            reduce(
                broadcast_extent,
                (v.shape[a] for v, a in zip(values, group, strict=True) if a is not None),
                one,
            )
            for group in axes
        ]


def _in_type(elements: np.ndarray, dtype: np.dtype[Any]) -> np.ndarray:
    """Known elements as an array; integers wrap around, as in arithmetic of their type."""
    if np.dtype(dtype).kind in "iu":
        wide = np.array([int(e) % (1 << 64) for e in elements.flat], "uint64")
        return wide.astype(dtype).reshape(elements.shape)
    return elements.astype(dtype)


def _broadcast_axis(value: Value, back: int) -> int | None:
    """The axis that counts `back` from the last, unless it is missing or of extent 1."""
    if back > value.ndim or literal(value.shape[-back]) == 1:
        return None
    return value.ndim - back


def _foldable(call: RelaxCall) -> bool:
    """Whether numpy can compute the result of a call, of a known size that is not too large."""
    info = call.struct_info
    if not isinstance(call.op, Op) or call.op.get_attr("FNumpy") is None:
        return False
    dims = info.get_shape() if isinstance(info, TensorStructInfo) else None
    if dims is None or not all(isinstance(d, IntImm) for d in dims):
        return False
    return prod(d.value for d in dims) <= _MOST_FOLDED


def _variables(bound: RelaxCall | None) -> list[RelaxVar]:
    """The variables that a binding's value reads."""
    parts = [bound]
    if isinstance(bound, RelaxCall):
        parts = list(bound.args)
    elif isinstance(bound, rx.TupleGetItem):
        parts = [bound.tuple_value]
    flat = [f for p in parts for f in (p.fields if isinstance(p, rx.Tuple) else [p])]
    return [f for f in flat if isinstance(f, RelaxVar)]


def in_float32(convert: Callable[..., Any]) -> Callable[..., Any]:
    """A converter that sums terms of its tensors: it computes in float32 where they are of a shorter float,
    because in float16 the square of 256 is already infinite. Its result is rounded once."""

    @wraps(convert)
    def run(cx: Context, *args: Any, **attributes: Any) -> Any:
        short = [a for a in args if isinstance(a, Value) and a.dtype.is_float and a.dtype.bits < 32]
        if not short:
            return convert(cx, *args, **attributes)
        wide = {id(a): cx.value(op.astype(a.expr, "float32")) for a in short}
        out = cx.emit(convert(cx, *(wide.get(id(a), a) for a in args), **attributes))
        return op.astype(out, short[0].dtype)

    return run


def not_negative(sizes: list[Any]) -> list[Any]:
    """The sizes. Raises ValueError where one is known to be below 0."""
    if any(isinstance(n, int) and n < 0 for n in sizes):
        raise ValueError(explain("a size may not be negative", got=", ".join(map(str, sizes))))
    return sizes


def size_of(dim: PrimExpr) -> int:
    """The number of nodes of an expression; 0 for a number."""
    if isinstance(dim, IntImm):
        return 0
    if isinstance(dim, TirVar):
        return 1
    count = 0

    def visit(_: object) -> None:
        nonlocal count
        count += 1

    post_order_visit(dim, visit)
    return 1 + count
