"""Passes on TensorIR: one file each, whose docstring shows a function before and after. A pass is
loaded when it is first named."""

from ...base.late import late_names as _late_names
from ...base.late import public_names as _public_names
from .pipeline import default_tir_pipeline, finalize, lower_to_loops
from .prim_func_pass import PrimFuncPass, prim_func_pass

__getattr__ = _late_names(__name__)
__dir__ = _public_names(__name__)
