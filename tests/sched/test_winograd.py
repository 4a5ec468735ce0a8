"""The rule for Winograd's transforms: what it unrolls, and what follows of their results."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import loopwright as lw
from loopwright import relax
from loopwright.base.host import host
from loopwright.ir.prim_expr import Var
from loopwright.ir.transform import PassContext
from loopwright.relax import op

from ..drawing import drawn
from ..relax.transform.graphs import graph

TABLE = drawn("test_winograd")
WEIGHT = (TABLE.standard_normal((40, 32, 3, 3)) / 17).astype("float32")


def network(after: Any, shape: tuple[Any, ...], **attrs: Any) -> lw.IRModule:
    weight = relax.const(WEIGHT)
    return graph(lambda emit, x: after(emit, emit(op.nn.conv2d(x, weight, **attrs))), shape)


def compiled(mod: lw.IRModule, tile: int) -> Any:
    with PassContext(config={"relax.winograd_tile": tile}):
        return lw.compile(mod, target="llvm -mcpu=native")


AFTER = {
    "nothing": lambda emit, y: op.nn.relu(y),
    "a sum": lambda emit, y: op.nn.relu(emit(op.add(y, relax.const(np.ones((40, 1, 1), "f4"))))),
    "itself": lambda emit, y: op.multiply(y, emit(op.sigmoid(y))),
    "a transposition": lambda emit, y: op.permute_dims(y, [0, 2, 3, 1]),
    "a window": lambda emit, y: op.nn.max_pool2d(y, (2, 2), (2, 2)),
    "twice": lambda emit, y: op.add(emit(op.nn.relu(y)), emit(op.mean(y, [2, 3], True))),
}


@pytest.mark.sample(6)
@pytest.mark.parametrize("tile", [2, 4])
@pytest.mark.parametrize("after", AFTER)
def test_what_follows(after: str, tile: int) -> None:
    mod = network(AFTER[after], (2, 32, 13, 18), padding=(1, 1))
    x = np.random.default_rng(0).standard_normal((2, 32, 13, 18)).astype("float32")
    fast = compiled(mod, tile)
    pays = (
        tile == 4 or "avx512f" in host().record.features
    )  # with narrower vectors tiles of two do not
    assert ("winograd_join" in fast.lowered.script()) == pays
    want = compiled(mod, 0)["main"](x).numpy()
    np.testing.assert_allclose(fast["main"](x).numpy(), want, atol=2e-5)


@pytest.mark.sample(2)
@pytest.mark.parametrize("tile", [2, 4])
@pytest.mark.parametrize("padding", [(0, 0, 0, 0), (1, 0, 2, 1)])
def test_paddings_and_an_unknown_batch(
    rng: np.random.Generator, padding: tuple[int, ...], tile: int
) -> None:
    mod = network(AFTER["a sum"], (Var("n", "int64"), 32, 9, 11), padding=padding)
    fast, plain = compiled(mod, tile), compiled(mod, 0)
    for n in (0, 1, 3):
        x = rng.standard_normal((n, 32, 9, 11)).astype("float32")
        np.testing.assert_allclose(fast["main"](x), plain["main"](x), atol=2e-5)


def test_sums_are_of_what_has_a_factor() -> None:
    text = compiled(network(AFTER["nothing"], (1, 32, 16, 16), padding=(1, 1)), 2).lowered.script()
    kernel = text[text.index("def winograd_tiles") :]
    kernel = kernel[: kernel.index("@T.prim_func")]
    assert "T.float32(0.0)" in kernel  # beside the image
    sums = [line for line in kernel.splitlines() if "winograd_rows[" in line and " = " in line]
    assert sums and all("Select" not in s and "if_then_else" not in s for s in sums)
    assert "for i0 in" not in kernel
