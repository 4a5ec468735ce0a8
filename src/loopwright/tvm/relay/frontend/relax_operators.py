"""The operator of Relay for a call of one of Relax.

Where an operator of Relay is one operator of Relax, its row says so (`twins`), or its body does
when run (`by_trial`); `CONVERTERS` has the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from itertools import islice, product
from typing import TYPE_CHECKING, Any

import numpy as np

from ....base.errors import LoopwrightError
from ....base.registry import Registry
from ....ir.dtype import DataType, numpy_dtype
from ....ir.op import Op
from ....ir.prim_expr import IntImm
from ....ir.structural import structural_equal
from ....relax import BlockBuilder
from ....relax import expr as rx
from ....relax.dpl.matcher import same_attr
from ....runtime.tensor import tensor
from ..expr import Call, Constant, Expr, TupleWrapper
from ..operators.core import ROWS, Row

if TYPE_CHECKING:
    from .from_relax import Reverser

# ---------------------------------------------------------------------- rows that are one operator


@cache
def twins() -> dict[str, tuple[Row, dict[str, str]]]:
    """Relax's operator -> the row of Relay that is it, and of the row's parameters Relax's names."""
    rows: dict[str, tuple[Row, dict[str, str]]] = {}
    for row in ROWS.values():
        if row.twin is not None:
            rows.setdefault(row.twin[0], (row, row.twin[1]))
    return rows


# ---------------------------------------------------------------------- rows found by trial

_TRIALS = 64  # ways to give a row its attributes
# What operators do not read, as they are called by rows: attributes that need not be the same.
_UNREAD = {"relax.nn.batch_norm": {"momentum"}}
_OTHER_NAMES = {"gather_elements": "gather", "permute_dims": "transpose"}


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


def by_trial(c: OperatorCall) -> Any:
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


def _bindings(row: Row, c: OperatorCall) -> Iterator[dict[str, Any]]:
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


def _means(row: Row, candidate: Call, values: dict[str, Any], c: OperatorCall) -> bool:
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

CONVERTERS: Registry[str, Callable[[OperatorCall], Any]] = Registry("converter of Relax to Relay")


def converter(
    name: str,
) -> Callable[[Callable[[OperatorCall], Any]], Callable[[OperatorCall], Any]]:
    """Add what makes Relay of a call of an operator of Relax; it may give None."""

    def register(fn: Callable[[OperatorCall], Any]) -> Callable[[OperatorCall], Any]:
        return CONVERTERS.register(f"relax.{name}", fn)

    return register


class OperatorCall:
    """A call of Relax: arguments and attributes by name, tensors as expressions of Relay."""

    def __init__(self, work: Reverser, call: rx.Call) -> None:
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


@converter("reshape")
def _(c: OperatorCall) -> Any:
    shape = c.values["shape"]
    if not isinstance(shape, rx.ShapeExpr):
        return None  # a value
    dims = [d.value if isinstance(d, IntImm) else -1 for d in shape.values]
    return _builder("reshape")(c.x, dims) if dims.count(-1) <= 1 and 0 not in dims else None


@converter("concat")
def _(c: OperatorCall) -> Any:
    return _builder("concatenate")(c.tensors, int(c.axis or 0))


@converter("squeeze")
def _(c: OperatorCall) -> Any:
    return _builder("squeeze")(c.x, None if c.axis is None else list(c.axis))


def _reduction(c: OperatorCall) -> Any:
    return _builder(c.call.op.name.removeprefix("relax."))(c.x, c.axis, bool(c.keepdims))


for _name in ("sum", "mean", "max", "min", "prod"):
    converter(_name)(_reduction)


@converter("matmul")
def _(c: OperatorCall) -> Any:
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


def _convolution(c: OperatorCall) -> Any:
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


@converter("expand_dims")
def _(c: OperatorCall) -> Any:
    result = c.x
    rank = len(c.shape("x")) + len(c.axis)
    for axis in sorted(a % rank for a in c.axis):
        result = _builder("expand_dims")(result, axis, 1)
    return result


@converter("strided_slice")
def _(c: OperatorCall) -> Any:
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


@converter("nn.pad")
def _(c: OperatorCall) -> Any:
    width, value = _numbers(c.pad_width), c.values["pad_value"]
    if width is None or str(c.pad_mode) not in ("constant", "edge", "reflect"):
        return None
    fill = np.array(_python(value), dtype=numpy_dtype(c.values["data"].struct_info.dtype))
    pairs = [tuple(width[k : k + 2]) for k in range(0, len(width), 2)]
    return _builder("nn.pad")(c.data, pairs, Constant(tensor(fill)), str(c.pad_mode))


def _index_of(c: OperatorCall) -> Any:
    index = _builder(c.call.op.name.removeprefix("relax."))(c.x, c.axis, bool(c.keepdims))
    return _builder("cast")(index, "int64")


for _name in ("argmax", "argmin"):
    converter(_name)(_index_of)


@converter("nonzero")
def _(c: OperatorCall) -> Any:
    return _builder("cast")(_builder("transpose")(_builder("argwhere")(c.x)), "int64")


def _coordinates_first(c: OperatorCall) -> Any:
    """Relay has the axis of an index's parts first."""
    rank = len(c.shape("indices"))
    return _builder("transpose")(c.indices, [rank - 1, *range(rank - 1)])


@converter("gather_nd")
def _(c: OperatorCall) -> Any:
    return _builder("gather_nd")(c.data, _coordinates_first(c), int(c.batch_dims))


@converter("scatter_nd")
def _(c: OperatorCall) -> Any:
    return _builder("scatter_nd")(c.data, _coordinates_first(c), c.updates, str(c.reduction))


def _composed(name: str) -> Callable[[Callable[..., Any]], None]:
    """Add the meaning, in operators that Relay has, of one that it has not."""

    def add(meaning: Callable[..., Any]) -> None:
        def convert(c: OperatorCall) -> Any:
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
