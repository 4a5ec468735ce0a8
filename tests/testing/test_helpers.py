"""The helpers for tests."""

from __future__ import annotations

import os
import sys
from collections import Counter

import numpy as np
import pytest

import loopwright as lw
from loopwright import relax, te, testing
from loopwright.script import ir as I
from loopwright.script import relax as R
from loopwright.testing import cases, files, marks, nn, plugin, transform, vm, workloads

size = testing.parameter(1, 7)
named = testing.parameter(by_dict={"small": 1, "large": 100})


def test_parameter(size, named, request):
    assert size in (1, 7) and named in (1, 100)
    values = request.node.name.partition("[")[2].rstrip("]").split("-")
    assert sorted(values) == sorted([str(size), "small" if named == 1 else "large"])


def test_allclose():
    testing.assert_allclose(lw.runtime.tensor([1.0, 2.0]), np.array([1, 2], "float32"))
    with pytest.raises(AssertionError, match=r"got \(2,\), want \(1, 2\)"):
        testing.assert_allclose(np.zeros(2), np.zeros((1, 2)))
    with pytest.raises(AssertionError):
        testing.assert_allclose(1.0, 1.1)


def test_requirements():
    @testing.requires_gpu
    def needs_gpu():
        """A test."""

    assert needs_gpu.pytestmark[0].args == (True,)
    assert testing.requires_package("numpy").marks()[0].args == (False,)
    assert "needs no_such" in testing.requires_package("no_such").marks()[0].kwargs["reason"]


def test_folder():
    with files.tempdir() as folder:
        path = folder.relpath("a.txt")
        open(path, "w").close()
        assert folder.listdir() == ["a.txt"] and (folder / "a.txt").exists()
    assert not os.path.exists(path)


def test_folders_that_stay(tmp_path):
    given = files.tempdir(str(tmp_path / "given"))
    with given, files.tempdir(keep_for_debug=True) as kept:
        (given / "a.txt").touch()
    assert given.path == tmp_path / "given" and given.listdir() == ["a.txt"]
    with pytest.raises(FileExistsError):
        files.tempdir(str(given.path))
    assert kept.listdir() == []
    kept.path.rmdir()


@pytest.mark.parametrize(
    ("segments", "last", "wanted"),
    [
        (2, False, "(exp tanh) (sigmoid negative) sqrt"),
        (2, True, "(exp tanh) (sigmoid negative) (sqrt)"),
        (1, False, "exp tanh sigmoid negative sqrt"),
        (9, False, "(exp) (tanh) (sigmoid) (negative) sqrt"),
        ([0, 2, 3], False, "(exp tanh) (sigmoid) negative sqrt"),
    ],
)
def test_segments_that_are_checkpoints(segments, last, wanted):
    names = ("exp", "tanh", "sigmoid", "negative", "sqrt")
    bb, x = relax.BlockBuilder(), nn.Placeholder((2, 3), name="x")
    with bb.function("main", [x]):
        steps = [getattr(relax.op, name) for name in names]
        bb.emit_func_output(nn.emit_checkpoint_sequential(steps, segments, x, last))
    main = bb.finalize()["main"]
    calls = [b.value.op.name.removeprefix("relax.") for b in main.body.blocks[0].bindings]
    text = (
        " ".join(calls).replace("grad.start_checkpoint ", "(").replace(" grad.end_checkpoint", ")")
    )
    assert text == wanted


def test_layers_outside_of_a_function():
    with pytest.raises(RuntimeError, match="no function is being built"):
        nn.emit(relax.op.exp(nn.Placeholder((2,))))
    bb, x = relax.BlockBuilder(), nn.Placeholder((2, 3), name="x")
    with bb.function("main", [x]):
        doubled = nn.emit_te(lambda t: te.compute(t.shape, lambda i, j: t[i, j] + t[i, j]), x)
        bb.emit_func_output(nn.LogSoftmax()(doubled))
    data = np.arange(6, dtype="float32").reshape(2, 3)
    got = relax.interpreter.Interpreter(bb.finalize())["main"](data).numpy()
    wanted = 2 * data - np.log(np.exp(2 * data).sum(-1, keepdims=True))
    np.testing.assert_allclose(got, wanted, rtol=1e-5)


