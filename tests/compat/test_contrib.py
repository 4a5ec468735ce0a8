"""What scripts import from TVM's `contrib`, `relax.utils` and `runtime`, in its own form."""

from __future__ import annotations

import ctypes
import importlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import loopwright as lw
from loopwright import relax, relay
from loopwright.base.errors import LoopwrightError
from loopwright.compat import args_converter, contrib
from loopwright.compat.executable import Executable
from loopwright.compat.layout import VirtualDevice
from loopwright.compat.questions import have_fp16
from loopwright.relax.expr import Expr
from loopwright.script import tir as T

SOURCE = "int twice(int x) { return 2 * x; }\n"


@pytest.fixture
def source(tmp_path) -> Path:
    if contrib.get_cc() is None:
        pytest.skip("needs a C compiler")
    path = tmp_path / "twice.c"
    path.write_text(SOURCE)
    return path


def test_create_shared(source, tmp_path):
    contrib.create_shared(tmp_path / "a.so", source)
    assert ctypes.CDLL(str(tmp_path / "a.so")).twice(4) == 8
    other = contrib.cross_compiler(contrib.get_cc(), ["-O2"])
    other(tmp_path / "b.so", [source])
    assert ctypes.CDLL(str(tmp_path / "b.so")).twice(5) == 10
    assert other.output_format == "so" and "-" in other.get_target_triple()


def test_create_staticlib(source, tmp_path):
    contrib.create_shared(tmp_path / "twice.o", source, ["-c"])
    contrib.create_staticlib(tmp_path / "one.a", tmp_path / "twice.o")
    contrib.create_staticlib(tmp_path / "two.a", [tmp_path / "one.a"])
    assert (tmp_path / "two.a").read_bytes().startswith(b"!<arch>")
    with pytest.raises(LoopwrightError, match="failed"):
        contrib.create_staticlib(tmp_path / "no.a", tmp_path / "nothing.o")


def test_create_llvm():
    if not contrib.find_clang(required=False):
        with pytest.raises(LoopwrightError, match="clang was not found"):
            contrib.find_clang()
        pytest.skip("needs clang")
    assert "twice" in contrib.create_llvm(SOURCE)


