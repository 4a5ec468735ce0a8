"""Convolutions that become products of tiles, and those that stay."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import loopwright as lw
from loopwright import relax
from loopwright.ir.transform import PassContext
from loopwright.relax import op
from loopwright.relax.interpreter import Interpreter
from loopwright.relax.transform import BlockedLayout, WinogradConvolutions
from loopwright.relax.transform.legalize_ops.common import LEGALIZATIONS, register_legalize

from .graphs import graph


def network(
    rng: np.random.Generator, size: int = 3, channels: int = 64, side: int = 16, **attrs: Any
) -> lw.IRModule:
    shape = (channels, channels // attrs.get("groups", 1), size, size)
    weight = relax.const((rng.standard_normal(shape) / size**2).astype("float32"))
    mod = graph(lambda emit, x: op.nn.conv2d(x, weight, **attrs), (1, channels, side, side))
    return BlockedLayout(block=16)(mod)


def names(mod: lw.IRModule) -> list[str]:
    values = [b.value for block in mod["main"].body.blocks for b in block.bindings]
    return [v.op.name.removeprefix("relax.nn.") for v in values if isinstance(v, relax.Call)]


def tile_of(mod: lw.IRModule, most: int) -> int:
    """The tile that the pass takes; 0: none."""
    values = [
        b.value
        for block in WinogradConvolutions(most)(mod)["main"].body.blocks
        for b in block.bindings
    ]
    found = [int(v.attrs.tile) for v in values if isinstance(v, relax.Call) and "join" in v.op.name]
    return found[0] if found else 0


@pytest.mark.parametrize("tile", [2, 4])
def test_the_same_numbers(rng: np.random.Generator, tile: int) -> None:
    mod = network(rng, side=11, padding=(1, 2))
    fast = WinogradConvolutions(tile)(mod)
    assert "winograd_join" in names(fast) and "conv2d" not in names(fast)
    x = rng.standard_normal((1, 64, 11, 11)).astype("float32")
    got, want = (Interpreter(m)["main"](x).numpy() for m in (fast, mod))
    np.testing.assert_allclose(got, want, atol={2: 3e-6, 4: 3e-5}[tile] * abs(want).max())


@pytest.mark.parametrize(
    ("size", "attrs"),
    [
        (5, {}), (1, {}), (3, {"strides": [2, 2]}), (3, {"strides": [1, 2]}), (3, {"dilation": [2, 2]}),
        (3, {"groups": 2}), (3, {"groups": 64}),
    ],
)  # fmt: skip
def test_what_stays(rng: np.random.Generator, size: int, attrs: dict[str, Any]) -> None:
    mod = network(rng, size, **attrs)
    assert WinogradConvolutions(4)(mod).same_as(mod)


def test_the_tile_that_takes_the_least_time(rng: np.random.Generator) -> None:
    large, small, few = (
        network(rng, side=56),
        network(rng, channels=512, side=7),
        network(rng, side=12),
    )
    assert [tile_of(large, most) for most in (0, 2, 4)] == [0, 2, 4]
    assert tile_of(small, 4) == 0  # the weights are read for a few tiles
    assert tile_of(few, 4) == 2  # four by four would go beyond the image


def test_it_is_asked_for(rng: np.random.Generator) -> None:
    mod = network(rng)
    assert WinogradConvolutions()(mod).same_as(mod)
    with PassContext(config={"relax.winograd_tile": 4}):
        assert "winograd_join" in names(WinogradConvolutions()(mod))
    with pytest.raises(ValueError, match="relax.winograd_tile is 0, 2 or 4"):
        WinogradConvolutions(3)(mod)


def test_a_kernel_of_the_users_stays(rng: np.random.Generator) -> None:
    mod = network(rng)
    with LEGALIZATIONS.registry.snapshot(), lw.Target("llvm"):
        register_legalize("relax.nn.conv2d", lambda bb, call: None, target="llvm")
        assert WinogradConvolutions(4)(mod).same_as(mod)
