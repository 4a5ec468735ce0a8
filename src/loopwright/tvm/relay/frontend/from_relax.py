"""From Relax to Relay: the translation's table read backwards.

Calls of operators become Relay's by `relax_operators`. The rest stay calls of Relax: the attribute
of `relax.call` is their text.
"""

from __future__ import annotations

from typing import Any

from ....base.errors import LoopwrightError, explain
from ....base.span import Span
from ....ir.expr import GlobalVar
from ....ir.functor import rewrite
from ....ir.module import IRModule
from ....ir.op import Op
from ....ir.prim_expr import IntImm
from ....ir.prim_expr import Var as TirVar
from ....ir.serialize import load_json, save_json
from ....ir.variables import vars_in
from ....relax import expr as rx
from ....relax.struct_info import (
    PrimStructInfo,
    ShapeStructInfo,
    StructInfo,
    TensorStructInfo,
    TupleStructInfo,
)
from ....tir.index_map import IndexMap
from ..expr import Call, Constant, Expr, Function, If, Tuple, TupleGetItem, TupleWrapper, Var
from ..infer import call_type
from ..operators.core import Inputs, builder, op, row_of
from ..operators.tensor import fields
from ..types import Any as AnyExtent
from ..types import TensorType, TupleType, same_type
from .relax_operators import CONVERTERS, OperatorCall, by_trial, twins

# ---------------------------------------------------------------------- calls that stay Relax's


@op("relax.call", view=False)
def relax_call(args: Inputs, function: str = "") -> Any:
    """The value of a function of Relax, stored as JSON, for the arguments in one expression, after
    extents that are read at run time."""
    func = load_json(function)
    values = fields(args)
    table = dict(zip(func.params, values, strict=True))
    extents: dict[Any, Any] = {}
    for param, arg in table.items():
        _match(param.struct_info, arg.struct_info, extents)

    def here(value: rx.Expr | ShapeStructInfo) -> Any:
        value = rewrite(value, dict.fromkeys((rx.Var, rx.DataflowVar), table.get))
        return rewrite(value, {TirVar: extents.get}) if extents else value

    for binding in (b for block in func.body.blocks for b in block.bindings):
        value, info = builder().emit(here(binding.value)), binding.struct_info
        # each call reads extents of its own
        extents |= {d: TirVar(d.name, d.dtype) for d in _read_by(info) if d not in extents}
        builder().match_cast(value, here(info))
    return here(func.body.body)


def _read_by(info: StructInfo) -> list[TirVar]:
    """The variables that are whole extents of a shape that is matched."""
    dims = info.values if isinstance(info, ShapeStructInfo) else None
    return [d for d in dims or () if isinstance(d, TirVar)]


def _match(want: StructInfo, have: StructInfo, table: dict[Any, Any]) -> None:
    """Find the values of variables that are whole extents of a shape."""
    if isinstance(want, TupleStructInfo):
        for w, h in zip(want.fields, have.fields, strict=True):
            _match(w, h, table)
    elif isinstance(want, TensorStructInfo):
        for w, h in zip(want.get_shape() or (), have.get_shape() or (), strict=False):
            if isinstance(w, TirVar):
                table.setdefault(w, h)


# ---------------------------------------------------------------------- the walk


