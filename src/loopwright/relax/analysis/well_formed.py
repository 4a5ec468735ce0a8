"""Checks that graphs are well formed: a table of named rules; violations name rule, place and
function."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ...base.errors import LoopwrightError, explain
from ...base.span import Span
from ...ir.expr import GlobalVar
from ...ir.module import IRModule
from ...ir.op import Op
from ...ir.prim_expr import Var as TirVar
from ...ir.structural import structural_equal
from ...tir.function import PrimFunc
from .. import expr as rx
from ..block_builder import BlockBuilder
from ..normalize import is_leaf
from ..relations import (
    BaseCheckResult,
    definable_tir_vars_in_struct_info,
    function_struct_info,
    struct_info_base_check,
    tir_vars_in_struct_info,
)
from ..struct_info import (
    FuncStructInfo,
    PrimStructInfo,
    StructInfo,
    TensorStructInfo,
    TupleStructInfo,
)
from .kernel_call import conflicts
from .variables import CALL_TIR, find_impure_call, overwritten

RULES = {
    "struct-info": "every expression has its struct info",
    "annotation": "a variable's struct info covers its value's",
    "defined": "a variable is used only where it is defined",
    "bound-once": "a variable is bound once",
    "dataflow-var": "a DataflowVar is bound and used in one dataflow block",
    "dataflow-pure": "a dataflow block has no side effects and no branches",
    "symbolic": "a symbolic variable is defined by a parameter or match_cast before it is used",
    "normal-form": "arguments, conditions and results are variables, literals or tuples of them",
    "pure": "a pure function makes no call with side effects",
    "callee": "a called global function is in the module",
    "operator": "a called operator says what it returns",
    "call-tir": "the arguments of call_tir match the parameters of the PrimFunc",
    "parameter": "a parameter is a Var that is not a DataflowVar and has struct info",
    "global-symbol": "a function's global_symbol is its name in the module",
}


@dataclass(frozen=True)
class Violation:
    """A violated rule: its name in `RULES`, the message, the function and the span."""

    rule: str
    message: str
    function: str
    span: Span | None = None

    def __str__(self) -> str:
        text = f"[{self.rule}] in {self.function}: {self.message}"
        return text if self.span is None else f"{text}\n{self.span.render()}"


def find_violations(obj: IRModule | rx.Function, check_struct_info: bool = True) -> list[Violation]:
    """All violations in a module's relax functions, or in a function."""
    if isinstance(obj, rx.Function):
        name = obj.attrs.get("global_symbol", "the function")
        return _FunctionCheck(name, None, check_struct_info).run(obj)
    violations: list[Violation] = []
    for gvar, func in obj.functions.items():
        if not isinstance(func, rx.Function):
            continue
        violations += _FunctionCheck(gvar.name_hint, obj, check_struct_info).run(func)
        symbol = func.attrs.get("global_symbol")
        if symbol not in (None, gvar.name_hint):
            text = f"its global_symbol is {symbol!r}"
            violations.append(Violation("global-symbol", text, gvar.name_hint, func.span))
    return violations


def well_formed(obj: IRModule | rx.Function, check_struct_info: bool = True) -> bool:
    """Whether a module or function satisfies all `RULES`; violations are logged as warnings."""
    violations = find_violations(obj, check_struct_info)
    for violation in violations:
        logging.getLogger(__name__).warning("%s", violation)
    return not violations


def assert_well_formed(obj: IRModule | rx.Function, check_struct_info: bool = True) -> None:
    """Raise LoopwrightError listing all violations."""
    violations = find_violations(obj, check_struct_info)
    if violations:
        text = "\n".join(str(v) for v in violations)
        raise LoopwrightError(explain("the graph is not well formed", got=text))


