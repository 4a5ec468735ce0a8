"""From Relax to Relay: the translation's table read backwards.

Where an operator of Relay is one operator of Relax, its row says so (`twins`), or its body does
when run (`by_trial`); `CONVERTERS` has the others. The rest stay calls of Relax: the attribute of
`relax.call` is their text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from itertools import islice, product
from types import FunctionType
from typing import Any

import numpy as np

from ....base.errors import LoopwrightError, explain
from ....base.registry import Registry
from ....base.span import Span
from ....ir.dtype import DataType, numpy_dtype
from ....ir.expr import GlobalVar
from ....ir.functor import rewrite
from ....ir.module import IRModule
from ....ir.op import Op
from ....ir.prim_expr import IntImm
from ....ir.prim_expr import Var as TirVar
from ....ir.serialize import load_json, save_json
from ....ir.structural import structural_equal
from ....ir.variables import vars_in
from ....relax import BlockBuilder
from ....relax import expr as rx
from ....relax.dpl.matcher import same_attr
from ....relax.struct_info import (
    PrimStructInfo,
    ShapeStructInfo,
    StructInfo,
    TensorStructInfo,
    TupleStructInfo,
)
from ....runtime.tensor import tensor
from ....tir.index_map import IndexMap
from ..expr import Call, Constant, Expr, Function, If, Tuple, TupleGetItem, TupleWrapper, Var
from ..infer import call_type
from ..operators.core import ROWS, Inputs, Row, builder, op, row_of
from ..operators.tensor import fields
from ..types import Any as AnyExtent
from ..types import TensorType, TupleType, same_type

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


# ---------------------------------------------------------------------- rows that are one operator


class _Recorder:
    """Replaces the operators of Relax while a row's body runs, and records the one call."""

    def __init__(self, calls: list[Any], path: str = "") -> None:
        self._calls, self._path = calls, path

    def __getattr__(self, name: str) -> _Recorder:
        return _Recorder(self._calls, f"{self._path}.{name}" if self._path else name)

    def __call__(self, *args: Any, **kwargs: bool) -> Any:
        self._calls.append((self._path, args, kwargs, result := object()))
        return result


@cache
def twins() -> dict[str, tuple[Row, dict[str, str]]]:
    """Relax's operator -> the row of Relay that is it, and of the row's parameters Relax's names."""
    rows: dict[str, tuple[Row, dict[str, str]]] = {}
    for row in ROWS.values():
        twin = _twin(row)
        if twin is not None:
            rows.setdefault(twin[0], (row, twin[1]))
    return rows


def _twin(row: Row) -> tuple[str, dict[str, str]] | None:
    marks = {name: object() for name in row.signature.parameters}
    calls: list[Any] = []
    body: Any = row.body
    space = {**body.__globals__, "R": _Recorder(calls)}
    copy = FunctionType(body.__code__, space, body.__name__, body.__defaults__, body.__closure__)
    try:
        result = copy(**marks)
    except (AttributeError, LookupError, TypeError, ValueError):
        return None  # the body inspects its arguments: not a plain call
    if len(calls) != 1 or calls[0][3] is not result:
        return None
    path, args, kwargs, _ = calls[0]
    definition = _definition(f"relax.{path}")
    names = {id(mark): name for name, mark in marks.items()}
    if definition is None or any(id(a) not in names for a in (*args, *kwargs.values())):
        return None
    params = [p.name for p in definition.params]
    values = {**dict(zip(params, args, strict=False)), **kwargs}
    mapped = {names[id(mark)]: param for param, mark in values.items()}
    return (f"relax.{path}", mapped) if len(mapped) == len(marks) else None


def _definition(name: str) -> Any:
    return Op.get(name).get_attr("definition") if name in Op.list_op_names() else None


# ---------------------------------------------------------------------- rows found by trial

_TRIALS = 64  # ways to give a row its attributes
# What operators do not read, as they are called by rows: attributes that need not be the same.
_UNREAD = {"relax.nn.batch_norm": {"momentum"}}
_OTHER_NAMES = {"gather_elements": "gather", "nonzero": "argwhere", "flip": "reverse"}


