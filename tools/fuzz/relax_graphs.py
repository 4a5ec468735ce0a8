"""Random graphs of our own operators: makers of valid arguments, family by family.

Shapes and dtypes of results are not written here: they are what the operators infer.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from loopwright.ops.core import OPERATORS
from loopwright.relax.interpreter import evaluate_scalar
from loopwright.relax.struct_info import TensorStructInfo, TupleStructInfo

from .build import FLOATS, INTS, NUMBERS, SMALL, Builder, Dim, NotHere, Value, finish
from .case import Case
from .onnx_nn import spatial, window
from .onnx_shapes import each, place
from .relax_module import Writer

MAKERS: dict[str, Callable[[RelaxBuilder], object]] = {}
# Not drawn: an index map is a Python function; an own layout is tested with convolutions.
LEFT_OUT = {
    "relax.layout_transform",
    "relax.nn.pack_channels",
    "relax.nn.unpack_channels",
    "relax.nn.pack_weight",
}
ANY = [*NUMBERS, "bool", "uint8", "int8"]


class Refused(Exception):
    """The last node's arguments are valid, and inference refuses them."""


class RelaxBuilder(Builder):
    """Builds a case of our operators."""

    def __init__(self, seed: int) -> None:
        super().__init__("relax", seed)
        self.writer = Writer(self.case)

    def text(self, dim: Dim) -> Any:
        """A dimension that has no name of its own cannot be asked for."""
        names = self.case.sizes[0]
        if len(set(dim)) > 1 and dim not in [tuple(s[n] for s in self.case.sizes) for n in names]:
            raise NotHere
        return super().text(dim)

    def call(
        self, op: str, *args: Any, outs: int = 1, exact: bool = True, finite: bool = True,
        final: bool = False, **attrs: Any,
    ) -> None:  # fmt: skip
        """Add a node; arguments are Values, names, lists of them, None, or {"dims": ...}."""
        name = f"relax.{op}"
        used = [
            v for a in args for v in (a if isinstance(a, list) else [a]) if isinstance(v, Value)
        ]
        names = [
            [v.name for v in a] if isinstance(a, list) else getattr(a, "name", a) for a in args
        ]
        results = [self.name("v") for _ in range(outs)]
        self.case.nodes.append([name, names, results, attrs])
        self.writer.symbols.update(
            {n: v for n, v in Writer(self.case).symbols.items() if n not in self.writer.symbols}
        )
        try:
            info = self.writer.node(name, names, results, attrs)
        except Exception as error:
            raise Refused from error
        infos = info.fields if isinstance(info, TupleStructInfo) else [info]
        for result, one in zip(results, infos):
            shape = self.shape(one)
            if shape is not None and any(
                math.prod(d[r] for d in shape) > 4000 for r in range(len(self.case.sizes))
            ):
                raise NotHere
            if shape is None or final:
                continue
            dtype = str(one.dtype)
            whole = dtype[0] in "iub"
            exactly = whole or (exact and all(v.exact for v in used))
            self.values.append(
                Value(
                    result, dtype, shape, exactly, whole or (finite and all(v.finite for v in used))
                )
            )

    def shape(self, info: TensorStructInfo) -> tuple[Dim, ...] | None:
        """A result's dimensions in each run; None where they are not known."""
        dims = info.get_shape()
        if dims is None:
            return None
        runs = [{self.writer.symbols[n]: v for n, v in sizes.items()} for sizes in self.case.sizes]
        try:
            return tuple(tuple(int(evaluate_scalar(d, run)) for run in runs) for d in dims)
        except KeyError:
            return None


def maker(*names: str) -> Callable[[Any], Any]:
    """Register a function that adds a call of one of these operators."""

    def register(fn: Any) -> Any:
        for name in names:
            assert f"relax.{name}" in OPERATORS, name
            MAKERS[name] = lambda g, name=name: fn(g, name)
        return fn

    return register


