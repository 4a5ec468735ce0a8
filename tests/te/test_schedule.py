"""The older way of schedules, and scans: the numbers are those of the unscheduled computation."""

from __future__ import annotations

import numpy as np
import pytest

import loopwright as lw
from loopwright import te
from loopwright.tir import analysis as ta
from loopwright.tir.interpreter import run
from loopwright.tir.stmt import ForKind

from .test_tutorials import packed_matmul


def matmul(n=24, m=20, k=12):
    a, b = te.placeholder((n, k), name="A"), te.placeholder((k, m), name="B")
    r = te.reduce_axis((0, k), "k")
    return a, b, te.compute((n, m), lambda i, j: te.sum(a[i, r] * b[r, j], axis=r), name="C")


def check(rng, mod, *shapes, expected):
    func = mod["main"]
    ta.verify_well_formed(func)
    arrays = [rng.random(s).astype("float32") for s in shapes]
    run(func, arrays)
    np.testing.assert_allclose(arrays[-1], expected(*arrays[:-1]), rtol=1e-5)
    again = [*arrays[:-1], np.zeros_like(arrays[-1])]
    lw.compile(mod)["main"](*again)
    np.testing.assert_allclose(again[-1], arrays[-1], rtol=1e-5)
    return func


def loops(func):
    found = []
    lw.tir.stmt_functor.post_order_visit(
        func.body, lambda n: found.append(n) if isinstance(n, lw.tir.For) else None
    )
    return found


def test_tutorial_matmul(rng):
    a, b, c = matmul()
    s = te.create_schedule(c.op)
    xo, yo, xi, yi = s[c].tile(c.op.axis[0], c.op.axis[1], 8, 8)
    (k,) = s[c].op.reduce_axis
    ko, ki = s[c].split(k, factor=4)
    s[c].reorder(xo, yo, ko, xi, ki, yi)
    s[c].vectorize(yi)
    s[c].parallel(xo)
    mod = te.lower(s, [a, b, c])
    func = check(rng, mod, (24, 12), (12, 20), (24, 20), expected=np.matmul)
    kinds = [loop.kind for loop in loops(func)]
    assert kinds.count(ForKind.PARALLEL) == 1
    assert kinds.count(ForKind.VECTORIZED) == 2  # of the sum, and of its first value
    assert "i_inner_init" in func.script()


def test_write_cache_and_packing(rng):
    s, args = packed_matmul(24, 12, 16, 8)
    func = check(rng, te.lower(s, args), (24, 12), (12, 16), (24, 16), expected=np.matmul)
    kinds = [loop.kind for loop in loops(func)]
    assert kinds.count(ForKind.PARALLEL) == 2 and ForKind.UNROLLED in kinds


def test_inline_attach_and_read_cache(rng):
    a = te.placeholder((16, 16), name="A")
    b = te.compute((16, 16), lambda i, j: a[i, j] + 1.0, name="B")
    c = te.compute((16, 16), lambda i, j: b[i, j] * 2.0, name="C")
    d = te.compute((16, 16), lambda i, j: c[i, j] - b[i, j], name="D")
    s = te.create_schedule(d.op)
    s[b].compute_inline()
    io, _ = s[d].split(s[d].op.axis[0], nparts=4)
    s[c].compute_at(s[d], io)
    fused = s[c].fuse(*s[c].op.axis)
    check(rng, te.lower(s, [a, d]), (16, 16), (16, 16), expected=lambda x: (x + 1) * 2 - (x + 1))
    s[c].pragma(fused, "auto_unroll_max_step", 4)
    assert "pragma_auto_unroll_max_step" in te.lower(s, [a, d])["main"].script()
    s = te.create_schedule(d.op)
    aa = s.cache_read(a, "local", [b])
    s[aa].compute_at(s[b], b.op.axis[0])
    func = check(
        rng, te.lower(s, [a, d]), (16, 16), (16, 16), expected=lambda x: (x + 1) * 2 - (x + 1)
    )
    assert 'scope="local"' in func.script()


def test_build(rng):
    a, b, c = matmul()
    s = te.create_schedule(c.op)
    f = te.build(s, [a, b, c], "llvm", name="mm")
    x, y = rng.random((24, 12)).astype("float32"), rng.random((12, 20)).astype("float32")
    z = np.zeros((24, 20), "float32")
    f["mm"](x, y, z)
    np.testing.assert_allclose(z, x @ y, rtol=1e-5)


