"""Tensors of the Open Inference Protocol, version 2: names, dtypes, shapes and values from outside."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from ..base.errors import explain
from ..runtime.dtype import numpy_dtype
from ..runtime.signature import Argument
from .predictor import Predictor

# numpy's dtypes under the protocol's names.
DATATYPES = {
    "bool": "BOOL",
    **{f"uint{b}": f"UINT{b}" for b in (8, 16, 32, 64)},
    **{f"int{b}": f"INT{b}" for b in (8, 16, 32, 64)},
    **{f"float{b}": f"FP{b}" for b in (16, 32, 64)},
    "bfloat16": "BF16",
}
_DTYPES = {name: dtype for dtype, name in DATATYPES.items()}


def metadata(arguments: Iterable[Argument]) -> list[dict[str, Any]]:
    """Name, datatype and shape of tensors; -1 is a dimension that calls choose."""
    return [
        {
            "name": a.name,
            "datatype": DATATYPES.get(a.dtype, a.dtype),
            "shape": [d if isinstance(d, int) else -1 for d in a.dims or ()],
        }
        for a in arguments
    ]


def array_of(name: str, datatype: str, shape: Sequence[int], data: Any) -> np.ndarray:
    """The array of a tensor of a request: its bytes, or its values, flat or nested. Raises ValueError."""
    if datatype not in _DTYPES:
        what = f"input `{name}` has a datatype that models do not take"
        raise ValueError(explain(what, got=datatype, instead=", ".join(_DTYPES)))
    kind = numpy_dtype(_DTYPES[datatype])
    raw = isinstance(data, (bytes, bytearray, memoryview))
    try:
        array = np.frombuffer(data, kind) if raw else np.asarray(data)
        if not raw and array.dtype != kind and array.size:
            whole = array.astype(kind)
            if kind.kind in "iub" and (array.dtype.kind not in "iub" or (whole != array).any()):
                raise ValueError("values that it does not have")
            array = whole
    except (ValueError, TypeError, OverflowError) as error:
        what = f"the data of input `{name}` are not values of {datatype}"
        raise ValueError(explain(what, got=str(error))) from None
    if array.size != prod(shape) or min(shape, default=0) < 0:
        what = f"input `{name}` has the shape {list(shape)}"
        raise ValueError(explain(what, got=f"{array.size} values of {datatype}"))
    return array.astype(kind, copy=False).reshape(tuple(shape))


def infer(
    predictor: Predictor, tensors: Mapping[str, np.ndarray], requested: Sequence[str] = ()
) -> dict[str, np.ndarray]:
    """The outputs of a request, those requested. Raises ValueError with the inputs that the model takes."""
    inputs = {a.name: a for a in predictor.inputs}
    unknown = [name for name in tensors if name not in inputs]
    names = [r.name for r in predictor.results]
    wrong = [name for name in requested if name not in names]
    if unknown or wrong:
        what = f"the model's inputs are {', '.join(map(str, inputs.values()))}"
        what += f"; its outputs are {', '.join(names)}"
        raise ValueError(explain(what, got=", ".join([*unknown, *wrong])))
    for name, array in tensors.items():
        if array.dtype.name != inputs[name].dtype:
            expected, got = DATATYPES.get(inputs[name].dtype), DATATYPES.get(array.dtype.name)
            raise ValueError(explain(f"input `{name}` has the datatype {expected}", got=got))
    try:
        results = predictor.run(tensors)
    except TypeError as error:
        raise ValueError(str(error)) from None
    return {name: results[name] for name in requested or predictor.outputs}
