"""Each operator alone gives what onnxruntime gives: (operator, inputs, options)."""

from __future__ import annotations

import numpy as np
import pytest

from loopwright.frontend.onnx import from_onnx

from .support import bools, check, floats, integers, interpreted, ints, operator

X, Y = floats(2, 3, 4), floats(2, 3, 4, seed=1)
IMAGE = floats(2, 4, 9, 8)
CHANNELS = floats(4, low=0.5, high=2.0), floats(4, seed=2), floats(4, seed=3), floats(4, low=0.5)
SMALL = floats(2, 3, low=-0.9, high=0.9)
POSITIVE = floats(2, 3, low=0.5, high=3.0)
F32 = np.float32


def case(op_type, *inputs, **options):
    """A row of the table; `symbolic=False` for what needs known extents."""
    return (op_type, inputs, options)


UNARY = [
    *[case(n, X) for n in ("Abs", "Ceil", "Cos", "Cosh", "Erf", "Exp", "Floor", "Neg", "Relu")],
    *[case(n, X) for n in ("Round", "Sigmoid", "Sign", "Sin", "Sinh", "Softsign", "Tan", "Tanh")],
    *[case(n, X) for n in ("Elu", "Selu", "LeakyRelu", "HardSigmoid", "Softplus", "Identity")],
    *[case(n, SMALL) for n in ("Acos", "Asin", "Asinh", "Atan", "Atanh")],
    *[case(n, POSITIVE) for n in ("Log", "Sqrt", "Reciprocal")],
    case("Acosh", POSITIVE + 1),
    case("Not", bools(2, 3)),
    case("IsNaN", np.asarray([1.0, np.nan, np.inf], F32)),
    case("IsInf", np.asarray([1.0, -np.inf, np.inf], F32)),
    case("IsInf", np.asarray([1.0, -np.inf, np.inf], F32), detect_negative=0),
    case("Elu", X, alpha=0.5),
    case("Selu", X, alpha=2.0, gamma=3.0),
    case("Celu", X, alpha=2.0),
    case("LeakyRelu", X, alpha=0.2),
    case("ThresholdedRelu", X, alpha=0.7),
    case("HardSigmoid", X, alpha=0.3, beta=0.4),
    case("HardSigmoid", X, alpha=1 / 6, beta=0.5),
    case("HardSwish", X * 3),
    case("Mish", X, opset=18),
    case("Gelu", X, opset=20),
    case("Gelu", X, opset=20, approximate="tanh"),
    case("Gelu", X, domain="com.microsoft"),
    case("FastGelu", X, floats(4), domain="com.microsoft"),
    case("Shrink", X, bias=0.5, lambd=0.8),
    case("Softplus", np.asarray([-200.0, 0.0, 200.0], F32)),
    case("Cast", X, to=6),
    case("Cast", X, to=10),
    case("Cast", np.round(X), to=9),
    case("Cast", bools(2, 3), to=1),
    case("CastLike", X, integers(2), fed=1),
    case("BitwiseNot", integers(2, 3), opset=18),
    case("Dropout", X),
]

