"""The classical tutorials of tensor expressions, as they were written for TVM <= 0.18: only the
package's name is another."""

# ruff: noqa: RUF059 - the scripts are as they were written
from __future__ import annotations

import numpy as np
import pytest

import loopwright as tvm
from loopwright import te

target = "llvm"


def random(rng, *shape):
    return rng.random(shape).astype("float32")


def zeros(*shape):
    return np.zeros(shape, "float32")


def body(mod):
    """The statements of a printed module's function."""
    lines = str(mod).splitlines()
    at = next(n for n, line in enumerate(lines) if "T.func_attr" in line)
    return "\n".join(line[8:] for line in lines[at + 1 :])


def test_vector_add(rng):
    n = te.var("n")
    A = te.placeholder((n,), name="A")
    B = te.placeholder((n,), name="B")
    C = te.compute(A.shape, lambda i: A[i] + B[i], name="C")
    s = te.create_schedule(C.op)
    outer, inner = s[C].split(C.op.axis[0], factor=64)
    s[C].parallel(outer)
    s[C].vectorize(inner)
    fadd = tvm.build(s, [A, B, C], target, name="myadd")
    for size in (1024, 37, 1):
        a, b, c = random(rng, size), random(rng, size), zeros(size)
        fadd(a, b, c)
        np.testing.assert_array_equal(c, a + b)
        fadd["myadd"](b, b, c)
        np.testing.assert_array_equal(c, b + b)


@pytest.fixture
def matmul_data(rng):
    a, b = random(rng, 64, 64), random(rng, 64, 64)
    return a, b, a @ b


def run_matmul(s, args, data):
    a, b, expected = data
    func = tvm.build(s, args, target=target, name="mmult")
    c = zeros(64, 64)
    func(a, b, c)
    np.testing.assert_allclose(c, expected, rtol=1e-5)


def operands(M, K, N):
    k = te.reduce_axis((0, K), "k")
    return k, te.placeholder((M, K), name="A"), te.placeholder((K, N), name="B")


def test_matmul_on_a_cpu(matmul_data):
    M = K = N = 64
    bn = 32
    k, A, B = operands(M, K, N)
    C = te.compute((M, N), lambda m, n: te.sum(A[m, k] * B[k, n], axis=k), name="C")
    s = te.create_schedule(C.op)
    assert body(tvm.lower(s, [A, B, C], simple_mode=True)) == (
        "for m, n in T.grid(64, 64):\n"
        "    C[m, n] = T.float32(0.0)\n"
        "    for k in range(64):\n"
        "        C[m, n] = C[m, n] + A[m, k] * B[k, n]"
    )
    run_matmul(s, [A, B, C], matmul_data)

    # blocking
    mo, no, mi, ni = s[C].tile(C.op.axis[0], C.op.axis[1], bn, bn)
    (kaxis,) = s[C].op.reduce_axis
    ko, ki = s[C].split(kaxis, factor=4)
    s[C].reorder(mo, no, ko, ki, mi, ni)
    run_matmul(s, [A, B, C], matmul_data)

    # vectorization, loop permutation
    s[C].reorder(mo, no, ko, mi, ki, ni)
    s[C].vectorize(ni)
    assert body(tvm.lower(s, [A, B, C], simple_mode=True)) == (
        "for m_outer, n_outer in T.grid(2, 2):\n"
        "    for m_inner_init in range(32):\n"
        "        for n_inner_init in T.vectorized(32):\n"
        "            C[m_outer * 32 + m_inner_init, n_outer * 32 + n_inner_init] = T.float32(0.0)\n"
        "    for k_outer, m_inner, k_inner in T.grid(16, 32, 4):\n"
        "        for n_inner in T.vectorized(32):\n"
        "            C[m_outer * 32 + m_inner, n_outer * 32 + n_inner] = "
        "C[m_outer * 32 + m_inner, n_outer * 32 + n_inner]"
        " + A[m_outer * 32 + m_inner, k_outer * 4 + k_inner]"
        " * B[k_outer * 4 + k_inner, n_outer * 32 + n_inner]"
    )
    run_matmul(s, [A, B, C], matmul_data)


