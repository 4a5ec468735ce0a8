"""`ScheduleError`: a step that was refused, with the function's text and the place underlined."""

from __future__ import annotations

from typing import Any

from ....base.errors import LoopwrightError, explain


class ScheduleError(LoopwrightError):
    """A primitive was refused; the program is as it was before.

    The text is computed on demand: it shows the function with the blocks and loops `at`
    underlined, says what is wrong and what would be accepted.
    """

    def __init__(
        self, what: str, *, got: object = None, instead: str | None = None, at: Any = ()
    ) -> None:
        super().__init__(what)
        self.what, self.got, self.instead = what, got, instead
        self.at = [at] if not isinstance(at, (list, tuple)) else list(at)
        self.primitive = ""
        self.level = "fast"
        self.func: Any = None

    def located(self, primitive: str, func: Any, level: str) -> ScheduleError:
        """The same error, as raised by a primitive applied to `func`."""
        if not self.primitive:
            self.primitive, self.func, self.level = primitive, self.func or func, level
        return self

    @property
    def args(self) -> tuple[str]:
        """The whole text, as TVM has it."""
        return (str(self),)

    def message(self) -> str:
        """What, got, and what to do instead, without the program."""
        return explain(self.what, got=self.got, instead=self.instead)

    def __str__(self) -> str:
        if self.level == "none" or not self.primitive:
            return self.message()
        head = f"An error occurred in the schedule primitive '{self.primitive}'."
        if self.level == "fast" or self.func is None:
            return f"{head}\n{self.message()}"
        text = _underlined(self.func, self.at)
        return f"{head}\n\nThe IR with diagnostic is:\n{text}\nError message: {self.message()}"


def _underlined(func: Any, at: list[Any]) -> str:
    """The function's text with carets below the first line of each statement of `at`."""
    nodes = [node for node in at if node is not None]
    if not nodes:
        return func.script()
    places: set[int] = set()
    code: list[str] = []
    for node in nodes:
        marked = [node, node.block] if hasattr(node, "block") else [node]
        lines = func.script(obj_to_underline=marked, syntax_sugar=False).splitlines()
        code = []
        first = None
        for line in lines:
            if line.strip() and set(line.strip()) == {"^"}:
                first = len(code) - 1 if first is None else first
            else:
                code.append(line)
        if first is not None:
            places.add(first)
    out: list[str] = []
    for n, line in enumerate(code):
        out.append(line)
        if n in places:
            body = line.lstrip()
            out.append(" " * (len(line) - len(body)) + "^" * len(body))
    return "\n".join(out)
