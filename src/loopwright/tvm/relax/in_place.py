"""Which values of a dataflow block may share memory, how long they live, and which calls may write
over an argument."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from ...ir.op import Op
from ...relax import expr as rx
from ...relax.analysis.variables import used_vars
from ...relax.relations import struct_info_base_check
from ...relax.struct_info import StructInfo, TensorStructInfo, TupleStructInfo

UNKNOWN = -1  # the memory of a value from outside the block

# Operators whose results may be their argument, seen in another way.
_VIEWS = {
    f"relax.{name}"
    for name in (
        "memory.view",
        "memory.ensure_zero_offset",
        "builtin.stop_lift_params",
        "hint_on_device",
        "to_vdevice",
        "call_pure_packed",
        "invoke_pure_closure",
    )
}
# Operators that compute each element from the elements at its index.
ELEMENTWISE = {
    f"relax.{name}"
    for name in [
        "abs",
        "add",
        "ceil",
        "cos",
        "divide",
        "exp",
        "floor",
        "log",
        "maximum",
        "minimum",
        "multiply",
        "negative",
        "nn.relu",
        "nn.silu",
        "power",
        "round",
        "sigmoid",
        "sin",
        "sqrt",
        "subtract",
        "tanh",
    ]
}


def liveness(block: rx.DataflowBlock) -> dict[rx.Var, tuple[int, int]]:
    """The first and last binding that use each variable. Variables from outside start at -1;
    those that may be used outside end after the last binding."""
    after = len(block.bindings)
    ranges: dict[rx.Var, tuple[int, int]] = {}
    for index, binding in enumerate(block.bindings):
        for var in used_vars(binding.value):
            start = ranges[var][0] if var in ranges else -1
            ranges[var] = start, index if start >= 0 else after
        ranges[binding.var] = index, index
    for var, (start, _) in ranges.items():
        if not isinstance(var, rx.DataflowVar):
            ranges[var] = start, after
    return ranges


class Aliases:
    """The memory that each variable of a block may be in, as numbers.

    memory: the numbers of a variable; fields: of a tuple's number, those of each field; own: those
    that operators of the block allocate.
    """

    def __init__(self, block: rx.DataflowBlock, inputs: Iterable[rx.Var]) -> None:
        self.count = 0
        self.memory: dict[rx.Var, set[int]] = {}
        self.fields: dict[int, list[set[int]]] = {}
        self.own: set[int] = set()
        for var in inputs:
            self.memory[var] = self.fresh(var.struct_info)
        for binding in block.bindings:
            self.memory[binding.var] = self.of(binding.value)

    def number(self) -> int:
        """The next number, from 0 on as in TVM."""
        self.count += 1
        return self.count - 1

    def fresh(self, info: StructInfo, own: bool = False) -> set[int]:
        """New memory for a value."""
        new = self.number()
        if own:
            self.own.add(new)
        if isinstance(info, TupleStructInfo):
            self.fields[new] = [self.fresh(field, own) for field in info.fields]
        return {new}

    def of(self, value: rx.Expr) -> set[int]:
        """The memory that an expression may be in."""
        if isinstance(value, rx.Var):
            return set(self.memory.get(value, {UNKNOWN}))
        if isinstance(value, rx.Tuple):
            new = self.number()
            self.fields[new] = [self.of(field) for field in value.fields]
            return {new}
        if isinstance(value, rx.TupleGetItem):
            memory: set[int] = set()
            for region in self.of(value.tuple_value):
                fields = self.fields.get(region, [])
                inside = fields[value.index] if value.index < len(fields) else {region}
                memory |= inside
            return memory
        if isinstance(value, rx.Call):
            plain = isinstance(value.op, Op) and value.op.name not in _VIEWS
            return self.fresh(value.struct_info, True) if plain else self.any_of(value)
        return self.fresh(value.struct_info)

    def any_of(self, call: rx.Call) -> set[int]:
        """The memory of a result that may be any argument, any part of one, or new."""
        args = [self.of(arg) for arg in call.args if not isinstance(arg, rx.ExternFunc)]
        new = self.fresh(call.struct_info)
        memory = self.parts(new.union(*args))
        for region in new:
            if region in self.fields:
                self.fields[region] = [set(memory) for _ in self.fields[region]]
        return memory

    def parts(self, regions: set[int]) -> set[int]:
        """Memory and all that is in tuples there."""
        reached, work = set(regions), list(regions)
        while work:
            for inside in self.fields.get(work.pop(), ()):
                work += inside - reached
                reached |= inside
        return reached


class InplaceOpportunity(NamedTuple):
    """A call that may write over an argument: its index in the block, and which arguments."""

    binding_idx: int
    arg_idxs: tuple[int, ...]


def in_place_calls(
    block: rx.DataflowBlock, inputs: Iterable[rx.Var]
) -> Iterator[InplaceOpportunity]:
    """The elementwise calls whose result has the struct info of an argument that is not used again."""
    aliases, ranges = Aliases(block, inputs), liveness(block)
    for index, binding in enumerate(block.bindings):
        call = binding.value
        if not isinstance(call, rx.Call) or getattr(call.op, "name", "") not in ELEMENTWISE:
            continue
        later = {v for v, (start, end) in ranges.items() if start < index < end}
        busy = set().union(*(aliases.parts(aliases.memory.get(v, {UNKNOWN})) for v in later))
        writable = []
        for i, arg in enumerate(call.args):
            if not isinstance(arg, rx.Var) or not _same(arg.struct_info, call.struct_info):
                continue
            memory = aliases.memory.get(arg, {UNKNOWN})
            if memory <= aliases.own and not memory & busy:
                writable.append(i)
        if writable:
            yield InplaceOpportunity(index, tuple(writable))


def _same(one: TensorStructInfo, other: StructInfo) -> bool:
    if not isinstance(one, TensorStructInfo) or one.get_shape() is None or one.dtype.is_void:
        return False
    return bool(struct_info_base_check(one, other)) and bool(struct_info_base_check(other, one))
