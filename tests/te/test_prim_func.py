"""create_prim_func against what one writes by hand in TVMScript."""

# ruff: noqa: SIM300, F841
from __future__ import annotations

import numpy as np
import pytest

from loopwright import te, tir
from loopwright.ir.structural import assert_structural_equal
from loopwright.runtime.packed_func import register_func, remove_global_func
from loopwright.script import from_source
from loopwright.script import tir as T
from loopwright.tir.interpreter import run


def check(func, expected):
    assert_structural_equal(
        func.without_attr("global_symbol"), expected.without_attr("global_symbol")
    )
    tir.analysis.verify_well_formed(func)


def test_matmul_of_the_tutorial():
    @T.prim_func(private=True)
    def expected(
        var_x: T.handle,
        permute_dims: T.Buffer((T.int64(784), T.int64(128)), "float32"),
        var_matmul: T.handle,
    ):
        T.func_attr({"tir.noalias": True})
        n = T.int64()
        x = T.match_buffer(var_x, (n, T.int64(784)))
        matmul = T.match_buffer(var_matmul, (n, T.int64(128)))
        for i0, i1, k in T.grid(n, T.int64(128), T.int64(784)):
            with T.block("matmul"):
                v_i0, v_i1, v_k = T.axis.remap("SSR", [i0, i1, k])
                T.reads(x[v_i0, v_k], permute_dims[v_k, v_i1])
                T.writes(matmul[v_i0, v_i1])
                with T.init():
                    matmul[v_i0, v_i1] = T.float32(0.0)
                matmul[v_i0, v_i1] = matmul[v_i0, v_i1] + x[v_i0, v_k] * permute_dims[v_k, v_i1]

    n = te.size_var("n", "int64")
    x = te.placeholder((te.var("n", "int64"), 784), name="x")
    n = x.shape[0]
    w = te.placeholder((784, 128), name="permute_dims")
    k = te.reduce_axis((0, 784), name="k")
    out = te.compute((n, 128), lambda *i: te.sum(x[i[0], k] * w[k, i[1]], axis=k), name="matmul")
    func = te.create_relax_prim_func([x, w, out])
    check(func, expected)
    assert [p.name for p in func.params] == ["var_x", "var_permute_dims", "var_matmul"]
    assert func.buffers[0].shape[0].dtype == "int64"
    block = func.body.block.body.body.body.body.block
    assert block.name_hint == "matmul" and block.iter_vars[0].var.name == "v_i0"


