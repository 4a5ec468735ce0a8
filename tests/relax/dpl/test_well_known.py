"""Patterns of what networks are made of."""

from __future__ import annotations

import numpy as np
import pytest

from loopwright import relax
from loopwright.ir.module import IRModule
from loopwright.relax.analysis import get_var2val, well_formed
from loopwright.relax.dpl import match, rewrite_call, well_known
from loopwright.relax.interpreter import Interpreter
from loopwright.script import relax as R


def build(shapes: dict, body) -> relax.Function:
    bb = relax.BlockBuilder()
    params = [relax.Var(n, R.Tensor(s, "float32")) for n, s in shapes.items()]
    with bb.function("main", params):
        with bb.dataflow():
            out = bb.emit_output(bb.emit(body(bb, *params)))
        bb.emit_func_output(out)
    return bb.get()["main"]


def written_out(layout: str, bias: tuple | None) -> relax.Function:
    """softmax(q @ k.T * scale + bias) @ v"""
    heads = layout == "BSNH"

    def body(bb, q, k, v, *more):
        def flat(x):
            return R.reshape(R.permute_dims(x, [0, 2, 1, 3]), (6, 5, 4)) if heads else x

        scores = R.matmul(flat(q), R.permute_dims(flat(k), [0, 2, 1]))
        scores = R.multiply(scores, R.const(0.25, "float32"))
        if more:
            scores = R.add(scores, more[0])
        out = R.matmul(R.nn.softmax(scores, axis=2), flat(v))
        return R.permute_dims(R.reshape(out, (2, 3, 5, 4)), [0, 2, 1, 3]) if heads else out

    shapes = dict.fromkeys("qkv", (2, 5, 3, 4) if heads else (2, 5, 4))
    return build({**shapes, **({"bias": bias} if bias else {})}, body)


@pytest.mark.parametrize("layout", ["BSNH", "BSH"])
@pytest.mark.parametrize("bias", [None, "full", (5, 5), (1, 5), (5,)])
def test_attention_that_is_written_out(layout, bias):
    if bias == "full":
        bias = (6 if layout == "BSNH" else 2, 5, 5)
    func = written_out(layout, bias)
    make = well_known.make_attention_rewrite_pattern
    pattern, rewriter = make(layout, layout, bias is not None, False)
    made = rewrite_call(pattern, rewriter, func)
    assert well_formed(made) and "R.nn.attention(" in str(made) and "matmul" not in str(made)
    rng = np.random.default_rng(1)
    args = [rng.random([int(d) for d in p.struct_info.shape], "float32") for p in func.params]
    before, after = (
        np.asarray(Interpreter(IRModule({relax.GlobalVar("main"): f})).run("main", *args))
        for f in (func, made)
    )
    np.testing.assert_allclose(before, after, rtol=1e-5)


def test_attention_that_is_another_thing():
    func = written_out("BSNH", (5, 1))  # broadcast along the keys
    pattern, rewriter = well_known.make_attention_rewrite_pattern("BSNH", "BSNH", True, False)
    assert pattern.match(func.body.body, get_var2val(func))
    assert rewrite_call(pattern, rewriter, func) is func
    with pytest.raises(ValueError, match="is BSNH or BSH\n  got: 'NSB'"):
        well_known.make_attention_rewrite_pattern("NSB", "BSNH", True, False)


def found(named, func: relax.Function) -> set[str]:
    """The names of the parts that are matched at the result."""
    pattern, parts = named
    matches = match(pattern, func.body.body, get_var2val(func))
    assert matches is not None, str(pattern)
    return {name for name, part in parts.items() if part in matches}


def test_matmul():
    shapes = {"x": (2, 4), "w": (3, 4), "b": (3,)}
    func = build(shapes, lambda bb, x, w, b: R.nn.relu(R.add(R.matmul(x, R.permute_dims(w)), b)))
    make = well_known.make_matmul_pattern
    named = make(with_bias=True, activation="relax.nn.relu", transposed_rhs=True)
    assert found(named, func) == {"lhs", "rhs", "root", "bias"}
    assert make()[0].match(func.body.body, get_var2val(func)) is False


