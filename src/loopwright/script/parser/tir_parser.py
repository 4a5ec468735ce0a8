"""Statements of a prim_func."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

from ...base.errors import explain
from ...ir.expr import GlobalVar
from ...ir.prim_expr import Call, IntImm, IterVar, PrimExpr, StringImm, Var
from ...ir.prim_op import const, convert
from ...tir.buffer import Buffer, BufferRegion
from ...tir.function import PrimFunc
from ...tir.op import ret
from ...tir.stmt import Evaluate, LetStmt, Stmt, slice_to_index
from .. import tir as T
from . import closed, frames
from .core import Dialect, Parser, annotation_tree, parameters
from .entry import READERS
from .frames import BranchFrame, ForFrame, Frame, FuncFrame, IfFrame, WhileFrame, Wrap
from .ir_parser import FUNCTIONS, read_function
from .region import as_operand
from .tir_buffers import returned_type

_CHAINED = "consequential assignments like `a = b = c` are not supported"


class TirDialect(Dialect):
    """`@T.prim_func`"""

    title = "a prim_func"
    supported = "use assignments, for, while, if, with, assert, return and calls of T.*"

    def before(self, stmt: ast.stmt) -> None:
        frames.set_span(self.parser.source.span(stmt))

    def call_value(
        self,
        fn: GlobalVar | Callable[..., Any] | type[PrimExpr],
        args: list[Any],
        kwargs: dict[str, Any],
    ) -> Any:
        if isinstance(fn, PrimFunc):
            fn = self._global_of(fn)
        if isinstance(fn, GlobalVar):
            result = getattr(self.parser.module, "return_dtype", lambda _: "void")(fn)
            data = [a.data if isinstance(a, Buffer) else a for a in args]
            return Call(result, fn, data)
        return fn(*args, **kwargs)

    def _global_of(self, func: PrimFunc) -> Any:
        what = "a prim_func is called through its module"
        raise TypeError(explain(what, instead="write cls.name(...) inside an I.ir_module"))

    # -------------------------------------------------------------- the function

    def function(self, node: ast.FunctionDef, private: bool, body: bool = True) -> Any:
        """Read a whole function (or its signature only)."""
        parser = self.parser
        frame = FuncFrame(node.name, private)
        with parser.scope.frame():
            self.before(node)
            if parser.scope.lookup("range") in (range, closed.short_range):
                parser.scope.define("range", _range)
            with frame:
                if node.returns is not None:
                    frame.ret_type = self.return_type(node.returns)
                for param in parameters(parser, node):
                    frames.set_span(parser.source.span(param))
                    value = self._parameter(param)
                    parser.scope.define(param.arg, T.arg(param.arg, value))
                if body:
                    parser.visit_body(node.body)
        return frame.result

    def return_type(self, node: ast.expr) -> Any:
        value = self.parser.eval(annotation_tree(self.parser, node))
        with self.parser.located(node):
            return returned_type(value)

    def _parameter(self, param: ast.arg) -> Any:
        parser = self.parser
        assert param.annotation is not None
        value = parser.eval(annotation_tree(parser, param.annotation))
        if callable(value) and not isinstance(value, (Var, Buffer)):
            value = value()
        if not isinstance(value, (Var, Buffer)):
            what = f"parameter {param.arg!r} needs a type such as T.int32, T.handle or T.Buffer"
            raise parser.source.error(param.annotation, what, got=type(value).__name__)
        value.span = parser.source.span(param)
        return value

    # -------------------------------------------------------------- bindings

    def bind_let(self, node: ast.expr, name: str, value: Any) -> None:
        """`name = value`: names a fresh variable or buffer, opens a frame, or makes a let."""
        scope = self.parser.scope
        if isinstance(value, T.meta_var):
            scope.define(name, value.value)
        elif isinstance(value, (list, tuple)):
            for i, item in enumerate(value):
                if self._is_fresh(item):
                    self.bind_let(node, f"{name}_{i}", item)
            scope.define(name, value)
        elif isinstance(value, Frame):
            if not isinstance(value, Wrap):
                what = f"{value.title} is opened by a with statement"
                raise self.parser.source.error(node, what, instead=f"with ... as {name}:")
            self.bind_named(node, name, frames.open_rest(value))
        elif self._is_fresh(value):
            self.bind_named(node, name, value)
        else:
            self._let(node, name, value, None)

    def _is_fresh(self, value: PrimExpr | Buffer) -> bool:
        """Whether a value has just been made, so that it takes the name it is bound to."""
        fresh = isinstance(value, (Buffer, IterVar))
        return fresh or (isinstance(value, Var) and not self.parser.scope.holds(value))

    def bind_named(self, node: ast.expr, name: str, value: PrimExpr | Buffer) -> None:
        """Name a fresh variable, axis or buffer and define it."""
        if isinstance(value, (list, tuple)):
            for i, item in enumerate(value):
                self.bind_named(node, f"{name}_{i}", item)
        else:
            T.name_value(name, value)
            self._check_new(node, name, value)
            if isinstance(value, (Var, Buffer)) and value.span is None:
                value.span = self.parser.source.span(node)
            value = value.var if isinstance(value, IterVar) else value
        self.parser.scope.define(name, value)

    def _check_new(self, node: ast.expr, name: str, value: PrimExpr | Buffer) -> None:
        old_buffer = self.parser.scope.defined_here().get(name)
        if isinstance(value, Buffer) and isinstance(old_buffer, Buffer) and value is not old_buffer:
            what = f"there is a buffer {name!r} here already"
            raise self.parser.source.error(node, what, instead="give each a name of its own")
        block = frames.enclosing(frames.BlockFrame)
        axes = [] if block is None else [axis.var for axis in block.iter_vars]
        old = self.parser.scope.names.get(name)
        if any(old is v for v in axes) and any(value is v for v in axes) and value is not old:
            what = f"the block has an axis {name!r} already"
            raise self.parser.source.error(node, what, instead="give each axis a name of its own")

    def _let(
        self, node: ast.expr, name: str, value: PrimExpr | int | Buffer, var: Var | None
    ) -> None:
        bound = as_operand(value)
        if isinstance(bound, (bool, int, float)):
            bound = const(bound, None if var is None else var.dtype)
        if not isinstance(bound, PrimExpr):
            # A Python value: meta-programming, no variable of the function.
            self.parser.scope.define(name, value)
            return
        if var is None:
            annotation = getattr(bound, "type_annotation", None)
            var = Var(name, bound.dtype, type_annotation=annotation)
        elif var.dtype != bound.dtype:
            what = f"variable {name} is annotated as {var.dtype}"
            raise self.parser.source.error(node, what, got=f"a value of {bound.dtype}")
        self.bind_named(node, name, var)
        frames.open_rest(Wrap(lambda body: LetStmt(var, bound, body), var, title="a let"))

    # -------------------------------------------------------------- statements

    def visit_Assign(self, node: ast.Assign) -> None:
        """`x = value`, `A[i] = value`, `i, j = values`"""
        parser = self.parser
        if len(node.targets) != 1:
            raise parser.source.error(node, _CHAINED, instead="write two assignments")
        (target,) = node.targets
        value = parser.eval(node.value)
        if isinstance(target, ast.Subscript):
            self._store(target, value)
        else:
            self.assign(target, value, self.bind_let)

    def _store(self, target: ast.Subscript, value: PrimExpr | BufferRegion | float) -> None:
        parser = self.parser
        buffer = parser.eval(target.value)
        index = parser.eval(target.slice)
        if not isinstance(buffer, Buffer):
            what = "only buffers are stored to"
            raise parser.source.error(target, what, got=type(buffer).__name__)
        points = list(index) if isinstance(index, (list, tuple)) else [index]
        if any(isinstance(p, slice) for p in points):
            pairs = zip(points, buffer.shape, strict=True)
            points = [slice_to_index(p, extent) for p, extent in pairs]
        T.buffer_store(buffer, parser.mark(value, target), [parser.mark(p, target) for p in points])

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        """`A[i] += value`"""
        parser = self.parser
        if isinstance(node.target, ast.Attribute):
            raise parser.source.error(node.target, "an attribute cannot be assigned to")
        load = ast.copy_location(_as_load(node.target), node.target)
        value = parser.eval(ast.copy_location(ast.BinOp(load, node.op, node.value), node))
        if isinstance(node.target, ast.Subscript):
            self._store(node.target, value)
        else:
            self.assign(node.target, value, self.bind_let)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        """`x: T.int32 = value`"""
        parser = self.parser
        annotation = parser.eval(annotation_tree(parser, node.annotation))
        if callable(annotation):
            annotation = annotation()
        if not isinstance(annotation, Var) or not isinstance(node.target, ast.Name):
            what = "an annotation in a prim_func is a scalar type"
            raise parser.source.error(node.annotation, what, instead="write x: T.int32 = value")
        if node.value is None:
            self.bind_named(node.target, node.target.id, annotation)
            return
        value = parser.eval(node.value)
        if isinstance(value, Frame):
            self.bind_let(node.target, node.target.id, value)
        else:
            self._let(node.target, node.target.id, value, annotation)

    def visit_Expr(self, node: ast.Expr) -> None:
        """A call for its effect."""
        value = self.parser.eval(node.value)
        if isinstance(value, Wrap):
            frames.open_rest(value)
        elif isinstance(value, Frame):
            what = f"{value.title} is opened by a with or for statement"
            raise self.parser.source.error(node, what)
        elif value is None or isinstance(value, (str, StringImm, Var)):
            pass  # a docstring, a declaration, or a function that made its statement itself
        elif isinstance(value, Stmt):
            frames.emit(value)
        elif isinstance(value, (PrimExpr, int, bool)):
            frames.emit(Evaluate(value))
        elif isinstance(value, (list, tuple)):
            for item in value:
                if isinstance(item, PrimExpr):
                    frames.emit(Evaluate(item))
        elif not isinstance(value, Buffer):
            what = "this value is not a statement of a prim_func"
            raise self.parser.source.error(node, what, got=type(value).__name__)

    def visit_For(self, node: ast.For) -> None:
        """A loop over `T.grid`, `T.serial`, `range`..., or over a Python iterable."""
        parser = self.parser
        if node.orelse:
            raise parser.source.error(node, "a loop has no else branch")
        values = parser.eval(node.iter)
        if isinstance(values, range):
            values = _range_loop(values)
        if isinstance(values, ForFrame):
            with parser.scope.frame(), values as loop_vars:
                self.assign(node.target, loop_vars, self.bind_named)
                parser.visit_body(node.body)
        elif hasattr(values, "__iter__") and not isinstance(values, (PrimExpr, str)):
            self.loop_in_python(node, values)
        else:
            what = "a for loop iterates over T.grid, T.serial, T.parallel, range, ..."
            raise parser.source.error(node.iter, what, got=type(values).__name__)

    def visit_While(self, node: ast.While) -> None:
        """`while condition`"""
        parser = self.parser
        condition = as_operand(parser.eval(node.test))
        with parser.scope.frame(), WhileFrame(convert(condition)):
            parser.visit_body(node.body)

    def visit_If(self, node: ast.If) -> None:
        """A branch; one whose condition is a Python value is decided now."""
        parser = self.parser
        condition = as_operand(parser.eval(node.test))
        if not isinstance(condition, PrimExpr):
            with parser.scope.frame():
                parser.visit_body(node.body if condition else node.orelse)
            return
        with IfFrame(condition):
            with parser.scope.frame(), BranchFrame(True):
                parser.visit_body(node.body)
            if node.orelse:
                with parser.scope.frame(), BranchFrame(False):
                    parser.visit_body(node.orelse)

    def visit_With(self, node: ast.With) -> None:
        """`with T.block("name"):`"""
        with self.parser.scope.frame():
            self._with(node, 0)

    def _with(self, node: ast.With, index: int) -> None:
        parser = self.parser
        if index == len(node.items):
            parser.visit_body(node.body)
            return
        item = node.items[index]
        frame = parser.eval(item.context_expr)
        if not isinstance(frame, Frame):
            what = "invalid context expression in a with statement"
            hint = "use T.block, T.init, T.allocate, T.attr, T.launch_thread, ..."
            got = type(frame).__name__
            raise parser.source.error(item.context_expr, what, got=got, instead=hint)
        with frame as bound:
            if item.optional_vars is not None:
                if bound is None:
                    what = f"{frame.title} has nothing to name"
                    raise parser.source.error(item.optional_vars, what, instead="leave out `as`")
                self.assign(item.optional_vars, bound, self.bind_named)
            self._with(node, index + 1)

    def visit_Assert(self, node: ast.Assert) -> None:
        """`assert condition, message`"""
        parser = self.parser
        condition = as_operand(parser.eval(node.test))
        message = "" if node.msg is None else parser.eval(node.msg)
        if not isinstance(condition, PrimExpr):
            if condition:
                return
            condition = False  # an error where the program runs
        frames.open_rest(T.Assert(condition, message))

    def visit_Return(self, node: ast.Return) -> None:
        """`return value`"""
        parser = self.parser
        value = None if node.value is None else as_operand(parser.eval(node.value))
        if parser.macro_depth:
            parser.macro_result = value
            return
        if value is None:
            what = "the value returned by a prim_func must be a scalar expression"
            raise parser.source.error(node, what, instead="leave out the return")
        frames.emit(Evaluate(ret(value)))

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        """A macro defined inside the function."""
        decorator = self.parser.decorator_of(node)
        if decorator.dialect != "macro":
            what = "a prim_func holds no function but macros"
            raise self.parser.source.error(node, what, instead="define it outside")
        self.parser.scope.define(node.name, decorator.define(self.parser, node))


def _as_load(target: ast.expr) -> ast.expr:
    if isinstance(target, ast.Name):
        return ast.Name(target.id, ast.Load())
    assert isinstance(target, ast.Subscript)
    return ast.Subscript(target.value, target.slice, ast.Load())


def _range(*bounds: Any, annotations: dict[str, Any] | None = None) -> Any:
    """`range` in a prim_func: of Python ints it is Python's, else a serial loop; one with
    annotations is a loop always."""
    if annotations is None and not any(isinstance(b, PrimExpr) for b in bounds):
        result = range(*bounds)
        return result if len(result[: closed.MOST + 1]) <= closed.MOST else _range_loop(result)
    if len(bounds) > 2 and not (isinstance(bounds[2], (int, IntImm)) and int(bounds[2]) == 1):
        what = "a loop over range has step 1"
        raise ValueError(explain(what, got=bounds[2], instead="scale the variable in the body"))
    return T.serial(*bounds[:2], annotations=annotations)


def _range_loop(values: range) -> ForFrame:
    if values.step != 1:
        what = "a loop over range has step 1"
        raise ValueError(explain(what, got=values.step, instead="scale the variable in the body"))
    return T.serial(values.start, values.stop)


def _declare(parser: Parser, node: ast.FunctionDef, options: dict[str, Any]) -> tuple[Any, Any]:
    """(struct info of the global variable, dtype returned) before bodies are read."""
    returned = None
    if node.returns is not None:
        with parser.dialect(TirDialect) as dialect:
            kind = dialect.return_type(node.returns)
            returned = None if kind is None else kind.dtype
    return None, returned


def _define(
    parser: Parser, node: ast.FunctionDef, options: dict[str, Any], gvar: GlobalVar | None
) -> PrimFunc:
    with parser.dialect(TirDialect) as dialect:
        return dialect.function(node, options.get("private", False))


FUNCTIONS.register("tir", (_declare, _define))
READERS.register("tir", read_function("tir"))