_SMOOTH = "nn.silu nn.gelu nn.gelu_tanh nn.hardsigmoid nn.hardswish nn.softplus sin cos tanh atan asinh sigmoid erf".split()
_WILD = "exp log sqrt rsqrt tan sinh cosh asin acos acosh atanh square".split()


@maker("nn.relu", "nn.relu6", "abs", "negative", *_SMOOTH, *_WILD, "nn.leakyrelu")
def unary(g, op):
    exact = op in ("nn.relu", "nn.relu6", "abs", "negative")
    v = g.pick([*FLOATS, *(["int32", "int64"] if op in ("abs", "negative", "square") else [])])
    attrs = {"alpha": g.rng.choice([0.1, 0.0, 2.0])} if op == "nn.leakyrelu" else {}
    g.call(op, v, exact=exact, finite=op not in _WILD, **attrs)


@maker("ceil", "floor", "round", "trunc", "sign", "isnan", "isinf", "isfinite")
def steps(g, op):
    g.call(op, g.pick(FLOATS, exact=True))


@maker("logical_not", "bitwise_not")
def inverted(g, op):
    g.call(op, g.pick(["bool"] if op == "logical_not" else ["bool", *INTS, *SMALL]))


@maker("add", "subtract", "multiply", "maximum", "minimum", "divide", "atan2", "power")
def arithmetic(g, op):
    exact = op in ("maximum", "minimum")
    v = g.pick(
        FLOATS if op in ("atan2", "power", "divide") else [*NUMBERS, *SMALL], finite=op == "power"
    )
    w = g.mate(v, low=-2, high=3) if op == "power" else g.mate(v)
    a, b = (v, w) if g.rng.random() < 0.7 or op == "power" else (w, v)
    g.call(op, a, b, exact=exact, finite=op not in ("divide", "power"))


@maker("floor_divide", "mod", "floor_mod")
def divisions(g, op):
    v = g.pick(["float32", *INTS, *SMALL], exact=True)
    wide = v.dtype in INTS and g.rng.random() < 0.3  # 0 among the divisors: the result is 0
    g.call(op, v, g.mate(v, low=-2 if wide else 1, high=7), finite=False)


@maker("equal", "not_equal", "less", "less_equal", "greater", "greater_equal")
def comparison(g, op):
    v = g.pick([*FLOATS, *INTS, *SMALL], exact=True)
    w = g.mate(v)
    if not w.exact:
        raise NotHere
    g.call(op, v, w)


@maker(
    "logical_and",
    "logical_or",
    "logical_xor",
    "bitwise_and",
    "bitwise_or",
    "bitwise_xor",
    "left_shift",
    "right_shift",
)
def bits(g, op):
    kinds = ["bool"] if op[0] == "l" and "shift" not in op else [*INTS, *SMALL]
    v = g.pick(kinds)
    g.call(op, v, g.mate(v, low=0, high=7) if "shift" in op else g.mate(v))


@maker("sum", "prod", "mean", "variance", "std", "max", "min")
def reduction(g, op):
    order = op in ("max", "min")
    kinds = ["float32", "float32", "float64", "float16"]
    v = g.pick(
        [*kinds, *INTS] if op in ("sum", "prod", "max", "min") else kinds,
        (1, 4),
        least=1 if order else 0,
    )
    axes = g.rng.sample(range(v.rank), g.rng.randint(1, v.rank))
    axis = (
        None if g.rng.random() < 0.2 else [a - v.rank if g.rng.random() < 0.4 else a for a in axes]
    )
    g.call(op, v, exact=order, finite=op != "prod", axis=axis, keepdims=g.rng.random() < 0.5)


@maker("argmax", "argmin")
def arg_reduction(g, op):
    v = g.pick(["float32", *INTS], (1, 4), exact=True, least=1)
    g.call(op, v, axis=g.rng.choice([None, g.axis(v)]), keepdims=g.rng.random() < 0.5)


