"""A hand-written PrimFunc as the lowering of an operator.

The kernel's buffers are the operator's tensors in order, then its results; a scalar parameter is
the operator's attribute of that name. Symbolic extents of the kernel are bound to the call's,
so one kernel serves every shape; a kernel that does not fit a call declines it with a
reason. A kernel of a back end's pattern need not have buffers for the pattern's numbers, nor, if a
function makes it for the call, for its weights. The body may contain anything: several blocks, intermediate buffers, calls of C functions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ....arith import Analyzer
from ....base.errors import LoopwrightError, explain
from ....base.foreign import named_errors
from ....base.span import Span
from ....ir.prim_expr import IntImm, PrimExpr, Var
from ....ir.prim_op import const
from ....ir.target import Target
from ....ir.variables import substitute
from ....tir.buffer import Buffer
from ....tir.function import PrimFunc
from ...block_builder import BlockBuilder
from ...expr import Call, Constant, Expr, ShapeExpr, Tuple
from ...op.base import call_tir
from ...struct_info import StructInfo, TensorStructInfo, TupleStructInfo

Maker = Callable[[Call], PrimFunc | None]


class Kernel:
    """The rule f(bb, call) that calls a kernel.

    tir: the PrimFunc, or a function (call) -> PrimFunc for one that depends on dtypes, ranks or
        attributes; it returns None to decline.
    """

    def __init__(self, op_name: str, tir: PrimFunc | Maker) -> None:
        if not isinstance(tir, PrimFunc) and not callable(tir):
            what = f"tir= of {op_name} is a PrimFunc, or a function (call) -> PrimFunc"
            raise TypeError(explain(what, got=repr(tir)))
        self.op_name = op_name
        self.tir = tir
        self.name = _name_of(tir, op_name)
        self._last: tuple[Call, Target | None, tuple[PrimFunc, list[Any]] | str] | None = None

    def __str__(self) -> str:
        return f"kernel {self.name}"

    def __call__(self, bb: BlockBuilder, call: Call) -> Any:
        fit = self.fit(call)
        if isinstance(fit, str):
            return None
        func, tensors = fit
        private = func.without_attr("global_symbol") if "global_symbol" in func.attrs else func
        gvar = bb.add_func(private, str(func.attrs.get("global_symbol", self.name)))
        return call_tir(gvar, Tuple(tensors), _out_info(call))

    def refusal(self, call: Call) -> str | None:
        """Why the kernel does not fit a call; None if it does."""
        fit = self.fit(call)
        return fit if isinstance(fit, str) else None

    def fit(self, call: Call) -> tuple[PrimFunc, list[Any]] | str:
        """The kernel for a call and the tensors to pass, or why it does not fit.

        Raises LoopwrightError if the inputs fit but the results do not: then the kernel is wrong.
        """
        target = Target.current(allow_none=True)
        if self._last is None or self._last[0] is not call or self._last[1] is not target:
            self._last = call, target, self._fit(call)
        return self._last[2]

    def _fit(self, call: Call) -> tuple[PrimFunc, list[Any]] | str:
        func: Any = self.tir
        if not isinstance(self.tir, PrimFunc):
            what = f"the function that makes the kernel {self.name} of {self.op_name}"
            with named_errors(what, self.tir, lambda: call.span):
                func = self.tir(call)
        if func is None:
            return "the function that makes the kernel answered None"
        if not isinstance(func, PrimFunc):
            what = f"the function that makes the kernel of {self.op_name} returns a PrimFunc"
            raise TypeError(explain(what, got=repr(func), instead="or None for: not mine"))
        outs = _results(call)
        buffers = func.buffers
        tensors = self._tensors(call, len(buffers) - len(outs))
        infos = [t.struct_info for t in tensors]
        if len(buffers) != len(infos) + len(outs):
            have = f"{len(infos)} tensors in and {len(outs)} out"
            return f"the kernel has {len(buffers)} buffers, the call {have}"
        table: dict[Var, PrimExpr] = {}
        analyzer = Analyzer()
        for buffer, info in zip(buffers, infos, strict=False):
            why = _match(buffer, info, table, analyzer)
            if why:
                return why
        for buffer, info in zip(buffers[len(infos) :], outs, strict=True):
            why = _match(buffer, info, table, analyzer)
            if why:
                what = f"the kernel {self.name} takes the inputs of {self.op_name}, but {why}"
                hint = f"declare the result as {info}"
                raise LoopwrightError(explain(what, instead=hint, span=_span(func, call)))
        scalars = self._scalars(func, call, table)
        if isinstance(scalars, str):
            return scalars
        func = func.specialize(scalars) if scalars else func
        literals = {v: const(e.value, v.dtype) for v, e in table.items() if isinstance(e, IntImm)}
        if literals:
            func = substitute(func, literals)
        return func, tensors

    def _tensors(self, call: Call, count: int) -> list[Any]:
        """The tensors passed to a kernel of `count` inputs: all; for a back end's pattern, those
        that vary, where that is their number. The kernel then has the others built in: numbers of the
        pattern, or weights that it was made for."""
        tensors = [leaf for a in call.args for leaf in _leaves(a)]
        if len(tensors) == count or call.attrs is None or "composite" not in call.attrs:
            return tensors
        generated = not isinstance(self.tir, PrimFunc)
        vary = [
            t
            for t in tensors
            if not isinstance(t, Constant) or (t.struct_info.ndim and not generated)
        ]
        return vary if len(vary) == count else tensors

    def _scalars(
        self, func: PrimFunc, call: Call, table: dict[Var, PrimExpr]
    ) -> dict[Var, Any] | str:
        """The values of the kernel's scalar parameters: the operator's attributes."""
        attrs = {} if call.attrs is None else dict(call.attrs.items())
        scalars: dict[Var, Any] = {}
        for param in func.params:
            if param in func.buffer_map:
                continue
            value = attrs.get(param.name)
            if isinstance(value, (bool, int, float)):
                scalars[param] = const(value, param.dtype)
            elif param in table and isinstance(table[param], IntImm):
                scalars[param] = table[param]
            else:
                return f"the operator has no number attribute {param.name}"
        return scalars


def _match(buffer: Buffer, info: StructInfo, table: dict[Var, PrimExpr], analyzer: Analyzer) -> str:
    """Bind the extents of a kernel's buffer to a tensor's; return the reason if they do not fit."""
    name = buffer.name
    if not isinstance(info, TensorStructInfo):
        return f"{name} is a buffer, the argument is {info}"
    if str(buffer.dtype) != str(info.dtype):
        return f"{name} is {buffer.dtype}, the tensor {info.dtype}"
    shape = info.get_shape()
    if shape is None:
        return f"the shape of the tensor for {name} is not known"
    if len(shape) != len(buffer.shape):
        return f"{name} has {len(buffer.shape)} dimensions, the tensor {len(shape)}"
    for axis, (want, have) in enumerate(zip(buffer.shape, shape, strict=True)):
        if isinstance(want, Var) and want not in table:
            table[want] = have
            continue
        expected = substitute(want, table)
        if not analyzer.can_prove_equal(expected, have):
            return f"axis {axis} of {name} is {_plain(expected)}, of the tensor {_plain(have)}"
    return ""


def _plain(dim: PrimExpr) -> str:
    return str(getattr(dim, "value", dim))


def _leaves(arg: Expr) -> list[Any]:
    """The tensors in an argument: itself, a tuple's, none for a shape (its extents are bound)."""
    if isinstance(arg, Tuple):
        return [leaf for f in arg.fields for leaf in _leaves(f)]
    return [] if isinstance(arg, ShapeExpr) else [arg]


def _results(call: Call) -> list[Any]:
    info = call.struct_info
    return list(info.fields) if isinstance(info, TupleStructInfo) else [info]


def _out_info(call: Call) -> Any:
    info = call.struct_info
    return list(info.fields) if isinstance(info, TupleStructInfo) else info


def _name_of(tir: PrimFunc | Callable[..., Any], op_name: str) -> str:
    if isinstance(tir, PrimFunc):
        symbol = tir.attrs.get("global_symbol") if tir.attrs else None
        name = str(symbol) if symbol is not None else getattr(tir, "__name__", "")
    else:
        name = getattr(tir, "__name__", "")
    return name if name.isidentifier() else op_name.rsplit(".", 1)[-1] + "_kernel"


def _span(func: PrimFunc, call: Call) -> Span | None:
    return func.span if func.span is not None else call.span
