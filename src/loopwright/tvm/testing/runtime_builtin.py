"""The codes of the actions of `vm.builtin.make_shape` and `match_shape`."""

from __future__ import annotations

from enum import IntEnum

from ...runtime.vm import builtins


class MakeShapeCode(IntEnum):
    """Where a dimension comes from: a number, or a cell of the heap."""

    USE_IMM = builtins.USE_IMM
    LOAD_SHAPE = builtins.LOAD


class MatchShapeCode(IntEnum):
    """The action on a dimension: compared with a number or a cell, stored, or left."""

    ASSERT_EQUAL_TO_IMM = builtins.EQUALS_IMM
    STORE_TO_HEAP = builtins.STORE
    NO_OP = builtins.IGNORE
    ASSERT_EQUAL_TO_LOAD = builtins.EQUALS_LOAD
