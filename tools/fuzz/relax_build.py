"""A random graph of our own operators, grown call by call and computed as it grows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from loopwright.ir.module import IRModule
from loopwright.ops.core import OPERATORS
from loopwright.ops.extents import open_pairs
from loopwright.relax.expr import Call, Constant, PrimValue, ShapeExpr, Tuple
from loopwright.relax.interpreter import Interpreter, evaluate_scalar
from loopwright.relax.struct_info import TensorStructInfo, TupleStructInfo

from .build import Builder, Dim, NotHere, Refused, Value, is_exact
from .relax_module import Writer

# Operators that say themselves how a valid call is drawn; calls of the others are derived, see `relax_calls`.
MAKERS: dict[str, Callable[[RelaxBuilder], object]] = {}
FINAL = {"relax.nn.dropout", "relax.dynamic_strided_slice"}  # nothing is computed from these


class RelaxBuilder(Builder):
    """Builds a case of our operators."""

    def __init__(self, seed: int) -> None:
        super().__init__("relax", seed)
        self.writer = Writer(self.case)
        self.meaning = Interpreter(IRModule())

    def text(self, dim: Dim) -> Any:
        """A dimension that has no name of its own cannot be asked for."""
        names = self.case.sizes[0]
        if len(set(dim)) > 1 and dim not in [tuple(s[n] for s in self.case.sizes) for n in names]:
            raise NotHere
        return super().text(dim)

    def call(self, op: str, *args: Any, **attrs: Any) -> None:
        """Add a node; arguments are Values, names, lists of them, None, or {"dims": ...}. Its results have
        the dtypes and shapes that are inferred, and the numbers of numpy's meaning."""
        name = f"relax.{op}"
        used = [
            v for a in args for v in (a if isinstance(a, list) else [a]) if isinstance(v, Value)
        ]
        named = lambda a: getattr(a, "name", a)  # noqa: E731
        names = [[*map(named, a)] if isinstance(a, list) else named(a) for a in args]
        self.case.nodes.append([name, names, [], attrs])
        self.writer.symbols.update(
            {n: v for n, v in Writer(self.case).symbols.items() if n not in self.writer.symbols}
        )
        try:
            call = self.writer.call(name, names, attrs)
            with open_pairs() as pairs:
                var = self.writer.emit(call)
            runs = [self.computed(call, run) for run in range(len(self.case.sizes))]
        except Exception as error:
            self.case.nodes[-1][2] = [self.name("v")]
            raise Refused from error
        info = var.struct_info
        infos = info.fields if isinstance(info, TupleStructInfo) else [info]
        self.case.nodes[-1][2] = results = [self.name("v") for _ in infos]
        self.writer.bind(var, results)
        exact = all(v.exact for v in used) and self.exact(call)
        for result, one, arrays in zip(results, infos, zip(*runs, strict=True), strict=True):
            if any(a.size > 4000 for a in arrays):
                raise NotHere
            self.arrays[result] = list(arrays)
            shape = self.shape(one)
            known = (
                [] if shape is None else zip(*shape, strict=True) if shape else [()] * len(arrays)
            )
            if any(a.shape != dims for a, dims in zip(arrays, known)) or not self.equal(pairs):
                raise Refused  # in a run, where its extents do not go together
            if shape is not None and name not in FINAL:
                self.values.append(self.value(result, str(one.dtype), shape, exact))

    def computed(self, call: Call, run: int) -> list[np.ndarray]:
        """numpy's results of a call in one run."""
        return _leaves(self.meaning.operator(call, [self.number(a, run) for a in call.args]))

    def exact(self, call: Call) -> bool:
        """Whether everyone computes the same bits of a call's floats."""
        args = [self.number(a, 0) for a in call.args]
        return is_exact(lambda values: _leaves(self.meaning.operator(call, values)), args)

    def number(self, arg: Any, run: int) -> Any:
        """An argument of a call in one run."""
        if isinstance(arg, Tuple):
            return tuple(self.number(a, run) for a in arg.fields)
        if isinstance(arg, ShapeExpr):
            return tuple(evaluate_scalar(d, self.symbols(run)) for d in arg)
        if isinstance(arg, PrimValue):
            return evaluate_scalar(arg.value, self.symbols(run))
        if isinstance(arg, Constant):
            return arg.data.numpy()
        return self.numbers(next(n for n, v in self.writer.values.items() if v is arg), run)

    def shape(self, info: TensorStructInfo) -> tuple[Dim, ...] | None:
        """A result's dimensions in each run; None where they are not known."""
        dims = info.get_shape()
        runs = [self.symbols(run) for run in range(len(self.case.sizes))]
        try:
            return (
                None
                if dims is None
                else tuple(tuple(int(evaluate_scalar(d, run)) for run in runs) for d in dims)
            )
        except KeyError:
            return None

    def equal(self, pairs: list[Any]) -> bool:
        """Whether the extents of each pair are equal in each run."""
        runs = [self.symbols(run) for run in range(len(self.case.sizes))]
        return all(evaluate_scalar(a, r) == evaluate_scalar(b, r) for a, b in pairs for r in runs)

    def symbols(self, run: int) -> dict[Any, int]:
        return {self.writer.symbols[n]: v for n, v in self.case.sizes[run].items()}


def _leaves(value: Any) -> list[np.ndarray]:
    """The arrays of a result."""
    return (
        [a for v in value for a in _leaves(v)] if isinstance(value, tuple) else [np.asarray(value)]
    )


def maker(*names: str) -> Callable[[Any], Any]:
    """Register a function that adds a call of one of these operators."""

    def register(fn: Any) -> Any:
        for name in names:
            assert f"relax.{name}" in OPERATORS, name
            MAKERS[name] = lambda g, name=name: fn(g, name)
        return fn

    return register
