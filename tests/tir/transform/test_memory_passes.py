"""Passes on values and memory: the numbers before and after are the same."""

from __future__ import annotations

import numpy as np
import pytest

import loopwright as lw
from loopwright import tir
from loopwright.base.errors import LoopwrightError
from loopwright.ir.functor import post_order_visit
from loopwright.ir.module import IRModule
from loopwright.ir.structural import assert_structural_equal, structural_equal
from loopwright.ir.transform import PassContext, Sequential
from loopwright.script import from_source
from loopwright.script import tir as T
from loopwright.tir import analysis as ta
from loopwright.tir import transform as tt
from loopwright.tir.interpreter import run
from loopwright.tir.stmt import Allocate, BufferStore, LetStmt, seq


def outputs(func, shapes, scalars=()):
    rng = np.random.default_rng(7)
    arrays = [rng.random(s).astype("float32") for s in shapes]
    run(func, [*arrays, *scalars])
    return arrays


def same(text, made, shapes, scalars=()):
    """The function before and after a pass gives the same arrays; the function after is well
    formed."""
    func = from_source(text)
    after = made(IRModule({"main": func}))["main"]
    ta.verify_well_formed(after)
    pairs = zip(outputs(func, shapes, scalars), outputs(after, shapes, scalars), strict=True)
    for a, b in pairs:
        np.testing.assert_array_equal(a, b)
    return after


def count(func, kind):
    found = []
    post_order_visit(func.body, lambda n: found.append(n) if isinstance(n, kind) else None)
    return len(found)


SHARED = """
@T.prim_func
def main(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32"), n: T.int32):
    for i in range(4):
        if n * 2 + i < 30:
            A[n * 2 + i] = B[n * 2 + i] + T.Cast("float32", n * 2)
        for j in range(3):
            A[(n * 2 + i) // 3 + j] = B[(n * 2 + i) // 3 + j * i] + B[j * i + n // T.max(n, 1)]
"""


def test_common_subexpressions():
    after = same(SHARED, tt.CommonSubexprElimTIR(), [(64,), (64,)], [5])
    assert count(after, LetStmt) == 4
    text = after.script()
    assert text.count("n * 2") == 1 and text.count("// 3") == 1
    assert ta.verify_ssa(after)
    off = tt.CommonSubexprElimTIR(enable_cse_tir=False)
    assert count(same(SHARED, off, [(64,), (64,)], [5]), LetStmt) == 0


def test_equal_terms():
    text = """
@T.prim_func
def main(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32"), n: T.int32):
    for i in range(4):
        A[(n + i) * 2] = B[n * 2 + i * 2]
"""
    plain = same(text, tt.CommonSubexprElimTIR(), [(64,), (64,)], [5])
    equal = same(text, tt.CommonSubexprElimTIR(identify_equiv_terms=True), [(64,), (64,)], [5])
    assert count(equal, LetStmt) > count(plain, LetStmt) == 0


def test_split_pattern():
    text = """
@T.prim_func
def main(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32"), n: T.int32):
    for i in range(64):
        B[(i - n) % 32 // 4 + (i - n) % 6 // 4] = A[i]
"""
    after = same(text, tt.RenormalizeSplitPattern(), [(64,), (64,)], [13])
    assert "% 32" not in after.script() and "% 6" in after.script()


CHAIN = """
@T.prim_func
def main(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
    a = T.allocate([8], "float32", "global")
    b = T.allocate([8], "float32", "global")
    c = T.allocate([8], "float32", "{scope}")
    d = T.allocate([4], "float32", "global")
    X = T.Buffer((8,), data=a)
    Y = T.Buffer((8,), data=b)
    Z = T.Buffer((8,), data=c, scope="{scope}")
    W = T.Buffer((4,), data=d)
    for i in range(8):
        X[i] = A[i] * A[i]
    for i in range(8):
        Y[i] = X[7 - i] + T.float32(1)
    for i in range(8):
        Z[i] = Y[i] + {again}
    for i in range(4):
        W[i] = Z[i] - Z[i + 4]
    for i in range(8):
        B[i] = W[i % 4]
"""


@pytest.mark.parametrize(
    ("scope", "again", "left"),
    [("global", "Y[0]", 2), ("global", "X[i]", 2), ("local", "Y[0]", 3)],
)
def test_storage(scope, again, left):
    text = CHAIN.format(scope=scope, again=again)
    after = same(text, tt.StorageRewrite(), [(8,), (8,)])
    assert count(after, Allocate) == left


TAGGED = """
@T.prim_func
def main(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
    for i in range(8):
        x = T.allocate([4], "float32", "local.L0A")
        X = T.Buffer((4,), data=x, scope="local.L0A")
        X[i % 4] = A[i]
        y = T.allocate([8], "int16", "local.L0A")
        Y = T.Buffer((8,), "int16", data=y, scope="local.L0A")
        Y[i] = T.Cast("int16", A[i])
        z = T.allocate([8], "int16", "local.L0A")
        Z = T.Buffer((8,), "int16", data=z, scope="local.L0A")
        Z[i] = Y[i] + T.int16(1)
        B[i] = X[i % 4] + T.Cast("float32", Z[i])
"""


