"""Scalar operations of the interpreter: helpers that translated functions call.

Scalars are Python bools, ints and floats; none of the helpers raises for a value (log(0) is
-inf, exp(1000) is inf, 0.0 / 0.0 is NaN).
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from ...base.errors import LoopwrightError, explain
from ...ir.dtype import DataType, numpy_dtype
from ...ir.op import Op
from ...runtime.dtype import elements_per_byte, pack_bits
from ...runtime.tensor import PackedTensor, Tensor
from .machine import MACHINE

_one_float: Any = np.zeros(1, "float32").data


def round32(x: float) -> float:
    """x rounded to float32."""
    _one_float[0] = x
    return _one_float[0]


def rounder(dtype: DataType) -> Callable[[float], float]:
    """A function that rounds a float to a type below 32 bits."""
    kind = numpy_dtype(dtype.element).type

    def round_to(x: float) -> float:
        if type(x) is int and dtype.base != "float16":  # through float32, as in compiled code
            x = float(np.float32(x))
        return float(kind(x))

    return round_to


def divide(a: float, b: float) -> float:
    """Float division where b may be 0."""
    if b:
        return a / b
    if a != a or a == 0 or b != b:
        return math.nan
    return math.copysign(math.inf, a) * math.copysign(1.0, b)


def trunc_div(a: int, b: int) -> int:
    """a / b rounded toward zero; 0 where b is 0, as in compiled code."""
    if b == 0:
        return 0
    q = abs(a) // abs(b)
    return q if (a >= 0) == (b >= 0) else -q


def trunc_mod(a: int, b: int) -> int:
    """The remainder of `trunc_div`; 0 where b is 0."""
    return a - trunc_div(a, b) * b if b else 0


def floor_div(a: int, b: int) -> int:
    """a // b; 0 where b is 0."""
    return a // b if b else 0


def floor_mod(a: int, b: int) -> int:
    """a % b; 0 where b is 0."""
    return a % b if b else 0


def real_floor_mod(a: float, b: float) -> float:
    """The remainder of a / b with the sign of b; NaN where b is 0 or a infinite."""
    rest = FLOAT["fmod"](a, b)
    return rest + b if rest and (rest < 0) != (b < 0) else rest


def shifted_left(a: int, b: int, bits: int) -> int:
    """a << b; 0 if b is not in [0, bits)."""
    return a << b if 0 <= b < bits else 0


def shifted_right(a: int, b: int, bits: int) -> int:
    """a >> b; 0 or -1, by the sign of a, if b is not in [0, bits)."""
    return a >> (b if 0 <= b < bits else bits)


def int_pow(a: int, b: int, bits: int) -> int:
    """a ** b, wrapped to `bits` bits; for a negative b rounded toward zero, 0 of 0."""
    return pow(a, b, 1 << bits) if b >= 0 else a ** (-b & 1) * (abs(a) == 1)


def _safe(exact: Callable[..., Any], fallback: Callable[..., Any]) -> Callable[..., float]:
    def apply(*args: float) -> float:
        try:
            return exact(*args)
        except (ValueError, OverflowError, ZeroDivisionError):
            with np.errstate(all="ignore"):
                return float(fallback(*map(np.float64, args)))

    return apply


def _sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x)) if x >= -700 else 0.0 if x == x else x


def _rsqrt(x: float) -> float:
    if x > 0:
        return 1 / math.sqrt(x)
    return math.copysign(math.inf, x) if x == 0 else math.nan


def fma(a: float, b: float, c: float) -> float:
    """a * b + c rounded once."""
    rounded = a * b + c
    if not all(map(math.isfinite, (a, b, c))):
        return rounded
    try:
        return float(Fraction(a) * Fraction(b) + Fraction(c)) or rounded * 0.0
    except OverflowError:
        return rounded


def _whole(numpy_fn: Callable[[Any], Any]) -> Callable[[float], float]:
    return lambda x: float(numpy_fn(x))


def _exact(name: str) -> Callable[..., float]:
    """The function of Python, and where that raises an error, the result of numpy."""
    return _safe(getattr(math, name), Op.get(f"tir.{name}").get_attr("numpy"))


