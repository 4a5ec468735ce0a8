"""Relay's expressions: a graph of calls, functions, and variables bound by `let`.

An expression's type is `checked_type`, once `relay.transform.InferType` has found it. Expressions
may be shared (a graph, not a tree); what walks them does so without recursion: see `walk`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from ...base.errors import LoopwrightError, explain
from ...base.late import Slot
from ...base.span import Span
from ...ir.dtype import DataType, numpy_dtype
from ...ir.expr import Attrs, BaseExpr, DictAttrs, GlobalVar, RelaxExpr
from ...ir.function import BaseFunc, as_attrs
from ...ir.node import define, field, ignore
from ...ir.op import Builders
from ...ir.operators import TensorOperators
from ...relax.expr import Id as Id
from ...runtime.tensor import Tensor, tensor
from .types import TEXT, FuncType, TensorType, Type, TypeVar

if TYPE_CHECKING:
    from ...ir.module import IRModule

# The walks of graphs are in a higher file.
GRAPH: Slot[Any] = Slot("relay.graph")


def _expr(value: Expr | int) -> Any:
    if isinstance(value, TupleWrapper):
        return value.tuple_value
    if not isinstance(value, BaseExpr):
        what = "this is not a Relay expression"
        raise TypeError(explain(what, got=repr(value), instead="relay.const(value)"))
    return value


def _exprs(values: Iterable[Expr | int]) -> tuple[Any, ...]:
    return tuple(map(_expr, values))


class Expr(TensorOperators, RelaxExpr):
    """Base class of Relay's expressions. Python's operators build Relay's."""

    __slots__ = ()

    # Filled in by `relay.operators`: the builders of the operators used here.
    _build: ClassVar[dict[str, Any]] = Builders()

    @property
    def checked_type_(self) -> Any:
        """The type, None before it is inferred."""
        return self.struct_info

    @property
    def checked_type(self) -> Any:
        """The type. Raises ValueError before it is inferred."""
        if self.struct_info is None:
            what = "the type of this expression is not known yet"
            hint = "run relay.transform.InferType() on its module"
            raise ValueError(explain(what, instead=hint, span=self.span))
        return self.struct_info

    def script(self, **options: bool) -> str:
        """The text, as `astext`."""
        return self.astext(options.get("show_meta", True))

    def __repr__(self) -> str:
        try:
            return TEXT.get()(self, show_meta_data=False, header=False)
        except LoopwrightError as error:  # a repr may be requested while another error is raised
            return f"<{type(self).__name__} that cannot be printed: {error}>"

    __str__ = __repr__

    def structural_compare(self, other: Expr, comparer: Any, path: str, defining: bool) -> None:
        """As any node, but along the graph's edges without recursion."""
        GRAPH.get().compare(self, other, comparer, path)

    def structural_hash(self, hasher: Any, defining: bool) -> int:
        """As they compare."""
        return GRAPH.get().graph_hash(self, hasher)

    def astype(self, dtype: str) -> Any:
        """Cast to a dtype."""
        return self._build["cast"](self, dtype)

    def __neg__(self) -> Any:
        return self._build["negative"](self)

    def __call__(self, *args: Expr) -> Call:
        return Call(self, args)

    def _binary(self, name: str, a: Expr, b: Expr | int) -> Any:
        return self._build[name](_operand(a, b), _operand(b, a))

    def as_function(self) -> Function:
        """This expression as a function of its free variables; a function is itself."""
        if isinstance(self, Function):
            return self
        return Function(GRAPH.get().free_vars(self), self)

    @staticmethod
    def call_global(func: GlobalVar, args: Sequence[Expr]) -> Call:
        """A call of a module's function with such expressions."""
        return Call(func, args)


ExprWithOp = RelayExpr = Expr