def test_one_allocation_takes_the_memory_of_a_tagged_scope():
    after = same(TAGGED, tt.StorageRewrite(), [(8,), (8,)])
    assert count(after, Allocate) == 1  # 4 floats, and 8 int16 that Y and Z share
    assert 'T.allocate([8], "float32", "local.L0A")' in after.script()
    assert "[i + 8]" in after.script()


VECTORS = """
@T.prim_func
def main(A: T.Buffer((16,), "float32"), B: T.Buffer((4,), "float32")):
    x = T.allocate([16], "float32", "local")
    X = T.Buffer((16,), data=x, scope="local")
    for i in range(4):
        X[i * 4 : i * 4 + 4] = A[FIRST : FIRST + 4]
    for i in range(4):
        B[i] = X[i * 4] - X[i * 4 + 3]
"""


def test_memory_accessed_by_vectors_is_declared_as_vectors():
    text = VECTORS.replace("FIRST", "i * 2")  # no multiple of the width: A stays
    after = same(text, tt.PointerValueTypeRewrite(), [(16,), (4,)]).script()
    assert 'A: T.Buffer((16,), "float32")' in after
    assert 'X = T.Buffer((4,), "float32x4"' in after and "T.allocate([4]" in after
    func = from_source(VECTORS.replace("FIRST", "i * 4"))
    after = tt.PointerValueTypeRewrite()(IRModule({"main": func}))["main"].script()
    assert 'A: T.Buffer((4,), "float32x4"), B: T.Buffer((4,), "float32")' in after


@pytest.mark.parametrize(
    "access",
    [
        "X.vstore([T.Ramp(i * 4, 1, 4)], T.Broadcast(T.float32(1), 4), predicate=T.Broadcast(T.bool(True), 4))",
        "Y[T.Ramp(i * 4, 1, 4)] = T.Broadcast(T.float32(1), 4)",
        "Z[0, T.Ramp(0, 1, 4)] = T.Broadcast(T.float32(1), 4)",
        "X[T.Ramp(i, 4, 4)] = T.Broadcast(T.float32(1), 4)",
    ],
    ids=["masked", "strided", "of two axes", "apart"],
)
def test_other_vectors_keep_the_type_of_memory(access):
    text = VECTORS.replace("FIRST", "i * 2").replace(
        "    for i in range(4):\n        B[i]",
        '    Y = T.Buffer((16,), data=x, strides=[1], scope="local")\n'
        '    Z = T.Buffer((1, 16), data=x, scope="local")\n'
        f"    for i in range(4):\n        {access}\n"
        "    for i in range(4):\n        B[i]",
    )
    after = tt.PointerValueTypeRewrite()(IRModule({"main": from_source(text)}))["main"].script()
    assert "T.allocate([16]" in after and "float32x4" not in after.partition("for i")[0]


DECLARED = """
@T.prim_func
def main(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
    Y = T.decl_buffer((8,), "float32")
    X = T.decl_buffer((8,), "float32")
    Z = T.decl_buffer((8,), "float32")
    for i in range(8):
        X[i] = A[i] * A[i]
    for i in range(8):
        Z[i] = X[7 - i]
    for i in range(8):
        Y[i] = Z[7 - i]
    for i in range(8):
        B[i] = Y[7 - i]
"""


def test_shared_storage_stands_above_all_buffers_on_it():
    after = same(DECLARED, tt.StorageRewrite(), [(8,), (8,)])
    assert ta.verify_well_formed(after) and count(after, Allocate) == 2


FETCHED = """
@T.prim_func
def main(A: T.Buffer((32,), "float32"), C: T.Buffer((32,), "float32"), n: T.int32):
    for i in range(1, n):
        b = T.allocate([4], "float32", "local")
        B = T.Buffer((4,), data=b, scope="local")
        with T.attr(b, "double_buffer_scope", 1):
            for j in range(4):
                B[j] = A[i * 4 + j]
        for j in range(4):
            {use}
"""


@pytest.mark.parametrize("n", [0, 1, 2, 7, 8])
def test_double_buffer(n):
    text = FETCHED.format(use="C[i * 4 + j] = B[3 - j] + C[i * 4 - 4 + j]")
    after = same(text, tt.InjectDoubleBuffer(), [(32,), (32,)], [n])
    assert "% 2" in after.script()


def test_double_buffer_refuses_a_dependence():
    text = FETCHED.format(use="A[i * 4 + j] = B[3 - j]")
    with pytest.raises(ValueError, match="the fetch into b depends on writes of the loop") as e:
        tt.InjectDoubleBuffer()(IRModule({"main": from_source(text)}))
    assert "for i in range(1, n):" in str(e.value)


