"""Helpers to attach losses and gradients to models."""

from ..relax.te_gradient import register_te_gradient  # noqa: F401
from ..relax_transform.append_loss import AppendLoss  # noqa: F401