BINARY = [
    *[case(n, X, Y) for n in ("Add", "Sub", "Mul", "Div", "Less", "Greater", "LessOrEqual")],
    *[case(n, X, floats(3, 1, seed=4)) for n in ("Add", "Sub", "Mul", "Max", "Min", "Equal")],
    *[case(n, bools(2, 3), bools(3)) for n in ("And", "Or", "Xor")],
    *[case(n, X, Y, floats(4)) for n in ("Max", "Min", "Sum", "Mean")],
    *[case(n, integers(2, 3), integers(3), opset=18) for n in ("BitwiseAnd", "BitwiseOr")],
    case("GreaterOrEqual", np.round(X), np.round(Y)),
    case("Div", integers(2, 3), integers(2, 3, low=1), symbolic=False),
    case("Max", X),
    case("Max", np.asarray(-np.inf, F32), X),
    case("Add", floats(1, 3, 1), floats(2, 1, 4)),
    case("Pow", POSITIVE, floats(3)),
    case("Pow", X, np.asarray(2.0, F32), fed=1),
    case("Pow", X, np.asarray([3], np.int64), fed=1),
    case("Pow", integers(2, 3), np.asarray(2, np.int64)),
    case("Add", np.asarray([2**31 - 1], np.int32), np.asarray([7], np.int32), fed=0),
    case("Mul", np.asarray([2**62], np.int64), np.asarray([6], np.int64), fed=0),
    case("Mod", integers(2, 3), integers(3, low=1)),
    case("Mod", X, Y, fmod=1),
    case("Mod", integers(2, 3, dtype=np.int32), integers(3, low=1, dtype=np.int32), fmod=1),
    case("PRelu", X, floats(3, 1)),
    case(
        "BitShift",
        integers(3, low=0).astype(np.uint8),
        ints(1, 2, 3).astype(np.uint8),
        direction="LEFT",
    ),
    case("Where", bools(2, 3, 1), X, floats(4)),
    case("Clip", X, np.asarray(-0.5, F32), np.asarray(0.5, F32), fed=1),
    case("Clip", X, np.asarray(-0.5, F32), np.asarray(0.5, F32)),
    case("Clip", X, None, np.asarray(0.5, F32), fed=1),
    case("Clip", X, np.asarray(-0.5, F32), fed=1),
    case("Clip", X, np.asarray(0.5, F32), np.asarray(-0.5, F32), fed=1),
    case("Clip", X),
    case("Clip", X, opset=6, min=-0.25, max=0.75),
    case("Clip", integers(2, 3), np.asarray(-1, np.int64), np.asarray(2, np.int64), fed=1),
]

LINEAR = [
    case("MatMul", floats(3, 4), floats(4, 5)),
    case("MatMul", floats(2, 3, 4), floats(4, 5)),
    case("MatMul", floats(2, 1, 3, 4), floats(5, 4, 2)),
    case("MatMul", floats(4), floats(4, 5)),
    case("MatMul", floats(3, 4), floats(4)),
    case("Gemm", floats(3, 4), floats(4, 5)),
    case("Gemm", floats(4, 3), floats(5, 4), floats(5), transA=1, transB=1, alpha=0.5, beta=2.0),
    case("Gemm", floats(3, 4), floats(5, 4), floats(3, 1), fed=1, transB=1),
]

CONV = [
    case("Conv", IMAGE, floats(6, 4, 3, 3), floats(6), fed=1, pads=[1, 1, 1, 1]),
    case("Conv", IMAGE, floats(6, 4, 3, 3), fed=1, pads=[1, 0, 2, 1], strides=[2, 1]),
    case("Conv", IMAGE, floats(4, 1, 3, 3), fed=1, group=4, dilations=[2, 2]),
    case("Conv", IMAGE, floats(8, 2, 1, 1), fed=1, group=2),
    case("Conv", floats(2, 3, 9), floats(4, 3, 3), fed=1, strides=[2]),
    case("Conv", floats(1, 2, 5, 4, 6), floats(3, 2, 2, 2, 2), fed=1, symbolic=False),
    case(
        "Conv",
        IMAGE,
        floats(6, 4, 3, 3),
        fed=1,
        auto_pad="SAME_UPPER",
        strides=[2, 2],
        symbolic=False,
    ),
    case("Conv", IMAGE, floats(6, 4, 2, 2), fed=1, auto_pad="SAME_LOWER"),
    case("Conv", IMAGE, floats(6, 4, 3, 3), fed=1, auto_pad="VALID"),
    case("ConvTranspose", IMAGE, floats(4, 3, 2, 2), floats(3), fed=1, strides=[2, 2]),
    case(
        "ConvTranspose",
        IMAGE,
        floats(4, 3, 3, 3),
        fed=1,
        pads=[1, 1, 1, 1],
        output_padding=[1, 1],
        strides=[2, 2],
    ),
    case("ConvTranspose", IMAGE, floats(4, 2, 3, 3), fed=1, group=2),
    case(
        "ConvTranspose",
        floats(1, 4, 3, 5, 2),
        floats(4, 2, 2, 3, 1),
        fed=1,
        group=2,
        strides=[1, 2, 3],
        dilations=[2, 1, 1],
        pads=[0, 2, 1, 1, 1, 0],
        output_padding=[0, 1, 2],
    ),
    case("ConvTranspose", floats(2, 3, 5), floats(3, 2, 3), fed=1, strides=[2]),
    case("ConvTranspose", IMAGE, floats(4, 3, 3, 3), fed=1, auto_pad="SAME_UPPER", strides=[2, 2]),
    case(
        "ConvTranspose",
        IMAGE,
        floats(4, 3, 3, 3),
        output_shape=[18, 16],
        strides=[2, 2],
        symbolic=False,
    ),
]

