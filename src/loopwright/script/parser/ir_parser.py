"""Reads modules, and single functions under their decorator."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from ...base.errors import DiagnosticError, explain
from ...base.registry import Registry
from ...ir.expr import GlobalVar
from ...ir.function import BaseFunc
from ...ir.module import IRModule
from ...ir.node import Node
from .. import ir as I
from .checks import problems
from .closed import READABLE
from .core import Dialect, Parser
from .entry import READERS
from .scope import Scope

# Declares and reads the functions of a dialect: name -> (declare, define).
FUNCTIONS: Registry[str, tuple[Any, Any]] = Registry("dialect of functions in modules")
# Functions that reading made besides those written: called with the parser at the end.
EXTRAS: Registry[str, Any] = Registry("dialect with further functions")


class ModuleScope:
    """The module's name inside it: `Module.f` is f's global variable."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.members: dict[str, Any] = {}
        self.return_types: dict[str, Any] = {}
        # Reads a function; done early where its signature has no result type.
        self.unread: dict[str, Any] = {}
        self.open_results: set[str] = set()

    def __getattr__(self, name: str) -> Any:
        member = self.__dict__.get("members", {}).get(name)
        if member is None:
            members = ", ".join(self.__dict__.get("members", ()))
            what = f"module {self.__dict__.get('name')} has no function {name!r}"
            raise AttributeError(explain(what, instead=f"it has: {members}" if members else None))
        if name in self.open_results:
            self.read(name)
        return member

    def read(self, name: str) -> None:
        """Read a function now, unless that has begun."""
        begin = self.unread.pop(name, None)
        if begin is not None:
            begin()

    def return_dtype(self, gvar: GlobalVar) -> Any:
        """The dtype that a prim_func of the module returns."""
        return self.return_types.get(gvar.name_hint) or "void"


def _is_member(scope: ModuleScope, name: str) -> bool:
    """For a name that is neither, the scope lists the members."""
    own = hasattr(ModuleScope, name) or name in vars(scope)
    return name in scope.members or not own


READABLE.register(ModuleScope, _is_member)


