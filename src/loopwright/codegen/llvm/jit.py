"""Compile LLVM text (in parallel, cached) and load the objects into this process.

    data = compile_object(text)                            # bytes of a relocatable object
    lib = load_objects([data], {"lw_parallel_launch": address})
    lib["main"]                                            # address of a function

One LLJIT serves the process and is never disposed. Each `load_objects` call makes a library of its
own, unloaded when the last reference to it goes; symbols of different libraries do not meet.
"""

from __future__ import annotations

import atexit
import gc
import itertools
import os
import struct
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from types import MappingProxyType

import llvmlite.binding as llvm

from loopwright.base.config import knob
from loopwright.codegen.llvm import compiler
from loopwright.codegen.llvm.cache import ObjectCache, default_cache, object_key
from loopwright.codegen.llvm.compiler import (
    CompileError,
    assembly,
    compile_object,
    host_cpu,
    host_features,
    host_triple,
    optimized_ir,
    resolve,
)

__all__ = [
    "CompileError",
    "Library",
    "assembly",
    "compile_object",
    "compile_objects",
    "gc_paused",
    "host_cpu",
    "host_features",
    "host_triple",
    "load_objects",
    "optimized_ir",
]

# LLVM takes 10-20 us a line. Below the first number of lines a worker's start (0.1 s) costs more
# than it saves; with workers already running the second is enough.
_PARALLEL_LINES, _PARALLEL_LINES_WARM = 16_000, 4_000
_PARALLEL_MODULES = 4