NORM = [
    case("BatchNormalization", IMAGE, *CHANNELS, fed=1, epsilon=1e-3),
    case("BatchNormalization", floats(3, 4), *CHANNELS, fed=1, opset=9),
    case("InstanceNormalization", IMAGE, CHANNELS[0], CHANNELS[1], fed=1),
    case("LayerNormalization", X, floats(4), floats(4, seed=1), fed=1),
    case("LayerNormalization", X, floats(4), fed=1, epsilon=1e-3),
    case("SkipLayerNormalization", X, Y, floats(4), floats(4, seed=2), domain="com.microsoft"),
    case(
        "SkipLayerNormalization",
        X,
        Y,
        floats(4),
        floats(4, seed=2),
        floats(4, seed=3),
        fed=2,
        epsilon=1e-3,
        domain="com.microsoft",
    ),
    case("LayerNormalization", X, floats(3, 4), fed=1, axis=1, symbolic=False),
    case("LayerNormalization", X, floats(4), fed=1, outputs=3),
    *[
        case(n, X.astype("f8"), floats(4).astype("f8"), fed=1, outputs=k)
        for n, k in (("LayerNormalization", 3), ("SimplifiedLayerNormalization", 2))
    ],
    case("LpNormalization", X, axis=1),
    case("LpNormalization", X, axis=-1, p=1),
    case("LRN", IMAGE, size=3),
    case("MeanVarianceNormalization", IMAGE),
    case(
        "GroupNormalization",
        IMAGE,
        CHANNELS[0],
        CHANNELS[1],
        fed=1,
        opset=21,
        num_groups=2,
        symbolic=False,
    ),
    case("Softmax", X),
    case("Softmax", X, axis=1),
    case("Softmax", X, axis=1, opset=11),
    case("LogSoftmax", X, axis=0, opset=11),
    case("LogSoftmax", X, axis=0),
    case("Hardmax", X, axis=1),
]

POOL = [
    case("MaxPool", IMAGE, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]),
    case("MaxPool", IMAGE, kernel_shape=[2, 2], dilations=[2, 2]),
    case("MaxPool", IMAGE, kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1),
    case("MaxPool", floats(2, 3, 9), kernel_shape=[3]),
    case("MaxPool", floats(1, 2, 5, 4, 6), kernel_shape=[2, 2, 2]),
    case("MaxPool", IMAGE, kernel_shape=[3, 2], strides=[2, 1], pads=[1, 0, 0, 1], outputs=2),
    case("MaxPool", floats(2, 3, 9), kernel_shape=[2], strides=[3], ceil_mode=1, outputs=2),
    *[
        case(n, floats(2, 3, 12), kernel_shape=[k], strides=[s], pads=p, ceil_mode=1, opset=19, **m)
        for n, m in (
            ("MaxPool", {}),
            ("LpPool", {"p": 1}),
            ("AveragePool", {}),
            ("AveragePool", {"count_include_pad": 1}),
        )
        for k, s, p in ((1, 2, [0, 0]), (2, 3, [1, 1]), (3, 3, [0, 2]), (5, 2, [2, 1]))
    ],
    case("AveragePool", IMAGE, kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
    case("AveragePool", IMAGE, kernel_shape=[3, 3], pads=[1, 0, 0, 1], count_include_pad=1),
    case("AveragePool", IMAGE, kernel_shape=[2, 2], auto_pad="SAME_UPPER"),
    case("AveragePool", IMAGE, kernel_shape=[2, 3], strides=[2, 2], ceil_mode=1),
    case("LpPool", IMAGE, kernel_shape=[2, 2], p=2, opset=11),
    case("LpPool", IMAGE, kernel_shape=[2, 3], strides=[2, 2], ceil_mode=1, opset=18),
    case(
        "LpPool",
        IMAGE,
        kernel_shape=[3, 2],
        strides=[2, 3],
        pads=[0, 1, 1, 0],
        ceil_mode=1,
        p=3,
        opset=18,
    ),
    case(
        "MaxPool",
        IMAGE,
        kernel_shape=[3, 2],
        strides=[2, 3],
        pads=[0, 1, 1, 1],
        ceil_mode=1,
    ),
    case("GlobalAveragePool", IMAGE),
    case("GlobalMaxPool", IMAGE),
    case("GlobalMaxPool", floats(2, 3, 7)),
    case("GlobalLpPool", IMAGE, p=1),
]

