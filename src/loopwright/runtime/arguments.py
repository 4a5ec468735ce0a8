"""Arguments that native code does not take as they are: lists, numbers, and arrays that are strided
or of another byte order. They are converted after a call was refused, so that others cost nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from loopwright.base.errors import CallError, CallTypeError, CallValueError, explain, with_signature
from loopwright.base.frames import hide_frames
from loopwright.runtime.dtype import numpy_dtype
from loopwright.runtime.signature import Argument, Signature
from loopwright.runtime.tensor import PackedTensor, Tensor, from_dlpack

# Kinds of Python's values that become a dtype without losing more than digits.
_TAKES = {"bool": "b", "int": "biu", "uint": "biu", "complex": "biufc"}
_PLAIN = (bool, int, float, complex, list, tuple)
_ANY_DTYPE = ("object", "void")


def prepared(function: str, signature: Signature, args: Sequence[Any]) -> list[Any]:
    """The arguments of a function as native code takes them: contiguous arrays of the machine's
    byte order; lists and numbers, where the function has results, as arrays of the parameter's
    dtype. Raises ValueError for a list or number that its dtype cannot hold."""
    ready = list(args)
    for i, (param, value) in enumerate(zip(signature.params, args, strict=False)):
        if type(value) is np.ndarray and value.flags.c_contiguous and value.dtype.isnative:
            continue  # before all else: the machine's arguments are looked at in each call
        if param.is_tensor and param.dtype not in _ANY_DTYPE:
            what = f"{function}: argument {i} `{param.name}`"
            ready[i] = _ready(what, param, value, lists=bool(signature.results))
    return ready


def _ready(what: str, param: Argument, value: object, lists: bool) -> Any:
    if isinstance(value, PackedTensor):
        return value
    if type(value) in _PLAIN:
        return _of_python(what, param.dtype, value) if lists else value
    if isinstance(value, (np.ndarray, np.generic)):
        array = np.asarray(value)
    elif isinstance(value, Tensor):
        array = value.view()
    elif hasattr(value, "__dlpack__"):
        array = from_dlpack(value).view()
    elif hasattr(value, "__array__"):
        array = np.asarray(value)
    else:
        return value
    plain = array.dtype.newbyteorder("=")
    if array.flags.c_contiguous and array.dtype == plain:
        return array if isinstance(value, np.generic) else value
    return np.ascontiguousarray(array, plain).reshape(array.shape)


def _of_python(what: str, dtype: str, value: Any) -> np.ndarray:
    """A list or a number as an array of a dtype."""
    try:
        converted = np.asarray(value)
    except ValueError:
        message = f"{what} is a list whose parts differ in length"
        raise CallValueError(explain(message, got=_shown(value))) from None
    kinds = _TAKES.get(dtype.rstrip("0123456789"), "biuf")
    if converted.size and converted.dtype.kind not in kinds:
        raise CallValueError(
            explain(f"{what} takes values of {dtype}", got=_shown(value))
        ) from None
    with np.errstate(over="ignore"):
        array = converted.astype(numpy_dtype(dtype))
    if (
        converted.dtype.kind in "iu"
        and "int" in dtype
        and (array.astype(converted.dtype) != converted).any()
    ):
        message = f"{what} has a value that {dtype} cannot hold"
        raise CallValueError(explain(message, got=_shown(value))) from None
    return array


def _shown(value: Sequence[Any] | float) -> str:
    text = repr(value)
    return text if len(text) < 80 else f"{text[:76]} ..."


# ---------------------------------------------------------------------- memory for results


def placed(function: str, count: int, out: Any) -> list[Any]:
    """The arrays of an `out` argument: one, or a list of them, for `count` results. Raises TypeError
    for another number of them, for a value that is not an array, and for one that is read-only."""
    outputs = leaves(out)
    if not count:
        what = f"{function} has no results: it writes the arrays among its arguments"
        raise CallTypeError(
            explain(what, got="out=", instead="give them in the order of its parameters")
        )
    if len(outputs) != count:
        what = f"{function} has {count} results" if count > 1 else f"{function} has one result"
        raise CallTypeError(
            explain(what, got=f"{len(outputs)} arrays as out", instead="one for each")
        )
    for k, value in enumerate(outputs):
        array = value.view() if type(value) is Tensor else value
        if not (isinstance(value, (np.ndarray, Tensor)) or hasattr(value, "__dlpack__")):
            what = f"{function}: output {k} is not an array"
            raise CallTypeError(explain(what, got=type(value).__name__, instead="numpy.empty(...)"))
        if isinstance(array, np.ndarray) and not (array.flags.writeable and array.dtype.isnative):
            what = f"{function}: output {k} cannot be written"
            got = "a read-only array" if array.dtype.isnative else f"dtype {array.dtype.str}"
            raise CallTypeError(explain(what, got=got, instead="numpy.empty(...)"))
    return outputs


def copy_results(function: str, results: Sequence[Any], out: Any) -> None:
    """Copy results into `out`. Raises TypeError for a result that is not an array, ValueError
    for another dtype or shape."""
    targets = placed(function, len(results), out)
    for k, (value, target) in enumerate(zip(results, targets, strict=True)):
        if not hasattr(value, "__dlpack__"):
            what = f"{function}: result {k} is not an array, so it is not written to one"
            raise CallTypeError(
                explain(what, got=type(value).__name__, instead="call it without out=")
            )
        result = from_dlpack(value)
        array = isinstance(target, np.ndarray)
        into: Any = target if array else from_dlpack(target)
        got, expected = (into.dtype.name if array else into.dtype), result.dtype
        if got != expected or into.shape != result.shape:
            what = f"{function}: output {k} has dtype {got} and shape {into.shape}"
            raise CallValueError(
                explain(what, instead=f"dtype {expected} and shape {result.shape}")
            )
        into[...] = result.view()


class Converted:
    """A function that takes arrays and returns new ones, called like a native one."""

    def __init__(self, name: str, function: Callable[..., Any], signature: Signature) -> None:
        self.name, self.function, self.signature = name, function, signature

    def __call__(self, *args: Any, out: object = None) -> Any:
        try:
            result = self.function(*prepared(self.name, self.signature, args))
        except CallError as error:
            with_signature(error, self.signature.text(self.name, 32))
            hide_frames(error)
            raise
        if out is None:
            return result
        copy_results(self.name, self.signature.leaves(result), out)
        return out


def in_order(names: Sequence[str], out: Any) -> Any:
    """An `out` argument in the order of the outputs, where it is a dict. Raises ValueError."""
    if not isinstance(out, Mapping):
        return out
    if set(out) != set(names):
        what = f"the outputs are {', '.join(names)}"
        raise CallValueError(explain(what, got=", ".join(out) or "none"))
    return [out[name] for name in names]


def leaves(value: object) -> list[Any]:
    """The leaves of nested lists and tuples, in order."""
    if isinstance(value, (list, tuple)):
        return [leaf for v in value for leaf in leaves(v)]
    return [value]
