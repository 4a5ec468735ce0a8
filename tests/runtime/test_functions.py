"""Functions by name, modules, measurement, profiles, threads."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

from loopwright import runtime
from loopwright.runtime import Module, Profile, get_global_func, measure, register_func, threads
from loopwright.runtime.module import BenchmarkResult, ordered_inputs


@pytest.fixture
def name():
    yield "test.runtime.f"
    runtime.remove_global_func("test.runtime.f")


def test_register_and_get(name):
    @register_func(name)
    def add(x, y):
        return x + y

    assert add(1, 2) == 3, "the decorator returns the function"
    assert get_global_func(name)(3, 4) == 7
    assert name in runtime.list_global_func_names()
    with pytest.raises(ValueError, match="already registered"):
        register_func(name, add)
    register_func(name, lambda x, y: x * y, override=True)
    assert get_global_func(name)(3, 4) == 12


def test_missing_functions():
    assert get_global_func("test.runtime.none", allow_missing=True) is None
    with pytest.raises(ValueError, match=r"cannot find global function 'test\.runtime\.none'"):
        get_global_func("test.runtime.none")
    with pytest.raises(TypeError, match="expects a name"):
        register_func(3)


def test_convert():
    assert runtime.convert(3) == 3
    made = runtime.convert([1, {"f": len}])
    assert made[0] == 1 and isinstance(made[1]["f"], runtime.PackedFunc)
    assert made[1]["f"]([1, 2]) == 2


def test_module_lookup():
    inner = Module({"g": lambda: "g"}, kind="c")
    outer = Module({"main": lambda x: x + 1}, sources={"ll": "define"})
    outer.import_module(inner)
    assert outer(1) == 2 and outer["g"]() == "g" and "g" in outer
    assert outer.imported_modules == [inner] and inner.entry_func() == "g"
    assert outer.get_source() == outer.get_source("ll") == "define"
    assert not outer.implements_function("g") and outer.implements_function("g", True)
    with pytest.raises(AttributeError, match="no function 'g'; it has: main"):
        outer.get_function("g")
    with pytest.raises(ValueError, match="no source of format 'asm'; it has: ll"):
        outer.get_source("asm")
    outer.clear_imports()
    assert "g" not in outer


def test_time_evaluator():
    calls = []
    module = Module({"main": calls.append, "prepare": lambda x: calls.append("p")})
    timer = module.time_evaluator("main", runtime.cpu(), number=3, repeat=2, f_preproc="prepare")
    result = timer("x")
    assert calls == ["x", "p", "x", "x", "x", "p", "x", "x", "x"]
    assert len(result.results) == 2 and result.min <= result.median <= result.max
    assert result.mean > 0 and "mean (ms)" in str(result)
    calls.clear()
    assert module.time_evaluator("main", number=2)("x").results and len(calls) == 3
    calls.clear()
    module.time_evaluator("main", runtime.cpu(), 1, 2, 0, 100, 0, 1, 0, "prepare")("x")
    assert calls == ["x", "p", "x", "p", "x"]
    with pytest.raises(ValueError, match="cannot measure on cuda:0"):
        module.time_evaluator("main", "cuda")


def test_pauses_between_repeats(monkeypatch):
    slept = []
    monkeypatch.setattr("time.sleep", slept.append)
    timing = {"cooldown_interval_ms": 20, "repeats_to_cooldown": 2, "cache_flush_bytes": 64}
    result = measure(lambda: None, number=1, repeat=6, **timing)
    assert slept == [0.02, 0.02] and len(result.results) == 6


def test_statistics_of_times():
    result = BenchmarkResult([1.0, 3.0, 8.0])
    assert (result.mean, result.median, result.min, result.max) == (4.0, 3.0, 1.0, 8.0)
    assert result.std == pytest.approx((26 / 3) ** 0.5)
    head, names, numbers = str(result).splitlines()
    assert head == "Execution time summary:" and names.split()[::2] == [
        *("mean", "median", "max", "min", "std")
    ]
    assert numbers.split()[:4] == ["4000.0000", "3000.0000", "8000.0000", "1000.0000"]
    assert repr(result).startswith("BenchmarkResult(min=1.0, mean=4.0, median=3.0, max=8.0, std=")


def test_measure_repeats_long_enough():
    count = 0

    def call():
        nonlocal count
        count += 1

    measure(call, number=1, repeat=1, min_repeat_ms=2)
    assert count > 100
    with pytest.raises(ValueError, match="must be positive"):
        measure(call, number=0)


def test_load_module_refuses_what_is_not_ours(tmp_path):
    with pytest.raises(FileNotFoundError, match="no such library"):
        runtime.load_module(tmp_path / "none.so")


def test_profile():
    profile = Profile([("matmul", 10.0), ("add", 1.0), ("matmul", 20.0)])
    assert profile["matmul"].calls == 2 and profile["matmul"].mean_us == 15.0
    assert [e.name for e in profile.sorted()] == ["matmul", "add"] and profile.total_us == 31.0
    lines = profile.table().splitlines()
    assert lines[0].split() == ["kernel", "calls", "total", "us", "mean", "us", "share"]
    assert lines[2].split() == ["matmul", "2", "30.0", "15.00", "96.8%"]
    assert json.loads(profile.json())[0]["min_us"] == 10.0


def test_the_number_of_threads(monkeypatch):
    monkeypatch.setenv("LOOPWRIGHT_NUM_THREADS", "3")
    assert threads.default_num_threads() == 3
    monkeypatch.setenv("LOOPWRIGHT_NUM_THREADS", "-1")
    with pytest.raises(ValueError, match="LOOPWRIGHT_NUM_THREADS"):
        threads.default_num_threads()
    monkeypatch.delenv("LOOPWRIGHT_NUM_THREADS")
    assert threads.default_num_threads() >= 1
    with pytest.raises(ValueError, match="must be positive, got 0"):
        runtime.set_num_threads(0)


def test_the_runtime_stands_alone():
    code = (
        "import sys, loopwright.runtime; "
        "bad = {'llvmlite', 'tvm_ffi', 'torch', 'onnx'} & set(sys.modules); "
        "sys.exit(f'imported {bad}' if bad else 0)"
    )
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment
    )
    assert done.returncode == 0, done.stderr


def test_tvm_ffi_does_not_bring_torch(tmp_path):
    """A program without torch would wait a second for it."""
    (tmp_path / "torch.py").touch()
    code = (
        "import sys; from loopwright.runtime.ffi import ffi; ffi(); "
        "print('torch' in sys.modules); import torch; print(torch.__file__)"
    )
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment
    )
    assert done.stdout.split() == ["False", str(tmp_path / "torch.py")], done.stderr


def test_inputs_in_order():
    x, y = np.zeros(2), np.ones(2)
    names, also = ["input", "weight"], ["x", "w"]

    def ordered(feeds=(), **named):
        return [id(v) for v in ordered_inputs("main", names, feeds, named, also)]

    both = [id(x), id(y)]
    assert ordered([x, y]) == ordered({"input": x, "w": y}) == ordered([x], weight=y) == both
    assert ordered(x) == [id(x)]  # one array is one input, not its rows
    assert ordered(x, w=y) == ordered(input=x, weight=y) == both
    with pytest.raises(ValueError, match="missing input, weight"):
        ordered({})
    with pytest.raises(ValueError, match="missing weight; unknown z"):
        ordered([x], z=y)
    with pytest.raises(ValueError, match="unknown input"):
        ordered([x], input=x, weight=y)


def test_modules_of_modules():
    inner, outer = Module({"main": lambda: "inner", "x": lambda: "x"}), Module({"a": len, "b": len})
    outer.import_module(Module({}))
    outer.import_module(Module({"c": len}))
    outer.imported_modules[1].import_module(inner)
    assert outer["x"]() == "x" and outer() == "inner"
    assert Module({"only": lambda: 3})() == 3 and Module({"main": lambda: 4, "b": len})() == 4
    with pytest.raises(AttributeError, match="no function 'x'; it has: a, b"):
        outer.get_function("x")
    with pytest.raises(AttributeError, match="no function 'x'; it has: none"):
        Module({}).get_function("x")
    with pytest.raises(ValueError, match="no source of format ''; it has: none"):
        Module({}).get_source()
    assert repr(outer) == "<Module library: a, b>" and outer.function_names() == ["a", "b"]
    assert outer.type_key == "library"


@pytest.mark.parametrize(
    ("least", "calls", "numbers"),
    [
        (0, 2, 2),  # number=2 is long enough
        (2, 2, 2),  # exactly
        (10, 2 + 12, 12),  # 10 / 2 * 1.2 times as many
        (2.01, 2 + 3, 3),  # one more at least
        (1000, 2 + 200 + 1200, 1200),  # a hundred times as many at most
    ],
)
def test_how_often_a_call_is_repeated(least, calls, numbers, monkeypatch):
    """A call lasts a millisecond."""
    ticks = [0.0]
    monkeypatch.setattr("time.perf_counter", lambda: ticks[0])
    slept: list[float] = []
    monkeypatch.setattr("time.sleep", slept.append)
    counted = []

    def call():
        ticks[0] += 2.0**-10
        counted.append(1)

    unit = 2.0**-10 * 1e3
    result = measure(call, number=2, repeat=2, min_repeat_ms=least * unit)
    assert len(counted) == 1 + calls + numbers and slept == []
    assert result.results == (2.0**-10, 2.0**-10)


def test_what_cannot_be_measured():
    for wrong in ({"number": 0}, {"repeat": 0}, {"number": -1}):
        with pytest.raises(ValueError, match="must be positive"):
            measure(lambda: None, **wrong)
    assert len(measure(lambda: None, number=1).results) == 1


def test_the_table_of_a_profile(tmp_path):
    profile = Profile([("b", 10.0), ("long name", 1000.25)])
    profile.add("b", 20.0, 4)
    assert (
        profile.table()
        == str(profile)
        == (
            "kernel     calls  total us  mean us  share\n"
            "------------------------------------------\n"
            "long name      1    1000.2  1000.25  97.1%\n"
            "b              5      30.0     6.00   2.9%\n"
            "------------------------------------------\n"
            "total          6    1030.2"
        )
    )
    assert profile.table(1).splitlines()[2:] == [
        "long name      1    1000.2  1000.25  97.1%",
        "------------------------------------------",
        "total          6    1030.2",
    ]
    entry = profile["b"]
    assert (entry.calls, entry.min_us, entry.max_us) == (5, 5.0, 10.0)
    assert [e.name for e in profile] == ["b", "long name"] and len(profile) == 2
    profile.add("never", 0.0, 0)
    assert profile["never"].mean_us == 0 and Profile().table().endswith("total       0       0.0")
    text = profile.chrome_trace(str(tmp_path / "trace.json"))
    assert (tmp_path / "trace.json").read_text() == text
    first, second, *_ = json.loads(text)["traceEvents"]
    assert (first["name"], first["ts"], first["dur"], first["ph"]) == ("b", 0, 10, "X")
    assert (second["ts"], second["dur"], second["pid"], second["tid"]) == (10, 1000.25, 1, 1)
    fine = json.loads(Profile([("a", 0.12344), ("b", 0.98765)]).chrome_trace())["traceEvents"]
    assert [(e["ts"], e["dur"]) for e in fine[:2]] == [(0, 0.123), (0.123, 0.988)]


def test_conversions_keep_tuples_of_other_classes():
    shape = runtime.ShapeTuple([1, 2])
    assert runtime.convert(shape) is shape and runtime.convert((1, shape))[1] is shape


@pytest.mark.parametrize(
    ("files", "quota"),
    [
        ({"cpu.max": "max 100000"}, float("inf")),
        ({"cpu.max": "150000 100000"}, 1.5),
        ({"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, float("inf")),
        ({"cpu/cpu.cfs_quota_us": "0", "cpu/cpu.cfs_period_us": "100000"}, float("inf")),
        ({"cpu/cpu.cfs_quota_us": "250000", "cpu/cpu.cfs_period_us": "100000"}, 2.5),
        ({"cpu.max": "?", "cpu/cpu.cfs_quota_us": "1", "cpu/cpu.cfs_period_us": "2"}, 0.5),
        ({}, float("inf")),
    ],
)
def test_the_share_of_the_processor(files, quota, monkeypatch):
    def read(path, *args):
        name = str(path).removeprefix("/sys/fs/cgroup/")
        if name not in files:
            raise OSError
        return files[name]

    monkeypatch.setattr("pathlib.Path.read_text", read)
    assert threads._quota() == quota


@pytest.mark.parametrize(
    ("cpus", "siblings", "quota", "wanted"),
    [
        ({0, 1, 2, 3}, {0: "0,2", 1: "1,3", 2: "0,2", 3: "1,3"}, float("inf"), 2),
        ({0, 1, 2}, {0: "0", 1: "1", 2: "2"}, 1.5, 2),
        ({0, 1, 2}, {0: "0", 1: "1", 2: "2"}, 0.1, 1),
        ({0, 1, 2}, {0: "0", 1: "1", 2: "2"}, 8, 3),
        ({0, 1, 2}, {0: "0"}, float("inf"), 3),
    ],
)
def test_threads_for_cores(cpus, siblings, quota, wanted, monkeypatch):
    def read(path):
        cpu = int(str(path).partition("/cpu/cpu")[2].partition("/")[0])
        if cpu not in siblings:
            raise OSError
        return siblings[cpu]

    monkeypatch.setattr("pathlib.Path.read_text", read)
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: cpus if pid == 0 else set())
    monkeypatch.setattr(threads, "_quota", lambda: quota)
    monkeypatch.delenv("LOOPWRIGHT_NUM_THREADS", raising=False)
    assert threads.default_num_threads() == wanted
    monkeypatch.delattr("os.sched_getaffinity")
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    assert threads.default_num_threads() == min(2, wanted)


def test_numbers_of_threads():
    assert threads.checked(1) == 1
    for wrong in (0, True, 2.0):
        with pytest.raises(ValueError, match="must be positive"):
            threads.checked(wrong)


def test_values_of_tvm_ffi():
    """What its functions give becomes our types, and what they are given its own."""
    ffi = pytest.importorskip("tvm_ffi")
    name = "test_functions.echo"
    ffi.register_global_func(name, lambda x: x, override=True)
    try:
        echo = runtime.get_global_func(name)
        for value in (None, True, 3, 2.5, "text", runtime.ShapeTuple([2, 3])):
            got = echo(value)
            assert got == value and (type(got) is type(value))
        assert echo([1, [2.5, "a"]]) == [1, [2.5, "a"]]
        assert echo(ffi.Map({"a": 1, "b": [2]})) == {"a": 1, "b": [2]}
        assert echo(ffi.List([1, 2])) == [1, 2]
        got = echo(np.arange(3, dtype="int8"))
        assert isinstance(got, runtime.Tensor) and got.numpy().tolist() == [0, 1, 2]
        inner = echo(runtime.convert(lambda x: x + 1))
        assert inner(4) == 5
        assert echo(inner)(6) == 7
    finally:
        ffi.remove_global_func(name)


def test_a_function_is_registered_by_its_own_name():
    @runtime.register_func
    def named_in_test_functions(x):
        return x + 1

    try:
        found = runtime.get_global_func("named_in_test_functions")
        assert found(1) == 2 and repr(found) == "<PackedFunc named_in_test_functions>"
        with pytest.raises(ValueError, match="already registered"):
            runtime.register_func("named_in_test_functions", lambda x: x)
        runtime.register_func("named_in_test_functions", lambda x: x + 2, True)
        assert runtime.get_global_func("named_in_test_functions")(1) == 3
    finally:
        runtime.remove_global_func("named_in_test_functions")
