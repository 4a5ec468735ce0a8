"""The helpers for tests."""

from __future__ import annotations

import os

import numpy as np
import pytest

import loopwright as lw
from loopwright import relax, testing
from loopwright.testing import files, nn, vm

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
    assert vm.move(a) is a and vm.add_scalar(1, 2) == 3
    assert not vm.check_if_defined(None) and vm.get_device_id(lw.cpu()) == 0
