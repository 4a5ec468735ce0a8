"""The namespace `R` of TVMScript: the names behind `R.` in a graph function.

Operators are those of `relax.op` (a view that `ops/` fills); struct infos, bindings and literals
are here.
"""

from __future__ import annotations

import difflib
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from ..base.errors import explain
from ..base.late import public_names as _public_names
from ..ir.expr import GlobalVar  # noqa: F401  (reached as R.GlobalVar)
from ..ir.module import IRModule
from ..ir.op import load_definitions
from ..relax import op as _op
from ..relax.dpl import PatternMatchingRewriter
from ..relax.expr import (  # noqa: F401
    DataTypeImm,
    ExternFunc,
    PrimValue,
    ShapeExpr,
    StringImm,
    TupleGetItem,
    const,
)
from ..relax.expr import Tuple as _Tuple
from ..relax.op import register_view  # noqa: F401
from ..relax.op.base import call_packed, relax_print  # noqa: F401
from ..relax.utils import convert_to_expr  # noqa: F401
from ..runtime.device import cpu, cuda, device, metal, opencl, rocm, vulkan  # noqa: F401
from .parser import proxies as _proxies
from .parser.core import BUILDER, active_parser, built
from .parser.entry import ModuleDecorator, RelaxFunctionDecorator
from .parser.macro import MacroDecorator
from .parser.proxies import MatchCastPair, PackedFunc, StructInfoProxy, as_info, match_cast  # noqa: F401

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..ir.prim_expr import PrimExpr
    from ..relax.expr import Expr


class RewriterDecorator(ModuleDecorator[PatternMatchingRewriter]):
    """`@R.rewriter`: a class (or a module) with the functions `pattern` and `replacement`."""

    def _apply(self, func: type, frame: Any) -> PatternMatchingRewriter:
        mod = func if isinstance(func, IRModule) else super()._apply(func, frame)
        return PatternMatchingRewriter.from_module(mod)


function = RelaxFunctionDecorator()
rewriter = RewriterDecorator()
macro = MacroDecorator()
print = relax_print
_str = str

Object = _proxies.ObjectProxy
Tensor = _proxies.TensorProxy
Shape = _proxies.ShapeProxy
Prim = _proxies.PrimProxy
Tuple = _proxies.TupleProxy
Callable = _proxies.CallableProxy


# ------------------------------------------------------------------ the function


def _dialect(name: _str) -> Any:
    parser = active_parser()
    if parser is None or not parser.dialects or not hasattr(parser.dialects[-1], "func_attr"):
        what = f"{name} outside a graph function"
        raise ValueError(explain(what, instead="use it in a function under @R.function"))
    return parser.dialects[-1]


@built
def func_attr(attrs: dict[_str, Any]) -> None:
    """Attributes of the function."""
    _dialect("R.func_attr").func_attr(attrs)


class DataflowMark(nullcontext[None]):
    """`with R.dataflow():`"""


@built
def dataflow() -> DataflowMark:
    """A block without side effects or control flow."""
    return DataflowMark()


@built
def output(*vars: Expr) -> None:
    """The variables of the dataflow block that are seen after it."""
    _dialect("R.output").output(vars)


@built
def emit(value: Expr, annotate_struct_info: Any = None) -> Any:
    """Bind a value to a fresh variable."""
    return _dialect("R.emit").emit(value, annotate_struct_info)


@built
def emit_te(func: Any, *args: Any, **kwargs: Any) -> Any:
    """A `call_tir` of the PrimFunc made from a tensor expression function."""
    return _dialect("R.emit_te").builder.call_te(func, *args, **kwargs)


# ------------------------------------------------------------------ literals


def tuple(*fields: Expr | Sequence[Expr]) -> _Tuple:
    """A tuple; `R.tuple()` is the empty one."""
    return _proxies.make_tuple(fields)


def shape(value: Expr | Sequence[PrimExpr | int]) -> ShapeExpr:
    """A shape as a value; dimensions may be strings."""
    return _proxies.make_shape(value)


def prim_value(value: PrimExpr | float) -> PrimValue:
    """A scalar."""
    return PrimValue(value)


def str(value: _str) -> StringImm:
    """A string as a value."""
    return StringImm(value)


def dtype(value: Any) -> DataTypeImm:
    """A dtype as a value."""
    return DataTypeImm(value)


def to_vdevice(data: Expr, dst_vdevice: Any) -> Any:
    """Copy a tensor to a virtual device, which may be named: "cuda:1"."""
    return _op.to_vdevice(data, _proxies.vdevice(dst_vdevice))


def hint_on_device(data: Expr, dst_vdevice: Any, memory_scope: _str = "global") -> Any:
    """Say where a tensor should live."""
    return _op.hint_on_device(data, _proxies.vdevice(dst_vdevice), memory_scope)


def __getattr__(name: _str) -> Any:
    builder = vars(_op).get(name)
    if builder is not None and not name.startswith("_"):
        return builder
    if name.startswith("__"):
        raise AttributeError(name)
    if load_definitions() and name in vars(_op):
        return vars(_op)[name]
    if name in (building := BUILDER.get()[0]):
        return building[name]
    names = [n for n in (*globals(), *vars(_op)) if not n.startswith("_")]
    close = difflib.get_close_matches(name, names)
    hint = f"did you mean {', '.join('R.' + n for n in close)}?" if close else None
    raise AttributeError(explain(f"R has no operator {name!r}", instead=hint))


__dir__ = _public_names(__name__)
