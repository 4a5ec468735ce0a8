"""Optimizers, as graph functions: (parameters, gradients, state) -> (parameters, state).

sgd = SGD(0.1).init([w, b])
function = sgd.get_function()
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import numpy as np

from ...base.errors import explain
from ...ir.prim_expr import IntImm
from ...relax import op as R
from ...relax.block_builder import BlockBuilder
from ...relax.expr import Constant, Expr, Function, Tuple, Var, const
from ...relax.struct_info import TensorStructInfo, TupleStructInfo
from ...runtime import Tensor, tensor


class Optimizer:
    """Base of optimizers. A subclass has `shared`, the initial values of the state that all parameters
    share, `slots`, the names of the state of each parameter, starting at 0, and `step`.

    After `init`: param_list, dtype, and state, the tensors that the function takes first: the
    number of steps, the shared state, then each slot of all parameters.
    """

    shared: Sequence[float] = ()
    slots: Sequence[str] = ()

    def __init__(self, name: str, weight_decay: float = 0) -> None:
        self.name = name
        self.weight_decay = float(weight_decay)
        self.param_list: list[Var] = []
        self.dtype = ""
        self.state: tuple[Tensor, ...] = ()

    def init(self, params: Var | Sequence[Var]) -> Any:
        """Set the parameters to optimize; returns the optimizer. Raises ValueError unless these are different
        tensors of one float type and of known shapes."""
        listed = [params] if isinstance(params, Var) else params
        if not isinstance(listed, (list, tuple)):
            got = f"{type(listed).__name__}"
            raise ValueError(explain("an optimizer takes a list of variables", got=got))
        for k, var in enumerate(listed):
            self._check(var, listed[0])
            if any(var is other for other in listed[:k]):
                what = "a parameter is given twice to an optimizer"
                raise ValueError(explain(what, got=var.name_hint))
        self.param_list = list(listed)
        self.dtype = str(listed[0].struct_info.dtype) if listed else "float32"
        zeros = [np.zeros(_shape(p), self.dtype) for _ in self.slots for p in listed]
        numbers = [np.asarray(v, self.dtype) for v in self.shared]
        self.state = tuple(map(tensor, [np.asarray(0, "int64"), *numbers, *zeros]))
        return self

    def _check(self, var: Expr, first: Expr) -> None:
        info = getattr(var, "struct_info", None)
        what = "an optimizer takes variables that are tensors"
        if not isinstance(var, Var) or not isinstance(info, TensorStructInfo):
            raise ValueError(explain(what, got=f"{var} with {info}"))
        if not info.dtype.is_float or info.dtype != first.struct_info.dtype:
            got = f"{var.name_hint} with {info}"
            raise ValueError(explain(f"{what} of one float type", got=got))
        if not all(isinstance(d, IntImm) for d in info.get_shape() or (None,)):
            if info.ndim:
                what = f"{what} of known shapes"
                raise ValueError(explain(what, got=f"{var.name_hint} with {info}"))

    def get_function(self) -> Function:
        """The function. Raises RuntimeError before `init`."""
        if not self.state:
            what = "Please call init() for the optimizer before calling get_function()"
            raise RuntimeError(what)
        tensors = TupleStructInfo([p.struct_info for p in self.param_list])
        of_state = [TensorStructInfo(s.shape, s.dtype) for s in self.state]
        params, gradients = Var("params", tensors), Var("gradients", tensors)
        states = Var("optim_states", TupleStructInfo(of_state))
        bb = BlockBuilder()
        with bb.function(self.name, [params, gradients, states]):
            with bb.dataflow():
                steps = bb.emit(states[0], "num_steps")
                heads = [bb.emit(R.add(steps, const(1, "int64")), "num_steps_new")]
                heads += self.common(bb, states)
                updated: list[list[Var]] = []
                for k, param in enumerate(self.param_list):
                    name, count = param.name_hint, len(self.param_list)
                    indices = range(len(heads) + k, len(self.state), count)
                    var = bb.emit(params[k], name)
                    grad = bb.emit(gradients[k], f"{name}_grad")
                    slots = [
                        bb.emit(states[at], f"{name}_{slot}")
                        for at, slot in zip(indices, self.slots, strict=True)
                    ]
                    if self.weight_decay:
                        decayed = R.add(R.multiply(self.number(self.weight_decay), var), grad)
                        grad = bb.emit(decayed, f"{name}_grad_new")
                    updated.append(self.step(bb, name, var, grad, *slots, *heads[1:]))
                first, *others = (
                    zip(*updated, strict=True) if updated else ([], *([] for _ in self.slots))
                )
                new_params = bb.emit_output(Tuple(first), "params_new")
                new = Tuple([*heads, *(var for slot in others for var in slot)])
                new_state = bb.emit_output(new, "optim_states_new")
            gvar = bb.emit_func_output(Tuple([new_params, new_state]))
        return bb.get()[gvar]

    def number(self, value: float) -> Constant:
        """A constant of the parameters' type."""
        return const(value, self.dtype)

    def common(self, bb: BlockBuilder, states: Var) -> list[Var]:
        """Emit the new values of the shared state."""
        return []

    def step(self, bb: BlockBuilder, name: str, var: Var, grad: Var, *state: Var) -> list[Var]:
        """Emit the new values of a parameter and of its slots; `state` are the slots, then the shared
        state."""
        raise NotImplementedError

    def moved(self, bb: BlockBuilder, name: str, var: Var, direction: Expr, lr: float) -> Var:
        """Emit var - lr * direction."""
        return bb.emit(R.subtract(var, R.multiply(self.number(lr), direction)), f"{name}_new")


