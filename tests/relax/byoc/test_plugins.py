"""Plug-ins: small packages, installed into a folder of their own, seen by another process."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from importlib.metadata import EntryPoint
from pathlib import Path

import onnx
import pytest

from loopwright.base import plugins
from loopwright.driver.cli import app
from loopwright.relax.byoc import get_backend, list_backends, remove_backend

ROOT = Path(__file__).parent.parent.parent.parent
DATA = ROOT / "tests" / "data" / "plugins"


def install(folder: Path, package: str, entries: dict[str, dict[str, str]]) -> None:
    """Put a package and its dist-info into a folder, as an installer does."""
    shutil.copytree(DATA / package, folder / package)
    info = folder / f"{package}-1.0.dist-info"
    info.mkdir()
    name = package.replace("_", "-")
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    lines = []
    for group, points in entries.items():
        lines += [f"[{group}]", *(f"{n} = {v}" for n, v in points.items()), ""]
    (info / "entry_points.txt").write_text("\n".join(lines))


@pytest.fixture
def folder(tmp_path):
    install(
        tmp_path,
        "lw_good",
        {
            "loopwright.backends": {"good": "lw_good:backends"},
            "loopwright.legalize": {"rules": "lw_good.rules"},
            "loopwright.ops": {"cube": "lw_good.ops"},
            "loopwright.passes": {"tidy": "lw_good.passes:tidy"},
        },
    )
    groups = ("backends", "targets", "ops", "legalize")
    entries = {f"loopwright.{group}": {"broken": "lw_broken:IT"} for group in groups}
    install(tmp_path, "lw_broken", entries)
    install(
        tmp_path,
        "lw_twin",
        {
            "loopwright.backends": {"twin": "lw_twin:BACKENDS"},
            "loopwright.ops": {"no": "lw_twin:NOTHING"},
        },
    )
    return tmp_path


def run(folder: Path, *command: str) -> subprocess.CompletedProcess:
    path = os.pathsep.join([str(ROOT / "src"), str(folder), str(ROOT)])
    env = {**os.environ, "PYTHONPATH": path, "COLUMNS": "300"}
    return subprocess.run(
        [sys.executable, *command], env=env, capture_output=True, text=True, check=True, cwd=folder
    )


PROGRAM = """
import json, warnings
import numpy as np
with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    import loopwright as lw
    from loopwright import relax
    from loopwright.relax.byoc import plugins, list_backends, get_backend
    from tests.relax.byoc import graphs
    x = np.linspace(-1, 1, 4, dtype="float32")
    def failure(call, *args):
        try:
            call(*args)
        except (lw.LoopwrightError, ValueError, AttributeError) as error:
            return str(error)
    exe = lw.compile(graphs.Skip, backends=["good"])
    quiet = [str(w.message) for w in told]
    failure(getattr, relax.op, "unknown")
    import lw_good.rules
    ours = [p for p in plugins() if p.package.startswith("lw-")]
    print(json.dumps({
        "error": float(np.abs(exe["main"](x).numpy() - np.exp(x) - np.sin(np.exp(x))).max()),
        "calls": "fused_relax_exp1_good" in exe.lowered["main"].script(),
        "asked": lw_good.rules.asked,
        "plugins": [[p.name, p.package, p.group, list(p.brings), p.error] for p in ours],
        "known": [n for n in list_backends() if n in ("good", "absent", "twin", "broken")],
        "why": get_backend("absent").why_not(),
        "errors": [failure(get_backend, "broken"), failure(lw.Target, "broken"),
                   failure(lw.Target, "other")],
        "passes": relax.get_pipeline("tidy", times=2).names(),
        "quiet": quiet, "told": [str(w.message) for w in told],
    }))
