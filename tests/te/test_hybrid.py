"""Hybrid scripts: run by Python, as operations, and written as source; tensors as JSON."""

from __future__ import annotations

import re

import numpy as np
import pytest

import loopwright as lw
from loopwright import te
from loopwright.tir import For
from loopwright.tir.interpreter import run
from loopwright.tir.stmt_functor import post_order_visit
from loopwright.tvm.te.hybrid import HybridModule, script

from .test_prim_func import argmax_tensors

WEIGHTS = (2, [3, 4])

# The names of scripts are known where they run.


@script
def blur(a, n):
    """A sum of windows, of a part in a condition."""
    width = 3
    b = output_tensor((n,), a.dtype)
    for i in range(n):
        total = 0.0
        for j in range(width):
            total += a[i + j] * WEIGHTS[1][0]
        if 1 <= i < n - 1:
            b[i] = total
        else:
            b[i] = -total
    return b


@script
def both(a):
    low = output_tensor((4, 2), "float32")
    high = output_tensor((8,), "float32")
    part = allocate((8,), "float32", "local")
    for i in parallel(2, 10):
        part[i - 2] = max(a[i - 2], 0.5)
        high[i - 2] = sqrt(part[i - 2]) if i % 2 == 0 else float32(i)
    for k in const_range(2):
        for i in range(4):
            low[i, k] = part[i * 2 + k]
    return low, high


@script
def chained(a):
    c = blur(a, 6)
    d = output_tensor((6,), "float32")
    for i in vectorize(6):
        d[i] = c[i] + 1.0
    return d


def test_a_script_is_an_operation(rng):
    n = 6
    a = te.placeholder((n + 2,), name="a")
    twice = te.compute(a.shape, lambda i: a[i] * 2.0, name="twice")
    b = blur(twice, n)
    c = te.compute((n,), lambda i: b[i] - 1.0, name="c")
    s = te.create_schedule(c.op)
    s[twice].compute_inline()
    x, out = rng.random(n + 2).astype("float32"), np.zeros(n, "float32")
    te.build(s, [a, c], "llvm")["main"](x, out)
    np.testing.assert_allclose(out, blur(x * 2, n) - 1, rtol=1e-5)
    assert "twice" not in str(te.lower(s, [a, c], simple_mode=True))
    windows = np.convolve(x * 2, np.ones(3), "valid") * 3
    np.testing.assert_allclose(out[1:-1] + 1, windows[1:-1], rtol=1e-5)


def test_several_results_and_scripts_in_scripts(rng):
    a = te.placeholder((8,), name="a")
    x = rng.random(8).astype("float32")
    low, high = both(a)
    s = te.create_schedule(low.op)
    got = [np.zeros((4, 2), "float32"), np.zeros(8, "float32")]
    te.build(s, [a, low, high], "llvm")["main"](x, *got)
    for ours, python in zip(got, both(x), strict=True):
        np.testing.assert_allclose(ours, python, rtol=1e-6)
    loops = []
    post_order_visit(low.op.body, lambda n: loops.append(n) if isinstance(n, For) else None)
    assert [(loop.loop_var.name, str(loop.extent)) for loop in loops] == [
        ("i", "8"),
        ("i", "4"),  # const_range is no loop: its body is there twice
        ("i", "4"),
    ]
    d = chained(a)
    out = np.zeros(6, "float32")
    te.build(te.create_schedule(d.op), [a, d], "llvm")["main"](x, out)
    np.testing.assert_allclose(out, blur(x, 6) + 1, rtol=1e-5)


@pytest.mark.parametrize("func", [both, chained])
def test_source(rng, func, tmp_path):
    a = te.placeholder((8,), name="a")
    outs = func(a)
    outs = outs if isinstance(outs, list) else [outs]
    module = te.hybrid.build(te.create_schedule(outs[0].op), [a], outs)
    module.save(tmp_path / "script")
    assert re.search("^    return ", module.get_source(), re.M)
    kept = outs[0].op.with_body(lambda body: body)
    assert list(kept.inputs) == list(outs[0].op.inputs) == [a]
    again = HybridModule()
    again.load(str(tmp_path / "script.py"))
    assert again.name == "hybrid_func" and again.get_source() == module.get_source()
    x = rng.random(8).astype("float32")
    results, wanted = again(x), func(x)
    for ours, python in zip(
        results if isinstance(results, tuple) else [results],
        wanted if isinstance(wanted, tuple) else [wanted],
        strict=True,
    ):
        np.testing.assert_allclose(ours, python, rtol=1e-5)
    assert again(a) is not None  # and an operation again


