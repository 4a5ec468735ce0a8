"""Random programs: chains of elementwise blocks, matmuls, convolutions, reductions, scans, gathers,
padding and the like.

All values are small whole numbers, also those of floats, so that results are the same in whatever
order they are added: what a schedule computes is compared exactly.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np

from loopwright import tir
from loopwright.script import from_source

Dim = int | str  # a number, or the name of a symbolic size
SYMBOL_SIZES = (1, 5, 8)  # what "n" is bound to at run time
MOST_SYMBOL = 8
LIMITS = {"float32": 2**20, "float16": 1024, "int32": 2**20, "int64": 2**30, "bool": 1}
SMALL = 4  # inputs are -SMALL .. SMALL
MOST_WORK = 3000  # iterations of one block


@dataclass(frozen=True)
class Buf:
    """A buffer of the program; no element is beyond `most` in size."""

    name: str
    shape: tuple[Dim, ...]
    dtype: str
    most: int

    def at(self, *indices: str) -> str:
        return f"{self.name}[{', '.join(indices)}]"


@dataclass(frozen=True)
class Program:
    """A generated program with what its inputs may hold."""

    func: tir.PrimFunc
    text: str
    families: tuple[str, ...]
    ranges: dict[str, tuple[int, int]]  # of the parameters that are read
    sizes: tuple[dict[str, int], ...]

    def arguments(self, sizes: dict[str, int], seed: int = 0) -> list[np.ndarray]:
        """Arrays for the parameters; outputs hold rubbish."""
        rng = np.random.default_rng(seed)
        made = []
        for param in self.func.params:
            buffer = self.func.buffer_map[param]
            shape = [getattr(e, "value", None) or sizes[e.name] for e in buffer.shape]
            low, high = self.ranges.get(buffer.name, (77, 77))
            values = rng.integers(low, high, shape, endpoint=True)
            made.append(values.astype(str(buffer.dtype)))
        return made


@dataclass
class Writer:
    """The program as far as it is written."""

    rng: random.Random
    symbolic: bool
    wide: bool  # whether indices are int64
    bufs: list[Buf] = field(default_factory=list)
    inputs: dict[str, tuple[Buf, tuple[int, int]]] = field(default_factory=dict)
    used: set[str] = field(default_factory=set)
    lines: list[str] = field(default_factory=list)
    made: list[Buf] = field(default_factory=list)
    families: list[str] = field(default_factory=list)

    # ------------------------------------------------------------------ buffers

    def new(self, shape: tuple[Dim, ...], dtype: str, most: int) -> Buf:
        """A buffer that a block is about to write."""
        buf = Buf(f"B{len(self.made)}", shape, dtype, most)
        self.made.append(buf)
        return buf

    def add(self, buf: Buf, family: str) -> None:
        """The buffer is written: others may read it."""
        self.bufs.append(buf)
        self.families.append(family)

    def input(self, shape: tuple[Dim, ...], dtype: str, span: tuple[int, int] | None = None) -> Buf:
        """A new parameter."""
        low, high = span or ((0, 1) if dtype == "bool" else (-SMALL, SMALL))
        buf = Buf(f"A{len(self.inputs)}", shape, dtype, max(-low, high))
        self.inputs[buf.name] = (buf, (low, high))
        self.used.add(buf.name)
        return buf

    def source(
        self, ndim: tuple[int, ...] = (1, 2, 3), *, static: bool = False, numbers: bool = True
    ) -> Buf:
        """Something to read: mostly what was made last."""
        fits = [
            b
            for b in self.bufs
            if len(b.shape) in ndim
            and not (static and "n" in b.shape)
            and not (numbers and b.dtype == "bool")
        ]
        if fits and self.rng.random() < 0.85:
            found = fits[-1] if self.rng.random() < 0.7 else self.rng.choice(fits)
            self.used.add(found.name)
            return found
        shape = [self.rng.choice(EXTENTS) for _ in range(self.rng.choice(ndim))]
        while prod(shape) > 400:
            shape[self.rng.randrange(len(shape))] = 3
        made: list[Dim] = list(shape)
        if self.symbolic and not static and (not self.bufs or self.rng.random() < 0.7):
            made[0] = "n"
        return self.input(tuple(made), self.rng.choice(DTYPES))

    def operand(self, shape: tuple[Dim, ...], dtype: str) -> Buf:
        """A buffer of this very shape and type: one that is there, or a parameter."""
        fits = [b for b in self.bufs if b.shape == shape and b.dtype == dtype]
        if fits and self.rng.random() < 0.5:
            found = self.rng.choice(fits)
            self.used.add(found.name)
            return found
        return self.input(shape, dtype)

    # ------------------------------------------------------------------ text

    def extent(self, dim: Dim) -> str:
        return f"T.int64({dim})" if self.wide and isinstance(dim, int) else str(dim)

    def shape(self, dims: tuple[Dim, ...]) -> str:
        inner = ", ".join(map(self.extent, dims))
        return f"({inner},)" if len(dims) == 1 else f"({inner})"

    def block(
        self,
        name: str,
        axes: list[tuple[str, Dim]],
        body: Callable[[list[str]], list[str]],
        init: Callable[[list[str]], list[str]] | None = None,
    ) -> None:
        """A nest with one block. Some have loops of another order, or split by hand."""
        rng = self.rng
        loops = [f"i{k}" for k in range(len(axes))]
        names = [f"v{k}" for k in range(len(axes))]
        values = list(loops)
        order = list(range(len(axes)))
        if rng.random() < 0.15 and all(kind != "scan" for kind, _ in axes):
            rng.shuffle(order)
        ranges = [(loops[k], axes[k][1]) for k in order]
        where = ""
        split = rng.randrange(len(axes)) if axes and rng.random() < 0.15 else None
        if split is not None and isinstance(axes[split][1], int) and axes[split][0] != "scan":
            dim: Any = axes[split][1]
            factor = rng.choice([2, 3, 4])
            outer, inner = f"{loops[split]}o", f"{loops[split]}i"
            at = order.index(split)
            ranges[at : at + 1] = [(outer, -(-dim // factor)), (inner, factor)]
            values[split] = f"{outer} * {factor} + {inner}"
            if dim % factor:
                where = f"{values[split]} < {dim}"
        pad = "    "
        ranges = ranges or [("once", 1)]  # a block alone would be the root
        if len(ranges) == 1:
            self.lines.append(f"for {ranges[0][0]} in range({self.extent(ranges[0][1])}):")
        else:
            heads = ", ".join(r[0] for r in ranges)
            grid = ", ".join(self.extent(r[1]) for r in ranges)
            self.lines.append(f"for {heads} in T.grid({grid}):")
        self.lines.append(f'{pad}with T.block("{name}"):')
        pad += "    "
        for var, value, (kind, dim) in zip(names, values, axes, strict=True):
            self.lines.append(f"{pad}{var} = T.axis.{kind}({self.extent(dim)}, {value})")
        if where:
            self.lines.append(f"{pad}T.where({where})")
        if init is not None:
            self.lines.append(f"{pad}with T.init():")
            self.lines += [f"{pad}    {line}" for line in init(names)]
        self.lines += [f"{pad}{line}" for line in body(names)]

    def spatial(self, out: Buf, value: Callable[[list[str]], str]) -> None:
        """A block that computes each element of `out` by itself."""
        axes: list[tuple[str, Dim]] = [("spatial", d) for d in out.shape]
        self.block(out.name, axes, lambda v: [f"{out.at(*v)} = {value(v)}"])

    def clamp(self, expr: str, dtype: str, most: int) -> tuple[str, int]:
        """The expression, within what the type holds exactly."""
        if most <= LIMITS[dtype]:
            return expr, most
        c = self.rng.choice([3, 5, 9])
        return f"T.max(T.min({expr}, {lit(dtype, c)}), {lit(dtype, -c)})", c

    def finish(self, name: str = "main") -> Program:
        """The text, parsed."""
        outs = [b for b in self.made if b.name not in self.used]
        allocs = [b for b in self.made if b.name in self.used]
        params = [b for b, _ in self.inputs.values()] + outs
        symbolic = any("n" in b.shape for b in params + allocs)
        head, body = [], []
        for b in params:
            if symbolic and "n" in b.shape:
                head.append(f"h{b.name}: T.handle")
                made = f'{b.name} = T.match_buffer(h{b.name}, {self.shape(b.shape)}, "{b.dtype}")'
                body.append(made)
            else:
                head.append(f'{b.name}: T.Buffer({self.shape(b.shape)}, "{b.dtype}")')
        if symbolic:
            body.insert(0, "n = T.int64()" if self.wide else "n = T.int32()")
        for b in allocs:
            body.append(f'{b.name} = T.alloc_buffer({self.shape(b.shape)}, "{b.dtype}")')
        body += self.lines
        text = "\n".join(
            ["@T.prim_func", f"def {name}({', '.join(head)}):", *(f"    {x}" for x in body)]
        )
        ranges = {b.name: span for b, span in self.inputs.values()}
        sizes = tuple({"n": k} for k in SYMBOL_SIZES) if symbolic else ({},)
        func = from_source(text)
        return Program(func, text, tuple(self.families), ranges, sizes)


EXTENTS = [1, 2, 3, 4, 5, 6, 7, 8, 8, 12, 16]
DTYPES = ["float32", "float32", "float32", "int32", "int64", "float16"]


def lit(dtype: str, value: int) -> str:
    """A number of a type."""
    return f"T.{dtype}({value})"


def size(shape: tuple[Dim, ...]) -> int:
    """At most so many elements."""
    return prod(d if isinstance(d, int) else MOST_SYMBOL for d in shape)


# ---------------------------------------------------------------------- families


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
    """The largest element of windows."""
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


FAMILIES: dict[Callable[[Writer], None], int] = {
    elementwise: 5,
    cast: 1,
    predicate: 1,
    transpose: 2,
    reshape: 1,
    matmul: 4,
    pad: 2,
    conv2d: 2,
    pool: 1,
    reduction: 3,
    argmax: 1,
    scan: 2,
    gather: 2,
    strided: 1,
    concat: 1,
    update: 1,
}


def random_program(rng: random.Random, steps: int | None = None) -> Program:
    """A program of 1 to 5 steps, each reading mostly what the one before made."""
    w = Writer(rng, symbolic=rng.random() < 0.15, wide=rng.random() < 0.2)
    families, weights = list(FAMILIES), list(FAMILIES.values())
    for _ in range(steps or rng.choice([1, 2, 2, 3, 3, 4, 5])):
        rng.choices(families, weights)[0](w)
    return w.finish()