def _operand(value: Expr | int, other: Expr | int) -> Any:
    """The other operand of an expression in Python's arithmetic: only expressions may be one."""
    if isinstance(value, Expr):
        return value
    if isinstance(value, (int, float, np.generic)) and not isinstance(value, bool):
        what = f"convert {value!r} with `relay.const` first"
        raise TypeError(explain(what, got=f"{type(value).__name__} and {type(other).__name__}"))
    raise TypeError(explain("type not supported next to a Relay expression", got=repr(value)))


class Constant(Expr):
    """A constant tensor."""

    data: Tensor

    def __init__(self, data: Any, span: Span | None = None) -> None:
        self._set(data if isinstance(data, Tensor) else tensor(data), span)

    def _derive(self) -> None:
        self.struct_info = TensorType(self.data.shape, self.data.dtype)

    def structural_compare(self, other: Constant, comparer: Any, path: str, defining: bool) -> None:
        """By dtype, shape and bytes."""
        if self.data is not other.data:
            comparer.compare(self.data.numpy(), other.data.numpy(), path + ".data", False)

    def structural_hash(self, hasher: Any, defining: bool) -> int:
        """By dtype, shape and the first bytes."""
        array = self.data.numpy()
        head = np.ascontiguousarray(array).reshape(-1)[:64].tobytes()
        return hash((str(self.data.dtype), array.shape, head))


class Tuple(Expr):
    """A tuple of values."""

    fields: tuple[Any, ...] = field(converter=_exprs)

    def __getitem__(self, index: int) -> Any:
        if not -len(self.fields) <= index < len(self.fields):
            raise IndexError(
                explain("Tuple index out of range", got=f"{index} of {len(self.fields)}")
            )
        return self.fields[index]

    def __len__(self) -> int:
        return len(self.fields)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.fields)

    def astype(self, dtype: str) -> Any:
        """A tuple has no dtype."""
        raise TypeError(explain("astype cannot be used on tuple", got=dtype))


class Var(Expr):
    """A local variable: a parameter, or bound by `let`. Each object is its own variable."""

    name_hint: str = ignore()
    type_annotation: Any = field(default=None)
    bound_by_identity: ClassVar[bool] = True
    structural_compare: ClassVar[Any] = None
    structural_hash: ClassVar[Any] = None
    __slots__ = ("_vid",)

    def __init__(
        self, name_hint: str | Id, type_annotation: Type | None = None, span: Span | None = None
    ) -> None:
        name = name_hint.name_hint if isinstance(name_hint, Id) else name_hint
        if not isinstance(name, str):
            raise TypeError(explain("a variable's name is a string", got=repr(name)))
        self._set(name, type_annotation, span)
        if isinstance(name_hint, Id):
            self._vid = name_hint

    @property
    def vid(self) -> Id:
        """The variable's identity."""
        vid = getattr(self, "_vid", None)
        if vid is None:
            vid = self._vid = Id(self.name_hint)
        return vid


class Call(Expr):
    """A call of an operator, of a function, of a constructor or of a function of the module."""

    op: Any
    args: tuple[Any, ...]
    attrs: Any = field(default=None)
    type_args: tuple[Any, ...] = field(default=())

    def __init__(
        self,
        op: Any,
        args: Sequence[Expr],
        attrs: Attrs | None = None,
        type_args: Any = None,
        span: Span | None = None,
    ) -> None:
        if not isinstance(op, BaseExpr):
            what = "a callee is an operator, a function, or an expression that returns one"
            raise TypeError(explain(what, got=repr(op), instead='relay.op.get("add")'))
        attrs = as_attrs(attrs) if isinstance(attrs, dict) else attrs
        self._set(op, _exprs(args), attrs, tuple(type_args or ()), span)


class Let(Expr):
    """The value of `body`, in which `var` is bound to `value`."""

    var: Var = define()
    value: Any
    body: Any

    def __init__(self, variable: Var, value: Expr, body: Expr, span: Span | None = None) -> None:
        if not isinstance(variable, Var):
            raise TypeError(explain("let binds a relay.Var", got=repr(variable)))
        self._set(variable, _expr(value), _expr(body), span)