@script
def casts(a):
    b = output_tensor((11,), "float64")
    b[0] = float64(int8(a[0]))
    b[1] = float64(int16(a[0]))
    b[2] = float64(int32(a[0]))
    b[3] = float64(int64(a[0]))
    b[4] = float64(uint8(a[0]))
    b[5] = float64(uint16(a[0]))
    b[6] = float64(uint32(a[0]))
    b[7] = float64(uint64(a[0]))
    b[8] = float64(float16(a[0]))
    b[9] = float64(float32(a[0]))
    b[10] = float64(a[0])
    return b


@script
def small_steps(a, groups):
    assert a[0] >= 0.0, "no negative ones"
    b = output_tensor((len(a), ceil_div(len(a), 4)), "float32")
    for i in bind("threadIdx.x", 6):
        if not (i % 2 == 0 and i >= 0):
            b[i, 0] = -a[i]
        else:
            b[i, 0] = +a[i]
        if not len(groups) > 2:
            b[i, 1] = 2.0
        else:
            b[i, 1] = 1.0
    return b


def test_types_by_name():
    a = te.placeholder((1,), name="a")
    b = casts(a)
    out = np.zeros(11)
    te.build(te.create_schedule(b.op), [a, b], "llvm")["main"](np.float32([100.3]), out)
    exact = float(np.float32(100.3))
    np.testing.assert_array_equal(out, [100] * 8 + [float(np.float16(100.3)), exact, exact])


@script
def of_integers(a):
    """What Python and its operators make of integers."""
    b = output_tensor((6, 14), "int32")
    for i in range(6):
        b[i, 0] = a[i] % 3
        b[i, 1] = a[i] // 3
        b[i, 2] = a[i] << 2
        b[i, 3] = a[i] >> 1
        b[i, 4] = ~a[i]
        b[i, 5] = (+True) + a[i]
        b[i, 6] = 1 if a[i] != 2 else 5
        b[i, 7] = 1 if 1 < 2 else a[i]
        b[i, 8] = 3 if a[i] < 2 or a[i] == 5 else 4
        b[i, 9] = 3 if 2 <= a[i] < 5 else 4
        b[i, 10] = min(a[i], 2) - max(a[i], 3)
        b[i, 11] = popcount(a[i] & 7) if False else popcount(a[i] * a[i])
        b[i, 12] = ceil_div(a[i] * a[i], 4)
        b[i, 13] = (a[i], 7)[1] - -a[i]
    return b


def test_operators():
    a = te.placeholder((6,), dtype="int32", name="a")
    b = of_integers(a)
    x, out = np.int32([-7, 0, 2, 3, 5, 6]), np.zeros((6, 14), "int32")
    te.build(te.create_schedule(b.op), [a, b], "llvm")["main"](x, out)
    np.testing.assert_array_equal(out, of_integers(x))


def test_lengths_conditions_and_threads(rng):
    a = te.placeholder((6,), name="a")
    b = small_steps(a, (1, 2))
    x, out = rng.random(6).astype("float32"), np.zeros((6, 2), "float32")
    s = te.create_schedule(b.op)
    func = te.lower(s, [a, b])["main"]
    run(func, [x, out])
    with pytest.raises(AssertionError, match="no negative ones"):
        run(func, [-x, out.copy()])
    np.testing.assert_array_equal(out[:, 0], np.where(np.arange(6) % 2, -x, x))
    np.testing.assert_array_equal(out[:, 1], 2)
    module = te.hybrid.build(s, [a], [b])
    assert 'in bind("threadIdx.x", 6):' in module.get_source()
    assert "assert " in module.get_source()


def test_an_operation_reads_a_copy_or_stays(rng):
    a, other = te.placeholder((8,), name="a"), te.placeholder((8,), name="other")
    low, high = both(a)
    c = te.compute((8,), lambda i: high[i] + other[i], name="c")
    x, y, out = (
        rng.random(8).astype("float32"),
        rng.random(8).astype("float32"),
        np.zeros(8, "float32"),
    )
    for read in (a, other):
        s = te.create_schedule(c.op)
        copy = s.cache_read(read, "local", [low.op if read is a else c.op])
        (stage,) = [t for t in s.stages if type(t.op) is type(low.op)]
        assert (stage.op is low.op) is (read is other)
        assert (copy in stage.op.input_tensors) is (read is a)
        te.build(s, [a, other, c], "llvm")["main"](x, y, out)
        np.testing.assert_allclose(out, both(x)[1] + y, rtol=1e-6)