def test_matmul_times_scales():
    shapes = {"x": (2, 4), "w": (4, 3), "a": (1,), "b": (1,)}

    def body(bb, x, w, a, b):
        return R.astype(R.multiply(R.matmul(x, w), R.multiply(a, b)), "float16")

    named = well_known.make_matmul_multiply_pattern()
    assert found(named, build(shapes, body)) == {"lhs", "rhs", "root", "scaleA", "scaleB"}


def test_matmul_of_bytes():
    scale, zero = R.const(0.5), R.const(0, "int8")

    def body(bb, x, w):
        x, w = R.astype(x, "int8"), R.permute_dims(R.astype(w, "int8"))
        return R.dequantize(R.matmul(x, w), scale, zero, out_dtype="float32")

    func, make = build({"x": (2, 4), "w": (3, 4)}, body), well_known.make_matmul_dequantize_pattern
    assert found(make(True), func) == {"lhs", "rhs", "root", "scale", "zp"}
    pattern, parts = make()
    assert match(pattern, func.body.body, get_var2val(func))[parts["rhs"]] is not None


def test_an_operator_with_a_bias_and_a_residual():
    shapes = {"x": (2, 4), "w": (4, 3), "b": (3,), "r": (2, 3)}

    def body(bb, x, w, b, r):
        return R.nn.relu(R.add(r, R.tanh(R.add(R.matmul(x, w), b))))

    func, make = build(shapes, body), well_known.make_fused_bias_activation_pattern
    named = make("relax.matmul", with_bias=True, activation="relax.tanh")
    whole = well_known.make_residual_block_pattern(named, activation="relax.nn.relu")
    assert found(whole, func) == {"lhs", "rhs", "root", "bias", "residual"}
    for plain in (make("relax.matmul"), make("relax.matmul", with_bias=True)):
        whole = well_known.make_residual_block_pattern(plain, activation="relax.nn.relu")
        assert match(whole[0], func.body.body, get_var2val(func)) is None


def test_stacked_attention_of_transposed_parts():
    def body(bb, x, bias):
        parts = bb.emit(R.split(x, 3, axis=2))
        turned = [R.permute_dims(parts[i], [1, 0, 2, 3]) for i in range(3)]
        return R.permute_dims(R.nn.attention(*turned, bias), [1, 0, 2, 3])

    func = build({"x": (5, 1, 6, 4), "bias": (1, 2, 5, 5)}, body)
    named = well_known.make_stacked_attention_pattern("split", True, "SBN3H")
    assert found(named, func) == set(named[1]) >= {"q_transpose", "bias", "split"}
    with pytest.raises(ValueError, match="layout is BS3NH or SBN3H"):
        well_known.make_stacked_attention_pattern("split", True, "NSB")


@pytest.mark.parametrize("with_bias", [False, True])
def test_attention(with_bias):
    shapes = {**dict.fromkeys("qkv", (1, 5, 2, 4)), "b": (1, 2, 5, 5)}
    func = build(shapes, lambda bb, q, k, v, b: R.nn.attention(q, k, v, b if with_bias else None))
    names = {"query", "key", "value"} | ({"bias"} if with_bias else set())
    assert found(well_known.make_attention_pattern(with_bias), func) == names


@pytest.mark.parametrize("start", ["split", "strided_slice"])
def test_stacked_attention(start):
    def body(bb, x):
        if start == "split":
            parts = list(bb.emit(R.split(x, 3, axis=2)))
        else:
            bounds = [(8 * i, 8 * (i + 1)) for i in range(3)]
            parts = [R.strided_slice(x, axes=[2], begin=[b], end=[e]) for b, e in bounds]
        return R.nn.attention(*(R.reshape(p, (1, 5, 2, 4)) for p in parts))

    named = well_known.make_stacked_attention_pattern(start)
    names = found(named, build({"x": (1, 5, 24)}, body))
    assert names == set(named[1]) and "stacked_qkv" in names
    with pytest.raises(ValueError, match="starts with split or strided_slice\n  got: 'slice'"):
        well_known.make_stacked_attention_pattern("slice")


