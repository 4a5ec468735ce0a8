"""The thread pool and the workspace: every task once, nested, concurrent, after fork, aligned."""

import ctypes
import errno
import os
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

from loopwright.codegen.llvm import jit, support
from loopwright.runtime import threads
from tests.codegen.native import load

TEXT = """
define void @count(ptr %data, i32 %task, i32 %n) {
  %p = getelementptr i64, ptr %data, i32 %task
  %old = atomicrmw add ptr %p, i64 1 monotonic
  ret void
}
define void @nested(ptr %data, i32 %task, i32 %n) {
  %rc = call i32 @lw_parallel_launch(ptr @count, ptr %data, i32 8)
  ret void
}
define void @repeat(ptr %data, i32 %regions, i32 %tasks) {
entry:
  br label %loop
loop:
  %i = phi i32 [ 0, %entry ], [ %j, %loop ]
  %rc = call i32 @lw_parallel_launch(ptr @count, ptr %data, i32 %tasks)
  %j = add i32 %i, 1
  %more = icmp slt i32 %j, %regions
  br i1 %more, label %loop, label %exit
exit:
  ret void
}
"""


@pytest.fixture(scope="module")
def library():
    return load(TEXT, "count", "nested", "repeat")


@pytest.fixture(scope="module")
def launch():
    address = support.pool_symbols()["lw_parallel_launch"]
    return ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int)(address)


@pytest.fixture(autouse=True)
def two_threads():
    before = threads.num_threads()
    threads.set_num_threads(2)
    yield
    threads.set_num_threads(before)


