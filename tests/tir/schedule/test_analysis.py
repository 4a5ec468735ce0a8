"""Questions about blocks and intrinsics: layouts, loops that tile, axes that fuse."""

from __future__ import annotations

import pytest

from loopwright import tir
from loopwright.arith import Analyzer
from loopwright.ir.prim_expr import Var
from loopwright.script import from_source
from loopwright.tir.schedule import transform
from loopwright.tvm.tir import schedule_analysis as analysis

from ...programs import matmul, two_steps
from . import programs as p
from .util import check

I, J, K = (Var(name, "int32") for name in "ijk")

LAYOUTS = {
    "as it is": ([I, J], [(I, 8), (J, 16)], "lambda i0, i1: (i0, i1)", "lambda i0, i1: (i0, i1)"),
    "transposed": ([I, J], [(J, 16), (I, 8)], "lambda i0, i1: (i1, i0)", "lambda i0, i1: (i1, i0)"),
    "tiles of rows": (
        [I * 4 + K, J],
        [(I, 2), (J, 16), (K, 4)],
        "lambda i0, i1: (i0 // 4, i1, i0 % 4)",
        "lambda i0, i1, i2: (i0 * 4 + i2, i1)",
    ),
    "one loop": (
        [I // 16, I % 16],
        [(I, 128)],
        "lambda i0, i1: (i0 * 16 + i1,)",
        "lambda i0: (i0 // 16, i0 % 16)",
    ),
    "a part": (
        [I, J],
        [(I, 4), (J, 16)],
        "lambda i0, i1: (i0 % 4, i1)",
        "lambda i0, i1: (i0, i1)",
    ),
    "one axis": (
        [I + J * 32],
        [(I, 32), (J, 4)],
        "lambda i0: (i0 % 32, i0 // 32)",
        "lambda i0, i1: (i1 * 32 + i0,)",
    ),
    "no digits": ([I * I, J], [(I, 4), (J, 16)], None, None),
    "a window": ([I + K, J], [(I, 4), (K, 5), (J, 16)], None, None),
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_suggest_index_map(name: str) -> None:
    indices, loops, there, back = LAYOUTS[name]
    buffer = tir.decl_buffer((8, 16) if len(indices) > 1 else (128,), "float32", "X")
    nest = [tir.For(v, 0, n, tir.ForKind.SERIAL, tir.Evaluate(0)) for v, n in loops]
    made = analysis.suggest_index_map(buffer, indices, nest, True)
    if there is None:
        assert made is None
        return
    wanted = tir.IndexMap.from_func(eval(there), index_dtype="int32")
    assert made.is_equivalent_to(wanted)
    assert made.inverse_index_map.is_equivalent_to(
        tir.IndexMap.from_func(eval(back), index_dtype="int32")
    )


def test_the_suggested_layout_is_read_in_order() -> None:
    """After transform_layout, the access goes through the buffer from its start to its end."""
    func = two_steps(8, 16)
    sch = tir.Schedule(func)
    i, j = sch.get_loops("C")
    (i0, i1), (j0, j1) = sch.split(i, [None, 4]), sch.split(j, [None, 8])
    sch.reorder(j0, i0, i1, j1)
    ref = sch.get_sref(sch.get_block("C"))
    buffer = ref.stmt.reads[0].buffer
    loops = [sch.get(loop) for loop in (j0, i0, i1, j1)]
    made = analysis.suggest_index_map(buffer, list(ref.realize.iter_values), loops, True)
    sch.transform_layout("B", ("write", 0), made)
    check(sch, func)
    ref = sch.get_sref(sch.get_block("C"))
    load = ref.stmt.reads[0]
    values = dict(zip([a.var for a in ref.stmt.iter_vars], ref.realize.iter_values, strict=True))
    ana = Analyzer()
    for loop in loops:
        ana.bind(loop.loop_var, tir.Range(0, loop.extent))
    found = [ana.simplify(tir.stmt_functor.substitute(r.min, values)) for r in load.region]
    assert [str(e) for e in found] == ["j_0", "i_0", "i_1", "j_1"] or [str(e) for e in found] == [
        "j_0",
        "i_0 * 4 + i_1",
        "j_1",
    ]


_DOT = """
@T.prim_func
def dot(
    X: T.Buffer((4,), "float32", offset_factor=1),
    Y: T.Buffer((4, 5), "float32", offset_factor=1),
    Z: T.Buffer((5,), "float32", offset_factor=1),
):
"""
DOT = from_source(
    _DOT
    + """
    for i, k in T.grid(5, 4):
        with T.block("update"):
            vi, vk = T.axis.remap("SR", [i, k])
            Z[vi] = Z[vi] + X[vk] * Y[vk, vi]
"""
)
DOT_IMPL = from_source(
    _DOT
    + """
    with T.block("root"):
        T.reads(Z[0:5], X[0:4], Y[0:4, 0:5])
        T.writes(Z[0:5])
        for k in range(4):
            Z[0:5] = Z[0:5] + T.Broadcast(X[k], 5) * Y[k, 0:5]
"""
)


@pytest.fixture
def registered() -> str:
    name = "test.analysis.dot"
    tir.TensorIntrin.register(name, DOT, DOT_IMPL, override=True)
    return name


def test_tensorize_loop_mapping() -> None:
    sch = tir.Schedule(p.matmul)
    info = analysis.get_tensorize_loop_mapping(sch, sch.get_block("C"), DOT)
    names = {r.stmt.loop_var.name: f.loop_var.name for r, f in info.loop_map.items()}
    assert names == {"j": "i", "k": "k"}
    assert [f.loop_var.name for f in info.desc_loop_indexer] == ["i", "k"]
    assert list(info.desc_loop_indexer.values()) == [0, 1]
    assert info.block_iter_paddings is None


@pytest.mark.parametrize("padding", [False, True])
def test_tile_with_tensor_intrin(padding: bool, registered: str) -> None:
    func = matmul(6, 18, 7) if padding else p.matmul
    sch = tir.Schedule(func, debug_mask="all")
    block = sch.get_block("C")
    if padding:
        assert transform.tile_with_tensor_intrin(sch, block, registered) is None
        assert not sch.trace.insts[1:]
    tile = transform.tile_with_tensor_intrin(sch, block, registered, allow_padding=padding)
    extents = [sch.get(loop).extent.value for loop in sch.get_loops(block)]
    assert extents[-2:] == [5, 4]
    assert sch.get(tile).extent.value == 5
    sch.decompose_reduction(block, sch.get_loops(block)[1])
    assert analysis.can_tensorize(sch, tile, registered)
    sch.tensorize(tile, registered)
    check(sch, func)


def test_auto_tensorize_mapping() -> None:
    sch = tir.Schedule(p.conv2d)
    desc = from_source("""
@T.prim_func
def mma(
    A: T.Buffer((4, 4), "float32"), B: T.Buffer((4, 4), "float32"), C: T.Buffer((4, 4), "float32")
):
    for i, j, k in T.grid(4, 4, 4):
        with T.block("update"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
""")
    info = analysis.get_auto_tensorize_mapping_info(sch, sch.get_block("conv"), desc)
    assert {a.name: b.name for a, b in info.lhs_buffer_map.items()} == {
        "Z": "C",
        "P": "A",
        "W": "B",
    }
    wanted = tir.IndexMap.from_func(
        lambda n, o, h, w, c, kh, kw: ((n * 8 + h) * 8 + w, o, (c * 3 + kh) * 3 + kw),
        index_dtype="int32",
    )
    assert info.mappings[0].is_equivalent_to(wanted)
    assert [a.var.name for a in info.rhs_iters] == ["vi", "vj", "vk"]
    assert [str(i) for i in info.rhs_buffer_indices[desc.buffers[0]]] == ["vi", "vk"]
    sch.transform_block_layout("conv", info.mappings[0])
    check(sch, p.conv2d)
    assert analysis.get_auto_tensorize_mapping_info(sch, sch.get_block("relu"), desc) is None


def test_block_dependence_info() -> None:
    info = tir.schedule.BlockDependenceInfo(p.matmul_bias_relu)
    root = info.mod["main"].body.block
    scope = info.get_block_scope(info.get_sref(root))
    found = [(d.src.stmt.name_hint, d.dst.stmt.name_hint, d.kind.name) for d in scope.deps]
    assert found == [("C", "D", "RAW"), ("D", "E", "RAW")]


def test_paddings_and_groups_of_one() -> None:
    """Only axes that do not divide are padded; `o // 8 * 8`, always 0, is no use of `o`."""
    sch = tir.Schedule(matmul(6, 20, 7))
    info = analysis.get_tensorize_loop_mapping(sch, sch.get_block("C"), DOT, allow_padding=True)
    assert info.block_iter_paddings == [1, 1, 4]
    func = from_source("""
@T.prim_func
def main(A: T.Buffer((8, 8), "float32"), B: T.Buffer((8, 8), "float32"), C: T.Buffer((8, 8), "float32")):
    for i, o, k in T.grid(8, 8, 8):
        with T.block("C"):
            vi, vo, vk = T.axis.remap("SSR", [i, o, k])
            with T.init():
                C[vi, vo] = T.float32(0)
            C[vi, vo] = C[vi, vo] + A[vi, vo // 8 * 8 + vk] * B[vk, vo]
""")
    sch = tir.Schedule(func)
    desc = tir.TensorIntrin.get("wmma_sync_16x16x16_f16f16f16").desc
    text = desc.script().replace("float16", "float32")
    info = analysis.get_auto_tensorize_mapping_info(sch, sch.get_block("C"), from_source(text))
    assert info.mappings[0].is_equivalent_to(tir.IndexMap.from_func(lambda i, o, k: (i, o, k)))