_RAISING = """
    exp exp2 expm1 log log2 log10 log1p tan cos sin cosh sinh acos asin acosh asinh atanh sqrt pow fmod
""".split()  # noqa: SIM905
_TOTAL = ("erf", "tanh", "atan", "atan2", "hypot", "copysign", "cbrt", "isnan", "isinf")
FLOAT: dict[str, Callable[..., float]] = {
    **{name: _exact(name) for name in _RAISING},
    **{name: getattr(math, name) for name in _TOTAL},
    "exp10": _safe(lambda x: math.pow(10.0, x), Op.get("tir.exp10").get_attr("numpy")),
    "sigmoid": _sigmoid,
    "rsqrt": _rsqrt,
    "floor": _whole(np.floor),
    "ceil": _whole(np.ceil),
    "trunc": _whole(np.trunc),
    "round": _whole(np.rint),
    "nearbyint": _whole(np.rint),
    "fabs": abs,
    "fma": fma,
    "fmin": lambda a, b: b if a != a or b < a else a,
    "fmax": lambda a, b: b if a != a or b > a else a,
}
# Names of the same functions in LLVM and other libraries.
_ALIASES = {
    "minnum": "fmin",
    "maxnum": "fmax",
    "rint": "nearbyint",
    "roundeven": "nearbyint",
    "abs": "fabs",
    "fmuladd": "fma",
}


def library_function(name: str) -> Callable[..., Any] | None:
    """The Python equivalent of a C or LLVM function on floats ("expf", "llvm.exp.f32", "powf"), or
    of a machine instruction."""
    if name in MACHINE:
        return MACHINE[name]
    if name.startswith("llvm."):
        name = name.split(".")[1]
    name = _ALIASES.get(name, name)
    return FLOAT.get(name) or FLOAT.get(name.removesuffix("f"))


def ldexp(x: float, e: float) -> float:
    """x * 2**e."""
    try:
        return math.ldexp(x, int(e))
    except OverflowError:
        return math.copysign(math.inf, x)


def nextafter(dtype: DataType) -> Callable[[float, float], float]:
    """The next float of the type, towards y."""
    kind = numpy_dtype(dtype).type
    return lambda x, y: y if x == y else float(np.nextafter(kind(x), kind(y)))


def float_to_int(bits: int, signed: bool) -> Callable[[float], int]:
    """Truncation toward zero; out-of-range values give x86's result (the least int32,
    or int64 for wide types, truncated to the type)."""
    wide = 64 if bits > 32 or (bits == 32 and not signed) else 32
    low, high = -(1 << (wide - 1)), (1 << (wide - 1)) - 1
    wrap = wrapper(bits, signed)

    def convert(x: float) -> int:
        if not low - 1 < x < high + 1:  # also true for NaN
            if not signed and bits == 64 and high < x < 2.0**64:
                return int(x)
            return wrap(low)
        return wrap(int(x))

    return convert


def wrapper(bits: int, signed: bool) -> Callable[[int], int]:
    """A function that wraps an integer to its type."""
    mask, half = (1 << bits) - 1, 1 << (bits - 1)
    if signed:
        return lambda x: (x + half & mask) - half
    return lambda x: x & mask


def count_leading_zeros(bits: int) -> Callable[[int], int]:
    """Leading zero bits of an integer of that width."""
    mask = (1 << bits) - 1
    return lambda x: bits - (x & mask).bit_length()


def dp4a(a: np.ndarray, b: np.ndarray, total: int) -> int:
    """The dot product of two vectors of bytes, plus an accumulator."""
    return total + int(np.dot(a.astype(np.int64), b.astype(np.int64)))


def q_multiply_shift(x: int, y: int, q: int, s: int) -> int:
    """x * y as numbers with q fraction bits, times 2**-s, rounded half up."""
    total = q + s
    return (x * y + (1 << (total - 1))) >> total if total > 0 else (x * y) << -total


def q_multiply_shift_per_axis(
    x: int, y: int, ls: int, rs: int, q: int, left: bool, right: bool
) -> int:
    """As `q_multiply_shift`, with a left shift before or a right shift after."""
    value = (x << ls if left else x) * y
    total = q + rs if right else q
    return (value + (1 << (total - 1))) >> total


_STRUCT = {"float32": "f", "float64": "d", "float16": "e"}


def reinterpret(old: DataType, new: DataType) -> Callable[[Any], Any]:
    """The same bits as another type; a pointer has no bits here and is passed through."""
    if new.is_handle or old.is_handle:
        return lambda x: x if isinstance(x, np.ndarray) or x else None
    source, target = numpy_dtype(old), numpy_dtype(new)
    fast_in = _STRUCT.get(old.base) or source.char
    fast_out = _STRUCT.get(new.base) or target.char
    if source.itemsize * old.lanes != target.itemsize * new.lanes:
        what = "reinterpret needs types of one size"
        raise LoopwrightError(explain(what, got=f"{old} and {new}"))
    plain = all(not d.is_float or d.base in _STRUCT for d in (old, new))
    if old.lanes > 1 or new.lanes > 1 or not plain:
        scalar = new.lanes == 1
        return lambda x: _scalar(np.asarray(x, source).reshape(-1).view(target), scalar)
    return lambda x: struct.unpack(fast_out, struct.pack(fast_in, x))[0]


