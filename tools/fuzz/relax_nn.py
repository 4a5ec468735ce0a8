"""Makers of calls of our operators of networks: norms, products, convolutions, pools."""

from __future__ import annotations

from .build import NotHere, Value
from .onnx_nn import spatial, window
from .onnx_shapes import each
from .relax_build import RelaxBuilder, maker


@maker("nn.prelu", "nn.bias_add")
def per_channel(g, op):
    v = g.pick(["float32"], (1, 4))
    axis = g.axis(v, False)
    g.call(op, v, g.new(v.dtype, [v.shape[axis]]), exact=False, axis=axis)


@maker(
    "nn.layer_norm",
    "nn.rms_norm",
    "nn.batch_norm",
    "nn.group_norm",
    "nn.instance_norm",
    "nn.dropout",
)
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
        if op == "nn.instance_norm":
            g.call(op, v, *more, exact=False, channel_axis=1, axes=list(range(2, v.rank)), **attrs)
            return
        groups = g.rng.choice([k for k in range(1, c[0] + 1) if c[0] % k == 0])
        axes = list(range(2, v.rank))
        g.call(op, v, *more, exact=False, num_groups=groups, channel_axis=1, axes=axes, **attrs)


@maker("matmul")
def matmul(g, op):
    a = g.pick(["float32"] * 4 + ["float64", "float16", "int32"], (1, 4), exact=True)
    k, n = a.shape[-1], g.dim()
    batch = [g.const(1) if g.rng.random() < 0.3 else g.beside(d) for d in a.shape[:-2]]
    b = g.new(a.dtype, g.rng.choice([[k], [k, n], [*batch, k, n]]))
    g.call(op, a, b, exact=False)


@maker("nn.attention")
def attention(g, op):
    b, s, t, groups, h, hv = (g.dim(least=1) for _ in range(6))
    heads = groups if len(set(groups)) > 1 else g.const(groups[0] * g.rng.choice([1, 1, 3]))
    q, k, v = (
        g.new("float32", [b, s, heads, h]),
        g.new("float32", [b, t, groups, h]),
        g.new("float32", [b, t, groups, hv]),
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


@maker(*[f"nn.adaptive_avg_pool{rank}d" for rank in (1, 2, 3)])
def adaptive(g, op):
    rank = int(op[-2])
    axes = "DHW"[3 - rank :]
    layout = g.rng.choice([f"NC{axes}", f"N{axes}C"])
    x = image(g, rank, 3, layout)
    g.call(
        op,
        x,
        exact=False,
        output_size=[g.rng.choice([1, 2, 3, 7]) for _ in range(rank)],
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
    far = mode == "reflect" and g.rng.random() < 0.3  # again and again, where the extent is known
    known = [far and len(set(d)) == 1 for d in v.shape for _ in "ab"]
    widths = [g.rng.randint(0, 7 if wide else most) for wide in known]
    g.call(
        op, v, pad_width=widths, pad_mode=mode, **({"pad_value": 1.0} if mode == "constant" else {})
    )