@script
def swapped(a):
    b = output_tensor((2,), "float32")
    b[0] = a[0]
    b[1] = a[1]
    kept = b[0]
    b[0] = b[1]
    b[1] = kept
    return b


def test_a_name_keeps_the_value_that_it_was_given():
    a = te.placeholder((2,), name="a")
    b = swapped(a)
    x, out = np.float32([1, 2]), np.zeros(2, "float32")
    run(te.lower(te.create_schedule(b.op), [a, b])["main"], [x, out])
    np.testing.assert_array_equal(out, swapped(x))


@script
def returns_early(a):
    b = output_tensor((2,), "float32")
    for i in range(2):
        b[i] = a[i]
        return b


@script
def returns_its_input(a):
    b = output_tensor((2,), "float32")
    b[0] = a[0]
    return a


def test_what_is_returned():
    for func in (returns_early, returns_its_input):
        with pytest.raises(lw.LoopwrightError, match="the last statement returns output tensors"):
            func(te.placeholder((2,), name="a"))


def test_what_scripts_have_not():
    @script
    def loops(a):
        b = output_tensor((2,), "float32")
        while True:
            b[0] = a[0]
        return b

    a = te.placeholder((2,), name="a")
    with pytest.raises(lw.LoopwrightError, match="While is not a statement") as caught:
        loops(a)
    assert "got: while True:" in str(caught.value)
    with pytest.raises(lw.LoopwrightError, match="takes 1 arguments, not 2"):
        loops(a, a)
    assert "output_tensor" not in globals()


def test_tensors_as_json():
    m, n = te.var("m"), te.var("n")
    a, state = te.placeholder((m, n), name="A"), te.placeholder((m, n), name="S")
    k = te.reduce_axis((0, n), "k")
    total = te.compute((m,), lambda i: te.sum(a[i, k], axis=k), name="total", attrs={"x": [1, 2]})
    again = lw.ir.load_json(lw.ir.save_json(total))
    assert str(again) == str(total) and again.op.attrs == {"x": [1, 2]}
    lw.ir.assert_structural_equal(
        te.create_prim_func([*again.op.input_tensors, again]), te.create_prim_func([a, total])
    )
    first = te.compute((1, n), lambda t, i: a[t, i])
    step = te.compute((m, n), lambda t, i: state[t - 1, i] + a[t, i])
    scan = te.scan(first, step, state)
    again = lw.ir.load_json(lw.ir.save_json(scan.op))
    assert isinstance(again, te.ScanOp) and [t.op.name for t in again.init] == ["compute"]
    x, best = argmax_tensors()
    again = [*lw.ir.load_json(lw.ir.save_json(list(best)))]
    lw.ir.assert_structural_equal(
        te.create_prim_func([*again[0].op.input_tensors, *again]), te.create_prim_func([x, *best])
    )


def test_an_intrinsic_fits_whatever_the_type_of_indices():
    k = te.reduce_axis((0, 3), "k")
    wide = te.reduce_axis((0, lw.tir.const(3, "int64")), "k")
    a, b = te.placeholder((10,), name="A"), te.placeholder((10,), name="B")
    own = te.compute((8,), lambda i: te.max(a[i + k], axis=k), name="own")
    other = te.compute((8,), lambda i: te.max(b[i + wide], axis=wide), name="other")
    intrin = te.decl_tensor_intrin(own.op, lambda ins, outs: lw.tir.call_packed("op", *ins, *outs))
    s = te.create_schedule(other.op)
    s[other].tensorize(other.op.axis[0], intrin)
    assert "call_packed" in str(te.lower(s, [b, other]))


@script
def rare_statements(a, n):
    b = output_tensor((4,), "int32")
    c = output_tensor((4,), "int32")
    x, y = 3, a[1]
    for i in bind("threadIdx.x", 4):
        if n < 3:
            pass
        b[i] = a[i] * x
        c[i] = b[i] + y
        likely(b[i] < 3)
    return b, c


def test_rare_statements():
    a = np.array([4, 5, 6, 7], "int32")
    first, second = rare_statements(a, 2)
    tensor = te.placeholder((4,), "int32", name="a")
    made = rare_statements(tensor, 2)
    got = [np.zeros(4, "int32") for _ in range(2)]
    run(te.lower(te.create_schedule(made[0].op), [tensor, *made])["main"], [a, *got])
    for each in ((first, second), got):
        np.testing.assert_array_equal(each, [a * 3, a * 3 + 5])
