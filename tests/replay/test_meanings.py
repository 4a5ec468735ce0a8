"""What operators mean in numpy, for the inputs of their samples rounded to halves, so that many are equal;
and with an attribute changed: what is inferred then is the type of what comes out."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from ..ops.matrix import Case, Operator, make
from .stages import said
from .test_operators import FAMILIES


def shown(value: Any) -> str:
    """Numbers, of floats four bits, as processors round differently."""
    if isinstance(value, (tuple, list)):
        return "\n".join(map(shown, value))
    array = np.asarray(value)
    if array.dtype.kind in "biu":
        return f"{array.dtype} {array.shape} {array.reshape(-1).tolist()}"
    parts, powers = np.frexp(array.reshape(-1).astype("float64"))
    steps = np.rint(np.nan_to_num(parts * 16, nan=99, posinf=98, neginf=97)).astype(int)
    return f"{array.dtype} {array.shape} {steps.tolist()} {powers.tolist()}"


def halves(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(map(halves, value))
    if isinstance(value, np.ndarray) and value.dtype.kind not in "biu":
        return (np.rint(value.astype("float64") * 2) / 2).astype(value.dtype)
    return value


def meaning(operator: Operator, case: Case) -> str:
    sample = make(operator, case)
    sample.args = [halves(v) for v in sample.args]
    with np.errstate(all="ignore"):
        found = sample.expected()
    sample.check_type(found)
    return shown(found)


def changed(case: Case) -> Iterator[Case]:
    """The case with an attribute that is another one of its kind."""
    for name, value in case.attrs.items():
        if isinstance(value, bool):
            others: list[Any] = [not value]
        elif isinstance(value, int):
            others = [value + 1, value - 1]
        elif isinstance(value, float):
            others = [0.5]
        else:
            others = []
        for other in others:
            yield dataclasses.replace(case, attrs={**case.attrs, name: other})


@pytest.mark.no_roundtrip
@pytest.mark.filterwarnings("ignore")
def test_meanings(replay: Any) -> None:
    for family, operators in FAMILIES.items():
        rows = {}
        for operator in operators:
            if operator.op.has_attr("FNumpy"):
                cases = [c for one in operator.cases for c in (one, *changed(one))]
                texts = [f"{k}: {said(meaning, operator, c)}" for k, c in enumerate(cases)]
                rows[operator.name] = {"": "\n".join(texts)}
        replay(f"meanings/{family}", rows)
