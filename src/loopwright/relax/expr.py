"""Graph expressions.

Every expression has `struct_info`, filled in by the normalizer (`BlockBuilder.normalize`) if the
constructor cannot infer it. A rebuilt node starts without it and must be normalized again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar, TypeAlias

import numpy as np

from ..base.errors import explain
from ..base.late import Slot, own_names
from ..base.span import Span
from ..ir.dtype import DataType, numpy_dtype
from ..ir.expr import Attrs, BaseExpr, DictAttrs, GlobalVar, RelaxExpr
from ..ir.function import BaseFunc, as_attrs
from ..ir.node import Node, as_tuple, define, field, ignore
from ..ir.op import Builders, Op
from ..ir.operators import TensorOperators
from ..ir.prim_expr import Call as PrimCall
from ..ir.prim_expr import PrimExpr, as_text
from ..ir.prim_op import convert
from ..runtime.tensor import Tensor, tensor
from ..runtime.weights import Weight
from . import struct_info as si
from .tensor_fields import TensorFields

# Relations are in a higher layer.
ERASE_TO_PARAMS: Slot[Callable[[Any, si.StructInfo], si.StructInfo]] = Slot("relax.erase_to_params")


def as_struct_info(info: object) -> Any:
    """A StructInfo unchanged, or from a TVMScript proxy (`R.Tensor((2, 3))` outside a script)."""
    to_info = getattr(info, "as_struct_info", None)
    return info if to_info is None else to_info()


def as_expr(value: Any) -> Any:
    """Tuples and lists as Tuple; strings, dtypes and numbers as their node; expressions
    unchanged."""
    if type(value) in RelaxExpr.__kinds__:
        return value
    if isinstance(value, (tuple, list)):
        return Tuple(value)
    if isinstance(value, DataType):
        return DataTypeImm(value)
    if isinstance(value, str):
        return StringImm(value)
    if isinstance(value, (int, float, PrimExpr)):
        return PrimValue(value)
    if not isinstance(value, Op):
        what = "this is not a Relax expression"
        hint = "give a Var, a call, a tuple, or relax.const(value)"
        raise TypeError(explain(what, got=f"{type(value).__name__}: {value!r}", instead=hint))
    return value


def as_seq(body: Expr) -> SeqExpr:
    """A SeqExpr around an expression; a SeqExpr unchanged."""
    if isinstance(body, SeqExpr):
        return body
    seq = SeqExpr((), body)
    seq._update_struct_info(as_expr(body).struct_info)
    return seq


def _as_exprs(values: Iterable[Any]) -> tuple[Any, ...]:
    return tuple(map(as_expr, values))


class Expr(TensorFields, TensorOperators, RelaxExpr):
    """Base class of Relax expressions. Python operators build Relax operators."""

    __slots__ = ()

    # Filled in by `ops/`, a higher layer: the builders of the operators used here.
    _build: ClassVar[dict[str, Any]] = Builders()

    @property
    def checked_type(self) -> Any:
        """TVM's older name for `struct_info`."""
        return self.struct_info

    @property
    def struct_info_(self) -> si.StructInfo | None:
        """TVM's name for `struct_info`, which here is also None where it is not known."""
        return self.struct_info

    def _update_struct_info(self, info: si.StructInfo | None) -> None:
        """Set the struct info that the normalizer inferred."""
        self.struct_info = info

    def with_struct_info(self, info: si.StructInfo | None) -> Any:
        """This expression, with its struct info set if it had none."""
        if self.struct_info is None:
            self._update_struct_info(info)
        return self

    def __neg__(self) -> Any:
        return self._build["negative"](self)

    def __matmul__(self, other: Expr) -> Any:
        return self._binary("matmul", self, other)

    def astype(self, dtype: str) -> Any:
        """Cast to `dtype`."""
        return self._build["astype"](self, dtype)

    def __call__(self, *args: Expr, attrs: dict[str, Any] | None = None) -> Call:
        return Call(self, args, attrs)

    def __getitem__(self, index: int) -> Any:
        if not isinstance(index, int):
            what = "an expression is indexed by a Python int (a tuple's field)"
            raise TypeError(explain(what, got=repr(index), instead="use R.strided_slice or R.take"))
        return TupleGetItem(self, index)

    def __iter__(self) -> Any:
        info = self.struct_info
        if not isinstance(info, si.TupleStructInfo):
            raise TypeError(explain("only a tuple of known length can be unpacked", got=str(info)))
        return iter([TupleGetItem(self, i) for i in range(len(info.fields))])

    def _binary(self, name: str, a: Expr | float, b: Expr | float) -> Any:
        return self._build[name](_literal_like(a, b), _literal_like(b, a))


