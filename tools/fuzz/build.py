"""The hand that grows a random graph: picks values of the right type and rank, adds nodes."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .case import Case, reads

Dim = tuple[int, ...]  # what it is in each run
Shape = tuple[Dim, ...]
FLOATS = ["float32"] * 6 + ["float64", "float16"]
INTS = ["int32", "int64"]
SMALL = ["int8", "uint8", "int16", "uint16", "uint32", "uint64"]
NUMBERS = [*FLOATS, *INTS]
EXTENTS = [1, 2, 3, 4, 5, 7, 8, 11, 13, 16, 17, 31, 32, 33]
MOST = 6000  # elements of a tensor
SMALLISH = 64  # the most that a number of a "finite" value is: it fits into every type


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


class Refused(Exception):
    """The last node's arguments are valid, and inference or the meaning refuses them."""


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
        self.arrays: dict[str, list[np.ndarray]] = {}  # of results, in each run

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

    def numbers(self, name: str, run: int) -> np.ndarray:
        """What a value of the graph is in a run."""
        if name in self.arrays:
            return self.arrays[name][run]
        stored = name in self.case.weights
        spec = (self.case.weights if stored else self.case.inputs)[name]
        return self.case.array(name, spec, 0 if stored else run)

    def value(self, name: str, dtype: str, shape: Sequence[Dim], exact: bool) -> Value:
        """A result whose numbers are in `arrays`."""
        whole = dtype[0] in "iub"
        finite = whole or all(
            np.isfinite(a).all() and np.abs(a).max(initial=0) <= SMALLISH for a in self.arrays[name]
        )
        return Value(name, dtype, tuple(shape), whole or exact, finite)


UNIFORM: dict[str, Any] = {"draw": "uniform"}  # no ties, no halves


def since(g: Builder, opset: int) -> None:
    """This operator is of a later opset."""
    if g.case.opset < opset:
        raise NotHere


def some(g: Builder, rank: int, *lead: Dim) -> Value:
    """Data without special numbers: `lead`, then axes that are not empty."""
    return g.new("float32", [*lead, *(g.dim(least=1) for _ in range(rank))], **UNIFORM)


def few(g: Builder, most: int = 4) -> Dim:
    """A dimension that is the same in each run."""
    return g.const(g.rng.randint(1, most))


def is_exact(compute: Callable[[list[Any]], list[np.ndarray]], args: list[Any]) -> bool:
    """Whether floats are moved or chosen, not rounded: then float32 and float64 lead to the same numbers.
    What is computed from no tensor of floats is exact where it has few bits."""
    made = []
    for kind in ("float32", "float64"):
        rng = np.random.default_rng(0)
        try:
            with np.errstate(all="ignore"):
                made.append(compute(_generic(args, kind, rng)))
        except Exception:  # only of that type
            return False
    pairs = [p for p in zip(*made, strict=True) if p[0].dtype.kind not in "biuO"]
    if not any(a is not b for a, b in zip(args, _generic(args, "float32", rng), strict=True)):
        pairs = [(a, np.round(np.asarray(a, "float64") * 4) / 4) for a, _ in pairs]
    return all(np.array_equal(*(a.astype("float64") for a in p), equal_nan=True) for p in pairs)


def _generic(value: Any, kind: str, rng: np.random.Generator) -> Any:
    """A value whose floats have all bits of a float32."""
    if isinstance(value, (list, tuple)):
        made = type(value)(_generic(v, kind, rng) for v in value)
        return made if any(a is not b for a, b in zip(made, value, strict=True)) else value
    if not isinstance(value, np.ndarray) or value.dtype.kind in "biuO":
        return value
    factors = rng.uniform(1, 1.5, value.shape)
    return (value.astype("float64") * factors).astype("float32").astype(kind)


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
