"""Makers of ONNX nodes, one by one: elementwise operators, reductions, order, types."""

from __future__ import annotations

from collections.abc import Callable

from .build import FLOATS, INTS, NUMBERS, SMALL, Builder, NotHere, Value, since

Maker = Callable[[Builder], object]
MAKERS: dict[str, Maker] = {}


def maker(*names: str) -> Callable[[Callable[[Builder, str], object]], object]:
    """Register a function that adds a node of one of these operators."""

    def register(fn: Callable[[Builder, str], object]) -> Callable[[Builder, str], object]:
        for name in names:
            MAKERS[name] = lambda g, name=name: fn(g, name)
        return fn

    return register


# Operators of one value: its dtypes, and whether it must be exact, because results jump.
_ONE: dict[str, tuple[list[str], bool]] = {
    "Sin Cos Tan Sinh Cosh Tanh Asin Acos Atan Asinh Acosh Atanh": (FLOATS, False),
    "Sigmoid Softplus Softsign Erf HardSwish Mish Selu Exp Log Sqrt Reciprocal": (FLOATS, False),
    "Relu Neg Abs Identity": ([*NUMBERS, "int8"], False),
    "Sign": ([*NUMBERS, "int8"], True),
    "Floor Ceil Round": (FLOATS, True),
    "IsNaN IsInf": (["float32", "float64"], True),
    "Not": (["bool"], False),
    "BitwiseNot": ([*INTS, *SMALL], False),
}
ONE = {name: kinds for names, kinds in _ONE.items() for name in names.split()}


@maker(*ONE)
def of_one(g, op):
    since(g, {"Mish": 18, "HardSwish": 14, "BitwiseNot": 18}.get(op, 0))
    dtypes, exact = ONE[op]
    g.add(op, [g.pick(dtypes, exact=exact)])


@maker("Elu", "LeakyRelu", "Celu", "ThresholdedRelu", "Gelu", "HardSigmoid", "Shrink", "Swish")
def with_attributes(g, op):
    since(g, {"Gelu": 20, "Swish": 24}.get(op, 0))
    v = g.pick(["float32"] if op == "Celu" else FLOATS, exact=op in ("Shrink", "ThresholdedRelu"))
    number = g.rng.choice([0.25, 0.5, 1.0, 2.0])
    attrs = {"alpha": number}
    if op == "Shrink":
        attrs = {"lambd": number, "bias": g.rng.choice([0.0, 0.5])}
    if op == "HardSigmoid":
        attrs = {"alpha": number, "beta": 0.5}
    if op == "Gelu":
        attrs = {"approximate": g.rng.choice(["none", "tanh"])}
    g.add(op, [v], **attrs if g.rng.random() < 0.7 else {})


@maker(*(f"com.microsoft::{n}" for n in ("Gelu", "FastGelu", "QuickGelu", "BiasGelu")))
def contributed(g, op):
    v = g.pick(["float32"], (1, 4))
    bias = [g.new("float32", v.shape[-1:])] if op.endswith("BiasGelu") else []
    g.add(op, [v, *bias])


@maker("Add", "Sub", "Mul", "Div")
def arithmetic(g, op):
    a = g.pick([*NUMBERS, "uint8", "int8"] if g.rng.random() < 0.2 else NUMBERS)
    divides = op == "Div" and a.dtype[0] in "iu"  # by zero onnxruntime ends the process
    b = g.mate(a, low=1, high=9) if divides else g.mate(a)
    if g.rng.random() < 0.3 and not divides:
        a, b = b, a
    g.add(op, [a, b])


@maker("Pow")
def power(g, op):
    a = g.pick(["float32", "float64", "int32"], finite=True)
    low, high = (0, 3) if a.dtype == "int32" else (-2, 3)
    b = g.mate(a, low=low, high=high, draw=g.rng.choice(["quarters", "uniform"]))
    g.add(op, [a, b])


