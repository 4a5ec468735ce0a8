"""Solvers of systems of integer equations and inequalities, as in `tvm.arith`."""

from .bound import deduce_bound as deduce_bound
from .int_solver import IntConstraints as IntConstraints
from .int_solver import IntConstraintsTransform as IntConstraintsTransform
from .int_solver import IntGroupBounds as IntGroupBounds
from .int_solver import PresburgerSet as PresburgerSet
from .int_solver import solve_linear_equations as solve_linear_equations
from .int_solver import solve_linear_inequalities as solve_linear_inequalities
