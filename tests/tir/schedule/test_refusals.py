"""What is refused, word for word: the step, the program with the place underlined, what is wrong,
and what would be accepted. The texts are in tests/golden/refusals."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import loopwright as lw
from loopwright import tir
from loopwright.ir.module import IRModule
from loopwright.ir.transform import PassContext
from loopwright.script import from_source
from loopwright.tir.analysis import OOBChecker
from loopwright.tir.schedule import Schedule, ScheduleError

from ...programs import nest, prim_func
from .intrinsics import scaled

CHAIN = prim_func(
    "A: T.Buffer((16, 12)), C: T.Buffer((16,)), E: T.Buffer((16,))",
    "B = T.alloc_buffer((16, 12))",
    "D = T.alloc_buffer((16,))",
    nest("B", "B[vi, vj] = A[vi, vj] * T.float32(2)", i=16, j=12),
    nest("C", "C[vi] = C[vi] + B[vi, vk]", "C[vi] = T.float32(0)", i=16, k=12),
    nest("D", "D[vi] = C[vi] + T.float32(1)", i=16),
    nest("E", "T.reads(D[0:16])\nT.writes(E[vi])\nE[vi] = D[vi] * D[15 - vi]", i=16),
)
RACY = from_source("""
@T.prim_func
def main(A: T.Buffer((8, 4), "float32"), B: T.Buffer((8,), "float32")):
    for i, j in T.grid(8, 4):
        with T.block("B"):
            v = T.axis.spatial(8, i)
            B[v] = B[v] + A[v, 0]
""")
NEIGHBOUR = """
@T.prim_func
def main(B: T.Buffer((9,), "float32")):
    for i in range(8):
        with T.block("B"):
            v = T.axis.spatial(8, i)
            T.reads(B[v])
            T.writes(B[v + 1])
            B[v + 1] = B[v] * T.float32(2)
