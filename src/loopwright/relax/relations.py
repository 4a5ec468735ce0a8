"""Relations between struct infos: subsumption, least common ancestor, erasure of variables
unknown outside a scope, and the result of a call."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from enum import IntEnum
from typing import Any

from ..arith import Analyzer
from ..base.errors import CallValueError, explain
from ..ir import variables
from ..ir.function import BaseFunc
from ..ir.node import Node
from ..ir.prim_expr import IntImm, PrimExpr, PrimType, Var
from ..ir.prim_op import cast, convert
from ..ir.structural import structural_equal
from ..ir.variables import vars_in
from ..runtime.packed_func import get_global_func
from ..tir.analysis import is_pure_function
from ..tir.function import PrimFunc
from . import struct_info as si
from . import types
from .expr import Call, Expr, ShapeExpr
from .expr import Var as RelaxVar

Dims = tuple[PrimExpr, ...]


class BaseCheckResult(IntEnum):
    """How well `base` covers `derived`, worst first.

    FAIL_L0: never; FAIL_L1: their kinds, dtypes or ranks may differ; FAIL_L2: only their
    symbolic values may differ (a match_cast checks them); PASS: always.
    """

    FAIL_L0 = 0
    FAIL_L1 = 1
    FAIL_L2 = 2
    PASS = 3


_L0, _L1, _L2, _PASS = BaseCheckResult


# ---------------------------------------------------------------- symbolic values


class Substitute(variables.Substitute):
    """Replaces scalar variables in expressions and struct infos by values of their type and folds
    literals."""

    def visit_Var(self, var: Var | RelaxVar) -> Any:
        value = self.table.get(var)
        if value is None:
            return var
        if isinstance(var, Var) and isinstance(value, PrimExpr):
            return cast(var.dtype, value)
        return value


def substitute(value: PrimExpr, table: dict[Any, Any]) -> Any:
    """`value` (an expression, a struct info or a list of them) with variables replaced."""
    return Substitute(table).visit(value) if table else value


def can_prove_equal(a: PrimExpr, b: PrimExpr, analyzer: Analyzer | None = None) -> bool:
    """Whether two dimensions are equal for all values of their variables."""
    if a is b:
        return True
    if isinstance(a, IntImm) and isinstance(b, IntImm):
        return a.value == b.value
    if structural_equal(a, b):
        return True
    if isinstance(a, (Var, IntImm)) and isinstance(b, (Var, IntImm)):
        return False
    return bool((analyzer or Analyzer()).can_prove_equal(a, b))


def can_prove_shape_equal(
    lhs: Any, rhs: Expr | Sequence[PrimExpr] | None, analyzer: Analyzer | None = None
) -> bool:
    """Whether two shapes (ShapeExpr, shape variables or lists of dimensions) are provably equal."""
    if lhs is rhs:
        return True
    a, b = _dims_of(lhs), _dims_of(rhs)
    if a is None or b is None or len(a) != len(b):
        return False
    return all(can_prove_equal(x, y, analyzer) for x, y in zip(a, b, strict=True))


def _dims_of(shape: Expr | si.ShapeStructInfo | Sequence[PrimExpr] | None) -> Dims | None:
    if shape is None or isinstance(shape, (list, tuple)):
        return shape if shape is None else tuple(shape)
    if isinstance(shape, (ShapeExpr, si.ShapeStructInfo)):
        return shape.values
    info = getattr(shape, "struct_info", None)
    return info.values if isinstance(info, si.ShapeStructInfo) else None


# ---------------------------------------------------------------- does `base` cover `derived`


def struct_info_base_check(
    base: si.StructInfo, derived: si.StructInfo, analyzer: Analyzer | None = None
) -> BaseCheckResult:
    """How well `base` covers every value that `derived` describes."""
    return _Checker(None, analyzer).check(base, derived)


class _Checker:
    """`table`, if given, is filled with the values that the base's variables have in `derived`."""

    def __init__(self, table: dict[Any, Any] | None, analyzer: Analyzer | None) -> None:
        self.table = table
        self.analyzer = analyzer

    def check(self, base: si.StructInfo, derived: si.StructInfo) -> BaseCheckResult:
        if base is derived and self.table is None:
            return _PASS
        if isinstance(base, si.ObjectStructInfo):
            return _PASS
        if type(base) is not type(derived):
            return _L1 if isinstance(derived, si.ObjectStructInfo) else _L0
        return _CHECKS[type(base)](self, base, derived)

    def dims(self, base: Sequence[PrimExpr], derived: Sequence[PrimExpr]) -> BaseCheckResult:
        return min((self.value(a, b) for a, b in zip(base, derived, strict=True)), default=_PASS)

    def value(self, base: PrimExpr, derived: PrimExpr) -> BaseCheckResult:
        if self.table is not None:
            if isinstance(base, Var) and base not in self.table:
                self.table[base] = derived
                return _PASS
            base = substitute(base, self.table)
        if can_prove_equal(base, derived, self.analyzer):
            return _PASS
        both_literal = isinstance(base, IntImm) and isinstance(derived, IntImm)
        return _L0 if both_literal else _L2


