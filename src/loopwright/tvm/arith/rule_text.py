"""Rewriting rules as text: `min(x, y - z) + z => min(x + z, y)`.

x, y, z, w, b match any expression, the same letter for the same one; c1, c2, ... for literals. `^`
is an addition whose sides may be exchanged, `@` such a product. `tdiv` and `tmod` round toward
zero, `//` and `%` down. After `if`, a Python expression over the literals and `nonneg(x)`.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from ...arith.context import Context
from ...ir import prim_expr as pe
from ...ir import prim_op as po
from ...ir.op import Op
from ...ir.prim_expr import FALSE, TRUE, Call, IntImm, PrimExpr, Select

if TYPE_CHECKING:
    from ...ir.dtype import DataType

_OPERATORS: dict[type, tuple[type, bool]] = {
    ast.Add: (pe.Add, False),
    ast.BitXor: (pe.Add, True),
    ast.Sub: (pe.Sub, False),
    ast.Mult: (pe.Mul, False),
    ast.MatMult: (pe.Mul, True),
    ast.FloorDiv: (pe.FloorDiv, False),
    ast.Mod: (pe.FloorMod, False),
    ast.Lt: (pe.LT, False),
    ast.LtE: (pe.LE, False),
    ast.Gt: (pe.GT, False),
    ast.GtE: (pe.GE, False),
    ast.Eq: (pe.EQ, False),
    ast.NotEq: (pe.NE, False),
    ast.And: (pe.And, False),
    ast.Or: (pe.Or, False),
}
_FUNCTIONS = {
    "tdiv": pe.Div,
    "tmod": pe.Mod,
    "fdiv": pe.FloorDiv,
    "fmod": pe.FloorMod,
    "min": pe.Min,
    "max": pe.Max,
}
_EXACT = {pe.Add: operator.add, pe.Sub: operator.sub, pe.Mul: operator.mul}
Env = dict[str, Any]


def _parts(tree: ast.expr) -> tuple[Any, bool, list[ast.expr]] | None:
    """(kind, whether its sides may be exchanged, operands) of an operation."""
    if isinstance(tree, ast.BinOp):
        return (*_OPERATORS[type(tree.op)], [tree.left, tree.right])
    if isinstance(tree, ast.Compare):
        return (*_OPERATORS[type(tree.ops[0])], [tree.left, tree.comparators[0]])
    if isinstance(tree, ast.BoolOp):
        return (*_OPERATORS[type(tree.op)], tree.values)
    if isinstance(tree, ast.Call):
        name = ast.unparse(tree.func)
        return _FUNCTIONS.get(name, name), False, tree.args
    return None


def _is_literal(name: str) -> bool:
    return name[0] == "c" and name[1:].isdigit()


def _operands(node: PrimExpr) -> tuple[Any, ...]:
    if isinstance(node, pe.BinaryOpExpr):
        return node.a, node.b
    if isinstance(node, Select):
        return node.condition, node.true_value, node.false_value
    return node.args if isinstance(node, Call) else ()


class Rule:
    """One line of the table."""

    def __init__(self, text: str) -> None:
        self.text = text
        body, _, condition = text.partition(" if ")
        left, right = (ast.parse(side.strip(), mode="eval").body for side in body.split("=>"))
        self.left, self.right = left, right
        self.condition = compile(condition.strip() or "True", text, "eval")
        parts = _parts(left)
        assert parts is not None
        self.kind = parts[0]

    @staticmethod
    def key(node: PrimExpr) -> Any:
        """The key under which the rules for an expression are looked up."""
        if isinstance(node, Select):
            return "select"
        if isinstance(node, Call):
            return node.op.name.removeprefix("tir.") if isinstance(node.op, Op) else ""
        return type(node)

    def _holds(self, ctx: Context, env: Env) -> bool:
        with suppress(ZeroDivisionError):
            return eval(self.condition, {"nonneg": ctx_nonneg(ctx)}, env)
        return False

    def apply(self, ctx: Context, node: PrimExpr) -> PrimExpr | None:
        """The rewritten expression; None if the rule does not match, or needs a literal that
        does not fit its type."""
        for env in _matches(self.left, node, {}, ctx):
            if self._holds(ctx, env):
                dtypes = [v.dtype for v in env.values() if isinstance(v, PrimExpr)]
                dtype = next((d for d in dtypes if not d.is_bool), node.dtype)
                with suppress(OverflowError):
                    return _build(self.right, env, dtype)
        return None


def ctx_nonneg(ctx: Context) -> Callable[[Any], bool]:
    def holds(value: PrimExpr) -> bool:
        return value >= 0 if isinstance(value, int) else ctx.nonneg(ctx.poly(value))

    return holds


def _matches(tree: ast.expr, node: PrimExpr, env: Env, ctx: Context) -> Iterator[Env]:
    """The ways in which a pattern fits an expression."""
    if isinstance(tree, ast.Name):
        value = node
        if _is_literal(tree.id):
            if not isinstance(node, IntImm):
                return
            value = node.value
        bound = env.get(tree.id)
        if bound is None:
            yield {**env, tree.id: value}
        elif (
            bound is value
            or (not isinstance(value, int) and _same(ctx, bound, value))
            or (isinstance(value, int) and bound == value)
        ):
            yield env
        return
    literal = _number(tree)
    if literal is not None:
        if isinstance(node, IntImm) and node.value == literal:
            yield env
        return
    parts = _parts(tree)
    if parts is None or not isinstance(node, PrimExpr):
        return
    kind, exchanged, patterns = parts
    if Rule.key(node) != kind:
        return
    operands = _operands(node)
    for order in (operands, operands[::-1]) if exchanged else (operands,):
        yield from _each(patterns, order, env, ctx)


def _each(
    patterns: Sequence[Any], nodes: Sequence[PrimExpr], env: Env, ctx: Context
) -> Iterator[Env]:
    if len(patterns) != len(nodes):
        return
    if not patterns:
        yield env
        return
    for binding in _matches(patterns[0], nodes[0], env, ctx):
        yield from _each(patterns[1:], nodes[1:], binding, ctx)


def _same(ctx: Context, a: PrimExpr, b: PrimExpr) -> bool:
    return a.dtype == b.dtype and ctx.keys.of(a) == ctx.keys.of(b)


def _number(tree: ast.expr) -> int | None:
    if isinstance(tree, ast.Constant) and type(tree.value) is int:
        return tree.value
    if isinstance(tree, ast.UnaryOp) and isinstance(tree.op, ast.USub):
        inner = _number(tree.operand)
        return None if inner is None else -inner
    return None


def _over_literals(tree: ast.expr) -> bool:
    names = [n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and n.id != "abs"]
    return all(map(_is_literal, names)) and not isinstance(tree, ast.Compare | ast.BoolOp)


def _build(tree: ast.expr, env: Env, dtype: DataType) -> Any:
    """The expression of a right side; what has only literals is computed. Raises OverflowError for
    one that does not fit its type."""
    if isinstance(tree, ast.Name) and not _is_literal(tree.id):
        return env[tree.id]
    if isinstance(tree, ast.Constant) and isinstance(tree.value, bool):
        return TRUE if tree.value else FALSE
    if _over_literals(tree):
        value = eval(compile(ast.Expression(tree), "rule", "eval"), {"abs": abs}, env)
        return po.const(_fitting(int(value), dtype), dtype)
    parts = _parts(tree)
    assert parts is not None
    kind, _, operands = parts
    values = [_build(operand, env, dtype) for operand in operands]
    if kind == "select":
        return Select._make(*values)
    if kind == "if_then_else":
        return Call._make(values[1].dtype, Op.get("tir.if_then_else"), tuple(values))
    if issubclass(kind, pe.LogicalExpr):
        return kind._make(*values)
    if kind in _EXACT and all(isinstance(value, IntImm) for value in values):
        _fitting(_EXACT[kind](*(value.value for value in values)), values[0].dtype)
    result = po.fold_binary(kind, *values)
    return kind._make(*values) if result is None else result


def _fitting(value: int, dtype: DataType) -> int:
    """The value; raises OverflowError if the type cannot hold it."""
    if not pe.int_min(dtype) <= value <= pe.int_max(dtype):
        raise OverflowError(f"{value} does not fit in {dtype}")
    return value


def table(text: str) -> dict[Any, list[Rule]]:
    """The rules of a text, one a line, by the kind of expression that they fit."""
    rules: dict[Any, list[Rule]] = {}
    for line in text.splitlines():
        if "=>" in line:
            rule = Rule(line)
            rules.setdefault(rule.kind, []).append(rule)
    return rules
