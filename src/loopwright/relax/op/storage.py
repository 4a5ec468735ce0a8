"""The core operators that allocate, place and view memory, and inspect a tensor at run time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import prod
from typing import Any

import numpy as np

from ...arith import Analyzer
from ...base.errors import explain
from ...base.examples import add_examples
from ...base.names import named
from ...ir.dtype import DataType, numpy_dtype
from ...ir.expr import GlobalVar
from ...ir.op import Op
from ...ir.prim_expr import IntImm, PrimExpr
from ...ir.prim_op import const, convert
from ...runtime.dtype import dl_dtype
from ...runtime.packed_func import register_func
from ...tir.byte_size import plain
from ..expr import Call, DataTypeImm, Expr, PrimValue, ShapeExpr, StringImm, Tuple, Var, as_expr
from ..struct_info import (
    PrimStructInfo,
    ShapeStructInfo,
    StructInfo,
    TensorStructInfo,
    TupleStructInfo,
)
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


def _shape(value: Expr | Sequence[PrimExpr | int]) -> Any:
    return ShapeExpr(value) if isinstance(value, (list, tuple)) else value


def _dtype(value: DataType | Expr | str) -> Any:
    return value if isinstance(value, Expr) else DataTypeImm(value)


def _prim(value: Expr | int) -> Any:
    return PrimValue(value) if isinstance(value, (int, PrimExpr)) else value


def _allocated(shape_at: int, dtype_at: int, at_run_time: bool = False) -> Infer:
    """The tensor with the shape and dtype given by these arguments; at run time a variable shape is a
    register, which types do not name."""

    def infer(call: Call, bb: Any) -> StructInfo:
        shape, dtype = call.args[shape_at], call.args[dtype_at]
        if not isinstance(dtype, DataTypeImm):
            what = f"{call.op.name} takes its dtype as R.dtype(...)"
            raise TypeError(explain(what, got=str(dtype), span=call.span))
        if at_run_time and not isinstance(shape, ShapeExpr):
            return TensorStructInfo(dtype=dtype.value, ndim=shape.struct_info.ndim)
        return TensorStructInfo(shape, dtype.value)

    return infer


def _storage(size: Sequence[int], *_: str | int) -> np.ndarray:
    return np.zeros(int(np.prod(size, dtype="int64")), "uint8")


def _in_storage(
    storage: np.ndarray, offset: int, shape: Sequence[int], dtype: str, *_: Any
) -> np.ndarray:
    kind = numpy_dtype(DataType(dtype))
    count = int(np.prod(shape, dtype="int64"))
    if offset + count * kind.itemsize > storage.nbytes:
        what = "a tensor does not fit in its storage"
        got = f"{count * kind.itemsize} bytes at {offset} of {storage.nbytes}"
        raise ValueError(explain(what, got=got))
    return storage.view("uint8")[offset : offset + count * kind.itemsize].view(kind).reshape(shape)


def _nothing(*_: np.ndarray[Any, Any]) -> tuple[()]:
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
VM_ALLOC_TENSOR = _define("vm.alloc_tensor", _allocated(2, 3, at_run_time=True), numpy=_in_storage)
VM_KILL_OBJECT = _define("vm.kill_object", void_info, pure=False, numpy=_nothing)
VM_CALL_TIR_DYN = _define("vm.call_tir_dyn", void_info, pure=False)


@view_as("builtin.alloc_tensor")
def builtin_alloc_tensor(
    shape: Expr | Sequence[int],
    dtype: DataType | Expr | str,
    runtime_device_index: PrimValue | int = 0,
    storage_scope: StringImm | str = "global",
) -> Call:
    """A new tensor; memory planning replaces it."""
    args = [_shape(shape), _dtype(dtype), _prim(runtime_device_index), as_text(storage_scope)]
    return Call(BUILTIN_ALLOC_TENSOR, args)


@view_as("builtin.stop_lift_params")
def stop_lift_params(x: Expr) -> Call:
    """`x`; LiftTransformParams does not look past it."""
    return Call(STOP_LIFT_PARAMS, [x])


@view_as("memory.alloc_storage")
def memory_alloc_storage(
    size: Expr | Sequence[PrimExpr | int],
    virtual_device_index: PrimValue | int,
    storage_scope: StringImm | str,
    dtype: DataTypeImm | str,
) -> Call:
    """Memory of `size` bytes."""
    args = [_shape(size), _prim(virtual_device_index), as_text(storage_scope), _dtype(dtype)]
    return Call(MEMORY_ALLOC_STORAGE, args)


@view_as("memory.alloc_tensor")
def memory_alloc_tensor(
    storage: Expr, offset: PrimValue | int, shape: Expr | Sequence[int], dtype: DataTypeImm | str
) -> Call:
    """A tensor at byte `offset` of a storage."""
    return Call(MEMORY_ALLOC_TENSOR, [storage, _prim(offset), _shape(shape), _dtype(dtype)])


@view_as("memory.kill_storage")
def memory_kill_storage(storage: Expr) -> Call:
    """Release a storage's memory."""
    return Call(MEMORY_KILL_STORAGE, [storage])


