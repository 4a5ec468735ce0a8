"""Extents that only the run can compare: they broadcast, or are refused, in every target."""

from __future__ import annotations

import numpy as np
import pytest

import loopwright as lw
from loopwright.script import ir as I
from loopwright.script import relax as R
from loopwright.script import tir as T


@I.ir_module
class Sum:
    @R.function
    def main(x: R.Tensor(("a", "b"), "float32"), y: R.Tensor(("m", 3), "float32")):
        return R.add(x, y)


@I.ir_module
class Product:
    @R.function
    def main(x: R.Tensor(("a", "b"), "float32"), y: R.Tensor(("m", 3), "float32")):
        return R.matmul(x, y)


@I.ir_module
class Choice:
    @R.function
    def main(x: R.Tensor(("a", "b"), "float32"), y: R.Tensor(("m", 3), "float32")):
        positive = R.greater(y, R.const(0, "float32"))
        return R.where(positive, x, y)


@I.ir_module
class Spread:
    @R.function
    def main(x: R.Tensor(("a", "b"), "float32"), y: R.Tensor(("m", 3), "float32")):
        m = T.int64()
        return R.add(R.broadcast_to(x, (m, 3)), y)


MEANINGS = {
    "Sum": (Sum, np.add),
    "Product": (Product, np.matmul),
    "Choice": (Choice, lambda x, y: np.where(y > 0, x, y)),
    "Spread": (Spread, lambda x, y: np.broadcast_to(x, y.shape) + y),
}
SIZES = [
    (2, 3, 2),
    (2, 3, 1),
    (1, 3, 4),
    (1, 1, 3),
    (2, 1, 1),
    (0, 3, 1),
    (1, 3, 0),
    (2, 3, 5),
    (4, 2, 4),
]


@pytest.mark.parametrize("target", ["llvm", "c"])
@pytest.mark.parametrize("name", list(MEANINGS))
def test_extents_that_only_the_run_compares(name, target, tmp_path):
    mod, meaning = MEANINGS[name]
    exe = lw.compile(mod, target=target)
    run = (exe.build(tmp_path) if target == "c" else exe)["main"]
    rng, right = np.random.default_rng(0), 0
    for a, b, m in SIZES:
        x, y = rng.uniform(-1, 1, (a, b)), rng.uniform(-1, 1, (m, 3))
        x, y = x.astype("float32"), y.astype("float32")
        try:
            expected = meaning(x, y)
        except ValueError:
            with pytest.raises((ValueError, RuntimeError), match="another extent than expected"):
                run(x, y)
            continue
        np.testing.assert_allclose(np.from_dlpack(run(x, y)), expected, rtol=1e-5)
        right += 1
    assert 1 <= right < len(SIZES)
