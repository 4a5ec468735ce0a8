"""TVM's `contrib.popen_pool`: functions run in other processes of Python, with a time limit.

Functions and values cross as pickles between a program and its own children. A function is found
there by its module and name; with the package `cloudpickle` installed, it may also be local.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from enum import IntEnum
from importlib import import_module
from importlib.util import find_spec
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

from ...base.errors import explain
from ...base.names import Served


class StatusKind(IntEnum):
    """How a call has gone."""

    RUNNING = 0
    COMPLETE = 1
    EXCEPTION = 2
    TIMEOUT = 3


class MapResult(NamedTuple):
    """How a call has gone, and its result or its exception."""

    status: StatusKind
    value: Any


def _dumps(value: Sequence[Any]) -> bytes:
    able = find_spec("cloudpickle") is not None
    pickler: Any = import_module("cloudpickle") if able else pickle
    return pickler.dumps(value)


class PopenWorker:
    """A process that runs one function after another.

    initializer, initargs: called in each new process first.
    maximum_uses: functions after which a new process is started.
    stdout, stderr: files for the process's output.
    """

    def __init__(
        self,
        initializer: Callable[..., Any] | None = None,
        initargs: Sequence[Any] = (),
        maximum_uses: int | None = None,
        stdout: Any = None,
        stderr: Any = None,
    ) -> None:
        if initializer is not None and not callable(initializer):
            what = "the initializer of a PopenWorker is a function"
            raise TypeError(explain(what, got=type(initializer).__name__))
        self._first = None if initializer is None else (initializer, tuple(initargs), {})
        self._maximum, self._files = maximum_uses, {"stdout": stdout, "stderr": stderr}
        self._process: subprocess.Popen[Any] | None = None
        self._pipe: Connection | None = None
        self._uses, self._timeout = 0, None
        self._end: Any = None

    def kill(self) -> None:
        """End the process; the next `send` starts another."""
        if self._end is not None:
            self._end()
        self._process = self._pipe = None
        self._uses = 0

    def join(self, timeout: float | None = None) -> None:
        """Wait until the process has ended, at most for `timeout` seconds."""
        if self._process is not None and self._pipe is not None:
            self._pipe.close()  # it ends when there is nothing more to run
            self._process.wait(timeout)

    def is_alive(self) -> bool:
        """Whether there is a process."""
        return self._process is not None and self._process.poll() is None

    def _start(self) -> Connection:
        own_end, worker_end = Pipe()
        names = [] if Served.name == "loopwright" else [Served.name]
        command = [sys.executable, "-m", __name__, str(worker_end.fileno()), *names]
        process = subprocess.Popen(
            command, pass_fds=[worker_end.fileno()], stdin=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}, **self._files,
        )  # fmt: skip
        worker_end.close()
        self._pipe, self._uses = own_end, 0
        self._process = process
        self._end = weakref.finalize(self, _end, process, own_end)
        if self._first is not None:
            own_end.send_bytes(_dumps(self._first))
            self._answer(own_end, None)
        return own_end

    def send(
        self,
        fn: Callable[..., Any],
        args: Sequence[Any] = (),
        kwargs: dict[str, Any] | None = None,
        timeout: float | None = None,
    ) -> None:
        """Run a function there, for at most `timeout` seconds from when it begins; `recv` has its result. Raises
        PicklingError or AttributeError for a function that cannot be found there."""
        data = _dumps((fn, tuple(args), dict(kwargs or {})))
        if self._maximum is not None and self._uses >= self._maximum:
            self.kill()
        pipe = self._pipe if self._pipe is not None and self.is_alive() else self._start()
        self._uses += 1
        self._timeout = timeout
        pipe.send_bytes(data)

    def recv(self) -> Any:
        """The result of what was sent, or the exception that it raised. Raises TimeoutError, and
        ChildProcessError where the process has ended."""
        if self._pipe is None:
            what = "there is nothing to receive"
            raise RuntimeError(explain(what, instead="send a function first"))
        return self._answer(self._pipe, self._timeout)

    def _answer(self, pipe: Connection, timeout: float | None) -> Any:
        try:
            pipe.recv_bytes()  # it begins: a new process has to import first
            if not pipe.poll(timeout):
                self.kill()
                raise TimeoutError(explain("the function took too long", got=f"{timeout} s"))
            good, value = pickle.loads(pipe.recv_bytes())
        except (EOFError, OSError) as error:
            if isinstance(error, TimeoutError):
                raise
            self.kill()
            raise ChildProcessError(explain("the process ended before the function")) from None
        if good:
            return value
        raise value


def _end(process: subprocess.Popen[Any], pipe: Connection) -> None:
    pipe.close()
    process.kill()
    process.wait()


class PopenPoolExecutor:
    """A pool of such processes. Its arguments are those of `PopenWorker`; `timeout` is of a call."""

    def __init__(
        self, max_workers: int | None = None, timeout: float | None = None,
        initializer: Callable[..., Any] | None = None, initargs: Sequence[Any] = (),
        maximum_process_uses: int | None = None, stdout: Any = None, stderr: Any = None,
    ) -> None:  # fmt: skip
        worker_args = (initializer, initargs, maximum_process_uses, stdout, stderr)
        PopenWorker(*worker_args)  # raises for wrong arguments now
        self._worker_args, self._timeout = worker_args, timeout
        self._threads = ThreadPoolExecutor(max_workers or os.cpu_count() or 1)
        self._own = threading.local()

    def _run(
        self, fn: Callable[..., Any], args: Sequence[str | int], kwargs: dict[Any, Any]
    ) -> Any:
        worker = getattr(self._own, "worker", None)
        if worker is None:
            worker = self._own.worker = PopenWorker(*self._worker_args)
        worker.send(fn, args, kwargs, self._timeout)
        return worker.recv()

    def _result(self, fn: Callable[..., Any], value: str | int) -> MapResult:
        try:
            return MapResult(StatusKind.COMPLETE, self._run(fn, (value,), {}))
        except TimeoutError as error:
            return MapResult(StatusKind.TIMEOUT, error)
        except Exception as error:
            return MapResult(StatusKind.EXCEPTION, error)

    def submit(self, fn: Callable[..., Any], *args: int, **kwargs: Any) -> Future[Any]:
        """Call a function in a process; the future has its result or exception."""
        return self._threads.submit(self._run, fn, args, kwargs)

    def map_with_error_catching(
        self, fn: Callable[[Any], Any], iterator: Iterable[Any]
    ) -> Iterator[MapResult]:
        """The results of calls with each value, in order, exceptions and timeouts among them."""
        futures = [self._threads.submit(self._result, fn, value) for value in iterator]
        return (future.result() for future in futures)


def _serve(pipe: Connection) -> None:
    """Run what comes until the other end is closed."""
    while True:
        try:
            data = pipe.recv_bytes()
        except EOFError:
            return
        try:
            try:
                fn, args, kwargs = pickle.loads(data)
            finally:
                pipe.send_bytes(b"begins")
            answer = _dumps((True, fn(*args, **kwargs)))
        except Exception as error:
            try:
                answer = _dumps((False, error))
            except Exception:  # an exception of its own that cannot cross
                answer = _dumps((False, RuntimeError(f"{type(error).__name__}: {error}")))
        pipe.send_bytes(answer)


if __name__ == "__main__":
    if sys.argv[2:]:
        from loopwright.tvm.compat import alias

        alias(sys.argv[2])
    _serve(Connection(int(sys.argv[1])))
