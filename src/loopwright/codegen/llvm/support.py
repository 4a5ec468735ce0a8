"""Loads the support code (thread pool, workspace, calling convention) into the process, once.

The modules are immortal: pool workers run in them and their addresses are compiled into kernels.
"""

from __future__ import annotations

import threading
from functools import cache
from typing import Any

from loopwright.codegen.llvm import abi, callbacks, threadpool
from loopwright.codegen.llvm.jit import compile_objects, host_triple, load_objects
from loopwright.runtime import threads
from loopwright.runtime.ffi import ffi
from loopwright.runtime.native import from_ffi, to_ffi
from loopwright.runtime.packed_func import get_global_func

DECLARATIONS = threadpool.DECLARATIONS | abi.DECLARATIONS

_lock = threading.RLock()


@cache
def _pool() -> dict[str, int]:
    code = compile_objects([threadpool.text(host_triple())], jobs=1)
    library = load_objects(code, exports=tuple(threadpool.DECLARATIONS))
    library.make_immortal()
    addresses = dict(library)
    threads.bind_pool(addresses)
    return addresses


@cache
def _helpers() -> dict[str, int]:
    ffi()  # its C API is what the helpers link to
    code = compile_objects([abi.text(host_triple())], jobs=1)
    library = load_objects(code, exports=tuple(abi.DECLARATIONS))
    library.make_immortal()
    ffi().register_global_func(callbacks.DISPATCHER, _call_packed, override=True)
    return dict(library)


def _call_packed(name: str, *args: Any) -> Any:
    """Calls a registered function for native code."""
    return to_ffi(get_global_func(name)(*map(from_ffi, args)))


def pool_symbols() -> dict[str, int]:
    """Addresses of the pool's and the workspace's functions; needs no tvm-ffi."""
    with _lock:
        return _pool()


def symbols() -> dict[str, int]:
    """Addresses of all support functions, for `load_objects`."""
    with _lock:
        return _pool() | _helpers()


def declarations(text: str) -> str:
    """The `declare` lines for the support functions that `text` mentions."""
    return "".join(
        f"{d}\n" for name, d in DECLARATIONS.items() if f"@{name}(" in text or f"@{name}," in text
    )