def _of_optional(
    check: Callable[[Any, Any], Any],
    base: PrimExpr | Sequence[PrimExpr] | None,
    derived: PrimExpr | Sequence[PrimExpr] | None,
) -> BaseCheckResult:
    """The result of `check`, where both are known."""
    if base is None:
        return _PASS
    return _L2 if derived is None else check(base, derived)


def _check_prim(
    c: _Checker, base: si.PrimStructInfo, derived: si.PrimStructInfo
) -> BaseCheckResult:
    if base.dtype != derived.dtype:
        return _L0
    return _of_optional(c.value, base.value, derived.value)


def _check_shape(
    c: _Checker, base: si.ShapeStructInfo, derived: si.ShapeStructInfo
) -> BaseCheckResult:
    if base.ndim == -1:
        return _PASS
    if derived.ndim == -1:
        return _L1
    if base.ndim != derived.ndim:
        return _L0
    return _of_optional(c.dims, base.values, derived.values)


def _check_tensor(
    c: _Checker, base: si.TensorStructInfo, derived: si.TensorStructInfo
) -> BaseCheckResult:
    result = _PASS
    if not base.dtype.is_void and base.dtype != derived.dtype:
        if not derived.dtype.is_void:
            return _L0
        result = _L1
    if base.vdevice is not None and not structural_equal(base.vdevice, derived.vdevice):
        if derived.vdevice is not None:
            return _L0
        result = _L1
    if base.ndim == -1:
        return result
    if derived.ndim == -1:
        return min(result, _L1)
    if base.ndim != derived.ndim:
        return _L0
    if base.shape is None or (base.shape is derived.shape and c.table is None):
        return result
    if c.table is not None and isinstance(base.shape, RelaxVar) and derived.shape is not None:
        c.table.setdefault(base.shape, derived.shape)
    a, b = base.get_shape(), derived.get_shape()
    return min(result, _L2 if a is None or b is None else c.dims(a, b))


def _check_tuple(
    c: _Checker, base: si.TupleStructInfo, derived: si.TupleStructInfo
) -> BaseCheckResult:
    if len(base.fields) != len(derived.fields):
        return _L0
    pairs = zip(base.fields, derived.fields, strict=True)
    return min((c.check(a, b) for a, b in pairs), default=_PASS)


def _check_func(
    c: _Checker, base: si.FuncStructInfo, derived: si.FuncStructInfo
) -> BaseCheckResult:
    if base.purity and not derived.purity:
        return _L0
    if base.params is None:
        return _PASS
    if derived.params is None:
        return _L2
    if structural_equal(base, derived):
        return _PASS
    if len(base.params) != len(derived.params):
        return _L0
    checker = _Checker({}, c.analyzer)
    pairs = zip(base.params, derived.params, strict=True)
    params = min((checker.check(a, b) for a, b in pairs), default=_PASS)
    return min(params, checker.check(base.ret, derived.ret))


