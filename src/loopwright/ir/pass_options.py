"""The options of `PassContext(config={name: value})`: those that passes read, and those that TVM
v0.18 or v0.21 knows and that mean nothing here.

Of the latter, those are accepted that TVM's scripts set for many programs and that cannot be missed:
results are the same without them. The others are refused with what to use instead.

They are one table, not declarations in the passes: a context may be made before any pass is
imported.
"""

from __future__ import annotations

from typing import Any

from ..base.config import declare_pass_option

_READ: dict[str, tuple[type, Any, str]] = {
    "relax.FuseOps.max_depth": (int, 256, "Most operators in one fused function."),
    "relax.matmul_precision": (
        str,
        "float32",
        "bfloat16: matrix products of float32 with constants multiply numbers rounded to 8 bits; see "
        "LowerMatmulPrecision.",
    ),
    "relax.winograd_tile": (
        int,
        0,
        "2 or 4: convolutions of 3 x 3 compute tiles of up to that many results along an axis by Winograd's "
        "algorithm where that is faster, with larger errors; see WinogradConvolutions.",
    ),
    "relax.lift_transform_params.consume_params": (
        bool,
        False,
        "The functions that LiftTransformParams makes take each weight out of its tuple.",
    ),
    "relax.transform.apply_legalize_ops": (bool, True, "False: LegalizeOps does nothing."),
    "relay.FuseOps.link_params": (
        bool,
        False,
        "Constants of any shape are part of the functions that Relay's FuseOps makes.",
    ),
    "relay.FuseOps.max_depth": (int, 256, "Most calls in one kernel of Relay's FuseOps."),
    "relay.ToMixedPrecision.keep_orig_output_dtype": (
        bool,
        False,
        "Relay's ToMixedPrecision casts the results of functions back.",
    ),
    "te.keep_schedule_record": (
        bool,
        False,
        "A te schedule keeps a copy of itself after each step (schedule_record).",
    ),
    "testing.immutable_module": (bool, False, "A pass that changes the module it is given fails."),
    "tir.HoistExpression": (dict, None, "What HoistExpression moves (the enums, or bool)."),
    "tir.HoistIfThenElse": (
        dict,
        None,
        "support_block_scope_hoisting (False): True also moves conditions on the index of a thread.",
    ),
    "tir.InjectDoubleBuffer": (
        dict,
        None,
        "split_loop (1): iterations written in a row, so that each knows its half of the buffer.",
    ),
    "tir.LoopPartition": (
        dict,
        None,
        "partition_const_loop (True): False keeps the checks where all loops are constant. The others "
        "have no effect: they are about loops over the rest, of which none are made.",
    ),
    "tir.RemoveNoOp": (
        dict,
        None,
        "use_dataflow_analysis (False): True also removes stores that a later statement overwrites. "
        "max_simplification_steps has no effect: nothing is bounded.",
    ),
    "tir.ReduceBranchingThroughOvercompute": (
        dict,
        None,
        "use_dataflow_analysis (False): True also takes known contents of memory into account.",
    ),
    "tir.UnrollLoop": (
        dict,
        None,
        "auto_max_step (0), auto_max_extent (0): statements, iterations of the largest loops to unroll; "
        "auto_max_depth (8) of nested ones; explicit_unroll (True): T.unroll is done here; "
        "unroll_local_access (False): loops that index buffers of scope local are unrolled.",
    ),
    "tir.add_lower_pass": (
        list,
        None,
        "Pairs (phase 0 to 3, pass) run within the lowering of PrimFuncs.",
    ),
    "tir.disable_assert": (bool, False, "Assertions are left out of the code."),
    "tir.disable_cse_tir": (bool, False, "CommonSubexprElimTIR does nothing."),
    "tir.disable_storage_rewrite": (bool, False, "StorageRewrite does nothing."),
    "tir.disable_vectorize": (bool, False, "Run vectorized loops serially."),
    "tir.Simplify": (
        dict,
        None,
        "convert_boolean_to_and_of_ors: conditions become conjunctions of disjunctions. "
        "propagate_knowns_to_...: contents of memory known from stores and T.assume prove conditions, or replace "
        "loads. The other entries enable rewrites that are always done.",
    ),
    "tir.enable_buffer_level_predication": (
        bool,
        None,
        "False: accesses under a condition in a vectorized loop run lane by lane; True: with masks.",
    ),
    "tir.enable_equiv_terms_in_cse_tir": (
        bool,
        False,
        "CommonSubexprElimTIR finds terms that are equal once common terms are expanded.",
    ),
    "tir.instr_siblings": (
        bool,
        True,
        "InstrumentProfileIntrinsics takes loops next to others; False: those of tir.lwp_max_depth.",
    ),
    "tir.instrument_lwp": (
        bool,
        False,
        "InstrumentProfileIntrinsics is part of the lowering; on CPUs its calls do nothing.",
    ),
    "tir.lwp_disable_func_prof": (bool, False, "It leaves functions as wholes alone."),
    "tir.lwp_max_depth": (int, 0, "Levels of loops that it takes from outside; 0 = all."),
    "tir.lwp_min_height": (int, 1, "Levels of loops inside of those that it takes."),
    "tir.reset_start_id": (bool, False, "It numbers the loops of each function from 0."),
    "tir.instrument_bound_checkers": (
        bool,
        False,
        "Accesses of compiled loops are checked: one outside of its buffer is an error.",
    ),
    "tir.noalias": (
        bool,
        True,
        "False: parameters may overlap, whatever functions' attribute of this name says.",
    ),
    "tir.vtcm_capacity": (int, 0, "Bytes for VerifyVTCMLimit; 0 = the target's."),
}

