"""Intrinsics of the tensor cores of NVIDIA's GPUs, by name: WMMA's fragments of matrices, and PTX's
`ldmatrix` and `mma` on registers of a warp.

The tables at the end say which there are: from them follow the names, their constants
(`WMMA_SYNC_16x16x16_f16f16f32_INTRIN`) and the pairs of description and implementation. Loopwright
does not generate code for them yet; schedules that use them can be made and printed.

A matrix in the memory of a warp is indexed by (thread, register):
`shared_16x16_to_ldmatrix_32x8_layout` and similar functions return both for an element. The order
of registers is that of "Matrix Fragments for mma" in NVIDIA's PTX ISA. Parts of 8 x 16 bytes are
its unit: `ldmatrix` loads four of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import product
from typing import Any

from ...ir.prim_expr import IterVar, PrimExpr, Range, Var
from ...ir.prim_op import add, cast, const, convert, multiply
from ...tir.buffer import Buffer, decl_buffer
from ...tir.expr import BufferLoad
from ...tir.function import PrimFunc, TensorIntrin
from ...tir.op_target import (
    mma_fill,
    mma_store,
    ptx_ldmatrix,
    ptx_mma,
    tvm_fill_fragment,
    tvm_load_matrix_sync,
    tvm_mma_sync,
    tvm_store_matrix_sync,
)
from ...tir.stmt import AttrStmt, BufferStore, Evaluate, For, ForKind, SeqStmt, Stmt
from ...tir.tensor_intrin.dot import around, nest

Pair = tuple[PrimFunc, PrimFunc]
Index = tuple[Any, Any]

WARP_SIZE = 32
# dtype -> what TVM's names of `mma`, those of WMMA, and PTX call it
_NAMES = {
    "float16": ("f16", "f16", "fp16"),
    "float32": ("f32", "f32", "fp32"),
    "int4": ("i4", "s4", "int4"),
    "int8": ("i8", "s8", "int8"),
    "int32": ("i32", "s32", "int32"),
    "float8_e4m3fn": ("e4m3", "e4m3", "e4m3"),
    "float8_e5m2": ("e5m2", "e5m2", "e5m2"),
}


def shared_16x16_to_ldmatrix_32x8_layout(i: PrimExpr, j: PrimExpr) -> Index:
    """(thread, register) of an element of 16 x 16 numbers of 16 bits, or of 32 bits in results."""
    return 4 * (i % 8) + j % 8 // 2, 4 * (j // 8) + i // 8 * 2 + j % 2


def shared_16x32_to_ldmatrix_32x16_layout(i: PrimExpr, j: PrimExpr) -> Index:
    """(thread, register) of an element of 16 x 32 bytes."""
    return 4 * (i % 8) + j % 16 // 4, 8 * (j // 16) + i // 8 * 4 + j % 4


def shared_32x16_to_ldmatrix_32x16_layout(i: PrimExpr, j: PrimExpr) -> Index:
    """(thread, register) of an element of 32 x 16 bytes."""
    return 4 * (j % 8) + i % 16 // 4, 8 * (j // 8) + i // 16 * 4 + i % 4


def ldmatrix_32x8_to_shared_16x16_layout(thread_id: PrimExpr, local_id: PrimExpr) -> Index:
    """The inverse of `shared_16x16_to_ldmatrix_32x8_layout`."""
    row = 8 * (local_id % 4 // 2) + thread_id // 4
    return row, 8 * (local_id // 4) + thread_id % 4 * 2 + local_id % 2


def index_map_shared_16x16_to_ldmatrix_32x8_layout(ind: Sequence[Any]) -> Any:
    """`shared_16x16_to_ldmatrix_32x8_layout` of an array of two indices."""
    return convert(list(shared_16x16_to_ldmatrix_32x8_layout(ind[0], ind[1])))


_LAYOUTS = {
    (16, 16): shared_16x16_to_ldmatrix_32x8_layout,
    (16, 32): shared_16x32_to_ldmatrix_32x16_layout,
    (32, 16): shared_32x16_to_ldmatrix_32x16_layout,
}


def _matrix(
    name: str, shape: Sequence[int], dtype: str, scope: str, strided: bool = True, factor: int = 16
) -> Buffer:
    """strided: in an implementation, rows may be strided."""
    strides = [Var(f"{name}_s1", "int32"), Var(f"{name}_s0", "int32")] if strided else None
    return decl_buffer(
        shape, dtype, name, strides=strides, scope=scope, data_alignment=64, offset_factor=factor
    )


def _by_warp(body: Callable[[Var], Stmt]) -> Stmt:
    """body(thread) in each of the threads of a warp."""
    tx = Var("tx", "int32")
    axis = IterVar(Range(WARP_SIZE), tx, IterVar.ThreadIndex, "threadIdx.x")
    return AttrStmt(axis, "thread_extent", const(WARP_SIZE), body(tx))


def _pair(
    buffers: Callable[[bool], list[Buffer]],
    desc: Callable[..., Stmt],
    impl: Callable[..., Stmt],
    reads: slice = slice(-1),
) -> Pair:
    """Description and implementation on buffers of their own, the result's last."""
    pairs = buffers(False), buffers(True)
    loops, calls = (around(b, f(*b), b[reads]) for b, f in zip(pairs, (desc, impl), strict=True))
    return loops, calls


