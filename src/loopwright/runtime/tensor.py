"""Tensors: n-dimensional arrays that speak numpy and DLPack.

A tensor wraps a numpy array, a tvm-ffi tensor (the result of native code), or both over
the same memory; the second is made when first needed. Making one from the other copies nothing.

Integers below 8 bits (int4, uint4, ...) are packed as in DLPack, the first element in the lowest
bits: a `PackedTensor`. Its numpy side is a copy with an element per byte (ml_dtypes.int4).
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, Sequence
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from loopwright.base.errors import explain
from loopwright.runtime.device import Device, cpu
from loopwright.runtime.device import device as make_device
from loopwright.runtime.dlpack import array_at, byte_offset, capsule, capsule_of, dtype_of
from loopwright.runtime.dtype import (
    dl_dtype,
    dtype_name,
    elements_per_byte,
    is_native,
    is_packed,
    item_bytes,
    numpy_dtype,
    pack_bits,
    unpack_bits,
)
from loopwright.runtime.ffi import ffi

_CPU = cpu()


class Tensor:
    """An n-dimensional array in CPU memory. Make one with `tensor`, `empty` or `from_dlpack`.

    >>> x = lw.runtime.tensor(np.ones((2, 3), "float32"))
    >>> x.shape, x.dtype, float(x.numpy().sum())
    ((2, 3), 'float32', 6.0)
    """

    __slots__ = ("__weakref__", "_array", "_ffi")

    def __init__(self, array: np.ndarray) -> None:
        self._array: np.ndarray | None = array
        self._ffi: Any = None

    @classmethod
    def from_ffi(cls, value: Any) -> Tensor:
        """A tensor on a tvm-ffi tensor's memory."""
        if elements_per_byte(dtype_of(value)) > 1:
            return PackedTensor.on(value)
        return cls.on_plain(value)

    @classmethod
    def on_plain(cls, value: Any) -> Tensor:
        """The same, of a dtype known to be not packed."""
        self = cls.__new__(cls)
        self._array = None
        self._ffi = value
        return self

    # Properties

    @property
    def shape(self) -> tuple[int, ...]:
        return self._ffi.shape if self._array is None else self._array.shape

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return prod(self.shape)

    @property
    def strides(self) -> tuple[int, ...]:
        """Strides in elements."""
        if self._array is None:
            return self._ffi.strides
        return tuple(s // self._array.itemsize for s in self._array.strides)

    @property
    def dtype(self) -> str:
        return dtype_of(self._ffi) if self._array is None else self._array.dtype.name

    @property
    def device(self) -> Device:
        return _CPU

    @property
    def nbytes(self) -> int:
        return self.size * item_bytes(self.dtype)

    def data_ptr(self) -> int:
        """The address of the first element."""
        return self._ffi.data_ptr() if self._array is None else self._array.ctypes.data

    # Its two sides

    def view(self) -> np.ndarray:
        """A numpy array on the same memory; the lanes of vectors are its last dimension."""
        if self._array is None:
            value = self._ffi
            code, bits, lanes = dl_dtype(dtype_of(value))
            if lanes > 1:
                shape, steps = (*value.shape, lanes), (*(s * lanes for s in value.strides), 1)
                return array_at(value.data_ptr(), shape, steps, dtype_name(code, bits), value)
            if elements_per_byte(dtype_of(value)) > 1:
                return PackedTensor.on(value).view()
            try:
                self._array = np.from_dlpack(value)
            except (BufferError, RuntimeError):  # a type numpy has only through ml_dtypes
                self._array = array_at(
                    value.data_ptr(), value.shape, value.strides, dtype_of(value), value
                )
        return self._array

    def __tvm_ffi_object__(self) -> Any:
        """The tvm-ffi tensor on the same memory (tvm-ffi calls this to pass the tensor on)."""
        if self._ffi is None:
            array = self._array
            assert array is not None
            source = array if is_native(array.dtype) and array.flags.writeable else capsule(array)
            self._ffi = ffi().from_dlpack(source)
        return self._ffi

    def numpy(self) -> np.ndarray:
        """A numpy array with a copy of the values. `numpy.asarray(t)` is a view instead."""
        return self.view().copy()

    def asnumpy(self) -> np.ndarray:
        """`numpy()` under its older name."""
        return self.numpy()

    def __array__(self, dtype: np.dtype[Any] | None = None, copy: bool | None = None) -> np.ndarray:
        return np.array(self.view(), dtype=dtype, copy=copy)

    def __dlpack__(self, **options: bool | Sequence[int] | None) -> Any:
        if options.get("copy"):
            return Tensor(self.numpy()).__dlpack__()
        return self.__tvm_ffi_object__().__dlpack__(max_version=options.get("max_version"))

    def to_dlpack(self) -> Any:
        """A DLPack capsule on the same memory."""
        return self.__dlpack__()

    def __dlpack_device__(self) -> tuple[int, int]:
        return (Device.CPU, 0)

    # Values

    def bytes(self) -> np.ndarray:
        """Its bytes, flat, on the same memory. Raises ValueError if it is not contiguous."""
        array = self.view()
        if not array.flags.c_contiguous:
            what = f"a tensor with strides {self.strides} has no bytes in a row"
            raise ValueError(explain(what, instead="make a copy"))
        return array.reshape(-1).view(np.uint8)

    def _create_view(
        self, shape: Iterable[int], dtype: str | None = None, relative_byte_offset: int = 0
    ) -> Tensor:
        """The same memory, from a byte on, as a tensor of another shape or data type.

        Raises ValueError where that reaches beyond this tensor.
        """
        data, dims = self.bytes(), tuple(int(d) for d in shape)
        name = self.dtype if dtype is None else str(dtype)
        size = -(-prod(dims) // elements_per_byte(name)) * item_bytes(name)
        if relative_byte_offset < 0 or relative_byte_offset + size > data.size:
            end = relative_byte_offset + size
            raise ValueError(
                explain(
                    "a view may not reach beyond the tensor",
                    got=f"bytes {relative_byte_offset} to {end} of {data.size}",
                    tvm=f"the view would occupy bytes {relative_byte_offset} <= i_byte < {end}, "
                    f"the NDArray being viewed only contains {data.size} bytes",
                )
            )
        before = byte_offset(self.__tvm_ffi_object__())
        offset = before + relative_byte_offset
        return Tensor.from_ffi(
            ffi().from_dlpack(capsule_of(data, name, dims, row_major(dims), offset, before))
        )

    def copyfrom(self, source_array: Any) -> Tensor:
        """Copy values from an array of the same shape, casting to this dtype; returns self."""
        array = as_array(source_array)
        if array.shape != self.shape:
            raise ValueError(
                f"copyfrom: array shape {array.shape} does not match tensor shape {self.shape}"
            )
        self.view()[...] = array
        return self

    def copyto(self, target: Tensor | Device, mem_scope: str | None = None) -> Tensor:
        """Copy the values into a tensor, or into a new one on a device; returns the target."""
        _check_scope(mem_scope)
        if isinstance(target, Device):
            return tensor(self, target)
        return target.copyfrom(self)

    def item(self) -> Any:
        """The value of a tensor with one element, as a Python scalar."""
        return self.view().item()

    def __getitem__(self, index: Any) -> Any:
        """A view for slices, a numpy scalar for a single element."""
        value = self.view()[index]
        return Tensor(value) if isinstance(value, np.ndarray) else value

    def __setitem__(self, index: Any, value: np.ndarray | int | Sequence[int]) -> None:
        self.view()[index] = as_array(value)

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of a 0-dimensional tensor")
        return self.shape[0]

    def __iter__(self) -> Iterator[Any]:
        return (self[i] for i in range(len(self)))

    def __float__(self) -> float:
        return float(self.view().item())

    def __int__(self) -> int:
        return int(self.view().item())

    def __bool__(self) -> bool:
        return bool(self.view())

    def __repr__(self) -> str:
        head = f"<Tensor{list(self.shape)}, {self.device}, {self.dtype}>"
        return f"{head}\n{self.view()!r}"

    def same_as(self, other: object) -> bool:
        """Whether both are one object."""
        return self is other

    def __reduce__(self) -> Any:
        return Tensor, (self.numpy(),)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            what = f"{type(self).__name__!r} object has no attribute {name!r}"
            if not name.startswith("_") and hasattr(np.ndarray, name):
                what = explain(f"a tensor has no {name}", instead=f"tensor.numpy().{name}")
            raise AttributeError(what)


def _no_arithmetic(sign: str, is_reflected: bool) -> Callable[[Tensor, object], Any]:
    """An operator of Python's that tensors do not have: arrays do it, for one on the other side, too."""

    def refuse(self: Tensor, *others: object) -> Any:
        if any(type(other) not in _PLAIN and not isinstance(other, Tensor) for other in others):
            return NotImplemented  # an array, a node of a graph: it may have the operator
        other = ["tensor.numpy()" if isinstance(o, Tensor) else repr(o) for o in others]
        sides = [*other, "tensor.numpy()"] if is_reflected else ["tensor.numpy()", *other]
        hint = f" {sign} ".join(sides) if others else f"{sign}tensor.numpy()"
        what = "a tensor is the result of a model: it has no arithmetic"
        raise TypeError(explain(what, got=f"operator {sign}", instead=hint))

    return refuse


_PLAIN = (bool, int, float, complex, list, tuple)
_SIGNS = {"add": "+", "sub": "-", "mul": "*", "truediv": "/", "floordiv": "//", "mod": "%"}
_SIGNS |= {"pow": "**", "matmul": "@", "and": "&", "or": "|", "xor": "^"}
for _name, _sign in _SIGNS.items():
    setattr(Tensor, f"__{_name}__", _no_arithmetic(_sign, False))
    setattr(Tensor, f"__r{_name}__", _no_arithmetic(_sign, True))
for _name, _sign in {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "neg": "-"}.items():
    setattr(Tensor, f"__{_name}__", _no_arithmetic(_sign, False))


class PackedTensor(Tensor):
    """A tensor of integers below 8 bits: `ceil(size / elements per byte)` bytes, row-major.

    `numpy()`, `numpy.asarray` and indexing give copies; assignment and `copyfrom` write.
    """

    __slots__ = ("_bytes", "_dtype", "_shape")

    def __init__(self, data: np.ndarray, dtype: str, shape: tuple[int, ...]) -> None:
        super().__init__(data)
        self._bytes, self._dtype, self._shape = data, dtype, shape

    @classmethod
    def of(cls, array: np.ndarray, dtype: str) -> PackedTensor:
        """A new tensor with these values; values that do not fit the type wrap around."""
        packed = _empty_packed(array.shape, dtype)
        packed.bytes()[...] = pack_bits(array, dtype)
        return packed

    @classmethod
    def on(cls, value: Any) -> PackedTensor:
        """A tensor on a tvm-ffi tensor's memory."""
        dtype, shape = dtype_of(value), tuple(value.shape)
        steps = zip(value.strides or (), row_major(shape), shape, strict=False)
        if prod(shape) and any(step != row for step, row, extent in steps if extent != 1):
            what = f"a tensor of {dtype} with strides {tuple(value.strides)}"
            raise ValueError(f"{what} cannot be read; pass one that is contiguous")
        size = -(-prod(shape) // elements_per_byte(dtype))
        self = cls(array_at(value.data_ptr(), (size,), None, "uint8", value), dtype, shape)
        self._ffi = value
        return self

    @property
    def shape(self) -> tuple[int, ...]:
        return self._shape

    @property
    def strides(self) -> tuple[int, ...]:
        """Strides in elements."""
        return row_major(self._shape)

    @property
    def dtype(self) -> str:
        return self._dtype

    @property
    def nbytes(self) -> int:
        return self._bytes.size

    def bytes(self) -> np.ndarray:
        """The packed bytes, flat, on the same memory."""
        return self._bytes

    def view(self) -> np.ndarray:
        """The values with one element per byte; a copy, which is not written back."""
        values = unpack_bits(self._bytes, self._dtype, self._shape)
        try:
            return values.astype(numpy_dtype(self._dtype))
        except ValueError:  # int1, uint1: nothing but int8 holds them
            return values

    def numpy(self) -> np.ndarray:
        """The values with one element per byte."""
        return self.view()

    def __tvm_ffi_object__(self) -> Any:
        """The tvm-ffi tensor on the same memory."""
        if self._ffi is None:
            packed = capsule_of(self._bytes, self._dtype, self._shape, self.strides)
            self._ffi = ffi().from_dlpack(packed)
        return self._ffi

    def __dlpack__(self, **options: bool) -> Any:
        if options.get("copy"):
            return PackedTensor.of(self.view(), self._dtype).__dlpack__()
        return super().__dlpack__(max_version=options.get("max_version"))

    def copyfrom(self, source_array: Tensor | np.ndarray) -> Tensor:
        """Copy values from an array of the same shape, cut to this dtype; returns self."""
        array = as_array(source_array)
        if array.shape != self.shape:
            raise ValueError(
                f"copyfrom: array shape {array.shape} does not match tensor shape {self.shape}"
            )
        self._bytes[...] = pack_bits(array, self._dtype)
        return self

    def copyto(self, target: Tensor | Device, mem_scope: str | None = None) -> Tensor:
        """Copy the values into a tensor, or into a new one on a device; returns the target."""
        _check_scope(mem_scope)
        if isinstance(target, Device):
            _check_device(target)
            return PackedTensor.of(self.view(), self._dtype)
        return target.copyfrom(self)

    def __getitem__(self, index: int | Sequence[int]) -> Any:
        """The value of one element, or a new tensor with the values of a slice."""
        value = self.view()[index]
        return PackedTensor.of(value, self._dtype) if isinstance(value, np.ndarray) else value

    def __setitem__(self, index: Any, value: np.ndarray | int | Sequence[int]) -> None:
        values = unpack_bits(self._bytes, self._dtype, self._shape)
        values[index] = as_array(value)
        self._bytes[...] = pack_bits(values, self._dtype)

    def __reduce__(self) -> Any:
        return PackedTensor, (self._bytes.copy(), self._dtype, self._shape)


def row_major(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Strides in elements of a contiguous array."""
    return tuple(prod(shape[k + 1 :]) for k in range(len(shape)))


def _empty_packed(shape: tuple[int, ...], dtype: str) -> PackedTensor:
    count = -(-prod(shape) // elements_per_byte(dtype))
    return PackedTensor(empty((count,), "uint8").view(), dtype, tuple(shape))


class ShapeTuple(tuple):
    """A shape as a value: a tuple of integers that native code receives as one object."""

    def __new__(cls, values: Iterable[Any] = ()) -> ShapeTuple:
        return super().__new__(cls, (operator.index(v) for v in values))

    def __tvm_ffi_object__(self) -> Any:
        return ffi().Shape(tuple(self))._tvm_ffi_cached_object

    def __repr__(self) -> str:
        return f"ShapeTuple([{', '.join(map(str, self))}])"


def as_array(value: Any) -> np.ndarray:
    if isinstance(value, Tensor):
        return value.view()
    if isinstance(value, np.ndarray):
        return value
    if hasattr(value, "__dlpack__"):
        return from_dlpack(value).view()
    return np.asarray(value)


def _check_device(device: Device) -> None:
    if device.type_code != Device.CPU:
        raise ValueError(f"tensors live on the cpu here, got {device}; use cpu()")


def tensor(
    arr: Any,
    device: Device | str | None = None,
    dtype: str | None = None,
    mem_scope: str | None = None,
) -> Tensor:
    """A tensor with a copy of `arr`: a Tensor, numpy array, torch tensor, scalar or nested list."""
    where = make_device(device if device is not None else _CPU)
    _check_scope(mem_scope)
    array = as_array(arr)
    name = array.dtype.name if dtype is None else str(dtype)
    if where.link is not None:
        return where.put(array, name)
    _check_device(where)
    if elements_per_byte(name) > 1 and array.dtype.kind not in "OSUM":
        return PackedTensor.of(array, name)
    target = array.dtype if dtype is None else numpy_dtype(dtype)
    if target.kind in "OSUM":
        raise TypeError(f"cannot make a tensor from values of numpy dtype {array.dtype}")
    return Tensor(np.array(array, dtype=target, order="C", copy=True))


def _check_scope(scope: str | None) -> None:
    if scope not in (None, "global"):
        what = "tensors live in global memory here"
        raise ValueError(explain(what, got=f"mem_scope {scope!r}", instead="leave mem_scope out"))


def empty(
    shape: Iterable[int] | int,
    dtype: str = "float32",
    device: Device | str | None = None,
    mem_scope: str | None = None,
) -> Tensor:
    """A tensor whose values are not set, 64-byte aligned."""
    where = make_device(device if device is not None else _CPU)
    _check_scope(mem_scope)
    dims = (shape,) if isinstance(shape, int) else tuple(int(s) for s in shape)
    if where.link is not None:
        return where.empty(dims, str(dtype))
    _check_device(where)
    if elements_per_byte(str(dtype)) > 1:
        return _empty_packed(dims, str(dtype))
    if dl_dtype(str(dtype))[2] > 1:  # vectors, which numpy has no type for
        return empty((prod(dims) * item_bytes(str(dtype)),), "uint8")._create_view(dims, dtype)
    return Tensor(aligned_empty(dims, numpy_dtype(str(dtype))))


def aligned_empty(dims: tuple[int, ...], kind: np.dtype[Any]) -> np.ndarray:
    """An array whose values are not set, aligned to 64 bytes."""
    return _aligned(np.empty, dims, kind)


def aligned_zeros(dims: tuple[int, ...], kind: np.dtype[Any]) -> np.ndarray:
    """An array of zeros, aligned to 64 bytes. The system clears its pages when they are used."""
    return _aligned(np.zeros, dims, kind)


def _aligned(make: Callable[..., Any], dims: tuple[int, ...], kind: np.dtype[Any]) -> np.ndarray:
    count = prod(dims) * kind.itemsize
    block = make(count + 63, np.uint8)
    start = -block.ctypes.data % 64
    return block[start : start + count].view(kind).reshape(dims)


def aligned(array: np.ndarray) -> np.ndarray:
    """The array in its own memory, contiguous and aligned to 64 bytes; a copy if it is not."""
    base = array.base if isinstance(array.base, np.ndarray) else array
    own = array.flags.c_contiguous and base.nbytes <= array.nbytes + 64
    if own and array.ctypes.data % 64 == 0:
        return array
    copy = aligned_empty(array.shape, array.dtype)
    copy[...] = array
    return copy


def from_dlpack(ext_tensor: Any) -> Tensor:
    """A tensor on another library's memory, without a copy: numpy, torch, jax, tvm-ffi, capsules."""
    if isinstance(ext_tensor, Tensor):
        return ext_tensor
    if isinstance(ext_tensor, np.ndarray):
        kind = ext_tensor.dtype
        return PackedTensor.of(ext_tensor, kind.name) if is_packed(kind) else Tensor(ext_tensor)
    if type(ext_tensor).__module__.partition(".")[0] == "tvm_ffi":
        tensor = ext_tensor
    else:
        tensor = ffi().from_dlpack(ext_tensor)
    kind = tensor.__dlpack_device__()
    if kind[0] != Device.CPU:
        raise ValueError(f"tensors live on the cpu here, got one on {Device(*kind)}")
    return Tensor.from_ffi(tensor)
