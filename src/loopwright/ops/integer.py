"""Products of bytes, added in int32: matrix products, and the parts of kernels for x86 of others."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import te, tir
from ..base.errors import explain
from ..ir.prim_expr import Broadcast, IntImm, PrimExpr, Ramp, Shuffle
from ..ir.prim_op import cast, const, max_value, min_value
from ..relax.struct_info import TensorStructInfo
from ..tir.tensor_intrin.instructions import FACTS, PAIRS_FIT
from .common import compute
from .core import Operator, case, op
from .extents import differ, extents_of, simplify, text
from .params import DType, Tensor
from .statements import long

if TYPE_CHECKING:
    from ..ir.dtype import DataType
    from ..relax.expr import Call
    from ..tir.expr import BufferLoad
    from ..tir.ir_builder import BufferVar, IRBuilder

# ---------------------------------------------------------------- sums as bytes again


def _bytes_again(total: Tensor, offset: Tensor, factor: Tensor, zero_out: Tensor, out_dtype: DType):
    """round((total + offset) * factor) + zero_out within `out_dtype`; offset and factor along axis 1."""
    low, high = (cast("float32", bound(out_dtype)) for bound in (min_value, max_value))
    floor = zero_out() if isinstance(zero_out, te.Tensor) else zero_out

    def cell(*i):
        value = cast("float32", total(*i) + offset(i[1])) * factor(i[1])
        value = tir.round(value) + cast("float32", floor)
        return cast(out_dtype, tir.max(tir.min(value, high), low))

    return compute(total.shape, cell, "bytes_again", axes="i")


def _bytes_again_numpy(total, offset, factor, zero_out, out_dtype):
    along = [-1, *[1] * (total.ndim - 2)]
    value = (total + offset.reshape(along)).astype(np.float32) * factor.reshape(along)
    bounds = np.iinfo(out_dtype)
    return np.clip(np.rint(value) + np.float32(zero_out), bounds.min, bounds.max).astype(out_dtype)


def _bytes_again_info(total, offset, factor, zero_out, out_dtype):
    check_dtypes(offset=(offset, "int32"), factor=(factor, "float32"))
    for name, info in (("offset", offset), ("factor", factor)):
        dims, own = info.get_shape(), total.get_shape()
        if dims is not None and own is not None:
            check_extent(name, 0, dims[0], own[1])
    if str(out_dtype) not in ("uint8", "int8") or str(zero_out.dtype) != str(out_dtype):
        what = "out_dtype must be int8 or uint8, and zero_out's"
        raise TypeError(explain(what, got=str(out_dtype)))
    return TensorStructInfo(total.shape, str(out_dtype), ndim=total.ndim)


def as_bytes(products: Operator) -> Operator:
    """Define the operator NAME_bytes: what `products`, the operator NAME, adds in int32, as bytes. Its inputs are
    NAME's, then offset, factor and zero_out. Inference raises TypeError, ValueError where these do not fit."""
    written = [*inspect.signature(products.body).parameters.values()]
    _, *tail, out_dtype = inspect.signature(_bytes_again).parameters.values()
    inputs = len(products.graph_params)
    attributes = sorted([*written[inputs:], out_dtype], key=lambda p: p.default is not p.empty)
    signature = inspect.Signature([*written[:inputs], *tail, *attributes])
    numpy, infer = products.op.get_attr("FNumpy"), products.hooks["infer"]

    def in_two(first: Callable[..., Any], then: Callable[..., Any]) -> Any:
        def both(*args: Any, **attrs: DataType | int | Sequence[int]) -> Any:
            bound = signature.bind(*args, **attrs)
            bound.apply_defaults()
            rest = {p.name: bound.arguments.pop(p.name) for p in (*tail, out_dtype)}
            return then(first(**bound.arguments), **rest)

        return both

    body = in_two(products.body, _bytes_again)
    body.__name__ = f"{products.te_name}_bytes"
    body.__signature__ = signature
    body.__doc__ = f"""round((`{products.te_name}` + offset) * factor) + zero_out in `out_dtype`, int8 or uint8,
    saturated; offset (int32) and factor (float32): one for each index of axis 1."""
    operator = op(f"{products.name}_bytes", alone=True)(body)
    operator.infer(in_two(infer, _bytes_again_info))
    operator.numpy(in_two(numpy, _bytes_again_numpy))
    return operator


def shrunk(total: PrimExpr, factor: PrimExpr, zero: PrimExpr, dtype: str) -> Any:
    """`_bytes_again` of a vector of sums with their offset; factor: a vector."""
    lanes = total.dtype.lanes
    wide = lambda v, kind="int32": Broadcast(cast(kind, v), lanes)  # noqa: E731
    value = cast(f"float32x{lanes}", total) * factor
    # Too small a value casts to the least int32, which stays below all bytes if the zero point is unsigned.
    value = tir.min(value, wide(1 << 16, "float32"))
    if dtype == "int8":
        value = tir.max(value, wide(-1 << 16, "float32"))
    whole = cast(f"int32x{lanes}", tir.round(value)) + wide(zero)
    whole = tir.max(tir.min(whole, wide(max_value(dtype))), wide(min_value(dtype)))
    return cast(f"{dtype}x{lanes}", whole)


# ---------------------------------------------------------------- matrix products