def _copied(name: str, rows: int, columns: int, *layouts: Any) -> Callable[[Buffer, Buffer], Stmt]:
    """Loops that copy a matrix, from and to the indices that `layouts` return for an element."""
    source, target = (layout or (lambda *at: at) for layout in layouts)

    def body(source_buffer: Buffer, out: Buffer) -> Stmt:
        def store(i: Var, j: Var) -> BufferStore:
            return BufferStore(
                out, BufferLoad(source_buffer, list(source(i, j))), list(target(i, j))
            )

        return nest(name, {"i": rows, "j": columns}, store)

    return body


def _zeros(
    name: str, rows: int, columns: int, layout: Callable[..., Any] | None = None
) -> Callable[[Buffer], Stmt]:
    def body(out: Buffer) -> Stmt:
        def store(*at: Var) -> BufferStore:
            return BufferStore(out, const(0, out.dtype), list(layout(*at) if layout else at))

        return nest(name, {"i": rows, "j": columns}, store)

    return body


def _products(
    name: str, m: int, n: int, k: int, *layouts: Callable[..., Any]
) -> Callable[..., Stmt]:
    """Loops of C += A * B in C's type; layouts: for each of the three, its indices for i, j and
    k."""

    def body(a: Buffer, b: Buffer, c: Buffer) -> Stmt:
        def store(*axes: Var) -> BufferStore:
            left, right, out = (list(layout(*axes)) for layout in layouts)
            product = multiply(*(cast(c.dtype, BufferLoad(*x)) for x in ((a, left), (b, right))))
            return BufferStore(c, add(BufferLoad(c, out), product), out)

        return nest(name, {"i": m, "j": n, "k": k}, store)

    return body


