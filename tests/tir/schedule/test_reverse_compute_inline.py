"""`reverse_compute_inline` where the element read is a map of the axes, or a part is read."""

from __future__ import annotations

from math import prod

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loopwright import tir
from loopwright.arith import Analyzer
from loopwright.ir.prim_expr import Range
from loopwright.script import from_source
from loopwright.script import tir as T
from loopwright.tir.schedule import ScheduleError
from loopwright.tir.schedule.primitives.reverse_compute_inline import outside

from .util import check

_PROGRAM = """
@T.prim_func
def main(A: T.Buffer(({n},), "float32"), C: T.Buffer({shape}, "float32")):
    B = T.alloc_buffer({made})
    for {loops}:
        with T.block("B"):
            {axes}
            B[{store}] = A[{flat}] * T.float32(2)
    for {reads}:
        with T.block("C"):
            {by}
            C[{to}] = B[{load}] + T.float32(1)
"""

_FLAT = {"loops": "i in range(24)", "axes": "v = T.axis.spatial(24, i)", "store": "v", "flat": "v"}
_GRID = {
    "loops": "i, j in T.grid(6, 4)",
    "axes": 'v, w = T.axis.remap("SS", [i, j])',
    "store": "v, w",
    "flat": "v * 4 + w",
}
_TO_FLAT = {"shape": "(24,)", "to": "v", "reads": "i in range(24)"}
_BY_FLAT = "v = T.axis.spatial(24, i)"
_TO_GRID = {"shape": "(6, 4)", "to": "v, w", "reads": "i, j in T.grid(6, 4)"}
_BY_GRID = 'v, w = T.axis.remap("SS", [i, j])'

CASES = {
    "split": (
        {"n": 24, "made": "(24,)", **_FLAT, **_TO_GRID, "by": _BY_GRID, "load": "v * 4 + w"},
        "C[v // 4, v % 4] = A[v] * T.float32(2.0) + T.float32(1.0)",
    ),
    "fuse": (
        {"n": 24, "made": "(6, 4)", **_GRID, **_TO_FLAT, "by": _BY_FLAT, "load": "v // 4, v % 4"},
        "C[w + v * 4] = A[v * 4 + w] * T.float32(2.0) + T.float32(1.0)",
    ),
    "transpose of blocks": (
        {
            "n": 24,
            "made": "(24,)",
            **_FLAT,
            **_TO_GRID,
            "by": _BY_GRID,
            "load": "(v % 2) * 12 + v // 2 * 4 + w",
        },
        "C[v // 4 * 2 - v // 12 * 5, v % 4] = A[v] * T.float32(2.0) + T.float32(1.0)",
    ),
    "shift": (
        {
            "n": 24,
            "made": "(24,)",
            **_FLAT,
            "shape": "(20,)",
            "to": "v",
            "reads": "i in range(20)",
            "by": "v = T.axis.spatial(20, i)",
            "load": "v + 3",
        },
        "T.where(0 <= i - 3 and i - 3 < 20)",
    ),
    "every other": (
        {
            "n": 24,
            "made": "(24,)",
            **_FLAT,
            "shape": "(12,)",
            "to": "v",
            "reads": "i in range(12)",
            "by": "v = T.axis.spatial(12, i)",
            "load": "v * 2",
        },
        "T.where(i == i // 2 * 2)",
    ),
    "a part by its loops": (
        {
            "n": 24,
            "made": "(24,)",
            **_FLAT,
            "shape": "(24,)",
            "to": "v",
            "reads": "i in range(9)",
            "by": "v = T.axis.spatial(24, i + 5)",
            "load": "v",
        },
        "T.where(",
    ),
    "a part by its predicate": (
        {
            "n": 24,
            "made": "(24,)",
            **_FLAT,
            **_TO_GRID,
            "by": f"{_BY_GRID}\n            T.where(i < 4 or j < 2)",
            "load": "v * 4 + w",
        },
        "T.where(i // 4 < 4 or i % 4 < 2)",
    ),
}