@op("relax.nn.byte_matmul", alone=True)
def byte_matmul(data: Tensor, weight: Tensor, narrow: bool = False):
    """data uint8 or int8 (rows, depth) by weight int8 (depth, columns), in int32. narrow: any two bytes of its
    dtype times two adjacent weights of a column add up to 16 bits."""
    rows, depth = extents_of(data, "data", None, None)
    _, columns = extents_of(weight, "weight", depth, None)
    k = te.reduce_axis((const(0, "int64"), depth), name="k")

    def cell(i, j):
        return te.sum(cast("int32", data(i, k)) * cast("int32", weight(k, j)), axis=k)

    facts = [PAIRS_FIT] if narrow else []
    return compute([rows, columns], cell, "byte_matmul", attrs={FACTS: facts})


@byte_matmul.infer
def _matmul_info(data, weight, narrow):
    check_dtypes(data=(data, "uint8", "int8"), weight=(weight, "int8"))
    a, b = data.get_shape(), weight.get_shape()
    if a is None or b is None:
        return TensorStructInfo(dtype="int32", ndim=2)
    check_extent("weight", 0, b[0], a[1])
    return TensorStructInfo([a[0], b[1]], "int32")


def check_dtypes(**tensors: tuple[Any, ...]) -> None:
    """Check the dtypes of tensors: name=(struct info, one dtype or several)."""
    for name, (info, *some) in tensors.items():
        if str(info.dtype) not in some:
            what = f"{name} must hold {' or '.join(some)}"
            raise TypeError(explain(what, got=str(info.dtype)))


def check_extent(name: str, axis: int, got: PrimExpr, required: PrimExpr) -> None:
    if differ(got, required := simplify(required)):
        raise ValueError(explain(f"axis {axis} of {name} must be {text(required)}", got=text(got)))


@byte_matmul.numpy
def _matmul_numpy(data, weight, narrow):
    return data.astype(np.int32) @ weight.astype(np.int32)


byte_matmul_bytes = as_bytes(byte_matmul)


def open_shape(shape: Sequence[PrimExpr | None]) -> list[Any]:
    """A shape with new variables for its unknown extents."""
    return [d if isinstance(d, IntImm) else tir.Var(f"d{k}", "int64") for k, d in enumerate(shape)]


def joined(vectors: list[Any]) -> Any:
    """Vectors, concatenated."""
    return Shuffle(vectors, list(range(sum(v.dtype.lanes for v in vectors))))


def ramp(start: PrimExpr, lanes: int) -> Ramp:
    return Ramp(start, long(1), lanes)


def bytes_of(call: Call, inputs: int) -> str | None:
    """The dtype of the bytes that the sums become, None where they stay int32."""
    return str(call.attrs.out_dtype) if len(call.args) > inputs else None


def buffers_of(
    dtype: str | None, inputs: dict[str, Any], shape: Sequence[PrimExpr], count: PrimExpr
) -> list[Any]:
    """Buffers of the inputs (name: shape and dtype), of what `finished` needs, if the sums become bytes
    of `dtype`, and of the output."""
    if dtype is None:
        dtype = "int32"
    else:
        inputs = inputs | {"offset": ((count,), "int32"), "factor": ((count,), "float32")}
        inputs |= {"zero_out": ((), dtype)}
    return [tir.decl_buffer(s, k, n) for n, (s, k) in {**inputs, "out": (shape, dtype)}.items()]


def tail_and_out(ib: IRBuilder, others: Sequence[BufferVar]) -> tuple[list[Any], Any]:
    """The buffers after the inputs in `buffers_of`: those that `begun` and `finished` take, and the output."""
    *tail, out = others
    return [*tail[:2], *(ib.let("zero", cast("int32", z[()])) for z in tail[2:])], out


def begun(tail: Sequence[Any], at: PrimExpr, lanes: int) -> Any:
    """The initial vector of sums; at: the channel, or a vector of them."""
    return _of_channel(tail[0], at, lanes) if tail else Broadcast(const(0, "int32"), lanes)


def finished(sums: BufferLoad, tail: Sequence[Any], at: PrimExpr, out: BufferVar) -> Any:
    """A vector of sums, begun so, as the output has them."""
    if not tail:
        return sums
    _, factor, zero = tail
    return shrunk(sums, _of_channel(factor, at, sums.dtype.lanes), zero, str(out.dtype))


def _of_channel(numbers: BufferVar, at: PrimExpr, lanes: int) -> Any:
    return numbers[at] if isinstance(at, Ramp) else Broadcast(numbers[at], lanes)


def random_bytes(*shape: int, dtype: str = "uint8") -> np.ndarray:
    """The operands of these operators' samples: always the same for one shape and dtype."""
    low, high = (0, 256) if dtype == "uint8" else (-128, 128)
    return np.random.default_rng((*shape, high)).integers(low, high, shape).astype(dtype)


byte_matmul.samples(
    case(random_bytes(3, 8), random_bytes(8, 96, dtype="int8")),
    case(random_bytes(60, 8), random_bytes(8, 48, dtype="int8")),
    case(("n", 4), random_bytes(4, 50, dtype="int8"), dtype="uint8", low=0, high=255),
    case(random_bytes(13, 8), random_bytes(8, 48, dtype="int8") // 2, narrow=True),
    case(random_bytes(13, 8, dtype="int8"), random_bytes(8, 48, dtype="int8")),
)
# Offsets and factors for 48 channels.
TAIL = [
    np.array([5, -3, 0, 9] * 12, np.int32),
    np.random.default_rng(0).uniform(0.001, 0.1, 48).astype(np.float32),
]
byte_matmul_bytes.samples(
    case(
        random_bytes(3, 8),
        random_bytes(8, 48, dtype="int8"),
        *TAIL,
        np.uint8(3),
        out_dtype="uint8",
    )
)
