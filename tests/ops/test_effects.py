"""The operators with side effects: print and assert_op, interpreted and compiled."""

from __future__ import annotations

import numpy as np
import pytest

import loopwright as lw
from loopwright.relax.interpreter import Interpreter
from loopwright.script import ir as I
from loopwright.script import relax as R

# Lowered kernels take pointers and sizes; the graph function beside them still shows tensors.
pytestmark = pytest.mark.no_roundtrip


@I.ir_module
class Checked:
    @R.function(pure=False)
    def main(x: R.Tensor(("n",), "float32"), good: R.Tensor((), "bool")):
        _ = R.print(x, format="x is {}")
        _1 = R.assert_op(good, x, format="{} is not good")
        y = R.add(x, x)
        return y


@pytest.fixture(params=["interpreted", "compiled"])
def main(request):
    if request.param == "interpreted":
        return Interpreter(Checked)["main"]
    return lw.compile(Checked)["main"]


def test_effects_happen_in_order(main, capsys):
    x = np.array([1, 2], "float32")
    np.testing.assert_array_equal(main(x, np.array(True)).numpy(), [2, 4])
    assert capsys.readouterr().out == "x is [1. 2.]\n"
    with pytest.raises(AssertionError, match=r"\[1. 2.\] is not good"):
        main(x, np.array(False))
    assert capsys.readouterr().out == "x is [1. 2.]\n"


def test_they_stay_in_the_default_pipeline():
    text = lw.compile(Checked).mod.script()
    assert text.index("relax.run.print") < text.index("relax.run.assert_op")


def test_tuples_are_shown_by_elements_and_failures_by_arguments(capsys):
    @I.ir_module
    class Module:
        @R.function(pure=False)
        def main(x: R.Tensor((), "int32"), good: R.Tensor((), "bool")):
            _ = R.print((x, (x,)), format="{}")
            _1 = R.assert_op(good, [x, x])
            return x

    five, no = np.array(5, "int32"), np.array(False)
    for run in (Interpreter(Module)["main"], lw.compile(Module)["main"]):
        with pytest.raises(AssertionError, match="Assertion Failed: 5, 5"):
            run(five, no)
        assert capsys.readouterr().out == "(5, (5,))\n"