def test_virtual_threads():
    text = """
@T.prim_func
def main(A: T.Buffer((2, 8), "float32"), B: T.Buffer((2, 8), "float32")):
    for v in T.thread_binding(2, thread="vthread.x"):
        for i in range(8):
            {barrier}
            B[v, i] = A[1 - v, i]
"""
    for made in (tt.InjectVirtualThread(), tt.lower_to_loops()):
        same(text.format(barrier="T.evaluate(0)"), made, [(2, 8), (2, 8)])
    barrier = text.format(barrier='T.evaluate(T.tvm_storage_sync("shared"))')
    made = tt.InjectVirtualThread()(IRModule({"main": from_source(barrier)}))["main"].script()
    assert made.index("tvm_storage_sync") < made.index("B[0, i] = A[1, i]") < made.index("B[1, i]")
    assert made.count("tvm_storage_sync") == 1


VIRTUAL = """
@T.prim_func
def main(A: T.Buffer((2, 8), "float32"), B: T.Buffer((2, 8), "float32")):
    for v in T.thread_binding(2, thread="{thread}"):
        m = T.allocate([8], "float32", "shared")
        M = T.Buffer((8,), data=m, scope="shared")
        for i in range(8):
            M[i] = {value}
        T.evaluate(T.tvm_storage_sync("shared"))
        {use}
        for i in range(8):
            B[v, i] = M[7 - i] * T.float32(2)
"""


@pytest.mark.parametrize(
    ("thread", "value", "size"),
    [("vthread", "A[v, i]", 16), ("vthread", "A[0, i]", 8), ("cthread", "A[0, i]", 16)],
)
def test_memory_of_virtual_threads(thread, value, size):
    text = VIRTUAL.format(thread=thread, value=value, use="T.evaluate(0)")
    func = tt.InjectVirtualThread()(IRModule({"main": from_source(text)}))["main"]
    assert f"T.allocate([{size}]" in func.script()
    a, b = np.arange(16, dtype="float32").reshape(2, 8), np.zeros((2, 8), "float32")
    run(func, [a, b])
    read = a if "v" in value else a[[0, 0]]
    np.testing.assert_array_equal(b, read[:, ::-1] * 2)


def test_virtual_threads_in_turn():
    use = 'T.call_extern("int32", "f", M.data)'
    text = VIRTUAL.format(thread="vthread", value="A[v, i]", use=use)
    with pytest.raises(ValueError, match="a barrier inside of virtual threads"):
        tt.InjectVirtualThread()(IRModule({"main": from_source(text)}))
    text = text.replace('T.evaluate(T.tvm_storage_sync("shared"))', "T.evaluate(0)")
    func = tt.InjectVirtualThread()(IRModule({"main": from_source(text)}))["main"]
    assert "for v_s in range(2)" in func.script() and "T.allocate([8]" in func.script()
    pointer = use.replace("M.data", 'M.access_ptr("r")')
    func = tt.InjectVirtualThread()(IRModule({"main": from_source(text.replace(use, pointer))}))
    assert "T.allocate([16]" in func.script() and ", m, 8, 8, 1)" in func.script()


@pytest.mark.parametrize(
    ("lines", "left"),
    [
        ("A[0] = T.undef(dtype='int32') + 1", "T.evaluate(0)"),
        ("v = T.undef(dtype='int32')\n    A[0] = v * 2\n    A[1] = 3", "A[1] = 3"),
        ("v = T.undef(dtype='int32')\n    A[v] = 5", None),
        ("A[0] = A[T.undef(dtype='int32')]", None),
        ("if T.undef(dtype='int32') > 0:\n        A[0] = 1", None),
    ],
)
def test_undefined_values_are_not_stored(lines, left):
    func = from_source(f"@T.prim_func\ndef main(A: T.Buffer((8,), 'int32')):\n    {lines}\n")
    if left is None:
        with pytest.raises(LoopwrightError, match="cannot be an index or a condition"):
            tt.RemoveStoreUndef()(IRModule({"main": func}))
    else:
        made = tt.RemoveStoreUndef()(IRModule({"main": func}))["main"].script()
        assert left in made and "undef" not in made and "A[0]" not in made


NESTED = """
@T.prim_func
def main(A: T.Buffer((4, 8), "float32"), B: T.Buffer((4, 8), "float32"), n: T.int32):
    for i, j in T.grid(4, 8):
        x: T.int32 = i * n + 1
        if i < n and j % 3 < n and B[i, j] > T.float32(0.25):
            A[i, j] = T.Cast("float32", x)
        else:
            A[i, j] = B[i, j]
    for i, j in T.grid(4, 8):
        y: T.int32 = i // 2
        if n < 3 and j < y + 2:
            A[i, j] = A[i, j] + B[i, 7 - j]
"""


