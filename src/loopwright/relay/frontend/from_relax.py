"""From Relax to Relay: the translation's table read backwards.

Where an operator of Relay is one operator of Relax, that is found in its row (`twins`); what takes a
look at the arguments stands in `CONVERTERS`. Other calls stay calls of Relax: the operator `relax.call`
has their text as an attribute.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from types import FunctionType
from typing import Any

import numpy as np

from ...base.errors import LoopwrightError, explain
from ...base.registry import Registry
from ...ir.expr import GlobalVar
from ...ir.functor import rewrite
from ...ir.module import IRModule
from ...ir.op import Op
from ...ir.prim_expr import IntImm
from ...ir.prim_expr import Var as TirVar
from ...ir.serialize import load_json, save_json
from ...ir.variables import vars_in
from ...relax import expr as rx
from ...relax.struct_info import (
    PrimStructInfo,
    ShapeStructInfo,
    TensorStructInfo,
    TupleStructInfo,
)
from ...runtime.tensor import tensor
from ...tir.index_map import IndexMap
from ..expr import Call, Constant, Function, If, Tuple, TupleGetItem, TupleWrapper, Var
from ..infer import call_type
from ..operators.core import ROWS, Inputs, Row, builder, op, row_of
from ..operators.tensor import fields
from ..types import Any as AnyExtent
from ..types import TensorType, TupleType, same_type

# ---------------------------------------------------------------------- calls that stay Relax's


@op("relax.call", view=False)
def relax_call(args: Inputs, function: str = "") -> Any:
    """What a function of Relax, given as JSON, computes of the arguments in one expression, after
    extents that the run reads."""
    func = load_json(function)
    given = fields(args)
    table = dict(zip(func.params, given, strict=True))
    extents: dict[Any, Any] = {}
    for param, arg in table.items():
        _match(param.struct_info, arg.struct_info, extents)

    def here(value: Any) -> Any:
        value = rewrite(value, dict.fromkeys((rx.Var, rx.DataflowVar), table.get))
        return rewrite(value, {TirVar: extents.get}) if extents else value

    for binding in (b for block in func.body.blocks for b in block.bindings):
        value, info = builder().emit(here(binding.value)), binding.struct_info
        # each call reads extents of its own
        extents |= {d: TirVar(d.name, d.dtype) for d in _read_by(info) if d not in extents}
        builder().match_cast(value, here(info))
    return here(func.body.body)


def _read_by(info: Any) -> list[TirVar]:
    """The variables that stand alone in a shape that is matched."""
    dims = info.values if isinstance(info, ShapeStructInfo) else None
    return [d for d in dims or () if isinstance(d, TirVar)]


def _match(want: Any, have: Any, table: dict[Any, Any]) -> None:
    """Find what the variables are that stand alone in a shape."""
    if isinstance(want, TupleStructInfo):
        for w, h in zip(want.fields, have.fields, strict=True):
            _match(w, h, table)
    elif isinstance(want, TensorStructInfo):
        for w, h in zip(want.get_shape() or (), have.get_shape() or (), strict=False):
            if isinstance(w, TirVar):
                table.setdefault(w, h)


# ---------------------------------------------------------------------- rows that are one operator


class _Recorder:
    """Stands for the operators of Relax while a row's body runs, and notes the one call."""

    def __init__(self, calls: list[Any], path: str = "") -> None:
        self._calls, self._path = calls, path

    def __getattr__(self, name: str) -> _Recorder:
        return _Recorder(self._calls, f"{self._path}.{name}" if self._path else name)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self._calls.append((self._path, args, kwargs, result := object()))
        return result


@cache
def twins() -> dict[str, tuple[Row, dict[str, str]]]:
    """Relax's operator -> the row of Relay that is it, and of the row's parameters Relax's names."""
    found: dict[str, tuple[Row, dict[str, str]]] = {}
    for row in ROWS.values():
        twin = _twin(row)
        if twin is not None:
            found.setdefault(twin[0], (row, twin[1]))
    return found


