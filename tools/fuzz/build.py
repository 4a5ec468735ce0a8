"""The hand that grows a random graph: picks values of the right type and rank, adds nodes."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from .case import Case, reads

Dim = tuple[int, ...]  # what it is in each run
Shape = tuple[Dim, ...]
FLOATS = ["float32"] * 6 + ["float64", "float16"]
INTS = ["int32", "int64"]
SMALL = ["int8", "uint8", "int16", "uint16", "uint32", "uint64"]
NUMBERS = [*FLOATS, *INTS]
EXTENTS = [1, 2, 3, 4, 5, 7, 8, 11, 13, 16, 17, 31, 32, 33]
MOST = 6000  # elements of a tensor


@dataclass(frozen=True)
class Value:
    """A tensor of the graph. exact: everyone computes the same bits; finite: no NaN, no infinity
    and nothing near the end of the range."""

    name: str
    dtype: str
    shape: Shape
    exact: bool = True
    finite: bool = True

    @property
    def rank(self) -> int:
        return len(self.shape)


class NotHere(Exception):
    """This operator cannot be added to this graph; another one may."""


class Builder:
    """A case that grows. Dimensions are tuples: what each is in every run."""

    def __init__(self, kind: str, seed: int) -> None:
        self.rng = rng = random.Random(seed)
        self.case = Case(kind, seed)
        self.symbolic = rng.random() < 0.5
        runs = 3 if self.symbolic else 1
        self.case.sizes = [{} for _ in range(runs)]
        self.special = rng.random() < 0.12
        self.fed = kind == "onnx" and rng.random() < 0.2
        self.draw = rng.choice(["quarters", "quarters", "uniform"])
        zero = rng.random() < 0.06
        self.dims: list[Dim] = [(rng.choice(EXTENTS),) * runs for _ in range(3)]
        self.dims += [(0,) * runs] * zero
        for name in ("n", "m") if self.symbolic else ():
            pool = [*EXTENTS[:8], 0] if rng.random() < 0.1 else EXTENTS
            self.dims.append(self.size(name, tuple(rng.sample(pool, runs))))
        # Of its own: the graphs of other seeds stay as they are.
        self.met = random.Random(f"{seed}: names whose extents are equal, or one is 1")
        self.meets = self.symbolic and self.met.random() < 0.25
        if self.meets:
            beside = self.met.choice(self.dims[-2:])
            self.dims.append(self.size("k", tuple(self.met.choice([d, d, 1]) for d in beside)))
        self.values: list[Value] = []
        self.names = 0
        self.most = MOST

    # ------------------------------------------------------------------ names, dimensions

    def name(self, letter: str) -> str:
        """A new name."""
        self.names += 1
        return f"{letter}{self.names}"

    def const(self, number: int) -> Dim:
        """A dimension that is that number in each run."""
        return (number,) * len(self.case.sizes)

    def size(self, name: str, dim: Dim) -> Dim:
        """Give a symbolic dimension a name."""
        for sizes, number in zip(self.case.sizes, dim, strict=True):
            sizes[name] = number
        return dim

    def text(self, dim: Dim) -> Any:
        """A dimension as an input declares it: a number or a name."""
        if len(set(dim)) == 1:
            return dim[0]
        for name in self.case.sizes[0]:
            if tuple(s[name] for s in self.case.sizes) == dim:
                return name
        name = f"s{len(self.case.sizes[0])}"
        self.size(name, dim)
        return name

    def dim(self, static: bool = False, least: int = 0) -> Dim:
        """Some dimension of this graph."""
        for _ in range(9):
            dim = self.rng.choice(self.dims)
            if min(dim) >= least and (not static or len(set(dim)) == 1):
                return dim
        return self.const(self.rng.choice(EXTENTS[:8]))

    # ------------------------------------------------------------------ values

    def new(self, dtype: str, shape: Sequence[Dim], **spec: Any) -> Value:
        """A new input; now and then a weight where its shape is static."""
        shape = tuple(shape)
        if any(math.prod(d[r] for d in shape) > self.most for r in range(len(self.case.sizes))):
            raise NotHere
        static = all(len(set(d)) == 1 for d in shape)
        stored = static and self.rng.random() < 0.3
        name = self.name("w" if stored else "x")
        spec = {"dtype": dtype, "shape": [self.text(d) for d in shape], "draw": self.draw, **spec}
        special = self.special and "low" not in spec
        if special:
            spec["draw"] = "special"
        (self.case.weights if stored else self.case.inputs)[name] = spec
        value = Value(name, dtype, shape, True, not special)
        self.values.append(value)
        return value

    def weight(self, dtype: str, values: Any, shape: Sequence[int]) -> str:
        """A tensor of these numbers, its name: mostly stored; in some graphs one that only the run
        tells, so that it steers: axes, sizes, pads, scales."""
        fed = self.fed and self.rng.random() < 0.7
        name = self.name("x" if fed else "w")
        table = self.case.inputs if fed else self.case.weights
        table[name] = {"dtype": dtype, "shape": list(shape), "values": values}
        return name

    def ints(self, values: Sequence[int], dtype: str = "int64") -> str:
        """A stored vector of integers."""
        return self.weight(dtype, list(values), [len(values)])

    def pick(
        self,
        dtypes: Sequence[str] = FLOATS,
        ranks: tuple[int, int] = (0, 4),
        *,
        exact: bool = False,
        finite: bool = False,
        least: int = 0,
        static: bool = False,
        where: Any = None,
        **spec: Any,
    ) -> Value:
        """A value of one of these dtypes and a rank in this range; a new input where there is
        none. least: the smallest dimension; static: all of them known."""

        def good(v: Value) -> bool:
            return (
                v.dtype in dtypes
                and ranks[0] <= v.rank <= ranks[1]
                and (v.exact or not exact)
                and (v.finite or not finite)
                and all(min(d) >= least for d in v.shape)
                and (not static or all(len(set(d)) == 1 for d in v.shape))
                and (where is None or where(v))
                and "low" not in spec
            )

        known = [v for v in self.values if good(v)]
        if known and self.rng.random() < 0.85:
            return self.rng.choice(known[-4:])
        for _ in range(5):
            rank = self.rng.randint(*ranks)
            shape = [self.dim(static, least) for _ in range(rank)]
            made = self.new(self.rng.choice(dtypes), shape, **spec)
            if (made.finite or not finite) and (where is None or where(made)):
                return made
        raise NotHere

    def mate(self, v: Value, **spec: Any) -> Value:
        """A value of the same dtype that broadcasts with it."""
        known = [u for u in self.values if u.dtype == v.dtype and self.broadcast(u.shape, v.shape)]
        if known and self.rng.random() < 0.6 and "low" not in spec:
            return self.rng.choice(known)
        shape = [self.const(1) if self.rng.random() < 0.25 else d for d in v.shape]
        shape = [self.beside(d) for d in shape]
        return self.new(
            v.dtype, shape[self.rng.choice([0, 0, 0, len(shape) // 2, len(shape)]) :], **spec
        )

    def beside(self, dim: Dim) -> Dim:
        """A dimension that broadcasts with another in each run: mostly that one itself."""
        if not self.meets or dim == self.const(1):
            return dim
        return self.met.choice([dim, *(d for d in self.dims if _joined(dim, d))])

    def broadcast(self, *shapes: Shape) -> Shape | None:
        """The shape that these make together, or None."""
        rank, one = max(map(len, shapes)), self.const(1)
        made = []
        for dims in zip(*[(one,) * (rank - len(s)) + s for s in shapes], strict=True):
            made.append(_joined(*dims))
        return None if None in made else tuple(made)

    def axis(self, v: Value, negative: bool = True) -> int:
        """An axis of a value, counted from the front or the end."""
        if not v.rank:
            raise NotHere
        return self.rng.randrange(-v.rank if negative else 0, v.rank)

    # ------------------------------------------------------------------ nodes

    def add(
        self,
        op: str,
        inputs: Sequence[Any],
        *results: tuple[str, Sequence[Dim]],
        exact: bool = True,
        finite: bool = True,
        final: bool = False,
        **attrs: Any,
    ) -> list[Value]:
        """A node with results of these dtypes and shapes. A result is exact (finite) where all
        inputs are and `exact` (`finite`) says so; integers and booleans are always exact.
        final: nothing is computed from it."""
        used = [v for v in inputs if isinstance(v, Value)]
        runs = range(len(self.case.sizes))
        if any(math.prod(d[r] for d in s) > self.most for _, s in results for r in runs):
            raise NotHere
        names = [v.name if isinstance(v, Value) else v for v in inputs]
        made = [
            Value(
                self.name("v"),
                dtype,
                tuple(shape),
                dtype[0] in "iub" or (exact and all(v.exact for v in used)),
                dtype[0] in "iub" or (finite and all(v.finite for v in used)),
            )
            for dtype, shape in results
        ]
        self.case.nodes.append([op, names, [v.name for v in made], attrs])
        self.values.extend(made if not final else [])
        return made


def _joined(*dims: Dim) -> Dim | None:
    """What dimensions broadcast to in each run, or None."""
    runs = [{*numbers} - {1} or {1} for numbers in zip(*dims, strict=True)]
    return tuple(min(run) for run in runs) if max(map(len, runs)) == 1 else None


def finish(builder: Builder) -> Case:
    """Unused results are the outputs; inputs that nobody uses go."""
    case = builder.case
    used = {n for node in case.nodes for n in reads(node)}
    made = [out for node in case.nodes for out in node[2] if out]
    case.outputs = [n for n in made if n not in used]
    for table in (case.inputs, case.weights):
        for name in [n for n in table if n not in used]:
            del table[name]
    return case