@pytest.mark.parametrize("n", [1, 2, 3])
def test_hoisting(n):
    after = same(NESTED, tt.HoistExpression(), [(4, 8), (4, 8)], [n])
    text = after.script()
    assert text.index("x: T.int32") < text.index("for j in range(8)")  # out of the loop over j
    assert text.index("if n < 3:") < text.rindex("for j in range(8)")
    with PassContext(config={"tir.HoistExpression": {"hoisted_conditionals": False}}):
        text = same(NESTED, tt.HoistExpression(), [(4, 8), (4, 8)], [n]).script()
    assert "if n < 3:" not in text


HOISTED = {
    "a part of a conjunction": ("if j < 6 and i < 2: A[i, j] = T.float32(1)", True),
    "with an else branch": ("A[i, j] = T.if_then_else(i < 2, T.float32(1), B[i, j])", True),
    "of an inner branch": (
        "if j < 6:\n            if i < 2:\n                A[i, j] = T.float32(1)",
        True,
    ),
    "one of two statements": (
        "A[i, j] = B[i, j]\n        if i < 2:\n            A[i, j] = T.float32(1)",
        False,
    ),
    "one that reads memory": ("if B[i, 0] < T.float32(0.5): A[i, j] = T.float32(1)", False),
}


@pytest.mark.parametrize("case", HOISTED)
def test_conditions_that_are_hoisted(case):
    body, moves = HOISTED[case]
    text = f"""
@T.prim_func
def main(A: T.Buffer((4, 8), "float32"), B: T.Buffer((4, 8), "float32")):
    for i, j in T.grid(4, 8):
        {body}
"""
    after = same(text, tt.HoistExpression(), [(4, 8), (4, 8)]).script()
    moved = "    for i in range(4):\n        if i < 2:"
    assert (moved in after) == moves
    never = {"hoisted_conditionals": tt.HoistedConditionals.Never}
    with PassContext(config={"tir.HoistExpression": never}):
        after = same(text, tt.HoistExpression(), [(4, 8), (4, 8)]).script()
    assert moved not in after


def test_axes_of_blocks_stay_where_they_are_bound():
    text = """
@T.prim_func
def main(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
    for i in range(8):
        with T.block("A"):
            v = T.axis.spatial(8, i)
            A[v] = T.if_then_else(v < 6, B[v], T.float32(0))
"""
    assert "v < 6" in same(text, tt.HoistExpression(), [(8,), (8,)]).script()


THREADS = """
@T.prim_func
def main(A: T.Buffer((4, 8), "float32"), B: T.Buffer((4, 8), "float32")):
    for b in T.thread_binding(4, thread="blockIdx.x"):
        for i in T.thread_binding(8, thread="threadIdx.x"):
            A[b, i] = B[3 - b, i] + T.float32(1)
        for j in T.thread_binding({extent}, thread="threadIdx.x"):
            B[b, j] = B[b, j] * T.float32(2)
"""


def test_thread_axes():
    whole = THREADS.format(extent=8).replace("B[3 - b, i]", "T.float32(3)")
    after = same(whole, tt.UnifyThreadBinding(), [(4, 8), (4, 8)])
    assert after.script().count("T.thread_binding") == 2
    with pytest.raises(ValueError, match=r"loops on threadIdx\.x have different extents") as e:
        tt.UnifyThreadBinding()(IRModule({"main": from_source(THREADS.format(extent=4))}))
    assert "8 and 4" in str(e.value) and "for j in T.thread_binding(4" in str(e.value)


def test_single_definitions():
    text = """
@T.prim_func
def main(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
    for u in T.unroll(3):
        m = T.allocate([4], "float32", "global")
        M = T.Buffer((4,), data=m)
        for i in range(4):
            x: T.int32 = (i + u) % 4
            M[x] = A[i + u]
        for i in range(4):
            B[i + u] = M[i] + B[i]
"""
    func = from_source(text)
    # Not as modules: a function in which a variable is defined twice cannot be printed.
    unrolled = tt.UnrollLoop().run_function(func, None, PassContext())
    assert ta.verify_ssa(unrolled) and ta.verify_well_formed(unrolled)
    twice = func.replace(body=seq(func.body, func.body))
    once = IRModule({"main": tt.ConvertSSA().run_function(twice, None, PassContext())})["main"]
    assert not ta.verify_ssa(twice) and ta.verify_ssa(once)
    ta.verify_well_formed(once)
    same(text, tt.UnrollLoop(), [(8,), (8,)])
    for a, b in zip(outputs(twice, [(8,), (8,)]), outputs(once, [(8,), (8,)]), strict=True):
        np.testing.assert_array_equal(a, b)


CACHE = """
@T.prim_func
def main(A: T.Buffer((8, 16), "float32"), C: T.Buffer((8, 16), "float32")):
    for i in range(8):
        with T.block(""):
            T.reads(A[i, 0:16])
            T.writes(C[i, 0:16])
            B = T.alloc_buffer((8, 16))
            for j in range(16):
                with T.block(""):
                    T.reads(A[i, j])
                    T.writes(B[i, j])
                    T.block_attr({"buffer_dim_align": [[0, 0, 16, 1]]})
                    B[i, j] = A[i, j] + T.float32(1)
            for j in range(16):
                with T.block(""):
                    T.reads(B[i, j])
                    T.writes(C[i, j])
                    C[i, j] = B[i, j] * T.float32(2)
"""


