"""Random schedules of random tensor programs compute what the unscheduled program does."""

from __future__ import annotations

import numpy as np
from hypothesis import HealthCheck, assume, event, given, settings
from hypothesis import strategies as st

import loopwright as lw
from loopwright import te, tir
from loopwright.ir.prim_expr import IterVar
from loopwright.tir.interpreter import run


def elementwise(draw):
    n, m = draw(st.integers(1, 9)), draw(st.integers(1, 9))
    a, b = te.placeholder((n, m), name="A"), te.placeholder((n, m), name="B")
    c = te.compute((n, m), lambda i, j: a[i, j] * 2.0 + b[i, j], name="C")
    d = te.compute((n, m), lambda i, j: c[i, j] - a[i, j], name="D")
    e = te.compute((n, m), lambda i, j: d[i, j] * c[i, j], name="E")
    return [a, b], [c, d], e, lambda x, y: (x + y) * (x * 2 + y)


def matmul(draw):
    n, m, size = (draw(st.integers(1, 8)) for _ in range(3))
    a, b = te.placeholder((n, size), name="A"), te.placeholder((size, m), name="B")
    a2 = te.compute((n, size), lambda i, j: a[i, j] + 1.0, name="A2")
    k = te.reduce_axis((0, size), "k")
    c = te.compute((n, m), lambda i, j: te.sum(a2[i, k] * b[k, j], axis=k), name="C")
    d = te.compute((n, m), lambda i, j: te.max(c[i, j], te.const(0.5, "float32")), name="D")
    return [a, b], [a2, c], d, lambda x, y: np.maximum((x + 1) @ y, np.float32(0.5))


def conv(draw):
    n, size = draw(st.integers(3, 12)), draw(st.integers(1, 3))
    a, w = te.placeholder((n,), name="A"), te.placeholder((size,), name="W")
    pad = te.compute(
        (n + 2,),
        lambda i: tir.if_then_else(tir.all(i >= 1, i < n + 1), a[i - 1], te.const(0.0, "float32")),
        name="pad",
    )
    k = te.reduce_axis((0, size), "k")
    c = te.compute((n + 3 - size,), lambda i: te.sum(pad[i + k] * w[k], axis=k), name="C")
    d = te.compute(c.shape, lambda i: c[i] + 1.0, name="D")
    return [a, w], [pad, c], d, lambda x, y: np.correlate(np.pad(x, 1), y, "valid") + 1


def rows(draw):
    n, m = draw(st.integers(1, 8)), draw(st.integers(1, 12))
    a = te.placeholder((n, m), name="A")
    k, r = te.reduce_axis((0, m), "k"), te.reduce_axis((0, m), "r")
    top = te.compute((n,), lambda i: te.max(a[i, k], axis=k), name="top")
    up = te.compute((n, m), lambda i, j: te.exp(a[i, j] - top[i]), name="up")
    total = te.compute((n,), lambda i: te.sum(up[i, r], axis=r), name="total")
    out = te.compute((n, m), lambda i, j: up[i, j] / total[i], name="out")

    def softmax(x):
        e = np.exp(x - x.max(1, keepdims=True))
        return e / e.sum(1, keepdims=True)

    return [a], [top, up, total], out, softmax


def recurrent(draw):
    n, m = draw(st.integers(2, 5)), draw(st.integers(1, 8))
    a, state = te.placeholder((n, m), name="A"), te.placeholder((n, m), name="S")
    first = te.compute((1, m), lambda _, j: a[0, j] + 1.0, name="first")
    half = te.compute((n, m), lambda t, j: state[t - 1, j] * 0.5, name="half")
    step = te.compute((n, m), lambda t, j: half[t, j] + a[t, j], name="step")
    scan = te.scan(first, step, state, inputs=[a], name="scan")
    out = te.compute((n, m), lambda t, j: scan[t, j] * 2.0, name="out")

    def expected(x):
        y = x.copy()
        y[0] += 1
        for t in range(1, n):
            y[t] += y[t - 1] * np.float32(0.5)
        return y * 2

    return [a], [first, half, step], out, expected


