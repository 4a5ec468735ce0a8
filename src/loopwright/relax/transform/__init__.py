"""The graph passes, under TVM's names: a file for each."""

from . import legalize_ops as legalize_ops
from ._decorators import (
    DataflowBlockPass,
    FunctionPass,
    dataflowblock_pass,
    function_pass,
)
from .annotate_op_pattern import AnnotateTIROpPattern as AnnotateTIROpPattern
from .attach_external_modules import AttachExternModules as AttachExternModules
from .attach_global_symbol import AttachGlobalSymbol as AttachGlobalSymbol
from .bind_params import BindParams as BindParams
from .bind_symbolic_vars import BindSymbolicVars as BindSymbolicVars
from .blocked_layout import BlockedLayout as BlockedLayout
from .call_tir_rewrite import CallTIRRewrite as CallTIRRewrite
from .canonicalize import CanonicalizeBindings as CanonicalizeBindings
from .dead_code import DeadCodeElimination as DeadCodeElimination
from .drop_host_copies import DropHostCopies as DropHostCopies
from .eliminate_common_subexpr import EliminateCommonSubexpr as EliminateCommonSubexpr
from .fold_batch_norm import FoldBatchnormToConv2D as FoldBatchnormToConv2D
from .fold_constant import FoldConstant as FoldConstant
from .fuse_ops import FuseOps as FuseOps
from .fuse_ops_by_pattern import FuseOpsByPattern as FuseOpsByPattern
from .fuse_ops_by_pattern import FusionPattern as FusionPattern
from .fuse_ops_by_pattern import PatternCheckContext as PatternCheckContext
from .fuse_tir import FuseTIR as FuseTIR
from .graph_to_tir import GraphToTIR as GraphToTIR
from .kill_after_last_use import KillAfterLastUse as KillAfterLastUse
from .lambda_lift import LambdaLift as LambdaLift
from .legalize import LegalizeOps as LegalizeOps
from .lower_alloc_tensor import LowerAllocTensor as LowerAllocTensor
from .lower_runtime_builtin import LowerRuntimeBuiltin as LowerRuntimeBuiltin
from .merge_composite_functions import MergeCompositeFunctions as MergeCompositeFunctions
from .name_dimensions import NameDimensions as NameDimensions
from .normalize import Normalize as Normalize
from .remove_purity_checking import RemovePurityChecking as RemovePurityChecking
from .rewrite_dataflow_reshape import RewriteDataflowReshape as RewriteDataflowReshape
from .run_codegen import RunCodegen as RunCodegen
from .static_plan_block_memory import StaticPlanBlockMemory as StaticPlanBlockMemory
from .to_non_dataflow import ToNonDataflow as ToNonDataflow
from .vm_shape_lower import VMShapeLower as VMShapeLower

VMBuiltinLower = LowerRuntimeBuiltin  # TVM's older name
