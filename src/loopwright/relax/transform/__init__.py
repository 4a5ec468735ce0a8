"""The graph passes, under TVM's names, one file each; a pass is loaded when it is first named."""

from ...base.late import late_names as _late_names
from ...base.late import public_names as _public_names
from . import legalize_ops as legalize_ops
from .decorators import DataflowBlockPass, FunctionPass, dataflowblock_pass, function_pass

__getattr__ = _late_names(__name__)
__dir__ = _public_names(__name__)