@maker("Mod")
def modulo(g, op):
    a = g.pick([*INTS, *SMALL, "float32"], exact=True)
    b = g.mate(a, low=1, high=7)
    g.add(op, [a, b], fmod=int(a.dtype[0] == "f" or g.rng.random() < 0.3))


@maker("Equal", "Less", "Greater", "LessOrEqual", "GreaterOrEqual")
def comparison(g, op):
    a = g.pick(["float32", "float64", *INTS], exact=True)
    b = g.mate(a)
    if not b.exact:
        raise NotHere
    g.add(op, [a, b])


@maker("And", "Or", "Xor")
def logic(g, op):
    a = g.pick(["bool"])
    b = g.mate(a)
    g.add(op, [a, b])


@maker("BitwiseAnd", "BitwiseOr", "BitwiseXor", "BitShift")
def bits(g, op):
    if g.case.opset < 18 and op != "BitShift":
        raise NotHere
    a = g.pick(["uint8", "uint32", "uint64"] if op == "BitShift" else [*INTS, *SMALL])
    b = g.mate(a, low=0, high=7) if op == "BitShift" else g.mate(a)
    attrs = {"direction": g.rng.choice(["LEFT", "RIGHT"])} if op == "BitShift" else {}
    g.add(op, [a, b], **attrs)


@maker("Max", "Min", "Sum", "Mean")
def variadic(g, op):
    exact = op in ("Max", "Min")
    values = [g.pick(NUMBERS if exact else FLOATS)]
    for _ in range(g.rng.randint(0, 3)):
        values.append(g.mate(values[0]))
    shape = g.broadcast(*[v.shape for v in values])
    if shape is None:
        raise NotHere
    g.add(op, values)


@maker("Where")
def where(g, op):
    a = g.pick([*NUMBERS, "bool", "uint8"])
    b = g.mate(a)
    shape = g.broadcast(a.shape, b.shape)
    c = g.new("bool", [g.const(1) if g.rng.random() < 0.2 else g.beside(d) for d in shape])
    g.add(op, [c, a, b])


@maker("Clip")
def clip(g, op):
    v = g.pick([*NUMBERS, "int8"])
    low = g.weight(v.dtype, [-1], []) if g.rng.random() < 0.7 else ""
    high = g.rng.choice([g.weight(v.dtype, [2], []), ""])
    g.add(op, [v, low, high] if high else [v, low] if low else [v])


@maker("PRelu")
def prelu(g, op):
    v = g.pick(["float32", "float64"], (1, 4))
    slope = [g.const(1) if g.rng.random() < 0.5 else d for d in v.shape]
    g.add(op, [v, g.new(v.dtype, slope[g.rng.choice([0, 1]) :])])


@maker("Cast")
def cast(g, op):
    v = g.pick([*NUMBERS, "bool", *SMALL])
    to = g.rng.choice([*NUMBERS, "bool", *SMALL, "bfloat16"])
    if v.dtype[0] == "f" and to[0] in "iu" and not (v.exact and v.finite and to[0] == "i"):
        raise NotHere
    if to == "bool" and not v.exact:
        raise NotHere
    g.add(op, [v], to={"type": to})


@maker("Dropout")
def dropout(g, op):
    g.add(op, [g.pick(["float32"])], outs=g.rng.choice([1, 2]))


# ---------------------------------------------------------------------- reductions, order


_SUMS = (
    "ReduceSum ReduceMean ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceProd ReduceSumSquare"
)


def large_half(g: Builder, ranks: tuple[int, int], least: int = 0) -> Value:
    """A tensor of float16 whose squares and sums are beyond it, and its norms are not."""
    return g.pick(["float16"], ranks, least=least, low=100.0, high=400.0)


