"""Threads compute the same part of an image in one kernel after the other."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import loopwright as lw
from loopwright import relax
from loopwright.arith import Analyzer
from loopwright.ir.functor import post_order_visit
from loopwright.ir.prim_op import const
from loopwright.ir.variables import substitute
from loopwright.relax import op
from loopwright.tir.stmt import BlockRealize, For, ForKind


def conv(
    rng: np.random.Generator, channels: tuple[int, int], size: int, kernel: int, **options: Any
) -> lw.IRModule:
    shape = (channels[1], channels[0] // options.get("groups", 1), kernel, kernel)
    weight = relax.const((rng.standard_normal(shape) * 0.1).astype(np.float32))
    bb = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorStructInfo((1, channels[0], size, size), "float32"))
    with bb.function("main", [x]):
        with bb.dataflow():
            out = bb.emit_output(op.nn.conv2d(x, weight, padding=kernel // 2, **options))
        bb.emit_func_output(out)
    return bb.get()


def rows_of_tasks(mod: lw.IRModule) -> tuple[list[int], list[int]]:
    """Of each iteration of a convolution's parallel loop, the block of channels and the first pixel."""
    scheduled = lw.lower(mod)["ApplyDefaultSchedule"].after
    kernel = next(f for g, f in scheduled.functions.items() if "conv2d" in g.name_hint)
    loops: list[For] = []
    sums: list[BlockRealize] = []

    def collect(node: Any) -> None:
        if isinstance(node, For):
            loops.append(node)
        elif isinstance(node, BlockRealize) and "conv" in node.block.name_hint:
            sums.append(node)

    post_order_visit(kernel.body, collect)
    outer = next(f for f in loops if f.kind == ForKind.PARALLEL)
    zero = {f.loop_var: const(0, f.loop_var.dtype) for f in loops}
    channel, *pixel = sums[0].iter_values[1:4]
    ana = Analyzer()

    def at(value: Any, i: int) -> int:
        bound = zero | {outer.loop_var: const(i, outer.loop_var.dtype)}
        return ana.simplify(substitute(value, bound)).value

    tasks = range(ana.simplify(outer.extent).value)
    return [at(channel, i) for i in tasks], [at(pixel[0], i) + at(pixel[1], i) for i in tasks]


@pytest.mark.parametrize(
    ("channels", "size", "kernel", "groups"),
    [((64, 128), 28, 1, 1), ((64, 64), 28, 3, 1), ((96, 96), 14, 3, 96)],
)
def test_half_of_the_tasks_compute_half_of_the_image(
    rng: np.random.Generator, channels: tuple[int, int], size: int, kernel: int, groups: int
) -> None:
    mod = conv(rng, channels, size, kernel, groups=groups)
    blocks, pixels = rows_of_tasks(mod)
    half = len(pixels) // 2
    assert max(pixels[:half]) < min(pixels[half:])
    assert set(blocks[:half]) == set(blocks[half:]) and len(set(blocks)) > 1
    x = rng.standard_normal((1, channels[0], size, size)).astype(np.float32)
    want = np.asarray(relax.interpreter.Interpreter(mod)["main"](x))
    np.testing.assert_allclose(np.asarray(lw.compile(mod)["main"](x)), want, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("channels", "size", "groups"), [(256, 14, 1), (960, 7, 960)])
def test_channels_are_shared_where_weights_are_large_or_rows_odd(
    rng: np.random.Generator, channels: int, size: int, groups: int
) -> None:
    blocks, _ = rows_of_tasks(conv(rng, (channels, channels), size, 3, groups=groups))
    half = len(blocks) // 2
    assert max(blocks[:half]) <= min(blocks[half:])
