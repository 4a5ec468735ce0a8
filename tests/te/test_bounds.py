"""Ranges of loops, groups of stages, intrinsics in computes, and what a schedule tells of itself."""

from __future__ import annotations

import numpy as np
import pytest

import loopwright as lw
from loopwright import te, tir


def three(m, n):
    x = te.placeholder((m, n), name="X")
    a = te.compute((m, n), lambda i, j: x[i, j] + 1.0, name="a")
    b = te.compute((m, n), lambda i, j: a[i, j] * 2.0, name="b")
    c = te.compute((m, n), lambda i, j: b[i, j] - 3.0, name="c")
    return x, a, b, c


def built(s, args, *arrays):
    out = np.zeros([int(e) for e in args[-1].shape], "float32")
    te.build(s, args, "llvm")["main"](*arrays, out)
    return out


def test_a_part_is_as_large_as_the_factor():
    m, n = te.var("m"), te.var("n")
    _, _, b, c = three(m, n)
    s = te.create_schedule(c.op)
    outer, inner = s[c].split(c.op.axis[0], 8)
    s[b].compute_at(s[c], outer)
    ranges = te.schedule.InferBound(s)
    assert ranges[b.op.axis[0]].extent.value == 8 and ranges[b.op.axis[1]].extent is n
    assert ranges[inner].extent.value == 8
    _, _, b, c = three(6, 4)
    s = te.create_schedule(c.op)
    _, inner = s[c].split(c.op.axis[0], 32)  # longer than the axis
    assert te.schedule.InferBound(s)[inner].extent.value == 6


def test_groups_are_computed_together(rng):
    x, a, b, c = three(8, 12)
    s = te.create_schedule(c.op)
    group = s.create_group(outputs=b, inputs=x)
    assert s[a].group is group and s[b].group is group and group.num_child_stages == 2
    group.compute_at(s[c], c.op.axis[0])
    ranges = te.schedule.InferBound(s.normalize())
    assert [ranges[v].extent.value for v in a.op.axis] == [1, 12]
    rows = rng.random((8, 12)).astype("float32")
    np.testing.assert_allclose(built(s, [x, c], rows), (rows + 1) * 2 - 3, rtol=1e-5)
    with pytest.raises(lw.TVMError, match="in a group that is computed as a whole"):
        s[a].compute_at(s[c], c.op.axis[0])


def add_intrin(n):
    x, y = te.placeholder((n,), name="x"), te.placeholder((n,), name="y")
    z = te.compute((n,), lambda i: x[i] + y[i], name="z")

    def body(ins, outs):
        ib = tir.ir_builder.create()
        a, b, out = (ib.buffer_ptr(v) for v in (*ins, *outs))
        with ib.for_range(0, n, "lane") as lane:
            out[lane] = a[lane] + b[lane]
        return ib.get()

    return te.decl_tensor_intrin(z.op, body, default_buffer_params={"offset_factor": 1})


@pytest.mark.parametrize("cached", [False, True])
def test_an_intrinsic_computes_parts(rng, cached):
    x, y = te.placeholder((6, 16), name="X"), te.placeholder((6, 16), name="Y")
    twice = te.compute((6, 16), lambda i, j: y[i, j] * 2.0, name="twice")
    add = add_intrin(16)
    out = te.compute((6, 16), lambda i: add(x[i, 0:16], twice[i, 0:16]), name="out")
    s = te.create_schedule(out.op)
    if cached:
        s.cache_write(out, "local")
        s.cache_read(x, "local", [s.stages[-2].op])
    else:
        outer, _ = s[out].split(out.op.axis[0], 3)
        s[twice].compute_at(s[out], outer)
    a, b = rng.random((6, 16)).astype("float32"), rng.random((6, 16)).astype("float32")
    np.testing.assert_allclose(built(s, [x, y, out], a, b), a + b * 2, rtol=1e-5)


