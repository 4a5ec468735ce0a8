"""Passes on Relay: a file each, which shows a program before and after."""

from __future__ import annotations

from ....ir.transform import ModulePass, Pass, PassContext, PassInfo, Sequential, module_pass
from ..left_out import served
from . import mixed_precision as mixed_precision
from .alter_op_layout import AlterOpLayout
from .annotate_spans import AnnotateSpans
from .annotate_target import AnnotateTarget
from .backward_fold_scale_axis import BackwardFoldScaleAxis
from .base import RelayPass, UserFunctionPass, function_pass
from .canonicalize_cast import CanonicalizeCast
from .canonicalize_ops import CanonicalizeOps
from .change_batch import ChangeBatch
from .combine_parallel_batch_matmul import CombineParallelBatchMatmul
from .combine_parallel_conv2d import CombineParallelConv2D
from .combine_parallel_dense import CombineParallelDense
from .convert_layout import ConvertLayout, LayoutConfig
from .dead_code_elimination import DeadCodeElimination
from .defuse_ops import DefuseOps
from .div_to_mul import DivToMul
from .dynamic_to_static import DynamicToStatic
from .eliminate_common_subexpr import EliminateCommonSubexpr
from .fast_math import FastMath
from .flatten_atrous_conv import FlattenAtrousConv
from .fold_constant import FoldConstant, FoldConstantExpr
from .fold_explicit_padding import FoldExplicitPadding
from .fold_scale_axis import FoldScaleAxis
from .forward_fold_scale_axis import ForwardFoldScaleAxis
from .fuse_ops import FuseOps
from .infer_type import InferType, InferTypeLocal
from .inline import Inline
from .label_ops import LabelOps
from .legalize import Legalize
from .merge_compiler_regions import MergeCompilerRegions
from .merge_composite import MergeComposite
from .partition_graph import PartitionGraph
from .recast import recast
from .remove_unused_functions import RemoveUnusedFunctions
from .simplify_expr import SimplifyExpr
from .simplify_fc_transpose import SimplifyFCTranspose
from .simplify_inference import SimplifyInference
from .split_args import SplitArgs
from .to_a_normal_form import ToANormalForm, ToANormalFormExpr
from .to_basic_block_normal_form import ToBasicBlockNormalForm
from .to_graph_normal_form import ToGraphNormalForm
from .to_mixed_precision import ToMixedPrecision

FunctionPass = UserFunctionPass


def BatchingOps() -> Sequential:
    """What computes branches of one input together: the three passes CombineParallel*."""
    parts = [CombineParallelConv2D(), CombineParallelDense(), CombineParallelBatchMatmul()]
    return Sequential(parts, name="BatchingOps")


__getattr__ = served(__name__)