_CHECKS: dict[type, Callable[..., BaseCheckResult]] = {
    si.PrimStructInfo: _check_prim,
    si.ShapeStructInfo: _check_shape,
    si.TensorStructInfo: _check_tensor,
    si.TupleStructInfo: _check_tuple,
    si.FuncStructInfo: _check_func,
}


def match_struct_info(
    pattern: si.StructInfo,
    info: si.StructInfo,
    table: dict[Any, Any],
    analyzer: Analyzer | None = None,
) -> BaseCheckResult:
    """How well `pattern` covers `info`, after binding the symbolic variables that are a dimension of
    their own in it to their values in `info`; the bindings are added to `table`."""
    return _Checker(table, analyzer).check(pattern, info)


# ---------------------------------------------------------------- least common ancestor


def struct_info_lca(
    lhs: si.StructInfo, rhs: si.StructInfo, analyzer: Analyzer | None = None
) -> si.StructInfo:
    """The narrowest struct info that covers both."""
    if lhs is rhs:
        return lhs
    if type(lhs) is not type(rhs):
        return si.ObjectStructInfo()
    merge = _LCA.get(type(lhs))
    return si.ObjectStructInfo() if merge is None else merge(lhs, rhs, analyzer)


def _lca_prim(
    a: si.PrimStructInfo, b: si.PrimStructInfo, analyzer: Analyzer | None
) -> si.StructInfo:
    if a.dtype != b.dtype:
        return si.ObjectStructInfo()
    if a.value is None or (b.value is not None and can_prove_equal(a.value, b.value, analyzer)):
        return a
    return si.PrimStructInfo(a.dtype)


def _lca_shape(
    a: si.ShapeStructInfo, b: si.ShapeStructInfo, analyzer: Analyzer | None
) -> si.StructInfo:
    ndim = a.ndim if a.ndim == b.ndim else -1
    if a.values is not None and not can_prove_shape_equal(a.values, b.values, analyzer):
        return si.ShapeStructInfo(ndim=ndim)
    return a if a.ndim == ndim else si.ShapeStructInfo(ndim=ndim)


def _lca_tensor(
    a: si.TensorStructInfo, b: si.TensorStructInfo, analyzer: Analyzer | None
) -> si.StructInfo:
    dtype = a.dtype if a.dtype == b.dtype else "void"
    ndim = a.ndim if a.ndim == b.ndim else -1
    vdevice = a.vdevice if structural_equal(a.vdevice, b.vdevice) else None
    same = a.shape is not None and can_prove_shape_equal(a.shape, b.shape, analyzer)
    if (same or a.shape is None) and (dtype, ndim, vdevice) == (a.dtype, a.ndim, a.vdevice):
        return a
    return si.TensorStructInfo(a.shape if same else None, dtype, vdevice, ndim)


def _lca_tuple(
    a: si.TupleStructInfo, b: si.TupleStructInfo, analyzer: Analyzer | None
) -> si.StructInfo:
    if len(a.fields) != len(b.fields):
        return si.ObjectStructInfo()
    pairs = zip(a.fields, b.fields, strict=True)
    fields = [struct_info_lca(x, y, analyzer) for x, y in pairs]
    same = all(x is y for x, y in zip(fields, a.fields, strict=True))
    return a if same else si.TupleStructInfo(fields)