class SGD(Optimizer):
    """param -= lr * (grad + weight_decay * param)"""

    def __init__(self, lr: float, weight_decay: float = 0) -> None:
        super().__init__("SGD", weight_decay)
        self.lr = float(lr)

    def step(self, bb: BlockBuilder, name: str, var: Var, grad: Var, *state: Var) -> list[Var]:
        return [self.moved(bb, name, var, grad, self.lr)]


class MomentumSGD(Optimizer):
    """v = momentum * v + (1 - dampening) * grad; param -= lr * v, with `nesterov` lr * (grad +
    momentum * v); weight_decay * param is added to the gradient first."""

    slots = ("v",)

    def __init__(
        self,
        lr: float,
        momentum: float,
        dampening: float = 0,
        weight_decay: float = 0,
        nesterov: bool = False,
    ) -> None:
        super().__init__("MomentumSGD", weight_decay)
        self.lr, self.momentum = float(lr), float(momentum)
        self.dampening, self.nesterov = float(dampening), nesterov

    def step(self, bb: BlockBuilder, name: str, var: Var, grad: Var, *state: Var) -> list[Var]:
        (speed,) = state
        momentum = self.number(self.momentum)
        gain = R.multiply(self.number(_rest(self.dampening)), grad) if self.dampening else grad
        speed = bb.emit(R.add(R.multiply(momentum, speed), gain), f"{name}_v_new")
        ahead = speed
        if self.nesterov:
            ahead = bb.emit(R.add(grad, R.multiply(momentum, speed)), f"{name}_g_nest")
        return [self.moved(bb, name, var, ahead, self.lr), speed]


class Adam(Optimizer):
    """Adam, of Kingma and Ba, "Adam: A Method for Stochastic Optimization"; weight_decay * param is
    added to the gradient first. Shared are the powers of the betas."""

    shared = (1.0, 1.0)
    slots = ("m", "v")

    def __init__(
        self,
        lr: float,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-08,
        weight_decay: float = 0,
    ) -> None:
        super().__init__("Adam", weight_decay)
        self.lr, self.betas, self.eps = float(lr), betas, float(eps)

    def common(self, bb: BlockBuilder, states: Var) -> list[Var]:
        return [
            bb.emit(R.multiply(states[k], self.number(beta)), f"beta{k}_prod")
            for k, beta in enumerate(self.betas, 1)
        ]

    def step(self, bb: BlockBuilder, name: str, var: Var, grad: Var, *state: Var) -> list[Var]:
        square = R.multiply(grad, grad)
        moments, corrected = [], []
        for slot, value, old, beta in zip("mv", (grad, square), state[:2], self.betas, strict=True):
            gain = R.multiply(self.number(_rest(beta)), value)
            new = R.add(R.multiply(self.number(beta), old), gain)
            moments.append(bb.emit(new, f"{name}_{slot}_new"))
        for slot, moment, power in zip("mv", moments, state[2:], strict=True):
            full = R.divide(moment, R.subtract(self.number(1), power))
            corrected.append(bb.emit(full, f"{name}_{slot}_hat"))
        root = R.add(R.sqrt(corrected[1]), self.number(self.eps))
        return [self.moved(bb, name, var, R.divide(corrected[0], root), self.lr), *moments]


def _rest(value: float) -> float:
    """1 - value of the decimal number that was written: 0.2 for 0.8."""
    return float(1 - Decimal(str(value)))


def _shape(var: Var) -> list[int]:
    return [int(d) for d in var.struct_info.get_shape()]
