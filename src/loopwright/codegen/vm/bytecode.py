"""Graph functions as bytecode.

A function must be in the form that the passes LowerRuntimeBuiltin and VMShapeLower leave: storage
explicit, symbolic dimensions in a shape heap, operators of the runtime called by name. Each binding
becomes an instruction. A function whose last call is one of itself jumps to its own begin instead,
so that a loop written as recursion needs no stack.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from typing import Any

from ...base.errors import LoopwrightError, explain
from ...ir.expr import GlobalVar
from ...ir.functor import nodes_of
from ...ir.op import Op
from ...ir.prim_expr import FloatImm, IntImm
from ...ir.prim_expr import Var as TirVar
from ...relax import expr as rx
from ...relax.relations import BaseCheckResult, struct_info_base_check
from ...relax.struct_info import TensorStructInfo
from ...runtime.tensor import ShapeTuple, Tensor
from ...runtime.vm.builder import VOID, ExecBuilder
from ...runtime.vm.bytecode import Operand, VMExecutable, VMFuncKind


def program_of(functions: Mapping[str, rx.Function], natives: Container[str] = ()) -> VMExecutable:
    """Graph functions by name as a program. natives: the native functions that they may call."""
    builder = ExecBuilder()
    for name in functions:
        builder.declare_function(name, VMFuncKind.VM_FUNC)
    for name, func in functions.items():
        add_function(builder, name, func, natives)
    return builder.get()


def add_function(
    builder: ExecBuilder,
    name: str,
    func: rx.Function,
    natives: Container[str] = (),
    kind: VMFuncKind = VMFuncKind.VM_FUNC,
) -> None:
    """Write a graph function."""
    names = [p.name_hint for p in func.params]
    with builder.function(name, len(names), names, kind):
        Writer(builder, name, func, natives).write()
    builder.location = ""


class Writer:
    """Writes a function binding by binding; subclasses write calls and branches in another form."""

    def __init__(
        self, builder: ExecBuilder, name: str, func: rx.Function, natives: Container[str]
    ) -> None:
        self.builder, self.name, self.func, self.natives = builder, name, func, natives
        self.registers = len(func.params)
        self.values: dict[rx.Var, Operand] = {}
        # Of native functions, their fields, and checked parameters: they are as their types say.
        self.as_typed: set[rx.Var] = set()
        # Where the checks of the parameters' kinds end, and where those of their sizes do.
        self.checked = self.matched = -1

    def write(self) -> None:
        for k, param in enumerate(self.func.params):
            self.values[param] = self.builder.r(k)
        self.returned(self.func.body)

    def fresh(self) -> Operand:
        self.registers += 1
        return self.builder.r(self.registers - 1)

    # -- sequences -----------------------------------------------------------------------------

    def returned(self, body: rx.SeqExpr) -> None:
        """Write a sequence whose value the function returns."""
        last = self.bindings(body, tail=True)
        if last is None:
            self.builder.emit_ret(self.register(self.value(body.body)))
        elif isinstance(last, rx.If):
            test = self.test(last)
            self.returned(_seq(last.true_branch))
            self.land(test)
            self.returned(_seq(last.false_branch))
        else:
            self.again(last)

    def bindings(self, body: rx.SeqExpr, tail: bool = False) -> Any:
        """Write the bindings of a sequence. With `tail`, the value of the last one is returned
        unwritten where it is an If, or a call of the function itself, whose value is the result."""
        every = [b for block in body.blocks for b in block.bindings]
        last = _last(every, body.body) if tail else None
        if not isinstance(last, rx.If) and not self.calls_itself(last):
            last = None
        for binding in every if last is None else every[: _position(every, last)]:
            self.binding(binding)
        return last

    def calls_itself(self, value: rx.Expr | None) -> bool:
        return (
            isinstance(value, rx.Call)
            and isinstance(value.op, GlobalVar)
            and value.op.name_hint == self.name
        )

    def again(self, call: rx.Call) -> None:
        """Set the parameters and jump to the start. Checks that are known to hold are left out."""
        args = [self.value(a) for a in call.args]
        registers = [self.builder.r(k) for k in range(len(args))]
        moved = [
            g if g == r or g not in registers else self.copied(g) for g, r in zip(args, registers)
        ]
        for k, operand in enumerate(moved):
            if operand != registers[k]:
                self.builder.emit_call("vm.builtin.copy", [operand], self.builder.r(k))
        shared = min(
            struct_info_base_check(p.struct_info, a.struct_info)
            for p, a in zip(self.func.params, call.args, strict=True)
        )
        start = self.checked if shared >= BaseCheckResult.FAIL_L2 else 0
        if shared is BaseCheckResult.PASS and not any(_symbolic(p) for p in self.func.params):
            start = self.matched
        self.builder.emit_goto(max(start, 0) - len(self.builder.code))

    def binding(self, binding: rx.Binding) -> None:
        span = binding.span or binding.value.span
        self.builder.location = str(span) if span else ""
        self.after_checks(_check(binding.value))
        if isinstance(binding.value, rx.Function):
            what = f"{self.name}: a function within a function"
            raise LoopwrightError(explain(what, instead="run the pass LambdaLift first"))
        value = self.value(binding.value)
        called = getattr(binding.value, "op", None)
        field = isinstance(binding.value, rx.TupleGetItem)
        if getattr(called, "global_symbol", "") in self.natives or (
            field and binding.value.tuple_value in self.as_typed
        ):
            self.as_typed.add(binding.var)
        if _callee(binding.value) == "check_tensor_info":
            self.as_typed.update(a for a in binding.value.args[:1] if isinstance(a, rx.Var))
        alias = isinstance(binding.value, rx.Var) and value.kind == "r"
        self.values[binding.var] = self.copied(value) if alias else value

    def after_checks(self, kind: str) -> None:
        """Note where the checks end, before a step of a kind: "" is not a check."""
        if self.checked < 0 and kind != "check":
            self.checked = self.position()
        if self.matched < 0 and not kind:
            self.matched = self.position()

    def copied(self, value: Operand) -> Operand:
        dst = self.fresh()
        self.set_register(value, dst)
        return dst

    def position(self) -> int:
        """Where the next instruction will be."""
        return len(self.builder.code)

    def set_register(self, value: Operand, dst: Operand) -> None:
        """Copy a value to a register."""
        self.write_call("vm.builtin.copy", [value], dst)

    def write_call(self, name: str | Operand, args: list[Any], dst: Operand | None) -> None:
        """Write a call whose result is stored in a register, or is dropped."""
        self.builder.emit_call(name, args, dst)

    def register(self, value: Operand) -> Operand:
        return value if value.kind == "r" else self.copied(value)

    # -- branches ------------------------------------------------------------------------------

    def test(self, node: rx.If) -> int:
        """Write the test of a condition; returns its position."""
        self.after_checks("")
        cond = self.register(self.value(node.cond))
        if node.cond in self.as_typed and _is_bool(node.cond.struct_info):
            cond = self.emit("vm.builtin.read_bool", [cond])
        self.builder.emit_if(cond, 0)
        return len(self.builder.code) - 1

    def land(self, position: int) -> None:
        """The jump at a position leads here."""
        op, here = self.builder.code[position], len(self.builder.code)
        self.builder.code[position] = op._replace(offset=here - position)

    def if_(self, node: rx.If) -> Operand:
        dst, test = self.fresh(), self.test(node)
        self.branch(node.true_branch, dst)
        self.builder.emit_goto(0)
        leave = len(self.builder.code) - 1
        self.land(test)
        self.branch(node.false_branch, dst)
        self.land(leave)
        return dst

    def branch(self, body: rx.SeqExpr, dst: Operand) -> None:
        seq = _seq(body)
        self.bindings(seq)
        self.set_register(self.value(seq.body), dst)

    # -- expressions ---------------------------------------------------------------------------

    def value(self, expr: rx.Expr) -> Operand:
        """Write the instructions of an expression; returns the operand of its value."""
        if isinstance(expr, rx.Var):
            return self.values[expr]
        if isinstance(expr, rx.Call):
            return self.call(expr)
        handler = _VALUES.get(type(expr))
        if handler is None:
            what = f"{self.name}: the virtual machine has no value of this kind"
            raise LoopwrightError(explain(what, got=type(expr).__name__, span=expr.span))
        return handler(self, expr)

    def tuple_(self, node: rx.Tuple) -> Operand:
        return self.emit("vm.builtin.make_tuple", [self.value(f) for f in node.fields])

    def item(self, node: rx.TupleGetItem) -> Operand:
        source = self.value(node.tuple_value)
        return self.emit("vm.builtin.tuple_getitem", [source, self.builder.imm(node.index)])

    def number(self, node: rx.PrimValue) -> Operand:
        value = node.value
        if isinstance(value, IntImm):
            whole = value.dtype.is_bool
            return self.constant(bool(value.value)) if whole else self.builder.imm(value.value)
        if isinstance(value, FloatImm):
            return self.constant(value.value)
        what = f"{self.name}: a symbolic value"
        raise LoopwrightError(explain(what, got=str(value), instead="run VMShapeLower first"))

    def shape(self, node: rx.ShapeExpr) -> Operand:
        if all(isinstance(v, IntImm) for v in node.values):
            return self.constant(ShapeTuple(v.value for v in node.values))
        what = f"{self.name}: a symbolic shape"
        raise LoopwrightError(explain(what, got=str(node), instead="run VMShapeLower first"))

    def constant(self, value: Any) -> Operand:
        return self.builder.convert_constant(value)

    def function(self, name: str) -> Operand:
        return self.builder.f(name)

    def emit(self, name: str | Operand, args: list[Any]) -> Operand:
        dst = self.fresh()
        self.write_call(name, args, dst)
        return dst

    def call(self, call: rx.Call) -> Operand:
        if isinstance(call.op, Op):
            handler = _OPERATORS.get(call.op.name)
            if handler is None:
                what = f"{self.name}: operator {call.op.name} has no code"
                hint = "lower it first (LegalizeOps, CallTIRRewrite, LowerRuntimeBuiltin)"
                raise LoopwrightError(explain(what, instead=hint, span=call.span))
            return handler(self, call)
        args = [self.value(a) for a in call.args]
        if isinstance(call.op, GlobalVar):
            return self.emit(call.op.name_hint, args)
        if isinstance(call.op, rx.ExternFunc):
            return self.emit(call.op.global_symbol, args)
        callee = self.value(call.op)
        if callee.kind == "f":
            return self.emit(callee, args)
        return self.emit("vm.builtin.invoke_closure", [self.builder.vm_state(), callee, *args])


def _seq(body: rx.SeqExpr) -> rx.SeqExpr:
    return body if isinstance(body, rx.SeqExpr) else rx.SeqExpr([], body)


def _last(bindings: list[Any], result: rx.Expr) -> Any:
    """The value of a result, if nothing but aliases is bound after it."""
    for binding in reversed(bindings):
        if _is_kill(binding.value):  # everything dies when the function returns
            continue
        if binding.var is not result:
            return None
        if not isinstance(binding.value, rx.Var):
            return binding.value
        result = binding.value
    return None


def _is_kill(value: rx.Expr) -> bool:
    return isinstance(value, rx.Call) and getattr(value.op, "name", "") == "relax.vm.kill_object"


def _position(bindings: list[Any], value: rx.Expr) -> int:
    return next(k for k, b in enumerate(bindings) if b.value is value)


_CHECKS = {"check_": "check", "alloc_shape_heap": "check", "match_": "match"}


def _check(value: rx.Expr) -> str:
    """ "check" for a check of a kind at a function's begin (or the making of the shape heap),
    "match" for one of sizes, else ""."""
    if isinstance(value, rx.Call) and getattr(value.op, "name", "") == "relax.null_value":
        return "check"
    name = _callee(value)
    return next((kind for start, kind in _CHECKS.items() if name.startswith(start)), "")


def _callee(value: rx.Expr) -> str:
    """The name of the builtin that a value calls, or ""."""
    symbol = value.op if isinstance(value, rx.Call) else None
    if isinstance(symbol, Op):
        symbol = value.args[0] if value.args else None
    return getattr(symbol, "global_symbol", "").removeprefix("vm.builtin.")


def _symbolic(param: rx.Var) -> bool:
    """Whether a parameter's struct info has symbolic dimensions."""
    return any(type(var) is TirVar for var in nodes_of(param.struct_info, TirVar))


