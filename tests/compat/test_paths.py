"""TVM's names and module paths, under its name and under ours, in an interpreter of their own."""

from __future__ import annotations

import importlib
import os
import runpy
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import loopwright.compat
from loopwright.base.names import Served
from loopwright.compat import PATHS, target_name

ROOT = Path(__file__).parent.parent.parent


def run(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    command = [sys.executable, "-c", program, *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)


def test_every_path_is_the_module_it_names():
    program = """
import importlib, sys
import loopwright.compat
loopwright.compat.alias("tvm")
for path, place in loopwright.compat.PATHS.items():
    here = importlib.import_module("loopwright." + place)
    assert importlib.import_module("tvm." + path) is here, path
    assert importlib.import_module("loopwright." + path) is here, path
    assert here.__name__ == "loopwright." + place, here.__name__
for path in loopwright.compat.MERGED:
    importlib.import_module("loopwright." + path)
print(len(loopwright.compat.PATHS))
"""
    done = run(program)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) == len(PATHS) > 30


NAMES = """\
tvm.IRModule tvm.DataType tvm.TVMError tvm.cpu tvm.cuda tvm.device tvm.get_global_func
tvm.register_func tvm.compile tvm.error.DiagnosticError tvm.error.TVMError tvm.ir.Op.get
tvm.ir.GlobalVar tvm.ir.VDevice tvm.ir.assert_structural_equal tvm.ir.register_op_attr
tvm.ir.base.assert_structural_equal tvm.ir.transform.Sequential tvm.nd.array tvm.nd.empty
tvm.relax.BlockBuilder tvm.relax.Function tvm.relax.VirtualMachine tvm.relax.build
tvm.relax.call_tir tvm.relax.call_dps_packed tvm.relax.const tvm.relax.get_shape_of
tvm.relax.analysis.well_formed tvm.relax.expr.Call tvm.relax.expr_functor.mutator
tvm.relax.expr_functor.visitor tvm.relax.frontend.nn.Linear tvm.relax.frontend.nn.modules.ReLU
tvm.relax.frontend.nn.op.matmul tvm.relax.frontend.nn.spec.Tensor tvm.relax.op.nn.conv2d
tvm.relax.op.builtin.alloc_tensor tvm.relax.transform.LegalizeOps
tvm.relax.transform.legalize_ops.common.register_legalize tvm.relax.testing.nn.Placeholder
tvm.relax.testing.vm.check_saved_func tvm.contrib.utils.tempdir tvm.runtime.Device
tvm.runtime.ShapeTuple tvm.script.from_source tvm.script.ir_module tvm.target.Target
tvm.te.comm_reducer tvm.te.compute tvm.te.min_value tvm.te.reduce_axis
tvm.testing.assert_allclose tvm.testing.parameter tvm.testing.requires_gpu tvm.testing.main
tvm.testing.requires_x86 tvm.testing.requires_aarch64 tvm.support.libinfo tvm.base.py_str
tvm._ffi.base.py_str
tvm.tir.Schedule tvm.tir.Select tvm.tir.Var tvm.tir.const tvm.tir.floordiv tvm.tir.if_then_else
tvm.topi.add tvm.topi.concatenate tvm.topi.full tvm.topi.transpose tvm.topi.nn.relu
tvm.topi.nn.softmax tvm.transform.Sequential tvm.transform.PassContext
"""


@pytest.mark.parametrize("package", ["tvm", "loopwright"])
def test_names_that_scripts_use(package):
    program = """
import importlib, sys
import loopwright.compat
package, *names = sys.argv[1:]
if package == "tvm":
    loopwright.compat.alias("tvm")
missing = []
for name in names:
    path, _, leaf = name.replace("tvm", package, 1).rpartition(".")
    try:
        holder = importlib.import_module(path)
    except ModuleNotFoundError:
        above, _, last = path.rpartition(".")
        holder = getattr(importlib.import_module(above), last)
    if not hasattr(holder, leaf):
        missing.append(name)
print(*missing)
"""
    done = run(program, package, *NAMES.split())
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == []


def test_every_name_is_what_it_stands_for():
    """The table of names has no dead lines, and a module keeps the names that are its own."""
    program = """
import importlib
import loopwright.compat
from loopwright.compat.names import ALSO, NAMES
loopwright.compat.alias("tvm")
import tvm
for path, place in NAMES.items():
    module, _, name = place.partition(":")
    here = importlib.import_module("loopwright." + module)
    holder, _, last = path.rpartition(".")
    holder = importlib.import_module("tvm." + holder) if holder else tvm
    assert getattr(holder, last) is (getattr(here, name) if name else here), path
for path, places in ALSO.items():
    importlib.import_module("tvm." + path)
    for place in places.split():
        importlib.import_module("loopwright." + place)
from tvm.tir.expr import Ramp, PrimExpr
assert Ramp is tvm.tir.Ramp and PrimExpr is tvm.tir.PrimExpr
entry = tvm.script.parser.relax.entry  # in TVM, its packages import their modules
assert entry.TensorProxy is tvm.script.relax.Tensor
assert tvm.base.TVMError is tvm.TVMError
assert not isinstance(tvm.tir.Var("x", "int32") == 1, tvm.tir.expr.EqualOp)
assert not hasattr(tvm.tir.expr, "nothing")
"""
    done = run(program)
    assert done.returncode == 0, done.stderr


ATTRIBUTES = """\
relax.frontend.nn.Module relax.frontend.nn.op.matmul relay.Function relax.Span relax.ExprFunctor
relax.Type relax.DataflowBlockRewrite relax.args_converter.auto ir.Span ir.SequentialSpan
ir.SourceName ir.TensorType ir.RelayExpr topi.testing.conv2d_nchw_python tir.get_vscale_expr
tir.CallEffectKind.Pure runtime.save_param_dict_to_file ffi.Object ffi.cpu Object
tir.pipeline.finalize_host_passes relax.pipeline.get_default_pipeline
"""


def test_attributes_without_their_own_import():
    program = """
import sys
import loopwright.compat
loopwright.compat.alias("tvm")
import tvm
for name in sys.argv[1:]:
    value = tvm
    for part in name.split("."):
        value = getattr(value, part)
print(tvm.relax.frontend.__name__, tvm.relax.build.__name__, tvm.relax.testing.__name__)
"""
    done = run(program, *ATTRIBUTES.split())
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [
        "loopwright.frontend",
        "relax_build",
        "loopwright.tvm.testing",
    ]


def test_one_identity():
    program = """
import loopwright.relax.frontend.nn as first
import loopwright.compat
loopwright.compat.alias("tvm")
from tvm.relax.frontend import nn as second
from tvm.relax.frontend.nn import Module
from loopwright.frontend.nn.core import Module as own
import tvm, loopwright
assert first is second and Module is own and tvm is loopwright
"""
    done = run(program)
    assert done.returncode == 0, done.stderr


def test_an_unknown_path_is_an_import_error():
    done = run("import loopwright.compat as c; c.alias('tvm'); import tvm.relax.nowhere")
    assert "ModuleNotFoundError: No module named 'tvm.relax.nowhere'" in done.stderr
    done = run("import loopwright.compat as c; c.alias('tvm'); import tvm; tvm.nothing")
    assert "has no attribute 'nothing'" in done.stderr


def test_a_function_that_is_a_file_too_stays_a_function():
    program = """
import loopwright.compat
loopwright.compat.alias("tvm")
from tvm import topi
from tvm.topi.nn.conv2d import conv2d_nchw
import tvm.topi.nn.dense
assert callable(topi.nn.conv2d) and callable(topi.nn.dense), topi.nn.conv2d
assert topi.nn.conv2d_nchw is conv2d_nchw
"""
    done = run(program)
    assert done.returncode == 0, done.stderr


def test_printed_programs_name_the_alias():
    program = """
import loopwright.compat
loopwright.compat.alias("tvm")
import tvm
from tvm.script import tir as T
func = tvm.script.from_source("@T.prim_func\\ndef f(a: T.handle):\\n    T.evaluate(0)\\n")
print(func.script().splitlines()[0])
print(tvm.script.from_source("import tvm\\n" + func.script()).same_as(func))
print(str(tvm.tir.Schedule(func).trace).splitlines()[0])
"""
    done = run(program)
    assert done.stdout == ("# from tvm.script import tir as T\nFalse\n# from tvm import tir\n"), (
        done.stderr
    )


