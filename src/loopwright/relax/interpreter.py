"""Runs graph functions in Python, with the operators' numpy definitions.

    y = Interpreter(mod)["main"](x)

Works at every stage: operators through "FNumpy", call_tir through the TensorIR interpreter,
packed functions through the runtime's registry. Tensors are numpy arrays internally, shapes tuples
of ints, scalars Python numbers. Symbolic dimensions are solved from the arguments and checked.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..base.errors import LoopwrightError, explain
from ..base.span import Span
from ..ir import prim_expr as pe
from ..ir.dtype import numpy_dtype
from ..ir.expr import GlobalVar
from ..ir.module import IRModule
from ..ir.op import Op
from ..ir.prim_op import COMPARE, trunc_div
from ..ir.serialize import load_json
from ..runtime.dtype import is_packed
from ..runtime.extern import EXTERNAL_MODS
from ..runtime.module import Module
from ..runtime.packed_func import get_global_func
from ..runtime.tensor import ShapeTuple, Tensor, aligned_zeros
from ..tir import interpreter as tir_interpreter
from ..tir.function import PrimFunc
from . import expr as rx
from . import struct_info as si

Observer = Callable[[str, rx.Binding, Any], None]
Symbols = dict[pe.Var, int]

_BINARY: dict[type, Callable[[Any, Any], Any]] = {
    pe.Add: operator.add,
    pe.Sub: operator.sub,
    pe.Mul: operator.mul,
    pe.FloorDiv: operator.floordiv,
    pe.FloorMod: operator.mod,
    pe.Min: min,
    pe.Max: max,
    **COMPARE,
    pe.And: lambda a, b: a and b,
    pe.Or: lambda a, b: a or b,
    pe.Div: lambda a, b: trunc_div(a, b) if isinstance(a, int) else a / b,
    pe.Mod: lambda a, b: a - trunc_div(a, b) * b,
}


def evaluate_scalar(expr: pe.PrimExpr, symbols: Symbols) -> Any:
    """The value of a scalar expression. Raises KeyError with a variable that has none."""
    if isinstance(expr, (pe.IntImm, pe.StringImm)):
        return bool(expr.value) if expr.dtype.is_bool else expr.value
    if isinstance(expr, pe.FloatImm):
        return numpy_dtype(expr.dtype).type(expr.value).item()
    if isinstance(expr, pe.Var):
        return symbols[expr]
    binary = _BINARY.get(type(expr))
    if binary is not None:
        value = binary(evaluate_scalar(expr.a, symbols), evaluate_scalar(expr.b, symbols))
        return numpy_dtype(expr.dtype).type(value).item() if expr.dtype.is_float else value
    if isinstance(expr, pe.Not):
        return not evaluate_scalar(expr.a, symbols)
    if isinstance(expr, pe.Select):
        chosen = evaluate_scalar(expr.condition, symbols)
        return evaluate_scalar(expr.true_value if chosen else expr.false_value, symbols)
    if isinstance(expr, pe.Let):
        value = evaluate_scalar(expr.value, symbols)
        return evaluate_scalar(expr.body, {**symbols, expr.var: value})
    if isinstance(expr, pe.Cast):
        return numpy_dtype(expr.dtype).type(evaluate_scalar(expr.value, symbols)).item()
    if isinstance(expr, pe.Call) and isinstance(expr.op, Op):
        args = [evaluate_scalar(a, symbols) for a in expr.args]
        if expr.op.name == "tir.if_then_else":
            return args[1] if args[0] else args[2]
        meaning = expr.op.get_attr("numpy")
        if meaning is not None:
            return np.asarray(meaning(*args)).item()
    raise LoopwrightError(explain("this scalar expression has no value here", got=str(expr)))


@dataclass(frozen=True)
class Closure:
    """A function with its environment: the values of captured variables and symbols."""

    func: rx.Function
    values: dict[rx.Var, Any]
    symbols: Symbols
    bound: tuple[Any, ...] = ()


class _Frame:
    """A running function: its name, and the values of its variables and symbols."""

    __slots__ = ("name", "symbols", "values")

    def __init__(self, name: str, values: dict[rx.Var, Any], symbols: Symbols) -> None:
        self.name = name
        self.values = values
        self.symbols = symbols

    def scalar(self, expr: pe.PrimExpr) -> Any:
        try:
            return evaluate_scalar(expr, self.symbols)
        except KeyError as missing:
            what = f"symbolic variable {missing.args[0].name} has no value in {self.name}"
            hint = "it must be a dimension of a parameter or of a match_cast before"
            raise LoopwrightError(explain(what, instead=hint)) from None

    def dims(self, values: Any) -> tuple[int, ...]:
        return tuple(self.scalar(v) for v in values)


class Interpreter:
    """Runs the functions of a module.

    run_tir: `f(prim_func, args)` that runs a PrimFunc in place on numpy arrays and scalars; by
        default the TensorIR interpreter.
    observer: `f(function name, binding, value)`, called after every binding.
    """

    def __init__(
        self,
        mod: IRModule | rx.Function,
        *,
        run_tir: Callable[[PrimFunc, list[Any]], Any] | None = None,
        observer: Observer | None = None,
    ) -> None:
        self.mod = IRModule({"main": mod}) if isinstance(mod, rx.Function) else mod
        self.run_tir = run_tir or self._run_tir
        self.observer = observer

    def __getitem__(self, name: str) -> Callable[..., Any]:
        """The function of that name: it takes arrays, Tensors, shapes and numbers, and returns
        Tensors (or tuples of them)."""
        func = self.mod[name]

        def call(*args: Any) -> Any:
            values = [to_numpy(a) for a in args]
            if isinstance(func, PrimFunc):
                return self.run_tir(func, values)
            return to_runtime(self.call_function(func, values, name))

        return call

    def run(self, name: str, *args: np.ndarray[Any, Any]) -> Any:
        """Call a function by name."""
        return self[name](*args)

    def _run_tir(self, func: PrimFunc, args: list[Any]) -> Any:
        return tir_interpreter.run(func, args, self.mod)

    # ------------------------------------------------------------------ functions

    def call_function(
        self, func: rx.Function, args: list[Any], name: str, closure: Closure | None = None
    ) -> Any:
        """Run a relax function on numpy values."""
        if isinstance(func, rx.ExternFunc):
            return self.call_packed(func.global_symbol, args)
        if len(args) != len(func.params):
            names = ", ".join(p.name_hint for p in func.params)
            what = f"{name} takes {len(func.params)} arguments ({names})"
            raise TypeError(explain(what, got=f"{len(args)}"))
        frame = _Frame(name, {}, {})
        if closure is not None:
            frame.values.update(closure.values)
            frame.symbols.update(closure.symbols)
        outputs = []
        for param, arg in zip(func.params, args, strict=True):
            what = f"argument {param.name_hint} of {name}"
            outputs.append(self.match(what, param.struct_info, arg, frame))
        for param, arg in zip(func.params, outputs, strict=True):
            check_symbolic(f"argument {param.name_hint} of {name}", param.struct_info, arg, frame)
            frame.values[param] = arg
        return self.seq(func.body, frame)

    def match(self, what: str, info: si.StructInfo | None, value: Any, frame: _Frame) -> Any:
        """A value checked against a struct info, whose symbols that are a whole dimension are bound. Raises
        TypeError or ValueError."""
        if isinstance(info, si.TensorStructInfo):
            return self.match_tensor(what, info, value, frame)
        if isinstance(info, si.ShapeStructInfo):
            if not isinstance(value, tuple):
                raise TypeError(explain(f"{what} must be a shape", got=type(value).__name__))
            if info.ndim not in (-1, len(value)):
                raise ValueError(explain(f"{what} must have {info.ndim} dims", got=f"{value}"))
            _bind_dims(info.values, value, frame)
        elif isinstance(info, si.PrimStructInfo):
            if isinstance(value, np.ndarray):
                raise TypeError(explain(f"{what} must be a {info.dtype} scalar", got="a tensor"))
            if isinstance(info.value, pe.Var):
                frame.symbols.setdefault(info.value, value)
        elif isinstance(info, si.TupleStructInfo):
            if not isinstance(value, tuple) or len(value) != len(info.fields):
                got = f"{len(value)} fields" if isinstance(value, tuple) else type(value).__name__
                raise TypeError(explain(f"{what} must be {len(info.fields)} values", got=got))
            pairs = enumerate(zip(info.fields, value, strict=True))
            return tuple(self.match(f"field {i} of {what}", f, v, frame) for i, (f, v) in pairs)
        elif isinstance(info, si.FuncStructInfo) and not (callable(value) or _is_callee(value)):
            raise TypeError(explain(f"{what} must be a function", got=type(value).__name__))
        return value

    def match_tensor(self, what: str, info: si.TensorStructInfo, value: Any, frame: _Frame) -> Any:
        """`match` of a tensor; a number becomes one without axes. Raises TypeError or ValueError."""
        if isinstance(value, (int, float, bool, np.generic)) and info.ndim == 0:
            value = np.asarray(value, numpy_dtype(info.dtype))
        if not isinstance(value, np.ndarray):
            raise TypeError(explain(f"{what} must be a tensor", got=type(value).__name__))
        if not info.dtype.is_void and numpy_dtype(info.dtype) != value.dtype:
            raise ValueError(explain(f"{what} must have dtype {info.dtype}", got=value.dtype))
        if info.ndim not in (-1, value.ndim):
            got = f"{value.ndim}, shape {value.shape}"
            raise ValueError(explain(f"{what} must have ndim {info.ndim}", got=got))
        _bind_dims(info.get_shape(), value.shape, frame)
        return value

    def seq(self, seq: rx.SeqExpr, frame: _Frame) -> Any:
        """Run blocks and return the result."""
        for block in seq.blocks:
            for binding in block.bindings:
                try:
                    self.binding(binding, frame)
                except Exception as error:
                    var = binding.var
                    site = f" ({binding.span})" if binding.span else ""
                    error.add_note(f"while running {var.name_hint} in {frame.name}{site}")
                    raise
        return self.value(seq.body, frame)

    def binding(self, binding: rx.Binding, frame: _Frame) -> None:
        """Run one binding."""
        var = binding.var
        if isinstance(binding, rx.MatchCast):
            value = self.value(binding.value, frame)
            what = f"the value of {var.name_hint}"
            value = self.match(what, binding.struct_info, value, frame)
            check_symbolic(what, binding.struct_info, value, frame)
        else:
            bound = binding.value
            value = self.value(bound, frame)
            if isinstance(bound, rx.Call) and isinstance(bound.op, Op):
                value = _as_declared(f"{bound.op.name} ({var.name_hint})", bound, value, frame)
            if isinstance(bound, rx.Function):
                value.values[var] = value  # for recursive calls
        frame.values[var] = value
        if self.observer is not None:
            self.observer(frame.name, binding, value)

    # ------------------------------------------------------------------ expressions

    def value(self, expr: GlobalVar | rx.Expr, frame: _Frame) -> Any:
        """The value of an expression."""
        handler = _HANDLERS.get(type(expr))
        if handler is None:
            if isinstance(expr, rx.Var):
                try:
                    return frame.values[expr]
                except KeyError:
                    what = f"variable {expr.name_hint} has no value in {frame.name}"
                    raise LoopwrightError(explain(what)) from None
            raise LoopwrightError(explain("this cannot be run", got=type(expr).__name__))
        return handler(self, expr, frame)

    def if_(self, node: rx.If, frame: _Frame) -> Any:
        """Run a branch in a frame of its own: its variables are not visible after it."""
        cond = bool(np.asarray(self.value(node.cond, frame)))
        branch = node.true_branch if cond else node.false_branch
        return self.seq(branch, _Frame(frame.name, dict(frame.values), dict(frame.symbols)))

    def call(self, call: rx.Call, frame: _Frame) -> Any:
        """Call an operator, or a function that is a value."""
        if isinstance(call.op, Op):
            special = _OPERATORS.get(call.op.name)
            if special is not None:
                return special(self, call, frame)
            args = [self.value(a, frame) for a in call.args]
            return self.operator(call, args)
        args = [self.value(a, frame) for a in call.args]
        return self.apply(self.value(call.op, frame), args)

    def operator(self, call: rx.Call, args: list[Any]) -> Any:
        """The value of an operator by its FNumpy."""
        attrs = {} if call.attrs is None else dict(call.attrs.items())
        return _evaluate(call.op, args, attrs, call.span)

    def apply(self, callee: Any, args: list[Any]) -> Any:
        """Call a closure, a function of the module or an external function."""
        if isinstance(callee, Closure):
            values = [*args, *callee.bound]  # as LambdaLift orders the parameters
            name = callee.func.attrs.get("global_symbol", "a local function")
            return self.call_function(callee.func, values, name, callee)
        if isinstance(callee, rx.ExternFunc):
            return self.call_packed(callee.global_symbol, args)
        if isinstance(callee, GlobalVar):
            func = self.mod[callee]
            if isinstance(func, PrimFunc):
                result = self.run_tir(func, args)
                return () if func.ret_type is None else result
            return self.call_function(func, args, callee.name_hint)
        if callable(callee):
            return to_numpy(callee(*[to_runtime(a) for a in args]))
        raise TypeError(explain("only a function can be called", got=type(callee).__name__))

    def call_packed(self, name: str, args: list[Any]) -> Any:
        """Call a function of the module's external modules, else of the runtime's registry."""
        for module in (self.mod.attrs or {}).get(EXTERNAL_MODS) or ():
            if isinstance(module, Module) and module.implements_function(name):
                return to_numpy(module.get_function(name)(*[to_runtime(a) for a in args]))
        return to_numpy(get_global_func(name)(*[to_runtime(a) for a in args]))

    def allocate(self, info: si.StructInfo, frame: _Frame) -> Any:
        """Allocate the outputs of a destination-passing call."""
        if isinstance(info, si.TupleStructInfo):
            return tuple(self.allocate(f, frame) for f in info.fields)
        dims = info.get_shape() if isinstance(info, si.TensorStructInfo) else None
        if dims is None or not isinstance(info, si.TensorStructInfo):
            what = "an output in destination-passing style needs a known shape"
            raise LoopwrightError(explain(what, got=str(info)))
        return aligned_zeros(frame.dims(dims), numpy_dtype(info.dtype))


def _evaluate(op: Op, args: Sequence[Any], attrs: dict[str, Any], span: Span | None = None) -> Any:
    """An operator's value by its FNumpy."""
    meaning = op.get_attr("FNumpy")
    if meaning is None:
        what = f"operator {op.name} has no numpy definition"
        hint = "define it with @NAME.numpy (NAME is what @op defined), or compile with a kernel: "
        hint += f'register_legalize("{op.name}", tir=...)'
        raise LoopwrightError(explain(what, instead=hint, span=span))
    try:
        return to_numpy(meaning(*args, **attrs))
    except (ValueError, TypeError, IndexError) as error:
        if "\n  got: " in str(error):
            raise
        kind = type(error) if type(error) in (TypeError, IndexError) else ValueError
        what = f"{op.name} cannot be computed: {error}"
        raise kind(explain(what, got=", ".join(map(_described, args)), span=span)) from error
    except Exception as error:
        error.add_note(f"in the numpy definition of {op.name}")
        raise


