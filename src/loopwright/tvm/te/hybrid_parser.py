"""Reads hybrid scripts: Python functions over elements of tensors, see `hybrid.py`."""

from __future__ import annotations

import ast
import functools
import inspect
import textwrap
from collections.abc import Callable, Sequence
from typing import Any

from ...base.errors import DiagnosticError, explain
from ...ir.prim_expr import (
    ConstExpr,
    FloatImm,
    IntImm,
    IterVar,
    PrimExpr,
    Range,
    Select,
    StringImm,
    Var,
)
from ...ir.prim_op import (
    cast,
    const,
    convert,
    equal,
    logical_and,
    logical_not,
    logical_or,
    maximum,
    minimum,
)
from ...te.tensor import PlaceholderOp, Tensor
from ...tir import op as tir_op
from ...tir import stmt as st
from .hybrid_op import HybridOp
from .hybrid_runtime import emulated
from .producer import ProducerRealize, ProducerStore

_LOOPS = {
    "range": st.ForKind.SERIAL,
    "parallel": st.ForKind.PARALLEL,
    "vectorize": st.ForKind.VECTORIZED,
    "unroll": st.ForKind.UNROLLED,
    "bind": st.ForKind.SERIAL,
    "const_range": st.ForKind.SERIAL,
}
_BINARY: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.Div: lambda a, b: a / b,
    ast.FloorDiv: lambda a, b: a // b,
    ast.Mod: lambda a, b: a % b,
    ast.LShift: lambda a, b: a << b,
    ast.RShift: lambda a, b: a >> b,
}
_COMPARE: dict[type, Callable[[Any, Any], Any]] = {
    ast.Lt: lambda a, b: a < b,
    ast.LtE: lambda a, b: a <= b,
    ast.Gt: lambda a, b: a > b,
    ast.GtE: lambda a, b: a >= b,
    ast.Eq: equal,
    ast.NotEq: lambda a, b: logical_not(equal(a, b)),
}
_MATH = ["sqrt", "rsqrt", "log", "exp", "tanh", "sigmoid", "power", "popcount", "round", "likely"]
_DTYPES = [
    *(f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)),
    *("float16", "float32", "float64"),
]