ExprWithOp = Expr


def _literal_like(value: Expr | float, other: Any) -> Any:
    """A Python number as a constant of the other operand's dtype."""
    if isinstance(value, (int, float, np.ndarray, np.generic)):
        dtype = getattr(getattr(other, "struct_info", None), "dtype", None)
        typed = dtype is not None and not DataType(dtype).is_void
        return const(value, str(dtype) if typed else None)
    return value


class Id(Node):
    """A variable's identity; the variables of one binding share it."""

    name_hint: str = ignore(default="")
    bound_by_identity: ClassVar[bool] = True


class Var(Expr):
    """A variable of the graph. Each object is its own variable."""

    name_hint: str = ignore()
    struct_info_annotation: si.StructInfo | None = field(default=None)
    bound_by_identity: ClassVar[bool] = True
    __slots__ = ("_vid",)

    def __init__(
        self,
        name_hint: str | Id,
        struct_info: si.StructInfo | None = None,
        span: Span | None = None,
    ) -> None:
        name = name_hint.name_hint if isinstance(name_hint, Id) else name_hint
        self._set(name, as_struct_info(struct_info), span)
        if isinstance(name_hint, Id):
            self._vid = name_hint

    def _derive(self) -> None:
        self.struct_info = self.struct_info_annotation

    def _update_struct_info(self, info: si.StructInfo | None) -> None:
        self.struct_info = info
        self.struct_info_annotation = info

    @property
    def vid(self) -> Id:
        """The variable's identity."""
        try:
            return self._vid
        except AttributeError:
            vid = self._vid = Id(self.name_hint)
            return vid


class DataflowVar(Var, init=False):
    """A variable that is visible only inside its dataflow block."""

    __slots__ = ()


class Call(Expr):
    """A call of an operator, a function, a global function or an external one.

    `sinfo_args` describe the output if the callee does not (call_tir, packed functions).
    """

    op: Any
    args: tuple[Any, ...]
    attrs: Any = field(default=None)
    sinfo_args: tuple[si.StructInfo, ...] = field(default=())

    def __init__(
        self,
        op: Any,
        args: Any,
        attrs: Attrs | dict[str, Any] | None = None,
        sinfo_args: Sequence[si.StructInfo] | None = None,
        span: Span | None = None,
    ) -> None:
        if not isinstance(op, BaseExpr):
            what = "a call needs an operator or a function expression"
            hint = 'give Op.get("relax.add"), a GlobalVar or a Var; builders are called directly'
            raise TypeError(explain(what, got=f"{type(op).__name__}: {op!r}", instead=hint))
        callee_info = op.struct_info if isinstance(op, Expr) else None
        if not isinstance(callee_info, (si.FuncStructInfo, si.ObjectStructInfo, type(None))):
            raise ValueError(
                explain("only a function can be called", got=f"{op} with {callee_info}")
            )
        if isinstance(attrs, dict):
            attrs = as_attrs(attrs)
        infos = sinfo_args or ()
        infos = (infos,) if isinstance(infos, si.StructInfo) else tuple(infos)
        self._set(op, tuple(as_expr(a) for a in args), attrs, infos, span)


