"""Profiles of executables; executables called from many threads and after a fork."""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from loopwright.driver import VirtualMachine, compile
from loopwright.runtime.packed_func import register_func, remove_global_func
from loopwright.script import ir as I
from loopwright.script import relax as R
from loopwright.script import tir as T


@I.ir_module
class Model:
    @R.function
    def main(x: R.Tensor(("n", 16), "float32"), w: R.Tensor((16, 8), "float32")) -> R.Tensor(
        ("n", 8), "float32"
    ):
        with R.dataflow():
            a = R.matmul(x, w)
            b = R.nn.softmax(a, axis=-1)
            R.output(b)
        return b


def softmax(a):
    e = np.exp(a - a.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


@pytest.fixture(scope="module")
def model():
    return compile(Model)


def inputs(n, seed=0):
    rng = np.random.default_rng(seed)
    return [rng.normal(size=s).astype("float32") for s in ((n, 16), (16, 8))]


def test_a_profile_names_every_kernel_that_ran(model):
    x, w = inputs(64)
    profile = model.profile(x, w, number=3)
    kernels = set(model.program.texts) - {"graph functions"}
    assert {entry.name for entry in profile} == kernels
    assert all(entry.calls == 3 and entry.total_us > 0 for entry in profile)
    assert profile.total_us < 1e6
    # Measuring changes neither results nor the executable.
    np.testing.assert_allclose(model["main"](x, w).numpy(), softmax(x @ w), rtol=1e-5)
    assert "lw_clock" not in model.program.text("graph functions")
    again = model.profile(x, w)
    assert {entry.name for entry in again} == kernels
    assert VirtualMachine(model).profile("main", x, w).total_us > 0
    names = model.input_names()
    assert {entry.name for entry in model.profile(dict(zip(names, (x, w), strict=True)))} == kernels


def test_kernels_alone_are_profiled_too():
    @T.prim_func
    def f(A: T.Buffer((64,), "float32")):
        for i in range(64):
            A[i] = A[i] + T.float32(1)

    exe = compile(f)
    profile = exe.profile(np.zeros(64, "float32"), function="f", number=2)
    assert profile["f"].calls == 2


def test_four_threads_call_one_executable_at_once(model):
    cases = [(inputs(n, seed=n), n) for n in (1, 7, 33, 150)]
    wrong, start = [], threading.Barrier(4)

    def work(case, n):
        want = softmax(case[0] @ case[1])
        start.wait()
        for _ in range(100):
            got = model["main"](*case).numpy()
            if got.shape != (n, 8) or not np.allclose(got, want, rtol=1e-4, atol=1e-6):
                wrong.append(n)

    threads = [threading.Thread(target=work, args=case) for case in cases]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_threads_that_compile_and_run():
    failed = []

    def work(k):
        @T.prim_func
        def f(A: T.Buffer((128,), "float32")):
            for i in T.parallel(128):
                A[i] = A[i] * T.float32(k) + T.Cast("float32", i)

        x = np.ones(128, "float32")
        compile(f)["f"](x)
        if not np.array_equal(x, k + np.arange(128)):
            failed.append(k)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))
    assert not failed


def test_errors_stay_in_their_thread(model):
    messages, start = [], threading.Barrier(2)
    x, w = inputs(5)

    def wrong():
        start.wait()
        for _ in range(50):
            try:
                model["main"](x, w[:4])
            except ValueError as error:
                messages.append(str(error))

    thread = threading.Thread(target=wrong)
    thread.start()
    start.wait()
    for _ in range(50):
        np.testing.assert_allclose(model["main"](x, w).numpy(), softmax(x @ w), rtol=1e-5)
    thread.join()
    firsts = {message.split("\n")[0] for message in messages}
    assert firsts == {"main: argument 1 `w` has shape[0] = 4, expected 16"}
    assert len(messages) == 50


def test_python_functions_are_called_from_the_tasks_of_a_parallel_loop():
    seen = []
    register_func("test.seen", lambda k: seen.append(k), override=True)

    @T.prim_func
    def f(A: T.Buffer((32,), "float32")):
        for i in T.parallel(32):
            T.evaluate(T.call_packed("test.seen", i))
            A[i] = T.float32(1)

    try:
        x = np.zeros(32, "float32")
        compile(f)["f"](x)
    finally:
        remove_global_func("test.seen")
    assert sorted(seen) == list(range(32)) and (x == 1).all()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_an_executable_works_in_a_forked_child(model):
    x, w = inputs(200)
    want = softmax(x @ w)
    model["main"](x, w)  # the pool's threads run
    child = os.fork()
    if child == 0:
        code = 1
        try:
            good = all(np.allclose(model["main"](x, w).numpy(), want, rtol=1e-4) for _ in range(5))
            code = 0 if good else 2
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    np.testing.assert_allclose(model["main"](x, w).numpy(), want, rtol=1e-4)
