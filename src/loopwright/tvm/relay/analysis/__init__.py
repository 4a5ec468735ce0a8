"""Questions about programs of Relay."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..annotated_regions import AnnotatedRegionSet
from ..left_out import served
from ..scopes import check_basic_block_normal_form
from ..walk import post_order
from .call_graph import CallGraph
from .counts import LayerCounter, count_layers, get_total_mac_number, list_op_freqs
from .extract import (
    extract_fused_functions,
    extract_intermdeiate_expr,
    get_calibration_data,
    search_fc_transpose,
)
from .kinds import Feature, check_constant, check_kind, detect_feature
from .variables import (
    all_dtypes,
    all_type_vars,
    all_vars,
    bound_type_vars,
    bound_vars,
    free_type_vars,
    free_vars,
    well_formed,
)

if TYPE_CHECKING:
    from ..expr import Expr


def post_order_visit(expr: Expr, fvisit: Callable[[Any], Any]) -> None:
    """Call a function on every node of a graph, once, what it uses first."""
    for node in post_order(expr):
        fvisit(node)


__getattr__ = served(__name__)
