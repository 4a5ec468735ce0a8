"""A target is one record, whoever brings it: here, and a package with a code generator of its own."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

import loopwright as lw
from loopwright import relax
from loopwright.backend import base, c, llvm
from loopwright.base.registry import customised
from loopwright.codegen.c.model import CModel
from loopwright.codegen.llvm.executable import Executable
from loopwright.driver.options import CompileOptions
from loopwright.ir.target import KINDS, Target, register_target_kind
from tools import demo

from ..relax.byoc import graphs as g
from ..relax.byoc.test_plugins import DATA, install, run

X = np.linspace(-1, 1, 4, dtype="float32")


# ---------------------------------------------------------------------- the records


def test_each_target_has_its_own_pipeline():
    for target in ("c", Target("c")):
        assert relax.get_default_pipeline(target).names() == c.graph_pipeline().names()
    for cpu, blocked in (("cortex-m4", False), ("skylake-avx512", True)):
        names = relax.get_default_pipeline(Target(f"c -mcpu={cpu}")).names()
        assert ("BlockedLayout" in names) == blocked and "OutlineNative" not in names
    with Target("c"):
        assert relax.get_pipeline("default").names() == c.graph_pipeline().names()
    for target, pipeline in (("llvm", llvm), ("c", c)):
        parts = [
            relax.pipeline.library_dispatch_passes(Target(target)),
            relax.pipeline.legalize_passes(Target(target)),
            relax.pipeline.dataflow_lower_passes(Target(target)),
            relax.pipeline.finalize_passes(Target(target)),
        ]
        assert [p.name for part in parts for p in part] == pipeline.graph_pipeline().names()


def test_what_compile_gives():
    assert isinstance(lw.compile(g.Skip), Executable)
    model = lw.compile(g.Skip, "c")
    assert isinstance(model, CModel) and list(model.texts) == ["model.c", "model.h"]
    assert model.inputs() == [("x", "float32", (4,))]
    with pytest.raises(lw.LoopwrightError, match="native code is not written as files"):
        lw.compile(g.Skip).write("somewhere")


def test_a_variant_may_have_its_own_record():
    ours = replace(
        llvm.TARGET,
        kind="mine",
        graph_pipeline=c.graph_pipeline,
        parent="llvm",
        options={"lanes": int},
    )
    with KINDS.snapshot(), base.TARGETS.snapshot():
        base.register_target(ours)
        assert Target("mine").lookup_keys == ("mine", "llvm", "cpu")
        assert Target("mine -lanes=4").attrs["lanes"] == 4
        register_target_kind("below", parent="mine")
        for kind in ("mine", "below"):
            assert base.backend_of(Target(kind)) is ours
            assert "OutlineNative" not in lw.lower(g.Skip, kind).names()
            exe = lw.compile(g.Skip, kind)
            np.testing.assert_allclose(exe["main"](X).numpy(), np.exp(X) + np.sin(np.exp(X)), 1e-5)
        with pytest.raises(lw.LoopwrightError) as error:
            base.register_target(ours)
        assert "code generator of target 'mine' is registered already" in str(error.value)
        assert base.TARGETS in customised()
    assert base.find_target(Target("cuda")) is None


# ---------------------------------------------------------------------- options


def test_options_are_checked_in_one_place():
    assert CompileOptions(tir_pipeline=None) == CompileOptions()
    assert CompileOptions(arenas=["sram"]).arenas == (lw.Arena("sram"),)
    assert CompileOptions().is_default and not CompileOptions(backends=["blas"]).is_default
    for name, value, message in (
        ("relax_pipeline", 3, "a pipeline is a pass or a list of passes"),
        ("tir_pipeline", "zero", "a pipeline is a pass or a list of passes"),
        ("backends", "blas", 'backends are given as a list\n  got: blas\n  instead: \\["blas"\\]'),
        ("arenas", [3], "arenas are given as a list of Arena"),
        ("backend", ["blas"], "no option of this name\n  got: backend\n.*did you mean backends"),
    ):
        for function in (lw.compile, lw.lower):
            with pytest.raises(TypeError, match=message):
                function(g.Skip, **{name: value})


def test_options_with_some_replaced():
    options = CompileOptions(relax_pipeline="zero")
    trace = lw.lower(g.Skip, options=options)
    assert "BlockedLayout" not in trace.names()
    assert "BlockedLayout" in lw.lower(g.Skip, options=options, relax_pipeline="default").names()


# ---------------------------------------------------------------------- a target of another package


@pytest.fixture
def toy(tmp_path):
    install(tmp_path, "lw_toy", {"loopwright.targets": {"toy": "lw_toy:TOY"}})
    return tmp_path


PROGRAM = """
import json, sys
import numpy as np
import loopwright as lw
from tests.relax.byoc import graphs
from typer.testing import CliRunner
from loopwright.driver.cli import app

