"""Visitors, and facts about programs and schedules, for scripts written for TVM."""

from .query import assert_pure_function as assert_pure_function
from .query import calculate_allocated_bytes as calculate_allocated_bytes
from .query import detect_buffer_access_lca as detect_buffer_access_lca
from .query import expr_deep_equal as expr_deep_equal
from .query import find_anchor_block as find_anchor_block
from .query import has_if_then_else as has_if_then_else
from .workspace import MemCpyDetails as MemCpyDetails
from .workspace import calculate_workspace_bytes as calculate_workspace_bytes
from .workspace import identify_memcpy as identify_memcpy
