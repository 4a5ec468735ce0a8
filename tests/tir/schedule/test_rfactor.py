"""`rfactor` of several buffers reduced together: argmax and its like."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import loopwright as lw
from loopwright import te, tir
from loopwright.script import from_source
from loopwright.tir.interpreter import run
from loopwright.tir.schedule import ScheduleError

from ...codegen.emitted import call, compiled
from .util import check


def reduced(fcombine: Callable[[Any, Any], Any], identity: tuple[float, float]) -> tir.PrimFunc:
    """(idx, val) reduced along rows by a combiner of pairs."""
    idx = te.placeholder((6, 16), "int32", "idx")
    val = te.placeholder((6, 16), "float32", "val")
    k = te.reduce_axis((0, 16), "k")
    reducer = te.comm_reducer(
        fcombine,
        lambda a, b: (tir.const(int(identity[0]), a), tir.const(identity[1], b)),
        name="pair",
    )
    out = te.compute((6,), lambda i: reducer((idx[i, k], val[i, k]), axis=k), name="R")
    return te.create_prim_func([idx, val, *out])


def argmax(x: Any, y: Any) -> Any:
    return tir.Select(x[1] >= y[1], x[0], y[0]), tir.Select(x[1] >= y[1], x[1], y[1])


def argmin(x: Any, y: Any) -> Any:
    return tir.Select(x[1] < y[1], x[0], y[0]), tir.Select(x[1] < y[1], x[1], y[1])


def first_argmax(x: Any, y: Any) -> Any:
    """The least index of equal ones."""
    keep = tir.any(x[1] > y[1], tir.all(x[1] == y[1], x[0] < y[0]))
    return tir.Select(keep, x[0], y[0]), tir.Select(keep, x[1], y[1])


def by_maximum(x: Any, y: Any) -> Any:
    return tir.Select(x[1] > y[1], x[0], y[0]), tir.max(x[1], y[1])


def sums(x: Any, y: Any) -> Any:
    return x[0] + y[0], x[1] + y[1]


COMBINERS = {
    "argmax": (argmax, (-1, -3e38)),
    "argmin": (argmin, (-1, 3e38)),
    "first argmax": (first_argmax, (1 << 20, -3e38)),
    "by maximum": (by_maximum, (-1, -3e38)),
    "sums": (sums, (0, 0.0)),
}


def arguments() -> list[np.ndarray]:
    rng = np.random.default_rng(3)
    idx = rng.integers(0, 1000, (6, 16)).astype("int32")
    val = rng.permutation(96).reshape(6, 16).astype("float32")
    return [idx, val, np.zeros(6, "int32"), np.zeros(6, "float32")]


@pytest.mark.parametrize("name", COMBINERS)
@pytest.mark.parametrize(("which", "axis"), [(0, 0), (1, 1), (1, -1)])
def test_pairs(name: str, which: int, axis: int) -> None:
    func = reduced(*COMBINERS[name])
    sch = tir.Schedule(func, debug_mask="all")
    loops = sch.split(sch.get_loops("R")[1], [None, 4])
    rf = sch.rfactor(loops[which], axis)
    assert [w.buffer.name for w in sch.get(rf).writes] == ["R_v0_rf", "R_v1_rf"]
    before, after = arguments(), arguments()
    run(func, before)
    run(sch.mod["main"], after)
    for want, got in zip(before, after, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5)
    sch.decompose_reduction("R", sch.get_loops("R")[1])
    sch.parallel(sch.get_loops(rf)[0])
    again = arguments()
    run(sch.mod["main"], again)
    np.testing.assert_array_equal(again[2], before[2])
    native = arguments()
    lw.compile(sch.mod["main"])["main"](*native)
    np.testing.assert_array_equal(native[2], before[2])


def test_equal_ones_with_a_rule() -> None:
    """A combiner that says which of equal ones counts gives that one in any order."""
    func = reduced(*COMBINERS["first argmax"])
    sch = tir.Schedule(func)
    sch.rfactor(sch.split(sch.get_loops("R")[1], [None, 4])[1], 0)
    before, after = arguments(), arguments()
    for args in (before, after):
        args[1][:] = np.round(args[1] / 40)
    run(func, before)
    run(sch.mod["main"], after)
    np.testing.assert_array_equal(after[2], before[2])


INDEX, VALUE = "I[v] = T.Select(V[v] >= A[v, w], I[v], w)", "V[v] = T.max(V[v], A[v, w])"


def argmax_by_stores(first: str, second: str) -> tir.PrimFunc:
    """The greatest of each row and its place, by two stores."""
    return from_source(f"""