@view_as("memory.kill_tensor")
def memory_kill_tensor(tensor: Expr) -> Call:
    """Mark a tensor as no longer used."""
    return Call(MEMORY_KILL_TENSOR, [tensor])


@view_as("vm.alloc_storage")
def vm_alloc_storage(
    shape: Expr | Sequence[int],
    runtime_device_index: PrimValue | int,
    dtype: DataTypeImm | str,
    storage_scope: StringImm | str = "global",
) -> Call:
    """Memory for a tensor of that shape, as the virtual machine allocates it."""
    args = [_shape(shape), _prim(runtime_device_index), _dtype(dtype), as_text(storage_scope)]
    return Call(VM_ALLOC_STORAGE, args)


@view_as("vm.alloc_tensor")
def vm_alloc_tensor(
    storage: Expr, offset: PrimValue | int, shape: Expr | Sequence[int], dtype: DataTypeImm | str
) -> Call:
    """A tensor at byte `offset` of a storage, as the virtual machine makes it."""
    return Call(VM_ALLOC_TENSOR, [storage, _prim(offset), _shape(shape), _dtype(dtype)])


@view_as("vm.kill_object")
def vm_kill_object(obj: Expr) -> Call:
    """Drop a value from its register."""
    return Call(VM_KILL_OBJECT, [obj])


@view_as("vm.call_tir_dyn")
def vm_call_tir_dyn(func: GlobalVar, args: Expr | Sequence[Expr]) -> Call:
    """Call a PrimFunc, outputs among the arguments, symbolic values in a last shape."""
    return Call(VM_CALL_TIR_DYN, [func, argument_tuple(args)])


# ---------------------------------------------------------------- views of memory


def optional(arg: Expr) -> Any:
    """An optional argument: `R.tuple()` if left out."""
    info = arg.struct_info
    return None if isinstance(info, TupleStructInfo) and not info.fields else arg


def _infer_view(call: Call, bb: Any) -> StructInfo:
    data = tensor_argument(call)
    shape, dtype, offset = map(optional, call.args[1:])
    if shape is not None and not isinstance(shape.struct_info, ShapeStructInfo):
        what = "memory.view takes its shape as R.shape([...])"
        raise TypeError(explain(what, got=str(shape), span=call.span))
    if dtype is None:
        new_dtype = data.dtype
    else:
        value = bb.lookup_binding(dtype) if isinstance(dtype, Var) and bb is not None else dtype
        new_dtype = value.value if isinstance(value, DataTypeImm) else DataType("void")
    if shape is None:
        new = TensorStructInfo(data.shape, new_dtype, data.vdevice, data.ndim)
    elif isinstance(shape, ShapeExpr):
        new = TensorStructInfo(shape, new_dtype, data.vdevice)
    else:
        dims = shape.struct_info.values
        ndim = shape.struct_info.ndim if dims is None else -1
        new = TensorStructInfo(dims, new_dtype, data.vdevice, ndim)
    info = None if offset is None else offset.struct_info
    start = 0 if offset is None else info.value if isinstance(info, PrimStructInfo) else None
    end = _view_end(data, new, start, shape is not None, dtype is not None)
    if end is not None:
        need, have, unit = end
        analyzer = Analyzer() if bb is None else bb.analyzer
        if analyzer.can_prove(need > have):
            what = "memory.view may not reach beyond the tensor"
            got = f"{plain(analyzer.simplify(need))} {unit}, the tensor has {plain(have)}"
            raise ValueError(explain(what, got=got, span=call.span))
    return new


