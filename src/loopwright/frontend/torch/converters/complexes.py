"""Operators of complex numbers, made of those of their parts."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ....relax.expr import ShapeExpr
from ...graph.registry import Converter
from ..context import Number, Size, Term, op
from ..context import TorchContext as Context
from ..model import TorchNode as Node
from ..pairs import COMPLEX, Pair, PairArg, opened, paired
from .table import aten, full_name, rows

# Operators that move elements, or are linear with real factors: they work on each part.
_BY_PARTS = """
    view view_copy _unsafe_view reshape squeeze squeeze.dim squeeze.dims unsqueeze expand expand_copy
    permute permute_copy transpose.int t cat stack slice.Tensor select.int select_copy.int split_with_sizes
    split.Tensor unbind.int unbind_copy.int repeat flip roll unfold diagonal diagonal_copy as_strided
    as_strided_copy tril triu constant_pad_nd clone alias detach lift_fresh_copy lift_fresh contiguous
    resolve_conj resolve_neg copy neg sum sum.dim_IntList mean mean.dim cumsum where.self
    index.Tensor index_put gather index_select embedding scatter.src scatter_add slice_scatter
    diagonal_scatter masked_select full full_like new_full fill.Scalar scalar_tensor zeros
    zeros_like new_zeros empty.memory_format empty_like new_empty empty_permuted empty_strided
