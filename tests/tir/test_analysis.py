"""Questions about functions."""

from __future__ import annotations

from textwrap import indent
from typing import Any

import pytest

from loopwright import IRModule, tir
from loopwright.arith import Analyzer
from loopwright.script import from_source
from loopwright.script import tir as T
from loopwright.tir import analysis
from loopwright.tir import transform as tt
from loopwright.tir.analysis.bounds import bounds_of, difference
from loopwright.tir.analysis.op_pattern import analyze_op_pattern
from loopwright.tir.analysis.value import iterations, lanes_at, samples, value_at

from ..programs import matmul, row_sums


def blocks(func):
    found = {}
    tir.stmt_functor.post_order_visit(
        func.body, lambda n: found.update({n.name_hint: n}) if isinstance(n, tir.Block) else None
    )
    return found


def buffers(func):
    found = {}
    tir.stmt_functor.post_order_visit(
        func, lambda n: found.update({n.name: n}) if isinstance(n, tir.Buffer) else None
    )
    return found


def texts(regions):
    return [str(r) for r in regions]


MATMUL = matmul(16, 8, 32, D="T.max(C[vi, vj], T.float32(0))")


@T.prim_func
def opaque(A: T.Buffer((16, 32)), B: T.Buffer((16, 32))):
    for i in range(4):
        with T.block("tile"):
            vi = T.axis.spatial(4, i)
            T.reads(A[vi * 4 : vi * 4 + 4, 0:32])
            T.writes(B[vi * 4 : vi * 4 + 4, 0:32])
            for a, b in T.grid(4, 32):
                B[vi * 4 + a, 31 - b] = A[vi * 4 + a, b] + A[vi * 4, b // 2]


def test_access_region_of_leaf_blocks():
    reads, writes, left = analysis.get_block_access_region(blocks(MATMUL)["C"], {})
    assert texts(reads) == ["A[vi, vk]", "B[vk, vj]"]
    assert texts(writes) == ["C[vi, vj]"] and left == []


def test_access_region_over_inner_loops():
    reads, writes, _ = analysis.get_block_access_region(blocks(opaque)["tile"], {})
    assert texts(reads) == ["A[vi * 4:vi * 4 + 4, 0:32]"]
    assert texts(writes) == ["B[vi * 4:vi * 4 + 4, 0:32]"]


def test_access_region_of_the_root():
    root = blocks(MATMUL)["root"]
    reads, writes, _ = analysis.get_block_access_region(root, {})
    assert texts(reads) == ["A[0:16, 0:32]", "B[0:32, 0:8]"]
    assert texts(writes) == ["D[0:16, 0:8]"]


def test_symbolic_loops_and_data_dependent_indices():
    n = tir.Var("n", "int32")
    a = tir.decl_buffer((n,), "float32", "A")
    index = tir.decl_buffer((n,), "int32", "J")
    i = tir.Var("i", "int32")
    body = tir.For(i, 0, n, 0, tir.BufferStore(a, a[index[i]], [i]))
    reads, writes, _ = analysis.get_block_access_region(tir.Block([], [], [], "b", body), {})
    assert texts(reads) == ["A[0:n]", "J[0:n]"] and texts(writes) == ["A[0:n]"]


def test_loops_up_to_what_let_binds():
    a, count = tir.decl_buffer((8,), "int32", "A"), tir.decl_buffer((1,), "int32", "N")
    i, n, m = (tir.Var(name, "int32") for name in "inm")
    loop = tir.For(i, 0, n, 0, tir.BufferStore(a, a[i + m], [i]))
    body = tir.LetStmt(m, 2, tir.LetStmt(n, count[0], loop))
    reads, writes, _ = analysis.get_block_access_region(tir.Block([], [], [], "b", body), {})
    assert texts(writes) == ["A[0:N[0]]"] and "A[2:2 + N[0]]" in texts(reads)


def test_pointers_are_opaque_unless_they_say_more():
    a, b = tir.decl_buffer((8,), "float32", "A"), tir.decl_buffer((8,), "float32", "B")
    pointers = {a.data: a, b.data: b}
    call = tir.call_extern("int32", "f", a.access_ptr("r", offset=2, extent=4), b.data)
    block = tir.Block([], [], [], "b", tir.Evaluate(call))
    reads, writes, left = analysis.get_block_access_region(block, pointers)
    assert texts(reads) == ["A[2:6]"] and writes == [] and texts(left) == ["B[0:8]"]
    reads, writes = analysis.get_block_read_write_region(block, pointers)
    assert texts(reads) == ["A[2:6]", "B[0:8]"] and texts(writes) == ["B[0:8]"]


def test_matched_buffers_count_for_their_source():
    @T.prim_func
    def func(A: T.Buffer((16, 16)), B: T.Buffer((16, 16))):
        for i in range(4):
            with T.block("b"):
                vi = T.axis.spatial(4, i)
                T.reads(A[vi * 4 : vi * 4 + 4, 0:8])
                T.writes(B[vi, 0:8])
                sub = T.match_buffer(A[vi * 4 : vi * 4 + 4, 0:8], (4, 8), offset_factor=1)
                for j in range(8):
                    B[vi, j] = sub[1, j]

    reads, writes, _ = analysis.get_block_access_region(blocks(func)["b"], {})
    assert texts(reads) == ["A[vi * 4 + 1, 0:8]"] and texts(writes) == ["B[vi, 0:8]"]


def test_undefined_vars():
    x, y, z = (tir.Var(v, "int32") for v in "xyz")
    assert analysis.undefined_vars(x + y * x) == [x, y]
    assert analysis.undefined_vars(x + y, [x]) == [y]
    assert analysis.undefined_vars(tir.Let(x, y, x + z)) == [y, z]
    assert analysis.undefined_vars(tir.For(x, 0, y, 0, tir.Evaluate(x + z))) == [y, z]
    assert analysis.undefined_vars(MATMUL) == []
    v = tir.IterVar((0, y), "v", tir.IterVar.CommReduce)
    total = tir.CommReducer([x, z], [], [x + z], [tir.const(0)])
    reduce = tir.Reduce(total, [v.var + z], [v], v.var < 3, 0, [x])
    assert analysis.undefined_vars(reduce) == [y, z, x]
    assert analysis.undefined_vars(reduce.axis[0]) == [v.var]
    a = tir.decl_buffer((4,), "float32", "A")
    assert analysis.undefined_vars(tir.BufferStore(a, 1.0, [x])) == [a.data, x]


def test_well_formed_functions():
    for func in (MATMUL, opaque):
        assert analysis.verify_well_formed(func)
        assert analysis.well_formed_errors(func) == []
        assert analysis.verify_ssa(func)


def refuse(func, rule, got):
    assert not analysis.verify_well_formed(func, assert_mode=False)
    with pytest.raises(ValueError, match=rule) as error:
        analysis.verify_well_formed(func)
    assert got in str(error.value)


def test_undefined_variable():
    a = tir.decl_buffer((4,), "float32", "A")
    i = tir.Var("i", "int32")
    store = tir.BufferStore(a, 1.0, [i])
    refuse(tir.PrimFunc([a], store), "undefined-variable", "got: i")
    after = tir.SeqStmt([tir.For(i, 0, 4, 0, store), store])
    refuse(tir.PrimFunc([a], after), "undefined-variable", "no longer in-scope")


def test_undefined_buffer():
    a = tir.decl_buffer((4,), "float32", "A")
    refuse(tir.PrimFunc([], tir.BufferStore(a, 1.0, [0])), "undefined-buffer", "got: A")


def test_defined_twice():
    i = tir.Var("i", "int32")
    inner = tir.For(i, 0, 4, 0, tir.Evaluate(i + 1))
    refuse(tir.PrimFunc([], tir.For(i, 0, 4, 0, inner)), "defined-once", "got: i")
    twice = tir.PrimFunc([], tir.SeqStmt([inner, inner]))
    refuse(twice, "defined-again", "got: i")
    assert analysis.verify_well_formed(twice, once=False) and not analysis.verify_ssa(twice)
    first, second = (tir.PrimFunc([], inner) for _ in range(2))
    refuse(
        IRModule({"f": first, "g": second}), "defined-again", "multiple definitions of variable i"
    )


def test_a_thread_is_launched_twice_in_one_function():
    x = tir.IterVar((0, 8), "x", 1, "threadIdx.x")
    launch = tir.AttrStmt(x, "thread_extent", 8, tir.Evaluate(x.var))
    func = tir.PrimFunc([], tir.SeqStmt([launch, launch]))
    assert analysis.verify_well_formed(func)
    module = IRModule({"f": func, "g": tir.PrimFunc([], launch)})
    refuse(module, "defined-again", "got: x")


def test_block_boundary_and_bindings():
    a = tir.decl_buffer((4,), "float32", "A")
    i = tir.Var("i", "int32")
    v = tir.IterVar((0, 4), "v", 0)
    block = tir.Block([v], [], [], "b", tir.BufferStore(a, 1.0, [i]))
    func = tir.PrimFunc([a], tir.For(i, 0, 4, 0, tir.BlockRealize([i], True, block)))
    refuse(func, "block-boundary", "loop variable i in block b")
    good = tir.Block([v], [], [], "b", tir.BufferStore(a, 1.0, [v.var]))
    func = tir.PrimFunc([a], tir.BlockRealize([], True, good))
    refuse(func, "block-bindings", "0 values for 1 axes of block b")


def test_the_domain_of_an_axis_stands_outside_its_block():
    @T.prim_func
    def triangle(A: T.Buffer((8, 8))):
        for i in range(8):
            for j in range(i):
                with T.block("b"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    A[vi, vj] = 1.0

    assert analysis.verify_well_formed(triangle)


def test_an_expression_may_be_used_twice():
    x = tir.Var("x", "int32")
    let, other = tir.Let(x, 1, x + 1), tir.Let(x, 2, x + 1)
    for value, good in ((let + let, True), (let * other, False), (tir.Let(x, 1, let), False)):
        assert analysis.verify_ssa(tir.PrimFunc([], tir.Evaluate(value))) == good


def test_places_of_accesses():
    """A match is an access inside of its block; blocks of a grid share global memory."""

    @T.prim_func
    def func(A: T.Buffer((4, 4)), B: T.Buffer((4, 4))):
        for i in T.thread_binding(4, thread="blockIdx.x"):
            for j in range(4):
                with T.block("a"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    B[vi, vj] = 1.0
        for i in range(4):
            with T.block("b"):
                vi = T.axis.spatial(4, i)
                T.writes(A[vi, 0:4])
                for j in range(4):
                    with T.block("c"):
                        vj = T.axis.spatial(4, j)
                        C = T.match_buffer(A[vi, vj], ())
                        C[()] = 0.0

    a, b = func.buffers
    found = analysis.detect_buffer_access_lca(func)
    grid, rest = func.body.block.body.seq
    assert found[b] is grid
    assert found[a] is func.body.block  # a grid is there, and A is shared by its blocks
    alone = func.replace(body=rest)
    assert analysis.detect_buffer_access_lca(alone)[a].name_hint == "c"


def test_flops():
    assert analysis.estimate_tir_flops(MATMUL) == 2 * 16 * 8 * 32 + 16 * 8
    assert analysis.estimate_tir_flops(MATMUL.with_attr("estimated_flops", 7)) == 7
    n = tir.Var("n", "int32")
    a = tir.decl_buffer((n,), "float32", "A")
    i = tir.Var("i", "int32")
    loop = tir.For(i, 0, n, 0, tir.BufferStore(a, a[i] + 1.0, [i]))
    with pytest.raises(ValueError, match="symbolic extent"):
        analysis.estimate_tir_flops(loop)
    copy = tir.For(i, 0, n, 0, tir.BufferStore(a, a[i + 1], [i]))
    assert analysis.estimate_tir_flops(copy) == 0


def test_flops_of_what_depends_on_loops():
    @T.prim_func
    def triangle(a: T.Buffer((8, 8))):
        for i in range(8):
            for j in range(i):
                if j % 3 == 0 and j < 4:
                    a[i, j] = T.exp(a[i, j] * T.float32(2))

    assert analysis.estimate_tir_flops(triangle) == 8 * 7


def test_anchor_block():
    assert analysis.find_anchor_block(MATMUL).name_hint == "C"
    assert analysis.find_anchor_block(opaque) is None


def test_purity():
    assert not analysis.is_pure_function(MATMUL)
    with pytest.raises(AssertionError, match="it writes to D"):
        analysis.assert_pure_function(MATMUL)
    x = tir.Var("x", "int32")
    assert analysis.is_pure_function(tir.PrimFunc([x], tir.Evaluate(tir.ret(x + 1))))
    call = tir.PrimFunc([x], tir.Evaluate(tir.call_extern("int32", "rand")))
    with pytest.raises(AssertionError, match=r"it calls tir\.call_extern"):
        analysis.assert_pure_function(call)


def test_allocated_bytes():
    assert analysis.calculate_allocated_bytes(MATMUL) == {"main": {"global": 512}}


def test_allocated_bytes_of_a_module() -> None:
    mod = from_source("""
@I.ir_module
class Module:
    @T.prim_func
    def one(n: T.int32):
        c = T.allocate_const([1, 2, 3], "int16", [3])
        with T.allocate([2, 5], "float32x2", "shared") as a:
            with T.allocate([n, 3], "int8", "shared") as b:
                T.evaluate(0)
        with T.allocate([7], "int64", "shared") as a:
            T.evaluate(0)
    @T.prim_func
    def two(n: T.int32):
        with T.block("a"):
            A = T.alloc_buffer((3,), "int8")
            B = T.alloc_buffer((3, 4), "int16")
            T.evaluate(0)
        with T.block("b"):
            A = T.alloc_buffer((5, 5), "int8")
            T.evaluate(0)
    @T.prim_func
    def three():
        with T.block("a"):
            A = T.alloc_buffer((4,), "int8")
            T.evaluate(0)
        with T.block("b"):
            A = T.alloc_buffer((6,), "int8")
            T.evaluate(0)
        with T.allocate([2], "int8", "shared") as a:
            T.evaluate(0)
        with T.allocate([3], "int8", "shared") as a:
            T.evaluate(0)
        with T.allocate_const([1, 2], "int8", [2]) as c:
            T.evaluate(0)
        with T.allocate_const([1, 2, 3, 4, 5, 6, 7], "int8", [7]) as c:
            T.evaluate(0)
""")
    assert analysis.calculate_allocated_bytes(mod) == {
        "one": {"global": 6, "shared": 80},
        "two": {"global": 27},
        "three": {"global": 7, "shared": 3},
    }


def test_buffer_lca():
    found = analysis.detect_buffer_access_lca(MATMUL)
    by_name = {b.name: s for b, s in found.items()}
    assert by_name["C"].name_hint == "root"
    assert isinstance(by_name["D"], tir.Block) and by_name["D"].name_hint == "D"
    assert by_name["A"].name_hint == "C"


def test_lca_of_a_reduction_is_above_its_loops():
    total = row_sums(4, 8)
    found = {b.name: s for b, s in analysis.detect_buffer_access_lca(total).items()}
    assert isinstance(found["B"], tir.For) and found["B"].loop_var.name == "i"
    assert isinstance(found["A"], tir.Block)


def test_small_questions():
    x, y = tir.Var("x", "int32"), tir.Var("y", "int32")
    assert analysis.expr_deep_equal(x + 1, x + 1) and not analysis.expr_deep_equal(x + 1, y + 1)
    assert analysis.has_if_then_else(tir.if_then_else(x > 0, x, y))
    assert not analysis.has_if_then_else(tir.Select(x > 0, x, y))


COPY = """
@T.prim_func
def main(A: T.Buffer(({source}), dtype="{dtype}"), B: T.Buffer(({dest}), dtype="float32")):
    for i, j in T.grid({grid}):
        {store}
"""
COPIES = {
    "whole": ("4, 8", "4, 8", "4, 8", "B[i, j] = A[i, j]", "A[0:4, 0:8] B[0:4, 0:8]"),
    "flat": ("32,", "4, 8", "4, 8", "B[i, j] = A[i * 8 + j]", "A[0:32] B[0:4, 0:8]"),
    "rows": ("9, 8", "4, 8", "4, 8", "B[i, j] = A[i + 5, j]", "A[5:9, 0:8] B[0:4, 0:8]"),
    "part of rows": ("4, 8", "4, 8", "4, 4", "B[i, j] = A[i, j]", None),
    "transposed": ("8, 4", "4, 8", "4, 8", "B[i, j] = A[j, i]", None),
    "computed": ("4, 8", "4, 8", "4, 8", "B[i, j] = A[i, j] + T.float32(1)", None),
    "one row": ("4, 8", "4, 8", "1, 8", "B[i, j] = A[i, j]", "A[0, 0:8] B[0, 0:8]"),
    "a loop of one": ("4, 8", "4, 8", "8, 1", "B[0, i] = A[j, i]", "A[0, 0:8] B[0, 0:8]"),
    "inner loop outside": ("4, 8", "4, 8", "8, 4", "B[j, i] = A[j, i]", "A[0:4, 0:8] B[0:4, 0:8]"),
    "each second": ("4, 8", "4, 8", "4, 4", "B[i, j * 2] = A[i, j * 2]", None),
    "other steps": ("64", "4, 8", "4, 8", "B[i, j] = A[i * 16 + j]", None),
    "squares": ("4, 16", "4, 16", "4, 4", "B[i, j * j] = A[i, j * j]", None),
    "squares to": ("4, 16", "4, 16", "4, 4", "B[i, j * j] = A[i, j]", None),
    "two copies": ("4, 8", "4, 8", "4, 8", "B[i, j] = A[i, j]\n        B[i, j] = A[i, j]", None),
    "no copy": ("4, 8", "4, 8", "4, 8", "T.evaluate(0)", None),
    "rows with a gap": ('4, 8), strides=(16, 1', "4, 8", "4, 8", "B[i, j] = A[i, j]", None),
    "both with a gap": (
        "4, 8), strides=(16, 1", "4, 8), strides=(16, 1", "4, 8", "B[i, j] = A[i, j]", None,
    ),
    "said strides": (
        "4, 8), strides=(8, 1", "4, 8", "4, 8", "B[i, j] = A[i, j]", "A[0:4, 0:8] B[0:4, 0:8]",
    ),
    "of a length read": ("4, 8", "4, 8", "1, T.Cast('int32', A[0, 0])", "B[i, j] = A[i, j]", None),
}  # fmt: skip


@pytest.mark.parametrize("case", COPIES)
def test_identify_memcpy(case: str) -> None:
    source, dest, grid, store, wanted = COPIES[case]
    text = COPY.format(source=source, dest=dest, grid=grid, store=store, dtype="float32")
    found = analysis.identify_memcpy(from_source(text).body)
    assert (None if found is None else f"{found.source} {found.dest}") == wanted
    if found is not None:
        assert str(analysis.identify_memcpy(tir.SeqStmt([from_source(text).body])).dest) == str(
            found.dest
        )
    other = from_source(text.replace("float32", "int8", 1)).body
    assert analysis.identify_memcpy(other) is None


def test_workspace_bytes() -> None:
    func = from_source("""
@T.prim_func
def main(B: T.Buffer((4,), "float32")):
    with T.allocate([5], "int8", "global") as a:
        with T.allocate([3], "float32", "global") as b:
            T.evaluate(0)
        with T.allocate([100], "int8", "global") as c:
            T.evaluate(0)
""")
    assert analysis.calculate_workspace_bytes(func) == 105
    assert analysis.calculate_workspace_bytes(func, 16) == 16 + 112
    assert analysis.calculate_workspace_bytes(func, 4) == 8 + 100
    vectors = from_source("""
@T.prim_func
def main(n: T.int32):
    with T.allocate([3, 2], "float32x4", "global") as a:
        b = T.allocate_const([1, 2], "int32", [2])
        c = T.allocate([5], "int8", "global")
        T.evaluate(0)
""")
    assert analysis.calculate_workspace_bytes(vectors) == 3 * 2 * 16 + 5
    unknown = from_source("""
@T.prim_func
def main(n: T.int32):
    with T.allocate([2, n], "int8", "global") as a:
        T.evaluate(0)
""")
    with pytest.raises(ValueError, match="the size of allocation a is not known\\n  got: n"):
        analysis.calculate_workspace_bytes(unknown)


def test_a_view_of_a_buffer_is_defined_for_its_scope():
    @T.prim_func
    def func(A: T.Buffer((256, 256), "int32")):
        for i in range(16):
            start = T.int32()
            B = T.Buffer((16, 16), "int32", elem_offset=start)
            T.attr([B, A], "buffer_bind_scope", T.tvm_tuple(i * 16, 16, 0, 16, dtype="handle"))
            B[0, 0] = start

    assert analysis.verify_well_formed(func)
    body = func.body.replace(body=func.body.body.body)  # without the scope
    refuse(func.with_body(body), "undefined-buffer", "got: B")


I, J, N = (tir.Var(name, "int32") for name in "ijn")
LOOPS = {I: (tir.const(0), tir.const(7)), J: (tir.const(2), tir.const(5))}


@pytest.mark.parametrize(
    ("expr", "ends"),
    [
        (tir.Ramp(I, 2, 4), "0 13"),
        (tir.Ramp(I + 3, -1, 4), "0 10"),
        (tir.Ramp(I, N, 4), None),
        (tir.Broadcast(I + 1, 4), "1 8"),
        (I * 3, "0 21"),
        (tir.Mul(tir.const(3), J), "6 15"),
        (J * -3, "-15 -6"),
        (tir.Mul(J, N), "n * 2 n * 5"),
        (tir.Mul(N, J), "n * 2 n * 5"),
        (tir.Mul(I, J), None),
        (J - I, "-5 5"),
        (N - I, "n - 7 n"),
        (N * 2, "n * 2 n * 2"),
        (tir.floordiv(J, 2), "1 2"),
        (tir.floordiv(J, -2), None),
        (tir.floordiv(J, N), None),
        (tir.floormod(J, 8), "2 5"),
        (tir.floormod(J, 5), "0 4"),
        (tir.floormod(J + 8, 8), "2 5"),
        (tir.floormod(J + 1, 3), "0 2"),
        (tir.floormod(N, J), None),
        (tir.max(I, J), "2 7"),
        (tir.min(I, J), "0 5"),
    ],
)
def test_bounds(expr: Any, ends: str | None) -> None:
    found = bounds_of(expr, LOOPS)
    shown = None if found is None else " ".join(str(Analyzer().simplify(e)) for e in found)
    assert shown == ends


@pytest.mark.parametrize(
    ("a", "b", "wanted"),
    [
        (I + 4, I, "4"),
        (I * 2 + J, J + I, "i"),
        (tir.Mul(tir.const(3), I), I * 3 + 1, "-1"),
        (I - J, N, "i - j - n"),
        (J, I * 2 + 3, "j - i * 2 - 3"),
        (I, I, "0"),
        (I + J + N + tir.Var("a", "int32"), tir.Var("b", "int32"), "None"),
        (I + J + N, tir.Var("b", "int32"), "i + j + n - b"),
    ],
)
def test_differences(a: Any, b: Any, wanted: str) -> None:
    assert str(difference(a, b)) == wanted


def test_work_that_is_said() -> None:
    mod = from_source("""
@I.ir_module
class Module:
    @T.prim_func
    def one(A: T.Buffer((8,), "float32")):
        for i in range(8):
            with T.block("A"):
                v = T.axis.spatial(8, i)
                T.block_attr({"estimated_flops": 5})
                A[v] = A[v] * A[v] + T.float32(1)
    @T.prim_func
    def two(A: T.Buffer((8,), "float32")):
        for i in range(8):
            with T.block("A"):
                v = T.axis.spatial(8, i)
                A[v] = A[v] * A[v] + T.float32(1)
""")
    assert analysis.estimate_tir_flops(mod["one"]) == 40
    assert analysis.estimate_tir_flops(mod["two"].body) == 16
    assert analysis.estimate_tir_flops(mod) == 56
    said = mod["two"].with_attr("estimated_flops", 3)
    assert analysis.estimate_tir_flops(said) == 3


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("L = T.decl_buffer((4,))\n    L[0] = A[0]", ""),
        ("with T.block('b'):\n        L = T.alloc_buffer((4,))\n        L[0] = A[0]", ""),
        ("T.evaluate(T.exp(A[0]))", ""),
        ("A[0] = T.float32(1)", "it writes to A"),
        ("T.evaluate(T.call_extern('int32', 'f', A[0]))", "it calls tir.call_extern"),
    ],
)
def test_pure_functions(body: str, why: str) -> None:
    func = from_source(f"@T.prim_func\ndef main(A: T.Buffer((4,), 'float32')):\n    {body}\n")
    assert analysis.is_pure_function(func) == (not why)
    if why:
        with pytest.raises(AssertionError, match=f"main is not pure\n  got: {why}"):
            analysis.assert_pure_function(func)
    else:
        assert analysis.assert_pure_function(func)


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ("for i, j in T.grid(4, 4):\n    with T.block('B'):\n        v, w = T.axis.remap('SS', [i, j])\n        B[v, w] = A[v, w] + T.float32(1)", "ELEMWISE"),
        ("for i, j in T.grid(4, 4):\n    with T.block('B'):\n        v, w = T.axis.remap('SS', [i, j])\n        B[v, w] = G[w]", "BROADCAST"),
        ("for i, j in T.grid(4, 4):\n    with T.block('B'):\n        v, w = T.axis.remap('SS', [i, j])\n        B[v, w] = A[w, v]", "INJECTIVE"),
        ("for i, k in T.grid(4, 4):\n    with T.block('B'):\n        v, w = T.axis.remap('SR', [i, k])\n        with T.init():\n            B[v, 0] = T.float32(0)\n"
         "        B[v, 0] = B[v, 0] + A[v, w]", "COMM_REDUCE"),
        ("for i, j, k in T.grid(4, 4, 4):\n    with T.block('B'):\n        v, w, u = T.axis.remap('SSR', [i, j, k])\n        with T.init():\n"
         "            B[v, w] = T.float32(0)\n        B[v, w] = B[v, w] + A[v, u] * A[u, w]", "OUT_EWISE_FUSABLE"),
        ("for i, j in T.grid(4, 4):\n    B[i, j] = A[i, j]", "OPAQUE"), ("T.evaluate(0)", "OPAQUE"),
        ("B[0, 0] = T.float32(1)\nfor i, j in T.grid(4, 4):\n    with T.block('B'):\n        v, w = T.axis.remap('SS', [i, j])\n        B[v, w] = A[v, w]", "OPAQUE"),
        ("with T.block('outer'):\n    for i, j in T.grid(4, 4):\n        with T.block('B'):\n            v, w = T.axis.remap('SS', [i, j])\n            B[v, w] = A[v, w]", "ELEMWISE"),
        ("with T.block('root'):\n    B[0, 0] = A[0, 0]", None),
    ],
)  # fmt: skip
def test_kinds_of_fusion(body: str, kind: str | None) -> None:
    head = '@T.prim_func\ndef main(A: T.Buffer((4, 4), "float32"), B: T.Buffer((4, 4), "float32"), G: T.Buffer((4,), "float32")):\n'
    func = from_source(head + indent(body, "    "))
    found = analyze_op_pattern(func).name
    assert found == kind if kind else found != "OPAQUE"


