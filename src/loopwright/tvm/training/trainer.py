"""Trainer: keeps parameters and states, and runs the steps of training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ...base.errors import LoopwrightError, explain
from ...ir.module import IRModule
from ...relax.expr import Var
from ...runtime import Device, Tensor, tensor
from .setup_trainer import ADJOINT, BACKBONE, OPTIMIZER

Values = dict[str, Tensor | None]


class Trainer:
    """Trains a model that `SetupTrainer` made ready.

        mod = SetupTrainer(MSELoss(), SGD(0.1), [out, out])(model)
        trainer = Trainer(mod, relax.VirtualMachine(compile(mod), cpu()), cpu())
        loss = trainer.update([x], [y])

    train_mod: the module. vm: a machine that runs its functions. zero_init_param_state: whether
    parameters and states begin as zeros; else they must be set first.
    """

    def __init__(
        self, train_mod: IRModule, vm: Any, device: Device, zero_init_param_state: bool = True
    ) -> None:
        self.vm = vm
        self.device = device
        backbone, attrs = train_mod[BACKBONE], train_mod.attrs
        inputs, parameters = int(attrs["input_num"]), int(attrs["param_num"])
        self._input_num = inputs
        self._param_vars = list(backbone.params[inputs : inputs + parameters])
        self._state_vars = list(backbone.params[inputs + parameters :])
        self._params: Values = {var.name_hint: None for var in self._param_vars}
        self._states: Values = {var.name_hint: None for var in self._state_vars}
        self._optim_states: Any = tuple(self._array(s) for s in attrs["optim_state"])
        if zero_init_param_state:
            self.zero_init_params()
            self.zero_init_states()

    def _array(self, value: Tensor | np.ndarray[Any, Any]) -> Tensor:
        return tensor(value.numpy() if isinstance(value, Tensor) else value, self.device)

    # ------------------------------------------------------------------ parameters and states

    def xaiver_uniform_init_params(self) -> None:
        """Draw the parameters uniformly from the interval of Glorot and Bengio, which depends on
        the numbers of inputs and outputs; those with fewer than two axes count as square."""
        for var in self._param_vars:
            shape = _shape(var)
            field = int(np.prod(shape[2:])) if len(shape) > 2 else 1
            ends = shape[:2] if len(shape) > 1 else [int(np.prod(shape))] * 2
            limit = np.sqrt(6.0 / max(sum(ends) * field, 1))
            drawn = np.random.uniform(-limit, limit, shape)
            self._params[var.name_hint] = self._array(drawn.astype(str(var.struct_info.dtype)))

    def zero_init_params(self) -> None:
        """Set all parameters to zeros."""
        self._params = {v.name_hint: self._zeros(v) for v in self._param_vars}

    def zero_init_states(self) -> None:
        """Set all states to zeros."""
        self._states = {v.name_hint: self._zeros(v) for v in self._state_vars}

    def _zeros(self, var: Var) -> Tensor:
        return self._array(np.zeros(_shape(var), str(var.struct_info.dtype)))

    def load_params(self, params: Mapping[str, Any]) -> None:
        """Set all parameters, by name. Raises ValueError for missing or unknown names."""
        self._params = self._loaded("parameters", params, self._params)

    def load_states(self, states: Mapping[str, Any]) -> None:
        """Set all states, by name. Raises ValueError for missing or unknown names."""
        self._states = self._loaded("states", states, self._states)

    def _loaded(self, what: str, loaded: Mapping[str, Any], current: Values) -> Values:
        if set(loaded) != set(current):
            got, names = (", ".join(map(str, part)) or "none" for part in (loaded, current))
            text = f"a trainer takes all {what} of its model"
            raise ValueError(explain(text, got=got, instead=f"give {names}"))
        return {name: self._array(loaded[name]) for name in current}

    def export_params(self) -> dict[str, Tensor]:
        """The parameters by name. Raises LoopwrightError where they are not set."""
        return dict(zip(self._params, self._set("parameters", self._params), strict=True))

    def export_states(self) -> dict[str, Tensor]:
        """The states by name. Raises LoopwrightError where they are not set."""
        return dict(zip(self._states, self._set("states", self._states), strict=True))

    def _set(self, what: str, values: Values) -> list[Tensor]:
        """The values, of which none may be missing."""
        missing = [name for name, value in values.items() if value is None]
        if missing:
            hint = "call zero_init_params, xaiver_uniform_init_params or load_params first"
            if what == "states":
                hint = "call zero_init_states or load_states first"
            text = f"the {what} of the trainer are not set"
            raise LoopwrightError(explain(text, got=", ".join(missing), instead=hint))
        return [value for value in values.values() if value is not None]

    # ------------------------------------------------------------------ runs

    def _arguments(self, values: Any) -> list[Tensor]:
        """The model's arguments for inputs, one or a list."""
        inputs = self._listed(values)
        if len(inputs) != self._input_num:
            got = f"{len(inputs)} inputs"
            raise ValueError(explain(f"the model takes {self._input_num} inputs", got=got))
        params = self._set("parameters", self._params)
        return [*inputs, *params, *self._set("states", self._states)]

    def _listed(self, values: Any) -> list[Tensor]:
        single = not isinstance(values, (list, tuple))
        return [self._array(value) for value in ([values] if single else values)]

    def predict(
        self, *input_instances: np.ndarray[Any, Any] | Sequence[np.ndarray[Any, Any]]
    ) -> Any:
        """The model's outputs for its inputs; the states stay."""
        single = len(input_instances) == 1
        outputs = self.vm[BACKBONE](
            *self._arguments(input_instances[0] if single else input_instances)
        )
        if not self._states:
            return outputs
        predictions = list(outputs)[: -len(self._states)]
        return predictions[0] if len(predictions) == 1 else predictions

    def update(
        self,
        input_instances: np.ndarray[Any, Any] | list[np.ndarray[Any, Any]],
        targets: np.ndarray[Any, Any] | list[np.ndarray[Any, Any]],
    ) -> Tensor:
        """One step: the loss of the inputs, one or a list, before the parameters are changed.

        targets: the arguments of the loss besides the predictions, one or a list.
        """
        arguments = [*self._arguments(input_instances), *self._listed(targets)]
        results, gradients = self.vm[ADJOINT](*arguments)
        loss, *states = results if isinstance(results, (list, tuple)) else [results]
        self._states = dict(zip(self._states, states, strict=True))
        params = self._set("parameters", self._params)
        new, self._optim_states = self.vm[OPTIMIZER](params, gradients, self._optim_states)
        self._params = dict(zip(self._params, new, strict=True))
        return loss

    def profile_adjoint(self, input_instances: Sequence[Any], targets: Sequence[Any]) -> Any:
        """The times of the steps of the function that computes loss and gradients."""
        arguments = [*self._arguments(input_instances), *self._listed(targets)]
        return self.vm.profile(ADJOINT, *arguments)


def _shape(var: Var) -> list[int]:
    return [int(d) for d in var.struct_info.get_shape()]
