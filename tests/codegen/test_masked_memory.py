"""Loads and stores with a predicate, in steps and at listed places, against numpy; ranges of integers in C."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from loopwright import tir
from loopwright.codegen.c.ranges import Ranges
from loopwright.runtime.dtype import numpy_dtype

from .emitted import call, compiled

pytestmark = pytest.mark.no_roundtrip

SIZE, LANES = 24, 4
PLACES = np.array([23, 0, 7, 8], "int32")
# Beyond the signed half of their type: read as signed they lie before the array.
FAR = {"uint8": [255, 0, 128, 127], "uint16": [65535, 0, 32768, 32767]}
STEPS = {
    "dense": (3, 1),
    "two": (1, 2),
    "three": (0, 3),
    "seven": (2, 7),
    "back": (23, -5),
    "same": (9, 0),
}
FLAGS = np.array([True, False, True, True])


def index(kind, places):
    """The places of a vector: in steps, or those that `places` lists."""
    if kind == "listed":
        return tir.BufferLoad(places, [tir.Ramp(0, 1, LANES)])
    return tir.Ramp(*STEPS[kind], LANES)


def numbers(kind):
    start, step = STEPS.get(kind, (0, 0))
    return PLACES if kind == "listed" else start + step * np.arange(LANES)


def moved(kind, dtype, masked, what):
    """B[0:4] = A[places], or B[places] = A[0:4], where the flags say so."""
    a, b = (tir.decl_buffer((SIZE,), dtype, n) for n in "ab")
    flags, places = tir.decl_buffer((LANES,), "bool", "m"), tir.decl_buffer((LANES,), "int32", "p")
    mask = tir.BufferLoad(flags, [tir.Ramp(0, 1, LANES)]) if masked else None
    at, first = index(kind, places), tir.Ramp(0, 1, LANES)
    if what == "load":
        body = tir.BufferStore(b, tir.BufferLoad(a, [at], mask), [first])
    else:
        body = tir.BufferStore(b, tir.BufferLoad(a, [first]), [at], mask)
    return tir.PrimFunc([a, b, flags, places], body)


KINDS = [*STEPS, "listed"]


@pytest.mark.parametrize("dtype", ["float32", "int8", "bool", "float64"])
def test_vectors(dtype):
    cases = [
        (kind, masked, what)
        for kind, masked, what in product(KINDS, (False, True), ("load", "store"))
        if not (what == "store" and kind == "same")  # which lane is last is not said
    ]
    functions = {"_".join(map(str, c)): moved(c[0], dtype, *c[1:]) for c in cases}
    entries = compiled(functions)
    kind_of = numpy_dtype(dtype)
    given = (np.arange(SIZE) % 5).astype(kind_of)
    for (kind, masked, what), name in zip(cases, functions, strict=True):
        got = np.ones(SIZE, kind_of)
        call(entries[name], functions[name], [given.copy(), got, FLAGS, PLACES])
        want, held = np.ones(SIZE, kind_of), FLAGS if masked else np.ones(LANES, bool)
        if what == "load":
            want[:LANES] = np.where(held, given[numbers(kind)], 0)
        else:
            want[numbers(kind)[held]] = given[:LANES][held]
        np.testing.assert_array_equal(got, want, err_msg=name)


@pytest.mark.parametrize("dtype", FAR)
@pytest.mark.parametrize("width", [1, LANES])
def test_unsigned_places(dtype, width):
    """Twice the space of the index's type is there, so that a wrong sign gives a wrong number."""
    places, size = np.array(FAR[dtype], dtype), np.iinfo(dtype).max + 1
    a, b = (tir.decl_buffer((n,), "int32", k) for n, k in ((size, "a"), (size, "b")))
    p = tir.decl_buffer((LANES,), dtype, "p")

    def at(k):
        return tir.Ramp(k, 1, width) if width > 1 else k

    def listed(k):
        return tir.BufferLoad(p, [at(k)])

    steps = range(0, LANES, width)
    gather = [tir.BufferStore(b, tir.BufferLoad(a, [listed(k)]), [at(k)]) for k in steps]
    scatter = [tir.BufferStore(b, tir.BufferLoad(a, [at(k)]), [listed(k)]) for k in steps]
    functions = {
        name: tir.PrimFunc([a, b, p], tir.SeqStmt(body) if len(body) > 1 else body[0])
        for name, body in (("gather", gather), ("scatter", scatter))
    }
    entries = compiled(functions)
    wanted = {name: np.zeros(size, "int32") for name in functions}
    given = np.arange(1, 2 * size + 1, dtype="int32")[size:]
    wanted["gather"][:LANES], wanted["scatter"][places] = given[places], given[:LANES]
    for name, want in wanted.items():
        got = np.zeros(2 * size, "int32")
        call(entries[name], functions[name], [given, got[size:], places])
        np.testing.assert_array_equal(got, np.concatenate([np.zeros(size, "int32"), want]))


