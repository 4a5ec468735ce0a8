"""FuseOps: which calls become one kernel."""

from __future__ import annotations

from typing import Any

import pytest

from loopwright import IRModule, relay
from loopwright.relay import transform as passes
from loopwright.relay.walk import post_order

pytestmark = pytest.mark.no_roundtrip
nn = relay.nn
x, w, row = (relay.var(n, shape=s) for n, s in (("x", (4, 4)), ("w", (4, 4)), ("row", (4,))))
cube = relay.var("cube", shape=(3, 4, 4))
e, d = relay.exp(x), nn.dense(x, w)
left, right = relay.split(e, 2, 1)


def kernels(expr: Any, level: int = 2, **options: Any) -> list[str]:
    """The operators of each kernel."""
    mod = passes.InferType()(IRModule.from_expr(expr))
    config = {f"relay.FuseOps.{name}": value for name, value in options.items()}
    with passes.PassContext(config=config):
        func = passes.FuseOps(level)(mod)["main"]
    found = [
        n for n in post_order(func) if isinstance(n, relay.Function) and "Primitive" in n.attrs
    ]
    return sorted(
        " ".join(c.op.name for c in post_order(k) if isinstance(c, relay.Call)) for k in found
    )


FUSED: list[tuple[Any, list[str]]] = [
    (relay.tanh(e) + relay.sin(e), ["exp tanh sin add"]),
    (relay.sin(relay.cos(e)) + e, ["exp cos sin add"]),
    (e + relay.sin(relay.cos(e)), ["exp cos sin add"]),
    (relay.transpose(e) + relay.cos(e), ["exp transpose cos add"]),
    (nn.softmax(e) + e, ["exp", "nn.softmax add"]),
    (relay.sum(e, 1), ["exp sum"]),
    (relay.tanh(relay.sum(e, 1)), ["exp sum", "tanh"]),
    (relay.sum(relay.sum(e, 1)), ["exp sum", "sum"]),
    (relay.sum(relay.transpose(e), 0), ["exp transpose", "sum"]),
    (relay.sum(e, 1, True) + e, ["add", "exp", "sum"]),
    (x + relay.sum(relay.tanh(row)), ["add", "tanh sum"]),
    (relay.argmax(e, 1) + relay.argmax(e, 0), ["add", "argmax", "argmax", "exp"]),
    (nn.relu(nn.bias_add(d, row)), ["nn.dense nn.bias_add nn.relu"]),
    (nn.relu(d) + relay.tanh(d), ["nn.dense nn.relu tanh add"]),
    (d + cube, ["add", "nn.dense"]),  # the sum is larger
    (relay.transpose(d), ["nn.dense", "transpose"]),
    (relay.sum(nn.relu(d)), ["nn.dense nn.relu", "sum"]),
    (nn.softmax(d) + d, ["nn.dense", "nn.softmax add"]),
    (nn.dense(x, w) + nn.dense(w, x), ["nn.dense", "nn.dense add"]),
    (nn.dense(e, w), ["exp", "nn.dense"]),
    (nn.dense(relay.reshape(relay.var("r", shape=(16,)), (4, 4)), w), ["nn.dense", "reshape"]),
    (relay.exp(relay.reshape(e, (16,))), ["exp reshape exp"]),
    (relay.take(e, relay.const([0, 1]), 0), ["exp take"]),
    (relay.tanh(row + x), ["add tanh"]),
    (relay.concatenate([e, relay.tanh(x)], 0), ["exp tanh concatenate"]),
    (relay.concatenate([e, relay.tanh(e)], 0), ["exp tanh concatenate"]),
    (relay.concatenate([d, relay.tanh(x)], 0), ["nn.dense", "tanh concatenate"]),
    (relay.tanh(left) + right, ["exp split tanh add"]),
    (relay.tanh(left), ["exp split tanh"]),
    (relay.Tuple([e, relay.tanh(e)]), ["exp", "tanh"]),
    (relay.Tuple([relay.tanh(e), relay.sin(e)]), ["exp", "sin", "tanh"]),
    (relay.If(relay.const(True), relay.tanh(e), e), ["exp", "tanh"]),
    (relay.Let(relay.var("v"), e, relay.tanh(x)), ["exp", "tanh"]),
]


@pytest.mark.parametrize(("expr", "wanted"), FUSED)
def test_kernels(expr: Any, wanted: list[str]) -> None:
    assert kernels(expr) == wanted


@pytest.mark.parametrize(
    ("expr", "most", "wanted"),
    [
        (relay.exp(relay.tanh(relay.sin(x))), 1, ["exp", "sin", "tanh"]),
        (relay.exp(relay.tanh(relay.sin(x))), 2, ["exp", "sin tanh"]),
        (relay.exp(relay.tanh(relay.sin(x))), 3, ["sin tanh exp"]),
        (relay.tanh(e) + relay.sin(e), 3, ["exp", "tanh sin add"]),
        (relay.tanh(e) + relay.sin(e), 4, ["exp tanh sin add"]),
    ],
)
def test_the_largest_kernel(expr: Any, most: int, wanted: list[str]) -> None:
    assert kernels(expr, max_depth=most) == wanted


@pytest.mark.parametrize(("level", "wanted"), [(0, ["exp", "tanh"]), (1, ["exp tanh"])])
def test_levels(level: int, wanted: list[str]) -> None:
    assert kernels(relay.tanh(e), level) == wanted
