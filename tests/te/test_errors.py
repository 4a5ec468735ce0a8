"""What is said about the most likely mistakes: what, got, and what to do instead."""

from __future__ import annotations

import numpy as np
import pytest

from loopwright import te, tir


def chain():
    a = te.placeholder((8, 4), name="A")
    b = te.compute((8, 4), lambda i, j: a[i, j] * 2.0, name="B")
    c = te.compute((8, 4), lambda i, j: b[i, j] + 1.0, name="C")
    d = te.compute((8, 4), lambda x, y: a[x, y] - 1.0, name="D")
    return a, b, c, d, te.create_schedule([c.op, d.op])


def says(text, call, kind=ValueError):
    with pytest.raises(kind) as caught:
        call()
    assert str(caught.value) == text


def test_loops():
    a, _, c, d, s = chain()
    i, j = c.op.axis
    outer, _ = s[c].split(i, 4)
    says(
        "no loop of stage C any more: it was split or fused\n"
        "  got: i\n  instead: its loops are i_outer, i_inner, j",
        lambda: s[c].vectorize(i),
    )
    says(
        "no loop of stage C\n  got: x\n  instead: its loops are i_outer, i_inner, j",
        lambda: s[c].split(d.op.axis[0], 2),
    )
    says(
        "a step on stage C takes one of its loops\n"
        "  got: int\n  instead: its loops are i_outer, i_inner, j",
        lambda: s[c].unroll(0),
        TypeError,
    )
    says(
        "split of j: the factor is 1 or more\n  got: 0",
        lambda: s[c].split(j, 0),
    )
    says(
        "reorder in C names each loop once\n  got: j, j",
        lambda: s[c].reorder(j, j),
    )
    s[c].parallel(outer)
    says(
        "loop i_outer of C has its parallel already\n"
        "  instead: split, fuse and transform before parallel",
        lambda: s[c].split(outer, 2),
    )
    s[c].bind(j, te.thread_axis("threadIdx.x"))
    says(
        "loop j of C has its bind already\n  instead: split, fuse and transform before bind",
        lambda: s[c].split(j, 2),
    )
    k = te.reduce_axis((0, 4), "k")
    e = te.compute((8,), lambda i: te.sum(a[i, k], axis=k), name="E")
    s = te.create_schedule(e.op)
    says(
        "parallel of k: its iterations write the same elements\n"
        "  got: a reduction of E\n  instead: rfactor it, then the new axis can be",
        lambda: s[e].parallel(k),
    )
    says(
        "compute_inline: E is a reduction\n"
        "  got: an element that takes a loop\n  instead: compute_at",
        lambda: s[e].compute_inline(),
    )
    says(
        "rfactor of E takes a loop of its reduction\n  got: i\n  instead: one of k",
        lambda: s.rfactor(e, e.op.axis[0]),
    )
    says(
        "rfactor of E: factor_axis is 0 to 1, or negative\n  got: 2",
        lambda: s.rfactor(e, k, 2),
    )
    says(
        "storage_align takes an axis of the result of E\n  got: k\n  instead: one of i",
        lambda: s[e].storage_align(k, 8, 1),
    )


def test_places():
    a, b, c, d, s = chain()
    s[b].compute_at(s[d], d.op.axis[0])
    says(
        "compute_at: D does not use B\n  got: x\n  instead: a loop of C",
        lambda: te.lower(s, [a, c, d]),
    )
    s[b].compute_at(s[c], c.op.axis[0])
    s[c].fuse(*c.op.axis)
    says(
        "B is computed at a loop of C that is gone\n  got: i\n  instead: one of i_j_fused",
        lambda: te.lower(s, [a, c, d]),
    )
    s[b].compute_inline()
    s[d].compute_inline()
    says(
        "compute_inline: D is not an elementwise result\n"
        "  got: a result of the schedule\n  instead: compute_at, or compute_root",
        lambda: te.lower(s, [a, c, d]),
    )
    says(
        "compute_at: B cannot be computed inside of itself\n  instead: a stage that reads it",
        lambda: s[b].compute_at(s[b], b.op.axis[0]),
    )
    says(
        "compute_at takes a stage\n  got: Tensor\n  instead: s[C]",
        lambda: s[b].compute_at(c, c.op.axis[0]),
        TypeError,
    )
    says(
        "cache_read: D does not read B\n  instead: it reads A",
        lambda: (s.cache_read(b, "local", [d]), te.lower(s, [a, c, d])),
    )
    _, b, _, _, s = chain()
    k = te.reduce_axis((0, 4), "k")
    e = te.compute((8,), lambda i: te.sum(b[i, k], axis=k), name="E")
    s = te.create_schedule(e.op)
    s[e].split(k, 2)
    says(
        "cache_write of E: its loops of the reduction are split\n"
        "  got: k_outer\n  instead: cache_write before",
        lambda: s.cache_write(e, "local"),
    )
    a, b, c, d, s = chain()
    s[b].double_buffer()
    says(
        "double_buffer: B is computed once, for all\n"
        "  instead: compute_at a loop of its consumer first",
        lambda: te.lower(s, [a, c, d]),
    )