class If(Expr):
    """`true_branch` or `false_branch`, by a 0-d bool tensor."""

    cond: Expr
    true_branch: Any = field(converter=as_seq)
    false_branch: Any = field(converter=as_seq)

    def with_branches(self, true_branch: SeqExpr, false_branch: SeqExpr) -> If:
        """This if with other branches, whose struct info is the same."""
        if true_branch is self.true_branch and false_branch is self.false_branch:
            return self
        new = If._make(self.cond, true_branch, false_branch, span=self.span)
        new._update_struct_info(self.struct_info)
        return new


class Tuple(Expr):
    """A tuple of expressions."""

    fields: tuple[Any, ...] = field(converter=_as_exprs)

    def _derive(self) -> None:
        infos = [f.struct_info for f in self.fields]
        complete = all(i is not None for i in infos)
        self.struct_info = si.TupleStructInfo(infos) if complete else None

    def __len__(self) -> int:
        return len(self.fields)

    def __getitem__(self, index: int) -> Any:
        if isinstance(index, int):
            _check_field(index, len(self.fields))
            return self.fields[index]
        return super().__getitem__(index)


def _check_field(index: int, count: int) -> None:
    if not -count <= index < count:
        raise IndexError(explain("Tuple index out of range", got=f"{index} of {count} fields"))


class TupleGetItem(Expr):
    """A field of a tuple."""

    tuple_value: Expr
    index: int

    def __init__(self, tuple_value: Expr, index: int, span: Span | None = None) -> None:
        info = tuple_value.struct_info
        if isinstance(info, si.TupleStructInfo):
            _check_field(index, len(info.fields))
            index %= len(info.fields)
        self._set(tuple_value, index, span)

    def _derive(self) -> None:
        info = self.tuple_value.struct_info
        is_tuple = isinstance(info, si.TupleStructInfo)
        self.struct_info = info.fields[self.index] if is_tuple else None


class ShapeExpr(Expr):
    """A shape given by its dimensions."""

    values: tuple[PrimExpr, ...] = field(converter=si.shape_dims)

    def _derive(self) -> None:
        self.struct_info = si.ShapeStructInfo(self.values)

    def __getitem__(self, index: int) -> PrimExpr:
        if not -len(self.values) <= index < len(self.values):
            what = "ShapeExpr index out of range"
            raise IndexError(explain(what, got=f"{index} of {len(self.values)} dimensions"))
        return self.values[index]

    def __len__(self) -> int:
        return len(self.values)

    def __iter__(self) -> Any:
        return iter(self.values)


def make_shape(shape: Sequence[PrimExpr | int]) -> ShapeExpr:
    """A ShapeExpr from a list of dimensions."""
    if not isinstance(shape, (list, tuple)):
        raise TypeError(explain("a shape is a list of dimensions", got=repr(shape)))
    return ShapeExpr(shape)


class Constant(Expr):
    """A constant tensor; `data` is a `runtime.Tensor` whose memory is never written."""

    data: Tensor

    def __init__(
        self, data: Any, struct_info: si.StructInfo | None = None, span: Span | None = None
    ) -> None:
        self._set(data if isinstance(data, Tensor) else tensor(data), span)
        if struct_info is not None:
            self._update_struct_info(struct_info)

    def _derive(self) -> None:
        info = si.TensorStructInfo(self.data.shape, self.data.dtype)
        self.struct_info = info

    @property
    def is_weight(self) -> bool:
        """Whether its values are not known yet: see `relax.weights`."""
        return type(self.data) is Weight

    def structural_compare(self, other: Constant, comparer: Any, path: str, _: bool) -> None:
        """Compare dtype, shape and all bytes."""
        if self.data is not other.data and (self.is_weight or other.is_weight):
            comparer.compare(id(self.data), id(other.data), f"{path}.data", False)
        elif self.data is not other.data:
            a, b = self.data.numpy(), other.data.numpy()
            comparer.compare(a, b, f"{path}.data", False)
        comparer.compare(self.struct_info, other.struct_info, f"{path}.struct_info", False)

    def structural_hash(self, hasher: Any, _: bool) -> int:
        """Hash dtype, shape and the first bytes."""
        if self.is_weight:
            return hash((self.data.dtype, self.data.shape))
        array = self.data.numpy()
        head = np.ascontiguousarray(array).reshape(-1)[:64].tobytes()
        return hash((str(self.data.dtype), array.shape, head))