def test_buffers_are_compacted_before_and_after_blocks_are_lowered():
    steps = [tt.CompactBufferAllocation(), tt.LowerOpaqueBlock()]
    texts = set()
    for order in (steps, steps[::-1]):
        after = same(CACHE, Sequential([*order, tt.Simplify()]), [(8, 16), (8, 16)])
        texts.add(after.script())
    (text,) = texts
    assert "strides=(17, 1)" in text


def test_what_threads_share_is_compacted_over_all_of_them():
    text = """
@T.prim_func
def main(A: T.Buffer((8, 16), "float32"), C: T.Buffer((8, 16), "float32")):
    for i in range(8):
        for j in T.thread_binding(16, thread="threadIdx.x"):
            with T.block(""):
                T.reads(A[i, j])
                T.writes(C[i, j])
                B = T.alloc_buffer((8, 16), scope="SCOPE")
                B[i, j] = A[i, j]
                C[i, j] = B[i, j]
"""
    for scope, shape in (("shared", "(1, 16)"), ("local", "(1, 1)")):
        func = from_source(text.replace("SCOPE", scope))
        after = tt.CompactBufferAllocation()(IRModule({"main": func}))["main"]
        assert f"alloc_buffer({shape}" in after.script()


def test_compaction_may_grow_a_buffer_where_it_is_not_strict():
    text = """
@T.prim_func
def main(A: T.Buffer((7,), "float32"), C: T.Buffer((7,), "float32")):
    for i in range(2):
        with T.block(""):
            B = T.alloc_buffer((3,))
            for j in range(4):
                if i * 4 + j < 7:
                    B[i * 4 + j] = A[i * 4 + j]
            for j in range(4):
                if i * 4 + j < 7:
                    C[i * 4 + j] = B[i * 4 + j]
"""
    func = from_source(text)
    for strict, shape in ((True, "(3,)"), (False, "(4,)")):
        after = tt.CompactBufferAllocation(is_strict=strict)(IRModule({"main": func}))["main"]
        assert f"alloc_buffer({shape}" in after.script()


def test_a_pointer_given_away_keeps_to_the_regions_of_its_block():
    text = """
@T.prim_func
def main(A: T.Buffer((1024,), "float32")):
    B = T.alloc_buffer((1024,))
    for i in range(512):
        with T.block(""):
            T.reads(A[i])
            T.writes(B[i + {first}:i + {first} + 9])
            T.evaluate(T.call_extern("int32", "fill", A.data, B.data))
"""
    for first, shape in ((0, "(520,)"), (1, "(1024,)")):  # a pointer goes to the first element
        func = from_source(text.format(first=first))
        after = tt.CompactBufferAllocation()(IRModule({"main": func}))["main"]
        assert f"alloc_buffer({shape}" in after.script()


def test_memory_of_one_buffer_is_compacted_without_its_declaration():
    text = """
@T.prim_func
def main(C: T.Buffer((10,), "int32")):
    data = T.allocate([12], "int32")
    B = T.Buffer((12,), "int32", data=data)
    for i in range(10):
        if i:
            B[i] = i
            C[i] = B[i]
"""
    after = tt.CompactBufferAllocation()(IRModule({"main": from_source(text)}))["main"]
    assert "T.allocate([9]" in after.script() and "B[i - 1] = i" in after.script()


UNDER_CONDITIONS = {
    "a tail": ("i * 8 + j < 20", "i * 8 + j", "(20,)"),
    "a part": ("2 <= i * 8 + j and i * 8 + j < 10", "i * 8 + j - 2", "(8,)"),
    "not in a part": ("not (i >= 2 or j > 4)", "j + i * 8", "(13,)"),
    "a quotient": ("i * 8 + j < 12", "(i * 8 + j) // 4", "(3,)"),
    "one value": ("i == 1", "i * 8 + j", "(8,)"),
    "memory": ("A[i * 8 + j] < T.float32(0)", "i * 8 + j", "(24,)"),
}


@pytest.mark.parametrize("case", UNDER_CONDITIONS)
def test_buffers_are_compacted_to_what_conditions_let_be_accessed(case):
    condition, index, shape = UNDER_CONDITIONS[case]
    text = f"""
@T.prim_func
def main(A: T.Buffer((24,), "float32"), C: T.Buffer((24,), "float32")):
    with T.block(""):
        B = T.alloc_buffer((24,))
        for i, j in T.grid(3, 8):
            C[i * 8 + j] = T.float32(3)
            if {condition}:
                B[{index}] = A[{index}] * T.float32(2)
        for i, j in T.grid(3, 8):
            if {condition}:
                C[i * 8 + j] = B[{index}]
        for i, j in T.grid(3, 8):
            C[i * 8 + j] += T.if_then_else({condition}, B[{index}], T.float32(1))
"""
    after = same(text, Sequential([tt.CompactBufferAllocation(), tt.Simplify()]), [24, 24])
    assert f"alloc_buffer({shape}" in after.script()


