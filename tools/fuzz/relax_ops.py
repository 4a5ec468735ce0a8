"""Makers of calls of our operators, with valid arguments: elementwise ones, reductions, order.

Shapes and dtypes of results are not written here: they are what the operators infer.
"""

from __future__ import annotations

from .build import FLOATS, INTS, NUMBERS, SMALL, NotHere
from .relax_build import maker

_SMOOTH = [
    "nn.silu",
    "nn.gelu",
    "nn.gelu_tanh",
    "nn.hardsigmoid",
    "nn.hardswish",
    "nn.softplus",
    "sin",
    "cos",
    "tanh",
    "atan",
    "asinh",
    "sigmoid",
    "erf",
]
_WILD = [
    "exp",
    "expm1",
    "log",
    "sqrt",
    "rsqrt",
    "tan",
    "sinh",
    "cosh",
    "asin",
    "acos",
    "acosh",
    "atanh",
    "square",
]


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
