"""Virtual devices of tensors, and values of symbols."""

from __future__ import annotations

import numpy as np
import pytest

import loopwright as lw
from loopwright import relax
from loopwright.ir.module import VDevice
from loopwright.relax.analysis import assert_well_formed
from loopwright.relax.interpreter import Interpreter
from loopwright.relax.transform import (
    ComputePrimValue,
    RealizeVDevice,
    SpecializePrimFuncBasedOnCallSite,
    UpdateVDevice,
)
from loopwright.script import ir as I
from loopwright.script import relax as R
from loopwright.script import tir as T

from .graphs import values


@I.ir_module
class Hinted:
    """The first tensor is in memory of the CPU, the result on a GPU."""

    I.module_global_infos({"vdevice": [I.vdevice("llvm"), I.vdevice("cuda", 0)]})

    @R.function
    def main(x: R.Tensor((4,), "float32"), y: R.Tensor((4,), "float32")):
        cls = Hinted
        with R.dataflow():
            a = R.hint_on_device(x, lw.cpu())
            pair = cls.both(a, y)
            b = pair[1]
            c = R.hint_on_device(b, lw.cuda())
            d = R.split(c, 2)
            e = R.add(d[0], d[1])
            R.output(e)
        return e

    @R.function(private=True)
    def both(p: R.Tensor((4,), "float32"), q: R.Tensor((4,), "float32")):
        s = R.add(p, q)
        return (p, s)


def device(info) -> str | None:
    return None if info.vdevice is None else info.vdevice.target.kind_name


def test_devices_reach_called_functions_and_fields():
    after = RealizeVDevice()(Hinted)
    assert_well_formed(after)
    assert [device(p.struct_info) for p in after["main"].params] == ["llvm", "llvm"]
    assert [device(p.struct_info) for p in after["both"].params] == ["llvm", "llvm"]
    assert device(after["main"].ret_struct_info) == "cuda"
    assert after.script().count("to_vdevice") == 1
    x, y = values((4,), (4,))
    want, got = (Interpreter(m)["main"](x, y).numpy() for m in (Hinted, after))
    np.testing.assert_array_equal(want, got)


def test_an_operator_on_two_devices_is_an_error():
    @I.ir_module
    class Module:
        I.module_global_infos({"vdevice": [I.vdevice("llvm"), I.vdevice("cuda", 0)]})

        @R.function
        def main(x: R.Tensor((4,), "float32"), y: R.Tensor((4,), "float32")):
            a = R.hint_on_device(x, lw.cpu())
            b = R.hint_on_device(y, lw.cuda())
            c = R.add(a, b)
            return c

    with pytest.raises(ValueError, match="would be on two devices"):
        RealizeVDevice()(Module)


def test_a_device_that_no_module_declares_is_added():
    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor((4,), "float32")):
            a = R.hint_on_device(x, lw.cpu())
            return a

    after = RealizeVDevice()(Module)
    assert_well_formed(after)
    assert [str(d.target.kind_name) for d in after.global_infos["vdevice"]] == ["llvm"]
    assert "vdevice" not in Module.global_infos


def test_a_device_is_replaced_in_copies_too():
    placed = RealizeVDevice()(Hinted)
    after = UpdateVDevice(VDevice("metal"), 1)(placed)
    assert_well_formed(after)
    assert "cuda" not in after.script() and after.script().count("metal") > 2
    with pytest.raises(ValueError, match="the module has 2 virtual devices"):
        UpdateVDevice(VDevice("metal"), 2)(placed)


def test_formulas_are_computed():
    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor(("n", "m"), "float32")):
            n, m = T.int64(), T.int64()
            if R.prim_value(n % 2 == 0):
                y = R.exp(x)
            else:
                y = R.negative(x)
            z = (y, R.prim_value(n * m + 1))
            return z

    after = ComputePrimValue()(Module)
    assert_well_formed(after)
    assert len(after.functions) == 3
    for rows in (2, 3):
        (x,) = values((rows, 3))
        want, got = (Interpreter(m)["main"](x) for m in (Module, after))
        np.testing.assert_array_equal(want[0].numpy(), got[0].numpy())
        assert int(want[1]) == int(got[1]) == rows * 3 + 1
        for mod in (Module, after):  # the condition is in the heap of shapes, or a call
            made = lw.compile(mod, "llvm")["main"](x)
            np.testing.assert_allclose(np.asarray(made[0]), want[0].numpy(), rtol=1e-6)
            assert int(made[1]) == rows * 3 + 1


@I.ir_module
class Scoped:
    I.module_global_infos({"vdevice": [I.vdevice("opencl", 0, "global.texture")]})

    @T.prim_func(private=True)
    def copy(x: T.Buffer((T.int64(4),), "float32"), y: T.Buffer((T.int64(4),), "float32")):
        for i in range(T.int64(4)):
            with T.block("y"):
                vi = T.axis.spatial(T.int64(4), i)
                y[vi] = x[vi]

    @R.function
    def main(x: R.Tensor((4,), "float32")):
        cls = Scoped
        a = R.call_tir(cls.copy, (x,), out_sinfo=R.Tensor((4,), "float32", "opencl:0"))
        b = R.call_tir(cls.copy, (x,), out_sinfo=R.Tensor((4,), "float32", "opencl:0"))
        c = R.call_tir(cls.copy, (b,), out_sinfo=R.Tensor((4,), "float32"))
        d = R.call_tir(cls.copy, (x,), out_sinfo=R.Tensor((4,), "float32"))
        return (a, c, d)


def test_kernels_are_made_for_each_set_of_scopes():
    after = SpecializePrimFuncBasedOnCallSite()(Scoped)
    assert_well_formed(after)
    kernels = [f for g, f in after.functions.items() if g.name_hint != "main"]
    scopes = sorted(tuple(b.scope() for b in f.buffers) for f in kernels)
    texture = "global.texture"
    assert scopes == [("global", "global"), ("global", texture), (texture, "global")]
    (x,) = values((4,))
    for got, want in zip(*(Interpreter(m)["main"](x) for m in (after, Scoped)), strict=True):
        np.testing.assert_array_equal(got.numpy(), want.numpy())


@I.ir_module
class Cast:
    """A match_cast on a device, and a call that states two results."""

    I.module_global_infos({"vdevice": [I.vdevice("llvm"), I.vdevice("cuda", 0)]})

    @R.function
    def main(x: R.Tensor(("n",), "float32"), y: R.Tensor(("n",), "float32")):
        m = T.int64()
        a = R.hint_on_device(x, lw.cuda())
        b = R.match_cast(y, R.Tensor((m,), "float32"))
        c = R.hint_on_device(b, lw.cuda())
        d = R.call_dps_packed(
            "test.two", (a, c), out_sinfo=[R.Tensor((m,), "float32"), R.Tensor((m,), "float32")]
        )
        return R.add(d[0], d[1])


def test_a_match_cast_and_calls_that_state_their_results():
    after = RealizeVDevice()(Cast)
    assert_well_formed(after)
    func = after["main"]
    bindings = [b for block in func.body.blocks for b in block.bindings]
    (cast,) = [b for b in bindings if isinstance(b, relax.MatchCast)]
    assert device(cast.struct_info) == device(cast.var.struct_info) == "cuda"
    (call,) = [b.value for b in bindings if getattr(b.value, "sinfo_args", ())]
    assert [device(info) for info in call.sinfo_args[0].fields] == ["cuda", "cuda"]
    assert device(func.ret_struct_info) == "cuda"
    # A hint says where a tensor is, if nothing else does.
    assert [device(p.struct_info) for p in func.params] == ["cuda", "cuda"]