MODEL, FEEDS = sys.argv[1:]

def call(*arguments):
    result = CliRunner().invoke(app, list(arguments), catch_exceptions=False)
    assert result.exit_code == 0, result.stdout
    return result.stdout

x = np.linspace(-1, 1, 4, dtype="float32")
exe = lw.compile(graphs.Skip, target="toy")
paths = exe.write("written")
print(json.dumps({
    "target": str(exe.target),
    "kind": type(exe).__name__,
    "texts": dict(exe.texts),
    "files": [[p.name, p.read_text() == t] for p, t in zip(paths, exe.texts.values())],
    "error": float(np.abs(exe["main"](x).numpy() - np.exp(x) - np.sin(np.exp(x))).max()),
    "explained": str(lw.lower(MODEL, "toy").explain("relax.nn.relu")),
    "scheduled": str(lw.lower(MODEL, "toy").explain("reshape", "schedule")),
    "passes": lw.lower(graphs.Skip, "toy").names()[:6],
    "run": call("run", MODEL, "--target", "toy", "--feeds", FEEDS, "-o", "out.npz"),
    "right": np.load("out.npz")["probability"].argmax(1).tolist(),
    "check": call("check", MODEL, "--target", "toy"),
    "bench": call("bench", MODEL, "--target", "toy", "--seconds", "0"),
    "show": call("show", MODEL, "--target", "toy", "--explain", "relax.nn.relu"),
    "kernel": call("show", MODEL, "--target", "toy", "--kernel", "reshape"),
    "compile": call("compile", MODEL, "--target", "toy", "-o", "folder"),
    "plugins": [l for l in call("plugins").splitlines() if "toy" in l],
}))
"""


@pytest.mark.budget(6)  # a process that runs seven commands
def test_a_target_of_another_package(toy, golden):
    assert len((DATA / "lw_toy" / "__init__.py").read_text().splitlines()) <= 60
    feeds = str(demo.BUNDLED.with_suffix(".npz"))
    got = json.loads(run(toy, "-c", PROGRAM, str(demo.BUNDLED), feeds).stdout)
    assert (got["kind"], got["target"]) == ("ToyModel", "toy")
    golden("toy_target.txt", "\n\n".join(got["texts"].values()))
    assert got["files"] == [[f"{name}.toy", True] for name in got["texts"]]
    assert got["error"] < 1e-6
    # Its own rule for an operator, its own schedule, its own pipeline: the trace tells.
    assert "winner: target toy: lw_toy.relu" in got["explained"]
    assert "rule: one loop" in got["scheduled"]
    zero = relax.pipeline.zero_pipeline().names()
    assert got["passes"] == [*zero, "ApplyDefaultSchedule"]
    # The command line asks the same record.
    assert got["run"] == "probability: float32 (10, 10)\n"
    assert got["right"] == list(range(10))
    assert "probability: greatest relative difference" in got["check"]
    assert "median of 3 calls" in got["bench"]
    assert "winner: target toy: lw_toy.relu" in got["show"]
    assert "@T.prim_func" in got["kernel"] and "kernel reshape(" in got["kernel"]
    assert "fused_matmul_add.toy" in got["compile"]
    (row,) = ([cell.strip() for cell in line.split("│")[1:-1]] for line in got["plugins"])
    assert row == ["toy", "targets", "lw-toy", "toy", "yes", ""]


def test_without_the_package_there_is_no_such_target():
    with pytest.raises(ValueError, match="unknown target kind\n  got: toy"):
        lw.compile(g.Skip, target="toy")


def test_a_target_is_prepared_before_the_passes():
    """What a code generator needs in the end can be made beside them."""
    order: list[str] = []
    record = base.backend_of(Target("llvm"))
    names = ("prepare", "graph_pipeline", "emit")

    def noted(name):
        return lambda *args, **options: [
            order.append(name),
            getattr(record, name)(*args, **options),
        ][1]

    with base.TARGETS.snapshot():
        base.register_target(replace(record, **{n: noted(n) for n in names}), override=True)
        lw.compile(g.Skip)
    assert order == list(names)