def _lca_func(a: si.FuncStructInfo, b: si.FuncStructInfo, analyzer: Any) -> si.StructInfo:
    if structural_equal(a, b):
        return a
    purity = a.purity and b.purity
    ret = struct_info_lca(a.ret, b.ret, analyzer)
    if a.params is not None and b.params is not None:
        if structural_equal(a.params, b.params):
            return si.FuncStructInfo(a.params, ret, purity)
        if len(a.params) == len(b.params):  # their shapes are checked by the callee
            pairs = zip(a.params, b.params, strict=True)
            params = [struct_info_lca(x, y, analyzer) for x, y in pairs]
            return si.FuncStructInfo(params, ret, purity)
    return si.FuncStructInfo.opaque_func(ret=ret, purity=purity)


_LCA: dict[type, Callable[..., si.StructInfo]] = {
    si.PrimStructInfo: _lca_prim,
    si.ShapeStructInfo: _lca_shape,
    si.TensorStructInfo: _lca_tensor,
    si.TupleStructInfo: _lca_tuple,
    si.FuncStructInfo: _lca_func,
}


# ---------------------------------------------------------------- erasure


ShapeVarMap = Callable[[Var], PrimExpr | None]
VarMap = Callable[[RelaxVar], Any]


def erase_to_well_defined(
    sinfo: si.StructInfo,
    shape_var_map: ShapeVarMap | dict[Var, PrimExpr] | None = None,
    var_map: VarMap | dict[RelaxVar, Any] | None = None,
) -> si.StructInfo:
    """`sinfo` with its variables replaced by the maps; expressions with others become unknown."""
    f_shape = _as_function(shape_var_map)
    return _Eraser(f_shape, _as_function(var_map)).erase(sinfo)


def _as_function(table: Any) -> Callable[[Any], Any]:
    if table is None:
        return lambda var: None
    return table if callable(table) else table.get


class _Eraser:
    def __init__(self, shape_var_map: ShapeVarMap, var_map: VarMap) -> None:
        self.shape_var_map = shape_var_map
        self.var_map = var_map

    def erase(self, info: si.StructInfo) -> si.StructInfo:
        if isinstance(info, si.PrimStructInfo) and info.value is not None:
            value = self.value(info.value)
            return info if value is info.value else si.PrimStructInfo(info.dtype, value)
        if isinstance(info, si.ShapeStructInfo) and info.values is not None:
            dims = self.dims(info.values)
            if dims is info.values:
                return info
            return si.ShapeStructInfo(ndim=info.ndim) if dims is None else si.ShapeStructInfo(dims)
        if isinstance(info, si.TensorStructInfo) and info.shape is not None:
            return self.tensor(info)
        if isinstance(info, si.TupleStructInfo):
            fields = [self.erase(f) for f in info.fields]
            same = all(a is b for a, b in zip(fields, info.fields, strict=True))
            return info if same else si.TupleStructInfo(fields)
        return info

    def tensor(self, info: si.TensorStructInfo) -> si.StructInfo:
        shape = info.shape
        if isinstance(shape, ShapeExpr):
            dims = self.dims(shape.values)
            new = shape if dims is shape.values else None if dims is None else ShapeExpr(dims)
        else:
            new = self.var_map(shape)
        if new is shape:
            return info
        return si.TensorStructInfo(
            new, info.dtype, info.vdevice, -1 if new is not None else info.ndim
        )

    def dims(self, values: Dims) -> Dims | None:
        dims = tuple(v for old in values if (v := self.value(old)) is not None)
        if len(dims) < len(values):
            return None
        return values if all(a is b for a, b in zip(dims, values, strict=True)) else dims

    def value(self, value: PrimExpr) -> PrimExpr | None:
        if isinstance(value, IntImm):
            return value
        table: dict[Any, Any] = {}
        for var in vars_in(value):
            mapped = self.shape_var_map(var)
            if mapped is None:
                return None
            new = convert(mapped)
            if new is not var:
                table[var] = new
        if not table:
            return value
        dim = substitute(value, table)
        return dim if isinstance(dim, (Var, IntImm)) else Analyzer().simplify(dim)


