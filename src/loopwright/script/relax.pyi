"""The namespace `R` of TVMScript: the names behind `R.` in a graph function.

Made by `python -m tools.make_stubs`.
"""

import builtins as _py
from collections.abc import Sequence as _Sequence
from contextlib import nullcontext as _nullcontext
from loopwright.base.late import Slot as _Slot
from loopwright.ir.dtype import DataType as _DataType
from loopwright.ir.expr import GlobalVar as GlobalVar
from loopwright.ir.module import IRModule as IRModule
from loopwright.ir.prim_expr import PrimExpr as _PrimExpr
from loopwright.ops.index import masked_fill as masked_fill
from loopwright.ops.linear import linear as linear
from loopwright.relax.dpl.rewrite import PatternMatchingRewriter as PatternMatchingRewriter
from loopwright.relax.expr import (
    DataTypeImm as DataTypeImm, Expr as _Expr, ExternFunc as ExternFunc, PrimValue as PrimValue,
    ShapeExpr as ShapeExpr, StringImm as StringImm, Tuple as _Tuple,
    TupleGetItem as TupleGetItem, const as const,
)
from loopwright.relax.op import *
from loopwright.relax.op.base import *
from loopwright.relax.utils import convert_to_expr as convert_to_expr
from loopwright.runtime.device import (
    cpu as cpu, cuda as cuda, device as device, metal as metal, opencl as opencl, rocm as rocm,
    vulkan as vulkan,
)
from loopwright.script.parser.entry import (
    ModuleDecorator as _ModuleDecorator, RelaxFunctionDecorator as _RelaxFunctionDecorator,
)
from loopwright.script.parser.macro import MacroDecorator as _MacroDecorator
from loopwright.script.parser.proxies import (
    MatchCastPair as MatchCastPair, PackedFunc as PackedFunc,
    StructInfoProxy as StructInfoProxy, TensorProxy as _TensorProxy, as_info as as_info,
    match_cast as match_cast,
)
from typing import Any as _Any

BUILDER: _Slot
class Callable(_Expr, StructInfoProxy):
    """`R.Callable(params, ret, purity)`"""
    def __init__(self, params: _Sequence[StructInfoProxy | type[_TensorProxy]] | None = None, ret: StructInfoProxy | None = None, purity: bool | None = None, derive_func: _Any = None) -> None: ...
class DataflowMark(_nullcontext[None]): """`with R.dataflow():`"""
class Object(_Expr, StructInfoProxy): """`R.Object`"""
class Prim(_Expr, StructInfoProxy):
    """`R.Prim(dtype)`, `R.Prim(value=n)`"""
    def __init__(self, dtype: _DataType | _py.str | None = None, value: _PrimExpr | _py.str | int | None = None) -> None: ...
class RewriterDecorator(_ModuleDecorator[PatternMatchingRewriter]): """`@R.rewriter`: a class (or a module) with the functions `pattern` and `replacement`."""
class Shape(_Expr, StructInfoProxy):
    """`R.Shape(values, ndim)`"""
    def __init__(self, values: int | _Sequence[_Any] | None = None, ndim: int = -1) -> None: ...
class Tensor(_Expr, StructInfoProxy):
    """`R.Tensor(shape, dtype, vdevice, ndim)`"""
    def __init__(self, shape: object = None, dtype: _DataType | _py.str | None = None, vdevice: _Any = None, ndim: int = -1) -> None: ...
class Tuple(_Expr, StructInfoProxy):
    """`R.Tuple(field, ...)`"""
    def __init__(self, *fields: StructInfoProxy | _Sequence[_Any]) -> None: ...
def dataflow() -> DataflowMark: """A block without side effects or control flow."""
def dtype(value: _Any) -> DataTypeImm: """A dtype as a value."""
def emit(value: _Expr, annotate_struct_info: _Any = None) -> _Any: """Bind a value to a fresh variable."""
def emit_te(func: _Any, *args: _Any, **kwargs: _Any) -> _Any: """A `call_tir` of the PrimFunc made from a tensor expression function."""
def func_attr(attrs: dict[_py.str, _Any]) -> None: """Attributes of the function."""
function: _RelaxFunctionDecorator
def hint_on_device(data: _Expr, dst_vdevice: _Any, memory_scope: _py.str = 'global') -> _Any: """Say where a tensor should live."""
macro: _MacroDecorator
def output(*vars: _Expr) -> None: """The variables of the dataflow block that are seen after it."""
def prim_value(value: _PrimExpr | float) -> PrimValue: """A scalar."""
print = relax_print
rewriter: RewriterDecorator
def shape(value: _Expr | _Sequence[_PrimExpr | int]) -> ShapeExpr: """A shape as a value; dimensions may be strings."""
def str(value: _py.str) -> StringImm: """A string as a value."""
def to_vdevice(data: _Expr, dst_vdevice: _Any) -> _Any: """Copy a tensor to a virtual device, which may be named: "cuda:1"."""
def tuple(*fields: _Expr | _Sequence[_Expr]) -> _Tuple: """A tuple; `R.tuple()` is the empty one."""