@T.prim_func
def add_one(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
    for i in range(4):
        B[i] = A[i] + T.float32(1)


def test_executable():
    built = lw.compile(add_one)
    wrapped = Executable(built)
    assert isinstance(built, Executable) and wrapped.jit() is wrapped.mod is built
    a, b = lw.nd.array([1.0, 2.0, 3.0, 4.0], dtype="float32"), lw.nd.empty((4,), "float32")
    wrapped["add_one"](a, b)
    assert b.numpy().tolist() == [2.0, 3.0, 4.0, 5.0]


def test_args_converter():
    @args_converter.auto
    def shape_of(x: Expr, rest: list[Expr] | None = None, axis: int = 0) -> tuple:
        return x, rest, axis

    x, rest, axis = shape_of((1, 2), [3, "four"], axis=5)
    assert isinstance(x, relax.Tuple) and all(isinstance(r, Expr) for r in rest) and axis == 5
    assert shape_of(1)[1] is None

    @args_converter.to_list_expr("items")
    def many(*items: list[Expr]) -> tuple:
        return items

    assert [len(item) for item in many([1, 2], [3])] == [2, 1]
    with pytest.raises(TypeError, match="a list of expressions"):
        many(1)

    @args_converter.to_expr("x", "rest", "options")
    def all_kinds(x, *rest, kept=4, **options):
        return x, rest, kept, options

    x, rest, kept, options = all_kinds(1, 2, None, kept=3, k=3.5)
    assert isinstance(x, relax.PrimValue) and isinstance(rest[0], relax.PrimValue)
    assert rest[1] is None and kept == 3 and isinstance(options["k"], relax.PrimValue)


def test_virtual_device():
    nowhere = VirtualDevice()
    assert nowhere == (-1, -1, None, "")
    target = lw.Target("cuda")
    there = VirtualDevice(lw.device("cuda", 1), target, "local")
    assert (there.device_type, there.virtual_device_id) == (2, 1)
    assert (there.target, there.memory_scope) == (target, "local")


def test_a_graph_executor_measures_its_kernels(capsys: pytest.CaptureFixture[str]) -> None:
    debug_executor = importlib.import_module("loopwright.contrib.debugger.debug_executor")
    x, w = relay.var("x", shape=(2, 8)), relay.var("w", shape=(4, 8))
    built: Any = relay.build(relay.Function([x, w], relay.nn.softmax(relay.nn.dense(x, w))), "llvm")
    m = debug_executor.create(built.get_graph_json(), built.get_lib(), lw.cpu())
    names = [entry.name for entry in m.profile(x=np.ones((2, 8), "float32"))]
    assert any("nn_dense" in name for name in names) and any("softmax" in name for name in names)
    m.run(number=2, w=np.ones((4, 8), "float32"))
    assert names[0] in capsys.readouterr().out
    np.testing.assert_allclose(m.get_output(0).numpy(), np.full((2, 4), 0.25), rtol=1e-6)
    times = m.run_individual(2, repeat=3)
    assert len(times) == len(names) and all(len(row) == 3 for row in times)
    with pytest.raises(NotImplementedError, match="collectors of other metrics"):
        m.profile(["papi"])


def test_a_model_built_ahead_of_time_runs() -> None:
    executor = importlib.import_module("loopwright.runtime.executor")
    x = relay.var("x", shape=(2,))
    built = relay.build(relay.Function([x], x + x), "llvm", executor=relay.backend.Executor("aot"))
    m = executor.AotModule(built["default"](lw.cpu()))
    assert m.get_input_name(0) == "x"
    m.run(x=np.ones(2, "float32"))
    assert m.get_output(0).numpy().tolist() == [2, 2]


def test_downloads_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    download = importlib.import_module("loopwright.contrib.download")
    source = tmp_path / "a.txt"
    source.write_text("first")
    monkeypatch.setenv("HOME", str(tmp_path))
    path = Path(download.download_testdata(source.as_uri(), "b.txt", module="data"))
    assert path == tmp_path / ".tvm_test_data/data/b.txt"
    source.write_text("second")
    download.download(source.as_uri(), path)
    assert path.read_text() == "first"
    download.download(source.as_uri(), path, overwrite=True)
    assert path.read_text() == "second"
    with pytest.raises(OSError, match="No such file"):
        download.download((tmp_path / "none").as_uri(), tmp_path / "c.txt", retries=2)


@pytest.fixture
def tool(tmp_path) -> str:
    """A compiler that writes what it was given into its output."""
    path = tmp_path / "tool"
    path.write_text(
        '#!/bin/sh\necho "$@" >> "$0.log"\n'
        'while [ $# -gt 1 ]; do [ "$1" = -o ] && out=$2; shift; done\ncat "$1" > "$out"\n'
    )
    path.chmod(0o755)
    return str(path)


def test_what_a_compiler_is_told(tool, tmp_path):
    source = tmp_path / "a.c"
    source.write_text(SOURCE)
    contrib.create_executable("a.out", str(source), ["-O2", str(source)], tool, str(tmp_path))
    assert (tmp_path / "a.out").read_text() == SOURCE
    contrib.create_shared("a.so", [source], ["-O1", str(source)], tool, str(tmp_path))
    made = contrib.create_llvm(str(source), str(tmp_path / "a.ll"), ["-g"], tool)
    assert made == SOURCE == (tmp_path / "a.ll").read_text()
    assert contrib.create_llvm([SOURCE], cc=tool) == SOURCE  # code
    lines = Path(f"{tool}.log").read_text().replace(str(tmp_path), "DIR").splitlines()
    assert lines[:2] == [
        "-o DIR/a.out DIR/a.c -O2 DIR/a.c",
        "-shared -fPIC -O1 DIR/a.c -o DIR/a.so DIR/a.c",
    ]
    assert lines[2].startswith("-S -emit-llvm -O3 -g -o ") and lines[2].endswith(".ll DIR/a.c")
    assert lines[3].endswith("/input0.cc") and "out0.ll" in lines[3]
    with pytest.raises(LoopwrightError, match="made of one source\n  got: 2 of them"):
        contrib.create_llvm([SOURCE, SOURCE], cc=tool)


@pytest.mark.parametrize(
    ("platform", "linux", "windows"),
    [("linux", True, False), ("darwin", True, False), ("win32", False, True)],
)
def test_platforms(monkeypatch, platform, linux, windows):
    monkeypatch.setattr("sys.platform", platform)
    assert (contrib._is_linux_like(), contrib._is_windows_like()) == (linux, windows)


def test_computes_of_templates():
    from loopwright.compat import autotvm

    @autotvm.register_topi_compute("conv.x86")
    def compute(cfg, data, scale=1):
        return cfg.is_fallback, data * scale

    assert compute(3, scale=2) == (True, 6)
    plain = autotvm.register_topi_schedule("conv.x86", lambda cfg, outs: outs)
    assert plain([1]) == [1]


@pytest.mark.parametrize(
    ("version", "has"),
    [("5.3", True), ("5.2", False), ("5", False), ("6", True), ("6.0", True), ("4.9", False)],
)
def test_float16_of_compute_capabilities(version, has):
    assert have_fp16(version) is has
