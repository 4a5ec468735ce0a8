"""Targets: one file each, with its record (`base.TargetBackend`) and pipelines; byoc/: external
code generators."""

from ..base.late import late_names as _late_names
from ..base.late import public_names as _public_names

__getattr__ = _late_names(__name__)  # imported on first access
__dir__ = _public_names(__name__)
