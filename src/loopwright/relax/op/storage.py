"""The core operators that allocate, place and view memory."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from ...base.errors import explain
from ...ir.dtype import DataType, numpy_dtype
from ...ir.prim_expr import PrimExpr
from ..expr import Call, DataTypeImm, Expr, PrimValue, ShapeExpr, Tuple
from ..struct_info import ShapeStructInfo, StructInfo, TensorStructInfo
from .base import (
    Infer,
    argument_tuple,
    as_text,
    define,
    object_info,
    same_as_argument,
    tensor_argument,
    view_as,
    void_info,
)


def _shape(value: Any) -> Any:
    return ShapeExpr(value) if isinstance(value, (list, tuple)) else value


def _dtype(value: Any) -> Any:
    return value if isinstance(value, Expr) else DataTypeImm(value)


def _prim(value: Any) -> Any:
    return PrimValue(value) if isinstance(value, (int, PrimExpr)) else value


def _allocated(shape_at: int, dtype_at: int) -> Infer:
    """The tensor with the shape and dtype given by these arguments."""

    def infer(call: Call, bb: Any) -> StructInfo:
        shape, dtype = call.args[shape_at], call.args[dtype_at]
        if not isinstance(dtype, DataTypeImm):
            what = f"{call.op.name} takes its dtype as R.dtype(...)"
            raise TypeError(explain(what, got=str(dtype), span=call.span))
        return TensorStructInfo(shape, dtype.value)

    return infer


def _storage(size: Any, *_: Any) -> np.ndarray:
    return np.zeros(int(np.prod(size, dtype="int64")), "uint8")


def _in_storage(storage: np.ndarray, offset: int, shape: Any, dtype: str, *_: Any) -> np.ndarray:
    kind = numpy_dtype(DataType(dtype))
    count = int(np.prod(shape, dtype="int64"))
    if offset + count * kind.itemsize > storage.nbytes:
        what = "a tensor does not fit in its storage"
        got = f"{count * kind.itemsize} bytes at {offset} of {storage.nbytes}"
        raise ValueError(explain(what, got=got))
    return storage.view("uint8")[offset : offset + count * kind.itemsize].view(kind).reshape(shape)


def _nothing(*_: Any) -> tuple[()]:
    return ()


_define = partial(define, folds=False)  # memory is not a value

BUILTIN_ALLOC_TENSOR = _define(
    "builtin.alloc_tensor",
    _allocated(0, 1),
    numpy=lambda shape, dtype, *_: np.zeros(shape, numpy_dtype(DataType(dtype))),
)
STOP_LIFT_PARAMS = _define("builtin.stop_lift_params", same_as_argument, numpy=lambda x: x)
MEMORY_ALLOC_STORAGE = _define("memory.alloc_storage", object_info, numpy=_storage)
MEMORY_ALLOC_TENSOR = _define("memory.alloc_tensor", _allocated(2, 3), numpy=_in_storage)
MEMORY_KILL_STORAGE = _define("memory.kill_storage", void_info, pure=False, numpy=_nothing)
MEMORY_KILL_TENSOR = _define("memory.kill_tensor", void_info, pure=False, numpy=_nothing)
VM_ALLOC_STORAGE = _define("vm.alloc_storage", object_info, numpy=_storage)
VM_ALLOC_TENSOR = _define("vm.alloc_tensor", _allocated(2, 3), numpy=_in_storage)
VM_KILL_OBJECT = _define("vm.kill_object", void_info, pure=False, numpy=_nothing)
VM_CALL_TIR_DYN = _define("vm.call_tir_dyn", void_info, pure=False)


@view_as("builtin.alloc_tensor")
def builtin_alloc_tensor(
    shape: Any, dtype: Any, runtime_device_index: Any = 0, storage_scope: Any = "global"
) -> Call:
    """A new tensor; memory planning replaces it."""
    args = [_shape(shape), _dtype(dtype), _prim(runtime_device_index), as_text(storage_scope)]
    return Call(BUILTIN_ALLOC_TENSOR, args)


@view_as("builtin.stop_lift_params")
def stop_lift_params(x: Any) -> Call:
    """`x`; LiftTransformParams does not look past it."""
    return Call(STOP_LIFT_PARAMS, [x])


@view_as("memory.alloc_storage")
def memory_alloc_storage(
    size: Any, virtual_device_index: Any, storage_scope: Any, dtype: Any
) -> Call:
    """Memory of `size` bytes."""
    args = [_shape(size), _prim(virtual_device_index), as_text(storage_scope), _dtype(dtype)]
    return Call(MEMORY_ALLOC_STORAGE, args)


@view_as("memory.alloc_tensor")
def memory_alloc_tensor(storage: Any, offset: Any, shape: Any, dtype: Any) -> Call:
    """A tensor at byte `offset` of a storage."""
    return Call(MEMORY_ALLOC_TENSOR, [storage, _prim(offset), _shape(shape), _dtype(dtype)])


@view_as("memory.kill_storage")
def memory_kill_storage(storage: Any) -> Call:
    """Release a storage's memory."""
    return Call(MEMORY_KILL_STORAGE, [storage])


