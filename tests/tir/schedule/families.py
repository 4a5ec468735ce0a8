"""Random programs: chains of elementwise blocks, matmuls, convolutions, reductions, scans, gathers,
padding and the like."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from .generate import LIMITS, MOST_WORK, SMALL, Buf, Dim, Program, Writer, lit, size


def unary(w: Writer, x: str, dtype: str, most: int) -> tuple[str, int]:
    """A random function of one value."""
    c = w.rng.choice([1, 2, 3])
    number = lit(dtype, c)
    choices = [
        (f"{x} + {number}", most + c),
        (f"{x} * {number}", most * c),
        (f"T.max({x}, {lit(dtype, 0)})", most),
        (f"T.min({x}, {number})", max(most, c)),
        (f"T.Select({x} > {number}, {x}, {lit(dtype, -c)})", max(most, c)),
        (f"T.if_then_else({x} < {number}, {number} - {x}, {x})", most + c),
    ]
    if dtype.startswith("int"):
        choices += [(f"T.floormod({x}, {number})", c), (f"T.floordiv({x}, {number})", most)]
    else:
        choices += [(f"T.fabs({x})", most)] if dtype == "float32" else []
    return w.clamp(*_pick(w, choices, dtype))


def _pick(w: Writer, choices: list[tuple[str, int]], dtype: str) -> tuple[str, str, int]:
    expr, most = w.rng.choice(choices)
    return expr, dtype, most


def elementwise(w: Writer) -> None:
    a = w.source((1, 2, 3, 4))
    picked: dict[str, Any] = {}
    if w.rng.random() < 0.5:
        expr, most = unary(w, "@", a.dtype, a.most)
        out = w.new(a.shape, a.dtype, most)
        w.spatial(out, lambda v: expr.replace("@", a.at(*v)))
    else:
        keep = w.rng.randrange(len(a.shape)) if w.rng.random() < 0.4 else 0  # broadcasting
        b = w.operand(a.shape[keep:], a.dtype)
        sign = w.rng.choice(["+", "-", "*", "max"])
        most = a.most * b.most if sign == "*" else a.most + b.most
        form = "T.max(@, #)" if sign == "max" else f"@ {sign} #"
        expr, most = w.clamp(form, a.dtype, most)
        out = w.new(a.shape, a.dtype, most)
        picked = {"@": lambda v: a.at(*v), "#": lambda v: b.at(*v[keep:])}
        w.spatial(out, lambda v: expr.replace("@", picked["@"](v)).replace("#", picked["#"](v)))
    w.add(out, "elementwise")


def cast(w: Writer) -> None:
    a = w.source((1, 2, 3))
    kinds = [t for t in ("float32", "int32", "int64", "float16") if LIMITS[t] >= a.most]
    dtype = w.rng.choice(kinds)
    out = w.new(a.shape, dtype, a.most)
    w.spatial(out, lambda v: f'T.Cast("{dtype}", {a.at(*v)})')
    w.add(out, "cast")


def predicate(w: Writer) -> None:
    """A comparison into a bool buffer, and a choice by it."""
    a = w.source((1, 2, 3))
    mask = w.new(a.shape, "bool", 1)
    w.used.add(mask.name)
    w.spatial(mask, lambda v: f"{a.at(*v)} > {lit(a.dtype, 1)}")
    w.add(mask, "predicate")
    b = w.operand(a.shape, a.dtype)
    out = w.new(a.shape, a.dtype, max(a.most, b.most))
    w.spatial(out, lambda v: f"T.if_then_else({mask.at(*v)}, {a.at(*v)}, {b.at(*v)})")
    w.add(out, "predicate")


def transpose(w: Writer) -> None:
    a = w.source((2, 3, 4))
    order = list(range(len(a.shape)))
    w.rng.shuffle(order)
    out = w.new(tuple(a.shape[k] for k in order), a.dtype, a.most)
    expr, most = unary(w, "@", a.dtype, a.most)
    out = w.made[-1] = Buf(out.name, out.shape, out.dtype, most)
    back = [order.index(k) for k in range(len(order))]
    w.spatial(out, lambda v: expr.replace("@", a.at(*(v[k] for k in back))))
    w.add(out, "transpose")


def reshape(w: Writer) -> None:
    a = w.source((2, 3), static=True)
    total = size(a.shape)
    inner: Any = w.rng.choice([k for k in range(1, total + 1) if total % k == 0 and k <= 16])
    out = w.new((total // inner, inner), a.dtype, a.most)

    def value(v: list[str]) -> str:
        flat, indices = f"({v[0]} * {inner} + {v[1]})", []
        rest: int = total
        for d in a.shape:
            assert isinstance(d, int)
            rest //= d
            indices.append(f"{flat} // {rest} % {d}")
        return a.at(*indices)

    w.spatial(out, value)
    w.add(out, "reshape")


def matmul(w: Writer) -> None:
    a = w.source((2, 3))
    batch, (m, k) = a.shape[:-2], a.shape[-2:]
    n = w.rng.choice([1, 3, 4, 6, 8, 10])
    most = a.most * SMALL * size((k,))
    if size((*a.shape, n)) > MOST_WORK or most > LIMITS[a.dtype]:
        return elementwise(w)
    flipped = w.rng.random() < 0.3
    b = w.input((*batch, n, k) if flipped else (*batch, k, n), a.dtype)
    out = w.new((*batch, m, n), a.dtype, most)
    nb = len(batch)

    def body(v: list[str]) -> list[str]:
        vb, (vm, vn, vk) = v[:nb], v[nb:]
        second = b.at(*vb, *((vn, vk) if flipped else (vk, vn)))
        return [f"{out.at(*vb, vm, vn)} = {out.at(*vb, vm, vn)} + {a.at(*vb, vm, vk)} * {second}"]

    axes: list[tuple[str, Dim]] = [("spatial", d) for d in out.shape] + [("reduce", k)]
    w.block(out.name, axes, body, lambda v: [f"{out.at(*v[: nb + 2])} = {lit(a.dtype, 0)}"])
    w.add(out, "batch_matmul" if batch else "matmul")


def pad(w: Writer) -> None:
    a = w.source((1, 2, 3), static=True)
    low = [w.rng.choice([0, 1, 2]) for _ in a.shape]
    high = [w.rng.choice([0, 1, 3]) for _ in a.shape]
    shape: tuple[Any, ...] = tuple(
        lo + d + hi for lo, d, hi in zip(low, a.shape, high, strict=True)
    )
    if size(shape) > MOST_WORK:
        return elementwise(w)
    tests = [(k, lo, lo + d) for k, (lo, d) in enumerate(zip(low, a.shape, strict=True))]  # type: ignore[operator]
    value = w.rng.choice([0, 0, -1, 2])
    out = w.new(shape, a.dtype, max(a.most, abs(value)))

    def padded(v: list[str]) -> str:
        parts = []
        for k, lo, end in tests:
            parts += [f"{v[k]} >= {lo}"] if lo else []
            parts += [f"{v[k]} < {end}"] if end < shape[k] else []
        inside = a.at(*(f"{v[k]} - {lo}" if lo else v[k] for k, lo, _ in tests))
        if not parts:
            return inside
        return f"T.if_then_else({' and '.join(parts)}, {inside}, {lit(a.dtype, value)})"

    w.spatial(out, padded)
    w.add(out, "pad")


def conv2d(w: Writer) -> None:
    """Convolution with stride, dilation and (a block of its own) padding."""
    r = w.rng
    channels, height, width = r.choice([1, 2, 3]), r.choice([5, 7, 8]), r.choice([4, 6, 9])
    dtype = r.choice(["float32", "float32", "int32", "float16"])
    p, stride, dilation = r.choice([0, 1]), r.choice([1, 1, 2]), r.choice([1, 1, 2])
    kernel = r.choice([1, 2, 3]) if dilation == 1 else 2
    outs = r.choice([1, 2, 4])
    h2 = (height + 2 * p - dilation * (kernel - 1) - 1) // stride + 1
    w2 = (width + 2 * p - dilation * (kernel - 1) - 1) // stride + 1
    a = w.input((channels, height, width), dtype)
    if p:
        b = w.new((channels, height + 2 * p, width + 2 * p), dtype, SMALL)
        w.used.add(b.name)
        test = f"{{1}} >= {p} and {{1}} < {height + p} and {{2}} >= {p} and {{2}} < {width + p}"
        w.spatial(
            b,
            lambda v: (
                f"T.if_then_else({test.format(*v)}, "
                f"{a.at(v[0], f'{v[1]} - {p}', f'{v[2]} - {p}')}, {lit(dtype, 0)})"
            ),
        )
        w.add(b, "pad")
    else:
        b = a
    most = SMALL * SMALL * channels * kernel * kernel
    weights = w.input((outs, channels, kernel, kernel), dtype)
    out = w.new((outs, h2, w2), dtype, most)

    def window(v: str, k: str) -> str:
        left = f"{v} * {stride}" if stride > 1 else v
        return f"{left} + {k} * {dilation}" if dilation > 1 else f"{left} + {k}"

    def body(v: list[str]) -> list[str]:
        o, y, x, c, ky, kx = v
        here = out.at(o, y, x)
        data = b.at(c, window(y, ky), window(x, kx))
        return [f"{here} = {here} + {data} * {weights.at(o, c, ky, kx)}"]

    axes: list[tuple[str, Dim]] = [("spatial", d) for d in out.shape]
    axes += [("reduce", d) for d in (channels, kernel, kernel)]
    w.block(out.name, axes, body, lambda v: [f"{out.at(*v[:3])} = {lit(dtype, 0)}"])
    w.add(out, "conv2d")


def pool(w: Writer) -> None:
    """The largest element of windows, mostly of something that was made."""
    if w.rng.random() < 0.6:
        elementwise(w)
    a = w.source((1, 2, 3), static=True)
    length: Any = a.shape[-1]
    window = w.rng.choice([2, 3])
    stride = w.rng.choice([1, 2])
    if length < window or size(a.shape) * window > MOST_WORK:
        return elementwise(w)
    shape = (*a.shape[:-1], (length - window) // stride + 1)
    out = w.new(shape, a.dtype, max(a.most, 9))
    n = len(shape)

    def body(v: list[str]) -> list[str]:
        here = out.at(*v[:n])
        return [f"{here} = T.max({here}, {a.at(*v[: n - 1], f'{v[n - 1]} * {stride} + {v[n]}')})"]

    axes: list[tuple[str, Dim]] = [("spatial", d) for d in shape] + [("reduce", window)]
    start = w.rng.choice([f"T.min_value({a.dtype!r})", lit(a.dtype, -9)])
    w.block(out.name, axes, body, lambda v: [f"{out.at(*v[:n])} = {start}"])
    w.add(out, "pool")


def reduction(w: Writer) -> None:
    """A sum, maximum or minimum over one or several axes."""
    a = w.source((1, 2, 3))
    ndim = len(a.shape)
    reduced = sorted(w.rng.sample(range(ndim), w.rng.randint(1, ndim)))
    kind = w.rng.choice(["sum", "sum", "max", "min"])
    count = size(tuple(a.shape[k] for k in reduced))
    most = a.most * count if kind == "sum" else max(a.most, 9)
    if most > LIMITS[a.dtype]:
        kind, most = "max", max(a.most, 9)
    kept = [k for k in range(ndim) if k not in reduced]
    shape = tuple(a.shape[k] for k in kept) or (1,)
    if kind != "sum":
        most = LIMITS[a.dtype]  # of an empty reduction; never of ours, but the init is seen
        most = max(a.most, 9)
    out = w.new(shape, a.dtype, most)
    start = {
        "sum": lit(a.dtype, 0),
        "max": w.rng.choice([f"T.min_value({a.dtype!r})", lit(a.dtype, -9)]),
        "min": w.rng.choice([f"T.max_value({a.dtype!r})", lit(a.dtype, 9)]),
    }[kind]

    def at(v: list[str]) -> str:
        return out.at(*(v[: len(kept)] if kept else [v[0]]))

    def body(v: list[str]) -> list[str]:
        here = at(v)
        names = dict(zip([*kept, *reduced], v if kept else v[1:], strict=True))
        value = a.at(*(names[k] for k in range(ndim)))
        made = f"{here} + {value}" if kind == "sum" else f"T.{kind}({here}, {value})"
        return [f"{here} = {made}"]

    axes: list[tuple[str, Dim]] = [("spatial", d) for d in shape]
    axes += [("reduce", a.shape[k]) for k in reduced]
    w.block(out.name, axes, body, lambda v: [f"{at(v)} = {start}"])
    w.add(out, kind)


def argmax(w: Writer) -> None:
    """Where the largest element is, and what: a reduction of pairs."""
    a = w.source((2, 3))
    shape, n = a.shape[:-1], len(a.shape) - 1
    values = w.new(shape, a.dtype, max(a.most, 9))
    where = w.new(shape, "int32", 16)
    start = f"T.min_value({a.dtype!r})"

    def body(v: list[str]) -> list[str]:
        s, k = v[:n], v[n]
        best, at, value = values.at(*s), where.at(*s), a.at(*v)
        number = f'T.Cast("int32", {k})' if w.wide else k
        keep = f"{best} > {value} or ({best} == {value} and {at} <= {number})"
        return [
            f"t0: T.{a.dtype} = T.Select({keep}, {best}, {value})",
            f"t1: T.int32 = T.Select({keep}, {at}, {number})",
            f"{best} = t0",
            f"{at} = t1",
        ]

    axes: list[tuple[str, Dim]] = [("spatial", d) for d in shape] + [("reduce", a.shape[-1])]
    first = "T.int32(2147483647)"
    init = lambda v: [f"{values.at(*v[:n])} = {start}", f"{where.at(*v[:n])} = {first}"]  # noqa: E731
    w.block(values.name, axes, body, init)
    w.add(values, "argmax")
    w.bufs.append(where)


def scan(w: Writer) -> None:
    """Running sums or maxima along the last axis."""
    a = w.source((1, 2))
    n = len(a.shape) - 1
    kind = w.rng.choice(["+", "max"])
    most = a.most * size(a.shape[-1:]) if kind == "+" else a.most
    if most > LIMITS[a.dtype]:
        kind, most = "max", a.most
    out = w.new(a.shape, a.dtype, most)
    step = "@ + #" if kind == "+" else "T.max(@, #)"

    def store(s: list[str], k: str, before: str) -> str:
        carried = step.replace("@", out.at(*s, before)).replace("#", a.at(*s, k))
        return f"{out.at(*s, k)} = T.if_then_else({k} == 0, {a.at(*s, k)}, {carried})"

    form = w.rng.choice(["scan", "scan", "opaque", "inner"])
    if form == "inner":  # a loop inside of the block
        lines = lambda v: [  # noqa: E731
            f"for k in range({w.extent(a.shape[-1])}):",
            f"    {store(v, 'k', 'k - 1')}",
        ]
        w.block(out.name, [("spatial", d) for d in a.shape[:-1]], lines)
    else:
        axes: list[tuple[str, Dim]] = [("spatial", d) for d in a.shape[:-1]]
        w.block(
            out.name,
            [*axes, (form, a.shape[-1])],
            lambda v: [store(v[:n], v[n], f"{v[n]} - 1")],
        )
    w.add(out, "scan")


def gather(w: Writer) -> None:
    """Rows picked by numbers that are data."""
    a = w.source((1, 2, 3), static=True)
    rows: Any = a.shape[0]
    count = w.rng.choice([1, 4, 6, 9])
    kind = w.rng.choice(["int32", "int64"])
    safe = w.rng.random() < 0.6
    index = w.input((count,), kind, (0, rows - 1) if safe else (-20, 20))
    rest = a.shape[1:]
    out = w.new((count, *rest), a.dtype, a.most)

    def value(v: list[str]) -> str:
        at = index.at(v[0])
        return a.at(at if safe else f"T.floormod({at}, {lit(kind, rows)})", *v[1:])

    w.spatial(out, value)
    w.add(out, "gather")


def strided(w: Writer) -> None:
    """Every second element, a shifted part, or the elements backwards."""
    a = w.source((1, 2, 3), static=True)
    length: Any = a.shape[-1]
    kind = w.rng.choice(["step", "shift", "flip"])
    kept = {"step": -(-length // 2), "shift": max(length - 1, 1), "flip": length}[kind]
    out = w.new((*a.shape[:-1], kept), a.dtype, a.most)
    form = {"step": "{} * 2", "shift": f"{{}} + {length - kept}", "flip": f"{length - 1} - {{}}"}
    w.spatial(out, lambda v: a.at(*v[:-1], form[kind].format(v[-1])))
    w.add(out, "strided")


def concat(w: Writer) -> None:
    """Two buffers side by side: by a choice, or by two blocks that write a half each."""
    a = w.source((1, 2), static=True)
    left: Any = a.shape[-1]
    right = w.rng.choice([1, 3, 4])
    b = w.input((*a.shape[:-1], right), a.dtype)
    out = w.new((*a.shape[:-1], left + right), a.dtype, max(a.most, b.most))
    if w.rng.random() < 0.6:
        w.spatial(
            out,
            lambda v: (
                f"T.if_then_else({v[-1]} < {left}, {a.at(*v)}, "
                f"{b.at(*v[:-1], f'{v[-1]} - {left}')})"
            ),
        )
    else:
        for source, start in ((a, 0), (b, left)):
            axes: list[tuple[str, Dim]] = [("spatial", d) for d in source.shape]

            def body(v: list[str], source: Buf = source, start: Any = start) -> list[str]:
                last = f"{v[-1]} + {start}" if start else v[-1]
                return [f"{out.at(*v[:-1], last)} = {source.at(*v)}"]

            w.block(f"{out.name}_{source.name}", axes, body)
    w.add(out, "concat")


def update(w: Writer) -> None:
    """A buffer that is written twice: changed in place."""
    a = w.source((1, 2))
    out = w.new(a.shape, a.dtype, a.most + 1)
    w.spatial(out, lambda v: a.at(*v))
    axes: list[tuple[str, Dim]] = [("spatial", d) for d in a.shape]
    w.block(f"{out.name}_u", axes, lambda v: [f"{out.at(*v)} = {out.at(*v)} + {lit(a.dtype, 1)}"])
    w.add(out, "update")


def upsample(w: Writer) -> None:
    """Each element twice, or the sum of neighbours at half a step."""
    a = w.source((1, 2, 3), static=True)
    length: Any = a.shape[-1]
    out = w.new((*a.shape[:-1], 2 * length), a.dtype, 2 * a.most)
    near = w.rng.random() < 0.5

    def value(v: list[str]) -> str:
        last = a.at(*v[:-1], f"{v[-1]} // 2")
        after = a.at(*v[:-1], f"T.min(({v[-1]} + 1) // 2, {length - 1})")
        return last if near else f"{last} + {after}"

    if out.most > LIMITS[a.dtype]:
        return elementwise(w)
    w.spatial(out, value)
    w.add(out, "upsample")


def total(w: Writer) -> None:
    """A sum into a buffer without axes, which is then read everywhere."""
    a = w.source((1, 2))
    most = a.most * size(a.shape)
    if most + a.most > LIMITS[a.dtype]:
        return elementwise(w)
    whole = w.new((), a.dtype, most)
    w.used.add(whole.name)
    at = whole.at()
    axes: list[tuple[str, Dim]] = [("reduce", d) for d in a.shape]
    body = lambda v: [f"{at} = {at} + {a.at(*v)}"]  # noqa: E731
    w.block(whole.name, axes, body, lambda v: [f"{at} = {lit(a.dtype, 0)}"])
    out = w.new(a.shape, a.dtype, most + a.most)
    w.spatial(out, lambda v: f"{at} - {a.at(*v)}")
    w.add(out, "total")


def triangle(w: Writer) -> None:
    """Sums over loops as long as an outer one says."""
    a = w.source((2,), static=True)
    rows, columns = a.shape
    most = a.most * size((columns,))
    if most > LIMITS[a.dtype]:
        return elementwise(w)
    out = w.new((rows,), a.dtype, most)
    w.nest(
        [
            f"for i in range({{{rows}}}):",
            f"    for k in range(T.min(i + 1, {{{columns}}})):",
            f'        with T.block("{out.name}"):',
            f"            v = T.axis.spatial({{{rows}}}, i)",
            f"            vk = T.axis.reduce({{{columns}}}, k)",
            "            with T.init():",
            f"                {out.at('v')} = {lit(a.dtype, 0)}",
            f"            {out.at('v')} = {out.at('v')} + {a.at('v', 'vk')}",
        ]
    )
    w.add(out, "triangle")


def inside(w: Writer) -> None:
    """All of a buffer is written, then what is inside its borders changed."""
    a = w.source((1, 2), static=True)
    length: Any = a.shape[-1]
    if length < 3:
        return elementwise(w)
    out = w.new(a.shape, a.dtype, a.most + 1)
    w.spatial(out, lambda v: a.at(*v))
    end = {False: length - 1, True: length}[w.rng.random() < 0.3]
    outer = len(a.shape) == 2
    lines = [f"for i in range({{{a.shape[0]}}}):"] if outer else []
    pad = "    " * outer
    v = ["v0", "v1"][: len(a.shape)]
    lines += [
        f"{pad}for j in range({{1}}, {{{end}}}):",
        f'{pad}    with T.block("{out.name}_i"):',
        *([f"{pad}        v0 = T.axis.spatial({{{a.shape[0]}}}, i)"] * outer),
        f"{pad}        {v[-1]} = T.axis.spatial(({{1}}, {{{end}}}), j)",
        f"{pad}        {out.at(*v)} = {out.at(*v)} + {lit(a.dtype, 1)}",
    ]
    w.nest(lines)
    w.add(out, "inside")


def nested(w: Writer) -> None:
    """A block of rows with a block of elements, or of a row's sum, inside."""
    a = w.source((2,), static=True)
    rows, columns = a.shape
    sums = w.rng.random() < 0.5
    most = a.most * (size((columns,)) if sums else 2)
    if most > LIMITS[a.dtype]:
        return elementwise(w)
    out = w.new((rows,) if sums else a.shape, a.dtype, most)
    here, there = out.at(*["v", "w"][: len(out.shape)]), a.at("v", "w")
    kind, value = ("reduce", f"{here} + {there}") if sums else ("spatial", f"{there} + {there}")
    init = ["            with T.init():", f"                {here} = {lit(a.dtype, 0)}"]
    w.nest(
        [
            f"for i in range({{{rows}}}):",
            f'    with T.block("{out.name}_o"):',
            f"        v = T.axis.spatial({{{rows}}}, i)",
            f"        for j in range({{{columns}}}):",
            f'            with T.block("{out.name}"):',
            f"                w = T.axis.{kind}({{{columns}}}, j)",
            *(["    " + line for line in init] * sums),
            f"                {here} = {value}",
        ]
    )
    w.add(out, "nested")


FAMILIES: dict[Callable[[Writer], None], int] = {
    elementwise: 5,
    cast: 1,
    predicate: 1,
    transpose: 2,
    reshape: 1,
    matmul: 4,
    pad: 2,
    conv2d: 2,
    pool: 2,
    reduction: 3,
    argmax: 1,
    scan: 2,
    gather: 2,
    strided: 1,
    concat: 1,
    update: 1,
    upsample: 1,
    total: 1,
    triangle: 1,
    inside: 1,
    nested: 1,
}


def random_program(rng: random.Random, steps: int | None = None) -> Program:
    """A program of 1 to 5 steps, each reading mostly what the one before made."""
    w = Writer(rng, symbolic=rng.random() < 0.15, wide=rng.random() < 0.2)
    families, weights = list(FAMILIES), list(FAMILIES.values())
    for _ in range(steps or rng.choice([1, 2, 2, 3, 3, 4, 5])):
        rng.choices(families, weights)[0](w)
    return w.finish()