def test_a_write_cache_has_the_order_of_the_loops(rng):
    x, _, _, c = three(8, 12)
    s = te.create_schedule(c.op)
    s[c].tile(*c.op.axis, 4, 5)
    local = s.cache_write(c, "local")
    assert [int(e) for e in local.shape] == [2, 3, 4, 5]
    rows = rng.random((8, 12)).astype("float32")
    np.testing.assert_allclose(built(s, [x, c], rows), (rows + 1) * 2 - 3, rtol=1e-5)


def test_loops_of_the_result_and_the_reduction_are_fused(rng):
    x = te.placeholder((6, 10), name="X")
    k = te.reduce_axis((0, 10), "k")
    total = te.compute((6,), lambda i: te.sum(x[i, k], axis=k), name="total")
    s = te.create_schedule(total.op)
    fused = s[total].fuse(total.op.axis[0], k)
    s[total].split(fused, 7)
    rows = rng.random((6, 10)).astype("float32")
    np.testing.assert_allclose(built(s, [x, total], rows), rows.sum(1), rtol=1e-5)


def test_the_steps_are_recorded_where_wanted():
    _, _, b, c = three(8, 12)
    with lw.transform.PassContext(config={"te.keep_schedule_record": True}):
        s = te.create_schedule(c.op)
        s[c].tile(*c.op.axis, 4, 4)
        s[b].compute_inline()
    steps = ["vanilla", "split", "split", "reorder", "compute_inline"]
    assert s.primitive_record == steps and len(s.schedule_record) == 5
    assert len(s.schedule_record[2][c].leaf_iter_vars) == 4
    assert not te.create_schedule(c.op).primitive_record


def test_which_axes_of_a_scan_stand_for_themselves():
    m, n = te.var("m"), te.var("n")
    x, state = te.placeholder((m, n, n)), te.placeholder((m, n, n))
    first = te.compute((1, n, n), lambda t, i, j: x[0, i, j])
    for swap, wanted in ((False, 1), (True, 0)):
        at = (lambda i, j: (j, i)) if swap else (lambda i, j: (i, j))
        step = te.compute((m, n, n), lambda t, i, j, at=at: state[(t - 1, *at(i, j))] + x[t, i, j])
        scan = te.scan(first, step, state, inputs=[x]).op
        found = te.schedule.ScanFixPointAnalysis(scan)
        assert [found[v].value for v in scan.spatial_axis_] == [wanted, wanted]
        assert set(te.schedule.ScanGetBody(scan)) == {scan, step.op}


def test_dimensions_of_memory_are_kept_apart(rng):
    x = te.placeholder((2, 3, 4), name="X")
    c = te.compute((2, 3, 4), lambda i, j, k: x[i, j, k] + 1.0, name="c")
    s = te.create_schedule(c.op)
    s[c].transform_layout(lambda i, j, k: [i, j, te.AXIS_SEPARATOR, k])
    (_, out) = te.lower(s, [x, c])["main"].buffer_map.values()
    assert out.axis_separators == (2,)
    assert "C_1" not in str(te.lower(s, [x, c])) and "(6, 4)" in str(te.lower(s, [x, c]))
    rows = rng.random((2, 3, 4)).astype("float32")
    np.testing.assert_allclose(built(s, [x, c], rows), rows + 1, rtol=1e-6)


def test_two_results_of_an_operation_are_read_at_other_places(rng):
    x = te.placeholder((10,), name="x")
    p, q = te.compute((10,), lambda i: (x[i] + 1.0, x[i] * 2.0), name="pq")
    c = te.compute((4,), lambda i: p[i] + q[i + 3], name="c")
    s = te.create_schedule(c.op)
    s[p].compute_at(s[c], c.op.axis[0])
    assert [r.extent.value for r in map(te.schedule.InferBound(s.normalize()).get, p.op.axis)] == [
        4
    ]
    row = rng.random(10).astype("float32")
    np.testing.assert_allclose(built(s, [x, c], row), row[:4] + 1 + row[3:7] * 2, rtol=1e-6)


def test_a_write_cache_is_of_the_results_of_one_compute():
    x, a, b, _ = three(8, 12)
    for tensors in ([a, b], [b, a], [x]):
        s = te.create_schedule(b.op)
        with pytest.raises(lw.TVMError, match="cache_write takes the results of one compute"):
            s.cache_write(tensors, "local")
