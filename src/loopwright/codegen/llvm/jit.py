"""Compile LLVM text (in parallel, cached) and load the objects into this process.

    data = compile_object(text)                            # bytes of a relocatable object
    lib = load_objects([data], {"lw_parallel_launch": address})
    lib["main"]                                            # address of a function

One LLJIT serves the process (two, where gdb shows lines) and is never disposed. Each `load_objects` call creates a library of
its own, unloaded with the last reference to it; symbols of different libraries do not conflict.
"""

from __future__ import annotations

import gc
import itertools
import os
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache, partial
from types import MappingProxyType
from typing import Any

import llvmlite.binding as llvm

from loopwright.base import progress
from loopwright.base.config import knob
from loopwright.base.errors import UnknownName, explain
from loopwright.base.host import host, this_machine
from loopwright.codegen.llvm import compiler, workers
from loopwright.codegen.llvm.cache import ObjectCache, default_cache, object_key
from loopwright.codegen.llvm.compiler import CompileError
from loopwright.codegen.llvm.cpu_features import missing_features
from loopwright.codegen.llvm.jitdump import write_jitdump
from loopwright.codegen.llvm.machine import host_triple, resolve
from loopwright.codegen.llvm.perf_map import visible_functions, write_perf_map
from loopwright.codegen.llvm.workers import assembly, compile_object, optimized_ir
from loopwright.codegen.objects import is_sound
from loopwright.codegen.objects import symbols as object_symbols

__all__ = [
    "CompileError",
    "Library",
    "ObjectStream",
    "assembly",
    "compile_object",
    "compile_objects",
    "gc_paused",
    "host_triple",
    "load_objects",
    "optimized_ir",
]

# LLVM takes 10-20 us a line. Below this number of lines the start of a second worker (0.1 s) costs more than
# it saves.
_PARALLEL_LINES = 4_000
_PARALLEL_MODULES = 4  # likewise: fewer are compiled by one worker


@contextmanager
def gc_paused() -> Iterator[None]:
    """Disable Python's cycle collector for the duration (compilation creates many live objects).

    The objects left by the first one are frozen without a traversal, since half a million of them take
    half a second; those of later ones are left to the collector, so that garbage does not accumulate.
    """
    global _looked_at
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            if not _looked_at and not gc.get_freeze_count():
                gc.freeze()
                gc.unfreeze()
            _looked_at = True
            gc.enable()


_looked_at = False  # whether the collector has looked at a compilation's objects, or will


# Loading