class IrDialect(Dialect):
    """`@I.ir_module`"""

    title = "an I.ir_module"
    supported = "it holds functions, I.module_attrs, I.module_global_infos and assignments"

    def __init__(self, parser: Parser) -> None:
        super().__init__(parser)
        self.functions: dict[GlobalVar, Any] = {}
        self.state = I.ModuleState()

    def module(self, node: ast.ClassDef, options: dict[str, Any]) -> IRModule:
        """Read a class: first all but functions, then all signatures, then all bodies."""
        parser = self.parser
        members = ModuleScope(node.name)
        outer_module, parser.module = parser.module, members
        with parser.scope.frame(), self.state:
            parser.scope.define(node.name, members)
            functions = [s for s in node.body if isinstance(s, ast.FunctionDef)]
            for stmt in node.body:
                if not isinstance(stmt, ast.FunctionDef):
                    parser.visit(self, stmt)
            parser.scope.fallback = members.members
            declared = [(f, *self._declare(f)) for f in functions]
            outer = parser.scope.snapshot()
            for stmt, gvar, decorator in declared:
                self.functions[gvar] = None  # keeps the order of the text
                own = dict(decorator.options)
                own["check_well_formed"] &= options.get("check_well_formed", True)
                read = partial(self._read, stmt, gvar, FUNCTIONS[decorator.dialect][1], own, outer)
                members.unread[gvar.name_hint] = read
            # PrimFuncs first: graph functions need the signatures of their callees.
            for _, gvar, _ in sorted(declared, key=lambda d: d[2].dialect != "tir"):
                members.read(gvar.name_hint)
            for extra in EXTRAS.values():
                self.functions.update(extra(parser, self.functions))
        parser.module = outer_module
        span = parser.source.span(node)
        infos = self.state.global_infos
        mod = IRModule(self.functions, self.state.attrs, infos, span=span)
        return mod

    def _read(
        self,
        node: ast.FunctionDef,
        gvar: GlobalVar,
        read: Callable[..., Any],
        options: Mapping[str, Any],
        names: Mapping[str, Any],
    ) -> None:
        parser = self.parser
        saved = parser.scope, getattr(parser.builder, "span", None)
        parser.scope = Scope(names)
        parser.scope.fallback = parser.module.members
        try:
            with parser.located(node):
                func = self.functions[gvar] = read(parser, node, options, gvar)
        finally:
            parser.scope, span = saved
            if parser.builder is not None:
                parser.builder.span = span
        if parser.builder is not None and gvar.struct_info is None:
            parser.builder.update_func(gvar, func)  # graph functions look up its signature

    def _declare(self, node: ast.FunctionDef) -> tuple[GlobalVar, Any]:
        parser = self.parser
        decorator = parser.decorator_of(node)
        if decorator.dialect not in FUNCTIONS:
            what = f"{node.name} is not allowed in a module"
            raise parser.source.error(node, what, instead="use @T.prim_func or @R.function")
        if node.name in parser.module.members:
            what = f"the module has a function {node.name!r} already"
            raise parser.source.error(node, what, instead="rename one of them")
        gvar = GlobalVar(node.name)
        parser.module.members[node.name] = gvar
        with parser.located(node):
            info, result = FUNCTIONS[decorator.dialect][0](parser, node, decorator.options)
        gvar.struct_info = info
        parser.module.return_types[node.name] = result
        if info is not None and node.returns is None:
            parser.module.open_results.add(node.name)
        return gvar, decorator

    def visit_Expr(self, node: ast.Expr) -> None:
        """`I.module_attrs({...})`, a docstring"""
        self.parser.eval(node.value)

    def visit_Assign(self, node: ast.Assign) -> None:
        """`f = R.ExternFunc("name")`, `f = func`: a member. Other values are names."""
        parser = self.parser
        if len(node.targets) != 1 or not isinstance(node.targets[0], ast.Name):
            what = "a module member is assigned to one name"
            raise parser.source.error(node, what, instead="write name = value")
        self._member(node.targets[0].id, parser.eval(node.value), node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        """`f: ... = value`"""
        if node.value is not None and isinstance(node.target, ast.Name):
            self._member(node.target.id, self.parser.eval(node.value), node)

    def _member(self, name: str, value: BaseFunc | int, node: ast.stmt) -> None:
        parser = self.parser
        if not isinstance(value, BaseFunc):
            parser.scope.define(name, value)
            return
        gvar = GlobalVar(name)
        gvar.struct_info = value.struct_info
        parser.module.members[name] = gvar
        attrs = getattr(value, "attrs", None)
        if attrs is not None and "global_symbol" in attrs:
            value = value.with_attr("global_symbol", name)
        self.functions[gvar] = value

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        """Read by `module`, which declares all functions first."""


def _read_module(parser: Parser, node: ast.ClassDef, options: dict[str, Any]) -> IRModule:
    if not isinstance(node, ast.ClassDef):
        raise parser.source.error(node, "@I.ir_module decorates a class")
    with parser.dialect(IrDialect) as dialect:
        module = dialect.module(node, options)
    return checked(parser, node, module, options)


def read_function(dialect: str) -> Any:
    """The reader of a single function under a dialect's decorator."""

    def read(parser: Parser, node: ast.FunctionDef, options: dict[str, Any]) -> Any:
        if not isinstance(node, ast.FunctionDef):
            raise parser.source.error(node, "this decorator is one of functions", got=node.name)
        with parser.located(node):
            func = FUNCTIONS[dialect][1](parser, node, options, None)
        return checked(parser, node, func, options)

    return read


def checked(
    parser: Parser, node: ast.ClassDef | ast.FunctionDef, definition: Node, options: dict[str, Any]
) -> Any:
    """The function or module, when all checks accept it."""
    if options.get("check_well_formed", True):
        for problem, span in problems(definition):
            what = f"the program is not well formed: {problem}"
            if "\n --> " in problem:
                raise DiagnosticError(what)
            hint = "pass check_well_formed=False to look at it"
            where = span if span is not None and span.line else parser.source.span(node)
            raise DiagnosticError(explain(what, instead=hint, span=where), where)
    return definition


READERS.register("ir", _read_module)
