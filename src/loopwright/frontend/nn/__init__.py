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
from .effects import IOEffect
from .exporter import Exporter, add_extern
from .kernel_op import ExternModule
from .modules import *
from .op import *
from .sharding import ShardSingleDim, shard_params
from .subroutine import SubroutineMixin
from .visitor import Mutator
