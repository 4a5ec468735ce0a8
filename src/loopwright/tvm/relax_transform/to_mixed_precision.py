"""ToMixedPrecision: computes products, convolutions and their followers in float16.

Before (-) and after (+)::

      @R.function
      def main(x: R.Tensor((2, 3), dtype="float32"), w: R.Tensor((3, 4), dtype="float32")) -> R.Tensor((2, 4), dtype="float32"):
          with R.dataflow():
    -         lv: R.Tensor((2, 4), dtype="float32") = R.matmul(x, w)
    -         gv: R.Tensor((2, 4), dtype="float32") = R.nn.relu(lv)
    +         lv: R.Tensor((2, 3), dtype="float16") = R.astype(x, dtype="float16")
    +         lv1: R.Tensor((3, 4), dtype="float16") = R.astype(w, dtype="float16")
    +         lv2: R.Tensor((2, 4), dtype="float32") = R.matmul(lv, lv1, out_dtype="float32")
    +         lv3: R.Tensor((2, 4), dtype="float16") = R.astype(lv2, dtype="float16")
    +         lv4: R.Tensor((2, 4), dtype="float16") = R.nn.relu(lv3)
    +         gv: R.Tensor((2, 4), dtype="float32") = R.astype(lv4, dtype="float32")
              R.output(gv)
          return gv

The definition of each operator says whether it always computes in float16, follows its arguments,
or never does (`@op(mixed=...)`). What follows does so where all its float32 arguments are there in
float16, or are constants that float16 can hold. Results of dataflow blocks keep their types;
bindings outside of them stay.
"""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from ...ir.dtype import DataType
from ...ir.op import Op
from ...ir.transform import IRModule, PassContext
from ...relax import expr as rx
from ...relax import op as relax_op
from ...relax.struct_info import StructInfo, TensorStructInfo, TupleStructInfo
from ...relax.transform.decorators import FunctionPass
from ...relax.transform.products import is_call
from ...relax.transform.queries import tensor_fields, used_vars
from ...relax.transform.rewriting import SweepingRewriter

ALWAYS, FOLLOW = 0, 1  # values of the attribute TMixedPrecisionPolicy
HALF, FULL = "float16", "float32"


class ToMixedPrecision(FunctionPass, repr=False):
    """Computes products, convolutions and the operators that may follow them in float16.

    out_dtype: the type in which products and convolutions give their results.
    fp16_input_names: parameters of float32 that become parameters of float16.
    """

    out_dtype: str = FULL
    fp16_input_names: tuple[str, ...] | list[str] | None = None

    def run_function(self, func: rx.Function, mod: IRModule, ctx: PassContext) -> Any:
        return _Mixer(mod, self.out_dtype, set(self.fp16_input_names or ())).function(func)


