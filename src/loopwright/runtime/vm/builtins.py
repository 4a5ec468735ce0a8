"""The functions `vm.builtin.*` that compiled graph functions call.

Each takes and returns registers' values (see `values`). Those that need the machine take it first.
In the runtime's table of functions they take and return what users have.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from functools import cache
from math import prod
from typing import Any

import numpy as np

from ...base.errors import explain
from ...base.late import Slot
from ..device import Device
from ..dlpack import byte_offset, dtype_of
from ..dtype import dl_dtype, elements_per_byte, numpy_dtype
from ..effects import require, say
from ..ffi import ffi
from ..packed_func import get_global_func, register_func
from ..tensor import ShapeTuple, Tensor, empty, tensor
from .values import VMValueError, arrive, depart, item, outward, wrong_kind

# What make_shape and match_shape do with a dimension; each code is followed by a number.
USE_IMM, LOAD = 0, 1
EQUALS_IMM, STORE, IGNORE, EQUALS_LOAD = 0, 1, 2, 3


def builtin(name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Declare a function of registers' values, `vm.builtin.NAME` unless the name has a dot."""
    full = name if "." in name else f"vm.builtin.{name}"

    def declare(function: Callable[..., Any]) -> Callable[..., Any]:
        register_func(full, outward(function), override=True)
        return function

    return declare


def view_of(value: object) -> np.ndarray:
    """A numpy array on a tensor's memory."""
    return value if isinstance(value, np.ndarray) else Tensor.from_ffi(value).view()


@cache
def _tensor_kinds() -> tuple[type, ...]:
    return (ffi().Tensor, np.ndarray)


def is_tensor(value: object) -> bool:
    """Whether a register holds a tensor."""
    return isinstance(value, _tensor_kinds())


# --- checks -----------------------------------------------------------------------


@builtin("check_tensor_info")
def check_tensor_info(value: Any, ndim: int, *rest: str) -> None:
    """Check a tensor's rank (-1: any) and, if one is given, its data type."""
    dtype, context = rest if len(rest) > 1 else ("", *rest)
    if not is_tensor(value):
        raise wrong_kind("a tensor", value, context)
    if ndim not in (-1, len(value.shape)):
        got = f"{len(value.shape)}, shape {tuple(value.shape)}"
        raise VMValueError(explain(f"{context} the tensor must have ndim {ndim}", got=got))
    if dtype not in ("", "void", dtype_of(value)):
        what = f"{context} the tensor must have dtype {dtype}"
        raise VMValueError(explain(what, got=dtype_of(value)))


@builtin("check_shape_info")
def check_shape_info(value: ShapeTuple | Sequence[Any], ndim: int, context: str = "") -> None:
    """Check that a value is a shape of a rank (-1: any)."""
    if not isinstance(value, ShapeTuple):
        raise wrong_kind("a shape", value, context)
    if ndim not in (-1, len(value)):
        raise VMValueError(explain(f"{context}the shape must have ndim {ndim}", got=f"{value}"))


@builtin("check_prim_value_info")
def check_prim_value_info(value: str | float, dtype: str, context: str = "") -> None:
    """Check that a value is a number of a data type."""
    if dtype == "bool":
        good = isinstance(value, (bool, int))
    elif dtype.startswith("float"):
        good = isinstance(value, (float, int))
    else:
        good = isinstance(value, int)
    if not good:
        raise wrong_kind(f"a number of {dtype}", value, context)


@builtin("check_tuple_info")
def check_tuple_info(value: object, size: int, context: str = "") -> None:
    """Check that a value is a tuple of a number of elements."""
    if isinstance(value, ffi().Array):
        value = arrive(value)
    if not isinstance(value, tuple) or isinstance(value, ShapeTuple):
        raise wrong_kind("a tuple", value, context)
    if len(value) != size:
        raise VMValueError(explain(f"{context}the tuple must have {size} elements", got=len(value)))


@builtin("check_func_info")
def check_func_info(value: int | Callable[..., Any], context: str = "") -> None:
    """Check that a value can be called."""
    if not callable(value):
        raise wrong_kind("a function", value, context)


# --- shapes -----------------------------------------------------------------------