class Parser:
    """Runs a script's statements on expressions; what they do is collected as statements."""

    def __init__(self, node: ast.FunctionDef, globals_: dict[str, Any], source: str) -> None:
        self.node = node
        self.globals = globals_
        self.source = source
        self.names: dict[str, Any] = {}
        self.blocks: list[list[Any]] = []  # statements, and tensors allocated from there on
        self.outputs: list[Tensor] = []
        self.inputs: list[Tensor] = []
        self.returned: list[Tensor] | None = None
        self.stored = _stores(node)

    def error(self, node: ast.AST, what: str, **more: Any) -> DiagnosticError:
        """The error of a construct that is not supported."""
        lines = self.source.splitlines()
        line = lines[getattr(node, "lineno", 1) - 1].strip()
        return DiagnosticError(explain(f"{self.node.name}: {what}", got=line, **more))

    def run(self, args: Sequence[Any]) -> st.Stmt:
        """The statements of the function, with its parameters bound."""
        params = [a.arg for a in self.node.args.args]
        if len(params) != len(args):
            what = f"takes {len(params)} arguments"
            raise self.error(self.node, f"{what}, not {len(args)}")
        self.names.update(zip(params, args, strict=True))
        for arg in args:
            self.inputs += [t for t in _tensors(arg) if t not in self.inputs]
        return self.block(self.node.body)

    # -- statements -------------------------------------------------------------------------------

    def block(self, body: list[ast.stmt]) -> st.Stmt:
        self.blocks.append([])
        scope = {**self.names}
        for stmt in body:
            self.statement(stmt)
        done: st.Stmt | None = None
        for part in reversed(self.blocks.pop()):
            if isinstance(part, st.Stmt):
                done = part if done is None else st.seq(part, done)
            elif done is not None:
                tensor, kind = part
                bounds = tuple(Range.upto(e) for e in tensor.shape)
                done = ProducerRealize(tensor, bounds, const(True, "bool"), done, kind)
        if len(self.blocks):  # names of an inner block end with it
            self.names = scope
        return st.Evaluate(0) if done is None else done

    def emit(self, part: st.Stmt | Sequence[Tensor | str]) -> None:
        self.blocks[-1].append(part)

    def statement(self, node: ast.stmt) -> None:
        make = getattr(self, f"on_{type(node).__name__}", None)
        if make is None:
            raise self.error(node, f"{type(node).__name__} is not a statement of hybrid scripts")
        make(node)

    def on_Pass(self, node: ast.Pass) -> None:
        pass

    def on_Expr(self, node: ast.Expr) -> None:
        if isinstance(node.value, ast.Constant):  # a docstring
            return
        value = self.value(node.value)
        if isinstance(value, PrimExpr):
            self.emit(st.Evaluate(value))

    def on_Return(self, node: ast.Return) -> None:
        value = [] if node.value is None else self.value(node.value)
        items = list(value) if isinstance(value, (tuple, list)) else [value]
        if len(self.blocks) > 1 or not all(t in self.outputs for t in items):
            raise self.error(node, "the last statement returns output tensors")
        self.returned = items

    def on_Assert(self, node: ast.Assert) -> None:
        text = "" if node.msg is None else self.value(node.msg)
        test = convert(self.value(node.test))
        self.emit(st.AssertStmt(test, StringImm(str(text)), st.Evaluate(0)))

    def on_If(self, node: ast.If) -> None:
        test = self.value(node.test)
        if isinstance(test, (bool, int, IntImm)):
            for stmt in node.body if test else node.orelse:
                self.statement(stmt)
            return
        other = self.block(node.orelse) if node.orelse else None
        self.emit(st.IfThenElse(test, self.block(node.body), other))

    def on_For(self, node: ast.For) -> None:
        call = node.iter
        name = (
            call.func.id if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) else ""
        )
        if name not in _LOOPS or not isinstance(node.target, ast.Name) or node.orelse:
            raise self.error(node, "a loop is over range, parallel, vectorize, unroll, bind")
        assert isinstance(call, ast.Call)
        args = [self.value(a) for a in call.args]
        if name == "bind":
            self.bind(node, node.target.id, *args)
            return
        low, high = args if len(args) == 2 else (0, args[0])
        if name == "const_range":
            if not all(isinstance(e, (int, IntImm)) for e in (low, high)):
                raise self.error(node, "const_range has constant ends")
            for k in range(int(low), int(high)):
                self.within(node.target.id, k, node.body)
            return
        var = Var(node.target.id, "int32")
        extent = cast("int32", convert(high - low))
        zero = isinstance(low, (int, IntImm)) and int(low) == 0
        before = dict(self.names)
        self.names[var.name] = var if zero else var + low
        body = self.block(node.body)
        self.names = before
        self.emit(st.For(var, 0, extent, _LOOPS[name], body))

    def within(self, name: str, value: Any, body: list[ast.stmt]) -> None:
        before = dict(self.names)
        self.names[name] = value
        stmt = self.block(body)
        self.names = before
        self.emit(stmt)

    def bind(self, node: ast.For, name: str, tag: str, extent: PrimExpr | int) -> None:
        var = Var(name, "int32")
        size = cast("int32", convert(extent))
        axis = IterVar(Range.upto(size), var, IterVar.ThreadIndex, tag)
        before = dict(self.names)
        self.names[name] = var
        body = self.block(node.body)
        self.names = before
        self.emit(st.AttrStmt(axis, "thread_extent", size, body))

    def on_Assign(self, node: ast.Assign) -> None:
        if len(node.targets) != 1:
            raise self.error(node, "one name is assigned at a time")
        (target,) = node.targets
        if isinstance(target, ast.Tuple):
            values = self.value(node.value)
            for item, value in zip(target.elts, values, strict=True):
                self.assign(item, value)
            return
        self.assign(target, self.value(node.value, target))

    def on_AugAssign(self, node: ast.AugAssign) -> None:
        old = self.value(node.target)
        self.assign(node.target, _BINARY[type(node.op)](old, self.value(node.value)))

    def assign(self, target: ast.expr, value: Any) -> None:
        if isinstance(target, ast.Subscript):
            tensor, at = self.element(target)
            self.emit(ProducerStore(tensor, cast(tensor.dtype, convert(value)), at))
            return
        if not isinstance(target, ast.Name):
            raise self.error(target, "a name or an element is assigned")
        variable = self.names.get(target.id)
        if isinstance(variable, _Scalar):
            store = cast(variable.tensor.dtype, convert(value))
            self.emit(ProducerStore(variable.tensor, store, [0]))
            return
        fixed = not isinstance(value, PrimExpr) or isinstance(value, ConstExpr)
        number = isinstance(value, (int, float, ConstExpr))
        if fixed and not (number and self.stored.get(target.id, 0) > 1):
            self.names[target.id] = value
            return
        value = convert(value)
        tensor = PlaceholderOp(target.id, (convert(1),), value.dtype).output(0)
        self.names[target.id] = _Scalar(tensor)
        self.emit((tensor, "global"))
        self.emit(ProducerStore(tensor, value, [0]))

    # -- expressions ------------------------------------------------------------------------------

    def value(self, node: ast.expr, target: ast.expr | None = None) -> Any:
        make = getattr(self, f"of_{type(node).__name__}", None)
        if make is None:
            raise self.error(node, f"{type(node).__name__} is not an expression of hybrid scripts")
        return self.of_Call(node, target) if isinstance(node, ast.Call) else make(node)

    def of_Constant(self, node: ast.Constant) -> Any:
        return node.value

    def of_Name(self, node: ast.Name) -> Any:
        if node.id in self.names:
            value = self.names[node.id]
            return value.tensor(0) if isinstance(value, _Scalar) else value
        if node.id in self.globals:
            return self.globals[node.id]
        raise self.error(node, f"{node.id} is not known")

    def of_Tuple(self, node: ast.Tuple) -> tuple[Any, ...]:
        return tuple(self.value(e) for e in node.elts)

    of_List = of_Tuple

    def of_Attribute(self, node: ast.Attribute) -> Any:
        of = self.value(node.value)
        if isinstance(of, Tensor) and node.attr not in ("shape", "dtype", "name"):
            raise self.error(node, "a tensor has shape, dtype and name here")
        member = getattr(of, node.attr)
        return str(member) if node.attr == "dtype" else member

    def element(self, node: ast.Subscript) -> tuple[Tensor, list[Any]]:
        of = self.value(node.value)
        if not isinstance(of, Tensor):
            raise self.error(node, "elements of tensors are assigned")
        at = self.value(node.slice)
        return of, [convert(i) for i in (at if isinstance(at, tuple) else (at,))]

    def of_Subscript(self, node: ast.Subscript) -> Any:
        of, at = self.value(node.value), self.value(node.slice)
        if isinstance(of, Tensor):
            return of(*(at if isinstance(at, tuple) else (at,)))
        for one in at if isinstance(at, tuple) else (at,):
            if not isinstance(one, (int, IntImm)):
                raise self.error(node, "an item of a sequence is at a constant index")
            of = of[int(one)]
        return of

    def of_BinOp(self, node: ast.BinOp) -> Any:
        if type(node.op) not in _BINARY:
            raise self.error(node, f"{type(node.op).__name__} is not an operator of hybrid scripts")
        return _BINARY[type(node.op)](self.value(node.left), self.value(node.right))

    def of_UnaryOp(self, node: ast.UnaryOp) -> Any:
        value = self.value(node.operand)
        if isinstance(node.op, ast.Not):
            return not value if isinstance(value, bool) else logical_not(value)
        if isinstance(node.op, ast.UAdd):
            return +value if isinstance(value, bool) else value
        return -value if isinstance(node.op, ast.USub) else ~value

    def of_Compare(self, node: ast.Compare) -> Any:
        values = [self.value(v) for v in (node.left, *node.comparators)]
        tests = [
            _COMPARE[type(op)](*_plain(a, b))
            for op, a, b in zip(node.ops, values, values[1:], strict=False)
        ]
        return functools.reduce(logical_and, tests)

    def of_BoolOp(self, node: ast.BoolOp) -> Any:
        join = logical_and if isinstance(node.op, ast.And) else logical_or
        return functools.reduce(join, [self.value(v) for v in node.values])

    def of_IfExp(self, node: ast.IfExp) -> Any:
        test = self.value(node.test)
        if isinstance(test, (bool, int, IntImm)):
            return self.value(node.body if test else node.orelse)
        return Select(test, convert(self.value(node.body)), convert(self.value(node.orelse)))

    def of_Call(self, node: ast.Call, target: ast.expr | None = None) -> Any:
        if not isinstance(node.func, ast.Name):
            raise self.error(node, "functions are called by name")
        name = node.func.id
        args = [self.value(a) for a in node.args]
        options = {str(k.arg): self.value(k.value) for k in node.keywords}
        called = self.globals.get(name)
        if isinstance(called, HybridScript):
            return self.inlined(called, args)
        if name in ("output_tensor", "allocate"):
            label = target.id if isinstance(target, ast.Name) else name
            return self.memory(name, label, *args, **options)
        if name in _DTYPES:
            return cast(name, convert(args[0]))
        if name in ("min", "max"):
            return (minimum if name == "min" else maximum)(*(convert(a) for a in args))
        if name == "len":
            of = args[0]
            return of.shape[0] if isinstance(of, Tensor) else len(of)
        if name == "ceil_div":
            return (args[0] + args[1] - 1) // args[1]
        if name in _MATH:
            return getattr(tir_op, name)(*(convert(a) for a in args))
        raise self.error(node, f"{name} is not a function of hybrid scripts")

    def memory(
        self,
        how: str,
        label: str,
        shape: Sequence[PrimExpr | int],
        dtype: str = "float32",
        scope: str = "",
    ) -> Tensor:
        tensor = PlaceholderOp(label, tuple(convert(e) for e in shape), dtype).output(0)
        if how == "output_tensor":
            self.outputs.append(tensor)
        else:
            self.emit((tensor, scope))
        return tensor

    def inlined(self, called: HybridScript, args: Sequence[Any]) -> Any:
        """The statements of another script; what it returns is memory here."""
        parser = called.parser()
        body = parser.run(args)
        returned = parser.returned or []
        for tensor in parser.outputs:
            self.emit((tensor, "global"))
        self.emit(body)
        return returned[0] if len(returned) == 1 else tuple(returned)


