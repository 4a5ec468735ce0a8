"""The test matrix of the operators: from each sample, a graph with one call and its inputs."""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from loopwright import relax
from loopwright.ir.dtype import numpy_dtype
from loopwright.ir.module import IRModule
from loopwright.ir.prim_expr import PrimExpr
from loopwright.ir.prim_expr import Var as TirVar
from loopwright.ops.core import OPERATORS, Case, Operator
from loopwright.relax.interpreter import evaluate_scalar
from loopwright.relax.struct_info import TensorStructInfo, TupleStructInfo
from tools.fuzz.varied import SIZES

Change = Callable[[int, np.ndarray], np.ndarray]
CASES = [(op, case) for op in OPERATORS.values() for case in op.cases]
IDS = [
    f"{op.name.removeprefix('relax.')}-{n}"
    for op in OPERATORS.values()
    for n in range(len(op.cases))
]


@dataclass
class Sample:
    """One call of an operator in a function `main`, its inputs, and what its symbols are."""

    operator: Operator
    module: IRModule
    call: relax.Call
    inputs: list[Any] = field(default_factory=list)  # of main
    args: list[Any] = field(default_factory=list)  # of the numpy meaning
    symbols: dict[TirVar, int] = field(default_factory=dict)

    def expected(self) -> Any:
        """What numpy says."""
        attrs = {} if self.call.attrs is None else dict(self.call.attrs.items())
        return self.operator.op.get_attr("FNumpy")(*self.args, **attrs)

    def check_type(self, value: Any, info: Any = None) -> None:
        """The inferred struct info is that of the value that came out."""
        info = self.call.struct_info if info is None else info
        if isinstance(info, TupleStructInfo):
            assert len(value) == len(info.fields)
            for item, inner in zip(value, info.fields, strict=True):
                self.check_type(item, inner)
            return
        value = np.asarray(value)
        assert isinstance(info, TensorStructInfo)
        assert info.dtype.is_void or numpy_dtype(info.dtype) == value.dtype
        assert info.ndim in (-1, value.ndim)
        dims = info.get_shape()
        if dims is not None:
            assert tuple(evaluate_scalar(d, self.symbols) for d in dims) == value.shape


class _Maker:
    def __init__(self, operator: Operator, case: Case, change: Change, free: bool) -> None:
        self.case, self.change, self.free = case, change, free
        # `case(dtype=...)` is the operator's own attribute where it has one of that name.
        self.dtype_is_attribute = any(p.name == "dtype" for p in operator.attr_params)
        self.symbols: dict[str, TirVar] = {}
        self.params: list[relax.Var] = []
        self.inputs: list[Any] = []
        text = re.sub(" at 0x[0-9a-f]+", "", f"{operator.name} {case.args} {case.attrs}")
        seed = zlib.crc32(text.encode())
        self.rng = np.random.default_rng(seed)

    def dim(self, text: Any) -> PrimExpr | int:
        """3, "n", "n * 2" """
        if not isinstance(text, str):
            return text
        for name in SIZES:
            if name in text and name not in self.symbols:
                self.symbols[name] = TirVar(name, "int64")
        return eval(text, {}, dict(self.symbols))

    @staticmethod
    def size(text: Any) -> int:
        return eval(text, {}, dict(SIZES)) if isinstance(text, str) else text

    def tensor(self, given: Any) -> Any:
        if isinstance(given, np.generic):
            given = relax.const(np.asarray(given))
        if isinstance(given, relax.Constant):
            return given, given.data.numpy()
        if isinstance(given, np.ndarray):
            array, shape = given, given.shape
        else:
            shape = given
            array = self.draw(tuple(self.size(d) for d in shape))
        number = len(self.params)
        array = self.change(number, array)
        if array.shape != tuple(map(self.size, shape)):
            shape = array.shape
        dims = [self.dim(d) for d in shape]
        if self.free:
            dims = [TirVar(f"d{number + 1}_{a}", "int64") for a in range(array.ndim)]
        var = relax.Var(f"x{number}", TensorStructInfo(dims, str(array.dtype)))
        self.params.append(var)
        self.inputs.append(array)
        return var, array

    def draw(self, shape: tuple[int, ...]) -> np.ndarray:
        kind = numpy_dtype("float32" if self.dtype_is_attribute else self.case.dtype)
        if kind == np.bool_:
            return self.rng.integers(0, 2, shape).astype(kind)
        if np.issubdtype(kind, np.integer):
            return self.rng.integers(int(self.case.low), int(self.case.high), shape).astype(kind)
        return self.rng.uniform(self.case.low, self.case.high, shape).astype(kind)

    def argument(self, kind: str, given: Any) -> Any:
        """(expression for the builder, value for numpy)"""
        if kind == "Tensor":
            return self.tensor(given)
        if kind == "Tensors":
            pairs = [self.tensor(g) for g in given]
            return [p[0] for p in pairs], tuple(p[1] for p in pairs)
        if kind == "Shape":
            return [self.dim(d) for d in given], tuple(self.size(d) for d in given)
        if kind == "Prims":
            return [self.dim(d) for d in given], tuple(self.size(d) for d in given)
        return self.dim(given), self.size(given)


def make(
    operator: Operator, case: Case, change: Change = lambda _, x: x, free: bool = False
) -> Sample:
    """The graph and inputs of a sample. change: another array for the input of a number; free: every
    extent of every tensor is a symbol of its own."""
    maker = _Maker(operator, case, change, free)
    pairs = [maker.argument(p.kind, g) for p, g in zip(operator.graph_params, case.args)]
    names = [p.name for p in operator.graph_params]
    given = {n: pair[0] for n, pair in zip(names, pairs)}
    attrs = dict(case.attrs)
    if maker.dtype_is_attribute:
        attrs.setdefault("dtype", case.dtype)
    bb = relax.BlockBuilder()
    with bb.function("main", maker.params):
        with bb.dataflow():
            var = bb.emit(operator.builder(**given, **attrs))
            out = bb.emit_output(var)
        bb.emit_func_output(out)
    call = bb.lookup_binding(var)
    known = {var: SIZES[name] for name, var in maker.symbols.items()}
    args = [pair[1] for pair in pairs]
    for n, arg in enumerate(call.args[: len(args)]):
        if isinstance(arg, relax.PrimValue):  # a builder may have put them in another order
            args[n] = _literal(arg)
    # Defaults of graph arguments that a builder filled in stand in the call.
    for arg in call.args[len(args) :]:
        args.append(_literal(arg))
    return Sample(operator, bb.finalize(), call, maker.inputs, args, known)


def _literal(arg: Any) -> Any:
    if isinstance(arg, relax.Tuple):
        return tuple(_literal(f) for f in arg.fields)
    if isinstance(arg, relax.Constant):
        return arg.data.numpy()
    return arg.value.value
