"""DLPack capsules for arrays that numpy does not export itself (bfloat16, float8, read-only)."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np

from loopwright.runtime.dtype import dl_dtype, dtype_name, is_native, numpy_dtype


class _DLTensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


class _DLManagedTensor(ctypes.Structure):
    _fields_ = [
        ("tensor", _DLTensor),
        ("manager_ctx", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
    ]


# References of an exported tensor, by its address, until its consumer calls the deleter.
_exported: dict[int, tuple[Any, ...]] = {}


@ctypes.CFUNCTYPE(None, ctypes.c_void_p)
def _delete(address: int, forget: Callable[..., Any] = _exported.pop) -> None:
    forget(address, None)


# Tensors that live until the interpreter ends call it when the names of modules are gone.
ctypes.pythonapi.Py_IncRef(ctypes.py_object(_delete))


_new_capsule = ctypes.pythonapi.PyCapsule_New
_new_capsule.restype = ctypes.py_object
_new_capsule.argtypes = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)


def capsule(array: np.ndarray) -> Any:
    """A DLPack capsule on the array's memory. It must be consumed, exactly once."""
    steps = tuple(s // array.itemsize for s in array.strides)
    return capsule_of(array, array.dtype.name, array.shape, steps)


def capsule_of(
    array: np.ndarray,
    dtype: str,
    dims: tuple[int, ...],
    steps: tuple[int, ...],
    byte_offset: int = 0,
    before: int = 0,
) -> Any:
    """A capsule that describes the array's memory: dtype, shape, strides in elements, the
    place of the first element, from `before` bytes before the array on."""
    ndim = len(dims)
    shape, strides = (ctypes.c_int64 * ndim)(*dims), (ctypes.c_int64 * ndim)(*steps)
    code, bits, lanes = dl_dtype(dtype)
    managed = _DLManagedTensor(
        _DLTensor(
            array.ctypes.data - before, 1, 0, ndim, code, bits, lanes, shape, strides, byte_offset
        ),
        None,
        ctypes.cast(_delete, ctypes.c_void_p),
    )
    address = ctypes.addressof(managed)
    _exported[address] = (managed, array, shape, strides)
    return _new_capsule(address, b"dltensor", None)


_pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
_pointer_of.restype = ctypes.c_void_p
_pointer_of.argtypes = (ctypes.py_object, ctypes.c_char_p)


def byte_offset(value: Any) -> int:
    """Where the first element of a tvm-ffi tensor is, from its data pointer on."""
    exported = value.__dlpack__()
    return _exported_in(exported).byte_offset


def dtype_of(value: Any) -> str:
    """The dtype of a tvm-ffi tensor; tvm-ffi has no name for complex numbers."""
    try:
        return str(value.dtype)
    except ValueError:
        exported = value.__dlpack__()
        tensor = _exported_in(exported)
        return dtype_name(tensor.code, tensor.bits, tensor.lanes)


def _exported_in(exported: Any) -> _DLTensor:
    return _DLManagedTensor.from_address(_pointer_of(exported, b"dltensor")).tensor


class _Memory:
    """Foreign memory as numpy's array interface describes it, with what keeps it alive."""

    def __init__(self, interface: dict[str, Any], owner: object) -> None:
        self.__array_interface__ = interface
        self.owner = owner


def array_at(
    address: int, shape: tuple[int, ...], strides: tuple[int, ...] | None, dtype: str, owner: object
) -> np.ndarray:
    """A writable numpy array on memory that `owner` keeps alive; strides count elements."""
    target = numpy_dtype(dtype)
    carrier = target if is_native(target) else np.dtype(f"u{target.itemsize}")
    interface = {
        "data": (address, False),
        "shape": shape,
        "strides": strides and tuple(s * target.itemsize for s in strides),
        "typestr": carrier.str,
        "version": 3,
    }
    array = np.asarray(_Memory(interface, owner))
    return array if carrier is target else array.view(target)