"""


def loop(s: Schedule, block: str, n: int) -> Any:
    return s.get_loops(block)[n]


def gone(s: Schedule) -> None:
    i = loop(s, "B", 0)
    s.split(i, [4, 4])
    s.parallel(i)


def twice(s: Schedule) -> None:
    s.annotate("B", "key", 1)
    s.annotate("B", "key", 2)


def init_inside(s: Schedule) -> None:
    _, k1 = s.split(loop(s, "C", 1), [None, 4])
    s.decompose_reduction("C", k1)


Case = Callable[[Schedule], Any]
FAMILIES: dict[str, tuple[tir.PrimFunc, dict[str, Case]]] = {
    "names": (
        CHAIN,
        {
            "get_block": lambda s: s.get_block("BB"),
            "get_loops": lambda s: s.get_loops(loop(s, "B", 0)),
            "a loop that is gone": gone,
            "work_on": lambda s: s.work_on("other"),
            "annotate": twice,
            "unannotate": lambda s: s.unannotate("B", "key"),
        },
    ),
    "sampling": (
        CHAIN,
        {
            "sample_categorical": lambda s: s.sample_categorical([1, 2], [0.5]),
            "sample_perfect_tile": lambda s: s.sample_perfect_tile(loop(s, "B", 0), 0),
        },
    ),
    "loops": (
        CHAIN,
        {
            "split that does not cover": lambda s: s.split(loop(s, "B", 0), [3, 4]),
            "split into unknown factors": lambda s: s.split(loop(s, "B", 0), [None, None]),
            "fuse": lambda s: s.fuse(loop(s, "B", 1), loop(s, "B", 0)),
            "merge": lambda s: s.merge(loop(s, "B", 0), loop(s, "D", 0)),
            "loop_partition": lambda s: s.loop_partition(loop(s, "B", 0), [8, 9]),
            "reorder": lambda s: s.reorder(loop(s, "B", 0), loop(s, "C", 0)),
            "add_unit_loop": lambda s: s.add_unit_loop("root"),
        },
    ),
    "racy parallel": (
        RACY,
        {
            "parallel": lambda s: s.parallel(loop(s, "B", 1)),
            "vectorize": lambda s: s.vectorize(loop(s, "B", 1)),
        },
    ),
    "kinds": (
        CHAIN,
        {
            "parallel": lambda s: s.parallel(loop(s, "C", 1)),
            "bind": lambda s: s.bind(loop(s, "B", 0), "threads"),
        },
    ),
    "caches": (
        CHAIN,
        {
            "cache_read": lambda s: s.cache_read("B", 2, "local"),
            "cache_inplace": lambda s: s.cache_inplace("B", 0, "local"),
            "reindex": lambda s: s.reindex("E", ("read", 0)),
            "reindex_cache_read": lambda s: s.reindex_cache_read(
                "B", 0, "local", lambda i, j: (i,)
            ),
            "set_scope": lambda s: s.set_scope("C", 0, "shared"),
            "storage_align": lambda s: s.storage_align("B", 0, 5, 8, 1),
            "unsafe_hide_buffer_access": lambda s: s.unsafe_hide_buffer_access("B", "reads", [0]),
        },
    ),
    "places": (
        CHAIN,
        {
            "compute_at": lambda s: s.compute_at("B", loop(s, "E", 0)),
            "compute_at an output": lambda s: s.compute_at("E", loop(s, "D", 0)),
            "reverse_compute_at": lambda s: s.reverse_compute_at("E", loop(s, "D", 0)),
            "compute_inline": lambda s: s.compute_inline("C"),
            "reverse_compute_inline": lambda s: s.reverse_compute_inline("E"),
            "rolling_buffer": lambda s: s.rolling_buffer("B", 0),
        },
    ),
    "reductions": (
        CHAIN,
        {
            "decompose_reduction": lambda s: s.decompose_reduction("B", loop(s, "B", 0)),
            "decompose_reduction inside": init_inside,
            "rfactor": lambda s: s.rfactor(loop(s, "C", 0), 0),
            "pad_einsum": lambda s: s.pad_einsum("C", [4]),
            "decompose_padding": lambda s: s.decompose_padding("B", loop(s, "B", 0)),
        },
    ),
    "layouts": (
        CHAIN,
        {
            "transform_layout": lambda s: s.transform_layout(
                "B", ("write", 0), lambda i, j: (i, j // 8, j % 8)
            ),
            "transform_block_layout": lambda s: s.transform_block_layout("B", lambda i, j: (i,)),
            "reorder_block_iter_var": lambda s: s.reorder_block_iter_var("B", [0, 0]),
            "set_axis_separator": lambda s: s.set_axis_separator("B", ("write", 0), [5]),
        },
    ),
    "blocks": (
        CHAIN,
        {
            "blockize": lambda s: s.blockize([s.get_block("B"), s.get_block("D")]),
            "tensorize another number": lambda s: s.tensorize(loop(s, "B", 1), scaled(3)),
            "tensorize another operation": lambda s: s.tensorize(
                loop(s, "B", 1), scaled(2, sign="+")
            ),
            "tensorize another extent": lambda s: s.tensorize(loop(s, "B", 1), scaled(2, n=8)),
            "tensorize another type": lambda s: s.tensorize(
                loop(s, "B", 1), scaled(2, dtype="int32")
            ),
        },
    ),
}


@pytest.mark.parametrize("family", FAMILIES)
def test_refusals(family: str, golden: Any) -> None:
    program, cases = FAMILIES[family]
    shown = []
    for name, case in cases.items():
        sch = Schedule(program)
        with pytest.raises(ScheduleError) as caught:
            case(sch)
        shown.append(f"---- {name}\n{caught.value}\n")
        message = caught.value.message()
        assert "\n  instead: " in message, name
    golden(f"refusals/{family.replace(' ', '_')}.txt", "\n".join(shown))


def test_every_step_has_a_refusal() -> None:
    """The families cover the primitives that can be refused."""
    tried = {name.split()[0] for _, cases in FAMILIES.values() for name in cases}
    assert len([name for name in tried if hasattr(Schedule, name)]) >= 35


@pytest.mark.parametrize("case", ["neighbour", "halved"])
def test_racy_by_its_indices(case: str, golden: Any) -> None:
    """Axes that are said to be spatial and are not: the primitives find the two iterations, and
    compiling does where the program says so itself."""
    source = NEIGHBOUR
    if case == "halved":
        source = source.replace("v + 1", "v // 2").replace("B[v] *", "T.float32(3) *")
        source = source.replace("T.reads(B[v])", "T.reads()")
    sch = Schedule(from_source(source))
    i = loop(sch, "B", 0)
    steps = [lambda: sch.parallel(i), *(lambda t=t: sch.bind(i, f"{t}.x") for t in THREADS)]
    if case == "neighbour":  # several lanes that write one element do so in their order
        steps.append(lambda: sch.vectorize(i))
    for step in steps:
        with pytest.raises(ScheduleError, match="conflict with each other"):
            step()
    with pytest.raises(ValueError) as caught:
        lw.compile(from_source(source.replace("range(8)", "T.parallel(8)")))
    golden(f"refusals/racy_{case}.txt", f"{caught.value}\n")


THREADS = ("blockIdx", "threadIdx", "vthread")


SHIFTED = """
@T.prim_func
def main(A: T.Buffer((8, 4), "float32"), B: T.Buffer((8, 4), "float32"), k: T.int32):
    for i, j in T.grid(8, 4):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            T.reads(A[0:8, vj])
            T.writes(B[vi, vj])
            B[vi, vj] = A[vi + k, vj] + T.float32(1)
"""


def test_out_of_bounds_at_run_time(golden: Any) -> None:
    """tir.instrument_bound_checkers: the buffer, the index and the source line."""
    with PassContext(config={"tir.instrument_bound_checkers": True}):
        exe = lw.compile(from_source(SHIFTED))
    a, b = np.ones((8, 4), "float32"), np.zeros((8, 4), "float32")
    exe["main"](a, b, 0)
    with pytest.raises(ValueError) as caught:
        exe["main"](a, b, 3)
    golden("refusals/out_of_bounds_at_run_time.txt", f"{caught.value}\n")


def test_out_of_bounds_before_running(golden: Any) -> None:
    func = from_source(SHIFTED.replace("vi + k", "vi + 1"))
    with pytest.raises(IndexError) as caught:
        OOBChecker()(IRModule({"main": func}))
    golden("refusals/out_of_bounds_before_running.txt", f"{caught.value}\n")


@pytest.mark.parametrize("statement", ["B[v + 1] = B[v]", "B[v // 2] = A[v]", "B[v] = B[v + 3]"])
def test_iterations_that_depend_on_each_other_keep_their_order(statement: str) -> None:
    func = from_source(f"""
@T.prim_func
def main(A: T.Buffer((8,), "float32"), B: T.Buffer((12,), "float32")):
    for i, j in T.grid(2, 4):
        with T.block("B"):
            v = T.axis.spatial(8, i * 4 + j)
            {statement}
""")
    sch = Schedule(func)
    i, j = sch.get_loops("B")
    if statement == "B[v // 2] = A[v]":  # the order within a pair stays
        sch.reorder(j, i)
        return
    with pytest.raises(ScheduleError, match="would run in the opposite order"):
        sch.reorder(j, i)
