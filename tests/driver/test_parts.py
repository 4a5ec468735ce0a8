"""Parts of the command line without a compilation: options, sizes, inputs, differences, what took how long."""

from __future__ import annotations

import io
import json
from os import terminal_size
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from loopwright.base.errors import InternalError, LoopwrightError
from loopwright.base.progress import Step
from loopwright.driver import console, progress
from loopwright.driver.differences import difference, errors, flat
from loopwright.driver.feeds import Inputs
from loopwright.driver.options import DEFAULTS, CompileOptions
from loopwright.driver.progress import Watch
from loopwright.driver.report import Report, plot, shortened, table
from loopwright.driver.sizes import fixed, read_dims, read_shapes, resolved
from loopwright.driver.timing import Times, in_turns, ratio
from loopwright.runtime.arena import Arena


def test_options():
    assert DEFAULTS.is_default and CompileOptions.of({}) is not None
    assert CompileOptions(relax_pipeline=None, tir_pipeline=None) == DEFAULTS
    assert CompileOptions(threads=3).is_default
    for given in (
        {"params": {"x": 1}},
        {"backends": ["dnnl"]},
        {"arenas": [Arena("a")]},
        {"relax_pipeline": "zero"},
        {"relax_pipeline": []},
        {"tir_pipeline": [len]},
    ):
        assert not CompileOptions(**given).is_default
    made = CompileOptions.of({"options": CompileOptions(threads=2, backends=["a"]), "threads": 4})
    assert made == CompileOptions(threads=4, backends=("a",))
    assert CompileOptions(arenas=["sram"]).arenas == (Arena("sram"),)
    for wrong, message in (
        ({"relax_pipeline": 3}, "a pipeline is a pass or a list"),
        ({"tir_pipeline": "other"}, "a pipeline is a pass or a list of passes\n  got: 'other'"),
        ({"backends": "dnnl"}, r"backends are given as a list(?s:.)*\[\"dnnl\"\]"),
        ({"threads": 0}, "must be positive"),
    ):
        with pytest.raises((TypeError, ValueError), match=message):
            CompileOptions(**wrong)
    with pytest.raises(TypeError, match="no option of this name\n  got: thread\n.*mean threads"):
        CompileOptions.of({"thread": 3})  # type: ignore[typeddict-unknown-key]


@pytest.mark.parametrize(
    ("text", "sizes"),
    [
        ("", {}),
        ("4", {"n": 4, "height": 4}),
        ("n=4,height=32", {"n": 4, "height": 32}),
        (" n = 4 ,", {"n": 4}),
        ("7,n=0", {"n": 0, "height": 7}),
        ("n=x", "a size is a whole number\n  got: n=x"),
        ("n=-1", "a size is a whole number"),
        ("=4", "no symbolic size of this name"),
        ("m=4", "no symbolic size of this name\n  got: m\n.*it has: n, height"),
        ("heigh=4", "did you mean height"),
    ],
)
def test_sizes(text, sizes):
    known = ["n", "height", "n"]
    if isinstance(sizes, dict):
        assert read_dims(text, known) == sizes
        return
    with pytest.raises(LoopwrightError, match=sizes):
        read_dims(text, known)


def test_sizes_of_a_model_without():
    assert read_dims("4", []) == {}
    with pytest.raises(LoopwrightError, match="all of its sizes are fixed"):
        read_dims("n=4", [])


class Model:
    """x float32[2, n], k int8[]."""

    def __init__(self, *ports: str) -> None:
        self.ports = ports

    def input_names(self) -> list[str]:
        return list(self.ports)

    def overridable_names(self) -> list[str]:
        return ["more"]

    def inputs(self) -> list[Any]:
        plain = ("k", "int8", ())
        kinds = {"x": ("x", "float32", (2, "n")), "y": ("y", "float32", (3,)), "k": plain}
        return [kinds[n] for n in self.ports]