def packed_matmul(M, K, N, bn):
    """A product with packing and a write cache: its schedule and arguments."""
    k, A, B = operands(M, K, N)
    packedB = te.compute(
        (N // bn, K, bn), lambda bigN, k, littleN: B[k, bigN * bn + littleN], name="packedB"
    )
    C = te.compute(
        (M, N),
        lambda m, n: te.sum(A[m, k] * packedB[n // bn, k, te.indexmod(n, bn)], axis=k),
        name="C",
    )
    s = te.create_schedule(C.op)
    CC = s.cache_write(C, "global")
    mo, no, mi, ni = s[C].tile(C.op.axis[0], C.op.axis[1], bn, bn)
    s[CC].compute_at(s[C], no)
    mc, nc = s[CC].op.axis
    (kaxis,) = s[CC].op.reduce_axis
    ko, ki = s[CC].split(kaxis, factor=4)
    s[CC].reorder(ko, mc, ki, nc)
    s[CC].vectorize(nc)
    s[CC].unroll(ki)
    s[C].parallel(mo)
    bigN, _, littleN = s[packedB].op.axis
    s[packedB].vectorize(littleN)
    s[packedB].parallel(bigN)
    return s, [A, B, C]


def test_matmul_with_packing_and_a_write_cache(matmul_data):
    s, args = packed_matmul(64, 64, 64, 32)
    text = body(tvm.lower(s, args, simple_mode=True))
    assert text.startswith(
        "packedB = T.decl_buffer((2, 64, 32))\n"
        "for bigN in T.parallel(2):\n"
        "    for k in range(64):\n"
        "        for littleN in T.vectorized(32):\n"
        "            packedB[bigN, k, littleN] = B[k, bigN * 32 + littleN]\n"
        "for m_outer in T.parallel(2):\n"
        "    for n_outer in range(2):\n"
        "        C_global = T.decl_buffer((32, 32))\n"
    )
    assert "for k_outer, m_c in T.grid(16, 32):\n" in text
    assert "for k_inner in T.unroll(4):\n" in text
    assert text.endswith(
        "for m_inner, n_inner in T.grid(32, 32):\n"
        "            C[m_outer * 32 + m_inner, n_outer * 32 + n_inner] = C_global[m_inner, n_inner]"
    )
    run_matmul(s, args, matmul_data)


def test_conv2d(rng):
    batch, channels, size, filters, kernel, pad = 1, 3, 8, 4, 3, 1
    A = te.placeholder((batch, channels, size, size), name="A")
    W = te.placeholder((filters, channels, kernel, kernel), name="W")
    Apad = te.compute(
        (batch, channels, size + 2 * pad, size + 2 * pad),
        lambda n, c, y, x: tvm.tir.if_then_else(
            tvm.tir.all(y >= pad, y - pad < size, x >= pad, x - pad < size),
            A[n, c, y - pad, x - pad],
            tvm.tir.const(0.0, "float32"),
        ),
        name="Apad",
    )
    rc = te.reduce_axis((0, channels), name="rc")
    ry = te.reduce_axis((0, kernel), name="ry")
    rx = te.reduce_axis((0, kernel), name="rx")
    B = te.compute(
        (batch, filters, size, size),
        lambda n, f, y, x: te.sum(
            Apad[n, rc, y + ry, x + rx] * W[f, rc, ry, rx], axis=[rc, ry, rx]
        ),
        name="B",
    )
    a, w = random(rng, batch, channels, size, size), random(rng, filters, channels, kernel, kernel)
    padded = np.pad(a, ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (kernel, kernel), (2, 3))
    expected = np.einsum("ncyxhw,fchw->nfyx", windows, w)
    for how in range(3):
        s = te.create_schedule(B.op)
        n, f, y, x = B.op.axis
        if how == 0:
            s[Apad].compute_inline()
        else:
            fo, fi = s[B].split(f, factor=2)
            s[B].reorder(n, fo, y, rc, ry, rx, fi, x)
            s[B].vectorize(x)
            fused = s[B].fuse(n, fo)
            s[B].parallel(fused)
            s[Apad].compute_at(s[B], y if how == 1 else fused)
        func = tvm.build(s, [A, W, B], target)
        b = zeros(batch, filters, size, size)
        func(a, w, b)
        np.testing.assert_allclose(b, expected, rtol=1e-5)


def test_reduction_with_rfactor(rng):
    n, m = 16, 48
    A = te.placeholder((n, m), name="A")
    k = te.reduce_axis((0, m), "k")
    B = te.compute((n,), lambda i: te.sum(A[i, k], axis=k), name="B")
    s = te.create_schedule(B.op)
    ko, ki = s[B].split(B.op.reduce_axis[0], factor=16)
    xo, xi = s[B].split(B.op.axis[0], factor=8)
    BF = s.rfactor(B, ki)
    assert [str(e) for e in BF.shape] == ["16", "16"]
    s[BF].compute_at(s[B], xo)
    s[B].parallel(xo)
    text = body(tvm.lower(s, [A, B], simple_mode=True))
    assert text == (
        "for i_outer in T.parallel(2):\n"
        "    B_rf = T.decl_buffer((16, 8))\n"
        "    for k_inner, i in T.grid(16, 8):\n"
        "        B_rf[k_inner, i] = T.float32(0.0)\n"
        "        for k_outer in range(3):\n"
        "            B_rf[k_inner, i] = "
        "B_rf[k_inner, i] + A[i + i_outer * 8, k_outer * 16 + k_inner]\n"
        "    for i_inner in range(8):\n"
        "        B[i_outer * 8 + i_inner] = T.float32(0.0)\n"
        "        for k_inner_v in range(16):\n"
        "            B[i_outer * 8 + i_inner] = "
        "B[i_outer * 8 + i_inner] + B_rf[k_inner_v, i_inner]"
    )
    func = tvm.build(s, [A, B], target)
    a, b = random(rng, n, m), zeros(n)
    func(a, b)
    np.testing.assert_allclose(b, a.sum(1), rtol=1e-5)


def test_scan_of_a_recurrent_cell(rng):
    steps, batch, size = 5, 2, 8
    X = te.placeholder((steps, batch, size), name="X")
    W = te.placeholder((size, size), name="W")
    state = te.placeholder((steps, batch, size), name="state")
    first = te.compute((1, batch, size), lambda _, b, i: te.tanh(X[0, b, i]), name="first")
    k = te.reduce_axis((0, size), name="k")
    hidden = te.compute(
        (steps, batch, size),
        lambda t, b, i: te.sum(state[t - 1, b, k] * W[i, k], axis=k),
        name="hidden",
    )
    cell = te.compute(
        (steps, batch, size), lambda t, b, i: te.tanh(hidden[t, b, i] + X[t, b, i]), name="cell"
    )
    out = te.scan(first, cell, state, inputs=[X, W], name="out")
    s = te.create_schedule(out.op)
    t, b, i = cell.op.axis
    s[hidden].compute_at(s[cell], b)
    s[cell].vectorize(i)
    ko, ki = s[hidden].split(hidden.op.reduce_axis[0], factor=4)
    s[hidden].reorder(ko, hidden.op.axis[2], ki)
    s[hidden].unroll(ki)
    s[first].compute_inline()
    func = tvm.build(s, [X, W, out], target)
    x, w, o = random(rng, steps, batch, size), random(rng, size, size), zeros(steps, batch, size)
    func(x, w, o)
    expected = np.tanh(x)
    for row in range(1, steps):
        expected[row] = np.tanh(expected[row - 1] @ w.T + x[row])
    np.testing.assert_allclose(o, expected, rtol=1e-5)
    text = body(tvm.lower(s, [X, W, out], simple_mode=True))
    assert "for out_idx, b in T.grid(4, 2):" in text and "for i in T.vectorized(8):" in text


def intrin_gemv(m, l):
    a = te.placeholder((l,), name="a")
    b = te.placeholder((m, l), name="b")
    k = te.reduce_axis((0, l), name="k")
    c = te.compute((m,), lambda i: te.sum(a[k] * b[i, k], axis=k), name="c")
    Ab = tvm.tir.decl_buffer(a.shape, a.dtype, name="A", offset_factor=1, strides=[1])
    Bb = tvm.tir.decl_buffer(b.shape, b.dtype, name="B", offset_factor=1, strides=[te.var("s1"), 1])
    Cb = tvm.tir.decl_buffer(c.shape, c.dtype, name="C", offset_factor=1, strides=[1])

    def intrin_func(ins, outs):
        aa, bb = ins
        cc = outs[0]

        def update():
            ib = tvm.tir.ir_builder.create()
            A, B, C = ib.buffer_ptr(aa), ib.buffer_ptr(bb), ib.buffer_ptr(cc)
            with (
                ib.for_range(0, m, "i") as i,
                ib.for_range(0, l, "k") as j,
            ):
                C[i] = C[i] + A[j] * B[i, j]
            return ib.get()

        def clear():
            ib = tvm.tir.ir_builder.create()
            C = ib.buffer_ptr(cc)
            with ib.for_range(0, m, "i") as i:
                C[i] = tvm.tir.const(0, "float32")
            return ib.get()

        return tvm.tir.SeqStmt([clear(), update()]), clear(), update()

    return te.decl_tensor_intrin(c.op, intrin_func, binds={a: Ab, b: Bb, c: Cb})


def test_tensorize_a_product_of_matrix_and_vector(rng):
    N, M, L = 16, 12, 8
    A = te.placeholder((N, L), name="A")
    B = te.placeholder((M, L), name="B")
    k = te.reduce_axis((0, L), name="k")
    C = te.compute((N, M), lambda i, j: te.sum(A[i, k] * B[j, k], axis=k), name="C")
    a, b = random(rng, N, L), random(rng, M, L)
    for whole in (True, False):
        s = te.create_schedule(C.op)
        x, y = C.op.axis
        (z,) = C.op.reduce_axis
        yo, yi = s[C].split(y, factor=4)
        if whole:
            s[C].reorder(x, yo, yi, z)
            s[C].tensorize(yi, intrin_gemv(4, L))
        else:
            zo, zi = s[C].split(z, factor=2)
            s[C].reorder(x, yo, zo, yi, zi)
            s[C].tensorize(yi, intrin_gemv(4, 2))
        assert "for i_1" in str(tvm.lower(s, [A, B, C], simple_mode=True))
        func = tvm.build(s, [A, B, C], target=target, name="gemv")
        c = zeros(N, M)
        func(a, b, c)
        np.testing.assert_allclose(c, a @ b.T, rtol=1e-5)


def test_extern_call_of_a_packed_function(rng):
    @tvm.register_func("te.test.matmul", override=True)
    def my_matmul(x, y, z):
        z.copyfrom(x.numpy() @ y.numpy())

    n, l, m = 6, 4, 5
    A = te.placeholder((n, l), name="A")
    B = te.placeholder((l, m), name="B")
    C = te.extern(
        (n, m),
        [A, B],
        lambda ins, outs: tvm.tir.call_packed("te.test.matmul", ins[0], ins[1], outs[0]),
        name="C",
    )
    D = te.compute(C.shape, lambda i, j: C[i, j] + 1.0, name="D")
    s = te.create_schedule(D.op)
    s[D].vectorize(D.op.axis[1])
    func = tvm.build(s, [A, B, D], target, name="f")
    a, b, d = random(rng, n, l), random(rng, l, m), zeros(n, m)
    func(a, b, d)
    np.testing.assert_allclose(d, a @ b + 1, rtol=1e-5)


def test_tuple_inputs_and_argmax(rng):
    def fcombine(x, y):
        lhs = tvm.tir.Select(x[1] >= y[1], x[0], y[0])
        rhs = tvm.tir.Select(x[1] >= y[1], x[1], y[1])
        return lhs, rhs

    def fidentity(t0, t1):
        return tvm.tir.const(-1, t0), te.min_value(t1)

    argmax = te.comm_reducer(fcombine, fidentity, name="argmax")
    m, n = 6, 20
    idx = te.placeholder((m, n), name="idx", dtype="int32")
    val = te.placeholder((m, n), name="val", dtype="float32")
    k = te.reduce_axis((0, n), "k")
    T0, T1 = te.compute((m,), lambda i: argmax((idx[i, k], val[i, k]), axis=k), name="T")
    v = random(rng, m, n)
    order = np.tile(np.arange(n, dtype="int32"), (m, 1))
    for how in range(3):
        s = te.create_schedule(T0.op)
        if how:
            ko, ki = s[T0].split(T0.op.reduce_axis[0], factor=4 if how == 1 else 6)
            TF0, _ = s.rfactor(T0, ki)
            s[TF0].compute_at(s[T0], T0.op.axis[0])
        s[T0].parallel(T0.op.axis[0])
        func = tvm.build(s, [idx, val, T0, T1], target)
        t0, t1 = np.zeros(m, "int32"), zeros(m)
        func(order, v, t0, t1)
        np.testing.assert_array_equal(t0, v.argmax(1))
        np.testing.assert_array_equal(t1, v.max(1))

    # several results of one compute
    A0, A1 = te.placeholder((m, n), name="A0"), te.placeholder((m, n), name="A1")
    B0, B1 = te.compute((m, n), lambda i, j: (A0[i, j] + 2, A1[i, j] * 3), name="B")
    s = te.create_schedule(B0.op)
    s[B0].vectorize(B0.op.axis[1])
    func = tvm.build(s, [A0, A1, B0, B1], target)
    a0, a1, b0, b1 = random(rng, m, n), random(rng, m, n), zeros(m, n), zeros(m, n)
    func(a0, a1, b0, b1)
    np.testing.assert_allclose(b0, a0 + 2, rtol=1e-6)
    np.testing.assert_allclose(b1, a1 * 3, rtol=1e-6)


def test_intrinsics_and_math(rng):
    n = te.var("n")
    A = te.placeholder((n,), name="A")
    B = te.compute(
        A.shape,
        lambda i: te.exp(A[i]) + te.sqrt(A[i]) * te.log(A[i] + 1.0) - te.erf(A[i]) + te.floor(A[i]),
        name="B",
    )
    C = te.compute(A.shape, lambda i: te.max_value("float32") * 0.0 + te.power(B[i], 2.0), name="C")
    s = te.create_schedule(C.op)
    s[B].compute_inline()
    outer, inner = s[C].split(C.op.axis[0], factor=8)
    s[C].vectorize(inner)
    func = tvm.build(s, [A, C], target, name="myexp")
    from math import erf

    for size in (16, 13):
        a, c = random(rng, size) * 3, zeros(size)
        func(a, c)
        b = np.exp(a) + np.sqrt(a) * np.log(a + 1) - np.vectorize(erf)(a) + np.floor(a)
        np.testing.assert_allclose(c, b**2, rtol=1e-5)


def test_reductions_over_conditions_and_booleans(rng):
    n = 10
    A = te.placeholder((n, n), name="A")
    k = te.reduce_axis((0, n), "k")
    outs = [
        te.compute((n,), lambda i: te.sum(A[i, k], axis=k, where=k < i), name="below"),
        te.compute((n,), lambda i: te.prod(A[i, k], axis=k), name="prod"),
        te.compute((n,), lambda i: te.min(A[i, k], axis=k), name="least"),
        te.compute((n,), lambda i: te.max(A[i, k], axis=k, init=0.9), name="most"),
        te.compute((n,), lambda i: te.any(A[i, 0] > 0.5, A[i, 1] > 0.5), name="any"),
        te.compute((n,), lambda i: te.all(A[i, 0] > 0.5, A[i, 1] > 0.5), name="all"),
    ]
    s = te.create_schedule([o.op for o in outs])
    func = tvm.build(s, [A, *outs], target)
    a = random(rng, n, n)
    got = [np.zeros(n, str(o.dtype)) for o in outs]
    func(a, *got)
    expected = [
        np.tril(a, -1).sum(1), a.prod(1), a.min(1), np.maximum(a.max(1), np.float32(0.9)),
        (a[:, :2] > 0.5).any(1), (a[:, :2] > 0.5).all(1),
    ]  # fmt: skip
    for ours, theirs in zip(got, expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5)
