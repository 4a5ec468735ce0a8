"""What may be left out of calls of public functions, and what is taken then: a golden, as users' code
depends on it. The operators' own are in the stubs (`test_generated.py`)."""

from __future__ import annotations

import ast
import importlib
import inspect
import sys
from collections.abc import Callable, Iterator
from types import FunctionType
from typing import Any

from loopwright.compat.paths import target_name
from loopwright.composition import PASSES, names_of
from loopwright.relay.operators.core import ROWS

from .source import sources


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


def public() -> Iterator[tuple[str, object]]:
    """(path, value) of what the `__init__` of a package defines or imports from this one: read from its
    text, as what is filled in later depends on what ran before."""
    for source in sources():
        if source.path.name == "__init__.py" and "torch" not in source.package[:-1]:
            package = importlib.import_module(".".join(source.package))
            names = {
                n.name for n in source.tree.body if isinstance(n, (ast.FunctionDef, ast.ClassDef))
            }
            for _, module, taken in source.imports():
                if module[0] == "loopwright":
                    every = "*" in taken and importlib.import_module(".".join(module))
                    names |= set(every.__all__ if every else taken)
            place = package.__name__.partition(".")[2]
            names |= set(names_of(place)) if place in ("te", *PASSES) else set()
            door = place.removeprefix("tvm.")  # the path that users know
            shown = door if target_name(door) == place else place
            for name in sorted(names):
                if not name.startswith("_") and hasattr(package, name):
                    yield (
                        ".".join(filter(None, ("loopwright", shown, name))),
                        getattr(package, name),
                    )


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
    lines: dict[Callable[..., Any], str] = {}  # each under its first name
    for name, value in public():
        for path, function in functions(name, value):
            if "=" in (text := defaults(function)):
                lines.setdefault(function, f"{path}({text})")
    golden("signatures/public.txt", "\n".join(lines.values()))


def test_defaults_of_relay_operators(golden: Callable[[str, str], None]) -> None:
    rows = (f"{row.name}: {row.defaults}" for row in ROWS.values() if row.defaults)
    golden("signatures/relay.txt", "\n".join(rows))
