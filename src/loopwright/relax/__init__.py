"""Relax: graphs of tensor operations with symbolic shapes."""

from ..base.late import late_names as _late_names
from ..base.late import public_names as _public_names
from . import analysis as analysis
from . import dpl as dpl
from . import expr_functor as expr_functor
from . import interpreter as interpreter
from . import op as op
from . import specialize as specialize
from . import transform as transform
from . import utils as utils
from .block_builder import BlockBuilder as BlockBuilder
from .expr import *
from .expr import GlobalVar, const, extern, get_shape_of, make_shape
from .expr_functor import PyExprMutator as PyExprMutator
from .expr_functor import PyExprVisitor as PyExprVisitor
from .functor import GraphRewriter as GraphRewriter
from .op.base import (
    call_dps_packed,
    call_pure_packed,
    call_tir,
    call_tir_inplace,
    call_tir_with_grad,
)
from .struct_info import (
    FuncStructInfo,
    ObjectStructInfo,
    PrimStructInfo,
    ShapeStructInfo,
    StructInfo,
    TensorStructInfo,
    TupleStructInfo,
)
from .transform.legalize_ops.common import register_legalize as register_legalize
from .types import FuncType, ObjectType, PackedFuncType, ShapeType, TensorType, TupleType
from .utils import convert_to_expr as convert_to_expr

__getattr__ = _late_names(__name__)  # TVM's names here for functions of higher layers
__dir__ = _public_names(__name__)