def _twin(row: Row) -> tuple[str, dict[str, str]] | None:
    marks = {name: object() for name in row.signature.parameters}
    calls: list[Any] = []
    body: Any = row.body
    space = {**body.__globals__, "R": _Recorder(calls)}
    copy = FunctionType(body.__code__, space, body.__name__, body.__defaults__, body.__closure__)
    try:
        result = copy(**marks)
    except (AttributeError, LookupError, TypeError, ValueError):
        return None  # the body looks at its arguments: it is no plain call
    if len(calls) != 1 or calls[0][3] is not result:
        return None
    path, args, kwargs, _ = calls[0]
    definition = _definition(f"relax.{path}")
    names = {id(mark): name for name, mark in marks.items()}
    if definition is None or any(id(a) not in names for a in (*args, *kwargs.values())):
        return None
    params = [p.name for p in definition.params]
    known = {**dict(zip(params, args, strict=False)), **kwargs}
    mapped = {names[id(mark)]: param for param, mark in known.items()}
    return (f"relax.{path}", mapped) if len(mapped) == len(marks) else None


def _definition(name: str) -> Any:
    return Op.get(name).get_attr("definition") if name in Op.list_op_names() else None


# ---------------------------------------------------------------------- those that are not

CONVERTERS: Registry[str, Callable[[_Call], Any]] = Registry("converter of Relax to Relay")


def converter(name: str) -> Callable[[Callable[[_Call], Any]], Callable[[_Call], Any]]:
    """Add what makes Relay of a call of an operator of Relax; it may give None."""

    def register(fn: Callable[[_Call], Any]) -> Callable[[_Call], Any]:
        return CONVERTERS.register(f"relax.{name}", fn)

    return register


class _Call:
    """A call of Relax: arguments and attributes by name, tensors as expressions of Relay."""

    def __init__(self, work: _Reverser, call: rx.Call) -> None:
        self.work, self.call = work, call
        definition = call.op.get_attr("definition")
        self.values: dict[str, Any] = {} if call.attrs is None else dict(call.attrs.items())
        if definition is not None:
            for param, arg in zip(definition.graph_params, call.args, strict=False):
                self.values[param.name] = arg

    def __getattr__(self, name: str) -> Any:
        return self.plain(self.values[name])

    def plain(self, value: Any) -> Any:
        """A tensor as Relay's expression; other values stay."""
        if isinstance(value, (rx.Var, rx.Constant, rx.Tuple, rx.TupleGetItem)):
            return self.work.value(value)
        return value

    def shape(self, name: str) -> list[Any]:
        """The shape of an argument, with None for what is not known."""
        dims = self.values[name].struct_info.get_shape()
        return [d.value if isinstance(d, IntImm) else None for d in dims or ()]


def _builder(name: str) -> Any:
    """The builder of an operator. Raises KeyError where there is none."""
    row = ROWS.get(name)
    if row is None:
        raise KeyError(name)
    return row.builder


@converter("astype")
def _(c: _Call) -> Any:
    return _builder("cast")(c.x, str(c.dtype))


@converter("reshape")
def _(c: _Call) -> Any:
    shape = c.values["shape"]
    if not isinstance(shape, rx.ShapeExpr):
        return None  # a value
    dims = [d.value if isinstance(d, IntImm) else -1 for d in shape.values]
    return _builder("reshape")(c.x, dims) if dims.count(-1) <= 1 and 0 not in dims else None


@converter("permute_dims")
def _(c: _Call) -> Any:
    axes = c.axes
    return _builder("transpose")(c.x, None if axes is None else list(axes))


@converter("concat")
def _(c: _Call) -> Any:
    return _builder("concatenate")(c.tensors, int(c.axis or 0))


@converter("matmul")
def _(c: _Call) -> Any:
    a, b = c.shape("x1"), c.shape("x2")
    if str(c.values.get("out_dtype") or "void") != "void":
        return None
    if len(a) == len(b) == 2:
        turned = c.work.definition(c.values["x2"])
        if isinstance(turned, rx.Call) and turned.op is Op.get("relax.permute_dims"):
            return _builder("nn.dense")(c.x1, c.work.value(turned.args[0]), b[1])
        if isinstance(turned, rx.Constant):
            weight = np.ascontiguousarray(turned.data.numpy().T)
            return _builder("nn.dense")(c.x1, Constant(tensor(weight)), b[1])
        return _builder("nn.matmul")(c.x1, c.x2)
    if len(a) == len(b) == 3:
        if c.work.nt_batch_matmul:
            turned = _builder("transpose")(c.x2, [0, 2, 1])
            return _builder("nn.batch_matmul")(c.x1, turned)
        return _builder("nn.batch_matmul")(c.x1, c.x2, transpose_b=False)
    return None


