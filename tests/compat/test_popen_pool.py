"""Functions in other processes: results, exceptions, time limits, processes that end."""

from __future__ import annotations

import ctypes
import importlib.util
import math
import multiprocessing
import operator
import os
import pickle
import threading
import time

import pytest

from loopwright import testing
from loopwright.compat import popen_pool
from loopwright.compat.popen_pool import PopenPoolExecutor, PopenWorker, StatusKind


def test_results_and_exceptions():
    worker = PopenWorker()
    with pytest.raises(RuntimeError, match="there is nothing to receive"):
        worker.recv()
    worker.send(os.getpid)
    number = worker.recv()
    assert number != os.getpid()
    worker.send(math.pow, [2, 3])
    assert worker.recv() == 8
    worker.send(int, ["12"], {"base": 3})
    assert worker.recv() == 5
    worker.send(operator.truediv, [1, 0])
    with pytest.raises(ZeroDivisionError, match="division by zero"):
        worker.recv()
    worker.send(threading.Lock)  # a result that cannot cross
    with pytest.raises(TypeError, match="cannot pickle"):
        worker.recv()
    worker.send(os.getpid)
    assert worker.recv() == number
    assert worker.is_alive()
    worker.kill()
    assert not worker.is_alive()


def test_a_function_that_takes_too_long():
    worker = PopenWorker()
    begin = time.monotonic()
    worker.send(time.sleep, [60], timeout=0.2)
    with pytest.raises(TimeoutError, match="the function took too long\n  got: 0.2 s"):
        worker.recv()
    assert time.monotonic() - begin < 20
    worker.send(abs, [-3])
    assert worker.recv() == 3


@pytest.mark.parametrize(("fn", "args"), [(os._exit, [3]), (ctypes.string_at, [0])])
def test_a_process_that_ends(fn, args):
    worker = PopenWorker()
    worker.send(fn, args)
    with pytest.raises(ChildProcessError, match="the process ended before the function"):
        worker.recv()
    worker.send(abs, [-3])
    assert worker.recv() == 3


def test_processes_are_used_so_often_and_initialized():
    worker = PopenWorker(os.putenv, ("LOOPWRIGHT_TEST", "here"), maximum_uses=2)
    seen = []
    for _ in range(5):
        worker.send(os.getpid)
        seen.append(worker.recv())
    assert seen[0] == seen[1] != seen[2] == seen[3] != seen[4]
    with pytest.raises(TypeError, match="the initializer of a PopenWorker is a function"):
        PopenWorker(3)
    worker.join(30)
    assert not worker.is_alive()


def test_a_local_function():
    worker = PopenWorker()
    if importlib.util.find_spec("cloudpickle") is None:
        with pytest.raises((pickle.PicklingError, AttributeError)):
            worker.send(lambda: 3)
    else:
        worker.send(lambda: 3)
        assert worker.recv() == 3


def test_pool():
    pool = PopenPoolExecutor(max_workers=2, timeout=30)
    futures = [pool.submit(math.pow, 2, k) for k in range(5)]
    assert [f.result() for f in futures] == [1, 2, 4, 8, 16]
    results = list(pool.map_with_error_catching(math.sqrt, [4, -1, "x"]))
    kinds = [StatusKind.COMPLETE, StatusKind.EXCEPTION, StatusKind.EXCEPTION]
    assert [r.status for r in results] == kinds
    assert results[0].value == 2
    assert isinstance(results[1].value, ValueError)
    slow = PopenPoolExecutor(max_workers=1, timeout=0.2)
    (late,) = slow.map_with_error_catching(time.sleep, [60])
    assert late.status == StatusKind.TIMEOUT
    with pytest.raises(TypeError, match="the initializer of a PopenWorker"):
        PopenPoolExecutor(initializer=3)


class Own(Exception):
    """An exception that cannot cross: it holds a lock."""

    def __init__(self) -> None:
        super().__init__("its own")
        self.lock = threading.Lock()


def fail() -> None:
    raise Own


def test_a_process_serves_until_its_pipe_is_closed():
    ours, theirs = multiprocessing.Pipe()
    served = threading.Thread(target=popen_pool._serve, args=[theirs])
    served.start()
    calls = [
        (math.pow, (2, 3), {}),
        (int, ("12",), {"base": 3}),
        (math.sqrt, (-1,), {}),
        (fail, (), {}),
    ]
    answers = []
    for call in calls:
        ours.send_bytes(pickle.dumps(call))
        assert ours.recv_bytes() == b"begins"
        answers.append(pickle.loads(ours.recv_bytes()))
    ours.close()
    served.join(20)
    assert not served.is_alive()
    assert answers[:2] == [(True, 8), (True, 5)]
    assert [(fine, type(error)) for fine, error in answers[2:]] == [
        (False, ValueError),
        (False, RuntimeError),
    ]
    assert str(answers[3][1]) == "Own: its own"


def test_the_time_limit_is_of_the_function() -> None:
    """A new process imports this package first, which takes longer."""
    worker = PopenWorker()
    worker.send(abs, [-3], timeout=0.2)
    assert worker.recv() == 3


def test_functions_for_processes() -> None:
    worker = PopenWorker(testing.initializer, [1, "a"])
    calls = [(testing.after_initializer, [], (1, "a")), (testing.identity_after, [4, 0], 4)]
    calls += [(testing.register_ffi, [], None)]
    calls += [(f, [5], 5) for f in (testing.call_py_ffi, testing.call_cpp_ffi)]
    calls += [(testing.call_cpp_py_ffi, [6], 6)]
    calls += [(f, [9], 45) for f in (testing.fast_summation, testing.slow_summation)]
    for function, args, wanted in calls:
        worker.send(function, args)
        assert worker.recv() == wanted
    worker.send(testing.terminate_self)
    with pytest.raises(ChildProcessError, match="the process ended"):
        worker.recv()
    worker.send(testing.timeout_job, [60], timeout=0.1)
    with pytest.raises(TimeoutError, match="took too long"):
        worker.recv()