def _scalar(values: np.ndarray, scalar: bool) -> Any:
    return values[0].item() if scalar else values


def atomic_add(array: np.ndarray, value: float) -> Any:
    """Add to the first element; return the old value."""
    old = array[0].item()
    array[0] = old + value
    return old


def out_of_bounds(name: str, axis: int, index: int, extent: int, where: str) -> Any:
    """Raise IndexError for an index outside its dimension."""
    position = f" at {where}" if where else ""
    what = f"buffer {name}: index out of bounds on axis {axis}{position}"
    raise IndexError(explain(what, got=f"{index}, the axis has {extent} elements"))


def index_from_data(index: int, extent: int, where: str) -> int:
    """A non-negative index; negative ones count from the end. Raises IndexError out of range."""
    if -extent <= index < extent:
        return index % extent
    prefix = f"{where}: " if where else ""
    raise IndexError(f"{prefix}index {index} is out of range for an axis of extent {extent}")


def checked(indices: np.ndarray, extent: int, name: str, axis: int, where: str) -> np.ndarray:
    """A vector of indices, checked to be in bounds."""
    if indices.size and not (int(indices.min()) >= 0 and int(indices.max()) < extent):
        bad = int(indices.min())
        out_of_bounds(name, axis, bad if bad < 0 else int(indices.max()), extent, where)
    return indices


def checked_masked(
    indices: np.ndarray, mask: np.ndarray, extent: int, name: str, axis: int, where: str
) -> np.ndarray:
    """A vector of indices, inside the dimension where the mask holds; 0 elsewhere."""
    safe = np.where(mask, indices, 0)
    return checked(safe, max(extent, 1), name, axis, where)


def no_meaning(name: str) -> Any:
    """Raise for an intrinsic without an interpretation."""
    what = "the interpreter knows no meaning of this call"
    hint = "register a function of that name (register_func), or run the compiled function"
    raise LoopwrightError(explain(what, got=name, instead=hint))


