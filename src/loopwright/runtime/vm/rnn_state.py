"""Recurrent states of the sequences of a batch: of each layer, a tensor for each kind of state.

The storage of a state is (sequence's slot, version, ...): each call of the model writes the next version of a
sequence's state, and the last `history - 1` calls of one token can be taken back. The functions `vm.builtin.kv_state_*`
serve these states, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...base.errors import LoopwrightError, explain
from ..tensor import Tensor
from .builtins import builtin, view_of
from .kv_state import Sequences
from .values import VMValueError, arrive


class VMStateError(LoopwrightError, RuntimeError):
    """An operation that a sequence's state does not allow now."""


@dataclass
class _Slot:
    """Where a sequence's states are: its slot, the current version, and how many calls can be taken back."""

    slot: int
    version: int = 0
    back: int = 0


class RNNState(Sequences):
    """States by layer and kind. gets, sets: of each kind the kernels (storage, slots, versions, data)."""

    def __init__(
        self, layers: int, batch: int, history: int, gets: Sequence[Any], sets: Sequence[Any],
        initial: Sequence[Any],
    ) -> None:  # fmt: skip
        super().__init__(batch)
        if history < 1 or not len(gets) == len(sets) == len(initial):
            what = "a state has a version or more, and of each kind two kernels and a first value"
            got = f"{history} versions, {len(gets)}, {len(sets)} kernels, {len(initial)} values"
            raise VMValueError(explain(what, got=got))
        self.history, self.gets, self.sets = history, gets, sets
        self.initial = [view_of(value) for value in initial]
        self.arrays = [
            [np.zeros((batch, history, *v.shape), v.dtype) for v in self.initial]
            for _ in range(layers)
        ]
        self.storages = [[arrive(array) for array in of] for of in self.arrays]
        self.clear()

    def clear(self) -> None:
        """Forget all sequences."""
        self.free = list(range(self.batch))[::-1]
        self.sequences = {}
        self.numbers: list[int] = []
        self.lengths: list[int] = []

    def add(self, number: int) -> None:
        """A new sequence, in the first state."""
        self.check_free(number)
        slot = self.free.pop()
        self.sequences[number] = _Slot(slot)
        for of in self.arrays:
            for array, value in zip(of, self.initial, strict=True):
                array[slot, 0] = value

    def remove(self, number: int) -> None:
        """Its slot is free."""
        self.free.append(self.sequence(number).slot)
        del self.sequences[number]

    def fork(self, parent: int, child: int, position: int) -> None:
        """A sequence in the state of another. Raises VMValueError for an earlier position than the last."""
        source = self.sequence(parent)
        if position >= 0:
            what = "a recurrent state is forked where it is"
            raise VMValueError(explain(what, got=f"position {position}", instead="-1"))
        self.check_free(child)
        slot = self.free.pop()
        self.sequences[child] = _Slot(slot, source.version, source.back)
        for of in self.arrays:
            for array in of:
                array[slot] = array[source.slot]

    def popn(self, number: int, count: int) -> None:
        """Take back calls of one token. Raises VMStateError where their states are gone."""
        sequence = self.sequence(number)
        if not 0 <= count <= sequence.back:
            what = f"of sequence {number} {sequence.back} calls can be taken back"
            raise VMStateError(explain(what, got=count))
        sequence.back -= count
        sequence.version = (sequence.version - count) % self.history

    def begin(
        self, numbers: Sequence[int], lengths: Sequence[int], parents: Sequence[int] | None = None
    ) -> None:
        """The next call has tokens of these sequences. Raises VMValueError for trees of tokens."""
        chain = [k - 1 for length in lengths for k in range(length)]
        if parents is not None and list(parents) != chain:
            what = "a recurrent state takes a chain of tokens"
            raise VMValueError(explain(what, got=f"the parents {list(parents)}"))
        self.numbers, self.lengths = list(numbers), list(lengths)
        of = [self.sequence(number) for number in numbers]
        tables = ([s.slot for s in of], [s.version for s in of])
        self.tables = [arrive(np.array(table, np.int32)) for table in tables]

    def end(self) -> None:
        """The states that were set are the current ones."""
        for number, length in zip(self.numbers, self.lengths, strict=True):
            sequence = self.sequence(number)
            sequence.version = (sequence.version + 1) % self.history
            sequence.back = 0 if length > 1 else min(sequence.back + 1, self.history - 1)
        self.numbers, self.lengths = [], []

    def access(self, kernels: Sequence[Any], layer: int, kind: int, data: Any) -> None:
        """Call a kernel on a state of the call's sequences."""
        if not self.numbers:
            hint = "vm.builtin.kv_state_begin_forward"
            raise VMStateError(explain("no call of the model has begun", instead=hint))
        kernels[kind](self.storages[layer][kind], *self.tables, data)

    def current(self, layer: int, kind: int, number: int) -> np.ndarray:
        """The current state of a sequence."""
        sequence = self.sequence(number)
        return self.arrays[layer][kind][sequence.slot, sequence.version]


@builtin("rnn_state_create")
def create(
    layers: int, batch: int, history: int, gets: Sequence[Any], sets: Sequence[Any],
    initial: Sequence[Any],
) -> RNNState:  # fmt: skip
    """States of at most `batch` sequences, `history` versions each."""
    return RNNState(layers, batch, history, gets, sets, initial)


@builtin("rnn_state_get")
def get(state: RNNState, layer: int, kind: int, out: Any) -> None:
    """Write a state of the call's sequences to `out`."""
    state.access(state.gets, layer, kind, out)


@builtin("rnn_state_set")
def set_(state: RNNState, layer: int, kind: int, data: Any) -> RNNState:
    """Keep the next version of a state of the call's sequences."""
    state.access(state.sets, layer, kind, data)
    return state


@builtin("rnn_state_debug_get")
def debug_get(state: RNNState, layer: int, kind: int, number: int) -> Any:
    """A copy of the current state of a sequence."""
    return arrive(Tensor(state.current(layer, kind, number).copy()))
