"""Processes in which LLVM runs: an abort of LLVM ends only the worker.

    compile_object(text)                      # bytes of a relocatable object for the host
    run("assembly", text, triple, cpu, ...)   # any of compiler.JOBS

A worker that dies on a module is replaced, and the module tried again at the levels of `SAFER`; if it
ends that worker, too, the error says what LLVM said. Where no process can be started, LLVM runs in
this one.
"""

from __future__ import annotations

import atexit
import os
import re
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from loopwright.base.errors import explain
from loopwright.codegen.llvm import compiler
from loopwright.codegen.llvm.compiler import CompileError
from loopwright.codegen.llvm.machine import check_machine, resolve

# Optimisation levels to try after LLVM failed on a module: without NewGVN, whose own assertions fail
# on some phi cycles, then without any pass.
SAFER = ("O1", "none")


class Died(Exception):
    """A worker ended in the middle of a job; the text is LLVM's output."""


class Worker:
    """A process that does one job at a time, started by path so that no user module is imported."""

    def __init__(self) -> None:
        # -S and an explicit path: site-packages' start-up hooks cost more than the worker's work.
        prologue = (
            f"import sys; sys.path[:] = {sys.path!r}; import runpy; "
            f"runpy.run_path({compiler.__file__!r}, run_name='__main__')"
        )
        self.said = tempfile.TemporaryFile()  # noqa: SIM115 - open as long as the process
        self.process = subprocess.Popen(
            [sys.executable, "-S", "-c", prologue],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.said,
        )
        self.input: Any = self.process.stdin
        self.output: Any = self.process.stdout

    def do(self, kind: str, job: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """The result of a job. Raises CompileError for code that LLVM rejects, Died where LLVM ends."""
        try:
            compiler.send(self.input, (kind, job, options))
            ok, value = compiler.receive(self.output)
        except (OSError, EOFError):
            said = self._last_words()
            self.close()
            raise Died(said) from None
        if not ok:
            raise CompileError(value)
        return value

    def _last_words(self) -> str:
        """The line of stderr in which LLVM says why it ends."""
        self.said.seek(0)
        lines = self.said.read().decode(errors="replace").splitlines()
        said = [line for line in lines if "LLVM ERROR" in line or "Assertion" in line]
        return said[-1].strip()[:300] if said else ""

    def alive(self) -> bool:
        return self.process.poll() is None

    def close(self) -> None:
        for stream in (self.input, self.output, self.said):
            with suppress(OSError):  # its pipe broke with the process
                stream.close()
        self.process.kill()
        self.process.wait()


_idle: list[Worker] = []
_lock = threading.Lock()


@contextmanager
def worker() -> Iterator[Worker]:
    """A worker for one thread; it is kept for the next. Raises OSError where none can be started."""
    with _lock:
        own = _idle.pop() if _idle else None
    if own is None or not own.alive():
        own = Worker()
    try:
        yield own
    finally:
        if own.alive():
            with _lock:
                _idle.append(own)


def run(kind: str, text: str, *machine: str | None, opt: str, **options: bool) -> Any:
    """The result of a job on a module's text. Raises CompileError, ValueError for an unknown level."""
    if opt not in compiler.LEVELS:
        raise ValueError(f"opt must be one of {', '.join(compiler.LEVELS)}, got {opt!r}")
    meant = resolve(*machine)
    check_machine(*meant)
    said = []
    levels = [opt, *SAFER]
    while levels:
        try:
            with worker() as own:
                return own.do(kind, (text, *meant), {"opt": levels[0], **options})
        except Died as death:
            if said or death.args[0]:  # without a word of LLVM's it may have been killed: once more
                levels.pop(0)
            said.append(death.args[0])
        except OSError:
            return compiler.JOBS[kind](text, *meant, opt=levels[0], **options)
    raise CompileError(_refusal(text, meant, next(filter(None, said), "a crash")))


def _refusal(text: str, machine: tuple[str, ...], said: str) -> str:
    """Why LLVM ended on a module at each level."""
    name = next((m[1] for m in re.finditer(r'^define [^@]*@"?([^"(]+)', text, re.MULTILINE)), "?")
    called = sorted(set(compiler.MACHINE_CALL.findall(text)))
    got = " ".join(str(part) for part in (*machine[:2], said) if part)
    if not called:
        hint = "another -mcpu, or another schedule of this kernel; please report the kernel"
        return explain(f"LLVM ends on the code of {name[:100]}", got=got, instead=hint)
    what = f"the target has no instruction for {' or '.join(called)}"
    hint = "another intrinsic or -mcpu; the interpreter knows those that CPU schedules use"
    return explain(what, got=got, instead=hint)


def compile_object(
    text: str,
    triple: str | None = None,
    cpu: str | None = None,
    features: str | None = None,
    opt: str = "short",
    verify: bool = False,
) -> bytes:
    """`compiler.compile_object` in a worker."""
    return run("object", text, triple, cpu, features, opt=opt, verify=verify)


def assembly(text: str, *machine: str | None, opt: str = "short") -> str:
    """`compiler.assembly` in a worker. `machine`: triple, CPU and features, else the host's."""
    return run("assembly", text, *machine, opt=opt)


def optimized_ir(text: str, *machine: str | None, opt: str = "short") -> str:
    """`compiler.optimized_ir` in a worker."""
    return run("ir", text, *machine, opt=opt)


def processor_seconds() -> float:
    """The processor time of the processes that are idle now, on Linux."""
    ticks = 0
    for own in _idle:
        with open(f"/proc/{own.process.pid}/stat", encoding="ascii") as file:
            ticks += sum(map(int, file.read().rsplit(")", 1)[1].split()[11:13]))
    return ticks / os.sysconf("SC_CLK_TCK")


def _forget() -> None:
    """In a forked child the pipes are the parent's: drop them without closing the parent's workers."""
    global _lock
    _idle.clear()
    _lock = threading.Lock()


@atexit.register
def close_workers() -> None:
    """End the processes that are idle."""
    for own in _idle:
        own.close()
    _idle.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
