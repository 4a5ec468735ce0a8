"""Questions about graphs: what covers what, which variables, what is well formed."""

from .struct_info import (
    BaseCheckResult as BaseCheckResult,
    can_prove_shape_equal as can_prove_shape_equal,
    collect_non_negative_expressions as collect_non_negative_expressions,
    definable_tir_vars_in_struct_info as definable_tir_vars_in_struct_info,
    derive_call_ret_struct_info as derive_call_ret_struct_info,
    erase_to_well_defined as erase_to_well_defined,
    get_static_type as get_static_type,
    struct_info_base_check as struct_info_base_check,
    struct_info_lca as struct_info_lca,
    tir_vars_in_struct_info as tir_vars_in_struct_info,
)
