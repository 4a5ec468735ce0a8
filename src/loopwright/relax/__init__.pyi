"""Relax: graphs of tensor operations with symbolic shapes.

Made by `python -m tools.make_stubs`.
"""

from loopwright import backend as backend, frontend as frontend
from loopwright.backend import pipeline as pipeline
from loopwright.backend.pipeline import (
    get_default_pipeline as get_default_pipeline, get_pipeline as get_pipeline,
    register_pipeline as register_pipeline,
)
from loopwright.driver.steps import relax_build as _relax_build
from loopwright.ir.expr import GlobalVar as GlobalVar
from loopwright.relax import (
    analysis as analysis, dpl as dpl, expr_functor as expr_functor, interpreter as interpreter,
    op as op, specialize as specialize, transform as transform, utils as utils,
)
from loopwright.relax.block_builder import BlockBuilder as BlockBuilder
from loopwright.relax.expr import (
    Binding as Binding, BindingBlock as BindingBlock, Call as Call, Constant as Constant,
    DataTypeImm as DataTypeImm, DataflowBlock as DataflowBlock, DataflowVar as DataflowVar,
    Expr as Expr, ExternFunc as ExternFunc, Function as Function, Id as Id, If as If,
    MatchCast as MatchCast, PrimValue as PrimValue, SeqExpr as SeqExpr, ShapeExpr as ShapeExpr,
    StringImm as StringImm, Tuple as Tuple, TupleGetItem as TupleGetItem, Var as Var,
    VarBinding as VarBinding, const as const, extern as extern, get_shape_of as get_shape_of,
    make_shape as make_shape,
)
from loopwright.relax.expr_functor import (
    PyExprMutator as PyExprMutator, PyExprVisitor as PyExprVisitor,
)
from loopwright.relax.functor import GraphRewriter as GraphRewriter
from loopwright.relax.op.base import (
    call_dps_packed as call_dps_packed, call_pure_packed as call_pure_packed,
    call_tir as call_tir, call_tir_inplace as call_tir_inplace,
    call_tir_with_grad as call_tir_with_grad,
)
from loopwright.relax.struct_info import (
    FuncStructInfo as FuncStructInfo, ObjectStructInfo as ObjectStructInfo,
    PrimStructInfo as PrimStructInfo, ShapeStructInfo as ShapeStructInfo,
    StructInfo as StructInfo, TensorStructInfo as TensorStructInfo,
    TupleStructInfo as TupleStructInfo,
)
from loopwright.relax.transform.legalize_ops.common import register_legalize as register_legalize
from loopwright.relax.types import (
    FuncType as FuncType, ObjectType as ObjectType, PackedFuncType as PackedFuncType,
    ShapeType as ShapeType, TensorType as TensorType, TupleType as TupleType,
)
from loopwright.relax.utils import convert_to_expr as convert_to_expr
from loopwright.runtime.vm.builder import ExecBuilder as ExecBuilder
from loopwright.runtime.vm.bytecode import VMExecutable as VMExecutable
from loopwright.runtime.vm.machine import VMInstrumentReturnKind as VMInstrumentReturnKind
from loopwright.runtime.vm.virtual_machine import VirtualMachine as VirtualMachine
from loopwright.tvm import testing as testing

ExprWithOp = Expr
build = _relax_build
