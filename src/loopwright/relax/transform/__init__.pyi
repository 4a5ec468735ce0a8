"""The graph passes, under TVM's names, one file each; a pass is loaded when it is first named.

Made by `python -m tools.make_stubs`.
"""

from collections.abc import Callable as _Callable, Iterable as _Iterable
from loopwright.relax.transform import legalize_ops as legalize_ops
from loopwright.relax.transform.decorators import (
    DataflowBlockPass as DataflowBlockPass, FunctionPass as FunctionPass,
)
from loopwright.relax.transform.fuse.annotate_op_pattern import (
    AnnotateTIROpPattern as AnnotateTIROpPattern,
)
from loopwright.relax.transform.fuse.fuse_attention import FuseAttention as FuseAttention
from loopwright.relax.transform.fuse.fuse_ops import FuseOps as FuseOps
from loopwright.relax.transform.fuse.fuse_ops_by_pattern import (
    FuseOpsByPattern as FuseOpsByPattern, FusionPattern as FusionPattern,
    PatternCheckContext as PatternCheckContext,
)
from loopwright.relax.transform.fuse.fuse_tir import FuseTIR as FuseTIR
from loopwright.relax.transform.fuse.merge_composite_functions import (
    MergeCompositeFunctions as MergeCompositeFunctions,
)
from loopwright.relax.transform.fuse.run_codegen import RunCodegen as RunCodegen
from loopwright.relax.transform.graph.bind_params import BindParams as BindParams
from loopwright.relax.transform.graph.blocked_layout import BlockedLayout as BlockedLayout
from loopwright.relax.transform.graph.byte_products import ByteProducts as ByteProducts
from loopwright.relax.transform.graph.byte_tails import ByteTails as ByteTails
from loopwright.relax.transform.graph.canonicalize import (
    CanonicalizeBindings as CanonicalizeBindings,
)
from loopwright.relax.transform.graph.convert_to_dataflow import (
    ConvertToDataflow as ConvertToDataflow,
)
from loopwright.relax.transform.graph.convolutions_as_products import (
    ConvolutionsAsProducts as ConvolutionsAsProducts,
)
from loopwright.relax.transform.graph.dead_code import DeadCodeElimination as DeadCodeElimination
from loopwright.relax.transform.graph.drop_host_copies import DropHostCopies as DropHostCopies
from loopwright.relax.transform.graph.eliminate_common_subexpr import (
    EliminateCommonSubexpr as EliminateCommonSubexpr,
)
from loopwright.relax.transform.graph.fold_batch_norm import (
    FoldBatchnormToConv2D as FoldBatchnormToConv2D,
)
from loopwright.relax.transform.graph.fold_constant import FoldConstant as FoldConstant
from loopwright.relax.transform.graph.legalize import LegalizeOps as LegalizeOps
from loopwright.relax.transform.graph.lower_matmul_precision import (
    LowerMatmulPrecision as LowerMatmulPrecision,
)
from loopwright.relax.transform.graph.mark_constants import MarkConstants as MarkConstants
from loopwright.relax.transform.graph.merge_layout_changes import (
    MergeLayoutChanges as MergeLayoutChanges,
)
from loopwright.relax.transform.graph.name_dimensions import NameDimensions as NameDimensions
from loopwright.relax.transform.graph.name_runtime_shapes import (
    NameRuntimeShapes as NameRuntimeShapes,
)
from loopwright.relax.transform.graph.sink_permutes import SinkPermutes as SinkPermutes
from loopwright.relax.transform.graph.sink_reshapes import SinkReshapes as SinkReshapes
from loopwright.relax.transform.graph.split_layout_rewrite_preproc import (
    SplitLayoutRewritePreproc as SplitLayoutRewritePreproc,
)
from loopwright.relax.transform.graph.split_transposed_convolutions import (
    SplitTransposedConvolutions as SplitTransposedConvolutions,
)
from loopwright.relax.transform.graph.widen_floats import WidenFloats as WidenFloats
from loopwright.relax.transform.graph.winograd_convolutions import (
    WinogradConvolutions as WinogradConvolutions,
)
from loopwright.relax.transform.lower.call_tir_rewrite import CallTIRRewrite as CallTIRRewrite
from loopwright.relax.transform.lower.graph_to_tir import GraphToTIR as GraphToTIR
from loopwright.relax.transform.lower.kill_after_last_use import (
    KillAfterLastUse as KillAfterLastUse,
)
from loopwright.relax.transform.lower.lambda_lift import LambdaLift as LambdaLift
from loopwright.relax.transform.lower.lower_alloc_tensor import LowerAllocTensor as LowerAllocTensor
from loopwright.relax.transform.lower.lower_runtime_builtin import (
    LowerRuntimeBuiltin as LowerRuntimeBuiltin,
)
from loopwright.relax.transform.lower.outline_native import OutlineNative as OutlineNative
from loopwright.relax.transform.lower.remove_purity_checking import (
    RemovePurityChecking as RemovePurityChecking,
)
from loopwright.relax.transform.lower.rewrite_dataflow_reshape import (
    RewriteDataflowReshape as RewriteDataflowReshape,
)
from loopwright.relax.transform.lower.static_plan_block_memory import (
    StaticPlanBlockMemory as StaticPlanBlockMemory,
)
from loopwright.relax.transform.lower.to_non_dataflow import ToNonDataflow as ToNonDataflow
from loopwright.relax.transform.lower.vm_shape_lower import VMShapeLower as VMShapeLower
from loopwright.tvm.relax_transform.adjust_matmul_order import (
    AdjustMatmulOrder as AdjustMatmulOrder,
)
from loopwright.tvm.relax_transform.allocate_workspace import AllocateWorkspace as AllocateWorkspace
from loopwright.tvm.relax_transform.alter_op_impl import AlterOpImpl as AlterOpImpl
from loopwright.tvm.relax_transform.append_loss import AppendLoss as AppendLoss
from loopwright.tvm.relax_transform.attach_attr_layout_free_buffers import (
    AttachAttrLayoutFreeBuffers as AttachAttrLayoutFreeBuffers,
)
from loopwright.tvm.relax_transform.attach_external_modules import (
    AttachExternModules as AttachExternModules,
)
from loopwright.tvm.relax_transform.attach_global_symbol import (
    AttachGlobalSymbol as AttachGlobalSymbol,
)
from loopwright.tvm.relax_transform.bind_symbolic_vars import BindSymbolicVars as BindSymbolicVars
from loopwright.tvm.relax_transform.bundle_model_params import (
    BundleModelParams as BundleModelParams,
)
from loopwright.tvm.relax_transform.combine_parallel_matmul import (
    CombineParallelMatmul as CombineParallelMatmul,
)
from loopwright.tvm.relax_transform.compute_prim_value import ComputePrimValue as ComputePrimValue
from loopwright.tvm.relax_transform.convert_layout import ConvertLayout as ConvertLayout
from loopwright.tvm.relax_transform.dataflow_use_inplace_calls import (
    DataflowUseInplaceCalls as DataflowUseInplaceCalls,
)
from loopwright.tvm.relax_transform.decompose_ops_for_inference import (
    DecomposeOpsForInference as DecomposeOpsForInference,
)
from loopwright.tvm.relax_transform.decompose_ops_for_training import (
    DecomposeOpsForTraining as DecomposeOpsForTraining,
)
from loopwright.tvm.relax_transform.expand_matmul_of_sum import (
    ExpandMatmulOfSum as ExpandMatmulOfSum,
)
from loopwright.tvm.relax_transform.expand_tuple_arguments import (
    ExpandTupleArguments as ExpandTupleArguments,
)
from loopwright.tvm.relax_transform.fast_math import FastMathTransform as FastMathTransform
from loopwright.tvm.relax_transform.fuse_transpose_matmul import (
    FuseTransposeMatmul as FuseTransposeMatmul,
)
from loopwright.tvm.relax_transform.gradient import Gradient as Gradient
from loopwright.tvm.relax_transform.inline_private_functions import (
    InlinePrivateFunctions as InlinePrivateFunctions,
)
from loopwright.tvm.relax_transform.lazy_get_input import LazyGetInput as LazyGetInput
from loopwright.tvm.relax_transform.lazy_set_output import LazySetOutput as LazySetOutput
from loopwright.tvm.relax_transform.lazy_transform_params import (
    LazyTransformParams as LazyTransformParams,
)
from loopwright.tvm.relax_transform.lift_transform_params import (
    LiftTransformParams as LiftTransformParams,
)
from loopwright.tvm.relax_transform.normalize import Normalize as Normalize
from loopwright.tvm.relax_transform.normalize_global_var import (
    NormalizeGlobalVar as NormalizeGlobalVar,
)
from loopwright.tvm.relax_transform.optimize_layout_transform import (
    OptimizeLayoutTransform as OptimizeLayoutTransform,
)
from loopwright.tvm.relax_transform.realize_vdevice import RealizeVDevice as RealizeVDevice
from loopwright.tvm.relax_transform.remove_redundant_reshape import (
    RemoveRedundantReshape as RemoveRedundantReshape,
)
from loopwright.tvm.relax_transform.remove_unused_outputs import (
    RemoveUnusedOutputs as RemoveUnusedOutputs,
)
from loopwright.tvm.relax_transform.remove_unused_parameters import (
    RemoveUnusedParameters as RemoveUnusedParameters,
)
from loopwright.tvm.relax_transform.reorder_permute_dims_after_concat import (
    ReorderPermuteDimsAfterConcat as ReorderPermuteDimsAfterConcat,
)
from loopwright.tvm.relax_transform.reorder_take_after_matmul import (
    ReorderTakeAfterMatmul as ReorderTakeAfterMatmul,
)
from loopwright.tvm.relax_transform.specialize_primfunc_based_on_callsite import (
    SpecializePrimFuncBasedOnCallSite as SpecializePrimFuncBasedOnCallSite,
)
from loopwright.tvm.relax_transform.to_mixed_precision import ToMixedPrecision as ToMixedPrecision
from loopwright.tvm.relax_transform.topological_sort import TopologicalSort as TopologicalSort
from loopwright.tvm.relax_transform.update_param_struct_info import (
    UpdateParamStructInfo as UpdateParamStructInfo,
)
from loopwright.tvm.relax_transform.update_vdevice import UpdateVDevice as UpdateVDevice
from typing import Any as _Any

VMBuiltinLower = LowerRuntimeBuiltin
def dataflowblock_pass(pass_func: _Callable[..., _Any] | None = None, opt_level: int | None = None, name: str | None = None, required: _Iterable[str] | None = None, traceable: bool = False) -> _Any: """Makes a pass of a function `f(func, mod, ctx)`, or of a class with such a method `transform_dataflowblock`."""
def function_pass(pass_func: _Callable[..., _Any] | None = None, opt_level: int | None = None, name: str | None = None, required: _Iterable[str] | None = None, traceable: bool = False) -> _Any: """Makes a pass of a function `f(func, mod, ctx)`, or of a class with such a method `transform_function`."""
