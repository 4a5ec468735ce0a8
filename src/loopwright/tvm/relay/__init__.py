"""Relay v0.18: a second surface over the one way down.

Its own expressions, types, texts and passes; what an operator means is said in Relax (`operators`), and
a module is compiled by its translation to Relax (`translate`).
"""

from __future__ import annotations

from ...base.span import SourceName as SourceName
from ...base.span import Span as Span
from ...ir.expr import GlobalVar
from ...ir.module import IRModule
from ..param_dict import load_param_dict, save_param_dict
from . import (
    analysis,
    backend,
    data_dep_optimization,
    dataflow_pattern,
    frontend,
    op,
    operators,
    testing,
    transform,
)
from .backend import vm
from .build_module import bind_params_by_name, build, create_executor, lower, optimize
from .expr import *
from .expr_functor import ExprFunctor, ExprMutator, ExprVisitor
from .op import annotation, image, nn, random, vision
from .parser import SpanCheck, fromtext, parse, parse_expr
from .scope_builder import ScopeBuilder
from .text import pretty_print
from .text import text as astext
from .type_functor import TypeFunctor, TypeMutator, TypeVisitor
from .types import (
    Any,
    FuncType,
    GlobalTypeVar,
    IncompleteType,
    RefType,
    ShapeVar,
    TensorType,
    TupleType,
    Type,
    TypeCall,
    TypeKind,
    TypeRelation,
    TypeVar,
    scalar_type,
)

for _name, _builder in op.VIEWS.items():
    if "." not in _name:
        globals()[_name] = _builder


def __getattr__(name: str) -> object:
    return getattr(op, name)  # its error suggests similar names
