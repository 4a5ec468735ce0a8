"""The namespace `R` for an `IRBuilder`: that of scripts, and functions and blocks as frames."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...base.errors import explain
from ...relax import expr as rx
from ...relax.block_builder import BlockBuilder
from ...relax.struct_info import StructInfo
from .. import relax as _relax
from ..parser.proxies import ObjectProxy, StructInfoProxy, TensorProxy, as_info
from .base import IRBuilder, IRBuilderFrame

py_print = print


class FunctionFrame(IRBuilderFrame):
    """`with R.function()`: a graph function."""

    def __init__(self, is_pure: bool, is_private: bool) -> None:
        super().__init__()
        self.name = ""
        self.is_pure, self.is_private = is_pure, is_private
        self.attrs: dict[str, Any] = {}
        self.params: list[rx.Var] = []
        self.ret_struct_info: StructInfo | None = None
        self.result: Any = None
        self.builder = BlockBuilder()
        self.scope: Any = None
        self.flow: DataflowFrame | None = None

    def open(self) -> None:
        self.scope = self.builder.function("main", attrs={}, pure=self.is_pure, private=True)
        self.scope.__enter__()
        IRBuilder.current().results.append(self)

    def close(self, failed: bool) -> None:
        results = IRBuilder.current().results
        results.remove(self)
        if failed or self.result is None:
            self.scope.__exit__(None if not failed else RuntimeError, None, None)
            return
        var = self.builder.emit_func_output(self.result, list(self.params))
        self.scope.__exit__(None, None, None)
        function = self.builder.get()[var]
        said = self.ret_struct_info
        if said is not None and not said.is_base_of(function.ret_struct_info):
            function = function.replace(ret_struct_info=said)
        attrs = self.attrs
        if self.name and not self.is_private and "global_symbol" not in attrs:
            attrs = {"global_symbol": self.name, **attrs}
        IRBuilder.current().add(self.name, function.with_attrs(attrs) if attrs else function)


class DataflowFrame(IRBuilderFrame):
    """`with R.dataflow()`: `output_vars` are its results."""

    def __init__(self) -> None:
        super().__init__()
        self.function = _frame("R.dataflow")
        self.scope = self.function.builder.dataflow()
        self.output_vars: tuple[rx.Var, ...] = ()

    def open(self) -> None:
        self.function.flow = self
        self.scope.__enter__()

    def close(self, failed: bool) -> None:
        self.function.flow = None
        self.scope.__exit__(RuntimeError if failed else None, None, None)


def _frame(name: str) -> FunctionFrame:
    open_ones = [f for f in IRBuilder.current().results if isinstance(f, FunctionFrame)]
    if not open_ones:
        raise ValueError(explain(f"{name} outside a function", instead="with R.function(): ..."))
    return open_ones[-1]


def function(is_pure: bool = True, is_private: bool = False) -> FunctionFrame:
    """A graph function."""
    return FunctionFrame(is_pure, is_private)


def func_name(name: str) -> None:
    """Name the function."""
    _frame("R.func_name").name = name


def func_attr(attrs: dict[str, Any]) -> None:
    """Attributes of the function."""
    _frame("R.func_attr").attrs.update(attrs)


def arg(name: str, struct_info: StructInfo | StructInfoProxy | type[ObjectProxy]) -> rx.Var:
    """A parameter."""
    frame = _frame("R.arg")
    var = rx.Var(name, as_info(struct_info))
    frame.params.append(var)
    frame.builder._define(var)
    return var


def func_ret_struct_info(ret_sinfo: TensorProxy | type[ObjectProxy]) -> None:
    """Return a value from the function."""
    _frame("R.func_ret_struct_info").ret_struct_info = as_info(ret_sinfo)


def func_ret_value(value: rx.Expr) -> None:
    """The result of the function."""
    _frame("R.func_ret_value").result = rx.as_expr(value)


def dataflow() -> DataflowFrame:
    """A block without side effects or control flow."""
    return DataflowFrame()


def output(*vars: rx.Var) -> None:
    """The results of the dataflow block that is open."""
    frame = _frame("R.output")
    if frame.flow is None:
        raise ValueError(explain("R.output outside a dataflow block"))
    for var in vars:
        var.__class__ = rx.Var  # known to be a result only now
    frame.flow.output_vars = vars


def emit(value: rx.Expr, annotate_struct_info: TensorProxy | None = None) -> rx.Var:
    """Bind a value to a fresh variable."""
    var = _frame("R.emit").builder.emit(rx.as_expr(value))
    if annotate_struct_info is not None:
        var.struct_info = as_info(annotate_struct_info)
    return var


def emit_te(func: Callable[..., Any], *args: Any, **kwargs: dict[str, Any]) -> rx.Call:
    """A `call_tir` of the PrimFunc made from a tensor expression function."""
    return _frame("R.emit_te").builder.call_te(func, *args, **kwargs)


def emit_match_cast(value: rx.Expr, struct_info: TensorProxy) -> rx.Var:
    """Bind a value, checked at run time against a struct info."""
    return _frame("R.emit_match_cast").builder.match_cast(value, as_info(struct_info))


def emit_var_binding(value: rx.VarBinding) -> rx.Var:
    """Add a binding that is made already."""
    _frame("R.emit_var_binding").builder.emit_normalized(value)
    return value.var


def __getattr__(name: str) -> Any:
    return getattr(_relax, name)


_FUNCTIONS = (
    arg, dataflow, emit, emit_match_cast, emit_te, emit_var_binding, func_attr, func_name,
    func_ret_struct_info, func_ret_value, output,
)  # fmt: skip
# The names that scripts' `R` has from here, and when.
BUILDING = ({f.__name__: f for f in _FUNCTIONS}, IRBuilder.is_in_scope)
