"""The sequences of a batch at run time: the base of paged caches and of recurrent states, and the functions that
change either."""

from __future__ import annotations

from typing import Any

from ...base.errors import explain
from .builtins import builtin
from .values import VMValueError


class Sequences:
    """What caches and recurrent states share: a table of at most `batch` sequences."""

    def __init__(self, batch: int) -> None:
        self.batch = batch
        self.sequences: dict[int, Any] = {}

    def sequence(self, number: int) -> Any:
        """Raises VMValueError where that number is not in use."""
        if number not in self.sequences:
            got, have = number, sorted(self.sequences) or "none"
            hint = "add it: vm.builtin.kv_state_add_sequence"
            what = f"the cache has no such sequence; it has: {have}"
            raise VMValueError(explain(what, got=got, instead=hint))
        return self.sequences[number]

    def check_free(self, number: int) -> None:
        """Raises VMValueError where no sequence of that number can be added."""
        if number in self.sequences or len(self.sequences) == self.batch:
            what = f"a cache for {self.batch} sequences cannot take this one"
            got = f"{number}; it has: {sorted(self.sequences)}"
            raise VMValueError(explain(what, got=got, instead="remove one, or make a larger cache"))


@builtin("kv_state_clear")
def clear(state: Any) -> None:
    """Forget all sequences."""
    state.clear()


@builtin("kv_state_add_sequence")
def add_sequence(state: Any, number: int) -> None:
    """Add a sequence without tokens."""
    state.add(number)


@builtin("kv_state_remove_sequence")
def remove_sequence(state: Any, number: int) -> None:
    """Remove a sequence; its pages are free."""
    state.remove(number)


@builtin("kv_state_fork_sequence")
def fork_sequence(state: Any, parent: int, child: int, position: int = -1) -> None:
    """Add a sequence that begins as another does, up to a position (-1: all of it)."""
    state.fork(parent, child, position)


@builtin("kv_state_popn")
def popn(state: Any, number: int, count: int) -> None:
    """Take the last tokens off a sequence."""
    state.popn(number, count)


@builtin("kv_state_begin_forward")
def begin_forward(state: Any, numbers: Any, lengths: Any, parents: Any = None) -> None:
    """Say which sequences, and how many tokens of each, the next call of the model is about. parents: of each token
    in a tree of tokens."""
    state.begin(tuple(numbers), tuple(lengths), None if parents is None else tuple(parents))


@builtin("kv_state_end_forward")
def end_forward(state: Any) -> None:
    """The call is done: its tokens are in the cache."""
    state.end()