@cache
def namesakes() -> dict[str, list[Row]]:
    """The rows by the last part of their names, without underscores."""
    rows: dict[str, list[Row]] = {}
    for name, row in ROWS.items():
        rows.setdefault(_plain_name(name), []).append(row)
    return rows


def _plain_name(name: str) -> str:
    leaf = name.rpartition(".")[2]
    return _OTHER_NAMES.get(leaf, leaf).replace("_", "")


def by_trial(c: _Call) -> Any:
    """A call of a row of the same name whose meaning, when its body is run, is the very call."""
    for row in namesakes().get(_plain_name(c.call.op.name), ()):
        for values in _bindings(row, c):
            try:
                result = row.builder(**{n: c.plain(v) for n, v in values.items()})
                whole = result.tuple_value if isinstance(result, TupleWrapper) else result
                if isinstance(whole, Call) and whole.op is row.op and _means(row, whole, values, c):
                    return result
            except (
                LoopwrightError,
                ArithmeticError,
                AttributeError,
                LookupError,
                TypeError,
                ValueError,
            ):
                continue  # the row's body takes other arguments
    return None


def _bindings(row: Row, c: _Call) -> Iterator[dict[str, Any]]:
    """The arguments of a row that those of a call may be: by their names, then in their order, an
    attribute also negated or taken out of a list."""
    left = {n: _python(v) for n, v in c.values.items() if not isinstance(v, str) or v != "void"}
    bound = {name: left.pop(name) for name in row.signature.parameters if name in left}
    tensors = [name for name, value in left.items() if isinstance(value, rx.Expr)]
    for name in row.inputs:
        if name not in bound:
            bound[name] = left.pop(tensors.pop(0)) if tensors else None
    if any(bound[n] is None for n in row.inputs if n not in row.optional):
        return
    if any(isinstance(v, rx.ShapeExpr) for n, v in bound.items() if n not in row.inputs):
        return  # extents known at run time cannot be attributes
    open_names = [name for name in row.attr_names if name not in bound]
    choices = [list(_choices(row, name, left)) for name in open_names]
    for picked in islice(product(*choices), _TRIALS):
        sources = [source for source, _ in picked if source]
        if len({*sources}) == len(sources):
            yield {**bound, **dict(zip(open_names, (v for _, v in picked), strict=True))}