@maker("nn.softmax", "nn.log_softmax")
def softmax(g, op):
    v = g.pick(FLOATS, (1, 4))
    g.call(op, v, exact=False, axis=g.axis(v))


@maker("cumsum", "cumprod", "sort", "argsort", "flip", "topk", "repeat")
def along_axis(g, op):
    order = op in ("sort", "argsort", "topk", "flip")
    v = g.pick(["float32", "float64", *INTS], (1, 4), exact=order)
    axis = g.axis(v)
    attrs = {"axis": axis}
    if op in ("cumsum", "cumprod"):
        attrs["exclusive"] = g.rng.random() < 0.4
    if op in ("sort", "argsort"):
        attrs["descending"] = g.rng.random() < 0.5
    if op == "argsort":
        attrs["dtype"] = g.rng.choice(INTS)
    if op == "repeat":
        attrs["repeats"] = g.rng.choice([1, 2, 3])
    if op == "topk":
        attrs |= {"k": g.rng.randint(0, min(v.shape[axis])), "largest": g.rng.random() < 0.5}
        attrs |= {"ret_type": "both", "dtype": g.rng.choice(INTS)}
    g.call(op, v, outs=2 if op == "topk" else 1, exact=order, finite=op != "cumprod", **attrs)


@maker("nn.prelu", "nn.bias_add")
def per_channel(g, op):
    v = g.pick(["float32"], (1, 4))
    axis = g.axis(v, False)
    g.call(op, v, g.new(v.dtype, [v.shape[axis]]), exact=False, axis=axis)


@maker("nn.layer_norm", "nn.rms_norm", "nn.batch_norm", "nn.group_norm", "nn.dropout")
def norm(g, op):
    v = g.pick(["float32"] * 3 + ["float16"], (2, 4))
    if op == "nn.dropout":
        g.call(op, v, outs=2, exact=False, final=True)
        return
    attrs = {"epsilon": 1e-3} if g.rng.random() < 0.5 else {}
    if op in ("nn.layer_norm", "nn.rms_norm"):
        axes = list(range(g.rng.randrange(v.rank), v.rank))
        more = [
            g.new(v.dtype, [v.shape[a] for a in axes])
            for _ in ("ab" if op == "nn.layer_norm" else "a")
        ]
        g.call(op, v, *more, exact=False, axes=[a - v.rank for a in axes], **attrs)
        return
    axis = g.axis(v, False) if op == "nn.batch_norm" else 1
    c = v.shape[axis]
    more = [g.new(v.dtype, [c], low=-1, high=2) for _ in "ab"]
    if op == "nn.batch_norm":
        more += [g.new(v.dtype, [c], low=-1, high=1), g.new(v.dtype, [c], low=1, high=3)]
        g.call(op, v, *more, outs=3, exact=False, axis=axis, training=g.rng.random() < 0.3, **attrs)
    else:
        if len(set(c)) > 1 or not c[0] or v.rank < 3:
            raise NotHere
        groups = g.rng.choice([k for k in range(1, c[0] + 1) if c[0] % k == 0])
        axes = list(range(2, v.rank))
        g.call(op, v, *more, exact=False, num_groups=groups, channel_axis=1, axes=axes, **attrs)


@maker("matmul")
def matmul(g, op):
    a = g.pick(["float32"] * 4 + ["float64", "float16", "int32"], (1, 4), exact=True)
    k, n = a.shape[-1], g.dim()
    batch = [g.const(1) if g.rng.random() < 0.3 else d for d in a.shape[:-2]]
    b = g.new(a.dtype, g.rng.choice([[k], [k, n], [*batch, k, n]]))
    g.call(op, a, b, exact=False)


@maker("nn.attention")
def attention(g, op):
    b, s, t, heads, h, hv = (g.dim(least=1) for _ in range(6))
    q, k, v = (
        g.new("float32", [b, s, heads, h]),
        g.new("float32", [b, t, heads, h]),
        g.new("float32", [b, t, heads, hv]),
    )
    bias = g.rng.choice([None, g.new("float32", [g.rng.choice([b, g.const(1)]), g.const(1), s, t])])
    g.call(
        op, q, k, v, bias, exact=False, causal_mask=g.rng.choice([None, "TopLeft", "BottomRight"])
    )


