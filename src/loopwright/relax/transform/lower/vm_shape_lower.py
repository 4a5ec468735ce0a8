"""VMShapeLower: stores symbolic dimensions in a shape heap.

Each symbolic variable, and each expression of them that is used, has a slot. At the entry the
arguments are checked against the parameters' struct infos and their dimensions stored; expressions
are computed by a PrimFunc `shape_func`; shapes and scalars are read from the heap at their
uses. A match_cast checks and stores in the same way; the result is checked as well.

Before (-) and after (+)::

      @R.function
      def main(x: R.Tensor(("n", 2), dtype="float32")) -> R.Shape(["n"]):
          n = T.int64()
          R.func_attr({"relax.force_pure": True})
    -     s: R.Shape([n]) = R.shape([n])
    +     shape_heap: R.Tensor(dtype="int64", ndim=1) = R.call_builtin_with_ctx("vm.builtin.alloc_shape_heap", (R.prim_value(1),), sinfo_args=(R.Tensor(dtype="int64", ndim=1),))
    +     _: R.Tuple = R.call_packed("vm.builtin.check_tensor_info", x, R.prim_value(2), R.dtype("float32"), R.str("ErrorContext(fn=main, loc=param[0], param=x, annotation=R.Tensor((n, 2), dtype=\\"float32\\")) "), sinfo_args=(R.Tuple,))
    +     _1: R.Tuple = R.call_packed("vm.builtin.match_shape", x, shape_heap, R.prim_value(2), R.prim_value(1), R.prim_value(0), R.prim_value(0), R.prim_value(2), R.str("ErrorContext(fn=main, loc=param[0], param=x, annotation=R.Tensor((n, 2), dtype=\\"float32\\")) "), sinfo_args=(R.Tuple,))
    +     s: R.Shape(ndim=1) = R.call_packed("vm.builtin.make_shape", shape_heap, R.prim_value(1), R.prim_value(1), R.prim_value(0), sinfo_args=(R.Shape(ndim=1),))
    +     _2: R.Tuple = R.call_packed("vm.builtin.match_shape", s, shape_heap, R.prim_value(1), R.prim_value(3), R.prim_value(0), R.str("ErrorContext(fn=main, loc=return, annotation=R.Shape([n])) "), sinfo_args=(R.Tuple,))
          return s
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ....base.errors import explain
from ....ir.expr import BaseExpr
from ....ir.functor import rewrite
from ....ir.op import Op
from ....ir.prim_expr import IntImm, PrimExpr
from ....ir.prim_expr import StringImm as PrimString
from ....ir.prim_expr import Var as TirVar
from ....ir.prim_op import cast, const
from ....ir.structural import StructuralKey
from ....ir.transform import IRModule, ModulePass, PassContext
from ....ir.variables import vars_in
from ....tir.buffer import decl_buffer
from ....tir.expr import BufferLoad
from ....tir.function import PrimFunc
from ....tir.stmt import BufferStore, Stmt, seq
from ... import expr as rx
from ... import struct_info as si
from ...analysis import struct_info_base_check
from ...functor import GraphRewriter
from ...op.base import call_builtin_with_ctx, call_packed, null_value
from ...relations import BaseCheckResult
from ..queries import functions_of

# How the machine reads its arguments when it makes or matches a shape.
_USE_IMM, _LOAD = 0, 1
_EQUALS_IMM, _STORE, _IGNORE, _EQUALS_LOAD = 0, 1, 2, 3
_VOID = si.TupleStructInfo([])


class VMShapeLower(ModulePass, repr=False):
    """Store symbolic dimensions in a shape heap.

    emit_err_ctx: pass the checks their location, for error messages.
    """

    emit_err_ctx: bool = True

    def run(self, mod: IRModule, ctx: PassContext) -> IRModule:
        work = _Lower(mod, self.emit_err_ctx)
        changed = {g: work.lower(g.name_hint, f) for g, f in functions_of(mod)}
        return work.builder.get().with_functions(changed)


@dataclass
class _Match:
    """A value whose dimensions must be matched with expressions."""

    value: Any
    dims: tuple[PrimExpr, ...]
    context: str
    scalar: bool = False


class _Lower(GraphRewriter):
    def __init__(self, mod: IRModule, contexts: bool) -> None:
        super().__init__(mod)
        self.contexts = contexts

    def lower(self, name: str, func: rx.Function) -> rx.Function:
        """The function with its symbols in a heap."""
        self.name = name
        self.slots: dict[Any, int] = {}
        self.exprs: list[PrimExpr] = []
        self.ready: set[int] = set()
        self.var_map = {}
        self._find_slots(func)
        builder = self.builder
        with builder.scope(func.params):
            builder._begin_binding_block()
            self.heap = builder.emit(self._heap(), "shape_heap")
            matches: list[_Match] = []
            for i, param in enumerate(func.params):
                info = param.struct_info
                where = f"loc=param[{i}], param={param.name_hint}, annotation={info}"
                self.check(param, info, si.ObjectStructInfo(), self.context(where), matches)
            self.match(matches)
            prologue = builder._end_block()
            blocks = [self.block(b) for b in func.body.blocks]
            builder._begin_binding_block()
            body = builder.normalize_argument(self.value(func.body.body))
            matches = []
            info = func.ret_struct_info
            context = self.context(f"loc=return, annotation={info}")
            self.check(body, info, body.struct_info, context, matches)
            self.match(matches)
            epilogue = builder._end_block()
            blocks_left = [b for b in (prologue, *blocks, epilogue) if b.bindings]
            new = builder.normalize(rx.SeqExpr(blocks_left, body))
        return rx.Function(
            func.params, new, func.ret_struct_info, func.is_pure, func.attrs, func.span
        )

    def context(self, where: str) -> str:
        """The location text for a failed check."""
        return f"ErrorContext(fn={self.name}, {where}) " if self.contexts else ""

    # ------------------------------------------------------------------ slots

    def _find_slots(self, func: rx.Function) -> None:
        for param in func.params:
            self._slots_of_info(param.struct_info)
        stack: list[Any] = [func.body]
        while stack:
            node = stack.pop(0)
            if isinstance(node, rx.SeqExpr):
                for block in node.blocks:
                    for binding in block.bindings:
                        if isinstance(binding, rx.MatchCast):
                            self._slots_of_info(binding.struct_info)
                        stack.append(binding.value)
                stack.append(node.body)
            elif isinstance(node, (rx.ShapeExpr, rx.PrimValue)):
                self._slots_of_info(node.struct_info)
            elif isinstance(node, rx.Call):
                stack[:0] = list(node.args)
            elif isinstance(node, rx.Tuple):
                stack[:0] = list(node.fields)
            elif hasattr(node, "true_branch"):
                stack[:0] = [node.cond, node.true_branch, node.false_branch]
        self._slots_of_info(func.ret_struct_info)

    def _slots_of_info(self, info: si.StructInfo | None) -> None:
        for dim in _dims(info):
            for var in vars_in(dim):
                self._slot(var)
        for dim in _dims(info):
            self._slot(dim)

    def _slot(self, dim: PrimExpr) -> int:
        key = dim if isinstance(dim, TirVar) else StructuralKey(dim, map_free_vars=False)
        slot = self.slots.get(key)
        if slot is None and not isinstance(dim, (IntImm, PrimString)):
            slot = self.slots[key] = len(self.exprs)
            self.exprs.append(dim)
        return -1 if slot is None else slot

    def _heap(self) -> rx.Call:
        if not self.exprs:
            return null_value()
        args = rx.Tuple([rx.PrimValue(len(self.exprs))])
        info = si.TensorStructInfo(None, "int64", ndim=1)
        return call_builtin_with_ctx("vm.builtin.alloc_shape_heap", args, sinfo_args=[info])

    # ------------------------------------------------------------------ checks

    def check(
        self,
        value: rx.Expr,
        info: Any,
        static: si.StructInfo | None,
        context: str,
        matches: list[_Match],
    ) -> None:
        """Emit the checks of a value's kind that are not known to hold, and collect its
        dimensions to be matched."""
        if static is not None and not _open(info, static):
            return
        kind_proven = static is not None and struct_info_base_check(info, static) in (
            BaseCheckResult.PASS,
            BaseCheckResult.FAIL_L2,
        )
        text = rx.StringImm(context)
        if isinstance(info, si.TensorStructInfo):
            if not kind_proven:
                self.packed("check_tensor_info", value, info.ndim, rx.DataTypeImm(info.dtype), text)
            dims = info.get_shape()
            if dims is not None and isinstance(info.shape, rx.ShapeExpr):
                matches.append(_Match(value, dims, context))
        elif isinstance(info, si.ShapeStructInfo):
            if not kind_proven:
                self.packed("check_shape_info", value, info.ndim, text)
            if info.values is not None:
                matches.append(_Match(value, info.values, context))
        elif isinstance(info, si.PrimStructInfo):
            if not kind_proven:
                self.packed("check_prim_value_info", value, rx.DataTypeImm(info.dtype), text)
            if info.value is not None and info.value.dtype.is_integer:
                matches.append(_Match(value, (info.value,), context, scalar=True))
        elif isinstance(info, si.TupleStructInfo):
            if not kind_proven:
                self.packed("check_tuple_info", value, len(info.fields), text)
            for i, field in enumerate(info.fields):
                if isinstance(field, si.ObjectStructInfo):
                    continue
                inner = static.fields[i] if isinstance(static, si.TupleStructInfo) else None
                if inner is not None and not _open(field, inner):
                    continue
                item = self.builder.emit(self.field(value, i))
                self.check(item, field, inner, context, matches)
        elif isinstance(info, si.FuncStructInfo) and not kind_proven:
            self.packed("check_func_info", value, text)

    def field(self, value: Any, index: int) -> rx.Expr:
        """A field of a tuple, which may be known to be one since the check only."""
        if isinstance(value.struct_info, si.TupleStructInfo):
            return rx.TupleGetItem(value, index)
        args = [value, rx.PrimValue(index)]
        return call_packed("vm.builtin.tuple_getitem", *args, sinfo_args=[si.ObjectStructInfo()])

    def packed(self, name: str, *args: rx.Expr | int) -> None:
        """Emit a call of a builtin without a result."""
        operands = [rx.PrimValue(a) if isinstance(a, int) else a for a in args]
        self.builder.emit(call_packed(f"vm.builtin.{name}", *operands, sinfo_args=[_VOID]), "_")

    def match(self, matches: list[_Match]) -> None:
        """Emit the matching of dimensions; expressions are computed once their variables are
        known, and then compared."""
        waiting: list[_Match] = []
        for item in matches:
            codes: list[int] = []
            later = False
            for dim in item.dims:
                code, value = self.match_code(dim)
                later = later or (code == _IGNORE)
                codes += [code, value]
            if any(c != _IGNORE for c in codes[::2]):
                self.emit_match(item, codes)
            if later:
                waiting.append(item)
        self.compute()
        for item in waiting:
            codes = [c for dim in item.dims for c in self.match_code(dim)]
            left = [d for d, c in zip(item.dims, codes[::2], strict=True) if c == _IGNORE]
            if left:
                what = "a symbolic dimension is used before it is defined"
                raise ValueError(explain(what, got=f"{left[0]} in {item.context or self.name}"))
            self.emit_match(item, codes)

    def match_code(self, dim: PrimExpr) -> tuple[int, int]:
        """The match code of one dimension, in the current state."""
        if isinstance(dim, IntImm):
            return _EQUALS_IMM, dim.value
        slot = self._slot(dim)
        if slot in self.ready:
            return _EQUALS_LOAD, slot
        if isinstance(dim, TirVar):
            self.ready.add(slot)
            return _STORE, slot
        return _IGNORE, 0

    def emit_match(self, item: _Match, codes: list[int]) -> None:
        text = rx.StringImm(item.context)
        if item.scalar:
            self.packed("match_prim_value", item.value, self.heap, *codes, text)
            return
        self.packed("match_shape", item.value, self.heap, len(item.dims), *codes, text)

    def compute(self) -> None:
        """Compute the expressions whose variables are known."""
        todo = [
            (slot, expr)
            for slot, expr in enumerate(self.exprs)
            if slot not in self.ready
            and not isinstance(expr, TirVar)
            and all(self._slot(v) in self.ready for v in vars_in(expr))
        ]
        if not todo:
            return
        heap = decl_buffer((const(len(self.exprs), "int64"),), "int64", "H")

        def load(node: Op | PrimExpr) -> Any:
            if isinstance(node, TirVar) and node in self.slots:
                return BufferLoad(heap, [const(self.slots[node], "int64")])
            return None

        stores: list[Stmt] = []
        for slot, expr in todo:
            value = cast("int64", rewrite(expr, load))  # a condition is 0 or 1
            stores.append(BufferStore(heap, value, [const(slot, "int64")]))
            self.ready.add(slot)
        param = TirVar("H", "handle")
        func = PrimFunc([param], seq(*stores), None, {param: heap}, {"tir.is_host_func": True})
        gvar = self.builder.add_func(func, "shape_func")
        self.builder.emit(rx.Call(gvar, [self.heap]), "_")

    # ------------------------------------------------------------------ the body

    def binding(self, binding: rx.Binding) -> None:
        if not isinstance(binding, rx.MatchCast):
            super().binding(binding)
            return
        value = self.builder.normalize_argument(self.value(binding.value))
        info = binding.struct_info
        matches: list[_Match] = []
        site = f"loc={binding.span}, " if binding.span else ""
        context = self.context(f"match_cast, {site}annotation={info}")
        self.check(value, info, value.struct_info, context, matches)
        self.match(matches)
        self.builder.emit_normalized(binding.replace(value=value))

    def value(self, expr: BaseExpr) -> Any:
        if isinstance(expr, rx.ShapeExpr) and not all(isinstance(v, IntImm) for v in expr.values):
            args: list[Any] = [self.heap, len(expr.values)]
            for dim in expr.values:
                args += self.make_code(dim)
            info = si.ShapeStructInfo(ndim=len(expr.values))
            return self.heap_call("make_shape", args, info)
        if isinstance(expr, rx.PrimValue) and vars_in(expr.value):
            args = [self.heap, *self.make_code(expr.value)]
            return self.heap_call("make_prim_value", args, si.PrimStructInfo(value=expr.value))
        return super().value(expr)

    def heap_call(self, name: str, args: list[Any], info: si.StructInfo) -> rx.Call:
        values = [rx.PrimValue(a) if isinstance(a, int) else a for a in args]
        return call_packed(f"vm.builtin.{name}", *values, sinfo_args=[info])

    def make_code(self, dim: PrimExpr) -> list[int]:
        """The code that says where a dimension comes from."""
        if isinstance(dim, IntImm):
            return [_USE_IMM, dim.value]
        slot = self._slot(dim)
        if slot not in self.ready:
            self.compute()
        if slot not in self.ready:
            what = "a symbolic value is used before it is defined"
            raise ValueError(explain(what, got=f"{dim} in {self.name}"))
        return [_LOAD, slot]


def _dims(info: si.StructInfo | None) -> list[PrimExpr]:
    """The integer expressions in a struct info, in order."""
    if isinstance(info, si.TensorStructInfo):
        return list(info.get_shape() or ()) if isinstance(info.shape, rx.ShapeExpr) else []
    if isinstance(info, si.ShapeStructInfo):
        return list(info.values or ())
    if isinstance(info, si.PrimStructInfo) and info.value is not None:
        return [info.value] if info.value.dtype.is_integer else []
    if isinstance(info, si.TupleStructInfo):
        return [d for field in info.fields for d in _dims(field)]
    return []


def _open(info: si.StructInfo, static: si.StructInfo) -> bool:
    """Whether a value of the struct info `static` may fail to be of `info`."""
    return struct_info_base_check(info, static) is not BaseCheckResult.PASS
