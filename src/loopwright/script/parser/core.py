"""Reads the statements of a script; the current dialect defines their meaning.

A dialect is a class with `visit_<statement>` methods, made per function.
"""

from __future__ import annotations

import ast
import functools
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import FrameType
from typing import Any, TypeVar

from ...base.errors import DiagnosticError
from ...base.late import Slot
from ...ir.diagnostics import report
from ...ir.prim_expr import PrimExpr
from ...relax.expr import Expr
from .evaluator import Evaluator
from .scope import Scope
from .source import Source


class _Active(threading.local):
    def __init__(self) -> None:
        self.parsers: list[Parser] = []


_ACTIVE = _Active()
ADialect = TypeVar("ADialect", bound="Dialect")


def active_parser() -> Parser | None:
    """The parser that is reading a script now, or None."""
    return _ACTIVE.parsers[-1] if _ACTIVE.parsers else None


# The functions behind names of `R` where an `IRBuilder` is in use, and whether one is.
BUILDER: Slot[tuple[Mapping[str, Callable[..., Any]], Callable[[], bool]]] = Slot("script.building")


def built(plain: Callable[..., Any]) -> Callable[..., Any]:
    """A function of `R` in scripts that is the builder's of that name where an `IRBuilder` is in use."""

    @functools.wraps(plain)
    def choose(
        *args: Expr | Mapping[str, Any] | Callable[..., Any], **kwargs: dict[str, Any]
    ) -> Any:
        names, in_use = BUILDER.get()
        used = names[plain.__name__] if active_parser() is None and in_use() else plain
        return used(*args, **kwargs)

    return choose


def capture(func: Any, frame: FrameType | None) -> dict[str, Any]:
    """The names that a decorated function sees: globals, then the frame that defines it (its
    annotations are evaluated there), then its closure."""
    names = dict(func.__globals__)
    if frame is not None and func.__code__ in frame.f_code.co_consts:
        names.update(frame.f_locals)
    code = func.__code__
    for name, cell in zip(code.co_freevars, func.__closure__ or (), strict=True):
        try:
            names[name] = cell.cell_contents
        except ValueError:
            continue  # not assigned yet
    return names


