"""Names and their values while a script is read."""

from __future__ import annotations

import builtins
import difflib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from ...base.errors import explain
from ...ir.prim_expr import PrimExpr

_ABSENT: Any = object()


class Scope:
    """One flat table of names with an undo log, so that a lookup is one dict access."""

    def __init__(self, *tables: Mapping[str, Any]) -> None:
        self.names: dict[str, Any] = {}
        for table in tables:
            self.names.update(table)
        self._log: list[list[tuple[str, Any]]] = [[]]
        # Names that are looked up last, and what to say of names that are known but unusable.
        self.fallback: Mapping[str, Any] = {}
        self.builtins: Mapping[str, Any] = vars(builtins)
        self.hints: dict[str, str] = {}

    def lookup(self, name: str) -> Any:
        """The value of a name. Raises NameError with the close names."""
        value = self.names.get(name, _ABSENT)
        if value is _ABSENT:
            value = self.fallback.get(name, self.builtins.get(name, _ABSENT))
        if value is _ABSENT:
            close = difflib.get_close_matches(name[:100], self.names, 3)
            hint = f"did you mean {', '.join(close)}?" if close else None
            what = f"undefined variable {name!r}"
            raise NameError(explain(what, instead=self.hints.get(name, hint)))
        return value

    def define(self, name: str, value: Any) -> None:
        """Bind `name` to `value` until the innermost frame ends."""
        self._log[-1].append((name, self.names.get(name, _ABSENT)))
        self.names[name] = value

    def holds(self, value: PrimExpr) -> bool:
        """Whether some name of the script is bound to this very object."""
        return any(self.names.get(name) is value for log in self._log for name, _ in log)

    @contextmanager
    def frame(self, keep: Callable[[Any], bool] | None = None) -> Iterator[None]:
        """Names defined inside are removed at the end, except those whose value `keep` accepts."""
        self._log.append([])
        remaining: dict[str, Any] = {}
        try:
            yield
            if keep is not None:
                inside = self.defined_here().items()
                remaining = {name: value for name, value in inside if keep(value)}
        finally:
            for name, old in reversed(self._log.pop()):
                if old is _ABSENT:
                    del self.names[name]
                else:
                    self.names[name] = old
            for name, value in remaining.items():
                self.define(name, value)

    def defined_here(self) -> dict[str, Any]:
        """The names that the innermost frame defines, with their values."""
        return {name: self.names[name] for name, _ in self._log[-1]}

    def snapshot(self) -> dict[str, Any]:
        """A copy of the table, for code that runs later (a lambda, a macro)."""
        return dict(self.names)
