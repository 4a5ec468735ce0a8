"""How Relay's operators take part in fusion: operators not listed are opaque."""

from __future__ import annotations

from ....ir.op import Op
from .core import ROWS
from .tensor import BINARY, UNARY

ELEMWISE, BROADCAST, INJECTIVE, REDUCE, FUSABLE, TUPLE, OPAQUE = 0, 1, 2, 3, 4, 7, 8

KINDS: dict[int, str] = {
    ELEMWISE: """
        log2 log10 clip cast cast_like copy zeros_like ones_like full_like fixed_point_multiply
        reinterpret nn.relu nn.leaky_relu
    """,
    BROADCAST: "expand_dims where nn.bias_add nn.prelu broadcast_to broadcast_to_like",
    INJECTIVE: """
        transpose squeeze reshape reshape_like contrib_reverse_reshape concatenate stack
        split take repeat tile reverse reverse_sequence strided_slice slice_like layout_transform full
        zeros ones one_hot gather gather_nd meshgrid nn.pad nn.mirror_pad nn.batch_flatten
        nn.depth_to_space nn.space_to_depth nn.space_to_batch_nd nn.batch_to_space_nd nn.upsampling
        image.resize1d image.resize2d image.resize3d sequence_mask unravel_index adv_index trilu
        matrix_set_diag nn.dilate vision.yolo_reorg arange invert_permutation sliding_window
        shape_of ndarray_size
    """,
    REDUCE: "sum max min prod mean all any argmax argmin variance",
    FUSABLE: """
        nn.conv1d nn.conv2d nn.conv3d nn.conv1d_transpose nn.conv2d_transpose nn.conv3d_transpose
        nn.dense nn.matmul nn.batch_matmul nn.max_pool1d nn.max_pool2d nn.max_pool3d nn.avg_pool1d
        nn.avg_pool2d nn.avg_pool3d nn.global_max_pool1d nn.global_avg_pool1d nn.global_max_pool2d
        nn.global_avg_pool2d nn.global_max_pool3d nn.global_avg_pool3d nn.adaptive_max_pool1d
        nn.adaptive_avg_pool1d nn.adaptive_max_pool2d nn.adaptive_avg_pool2d nn.adaptive_max_pool3d
        nn.adaptive_avg_pool3d nn.deformable_conv2d nn.lrn nn.l2_normalize nn.contrib_dense_pack
        nn.contrib_conv2d_NCHWc nn.contrib_depthwise_conv2d_NCHWc nn.softmax nn.log_softmax
        nn.contrib_conv2d_winograd_weight_transform nn.contrib_conv3d_winograd_weight_transform
        nn.contrib_conv2d_winograd_without_weight_transform nn.contrib_conv2d_gemm_weight_transform
        nn.contrib_conv3d_winograd_without_weight_transform
        nn.contrib_conv2d_gemm_without_weight_transform
        vision.roi_align nn.cross_entropy nn.correlation einsum nn.nll_loss
    """,
}


def set_kinds() -> None:
    """Store the kinds as facts of the operators."""
    for name, row in ROWS.items():
        if name in UNARY:
            row.op.set_attr("TOpPattern", ELEMWISE)
        elif name in BINARY:
            row.op.set_attr("TOpPattern", BROADCAST)
    for kind, names in KINDS.items():
        for name in names.split():
            if name in ROWS:
                ROWS[name].op.set_attr("TOpPattern", kind)


def kind_of(op: Op) -> int:
    """The kind of an operator of Relay."""
    return int(op.get_attr("TOpPattern", OPAQUE))
