"""`dlight.gpu`, and functions of a built module as attributes."""

from __future__ import annotations

import numpy as np
import pytest

import loopwright as lw
from loopwright import te
from loopwright.tvm.compat import dlight_gpu
from loopwright.tvm.testing import env


def double():
    x = te.placeholder((4,), name="x")
    return te.create_prim_func([x, te.compute((4,), lambda i: x[i] * 2.0)])


def test_rules_for_gpus_decline_functions_for_cpus():
    mod = lw.IRModule({"main": double()})
    with lw.target.Target("llvm"):
        mod = lw.sched.ApplyDefaultSchedule(dlight_gpu.Fallback(), dlight_gpu.Matmul())(mod)
    built = lw.tir.build(mod["main"], "llvm")
    out = lw.runtime.tensor(np.zeros(4, np.float32))
    built.main(lw.runtime.tensor(np.float32([1, 2, 3, 4])), out)
    assert out.numpy().tolist() == [2, 4, 6, 8]
    assert built.entry_func is built.main
    with pytest.raises(AttributeError, match="no attribute 'other'"):
        _ = built.other
    with (
        lw.target.Target("cuda"),
        pytest.raises(ValueError, match=r"GPUs have no default schedules \(Fallback\)"),
    ):
        lw.sched.ApplyDefaultSchedule(dlight_gpu.Fallback())(lw.IRModule({"main": double()}))


def test_what_code_is_compiled_for():
    assert env.has_llvm() and not env.has_cuda()
