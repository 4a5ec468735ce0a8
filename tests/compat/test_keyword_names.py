"""Parameters by TVM's names, where a user may give them as keywords."""

from __future__ import annotations

import numpy as np
import pytest

import loopwright as lw
from loopwright import relay, te, tir, topi
from loopwright.ir.op import OPS
from loopwright.relay.annotated_regions import AnnotatedRegionSet
from loopwright.target import codegen

A = te.placeholder((1, 2, 9), name="A")
W = te.placeholder((3, 2, 3), name="W")
B = te.placeholder((1, 2, 9, 9), name="B")
V = te.placeholder((2, 3, 3, 3), name="V")


def test_scalar_operators():
    x, y = tir.Var("x", "int32"), tir.Var("y", "int32")
    for name in ("and", "or", "xor"):
        made = getattr(tir, f"bitwise_{name}")(x=x, y=y, span=None)
        assert made.op.name == f"tir.bitwise_{name}" and list(made.args) == [x, y]
    assert list(tir.shift_left(x=x, y=y).args) == list(tir.shift_right(x=x, y=y).args) == [x, y]
    assert tir.bitwise_not(x=x).args[0] is x
    span = lw.ir.Span(source_name="a.py", line=1, end_line=1, column=2, end_column=2)
    assert tir.min_value("int8", span=span).span is span
    assert tir.max_value("float16", span=span).span is span
    assert x.equal(y, span=span).span is span and x.astype("int64", span=span).span is span


def test_visits():
    x = tir.Var("x", "int32")
    seen: list = []
    tir.stmt_functor.post_order_visit(stmt=x + 1, fvisit=seen.append)
    assert seen[0] is x
    tir.stmt_functor.pre_order_visit(stmt=x + 1, fvisit=lambda n: seen.append(n))
    assert len(seen) == 6
    func = tir.PrimFunc([x], tir.Evaluate(x))
    assert tir.stmt_functor.renew_defs(func=func).params[0] is not x


def test_operators_of_the_graph():
    op = lw.ir.Op.get(op_name="relax.add")
    op.set_attr(attr_name="test.keyword", value=3)
    assert op.has_attr(attr_name="test.keyword") and op.get_attr(attr_name="test.keyword") == 3
    op.reset_attr(attr_name="test.keyword")
    assert not op.has_attr("test.keyword")


def test_effects_of_own_intrinsics():
    name = "tir.own_intrinsic"
    kinds = lw.tir.CallEffectKind
    for kind, effect in ((kinds.Pure, "pure"), (kinds.ReadState, "read"), (kinds.Opaque, "opaque")):
        lw.ir.register_op_attr(name, "TCallEffectKind", kind)
        assert tir.op.effect_of(tir.call_intrin("int32", name, 1)) == effect
    assert kinds.UpdateState is kinds.Opaque and kinds.ControlJump == 6
    lw.ir.Op.get(name).reset_attr("TCallEffectKind")
    assert lw.ir.Op.get(name).effect == "opaque"
    OPS.remove(name)


def test_pipelines_of_loops():
    named = tir.transform.pipeline.get_tir_pipeline()
    assert named.info.name == tir.get_tir_pipeline("default").info.name
    with pytest.raises(ValueError, match="no pipeline has this name\n  got: defualt\n.*default"):
        tir.get_tir_pipeline("defualt")
    assert tir.get_default_tir_pipeline("c").info.name == "c.loop_pipeline"
    with pytest.raises(ValueError, match="does not have a default pipeline\n  got: cuda"):
        tir.get_default_tir_pipeline("cuda")


def test_parameters_in_files(tmp_path):
    lw.runtime.save_param_dict_to_file({"a": np.float32([1, 2])}, tmp_path / "params")
    assert lw.runtime.load_param_dict_from_file(tmp_path / "params")["a"].numpy().tolist() == [1, 2]


def test_tensors():
    made = lw.nd.array(arr=np.arange(3), device=lw.cpu(), mem_scope=None)
    empty = lw.nd.empty((3,), "int64", lw.cpu(), mem_scope="global")
    assert empty.copyfrom(source_array=made).numpy().tolist() == [0, 1, 2]
    assert made.copyto(target=empty, mem_scope=None) is empty
    assert lw.nd.from_dlpack(ext_tensor=np.ones(2)).numpy().tolist() == [1, 1]
    for call in (lambda **k: lw.nd.array([1], **k), lambda **k: lw.nd.empty((1,), **k)):
        with pytest.raises(ValueError, match="global memory here\n  got: mem_scope 'texture'"):
            call(mem_scope="texture")
    with pytest.raises(ValueError, match="global memory"):
        made.copyto(empty, mem_scope="shared")


