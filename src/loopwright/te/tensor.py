"""Tensors and the operations that define them.

A tensor is described by its operation: a placeholder, a compute (one expression per element), or
an extern (statements). Tensors and operations are compared by identity and
have no node fields: visiting an expression stops at the tensors it reads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from ..base.errors import CallValueError, explain
from ..ir.dtype import DataType
from ..ir.functor import pre_order_visit, rewrite
from ..ir.node import Node
from ..ir.op import Builders
from ..ir.operators import TensorOperators, operator
from ..ir.prim_expr import IterVar, PrimExpr
from ..ir.prim_op import convert
from ..ir.serialize import register_codec
from ..tir.buffer import Buffer, DataProducer
from ..tir.expr import ProducerLoad, Reduce
from ..tir.stmt import Stmt

if TYPE_CHECKING:
    from .prim_func import Builder


class Operators(TensorOperators):
    """Python operators on tensors and partial slices; `ops/` fills the table `_build`
    (add, subtract, multiply, divide, floor_divide, mod, power, negative, equal, ...)."""

    __slots__ = ()
    _build: ClassVar[dict[str, Callable[..., Any]]] = Builders()

    def _binary(self, name: str, a: Any, b: Any) -> Any:
        build = Operators._build.get(name)
        if build is None:
            what = f"whole tensors have no operator {name} here"
            raise TypeError(explain(what, instead="use te.compute on elements, or import topi"))
        return build(a, b)

    def __neg__(self) -> Any:
        return self._binary("multiply", self, -1)

    def astype(self, dtype: str) -> Any:
        """The elements as another type."""
        return self._binary("astype", self, dtype)

    __lshift__, _ = operator("left_shift")
    __rshift__, _ = operator("right_shift")
    __and__, _ = operator("bitwise_and")
    __or__, _ = operator("bitwise_or")
    __xor__, _ = operator("bitwise_xor")


class TensorSlice:
    """`A[i]` of a tensor of higher rank, to be indexed further: `A[i][j]`."""

    __slots__ = ("indices", "tensor")

    def __init__(self, tensor: Tensor, indices: tuple[Any, ...]) -> None:
        self.tensor = tensor
        self.indices = tuple(indices)

    def __getitem__(self, indices: int | Sequence[int]) -> Any:
        more = indices if isinstance(indices, tuple) else (indices,)
        return self.tensor[(*self.indices, *more)]

    def asobject(self) -> PrimExpr:
        """The element at the given indices."""
        return self.tensor(*self.indices)

    @property
    def dtype(self) -> DataType:
        """Type of an element."""
        return self.tensor.dtype


class Tensor(DataProducer, Operators):
    """Output `value_index` of an operation: `shape`, `dtype`, and the defining operation `op`.

    `A[i, j]` and `A(i, j)` read an element; `A[i]` of a matrix is a slice to index further.
    """

    __slots__ = ("_dtype", "_op", "_shape", "_value_index")
    bound_by_identity: ClassVar[bool] = True

    def asobject(self) -> Any:
        """The value of the tensor in an expression: its element, if it has no axes."""
        return self if self._shape else self()

    def __init__(
        self, shape: Sequence[PrimExpr], dtype: str, op: Operation, value_index: int = 0
    ) -> None:
        self._shape = tuple(convert(s) for s in shape)
        self._dtype = DataType(dtype)
        self._op = op
        self._value_index = value_index
        self.span = None

    @property
    def shape(self) -> tuple[PrimExpr, ...]:
        """The extents of the axes."""
        return self._shape

    @property
    def dtype(self) -> DataType:
        """Type of an element."""
        return self._dtype

    @property
    def op(self) -> Operation:
        """The operation that defines this tensor."""
        return self._op

    @property
    def value_index(self) -> int:
        """The index of this output of `op`."""
        return self._value_index

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self._shape)

    @property
    def axis(self) -> tuple[IterVar, ...]:
        """The operation's axes."""
        return self.op.axis

    @property
    def name(self) -> str:
        """The operation's name; of several outputs, with `_v` and the number."""
        return self.op.name if self.op.num_outputs == 1 else f"{self.op.name}_v{self.value_index}"

    def __call__(self, *indices: Any) -> PrimExpr:
        if len(indices) != len(self._shape):
            what = f"tensor {self.name} has {len(self._shape)} dimensions"
            hint = "index every axis"
            raise ValueError(explain(what, got=f"{len(indices)} indices", instead=hint))
        return ProducerLoad(self, indices)

    def __getitem__(self, indices: PrimExpr | Sequence[Any]) -> Any:
        points = indices if isinstance(indices, tuple) else (indices,)
        if len(points) < len(self._shape) or any(isinstance(p, slice) for p in points):
            return TensorSlice(self, points)
        return self(*points)

    def __iter__(self) -> Iterator[Any]:
        raise TypeError(explain("a tensor is not a sequence", instead="use te.compute"))

    def __hash__(self) -> int:
        return id(self) >> 4

    def __repr__(self) -> str:
        dims = ", ".join(str(s) for s in self._shape)
        return f"Tensor(shape=[{dims}], op.name={self.op.name})"

    __str__ = __repr__


