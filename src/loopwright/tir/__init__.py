"""TensorIR: loops, blocks and buffers."""

from ..ir.prim_expr import *  # noqa: F403
