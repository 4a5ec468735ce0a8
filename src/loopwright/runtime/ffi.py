"""tvm-ffi, imported when first needed: it takes 0.1 s.

Where torch is installed tvm-ffi imports it, which takes 1 s more, to take its tensors faster and for
streams of GPUs. Here it does so only if the program has torch already; a program that wants tvm-ffi's
own functions for torch's streams imports one of them first.
"""

from __future__ import annotations

import sys
import threading
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


class _WithoutTorch:
    """While it is entered, this thread cannot import torch unless the program has it already."""

    def __enter__(self) -> None:
        self.thread = threading.get_ident()
        sys.meta_path.insert(0, self)

    def __exit__(self, *error: object) -> None:
        sys.meta_path.remove(self)

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        """Refuse torch; other finders know the rest."""
        if name == "torch" and threading.get_ident() == self.thread:
            raise ModuleNotFoundError("torch is not imported for tvm-ffi", name=name)


@cache
def ffi() -> ModuleType:
    """The `tvm_ffi` package, with this package's kinds of errors known to it."""
    with _WithoutTorch():
        import tvm_ffi

    for name, kind in _KINDS.items():
        tvm_ffi.register_error(name, kind)
    return tvm_ffi
