"""The rules of `rewrite_simplify`: each is true of random numbers, and gives the form it says."""

from __future__ import annotations

import ast
import random
from functools import cache
from types import CodeType
from typing import Any

import pytest

from loopwright import arith, tir
from loopwright.base.errors import DivisionByZero
from loopwright.ir.prim_op import trunc_div
from loopwright.ir.structural import assert_structural_equal
from loopwright.tvm.arith.rewrite_rules import RULES
from loopwright.tvm.arith.rule_text import Rule

TABLE = [rule for rules in RULES.values() for rule in rules]
MEANING = {
    "tdiv": trunc_div,
    "tmod": lambda a, b: a - trunc_div(a, b) * b,
    "fdiv": lambda a, b: a // b,
    "fmod": lambda a, b: a % b,
    "select": lambda b, x, y: x if b else y,
    "if_then_else": lambda b, x, y: x if b else y,
    "nonneg": lambda x: x >= 0,
}


class _Plain(ast.NodeTransformer):
    """`^` and `@` are an addition and a product."""

    def visit_BinOp(self, node: ast.BinOp) -> Any:
        self.generic_visit(node)
        signs = {ast.BitXor: ast.Add(), ast.MatMult: ast.Mult()}
        node.op = signs.get(type(node.op), node.op)
        return node


@cache
def code(text: str) -> CodeType:
    plain = ast.fix_missing_locations(_Plain().visit(ast.parse(text, mode="eval")))
    return compile(plain, "rule", "eval")


def value(text: str, env: dict[str, int]) -> Any:
    return eval(code(text), {**MEANING, "min": min, "max": max}, dict(env))


@pytest.mark.parametrize("rule", TABLE, ids=[rule.text.strip() for rule in TABLE])
def test_a_rule_is_true(rule: Rule) -> None:
    rng = random.Random(rule.text)
    sides = [side.strip() for side in rule.text.partition(" if ")[0].split("=>")]
    names = {n.id for n in ast.walk(ast.parse(sides[0])) if isinstance(n, ast.Name)} - {
        *MEANING,
        "min",
        "max",
    }
    seen = 0
    for _ in range(20_000):
        env = {name: rng.randint(-9, 14) for name in sorted(names)}
        if "b" in env or "if_then_else" in sides[0] or " or " in sides[0]:
            env |= {name: rng.randint(0, 1) for name in ("b", "x", "y") if name in env}
        try:
            left = value(sides[0], env)
            if not eval(rule.condition, MEANING, dict(env)):
                continue
            right = value(sides[1], env)
        except ZeroDivisionError:
            continue
        assert int(left) == int(right), env
        seen += 1
        if seen == 200:
            return
    assert seen >= 10


x, y, z = (tir.Var(name, "int32") for name in "xyz")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (x - 10, x + -10),
        (x >= 3, tir.IntImm("int32", 3) <= x),
        (x * y + x * 10, (y + 10) * x),
        (tir.min(x, y) - x, tir.min(0, y - x)),
        (x * 2 <= -1, x <= -1),
        (x // 2 < 3, x < 6),
        (y - (y + z) // 5 * 5, (y + z) % 5 - z),
        (tir.all(x // 10 == 5, x % 10 < 7), tir.all(tir.IntImm("int32", 50) <= x, x < 57)),
        (tir.max(tir.min(x, y), tir.min(z, x)), tir.min(tir.max(y, z), x)),
        (tir.clz(tir.IntImm("int64", 2)), tir.IntImm("int32", 62)),
    ],
)
def test_form(before, after):
    assert_structural_equal(arith.Analyzer().rewrite_simplify(before), after)


def test_other_types():
    a, b = tir.Var("a", "uint8"), tir.Var("b", "float32")
    ana = arith.Analyzer()
    assert ana.rewrite_simplify(a - a).value == 0
    difference = b - b
    assert ana.rewrite_simplify(difference) is difference  # it may be NaN
    assert ana.rewrite_simplify(7).value == 7


def test_division_by_zero_stays():
    """But in rewrite_simplify, which refuses it, as in TVM; no pass calls that."""
    for kind in (tir.FloorDiv, tir.FloorMod, tir.Div, tir.Mod):
        division = kind(x * 4 + y, 0)  # in code that is never reached
        assert arith.Analyzer().simplify(division).b.value == 0
        with pytest.raises(DivisionByZero):
            arith.Analyzer().rewrite_simplify(division)


def test_a_literal_that_leaves_its_type_is_not_moved():
    """x < INT_MIN - 1 would be x < INT_MAX."""
    least = tir.IntImm("int32", -(2**31))
    assert arith.Analyzer().rewrite_simplify(least < x + 1).value == 1
    most, z = tir.IntImm("int64", 2**63 - 1), tir.Var("z", "int64")
    assert_structural_equal(arith.Analyzer().rewrite_simplify(most <= z - 13), most <= z + -13)
    kept = arith.Analyzer().rewrite_simplify(tir.shift_left(x, 2) >= y + least)
    assert_structural_equal(kept, y + least <= tir.shift_left(x, 2))
