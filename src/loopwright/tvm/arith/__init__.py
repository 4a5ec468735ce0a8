"""Of `tvm.arith`, what no pass here needs: solvers of systems of equations and inequalities, rewriting rules."""

from .bound import deduce_bound as deduce_bound
from .common_subexpr import detect_common_subexpr as detect_common_subexpr
from .int_solver import IntConstraints as IntConstraints
from .int_solver import IntConstraintsTransform as IntConstraintsTransform
from .int_solver import IntGroupBounds as IntGroupBounds
from .int_solver import PresburgerSet as PresburgerSet
from .int_solver import solve_linear_equations as solve_linear_equations
from .int_solver import solve_linear_inequalities as solve_linear_inequalities
from .iter_map import normalize_to_iter_sum as normalize_to_iter_sum
from .iter_map import subspace_divide as subspace_divide
from .region import estimate_region_upper_bound as estimate_region_upper_bound
from .region import union_lower_bound as union_lower_bound
