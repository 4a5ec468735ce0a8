"""What may be left out of calls of public functions, and what is taken then: a golden, as users' code
depends on it. The operators' own are in the stubs (`test_generated.py`)."""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Callable, Iterator
from types import FunctionType, ModuleType
from typing import Any

from loopwright.relay.operators.core import ROWS

from .source import PACKAGE


def shown(value: object) -> str:
    if isinstance(value, (set, frozenset)):
        value = sorted(value)
    text = getattr(value, "__name__", None) or repr(value).partition(" at 0x")[0]
    return text.replace(sys.executable, "python")


def defaults(function: Callable[..., Any]) -> str:
    """The parameters of a function, with what stands for those that are left out."""
    given = inspect.signature(function).parameters.values()
    return ", ".join(
        f"{p.name}={shown(p.default)}" if p.default is not p.empty else p.name for p in given
    )


def packages() -> Iterator[ModuleType]:
    """The packages, whose `__init__` says what is public."""
    for path in sorted(PACKAGE.rglob("__init__.py")):
        yield importlib.import_module(".".join(path.parent.relative_to(PACKAGE.parent).parts))


def functions(name: str, value: object) -> Iterator[tuple[str, Callable[..., Any]]]:
    """A function, or the constructor and the methods of a class."""
    if isinstance(value, FunctionType):
        yield name, value
    elif isinstance(value, type) and value.__module__.startswith("loopwright"):
        for part, member in vars(value).items():
            if isinstance(member, (staticmethod, classmethod)):
                member = member.__func__
            if isinstance(member, FunctionType) and (part[0] != "_" or part == "__init__"):
                yield f"{name}.{part}", member


def test_defaults_of_public_functions(golden: Callable[[str, str], None]) -> None:
    lines, known = [], set()
    for package in packages():
        for name, value in sorted(vars(package).items()):
            if not name.startswith("_"):
                for path, function in functions(f"{package.__name__}.{name}", value):
                    if "=" in (text := defaults(function)) and function not in known:
                        if (function.__module__ or "").startswith("loopwright."):
                            known.add(function)
                            lines.append(f"{path}({text})")
    golden("signatures/public.txt", "\n".join(lines))


def test_defaults_of_relay_operators(golden: Callable[[str, str], None]) -> None:
    rows = (f"{row.name}: {row.defaults}" for row in ROWS.values() if row.defaults)
    golden("signatures/relay.txt", "\n".join(rows))