class _Mixer(SweepingRewriter):
    def __init__(self, mod: IRModule, out_dtype: str, halved: set[str]) -> None:
        super().__init__(mod)
        self.out_dtype = out_dtype
        self.halved = halved
        self.params: tuple[rx.Var, ...] = ()
        # A value cast at the start -> the parameter of float16.
        self.short_params: dict[Any, rx.Var] = {}
        self.casts: dict[Any, rx.Var] = {}  # variable -> what it is in float16, in this block
        self.first: list[rx.Var] = []  # those that are cast at the start of this block

    def function(self, func: rx.Function) -> rx.Function:
        """Parameters that become float16 are cast back at the start, for what needs them as they
        were."""
        params, casts = [], []
        for param in func.params:
            if param.name_hint in self.halved and _is(param.struct_info, FULL):
                new = rx.Var(param.name_hint, _retyped(param.struct_info, HALF), param.span)
                back = self.builder.normalize(relax_op.astype(new, FULL))
                casts.append(rx.VarBinding(param, back))
                self.short_params[param] = param = new
            params.append(param)
        self.halved = set()  # not those of functions inside
        if casts:
            blocks = [rx.BindingBlock(casts), *func.body.blocks]
            body = self.builder.normalize(rx.SeqExpr(blocks, func.body.body, func.body.span))
            func = func.replace(params=tuple(params), body=body)
        self.params = (*self.params, *func.params)
        return super().function(func)

    def block(self, block: rx.BindingBlock) -> rx.BindingBlock:
        self.casts, self.first = {}, []
        if isinstance(block, rx.DataflowBlock):
            values = [b.value for b in block.bindings]
            mixed = [leaf for v in values if _policy(v) == ALWAYS for leaf in _leaves(v.args)]
            counts = Counter(leaf for leaf in mixed if isinstance(leaf, rx.Var))
            uses = Counter(var for value in values for var in used_vars(value))
            own = {b.var for b in block.bindings}
            alone = [v for v, n in counts.items() if uses[v] == n and v not in own]
            alone = [v for v in alone if _is(v.struct_info, FULL) and v not in self.short_params]
            positions = {v: n for n, v in enumerate(self.params)}
            self.first = sorted(alone, key=lambda v: positions.get(v, len(positions)))
        return super().block(block)

    def binding(self, binding: rx.Binding) -> None:
        if not self.builder.current_block_is_dataflow():
            super().binding(binding)
            return
        for var in self.first:
            self.half(var)
        self.first = []
        value: Any = binding.value
        if isinstance(binding, rx.MatchCast):
            new = self.full(value)
        elif isinstance(value, rx.Call):
            new = self.mixed(value, isinstance(binding.var, rx.DataflowVar))
        elif isinstance(value, (rx.Function, rx.SeqExpr, rx.If)):
            outer = dict(self.var_map)
            self.var_map.update((v, self.full(v)) for v in used_vars(value) if v in outer)
            new = self.value(value)
            self.var_map = outer
        else:
            new = self.value(value)
        if not isinstance(binding.var, rx.DataflowVar):
            new = self.typed(new, binding.var.struct_info)
        self.emit(binding, new)

    def mixed(self, call: rx.Call, local: bool) -> Any:
        """A call with its arguments as its policy has it. A product stays in float16 unless it is a
        result of the block."""
        if is_call(call, "relax.wrap_param") and _is(call.args[0].struct_info, HALF):
            return self.value(call.args[0])
        policy = _policy(call)
        leaves = [x for x in _leaves(call.args) if _holds_full(x.struct_info)]
        if policy == ALWAYS:
            infer = call.op.get_attr("FInferMixedPrecision")
            new = self.builder.normalize(infer(self.replaced(call, self.half), self.out_dtype))
            return self.typed(new, _retyped(new.struct_info, HALF)) if local else new
        follows = policy == FOLLOW and leaves and all(map(self.in_half, leaves))
        return self.replaced(call, self.half if follows else self.full)

    def replaced(self, call: rx.Call, each: Callable[..., Any]) -> rx.Call:
        args = tuple(each(a) for a in call.args)
        same = all(map(operator.is_, args, call.args))
        return call if same else self.builder.normalize(call.replace(args=args))

    def in_half(self, leaf: Any) -> bool:
        """Whether an argument of float32 is there in float16 already, or may be."""
        if isinstance(leaf, rx.Constant):
            values = leaf.data.numpy()
            return bool(np.all(np.abs(values[np.isfinite(values)]) <= np.finfo(HALF).max))
        current = self.var_map.get(leaf, leaf)
        return leaf in self.short_params or not _holds_full(current.struct_info)

    def half(self, arg: rx.Expr) -> Any:
        """An argument with float16 in the place of float32."""
        if arg in self.short_params:
            return self.short_params[arg]
        current = self.value(arg)
        if current not in self.casts:
            new = self.typed(current, _retyped(current.struct_info, HALF))
            self.casts[current] = new if new is current else self.builder.normalize_argument(new)
        return self.casts[current]

    def full(self, arg: rx.Expr) -> Any:
        """An argument in the types that it had before."""
        if isinstance(arg, rx.Tuple):
            fields = tuple(map(self.full, arg.fields))
            return arg if all(map(operator.is_, fields, arg.fields)) else rx.Tuple(fields)
        return self.typed(self.value(arg), arg.struct_info)

    def typed(self, value: rx.Expr, info: StructInfo) -> Any:
        """A value cast to the types of a struct info."""
        own = value.struct_info
        if isinstance(info, TensorStructInfo) and isinstance(own, TensorStructInfo):
            return value if own.dtype == info.dtype else relax_op.astype(value, str(info.dtype))
        if not isinstance(info, TupleStructInfo) or not isinstance(own, TupleStructInfo):
            return value
        pairs = zip(tensor_fields(own), tensor_fields(info), strict=True)
        if all(getattr(a, "dtype", None) == getattr(b, "dtype", None) for a, b in pairs):
            return value
        if not isinstance(value, rx.Tuple):
            value = self.builder.normalize_argument(value)
        parts = [rx.TupleGetItem(value, n) for n in range(len(own.fields))]
        parts = list(value.fields) if isinstance(value, rx.Tuple) else parts
        return rx.Tuple([self.typed(p, t) for p, t in zip(parts, info.fields, strict=True)])


def _policy(value: rx.Expr) -> int | None:
    """The policy of a call; what always computes in float16 does so in the place of float32 only."""
    if not isinstance(value, rx.Call) or not isinstance(value.op, Op):
        return None
    policy = value.op.get_attr("TMixedPrecisionPolicy")
    if policy == ALWAYS:
        of_full = any(_is(x.struct_info, FULL) for x in _leaves(value.args))
        return policy if of_full and _is(value.struct_info, FULL) else None
    return policy


def _leaves(args: Iterable[Any]) -> Iterator[Any]:
    """The arguments, with nested tuples taken apart."""
    for arg in args:
        if isinstance(arg, rx.Tuple):
            yield from _leaves(arg.fields)
        else:
            yield arg


def _is(info: StructInfo, dtype: str) -> bool:
    return isinstance(info, TensorStructInfo) and str(info.dtype) == dtype


def _holds_full(info: StructInfo) -> bool:
    return any(_is(leaf, FULL) for leaf in tensor_fields(info))


def _retyped(info: StructInfo, dtype: str) -> Any:
    """A struct info with this type in the place of float32."""
    if isinstance(info, TupleStructInfo):
        return TupleStructInfo([_retyped(f, dtype) for f in info.fields])
    return info.replace(dtype=DataType(dtype)) if _is(info, FULL) else info