def erase_to_params(params: Iterable[RelaxVar], ret: si.StructInfo) -> si.StructInfo:
    """A function's result in terms of the symbolic variables that its parameters define."""
    if not _may_hold_variables(ret):
        return ret
    erased = list(params)
    symbols = set(_unique(v for p in erased for v in tir_vars_in_struct_info(p.struct_info)))
    visible = set(erased)
    return erase_to_well_defined(
        ret, lambda v: v if v in symbols else None, lambda v: v if v in visible else None
    )


def _may_hold_variables(info: si.StructInfo) -> bool:
    if isinstance(info, si.TensorStructInfo):
        shape = info.shape
        static = isinstance(shape, ShapeExpr) and all(isinstance(v, IntImm) for v in shape.values)
        return shape is not None and not static
    if isinstance(info, si.TupleStructInfo):
        return any(_may_hold_variables(f) for f in info.fields)
    return not isinstance(info, si.ObjectStructInfo)


def get_static_type(sinfo: si.StructInfo) -> Node:
    """The type of a struct info, without symbolic values: kinds, dtypes and ranks."""
    if isinstance(sinfo, si.PrimStructInfo):
        return PrimType(sinfo.dtype)
    if isinstance(sinfo, si.ShapeStructInfo):
        return types.ShapeType(sinfo.ndim)
    if isinstance(sinfo, si.TensorStructInfo):
        return types.TensorType(sinfo.ndim, sinfo.dtype)
    if isinstance(sinfo, si.TupleStructInfo):
        return types.TupleType([get_static_type(f) for f in sinfo.fields])
    if isinstance(sinfo, si.FuncStructInfo):
        if sinfo.params is None:
            return types.PackedFuncType()
        params = [get_static_type(p) for p in sinfo.params]
        return types.FuncType(params, get_static_type(sinfo.ret))
    return types.ObjectType()


# ---------------------------------------------------------------- symbolic variables


def _unique(items: Iterable[Any]) -> list[Any]:
    return list({id(item): item for item in items}.values())


def tir_vars_in_struct_info(sinfo: si.StructInfo) -> list[Var]:
    """All symbolic variables in a struct info, in order of occurrence."""
    if isinstance(sinfo, si.TensorStructInfo):
        return list(vars_in(sinfo.shape.values)) if isinstance(sinfo.shape, ShapeExpr) else []
    if isinstance(sinfo, si.TupleStructInfo):
        return _unique(v for f in sinfo.fields for v in tir_vars_in_struct_info(f))
    if isinstance(sinfo, (si.ObjectStructInfo, si.FuncStructInfo)):
        return [] if isinstance(sinfo, si.ObjectStructInfo) else _func_vars(sinfo)
    return list(vars_in(sinfo))


def _func_vars(sinfo: si.FuncStructInfo) -> list[Var]:
    infos = [*(sinfo.params or ()), sinfo.ret]
    return _unique(v for i in infos for v in tir_vars_in_struct_info(i))


def definable_tir_vars_in_struct_info(sinfo: si.StructInfo) -> list[Var]:
    """The symbolic variables that are a whole dimension or value, so that a value of this
    struct info defines them."""
    if isinstance(sinfo, si.TensorStructInfo):
        shape = sinfo.shape
        dims: Any = shape.values if isinstance(shape, ShapeExpr) else ()
        return list(dict.fromkeys([v for v in dims if type(v) in Var.__kinds__]))
    if isinstance(sinfo, si.PrimStructInfo):
        return [sinfo.value] if isinstance(sinfo.value, Var) else []
    if isinstance(sinfo, si.ShapeStructInfo):
        return _unique(v for v in sinfo.values or () if isinstance(v, Var))
    if isinstance(sinfo, si.TupleStructInfo):
        return _unique(v for f in sinfo.fields for v in definable_tir_vars_in_struct_info(f))
    return []


