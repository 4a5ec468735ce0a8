"""The ways into the parser: decorators, and programs given as text."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any, Generic, Self, TypeVar, overload

from ...base.errors import DiagnosticError, explain
from ...base.frames import hide_frames
from ...base.registry import PACKAGE, Registry
from ...ir.module import IRModule
from ...ir.serialize import load_json
from ...relax.expr import Function
from ...tir.function import PrimFunc
from . import closed
from .core import Parser, active_parser, capture  # noqa: F401
from .scope import Scope
from .source import enclosing_class, find_class, find_function, parse_text

Result = TypeVar("Result")
Module = TypeVar("Module", bound=IRModule)

# By dialect: (parser, node, options) -> the IR of a decorated function or class.
READERS: Registry[str, Callable[[Parser, Any, dict[str, Any]], Any]] = Registry(
    "reader of programs"
)
# The names that a program as text has without importing them: I, T, R.
PRELUDE: Registry[str, Any] = Registry("name in programs as text")
_SCRIPT = {"ir": "I", "tir": "T", "relax": "R"}  # modules of `script`


class Decorator(Generic[Result]):
    """`@T.prim_func` and similar; called with options it returns a decorator with them."""

    dialect = ""
    defaults: dict[str, Any] = {}

    def __init__(self, **options: Any) -> None:
        self.options = {**self.defaults, **options}

    @overload
    def __call__(self, func: type[Module]) -> Module: ...
    @overload
    def __call__(self, func: Callable[..., object]) -> Result: ...
    @overload
    def __call__(self, func: None = None, **options: Any) -> Self: ...
    def __call__(self, func: object = None, **options: bool) -> Any:
        unknown = set(options) - set(self.defaults)
        if unknown:
            what = f"{type(self).__name__} has no option {sorted(unknown)}"
            raise TypeError(explain(what, instead=f"use one of {sorted(self.defaults)}"))
        decorator = type(self)(**{**self.options, **options}) if options else self
        if func is None:
            return decorator
        try:
            return decorator._apply(func, sys._getframe(1))
        except Exception as error:
            hide_frames(error)
            raise

    def _apply(self, func: Any, frame: FrameType) -> Any:
        raise NotImplementedError


class FunctionDecorator(Decorator[Result]):
    """A decorator of functions. Inside an `I.ir_module` class it leaves the function alone: the
    module reads it."""

    def _apply(self, func: staticmethod | int | Callable[..., Any], frame: FrameType) -> Any:
        func = func.__func__ if isinstance(func, staticmethod) else func
        if not hasattr(func, "__code__"):
            what = f"@{self.title} decorates a Python function"
            raise TypeError(explain(what, got=f"{func!r} of type {type(func).__name__}"))
        if _in_module_class(frame):
            return func
        source, node = find_function(func)
        parser = Parser(source, Scope(capture(func, frame)))
        with parser.active():
            return READERS[self.dialect](parser, node, self.options)

    title = "T.prim_func"


class PrimFuncDecorator(FunctionDecorator[PrimFunc]):
    """`@T.prim_func`, `@T.prim_func(private=True)`"""

    dialect = "tir"
    title = "T.prim_func"
    defaults = {"private": False, "check_well_formed": True}


class RelaxFunctionDecorator(FunctionDecorator[Function]):
    """`@R.function`, `@R.function(pure=False, private=True)`"""

    dialect = "relax"
    title = "R.function"
    defaults = {"pure": True, "private": False, "check_well_formed": True}


class ModuleDecorator(Decorator[Result]):
    """`@I.ir_module`. A class that derives from IRModule has, for type checkers, the functions in
    it, too: `Model.kernel`."""

    dialect = "ir"
    defaults = {"check_well_formed": True}

    def _apply(self, func: Callable[..., Any] | type, frame: FrameType) -> Any:
        if not isinstance(func, type):
            what = "@I.ir_module decorates a class"
            raise TypeError(explain(what, got=f"{func!r} of type {type(func).__name__}"))
        source, node = find_class(func, frame)
        names = {**frame.f_globals, **frame.f_locals}
        for value in vars(func).values():
            member = getattr(value, "__func__", value)
            if hasattr(member, "__closure__") and hasattr(member, "__code__"):
                names.update(capture(member, None) if member.__closure__ else {})
        parser = Parser(source, Scope(names))
        with parser.active():
            module = READERS["ir"](parser, node, self.options)
        object.__setattr__(module, "__name__", func.__name__)
        return module


def _in_module_class(frame: FrameType) -> bool:
    """Whether `frame` runs the body of a class under `@I.ir_module`."""
    node = enclosing_class(frame)
    if node is None:
        return False
    outer = frame.f_back
    names = {**frame.f_globals, **(outer.f_locals if outer is not None else {})}
    for item in node.decorator_list:
        tree = item.func if isinstance(item, ast.Call) else item
        path = ast.unparse(tree).split(".")
        value = names.get(path[0])
        for part in path[1:]:
            value = getattr(value, part, None)
        if isinstance(value, ModuleDecorator):
            return True
    return False


def from_source(
    program: str,
    extra_vars: dict[str, Any] | None = None,
    check_well_formed: bool = True,
    *,
    run_python: bool = False,
) -> Any:
    """Read a program given as text.

    extra_vars: names that the program may use besides I, T and R; it may call them and read their
        attributes.
    run_python: the text is trusted and may hold any Python. Without, it is read under the rules of
        `closed`: a stranger's text can do nothing but describe a program.

    Returns an IRModule, a PrimFunc or a relax.Function; a macro or several definitions are
    errors. Raises DiagnosticError with the location for everything that is wrong with the program.
    """
    if not isinstance(program, str):
        what = "a program is given as text"
        hint = "decorate a function or class with T.prim_func, R.function or I.ir_module"
        raise TypeError(explain(what, got=type(program).__name__, instead=hint))
    source, tree = parse_text(program)
    scope = Scope(PRELUDE, _packages(run_python), extra_vars or {})
    parser = Parser(source, scope)
    if not run_python:
        parser.rules = closed.Rules(len(program), (extra_vars or {}).values())
        scope.builtins = closed.BUILTINS
    definitions: list[Any] = []
    with parser.active():
        for stmt in tree.body:
            if isinstance(stmt, (ast.FunctionDef, ast.ClassDef)):
                definition = _definition(parser, stmt, check_well_formed)
                scope.define(stmt.name, definition)
                if getattr(definition, "node", None) is not stmt:
                    definitions.append(definition)
            elif run_python:
                _run_statement(parser, stmt)
            else:
                _read_statement(parser, stmt)
    if len(definitions) != 1:
        what = "a program defines one module or one function"
        raise DiagnosticError(explain(what, got=f"{len(definitions)} of them in {source.name}"))
    return definitions[0]


parse = from_source


def _packages(run_python: bool) -> dict[str, Any]:
    """This package under its own name and under TVM's, for `tvm.ir.load_json(...)`."""
    if run_python:
        package = sys.modules.get(PACKAGE)
        return {"loopwright": package, "lw": package, "tvm": sys.modules.get("tvm", package)}
    script = closed.Package(**{module: PRELUDE[name] for module, name in _SCRIPT.items()})
    return dict.fromkeys(
        ("loopwright", "lw", "tvm"),
        closed.Package(ir=closed.Package(load_json=load_json), script=script),
    )


