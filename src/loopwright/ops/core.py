"""How an operator is defined: one decorated function and its hooks.

    @op("relax.nn.relu")
    def relu(data: Tensor):
        "max(data, 0), element by element."
        return te.compute(data.shape, lambda *i: tir.max(data(*i), tir.const(0, data.dtype)))

    @relu.numpy
    def _(data):
        return np.maximum(data, 0)

    relu.samples(case((2, 3)), case(("n", 8)))

The function's parameters are the operator's signature; their annotations give the kind of each:

| annotation | in the graph | in the body |
|---|---|---|
| `Tensor` | a tensor expression (`Tensor | None`: may be left out) | te.Tensor (or a PrimExpr for a scalar constant) |
| `Operand` | a tensor or a scalar (PrimValue) | te.Tensor or a PrimExpr |
| `Value` | anything, for operators that pass it on | te.Tensor |
| `Scalar` | a 0-d tensor | the same; a constant is always a PrimExpr |
| `Tensors` | a tuple of tensors | a list of te.Tensors |
| `Shape` | a shape expression | a list of PrimExprs |
| `Prim` | a scalar (PrimValue) | a PrimExpr |
| `Prims` | a tuple of scalars | a list of PrimExprs |
| `Callee` | a function | not passed |
| anything else | an attribute | its Python value |

Attribute annotations convert the user's argument (`DType`, `Axes`, `Axis`, `Ints`, `Sections`, int,
float, bool, str). The body is the default legalization; by running it on placeholders the struct info
is inferred too, so a shape is not written twice. With `@op(..., body=False)` the body is `...`, and
the hooks say everything.

Hooks (a closed list): `numpy` the meaning; `infer` the struct info, where the body cannot infer it;
`build` checks and completes the arguments before the call is built; `legalize` another lowering than
the body; `tir` a TensorIR body; `layout`; `grad` the gradient (`gradient`); `samples` the cases of
the test matrix, from which the fuzzer draws random calls. `@op(..., mixed=...)` says how it takes part in mixed precision.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import te
from ..base.errors import LoopwrightError, call_error, explain, suggest
from ..base.foreign import RuleError, named_errors
from ..base.registry import Registry, origin_of
from ..ir.dtype import DataType
from ..ir.expr import Attrs
from ..ir.op import Op, register_op
from ..ir.variables import vars_in
from ..relax.block_builder import BlockBuilder
from ..relax.expr import Call, Expr, ShapeExpr
from ..relax.op import register_view as register_relax_view
from ..relax.struct_info import ShapeStructInfo, StructInfo, TensorStructInfo
from ..script.relax import register_view as register_script_view
from ..te.tensor import Operators
from ..tir.analysis.in_place import MAY_ALIAS
from .describe import describe
from .extents import open_pairs
from .gradient import Rule, gradient_of
from .inference import (
    check_kind,
    device_of,
    infer_by_body,
    info_of,
    of_scalars,
    on_device,
    operand_info,
    with_shape_argument,
)
from .lowering import lower_by_body
from .params import attribute, graph_argument, public_signature, read_params

# Fusion kinds, as AnnotateTIROpPattern numbers them.
ELEMENTWISE, BROADCAST, INJECTIVE, REDUCTION, FUSABLE, TUPLE, OPAQUE = 0, 1, 2, 3, 4, 7, 8
# The policies of ToMixedPrecision for an operator, as they are numbered: "always" computes in the
# short dtype, "follow" if all its arguments have it, "never" in the original one.
MIXED = {"always": 0, "follow": 1, "never": 2}
# Messages of Python itself about a sequence of another length.
_PYTHONS = re.compile(r"zip\(\) argument|(too many|not enough) values to unpack")
OPERATORS: Registry[str, Operator] = Registry("operator definition")


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
    """One operator: its name, signature, body and hooks. Created by `@op`."""

    def __init__(
        self, name: str, body: Callable[..., Any], kind: int | None, pure: bool, view: bool,
        has_body: bool, mixed: str, alone: bool = False,
        choices: Mapping[str, Iterable[str | None]] | None = None,
        may_alias: Sequence[tuple[int, int]] = (),
    ) -> None:  # fmt: skip
        self.name = name
        self.marks: dict[str, Any] = {"op_pattern": OPAQUE} if alone else {}
        if may_alias:
            self.marks |= {MAY_ALIAS: [list(pair) for pair in may_alias], "tir.noalias": False}
        self.choices = {key: tuple(allowed) for key, allowed in (choices or {}).items()}
        self.body = body
        self.te_name = body.__name__
        self.__name__ = self.te_name
        self.__doc__ = inspect.cleandoc(body.__doc__ or "")
        self.kind = kind
        self.params = read_params(name, body)
        self.graph_params = [p for p in self.params if p.kind != "attr"]
        self.attr_params = [p for p in self.params if p.kind == "attr"]
        self.takes_scalars = bool(self.graph_params) and all(
            p.annotation == "Operand" for p in self.graph_params
        )
        self.signature = public_signature(body, self.params)
        self.cases: list[Case] = []
        self.hooks: dict[str, Callable[..., Any]] = {}
        self.op = register_op(name)
        self.op.set_attr("FPurity", pure)
        self.op.set_attr("FInferStructInfo", self._infer)
        self.op.set_attr("FCheckExtents", self._check_extents)
        self.op.set_attr("definition", self)
        self.op.set_attr("TMixedPrecisionPolicy", MIXED[mixed])
        if mixed == "always":
            self.op.set_attr("FInferMixedPrecision", _with_out_dtype)
        if kind is not None:
            self.op.set_attr("TOpPattern", kind)
        if has_body:
            self.op.set_attr("FLegalize", self._legalize)
        builder = self.builder = Builder(self)
        if view:
            short = name.removeprefix("relax.")
            register_relax_view(short, builder)
            register_script_view(short, builder)

    def __repr__(self) -> str:
        return f"<operator {self.name}{self.signature}>"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The tensor expression itself: `softmax(te_tensor, axis=1)`; of scalars, for an operator that
        takes them in place of tensors, the scalar expression."""
        result = self.body(*args, **kwargs)
        values = (*args, *kwargs.values())
        if not self.takes_scalars or any(isinstance(a, te.Tensor) for a in values):
            return result
        (value,) = result.op.body
        return value

    # -- hooks ---------------------------------------------------------------------------------

    def numpy(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        """Set the numpy reference. It takes arrays (lists of arrays, shapes as tuples) and
        attributes."""
        self.op.set_attr("FNumpy", self._numpy_entry(fn))
        return fn

    def infer(self, fn: Callable[..., StructInfo]) -> Callable[..., StructInfo]:
        """Set the inference of the struct info from those of the graph arguments and the attributes."""
        self.hooks["infer"] = fn
        return fn

    def build(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        """Set the check and completion of the builder's arguments; it returns them as a dict."""
        self.hooks["build"] = fn
        return fn

    def legalize(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        """Set the lowering, (bb, call) -> expression; None leaves the call unchanged."""
        self.op.set_attr("FLegalize", fn)
        return fn

    def tir(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        """Set a TensorIR body: from struct infos and attributes to a PrimFunc whose buffers are the
        arguments, then the results. It also serves as the operator's tensor expression."""

        def body(*tensors: Any, **attrs: Any) -> Any:
            infos = [TensorStructInfo(t.shape, t.dtype) for t in tensors]
            return te.extern_primfunc(list(tensors), fn(*infos, **attrs), name=self.te_name)

        self.body = body
        self.op.set_attr("FLegalize", self._legalize)
        return fn

    def layout(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        """Set how layouts propagate, (Call, LayoutQuery) -> LayoutPlan | None: see
        `relax.layout`."""
        self.op.set_attr("FRelaxInferLayout", fn)
        return fn

    def grad(self, rule: Rule) -> Rule:
        """Set the gradient: see `gradient.Backward`."""
        self.op.set_attr("FPrimalGradient", gradient_of(self, rule))
        return rule

    def samples(self, *cases: Case) -> None:
        """Add rows to the test matrix."""
        self.cases.extend(cases)

    # -- the call ------------------------------------------------------------------------------

    def make_call(self, arguments: dict[str, Any]) -> Call:
        """The call with all arguments given by name."""
        try:
            return self._make_call(arguments)
        except (ValueError, TypeError) as err:
            raise call_error(err) from err

    def _make_call(self, arguments: dict[str, Any]) -> Call:
        for key, allowed in self.choices.items():
            if (value := arguments[key]) not in allowed:
                what, hint = f"{self.name}: unknown {key}", suggest(value, filter(None, allowed))
                raise ValueError(explain(what, got=repr(value), instead=hint))
        if "build" in self.hooks:
            arguments = self.hooks["build"](**arguments)
        graph: list[Any] = []
        siblings = [arguments[p.name] for p in self.graph_params]
        for p in self.graph_params:
            value = arguments[p.name]
            if value is None and p.optional:
                continue
            graph.append(graph_argument(self.name, p, value, siblings))
        attrs = {p.name: attribute(self.name, p, arguments[p.name]) for p in self.attr_params}
        return Call(self.op, graph, Attrs(self.name, attrs) if attrs else None)

    def attrs_of(self, call: Call) -> dict[str, Any]:
        """A call's attributes in the form that the body takes (None for an unknown dtype)."""
        if call.attrs is None:
            return {}
        params = {p.name: p for p in self.attr_params}
        return {
            k: None if params[k].annotation == "DType" and v == "void" else v
            for k, v in call.attrs.items()
        }

    def args_of(self, call: Call) -> dict[str, Any]:
        """A call's graph arguments by parameter name; omitted ones are None."""
        names = [p.name for p in self.graph_params]
        optional = [p.name for p in self.graph_params if p.optional]
        missing = len(names) - len(call.args)
        left_out = set(optional[len(optional) - missing :]) if missing > 0 else set()
        passed = iter(call.args)
        return {n: None if n in left_out else next(passed) for n in names}

    # -- derived facts -------------------------------------------------------------------------

    def _infer(self, call: Call, bb: BlockBuilder) -> StructInfo:
        try:
            args = self.args_of(call)
            for p in self.graph_params:
                check_kind(p, args[p.name], call)
            hook = self.hooks.get("infer")
            if hook is not None:
                infos = [
                    operand_info(args[p.name])
                    if p.annotation == "Operand"
                    else info_of(args[p.name])
                    for p in self.graph_params
                ]
                info = hook(*infos, **self.attrs_of(call))
            else:
                info = infer_by_body(self.body, self.graph_params, args, self.attrs_of(call))
            info = of_scalars(with_shape_argument(info, args), self.graph_params, args)
            info, device = bb.sized(info), device_of(args)
            return info if device is None else on_device(info, device)
        except Exception as err:
            if isinstance(err, LoopwrightError):
                raise
            expected = isinstance(err, (ValueError, TypeError))
            if expected and str(err).startswith(self.name):
                raise call_error(err) from err
            got = ", ".join(str(info_of(a)) for a in call.args)
            text = f"{self.name}: {err if expected else f'{type(err).__name__}: {err}'}"
            if _PYTHONS.match(str(err)):  # of a body that takes a shape apart
                text = f"{self.name}: the ranks or shapes of the operands do not fit"
            numeric = "ufunc" in text or "must be real number" in text  # of numpy, of math
            hint = (
                "elements are symbolic: use functions of tir, such as tir.exp" if numeric else None
            )
            text = explain(text, got=got, instead=hint, span=call.span)
            raise (call_error(err, text) if expected else RuleError(text)) from err

    def _check_extents(self, bb: BlockBuilder, call: Call) -> None:
        """Bind the checks of the extents that inference could not compare."""
        if not any(vars_in(a.struct_info) for a in call.args):
            return
        with open_pairs() as pairs:
            self._infer(call, bb)
        if pairs:
            have, want = zip(*dict.fromkeys(pairs), strict=True)
            bb.match_cast(ShapeExpr(have), ShapeStructInfo(want))

    def _legalize(self, bb: BlockBuilder, call: Call) -> Any:
        args, attrs = self.args_of(call), self.attrs_of(call)
        with named_errors(lambda: f"the body of {self.name}", self.body, lambda: call.span):
            params, marks = self.graph_params, self.marks
            return lower_by_body(bb, call, self.body, params, args, attrs, self.te_name, marks)

    def _numpy_entry(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        optional = [p.name for p in self.attr_params if p.annotation == "DType"]

        def entry(*args: Any, **attrs: Any) -> Any:
            for name in optional:
                if attrs.get(name) == "void":
                    attrs[name] = None
            with np.errstate(all="ignore"):
                return fn(*args, **attrs)

        return entry


class Builder:
    """`relax.op.NAME`: builds a call of an operator. Its docstring is composed when it is read."""

    def __init__(self, operator: Operator) -> None:
        self.operator = operator
        self.__name__ = self.__qualname__ = operator.name.rsplit(".", 1)[-1]
        self.__signature__ = operator.signature

    def __call__(self, *args: Any, **kwargs: Any) -> Call:
        operator = self.operator
        try:
            bound = operator.signature.bind(*args, **kwargs)
        except TypeError as err:
            what = f"{operator.name}: {err}"
            raise TypeError(explain(what, instead=f"it takes {operator.signature}")) from None
        bound.apply_defaults()
        return operator.make_call(dict(bound.arguments))

    def __get__(self, instance: object, owner: type | None = None) -> Builder:
        return self  # `help` and `inspect` take an object with this method for a routine

    @property
    def __doc__(self) -> str:
        return describe(self.operator)


def _with_out_dtype(call: Call, dtype: str) -> Call:
    """The call that computes in `dtype`, where it has an attribute for it."""
    if call.attrs is None or "out_dtype" not in call.attrs:
        return call
    values = {**call.attrs.values, "out_dtype": DataType(dtype)}
    return call.replace(attrs=call.attrs.replace(values=values))


def op(
    name: str, *, kind: int | None = None, pure: bool = True, view: bool = True, body: bool = True,
    mixed: str = "never", alone: bool = False,
    choices: Mapping[str, Iterable[str | None]] | None = None,
    may_alias: Sequence[tuple[int, int]] = (),
) -> Callable[[Callable[..., Any]], Operator]:  # fmt: skip
    """Define the operator `name` by a function: see the module's docstring.

    kind: its fusion kind; by default derived from its loops.
    alone: whether its kernel is never fused with others.
    choices: the values that an attribute can have; the builder raises ValueError for another.
    may_alias: pairs (written, read) of the kernel's parameters, by number, whose memory may be the same.
    pure: whether a call has no side effect.
    view: whether it appears in `relax.op` and `R`.
    body: False if the function's body is `...` and hooks define the operator.
    mixed: a key of MIXED.
    """

    def define(fn: Callable[..., Any]) -> Operator:
        if name in OPERATORS:
            what = f"operator {name} is defined twice"
            hint = "an operator has one definition; use relax.register_legalize for another kernel"
            raise LoopwrightError(explain(what, got=fn.__module__, instead=hint))
        operator = Operator(name, fn, kind, pure, view, body, mixed, alone, choices, may_alias)
        OPERATORS.register(name, operator, origin=origin_of(fn))
        return operator

    return define


# The operators built by Python's own (`+`, `@`, ...) on graph values and te tensors.
_PYTHON = (
    "add subtract multiply divide floor_divide mod power less less_equal greater greater_equal "
    "negative matmul equal not_equal left_shift right_shift bitwise_and bitwise_or bitwise_xor "
    "astype"
)


def install_python_operators() -> None:
    """Let `x + y`, `-x`, `x @ y`, ... build calls, on graph values and on te tensors."""
    for name in _PYTHON.split():
        operator = OPERATORS[f"relax.{name}"]
        Expr._build[name] = operator.builder
        Operators._build[name] = operator


def find_operator(name_or_op: str | Op) -> Operator | None:
    """The definition of an operator, or None if it is not defined here."""
    name = name_or_op.name if isinstance(name_or_op, Op) else name_or_op
    return OPERATORS.get(name)