def run_operator(name: str, attrs: str, *args: Any) -> Any:
    """Run an operator by name, with its attributes as JSON; called as `relax.run.operator`."""
    values = dict(load_json(attrs).items())
    return _evaluate(Op.get(name), [to_numpy(a) for a in args], values)


def _described(value: np.ndarray[Any, Any] | Sequence[int]) -> str:
    """An argument in a message."""
    return f"{value.dtype} {value.shape}" if isinstance(value, np.ndarray) else f"{value!r:.60}"


def _bind_dims(dims: Sequence[pe.PrimExpr] | None, shape: tuple[int, ...], frame: _Frame) -> None:
    """Bind the dimensions that are one symbol, where it has no value yet."""
    for dim, size in zip(dims or (), shape, strict=False):
        if isinstance(dim, pe.Var):
            frame.symbols.setdefault(dim, int(size))


def check_symbolic(what: str, info: si.StructInfo | None, value: Any, frame: _Frame) -> None:
    """Raise ValueError if a dimension differs from the value of its expression."""
    if isinstance(info, si.TensorStructInfo) and info.get_shape() is not None:
        _check_dims(what, info.get_shape(), value.shape, frame)
    elif isinstance(info, si.ShapeStructInfo) and info.values is not None:
        _check_dims(what, info.values, value, frame)
    elif isinstance(info, si.PrimStructInfo) and info.value is not None:
        expected = frame.scalar(info.value)
        if expected != value:
            raise ValueError(explain(f"{what} must be {expected}", got=value))
    elif isinstance(info, si.TupleStructInfo):
        for i, (field, item) in enumerate(zip(info.fields, value, strict=True)):
            check_symbolic(f"field {i} of {what}", field, item, frame)