def test_layer_norm_and_rms_norm():
    shapes = {"x": (2, 4), "g": (4,), "b": (4,)}
    func = build(shapes, lambda bb, x, g, b: R.nn.layer_norm(x, g, b, axes=[-1]))
    assert found(well_known.make_layer_norm_pattern(), func) == set()
    info = R.Tensor((2, 4), "float32")
    kernel = relax.GlobalVar("rms_norm")
    kernel.struct_info = relax.FuncStructInfo.opaque_func()
    call = R.call_tir(kernel, func.params[:2], out_sinfo=info)
    pattern, parts = well_known.make_rms_norm_pattern()
    matches = match(pattern, call)
    assert matches[parts["gv"]] is kernel and matches[parts["inp"]] is func.params[0]
    assert matches[parts["rms_norm"]] is call


def test_attention_of_lengths_that_differ():
    q = relax.Var("q", R.Tensor((1, "n", 2, 4), "float16"))
    starts, most = relax.const(np.int32([0, 3, 5])), relax.const(np.int32(3))
    call = relax.op.nn.attention_var_len(q, q, q, starts, most)
    pattern, parts = well_known.make_attention_pattern(var_len=True)
    matches = match(pattern, call)
    assert matches[parts["seqstart_k"]] is matches[parts["seqstart_q"]] is starts
    assert matches[parts["max_seqlen_k"]] is most and matches[parts["value"]] is q


def primitives(heads: bool, **other) -> relax.Function:
    """Attention in primitives, as `written_out`, with one of its parts changed."""
    use = {
        "query": [0, 2, 1, 3], "key": [0, 2, 1], "flat": (6, 5, 4), "softmax": -1,
        "out": [0, 2, 1, 3], "back": (2, 3, 5, 4), **other,
    }  # fmt: skip

    def body(bb, q, k, v):
        def flat(x):
            return R.reshape(R.permute_dims(x, use["query"]), use["flat"]) if heads else x

        scores = R.matmul(flat(q), R.permute_dims(flat(k), use["key"]))
        scores = R.multiply(scores, R.const(0.25, "float32"))
        out = R.matmul(R.nn.softmax(scores, axis=use["softmax"]), flat(v))
        return R.permute_dims(R.reshape(out, use["back"]), use["out"]) if heads else out

    return build(dict.fromkeys("qkv", use.get("shape", (2, 5, 3, 4) if heads else (2, 5, 4))), body)


CHANGED = [
    (True, {}, True),
    (True, {"key": [0, -1, 1]}, True),
    (True, {"softmax": 2}, True),
    (True, {"softmax": 1}, False),
    (True, {"query": [0, 1, 2, 3], "shape": (2, 3, 5, 4)}, False),
    (True, {"query": [2, 0, 1, 3], "flat": (6, 5, 4), "shape": (2, 5, 3, 4)}, False),
    (True, {"shape": (3, 5, 2, 4), "flat": (2, 15, 4), "back": (2, 5, 3, 4)}, False),
    (True, {"out": [0, 1, 2, 3]}, False),
    (True, {"back": (3, 2, 5, 4)}, False),
    (False, {}, True),
    (False, {"key": [0, 1, 2], "shape": (2, 4, 4)}, False),
    (False, {"key": [1, 0], "shape": (4, 4)}, False),
]


@pytest.mark.parametrize(("heads", "other", "expected"), CHANGED)
def test_attention_that_is_nearly_written_out(heads, other, expected):
    func, layout = primitives(heads, **other), "BSNH" if heads else "BSH"
    pattern, rewriter = well_known.make_attention_rewrite_pattern(layout, layout, False, False)
    assert pattern.match(func.body.body, get_var2val(func))
    assert ("nn.attention(" in str(rewrite_call(pattern, rewriter, func))) is expected
