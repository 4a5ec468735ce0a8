"""Imported operators, compiled: one binary for all sizes of what is symbolic."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import loopwright
from loopwright.base.errors import LoopwrightError
from loopwright.frontend import detach_params
from loopwright.frontend.onnx import backend, from_onnx

from .support import chain, close, floats, graph, ints, node, operator, reference, value

IMAGE = floats(2, 4, 9, 8)
SCALES = np.asarray([1, 1, 2, 2], np.float32)
CASES = [
    ("Add", (floats(2, 3), floats(3)), {}),
    ("Gemm", (floats(2, 3), floats(4, 3), floats(4)), {"fed": 1, "transB": 1}),
    ("Softmax", (floats(2, 3, 4),), {"axis": 1}),
    ("LayerNormalization", (floats(2, 8), floats(8), floats(8)), {"fed": 1}),
    ("Conv", (IMAGE, floats(6, 4, 3, 3), floats(6)), {"fed": 1, "pads": [1, 1, 1, 1]}),
    ("ConvTranspose", (IMAGE, floats(4, 3, 2, 2)), {"fed": 1, "strides": [2, 2]}),
    ("MaxPool", (IMAGE,), {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}),
    ("Resize", (IMAGE, None, SCALES), {"fed": 1, "mode": "nearest"}),
    ("Slice", (floats(6, 4), ints(-4), ints(2**31 - 1)), {"fed": 1}),
    ("Gather", (floats(5, 3), ints(4, -1, 0)), {"fed": 1}),
    ("ReduceLogSumExp", (floats(2, 5),), {"axes": [1]}),
    ("TopK", (floats(3, 7), ints(3)), {"fed": 1, "outputs": 2}),
]


@pytest.mark.sample(2)
@pytest.mark.parametrize("symbolic", [False, True], ids=["static", "symbolic"])
@pytest.mark.parametrize("op_type, inputs, options", CASES, ids=[c[0] for c in CASES])
def test_operator(op_type, inputs, options, symbolic):
    model, feeds = operator(op_type, *inputs, **options, symbolic=symbolic)
    got = loopwright.compile(model).run(feeds)
    close([v.numpy() for v in got.values()], reference(model, feeds))


def test_a_result_that_nobody_reads_in_a_fused_kernel():
    x, rest = floats(6, 4, 3), [floats(4, seed=k) for k in range(1, 5)]
    norm = node("BatchNormalization", ["x", *"abcd"], ["z"])  # of variables: not folded
    ports = [value("x", x.shape), *(value(n, [4]) for n in "abcd")]
    model = graph([norm, node("Tanh", ["z"], ["y"])], ports, [value("y", None)])
    feeds = dict(zip("xabcd", [x, *rest[:3], np.abs(rest[3])], strict=True))
    (y,) = loopwright.compile(model).run(feeds).values()
    close([y.numpy()], reference(model, feeds))


def test_sides_that_differ_at_run_time_are_refused():
    ports = [value("a", ["n", 3]), value("b", ["m", 3])]
    model = graph([node("Add", ["a", "b"], ["y"], "sum")], ports, [value("y", None)])
    executable = loopwright.compile(model)
    (y,) = executable.run({"a": floats(2, 3), "b": floats(2, 3)}).values()
    close([y.numpy()], [floats(2, 3) * 2])
    with pytest.raises(ValueError) as caught:
        executable.run({"a": floats(2, 3), "b": floats(5, 3)})
    assert str(caught.value).partition("\n")[0] == (
        "main: another extent than expected at onnx:sum (m against n or 1); "
        "give inputs whose shapes agree"
    )


@pytest.mark.parametrize("widths", [(3, 0), (0, 7), (5, 9)])
def test_a_reflection_that_is_wider_than_the_axis(widths):
    # numpy's and the reference's meaning; onnxruntime refuses it
    inputs = floats(3, 2), ints(widths[0], 1, widths[1], 3)
    model, feeds = operator("Pad", *inputs, fed=1, mode="reflect")
    (y,) = loopwright.compile(model).run(feeds).values()
    pairs = [widths, (1, 3)]
    np.testing.assert_array_equal(y.numpy(), np.pad(inputs[0], pairs, "reflect"))
    model, feeds = operator(
        "Pad", inputs[0], ints(widths[0], 0, widths[1], 0), fed=1, symbolic=True, mode="reflect"
    )
    executable = loopwright.compile(model)
    least = max(widths) + 1
    (y,) = executable.run(floats(least, 2)).values()
    np.testing.assert_array_equal(y.numpy(), np.pad(floats(least, 2), [widths, (0, 0)], "reflect"))
    with pytest.raises(ValueError, match=f"must be at least {least} at onnx:node\n"):
        executable.run(feeds)


def test_a_shape_chain_in_one_binary():
    model = chain(
        node("Shape", ["x"], ["s"]),
        node("Gather", ["s", "zero"], ["n"]),
        node("Concat", ["n", "minus"], ["t"], axis=0),
        node("Reshape", ["x", "t"], ["y"]),
        shape=["n", "m", 3],
        weights={"zero": ints(0), "minus": ints(-1)},
    )
    executable = loopwright.compile(from_onnx(model))
    for n, m in ((2, 5), (4, 1)):
        (y,) = executable.run([floats(n, m, 3)]).values()
        close([y.numpy()], [floats(n, m, 3).reshape(n, -1)])


def test_inputs_of_a_rank_that_only_the_run_tells():
    nodes = [node("Transpose", ["x"], ["t"]), node("Relu", ["t"], ["y"])]
    model = graph(nodes, [value("x", None)], [value("y", None)])
    run = loopwright.compile(model)["main"]
    for x in (floats(3), floats(2, 3, 4)):
        close([run(x).numpy()], [np.maximum(x.T, 0)])


def dense(ir_version=10):
    """Gemm and a Slice; the weight, the bias and the end of the slice are initializers and inputs."""
    weights = {"w": floats(3, 4, seed=1), "b": floats(4, seed=2), "end": ints(2)}
    nodes = [node("Gemm", ["x", "w", "b"], ["t"]), node("Slice", ["t", "zero", "end"], ["y"])]
    ports = [value("x", [2, 3]), value("w", [3, 4]), value("b", None), value("end", [1], np.int64)]
    model = graph(nodes, ports, [value("y", None)], weights | {"zero": ints(0)})
    model.ir_version = ir_version
    return model


@pytest.mark.parametrize("given", ["", "w", "b w", "end"])
def test_an_initializer_that_is_an_input_may_be_given(given, tmp_path):
    model = dense()
    onnx.save(model, tmp_path / "model.onnx")
    more = {"w": floats(3, 4, seed=5), "b": floats(4, seed=6), "end": ints(1)}
    feeds = {"x": floats(2, 3)} | {name: more[name] for name in given.split()}
    exe = loopwright.compile(tmp_path / "model.onnx")
    assert exe.input_names() == [
        "x"
    ]  # weights of most models are listed as inputs: they are folded
    for _ in range(2):
        close([v.numpy() for v in exe.run(feeds).values()], reference(model, feeds))
        close(
            [v.numpy() for v in exe.run({"x": feeds["x"]}).values()],
            reference(model, {"x": feeds["x"]}),
        )
    close([*backend.prepare(model).run(feeds)], reference(model, feeds))


def test_initializers_as_inputs_from_the_start():
    model = dense()
    exe = loopwright.compile(from_onnx(model, overridable_initializers=True))
    assert exe.input_names() == ["x", "w", "b", "end"]
    feeds = {"x": floats(2, 3), "w": floats(3, 4), "b": floats(4), "end": ints(1)}
    close([v.numpy() for v in exe.run(feeds).values()], reference(model, feeds))
    mod, params = detach_params(from_onnx(model, overridable_initializers=["b"]))
    (bias,) = params["main"]
    np.testing.assert_array_equal(bias.numpy(), floats(4, seed=2))
    exe = loopwright.compile(mod)
    with pytest.raises(
        LoopwrightError, match="folded in\n  got: w\n.*overridable_initializers=\\['w'\\]"
    ):
        exe.run({"x": floats(2, 3), "b": floats(4), "w": floats(3, 4)})


def test_initializers_that_no_run_may_give():
    feeds = {"x": floats(2, 3), "w": floats(3, 4)}
    with pytest.raises(ValueError, match="unknown w"):  # as onnxruntime, before IR version 4
        loopwright.compile(dense(3)).run(feeds)
    for model, name in ((dense(3), "w"), (dense(), "zero")):
        with pytest.raises(LoopwrightError, match=f"no run may give.*\n  got: {name}"):
            from_onnx(model, overridable_initializers=[name])


@pytest.mark.sample(3)
@pytest.mark.parametrize("op_type", ["Conv", "ConvTranspose"])
@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("known", ["none", "rank", "window"])
def test_convolutions_whose_weights_the_run_gives(op_type, rank, known, rng):
    """The weight's extents, also its window, or its rank, are the run's; 2 groups, with padding."""
    more = {"kernel_shape": [3] * rank} if known == "window" else {}
    more |= {"output_padding": [1] * rank} if op_type == "ConvTranspose" else {}
    conv = node(
        op_type, ["x", "w"], ["y"], group=2, strides=[2] * rank, pads=[1] * 2 * rank, **more
    )
    dims = None if known == "none" else ["i", "o", *(f"k{k}" for k in range(rank))]
    ports = [value("x", ["n", 4, *(f"d{k}" for k in range(rank))]), value("w", dims)]
    model = graph([conv], ports, [value("y", None)])
    exe = loopwright.compile(model)
    for window in ([3], [2, 3]) if known != "window" else ([3],):
        weight = rng.normal(size=[4, 2, *(window * 3)[:rank]]).astype(np.float32)
        feeds = {"x": rng.normal(size=[2, 4, 5, 6, 4][: 2 + rank]).astype(np.float32), "w": weight}
        close([v.numpy() for v in exe.run(feeds).values()], reference(model, feeds))


def test_automatic_padding_needs_the_window():
    conv = node("Conv", ["x", "w"], ["y"], auto_pad="SAME_UPPER")
    ports = [value("x", [1, 2, 5, 5]), value("w", [2, 2, "kh", "kw"])]
    with pytest.raises(LoopwrightError, match="need the weight's window\n  got: kh, kw"):
        from_onnx(graph([conv], ports, [value("y", None)]))


@pytest.mark.parametrize("target", ["llvm", "c"])
def test_an_index_that_is_out_of_range_names_the_node_that_reads(target, tmp_path):
    """Not all that are in its kernel: torch writes a gather between dozens of others."""
    nodes = [
        node("Add", ["i", "i"], ["twice"], "/places"),
        node("Relu", ["x"], ["positive"], "/values"),
        node("Gather", ["positive", "twice"], ["picked"], "/pick"),
        node("Exp", ["picked"], ["y"], "/result"),
    ]
    ports = [value("x", [6]), value("i", [2], np.int64)]
    exe = loopwright.compile(graph(nodes, ports, [value("y", None)]), target)
    main = exe["main"] if target == "llvm" else exe.build(tmp_path)["main"]
    with pytest.raises((IndexError, RuntimeError)) as caught:
        main(floats(6), ints(1, 3))
    assert str(caught.value).endswith("onnx:/pick: index 6 is out of range for an axis of extent 6")
    assert "/values" not in str(caught.value)