@view_as("memory.kill_tensor")
def memory_kill_tensor(tensor: Any) -> Call:
    """Mark a tensor as no longer used."""
    return Call(MEMORY_KILL_TENSOR, [tensor])


@view_as("vm.alloc_storage")
def vm_alloc_storage(
    shape: Any, runtime_device_index: Any, dtype: Any, storage_scope: Any = "global"
) -> Call:
    """Memory for a tensor of that shape, as the virtual machine allocates it."""
    args = [_shape(shape), _prim(runtime_device_index), _dtype(dtype), as_text(storage_scope)]
    return Call(VM_ALLOC_STORAGE, args)


@view_as("vm.alloc_tensor")
def vm_alloc_tensor(storage: Any, offset: Any, shape: Any, dtype: Any) -> Call:
    """A tensor at byte `offset` of a storage, as the virtual machine makes it."""
    return Call(VM_ALLOC_TENSOR, [storage, _prim(offset), _shape(shape), _dtype(dtype)])


@view_as("vm.kill_object")
def vm_kill_object(obj: Any) -> Call:
    """Drop a value from its register."""
    return Call(VM_KILL_OBJECT, [obj])


@view_as("vm.call_tir_dyn")
def vm_call_tir_dyn(func: Any, args: Any) -> Call:
    """Call a PrimFunc, outputs among the arguments, symbolic values in a last shape."""
    return Call(VM_CALL_TIR_DYN, [func, argument_tuple(args)])


# ---------------------------------------------------------------- views of memory


def _given(arg: Any) -> Any:
    """An optional argument: `R.tuple()` if left out."""
    return None if isinstance(arg, Tuple) and not arg.fields else arg


def _infer_view(call: Call, bb: Any) -> StructInfo:
    data = tensor_argument(call)
    shape, dtype = _given(call.args[1]), _given(call.args[2])
    made_dtype = dtype.value if isinstance(dtype, DataTypeImm) else data.dtype
    if shape is None and dtype is None:
        return TensorStructInfo(data.shape, made_dtype, data.vdevice, data.ndim)
    if shape is None and made_dtype != data.dtype:
        same_size = not data.dtype.is_void and made_dtype.bits == data.dtype.bits
        if not same_size:
            what = "memory.view to a dtype of another size needs the new shape"
            raise ValueError(explain(what, got=f"{data.dtype} to {made_dtype}", span=call.span))
    if shape is not None and not isinstance(shape.struct_info, ShapeStructInfo):
        what = "memory.view takes its shape as R.shape([...])"
        raise TypeError(explain(what, got=str(shape), span=call.span))
    keep = data.shape if shape is None else shape
    return TensorStructInfo(keep, made_dtype, data.vdevice, data.ndim if keep is None else -1)


def _view_numpy(data: np.ndarray, shape: Any, dtype: Any, offset: Any) -> np.ndarray:
    kind = data.dtype if dtype in ((), None) else numpy_dtype(DataType(dtype))
    dims = data.shape if shape in ((), None) else shape
    start = 0 if offset in ((), None) else int(offset)
    raw = np.ascontiguousarray(data).reshape(-1).view("uint8")
    count = int(np.prod(dims, dtype="int64")) * kind.itemsize
    return raw[start : start + count].view(kind).reshape(dims)


MEMORY_VIEW = _define("memory.view", _infer_view, numpy=_view_numpy)
ENSURE_ZERO_OFFSET = _define(
    "memory.ensure_zero_offset", same_as_argument, numpy=np.ascontiguousarray
)


@view_as("memory.view")
def view(data: Any, shape: Any = None, dtype: Any = None, relative_byte_offset: Any = None) -> Call:
    """The same memory as a tensor of another shape or dtype, at a byte offset."""
    args = [
        data,
        Tuple([]) if shape is None else _shape(shape),
        Tuple([]) if dtype is None else _dtype(dtype),
        Tuple([]) if relative_byte_offset is None else _prim(relative_byte_offset),
    ]
    return Call(MEMORY_VIEW, args)


@view_as("memory.ensure_zero_offset")
def ensure_zero_offset(data: Any) -> Call:
    """`data`, copied if its byte offset is not zero."""
    return Call(ENSURE_ZERO_OFFSET, [data])
