"""Values of the virtual machine, and their conversion from and to Python's.

Registers hold what native code takes: tvm-ffi tensors, Python tuples for tuples, `ShapeTuple`,
numbers, strings, None; and numpy arrays of objects, which are tensors of texts. Outside, tensors are `Tensor` and tuples are lists.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...base.errors import CallTypeError, CallValueError, explain
from ..ffi import ffi
from ..native import NativeFunction, PythonView, array_functions
from ..packed_func import PackedFunc
from ..tensor import ShapeTuple, Tensor, from_dlpack


class VMValueError(CallValueError):
    """A value of the right kind that the program does not take: another shape or data type."""


class VMTypeError(CallTypeError):
    """A value of a kind that the program does not take."""


_INSIDE = "of_registers"  # where a function for the outside has the one for registers
_PLAIN = (str, bool, int, float, ShapeTuple, type(None))


def arrive(value: Any, originals: dict[int, Any] | None = None) -> Any:
    """A value from outside as one for registers. `originals` collects the caller's tensors by identity."""
    if isinstance(value, Tensor):
        inside = value.__tvm_ffi_object__()
        if originals is not None:
            originals[id(inside)] = value
        return inside
    if isinstance(value, _PLAIN):
        return value
    if isinstance(value, np.ndarray):
        if value.dtype.kind in "OU":  # texts
            return value.astype(object, copy=False)
        return from_dlpack(value).__tvm_ffi_object__()
    if isinstance(value, tuple) and value and all(type(v) is int for v in value):
        return ShapeTuple(value)
    if isinstance(value, (tuple, list)):
        return tuple(arrive(v, originals) for v in value)
    if isinstance(value, np.generic):
        return value.item()
    package = ffi()
    if isinstance(value, package.Tensor):
        return value
    if isinstance(value, package.Array):
        return tuple(arrive(item(value, k)) for k in range(len(value)))
    if hasattr(value, "__dlpack__"):
        return from_dlpack(value).__tvm_ffi_object__()
    return inward(value) if callable(value) and not isinstance(value, type) else value


def depart(value: object, originals: dict[int, Any] | None = None) -> Any:
    """A register's value for the outside; a tensor of `originals` is returned as the caller's own."""
    if isinstance(value, _PLAIN):
        return value
    if isinstance(value, tuple):
        return [depart(v, originals) for v in value]
    if isinstance(value, ffi().Tensor):
        same = None if originals is None else originals.get(id(value))
        return Tensor.from_ffi(value) if same is None else same
    if isinstance(value, np.ndarray):
        return value if value.dtype == object else Tensor(value)
    if isinstance(value, ffi().Array):
        return [depart(v, originals) for v in arrive(value)]
    return outward(value) if callable(value) and not isinstance(value, type) else value


def outward(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of registers' values as one of values outside."""

    def call(*args: Any) -> Any:
        originals: dict[int, Any] = {}
        return depart(function(*(arrive(a, originals) for a in args)), originals)

    setattr(call, _INSIDE, function)
    return call


def inward(function: Any) -> Callable[..., Any]:
    """A function of the runtime's table as one of registers' values."""
    if isinstance(function, NativeFunction):
        return _native(function)
    if isinstance(function, PythonView):
        call = function.__tvm_ffi_object__()
        return lambda *args: arrive(call(*map(_for_ffi, args)))
    inside = function.function if isinstance(function, PackedFunc) else function
    raw = getattr(inside, _INSIDE, None)
    if raw is not None:
        return raw
    return lambda *args: arrive(inside(*[depart(a) for a in args]))


def _native(function: NativeFunction) -> Callable[..., Any]:
    """A native function takes and returns registers' values unchanged; a tuple is an array, whose
    fields `item` returns."""
    return function.__tvm_ffi_object__()


def item(value: Any, index: int) -> Any:
    """A field of a tuple, or of a native function's results."""
    return value[index] if type(value) is tuple else array_functions()[0](value, index)


def _for_ffi(value: object) -> Any:
    return list(map(_for_ffi, value)) if type(value) is tuple else value


def wrong_kind(what: str, value: object, context: str = "") -> VMTypeError:
    """The error for a value of another kind than `what`."""
    return VMTypeError(explain(f"{context}expected {what}", got=type(value).__name__))