def _view_end(
    old: TensorStructInfo,
    new: TensorStructInfo,
    start: PrimExpr | int | None,
    shaped: bool,
    typed: bool,
) -> tuple[Any, Any, str] | None:
    """(the size of a view, the size available, their unit) as far as they can be compared. start: its byte
    offset, None if unknown; shaped, typed: whether the view has a shape, a dtype of its own."""
    sizes = [None if i.dtype.is_void else -(-i.dtype.bits * i.dtype.lanes // 8) for i in (old, new)]
    counts = [None if i.get_shape() is None else prod(i.get_shape() or ()) for i in (old, new)]
    first = convert(0 if start is None else start)
    if None not in (*sizes, *counts):
        have, need = (const(s, "int64") * n for s, n in zip(sizes, counts, strict=True))
        return need + first, have, "bytes"
    if None not in counts and not typed:
        return convert(counts[1]), convert(counts[0]), "elements"
    if typed and None not in sizes and not shaped:
        return convert(sizes[1]), convert(sizes[0]), "bytes an element"
    return None if shaped or typed else (first, convert(0), "bytes further")


def _view_numpy(
    data: np.ndarray, shape: Sequence[int], dtype: str | Sequence[Any], offset: Any
) -> np.ndarray:
    kind = data.dtype if dtype in ((), None) else numpy_dtype(DataType(dtype))
    dims = data.shape if shape in ((), None) else shape
    start = 0 if offset in ((), None) else int(offset)
    raw = np.ascontiguousarray(data).reshape(-1).view("uint8")
    count = int(np.prod(dims, dtype="int64")) * kind.itemsize
    return raw[start : start + count].view(kind).reshape(dims)


MEMORY_VIEW = _define("memory.view", _infer_view, numpy=_view_numpy)
INFER_VIEW = "tvm.relax.struct_info.infer_view_sinfo"
register_func(INFER_VIEW, _infer_view, override=True)
ENSURE_ZERO_OFFSET = _define("memory.ensure_zero_offset", same_as_argument, numpy=np.array)


@view_as("memory.view")
def view(
    data: Expr,
    shape: Expr | Sequence[PrimExpr | int] | None = None,
    dtype: Expr | str | None = None,
    relative_byte_offset: Expr | int | None = None,
) -> Call:
    """The same memory as a tensor of another shape or dtype, at a byte offset."""
    args = [
        data,
        Tuple([]) if shape is None else _shape(shape),
        Tuple([]) if dtype is None else _dtype(dtype),
        Tuple([]) if relative_byte_offset is None else _prim(relative_byte_offset),
    ]
    return Call(MEMORY_VIEW, args)


@view_as("memory.ensure_zero_offset")
def ensure_zero_offset(data: Expr) -> Call:
    """`data`, copied if its byte offset is not zero."""
    return Call(ENSURE_ZERO_OFFSET, [data])


# ---------------------------------------------------------------- inspecting a tensor at run time

# (struct info, axis) -> the value, or None where it is known only at run time.
Compute = Callable[..., Any]


def _axis(call: Call) -> int | None:
    """The axis that a call requests, if it is known. Raises ValueError if the tensor does not have it."""
    info, tensor = call.args[1].struct_info, tensor_argument(call)
    if not isinstance(info, PrimStructInfo):
        what = f"{call.op.name} takes a tensor and a scalar, the axis"
        raise TypeError(explain(what, got=str(info), span=call.span))
    if not isinstance(info.value, IntImm):
        return None
    axis, ndim = info.value.value, tensor.ndim
    if axis < 0 or 0 <= ndim <= axis:
        what = f"{call.op.name} has no axis {axis}"
        got = "a tensor" if ndim < 0 else f"a tensor of {ndim} dimensions"
        raise ValueError(explain(what, got=got, span=call.span))
    return axis


def _field(name: str, dtype: str, compute: Compute, numpy: Callable[..., Any]) -> None:
    """Define the operator and its builder; calls of known value are that value."""
    by_axis = name.endswith("_i")

    def infer(call: Call, bb: Any) -> StructInfo:
        axis = (_axis(call),) if by_axis else ()
        value = None if None in axis else compute(tensor_argument(call), *axis)
        if value is None:
            return PrimStructInfo(dtype)
        return PrimStructInfo(value=value if isinstance(value, PrimExpr) else const(value, dtype))

    def normalize(bb: Any, call: Call) -> Any:
        info = infer(call, bb)
        assert isinstance(info, PrimStructInfo)
        return call if info.value is None else PrimValue(info.value)

    op: Op = define(f"inspect.{name}", infer, numpy=numpy, folds=False)
    op.set_attr("FNormalize", normalize, origin=__name__)
    op.set_attr("FCallPacked", f"vm.builtin.{name}", origin=__name__)

    def build(tensor: Expr, *axis: Expr | int) -> Call:
        return Call(op, [tensor, *map(as_expr, axis)])

    more, shown = (", 1", ", R.prim_value(1)") if by_axis else ("", "")
    doc = f"""A field of a tensor at run time, a scalar of {dtype}{": that of an axis" if by_axis else ""}.

    >>> x = relax.Var("x", R.Tensor((2, 3), "float32"))
    >>> relax.op.inspect.{name}(x{more})
    R.inspect.{name}(x{shown})
    """
    Expr._build[f"inspect.{name}"] = view_as(f"inspect.{name}")(named(build, name, doc))


def _of_dtype(part: int) -> Compute:
    return lambda info: None if info.dtype.is_void else dl_dtype(info.dtype)[part]


def _dimension(info: TensorStructInfo, axis: int) -> Any:
    dims = info.get_shape()
    return None if dims is None else dims[axis]


def _stride(info: TensorStructInfo, axis: int) -> Any:
    dims = info.get_shape()
    return None if dims is None else prod(dims[axis + 1 :], start=const(1, "int64"))


def _offset(info: TensorStructInfo) -> Any:
    """Tensors that kernels take start at their data pointer."""
    return None if info.get_shape() is None else 0


for _n, (_part, _kind) in enumerate({"code": "uint8", "bits": "uint8", "lanes": "uint16"}.items()):
    _field(
        f"tensor_dtype_{_part}",
        _kind,
        _of_dtype(_n),
        lambda x, part=_n: dl_dtype(x.dtype.name)[part],
    )
_field("tensor_ndim", "int32", lambda info: info.ndim if info.ndim >= 0 else None, np.ndim)
_field("tensor_shape_i", "int64", _dimension, lambda x, axis: x.shape[int(axis)])
_field("tensor_stride_i", "int64", _stride, lambda x, axis: x.strides[int(axis)] // x.itemsize)
_field("tensor_byte_offset", "uint64", _offset, lambda x: 0)
_field("tensor_elem_offset", "uint64", _offset, lambda x: 0)

add_examples(
    globals(),
    """
    x = relax.Var("x", R.Tensor((2, 3), "float32"));
    f = lw.GlobalVar("f");
    s = relax.Var("s", R.Shape([2, 3]));
    m = relax.Var("m", R.Object())
    """,
    """
    builtin_alloc_tensor: relax.op.builtin.alloc_tensor([2, 3], "float32")  # R.builtin.alloc_tensor(R.shape([2, 3]), R.dtype("float32"), R.prim_value(0), R.str("global"))
    stop_lift_params: relax.op.builtin.stop_lift_params(x)  # R.builtin.stop_lift_params(x)
    memory_alloc_storage: relax.op.memory.alloc_storage([24], 0, "global", "uint8")  # R.memory.alloc_storage(R.shape([24]), R.prim_value(0), R.str("global"), R.dtype("uint8"))
    memory_alloc_tensor: relax.op.memory.alloc_tensor(m, 0, [2, 3], "float32")  # R.memory.alloc_tensor(m, R.prim_value(0), R.shape([2, 3]), R.dtype("float32"))
    memory_kill_storage: relax.op.memory.kill_storage(m)  # R.memory.kill_storage(m)
    memory_kill_tensor: relax.op.memory.kill_tensor(x)  # R.memory.kill_tensor(x)
    vm_alloc_storage: relax.op.vm.alloc_storage([2, 3], 0, "float32")  # R.vm.alloc_storage(R.shape([2, 3]), R.prim_value(0), R.dtype("float32"), R.str("global"))
    vm_alloc_tensor: relax.op.vm.alloc_tensor(m, 0, [2, 3], "float32")  # R.vm.alloc_tensor(m, R.prim_value(0), R.shape([2, 3]), R.dtype("float32"))
    vm_kill_object: relax.op.vm.kill_object(m)  # R.vm.kill_object(m)
    vm_call_tir_dyn: relax.op.vm.call_tir_dyn(f, [x, s])  # R.vm.call_tir_dyn(f, (x, s))
    view: relax.op.memory.view(x, [6])  # R.memory.view(x, R.shape([6]), R.tuple(), R.tuple())
    ensure_zero_offset: relax.op.memory.ensure_zero_offset(x)  # R.memory.ensure_zero_offset(x)
    """,
)