@maker(*_SUMS.split(), "ReduceMax", "ReduceMin")
def reduce(g, op):
    order = op in ("ReduceMax", "ReduceMin")
    # Overflow is not defined (so integers are those of inputs, which are small), and of integers
    # onnxruntime rounds each exponential to one.
    whole = [] if op in ("ReduceProd", "ReduceLogSumExp") else INTS
    small = None if order else lambda v: v.dtype not in INTS or v.name[0] in "xw"
    floats = ["float32", "float32", "float64"]
    least = int(order and g.case.opset < 20)
    if op in ("ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp") and g.rng.random() < 0.3:
        v = large_half(g, (1, 4))
    else:
        v = g.pick([*floats, *whole], (1, 4), least=least, where=small)
    axes = g.rng.sample(range(v.rank), g.rng.randint(1, v.rank))
    axes = [a - v.rank if g.rng.random() < 0.5 else a for a in axes]
    keep, inputs, attrs = g.rng.choice([0, 1]), [v], {}
    if g.rng.random() < 0.2:
        axes = list(range(v.rank))
    elif g.case.opset >= 18 or op == "ReduceSum":
        inputs.append(g.ints(axes))
    else:
        attrs["axes"] = axes
    g.add(op, inputs, keepdims=keep, **attrs)


@maker("ArgMax", "ArgMin")
def arg_reduce(g, op):
    v = g.pick(["float32", "float64", "int32"], (1, 4), exact=True, least=1)
    axis, keep = g.axis(v), g.rng.choice([0, 1])
    last = {"select_last_index": 1} if g.rng.random() < 0.3 else {}
    g.add(op, [v], axis=axis, keepdims=keep, **last)


@maker("Softmax", "LogSoftmax", "Hardmax", "LpNormalization")
def along(g, op):
    if op == "LpNormalization" and g.rng.random() < 0.3:
        v = large_half(g, (1, 4))
    else:
        v = g.pick(["float32", "float32", "float64"], (1, 4), exact=op == "Hardmax")
    more = {"p": g.rng.choice([1, 2])} if op == "LpNormalization" else {}
    g.add(op, [v], axis=g.axis(v), **more)


@maker("CumSum")
def cumulative(g, op):
    v = g.pick(["float32", "float64", *INTS], (1, 4))
    axis = g.weight(g.rng.choice(INTS), [g.axis(v)], [])
    attrs = {k: 1 for k in ("exclusive", "reverse") if g.rng.random() < 0.4}
    g.add(op, [v, axis], **attrs)


@maker("TopK")
def top_k(g, op):
    v = g.pick(["float32", "float64", *INTS], (1, 4), exact=True)
    axis = g.axis(v)
    k = g.rng.randint(0, min(v.shape[axis]))
    attrs = {"axis": axis, "largest": g.rng.choice([0, 1])}
    g.add(op, [v, g.ints([k])], outs=2, **attrs)


@maker("Trilu")
def trilu(g, op):
    since(g, 14)
    v = g.pick([*NUMBERS, "bool"], (2, 4))
    k = [g.weight("int64", [g.rng.choice([-(2**63), -2, -1, 0, 1, 3, 2**63 - 1])], [])]
    g.add(op, [v, *(k if g.rng.random() < 0.6 else [])], upper=g.rng.choice([0, 1]))


@maker("NonZero", "Unique", "Compress")
def data_dependent(g, op):
    v = g.pick(
        ["float32", "int32", "int64", "bool"][: 3 if op == "Unique" else 4], (1, 3), exact=True
    )
    if op == "NonZero":
        g.add(op, [v], final=True)
    elif op == "Unique":
        if not v.finite:
            raise NotHere
        attrs = {"axis": g.axis(v)} if g.rng.random() < 0.5 and min(map(min, v.shape)) else {}
        outs = [(v.dtype, []), *[("int64", [])] * g.rng.randint(0, 3)]
        g.add(op, [v], outs=len(outs), final=True, sorted=g.rng.choice([0, 1]), **attrs)
    else:
        axis = g.axis(v)
        c = g.new("bool", [v.shape[axis]])
        g.add(op, [v, c], final=True, axis=axis)