def test_intermediates_are_allocated_and_names_made_unique():
    @T.prim_func
    def expected(A: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")):
        T.func_attr({"tir.noalias": True})
        B = T.alloc_buffer((8,))
        for i in range(8):
            with T.block("B"):
                v_i = T.axis.spatial(8, i)
                T.reads(A[v_i])
                T.writes(B[v_i])
                T.block_attr({"hint": 3})
                B[v_i] = A[v_i] * T.float32(2.0)
        for i0 in range(8):
            with T.block("B_1"):
                v_i0 = T.axis.spatial(8, i0)
                T.reads(B[v_i0])
                T.writes(C[v_i0])
                C[v_i0] = B[v_i0] + T.float32(1.0)

    a = te.placeholder((8,), name="A")
    b = te.compute((8,), lambda i: a[i] * 2.0, name="B", attrs={"hint": 3})
    c = te.compute((8,), lambda *i: b(*i) + 1.0, name="B")
    func = te.create_prim_func([a, c])
    check(func, expected)
    assert func.attrs["global_symbol"] == "main"
    names = []
    tir.stmt_functor.post_order_visit(
        func.body, lambda n: names.append(n.name_hint) if isinstance(n, tir.Block) else None
    )
    assert names == ["B", "B_1", "root"]


def test_zero_dimensions():
    x = te.placeholder((), name="x")
    func = te.create_relax_prim_func([x, te.compute((), lambda: x() + 1.0, name="T_add")])

    @T.prim_func(private=True)
    def expected(x: T.Buffer((), "float32"), T_add: T.Buffer((), "float32")):
        T.func_attr({"tir.noalias": True})
        with T.block("T_add"):
            vi = T.axis.spatial(1, T.int64(0))
            T.reads(x[()])
            T.writes(T_add[()])
            T_add[()] = x[()] + T.float32(1.0)

    check(func, expected)
    out = np.zeros((), "float32")
    run(func, [np.array(2.0, "float32"), out])
    assert out == 3


def argmax_tensors(n=4, m=5):
    def combine(a, b):
        better = tir.any(a[1] > b[1], tir.all(tir.EQ(a[1], b[1]), a[0] < b[0]))
        return tir.Select(better, a[0], b[0]), tir.Select(a[1] > b[1], a[1], b[1])

    argmax = te.comm_reducer(combine, lambda i, v: (tir.const(-1, i), te.min_value(v)), "argmax")
    x = te.placeholder((n, m), name="x")
    k = te.reduce_axis((0, m), name="k")
    return x, te.compute((n,), lambda i: argmax((k, x[i, k]), axis=k), name="best")


@pytest.mark.parametrize("dtype", [None, "int64"])
def test_several_values_are_computed_before_the_first_is_stored(dtype):
    x, best = argmax_tensors()
    func = te.create_prim_func([x, *best], index_dtype_override=dtype)
    tir.analysis.verify_well_formed(func)
    data = np.random.default_rng(0).standard_normal((4, 5)).astype("float32")
    data[2, 1] = data[2, 4] = 9.0
    index, value = np.zeros(4, "int32"), np.zeros(4, "float32")
    run(func, [data, index, value])
    np.testing.assert_array_equal(index, data.argmax(1))
    np.testing.assert_array_equal(value, data.max(1))
    lets = []
    tir.stmt_functor.post_order_visit(
        func.body, lambda n: lets.append(n.var) if isinstance(n, tir.LetStmt) else None
    )
    assert {v.name for v in lets} == {"v_best_v0", "v_best_v1"}


def test_two_results_of_one_loop_nest():
    a = te.placeholder((4, 4), name="a")
    two = te.compute((4, 4), lambda i, j: (a[i, j] + 1.0, a[j, i] * 2.0), name="two")
    func = te.create_prim_func([a, *two])
    assert isinstance(func.body.block.body.body.body, tir.SeqStmt)
    x = np.arange(16, dtype="float32").reshape(4, 4)
    outs = [np.zeros((4, 4), "float32") for _ in range(2)]
    run(func, [x, *outs])
    np.testing.assert_array_equal(outs[0], x + 1)
    np.testing.assert_array_equal(outs[1], x.T * 2)


def test_where_and_init_of_a_reduction():
    a = te.placeholder((4, 6), name="A")
    k = te.reduce_axis((1, 6), name="k")
    b = te.compute((4,), lambda i: te.sum(a[i, k], axis=k, where=k > i, init=0.5))
    x = np.random.default_rng(0).standard_normal((4, 6)).astype("float32")
    out = np.zeros(4, "float32")
    run(te.create_prim_func([a, b]), [x, out])
    want = [0.5 + sum(x[i, k] for k in range(1, 6) if k > i) for i in range(4)]
    np.testing.assert_allclose(out, want, rtol=1e-5)


def test_an_extent_that_is_data():
    a = te.placeholder((4, 8), name="A")
    lengths = te.placeholder((4,), "int32", name="lengths")

    def total(i):
        r = te.reduce_axis((0, lengths[i]), name="r")
        return te.sum(a[i, r], axis=r)

    func = te.create_prim_func([a, lengths, te.compute((4,), total, name="C")])
    tir.analysis.verify_well_formed(func)
    x = np.random.default_rng(0).standard_normal((4, 8)).astype("float32")
    counts, out = np.array([3, 8, 1, 5], "int32"), np.zeros(4, "float32")
    run(func, [x, counts, out])
    np.testing.assert_allclose(out, [x[i, :c].sum() for i, c in enumerate(counts)], rtol=1e-5)


def test_index_type_reaches_everything():
    a = te.placeholder((16, 8), name="A")
    index = te.placeholder((4,), "int32", name="idx")
    picked = te.compute((4, 8), lambda i, j: a[index[i], j] * tir.Cast("float32", i), name="B")

    @T.prim_func
    def expected(
        A: T.Buffer((T.int64(16), T.int64(8)), "float32"),
        idx: T.Buffer((T.int64(4),), "int32"),
        B: T.Buffer((T.int64(4), T.int64(8)), "float32"),
    ):
        T.func_attr({"tir.noalias": True})
        for i, j in T.grid(T.int64(4), T.int64(8)):
            with T.block("B"):
                v_i, v_j = T.axis.remap("SS", [i, j])
                T.reads(A[idx[v_i], v_j], idx[v_i])
                T.writes(B[v_i, v_j])
                B[v_i, v_j] = A[idx[v_i], v_j] * T.Cast("float32", v_i)

    check(te.create_prim_func([a, index, picked], index_dtype_override="int64"), expected)
    count = te.compute((4,), lambda i: i + 1, name="n")
    func = te.create_prim_func([count], index_dtype_override="int64")
    assert func.buffers[0].dtype == "int32"
    out = np.zeros(4, "int32")
    run(func, [out])
    np.testing.assert_array_equal(out, [1, 2, 3, 4])


def test_elements_are_tidied():
    x = te.placeholder((1, 3, 6), name="x")
    pad = te.compute(
        (1, 3, 8),
        lambda a, b, c: tir.if_then_else(tir.all(c >= 1, c < 7), x[a, b, c - 1], 0.0),
        name="pad",
    )

    @T.prim_func
    def expected(x: T.Buffer((1, 3, 6), "float32"), pad: T.Buffer((1, 3, 8), "float32")):
        T.func_attr({"tir.noalias": True})
        for a, b, c in T.grid(1, 3, 8):
            with T.block("pad"):
                v_a, v_b, v_c = T.axis.remap("SSS", [a, b, c])
                T.reads(x[v_a, v_b, v_c - 1])
                T.writes(pad[v_a, v_b, v_c])
                pad[v_a, v_b, v_c] = T.if_then_else(
                    1 <= v_c and v_c < 7, x[v_a, v_b, v_c - 1], T.float32(0.0)
                )

    check(te.create_prim_func([x, pad]), expected)
    flip = te.compute((1, 3, 6), lambda a, b, c: x[a, b, 0 - c + 5])
    (region,) = te.create_prim_func([x, flip]).body.block.body.body.body.body.block.reads
    assert str(region.region[2].min) == "5 - v_c"


def test_reads_of_one_buffer_are_one_box():
    a = te.placeholder((16, 8), name="A")
    b = te.compute((4, 7), lambda i, j: a[i, j] + a[i + 1, j] + a[i + 3, j + 1], name="B")
    block = te.create_prim_func([a, b]).body.block.body.body.body.block
    (region,) = block.reads
    assert [int(r.extent) for r in region.region] == [4, 2]


def scale(ins, outs):
    i = tir.Var("i", "int32")
    store = tir.BufferStore(outs[0], ins[0][i] * 2.0, [i])
    return tir.For(i, 0, 3, 0, store)


def test_extern_statements():
    z = te.placeholder((3,), name="z")
    doubled = te.extern((3,), [z], scale, name="doubled")
    alone = te.create_prim_func([z, doubled])
    assert alone.body.block.name_hint == "doubled" and alone.body.block.reads == ()
    assert alone.buffers[0].offset_factor == 1
    both = te.create_relax_prim_func([z, te.compute((3,), lambda i: doubled[i] + 1.0)])
    tir.analysis.verify_well_formed(both)
    for func, plus in ((alone, 0), (both, 1)):
        out = np.zeros(3, "float32")
        run(func, [np.arange(3, dtype="float32"), out])
        np.testing.assert_array_equal(out, np.arange(3) * 2 + plus)
    first = both.body.block.body.seq[0].block
    assert len(first.reads) == 1 and len(first.writes) == 1


def test_extern_packed_call():
    register_func("test.te.plus_one", lambda x, y: np.copyto(np.asarray(y), np.asarray(x) + 1))
    try:
        z = te.placeholder((3, 2), name="z")
        call = te.extern(
            (3, 2), [z], lambda i, o: tir.call_packed("test.te.plus_one", i[0], o[0]), name="E"
        )
        out = np.zeros((3, 2), "float32")
        run(te.create_prim_func([z, call]), [np.ones((3, 2), "float32"), out])
        np.testing.assert_array_equal(out, 2)
    finally:
        remove_global_func("test.te.plus_one")


def test_extern_of_a_prim_func():
    @T.prim_func
    def square(a: T.handle, b: T.handle):
        n = T.int32()
        A = T.match_buffer(a, (n, 4))
        B = T.match_buffer(b, (n, 4))
        for i, j in T.grid(n, 4):
            with T.block("square"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] * A[vi, vj]

    x = te.placeholder((5, 4), name="x")
    y = te.compute((5, 4), lambda i, j: x[i, j] + 1.0, name="y")
    z = te.extern_primfunc([y], square)
    out = np.zeros((5, 4), "float32")
    run(te.create_prim_func([x, z]), [np.ones((5, 4), "float32"), out])
    np.testing.assert_array_equal(out, 4)


def test_results_of_a_prim_func_are_what_it_writes():
    func = from_source("""
@T.prim_func
def step(C: T.Buffer((1,), "float32"), A: T.Buffer((4,), "float32"), D: T.Buffer((4,), "float32")):
    for i in range(4):
        with T.block():
            C[0] = C[0] + A[i] + D[i]
            A[i] = C[0]
""")
    by_name = {b.name: b for b in func.buffer_map.values()}
    ins = [te.placeholder(by_name[n].shape, name=n) for n in ("C", "D")]
    result = te.extern_primfunc(ins, func)
    (result,) = result if isinstance(result, list) else [result]
    assert result.op.output_placeholders[0] is by_name["A"]
    assert list(result.op.input_placeholders) == [by_name["C"], by_name["D"]]
    args = [np.array(v, "float32") for v in ([1], [1, 2, 3, 4], [0, 1, 0, 1])]
    run(te.create_prim_func([ins[0], result, ins[1]]), args)
    assert args[0].tolist() == [13.0] and args[1].tolist() == [2.0, 5.0, 8.0, 13.0]


def test_a_prim_func_may_be_used_twice():
    func = from_source("""
@T.prim_func
def twice(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
    for i in range(4):
        with T.block("B"):
            v = T.axis.spatial(4, i)
            B[v] = A[v] * T.float32(2)
""")
    x = te.placeholder((4,), name="x")
    y = te.extern_primfunc([te.extern_primfunc([x], func)], func)
    made = te.create_prim_func([x, y])
    tir.analysis.verify_well_formed(made, once=False)
    out = np.zeros(4, "float32")
    run(made, [np.arange(4, dtype="float32"), out])
    np.testing.assert_array_equal(out, np.arange(4) * 4)


def test_variables_as_parameters():
    n, scale_by = te.var("n", "int64"), te.var("s", "int64")
    x = te.placeholder((n,), name="x")
    y = te.compute((n,), lambda i: x[i] * tir.Cast("float32", scale_by))
    func = te.create_relax_prim_func([x, y], [scale_by])
    assert [p.name for p in func.params] == ["var_x", "var_compute", "s"]
    out = np.zeros(3, "float32")
    run(func, [np.ones(3, "float32"), out, 5])
    np.testing.assert_array_equal(out, 5)


def test_layouts_that_are_free():
    a, b = (te.placeholder((4,), name=name) for name in "ab")
    c = te.compute((4,), lambda i: a[i] * b[i], "c", attrs={"layout_free_placeholders": [b]})
    d = te.compute((4,), lambda i: c[i] + 1, "d", attrs={"layout_free_placeholders": [c]})
    func = te.create_prim_func([a, b, d])
    assert list(func.attrs["layout_free_buffers"]) == [1]
    first, second = (loop.body.block for loop in func.body.block.body.seq)
    assert "layout_free_placeholders" not in first.annotations
    (buffer,) = second.annotations["layout_free_placeholders"]
    assert buffer is first.writes[0].buffer


def test_errors():
    a = te.placeholder((4,), name="A")
    b = te.compute((4,), lambda i: a[i])
    with pytest.raises(ValueError, match="the placeholder A is read but is not an argument"):
        te.create_prim_func([b])
    with pytest.raises(TypeError, match="takes tensors and variables"):
        te.create_prim_func([a, 3])
    with pytest.raises(ValueError, match="no tensor to compute"):
        te.create_prim_func([a])


def test_a_chain_of_thousands_of_operations():
    x = te.placeholder((2,), name="x")
    y = x
    for _ in range(1200):
        y = te.compute((2,), lambda i, y=y: y[i] + 1.0)
    out = np.zeros(2, "float32")
    run(te.create_prim_func([x, y]), [np.zeros(2, "float32"), out])
    np.testing.assert_array_equal(out, 1200)
