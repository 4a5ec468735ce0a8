"""Worker processes: each case runs where it may die, run too long or ask for too much, alone."""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import gc
import multiprocessing
import os
import re
import resource
import signal
import tempfile
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from .judge import Outcome

# Objects are compiled in the worker, and not kept.
ENVIRONMENT = {
    "LOOPWRIGHT_CACHE": "0",
    "LOOPWRIGHT_JOBS": "1",
    "LOOPWRIGHT_NUM_THREADS": "2",
    "LOOPWRIGHT_PIN_THREADS": "0",
}
WAITS = 10
# Stages in which onnxruntime runs; making a case asks it for shapes.
THEIRS = ("make", "onnxruntime")
CASES_EACH = 400  # after which a worker makes room for a new one
_PR_SET_PDEATHSIG = 1  # of Linux
Task = Callable[[Any, Callable[[str], None]], Outcome]


@dataclass
class _Worker:
    process: Any
    pipe: Connection
    log: Any  # what it writes to stderr
    item: Any = None
    stage: str = ""
    started: float = 0.0
    spent: float = 0.0  # of its processors' time when the case started
    served: int = 0


@dataclass
class Limits:
    """What a case may take: seconds of a processor (a case that waits may take WAITS times as
    long), and bytes of memory (address space that it adds)."""

    seconds: float = 20.0
    memory: int = 4 << 30


@dataclass
class Pool:
    """Runs `task(item, say)` for items in processes forked from this one."""

    task: Task
    processes: int = 2
    limits: Limits = field(default_factory=Limits)
    alone: bool = False  # a new process for each item
    name: Callable[[Any], str] = lambda item: ""

    def run(self, items: Iterable[Any]) -> Iterator[tuple[Any, Outcome, float]]:
        """(item, its outcome, seconds), as they end."""
        left, count = deque(items), self.processes
        workers: list[_Worker] = []
        try:
            while left or workers:
                while left and len(workers) < count:
                    workers.append(self._start())
                    self._give(workers[-1], left.popleft())
                yield from self._look(workers, left)
        finally:
            for worker in workers:
                self._end(worker)

    def _look(
        self, workers: list[_Worker], left: deque[Any]
    ) -> Iterator[tuple[Any, Outcome, float]]:
        wait([w.pipe for w in workers], timeout=0.5)
        for worker in list(workers):
            outcome = self._heard(worker)
            if outcome is None:
                continue
            yield worker.item, outcome, time.monotonic() - worker.started
            worker.served += 1
            fresh = self.alone or worker.served >= CASES_EACH
            if not worker.process.is_alive() or outcome.kind == "hang" or not left or fresh:
                self._end(worker)
                workers.remove(worker)
            else:
                self._give(worker, left.popleft())

    def _heard(self, worker: _Worker) -> Outcome | None:
        """The outcome of a worker's case, if it has one by now."""
        try:
            while worker.pipe.poll():
                said = worker.pipe.recv()
                if isinstance(said, Outcome):
                    return said
                worker.stage = said
        except (EOFError, ConnectionResetError):
            worker.process.join(5)
            kind = "invalid" if worker.stage in THEIRS else "crash"
            words = f"exit code {worker.process.exitcode}: {_last_words(worker)}"
            return Outcome(kind, worker.stage, words, self._name(worker))
        waited = time.monotonic() - worker.started
        if waited > self.limits.seconds and (
            waited > WAITS * self.limits.seconds
            or processor_time(worker.process.pid) - worker.spent > self.limits.seconds
        ):
            words = f"over {self.limits.seconds:g} s"
            return Outcome("hang", worker.stage, words, self._name(worker))
        return None

    def _name(self, worker: _Worker) -> str:
        """What the item is, for groups of those that died; one that died when it was made would kill this process."""
        return "" if worker.stage in THEIRS else self.name(worker.item)

    def _give(self, worker: _Worker, item: Any) -> None:
        worker.item, worker.stage, worker.started = item, "start", time.monotonic()
        worker.spent = processor_time(worker.process.pid)
        worker.pipe.send(item)

    def _start(self) -> _Worker:
        context = multiprocessing.get_context("fork")
        ours, theirs = context.Pipe()
        log = tempfile.TemporaryFile()  # noqa: SIM115  closed with its worker
        process = context.Process(
            target=_serve, args=(self.task, theirs, ours, log, self.limits), daemon=True
        )
        process.start()
        theirs.close()
        return _Worker(process, ours, log)

    @staticmethod
    def _end(worker: _Worker) -> None:
        worker.process.kill()
        worker.process.join()
        worker.pipe.close()
        worker.log.close()


def processor_time(pid: int) -> float:
    """Seconds that a process and those it started have run."""
    total, todo = 0, [pid]
    while todo:
        place = Path(f"/proc/{todo.pop()}")
        with contextlib.suppress(OSError):  # it has ended
            total += sum(map(int, (place / "stat").read_text().rpartition(")")[2].split()[11:15]))
            for task in (place / "task").iterdir():
                todo += map(int, (task / "children").read_text().split())
    return total / os.sysconf("SC_CLK_TCK")


def _last_words(worker: _Worker) -> str:
    """What a worker that died wrote last: an assertion of LLVM, a Python error that is fatal."""
    worker.log.seek(0)
    lines = worker.log.read()[-100_000:].decode(errors="replace").strip().split("\n")
    said = [line for line in lines if re.search("Assertion|assert|LLVM ERROR|Fatal", line)]
    return (said or lines)[-1][-300:]


def _serve(task: Task, pipe: Connection, other: Connection, log: Any, limits: Limits) -> None:
    """The life of a worker."""
    # It ends with the search: siblings keep the other end of its pipe open, so none is told.
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    os.environ.update(ENVIRONMENT)
    other.close()
    faulthandler.disable()
    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 1)
    os.dup2(log.fileno(), 2)
    pages = Path("/proc/self/statm").read_text().split()[0]
    used = int(pages) * os.sysconf("SC_PAGE_SIZE")
    resource.setrlimit(resource.RLIMIT_AS, (used + limits.memory, resource.RLIM_INFINITY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    while True:
        with contextlib.suppress(EOFError):
            item = pipe.recv()
            try:
                outcome = task(item, pipe.send)
            except Exception as error:
                where = traceback.extract_tb(error.__traceback__)[-1]
                name = type(error).__name__
                place = f"{os.path.basename(where.filename)}:{where.name}"
                outcome = Outcome("tool", place, f"{name}: {error}")
            pipe.send(outcome)
            gc.collect(0)
            continue
        os._exit(0)
