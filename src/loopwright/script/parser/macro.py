"""Macros: functions whose body is read where they are called."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable
from typing import Any, overload

from ...base.errors import DiagnosticError, explain
from .core import Parser, active_parser, capture
from .scope import Scope
from .source import Source, find_function


class Macro:
    """A macro. Hygienic: free names mean what they mean where the macro is defined; otherwise
    what they mean where it is called."""

    def __init__(
        self, source: Source, node: ast.FunctionDef, names: Callable[[], Any], hygienic: bool
    ) -> None:
        self.source = source
        self.node = node
        self.names = names
        self.hygienic = hygienic
        self.__name__ = node.name

    def __call__(self, *args: Any, **kwargs: dict[str, Any]) -> Any:
        parser = active_parser()
        if parser is None:
            what = f"macro {self.__name__} is expanded inside a script"
            raise DiagnosticError(explain(what, instead="call it in a T.prim_func or R.function"))
        return self.expand(parser, args, kwargs)

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        if instance is None:
            return self
        return lambda *args, **kwargs: self(instance, *args, **kwargs)

    def expand(self, parser: Parser, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Read the body in place; returns the value of its `return`."""
        scope = parser.scope
        if self.hygienic:
            scope = Scope({"range": parser.scope.lookup("range")}, self.names())
            scope.fallback, scope.builtins = parser.scope.fallback, parser.scope.builtins
        saved = parser.source, parser.scope, parser.macro_result
        parser.source, parser.scope, parser.macro_result = self.source, scope, None
        parser.macro_depth += 1
        try:
            with parser.inside(len(scope.names)), scope.frame():
                for name, value in self._bind(parser, args, kwargs).items():
                    scope.define(name, value)
                parser.visit_body(self.node.body)
            return parser.macro_result
        finally:
            parser.macro_depth -= 1
            parser.source, parser.scope, parser.macro_result = saved

    def _bind(self, parser: Parser, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The arguments by parameter name, as Python binds them."""
        params = self.node.args
        names = [a.arg for a in (*params.posonlyargs, *params.args)]
        only = [a.arg for a in params.kwonlyargs]
        first = len(names) - len(params.defaults)
        bound: dict[str, Any] = dict(zip(names, args, strict=False))
        if params.vararg is not None:
            bound[params.vararg.arg] = tuple(args[len(names) :])
        elif len(args) > len(names):
            what = f"macro {self.__name__} takes {len(names)} arguments"
            raise TypeError(explain(what, got=len(args)))
        rest = dict(kwargs)
        for name in (*names, *only):
            if name in rest:
                if name in bound:
                    raise TypeError(f"macro {self.__name__} got two values for {name!r}")
                bound[name] = rest.pop(name)
        if params.kwarg is not None:
            bound[params.kwarg.arg], rest = rest, {}
        for name, default in zip(names[first:], params.defaults, strict=True):
            bound.setdefault(name, None)
            if name not in kwargs and names.index(name) >= len(args):
                bound[name] = parser.eval(default)
        for name, default in zip(only, params.kw_defaults, strict=True):
            if name not in bound and default is not None:
                bound[name] = parser.eval(default)
        missing = [name for name in (*names, *only) if name not in bound]
        if missing or rest:
            problem = f"lacks {missing}" if missing else f"has no parameter {sorted(rest)}"
            raise TypeError(f"macro {self.__name__} {problem}")
        return bound


class MacroDecorator:
    """`@T.macro`, `@T.macro(hygienic=False)`"""

    dialect = "macro"

    def __init__(self, hygienic: bool = True) -> None:
        self.hygienic = hygienic

    @overload
    def __call__(self, func: Callable[..., object]) -> Macro: ...
    @overload
    def __call__(self, func: None = None, *, hygienic: bool | None = None) -> MacroDecorator: ...
    def __call__(
        self, func: int | Callable[..., Any] | None = None, *, hygienic: bool | None = None
    ) -> Any:
        chosen = self.hygienic if hygienic is None else hygienic
        if func is None:
            return MacroDecorator(chosen)
        if not callable(func):
            what = "a macro is a Python function"
            hint = "@T.macro, or @T.macro(hygienic=False)"
            raise ValueError(explain(what, got=type(func).__name__, instead=hint))
        source, node = find_function(func)
        names = capture(func, sys._getframe(1))
        return Macro(source, node, lambda: names, chosen)

    def define(self, parser: Parser, node: ast.FunctionDef) -> Macro:
        """A macro defined inside a script."""
        return Macro(parser.source, node, parser.scope.snapshot, self.hygienic)
