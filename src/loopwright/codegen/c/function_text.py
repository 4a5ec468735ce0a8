"""The text of one C function under construction: its lines, names and variables.

An expression is one C expression whose only side effects are those of calls; unless it is a
single operand, it is parenthesized.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from ...base.names import free_name
from ...base.span import Span
from ...ir.dtype import DataType
from ...ir.prim_expr import Call, PrimExpr, Var
from ...tir.function import PrimFunc
from ..context import INDEX, NARROW, Context
from .ranges import Ranges
from .types import bare, identifier

if TYPE_CHECKING:
    from ...tir.stmt import Stmt

RETURN_OK, RETURN_BAD = "\0ok", "\0bad"
I32, I64, F32 = (DataType(t) for t in ("int32", "int64", "float32"))


class Program(Protocol):
    """The state shared by the functions of a file."""

    helpers: dict[str, str]  # helpers by name, callees first
    macro: str
    bounds: dict[str, int]
    reserved: set[str]

    def has(self, name: PrimExpr) -> bool:
        """Whether the program defines a function of that name."""
        ...

    def require(self, name: str, span: Span | None = None) -> FunctionText:
        """The function of that name; it is emitted first if necessary."""
        ...

    def extern(self, name: str, call: Call) -> list[str]:
        """The C types of an external function's parameters."""
        ...

    def constant(self, data: Any, hint: str) -> tuple[str, str]:
        """(name of a constant, C type of its elements)."""
        ...


class FunctionText(Context):
    """Appends statements to `self.lines`."""

    language, passes = "C", "backend.c"

    def __init__(self, module: Program, name: str, func: PrimFunc, stack_bytes: int = 0) -> None:
        super().__init__()
        self.module = module
        self.symbol = name
        self.func = func
        self.stack_bytes = stack_bytes
        self.pointees: dict[Any, str] = {}  # element types of pointers, with const
        self.used: set[Var] = set()
        self.ranges = Ranges()
        self.lines: list[str] = []
        self.depth = 1
        self.can_fail = False
        self.bad_index = ""  # the variable that says whether an index was out of range
        self.index_span: Span | None = None  # the nodes that such indices are of
        self.check_index = ""  # what tests it before a return
        self.scratch_at = 0  # scratch bytes in use at this point
        self.scratch_bytes = 0  # maximum over the function
        self.used_names = {*module.reserved, name, "scratch"}
        self.params: list[tuple[Var, str]] = []
        self.header = ""
        self.meaning_of: PrimExpr | None = None  # the operation that this helper implements

    def name(self, hint: str) -> str:
        """An unused name in the function."""
        label = free_name(identifier(hint), self.used_names)
        self.used_names.add(label)
        return label

    def var(self, node: Var) -> str:
        """The value of a variable."""
        text = self.env.get(node)
        if text is None:
            raise self.undefined(node)
        self.used.add(node)
        wide = node in self.ranges.narrow and self.mode != NARROW
        return f"((int64_t){text})" if wide else text

    def bare(self, node: PrimExpr) -> str:
        """The value without enclosing parentheses."""
        return bare(self.expr(node))

    def index(self, node: PrimExpr) -> str:
        """An index: it does not overflow. It is computed in 32 bits if all of it fits."""
        return bare(self.used_as(NARROW if self.ranges.fits_narrow(node) else INDEX, node))

    def type_of(self, node: PrimExpr) -> DataType:
        """The type that integers are computed in here."""
        return I32 if self.mode == NARROW else node.dtype

    def emit(self, line: str) -> None:
        self.lines.append("  " * self.depth + line)

    def block(self, header: str, body: Stmt) -> None:
        """`header { body }`; names declared in the body are free again after it."""
        self.emit(f"{header} {{")
        self.depth += 1
        before = set(self.used_names)
        self.stmt(body)
        self.used_names = before
        self.depth -= 1
        self.emit("}")

    def text(self) -> str:
        """The whole definition."""
        ok, bad = ("return 0;", "return -1;") if self.can_fail else ("return;", "")
        ok = self.check_index + ok
        body = "\n".join(self.lines).replace(RETURN_OK, ok).replace(RETURN_BAD, bad)
        span = "" if self.func.span is None else str(self.func.span).splitlines()[0]
        comment = span.replace("*/", "* /").replace("/*", "/ *")
        return f"{f'/* {comment} */' if comment else ''}\n{self.header} {{\n{body}\n}}".lstrip()