def _convolution(c: _Call) -> Any:
    layout, weight = str(c.kernel_layout), c.shape("weight")
    sizes = {
        "channels": weight[layout.index("O")],
        "kernel_size": tuple(weight[layout.index(d)] for d in "DHW" if d in layout),
    }
    names = "strides padding dilation groups data_layout kernel_layout"
    given = {name: getattr(c, name) for name in names.split()}
    if None in sizes["kernel_size"] or str(c.out_layout) != str(c.data_layout):
        return None
    if str(c.out_dtype) not in ("void", ""):
        given["out_dtype"] = str(c.out_dtype)
    return _builder(c.call.op.name.removeprefix("relax."))(c.data, c.weight, **given, **sizes)


for _name in ("conv1d", "conv2d", "conv3d"):
    converter(f"nn.{_name}")(_convolution)


def _pooling(c: _Call) -> Any:
    if str(c.out_layout) != str(c.layout):
        return None
    names = ["pool_size", "strides", "dilation", "padding", "layout", "ceil_mode"]
    name = c.call.op.name.removeprefix("relax.")
    if "avg" in name:
        names.append("count_include_pad")
    return _builder(name)(c.data, **{n: getattr(c, n) for n in names})


for _name in ("max_pool1d", "max_pool2d", "max_pool3d", "avg_pool1d", "avg_pool2d", "avg_pool3d"):
    converter(f"nn.{_name}")(_pooling)


def _reduction(c: _Call) -> Any:
    name = c.call.op.name.removeprefix("relax.")
    return _builder(name)(c.x, c.axis, bool(c.keepdims))


for _name in ("sum", "mean", "max", "min", "prod"):
    converter(_name)(_reduction)


@converter("split")
def _(c: _Call) -> Any:
    parts = c.indices_or_sections
    return _builder("split")(c.x, parts if isinstance(parts, int) else tuple(parts), int(c.axis))


@converter("expand_dims")
def _(c: _Call) -> Any:
    result = c.x
    rank = len(c.shape("x")) + len(c.axis)
    for axis in sorted(a % rank for a in c.axis):
        result = _builder("expand_dims")(result, axis, 1)
    return result


@converter("nn.softmax")
def _(c: _Call) -> Any:
    return _builder("nn.softmax")(c.data, int(c.axis))


# ---------------------------------------------------------------------- the walk


