"""Helpers to attach losses and gradients to models."""

from ..op.te_gradient import register_te_gradient
from ..transform.train.append_loss import AppendLoss

__all__ = ["AppendLoss", "register_te_gradient"]