class Operation(Node):
    """Base class of operations. `name`, `tag` and `attrs` describe it; `output(i)` is a result."""

    __slots__ = ("_outputs", "attrs", "name", "tag")
    bound_by_identity: ClassVar[bool] = True
    scope_tag: ClassVar[str | None] = None  # the tag of operations without one (te.tag_scope)
    inlines: ClassVar[bool] = False  # whether the elements that it reads can be expressions

    def __init__(self, name: str, tag: str = "", attrs: dict[str, Any] | None = None) -> None:
        self.name = name
        self.tag = tag
        self.attrs = dict(attrs or {})
        self.span = None
        self._outputs: tuple[Tensor, ...] = ()

    def output(self, index: int) -> Tensor:
        """Result `index`."""
        return self._outputs[index]

    @property
    def num_outputs(self) -> int:
        """Number of results."""
        return len(self._outputs)

    @property
    def input_tensors(self) -> tuple[Tensor, ...]:
        """The tensors it reads, in order of first use."""
        return ()

    @property
    def computed_before(self) -> tuple[Tensor, ...]:
        """The tensors that must be computed before it."""
        return self.input_tensors

    @property
    def axis(self) -> tuple[IterVar, ...]:
        """Axes over the elements of its results."""
        return ()

    @property
    def reduce_axis(self) -> tuple[IterVar, ...]:
        """Axes of its reduction."""
        return ()

    @property
    def root_iter_vars(self) -> tuple[IterVar, ...]:
        """The loops of a stage before any step."""
        return (*self.axis, *self.reduce_axis)

    def replace_inputs(self, table: Mapping[Tensor, Tensor]) -> Operation:
        """The operation that reads other tensors in place of those in the table."""
        return self

    def blocks(self, builder: Builder) -> Stmt:
        """Its TensorIR, in the function that `create_prim_func` builds. Raises TypeError for an
        operation that has none."""
        what = "create_prim_func knows placeholder, compute, scan and extern"
        raise TypeError(explain(what, got=type(self).__name__))

    def with_body(self, change: Callable[[Any], Any]) -> Operation:
        """The operation with changed elements or statements."""
        raise TypeError(explain(f"{self.name} has no elements to change", got=str(self)))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name})"

    __str__ = __repr__


class PlaceholderOp(Operation):
    """An input tensor."""

    def __init__(self, name: str, shape: Sequence[PrimExpr], dtype: str) -> None:
        super().__init__(name)
        self._outputs = (Tensor(shape, dtype, self),)

    @property
    def shape(self) -> tuple[PrimExpr, ...]:
        """The extents of the axes."""
        return self.output(0).shape

    @property
    def dtype(self) -> DataType:
        """Type of an element."""
        return self.output(0).dtype


class BaseComputeOp(Operation):
    """Base class of operations with one expression per element."""


class BodyOperation:
    """An operation that a function of `compute` may return in place of an expression: it defines
    the whole compute."""

    def operation(
        self, name: str, tag: str, axis: Sequence[IterVar], rest: Sequence[IterVar]
    ) -> Operation:
        """The operation. axis: those that the function got; rest: those of the other dimensions."""
        raise NotImplementedError


class ComputeOp(BaseComputeOp):
    """Each element at `axis` is `body[n]`, one expression for each result.

    Raises ValueError if a reduction is not the whole body.
    """

    __slots__ = ("_axis", "body")
    inlines: ClassVar[bool] = True

    def __init__(
        self,
        name: str,
        tag: str,
        attrs: Mapping[str, Any] | None,
        axis: Sequence[IterVar],
        body: Sequence[PrimExpr],
    ) -> None:
        super().__init__(name, tag, attrs)
        self._axis: tuple[IterVar, ...] = tuple(axis)
        self.body: tuple[PrimExpr, ...] = tuple(body)
        _check_reductions(name, self.body)
        dims = [a.dom.extent for a in self._axis]
        self._outputs = tuple(Tensor(dims, e.dtype, self, n) for n, e in enumerate(self.body))

    @property
    def axis(self) -> tuple[IterVar, ...]:
        return self._axis

    @property
    def reduce_axis(self) -> tuple[IterVar, ...]:
        return self.body[0].axis if isinstance(self.body[0], Reduce) else ()

    @property
    def input_tensors(self) -> tuple[Tensor, ...]:
        read: list[Any] = [load.producer for load in self.loads()]
        return tuple(dict.fromkeys(t for t in read if isinstance(t, Tensor)))

    def loads(self) -> list[ProducerLoad]:
        """The elements that are read, in order of occurrence."""
        reads: list[ProducerLoad] = []

        def visit(node: Any) -> None:
            if isinstance(node, ProducerLoad):
                reads.append(node)

        for expr in self.body:
            pre_order_visit(expr, visit)
        return reads

    def replace_inputs(self, table: Mapping[Tensor, Tensor]) -> Operation:
        if not any(t in table for t in self.input_tensors):
            return self
        return self.with_body(lambda e: replace_tensors(e, table))

    def with_body(self, change: Callable[[PrimExpr], PrimExpr]) -> ComputeOp:
        """The operation with changed elements; the axes are the same."""
        first = self.body[0]
        if isinstance(first, Reduce):  # all results share one reduction
            new: Any = change(first)
            body = [new.replace(value_index=n) for n in range(len(self.body))]
        else:
            body = [change(e) for e in self.body]
        return ComputeOp(self.name, self.tag, self.attrs, self._axis, body)