@T.prim_func
def main(A: T.Buffer((6, 16), "float32"), I: T.Buffer((6,), "int32"), V: T.Buffer((6,), "float32")):
    for i, k in T.grid(6, 16):
        with T.block("R"):
            v, w = T.axis.remap("SR", [i, k])
            with T.init():
                I[v] = -1
                V[v] = T.float32(-3e38)
            {first}
            {second}
""")


def test_stores_without_lets() -> None:
    func = argmax_by_stores(INDEX, VALUE)
    sch = tir.Schedule(func, debug_mask="all")
    sch.rfactor(sch.split(sch.get_loops("R")[1], [4, None])[0], 0)
    check(sch, func)


def pick_first(x: Any, y: Any) -> Any:
    return x


def not_associative(x: Any, y: Any) -> Any:
    keep = tir.any(x[0] < y[0], x[1] < y[1])
    return tir.Select(keep, x[0], y[0]), tir.Select(keep, x[1], y[1])


def other_values(x: Any, y: Any) -> Any:
    keep = x[1] >= y[1] + 1.0
    return tir.Select(keep, x[0], y[0]), tir.Select(keep, x[1], y[1])


@pytest.mark.parametrize("fcombine", [pick_first, not_associative, other_values])
def test_refused(fcombine: Any) -> None:
    sch = tir.Schedule(reduced(fcombine, (0, 0.0)))
    k = sch.get_loops("R")[1]
    with pytest.raises(ScheduleError, match="the reduction of block 'R' is not recognized"):
        sch.rfactor(k, 0)


def test_a_store_that_reads_what_was_stored() -> None:
    sch = tir.Schedule(argmax_by_stores(VALUE, INDEX))
    with pytest.raises(ScheduleError, match="is not recognized"):
        sch.rfactor(sch.get_loops("R")[1], 0)


SUMS = """
@T.prim_func
def main(A: T.Buffer((4, 6), "float32"), B: T.Buffer((4,), "float32")):
    for i, k, u in T.grid(4, 6, 1):
        with T.block("B"):
            v, w = T.axis.remap("SR", [i, k])
            with T.init():
                B[v] = T.float32(0)
            B[v] = B[v] + A[v, w]
"""


def test_what_leaves_nothing_to_reduce_is_a_copy() -> None:
    before = from_source(SUMS)
    sch = tir.Schedule(before)
    first = sch.get(sch.rfactor(sch.get_loops("B")[1], 0))
    assert first.init is None and isinstance(first.body.value, tir.BufferLoad)
    check(sch, before)


def test_a_loop_of_one_iteration_may_be_the_factor() -> None:
    before = from_source(SUMS)
    sch = tir.Schedule(before)
    first = sch.get(sch.rfactor(sch.get_loops("B")[2], 0))
    assert [int(e) for e in first.writes[0].buffer.shape] == [1, 4]
    check(sch, before)


def test_a_parallel_loop_is_no_factor() -> None:
    unsafe = tir.Schedule(from_source(SUMS), enable_check=False)
    unsafe.parallel(unsafe.get_loops("B")[1])
    racy = tir.Schedule(unsafe.mod)
    with pytest.raises(ScheduleError, match="does not run in order"):
        racy.rfactor(racy.get_loops("B")[1], 0)


def test_results_come_in_the_order_of_the_writes() -> None:
    text = """
@T.prim_func
def main(I: T.Buffer((4, 6), "int32"), X: T.Buffer((4, 6), "float32"),
         R0: T.Buffer((4,), "int32"), R1: T.Buffer((4,), "float32")):
    for i, k in T.grid(4, 6):
        with T.block("R"):
            v, w = T.axis.remap("SR", [i, k])
            T.reads(I[v, w], X[v, w])
            T.writes(R0[v], R1[v])
            with T.init():
                R1[v] = T.float32(3e38)
                R0[v] = -1
            r0: T.int32 = T.Select(R1[v] <= X[v, w], R0[v], I[v, w])
            r1: T.float32 = T.Select(R1[v] <= X[v, w], R1[v], X[v, w])
            R1[v] = r1
            R0[v] = r0
