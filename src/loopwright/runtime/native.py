"""Native functions: addresses with the tvm-ffi calling convention, called from Python.

The convention is `int32 fn(void* self, const TVMFFIAny* args, int32 nargs, TVMFFIAny* ret)`. What
entries check, and how they return tensors, is written in `loopwright.codegen.llvm.abi`.

Arguments may be our Tensors, numpy arrays, torch tensors, anything with `__dlpack__`, ints, floats,
bools, strings, shapes, and tuples or lists of them. Tensors in results come out as `Tensor`, arrays
as lists. Errors raised natively come out as the Python exception their kind names.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from loopwright.runtime.dtype import elements_per_byte
from loopwright.runtime.ffi import ffi
from loopwright.runtime.tensor import PackedTensor, ShapeTuple, Tensor, from_dlpack


class NativeFunction:
    """A native entry point. `keep_alive` (a loaded library) lives at least as long as this."""

    __slots__ = ("_function", "_packs", "_tensor_type", "keep_alive", "name")

    def __init__(self, address: int, name: str = "main", keep_alive: Any = None) -> None:
        self.name = name
        self.keep_alive = keep_alive
        self._function = ffi().Function.__from_extern_c__(address, keep_alive_object=keep_alive)
        self._tensor_type = ffi().Tensor
        # Whether its result is packed: asked once, as a tensor's dtype takes as long as a call.
        self._packs: bool | None = None

    def __call__(self, *args: Any) -> Any:
        try:
            result = self._function(*args)
        except BufferError:  # an array numpy does not export: bfloat16, int4, read-only
            result = self._call_packing(args)
        if type(result) is self._tensor_type:
            if self._packs is None:
                self._packs = elements_per_byte(str(result.dtype)) > 1
            if not self._packs:
                tensor = Tensor.__new__(Tensor)
                tensor._array = None
                tensor._ffi = result
                return tensor
        return from_ffi(result)

    def _call_packing(self, args: tuple[Any, ...]) -> Any:
        """The call with arrays that numpy does not export. Those of int4 and the like are packed
        for it, and what it wrote there comes back into them."""
        packed = [(a, from_dlpack(a)) for a in args if _is_packed(a)]
        known = {id(array): packed_array for array, packed_array in packed}
        before = [packed_array.bytes().copy() for _, packed_array in packed]
        result = self._function(*(to_ffi(known.get(id(a), a)) for a in args))
        for (array, packed_array), old in zip(packed, before, strict=True):
            if not np.array_equal(packed_array.bytes(), old):
                array[...] = packed_array.numpy()
        return result

    def __tvm_ffi_object__(self) -> Any:
        return self._function

    def handle(self) -> int:
        """The function object's address, for native code that calls it."""
        return self._function.__chandle__()

    def __repr__(self) -> str:
        return f"<NativeFunction {self.name}>"


def _is_packed(value: Any) -> bool:
    return isinstance(value, np.ndarray) and elements_per_byte(value.dtype.name) > 1


def to_ffi(value: Any) -> Any:
    """A value tvm-ffi can pass; arrays share memory."""
    if isinstance(value, np.ndarray):
        return from_dlpack(value).__tvm_ffi_object__()
    if isinstance(value, PackedTensor):
        return value.__tvm_ffi_object__()
    if isinstance(value, (list, tuple)) and not isinstance(value, ShapeTuple):
        return [to_ffi(v) for v in value]
    return value


def from_ffi(value: Any) -> Any:
    """What a tvm-ffi value is to our users: Tensor, ShapeTuple, list, or the scalar itself."""
    package = ffi()
    if type(value) is package.Tensor:
        return Tensor.from_ffi(value)
    if value is None or isinstance(value, (Tensor, bool, int, float)):
        return value
    if isinstance(value, package.Shape):
        return ShapeTuple(value)
    if isinstance(value, package.Array):
        return _elements(value, package.Tensor)
    if isinstance(value, package.List):
        return [from_ffi(v) for v in value]
    if isinstance(value, package.Map):
        return {from_ffi(k): from_ffi(v) for k, v in value.items()}
    if isinstance(value, str):
        return str(value)
    if isinstance(value, package.Function):
        return PythonView(value)
    if hasattr(
        value, "__dlpack__"
    ):  # tvm-ffi turns results to torch tensors when given torch tensors
        return from_dlpack(value)
    return value


@cache
def _array_functions() -> tuple[Any, Any]:
    """Element and size of an array: a third of what its Python methods cost."""
    functions = ffi().get_global_func("ffi.ArrayGetItem"), ffi().get_global_func("ffi.ArraySize")
    for function in functions:
        function.release_gil = False  # they take less time than that would
    return functions


def _elements(array: Any, tensor_type: type) -> list[Any]:
    get, size = _array_functions()
    result = []
    for i in range(size(array)):
        value = get(array, i)
        result.append(Tensor.from_ffi(value) if type(value) is tensor_type else from_ffi(value))
    return result


class PythonView:
    """A tvm-ffi function as our users call it: results converted by `from_ffi`."""

    __slots__ = ("_function",)

    def __init__(self, function: Any) -> None:
        self._function = function

    def __call__(self, *args: Any) -> Any:
        return from_ffi(self._function(*map(to_ffi, args)))

    def __tvm_ffi_object__(self) -> Any:
        return self._function


def native_view(function: Callable[..., Any]) -> Any:
    """A Python function as a tvm-ffi function: native code calls it, it sees our types.

    Keep the result alive while native code may call it; `.__chandle__()` is its address.
    """
    if isinstance(function, (NativeFunction, PythonView)):
        return function.__tvm_ffi_object__()

    def call(*args: Any) -> Any:
        return to_ffi(function(*map(from_ffi, args)))

    return ffi().convert(call)


def nested(native: NativeFunction, tree: Any) -> Any:
    """The function with its results as a nested tuple: `tree` has their numbers, None for one."""
    flat = tree is None or all(isinstance(t, int) for t in tree)
    return native if flat else _Nested(native, tree)


class _Nested:
    """A native function whose results are a nested tuple."""

    def __init__(self, native: NativeFunction, tree: Any) -> None:
        self.native = native
        self.tree = tree

    def __call__(self, *args: Any) -> Any:
        flat = self.native(*args)
        return _nest(self.tree, [flat] if isinstance(flat, Tensor) else flat)


def _nest(tree: Any, flat: list[Any]) -> Any:
    return flat[tree] if isinstance(tree, int) else [_nest(t, flat) for t in tree]
