"""Parts of the driver at their edges: steps and their times, parameters, plug-ins, the demo, what is kept."""

from __future__ import annotations

import builtins
import io
from types import SimpleNamespace

import numpy as np
import pytest
from rich.console import Console

import loopwright as lw
from loopwright.base.plugins import Plugin
from loopwright.base.progress import Step
from loopwright.driver import cli, demo, disk_cache, progress, steps, vm_build
from loopwright.runtime import Module
from loopwright.runtime.vm import ExecBuilder

from ..programs import graph, pointwise


def test_the_import_is_timed():
    mod = graph("a = R.add(x, x)", x=(4,))
    (note,) = (n for n in lw.lower(mod).notes if n.kind == "import")
    assert note.subject == "module" and 0 <= note.facts["ms"] < 60_000
    times = steps.compile_steps(mod)[1]
    assert list(times) == ["passes", "machine code"] and all(0 <= s < 60 for s in times.values())


def test_parameters_are_bound():
    mod = graph("a = R.subtract(x, w)", x=(4,), w=(4,))
    x = np.arange(4, dtype="float32")
    for made in (
        lw.compile(mod, params={"w": np.full(4, 2, "float32")}),
        steps.relax_build(mod, "llvm", {"w": np.full(4, 2, "float32")}),
    ):
        assert made.input_names() == ["x"]
        np.testing.assert_array_equal(made(x).numpy(), x - 2)
    assert lw.compile(mod, params={}).input_names() == ["x", "w"]


def test_models_that_are_none():
    with pytest.raises(TypeError, match="this model cannot be imported\n  got: int"):
        steps.as_module(3)
    with pytest.raises(
        FileNotFoundError, match="the model file does not exist\n  got: nothing.abc"
    ):
        steps.as_module("nothing.abc")
    named = pointwise("f", "X[vi, vj]").with_attr("global_symbol", "g")
    assert [g.name_hint for g in steps.as_module(named).functions] == ["g"]
    assert [g.name_hint for g in steps.as_module(lw.IRModule({"f": named})).functions] == ["g"]


def test_plugins_are_shown(monkeypatch, capsys):
    known = [
        Plugin("one", "pkg", ("a", "b"), "", "loopwright.backends"),
        Plugin("two", "other", ("c",), "", "loopwright.passes"),
        Plugin("bad[x]", "third", (), "it broke", "loopwright.backends"),
    ]
    monkeypatch.setattr(cli, "plugins", lambda: known)
    reasons = {"a": "", "b": "no chip"}
    monkeypatch.setattr(
        cli, "get_backend", lambda name: SimpleNamespace(why_not=lambda: reasons[name])
    )
    monkeypatch.setenv("COLUMNS", "120")
    cli.show_plugins()
    rows = [line for line in capsys.readouterr().out.splitlines() if "│" in line]
    cells = [[c.strip() for c in row.split("│")[1:-1]] for row in rows]
    assert cells == [
        ["one", "backends", "pkg", "a", "yes", ""],
        ["", "", "", "b", "no chip", ""],
        ["two", "passes", "other", "c", "yes", ""],
        ["bad[x]", "backends", "third", "", "no", "it broke"],
    ]


def test_the_time_of_a_call(monkeypatch):
    """The median of milliseconds: of five calls at least, and of a second's; the first one is left
    out."""
    now, calls = [100.0], []
    monkeypatch.setattr(demo.time, "perf_counter", lambda: now[0])

    def call(*lasts):
        lasts = list(lasts)

        def run():
            calls.append(1)
            now[0] += lasts.pop(0) if len(lasts) > 1 else lasts[0]

        return run

    assert demo._time(call(9.0, 4.0, 1.0, 3.0, 2.0, 5.0)) == pytest.approx(3000)
    assert len(calls) == 6
    calls.clear()
    assert demo._time(call(0.125)) == pytest.approx(125) and len(calls) == 1 + 8
    calls.clear()
    assert demo._time(call(0.125), 2.0) == pytest.approx(125) and len(calls) == 1 + 16


def test_what_the_demo_prints(capsys):
    text = "\n".join(f"row {k}" for k in range(5))
    demo._head("title", text, 3)
    lines = capsys.readouterr().out.split("\n")
    assert lines == ["--- title ".ljust(100, "-"), "row 0", "row 1", "row 2",
                     "    ... 2 more lines", "", ""]  # fmt: skip
    demo._head("t", "x" * 120, 1)
    assert capsys.readouterr().out.split("\n")[1:] == ["x" * 118, "", ""]
    assert demo._middle(text, "row 3") == "row 1\nrow 2\nrow 3\nrow 4"
    assert demo._middle(text, "row 1") == text == demo._middle(text, "none")
    demo._stages([], {"machine code": 0.25}, graph("a = R.add(x, x)", x=(4,)), 0.5, 1.0)
    rows = capsys.readouterr().out.splitlines()
    assert rows[1:] == [
        f"{'import':<34}{'500.0':>8}      1 bindings    0 kernels",
        f"{'machine code':<34}{'250.0':>8}",
        f"{'from file to ready':<34}{'1000.0':>8}",
        "",
    ]


