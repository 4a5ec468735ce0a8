"""Passes that lower blocks and their buffers, beyond what the docstrings' examples show."""

from typing import Any

import numpy as np
import pytest

from loopwright import te
from loopwright.base.errors import LoopwrightError
from loopwright.ir.module import IRModule
from loopwright.ir.transform import PassContext, Sequential
from loopwright.script import from_source
from loopwright.tir import Schedule, analysis
from loopwright.tir import transform as tt
from loopwright.tir.interpreter import run
from loopwright.tir.stmt import ForKind, LetStmt, Stmt
from loopwright.tir.transform.optimize import remove_no_op

ROW = """
@T.prim_func(check_well_formed=False)
def main(A: T.Buffer((8, 8), "float32"), n: T.int32):
    for i in range(8):
        with T.block("b"):
            T.writes(A[i, 4:8])
            s = T.int32()
            row = T.match_buffer(A[i, 4:8], ({shape}), {options})
            for j in range(4):
                row[{index}] = T.float32(0)
"""


def lowered(passes, text):
    mod = IRModule({"main": from_source(text)})
    for item in passes:
        mod = item(mod)
    return mod["main"]


@pytest.mark.no_roundtrip  # the faults are in the texts
@pytest.mark.no_verify
@pytest.mark.parametrize(
    ("shape", "index", "options", "got"),
    [
        ("4,", "j", "elem_offset=0", "elem_offset of buffer row"),
        ("1, 4", "0, j", "strides=[s, s], offset_factor=1", "stride 1 of buffer row"),
        ("4,", "j", "strides=[n], offset_factor=1", "stride 0 of buffer row"),
    ],
)
def test_matched_buffers_are_what_they_state(shape, index, options, got):
    text = ROW.format(shape=shape, index=index, options=options)
    with pytest.raises(LoopwrightError, match=got):
        lowered([tt.LowerMatchBuffer()], text)


@pytest.mark.no_roundtrip
def test_conditions_of_blocks_do_not_use_their_axes():
    text = """
@T.prim_func(check_well_formed=False)
def main(A: T.Buffer((8,), "float32")):
    for i in range(8):
        with T.block("b"):
            vi = T.axis.spatial(8, i)
            T.where(vi < 6)
            A[vi] = T.float32(0)
"""
    with pytest.raises(LoopwrightError, match="the condition of block 'b'"):
        lowered([tt.ConvertBlocksToOpaque()], text)


def test_what_lives_inside_is_no_region_of_the_block():
    func = lowered(
        [tt.PlanAndUpdateBufferAllocationLocation()],
        """
@T.prim_func
def main(A: T.Buffer((4, 8), "float32"), C: T.Buffer((4, 8), "float32")):
    with T.block("root"):
        B = T.alloc_buffer((4, 8))
        for i in range(4):
            with T.block("row"):
                vi = T.axis.spatial(4, i)
                T.reads(A[vi, 0:8], B[vi, 0:8])
                T.writes(B[vi, 0:8], C[vi, 0:8])
                for j in range(8):
                    B[vi, j] = A[vi, j] + T.float32(1)
                for j in range(8):
                    C[vi, j] = B[vi, j] * T.float32(2)
""",
    )
    block = func.body.block.body.body.block
    assert [b.name for b in block.alloc_buffers] == ["B"]
    assert [r.buffer.name for r in (*block.reads, *block.writes)] == ["A", "C"]


@pytest.mark.parametrize("depth", [64, 128])
def test_what_a_reduction_reads_is_kept_for_one_of_its_steps(depth, rng):
    """Tiles that a product reads are made anew in each step of k; what it sums in is not."""
    x, y = te.placeholder((16, depth), name="x"), te.placeholder((depth, 16), name="y")
    r = te.reduce_axis((0, depth), "r")
    z = te.compute((16, 16), lambda i, j: te.sum(x[i, r] * y[r, j], r), name="z")
    sch = Schedule(te.create_prim_func([x, y, te.compute((16, 16), lambda i, j: z[i, j] * 2.0)]))
    block = sch.get_block("z")
    i, j, k = sch.get_loops(block)
    outer, inner = sch.split(k, [None, 8])
    sch.reorder(outer, i, j, inner)
    for n in (0, 1):
        sch.compute_at(sch.cache_read(block, n, "shared"), outer)
    steps = [tt.LowerInitBlock(), tt.PlanAndUpdateBufferAllocationLocation()]
    func = Sequential([*steps, tt.ConvertBlocksToOpaque(), tt.CompactBufferAllocation()])(sch.mod)[
        "main"
    ]
    text = func.script()
    assert 'x_shared = T.alloc_buffer((16, 8), scope="shared")' in text
    assert 'y_shared = T.alloc_buffer((8, 16), scope="shared")' in text
    a, b = rng.standard_normal((16, depth), "float32"), rng.standard_normal((depth, 16), "float32")
    got = np.zeros((16, 16), "float32")
    run(func, [a, b, got])
    np.testing.assert_allclose(got, a @ b * 2, rtol=1e-4, atol=1e-4)


