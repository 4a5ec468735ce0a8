"""oneDNN as a back end: primitives and their post-operations beside the default build."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
import pytest

import loopwright as lw
from loopwright import relax
from loopwright.backend.byoc import dnnl, onednn
from loopwright.ir import trace
from loopwright.relax.byoc import PartitionReport, get_backend, partition, plugins

from ...relax.transform.graphs import graph

# A composite that stands as an operator while it is lowered has no text.
pytestmark = pytest.mark.no_roundtrip
needs_onednn = pytest.mark.skipif(bool(onednn.available()), reason=onednn.available() or "-")
op, nn = relax.op, relax.op.nn


def weights(rng, *shape):
    values = rng.normal(size=shape) / np.sqrt(np.prod(shape[1:]))
    return relax.const(values.astype("float32"))


def offload(mod):
    report = PartitionReport()
    return partition(mod, "onednn", cost=None, report=report), report


def agree(rng, mod, *shapes, patterns=None, left=()):
    """The offloaded model is the default one in other words; its report is as expected."""
    given, report = offload(mod)
    if patterns is not None:
        names = [
            d.pattern.removeprefix("onednn.") for d in report.decisions for _ in range(d.calls)
        ]
        assert sorted(names) == patterns
    assert sorted(report.left) == sorted(left)
    exe = lw.compile(given)
    inputs = [rng.normal(size=s).astype("float32") for s in shapes]
    want = lw.compile(mod)["main"](*inputs).numpy()
    have = exe["main"](*inputs).numpy()
    assert have.shape == want.shape
    assert np.abs(have - want).max() <= 1e-4 * np.abs(want).max()
    return exe


def reorders(exe):
    text = exe.lowered["main"].script()
    return sum(line.strip().startswith("onednn_reorder") for line in text.splitlines())


CONVOLUTIONS = {
    "plain": ((1, 16, 10, 12), (24, 16, 3, 3), {"padding": 1}),
    "strided": ((2, 16, 10, 12), (24, 16, 3, 3), {"padding": 1, "strides": 2}),
    "dilated": ((1, 16, 10, 12), (24, 16, 3, 3), {"padding": 2, "dilation": 2}),
    "uneven padding": ((1, 16, 10, 12), (24, 16, 3, 2), {"padding": (0, 1, 2, 1)}),
    "groups": ((1, 16, 10, 12), (24, 4, 3, 3), {"groups": 4}),
    "two groups": ((1, 4, 6, 5), (6, 2, 3, 3), {"groups": 2}),
    "depthwise": ((1, 16, 10, 12), (16, 1, 3, 3), {"groups": 16, "padding": 1}),
    "one by one, odd channels": ((1, 3, 7, 5), (5, 3, 1, 1), {}),
}


@pytest.mark.sample(2)
@needs_onednn
@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolutions(rng, name):
    shape, kernel, attrs = CONVOLUTIONS[name]
    mod = graph(lambda emit, x: nn.conv2d(x, weights(rng, *kernel), **attrs), shape)
    agree(rng, mod, shape, patterns=["conv2d"])


TRANSPOSED = {
    "plain": ((1, 16, 5, 6), (16, 8, 3, 3), {}),
    "upsampling": ((1, 16, 5, 6), (16, 8, 2, 2), {"strides": 2}),
    "output padding": (
        (1, 16, 5, 6),
        (16, 8, 3, 3),
        {"strides": 2, "padding": 1, "output_padding": 1},
    ),
    "groups": ((1, 16, 5, 6), (16, 4, 3, 3), {"groups": 2}),
}


@pytest.mark.sample(2)
@needs_onednn
@pytest.mark.parametrize("name", TRANSPOSED)
def test_transposed_convolutions(rng, name):
    shape, kernel, attrs = TRANSPOSED[name]

    def body(emit, x):
        y = emit(nn.conv2d_transpose(x, weights(rng, *kernel), **attrs))
        channels = y.struct_info.shape[1].value
        y = emit(op.multiply(y, weights(rng, 1, channels, 1, 1)))
        return nn.relu(emit(op.add(y, weights(rng, 1, channels, 1, 1))))

    agree(rng, graph(body, shape), shape, patterns=["conv2d_transpose"])


def hardswish(emit, x):
    gate = emit(op.clip(emit(op.add(x, relax.const(3.0))), 0.0, 6.0))
    return op.divide(emit(op.multiply(x, gate)), relax.const(6.0))


def hardsigmoid(emit, x):
    y = emit(op.add(emit(op.multiply(x, relax.const(0.2))), relax.const(0.5)))
    return op.clip(y, 0.0, 1.0)


ACTIVATIONS = {
    "relu": lambda emit, x: nn.relu(x),
    "clip": lambda emit, x: op.clip(x, 0.0, 0.5),
    "sigmoid": lambda emit, x: op.sigmoid(x),
    "tanh": lambda emit, x: op.tanh(x),
    "gelu": lambda emit, x: nn.gelu(x),
    "gelu_tanh": lambda emit, x: nn.gelu_tanh(x),
    "silu": lambda emit, x: nn.silu(x),
    "hardswish": hardswish,
    "hardsigmoid": hardsigmoid,
}


@pytest.mark.sample(4)
@needs_onednn
@pytest.mark.parametrize("name", ACTIVATIONS)
@pytest.mark.parametrize("root", ["conv2d", "matmul", "add"])
def test_post_operations(rng, root, name):
    shape = (4, 16) if root == "matmul" else (1, 16, 6, 6)

    def body(emit, x):
        if root == "matmul":
            y = emit(op.add(emit(op.matmul(x, weights(rng, 16, 24))), weights(rng, 24)))
        elif root == "add":
            y = emit(op.add(x, emit(nn.max_pool2d(x, (3, 3), padding=(1, 1)))))
        else:
            y = emit(
                op.add(emit(nn.conv2d(x, weights(rng, 24, 16, 1, 1))), weights(rng, 1, 24, 1, 1))
            )
        return ACTIVATIONS[name](emit, y)

    agree(
        rng, graph(body, shape), shape, patterns=[root] if root != "add" else ["add", "max_pool2d"]
    )


@needs_onednn
@pytest.mark.parametrize("side", ["left", "right"])
def test_a_residual_is_a_post_operation(rng, side):
    shape = (1, 16, 8, 8)

    def body(emit, x):
        y = emit(nn.relu(emit(nn.conv2d(x, weights(rng, 16, 16, 3, 3), padding=1))))
        z = emit(
            op.add(
                emit(nn.conv2d(y, weights(rng, 16, 16, 3, 3), padding=1)), weights(rng, 1, 16, 1, 1)
            )
        )
        return nn.relu(emit(op.add(z, y) if side == "left" else op.add(y, z)))

    agree(rng, graph(body, shape), shape, patterns=["conv2d", "conv2d"])


@needs_onednn
def test_a_chain_keeps_the_layout(rng):
    shape = (1, 32, 16, 16)

    def body(emit, x):
        for _ in range(4):
            x = emit(nn.relu(emit(nn.conv2d(x, weights(rng, 32, 32, 3, 3), padding=1))))
            x = emit(nn.max_pool2d(x, (3, 3), padding=(1, 1)))
            x = emit(op.add(x, x))
        return x

    exe = agree(
        rng, graph(body, shape), shape, patterns=["add"] * 4 + ["conv2d"] * 4 + ["max_pool2d"] * 4
    )
    assert reorders(exe) <= 2


POOLS = {
    "max": lambda x: nn.max_pool2d(x, (3, 3), (2, 2), (1, 1)),
    "max, dilated": lambda x: nn.max_pool2d(x, (2, 2), dilation=(2, 2)),
    "mean": lambda x: nn.avg_pool2d(x, (2, 2), (2, 2)),
    "mean, padding counts": lambda x: nn.avg_pool2d(
        x, (3, 3), (2, 2), (1, 1), count_include_pad=True
    ),
    "mean, padding does not": lambda x: nn.avg_pool2d(
        x, (3, 3), (2, 2), (1, 1), count_include_pad=False
    ),
    "of everything": lambda x: op.mean(x, [2, 3], keepdims=True),
}


@needs_onednn
@pytest.mark.parametrize("name", POOLS)
def test_pooling(rng, name):
    shape = (2, 5, 9, 8)
    agree(rng, graph(lambda emit, x: POOLS[name](x), shape), shape)


MATMULS = {
    "two": ((5, 8), (8, 3)),
    "batched": ((2, 3, 5, 8), (2, 3, 8, 4)),
    "a stretched batch": ((2, 3, 5, 8), (2, 1, 8, 4)),
}


@needs_onednn
@pytest.mark.parametrize("name", MATMULS)
def test_products_of_tensors(rng, name):
    a, b = MATMULS[name]
    agree(rng, graph(lambda emit, x, y: op.matmul(x, y), a, b), a, b, patterns=["matmul"])


def squeeze(rng, emit, x):
    """A gate for channels: mean, two small convolutions, a product that is stretched."""
    y = emit(op.mean(x, [2, 3], keepdims=True))
    y = emit(nn.relu(emit(nn.conv2d(y, weights(rng, 4, 16, 1, 1)))))
    y = emit(hardsigmoid(emit, emit(nn.conv2d(y, weights(rng, 16, 4, 1, 1)))))
    return op.multiply(x, y)


@needs_onednn
def test_squeeze_and_excitation(rng):
    shape = (1, 16, 6, 6)
    mod = graph(partial(squeeze, rng), shape)
    agree(rng, mod, shape, patterns=["conv2d", "conv2d", "mean", "multiply"])


@needs_onednn
def test_a_value_used_twice_stays_outside(rng):
    shape = (1, 8, 6, 6)

    def body(emit, x):
        y = emit(nn.conv2d(x, weights(rng, 8, 8, 1, 1)))
        return op.multiply(emit(nn.relu(y)), y)

    agree(rng, graph(body, shape), shape, patterns=["conv2d", "multiply"], left=["relax.nn.relu"])


@needs_onednn
def test_calls_at_the_same_time(rng):
    shape = (1, 16, 24, 24)
    mod = graph(lambda emit, x: nn.conv2d(x, weights(rng, 16, 16, 3, 3), padding=1), shape)
    exe = lw.compile(offload(mod)[0])
    inputs = [rng.normal(size=shape).astype("float32") for _ in range(16)]
    alone = [exe["main"](x).numpy() for x in inputs]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(lambda x: exe["main"](x).numpy(), inputs))
    for a, b in zip(alone, together, strict=True):
        np.testing.assert_array_equal(a, b)


@needs_onednn
def test_primitives_are_kept():
    args = ((1, 4, 6, 6), (4, 4, 1, 1), (1, 4, 6, 6), (1, 1), (1, 1), (0, 0, 0, 0), False, ())
    assert dnnl.convolution(*args) is dnnl.convolution(*args)
    plain = dnnl.Layout.plain((2, 3))
    assert plain == dnnl.Layout.plain((2, 3), (3, 1)) != dnnl.Layout.plain((2, 3), (1, 2))
    assert plain != dnnl.Layout.plain((3, 2)) and plain != (2, 3)


@needs_onednn
def test_what_is_not_taken_says_why():
    shape = (1, 4, 6, 6)
    half = graph(lambda emit, x: nn.max_pool2d(x, (2, 2)), shape, dtype="float16")
    report = offload(half)[1]
    assert report.refused == {"relax.nn.max_pool2d": "float16 is not supported, only float32"}
    n = lw.tir.Var("n", "int64")
    symbolic = graph(lambda emit, x: nn.max_pool2d(x, (2, 2)), (n, 4, 6, 6))
    report = offload(symbolic)[1]
    assert "its extents are symbolic" in report.refused["relax.nn.max_pool2d"]
    assert "relax.nn.max_pool2d: its extents are symbolic" in str(report)


@needs_onednn
def test_declared_costs_decide_and_the_trace_says_so(rng):
    def body(emit, x):
        y = emit(nn.conv2d(x, weights(rng, 64, 16, 3, 3), padding=1))  # 37 million multiply-adds
        return nn.max_pool2d(emit(nn.conv2d(y, weights(rng, 2, 64, 1, 1))), (2, 2))

    report = PartitionReport()
    with trace.trace() as seen:
        partition(graph(body, (1, 16, 64, 64)), "onednn", report=report)
    assert [d.offloaded for d in report.decisions] == [True, False, False]
    assert all(d.reason.startswith("declared: ") for d in report.decisions)
    notes = [n for n in seen.notes if n.kind == "offload"]
    assert len(notes) == 3


@needs_onednn
def test_what_one_primitive_cannot_do_follows_it(rng):
    mod = graph(
        lambda emit, x: op.add(emit(op.matmul(x, weights(rng, 16, 24))), weights(rng, 1, 4, 24)),
        (4, 16),
    )
    report = offload(mod)[1]
    assert [d.pattern for d in report.decisions] == ["onednn.matmul"]
    assert report.left == {"relax.add": 1}


@needs_onednn
def test_such_a_program_is_not_exported(tmp_path):
    shape = (1, 4, 6, 6)
    exe = lw.compile(offload(graph(lambda emit, x: nn.max_pool2d(x, (2, 2)), shape))[0])
    with pytest.raises(lw.LoopwrightError, match="onednn has addresses of this process"):
        exe.export_library(tmp_path / "model.so")


def test_it_is_a_plug_in():
    assert get_backend("onednn") is onednn.backend()
    assert "onednn" in {name for p in plugins() for name in p.brings}


def test_a_missing_package_is_named(monkeypatch):
    monkeypatch.setattr(dnnl, "library_path", lambda: None)
    with pytest.raises(lw.LoopwrightError, match="oneDNN is not installed\n  instead: pip install"):
        dnnl.library.__wrapped__()
    with pytest.raises(lw.LoopwrightError) as error:
        offload(graph(lambda emit, x: nn.relu(x), (1, 4, 6, 6)))
    assert str(error.value) == (
        "the back end onednn cannot be used here\n"
        "  got: oneDNN is not installed: pip install onednn-cpu-gomp\n"
        "  instead: compile without partitioning for it"
    )
