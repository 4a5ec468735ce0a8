"""A random graph of our own operators, grown call by call; the makers of calls register here."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from loopwright.ops.core import OPERATORS
from loopwright.relax.interpreter import evaluate_scalar
from loopwright.relax.struct_info import TensorStructInfo, TupleStructInfo

from .build import NUMBERS, Builder, Dim, NotHere, Value
from .relax_module import Writer

MAKERS: dict[str, Callable[[RelaxBuilder], object]] = {}
# Not drawn: an index map is a Python function; an own layout is tested with convolutions.
LEFT_OUT = {
    "relax.image.resize_taps",  # the importers' own: models with Resize and SAME windows make them
    "relax.image.resize_matrix",
    "relax.ml.couple_pairs",  # of trees and vector machines: tests/frontend/onnx/test_ml.py
    "relax.ml.tree_ensemble",
    # ByteProducts and ByteTails make these of quantized networks.
    *(f"relax.nn.byte_{n}" for n in ("rows", "places", "blocks", "image")),
    *(f"relax.nn.byte_{n}" for n in ("matmul", "conv2d", "depthwise", "winograd")),
    *(f"relax.nn.byte_{n}_bytes" for n in ("matmul", "conv2d", "depthwise", "winograd")),
    *(f"relax.nn.byte_winograd_{n}" for n in ("tiles", "weight")),
    "relax.nn.matmul_nbits",  # of MatMulNBits, like the next
    "relax.nn.byte_matmul_nbits",
    "relax.linalg.inv",  # of random matrices ill-conditioned: tests/ops, test_contrib_words.py
    "relax.nn.pad_by",
    "relax.nn.join_phases",  # of transposed convolutions with strides
    *(f"relax.nn.winograd_{n}" for n in ("tiles", "weight", "join")),  # of convolutions, on request
    "relax.layout_transform",
    "relax.nn.pack_channels",
    "relax.nn.unpack_channels",
    "relax.nn.pack_weight",
}
ANY = [*NUMBERS, "bool", "uint8", "int8"]


class Refused(Exception):
    """The last node's arguments are valid, and inference refuses them."""


class RelaxBuilder(Builder):
    """Builds a case of our operators."""

    def __init__(self, seed: int) -> None:
        super().__init__("relax", seed)
        self.writer = Writer(self.case)

    def text(self, dim: Dim) -> Any:
        """A dimension that has no name of its own cannot be asked for."""
        names = self.case.sizes[0]
        if len(set(dim)) > 1 and dim not in [tuple(s[n] for s in self.case.sizes) for n in names]:
            raise NotHere
        return super().text(dim)

    def call(
        self, op: str, *args: Any, outs: int = 1, exact: bool = True, finite: bool = True,
        final: bool = False, **attrs: Any,
    ) -> None:  # fmt: skip
        """Add a node; arguments are Values, names, lists of them, None, or {"dims": ...}."""
        name = f"relax.{op}"
        used = [
            v for a in args for v in (a if isinstance(a, list) else [a]) if isinstance(v, Value)
        ]
        names = [
            [v.name for v in a] if isinstance(a, list) else getattr(a, "name", a) for a in args
        ]
        results = [self.name("v") for _ in range(outs)]
        self.case.nodes.append([name, names, results, attrs])
        self.writer.symbols.update(
            {n: v for n, v in Writer(self.case).symbols.items() if n not in self.writer.symbols}
        )
        try:
            info = self.writer.node(name, names, results, attrs)
        except Exception as error:
            raise Refused from error
        infos = info.fields if isinstance(info, TupleStructInfo) else [info]
        for result, one in zip(results, infos):
            shape = self.shape(one)
            if shape is not None and any(
                math.prod(d[r] for d in shape) > 4000 for r in range(len(self.case.sizes))
            ):
                raise NotHere
            if shape is None or final:
                continue
            dtype = str(one.dtype)
            whole = dtype[0] in "iub"
            exactly = whole or (exact and all(v.exact for v in used))
            self.values.append(
                Value(
                    result, dtype, shape, exactly, whole or (finite and all(v.finite for v in used))
                )
            )

    def shape(self, info: TensorStructInfo) -> tuple[Dim, ...] | None:
        """A result's dimensions in each run; None where they are not known."""
        dims = info.get_shape()
        if dims is None:
            return None
        runs = [{self.writer.symbols[n]: v for n, v in sizes.items()} for sizes in self.case.sizes]
        try:
            return tuple(tuple(int(evaluate_scalar(d, run)) for run in runs) for d in dims)
        except KeyError:
            return None


def maker(*names: str) -> Callable[[Any], Any]:
    """Register a function that adds a call of one of these operators."""

    def register(fn: Any) -> Any:
        for name in names:
            assert f"relax.{name}" in OPERATORS, name
            MAKERS[name] = lambda g, name=name: fn(g, name)
        return fn

    return register
