"""Random expressions and loop nests: compiled in one batch, equal to the interpreter."""

from __future__ import annotations

import random

import numpy as np
import pytest

from loopwright import tir
from loopwright.ir.dtype import DataType
from loopwright.tir.interpreter import run

from .emitted import compiled, elementwise, padded, same

pytestmark = pytest.mark.no_roundtrip

BATCH = 60
# 32 and 64 bit sums are taken not to overflow by the simplifier, so their inputs are small.
INTEGERS = {"int8": 127, "uint8": 255, "int16": 100, "int32": 20, "uint32": 40, "int64": 30}


class Grower:
    """Grows expressions of a seed: the same one for scalars and for vectors."""

    def __init__(self, seed, dtype):
        self.random = random.Random(seed)
        self.dtype = dtype

    def const(self, like):
        if self.dtype.startswith("float"):
            return tir.const(self.random.choice([0.0, 0.5, -1.0, 2.0, 3.0, -0.25]), like)
        low = -9 if self.dtype[0] == "i" else 0
        return tir.const(self.random.randint(low, 9), like)

    def condition(self, leaves, depth):
        a, b = self.grow(leaves, depth - 1), self.grow(leaves, depth - 1)
        test = self.random.choice([tir.EQ, tir.NE, tir.LT, tir.LE, tir.GT, tir.GE])
        made = test(a, b)
        pick = self.random.randrange(6)
        if depth > 1 and pick < 2:
            join = tir.And if pick else tir.Or
            return join(made, self.condition(leaves, depth - 1))
        return tir.Not(made) if pick == 2 else made

    def grow(self, leaves, depth):
        like = leaves[0].dtype
        if depth <= 0 or self.random.random() < 0.1:
            pick = self.random.randrange(len(leaves) + 1)
            return leaves[pick] if pick < len(leaves) else self.const(like)
        kind = self.random.choice(self.kinds())
        if kind == "choice":
            cond = self.condition(leaves, depth)
            a, b = self.grow(leaves, depth - 1), self.grow(leaves, depth - 1)
            return (tir.Select if self.random.random() < 0.5 else tir.if_then_else)(cond, a, b)
        if kind == "let":
            var = tir.Var("t", like)
            value = self.grow(leaves, depth - 1)
            return tir.Let(var, value, self.grow([*leaves, var], depth - 1))
        if kind == "cast":
            wide = self.random.choice(["float64", "float32"] if like.is_float else ["int64"])
            return tir.Cast(like, tir.Cast(wide, self.grow(leaves, depth - 1)))
        if kind == "neg":
            return tir.const(0, like) - self.grow(leaves, depth - 1)
        return kind(self.grow(leaves, depth - 1), self.grow(leaves, depth - 1))

    def kinds(self):
        shared = ["choice", "choice", "let", "cast", tir.min, tir.max, "neg"]
        shared += [lambda a, b: a + b, lambda a, b: a - b]
        if self.dtype.startswith("float"):
            return [*shared, lambda a, b: a * b]
        positive = tir.const(self.random.randint(1, 9), self.dtype)
        divisions = [tir.floordiv, tir.floormod, tir.truncdiv, tir.truncmod]
        return [
            *shared,
            *(lambda a, b, d=d: d(a, positive) for d in divisions),
            lambda a, b: a & b,
            lambda a, b: a | b,
            lambda a, b: a ^ b,
            lambda a, b: a >> tir.const(2, a.dtype),
        ]


def functions(dtype, count):
    made = {}
    for seed in range(count):
        for lanes in (1, 8):
            fn = lambda a, b, c, s=seed: Grower(s, dtype).grow([a, b, c], 4)  # noqa: E731
            made[f"f{seed}_x{lanes}"] = elementwise(fn, *[dtype] * 3, lanes=lanes, out_dtype=dtype)
    return made


@pytest.mark.sample(2)
@pytest.mark.parametrize("dtype", [*INTEGERS, "float32", "float64"])
def test_random_expressions(dtype):
    rng, made = np.random.default_rng(11), functions(dtype, BATCH // 4)
    if dtype.startswith("float"):
        arrays = [padded(rng.integers(-32, 32, 64) / 4, dtype) for _ in range(3)]
    else:
        most = INTEGERS[dtype]
        low = 0 if DataType(dtype).is_uint else -most
        arrays = [padded(rng.integers(low, most, 64), dtype) for _ in range(3)]
    entries = compiled(made)
    for name, func in made.items():
        want, got = np.zeros(64, dtype), np.zeros(64, dtype)
        run(func, [*arrays, want])
        entries[name](*arrays, got)
        try:
            same(got, want, 1e-6 if dtype == "float32" else 0)
        except AssertionError as error:
            raise AssertionError(f"{func.script()}\n{error}") from None


def loop_nest(seed):
    """A random nest of loops over two buffers, of every kind of loop."""
    r = random.Random(seed)
    extents = [r.choice([1, 2, 3, 4, 8]) for _ in range(3)]
    a, b = tir.decl_buffer((64,), "int32", "a"), tir.decl_buffer((512,), "int32", "b")
    loops = [tir.Var(n, "int32") for n in "ijk"]
    flat = (loops[0] * extents[1] + loops[1]) * extents[2] + loops[2]
    low = r.choice([0, 0, 1, 5])
    at = tir.floormod(flat * r.choice([1, 3, 7]) + low, 64)
    value = a[at] * r.randint(-3, 3) + flat
    place = at if r.random() < 0.4 else flat
    body = tir.BufferStore(b, value, [place])
    if r.random() < 0.5:
        guard = r.choice([flat < r.randint(1, 60), tir.EQ(tir.floormod(flat, 3), 1)])
        other = tir.BufferStore(b, flat, [flat]) if r.random() < 0.5 else None
        body = tir.IfThenElse(guard, body, other)
    one_place = place is at  # iterations may write one place: then their order counts
    kinds = [0 if one_place else r.choice([0, 1]), r.choice([0, 3]), r.choice([0, 2, 3])]
    for var, extent, kind in zip(loops[::-1], extents[::-1], kinds[::-1], strict=True):
        body = tir.For(var, tir.const(0), tir.const(extent), tir.ForKind(kind), body)
    return tir.PrimFunc([a, b], body)


def check_loop_nests(count, compiled):
    """Nests of `count` seeds do what the interpreter says; `compiled` makes entries by name."""
    nests = {f"f{seed}": loop_nest(seed) for seed in range(count)}
    entries = compiled(nests)
    for name, func in nests.items():
        a = np.arange(64, dtype="int32") * 3 - 50
        want, got = np.zeros(512, "int32"), np.zeros(512, "int32")
        run(func, [a.copy(), want])
        entries[name](a, got)
        np.testing.assert_array_equal(got, want, err_msg=func.script())


def test_random_loop_nests():
    check_loop_nests(BATCH, compiled)
