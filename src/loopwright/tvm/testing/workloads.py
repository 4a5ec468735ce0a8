"""Operators as tensor expressions, to test schedules and cost models with: inputs and the output of each.

`create_te_workload(name, n)` returns the PrimFunc of the n-th size that `CONFIGS` has for a name:

>>> create_te_workload("GMM", 0).buffer_map.values()  # doctest: +ELLIPSIS
dict_values([buffer(X, ...), buffer(Y, ...), buffer(Z, ...)])
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ... import te, tir
from ...base.errors import explain
from ...ir.dtype import numpy_dtype
from ...ir.prim_expr import PrimExpr
from ...te import Tensor
from ...tir import PrimFunc
from .. import topi
from ..tensor_intrin.cuda import WARP_SIZE

_AXES = {1: "l", 2: "hw", 3: "dhw"}


def _product(a: PrimExpr, b: PrimExpr, dtype: str) -> Any:
    return a.astype(dtype) * b.astype(dtype)


def _size(extent: int, kernel: int, stride: int, padding: int, dilation: int) -> int:
    return (extent + 2 * padding - dilation * (kernel - 1) - 1) // stride + 1


def _window(rank: int, kernel: int) -> list[tir.IterVar]:
    return [te.reduce_axis((0, kernel), name=f"r{axis}") for axis in _AXES[rank]]


def _convolution(name: str, rank: int) -> Callable[..., tuple[Tensor, ...]]:
    """A convolution of data (N, spatial..., CI) by a kernel (spatial..., CI / groups, CO)."""

    def convolution(
        N: int, *sizes: int, stride: int = 1, padding: int = 0, dilation: int = 1, groups: int = 1,
        in_dtype: str = "float32", out_dtype: str = "float32",
    ) -> tuple[Tensor, ...]:  # fmt: skip
        space, (ci, co, kernel, *rest) = sizes[:rank], sizes[rank:]
        named = (stride, padding, dilation, groups)
        stride, padding, dilation, groups = (*rest, *named[len(rest) :])
        inputs = te.placeholder((N, *space, ci), name="inputs", dtype=in_dtype)
        window = (kernel,) * rank
        weight = te.placeholder((*window, ci // groups, co), name="weight", dtype=in_dtype)
        taps, rc = _window(rank, kernel), te.reduce_axis((0, ci // groups), name="rc")
        padded = topi.nn.pad(inputs, [0, *[padding] * rank, 0])

        def element(n: PrimExpr, *at: PrimExpr) -> Any:
            *spot, c = at
            source = [p * stride + r * dilation for p, r in zip(spot, taps, strict=True)]
            channel = c // (co // groups) * (ci // groups) + rc
            factors = padded(n, *source, channel), weight(*taps, rc, c)
            return te.sum(_product(*factors, out_dtype), axis=[*taps, rc])

        shape = [_size(s, kernel, stride, padding, dilation) for s in space]
        axes = [*_AXES[rank], "co"]
        out = te.compute((N, *shape, co), element, name=name, varargs_names=axes)
        return inputs, weight, out

    convolution.__name__ = convolution.__qualname__ = name
    return convolution


conv1d_nlc, conv2d_nhwc, conv3d_ndhwc = (
    _convolution(name, rank)
    for rank, name in enumerate(("conv1d_nlc", "conv2d_nhwc", "conv3d_ndhwc"), 1)
)


def depthwise_conv2d_nhwc(
    N: int, H: int, W: int, C: int, kernel_size: int, stride: int = 1, padding: int = 0,
    dilation: int = 1, factor: int = 1, in_dtype: str = "float32", out_dtype: str = "float32",
) -> tuple[Tensor, ...]:  # fmt: skip
    """A depthwise convolution; the kernel is (factor, H, W, C)."""
    if factor != 1:
        what = "depthwise_conv2d_nhwc has one filter for each channel"
        raise ValueError(explain(what, got=f"factor {factor}"))
    inputs = te.placeholder((N, H, W, C), name="inputs", dtype=in_dtype)
    weight = te.placeholder((1, kernel_size, kernel_size, C), name="weight", dtype=in_dtype)
    rh, rw = _window(2, kernel_size)
    padded = topi.nn.pad(inputs, [0, padding, padding, 0])
    out = te.compute(
        (N, *(_size(s, kernel_size, stride, padding, dilation) for s in (H, W)), C),
        lambda n, h, w, c: te.sum(
            _product(
                padded[n, h * stride + rh * dilation, w * stride + rw * dilation, c],
                weight[0, rh, rw, c],
                out_dtype,
            ),
            axis=[rh, rw],
        ),
        name="depth_conv2d_nhwc",
    )
    return inputs, weight, out


def conv2d_transpose_nhwc(
    N: int, H: int, W: int, CI: int, CO: int, kernel_size: int, stride: int = 1, padding: int = 0,
    in_dtype: str = "float32", out_dtype: str = "float32",
) -> tuple[Tensor, ...]:  # fmt: skip
    """A transposed convolution, which reads the gaps between the elements as 0."""
    inputs = te.placeholder((N, H, W, CI), name="inputs", dtype=in_dtype)
    weight = te.placeholder((kernel_size, kernel_size, CI, CO), name="weight", dtype=in_dtype)
    last = kernel_size - 1
    edge = last - padding  # around the data with its gaps; the data is padded by what holds it
    whole = -(-edge // stride)
    padded, skip = topi.nn.pad(inputs, [0, whole, whole, 0]), whole * stride - edge
    rh, rw = _window(2, kernel_size)
    rc = te.reduce_axis((0, CI), name="rc")

    def element(n: PrimExpr, h: PrimExpr, w: PrimExpr, co: PrimExpr) -> Any:
        y, x = h + rh + skip, w + rw + skip
        value = padded[n, y // stride, x // stride, rc]
        if stride > 1:
            there = tir.all((y % stride).equal(0), (x % stride).equal(0))
            value = tir.if_then_else(there, value, tir.const(0, in_dtype))
        factor = weight[last - rh, last - rw, rc, co]
        return te.sum(_product(value, factor, out_dtype), axis=[rh, rw, rc])

    shape = [(s - 1) * stride - 2 * padding + kernel_size for s in (H, W)]
    return inputs, weight, te.compute((N, *shape, CO), element, name="conv2d_transpose_nhwc")


def conv2d_capsule_nhwijc(
    N: int, H: int, W: int, CI: int, CO: int, kernel_size: int, stride: int = 1, padding: int = 0,
    capsule_size: int = 4, in_dtype: str = "float32", out_dtype: str = "float32",
) -> tuple[Tensor, ...]:  # fmt: skip
    """A convolution whose elements are square matrices."""
    cap = (capsule_size, capsule_size)
    inputs = te.placeholder((N, H, W, *cap, CI), name="inputs", dtype=in_dtype)
    weight = te.placeholder((kernel_size, kernel_size, *cap, CI, CO), name="weight", dtype=in_dtype)
    rh, rw = _window(2, kernel_size)
    rk = te.reduce_axis((0, capsule_size), name="cap_k")
    rc = te.reduce_axis((0, CI), name="rc")
    padded = topi.nn.pad(inputs, [0, padding, padding, 0, 0, 0])
    out = te.compute(
        (N, *(_size(s, kernel_size, stride, padding, 1) for s in (H, W)), *cap, CO),
        lambda n, h, w, cap_i, cap_j, co: te.sum(
            _product(
                padded[n, h * stride + rh, w * stride + rw, cap_i, rk, rc],
                weight[rh, rw, rk, cap_j, rc, co],
                out_dtype,
            ),
            axis=[rh, rw, rk, rc],
        ),
        name="conv2d_capsule_nhwijc",
    )
    return inputs, weight, out


def _matrices(
    lead: Sequence[int], n: int, m: int, k: int, names: str, in_dtype: str, out_dtype: str
) -> tuple[Tensor, ...]:
    x, y, z = names
    a = te.placeholder((*lead, n, k), name=x, dtype=in_dtype)
    b = te.placeholder((*lead, k, m), name=y, dtype=in_dtype)
    r = te.reduce_axis((0, k), name="k")

    def element(*at: PrimExpr) -> Any:
        *batch, i, j = at
        return te.sum(_product(a(*batch, i, r), b(*batch, r, j), out_dtype), axis=[r])

    axes = "bij"[3 - len(lead) - 2 :]
    c = te.compute((*lead, n, m), element, name=z, varargs_names=list(axes))
    return a, b, c


def batch_matmul_nkkm(
    B: int, N: int, M: int, K: int, in_dtype: str = "float32", out_dtype: str = "float32"
) -> tuple[Tensor, ...]:
    """(B, N, K) times (B, K, M)."""
    return _matrices([B], N, M, K, "XYZ", in_dtype, out_dtype)


def matmul(
    n: int, m: int, k: int, in_dtype: str = "float32", out_dtype: str = "float32"
) -> tuple[Tensor, ...]:
    """(n, k) times (k, m)."""
    return _matrices([], n, m, k, "ABC", in_dtype, out_dtype)


def matmul_relu(
    n: int, m: int, k: int, in_dtype: str = "float32", out_dtype: str = "float32"
) -> tuple[Tensor, ...]:
    """The greater of a matrix product and 0."""
    a, b, c = matmul(n, m, k, in_dtype, out_dtype)
    return a, b, topi.nn.relu(c)


def transpose_batch_matmul(
    batch: int, seq_len: int, n_head: int, n_dim: int, in_dtype: str = "float32",
    out_dtype: str = "float32",
) -> tuple[Tensor, ...]:  # fmt: skip
    """The products of queries and keys, head by head, of inputs whose heads are the second to last
    axis."""
    shape = (batch, seq_len, n_head, n_dim)
    query, value = (te.placeholder(shape, name=n, dtype=in_dtype) for n in ("query", "value"))
    rows = te.compute(
        (batch, n_head, seq_len, n_dim), lambda b, h, l, d: query[b, l, h, d], name="query_T"
    )
    columns = te.compute(
        (batch, n_head, n_dim, seq_len), lambda b, h, d, l: value[b, l, h, d], name="value_T"
    )
    k = te.reduce_axis((0, n_dim), name="k")
    out = te.compute(
        (batch, n_head, seq_len, seq_len),
        lambda b, h, i, j: te.sum(
            _product(rows[b, h, i, k], columns[b, h, k, j], out_dtype), axis=[k]
        ),
        name="C",
    )
    return query, value, out


def norm_bmn(B: int, M: int, N: int) -> tuple[Tensor, ...]:
    """The root of the sum of squares of each matrix."""
    a = te.placeholder((B, M, N), name="A")
    i, j = te.reduce_axis((0, M), name="i"), te.reduce_axis((0, N), name="j")
    c = te.compute((B,), lambda b: te.sum(a[b, i, j] * a[b, i, j], axis=[i, j]), name="C")
    return a, te.compute((B,), lambda b: te.sqrt(c[b]), name="D")


def softmax_mn(m: int, n: int) -> tuple[Tensor, ...]:
    """The softmax of each row."""
    a = te.placeholder((m, n), name="A")
    return a, topi.nn.softmax(a, axis=1)


def _bn_relu(out: Tensor, vectors: Sequence[Tensor], element: Callable[..., Any]) -> Tensor:
    """A bias, a scale and an offset for each channel, then relu."""
    bias, scale, offset = (lambda at, v=v: element(v, at) for v in vectors)
    for name, step in (
        ("bias_add", lambda value, at: value + bias(at)),
        ("bn_mul", lambda value, at: value * scale(at)),
        ("bn_add", lambda value, at: value + offset(at)),
    ):
        out = te.compute(out.shape, lambda *at, out=out, step=step: step(out(*at), at), name=name)
    return topi.nn.relu(out)


def conv2d_nhwc_bn_relu(
    N: int, H: int, W: int, CI: int, CO: int, kernel_size: int, strides: int, padding: int,
    dilation: int = 1, in_dtype: str = "float32", out_dtype: str = "float32",
) -> tuple[Tensor, ...]:  # fmt: skip
    """A convolution, a bias, a batch norm and relu."""
    dtypes = {"in_dtype": in_dtype, "out_dtype": out_dtype}
    data, kernel, out = conv2d_nhwc(
        N, H, W, CI, CO, kernel_size, strides, padding, dilation, **dtypes
    )
    names = ("bias", "bn_scale", "bn_offset")
    bias, scale, offset = (te.placeholder((CO,), name=n, dtype=out_dtype) for n in names)
    out = _bn_relu(out, (bias, scale, offset), lambda v, at: v(at[-1]))
    return data, kernel, bias, offset, scale, out


def conv2d_nchw(
    n: int, h: int, w: int, ci: int, co: int, kh: int, kw: int, stride: int, padding: int,
    dilation: int = 1, in_dtype: str = "float32", out_dtype: str = "float32",
) -> tuple[Tensor, ...]:  # fmt: skip
    """A convolution of data NCHW by a kernel OIHW."""
    data = te.placeholder((n, ci, h, w), name="X", dtype=in_dtype)
    kernel = te.placeholder((co, ci, kh, kw), name="W", dtype=in_dtype)
    return data, kernel, topi.nn.conv2d_nchw(data, kernel, stride, padding, dilation, out_dtype)


def conv2d_nchw_bias_bn_relu(*args: Any, out_dtype: str = "float32", **options: Any) -> Any:
    """`conv2d_nchw`, a bias, a batch norm and relu."""
    data, kernel, out = conv2d_nchw(*args, out_dtype=out_dtype, **options)
    shape = (kernel.shape[0], 1, 1)
    vectors = [
        te.placeholder(shape, name=name, dtype=out_dtype) for name in ("B", "bn_scale", "bn_offset")
    ]
    return data, kernel, *vectors, _bn_relu(out, vectors, lambda v, at: v(at[1], 0, 0))


def max_pool2d_nchw(n: int, h: int, w: int, ci: int, padding: int) -> tuple[Tensor, ...]:
    """The greatest element of each 2 x 2 window."""
    x = te.placeholder((n, ci, h, w), name="X")
    return x, topi.nn.pool2d(x, [2, 2], [1, 1], [1, 1], [padding] * 4, "max")


# Layers of well-known networks, from large images to small ones: name -> (operator, sizes).
_RESNET = [(224, 3, 64, 7, 2, 3), (56, 64, 64, 1, 1, 0), (14, 256, 256, 3, 1, 1)]
_SMALL = (7, 512, 512, 3, 1, 1)


def _images(rank: int, *more: int) -> list[tuple[int, ...]]:
    depth = (16,) * (rank - 2)
    return [(1, *depth, s, s, *rest, *more) for s, *rest in (*_RESNET, _SMALL)]


CONFIGS: dict[str, tuple[Callable[..., Any], list[tuple[int, ...]]]] = {
    "C1D": (
        conv1d_nlc,
        [
            (1, 256, 64, 128, 3, 2, 1),
            (1, 128, 128, 256, 1, 2, 0),
            (1, 64, 256, 256, 5, 1, 2),
            (1, 32, 512, 512, 3, 1, 1),
        ],
    ),
    "C2D": (conv2d_nhwc, _images(2)),
    "C3D": (conv3d_ndhwc, _images(3)),
    "GMM": (
        batch_matmul_nkkm,
        [(1, 128, 128, 128), (1, 512, 32, 512), (1, 512, 512, 512), (1, 1024, 1024, 1024)],
    ),
    "GRP": (conv2d_nhwc, [(1, 56, 56, 64, 128, 3, 2, 1, 1, 4), *_images(2, 1, 4)[1:]]),
    "DIL": (conv2d_nhwc, _images(2, 2)),
    "DEP": (
        depthwise_conv2d_nhwc,
        [
            (1, 112, 112, 32, 3, 1, 1),
            (1, 112, 112, 64, 3, 2, 1),
            (1, 14, 14, 512, 3, 2, 1),
            (1, 7, 7, 1024, 3, 1, 1),
        ],
    ),
    "T2D": (
        conv2d_transpose_nhwc,
        [(1, s, s, ci, co, 4, 2, 1) for s, ci, co in
         ((4, 512, 256), (8, 256, 128), (16, 128, 64), (32, 64, 3))],
    ),
    "CAP": (
        conv2d_capsule_nhwijc,
        [(1, s, s, ci, co, 3, stride, 1) for s, ci, co, stride in
         ((16, 32, 32, 2), (8, 32, 32, 1), (16, 8, 16, 2), (8, 16, 16, 1))],
    ),
    "NRM": (norm_bmn, [(1, 256, 256), (1, 512, 512), (1, 1024, 1024), (1, 4096, 1024)]),
    "SFM": (softmax_mn, [(n, n) for n in (256, 512, 1024, 2048)]),
    "CBR": (
        conv2d_nhwc_bn_relu,
        [
            (1, 224, 224, 3, 64, 7, 2, 3),
            (1, 56, 56, 64, 128, 3, 2, 1),
            (1, 28, 28, 128, 256, 1, 2, 0),
            (1, 7, 7, 512, 512, 3, 1, 1),
        ],
    ),
    "TBG": (
        transpose_batch_matmul,
        [(1, 128, 12, 64), (1, 128, 16, 64), (1, 64, 12, 128), (1, 128, 12, 128)],
    ),
}  # fmt: skip


def create_te_workload(name: str, idx: int) -> PrimFunc:
    """The PrimFunc of `CONFIGS[name]` in its size number `idx`."""
    if name not in CONFIGS:
        raise KeyError(explain("unknown workload", got=name, instead=", ".join(CONFIGS)))
    workload, sizes = CONFIGS[name]
    return te.create_prim_func(workload(*sizes[idx]))


def mma_schedule(
    workload: PrimFunc, k_inner: int, in_dtype: str, b_transposed: bool, i_factors: Sequence[int],
    j_factors: Sequence[int], k_factors: Sequence[int], index_map_A: Callable[..., Any],
    index_map_B: Callable[..., Any], index_map_C: Callable[..., Any], ldmatrix_a_intrin: str,
    ldmatrix_b_intrin: str, mma_intrin: str, mma_fill_intrin: str, mma_store_intrin: str,
    shared_scope: str = "shared",
) -> tir.Schedule:  # fmt: skip
    """A matrix product, the block "C" of `workload`, on tensor cores by `tir.tensor_intrin.cuda`.

    Tiles of 16 x 16 x k_inner are split by five factors of i and of j (blocks, tiles of blocks,
    threadIdx.y, two serial) and by three of k; inputs are copied through `shared_scope` to
    registers, where the index maps say which thread has an element.
    """
    sch = tir.Schedule(workload)
    block = sch.get_block("C")
    tiles, inner = [], []
    for loop, size in zip(sch.get_loops(block), (16, 16, k_inner), strict=True):
        outer, part = sch.split(loop, [None, size])
        tiles.append(outer)
        inner.append(part)
    sch.reorder(*tiles, *inner)
    sch.blockize(inner[0])
    outer_block = sch.get_block("C_o")
    factors = (i_factors, j_factors, k_factors)
    i, j, k = (sch.split(x, list(f)) for x, f in zip(tiles, factors, strict=True))
    pairs = [(a, b) for a, b in zip(i, j, strict=True)]
    order = [x for pair in pairs[:3] for x in pair] + [*k[:2], *pairs[3], k[2], *pairs[4]]
    sch.reorder(*order)
    grid = [sch.fuse(*pair) for pair in pairs[:3]]
    loads = (ldmatrix_a_intrin, index_map_A), (ldmatrix_b_intrin, index_map_B)
    shared = [sch.cache_read(outer_block, n, shared_scope) for n in range(2)]
    warps = [sch.cache_read(outer_block, n, "warp") for n in range(2)]
    out = sch.cache_write(outer_block, 0, "warp")
    for blocks, target_loop in ((warps, k[1]), (shared, k[0])):
        for moved in blocks:
            sch.compute_at(moved, target_loop)
    sch.reverse_compute_at(out, grid[2])
    for copied in shared:
        lanes = 16 // numpy_dtype(in_dtype).itemsize
        fused = sch.fuse(*sch.get_loops(copied)[-2:])
        split = sch.split(fused, [None, i_factors[2] * j_factors[2], WARP_SIZE, lanes])
        sch.bind(split[1], "threadIdx.y")
        sch.bind(split[2], "threadIdx.x")
        sch.vectorize(split[3])
        sch.storage_align(copied, 0, -2, 32, 8)
    for target_loop, thread in zip(grid, ("blockIdx.x", "blockIdx.y", "threadIdx.y"), strict=True):
        sch.bind(target_loop, thread)

    def tensorize(copied: Any, sizes: Sequence[int], intrin: str) -> None:
        parts = [
            sch.split(x, [None, n]) for x, n in zip(sch.get_loops(copied)[-2:], sizes, strict=True)
        ]
        sch.reorder(*(p[0] for p in parts), *(p[1] for p in parts))
        sch.tensorize(parts[0][1], intrin)

    b_tile = (16, k_inner) if b_transposed else (k_inner, 16)
    for warp, (_, layout) in zip(warps, loads, strict=True):
        sch.transform_layout(warp, ("write", 0), layout)
    sch.transform_layout(out, ("read", 0), index_map_C)
    for warp, tile, (intrin, _) in zip(warps, ((16, k_inner), b_tile), loads, strict=True):
        tensorize(warp, tile, intrin)
    tensorize(out, (16, 16), mma_store_intrin)
    init = sch.decompose_reduction(outer_block, k[0])
    sch.tensorize(sch.get_loops(sch.get_child_blocks(init)[0])[-2], mma_fill_intrin)
    update = sch.get_child_blocks(sch.get_block("C_o_update"))[0]
    sch.tensorize(sch.get_loops(update)[-3], mma_intrin)
    return sch
