"""Recurrent states of several sequences, with kernels in Python."""

from __future__ import annotations

import numpy as np
import pytest

from loopwright.runtime import ShapeTuple, get_global_func, tensor

VERSIONS = 3


def get(storage, slots, versions, out):
    out.view()[:] = storage.view()[slots.numpy(), versions.numpy()]


def keep(storage, slots, versions, data):
    storage.view()[slots.numpy(), (versions.numpy() + 1) % VERSIONS] = data.numpy()


def call(name, *args):
    return get_global_func(f"vm.builtin.{name}")(*args)


@pytest.fixture
def state():
    first = [tensor(np.full((2, 3), 7, np.float32)), tensor(np.zeros(4, np.int32))]
    return call("rnn_state_create", 2, 3, VERSIONS, [get, get], [keep, keep], first)


def step(state, numbers, value, tokens=1):
    call("kv_state_begin_forward", state, ShapeTuple(numbers), ShapeTuple([tokens] * len(numbers)))
    call("rnn_state_set", state, 1, 0, tensor(np.full((len(numbers), 2, 3), value, np.float32)))
    call("kv_state_end_forward", state)


def current(state, number):
    return call("rnn_state_debug_get", state, 1, 0, number).numpy()[0, 0]


def test_states_are_set_forked_and_taken_back(state):
    for number in (4, 9):
        call("kv_state_add_sequence", state, number)
    step(state, [9], 1)
    step(state, [9, 4], 2)
    assert (current(state, 4), current(state, 9)) == (2, 2)
    call("kv_state_fork_sequence", state, 9, 5)
    call("kv_state_popn", state, 9, 1)
    assert (current(state, 9), current(state, 5)) == (1, 2)
    out = tensor(np.zeros((2, 2, 3), np.float32))
    call("kv_state_begin_forward", state, ShapeTuple([5, 9]), ShapeTuple([1, 1]))
    call("rnn_state_get", state, 1, 0, out)
    assert out.numpy()[:, 0, 0].tolist() == [2, 1]
    call("kv_state_remove_sequence", state, 5)
    call("kv_state_add_sequence", state, 6)
    assert current(state, 6) == 7


def test_what_states_refuse(state):
    call("kv_state_add_sequence", state, 0)
    step(state, [0], 1)
    with pytest.raises(RuntimeError, match="1 calls can be taken back"):
        call("kv_state_popn", state, 0, 2)
    step(state, [0], 2, tokens=5)
    with pytest.raises(RuntimeError, match="0 calls can be taken back"):
        call("kv_state_popn", state, 0, 1)
    with pytest.raises(RuntimeError, match="no call of the model has begun"):
        call("rnn_state_get", state, 0, 0, tensor(np.zeros((1, 2, 3), np.float32)))
    with pytest.raises(ValueError, match="forked where it is"):
        call("kv_state_fork_sequence", state, 0, 1, 1)
    with pytest.raises(ValueError, match="a chain of tokens"):
        parents = ShapeTuple([-1, -1])
        call("kv_state_begin_forward", state, ShapeTuple([0]), ShapeTuple([2]), parents)
    with pytest.raises(ValueError, match="of each kind two kernels"):
        call("rnn_state_create", 1, 1, 1, [get], [], [tensor(np.zeros(1))])
