"""topi's LSTM, simulated quantization, and products of bits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ... import te, tir
from ...base.errors import explain
from ...ir.prim_expr import PrimExpr
from ...te.tensor import Tensor
from .utils import get_const_int, simplify

SQNN_DISABLE, SQNN_INT8, SQNN_UINT8, SQNN_INT32 = range(4)
SQNN_DTYPE_TO_CODE = {"disable": 0, "int8": SQNN_INT8, "uint8": SQNN_UINT8, "int32": SQNN_INT32}
SQNN_CODE_TO_DTYPE = {code: dtype for dtype, code in SQNN_DTYPE_TO_CODE.items()}


def lstm(
    Xs: Tensor, Wi: Tensor, Wh: Tensor, Bi: Tensor | None = None, Bh: Tensor | None = None,
    h_init: Tensor | None = None, c_init: Tensor | None = None, proj: Tensor | None = None,
    p_i: Tensor | None = None, p_f: Tensor | None = None, p_o: Tensor | None = None,
    f_act: Callable[[Any], Any] = tir.sigmoid, g_act: Callable[[Any], Any] = tir.tanh,
    h_act: Callable[[Any], Any] = tir.tanh, reverse: bool = False, weight_layout: str = "IFGO",
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """(hidden states, cell states) of a sequence Xs (length, batch, inputs).

    Wi (4 * hidden, inputs), Wh (4 * hidden, hidden or projected), Bi and Bh (4 * hidden) hold the gates
    in the order of `weight_layout`: input, forget, cell, output. h_init, c_init (batch, hidden): the
    states before, 0 if None. proj (projected, hidden): a projection of the hidden state. p_i, p_f, p_o
    (batch, hidden): the peephole weights of the gates. f_act, g_act, h_act: the activations of
    gates, of the cell's input, and of its output. `reverse`: from the last element on.
    """
    if sorted(weight_layout) != sorted("IFGO"):
        what = "lstm: weight_layout names the gates I, F, G and O in any order"
        raise ValueError(explain(what, got=repr(weight_layout)))
    length, batch, inputs = Xs.shape
    hidden = simplify(Wi.shape[0] // 4)
    outputs = hidden if proj is None else proj.shape[0]
    rows = length + 1  # the first is the state before

    k = te.reduce_axis((0, inputs), name="ki2h")
    projected = te.compute(
        (length, batch, 4, hidden),
        lambda t, b, g, j: te.sum(Xs[t, b, k] * Wi[g * hidden + j, k], axis=k),
        name="Xi2h",
    )
    h_state = te.placeholder((rows, batch, outputs), Xs.dtype, name="h_state")
    c_state = te.placeholder((rows, batch, hidden), Xs.dtype, name="c_state")

    def first(t: Tensor | None, extent: PrimExpr, name: str) -> Tensor:
        zero = te.const(0, Xs.dtype)
        return te.compute(
            (1, batch, extent), lambda _, b, i: zero if t is None else t[b, i], name=name
        )

    kh = te.reduce_axis((0, outputs), name="kh2h")
    seen = te.compute(
        (rows, batch, 4, hidden),
        lambda t, b, g, j: te.sum(h_state[t - 1, b, kh] * Wh[g * hidden + j, kh], axis=kh),
        name="s_h2h",
    )

    def gate(letter: str, t: PrimExpr, b: PrimExpr, j: PrimExpr) -> Any:
        g = weight_layout.index(letter)
        value = projected[length - t if reverse else t - 1, b, g, j] + seen[t, b, g, j]
        for bias in (Bi, Bh):
            value = value if bias is None else value + bias[g * hidden + j]
        return value

    def opened(letter: str, weights: Tensor | None, cell: Callable[..., Any]) -> Tensor:
        def element(t: PrimExpr, b: PrimExpr, j: PrimExpr) -> Any:
            value = gate(letter, t, b, j)
            return f_act(value if weights is None else value + weights[b, j] * cell(t, b, j))

        return te.compute((rows, batch, hidden), element, name=f"{letter.lower()}_gate")

    before = lambda t, b, j: c_state[t - 1, b, j]  # noqa: E731
    input_gate, forget = opened("I", p_i, before), opened("F", p_f, before)
    next_c = te.compute(
        (rows, batch, hidden),
        lambda t, b, j: (
            forget[t, b, j] * c_state[t - 1, b, j] + input_gate[t, b, j] * g_act(gate("G", t, b, j))
        ),
        name="next_c",
    )
    shown = opened("O", p_o, lambda t, b, j: next_c[t, b, j])
    next_h = te.compute(
        (rows, batch, hidden), lambda *i: shown(*i) * h_act(next_c(*i)), name="next_h"
    )
    if proj is not None:
        kp, whole = te.reduce_axis((0, hidden), name="kh2p"), next_h
        next_h = te.compute(
            (rows, batch, outputs),
            lambda t, b, j: te.sum(whole[t, b, kp] * proj[j, kp], axis=kp),
            name="next_h_proj",
        )
    start = [first(h_init, outputs, "h_init"), first(c_init, hidden, "c_init")]
    states = te.scan(start, [next_h, next_c], [h_state, c_state], name="lstm_scan")
    h, c = (
        te.compute((length, *s.shape[1:]), lambda t, b, j, s=s: s[t + 1, b, j], name=name)
        for s, name in zip(states, ("hidden_states", "cell_states"), strict=True)
    )
    return h, c


def _per_channel(t: Tensor, i: Any, axis: int) -> Any:
    return t(i[axis] % t.shape[0]) if t.ndim else t()


def simulated_quantize(
    data: Tensor, out_dtype: Tensor, output_scale: Tensor | None = None,
    output_zero_point: Tensor | None = None, axis: int = -1,
) -> Tensor:  # fmt: skip
    """The data quantized as numbers of its own dtype. `out_dtype`, a tensor of one number, is a value
    of SQNN_DTYPE_TO_CODE that the run knows; scale and zero point are vectors, of one number or one for
    each index of `axis`."""
    code = out_dtype() if out_dtype.ndim == 0 else out_dtype(0)

    def element(*i: Any) -> Any:
        result = data(*i)
        if output_scale is None or output_zero_point is None:
            return result
        whole = tir.round(data(*i) / _per_channel(output_scale, i, axis))
        whole = whole + _per_channel(output_zero_point, i, axis).astype(data.dtype)
        for dtype in ("int8", "uint8", "int32"):
            low, high = (limit(dtype).astype(data.dtype) for limit in (te.min_value, te.max_value))
            clipped = te.max(te.min(whole, high), low)
            result = tir.if_then_else(code.equal(SQNN_DTYPE_TO_CODE[dtype]), clipped, result)
        return result

    return te.compute(data.shape, element, name="simulated_quantize", tag="elemwise")


def simulated_dequantize(
    data: Tensor, in_dtype: Tensor, input_scale: Tensor | None = None,
    input_zero_point: Tensor | None = None, axis: int = -1,
) -> Tensor:  # fmt: skip
    """(data - zero point) * scale, unless `in_dtype`, as in `simulated_quantize`, is "disable"."""
    code = in_dtype() if in_dtype.ndim == 0 else in_dtype(0)

    def element(*i: Any) -> Any:
        if input_scale is None or input_zero_point is None:
            return data(*i)
        shifted = data(*i) - _per_channel(input_zero_point, i, axis).astype(data.dtype)
        value = shifted * _per_channel(input_scale, i, axis)
        return tir.if_then_else(code.equal(SQNN_DISABLE), data(*i), value)

    return te.compute(data.shape, element, name="simulated_dequantize", tag="elemwise")


def binarize_pack(data: Tensor, axis: int | None = None, name: str = "PackedInput") -> Tensor:
    """The signs of 32 elements along `axis` (the last one) as the bits of a uint32, the first one
    highest; 1 for 0 and above."""
    which = (data.ndim - 1 if axis is None else axis) % data.ndim
    if get_const_int(data.shape[which]) % 32:
        what = "binarize_pack takes a multiple of 32 elements"
        raise ValueError(explain(what, got=str(data.shape[which])))

    def word(*i: PrimExpr) -> Any:
        packed = te.const(0, "uint32")
        for bit in range(32):
            at = [v * 32 + bit if n == which else v for n, v in enumerate(i)]
            packed = (packed << te.const(1, "uint32")) | (data(*at) >= 0).astype("uint32")
        return packed

    shape = [simplify(d // 32) if n == which else d for n, d in enumerate(data.shape)]
    return te.compute(shape, word, name=name, tag="binarize_pack")


def binary_dense(data: Tensor, weight: Tensor) -> Tensor:
    """The product of matrices of signs, packed by `binarize_pack`, as float32: data @ weight
    transposed."""
    if not data.dtype == weight.dtype == "uint32":
        what = "binary_dense takes packed words of uint32"
        raise TypeError(explain(what, got=f"{data.dtype} and {weight.dtype}"))
    words = data.shape[1]
    k = te.reduce_axis((0, words), name="k")
    differing = te.compute(
        (data.shape[0], weight.shape[0]),
        lambda i, j: te.sum(tir.popcount(data(i, k) ^ weight(j, k)).astype("int32"), axis=k),
        name="binary_dense",
        tag="binary_dense",
    )
    bits = words * 32
    whole = lambda *i: (bits - 2 * differing(*i)).astype("float32")  # noqa: E731
    return te.compute(differing.shape, whole, name="binary_dense_sum", tag="elemwise")