class Library(Mapping[str, int]):
    """Loaded objects: symbol name -> address. The code lives as long as this does."""

    def __init__(
        self, objects: Sequence[bytes], symbols: Mapping[str, int], exports: list[str]
    ) -> None:
        dump = knob("LOOPWRIGHT_JITDUMP")
        mapped = visible_functions(objects) if knob("LOOPWRIGHT_PERF_MAP") or dump else []
        exports = list(dict.fromkeys([*exports, *mapped]))
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
            self._tracker = builder.link(_engine(bool(knob("LOOPWRIGHT_DEBUG_INFO"))), self.name)
            if mapped and knob("LOOPWRIGHT_PERF_MAP"):
                write_perf_map(objects, self)
            if mapped and dump:
                write_jitdump(dump, objects, self)

    def __getitem__(self, name: str) -> int:
        try:
            return self._tracker[name]
        except KeyError:
            have = ", ".join(self._exports)
            raise UnknownName(
                f"symbol {name!r} was not among the exports of load_objects; exported: {have}"
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
def _engine(shows_lines: bool) -> llvm.orcjit.LLJIT:
    # JITLink allocates an object contiguously. RuntimeDyld allocates its code and its constants
    # separately, and ends the process where they are 2 GiB apart; only it registers code with gdb.
    # LLVM reports missing symbols to stderr; `load_objects` names them in the error.
    machine = compiler.target_machine(*resolve(None, None, None))
    in_one = os.name != "nt" and not shows_lines
    engine = llvm.create_lljit_compiler(machine, use_jit_link=in_one, suppress_errors=True)
    engine._owned = True  # never disposed: libraries may outlive it during shutdown
    return engine


def load_objects(
    objects: Sequence[bytes], symbols: Mapping[str, int] | None = None, exports: Sequence[str] = ()
) -> Library:
    """Link `objects` together and load them.

    `symbols` maps undefined names to addresses (constants, the runtime's functions); other names
    are looked up in the process (libc, libm). `exports` names the functions whose addresses are
    needed. Objects of the cache that cannot be linked are compiled again. Raises CompileError where
    `LOOPWRIGHT_HOST_CPU` names a CPU whose code cannot run here.
    """
    _check_host_runs()
    missing = [s for s, a in (symbols or {}).items() if not a]
    if missing:
        raise ValueError(f"symbol {missing[0]!r} has a null address")
    try:
        return Library(objects, symbols or {}, list(exports))
    except RuntimeError as error:
        fresh = [o.recompile() if isinstance(o, CachedObject) else o for o in objects]
        if fresh != list(objects):
            return load_objects(fresh, symbols, exports)
        missing = undefined_symbols(objects, symbols or {})
        why = f"nothing defines {', '.join(missing)}" if missing else str(error)
        hint = "declare and build C functions: Backend(..., libraries=[ExternLibrary(...)])"
        what = f"cannot link the compiled objects: {why}"
        raise CompileError(explain(what, instead=hint if missing else None)) from None


def _check_host_runs() -> None:
    missing = host().named and missing_features(*resolve())
    if missing:
        what = f"LOOPWRIGHT_HOST_CPU={host().name}: its code cannot run on this machine"
        hint = f"export_library, or a CPU that {this_machine().name} has the instructions of"
        got = f"a processor without {', '.join(sorted(missing))}"
        raise CompileError(explain(what, got=got, instead=hint))


def undefined_symbols(
    objects: Sequence[bytes], addresses: Mapping[str, int] = MappingProxyType({})
) -> list[str]:
    """The undefined names of ELF objects that neither `addresses` nor the process defines."""
    used: set[str] = set()
    defined = set(addresses)
    for data in objects:
        with suppress(ValueError):  # data that is not an object has no names
            for name, is_defined in object_symbols(data):
                (defined if is_defined else used).add(name)
    return sorted(n for n in used - defined if not llvm.address_of_symbol(n))


# Compiling many


def compile_objects(
    texts: Sequence[str], *, triple: str | None = None, cpu: str | None = None,
    features: str | None = None, opt: str | Sequence[str] = "short", jobs: int | None = None,
    cache: ObjectCache | None = None,
) -> list[bytes]:  # fmt: skip
    """Compile modules to objects, through the object cache and in worker processes.

    `opt` is one level for all or one per module. `jobs` bounds the processes used (default:
    `LOOPWRIGHT_JOBS`, else the CPUs this process may run on).
    """
    levels = [opt] * len(texts) if isinstance(opt, str) else list(opt)
    if len(levels) != len(texts):
        raise ValueError(f"got {len(levels)} optimisation levels for {len(texts)} modules")
    pairs = zip(texts, levels, strict=True)
    with ObjectStream(triple=triple, cpu=cpu, features=features, jobs=jobs, cache=cache) as stream:
        keys = [stream.add(text, level, more=False) for text, level in pairs]
        objects = stream.finish()
    return [objects[key] for key in keys]


class CachedObject(bytes):
    """An object from the cache."""

    recompile: Callable[[], bytes]  # removes it from the cache and compiles its module again


class ObjectStream:
    """Compiles modules while others are still being written.

    with ObjectStream() as stream:
        keys = [stream.add(text) for text in texts]  # a worker begins with the first
        objects = stream.finish()                    # key -> object
    """

    def __init__(
        self,
        *,
        triple: str | None = None,
        cpu: str | None = None,
        features: str | None = None,
        jobs: int | None = None,
        cache: ObjectCache | None = None,
    ) -> None:
        self.machine = resolve(triple, cpu, features)
        self.jobs = _default_jobs() if jobs is None else jobs
        self.cache = default_cache() if cache is None else cache
        self._cached: dict[str, bytes] = {}
        self._compiled: dict[str, bytes] = {}
        self._known: dict[str, str] = {}  # key -> name
        self._listener = progress.listener()
        self._queue: deque[tuple[str, tuple[Any, ...], str]] = deque()
        self._lines = 0
        self._change = threading.Condition()
        self._closed = False
        self._threads: list[threading.Thread] = []
        self._errors: list[str] = []

    def __enter__(self) -> ObjectStream:
        return self

    def __exit__(self, *_: object) -> None:
        with self._change:  # after an error nothing more is awaited
            self._queue.clear()
            self._closed = True
            self._change.notify_all()

    def add(self, text: str, opt: str = "short", *, more: bool = True, name: str = "module") -> str:
        """Submit a module and return the key of its object. `more`: the next modules take a
        while. `name`: reported to listeners."""
        key = object_key(text, *self.machine, opt)
        if key in self._known:
            return key
        self._known[key] = name
        cached = self.cache.get(key)
        if cached is not None and is_sound(cached):
            self._cached[key] = entry = CachedObject(cached)
            entry.recompile = partial(self._recompile, key, text, opt)
            return key
        with self._change:
            self._queue.append((key, (text, *self.machine), opt))
            self._change.notify()
        self._lines += text.count("\n")
        if not self._threads:
            self._start(1)
        elif more and self._lines >= _PARALLEL_LINES:
            self._start(self.jobs - len(self._threads))
        return key

    def _recompile(self, key: str, text: str, opt: str) -> bytes:
        data = workers.run("object", text, *self.machine, opt=opt)
        self.cache.remove(key)
        self.cache.put(key, data)
        return data

    def finish(self) -> dict[str, bytes]:
        """Wait for all and return the objects by key. Raises CompileError for the first rejected
        module."""
        with self._change:  # largest first, to balance the workers
            self._queue = deque(sorted(self._queue, key=lambda item: -len(item[1][0])))
            self._closed = True
            self._change.notify_all()
        self._start(self._workers_worth_starting())
        for thread in self._threads:
            thread.join()
        if self._errors:
            raise CompileError(self._errors[0])
        for key, data in self._compiled.items():
            self.cache.put(key, data)
        return {**self._cached, **self._compiled}

    def _workers_worth_starting(self) -> int:
        """How many more than the one that has started."""
        if len(self._queue) < _PARALLEL_MODULES or self._lines < _PARALLEL_LINES:
            return 0
        return max(0, min(self.jobs, len(self._queue)) - len(self._threads))

    def _start(self, count: int) -> None:
        for _ in range(count):
            thread = threading.Thread(target=self._work, daemon=True)
            self._threads.append(thread)
            thread.start()

    def _next(self) -> tuple[str, tuple[Any, ...], str] | None:
        with self._change:
            while not self._queue and not self._closed:
                self._change.wait()
            return self._queue.popleft() if self._queue and not self._errors else None

    def _work(self) -> None:
        """A thread's work: hand modules to a worker process."""
        while (item := self._next()) is not None:
            key, job, opt = item
            done, total = len(self._compiled), len(self._known) - len(self._cached)
            try:
                with progress.step("object", self._known[key], done, total, self._listener):
                    self._compiled[key] = workers.run("object", *job, opt=opt)
            except Exception as error:
                self._errors.append(str(error))


def _default_jobs() -> int:
    setting = knob("LOOPWRIGHT_JOBS")
    if setting > 0:
        return setting
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
