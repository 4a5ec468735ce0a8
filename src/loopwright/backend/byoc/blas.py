"""BLAS: matrix products by OpenBLAS, from the PyPI package `scipy-openblas32`.

    exe = loopwright.compile(model, backends=["blas"])

An example of a loop-level back end: patterns select calls, and a rule lowers each match to a kernel
that calls a C function with bare pointers. Those kernels are compiled with the rest of the model,
no Python runs between them, and `exe.export_library` links the result with OpenBLAS.

Supported: products of float32 and float64 matrices and vectors, and of batches of matrices with
equal batch extents or one shared right matrix; a transposition of the last two axes is folded into
the call. What follows (bias, activation) is left to Loopwright, which fuses it into one kernel.

OpenBLAS has its own threads: OPENBLAS_NUM_THREADS sets how many.
"""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Sequence
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...ir.literals import is_one
from ...ir.prim_expr import IntImm, PrimExpr, Var
from ...ir.prim_op import cast, const
from ...ir.target import register_target_kind
from ...relax import Function
from ...relax.byoc import Backend, Cost
from ...relax.dpl import is_op, wildcard
from ...relax.transform.fuse.fuse_ops_by_pattern import PatternCheckContext
from ...relax.transform.legalize_ops.common import register_legalize
from ...runtime.extern import ExternLibrary
from ...script import tir as T
from ...tir.buffer import decl_buffer
from ...tir.function import PrimFunc
from ...tir.stmt import Evaluate

if TYPE_CHECKING:
    from ...relax.expr import Call

# cblas.h: enum CBLAS_ORDER and CBLAS_TRANSPOSE.
ROW_MAJOR, PLAIN, TRANSPOSED = 101, 111, 112
LETTERS = {"float32": "s", "float64": "d"}
NAMES = {"blas.matmul": (False, False), "blas.matmul_nt": (False, True)}
NAMES |= {"blas.matmul_tn": (True, False), "blas.matmul_tt": (True, True)}

_GEMM = """void scipy_cblas_{x}gemm(int order, int trans_a, int trans_b, int m, int n, int k,
    {t} alpha, const {t}* a, int lda, const {t}* b, int ldb, {t} beta, {t}* c, int ldc)"""
_BATCHED = """void scipy_cblas_{x}gemm_batch_strided(int order, int trans_a, int trans_b,
    int m, int n, int k, {t} alpha, const {t}* a, int lda, int stride_a, const {t}* b, int ldb,
    int stride_b, {t} beta, {t}* c, int ldc, int stride_c, int batch)"""
_GEMV = """void scipy_cblas_{x}gemv(int order, int trans, int m, int n, {t} alpha,
    const {t}* a, int lda, const {t}* x, int incx, {t} beta, {t}* y, int incy)"""
PROTOTYPES = [
    text.format(x=letter, t=ctype)
    for text in (_GEMM, _BATCHED, _GEMV)
    for letter, ctype in (("s", "float"), ("d", "double"))
]


# ---------------------------------------------------------------------- matching


def patterns() -> list[Any]:
    """matmul of operands that are transposed or not; patterns with more transpositions first."""
    rows = []
    for name, transposed in reversed(NAMES.items()):
        a, b = wildcard(), wildcard()
        parts = {"a": a, "b": b}
        operands = []
        for part, flag in zip((a, b), transposed, strict=True):
            operands.append(is_op("relax.permute_dims")(part) if flag else part)
            if flag:
                parts[f"permuted_{'a' if part is a else 'b'}"] = operands[-1]
        rows.append(
            (name, is_op("relax.matmul")(*operands), parts, partial(_is_supported, transposed))
        )
    return rows


