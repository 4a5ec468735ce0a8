"""Attention on pages at sizes of models, and pages that are written in place."""

from __future__ import annotations

import numpy as np
import pytest

import loopwright as lw
from loopwright import relax
from loopwright.ops.paged import append_paged, attention_paged
from loopwright.relax import op
from loopwright.relax.interpreter import Interpreter
from loopwright.relax.transform import LegalizeOps


def compiled(function, *infos, **attrs):
    """A function of the graph, compiled."""
    params = [relax.Var(f"x{n}", info) for n, info in enumerate(infos)]
    bb = relax.BlockBuilder()
    with bb.function("main", params):
        with bb.dataflow():
            out = bb.emit_output(function(*params, **attrs))
        bb.emit_func_output(out)
    executable = lw.compile(bb.get(), "llvm")
    return executable, relax.VirtualMachine(executable, lw.cpu())["main"]


def infos_of(*arrays):
    return [relax.TensorStructInfo(a.shape, str(a.dtype)) for a in arrays]


def reference(*arrays, **attrs):
    full = {"scale": None, "causal_mask": "BottomRight", "window_size": None, **attrs}
    return attention_paged.op.get_attr("FNumpy")(*arrays, **full)


def drawn(rng, asked, lengths, heads, groups, dim, page, dtype):
    """Queries, pages in a random order and their tables."""
    counts = [-(-length // page) for length in lengths]
    total = sum(counts) + 2
    pages = rng.normal(size=(total, 2, groups, page, dim))
    pages = pages.astype(dtype) if dtype != "int8" else (pages * 30).astype(dtype)
    starts = [np.concatenate([[0], np.cumsum(s)]).astype(np.int32) for s in (asked, counts)]
    queries = rng.normal(size=(sum(asked), heads, dim)).astype(
        "float32" if dtype == "int8" else dtype
    )
    ids = rng.permutation(total)[: sum(counts)].astype(np.int32)
    return queries, starts[0], pages, starts[1], ids, np.array(lengths, np.int32)


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("dtype", "heads", "groups", "dim", "page", "attrs"),
    [
        ("float32", 8, 2, 64, 16, {}),
        ("float32", 3, 3, 24, 5, {"softcap": 2.0}),
        ("float32", 6, 1, 40, 16, {"window_size": 37}),
        ("float16", 8, 1, 128, 16, {"scale": 0.1}),
        ("int8", 4, 2, 32, 16, {}),
    ],
)
def test_rows_of_prefill_and_of_decode_in_one_call(rng, dtype, heads, groups, dim, page, attrs):
    asked, lengths = [70, 1, 0, 3, 1], [101, 133, 20, 3, 1]
    given = drawn(rng, asked, lengths, heads, groups, dim, page, dtype)
    if dtype == "int8":
        given = (*given, rng.random(given[2].shape[:4]).astype(np.float32) / 10)
    _, run = compiled(op.nn.attention_paged, *infos_of(*given), **attrs)
    got = run(*map(lw.runtime.tensor, given)).numpy()
    tolerance = 3e-3 if dtype == "float16" else 3e-5
    np.testing.assert_allclose(got, reference(*given, **attrs), rtol=tolerance, atol=tolerance)


def test_no_sequences():
    queries, ends = np.zeros((0, 2, 4), np.float32), np.zeros(1, np.int32)
    pages, none = np.zeros((1, 2, 1, 4, 4), np.float32), np.zeros(0, np.int32)
    operands = (queries, ends, pages, ends, none, none)
    _, run = compiled(op.nn.attention_paged, *infos_of(*operands))
    assert run(*map(lw.runtime.tensor, operands)).shape == (0, 2, 4)


@pytest.mark.parametrize("window", [None, 900])
def test_many_keys_of_few_rows_are_attended_to_in_parts(rng, window):
    """A part sees no key of some rows; where keys are few, there is one part."""
    given = drawn(rng, [1, 3], [2100, 70], 6, 2, 24, 16, "float32")
    _, run = compiled(op.nn.attention_paged, *infos_of(*given), window_size=window)
    got = run(*map(lw.runtime.tensor, given)).numpy()
    wanted = reference(*given, window_size=window)
    np.testing.assert_allclose(got, wanted, rtol=3e-5, atol=3e-5)


@pytest.fixture(scope="module")
def any_size():
    """For batches of any size."""
    n, s, p, pages = (lw.tir.Var(name, "int64") for name in ("n", "s", "p", "pages"))
    shapes = [(n, 4, 32), (s + 1,), (pages, 2, 2, 8, 32), (s + 1,), (p,), (s,)]
    kinds = ["float32", "int32", "float32", "int32", "int32", "int32"]
    _, run = compiled(op.nn.attention_paged, *map(relax.TensorStructInfo, shapes, kinds))
    return run


@pytest.mark.parametrize(
    ("asked", "lengths"), [([1, 4], [40, 33]), ([1], [100]), ([], []), ([3, 0], [3, 0])]
)
def test_sizes_known_at_run_time_only(rng, any_size, asked, lengths):
    given = drawn(rng, asked, lengths, 4, 2, 32, 8, "float32")
    got = any_size(*map(lw.runtime.tensor, given)).numpy()
    np.testing.assert_allclose(got, reference(*given), rtol=3e-5, atol=3e-5)


@pytest.mark.parametrize(
    ("which", "at", "value"),
    [(4, 1, 99), (5, 0, 900), (3, 1, 77), (1, 1, 77), (5, 1, 42), (1, 2, -1), (3, 2, -1)],
)
def test_invalid_tables(rng, any_size, which, at, value):
    """A page that is none, more tokens than pages, starts beyond the end or below 0, tokens of the next
    sequence."""
    given = list(drawn(rng, [1, 4], [40, 33], 4, 2, 32, 8, "float32"))
    given[which][at] = value
    with pytest.raises(IndexError, match=r"out of range"):
        any_size(*map(lw.runtime.tensor, given))


ROWS, CACHE = (np.ones(shape, np.float32) for shape in ((1, 4, 1, 2), (1, 1, 4, 2)))
MOST = np.int32(4)
COUNTS = {
    "append_cache": lambda n: (CACHE, ROWS[:, :1], np.int32([n]), 4),
    "attention_cached": lambda n: (ROWS, CACHE, CACHE, np.int32([n])),
    "attention_var_len": lambda n: (*[ROWS] * 3, np.int32([0, 4]), MOST, np.int32([0, n]), MOST),
}


@pytest.mark.parametrize("count", [-1, 5])
@pytest.mark.parametrize("name", COUNTS)
def test_counts_that_are_invalid_at_every_level(name, count):
    """A count or a start below 0 does not count from the end."""
    arguments = COUNTS[name](count)
    arrays = [a for a in arguments if not isinstance(a, int)]
    params = [relax.Var(f"x{n}", info) for n, info in enumerate(infos_of(*arrays))]
    bb = relax.BlockBuilder()
    with bb.function("main", params):
        call = getattr(op.nn, name)(*params, *arguments[len(arrays) :])
        bb.emit_func_output(bb.emit(call))
    for level in (bb.get(), LegalizeOps()(bb.get())):
        with pytest.raises(IndexError, match=f"index {count} is out of range"):
            Interpreter(level)["main"](*arrays)


def step(pages, keys, values, slots, queries, *tables):
    """Append, and attend to it; the pages are no result."""
    kept = op.nn.append_paged(pages, keys, values, slots)
    return op.nn.attention_paged(queries, tables[0], kept, *tables[1:])


def test_pages_are_written_in_place(rng):
    """It is the argument that is written, and no copy of it is made."""
    new, queries = (rng.normal(size=(2, 5, 3, 20)).astype("float16") for _ in range(2))
    pages = rng.normal(size=(4, 2, 3, 8, 20)).astype("float16")
    slots = np.int32([31, 0, 7, 8, 9])
    wanted = append_paged.op.get_attr("FNumpy")(pages, *new, slots)
    tables = [np.int32(x) for x in ([0, 5], [0, 4], [3, 0, 1, 2], [12])]
    executable, run = compiled(step, *infos_of(pages, *new, slots, queries[0], *tables))
    assert "memcpy" not in executable.as_text()
    kept = lw.runtime.tensor(pages)
    rest = [lw.runtime.tensor(x) for x in (queries[0], *tables)]
    got = run(kept, *map(lw.runtime.tensor, (*new, slots)), *rest)
    np.testing.assert_array_equal(kept.numpy(), wanted)
    given = queries[0], tables[0], wanted, *tables[1:]
    np.testing.assert_allclose(got.numpy(), reference(*given), rtol=3e-3, atol=3e-3)
    with pytest.raises(IndexError, match="32"):
        run(kept, *map(lw.runtime.tensor, (*new, slots + 1)), *rest)
