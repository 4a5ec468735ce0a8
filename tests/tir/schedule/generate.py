"""How random programs are written; what they compute is in `families`.

All values are small whole numbers, also those of floats, so that results are the same in whatever
order they are added: what a schedule computes is compared exactly.
"""

from __future__ import annotations

import random
import re
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
        return f"{self.name}[{', '.join(indices) or '()'}]"


@dataclass(frozen=True, eq=False)
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

    def nest(self, lines: list[str]) -> None:
        """A nest as it is written; `{n}` stands for a number of the indices' type."""
        wide = lambda m: self.extent(int(m[1]))  # noqa: E731
        self.lines += [re.sub(r"\{(\d+)\}", wide, line) for line in lines]

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