"""
    sch = tir.Schedule(from_source(text))
    first = sch.get(sch.rfactor(sch.get_loops("R")[1], 0))
    assert [r.buffer.name for r in first.writes] == ["R0_rf", "R1_rf"]
    assert [r.buffer.name for r in first.reads] == ["I", "X"]
    assert [b.name for b in sch.get(sch.get_block("root")).alloc_buffers] == ["R0_rf", "R1_rf"]


COMBINED = """
@T.prim_func
def main(A: T.Buffer((4, 12), "int32"), V: T.Buffer((4,), "int32"), I: T.Buffer((4,), "int32")):
    for i, k in T.grid(4, 12):
        with T.block("V"):
            v, u = T.axis.remap("SR", [i, k])
            with T.init():
                V[v] = {low}
                I[v] = {first}
            x: T.int32 = {choice}({condition}, V[v], A[v, u])
            y: T.int32 = {choice}({condition}, I[v], u)
            V[v] = x
            I[v] = y
"""
SINGLE = """
@T.prim_func
def main(A: T.Buffer((4, 12), "int32"), V: T.Buffer((4,), "int32"), I: T.Buffer((4,), "int32")):
    for i, k in T.grid(4, 12):
        with T.block("V"):
            v, u = T.axis.remap("SR", [i, k])
            with T.init():
                V[v] = {init}
            V[v] = {value}
