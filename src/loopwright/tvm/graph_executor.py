"""TVM's graph executor: a compiled model with inputs that are set, and outputs that are read.

m = GraphModule(lib["default"](cpu()))      # lib: the result of relay.build, or a loaded library
m.set_input("x", x)
m.run()
y = m.get_output(0)
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from loopwright.base.errors import LoopwrightError, explain
from loopwright.runtime.arguments import leaves
from loopwright.runtime.device import Device
from loopwright.runtime.dtype import numpy_dtype
from loopwright.runtime.module import BenchmarkResult, Module
from loopwright.runtime.signature import Argument
from loopwright.runtime.tensor import ShapeTuple, Tensor, empty, tensor
from loopwright.tvm.param_dict import load_param_dict


class GraphRuntime(Module):
    """The state of a run: a model's inputs and outputs. Its methods are functions by name, too.

    model: has `inputs()`, `outputs()` and `["main"]`. fixed: the parameters that were compiled into
    it; they can be set only to what they are.
    """

    def __init__(
        self,
        model: Any,
        device: Device | Sequence[Device] | None = None,
        fixed: Mapping[str, Any] | None = None,
    ) -> None:
        devices = device if isinstance(device, (list, tuple)) else [device]
        for one in devices:
            if isinstance(one, Device) and one.type != "cpu":
                raise LoopwrightError(explain("only the CPU can run code", got=str(one)))
        self.model, self.fixed = model, dict(fixed or {})
        self.args = [Argument(*described) for described in model.inputs()]
        self.values: list[Any] = [_initial(arg) for arg in self.args]
        self.outputs: list[Any] = [None] * len(model.outputs())
        self.placed: dict[int, Any] = {}
        names = """set_input set_input_zero_copy set_output_zero_copy run get_output get_input
            get_num_outputs get_num_inputs get_input_index get_input_info load_params
            share_params"""
        functions = {name: getattr(self, name) for name in names.split()}
        super().__init__(functions, kind="GraphExecutor")

    def get_input_index(self, name: str) -> int:
        """The position of an input, -1 for an unknown name."""
        return next((i for i, arg in enumerate(self.args) if arg.name == name), -1)

    def _index(self, key: Any) -> int:
        index = self.get_input_index(key) if isinstance(key, str) else int(key)
        if not 0 <= index < len(self.args):
            names = ", ".join(arg.name for arg in self.args)
            raise ValueError(explain("no such input", got=key, instead=f"one of: {names}"))
        return index

    def set_input(self, key: Any, value: Any) -> None:
        """Set an input, by name or position, to a copy of an array."""
        if isinstance(key, str) and self.get_input_index(key) < 0 and key in self.fixed:
            self._check_fixed(key, value)
            return
        index = self._index(key)
        converted = _converted(self.args[index], value)
        current = self.values[index]
        if current is not None and current.shape == converted.shape:
            current.copyfrom(converted)
        else:
            self.values[index] = tensor(converted)

    def _check_fixed(self, name: str, value: Tensor | np.ndarray[Any, Any] | Sequence[int]) -> None:
        """Refuse another value of a parameter that is part of the code."""
        fixed = np.asarray(self.fixed[name])
        if not np.array_equal(fixed, np.asarray(value), equal_nan=fixed.dtype.kind == "f"):
            what = f"the parameter {name} was compiled into the model, with other values"
            raise ValueError(explain(what, instead="build the model without params, or again"))

    def set_input_zero_copy(self, key: str | int, value: Tensor | np.ndarray[Any, Any]) -> None:
        """Let an input be the memory of an array, which is read at each run."""
        index = self._index(key)
        arg = self.args[index]
        if not isinstance(value, Tensor) or value.dtype != arg.dtype:
            what = f"input {arg.name} without a copy is a tensor of {arg.dtype}"
            raise ValueError(explain(what, got=getattr(value, "dtype", type(value).__name__)))
        self.values[index] = value

    def set_output_zero_copy(self, index: int, value: Tensor) -> None:
        """Let an output be written to an array at each run."""
        self.placed[self._output(index)] = value

    def run(self) -> None:
        """Compute the outputs."""
        missing = [a.name for a, v in zip(self.args, self.values, strict=True) if v is None]
        if missing:
            what = "an input without a fixed shape has no value"
            raise ValueError(explain(what, got=", ".join(missing), instead="set_input(...)"))
        self.outputs = leaves(self.model["main"](*self.values))
        for index, target in self.placed.items():
            self.outputs[index].copyto(target)
            self.outputs[index] = target

    def _output(self, index: str | int) -> int:
        if isinstance(index, str):
            names = [name for name, _, _ in self.model.outputs()]
            if index not in names:
                raise ValueError(explain("no such output", got=index, instead=str(names)))
            return names.index(index)
        if not 0 <= index < len(self.outputs):
            what = f"the model has {len(self.outputs)} outputs"
            raise ValueError(explain(what, got=index))
        return index

    def get_output(self, index: str | int, out: Tensor | None = None) -> Any:
        """An output of the last run, or what `out` then holds."""
        value = self.outputs[self._output(index)]
        if value is None:
            raise ValueError(explain("the model has not been run", instead="run() first"))
        if out is None:
            return value
        value.copyto(out)
        return out

    def get_input(self, index: str | int, out: Tensor | None = None) -> Any:
        """The value of an input."""
        if isinstance(index, str) and self.get_input_index(index) < 0 and index in self.fixed:
            value = tensor(self.fixed[index])
        else:
            value = self.values[self._index(index)]
        if out is None:
            return value
        value.copyto(out)
        return out

    def get_num_outputs(self) -> int:
        """How many outputs there are."""
        return len(self.outputs)

    def get_num_inputs(self) -> int:
        """How many inputs there are."""
        return len(self.args)

    def get_input_info(self) -> dict[str, dict[str, Any]]:
        """{"shape": ..., "dtype": ...}, each by the name of an input; dimensions that are not known are
        texts."""
        shapes_all = {arg.name: arg.shape() for arg in self.args}
        fixed = {n for n, shape in shapes_all.items() if all(isinstance(d, int) for d in shape)}
        shapes = {n: ShapeTuple(shape) if n in fixed else shape for n, shape in shapes_all.items()}
        return {"shape": shapes, "dtype": {arg.name: arg.dtype for arg in self.args}}

    def load_params(self, params_bytes: bytes | bytearray) -> None:
        """Set the inputs that `save_param_dict` wrote; others are left out, as in TVM."""
        for name, value in load_param_dict(params_bytes).items():
            if self.get_input_index(name) >= 0 or name in self.fixed:
                self.set_input(name, value)

    def share_params(self, other: GraphRuntime, params_bytes: bytes | bytearray) -> None:
        """Let the inputs that the bytes name be the memory of another executor's."""
        source = getattr(other, "module", other)
        for name in load_param_dict(params_bytes):
            if self.get_input_index(name) >= 0:
                self.values[self._index(name)] = source.get_input(name)