def test_arguments():
    a, _, c, d, s = chain()
    says(
        "the results of a schedule are among its arguments\n  got: D missing",
        lambda: te.lower(s, [a, c]),
    )
    with pytest.raises(ValueError, match="the placeholder A is read but is not an argument"):
        te.lower(s, [c, d])
    other = te.compute((2,), lambda i: a[i, 0], name="other")
    says(
        "the schedule has no stage of this\n  got: Tensor(shape=[2], op.name=other)\n"
        "  instead: it has A, B, C, D",
        lambda: te.lower(s, [a, c, d, other]),
    )
    says(
        "create_schedule takes operations\n  got: int\n  instead: C.op of a tensor C",
        lambda: te.create_schedule([3]),
        TypeError,
    )
    unused = te.placeholder((2,), name="unused")
    assert len(te.lower(s, [a, unused, c, d])["main"].params) == 4
    func = te.build(s, [a, c, d], "llvm")
    x = np.zeros((8, 4), "float32")
    with pytest.raises((TypeError, ValueError), match="float64"):
        func["main"](x.astype("float64"), x, x)
    with pytest.raises((TypeError, ValueError), match=r"\b9\b"):
        func["main"](np.zeros((9, 4), "float32"), x, x)


@pytest.mark.parametrize("made", [None, 0, "text", tir.PrimFunc([], tir.Evaluate(0))])
def test_what_the_function_of_an_extern_returns(made):
    with pytest.raises(ValueError, match="must return a statement or an expression"):
        te.extern((4,), [te.placeholder((4,), name="A")], lambda ins, outs: made)


def test_externs():
    a = te.placeholder((8,), name="A")

    def nothing(ins, outs):
        return tir.Evaluate(0)

    e = te.extern((8,), [a], nothing, name="E")
    e.op.inputs = (e,)
    says(
        "E is computed from itself\n  got: a cycle of operations\n  instead: te.scan",
        lambda: te.create_schedule(e.op),
    )
    view = tir.decl_buffer((8,), "float32", "view")
    says(
        "extern F writes a buffer that it reads\n"
        "  got: view\n  instead: a buffer of its own for each result",
        lambda: te.extern((8,), [a], nothing, name="F", in_buffers=view, out_buffers=view),
    )
    wide = tir.decl_buffer((8,), "float64", "wide")
    says(
        "extern F sees A, float32 with 1 dimensions, by another buffer\n"
        "  got: wide, float64 with 1",
        lambda: te.extern((8,), [a], nothing, name="F", in_buffers=wide),
    )
    long = tir.decl_buffer((9,), "float32", "long")
    says(
        "extern F: buffer long has 9 elements in dimension 0\n  got: 8 of A",
        lambda: te.extern((8,), [a], nothing, name="F", in_buffers=long),
    )


def test_scans_and_intrinsics():
    x, state = te.placeholder((6, 4), name="X"), te.placeholder((6, 4), name="S")
    first = te.compute((1, 4), lambda t, i: x[t, i], name="first")
    narrow = te.compute((6, 3), lambda t, i: state[t - 1, i], name="narrow")
    says(
        "scan scan: the state has 4 elements in dimension 1\n  got: 3 of narrow",
        lambda: te.scan(first, narrow, state),
    )
    step = te.compute((6, 4), lambda t, i: state[t - 1, i], name="step")
    says(
        "scan scan updates each state by a tensor of its own\n  got: step, step",
        lambda: te.scan([first, first], [step, step], [state, te.placeholder((6, 4))]),
    )
    out = te.scan(first, step, state, name="out")
    s = te.create_schedule(out.op)
    says(
        "env_threads around out need extents\n"
        '  got: threadIdx.x\n  instead: te.thread_axis((0, n), "threadIdx.x")',
        lambda: s[out].env_threads([te.thread_axis("threadIdx.x")]),
    )
    says(
        "compute_at: step is in a group that is computed as a whole\n  got: stage(first)\n"
        "  instead: a stage of the same group, or compute_at of the group",
        lambda: s[step].compute_at(s[first], first.op.axis[0]),
    )
    k = te.reduce_axis((0, 4), "k")
    c = te.compute((6,), lambda i: te.sum(x[i, k], axis=k), name="C")
    intrin = te.decl_tensor_intrin(c.op, lambda ins, outs: tir.Evaluate(0), name="sums")
    d = te.compute((6,), lambda i: te.sum(x[i, k], axis=k), name="D")
    s = te.create_schedule(d.op)
    outer, inner = s[d].split(k, 2)
    s[d].reorder(outer, d.op.axis[0], inner)
    s[d].tensorize(d.op.axis[0], intrin)
    says(
        "tensorize of D: sums computes something else\n"
        "  got: 2 in the program along k\n  instead: 4 in the intrinsic",
        lambda: te.lower(s, [x, d]),
    )
    y, k2 = te.placeholder((6, 2), name="Y"), te.reduce_axis((0, 2), "k")
    part = te.compute((6,), lambda i: te.sum(y[i, k2], axis=k2), name="part")
    half = te.decl_tensor_intrin(part.op, lambda ins, outs: tir.Evaluate(0), name="half")
    s = te.create_schedule(d.op)
    outer, inner = s[d].split(k, 2)
    s[d].reorder(outer, d.op.axis[0], inner)
    s[d].tensorize(d.op.axis[0], half)
    says(
        "half is used inside of a reduction, of which it does a part\n"
        "  got: an intrinsic without reset or update\n"
        "  instead: fcompute returns (body, reset, update), or tensorize the whole reduction",
        lambda: te.lower(s, [x, d]),
    )
    s = te.create_schedule(d.op)
    outer, _ = s[d].split(d.op.axis[0], 3)
    s[d].tensorize(s[d].leaf_iter_vars[1], intrin)
    with pytest.raises(ValueError, match="got: 3 in the program"):
        te.lower(s, [x, d])