def _choices(row: Row, name: str, left: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Pairs (source, value) that an attribute may be: its default, or a remaining argument."""
    default = row.defaults.get(name)
    if name in row.defaults:
        yield "", default
    for source, value in left.items():
        for variant in _variants(value):
            if isinstance(variant, bool) or not isinstance(default, bool):
                yield source, variant


def _python(value: Any) -> Any:
    """Numbers and shapes as Python's; other values stay."""
    if isinstance(value, rx.PrimValue):
        return getattr(value.value, "value", value)
    if isinstance(value, rx.ShapeExpr):
        dims = [getattr(d, "value", None) for d in value.values]
        return value if None in dims else dims
    return value


def _variants(value: Any) -> list[Any]:
    if isinstance(value, bool):
        return [value, not value]
    if not isinstance(value, str) and hasattr(value, "__len__") and len(value) == 1:
        return [value, value[0]]
    return [value]


def _means(row: Row, candidate: Call, values: dict[str, Any], c: _Call) -> bool:
    """Whether the body of a row makes the call of Relax of its arguments."""
    bb = BlockBuilder()
    with bb.testing_scope([]):
        args = [values[name] for name in row.inputs if values[name] is not None]
        result = row.apply(args, row.values_of(candidate), bb)
    while isinstance(result, rx.Var) and bb.lookup_binding(result) is not None:
        result = bb.lookup_binding(result)
    if not isinstance(result, rx.Call) or result.op is not c.call.op:
        return False
    unread = _UNREAD.get(c.call.op.name, set())
    one, other = ({} if x.attrs is None else dict(x.attrs.items()) for x in (result, c.call))
    names = (one.keys() | other.keys()) - unread
    return _same(result.args, c.call.args) and all(
        _same(one.get(name), other.get(name)) for name in names
    )


def _same(a: Any, b: Any) -> bool:
    """Whether two arguments or attributes are the same; no type is "void"."""
    a, b = _python(a), _python(b)
    if isinstance(a, rx.Tuple) and isinstance(b, rx.Tuple):
        a, b = a.fields, b.fields
    if isinstance(a, rx.Expr) or isinstance(b, rx.Expr):
        return a is b or (not isinstance(a, rx.Var) and structural_equal(a, b))
    if not isinstance(a, str) and hasattr(a, "__len__") and hasattr(b, "__len__"):
        return len(a) == len(b) and all(map(_same, a, b))
    return str(a or "void") == str(b or "void") if _is_type(a) or _is_type(b) else same_attr(a, b)


def _is_type(value: Any) -> bool:
    return value is None or isinstance(value, (str, DataType))


# ---------------------------------------------------------------------- those that take a look

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

    def plain(self, value: object) -> Any:
        """A tensor as Relay's expression; other values stay."""
        if isinstance(value, (rx.Var, rx.Constant, rx.Tuple, rx.TupleGetItem)):
            return self.work.value(value)
        return value

    def shape(self, name: str) -> list[Any]:
        """The shape of an argument, with None for unknown extents."""
        dims = self.values[name].struct_info.get_shape()
        return [d.value if isinstance(d, IntImm) else None for d in dims or ()]


def _builder(name: str) -> Any:
    """The builder of an operator. Raises KeyError for an unknown one."""
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
    if len(b) == 2 <= len(a):
        weight_value = c.work.definition(c.values["x2"])
        if isinstance(weight_value, rx.Call) and weight_value.op is Op.get("relax.permute_dims"):
            return _builder("nn.dense")(c.x1, c.work.value(weight_value.args[0]), b[1])
        if isinstance(weight_value, rx.Constant):
            weight = np.ascontiguousarray(weight_value.data.numpy().T)
            return _builder("nn.dense")(c.x1, Constant(tensor(weight)), b[1])
        return _builder("nn.matmul")(c.x1, c.x2)
    if len(a) == len(b) == 3:
        if c.work.nt_batch_matmul:
            weight_value = _builder("transpose")(c.x2, [0, 2, 1])
            return _builder("nn.batch_matmul")(c.x1, weight_value)
        return _builder("nn.batch_matmul")(c.x1, c.x2, transpose_b=False)
    if len(a) == len(b) > 3 and a[:-2] == b[:-2] and None not in (*a, *b):
        one, other = (_builder("reshape")(x, (-1, *d[-2:])) for x, d in ((c.x1, a), (c.x2, b)))
        product = _builder("nn.batch_matmul")(one, other, transpose_b=False)
        return _builder("reshape")(product, (*a[:-1], b[-1]))
    return None


def _convolution(c: _Call) -> Any:
    layout, weight = str(c.kernel_layout), c.shape("weight")
    transposed = "output_padding" in c.values
    channels, groups = weight[layout.index("O")], int(c.groups)
    sizes = {
        "channels": channels * groups if transposed and channels else channels,
        "kernel_size": tuple(weight[layout.index(d)] for d in "DHW" if d in layout),
    }
    names = "strides padding dilation groups data_layout kernel_layout"
    options = {name: getattr(c, name) for name in names.split()}
    if transposed:
        options["output_padding"] = c.output_padding
    if None in sizes["kernel_size"] or str(c.out_layout) != str(c.data_layout):
        return None
    if str(c.out_dtype) not in ("void", ""):
        options["out_dtype"] = str(c.out_dtype)
    return _builder(c.call.op.name.removeprefix("relax."))(c.data, c.weight, **options, **sizes)


for _rank in "123":
    for _name in (f"conv{_rank}d", f"conv{_rank}d_transpose"):
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


@converter("strided_slice")
def _(c: _Call) -> Any:
    begin, end, axes = (_numbers(c.values[name]) for name in ("begin", "end", "axes"))
    strides_arg = c.values.get("strides")
    strides = [1] * len(axes or ()) if strides_arg is None else _numbers(strides_arg)
    if None in (begin, end, strides, axes) or c.values.get("assume_inbound"):
        return None
    return _builder("strided_slice")(c.x, begin, end, strides, "end", axes)


def _numbers(values: rx.Expr | Sequence[int]) -> list[int] | None:
    """Integers of a list or a tuple; None where one is not known."""
    items = [_python(v) for v in getattr(values, "fields", values)]
    return items if all(type(v) is int for v in items) and items else None


@converter("squeeze")
def _(c: _Call) -> Any:
    return _builder("squeeze")(c.x, None if c.axis is None else list(c.axis))


@converter("nn.pad")
def _(c: _Call) -> Any:
    width, value = _numbers(c.pad_width), c.values["pad_value"]
    if width is None or str(c.pad_mode) not in ("constant", "edge", "reflect"):
        return None
    fill = np.array(_python(value), dtype=numpy_dtype(c.values["data"].struct_info.dtype))
    pairs = [tuple(width[k : k + 2]) for k in range(0, len(width), 2)]
    return _builder("nn.pad")(c.data, Constant(tensor(fill)), pairs, str(c.pad_mode))


def _index_of(c: _Call) -> Any:
    index = _builder(c.call.op.name.removeprefix("relax."))(c.x, c.axis, bool(c.keepdims))
    return _builder("cast")(index, "int64")


for _name in ("argmax", "argmin"):
    converter(_name)(_index_of)


@converter("nonzero")
def _(c: _Call) -> Any:
    return _builder("cast")(_builder("transpose")(_builder("argwhere")(c.x)), "int64")


@converter("gather_elements")
def _(c: _Call) -> Any:
    return _builder("gather")(c.data, int(c.axis), c.indices)


def _coordinates_first(c: _Call) -> Any:
    """Relay has the axis of an index's parts first."""
    rank = len(c.shape("indices"))
    return _builder("transpose")(c.indices, [rank - 1, *range(rank - 1)])


@converter("gather_nd")
def _(c: _Call) -> Any:
    return _builder("gather_nd")(c.data, _coordinates_first(c), int(c.batch_dims))


@converter("scatter_nd")
def _(c: _Call) -> Any:
    return _builder("scatter_nd")(c.data, _coordinates_first(c), c.updates, str(c.reduction))


def _composed(name: str) -> Callable[[Callable[..., Any]], None]:
    """Add the meaning, in operators that Relay has, of one that it has not."""

    def add(meaning: Callable[..., Any]) -> None:
        def convert(c: _Call) -> Any:
            x = next(iter(c.values.values()))
            number = numpy_dtype(x.struct_info.dtype)
            return meaning(c.plain(x), lambda v: Constant(tensor(np.array(v, dtype=number))))

        CONVERTERS.register(f"relax.{name}", convert)

    return add


def _hard_sigmoid(x: Expr, const: Callable[..., Any]) -> Any:
    return _builder("divide")(_builder("clip")(_builder("add")(x, const(3)), 0.0, 6.0), const(6))


@_composed("nn.silu")
def _(x: Expr, const: Callable[..., Any]) -> Any:
    return _builder("multiply")(x, _builder("sigmoid")(x))


@_composed("nn.hardsigmoid")
def _(x: Expr, const: Callable[..., Any]) -> Any:
    return _hard_sigmoid(x, const)


@_composed("nn.hardswish")
def _(x: Expr, const: Callable[..., Any]) -> Any:
    return _builder("multiply")(x, _hard_sigmoid(x, const))


@_composed("nn.gelu")
def _(x: Expr, const: Callable[..., Any]) -> Any:
    ratio = _builder("erf")(_builder("multiply")(x, const(0.5**0.5)))
    return _builder("multiply")(
        _builder("multiply")(x, const(0.5)), _builder("add")(ratio, const(1))
    )


# ---------------------------------------------------------------------- the walk


class _Reverser:
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
        view = _Call(self, call)
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
            func = _Reverser(mod, nt_batch_matmul).function(func)
        functions[gvar] = func
    return IRModule(functions)
