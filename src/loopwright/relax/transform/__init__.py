"""The graph passes, under TVM's names, one file each."""

from . import legalize_ops as legalize_ops
from ._decorators import (
    DataflowBlockPass,
    FunctionPass,
    dataflowblock_pass,
    function_pass,
)
from .fuse.annotate_op_pattern import AnnotateTIROpPattern as AnnotateTIROpPattern
from .fuse.fuse_attention import FuseAttention as FuseAttention
from .fuse.fuse_ops import FuseOps as FuseOps
from .fuse.fuse_ops_by_pattern import FuseOpsByPattern as FuseOpsByPattern
from .fuse.fuse_ops_by_pattern import FusionPattern as FusionPattern
from .fuse.fuse_ops_by_pattern import PatternCheckContext as PatternCheckContext
from .fuse.fuse_tir import FuseTIR as FuseTIR
from .fuse.merge_composite_functions import MergeCompositeFunctions as MergeCompositeFunctions
from .fuse.run_codegen import RunCodegen as RunCodegen
from .graph.bind_params import BindParams as BindParams
from .graph.blocked_layout import BlockedLayout as BlockedLayout
from .graph.byte_products import ByteProducts as ByteProducts
from .graph.byte_tails import ByteTails as ByteTails
from .graph.canonicalize import CanonicalizeBindings as CanonicalizeBindings
from .graph.convert_to_dataflow import ConvertToDataflow as ConvertToDataflow
from .graph.dead_code import DeadCodeElimination as DeadCodeElimination
from .graph.drop_host_copies import DropHostCopies as DropHostCopies
from .graph.eliminate_common_subexpr import EliminateCommonSubexpr as EliminateCommonSubexpr
from .graph.fold_batch_norm import FoldBatchnormToConv2D as FoldBatchnormToConv2D
from .graph.fold_constant import FoldConstant as FoldConstant
from .graph.legalize import LegalizeOps as LegalizeOps
from .graph.lower_matmul_precision import LowerMatmulPrecision as LowerMatmulPrecision
from .graph.mark_constants import MarkConstants as MarkConstants
from .graph.merge_layout_changes import MergeLayoutChanges as MergeLayoutChanges
from .graph.name_dimensions import NameDimensions as NameDimensions
from .graph.name_runtime_shapes import NameRuntimeShapes as NameRuntimeShapes
from .graph.sink_permutes import SinkPermutes as SinkPermutes
from .graph.sink_reshapes import SinkReshapes as SinkReshapes
from .graph.split_layout_rewrite_preproc import (
    SplitLayoutRewritePreproc as SplitLayoutRewritePreproc,
)
from .graph.split_transposed_convolutions import (
    SplitTransposedConvolutions as SplitTransposedConvolutions,
)
from .graph.widen_floats import WidenFloats as WidenFloats
from .graph.winograd_convolutions import WinogradConvolutions as WinogradConvolutions
from .lower.call_tir_rewrite import CallTIRRewrite as CallTIRRewrite
from .lower.graph_to_tir import GraphToTIR as GraphToTIR
from .lower.kill_after_last_use import KillAfterLastUse as KillAfterLastUse
from .lower.lambda_lift import LambdaLift as LambdaLift
from .lower.lower_alloc_tensor import LowerAllocTensor as LowerAllocTensor
from .lower.lower_runtime_builtin import LowerRuntimeBuiltin as LowerRuntimeBuiltin
from .lower.outline_native import OutlineNative as OutlineNative
from .lower.remove_purity_checking import RemovePurityChecking as RemovePurityChecking
from .lower.rewrite_dataflow_reshape import RewriteDataflowReshape as RewriteDataflowReshape
from .lower.static_plan_block_memory import StaticPlanBlockMemory as StaticPlanBlockMemory
from .lower.to_non_dataflow import ToNonDataflow as ToNonDataflow
from .lower.vm_shape_lower import VMShapeLower as VMShapeLower
from .train.append_loss import AppendLoss as AppendLoss
from .train.gradient import Gradient as Gradient
from .tvm.adjust_matmul_order import AdjustMatmulOrder as AdjustMatmulOrder
from .tvm.allocate_workspace import AllocateWorkspace as AllocateWorkspace
from .tvm.alter_op_impl import AlterOpImpl as AlterOpImpl
from .tvm.attach_attr_layout_free_buffers import (
    AttachAttrLayoutFreeBuffers as AttachAttrLayoutFreeBuffers,
)
from .tvm.attach_external_modules import AttachExternModules as AttachExternModules
from .tvm.attach_global_symbol import AttachGlobalSymbol as AttachGlobalSymbol
from .tvm.bind_symbolic_vars import BindSymbolicVars as BindSymbolicVars
from .tvm.bundle_model_params import BundleModelParams as BundleModelParams
from .tvm.combine_parallel_matmul import CombineParallelMatmul as CombineParallelMatmul
from .tvm.compute_prim_value import ComputePrimValue as ComputePrimValue
from .tvm.convert_layout import ConvertLayout as ConvertLayout
from .tvm.dataflow_use_inplace_calls import DataflowUseInplaceCalls as DataflowUseInplaceCalls
from .tvm.decompose_ops_for_inference import DecomposeOpsForInference as DecomposeOpsForInference
from .tvm.decompose_ops_for_training import DecomposeOpsForTraining as DecomposeOpsForTraining
from .tvm.expand_matmul_of_sum import ExpandMatmulOfSum as ExpandMatmulOfSum
from .tvm.expand_tuple_arguments import ExpandTupleArguments as ExpandTupleArguments
from .tvm.fast_math import FastMathTransform as FastMathTransform
from .tvm.fuse_transpose_matmul import FuseTransposeMatmul as FuseTransposeMatmul
from .tvm.inline_private_functions import InlinePrivateFunctions as InlinePrivateFunctions
from .tvm.lazy_get_input import LazyGetInput as LazyGetInput
from .tvm.lazy_set_output import LazySetOutput as LazySetOutput
from .tvm.lazy_transform_params import LazyTransformParams as LazyTransformParams
from .tvm.lift_transform_params import LiftTransformParams as LiftTransformParams
from .tvm.normalize import Normalize as Normalize
from .tvm.normalize_global_var import NormalizeGlobalVar as NormalizeGlobalVar
from .tvm.optimize_layout_transform import OptimizeLayoutTransform as OptimizeLayoutTransform
from .tvm.realize_vdevice import RealizeVDevice as RealizeVDevice
from .tvm.remove_redundant_reshape import RemoveRedundantReshape as RemoveRedundantReshape
from .tvm.remove_unused_outputs import RemoveUnusedOutputs as RemoveUnusedOutputs
from .tvm.remove_unused_parameters import RemoveUnusedParameters as RemoveUnusedParameters
from .tvm.reorder_permute_dims_after_concat import (
    ReorderPermuteDimsAfterConcat as ReorderPermuteDimsAfterConcat,
)
from .tvm.reorder_take_after_matmul import ReorderTakeAfterMatmul as ReorderTakeAfterMatmul
from .tvm.specialize_primfunc_based_on_callsite import (
    SpecializePrimFuncBasedOnCallSite as SpecializePrimFuncBasedOnCallSite,
)
from .tvm.to_mixed_precision import ToMixedPrecision as ToMixedPrecision
from .tvm.topological_sort import TopologicalSort as TopologicalSort
from .tvm.update_param_struct_info import UpdateParamStructInfo as UpdateParamStructInfo
from .tvm.update_vdevice import UpdateVDevice as UpdateVDevice

VMBuiltinLower = LowerRuntimeBuiltin  # TVM's former name
