"""One function that applies many operators to the same inputs, interpreted and compiled."""

from __future__ import annotations

import itertools

import numpy as np

from loopwright import tir
from loopwright.ir.dtype import DataType, numpy_dtype
from loopwright.tir.interpreter import run
from loopwright.tir.stmt import seq

from .emitted import call, compiled


def table_function(fns, dtypes, lanes):
    """outs[k][i] = fns[k](a[i], b[i], ...), in vectors of `lanes`; and the names of the outs."""
    n = tir.Var("n", "int64")
    ins = [tir.decl_buffer((n,), d, f"a{k}") for k, d in enumerate(dtypes)]
    i = tir.Var("i", "int64")
    at = i if lanes == 1 else tir.Ramp(i * lanes, tir.const(1, "int64"), lanes)
    outs, stores = [], []
    for name, fn in fns.items():
        value = fn(*(tir.BufferLoad(b, [at]) for b in ins))
        out = tir.decl_buffer((n,), value.dtype.element, name)
        outs.append(out)
        stores.append(tir.BufferStore(out, value, [at]))
    count = n if lanes == 1 else tir.floordiv(n, lanes)
    body = tir.For(i, tir.const(0, "int64"), count, tir.ForKind.SERIAL, seq(*stores))
    return tir.PrimFunc([*ins, *outs], body)


def compare(fns, arrays, dtypes, lanes, tolerance=None, signs=True):
    """Run in both; `tolerance(name)` is relative, by operator; `signs`: those of
    zeros count. Gives the outputs by name and what
    differs: (name, lanes, inputs, interpreted, compiled) of the first lane of each."""
    func = table_function(fns, dtypes, lanes)
    outs = func.buffers[len(arrays) :]
    want = [np.zeros(arrays[0].size, numpy_dtype(o.dtype)) for o in outs]
    got = [o.copy() for o in want]
    run(func, [*arrays, *want])
    call(compiled({"f": func})["f"], func, [*arrays, *got])
    wrong = []
    for name, a, b in zip(fns, want, got, strict=True):
        same = equal(a, b, 0.0 if tolerance is None else tolerance(name))
        if not signs:  # NaN becomes a zero of either sign where the type has none
            same |= a == b
        if not same.all():
            k = int(np.flatnonzero(~same)[0])
            inputs = ", ".join(str(x[k]) for x in arrays)
            wrong.append(f"{name} x{lanes} of {inputs}: interpreted {a[k]}, compiled {b[k]}")
    return dict(zip(fns, want, strict=True)), wrong


def equal(a, b, rtol=0.0):
    """Which elements are the same number: NaN is NaN, the sign of zero counts."""
    if a.dtype.kind in "biu":
        return a == b
    a, b = a.astype("float64"), b.astype("float64")
    with np.errstate(all="ignore"):
        close = (a == b) & (np.signbit(a) == np.signbit(b))
        if rtol:
            close |= np.abs(a - b) <= rtol * np.maximum(np.abs(a), np.abs(b)) + rtol * 1e-3
    return close | (np.isnan(a) & np.isnan(b))


INTEGERS = [
    "int4",
    "uint4",
    "int8",
    "uint8",
    "int16",
    "uint16",
    "int32",
    "uint32",
    "int64",
    "uint64",
]
FLOATS = ["float16", "bfloat16", "float32", "float64"]
FLOAT8 = ["float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz"]
FLOAT8 += ["float8_e4m3b11fnuz", "float8_e4m3", "float8_e3m4"]
SMALL = ["float4_e2m1fn", "float6_e2m3fn", "float6_e3m2fn"]
WIDTHS = (1, 2, 4, 5, 8, 16)
COUNT = 240  # a multiple of every width


def integer_pairs(dtype):
    """Pairs of interesting integers, a multiple of every width of them."""
    bits = DataType(dtype).bits
    signed = DataType(dtype).is_int
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
    some = {0, 1, 2, 3, 5, 7, high // 3, high, high - 1, high // 2 + 1, low, low + 1}
    some |= {-1, -2, -3, -7} if signed else {high // 2}
    return _resized(sorted(v for v in some if low <= v <= high), dtype)


def float_values(dtype):
    kind = numpy_dtype(dtype)
    import ml_dtypes

    info = ml_dtypes.finfo(kind)
    tiny, least, most = float(info.tiny), float(info.smallest_subnormal), float(info.max)
    some = [0.0, -0.0, 1.0, -1.5, 0.25, 0.5, 2.5, -3.5, 7.0, tiny, -least, least * 3, most, -most]
    some += [np.inf, -np.inf, np.nan] if most > 100 else []
    return some


def float_pairs(dtype):
    return _resized(float_values(dtype), dtype)


def _resized(some, dtype):
    grid = list(itertools.product(some, some))
    kind = numpy_dtype(dtype)
    sides = []
    for side in zip(*grid, strict=True):
        with np.errstate(all="ignore"):
            array = np.array(side, object if kind.kind in "iu" else "float64").astype(kind)
        sides.append(np.resize(array, -(-len(grid) // COUNT) * COUNT))
    return sides
