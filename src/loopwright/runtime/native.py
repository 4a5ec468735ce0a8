"""Native functions: addresses with the tvm-ffi calling convention, called from Python.

The convention is `int32 fn(void* self, const TVMFFIAny* args, int32 nargs, TVMFFIAny* ret)`. What
entries check, and how they return tensors, is written in `loopwright.codegen.llvm.abi`.

Arguments may be our Tensors, numpy arrays, torch tensors, anything with `__dlpack__`, ints, floats,
bools, strings, shapes, and tuples or lists of them; for tensors also what `runtime.arguments` converts.
`out=` takes the arrays that results are written to. Tensors in results come out as `Tensor`, arrays
as lists. Errors raised natively come out as the Python exception their kind names.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

from loopwright.base.errors import CallError, call_error, with_signature
from loopwright.base.frames import hide_frames
from loopwright.runtime.arguments import leaves, placed, prepared
from loopwright.runtime.dtype import is_packed
from loopwright.runtime.ffi import ffi
from loopwright.runtime.signature import Signature
from loopwright.runtime.tensor import PackedTensor, ShapeTuple, Tensor, from_dlpack


class NativeFunction:
    """A native entry point. `keep_alive` (a loaded library) lives at least as long as this.

    signature: its parameters and results, where they are known.
    """

    __slots__ = ("_function", "_plain", "_results", "keep_alive", "name", "signature")

    def __init__(
        self,
        address: int,
        name: str = "main",
        keep_alive: Any = None,
        signature: Signature | None = None,
    ) -> None:
        self.name = name
        self.keep_alive = keep_alive
        self.signature = signature
        self._function = ffi().Function.__from_extern_c__(address, keep_alive_object=keep_alive)
        # The type of its result, once that is known to be a tensor, or `_results` of them, that are not
        # packed: computing a tensor's dtype takes as long as a call.
        self._plain: type | None = None
        self._results = 0

    def __call__(self, *args: Any, out: Any = None) -> Any:
        """Call it. out: an array, or one for each result, that results are written to and that is
        returned; contiguous, and apart from the inputs."""
        if out is not None:
            try:
                return self._write_to(out, args)
            except CallError as error:
                hide_frames(error)
                raise
        try:
            result = self._function(*args)
        except (BufferError, TypeError, ValueError) as error:
            try:
                result = self._call_converted(args, error)
            except Exception as refused:
                hide_frames(refused)
                raise
        kind = type(result)
        if kind is self._plain:
            if not self._results:
                return Tensor.on_plain(result)
            element = array_functions()[0]
            return [Tensor.on_plain(element(result, k)) for k in range(self._results)]
        value = from_ffi(result)
        several = isinstance(value, list) and {type(v) for v in value} == {Tensor}
        if (several and kind is ffi().Array) or (type(value) is Tensor and kind is ffi().Tensor):
            self._plain, self._results = kind, len(value) if several else 0
        return value

    @property
    def raw(self) -> Any:
        """The function of tvm-ffi, which returns its tensors, or torch's where it takes some."""
        return self._function

    @property
    def returns(self) -> bool:
        """Whether it returns something: others write their arguments."""
        return self.signature is not None and bool(self.signature.results)

    def _write_to(self, out: Any, args: tuple[Any, ...]) -> Any:
        """The call with memory for the results, behind None: see `codegen.llvm.entry`."""
        signature = self.signature
        outputs = placed(self.name, len(signature.results) if signature else len(leaves(out)), out)
        self(*args, None, *outputs)
        return out

    def _call_converted(self, args: tuple[Any, ...], error: Exception) -> Any:
        """The call of `_converted`; where this function refuses its arguments, a CallError with its
        signature."""
        try:
            return self._converted(args, error)
        except (TypeError, ValueError) as refused:
            if not str(refused).startswith(f"{self.name}: "):
                raise  # of a function that it calls
            wrong = call_error(refused)
            if self.signature is not None:
                with_signature(wrong, self.signature.text(self.name, 32))
            raise wrong.with_traceback(None) from None

    def _converted(self, args: tuple[Any, ...], error: Exception) -> Any:
        """The call with arguments that were refused: arrays that numpy does not export (bfloat16,
        int4, read-only), and those that `prepared` converts. Results in a copy are copied back into
        its array. Raises the error where there is nothing to convert."""
        signature = self.signature
        arrays = list(args) if signature is None else prepared(self.name, signature, args)
        arrays = [from_dlpack(a) if _is_packed(a) else a for a in arrays]
        copies = [k for k, a in enumerate(args) if arrays[k] is not a]
        if not copies and not isinstance(error, BufferError):
            raise error
        # A function with results does not write its inputs.
        inputs = len(signature.params) if signature is not None and signature.results else 0
        before = {k: _bytes(arrays[k]) for k in copies if k >= inputs}
        result = self._function(*map(to_ffi, arrays))
        for k, old in before.items():
            if _bytes(arrays[k]) != old:
                array = args[k] if isinstance(args[k], np.ndarray) else from_dlpack(args[k]).view()
                array[...] = _values(arrays[k])
        return result

    def __tvm_ffi_object__(self) -> Any:
        return self._function

    def handle(self) -> int:
        """The function object's address, for native code that calls it."""
        return self._function.__chandle__()

    def __repr__(self) -> str:
        return f"<NativeFunction {self.name}>"


def _is_packed(value: object) -> bool:
    return isinstance(value, np.ndarray) and is_packed(value.dtype)


def _bytes(array: Any) -> bytes:
    return (array.bytes() if isinstance(array, PackedTensor) else array).tobytes()


def _values(array: Any) -> np.ndarray:
    return array.numpy() if isinstance(array, PackedTensor) else array


def to_ffi(value: object) -> Any:
    """A value tvm-ffi can pass; arrays share memory."""
    if isinstance(value, np.ndarray):
        return from_dlpack(value).__tvm_ffi_object__()
    if isinstance(value, PackedTensor):
        return value.__tvm_ffi_object__()
    if isinstance(value, (list, tuple)) and not isinstance(value, ShapeTuple):
        return [to_ffi(v) for v in value]
    return value


def from_ffi(value: Any) -> Any:
    """The Python value of a tvm-ffi value: Tensor, ShapeTuple, list, or the scalar itself."""
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
def array_functions() -> tuple[Any, Any]:
    """Element and size of an array: a third of the time of its Python methods."""
    functions = ffi().get_global_func("ffi.ArrayGetItem"), ffi().get_global_func("ffi.ArraySize")
    for function in functions:
        function.release_gil = False  # they take less time than that would
    return functions


def _elements(array: Any, tensor_type: type) -> list[Any]:
    get, size = array_functions()
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
    flat = tree is None or (len(tree) != 1 and all(isinstance(t, int) for t in tree))
    return native if flat else _Nested(native, tree)


class _Nested:
    """A native function whose results are a nested tuple."""

    def __init__(self, native: NativeFunction, tree: Any) -> None:
        self.native = native
        self.tree = tree

    def __call__(
        self,
        *args: Tensor | np.ndarray | None,
        out: Sequence[np.ndarray | Sequence[np.ndarray]] | None = None,
    ) -> Any:
        if out is not None:
            self.native(*args, out=leaves(out))
            return out
        flat = self.native(*args)
        return _nest(self.tree, [flat] if isinstance(flat, Tensor) else flat)


def _nest(tree: Any, flat: list[Any]) -> Any:
    return flat[tree] if isinstance(tree, int) else [_nest(t, flat) for t in tree]