class PrimValue(Expr):
    """A scalar in the graph."""

    value: PrimExpr

    def __init__(self, value: Any, span: Span | None = None) -> None:
        dim = convert(value)
        if isinstance(value, int) and not isinstance(value, bool):
            dim = si.shape_dim(value)
        self._set(dim, span)

    def _derive(self) -> None:
        self.struct_info = si.PrimStructInfo(value=self.value)


class StringImm(Expr):
    """A string in the graph."""

    value: str

    def _derive(self) -> None:
        as_text("the value of R.str", self.value)
        self.struct_info = si.ObjectStructInfo()


class DataTypeImm(Expr):
    """A dtype in the graph."""

    value: DataType = field(converter=DataType)

    def _derive(self) -> None:
        self.struct_info = si.ObjectStructInfo()


class Binding(Node):
    """Base class of bindings: `var` refers to `value` from here on."""

    var: Var = define()
    value: Expr


class VarBinding(Binding):
    """`var = value`"""

    __slots__ = ()

    def structural_compare(self, other: VarBinding, comparer: Any, path: str, d: bool) -> None:
        """The value is compared first, since its difference says more than a difference of the struct
        info inferred from it; a function may name its own variable."""
        parts = ("var", "value") if isinstance(self.value, Function) else ("value", "var")
        for part in parts:
            own, its = getattr(self, part), getattr(other, part)
            comparer.compare(own, its, f"{path}.{part}", d or part == "var")


class MatchCast(Binding):
    """`var` is `value`, checked at run time against `struct_info`, which may define variables."""

    struct_info: si.StructInfo = define(converter=as_struct_info)

    def structural_compare(self, other: MatchCast, comparer: Any, path: str, d: bool) -> None:
        """The value is compared before the variables that the cast defines."""
        comparer.compare(self.value, other.value, f"{path}.value", d)
        comparer.compare(self.struct_info, other.struct_info, f"{path}.struct_info", True)
        comparer.compare(self.var, other.var, f"{path}.var", True)


class BindingBlock(Node):
    """A sequence of bindings; may have side effects."""

    bindings: tuple[Binding, ...] = field(converter=as_tuple)


class DataflowBlock(BindingBlock, init=False):
    """Bindings without side effects or control flow."""

    __slots__ = ()


class SeqExpr(Expr):
    """Blocks of bindings, then a result."""

    blocks: tuple[BindingBlock, ...] = field(converter=as_tuple)
    body: Expr = field(converter=as_expr)

    def _derive(self) -> None:
        self.struct_info = None