NAMES = ("Sum", "Mean", "Max", "Min", "Prod", "L1", "L2", "SumSquare", "LogSumExp")
REDUCE = [
    *[case(f"Reduce{n}", X, axes=[1], opset=11) for n in NAMES],
    *[case(f"Reduce{n}", X, ints(0, -1), fed=1, keepdims=0, opset=18) for n in NAMES],
    case("ReduceLogSum", POSITIVE, axes=[0]),
    *[
        case(f"Reduce{n}", integers(2, 3, 4, low=1, dtype=t), axes=[1])
        for n in ("L2", "LogSum", "Mean")
        for t in (np.int32, np.int64)
    ],
    case("ReduceMean", np.full((2, 3), 2**31 - 2, np.int32), axes=[1]),
    case("ReduceMean", np.full((1, 2), 2**62 + 1, np.int64), axes=[0]),
    case("ReduceSum", X, ints(1), fed=1),
    case("ReduceSum", X),
    case("ReduceSum", X, ints(), fed=1, noop_with_empty_axes=1),
    case("ReduceMax", X, axes=[2], keepdims=0),
    case("ReduceMax", integers(2, 3), axes=[1]),
    case("ArgMax", X, axis=1),
    case("ArgMin", X, axis=-1, keepdims=0),
    case("ArgMax", np.round(X), axis=1, select_last_index=1, symbolic=False),
]

MOVE = [
    case("Reshape", X, ints(3, -1), fed=1),
    case("Reshape", X, ints(0, -1), fed=1),
    case("Reshape", X, ints(0, 0, 2, 2), fed=1, symbolic=False),
    case("Reshape", X, shape=[4, 6], opset=1),
    case("Flatten", X),
    case("Flatten", X, axis=0),
    case("Flatten", X, axis=-1),
    case("Squeeze", floats(1, 3, 1), ints(0, 2), fed=1),
    case("Squeeze", floats(1, 3, 1), axes=[0], opset=11),
    case("Squeeze", floats(1, 3, 1), symbolic=False),
    case("Unsqueeze", X, ints(0, -1), fed=1),
    case("Unsqueeze", X, axes=[1], opset=11),
    case("Transpose", X),
    case("Transpose", X, perm=[1, 0, 2]),
    case("Transpose", X, perm=[0, 1, 2]),
    case("Concat", X, floats(2, 5, 4), axis=1),
    case("Concat", X, Y, X, axis=-1),
    case("Split", floats(6, 4), axis=0, outputs=3),
    case("Split", floats(6, 4), ints(1, 3, 2), fed=1, outputs=3, symbolic=False),
    case("Split", floats(7, 4), num_outputs=3, outputs=3, opset=18, symbolic=False),
    case("Split", floats(6, 4), axis=1, split=[1, 3], outputs=2, opset=11, symbolic=False),
    case("Slice", X, ints(0, 1), ints(2, 3), fed=1),
    case("Slice", X, ints(-2), ints(10**9), ints(1), fed=1),
    case("Slice", X, ints(-1), ints(-100), ints(1), ints(-1), fed=1, symbolic=False),
    case("Slice", floats(9, 4), ints(1), ints(2**31 - 1), ints(0), ints(3), fed=1),
    case("Slice", X, ints(0, 0), ints(10**9, 2**63 - 1), ints(2, 1), fed=1),
    case("Slice", floats(1, 4), ints(-3), ints(-(2**63)), ints(0), ints(-1), fed=1),
    case("Slice", X, ints(-5), ints(-(2**63)), ints(1), ints(-(2**63)), fed=1),
    case("Slice", X, opset=9, starts=[1], ends=[3], axes=[1]),
    case("Expand", floats(3, 1), ints(2, 1, 4), fed=1),
    case("Expand", X, ints(1, 1, 1), fed=1),
    case("Tile", floats(2, 3), ints(2, 3), fed=1),
    case("Pad", X, ints(0, 1, 2, 1, 0, 0), np.asarray(1.5, F32), fed=1),
    case("Pad", X, ints(0, 1, 2, 0, 1, 2), fed=1, mode="reflect"),
    case("Pad", X, ints(0, -1, 0, 0, 0, 0), fed=1),
    case("Pad", X, ints(1, 1), None, ints(1), fed=1, opset=18, mode="edge"),
    case("Pad", X, opset=2, pads=[0, 1, 0, 0, 0, 1], value=2.0),
    case("DepthToSpace", IMAGE, blocksize=2),
    case("DepthToSpace", IMAGE, blocksize=2, mode="CRD"),
    case("SpaceToDepth", floats(1, 2, 4, 6), blocksize=2, symbolic=False),
]

