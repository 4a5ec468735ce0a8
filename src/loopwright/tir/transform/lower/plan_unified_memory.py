"""PlanUnifiedMemory: assigns all tensors and the scratch memory of kernels to a few arenas.

The allocations of a lowered graph function and of the kernels that it calls are assigned
offsets in pools (`loopwright.Arena`), so that memory with overlapping live ranges is disjoint. A
kernel gets its scratch memory as parameters. The function gets a pointer to each pool after its
inputs and outputs; its attribute "pools" lists them as [name, bytes, alignment], and
"memory_plan" holds the plan (`tir.memory_plan.plan_of`).

Before (-) and after (+)::

      @I.ir_module
      class Module:
          @T.prim_func
    -     def main(x: T.handle("float32", "global"), out: T.handle("float32", "global")):
    -         T.func_attr({"native_entry": {"params": [["x", "float32", [1024]]], "results": [["out", "float32", [1024]]], "symbols": []}})
    -         y = T.allocate([4096], "uint8", "global")
    -         Module.work(x, y)
    -         z = T.allocate([4096], "uint8", "global")
    -         Module.work(y, z)
    -         Module.work(z, out)
    +     def main(x: T.handle("float32", "global"), out: T.handle("float32", "global"), workspace: T.handle("uint8", "global")):
    +         T.func_attr({"memory_plan": {"algorithm": "best", "bound": 16384, "entries": [["y", "tensor", 4096, "workspace", 8192, 0, 5, ""], ["work.room", "scratch", 8192, "workspace", 0, 1, 1, ""], ["z", "tensor", 4096, "workspace", 12288, 3, 8, ""], ["work.room#2", "scratch", 8192, "workspace", 0, 4, 4, ""], ["work.room#3", "scratch", 8192, "workspace", 0, 7, 7, ""]], "function": "main", "left": [], "pools": [["workspace", 16384, 64, -1]], "steps": ["work", "work", "work", "work", "work", "work", "work", "work", "work"]}, "native_entry": {"params": [["x", "float32", [1024]]], "results": [["out", "float32", [1024]]], "symbols": []}, "pools": [["workspace", 16384, 64]]})
    +         y: T.handle("uint8", "global") = T.handle_add_byte_offset(workspace, T.int64(8192))
    +         Module.work(x, y, T.handle_add_byte_offset(workspace, T.int64(0)))
    +         z: T.handle("uint8", "global") = T.handle_add_byte_offset(workspace, T.int64(12288))
    +         Module.work(y, z, T.handle_add_byte_offset(workspace, T.int64(0)))
    +         Module.work(z, out, T.handle_add_byte_offset(workspace, T.int64(0)))

          @T.prim_func(private=True)
    -     def work(x: T.handle("float32", "global"), y: T.handle("float32", "global")):
    -         room = T.allocate([2048], "float32", "global")
    +     def work(x: T.handle("float32", "global"), y: T.handle("float32", "global"), room: T.handle("float32", "global")):
              T.call_extern("int32", "lib_work", x, y, room)

A kernel overwrites an input that is dead after the call if that is safe
(`tir.analysis.in_place`, or the kernel's attribute "may_alias": [["out", "in"]] for an external
function); its attribute "alignment" applies to the memory passed to it. Memory of dynamic size,
memory in a parallel loop, and small scratch memory of a kernel remain allocations.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ....base.errors import LoopwrightError, explain
from ....base.names import free_name
from ....ir import trace
from ....ir.expr import GlobalVar
from ....ir.functor import nodes_of
from ....ir.prim_expr import Call, PrimExpr, Var
from ....ir.prim_op import const
from ....ir.transform import IRModule, ModulePass, PassContext
from ....runtime.arena import Arena, as_arenas, format_bytes
from ....runtime.signature import few
from ... import stmt as st
from ...analysis.in_place import can_overwrite, declared
from ...analysis.liveness import (
    OPEN_SIZE,
    Allocations,
    called_function,
    is_separate,
    limits_of,
    liveness,
    parts_of,
)
from ...buffer import MOST_ALIGNMENT
from ...byte_size import within
from ...function import PrimFunc
from ...memory_plan import (
    Entry,
    Item,
    MemoryPlan,
    Placement,
    PlannedPool,
    Pool,
    Problem,
    lower_bound,
    place,
)
from ...memory_plan.plan import ATTRIBUTE
from ...signature import NATIVE_ENTRY, signature_of
from ...stmt_functor import ExprKeeper, renew_defs
from ..base import StmtRewriter

POOLS = "pools"
STACK_BYTES = 4096  # of a kernel's array: a page


class PlanUnifiedMemory(ModulePass):
    """Assigns all tensors and the scratch memory of kernels to a few arenas. Runs on a lowered
    module.

    arenas: in order of preference; by default one "workspace" without a limit.
    algorithm: "greedy_by_size", "greedy_by_conflicts", "hill_climb", or "best" of them.
    in_place: results may be written over inputs.
    stack_bytes: scratch memory of kernels up to this size stays on the stack.
    pools: "parameters", or "allocate": the function itself makes one allocation for each pool.
    constants are not moved unless an arena takes the kind "constant"; the attribute
        "pool_constants" then lists the [pool, offset, data] that the caller writes there once.

    Raises LoopwrightError if the tensors do not fit the arenas, naming those that do not.
    """

    name = "tir.PlanUnifiedMemory"
    arenas: Any = None
    algorithm: str = "best"
    in_place: bool = True
    stack_bytes: int = STACK_BYTES
    pools: str = "parameters"

    def run(self, mod: IRModule, ctx: PassContext) -> IRModule:
        arenas = as_arenas(self.arenas)
        if self.pools not in ("parameters", "allocate"):
            what, hint = "unknown way to get the pools", '"parameters" or "allocate"'
            raise ValueError(explain(what, got=self.pools, instead=hint))
        for arena in arenas:
            self._check(arena)
        for gvar in entries(mod):
            if mod[gvar].attrs.get(ATTRIBUTE) is None:
                mod = _Planner(self, mod, gvar, arenas).run()
        return mod

    def _check(self, arena: Arena) -> None:
        self.check_alignment(arena.name, arena.alignment)
        if self.pools == "allocate" and "constant" in arena.kinds:
            what = f"arena {arena.name} takes constants, and is allocated at run time"
            hint = 'use pools="parameters", or kinds=("tensor", "scratch")'
            raise LoopwrightError(explain(what, instead=hint))

    def check_alignment(self, pool: str, alignment: int) -> None:
        """Reject an alignment that an allocation at run time cannot have."""
        if self.pools == "allocate" and alignment > MOST_ALIGNMENT:
            what = (
                f"arena {pool} is allocated at run time, aligned to {MOST_ALIGNMENT} bytes at most"
            )
            hint = 'use pools="parameters" and give memory of your own'
            raise LoopwrightError(explain(what, got=alignment, instead=hint))


def entries(mod: IRModule) -> list[GlobalVar]:
    """The native graph functions of a module; without any its `main`, or its only function."""
    functions = [g for g, f in mod.functions.items() if isinstance(f, PrimFunc)]
    native = [g for g in functions if NATIVE_ENTRY in mod[g].attrs]
    if native:
        return native
    named = [g for g in functions if g.name_hint == "main"]
    return named or (functions if len(functions) == 1 else [])


class _Planner:
    """Plans one function and rewrites it and its callees."""

    def __init__(
        self, options: PlanUnifiedMemory, mod: IRModule, gvar: GlobalVar, arenas: tuple[Arena, ...]
    ) -> None:
        self.options, self.mod, self.gvar, self.arenas = options, mod, gvar, arenas
        self.planned = Allocations(mod, options.stack_bytes, gvar)
        self.live = liveness(mod, gvar, self.planned)
        self.takes_constants = any("constant" in a.kinds for a in arenas)
        constants = self.live.constants if self.takes_constants else []
        self.ranges = [*self.live.ranges, *constants]
        self.number = {r: k for k, r in enumerate(self.ranges)}
        self.safe: dict[tuple[GlobalVar, int, int], bool] = {}

    def run(self) -> IRModule:
        """The module with this function planned."""
        self.check_limits()
        problem = self.problem()
        placement = place(problem, self.options.algorithm)
        if not placement.fits:
            raise LoopwrightError(self.too_small(problem, placement))
        plan = self.plan(problem, placement)
        _note(plan)
        return _Rewriting(self, plan, placement).module()

    # -- the problem -----------------------------------------------------------------------------

    def problem(self) -> Problem:
        """Sizes, live ranges and pools of all memory, and the pairs that may overlap."""
        pools = tuple(Pool(a.name, _limit(a), a.alignment) for a in self.arenas)
        items = []
        for r in self.ranges:
            own = tuple(k for k, a in enumerate(self.arenas) if a.takes(r.kind, r.name))
            if not own:
                what = f"no arena takes {r.name} of {self.gvar.name_hint}"
                kinds = ", ".join(f"{a.name} ({', '.join(a.kinds)})" for a in self.arenas)
                got = f"{r.kind}, {r.size} bytes; arenas: {kinds}"
                hint = 'add a last one that takes all: Arena("rest")'
                raise LoopwrightError(explain(what, got=got, instead=hint))
            items.append(Item(r.name, r.size, r.first, r.last, r.alignment, own))
        shared = frozenset(self.in_place()) if self.options.in_place else frozenset()
        return Problem(tuple(items), pools, shared)

    def check_limits(self) -> None:
        """Raise LoopwrightError where memory of unbounded size, which is outside the arenas, may be in those
        with limits only: these would say nothing."""
        unbounded = [n for n, why in self.live.left.items() if why.startswith(OPEN_SIZE)]
        if unbounded and all(a.limit is not None for a in self.arenas):
            names = ", ".join(a.name for a in self.arenas)
            what = f"the limit of arena {names} cannot be checked for {self.gvar.name_hint}"
            got = f"{len(unbounded)} tensors whose size is known only at run time: {few(unbounded)}"
            hint = 'numbers or bounds for symbolic sizes ("tir_var_upper_bound", --dims "n<=8")'
            raise LoopwrightError(explain(what, got=got, instead=f'{hint}, or also Arena("rest")'))

    def in_place(self) -> Iterator[tuple[int, int]]:
        """Pairs (dying, starting) of memory in calls where one may overwrite the other."""
        for call in self.live.calls:
            func = self.mod[call.callee]
            allowed = set(declared(func))
            for j, new in enumerate(call.args):
                if new is None or new.first != call.begin or call.args.count(new) > 1:
                    continue
                if new in call.loose:
                    continue
                for old in dict.fromkeys(call.args):
                    if old is None or old is new or old.last != call.end or old in call.loose:
                        continue
                    where = [i for i, r in enumerate(call.args) if r is old]
                    if all((j, i) in allowed or self.may(call.callee, i, j) for i in where):
                        yield self.number[old], self.number[new]

    def may(self, callee: GlobalVar, read: int, written: int) -> bool:
        """Whether a kernel may write one parameter over another."""
        key = (callee, read, written)
        if key not in self.safe:
            func = self.mod[callee]
            self.safe[key] = can_overwrite(func, func.params[read], func.params[written])
        return self.safe[key]

    # -- the plan --------------------------------------------------------------------------------

    def plan(self, problem: Problem, placement: Placement) -> MemoryPlan:
        """The placement as a plan."""
        planned = []
        over = self.written_over(problem, placement)
        for k, r in enumerate(self.ranges):
            pool, offset = placement.places[k] or (0, 0)
            name = self.arenas[pool].name
            planned.append(Entry(r.name, r.kind, r.size, name, offset, r.first, r.last, over[k]))
        needs = [a.alignment for a in self.arenas]
        for k, placed in enumerate(placement.places):
            if placed is not None:
                needs[placed[0]] = max(needs[placed[0]], self.ranges[k].alignment)
        pools = [
            PlannedPool(a.name, size, align, -1 if a.limit is None else int(a.limit))
            for a, size, align in zip(self.arenas, placement.bytes, needs, strict=True)
            if size
        ]
        for p in pools:
            self.options.check_alignment(p.name, p.alignment)
        working = len(self.live.ranges)
        bound = lower_bound(
            problem.items[:working], [p for p in problem.shared if max(p) < working]
        )
        left = tuple(self.live.left.items())
        return MemoryPlan(
            self.gvar.name_hint,
            self.options.algorithm,
            tuple(pools),
            tuple(planned),
            tuple(self.live.labels),
            bound,
            left,
        )

    @staticmethod
    def written_over(problem: Problem, placement: Placement) -> list[str]:
        """The name of the item that each item overwrites, or ""."""
        over = [""] * len(problem.items)
        for old, new in sorted(problem.shared):
            if placement.places[old] == placement.places[new]:
                over[new] = problem.items[old].name
        return over

    # -- errors ------------------------------------------------------------------------------------

    def too_small(self, problem: Problem, placement: Placement) -> str:
        """The error if an arena is too small: the live memory at the worst time, and the size that
        would suffice."""
        homeless = [i for i, p in zip(problem.items, placement.places, strict=True) if p is None]
        pools = sorted({p for i in homeless for p in i.pools})
        limits = ", ".join(f"{self.arenas[p].name} ({_shown(self.arenas[p])})" for p in pools)
        rivals = [k for k, i in enumerate(problem.items) if set(i.pools) & set(pools)]
        times = sorted({problem.items[k].first for k in rivals})
        alive = [self.alive(problem, rivals, t) for t in times]
        sizes = [sum(size for size, _ in living) for living in alive]
        worst = max(range(len(times)), key=lambda n: (sizes[n], -n))
        total, time = sizes[worst], times[worst]
        room = sum(_limit(self.arenas[p]) or 0 for p in pools)
        what = f"the memory of {self.gvar.name_hint} does not fit arena {limits}"
        lines = [text for _, text in sorted(alive[worst], key=lambda e: (-e[0], e[1]))]
        listed = "".join(f"\n    {line}" for line in lines[:12])
        if len(lines) > 12:
            listed += f"\n    and {len(lines) - 12} more"
        got = (
            f"{total} bytes live at once in {self.live.labels[time]} (step {time}), "
            f"{room} are there:{listed}"
        )
        names = ", ".join(i.name for i in sorted(homeless, key=lambda i: -i.size)[:6])
        last = self.arenas[pools[-1]]
        enough = self.unlimited(problem, pools[-1])
        hint = f'give {last.name} {enough} bytes, or add an arena that takes {names}: Arena("more")'
        return explain(what, got=got, instead=hint)

    def alive(self, problem: Problem, rivals: list[int], time: int) -> list[tuple[int, str]]:
        """The live items at a time: the bytes that each adds beyond those it overwrites, and a
        text."""
        listed = []
        items = problem.items
        living = [k for k in rivals if items[k].first <= time <= items[k].last]
        for k in living:
            below = [a for a, b in problem.shared if b == k and a in living]
            over = max(below, key=lambda a: items[a].size, default=None)
            size, steps = items[k].size, self.live.labels
            first, last = steps[items[k].first], steps[items[k].last]
            text = f"{items[k].name}: {size} bytes, {first} .. {last}"
            if over is not None:
                size -= min(size, items[over].size)
                text += f", over {items[over].name}"
            listed.append((size, text))
        return listed

    def unlimited(self, problem: Problem, pool: int) -> int:
        """The size of a pool without a limit, the other pools unchanged."""
        pools = list(problem.pools)
        pools[pool] = Pool(pools[pool].name, None, pools[pool].alignment)
        larger = Problem(problem.items, tuple(pools), problem.shared)
        return place(larger, self.options.algorithm).bytes[pool]


def _limit(arena: Arena) -> int | None:
    return None if arena.limit is None else int(arena.limit)


def _shown(arena: Arena) -> str:
    return "no limit" if arena.limit is None else format_bytes(int(arena.limit))


def _note(plan: MemoryPlan) -> None:
    trace.note(
        "memory plan",
        plan.function,
        tensors=len(plan.entries),
        storages=len(plan.pools),
        bytes=[p.bytes for p in plan.pools],
        bound=plan.bound,
    )


class _Rewriting:
    """Writes a placement into the functions."""

    def __init__(self, planner: _Planner, plan: MemoryPlan, placement: Placement) -> None:
        self.mod, self.gvar = planner.mod, planner.gvar
        self.planner, self.plan = planner, plan
        self.slots = placement.places
        self.planned = planner.planned
        self.pointers = {
            p.name: Var(p.name, "handle", type_annotation=("uint8", "global")) for p in plan.pools
        }
        self.kernels: dict[GlobalVar, tuple[GlobalVar, PrimFunc, tuple[Var, ...]]] = {}
        self.names = {g.name_hint for g in self.mod.functions}
        self.aliased = self.overlapping()
        self.needed = _needed(self.mod, self.gvar, self.planned)

    def module(self) -> IRModule:
        """The module with the function and its kernels rewritten."""
        main = self.function()
        changed: dict[GlobalVar, Any] = {self.gvar: main}
        changed |= {new: func for new, func, _ in self.kernels.values()}
        return self.mod.with_functions(changed)

    def function(self) -> PrimFunc:
        """The planned function."""
        func = self.mod[self.gvar]
        body = _Main(self, func).visit(func.body)
        if NATIVE_ENTRY not in func.attrs:  # of a graph function it is checked already
            body = within(self.gvar.name_hint, limits_of(func), body)
        attrs: dict[str, Any] = {ATTRIBUTE: self.plan.as_attr()}
        if self.planner.options.pools == "allocate":
            true = const(True, "bool")
            for p in reversed(self.plan.pools):
                size, notes = (const(p.bytes, "int64"),), {st.Allocate.ALIGNED: p.alignment}
                body = st.Allocate(self.pointers[p.name], "uint8", size, true, body, notes)
            return func.replace(body=body).with_attrs(attrs)
        attrs[POOLS] = [[p.name, p.bytes, p.alignment] for p in self.plan.pools]
        constants = [
            [e.pool, e.offset, r.data]
            for e, r in zip(self.plan.entries, self.planner.ranges, strict=True)
            if r.data is not None
        ]
        if constants:
            attrs["pool_constants"] = constants
        at = _arguments(func)
        params = (*func.params[:at], *self.pointers.values(), *func.params[at:])
        return func.replace(params=params, body=body).with_attrs(attrs)

    def address(self, k: int) -> PrimExpr:
        """The pointer to item number k."""
        pool, offset = self.slots[k] or (0, 0)
        name = self.planner.arenas[pool].name
        if name not in self.pointers:  # of no bytes, as everything in its pool
            name = next(iter(self.pointers))
        return Call(
            "handle", "tir.handle_add_byte_offset", [self.pointers[name], const(offset, "int64")]
        )

    # -- kernels -----------------------------------------------------------------------------------

    def kernel(self, gvar: GlobalVar) -> tuple[GlobalVar, tuple[Var, ...]]:
        """The replacement of a called function: a version with its memory as parameters, and these.
        A function that is also called elsewhere keeps its original form."""
        if gvar not in self.kernels:
            func = self.mod[gvar]
            inside = _Kernel(self, func)
            body = inside.visit(func.body) if self.planned.has(gvar) else func.body
            kernel = func.replace(params=(*func.params, *inside.params), body=body)
            if gvar in self.aliased and func.attrs.get("tir.noalias"):
                kernel = kernel.with_attr("tir.noalias", False)
            new = gvar
            if inside.params and gvar in self.needed:
                new = GlobalVar(self.fresh(f"{gvar.name_hint}_planned"))
                kernel = renew_defs(kernel.without_attr("global_symbol"))
            self.kernels[gvar] = (new, kernel, tuple(inside.params))
        new, _, params = self.kernels[gvar]
        return new, params

    def fresh(self, name: str) -> str:
        unique = free_name(name, self.names, join="")
        self.names.add(unique)
        return unique

    def overlapping(self) -> set[GlobalVar]:
        """Functions that are passed overlapping memory: they must not be marked noalias."""
        aliased: set[GlobalVar] = set()
        number = self.planner.number
        for call in self.planner.live.calls:
            memory = [r for r in dict.fromkeys((*call.args, *call.scratch)) if r is not None]
            spans = sorted(
                (*position, position[1] + r.size)
                for r in memory
                if (position := self.slots[number[r]]) is not None and r.size
            )
            if any(a[0] == b[0] and b[1] < a[2] for a, b in _pairs(spans)):
                aliased.add(call.callee)
        return aliased


def _pairs(spans: list[Any]) -> Iterator[tuple[Any, Any]]:
    for k, a in enumerate(spans):
        for b in spans[k + 1 :]:
            yield a, b


def _needed(mod: IRModule, main: GlobalVar, planned: Allocations) -> set[GlobalVar]:
    """Functions that must keep their form: called from outside, by functions that are not planned,
    or where their memory cannot be passed to them."""
    replaced: set[GlobalVar] = set()
    apart: set[GlobalVar] = set()
    todo = [main]
    while todo:
        entered, other = _calls(mod[todo.pop()], planned)
        apart |= other
        todo += entered - replaced
        replaced |= entered
    needed = {g for g in replaced if "global_symbol" in mod[g].attrs} | apart
    for g, func in mod.functions.items():
        if g not in replaced and g is not main:
            needed.update(nodes_of(func, GlobalVar))
    todo = list(needed & replaced)
    while todo:
        more = set(nodes_of(mod[todo.pop()], GlobalVar)) - needed
        needed |= more
        todo += more
    return needed


def _calls(func: PrimFunc, planned: Allocations) -> tuple[set[GlobalVar], set[GlobalVar]]:
    """The callees that are passed their memory, and those that are called unchanged."""
    entered: set[GlobalVar] = set()
    apart: set[GlobalVar] = set()

    def walk(node: st.Stmt, separate: bool) -> None:
        callee = planned.entered(node, separate)
        if callee is not None:
            entered.add(callee)
            return
        parts = parts_of(node)
        if not isinstance(node, st.SeqStmt):
            for value in node.field_values():
                if not any(value is p for p in parts):
                    apart.update(nodes_of(value, GlobalVar))
        inside = separate or is_separate(node)
        for part in parts:
            walk(part, inside)

    walk(func.body, False)
    return entered, apart


def _arguments(func: PrimFunc) -> int:
    """The number of inputs and outputs; extents follow them."""
    entry = signature_of(func)
    return len(func.params) if entry is None else len(entry.params) + len(entry.results)


class _Inside(ExprKeeper, StmtRewriter):
    """Visits a function in the same order as the analysis."""

    def __init__(self, rewriting: _Rewriting, func: PrimFunc) -> None:
        self.rewriting, self.func = rewriting, func
        self.separate = False

    def visit_For(self, node: st.For) -> Any:
        before = self.separate
        self.separate = before or is_separate(node)
        loop = self.visit_default(node)
        self.separate = before
        return loop

    def stays(self, node: st.Allocate) -> bool:
        """Whether an allocation is kept."""
        called = self.func is not self.rewriting.mod[self.rewriting.gvar]
        return self.rewriting.planned.stays(node, self.func, called, self.separate) is not None

    def visit_Allocate(self, node: st.Allocate) -> Any:
        return self.visit_default(node) if self.stays(node) else self.planned(node)

    def visit_Evaluate(self, node: st.Evaluate) -> Any:
        callee = called_function(node, self.rewriting.mod)
        if callee is None or self.separate:
            return node
        if (
            self.rewriting.planned.entered(node, False) is None
            and callee not in self.rewriting.aliased
        ):
            return node
        op, params = self.rewriting.kernel(callee)
        if op is callee and not params:
            return node
        args = (*node.value.args, *self.memory_args(params))
        return node.replace(value=node.value.replace(op=op, args=args))

    def planned(self, node: st.Allocate) -> Any:
        """The replacement of a placed allocation."""
        raise NotImplementedError

    def memory_args(self, params: tuple[Var, ...]) -> list[Any]:
        """The memory arguments of a call."""
        raise NotImplementedError


class _Main(_Inside):
    """The planned function: memory is at offsets of the pools."""

    def __init__(self, rewriting: _Rewriting, func: PrimFunc) -> None:
        super().__init__(rewriting, func)
        self.next = 0
        self.constants = {
            r.var: k for r, k in rewriting.planner.number.items() if r.data is not None
        }

    def address(self) -> PrimExpr:
        """The address of the next memory in the order of the analysis."""
        self.next += 1
        return self.rewriting.address(self.next - 1)

    def planned(self, node: st.Allocate) -> Any:
        value = self.address()
        return st.LetStmt(node.buffer_var, value, self.visit(node.body), span=node.span)

    def memory_args(self, params: tuple[Var, ...]) -> list[Any]:
        return [self.address() for _ in params]

    def visit_AllocateConst(self, node: st.AllocateConst) -> Any:
        number = self.constants.get(node.buffer_var)
        body = self.visit(node.body)
        if number is None:
            return node.replace(body=body)
        return st.LetStmt(node.buffer_var, self.rewriting.address(number), body, span=node.span)


class _Kernel(_Inside):
    """A called function: its own memory and that of its callees become parameters."""

    def __init__(self, rewriting: _Rewriting, func: PrimFunc) -> None:
        super().__init__(rewriting, func)
        self.params: list[Var] = []

    def planned(self, node: st.Allocate) -> Any:
        self.params.append(node.buffer_var)
        return self.visit(node.body)

    def memory_args(self, params: tuple[Var, ...]) -> list[Any]:
        more = [Var(p.name, p.dtype, type_annotation=p.type_annotation) for p in params]
        self.params += more
        return list(more)