def test_buffers_behind_windows_are_compacted():
    text = """
@T.prim_func
def main(A: T.Buffer((16, 16), "float32"), C: T.Buffer((16, 16), "float32")):
    for i in range(16):
        with T.block(""):
            B = T.alloc_buffer((16, 16))
            with T.block(""):
                T.reads(A[i, 0:16])
                T.writes(B[i, 4:12])
                W = T.match_buffer(B[i, 4:12], (8,)MORE)
                for j in range(8):
                    W[j] = A[i, j] + T.float32(1)
            for j in range(8):
                C[i, j] = B[i, j + 4]
"""
    for more, shape in (
        ("", "(1, 8)"),
        (", strides=[1], offset_factor=1", "(16, 16)"),
        (", offset_factor=4", "(16, 16)"),
    ):
        steps = Sequential([tt.CompactBufferAllocation(), tt.LowerMatchBuffer()])
        after = same(text.replace("MORE", more), steps, [(16, 16), (16, 16)])
        assert f"alloc_buffer({shape}" in after.script()


NO_EFFECT = {
    "a loop that never runs": ("for i in range(n - n): A[0] = T.float32(1)", False, 0),
    "a value that nobody uses": ("x: T.int32 = n * 2\n    A[0] = T.float32(1)", False, 1),
    "a store of what is there": ("for i in range(8): A[i + n - n] = A[i]", False, 0),
    "an empty branch": ("if n < 3: T.evaluate(0)\n    else: A[0] = T.float32(1)", False, 1),
    "two stores": ("A[0] = T.float32(1)\n    A[0] = T.float32(2)", True, 1),
    "two stores, as it is": ("A[0] = T.float32(1)\n    A[0] = T.float32(2)", False, 2),
    "a store that is read": ("A[0] = T.float32(1)\n    A[0] = A[0] + T.float32(2)", True, 2),
    "what follows under a wider condition": (
        "for i in range(8):\n        if i < 3: A[i] = T.float32(1)\n"
        "    for i in range(8):\n        if i // 2 < 2: A[i] = T.float32(2)",
        True,
        1,
    ),
    "what follows under a narrower condition": (
        "for i in range(8):\n        if i < 5: A[i] = T.float32(1)\n"
        "    for i in range(8):\n        if i // 2 < 2: A[i] = T.float32(2)",
        True,
        2,
    ),
    "a part of what follows": (
        "for i in range(2, 5): A[i] = T.float32(1)\n    for i in range(8): A[i] = T.float32(2)",
        True,
        1,
    ),
    "more than what follows": (
        "for i in range(8): A[i] = T.float32(1)\n    for i in range(2, 5): A[i] = T.float32(2)",
        True,
        2,
    ),
    "under a condition that follows": (
        "for i in range(8): A[i] = T.float32(1)\n"
        "    for i in range(8):\n        if i < n: A[i] = T.float32(2)",
        True,
        2,
    ),
    "read in between": (
        "for i in range(8): A[i] = T.float32(1)\n    B[0] = A[3]\n"
        "    for i in range(8): A[i] = T.float32(2)",
        True,
        3,
    ),
    "another in between": (
        "for i in range(8): A[i] = T.float32(1)\n    B[0] = T.float32(3)\n"
        "    for i in range(8): A[i] = T.float32(2)",
        True,
        2,
    ),
}


@pytest.mark.parametrize("case", NO_EFFECT)
def test_statements_without_effect(case):
    body, dataflow, stores = NO_EFFECT[case]
    text = f"""
@T.prim_func
def main(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32"), n: T.int32):
    {body}
"""
    with PassContext(config={"tir.RemoveNoOp": {"use_dataflow_analysis": dataflow}}):
        after = same(text, tt.RemoveNoOp(), [(8,), (8,)], [5])
    assert count(after, BufferStore) == stores
    assert count(after, LetStmt) == 0


def test_native_bfloat16_stays():
    text = """
@T.prim_func
def main(A: T.Buffer((8,), "bfloat16")):
    T.func_attr({"target": T.target({"kind": "cuda", "arch": "ARCH"})})
    for i in range(8):
        A[i] = A[i] + A[i]
"""
    for arch, stays in (("sm_80", True), ("sm_90a", True), ("sm_75", False)):
        mod = IRModule({"main": from_source(text.replace("ARCH", arch))})
        after = tt.BF16StorageLegalize()(tt.BF16ComputeLegalize()(mod))
        assert structural_equal(mod, after) == stays


def test_remove_no_op_keeps_what_buffers_use():
    @T.prim_func
    def f(p: T.handle, n: T.int32):
        q: T.handle("float32") = T.handle_add_byte_offset(p, 4)
        m: T.int32 = n + 1
        A = T.Buffer((m,), "float32", data=q)
        A[0] = A[1]

    mod = IRModule({"f": f})
    assert_structural_equal(tt.RemoveNoOp()(mod), mod)


