"""tvm-ffi, imported when first needed: it takes 0.1 s, and 1 s more where torch is installed."""

from __future__ import annotations

from functools import cache
from types import ModuleType


@cache
def ffi() -> ModuleType:
    """The `tvm_ffi` package, with this package's error kinds known to it."""
    import tvm_ffi

    return tvm_ffi
