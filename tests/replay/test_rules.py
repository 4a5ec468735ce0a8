"""The default schedules of kernels whose sizes lie at the limits of the rules: the loops, and what was chosen."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import pytest

import loopwright as lw
from loopwright import te, tir
from loopwright.ir.module import IRModule
from loopwright.sched import ApplyDefaultSchedule

from ..sched.test_attention import kernel as attention
from .stages import ARM, CPU, choices

Kernel = tuple[str, Callable[[], tir.PrimFunc]]
SUMS = {"sum": te.sum, "max": te.max, "min": te.min}


def of(args: list[Any], *outs: Any) -> tir.PrimFunc:
    return te.create_prim_func([*args, *outs])


def sizes(*extents: int | str) -> list[Any]:
    """Extents; a name is a symbolic one, of int64."""
    names: dict[str, Any] = {}
    return [names.setdefault(e, tir.Var(e, "int64")) if isinstance(e, str) else e for e in extents]


# ---------------------------------------------------------------------------------------- products

EPILOGUES: dict[str, Any] = {
    "": None,
    "relu": lambda x: te.max(x, tir.const(0, x.dtype)),
    "tanh": lambda x: te.tanh(x + tir.const(1, x.dtype)),
}


def matmul(
    *extents: int | str, after: str = "", kept: bool = False, dtype: str = "float32",
    sides: str = "", batch: bool = False,
) -> tir.PrimFunc:  # fmt: skip
    """Rows, terms and columns of a product, or batches, rows, ...; sides: "at" if the left one is
    transposed, "bt" the right one."""
    *lead, m, terms, n = sizes(*extents)
    left = te.placeholder((*lead, terms, m) if sides == "at" else (*lead, m, terms), dtype, "A")
    right = (n, terms) if sides == "bt" else (terms, n)
    right = te.placeholder((*lead, *right) if batch else right, dtype, "B")
    k = te.reduce_axis((0, terms), "k")
    wide = "float32" if dtype == "bfloat16" else dtype

    def term(*at: Any) -> Any:
        *b, i, j = at
        x = left(*b, k, i) if sides == "at" else left(*b, i, k)
        y = right(*(b if batch else ()), *((j, k) if sides == "bt" else (k, j)))
        return te.sum(x.astype(wide) * y.astype(wide), k)

    out = te.compute((*lead, m, n), term, "product")
    if then := EPILOGUES[after]:
        made, out = out, None
        out = te.compute((*lead, m, n), lambda *at: then(made(*at)), "after")
    func = of([left, right], out)
    return func.with_attr("layout_free_buffers", [1]) if kept else func


def products() -> Iterator[Kernel]:
    for rows, columns in product((1, 2, 6, 7, 8, 13, 14, 15, 29, 197, "n"), (3, 31, 32, 33, 512)):
        yield f"{rows} x 20 x {columns}", lambda r=rows, c=columns: matmul(r, 20, c)
    for rows, columns in product((1, 3, 6, 7, 12), (511, 512, 1023, 1024, "m")):
        yield f"few {rows} {columns}", lambda r=rows, c=columns: matmul(r, 24, c, after="relu")
    for rows, kept in product((1, 7, 31, 32, 33, 65, "n"), (False, True)):
        make = lambda r=rows, k=kept: matmul(r, 40, 96, after="relu", kept=k)  # noqa: E731
        yield f"constant {kept} {rows}", make
    for rows, terms, columns in (
        (64, 512, 512), (63, 512, 512), (64, 511, 512), (64, 512, 513), (64, 512, 528), ("n", 512, 512)
    ):  # fmt: skip
        make = lambda r=rows, t=terms, c=columns: matmul(r, t, c)  # noqa: E731
        yield f"packed {rows} {terms} {columns}", make
    for rows, columns, kept in product((1, 2, 4, 9), (16, 40, 64), (False, True)):
        make = lambda r=rows, c=columns, k=kept: matmul(r, 8, c, after="tanh", kept=k)  # noqa: E731
        yield f"costly {rows} {columns} {kept}", make
    for terms, kept in product((7, 8, "k"), (False, True)):
        make = lambda t=terms, k=kept: matmul(9, t, 64, kept=k, dtype="bfloat16")  # noqa: E731
        yield f"pairs {terms} {kept}", make
    for sides, terms in product(("at", "bt"), (16, 31, 32, 127, 128, "k")):
        yield f"{sides} {terms}", lambda s=sides, t=terms: matmul(9, t, 40, sides=s)
    for lead, rows, batch in product((1, 3, "b"), (1, 5), (False, True)):
        make = lambda b=lead, r=rows, t=batch: matmul(b, r, 16, 48, batch=t)  # noqa: E731
        yield f"batches {lead} {rows} {batch}", make
    for dtype in ("float16", "float64", "int32", "int8"):
        yield dtype, lambda d=dtype: matmul(9, 16, 40, dtype=d)
    yield "4 d", lambda: matmul(2, 3, 9, 16, 40, batch=True)
    yield "of any size", lambda: matmul("m", "k", "n")


# ------------------------------------------------------------------------------------ convolutions


def conv(
    channels: tuple[int, int], image: tuple[Any, Any], *, window: int = 1, stride: int = 1,
    pad: int = 0, block: int = 0, each: bool = False, after: str = "", fold: str = "sum",
    weights: bool = True, batch: int | str = 1,
) -> tir.PrimFunc:  # fmt: skip
    """A convolution or pooling. block: channels in blocks of so many, as the last axis; each: each
    channel by itself."""
    given, made = channels
    n, high, wide = sizes(batch, *image)
    lanes = [block] if block else []
    count = (lambda c: c // block) if block else (lambda c: c)
    x = te.placeholder((n, count(given), high, wide, *lanes), "float32", "X")
    taps = (1, 1) if each else (count(made), count(given))
    if each:
        shape = (count(made), 1, window, window, *lanes)
    else:
        shape = (*taps, window, window, *(2 * lanes))
    w = te.placeholder(shape, "float32", "W")
    padded = x
    if pad:

        def inside(b: Any, c: Any, i: Any, j: Any, *v: Any) -> Any:
            within = te.all(i >= pad, i < high + pad, j >= pad, j < wide + pad)
            zero = tir.const(0, "float32")
            return te.if_then_else(within, x(b, c, i - pad, j - pad, *v), zero)

        shape = (n, count(given), high + 2 * pad, wide + 2 * pad, *lanes)
        padded = te.compute(shape, inside, "padded")
    ky, kx = (te.reduce_axis((0, window), name) for name in ("ky", "kx"))
    ic = te.reduce_axis((0, count(given)), "ic")
    ii = te.reduce_axis((0, block or 1), "ii")
    sums = [ky, kx] if each else [ic, ky, kx, *([ii] if block else [])]

    def term(b: Any, o: Any, i: Any, j: Any, *v: Any) -> Any:
        channel = o if each else ic
        inner = v if each else [ii] * len(lanes)
        value = padded(b, channel, i * stride + ky, j * stride + kx, *inner)
        if weights:
            at = (o, 0, ky, kx, *v) if each else (o, ic, ky, kx, *([ii] * len(lanes)), *v)
            value = value * w(*at)
        return SUMS[fold](value, sums)

    out_high, out_wide = ((e + 2 * pad - window) // stride + 1 for e in (high, wide))
    shape = (n, count(made), out_high, out_wide, *lanes)
    out = te.compute(shape, term, "conv")
    if then := EPILOGUES[after]:
        result = out
        out = te.compute(shape, lambda *at: then(result(*at)), "after")
    return of([x, w] if weights else [x], out)


def line(channels: int, size: int) -> tir.PrimFunc:
    """A convolution of a line of pixels, its channels in blocks."""
    count = channels // 16
    x = te.placeholder((1, count, size + 2, 16), "float32", "X")
    w = te.placeholder((count, count, 3, 16, 16), "float32", "W")
    i, k, c = (te.reduce_axis((0, d), name) for d, name in ((count, "i"), (3, "k"), (16, "c")))

    def term(n: Any, o: Any, p: Any, v: Any) -> Any:
        return te.sum(x[n, i, p + k, c] * w[o, i, k, c, v], [i, k, c])

    return of([x, w], te.compute((1, count, size, 16), term, "conv"))


def convolutions() -> Iterator[Kernel]:
    for channels, size in ((32, 8), (32, 64), (32, 256), (128, 28)):
        yield f"line {channels} {size}", lambda c=channels, s=size: line(c, s)
    for size, window in product((1, 7, 8, 14, 28, "h"), (1, 3)):
        make = lambda s=size, w=window: conv((32, 64), (s, s), window=w, pad=w // 2, block=16)  # noqa: E731
        yield f"blocked {size} {window}", make
    for given, made, size in (
        (16, 16, 56),
        (64, 16, 14),
        (256, 128, 14),
        (128, 128, 14),
        (128, 256, 7),
    ):
        make = lambda g=given, m=made, s=size: conv((g, m), (s, s), block=16, after="relu")  # noqa: E731
        yield f"channels {given} {made} {size}", make
        make = lambda g=given, m=made, s=size: conv((g, m), (s, s), window=3, pad=1, block=16)  # noqa: E731
        yield f"taps {given} {made} {size}", make
    yield "two images", lambda: conv((128, 128), (14, 14), window=3, pad=1, block=16, batch=2)
    yield "any images", lambda: conv((128, 128), (14, 14), window=3, pad=1, block=16, batch="n")
    yield "half blocks", lambda: conv((64, 64), (9, 10), window=3, pad=1, block=8)
    for given, size, window, stride in product((1, 3, 8), (9, 30, 64, "h"), (1, 3, 7), (1, 2)):
        if window > 1 and (given == 8) <= (size in (9, 30)):
            make = lambda g=given, s=size, w=window, t=stride: conv(  # noqa: E731
                (g, 24), (s, s), window=w, pad=w // 2, stride=t
            )
            yield f"image {given} {size} {window} {stride}", make
    for block, window, stride, size in product((0, 16), (2, 3, 5), (1, 2), (7, 28, "h")):
        make = lambda b=block, w=window, t=stride, s=size: conv(  # noqa: E731
            (32, 32), (s, s), window=w, pad=w // 2, stride=t, block=b, each=True, after="relu"
        )
        yield f"each {block} {window} {stride} {size}", make
    for fold, block, size in product(SUMS, (0, 16), (8, 15, "h")):
        make = lambda f=fold, b=block, s=size: conv(  # noqa: E731
            (32, 32), (s, s), window=3, pad=1, stride=2, block=b, each=True, weights=False, fold=f
        )
        yield f"{fold} of windows {block} {size}", make


# --------------------------------------------------------------------------------- rows and elements


def fold(shape: tuple[Any, ...], count: int, name: str = "sum", dtype: str = "float32",
         before: str = "", after: str = "") -> tir.PrimFunc:  # fmt: skip
    """A fold of the last axes."""
    dims = sizes(*shape)
    x = te.placeholder(dims, dtype, "X")
    axes = [te.reduce_axis((0, d), f"k{n}") for n, d in enumerate(dims[len(dims) - count :])]
    first = EPILOGUES[before] or (lambda v: v)
    keep = dims[: len(dims) - count] or [1]
    at = lambda i: i if len(dims) > count else ()  # noqa: E731
    out = te.compute(keep, lambda *i: SUMS[name](first(x(*at(i), *axes)), axes), "fold")
    if then := EPILOGUES[after]:
        made = out
        out = te.compute(keep, lambda *i: then(made(*i)), "after")
    return of([x], out)


def softmax(*shape: int | str, log: bool = False, scale: bool = False) -> tir.PrimFunc:
    *lead, n = dims = sizes(*shape)
    x = te.placeholder(dims, "float32", "X")
    k, j = te.reduce_axis((0, n), "k"), te.reduce_axis((0, n), "j")
    top = te.compute(lead, lambda *i: te.max(x(*i, k), k), "top")
    power = te.compute(dims, lambda *i: te.exp(x(*i) - top(*i[:-1])), "power")
    total = te.compute(lead, lambda *i: te.sum(power(*i, j), j), "total")
    if log:
        out = te.compute(dims, lambda *i: x(*i) - top(*i[:-1]) - te.log(total(*i[:-1])), "out")
    else:
        out = te.compute(dims, lambda *i: power(*i) / total(*i[:-1]), "out")
    if scale:
        made = out
        out = te.compute(dims, lambda *i: made(*i) * tir.const(2, "float32"), "scaled")
    return of([x], out)


def norm(*shape: int | str, both: bool = True) -> tir.PrimFunc:
    """A layer norm: of two sums at once; both: of the sum and the sum of squares, else of squares."""
    *lead, n = dims = sizes(*shape)
    x, g = te.placeholder(dims, "float32", "X"), te.placeholder((n,), "float32", "G")
    k = te.reduce_axis((0, n), "k")
    one = tir.const(1, "float32")
    if both:
        pair = te.comm_reducer(
            lambda a, b: (a[0] + b[0], a[1] + b[1]),
            lambda s, t: (tir.const(0, s), tir.const(0, t)),
        )
        low, square = te.compute(lead, lambda *i: pair((x(*i, k), x(*i, k) * x(*i, k)), k), "sums")
        of_row = lambda *i: (x(*i) - low(*i[:-1])) * te.rsqrt(square(*i[:-1]) + one)  # noqa: E731
    else:
        square = te.compute(lead, lambda *i: te.sum(x(*i, k) * x(*i, k), k), "squares")
        of_row = lambda *i: x(*i) * te.rsqrt(square(*i[:-1]) + one)  # noqa: E731
    return of([x, g], te.compute(dims, lambda *i: of_row(*i) * g(i[-1]), "out"))


def rows() -> Iterator[Kernel]:
    for length, name in product((1, 3, 31, 32, 33, 127, 128, 4096, "n"), SUMS):
        yield f"{name} {length}", lambda k=length, f=name: fold((9, k), 1, f)
    for lead, length in product((1, 2, 16, 300, "m"), (100, 1000)):
        yield f"sum {lead} {length}", lambda m=lead, k=length: fold((m, k), 1, after="tanh")
    for shape, count in (
        ((100,), 1), ((6, 7, 7), 2), ((6, 3, 10), 2), ((6, 4, 8), 2), ((6, 2, 3, 5), 3), ((6, 31), 1),
        ((6, 5, 32), 2), ((6, 5, 31), 2), ((6, 3, "n"), 2), ((6, "n", 7), 2), ((5, 7), 2), ((64, 64), 2),
    ):  # fmt: skip
        yield f"fold {shape} {count}", lambda s=shape, c=count: fold(s, c, before="relu")
    for dtype in ("float16", "float64", "int8", "int64"):
        yield f"sum {dtype}", lambda d=dtype: fold((9, 100), 1, dtype=d)
    for lead, length in product((1, 7, 8, 9, "m"), (5, 16, 40, 256, 1100, 9000, "n")):
        yield f"softmax {lead} {length}", lambda m=lead, k=length: softmax(m, k)
    for log, scale in product((False, True), repeat=2):
        make = lambda g=log, s=scale: softmax(4, 3, 100, log=g, scale=s)  # noqa: E731
        yield f"softmax {log} {scale}", make
    for lead, length, both in product((1, 8, "m"), (20, 128, "n"), (False, True)):
        yield f"norm {lead} {length} {both}", lambda m=lead, k=length, b=both: norm(m, k, both=b)
    for keys in (5, 15, 16, 17, 31, 32, 40, 64):
        yield f"attention {keys}", lambda k=keys: attention(keys=k)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "add": lambda x: x + x,
    "exp": te.exp,
    "two": lambda x: te.exp(te.tanh(x)),
    "itself": lambda x: x * te.sigmoid(x),
}


def elements(*shape: int | str, name: str = "add", dtype: str = "float32",
             order: tuple[int, ...] = (), steps: int = 1) -> tir.PrimFunc:  # fmt: skip
    """Some steps on the elements of a tensor, of which the first transposes."""
    dims = sizes(*shape)
    x = out = te.placeholder(dims, dtype, "X")
    turned = order or tuple(range(len(dims)))
    back = [turned.index(k) for k in range(len(dims))]
    for step in range(steps):
        last = out
        axes = [dims[k] for k in turned] if not step or order else dims
        read = lambda i, s=step: [i[k] for k in back] if not s else i  # noqa: E731
        out = te.compute(axes, lambda *i, a=last, r=read: FUNCTIONS[name](a(*r(i))), f"step{step}")
    return of([x], out)


def nests() -> Iterator[Kernel]:
    for name, length in product(FUNCTIONS, (1, 2, 15, 16, 17, 48, 60, 62, 64, 127, 240, 256, "n")):
        yield f"{name} {length}", lambda f=name, n=length: elements(3, n, name=f)
    for shape in ((511, 16), (512, 16), (513, 16), (8, 1024), (9, 1024), (7, 1, 2000), (8, 1, 9000),
                  ("n", 3, 7), (2, "n", 64), ("n", "m"), (8193,), (8192,), (5, 4, 3, 1)):  # fmt: skip
        yield f"add {shape}", lambda s=shape: elements(*s)
    for dtype in ("float16", "float64", "int8", "bool"):
        name = "exp" if dtype[:5] == "float" else "add"
        yield (
            dtype,
            lambda d=dtype, f=name: elements(3, 100, name=f, dtype="int32" if d == "bool" else d),
        )
    for steps in (2, 6, 7, 8):
        yield f"steps {steps}", lambda s=steps: elements(3, 100, steps=s)
        yield f"costly {steps}", lambda s=steps: elements(3, 100, steps=s, name="itself")
    for shape, order in (
        ((40, 50), (1, 0)), ((15, 16), (1, 0)), ((16, 15), (1, 0)), ((16, 16), (1, 0)), ((17, 31), (1, 0)),
        ((3, 40, 50), (0, 2, 1)), ((3, 40, 50), (1, 0, 2)), ((3, 40, 50), (2, 1, 0)), ((2, 3, 20, 20), (0, 2, 3, 1)),
        ((2, 32, 7, 7), (0, 2, 3, 1)), ((2, 7, 7, 32), (0, 3, 1, 2)), ((2, 3, 4, 50), (1, 3, 0, 2)),
        (("n", 40), (1, 0)), ((40, "n"), (1, 0)), (("n", "m"), (1, 0)), ((1, 64, 1, 20), (3, 2, 1, 0)),
    ):  # fmt: skip
        for name in ("add", "exp"):
            make = lambda s=shape, o=order, f=name: elements(*s, order=o, name=f)  # noqa: E731
            yield f"turned {shape} {order} {name}", make


FAMILIES = {"products": products, "convolutions": convolutions, "rows": rows, "nests": nests}
TARGETS = {"cpu": CPU, "arm": ARM}


@pytest.mark.no_roundtrip
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("target", TARGETS)
def test_kernels(family: str, target: str, replay: Any) -> None:
    rows = {}
    with lw.Target(TARGETS[target]):
        for name, make in FAMILIES[family]():
            with lw.trace() as trace:
                made = ApplyDefaultSchedule()(IRModule({"main": make()}))
            rows[name] = {"loops": made.script(), "choices": choices(trace)}
    replay(f"rules/{family}-{target}", rows)
