"""Rarely used attributes and forms of older operator sets, against onnxruntime."""

from __future__ import annotations

import numpy as np
import pytest

from loopwright.frontend.onnx import from_onnx

from .support import check, floats, integers, interpreted, ints, operator

X = floats(2, 3, 4)
IMAGE, LINE, SOLID = floats(1, 2, 7, 6), floats(1, 2, 9), floats(1, 1, 4, 5, 3)
F32 = np.float32


def case(op_type, *inputs, **options):
    """A row of the table."""
    return (op_type, inputs, options)


POOLS = [
    case("MaxPool", IMAGE, outputs=2, kernel_shape=[3, 2], strides=[2, 1], pads=[1, 0, 1, 1]),
    case("MaxPool", IMAGE, outputs=2, kernel_shape=[3, 2], strides=[2, 3], storage_order=1),
    case(
        "MaxPool",
        IMAGE,
        outputs=2,
        kernel_shape=[2, 2],
        dilations=[2, 3],
        ceil_mode=1,
        strides=[2, 2],
    ),
    case("MaxPool", LINE, outputs=2, kernel_shape=[3], strides=[2], pads=[0, 1]),
    case("MaxPool", SOLID, outputs=2, kernel_shape=[2, 3, 1], strides=[1, 2, 2]),
    case("MaxPool", IMAGE, kernel_shape=[3, 3], strides=[2, 2], auto_pad="SAME_LOWER"),
    case("MaxPool", IMAGE, kernel_shape=[2, 2], strides=[3, 3], pads=[0, 0, 1, 1], ceil_mode=1),
    case("MaxPool", IMAGE, kernel_shape=[1, 1], strides=[4, 5], pads=[0, 0, 0, 0], ceil_mode=1),
    case("MaxPool", integers(1, 1, 5, 5, dtype=np.int8), kernel_shape=[2, 2], pads=[1, 1, 0, 0]),
    case(
        "AveragePool",
        IMAGE,
        kernel_shape=[3, 2],
        strides=[2, 2],
        pads=[1, 1, 1, 1],
        count_include_pad=1,
    ),
    case("AveragePool", IMAGE, kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1, opset=19),
    case("AveragePool", LINE, kernel_shape=[2], dilations=[3], strides=[2], opset=19),
    case("AveragePool", IMAGE, kernel_shape=[3, 3], strides=[2, 2], auto_pad="VALID"),
    case("LpPool", IMAGE, kernel_shape=[2, 3], p=1),
    case("LpPool", IMAGE, kernel_shape=[2, 3], p=3, strides=[2, 1], pads=[1, 0, 0, 2]),
    case("LpPool", LINE, kernel_shape=[4], strides=[3], ceil_mode=1, opset=18),
    case("GlobalLpPool", IMAGE, p=1),
    case("GlobalLpPool", IMAGE, p=3),
    case("GlobalMaxPool", SOLID),
]
SIGNALS = [
    case("DFT", floats(2, 5, 3, 2), axis=2),
    case("DFT", floats(2, 5, 3, 1), axis=-3, onesided=1),
    case("DFT", floats(2, 5, 3, 2), ints(7)[0], fed=1, axis=1, inverse=1),
    case("DFT", floats(2, 6, 2), None, ints(-2)[0], fed=1, opset=20, symbolic=False),
    case("DFT", floats(2, 6, 1), ints(4)[0], fed=1, opset=20),
    case("STFT", floats(1, 12, 1), ints(3)[0], None, ints(4)[0], fed=1),
    case("STFT", floats(1, 12, 1), ints(2)[0], floats(5), fed=1, onesided=0),
    *[
        case(f"{n}Window", ints(6)[0], fed=0, periodic=p)
        for n in ("Hann", "Hamming", "Blackman")
        for p in (0, 1)
    ],
    case("HannWindow", ints(5)[0], fed=0, output_datatype=11),
    case("MelWeightMatrix", ints(4)[0], ints(16)[0], ints(800)[0], F32(10), F32(400), fed=0),
]
MADE = [
    *[case("EyeLike", floats(3, 5), k=k) for k in (-4, -1, 2, 9)],
    case("EyeLike", integers(3, 2), dtype=1),
    case("Range", F32(3), F32(-1), F32(-0.75), fed=0),
    case("ConstantOfShape", ints(2, 0, 3), fed=0),
    case("Trilu", X, ints(1)[0], fed=1),
    case("Trilu", X, ints(-1)[0], fed=1, upper=0),
    case("Trilu", X, upper=0),
    case(
        "OneHot", integers(2, 3, low=-3, high=3), ints(3)[0], np.asarray([2, 7], F32), fed=1, axis=0
    ),
    case("CumSum", X, ints(1)[0], fed=1, exclusive=1),
    case("CumSum", X, ints(-1)[0], fed=1, reverse=1),
    case("CumSum", X, ints(0)[0], fed=1, exclusive=1, reverse=1),
    *[
        case(n, np.round(X), axis=a, keepdims=k, select_last_index=s, opset=13)
        for n in ("ArgMax", "ArgMin")
        for a, k, s in ((1, 0, 1), (-1, 1, 0))
    ],
    case("DepthToSpace", floats(1, 8, 2, 3), blocksize=2, mode="CRD"),
    case("DepthToSpace", floats(1, 8, 2, 3), blocksize=2),
    case("SpaceToDepth", floats(1, 2, 4, 6), blocksize=2),
    case("GatherND", X, np.array([[[0], [2]], [[1], [1]]]), fed=1, batch_dims=1),
    case("GatherElements", X, integers(2, 2, 4, low=-3, high=3), fed=1, axis=1),
    case("ScatterElements", X, np.array([[[0, 2]]]), floats(1, 1, 2), fed=1, axis=-1),
    *[
        case(
            "ScatterElements",
            X,
            np.array([[[1, 1]]]),
            floats(1, 1, 2),
            fed=1,
            axis=1,
            reduction=r,
            opset=18,
        )
        for r in ("add", "mul", "max", "min")
    ],
    *[
        case("ScatterND", X, np.array([[0, 1], [1, 2]]), floats(2, 4), fed=1, reduction=r, opset=18)
        for r in ("none", "add", "mul", "max", "min")
    ],
]
OLDER = [
    *[case(n, X, opset=11) for n in ("Softmax", "LogSoftmax")],
    *[case(n, X, opset=11, axis=a) for n in ("Softmax", "LogSoftmax") for a in (0, 2)],
    case("Clip", X, opset=6, min=-0.5, max=1.0), case("Clip", X, opset=6, min=0.25), case("Clip", X, opset=6),
    case("Slice", X, opset=9, starts=[1, -3], ends=[9, -1], axes=[1, 2]), case("Slice", X, opset=9, starts=[1], ends=[2]),
    case("Pad", X, opset=10, pads=[0, 1, 0, 1, 0, 2], mode="reflect"), case("Pad", X, opset=10, pads=[1, 0, 0, 0, 0, 1], value=2.5),
    case("Squeeze", floats(2, 1, 3, 1), opset=11, axes=[1, -1]), case("Squeeze", floats(2, 1, 3, 1), opset=11),
    case("Unsqueeze", X, opset=11, axes=[0, 2]),
    case("Split", X, opset=11, outputs=2, axis=1, split=[1, 2]), case("Split", X, opset=11, outputs=2, axis=-1),
    *[case(f"Reduce{n}", X, opset=11, axes=[0, -1], keepdims=0) for n in ("Sum", "Mean", "Max", "Prod", "L1", "L2")],
    *[case(f"Reduce{n}", X, opset=11) for n in ("LogSum", "LogSumExp", "SumSquare", "Min")],
    case("TopK", X, opset=9, outputs=2, k=2, axis=1), case("TopK", X, ints(2), fed=1, outputs=2, opset=11, largest=0),
    case("Dropout", X, opset=10, ratio=0.3), case("Dropout", X, opset=7),
    case("Gemm", floats(3, 4), floats(3, 5), floats(5), opset=9, transA=1, alpha=0.5, beta=2.0),
    case("Gemm", floats(3, 4), floats(5, 4), opset=11, transB=1, alpha=3.0),
    case("Scatter", X, np.array([[[0, 2]]]), floats(1, 1, 2), fed=1, opset=9, axis=2),
    case("Upsample", IMAGE, np.float32([1, 1, 2, 3]), fed=1, opset=9), case("Resize", IMAGE, np.float32([1, 1, 2, 0.5]), fed=1, opset=10),
    case("Upsample", IMAGE, opset=7, scales=[1.0, 1.0, 2.0, 2.0], mode="linear"),
    case("BatchNormalization", IMAGE, *(floats(2, low=0.5, seed=k) for k in range(4)), opset=9, epsilon=0.1, fed=1),
    *[case("Hardmax", np.round(X), opset=11, **axis) for axis in ({}, {"axis": 0}, {"axis": -1})],
    case("Cast", X, opset=9, to=7), case("Flatten", X, opset=9, axis=0), case("Flatten", X, opset=11, axis=-1),
    case("Concat", X, X, opset=10, axis=2), case("Where", X > 0, X, -X, opset=9), case("Mod", X, X + 3, opset=10, fmod=1),
    case("Reshape", X, ints(0, -1), fed=1, opset=8), case("Expand", floats(3, 1), ints(2, 1, 4), fed=1, opset=8),
    case("PRelu", X, floats(3, 1), opset=7, fed=1), case("Sum", X, X, X, opset=8), case("Mean", X, -X, opset=8),
    case("GRU", floats(3, 2, 4), floats(1, 9, 4), floats(1, 9, 3), fed=1, opset=7, hidden_size=3, outputs=2),
]  # fmt: skip


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("op_type", "inputs", "options"),
    [*POOLS, *SIGNALS, *MADE, *OLDER],
    ids=lambda v: v if isinstance(v, str) else "",
)
def test_operators(op_type, inputs, options):
    options = {k: v for k, v in options.items() if k != "symbolic"}
    model, feeds = operator(op_type, *inputs, **options)
    check(model, feeds, 1e-4)


@pytest.mark.parametrize("axis", [1, -1])
def test_tiles_of_the_first_operator_set(axis):
    """These and the next are too old for onnxruntime."""
    made, feeds = operator("Tile", X, F32(3), F32(axis), fed=1, opset=5)
    (got,) = interpreted(from_onnx(made), feeds)
    np.testing.assert_array_equal(got, np.concatenate([X] * 3, axis))


def test_images_of_the_first_operator_set_made_larger():
    made, feeds = operator("Upsample", IMAGE, opset=6, height_scale=2.0, width_scale=3.0)
    (got,) = interpreted(from_onnx(made), feeds)
    np.testing.assert_array_equal(got, IMAGE.repeat(2, 2).repeat(3, 3))


@pytest.mark.parametrize("op_type", ["ReduceMean", "ReduceL2"])
def test_an_empty_list_of_axes_is_none(op_type):
    model, feeds = operator(op_type, X, keepdims=0, axes=[0], opset=13)
    (axes,) = (a for a in model.graph.node[0].attribute if a.name == "axes")
    del axes.ints[:]
    del model.graph.output[0]
    model.graph.output.add(name=model.graph.node[0].output[0])
    check(model, feeds)
