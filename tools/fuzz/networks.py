"""Random networks for images as ONNX graphs: chains of convolutions with what stands between them.

Convolutions change the layout of all that follows, so that what they meet matters more than each operator
alone; some networks are quantized, with scales that are powers of two, so that all arithmetic is exact.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from .build import Dim, NotHere, Value, finish
from .case import Case
from .onnx_build import OnnxBuilder
from .onnx_nn import window
from .onnx_shapes import each

CHANNELS = [1, 2, 3, 4, 6, 8, 8, 12, 16, 16, 17, 24, 32, 32, 40, 64]
EXTENTS = [5, 7, 8, 9, 14, 15, 16, 28]
MOST = 40_000  # elements of a tensor
WORK = 6_000_000  # multiplications of a convolution
ACTIVATIONS = [
    "Relu",
    "Relu",
    "Clip",
    "LeakyRelu",
    "HardSwish",
    "Silu",
    "Sigmoid",
    "PRelu",
    "Elu",
    "Gelu",
]


class _Network:
    """A network that grows at `x`: (batch, channels, height, width)."""

    def __init__(self, seed: int, quantized: bool) -> None:
        self.g = g = OnnxBuilder(seed)
        g.most, g.special, g.fed = MOST, False, False
        g.case.opset = g.rng.choice([13, 15, 17, 18, 20, 21])
        self.rng, self.runs, self.quantized = g.rng, len(g.case.sizes), quantized
        shape = [self.extent([1, 1, 2, 3]), g.const(g.rng.choice(CHANNELS[:8]))]
        shape += [self.extent(EXTENTS) for _ in "hw"]
        draw = "quarters" if quantized else "uniform"
        dims = [g.text(d) for d in shape]
        g.case.inputs["x"] = {"dtype": "float32", "shape": dims, "draw": draw}
        self.x = Value("x", "float32", tuple(shape))
        self.step = 0.25  # of the numbers of a quantized network
        self.scales = [1.0]  # of the last weights of one
        self.x = self.rounded(self.x, 0.125) if quantized else self.x
        self.skips = [self.x]

    # ------------------------------------------------------------------ parts

    def extent(self, some: Sequence[int]) -> Dim:
        """A dimension: a number, or one for each run."""
        if self.rng.random() < 0.4:
            return tuple(self.rng.choices(some, k=self.runs))
        return self.g.const(self.rng.choice(some))

    @property
    def channels(self) -> int:
        return self.x.shape[1][0]

    def weight(self, shape: Sequence[int], low: float, high: float, dtype: str = "float32") -> str:
        """A stored tensor of numbers between two."""
        name = self.g.name("w")
        draw = {"dtype": dtype, "shape": list(shape), "draw": "uniform", "low": low, "high": high}
        self.g.case.weights[name] = draw
        return name

    def call(self, op: str, inputs: Sequence[Any], **attrs: Any) -> Value:
        """A node of one float32 result."""
        return self.g.add(op, inputs, **attrs)[0]

    def like(self, op: str, *inputs: Any, **attrs: Any) -> Value:
        """The same, of these inputs."""
        return self.call(op, inputs, **attrs)

    def rounded(self, v: Value, step: float) -> Value:
        """A value in bytes, and back."""
        dtype = self.rng.choice(["uint8", "int8"])
        zero = self.g.weight(dtype, self.rng.choice([0, 0, 3, 100]), [])
        scale = self.g.weight("float32", step, [])
        (made,) = self.g.add("QuantizeLinear", [v, scale, zero])
        self.step = step
        return self.like("DequantizeLinear", made, scale, zero)

    def stored(self, shape: Sequence[int]) -> str:
        """Weights of a convolution or product."""
        if not self.quantized:
            bound = 1.7 / math.sqrt(math.prod(shape[1:]))
            return self.weight(shape, -bound, bound)
        name = self.weight(shape, -127, 127, "int8")
        per_channel = self.rng.random() < 0.5
        self.scales = [
            2.0 ** -self.rng.randint(5, 8) for _ in range(shape[0] if per_channel else 1)
        ]
        dims = [shape[0]] if per_channel else []
        scale = self.g.weight("float32", self.scales if per_channel else self.scales[0], dims)
        zero = self.g.weight("int8", [0] * shape[0] if per_channel else 0, dims)
        attrs = {"axis": 0} if per_channel else {}
        made = self.g.add("DequantizeLinear", [name, scale, zero], final=True, **attrs)
        return made[0].name

    def bias(self, n: int) -> list[str]:
        """None, or one number for each channel."""
        if self.rng.random() < 0.4:
            return []
        if not self.quantized:
            return [self.weight([n], -0.5, 0.5)]
        scales = [s * self.step for s in self.scales]
        dims = [n] if len(scales) == n else []
        scale = self.g.weight("float32", scales if dims else scales[0], dims)
        name = self.weight([n], -2000, 2000, "int32")
        attrs = {"axis": 0} if dims else {}
        made = self.g.add("DequantizeLinear", [name, scale], final=True, **attrs)
        return [made[0].name]

    def conv(
        self,
        v: Value,
        out: int,
        kernel: int = 1,
        stride: int = 1,
        groups: int = 1,
        pad: int | None = None,
    ) -> Value:
        """A convolution; without `pad`, the extents stay where the stride is 1."""
        dilation = self.rng.choice([1, 1, 1, 1, 2])
        pad = dilation * (kernel - 1) // 2 if pad is None else pad
        dims = [window(self.g, d, kernel, stride, dilation, (pad, pad)) for d in v.shape[2:]]
        inner = v.shape[1][0] // groups
        work = max(math.prod(d[r] for d in (v.shape[0], *dims)) for r in range(self.runs))
        if work * out * inner * kernel**2 > WORK or min(map(min, dims)) < 1:
            raise NotHere
        attrs = {"kernel_shape": [kernel] * 2, "strides": [stride] * 2, "pads": [pad] * 4}
        inputs = [v, self.stored([out, inner, kernel, kernel]), *self.bias(out)]
        attrs |= {"dilations": [dilation] * 2, "group": groups}
        made = self.call("Conv", inputs, **attrs)
        if self.rng.random() < 0.3 and not self.quantized:
            made = self.norm(made)
        made = self.activation(made) if self.rng.random() < 0.7 else made
        if not self.quantized:
            return made
        return self.rounded(made, 2.0 ** self.rng.randint(-4, -1))

    def norm(self, v: Value) -> Value:
        c = v.shape[1][0]
        ranges = [(0.5, 1.5), (-0.5, 0.5), (-0.5, 0.5), (0.5, 2.0)]
        return self.like("BatchNormalization", v, *(self.weight([c], *r) for r in ranges))

    def activation(self, v: Value) -> Value:
        kind = self.rng.choice(ACTIVATIONS[:3] if self.quantized else ACTIVATIONS)
        least = {"HardSwish": 14, "Gelu": 20}
        if self.g.case.opset < least.get(kind, 0):
            kind = "Relu"
        if kind == "Clip":
            return self.like(kind, v, *(self.g.weight("float32", x, []) for x in (0, 6)))
        if kind == "Silu":
            return self.like("Mul", v, self.like("Sigmoid", v))
        if kind == "PRelu":
            each_channel = len(set(v.shape[1])) == 1
            slopes = [v.shape[1][0], 1, 1] if each_channel else [1]
            return self.like(kind, v, self.weight(slopes, 0, 0.5))
        return self.like(kind, v)

    # ------------------------------------------------------------------ blocks

    def plain(self) -> Value:
        kernel = self.rng.choice([1, 1, 3, 3, 3, 5, 7, 2])
        stride = self.rng.choice([1, 1, 1, 2, 3])
        groups = [k for k in (1, 2, 4) if self.channels % k == 0]
        g = self.rng.choice([1, 1, self.rng.choice(groups)])
        pad = self.rng.choice([None, None, None, 0])
        return self.conv(self.x, self.rng.choice(CHANNELS) * g, kernel, stride, g, pad)

    def depthwise(self) -> Value:
        many = self.rng.choice([1, 1, 1, 2])
        kernel, stride = self.rng.choice([3, 3, 5, 7]), self.rng.choice([1, 1, 2])
        y = self.conv(self.x, self.channels * many, kernel, stride, self.channels)
        return self.conv(y, self.rng.choice(CHANNELS)) if self.rng.random() < 0.7 else y

    def residual(self) -> Value:
        step = self.step
        y = self.conv(self.x, self.rng.choice(CHANNELS), self.rng.choice([1, 3]))
        y = self.conv(y, self.channels, self.rng.choice([1, 3]))
        if y.shape != self.x.shape:
            raise NotHere
        pair = [y, self.x] if self.rng.random() < 0.5 else [self.x, y]
        made = self.like("Add", *pair)
        made = self.activation(made) if self.rng.random() < 0.6 else made
        return self.rounded(made, max(step, self.step) * 2) if self.quantized else made

    def joined(self) -> Value:
        """One to three ways side by side, and now and then what they begin with."""
        parts = [self.x] if self.rng.random() < 0.3 else []
        steps = []
        for _ in range(self.rng.randint(1, 3)):
            parts.append(
                self.conv(self.x, self.rng.choice(CHANNELS[:10]), self.rng.choice([1, 3, 5]))
            )
            steps.append(self.step)
        if len({p.shape[2:] for p in parts}) > 1:
            raise NotHere
        made = self.call("Concat", parts, axis=1)
        return (
            self.rounded(made, max(steps)) if self.quantized and self.rng.random() < 0.5 else made
        )

    def excited(self) -> Value:
        """Channels weighted by what they hold (Hu et al., Squeeze-and-Excitation Networks, 2018)."""
        y = self.call("GlobalAveragePool", [self.x])
        y = self.conv(self.conv(y, max(1, self.channels // 4)), self.channels)
        gate = self.rng.choice(["Sigmoid", "HardSigmoid"])
        return self.like("Mul", self.x, self.like(gate, y))

    def pooled(self) -> Value:
        op = "MaxPool" if self.quantized else self.rng.choice(["MaxPool", "AveragePool"])
        kernel, stride = self.rng.choice([2, 3]), self.rng.choice([1, 2])
        pad = self.rng.choice([0, kernel // 2])
        attrs = {"kernel_shape": [kernel] * 2, "strides": [stride] * 2, "pads": [pad] * 4}
        attrs |= {"count_include_pad": 1} if op == "AveragePool" and self.rng.random() < 0.5 else {}
        return self.call(op, [self.x], **attrs)

    def shuffled(self) -> Value:
        """Channels of groups in turn (Zhang et al., ShuffleNet, 2018)."""
        groups = self.rng.choice([k for k in (2, 3, 4) if self.channels % k == 0] or [1])
        _n, _, h, w = self.x.shape
        parts = [self.g.const(groups), self.g.const(self.channels // groups)]
        if not all(len(set(d)) == 1 for d in (h, w)):
            raise NotHere
        wide = [-1, groups, parts[1][0], h[0], w[0]]
        y = self.call("Reshape", [self.x, self.g.ints(wide)])
        y = self.call("Transpose", [y], perm=[0, 2, 1, 3, 4])
        return self.call("Reshape", [y, self.g.ints([-1, self.channels, h[0], w[0]])])

    def enlarged(self) -> Value:
        scales = self.g.weight("float32", [1, 1, 2, 2], [4])
        how = self.rng.choice(["asymmetric", "half_pixel"])
        mode = self.rng.choice(["nearest", "linear"])
        attrs = {"mode": mode, "coordinate_transformation_mode": how}
        attrs |= {"nearest_mode": "floor"} if mode == "nearest" else {}
        made = self.call("Resize", [self.x, "", scales], **attrs)
        same = [
            s for s in self.skips if s.shape[2:] == made.shape[2:] and s.shape[0] == made.shape[0]
        ]
        if not same or self.rng.random() < 0.3:
            return made
        other = self.rng.choice(same)
        return self.call("Concat", [made, other], axis=1)

    def transposed(self) -> Value:
        """A transposed convolution that doubles the extents."""
        out = self.rng.choice(CHANNELS[:10])
        w = self.weight([self.channels, out, 2, 2], -0.3, 0.3)
        return self.call("ConvTranspose", [self.x, w], strides=[2, 2])

    def last(self) -> Value:
        """Channels last and back, with a norm and products (Liu et al., A ConvNet for the 2020s, 2022)."""
        c = self.channels
        y = self.call("Transpose", [self.x], perm=[0, 2, 3, 1])
        if self.g.case.opset >= 17:
            y = self.like(
                "LayerNormalization", y, self.weight([c], 0.5, 1.5), self.weight([c], -0.5, 0.5)
            )
        inner = self.rng.choice(CHANNELS)
        y = self.call("MatMul", [y, self.stored([c, inner])])
        y = self.activation(y) if self.rng.random() < 0.5 else y
        y = self.call("MatMul", [y, self.stored([inner, c])])
        y = self.call("Transpose", [y], perm=[0, 3, 1, 2])
        return self.like("Add", y, self.x)

    def attention(self) -> Value:
        """Pixels that look at each other."""
        _n, c, h, w = self.x.shape
        hw = each(self.g, lambda a, b: a * b, h, w)
        if max(hw) > 256 or min(hw) < 1:
            raise NotHere
        flat = self.call("Reshape", [self.x, self.g.ints([0, c[0], -1])])
        rows = self.call("Transpose", [flat], perm=[0, 2, 1])
        q = self.call("MatMul", [rows, self.stored([c[0], c[0]])])
        scores = self.call("MatMul", [q, flat])
        scores = self.like("Softmax", scores, axis=-1)
        mixed = self.call("MatMul", [scores, rows])
        back = self.call("Transpose", [mixed], perm=[0, 2, 1])
        shape = self.g.add("Shape", [self.x], final=True)[0]
        return self.call("Reshape", [back, shape])

    def halves(self) -> Value:
        """One half of the channels goes on, the other stays."""
        if self.channels % 2:
            raise NotHere
        half = self.g.const(self.channels // 2)
        sizes = self.g.ints([half[0]] * 2)
        a, b = self.g.add("Split", [self.x, sizes], outs=2, axis=1)
        b = self.conv(b, half[0], self.rng.choice([1, 3]))
        if b.shape != a.shape:
            raise NotHere
        return self.call("Concat", [a, b] if self.rng.random() < 0.5 else [b, a], axis=1)

    def moved(self) -> Value:
        """Rows cut off, or put around."""
        if self.rng.random() < 0.5:
            pads = [self.rng.randint(0, 2) for _ in range(4)]
            mode = self.rng.choice(["constant", "edge"])
            wide = self.g.ints([0, 0, *pads[:2], 0, 0, *pads[2:]])
            return self.call("Pad", [self.x, wide], mode=mode)
        if any(min(d) < 3 for d in self.x.shape[2:]):
            raise NotHere
        lists = map(self.g.ints, ([1, 0], [2**31, -1], [2, 3]))
        return self.call("Slice", [self.x, *lists])

    def head(self) -> Value:
        """One vector for each image."""
        _n, c, *_ = self.x.shape
        if self.rng.random() < 0.5:
            y = self.call("GlobalAveragePool", [self.x])
            y = self.call("Flatten", [y])
        else:
            axes = {"axes": [2, 3]} if self.g.case.opset < 18 else {}
            more = [] if axes else [self.g.ints([2, 3])]
            y = self.call("ReduceMean", [self.x, *more], keepdims=0, **axes)
        out = self.rng.choice(CHANNELS)
        if self.rng.random() < 0.5:
            return self.call("Gemm", [y, self.stored([out, c[0]])], transB=1)
        return self.call("MatMul", [y, self.stored([c[0], out])])


Block = Callable[[_Network], Value]
EXACT: list[Block] = [
    *[_Network.plain] * 4, *[_Network.depthwise] * 2, *[_Network.residual] * 2, _Network.joined,
    _Network.pooled, _Network.halves, _Network.moved, _Network.shuffled,
]  # fmt: skip
BLOCKS: list[Block] = [
    *EXACT, _Network.excited, _Network.enlarged, _Network.transposed, _Network.last,
    _Network.attention,
]  # fmt: skip


def make(seed: int) -> Case:
    """The case of a seed: of every three one is quantized."""
    net = _Network(seed, seed % 3 == 2)
    g, wanted, tries = net.g, net.rng.randrange(2, 7), 0
    while len(net.skips) <= wanted and tries < 60:
        tries += 1
        before = len(g.case.nodes), len(g.values)
        try:
            net.x = net.rng.choice(EXACT if net.quantized else BLOCKS)(net)
            net.skips.append(net.x)
        except NotHere:
            del g.case.nodes[before[0] :], g.values[before[1] :]
    if net.rng.random() < 0.4 and not net.quantized:
        net.head()
    made = finish(g)
    made.outputs += [
        s.name for s in net.skips[1:-1] if net.rng.random() < 0.1 and s.name not in made.outputs
    ]
    return made
