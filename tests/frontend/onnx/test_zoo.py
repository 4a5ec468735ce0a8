"""The zoo's models, imported, give onnxruntime's outputs in the Relax interpreter."""

from __future__ import annotations

import pytest

from loopwright.arith import Analyzer
from loopwright.frontend.onnx import from_onnx
from loopwright.ir.op import Op
from loopwright.relax.analysis import assert_well_formed
from loopwright.relax.relations import can_prove_shape_equal
from tests.models.conftest import relative_error, zoo  # noqa: F401  (a fixture)

from .support import interpreted

pytestmark = pytest.mark.no_roundtrip  # whole models; their printing is tested on small modules


@pytest.mark.sample(3)
@pytest.mark.budget(15)
@pytest.mark.parametrize("name", ["ppocr-cls", "magika", "centerface"])
def test_zoo(zoo, name):  # noqa: F811
    model = zoo(name)
    mod = from_onnx(model.path)
    assert_well_formed(mod)
    for case in model.cases:
        got = interpreted(mod, case.feeds)
        assert list(mod.attrs["output_names"]) == list(case.expected)
        for value, expected in zip(got, case.expected.values(), strict=True):
            assert relative_error(value, expected) <= 1e-4


def test_centerface_adds_levels_whose_sizes_it_cannot_compare(zoo):  # noqa: F811
    """Three sums add a coarse level, doubled, to a finer one, as long as it where 32 divides H and W."""
    mod = from_onnx(zoo("centerface").path)
    (block,) = mod["main"].body.blocks
    (param,) = mod["main"].params
    height = param.struct_info.shape[2]
    adds = [b for b in block.bindings if getattr(b.value, "op", None) is Op.get("relax.add")]
    sums = [
        b for b in adds if not can_prove_shape_equal(*(a.struct_info.shape for a in b.value.args))
    ]
    sums = [b.var.struct_info.shape[2] for b in sums if b.value.args[1].struct_info.shape[2] != 1]
    for got, scale in zip(sums, (2, 4, 8), strict=True):
        assert Analyzer().can_prove_equal(got, (height + 31) // 32 * scale)


def test_shape_chains_leave_no_bindings(zoo):  # noqa: F811
    names = {
        b.value.op.name
        for name in ("ppocr-cls", "magika")
        for block in from_onnx(zoo(name).path)["main"].body.blocks
        for b in block.bindings
        if hasattr(b.value, "op")
    }
    assert "relax.reshape" in names
    assert not names & {"relax.shape_of", "relax.shape_to_tensor", "relax.concat", "relax.take"}
