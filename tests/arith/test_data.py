"""Data, which is what was read from memory, wraps around; indices are assumed not to overflow."""

from __future__ import annotations

import random
from typing import Any

import pytest

from loopwright.arith import Analyzer
from loopwright.ir import prim_expr as pe
from loopwright.ir import prim_op as po
from loopwright.ir.prim_expr import IntImm, Range, Var
from loopwright.ir.structural import structural_equal
from loopwright.tir import BufferLoad, decl_buffer

NARROW, WIDE, BYTES = (
    decl_buffer((4,), dtype, name)
    for dtype, name in (("int32", "N"), ("int64", "W"), ("uint8", "B"))
)
i = Var("i", "int32")
x, w = BufferLoad(NARROW, [0]), BufferLoad(WIDE, [0])
small = pe.Cast("int32", BufferLoad(BYTES, [0]))
SUMS = (pe.Add, pe.Sub, pe.Mul)
ORDERS = (pe.LT, pe.LE, pe.GT, pe.GE, pe.EQ, pe.NE)
MEANINGS: dict[type, Any] = {
    pe.Add: lambda a, b: a + b, pe.Sub: lambda a, b: a - b, pe.Mul: lambda a, b: a * b,
    pe.FloorDiv: lambda a, b: a // b, pe.FloorMod: lambda a, b: a % b, pe.Min: min, pe.Max: max,
    pe.Div: lambda a, b: abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1),
    pe.Mod: lambda a, b: abs(a) % abs(b) * (1 if a >= 0 else -1),
    pe.LT: lambda a, b: a < b, pe.LE: lambda a, b: a <= b, pe.GT: lambda a, b: a > b,
    pe.GE: lambda a, b: a >= b, pe.EQ: lambda a, b: a == b, pe.NE: lambda a, b: a != b,
    pe.And: lambda a, b: a and b, pe.Or: lambda a, b: a or b,
}  # fmt: skip


def value(e: Any, memory: dict[str, list[int]], index: int) -> int:
    """What an expression computes, every step in its type."""
    of = lambda part: value(part, memory, index)  # noqa: E731
    if isinstance(e, IntImm):
        return e.value
    if e is i:
        return index
    if isinstance(e, BufferLoad):
        return memory[e.buffer.name][of(e.indices[0])]
    if isinstance(e, pe.Not):
        return not of(e.a)
    if isinstance(e, pe.Select):
        return of(e.true_value) if of(e.condition) else of(e.false_value)
    made = of(e.value) if isinstance(e, pe.Cast) else MEANINGS[type(e)](of(e.a), of(e.b))
    return (
        made
        if e.dtype.is_bool
        else (made - pe.int_min(e.dtype)) % (1 << e.dtype.bits) + pe.int_min(e.dtype)
    )


def drawn(rng: random.Random, dtype: str, depth: int) -> Any:
    """An expression of data, of the index and of literals."""
    if depth == 0 or rng.random() < 0.1:
        buffer = NARROW if dtype == "int32" else WIDE
        leaves = [
            BufferLoad(buffer, [rng.randrange(2)]),
            pe.Cast(dtype, BufferLoad(BYTES, [rng.randrange(2)])),
            IntImm(dtype, rng.choice([-7, -1, 0, 1, 2, 3, 5, 8])),
            i if dtype == "int32" else pe.Cast(dtype, i),
        ]
        return rng.choices(leaves, [5, 2, 2, 1])[0]
    kind = rng.choices(["sum", "divided", "extreme", "choice", "cast"], [5, 3, 2, 2, 1])[0]
    part = lambda: drawn(rng, dtype, depth - 1)  # noqa: E731
    if kind == "sum":
        return rng.choice(SUMS)(part(), part())
    if kind == "divided":
        divide = rng.choice((pe.FloorDiv, pe.FloorMod, pe.Div, pe.Mod))
        return divide(part(), IntImm(dtype, rng.choice([-3, 2, 3, 4, 8])))
    if kind == "extreme":
        return rng.choice((pe.Min, pe.Max))(part(), part())
    if kind == "cast":
        return pe.Cast(dtype, drawn(rng, "int64" if dtype == "int32" else "int32", depth - 1))
    return pe.Select(condition(rng, dtype, depth - 1), part(), part())


def condition(rng: random.Random, dtype: str, depth: int) -> Any:
    made = rng.choice(ORDERS)(drawn(rng, dtype, depth), drawn(rng, dtype, depth))
    if depth and rng.random() < 0.3:
        made = rng.choice((pe.And, pe.Or))(made, condition(rng, dtype, depth - 1))
    return pe.Not(made) if rng.random() < 0.1 else made