def test_layers_of_graphs():
    bb = relax.BlockBuilder()
    model = nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2, bias=False))
    x = nn.Placeholder((5, 4), name="x")
    with bb.function("main", [x, *model.parameters()]):
        bb.emit_func_output(model(x))
    mod = bb.finalize()
    weights = nn.init_params(mod)
    assert [w.shape for w in weights] == [(4, 3), (3,), (3, 2)]
    data = np.ones((5, 4), "float32")
    a, b, c = (w.numpy() for w in weights)
    got = relax.interpreter.Interpreter(mod)["main"](data, *weights).numpy()
    np.testing.assert_allclose(got, np.maximum(data @ a + b, 0) @ c, rtol=1e-5)


def test_functions_of_the_machine():
    a, b = lw.runtime.tensor([[1.0, 0.0]]), lw.runtime.tensor([[2.0, 2.0]])
    call = lw.get_global_func
    np.testing.assert_array_equal(call("test.vm.add")(a, b).numpy(), [[3, 2]])
    np.testing.assert_array_equal(call("test.vm.mul")(a, b).numpy(), [[2, 0]])
    np.testing.assert_array_equal(call("test.vm.equal_zero")(a).numpy(), [[False, True]])
    np.testing.assert_array_equal(call("test.vm.subtract_one")(a).numpy(), [[0, -1]])
    out = lw.runtime.empty((1, 4))
    call("test.vm.tile")(a, out)
    np.testing.assert_array_equal(out.numpy(), [[1, 0, 1, 0]])
    call("test.vm.identity")(b, a)
    np.testing.assert_array_equal(a.numpy(), [[2, 2]])
    assert vm.move(a) is a and vm.add_scalar(1, 2) == 3
    assert not vm.check_if_defined(None) and vm.get_device_id(lw.cpu()) == 0


SUITE = """
import numpy as np
import pytest
import loopwright as lw
from loopwright import testing, tir
from loopwright.script import tir as T

size, dtype = testing.parameters((1, "int8"), (7, "float32"))

def test_together(size, dtype):
    assert (size, dtype) in [(1, "int8"), (7, "float32")]

def test_targets(target, dev):
    assert target in ("llvm", "c") and dev == lw.cpu()

@testing.exclude_targets("llvm")
def test_one_target(target):
    assert target == "c"

@testing.known_failing_targets("c")
def test_failing(target):
    assert target == "llvm"

@testing.skip_parameterizations("c", reason="no")
@testing.parametrize_targets("c", "llvm")
def test_ids(target):
    assert target == "llvm"

@pytest.mark.parametrize("target", ["c", "cuda -arch=sm_80"])
def test_of_no_code_generator(target):
    assert target == "c"

@testing.requires_cuda
def test_cuda():
    raise AssertionError

class TestFolds(testing.CompareBeforeAfter):
    transform = tir.transform.Simplify()
    limit = testing.parameter(4, 8)

    def before(A: T.Buffer(8, "float32")):
        for i in range(8):
            A[i] = T.float32(1) + T.float32(2)

    def expected(A: T.Buffer(8, "float32")):
        for i in range(8):
            A[i] = T.float32(3)

class TestRaises(testing.CompareBeforeAfter):
    def before(self):
        return TestFolds._program(TestFolds.text)

    def transform(self):
        def fail(mod):
            raise ValueError("no")
        return fail

    expected = ValueError

def text(A: T.Buffer(8, "float32")):
    A[0] = T.float32(0)

TestFolds.text = text
"""


class Outcomes:
    """A plugin that counts what becomes of tests."""

    def __init__(self) -> None:
        self.found: Counter[str] = Counter()

    def pytest_report_teststatus(self, report: pytest.TestReport) -> None:
        if report.when == "call" or report.outcome != "passed":
            self.found["xfailed" if hasattr(report, "wasxfail") else report.outcome] += 1


def test_a_suite(tmp_path, monkeypatch):
    (tmp_path / "test_suite.py").write_text(SUITE)
    monkeypatch.setenv("TVM_TEST_TARGETS", "llvm;c;cuda")
    monkeypatch.chdir(tmp_path)
    options = ["-q", "-p", "loopwright.tvm.testing.plugin", "-p", "no:cacheprovider"]
    options += ["--import-mode=importlib", f"--rootdir={tmp_path}", str(tmp_path)]
    pytest.main(options, plugins=[outcomes := Outcomes()])
    assert outcomes.found == {"passed": 10, "skipped": 3, "xfailed": 1}


