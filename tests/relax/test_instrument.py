"""WellFormedInstrument: what it refuses, and when it looks."""

from __future__ import annotations

import pytest

from loopwright import relax
from loopwright.base.errors import LoopwrightError
from loopwright.ir.module import IRModule
from loopwright.ir.transform import PassContext, module_pass
from loopwright.relax import op
from loopwright.relax.transform import Normalize
from loopwright.script import relax as R
from loopwright.tvm.relax.instrument import WellFormedInstrument


@R.function(private=True)
def good(x: R.Tensor((2,), "float32")):
    y = R.exp(x)
    return y


GOOD = IRModule({"main": good})
stranger = relax.Var("stranger", good.params[0].struct_info)
BAD = IRModule({"main": good.replace(params=(stranger,))})


def gives(result: IRModule):
    """A pass that returns this module."""
    return module_pass(lambda mod, ctx: result, opt_level=0, name="Gives")


def test_the_result_of_a_pass_is_checked():
    with PassContext(instruments=[WellFormedInstrument()]):
        assert gives(GOOD)(GOOD) is GOOD
        with pytest.raises(LoopwrightError, match="x is used"):
            gives(BAD)(GOOD)


def test_what_a_pass_is_given_is_checked():
    context = PassContext(instruments=[WellFormedInstrument()])
    with context, pytest.raises(LoopwrightError, match="not well formed"):
        gives(GOOD)(BAD)
    with PassContext(instruments=[WellFormedInstrument(validate_before_transform=False)]):
        assert gives(GOOD)(BAD) is GOOD


@pytest.mark.no_roundtrip  # printed and parsed it is in normal form
def test_passes_that_mend_are_let_through():
    x = good.params[0]
    nested = IRModule({"main": relax.Function([x], op.exp(op.exp(x)))})
    with PassContext(instruments=[WellFormedInstrument()]):
        with pytest.raises(LoopwrightError, match="not well formed"):
            gives(GOOD)(nested)
        Normalize()(nested)
