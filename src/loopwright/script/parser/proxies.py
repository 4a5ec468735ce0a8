"""Struct infos as scripts write them: `R.Tensor(("n", 784), "float32")`."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any

from ...base.errors import explain
from ...ir.dtype import DataType
from ...ir.module import VDevice
from ...ir.prim_expr import PrimExpr
from ...ir.prim_expr import Var as TirVar
from ...relax import struct_info as si
from ...relax.expr import Expr, PrimValue, ShapeExpr, Tuple
from .. import ir as I
from . import closed
from .core import active_parser
from .evaluator import Evaluator
from .scope import Scope
from .source import Source


class StructInfoProxy:
    """A struct info as written in a script, whose dimensions may be strings ("n", "n * 2").

    It becomes a StructInfo where the names are known: in the parser, or by `as_struct_info`.
    """

    def as_struct_info(self, dict_globals: dict[str, Any] | None = None) -> si.StructInfo:
        """The struct info; names are looked up in `dict_globals`, else in the script that is
        being read, else they are fresh variables."""
        return self.build(Dims(dict_globals))

    def asobject(self) -> si.StructInfo:
        """The struct info, where one is compared or given to a node."""
        return self.as_struct_info()

    def build(self, dims: Dims) -> si.StructInfo:
        raise NotImplementedError

    def get_symbolic_vars(self) -> set[str]:
        """Names of the variables that a parameter of this struct info defines."""
        return set()


class Dims:
    """Evaluates dimensions that are written as strings."""

    def __init__(self, names: dict[str, Any] | None) -> None:
        self.names = names
        self.fresh: dict[str, Any] = {}

    def __call__(self, dim: PrimExpr | str | int) -> Any:
        if not isinstance(dim, str):
            return dim
        tree = ast.parse(dim.strip(), mode="eval").body
        used = [node.id for node in ast.walk(tree) if isinstance(node, ast.Name)]
        scope, parser = self.names, active_parser()
        if scope is None:
            scope = {} if parser is None else parser.scope.names
            if parser is not None:
                _check_defined(used, scope)
        for name in used:
            if name not in scope and name not in self.fresh:
                self.fresh[name] = TirVar(name, "int64")
        evaluator = Evaluator()
        evaluator.source = Source("<dimension>", [dim.strip()])
        evaluator.scope = Scope(scope, self.fresh)
        evaluator.scope.builtins = closed.BUILTINS
        rules = None if parser is None else parser.rules
        evaluator.rules = closed.Rules(len(dim)) if rules is None else rules
        return evaluator.eval(tree)


def _check_defined(used: list[str], scope: dict[str, Any]) -> None:
    for name in used:
        if name not in scope:
            what = f"undefined symbolic variable {name!r}"
            hint = f'define it: {name} = T.int64(), or give a parameter the dimension "{name}"'
            raise NameError(explain(what, instead=hint))


def _names_in(dims: Any) -> set[str]:
    return {d.strip() for d in dims or () if isinstance(d, str) and d.strip().isidentifier()}


def _proxy(value: Any) -> Any:
    """A struct info from a proxy class or function written without parentheses (`R.Tensor`)."""
    return value() if callable(value) and not isinstance(value, (StructInfoProxy, Expr)) else value


def _build(value: Any, dims: Dims) -> si.StructInfo:
    proxy = _proxy(value)
    if isinstance(proxy, StructInfoProxy):
        return proxy.build(dims)
    if isinstance(proxy, si.StructInfo):
        return proxy
    if isinstance(proxy, PrimExpr):
        return si.PrimStructInfo(dtype=proxy.dtype)
    if proxy is None or proxy == ():
        return si.TupleStructInfo([])
    what = "a struct info is expected"
    hint = "write R.Tensor((2, 3)), R.Shape, R.Prim, R.Tuple, R.Callable or R.Object"
    raise TypeError(explain(what, got=f"{proxy!r} of type {type(proxy).__name__}", instead=hint))


class ObjectProxy(StructInfoProxy):
    """`R.Object`"""

    def build(self, dims: Dims) -> si.StructInfo:
        return si.ObjectStructInfo()


_MOST_AXES = 1_000  # so that a short program as text cannot create a shape of any rank


class TensorProxy(StructInfoProxy):
    """`R.Tensor(shape, dtype, vdevice, ndim)`"""

    def __init__(
        self,
        shape: object = None,
        dtype: DataType | str | None = None,
        vdevice: Any = None,
        ndim: int = -1,
    ) -> None:
        if isinstance(shape, str) and dtype is None:  # R.Tensor("float32")
            shape, dtype = None, shape
        if not (shape is None or isinstance(shape, (list, tuple, Expr))):
            what = "the shape of R.Tensor is a list, a tuple or an expression"
            raise ValueError(explain(what, got=f"{shape!r} of type {type(shape).__name__}"))
        if isinstance(shape, (list, tuple)):
            if ndim not in (-1, len(shape)):
                what = "R.Tensor: ndim is not the rank of the shape"
                raise ValueError(explain(what, got=f"ndim {ndim} for {len(shape)} dimensions"))
            for dim in shape:
                _check_dim(dim)
        if not isinstance(ndim, int) or not -1 <= ndim <= _MOST_AXES:
            raise ValueError(explain("ndim of R.Tensor is a rank, or -1", got=repr(ndim)))
        if dtype is not None:
            DataType(dtype)
        if not (vdevice is None or isinstance(vdevice, (str, VDevice))):
            what = 'vdevice of R.Tensor is a name such as "llvm:0", or an I.vdevice'
            raise TypeError(explain(what, got=repr(vdevice)))
        self.shape, self.dtype, self.vdevice, self.ndim = shape, dtype, vdevice, ndim

    def get_symbolic_vars(self) -> set[str]:
        return _names_in(self.shape) if isinstance(self.shape, (list, tuple)) else set()

    def build(self, dims: Dims) -> si.StructInfo:
        shape = self.shape
        if isinstance(shape, (list, tuple)):
            shape = ShapeExpr([integer_dim(dims(d)) for d in shape])
        return si.TensorStructInfo(shape, self.dtype or "void", vdevice(self.vdevice), self.ndim)


def vdevice(value: Any) -> Any:
    """A vdevice, which may be named by target and index: "llvm:0"."""
    if not isinstance(value, str):
        return value
    kind, _, index = value.partition(":")
    return I.lookup_vdevice(kind, int(index) if index else -1)


def _check_dim(dim: PrimExpr | str | int) -> None:
    if isinstance(dim, bool) or not isinstance(dim, (int, str, PrimExpr)):
        what = "a dimension is an int, a string or a scalar expression"
        raise TypeError(explain(what, got=f"{dim!r} of type {type(dim).__name__}"))


def integer_dim(dim: PrimExpr | int) -> Any:
    _check_dim(dim)
    if isinstance(dim, PrimExpr) and not (dim.dtype.is_int or dim.dtype.is_uint):
        what = "a dimension is an integer expression"
        raise TypeError(explain(what, got=f"{dim} of dtype {dim.dtype}"))
    return dim


class ShapeProxy(StructInfoProxy):
    """`R.Shape(values, ndim)`"""

    def __init__(self, values: int | Sequence[Any] | None = None, ndim: int = -1) -> None:
        if values is not None and not isinstance(values, (list, tuple)):
            what = "the values of R.Shape are a list"
            raise TypeError(explain(what, got=repr(values), instead="write R.Shape([n, 4])"))
        self.values, self.ndim = values, ndim

    def get_symbolic_vars(self) -> set[str]:
        return _names_in(self.values)

    def build(self, dims: Dims) -> si.StructInfo:
        values = None if self.values is None else [integer_dim(dims(v)) for v in self.values]
        return si.ShapeStructInfo(values, self.ndim)


class PrimProxy(StructInfoProxy):
    """`R.Prim(dtype)`, `R.Prim(value=n)`"""

    def __init__(
        self, dtype: DataType | str | None = None, value: PrimExpr | str | int | None = None
    ) -> None:
        if dtype is None and value is None:
            what = "R.Prim needs a dtype or a value"
            raise TypeError(explain(what, instead='write R.Prim("int64") or R.Prim(value=n)'))
        if dtype is not None and value is not None:
            what = "R.Prim takes a dtype or a value, not both"
            raise TypeError(explain(what, instead="the value has its dtype"))
        if dtype is not None:
            DataType(dtype)
        self.dtype, self.value = dtype, value

    def get_symbolic_vars(self) -> set[str]:
        return _names_in([self.value])

    def build(self, dims: Dims) -> si.StructInfo:
        if self.value is None:
            return si.PrimStructInfo(dtype=self.dtype)
        value = dims(self.value)
        return si.PrimStructInfo(value=PrimValue(value).value if isinstance(value, int) else value)


class TupleProxy(StructInfoProxy):
    """`R.Tuple(field, ...)`"""

    def __init__(self, *fields: StructInfoProxy | Sequence[Any]) -> None:
        if len(fields) == 1 and isinstance(fields[0], (list, tuple)):
            fields = tuple(fields[0])
        self.fields = [_proxy(f) for f in fields]

    def get_symbolic_vars(self) -> set[str]:
        return _all_names(self.fields)

    def build(self, dims: Dims) -> si.StructInfo:
        return si.TupleStructInfo([_build(f, dims) for f in self.fields])


class CallableProxy(StructInfoProxy):
    """`R.Callable(params, ret, purity)`"""

    def __init__(
        self,
        params: Sequence[StructInfoProxy | type[TensorProxy]] | None = None,
        ret: StructInfoProxy | None = None,
        purity: bool | None = None,
        derive_func: Any = None,
    ) -> None:
        many = params is None or isinstance(params, (list, tuple))
        self.params = params if many else [params]
        self.ret, self.purity, self.derive_func = ret, purity, derive_func
        if self.params is not None and ret is None:
            what = "R.Callable with parameters needs the struct info of its result"
            raise ValueError(explain(what, instead="R.Callable((R.Tensor,), R.Tensor)"))

    def get_symbolic_vars(self) -> set[str]:
        return set() if self.params is None else _all_names([*self.params, self.ret])

    def build(self, dims: Dims) -> si.StructInfo:
        ret = None if self.ret is None else _build(self.ret, dims)
        if self.params is None:
            pure = False if self.purity is None else self.purity
            return si.FuncStructInfo.opaque_func(ret=ret, derive_func=self.derive_func, purity=pure)
        params = [_build(p, dims) for p in self.params]
        assert ret is not None
        return si.FuncStructInfo(params, ret, True if self.purity is None else self.purity)


def _all_names(values: list[Any]) -> set[str]:
    proxies = [_proxy(v) for v in values]
    return set().union(*(v.get_symbolic_vars() for v in proxies if isinstance(v, StructInfoProxy)))


def PackedFunc() -> StructInfoProxy:
    """Any function that is called by the packed convention."""
    return CallableProxy()


def as_info(value: Any) -> si.StructInfo:
    """The struct info of an annotation (a proxy, a struct info, or `R.Tensor` itself)."""
    return _build(value, Dims(None))


class MatchCastPair:
    """`R.match_cast(value, struct_info)`: becomes a binding when it is assigned."""

    def __init__(self, value: Any, struct_info: si.StructInfo) -> None:
        self.value = value
        self.struct_info = struct_info


def match_cast(value: Expr, struct_info: StructInfoProxy) -> MatchCastPair:
    """`value`, checked at run time against `struct_info`, whose new variables it defines."""
    if struct_info is None or value is None:
        raise ValueError(explain("R.match_cast takes a value and a struct info"))
    return MatchCastPair(value, as_info(struct_info))


def make_tuple(fields: tuple[Any, ...]) -> Tuple:
    """A graph tuple from the arguments of `R.tuple`."""
    if len(fields) == 1 and isinstance(fields[0], (list, tuple)):
        fields = tuple(fields[0])
    return Tuple(fields)


def make_shape(value: Expr | Sequence[PrimExpr | int]) -> ShapeExpr:
    """A shape from a list of dimensions, which may be strings."""
    if isinstance(value, ShapeExpr):
        return value
    dims = Dims(None)
    return ShapeExpr([integer_dim(dims(v)) for v in value])