PICK = [
    case("Gather", X, ints(0, 2, -1), fed=1, axis=1),
    case("Gather", X, np.asarray([[1, 0], [-1, -2]], np.int64)),
    case("Gather", X, np.asarray(1, np.int64), fed=1, axis=2),
    case("Gather", floats(5, 3), integers(2, 2, low=-5, high=5, dtype=np.int32)),
    case("GatherElements", X, integers(2, 2, 4, low=-3, high=3), axis=1, symbolic=False),
    case("GatherND", X, np.asarray([[0, 1], [1, -1]], np.int64), symbolic=False),
    case("GatherND", X, np.asarray([[1], [0]], np.int64), batch_dims=1, opset=12, symbolic=False),
    case("Scatter", X, integers(1, 2, 4, low=-2, high=2), Y[:1, :2], opset=10, symbolic=False),
    case("ScatterElements", X, ints(1, -1, 0).reshape(1, 3, 1), Y[:1, :, :1], symbolic=False),
    *[
        case(
            "ScatterElements",
            X,
            integers(2, 2, 4, low=-3, high=3),
            Y[:, :2],
            axis=1,
            reduction=reduction,
            opset=18,
            symbolic=False,
        )
        for reduction in ("add", "mul", "min", "max")
    ],
    case("ScatterND", X, np.asarray([[0, 1], [1, -1]], np.int64), Y[0, :2], symbolic=False),
    case(
        "ScatterND",
        X,
        np.asarray([[[1]], [[1]]], np.int64),
        Y[:, None],
        opset=18,
        reduction="add",
        symbolic=False,
    ),
    case("ReverseSequence", X, ints(2, 1, 0)),
    case("ReverseSequence", X, ints(3, 2), batch_axis=0, time_axis=1),
    case("Compress", X, np.asarray([True, False, True]), fed=1, axis=1),
    case("Compress", X, np.asarray([True, False, True]), axis=1),
    case("Compress", X, np.asarray([True, False] * 12)),
    case("Compress", X, np.asarray([True]), axis=-1),
    case("OneHot", ints(0, 3, -1), np.asarray(4, np.int64), np.asarray([2, 5], F32), fed=1),
    case(
        "OneHot",
        integers(2, 3, low=0, high=4),
        np.asarray([4], np.int64),
        np.asarray([0, 1], F32),
        fed=1,
        axis=1,
    ),
    case("Trilu", X),
    case("Trilu", X, np.asarray(-1, np.int64), fed=1, upper=0),
    case("Trilu", X, np.asarray(-(2**63), np.int64), fed=1),
    case("Trilu", X, np.asarray(2**63 - 1, np.int64), fed=1, upper=0),
    case("EyeLike", X[0], k=1, symbolic=False),
    case("EyeLike", X[0], k=-1, dtype=7, symbolic=False),
    case("Shape", X),
    case("Shape", X, start=1, end=-1),
    case("Size", X),
    case("ConstantOfShape", ints(2, 3), fed=0),
    case("Range", np.asarray(1, np.int64), np.asarray(9, np.int64), np.asarray(3, np.int64), fed=0),
    case("Range", np.asarray(1.0, F32), np.asarray(2.0, F32), np.asarray(0.3, F32), fed=0),
]

