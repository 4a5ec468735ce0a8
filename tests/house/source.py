"""The package's own source, read for the tests of the house rules."""

from __future__ import annotations

import ast
import gc
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any, TypeVar

import pytest

from loopwright.base.errors import explain
from loopwright.codegen.llvm.jit import gc_paused

ROOT = Path(__file__).parent.parent.parent
PACKAGE = ROOT / "src" / "loopwright"
N = TypeVar("N", bound=ast.AST)


@dataclass(frozen=True)
class Source:
    """A module of the package: its path from the package's folder, its text, and its syntax tree."""

    path: Path
    text: str
    tree: ast.Module

    @property
    def layer(self) -> str:
        """The folder right below the package ("" for the package's own modules); in the wing of TVM,
        the one below that: "tvm.relay"."""
        return layer_of(self.path.parts[:-1])

    @property
    def package(self) -> tuple[str, ...]:
        """The package that a relative import starts from."""
        return ("loopwright", *self.path.parts[:-1])

    def nodes(self, *kinds: type[N]) -> list[N]:
        """The nodes of these kinds, kind by kind."""
        return [node for kind in kinds for node in self._by_kind.get(kind, ())]

    @cached_property
    def _by_kind(self) -> dict[type, list[Any]]:
        found: dict[type, list[Any]] = {}
        for node in ast.walk(self.tree):
            found.setdefault(type(node), []).append(node)
        return found

    def imports(self) -> Iterator[tuple[ast.stmt, tuple[str, ...], tuple[str, ...]]]:
        """(statement, imported module, names taken from it) for each import statement."""
        for node in self.nodes(ast.Import):
            for alias in node.names:
                yield node, tuple(alias.name.split(".")), ()
        for node in self.nodes(ast.ImportFrom):
            base = self.package[: len(self.package) - node.level + 1] if node.level else ()
            module = (*base, *(node.module.split(".") if node.module else ()))
            yield node, module, tuple(alias.name for alias in node.names)


def layer_of(parts: tuple[str, ...]) -> str:
    """The layer of what stands at a path below the package."""
    return ".".join(parts[: 2 if parts[:1] == ("tvm",) else 1])


def forbid(rule: str, found: Iterable[object], instead: str) -> None:
    """Fail where anything breaks a rule of the house: with the rule, where, and what to do instead."""
    places = [*map(str, found)]
    if places:
        pytest.fail(explain(rule, got="\n    ".join(["", *places]), instead=instead), pytrace=False)


@cache
def sources() -> tuple[Source, ...]:
    """Every module of the package."""
    with gc_paused():  # of two million new nodes none is garbage
        texts = {p: p.read_text(encoding="utf-8") for p in sorted(PACKAGE.rglob("*.py"))}
        found = tuple(
            Source(path.relative_to(PACKAGE), text, ast.parse(text)) for path, text in texts.items()
        )
    gc.freeze()  # later collections need not visit them
    return found
