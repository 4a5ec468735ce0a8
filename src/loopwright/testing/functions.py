"""Functions that check how values cross a call of a global function, under TVM's names
("testing.AcceptsBool", `testing.echo`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..base import errors
from ..ir.expr import BaseExpr
from ..ir.prim_expr import IntImm, PrimExpr, StringImm
from ..ir.prim_op import const
from ..runtime import register_func


def echo(value: Any) -> Any:
    """The value itself."""
    return value


def nop(*values: Any) -> None:
    """Nothing."""


def test_wrap_callback(function: Callable[[], Any]) -> Callable[[], None]:
    """A function that calls another one; what that raises passes through."""

    def call() -> None:
        function()

    return call


def test_raise_error(kind: str, message: str) -> None:
    """Raise the error of that name, or LoopwrightError where there is none."""
    raise getattr(errors, kind, errors.LoopwrightError)(message)


def test_check_eq_callback(message: str) -> Callable[[int, int], None]:
    """A function that raises unless two numbers are equal: the error that the message begins with
    ("InternalError: why")."""
    kind, _, text = message.partition(": ")

    def check(x: int, y: int) -> None:
        if x != y:
            raise getattr(errors, kind, errors.InternalError)(f"{x} is not {y}: {text}")

    return check


def ErrorTest(x: int, y: int) -> None:
    """Raise ValueError unless two numbers are equal."""
    if x != y:
        raise ValueError(f"expect {x} and {y} to be equal")


def _expression(value: Any) -> PrimExpr:
    if isinstance(value, PrimExpr):
        return value
    if isinstance(value, (bool, int, float, str)):
        return StringImm(value) if isinstance(value, str) else const(value)
    what = "a scalar expression is expected"
    raise TypeError(errors.explain(what, got=type(value).__name__, instead="pass a number"))


def _variant(value: Any) -> str:
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


def _at(values: Mapping[Any, Any], key: Any) -> Any:
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
    "nop": nop,
    "test_check_eq_callback": test_check_eq_callback,
    "test_raise_error": test_raise_error,
    "test_wrap_callback": test_wrap_callback,
}
for _name, _function in _TYPED.items():
    register_func(f"testing.{_name}", _function, override=True)