def program(fields: dict[str, object]) -> tir.PrimFunc:
    return from_source(_PROGRAM.format(**fields))


@pytest.mark.parametrize("name", CASES)
def test_inverse(name: str) -> None:
    fields, expected = CASES[name]
    func = program(fields)
    sch = tir.Schedule(func, debug_mask="all")
    sch.reverse_compute_inline("C")
    text = sch.mod["main"].script()
    assert expected in text, text
    assert "alloc_buffer" not in text
    check(sch, func)


@given(st.data())
@settings(max_examples=40, deadline=None)
def test_inverse_of_random_maps(data: st.DataObject) -> None:
    """Digits of the axes in any order, in one index: the element goes where it was read from."""
    sizes = data.draw(st.lists(st.sampled_from([2, 3, 4, 6]), min_size=1, max_size=3))
    digits = []
    for n, size in enumerate(sizes):
        cut = data.draw(st.sampled_from([c for c in (1, 2, 3) if size % c == 0]))
        digits.append((f"a{n} // {cut}", size // cut))
        if cut > 1:
            digits.append((f"a{n} % {cut}", cut))
    order = data.draw(st.permutations(digits))
    index, scale = [], 1
    for text, extent in order:
        index.append(f"{text} * {scale}")
        scale *= extent
    total = prod(sizes)
    grid = ", ".join(f"i{n}" for n in range(len(sizes)))
    axes = [f"a{n} = T.axis.spatial({size}, i{n})" for n, size in enumerate(sizes)]
    func = program(
        {
            **_FLAT,
            "n": total,
            "made": f"({total},)",
            "loops": f"i in range({total})",
            "axes": f"v = T.axis.spatial({total}, i)",
            "shape": f"({''.join(f'{s}, ' for s in sizes)})",
            "reads": f"{grid} in T.grid({', '.join(map(str, sizes))})",
            "by": "\n            ".join(axes),
            "to": ", ".join(f"a{n}" for n in range(len(sizes))),
            "load": " + ".join(index),
        }
    )
    sch = tir.Schedule(func)
    sch.reverse_compute_inline("C")
    check(sch, func, replay=False)


def test_after_splits_of_both() -> None:
    func = program(CASES["fuse"][0])
    sch = tir.Schedule(func, debug_mask="all")
    sch.split(sch.get_loops("B")[0], [None, 4])
    sch.split(sch.get_loops("C")[0], [None, 5])
    sch.reverse_compute_inline("C")
    check(sch, func)


_SUM = """
@T.prim_func
def main(A: T.Buffer((6, 4, 5), "float32"), C: T.Buffer({shape}, "float32")):
    B = T.alloc_buffer((6, 4))
    for i, j, k in T.grid(6, 4, 5):
        with T.block("B"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                B[vi, vj] = T.float32(0)
            B[vi, vj] = B[vi, vj] + A[vi, vj, vk]
    for i, j in T.grid({grid}):
        with T.block("C"):
            v, w = T.axis.remap("SS", [i, j])
            C[{to}] = {value}
"""


@pytest.mark.parametrize(
    ("shape", "grid", "to", "value", "expected"),
    [
        ("(4, 6)", "6, 4", "w, v", "B[v, w]", "C[vj, vi] = C[vj, vi] + A[vi, vj, vk]"),
        (
            "(24,)",
            "6, 4",
            "v * 4 + w",
            "B[v, w]",
            "C[vi * 4 + vj] = C[vi * 4 + vj] + A[vi, vj, vk]",
        ),
        ("(3, 4)", "3, 4", "v, w", "B[v + 2, w]", "and 0 <= i - 2 and i - 2 < 3)"),
    ],
)
def test_a_copy_of_a_reduction(shape: str, grid: str, to: str, value: str, expected: str) -> None:
    func = from_source(_SUM.format(shape=shape, grid=grid, to=to, value=value))
    sch = tir.Schedule(func, debug_mask="all")
    sch.split(sch.get_loops("B")[2], [None, 2])
    sch.reverse_compute_inline("C")
    text = sch.mod["main"].script()
    assert expected in text and "alloc_buffer" not in text, text
    check(sch, func)


def test_what_is_computed_from_a_reduction_is_not_a_copy() -> None:
    fields = {"shape": "(6, 4)", "grid": "6, 4", "to": "v, w", "value": "B[v, w] * T.float32(2)"}
    sch = tir.Schedule(from_source(_SUM.format(**fields)))
    with pytest.raises(ScheduleError, match="block 'B' is more than one store"):
        sch.reverse_compute_inline("C")


@pytest.mark.parametrize("load", ["v // 2 * 2", "v * v", "v % 12", "0"])
def test_refused(load: str) -> None:
    fields = {
        "n": 24,
        "made": "(24,)",
        **_FLAT,
        "shape": "(24,)",
        "to": "v",
        "reads": "i in range(24)",
        "by": _BY_FLAT,
        "load": load,
    }
    sch = tir.Schedule(program(fields))
    before = sch.func
    with pytest.raises(ScheduleError, match="do not follow from its load of B"):
        sch.reverse_compute_inline("C")
    assert sch.func is before


def test_a_consumer_whose_loops_depend_on_each_other() -> None:
    @T.prim_func
    def f(A: T.Buffer((4, 4)), C: T.Buffer((4, 4))):
        B = T.alloc_buffer((4, 4))
        for i, j in T.grid(4, 4):
            with T.block("B"):
                v, w = T.axis.remap("SS", [i, j])
                B[v, w] = A[v, w] * T.float32(2)
        for i in range(4):
            for j in range(i + 1):
                with T.block("C"):
                    v = T.axis.spatial(4, i)
                    w = T.axis.spatial(4, j)
                    C[v, w] = B[v, w] + T.float32(1)

    sch = tir.Schedule(f, debug_mask="all")
    sch.reverse_compute_inline("C")
    check(sch, f)


def test_a_part_of_tiles_that_are_not_all_read() -> None:
    """v // 4 and v % 4 say which v it is, also where the last tile is read in part."""

    @T.prim_func
    def f(A: T.Buffer((16,)), C: T.Buffer((15,))):
        B = T.alloc_buffer((4, 4))
        for i, j in T.grid(4, 4):
            with T.block("B"):
                v, w = T.axis.remap("SS", [i, j])
                B[v, w] = A[v * 4 + w] * T.float32(2)
        for i in range(15):
            with T.block("C"):
                v = T.axis.spatial(15, i)
                C[v] = B[v // 4, v % 4] + T.float32(1)

    sch = tir.Schedule(f, debug_mask="all")
    sch.reverse_compute_inline("C")
    check(sch, f)
    assert "T.where(i * 4 + j < 15)" in sch.mod.script()


@pytest.mark.parametrize(
    ("shift", "extent", "tests"),
    [(0, 8, ""), (-1, 9, "0 <= v - 1"), (0, 7, "v < 7"), (1, 9, ""), (1, 8, "v + 1 < 8"), (-1, 6, "0 <= v - 1, v - 1 < 6"), (3, 11, "")],
)  # fmt: skip
def test_what_says_that_a_value_is_in_a_domain(shift: int, extent: int, tests: str) -> None:
    """v runs over 0 to 7."""
    v, ana = tir.Var("v", "int32"), Analyzer()
    ana.bind(v, Range(0, 8))
    made = outside(ana, v + shift if shift else v, Range(0, extent))
    for k in range(8):
        hold = all(
            Analyzer().simplify(tir.stmt_functor.substitute(t, {v: tir.const(k)})).value
            for t in made
        )
        assert hold == (0 <= k + shift < extent)
    assert len(made) == len(tests.split(", ")) * bool(tests)