def test_wrong_steps():
    a, b, c = matmul()
    s = te.create_schedule(c.op)
    i, j = c.op.axis
    s[c].split(i, 4)
    with pytest.raises(ValueError, match="no loop of stage C any more: it was split or fused"):
        s[c].vectorize(i)
    with pytest.raises(ValueError, match="its loops are i_outer, i_inner, j, k"):
        s[c].split(i, 2)
    with pytest.raises(ValueError, match="inner extent or the number of parts"):
        s[c].split(j)
    with pytest.raises(ValueError, match="that follow each other"):
        s[c].fuse(c.op.reduce_axis[0], j)
    with pytest.raises(ValueError, match="C missing"):
        te.lower(s, [a, b])
    with pytest.raises(ValueError, match="no stage of this"):
        s[te.placeholder((2,), name="other")]
    with pytest.raises(ValueError, match="write the same elements"):
        s[c].parallel(c.op.reduce_axis[0])


def test_scan(rng):
    m, n = te.var("m"), te.var("n")
    x = te.placeholder((m, n), name="X")
    state = te.placeholder((m, n), name="state")
    first = te.compute((1, n), lambda _, i: x[0, i])
    half = te.compute((m, n), lambda t, i: state[t - 1, i] * 0.5, name="half")
    step = te.compute((m, n), lambda t, i: half[t, i] + x[t, i], name="step")
    total = te.scan(first, step, state, inputs=[x], name="total")

    def expected(rows):
        out = rows.copy()
        for t in range(1, len(rows)):
            out[t] = out[t - 1] * np.float32(0.5) + rows[t]
        return out

    s = te.create_schedule(total.op)
    for shape in ((5, 3), (1, 2)):
        check(rng, te.lower(s, [x, total]), shape, shape, expected=expected)


def test_scan_of_two_states(rng):
    x = te.placeholder((6,), name="X")
    p, q = te.placeholder((6,)), te.placeholder((6,))
    one = te.compute((2,), lambda i: 1.0, name="one")
    two = te.compute((2,), lambda i: x[i], name="two")
    add = te.compute((6,), lambda t: p[t - 1] + q[t - 2], name="add")
    mul = te.compute((6,), lambda t: q[t - 1] * x[t], name="mul")
    a, b = te.scan([one, two], [add, mul], [p, q])
    func = te.create_prim_func([x, a, b])
    given = rng.random(6).astype("float32")
    got = [np.zeros(6, "float32") for _ in range(2)]
    run(func, [given, *got])
    first, second = [1.0, 1.0], list(given[:2])
    for t in range(2, 6):
        first.append(first[t - 1] + second[t - 2])
        second.append(second[t - 1] * given[t])
    np.testing.assert_allclose(got[0], first, rtol=1e-5)
    np.testing.assert_allclose(got[1], second, rtol=1e-5)


def test_scan_of_numbers(rng):
    x, state = te.placeholder((6,), name="X"), te.placeholder((6,))
    half = te.compute((6,), lambda t: state[t - 1] * 0.5, name="half")
    step = te.compute((6,), lambda t: half[t] + x[t], name="step")
    total = te.scan(te.compute((1,), lambda t: x[t]), step, state)
    func = te.create_prim_func([x, total])
    assert "half = T.alloc_buffer((1,))" in func.script()  # one number per step
    given, got = rng.random(6).astype("float32"), np.zeros(6, "float32")
    run(func, [given, got])
    for t in range(1, 6):
        given[t] += given[t - 1] * np.float32(0.5)
    np.testing.assert_allclose(got, given, rtol=1e-6)


def test_wrong_scans():
    x = te.placeholder((6,), name="X")
    state = te.placeholder((6,))
    first = te.compute((1,), lambda i: x[i])
    with pytest.raises(ValueError, match="the update is a compute"):
        te.scan(first, x, state)
    with pytest.raises(ValueError, match="the state is a placeholder"):
        te.scan(first, first, first)
    with pytest.raises(ValueError, match="needs an init, an update and a state for each result"):
        te.scan([first], [first], [])
    wide = te.compute((1,), lambda i: x[i].astype("float64"))
    with pytest.raises(ValueError, match="the state is float32 with 1 dimensions"):
        te.scan(wide, first, state)


@pytest.mark.parametrize(
    ("bound", "inlined", "wanted"),
    [(False, False, ["Split", "Rebase"]), (True, False, ["Split"]), (False, True, ["Split"])],
)
def test_which_loops_begin_at_zero_in_a_normal_schedule(bound, inlined, wanted):
    """Those that are the operation's axes still; not threads, not those of an inlined operation."""
    a = te.placeholder((8, 4), name="A")
    b = te.compute((8, 4), lambda i, j: a[i, j] * 2.0, name="B")
    c = te.compute((8, 4), lambda i, j: b[i, j] + 1.0, name="C")
    s = te.create_schedule(c.op)
    s[b].split(b.op.axis[1], 2)
    if bound:
        s[b].bind(b.op.axis[0], te.thread_axis("threadIdx.x"))
    if inlined:
        s[b].compute_inline()
    stages = {stage.op.name: stage for stage in s.normalize().stages}
    assert [type(r).__name__ for r in stages["B"].relations] == wanted
    assert [type(r).__name__ for r in stages["C"].relations] == ["Rebase"] * 2
