"""Patterns of common network parts, with their subpatterns by name (for checks of a match).

These are TVM's from `relax.backend.patterns`; each function returns (pattern, {name: part}).
"""

from __future__ import annotations

from ...base.errors import explain
from ...relax.dpl import pattern as pt
from .attention_pattern import make_attention_rewrite_pattern  # noqa: F401

Named = tuple[pt.DFPattern, dict[str, pt.DFPattern]]


def _finished(
    out: pt.DFPattern, parts: dict[str, pt.DFPattern], with_bias: bool, activation: str | None
) -> Named:
    if with_bias:
        parts["bias"] = pt.wildcard()
        out = pt.is_op("relax.add")(out, parts["bias"])
    return (out if activation is None else pt.is_op(activation)(out)), parts


def make_fused_bias_activation_pattern(
    op_name: str, with_bias: bool = False, activation: str | None = None
) -> Named:
    """An operator with two operands (lhs, rhs; root), a bias addition (bias), an activation."""
    lhs, rhs = pt.wildcard(), pt.wildcard()
    root = pt.is_op(op_name)(lhs, rhs)
    return _finished(root, {"lhs": lhs, "rhs": rhs, "root": root}, with_bias, activation)


def make_residual_block_pattern(
    node_output: pt.DFPattern | Named, binary_op: str = "relax.add", activation: str | None = None
) -> Named:
    """An operator joined with a residual (residual), on either side; an activation."""
    out, parts = node_output if isinstance(node_output, tuple) else (node_output, {})
    residual, op = pt.wildcard(), pt.is_op(binary_op)
    joined: pt.DFPattern = op(out, residual) | op(residual, out)
    if activation is not None:
        joined = pt.is_op(activation)(joined)
    return joined, {**parts, "residual": residual}


def make_conv2d_pattern(with_bias: bool = False, activation: str | None = None) -> Named:
    """A convolution (input, weight; root), a bias addition (bias), an activation."""
    data, weight = pt.wildcard(), pt.wildcard()
    root = pt.is_op("relax.nn.conv2d")(data, weight)
    return _finished(root, {"input": data, "weight": weight, "root": root}, with_bias, activation)


def _matmul(transposed_rhs: bool) -> tuple[pt.DFPattern, dict[str, pt.DFPattern]]:
    lhs, rhs = pt.wildcard(), pt.wildcard()
    right = pt.is_op("relax.permute_dims")(rhs) if transposed_rhs else rhs
    root = pt.is_op("relax.matmul")(lhs, right)
    return root, {"lhs": lhs, "rhs": rhs, "root": root}


def make_matmul_pattern(
    with_bias: bool = False, activation: str | None = None, transposed_rhs: bool = False
) -> Named:
    """A matmul (lhs, rhs; root), a bias addition (bias), an activation."""
    root, parts = _matmul(transposed_rhs)
    return _finished(root, parts, with_bias, activation)


def make_matmul_dequantize_pattern(transposed_rhs: bool = False) -> Named:
    """A matmul (lhs, rhs; root) and its dequantization (scale, zp)."""
    root, parts = _matmul(transposed_rhs)
    parts["scale"], parts["zp"] = pt.is_const(), pt.is_const()
    return pt.is_op("relax.dequantize")(root, parts["scale"], parts["zp"]), parts


def make_matmul_multiply_pattern(transposed_rhs: bool = False) -> Named:
    """A matmul (lhs, rhs; root) times the product of two scales (scaleA, scaleB), cast."""
    root, parts = _matmul(transposed_rhs)
    parts["scaleA"], parts["scaleB"] = pt.wildcard(), pt.wildcard()
    a, b = parts["scaleA"].has_shape((1,)), parts["scaleB"].has_shape((1,))
    multiply = pt.is_op("relax.multiply")
    return pt.is_op("relax.astype")(multiply(root, multiply(a, b))), parts


def make_attention_pattern(with_bias: bool = False, var_len: bool = False) -> Named:
    """An attention (query, key, value; bias; seqstart_q ... max_seqlen_k)."""
    names = ["query", "key", "value"]
    op = "relax.nn.attention"
    if with_bias:
        names.append("bias")
    elif var_len:
        op = "relax.nn.attention_var_len"
        names += ["seqstart_q", "max_seqlen_q", "seqstart_k", "max_seqlen_k"]
    parts: dict[str, pt.DFPattern] = {name: pt.wildcard() for name in names}
    return pt.is_op(op)(*parts.values()), parts


def make_stacked_attention_pattern(
    start_op: str, with_bias: bool = False, layout: str = "BS3NH"
) -> Named:
    """An attention whose query, key and value are parts of one tensor (stacked_qkv).

    start_op: "split" or "strided_slice". layout: "BS3NH" (reshaped) or "SBN3H" (transposed).
    """
    stacked = pt.wildcard()
    parts: dict[str, pt.DFPattern] = {"stacked_qkv": stacked}
    names = ("query", "key", "value")
    if start_op == "split":
        parts["split"] = split = pt.is_op("relax.split")(stacked)
        raw = [pt.is_tuple_get_item(split, i) for i in range(3)]
    elif start_op == "strided_slice":
        slice_op = pt.is_op("relax.strided_slice")
        raw = [slice_op(stacked, varg_default_wildcard=True) for _ in names]
        parts.update({f"strided_slice_{n}": p for n, p in zip(names, raw, strict=True)})
    else:
        what = "a stacked attention starts with split or strided_slice"
        raise ValueError(explain(what, got=repr(start_op)))
    if layout == "BS3NH":
        shapes = [pt.wildcard() for _ in names]
        parts.update({f"{n}_reshape_list": p for n, p in zip(names, shapes, strict=True)})
        pairs = zip(raw, shapes, strict=True)
        inputs = [pt.is_op("relax.reshape")(tensor, shape) for tensor, shape in pairs]
    elif layout == "SBN3H":
        inputs = [pt.is_op("relax.permute_dims")(tensor) for tensor in raw]
        parts.update({f"{n[0]}_transpose": p for n, p in zip(names, inputs, strict=True)})
    else:
        raise ValueError(explain("layout is BS3NH or SBN3H", got=repr(layout)))
    if with_bias:
        parts["bias"] = pt.wildcard()
        inputs = [*inputs, parts["bias"]]
    out: pt.DFPattern = pt.is_op("relax.nn.attention")(*inputs)
    return (pt.is_op("relax.permute_dims")(out) if layout == "SBN3H" else out), parts


def make_layer_norm_pattern() -> Named:
    """A layer normalization."""
    return pt.is_op("relax.nn.layer_norm")(pt.wildcard(), pt.wildcard(), pt.wildcard()), {}


def make_rms_norm_pattern() -> Named:
    """A kernel (gv) of an input and a weight (inp; rms_norm is the call)."""
    inp, weight = pt.wildcard(), pt.wildcard()
    out = pt.is_call_tir("", [inp, weight])
    assert out.args is not None
    return out, {"gv": out.args[0], "inp": inp, "rms_norm": out}
