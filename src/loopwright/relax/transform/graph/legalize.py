"""LegalizeOps: lowers operators to kernel calls.

Every operator with a legalization (see `legalize_ops.common` for the order of rules) is replaced;
the result of a rule is legalized again. A call whose arguments have unknown shapes is
not changed. Arguments on a virtual device select its target, which the kernels then carry.

Before (-) and after (+)::

      @I.ir_module
      class Module:
    +     @T.prim_func(private=True)
    +     def add(x: T.Buffer((T.int64(2), T.int64(3)), "float32"), y: T.Buffer((T.int64(2), T.int64(3)), "float32"), T_add: T.Buffer((T.int64(2), T.int64(3)), "float32")):
    +         T.func_attr({"tir.noalias": True})
    +         for ax0, ax1 in T.grid(T.int64(2), T.int64(3)):
    +             with T.block("T_add"):
    +                 v_ax0, v_ax1 = T.axis.remap("SS", [ax0, ax1])
    +                 T.reads(x[v_ax0, v_ax1], y[v_ax0, v_ax1])
    +                 T.writes(T_add[v_ax0, v_ax1])
    +                 T_add[v_ax0, v_ax1] = x[v_ax0, v_ax1] + y[v_ax0, v_ax1]
    +
          @R.function
          def main(x: R.Tensor((2, 3), dtype="float32"), y: R.Tensor((2, 3), dtype="float32")) -> R.Tensor((2, 3), dtype="float32"):
    +         cls = Module
              with R.dataflow():
    -             lv = R.add(x, y)
    +             lv = R.call_tir(cls.add, (x, y), out_sinfo=R.Tensor((2, 3), dtype="float32"))
                  R.output(lv)
              return lv
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Any

from ....base import budget
from ....base.errors import LoopwrightError, explain
from ....ir import trace
from ....ir.expr import GlobalVar, RelaxExpr
from ....ir.op import Op
from ....ir.rule_table import Candidate, Choice, ask
from ....ir.target import Target
from ....ir.transform import IRModule, ModulePass, PassContext
from ....tir.function import PrimFunc
from ...block_builder import BlockBuilder
from ...expr import BindingBlock, Call, Expr
from ...functor import GraphRewriter
from ...relations import BaseCheckResult, struct_info_base_check
from ...struct_info import StructInfo, TensorStructInfo, TupleStructInfo
from ..legalize_ops.common import answer, candidates, is_checked, refusal
from ..queries import device_of, is_tir_call, shape_known, tensor_fields
from .dead_code import DeadCodeElimination

_DEEPEST = 32  # limit for rules that lower an operator to itself
_log = logging.getLogger(__name__)


class LegalizeOps(ModulePass, repr=False):
    """Lower operators to kernel calls.

    customize_legalize_map: operator name -> rule f(bb, call), or a PrimFunc; tried first.
    enable_warning: log the operators without a rule.
    keep: names of operators that remain unchanged.
    """

    customize_legalize_map: Mapping[str, Callable[..., Any]] | None = field(default=None)
    enable_warning: bool = False
    keep: tuple[str, ...] = ()

    def run(self, mod: IRModule, ctx: PassContext) -> IRModule:
        if not ctx.option("relax.transform.apply_legalize_ops"):
            return mod
        budget.allow_lowering()
        work = _Legalizer(
            mod, dict(self.customize_legalize_map or {}), self.enable_warning, self.keep
        )
        legalized = work.run()
        return (
            DeadCodeElimination(keep_packed=True).run(legalized, ctx)
            if work.retargeted
            else legalized
        )


class _Legalizer(GraphRewriter):
    def __init__(
        self, mod: IRModule, custom: dict[str, Any], warn: bool, keep: tuple[str, ...]
    ) -> None:
        super().__init__(mod)
        self.keep = keep
        self.custom = custom
        self.warn = warn
        self.target = Target.current(allow_none=True)
        self.rules: dict[tuple[str, int], list[Candidate]] = {}
        self.rivals: set[tuple[str, Candidate]] = set()
        self.depth = 0
        self.retargeted = False

    def call(self, call: Call) -> Any:
        op = call.op
        if not isinstance(op, Op) or op.name in self.keep:
            return call
        device = device_of(call.args)
        target = self.target if device is None else device.target
        key = (op.name, id(target))
        rules = self.rules.get(key)
        if rules is None:
            rules = self.rules[key] = candidates(op, target, self.custom)
            if not rules and self.warn and not op.name.startswith(("relax.call", "relax.memory")):
                _log.warning("no legalization of %s", op.name)
        if not rules:
            return call
        if not all(shape_known(a.struct_info) for a in call.args):
            nobody = Choice(None, None, (), ())
            self.note(op, target, nobody, "an argument's shape is not known")
            return call
        if call.struct_info is None:
            call = self.builder.normalize(call)
        return self.lower(call, rules, target, device)

    def lower(self, call: Call, rules: list[Candidate], target: Target | None, device: Any) -> Any:
        builder = self.builder
        budget.check(call.span or builder.span)
        builder._begin(builder.current_block_is_dataflow())
        check = call.op.get_attr("FCheckExtents")
        if check is not None:
            check(builder, call)
        choice = ask(rules, lambda c: answer(c, builder, call), lambda c: refusal(c, call))
        lowered = choice.result
        if lowered is None or lowered is call:
            builder._end_block()
            self.note(call.op, target, choice, "" if lowered is None else "left as it is")
            return call
        if choice.winner is not None:
            self.report_rivals(call, choice.winner, choice.not_asked)
        lowered = _checked(builder, lowered, call, choice.winner)
        extra = builder._end_block()
        if device is not None:
            lowered = _placed(lowered, call.struct_info)
            if device.target is not None:
                lowered = self.with_target(lowered, device.target)
        self.note(call.op, target, choice, "", lowered)
        return self.again(call, lowered, extra)

    def again(self, call: Call, lowered: Expr, extra: BindingBlock) -> Any:
        """Legalize the bindings and the expression that a rule produced."""
        self.depth += 1
        if self.depth > _DEEPEST:
            what = f"the legalization of {call.op.name} does not terminate"
            hint = "a rule must return something simpler, the call itself, or None"
            raise LoopwrightError(explain(what, instead=hint, span=call.span))
        for binding in extra.bindings:
            self.binding(binding)
        lowered = self.value(lowered)
        self.depth -= 1
        return lowered

    def with_target(self, lowered: Call, target: Target) -> Any:
        """Call a copy of the kernel that carries its target."""
        if not is_tir_call(lowered) or not isinstance(lowered.args[0], GlobalVar):
            return lowered
        gvar = lowered.args[0]
        func = self.builder.get()[gvar]
        if not isinstance(func, PrimFunc) or "target" in func.attrs:
            return lowered
        self.retargeted = True
        name = f"{gvar.name_hint}_{target.kind_name}"
        new = self.builder.add_func(func.with_attr("target", target), name)
        info = lowered.struct_info
        lowered = lowered.replace(args=(new, *lowered.args[1:]))
        lowered._update_struct_info(info)
        return lowered

    def report_rivals(self, call: Call, winner: Candidate, not_asked: Sequence[Candidate]) -> None:
        """Warn if another kernel of the winner's priority fits the call, too."""
        if not is_checked(winner) or (call.op.name, winner) in self.rivals:
            return
        for other in not_asked:
            same = (other.origin, other.priority) == (winner.origin, winner.priority)
            if same and is_checked(other) and refusal(other, call) is None:
                self.rivals.add((call.op.name, winner))
                hint = "the later registered one is taken; give one a higher priority, or when="
                _log.warning("%s: %s and %s both fit; %s", call.op.name, winner, other, hint)
                trace.note(
                    "legalize conflict", call.op.name, taken=str(winner), also=str(other), why=hint
                )

    def note(
        self, op: Op, target: Target | None, choice: Choice, reason: str, lowered: Any = None
    ) -> None:
        if trace.active() is None:
            return
        callee = lowered.args[0] if is_tir_call(lowered) else None
        kernel = getattr(callee, "name_hint", None)
        shown = None if target is None else str(target)
        trace.note("legalize", op.name, **choice.facts(reason, kernel=kernel, target=shown))