def get_ldmatrix_intrin(
    k_dim: int, dtype: str, matrix_name: str, transposed: bool, shared_scope: str = "shared"
) -> Pair:
    """Load A (16, k_dim) or B (k_dim, 16) from shared memory, which may contain its transpose, into
    registers of a warp. k_dim: 16, of bytes 32."""
    along_k = (matrix_name == "A") != transposed  # the elements of a row belong to one sum
    rows, columns = shape = (16, k_dim) if along_k else (k_dim, 16)
    registers = k_dim // 2

    def load(shared: Buffer, warp: Buffer, tx: Var) -> Stmt:
        part = tx // 8
        first, second = (
            part % 2,
            part // 2,
        )  # of A: halves of rows, and of k; of B: of k, of columns
        row, column = (second, first) if transposed else (first, second)
        offset = (row * 8 + tx % 8) * shared.strides[0] + column * (columns // 2)
        operands = warp.data, warp.elem_offset + registers * tx, shared.access_ptr("r"), offset
        return Evaluate(ptx_ldmatrix(dtype, not along_k, 4, ".b16", *operands))

    def gather(shared: Buffer, warp: Buffer, tx: Var) -> Stmt:
        """`ldmatrix` transposes pairs of bytes; so each thread loads its own."""
        r = Var("r", "int32")
        halves = r // 4 % 2, r // 8
        of_k, other = reversed(halves) if matrix_name == "A" else halves
        at = [16 * of_k + 4 * (tx % 4) + r % 4, 8 * other + tx // 4]
        store = BufferStore(warp, BufferLoad(shared, at), [tx, r])
        return For(r, 0, registers, ForKind.UNROLLED, store)

    one = load if along_k or k_dim == 16 else gather
    return _pair(
        lambda strided: [
            _matrix("shared", shape, dtype, shared_scope, strided),
            _matrix("warp", (WARP_SIZE, registers), dtype, "warp", False),
        ],
        _copied("shared_warp", rows, columns, None, _LAYOUTS[shape]),
        lambda *buffers: _by_warp(partial(one, *buffers)),
    )


def get_mma_intrin(
    k_dim: int,
    a_dtype: str = "float16",
    b_dtype: str = "float16",
    out_dtype: str = "float16",
    a_transposed: bool = False,
    b_transposed: bool = False,
) -> Pair:
    """C (16, 16) += A (16, k_dim) @ B (k_dim, 16) in registers of a warp, as two instructions of
    8 columns each. Where a matrix is transposed, it was loaded from its transpose."""
    registers = k_dim // 2
    a_layout = _LAYOUTS[(k_dim, 16) if a_transposed else (16, k_dim)]
    b_layout = _LAYOUTS[(16, k_dim) if b_transposed else (k_dim, 16)]
    types = [_NAMES[dtype][2] for dtype in (a_dtype, b_dtype, out_dtype)]

    def call(a: Buffer, b: Buffer, c: Buffer, tx: Var) -> Stmt:
        halves: list[Stmt] = []
        for half in range(2):
            counts = ((a, registers, 0), (b, registers, registers // 2), (c, 8, 4))
            parts = ((x.data, x.elem_offset + tx * n + half * s) for x, n, s in counts)
            operands = (part for operand in parts for part in operand)
            layouts = f"m16n8k{k_dim}", "row", "col"
            halves.append(Evaluate(ptx_mma(out_dtype, *layouts, *types, *operands, False)))
        return SeqStmt(halves)

    shapes = (("A", a_dtype, registers), ("B", b_dtype, registers), ("C", out_dtype, 8))
    return _pair(
        lambda _: [_matrix(x, (WARP_SIZE, n), t, "warp", False) for x, t, n in shapes],
        _products(
            *("C", 16, 16, k_dim),
            lambda i, j, k: a_layout(*((k, i) if a_transposed else (i, k))),
            lambda i, j, k: b_layout(*((j, k) if b_transposed else (k, j))),
            lambda i, j, k: shared_16x16_to_ldmatrix_32x8_layout(i, j),
        ),
        lambda *buffers: _by_warp(partial(call, *buffers)),
        slice(None),
    )


def get_mma_fill_intrin(dtype: str, local_size: int) -> Pair:
    """Zeros in a result of `mma`."""
    return _pair(
        lambda _: [_matrix("C_warp", (WARP_SIZE, local_size), dtype, "warp", False)],
        _zeros("C_warp", 16, 16, shared_16x16_to_ldmatrix_32x8_layout),
        lambda c: _by_warp(
            lambda tx: Evaluate(
                mma_fill(dtype, local_size, c.data, c.elem_offset + tx * local_size)
            )
        ),
    )


def get_mma_store_intrin(
    dtype: str, local_size: int, scope: str = "global", use_mma_store_intrinic: bool = True
) -> Pair:
    """Store a result of `mma`: by a call, or by each thread for its own registers."""

    def store(warp: Buffer, out: Buffer, tx: Var) -> Stmt:
        if use_mma_store_intrinic:
            start = warp.elem_offset + tx * local_size
            to = out.access_ptr("w"), warp.data, start, out.strides[0]
            return Evaluate(mma_store(dtype, 16, 16, *to))
        r = Var("r", "int32")
        one = BufferLoad(warp, [tx, r])
        to = BufferStore(out, one, list(ldmatrix_32x8_to_shared_16x16_layout(tx, r)))
        return For(r, 0, local_size, ForKind.UNROLLED, to)

    return _pair(
        lambda strided: [
            _matrix("C_warp", (WARP_SIZE, local_size), dtype, "warp", False),
            _matrix("C", (16, 16), dtype, scope, strided),
        ],
        _copied("store", 16, 16, shared_16x16_to_ldmatrix_32x8_layout, None),
        lambda *buffers: _by_warp(partial(store, *buffers)),
    )


def _fragment(buffer: Buffer) -> PrimExpr:
    """Which fragment of its array a matrix is."""
    rows, columns = buffer.shape
    stride = buffer.strides[0]
    offset = buffer.elem_offset
    return offset // stride // rows * (stride // columns) + offset % stride // columns


def get_wmma_load_intrin(
    m_dim: int,
    n_dim: int,
    k_dim: int,
    dtype: str,
    shared_scope: str,
    is_b: bool,
    is_col_major: bool,
) -> Pair:
    """Load a fragment of A (m, k) or B (k, n), or of their transposes if they are stored by
    columns."""
    shape = (k_dim, n_dim) if is_b else (m_dim, k_dim)
    shape = shape[::-1] if is_col_major else shape
    order = "col_major" if is_col_major else "row_major"
    scope = f"wmma.matrix_{'b' if is_b else 'a'}"

    def load(shared: Buffer, out: Buffer) -> Stmt:
        source = shared.access_ptr("r"), shared.strides[0], order
        size = m_dim, n_dim, k_dim
        return Evaluate(tvm_load_matrix_sync(out.data, *size, _fragment(out), *source))

    return _pair(
        lambda strided: [
            _matrix("A", shape, dtype, shared_scope, strided, shape[1]),
            _matrix("C", shape, dtype, scope, strided, shape[1]),
        ],
        _copied("load", *shape, None, None),
        load,
    )


def get_wmma_fill_intrin(m_dim: int, n_dim: int, k_dim: int, dtype: str) -> Pair:
    """Zeros in a fragment of a result (m, n)."""

    def fill(c: Buffer) -> Stmt:
        size = m_dim, n_dim, k_dim
        return Evaluate(tvm_fill_fragment(c.data, *size, _fragment(c), const(0, dtype)))

    return _pair(
        lambda strided: [_matrix("C", (m_dim, n_dim), dtype, "wmma.accumulator", strided, n_dim)],
        _zeros("init", m_dim, n_dim),
        fill,
    )


def get_wmma_store_intrin(m_dim: int, n_dim: int, k_dim: int, dtype: str, scope: str) -> Pair:
    """Store a fragment of a result (m, n)."""

    def store(a: Buffer, c: Buffer) -> Stmt:
        target = c.access_ptr("w"), c.strides[0], "row_major"
        size = m_dim, n_dim, k_dim
        return Evaluate(tvm_store_matrix_sync(a.data, *size, _fragment(a), *target))

    return _pair(
        lambda strided: [
            _matrix("A", (m_dim, n_dim), dtype, "wmma.accumulator", strided, n_dim),
            _matrix("C", (m_dim, n_dim), dtype, scope, strided, n_dim),
        ],
        _copied("store", m_dim, n_dim, None, None),
        store,
    )


def get_wmma_sync_intrin(
    m_dim: int, n_dim: int, k_dim: int, in_dtype: str, out_dtype: str, b_transposed: bool
) -> Pair:
    """C (m, n) += A (m, k) @ B (k, n) on fragments; B may be that of its transpose."""
    b_shape = (n_dim, k_dim) if b_transposed else (k_dim, n_dim)
    operands = (
        ("A", (m_dim, k_dim), in_dtype, "wmma.matrix_a"),
        ("B", b_shape, in_dtype, "wmma.matrix_b"),
        ("C", (m_dim, n_dim), out_dtype, "wmma.accumulator"),
    )

    def sync(a: Buffer, b: Buffer, c: Buffer) -> Stmt:
        parts = ((x.data, _fragment(x)) for x in (c, a, b, c))
        return Evaluate(tvm_mma_sync(*(part for operand in parts for part in operand)))

    return _pair(
        lambda strided: [_matrix(*x, strided, x[1][1]) for x in operands],
        _products(
            *("", m_dim, n_dim, k_dim),
            lambda i, j, k: (i, k),
            lambda i, j, k: (j, k) if b_transposed else (k, j),
            lambda i, j, k: (i, j),
        ),
        sync,
        slice(None),
    )


def get_mma_intrin_group(
    load_scope: str,
    store_scope: str,
    in_dtype: str,
    out_dtype: str,
    trans_a: bool,
    trans_b: bool,
    not_use_mma_store_intrinic: bool = True,
) -> dict[str, str]:
    """The names of the intrinsics of a matrix product by `mma`: "init", "load_a", "load_b",
    "compute" and "store"."""
    dtype_name, out = _NAMES[in_dtype][0], _NAMES[out_dtype][0]
    a, b = "_trans" * trans_a, "_trans" * trans_b
    dynamic = load_scope.removeprefix("shared").replace(".", "_")
    simple = "simple_" * not_use_mma_store_intrinic
    return {
        "init": f"mma_fill_16x16_{out}",
        "load_a": f"mma_ldmatrix_{dtype_name}_a{a}{dynamic}",
        "load_b": f"mma_ldmatrix_{dtype_name}_b{b}{dynamic}",
        "compute": f"mma_{dtype_name}{dtype_name}{out}{a and '_trans_a'}{b and '_trans_b'}",
        "store": f"mma_store_16x16_{out}_{store_scope.replace('.', '_')}_{simple}",
    }


def get_wmma_intrin_group(
    load_scope: str, store_scope: str, in_dtype: str, out_dtype: str, trans_b: bool
) -> dict[str, str]:
    """The names of the intrinsics of a matrix product by WMMA: "init", "load_a", "load_b",
    "compute" and "store"."""
    size = "8x8x32" if in_dtype == "int4" else "16x16x16"
    dtype_name, out = _NAMES[in_dtype][1], _NAMES[out_dtype][1]
    b, source = "_trans" * trans_b, load_scope.replace(".", "_")
    return {
        "init": f"wmma_fill_{size}_{out}",
        "load_a": f"wmma_load_{size}_{dtype_name}_a_{source}",
        "load_b": f"wmma_load_{size}_{dtype_name}_b{b}_{source}",
        "compute": f"wmma_sync_{size}_{dtype_name}{dtype_name}{out}{b}",
        "store": f"wmma_store_{size}_{out}_{store_scope.replace('.', '_')}",
    }


# inputs, their depth, results
_MMA = (
    ("float16", 16, ("float32", "float16")),
    ("int8", 32, ("int32",)),
    ("float8_e4m3fn", 32, ("float32",)),
    ("float8_e5m2", 32, ("float32",)),
)
# inputs, (m, n, k), results
_WMMA = (
    ("float16", (16, 16, 16), ("float32", "float16")),
    ("int8", (16, 16, 16), ("int32",)),
    ("int4", (8, 8, 32), ("int32",)),
)
_SHARED = ("shared", "shared.dyn")
_STORED = ("global", *_SHARED)
_TURNS = (False, True)


def _register(constant: str, name: str, make: Callable[..., Pair], *args: str | int) -> None:
    globals()[f"{constant}_INTRIN"] = name
    TensorIntrin.register_maker(name, lambda: TensorIntrin(*make(*args)))


def _register_mma(dtype: str, k: int, results: Sequence[str]) -> None:
    short = _NAMES[dtype][0]
    for matrix, transposed, scope in product("AB", _TURNS, _SHARED):
        part = f"{matrix}{'_TRANS' * transposed}{'_DYN' * (scope != 'shared')}"
        args = k, dtype, matrix, transposed, scope
        name = f"mma_ldmatrix_{short}_{part.lower()}"
        _register(f"LDMATRIX_{short}_{part}", name, get_ldmatrix_intrin, *args)
    for out, a, b in product(results, _TURNS, _TURNS):
        types, turns = f"{short}{short}{_NAMES[out][0]}", "_TRANS_A" * a + "_TRANS_B" * b
        args = k, dtype, dtype, out, a, b
        _register(f"MMA_{types}{turns}", f"mma_{types}{turns.lower()}", get_mma_intrin, *args)


def _register_mma_result(dtype: str) -> None:
    part = f"16x16_{_NAMES[dtype][0]}"
    _register(f"MMA_fill_{part}", f"mma_fill_{part}", get_mma_fill_intrin, dtype, 8)
    for scope, simple in product(_STORED, _TURNS):
        name = f"{part}_{scope.replace('.', '_')}_{'simple_' * simple}"
        constant = f"MMA_store_{name.rstrip('_')}"
        _register(constant, f"mma_store_{name}", get_mma_store_intrin, dtype, 8, scope, not simple)


def _register_wmma(dtype: str, size: tuple[int, int, int], results: Sequence[str]) -> None:
    short, shape = _NAMES[dtype][1], "x".join(map(str, size))
    for matrix, transposed, scope in product("AB", _TURNS, _SHARED):
        part = f"{short}_{matrix}{'_trans' * transposed}".upper()
        scope_name = scope.replace(".", "_")
        name, constant = (
            f"wmma_load_{shape}_{part.lower()}_{scope_name}",
            f"WMMA_LOAD_{shape}_{part}",
        )
        dynamic = scope_name.removeprefix("shared").upper()
        args = *size, dtype, scope, matrix == "B", transposed
        _register(f"{constant}{dynamic}", name, get_wmma_load_intrin, *args)
    for out, b in product(results, _TURNS):
        types, turns = f"{short}{short}{_NAMES[out][1]}", "_TRANS" * b
        name = f"wmma_sync_{shape}_{types}{turns.lower()}"
        args = *size, dtype, out, b
        _register(f"WMMA_SYNC_{shape}_{types}{turns}", name, get_wmma_sync_intrin, *args)
    for out in results:
        part = f"{shape}_{_NAMES[out][1]}"
        constant = f"WMMA_FILL_{shape}_{_NAMES[out][1].upper()}"
        _register(constant, f"wmma_fill_{part}", get_wmma_fill_intrin, *size, out)
        for scope in _STORED:
            scope_name = scope.replace(".", "_")
            constant = f"WMMA_STORE_{shape}_{_NAMES[out][1]}_{scope_name}".upper().replace("X", "x")
            name = f"wmma_store_{part}_{scope_name}"
            _register(constant, name, get_wmma_store_intrin, *size, out, scope)


for _row in _MMA:
    _register_mma(*_row)
for _dtype in ("float32", "float16", "int32"):
    _register_mma_result(_dtype)
for _entry in _WMMA:
    _register_wmma(*_entry)
