"""Two targets in one module: each operator has the rules of the device its tensors live on."""

from __future__ import annotations

import numpy as np
import pytest

import loopwright as lw
from loopwright import relax, te
from loopwright.ir import trace
from loopwright.ir.module import VDevice
from loopwright.ir.target import Target, register_target_kind
from loopwright.relax.transform import (
    AnnotateTIROpPattern,
    FuseOps,
    LegalizeOps,
    LowerRuntimeBuiltin,
    RemovePurityChecking,
    ToNonDataflow,
)
from loopwright.relax.transform.legalize_ops.common import LEGALIZATIONS
from loopwright.script import ir as I
from loopwright.script import relax as R
from loopwright.script import tir as T

from ...programs import pointwise, pointwise_convolution

# It stays registered: the modules are printed and parsed after each test.
register_target_kind("testnpu", keys=("testnpu",), parent="llvm")


@pytest.fixture(autouse=True)
def npu():
    """A rule for exp on the kind `testnpu`."""
    with LEGALIZATIONS.registry.snapshot():
        lw.register_legalize(
            "relax.exp", tir=pointwise("npu_exp", "T.exp(X[vi, vj])"), target="testnpu"
        )
        yield


def mixed():
    """exp on the host, exp and a sum on the other device, relu of it there, exp on the host."""

    @I.ir_module
    class Mixed:
        I.module_global_infos({"vdevice": [I.vdevice("llvm"), I.vdevice("testnpu")]})

        @R.function
        def main(x: R.Tensor(("n", 8), "float32", vdevice="llvm:0")):
            with R.dataflow():
                a = R.exp(x)
                b = R.to_vdevice(a, "testnpu:0")
                c = R.exp(b)
                d = R.add(c, R.sum(c, axis=[1], keepdims=True))
                e = R.nn.relu(d)
                f = R.to_vdevice(e, "llvm:0")
                g = R.exp(f)
                h = R.to_vdevice(g, "testnpu:0")
                R.output(h)
            return h

    return Mixed


def test_the_device_of_the_arguments_is_that_of_the_results():
    infos = {b.var.name_hint: b.var.struct_info for b in mixed()["main"].body.blocks[0].bindings}
    kinds = {name: info.vdevice.target.kind_name for name, info in infos.items()}
    assert kinds == {
        "a": "llvm",
        "b": "testnpu",
        "c": "testnpu",
        "lv": "testnpu",
        "d": "testnpu",
        "e": "testnpu",
        "f": "llvm",
        "g": "llvm",
        "h": "testnpu",
    }


def test_each_operator_by_its_own_devices_rules():
    with trace.trace() as seen, Target("llvm"):
        made = LegalizeOps()(mixed())
    notes = seen.explain("relax.exp", "legalize")
    assert [n.facts["kernel"] for n in notes] == ["tir_exp_llvm", "npu_exp_testnpu", "tir_exp_llvm"]
    assert [n.facts["winner"].split(":")[0] for n in notes] == [
        "default",
        "target testnpu",
        "default",
    ]
    kernels = {g.name_hint: f for g, f in made.functions.items() if g.name_hint != "main"}
    assert {name: f.attrs["target"].kind_name for name, f in kernels.items()} == {
        "tir_exp_llvm": "llvm",
        "npu_exp_testnpu": "testnpu",
        "sum_testnpu": "testnpu",
        "add_testnpu": "testnpu",
        "relu_testnpu": "testnpu",
    }


def test_the_default_build_compiles_both_and_copies_nothing():
    steps = lw.lower(mixed())
    assert "to_vdevice" not in steps["DropHostCopies"].after.script()
    assert steps.explain("main", "native") == []  # one native function
    x = np.linspace(-2, -1, 24, dtype="float32").reshape(3, 8)
    inner = np.exp(np.exp(x))
    want = np.exp(inner + inner.sum(1, keepdims=True))
    np.testing.assert_allclose(lw.compile(mixed())["main"](x).numpy(), want, rtol=1e-5)


