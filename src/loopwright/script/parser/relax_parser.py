"""Statements of a graph function."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from ...base.errors import DiagnosticError, explain
from ...ir.dtype import DataType
from ...ir.expr import GlobalVar, RelaxExpr
from ...ir.prim_expr import IntImm, PrimExpr
from ...ir.prim_expr import Var as TirVar
from ...relax.analysis import BaseCheckResult, find_impure_call, struct_info_base_check
from ...relax.block_builder import BlockBuilder
from ...relax.expr import (  # noqa: F401
    Binding,
    Call,
    DataflowVar,
    Expr,
    ExternFunc,
    Function,
    If,
    MatchCast,
    SeqExpr,
    Var,
    VarBinding,
    as_expr,
    const,
)
from ...relax.relations import erase_to_params
from ...relax.struct_info import FuncStructInfo, ObjectStructInfo, StructInfo, TupleStructInfo
from .. import relax as R
from .. import tir as T
from .core import Dialect, Parser, annotation_tree, parameters
from .entry import READERS
from .ir_parser import EXTRAS, FUNCTIONS, ModuleScope, read_function  # noqa: F401
from .proxies import MatchCastPair
from .relax_values import instance, is_graph_tuple, take_last, variables_of

_CHAINED = "consequential assignments like `a = b = c` are not supported"
_SCALARS = (bool, int, float)


@dataclass(eq=False)
class _Flow:
    """A dataflow block that is open: its outputs once `R.output` has named them."""

    outputs: tuple[Any, ...] | None = None
    locals: set[int] = field(default_factory=set)


@dataclass(eq=False)
class _Body:
    """A function or branch that is being read. parent: the function around a branch."""

    name: str
    options: dict[str, Any]
    parent: _Body | None = None
    attrs: dict[str, Any] = field(default_factory=dict)
    symbols: dict[str, TirVar] = field(default_factory=dict)
    blocks: list[Any] = field(default_factory=list)
    result: Any = None
    flow: _Flow | None = None

    @property
    def function(self) -> _Body:
        return self if self.parent is None else self.parent.function


class RelaxDialect(Dialect):
    """`@R.function`"""

    title = "a graph function"
    supported = "use assignments, with R.dataflow(), if, assert, return and calls of R.*"

    def __init__(self, parser: Parser) -> None:
        super().__init__(parser)
        if parser.builder is None:
            parser.builder = BlockBuilder()
        self.builder: BlockBuilder = parser.builder
        self.bodies: list[_Body] = []

    @property
    def body(self) -> _Body:
        """The part of the function that is being read."""
        return self.bodies[-1]

    def before(self, stmt: ast.stmt) -> None:
        self.builder.span = self.parser.source.span(stmt)

    def call_value(self, fn: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
        args = [instance(a) for a in args]
        kwargs = {name: instance(value) for name, value in kwargs.items()}
        if "out_ty" in kwargs:  # newer spelling
            kwargs["out_sinfo"] = kwargs.pop("out_ty")
        if isinstance(fn, GlobalVar):
            return Call(self._member(fn), args, kwargs.get("attrs"))
        return fn(*args, **kwargs)

    def _member(self, gvar: GlobalVar) -> GlobalVar:
        """The module's variable of that name, when it has one."""
        members = getattr(self.parser.module, "members", {})
        return members.get(gvar.name_hint, gvar)

    def error(self, node: Any, what: str, **facts: str) -> Exception:
        """An error at a syntax tree node."""
        return self.parser.source.error(node, what, **facts)

    # -------------------------------------------------------------- the function

    def signature(self, node: ast.FunctionDef, options: dict[str, Any]) -> FuncStructInfo:
        """The parameters and the result of the function, by its annotations."""
        with self.parser.scope.frame():
            self.bodies.append(_Body(node.name, options))
            try:
                params, ret = self._header(node)
            finally:
                self.bodies.pop()
        infos = [p.struct_info for p in params]
        return FuncStructInfo(infos, ret or ObjectStructInfo(), options.get("pure", True))

    def function(self, node: ast.FunctionDef, options: dict[str, Any], local: bool) -> Function:
        """Read a whole function."""
        parser, builder = self.parser, self.builder
        body = _Body(node.name, options)
        # A program that may be in any form is not normalized.
        self.builder.applies_fnormalize = options.get("check_well_formed", True)
        span = parser.source.span(node)
        self.bodies.append(body)
        try:
            with parser.scope.frame():
                params, ret = self._header(node)
                with builder.scope(params), self._sequence():
                    parser.visit_body(node.body)
                    if body.result is None:
                        what = f"function {node.name} has no return statement"
                        raise self.error(node, what, instead="end it with `return value`")
                    builder.span = span
                    result = builder.normalize_argument(body.result)
                with builder.scope(params):
                    seq = builder.normalize(SeqExpr(body.blocks, result, span))
                ret = self._result_info(node, params, ret, seq)
        finally:
            self.bodies.pop()
        attrs = body.attrs
        if not options.get("private", False) and not local and "global_symbol" not in attrs:
            attrs = {"global_symbol": node.name, **attrs}
        return Function(params, seq, ret, options.get("pure", True), attrs, span)

    def _header(self, node: ast.FunctionDef) -> tuple[list[Var], StructInfo | None]:
        """Parameters and return annotation; defines the symbolic variables and the parameters."""
        parser, scope = self.parser, self.parser.scope
        self._prelude(node)
        symbols = self.body.symbols
        values = []
        args = parameters(parser, node)
        for arg in args:
            assert arg.annotation is not None
            value = self._proxy(arg.annotation)
            values.append(value)
            for name in sorted(getattr(value, "get_symbolic_vars", set)()):
                if name not in symbols:
                    self._symbol(name, TirVar(name, "int64", parser.source.span(arg)))
        params: list[Var] = []
        for arg, value in zip(args, values, strict=True):
            with parser.located(arg.annotation):
                info = R.as_info(value)
            param = Var(arg.arg, info, parser.source.span(arg))
            params.append(param)
            scope.define(arg.arg, param)
        if node.returns is None:
            return params, None
        with parser.located(node.returns):
            proxy = self._proxy(node.returns)
            if isinstance(proxy, R.Tuple) and not isinstance(node.returns, ast.Call):
                return params, None  # `R.Tuple` without fields is a tuple of the returned values
            return params, R.as_info(proxy)

    def _proxy(self, node: ast.expr) -> Any:
        """The struct info of an annotation, unchanged."""
        value = instance(self.parser.eval(annotation_tree(self.parser, node)))
        if callable(value) and not isinstance(value, (R.StructInfoProxy, Expr)):
            value = value()  # T.int64, R.PackedFunc
        return value

    def _prelude(self, node: ast.FunctionDef) -> None:
        """`n = T.int64()` at the top level defines n for the signature as well."""
        for stmt in node.body:
            if not isinstance(stmt, ast.Assign) or len(stmt.targets) != 1:
                continue
            pairs = [(stmt.targets[0], stmt.value)]
            if isinstance(stmt.targets[0], ast.Tuple) and isinstance(stmt.value, ast.Tuple):
                pairs = list(zip(stmt.targets[0].elts, stmt.value.elts, strict=False))
            for target, value in pairs:
                if isinstance(target, ast.Name) and self._declares(value):
                    symbol = self.parser.eval(value)
                    T.name_value(target.id, symbol)
                    symbol.span = self.parser.source.span(target)
                    self._symbol(target.id, symbol)

    def _declares(self, node: ast.expr) -> bool:
        """Whether an expression is a declaration such as `T.int64()`."""
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            return False
        owner = node.func.value
        if not isinstance(owner, ast.Name) or self.parser.scope.names.get(owner.id) is not T:
            return False
        dtype = getattr(getattr(T, node.func.attr, None), "dtype", None)
        is_typed = isinstance(dtype, DataType) and not node.args
        return is_typed or node.func.attr in ("var", "Var", "SizeVar")

    def _symbol(self, name: str, symbol: TirVar) -> None:
        self.body.symbols[name] = symbol
        self.parser.scope.define(name, symbol)

    def _result_info(
        self, node: ast.FunctionDef, params: list[Var], ret: StructInfo | None, seq: SeqExpr
    ) -> StructInfo:
        """The annotation, or the struct info of the body where that is finer, or contradicts it (as in TVM,
        where this is only a warning)."""
        inferred = erase_to_params(params, seq.struct_info)
        if ret is None:
            return inferred
        result = struct_info_base_check(ret, seq.struct_info, self.builder.analyzer)
        if result is BaseCheckResult.FAIL_L0:
            what = f"the result of function {node.name} contradicts its annotation"
            warnings.warn(str(self.error(node.returns, what, got=str(inferred))), stacklevel=2)
            return inferred
        return inferred if ret.is_base_of(inferred) else ret

    # -------------------------------------------------------------- blocks

    @contextmanager
    def _sequence(self) -> Iterator[None]:
        """Bindings made inside are added to the blocks of the body."""
        builder = self.builder
        depth = len(builder._frames)
        builder._begin_binding_block()
        try:
            yield
            self._close_block()
        finally:
            del builder._frames[depth:]

    def _close_block(self) -> None:
        block = self.builder._end_block()
        if block.bindings:
            self.body.blocks.append(block)

    def visit_With(self, node: ast.With) -> None:
        """`with R.dataflow():`"""
        parser, body = self.parser, self.body
        item = node.items[0]
        mark = parser.eval(item.context_expr)
        if not isinstance(mark, R.DataflowMark) or len(node.items) > 1:
            what = "invalid context expression in a with statement"
            raise self.error(item.context_expr, what, instead="use R.dataflow()")
        if body.flow is not None:
            raise self.error(node, "dataflow blocks do not nest", instead="close the outer one")
        body.flow = _Flow()
        self._close_block()
        self.builder._begin_dataflow_block()
        with parser.scope.frame(keep=lambda value: not isinstance(value, DataflowVar)):
            parser.visit_body(node.body)
            for name, value in parser.scope.defined_here().items():
                if isinstance(value, DataflowVar):
                    hint = f"add it to R.output(...) to use it after its dataflow block: {name}"
                    parser.scope.hints[name] = hint
        body.flow = None
        self._close_block()
        self.builder._begin_binding_block()

    def output(self, variables: tuple[Any, ...]) -> None:
        """`R.output(...)`"""
        flow = self.body.flow
        if flow is None:
            what = "R.output outside a dataflow block"
            raise ValueError(explain(what, instead="use it at the end of `with R.dataflow():`"))
        if flow.outputs is not None:
            what = "R.output twice in a dataflow block"
            raise ValueError(explain(what, instead="name all results in one R.output"))
        for var in variables:
            if not isinstance(var, Var) or id(var) not in flow.locals:
                name = getattr(var, "name_hint", repr(var))
                what = "R.output names variables that its dataflow block binds"
                raise ValueError(explain(what, got=name, instead="bind it inside the block first"))
            # The variable is known to be a result only now; nothing has looked at its kind yet.
            var.__class__ = Var
        flow.outputs = variables

    def func_attr(self, attrs: dict[str, Any]) -> None:
        """`R.func_attr({...})`"""
        function = self.body.function
        if function.options.get("private", False) and "global_symbol" in attrs:
            what = 'a private function has no attribute "global_symbol"'
            raise ValueError(explain(what, instead="leave out private=True, or the attribute"))
        function.attrs.update(attrs)

    # -------------------------------------------------------------- bindings

    def emit(self, value: Any, info: StructInfo | None = None, name: str = "") -> Var:
        """Bind a value; without a name the builder chooses one."""
        flow = self._open_flow()
        expr = self._checked(as_expr(value))
        info = None if info is None else R.as_info(info)
        expr = self.builder.normalize(expr)
        if info is not None:
            self._check_annotation(info, expr.struct_info)
        kind: Any = Var if flow is None else DataflowVar
        chosen = name or self.builder.get_unique_name("gv" if flow is None else "lv")
        var = kind(chosen, expr.struct_info if info is None else info, self.builder.span)
        self._add(VarBinding._make(var, expr, span=expr.span or self.builder.span))
        return var

    def _add(self, binding: Binding) -> None:
        self.builder.emit_normalized(binding)
        if self.body.flow is not None:
            self.body.flow.locals.add(id(binding.var))

    def _open_flow(self) -> _Flow | None:
        flow = self.body.flow
        if flow is not None and flow.outputs is not None:
            what = "a dataflow block ends with R.output"
            raise ValueError(explain(what, instead="move the binding in front of R.output"))
        return flow

    def _checked(self, value: GlobalVar | Expr) -> Any:
        """The value, when it may be computed here: no effect in a pure function."""
        function = self.body.function
        options = function.options
        pure = options.get("pure", True) or self.body.flow is not None
        if not pure or not options.get("check_well_formed", True):
            return value
        if isinstance(value, Function) or function.attrs.get("relax.force_pure", False):
            return value
        impure = find_impure_call(value, function.name)
        if impure is not None:
            names = (getattr(impure.op, n, None) for n in ("name", "name_hint", "global_symbol"))
            name = next((n for n in names if n), impure.op)
            where = "a pure function" if options.get("pure", True) else "a dataflow block"
            what = f"{where} makes a call that has side effects"
            hint = "write @R.function(pure=False), or move the call out of the dataflow block"
            if options.get("pure", True):
                hint = 'write @R.function(pure=False), or set "relax.force_pure"'
            span = impure.span or self.builder.span
            raise DiagnosticError(explain(what, got=name, instead=hint, span=span), span)
        return value

    def _check_annotation(self, info: StructInfo, inferred: StructInfo) -> None:
        if not self.body.function.options.get("check_well_formed", True):
            return
        if struct_info_base_check(info, inferred, self.builder.analyzer) is BaseCheckResult.FAIL_L0:
            what = "the annotation contradicts the value"
            got = f"a value of {inferred}, annotated as {info}"
            raise ValueError(explain(what, got=got, instead="correct or leave out the annotation"))

    def bind_value(
        self, node: ast.Name, name: str, value: object, info: StructInfo | None = None
    ) -> None:
        """`name = value`"""
        scope = self.parser.scope
        if isinstance(value, T.meta_var):
            scope.define(name, value.value)
        elif isinstance(value, TirVar):
            self._bind_symbol(node, name, value, info)
        elif isinstance(value, IntImm) and info is None:
            scope.define(name, value)  # a dimension that is known
        elif isinstance(value, R.MatchCastPair):
            scope.define(name, self._match_cast(name, value, info))
        elif isinstance(value, _SCALARS):
            scope.define(name, self.emit(const(value), info, name))
        elif isinstance(value, (RelaxExpr, PrimExpr)) or is_graph_tuple(value):
            scope.define(name, self.emit(value, info, name))
        elif info is not None:
            what = "this value cannot be bound in a graph function"
            raise TypeError(explain(what, got=f"{value!r} of type {type(value).__name__}"))
        else:
            scope.define(name, value)  # a Python value: meta-programming

    def _bind_symbol(
        self, node: ast.Name, name: str, value: TirVar, info: StructInfo | None
    ) -> None:
        scope = self.parser.scope
        if value.name and info is not None:
            scope.define(name, self.emit(value, info, name))
            return
        symbol = self.body.function.symbols.get(name)
        if value.name in ("", name) and symbol is not None and value is not symbol:
            if symbol.dtype != value.dtype:
                what = f"symbolic variable {name} is defined twice"
                got = f"{symbol.dtype} and {value.dtype}"
                raise TypeError(explain(what, got=got, instead="dimensions are int64"))
            value = symbol
        T.name_value(name, value)
        scope.define(name, value)

    def _match_cast(self, name: str, pair: MatchCastPair, annotation: StructInfo | None) -> Var:
        flow = self._open_flow()
        value = self.builder.normalize_argument(self._checked(as_expr(pair.value)))
        info = pair.struct_info
        self._check_annotation(info, value.struct_info)
        if annotation is not None:
            self._check_annotation(R.as_info(annotation), info)
        kind: Any = Var if flow is None else DataflowVar
        var = kind(name, info if annotation is None else R.as_info(annotation), self.builder.span)
        self._add(MatchCast._make(var, value, info, span=self.builder.span))
        return var

    # -------------------------------------------------------------- statements

    def visit_Assign(self, node: ast.Assign) -> None:
        """`x = value`, `a, b = value`"""
        if len(node.targets) != 1:
            raise self.error(node, _CHAINED, instead="write two assignments")
        value = self.parser.eval(node.value)
        target = node.targets[0]
        if isinstance(target, (ast.Tuple, ast.List)) and isinstance(value, Expr):
            expr = self.builder.normalize_argument(self._checked(value))
            if not isinstance(expr.struct_info, TupleStructInfo):
                what = "only a tuple of known length can be unpacked"
                raise self.error(node, what, got=str(expr.struct_info))
            value = list(expr)
        self.assign(target, value, self.bind_value)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        """`x: R.Tensor((2, 3)) = value`"""
        parser = self.parser
        if not isinstance(node.target, ast.Name):
            raise self.error(node, "an annotated assignment is to one name")
        if node.value is None:
            what = "an annotated name needs a value"
            raise self.error(node, what, instead="write name: R.Tensor(...) = value")
        value = parser.eval(node.value)
        proxy = self._proxy(node.annotation)
        if isinstance(proxy, TirVar) and isinstance(value, TirVar):
            proxy = None  # n: T.int64 = T.int64()
        with parser.located(node.annotation):
            info = None if proxy is None else R.as_info(proxy)
        self.bind_value(node.target, node.target.id, value, info)

    def visit_Expr(self, node: ast.Expr) -> None:
        """A call for its effect: its result must be the empty tuple."""
        if isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            return  # a docstring
        value = self.parser.eval(node.value)
        if isinstance(value, R.MatchCastPair):
            self._match_cast("_", value, None)
        elif isinstance(value, Expr):
            var = self.emit(value, None, "_")
            info = var.struct_info
            if not (isinstance(info, TupleStructInfo) and not info.fields):
                what = "the value of this expression is not used"
                hint = "bind it to a name: _ = ..."
                raise self.error(node, what, got=f"a value of {info}", instead=hint)
        elif value is not None:
            what = "this value is not a statement of a graph function"
            raise self.error(node, what, got=type(value).__name__)

    def visit_Return(self, node: ast.Return) -> None:
        """`return value`, the last statement"""
        parser = self.parser
        value = as_expr(() if node.value is None else parser.eval(node.value))
        if parser.macro_depth:
            parser.macro_result = value
            return
        body = self.body
        if body.parent is not None:
            what = "a branch has no return statement"
            hint = "bind the result to one name in both branches, and return that at the end"
            raise self.error(node, what, instead=hint)
        if body.result is not None:
            what = f"function {body.name} has a second return statement"
            raise self.error(node, what, instead="return once, at the end")
        if body.flow is not None and body.flow.outputs is None:
            self.output(tuple(v for v in variables_of(value) if id(v) in body.flow.locals))
        body.result = self._checked(value)

    def visit_Assert(self, node: ast.Assert) -> None:
        """`assert condition, message`"""
        parser = self.parser
        condition = parser.eval(node.test)
        message = "" if node.msg is None else parser.eval(node.msg)
        if isinstance(condition, bool):
            if not condition:
                raise self.error(node, f"assertion failed: {message}")
            return
        self.emit(R.assert_op(condition, format=message), None, "_")

    def visit_If(self, node: ast.If) -> None:
        """A branch: both sides end by binding the same name. A Python bool decides now."""
        parser = self.parser
        condition = parser.eval(node.test)
        if not isinstance(condition, (RelaxExpr, PrimExpr)):
            parser.visit_body(node.body if condition else node.orelse)
            return
        if self.body.flow is not None:
            what = "a dataflow block has no control flow"
            raise self.error(node, what, instead="move the if out of R.dataflow()")
        if not node.orelse:
            what = "an if in a graph function needs an else"
            raise self.error(node, what, instead="bind the same name in the else branch")
        condition = self.builder.normalize_argument(as_expr(condition))
        name, true = self._branch(node, node.body, "then")
        other, false = self._branch(node, node.orelse, "else")
        if name != other:
            what = "both branches of an if end by binding the same name"
            raise self.error(node, what, got=f"{name!r} and {other!r}", instead="rename one")
        self.before(node)
        value = If(condition, true, false, parser.source.span(node))
        parser.scope.define(name, self.emit(value, None, name))

    def _branch(self, node: ast.If, stmts: list[ast.stmt], kind: str) -> tuple[str, SeqExpr]:
        """(name bound last, sequence) of a branch."""
        parser = self.parser
        body = _Body(self.body.name, {}, self.body)
        self.bodies.append(body)
        try:
            with parser.scope.frame(), self.builder.inner_scope(), self._sequence():
                parser.visit_body(stmts)
                self._close_block()
                self.builder._begin_binding_block()
                if not body.blocks:
                    what = f"the {kind} branch of an if binds nothing"
                    hint = "bind the result to the same name in both branches"
                    raise self.error(node, what, instead=hint)
                name, result = take_last(body.blocks, kind)
        finally:
            self.bodies.pop()
        with self.builder.inner_scope():
            return name, self.builder.normalize(SeqExpr(body.blocks, result))

    def visit_For(self, node: ast.For) -> None:
        """A loop over a Python iterable: its body is read once for each item."""
        values = self.parser.eval(node.iter)
        if isinstance(values, (Expr, PrimExpr)) or not hasattr(values, "__iter__"):
            what = "a graph function has no loops"
            hint = "loop over a Python range or list: the body is repeated"
            raise self.error(node.iter, what, got=type(values).__name__, instead=hint)
        for item in self.parser.items(values):
            self.assign(node.target, getattr(item, "meta_value", item), self._meta)
            self.parser.visit_body(node.body)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        """A local function or a macro."""
        parser = self.parser
        decorator = parser.decorator_of(node)
        if decorator.dialect == "macro":
            parser.scope.define(node.name, decorator.define(parser, node))
        elif decorator.dialect == "relax":
            self._local(node, decorator.options)
        else:
            what = f"{node.name} is not allowed in a graph function"
            hint = f"write it in the module, next to the graph function, and call cls.{node.name}"
            raise self.error(node, what, got=decorator.dialect, instead=hint)

    def _local(self, node: ast.FunctionDef, options: dict[str, Any]) -> None:
        parser = self.parser
        options = {**self.body.function.options, **options}
        flow = self._open_flow()
        kind: Any = Var if flow is None else DataflowVar
        span = parser.source.span(node)
        var = kind(node.name, self.signature(node, options), span)
        parser.scope.define(node.name, var)
        func = self.function(node, options, local=True)
        var._update_struct_info(func.struct_info)
        self._add(VarBinding._make(var, func, span=span))


def _declare(parser: Parser, node: ast.FunctionDef, options: dict[str, Any]) -> tuple[Any, Any]:
    """(struct info of the global variable, dtype returned) before bodies are read."""
    with parser.dialect(RelaxDialect) as dialect:
        info = dialect.signature(node, options)
    parser.builder.get_unique_name(node.name)
    return info, None


def _define(
    parser: Parser, node: ast.FunctionDef, options: dict[str, Any], gvar: GlobalVar | None
) -> Function:
    with parser.dialect(RelaxDialect) as dialect:
        func = dialect.function(node, options, local=False)
    if gvar is not None:
        gvar.struct_info = func.struct_info
    return func


def _extras(parser: Parser, functions: dict[GlobalVar, Any]) -> dict[GlobalVar, Any]:
    """The functions that `R.emit_te` made."""
    extras = {} if parser.builder is None else parser.builder.get().functions
    return {gvar: func for gvar, func in extras.items() if gvar not in functions}


FUNCTIONS.register("relax", (_declare, _define))
READERS.register("relax", read_function("relax"))
EXTRAS.register("relax", _extras)
