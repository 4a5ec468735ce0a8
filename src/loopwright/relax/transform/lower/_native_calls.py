"""Calls in native graph functions: of kernels, packed functions and other graph functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ....base.span import Span
from ....ir.dtype import DataType
from ....ir.expr import GlobalVar
from ....ir.functor import nodes_of
from ....ir.module import IRModule
from ....ir.prim_expr import Call as PrimCall
from ....ir.prim_expr import PrimExpr, StringImm, Var
from ....ir.prim_op import cast, const
from ....ir.structural import structural_equal
from ....ir.variables import substitute
from ....runtime.signature import Signature
from ....tir import stmt as st
from ....tir.analysis.in_place import declared
from ....tir.function import PrimFunc
from ....tir.signature import NATIVE_ENTRY
from ....tir.transform.lower.unpack_signatures import symbolic_dims
from ... import expr as rx
from ...struct_info import TensorStructInfo
from ._native_values import Nothing, NotNative, Steps, TensorAt, kernels_of


class Calls:
    """The part of a conversion that emits calls. functions: those of the module; the graph functions that it calls
    have been converted, if they could be. env, values: what variables are in native code, and in the graph. outputs:
    the results of the function, by the variable whose memory they are. free: results of graph functions that nothing
    reads any more."""

    functions: Mapping[GlobalVar, Any]
    env: dict[rx.Var, Any]
    values: dict[rx.Var, Any]
    outputs: dict[rx.Var, Var]
    func: rx.Function
    free: list[rx.Var]
    state: Steps
    aliases: dict[Any, Any]
    apart: bool

    def value(self, value: rx.Expr, var: rx.Var | None = None) -> Any:
        """A value of the graph in native code."""
        raise NotImplementedError

    def take(self, size: PrimExpr, name: str) -> PrimExpr:
        """A pointer to new memory."""
        raise NotImplementedError

    def bytes_of(self, dims: tuple[PrimExpr, ...], dtype: str) -> PrimExpr:
        """The size of a tensor."""
        raise NotImplementedError

    def owner(self, value: Any) -> rx.Var | None:
        """The variable whose memory holds a value, looking through views."""
        raise NotImplementedError

    def packed(self, symbol: str, args: list[Any], span: Span | None) -> Nothing:
        """Call a registered function, or an external code generator's, with the tensors."""
        packed = [self.packed_argument(self.value(a)) for a in args]
        called = PrimCall("int32", "tir.call_packed", [StringImm(symbol), *packed], span)
        self.state.do(st.Evaluate(called, span=span))
        return Nothing(symbol)

    def packed_argument(self, value: PrimExpr | TensorAt | Sequence[PrimExpr]) -> PrimExpr:
        """The argument of a packed call for a value of the graph."""
        if isinstance(value, PrimExpr):
            return value
        if not isinstance(value, TensorAt):
            raise NotNative(f"a packed call with {type(value).__name__.strip('_').lower()}")
        dtype = DataType(value.dtype)
        shape = PrimCall("handle", "tir.tvm_stack_make_shape", list(value.dims))
        parts = [value.pointer, shape, const(0, "int32"), const(len(value.dims), "int32")]
        zero = [const(0, dtype), const(0, "int64")]
        return PrimCall("handle", "tir.tvm_stack_make_array", [*parts, *zero])

    def kernel(self, gvar: GlobalVar, args: list[Any], span: Span | None) -> None:
        func = self.functions.get(gvar)
        if not isinstance(func, PrimFunc):
            raise NotNative(f"call of the graph function {gvar.name_hint}")
        values: list[Any] = []
        for a in args:
            value = self.value(a)
            values.extend(value if isinstance(value, (tuple, list)) else [value])
        passed, dims = [], {}
        if len(values) != len(func.params):
            raise NotNative(f"{gvar.name_hint} takes {len(func.params)} arguments")
        for param, v in zip(func.params, values, strict=True):
            buffer = func.buffer_map.get(param)
            if buffer is None:
                passed.append(cast(param.dtype, v))
                dims[param] = passed[-1]
                continue
            passed.append(v.pointer)
            for have, want in zip(v.dims, buffer.shape, strict=True):
                if isinstance(want, Var):
                    dims.setdefault(want, cast(want.dtype, have))
        self.aliases.update((passed[written], passed[read]) for written, read in declared(func))
        extra = []
        for symbol in symbolic_dims(func):
            if symbol not in dims:
                raise NotNative(f"{gvar.name_hint}: dimension {symbol.name} cannot be found")
            extra.append(dims[symbol])
        called = PrimCall("void", gvar, [*passed, *extra], span)
        self.state.do(st.Evaluate(called, span=span))

    def graph_function(self, call: rx.Call, gvar: GlobalVar, var: rx.Var | None) -> Any:
        """Call a native graph function, with memory for its results."""
        func = self.functions[gvar]
        if self.apart and nodes_of(func.body, st.Allocate):  # the memory of each entry is planned
            raise NotNative(f"call of the graph function {gvar.name_hint}, which needs memory")
        entry = Signature.from_lists(func.attrs[NATIVE_ENTRY])
        values = [self.value(a) for a in call.args]
        symbols: dict[Var, PrimExpr] = {}
        for param, v in zip(func.params, values, strict=False):
            if not isinstance(v, TensorAt):
                symbols[param] = v
        for argument, v in zip(entry.params, values, strict=True):
            pairs = zip(argument.dims or (), v.dims if isinstance(v, TensorAt) else ())
            symbols |= {own: dim for own, dim in pairs if isinstance(own, Var)}
        if missing := [symbol.name for symbol in entry.symbols if symbol not in symbols]:
            raise NotNative(f"{gvar.name_hint}: dimension {missing[0]} cannot be found")
        results = []
        for spec in entry.results:
            dims = tuple(substitute(d, symbols) for d in spec.dims or ())
            whole = var if isinstance(call.struct_info, TensorStructInfo) else None
            pointer = self.result_memory(self.bytes_of(dims, spec.dtype), whole, spec.name)
            results.append(TensorAt(pointer, dims, spec.dtype, whole))
        pointers = [v.pointer if isinstance(v, TensorAt) else v for v in (*values, *results)]
        extra = [symbols[symbol] for symbol in entry.symbols]
        self.state.do(st.Evaluate(PrimCall("void", gvar, [*pointers, *extra], call.span)))
        return _in_tree(entry.tree, results)

    def is_native_call(self, value: rx.Expr) -> bool:
        """Whether a graph function is called that has become native."""
        called = isinstance(value, rx.Call) and isinstance(value.op, GlobalVar)
        return called and NATIVE_ENTRY in self.functions[value.op].attrs

    def result_memory(self, size: PrimExpr, var: rx.Var | None, name: str) -> PrimExpr:
        """Where a graph function that is called writes a result: to the caller's own result, over one of the
        same size that nothing reads any more, or to new memory. var: that is bound to it; None: to a part of it."""
        if var is None or var in self.outputs:
            return self.take(size, name) if var is None else self.outputs[var]
        for k, other in enumerate(self.free):
            old = self.env[other]
            if structural_equal(self.bytes_of(old.dims, old.dtype), size):
                del self.free[k]
                return old.pointer
        return self.take(size, var.name_hint)

    def find_last_uses(self) -> dict[rx.Var, list[rx.Var]]:
        """By variable: the results of graph functions that its binding is the last to use."""
        last: dict[rx.Var, rx.Var] = {}
        calls = {var for var, value in self.values.items() if self.is_native_call(value)}
        for var, value in self.values.items() if calls else ():
            for used in (v for v in nodes_of(value, rx.Var) if v in self.values):
                owner = self.owner(used)
                if owner in calls:
                    last[owner] = var
        stay = {
            self.owner(v)
            for value in (*self.values.values(), self.func.body.body)
            for v in nodes_of(value, rx.Var)
            if isinstance(value, (rx.Tuple, rx.Var))
        }
        uses: dict[rx.Var, list[rx.Var]] = {}
        for owner, var in last.items():
            whole = isinstance(owner.struct_info, TensorStructInfo)
            if whole and owner not in stay:
                uses.setdefault(var, []).append(owner)
        return uses


def callees_first(mod: IRModule) -> list[GlobalVar]:
    """The graph functions, each after those that it calls, unless they are recursive."""
    order: dict[GlobalVar, None] = {}
    seen: set[GlobalVar] = set()

    def visit(gvar: GlobalVar) -> None:
        func = mod.functions.get(gvar)
        if gvar in seen or not isinstance(func, rx.Function):
            return
        seen.add(gvar)
        for block in func.body.blocks:
            for binding in block.bindings:
                for called in kernels_of(binding.value):
                    visit(called)
        order[gvar] = None

    for gvar in mod.functions:
        visit(gvar)
    return list(order)


def _in_tree(tree: Any, results: Sequence[TensorAt]) -> Any:
    """Results in the form of a signature's tree: an index, or a list of trees; None: a single tensor."""
    if isinstance(tree, list):
        return [_in_tree(part, results) for part in tree]
    return results[0 if tree is None else int(tree)]