FILLED_ONCE = """
@T.prim_func
def main(A: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")):
    B = T.alloc_buffer((8,))
    for k in range(4):
        {fill}
        for i in range(8):
            with T.block("C"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    C[vi] = T.float32(0)
                C[vi] = C[vi] + B[vi]
"""
FILLS = {
    "predicate": """for i in range(8):
            with T.block("B"):
                vi = T.axis.spatial(8, i)
                T.where(k == 0)
                B[vi] = A[vi]
""",
    "branch": """if k == 0:
            for i in range(8):
                with T.block("B"):
                    vi = T.axis.spatial(8, i)
                    B[vi] = A[vi]
""",
    "branch within the block": """for i in range(8):
            with T.block("B"):
                vi, vo = T.axis.remap("SS", [i, k])
                T.reads(A[vi])
                T.writes(B[vi])
                if vo == 0:
                    B[vi] = A[vi]
""",
    "outer block": """for i in range(8):
            with T.block("rows"):
                vi, vo = T.axis.remap("SS", [i, k])
                T.reads(A[vi])
                T.writes(B[vi])
                with T.block("B"):
                    T.where(vo < 1)
                    T.reads(A[vi])
                    T.writes(B[vi])
                    B[vi] = A[vi]
""",
}


@pytest.mark.parametrize("fill", FILLS)
def test_what_only_some_steps_of_a_reduction_write_is_kept_between_them(fill, rng):
    steps = [tt.LowerInitBlock(), tt.PlanAndUpdateBufferAllocationLocation()]
    func = lowered(steps, FILLED_ONCE.format(fill=FILLS[fill]))
    assert [b.name for b in func.body.block.alloc_buffers] == ["B"]
    a, got = rng.standard_normal(8, "float32"), np.zeros(8, "float32")
    run(func, [a, got])
    np.testing.assert_allclose(got, 4 * a, rtol=1e-6)


def test_what_lives_elsewhere_is_no_region_of_a_later_block():
    func = lowered(
        [tt.Simplify(), tt.PlanAndUpdateBufferAllocationLocation()],
        """
@T.prim_func
def main(A: T.Buffer((4,), "int32"), C: T.Buffer((4,), "int32")):
    with T.block("root"):
        B = T.alloc_buffer((4,), "int32")
        for i in range(4):
            with T.block("B"):
                vi = T.axis.spatial(4, i)
                B[vi] = A[vi]
        for i in range(4):
            with T.block("C"):
                vi = T.axis.spatial(4, i)
                C[vi] = B[vi] - B[vi]
""",
    )
    assert analysis.verify_well_formed(func)
    first, second = func.body.block.body.seq
    assert [b.name for b in first.body.block.alloc_buffers] == ["B"]
    assert not second.body.block.reads


def test_buffers_of_a_reduction_move_further_inside():
    func = lowered(
        [tt.PlanAndUpdateBufferAllocationLocation()],
        """
@T.prim_func
def main(A: T.Buffer((4, 8), "float32"), C: T.Buffer((8,), "float32")):
    for k in range(4):
        with T.block("sum"):
            vk = T.axis.reduce(4, k)
            T.reads(A[vk, 0:8], C[0:8])
            T.writes(C[0:8])
            B = T.alloc_buffer((8,))
            for j in range(8):
                B[j] = A[vk, j]
                C[j] = C[j] + B[j]
""",
    )
    outer = func.body.block.body.body.block
    assert not outer.alloc_buffers
    assert [b.name for b in outer.body.body.block.alloc_buffers] == ["B"]
    a, c = np.arange(32, dtype="float32").reshape(4, 8), np.zeros(8, "float32")
    run(func, [a, c])
    np.testing.assert_array_equal(c, a.sum(axis=0))


def test_regions_for_a_cpu_report_errors():
    mod = IRModule(
        {
            "main": from_source(
                """
@T.prim_func
def main(B: T.handle("float32"), A: T.handle("float32"), m: T.int32, k: T.int32):
    T.func_attr({"target": T.target("cuda", host="llvm")})
    a = T.Buffer((8,), data=A)
    b = T.Buffer((8,), data=B)
    T.attr(T.target("llvm"), "target", 0)
    b[m] = a[k]
"""
            )
        }
    )
    made = tt.SplitHostDevice()(mod)
    kernel = made["main_kernel"]
    assert [p.name for p in kernel.params] == ["A", "B", "k", "m"]
    assert kernel.ret_type.dtype == "int32" and analysis.verify_well_formed(kernel)
    a, b = np.arange(8, dtype="float32"), np.zeros(8, "float32")
    run(made["main"], [b, a, 1, 5], made)
    assert b[1] == 5


@pytest.mark.no_roundtrip  # extents are simplified where they are read
def test_unrolling_by_extent_and_by_marks():
    text = """
@T.prim_func
def main(A: T.Buffer((8,), "float32"), n: T.int32):
    for i in range(n, n + 2):
        A[i] = T.float32(0)
"""
    loop = from_source(text)
    sized = loop.replace(body=loop.body.replace(extent=loop.params[1] + 2 - loop.params[1]))
    options = {"auto_max_step": 2}
    with PassContext(config={"tir.UnrollLoop": options}):
        assert "for" not in tt.UnrollLoop()(IRModule({"main": sized}))["main"].script()
    with PassContext(config={"tir.UnrollLoop": {**options, "explicit_unroll": False}}):
        assert tt.UnrollLoop()(IRModule({"main": sized}))["main"].body.kind == ForKind.UNROLLED


