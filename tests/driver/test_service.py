"""An executable in a service: threads, processes, asyncio, Ctrl-C, memory."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import loopwright as lw
from loopwright.relax import op
from tools import demo

MODEL = str(demo.BUNDLED)
SIZES = (1, 8, 3, 32, 5, 2)


@pytest.fixture(autouse=True)
def interruptible() -> Iterator[None]:
    """What a shell starts in the background ignores SIGINT, and so do the processes that it starts."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(scope="module")
def images():
    with np.load(demo.BUNDLED.with_suffix(".npz")) as feeds:
        return np.resize(feeds["image"], (max(SIZES), 1, 16, 16))


@pytest.fixture(scope="module")
def exe():
    return lw.compile(MODEL)


def unbounded():
    """A model that the virtual machine runs: its result's size is known only at run time."""
    x = lw.relax.Var("x", lw.relax.TensorStructInfo((lw.tir.Var("n", "int64"), 4), "float32"))
    builder = lw.relax.BlockBuilder()
    with builder.function("main", [x]):
        builder.emit_func_output(builder.emit(op.nonzero(x)))
    return lw.compile(builder.get())


@pytest.mark.parametrize("kind", ["native", "machine"])
def test_four_threads_share_an_executable_over_changing_sizes(exe, images, kind):
    if kind == "native":
        call, values, expected = exe["main"], images, exe["main"](images).numpy()
    else:
        call, values, expected = unbounded()["main"], np.eye(32, 4, dtype="float32"), None

    def check(n: int) -> None:
        want = np.stack(np.nonzero(values[:n])) if expected is None else expected[:n]
        np.testing.assert_allclose(call(values[:n]).numpy(), want, rtol=1e-5)

    def client(first: int) -> int:
        for k in range(60):
            check(SIZES[(first + k) % len(SIZES)])
        return first

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(client, range(4))) == [0, 1, 2, 3]


SCRIPT = """
import sys, numpy as np, loopwright as lw
exe = lw.compile(sys.argv[1])
with np.load(sys.argv[2]) as feeds:
    image = feeds["image"]
found = [exe.run({"image": image[: 1 + k % 10]})["probability"].numpy().argmax(1) for k in range(200)]
assert all((row == np.arange(len(row))).all() for row in found)
print("right")
"""


@pytest.mark.slow
def test_two_processes_compile_and_run_at_once(tmp_path):
    """With one empty cache folder, which both fill."""
    cache = tmp_path / "cache"
    cache.mkdir(mode=0o700)
    environment = {**os.environ, "LOOPWRIGHT_CACHE_DIR": str(cache)}
    command = [sys.executable, "-c", SCRIPT, MODEL, str(demo.BUNDLED.with_suffix(".npz"))]
    both = [
        subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    assert [process.communicate()[0] for process in both] == ["right\n"] * 2


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_child_of_a_fork_runs_what_its_parent_compiled(exe, images):
    expected = exe["main"](images).numpy()
    child = os.fork()
    if not child:
        same = all(
            np.allclose(exe["main"](images[:n]).numpy(), expected[:n], rtol=1e-5) for n in SIZES
        )
        os._exit(0 if same else 1)
    np.testing.assert_allclose(exe["main"](images).numpy(), expected, rtol=1e-5)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_an_event_loop_runs_on_while_models_run(exe, images):
    many = np.resize(images, (4096, 1, 16, 16))
    alone = time.perf_counter()
    exe["main"](many)
    alone = time.perf_counter() - alone

    async def serve() -> tuple[int, list[tuple[int, ...]]]:
        ticks, tasks = (
            0,
            [asyncio.create_task(asyncio.to_thread(exe["main"], many)) for _ in range(6)],
        )
        while not all(task.done() for task in tasks):
            await asyncio.sleep(alone / 20)
            ticks += 1
        return ticks, [task.result().shape for task in tasks]

    ticks, shapes = asyncio.run(serve())
    assert shapes == [(4096, 10)] * 6 and ticks >= 6, "calls do not hold the interpreter's lock"


LOOP = """
import sys, numpy as np, loopwright as lw
{setup}
print("begins", flush=True)
while True:
    {body}
"""
INTERRUPTED = {
    "compile": ("", "lw.transform.Sequential([lw.relax.transform.LegalizeOps()])(lw.lower({0!r})[0].before)"),
    "run": ("call = lw.compile({0!r})['main']; x = np.zeros((64, 1, 16, 16), 'float32')", "call(x)"),
    "a long call in a thread": (
        """import threading
from loopwright.script import from_source
text = '@T.prim_func\\ndef f(a: T.Buffer((1,), "float32")):\\n    for k in range(1 << 40):\\n'
call = lw.compile(from_source(text + '        a[0] = a[0] * T.float32(0.5) + T.float32(1)'))["f"]
done, a = threading.Event(), np.ones(1, "float32")
threading.Thread(target=lambda: (call(a), done.set()), daemon=True).start()""",
        "sys.exit(done.wait(600))",  # a call that ended is no test
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", INTERRUPTED)
def test_ctrl_c_ends_what_runs(what, tmp_path):
    setup, body = (text.format(MODEL) for text in INTERRUPTED[what])
    script = LOOP.format(setup=setup, body=body)
    command = [sys.executable, "-c", script]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None and process.stdout.readline() == "begins\n"
        time.sleep(0.3)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=30)
    assert process.returncode in (130, -signal.SIGINT) and said.rstrip().endswith(
        "KeyboardInterrupt"
    )


@pytest.mark.budget(6)
def test_ctrl_c_ends_a_command_and_leaves_nothing_broken(tmp_path):
    cache = tmp_path / "cache"
    cache.mkdir(mode=0o700)
    environment = {**os.environ, "LOOPWRIGHT_CACHE_DIR": str(cache)}
    command = [sys.executable, "-m", "loopwright", "bench", MODEL, "--seconds", "600"]
    command += ["--warmup", "0"]
    process = subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    end = time.monotonic() + 60
    while (
        not any(cache.rglob("*.o")) and time.monotonic() < end
    ):  # while it compiles, or soon after
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    out, said = process.communicate(timeout=30)
    assert process.returncode == 130 and out == "" and "Traceback" not in said
    command[3:] = ["run", MODEL, "-q"]
    done = subprocess.run(command, env=environment, check=True, capture_output=True)
    assert done.stdout.startswith(b"probability: float32 (1, 10)")


@pytest.mark.sample(3)
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="no /proc here")
@pytest.mark.parametrize("how", ["main", "run", "refused"])
def test_memory_is_flat(exe, images, how):
    def call() -> None:
        if how == "main":
            exe["main"](images[:2])
        elif how == "run":
            exe.run({"image": images[:3]})
        else:
            with pytest.raises(lw.CallError):
                exe["main"](images[0])

    def pages(calls: int) -> int:
        for _ in range(calls):
            call()
        gc.collect()
        return int(Path("/proc/self/statm").read_text().split()[1])

    count = 4_000 if how == "refused" else 20_000
    first = pages(count)
    assert pages(count) - first < 256, "a mebibyte: 26 bytes a call"
