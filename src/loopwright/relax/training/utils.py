"""Helpers to attach losses and gradients to models."""

from ..op.te_gradient import register_te_gradient  # noqa: F401
from ..transform.train.append_loss import AppendLoss  # noqa: F401
