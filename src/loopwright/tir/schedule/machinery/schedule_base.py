"""`Schedule`: a program with the steps that change how it runs, never what it computes."""

from __future__ import annotations

import html
import random
from collections.abc import Callable, Sequence
from typing import Any, Self

from ....base.errors import explain
from ....ir.expr import GlobalVar
from ....ir.module import IRModule
from ....ir.prim_expr import IntImm, PrimExpr, Var
from ....ir.prim_op import const
from ....ir.variables import vars_in
from ...function import PrimFunc
from ...stmt import Block, For
from .arguments import checked
from .errors import NoSuchVariable, NoWorkingFunction, ScheduleError
from .instruction import Instruction, InstructionKind
from .random_variables import BlockRV, ExprRV, LoopRV, _Reference
from .refs import Ref
from .rewriting import substitute
from .state import Handle, ScheduleState
from .trace import Trace, outputs_of


class ScheduleBase:
    """The basis of the primitives: the state, random variables, and the trace."""

    @checked
    def __init__(
        self,
        mod: IRModule | PrimFunc,
        *,
        seed: int | None = None,
        debug_mask: str | int = "none",
        error_render_level: str = "detail",
        enable_check: bool = True,
    ) -> None:
        if isinstance(mod, PrimFunc):
            mod = IRModule({"main": mod})
        if error_render_level not in ("detail", "fast", "none"):
            what = 'error_render_level is "detail", "fast" or "none"'
            raise ValueError(f"{what}\n  got: {error_render_level!r}")
        if isinstance(debug_mask, str) and debug_mask not in ("all", "none"):
            raise ValueError(explain('debug_mask is "all", "none" or an int', got=repr(debug_mask)))
        self.state = ScheduleState(mod, debug_mask=debug_mask, enable_check=enable_check)
        self.trace = Trace()
        self.error_render_level = error_render_level
        self.func_working_on: GlobalVar | None = None
        self._symbols: dict[Any, Any] = {}
        self.random = random.Random(seed if seed is None or seed >= 0 else None)
        self._decision: Any = None
        self._record_as: dict[str, Any] = {}
        self._next: Callable[[], Any] | None = None
        functions = [g for g, f in mod.functions.items() if isinstance(f, PrimFunc)]
        if len(functions) == 1:
            self.func_working_on = functions[0]
        elif "main" in mod and isinstance(mod["main"], PrimFunc):
            self.func_working_on = mod.get_global_var("main")

    # ------------------------------------------------------------------ the program

    @property
    def mod(self) -> IRModule:
        """The program as it is now."""
        return self.state.mod

    @property
    def func(self) -> PrimFunc:
        """The current function, as it is now."""
        return self.state.func(self.working_function())

    @property
    def enable_check(self) -> bool:
        """Whether each step is checked to keep the program's meaning."""
        return self.state.enable_check

    def working_function(self) -> GlobalVar:
        if self.func_working_on is None:
            names = ", ".join(g.name_hint for g in self.state._mod.functions)
            what = "the schedule does not know which function to be working on"
            raise NoWorkingFunction(what, got=names, instead="sch.work_on(name), or func_name=")
        return self.func_working_on

    @checked
    def work_on(self, func_name: str) -> None:
        """Make `func_name` the current function: the one in which blocks are looked up."""
        gvar = GlobalVar(func_name)
        if not isinstance(self.state._mod.functions.get(gvar), PrimFunc):
            names = ", ".join(g.name_hint for g in self.state._mod.functions)
            raise ScheduleError("no such PrimFunc", got=func_name, instead=f"one of {names}")
        self.func_working_on = self.state._mod.get_global_var(func_name)

    def show(self, *args: Any, **kwargs: dict[str, Any]) -> None:
        """Print the program, and the trace."""
        self.mod.show(*args, **kwargs)
        if self.trace.insts:
            self.trace.show()

    def _repr_html_(self) -> str:
        """The program as it is now, and the steps that made it, in a notebook."""
        steps = html.escape(str(self.trace))
        opened = (
            f"<details><summary>{len(self.trace.insts)} steps</summary><pre>{steps}</pre></details>"
        )
        return f"{self.mod._repr_html_()}{opened if self.trace.insts else ''}"

    def copy(self) -> Self:
        """An independent schedule that continues from here; random variables are valid in both."""
        other = type(self).__new__(type(self))
        other.state = self.state.copy()
        other.trace = self.trace.copy()
        other.error_render_level = self.error_render_level
        other.func_working_on = self.func_working_on
        other._decision, other._record_as, other._next = None, {}, None
        other.random = random.Random(self.random.getrandbits(63))
        other._symbols = {}
        for rv, value in self._symbols.items():
            if isinstance(value, Handle):
                removed = Handle(value.func, None)
                value = other.state.handles.get(value.block, removed) if value.block else removed
            other._symbols[rv] = value
        return other

    # ------------------------------------------------------------------ randomness

    @checked
    def seed(self, seed: int) -> None:
        """Restart the random numbers."""
        self.random = random.Random(seed)

    def fork_seed(self) -> int:
        """A seed for another schedule."""
        return self.random.getrandbits(31)

    # ------------------------------------------------------------------ random variables

    def get(self, rand_var_or_sref: Any) -> Any:
        """The object that a random variable refers to: a Block, a For, or a number."""
        if isinstance(rand_var_or_sref, Ref):
            return rand_var_or_sref.stmt
        if isinstance(rand_var_or_sref, PrimExpr):
            return self.value(rand_var_or_sref)
        return self.get_sref(rand_var_or_sref).stmt

    def get_sref(self, rand_var_or_stmt: object) -> Ref:
        """The loop or block at its place: `.stmt`, `.parent`, `.children`."""
        if isinstance(rand_var_or_stmt, Ref):
            return rand_var_or_stmt
        if isinstance(rand_var_or_stmt, (Block, For)):
            return self.state.get_sref(rand_var_or_stmt)
        is_ref = isinstance(rand_var_or_stmt, (BlockRV, LoopRV))
        target = self._symbols.get(rand_var_or_stmt) if is_ref else None
        if isinstance(target, Handle):
            ref = None
            if target.block is not None:
                ref = self.state.index(target.func).blocks.get(target.block)
            if ref is None:
                what = "the program does not contain this block any more"
                raise ScheduleError(
                    what, instead="get it again by name, or use what took its place"
                )
            return ref
        if isinstance(target, tuple):
            ref = self.state.index(target[0]).loops.get(target[1])
            if ref is None:
                what = f"the program does not contain loop {target[1].name!r} any more"
                raise ScheduleError(what, instead="use the loops that the last step gave")
            return ref
        what = "not a block or loop of this schedule"
        got = f"{rand_var_or_stmt!r} of type {type(rand_var_or_stmt).__name__}"
        raise NoSuchVariable(what, got=got, instead="what sch.get_block or sch.get_loops gave")

    def loop(self, rv: Any) -> Ref:
        """The ref of a loop. Raises ScheduleError for a block."""
        ref = self.get_sref(rv)
        if ref.is_block:
            what, hint = "this step is for loops", "one of sch.get_loops(block)"
            raise ScheduleError(what, got="a block", instead=hint, at=ref.node)
        return ref

    def block(self, rv: Any) -> Ref:
        """The ref of a block. Raises ScheduleError for a loop."""
        ref = self.get_sref(rv)
        if not ref.is_block:
            what, hint = "this step is for blocks", "what sch.get_block(name) gave"
            raise ScheduleError(what, got="a loop", instead=hint, at=ref.node)
        return ref

    def value(self, expr: Any) -> Any:
        """The value of an expression of sampled numbers; with other variables, the expression."""
        numbers = {v: const(self._symbols[v], v.dtype) for v in vars_in(expr) if v in self._symbols}
        result = substitute(expr, numbers)
        return result.value if isinstance(result, IntImm) else result

    def remove_rv(self, rand_var: Any) -> None:
        """Forget a random variable."""
        self._symbols.pop(rand_var, None)

    def new_loop(self, func: GlobalVar, var: Var) -> LoopRV:
        """A random variable for a loop."""
        rv = LoopRV()
        self._symbols[rv] = (func, var)
        return rv

    def new_block(self, func: GlobalVar, block: Block) -> BlockRV:
        """A random variable for a block of the current program."""
        rv = BlockRV()
        handle = self.state.handles.get(block)
        if handle is None:
            handle = self.state.handles[block] = Handle(func, block)
        self._symbols[rv] = handle
        return rv

    def new_mark(self, mark: str) -> LoopRV:
        """A random variable for a sampled place that is not a loop: ROOT or INLINE."""
        rv = LoopRV()
        self._symbols[rv] = mark
        return rv

    def mark(self, rv: Any) -> str | None:
        """ROOT or INLINE if a random variable refers to one of these, not to a loop."""
        target = self._symbols.get(rv)
        return target if isinstance(target, str) else None

    def new_number(self, value: int, name: str = "v") -> Var:
        """A random variable for a sampled number."""
        rv = ExprRV(name, "int32")
        self._symbols[rv] = value
        return rv

    # ------------------------------------------------------------------ the trace

    def run_instruction(
        self, kind: InstructionKind, inputs: Sequence[Any], attrs: Sequence[Any], decision: Any
    ) -> list[Any]:
        """Run one instruction of a trace; returns the list of its outputs."""
        fixed = [name for name in kind.inputs if name[0] != "*"]
        starred = len(fixed) < len(kind.inputs)
        good = len(inputs) >= len(fixed) if starred else len(inputs) == len(fixed)
        left_out = kind.attrs[len(attrs) :]
        if not good or len(attrs) > len(kind.attrs) or not kind.defaults.keys() >= {*left_out}:
            what, got = (
                f"step {kind.name} takes other parts",
                f"inputs {inputs}, attributes {attrs}",
            )
            hint = f"inputs ({', '.join(kind.inputs)}), attributes ({', '.join(kind.attrs)})"
            raise ScheduleError(what, got=got, instead=hint)
        values: dict[str, Any] = {}
        rest = list(inputs)
        for name in kind.inputs:
            if name.startswith("*"):
                values[name[1:]] = rest
                rest = []
            else:
                values[name] = rest.pop(0)
        values.update(zip(kind.attrs, attrs, strict=False))
        if "decision" in kind.params:
            values["decision"] = decision
        method = getattr(self, kind.fn.__name__)
        rest = [] if kind.varargs is None else values.pop(kind.varargs)
        return outputs_of(method(*rest, **values))

    def block_named(self, name: str) -> BlockRV:
        """The block called `name`, as `get_block` returns it."""
        return self.run_instruction(InstructionKind.get("GetBlock"), [], [name], None)[0]

    def start_step(self) -> None:
        """Forget what belongs to an earlier primitive.

        The expressions that an analyzer builds depend on what it has seen: each step starts with a
        fresh one, so that a trace has the same text wherever it is replayed.
        """
        self._decision, self._record_as, self._next = None, {}, None
        self.state.forget_ranges()
        self.state.begin()

    def record_decision(self, decision: int | Sequence[int]) -> None:
        """Record the running primitive's decision in the trace."""
        self._decision = decision

    def record_as(self, **attrs: Any) -> None:
        """Record these in the trace instead of the arguments of the running primitive."""
        self._record_as = attrs

    def go_on_with(self, step: Callable[[], Any]) -> None:
        """Run another step, recorded as such, once the running primitive is recorded."""
        self._next = step

    def take_next(self) -> Callable[[], Any]:
        """The function that the just recorded primitive wants to be run next."""
        step, self._next = self._next, None
        return step or (lambda: None)

    def record(
        self,
        kind: InstructionKind,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        result: PrimExpr | _Reference | Sequence[LoopRV] | None,
    ) -> None:
        """Add a step to the trace."""
        values = {**kind.arguments(args, kwargs), **self._record_as}
        inputs: list[Any] = []
        for name in kind.inputs:
            if name[0] == "*":
                inputs += values[name[1:]] or ()
            else:
                inputs.append(values[name])
        attrs = [values[name] for name in kind.attrs]
        self.trace.append(Instruction(kind, inputs, attrs, outputs_of(result)), self._decision)

    def func_of(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The function that the arguments refer to, for an error's text."""
        for value in (*args, *kwargs.values()):
            target = self._symbols.get(value) if isinstance(value, (BlockRV, LoopRV)) else None
            if isinstance(target, Handle):
                return self.state.func(target.func)
            if isinstance(target, tuple):
                return self.state.func(target[0])
        working = self.func_working_on
        return None if working is None else self.state.func(working)