def replace_tensors(node: PrimExpr | Stmt, table: Mapping[Any, Tensor]) -> Any:
    """An expression or a statement that reads other tensors in place of those in the table."""

    def post(part: Node) -> Any:
        if isinstance(part, ProducerLoad) and part.producer in table:
            new: Any = table[part.producer]
            return ProducerLoad._make(new, part.indices, span=part.span)
        return None

    return rewrite(node, post)


def _check_reductions(name: str, body: tuple[PrimExpr, ...]) -> None:
    first = body[0]
    whole = isinstance(first, Reduce)
    for n, expr in enumerate(body):
        if whole:
            fits = (
                isinstance(expr, Reduce)
                and expr.combiner is first.combiner
                and expr.source is first.source
                and expr.value_index == n
            )
            if not fits:
                what = f"compute {name}: all results come from one reduction, or none does"
                raise CallValueError(explain(what, got=type(expr).__name__))
        inner = expr.source if isinstance(expr, Reduce) else (expr,)
        for part in inner:
            pre_order_visit(part, lambda node: _refuse_reduce(name, node))


def _refuse_reduce(name: str, node: Node) -> None:
    if isinstance(node, Reduce):
        what = f"Reductions are only allowed at the top level of compute (here: {name})"
        hint = "make another tensor of the reduction, then compute with it"
        raise CallValueError(explain(what, got="a reduction inside an expression", instead=hint))


class ExternOp(Operation):
    """Results of statements that access the inputs and outputs as buffers."""

    __slots__ = ("body", "input_placeholders", "inputs", "output_placeholders")

    def __init__(
        self, name: str, tag: str, attrs: dict[Any, Any] | None, inputs: Sequence[Tensor],
        input_placeholders: Sequence[Buffer], output_placeholders: Sequence[Buffer], body: Stmt,
    ) -> None:  # fmt: skip
        super().__init__(name, tag, attrs)
        self.inputs: tuple[Tensor, ...] = tuple(inputs)
        self.input_placeholders: tuple[Buffer, ...] = tuple(input_placeholders)
        self.output_placeholders: tuple[Buffer, ...] = tuple(output_placeholders)
        self.body = body
        self._outputs = tuple(
            Tensor(b.shape, b.dtype, self, n) for n, b in enumerate(self.output_placeholders)
        )

    @property
    def input_tensors(self) -> tuple[Tensor, ...]:
        return self.inputs

    def replace_inputs(self, table: Mapping[Tensor, Tensor]) -> Operation:
        if not any(t in table for t in self.inputs):
            return self
        inputs = [table.get(t, t) for t in self.inputs]
        views = (self.input_placeholders, self.output_placeholders)
        return ExternOp(self.name, self.tag, self.attrs, inputs, *views, self.body)


def _reduced(op: ComputeOp) -> list[Any]:
    body = op.body[:1] if isinstance(op.body[0], Reduce) else op.body
    return [op.name, op.tag, op.attrs, op.axis, body, len(op.body)]


def _compute(parts: list[Any]) -> ComputeOp:
    *rest, body, count = parts
    if len(body) < count:  # all results share one reduction
        body = [body[0].replace(value_index=n) for n in range(count)]
    return ComputeOp(*rest, body)


register_codec(Tensor, "te.tensor", lambda t: [t.op, t.value_index], lambda p: p[0].output(p[1]))
register_codec(
    PlaceholderOp,
    "te.placeholder",
    lambda op: [op.name, op.shape, op.dtype],
    lambda parts: PlaceholderOp(*parts),
)
register_codec(ComputeOp, "te.compute", _reduced, _compute)
register_codec(
    ExternOp,
    "te.extern",
    lambda op: [op.name, op.tag, op.attrs, op.inputs, op.input_placeholders,
                op.output_placeholders, op.body],
    lambda parts: ExternOp(*parts),
)  # fmt: skip
