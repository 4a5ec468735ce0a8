"""DLPack capsules for arrays that numpy does not export itself (bfloat16, float8, read-only)."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np

from loopwright.runtime.dtype import dl_dtype, dtype_name, is_native, numpy_dtype

_CPU = 1  # kDLCPU of dlpack.h


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


# Tensors that live until the interpreter exits call it after module globals are cleared: so it has its
# own reference to `_exported.pop`, and is never freed.
ctypes.pythonapi.Py_IncRef(ctypes.py_object(_delete))


_new_capsule = ctypes.pythonapi.PyCapsule_New
_new_capsule.restype = ctypes.py_object
_new_capsule.argtypes = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)


def capsule(array: np.ndarray) -> Any:
    """A DLPack capsule on the array's memory. It must be consumed, exactly once."""
    strides = tuple(s // array.itemsize for s in array.strides)
    return capsule_of(array, array.dtype.name, array.shape, strides)


def capsule_of(
    array: np.ndarray,
    dtype: str,
    shape: tuple[int, ...],
    strides: tuple[int, ...],
    byte_offset: int = 0,
    before: int = 0,
) -> Any:
    """A DLPack capsule of a tensor in the array's memory, to be consumed exactly once.

    strides: in elements. The data pointer is `before` bytes before the array, and the first element
    is `byte_offset` bytes after that pointer.
    """
    ndim = len(shape)
    dims, steps = (ctypes.c_int64 * ndim)(*shape), (ctypes.c_int64 * ndim)(*strides)
    code, bits, lanes = dl_dtype(dtype)
    managed = _DLManagedTensor(
        _DLTensor(
            array.ctypes.data - before, _CPU, 0, ndim, code, bits, lanes, dims, steps, byte_offset
        ),
        None,
        ctypes.cast(_delete, ctypes.c_void_p),
    )
    address = ctypes.addressof(managed)
    _exported[address] = (managed, array, dims, steps)
    return _new_capsule(address, b"dltensor", None)


_pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
_pointer_of.restype = ctypes.c_void_p
_pointer_of.argtypes = (ctypes.py_object, ctypes.c_char_p)


def byte_offset(value: Any) -> int:
    """The bytes from the data pointer of a tvm-ffi tensor to its first element."""
    exported = value.__dlpack__()
    return _exported_in(exported).byte_offset


def dtype_of(value: Any) -> str:
    """The dtype of a tvm-ffi tensor, read from its capsule if it is complex, which tvm-ffi cannot name."""
    try:
        return str(value.dtype)
    except ValueError:
        exported = value.__dlpack__()
        tensor = _exported_in(exported)
        return dtype_name(tensor.code, tensor.bits, tensor.lanes)


def _exported_in(exported: Any) -> _DLTensor:
    """The tensor in a capsule that is not consumed yet; valid as long as the capsule lives."""
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
