"""Factors along channels that move into weights: where they go, and that no number changes."""

from typing import Any

import numpy as np
import pytest

from loopwright import relay
from loopwright.relay import transform as passes
from loopwright.relay.walk import post_order
from tests.relay.test_passes import after, agree, names

from ..drawing import drawn

TABLE = drawn("test_fold_scale_axis")

pytestmark = pytest.mark.no_roundtrip

nn = relay.nn
FORWARD, BACKWARD = passes.ForwardFoldScaleAxis(), passes.BackwardFoldScaleAxis()
x = relay.var("x", shape=(2, 4, 6, 6))
wide = relay.var("wide", shape=(2, 6, 6, 4))
rows = relay.var("rows", shape=(3, 4))
blocks = relay.var("blocks", shape=(2, 2, 6, 6, 2))
w = relay.var("w", shape=(8, 4, 3, 3))


def const(rng: np.random.Generator, *shape: int, low: float = 0.5) -> relay.Constant:
    return relay.const(rng.uniform(low, 2, shape).astype("float32"))


def conv(data: Any, weight: Any = w, **options: Any) -> Any:
    return nn.conv2d(data, weight, padding=(1, 1), **options)


scale, scale8 = const(TABLE, 4, 1, 1), const(TABLE, 8, 1, 1)
bias, bias8 = relay.var("bias", shape=(4, 1, 1)), relay.var("bias8", shape=(8, 1, 1))
depthwise = relay.var("d", shape=(4, 1, 3, 3))
HWIO = relay.var("hwio", shape=(3, 3, 4, 8))
BLOCKED = {"data_layout": "NCHW2c", "kernel_layout": "OIHW2i4o"}
packed = relay.var("packed", shape=(2, 2, 3, 3, 2, 4))
middle = relay.multiply(x, scale)
first = conv(x)

some = relay.const(np.array([1, -1, 2, 3], "float32").reshape(4, 1, 1))

FOLDED = {
    "a convolution": (FORWARD, conv(relay.multiply(x, scale))),
    "through relu and add": (FORWARD, conv(relay.add(nn.relu(relay.multiply(scale, x)), bias))),
    "by a variable": (FORWARD, conv(relay.multiply(x, relay.var("s", shape=(4, 1, 1))))),
    "by ones and less": (FORWARD, conv(relay.add(relay.multiply(x, some), bias))),
    "from a constant": (FORWARD, conv(relay.subtract(bias, relay.multiply(x, scale)))),
    "negative": (FORWARD, conv(relay.multiply(x, const(TABLE, 4, 1, 1, low=-2)))),
    "one number": (FORWARD, conv(nn.leaky_relu(relay.multiply(x, relay.const(3.0)), 0.1))),
    "of each channel": (FORWARD, conv(relay.multiply(x, scale), depthwise, groups=4)),
    "NHWC": (
        FORWARD,
        conv(relay.multiply(wide, const(TABLE, 4)), HWIO, data_layout="NHWC", kernel_layout="HWIO"),
    ),
    "blocks": (FORWARD, conv(relay.multiply(blocks, const(TABLE, 1, 2, 1, 1, 2)), packed, **BLOCKED)),
    "rows": (FORWARD, nn.dense(relay.multiply(rows, const(TABLE, 4)), relay.var("m", shape=(5, 4)))),
    "two users": (FORWARD, relay.add(conv(middle), conv(middle, relay.var("v", shape=(8, 4, 3, 3))))),
    "back": (BACKWARD, relay.multiply(conv(x), scale8)),
    "back through relu and add": (
        BACKWARD,
        relay.multiply(nn.relu(relay.subtract(bias8, conv(x))), scale8),
    ),
    "back by a variable": (BACKWARD, relay.multiply(bias8, relay.add(conv(x), bias8))),
    "back through bias_add": (
        BACKWARD,
        relay.multiply(nn.bias_add(conv(x), relay.var("b", shape=(8,)), -3), scale8),
    ),
    "back to both": (
        BACKWARD,
        relay.multiply(relay.add(conv(x), conv(nn.relu(x))), scale8),
    ),
    "back into blocks": (
        BACKWARD,
        relay.multiply(conv(blocks, packed, out_layout="NCHW4c", **BLOCKED), const(TABLE, 1, 2, 1, 1, 4)),
    ),
    "back into rows": (
        BACKWARD,
        relay.multiply(nn.dense(rows, relay.var("m", shape=(5, 4))), const(TABLE, 5)),
    ),
    "back by one number": (BACKWARD, relay.multiply(relay.const(-2.0), first)),
}  # fmt: skip