@contextmanager
def gc_paused() -> Iterator[None]:
    """Switch Python's cycle collector off for the duration (compilation makes many live objects)."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


# Loading


class Library(Mapping[str, int]):
    """Loaded objects: symbol name -> address. The code lives as long as this does."""

    def __init__(self, objects: Sequence[bytes], symbols: Mapping[str, int], exports: list[str]):
        builder = llvm.JITLibraryBuilder()
        for data in objects:
            builder.add_object_img(data)
        for name, address in symbols.items():
            builder.import_symbol(name, address)
        for name in exports:
            builder.export_symbol(name)
        builder.add_current_process()
        self.name = f"lw{next(_serial)}"
        self._exports = tuple(exports)
        with _load_lock:
            self._tracker = builder.link(_engine(), self.name)

    def __getitem__(self, name: str) -> int:
        try:
            return self._tracker[name]
        except KeyError:
            have = ", ".join(self._exports)
            raise KeyError(
                f"symbol {name!r} was not exported by the load; exported: {have}"
            ) from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._exports)

    def __len__(self) -> int:
        return len(self._exports)

    def make_immortal(self) -> None:
        """Never unload: for code that other threads run, such as the thread pool."""
        self._tracker.detach()
        _immortal.append(self)


_serial = itertools.count()
_load_lock = threading.Lock()
_immortal: list[Library] = []


@cache
def _engine() -> llvm.orcjit.LLJIT:
    # Its own report of missing symbols goes to stderr; `load_objects` names them in the error.
    machine = compiler.target_machine(*resolve(None, None, None))
    engine = llvm.create_lljit_compiler(machine, suppress_errors=True)
    engine._owned = True  # never disposed: libraries may outlive Python's order of shutdown
    return engine


def load_objects(
    objects: Sequence[bytes], symbols: Mapping[str, int] | None = None, exports: Sequence[str] = ()
) -> Library:
    """Link `objects` together and load them.

    `symbols` gives addresses for undefined names (constants, the runtime's functions); what is not
    there is looked up in the process (libc, libm). `exports` names the functions to find addresses of.
    """
    missing = [s for s, a in (symbols or {}).items() if not a]
    if missing:
        raise ValueError(f"symbol {missing[0]!r} has a null address")
    try:
        return Library(objects, symbols or {}, list(exports))
    except RuntimeError as error:
        missing = undefined_symbols(objects, symbols or {})
        why = f"nothing defines {', '.join(missing)}" if missing else str(error)
        raise CompileError(f"cannot link the compiled objects: {why}") from None


def undefined_symbols(
    objects: Sequence[bytes], given: Mapping[str, int] = MappingProxyType({})
) -> list[str]:
    """The names that 64-bit ELF objects use and neither they, `given` nor the process define."""
    used: set[str] = set()
    defined = set(given)
    for data in objects:
        if data[:5] != b"\x7fELF\x02":
            continue
        (table,) = struct.unpack_from("<Q", data, 40)
        entry, count = struct.unpack_from("<HH", data, 58)
        sections = [
            struct.unpack_from("<IIQQQQIIQQ", data, table + i * entry) for i in range(count)
        ]
        for section in sections:
            if section[1] != 2:  # SHT_SYMTAB; its sh_link names the section with the strings
                continue
            names = sections[section[6]][4]
            for at in range(section[4], section[4] + section[5], 24):
                name, info, _, where = struct.unpack_from("<IBBH", data, at)
                if not name or info >> 4 == 0:  # local
                    continue
                end = data.index(b"\0", names + name)
                text = data[names + name : end].decode()
                (defined if where else used).add(text)
    return sorted(n for n in used - defined if not llvm.address_of_symbol(n))


# Compiling many


def compile_objects(
    texts: Sequence[str],
    *,
    triple: str | None = None,
    cpu: str | None = None,
    features: str | None = None,
    opt: str | Sequence[str] = "short",
    jobs: int | None = None,
    cache: ObjectCache | None = None,
) -> list[bytes]:
    """Compile modules to objects, through the object cache and in worker processes when it pays.

    `opt` is one level for all or one per module. `jobs` bounds the processes used, this one included
    (default: `LOOPWRIGHT_JOBS`, else the CPUs this process may run on).
    """
    triple, cpu, features = resolve(triple, cpu, features)
    levels = [opt] * len(texts) if isinstance(opt, str) else list(opt)
    if len(levels) != len(texts):
        raise ValueError(f"got {len(levels)} optimisation levels for {len(texts)} modules")
    store = default_cache() if cache is None else cache
    keys = [object_key(t, triple, cpu, features, o) for t, o in zip(texts, levels, strict=True)]
    found = {key: store.get(key) for key in dict.fromkeys(keys)}
    todo = {
        key: (text, triple, cpu, features, level, False)
        for key, text, level in zip(keys, texts, levels, strict=True)
        if found[key] is None
    }
    with gc_paused():
        made = _compile_all(list(todo.values()), _default_jobs() if jobs is None else jobs)
    for key, data in zip(todo, made, strict=True):
        found[key] = data
        store.put(key, data)
    return [found[key] for key in keys]


def _default_jobs() -> int:
    given = knob("LOOPWRIGHT_JOBS")
    if given > 0:
        return given
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _compile_all(work: list[tuple], jobs: int) -> list[bytes]:
    lines = sum(job[0].count("\n") for job in work)
    least = _PARALLEL_LINES_WARM if _worker_pool else _PARALLEL_LINES
    workers = min(jobs - 1, len(work) - 1, 2 * lines // least)
    if workers < 1 or len(work) < _PARALLEL_MODULES or lines < least:
        return [compile_object(*job) for job in work]
    return _compile_shared(work, workers)


def _compile_shared(work: list[tuple], workers: int) -> list[bytes]:
    """This process takes the largest modules first; workers take from the same queue."""
    order = sorted(range(len(work)), key=lambda i: -len(work[i][0]))
    queue = deque(order)
    results: list[bytes | None] = [None] * len(work)
    errors: list[str] = []

    def drive(worker: _Worker) -> None:
        while queue and not errors:
            try:
                index = queue.popleft()
            except IndexError:
                return
            try:
                ok, value = worker.compile(work[index])
            except Exception:  # the worker died, whatever the way: this process does its share
                queue.append(index)
                worker.close()
                return
            if ok:
                results[index] = value
            else:
                errors.append(value)

    threads = [
        threading.Thread(target=drive, args=(worker,), daemon=True) for worker in _workers(workers)
    ]
    for thread in threads:
        thread.start()
    while (queue or threads) and not errors:
        try:
            while queue and not errors:
                index = queue.popleft()
                results[index] = compile_object(*work[index])
        except IndexError:
            pass  # a worker took the last one
        except CompileError as error:
            errors.append(str(error))
        for thread in threads:
            thread.join()
        threads = []
    for thread in threads:
        thread.join()
    if errors:
        raise CompileError(errors[0])
    return results  # type: ignore[return-value]  # every slot is filled when the queue is empty


class _Worker:
    """A compile worker process, started by path so that no user module is imported again."""

    def __init__(self) -> None:
        # -S and an explicit path: site-packages' start-up hooks cost more than the worker's work.
        prologue = (
            f"import sys; sys.path[:] = {sys.path!r}; import runpy; "
            f"runpy.run_path({compiler.__file__!r}, run_name='__main__')"
        )
        self.process = subprocess.Popen(
            [sys.executable, "-S", "-c", prologue],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        self.lock = threading.Lock()

    def compile(self, job: tuple) -> tuple[bool, bytes | str]:
        with self.lock:
            compiler.send(self.process.stdin, job)
            return compiler.receive(self.process.stdout)

    def alive(self) -> bool:
        return self.process.poll() is None

    def close(self) -> None:
        for stream in (self.process.stdin, self.process.stdout):
            with suppress(OSError):  # its pipe broke with the process
                stream.close()
        self.process.kill()
        self.process.wait()


_worker_pool: list[_Worker] = []
_worker_lock = threading.Lock()


def _workers(count: int) -> list[_Worker]:
    """Up to `count` live workers; fewer when processes cannot be started here."""
    with _worker_lock:
        _worker_pool[:] = [worker for worker in _worker_pool if worker.alive()]
        while len(_worker_pool) < count:
            try:
                _worker_pool.append(_Worker())
            except OSError:
                break
        return _worker_pool[:count]


def _forget_workers() -> None:
    """In a forked child the pipes are the parent's: drop them without closing the parent's workers."""
    global _worker_lock, _load_lock
    _worker_pool.clear()
    _worker_lock, _load_lock = threading.Lock(), threading.Lock()


@atexit.register
def _close_workers() -> None:
    for worker in _worker_pool:
        worker.close()
    _worker_pool.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_workers)
