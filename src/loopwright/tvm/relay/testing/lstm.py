"""A network of long short-term memory cells, one for each step. Reference: Hochreiter and Schmidhuber,
"Long Short-Term Memory", 1997."""

from __future__ import annotations

from typing import Any

from .. import op
from ..expr import Call, Function, Let, Tuple, TupleGetItem, Var, var
from ..types import TensorType, TupleType
from ..walk import free_vars
from . import layers
from .init import workload_of


def lstm_cell(
    num_hidden: int, batch_size: int = 1, dtype: str = "float32", name: str = ""
) -> Function:
    """One step: (inputs, (h, c), weights and biases) -> (h, (h, c)). inputs, h and c are (batch_size, num_hidden);
    the gates are in the order input, forget, candidate, output."""
    state = TensorType((batch_size, num_hidden), dtype)
    weight = TensorType((4 * num_hidden, num_hidden), dtype)
    bias = TensorType((4 * num_hidden,), dtype)
    inputs, states = Var("inputs", state), Var("states", TupleType([state, state]))
    weights: dict[str, tuple[Any, list[Any]]] = {
        "i2h": (inputs, [Var("i2h_weight", weight), Var("i2h_bias", bias)])
    }
    previous = TupleGetItem(states, 0)
    weights["h2h"] = (previous, [Var("h2h_weight", weight), Var("h2h_bias", bias)])
    sums = [layers.dense_add_bias(x, *w, units=4 * num_hidden) for x, w in weights.values()]
    parts = op.split(op.add(*sums), indices_or_sections=4, axis=1)
    in_gate, forget_gate = parts[0], parts[1]
    candidate, out_gate = op.tanh(parts[2]), op.sigmoid(parts[3])
    c = op.sigmoid(forget_gate) * TupleGetItem(states, 1) + op.sigmoid(in_gate) * candidate
    h = out_gate * op.tanh(c)
    result = TupleType([state, TupleType([state, state])])
    params = [inputs, states, *(p for _, pair in weights.values() for p in pair)]
    return Function(params, Tuple([h, Tuple([h, c])]), result)


def get_net(
    iterations: int, num_hidden: int, batch_size: int = 1, dtype: str = "float32"
) -> Function:
    """The last step's state; each step reads a variable "data" of its own."""
    shape = (batch_size, num_hidden)
    zeros = op.zeros(shape, dtype)
    weight_shape = (4 * num_hidden, num_hidden)
    weights = [
        var(f"{side}_{part}", shape=weight_shape[:rank], dtype=dtype)
        for side in ("i2h", "h2h") for part, rank in (("weight", 2), ("bias", 1))
    ]  # fmt: skip
    cell = Var("cell")
    states: Any = Tuple([zeros, zeros])
    out: Any = zeros
    for _ in range(iterations):
        call = Call(cell, [var("data", shape=shape, dtype=dtype), states, *weights])
        out, states = TupleGetItem(call, 0), TupleGetItem(call, 1)
    body = Let(cell, lstm_cell(num_hidden, batch_size, dtype), out)
    return Function(free_vars(body), body)


get_workload = workload_of(get_net)