@builtin("shape_of")
def shape_of(value: Any) -> ShapeTuple:
    """The shape of a tensor; a shape itself."""
    if isinstance(value, ShapeTuple):
        return value
    if not is_tensor(value):
        raise wrong_kind("a tensor or shape", value)
    return ShapeTuple(value.shape)


@builtin("alloc_shape_heap")
def alloc_shape_heap(vm: Any, size: int) -> np.ndarray:
    """Cells for the values of symbolic dimensions."""
    return np.zeros(size, np.int64)


@builtin("match_shape")
def match_shape(value: Any, heap: object, size: int, *codes: Any) -> None:
    """Compare dimensions with numbers and cells, or store them."""
    shape, context = shape_of(value), codes[-1]
    if len(shape) != size:
        raise VMValueError(explain(f"{context} the value must have ndim {size}", got=f"{shape}"))
    cells = None if heap is None else view_of(heap)
    for axis, code in enumerate(codes[:-1:2]):
        _match(shape[axis], cells, code, codes[2 * axis + 1], f"{context} dimension {axis}")


@builtin("match_prim_value")
def match_prim_value(value: int, heap: object, code: int, number: int, context: str = "") -> None:
    """Compare a number with one or with a cell, or store it."""
    _match(value, None if heap is None else view_of(heap), code, number, f"{context} the value")


def _match(value: int, cells: Any, code: int, number: int, what: str) -> None:
    if code == STORE:
        cells[number] = value
    elif code != IGNORE:
        expected = number if code == EQUALS_IMM else int(cells[number])
        if value != expected:
            mismatch(what, expected, value)


def mismatch(what: str, expected: int, got: int) -> None:
    """Raise the error for a dimension that is not the expected one."""
    raise VMValueError(explain(f"{what} must be {expected}", got=got))


@builtin("make_shape")
def make_shape(heap: object, size: int, *codes: int) -> ShapeTuple:
    """A shape from numbers and cells."""
    cells: Sequence[int] | np.ndarray = () if heap is None else view_of(heap)
    pairs = zip(codes[::2], codes[1::2], strict=True)
    return ShapeTuple(n if c == USE_IMM else int(cells[n]) for c, n in pairs)


@builtin("make_prim_value")
def make_prim_value(heap: Any, code: int, number: int) -> int:
    """A number, or the content of a cell."""
    return number if code == USE_IMM else int(view_of(heap)[number])


@builtin("tensor_to_shape")
def tensor_to_shape(value: Any) -> ShapeTuple:
    """The elements of a 1-d integer tensor as a shape. Raises ValueError for numbers of another kind."""
    elements = view_of(value)
    if elements.dtype.kind not in "iu":
        raise VMValueError(
            explain("a tensor of sizes or indices", got=str(elements.dtype), instead="integers")
        )
    return ShapeTuple(elements.reshape(-1).tolist())


def number_of(value: Any) -> Any:
    """The only number of a tensor. Raises ValueError where there are more, or none."""
    elements = view_of(value)
    if elements.size != 1:
        raise VMValueError(explain("a tensor of one number", got=f"shape {elements.shape}"))
    return elements.item()


@builtin("relax.run.sizes")
def sizes(value: Any) -> ShapeTuple:
    """The elements of an integer tensor as sizes. Raises ValueError if one is negative."""
    counts = ShapeTuple(
        map(int, view_of(value).reshape(-1).tolist())
    )  # ONNX has sizes that are floats, too
    if any(d < 0 for d in counts):
        raise VMValueError(explain("a size may not be negative", got=f"{tuple(counts)}"))
    return counts


@builtin("relax.run.reshape_sizes")
def reshape_sizes(value: Any, shape: Any, allow_zero: bool) -> ShapeTuple:
    """The shape that a tensor is to take: one dimension may be -1, which is inferred; 0 is
    the dimension of the tensor unless `allow_zero`."""
    old, new = tuple(value.shape), list(tensor_to_shape(shape))
    for k, d in enumerate(new):
        if d == 0 and not allow_zero and k < len(old):
            new[k] = old[k]
    rest = prod(d for d in new if d != -1)
    if new.count(-1) == 1 and rest > 0 and prod(old) % rest == 0:
        new[new.index(-1)] = prod(old) // rest
    if any(d < 0 for d in new) or prod(new) != prod(old):
        what = f"a tensor of shape {old} cannot be reshaped"
        raise VMValueError(explain(what, got=f"{tuple(tensor_to_shape(shape))}"))
    return ShapeTuple(new)


