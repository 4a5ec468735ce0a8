"""Extents that do not go together are refused, by inference or, if only the run can compare them, then."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import loopwright as lw
from loopwright.ops.core import OPERATORS
from loopwright.relax.interpreter import Interpreter
from loopwright.relax.transform import LegalizeOps

from .matrix import make


def _takes_several(operator) -> bool:
    kinds = [p.kind for p in operator.graph_params]
    again = operator.body.__module__.endswith(".family") and operator.name != "relax.add"
    return not again and ("Tensors" in kinds or kinds.count("Tensor") > 1)


NAMES = [
    name
    for name, operator in OPERATORS.items()
    if operator.cases and operator.op.get_attr("FNumpy") and _takes_several(operator)
]


# Operators whose inference needs to know an extent: a count of numbers, the length of index vectors.
REFUSED = {
    *(
        "relax.gather_nd",
        "relax.scatter_nd",
        "relax.quantize",
        "relax.dequantize",
        "relax.requantize",
    ),
    *("relax.multinomial_from_uniform", "relax.dynamic_strided_slice"),
}


@pytest.mark.sample(20)
@pytest.mark.no_roundtrip
@pytest.mark.parametrize("name", NAMES)
def test_no_kernel_runs_on_extents_that_numpy_refuses(name):
    operator = OPERATORS[name]
    for case in operator.cases[:2]:
        if name in REFUSED:
            with pytest.raises((lw.LoopwrightError, ValueError)):
                lw.compile(make(operator, case, free=True).module)
            break
        sample = make(operator, case, free=True)
        run = lw.compile(sample.module)["main"]
        for inputs in changed(sample.inputs):
            check(operator, sample, run, inputs)


def only(number: int, change):
    """The change of one input."""
    return lambda n, array: change(array) if n == number else array


def other_shapes(shape: tuple[int, ...]):
    """Functions that give an array of this shape another one."""
    for a, size in enumerate(shape):
        for new in {size + 3, size - 1, 1, 0} - {size, -1}:
            if size:
                yield lambda x, a=a, new=new, size=size: np.take(x, np.arange(new) % size, a)
    if shape and all(shape):
        yield lambda x: np.ascontiguousarray(x[..., 0])
        yield lambda x: np.ascontiguousarray(x[0])
    yield lambda x: np.stack([x, x])
    yield lambda x: np.stack([x, x], -1)


STATIC = [
    name
    for name, operator in OPERATORS.items()
    if operator.cases and operator.op.get_attr("FNumpy") and not name.startswith("relax.nn.byte_")
]  # those are made by a pass, which knows what it gives them
# Their numbers are not compared: a point at an image's border is inside or not by a rounding; boundaries that do not
# ascend have no meaning; repeated columns make singular matrices, of which a rounding is the pivot.
SLOW = {"relax.image.resize2d": pytest.mark.budget(5)}  # its many methods took 3.1 to 4.2 s
ROUGH = (
    *("relax.vision.roi_align", "relax.bucketize"),
    *("relax.linalg.lu_factor", "relax.linalg.qr_factor", "relax.linalg.svd"),
)


@pytest.mark.sample(16)
@pytest.mark.no_roundtrip
@pytest.mark.parametrize("name", [pytest.param(n, marks=SLOW.get(n, ())) for n in STATIC])
def test_shapes_that_inference_accepts_are_computed(name):
    """As numpy does where it computes them, and without an index beyond a buffer."""
    operator = OPERATORS[name]
    static = (s for s in operator.cases[:4] if not make(operator, s).symbols)
    for case in static:
        for number, array in enumerate(make(operator, case).inputs):
            for change in other_shapes(array.shape):
                try:
                    sample = make(operator, case, only(number, change))
                except (lw.LoopwrightError, ValueError, TypeError):
                    continue
                try:
                    got = Interpreter(LegalizeOps()(sample.module))["main"](*sample.inputs)
                except (lw.LoopwrightError, ValueError, TypeError, IndexError) as error:
                    assert "buffer" not in str(error) or not isinstance(error, IndexError)
                    continue
                try:
                    expected = sample.expected()
                except (
                    ValueError,
                    IndexError,
                    TypeError,
                    ZeroDivisionError,
                ):  # numpy refuses these
                    continue
                for a, b in zip(listed(expected), listed(got), strict=True):
                    b = np.asarray(b.numpy())
                    assert np.shape(a) == b.shape
                    if name not in ROUGH and b.dtype.kind in "fiub":
                        np.testing.assert_allclose(
                            b.astype(float), np.asarray(a, float), 1e-2, 1e-2
                        )


def changed(inputs: list[np.ndarray]):
    """The inputs, and with one axis of one of them longer or shorter."""
    yield inputs
    for k, array in enumerate(inputs):
        for axis in (a for a in range(array.ndim) if array.shape[a]):
            for size in (array.shape[axis] + 3, array.shape[axis] - 1):
                other = np.take(array, np.arange(size) % array.shape[axis], axis)
                yield [*inputs[:k], other, *inputs[k + 1 :]]


def check(operator, sample, run, inputs) -> None:
    new = {id(old): array for old, array in zip(sample.inputs, inputs, strict=True)}

    def swapped(value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(swapped(v) for v in value)
        return new.get(id(value), value)

    attrs = {} if sample.call.attrs is None else dict(sample.call.attrs.items())
    try:
        expected = operator.op.get_attr("FNumpy")(*map(swapped, sample.args), **attrs)
    except (ValueError, IndexError):
        expected = None
    try:
        got = run(*inputs)
    except (ValueError, IndexError):
        # Inputs that fit are computed; of others, the references cut or repeat some that we refuse.
        assert inputs is not sample.inputs
        return
    shapes = [a.shape for a in inputs]
    assert expected is not None, f"{shapes}: numpy refuses these"
    pairs = zip(listed(expected), listed(got), strict=True)
    assert all(np.shape(a) == tuple(b.shape) for a, b in pairs), f"{shapes}: another shape"


def listed(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (tuple, list)) else [value]


@pytest.mark.filterwarnings("ignore:.*slice:RuntimeWarning")
def test_references_compute_arrays_of_no_elements():
    """A reference leaves no extent to be found (reshape's -1): with none, any would do, and numpy refuses."""
    refused = set()
    for name, operator in OPERATORS.items():
        if not (operator.cases and operator.op.get_attr("FNumpy")):
            continue
        for number, array in enumerate(make(operator, operator.cases[0]).inputs):
            for axis in range(array.ndim):
                none = lambda x, axis=axis: np.take(x, np.arange(0), axis)  # noqa: E731
                try:
                    sample = make(operator, operator.cases[0], only(number, none))
                except (lw.LoopwrightError, ValueError, TypeError):
                    continue
                try:
                    sample.expected()
                except (ValueError, IndexError, TypeError, ZeroDivisionError) as error:
                    refused |= {(name, number, axis)} if "cannot reshape" in str(error) else set()
    assert not refused