def test_scalars():
    n = SIZE
    a, b = (tir.decl_buffer((n,), "float32", k) for k in "ab")
    flags, i = tir.decl_buffer((n,), "bool", "m"), tir.Var("i", "int64")
    mask = tir.BufferLoad(flags, [i])
    bodies = {
        "store": tir.BufferStore(b, tir.BufferLoad(a, [i]) * 2.0, [i], mask),
        "load": tir.BufferStore(b, tir.BufferLoad(a, [i], mask) + 1.0, [i]),
    }
    zero, end = tir.const(0, "int64"), tir.const(n, "int64")
    functions = {
        name: tir.PrimFunc([a, b, flags], tir.For(i, zero, end, tir.ForKind.SERIAL, body))
        for name, body in bodies.items()
    }
    entries = compiled(functions)
    given, held = np.arange(n, dtype="float32"), np.arange(n) % 3 == 1
    for name, want in (
        ("store", np.where(held, 2 * given, 7)),
        ("load", np.where(held, given, 0) + 1),
    ):
        got = np.full(n, 7, "float32")
        call(entries[name], functions[name], [given.copy(), got, held.copy()])
        np.testing.assert_array_equal(got, want)


X, Y = tir.Var("x", "int64"), tir.Var("y", "int64")
NARROW = tir.Var("k", "int32")


@pytest.mark.parametrize(
    ("made", "exact"),
    [
        (X + Y, True), (X - Y, True), (X * Y, True), (tir.Min(X, Y), True), (tir.Max(X, Y), True),
        (tir.floordiv(X, tir.const(3, "int64")), True), (tir.floormod(X, tir.const(3, "int64")), True),
        (tir.floordiv(X, Y), False), (tir.floormod(X, Y), False),
        (tir.floordiv(X, tir.const(-3, "int64")), False), (tir.Div(X, tir.const(3, "int64")), False),
        (tir.Div(Y, tir.const(3, "int64")), True), (tir.Mod(Y, tir.const(9, "int64")), False),
        (tir.Cast("int32", X), True), (tir.Cast("uint8", Y), True), (tir.Cast("uint8", X), False),
    ],
)  # fmt: skip
def test_bounds_of_integers(made, exact):
    """x from -3 to 5, y from 2 to 4."""
    ranges = Ranges()
    ranges.bounds |= {X: (-3, 5), Y: (2, 4)}
    low, high = ranges.interval(made)
    find = {tir.Var: lambda v, at: at[v], tir.IntImm: lambda v, at: v.value}
    operations = {
        "Add": lambda a, b: a + b, "Sub": lambda a, b: a - b, "Mul": lambda a, b: a * b,
        "Min": min, "Max": max, "FloorDiv": lambda a, b: a // b, "FloorMod": lambda a, b: a % b,
        "Div": lambda a, b: int(a / b), "Mod": lambda a, b: a - b * int(a / b),
    }  # fmt: skip

    def value(node, at):
        if type(node) in find:
            return find[type(node)](node, at)
        if isinstance(node, tir.Cast):
            given = value(node.value, at)
            return given % 256 if str(node.dtype) == "uint8" else given
        return operations[type(node).__name__](value(node.a, at), value(node.b, at))

    values = {value(made, {X: x, Y: y}) for x in range(-3, 6) for y in range(2, 5)}
    assert low <= min(values) and max(values) <= high
    if exact:
        assert (low, high) == (min(values), max(values))


def test_what_fits():
    ranges = Ranges()
    limit = (1 << 31) - 1
    ranges.bounds |= {X: (0, limit), Y: (-limit - 1, 0), NARROW: (0, limit)}
    one = tir.const(1, "int64")
    assert ranges.interval(tir.Var("u", "uint8")) == (0, 255)
    assert ranges.interval(tir.Var("i", "int8")) == (-128, 127)
    assert not ranges.fits_narrow(X)
    ranges.narrow |= {X, Y}
    for good in (X, Y, X - one, Y + one, tir.Cast("int64", NARROW), tir.const(-limit - 1, "int64")):
        assert ranges.fits_narrow(good)
    for bad in (
        X + one,
        Y - one,
        tir.const(limit + 1, "int64"),
        X + Y - one,
        tir.Var("s", "int16"),
    ):
        assert not ranges.fits_narrow(bad)
    k1 = tir.const(1, "int32")
    assert ranges.fits(tir.Add(NARROW, tir.const(0, "int32"))) and not ranges.fits(
        tir.Add(NARROW, k1)
    )
    assert ranges.fits(tir.Sub(tir.Sub(tir.const(-limit, "int32"), k1), tir.const(0, "int32")))
    assert not ranges.fits(tir.Sub(tir.Var("any", "int32"), k1))
    assert not ranges.fits(tir.Add(tir.const(1, "int16"), tir.const(1, "int16")))
    assert not ranges.fits(tir.Add(tir.const(1, "uint32"), tir.const(1, "uint32")))
