"""Graph functions as TIR functions over lists of values: TVM's form of exec_mode="compiled".

    __vmtir__f(ctx_ptr, r, c, f)

`r` are the registers: the arguments, then the result, then the rest; `c` the constants, `f` the
functions. A call sets a register; a branch is an If.
"""

from __future__ import annotations

from typing import Any

from ...ir.prim_expr import Call as TirCall
from ...ir.prim_expr import PrimExpr, StringImm, Var
from ...ir.prim_op import const
from ...relax import expr as rx
from ...runtime.vm.builder import ExecBuilder
from ...runtime.vm.bytecode import Operand
from ...tir import stmt as st
from ...tir.function import PrimFunc
from .bytecode import Writer

PREFIX = "__vmtir__"


def tir_function(builder: ExecBuilder, name: str, func: rx.Function, kernels: set[str]) -> PrimFunc:
    """A graph function as a TIR function. kernels: the TIR functions that it may call; constants
    are added to the builder."""
    return _TirWriter(builder, name, func, kernels).finished()


class _TirWriter(Writer):
    def __init__(
        self, builder: ExecBuilder, name: str, func: rx.Function, kernels: set[str]
    ) -> None:
        super().__init__(builder, name, func, ())
        self.kernels = kernels
        self.lists = {k: Var(n, "handle") for k, n in zip("vrcf", ("ctx_ptr", "r", "c", "f"))}
        self.stmts: list[Any] = []
        self.result = self.fresh()

    def finished(self) -> PrimFunc:
        """The function."""
        for k, param in enumerate(self.func.params):
            self.values[param] = self.builder.r(k)
        self.bindings(self.func.body)
        self.set_register(self.value(self.func.body.body), self.result)
        attrs = {"global_symbol": f"{PREFIX}{self.name}"}
        params = [self.lists[k] for k in "vrcf"]
        return PrimFunc(params, st.seq(*self.stmts), attrs=attrs)

    def after_checks(self, kind: str) -> None:
        """No instructions are jumped to."""

    def do(self, call: PrimExpr) -> None:
        self.stmts.append(st.Evaluate(call))

    def argument(self, operand: Operand) -> PrimExpr:
        """The argument of a call for an operand."""
        operand = self.builder.convert_constant(operand)
        if operand.kind == "vm":
            return self.lists["v"]
        if operand.kind == "i":
            return const(operand.value, "int64")
        index = const(operand.value, "int32")
        return TirCall("handle", "tir.anylist_getitem", [self.lists[operand.kind], index])

    def write_call(self, name: str | Operand, args: list[Any], dst: Operand | None) -> None:
        """A call whose result is stored in a register, or is dropped."""
        symbol = name if isinstance(name, str) else self.builder.functions[name.value].name
        operands = [StringImm(symbol), *map(self.argument, args)]
        if symbol in self.kernels:
            self.do(TirCall("int32", "tir.call_cpacked", operands))
        elif dst is None:
            self.do(TirCall("int32", "tir.call_packed", operands))
        else:
            result = [self.lists["r"], const(dst.value, "int32")]
            self.do(TirCall("int32", "tir.anylist_setitem_call_packed", [*result, *operands]))

    def if_(self, node: rx.If) -> Operand:
        dst, outer = self.fresh(), self.stmts
        operands = [StringImm("vm.builtin.read_if_cond"), self.argument(self.value(node.cond))]
        condition = TirCall("bool", "tir.call_packed", operands)
        branches = []
        for branch in (node.true_branch, node.false_branch):
            self.stmts = []
            self.branch(branch, dst)
            branches.append(st.seq(*self.stmts))
        self.stmts = outer
        self.stmts.append(st.IfThenElse(condition, *branches))
        return dst
