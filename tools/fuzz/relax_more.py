"""Makers of calls of our operators that scatter, sum to shapes, quantize, resize or end training."""

from __future__ import annotations

from .build import FLOATS, INTS, NUMBERS, NotHere
from .relax_build import ANY, maker
from .relax_nn import image
from .relax_shapes import below, dims


@maker("log_add_exp", "ewise_fma")
def several(g, op):
    v = g.pick(FLOATS)
    if op == "log_add_exp":
        g.call(op, v, g.mate(v), exact=False)
    else:
        g.call(op, v, *(g.new(v.dtype, v.shape) for _ in "ab"), exact=False)


@maker("nn.selu", "wrap_param", "grad.no_grad", "grad.start_checkpoint", "grad.end_checkpoint")
def single(g, op):
    computed = op.endswith("checkpoint")  # it marks no constant
    v = g.pick(FLOATS, where=lambda v: not (computed and v.name in g.case.weights))
    attrs = {"dtype": g.rng.choice(["float32", "float64"])} if op == "wrap_param" else {}
    g.call(op, v, exact=op != "nn.selu", **attrs)


@maker("eye", "eye_like")
def identity(g, op):
    k = {"dims": g.rng.choice([-2, 0, 1, 9])}
    dtype = g.rng.choice([*NUMBERS, "bool"])
    if op == "eye_like":
        g.call(op, g.pick(ANY, (2, 2)), k, dtype=dtype)
    else:
        g.call(op, {"dims": g.rng.choice([1, 3])}, {"dims": g.rng.choice([1, 4])}, k, dtype=dtype)


@maker("hamming_window")
def hamming(g, op):
    size, periodic = {"dims": g.rng.choice([1, 2, 9])}, {"dims": g.rng.random() < 0.5}
    g.call(op, size, periodic, {"dims": 0.54}, {"dims": 0.46}, exact=False, dtype="float32")


@maker("stack", "meshgrid", "outer", "einsum")
def joined(g, op):
    if op == "stack":
        v = g.pick(ANY, (0, 3))
        parts = [v, *(g.new(v.dtype, v.shape) for _ in range(g.rng.randint(0, 2)))]
        g.call(op, parts, axis=g.rng.randint(-v.rank - 1, v.rank))
    elif op == "einsum":
        text = g.rng.choice(["ij,jk->ik", "bij,bj->bi", "ij->ji", "...i,i->...", "ij,ij->"])
        places = {c: g.dim() for c in "bijk"}
        terms = text.split("->")[0].replace("...", "bk").split(",")
        kind = g.rng.choice(["float32", "int32"])
        parts = [g.new(kind, [places[c] for c in term]) for term in terms]
        g.call(op, parts, exact=False, subscripts=text)
    else:
        kind = g.rng.choice(NUMBERS)
        parts = [g.new(kind, [g.dim()]) for _ in range(2)]
        if op == "outer":
            g.call(op, *parts, exact=False)
        else:
            g.call(op, parts, outs=2, indexing=g.rng.choice(["ij", "xy"]))


@maker("collapse_sum_to", "collapse_sum_like")
def collapsed(g, op):
    v = g.pick(["float32", "float64", *INTS], (1, 4))
    kept = [g.const(1) if g.rng.random() < 0.5 else d for d in v.shape]
    kept = kept[g.rng.randint(0, v.rank) :]
    target = dims(g, kept) if op == "collapse_sum_to" else g.new(v.dtype, kept)
    g.call(op, v, target, exact=False)


@maker("bucketize")
def bucketize(g, op):
    edges = g.weight("float32", [-1, 0, 0.5, 2], [4])
    attrs = {"out_int32": g.rng.random() < 0.5, "right": g.rng.random() < 0.5}
    g.call(op, g.pick(["float32"], exact=True, finite=True), edges, **attrs)


@maker("multinomial_from_uniform")
def multinomial(g, op):
    rows = g.dim()
    prob = g.weight("float32", [0.25, 0.25, 0.5, 0.5, 0.5, 0], [2, 3])
    sample = g.new("float32", [rows, g.const(1)], low=0, high=1)
    g.call(op, prob, sample, below(g, [rows, g.const(1)], g.const(2)), dtype=g.rng.choice(INTS))


@maker("scatter_elements", "scatter_nd", "index_tensor", "index_put", "slice_scatter")
def scattered(g, op):
    v = g.pick(["float32", *INTS], (1, 3), exact=True)
    k = g.axis(v, False)
    how = g.rng.choice(["update", "add", "min", "max"])
    if op == "scatter_elements":
        place = [g.const(2) if a == k else g.const(1) for a in range(v.rank)]
        if any(min(d) < 1 for d in v.shape):
            raise NotHere
        i = below(g, place, v.shape[k])
        g.call(op, v, i, g.new(v.dtype, place), axis=k, reduction=how, exact=False)
    elif op == "slice_scatter":
        if len(set(v.shape[k])) > 1 or v.shape[k][0] < 2:
            raise NotHere
        src = [g.const(1) if a == k else d for a, d in enumerate(v.shape)]
        at = g.rng.randrange(v.shape[k][0])
        bounds = [{"dims": n} for n in (at, at + 1, g.rng.choice([1, 2]))]
        g.call(op, v, g.new(v.dtype, src), *bounds, axis=k)
    elif op == "scatter_nd":
        rows = g.dim()
        i = below(g, [rows, g.const(1)], v.shape[0])
        g.call(op, v, i, g.new(v.dtype, [rows, *v.shape[1:]]), reduction=how, exact=False)
    else:
        rows = g.dim()
        i = [below(g, [rows], v.shape[0])]
        if op == "index_tensor":
            g.call(op, v, i)
        else:
            new = g.new(v.dtype, [rows, *v.shape[1:]])
            g.call(op, v, i, new, accumulate=g.rng.random() < 0.5, exact=False)


