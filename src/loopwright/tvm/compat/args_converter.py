"""TVM's `relax.utils.args_converter`: arguments become Relax expressions before the call."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Container, Sequence
from types import UnionType
from typing import Any, get_args

from ...relax.expr import Expr, as_expr


def _one(value: float | tuple[int, ...] | None) -> Any:
    return None if value is None else as_expr(value)


def _list(value: int | tuple[str | int, ...]) -> Any:
    if value is not None and not isinstance(value, (list, tuple)):
        raise TypeError(f"a list of expressions is expected, got {value!r}")
    return None if value is None else [as_expr(item) for item in value]


def _kind_of(annotation: UnionType | type) -> str:
    """The kind of argument that an annotation requests; typing's `List` and `Optional` are the
    same as the builtins."""
    parts = [p for p in get_args(annotation) if p is not type(None)]
    if annotation is Expr or parts == [Expr]:
        return "list" if _is_list(annotation) else "one"
    if len(parts) == 1 and _is_list(parts[0]) and get_args(parts[0]) == (Expr,):
        return "list"
    return ""


def _is_list(annotation: Any) -> bool:
    return getattr(annotation, "__origin__", None) is list


def _converted(func: Callable[..., Any], kinds: dict[str, str]) -> Callable[..., Any]:
    signature = inspect.signature(func)

    @functools.wraps(func)
    def call(*args: int | Sequence[str | int] | None, **kwargs: float) -> Any:
        bound = signature.bind(*args, **kwargs)
        for name, value in bound.arguments.items():
            if name not in kinds:
                continue
            convert = _one if kinds[name] == "one" else _list
            kind = signature.parameters[name].kind
            if kind is inspect.Parameter.VAR_POSITIONAL:
                value = tuple(map(convert, value))
            elif kind is inspect.Parameter.VAR_KEYWORD:
                value = {key: convert(item) for key, item in value.items()}
            else:
                value = convert(value)
            bound.arguments[name] = value
        return func(*bound.args, **bound.kwargs)

    return call


def convert(one: Container[str] = (), many: Container[str] = ()) -> Callable[..., Any]:
    """A decorator: the parameters in `one` become expressions, those in `many` lists of them."""

    def decorate(func: Callable[..., Any]) -> Callable[..., Any]:
        names = inspect.signature(func).parameters
        kinds = {n: "one" if n in one else "list" for n in names if n in one or n in many}
        return _converted(func, kinds)

    return decorate


def to_expr(*arg_names: str) -> Callable[..., Any]:
    """A decorator: these parameters become expressions; None stays."""
    return convert(one=arg_names)


def to_list_expr(*arg_names: str) -> Callable[..., Any]:
    """A decorator: these parameters become lists of expressions; None stays."""
    return convert(many=arg_names)


def auto(func: Callable[..., Any]) -> Callable[..., Any]:
    """The parameters annotated as `Expr`, `list[Expr]`, or one of them or None, are converted."""
    hints = inspect.get_annotations(func, eval_str=True)
    kinds = {name: _kind_of(hint) for name, hint in hints.items() if name != "return"}
    return _converted(func, {name: kind for name, kind in kinds.items() if kind})