def test_the_tests_of_a_file_run(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["other.py", "-k", "one"])
    monkeypatch.setattr(pytest, "main", lambda args: args)
    with pytest.raises(SystemExit) as end:
        testing.main()
    assert end.value.code == [__file__, "-k", "one"]


def test_gradients():
    x = np.array([[1.0, 2.0], [3.0, -1.0]])
    testing.check_numerical_grads(
        lambda a, b: (a**3 * b).sum(), [x, x + 1], [3 * x**2 * (x + 1), x**3]
    )
    testing.check_numerical_grads(lambda a: np.sin(a).sum(), {"a": x}, {"a": np.cos(x)})
    with pytest.raises(AssertionError, match="input 'a' is .* from the differences"):
        testing.check_numerical_grads(lambda a: np.sin(a).sum(), {"a": x}, {"a": np.sin(x)})
    with pytest.raises(AssertionError, match="another shape"):
        testing.check_numerical_grads(lambda a: a.sum(), [x], [x[0]])
    testing.check_numerical_grads(lambda a: a.sum(), [x], [])  # none is given: none is wrong


def test_expressions_are_proven_equal():
    n = lw.tir.Var("n", "int32")
    testing.assert_prim_expr_equal(n * 2 + n, 3 * n)
    with pytest.raises(ValueError, match="not proven equal"):
        testing.assert_prim_expr_equal(n, n + 1)
    assert testing.get_dtype_range("uint8") == (0, 255)


def test_requirements_of_processors():
    has = lw.Target("llvm").features
    for name, feature in (
        ("x86_avx512", "avx512bw"),
        ("aarch64_sve", "sve"),
        ("arm_dot", "dotprod"),
    ):
        (mark,) = getattr(testing, f"requires_{name}").marks("compile-and-run")
        assert mark.args == (feature not in has,)


def test_calls_of_the_same_function_are_equal_expressions():
    v = lw.tir.Var("v", "int32")
    one, two = (lw.tir.call_extern("int32", "f", v + n) for n in (1, 2))
    testing.assert_prim_expr_equal(one, lw.tir.call_extern("int32", "f", v + 1))
    with pytest.raises(ValueError, match="not proven equal"):
        testing.assert_prim_expr_equal(one, two)


def test_parameters_of_layers_have_names_of_their_own():
    bb = lw.relax.BlockBuilder()
    with bb.function("main"):
        layers = [testing.nn.Linear(4, 4, bias=False) for _ in range(2)]
        x = testing.nn.Placeholder((1, 4))
        out = testing.nn.Sequential(*layers)(x)
        bb.emit_func_output(out, params=[x, *(p for one in layers for p in one.parameters())])
    names = [p.name_hint for p in bb.get()["main"].params]
    assert names == ["data", "linear_weight", "linear_weight1"]


def test_marks_of_tests(request):
    plugin.pytest_configure(request.config)  # our own tests do not load it
    assert cases.fixture() is pytest.fixture
    assert testing.fixture(lambda: 3)._get_wrapped_function()() == 3
    assert testing.xfail_parameterizations("a", "b", reason="why").mark.args == (
        "xfail",
        ("a", "b"),
        "why",
    )
    assert testing.skip_parameterizations("a", reason="why").mark.args[0] == "skip"
    assert marks.skip_if_wheel_test(len) is len


@I.ir_module
class TwoSteps:
    @R.function
    def main(x: R.Tensor((2, 3), "float32")):
        with R.dataflow():
            y = R.add(x, x)
            z = R.multiply(y, y)
            R.output(z)
        return z


def test_memory_in_a_block():
    main = TwoSteps["main"]
    block = main.body.blocks[0]
    memory, fields = transform.dataflow_alias_analysis(block, main.params)
    found = {v.name_hint: numbers for v, numbers in memory.items()}
    assert found == {"x": {0}, "y": {1}, "z": {2}} and fields == {}  # each has memory of its own
    exact, sized = transform.dataflow_inplace_analysis(block, main.params, TwoSteps)
    assert exact == sized  # z may lie where y was; x belongs to the caller
    assert [(o.binding_idx, set(o.arg_idxs)) for o in exact] == [(1, {0, 1})]


def test_filters_of_a_depthwise_convolution():
    with pytest.raises(ValueError, match="one filter for each channel\n  got: factor 2"):
        workloads.depthwise_conv2d_nhwc(1, 4, 4, 2, 3, factor=2)
    assert workloads.depthwise_conv2d_nhwc(1, 4, 4, 2, 3, factor=1)