def memory(rng: random.Random) -> dict[str, list[int]]:
    def of(dtype: str) -> int:
        least, most = pe.int_min(po.const(0, dtype).dtype), pe.int_max(po.const(0, dtype).dtype)
        return rng.choice([least, least + rng.randrange(9), most - rng.randrange(9), most // 2 + 1,
                           0, rng.randrange(-9, 9) if least else rng.randrange(9),
                           rng.randint(least, most)])  # fmt: skip

    return {b.name: [of(b.dtype) for _ in range(2)] for b in (NARROW, WIDE, BYTES)}


@pytest.mark.sample(2)
@pytest.mark.parametrize("part", range(4))
def test_random_expressions_of_data(part: int) -> None:
    rng = random.Random(part)
    changed = 0
    for _ in range(150):
        dtype = rng.choice(("int32", "int64"))
        make = condition if rng.random() < 0.4 else drawn
        e = make(rng, dtype, 3)
        ana = Analyzer()
        ana.bind(i, Range(0, 10))
        made = ana.simplify(e)
        changed += made is not e
        for _ in range(12):
            given, index = memory(rng), rng.randrange(10)
            assert value(e, given, index) == value(made, given, index), (e, made, given, index)
    assert changed > 50


def same(e: Any, expected: Any) -> None:
    made = Analyzer().simplify(e)
    assert structural_equal(made, po.convert(expected)), made


def test_sums_of_data_are_sums_still() -> None:
    same(x + 5 - x, IntImm("int32", 5))
    same(x * 3 - x - x, x)


def test_what_may_wrap_is_neither_compared_nor_divided_in_parts() -> None:
    same(x + 1 > x, x < x + 1)
    for e in (pe.LT(x + 5, IntImm("int32", 3)), w * 2 // 2, w * 3 % 3, pe.Max(x + 1, x)):
        same(e, e)
    same(pe.Cast("int64", x + 5) - 5, pe.Cast("int64", x + 5) - 5)


def test_what_fits_its_type_is() -> None:
    same(small + 1 > small, IntImm("bool", 1))
    same(small * 8 // 8, small)
    same(pe.Cast("int64", x) + 5 > pe.Cast("int64", x), IntImm("bool", 1))


def test_a_negative_place_counts_from_the_end() -> None:
    """x + n of x < 0 <= n does not wrap."""
    n = pe.SizeVar("n", "int64")
    with (ana := Analyzer()).constraint_scope(w < 0):
        assert ana.can_prove(w + n < n)
    assert not Analyzer().can_prove(w + n < n)


def test_indices_do_not_overflow() -> None:
    j = Var("j", "int32")
    same(j + 1 > j, IntImm("bool", 1))
    same(j * 2 // 2, j)


def test_a_name_of_data_is_data() -> None:
    v = Var("v", "int32")
    ana = Analyzer()
    ana.bind_value_bounds(v, x)
    assert not ana.can_prove(v + 1 > v)
    assert Analyzer().can_prove(v + 1 > v)


def test_lanes_wrap_too() -> None:
    lanes = pe.LT(pe.Ramp(x, 1, 8), pe.Broadcast(x, 8))
    assert not isinstance(Analyzer().simplify(lanes), pe.Broadcast)
    lanes = pe.LT(pe.Ramp(small, 1, 8), pe.Broadcast(small, 8))
    same(lanes, pe.Broadcast(IntImm("bool", 0), 8))
    by3 = pe.FloorDiv(pe.Ramp(x, 3, 8), pe.Broadcast(IntImm("int32", 3), 8))
    assert not isinstance(Analyzer().simplify(by3), pe.Ramp)


def test_no_unsigned_number_is_negative() -> None:
    byte = BufferLoad(BYTES, [0])
    zero, most = IntImm("uint8", 0), IntImm("uint8", 255)
    for e, expected in (
        (pe.LT(byte, zero), 0), (pe.GE(byte, zero), 1), (pe.GT(zero, byte), 0), (pe.LE(zero, byte), 1),
        (pe.LE(byte, most), 1), (pe.GT(byte, most), 0), (pe.GE(most, byte), 1), (pe.LT(most, byte), 0),
    ):  # fmt: skip
        same(e, IntImm("bool", expected))
    for e in (pe.LE(byte, zero), pe.GT(byte, zero), pe.GE(zero, byte), pe.LT(byte, most)):
        same(e, e)