class If(Expr):
    """`true_branch` or `false_branch`, by a bool without axes."""

    cond: Any = field(converter=_expr)
    true_branch: Any = field(converter=_expr)
    false_branch: Any = field(converter=_expr)


class TupleGetItem(Expr):
    """A field of a tuple."""

    tuple_value: Any = field(converter=_expr)
    index: int = field(converter=int)


class Function(Expr, BaseFunc):
    """A function of expressions; with `type_params`, a generic one."""

    type_params: tuple[Any, ...] = define()
    params: tuple[Var, ...] = define()
    body: Any
    ret_type: Any = field(default=None)
    attrs: DictAttrs = field(default_factory=DictAttrs)

    def __init__(
        self,
        params: Sequence[Expr],
        body: Expr,
        ret_type: Type | None = None,
        type_params: Sequence[TypeVar] | None = None,
        attrs: dict[str, Any] | DictAttrs | None = None,
        span: Span | None = None,
    ) -> None:
        params = tuple(params)
        for param in params:
            if not isinstance(param, Var):
                what = "a function's parameters are relay.Vars"
                raise TypeError(explain(what, got=repr(param)))
        self._set(tuple(type_params or ()), params, _expr(body), ret_type, as_attrs(attrs), span)

    @staticmethod
    def module_text(mod: IRModule, **options: bool | Callable[..., Any] | None) -> str:
        """The text of a module of such functions."""
        return TEXT.get()(mod, **{"header": options.get("show_meta_data", True), **options})

    def func_type_annotation(self) -> FuncType:
        """The type that the annotations say; what they leave out is incomplete."""
        return GRAPH.get().annotated_type(self)


class TempExpr(Expr):
    """An expression that replaces another while a pass runs: `realize()` returns the other."""

    def realize(self) -> Any:
        """The expression that it replaces."""
        raise NotImplementedError(f"{type(self).__name__} has no method realize(self)")


class TupleWrapper:
    """An expression of several results, to be indexed and unpacked: `a, b = relay.split(...)`."""

    def __init__(self, tuple_value: Expr, size: int) -> None:
        self.tuple_value = tuple_value
        self.size = size

    def astuple(self) -> Any:
        """The expression of all results."""
        return self.tuple_value

    def astext(self) -> str:
        """The text of the expression."""
        return self.tuple_value.astext()

    def __getitem__(self, index: int) -> TupleGetItem:
        if not -self.size <= index < self.size:
            raise IndexError(explain("Tuple index out of range", got=f"{index} of {self.size}"))
        return TupleGetItem(self.tuple_value, index % self.size)

    def __len__(self) -> int:
        return self.size

    def __iter__(self) -> Iterator[TupleGetItem]:
        return (self[i] for i in range(self.size))

    def __repr__(self) -> str:
        return f"TupleWrapper({self.tuple_value!r}, {self.size})"

    def astype(self, dtype: str) -> Any:
        """A tuple has no dtype."""
        raise TypeError(explain("astype cannot be used on tuple", got=dtype))


def var(
    name_hint: str,
    type_annotation: Type | str | None = None,
    shape: Sequence[Any] | None = None,
    dtype: str = "float32",
    span: Span | None = None,
) -> Var:
    """A variable, of a type or of a shape and dtype."""
    if type_annotation is not None and shape is not None:
        what = "Can only specify either type_annotation or shape."
        raise ValueError(explain(what, got=f"{type_annotation} and {shape}"))
    if shape is not None:
        type_annotation = TensorType(shape, dtype)
    elif isinstance(type_annotation, str):
        type_annotation = TensorType((), type_annotation)
    return Var(name_hint, type_annotation, span)