def _check_dims(
    what: str, dims: Sequence[pe.PrimExpr] | None, shape: tuple[int, ...], frame: _Frame
) -> None:
    expected = frame.dims(dims)
    for axis, (want, got) in enumerate(zip(expected, shape, strict=True)):
        if want != got:
            what = f"{what}: dimension {axis} must be {want}"
            raise ValueError(explain(what, got=f"{got}, shape {tuple(shape)}"))


def _as_declared(
    what: str,
    call: rx.Call,
    value: np.ndarray[Any, Any] | Sequence[np.ndarray[Any, Any] | int],
    frame: _Frame,
) -> Any:
    """The result with its declared struct info: a wider numpy dtype of the same kind is narrowed, a
    wrong shape is an error."""
    info = call.struct_info
    if not isinstance(info, si.TensorStructInfo) or not isinstance(value, np.ndarray):
        return value
    if not info.dtype.is_void and value.dtype != numpy_dtype(info.dtype):
        kind = numpy_dtype(info.dtype)
        if value.dtype.kind != kind.kind:
            raise LoopwrightError(explain(f"{what} must give {info.dtype}", got=value.dtype))
        value = value.astype(kind)
    if info.ndim not in (-1, value.ndim):
        raise LoopwrightError(explain(f"{what} must have ndim {info.ndim}", got=value.shape))
    if info.get_shape() is not None:
        _check_dims(what, info.get_shape(), value.shape, frame)
    return value