def _initial(arg: Argument) -> Tensor | None:
    """Zeros of an input's shape; None where it is not known."""
    shape = [d for d in arg.shape() if isinstance(d, int)]
    return empty(shape, arg.dtype) if len(shape) == len(arg.dims or ()) else None


def _converted(arg: Argument, value: Tensor | np.ndarray[Any, Any] | int) -> Any:
    """An array, a number or a list as an input takes it, in its dtype. Raises ValueError for another
    shape."""
    if not isinstance(value, Tensor) or value.dtype != arg.dtype:
        value = np.asarray(value).astype(numpy_dtype(arg.dtype), copy=False)
    shape = arg.shape()
    same = len(shape) == len(value.shape)
    if not same or any(isinstance(w, int) and w != h for w, h in zip(shape, value.shape)):
        raise ValueError(explain(f"input {arg.name} has shape {shape}", got=tuple(value.shape)))
    return value


def _of_module(name: str) -> Callable[..., Any]:
    """A method that is the one of the module inside."""

    @functools.wraps(getattr(GraphRuntime, name))
    def method(self: GraphModule, *args: Any, **options: Any) -> Any:
        return getattr(self.module, name)(*args, **options)

    return method


class GraphModule:
    """A model ready to run. module: what `lib["default"](device)` gave."""

    def __init__(self, module: Any) -> None:
        if not hasattr(module, "get_num_outputs"):
            module = GraphRuntime(module)
        self.module = module
        vars(self).update({f"_{n}": module[n] for n in ("run", "get_output", "get_input")})

    def set_input(
        self,
        key: Any = None,
        value: np.ndarray[Any, Any] | Sequence[int] | None = None,
        **params: np.ndarray[Any, Any] | int | Sequence[int],
    ) -> None:
        """Set an input by name or position, and others by keyword; names that the model does not
        have are left out, as in TVM."""
        if key is not None:
            self.module.set_input(key, value)
        for name, array in params.items():
            if self.module.get_input_index(name) >= 0 or name in self.module.fixed:
                self.module.set_input(name, array)

    def set_input_zero_copy(
        self,
        key: str | int | None = None,
        value: Tensor | np.ndarray[Any, Any] | None = None,
        **params: Tensor,
    ) -> None:
        """As `set_input`, but the model reads the given tensors' memory at each run."""
        tensors = {} if key is None else {key: value}
        for name, one in {**tensors, **params}.items():
            self.module.set_input_zero_copy(name, one)

    def run(self, **input_dict: Any) -> None:
        """Compute the outputs, of inputs that may be given here."""
        if input_dict:
            self.set_input(**input_dict)
        self.module["run"]()

    get_num_outputs = _of_module("get_num_outputs")
    get_num_inputs = _of_module("get_num_inputs")
    get_input = _of_module("get_input")
    get_input_index = _of_module("get_input_index")
    get_output = _of_module("get_output")
    set_output_zero_copy = _of_module("set_output_zero_copy")
    load_params = _of_module("load_params")

    def get_input_info(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """The shapes and the dtypes of the inputs by name."""
        info = self.module.get_input_info()
        return info["shape"], info["dtype"]

    def debug_get_output(self, node: str, out: Tensor | None) -> Any:
        """The value of a node inside. Refused: kernels are fused and share memory."""
        what = "the values between the kernels of a compiled model are not kept"
        hint = "relay.create_executor('debug') of a function that returns the value"
        raise NotImplementedError(explain(what, got=str(node), instead=hint))

    def share_params(self, other: GraphModule, params_bytes: bytes | bytearray) -> None:
        """Use another model's memory for the parameters that the bytes name."""
        self.module.share_params(other.module, params_bytes)

    def __getitem__(self, key: str) -> Any:
        """The function of that name of the module."""
        return self.module[key]

    def benchmark(
        self, device: Device, func_name: str = "run", repeat: int = 5, number: int = 5,
        min_repeat_ms: float | None = None, limit_zero_time_iterations: int = 100,
        end_to_end: bool = False, cooldown_interval_ms: float = 0, repeats_to_cooldown: int = 1,
        **kwargs: Any,
    ) -> BenchmarkResult:  # fmt: skip
        """The seconds that a run takes; see `Timing`. end_to_end: setting the inputs (`kwargs`) and
        reading the outputs counts."""
        pauses = (cooldown_interval_ms, repeats_to_cooldown)
        how = (number, repeat, min_repeat_ms or 0, limit_zero_time_iterations, *pauses)
        self.set_input(**kwargs)
        if not end_to_end:
            return self.module.time_evaluator(func_name, device, *how)()

        def whole() -> None:
            self.set_input(**kwargs)
            self.module[func_name]()
            for index in range(self.get_num_outputs()):
                self.get_output(index).numpy()

        return Module({"whole": whole}).time_evaluator("whole", device, *how)()


class AotModule(GraphModule):
    """A model that was built ahead of time, ready to run."""

    def get_input_name(self, index: int) -> str:
        """The name of an input by its position."""
        return self.module.args[index].name


def create(graph_json_str: str, libmod: object, device: Device) -> GraphModule:
    """A model from the tuple that `relay.build` returns; the graph's text only describes it."""
    if not isinstance(graph_json_str, str):
        what = "the graph is a text in JSON"
        raise ValueError(explain(what, got=type(graph_json_str).__name__))
    return GraphModule(GraphRuntime(libmod, device, getattr(libmod, "fixed_params", None)))
