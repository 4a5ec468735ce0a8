"""ToMixedPrecision: operators that may be computed in a short floating-point type are.

    before: nn.softmax(nn.dense(%x, %w))                 # float32
    after:  nn.softmax(cast(nn.dense(cast(%x, dtype="float16"), cast(%w, dtype="float16"),
            out_dtype="float16"), dtype="float32"))

Operators always take it, never, or follow their arguments: see `mixed_precision`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ....base.errors import LoopwrightError, explain
from ....ir.expr import Attrs, GlobalVar
from ....ir.module import IRModule
from ....ir.op import Op
from ....ir.pass_context import PassContext
from ..expr import Call, Constant, Expr, Function, Let, Tuple, TupleGetItem, Var
from ..infer import with_types
from ..operators.core import VIEWS
from ..types import TensorType, TupleType, same_type
from ..walk import post_order, rebuilt, values_first
from .base import RelayPass
from .mixed_precision import (
    KEY,
    MIXED_PRECISION_ALWAYS,
    MIXED_PRECISION_FOLLOW,
    MIXED_PRECISION_NEVER,
)

FLOATS = ("float16", "bfloat16", "float32", "float64")


class ToMixedPrecision(RelayPass):
    """Operators that may be computed in a short floating-point type are.

    mixed_precision_type: the short dtype. missing_op_mode: an operator without a rule is an error (0)
    or follows its arguments (1, 2). The option "relay.ToMixedPrecision.keep_orig_output_dtype" of the
    context keeps the dtypes of the results."""

    mixed_precision_type: str = "float16"
    missing_op_mode: int = 1

    def run_function(self, func: Function, mod: IRModule) -> Function:
        keep = bool(PassContext.current().option("relay.ToMixedPrecision.keep_orig_output_dtype"))
        return _Converter(self, func, keep).run()


class _Converter:
    def __init__(self, owner: ToMixedPrecision, func: Function, keep: bool) -> None:
        self.short, self.mode = owner.mixed_precision_type, owner.missing_op_mode
        self.func, self.keep_dtypes = func, keep
        self.new: dict[int, Any] = {}
        self.casts: dict[tuple[int, str], Any] = {}  # a value in another dtype, made once
        self.values: dict[int, Any] = {}  # of the variables of `let`
        self.keep: list[Any] = []

    def run(self) -> Function:
        for node in list(post_order(self.func, self._enter, parts=values_first)):
            self.new[id(node)] = self._visit(node)
        func = self.new[id(self.func)]
        if self.keep_dtypes:
            func = func.replace(body=self._like(func.body, self.func.body.checked_type))
        return func.replace(ret_type=None)

    def _enter(self, node: Op | Expr) -> bool:
        if isinstance(node, Let):
            self.values[id(node.var)] = node.value
        return True

    def _visit(self, node: Op | Expr) -> Any:
        if isinstance(node, Var):
            return self._var(node)
        if isinstance(node, Call) and isinstance(node.op, Op):
            return self._call(node)
        if isinstance(node, Call) and not isinstance(node.op, GlobalVar):
            new = rebuilt(node, self.new)  # a function keeps what it takes
            args = [self._like(a, o.checked_type) for a, o in zip(new.args, node.args, strict=True)]
            return with_types(Call(new.op, args, new.attrs, span=new.span))
        if isinstance(node, Function):
            new = rebuilt(node, self.new)
            return new if new is node or node is self.func else new.replace(ret_type=None)
        new = rebuilt(node, self.new)
        if new is not node and isinstance(new, (Tuple, TupleGetItem)):
            return with_types(new)
        return new

    def _var(self, var: Var) -> Var:
        """A variable of `let` has its value's type; one in the function it is bound to keeps its own."""
        value = self.new.get(id(self.values.get(id(var))))
        if value is None:
            return var
        type_ = with_types(value).checked_type
        if same_type(type_, var.checked_type):
            return var
        new = Var(var.vid, None if var.type_annotation is None else type_, var.span)
        new.struct_info = type_
        return new

    def _call(self, call: Call) -> Any:
        new = rebuilt(call, self.new)
        args = list(new.args)
        rule = call.op.get_attr(KEY)
        if rule is None:
            if self.mode == 0:
                what = f"the operator {call.op.name} has no rule for mixed precision"
                hint = "register_mixed_precision_conversion, or missing_op_mode=1"
                raise LoopwrightError(explain(what, instead=hint, span=call.span))
            category, accumulated, result = MIXED_PRECISION_FOLLOW, self.short, self.short
        else:
            category, accumulated, result = rule(call, self.short)
        if category == MIXED_PRECISION_FOLLOW:
            follows = all(self._may_be_short(a) for a in args)
            category = MIXED_PRECISION_ALWAYS if follows else MIXED_PRECISION_NEVER
        short = category == MIXED_PRECISION_ALWAYS and self._attrs_allow(call.attrs)
        dtype = self.short if short else "float32"
        new_args = tuple(self._cast(a, dtype) for a in args)
        attrs = self._attrs(call.attrs, accumulated) if short else new.attrs
        if attrs is new.attrs and all(a is b for a, b in zip(new_args, call.args, strict=True)):
            return call
        out = with_types(Call(call.op, new_args, attrs, span=call.span))
        return self._cast(out, result) if short and accumulated != result else out

    def _may_be_short(self, arg: Expr) -> bool:
        """Whether an argument is in the short dtype, or can be cast once and for all."""
        return isinstance(arg, (Var, Constant)) or self._is_short(with_types(arg).checked_type)

    def _is_short(self, type_: Any) -> bool:
        if isinstance(type_, TupleType):
            return all(self._is_short(f) for f in type_.fields)
        floating = isinstance(type_, TensorType) and str(type_.dtype) in FLOATS
        return isinstance(type_, TensorType) and (not floating or type_.dtype == self.short)

    def _attrs_allow(self, attrs: Attrs | None) -> bool:
        """Whether the dtypes that a call requests are all floating-point types."""
        dtypes = [attrs[n] for n in ("out_dtype", "dtype") if attrs is not None and n in attrs]
        return all(not d or str(d) in FLOATS for d in dtypes)

    def _attrs(self, attrs: Attrs | None, dtype: str) -> Any:
        if attrs is None:
            return None
        names = [n for n in ("out_dtype", "dtype") if n in attrs]
        if not names:
            return attrs
        values = dict(attrs.values)
        for name in names:
            if name == "out_dtype" or (values[name] and str(values[name]) in FLOATS):
                values[name] = dtype
        return attrs.replace(values=values)

    def _cast(self, value: Expr, dtype: str) -> Any:
        """A value in a dtype; of a tuple, all fields."""
        type_ = with_types(value).checked_type
        if isinstance(type_, TupleType):
            return _by_field(value, type_, lambda field, _: self._cast(field, dtype))
        if not isinstance(type_, TensorType) or str(type_.dtype) not in FLOATS:
            return value
        if type_.dtype == dtype:
            return value
        key = (id(value), dtype)
        if key not in self.casts:
            converted = with_types(VIEWS["cast"](value, dtype))
            self.casts[key] = converted
            self.casts[(id(converted), str(type_.dtype))] = value
            self.keep += [value, converted]
        return self.casts[key]

    def _like(self, value: Expr, type_: TensorType) -> Any:
        """A value in the dtypes of a type."""
        if isinstance(value, Let):
            return value.replace(body=self._like(value.body, type_))
        if isinstance(type_, TensorType):
            return self._cast(value, str(type_.dtype)) if str(type_.dtype) in FLOATS else value
        if not isinstance(type_, TupleType):
            return value
        return _by_field(with_types(value), type_, self._like)


def _by_field(value: Expr, type_: TupleType, change: Callable[[Expr, Any], Expr]) -> Any:
    """A tuple with each field changed; the same one where none is."""
    fields = [
        value.fields[i] if isinstance(value, Tuple) else with_types(TupleGetItem(value, i))
        for i in range(len(type_.fields))
    ]
    new = [change(field, type_) for field, type_ in zip(fields, type_.fields, strict=True)]
    same = all(a is b for a, b in zip(new, fields, strict=True))
    return value if same else with_types(Tuple(new))
