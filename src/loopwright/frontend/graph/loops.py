"""Loops of unknown length: a function that calls itself as its last step.

    def loop(i, again, limit,  *state, *lists, *captured):
        if again:
            ... the body ...
            return loop(i + 1, i + 1 < limit and condition, limit,  *state, *lists, *captured)
        return (*state, *lists)

The virtual machine turns the call into a jump. Whether there is another iteration is computed at the end of
the body, so that one native part has both. The part of a scan output that each iteration computes
is collected in a list; the lists are stacked after the loop.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...base.errors import explain
from ...base.names import free_name
from ...ir.expr import GlobalVar
from ...ir.prim_expr import IntImm
from ...ir.prim_expr import Var as TirVar
from ...relax import expr as rx
from ...relax import op
from ...relax.analysis import free_symbolic_vars, free_vars
from ...relax.specialize import copy_with_new_vars
from ...relax.struct_info import ObjectStructInfo, PrimStructInfo, TensorStructInfo, TupleStructInfo
from .context import Body, Context
from .object_values import OBJECT, ObjectValue, form_of, info_of, joined
from .values import Value

_TRIES = 4  # each makes a dimension of the state one that varies, or is the last


@dataclass
class _Attempt:
    """An attempt at the function: its arguments after the state, and the results of one iteration."""

    gvar: GlobalVar
    func: rx.Function
    captured: list[Any]
    state: list[Value]
    items: list[Value]


class Loop:
    """A loop being imported. body: one iteration; it takes its number, the condition and the state,
    and returns the next condition, the state after it, and the tensors to collect."""

    def __init__(self, cx: Context, body: Body, limit: Value | None, go: Value | None) -> None:
        self.cx, self.body = cx, body
        self.limit, self.go = limit, go
        self.varying: set[TirVar] = set()

    def outputs(self, carried: list[Value], collected: int) -> list[Value]:
        """The state after the last iteration, then the stacked tensors, `collected` of them per iteration."""
        cx, self.count = self.cx, collected
        infos: list[Any] = [v.info if v.is_tensor else form_of(v) for v in carried]
        for _ in range(_TRIES):
            attempt = self.attempt(infos)
            wider = [self.joined(k, a, b) for k, (a, b) in enumerate(zip(infos, attempt.state))]
            if all(a is b for a, b in zip(infos, wider, strict=True)):
                break
            infos = wider
        else:
            what = "the shapes of a Loop's state change in a way that has no common form"
            raise ValueError(explain(what, got=", ".join(map(str, infos))))
        cx.builder.update_func(attempt.gvar, copy_with_new_vars(attempt.func))
        first = rx.const(np.array(0, np.int64))
        go = rx.const(np.array(True)) if self.go is None else _scalar(cx, self.go)
        limit = [] if self.limit is None else [_scalar(cx, self.limit)]
        start: list[Any] = [first, cx.emit(self.again(first, go, *limit)), *limit]
        empty = [cx.builder.emit(op.null_value()) for _ in attempt.items]
        args = [*start, *(v.expr for v in carried), *empty, *attempt.captured]
        result = cx.builder.emit(rx.Call(attempt.gvar, args))
        fields = [result[k] for k in range(len(infos) + len(empty))]
        state = [self.state_after(f, i) for f, i in zip(fields, infos)]
        lists = fields[len(infos) :]
        return [*state, *(self.stacked(f, v) for f, v in zip(lists, attempt.items, strict=True))]

    def state_after(self, expr: rx.Expr, info: object) -> Value:
        """A part of the state after the loop."""
        if not isinstance(info, TensorStructInfo):
            return ObjectValue(self.cx, info, self.cx.builder.emit(expr))
        dims = [None if d in self.varying else d for d in info.get_shape() or ()]
        return self.cx.of_shape(self.cx.builder.emit(expr), *dims)

    def stacked(self, items: rx.TupleGetItem, item: Value) -> Value:
        """The collected tensors as one."""
        dims = [d.value if isinstance(d, IntImm) else None for d in item.shape]
        info = TensorStructInfo(dtype=item.dtype, ndim=len(dims) + 1)
        shape = rx.ShapeExpr([d or 0 for d in dims])
        kind = rx.StringImm(str(item.dtype))
        inputs = [self.cx.builder.emit(items), shape, kind]
        called = op.call_pure_packed("relax.run.stack", *inputs, sinfo_args=info)
        return self.cx.of_shape(self.cx.builder.emit(called), None, *dims)

    def joined(self, k: int, info: object, value: Value) -> Any:
        """A struct info, or form, that holds before and after an iteration; the same one where `info` does."""
        if not isinstance(info, TensorStructInfo):
            form = joined(info, form_of(value))
            return info if form == info else form
        after = value.info
        dims, others = info.get_shape(), after.get_shape()
        if dims is None or others is None or len(dims) != len(others) or info.dtype != after.dtype:
            what = f"value {k} of a Loop's state must keep its rank and data type"
            raise ValueError(explain(what, got=f"{info} and then {after}"))
        same = [d in self.varying or self.cx.equal(d, o) for d, o in zip(dims, others, strict=True)]
        if all(same):
            return info
        new = [d if s else self.cx.symbol() for d, s in zip(dims, same, strict=True)]
        self.varying.update(d for d, s in zip(new, same, strict=True) if not s)  # type: ignore[misc]
        return TensorStructInfo(rx.ShapeExpr(new), info.dtype)

    # -- the function --------------------------------------------------------------------------

    def attempt(self, infos: list[Any]) -> _Attempt:
        """The function, for a state of these struct infos and forms."""
        cx, builder = self.cx, self.cx.builder
        index, go = rx.Var("i", TensorStructInfo((), "int64")), rx.Var("go", _FLAG)
        state = [rx.Var(f"state{k}", info_of(info)) for k, info in enumerate(infos)]
        lists = [rx.Var(f"list{k}", ObjectStructInfo()) for k in range(self.count)]
        limit = [] if self.limit is None else [rx.Var("limit", TensorStructInfo((), "int64"))]
        feeds = [Value(cx, index), Value(cx, go), *map(self.fed, state, infos)]
        outs: list[Value] = []
        following: list[Any] = []

        def inside() -> Any:
            with builder.dataflow():
                outs.extend(map(self.shaped, self.body(feeds)))
                new_index = cx.emit(op.add(index, rx.const(np.array(1, np.int64))))
                new = [new_index, self.again(new_index, _scalar(cx, outs[0]), *limit)]
                new += [v.expr for v in outs[1 : 1 + len(state)]]
                new = [
                    Value(cx, cx.emit(n)).output for n in new
                ]  # before a call ends the native part
                for item, collected in zip(outs[1 + len(state) :], lists, strict=True):
                    more = [collected, item.output]
                    info = ObjectStructInfo()
                    new.append(op.call_pure_packed("relax.run.append", *more, sinfo_args=info))
                following.extend(Value(cx, cx.emit(n)).output for n in new)

            return following[0]

        body = builder.branch(inside)
        more = builder.branch(lambda: go)
        params = [index, go, *limit, *state, *lists]
        bound = set(params)
        captured = [v for v in free_vars(body) if v not in bound]
        gvar = GlobalVar(free_name("loop", {g.name_hint for g in builder.get().functions}))
        ret = TupleStructInfo([*(self.erased(i) for i in infos), *(v.struct_info for v in lists)])
        arguments = [*following[:2], *limit, *following[2:], *captured]
        first = _function(
            gvar, [*params, *captured], ret, (more, body, arguments), [*state, *lists]
        )
        symbols = free_symbolic_vars(first)
        numbers = [rx.Var(s.name, PrimStructInfo(value=s)) for s in symbols]
        values = [rx.PrimValue(s) for s in symbols]
        func = _function(
            gvar,
            [*params, *captured, *numbers],
            ret,
            (more, body, [*arguments, *values]),
            [*state, *lists],
        )
        items = outs[1 + len(state) :]
        return _Attempt(gvar, func, [*captured, *values], outs[1 : 1 + len(state)], items)

    def fed(self, var: rx.Var, info: Any) -> Value:
        """A part of the state within an iteration."""
        plain = isinstance(info, TensorStructInfo)
        return Value(self.cx, var) if plain else ObjectValue(self.cx, info, var)

    def shaped(self, value: Value) -> Value:
        """A value with symbols for its dimensions, where only its rank is known."""
        info = value.info if value.is_tensor else None
        if not isinstance(info, TensorStructInfo) or info.ndim < 1 or info.get_shape() is not None:
            return value
        return self.cx.of_shape(value.expr, *[None] * info.ndim)

    def again(self, index: rx.Expr, go: rx.Expr, limit: rx.Expr | None = None) -> rx.Expr:
        """Whether iteration `index` takes place."""
        return go if limit is None else op.logical_and(op.less(index, limit), go)

    def erased(self, info: object) -> Any:
        """The struct info of a part of the state that holds for any number of iterations."""
        if not isinstance(info, TensorStructInfo):
            return OBJECT
        dims = info.get_shape() or ()
        if any(d in self.varying for d in dims):
            return TensorStructInfo(dtype=info.dtype, ndim=len(dims))
        return info


_FLAG = TensorStructInfo((), "bool")


def _scalar(cx: Context, value: Value) -> Any:
    """A tensor with one element as a 0-d one."""
    expr = value.expr
    if value.info.ndim != 0:
        expr = op.reshape(expr, rx.ShapeExpr([]))
    return cx.emit(expr)


def _function(
    gvar: GlobalVar,
    params: list[rx.Var],
    ret: TupleStructInfo,
    parts: tuple[rx.SeqExpr, rx.SeqExpr, list[Any]],
    result: list[rx.Var],
) -> rx.Function:
    """The function: test, body and next call, or the result."""
    more, turns, inputs = parts
    again, done, out = rx.Var("again", ret), rx.Var("done", ret), rx.Var("out", ret)
    call = rx.Call(gvar, inputs)
    call._update_struct_info(ret)
    true = _seq(turns.blocks, rx.VarBinding(again, call))
    whole = rx.Tuple(result)
    whole._update_struct_info(TupleStructInfo([v.struct_info for v in result]))
    false = _seq([], rx.VarBinding(done, whole))
    choice = rx.If._make(more.body, true, false, span=None)
    choice._update_struct_info(ret)
    body = _seq(more.blocks, rx.VarBinding(out, choice))
    func = rx.Function(params, body, ret, True)
    gvar.struct_info = func.struct_info
    return func


def _seq(blocks: Sequence[rx.BindingBlock], last: rx.VarBinding) -> rx.SeqExpr:
    """Blocks and one more binding, which is the result."""
    blocks = list(blocks)
    before = [] if not blocks or isinstance(blocks[-1], rx.DataflowBlock) else blocks.pop().bindings
    seq = rx.SeqExpr._make((*blocks, rx.BindingBlock([*before, last])), last.var, span=None)
    seq._update_struct_info(last.var.struct_info)
    return seq