def test_a_file_of_tvm_that_is_its_folder_here():
    done = run(
        "import loopwright.compat as c; c.alias('tvm'); import tvm; "
        "print(tvm.runtime.ndarray.NDArray is tvm.nd.NDArray, "
        "[isinstance(v, tvm.ir.Array) for v in ((1,), [1], {1}, tvm.ir.Array([1]))])"
    )
    assert done.stdout == "True [True, True, False, True]\n", done.stderr


def test_another_package_of_that_name():
    program = "import json, loopwright.compat as c; c.alias('json')"
    done = run(program)
    assert "ImportError: a package called json has been imported already" in done.stderr


def test_script_gets_its_arguments_and_folder(tmp_path):
    (tmp_path / "beside.py").write_text("value = 7\n")
    script = tmp_path / "script.py"
    script.write_text(
        "import sys, tvm, beside\nprint(__name__, sys.argv[1:], beside.value, tvm.__name__)\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    command = [sys.executable, "-m", "loopwright.compat", str(script), "--a", "b"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
    assert done.stdout == "__main__ ['--a', 'b'] 7 loopwright\n", done.stderr
    command = [sys.executable, "-m", "loopwright.compat"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode != 0 and "usage:" in done.stderr


def test_target_name():
    assert target_name("relax.frontend.nn.op") == "frontend.nn.op"
    assert target_name("relax.transform") == "relax.transform"
    assert target_name("transform") == "ir.transform"


def test_a_file_of_a_machine_and_a_function_of_its_name():
    program = """
import loopwright.compat
loopwright.compat.alias("tvm")
import tvm.topi.testing
from tvm import topi
from tvm.topi.x86 import conv2d
import tvm.topi.arm_cpu.conv2d
print(conv2d.__name__, topi.argwhere.__name__, topi.nn.conv2d.__name__)
"""
    done = run(program)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["loopwright.tvm.compat.topi_cpu", "argwhere", "conv2d"]


def test_modules_of_a_folder_that_is_only_in_the_table():
    program = """
import loopwright.compat
loopwright.compat.alias("tvm")
import tvm
print(tvm.contrib.random.__name__, tvm.contrib.cblas.matmul.__name__, hasattr(tvm.contrib, "no"))
"""
    done = run(program)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["loopwright.tvm.compat.external", "matmul", "False"]


@pytest.fixture
def names() -> Iterator[None]:
    """Modules, finders and the name of printed programs are as before."""
    finders, modules, name, path = [*sys.meta_path], {*sys.modules}, Served.name, [*sys.path]
    yield
    sys.meta_path[:], sys.path[:], Served.name = finders, path, name
    for new in {*sys.modules} - modules:
        if new.partition(".")[0] == "other_tvm":
            del sys.modules[new]


def test_an_alias(names):
    loopwright.compat.alias("other_tvm")
    made = importlib.import_module("other_tvm.relax.transform")
    assert made is importlib.import_module("loopwright.relax.transform")
    assert importlib.import_module("other_tvm").tir is loopwright.tir
    finders = [*sys.meta_path]
    loopwright.compat.alias("other_tvm")
    assert sys.meta_path == finders and Served.name == "other_tvm"
    with pytest.raises(ImportError, match="a package called json has been imported already"):
        loopwright.compat.alias("json")
    with pytest.raises(ImportError):
        importlib.import_module("other_tvm.no_such_module")


def test_a_script_is_run(names, monkeypatch, tmp_path, capsys):
    called = []
    monkeypatch.setattr("loopwright.compat.alias", called.append)
    script = tmp_path / "script.py"
    script.write_text("import sys\nprint(__name__, sys.argv[1:], sys.path[0] == sys.argv[1])\n")
    monkeypatch.setattr("sys.argv", ["python -m", str(script), str(tmp_path), "-x"])
    runpy.run_module("loopwright.compat", run_name="__main__")
    assert capsys.readouterr().out == f"__main__ ['{tmp_path}', '-x'] True\n"
    assert called == ["tvm"]
    monkeypatch.setattr("sys.argv", ["python -m"])
    with pytest.raises(SystemExit, match="usage: "):
        runpy.run_module("loopwright.compat", run_name="__main__")
