"""One small model for each operator, with what numpy says of it."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...drawing import drawn
from .support import Graph, model

F = np.float32


def real(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.uniform(-2, 2, shape).astype(F)


def ints(
    rng: np.random.Generator, high: int, *shape: int, dtype: str = "int32", low: int = 0
) -> np.ndarray:
    return rng.integers(low, high, shape).astype(dtype)


@dataclass
class Case:
    """An operator on inputs and constants, in order; what numpy makes of all of them."""

    kind: str
    inputs: list[np.ndarray]
    meaning: Callable[..., Any]
    constants: list[Any] = field(default_factory=list)
    options: str = ""
    values: dict[str, Any] = field(default_factory=dict)
    order: list[int] | None = None  # the operator's inputs among inputs, then constants
    outputs: int = 1
    name: str = ""
    custom: bytes | None = None  # the options of an operator that is not built in

    @property
    def id(self) -> str:
        return f"{self.kind}{self.name and '-'}{self.name}"

    def expected(self) -> list[np.ndarray]:
        out = self.meaning(*self.inputs, *self.constants)
        return list(out) if isinstance(out, (list, tuple)) else [out]

    def drawn(self) -> Graph:
        g = Graph()
        numbers = [g.input(x.shape, x.dtype.name) for x in self.inputs]
        numbers += [-1 if c is None else g.constant(np.asarray(c)) for c in self.constants]
        wanted = self.expected()
        outs = [g.tensor(w.shape, w.dtype.name, name=f"y{k}") for k, w in enumerate(wanted)]
        order = numbers if self.order is None else [numbers[k] for k in self.order]
        g.op(self.kind, order, outs, self.options, self.custom, **self.values)
        g.outputs = outs
        return g

    def graph(self) -> bytes:
        return model(self.drawn())


def convolved(
    x: np.ndarray,
    w: np.ndarray,
    b: np.ndarray,
    steps: Any,
    same: bool,
    dilation: int = 1,
    groups: int = 1,
) -> np.ndarray:
    """NHWC by OHWI."""
    kernel = [(k - 1) * dilation + 1 for k in w.shape[1:3]]
    pads = [(0, 0)] * 2
    if same:
        pads = []
        for n, k, s in zip(x.shape[1:3], kernel, steps):
            total = max((-(-n // s) - 1) * s + k - n, 0)
            pads.append((total // 2, total - total // 2))
    x = np.pad(x, [(0, 0), *pads, (0, 0)])
    rows, cols = ((n - k) // s + 1 for n, k, s in zip(x.shape[1:3], kernel, steps))
    out = np.zeros((len(x), rows, cols, len(w)), np.float64)
    inner, outer = x.shape[3] // groups, len(w) // groups
    for i in range(w.shape[1]):
        for j in range(w.shape[2]):
            part = x[:, i * dilation :, j * dilation :][:, :: steps[0], :: steps[1]]
            part = part[:, :rows, :cols]
            for g in range(groups):
                of = slice(g * outer, (g + 1) * outer)
                out[..., of] += part[..., g * inner : (g + 1) * inner] @ w[of, i, j].T
    return (out + b).astype(x.dtype)


def solid(x: np.ndarray, w: np.ndarray, b: np.ndarray) -> np.ndarray:
    """NDHWC by DHWIO, VALID, strides (1, 2, 1), dilations (1, 1, 2)."""
    out = np.zeros((1, 2, 2, 2, 5), np.float64)
    for d, h, v in np.ndindex(w.shape[:3]):
        out += x[:, d : d + 2, h : h + 3 : 2, 2 * v : 2 * v + 2] @ w[d, h, v]
    return (out + b).astype(F)


def pooled(x: np.ndarray, kernel: int, step: int, fold: Any) -> np.ndarray:
    """SAME padding; only what is inside counts."""
    n, h, w, c = x.shape
    out = np.zeros((n, -(-h // step), -(-w // step), c), F)
    before = [max((-(-e // step) - 1) * step + kernel - e, 0) // 2 for e in (h, w)]
    for i in range(out.shape[1]):
        for j in range(out.shape[2]):
            r, s = i * step - before[0], j * step - before[1]
            out[:, i, j] = fold(x[:, max(r, 0) : r + kernel, max(s, 0) : s + kernel], (1, 2))
    return out


def bilinear(x: np.ndarray, size: Any, centers: bool, corners: bool) -> np.ndarray:
    for axis, n in zip((1, 2), size):
        m = x.shape[axis]
        scale = (m - 1) / (n - 1) if corners else m / n
        at = (np.arange(n) + 0.5) * scale - 0.5 if centers else np.arange(n) * scale
        low = np.floor(at).astype(int)
        part = (at - low).reshape([-1 if a == axis else 1 for a in range(4)])
        a, b = (np.take(x, np.clip(i, 0, m - 1), axis) for i in (low, low + 1))
        x = a * (1 - part) + b * part
    return x.astype(F)


def sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def lstm_steps(x, *rest, clip=0.0):
    """(batch, time, in); the inputs of the operator, None for those left out."""
    given = [x, *rest]
    h, c, outs = given[18], given[19], []
    for t in range(x.shape[1]):

        def gate(k, act, step=x[:, t], h=h):
            if given[1 + k] is None:
                return None
            return act(step @ given[1 + k].T + h @ given[5 + k].T + given[12 + k])

        f, g, o = gate(1, sigmoid), gate(2, np.tanh), gate(3, sigmoid)
        i = gate(0, sigmoid)
        i = 1 - f if i is None else i
        c = f * c + i * g
        c = np.clip(c, -clip, clip) if clip else c
        h = o * np.tanh(c)
        outs.append(h)
    return np.stack(outs, 1).astype(F)


def faked(x: np.ndarray, first: int, last: int, low: float, high: float) -> np.ndarray:
    """The nearest of the numbers that first..last stand for; the least one is moved so that zero is one."""
    step = (F(high) - F(low)) / F(last - first)
    zero = np.clip(np.floor(first - F(low) / step + F(0.5)), first, last)
    codes = np.floor(np.clip(x / step + zero, first, last) - first + 0.5) + first
    return ((codes - zero) * step).astype(F)


def stepped(
    x: np.ndarray, w: np.ndarray, r: np.ndarray, b: np.ndarray, h: np.ndarray
) -> np.ndarray:
    """(batch, time, in): h = tanh(x W' + h R' + b) at each step."""
    outs = []
    for step in x.swapaxes(0, 1):
        h = np.tanh(step @ w.T + h @ r.T + b)
        outs.append(h)
    return np.stack(outs, 1)


def _unary(rng: np.random.Generator) -> list[Case]:
    erf = np.vectorize(math.erf)
    table: dict[str, Any] = {
        "ABS": np.abs, "CEIL": np.ceil, "COS": np.cos, "EXP": np.exp, "FLOOR": np.floor,
        "HARD_SWISH": lambda x: x * np.clip(x + 3, 0, 6) / 6, "LOGISTIC": sigmoid, "NEG": np.negative,
        "RELU": lambda x: np.maximum(x, 0), "RELU6": lambda x: np.clip(x, 0, 6),
        "RELU_N1_TO_1": lambda x: np.clip(x, -1, 1), "RELU_0_TO_1": lambda x: np.clip(x, 0, 1),
        "ROUND": np.rint, "SIN": np.sin, "SIGN": np.sign, "SQUARE": np.square, "TANH": np.tanh,
        "ELU": lambda x: np.where(x < 0, np.expm1(x), x), "ZEROS_LIKE": np.zeros_like,
    }  # fmt: skip
    cases = [Case(k, [real(rng, 2, 3, 4)], lambda x, f=f: f(x).astype(F)) for k, f in table.items()]
    positive = np.abs(real(rng, 3, 5)) + F(0.1)
    for k, f in {"LOG": np.log, "SQRT": np.sqrt, "RSQRT": lambda x: 1 / np.sqrt(x)}.items():
        cases.append(Case(k, [positive], lambda x, f=f: f(x).astype(F)))
    cases.append(Case("LOGICAL_NOT", [ints(rng, 2, 5).astype(bool)], np.logical_not))
    cases.append(
        Case(
            "LEAKY_RELU",
            [real(rng, 3, 5)],
            lambda x: np.where(x < 0, F(0.2) * x, x),
            [],
            "LeakyRelu",
            {"Alpha": 0.2},
        )
    )
    cases.append(
        Case(
            "GELU",
            [real(rng, 3, 5)],
            lambda x: (x * (1 + erf(x / 2**0.5)) / 2).astype(F),
            [],
            "Gelu",
            {"Approximate": False},
        )
    )
    return cases  # fmt: skip


def _binary(rng: np.random.Generator) -> list[Case]:
    table: dict[str, Any] = {
        "ADD": np.add, "SUB": np.subtract, "MUL": np.multiply, "DIV": np.divide,
        "MAXIMUM": np.maximum, "MINIMUM": np.minimum, "SQUARED_DIFFERENCE": lambda a, b: (a - b) ** 2,
        "EQUAL": np.equal, "NOT_EQUAL": np.not_equal, "LESS": np.less, "LESS_EQUAL": np.less_equal,
        "GREATER": np.greater, "GREATER_EQUAL": np.greater_equal, "FLOOR_DIV": np.floor_divide,
        "ATAN2": np.arctan2,
    }  # fmt: skip
    cases = []
    for kind, f in table.items():
        a, b = real(rng, 2, 3, 4), real(rng, 3, 4) if kind != "ATAN2" else real(rng, 2, 3, 4)
        cases.append(Case(kind, [a, b], f))
    cases.append(Case("FLOOR_MOD", [ints(rng, 9, 6, low=-9), np.array(4, np.int32)], np.mod))
    cases.append(
        Case(
            "FLOOR_DIV",
            [ints(rng, 9, 6, low=-9), np.array(4, np.int32)],
            np.floor_divide,
            name="int",
        )
    )
    cases.append(Case("POW", [np.abs(real(rng, 2, 3)), real(rng, 2, 3)], np.power))
    cases.append(
        Case(
            "LOGICAL_AND",
            [ints(rng, 2, 7).astype(bool), ints(rng, 2, 7).astype(bool)],
            np.logical_and,
        )
    )
    cases.append(
        Case(
            "LOGICAL_OR",
            [ints(rng, 2, 7).astype(bool), ints(rng, 2, 7).astype(bool)],
            np.logical_or,
        )
    )
    cases.append(Case("BITWISE_XOR", [ints(rng, 99, 6), ints(rng, 99, 6)], np.bitwise_xor))
    for narrow, bits, low, high in ((0, 8, -1.0, 1.0), (1, 4, 0.25, 3.0)):
        name, values = (
            f"bits{bits}",
            {"Min": low, "Max": high, "NumBits": bits, "NarrowRange": narrow},
        )
        mean = lambda x, n=narrow, b=bits, p=low, q=high: faked(x, n, (1 << b) - 1, p, q)  # noqa: E731
        cases.append(
            Case("FAKE_QUANT", [real(rng, 40) * 2], mean, [], "FakeQuant", values, name=name)
        )
    fused = {0: lambda v: v, 1: lambda v: np.maximum(v, 0), 2: lambda v: np.clip(v, -1, 1),
             3: lambda v: np.clip(v, 0, 6)}  # fmt: skip
    for number, act in fused.items():
        cases.append(
            Case(
                "ADD",
                [real(rng, 2, 4, 4, 3) * 3],
                lambda a, b, act=act: act(a + b),
                [real(rng, 3)],
                "Add",
                {"FusedActivationFunction": number},
                name=f"fused{number}",
            )
        )
    cases.append(
        Case(
            "PRELU",
            [real(rng, 2, 3, 4, 5)],
            lambda x, s: np.where(x < 0, s * x, x),
            [real(rng, 1, 1, 5)],
        )
    )
    cases.append(Case("ADD_N", [real(rng, 2, 3)] * 3, lambda a, b, c: a + b + c))
    condition = ints(rng, 2, 2, 3).astype(bool)
    cases.append(Case("WHERE", [condition], lambda c: np.argwhere(c).astype(np.int64)))
    cases.append(Case("SELECT", [condition, real(rng, 2, 3), real(rng, 2, 3)], np.where))
    cases.append(Case("SELECT_V2", [condition, real(rng, 4, 2, 3), real(rng, 3)], np.where))
    return cases


def _images(rng: np.random.Generator) -> list[Case]:
    x, b = real(rng, 2, 9, 8, 6), real(rng, 4)
    cases = []
    for same, step, dilation in ((True, 2, 1), (False, 1, 1), (True, 1, 2)):
        values = {"Padding": int(not same), "StrideH": step, "StrideW": step,
                  "DilationHFactor": dilation, "DilationWFactor": dilation}  # fmt: skip
        mean = lambda x, w, b, s=same, t=step, d=dilation: convolved(x, w, b, (t, t), s, d)  # noqa: E731
        name = f"same{same}-step{step}-dilation{dilation}"
        cases.append(
            Case("CONV_2D", [x], mean, [real(rng, 4, 3, 3, 6), b], "Conv2D", values, name=name)
        )
        deep = lambda x, w, b, s=same, t=step, d=dilation: convolved(  # noqa: E731
            x, np.moveaxis(w, 3, 0).transpose(0, 2, 3, 1), b, (t, t), s, d, 6
        )
        cases.append(
            Case(
                "DEPTHWISE_CONV_2D",
                [x],
                deep,
                [real(rng, 1, 3, 3, 12), real(rng, 12)],
                "DepthwiseConv2D",
                {**values, "DepthMultiplier": 2},
                name=name,
            )
        )
    cases.append(
        Case(
            "CONV_2D",
            [x],
            lambda x, w, b: convolved(x, w, b, (1, 1), True, groups=3),
            [real(rng, 9, 3, 3, 2), real(rng, 9)],
            "Conv2D",
            {"Padding": 0, "StrideH": 1, "StrideW": 1},
            name="groups",
        )
    )
    # At step 1 a row is cut before and one behind, at step 2 one behind.
    for same, step, cut in ((True, 1, 1), (True, 2, 0), (False, 2, 0)):

        def spread(size, w, x, same=same, step=step, cut=cut):
            n, h, v, _ = x.shape
            full = np.zeros((n, (h - 1) * step + 3, (v - 1) * step + 3, len(w)), F)
            for i in range(h):
                for j in range(v):
                    part = np.einsum("nc,oklc->nklo", x[:, i, j], w)
                    full[:, step * i : step * i + 3, step * j : step * j + 3] += part
            return full[:, cut : cut + step * h, cut : cut + step * v] if same else full

        size = np.array([2, 4 * step, 5 * step, 4] if same else [2, 9, 11, 4], np.int32)
        cases.append(
            Case(
                "TRANSPOSE_CONV",
                [real(rng, 2, 4, 5, 6)],
                lambda x, size, w, f=spread: f(size, w, x),
                [size, real(rng, 4, 3, 3, 6)],
                "TransposeConv",
                {"Padding": int(not same), "StrideH": step, "StrideW": step},
                [1, 2, 0],
                name=f"same{same}{step}",
            )
        )
    volume = real(rng, 1, 4, 5, 6, 2)
    cases.append(
        Case("CONV_3D", [volume], solid, [real(rng, 3, 2, 3, 2, 5), real(rng, 5)], "Conv3D",
             {"Padding": 1, "StrideD": 1, "StrideH": 2, "StrideW": 1, "DilationDFactor": 1,
              "DilationHFactor": 1, "DilationWFactor": 2})
    )  # fmt: skip
    for same in (True, False):
        cases.append(
            Case("Convolution2DTransposeBias", [real(rng, 2, 4, 5, 6)],
                 lambda x, w, b, s=same: spread(None, w, x, s) + b, [real(rng, 4, 3, 3, 6), b],
                 custom=struct.pack("<3i", 1 if same else 2, 2, 2), name=f"same{same}")
        )  # fmt: skip
    pool = {"Padding": 0, "StrideH": 2, "StrideW": 2, "FilterHeight": 3, "FilterWidth": 3}
    cases.append(Case("MAX_POOL_2D", [x], lambda x: pooled(x, 3, 2, np.max), [], "Pool2D", pool))
    cases.append(
        Case("AVERAGE_POOL_2D", [x], lambda x: pooled(x, 3, 2, np.mean), [], "Pool2D", pool)
    )
    cases.append(
        Case("L2_POOL_2D", [x], lambda x: np.sqrt(pooled(x * x, 3, 2, np.mean)), [], "Pool2D", pool)
    )
    for centers, corners in ((False, False), (True, False), (False, True)):
        values = {"HalfPixelCenters": centers, "AlignCorners": corners}
        size, name = np.array([7, 11], np.int32), f"centers{centers}-corners{corners}"
        cases.append(
            Case(
                "RESIZE_BILINEAR",
                [real(rng, 1, 4, 5, 3)],
                lambda x, s, a=centers, b=corners: bilinear(x, s, a, b),
                [size],
                "ResizeBilinear",
                values,
                name=name,
            )
        )

        def nearest(x, size, centers=centers, corners=corners):
            for axis, n in zip((1, 2), size):
                m = x.shape[axis]
                scale = F(m - 1) / F(n - 1) if corners else F(m) / F(n)
                at = (np.arange(n, dtype=F) + F(0.5) * centers) * scale
                at = np.floor(at + 0.5) if corners else np.floor(at)
                x = np.take(x, np.minimum(at, m - 1).astype(int), axis)
            return x

        cases.append(
            Case(
                "RESIZE_NEAREST_NEIGHBOR",
                [real(rng, 1, 4, 5, 3)],
                nearest,
                [size],
                "ResizeNearestNeighbor",
                values,
                name=name,
            )
        )
    cases.append(
        Case(
            "SPACE_TO_DEPTH",
            [real(rng, 1, 4, 6, 2)],
            lambda x: x.reshape(1, 2, 2, 3, 2, 2).transpose(0, 1, 3, 2, 4, 5).reshape(1, 2, 3, 8),
            [],
            "SpaceToDepth",
            {"BlockSize": 2},
        )
    )
    cases.append(
        Case(
            "DEPTH_TO_SPACE",
            [real(rng, 1, 2, 3, 8)],
            lambda x: x.reshape(1, 2, 3, 2, 2, 2).transpose(0, 1, 3, 2, 4, 5).reshape(1, 4, 6, 2),
            [],
            "DepthToSpace",
            {"BlockSize": 2},
        )
    )
    block, pads = np.array([2, 2], np.int32), np.array([[1, 1], [0, 2]], np.int32)
    cases.append(
        Case(
            "SPACE_TO_BATCH_ND",
            [real(rng, 1, 4, 4, 3)],
            lambda x, *_: (
                np.pad(x, [(0, 0), (1, 1), (0, 2), (0, 0)])
                .reshape(1, 3, 2, 3, 2, 3)
                .transpose(2, 4, 0, 1, 3, 5)
                .reshape(4, 3, 3, 3)
            ),
            [block, pads],
        )
    )
    cases.append(
        Case(
            "BATCH_TO_SPACE_ND",
            [real(rng, 4, 3, 3, 3)],
            lambda x, *_: (
                x.reshape(2, 2, 1, 3, 3, 3)
                .transpose(2, 3, 0, 4, 1, 5)
                .reshape(1, 6, 6, 3)[:, 1:5, :4]
            ),
            [block, pads],
        )
    )

    def lrn(x):
        wide = np.pad(x * x, [(0, 0)] * 3 + [(2, 2)])
        return (x / (1 + F(0.5) * sum(wide[..., k : k + 6] for k in range(5))) ** F(0.75)).astype(F)

    cases.append(
        Case(
            "LOCAL_RESPONSE_NORMALIZATION",
            [real(rng, 1, 3, 3, 6)],
            lrn,
            [],
            "LocalResponseNormalization",
            {"Radius": 2, "Bias": 1.0, "Alpha": 0.5, "Beta": 0.75},
        )
    )
    cases.append(
        Case(
            "L2_NORMALIZATION",
            [real(rng, 3, 5)],
            lambda x: x / np.sqrt((x * x).sum(-1, keepdims=True)),
            [],
            "L2Norm",
        )
    )
    return cases  # fmt: skip


def _moving(rng: np.random.Generator) -> list[Case]:
    x, i32 = real(rng, 2, 3, 4), lambda *v: np.array(v, np.int32)
    flags = dict.fromkeys(
        ("BeginMask", "EndMask", "EllipsisMask", "NewAxisMask", "ShrinkAxisMask"), 0
    )
    return [
        Case("RESHAPE", [x], lambda x, _: x.reshape(4, 6), [i32(4, -1)]),
        Case("RESHAPE", [x], lambda x: x.reshape(6, 4), [], "Reshape", {"NewShape": [6, 4]}, name="option"),
        Case("SQUEEZE", [real(rng, 1, 3, 1, 2)], lambda x: x[0], [], "Squeeze", {"SqueezeDims": [0]}),
        Case("SQUEEZE", [real(rng, 1, 3, 1, 2)], np.squeeze, [], "Squeeze", {"SqueezeDims": None}, name="all"),
        Case("EXPAND_DIMS", [x], lambda x, _: x[:, :, None], [i32(2)]),
        Case("SHAPE", [x], lambda x: i32(2, 3, 4), [], "Shape", {"OutType": 2}),
        Case("RANK", [x], lambda x: np.array(3, np.int32)),
        Case("FILL", [np.array(2.5, F)], lambda v, d: np.full((2, 3), v), [i32(2, 3)], order=[1, 0]),
        Case("BROADCAST_TO", [real(rng, 3, 1)], lambda x, d: np.broadcast_to(x, (2, 3, 4)), [i32(2, 3, 4)]),
        Case("CONCATENATION", [x, real(rng, 2, 5, 4)], lambda a, b: np.concatenate([a, b], 1), [],
             "Concatenation", {"Axis": -2}),
        Case("PACK", [x, x], lambda a, b: np.stack([a, b], 1), [], "Pack", {"Axis": 1, "ValuesCount": 2}),
        Case("UNPACK", [x], lambda x: [x[:, k] for k in range(3)], [], "Unpack", {"Axis": 1, "Num": 3}),
        Case("SPLIT", [x], lambda x, _: np.split(x, 2, 2), [np.array(2, np.int32)], "Split",
             {"NumSplits": 2}, order=[1, 0]),
        Case("SPLIT_V", [x], lambda x, *_: np.split(x, [1], 2), [i32(1, -1), np.array(2, np.int32)],
             "SplitV", {"NumSplits": 2}),
        Case("SLICE", [x], lambda x, *_: x[:, 1:2, 1:], [i32(0, 1, 1), i32(-1, 1, -1)]),
        Case("STRIDED_SLICE", [x], lambda x, *_: x[:, ::-2, 1:3], [i32(0, 2, 1), i32(2, 0, 3), i32(1, -2, 1)],
             "StridedSlice", {**flags, "BeginMask": 1, "EndMask": 3}),
        Case("STRIDED_SLICE", [x], lambda x, *_: x[..., 1], [i32(0, 1), i32(0, 2), i32(1, 1)],
             "StridedSlice", {**flags, "EllipsisMask": 1, "ShrinkAxisMask": 2}, name="ellipsis-shrink"),
        Case("STRIDED_SLICE", [x], lambda x, *_: x[-1, None, 1:], [i32(-1, 0, 1), i32(0, 0, 3), i32(1, 1, 1)],
             "StridedSlice", {**flags, "ShrinkAxisMask": 1, "NewAxisMask": 2}, name="new-axis"),
        Case("STRIDED_SLICE", [x], lambda x, *_: x[:, 1:2], [i32(0, 1, 0), i32(2, 2, 4), i32(1, 1, 1)],
             name="without-options"),
        Case("PAD", [x], lambda x, _: np.pad(x, [(0, 1), (2, 0), (1, 1)]), [np.array([[0, 1], [2, 0], [1, 1]], np.int32)]),
        Case("PADV2", [x], lambda x, *_: np.pad(x, [(0, 1), (2, 0), (1, 1)], constant_values=7),
             [np.array([[0, 1], [2, 0], [1, 1]], np.int32), np.array(7, F)]),
        *(Case("MIRROR_PAD", [x], lambda x, _, m=m: np.pad(x, [(0, 1), (2, 0), (1, 3)], m),
               [np.array([[0, 1], [2, 0], [1, 3]], np.int32)], "MirrorPad", {"Mode": k}, name=m)
          for k, m in enumerate(["reflect", "symmetric"])),
        Case("TRANSPOSE", [x], lambda x, _: x.transpose(2, 0, 1), [i32(2, 0, 1)]),
        Case("TILE", [x], lambda x, _: np.tile(x, (1, 2, 3)), [i32(1, 2, 3)]),
        Case("REVERSE_V2", [x], lambda x, _: x[:, ::-1], [i32(1)]),
        Case("REVERSE_SEQUENCE", [real(rng, 3, 4)], lambda x, n: np.stack(
            [np.concatenate([r[:k][::-1], r[k:]]) for r, k in zip(x, n)]), [i32(2, 4, 1)],
             "ReverseSequence", {"SeqDim": 1, "BatchDim": 0}),
        Case("GATHER", [x, ints(rng, 4, 5)], lambda x, i: np.take(x, i, 2), [], "Gather", {"Axis": 2}),
        Case("GATHER", [real(rng, 2, 3, 4), ints(rng, 4, 2, 5)],
             lambda x, i: np.stack([np.take(a, k, 1) for a, k in zip(x, i)]), [], "Gather",
             {"Axis": 2, "BatchDims": 1}, name="batch"),
        Case("GATHER_ND", [x, ints(rng, 2, 5, 2)], lambda x, i: x[i[:, 0], i[:, 1]]),
        Case("SCATTER_ND", [real(rng, 3, 4)], lambda u, i, d: _scattered(u, i, d),
             [np.array([[1], [4], [1]], np.int32), i32(6, 4)], order=[1, 0, 2]),
        Case("EMBEDDING_LOOKUP", [ints(rng, 6, 4)], lambda i, t: t[i], [real(rng, 6, 5)]),
        Case("ONE_HOT", [ints(rng, 5, 4)], lambda i, *_: np.where(np.arange(5) == i[:, None], F(3), F(-1)),
             [np.array(5, np.int32), np.array(3, F), np.array(-1, F)], "OneHot", {"Axis": -1}),
        Case("DYNAMIC_UPDATE_SLICE", [x, real(rng, 1, 2, 2), i32(1, 1, 9)], _updated),
        Case("CAST", [x], lambda x: x.astype(np.int32), [], "Cast", {"InDataType": 0, "OutDataType": 2}),
        Case("RANGE", [], lambda *v: np.arange(*v).astype(np.int32), [np.array(k, np.int32) for k in (2, 11, 3)]),
    ]  # fmt: skip


def _updated(x, part, at):
    out = x.copy()
    a, b, c = (min(max(int(v), 0), n - m) for v, n, m in zip(at, x.shape, part.shape))
    out[a : a + 1, b : b + 2, c : c + 2] = part
    return out


def _scattered(updates, indices, dims):
    out = np.zeros(dims, F)
    np.add.at(out, indices[:, 0], updates)
    return out


def _along(rng: np.random.Generator) -> list[Case]:
    x, axes = real(rng, 2, 3, 4), np.array([0, -1], np.int32)
    folds = {
        "MEAN": np.mean,
        "SUM": np.sum,
        "REDUCE_MAX": np.max,
        "REDUCE_MIN": np.min,
        "REDUCE_PROD": np.prod,
    }
    cases = [
        Case(k, [x], lambda x, a, f=f, keep=keep: f(x, (0, 2), keepdims=keep), [axes], "Reducer",
             {"KeepDims": keep}, name=f"keep{keep}")
        for k, f in folds.items() for keep in (False, True)
    ]  # fmt: skip
    yes = ints(rng, 2, 3, 4).astype(bool)
    cases += [
        Case("REDUCE_ANY", [yes], lambda x, _: x.any(1), [axes[1:]], "Reducer", {"KeepDims": False}),
        Case("REDUCE_ALL", [yes], lambda x, _: x.all(1), [axes[1:]], "Reducer", {"KeepDims": False}),
        Case("ARG_MAX", [x], lambda x, _: x.argmax(1).astype(np.int32), [np.array(1, np.int32)],
             "ArgMax", {"OutputType": 2}),
        Case("ARG_MIN", [x], lambda x, _: x.argmin(-1).astype(np.int64), [np.array(-1, np.int32)],
             "ArgMin", {"OutputType": 4}),
        Case("SOFTMAX", [x], lambda x: softmax(F(1.5) * x), [], "Softmax", {"Beta": 1.5}),
        Case("LOG_SOFTMAX", [x], lambda x: np.log(softmax(x)), [], "LogSoftmax"),
        Case("CUMSUM", [x], lambda x, _: np.cumsum(x, 1) - x, [np.array(1, np.int32)], "Cumsum",
             {"Exclusive": True, "Reverse": False}),
        Case("TOPK_V2", [x], lambda x, _: [-np.sort(-x)[..., :2], np.argsort(-x)[..., :2].astype(np.int32)],
             [np.array(2, np.int32)]),
        Case("FULLY_CONNECTED", [real(rng, 3, 6)], lambda x, w, b: np.maximum(x @ w.T + b, 0),
             [real(rng, 4, 6), real(rng, 4)], "FullyConnected", {"FusedActivationFunction": 1}),
        Case("FULLY_CONNECTED", [real(rng, 2, 3, 6)], lambda x, w, b: x @ w.T, [real(rng, 4, 6), None],
             "FullyConnected", {"KeepNumDims": True}, name="keep"),
        Case("FULLY_CONNECTED", [real(rng, 2, 3, 4)], lambda x, w, b: x.reshape(2, 12) @ w.T + b,
             [real(rng, 5, 12), real(rng, 5)], "FullyConnected", {"KeepNumDims": False}, name="flat"),
        Case("UNIDIRECTIONAL_SEQUENCE_RNN", [real(rng, 2, 3, 4)], stepped,
             [real(rng, 5, 4), real(rng, 5, 5), real(rng, 5), np.zeros((2, 5), F)], "SequenceRNN",
             {"TimeMajor": False, "FusedActivationFunction": 4}),
        Case("BATCH_MATMUL", [real(rng, 2, 3, 4), real(rng, 2, 5, 4)], lambda a, b: a @ b.swapaxes(1, 2), [],
             "BatchMatMul", {"AdjX": False, "AdjY": True}),
    ]  # fmt: skip
    return cases


TABLE = drawn("operators")
CASES = [*_unary(TABLE), *_binary(TABLE), *_images(TABLE), *_moving(TABLE), *_along(TABLE)]