def _definition(parser: Parser, stmt: ast.ClassDef | ast.FunctionDef, check: bool) -> Any:
    decorator = parser.decorator_of(stmt)
    if decorator.dialect == "macro":
        return decorator.define(parser, stmt)
    options = dict(decorator.options)
    options["check_well_formed"] = options.get("check_well_formed", True) and check
    return READERS[decorator.dialect](parser, stmt, options)


def _read_statement(parser: Parser, stmt: ast.stmt) -> None:
    """A statement around the definition of a closed text: a constant, a docstring, an import of what
    is there anyway."""
    if isinstance(stmt, ast.Expr) and isinstance(stmt.value, ast.Constant):
        return
    with parser.located(stmt):
        if isinstance(stmt, ast.Assign) and all(isinstance(t, ast.Name) for t in stmt.targets):
            value = parser.eval(stmt.value)
            for target in stmt.targets:
                parser.scope.define(ast.unparse(target), value)
        elif isinstance(stmt, (ast.Import, ast.ImportFrom)):
            for name, value in _imported(parser, stmt):
                parser.scope.define(name, value)
        else:
            what = "a program as text holds definitions, constants and imports of I, T and R"
            raise closed.refuse(what, type(stmt).__name__)


def _imported(parser: Parser, stmt: ast.Import | ast.ImportFrom) -> Iterator[tuple[str, Any]]:
    packages = _packages(False)
    for alias in stmt.names:
        name = alias.asname or alias.name
        path = getattr(stmt, "module", None) or ""
        package, _, below = path.partition(".")
        if isinstance(stmt, ast.Import) and alias.name in packages:
            yield name, packages[alias.name]
        elif package in packages and below in ("script", "script.parser") and alias.name in _SCRIPT:
            yield name, PRELUDE[_SCRIPT[alias.name]]
        elif package in packages and below.startswith("script") and alias.name in PRELUDE:
            yield name, PRELUDE[alias.name]
        elif path != "__future__":
            raise closed.refuse("a program as text imports I, T and R only", ast.unparse(stmt))


def _run_statement(parser: Parser, stmt: ast.stmt) -> None:
    """A statement around the definition: an import, a constant, a docstring."""
    try:
        code = compile(ast.Module([stmt], []), parser.source.name, "exec")
        exec(code, parser.scope.names)
        parser.scope.names.pop("__builtins__", None)
    except Exception as error:
        raise parser.locate_error(stmt, error) from error
