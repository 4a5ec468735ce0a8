"""Builders of the operators `builtin.*`.

Made by `python -m tools.make_stubs`.
"""

from loopwright.relax.op.storage import (
    builtin_alloc_tensor as _builtin_alloc_tensor, stop_lift_params as stop_lift_params,
)

alloc_tensor = _builtin_alloc_tensor