def _is_supported(transposed: tuple[bool, bool], match: PatternCheckContext) -> bool:
    """Whether BLAS has a function for a product."""
    for name in ("permuted_a", "permuted_b"):
        permuted = match.annotated_expr.get(name)
        if permuted is not None and not _swaps_last_two(permuted, match):
            return False
    infos = [match.annotated_expr[n].struct_info for n in "ab"]
    shapes = [info.get_shape() for info in infos]
    dtypes = {str(info.dtype) for info in infos}
    if len(dtypes) > 1 or not dtypes <= LETTERS.keys():
        return match.refuse(f"BLAS has no product of {' and '.join(sorted(dtypes))}")
    if None in shapes:
        return match.refuse("the shape of an operand is not known")
    if plan(*shapes, transposed) is None:
        return match.refuse("its batches are broadcast, which BLAS cannot do")
    return True


def _swaps_last_two(permuted: Call, match: PatternCheckContext) -> bool:
    """Whether a permute_dims transposes matrices and is used by this product only."""
    rank = permuted.struct_info.ndim
    axes = [int(a) % rank for a in permuted.attrs.axes or reversed(range(rank))]
    swapped = rank > 1 and axes == [*range(rank - 2), rank - 1, rank - 2]
    return swapped and len(match.var_usages[match.value_to_bound_var[permuted]]) == 1


# ---------------------------------------------------------------------- lowering


def plan(
    a: Sequence[PrimExpr], b: Sequence[PrimExpr], transposed: tuple[bool, bool]
) -> tuple[str, tuple[Any, ...]] | None:
    """The BLAS function for operands of these shapes, with its extents; None if it has none.

    ("gemv", (trans, rows, columns, whether the matrix is a)), ("gemm", (m, n, k)) or
    ("batched", (batch, m, n, k)).
    """
    if len(a) == 1 and len(b) == 2:
        return "gemv", (not transposed[1], *b, False)
    if len(b) == 1 and (len(a) == 2 or not transposed[0]):
        return "gemv", (transposed[0], _product(a[:-1]), a[-1], True)
    if len(a) < 2 or len(b) < 2:
        return None
    m, k = reversed(a[-2:]) if transposed[0] else a[-2:]
    n = b[-2] if transposed[1] else b[-1]
    if len(b) == 2 and (len(a) == 2 or not transposed[0]):
        if len(a) == 2 and is_one(m):
            return "gemv", (not transposed[1], *b, False)
        return "gemm", (_product([*a[:-2], m]), n, k)
    if len(a) == len(b) and all(_same(x, y) for x, y in zip(a[:-2], b[:-2], strict=True)):
        return "batched", (_product(a[:-2]), m, n, k)
    return None


def kernel(transposed: tuple[bool, bool], call: Call) -> PrimFunc:
    """The kernel of a product: a PrimFunc whose buffers are the operands, then the result."""
    result = call.struct_info
    dtype = str(result.dtype)
    left, right = operands(call.attrs["composite"])
    # Every symbolic extent gets a variable of the kernel's own.
    symbols: dict[str, Var] = {}
    shapes = [
        [d if isinstance(d, IntImm) else symbols.setdefault(str(d), Var(f"n{len(symbols)}", d.dtype))
         for d in info.get_shape()]
        for info in (*(arg.struct_info for arg in call.args), result)
    ]  # fmt: skip
    planned = plan(shapes[left], shapes[right], transposed)
    assert planned is not None  # guaranteed by the pattern's check
    kind, extents = planned
    buffers = [decl_buffer(shape, dtype, f"t{i}") for i, shape in enumerate(shapes)]
    a, b, c = buffers[left], buffers[right], buffers[-1]
    one, zero = const(1, dtype), const(0, dtype)
    if kind == "gemv":
        flip, rows, columns, is_a = extents
        matrix, vector = (a, b) if is_a else (b, a)
        flag, m, n = TRANSPOSED if flip else PLAIN, _int(rows), _int(columns)
        args = [flag, m, n, one, matrix.data, n, vector.data, 1, zero, c.data, 1]
    else:
        flags = [TRANSPOSED if flag else PLAIN for flag in transposed]
        m, n, k = (_int(e) for e in extents[-3:])
        lda, ldb = m if transposed[0] else k, k if transposed[1] else n
        if kind == "gemm":
            args = [*flags, m, n, k, one, a.data, lda, b.data, ldb, zero, c.data, n]
        else:
            tensors = [a.data, lda, m * k, b.data, ldb, k * n, zero, c.data, n, m * n]
            args = [*flags, m, n, k, one, *tensors, _int(extents[0])]
            kind = "gemm_batch_strided"
    symbol = f"scipy_cblas_{LETTERS[dtype]}{kind}"
    body = Evaluate(T.call_extern("void", symbol, ROW_MAJOR, *args))
    params = [Var(f"{buffer.name}_data", "handle") for buffer in buffers]
    return PrimFunc(params, body, buffer_map=dict(zip(params, buffers, strict=True)))


