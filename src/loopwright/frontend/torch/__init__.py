"""PyTorch: exported programs become IRModules, and `torch.compile` runs on Loopwright.

Nothing here imports torch before it is used: install the extra `torch`.
"""

from ...base.late import late_names, public_names
from .reports import report as report

__getattr__ = late_names(__name__)
__dir__ = public_names(__name__)