def _is_bool(info: TensorStructInfo) -> bool:
    return isinstance(info, TensorStructInfo) and info.ndim == 0 and info.dtype.is_bool


# --- operators -----------------------------------------------------------------------


def _with_context(work: Writer, call: rx.Call) -> Operand:
    callee, args = call.args
    values = [work.value(a) for a in args.fields]
    name = callee.global_symbol
    if name == "vm.builtin.make_closure" and isinstance(args.fields[0], rx.StringImm):
        values[0] = work.function(args.fields[0].value)
    return work.emit(name, [work.builder.vm_state(), *values])


def _alloc_storage(work: Writer, call: rx.Call) -> Operand:
    args = [work.value(a) for a in call.args]
    return work.emit("vm.builtin.alloc_storage", [work.builder.vm_state(), *args])


def _alloc_tensor(work: Writer, call: rx.Call) -> Operand:
    return work.emit("vm.builtin.alloc_tensor", [work.value(a) for a in call.args])


def _kill(work: Writer, call: rx.Call) -> Operand:
    value = work.value(call.args[0])
    if value.kind == "r":
        work.write_call("vm.builtin.null_value", [], value)
    return VOID


def _null(work: Writer, call: rx.Call) -> Operand:
    return work.emit("vm.builtin.null_value", [])


