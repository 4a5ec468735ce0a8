"""A back end of another layout: between two of its calls nothing is rearranged."""

from __future__ import annotations

import numpy as np
import pytest

import loopwright as lw
from loopwright import relax
from loopwright.ir.op import Op
from loopwright.ir.target import register_target_kind
from loopwright.relax.byoc import Backend
from loopwright.relax.dpl import is_op, wildcard
from loopwright.script import from_source

from ...drawing import drawn
from ...programs import graph

# The operators of the patterns are gone when the modules are printed.
pytestmark = pytest.mark.no_roundtrip
CONV = is_op("relax.nn.relu")(is_op("relax.nn.conv2d")(wildcard(), wildcard()))
BLOCKS = {
    "NHWC": (
        lambda x: relax.op.permute_dims(x, [0, 2, 3, 1]),
        lambda x: relax.op.permute_dims(x, [0, 3, 1, 2]),
        lambda n, c, h, w: (n, h, w, c),
    ),
    "NCHW4c": (
        lambda x: relax.op.layout_transform(x, lambda n, c, h, w: (n, c // 4, h, w, c % 4)),
        lambda x: relax.op.layout_transform(x, lambda n, c, h, w, b: (n, c * 4 + b, h, w)),
        lambda n, c, h, w: (n, c // 4, h, w, c % 4),
    ),
    "by reshape": (
        lambda x: relax.op.permute_dims(
            relax.op.reshape(x, (x.struct_info.shape[0], 2, 4, *x.struct_info.shape.values[2:])),
            [0, 1, 3, 4, 2],
        ),
        lambda x: relax.op.reshape(
            relax.op.permute_dims(x, [0, 1, 4, 2, 3]),
            (x.struct_info.shape[0], 8, *x.struct_info.shape.values[2:4]),
        ),
        lambda n, c, h, w: (n, c // 4, h, w, c % 4),
    ),
}


@pytest.fixture(autouse=True)
def box(forgotten):
    register_target_kind("box", ("llvm", "cpu"))


def kernel(layout: str):
    """A convolution by 1 x 1 filters and relu, of 8 channels, on data of a layout."""
    at = BLOCKS[layout][2]
    dims = {"NHWC": "(n, h, w, 8)"}.get(layout, "(n, 2, h, w, 4)")
    place = lambda c: ", ".join(map(str, at("i0", _Name(c), "i2", "i3")))  # noqa: E731
    return from_source(f"""
@T.prim_func(private=True)
def box_conv(x: T.handle, w_: T.Buffer((8, 8, 1, 1), "float32"), y: T.handle):
    n, h, w = T.int64(), T.int64(), T.int64()
    X = T.match_buffer(x, {dims}, "float32")
    Y = T.match_buffer(y, {dims}, "float32")
    for i0, i1, i2, i3 in T.grid(n, 8, h, w):
        Y[{place("i1")}] = T.float32(0)
        for k in range(8):
            Y[{place("i1")}] = Y[{place("i1")}] + X[{place("k")}] * w_[i1, k, 0, 0]
        Y[{place("i1")}] = T.max(Y[{place("i1")}], T.float32(0))
""")


class _Name(str):
    """A variable in the text of an index."""

    def __floordiv__(self, other: int) -> str:
        return f"{self} // {other}"

    def __mod__(self, other: int) -> str:
        return f"{self} % {other}"


def backend(layout: str) -> Backend:
    to, back, _ = BLOCKS[layout]
    func = kernel(layout)

    @lw.register_legalize("box.conv", target="box")
    def rule(bb, call):
        x, w = call.args
        given = bb.normalize(to(bb.emit(x)))
        gvar = bb.add_func(func, "box_conv")
        given = bb.emit(given)
        out = bb.emit(relax.op.call_tir(gvar, [given, w], given.struct_info))
        return back(out)

    return Backend("box", [("box.conv", CONV)], target="box")


TABLE = drawn("test_layouts")
W = TABLE.standard_normal((8, 8, 1, 1)).astype("float32")
X = TABLE.standard_normal((2, 8, 3, 5)).astype("float32")
CALL = "R.nn.relu(R.nn.conv2d({}, W))"


def check(body: str, box: Backend, count: int, shape=(2, 8, 3, 5)) -> None:
    """Offloaded calls compute what the host does, with so many rearrangements."""
    model = graph(body, values={"W": relax.const(W)}, x=shape)
    assert rearrangements(model, box) == count
    want = lw.compile(model)["main"](X).numpy()
    got = lw.compile(model, backends=[box])["main"](X).numpy()
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)


def rearrangements(model, box) -> int:
    """How many calls of the graph rearrange a tensor."""
    steps = lw.lower(model, backends=[box])
    assert len(steps.explain("box.conv", "legalize")) > 0
    main = steps["RunCodegen"].after["main"]
    names = [
        binding.value.args[0].name_hint
        for block in main.body.blocks
        for binding in block.bindings
        if getattr(binding.value, "op", None) is Op.get("relax.call_tir")
    ]
    return sum(not name.startswith("box_conv") for name in names)


@pytest.mark.sample(4)
@pytest.mark.parametrize("layout", BLOCKS)
@pytest.mark.parametrize("calls", [1, 2, 5])
@pytest.mark.parametrize("shape", [(2, 8, 3, 5), ("n", 8, 3, 5)], ids=["static", "symbolic"])
def test_adjacent_calls(layout, calls, shape):
    """Rearranged are the first one's input and the last one's result."""
    names = ["x", *(f"a{k}" for k in range(calls))]
    body = "; ".join(f"{names[k + 1]} = {CALL.format(names[k])}" for k in range(calls))
    check(body, backend(layout), 4 if layout == "by reshape" else 2, shape)


def test_the_host_computes_in_between():
    check(f"a = {CALL.format('x')}; b = R.sin(a); c = {CALL.format('b')}", backend("NHWC"), 4)


def test_a_result_that_the_host_needs_too():
    body = f"a = {CALL.format('x')}; b = {CALL.format('a')}; c = R.add(R.sin(a), b)"
    check(body, backend("NHWC"), 3)
