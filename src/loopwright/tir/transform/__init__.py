"""Passes on TensorIR: one file each, whose docstring shows a function before and after."""

from .compact_buffer_allocation import CompactBufferAllocation
from .convert_blocks_to_opaque import ConvertBlocksToOpaque
from .flatten_buffer import FlattenBuffer
from .loop_partition import LoopPartition
from .lower_init_block import LowerInitBlock
from .lower_intrin import LowerIntrin
from .lower_match_buffer import LowerMatchBuffer
from .lower_opaque_block import LowerOpaqueBlock
from .make_packed_api import MakePackedAPI
from .make_unpacked_api import MakeUnpackedAPI
from .pipeline import default_tir_pipeline, finalize, lower_to_loops
from .plan_and_update_buffer_allocation_location import PlanAndUpdateBufferAllocationLocation
from .prim_func_pass import PrimFuncPass, prim_func_pass
from .remove_no_op import RemoveNoOp
from .simplify import Simplify
from .unroll_loop import UnrollLoop
from .vectorize_loop import VectorizeLoop