class Reverser:
    """Makes a function of Relay of one of Relax, binding by binding."""

    def __init__(self, mod: IRModule, nt_batch_matmul: bool = False) -> None:
        self.mod, self.nt_batch_matmul = mod, nt_batch_matmul
        self.values: dict[rx.Var, Any] = {}
        self.inline: dict[rx.Var, Any] = {}  # shapes and numbers, which Relay has no values of
        self.definitions: dict[rx.Var, Any] = {}
        self.symbols: dict[TirVar, rx.Var] = {}
        self.read: dict[TirVar, rx.MatchCast] = {}  # extents of shapes that are values of the run
        self.types: dict[int, tuple[Any, Any]] = {}  # by identity: an expression and its type

    def function(self, func: rx.Function) -> Function:
        """The function of Relay."""
        params = []
        for param in func.params:
            if not isinstance(param.struct_info, (TensorStructInfo, TupleStructInfo)):
                what = f"the parameter {param.name_hint} is not a tensor, which Relay needs"
                raise LoopwrightError(explain(what, got=str(param.struct_info)))
            new = Var(param.name_hint, relay_type(param.struct_info))
            self.values[param] = new
            self._symbols_of(param)
            params.append(new)
        return Function(params, self.body(func.body))

    def _symbols_of(self, var: rx.Var) -> None:
        infos = [var.struct_info]
        while infos:
            info = infos.pop()
            if isinstance(info, TupleStructInfo):
                infos += info.fields
            elif isinstance(info, TensorStructInfo):
                for dim in info.get_shape() or ():
                    if isinstance(dim, TirVar):
                        self.symbols.setdefault(dim, var)

    def body(self, seq: rx.SeqExpr) -> Any:
        """The value of a sequence."""
        for block in seq.blocks:
            for binding in block.bindings:
                self._bind(binding)
        return self.value(seq.body)

    def _bind(self, binding: rx.Binding) -> None:
        var, value = binding.var, binding.value
        self.definitions[var] = value
        if isinstance(binding, rx.MatchCast):
            self._symbols_of(var)
        if isinstance(var.struct_info, (ShapeStructInfo, PrimStructInfo)):
            self.inline[var] = value
            if isinstance(binding, rx.MatchCast):
                self.read |= dict.fromkeys(_read_by(binding.struct_info), binding)
        else:
            self.values[var] = self.value(value, binding.span)
            if isinstance(binding, rx.MatchCast):
                self._symbols_of(var)

    def definition(self, value: rx.Expr) -> Any:
        """The value that a variable is bound to."""
        while isinstance(value, rx.Var) and value in self.definitions:
            value = self.definitions[value]
        return value

    def value(self, value: rx.Expr, span: Span | None = None) -> Any:
        """The expression of Relay of one of Relax."""
        if isinstance(value, rx.Var):
            if value not in self.values:
                what = "this value of Relax is not a tensor, which Relay needs"
                raise LoopwrightError(explain(what, got=f"{value}: {value.struct_info}"))
            return self.values[value]
        if isinstance(value, rx.Constant):
            return Constant(value.data)
        if isinstance(value, rx.Tuple):
            return Tuple([self.value(f) for f in value.fields])
        if isinstance(value, rx.TupleGetItem):
            whole = self.value(value.tuple_value)
            return (
                whole.fields[value.index]
                if isinstance(whole, Tuple)
                else TupleGetItem(whole, value.index)
            )
        if isinstance(value, rx.If):
            branches = [self.body(b) for b in (value.true_branch, value.false_branch)]
            return If(self.value(value.cond), *branches, span=span)
        if isinstance(value, rx.Call):
            new = self.call(value)
            return self._with_span(new, value.span or span)
        what = "this expression of Relax has no meaning in Relay"
        raise LoopwrightError(explain(what, got=type(value).__name__))

    def call(self, call: rx.Call) -> Any:
        """The call in Relay."""
        if isinstance(call.op, GlobalVar):
            return Call(call.op, [self.value(a) for a in call.args])
        if not isinstance(call.op, Op):
            what = "Relay calls operators and functions of the module"
            raise LoopwrightError(explain(what, got=str(call.op)))
        try:
            new = self._converted(call)
        except ValueError:  # the operator does not fit: it stays Relax's
            new = None
        if isinstance(new, TupleWrapper):
            new = new.astuple()
        if new is None or not self.fits(new, call):
            new = self.as_relax_call(call)
        self.types[id(new)] = (new, relay_type(call.struct_info))
        return new

    def _with_span(self, value: Expr, span: Span | None) -> Any:
        """An expression with its place."""
        if span is None or not isinstance(value, Call):
            return value
        placed = value.with_span(span)
        if id(value) in self.types:
            self.types[id(placed)] = (placed, self.types[id(value)][1])
        return placed

    def fits(self, new: Any, call: rx.Call) -> bool:
        """Whether a call of Relay has the type of the one in Relax that it is to be."""
        row = row_of(new.op) if isinstance(new, Call) else None
        if row is None:
            return True
        types = [self.type_of(arg) for arg in new.args]
        if None in types:
            return True
        try:
            inferred = call_type(row, types, row.values_of(new), new.args)
        except (LoopwrightError, ValueError):
            return False
        return same_type(inferred, relay_type(call.struct_info))

    def type_of(self, expr: Expr) -> Any:
        """The type of an expression that was made here, None where it is not known."""
        if isinstance(expr, Tuple):
            parts = [self.type_of(f) for f in expr.fields]
            return None if None in parts else TupleType(parts)
        if isinstance(expr, TupleGetItem):
            whole = self.type_of(expr.tuple_value)
            return None if whole is None else whole.fields[expr.index]
        if id(expr) in self.types:
            return self.types[id(expr)][1]
        return expr.type_annotation if isinstance(expr, Var) else expr.checked_type_

    def _converted(self, call: rx.Call) -> Any:
        view = OperatorCall(self, call)
        convert = CONVERTERS.get(call.op.name)
        if convert is not None:
            return convert(view) or by_trial(view)
        row, names = twins().get(call.op.name, (None, {}))
        if row is not None:
            values = {own: view.plain(view.values.get(other)) for own, other in names.items()}
            if not any(values[n] is None for n in row.inputs):
                return row.builder(**values)
        return by_trial(view)

    def as_relax_call(self, call: rx.Call) -> Call:
        """The call as it is, by `relax.call`: its tensors are arguments, the rest is its text."""
        leaves: dict[Any, rx.Var] = {}
        args: list[Any] = []

        def leaf(node: rx.Expr) -> rx.Var:
            if node not in leaves:
                leaves[node] = rx.Var(f"arg{len(args)}", node.struct_info)
                args.append(self.value(node))
            return leaves[node]

        def inside(node: rx.Expr) -> Any:
            if isinstance(node, rx.Var) and node in self.inline:
                return rewrite(self.inline[node], rules)
            large = isinstance(node, rx.Var) or node.data.numpy().size > 64
            return leaf(node) if large else node

        rules = dict.fromkeys((rx.Var, rx.DataflowVar, rx.Constant), inside)
        body = rewrite(call, rules)
        own = {d for var in leaves.values() for d in _extent_vars(var.struct_info)}
        maps = [v for _, v in call.attrs.items() if isinstance(v, IndexMap)] if call.attrs else []
        own.update(index for binding in maps for index in binding.initial_indices)
        reads: list[rx.MatchCast] = []  # in reverse
        waiting = [s for s in vars_in(body) if isinstance(s, TirVar)]
        while waiting:
            symbol = waiting.pop(0)
            source = self.symbols.get(symbol)
            if symbol in own:
                continue
            if source is not None:
                leaf(source)
                own |= set(_extent_vars(source.struct_info))
            elif symbol in self.read:
                binding = self.read[symbol]
                own |= set(_read_by(binding.struct_info))
                value = rewrite(binding.value, rules)
                reads.append(rx.MatchCast(binding.var, value, binding.struct_info))
                waiting += [s for s in vars_in(value) if isinstance(s, TirVar)]
            else:
                what = f"the extent {symbol.name} is known to no parameter"
                hint = "import the model to Relax, which has such shapes"
                raise LoopwrightError(explain(what, got=str(call), instead=hint))
        blocks = [rx.BindingBlock(reads[::-1])] if reads else []
        func = rx.Function(list(leaves.values()), rx.SeqExpr(blocks, body), call.struct_info)
        new = relax_call.builder(Tuple(args), function=save_json(func))
        return new


