"""Executors: `relay.create_executor(kind, mod).evaluate(expr)` is a function of arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ....base.errors import explain
from ....ir.dtype import numpy_dtype
from ....ir.expr import GlobalVar
from ....ir.module import IRModule
from ....relax.interpreter import Interpreter as RelaxInterpreter
from ....runtime.device import Device
from ....runtime.tensor import Tensor, tensor
from ..expr import Expr, Function, Var, bind, const
from ..infer import infer_function
from ..literals import Names
from ..translate import to_relax
from ..types import TensorType, TupleType


class ADT(tuple[Any, ...]):
    """The fields of a tuple that an executor computed."""

    tag = 0  # tuples are the only algebraic data type here


def _result(value: Tensor | Sequence[Tensor | Sequence[Tensor]]) -> Any:
    return ADT(map(_result, value)) if isinstance(value, (list, tuple)) else value


class Executor:
    """Evaluates expressions in a module. A subclass says how a module's `main` becomes a function."""

    def __init__(
        self, mod: IRModule | None, device: Device | None = None, target: str | None = None
    ) -> None:
        self.mod = IRModule() if mod is None else mod
        self.device, self.target = device, target

    def _make_function(self, mod: IRModule) -> Callable[..., Any]:
        """The module's `main`, called with arguments in order."""
        raise NotImplementedError(f"{type(self).__name__} has no method _make_function")

    def evaluate(
        self, expr: GlobalVar | Expr | None = None, binds: Mapping[Var, Any] | None = None
    ) -> Any:
        """The value of an expression; of a function, one to call with arrays, in order or by name.

        expr: `main` of the module if None. binds: values of free variables.
        """
        if binds:
            values = {var: _as_expr(value) for var, value in binds.items()}
            expr = bind(expr, values)
        if expr is None or isinstance(expr, GlobalVar):
            func = self.mod["main" if expr is None else expr.name_hint]
        elif isinstance(expr, Function):
            func = expr
        else:
            return self._callable(Function([], expr))()
        return self._callable(func)

    def _callable(self, func: Function) -> Callable[..., Any]:
        mod = self.mod.clone()
        mod["main"] = func
        func = infer_function(func, mod)
        mod["main"] = func
        run, params = self._make_function(mod), func.params

        def call(*args: Any, **kwargs: Tensor | np.ndarray[Any, Any] | float) -> Any:
            values = in_order(params, args, kwargs)
            pairs = zip(params, values, strict=True)
            return _result(run(*[argument(p.name_hint, p.checked_type, v) for p, v in pairs]))

        return call


def _as_expr(value: np.ndarray[Any, Any] | float) -> Any:
    return value if isinstance(value, Expr) else const(value)


def in_order(
    params: tuple[Var, ...], args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> list[Any]:
    """The arguments of a call in the order of the parameters; of two of one name, the second has a
    number behind, as in the text. Raises TypeError."""
    unique_names = Names()
    names = [unique_names.unique(p.name_hint) for p in params]
    rest = names[len(args) :]
    wrong = [name for name in kwargs if name not in rest]
    missing = [name for name in rest if name not in kwargs]
    if len(args) > len(names) or wrong or missing:
        parts = [f"missing {', '.join(missing)}"] if missing else []
        parts += [f"unknown or given twice: {', '.join(wrong)}"] if wrong else []
        what = f"the function takes {len(names)} arguments ({', '.join(names)})"
        raise TypeError(explain(what, got="; ".join(parts) or f"{len(args)} arguments"))
    return [*args, *(kwargs[name] for name in rest)]


def argument(name: str, type_: Any, value: Any) -> Any:
    """A value as a parameter of that type takes it: numbers, lists and arrays become its dtype where
    nothing but digits is lost."""
    if isinstance(type_, TupleType):
        fields = enumerate(zip(type_.fields, value, strict=True))
        return tuple(argument(f"{name}.{i}", t, v) for i, (t, v) in fields)
    if not isinstance(type_, TensorType) or isinstance(value, Tensor):
        return value
    value = getattr(value, "data", value) if isinstance(value, Expr) else value
    array, dtype = np.asarray(value), np.dtype(numpy_dtype(type_.dtype))
    if array.dtype != dtype:
        plain = isinstance(value, (bool, int, float, list, tuple))
        if not plain and not np.can_cast(array.dtype, dtype, "same_kind"):
            what = f"the argument {name} has dtype {type_.dtype}"
            raise TypeError(explain(what, got=str(array.dtype), instead="convert the array"))
        array = array.astype(dtype)
    return tensor(array)


class Interpreter(Executor):
    """The "debug" executor: operator by operator, by their meaning in numpy."""

    def _make_function(self, mod: IRModule) -> Callable[..., Any]:
        return RelaxInterpreter(to_relax(mod))["main"]
