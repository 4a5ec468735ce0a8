"""Random ONNX graphs whose shapes are computed by nodes, as exporters write them: Shape, arithmetic, Reshape.

Sizes are symbolic; what a node of integers is in each run is known while the graph is made, so that every
shape, start or count made from it is valid.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .build import NotHere, Value, finish
from .case import Case
from .onnx_build import OnnxBuilder
from .onnx_graphs import MAKERS

OPSETS = [13, 15, 17, 18, 20, 21]
DATA = ["float32", "float32", "int32"]
STEPS = ["Transpose", "Concat", "Relu", "MatMul", "ReduceSum", "Add", "Softmax", "Squeeze"]
FACTORS = (0.5, 0.25, 1.5, 2.0, 0.75)
MOST_NUMBERS = 6


@dataclass(frozen=True)
class Ints:
    """A node's result of type int64, a number or a vector: what it is in each run."""

    name: str
    runs: tuple[np.ndarray, ...]

    @property
    def rank(self) -> int:
        return self.runs[0].ndim

    def all(self, low: int, high: int = 2**40) -> bool:
        """Whether all numbers of all runs lie in a range."""
        return all(((low <= r) & (r <= high)).all() for r in self.runs)


def _truncated(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.sign(a) * np.sign(b) * (abs(a) // abs(b))


BINARY: dict[str, Callable[..., Any]] = {
    "Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Div": _truncated, "Mod": np.mod,
    "Min": np.minimum, "Max": np.maximum,
}  # fmt: skip
ORDERS = {"Greater": np.greater, "Less": np.less, "Equal": np.equal}
UNARY = {"Neg": np.negative, "Abs": np.abs}
WHOLE = {"Floor": np.floor, "Ceil": np.ceil, "Round": np.round}
FOLDS = {"ReduceProd": np.prod, "ReduceSum": np.sum, "ReduceMax": np.max, "ReduceMin": np.min}


class _Graph:
    """A case that grows, and its integers."""

    def __init__(self, seed: int) -> None:
        attempt = 0
        while not (g := OnnxBuilder(seed * 100 + attempt)).symbolic:
            attempt += 1
        g.case.seed, g.case.opset, g.fed, g.special = seed, g.rng.choice(OPSETS), False, False
        self.g, self.rng, self.ints = g, g.rng, list[Ints]()

    # ------------------------------------------------------------------ integers

    def node(self, op: str, inputs: Sequence[Any], fn: Callable[..., Any], **attrs: Any) -> Ints:
        """A node of integers: `fn` of the inputs that are such, in each run."""
        read = [i.runs for i in inputs if isinstance(i, Ints)]
        each_run = range(len(self.g.case.sizes))
        runs = tuple(np.asarray(fn(*(r[k] for r in read))) for k in each_run)
        small = all(r.size <= MOST_NUMBERS and (abs(r) < 2**31).all() for r in runs)
        if not small or len({r.shape for r in runs}) > 1:
            raise NotHere
        name = self.g.name("i")
        names = [i if isinstance(i, str) else i.name for i in inputs]
        self.g.case.nodes.append([op, names, [name], attrs])
        made = Ints(name, runs)
        self.ints.append(made)
        return made

    def constant(self, values: int | list[int]) -> Ints:
        """Stored numbers."""
        array = np.array(values)
        name = self.g.weight("int64", values, array.shape)
        return Ints(name, (array,) * len(self.g.case.sizes))

    def shape(self, v: Value) -> Ints:
        """The shape of a value."""
        runs = zip(*v.shape) if v.rank else [()] * len(self.g.case.sizes)
        arrays = iter([np.array(r, int) for r in runs])
        known = Ints(v.name, tuple(np.zeros(()) for _ in self.g.case.sizes))
        return self.node("Shape", [known], lambda _: next(arrays))

    def number(self, v: Value | None = None, axis: int = 0) -> Ints:
        """A number: an extent of a value, or one that is known."""
        known = [i for i in self.ints if i.rank == 0]
        if v is None and known and self.rng.random() < 0.8:
            return self.rng.choice(known[-6:])
        if v is None:
            v = self.g.pick(DATA, (1, 4))
            axis = self.rng.randrange(v.rank)
        at = self.constant(axis - v.rank if self.rng.random() < 0.3 else axis)
        return self.node("Gather", [self.shape(v), at.name], lambda s: s[axis], axis=0)

    def vector(self, i: Ints) -> Ints:
        """A number as a vector of one."""
        if self.rng.random() < 0.5:
            return self.node("Unsqueeze", [i, self.g.ints([0])], lambda x: x.reshape(1))
        return self.node("Reshape", [i, self.g.ints([-1])], lambda x: x.reshape(1))

    def together(self, parts: Sequence[Ints]) -> Ints:
        """Numbers as a vector."""
        flat = [p if p.rank else self.vector(p) for p in parts]
        return self.node("Concat", flat, lambda *p: np.concatenate(p), axis=0)

    def grow_ints(self) -> None:
        """One more number, computed from others."""
        rng, a = self.rng, self.number()
        b = self.number() if rng.random() < 0.5 else self.constant(rng.choice([1, 2, 3, 4, 7, -1]))
        kind = rng.choice(["binary"] * 4 + ["unary", "float", "where", "fold", "narrow", "part"])
        if kind == "binary":
            op = rng.choice(list(BINARY))
            if op in ("Div", "Mod") and any((r == 0).any() for r in b.runs):
                raise NotHere
            pair = [b, a] if rng.random() < 0.2 and op in ("Add", "Sub", "Mul") else [a, b]
            self.node(op, pair, BINARY[op])
        elif kind == "unary":
            op = rng.choice(list(UNARY))
            self.node(op, [a], UNARY[op])
        elif kind == "float":
            self.rounded(a)
        elif kind == "where":
            op = rng.choice(list(ORDERS))
            c = self.node(op, [a, b], ORDERS[op])
            self.ints.remove(c)
            self.node("Where", [c, self.number(), self.number()], np.where)
        elif kind == "narrow":
            c = self.node("Cast", [a], lambda x: x, to={"type": "int32"})
            self.ints.remove(c)
            self.node("Cast", [c], lambda x: x, to={"type": "int64"})
        else:
            v = self.g.pick(DATA, (1, 4))
            some = rng.choice(
                [i for i in self.ints if i.rank and i.runs[0].size] or [self.shape(v)]
            )
            n = some.runs[0].size
            if kind == "fold":
                op = rng.choice(list(FOLDS))
                self.node(op, [some], FOLDS[op], keepdims=0)
            else:
                start, end = sorted(rng.choices(range(n + 1), k=2))
                ends = [self.g.ints([start]), self.g.ints([end])]
                self.node("Slice", [some, *ends], lambda s: s[start:end])

    def rounded(self, a: Ints) -> Ints:
        """A number times a factor, as float32, and back."""
        op, factor = self.rng.choice(list(WHOLE)), self.rng.choice(FACTORS)
        long = self.node("Cast", [a], lambda x: x.astype("float32"), to={"type": "float32"})
        scale = self.g.weight("float32", factor, [])
        times = self.node("Mul", [long, scale], lambda x: x * np.float32(factor))
        whole = self.node(op, [times], WHOLE[op])
        for i in (long, times, whole):
            self.ints.remove(i)
        return self.node("Cast", [whole], lambda x: x.astype("int64"), to={"type": "int64"})

    # ------------------------------------------------------------------ data

    def dim(self, i: Ints) -> tuple[int, ...]:
        """A number as a dimension."""
        return tuple(int(r) for r in i.runs)

    def reshape(self) -> None:
        """Neighbouring axes become one, or one becomes two; one of them may be -1."""
        v, rng = self.g.pick(DATA, (1, 4)), self.rng
        s, parts, k = self.shape(v), list[Ints](), 0
        while k < v.rank:
            end = rng.choice([k + 1, k + 1, k + 2])
            group = v.shape[k:end]
            factor = rng.choice([2, 3, 4, 8])
            if len(group) == 1 and rng.random() < 0.4 and all(d % factor == 0 for d in group[0]):
                f, whole = self.constant(factor), self.number(v, k)
                pair = [self.node("Div", [whole, f], _truncated), f]
                parts += pair if rng.random() < 0.5 else pair[::-1]
            elif len(group) == 1 or rng.random() < 0.5:
                one = self.number(v, k)
                for j in range(k + 1, k + len(group)):
                    one = self.node("Mul", [one, self.number(v, j)], np.multiply)
                parts.append(one)
            else:
                cut = [self.g.ints([k]), self.g.ints([min(end, v.rank)])]
                some = self.node("Slice", [s, *cut], lambda x, k=k, end=end: x[k:end])
                parts.append(self.node("ReduceProd", [some], np.prod, keepdims=0))
            k = end
        shape = [self.dim(p) for p in parts]
        if any(min(d) < 1 for d in shape):  # 0 copies what stands there
            raise NotHere
        if rng.random() < 0.5:
            parts[rng.randrange(len(parts))] = self.constant(-1)
        self.g.add("Reshape", [v, self.together(parts).name])

    def expand(self) -> None:
        """Axes of 1, and new ones before, become as many as numbers say."""
        v = self.g.pick(DATA, (1, 3))
        more = [self.number() for _ in range(self.rng.randint(0, 2))]
        parts = [self.number(v, k) for k in range(v.rank)]
        for k, d in enumerate(v.shape):
            if d == self.g.const(1) and self.rng.random() < 0.7:
                parts[k] = self.number()
            elif self.rng.random() < 0.3:
                parts[k] = self.constant(1)
        parts = more + parts
        if not all(p.all(0, 64) for p in parts):
            raise NotHere
        shape = self.g.broadcast(v.shape, tuple(self.dim(p) for p in parts))
        if shape is None:
            raise NotHere
        self.g.add("Expand", [v, self.together(parts).name])

    def expand_to(self) -> None:
        """The same as PyTorch's exporter writes it: -1 keeps an axis."""
        v = self.g.pick(DATA, (1, 3))
        parts = [self.constant(-1) if d != self.g.const(1) else self.number() for d in v.shape]
        parts.insert(0, self.number())
        if not all(p.all(-1, 64) for p in parts) or not parts[0].all(0):
            raise NotHere
        given = self.together(parts)
        one = {"tensor": ["int64", [1]]}
        ones = self.node(
            "ConstantOfShape",
            [self.node("Shape", [given], np.shape)],
            lambda s: np.ones(s, int),
            value=one,
        )
        kept = self.node("Mul", [ones, self.constant(-1)], np.multiply)
        same = self.node("Equal", [given, kept], np.equal)
        shape = self.node("Where", [same, ones, given], np.where)
        self.ints.remove(same)
        dims = self.g.broadcast(v.shape, tuple(zip(*(r.tolist() for r in shape.runs), strict=True)))
        if dims is None:
            raise NotHere
        self.g.add("Expand", [v, shape.name])

    def mask(self) -> None:
        """What lies below a diagonal."""
        v = self.g.pick(["float32"], (2, 3), finite=True)
        rows, columns = (self.number(v, v.rank - k) for k in (2, 1))
        ends = [self.g.weight("int64", x, []) for x in (0, 1)]
        places = []
        for n, axis in ((rows, 1), (columns, 0)):
            (made,) = self.g.add("Range", [ends[0], n.name, ends[1]], final=True)
            places += self.g.add("Unsqueeze", [made, self.g.ints([axis])], final=True)
        if self.rng.random() < 0.5:
            more = self.node("Sub", [columns, rows], np.subtract)
            places[0] = self.g.add("Add", [places[0], more.name], final=True)[0]
        order = self.rng.choice(["Greater", "Less"])
        (below,) = self.g.add(order, places, final=True)
        low = self.g.weight("float32", -4, [])
        self.g.add("Where", [below, v, low])

    def slice(self) -> None:
        """From one number to another, by a stored step."""
        v = self.g.pick(DATA, (1, 4))
        k, step = self.rng.randrange(v.rank), self.rng.choice([1, 1, 2, -1, 3])
        start, end = (self.number() if self.rng.random() < 0.6 else self.constant(0) for _ in "ab")
        lists = [
            self.vector(start).name,
            self.vector(end).name,
            self.g.ints([k]),
            self.g.ints([step]),
        ]
        self.g.add("Slice", [v, *lists])

    def tile(self) -> None:
        v = self.g.pick(DATA, (1, 3))
        parts = [self.number() if self.rng.random() < 0.5 else self.constant(1) for _ in v.shape]
        if not all(p.all(0, 16) for p in parts):
            raise NotHere
        self.g.add("Tile", [v, self.together(parts).name])

    def pad(self) -> None:
        v = self.g.pick(DATA, (1, 3))
        parts = [
            self.number() if self.rng.random() < 0.4 else self.constant(0) for _ in (*v.shape,) * 2
        ]
        if not all(p.all(-3, 16) for p in parts):
            raise NotHere
        dims = map(self.dim, parts)
        ends = [*dims]
        if any(
            -min(a, b) > n
            for k, d in enumerate(v.shape)
            for n, a, b in zip(d, ends[k], ends[k + v.rank])
        ):
            raise NotHere
        self.g.add("Pad", [v, self.together(parts).name], mode="constant")

    def created(self) -> None:
        """Numbers as positions, or a tensor of one value."""
        some = [self.number() for _ in range(self.rng.randint(1, 3))]
        if not all(p.all(0, 64) for p in some):
            raise NotHere
        if len(some) > 1 or self.rng.random() < 0.5:
            value = {"tensor": ["float32", [self.rng.choice([0, 1])]]}
            self.g.add("ConstantOfShape", [self.together(some).name], value=value)
            return
        ends = [self.g.weight("int64", x, []) for x in (0, 1)]
        made = self.g.add("Range", [ends[0], some[0].name, ends[1]])
        self.g.add("Cast", made, to={"type": "float32"})

    def gather(self) -> None:
        """The row at a number modulo the extent."""
        v = self.g.pick(DATA, (1, 4), least=1)
        k = self.rng.randrange(v.rank)
        at = self.node("Mod", [self.number(), self.number(v, k)], np.mod)
        keep = self.rng.random() < 0.5
        index = self.vector(at).name if keep else at.name
        self.g.add("Gather", [v, index], axis=k)

    def top(self) -> None:
        v = self.g.pick(["float32"], (1, 3), exact=True, least=1)
        k = self.rng.randrange(v.rank)
        most = self.constant(self.rng.choice([1, 2, 5]))
        n = self.node("Min", [self.number(v, k), most], np.minimum)
        self.g.add("TopK", [v, self.vector(n).name], outs=2, axis=k)

    def resize(self) -> None:
        """An image enlarged to computed sizes."""
        v = self.g.pick(["float32"], (4, 4), least=1)
        s = self.shape(v)
        first = self.node("Slice", [s, self.g.ints([0]), self.g.ints([2])], lambda x: x[:2])
        last = []
        for k in (2, 3):
            n = self.number(v, k)
            last.append(self.rounded(n) if self.rng.random() < 0.5 else self.number())
        if not all(p.all(1, 64) for p in last):
            raise NotHere
        mode = self.rng.choice(["nearest", "linear"])
        how = self.rng.choice(["half_pixel", "asymmetric", "align_corners"])
        attrs = {"nearest_mode": "floor"} if mode == "nearest" else {}
        self.g.add("Resize", [v, "", "", self.together([first, *last]).name], mode=mode, coordinate_transformation_mode=how, **attrs)  # fmt: skip

    def scaled(self) -> None:
        """Values divided by a number."""
        v, n = self.g.pick(["float32"], (1, 4)), self.number()
        if not n.all(1):
            raise NotHere
        made = self.g.add("Cast", [n.name], final=True, to={"type": "float32"})
        if self.rng.random() < 0.5:
            made = self.g.add("Sqrt", made, final=True)
        self.g.add("Div", [v, *made])

    def split(self) -> None:
        """A part of so many rows, and the rest."""
        v = self.g.pick(DATA, (1, 3), least=1)
        k = self.rng.randrange(v.rank)
        whole = self.number(v, k)
        n = self.node("Div", [whole, self.constant(2)], _truncated)
        rest = self.node("Sub", [whole, n], np.subtract)
        both = self.together([n, rest]).name
        self.g.add("Split", [v, both], outs=2, axis=k)

    def step(self) -> None:
        MAKERS[self.rng.choice(STEPS)](self.g)


USES = [
    *[_Graph.reshape] * 3, _Graph.expand, _Graph.expand_to, *[_Graph.slice] * 2, _Graph.tile, _Graph.pad,
    _Graph.mask,
    _Graph.created, _Graph.gather, _Graph.top, _Graph.resize, _Graph.scaled, _Graph.split,
]  # fmt: skip
KINDS = [*[_Graph.grow_ints] * 8, *[_Graph.step] * 6, *USES]


def make(seed: int) -> Case:
    """The case of a seed."""
    graph = _Graph(seed)
    g, wanted, used = graph.g, graph.rng.randrange(2, 6), 0
    while used < wanted:
        kind = graph.rng.choice(KINDS)
        before = len(g.case.nodes), len(g.values), len(graph.ints)
        try:
            kind(graph)
            used += kind in USES
        except NotHere:
            del g.case.nodes[before[0] :], g.values[before[1] :], graph.ints[before[2] :]
    return finish(g)