"""


def combined(text: str) -> None:
    """Factor a reduction of different numbers and run it."""
    func = from_source(text)
    sch = tir.Schedule(func, debug_mask="all")
    _, inner = sch.split(sch.get_loops("V")[1], [None, 4])
    sch.rfactor(inner, 1)
    data = np.random.default_rng(0).permutation(48).reshape(4, 12).astype("int32") + 1
    results = []
    for f in (func, sch.mod["main"]):
        args = [data % 9 if " * A" in text else data, *np.zeros((2, 4), "int32")]
        run(f, args)
        results.append(args[1:])
    np.testing.assert_array_equal(results[0], results[1])


@pytest.mark.parametrize("choice", ["T.Select", "T.if_then_else"])
@pytest.mark.parametrize(
    ("condition", "refused"),
    [
        ("V[v] >= A[v, u]", ""),
        ("A[v, u] < V[v]", ""),
        ("V[v] > A[v, u] or V[v] == A[v, u] and I[v] < u", ""),
        ("not V[v] < A[v, u]", ""),
        ("T.max(V[v], 5) > A[v, u]", "the reduction of block 'V' is not recognized"),
        ("V[v] + 1 > A[v, u]", "the reduction of block 'V' is not recognized"),
        ("I[v] < 3", "the reduction of block 'V' is not recognized"),
        ("V[v] != A[v, u]", "a combiner that is associative"),
        ("V[v] >= A[v, u] and I[v] > u", "a combiner that is associative"),
        ("V[v] > A[v, u] or I[v] < u", "a combiner that is associative"),
    ],
)
def test_selections(condition: str, refused: str, choice: str) -> None:
    text = COMBINED.format(condition=condition, choice=choice, low="-1", first="99")
    if not refused:
        combined(text)
        return
    with pytest.raises(ScheduleError) as error:
        combined(text)
    assert refused in str(error.value)


@pytest.mark.parametrize(
    ("value", "init", "refused"),
    [
        ("V[v] + A[v, u]", "0", False),
        ("A[v, u] + V[v]", "0", False),
        ("V[v] + A[v, u]", "1", True),
        ("V[v] * A[v, u]", "1", False),
        ("V[v] * A[v, u]", "0", True),
        ("T.max(V[v], A[v, u])", "-5", False),
        ("T.min(A[v, u], V[v])", "1000", False),
        ("V[v] - A[v, u]", "0", True),
        ("V[v] + V[v]", "0", True),
        ("V[v] + A[v, u] * V[v]", "0", True),
        ("V[v] + A[v, u] * u", "0", False),
    ],
)
def test_operators(value: str, init: str, refused: bool) -> None:
    text = SINGLE.format(value=value, init=init)
    if not refused:
        combined(text)
        return
    with pytest.raises(ScheduleError):
        combined(text)


@pytest.mark.parametrize(
    ("second", "first", "refused"),
    [
        ("I[v] + u", "0", ""), ("I[v] + u", "1", "init T.int32(1)|init 1"), ("T.max(u, I[v])", "-1", ""), ("I[v] - u", "0", "not recognized"),
        ("T.Select(I[v] > u, I[v], u)", "-1", ""), ("T.Select(I[v] < u, u, I[v])", "-1", ""), ("T.Select(u < I[v], u, I[v])", "99", ""),
        ("T.Select(V[v] < A[v, u], I[v], u)", "99", "combiner that is associative"), ("T.Select(V[v] >= A[v, u], I[v], I[v])", "99", "not recognized"),
        ("T.Select(V[v] >= A[v, u], I[v], u + 1)", "99", ""), ("I[v] + V[v]", "0", "not recognized"), ("I[v] * (u % 2 + 1)", "1", ""),
        ("T.Select(not V[v] < A[v, u] and V[v] != A[v, u] or V[v] == A[v, u], I[v], u)", "99", ""),
        ("T.Select(T.likely(V[v] >= A[v, u]), I[v], u)", "99", "not recognized"),
    ],
)  # fmt: skip
def test_what_is_combined_beside_a_maximum(second: str, first: str, refused: str) -> None:
    y = "y: T.int32 = {choice}({condition}, I[v], u)"
    text = COMBINED.replace(y, f"y: T.int32 = {second}")
    text = text.format(condition="V[v] >= A[v, u]", choice="T.Select", low="-1", first=first)
    if not refused:
        combined(text)
        return
    with pytest.raises(ScheduleError) as error:
        combined(text)
    assert any(said in str(error.value) for said in refused.split("|"))


def test_three_that_are_compared() -> None:
    three = COMBINED.replace(
        'I: T.Buffer((4,), "int32")', 'I: T.Buffer((4,), "int32"), J: T.Buffer((4,), "int32")'
    )
    three = three.replace("I[v] = {first}", "I[v] = {first}\n                J[v] = -1").replace(
        "            V[v] = x\n",
        "            z: T.int32 = T.max(J[v], u)\n            V[v] = x\n            J[v] = z\n",
    )
    one, two = "V[v] > A[v, u]", "V[v] == A[v, u] and I[v] < u"
    for condition, refused in (
        (one, False),
        (f"{one} or {two}", False),
        (f"{one} or {two} or J[v] > u", True),
    ):
        sch = tir.Schedule(
            from_source(three.format(condition=condition, choice="T.Select", low="-1", first="99"))
        )
        step = lambda s=sch: s.rfactor(s.get_loops("V")[1], 0)  # noqa: E731
        if refused:
            with pytest.raises(ScheduleError, match="combiner that is associative"):
                step()
        else:
            step()


FOLDED = """
@T.prim_func
def main(A: T.Buffer((5, {k}, 3), "int32"), B: T.Buffer((5,), "int32")):
    for i, k, l in T.grid(5, {k}, 3):
        with T.block("B"):
            v, w, u = T.axis.remap("SRR", [i, k, l])
            with T.init():
                B[v] = {init}
            B[v] = {value}
