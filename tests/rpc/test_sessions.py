"""Sessions on this machine: what a user does with them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import loopwright as lw
from loopwright import relax, rpc
from loopwright.runtime import ShapeTuple
from loopwright.script import relax as R
from loopwright.script import tir as T

from . import functions

pytest.importorskip("websockets")
FUNCTIONS = functions.__name__


@T.prim_func
def add_one(A: T.Buffer((1024,), "float32"), B: T.Buffer((1024,), "float32")):
    for i in range(1024):
        B[i] = A[i] + 1.0


@pytest.fixture(scope="module")
def server():
    with rpc.Server(port=0, modules=[FUNCTIONS]) as made:
        yield made


@pytest.fixture(params=["local", "remote"])
def remote(request):
    if request.param == "local":
        session = rpc.LocalSession()
    else:
        made = request.getfixturevalue("server")
        session = rpc.connect(made.host, made.port)
    with session:
        yield session


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    path = tmp_path_factory.mktemp("rpc") / "add.so"
    lw.compile(add_one).export_library(path)
    return path


def test_a_library_runs_and_is_timed(remote, library):
    remote.upload(library)
    module = remote.load_module("add.so")
    assert module.function_names() == [module.entry_name] == ["add_one"]
    given = np.arange(1024, dtype="float32")
    a = lw.nd.array(given, remote.cpu())
    b = lw.nd.empty((1024,), "float32", remote.cpu())
    module(a, b)
    np.testing.assert_array_equal(b.numpy(), given + 1)
    module[module.entry_name](b, a)
    np.testing.assert_array_equal(a.numpy(), given + 2)
    timing = module.time_evaluator(module.entry_name, remote.cpu(), number=3, repeat=2)(a, b)
    assert len(timing.results) == 2
    assert 0 < timing.mean < 1
    with pytest.raises(AttributeError, match="no function 'nothing'; it has: "):
        module["nothing"]


def test_files(remote, library):
    remote.upload(b"some bytes", "a.bin")
    remote.upload(str(library), "b.so")
    remote.upload(bytearray(), "empty")
    assert remote.listdir() == ["a.bin", "b.so", "empty"]
    assert remote.download("a.bin") == b"some bytes"
    assert remote.download("b.so") == library.read_bytes()
    assert remote.download("empty") == b""
    remote.remove("a.bin")
    assert remote.listdir(".") == ["b.so", "empty"]
    with pytest.raises(ValueError, match="bytes that are uploaded need a name"):
        remote.upload(b"x")
    for name in ("../x", "/etc/x", ".."):
        with pytest.raises(rpc.RemoteError, match="a file of a session has a plain name"):
            remote.upload(b"x", name)
    with pytest.raises(rpc.RemoteError, match="FileNotFoundError"):
        remote.load_module("nothing.so")


@pytest.mark.sample(2)
@pytest.mark.parametrize("dtype", ["bool", "int8", "uint64", "float16", "float64", "bfloat16"])
def test_tensors(remote, dtype):
    values = np.arange(24).reshape(2, 3, 4) % 2
    there = lw.nd.array(values, remote.cpu(), dtype)
    assert (there.shape, there.dtype) == ((2, 3, 4), dtype)
    np.testing.assert_array_equal(there.numpy().astype("int64"), values)
    there.copyfrom(1 - values)
    here = there.copyto(lw.cpu())
    np.testing.assert_array_equal(here.numpy().astype("int64"), 1 - values)
    again = here.copyto(remote.cpu())
    assert again.device == remote.cpu() != lw.cpu()
    np.testing.assert_array_equal(again.numpy(), here.numpy())
    assert str(again.device).startswith("remote cpu:0 of ")


def test_shapes_of_tensors(remote):
    assert lw.nd.array(np.float32(3), remote.cpu()).item() == 3
    assert lw.nd.empty((0, 4), "int32", remote.cpu()).numpy().shape == (0, 4)
    transposed = np.arange(6).reshape(2, 3).T
    np.testing.assert_array_equal(lw.nd.array(transposed, remote.cpu()).numpy(), transposed)
    large = np.random.default_rng(0).random(5 << 20)  # 40 MiB: more than a message's part
    np.testing.assert_array_equal(lw.nd.array(large, remote.cpu()).numpy(), large)


def test_a_remote_tensor_is_not_memory_here(remote):
    there = lw.nd.array(np.ones(2), remote.cpu())
    with pytest.raises(ValueError, match="in the memory of another machine\n  got: "):
        lw.nd.array(np.ones(2)).copyfrom(there)
    with pytest.raises(ValueError, match="copyfrom takes an array of the tensor's shape"):
        there.copyfrom(np.ones(3))
    with pytest.raises(rpc.RemoteError, match="tensors of parts of bytes"):
        lw.nd.array(np.ones(2), remote.cpu(), "int4")
    with pytest.raises(ValueError, match="only the CPU of the other machine runs code"):
        lw.nd.empty((2,), "float32", remote.device("cuda"))


def test_functions(server):
    with rpc.connect(server.host, server.port) as remote:
        describe = remote.get_function("test.rpc.describe")
        there = lw.nd.array(np.ones(2), remote.cpu())
        args = (1, 2.5, True, "text", None, there, [1, there], ShapeTuple((2, 3)), np.int64(4))
        names = "int float bool str NoneType Tensor list ShapeTuple int".split()  # noqa: SIM905
        assert describe(*args) == names
        echo = remote.get_function("test.rpc.echo")
        for value in (7, -0.5, float("inf"), "grün", [1, ["a"]], None, False, ShapeTuple((2, 3))):
            assert echo(value) == value
        assert np.isnan(echo(float("nan")))
        assert echo(there).numpy().tolist() == [1, 1]
        assert remote.get_function("test.rpc.adder")(40)(2) == 42
        assert remote.get_function("test.rpc.made")(3).numpy().tolist() == [0, 1, 2]
        with pytest.raises(rpc.RemoteError, match="KeyError on 127.0.0.1:.*: 'this'") as raised:
            remote.get_function("test.rpc.fail")("this")
        assert raised.value.kind == "KeyError"
        with pytest.raises(rpc.RemoteError, match="a mapping does not cross"):
            remote.get_function("test.rpc.mapping")()
        with pytest.raises(rpc.RemoteError, match="cannot find global function 'test.rpc.nothing'"):
            remote.get_function("test.rpc.nothing")
        with pytest.raises(TypeError, match="does not cross between machines\n  got: ndarray"):
            echo(np.ones(2))
        with pytest.raises(ValueError, match="a message between machines is too large"):
            echo("x" * (5 << 20))
        assert echo(1) == 1  # the session goes on


def test_objects_of_another_session_are_refused(server):
    with rpc.connect(server.host, server.port) as one, rpc.connect(server.host, server.port) as two:
        there = lw.nd.array(np.ones(2), one.cpu())
        with pytest.raises(ValueError, match="this belongs to another session"):
            two.get_function("test.rpc.echo")(there)


def test_what_is_forgotten_here_is_let_go_there():
    with rpc.LocalSession() as remote:
        there = [lw.nd.array(np.ones(2), remote.cpu()) for _ in range(5)]
        assert len(remote._serving._objects) == 5
        del there
        remote.listdir()
        assert not remote._serving._objects


@pytest.mark.parametrize("mode", ["bytecode", "compiled"])
def test_virtual_machine(remote, tmp_path, mode):
    @R.function
    def main(x: R.Tensor((4, 4), "float32"), w: R.Tensor((4, 4), "float32")):
        with R.dataflow():
            y = R.multiply(x, w)
            R.output(y)
        return y

    built = relax.build(lw.IRModule({"main": main}), "llvm", exec_mode=mode)
    built.export_library(tmp_path / "vm.so")
    remote.upload(tmp_path / "vm.so")
    device = remote.cpu()
    vm = relax.VirtualMachine(remote.load_module("vm.so"), device)
    x, w = (lw.nd.array(np.full((4, 4), v, "float32"), device) for v in (2, 3))
    assert vm["main"](x, w).numpy()[0, 0] == 6
    vm.set_input("main", x, w=w)
    with pytest.raises(RuntimeError, match="has not been invoked"):
        vm.get_outputs("main")
    vm.invoke_stateful("main")
    assert vm.get_outputs("main").numpy()[0, 0] == 6
    vm.save_function("main", "saved", x=x, w=w)
    assert vm["saved"]().numpy()[0, 0] == 6
    assert vm.time_evaluator("saved", device, number=2)().mean > 0
    assert vm.time_evaluator("main", device, number=2)(x, w).mean > 0
    with pytest.raises(RuntimeError, match="no inputs were set"):
        vm.invoke_stateful("other")


def test_the_program(tmp_path):
    command = [sys.executable, "-m", "loopwright.rpc", "server", "--port", "0"]
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        try:
            where = process.stdout.readline().split()[-1]
            host, _, port = where.rpartition(":")
            with rpc.connect(host, int(port)) as remote:
                assert remote.listdir() == []
            assert list(tmp_path.iterdir())
        finally:
            process.terminate()
    assert process.returncode == 0
    assert not list(tmp_path.iterdir())  # the sessions' folders


@pytest.mark.skipif(shutil.which("taskset") is None, reason="needs taskset")
def test_a_command_runs_the_sessions():
    core = min(os.sched_getaffinity(0))
    command = ["taskset", "-c", str(core), sys.executable]
    server = rpc.Server(port=0, command=command, modules=[FUNCTIONS])
    with server, rpc.connect(server.host, server.port) as remote:
        assert remote.get_function("test.rpc.cores")() == [core]


ARM = ("qemu-aarch64", "aarch64-linux-gnu-gcc")
SYSROOT = Path("/usr/aarch64-linux-gnu")


@pytest.mark.skipif(
    not all(map(shutil.which, ARM)) or not (SYSROOT / "usr/bin/python3").exists(),
    reason=f"needs {' and '.join(ARM)}, and Python in {SYSROOT}",
)
def test_an_emulated_machine(tmp_path):
    built = lw.compile(add_one, target="llvm -mtriple=aarch64-linux-gnu")
    built.export_library(tmp_path / "arm.so")
    python = str(SYSROOT / "usr/bin/python3")
    command = [ARM[0], "-L", str(SYSROOT), python]
    server = rpc.Server(port=0, command=command)
    with server, rpc.connect(server.host, server.port) as remote:
        remote.upload(tmp_path / "arm.so")
        a = lw.nd.array(np.arange(1024, dtype="float32"), remote.cpu())
        b = lw.nd.empty((1024,), "float32", remote.cpu())
        remote.load_module("arm.so")(a, b)
        np.testing.assert_array_equal(b.numpy(), np.arange(1024) + 1)