def _extent_vars(info: StructInfo) -> list[TirVar]:
    """The variables that are extents of a tensor, or of one in a tuple."""
    if isinstance(info, TupleStructInfo):
        return [d for f in info.fields for d in _extent_vars(f)]
    dims = info.get_shape() if isinstance(info, TensorStructInfo) else None
    return [d for d in dims or () if isinstance(d, TirVar)]


def relay_type(info: StructInfo) -> Any:
    """The type of a value of Relax; an extent that is not a number is unknown in Relay."""
    if isinstance(info, TupleStructInfo):
        return TupleType([relay_type(f) for f in info.fields])
    if not isinstance(info, TensorStructInfo):
        what = "Relay's values are tensors and tuples of them"
        raise LoopwrightError(explain(what, got=str(info), instead="import the model to Relax"))
    dims = info.get_shape()
    if dims is None and info.ndim < 0:
        what = "the rank of a tensor is not known, which Relay needs"
        raise LoopwrightError(explain(what, got=str(info)))
    dims_or_any = [AnyExtent()] * info.ndim if dims is None else dims
    extents = [d.value if isinstance(d, IntImm) else AnyExtent() for d in dims_or_any]
    return TensorType(extents, info.dtype)


def from_relax(mod: IRModule, nt_batch_matmul: bool = False) -> IRModule:
    """The graph functions of a module of Relax as functions of Relay. nt_batch_matmul: batches of
    products are those by a transposed matrix."""
    functions = {}
    for gvar, func in mod.functions.items():
        if isinstance(func, rx.Function):
            func = Reverser(mod, nt_batch_matmul).function(func)
        functions[gvar] = func
    return IRModule(functions)