LOOPS_INSIDE = """
@T.prim_func
def main(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32"), n: T.int32):
    for i in range(n):
        for j in range(8):
            x = T.allocate([4], "float32", "global")
            X = T.Buffer((4,), data=x)
            X[j % 4] = A[j] + T.float32(1)
            A[j] = X[j % 4]
        for j in range(1, 8):
            y = T.allocate([j], "float32", "global")
            Y = T.Buffer((j,), data=y)
            Y[0] = A[j] * T.float32(2)
            B[j] = Y[0]
        for j in range(8):
            z = T.allocate([6], "float32", "global")
            Z = T.Buffer((6,), data=z)
            Z[j % 4] = B[j]
            A[j] = Z[j % 4]
    for i in T.parallel(8):
        w = T.allocate([1], "float32", "global")
        W = T.Buffer((1,), data=w)
        W[0] = A[i]
        B[i] = W[0] + T.float32(1)
"""


def test_allocations_move_out_of_loops_and_share():
    after = same(LOOPS_INSIDE, tt.StorageRewrite(), [(8,), (8,)], [3])
    text = after.script()
    assert count(after, Allocate) == 3 and text.index("T.allocate([6]") < text.index("for i")
    assert text.index("T.parallel") < text.index("w = T.allocate")


def test_an_elementwise_result_takes_the_place_of_its_operand():
    text = """
@T.prim_func
def main(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
    x = T.allocate([8], "float32", "global")
    X = T.Buffer((8,), data=x)
    for i in range(8):
        X[i] = A[i]
    y = T.allocate([8], "float32", "global")
    Y = T.Buffer((8,), data=y)
    for i in range(8):
        Y[i] = X[INDEX] * T.float32(2)
    for i in range(8):
        B[i] = Y[i]
"""
    for index, left in (("i", 1), ("7 - i", 2)):
        after = same(text.replace("INDEX", index), tt.StorageRewrite(), [(8,), (8,)])
        assert count(after, Allocate) == left


def test_narrow_literals_and_bits():
    text = """
@T.prim_func
def main(A: T.Buffer((T.int64(64),), "int64"), B: T.Buffer((T.int64(64),), "int32")):
    for i in range(T.int64(64)):
        if i * T.int64(FACTOR) < T.int64(1000):
            A[i] = A[i] + i * T.int64(5)
            B[i] = T.clz(i + T.int64(1))
"""
    small, large = (from_source(text.replace("FACTOR", str(f))) for f in (2, 1 << 27))
    after = tt.NarrowDataType(32)(IRModule({"main": small}))["main"]
    assert "int64" not in after.script().split("if ")[1].split("\n")[0]
    for func in (after, tt.ForceNarrowIndexToInt32()(IRModule({"main": small}))["main"]):
        one, two = ([np.arange(64), np.zeros(64, "int32")] for _ in range(2))
        run(small, one)
        run(func, two)
        assert all(map(np.array_equal, one, two))
    kept = tt.NarrowDataType(32)(IRModule({"main": large}))["main"]
    assert structural_equal(kept, large)


@pytest.mark.no_verify
def test_buffers_that_int32_counts():
    for size, large in ((2**31 - 1, False), (2**31, True)):
        text = f'@T.prim_func\ndef main(A: T.Buffer((T.int64({size}),), "int8")):\n    A[T.int64(1)] = T.int8(0)\n'
        mod = IRModule({"main": from_source(text)})
        if large:
            with pytest.raises(ValueError, match="buffer A has more elements than int32 counts"):
                tt.ForceNarrowIndexToInt32()(mod)
        else:
            assert "int64" not in tt.ForceNarrowIndexToInt32()(mod).script()


@pytest.mark.no_verify
@pytest.mark.parametrize(("bits", "size", "narrow"), [(32, 2**30 - 1, True), (32, 2**30, False), (16, 2**14 - 1, True), (16, 2**14, False)])  # fmt: skip
def test_buffers_whose_indices_are_narrowed(bits, size, narrow):
    text = f'@T.prim_func\ndef main(A: T.Buffer((T.int64({size}),), "int8")):\n    for i in range(T.int64(3)):\n        A[i] = T.int8(0)\n'
    made = tt.NarrowDataType(bits)(IRModule({"main": from_source(text)}))["main"]
    assert made.body.loop_var.dtype == (f"int{bits}" if narrow else "int64")


@pytest.mark.parametrize(("factor", "narrow"), [(306783378, True), (306783379, False)])
def test_what_the_init_of_a_block_computes_is_counted(factor, narrow):
    text = f"""
@T.prim_func
def main(A: T.Buffer((T.int64(8),), "int32")):
    for i in range(T.int64(8)):
        with T.block("b"):
            v = T.axis.reduce(T.int64(8), i)
            with T.init():
                A[v * T.int64({factor}) // T.int64({factor})] = 0
            A[T.int64(0)] = A[T.int64(0)] + 1
"""
    made = tt.NarrowDataType(32)(IRModule({"main": from_source(text)}))["main"]
    assert ("int64" not in made.script()) == narrow


