"""The graph executor around a model that is a Python function."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from loopwright.base.errors import LoopwrightError
from loopwright.runtime import ShapeTuple, cpu, cuda, tensor
from loopwright.tvm.graph_executor import AotModule, GraphModule, GraphRuntime, create
from loopwright.tvm.param_dict import load_param_dict, save_param_dict


class Model:
    """(x + y, x * s): x float32[2, n], y float32[2, 3], s int32[]."""

    def inputs(self) -> list[Any]:
        return [("x", "float32", (2, "n")), ("y", "float32", (2, 3)), ("s", "int32", ())]

    def outputs(self) -> list[Any]:
        return [("sum", "float32", (2, 3)), ("product", "float32", (2, "n"))]

    def __getitem__(self, name: str) -> Any:
        assert name == "main"
        return lambda x, y, s: (tensor(x.numpy() + y.numpy()), tensor(x.numpy() * s.numpy()))


X, Y = np.arange(6, dtype="float32").reshape(2, 3), np.ones((2, 3), "float32")


def run(**inputs: Any) -> GraphModule:
    module = GraphModule(GraphRuntime(Model(), cpu()))
    module.run(**inputs)
    return module


def test_inputs_and_outputs():
    module = run(x=X, y=Y, s=2, other=3)
    assert module.get_num_inputs() == 3 and module.get_num_outputs() == 2
    for key, value in ((0, X + 1), ("sum", X + 1), (1, 2 * X), ("product", 2 * X)):
        np.testing.assert_array_equal(module.get_output(key).numpy(), value)
    out = tensor(np.zeros((2, 3), "float32"))
    assert module.get_output(0, out) is out and out.numpy()[0, 1] == 2
    assert module.get_input("s").numpy() == 2 and module.get_input(1, out) is out
    np.testing.assert_array_equal(out.numpy(), Y)
    assert [module.get_input_index(n) for n in ("x", "s", "z")] == [0, 2, -1]
    shapes, dtypes = module.get_input_info()
    assert shapes == {"x": (2, "n"), "y": (2, 3), "s": ()} and type(shapes["y"]) is ShapeTuple
    assert dtypes == {"x": "float32", "y": "float32", "s": "int32"}
    before = module.get_input("y")
    module.set_input("y", 5 * Y)
    assert module.get_input("y") is before and before.numpy()[0, 0] == 5  # the same memory
    module.set_input(0, X[:, :1])
    assert module.get_input("x").shape == (2, 1)
    assert AotModule(module.module).get_input_name(2) == "s"


def test_what_is_refused():
    module = GraphModule(Model())
    with pytest.raises(ValueError, match="no value\n  got: x"):
        module.run()
    with pytest.raises(ValueError, match="has not been run"):
        module.get_output(0)
    for key in ("z", 3, -1):
        with pytest.raises(
            ValueError, match="no such input\n  got: .*\n  instead: one of: x, y, s"
        ):
            module.set_input(key, X)
    for shape in ((3, 2), (2, 3, 1), (2,)):
        with pytest.raises(ValueError, match=r"input y has shape \(2, 3\)"):
            module.set_input("y", np.zeros(shape))
    with pytest.raises(ValueError, match=r"input x has shape \(2, 'n'\)"):
        module.set_input("x", np.zeros((3, 3)))
    module.run(x=X)
    for key in (2, -1):
        with pytest.raises(ValueError, match="the model has 2 outputs"):
            module.get_output(key)
    with pytest.raises(ValueError, match="no such output\n  got: z"):
        module.get_output("z")
    with pytest.raises(NotImplementedError, match="values between the kernels"):
        module.debug_get_output("a", None)
    for devices in (cuda(), [cpu(), cuda()]):
        with pytest.raises(LoopwrightError, match="only the CPU can run code"):
            GraphRuntime(Model(), devices)
    with pytest.raises(ValueError, match="a text in JSON\n  got: dict"):
        create({}, Model(), cpu())  # type: ignore[arg-type]
    assert create("{}", Model(), cpu()).get_num_outputs() == 2


def test_memory_that_is_shared():
    module = run(x=X, y=Y, s=2)
    own, out = tensor(X), tensor(np.zeros((2, 3), "float32"))
    module.set_input_zero_copy(0, own)
    module.set_output_zero_copy("sum", out)
    own[:] = 7
    module["run"]()
    assert module.get_output(0) is out and out.numpy()[0, 0] == 8
    module.set_input_zero_copy(y=own)
    module["run"]()
    assert out.numpy()[0, 0] == 14 and module.get_output(1).numpy()[0, 0] == 14
    for wrong in (X, tensor(X.astype("float64"))):
        with pytest.raises(ValueError, match="input x without a copy is a tensor of float32"):
            module.set_input_zero_copy("x", wrong)
    other = GraphModule(Model())
    other.share_params(module, save_param_dict({"y": Y, "z": Y}))
    assert other.get_input("y") is own
    other.load_params(save_param_dict({"x": X}))
    np.testing.assert_array_equal(other.get_input("x").numpy(), X)
    other.share_params(module, save_param_dict({"x": X}))
    assert other.get_input("x") is module.get_input("x")


def test_parameters_that_are_part_of_the_code():
    fixed = {"w": np.array([1, np.nan], "float32"), "k": np.array([1, 2])}
    module = GraphModule(GraphRuntime(Model(), None, fixed))
    module.set_input("w", fixed["w"])
    module.set_input(w=fixed["w"], k=[1, 2], unknown=3)
    module.load_params(save_param_dict({**fixed, "s": np.array(3, "int32"), "unknown": Y}))
    assert module.get_input("s").numpy() == 3
    np.testing.assert_array_equal(module.get_input("k").numpy(), [1, 2])
    for name, other in (("w", [1, 2]), ("k", [1, 3])):
        with pytest.raises(ValueError, match=f"the parameter {name} was compiled into the model"):
            module.set_input(name, other)


def test_times():
    module = run(x=X, y=Y)
    calls = []
    module.module._functions["run"] = lambda: calls.append(1)
    result = module.benchmark(cpu(), s=4)
    assert len(result.results) == 5 and len(calls) == 26 and module.get_input("s").numpy() == 4
    calls.clear()
    assert len(module.benchmark(cpu(), repeat=2, number=3, end_to_end=True, s=5).results) == 2
    assert len(calls) == 7 and module.get_input("s").numpy() == 5


@pytest.mark.parametrize(
    "array",
    [
        np.array(2.5),
        np.zeros((0, 3), "int8"),
        np.array([True, False]),
        np.arange(6, dtype="uint16").reshape(1, 2, 3),
        tensor(np.array([1.5, 2]), dtype="bfloat16"),
    ],
)
def test_parameters_as_bytes(array):
    data = save_param_dict({"é": array, "b": array})
    for given in (data, bytes(data), data.decode("latin-1")):
        found = load_param_dict(given)
        assert list(found) == ["é", "b"]
        for value in found.values():
            assert (value.dtype, value.shape) == (str(array.dtype), array.shape)
            np.testing.assert_array_equal(value.numpy(), np.asarray(array))


def test_bytes_that_are_no_parameters():
    data = save_param_dict({"b": np.arange(3, dtype="int32")})
    for end in range(len(data)):
        with pytest.raises(ValueError, match="end before the parameters do"):
            load_param_dict(data[:end])
    changes = {
        0: (b"\0", "not a list of parameters"),
        16: (b"\2", "differ in number"),
        33: (b"\2", "differ in number\n  got: 2"),
        41: (b"\0", "the bytes are not a tensor"),
        65: (b"\xff\xff\xff\xff", "of this kind cannot be read\n  got: rank -1"),
        69: (b"\3", "type code 3"),
        71: (b"\2", "2 lanes"),
        73: (b"\2", "does not match its shape\n  got: 12 bytes for .2. of int32"),
        80: (b"\xff", "does not match its shape"),
        81: (b"\x08", "does not match its shape"),
    }
    for at, (new, message) in changes.items():
        with pytest.raises(ValueError, match=message):
            load_param_dict(data[:at] + new + data[at + len(new) :])
    for dtype in ("complex64", "float8_e4m3fn"):
        with pytest.raises(
            ValueError, match=f"a dtype that the format does not have\n  got: {dtype}"
        ):
            save_param_dict({"x": tensor([1], dtype=dtype)})