class _Reverser:
    """Makes a function of Relay of one of Relax, binding by binding."""

    def __init__(self, mod: IRModule, nt_batch_matmul: bool = False) -> None:
        self.mod, self.nt_batch_matmul = mod, nt_batch_matmul
        self.known: dict[rx.Var, Any] = {}
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
                what = f"the parameter {param.name_hint} is no tensor, which Relay needs"
                raise LoopwrightError(explain(what, got=str(param.struct_info)))
            made = Var(param.name_hint, relay_type(param.struct_info))
            self.known[param] = made
            self._symbols_of(param)
            params.append(made)
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

    def _bind(self, binding: Any) -> None:
        var, value = binding.var, binding.value
        self.definitions[var] = value
        if isinstance(binding, rx.MatchCast):
            self._symbols_of(var)
        if isinstance(var.struct_info, (ShapeStructInfo, PrimStructInfo)):
            self.inline[var] = value
            if isinstance(binding, rx.MatchCast):
                self.read |= dict.fromkeys(_read_by(binding.struct_info), binding)
        else:
            self.known[var] = self.value(value, binding.span)
            if isinstance(binding, rx.MatchCast):
                self._symbols_of(var)

    def definition(self, value: Any) -> Any:
        """What a variable is bound to."""
        while isinstance(value, rx.Var) and value in self.definitions:
            value = self.definitions[value]
        return value

    def value(self, value: Any, span: Any = None) -> Any:
        """The expression of Relay of one of Relax."""
        if isinstance(value, rx.Var):
            if value not in self.known:
                what = "this value of Relax is no tensor, which Relay needs"
                raise LoopwrightError(explain(what, got=f"{value}: {value.struct_info}"))
            return self.known[value]
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
            made = self.call(value)
            return self._placed(made, value.span or span)
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
            made = self._converted(call)
        except ValueError:  # the operator does not fit: it stays Relax's
            made = None
        if isinstance(made, TupleWrapper):
            made = made.astuple()
        if made is None or not self.fits(made, call):
            made = self.kept(call)
        self.types[id(made)] = (made, relay_type(call.struct_info))
        return made

    def _placed(self, made: Any, span: Any) -> Any:
        """An expression with its place."""
        if span is None or not isinstance(made, Call):
            return made
        placed = made.with_span(span)
        if id(made) in self.types:
            self.types[id(placed)] = (placed, self.types[id(made)][1])
        return placed

    def fits(self, made: Any, call: rx.Call) -> bool:
        """Whether a call of Relay has the type of the one in Relax that it is to be."""
        row = row_of(made.op) if isinstance(made, Call) else None
        if row is None:
            return True
        known = [self.type_of(arg) for arg in made.args]
        if None in known:
            return True
        try:
            found = call_type(row, known, row.values_of(made), made.args)
        except (LoopwrightError, ValueError):
            return False
        return same_type(found, relay_type(call.struct_info))

    def type_of(self, expr: Any) -> Any:
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
        given = _Call(self, call)
        convert = CONVERTERS.get(call.op.name)
        if convert is not None:
            return convert(given)
        row, names = twins().get(call.op.name, (None, {}))
        if row is None:
            return None
        values = {mine: given.plain(given.values.get(theirs)) for mine, theirs in names.items()}
        return None if any(values[n] is None for n in row.inputs) else row.builder(**values)

    def kept(self, call: rx.Call) -> Call:
        """The call as it is, by `relax.call`: its tensors are arguments, the rest is its text."""
        leaves: dict[Any, rx.Var] = {}
        args: list[Any] = []

        def leaf(node: Any) -> rx.Var:
            if node not in leaves:
                leaves[node] = rx.Var(f"arg{len(args)}", node.struct_info)
                args.append(self.value(node))
            return leaves[node]

        def inside(node: Any) -> Any:
            if isinstance(node, rx.Var) and node in self.inline:
                return rewrite(self.inline[node], rules)
            large = isinstance(node, rx.Var) or node.data.numpy().size > 64
            return leaf(node) if large else node

        rules = dict.fromkeys((rx.Var, rx.DataflowVar, rx.Constant), inside)
        body = rewrite(call, rules)
        own = {d for var in leaves.values() for d in _alone(var.struct_info)}
        maps = [v for _, v in call.attrs.items() if isinstance(v, IndexMap)] if call.attrs else []
        own.update(index for found in maps for index in found.initial_indices)
        reads: list[rx.MatchCast] = []  # in reverse
        waiting = [s for s in vars_in(body) if isinstance(s, TirVar)]
        while waiting:
            symbol = waiting.pop(0)
            source = self.symbols.get(symbol)
            if symbol in own:
                continue
            if source is not None:
                leaf(source)
                own |= set(_alone(source.struct_info))
            elif symbol in self.read:
                found = self.read[symbol]
                own |= set(_read_by(found.struct_info))
                value = rewrite(found.value, rules)
                reads.append(rx.MatchCast(found.var, value, found.struct_info))
                waiting += [s for s in vars_in(value) if isinstance(s, TirVar)]
            else:
                what = f"the extent {symbol.name} is known to no parameter"
                hint = "import the model to Relax, which has such shapes"
                raise LoopwrightError(explain(what, got=str(call), instead=hint))
        blocks = [rx.BindingBlock(reads[::-1])] if reads else []
        func = rx.Function(list(leaves.values()), rx.SeqExpr(blocks, body), call.struct_info)
        made = relax_call.builder(Tuple(args), function=save_json(func))
        return made


def _alone(info: Any) -> list[TirVar]:
    """The variables that are extents of a tensor, or of one in a tuple."""
    if isinstance(info, TupleStructInfo):
        return [d for f in info.fields for d in _alone(f)]
    dims = info.get_shape() if isinstance(info, TensorStructInfo) else None
    return [d for d in dims or () if isinstance(d, TirVar)]


def relay_type(info: Any) -> Any:
    """The type of a value of Relax; an extent that is no number is not known in Relay."""
    if isinstance(info, TupleStructInfo):
        return TupleType([relay_type(f) for f in info.fields])
    dims = info.get_shape()
    if dims is None and info.ndim < 0:
        what = "the rank of a tensor is not known, which Relay needs"
        raise LoopwrightError(explain(what, got=str(info)))
    known = [AnyExtent()] * info.ndim if dims is None else dims
    extents = [d.value if isinstance(d, IntImm) else AnyExtent() for d in known]
    return TensorType(extents, info.dtype)


def from_relax(mod: IRModule, nt_batch_matmul: bool = False) -> IRModule:
    """The graph functions of a module of Relax as functions of Relay. nt_batch_matmul: batches of
    products are those by a transposed matrix."""
    functions = {}
    for gvar, func in mod.functions.items():
        if isinstance(func, rx.Function):
            func = _Reverser(mod, nt_batch_matmul).function(func)
        functions[gvar] = func
    return IRModule(functions)


__all__ = ["from_relax", "relay_type", "twins"]
