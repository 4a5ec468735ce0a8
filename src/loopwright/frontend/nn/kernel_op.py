"""Operators that call a kernel or function of the user's own, or one that prints."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ... import relax
from ...base.errors import explain
from ...ir.prim_expr import FloatImm, PrimExpr
from ...ir.prim_expr import Var as TirVar
from ...relax.struct_info import ShapeStructInfo
from ...runtime.module import Module
from ...tir.function import PrimFunc
from .core import Tensor, as_operand, wrap_nested
from .exporter import Exporter


def _te_argument(value: Tensor | PrimExpr | Sequence[Tensor | PrimExpr]) -> Any:
    if isinstance(value, (list, tuple)):
        return [_te_argument(v) for v in value]
    return value._expr if isinstance(value, Tensor) else value


def tensor_expr_op(
    tensor_expr_func: Callable[..., Any],
    name_hint: str,
    args: list[Any],
    *,
    attrs: dict[str, Any] | None = None,
) -> Any:
    """A kernel given as a tensor expression function of the arguments.

    >>> class Net(nn.Module):
    ...     def forward(self, x):
    ...         return op.tensor_expr_op(lambda x: te.compute(x.shape, lambda i: x[i] * 2.0), "double", [x])
    >>> spec = {"forward": {"x": nn.spec.Tensor([4], "float32")}}
    >>> Net().export_tvm(spec)[0]["forward"].ret_struct_info
    R.Tensor((4,), dtype="float32")
    """
    builder = Exporter.current().builder
    call = builder.call_te(
        tensor_expr_func,
        *_te_argument(args),
        primfunc_name_hint=name_hint,
        primfunc_attrs=attrs or {},
    )
    return wrap_nested(call, "")


def _split_args(args: Any) -> tuple[list[Any], list[TirVar]]:
    """(graph arguments, tir variables)."""
    items = list(args) if isinstance(args, (list, tuple)) else [args]
    symbols = [a for a in items if isinstance(a, TirVar)]
    return [a._expr for a in items if not isinstance(a, TirVar)], symbols


def _out_infos(out: Tensor | ShapeStructInfo | Sequence[Tensor]) -> Any:
    if isinstance(out, (list, tuple)):
        return [_out_infos(o) for o in out]
    return out._expr.struct_info if isinstance(out, Tensor) else out


def tensor_ir_op(
    func: PrimFunc,
    name_hint: str,
    args: Sequence[Tensor | PrimExpr],
    out: Tensor | Sequence[Tensor],
) -> Any:
    """A kernel given as a PrimFunc in destination-passing style; `out` describes its results by
    placeholders. tir.Vars among the arguments come last.

    >>> A = te.placeholder((4,), name="A")
    >>> kernel = te.create_prim_func([A, te.compute((4,), lambda i: A[i] + 1.0, "B")])
    >>> class Net(nn.Module):
    ...     def forward(self, x):
    ...         return op.tensor_ir_op(kernel, "add_one", [x], nn.Tensor.placeholder([4], "float32"))
    >>> spec = {"forward": {"x": nn.spec.Tensor([4], "float32")}}
    >>> Net().export_tvm(spec)[0]["forward"].ret_struct_info
    R.Tensor((4,), dtype="float32")
    """
    builder = Exporter.current().builder
    tensors, symbols = _split_args(args)
    gvar = builder.add_func(func, name_hint)
    call = relax.call_tir(gvar, tensors, _out_infos(out), symbols or None)
    return wrap_nested(call, name_hint)


def tensor_ir_inplace_op(
    func: PrimFunc,
    name_hint: str,
    args: Sequence[Tensor | PrimExpr],
    inplace_indices: int | list[int],
    out: Sequence[Tensor],
) -> Any:
    """`tensor_ir_op` that writes output i over argument `inplace_indices[i]`.

    >>> @T.prim_func(private=True)
    ... def double(A: T.Buffer((4,), "float32")):
    ...     for i in range(4):
    ...         A[i] = A[i] * T.float32(2.0)
    >>> class Net(nn.Module):
    ...     def forward(self, x):
    ...         return op.tensor_ir_inplace_op(double, "double", [x], [0], [x])
    >>> spec = {"forward": {"x": nn.spec.Tensor([4], "float32")}}
    >>> Net().export_tvm(spec)[0]["forward"].ret_struct_info
    R.Tensor((4,), dtype="float32")
    """
    builder = Exporter.current().builder
    tensors, symbols = _split_args(args)
    gvar = builder.add_func(func, name_hint)
    infos = _out_infos(out)
    call = relax.call_tir_inplace(gvar, tensors, inplace_indices, infos, symbols or None)
    return wrap_nested(call, name_hint)


def extern(name: str, args: Sequence[Any], out: Tensor | ShapeStructInfo) -> Any:
    """Call a function by name in destination-passing style; `out` describes its results by
    placeholders. Python's floats are passed as float64.

    >>> x = nn.Tensor.placeholder([2, 4], "float32")
    >>> op.extern("my_function", [x, 0.5], out=x)
    Tensor([2, 4], "float32")
    """
    operands = [
        FloatImm("float64", a) if isinstance(a, float) else getattr(a, "_expr", a) for a in args
    ]
    return wrap_nested(relax.call_dps_packed(name, operands, _out_infos(out)), name)


class ExternModule:
    """Functions of a library, with the types of their results: `external["scale"](x)` calls one.

    symbols: by name, a function of the arguments that returns placeholders of the results.
    library: where the functions are defined; a class of its own may load it in `load`.

    Pass it to `add_extern`, so that the export returns it for `AttachExternModules`.

    >>> x = nn.Tensor.placeholder([2, 4], "float32")
    >>> nn.ExternModule({"scale": lambda x, factor: x})["scale"](x, 0.5)
    Tensor([2, 4], "float32")
    """

    def __init__(
        self, symbols: Mapping[str, Callable[..., Any]], library: Module | None = None
    ) -> None:
        self.symbols, self.library = dict(symbols), library

    def __getitem__(self, name: str) -> Callable[..., Any]:
        """The function of that name. Raises KeyError where it is not among the symbols."""
        infer = self.symbols[name]
        return lambda *args: extern(name, args, infer(*args))

    def load(self) -> Any:
        """The `ExternLibrary` or `runtime.Module` that has the functions."""
        if self.library is None:
            what = "nothing says where the functions are"
            raise NotImplementedError(
                explain(what, got=", ".join(self.symbols), instead="pass library=, or write load()")
            )
        return self.library


# ---------------------------------------------------------------- debugging


def debug_func(name: str, *args: Any, _line_info: str | None = None) -> None:
    """Call the runtime function `name(line, *args)` at this place. Raises RuntimeError unless the
    module is exported with debug=True.

    >>> class Net(nn.Module):
    ...     def forward(self, x):
    ...         op.debug_func("my_function", x, 3)
    ...         return x
    >>> spec = {"forward": {"x": nn.spec.Tensor([4], "float32")}}
    >>> sorted(g.name_hint for g in Net().export_tvm(spec, debug=True)[0].functions)
    ['_initialize_effect', 'forward']
    """
    exporter = Exporter.current()
    if exporter.io_effect is None:
        what = f"{name} needs the effect that debugging passes through"
        raise RuntimeError(explain(what, instead="export the module with debug=True"))
    operands = [a if isinstance(a, (str, int, float)) else as_operand(a) for a in args]
    line = _caller_line() if _line_info is None else _line_info
    exporter.io_effect.call(exporter.builder, name, line, operands)


def print_(tensor: Tensor) -> None:
    """Print a tensor at run time, with the line of this call: see `debug_func`.

    >>> class Net(nn.Module):
    ...     def forward(self, x):
    ...         op.print_(x)
    ...         return x
    >>> spec = {"forward": {"x": nn.spec.Tensor([4], "float32")}}
    >>> "debug_print" in Net().export_tvm(spec, debug=True)[0].script()
    True
    """
    debug_func("vm.builtin.debug_print", tensor, _line_info=_caller_line())


def _caller_line() -> str:
    """Where in the user's code, outside this file, an operator is called."""
    frame = inspect.currentframe()
    while frame is not None and frame.f_code.co_filename == __file__:
        frame = frame.f_back
    return "?" if frame is None else f"{frame.f_code.co_filename}:{frame.f_lineno}"