ORDER = [
    case("CumSum", X, np.asarray(1, np.int64), fed=1),
    case("CumSum", X, np.asarray(-1, np.int64), fed=1, exclusive=1, reverse=1),
    case("TopK", X, ints(2), fed=1, outputs=2),
    case("TopK", X, ints(0), fed=1, outputs=2, axis=1),
    case("TopK", X, ints(2), fed=1, outputs=2, axis=1, largest=0),
    case("Unique", np.round(X), outputs=4, symbolic=False),
    case("Unique", np.round(X), sorted=0, outputs=4, symbolic=False),
    case("NonZero", np.round(X), symbolic=False),
]

U8, SCALE = integers(2, 3, 4, low=0, high=255, dtype=np.uint8), floats(3, low=0.1, high=0.4)
ZERO = np.asarray([120, 128, 131], np.uint8)
ONE, MIDDLE = np.asarray(0.02, F32), np.asarray(127, np.uint8)
QUANTIZED = [
    case("QuantizeLinear", X, ONE, MIDDLE, fed=1),
    case("QuantizeLinear", X, SCALE, ZERO, fed=1, axis=1),
    case("QuantizeLinear", X, ONE, fed=1),
    case("DequantizeLinear", U8, ONE, MIDDLE, fed=1),
    case("DequantizeLinear", U8, SCALE, ZERO, fed=1, axis=1),
    case(
        "DequantizeLinear",
        U8,
        floats(1, 3, 4),
        fed=1,
        axis=0,
        block_size=2,
        opset=21,
        symbolic=False,
    ),
    case("DynamicQuantizeLinear", X, outputs=3),
    case("DynamicQuantizeLinear", np.zeros((2, 3), np.float32), outputs=3),
    case("MatMulInteger", U8[0], U8[1].T.copy(), MIDDLE, MIDDLE, fed=1),
    case("QLinearMatMul", U8[0], ONE, MIDDLE, U8[1].T.copy(), ONE, MIDDLE, ONE, MIDDLE, fed=1),
    case(
        "ConvInteger", U8[None], integers(4, 2, 2, 2, low=0, high=9, dtype=np.uint8), MIDDLE, fed=1
    ),
    case(
        "QLinearConv",
        U8[None],
        ONE,
        MIDDLE,
        integers(3, 2, 2, 2, low=0, high=9, dtype=np.uint8),
        SCALE,
        ZERO * 0,
        np.asarray(0.5, F32),
        MIDDLE,
        integers(3, dtype=np.int32),
        fed=1,
    ),
]