@pytest.mark.parametrize(("dtype", "values"), [("float32x2", [None, None]), ("int8x2", [-128, -128]), ("float32x4", [None] * 4)])  # fmt: skip
def test_new_memory_of_vectors_is_filled(dtype, values):
    text = f"""
@T.prim_func
def main(A: T.Buffer((3,), "{dtype}")):
    x = T.allocate([3], "{dtype}", "local")
    X = T.Buffer((3,), "{dtype}", data=x, scope="local")
    A[1] = X[2]
"""
    made = tt.FillNewMemory()(IRModule({"main": from_source(text)}))["main"]
    assert made.script().count("X[") + made.script().count("x_1[") >= 2
    a = np.zeros((3, len(values)), dtype.partition("x")[0])
    run(made, [a])
    np.testing.assert_array_equal(
        a[1], np.array([np.nan if v is None else v for v in values], a.dtype)
    )


def test_all_lanes_of_new_memory_are_filled_in_machine_code():
    text = """
@T.prim_func
def main(A: T.Buffer((8,), "float32")):
    x = T.allocate([2], "float32x4", "global")
    X = T.Buffer((2,), "float32x4", data=x)
    for i in range(2):
        A[i * 4 : i * 4 + 4] = X[i]
"""
    a = np.zeros(8, "float32")
    lw.compile(tt.FillNewMemory()(IRModule({"main": from_source(text)})))["main"](a)
    assert np.isnan(a).all()


def test_new_memory_of_pointers_is_not_filled():
    func = from_source(
        "@T.prim_func\ndef main():\n    x = T.allocate([3], 'handle', 'local')\n    T.evaluate(0)\n"
    )
    mod = IRModule({"main": func})
    assert tt.FillNewMemory()(mod)["main"].script() == func.script()


def test_names_of_one_variable_three_loops_deep():
    """After the innermost loop the middle one's variable is meant again."""
    i, A = tir.Var("i", "int32"), tir.decl_buffer((64,), "int32", "A")

    def loop(extent, body):
        return tir.For(i, 0, extent, 0, body)

    def store(place, value):
        return tir.BufferStore(A, A[place] + value, [place])

    middle = loop(3, seq(loop(2, store(i, 1)), store(i + 8, 10)))
    func = tir.PrimFunc([A], loop(4, seq(middle, store(i + 16, 100))))
    once = tt.ConvertSSA().run_function(func, None, PassContext())
    assert ta.verify_ssa(once) and not ta.verify_ssa(func)
    run(once, [a := np.zeros(64, "int32")])
    want = np.zeros(64, "int32")
    want[:2], want[8:11], want[16:20] = 12, 40, 100
    np.testing.assert_array_equal(a, want)


@pytest.mark.parametrize(
    ("body", "kept"),
    [
        ("T.evaluate(0)", False),
        ('T.evaluate(T.call_extern("void", "f", T.address_of(X[4])))', True),
        (
            "Y = T.Buffer((6,), data=x, scope='local')\n    B[T.Ramp(0, 1, 4)] = Y[T.Ramp(0, 1, 4)]",
            True,
        ),
        (
            "Y = T.Buffer((4,), data=x, scope='local')\n    B[T.Ramp(0, 1, 4)] = Y[T.Ramp(0, 1, 4)]",
            False,
        ),
    ],
)
def test_vectors_of_memory_that_is_seen_otherwise(body, kept):
    text = f"""
@T.prim_func
def main(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
    x = T.allocate([8], "float32", "local")
    X = T.Buffer((8,), data=x, scope="local")
    y = T.allocate([3], "float32", "local")
    Z = T.Buffer((3,), data=y, scope="local")
    Z[2] = A[0]
    X[T.Ramp(4, 1, 4)] = A[T.Ramp(4, 1, 4)]
    {body}
    B[T.Ramp(0, 1, 4)] = X[T.Ramp(4, 1, 4)]
"""
    made = tt.PointerValueTypeRewrite()(IRModule({"main": from_source(text)}))["main"].script()
    assert ('x = T.allocate([8], "float32"' in made) == kept
    assert ('x = T.allocate([2], "float32x4"' in made) != kept
    assert 'y = T.allocate([3], "float32"' in made


def test_pointers_with_names_become_pointers_to_vectors():
    text = """
@T.prim_func
def main(A: T.Buffer((8,), "float32")):
    p: T.handle("float32") = T.address_of(A[0])
    P = T.Buffer((8,), data=p)
    P[T.Ramp(0, 1, 4)] = P[T.Ramp(4, 1, 4)]
"""
    made = same(text, tt.PointerValueTypeRewrite(), [(8,)]).script()
    assert 'p: T.handle("float32x4", "global")' in made and "P[0] = P[1]" in made