def test_devices():
    cpu = lw.cpu()
    assert cpu.max_threads_per_block is cpu.device_name is cpu.l2_cache_size_bytes is None
    assert cpu.total_global_memory > 1 << 20 and lw.cuda().total_global_memory is None
    stream = cpu.create_raw_stream()
    cpu.set_raw_stream(stream)
    cpu.free_raw_stream(stream)
    with pytest.raises(AttributeError, match="'Device' object has no attribute 'warp'"):
        cpu.warp


def test_kinds_of_targets_that_code_is_made_for():
    asked = ["llvm", "llvm -mcpu=core2", "c", "cpu", "cuda", "vulkan", "no_such", ""]
    assert [lw.runtime.enabled(target=t) for t in asked] == [True] * 4 + [False] * 4


def test_targets():
    assert codegen.llvm_cpu_has_features(
        cpu_features="avx2", target="llvm -mcpu=haswell -mtriple=x86_64-linux-gnu"
    )
    adreno = lw.target.adreno(clml=True)
    assert "clml" in adreno.keys and "clml" not in lw.target.adreno(clml=False).keys
    vulkan = lw.target.Target("vulkan -supports_integer_dot_product=1")
    assert vulkan.supports_integer_dot_product and not vulkan.supports_cooperative_matrix
    assert vulkan.max_block_size_x == vulkan.max_block_size_y == vulkan.max_num_threads == 256
    assert lw.target.Target("hexagon -vtcm-capacity=64").vtcm_capacity == 64
    assert lw.target.Target("llvm").vtcm_capacity == 0


def test_topi():
    shape = lambda t: [int(d) for d in t.shape]  # noqa: E731
    for conv in (topi.nn.conv1d_ncw, topi.nn.group_conv1d_ncw):
        assert shape(conv(data=A, kernel=W, strides=2, padding=1)) == [1, 3, 5]
        assert shape(conv(data=A, kernel=W, padding=1, dilation=2)) == [1, 3, 7]
    given = {"padding": 0, "out_dtype": "float32", "output_padding": (0, 0)}
    made = topi.nn.conv2d_transpose_nchw(Input=B, Filter=V, strides=(2, 1), **given)
    assert shape(made) == [1, 3, 19, 11]
    volume, kernel = te.placeholder((1, 2, 4, 4, 4)), te.placeholder((2, 3, 2, 2, 2))
    given |= {"output_padding": (0, 0, 0)}
    made = topi.nn.conv3d_transpose_ncdhw(Input=volume, Filter=kernel, strides=(1, 2, 1), **given)
    assert shape(made) == [1, 3, 5, 8, 5]
    padded = topi.nn.pad(data=A, pad_before=[0, 0, 1], name="mine", attrs={"note": 1})
    for mode in ("Reflect", "Replicate", "Circular"):
        pad = getattr(topi.nn, f"{mode.lower()}_pad")
        assert pad(A, [0, 0, 1]).op.name == f"{mode}PadInput"
        assert pad(A, [0, 0, 1], name="mine").op.name == "mine"
    half = te.placeholder((1, 4, 4, 2), "float16"), te.placeholder((3, 3, 2, 2), "float16")
    assert topi.nn.conv2d_nhwc(*half, 1, 0, 1).dtype == "float32"
    assert topi.nn.conv2d_nhwc(*half, 1, 0, 1, out_dtype="float16").dtype == "float16"
    assert padded.op.name == "mine" and padded.op.attrs["note"] == 1 and shape(padded) == [1, 2, 11]


def test_relay():
    x = relay.var("x", shape=(2,))
    assert "let %x = exp(%x1)" in str(relay.transform.ToANormalFormExpr(e=relay.exp(x)))
    AnnotatedRegionSet(expr=x, region_begin_op=None, region_end_op=None)
    pattern = relay.dataflow_pattern.is_op("exp")(relay.dataflow_pattern.wildcard())
    either = pattern.optional(option_constructor=lambda p: relay.dataflow_pattern.is_op("abs")(p))
    assert either.match(relay.abs(relay.exp(x))) and either.match(relay.exp(x))


def test_lanes_of_a_scalable_register():
    for dtype, lanes in (("int8", 16), ("float32", 4), ("int64", 2)):
        made = tir.get_vscale_expr(dtype)
        assert lw.ir.structural_equal(made, tir.vscale() * lanes), (dtype, made)
    assert lw.ir.structural_equal(tir.get_vscale_expr("int8", min_size=256), tir.vscale() * 32)
