"""Random variables: names for blocks, loops and numbers that stay valid while the program is
rewritten. The schedule maps each to its object (`sch.get(rv)`)."""

from __future__ import annotations

from ....ir.prim_expr import Var


class _Reference:
    __slots__ = ()

    def same_as(self, other: object) -> bool:
        """Whether `other` is this very random variable."""
        return self is other


class LoopRV(_Reference):
    """Refers to a loop."""

    __slots__ = ()


class BlockRV(_Reference):
    """Refers to a block."""

    __slots__ = ()


BlockArg = BlockRV | str  # a block, or its name

# Refers to a number that was sampled: a variable, so that it can be used in expressions.
ExprRV = Var

# Sampled locations that are not loops: stay at the root, or be inlined.
ROOT, INLINE = "root", "inline"