@builtin("relax.run.shape_to_tensor")
def shape_to_tensor(shape: ShapeTuple) -> Any:
    """A shape as a 1-d int64 tensor."""
    return arrive(np.array(shape, np.int64))


# --- memory -----------------------------------------------------------------------


class Storage:
    """Bytes that tensors are placed in, aligned to 64."""

    __slots__ = ("data", "scope")

    def __init__(self, size: int, scope: str = "global") -> None:
        self.data, self.scope = empty((size,), "uint8").view(), scope


@builtin("alloc_storage")
def alloc_storage(
    vm: Any, shape: ShapeTuple, device: int = 0, dtype: str = "uint8", scope: str = "global"
) -> Storage:
    """Storage for a tensor of a shape."""
    return Storage(-(-prod(shape) * numpy_dtype(dtype).itemsize // elements_per_byte(dtype)), scope)


@builtin("alloc_tensor")
def alloc_tensor(storage: Storage, offset: int, shape: ShapeTuple, dtype: str) -> Any:
    """A tensor in a storage, from a byte on."""
    if not isinstance(storage, Storage):
        raise wrong_kind("a storage", storage)
    if elements_per_byte(dtype) > 1:
        return arrive(empty(shape, dtype))
    kind = numpy_dtype(dtype)
    size = prod(shape) * kind.itemsize
    if offset + size > storage.data.nbytes:
        what = f"a tensor of shape {tuple(shape)} and dtype {dtype} at byte {offset} does not fit"
        raise VMValueError(explain(what, got=f"a storage of {storage.data.nbytes} bytes"))
    return arrive(storage.data[offset : offset + size].view(kind).reshape(shape))


@builtin("reshape")
def reshape(value: Any, shape: ShapeTuple) -> Any:
    """The same memory under another shape."""
    array = view_of(value)
    if array.size != prod(shape):
        what = f"a tensor of {array.size} elements cannot be reshaped to {tuple(shape)}"
        raise VMValueError(explain(what, got=f"shape {array.shape}"))
    return arrive(array.reshape(shape))


@builtin("runtime.TVMArrayCreateView")
def create_view(
    value: Any,
    shape: ShapeTuple | None = None,
    dtype: str | str | None = None,
    offset: int | None = None,
) -> Any:
    """A view of a tensor's bytes from an offset on, of another shape or data type."""
    dims = value.shape if shape is None else shape
    return arrive(depart(value)._create_view(dims, dtype, offset or 0))


@builtin("ensure_zero_offset")
def ensure_zero_offset(value: Any) -> Any:
    """The tensor, or a copy if its first element is not at its data pointer."""
    return arrive(Tensor(depart(value).numpy())) if byte_offset(value) else value


def _axis_of(values: Sequence[int], axis: int) -> int:
    if not 0 <= axis < len(values):
        what = f"the tensor has no axis {axis}"
        raise VMValueError(explain(what, got=f"{len(values)} dimensions"))
    return values[axis]


def _element_offset(value: Any) -> int:
    _, bits, lanes = dl_dtype(dtype_of(value))
    return byte_offset(value) * 8 // (bits * lanes)


# The functions of `relax.inspect.*`.
for _name, _read in {
    "tensor_dtype_code": lambda value: dl_dtype(dtype_of(value))[0],
    "tensor_dtype_bits": lambda value: dl_dtype(dtype_of(value))[1],
    "tensor_dtype_lanes": lambda value: dl_dtype(dtype_of(value))[2],
    "tensor_ndim": lambda value: len(value.shape),
    "tensor_shape_i": lambda value, axis: _axis_of(value.shape, axis),
    "tensor_stride_i": lambda value, axis: _axis_of(value.strides, axis),
    "tensor_byte_offset": byte_offset,
    "tensor_elem_offset": _element_offset,
}.items():
    builtin(_name)(_read)


@builtin("to_device")
def to_device(value: Any, device_type: int, index: int) -> Any:
    """The tensor on a device."""
    return arrive(tensor(depart(value), Device(device_type, index)))


@builtin("copy")
def copy(value: Any) -> Any:
    """The value itself, in another register."""
    return value


@builtin("null_value")
def null_value() -> None:
    """No value."""
    return None


# --- control, tuples, functions -----------------------------------------------------


@builtin("read_if_cond")
def read_if_cond(value: Any) -> bool:
    """A condition: a number, or a tensor with one element."""
    if not is_tensor(value) or isinstance(value, np.ndarray):
        return bool(value)
    if value.ndim == 0 and value.dtype == "bool":
        return byte_at(value.data_ptr()).value != 0
    return bool(number_of(value))


@builtin("read_bool")
def read_bool(value: Any) -> bool:
    """The value of a bool tensor with one element from native code, unchecked."""
    return byte_at(value.data_ptr()).value != 0


byte_at = ctypes.c_uint8.from_address


@builtin("make_tuple")
def make_tuple(*fields: str | int) -> tuple[Any, ...]:
    """A tuple."""
    return fields


@builtin("tuple_getitem")
def tuple_getitem(value: Sequence[str | int], index: int) -> Any:
    """A field of a tuple."""
    return item(value, index)


@builtin("tuple_reset_item")
def tuple_reset_item(value: Sequence[Any], index: int) -> Any:
    """A field of a tuple. The tuple may be shared: it stays unchanged."""
    return item(value, index)


@builtin("make_closure")
def make_closure(*args: Any) -> Callable[..., Any]:
    """A function that is called with its arguments and then the captured values, as lambda lifting
    orders them. Takes the function and the values, after the machine where the function is a name."""
    vm, function, captured = None, args[0], args[1:]
    if hasattr(function, "callable"):
        (vm, function), captured = args[:2], args[2:]
    call = function if vm is None else vm.callable(function)
    return lambda *operands: call(*operands, *captured)


@builtin("invoke_closure")
def invoke_closure(vm: Any, function: str, *args: int) -> Any:
    """Call a closure or function."""
    return vm.callable(function)(*args)


@builtin("call_tir_dyn")
def call_tir_dyn(vm: Any, function: str | Callable[..., Any], *args: Any) -> Any:
    """Call a kernel; a shape as the last argument is passed as numbers."""
    if args and isinstance(args[-1], ShapeTuple):
        args = (*args[:-1], *args[-1])
    return vm.callable(function)(*args)


# --- sampling and caches --------------------------------------------------------------


@builtin("multinomial_from_uniform")
def multinomial_from_uniform(prob: Any, uniform: Any, *rest: Any) -> Any:
    """For each row, the first index at which the sum of probabilities exceeds a number in [0, 1]."""
    weights, numbers = view_of(prob), view_of(uniform)
    rows = view_of(rest[0]).reshape(-1) if rest and is_tensor(rest[0]) else range(len(numbers))
    samples = np.empty((len(numbers), 1), np.int64)
    for k, row in enumerate(rows):
        total = np.cumsum(weights[row])
        last = len(total) - 1
        samples[k] = min(int(np.searchsorted(total, numbers[k, 0], side="right")), last)
    return arrive(samples)


class KVCache:
    """Rows that grow at the end, or turn around in a window."""

    def __init__(self, rows: np.ndarray, filled: int) -> None:
        self.rows, self.filled, self.turn = rows, filled, filled

    def append(self, new: np.ndarray) -> None:
        """Add rows at the end; the room doubles where it does not suffice."""
        end = self.filled + len(new)
        if end > len(self.rows):
            more = np.zeros((max(end, 2 * len(self.rows)), *self.rows.shape[1:]), self.rows.dtype)
            more[: self.filled] = self.rows[: self.filled]
            self.rows = more
        self.rows[self.filled : end] = new
        self.filled = end

    def override(self, new: np.ndarray, window: int, sinks: int = 0) -> None:
        """Write rows from the current position on; after the window, on from its first row that is
        no sink."""
        for row in new:
            if self.turn >= window:
                self.turn = sinks
            self.rows[self.turn] = row
            self.turn += 1
        self.filled = min(self.filled + len(new), window)


@builtin("attention_kv_cache_create")
def kv_cache_create(initial: Any, room: ShapeTuple, filled: int) -> KVCache:
    """A cache with room for rows, the first of them given."""
    array = view_of(initial)
    rows = np.zeros(tuple(room), array.dtype)
    rows[: len(array)] = array[: len(rows)]
    return KVCache(rows, filled)


@builtin("attention_kv_cache_append")
def kv_cache_append(cache: KVCache, value: Any) -> KVCache:
    """The cache with rows added."""
    cache.append(view_of(value))
    return cache


@builtin("attention_kv_cache_window_override")
def kv_cache_window_override(cache: KVCache, value: Any, window: int) -> KVCache:
    """The cache with rows written into its window."""
    cache.override(view_of(value), window)
    return cache


@builtin("attention_kv_cache_window_override_with_sinks")
def kv_cache_window_override_with_sinks(
    cache: KVCache, value: Any, window: int, sinks: int
) -> KVCache:
    """`window_override` that leaves the first rows alone once they are written."""
    cache.override(view_of(value), window, sinks)
    return cache


@builtin("attention_kv_cache_view")
def kv_cache_view(cache: KVCache, shape: ShapeTuple) -> Any:
    """The rows of a cache as a tensor of a shape. Raises ValueError where it has others."""
    if shape[0] != cache.filled:
        what = f"the cache holds {cache.filled} elements"
        raise VMValueError(explain(what, got=f"a view of {shape[0]}"))
    return arrive(cache.rows[: cache.filled].reshape(shape).copy())


# --- operators without kernels ------------------------------------------------------------

OPERATOR: Slot[Callable[..., Any]] = Slot("runtime.operator")


@builtin("relax.run.operator")
def run_operator(name: str, attrs: str, *args: Any) -> Any:
    """An operator of which no kernel could be made, as a rank is known at run time only: by its
    numpy meaning, which the compiler has."""
    return arrive(OPERATOR.get()(name, attrs, *map(depart, args)))


# --- effects ----------------------------------------------------------------------------


@builtin("relax.run.print")
def run_print(text: str, *values: Any) -> tuple[()]:
    """Print values by a format string."""
    return say(text, *map(_shown, values))


@builtin("relax.run.assert_op")
def run_assert(condition: Any, text: str, *values: Any) -> tuple[()]:
    """Raise AssertionError unless a condition holds."""
    return require(_shown(condition), text, *map(_shown, values))


def _shown(value: object) -> Any:
    if type(value) is tuple:
        return tuple(map(_shown, value))
    return view_of(value) if is_tensor(value) else value


@builtin("invoke_debug_func")
def invoke_debug_func(state: int | None, name: str, line: str, *args: Any) -> Any:
    """Call a registered function with a line of the source and values; the state is passed through."""
    get_global_func(name)(line, *map(depart, args))
    return state


@builtin("debug_print")
def debug_print(line: str, value: Any) -> None:
    """Print a value and the line of the source that requests it."""
    print(f"[{line}] {_shown(value)}")


# --- lists that grow --------------------------------------------------------------------


@builtin("relax.run.append")
def append(before: Sequence[Any] | None, value: Any) -> tuple[Any, Any]:
    """A list with a value added: what there was before, and the value. None is the empty list."""
    return before, value


@builtin("relax.run.stack")
def stack(items: Sequence[Any] | None, shape: ShapeTuple, dtype: str) -> Any:
    """The tensors of a list as one; shape and data type are those of one element where the list is empty."""
    values = []
    while items is not None:
        items, value = items
        values.append(value)
    if not values:
        return arrive(np.zeros((0, *shape), numpy_dtype(dtype)))
    kind, form = ffi().Tensor, values[0].shape
    plain = all(type(v) is kind and v.shape == form and v.is_contiguous() for v in values)
    if not plain or elements_per_byte(dtype) > 1:
        return arrive(np.stack([view_of(v) for v in reversed(values)]))
    out = np.empty((len(values), *form), numpy_dtype(dtype))
    at, size = out.ctypes.data, out.nbytes // len(values)
    for value in reversed(values):  # a fifth of the time of a numpy array for each
        ctypes.memmove(at, value.data_ptr(), size)
        at += size
    return arrive(out)


def as_function(
    value: str | int | Callable[..., Any], own: Callable[[str], Any]
) -> Callable[..., Any]:
    """A value in a register as a function of registers' values."""
    if isinstance(value, str):
        return own(value)
    if callable(value):
        return value
    raise wrong_kind("a function", value)


def inline_codes(codes: Sequence[int]) -> list[tuple[int, int]]:
    """(code, number) of each dimension."""
    return list(zip(codes[::2], codes[1::2], strict=True))
