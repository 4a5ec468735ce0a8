"""Runs any PrimFunc on numpy arrays, at any stage of lowering, without a compiler.

`run(func, args, mod)` modifies the arrays in place. A function is translated once to Python
source (`compile_func(func).source` shows it). Its number semantics:

* integers wrap around in two's complement; int32 and int64 arithmetic on loop variables and
  shapes alone is assumed not to overflow;
* division and remainder by 0 give 0; an out-of-range shift amount shifts all bits out;
* int4 and similar types: one element per byte, until `Int4StorageLegalize` packs their memory
  (packed tensors and ml_dtypes arrays are unpacked for the call, and written back);
* floats are computed in double precision and rounded when stored or cast; below 32 bits after
  each operation. Vectors are computed in their own type;
* min and max of floats: NaN wins, as in compiled code; float to integer truncates, out-of-range
  values become the least value (as on x86);
* `Select` and `if_then_else` evaluate only the chosen operand; every kind of loop runs serially;
* new memory holds NaN (integers: the least value), so that a read before a write is visible.
"""

from __future__ import annotations

import functools
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ...base.errors import explain
from ...base.late import Slot
from ...ir.expr import GlobalVar
from ...runtime.packed_func import get_global_func
from ..function import PrimFunc
from ..reduction_init import EarlyInits
from ..transform.lower.unpack_signatures import unpacked_params
from . import meaning
from .stmt import has_call, translate

if TYPE_CHECKING:
    from ...ir.module import IRModule

__all__ = ["Compiled", "compile_func", "run"]


# The pass for GPUs that lowers a reduction over threads.
ALLREDUCE: Slot[Any] = Slot("tir.lower_thread_allreduce")


class _Return(Exception):
    """Carries the value of T.ret."""


class Compiled:
    """A translated PrimFunc; `source` is the Python text."""

    __slots__ = ("_run", "func", "source")

    def __init__(self, func: PrimFunc) -> None:
        self.func = func
        if has_call(func.body, "tir.tvm_thread_allreduce"):  # its definition is its lowering
            func = ALLREDUCE.get()().run_function(func, None, None)
        func = func.replace(body=EarlyInits().visit(func.body))
        self.source, names = translate(func)
        scope = {**names, "_Return": _Return}
        exec(compile(self.source, "<interpreted PrimFunc>", "exec"), scope)
        self._run: Callable[..., Any] = scope["run"]

    def __call__(self, *args: Any, mod: IRModule | None = None) -> Any:
        """Run on `args`, in the order of the parameters."""
        if len(args) != len(self.func.params):
            what = f"the function takes {len(self.func.params)} arguments"
            names = ", ".join(p.name for p in self.func.params)
            raise ValueError(explain(what, got=len(args), instead=f"pass {names}"))
        later: list[tuple[np.ndarray, np.ndarray]] = []
        result = None
        with np.errstate(all="ignore"):
            try:
                self._run(args, later, _Caller(mod))
            except _Return as done:
                result = done.args[0]
        for original, copy in later:
            original[...] = copy.reshape(original.shape)
        return result


class _Caller:
    """Calls a function by name: of the module, else of the runtime's registry."""

    __slots__ = ("mod",)

    def __init__(self, mod: Any) -> None:
        self.mod = mod

    def __call__(self, name: str, *args: Any) -> Any:
        func = self.find(name)
        if isinstance(func, PrimFunc):
            return compile_func(func)(*args, mod=self.mod)
        if func is not None:
            return func(*args)
        external = get_global_func(name, allow_missing=True)
        if external is None:
            return meaning.no_meaning(name)
        result = external(*args)
        for arg in args:
            if isinstance(arg, meaning.Borrowed):
                arg.give_back()
        return result

    def kernel(self, name: str, *args: np.ndarray | float) -> Any:
        """A function of the module with the signature that `UnpackSignatures` results in: pointers
        for its buffers, and the symbolic dimensions at the end."""
        func = self.find(name)
        if not isinstance(func, PrimFunc) or not func.buffer_map:
            return self(name, *args)
        lowered = unpacked(func)
        if len(args) != len(lowered.params):
            return self(name, *args)
        return compile_func(lowered)(*args, mod=self.mod)

    def find(self, name: str) -> Any:
        if self.mod is None:
            return None
        functions = self.mod.functions if hasattr(self.mod, "functions") else self.mod
        for key, func in functions.items():
            if (key.name_hint if isinstance(key, GlobalVar) else key) == name:
                return func
        return None


@functools.lru_cache(maxsize=64)
def unpacked(func: PrimFunc) -> PrimFunc:
    """The function after `UnpackSignatures`: with pointers and sizes as parameters."""
    return func.replace(params=unpacked_params(func), buffer_map={})


_CACHE: OrderedDict[int, Compiled] = OrderedDict()
_CACHE_SIZE = 256  # functions; the least recently used are removed first


def compile_func(func: PrimFunc) -> Compiled:
    """The translated function; cached by object."""
    cached = _CACHE.get(id(func))
    if cached is not None and cached.func is func:
        _CACHE.move_to_end(id(func))
        return cached
    compiled = _CACHE[id(func)] = Compiled(func)
    if len(_CACHE) > _CACHE_SIZE:
        _CACHE.popitem(last=False)
    return compiled


def run(func: PrimFunc, args: Sequence[Any], mod: IRModule | None = None) -> Any:
    """Run `func` on numpy arrays (or tensors) and scalars, in place; returns the value of T.ret.

    `mod` (an IRModule, or a dict of functions) resolves calls of other functions.
    Raises ValueError for arguments of a shape or dtype other than declared, IndexError for an
    out-of-bounds access, AssertionError for a failed T.Assert.
    """
    return compile_func(func)(*args, mod=mod)
