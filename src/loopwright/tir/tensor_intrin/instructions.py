"""The tensor intrinsics that schedule rules use by themselves, by target.

    register_dot("dot_8x4_avxvnni", Dot(8, "uint8", "int8", "int32", vpdpbusd), features=["avxvnni"])
    dot_product(target, ("uint8", "int8", "int32"), 8)      # -> the cheapest that the CPU has

An instruction is a tensor intrinsic (its description is what it means, its implementation the code for a target's
generator), the features of a CPU that it needs, the facts about the operands without which it computes
something else, and its cost. A kernel says the facts by the annotation `FACTS` of its block.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any

from ...base.registry import origin_of
from ...ir.prim_expr import IntImm
from ...ir.rule_table import RuleTable
from ...ir.structural import structural_equal
from ...ir.target import Target
from ..function import INTRINSICS, TensorIntrin
from .c_text import CText, in_c
from .dot import Dot, dot, register

FACTS = "operand_facts"
PAIRS_FIT = "pairs_fit"  # any bytes times two adjacent bytes of B always add up to an int16
SEVEN_BITS = "seven_bits"  # each byte of B is below 128


@dataclass(frozen=True)
class Instruction:
    """A tensor intrinsic, by name, for rules to choose; see `register_instruction`."""

    intrin: str
    features: frozenset[str]
    requires: frozenset[str]
    cost: float
    registers: int
    spec: Dot | None  # None: see its description
    text: CText | None = None  # of target "c"; None: plain loops


@dataclass(frozen=True)
class DotProduct:
    """An instruction for C[i] += sum over k of A[k] * B[i, k], i < lanes, k < depth; each: of A[k, i] * B[i, k]."""

    intrin: str
    lanes: int
    depth: int
    registers: int
    cost: float
    each: bool = False


INSTRUCTIONS: RuleTable[Instruction] = RuleTable("instruction", lambda row: row.intrin)


def register_instruction(
    intrin: str, target: str = "llvm", *, features: Collection[str] = (),
    requires: Collection[str] = (), cost: float = 1, registers: int = 3, origin: str | None = None,
    spec: Dot | None = None, text: CText | None = None,
) -> None:  # fmt: skip
    """Let the rules for a target use a registered tensor intrinsic.

    features: of a CPU, by LLVM's names. requires: facts about its operands (`PAIRS_FIT`).
    cost: about how many instructions it is; of those that fit, rules take the cheapest, of equal ones the last
    registered. registers: vector registers of a step without its sums, which rules leave free (the default: a copy of A, two
    vectors of B). origin: see `base.registry`. spec: the dot product that the intrinsic computes; without it, read off its
    description. text: its C. Raises ValueError for an unknown intrinsic.
    """
    if intrin not in INTRINSICS:
        TensorIntrin.get(intrin)  # raises, with the similar names
    row = Instruction(intrin, frozenset(features), frozenset(requires), cost, registers, spec, text)
    INSTRUCTIONS.add(row, target, name=intrin, origin=origin)


def register_dot(name: str, spec: Dot, *, c: CText | None = None, **record: Any) -> None:
    """Register a dot product as a tensor intrinsic, built on first use, and as an instruction; c: its C, for which it
    is one of the target `c`, too; record: what `register_instruction` takes."""
    register(name, spec)
    register_instruction(name, origin=_origin(spec), spec=spec, **record)
    if c is not None:
        register_in_c(name, spec, c, **record)


def register_in_c(name: str, spec: Dot, text: CText | None, **record: Any) -> None:
    """Register a dot product for the target `c`; text: None for plain loops."""
    register(f"c.{name}", in_c(name, spec))
    register_instruction(f"c.{name}", "c", origin=_origin(spec), spec=spec, text=text, **record)


def _origin(spec: Dot) -> str:
    return origin_of(spec.update.func if isinstance(spec.update, partial) else spec.update)


def texts_of(name: str) -> tuple[Dot, list[CText]]:
    """A dot product of the target `c`, and the texts of all that compute the same under no more conditions, the cheapest
    first."""
    rows = [c.rule for c in INSTRUCTIONS.at("c")]
    own = next(row for row in rows if row.intrin == f"c.{name}")
    assert own.spec is not None
    same = [r for r in rows if r.spec and key_of(r.spec) == key_of(own.spec) and r.text]
    same = [r for r in same if r.requires <= own.requires]
    return own.spec, [r.text for r in sorted(same, key=lambda r: r.cost) if r.text]


def key_of(spec: Dot) -> tuple[object, ...]:
    """The types and sizes that a dot product is of."""
    return spec.a, spec.b, spec.c, spec.lanes, spec.depth, spec.each


def register_dots(name: str, spec: Dot, *, c: CText | None = None, **record: Any) -> None:
    """Register a dot product as `register_dot` does, and with an A of its own for each lane: NAME_each. Its update
    reads A by `dot.left_of`."""
    register_dot(name, spec, c=c, **record)
    register_dot(f"{name}_each", replace(spec, each=True), **record)


def dot_product(
    target: Target, dtypes: tuple[str, str, str], count: int, facts: Collection[str] = (),
    each: bool = False,
) -> DotProduct | None:  # fmt: skip
    """The cheapest dot product of a target for the types of A, B, C, a number of lanes and facts; each: with an A for
    each lane."""
    have = frozenset(target.features)
    rows = [c.rule for c in INSTRUCTIONS.candidates(target)]
    rows = [r for r in rows if r.features <= have and r.requires <= frozenset(facts)]
    for row in sorted(rows, key=lambda r: r.cost):
        spec = row.spec or _spec_of(TensorIntrin.get(row.intrin))
        own = (*dtypes, count, each)
        if spec is not None and (spec.a, spec.b, spec.c, spec.lanes, spec.each) == own:
            return DotProduct(row.intrin, count, spec.depth, row.registers, row.cost, each)
    return None


WORDS = ("int16", "int16", "int32")


@cache
def _spec_of(intrin: TensorIntrin) -> Dot | None:
    """The dot product that a description says, if it says one."""
    buffers = intrin.desc.buffers
    dims = [[d.value for d in b.shape if isinstance(d, IntImm)] for b in buffers]
    if [len(d) for d in dims] != [1, 2, 1] or dims[1] != [*dims[2], *dims[0]]:
        return None
    types = tuple(str(b.dtype) for b in buffers)
    spec = Dot(*dims[2], *types, lambda a, b, c: intrin.impl.body.block.body, *dims[0])
    plain = dot(spec).desc
    return spec if structural_equal(plain, intrin.desc.replace(attrs=plain.attrs)) else None
