"""TensorIR: scalar expressions, loops, blocks and buffers, under TVM's names.

Passes and schedules are subpackages (`loopwright.tir.transform`, `.schedule`).
"""

from ..base.late import late_names as _late_names
from ..base.late import public_names as _public_names
from ..ir.op import CallEffectKind as CallEffectKind
from ..ir.op import Op as Op
from ..ir.prim_expr import *
from ..ir.prim_expr import PointerType as PointerType
from ..ir.prim_expr import PrimType as PrimType
from ..ir.prim_op import add as add
from ..ir.prim_op import cast as cast
from ..ir.prim_op import convert as convert
from ..ir.prim_op import div as divide
from ..ir.prim_op import subtract as subtract
from ..ir.prim_op import vscale as vscale
from . import analysis as analysis
from . import ir_builder as ir_builder
from . import stmt_functor as stmt_functor
from .buffer import Buffer as Buffer
from .buffer import BufferRegion as BufferRegion
from .buffer import DataProducer as DataProducer
from .buffer import decl_buffer as decl_buffer
from .data_layout import BijectiveLayout as BijectiveLayout
from .data_layout import Layout as Layout
from .data_layout import bijective_layout as bijective_layout
from .data_layout import layout as layout
from .expr import BufferLoad as BufferLoad
from .expr import CommReducer as CommReducer
from .expr import ProducerLoad as ProducerLoad
from .expr import Reduce as Reduce
from .function import PrimFunc as PrimFunc
from .function import TensorIntrin as TensorIntrin
from .index_map import IndexMap as IndexMap
from .op import *
from .op_target import *
from .reduction import comm_reducer as comm_reducer
from .reduction import max as max
from .reduction import min as min
from .reduction import sum as sum
from .stmt import *
from .stmt import stmt_list as stmt_list
from .stmt import stmt_seq as stmt_seq

# After everything that they depend on, and `const` after that of `.op`.
from ..ir.prim_op import literal as const  # isort: skip
from . import tensor_intrin as tensor_intrin  # isort: skip
from . import schedule as schedule  # isort: skip
from .schedule import BlockRV as BlockRV  # isort: skip
from .schedule import BlockScope as BlockScope  # isort: skip
from .schedule import LoopRV as LoopRV  # isort: skip
from .schedule import Schedule as Schedule  # isort: skip
from .schedule import ScheduleError as ScheduleError  # isort: skip
from .schedule import ScheduleState as ScheduleState  # isort: skip
from . import transform as transform  # isort: skip

__getattr__ = _late_names(__name__)  # `build`: TVM's name here for a function of a higher layer
__dir__ = _public_names(__name__)
