"""What a stage can do, in the interpreter and in native code, with and without blocks."""

from __future__ import annotations

import numpy as np
import pytest

import loopwright as lw
from loopwright import te, tir
from loopwright.tir.interpreter import run
from loopwright.tir.transform import lower_to_loops
from loopwright.tvm.te.stage import INLINE


def check(rng, s, args, expected):
    """All ways to run a schedule give `expected(*arrays)` in the last argument; the text of its
    loops."""
    mod = te.lower(s, args)
    tir.analysis.verify_well_formed(mod["main"])
    loops = te.lower(s, args, simple_mode=True)
    arrays = [rng.random([int(e) for e in a.shape]).astype("float32") for a in args]
    wanted = expected(*arrays)
    ways = (
        lambda *a: run(mod["main"], list(a)),
        lambda *a: run(loops["main"], list(a)),
        lw.compile(mod, "llvm")["main"],
        lw.compile(loops, "llvm")["main"],
    )
    for way in ways:
        given = [a.copy() for a in arrays]
        way(*given)
        np.testing.assert_allclose(given[-1], wanted, rtol=2e-5)
    return str(loops)


def two_steps():
    a = te.placeholder((32, 16), name="A")
    b = te.compute((32, 16), lambda i, j: a[i, j] * 2.0, name="B")
    c = te.compute((32, 16), lambda i, j: b[i, j] + 1.0, name="C")
    return a, b, c, te.create_schedule(c.op)


def twice_and_one(a, c):
    return a * 2 + 1


def test_storage_align(rng):
    a, b, c, s = two_steps()
    s[b].storage_align(b.op.axis[0], 24, 1)
    assert "strides=(25, 1)" in check(rng, s, [a, c], twice_and_one)


def test_double_buffer(rng):
    a, b, c, s = two_steps()
    s[b].compute_at(s[c], c.op.axis[0])
    s[b].double_buffer()
    check(rng, s, [a, c], twice_and_one)
    text = str(lower_to_loops()(te.lower(s, [a, c])))
    assert "if i < 31:" in text and "truncmod(i + 1, 2)" in text  # the next row is fetched


def test_set_store_predicate(rng):
    a, _, c, s = two_steps()
    _, inner = s[c].split(c.op.axis[1], 4)
    s[c].set_store_predicate(inner.var.equal(1))

    def every_fourth(x, y):
        y = y.copy()
        y[:, 1::4] = (x * 2 + 1)[:, 1::4]
        return y

    assert "if j_inner == 1:" in check(rng, s, [a, c], every_fourth)


