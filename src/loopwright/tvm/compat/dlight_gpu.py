"""`dlight.gpu`: TVM's rules for GPUs, which decline functions for CPUs: `ApplyDefaultSchedule` then takes ours."""

from __future__ import annotations

from ...base.errors import explain
from ...ir.target import Target
from ...tir.function import PrimFunc


class GPUScheduleRule:
    """A rule for GPUs, which have no schedules here: it raises ValueError for a function of such a target."""

    def __call__(self, func: PrimFunc, target: Target) -> None:
        if "gpu" in target.keys:
            what = f"GPUs have no default schedules ({type(self).__name__})"
            raise ValueError(explain(what, got=str(target), instead="schedule the function"))


_NAMES = (
    "Fallback",
    "GEMV",
    "GeneralReduction",
    "LowBatchGEMV",
    "Matmul",
    "RMSNorm",
    "Reduction",
    "Transpose",
)
for _name in _NAMES:
    globals()[_name] = type(_name, (GPUScheduleRule,), {"__doc__": GPUScheduleRule.__doc__})