def arrays(model: Any, path: Path | None = None, overriding: bool = False, **options: Any) -> Any:
    return Inputs(path, **options).of(model, overriding=overriding).arrays


def test_inputs(tmp_path: Path):
    both: Any = Model("x", "k")
    made = arrays(both)
    kinds = [(a.shape, a.dtype.name) for a in made.values()]
    assert kinds == [((2, 1), "float32"), ((), "int8")]
    again = arrays(both, dims="n=3")
    assert again["x"].shape == (2, 3) and np.isfinite(again["x"]).all() and again["x"].std() > 0
    for options in ({"dims": "3"}, {"shape": ["x=2,3"]}, {"shape": ["x=2x3"]}):
        np.testing.assert_array_equal(again["x"], arrays(both, **options)["x"])
    assert (again["x"] != arrays(both, dims="3", seed=1)["x"]).all()
    filled = arrays(both, dims="3", fill=["k=7", "x=-1"])
    assert filled["k"] == 7 and (filled["x"] == -1).all()
    with pytest.raises(LoopwrightError, match="or from a range\\n  got: k=b"):
        arrays(both, fill=["k=b"])
    one, many, other = (tmp_path / n for n in ("a.npy", "b.npz", "c.npz"))
    np.save(one, np.ones(3))
    np.savez(many, x=np.zeros(2), k=np.ones(1), more=np.ones(1))
    assert arrays(Model("x"), one)["x"].tolist() == [1, 1, 1]
    assert list(arrays(both, many, True)) == ["x", "k", "more"]
    with pytest.raises(LoopwrightError, match="own initializers\n  got: more"):
        arrays(both, many)
    other.write_bytes(many.read_bytes()[:40])
    for model, path, message in (
        (both, one, "got: one array, without x, k"),
        (Model("x", "y"), many, "got: x, k, more, without y"),
        (both, other, "got: another file"),
    ):
        with pytest.raises(LoopwrightError, match=message):
            arrays(model, path)
    np.savez(other)
    with pytest.raises(LoopwrightError, match="got: nothing, without x, k"):
        arrays(both, other)


@pytest.mark.parametrize(
    ("got", "want", "away"),
    [
        ([1.0, 4.5], [1.0, 4.0], 0.125),  # relative to the largest
        ([0.5], [0.0], 0.5),
        ([1.5, np.inf], [1.0, np.inf], 0.5),
        ([np.inf, 2.0], [4.0, 2.0], np.inf),
        ([1.0, 2.0], [np.nan, 2.0], np.inf),
        ([np.nan, 2.0], [np.nan, 4.0], 0.5),
        ([-np.inf], [np.inf], np.inf),
        ([1 + 1j], [1 + 3j], 2 / abs(1 + 3j)),
        ([250], [255], 5 / 255),
        ([], [], 0.0),
        ([1.0], [1.0, 2.0], np.inf),
        ([[1.0]], [1.0], np.inf),
        ([np.nan], [np.nan], 0.0),
        (np.array(["a"], object), np.array(["b"], object), np.inf),
    ],
)
def test_differences(got, want, away):
    a, b = np.array(got), np.array(want)
    assert difference(a, b) == pytest.approx(away)
    if a.shape == b.shape and a.size:
        assert errors(a, b).shape == a.shape


def test_bytes_do_not_wrap_around():
    assert difference(np.uint8([0]), np.uint8([255])) == 1.0
    assert [x.tolist() for x in flat((1, [np.ones(2), {7: (3,)}]))] == [1, [1, 1], 3]


