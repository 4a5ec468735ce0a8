"""The form of an operator: one decorated function says everything.

    @op("relax.nn.relu")
    def relu(data: Tensor):
        "max(data, 0), element by element."
        return te.compute(data.shape, lambda *i: tir.max(data(*i), tir.const(0, data.dtype)))

    @relu.numpy
    def _(data):
        return np.maximum(data, 0)

    relu.samples(case((2, 3)), case(("n", 8)))

The function's parameters are the operator's signature; their annotations say what each one is:

| annotation | in the graph | in the body |
|---|---|---|
| `Tensor` | a tensor expression (`Tensor | None`: may be left out) | te.Tensor (or a PrimExpr for a scalar constant) |
| `Tensors` | a tuple of tensors | a list of te.Tensors |
| `Shape` | a shape expression | a list of PrimExprs |
| `Prim` | a scalar (PrimValue) | a PrimExpr |
| `Prims` | a tuple of scalars | a list of PrimExprs |
| `Callee` | a function | not passed |
| anything else | an attribute | its Python value |

Attribute annotations convert what the user gives (`DType`, `Axes`, `Axis`, `Ints`, `Sections`, int,
float, bool, str). The body is the default legalization; by running it on placeholders the struct info
is inferred too, so a shape is not written twice. A body of None (`...`) means that the hooks say
everything.

Hooks (a closed list): `numpy` the meaning; `infer` the struct info, where the body cannot tell;
`build` checks and completes arguments before the call is made; `legalize` another lowering than
the body; `tir` a TensorIR body; `grad`, `layout`; `samples` the cases of the test matrix.
"""

from __future__ import annotations

import functools
import inspect
import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NewType
from weakref import WeakKeyDictionary

import numpy as np

from .. import relax, te
from ..base.errors import LoopwrightError, explain
from ..ir.dtype import DataType
from ..ir.expr import Attrs
from ..ir.functor import post_order_visit
from ..ir.module import VDevice
from ..ir.op import Op, register_op
from ..ir.prim_expr import FloatImm, IntImm, PrimExpr, Var
from ..ir.structural import StructuralKey, structural_equal
from ..relax.expr import Call, Constant, Expr, PrimValue, ShapeExpr, Tuple
from ..relax.expr import Var as GraphVar
from ..relax.op import register_view as register_relax_view
from ..relax.struct_info import (
    ObjectStructInfo,
    PrimStructInfo,
    ShapeStructInfo,
    StructInfo,
    TensorStructInfo,
    TupleStructInfo,
)
from ..relax.te_call import scalar_literal
from ..script.relax import register_view as register_script_view
from ..te.tensor import Operators

if TYPE_CHECKING:  # what a body gets for each depends on where it is used
    Tensor = Any
    Tensors = Any
    Shape = Any
    Prim = Any
    Prims = Any
    Callee = Any
    DType = Any
    Axis = Any
    Axes = Any
    Ints = Any
    Sections = Any
else:
    Tensor = NewType("Tensor", object)
    Tensors = NewType("Tensors", object)
    Shape = NewType("Shape", object)
    Prim = NewType("Prim", object)
    Prims = NewType("Prims", object)
    Callee = NewType("Callee", object)
    DType = NewType("DType", object)
    Axis = NewType("Axis", object)
    Axes = NewType("Axes", object)
    Ints = NewType("Ints", object)
    Sections = NewType("Sections", object)

# Fusion kinds, as AnnotateTIROpPattern numbers them.
ELEMENTWISE, BROADCAST, INJECTIVE, REDUCTION, FUSABLE, TUPLE, OPAQUE = 0, 1, 2, 3, 4, 7, 8

_GRAPH_KINDS = ("Tensor", "Tensors", "Shape", "Prim", "Prims", "Callee")
OPERATORS: dict[str, Operator] = {}


@dataclass(frozen=True)
class Param:
    """One parameter of an operator. `kind` is a graph kind, or "attr" with its converter."""

    name: str
    kind: str
    optional: bool
    default: Any
    convert: str = ""


@dataclass(frozen=True)
class Case:
    """One row of an operator's test matrix: shapes or arrays for the graph arguments, then
    attributes. A string in a shape is a symbolic dimension."""

    args: tuple[Any, ...]
    attrs: dict[str, Any]
    dtype: str
    low: float
    high: float