def test_transform_layout(rng):
    a, b, c, s = two_steps()
    x, y, z = s[b].transform_layout(lambda i, j: [i // 4, j, te.AXIS_SEPARATOR, i % 4])
    s[b].vectorize(z)
    s[b].reorder(y, x)
    text = check(rng, s, [a, c], twice_and_one)
    assert "for axis2 in T.vectorized(4):" in text and "(8, 16, 4)" in text

    rows = te.placeholder((8, 6), name="rows")
    k = te.reduce_axis((0, 6), "k")
    total = te.compute((8,), lambda i: te.sum(rows[i, k], axis=k), name="total")
    s = te.create_schedule(total.op)
    x, y = s[total].transform_layout(lambda i: (i // 4, i % 4))
    s[total].reorder(y, k, x)
    func = te.lower(s, [rows, total])["main"]
    data, out = rng.random((8, 6)).astype("float32"), np.zeros((2, 4), "float32")
    run(func, [data, out])  # the argument has the new shape
    np.testing.assert_allclose(out.ravel(), data.sum(1), rtol=1e-5)


def test_rolling_buffer(rng):
    a = te.placeholder((12, 16), name="A")
    b = te.compute((12, 16), lambda i, j: a[i, j] * 2.0, name="B")
    c = te.compute((10, 16), lambda i, j: b[i, j] + b[i + 2, j], name="C")
    s = te.create_schedule(c.op)
    outer, _ = s[c].split(c.op.axis[0], 2)
    s[b].compute_at(s[c], outer)
    s[b].rolling_buffer()
    text = check(rng, s, [a, c], lambda x, y: x[:10] * 2 + x[2:] * 2)
    assert "B = T.decl_buffer((4, 16))" in text and " % 4, j]" in text and "if " in text


@pytest.mark.parametrize("axis", [0, 1])
def test_an_intrinsic_does_not_read_a_buffer_that_rolls(axis):
    def near(x, i, j):
        return x[i, j] + (x[i, j + 2] if axis else x[i + 2, j])

    def copy(ins, outs):
        return tir.call_packed("near", ins[0], outs[0])

    shape, wide = ((4, 1), (4, 3)) if axis else ((1, 4), (3, 4))
    x = te.placeholder(wide, name="x")
    y = te.compute(shape, lambda i, j: near(x, i, j), name="y")
    views = {
        t: tir.decl_buffer(t.shape, name=t.op.name, strides=[te.var("s"), 1], offset_factor=1)
        for t in (x, y)
    }
    a = te.placeholder((12, 12), name="A")
    b = te.compute((12, 12), lambda i, j: a[i, j] * 2.0, name="B")
    c = te.compute((4, 10) if axis else (10, 4), lambda i, j: near(b, i, j), name="C")
    s = te.create_schedule(c.op)
    outer, inner = s[c].split(c.op.axis[axis], 1)
    s[c].reorder(outer, *(v for v in (inner, *c.op.axis) if v is not c.op.axis[axis]))
    s[b].compute_at(s[c], outer)
    s[b].rolling_buffer()
    s[c].tensorize(s[c].leaf_iter_vars[1], te.decl_tensor_intrin(y.op, copy, binds=views))
    with pytest.raises(ValueError, match="B rolls: no intrinsic or extern can read its parts"):
        te.lower(s, [a, c])


def test_prefetch_and_pragma_are_notes(rng):
    a, _, c, s = two_steps()
    s[c].prefetch(a, c.op.axis[0], 1)
    s[c].pragma(c.op.axis[1], "auto_unroll_max_step", 4)
    check(rng, s, [a, c], twice_and_one)
    text = str(te.lower(s, [a, c]))
    assert '"prefetch_A": 1' in text and "pragma_auto_unroll_max_step" in text


def test_several_results_in_one_stage(rng):
    a = te.placeholder((32, 16), name="A")
    p, q = te.compute((32, 16), lambda i, j: (a[i, j] + 1.0, a[i, j] * 2.0), name="P")
    d = te.compute((32, 16), lambda i, j: p[i, j] * q[i, j], name="D")

    def product(x, y):
        return (x + 1) * (x * 2)

    s = te.create_schedule(d.op)
    s[p].compute_at(s[d], d.op.axis[0])
    s[p].vectorize(p.op.axis[1])
    check(rng, s, [a, d], product)
    s = te.create_schedule(d.op)
    pl, ql = s.cache_write([p, q], "local")
    assert pl.op is ql.op
    s[pl].compute_at(s[p], p.op.axis[0])
    s[p].compute_at(s[d], d.op.axis[0])
    assert 'scope="local"' in str(te.lower(s, [a, d]))
    check(rng, s, [a, d], product)
    s = te.create_schedule(d.op)
    s[q].compute_inline()
    assert "P_v" not in check(rng, s, [a, d], product)


def test_rfactor(rng):
    a = te.placeholder((5, 30), name="A")
    k = te.reduce_axis((0, 30), "k")
    b = te.compute((5,), lambda i: te.sum(a[i, k], axis=k, init=1.0), name="B")

    def total(x, y):
        return x.sum(1) + 1

    for factor, place in ((5, 0), (7, 0), (7, 1), (30, -1)):
        for outermost in (False, True):
            s = te.create_schedule(b.op)
            outer, inner = s[b].split(b.op.reduce_axis[0], factor=factor)
            part = s.rfactor(b, outer if outermost else inner, place)
            s[part].compute_at(s[b], b.op.axis[0])
            check(rng, s, [a, b], total)
    s = te.create_schedule(b.op)
    part = s.rfactor(b, b.op.reduce_axis[0])  # nothing is left to reduce
    s[part].parallel(part.op.axis[0])
    check(rng, s, [a, b], total)
    s = te.create_schedule(b.op)
    cached = s.cache_write(b, "local")
    _, inner = s[cached].split(s[cached].op.reduce_axis[0], nparts=5)
    part = s.rfactor(cached, inner)
    s[cached].compute_at(s[b], b.op.axis[0])
    s[part].compute_at(s[b], b.op.axis[0])
    assert "B_local_rf = T.decl_buffer" in check(rng, s, [a, b], total)


def test_rfactor_of_fused_loops(rng):
    a = te.placeholder((3, 4, 10), name="A")
    k, m = te.reduce_axis((0, 4), "k"), te.reduce_axis((2, 9), "m")
    b = te.compute((3,), lambda i: te.max(a[i, k, m], axis=[k, m]), name="B")
    s = te.create_schedule(b.op)
    fused = s[b].fuse(k, m)
    _, inner = s[b].split(fused, factor=8)
    part = s.rfactor(b, inner)
    s[b].parallel(b.op.axis[0])
    s[part].reorder(part.op.axis[1], *s[part].op.reduce_axis, part.op.axis[0])
    s[part].vectorize(part.op.axis[0])
    check(rng, s, [a, b], lambda x, y: x[:, :, 2:9].max((1, 2)))


def rows_of_a_scan():
    m, n = 10, 24
    x, state = te.placeholder((m, n), name="X"), te.placeholder((m, n), name="S")
    first = te.compute((1, n), lambda _, i: x[0, i], name="first")
    s1 = te.compute((m, n), lambda t, i: state[t - 1, i] * 2.0, name="s1")
    s2 = te.compute((m, n), lambda t, i: s1[t, i] + x[t, i], name="s2")
    scan = te.scan(first, s2, state, inputs=[x], name="scan")
    d = te.compute((m, n), lambda t, i: scan[t, i] + 1.0, name="D")

    def expected(rows, _):
        out = rows.copy()
        for t in range(1, m):
            out[t] = out[t - 1] * 2 + rows[t]
        return out + 1

    return x, first, s1, s2, scan, d, expected


def test_stages_of_a_scan(rng):
    x, first, s1, s2, scan, d, expected = rows_of_a_scan()
    s = te.create_schedule(d.op)
    outer, inner = s[s2].split(s2.op.axis[1], factor=8)
    s[s1].compute_at(s[s2], outer)
    s[s2].vectorize(inner)
    s[s1].vectorize(s1.op.axis[1])
    s[s2].parallel(outer)
    text = check(rng, s, [x, d], expected)
    at = text.index("for scan_idx in range(9):")
    assert text[at:].split("\n", 3)[:3] == [
        "for scan_idx in range(9):",
        "            for i_outer in T.parallel(3):",
        "                s1 = T.decl_buffer((1, 8))",
    ]
    s = te.create_schedule(d.op)
    s[s1].compute_inline()
    s[first].compute_inline()
    s[s2].compute_at(s[scan], scan.op.scan_axis)
    local = s.cache_write(s2, "local")
    copy = s.cache_read(x, "local", [local])
    s[copy].compute_at(s[local], local.op.axis[1])
    s[d].parallel(d.op.axis[0])
    assert "s2_local" in check(rng, s, [x, d], expected)


def test_reduction_in_a_scan_by_rfactor(rng):
    m, n = 6, 8
    x, w = te.placeholder((m, n), name="X"), te.placeholder((n, n), name="W")
    state = te.placeholder((m, n), name="S")
    first = te.compute((1, n), lambda _, i: x[0, i], name="first")
    k = te.reduce_axis((0, n), "k")
    h = te.compute((m, n), lambda t, i: te.sum(state[t - 1, k] * w[k, i], axis=k), name="h")
    u = te.compute((m, n), lambda t, i: te.tanh(h[t, i] + x[t, i]), name="u")
    rnn = te.scan(first, u, state, inputs=[x, w], name="rnn")

    def expected(rows, weight, _):
        out = rows.copy()
        for t in range(1, m):
            out[t] = np.tanh(out[t - 1] @ weight + rows[t])
        return out

    s = te.create_schedule(rnn.op)
    _, inner = s[h].split(h.op.reduce_axis[0], factor=4)
    part = s.rfactor(h, inner, 1)
    s[part].vectorize(part.op.axis[2])
    s[u].vectorize(u.op.axis[1])
    assert "h_rf = T.decl_buffer((1, 4, 8))" in check(rng, s, [x, w, rnn], expected)


def test_an_extern_alone_and_between_stages(rng):
    def double(ins, outs):
        ib = tir.ir_builder.create()
        source, result = ib.buffer_ptr(ins[0]), ib.buffer_ptr(outs[0])
        with ib.for_range(0, 16, "i") as i:
            result[i] = source[i] * 2.0
        return ib.get()

    a = te.placeholder((16,), name="A")
    c = te.extern((16,), [a], double, name="C")
    check(rng, te.create_schedule(c.op), [a, c], lambda x, y: x * 2)
    view = tir.decl_buffer((16,), "float32", "view", strides=[te.var("step")], offset_factor=1)

    def strided(ins, outs):
        ib = tir.ir_builder.create()
        result = ib.buffer_ptr(outs[0])
        with ib.for_range(0, 16, "i") as i:
            result[i] = ins[0][i] * ins[0].strides[0].astype("float32")
        return ib.get()

    b = te.compute((16,), lambda i: a[i] + 1.0, name="B")
    c = te.extern((16,), [b], strided, name="C", in_buffers=[view])
    d = te.compute((16,), lambda i: c[i] - 1.0, name="D")
    s = te.create_schedule(d.op)
    s[b].vectorize(b.op.axis[0])
    s[d].parallel(d.op.axis[0])
    check(rng, s, [a, d], lambda x, y: x + 1 - 1)


def test_stages_without_steps_are_scheduled_by_the_target(rng):
    """Before, the reduction was cut in two and run as it stands."""
    A, B = te.placeholder((64, 64), name="A"), te.placeholder((64, 64), name="B")
    unused = te.placeholder((3,), name="unused")
    k = te.reduce_axis((0, 64), "k")
    C = te.compute((64, 64), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
    s = te.create_schedule(C.op)
    assert not s[C].is_scheduled
    with lw.trace() as steps:
        built = te.build(s, [A, B, unused, C], "llvm", name="product")
    assert any("vectorized" in step.after.script() for step in steps)
    a, b, c = (rng.random((64, 64)).astype("float32") for _ in range(3))
    built["product"](a, b, np.zeros(3, "float32"), c)
    np.testing.assert_allclose(c, a @ b, rtol=1e-4)
    s[C].reorder(*C.op.axis[::-1])
    assert s[C].is_scheduled


def test_the_axes_of_each_result_of_a_scan():
    first = te.placeholder((1, 4), name="first"), te.placeholder((1, 3, 2), name="more")
    flat, deep = te.placeholder((5, 4), name="flat"), te.placeholder((5, 3, 2), name="deep")
    steps = [
        te.compute((5, 4), lambda t, i: flat[t - 1, i], name="step"),
        te.compute((5, 3, 2), lambda t, i, j: deep[t - 1, i, j], name="deep_step"),
    ]
    scan = te.scan(list(first), steps, [flat, deep])[0].op
    names = [[axis.var.name for axis in scan.spatial_axes(n)] for n in (0, 1)]
    assert names == [["out0.i1"], ["out1.i1", "out1.i2"]]


@pytest.mark.parametrize(
    ("size", "rows", "columns"),
    [(4, 1, 4), (16, 1, 16), (24, 3, 16), (48, 3, 16), (6, 2, 16), (1, 1, 1)],
)
def test_a_part_of_fused_loops(rng, size, rows, columns):
    """Within a row only what is read of it, over an edge whole rows."""
    a, b, c, s = two_steps()
    outer, _ = s[c].split(s[c].fuse(*c.op.axis), size)
    s[b].compute_at(s[c], outer)
    ranges = te.schedule.InferBound(s.normalize())
    found = [ranges[v].extent for v in b.op.axis]
    if size != 6:  # which may begin in the middle of a row
        assert [int(e) for e in found] == [rows, columns] or size in (24, 48)
    assert int(found[1]) == columns
    check(rng, s, [a, c], twice_and_one)


def test_a_loop_of_one_iteration(rng):
    a, b, c, s = two_steps()
    one = s[c].fuse()
    assert s[c].leaf_iter_vars[0] is one
    s[b].compute_at(s[c], one)
    check(rng, s, [a, c], twice_and_one)
    ranges = te.schedule.InferBound(s.normalize())
    assert [int(ranges[v].extent) for v in b.op.axis] == [32, 16]
    x = te.placeholder((), name="x")
    y = te.compute((), lambda: x() + 1.0, name="y")
    s = te.create_schedule(y.op)
    s[y].bind(s[y].fuse(), te.thread_axis("threadIdx.x"))
    assert 'T.launch_thread("threadIdx.x", 1)' in str(te.lower(s, [x, y], simple_mode=True))


def test_stages_that_share_a_thread_have_its_extent():
    a, b, c, s = two_steps()
    thread = te.thread_axis("threadIdx.x")
    s[b].bind(b.op.axis[1], thread)
    s[c].bind(c.op.axis[1], thread)
    s[b].compute_at(s[c], c.op.axis[0])
    te.lower(s, [a, c])
    a, b, c, s = two_steps()
    s[b].bind(b.op.axis[1], thread)
    s[c].bind(c.op.axis[0], thread)
    with pytest.raises(
        lw.TVMError, match="threadIdx.x has one extent in all stages\n.*32, and 16 for j of B"
    ):
        te.lower(s, [a, c])


def inlined(kind, s):
    getattr(te.schedule, f"AutoInline{kind}")(s)
    return {st.op.name for st in s.stages if st.attach_type == INLINE}


def test_stages_are_inlined_by_what_they_do(rng):
    x, row = te.placeholder((4, 6), name="x"), te.placeholder((6,), name="row")
    one = te.compute((4, 6), lambda i, j: x[i, j] + 1.0, name="one")
    turned = te.compute((6, 4), lambda i, j: one[j, i] * 2.0, name="turned")
    spread = te.compute((6, 4), lambda i, j: turned[i, j] + row[i], name="spread", tag="broadcast")
    k = te.reduce_axis((0, 4), "k")
    total = te.compute((6,), lambda i: te.sum(spread[i, k], axis=k), name="total")
    out = te.compute((6,), lambda i: total[i] - 1.0, name="out")
    wanted = {
        "ElemWise": {"one"},
        "Broadcast": {"spread"},
        "Injective": {"one", "turned", "spread"},
    }
    for kind, names in wanted.items():
        s = te.create_schedule(out.op)
        assert inlined(kind, s) == names
        check(rng, s, [x, row, out], lambda x, r, _: (2 * (x + 1).T + r[:, None]).sum(1) - 1)
    s = te.create_schedule(out.op)
    s[turned].parallel(turned.op.axis[0])  # a step of the user's
    assert inlined("Injective", s) == {"one", "spread"}


@pytest.mark.parametrize("last", [1, 4, 10])
def test_a_part_of_a_scan(rng, last):
    """Rows up to the last one that is read, and the first ones."""
    x, _, _, _, scan, _, expected = rows_of_a_scan()
    d = te.compute((last, 24), lambda t, i: scan[t, i] + 1.0, name="D")
    s = te.create_schedule(d.op)
    ranges = te.schedule.InferBound(s.normalize())
    assert str(ranges[scan.op.scan_axis].extent) == str(last - 1)
    check(rng, s, [x, d], lambda rows, _: expected(rows, None)[:last])


def test_a_scan_whose_columns_move(rng):
    m, n = 5, 8
    x, state = te.placeholder((m, n), name="X"), te.placeholder((m, n), name="S")
    first = te.compute((1, n), lambda _, i: x[0, i], name="first")
    step = te.compute((m, n), lambda t, i: state[t - 1, (i + 1) % n] + x[t, i], name="step")
    scan = te.scan(first, step, state, inputs=[x], name="scan")
    assert [v.value for v in te.schedule.ScanFixPointAnalysis(scan.op).values()] == [0]

    def expected(rows, _):
        out = rows.copy()
        for t in range(1, m):
            out[t] += np.roll(out[t - 1], -1)
        return out

    check(rng, te.create_schedule(scan.op), [x, scan], expected)


def test_rfactor_of_an_axis_that_begins_later(rng):
    a = te.placeholder((5, 30), name="A")
    k = te.reduce_axis((3, 28), "k")
    b = te.compute((5,), lambda i: te.sum(a[i, k], axis=k), name="B")
    s = te.create_schedule(b.op)
    part = s.rfactor(b, k)
    assert [int(e) for e in part.shape] == [25, 5]
    check(rng, s, [a, b], lambda x, y: x[:, 3:28].sum(1))


def test_groups_in_groups(rng):
    x = te.placeholder((6, 4), name="X")
    steps = [x]
    for k in range(6):
        steps.append(te.compute((6, 4), lambda i, j, k=k: steps[k][i, j] + float(k), name=f"s{k}"))
    s = te.create_schedule(steps[-1].op)
    outer = s.create_group(outputs=steps[4], inputs=steps[0])
    inner = s.create_group(outputs=steps[3], inputs=steps[1])
    assert outer.group is None and inner.group is outer
    assert [s[t].group for t in steps[1:5]] == [outer, inner, inner, outer]
    assert (outer.num_child_stages, inner.num_child_stages) == (3, 2)
    across = s.create_group(outputs=steps[5], inputs=steps[3])  # from inside of one to its outside
    assert across.group is None and (s[steps[5]].group, outer.group) == (across, across)
    assert across.num_child_stages == 2
    check(rng, s, [x, steps[-1]], lambda x, _: x + 15)


def test_buffers_of_tensors_among_the_arguments(rng):
    a, _, c, s = two_steps()
    buffer = tir.decl_buffer((32, 16), "float32", "bound", offset_factor=4)
    func = te.lower(s, [buffer, c], binds={a: buffer})["main"]
    assert next(iter(func.buffer_map.values())).name == "bound"
    x, out = rng.random((32, 16)).astype("float32"), np.zeros((32, 16), "float32")
    run(func, [x, out])
    np.testing.assert_allclose(out, x * 2 + 1, rtol=1e-6)


K = te.reduce_axis((0, 4), "k")
A, V = te.placeholder((8, 4), name="A"), te.placeholder((4,), name="V")
ROWS = te.compute((8,), lambda i: te.sum(A[i, K], axis=K), name="rows")


def test_a_copy_of_loops_that_run_beyond_the_end(rng):
    s = te.create_schedule(ROWS.op)
    s[ROWS].split(ROWS.op.axis[0], factor=3)
    copy = s.cache_write(ROWS, "local")
    assert [int(e) for e in copy.shape] == [3, 3]
    check(rng, s, [A, ROWS], lambda a, _: a.sum(1))


def triangle():
    def row(i):
        k = te.reduce_axis((0, i // 2 + 1), "k")
        return te.sum(A[i, k], axis=k)

    return te.compute((8,), row, name="triangle")


@pytest.mark.parametrize("cached", [False, True])
def test_a_reduction_as_long_as_its_row(rng, cached):
    out = triangle()
    s = te.create_schedule(out.op)
    if cached:
        s.cache_write(out, "local")
    check(rng, s, [A, out], lambda a, _: np.array([a[i, : i // 2 + 1].sum() for i in range(8)]))


def test_an_intrinsic_that_does_a_part_of_a_sum(rng):
    """Without a reset, the first step is the body, and those after it the update."""
    x = te.placeholder((2,), name="x")
    k = te.reduce_axis((0, 2), "k")
    y = te.compute((1,), lambda _: te.sum(x[k], axis=k), name="y")

    def body(ins, outs):
        def stored(first):
            total = ins[0].vload([0]) + ins[0].vload([1])
            return outs[0].vstore([0], total if first else outs[0].vload([0]) + total)

        return stored(True), None, stored(False)

    intrin = te.decl_tensor_intrin(
        y.op, body, name="pair", default_buffer_params={"offset_factor": 1}
    )
    w = te.placeholder((3, 8), name="W")
    r = te.reduce_axis((0, 8), "r")
    out = te.compute((3, 1), lambda i, _: te.sum(w[i, r], axis=r), name="out")
    s = te.create_schedule(out.op)
    outer, inner = s[out].split(r, factor=2)
    s[out].reorder(out.op.axis[0], outer, out.op.axis[1], inner)
    s[out].tensorize(out.op.axis[1], intrin)
    check(rng, s, [w, out], lambda a, _: a.sum(1, keepdims=True))


def test_externs_of_one_dimension(rng):
    def fill(ins, outs):
        ib = tir.ir_builder.create()
        result = ib.buffer_ptr(outs[0])
        with ib.for_range(0, 4, "i") as i:
            result[i] = ib.buffer_ptr(ins[0])[i] * 3.0
        return ib.get()

    for shape in (4, (4,), [4], te.placeholder((4,)).shape):
        e = te.extern(shape, [V], fill, name="E")
        assert [int(x) for x in e.shape] == [4] and e.dtype == "float32"
        check(rng, te.create_schedule(e.op), [V, e], lambda v, _: v * 3)
    assert [int(x) for x in te.extern([4, 4], [V], lambda ins, outs: tir.Evaluate(0)).shape] == [
        4,
        4,
    ]
    nothing = lambda ins, outs: tir.Evaluate(0)  # noqa: E731
    two = te.extern([(4,), (3,)], [V], nothing, dtype=["int8", "float32"])
    assert [t.dtype for t in two] == ["int8", "float32"]


def test_an_extern_of_a_function_and_copies_around_it(rng):
    """Also of one whose blocks have axes and reset a sum."""
    func = te.create_prim_func([A, ROWS])
    x = te.compute((8, 4), lambda i, j: A[i, j] + 1.0, name="x")
    e = te.extern_primfunc([x], func)
    out = te.compute((8,), lambda i: e[i] - 1.0, name="out")
    for cached in (False, True):
        s = te.create_schedule(out.op)
        if cached:
            s.cache_read(x, "local", [e])
        check(rng, s, [A, out], lambda a, _: (a + 1).sum(1) - 1)


def test_attach_paths():
    _, b, c, s = two_steps()
    s[b].compute_at(s[c], c.op.axis[1])
    paths = te.schedule.CreateAttachPath(s)
    assert list(paths[b.op]) == [c.op.axis[1], c.op.axis[0]] and not paths[c.op]
