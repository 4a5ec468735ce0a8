"""`ScheduleError`: a step that was refused, with the function's text and the place underlined."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ....base.errors import LoopwrightError, explain
from ....ir.module import IRModule

if TYPE_CHECKING:
    from ...function import PrimFunc


class ScheduleError(LoopwrightError):
    """A primitive was refused; the program is unchanged.

    The text is computed on demand: it shows the function with the blocks and loops `at`
    underlined, names the fault and what would be accepted.
    """

    def __init__(
        self,
        what: str,
        *,
        got: object = None,
        instead: str | None = None,
        at: Any = (),
        tvm: str | None = None,
    ) -> None:
        super().__init__(what)
        self.what, self.got, self.instead, self.tvm = what, got, instead, tvm
        self.at = [at] if not isinstance(at, (list, tuple)) else list(at)
        self.primitive = ""
        self.level = "fast"
        self.func: Any = None

    def located(self, primitive: str, func: PrimFunc | None, level: str) -> ScheduleError:
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
        return explain(self.what, got=self.got, instead=self.instead, tvm=self.tvm)

    def __str__(self) -> str:
        if not self.primitive:
            return self.message()
        if self.level == "none":
            return f"{self.message()}\n(not rendered)"
        head = f"An error occurred in the schedule primitive '{self.primitive}'."
        if self.level == "fast" or self.func is None:
            return f"{head}\n{self.message()}"
        name = self.func.attrs.get("global_symbol", "main")
        text = _underlined(IRModule({name: self.func}), self.at)
        return f"{head}\n\nThe IR with diagnostic is:\n{text}\nError message: {self.message()}"


class NoSuchVariable(ScheduleError, IndexError):
    """A random variable that the schedule does not have, or has forgotten."""


class NoWorkingFunction(ScheduleError, ValueError):
    """A step that needs a current function where several could be meant."""


def _underlined(mod: IRModule, at: list[Any]) -> str:
    """The module's text with carets below the first line of each statement of `at`, and above it
    the statement's name: its kind, and its number among those of `at`."""
    nodes = [node for node in at if node is not None]
    if not nodes:
        return mod.script()
    names: dict[int, str] = {}  # of the marked lines
    counts: dict[str, int] = {}
    code: list[str] = []
    for node in nodes:
        block = getattr(node, "block", None)
        marked = [node] if block is None else [node, block]
        kind = f"tir.{type(marked[-1]).__name__}"
        lines = mod.script(obj_to_underline=marked, syntax_sugar=False).splitlines()
        code = []
        first = None
        for line in lines:
            if line.strip() and set(line.strip()) == {"^"}:
                first = len(code) - 1 if first is None else first
            else:
                code.append(line)
        if first is not None and first not in names:
            names[first] = f"# {kind}#{counts.setdefault(kind, 0)}"
            counts[kind] += 1
    out: list[str] = []
    for n, line in enumerate(code):
        if n not in names:
            out.append(line)
            continue
        body = line.lstrip()
        indent = " " * (len(line) - len(body))
        out += [indent + names[n], line, indent + "^" * len(body)]
    return "\n".join(out)