# ---------------------------------------------------------------- the core operators


def _call_tir(self: Interpreter, call: rx.Call, frame: _Frame) -> Any:
    func, args, out, extra = _tir_parts(self, call, frame)
    outs = list(out) if isinstance(out, tuple) else [out]
    self.run_tir(func, [*args, *outs, *extra])
    return out


def _tir_parts(self: Interpreter, call: rx.Call, frame: _Frame) -> Any:
    """(function, arguments, allocated results, scalars after them) of a call in destination-passing style."""
    func = self.mod[call.args[0]]
    args = list(self.value(call.args[1], frame))
    out = self.allocate(call.sinfo_args[0], frame)
    extra = self.value(call.args[2], frame) if len(call.args) > 2 else ()
    return func, args, out, extra


def _call_tir_inplace(self: Interpreter, call: rx.Call, frame: _Frame) -> Any:
    func, args, out, extra = _tir_parts(self, call, frame)
    single = not isinstance(out, tuple)
    outs = [out] if single else list(out)
    allocated = []  # the results that are not written into an argument
    for i, index in enumerate(call.attrs.inplace_indices):
        if index == -1:
            allocated.append(outs[i])
        else:
            outs[i] = args[index]
    self.run_tir(func, [*args, *allocated, *extra])
    return outs[0] if single else tuple(outs)


