"""Expressions that the builders would fold or refuse come back from their text as they were."""

from __future__ import annotations

import random

import pytest

from loopwright import tir
from loopwright.ir import prim_expr as pe
from loopwright.ir.prim_expr import IntImm
from loopwright.ir.structural import assert_structural_equal
from loopwright.script import from_source
from tests.arith.fuzz import random_case

OPERATORS = (
    *(pe.Add, pe.Sub, pe.Mul, pe.Div, pe.Mod, pe.FloorDiv, pe.FloorMod, pe.Min, pe.Max),
    *(pe.LT, pe.LE, pe.GT, pe.GE, pe.EQ, pe.NE),
)


def check_round_trip(params, expr):
    func = tir.PrimFunc(params, tir.Evaluate(expr)).with_attr("global_symbol", "main")
    assert_structural_equal(func, from_source(func.script()))


@pytest.mark.parametrize("dtype", ["uint64", "uint8", "int32"])
def test_operators_of_literals(dtype):
    x, most = tir.Var("x", dtype), pe.int_max(tir.Var("x", dtype).dtype)
    for kind in OPERATORS:
        for a, b in ((7, 3), (x, 0), (0, x), (1, x), (x, most), (most, x), (x, 1), (most, most)):
            sides = (IntImm(dtype, side) if isinstance(side, int) else side for side in (a, b))
            check_round_trip([x], kind(*sides))


def test_bit_operations_of_literals():
    four, out = IntImm("int32", 4), IntImm("int32", -5)
    for name in ("shift_left", "shift_right", "bitwise_and", "bitwise_or", "bitwise_xor"):
        check_round_trip([], pe.Call("int32", f"tir.{name}", [four, four]))
    check_round_trip([], pe.Call("int32", "tir.bitwise_not", [four]))
    x = tir.Var("x")
    check_round_trip([x], pe.Call("int32", "tir.shift_left", [x, out]))


def test_random_expressions():
    for seed in range(150):
        case = random_case(random.Random(seed))
        check_round_trip(list(case.domain), case.expr)
