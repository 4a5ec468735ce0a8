"""`nn`: models written as Python classes, exported as graph functions.

from loopwright.frontend import nn
"""

from ...base.examples import add_examples as _add_examples
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

_add_examples(
    globals(),
    'x = nn.Tensor.placeholder([2, 4], "float32")',
    """
    nn.get_default_dtype()  # 'float32'
    nn.set_default_dtype("float32")
    wrap_nested: nn.wrap_nested(relax.op.negative(x._expr), "minus")  # Tensor([2, 4], "float32")
    Tensor: (x + 1).shape, x.dtype, x.ndim  # ([2, 4], 'float32', 2)
    nn.Parameter([4, "n"])  # Tensor([4, n], "float32")
    ModuleList: [p for p, _ in nn.ModuleList([nn.Linear(4, 8)]).named_parameters()]  # ['0.weight', '0.bias']
    ModuleDict: nn.ModuleDict({"up": nn.ReLU()})["up"](x)  # Tensor([2, 4], "float32")
    Object: nn.Object(_expr=relax.Var("cache", relax.ObjectStructInfo()), _name="cache")._expr  # cache
    Effect: isinstance(nn.KVCache(16, [2, 4]), nn.Effect)  # True
    IOEffect: isinstance(nn.IOEffect(), nn.Effect)  # True
    """,
)