@maker("grad.take_backward")
def take_backward(g, op):
    v = g.pick(["float32"], (1, 3))
    k, rows = g.axis(v, False), g.dim()
    grad = [rows if a == k else d for a, d in enumerate(v.shape)]
    g.call(op, g.new(v.dtype, grad), v, below(g, [rows], v.shape[k]), axis=k, exact=False)


@maker("dynamic_strided_slice")
def dynamic_slice(g, op):
    v = g.pick(ANY, (1, 3))
    bounds = [[g.rng.choice(c) for _ in v.shape] for c in ([0, 1, -2], [9, 3, -1], [1, 2])]
    g.call(op, v, *(g.weight("int64", b, [v.rank]) for b in bounds), final=True)


@maker("quantize", "dequantize")
def quantized(g, op):
    v = g.pick(
        ["float32"] if op == "quantize" else ["int8", "uint8"], (1, 4), exact=True, finite=True
    )
    axis = g.axis(v)
    scale, zero = g.weight("float32", [0.25], []), g.weight("int8", [3], [])
    dtype = g.rng.choice(["int8", "uint8"]) if op == "quantize" else "float32"
    g.call(op, v, scale, zero, axis=axis, out_dtype=dtype)


@maker("quantize_range")
def range_of_floats(g, op):
    g.call(op, g.pick(["float32"], (0, 4), exact=True, finite=True))


@maker("quantize_scale", "quantize_zero_point")
def range_of_bytes(g, op):
    scale = [g.new("float32", (), low=0.25, high=4.0)] if op == "quantize_zero_point" else []
    g.call(op, g.new("float32", (g.const(2),), low=0.25, high=4.0), *scale, exact=False)


@maker("requantize")
def requantized(g, op):
    v = g.pick(["int32"], (0, 4), exact=True, finite=True)
    multiplier, shift = g.rng.randint(2**30, 2**31 - 1), g.rng.randint(-9, 2)
    given = g.weight("int32", [multiplier], []), g.weight("int32", [shift], [])
    g.call(op, v, *given, zero_point=g.rng.randint(-9, 9), low=-128, high=127, out_dtype="int8")


@maker("byte_lookup")
def looked_up(g, op):
    table = g.weight("float32", [x / 4 for x in range(256)], [256])
    g.call(op, g.pick(["int8", "uint8"], (0, 4), exact=True, finite=True), table)


@maker("image.resize2d")
def resize(g, op):
    layout = g.rng.choice(["NCHW", "NHWC"])
    size = [g.const(g.rng.choice([1, 3, 8])) for _ in "hw"]
    attrs = {
        "method": g.rng.choice(["nearest_neighbor", "linear", "cubic"]),
        "coordinate_transformation_mode": g.rng.choice(
            ["half_pixel", "align_corners", "asymmetric"]
        ),
        "rounding_method": g.rng.choice(["round", "floor"]),
    }
    if attrs["method"] == "nearest_neighbor":  # elsewhere a rounding error picks another pixel
        attrs |= {"coordinate_transformation_mode": "asymmetric", "rounding_method": "floor"}
        size = [g.const(1), g.const(1)]
    g.call(op, image(g, 2, 3, layout), dims(g, size), exact=False, layout=layout, **attrs)


@maker("nn.pixel_shuffle")
def pixel_shuffle(g, op):
    r = g.rng.choice([1, 2, 3])
    g.call(op, image(g, 2, 2 * r * r, "NCHW"), upscale_factor=r)


@maker("ccl.allreduce", "ccl.allgather", "ccl.broadcast_from_worker0", "ccl.scatter_from_worker0")
def one_worker(g, op):
    v = g.pick(ANY, (1, 3))
    g.call(op, v, **({"num_workers": 1} if "gather" in op or "scatter" in op else {}))


@maker("nn.cross_entropy_with_logits", "nn.nll_loss", "grad.nll_loss_backward")
def losses(g, op):
    rows, classes = g.dim(least=1), g.const(g.rng.choice([2, 5]))
    p = g.new("float32", [rows, classes])
    if op == "nn.cross_entropy_with_logits":
        g.call(op, p, g.new("float32", [rows, classes]), exact=False)
        return
    how = g.rng.choice(["none", "sum", "mean"])
    targets, weights = below(g, [rows], classes), g.new("float32", [classes], low=1, high=2)
    grad = [g.new("float32", [rows] if how == "none" else [])] if "grad" in op else []
    g.call(op, *grad, p, targets, weights, exact=False, reduction=how)


@maker("grad.max_pool2d_backward", "grad.avg_pool2d_backward")
def pool_backward(g, op):
    n, size = g.dim(), g.rng.choice([1, 2])
    space = [g.const(size * g.rng.choice([1, 3])) for _ in "hw"]
    x = g.new("float32", [n, g.const(2), *space])
    small = g.new("float32", [n, g.const(2), *(g.const(d[0] // size) for d in space)])
    g.call(op, small, x, exact=False, pool_size=[size, size], strides=[size, size])
