"""Evaluates the expressions of a script in the scope of its names.

Expressions are walked, so that each new node has the span of its source and an error
points to the sub-expression that failed. In a text that is not trusted, `closed` says what names,
attributes and calls may be used.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from ...base.errors import DiagnosticError, explain
from ...base.span import Span
from ...ir.expr import BaseExpr, RelaxExpr
from ...ir.function import BaseFunc
from ...ir.node import Node
from ...ir.op import Op
from ...ir.prim_expr import PrimExpr, Range, Var
from ...ir.prim_op import (
    bitwise_and,
    bitwise_or,
    convert_pair,
    logical_and,
    logical_not,
    logical_or,
)
from ...tir.buffer import Buffer, BufferRegion
from ...tir.op import if_then_else
from . import closed
from .region import as_operand
from .scope import Scope
from .source import Source

_BINARY: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
    ast.LShift: operator.lshift,
    ast.RShift: operator.rshift,
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
    ast.BitXor: operator.xor,
    ast.MatMult: operator.matmul,
}
_COMPARE: dict[type, Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Is: operator.is_,
    ast.IsNot: operator.is_not,
    ast.In: lambda a, b: a in b,
    ast.NotIn: lambda a, b: a not in b,
}
_UNARY: dict[type, Callable[[Any], Any]] = {
    ast.USub: operator.neg,
    ast.UAdd: lambda a: +a if isinstance(a, bool) else a,
    ast.Invert: operator.invert,
}
# Errors whose text says enough without their kind.
_PLAIN = (NameError, TypeError, ValueError, RuntimeError, AttributeError, closed.Closed)
_LOCATED = (BaseExpr, BufferRegion, Range)
_LEFT_ALONE = (Op, Var, BaseFunc)


def _joined(is_and: bool, a: PrimExpr, b: PrimExpr) -> PrimExpr:
    """a and b, or a or b; lane by lane for vectors."""
    if any(isinstance(e, PrimExpr) and e.dtype.lanes > 1 for e in (a, b)):
        return (bitwise_and if is_and else bitwise_or)(a, b)
    return (logical_and if is_and else logical_or)(a, b)


class Evaluator:
    """Evaluates syntax trees of expressions; the parser derives from it."""

    source: Source
    scope: Scope
    # The rules of an untrusted text; a decorated function may run any Python.
    rules: closed.Rules | None = None

    def eval(self, node: ast.expr) -> Any:
        """The value of an expression. Any error becomes a DiagnosticError at its span."""
        try:
            handler = getattr(self, f"visit_{type(node).__name__}", None)
            if handler is None:
                raise TypeError(explain(f"unsupported expression `{type(node).__name__}`"))
            value = handler(node)
            return value if self.rules is None else self.rules.counted(value)
        except DiagnosticError:
            raise
        except Exception as error:
            raise self.locate_error(node, error) from error

    def locate_error(self, node: Any, error: Exception) -> DiagnosticError:
        """The error, said to happen at `node`."""
        text = str(error.args[0]) if isinstance(error, KeyError) and error.args else str(error)
        if "\n --> " in text:
            return DiagnosticError(text)  # it has a span, which is a more precise one
        if isinstance(error, RecursionError):
            text = "this is nested too deeply to be read"
        elif isinstance(error, SyntaxError):
            text = f"syntax error: {error.msg}"
        elif not isinstance(error, _PLAIN) or not text:
            text = f"{type(error).__name__}: {text}"
        return self.source.error(node, text)

    def call_value(
        self, fn: Callable[..., Any] | type, args: list[Any], kwargs: dict[str, Any]
    ) -> Any:
        """Call something; dialects decide what calling a graph or global variable means."""
        return fn(*args, **kwargs)

    def mark(self, value: Any, node: ast.expr) -> Any:
        """Set the span of `node` on the nodes in `value` that have none."""
        if isinstance(value, Node):
            if value.span is None and not isinstance(value, _LEFT_ALONE):
                _mark(value, self.source.span(node))
        elif type(value) in (tuple, list):
            for item in value:
                self.mark(item, node)
        return value

    def visit_Constant(self, node: ast.Constant) -> Any:
        return node.value

    def visit_Name(self, node: ast.Name) -> Any:
        value = self.scope.lookup(node.id)
        return value if self.rules is None else self.rules.named(value)

    def _owner(self, node: ast.expr) -> Any:
        """The owner of an attribute or an item: it is not used as a whole."""
        if self.rules is None or not isinstance(node, (ast.Name, ast.Subscript)):
            return self.eval(node)
        try:
            if isinstance(node, ast.Name):
                return self.scope.lookup(node.id)
            return self.visit_Subscript(node, False)
        except DiagnosticError:
            raise
        except Exception as error:
            raise self.locate_error(node, error) from error

    def visit_Attribute(self, node: ast.Attribute) -> Any:
        owner = self._owner(node.value)
        if self.rules is None:
            return getattr(owner, node.attr)
        return self.rules.named(self.rules.attribute(owner, node.attr))

    def visit_BinOp(self, node: ast.BinOp) -> Any:
        left, right = as_operand(self.eval(node.left)), as_operand(self.eval(node.right))
        if self.rules is not None:
            self.rules.operation(type(node.op), left, right)
        return self.mark(_BINARY[type(node.op)](left, right), node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> Any:
        value = as_operand(self.eval(node.operand))
        if not isinstance(node.op, ast.Not):
            return self.mark(_UNARY[type(node.op)](value), node)
        if isinstance(value, RelaxExpr):
            what = "`not` negates a condition that is known while the script is read"
            raise self.source.error(node, what, instead="use R.logical_not on tensors")
        return self.mark(logical_not(value), node) if isinstance(value, PrimExpr) else not value

    def visit_BoolOp(self, node: ast.BoolOp) -> Any:
        is_and = isinstance(node.op, ast.And)
        result = as_operand(self.eval(node.values[0]))
        for item in node.values[1:]:
            self._check_boolean(node, result)
            if not isinstance(result, PrimExpr) and bool(result) != is_and:
                return result
            value = as_operand(self.eval(item))
            if isinstance(result, PrimExpr) or isinstance(value, PrimExpr):
                self._check_boolean(node, value)
                result = self.mark(_joined(is_and, result, value), node)
            else:
                result = value
        return result

    def _check_boolean(self, node: ast.BoolOp, value: PrimExpr) -> None:
        if isinstance(value, RelaxExpr):
            what = "`and` and `or` join scalar conditions"
            hint = "use R.logical_and, R.logical_or on tensors"
            raise self.source.error(node, what, instead=hint)

    def visit_Compare(self, node: ast.Compare) -> Any:
        left = as_operand(self.eval(node.left))
        result: Any = None
        for op, item in zip(node.ops, node.comparators, strict=True):
            right = as_operand(self.eval(item))
            if isinstance(right, PrimExpr) and isinstance(left, (int, float)):
                left, _ = convert_pair(left, right)  # else Python turns `1 <= i` into `i >= 1`
            compared = self.mark(_COMPARE[type(op)](left, right), node)
            if result is None:
                result = compared
            elif isinstance(result, PrimExpr) or isinstance(compared, PrimExpr):
                result = self.mark(logical_and(result, compared), node)
            else:
                result = result and compared
            left = right
        return result

    def visit_Call(self, node: ast.Call) -> Any:
        fn = self.eval(node.func)
        args: list[Any] = []
        for arg in node.args:
            if isinstance(arg, ast.Starred):
                args.extend(self._starred(arg))
            else:
                args.append(self.eval(arg))
        kwargs: dict[str, Any] = {}
        for word in node.keywords:
            if word.arg is None:
                kwargs.update(self.eval(word.value))
            else:
                kwargs[word.arg] = self.eval(word.value)
        if self.rules is not None:
            self.rules.call(fn, args)
        if isinstance(fn, type) and issubclass(fn, PrimExpr):  # T.Cast("float32x4", A[0:4])
            each = lambda a: [as_operand(v) for v in a] if isinstance(a, list) else as_operand(a)  # noqa: E731
            args = [each(arg) for arg in args]
        return self.mark(self.call_value(fn, args, kwargs), node)

    def visit_Subscript(self, node: ast.Subscript, whole: bool = True) -> Any:
        value = self._owner(node.value)
        item = self.mark(value[self.eval(node.slice)], node)
        if self.rules is None or type(value) is Buffer:  # which makes a load
            return item
        item = self.rules.checked(item, "an item")
        return self.rules.named(item) if whole else item

    def visit_Slice(self, node: ast.Slice) -> Any:
        parts = (node.lower, node.upper, node.step)
        return slice(*[None if part is None else self.eval(part) for part in parts])

    def _items(self, nodes: list[ast.expr]) -> list[Any]:
        items: list[Any] = []
        for node in nodes:
            if isinstance(node, ast.Starred):
                items.extend(self._starred(node))
            else:
                items.append(self.eval(node))
        return items

    def _starred(self, node: ast.Starred) -> Any:
        return self.items(self.eval(node.value))

    def inside(self, names: int) -> AbstractContextManager[None]:
        """A call of a function of the text."""
        return nullcontext() if self.rules is None else self.rules.inside(names)

    def items(self, values: Any) -> Any:
        """The items that a loop iterates over."""
        return values if self.rules is None else self.rules.items(values)

    def visit_Tuple(self, node: ast.Tuple) -> Any:
        return tuple(self._items(node.elts))

    def visit_List(self, node: ast.List) -> Any:
        return self._items(node.elts)

    def visit_Set(self, node: ast.Set) -> Any:
        return set(self._items(node.elts))

    def visit_Dict(self, node: ast.Dict) -> Any:
        entries: dict[Any, Any] = {}
        for key, value in zip(node.keys, node.values, strict=True):
            if key is None:
                entries.update(self.eval(value))
            else:
                entries[self.eval(key)] = self.eval(value)
        return entries

    def visit_IfExp(self, node: ast.IfExp) -> Any:
        cond = as_operand(self.eval(node.test))
        if isinstance(cond, PrimExpr):
            value, other = as_operand(self.eval(node.body)), as_operand(self.eval(node.orelse))
            return self.mark(if_then_else(cond, value, other), node)
        if isinstance(cond, RelaxExpr):
            what = "`a if c else b` needs a condition that is known while the script is read"
            raise self.source.error(node, what, instead="use R.where, or an if statement")
        return self.eval(node.body if cond else node.orelse)

    def visit_ListComp(self, node: Any) -> Any:
        """The items of a comprehension, as a list; of a dict pairs."""
        items: list[Any] = []

        def loop(depth: int) -> None:
            if depth == len(node.generators):
                pair = isinstance(node, ast.DictComp)
                value = (
                    (self.eval(node.key), self.eval(node.value)) if pair else self.eval(node.elt)
                )
                items.append(value)
                return
            generator = node.generators[depth]
            for value in self.items(self.eval(generator.iter)):
                self._unpack(generator.target, value)
                if all(self.eval(test) for test in generator.ifs):
                    loop(depth + 1)

        with self.scope.frame():
            loop(0)
        kind = {ast.ListComp: list, ast.SetComp: set, ast.DictComp: dict}.get(type(node), iter)
        return kind(items)

    visit_SetComp = visit_DictComp = visit_GeneratorExp = visit_ListComp

    def _unpack(self, target: ast.expr, value: Any) -> None:
        if isinstance(target, ast.Name):
            self.scope.define(target.id, value)
        elif isinstance(target, (ast.Tuple, ast.List)):
            for part, item in zip(target.elts, value, strict=True):
                self._unpack(part, item)
        else:
            raise self.source.error(target, "this cannot be assigned to", instead="use names")

    def visit_Lambda(self, node: ast.Lambda) -> Any:
        inner = Evaluator()
        inner.source, inner.scope = self.source, Scope(self.scope.names)
        inner.scope.fallback, inner.scope.builtins = self.scope.fallback, self.scope.builtins
        inner.rules = self.rules

        def run(values: dict[str, Any]) -> Any:
            with self.inside(0), inner.scope.frame():
                for name, value in values.items():
                    inner.scope.define(name, value)
                return inner.eval(node.body)

        args = node.args
        defaults = tuple(self.eval(value) for value in args.defaults)
        args = ast.arguments(args.posonlyargs, args.args, args.vararg, [], [], args.kwarg, [])
        # A function with these parameters: its callers inspect their number.
        # No parameter has the name of a function that it calls.
        load = ast.Load()
        values = ast.Call(ast.Name("<locals>", load), [], [])
        tree = ast.Lambda(args, ast.Call(ast.Name("<run>", load), [values], []))
        code = compile(ast.fix_missing_locations(ast.Expression(tree)), self.source.name, "eval")
        function = eval(code, {"<run>": run, "<locals>": locals, "__name__": __name__})
        function.__defaults__ = defaults or None
        return function

    def visit_JoinedStr(self, node: ast.JoinedStr) -> str:
        return "".join(str(self.eval(part)) for part in node.values)

    def visit_FormattedValue(self, node: ast.FormattedValue) -> str:
        value = self.eval(node.value)
        spec = "" if node.format_spec is None else self.eval(node.format_spec)
        if self.rules is not None:
            closed.check_format(value, spec)
        convert: dict[int, Callable[[Any], str]] = {115: str, 114: repr, 97: ascii}
        return format(convert.get(node.conversion, lambda v: v)(value), spec)

    def visit_NamedExpr(self, node: ast.NamedExpr) -> Any:
        value = self.eval(node.value)
        self.scope.define(node.target.id, value)
        return value


class ExprEvaluator:
    """Evaluates one expression, apart from a script."""

    @staticmethod
    def eval(parser: Any, value_table: Mapping[str, Any], node: ast.expr) -> Any:
        """The value of a syntax tree with these values of names; the parser is not involved.
        DiagnosticError for any error."""
        evaluator = Evaluator()
        evaluator.source = Source("<expression>", ast.unparse(node).splitlines())
        evaluator.scope = Scope(value_table)
        return evaluator.eval(node)


def _mark(node: Node, span: Span) -> None:
    node.span = span
    for child in node.children():
        if (
            child.span is None
            and isinstance(child, _LOCATED)
            and not isinstance(child, _LEFT_ALONE)
        ):
            _mark(child, span)
