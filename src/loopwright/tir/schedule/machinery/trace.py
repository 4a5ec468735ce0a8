"""The trace of a schedule: its steps, as Python text and JSON, to be replayed."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from ....base.names import Served
from ....ir.node import Node
from ....ir.prim_expr import FloatImm, IntImm, PrimExpr, StringImm, Var
from ....ir.serialize import load_json, save_json
from ....ir.variables import vars_in
from .errors import ScheduleError
from .instruction import Instruction, InstructionKind
from .instruction_text import Names, is_rv, python_line
from .random_variables import BlockRV, LoopRV, _Reference
from .rewriting import substitute


class Replays(Protocol):
    """The object that instructions run on: a schedule."""

    def run_instruction(
        self, kind: InstructionKind, inputs: Sequence[Any], attrs: Sequence[Any], decision: Any
    ) -> list[Any]:
        """Run one instruction; returns the list of its outputs."""
        ...


class Trace:
    """Instructions in order, and the decisions of those that sample."""

    def __init__(
        self,
        insts: list[Instruction] | None = None,
        decisions: dict[Instruction, Any] | None = None,
    ) -> None:
        self.insts = list(insts or [])
        self.decisions = dict(decisions or {})

    def get_decision(self, inst: Instruction) -> Any:
        """The recorded decision, or None."""
        return self.decisions.get(inst)

    def append(self, inst: Instruction, decision: int | None = None) -> None:
        """Add an instruction."""
        self.insts.append(inst)
        if decision is not None:
            self.decisions[inst] = decision

    def pop(self) -> Instruction | None:
        """Take the last instruction off (None if it is EnterPostproc, or the trace is empty)."""
        if not self.insts or self.insts[-1].kind.name == "EnterPostproc":
            return None
        inst = self.insts.pop()
        self.decisions.pop(inst, None)
        return inst

    def copy(self) -> Trace:
        """The same instructions in a trace of its own."""
        return Trace(self.insts, self.decisions)

    def _kept(self, remove_postproc: bool) -> list[Instruction]:
        instructions = []
        for inst in self.insts:
            if remove_postproc and inst.kind.name == "EnterPostproc":
                break
            instructions.append(inst)
        return instructions

    def with_decision(self, inst: Instruction, decision: Any, remove_postproc: bool) -> Trace:
        """A trace in which one instruction has another decision."""
        instructions = self._kept(remove_postproc)
        decisions = {i: d for i, d in self.decisions.items() if i in instructions}
        decisions[inst] = decision
        return Trace(instructions, decisions)

    def simplified(self, remove_postproc: bool) -> Trace:
        """Without the queries whose results are not used."""
        retained: list[Instruction] = []
        used: set[int] = set()
        for inst in reversed(self._kept(remove_postproc)):
            if inst.kind.is_pure and not any(id(o) in used for o in inst.outputs):
                continue
            used.update(id(i) for i in inst.inputs if is_rv(i))
            for value in inst.inputs:
                if isinstance(value, PrimExpr):
                    used.update(id(v) for v in vars_in(value))
            retained.append(inst)
        retained.reverse()
        return Trace(retained, {i: d for i, d in self.decisions.items() if i in retained})

    def apply_to_schedule(
        self,
        sch: Replays,
        remove_postproc: bool = False,
        decision_provider: Callable[[Instruction, list[Any], list[Any], Any], Any] | None = None,
    ) -> None:
        """Replay the instructions on another schedule.

        `decision_provider(inst, inputs, attrs, decision)` returns the decision to use.
        """
        table: dict[Any, Any] = {}
        for inst in self._kept(remove_postproc):
            inputs = [_mapped(value, table) for value in inst.inputs]
            decision = self.decisions.get(inst)
            if decision_provider is not None:
                decision = decision_provider(inst, inputs, inst.attrs, decision)
            outputs = sch.run_instruction(inst.kind, inputs, inst.attrs, decision)
            table.update(_results(inst.kind, inst.outputs, outputs))

    # ------------------------------------------------------------------ text

    def as_python(self, remove_postproc: bool = False) -> list[str]:
        """One line of Python for each instruction."""
        names = Names()
        return [
            python_line(inst, names, self.decisions.get(inst))
            for inst in self._kept(remove_postproc)
        ]

    def as_json(self, remove_postproc: bool = False) -> Any:
        """[instructions, decisions] as JSON values."""
        names = Names()
        insts, decisions = [], []
        for i, inst in enumerate(self._kept(remove_postproc)):
            inputs = [_json(names, v) for v in inst.inputs]
            outputs = [names.new(v) for v in inst.outputs]
            insts.append([inst.kind.name, inputs, [_to_json(a) for a in inst.attrs], outputs])
            if self.decisions.get(inst) is not None:
                decisions.append([i, _to_json(self.decisions[inst])])
        return [insts, decisions]

    @staticmethod
    def apply_json_to_schedule(
        json_obj: str
        | Sequence[Sequence[Any] | Mapping[str, str] | None]
        | Mapping[str, str]
        | None,
        sch: Replays,
    ) -> None:
        """Replay the result of `as_json`, or its text, on a schedule."""
        table: dict[str, Any] = {}
        for kind, inputs, attrs, outputs, decision in _steps(json_obj):
            values = [_json_input(v, table) for v in inputs]
            results = sch.run_instruction(kind, values, attrs, decision)
            table.update(_results(kind, outputs, results))

    def __str__(self) -> str:
        lines = [f"  {line}" for line in self.as_python()] or ["  pass"]
        head = [f"# from {Served.name} import tir", "def apply_trace(sch: tir.Schedule) -> None:"]
        if any("T." in line for line in lines):  # in the text of an index map
            head.insert(1, f"# from {Served.name}.script import tir as T")
        return "\n".join([*head, *lines])

    __repr__ = __str__

    def show(self, style: str | None = None, black_format: bool = False) -> None:
        """Print the trace as Python."""
        print(self)


def outputs_of(result: PrimExpr | _Reference | Sequence[LoopRV] | None) -> list[Any]:
    """The random variables that a primitive gave."""
    if result is None:
        return []
    values = result if isinstance(result, (list, tuple)) else [result]
    return [v for v in values if is_rv(v)]


def _results(kind: InstructionKind, outputs: list[Any], results: list[Any]) -> dict[Any, Any]:
    """The new results for the outputs of a recorded step that was run again."""
    if len(outputs) != len(results):
        what = f"step {kind.name} returns another number of results than when it was recorded"
        hint = "replay on the program that was scheduled"
        raise ScheduleError(what, got=f"{len(results)}, not {len(outputs)}", instead=hint)
    return dict(zip(outputs, results, strict=True))


def _steps(json_obj: Any) -> list[tuple[InstructionKind, list[Any], list[Any], list[str], Any]]:
    """Kind, inputs, attributes, names of outputs and decision of each step of `as_json`."""
    try:
        insts, decisions = json.loads(json_obj) if isinstance(json_obj, str) else json_obj
        decided = {i: _from_json(d) for i, d in decisions}
        return [
            (
                InstructionKind.get(name),
                list(inputs),
                [_from_json(a) for a in attrs],
                list(dict.fromkeys(outputs)),
                decided.get(i),
            )
            for i, (name, inputs, attrs, outputs) in enumerate(insts)
        ]
    except _UNREADABLE as error:
        raise _unreadable(error) from None


_UNREADABLE = (ValueError, TypeError, LookupError, AttributeError)


def _unreadable(error: Exception) -> ScheduleError:
    what, hint = "this is not the JSON of a trace", "what trace.as_json() gave"
    return ScheduleError(what, got=f"{type(error).__name__}: {error}", instead=hint)


def _mapped(value: PrimExpr | _Reference | int | None, table: dict[Any, Any]) -> Any:
    if isinstance(value, (BlockRV, LoopRV)) or (isinstance(value, Var) and value in table):
        return table.get(value, value)
    if isinstance(value, PrimExpr) and not isinstance(value, Var):
        values = {v: table[v] for v in vars_in(value) if v in table}
        return substitute(value, values)
    return value


def _json(names: Names, value: object) -> Any:
    if is_rv(value):
        return names.by_id[id(value)]
    if isinstance(value, (str, StringImm)):  # in quotes: not the name of a random variable
        return json.dumps(value if isinstance(value, str) else value.value)
    return "None" if value is None else _to_json(value)


def _to_json(value: object) -> Any:
    if isinstance(value, (IntImm, FloatImm, StringImm)):
        return value.value
    if isinstance(value, (list, tuple)):
        return [_to_json(v) for v in value]
    if isinstance(value, dict):
        return {"dict": [[_to_json(k), _to_json(v)] for k, v in value.items()]}
    if isinstance(value, Node):
        return {"node": save_json(value)}
    return value


def _from_json(value: object) -> Any:
    if isinstance(value, list):
        return [_from_json(v) for v in value]
    if isinstance(value, dict):
        if "node" in value:
            return load_json(value["node"])
        return {_from_json(k): _from_json(v) for k, v in value["dict"]}
    return value


def _json_input(value: object, table: dict[str, Any]) -> Any:
    try:
        if not isinstance(value, str):
            return _from_json(value)
        if value.startswith('"'):
            return json.loads(value)
    except _UNREADABLE as error:
        raise _unreadable(error) from None
    if value != "None" and value not in table:
        what, hint = "no step before gave this variable", "steps in the order of their recording"
        raise ScheduleError(what, got=value, instead=hint)
    return table.get(value)


__all__ = ["Instruction", "Trace", "outputs_of"]