def test_kernels_of_different_targets_are_not_fused():
    @I.ir_module
    class Two:
        I.module_global_infos({"vdevice": [I.vdevice("llvm"), I.vdevice("testnpu")]})

        @T.prim_func(private=True)
        def on_npu(X: T.Buffer((4, 8), "float32"), Y: T.Buffer((4, 8), "float32")):
            T.func_attr({"target": T.target("testnpu")})
            for i, j in T.grid(4, 8):
                with T.block("negative"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    Y[vi, vj] = -X[vi, vj]

        @R.function
        def main(x: R.Tensor((4, 8), "float32")):
            cls = Two
            with R.dataflow():
                a = R.exp(x)
                b = R.call_tir(cls.on_npu, (a,), out_sinfo=R.Tensor((4, 8), "float32"))
                c = R.exp(b)
                R.output(c)
            return c

    steps = lw.lower(Two)
    assert not [f for f in steps["FuseOps"].changed_functions() if "fused" in f]
    (note,) = steps.explain("on_npu", "fuse")
    assert note.facts["reason"] == "its users are for another target"


@pytest.mark.parametrize(("target", "groups"), [("llvm", 1), ("testnpu", 0)])
def test_fusion_where_every_kernel_has_a_target(target, groups):
    def kernel(of):
        x = te.placeholder((4,), name="x")
        y = te.compute((4,), lambda i: -x[i], name="y")
        made = te.create_prim_func([x, y]).without_attr("global_symbol")
        return made.with_attr("target", Target(of))

    builder, x = relax.BlockBuilder(), relax.Var("x", R.Tensor((4,), "float32"))
    with builder.function("main", [x]):
        value = x
        with builder.dataflow():
            for of in ("llvm", target):
                called = builder.add_func(kernel(of), "negative")
                value = builder.emit(relax.call_tir(called, [value], x.struct_info))
            value = builder.emit_output(value)
        builder.emit_func_output(value)
    mod = AnnotateTIROpPattern()(builder.get())
    made = [g for g in FuseOps()(mod).functions if "fused" in g.name_hint]
    assert len(made) == groups


def test_arguments_on_different_devices_are_an_error():
    with pytest.raises(Exception, match="tensors on different devices") as error:

        @I.ir_module
        class Torn:
            I.module_global_infos({"vdevice": [I.vdevice("llvm"), I.vdevice("testnpu")]})

            @R.function
            def main(
                x: R.Tensor((4, 8), "float32", vdevice="llvm:0"),
                y: R.Tensor((4, 8), "float32", vdevice="testnpu:0"),
            ):
                with R.dataflow():
                    z = R.add(x, y)
                    R.output(z)
                return z

    assert "R.to_vdevice" in str(error.value)


@pytest.mark.no_roundtrip  # the builder knows nothing of the devices yet
def test_a_convolution_on_another_device_keeps_its_layout():
    """When that device has a rule of its own for it; the host's convolution is laid out in blocks."""

    rng = np.random.default_rng(0)
    one, two = (rng.random((20, c, 1, 1), dtype="float32") - 0.5 for c in (16, 20))
    host, npu = VDevice("llvm"), VDevice("testnpu")
    bb = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorStructInfo((1, 16, 5, 7), "float32", host))
    with bb.function("main", [x]):
        with bb.dataflow():
            y = bb.emit(R.nn.relu(R.nn.conv2d(x, relax.const(one))))
            z = bb.emit(R.to_vdevice(y, npu))
            out = bb.emit_output(R.nn.relu(R.nn.conv2d(z, relax.const(two))))
        bb.emit_func_output(out)
    mod = lw.IRModule(bb.get().functions, global_infos={"vdevice": [host, npu]})
    lw.register_legalize("relax.nn.conv2d", tir=pointwise_convolution("npu_conv"), target="testnpu")
    notes = lw.lower(mod).explain("relax.nn.conv2d", "legalize")
    exe = lw.compile(mod)
    assert [n.facts["kernel"] for n in notes] == ["conv2d_llvm", "npu_conv_testnpu"]
    data = rng.random((1, 16, 5, 7), dtype="float32")
    inner = np.maximum(np.einsum("oc,nchw->nohw", one[:, :, 0, 0], data), 0)
    want = np.maximum(np.einsum("oc,nchw->nohw", two[:, :, 0, 0], inner), 0)
    np.testing.assert_allclose(exe["main"](data).numpy(), want, rtol=1e-4, atol=1e-5)


def test_the_machines_copy_knows_the_kind_of_device():
    made = LowerRuntimeBuiltin()(RemovePurityChecking()(ToNonDataflow()(mixed())))
    assert '"vm.builtin.to_device", a, R.prim_value(1), R.prim_value(0)' in made.script()