_ACCEPTED: dict[str, tuple[type, str]] = {
    "relax.backend.use_cuda_graph": (bool, "no code is generated for GPUs"),
    "relay.backend.use_auto_scheduler": (bool, "schedules are chosen by rules, not tuned"),
    "relay.backend.use_meta_schedule": (bool, "schedules are chosen by rules, not tuned"),
    "relay.backend.use_meta_schedule_dispatch": (bool, "schedules are chosen by rules, not tuned"),
    "relay.fallback_device_type": (int, "functions run on the CPU"),
    "relay.frontend.fill_span": (bool, "nodes always say where they are from"),
    "relay.remove_standalone_reshapes.enable": (bool, "a reshape never copies"),
    "tir.debug_keep_trivial_loop": (bool, "schedules show all loops; code needs none of one turn"),
    "tir.detect_global_barrier": (bool, "no code is generated for GPUs"),
    "tir.enable_debug": (bool, "the emitted text always names the lines of the source"),
    "tir.enable_fast_math": (bool, "functions are always as accurate as documented"),
    "tir.merge_static_smem": (bool, "no code is generated for GPUs"),
    "tir.use_async_copy": (bool, "no processor here copies on its own; copies are done in place"),
}

_DMA = "it is for Hexagon's copies", "leave it out"
_ARENAS = "memory is planned by compile", "lw.compile(model, arenas=...), see docs/memory.md"
_REFUSED: dict[str, tuple[type, tuple[str, str]]] = {
    "cuda.kernels_output_dir": (
        str,
        ("no code is generated for GPUs", "LOOPWRIGHT_DUMP=folder writes what each pass makes"),
    ),
    "relax.ext.tensorrt.options": (
        dict,
        ("TensorRT is not among the back ends", "lw.compile(model, backends=[...])"),
    ),
    "relax.fallback_device_type": (
        int,
        ("functions run on the CPU", "name a device by R.Tensor(..., vdevice=...)"),
    ),
    "tir.dma_bypass_cache": (bool, _DMA),
    "tir.experimental_dma_bypass_cache": (bool, _DMA),
    "tir.is_entry_func": (
        bool,
        ("it is an attribute of functions", 'func.with_attr("tir.is_entry_func", True)'),
    ),
    "tir.ptx_ldg32": (bool, ("no code is generated for GPUs", "leave it out")),
    "tir.usmp.algorithm": (str, _ARENAS),
    "tir.usmp.custom_algorithm": (str, _ARENAS),
    "tir.usmp.enable": (bool, _ARENAS),
    "tir.usmp.use_workspace_io": (bool, _ARENAS),
}

# The entries of options that are dicts, and their defaults; None: as the pass says.
_FIELDS: dict[str, dict[str, Any]] = {
    "tir.HoistExpression": dict.fromkeys(("hoisted_conditionals", "hoisted_let_bindings")),
    "tir.HoistIfThenElse": {"support_block_scope_hoisting": False},
    "tir.InjectDoubleBuffer": {"split_loop": 1},
    "tir.LoopPartition": {
        "partition_const_loop": True,
        "no_unroll_loop_with_extent_one": False,
        "unroll_loop_with_partition_hint_no_interval": False,
    },
    "tir.RemoveNoOp": {"max_simplification_steps": 0, "use_dataflow_analysis": False},
    "tir.ReduceBranchingThroughOvercompute": {"use_dataflow_analysis": False},
    "tir.Simplify": {
        "apply_constraints_to_boolean_branches": False,
        "convert_boolean_to_and_of_ors": False,
        "propagate_knowns_to_prove_conditional": False,
        "propagate_knowns_to_simplify_expressions": False,
        "transitively_prove_inequalities": False,
    },
    "tir.UnrollLoop": {
        "auto_max_step": 0,
        "auto_max_depth": 8,
        "auto_max_extent": 0,
        "explicit_unroll": True,
        "unroll_local_access": False,
    },
}


def declare() -> None:
    """Put the options into the table of knobs."""
    for name, (kind, default, doc) in _READ.items():
        declare_pass_option(name, kind, default, doc, _FIELDS.get(name, {}))
    for name, (kind, why) in _ACCEPTED.items():
        doc = f"Accepted, no effect: {why}."
        declare_pass_option(name, kind, None, doc, _FIELDS.get(name, {}))
    for name, (kind, refused) in _REFUSED.items():
        doc = f"Refused: {refused[0]}; instead: {refused[1]}."
        declare_pass_option(name, kind, None, doc, refused=refused)


declare()
