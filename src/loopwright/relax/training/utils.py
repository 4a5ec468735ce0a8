"""What losses and gradients are attached to models with."""

from ..op.te_gradient import register_te_gradient
from ..transform.train.append_loss import AppendLoss

__all__ = ["AppendLoss", "register_te_gradient"]