def image(g: RelaxBuilder, rank: int, channels: int, layout: str) -> Value:
    space, c = [g.dim(least=1) for _ in range(rank)], g.const(channels)
    n = g.dim()
    return g.new("float32", [n, c, *space] if layout.startswith("NC") else [n, *space, c])


@maker("nn.conv1d", "nn.conv2d", "nn.conv3d", "nn.conv1d_transpose", "nn.conv2d_transpose")
def conv(g, op):
    rank, back = int(op[7]), "transpose" in op
    groups, inner, outer = (
        g.rng.choice([1, 1, 2, 5]),
        g.rng.choice([1, 2, 3, 8]),
        g.rng.choice([1, 2, 4, 17]),
    )
    kernel, strides, dilations, pads = spatial(g, rank)
    axes = "DHW"[3 - rank :]
    first = "NC" + axes if back or g.rng.random() < 0.7 else f"N{axes}C"
    x = image(g, rank, inner * groups, first)
    w = [inner * groups, outer] if back else [outer * groups, inner]
    weight = g.new("float32", [*map(g.const, w), *map(g.const, kernel)])
    places = x.shape[2:] if first.startswith("NC") else x.shape[1:-1]
    for d, k, s, e, p in zip(places, kernel, strides, dilations, pads):
        each(
            g, lambda n, k=k, s=s, e=e, p=p: (n - 1) * s + e * (k - 1) - sum(p), d
        ) if back else window(g, d, k, s, e, p)
    padding = [p[0] for p in pads] + [p[1] for p in pads]
    layouts = {} if back else {"data_layout": first, "out_layout": first}
    g.call(
        op,
        x,
        weight,
        exact=False,
        strides=strides,
        padding=padding,
        dilation=dilations,
        groups=groups,
        **layouts,
    )


@maker(*[f"nn.{kind}_pool{rank}d" for kind in ("max", "avg") for rank in (1, 2, 3)])
def pool(g, op):
    rank, largest = int(op[-2]), "max" in op
    kernel, strides, dilations, pads = spatial(g, rank)
    pads = [tuple(min(p, k - 1) for p in ps) for ps, k in zip(pads, kernel)]
    axes = "DHW"[3 - rank :]
    layout = g.rng.choice([f"NC{axes}", f"N{axes}C"])
    x = image(g, rank, g.rng.choice([1, 3, 16]), layout)
    ceil = g.rng.random() < 0.3
    places = x.shape[2:] if layout.startswith("NC") else x.shape[1:-1]
    for d, *rest in zip(places, kernel, strides, dilations, pads):
        window(g, d, *rest, ceil)
    padding = [p[0] for p in pads] + [p[1] for p in pads]
    more = {} if largest else {"count_include_pad": g.rng.random() < 0.5}
    g.call(
        op,
        x,
        exact=largest,
        pool_size=kernel,
        strides=strides,
        padding=padding,
        dilation=dilations,
        ceil_mode=ceil,
        layout=layout,
        out_layout=layout,
        **more,
    )


@maker("nn.adaptive_avg_pool2d")
def adaptive(g, op):
    layout = g.rng.choice(["NCHW", "NHWC"])
    x = image(g, 2, 3, layout)
    g.call(
        op,
        x,
        exact=False,
        output_size=[g.rng.choice([1, 2, 3, 7]) for _ in "hw"],
        layout=layout,
        out_layout=layout,
    )


@maker("nn.pad")
def pad(g, op):
    v = g.pick(["float32", "int32"], (1, 4))
    mode = g.rng.choice(["constant", "constant", "reflect", "replicate", "circular"])
    most = min(3, min((min(d) for d in v.shape), default=0) - 1) if mode != "constant" else 3
    if most < 0:
        raise NotHere
    widths = [g.rng.randint(0, most) for _ in range(2 * v.rank)]
    g.call(
        op, v, pad_width=widths, pad_mode=mode, **({"pad_value": 1.0} if mode == "constant" else {})
    )