@pytest.mark.parametrize(("align", "said"), [(0, None), (64, None), (128, 128), (256, 256)])
def test_what_a_kernel_says_of_alignment(align: int, said: int | None) -> None:
    func = from_source(
        f'@T.prim_func\ndef main(A: T.Buffer((4,), "float32", align={align})):\n    A[0] = T.float32(1)'
    )
    made = tt.UnpackSignatures()(IRModule({"main": func}))["main"]
    assert not made.buffer_map and len(made.params) == 1
    assert [v for k, v in made.attrs.items() if "align" in k] == ([] if said is None else [said])


X, Y = tir.Var("x", "int32"), tir.Var("y", "int32")
TWO, FLAG = tir.const(2), tir.Var("f", "bool")


@pytest.mark.parametrize(
    ("expr", "value"),
    [
        (tir.const(5), 5), (X, 7), (Y, None), (X + 3, 10), (X + Y, None), (Y + X, None), (X - 9, -2),
        (X * 3, 21), (tir.Mul(Y, X), None), (tir.FloorDiv(X, TWO), 3), (tir.FloorDiv(0 - X, TWO), -4),
        (tir.FloorDiv(X, X - 7), None), (tir.FloorMod(X, TWO), 1), (tir.FloorMod(0 - X, TWO), 1),
        (tir.FloorMod(X, X - 7), None), (tir.Div(X, TWO), 3), (tir.Div(0 - X, TWO), -3),
        (tir.Div(X, 0 - TWO), -3), (tir.Div(0 - X, 0 - TWO), 3), (tir.Div(X - 7, TWO), 0),
        (tir.Div(X, X - 7), None), (tir.Mod(X, TWO), 1), (tir.Mod(0 - X, TWO), -1),
        (tir.Mod(X, X - 4), 1), (tir.Mod(0 - X, 4 - X), -1), (tir.Mod(X, X - 7), None),
        (tir.Min(X, TWO), 2), (tir.Max(X, TWO), 7), (X < 7, False), (X <= 7, True), (X > 7, False),
        (X >= 7, True), (tir.EQ(X, TWO), False), (tir.NE(X, TWO), True), (Y < 7, None),
        (tir.And(X > 6, X < 8), True), (tir.And(X > 6, Y < 8), None), (tir.And(Y > 6, X < 8), None),
        (tir.And(X > 7, Y < 8), False), (tir.And(Y > 6, X < 7), False), (tir.Or(X > 7, X < 7), False),
        (tir.Or(X > 6, Y < 8), True), (tir.Or(Y > 6, X < 8), True), (tir.Or(X > 7, Y < 8), None),
        (tir.Or(Y > 7, X < 7), None), (tir.Not(X > 6), False), (tir.Not(Y > 6), None),
        (tir.Cast("int64", X), 7), (tir.Cast("float32", X), None), (tir.Cast("int32", FLAG), None),
        (tir.Cast("int32", tir.const(2.5)), None),
        (tir.Select(X > 6, X, Y), 7), (tir.Select(X > 7, X, Y), None), (tir.Select(Y > 6, X, X), None),
        (tir.if_then_else(X > 6, X, Y), 7), (tir.if_then_else(X > 7, Y, X + 1), 8),
        (tir.likely(X > 6), True), (tir.exp(tir.const(1.0)), None),
    ],
)  # fmt: skip
def test_values_at_an_iteration(expr: Any, value: int | None) -> None:
    assert value_at(expr, {X: 7}) == value and lanes_at(expr, {X: 7}) == (
        None if value is None else [value]
    )


