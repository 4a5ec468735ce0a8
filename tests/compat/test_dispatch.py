"""TVM's passes that choose kernels by operator, run alone."""

from __future__ import annotations

import pytest

import loopwright as lw
from loopwright.compat.dispatch import DispatchSortScan
from loopwright.ir import structural_equal
from loopwright.relax.transform import LegalizeOps
from loopwright.script import ir as I
from loopwright.script import relax as R


@I.ir_module
class Sorts:
    I.module_global_infos({"vdevice": [I.vdevice("llvm", 0)]})

    @R.function
    def main(x: R.Tensor(("m", 3), "float32", "llvm")):
        with R.dataflow():
            a = R.cumsum(R.sort(x, axis=1, descending=True), axis=1, dtype="float64")
            b = R.argsort(x, axis=0, dtype="int32")
            c = R.topk(x, k=2, axis=1)
            d = R.add(x, x)
            y = (a, b, c, d)
            R.output(y)
        return y


def test_sorts_become_kernels_and_the_rest_stays():
    made = DispatchSortScan()(Sorts)
    text = made["main"].script()
    assert "R.sort" not in text and "R.topk" not in text and "R.add(" in text
    assert text.count("R.call_tir") == 4
    assert structural_equal(made["main"].ret_struct_info, Sorts["main"].ret_struct_info)


def test_a_value_without_a_device_needs_a_target():
    @R.function
    def plain(x: R.Tensor((3,), "float32")):
        return R.sort(x)

    with pytest.raises(ValueError, match="the target to choose an implementation for is not known"):
        DispatchSortScan()(lw.IRModule({"plain": plain}))
    with lw.Target("llvm"):
        made = DispatchSortScan()(lw.IRModule({"plain": plain}))
    assert "call_tir" in LegalizeOps()(made)["plain"].script()