def case(
    *args: Any, dtype: str = "float32", low: float = -2.0, high: float = 2.0, **attrs: Any
) -> Case:
    """A sample: `case((2, 3), ("n", 3), axis=1)`; inputs are drawn from [low, high)."""
    return Case(args, attrs, dtype, low, high)


class Operator:
    """One operator: its name, signature, body and hooks. Made by `@op`."""

    def __init__(
        self, name: str, body: Callable[..., Any], kind: int | None, pure: bool, view: bool
    ) -> None:
        self.name = name
        self.body = body
        self.te_name = body.__name__
        self.__name__ = self.te_name
        self.__doc__ = inspect.cleandoc(body.__doc__ or "")
        self.kind = kind
        self.params = _read_params(body)
        self.graph_params = [p for p in self.params if p.kind != "attr"]
        self.attr_params = [p for p in self.params if p.kind == "attr"]
        self.signature = _public_signature(body, self.params)
        self.cases: list[Case] = []
        self.hooks: dict[str, Callable[..., Any]] = {}
        self.op = register_op(name)
        self.op.set_attr("FPurity", pure)
        self.op.set_attr("FInferStructInfo", self._infer)
        self.op.set_attr("definition", self)
        if kind is not None:
            self.op.set_attr("TOpPattern", kind)
        if not _is_empty(body):
            self.op.set_attr("FLegalize", self._legalize)
        builder = self._make_builder()
        self.builder = builder
        if view:
            short = name.removeprefix("relax.")
            register_relax_view(short, builder)
            register_script_view(short, builder)

    def __repr__(self) -> str:
        return f"<operator {self.name}{self.signature}>"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The tensor expression itself: `softmax(te_tensor, axis=1)`."""
        return self.body(*args, **kwargs)

    # -- hooks ---------------------------------------------------------------------------------

    def numpy(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        """Set the meaning: numpy arrays (lists of them, shapes as tuples) and attributes in."""
        self.op.set_attr("FNumpy", self._numpy_entry(fn))
        return fn

    def infer(self, fn: Callable[..., StructInfo]) -> Callable[..., StructInfo]:
        """Set the struct info rule: struct infos of the graph arguments, then attributes."""
        self.hooks["infer"] = fn
        return fn

    def build(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        """Set the check that completes the builder's arguments: a dict of them, changed."""
        self.hooks["build"] = fn
        return fn

    def legalize(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        """Set the lowering: (bb, call) -> expression, or None for "leave it"."""
        self.op.set_attr("FLegalize", fn)
        return fn

    def tir(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        """Set a TensorIR body: struct infos and attributes in, a PrimFunc out, whose buffers are
        the arguments, then the results. It is the operator's tensor expression, too."""

        def body(*tensors: Any, **attrs: Any) -> Any:
            infos = [TensorStructInfo(t.shape, t.dtype) for t in tensors]
            return te.extern_primfunc(list(tensors), fn(*infos, **attrs), name=self.te_name)

        self.body = body
        self.op.set_attr("FLegalize", self._legalize)
        return fn

    def grad(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        """Set the gradient: (orig_var, orig_call, output_grad, ctx) -> list of expressions."""
        self.op.set_attr("FPrimalGradient", fn)
        return fn

    def layout(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        """Set how layouts pass through: see `relax.transform.ConvertLayout`."""
        self.op.set_attr("FRelaxInferLayout", fn)
        return fn

    def samples(self, *cases: Case) -> None:
        """Add rows to the test matrix."""
        self.cases.extend(cases)

    # -- the call ------------------------------------------------------------------------------

    def _make_builder(self) -> Callable[..., Call]:
        signature, operator = self.signature, self

        def builder(*args: Any, **kwargs: Any) -> Call:
            try:
                bound = signature.bind(*args, **kwargs)
            except TypeError as err:
                what = f"{operator.name}: {err}"
                raise TypeError(explain(what, instead=f"it takes {signature}")) from None
            bound.apply_defaults()
            return operator.make_call(dict(bound.arguments))

        builder.__name__ = builder.__qualname__ = self.name.rsplit(".", 1)[-1]
        builder.__doc__ = self.__doc__
        builder.__signature__ = signature  # type: ignore[attr-defined]
        builder.operator = self  # type: ignore[attr-defined]
        return builder

    def make_call(self, values: dict[str, Any]) -> Call:
        """The Call from a full dict of arguments."""
        if "build" in self.hooks:
            values = self.hooks["build"](**values)
        graph: list[Any] = []
        for p in self.graph_params:
            value = values[p.name]
            if value is None and p.optional:
                continue
            graph.append(_to_graph(self, p, value, values))
        attrs = {p.name: _to_attr(self, p, values[p.name]) for p in self.attr_params}
        return Call(self.op, graph, Attrs(self.name, attrs) if attrs else None)

    def attrs_of(self, call: Call) -> dict[str, Any]:
        """A call's attributes as the body takes them (an unknown dtype is None)."""
        if call.attrs is None:
            return {}
        known = {p.name: p for p in self.attr_params}
        return {
            k: None if known[k].convert == "DType" and v == "void" else v
            for k, v in call.attrs.items()
        }

    def args_of(self, call: Call) -> dict[str, Any]:
        """A call's graph arguments by parameter name; those left out are None."""
        names = [p.name for p in self.graph_params]
        optional = [p.name for p in self.graph_params if p.optional]
        missing = len(names) - len(call.args)
        left_out = set(optional[len(optional) - missing :]) if missing > 0 else set()
        given = iter(call.args)
        return {n: None if n in left_out else next(given) for n in names}

    # -- derived facts -------------------------------------------------------------------------

    def _infer(self, call: Call, bb: Any) -> StructInfo:
        args = self.args_of(call)
        for p in self.graph_params:
            _check_kind(self, p, args[p.name], call)
        try:
            hook = self.hooks.get("infer")
            if hook is not None:
                infos = [None if args[n] is None else _info(args[n]) for n in args]
                made = hook(*infos, **self.attrs_of(call))
            else:
                made = self._infer_by_body(args, self.attrs_of(call))
            device = _device_of(args)
            return made if device is None else _on_device(made, device)
        except (ValueError, TypeError) as err:
            if str(err).startswith(self.name):
                raise
            given = ", ".join(str(_info(a)) for a in call.args)
            text = f"{self.name}: {err}"
            raise type(err)(explain(text, got=given, span=call.span)) from err

    def _infer_by_body(self, args: dict[str, Any], attrs: dict[str, Any]) -> StructInfo:
        marks: dict[int, Var] = {}
        given, dtype_known = [], True
        for p in self.graph_params:
            value = args[p.name]
            if _rank_unknown(value):
                return ObjectStructInfo() if p.kind == "Tensors" else TensorStructInfo(dtype="void")
            dtype_known = dtype_known and not _dtype_unknown(value)
            given.append(_placeholder(p, value, marks))
        out = self.body(*given, **attrs)
        return _struct_info_of(out, marks, dtype_known)

    def _legalize(self, bb: Any, call: Call) -> Any:
        args = self.args_of(call)
        given = []
        for value in args.values():
            if value is not None and not _is_static(value):
                return call
            if value is None or not isinstance(_info(value), ShapeStructInfo):
                given.append(value)
            else:
                given.append(ShapeExpr(_info(value).values))
        for value in call.args:
            self._check_dtype_known(value)
        for n, p in enumerate(self.graph_params):
            if p.name == "fill_value":  # a constant one is part of the loops
                literal = scalar_literal(given[n])
                given[n] = given[n] if literal is None else literal
        # Attributes are no business of call_te.
        body = functools.partial(self.body, **self.attrs_of(call))
        found = _same_loops(self.name, call, args)
        if found is None:
            return bb.call_te(body, *given, primfunc_name_hint=self.te_name)
        key, tensors = found
        known = _LOWERED.setdefault(bb, {})
        earlier = known.get(key)
        if earlier is None:
            earlier = known[key] = bb.call_te(body, *given, primfunc_name_hint=self.te_name)
            return earlier
        # The loops are there already; only the tensors are other ones.
        return earlier.replace(args=(earlier.args[0], Tuple(tensors), *earlier.args[2:]))

    def _check_dtype_known(self, value: Any) -> None:
        if _dtype_unknown(value):
            raise AssertionError(
                f"To legalize {self.name.replace('relax', 'R', 1)} the dtype of its arguments "
                f"must be known; got {_info(value)}"
            )

    def _numpy_entry(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        optional = [p.name for p in self.attr_params if p.convert == "DType"]

        def entry(*args: Any, **attrs: Any) -> Any:
            for name in optional:
                if attrs.get(name) == "void":
                    attrs[name] = None
            with np.errstate(all="ignore"):
                return fn(*args, **attrs)

        return entry


def op(
    name: str, *, kind: int | None = None, pure: bool = True, view: bool = True
) -> Callable[[Callable[..., Any]], Operator]:
    """Define the operator `name` by a function: see the module's text."""

    def define(body: Callable[..., Any]) -> Operator:
        if name in OPERATORS:
            what = f"operator {name} is defined twice"
            hint = "an operator has one definition; use relax.register_legalize for another kernel"
            raise LoopwrightError(explain(what, got=body.__module__, instead=hint))
        made = OPERATORS[name] = Operator(name, body, kind, pure, view)
        return made

    return define


# -- signatures --------------------------------------------------------------------------------


def _read_params(body: Callable[..., Any]) -> list[Param]:
    params = []
    for p in inspect.signature(body).parameters.values():
        text = p.annotation if isinstance(p.annotation, str) else str(p.annotation)
        base = text.split("|")[0].strip().rsplit(".", 1)[-1]
        optional = p.default is not inspect.Parameter.empty
        kind = base if base in _GRAPH_KINDS else "attr"
        params.append(Param(p.name, kind, optional, p.default, base))
    return params


def _public_signature(body: Callable[..., Any], params: list[Param]) -> inspect.Signature:
    names = {"Tensor": "Expr", "Tensors": "list[Expr]", "Shape": "ShapeExpr | list"}
    made = []
    for p, old in zip(params, inspect.signature(body).parameters.values(), strict=True):
        made.append(old.replace(annotation=names.get(p.kind, old.annotation)))
    return inspect.Signature(made)


def _is_empty(body: Callable[..., Any]) -> bool:
    """Whether the body says nothing: only a docstring or `...`."""
    code = body.__code__
    return set(code.co_names) == set() and not code.co_freevars and len(code.co_code) <= 12


# -- arguments ---------------------------------------------------------------------------------


def _to_graph(operator: Operator, p: Param, value: Any, values: dict[str, Any]) -> Any:
    if p.kind == "Shape" and isinstance(value, (list, tuple)):
        return ShapeExpr(value)
    if p.kind == "Shape" and isinstance(value, (int, PrimExpr)):
        return ShapeExpr([value])
    if p.kind == "Prim":
        return value if isinstance(value, Expr) else PrimValue(value)
    if p.kind == "Prims":
        if isinstance(value, Expr):
            return value
        return Tuple([v if isinstance(v, Expr) else PrimValue(v) for v in value])
    if p.kind == "Tensors" and isinstance(value, (list, tuple)):
        return Tuple(list(value))
    if p.kind == "Tensor" and isinstance(value, (bool, int, float, np.ndarray, np.generic)):
        return relax.const(value, _sibling_dtype(operator, values))
    if p.kind == "Callee" or isinstance(value, (Expr, PrimExpr)) or hasattr(value, "struct_info"):
        return value
    what = f"{operator.name}: argument {p.name} must be a Relax expression"
    raise TypeError(explain(what, got=f"{type(value).__name__}: {value!r}"))


def _sibling_dtype(operator: Operator, values: dict[str, Any]) -> str | None:
    for p in operator.graph_params:
        info = getattr(values[p.name], "struct_info", None)
        if isinstance(info, TensorStructInfo) and not info.dtype.is_void:
            return str(info.dtype)
    return None


def _int(value: Any) -> Any:
    return value.value if isinstance(value, IntImm) else int(value)


_ATTRIBUTES: dict[str, Callable[[Any], Any]] = {
    "DType": lambda v: DataType("void") if v is None else DataType(v),
    "Axis": lambda v: None if v is None else _int(v),
    "Axes": lambda v: None if v is None else [_int(x) for x in _listed(v)],
    "Ints": lambda v: None if v is None else [_int(x) for x in _listed(v)],
    "Sections": lambda v: [_int(x) for x in v] if isinstance(v, (list, tuple)) else _int(v),
    "int": lambda v: None if v is None else _int(v),
    "bool": lambda v: None if v is None else bool(v),
    "float": lambda v: None if v is None else float(v),
    "str": lambda v: None if v is None else str(v),
}


def _listed(value: Any) -> Any:
    return value if isinstance(value, (list, tuple, np.ndarray)) else [value]


def _to_attr(operator: Operator, p: Param, value: Any) -> Any:
    convert = _ATTRIBUTES.get(p.convert)
    if convert is None:
        return value
    try:
        return convert(value)
    except (TypeError, ValueError) as err:
        what = f"{operator.name}: attribute {p.name} is of type {p.convert}"
        raise TypeError(explain(what, got=repr(value))) from err


# -- struct infos ------------------------------------------------------------------------------


def _info(value: Any) -> Any:
    return getattr(value, "struct_info", None)


_EXPECTED = {
    "Tensor": (TensorStructInfo, "a tensor"),
    "Tensors": (TupleStructInfo, "a tuple of tensors"),
    "Shape": (ShapeStructInfo, "a shape"),
    "Prim": (PrimStructInfo, "a scalar"),
    "Prims": (TupleStructInfo, "a tuple of scalars"),
}


def _check_kind(operator: Operator, p: Param, value: Any, call: Call) -> None:
    expected = _EXPECTED.get(p.kind)
    if value is None or expected is None:
        return
    info = _info(value)
    ok = isinstance(info, expected[0])
    if ok and p.kind == "Tensors":
        ok = all(isinstance(f, TensorStructInfo) for f in info.fields)
    if not ok:
        what = f"{operator.name}: argument {p.name} must be {expected[1]}"
        raise TypeError(explain(what, got=str(info), span=call.span))


def _tensor_infos(value: Any) -> list[TensorStructInfo]:
    info = _info(value)
    fields = info.fields if isinstance(info, TupleStructInfo) else [info]
    return [f for f in fields if isinstance(f, TensorStructInfo)]


def _device_of(args: dict[str, Any]) -> VDevice | None:
    """Where the tensors live; None where none says it. Raises TypeError for two places."""
    found: dict[str, VDevice] = {}
    for name, value in args.items():
        for info in _tensor_infos(value):
            if info.vdevice is not None:
                found.setdefault(name, info.vdevice)
    devices = list(found.values())
    if any(not structural_equal(device, devices[0]) for device in devices):
        places = ", ".join(f"{name} on {device.target}" for name, device in found.items())
        hint = "move one of them with R.to_vdevice"
        raise TypeError(explain("tensors on different devices", got=places, instead=hint))
    return devices[0] if devices else None


def _on_device(info: StructInfo, device: VDevice) -> StructInfo:
    """A struct info whose tensors live on a device, those that say another one excepted."""
    if isinstance(info, TupleStructInfo):
        return TupleStructInfo([_on_device(f, device) for f in info.fields])
    if not isinstance(info, TensorStructInfo) or info.vdevice is not None:
        return info
    return TensorStructInfo(info.shape, info.dtype, device, info.ndim)


def _rank_unknown(value: Any) -> bool:
    info = _info(value)
    if isinstance(info, ShapeStructInfo):
        return info.values is None
    return any(f.ndim == -1 for f in _tensor_infos(value))


def _dtype_unknown(value: Any) -> bool:
    return any(f.dtype.is_void for f in _tensor_infos(value))


def _is_static(value: Any) -> bool:
    """Whether every dimension is known as an expression (possibly symbolic)."""
    info = _info(value)
    if isinstance(info, ShapeStructInfo):
        return info.values is not None
    if isinstance(info, PrimStructInfo):
        return info.value is not None
    return all(isinstance(f.shape, ShapeExpr) for f in _tensor_infos(value))


_counter = itertools.count()


def _placeholder(p: Param, value: Any, marks: dict[int, Var]) -> Any:
    info = _info(value)
    if value is None or p.kind == "Callee":
        return None
    if p.kind == "Tensor":
        return _te_placeholder(info, p.name, marks)
    if p.kind == "Tensors":
        return [_te_placeholder(f, p.name, marks) for f in info.fields]
    if p.kind == "Shape":
        return list(info.values)
    if p.kind == "Prim":
        return _prim_of(info, marks)
    return [_prim_of(f, marks) for f in info.fields]


def _prim_of(info: PrimStructInfo, marks: dict[int, Var]) -> PrimExpr:
    if info.value is not None:
        return info.value
    return _unknown_dim(marks)


def _unknown_dim(marks: dict[int, Var]) -> Var:
    var = Var(f"unknown_{next(_counter)}", "int64")
    marks[id(var)] = var  # kept alive, so that the id stays its own
    return var


def _te_placeholder(info: TensorStructInfo, name: str, marks: dict[int, Var]) -> Any:
    shape = info.get_shape()
    if shape is None:
        shape = tuple(_unknown_dim(marks) for _ in range(info.ndim))
    return te.placeholder(shape, "float32" if info.dtype.is_void else info.dtype, name)


def _struct_info_of(out: Any, marks: dict[int, Var], dtype_known: bool) -> StructInfo:
    if isinstance(out, (list, tuple)):
        return TupleStructInfo([_struct_info_of(o, marks, dtype_known) for o in out])
    dtype = out.dtype if dtype_known else "void"
    if marks and any(_mentions(dim, marks) for dim in out.shape):
        return TensorStructInfo(dtype=dtype, ndim=len(out.shape))
    return TensorStructInfo(tuple(out.shape), dtype)


def _mentions(expr: Any, marks: dict[int, Var]) -> bool:

    found = []
    post_order_visit(expr, lambda e: found.append(e) if id(e) in marks else None)
    return bool(found)


# What has been lowered with a builder: what decides the loops -> the call of them.
_LOWERED: WeakKeyDictionary[Any, dict[Any, Call]] = WeakKeyDictionary()


def _same_loops(name: str, call: Call, args: dict[str, Any]) -> tuple[Any, list[Any]] | None:
    """What decides which loops a call is lowered to, and the tensors it passes to them; None
    where that is not plain to see (scalar constants become literals in the loops)."""
    tensors: list[Any] = []
    parts: list[Any] = [name, None if call.attrs is None else _plain_key(call.attrs.values)]
    for value in args.values():
        part = _argument_key(value, tensors)
        if part is None:
            return None
        parts.append(part)
    return (tuple(parts), tensors) if parts[1] is not False else None


def _plain_key(values: dict[str, Any]) -> Any:
    """Attributes as a key, or False where one is more than plain data."""
    plain = (str, int, float, bool, type(None))
    made: list[Any] = []
    for name, value in values.items():
        items = value if isinstance(value, (list, tuple)) else (value,)
        if not all(isinstance(item, plain) for item in items):
            return False
        made.append((name, tuple(items), type(value)))
    return tuple(made)


def _argument_key(value: Any, tensors: list[Any]) -> Any:
    info = _info(value)
    if value is None:
        return "none"
    if isinstance(info, TensorStructInfo) and isinstance(value, (GraphVar, Constant)):
        if isinstance(value, Constant) and info.ndim == 0:
            return None
        tensors.append(value)
        return (str(info.dtype), *map(_dim_key, info.get_shape() or ()))
    if isinstance(info, ShapeStructInfo):
        return ("shape", *map(_dim_key, info.values or ()))
    if isinstance(value, PrimValue):
        return ("prim", str(value.value.dtype), _dim_key(value.value))
    if isinstance(value, Tuple):
        parts = [_argument_key(field, tensors) for field in value.fields]
        return None if None in parts else ("tuple", *parts)
    return None


def _dim_key(dim: Any) -> Any:
    if isinstance(dim, (IntImm, FloatImm)):
        return dim.value
    return dim if isinstance(dim, Var) else StructuralKey(dim, map_free_vars=False)


# What Python's operators on graph values and on whole te tensors build.
_PYTHON = (
    "add subtract multiply divide floor_divide mod power less less_equal greater greater_equal "
    "negative matmul equal not_equal left_shift right_shift bitwise_and bitwise_or bitwise_xor "
    "astype"
)


def install_python_operators() -> None:
    """Let `x + y`, `-x`, `x @ y`, ... build operators, on graph values and on te tensors."""
    for name in _PYTHON.split():
        made = OPERATORS[f"relax.{name}"]
        Expr._build[name] = made.builder
        Operators._build[name] = made


def find_operator(name_or_op: str | Op) -> Operator | None:
    """The definition of an operator, or None for one that is not defined here."""
    name = name_or_op.name if isinstance(name_or_op, Op) else name_or_op
    return OPERATORS.get(name)
