"""RemoveUnusedOutputs: private functions return only those of their results that are used.

Before (-) and after (+)::

      @I.ir_module
      class Module:
          @R.function
          def main(x: R.Tensor((4,), dtype="float32")) -> R.Tensor((4,), dtype="float32"):
              cls = Module
    -         both = cls.func(x)
    -         gv: R.Tensor((4,), dtype="float32") = both[1]
    +         gv: R.Tensor((4,), dtype="float32") = cls.func(x)
              return gv

          @R.function(private=True)
    -     def func(x: R.Tensor((4,), dtype="float32")) -> R.Tuple(R.Tensor((4,), dtype="float32"), R.Tensor((4,), dtype="float32")):
    -         a: R.Tensor((4,), dtype="float32") = R.exp(x)
    +     def func(x: R.Tensor((4,), dtype="float32")) -> R.Tensor((4,), dtype="float32"):
              b: R.Tensor((4,), dtype="float32") = R.negative(x)
    -         return (a, b)
    +         return b

A result that is used other than field by field stays as it is.
"""

from __future__ import annotations

from collections import Counter

from ...ir.expr import GlobalVar
from ...ir.transform import IRModule, ModulePass, PassContext
from ...relax import expr as rx
from ...relax.analysis.variables import bindings_of
from ...relax.block_builder import BlockBuilder
from ...relax.struct_info import TupleStructInfo
from ...relax.transform.queries import expressions, functions_of, merge_blocks, used_vars
from ._signatures import Signature, only_called, with_signatures


class RemoveUnusedOutputs(ModulePass):
    """Private functions return only those of their results that are used."""

    def run(self, mod: IRModule, ctx: PassContext) -> IRModule:
        changes = {}
        used = _used_fields(mod)
        for gvar, (func, _) in only_called(mod).items():
            fields, info = used.get(gvar), func.ret_struct_info
            if fields is not None and isinstance(info, TupleStructInfo):
                left = sorted(fields)
                if len(left) < len(info.fields):
                    changes[gvar] = Signature(_returning(func, left), lambda c: c.args, left)
        return with_signatures(mod, changes)


def _used_fields(mod: IRModule) -> dict[GlobalVar, set[int] | None]:
    """The fields that are used of a function's results; None for a use of the tuple."""
    used: dict[GlobalVar, set[int] | None] = {}
    for _, func in functions_of(mod):
        uses = Counter(used_vars(func.body))
        fields: dict[rx.Var, list[int]] = {}
        for node in expressions(func.body):
            if isinstance(node, rx.TupleGetItem) and isinstance(node.tuple_value, rx.Var):
                fields.setdefault(node.tuple_value, []).append(node.index)
        for binding in bindings_of(func):
            value = getattr(binding, "value", None)
            if type(value) is rx.Call and isinstance(value.op, GlobalVar):
                read, used_before = fields.get(binding.var, []), used.setdefault(value.op, set())
                whole = len(read) < uses[binding.var] or isinstance(binding, rx.MatchCast)
                used[value.op] = None if whole or used_before is None else used_before | set(read)
    return used


def _returning(func: rx.Function, left: list[int]) -> rx.Function:
    """The function with some fields of its result; one field is returned without a tuple."""
    builder = BlockBuilder()
    with builder.scope(func.params):
        builder._begin(False)
        result = func.body.body
        fields = [
            result.fields[i]
            if isinstance(result, rx.Tuple)
            else builder.emit(rx.TupleGetItem(result, i))
            for i in left
        ]
        block = builder._end_block()
        blocks = merge_blocks([*func.body.blocks, block])
        output = fields[0] if len(fields) == 1 else rx.Tuple(fields)
        body = builder.normalize(rx.SeqExpr(blocks, output, func.body.span))
    return rx.Function(func.params, body, None, func.is_pure, func.attrs, func.span)