def test_what_took_how_long():
    watch = Watch(Console(file=io.StringIO()), bar=False)
    assert watch.table().startswith("nothing was compiled")
    for step in (
        Step("model", "compile"),
        Step("pass", "Fold", 0, 2),
        Step("object", "k", 0, 1),
        Step("object", "k", 0, 1, 0.25),
        Step("pass", "Fold", 0, 2, 0.5),
        Step("pass", "Fold", 1, 2),
        Step("pass", "Fold", 1, 2, 0.25),
        Step("pass", "Short", 1, 2),
        Step("pass", "Short", 1, 2, 0.006),
        Step("pass", "Least", 1, 2),
        Step("pass", "Least", 1, 2, 0.00625),
        Step("model", "compile", seconds=1.0),
        Step("model", "fails"),
    ):
        watch(step)
    assert watch.table().splitlines() == [
        f"{'step':<50}{'ms':>10}{'runs':>7}",
        f"{'compile':<50}{'1000.0':>10}{'1':>7}",
        f"{'  Fold':<50}{'750.0':>10}{'2':>7}",
        f"{'  Least':<50}{'6.2':>10}{'1':>7}",
        f"{'objects':<50}{'250.0':>10}{'1':>7}",
        f"{'  k':<50}{'250.0':>10}{'1':>7}",
        "(without steps below 6.2 ms)",
    ]


def test_the_bar(monkeypatch):
    """It shows the step within the model, and the objects beside."""
    monkeypatch.setattr(progress, "AFTER", 0.0)
    watch = Watch(Console(file=io.StringIO(), force_terminal=True, width=100), bar=True)
    watch(Step("model", "compile"))
    bar = watch.bar
    assert bar is not None and [t.description for t in bar.tasks] == ["compiling", "objects"]
    watch(Step("pass", "Fold", 2, 5))
    shown = [(t.description, t.completed, t.total, t.visible) for t in bar.tasks]
    assert shown == [("pass Fold", 2, 5, True), ("objects", 0, 100, False)]
    watch(Step("pass", "inner", 0, 3))  # steps of steps are not shown
    watch(Step("pass", "inner", 0, 3, 0.1))
    watch(Step("object", "a[x]", 0, 4, 0.1))
    watch(Step("pass", "Fold", 2, 5, 0.1))
    shown = [(t.description, t.completed, t.total, t.visible) for t in bar.tasks]
    assert shown == [("pass Fold", 3, 5, True), ("object a\\[x]", 1, 4, True)]
    watch(Step("model", "inner"))
    watch(Step("model", "inner", seconds=0.1))
    assert watch.bar is bar
    watch(Step("model", "compile", seconds=0.1))
    assert watch.bar is None and watch.timer is None and not bar.live.is_started


def test_reports(capsys):
    noted = ValueError("it is wrong")
    noted.add_note("while it ran")
    missing = FileNotFoundError(2, "No such file", "a.onnx")
    for error, text, status in (
        (noted, "error: it is wrong\nwhile it ran\n", 1),
        (missing, "error: No such file: a.onnx\n", 1),
        (OSError("no place"), "error: no place\n", 1),
        (MemoryError(), "error: MemoryError\n", 1),
    ):
        assert console.report(error) == status
        assert capsys.readouterr().err == text
    for error in (KeyError("a"), InternalError("broken")):
        assert console.report(error) == 70
        assert "This is a fault of Loopwright" in capsys.readouterr().err


@pytest.mark.parametrize(("lines", "paged"), [(22, False), (23, True)])
def test_pages(lines, paged, monkeypatch, capsys):
    """A text of so many line ends, on a terminal of 24 lines."""
    seen: list[str] = []
    monkeypatch.setattr("pydoc.pager", seen.append)
    size = SimpleNamespace(get_terminal_size=lambda: terminal_size((80, 24)))
    monkeypatch.setattr("loopwright.driver.console.shutil", size)  # the test's own terminal stays
    text = "x\n" * lines
    console.page(text)
    assert capsys.readouterr().out == text + "\n" and not seen  # no terminal
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    console.page(text)
    assert seen == ([text] if paged else [])


# ---------------------------------------------------------------------- sizes and their sources

PICTURE = [("image.1", "float32", ("N", 3, "h", "w")), ("tokens", "int64", ("N", "d1"))]