class _Scalar:
    """A name for memory of one element."""

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor


def _plain(a: Any, b: Any) -> tuple[Any, Any]:
    """Operands of a comparison; of two literals as numbers."""
    if all(isinstance(e, (int, float, IntImm, FloatImm)) for e in (a, b)):
        return tuple(getattr(e, "value", e) for e in (a, b))
    return convert(a), convert(b)


def _stores(node: ast.FunctionDef) -> dict[str, int]:
    """The number of assignments of each name; once in a loop counts as once."""
    counts: dict[str, int] = {}
    for part in ast.walk(node):
        if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store):
            counts[part.id] = counts.get(part.id, 0) + 1
    return counts


def _tensors(arg: Tensor | int | Sequence[Tensor | int]) -> list[Tensor]:
    if isinstance(arg, Tensor):
        return [arg]
    return [t for item in arg for t in _tensors(item)] if isinstance(arg, (tuple, list)) else []


def _symbolic(arg: object) -> bool:
    if isinstance(arg, (tuple, list)):
        return any(map(_symbolic, arg))
    return isinstance(arg, (Tensor, PrimExpr))


class HybridScript:
    """A function that `script` read."""

    def __init__(self, func: Callable[..., Any], source: str = "") -> None:
        functools.update_wrapper(self, func)
        self.func = func
        self.source = source or textwrap.dedent(inspect.getsource(func))
        self.__globals__ = func.__globals__

    def parser(self) -> Parser:
        """A parser of the function, which knows what it captures."""
        (node,) = ast.parse(self.source).body
        assert isinstance(node, ast.FunctionDef)
        globals_ = {**self.func.__globals__, **inspect.getclosurevars(self.func).nonlocals}
        return Parser(node, globals_, self.source)

    def __call__(self, *args: Any) -> Any:
        if not any(map(_symbolic, args)):
            with emulated(self.func):
                return self.func(*args)
        parser = self.parser()
        body = parser.run(args)
        if not parser.returned:
            raise parser.error(parser.node, "nothing is returned", instead="return a tensor")
        op = HybridOp(self.func.__name__, parser.inputs, parser.returned, body)
        results = [op.output(n) for n in range(op.num_outputs)]
        return results[0] if len(results) == 1 else results