def test_lanes_at_an_iteration() -> None:
    assert lanes_at(tir.Ramp(X + 1, 2, 3), {X: 7}) == [8, 10, 12]
    assert lanes_at(tir.Ramp(X, Y, 3), {X: 7}) is None
    assert lanes_at(tir.Ramp(Y, X, 3), {X: 7}) is None
    assert lanes_at(tir.Broadcast(X + 1, 3), {X: 7}) == [8]
    assert lanes_at(tir.Broadcast(Y, 3), {X: 7}) is None


def test_some_iterations() -> None:
    i, j = tir.Var("i", "int32"), tir.Var("j", "int32")

    def loop(low: Any, size: Any, var: Any = i) -> tir.For:
        return tir.For(var, low, size, 0, tir.Evaluate(0))

    for low, size, few, wanted in (
        (2, 9, 3, [2, 3, 4, 10]), (2, 3, 3, [2, 3, 4]), (2, 2, 3, [2, 3]), (2, 1, 3, [2]), (2, 0, 3, []),
        (X, X - 3, 2, [7, 8, 10]), (3, Y, 4, [3, 4]), (Y, 4, 2, []),
    ):  # fmt: skip
        assert samples(loop(low, size), {X: 7}, few) == wanted

    def pairs(inner: tir.For, most: int, size: Any = 5) -> list[tuple[int, int]]:
        outer = loop(0, size) if size is not None else loop(Y, 4)
        found = list(iterations((outer, inner), {X: 7}, 2, most))
        assert all(set(at) == {X, i, j} and at[X] == 7 for at in found)
        return [(at[i], at[j]) for at in found]

    whole = [(a, b) for a in (0, 1, 4) for b in (1, 2, 3)]
    assert pairs(loop(1, 3, j), 100) == whole
    assert pairs(loop(1, 3, j), 4) == whole[:4]
    assert pairs(loop(i, 4 - i, j), 100) == [(0, 0), (0, 1), (0, 3), (1, 1), (1, 2), (1, 3)]
    assert pairs(loop(i, 4 - i, j), 2) == [(0, 0), (0, 1), (1, 1), (1, 2)]
    assert pairs(loop(Y, 4, j), 100) == [] == pairs(loop(1, 3, j), 100, None)
    assert list(iterations((), {X: 7}, 2, 5)) == [{X: 7}]