def test_a_factor_or_divisor_of_1_leaves_a_sum_as_it_is():
    text = """
@T.prim_func
def main(a: T.handle, n: T.int32):
    A = T.match_buffer(a, ((n + 2) * 4,), "int32")
    for k in T.unroll(3):
        A[k * (n + 2)] = T.truncdiv(n + 2, k + 1) + (n + 2) * k + (n + 2 + k)
"""
    func = tt.UnrollLoop()(IRModule({"main": from_source(text)}))["main"]
    data = np.zeros(20, "int32")
    run(func, [data, 3])
    assert data[::5].tolist() == [10, 5 // 2 + 5 + 6, 5 // 3 + 10 + 7, 0] and not data[1:5].any()


def test_given_no_ops_stay_until_they_are_removed():
    text = """
@T.prim_func
def main(A: T.Buffer((8,), "float32"), n: T.int32):
    A[0 + n] = T.float32(0)
    T.evaluate(0)
"""
    assert len(lowered([tt.Simplify()], text).body.seq) == 2
    assert not hasattr(lowered([tt.RemoveNoOp()], text).body, "seq")


def test_a_row_of_definitions_is_looked_through_once(monkeypatch):
    """A tile that is transposed in registers defines hundreds of vectors."""
    lines = [f"    v{k}: T.float32 = A[{k}] + T.float32({k})" for k in range(200)]
    kept = " + ".join(f"v{k}" for k in range(0, 200, 2))
    text = """
@T.prim_func
def main(A: T.Buffer((200,), "float32"), B: T.Buffer((1,), "float32")):
"""
    text += "\n".join([*lines, f"    B[0] = {kept}", ""])
    looked: list[Any] = []
    found = remove_no_op.all_variables
    monkeypatch.setattr(
        remove_no_op, "all_variables", lambda n, known: looked.append(n) or found(n, known)
    )
    body = lowered([tt.RemoveNoOp()], text).body
    assert sum(isinstance(n, Stmt) for n in looked) == 1
    names = []
    while isinstance(body, LetStmt):
        names.append(body.var.name)
        body = body.body
    assert names == [f"v{k}" for k in range(0, 200, 2)]


def test_flattening_keeps_dimensions_of_memory():
    text = """
@T.prim_func
def main(P: T.Buffer((4,), "bool")):
    with T.block("root"):
        A = T.alloc_buffer((2, 3, 4), axis_separators=[2])
        for i, j, k in T.grid(2, 3, 4):
            with T.block("b"):
                T.reads(P[k])
                T.writes(A[i, j, 0:4])
                A[i, j, k] = T.if_then_else(P[k], T.float32(1), T.float32(0))
"""
    func = lowered([tt.FlattenBuffer()], text)
    (buffer,) = func.body.block.alloc_buffers
    assert [int(e) for e in buffer.shape] == [6, 4] and buffer.axis_separators == (1,)
    (written,) = func.body.block.body.body.body.body.block.writes
    assert written.buffer is buffer and [int(r.extent) for r in written.region] == [1, 4]
    script = func.script()
    assert "A[i * 3 + j, k]" in script and 'T.Cast("bool", P_1[k])' in script
    flat = lowered([tt.FlattenBuffer(native=True)], text)
    assert [int(e) for e in flat.body.block.alloc_buffers[0].shape] == [24]


def test_flattened_memory_has_no_declarations():
    text = """
@T.prim_func
def main(A: T.Buffer((4, 4), "float32"), n: T.int32):
    B = T.decl_buffer((2, 4, n), "float32")
    B[1, 2, 0] = A[1, 2]
    A[2, 1] = B[1, 2, 0]
"""
    func = lowered([tt.FlattenBuffer()], text)
    assert "decl_buffer" not in func.script() and "T.allocate([n * 8]" in func.script()
    a = np.arange(16, dtype="float32").reshape(4, 4)
    run(func, [a, 3])
    assert a[2, 1] == 6


def test_the_first_pragma_is_the_outermost() -> None:
    func = lowered(
        [tt.LowerOpaqueBlock()],
        """
@T.prim_func
def main(A: T.Buffer((8,), "float32")):
    for i in T.serial(8, annotations={"pragma_a": 1, "pragma_b": 2, "pragma_c": "d"}):
        with T.block("zero"):
            T.block_attr({"pragma_e": 3})
            A[i] = T.float32(0)
""",
    )
    found = [func.body, func.body.body, func.body.body.body]
    found.append(found[-1].body.body)
    values = [("pragma_a", 1), ("pragma_b", 2), ("pragma_c", "d"), ("pragma_e", 3)]
    assert [(at.attr_key, at.value.value) for at in found] == values
