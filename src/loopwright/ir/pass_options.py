"""The options of `PassContext(config={name: value})`: those that passes read, and those that
TVM v0.21 knows and that have no meaning here, which are accepted so that its scripts run.

They are one table, not declarations in the passes: a context may be made before any pass is
imported.
"""

from __future__ import annotations

from typing import Any

from ..base.config import declare_pass_option

ALWAYS = "Accepted, no effect: what its flags ask for is always done."
NO_EFFECT = "Accepted, no effect."

_READ: tuple[tuple[str, type, Any, str], ...] = (
    ("relax.FuseOps.max_depth", int, 256, "Most operators in one fused function."),
    (
        "tir.HoistExpression",
        dict,
        None,
        "hoisted_conditionals, hoisted_let_bindings: what `HoistExpression` moves (the enums, or "
        "bool).",
    ),
    (
        "tir.LoopPartition",
        dict,
        None,
        "partition_const_loop (bool): False keeps the checks where all loops are constant.",
    ),
    (
        "tir.UnrollLoop",
        dict,
        None,
        "auto_max_step, auto_max_depth, auto_max_extent (numbers), explicit_unroll (bool).",
    ),
    (
        "tir.add_lower_pass",
        list,
        None,
        "Pairs (phase 0 to 3, pass) run within the lowering of PrimFuncs.",
    ),
    ("tir.disable_assert", bool, False, "Assertions are left out of the code."),
    ("tir.disable_cse_tir", bool, False, "CommonSubexprElimTIR does nothing."),
    ("tir.disable_storage_rewrite", bool, False, "StorageRewrite does nothing."),
    ("tir.disable_vectorize", bool, False, "Run vectorized loops serially."),
    (
        "tir.enable_equiv_terms_in_cse_tir",
        bool,
        False,
        "CommonSubexprElimTIR finds terms that are equal once written out.",
    ),
    (
        "tir.instrument_bound_checkers",
        bool,
        False,
        "Accesses of compiled loops are checked: one outside of its buffer is an error.",
    ),
    ("tir.HoistIfThenElse", dict, None, ALWAYS),
    ("tir.RemoveNoOp", dict, None, ALWAYS),
    ("tir.Simplify", dict, None, ALWAYS),
)

# What TVM's options of other devices, of profiling and of passes that do not exist here are.
_ACCEPTED: dict[type, str] = {
    bool: """relax.backend.use_cuda_graph relax.lift_transform_params.consume_params
        relax.transform.apply_legalize_ops testing.immutable_module tir.debug_keep_trivial_loop
        tir.detect_global_barrier tir.dma_bypass_cache tir.enable_buffer_level_predication
        tir.enable_debug tir.enable_fast_math tir.experimental_dma_bypass_cache tir.instr_siblings
        tir.instrument_lwp tir.is_entry_func tir.lwp_disable_func_prof tir.merge_static_smem
        tir.noalias tir.ptx_ldg32 tir.reset_start_id tir.use_async_copy tir.usmp.enable
        tir.usmp.use_workspace_io""",
    int: "relax.fallback_device_type tir.lwp_max_depth tir.lwp_min_height tir.vtcm_capacity",
    str: "cuda.kernels_output_dir tir.usmp.algorithm tir.usmp.custom_algorithm",
    dict: "relax.ext.tensorrt.options tir.InjectDoubleBuffer tir.ReduceBranchingThroughOvercompute",
}


def declare() -> None:
    """Put the options into the table of knobs."""
    for option in _READ:
        declare_pass_option(*option)
    for kind, names in _ACCEPTED.items():
        for name in names.split():
            declare_pass_option(name, kind, None, NO_EFFECT)


declare()

__all__ = ["NO_EFFECT"]