def collect_non_negative_expressions(sinfo: si.StructInfo) -> list[PrimExpr]:
    """The expressions in a struct info that cannot be negative: dimensions of tensors and
    shapes that are not literals, each once."""
    dims: Iterable[PrimExpr] = ()
    parts: Iterable[si.StructInfo] = ()
    if isinstance(sinfo, si.TensorStructInfo):
        dims = sinfo.get_shape() or ()
    elif isinstance(sinfo, si.ShapeStructInfo):
        dims = sinfo.values or ()
    elif isinstance(sinfo, si.TupleStructInfo):
        parts = sinfo.fields
    elif isinstance(sinfo, si.FuncStructInfo):
        parts = (*(sinfo.params or ()), sinfo.ret)
    own = (d for d in dims if not isinstance(d, IntImm))
    return _unique([*own, *(e for part in parts for e in collect_non_negative_expressions(part))])


# ---------------------------------------------------------------- results of calls


def function_struct_info(func: BaseFunc) -> si.StructInfo:
    """A function's struct info; a PrimFunc's describes its tensors and scalars, and what it
    returns."""
    if not isinstance(func, PrimFunc):
        return func.struct_info or si.ObjectStructInfo()
    params: list[si.StructInfo] = []
    for param in func.params:
        buffer = func.buffer_map.get(param)
        if buffer is not None:
            params.append(si.TensorStructInfo(ShapeExpr(buffer.shape), buffer.dtype))
        elif param.dtype.is_handle:
            params.append(si.ObjectStructInfo())
        else:
            params.append(si.PrimStructInfo(param.dtype))
    if isinstance(func.ret_type, PrimType) and not func.ret_type.dtype.is_void:
        return si.FuncStructInfo(
            params, si.PrimStructInfo(func.ret_type.dtype), is_pure_function(func)
        )
    return si.FuncStructInfo(params, si.TupleStructInfo([]), is_pure_function(func))


def derive_call_ret_struct_info(
    func_sinfo: si.FuncStructInfo, call: Call, ctx: object = None
) -> si.StructInfo:
    """The struct info of `call`, whose callee has `func_sinfo`; symbolic variables of the
    parameters are replaced by their values in the arguments.

    Raises ValueError if the number or the struct infos of the arguments do not fit.
    """
    derive = func_sinfo.derive_func
    if derive is not None:
        return (get_global_func(derive) if isinstance(derive, str) else derive)(call, ctx)
    if func_sinfo.params is None:
        return infer_by_sinfo_args(call) if call.sinfo_args else func_sinfo.ret
    params, args = func_sinfo.params, call.args
    if len(params) != len(args):
        what = f"{_callee(call)} takes {len(params)} arguments"
        raise CallValueError(explain(what, got=f"{len(args)}", span=call.span))
    table: dict[Any, Any] = {}
    checker = _Checker(table, getattr(ctx, "analyzer", None))
    for i, (param, arg) in enumerate(zip(params, args, strict=True)):
        if checker.check(param, arg.struct_info) <= _L1:
            what = f"argument {i} of {_callee(call)} does not fit its parameter, {param}"
            hint = "pass another value, or R.match_cast it first"
            got = f"{arg} with {arg.struct_info}"
            raise CallValueError(explain(what, got=got, instead=hint, span=call.span))
    return erase_to_well_defined(func_sinfo.ret, table.get, table.get)


def infer_by_sinfo_args(call: Call, ctx: Any = None) -> si.StructInfo:
    """The struct info given by a call's `sinfo_args`."""
    infos = call.sinfo_args
    if not infos:
        return si.ObjectStructInfo()
    return infos[0] if len(infos) == 1 else si.TupleStructInfo(infos)


def _callee(call: Call) -> str:
    op = call.op
    return getattr(op, "name_hint", None) or getattr(op, "global_symbol", None) or "the function"


def is_base_of(base: si.StructInfo, derived: si.StructInfo) -> bool:
    """Whether every value that `derived` describes is also described by `base`."""
    return struct_info_base_check(base, derived) is _PASS
