"""Parts of the driver at their edges: steps and their times, parameters, plug-ins, the demo, what is kept."""

from __future__ import annotations

import io
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from rich.console import Console

import loopwright as lw
from loopwright.base.plugins import Plugin
from loopwright.base.progress import Step
from loopwright.driver import cli, disk_cache, progress, steps, vm_build
from loopwright.runtime import Module
from loopwright.runtime.vm import ExecBuilder
from tools import demo

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


def test_plugins_are_shown(monkeypatch):
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
    rows = [line for line in cli.show_plugins().text.splitlines() if "│" in line]
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

    assert demo.median(call(9.0, 4.0, 1.0, 3.0, 2.0, 5.0)) == pytest.approx(3000)
    assert len(calls) == 6
    calls.clear()
    assert demo.median(call(0.125)) == pytest.approx(125) and len(calls) == 1 + 8
    calls.clear()
    assert demo.median(call(0.125), 2.0) == pytest.approx(125) and len(calls) == 1 + 16


def test_the_demo_without_onnxruntime(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    monkeypatch.setattr(demo, "median", lambda call: 1.5)
    exe = SimpleNamespace(run=lambda feeds: feeds)
    assert demo.beside_onnxruntime(demo.BUNDLED, exe, {}, [])
    shown = capsys.readouterr().out
    assert shown == "A run takes 1.50 ms; onnxruntime is not installed, so nothing is compared.\n"


@pytest.mark.parametrize(("error", "right"), [(0.0, True), (0.9e-4, True), (1.1e-4, False)])
def test_the_demo_compares_results(error, right, monkeypatch, capsys):
    onnxruntime = pytest.importorskip("onnxruntime")
    want = [np.array([1.0, -4.0], "float32"), np.zeros(2, "float32")]
    session = SimpleNamespace(run=lambda names, feeds: want)
    monkeypatch.setattr(onnxruntime, "InferenceSession", lambda *args: session)
    monkeypatch.setattr(demo, "median", lambda call: 2.0)
    got = [want[0] + np.float32(4 * error), want[1]]
    exe = SimpleNamespace(run=lambda feeds: got)
    assert demo.beside_onnxruntime(demo.BUNDLED, exe, {}, got) == right
    verdict = "the results agree" if right else "THE RESULTS DIFFER"
    assert f"A run takes 2.00 ms, onnxruntime's 2.00; {verdict} (" in capsys.readouterr().out


def test_faces_of_maps():
    """A face is a place above one half; a second box that overlaps is the same one."""
    heat = np.zeros((1, 1, 4, 5), np.float32)
    heat[0, 0, 1, 2], heat[0, 0, 1, 3], heat[0, 0, 3, 0] = 0.9, 0.8, 0.6
    scale = np.broadcast_to(np.log(np.float32([6, 4]))[None, :, None, None], (1, 2, 4, 5))
    offset = np.zeros((1, 2, 4, 5), np.float32)
    first, second = demo.faces(heat, scale, offset)
    assert first == pytest.approx((0.9, 2.5 * 4 - 8, 1.5 * 4 - 12, 2.5 * 4 + 8, 1.5 * 4 + 12))
    assert second == pytest.approx((0.6, 2 - 8, 14 - 12, 2 + 8, 14 + 12))
    assert (
        demo.overlap(first, first) == pytest.approx(1)
        and demo.overlap(first, (0, 90, 0, 91, 9)) == 0
    )


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