def view_bytes(array: np.ndarray, dtype: str) -> np.ndarray:
    """Flat memory seen as another type."""
    kind = numpy_dtype(dtype)
    if array.dtype == kind:
        return array
    raw = array.view(np.uint8)
    return raw[: raw.size // kind.itemsize * kind.itemsize].view(kind)


def byte_offset(array: np.ndarray, offset: int) -> np.ndarray:
    """Flat memory from a byte offset."""
    return array if offset == 0 else view_bytes(array, "uint8")[offset:]


def address(array: np.ndarray | None) -> int:
    """Where memory is; of no memory 0."""
    return 0 if array is None else array.ctypes.data


_VIEWED = set("fdbBhHiIlLqQ?")


def scalar_view(array: np.ndarray) -> Any:
    """The object for scalar loads and stores: a memoryview if Python supports the type (it is fast
    and rounds to float32 itself), else the array."""
    kind = array.dtype  # ml_dtypes' types have codes that memoryview does not support
    if kind.char in _VIEWED and kind.isbuiltin == 1:
        return array.data
    return array


def allocate(dtype: str, size: int) -> np.ndarray:
    """New memory, filled with NaN or the least integer to make reads before writes visible."""
    kind = numpy_dtype(dtype)
    memory = np.empty(size, kind)
    element = DataType(dtype)
    if element.is_float:
        memory.fill(math.nan)
    elif element.is_int:
        memory.fill(np.iinfo(kind).min)
    else:
        memory.fill(0)
    return memory


def tensor_view(
    data: np.ndarray, shape: tuple[int, ...], strides: Sequence[int] | None, dtype: str, offset: int
) -> Tensor:
    """A runtime tensor over flat memory, for a packed call."""
    per = elements_per_byte(dtype)
    if per > 1:
        size = -(-math.prod(shape) // per)
        return PackedTensor(view_bytes(data, "uint8")[offset // per :][:size], dtype, shape)
    flat = view_bytes(data, dtype)[offset:]
    if strides:
        steps = [s * flat.itemsize for s in strides]
        return Tensor(np.lib.stride_tricks.as_strided(flat, shape, steps))
    return Tensor(flat[: math.prod(shape)].reshape(shape))


def traced(call: Callable[..., Any], *args: str | float) -> Any:
    """The result of a registered function for the last argument, or the argument itself."""
    value = call(*args)
    return args[-1] if value is None else value


def throw_last_error() -> None:
    """Raise because a runtime call reported a failure."""
    raise RuntimeError("a call of the runtime failed")


class Borrowed(PackedTensor):
    """A packed copy of memory with one element per byte; writes are copied back."""

    __slots__ = ("origin",)

    def give_back(self) -> None:
        """Copy the values back to the original memory."""
        self.origin[...] = self.view().reshape(-1).astype(self.origin.dtype)


def borrowed(
    data: np.ndarray, shape: tuple[int, ...], strides: Sequence[int] | None, dtype: str, offset: int
) -> Any:
    """`tensor_view` of int4 and similar types while they have one element per byte."""
    if strides:
        what = f"a packed function cannot take a strided tensor of {dtype}"
        raise LoopwrightError(explain(what, instead="pass a contiguous one"))
    origin = data[offset : offset + math.prod(shape)]
    tensor = Borrowed(pack_bits(origin, dtype), dtype, shape)
    tensor.origin = origin
    return tensor


def strided_view(array: np.ndarray) -> tuple[np.ndarray, tuple[int, ...]] | None:
    """(flat memory, strides in elements) of an array, without a copy; None if that is
    impossible."""
    size = array.itemsize
    if any(s % size or s < 0 for s in array.strides):
        return None
    steps = tuple(s // size for s in array.strides)
    span = 1 + sum((n - 1) * s for n, s in zip(array.shape, steps, strict=True))
    flat = np.lib.stride_tricks.as_strided(array, (span if array.size else 0,), (size,))
    return flat, steps


def as_array(arg: Any, name: str) -> np.ndarray:
    """The numpy array behind an argument."""
    if isinstance(arg, np.ndarray):
        return arg
    if isinstance(arg, Tensor):
        return arg.view()
    if hasattr(arg, "__dlpack__"):
        return np.from_dlpack(arg)
    what = f"{name} needs an array"
    raise ValueError(explain(what, got=type(arg).__name__, instead="pass a numpy array"))


def unpacked(arg: Any, dtype: str, later: list[Any]) -> np.ndarray | None:
    """int4 and similar types with one element per byte, the form before their memory is
    packed; writes are copied back through `later`. None for other values."""
    if elements_per_byte(dtype) == 1:
        return None
    if isinstance(arg, PackedTensor):
        same = arg.dtype == dtype
    else:
        same = isinstance(arg, np.ndarray) and arg.dtype.name == dtype
    if not same:
        return None
    copy = np.asarray(arg).astype(numpy_dtype(dtype))
    later.append((arg, copy))
    return copy


def open_pointer(
    arg: PackedTensor | np.ndarray | Sequence[np.ndarray | float] | None,
    name: str,
    dtype: str,
    later: list[Any],
) -> Any:
    """A data pointer: the flat memory of an array; other values are passed through."""
    values = unpacked(arg, dtype, later)
    if values is not None:
        return values.reshape(-1)
    if isinstance(arg, PackedTensor):
        return arg.bytes()
    if isinstance(arg, (np.ndarray, Tensor)):
        return as_array(arg, name).reshape(-1)
    return arg


def open_array(
    arg: np.ndarray, name: str, rank: int, dtype: str, strided: bool, later: list[Any]
) -> tuple[np.ndarray, tuple[int, ...], tuple[int, ...]]:
    """(flat memory, shape, strides in elements) of a buffer argument.

    An array that is not compact is copied, and copied back through `later`, unless the buffer has
    strides of its own. Raises ValueError for a rank or dtype other than declared.
    """
    array = unpacked(arg, dtype, later)
    if array is None:
        array = arg.bytes() if isinstance(arg, PackedTensor) else as_array(arg, name)
    element = DataType(dtype)
    if array.dtype != numpy_dtype(element.element):
        what = f"buffer {name} is declared {dtype}"
        raise ValueError(explain(what, got=f"an array of {array.dtype}", instead="convert it"))
    if element.lanes > 1:
        rank += 1
    if array.ndim != rank:
        what = f"buffer {name} has {rank} dimensions"
        raise ValueError(explain(what, got=f"an array of shape {array.shape}"))
    if strided:
        view = strided_view(array)
        if view is not None:
            return view[0], array.shape, view[1]
    if not array.flags.c_contiguous:
        copy = np.ascontiguousarray(array)
        later.append((array, copy))
        array = copy
    steps = tuple(s // array.itemsize for s in array.strides)
    return array.reshape(-1), array.shape, steps


def wrong_shape(name: str, axis: int, actual: int, expected: int, text: str) -> None:
    """Raise ValueError for a dimension that differs from its declaration."""
    what = f"buffer {name}: dimension {axis} is declared {text}"
    meant = "" if str(expected) == text else f", which is {expected} here"
    raise ValueError(explain(what + meant, got=f"an array with {actual}"))
