"""Relax: graphs of tensor operations with symbolic shapes."""

import importlib as _importlib
from typing import Any as _Any

from . import analysis as analysis
from . import dpl as dpl
from . import expr_functor as expr_functor
from . import interpreter as interpreter
from . import op as op
from . import specialize as specialize
from . import transform as transform
from . import utils as utils
from .block_builder import BlockBuilder as BlockBuilder
from .expr import (
    Binding,
    BindingBlock,
    Call,
    Constant,
    DataflowBlock,
    DataflowVar,
    DataTypeImm,
    Expr,
    ExprWithOp,
    ExternFunc,
    Function,
    GlobalVar,
    Id,
    If,
    MatchCast,
    PrimValue,
    SeqExpr,
    ShapeExpr,
    StringImm,
    Tuple,
    TupleGetItem,
    Var,
    VarBinding,
    const,
    extern,
    get_shape_of,
    make_shape,
)
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

# TVM's names in this module for what lies above this layer, looked up when they are asked for.
_ABOVE = {
    "VirtualMachine": ("loopwright.driver", "VirtualMachine"),
    "backend": ("loopwright.backend", ""),
    "build": ("loopwright.driver", "relax_build"),
    "frontend": ("loopwright.frontend", ""),
    "get_default_pipeline": ("loopwright.backend.pipeline", "get_default_pipeline"),
    "get_pipeline": ("loopwright.backend.pipeline", "get_pipeline"),
    "pipeline": ("loopwright.backend.pipeline", ""),
    "register_pipeline": ("loopwright.backend.pipeline", "register_pipeline"),
    "testing": ("loopwright.testing", ""),
}


def __getattr__(name: str) -> _Any:
    if name not in _ABOVE:
        raise AttributeError(f"module 'relax' has no attribute {name!r}")
    module, attribute = _ABOVE[name]
    found = _importlib.import_module(module)
    return getattr(found, attribute) if attribute else found
