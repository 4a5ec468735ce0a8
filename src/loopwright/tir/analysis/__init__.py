"""Questions about TensorIR that change nothing."""

from .access import get_block_access_region as get_block_access_region
from .access import get_block_read_write_region as get_block_read_write_region
from .definitions import RULES as RULES
from .definitions import undefined_vars as undefined_vars
from .definitions import verify_ssa as verify_ssa
from .definitions import verify_well_formed as verify_well_formed
from .definitions import well_formed_errors as well_formed_errors
from .query import assert_pure_function as assert_pure_function
from .query import calculate_allocated_bytes as calculate_allocated_bytes
from .query import detect_buffer_access_lca as detect_buffer_access_lca
from .query import estimate_tir_flops as estimate_tir_flops
from .query import expr_deep_equal as expr_deep_equal
from .query import find_anchor_block as find_anchor_block
from .query import has_if_then_else as has_if_then_else
from .query import is_pure_function as is_pure_function