"""
FOLDS: dict[str, tuple[str, str, Callable[..., np.ndarray]]] = {
    "sum": ("0", "B[v] + A[v, w, u]", lambda a: a.sum((1, 2), dtype="int32")),
    "product": ("1", "B[v] * A[v, w, u]", lambda a: a.prod((1, 2), dtype="int32")),
    "least": ("1000", "T.min(B[v], A[v, w, u])", lambda a: a.min((1, 2))),
}


def order(sch: tir.Schedule, *loops: int) -> None:
    found = sch.get_loops("B")
    sch.reorder(*(found[k] for k in loops))


def begin(sch: tir.Schedule, loop: int, block: Any = "B") -> None:
    sch.decompose_reduction(block, sch.get_loops(block)[loop])


def factor(sch: tir.Schedule, loop: int, axis: int, start: int) -> Any:
    """Factor a loop out; the init of the first step stands before loop `start`, that of the second
    before its reduction."""
    first = sch.rfactor(sch.get_loops("B")[loop], axis)
    begin(sch, start, first)
    begin(sch, 1)
    return first


def split(sch: tir.Schedule, loop: int, inner: int) -> None:
    sch.split(sch.get_loops("B")[loop], [None, inner])


# What becomes of the loops i, k0, k1, l of a block whose loop k was split.
STEPS: dict[str, list[Callable[[tir.Schedule], object]]] = {
    "as it is": [],
    "begun": [lambda s: begin(s, 1)],
    "begun outside": [lambda s: begin(s, 0)],
    "other order": [lambda s: order(s, 3, 2, 1), lambda s: begin(s, 1)],
    "rows inside": [lambda s: order(s, 1, 2, 0), lambda s: begin(s, 0)],
    "rows in tiles": [lambda s: split(s, 0, 2), lambda s: order(s, 2, 1), lambda s: begin(s, 1)],
    "fused": [lambda s: s.fuse(*s.get_loops("B")[2:]), lambda s: begin(s, 1)],
    "split again": [lambda s: split(s, 2, 3), lambda s: begin(s, 1)],
    "outer factor": [lambda s: factor(s, 1, 0, 2)],
    "inner factor": [lambda s: order(s, 2, 1), lambda s: factor(s, 1, -1, 2)],
    "last factor": [lambda s: factor(s, 3, 1, 1)],
    "rows in tiles, factor": [lambda s: split(s, 0, 2), lambda s: factor(s, 4, 0, 2)],
    "two factors": [lambda s: s.rfactor(s.get_loops(s.rfactor(s.get_loops("B")[1], 0))[3], 1)],
}


@pytest.mark.sample(2)
@pytest.mark.parametrize("steps", STEPS)
@pytest.mark.parametrize("fold", FOLDS)
def test_split_reductions(fold: str, steps: str) -> None:
    """numpy's numbers, also where a factor does not divide the extent."""
    init, value, meaning = FOLDS[fold]
    made, data = {}, {}
    for extent, factor in ((12, 4), (13, 4), (7, 5)):
        sch = tir.Schedule(from_source(FOLDED.format(k=extent, init=init, value=value)))
        sch.split(sch.get_loops("B")[1], [None, factor])
        for step in STEPS[steps]:
            step(sch)
        name = f"of_{extent}_by_{factor}"
        made[name] = sch.mod["main"]
        data[name] = np.random.default_rng(extent).integers(-4, 5, (5, extent, 3)).astype("int32")
    entries = compiled(made)
    for name, func in made.items():
        for execute in (run, lambda f, args, n=name: call(entries[n], f, args)):
            out = np.zeros(5, "int32")
            execute(func, [data[name].copy(), out])
            np.testing.assert_array_equal(out, meaning(data[name]), err_msg=name)


SHARED = """
@T.prim_func
def main(A: T.Buffer((4, 12), "int32"), C: T.Buffer((4,), "int32")):
    B = T.alloc_buffer((4,), "int32")
    for i in range(4):
        for k in range(12):
            with T.block("B"):
                v, r = T.axis.remap("SR", [i, k])
                with T.init():
                    B[v] = 0
                B[v] = B[v] + A[v, r]
        with T.block("C"):
            v = T.axis.spatial(4, i)
            C[v] = B[v] * 2
"""


def test_the_first_block_of_shared_loops_gets_loops_of_its_own() -> None:
    """As in TVM, unless a later block of the loops writes what it reads, or a condition is between."""
    for text, apart in (
        (SHARED, True),
        (SHARED.replace("C[v] = B[v] * 2", "C[v] = B[v] * 2\n            A[v, 0] = 0"), False),
    ):
        sch = tir.Schedule(from_source(text))
        sch.split(sch.get_loops("B")[1], [None, 4])
        first = sch.rfactor(sch.get_loops("B")[1], 0)
        assert (sch.get(sch.get_loops(first)[0]) is not sch.get(sch.get_loops("B")[0])) == apart
        data = np.arange(48, dtype="int32").reshape(4, 12)
        out = np.zeros(4, "int32")
        run(sch.mod["main"], [data.copy(), out])
        np.testing.assert_array_equal(out, data.sum(1) * 2)