def products(func: Any) -> set[str]:
    """The types of what is multiplied."""
    calls = [n for n in post_order(func) if isinstance(n, relay.Call)]
    return {str(n.checked_type) for n in calls if n.op.name == "multiply"}


@pytest.mark.sample(4)
@pytest.mark.parametrize("case", FOLDED)
def test_a_factor_moves(rng: np.random.Generator, case: str) -> None:
    step, expr = FOLDED[case]
    data = products(after(expr))
    assert data and not data & products(after(expr, step))
    agree(rng, expr, step)


variable = relay.var("s", shape=(4, 1, 1))
grouped = relay.var("g", shape=(8, 2, 3, 3))
zero = relay.const(np.array([1, 0, 2, 3], "float32").reshape(4, 1, 1))
KEPT = {
    "not positive before relu": (FORWARD, conv(nn.relu(relay.multiply(x, variable)))),
    "a zero before add": (FORWARD, conv(relay.add(relay.multiply(x, zero), bias))),
    "a zero before relu and add": (
        FORWARD, conv(relay.add(nn.relu(relay.multiply(x, zero)), bias)),
    ),
    "less than zero before relu": (FORWARD, conv(nn.relu(relay.multiply(x, some)))),
    "another user": (FORWARD, relay.Tuple([conv(middle), middle])),
    "another axis": (FORWARD, conv(relay.multiply(x, const(TABLE, 6, 1)))),
    "more than an axis": (FORWARD, conv(relay.multiply(x, const(TABLE, 4, 6, 1)))),
    "groups": (FORWARD, conv(relay.multiply(x, scale), grouped, groups=2)),
    "another operator": (FORWARD, conv(relay.exp(relay.multiply(x, scale)))),
    "back to what is used twice": (BACKWARD, relay.Tuple([relay.multiply(first, scale8), first])),
    "back by less than zero": (
        BACKWARD,
        relay.multiply(nn.relu(conv(x)), relay.const(np.full((8, 1, 1), -1, "float32"))),
    ),
    "back to what is repeated": (
        BACKWARD,
        relay.multiply(relay.var("one", shape=(1, 8, 1, 1)), relay.const(np.ones((2, 8, 3, 3)))),
    ),
    "integers": (
        BACKWARD,
        relay.multiply(
            nn.conv2d(relay.var("i", shape=(1, 4, 6, 6), dtype="int32"),
                      relay.var("k", shape=(8, 4, 3, 3), dtype="int32")),
            relay.const(np.full((8, 1, 1), 3, "int32")),
        ),
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", KEPT)
def test_a_factor_stays(case: str) -> None:
    step, expr = KEPT[case]
    before = after(expr)
    assert names(step.run_function(before, None)) == names(before)
    assert step.run_function(before, None) is before


def test_fold_scale_axis_computes_constants(rng: np.random.Generator) -> None:
    weight = const(rng, 8, 4, 3, 3)
    expr = relay.multiply(nn.relu(relay.add(conv(x, weight), const(rng, 8, 1, 1))), scale8)
    assert names(after(expr, passes.FoldScaleAxis())) == ["nn.conv2d", "add", "nn.relu"]
    agree(rng, expr, passes.FoldScaleAxis())
