"""OutlineNative: outlines the native parts of a function that the virtual machine runs.

Before (-) and after (+)::

      @I.ir_module
      class Module:
          @T.prim_func(private=True)
          def exp(A: T.Buffer((T.int64(4),), "float32"), B: T.Buffer((T.int64(4),), "float32")):
              T.func_attr({"tir.noalias": True})
              for i in range(T.int64(4)):
                  with T.block("exp"):
                      vi = T.axis.spatial(T.int64(4), i)
                      B[vi] = T.exp(A[vi])

    +     @R.function(private=True)
    +     def main_part(x: R.Tensor((4,), dtype="float32")) -> R.Tensor((4,), dtype="float32"):
    +         R.func_attr({"native_part": True})
    +         cls = Module
    +         y = R.call_tir(cls.exp, (x,), out_sinfo=R.Tensor((4,), dtype="float32"))
    +         z = R.call_tir(cls.exp, (y,), out_sinfo=R.Tensor((4,), dtype="float32"))
    +         return z
    +
          @R.function
          def main(c: R.Tensor((), dtype="bool"), x: R.Tensor((4,), dtype="float32")) -> R.Tensor((4,), dtype="float32"):
              cls = Module
              if c:
    -             y = R.call_tir(cls.exp, (x,), out_sinfo=R.Tensor((4,), dtype="float32"))
    -             z = R.call_tir(cls.exp, (y,), out_sinfo=R.Tensor((4,), dtype="float32"))
    +             z: R.Tensor((4,), dtype="float32") = cls.main_part(x)
                  r: R.Tensor((4,), dtype="float32") = z
              else:
                  r: R.Tensor((4,), dtype="float32") = x
              return r

Calls of kernels that follow each other become a function, which `GraphToTIR` makes native: the
machine makes one call for them, and their memory is planned. Calls that read parameters only wait until
a result of theirs is used. A function that is native as a whole remains unchanged.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from ....ir.expr import GlobalVar
from ....ir.op import Op
from ....ir.prim_expr import IntImm
from ....ir.prim_expr import Var as TirVar
from ....ir.transform import IRModule, ModulePass, PassContext
from ....ir.variables import vars_in
from ....tir.byte_size import known_bytes
from ... import expr as rx
from ... import struct_info as si
from ...analysis.variables import overwritten_vars
from ...block_builder import BlockBuilder
from ...op.base import CALL_TIR
from ...specialize import copy_with_new_vars
from ..queries import functions_of, used_vars
from .graph_to_tir import NATIVE_PART

_SMALL = 1 << 16  # bytes of a result that may stay alive to the end of the function
_VIEWS = ("relax.reshape", "relax.memory.view", "relax.memory.ensure_zero_offset")


class OutlineNative(ModulePass):
    """Outlines runs of bindings that can be native code."""

    def run(self, mod: IRModule, ctx: PassContext) -> IRModule:
        builder = BlockBuilder(mod)
        needs = _Needs(dict(functions_of(mod)))
        for gvar, func in functions_of(mod):
            if needs.machine(gvar):
                work = _Outliner(builder, gvar.name_hint, func)
                body = work.seq(func.body)
                if body is not func.body:
                    builder.update_func(gvar, func.replace(body=body))
        return builder.get()


class _Outliner:
    def __init__(self, builder: BlockBuilder, name: str, func: rx.Function) -> None:
        self.builder, self.name = builder, name
        self.uses = Counter(used_vars(func.body))
        # The values that live from the beginning to the end.
        self.persistent = set(func.params) - overwritten_vars(func) if func.is_pure else set()

    def seq(self, seq: rx.SeqExpr) -> rx.SeqExpr:
        blocks = [self.block(b) for b in seq.blocks]
        if all(a is b for a, b in zip(blocks, seq.blocks, strict=True)):
            return seq
        new = rx.SeqExpr(blocks, seq.body, seq.span)
        new._update_struct_info(seq.struct_info)
        return new

    def block(self, block: rx.BindingBlock) -> rx.BindingBlock:
        if isinstance(block, rx.DataflowBlock):
            return block
        bindings: list[rx.Binding] = []
        run: list[rx.Binding] = []
        others = [b for b in block.bindings if not (_is_kernel(b) or isinstance(b.value, rx.If))]
        here = {v for b in others for v in used_vars(b.value)}
        inside: set[rx.Var] = set()
        for binding in block.bindings:
            if _is_native(binding, inside):
                run.append(binding)
                inside.add(binding.var)
                continue
            apart = inside.isdisjoint(used_vars(binding.value)) and _is_harmless(binding)
            if run and not apart:
                now, run = self.parted(run, used_vars(binding.value), here)
                bindings += self.outlined(now) if now else ()
                inside = {b.var for b in run}
            bindings.append(self.branches(binding))
        if run:
            bindings += self.outlined(run)
        same = len(bindings) == len(block.bindings) and all(
            a is b for a, b in zip(bindings, block.bindings, strict=True)
        )
        return block if same else rx.BindingBlock(bindings, block.span)

    def parted(
        self, run: list[rx.Binding], used: Iterable[rx.Var], here: set[rx.Var]
    ) -> tuple[list[rx.Binding], list[rx.Binding]]:
        """The bindings of a run that are due where some variables are used, and those that may wait
        for their own use, as they read parameters only: their results need no memory until then.
        Small ones that the same block uses (`here`) do not wait for a part of their own."""
        free: set[rx.Var] = set(self.persistent)
        for binding in run:
            if free.issuperset(used_vars(binding.value)):
                free.add(binding.var)
        due = set(used)
        if any(b.var in due for b in run):
            due.update(b.var for b in run if b.var in here and _is_small(b.var.struct_info))
        for binding in reversed(run):
            if binding.var in due or binding.var not in free:
                due.update((binding.var, *used_vars(binding.value)))
        for binding in run:  # a field or a view stays with its source
            if not _is_kernel(binding) and not due.isdisjoint(used_vars(binding.value)):
                due.add(binding.var)
        now = [b for b in run if b.var in due]
        self.persistent.update(b.var for b in now if b.var in free and _is_small(b.var.struct_info))
        return now, [b for b in run if b.var not in due]

    def branches(self, binding: rx.Binding) -> Any:
        node = binding.value
        if not isinstance(node, rx.If):
            return binding
        new = node.with_branches(self.seq(node.true_branch), self.seq(node.false_branch))
        return binding if new is node else binding.replace(value=new)

    def outlined(self, run: list[rx.Binding]) -> list[rx.Binding]:
        """The bindings that call a new function instead of a run of bindings."""
        inside = {b.var for b in run}
        used = Counter(v for b in run for v in used_vars(b.value))
        results = [b.var for b in run if self.uses[b.var] > used[b.var]]
        if not results or any(not _has_shape(v.struct_info) for v in results):
            return list(run)
        params = list(dict.fromkeys(v for v in used if v not in inside))
        symbols = _symbols(run, params)
        scalars = [rx.Var(s.name, si.PrimStructInfo(value=s)) for s in symbols]
        body = results[0] if len(results) == 1 else rx.Tuple(results)
        seq = self.builder.normalize(rx.SeqExpr([rx.BindingBlock(run)], body))
        attrs = {NATIVE_PART: True}
        func = rx.Function([*params, *scalars], seq, body.struct_info, True, attrs)
        gvar = self.builder.add_func(copy_with_new_vars(func), f"{self.name}_part")
        call = rx.Call(gvar, [*params, *map(rx.PrimValue, symbols)], span=run[0].span)
        call._update_struct_info(body.struct_info)
        span = run[-1].span
        fields: list[rx.Binding] = []
        if len(results) == 1:
            fields.append(rx.VarBinding(results[0], call, span))
            return fields
        whole = rx.Var(f"{results[0].name_hint}_all", body.struct_info)
        fields.append(rx.VarBinding(whole, call, span))
        for k, var in enumerate(results):
            item = rx.TupleGetItem(whole, k)
            item._update_struct_info(var.struct_info)
            fields.append(rx.VarBinding(var, item, span))
        return fields


class _Needs:
    """Which functions need features that native functions lack."""

    def __init__(self, functions: Mapping[GlobalVar, rx.Function]) -> None:
        self.functions = functions
        self.decided: dict[GlobalVar, bool] = {}

    def machine(self, gvar: GlobalVar) -> bool:
        """Whether a function needs the virtual machine, itself or for what it calls. A recursive one does."""
        if gvar not in self.decided:
            self.decided[gvar] = True  # while it is looked at
            self.decided[gvar] = self._of(self.functions[gvar])
        return self.decided[gvar]

    def _of(self, func: rx.Function) -> bool:
        infos = [*(p.struct_info for p in func.params), *_leaves(func.body.body.struct_info)]
        if not all(_has_shape(i) or isinstance(i, si.PrimStructInfo) for i in infos):
            return True
        return any(self._binding(b) for block in func.body.blocks for b in block.bindings)

    def _binding(self, binding: rx.Binding) -> bool:
        value = binding.value
        if isinstance(binding, rx.MatchCast):
            return not isinstance(value, rx.ShapeExpr) and not _has_shape(value.struct_info)
        if isinstance(value, rx.Call):
            if isinstance(value.op, Op):
                return value.op.name in _CALLS_OF_MACHINE
            if value.op in self.functions:
                return self.machine(value.op)
            return not isinstance(value.op, rx.ExternFunc) or bool(value.sinfo_args)
        return isinstance(value, (rx.If, rx.Function))


_CALLS_OF_MACHINE = {
    "relax.call_pure_packed",
    "relax.call_inplace_packed",
    "relax.call_builtin_with_ctx",
    "relax.make_closure",
    "relax.invoke_closure",
    "relax.invoke_pure_closure",
}


def _is_native(binding: rx.Binding, inside: set[rx.Var]) -> bool:
    """Whether a binding calls a kernel, or only names a result of one in the run."""
    value = binding.value
    if isinstance(binding, rx.MatchCast) or not isinstance(value, rx.Call | rx.TupleGetItem):
        return False
    if isinstance(value, rx.TupleGetItem):
        return value.tuple_value in inside
    if not isinstance(value.op, Op):
        return False
    if _is_kernel(binding):
        fields = value.args[1].fields if isinstance(value.args[1], rx.Tuple) else ()
        tensors = all(_has_shape(f.struct_info) for f in fields)
        return tensors and all(_has_shape(i) for i in _leaves(value.struct_info))
    return value.op.name in _VIEWS and value.args[0] in inside and _has_shape(value.struct_info)


def _is_kernel(binding: rx.Binding) -> bool:
    return isinstance(binding.value, rx.Call) and binding.value.op is CALL_TIR


def _is_harmless(binding: rx.Binding) -> bool:
    """Whether the calls before a binding may as well be made after it."""
    return isinstance(binding.value, (rx.TupleGetItem, rx.Var, rx.Constant, rx.Tuple))


def _is_small(info: si.StructInfo) -> bool:
    """Whether a tensor may be kept for its last reader."""
    if not _has_shape(info) or not all(isinstance(d, IntImm) for d in info.shape.values):
        return False
    return known_bytes(info.shape.values, info.dtype) <= _SMALL


def _has_shape(info: si.StructInfo) -> bool:
    return (
        isinstance(info, si.TensorStructInfo)
        and isinstance(info.shape, rx.ShapeExpr)
        and not info.dtype.is_void
    )


def _leaves(info: si.StructInfo) -> list[Any]:
    if isinstance(info, si.TupleStructInfo):
        return [leaf for f in info.fields for leaf in _leaves(f)]
    return [info]


def _symbols(run: list[rx.Binding], params: list[rx.Var]) -> list[TirVar]:
    """The symbolic dimensions of a run that are not a dimension of any of its parameters."""
    free: dict[TirVar, None] = {}
    defined = {d for p in params for d in p.struct_info.shape.values if isinstance(d, TirVar)}
    exprs: list[Any] = []
    for item in (*params, *(b.var for b in run)):
        for leaf in _leaves(item.struct_info):
            exprs += leaf.shape.values
    for binding in run:
        for arg in getattr(binding.value, "args", ()):
            if isinstance(arg, rx.ShapeExpr):
                exprs += arg.values
    for expr in exprs:
        free.update(dict.fromkeys(v for v in vars_in(expr) if v not in defined))
    return list(free)
