"""TVM's `ffi`: functions, containers and tensors as they cross calls; and its library."""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

import numpy as np

from ...runtime import (  # noqa: F401
    PackedFunc,
    ShapeTuple,
    Tensor,
    convert,
    get_global_func,
    list_global_func_names,
    register_func,
    remove_global_func,
)
from ...runtime import from_dlpack as _from_dlpack
from ...runtime.ffi import ffi
from .layout import Array, Map, String  # noqa: F401

Function = PackedFunc
NDArray = Tensor
Shape = ShapeTuple
register_global_func = register_func


def py_str(value: bytes) -> str:
    """Bytes of a tool's output as text."""
    return value.decode()


def from_dlpack(
    ext_tensor: np.ndarray[Any, Any],
    *,
    required_alignment: int = 8,
    required_contiguous: bool = True,
) -> Tensor:
    """A tensor on another library's memory, without a copy.

    Raises RuntimeError for memory that is not aligned or not contiguous as required.
    """
    tensor = _from_dlpack(ext_tensor)
    view = tensor.view()
    if required_contiguous and not view.flags.c_contiguous:
        raise RuntimeError("the tensor is not contiguous; pass required_contiguous=False")
    if view.ctypes.data % required_alignment:
        raise RuntimeError(f"the tensor's memory is not aligned to {required_alignment} bytes")
    return tensor


@cache
def library() -> ctypes.CDLL:
    """The library that calls between languages."""
    return ctypes.CDLL(ffi().libinfo.find_libtvm_ffi())


def __getattr__(name: str) -> Any:
    if name == "_LIB":
        return library()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
