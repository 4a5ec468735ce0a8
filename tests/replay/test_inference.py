"""What operators infer, or say, of the calls of their samples with one argument or attribute changed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from loopwright import relax
from loopwright.ops.core import Operator
from loopwright.relax.struct_info import TensorStructInfo

from ..ops.matrix import make
from .stages import said
from .test_operators import FAMILIES

VALUES = (-1, 0, 1, 2, 7, 0.5, None, True, False, "", "NHWC", "float16", [1], [0, 1], [2, 2, 2])


def tensors(info: Any) -> Iterator[Any]:
    """Struct infos that differ from one of a tensor in its shape or dtype."""
    shape = list(info.get_shape())
    yield TensorStructInfo(dtype=info.dtype, ndim=len(shape))
    yield TensorStructInfo(dtype=info.dtype)
    yield TensorStructInfo(shape, "void")
    yield TensorStructInfo(shape, "int8" if info.dtype.is_float else "float16")
    yield TensorStructInfo([*shape, 2], info.dtype)
    yield TensorStructInfo([1, *shape], info.dtype)
    for axis, extent in enumerate(shape):
        yield TensorStructInfo([*shape[:axis], *shape[axis + 1 :]], info.dtype)
        yield TensorStructInfo([*shape[:axis], extent + 1, *shape[axis + 1 :]], info.dtype)
        yield TensorStructInfo([*shape[:axis], 1, *shape[axis + 1 :]], info.dtype)


def changed(operator: Operator, call: relax.Call) -> Iterator[str]:
    """What is inferred of calls that differ from one."""
    names = [p.name for p in operator.graph_params]
    given = dict(zip(names, call.args, strict=False))
    attrs = {} if call.attrs is None else dict(call.attrs.items())

    def inferred(**other: Any) -> Any:
        made = operator.builder(**{**given, **attrs, **other})
        return relax.BlockBuilder().normalize(made).struct_info

    for name, arg in given.items():
        if isinstance(arg, relax.Var) and isinstance(arg.struct_info, TensorStructInfo):
            for info in tensors(arg.struct_info):
                yield f"{name} {info}: {said(inferred, **{name: relax.Var('x', info)})}"
    for name in attrs:
        for value in VALUES:
            yield f"{name} {value!r}: {said(inferred, **{name: value})}"


@pytest.mark.no_roundtrip
def test_changed_calls(replay: Any) -> None:
    for family, operators in FAMILIES.items():
        rows = {}
        for operator in operators:
            cases = [make(operator, case) for case in operator.cases[:4]]
            texts = [t for sample in cases for t in changed(operator, sample.call)]
            numbered = re.sub(r"unknown_\d+", "unknown", "\n".join(texts))  # by a counter
            rows[operator.name] = {"": numbered}
        replay(f"inference/{family}", rows)