"""

MISSING = "ModuleNotFoundError: No module named 'a_driver_that_is_not_installed'"
TWICE = (
    "LoopwrightError: two back ends are named good\n"
    "  got: one of lw-good, one of lw-twin\n"
    "  instead: rename one, or pass override=True"
)
CUBE = ["converter good Cube", "operator definition lw_good.cube"]
NOTHING = (
    "LoopwrightError: the entry point no registers nothing\n"
    "  got: 3\n"
    "  instead: a module, or a function"
)


def test_packages_that_bring_something(folder):
    got = json.loads(run(folder, "-c", PROGRAM).stdout)
    assert got["error"] < 1e-5
    assert got["calls"]  # of the plug-in's back end
    assert got["asked"] == ["relax.sin"]  # of the plug-in's legalization
    assert sorted(got["plugins"]) == [
        ["broken", "lw-broken", "loopwright.backends", [], MISSING],
        ["broken", "lw-broken", "loopwright.legalize", [], MISSING],
        ["broken", "lw-broken", "loopwright.ops", [], MISSING],
        ["broken", "lw-broken", "loopwright.targets", [], MISSING],
        ["cube", "lw-good", "loopwright.ops", CUBE, ""],
        ["good", "lw-good", "loopwright.backends", ["good", "absent"], ""],
        ["no", "lw-twin", "loopwright.ops", [], NOTHING],
        ["rules", "lw-good", "loopwright.legalize", ["legalization relax.sin llvm"], ""],
        ["tidy", "lw-good", "loopwright.passes", ["tidy"], ""],
        ["twin", "lw-twin", "loopwright.backends", [], TWICE],
    ]
    # One with a name that is taken brings nothing at all.
    assert got["known"] == ["absent", "good"]
    assert got["why"] == "no device of this kind here"
    assert got["passes"] == ["CanonicalizeBindings"] * 2
    # A broken one is reported once, where it matters.
    told = f"the plug-in broken of lw-broken cannot be used: {MISSING}"
    assert got["quiet"] == [told]  # the legalizations
    assert got["told"] == [told, told, f"the plug-in no of lw-twin cannot be used: {NOTHING}"]
    backend, target, other = got["errors"]
    assert backend.endswith(f"  got: broken\n  instead: {told}")
    assert target == f"unknown target kind\n  got: broken\n  instead: {told}"
    assert "plug-in" not in other


def test_an_operator_and_its_onnx_node_on_the_command_line(folder):
    info = onnx.helper.make_tensor_value_info
    model = onnx.helper.make_model(
        onnx.helper.make_graph(
            [onnx.helper.make_node("Cube", ["x"], ["y"], domain="good")],
            "cubes",
            [info("x", onnx.TensorProto.FLOAT, [2, 3])],
            [info("y", onnx.TensorProto.FLOAT, [2, 3])],
        ),
        opset_imports=[onnx.helper.make_opsetid("good", 1), onnx.helper.make_opsetid("", 18)],
    )
    onnx.save(model, folder / "cubes.onnx")
    main = "from loopwright.driver.cli import main; main()"
    assert "y: greatest" in run(folder, "-c", main, "check", "cubes.onnx").stdout


def test_the_command(folder):
    text = run(folder, "-c", "from loopwright.driver.cli import main; main()", "plugins").stdout
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in text.splitlines()]
    by_name = {row[0]: row for row in reversed(rows) if row and row[0]}
    assert by_name["good"][1:5] == ["backends", "lw-good", "good", "yes"]
    assert ["", "", "", "absent", "no device of this kind here", ""] in rows
    assert by_name["broken"][5] == MISSING
    assert by_name["broken"][4] == "no"
    assert by_name["twin"][5].startswith("LoopwrightError: two back ends are named good")
    rules = "legalization relax.sin llvm"
    assert by_name["rules"][1:] == ["legalize", "lw-good", rules, "yes", ""]
    assert by_name["tidy"][1:] == ["passes", "lw-good", "tidy", "yes", ""]
    assert by_name["onednn"][1] == "backends"  # Loopwright's own are among them
    assert "plugins" in [c.name for c in app.registered_commands]


# ---------------------------------------------------------------------- in this process


@pytest.fixture
def known():
    """Afterwards the process knows no more plug-ins than before."""
    plugins.plugins()
    with plugins.PLUGINS.snapshot():
        yield


def point(value: str) -> EntryPoint:
    return EntryPoint("here", value, "loopwright.backends")


@pytest.mark.parametrize(
    ("value", "error"),
    [
        ("os.path:sep", "LoopwrightError: the entry point here is not a Backend\n  got: '/'\n"),
        ("json:no_such_name", "AttributeError: module 'json' has no attribute 'no_such_name'"),
        ("no_such_package_of_anybody:B", "ModuleNotFoundError: No module named"),
    ],
)
def test_what_is_wrong_is_told(known, value, error):
    (made,) = plugins.load_plugins([point(value)])
    assert made.brings == ()
    assert made.error.startswith(error)
    assert made in plugins.plugins()


def test_what_is_right_is_registered(known, monkeypatch):
    monkeypatch.syspath_prepend(str(DATA))
    try:
        (made,) = plugins.load_plugins([point("lw_good:GOOD")])
        assert made.brings == ("good",) and made.error == ""
        assert "good" in list_backends() and get_backend("good").name == "good"
    finally:
        remove_backend("good")
