"""NameDimensions: makes a kernel's dimensions variables instead of formulas.

Before (-) and after (+)::

      @I.ir_module
      class Module:
          @T.prim_func(private=True)
    -     def exp(a: T.handle, b: T.handle, n: T.int64):
    -         A = T.match_buffer(a, ((n + T.int64(1)) // T.int64(2),))
    -         B = T.match_buffer(b, ((n + T.int64(1)) // T.int64(2),))
    -         for i in range((n + T.int64(1)) // T.int64(2)):
    +     def exp(a: T.handle, b: T.handle):
    +         d0 = T.int64()
    +         A = T.match_buffer(a, (d0,))
    +         B = T.match_buffer(b, (d0,))
    +         for i in range(d0):
                  with T.block("exp"):
    -                 vi = T.axis.spatial((n + T.int64(1)) // T.int64(2), i)
    +                 vi = T.axis.spatial(d0, i)
                      B[vi] = T.exp(A[vi])

          @R.function
          def main(x: R.Tensor(("n",), dtype="float32"), y: R.Tensor(("(n + 1) // 2",), dtype="float32")) -> R.Tensor(("(n + 1) // 2",), dtype="float32"):
              n = T.int64()
              cls = Module
              with R.dataflow():
    -             gv = R.call_tir(cls.exp, (y,), out_sinfo=R.Tensor(((n + 1) // 2,), dtype="float32"), tir_vars=R.shape([n]))
    +             gv = R.call_tir(cls.exp, (y,), out_sinfo=R.Tensor(((n + 1) // 2,), dtype="float32"))
                  R.output(gv)
              return gv

Index arithmetic becomes simple, and layers that differ only in the formula of a size share one
kernel. A sum that holds a dimension is written with its name: where `n + m` is `d0`, `i - n - m` is
`i - d0`.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

from ....arith import Analyzer
from ....ir.expr import GlobalVar
from ....ir.functor import Rewriter, post_order_visit, pre_order_visit
from ....ir.node import Node
from ....ir.prim_expr import Add, FloorMod, IntImm, PrimExpr, Sub, Var
from ....ir.structural import StructuralKey, structural_equal
from ....ir.transform import IRModule, ModulePass, PassContext
from ....tir.analysis.bounds import Sum
from ....tir.function import PrimFunc
from ....tir.stmt import Block, Stmt
from ...expr import Call, ShapeExpr
from ...fingerprint import fingerprint
from ...functor import GraphRewriter
from ...op.base import CALL_TIR


class NameDimensions(ModulePass):
    """Replaces formulas in kernels' dimensions by variables that are passed."""

    def run(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """Rewrite the private kernels and their calls."""
        changed: dict[GlobalVar, PrimFunc] = {}
        scalars: dict[GlobalVar, list[int]] = {}
        for gvar, func in mod.functions.items():
            if isinstance(func, PrimFunc) and func.is_private:
                renamed = name_dimensions(func)
                if renamed is not func:
                    changed[gvar] = renamed
                    scalars[gvar] = _scalars_left(func, renamed)
        if changed:
            # New variables: the old ones carry the old parameters in their struct infos.
            functions = {
                GlobalVar(g.name_hint) if g in changed else g: changed.get(g, f)
                for g, f in mod.functions.items()
            }
            mod = IRModule(functions, attrs=mod.attrs, global_infos=mod.global_infos)
        same = _duplicates(mod)
        return _Caller(mod, scalars, same).run() if changed or same else mod


def name_dimensions(func: PrimFunc) -> PrimFunc:
    """The function with each compound dimension of its buffers replaced by a variable; unused
    scalar parameters are dropped."""
    names: dict[StructuralKey, Var] = {}
    for buffer in func.buffers:
        for dim in buffer.shape:
            if not isinstance(dim, (IntImm, Var)):
                key = StructuralKey(dim, map_free_vars=False)
                names.setdefault(key, Var(f"d{len(names)}", dim.dtype))
    if not names:
        return func
    views, body = _Namer(names, func.body).visit((func.buffer_map, func.body))
    used: set[Var] = set()
    post_order_visit((views, body), lambda n: used.add(n) if isinstance(n, Var) else None)
    params = [p for p in func.params if p in func.buffer_map or p in used]
    return func.replace(params=tuple(params), buffer_map=views, body=body)


class _Namer(Rewriter):
    """Replaces formulas by variables; a sum may contain another as a part. A remainder whose
    divisor loses its formula is simplified before, using the facts about its factors."""

    def __init__(self, names: dict[StructuralKey, Var], body: Stmt) -> None:
        self.names, self.body = names, body
        self.kinds = {type(key.node) for key in names} - {Add, Sub}
        sums = [(Sum(key.node), v) for key, v in names.items() if type(key.node) in (Add, Sub)]
        self.sums = sorted(sums, key=lambda pair: -len(pair[0].terms))
        self.memo: dict[int, tuple[Any, Any]] = {}  # keeps the key's node alive

    @cached_property
    def ana(self) -> Analyzer:
        """Has the ranges of the blocks' axes."""
        ana = Analyzer()

        def bind(node: Node) -> bool:
            if isinstance(node, Block):
                for axis in node.iter_vars:
                    ana.bind(axis.var, axis.dom)
            return not isinstance(node, PrimExpr)

        pre_order_visit(self.body, bind)
        return ana

    def visit_Node(self, node: Node) -> Any:
        cached = self.memo.get(id(node))
        if cached is None:
            cached = self.memo[id(node)] = (node, self.named(node))
        return cached[1]

    def named(self, node: Any) -> Any:
        if self.sums and type(node) in (Add, Sub):
            return self.parts(self.shorter(node))
        if type(node) is FloorMod and StructuralKey(node.b, False) in self.names:
            node = self.ana.simplify(node)
        name = self.names.get(StructuralKey(node, False)) if type(node) in self.kinds else None
        return self.visit_default(node) if name is None else name

    def parts(self, node: PrimExpr) -> Any:
        """A sum with its parts named, one by one: none of their sums is a dimension."""
        if type(node) not in (Add, Sub):
            return self.visit(node)
        a, b = self.parts(node.a), self.parts(node.b)
        return node if a is node.a and b is node.b else type(node)._make(a, b, span=node.span)

    def shorter(self, node: PrimExpr) -> Any:
        """A sum with a name for each dimension that it holds."""
        whole, changed = Sum(node), False
        for dim, name in self.sums:
            key = next(iter(dim.terms))
            times, rest = divmod(whole.factor(key), dim.factor(key))
            exact = len(dim.terms) > 1 or whole.constant == times * dim.constant
            same = all(whole.factor(k) == times * f for k, (_, f) in dim.terms.items())
            if times and not rest and exact and same and name.dtype == node.dtype:
                whole.add(dim.build(), -times).add(name, times)
                changed = True
        return whole.build() if changed else node


def _scalars_left(old: PrimFunc, new: PrimFunc) -> list[int]:
    """The indices of the remaining scalar parameters."""
    scalars = [p for p in old.params if p not in old.buffer_map]
    return [k for k, p in enumerate(scalars) if p in new.params]


def _duplicates(mod: IRModule) -> dict[GlobalVar, GlobalVar]:
    """Private kernels that equal an earlier one."""
    seen: dict[Any, list[GlobalVar]] = {}
    same: dict[GlobalVar, GlobalVar] = {}
    for gvar, func in sorted(mod.functions.items(), key=lambda item: _order(item[0].name_hint)):
        if not (isinstance(func, PrimFunc) and func.is_private):
            continue
        candidates = seen.setdefault(fingerprint(func), [])
        first = next((g for g in candidates if structural_equal(mod[g], func)), None)
        if first is None:
            candidates.append(gvar)
        else:
            same[gvar] = first
    return same


def _order(name: str) -> tuple[int, str]:
    return len(name), name


class _Caller(GraphRewriter):
    def __init__(
        self, mod: IRModule, scalars: dict[GlobalVar, list[int]], same: dict[GlobalVar, GlobalVar]
    ) -> None:
        super().__init__(mod)
        self.scalars, self.same = scalars, same
        self.named = {gvar: gvar for gvar in mod.functions}

    def run(self) -> IRModule:
        """Rewrite the calls and drop the duplicates."""
        new = super().run()
        return new.with_functions(remove=list(self.same)) if self.same else new

    def call(self, call: Call) -> Any:
        if call.op is not CALL_TIR:
            return call
        gvar, args = call.args[0], list(call.args)
        left = self.scalars.get(gvar)
        if left is not None and len(args) > 2:
            values: list[PrimExpr] = [args[2].struct_info.values[k] for k in left]
            args = [*args[:2], ShapeExpr(values)] if values else args[:2]
        args[0] = self.same.get(gvar, self.named[gvar])
        return call if args[0] is gvar else call.replace(args=tuple(args))
