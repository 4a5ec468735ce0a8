"""How an operator of Relay is defined: one function from Relax expressions to a Relax expression.

    @op("nn.dense")
    def dense(data: Input, weight: Input, units=None, out_dtype=""):
        "data @ weight.T"
        return R.matmul(data, R.permute_dims(weight), out_dtype or None)

    @dense.arguments
    def _(types, attrs):          # shapes of arguments that follow from the others
        ...

Its signature is that of the builder `relay.nn.dense`. A parameter of the annotation `Input` is an
argument of the call, `Inputs` a tuple of them, all others are attributes. The body is the operator's
meaning: translation to Relax is running it, and the result's type is what Relax infers of it.

`InputNumber`, `InputInt32` and kin are arguments for which the builder also takes a number.
An operator that is one of Relax is a line, `same("nn.relu")`. The operator for a shape or a number that
is known only at run time is a row of its own, `@op("dyn.tile", static=tile)`: the builder of `tile` calls
it where the argument is an expression.

Facts that passes query are its keywords, or those of the loop that defines its family:
`@op("nn.dense", kind=FUSABLE, mixed="always", layout=layouts.dense)`.

Hooks: `arguments(types, attrs)` infers types of arguments from the others' (None where it
cannot); `infer(types, attrs)` the result's type, where Relax's inference says less;
`build(**attrs)` checks and completes the builder's arguments, as a dict; or returns a call of
another operator; `macs(types, attrs, result)` the multiply-accumulates, from types of known
extents.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from types import MappingProxyType, ModuleType
from typing import Any

import numpy as np

from ....base.errors import explain
from ....base.registry import Registry
from ....ir.expr import Attrs, BaseExpr
from ....ir.op import Op, register_op
from ....ir.prim_expr import FloatImm, IntImm, PrimExpr
from ....ops import OPERATORS
from ....ops.core import ELEMENTWISE, OPAQUE
from ....relax import BlockBuilder
from ....relax import Call as RelaxCall
from ....relax import op as relax_op
from ..expr import Call, Constant, Expr, Tuple, TupleWrapper, const
from .layouts import LAYOUT_RULE, Rule, elementwise


class _Typed:
    """The builders of Relax's operators; what they make has its struct info at once, which the next
    line of a body may query."""

    def __init__(self, view: Any) -> None:
        self._view = view

    def __getattr__(self, name: str) -> Any:
        member = getattr(self._view, name)

        def informed(*args: Any, **kwargs: str | bool | None) -> Any:
            return _informed(member(*args, **kwargs))

        value: Any = _Typed(member) if isinstance(member, ModuleType) else informed
        setattr(self, name, value)
        return value


def _informed(value: RelaxCall) -> Any:
    """A call with its struct info."""
    if isinstance(value, RelaxCall) and value.struct_info is None and isinstance(value.op, Op):
        infer = value.op.get_attr("FInferStructInfo")
        value.struct_info = infer(value, BlockBuilder())
    return value


# The operators of Relax that bodies are written in.
R: Any = _Typed(relax_op)
_BUILDER: ContextVar[Any] = ContextVar("relay.builder")


def builder() -> Any:
    """The BlockBuilder that a body is run for."""
    return _BUILDER.get()


def kernel(fn: Callable[..., Any], *args: Any, **options: str | float) -> Any:
    """A te function applied to Relax expressions, for semantics that no operator of Relax has."""
    return builder().emit(builder().call_te(fn, *args, **options))


class Input:
    """The annotation of a parameter that is an argument of the call."""


class Inputs:
    """The annotation of a parameter that is a tuple of expressions."""


# The annotations of an argument for which the builder also takes a number, one of a dtype, or
# numbers of it; and of an attribute that is a list of numbers.
InputNumber = InputInt32 = InputFloat32 = InputInt64 = InputFloat64 = Any
Numbers = Any

# The dtypes of numbers that become arguments; None: the usual one of such a number.
_LITERALS = {
    "InputNumber": None, "InputInt32": "int32", "InputInt64": "int64", "InputFloat32": "float32",
    "InputFloat64": "float64",
}  # fmt: skip

KIND = "TOpPattern"
ROWS: Registry[str, Row] = Registry("operator of Relay")
VIEWS: Registry[str, Callable[..., Any]] = Registry("builder of Relay's calls")
REQUIRED = inspect.Parameter.empty
_PLAIN_KIND = inspect.Parameter.POSITIONAL_OR_KEYWORD
# Attributes that several operators share: name -> default, in the order of the builder.
Options = Mapping[str, Any]
NO_OPTIONS: Options = MappingProxyType({})


class Row:
    """An operator of Relay: its name, its signature, its body and its hooks."""

    def __init__(
        self, name: str, body: Callable[..., Any], results: Any, attrs: str, options: Options
    ) -> None:
        self.name, self.body, self.results = name, body, results
        self.attrs_key = f"relay.attrs.{attrs}" if attrs else f"relay.attrs.{name}"
        self.signature = _signature(body, options)
        parameters = self.signature.parameters.values()
        self.inputs = {p.name: str(p.annotation) for p in parameters if _is_input(p)}
        self.optional = {p.name for p in parameters if _is_input(p) and p.default is None}
        self.attr_names = [p.name for p in parameters if not _is_input(p)]
        attrs_and_optional = [p for p in parameters if not _is_input(p) or p.default is None]
        self.defaults = {p.name: p.default for p in attrs_and_optional if p.default is not REQUIRED}
        self.hooks: dict[str, Callable[..., Any]] = {}
        self.reads_values = False
        self.dynamic: Row | None = None  # the operator for attributes that are expressions
        # The operator of Relax that it is, and of its parameters the names there.
        self.twin: tuple[str, dict[str, str]] | None = None
        self.mixed = ""  # its category of mixed precision
        self.op = register_op(name)
        if not self.optional:
            self.op.set_num_inputs(len(self.inputs))
        self.builder = self._make_builder()

    def __repr__(self) -> str:
        return f"<operator of Relay {self.name}{self.signature}>"

    def arguments(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        """Set the hook that infers types of arguments from the others'."""
        self.hooks["arguments"] = fn
        return fn

    def infer(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        """Set the hook that infers the result's type. With a third parameter, it gets the
        arguments too."""
        self.hooks["infer"] = fn
        self.reads_values = len(inspect.signature(fn).parameters) > 2
        return fn

    def macs(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        """Set what counts the multiply-accumulates."""
        self.hooks["macs"] = fn
        return fn

    def build(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        """Set what checks and completes the arguments of the builder."""
        self.hooks["build"] = fn
        return fn

    def _make_builder(self) -> Callable[..., Any]:
        row = self

        def builder(*args: Any, **kwargs: Any) -> Any:
            try:
                bound = row.signature.bind(*args, **kwargs)
            except TypeError as error:
                what = f"relay.{row.name}: {error}"
                raise TypeError(explain(what, instead=f"it takes {row.signature}")) from None
            bound.apply_defaults()
            attrs = dict(bound.arguments)
            if "build" in row.hooks:
                attrs = row.hooks["build"](**attrs)
                if not isinstance(attrs, dict):
                    return attrs
            return row._call(attrs)

        builder.__name__ = builder.__qualname__ = self.name.rsplit(".", 1)[-1]
        builder.__doc__ = inspect.cleandoc(self.body.__doc__ or "")
        builder.__signature__ = self.signature
        builder.row = self
        return builder

    def _call(self, values: dict[str, Any]) -> Any:
        """The call of the dynamic operator where an attribute is an expression, else of this one."""
        for name in self.attr_names:
            if self.signature.parameters[name].annotation == "Numbers":
                values[name] = as_numbers(values[name])
            elif self.dynamic is not None and name in self.dynamic.inputs:
                single = self.signature.parameters[name].annotation in ("int", "float")
                values[name] = (as_number if single else numbers)(values[name])
        is_dynamic = self.dynamic and any(isinstance(values[n], Expr) for n in self.attr_names)
        return (self.dynamic if self.dynamic and is_dynamic else self).call(values)

    def call(self, values: dict[str, Any]) -> Any:
        """The call with all arguments and attributes given by name."""
        args = []
        for name, kind in self.inputs.items():
            value = values[name]
            if value is None and name in self.optional:
                continue
            args.append(_input(self.name, name, kind, value))
        attrs = {name: _plain(values[name]) for name in self.attr_names}
        call = Call(self.op, args, Attrs(self.attrs_key, attrs) if attrs else None)
        count: Any = self.results(attrs, values) if callable(self.results) else self.results
        return call if count is None else TupleWrapper(call, count)

    def values_of(self, call: Call) -> dict[str, Any]:
        """The attributes of a call by name; those it does not have are the defaults."""
        attrs = {} if call.attrs is None else dict(call.attrs.items())
        return {name: attrs.get(name, self.defaults.get(name)) for name in self.attr_names}

    def apply(self, args: list[Any], attrs: dict[str, Any], bb: BlockBuilder) -> Any:
        """The Relax expression of a call: its arguments are Relax expressions. bb: the BlockBuilder
        of the function that it is for."""
        names = list(self.inputs)
        missing = len(names) - len(args)
        left_out = {n for n in [n for n in names if n in self.optional][-missing:] if missing}
        if len(left_out) != missing:
            needed = [n for n in names if n not in self.optional]
            raise ValueError(explain(f"{self.name} needs {needed}", got=f"{len(args)} arguments"))
        rest = iter(args)
        by_name = {n: None if n in left_out else next(rest) for n in names}
        token = _BUILDER.set(bb)
        try:
            return self.body(**by_name, **attrs)
        finally:
            _BUILDER.reset(token)


def _is_input(parameter: inspect.Parameter) -> bool:
    return str(parameter.annotation).startswith("Input")


def _input(op_name: str, name: str, kind: str, value: Any) -> Any:
    several = kind.startswith("Inputs")
    if isinstance(value, TupleWrapper) and not several:
        value = value.tuple_value
    if several and isinstance(value, (list, tuple, TupleWrapper)):
        value = Tuple([_input(op_name, name, "Input", item) for item in value])
    if kind in _LITERALS and not isinstance(value, Expr):
        return const(value, _LITERALS[kind])
    if not isinstance(value, Expr):
        what = f"relay.{op_name}: the argument {name} is an expression"
        raise TypeError(explain(what, got=repr(value), instead="wrap it in relay.const"))
    return value


def as_numbers(value: Any) -> Any:
    """Numbers given as a constant, a list or one number, as a list; other expressions stay."""
    if isinstance(value, Constant):
        return [int(v) for v in value.data.numpy().reshape(-1)]
    if value is None or isinstance(value, Expr):
        return value
    if isinstance(value, (int, np.integer, IntImm)):
        value = [value]
    if not isinstance(value, (list, tuple, np.ndarray)) and not hasattr(value, "__iter__"):
        raise TypeError(explain("this is a list of numbers or an expression", got=repr(value)))
    return [v if isinstance(v, PrimExpr) and not isinstance(v, IntImm) else _int(v) for v in value]


def numbers(value: Any) -> Any:
    """A constant expression as a number or nested lists of numbers; other values stay."""
    return value.data.numpy().tolist() if isinstance(value, Constant) else value


def as_number(value: Any) -> Any:
    """A number given as a constant or in a list; other values stay."""
    value = numbers(value)
    return value[0] if isinstance(value, (list, tuple, np.ndarray)) else value


def _int(value: Any) -> int:
    try:
        return int(getattr(value, "value", value))
    except (TypeError, ValueError):
        what = "Unrecognized shape type: an extent or axis is a number"
        raise RuntimeError(explain(what, got=repr(value))) from None


def _plain(value: Any) -> Any:
    return tuple(_plain(v) for v in value) if type(value) in (list, tuple) else value


def op(
    name: str, results: int | Callable[..., Any] | None = None, attrs: str = "", view: bool = True,
    options: Options | None = None, static: Row | None = None, kind: int | None = None,
    mixed: str = "", layout: Rule | None = None,
) -> Callable[[Callable[..., Any]], Row]:  # fmt: skip
    """Define an operator: see the module's docstring.

    results: how many fields its tuple has, or a function of its attributes and arguments (None:
    not a tuple); the builder returns a `TupleWrapper`. attrs: the class of its attributes in TVM.
    view: whether it has a builder `relay.<name>`. options: the attributes that the body takes as
    `**options`, and their defaults. static: the operator that has attributes where this one has
    arguments; its builder is that of both. kind: how it is fused, a constant of `ops.core` (None:
    opaque). mixed: a key of `transform.mixed_precision.RULES` ("": it has no rule).
    layout: how layouts pass through it, by default those of its argument if it is elementwise.
    """

    def define(body: Callable[..., Any]) -> Row:
        row = ROWS.register(name, Row(name, body, results, attrs, options or {}))
        row.mixed = mixed
        if kind is not None:
            row.op.set_attr(KIND, kind)
        rule = layout or (elementwise if kind == ELEMENTWISE and len(row.inputs) == 1 else None)
        if rule is not None:
            row.op.set_attr(LAYOUT_RULE, rule)
        if static is not None:
            static.dynamic = row
        elif view:
            VIEWS.register(name, row.builder)
        return row

    return define


def same(
    name: str, relax_name: str = "", params: str = "",
    results: int | Callable[..., Any] | None = None, attrs: str = "", kind: int | None = None,
    mixed: str = "", layout: Rule | None = None, **arguments: tuple[str, Any],
) -> Row:  # fmt: skip
    """Define an operator that is one of Relax.

    relax_name: that of Relax, where it has another one. params: the names of the parameters, where
    they differ; Relax's further ones are left out. arguments: by parameter, (its kind, its
    default).
    """
    definition = OPERATORS[f"relax.{relax_name or name}"]
    names = params.split() or [p.name for p in definition.params]
    twins = dict(zip(names, definition.params, strict=False))

    def body(**values: Any) -> Any:
        return _informed(
            definition.builder(**{twins[n].name: _python(v) for n, v in values.items()})
        )

    def parameter(name: str) -> inspect.Parameter:
        twin = twins[name]
        kind = {"Tensor": "Input", "Tensors": "Inputs"}.get(twin.kind, twin.annotation)
        kind, default = arguments.get(name, (kind, twin.default))
        return inspect.Parameter(name, _PLAIN_KIND, default=default, annotation=kind)

    body.__signature__ = inspect.Signature([parameter(n) for n in names])
    body.__doc__ = definition.__doc__
    row = op(name, results, attrs, kind=kind, mixed=mixed, layout=layout)(body)
    row.twin = definition.name, {n: p.name for n, p in twins.items()}
    return row


def with_category(words: str) -> dict[str, str]:
    """name -> its category of mixed precision ("": none), of words `name` and `name:category`."""
    return {name: mixed for name, _, mixed in (word.partition(":") for word in words.split())}


def kind_of(op: Op) -> int:
    """How an operator of Relay is fused; one that does not say it is opaque."""
    return int(op.get_attr(KIND, OPAQUE))


def _python(value: Any) -> Any:
    """An attribute with numbers for literals."""
    if isinstance(value, (list, tuple)):
        return [_python(v) for v in value]
    return value.value if isinstance(value, (IntImm, FloatImm)) else value


def view(
    name: str, options: Options | None = None
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Offer a function as the builder `relay.<name>`, which makes calls of operators. options: as
    those of `op`."""

    def register(fn: Callable[..., Any]) -> Callable[..., Any]:
        return VIEWS.register(name, _with_options(fn, options) if options else fn, override=True)

    return register


def _signature(fn: Callable[..., Any], options: Options) -> inspect.Signature:
    """A function's signature, in which `**options` are parameters with defaults."""
    plain = inspect.signature(fn)
    own = [p for p in plain.parameters.values() if p.kind is not p.VAR_KEYWORD]
    more = [inspect.Parameter(n, _PLAIN_KIND, default=value) for n, value in options.items()]
    return plain.replace(parameters=[*own, *more])


def _with_options(fn: Callable[..., Any], options: Options) -> Callable[..., Any]:
    signature = _signature(fn, options)

    @functools.wraps(fn)
    def call(*args: Any, **kwargs: Any) -> Any:
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        return fn(**bound.arguments)

    call.__signature__ = signature
    return call


def row_of(operator: BaseExpr) -> Row | None:
    """The definition of an operator, None if it has none."""
    return ROWS.get(operator.name) if isinstance(operator, Op) else None