PICTURE = floats(1, 2, 4, 6)
DOUBLE, ODD = np.asarray([1, 1, 2, 2], F32), np.asarray([1, 1, 1.6, 0.7], F32)
RESIZE = [
    case("Upsample", PICTURE, DOUBLE, fed=1, opset=9, mode="nearest"),
    case("Upsample", PICTURE, DOUBLE, fed=1, opset=9, mode="linear"),
    case("Resize", PICTURE, DOUBLE, fed=1, opset=10, mode="nearest"),
    case(
        "Resize",
        floats(1, 10),
        None,
        np.asarray([1, 1.3], F32),
        fed=1,
        mode="linear",
    ),
    case("Resize", PICTURE, None, DOUBLE, fed=1, mode="nearest"),
    case(
        "Resize",
        PICTURE,
        None,
        DOUBLE,
        fed=1,
        mode="nearest",
        coordinate_transformation_mode="asymmetric",
        nearest_mode="floor",
    ),
    *[
        case(
            "Resize",
            PICTURE,
            None,
            ODD if place != "align_corners" else DOUBLE,  # onnxruntime rounds extents down there
            fed=1,
            mode=mode,
            coordinate_transformation_mode=place,
        )
        for mode in ("nearest", "linear", "cubic")
        for place in ("half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel")
    ],
    case(
        "Resize",
        PICTURE,
        None,
        ODD,
        fed=1,
        mode="cubic",
        cubic_coeff_a=-0.5,
        exclude_outside=1,
    ),
    case("Resize", PICTURE, None, None, ints(1, 2, 7, 3), fed=1, mode="linear"),
    case(
        "Resize",
        PICTURE,
        None,
        None,
        ints(3, 3),
        fed=1,
        mode="linear",
        axes=[2, 3],
        antialias=1,
        opset=18,
        symbolic=False,
    ),
    case(
        "Resize",
        PICTURE,
        None,
        None,
        ints(7, 7),
        fed=1,
        axes=[2, 3],
        keep_aspect_ratio_policy="not_larger",
        opset=18,
        symbolic=False,
    ),
]

EINSUM = [
    case("Einsum", floats(3, 4), floats(4, 5), equation="ij,jk->ik"),
    case("Einsum", floats(2, 3, 4), floats(2, 5, 4), equation="bij, bkj -> bik"),
    case("Einsum", floats(2, 3, 4), floats(2, 5, 4), equation="bij,bkj->kbi"),
    case("Einsum", floats(2, 3, 4), floats(4, 5), equation="...j,jk"),
    case("Einsum", floats(2, 3, 4), equation="ijk->ki"),
    case("Einsum", floats(3, 3), equation="ii->i"),
    case("Einsum", floats(3, 2, 3), floats(2, 4), equation="iji,jk->ki"),
    case("Einsum", floats(3, 3, 2, 3), equation="iiji"),
    case("Einsum", floats(3), floats(4), floats(3, 4), equation="i,j,ij->"),
    case("Einsum", floats(2, 3, 4, 5), floats(2, 6, 4, 5), equation="bihd,bjhd->bhij"),
]

CASES = [*UNARY, *BINARY, *LINEAR, *CONV, *NORM, *POOL, *REDUCE, *MOVE, *PICK]
CASES += [*ORDER, *QUANTIZED, *RESIZE, *EINSUM]


@pytest.mark.parametrize("row", CASES, ids=[f"{r[0]}-{i}" for i, r in enumerate(CASES)])
def test_static(row):
    op_type, inputs, options = row
    options = {k: v for k, v in options.items() if k != "symbolic"}
    check(*operator(op_type, *inputs, **options))


@pytest.mark.parametrize("axis, bias", [(1, floats(3)), (None, floats(4)), (0, floats(2, 3))])
def test_broadcasting_before_opset_7(axis, bias):
    options = {"broadcast": 1} if axis is None else {"broadcast": 1, "axis": axis}
    model, feeds = operator("Add", X, bias, opset=6, **options)
    (got,) = interpreted(from_onnx(model), feeds)
    first = 2 if axis is None else axis
    shape = [1] * first + list(bias.shape)
    np.testing.assert_array_equal(got, X + bias.reshape(shape + [1] * (3 - len(shape))))


def test_broadcasting_of_known_integers_before_opset_7():
    """Such integers are computed while importing; here along an axis that numpy would not take."""
    square, rows = integers(2, 2), ints(10, 20)
    options = {"opset": 6, "broadcast": 1, "axis": 0}
    model, feeds = operator("Add", square, rows, fed=0, **options)
    (got,) = interpreted(from_onnx(model), feeds)
    np.testing.assert_array_equal(got, square + rows[:, None])


SYMBOLIC = [r for r in CASES if r[2].get("symbolic", True) and r[2].get("fed", 1)]


@pytest.mark.sample(4)
@pytest.mark.parametrize("row", SYMBOLIC, ids=[f"{r[0]}-{i}" for i, r in enumerate(SYMBOLIC)])
def test_symbolic(row):
    op_type, inputs, options = row
    check(*operator(op_type, *inputs, **{**options, "symbolic": True}))
