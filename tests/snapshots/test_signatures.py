"""What may be left out of calls of public functions, what is taken then, and the numbers of public classes."""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Callable, Iterator
from types import FunctionType
from typing import Any

from loopwright.ops.core import OPERATORS
from loopwright.relay.operators.core import ROWS, VIEWS

from ..house.source import PACKAGE


def defaults(function: Callable[..., Any]) -> str:
    """The parameters of a function, with what stands for those that are left out."""
    given = inspect.signature(function).parameters.values()
    return ", ".join(
        f"{p.name}={shown(p.default)}" if p.default is not p.empty else p.name for p in given
    )


def shown(value: Any) -> str:
    if isinstance(value, (set, frozenset)):
        value = sorted(value)
    text = getattr(value, "__name__", None) or repr(value).partition(" at 0x")[0]
    return text.replace(sys.executable, "python")


def public(namespace: Any, module: str) -> Iterator[tuple[str, Callable[..., Any]]]:
    """The functions of a module, and the constructors and methods of its classes."""
    for name, value in vars(namespace).items():
        if name.startswith("_") and name != "__init__":
            continue
        if isinstance(value, (staticmethod, classmethod)):
            value = value.__func__
        if isinstance(value, type) and value.__module__ == module:
            yield from ((f"{name}.{n}", f) for n, f in public(value, module))
        elif isinstance(value, FunctionType) and value.__module__ == module:
            yield name, value


def constants(namespace: Any, module: str) -> Iterator[str]:
    """The numbers and truths that public classes of a module have: levels of passes, members of enumerations."""
    for name, value in vars(namespace).items():
        if isinstance(value, type) and value.__module__ == module and not name.startswith("_"):
            yield from (
                f"{name}.{n} = {v!r}"
                for n, v in vars(value).items()
                if isinstance(v, (int, float)) and not n.startswith("_")
            )


def test_defaults(snapshot: Any) -> None:
    rows = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
        module = ".".join(parts).removesuffix(".__init__")
        if not module.endswith("__main__"):
            loaded = importlib.import_module(module)
            found = public(loaded, module)
            lines = [f"{name}({text})" for name, f in found if "=" in (text := defaults(f))]
            lines += constants(loaded, module)
            if lines:
                rows[module.removeprefix("loopwright.")] = {"": "\n".join(sorted(lines))}
    snapshot("signatures/functions", rows)


def test_operators(snapshot: Any) -> None:
    rows = {
        o.name: {"": defaults(o.body)}
        for o in OPERATORS.values()
        if o.body.__module__.startswith("loopwright.")
    }
    snapshot("signatures/operators", rows)


def test_relay(snapshot: Any) -> None:
    rows = {row.name: {"": f"{row} {row.defaults}"} for row in ROWS.values()}
    snapshot(
        "signatures/relay", rows | {f"{name}()": {"": defaults(f)} for name, f in VIEWS.items()}
    )
