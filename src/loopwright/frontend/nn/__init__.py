"""`nn`: models written as Python classes, exported as graph functions.

from loopwright.frontend import nn
"""

from . import core, effects, exporter, modules, op, spec, subroutine, torch, visitor
from .core import (
    Effect,
    Module,
    ModuleDict,
    ModuleList,
    Object,
    Parameter,
    Tensor,
    get_default_dtype,
    set_default_dtype,
    wrap_nested,
)
from .exporter import Exporter, add_extern
from .kernel_op import ExternModule
from .modules import (
    GELU,
    Attention,
    Conv1D,
    Conv2D,
    Conv3D,
    ConvTranspose1D,
    Embedding,
    GroupNorm,
    Identity,
    IOEffect,
    KVCache,
    LayerNorm,
    Linear,
    ReLU,
    RMSNorm,
    SiLU,
    TimestepEmbedding,
    Timesteps,
)
from .op import *
from .subroutine import SubroutineMixin
from .visitor import Mutator