def operands(composite: Function) -> list[int]:
    """Which parameters of a composite function are the product's operands: parameters are in order
    of first use, and one tensor may be both operands."""
    values = {b.var: b.value for block in composite.body.blocks for b in block.bindings}
    product = next(v for v in values.values() if v.op.name == "relax.matmul")
    tensors = [values[a].args[0] if a in values else a for a in product.args]
    return [composite.params.index(t) for t in tensors]


def _int(extent: PrimExpr) -> PrimExpr:
    """An extent as a BLAS int."""
    return const(extent.value, "int32") if isinstance(extent, IntImm) else cast("int32", extent)


def _product(dims: Sequence[PrimExpr]) -> Any:
    return math.prod(dims, start=IntImm("int64", 1))


def _same(x: PrimExpr, y: PrimExpr) -> bool:
    return str(x) == str(y)


# ---------------------------------------------------------------------- cost

# Seconds per call; multiply-adds per second of OpenBLAS and of Loopwright's kernels: one thread
# of an AVX-512 AMD core, where OpenBLAS selects its AVX2 code (with OPENBLAS_CORETYPE=SkylakeX
# it reaches 100e9). For another machine: partition(..., cost="measured").
CALL = 0.3e-6
RATES = {"gemv": (20e9, 5e9), "gemm": (57e9, 115e9), "batched": (57e9, 115e9)}


def cost(func: Function) -> Cost | None:
    """Seconds of a product with constant extents; small products and those we do faster are not
    offloaded."""
    name = str(func.attrs["Composite"])
    a, b = (func.params[i].struct_info.get_shape() for i in operands(func))
    planned = plan(a, b, NAMES[name])
    extents = [e for e in planned[1] if not isinstance(e, bool)] if planned else []
    if planned is None or not all(isinstance(e, IntImm) for e in extents):
        return None
    work = math.prod(e.value for e in extents)
    rate, own_rate = RATES[planned[0]]
    return Cost(CALL + work / rate, work / own_rate)


# ---------------------------------------------------------------------- registration


def library_path() -> Path | None:
    """The path of OpenBLAS; None if the package is not installed."""
    if importlib.util.find_spec("scipy_openblas32") is None:
        return None
    import scipy_openblas32

    folder = Path(scipy_openblas32.get_lib_dir())
    return next(iter(sorted(folder.glob("libscipy_openblas.*"))), None)


def available() -> str:
    """Why BLAS cannot be used here; "" if it can."""
    installed = library_path() is not None
    return "" if installed else "OpenBLAS is not installed: pip install scipy-openblas32"


@cache
def backend() -> Backend:
    """The back end, with its rules: the entry point of `loopwright.backends`."""
    register_target_kind("blas", ("blas", "cpu"))
    for name, transposed in NAMES.items():
        register_legalize(name, tir=partial(kernel, transposed), target="blas")
    return Backend(
        "blas",
        patterns,
        target="blas",
        libraries=[ExternLibrary("openblas", PROTOTYPES, library=library_path())],
        cost=cost,
        available=available,
        bind_constants=False,
    )
