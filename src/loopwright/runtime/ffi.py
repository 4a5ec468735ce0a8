"""tvm-ffi, imported when first needed: it takes 0.1 s, and 1 s more where torch is installed."""

from __future__ import annotations

from functools import cache
from types import ModuleType

from loopwright.base import errors

# Errors that pass through native code by their kind's name, besides those tvm-ffi knows.
_KINDS: dict[str, type[Exception]] = {
    kind.__name__: kind
    for kind in (
        ArithmeticError,
        FileNotFoundError,
        NotImplementedError,
        OSError,
        OverflowError,
        ZeroDivisionError,
        errors.DiagnosticError,
        errors.InternalError,
        errors.LoopwrightError,
    )
}
_KINDS["TVMError"] = errors.TVMError


@cache
def ffi() -> ModuleType:
    """The `tvm_ffi` package, with this package's kinds of errors known to it."""
    import tvm_ffi

    for name, kind in _KINDS.items():
        tvm_ffi.register_error(name, kind)
    return tvm_ffi