def _call_tir_dyn(work: Writer, call: rx.Call) -> Operand:
    callee, args = call.args
    values = [work.value(a) for a in args.fields]
    head = [work.builder.vm_state(), work.value(callee)]
    return work.emit("vm.builtin.call_tir_dyn", [*head, *values])


_OPERATORS: dict[str, Callable[[Writer, rx.Call], Operand]] = {
    "relax.call_builtin_with_ctx": _with_context,
    "relax.vm.alloc_storage": _alloc_storage,
    "relax.vm.alloc_tensor": _alloc_tensor,
    "relax.vm.kill_object": _kill,
    "relax.vm.call_tir_dyn": _call_tir_dyn,
    "relax.null_value": _null,
}


def _tensor(work: Writer, node: rx.Constant) -> Operand:
    data = node.data
    return work.constant(data if isinstance(data, Tensor) else Tensor(data))


_VALUES: dict[type, Callable[[Writer, Any], Operand]] = {
    rx.Constant: _tensor,
    rx.Tuple: Writer.tuple_,
    rx.TupleGetItem: Writer.item,
    rx.ShapeExpr: Writer.shape,
    rx.PrimValue: Writer.number,
    rx.StringImm: lambda work, node: work.constant(node.value),
    rx.DataTypeImm: lambda work, node: work.constant(str(node.value)),
    GlobalVar: lambda work, node: work.function(node.name_hint),
    rx.ExternFunc: lambda work, node: work.function(node.global_symbol),
    rx.If: lambda work, node: work.if_(node),
}
