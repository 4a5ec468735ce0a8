"""Which loops give a block points of their own, against a count of all iterations."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from loopwright import tir
from loopwright.script import from_source
from loopwright.tir import ScheduleError
from loopwright.tir.schedule.machinery.axis_bindings import injective

UPDATE = """
@T.prim_func
def main(n: T.int32, A: T.Buffer((1,), "float32"), B: T.Buffer((999,), "float32")):
    for i, j in T.grid({}, {}):
        with T.block("B"):
            v = T.axis.spatial(999, {})
            B[v] = B[v] + A[0]
"""


def runs(step: str, i: Any = 4, j: Any = 8, binding: str = "") -> bool:
    """Whether the loop `step` of an update in place may run in parallel."""
    sch = tir.Schedule(from_source(UPDATE.format(i, j, binding)), error_render_level="none")
    try:
        sch.parallel(sch.get_loops("B")["ij".index(step)])
    except ScheduleError:
        return False
    return True


@pytest.mark.parametrize(
    "binding, i, j",
    [
        ("i * 8 + j", True, True), ("i * 7 + j", False, False), ("i * 9 + j", True, True), ("i * 8 + j * 2", False, False),
        ("i * 16 + j * 2", True, True), ("j * 4 + i", True, True), ("j * 3 + i", False, False), ("i * 8 - j + 7", True, True),
        ("i", True, False), ("j", False, True), ("i // 2", False, False), ("i % 2 + j * 2", False, True),
        ("(i * 8 + j) // 4", True, False), ("(i * 8 + j) % 8", False, True), ("(i * 8 + j) % 32", True, True),
        ("i + j", False, False), ("i * j", False, False), ("i * 2 + j // 4", True, False), ("8 * i + 7 - j", True, True),
        ("(3 - i) * 8 + j", True, True), ("i * 8 + j % 4", True, False), ("i * 8 - j", True, True), ("j - i", False, False),
    ],
)  # fmt: skip
def test_updates_in_parallel(binding: str, i: bool, j: bool) -> None:
    assert (runs("i", binding=binding), runs("j", binding=binding)) == (i, j)
    points = [(x, y, eval(binding, {"i": x, "j": y})) for x, y in product(range(4), range(8))]
    assert len({v for *_, v in points}) == len({(x, v) for x, _, v in points}) or not i
    assert len({(x, v) for x, _, v in points}) == len({(x, y, v) for x, y, v in points}) or not j


@pytest.mark.parametrize(
    "i, j, binding, first, second",
    [
        ("n", 8, "i * 8 + j", True, True), (4, "n", "j * 4 + i", True, True), (4, "n", "i * 8 + j", False, False),
        (4, "n", "j", False, True), ("n", 8, "i * 4 + j // 2", True, False), ("n", 8, "(i * 8 + j) // n", False, False),
        (4, 8, "(i * 8 + j) % n", False, False),
    ],
)  # fmt: skip
def test_updates_in_parallel_of_unknown_length(
    i: Any, j: Any, binding: str, first: bool, second: bool
) -> None:
    assert (runs("i", i, j, binding), runs("j", i, j, binding)) == (first, second)


@pytest.mark.parametrize(
    "axes, where, inner, both",
    [
        ("i, j", "True", True, True), ("j, i", "True", True, True), ("i * 8 + j, 0", "True", True, True),
        ("i * 7 + j, 0", "True", True, False), ("i * 9 + j, 0", "True", True, True), ("i, i", "True", False, False),
        ("j, j", "True", None, False), ("i * 8 + j, i", "True", None, None), ("i + j, j", "True", None, None),
        ("(i * 8 + j) // 4, (i * 8 + j) % 4", "True", True, True), ("(i * 8 + j) // 4, 0", "True", False, False),
        ("(i * 8 + j) // 4, (i * 8 + j) % 3", "True", None, None), ("j // 2, i", "True", False, False),
        ("i, j * 2", "True", True, True), ("i * 8 + j, 0", "i * 8 + j < 30", True, True), ("i * i, j", "True", True, None),
        ("i * 3 + j, 0", "j < 3", True, None), ("i + 1, 7 - j", "True", True, True),
    ],
)  # fmt: skip
def test_points_of_their_own(axes: str, where: str, inner: bool | None, both: bool | None) -> None:
    """None: it is so or not, but need not be found."""
    a, b = axes.split(", ")
    func = from_source(f"""
@T.prim_func
def main(B: T.Buffer((64, 64), "float32")):
    for i, j in T.grid(4, 8):
        with T.block("B"):
            T.where({where})
            v = T.axis.spatial(64, {a})
            w = T.axis.spatial(64, {b})
            B[v, w] = T.float32(1)
""")
    sch = tir.Schedule(func)
    ref = sch.get_sref(sch.get_block("B"))
    loops = [sch.get_sref(loop) for loop in sch.get_loops("B")]
    for chosen, wanted in ((loops[1:], inner), (loops, both)):
        fixed = (0,) if len(chosen) == 1 else range(4)
        points = [
            eval(axes, {"i": x, "j": y})
            for x, y in product(fixed, range(8))
            if eval(where, {"i": x, "j": y})
        ]
        found = injective(sch.state, ref, chosen)
        assert not found or len(set(points)) == len(points)
        assert wanted in (None, found)
    assert injective(sch.state, ref, [])


@pytest.mark.parametrize(
    "axes, found", [("i * 8 + j, k", True), ("i, j * 8 + k", True), ("i * 8 + k, j", True), ("i, k * 8 + j", True),
                    ("i * 4 + j, k", False), ("k * 4 + i, j", False)]
)  # fmt: skip
def test_points_of_loops_of_unknown_length(axes: str, found: bool) -> None:
    """i has n iterations, j and k have 8: below a loop of unknown length nothing has a place."""
    sch = tir.Schedule(
        from_source(f"""
@T.prim_func
def main(n: T.int32, B: T.Buffer((999, 999), "float32")):
    for i, j, k in T.grid(n, 8, 8):
        with T.block("B"):
            v = T.axis.spatial(999, {axes.split(", ")[0]})
            w = T.axis.spatial(999, {axes.split(", ")[1]})
            B[v, w] = T.float32(1)
""")
    )
    loops = [sch.get_sref(loop) for loop in sch.get_loops("B")]
    assert injective(sch.state, sch.get_sref(sch.get_block("B")), loops) == found
