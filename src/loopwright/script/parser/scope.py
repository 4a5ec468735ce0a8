"""Names and what they stand for while a script is read."""

from __future__ import annotations

import builtins
import difflib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

_ABSENT: Any = object()


class Scope:
    """One flat table of names with an undo log, so that a lookup is one dict access.

    `names` may be used as the globals of an `eval`.
    """

    def __init__(self, *tables: Mapping[str, Any]) -> None:
        self.names: dict[str, Any] = {}
        for table in tables:
            self.names.update(table)
        self._log: list[list[tuple[str, Any]]] = [[]]

    def lookup(self, name: str) -> Any:
        """What a name stands for. Raises NameError with the close names."""
        found = self.names.get(name, _ABSENT)
        if found is _ABSENT:
            found = getattr(builtins, name, _ABSENT)
        if found is _ABSENT:
            close = difflib.get_close_matches(name, self.names, 3)
            hint = f"; did you mean {', '.join(close)}?" if close else ""
            raise NameError(f"undefined variable {name!r}{hint}")
        return found

    def define(self, name: str, value: Any) -> None:
        """Let `name` stand for `value` until the innermost frame ends."""
        self._log[-1].append((name, self.names.get(name, _ABSENT)))
        self.names[name] = value

    def defined_here(self, name: str) -> bool:
        """Whether the innermost frame defines `name`."""
        return any(name == known for known, _ in self._log[-1])

    def holds(self, value: Any) -> bool:
        """Whether some name of the script stands for this very object."""
        return any(self.names.get(name) is value for log in self._log for name, _ in log)

    @contextmanager
    def frame(self) -> Iterator[None]:
        """Names defined inside are forgotten at the end."""
        self._log.append([])
        try:
            yield
        finally:
            for name, old in reversed(self._log.pop()):
                if old is _ABSENT:
                    del self.names[name]
                else:
                    self.names[name] = old

    def snapshot(self) -> dict[str, Any]:
        """A copy of the table, for code that runs later (a lambda, a macro)."""
        return dict(self.names)