def const(
    value: Any, dtype: DataType | TensorType | str | None = None, span: Span | None = None
) -> Constant:
    """A constant of a number, a list, or an array, of a dtype or a type's. Without a dtype, Python's numbers and numpy's
    default types are 32 bits wide."""
    if isinstance(value, Tensor):
        return Constant(value, span)
    if isinstance(dtype, TensorType):
        dtype = dtype.dtype
    if not isinstance(value, (bool, int, float, list, tuple, np.ndarray, np.generic)):
        raise ValueError(explain("value has to be scalar or NDArray", got=repr(value)))
    array = np.array(value, dtype=None if dtype is None else numpy_dtype(dtype))
    if dtype is None:
        narrow = {np.dtype("float64"): "float32", np.dtype("int64"): "int32"}
        array = array.astype(narrow.get(array.dtype, array.dtype))
    return Constant(tensor(array), span)


def bind(expr: Expr | GlobalVar | None, binds: dict[Var, Any]) -> Any:
    """The expression with variables replaced; a function loses the parameters that are."""
    return GRAPH.get().bind(expr, binds)


def _with_fields(cls: type, names: Sequence[str] = (), **renamed: str) -> Callable[..., Any]:
    """`CallWithFields` and kin: a copy of a node with some fields changed. names: the fields in the
    order of the arguments, where it is another than theirs."""
    names = names or [f.name for f in cls.__fields__]
    order = [*names, "virtual_device", "span"]

    def with_fields(node: Expr, *args: Any, **changes: Any) -> Any:
        fields = {**dict(zip(order, args, strict=False)), **changes}
        fields = {renamed.get(k, k): v for k, v in fields.items() if v is not None}
        fields.pop("virtual_device", None)
        unknown: set[Any] = set(fields) - {*names, "span"}
        if unknown:
            what = f"{cls.__name__} has no field {sorted(unknown)}"
            raise TypeError(explain(what, instead=f"it has {names}"))
        for name, value in fields.items():
            if isinstance(value, list):
                fields[name] = tuple(value)
        if isinstance(fields.get("attrs"), dict):
            fields["attrs"] = as_attrs(fields["attrs"])
        new = node.replace(**fields)
        if new is not node and new.struct_info is None:
            new.struct_info = node.struct_info
        return new

    with_fields.__name__ = f"{cls.__name__}WithFields"
    with_fields.__doc__ = f"A {cls.__name__} with some fields changed."
    return with_fields


ConstantWithFields = _with_fields(Constant)
TupleWithFields = _with_fields(Tuple)
CallWithFields = _with_fields(Call)
LetWithFields = _with_fields(Let, variable="var")
IfWithFields = _with_fields(If)
TupleGetItemWithFields = _with_fields(TupleGetItem)
FunctionWithFields = _with_fields(
    Function, ("params", "body", "ret_type", "type_params", "attrs"), ty_params="type_params"
)


def VarWithFields(
    variable: Var,
    vid: Id | None = None,
    type_annotation: Type | None = None,
    virtual_device: Any = None,
    span: Span | None = None,
) -> Var:
    """A variable with some fields changed; the same one if nothing changes."""
    annotation = variable.type_annotation if type_annotation is None else type_annotation
    if (vid is None or vid is variable.vid) and annotation is variable.type_annotation:
        return variable.with_span(span)
    new = Var(variable.vid if vid is None else vid, annotation, span or variable.span)
    new.struct_info = variable.struct_info
    return new


__all__ = [
    "Call",
    "CallWithFields",
    "Constant",
    "ConstantWithFields",
    "Expr",
    "ExprWithOp",
    "Function",
    "FunctionWithFields",
    "GlobalVar",
    "If",
    "IfWithFields",
    "Let",
    "LetWithFields",
    "RelayExpr",
    "TempExpr",
    "Tuple",
    "TupleGetItem",
    "TupleGetItemWithFields",
    "TupleWithFields",
    "TupleWrapper",
    "Var",
    "VarWithFields",
    "bind",
    "const",
    "var",
]