def _checked(builder: BlockBuilder, lowered: Expr, call: Call, winner: Candidate | None) -> Any:
    """A rule's result, normalized. Raises TypeError where it is not an expression, ValueError
    where it is a value of another shape or dtype."""
    if not isinstance(lowered, RelaxExpr) or isinstance(lowered, PrimFunc):
        what = f"the legalization of {call.op.name} ({winner}) must return a Relax expression"
        hint = "return an expression, or None to decline; give a kernel as register_legalize(tir=)"
        got = f"{type(lowered).__name__}: {lowered!r}"
        raise TypeError(explain(what, got=got, instead=hint, span=call.span))
    lowered = builder.normalize(lowered)
    old, new = call.struct_info, lowered.struct_info
    worst = min(struct_info_base_check(old, new), struct_info_base_check(new, old))
    if worst is BaseCheckResult.FAIL_L0:
        what = f"the legalization of {call.op.name} ({winner}) has another struct info"
        hint = "make it fit (astype, reshape), or return None to decline"
        raise ValueError(explain(what, got=f"{new} for {old}", instead=hint, span=call.span))
    return lowered


def _placed(lowered: Expr, info: StructInfo) -> Any:
    """A kernel call whose results have the operator's virtual device, which rules ignore."""
    if not is_tir_call(lowered):
        return lowered
    whole = lowered.struct_info
    owns, required = tensor_fields(whole), tensor_fields(info)
    if len(owns) != len(required) or not all(
        isinstance(i, TensorStructInfo) for i in [*owns, *required]
    ):
        return lowered
    pairs = zip(owns, required, strict=True)
    outs = [TensorStructInfo(o.shape, o.dtype, w.vdevice, o.ndim) for o, w in pairs]
    new = TupleStructInfo(outs) if isinstance(whole, TupleStructInfo) else outs[0]
    lowered = lowered.replace(sinfo_args=(new,))
    lowered._update_struct_info(new)
    return lowered