def test_each_size_has_a_source(tmp_path: Path):
    onnx = pytest.importorskip("onnx")
    sizes = resolved(PICTURE, ["image_1=2,3,32,48"], "d1=5")
    assert {n: str(size) for n, size in sizes.items()} == {
        "N": "2 (--shape)",
        "h": "32 (--shape)",
        "w": "48 (--shape)",
        "d1": "5 (--dims)",
    }
    sizes = resolved(PICTURE)
    assert {n: size.value for n, size in sizes.items()} == {"N": 1, "h": 224, "w": 224, "d1": 128}
    assert all(size.is_default for size in sizes.values())
    model = onnx.ModelProto()
    onnx.helper.set_model_props(model, {"imgsz": "[640, 480]", "d1": "77", "names": "{0: 'a'}"})
    onnx.save(model, tmp_path / "m.onnx")
    sizes = resolved(PICTURE, dims="h=9", model=tmp_path / "m.onnx")
    assert [s.value for s in sizes.values()] == [1, 9, 480, 77]
    assert sizes["w"].source == "the file's metadata" and not sizes["w"].is_default


def test_the_state_of_a_recurrent_network_has_a_batch():
    state = ("h", "float32", (2, "b0", 128))
    assert resolved([state])["b0"].value == 1
    assert resolved([("x", "float32", (1, "t0", 80))])["t0"].value == 128


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("image.1=1,3,8", "does not have this shape.*\n.*one of the form N, 3, h, w"),
        ("image.1=1,4,8,8", "does not have this shape"),
        ("img=1,3,8,8", "no input of this name\n  got: img\n.*image.1"),
        ("1,3,8,8", "this is not a shape"),
        ("image.1=a", "this is not a shape"),
    ],
)
def test_shapes_that_are_refused(text, says):
    with pytest.raises(LoopwrightError, match=f"(?s){says}"):
        read_shapes([text], PICTURE)


def test_sizes_that_are_expressions():
    assert fixed(("n * 2", "n // 2 + m % 4", 5), {"n": 6, "m": 7}) == [12, 6, 5]
    with pytest.raises(LoopwrightError, match="not computed from others\n  got: k"):
        fixed(("k",), {"n": 1})


# ---------------------------------------------------------------------- what commands print


def test_a_table_fits_its_width():
    rows = [("fused_" + "conv2d_add_" * 20 + "relu", "node", "1"), ("short", "n" * 90, "22")]
    lines = table(("kernel", "node", "us"), rows, 2).splitlines()
    assert max(map(len, lines)) <= 100 and "..." in lines[2] and lines[2].endswith(" 1")
    assert shortened("abcdefghij", 8) == "ab...hij" and shortened("abc", 3) == "abc"
    assert plot({"a": 1.0, "bb": 4.0}, "x").splitlines()[1] == f"bb  {'#' * 40} 4 x"


def test_json_has_no_nan():
    text = Report({"a": float("nan"), "b": np.float32([1, np.inf]), "c": Path("x")}).json()
    assert json.loads(text) == {"a": "nan", "b": [1.0, "inf"], "c": "x"}


def test_times_take_turns():
    order: list[str] = []
    times = in_turns([lambda: order.append("a"), lambda: order.append("b")], 0, runs=5)
    assert [t.calls for t in times] == [5, 5] and order[-10:] == ["a"] * 5 + ["b"] * 5
    assert Times(((1.0, 3.0), (2.0,))).data(4) == {
        "calls": 3, "p50_ms": 2.0, "p90_ms": 2.8, "p99_ms": 2.98, "min_ms": 1.0, "mean_ms": 2.0,
            "max_ms": 3.0, "per_second": 2000.0
    }  # fmt: skip


def test_a_ratio_is_a_change_or_it_is_not():
    rng = np.random.default_rng(0)
    old = 10 + rng.standard_normal(30)
    assert str(ratio(old[:15], old[15:])) == "no change"
    half = ratio(old / 2, old)
    assert half.is_change and half.low < 0.5 < half.high and str(half).startswith("0.500 (")
    assert str(ratio([1.0], [3382.0])) == "no change", "one sample says nothing"
