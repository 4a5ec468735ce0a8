"""Support code of native code, in LLVM assembly: one file per concern, each a module of its own.

- `pool.ll` (Linux on x86-64 and aarch64) or `no_pool.ll` with `serial.ll`: the thread pool;
  `workspace.ll`: memory for intermediate results. Together `pool_text`.
- `errors.ll`, `arguments.ll`, `tensors.ll`, `packed.ll`: the calling convention, on tvm-ffi's C API.
  Together `helpers_text`.
- `linux.ll`, `other_system.ll`, `linux_<architecture>.ll`: system-dependent parts.
- `alone.ll`: replaces tvm-ffi in exported libraries; `integer_power.ll`: part of kernels.

A file starts with a comment that says what it contains, who calls it and what its public functions
(`lw_*`) take and return. `@lw.*` is internal: if several files form one module, `join` drops
declarations in one file of what another defines.

The modules are loaded into the process once and never unloaded: pool workers run in them and their
addresses are compiled into kernels.
"""

from __future__ import annotations

import os
import re
import threading
from functools import cache
from pathlib import Path
from typing import Any

from loopwright.codegen.llvm.jit import ObjectStream, load_objects
from loopwright.codegen.llvm.machine import host_triple
from loopwright.runtime import threads
from loopwright.runtime.ffi import ffi
from loopwright.runtime.native import from_ffi, to_ffi
from loopwright.runtime.packed_func import get_global_func

DISPATCHER = "loopwright.call_packed"  # the function that packed.ll calls first

_ONE_THREAD = "@lw.limit   = internal global i32 1"
_HELPERS = ("errors", "arguments", "tensors", "packed")
_ARCHITECTURES = {"x86_64": "x86_64", "amd64": "x86_64", "aarch64": "aarch64", "arm64": "aarch64"}
_NAMED = re.compile(r"(?:(define)\b.*?|declare\b.*?)@([\w.]+)\(|(%[\w.]+) = type ")
_PUBLIC = re.compile(r"^define (?!internal|weak)(.* @(\w+)\(.*\)).*{$", re.MULTILINE)

_lock = threading.RLock()


@cache
def read(file: str) -> str:
    """The text of one file."""
    return Path(__file__).with_name(f"{file}.ll").read_text()


def join(*files: str) -> str:
    """One module's text from several files: each function and type appears once."""
    lines = [line for file in files for line in read(file).splitlines()]
    heads = [_NAMED.match(line) for line in lines]
    present = {head[2] for head in heads if head and head[1]}
    joined = []
    for line, head in zip(lines, heads, strict=True):
        if head and not head[1]:
            name = head[2] or head[3]
            if name in present:
                continue
            present.add(name)
        joined.append(line)
    return "\n".join(joined) + "\n"


def has_pool(triple: str) -> bool:
    """Whether the pool has a threaded implementation for the triple."""
    return "linux" in triple and triple.split("-", 1)[0] in _ARCHITECTURES


def pool_text(triple: str, threads: int = 1) -> str:
    """The thread pool and the workspace for a target; needs no tvm-ffi.

    threads: how many the pool uses until another number is set."""
    return _pool_text(triple).replace(_ONE_THREAD, _ONE_THREAD[:-1] + str(threads), 1)


def _pool_text(triple: str) -> str:
    if not has_pool(triple):
        return join("serial", "no_pool", "workspace", _system(triple))
    machine = f"linux_{_ARCHITECTURES[triple.partition('-')[0]]}"
    return join("serial", "pool", machine, "workspace", _system(triple))


def helpers_text(triple: str) -> str:
    """The calling convention for a target. It links to tvm-ffi's C API, which must be loaded
    first."""
    return join(*_HELPERS, _system(triple))


def _system(triple: str) -> str:
    return "linux" if "linux" in triple else "other_system"


def _declarations(*files: str) -> dict[str, str]:
    """The `declare` line of each public function."""
    heads = [m for file in files for m in _PUBLIC.finditer(read(file))]
    return {m[2]: f"declare {re.sub(r' %[a-z]+', '', m[1])}" for m in heads}


@cache
def _pool_declarations() -> dict[str, str]:
    return _declarations("no_pool", "workspace")


@cache
def _helper_declarations() -> dict[str, str]:
    return _declarations(*_HELPERS)


@cache
def _stream() -> tuple[ObjectStream, dict[str, str]]:
    """What compiles the modules for this machine, and their keys."""
    stream, triple = ObjectStream(jobs=1), host_triple()
    texts = {"pool": pool_text(triple), "helpers": helpers_text(triple)}
    return stream, {name: stream.add(text, name=name) for name, text in texts.items()}


@cache
def _objects() -> dict[str, bytes]:
    stream, keys = _stream()
    with stream:
        objects = stream.finish()
    return {name: objects[key] for name, key in keys.items()}


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_stream.cache_clear)  # its thread is the parent's


def prepare() -> None:
    """Begin to compile the modules, in a worker process, unless they are loaded."""
    with _lock:
        _stream()


@cache
def _pool(size: int | None) -> dict[str, int]:
    """The process's pool, or the one of a fixed size; each is loaded once."""
    library = load_objects([_objects()["pool"]], exports=tuple(_pool_declarations()))
    library.make_immortal()
    addresses = dict(library)
    threads.bind_pool(addresses, size)
    return addresses


@cache
def _helpers() -> dict[str, int]:
    ffi()  # the helpers link to its C API
    library = load_objects([_objects()["helpers"]], exports=tuple(_helper_declarations()))
    library.make_immortal()
    ffi().register_global_func(DISPATCHER, _call_packed, override=True)
    return dict(library)


def _call_packed(name: str, *args: Any) -> Any:
    """Call a registered function on behalf of native code."""
    return to_ffi(get_global_func(name)(*map(from_ffi, args)))


def pool_symbols(size: int | None = None) -> dict[str, int]:
    """Addresses of the pool's and the workspace's functions; needs no tvm-ffi. With a `size`, those
    of the pool of `threads` threads, else the process's own."""
    with _lock:
        return _pool(size)


def symbols(size: int | None = None) -> dict[str, int]:
    """Addresses of all support functions, for `load_objects`; `size` as in `pool_symbols`."""
    with _lock:
        return _pool(size) | _helpers()


def declarations(text: str) -> str:
    """The `declare` lines for the support functions that `text` mentions."""
    available = _pool_declarations() | _helper_declarations()
    return "".join(
        f"{line}\n"
        for name, line in available.items()
        if f"@{name}(" in text or f"@{name}," in text
    )