def _call_dps_packed(self: Interpreter, call: rx.Call, frame: _Frame) -> Any:
    args = list(self.value(call.args[1], frame))
    out = self.allocate(call.sinfo_args[0], frame)
    outs = list(out) if isinstance(out, tuple) else [out]
    self.apply(self.value(call.args[0], frame), [*args, *outs])
    return out


def _call_packed(self: Interpreter, call: rx.Call, frame: _Frame) -> Any:
    args = [self.value(a, frame) for a in call.args[1:]]
    return self.apply(self.value(call.args[0], frame), args)


def _call_with_tuple(self: Interpreter, call: rx.Call, frame: _Frame) -> Any:
    callee = self.value(call.args[0], frame)
    return self.apply(callee, list(self.value(call.args[1], frame)))


def _call_with_context(self: Interpreter, call: rx.Call, frame: _Frame) -> Any:
    callee = self.value(call.args[0], frame)
    args = [to_runtime(a) for a in self.value(call.args[1], frame)]
    return to_numpy(get_global_func(callee.global_symbol)(self, *args))


def _make_closure(self: Interpreter, call: rx.Call, frame: _Frame) -> Any:
    callee = self.value(call.args[0], frame)
    bound = self.value(call.args[1], frame)
    if isinstance(callee, GlobalVar):
        callee = Closure(self.mod[callee], {}, {})
    return Closure(callee.func, callee.values, callee.symbols, (*callee.bound, *bound))


