"""Tensor intrinsics of processors without a code generator: tensor cores of NVIDIA's
and AMD's GPUs, Hexagon's vector unit. Schedules that use them can be built and printed."""

from . import cuda as cuda
from . import hexagon as hexagon
from . import rocm as rocm