class Steps:
    """Draws steps; those that the stage's own checks refuse are counted and left out."""

    def __init__(self, draw, s, inputs, middle, out):
        self.draw, self.s = draw, s
        self.inputs = inputs
        self.tensors = [*middle, out]
        self.out = out

    def one(self, items):
        found = list(items)
        assume(found)
        return self.draw(st.sampled_from(found))

    def stage(self):
        return self.s[self.one(self.tensors)]

    def split(self):
        stage = self.stage()
        loop = self.one(stage.leaf_iter_vars)
        how = {self.one(["factor", "nparts"]): self.draw(st.integers(1, 5))}
        stage.split(loop, **how)

    def fuse(self):
        stage = self.stage()
        loops = stage.leaf_iter_vars
        assume(loops)
        at = self.draw(st.integers(0, len(loops) - 1))
        stage.fuse(*loops[at : at + 2])

    def reorder(self):
        stage = self.stage()
        order = self.draw(st.permutations(stage.leaf_iter_vars))
        assume(order)
        stage.reorder(*order[: self.draw(st.integers(1, len(order)))])

    def compute_at(self):
        stage, parent = self.stage(), self.stage()
        stage.compute_at(parent, self.one(parent.leaf_iter_vars))

    def compute_inline(self):
        stage = self.stage()
        if stage.origin_op is not self.out.op:
            stage.compute_inline()

    def cache_write(self):
        self.tensors.append(self.s.cache_write(self.one(self.tensors), "local"))

    def cache_read(self):
        readers = self.one(self.tensors)
        source = self.one(self.s[readers].op.input_tensors)
        self.tensors.append(self.s.cache_read(source, "local", [readers]))

    def rfactor(self):
        tensor = self.one(self.tensors)
        loops = [v for v in self.s[tensor].leaf_iter_vars if v.iter_type == IterVar.CommReduce]
        if loops:
            self.tensors.append(self.s.rfactor(tensor, self.one(loops)))

    def run_as(self):
        stage = self.stage()
        how = self.one(["vectorize", "parallel", "unroll"])
        getattr(stage, how)(self.one(stage.leaf_iter_vars))

    def storage_align(self):
        stage = self.stage()
        stage.storage_align(self.one(stage.op.axis), 8, 1)


_STEPS = (
    *("split", "split", "reorder", "compute_at", "compute_at", "fuse", "run_as"),
    *("cache_write", "cache_read", "rfactor", "compute_inline", "storage_align"),
)


@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_random_schedules(data):
    draw = data.draw
    program = draw(st.sampled_from([elementwise, matmul, conv, rows, recurrent]))
    inputs, middle, out, expected = program(draw)
    s = te.create_schedule(out.op)
    steps = Steps(draw, s, inputs, middle, out)
    for name in draw(st.lists(st.sampled_from(_STEPS), min_size=1, max_size=10)):
        try:
            getattr(steps, name)()
        except ValueError as error:  # the error names the valid arguments
            assert "\n  " in str(error)
    args = [*inputs, out]
    try:
        mod = te.lower(s, args)
    except (ValueError, tir.ScheduleError) as error:
        assert "\n  instead: " in str(error) or "Error message: " in str(error), error
        event("refused")
        return
    event("lowered")
    tir.analysis.verify_well_formed(mod["main"])
    rng = np.random.default_rng(0)
    arrays = [rng.random([int(e) for e in t.shape]).astype("float32") for t in inputs]
    wanted = expected(*arrays)
    got = np.full(wanted.shape, np.nan, "float32")
    run(mod["main"], [*arrays, got])
    np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-5)
    if draw(st.integers(0, 3)) == 0:
        got = np.full(wanted.shape, np.nan, "float32")
        lw.compile(mod, "llvm")["main"](*arrays, got)
        np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-5)