class Function(BaseFunc, Expr):
    """A graph function. Symbolic dimensions in the parameters' struct infos are defined there."""

    params: tuple[Var, ...] = define()
    body: SeqExpr
    ret_struct_info: si.StructInfo | None
    is_pure: bool = field(default=True)
    attrs: DictAttrs = field(default_factory=DictAttrs)

    def __init__(
        self,
        params: Sequence[Expr] | Mapping[Expr, None],
        body: Expr,
        ret_struct_info: si.StructInfo | None = None,
        is_pure: bool = True,
        attrs: DictAttrs | dict[str, Any] | None = None,
        span: Span | None = None,
    ) -> None:
        variables = tuple(params)
        ret_struct_info = as_struct_info(ret_struct_info)
        for param in variables:
            if not isinstance(param, Var):
                what = "a function's parameter is a relax.Var"
                raise TypeError(explain(what, got=type(param).__name__))
            if param.struct_info is None:
                what = f"parameter {param.name_hint} has no struct info"
                raise ValueError(explain(what, instead="give it one, e.g. R.Tensor((2, 3))"))
        if ret_struct_info is None and as_expr(body).struct_info is not None:
            # Outside the function only the parameters' symbols are known.
            ret_struct_info = ERASE_TO_PARAMS.get()(variables, as_expr(body).struct_info)
        self._set(variables, as_seq(body), ret_struct_info, bool(is_pure), as_attrs(attrs), span)

    def _derive(self) -> None:
        infos = [p.struct_info for p in self.params]
        ret = self.ret_struct_info if self.ret_struct_info is not None else si.ObjectStructInfo()
        self.struct_info = si.FuncStructInfo(infos, ret, self.is_pure)

    @staticmethod
    def create_empty(
        params: Sequence[Expr],
        ret_struct_info: si.StructInfo,
        is_pure: bool = True,
        attrs: dict[str, Any] | None = None,
        span: Span | None = None,
    ) -> Function:
        """A signature without a body (the parser declares functions before it reads them)."""
        body = SeqExpr((), Tuple(()))
        return Function._make(
            tuple(params), body, ret_struct_info, is_pure, as_attrs(attrs), span=span
        )


class ExternFunc(BaseFunc, Expr):
    """A function known by its name at run time."""

    global_symbol: str
    attrs: DictAttrs = ignore(default_factory=DictAttrs)

    def __init__(
        self, global_symbol: str, struct_info: si.StructInfo | None = None, span: Span | None = None
    ) -> None:
        self._set(str(global_symbol), DictAttrs(), span)
        if struct_info is not None:
            self._update_struct_info(as_struct_info(struct_info))

    def _derive(self) -> None:
        info = si.FuncStructInfo.opaque_func(ret=si.ObjectStructInfo())
        self.struct_info = info


def extern(name: str, struct_info: si.StructInfo | None = None, span: Span | None = None) -> Any:
    """The external function `name`."""
    return ExternFunc(name, struct_info, span)


_DEFAULT_DTYPES = {"float64": "float32", "int64": "int32"}


def const(value: object, dtype: str | None = None) -> Constant:
    """A constant from a number, a list, a numpy array or a Tensor.

    Python numbers and lists become bool, int32 or float32 unless `dtype` is given.
    """
    if isinstance(value, Tensor):
        return Constant(value if dtype in (None, value.dtype) else value.numpy().astype(dtype))
    array = np.asarray(value)
    if dtype is not None:
        array = array.astype(numpy_dtype(dtype))
    elif not isinstance(value, (np.ndarray, np.generic)):
        array = array.astype(_DEFAULT_DTYPES.get(array.dtype.name, array.dtype.name))
    return Constant(tensor(array, dtype=dtype))


def get_shape_of(expr: Expr) -> Expr:
    """The shape of a tensor expression: its ShapeExpr if known, else a call of shape_of."""
    info = expr.struct_info
    if isinstance(info, si.TensorStructInfo) and info.shape is not None:
        return info.shape
    return Call(Op.get("relax.shape_of"), [expr])


# The types that operators' builders accept as a tensor, a shape and a scalar.
TensorLike: TypeAlias = Expr | float | np.ndarray[Any, Any]
ShapeLike: TypeAlias = Expr | Sequence[int | PrimExpr]
PrimLike: TypeAlias = Expr | PrimExpr | float


def _call_global(self: GlobalVar, *args: Any) -> Any:
    """A call of a module's function: in TensorIR if the arguments are scalars, else in the
    graph that they are of."""
    if args and all(isinstance(a, (int, float, PrimExpr)) for a in args):
        return PrimCall("int32", self, args)
    of_graph = next((a.call_global for a in args if hasattr(a, "call_global")), Call)
    return of_graph(self, args)


GlobalVar.__call__ = _call_global


__all__ = own_names(globals(), type)
