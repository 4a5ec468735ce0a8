"""Functions that check how values cross a call of a global function ("testing.AcceptsBool",
`testing.echo`) or the border of a process (`contrib.popen_pool`), under TVM's names."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ...base import errors
from ...ir.expr import BaseExpr
from ...ir.prim_expr import IntImm, PrimExpr, StringImm
from ...ir.prim_op import const
from ...runtime import get_global_func, register_func


def echo(value: Sequence[int]) -> Any:
    """The value itself."""
    return value


def nop(*values: str | int) -> None:
    """Nothing."""


def test_wrap_callback(function: Callable[[], Any]) -> Callable[[], None]:
    """A function that calls another one; what that raises passes through."""

    def call() -> None:
        function()

    return call


def test_raise_error(kind: str, message: str) -> None:
    """Raise the error of that name, or LoopwrightError for an unknown name."""
    raise getattr(errors, kind, errors.LoopwrightError)(message)


def test_check_eq_callback(message: str) -> Callable[[int, int], None]:
    """A function that raises unless two numbers are equal: the error that the message begins with
    ("InternalError: why")."""
    kind, _, text = message.partition(": ")

    def check(x: int, y: int) -> None:
        if x != y:
            raise getattr(errors, kind, errors.InternalError)(f"{x} is not {y}: {text}")

    return check


def identity_after(value: Any, seconds: float) -> Any:
    """The value, after a while."""
    time.sleep(seconds)
    return value


def terminate_self() -> None:
    """End the process."""
    os._exit(1)


def initializer(*state: Any) -> None:
    """Keep values in the process, for `after_initializer`."""
    register_func("testing.state", lambda: state, override=True)


def after_initializer() -> tuple[Any, ...]:
    """What `initializer` was called with."""
    return get_global_func("testing.state")()


def register_ffi() -> None:
    """Register "testing.identity_py" in the process."""
    register_func("testing.identity_py", echo, override=True)


def call_py_ffi(value: Any) -> Any:
    """What "testing.identity_py" returns."""
    return get_global_func("testing.identity_py")(value)


def call_cpp_ffi(value: Any) -> Any:
    """The result of the global function "testing.echo"."""
    return get_global_func("testing.echo")(value)


def call_cpp_py_ffi(value: Any) -> Any:
    """What "testing.identity_cpp" returns, which calls "testing.identity_py"."""
    return get_global_func("testing.identity_cpp")(value)


def fast_summation(n: int) -> int:
    """0 + 1 + ... + n."""
    return n * (n + 1) // 2


def slow_summation(n: int) -> int:
    """`fast_summation`, one by one."""
    return sum(range(n + 1))


def timeout_job(seconds: float) -> None:
    """Take one and a half times as long."""
    time.sleep(seconds * 1.5)


def ErrorTest(x: int, y: int) -> None:
    """Raise ValueError unless two numbers are equal."""
    if x != y:
        raise ValueError(f"expect {x} and {y} to be equal")


def _expression(value: object) -> PrimExpr:
    if isinstance(value, PrimExpr):
        return value
    if isinstance(value, (bool, int, float, str)):
        return StringImm(value) if isinstance(value, str) else const(value)
    what = "a scalar expression is expected"
    raise TypeError(errors.explain(what, got=type(value).__name__, instead="pass a number"))


def _variant(value: object) -> str:
    """The kind of a text or an integer, as TVM names it."""
    if isinstance(value, str):
        return "ffi.String"
    if isinstance(value, (int, IntImm)):
        return "ir.IntImm"
    what = "a text or an integer is expected"
    raise TypeError(errors.explain(what, got=type(value).__name__, instead="pass one of them"))


def _half(value: int) -> BaseExpr | str:
    return "argument was odd" if value % 2 else const(value // 2, "int64")


def _first(values: Sequence[Any]) -> Any:
    return values[0]


def _at(values: Mapping[Any, Any], key: str) -> Any:
    return values[key]


_TYPED: dict[str, Callable[..., Any]] = {
    "AcceptsBool": bool,
    "AcceptsInt": int,
    "AcceptsPrimExpr": _expression,
    "AcceptsArrayOfPrimExpr": lambda values: [_expression(v) for v in values],
    "AcceptsMapOfPrimExpr": lambda values: {k: _expression(v) for k, v in values.items()},
    "AcceptsObjectRefArray": _first,
    "AcceptsMapReturnsValue": _at,
    "AcceptsMapReturnsMap": dict,
    "AcceptsVariant": _variant,
    "ReturnsVariant": _half,
    "ErrorTest": ErrorTest,
    "echo": echo,
    "identity_cpp": call_py_ffi,
    "nop": nop,
    "test_check_eq_callback": test_check_eq_callback,
    "test_raise_error": test_raise_error,
    "test_wrap_callback": test_wrap_callback,
}
for _name, _function in _TYPED.items():
    register_func(f"testing.{_name}", _function, override=True)
