"""Structs on the stack: `tvm_stack_alloca`, `tvm_struct_get` and packed calls on them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...base.errors import LoopwrightError, explain
from ...ir.dtype import numpy_dtype
from ...runtime.dtype import dl_dtype, dtype_name, elements_per_byte
from ...runtime.tensor import Tensor
from .meaning import as_array, strided_view, tensor_view


class Stack:
    """An array of structs on the stack: their fields by number. `at` is the offset of a pointer
    into it."""

    __slots__ = ("at", "structs")

    def __init__(self, structs: list[dict[int, Any]], at: int = 0) -> None:
        self.structs, self.at = structs, at


# Fields of tvm_struct_get: the address of a struct; of a DLTensor; of a TVMFFIAny.
_ADDRESS, _DATA, _SHAPE, _STRIDES, _RANK, _CODE, _BITS, _LANES = range(8)
_OFFSET, _DEVICE_ID, _DEVICE_TYPE, _TYPE_INDEX, _VALUE = 8, 9, 10, 13, 15


def stack_alloca(kind: str, count: int) -> Any:
    """A stack array: int64 numbers for a shape, structs for other kinds."""
    if kind == "shape":
        return np.zeros(count, "int64")
    return Stack([{} for _ in range(count)])


def struct_get(base: Stack | np.ndarray | Sequence[Any], index: int, field: int) -> Any:
    """A field of struct `index` at `base`: structs of this stack, a tensor, or the argument
    list of a packed call."""
    if isinstance(base, Stack):
        if field == _ADDRESS:
            return Stack(base.structs, base.at + index)
        return base.structs[base.at + index].get(field, 0)
    if isinstance(base, (list, tuple)):
        return _argument_field(base[index], field)
    return _tensor_field(as_array(base, "tvm_struct_get"), field)


def struct_set(base: Stack, index: int, field: int, value: Any) -> int:
    """Set a field of a struct on the stack."""
    base.structs[base.at + index][field] = value
    return 0


def _argument_field(value: object, field: int) -> Any:
    """The type index (in tvm-ffi's numbering) or the value of a packed argument."""
    if field == _VALUE:
        return value
    if field != _TYPE_INDEX:
        return 0
    if isinstance(value, (bool, np.bool_)):
        return 2
    if isinstance(value, (int, np.integer)):
        return 1
    if isinstance(value, (float, np.floating)):
        return 3
    if value is None:
        return 0
    return 7 if isinstance(value, (np.ndarray, Tensor)) or hasattr(value, "__dlpack__") else 4


def _tensor_field(array: np.ndarray, field: int) -> Any:
    if field == _DATA:
        view = strided_view(array)
        return array.reshape(-1) if view is None else view[0]
    if field == _SHAPE:
        return np.array(array.shape, "int64")
    if field == _STRIDES:
        return np.array([s // array.itemsize for s in array.strides], "int64")
    if field in (_CODE, _BITS, _LANES):
        return dl_dtype(array.dtype.name)[field - _CODE]
    fields = {_RANK: array.ndim, _OFFSET: 0, _DEVICE_ID: 0, _DEVICE_TYPE: 1}
    if field not in fields:
        raise LoopwrightError(explain("tvm_struct_get: unknown field of a tensor", got=field))
    return fields[field]


def _from_stack(stack: Stack, index: int) -> Any:
    """A packed argument on the stack; a struct of a tensor becomes the tensor."""
    value = struct_get(stack, index, _VALUE)
    if not isinstance(value, Stack):
        return value
    fields = value.structs[value.at]
    code, bits, lanes = (fields[f] for f in (_CODE, _BITS, _LANES))
    shape = tuple(int(n) for n in fields[_SHAPE][: fields[_RANK]])
    strides = fields.get(_STRIDES)
    steps = None if strides is None else [int(s) for s in strides[: fields[_RANK]]]
    dtype = dtype_name(code, bits, lanes)
    start = int(fields.get(_OFFSET, 0))
    offset = start // numpy_dtype(dtype).itemsize * elements_per_byte(dtype)
    return tensor_view(fields[_DATA], shape, steps, dtype, offset)


def call_on_stack(call: Any, name: str, stack: Stack, begin: int, end: int) -> Any:
    """Call a packed function on arguments on the stack."""
    result = call(name, *(_from_stack(stack, k) for k in range(begin, end)))
    if stack.at + end < len(stack.structs):
        struct_set(stack, end, _VALUE, result)
    return result