def _call_tir_dyn(self: Interpreter, call: rx.Call, frame: _Frame) -> Any:
    args = list(self.value(call.args[1], frame))
    if args and isinstance(args[-1], tuple):
        args = [*args[:-1], *args[-1]]
    self.run_tir(self.mod[call.args[0]], args)
    return ()


_OPERATORS: dict[str, Callable[[Interpreter, rx.Call, _Frame], Any]] = {
    "relax.call_tir": _call_tir,
    "relax.call_tir_with_grad": _call_tir,
    "relax.call_tir_inplace": _call_tir_inplace,
    "relax.call_dps_packed": _call_dps_packed,
    "relax.call_pure_packed": _call_packed,
    "relax.call_inplace_packed": _call_packed,
    "relax.call_builtin_with_ctx": _call_with_context,
    "relax.make_closure": _make_closure,
    "relax.invoke_closure": _call_with_tuple,
    "relax.invoke_pure_closure": _call_with_tuple,
    "relax.vm.call_tir_dyn": _call_tir_dyn,
}


def _tuple_get_item(self: Interpreter, node: rx.TupleGetItem, frame: _Frame) -> Any:
    return self.value(node.tuple_value, frame)[node.index]


_HANDLERS: dict[type, Callable[[Interpreter, Any, _Frame], Any]] = {
    rx.Constant: lambda self, node, frame: to_numpy(node.data),
    rx.Tuple: lambda self, node, frame: tuple(self.value(f, frame) for f in node.fields),
    rx.TupleGetItem: _tuple_get_item,
    rx.ShapeExpr: lambda self, node, frame: frame.dims(node.values),
    rx.PrimValue: lambda self, node, frame: frame.scalar(node.value),
    rx.StringImm: lambda self, node, frame: node.value,
    rx.DataTypeImm: lambda self, node, frame: str(node.value),
    GlobalVar: lambda self, node, frame: node,
    rx.ExternFunc: lambda self, node, frame: node,
    rx.Function: lambda self, node, frame: Closure(node, dict(frame.values), dict(frame.symbols)),
    rx.SeqExpr: lambda self, node, frame: self.seq(node, frame),
    rx.If: Interpreter.if_,
    rx.Call: Interpreter.call,
}


# ---------------------------------------------------------------- values


def _is_callee(value: Any) -> bool:
    return isinstance(value, (Closure, GlobalVar, rx.ExternFunc))


def to_numpy(value: Any) -> Any:
    """A runtime value in the interpreter's form: Tensors and DLPack objects as arrays on the
    same memory, lists as tuples."""
    if isinstance(value, Tensor):
        value = value.view()
    if isinstance(value, np.ndarray):  # also of int4: one element per byte
        below_a_byte = is_packed(value.dtype)
        return value.astype(numpy_dtype(value.dtype.name)) if below_a_byte else value
    if isinstance(value, np.generic):
        return np.asarray(value)
    if isinstance(value, (list, tuple)):
        return tuple(to_numpy(v) for v in value)
    if hasattr(value, "__dlpack__"):
        return np.from_dlpack(value)
    return value


def to_runtime(value: object) -> Any:
    """An interpreter value in the form for callers and packed functions: arrays as Tensors on
    the same memory, tuples of ints as shapes."""
    if isinstance(value, np.ndarray):
        return Tensor(value)
    if isinstance(value, tuple):
        whole = bool(value) and all(type(v) is int for v in value)
        return ShapeTuple(value) if whole else tuple(to_runtime(v) for v in value)
    return value