# ---------------------------------------------------------------------- shapes


def dims(g: RelaxBuilder, shape: Sequence[Dim]) -> dict[str, Any]:
    return {"dims": [g.text(d) for d in shape]}


@maker("full", "zeros", "ones", "full_like", "zeros_like", "ones_like")
def filled(g, op):
    dtype = g.rng.choice([*NUMBERS, "bool", "uint8"])
    number = [g.weight(dtype, [1], [])] if "full" in op else []
    if "like" in op:
        g.call(op, g.pick(ANY), *number, dtype=dtype)
    else:
        shape = [g.const(g.rng.choice([0, 1, 2, 5, 16])) for _ in range(g.rng.randint(0, 3))]
        g.call(op, dims(g, shape), *number, dtype=dtype)


@maker("arange")
def arange(g, op):
    step = g.rng.choice([1, 2, -1, -3])
    start = g.rng.choice([0, 5, -2])
    stop = start + step * g.rng.choice([0, 1, 3, 17])
    g.call(
        op,
        *({"dims": n} for n in (start, stop, step)),
        dtype=g.rng.choice(["int64", "int32", "float32"]),
    )


@maker("tril", "triu")
def triangle(g, op):
    g.call(op, g.pick(ANY, (2, 4)), {"dims": g.rng.choice([-3, -1, 0, 1, 2, 9])})


@maker("where")
def where(g, op):
    a = g.pick(ANY)
    b = g.mate(a)
    g.call(
        op,
        g.new(
            "bool",
            [g.const(1) if g.rng.random() < 0.2 else d for d in g.broadcast(a.shape, b.shape)],
        ),
        a,
        b,
    )


def below(g: RelaxBuilder, shape: Sequence[Dim], extent: Dim, low: int = 0) -> Value:
    if min(extent) < 1:
        raise NotHere
    return g.new(g.rng.choice(INTS), shape, low=low, high=min(extent) - 1)


@maker("one_hot")
def one_hot(g, op):
    depth = g.rng.choice([1, 3, 8])
    i = below(g, [g.dim() for _ in range(g.rng.randint(1, 2))], g.const(depth))
    g.call(op, i, {"dims": 2.0}, {"dims": -1.0}, depth=depth, axis=g.rng.randint(-1, i.rank))


@maker("take", "gather_elements", "gather_nd")
def gathered(g, op):
    v = g.pick(ANY, (1, 3))
    k = g.axis(v)
    if op == "take":
        i = below(g, [g.dim() for _ in range(g.rng.randint(0, 2))], v.shape[k])
        g.call(op, v, i, axis=k, mode=g.rng.choice(["fast", "wrap", "clip"]))
    elif op == "gather_elements":
        g.call(op, v, below(g, place(g, v, k, g.dim()), v.shape[k]), axis=k)
    else:
        g.call(op, v, below(g, [g.dim(), g.const(1)], v.shape[0]))


@maker("permute_dims")
def transpose(g, op):
    v = g.pick(ANY, (1, 5))
    g.call(op, v, axes=g.rng.choice([None, g.rng.sample(range(v.rank), v.rank)]))


@maker("reshape", "flatten", "broadcast_to")
def reshape(g, op):
    v = g.pick(ANY, (1, 4))
    if op == "flatten":
        g.call(op, v)
    elif op == "broadcast_to":
        shape = [g.dim() if d == g.const(1) else d for d in v.shape]
        g.call(op, v, dims(g, [*[g.dim()] * g.rng.choice([0, 1]), *shape]))
    else:
        fixed = [d[0] for d in v.shape if len(set(d)) == 1]
        kept = [d for d in v.shape if len(set(d)) > 1]
        total = math.prod(fixed)
        f = g.rng.choice([n for n in range(1, total + 1) if total % n == 0] or [0])
        rest = total // f if f else g.rng.choice([0, 3])
        shape = [*kept, g.const(f), g.const(rest)]
        g.rng.shuffle(shape)
        g.call(op, v, dims(g, shape))


