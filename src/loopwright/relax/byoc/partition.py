"""Selects the regions of a back end in a module: the matches of its patterns, if they pay.

    mod = relax.byoc.partition(mod, "onednn")          # then RunCodegen, or loopwright.compile

`cost` selects how this is decided:

- "declared": by the back end's own `cost`; if it has none, everything is offloaded
- "measured": each composite is compiled and timed both ways, on random numbers
- a function (composite function) -> Cost | bool | None
- None: everything is offloaded
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...base.errors import explain
from ...base.late import Slot
from ...ir import trace
from ...ir.expr import GlobalVar
from ...ir.structural import StructuralKey
from ...ir.transform import IRModule, ModulePass, PassContext
from ..expr import Call, Function, If, SeqExpr
from ..functor import GraphRewriter
from ..struct_info import StructInfo
from ..transform.fuse.fuse_ops_by_pattern import CODEGEN, COMPOSITE, FuseOpsByPattern, FusionPattern
from ..transform.fuse.merge_composite_functions import MergeCompositeFunctions
from .before_folding import has_regions, warn_of_nothing
from .composite import inlined
from .nearest import NO_PATTERN, Nearest, nearest_miss, nearest_misses
from .registry import Backend, Cost, get_backend

# Compiles and times a composite function both ways: (mod with it as main, back end) -> Cost.
MEASURE: Slot[Callable[[IRModule, Backend], Cost | None]] = Slot("relax.measure")
_MEASURED: dict[tuple[str, StructuralKey], tuple[Backend, Cost | None]] = {}


@dataclass(frozen=True)
class Decision:
    """One composite function: its number of calls, whether it is offloaded, and why."""

    pattern: str
    function: str
    shapes: str
    calls: int
    offloaded: bool
    reason: str


@dataclass
class PartitionReport:
    """The decisions of a partition; print it.

    decisions: the composite functions. left: the number of calls of each operator not offloaded.
    refused: why matches of these were rejected. reasons: why each is not offloaded.
    """

    backend: str = ""
    decisions: list[Decision] = field(default_factory=list)
    left: dict[str, int] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        rows = [
            (str(d.calls), d.pattern, d.shapes, "yes" if d.offloaded else "no", d.reason)
            for d in self.decisions
        ]
        head = ("calls", "pattern", "shapes", "offloaded", "why")
        wide = [max(len(row[k]) for row in (head, *rows)) for k in range(len(head))]
        lines = [f"partition for {self.backend}"]
        for row in (head, *rows):
            lines.append("  ".join(c.ljust(w) for c, w in zip(row, wide, strict=True)).rstrip())
        left = ", ".join(f"{n} {name}" for name, n in sorted(self.left.items()))
        why = [f"  {name}: {reason}" for name, reason in sorted(self.reasons.items())]
        return "\n".join([*lines, f"left to the default: {left or 'nothing'}", *why])


def partition(
    mod: IRModule,
    backend: str | Backend,
    *,
    cost: str | Callable[..., Any] | None = "declared",
    patterns: Sequence[Any] | None = None,
    report: PartitionReport | None = None,
) -> IRModule:
    """The module with the regions of a back end as functions with the attribute `Codegen`.

    patterns: used instead of the back end's own. report: is filled in.
    Raises LoopwrightError for an unknown back end, or one that cannot be used here.
    """
    filled = PartitionReport() if report is None else report
    return _selected(mod, get_backend(backend), cost, patterns, filled, report is not None)


def _selected(
    mod: IRModule,
    chosen: Backend,
    cost: str | Callable[..., Any] | None,
    patterns: Sequence[Any] | None,
    filled: PartitionReport,
    explained: bool,
) -> IRModule:
    """`partition`. explained: whether the report has the part nearest to a match."""
    chosen.check_usable()
    own = patterns is None
    selected = chosen.fusion_patterns() if own else [FusionPattern.of(p) for p in patterns or ()]
    refused: list[tuple[str, str]] = []
    mod = FuseOpsByPattern(selected, chosen.bind_constants, refused=refused)(mod)
    filled.backend = chosen.name
    fused = mod
    mod = _worthwhile(fused, chosen, cost, filled)
    near = nearest_misses(fused, selected) if explained else {}
    for name, count in _operators_left(mod).items():
        filled.left[name] = count
        reasons = dict.fromkeys(reason for op, reason in refused if op == name)
        if reasons:
            filled.refused[name] = "; ".join(reasons)
        unpaid = _unpaid(fused, name, filled)
        filled.reasons[name] = "; ".join([*reasons, *unpaid]) or _no_match(near, name)
    return MergeCompositeFunctions()(mod)


def _no_match(near: dict[str, str], operator: str) -> str:
    return f"{NO_PATTERN}; {near[operator]}" if operator in near else NO_PATTERN


def _unpaid(fused: IRModule, operator: str, report: PartitionReport) -> list[str]:
    """The composites with an operator that were not worth offloading."""
    unpaid = {}
    for decision in report.decisions:
        if not decision.offloaded and decision.function in fused:
            calls = _calls_in(fused[decision.function].body)
            if any(getattr(c.op, "name", "") == operator for c in calls):
                unpaid[f"{decision.pattern} does not pay ({decision.reason})"] = None
    return list(unpaid)


class PartitionFor(ModulePass, repr=False):
    """`partition` as a pass, with a warning where the back end takes nothing.

    unmatched: whether to warn where no pattern matches; `FuseBeforeFolding` has done that.
    """

    backend: Any = ""
    cost: Any = "declared"
    unmatched: bool = True

    def run(self, mod: IRModule, ctx: PassContext) -> IRModule:
        backend, report = get_backend(self.backend), PartitionReport()
        parted = _selected(mod, backend, self.cost, None, report, False)
        if not has_regions(parted, backend):
            unpaid = [f"{d.pattern} does not pay ({d.reason})" for d in report.decisions]
            if unpaid:
                warn_of_nothing(backend, Nearest(0, "; ".join(dict.fromkeys(unpaid))))
            elif self.unmatched:
                patterns = backend.fusion_patterns()
                warn_of_nothing(
                    backend, nearest_miss([mod], patterns, list(report.refused.items()))
                )
        return parted


def _worthwhile(
    mod: IRModule, backend: Backend, cost: str | Callable[..., Any] | None, report: PartitionReport
) -> IRModule:
    """Inline the composites that do not pay."""
    calls = _calls(mod)
    returned: dict[GlobalVar, Function] = {}
    decisions: dict[StructuralKey, tuple[bool, str]] = {}
    for gvar, func in mod.functions.items():
        if not isinstance(func, Function) or COMPOSITE not in func.attrs:
            continue
        name = str(func.attrs[COMPOSITE])
        if name.split(".", 1)[0] != backend.name:
            continue
        key = StructuralKey(func.without_attr("global_symbol"))
        if key not in decisions:
            decisions[key] = _pays(func, backend, cost)
        pays, reason = decisions[key]
        shapes = ", ".join(_shape(p.struct_info) for p in func.params)
        count = calls.get(gvar, 0)
        report.decisions.append(Decision(name, gvar.name_hint, shapes, count, pays, reason))
        trace.note(
            "offload", name, function=gvar.name_hint, calls=count, offloaded=pays, reason=reason
        )
        if not pays:
            returned[gvar] = func
    if not returned:
        return mod
    work = _Inline(mod, returned)
    changed = {
        g: work.function(f)
        for g, f in mod.functions.items()
        if isinstance(f, Function) and g not in returned
    }
    return work.builder.get().with_functions(changed, remove=returned)


def _pays(
    func: Function, backend: Backend, cost: str | Callable[..., Any] | None
) -> tuple[bool, str]:
    if cost is None:
        return True, "all is offloaded"
    if cost == "declared":
        if backend.cost is None:
            return True, "the back end declares no cost"
        with backend.named("cost", str(func.attrs[COMPOSITE]), func):
            answer: Any = backend.cost(func)
        how = "declared"
    elif cost == "measured":
        answer, how = _measured(func, backend), "measured"
    elif callable(cost):
        answer, how = cost(func), "asked"
    else:
        what = "cost must be None, a function or a known name"
        raise ValueError(explain(what, got=repr(cost), instead='"declared" or "measured"'))
    if answer is None:
        return True, f"{how}: no answer"
    if isinstance(answer, bool):
        return answer, how
    if not isinstance(answer, tuple) or len(answer) != 2:
        what = "a cost is a Cost(offloaded, default), a bool or None"
        raise TypeError(explain(what, got=repr(answer)))
    offloaded, default = answer
    return offloaded < default, f"{how}: {offloaded:.3g} against {default:.3g}"


def _measured(func: Function, backend: Backend) -> Cost | None:
    """The cost of a composite function; measured once per process."""
    main = func.without_attr("Primitive").with_attr("global_symbol", "main")
    key = (backend.name, StructuralKey(main))
    cached = _MEASURED.get(key)
    if cached is None or cached[0] is not backend:
        cached = _MEASURED[key] = backend, MEASURE.get()(IRModule({"main": main}), backend)
    return cached[1]


def _calls(mod: IRModule) -> dict[GlobalVar, int]:
    counts: dict[GlobalVar, int] = {}
    for value in _bound_calls(mod):
        if isinstance(value.op, GlobalVar):
            counts[value.op] = counts.get(value.op, 0) + 1
    return counts


def _bound_calls(mod: IRModule) -> list[Call]:
    return [
        call
        for func in mod.functions.values()
        if isinstance(func, Function) and COMPOSITE not in func.attrs and CODEGEN not in func.attrs
        for call in _calls_in(func.body)
    ]


def _calls_in(seq: SeqExpr) -> Iterator[Call]:
    """The calls bound in a function's body, including those in branches."""
    for block in seq.blocks:
        for binding in block.bindings:
            value = binding.value
            if isinstance(value, Call):
                yield value
            elif isinstance(value, If):
                yield from _calls_in(value.true_branch)
                yield from _calls_in(value.false_branch)


def _operators_left(mod: IRModule) -> dict[str, int]:
    counts: dict[str, int] = {}
    for value in _bound_calls(mod):
        name = getattr(value.op, "name", "")
        if name.startswith("relax."):
            counts[name] = counts.get(name, 0) + 1
    return counts


def _shape(info: StructInfo) -> str:
    dims = info.get_shape() if hasattr(info, "get_shape") else None
    if dims is None:
        return str(info)
    return f"({', '.join(str(getattr(d, 'value', d)) for d in dims)})"


class _Inline(GraphRewriter):
    """Inlines calls of composites."""

    def __init__(self, mod: IRModule, functions: dict[GlobalVar, Function]) -> None:
        super().__init__(mod)
        self.functions = functions

    def call(self, call: Call) -> Any:
        func = self.functions.get(call.op) if isinstance(call.op, GlobalVar) else None
        return call if func is None else inlined(self, func, call.args)