class _FunctionCheck:
    def __init__(self, name: str, module: IRModule | None, check_struct_info: bool) -> None:
        self.name = name
        self.module = module
        self.check_struct_info = check_struct_info
        self.violations: list[Violation] = []
        self.seen: set[rx.Var] = set()
        self.visible: set[rx.Var] = set()
        self.symbols: set[TirVar] = set()
        self.in_heap = False  # whether symbolic dimensions are in a shape heap from here on

    def run(self, func: rx.Function) -> list[Violation]:
        self.function(func)
        return self.violations

    def report(self, rule: str, message: str, node: Any = None) -> None:
        span = getattr(node, "span", None)
        self.violations.append(Violation(rule, message, self.name, span))

    # ------------------------------------------------------------------ functions and blocks

    def function(self, func: rx.Function) -> None:
        outer = self.visible, self.symbols
        self.visible, self.symbols = set(self.visible), set(self.symbols)
        self.in_heap = False
        for param in func.params:
            if isinstance(param, rx.DataflowVar) or param.struct_info is None:
                self.report("parameter", f"{param.name_hint} is not a Var with struct info", param)
            else:
                self.symbols.update(definable_tir_vars_in_struct_info(param.struct_info))
            self.define(param)
        for param in func.params:
            self.symbolic(param.struct_info, param)
        self.seq(func.body)
        self.symbolic(func.ret_struct_info, func)
        if not func.is_pure and func.attrs.get("relax.force_pure", False):
            self.report("pure", "relax.force_pure is of a function that is pure", func)
        if func.is_pure and not func.attrs.get("relax.force_pure", False):
            impure = find_impure_call(func, self.name)
            if impure is not None:
                text = f"{_callee(impure)} may have side effects; say pure=False"
                self.report("pure", text, impure)
        body, ret = func.body.struct_info, func.ret_struct_info
        if body is not None and ret is not None:
            self.covers("the declared result", ret, body, func)
        self.visible, self.symbols = outer

    def seq(self, seq: rx.SeqExpr) -> None:
        if not isinstance(seq, rx.SeqExpr):
            self.report("normal-form", f"a body is a SeqExpr, not {type(seq).__name__}", seq)
            return
        for block in seq.blocks:
            self.block(block)
        self.argument(seq.body, "a result")
        self.annotated(seq)

    def block(self, block: rx.BindingBlock) -> None:
        dataflow = isinstance(block, rx.DataflowBlock)
        local: list[rx.Var] = []
        for binding in block.bindings:
            var, value = binding.var, binding.value
            if isinstance(var, rx.DataflowVar):
                local.append(var)
                if not dataflow:
                    text = f"{var.name_hint} is bound outside a dataflow block"
                    self.report("dataflow-var", text, binding)
            self.binding(binding)
            if dataflow and isinstance(value, rx.If):
                self.report("dataflow-pure", "a branch is inside a dataflow block", binding)
            impure = find_impure_call(value, self.name) if dataflow and _may_call(value) else None
            if impure is not None:
                text = f"{_callee(impure)} in a dataflow block may have side effects"
                self.report("dataflow-pure", text, binding)
        self.visible.difference_update(local)

    def binding(self, binding: rx.Binding) -> None:
        var, value = binding.var, binding.value
        if isinstance(value, rx.Function):
            self.define(var)  # a local function may call itself
            self.function(value)
        else:
            if isinstance(binding, rx.MatchCast):
                self.argument(value, "the value of a match_cast")
                info = binding.struct_info
                self.symbols.update(definable_tir_vars_in_struct_info(info))
                self.symbolic(info, binding)
            else:
                self.value(value)
            self.define(var)
        if var.struct_info is None:
            self.report("struct-info", f"{var.name_hint} has none", binding)
            return
        self.symbolic(var.struct_info, binding)
        info = binding.struct_info if isinstance(binding, rx.MatchCast) else value.struct_info
        if info is not None and info is not var.struct_info:
            self.covers(var.name_hint, var.struct_info, info, binding)

    # ------------------------------------------------------------------ expressions

    def value(self, expr: rx.Expr) -> None:
        if is_leaf(expr):
            self.argument(expr, "a value")
            return
        if isinstance(expr, rx.Call):
            self.call(expr)
        elif isinstance(expr, rx.TupleGetItem):
            self.argument(expr.tuple_value, "a tuple")
        elif isinstance(expr, rx.If):
            self.argument(expr.cond, "a condition")
            for branch in (expr.true_branch, expr.false_branch):
                outer = self.visible, self.symbols
                self.visible, self.symbols = set(self.visible), set(self.symbols)
                self.seq(branch)
                self.visible, self.symbols = outer
        else:
            text = f"a value cannot be a {type(expr).__name__}; bind its parts first"
            self.report("normal-form", text, expr)
        self.annotated(expr)

    def argument(self, expr: GlobalVar | rx.Expr, what: str) -> None:
        if not is_leaf(expr):
            text = f"{what} must be a variable or literal, not a {type(expr).__name__}"
            self.report("normal-form", text, expr)
            return
        if isinstance(expr, rx.Var):
            if expr not in self.visible:
                self.undefined(expr)
        elif isinstance(expr, rx.Tuple):
            for field in expr.fields:
                self.argument(field, "a field of a tuple")
        elif isinstance(expr, GlobalVar):
            self.global_var(expr)
            return
        elif isinstance(expr, Op):
            return
        elif isinstance(expr, rx.ShapeExpr):
            self.symbolic(expr.struct_info, expr)
        self.annotated(expr)

    def global_var(self, var: GlobalVar) -> None:
        if self.module is None:
            return
        func = self.module.get(var)
        if func is None:
            self.report("callee", f"the function {var.name_hint!r} does not exist", var)
        elif var.struct_info is None:  # a reference that was not normalized
            var.struct_info = function_struct_info(func)

    def call(self, call: rx.Call) -> None:
        if isinstance(call.op, Op):
            if not call.op.has_attr("FInferStructInfo") and not call.sinfo_args:
                self.report("operator", f"{call.op.name} has no FInferStructInfo", call)
        else:
            self.argument(call.op, "a callee")
            symbol = getattr(call.op, "global_symbol", "")
            self.in_heap = self.in_heap or symbol.startswith("vm.builtin.match_")
        for arg in call.args:
            self.argument(arg, "an argument")
        normalize = call.op.get_attr("FNormalize") if isinstance(call.op, Op) else None
        if normalize is not None and call.op.name not in CALL_TIR:  # those have their own rule
            normal = normalize(BlockBuilder(self.module), call)
            if normal is not call and not structural_equal(normal, call):
                text = f"{call.op.name} is not as its FNormalize would have it"
                self.report("normal-form", text, call)
        for info in call.sinfo_args:
            self.symbolic(info, call)
        if any(isinstance(arg, rx.Constant) for arg in overwritten(call)):
            self.report("call-tir", f"{call.op.name} writes over a constant", call)
        if isinstance(call.op, Op) and call.op.name in CALL_TIR and self.module is not None:
            self.call_tir(call)

    def call_tir(self, call: rx.Call) -> None:
        callee, args = call.args[0], call.args[1]
        assert self.module is not None
        func = self.module.get(callee) if isinstance(callee, GlobalVar) else None
        if isinstance(callee, GlobalVar) and func is not None and not isinstance(func, PrimFunc):
            text = f"{callee.name_hint} is not a PrimFunc; call it directly"
            self.report("call-tir", text, call)
        if not isinstance(args, rx.Tuple):
            self.report("call-tir", "its arguments must be a tuple written in place", call)
            return
        infos = [a.struct_info for a in args.fields]
        plain = all(isinstance(i, (TensorStructInfo, PrimStructInfo)) for i in infos)
        out = call.sinfo_args[0] if call.sinfo_args else None
        outs = list(out.fields) if isinstance(out, TupleStructInfo) else [out]
        indices = []
        if call.op.name == "relax.call_tir_inplace":
            indices = [int(i) for i in call.attrs.inplace_indices]
            self.in_place(call, infos, outs, indices)
        # A lowered kernel has no buffer map and a different signature.
        if not isinstance(func, PrimFunc) or not func.buffer_map or not plain:
            return
        if indices:
            outs = [o for o, i in zip(outs, indices, strict=False) if i == -1]
        extra = call.args[2].struct_info.ndim if len(call.args) > 2 else 0
        passed = len(infos) + len(outs) + extra
        if passed != len(func.params):
            text = f"{callee.name_hint} takes {len(func.params)} parameters, {passed} are passed"
            self.report("call-tir", text, call)
            return
        for text in conflicts(func, [*infos, *outs]):
            self.report("call-tir", f"{callee.name_hint}: {text}", call)

    def in_place(
        self, call: rx.Call, infos: list[Any], outs: list[Any], indices: Sequence[int]
    ) -> None:
        """A result that is written over an argument is like it."""
        for out, index in zip(outs, indices, strict=False):
            if not -1 <= index < len(infos):
                self.report("call-tir", f"the argument {index} to write over does not exist", call)
            elif index >= 0:
                like = isinstance(infos[index], TensorStructInfo)
                check = struct_info_base_check(out, infos[index])
                if not like or check is BaseCheckResult.FAIL_L0:
                    text = f"{out} is not written over an argument of {infos[index]}"
                    self.report("call-tir", text, call)

    # ------------------------------------------------------------------ facts

    def define(self, var: rx.Var) -> None:
        if var in self.seen:
            self.report("bound-once", f"{var.name_hint} is bound again", var)
        self.seen.add(var)
        self.visible.add(var)

    def undefined(self, var: rx.Var) -> None:
        if isinstance(var, rx.DataflowVar) and var in self.seen:
            text = f"{var.name_hint} is used outside its dataflow block; R.output it"
            self.report("dataflow-var", text, var)
        else:
            self.report("defined", f"{var.name_hint} is used but not defined here", var)

    def annotated(self, expr: rx.Expr) -> None:
        if self.check_struct_info and expr.struct_info is None:
            text = f"a {type(expr).__name__} has none; normalize it with a BlockBuilder"
            self.report("struct-info", text, expr)

    def symbolic(self, info: StructInfo | None, node: Any) -> None:
        if info is None or self.in_heap:
            return
        missing = [v.name for v in tir_vars_in_struct_info(info) if v not in self.symbols]
        if missing and not isinstance(info, FuncStructInfo):
            text = f"{', '.join(missing)} is not defined by a parameter or match_cast before"
            self.report("symbolic", text, node)

    def covers(self, what: str, wide: StructInfo, info: StructInfo, node: Any) -> None:
        if not self.check_struct_info:
            return
        if struct_info_base_check(wide, info) is BaseCheckResult.FAIL_L0:
            self.report("annotation", f"{what} is said to be {wide}, its value is {info}", node)


def _may_call(value: rx.Expr) -> bool:
    return isinstance(value, (rx.Call, rx.Tuple, rx.SeqExpr))


def _callee(call: rx.Call) -> str:
    op = call.op
    if isinstance(op, rx.ExternFunc):
        return f'the packed function "{op.global_symbol}"'
    return getattr(op, "name", None) or getattr(op, "name_hint", "a function")