@maker("expand_dims", "squeeze", "tile")
def more_axes(g, op):
    v = g.pick(ANY, (1, 3))
    if op == "expand_dims":
        g.call(op, v, axis=[g.rng.randint(-v.rank - 1, v.rank)])
    elif op == "tile":
        g.call(
            op,
            v,
            repeats=[g.rng.choice([1, 1, 2, 3]) for _ in range(v.rank + g.rng.choice([0, 0, 1]))],
        )
    else:
        ones = [k for k, d in enumerate(v.shape) if d == g.const(1)]
        g.call(op, v, axis=g.rng.choice([[g.rng.choice(ones)], None]) if ones else None)


@maker("concat", "split")
def joining(g, op):
    v = g.pick(ANY, (1, 4))
    k = g.axis(v)
    if op == "concat":
        parts = [
            v,
            *(
                g.rng.choice([v, g.new(v.dtype, place(g, v, k, g.dim()))])
                for _ in range(g.rng.randint(0, 3))
            ),
        ]
        g.call(op, parts, axis=k)
        return
    total = v.shape[k]
    if len(set(total)) > 1 or total[0] < 2:
        raise NotHere
    cuts = sorted(g.rng.sample(range(1, total[0]), min(total[0] - 1, g.rng.randint(1, 2))))
    g.call(op, v, outs=len(cuts) + 1, indices_or_sections=cuts, axis=k)


@maker("strided_slice")
def strided_slice(g, op):
    v = g.pick(ANY, (1, 4))
    axes = g.rng.sample(range(v.rank), g.rng.randint(1, min(2, v.rank)))
    begin = [g.rng.choice([0, 1, 2, -1, -3]) for _ in axes]
    end = [g.rng.choice([1, 3, -1, 9, 2**31 - 1]) for _ in axes]
    step = [g.rng.choice([1, 1, 2, 3]) for _ in axes]
    g.call(op, v, *({"dims": x} for x in (axes, begin, end, step)))


@maker("astype")
def astype(g, op):
    v = g.pick([*ANY, *SMALL])
    to = g.rng.choice([*ANY, *SMALL, "bfloat16"])
    if (
        v.dtype[0] == "f"
        and (to[0] in "iu" or to == "bool")
        and not (v.exact and v.finite and to[0] != "u")
    ):
        raise NotHere
    g.call(op, v, finite=to != "float16", dtype=to)


@maker("clip")
def clip(g, op):
    g.call(op, g.pick(NUMBERS), {"dims": -1}, {"dims": 2})


@maker("unique", "nonzero")
def data_dependent(g, op):
    v = g.pick(["float32", *INTS], (1, 3), exact=True, finite=True)
    options = (
        [{"dims": b} for b in (True, *(g.rng.random() < 0.5 for _ in "abc"))]
        if op == "unique"
        else []
    )
    outs = 1 + sum(o["dims"] for o in options[1:])
    g.call(op, v, *options, outs=outs, final=True)


def relax_case(seed: int) -> Case:
    """The graph of a seed."""
    for attempt in range(100):
        g = RelaxBuilder(seed * 100 + attempt)
        g.case.seed = seed
        wanted = g.rng.choice([1, 1, 2, 3, 3, 4, 5, 8])
        for _ in range(wanted * 6):
            before = len(g.case.nodes), len(g.values)
            try:
                MAKERS[g.rng.choice(list(MAKERS))](g)
            except NotHere:
                del g.case.nodes[before[0] :], g.values[before[1] :]
            except Refused:
                return finish(g)
            if len(g.case.nodes) >= wanted:
                return finish(g)
    raise NotHere(f"seed {seed} makes no graph")
