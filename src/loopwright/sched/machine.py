"""A processor as default rules see it, beyond its features: costs, caches, how much work a thread needs.

    register_machine(Machine(grain=1 << 15), target="arm_cpu")

A rule schedules with a `RuleSchedule`, which knows the machine of its target.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count

from ..ir.rule_table import RuleTable
from ..ir.target import Target
from ..tir.function import PrimFunc
from ..tir.schedule import Schedule


@dataclass(frozen=True)
class Machine:
    """Numbers that rules count with; the defaults were measured on Zen 3 to Zen 5 (docs/notebook.md)."""

    # The fewest elements of a task, about 3 us. Longer ones left small kernels to one thread, which then
    # read the other threads' part of an image from their caches.
    grain: int = 1 << 13
    # In the time of one element: multiply-adds of a product, and its operands that are read for one row only. Such
    # products are limited by memory (llama_decode on two threads: 12.1 to 4.0 ms).
    fmas: int = 64
    reads: int = 4
    # Multiply-adds in the time that softmax takes for a score: its exponential alone takes that of 14 to 20
    # (0.1 to 0.15 ns in vectors, products at 275 GF/s).
    fmas_per_exp: int = 64
    # Vector registers that are not accumulators of a tile, and those that one value of a function needs, its
    # constants among them: the vectors that fit together share these (exp: 2.1 to 1.6 ns a vector).
    registers_left: int = 3
    registers_per_value: int = 8
    # Parts of a reduction with few results: a processor adds up 1 M elements in 44 us, waking another thread
    # takes about 2 us.
    reduction_parts: int = 8
    # Parts of an image, one or several for each thread, by preference.
    image_parts: tuple[int, ...] = (8, 6, 4, 2)
    # Right operands at least this large are packed in each call, if at least this many rows use them. Without
    # packing, each step of k reads another page, and the same tile runs at 42 % of the peak.
    packed_bytes: int = 1 << 20
    packed_rows: int = 64
    # Fewer rows do not use a strip long enough to fetch the next one, which costs one of 16 loads of a step
    # (bert_base on one thread: 94 ms with it, 104 without).
    prefetch_rows: int = 16
    # Bytes: of a cache's line; of the weights of a layer that stay in the second cache; of those of a tile that
    # stay in the first; the distance at which a tile of at most that many pixels prefetches its own weights, as it
    # would wait for the second cache (resnet18 on Zen 3: 40.8 to 32.0 ms).
    line: int = 64
    cached_weights: int = 1 << 17
    cached_stream: int = 1 << 14
    ahead: int = 1 << 10
    few_pixels: int = 6


MACHINES: RuleTable[Machine] = RuleTable("machine")
_NUMBERS = count()


def register_machine(machine: Machine, target: str = "cpu") -> None:
    """Let rules for a target kind ("llvm"), or a target key ("arm_cpu"), count with these numbers; the last
    registered one wins."""
    MACHINES.add(machine, target, name=f"machine {next(_NUMBERS)}", last=False)


class RuleSchedule(Schedule):
    """The schedule of a default rule: without checks, for a machine."""

    def __init__(self, func: PrimFunc, target: Target) -> None:
        super().__init__(func, enable_check=False)
        candidates = MACHINES.candidates(target)
        self.machine = candidates[0].rule if candidates else Machine()