class Parser(Evaluator):
    """Reads one program: its source, its scope, and the dialect of the function being read."""

    def __init__(self, source: Source, scope: Scope) -> None:
        self.source = source
        self.scope = scope
        self.dialects: list[Dialect] = []
        self.module: Any = None
        # The BlockBuilder of the module's graph functions (relax_parser makes it).
        self.builder: Any = None
        self.macro_result: Any = None
        self.macro_depth = 0

    @contextmanager
    def active(self) -> Iterator[None]:
        """This parser is the one that macros expand in."""
        _ACTIVE.parsers.append(self)
        try:
            yield
        except DiagnosticError as error:
            if len(_ACTIVE.parsers) == 1:
                report(error)
            raise
        finally:
            _ACTIVE.parsers.remove(self)

    @contextmanager
    def dialect(self, kind: Callable[[Parser], ADialect]) -> Iterator[ADialect]:
        """Read with a dialect."""
        dialect = kind(self)
        self.dialects.append(dialect)
        try:
            yield dialect
        finally:
            self.dialects.pop()

    def call_value(self, fn: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
        if self.dialects:
            return self.dialects[-1].call_value(fn, args, kwargs)
        return fn(*args, **kwargs)

    def visit_body(self, stmts: list[ast.stmt]) -> None:
        """Read statements in order."""
        dialect = self.dialects[-1]
        for stmt in stmts:
            self.visit(dialect, stmt)

    def visit(self, dialect: Dialect, stmt: ast.stmt) -> None:
        """Read one statement. Any error becomes a DiagnosticError at its span."""
        handler = getattr(dialect, f"visit_{type(stmt).__name__}", None)
        if handler is None:
            what = f"unsupported statement `{type(stmt).__name__}` in {dialect.title}"
            raise self.source.error(stmt, what, instead=dialect.supported)
        with self.located(stmt):
            if self.rules is not None:
                self.rules.spend(1)
            dialect.before(stmt)
            handler(stmt)

    @contextmanager
    def located(self, node: Any) -> Iterator[None]:
        """Errors inside that have no span yet get that of `node`."""
        try:
            yield
        except DiagnosticError:
            raise
        except Exception as error:
            raise self.locate_error(node, error) from error

    def decorator_of(self, node: ast.FunctionDef | ast.ClassDef) -> Any:
        """The decorator that says how to read a function or class.

        Raises DiagnosticError unless there is exactly one.
        """
        # @staticmethod lets type checkers see that a module's function takes no self.
        decorators = [d for d in node.decorator_list if ast.unparse(d) != "staticmethod"]
        if len(decorators) != 1:
            what = f"{node.name} needs exactly one decorator"
            hint = "write @T.prim_func, @R.function or @I.ir_module above it"
            raise self.source.error(node, what, got=len(decorators), instead=hint)
        decorator = self.eval(decorators[0])
        if not isinstance(getattr(decorator, "dialect", None), str):
            what = f"the decorator of {node.name} is not one of a script"
            hint = "write @T.prim_func, @R.function or @I.ir_module above it"
            raise self.source.error(decorators[0], what, instead=hint)
        return decorator


class Dialect:
    """How the statements of one kind of function are read."""

    title = "a script"
    supported = "leave it out"

    def __init__(self, parser: Parser) -> None:
        self.parser = parser

    def before(self, stmt: ast.stmt) -> None:
        """Called before each statement."""

    def call_value(self, fn: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
        """Call something in an expression."""
        return fn(*args, **kwargs)

    def assign(self, target: ast.expr, value: Any, bind: Callable[..., None]) -> None:
        """Bind a target (a name, or a tuple of them) to a value with `bind(node, name, value)`."""
        if isinstance(target, ast.Name):
            bind(target, target.id, value)
        elif isinstance(target, ast.Starred):
            self.assign(target.value, value, bind)
        elif isinstance(target, (ast.Tuple, ast.List)):
            for item, part in zip(target.elts, self._spread(target, value), strict=True):
                self.assign(item, part, bind)
        else:
            what = "this cannot be assigned to"
            raise self.parser.source.error(target, what, instead="assign to a name")

    def _spread(self, target: ast.Tuple | ast.List, value: Any) -> list[Any]:
        count = len(target.elts)
        single = isinstance(value, PrimExpr)
        parts = [value] if single else list(self.parser.items(value))
        star = next((i for i, t in enumerate(target.elts) if isinstance(t, ast.Starred)), None)
        if star is not None and len(parts) >= count - 1:
            tail = count - star - 1
            end = len(parts) - tail
            return [*parts[:star], parts[star:end], *parts[end:]]
        if len(parts) != count:
            what = f"cannot unpack {len(parts)} values into {count} names"
            raise self.parser.source.error(target, what)
        return parts

    def visit_Pass(self, node: ast.Pass) -> None:
        """Nothing."""

    def visit_Nonlocal(self, node: ast.Nonlocal) -> None:
        """Nothing: scripts share the names around them."""

    def loop_in_python(self, node: ast.For, values: Any) -> None:
        """A loop over a Python iterable: its body is read once for each item."""
        parser = self.parser
        for item in parser.items(values):
            value = getattr(item, "meta_value", item)
            with parser.scope.frame():
                self.assign(node.target, value, self._meta)
                parser.visit_body(node.body)

    def _meta(self, node: ast.expr, name: str, value: str | int) -> None:
        self.parser.scope.define(name, value)


def parameters(parser: Parser, node: ast.FunctionDef) -> list[ast.arg]:
    """The parameters of a script's function: plain ones with annotations."""
    args = node.args
    odd = [*args.kwonlyargs, *filter(None, (args.vararg, args.kwarg))]
    if odd:
        what = "a script's function has plain parameters only"
        raise parser.source.error(odd[0], what, instead="leave out *, ** and keyword-only ones")
    if args.defaults:
        what = "parameters of a script's function have no default values"
        raise parser.source.error(args.defaults[0], what)
    named = [*args.posonlyargs, *args.args]
    for arg in named:
        if arg.annotation is None:
            what = f"type annotation required for function parameter {arg.arg!r}"
            raise parser.source.error(arg, what, instead=f"write {arg.arg}: T.handle, R.Tensor...")
    return named


def annotation_tree(parser: Parser, node: ast.expr) -> ast.expr:
    """An annotation; one that is written as a string is parsed.

    `Annotated[R.Tensor, (2, 3), "float32"]`, which type checkers understand, is
    `R.Tensor((2, 3), "float32")`.
    """
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        tree = ast.parse(node.value, mode="eval").body
        for item in ast.walk(tree):
            if hasattr(item, "lineno"):
                ast.copy_location(item, node)
        return annotation_tree(parser, tree)
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Tuple):
        if ast.unparse(node.value).rpartition(".")[2] == "Annotated":
            function, *args = node.slice.elts
            return ast.copy_location(ast.Call(function, args, []), node)
    return node
