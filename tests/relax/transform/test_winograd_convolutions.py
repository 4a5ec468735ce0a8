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
    """The tile of its convolution, or that the pass takes; 0: none."""
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
        network(rng, channels=512, side=4),
        network(rng, channels=512, side=8),
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


def of_bytes(rng: np.random.Generator, shape: Any, weight: np.ndarray, dtype: str) -> lw.IRModule:
    """The convolution of a quantized image, its zero point around it."""
    zero = relax.const(np.asarray(7, dtype))
    convolve = lambda emit, x: op.nn.byte_conv2d(x, relax.const(weight), zero, padding=1)  # noqa: E731
    return graph(convolve, shape, dtype=dtype)


WINDOWS = [  # shape, outputs, the size of all weights, the tile: results are below 2**29 or 2**25
    ((2, 17, 17, 18), 13, 127, 4),
    ((1, 128, 8, 8), 8, 114, 4),
    ((1, 128, 8, 8), 8, 115, 2),
    ((1, 1856, 5, 4), 16, 126, 2),
    ((1, 1856, 5, 4), 16, 127, 0),
]


@pytest.mark.sample(3)
@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize(("shape", "outputs", "size", "tile"), WINDOWS)
def test_bytes_are_exact(
    rng: np.random.Generator, shape: Any, outputs: int, size: int, tile: int, sign: int
) -> None:
    weight = np.full((outputs, shape[1], 3, 3), sign * size, np.int8)
    weight[1:] = rng.integers(-size, size + 1, weight[1:].shape)
    mod = of_bytes(rng, shape, weight, "uint8")
    with lw.Target("llvm -mtriple=x86_64-linux-gnu -mcpu=skylake-avx512"):
        fast = WinogradConvolutions(pays=100)(BlockedLayout(block=16)(mod))
    assert tile_of(fast, 0) == tile
    x = np.full(shape, 255, np.uint8)
    x[..., 5:] = rng.integers(0, 256, x[..., 5:].shape)
    want = Interpreter(mod)["main"](x).numpy()
    np.testing.assert_array_equal(Interpreter(fast)["main"](x).numpy(), want)
    np.testing.assert_array_equal(lw.compile(fast)["main"](x).numpy(), want)


SIGNED = [("haswell", 96), ("skylake-avx512", 96), ("cascadelake", 128)]


@pytest.mark.parametrize(("cpu", "channels"), SIGNED)
def test_products_of_words_are_of_the_processor(
    rng: np.random.Generator, cpu: str, channels: int
) -> None:
    """Signed bytes whose largest result needs the sum of all weights; the cost decides, and the loops keep the numbers."""
    weight = rng.integers(-64, 65, (channels, channels, 3, 3)).astype(np.int8)
    shape = (1, channels, 26, 22)
    mod = of_bytes(rng, shape, weight, "int8")
    scheduled = lw.lower(mod, f"llvm -mtriple=x86_64-linux-gnu -mcpu={cpu}")
    text = scheduled.last("ApplyDefaultSchedule").after.script()
    words = {"haswell": "avx2.pmadd.wd", "cascadelake": "vpdpwssd.512"}.get(cpu, "pmaddw.d.512")
    assert "winograd_join" in text and words in text
    x = rng.integers(-128, 128, shape).astype(np.int8)
    want = Interpreter(mod)["main"](x).numpy()
    np.testing.assert_array_equal(lw.compile(mod)["main"](x).numpy(), want)


REFUSED = {
    "tiles of 3": ("winograd_tiles", ["uint8", "uint8"], [(1, 1, 8, 8, 4), ()], {"tile": 3, "padding": [1] * 4}),
    "windows": ("winograd_weight", ["int8"], [(4, 4, 3, 3)], {"tile": 6, "block": 4}),
    "sums of 6": ("winograd_join", ["int32"], [(8, 8, 1, 2, 2, 4)], {"tile": 6, "sides": [8, 8], "block": 4}),
}  # fmt: skip


@pytest.mark.parametrize(("name", "dtypes", "shapes", "attrs"), REFUSED.values(), ids=REFUSED)
def test_tiles_of_bytes_that_do_not_fit(name: str, dtypes: Any, shapes: Any, attrs: Any) -> None:
    given = [
        relax.Var(f"x{k}", relax.TensorStructInfo(shape, kind))
        for k, (shape, kind) in enumerate(zip(shapes, dtypes, strict=True))
    ]
    with pytest.raises(ValueError, match="a tile of bytes is of 2 or 4"):
        relax.BlockBuilder().normalize(getattr(op.nn, name)(*given, **attrs))
