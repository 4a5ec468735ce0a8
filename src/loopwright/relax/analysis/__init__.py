"""Analyses of graphs: struct info relations, variable uses, well-formedness."""

from ...tir.analysis.reshape import has_reshape_pattern
from ..relations import (
    BaseCheckResult,
    can_prove_shape_equal,
    collect_non_negative_expressions,
    definable_tir_vars_in_struct_info,
    derive_call_ret_struct_info,
    erase_to_well_defined,
    get_static_type,
    struct_info_base_check,
    struct_info_lca,
    tir_vars_in_struct_info,
)
from .variables import (
    all_global_vars,
    all_vars,
    bound_vars,
    computable_at_compile_time,
    contains_impure_call,
    defined_symbolic_vars,
    detect_recursion,
    find_impure_call,
    free_symbolic_vars,
    free_vars,
    get_var2val,
    is_impure_call,
    name_to_binding,
    post_order_visit,
    remove_all_unused,
    udchain,
    used_vars,
)
from .well_formed import RULES, Violation, assert_well_formed, find_violations, well_formed