"""
BY_PARTS = frozenset(map(full_name, _BY_PARTS.split()))


def pairs(*names: str) -> Converter:
    """Register a converter for complex arguments or results."""

    def register(convert: Converter) -> Converter:
        for name in names:
            COMPLEX.register(full_name(name), convert)
        return convert

    return register


for _names, _convert in {
    "mul.Tensor mul.Scalar": lambda cx, node, a, b: paired(cx, a, node.dtype) * b,
    "div.Tensor div.Scalar": lambda cx, node, a, b: paired(cx, a, node.dtype) / b,
    "reciprocal": lambda cx, node, x: x.inverse(),
    "square": lambda cx, node, x: x * x,
    "_conj _conj_physical conj_physical": lambda cx, node, x: x.conj(),
    "real": lambda cx, node, x: x.re,
    "imag": lambda cx, node, x: x.im,
    "view_as_real view_as_real_copy": lambda cx, node, x: x.whole,
    "abs": lambda cx, node, x: x.absolute(),
    "angle": lambda cx, node, x: x.im.atan2(x.re),
    "exp": lambda cx, node, x: x.exp(),
    "log": lambda cx, node, x: x.log(),
    "log2": lambda cx, node, x: x.log() * (1.0 / math.log(2.0)),
    "log10": lambda cx, node, x: x.log() * (1.0 / math.log(10.0)),
    "sqrt": lambda cx, node, x: x.sqrt(),
    "rsqrt": lambda cx, node, x: x.sqrt().inverse(),
    "sigmoid": lambda cx, node, x: ((-x).exp() + 1.0).inverse(),
    "isnan": lambda cx, node, x: x.re.isnan() | x.im.isnan(),
    "isinf": lambda cx, node, x: x.re.isinf() | x.im.isinf(),
    "isfinite": lambda cx, node, x: x.re.isfinite() & x.im.isfinite(),
}.items():
    pairs(*_names.split())(_convert)


@pairs("add.Tensor", "add.Scalar", "sub.Tensor", "sub.Scalar")
def add(cx: Context, node: Node, a: PairArg, b: PairArg, alpha: PairArg) -> Pair:
    x, y = (paired(cx, v, node.dtype) for v in (a, b))
    y = y if alpha == 1 else y * alpha
    return x - y if "sub" in node.op_type else x + y


rows({
    "view_as_complex view_as_complex_copy": lambda cx, node, x: opened(cx, x),
    "complex": lambda cx, node, re, im:
        Pair(*(v.broadcast_to(cx.shape(node.value)) for v in (re, im))),
    "polar": lambda cx, node, size, angle: Pair(size * angle.cos(), size * angle.sin()),
})  # fmt: skip


@pairs("sgn")
def sgn(cx: Context, node: Node, x: Pair) -> Pair:
    size = x.absolute()
    return x / cx.where(size.equal(0.0), 1.0, size)


@pairs("pow.Tensor_Tensor", "pow.Tensor_Scalar", "pow.Scalar")
def power(cx: Context, node: Node, x: PairArg, y: PairArg) -> Pair:
    base = paired(cx, x, node.dtype)
    if isinstance(y, (int, float)) and y in (1, 2, 3):
        return base if y == 1 else base * base if y == 2 else base * base * base
    if isinstance(y, (int, float)) and y in (0.5, -1):
        return base.sqrt() if y == 0.5 else base.inverse()
    return (paired(cx, y, node.dtype) * base.log()).exp()


@pairs("sin", "cos", "sinh", "cosh", "tan", "tanh")
def wave(cx: Context, node: Node, x: Pair) -> Pair:
    """sin(a + bi) = sin a cosh b + cos a sinh b i, and so on."""
    name = node.op_type.split(".")[1]
    flat, round_ = (x.re, x.im) if name in ("sin", "cos", "tan") else (x.im, x.re)
    sin, cos, sinh, cosh = flat.sin(), flat.cos(), round_.sinh(), round_.cosh()
    forms = {
        "sin": lambda: Pair(sin * cosh, cos * sinh),
        "cos": lambda: Pair(cos * cosh, -(sin * sinh)),
        "sinh": lambda: Pair(sinh * cos, cosh * sin),
        "cosh": lambda: Pair(cosh * cos, sinh * sin),
    }
    return forms[name]() if name in forms else forms[f"sin{name[3:]}"]() / forms[f"cos{name[3:]}"]()


@pairs("eq.Tensor", "eq.Scalar", "ne.Tensor", "ne.Scalar")
def equal(cx: Context, node: Node, a: PairArg, b: PairArg) -> Term:
    kind = next(v.part_dtype for v in (a, b) if isinstance(v, Pair))
    x, y = paired(cx, a, kind), paired(cx, b, kind)
    same = x.re.equal(y.re) & x.im.equal(y.im)
    return ~same if ".ne." in node.op_type else same


@pairs("_to_copy", "to.dtype", "type_as")
def cast(cx: Context, node: Node, x: PairArg) -> Pair | Term:
    if node.is_complex:
        return paired(cx, x, node.dtype)
    assert isinstance(x, Pair)  # the only complex argument
    if node.dtype == "bool":
        return x.re.not_equal(0.0) | x.im.not_equal(0.0)
    return cx.tensor(x.re, node.dtype)


@pairs("mm", "bmm", "matmul", "mv", "dot", "vdot")
def matmul(cx: Context, node: Node, a: PairArg, b: PairArg) -> Pair:
    x, y = (paired(cx, v, node.dtype) for v in (a, b))
    x = x.conj() if "vdot" in node.op_type else x
    product = cx.ops.matmul
    return Pair(
        product(x.re, y.re) - product(x.im, y.im), product(x.re, y.im) + product(x.im, y.re)
    )


@pairs("linear")
def linear(cx: Context, node: Node, x: PairArg, weight: PairArg, bias: PairArg | None) -> Pair:
    transposed = paired(cx, weight, node.dtype).each(lambda v: v.permute_dims([1, 0]))
    out = matmul(cx, node, x, transposed)
    return out if bias is None else out + bias


@pairs("addmm", "baddbmm")
def addmm(
    cx: Context, node: Node, base: PairArg, a: PairArg, b: PairArg, *, beta: Number, alpha: Number
) -> Pair:
    out = matmul(cx, node, a, b) * alpha
    return out if beta == 0 else out + paired(cx, base, node.dtype) * beta


@pairs("prod.dim_int")
def prod(cx: Context, node: Node, x: Pair, dim: int, keepdim: bool) -> Pair:
    total = paired(cx, cx.filled([1] * x.ndim, 1, x.part_dtype), x.part_dtype)
    for k in range(int(x.shape[dim])):
        total = total * x.each(lambda v, k=k: cx.part(v, dim, k, k + 1))
    shape = cx.shape(node.value)
    return total.each(lambda v: v.broadcast_to(shape) if keepdim else v.reshape(shape))


pairs("prod")(lambda cx, node, x: prod(cx, node, x.each(cx.flat), 0, False))


# ---------------------------------------------------------------- Fourier transforms


def _dft(x: Pair, axis: int, forward: bool) -> Pair:
    """The transform along an axis, not divided by its extent."""
    cx, extent = x.re._context, x.shape[axis]
    out = opened(cx, op.signal.dft(x.whole, ShapeExpr([extent]), axis, not forward))
    return out if forward else out * cx.tensor(extent, x.part_dtype)


def _normalized(x: Pair, count: Size, how: int) -> Pair:
    """Divided by the number of elements (2), its root (1), or not (0)."""
    n = x.re._context.tensor(count, x.part_dtype)
    return x / (n.sqrt() if how == 1 else n) if how else x


@pairs("_fft_c2c")
def fft_c2c(cx: Context, node: Node, x: Pair, dim: Sequence[int], how: int, forward: bool) -> Pair:
    for axis in dim:
        x = _dft(x, axis, forward)
    return _normalized(x, cx.product([x.shape[a] for a in dim]), how)


@aten("_fft_r2c")
def fft_r2c(cx: Context, node: Node, x: Term, dim: Sequence[int], how: int, onesided: bool) -> Pair:
    out, last = fft_c2c(cx, node, paired(cx, x, node.dtype), dim, how, True), dim[-1]
    return out.each(lambda v: cx.part(v, last, 0, cx.dims(node.value)[last])) if onesided else out


@pairs("_fft_c2r")
def fft_c2r(cx: Context, node: Node, x: Pair, dim: Sequence[int], how: int, size: Size) -> Term:
    """The second half along the last axis is the conjugate of the first, in reverse."""
    *others, last = dim
    for axis in others:
        x = _dft(x, axis, False)
    half = size // 2 + 1
    x = x.each(lambda v: cx.part(v, last, 0, half))
    tail = x.each(lambda v: cx.part(v, last, 1, 1 + size - half).flip(last)).conj()
    whole = Pair(cx.concat([x.re, tail.re], last), cx.concat([x.im, tail.im], last))
    count = cx.product([size, *(x.shape[a] for a in others)])
    return _normalized(_dft(whole, last, False), count, how).re