def run(code: str) -> subprocess.CompletedProcess:
    """Python code in a process of its own, with this one's import path."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, env=environment
    )


@pytest.mark.parametrize("workers", [1, 2, 3, 7])
@pytest.mark.parametrize("tasks", [0, 1, 2, 63, 100_000])
def test_every_task_runs_once(library, launch, workers, tasks):
    threads.set_num_threads(workers)
    assert threads.num_threads() == workers
    data = np.zeros(tasks + 1, "int64")
    for _ in range(3):
        assert launch(library["count"], data.ctypes.data, tasks) == 0
    assert (data[:tasks] == 3).all() and data[tasks] == 0


def test_many_short_regions(library):
    data = np.zeros(5, "int64")
    repeat = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int, ctypes.c_int)(library["repeat"])
    repeat(data.ctypes.data, 20_000, 5)
    assert (data == 20_000).all()


def test_each_thread_begins_with_neighbours_of_its_own(launch):
    began, both = [], threading.Barrier(2)

    @ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int, ctypes.c_int)
    def task(data, index, count):
        began.append(index)
        if index in (0, 4):  # each waits until the other has begun
            both.wait(timeout=60)

    launch(ctypes.cast(task, ctypes.c_void_p), None, 8)
    assert set(began[:2]) == {0, 4}
    assert sorted(began) == list(range(8))


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="the worker has the caller's CPU")
def test_a_worker_that_does_not_run_gets_the_callers_cpu(library, launch):
    """One that sleeps, here; in general, one that lost its CPU to a thread of somebody else."""
    launch(library["count"], np.zeros(8, "int64").ctypes.data, 8)  # the worker has started
    caller, seen, both = threading.get_native_id(), {}, threading.Barrier(2)

    @ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int, ctypes.c_int)
    def task(data, index, count):
        both.wait(timeout=60)  # a task for each
        me = threading.get_native_id()
        if me != caller:
            before = os.sched_getaffinity(me)
            time.sleep(0.1)
            seen[me] = before, os.sched_getaffinity(me)

    assert launch(ctypes.cast(task, ctypes.c_void_p), None, 2) == 0
    ((worker, (before, during)),) = seen.items()
    assert len(during) == 1 and during != before
    assert len(os.sched_getaffinity(worker)) == len(before)


def test_nested_regions_run_serially(library, launch):
    data = np.zeros(8, "int64")
    launch(library["nested"], data.ctypes.data, 50)
    assert (data == 50).all()


def test_concurrent_regions(library, launch):
    data = np.zeros(16, "int64")
    count, address = library["count"], data.ctypes.data

    def work():
        for _ in range(500):
            launch(count, address, 16)

    callers = [threading.Thread(target=work) for _ in range(4)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert (data == 2000).all()


def test_a_forked_child_has_its_own_pool(library, launch):
    launch(library["count"], np.zeros(4, "int64").ctypes.data, 4)
    for _ in range(5):
        child = os.fork()
        if child == 0:
            data = np.zeros(100, "int64")
            launch(library["count"], data.ctypes.data, 100)
            os._exit(0 if (data == 1).all() else 1)
        assert os.waitpid(child, 0)[1] == 0


def test_without_new_threads_all_runs_in_the_caller():
    refuse = ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_void_p] * 4)(lambda *_: errno.EAGAIN)
    text = support.pool_text(jit.host_triple(), threads=4)
    objects = [jit.compile_object(part) for part in (text, support.declarations(TEXT) + TEXT)]
    address = ctypes.cast(refuse, ctypes.c_void_p).value
    library = jit.load_objects(objects, {"pthread_create": address}, ("repeat", "lw_num_threads"))
    data = np.zeros(4, "int64")
    repeat = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int, ctypes.c_int)
    repeat(library["repeat"])(data.ctypes.data, 10, 4)
    num_threads = ctypes.CFUNCTYPE(ctypes.c_int)(library["lw_num_threads"])
    assert (data.tolist(), num_threads()) == ([10] * 4, 1)


def test_workers_do_not_keep_the_process():
    code = (
        "import ctypes, numpy as np\n"
        "from tests.codegen.native import load\n"
        "from tests.codegen.test_threadpool import TEXT\n"
        "library = load(TEXT, 'repeat')\n"
        "data = np.zeros(4, 'int64')\n"
        "run = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int, ctypes.c_int)\n"
        "run(library['repeat'])(data.ctypes.data, 10, 4)\n"
        "print(data.sum())\n"
    )
    done = run(code)
    assert (done.returncode, done.stdout.strip()) == (0, "40"), done.stderr


@pytest.mark.parametrize("triple", ["aarch64-linux-gnu", "arm64-apple-macosx", "riscv64-linux-gnu"])
def test_the_text_compiles_for_other_targets(triple):
    text = support.pool_text(triple)
    assert support.has_pool(triple) == ("pthread_create" in text)
    assert len(jit.compile_object(text, triple, verify=True)) > 1000


# Workspace


@pytest.fixture(scope="module")
def workspace():
    symbols = support.pool_symbols()
    alloc = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_int64)(symbols["lw_workspace_alloc"])
    free = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(symbols["lw_workspace_free"])
    return alloc, free


SIZES = (0, 1, 63, 64, 1000, 100_000, 5_000_000, 7)


@pytest.mark.parametrize("order", ["stack", "queue", "mixed"])
def test_blocks_are_aligned_apart_and_reused(workspace, order):
    alloc, free = workspace
    places = []
    for _ in range(3):
        blocks = [alloc(size) for size in SIZES]
        places.append(blocks)
        assert all(p % 64 == 0 for p in blocks)
        for i, (p, size) in enumerate(zip(blocks, SIZES)):
            ctypes.memset(p, i, size)
        for i, (p, size) in enumerate(zip(blocks, SIZES)):
            assert ctypes.string_at(p, size) == bytes([i]) * size
        turns = {"stack": blocks[::-1], "queue": blocks, "mixed": blocks[::2] + blocks[1::2]}
        for p in turns[order]:
            free(p)
    assert places[1] == places[2], "a steady state allocates the same places"


def test_growing_while_blocks_live(workspace):
    alloc, free = workspace
    outer = alloc(100)
    ctypes.memset(outer, 5, 100)
    inner = [alloc(1 << 24) for _ in range(3)]
    assert ctypes.string_at(outer, 100) == b"\5" * 100
    for p in [*inner, outer]:
        free(p)
    free(None)
    assert alloc(1 << 62) is None, "out of memory is a null pointer"


def test_each_thread_has_its_own(workspace):
    alloc, free = workspace
    here = alloc(64)
    there = []

    def work():
        p = alloc(64)
        there.append(p)
        free(p)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert there[0] != here
    free(here)


def test_the_size_of_an_exported_pool():
    for triple in ("x86_64-linux-gnu", "aarch64-linux-gnu"):
        text = support.pool_text(triple, 3)
        assert text.count("internal global i32 3") == 1
        assert text != support.pool_text(triple)
