"""Random graphs of integers near the ends of their types, whose values are used again and again.

What a sum means where it wraps around shows only where the same value is on both sides of a comparison,
or a product is divided again: graphs of all operators seldom have that.
"""

from __future__ import annotations

import random

from .case import Case

INPUTS = ["int32", "int32", "int64", "int64", "uint8", "int8", "int16", "uint32"]
SIGNED = ("int8", "int16", "int32", "int64")
BINARY = ["add", "subtract", "multiply"] * 2 + ["maximum", "minimum", "bitwise_and", "bitwise_xor"]
DIVISIONS = ("floor_divide", "floor_mod")
ORDERS = ("less", "less_equal", "greater", "greater_equal", "equal", "not_equal")
UNARY = ("negative", "abs", "sign", "square")
LITERALS = (1, 2, 3, 4, 5, 7, 8, 100)


class _Graph:
    """A case that grows; values by their types."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.shape = [self.rng.choice([1, 7, 16, 19])]
        self.case = Case("relax", seed)
        self.values: dict[str, list[str]] = {"bool": []}
        for k, dtype in enumerate(INPUTS):
            name = f"x{k}"
            spec = {"dtype": dtype, "shape": self.shape, "draw": "special"}
            self.case.inputs[name] = spec
            self.values.setdefault(dtype, []).append(name)

    def pick(self, dtype: str) -> str:
        """A value of a type: mostly one of the last."""
        known = self.values[dtype]
        return self.rng.choice(known[-3:] if self.rng.random() < 0.7 else known)

    def literal(self, dtype: str) -> str:
        """A number as a stored scalar."""
        name = f"w{len(self.case.weights)}"
        value = self.rng.choice(LITERALS)
        self.case.weights[name] = {"dtype": dtype, "shape": [], "values": value, "draw": "quarters"}
        return name

    def either(self, dtype: str) -> str:
        return self.pick(dtype) if self.rng.random() < 0.6 else self.literal(dtype)

    def add(self, op: str, inputs: list[str], dtype: str, /, **attrs: object) -> None:
        """A call, whose result is a value."""
        name = f"v{len(self.case.nodes)}"
        self.case.nodes.append([f"relax.{op}", inputs, [name], attrs])
        self.values[dtype].append(name)
        self.case.outputs = [*self.case.outputs[-2:], name]

    def grow(self) -> None:
        """One more call."""
        rng, dtype = self.rng, self.rng.choice(INPUTS)
        kind = rng.choice(["binary"] * 3 + ["division", "order", "where", "unary", "cast", "clip"])
        if kind == "binary":
            self.add(rng.choice(BINARY), [self.pick(dtype), self.either(dtype)], dtype)
        elif kind == "division":
            self.add(rng.choice(DIVISIONS), [self.pick(dtype), self.literal(dtype)], dtype)
        elif kind == "order":
            self.add(rng.choice(ORDERS), [self.pick(dtype), self.either(dtype)], "bool")
        elif kind == "where" and self.values["bool"]:
            self.add("where", [self.pick("bool"), self.pick(dtype), self.pick(dtype)], dtype)
        elif kind == "unary" and dtype in SIGNED:
            self.add(rng.choice(UNARY), [self.pick(dtype)], dtype)
        elif kind == "cast":
            to = rng.choice([t for t in dict.fromkeys(INPUTS) if t != dtype])
            self.add("astype", [self.pick(dtype)], to, dtype=to)
        elif kind == "clip":
            self.add("clip", [self.pick(dtype)], dtype, min=0, max=rng.choice([5, 100]))


def make(seed: int) -> Case:
    """The case of a seed."""
    graph = _Graph(seed)
    wanted = graph.rng.randrange(2, 9)
    while len(graph.case.nodes) < wanted:
        graph.grow()
    return graph.case.only(graph.case.outputs)
