"""Programs of Relay that are refused, with what is said of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from loopwright import IRModule, relay
from loopwright.base.errors import LoopwrightError
from loopwright.relay import transform as passes
from loopwright.relay.walk import rebuilt

pytestmark = pytest.mark.no_roundtrip
x, image = relay.var("x", shape=(2, 3)), relay.var("image", shape=(1, 3, 8, 8))
taps = relay.var("taps", shape=(4, 3, 3, 3))
wide = relay.nn.contrib_conv2d_winograd_weight_transform
TYPE = relay.TensorType((2, 3))
size = relay.var("size", shape=(2,), dtype="int64")


def typed(body: Any) -> IRModule:
    return passes.InferType()(IRModule.from_expr(body))


def evaluated(func: Any) -> Any:
    return relay.create_executor("debug").evaluate(func)


def resized(mode: str) -> Any:
    body = relay.image.resize2d(image, size, coordinate_transformation_mode=mode)
    return evaluated(relay.Function([image, size], body))


def called(callee: Any) -> Any:
    return evaluated(relay.Function([callee, x], callee(x)))


REFUSED: dict[str, Callable[[], Any]] = {
    r"pad_width has a pair for each of 2 axes\n  got: \(\(1, 1\),\)": lambda: typed(
        relay.nn.pad(x, ((1, 1),))
    ),
    r"tiles of at least 1, and windows of at least 2\n  got: tile_size 0, windows \[3, 3\]": lambda: (
        typed(wide(taps, 0))
    ),
    r"tiles of at least 1, and windows of at least 2\n  got: tile_size 2, windows \[2, 1\]": lambda: (
        typed(wide(relay.var("taps", shape=(4, 3, 2, 1)), 2))
    ),
    "the number of elements must stay\n  got: 6 into 8": lambda: typed(
        relay.reshape_like(x, relay.var("y", shape=(2, 4)))
    ),
    "a tensor of layout NCHW has 4 axes\n  got: Tensor": lambda: typed(relay.nn.conv2d(x, taps)),
    "unknown ret_type\n  got: 'both '\n  instead: did you mean both": lambda: typed(
        relay.topk(x, 1, ret_type="both ")
    ),
    r"dyn\.image\.resize2d: a region of run time is not known to the resize operators": lambda: (
        resized("tf_crop_and_resize")
    ),
    "exp takes 1 arguments\n  got: 2": lambda: typed(relay.Call(relay.op.get("exp"), [x, x])),
    "the function takes 1 arguments\n  got: 2": lambda: typed(
        relay.Call(relay.Function([x], x), [x, x])
    ),
    "the operator reverse has no rule for mixed precision": lambda: passes.ToMixedPrecision(
        "float16", missing_op_mode=0
    )(typed(relay.reverse(x, 0))),
    "a function as a value has no meaning in Relax here\n  got: free_var %g": lambda: called(
        relay.var("g", type_annotation=relay.FuncType([TYPE], TYPE))
    ),
    "a parameter of a function can only be replaced by a variable": lambda: rebuilt(
        relay.Function([x], x), {id(x): relay.const(1.0)}
    ),
}


@pytest.mark.parametrize("message", REFUSED)
def test_refused(message: str) -> None:
    with pytest.raises((LoopwrightError, TypeError), match=message):
        REFUSED[message]()


def test_the_least_that_is_accepted() -> None:
    least = relay.var("taps", shape=(4, 3, 2, 2))
    assert typed(wide(least, 2))["main"].ret_type.shape[0] == 3  # the tile and the window, less 1
    assert typed(wide(least, 1))["main"].ret_type.shape[0] == 2
    data = np.arange(12, dtype="float32").reshape(1, 3, 2, 2)
    func = relay.Function([image, size], relay.image.resize2d(image, size))
    assert evaluated(func)(np.zeros((1, 3, 8, 8), "float32"), np.array([4, 5])).shape == (
        1,
        3,
        4,
        5,
    )
    kept = relay.var("kept", shape=(1, 3, 2, 2))
    same = evaluated(relay.Function([kept], relay.squeeze(kept, axis=[])))(data)
    np.testing.assert_array_equal(same.numpy(), data)


def test_sums_along_an_unknown_extent() -> None:
    open_, truths = (
        relay.var("x", shape=(relay.Any(), 3)),
        relay.var("b", shape=(2, 3), dtype="bool"),
    )
    for body, wanted in (
        (relay.cumsum(open_), "Tensor[(?), float32]"),
        (relay.cumsum(open_, axis=1), "Tensor[(?, 3), float32]"),
        (relay.cumsum(truths, axis=1), "Tensor[(2, 3), int32]"),
        (relay.cumsum(truths), "Tensor[(6), int32]"),
    ):
        assert str(typed(body)["main"].ret_type) == wanted
    sums = evaluated(relay.Function([truths], relay.cumsum(truths, axis=1)))
    assert sums(np.ones((2, 3), bool)).numpy().tolist() == [[1, 2, 3]] * 2