def model_of(dims, dtype="float32"):
    return SimpleNamespace(inputs=lambda: [("x", dtype, dims)], input_names=lambda: ["x"])


def test_inputs_of_the_demo():
    feeds = demo._feeds(model_of(("n", 3, "h", 5)))
    assert feeds["x"].shape == (1, 3, 256, 5) and feeds["x"].dtype == np.float32
    assert feeds["x"].min() >= 0 and 200 < feeds["x"].max() <= 255
    assert demo._feeds(model_of((2,), "uint8"))["x"].dtype == np.uint8


@pytest.mark.parametrize("missing", ["onnx", "onnxruntime"])
def test_the_demo_without_onnxruntime(missing, monkeypatch, capsys):
    real = builtins.__import__

    def without(name, *args, **options):
        if name == missing:
            raise ImportError(name)
        return real(name, *args, **options)

    monkeypatch.setattr(demo, "_time", lambda call: 1.5)
    monkeypatch.setattr(builtins, "__import__", without)
    exe = SimpleNamespace(run=lambda feeds: feeds)
    assert demo._run(demo.BUNDLED, exe, {"x": np.zeros((2, 3), "float32")}) == 0
    shown = capsys.readouterr().out.splitlines()
    assert shown[0].startswith("running on x: 2x3, ")
    assert shown[1:] == [
        "  loopwright       1.500 ms",
        "  onnxruntime is not installed: nothing to compare with",
    ]


@pytest.mark.parametrize(("error", "right"), [(0.0, True), (0.9e-4, True), (1.1e-4, False)])
def test_the_demo_compares_results(error, right, monkeypatch, capsys):
    onnxruntime = pytest.importorskip("onnxruntime")
    want = [np.array([1.0, -4.0], "float32"), np.zeros(2, "float32")]
    session = SimpleNamespace(run=lambda names, feeds: want)
    monkeypatch.setattr(onnxruntime, "InferenceSession", lambda *args: session)
    monkeypatch.setattr(demo, "_time", lambda call: 2.0)
    got = {"a": lw.runtime.tensor(want[0] + np.float32(4 * error)), "b": lw.runtime.tensor(want[1])}
    status = demo._run(demo.BUNDLED, SimpleNamespace(run=lambda feeds: got), {})
    shown = capsys.readouterr().out
    assert (
        status == (0 if right else 1) and ("results equal" if right else "results WRONG") in shown
    )
    assert "(loopwright takes 1.00 times as long)" in shown


class ModelProto:
    """A message that is too large."""

    def SerializeToString(self, deterministic):
        raise ValueError("more than 2 GiB")


def test_what_is_not_kept():
    ModelProto.__module__ = "onnx.onnx_ml_pb2"
    assert disk_cache._content(ModelProto()) is None and disk_cache._content(3) is None
    assert disk_cache._files_of("no_package_of_this_name") == []
    assert disk_cache._leaves([0, [1, [2]], []]) == [0, 1, 2] and disk_cache._leaves(3) == [3]

    def packed(**options):
        made = {"libraries": [], "imports": [], "constants": {}}
        return disk_cache.packed(SimpleNamespace(program=SimpleNamespace(**{**made, **options})))

    assert packed(libraries=["m"]) is None and packed(imports=["f"]) is None
    swapped = np.arange(3, dtype=">i4")
    assert packed(constants={"c": swapped}) is None


@pytest.mark.parametrize(
    ("terminal", "quiet", "verbose"),
    [(False, False, True), (False, True, False), (True, True, True)],
)
def test_steps_that_are_watched(terminal, quiet, verbose, monkeypatch):
    shown = io.StringIO()
    monkeypatch.setattr(
        progress, "Console", lambda stderr: Console(file=shown, force_terminal=terminal, width=100)
    )
    with pytest.raises(KeyError), progress.watched(quiet, verbose):
        from loopwright.base.progress import step

        with step("model", "compile"):
            pass
        raise KeyError
    assert ("compile " in shown.getvalue()) == verbose


def test_a_bar_on_a_terminal(monkeypatch):
    made = []

    class Watch(progress.Watch):
        def __init__(self, console, bar):
            made.append(bar)
            super().__init__(console, False)

    monkeypatch.setattr(progress, "Watch", Watch)
    for terminal in (True, False):
        monkeypatch.setattr(
            progress,
            "Console",
            lambda stderr: SimpleNamespace(is_terminal=terminal),  # noqa: B023
        )
        for quiet in (True, False):
            with progress.watched(quiet, False):
                pass
    assert made == [False, True, False, False]
    assert Step("model", "m").seconds is None


def test_libraries_linked_to_a_program():
    builder = ExecBuilder()
    with builder.function("main", 2):
        builder.emit_call("ours", [builder.r(0), builder.r(1)], builder.r(2))
        builder.emit_ret(builder.r(2))
    library = Module({"ours": lambda x, y: x * 10 + y, "other": len})
    program = vm_build._vmlink(builder, "llvm", ext_libs=[library])
    assert program.natives["ours"] is library["ours"]
    assert program.natives["other"] is library["other"]
