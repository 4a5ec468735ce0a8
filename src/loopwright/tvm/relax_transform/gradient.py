"""Gradient: a function that also computes the gradients of one of its results.

Pass::

    Gradient("main")

Before (-) and after (+)::

      @I.ir_module
      class Module:
          @R.function
          def main(x: R.Tensor((3,), dtype="float32")) -> R.Tensor((), dtype="float32"):
              with R.dataflow():
                  lv: R.Tensor((3,), dtype="float32") = R.exp(x)
                  gv: R.Tensor((), dtype="float32") = R.sum(lv)
                  R.output(gv)
              return gv
    +
    +     @R.function
    +     def main_adjoint(x: R.Tensor((3,), dtype="float32")) -> R.Tuple(R.Tensor((), dtype="float32"), R.Tuple(R.Tensor((3,), dtype="float32"))):
    +         with R.dataflow():
    +             lv: R.Tensor((3,), dtype="float32") = R.exp(x)
    +             gv: R.Tensor((), dtype="float32") = R.sum(lv)
    +             gv_adjoint: R.Tensor((), dtype="float32") = R.ones(R.shape([]), dtype="float32")
    +             lv_adjoint: R.Tensor((3,), dtype="float32") = R.broadcast_to(gv_adjoint, R.shape([3]))
    +             x_adjoint: R.Tensor((3,), dtype="float32") = R.multiply(lv_adjoint, lv)
    +             x_adjoint_out: R.Tensor((3,), dtype="float32") = x_adjoint
    +             R.output(gv, x_adjoint_out)
    +         return (gv, (x_adjoint_out,))

The bindings are walked from the last to the first (reverse mode); an operator's hook `grad`
("FPrimalGradient") returns the gradients of its arguments. Values between `R.grad.start_checkpoint`
and `R.grad.end_checkpoint` are not kept for that but computed again where they are needed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from ...base.errors import LoopwrightError, explain
from ...base.foreign import named_errors
from ...ir.op import Op
from ...ir.transform import IRModule, ModulePass, PassContext
from ...relax import expr as rx
from ...relax import op as R
from ...relax.block_builder import BlockBuilder
from ...relax.functor import GraphRewriter
from ...relax.op.base import CALL_TIR, CALL_TIR_WITH_GRAD
from ...relax.specialize import copy_with_new_vars
from ...relax.struct_info import StructInfo, TensorStructInfo, TupleStructInfo
from ...relax.transform.graph.dead_code import clean
from ...relax.transform.queries import replace_vars, tensor_fields, used_vars
from ..relax import te_gradient as te_gradient  # it sets the gradient of call_tir_with_grad


class Gradient(ModulePass, repr=False):
    """Add the function `<func_name>_adjoint`, which returns (the results, the gradients).

    func_name: a function whose body is one dataflow block.
    require_grads: the variables whose gradients are wanted, parameters or bound ones, float tensors
        or tuples of them; None: all parameters.
    target_index: which of the results is differentiated, a float scalar.

    Raises ValueError for an unknown function, LoopwrightError for one of another form, and where an
    operator on the way has no gradient.
    """

    func_name: str
    require_grads: rx.Var | Sequence[rx.Var] | None = None
    target_index: int = 0

    def run(self, mod: IRModule, ctx: PassContext) -> IRModule:
        func = mod[mod.get_global_var(self.func_name)]
        block = only_dataflow_block(func, self.func_name)
        require = self.require_grads
        required = (
            [require]
            if isinstance(require, rx.Var)
            else list(func.params if require is None else require)
        )
        _check_required(required, [*func.params, *(b.var for b in block.bindings)], self.func_name)
        target = _target(func, self.target_index)
        copy = copy_with_new_vars(func)
        new_block = only_dataflow_block(copy, self.func_name)
        new = dict(zip(func.params, copy.params, strict=True))
        for old_binding, binding in zip(block.bindings, new_block.bindings, strict=True):
            new[old_binding.var] = binding.var
        bb = BlockBuilder(mod)
        reverse = _Reverse(bb, new_block, [new[v] for v in required])
        gvar = reverse.function(f"{self.func_name}_adjoint", copy, new[target])
        adjoint = clean(bb.get()[gvar])
        bb.update_func(gvar, clean(_Transposes(set(new.values())).function(adjoint)))
        return bb.get()


def only_dataflow_block(func: rx.Function, name: str) -> rx.DataflowBlock:
    """The dataflow block that the function is. Raises LoopwrightError for one of another form."""
    if not isinstance(func, rx.Function):
        got = type(func).__name__
        raise LoopwrightError(explain(f"{name} is not a graph function", got=got))
    kinds = [type(block).__name__ for block in func.body.blocks]
    if kinds != ["DataflowBlock"]:
        what = f"the body of {name} must be one dataflow block"
        hint = "run ConvertToDataflow, or write `with R.dataflow():` around all of it"
        raise LoopwrightError(explain(what, got=", ".join(kinds) or "none", instead=hint))
    (block,) = func.body.blocks
    assert isinstance(block, rx.DataflowBlock)
    return block


def _check_required(required: Sequence[Any], variables: Sequence[rx.Var], name: str) -> None:
    for var in required:
        if not any(var is k for k in variables):
            what = f"Gradient: {name} has no variable {var}"
            hint = "give parameters of the function or variables that it binds"
            raise LoopwrightError(explain(what, instead=hint))
        for leaf in tensor_fields(var.struct_info):
            if not isinstance(leaf, TensorStructInfo) or not leaf.dtype.is_float:
                what = f"Gradient: {var.name_hint} has no gradient, for it is not of floats"
                hint = "give require_grads, the variables whose gradients are wanted"
                raise LoopwrightError(explain(what, got=str(leaf), instead=hint))


def _target(func: rx.Function, index: int) -> rx.Var:
    """The result that is differentiated."""
    body = func.body.body
    results = body.fields if isinstance(body, rx.Tuple) else (body,)
    if not 0 <= index < len(results):
        what = "Gradient: target_index is not the number of a result"
        raise LoopwrightError(explain(what, got=index, instead=f"0 to {len(results) - 1}"))
    target, info = results[index], results[index].struct_info
    scalar = isinstance(info, TensorStructInfo) and info.ndim == 0 and info.dtype.is_float
    if not isinstance(target, rx.Var) or not scalar:
        what = "Gradient: the result that is differentiated must be a variable, a float scalar"
        hint = "reduce it, for example by R.sum, or give another target_index"
        raise LoopwrightError(explain(what, got=f"{target} with {info}", instead=hint))
    return target


class _Reverse:
    """The walk back over a block. `adjoint`: of each variable the sum of the gradients found so far.

    active: the variables that a required one has an influence on; others get no gradients.
    """

    def __init__(
        self, bb: BlockBuilder, block: rx.DataflowBlock, required: Sequence[rx.Var]
    ) -> None:
        self.bb = bb
        self.adjoint: dict[rx.Var, rx.Var] = {}
        self.marks: dict[rx.Var, Any] = {}
        self.bindings, self.volatile = _unmarked(block, self.marks)
        self.position = {b.var: n for n, b in enumerate(self.bindings)}
        self.again: dict[rx.Var, rx.Var] = {}
        self.required = [self.marks.get(v, v) for v in required]
        self.active = {v for v in self.required if isinstance(v, rx.Var)}
        for binding in self.bindings:
            stops = _is_op(binding.value, "no_grad") or not _of_floats(binding.var)
            if not stops and self.active.intersection(used_vars(binding.value)):
                self.active.add(binding.var)

    def function(self, name: str, func: rx.Function, target: rx.Var) -> Any:
        """Add the function with its gradients to the builder's module."""
        bb, attrs = self.bb, dict(func.attrs)
        public = attrs.pop("global_symbol", None) is not None
        with bb.function(name, list(func.params), attrs, not public, func.is_pure):
            with bb.dataflow():
                for var in (*func.params, *self.position):
                    bb.get_unique_name(var.name_hint)
                for binding in self.bindings:
                    bb.emit_normalized(binding.replace(value=_without_grad(binding.value)))
                ones = R.ones(rx.ShapeExpr([]), target.struct_info.dtype)
                self.adjoint[target] = bb.emit(ones, f"{target.name_hint}_adjoint")
                for binding in reversed(self.bindings):
                    if binding.var in self.adjoint:
                        bb.span = binding.span or binding.value.span
                        self.step(binding, self.adjoint[binding.var])
                bb.span = func.span
                outs = [self.output(v) for v in self.required]
            return bb.emit_func_output(rx.Tuple([func.body.body, rx.Tuple(outs)]))

    def output(self, var: rx.Var) -> rx.Var:
        """The gradient of a wanted variable; zeros where nothing came."""
        name = f"{getattr(var, 'name_hint', 'const')}_adjoint"
        gradient = self.adjoint.get(var)
        if gradient is None:
            gradient = self.bb.emit(self.zeros(var.struct_info), name)
        return self.bb.emit_output(gradient, f"{name}_out")

    def step(self, binding: rx.Binding, grad: rx.Var) -> None:
        """Pass the gradient of a binding's variable on to the variables that its value uses."""
        value: Any = binding.value
        if isinstance(value, (rx.Var, rx.Tuple)):
            self.add(value, grad)
        elif isinstance(value, rx.TupleGetItem):
            self.add_field(value.tuple_value, value.index, grad)
        elif binding.var in self.active:
            rule = value.op.get_attr("FPrimalGradient") if _is_op(value) else None
            if rule is None:
                what = f"Gradient: {_called(value)} has no gradient"
                hint = "register one: relax.op.register_gradient for an operator, for a kernel "
                hint += "call_tir_with_grad; or stop before it by R.grad.no_grad"
                raise LoopwrightError(explain(what, instead=hint, span=value.span))
            var, call = self.recomputed(binding.var), self.recomputed(value)
            with named_errors(f"the gradient of {_called(value)}", rule, lambda: value.span):
                partials = rule(var, call, grad, self.bb)
            for arg, partial in zip(value.args, partials, strict=False):
                if partial is not None and not _is_op(partial, "no_grad"):
                    self.add(arg, partial)

    def recomputed(self, value: rx.Expr) -> Any:
        """A value with its variables available: those that checkpoints drop are computed again."""
        missing, stack = set(), list(used_vars(value))
        while stack:
            var = stack.pop()
            if var in self.volatile and var not in self.again and var not in missing:
                missing.add(var)
                stack += used_vars(self.bindings[self.position[var]].value)
        for var in sorted(missing, key=self.position.__getitem__):
            again = replace_vars(self.bindings[self.position[var]].value, self.again)
            self.again[var] = self.bb.emit(_without_grad(again), f"{var.name_hint}_cp")
        return replace_vars(value, self.again)

    def matters(self, target: rx.Expr) -> bool:
        """Whether a gradient of an expression is wanted."""
        if isinstance(target, rx.Tuple):
            return any(self.matters(f) for f in target.fields)
        return isinstance(target, rx.Var) and target in self.active

    def add(self, target: Any, partial: Any) -> None:
        """Add a gradient to that of an argument: a variable or a tuple of them."""
        if not self.matters(target):
            return
        if isinstance(target, rx.Tuple):
            if not isinstance(partial, rx.Tuple):
                partial = self.bb.normalize_argument(partial)
            for k, field in enumerate(target.fields):
                if self.matters(field):
                    self.add(field, _field(partial, k))
            return
        old = self.adjoint.get(target)
        new = partial if old is None else self.sum(old, partial)
        self.adjoint[target] = self.bb.emit(new, f"{target.name_hint}_adjoint")

    def add_field(self, target: Any, index: int, partial: Any) -> None:
        """Add a gradient to that of a tuple's field."""
        if isinstance(target, rx.Tuple):
            self.add(target.fields[index], partial)
        elif self.matters(target):
            old, fields = self.adjoint.get(target), []
            for k, info in enumerate(target.struct_info.fields):
                if old is None:
                    field = partial if k == index else self.zeros(info)
                else:
                    field = _field(old, k)
                    field = self.sum(field, partial) if k == index else field
                fields.append(self.bb.normalize_argument(field))
            self.adjoint[target] = self.bb.emit(rx.Tuple(fields), f"{target.name_hint}_adjoint")

    def sum(self, a: rx.Expr, b: rx.Expr) -> Any:
        """The sum of two tensors, or of tuples field by field."""
        a, b = self.bb.normalize_argument(a), self.bb.normalize_argument(b)
        info = a.struct_info
        if not isinstance(info, TupleStructInfo):
            return R.add(a, b)
        fields = range(len(info.fields))
        return rx.Tuple(
            [self.bb.normalize_argument(self.sum(_field(a, k), _field(b, k))) for k in fields]
        )

    def zeros(self, info: StructInfo) -> Any:
        """Zeros of a type."""
        if isinstance(info, TupleStructInfo):
            return rx.Tuple([self.bb.normalize_argument(self.zeros(f)) for f in info.fields])
        if not isinstance(info, TensorStructInfo) or info.shape is None:
            what = "Gradient: a gradient of zeros needs a known shape"
            hint = "state it by R.match_cast, or leave the variable out of require_grads"
            raise LoopwrightError(explain(what, got=str(info), instead=hint, span=self.bb.span))
        return R.zeros(info.shape, info.dtype)


def _unmarked(block: rx.DataflowBlock, marks: dict[rx.Var, Any]) -> tuple[list[Any], set[rx.Var]]:
    """The bindings without the marks of checkpoints, and the variables that are not kept for the
    reverse walk. `marks` gets the value that each mark's variable represents."""
    bindings: list[Any] = []
    saved: set[Any] = set()
    ends: list[Any] = []
    for binding in block.bindings:
        value = replace_vars(binding.value, marks)
        start = _is_op(value, "start_checkpoint")
        if start or _is_op(value, "end_checkpoint"):
            (source,) = value.args
            (saved.add if start else ends.append)(source)
            if isinstance(binding.var, rx.DataflowVar):
                marks[binding.var] = source
                continue
            value = source  # a result of the function, which keeps its name
        bindings.append(binding.replace(value=value))
    values = {b.var: b.value for b in bindings if not isinstance(b, rx.MatchCast)}
    volatile = set(ends) - saved
    ends += [v for end in ends for v in used_vars(values.get(end, end))]
    while ends:
        var = ends.pop()
        if var in values and var not in saved and var not in volatile:
            volatile.add(var)
            ends += used_vars(values[var])
    return bindings, volatile & values.keys()


def _of_floats(var: rx.Var) -> bool:
    """Whether a variable holds floats, perhaps among other values."""
    leaves = tensor_fields(var.struct_info)
    return any(isinstance(leaf, TensorStructInfo) and leaf.dtype.is_float for leaf in leaves)


def _is_op(value: rx.Expr, mark: str = "") -> bool:
    """Whether this is a call of an operator, of `relax.grad.<mark>` if it is given."""
    if not isinstance(value, rx.Call) or not isinstance(value.op, Op):
        return False
    return not mark or value.op.name == f"relax.grad.{mark}"


def _called(value: rx.Expr | None) -> str:
    op = getattr(value, "op", None)
    return str(getattr(op, "name", op or type(value).__name__))


def _without_grad(value: rx.Expr) -> Any:
    """A call_tir for a call_tir_with_grad."""
    if not _is_op(value) or value.op is not CALL_TIR_WITH_GRAD:
        return value
    call = rx.Call(CALL_TIR, value.args, None, value.sinfo_args, value.span)
    call._update_struct_info(value.struct_info)
    return call


def _field(value: rx.Expr, index: int) -> Any:
    return value.fields[index] if isinstance(value, rx.Tuple) else rx.TupleGetItem(value, index)


class _Transposes(GraphRewriter):
    """Removes transposes that gradients of matrix products bring: of a transpose, and of a product
    used nowhere else, which becomes the product of the transposed operands. `forward`: the
    variables whose bindings stay."""

    def __init__(self, forward: set[rx.Var]) -> None:
        super().__init__()
        self.forward = forward
        self.uses: Counter[rx.Var] = Counter()

    def function(self, func: rx.Function) -> rx.Function:
        self.uses.update(used_vars(func.body))
        return super().function(func)

    def binding(self, binding: rx.Binding) -> None:
        if binding.var in self.forward:
            self.emit(binding, binding.value)
            return
        value = self.value(binding.value)
        if isinstance(value, rx.Var) and isinstance(binding.value, rx.Call):
            self.var_map[binding.var] = value
        else:
            self.emit(binding, value)

    def call(self, call: rx.Call) -> Any:
        if not _transposes(call) or not isinstance(call.args[0], rx.Var):
            return call
        source = call.args[0]
        inner = self.builder.lookup_binding(source)
        if _transposes(inner):
            return inner.args[0]
        if self.uses[source] > 1 or source in self.forward or _called(inner) != "relax.matmul":
            return call
        if any(arg.struct_info.ndim < 2 for arg in inner.args):
            return call
        a, b = (self.transposed(arg) for arg in inner.args)
        return rx.Call(inner.op, [b, a], inner.attrs)

    def transposed(self, value: rx.Expr) -> Any:
        """A value with its last two axes exchanged."""
        inner: Any = self.builder.lookup_binding(value) if isinstance(value, rx.Var) else None
        if _transposes(inner):
            return inner.args[0]
        rank = value.struct_info.ndim
        return R.permute_dims(value, [*range(rank - 2), rank - 1, rank - 2])


def _transposes(value: Any) -> bool:
    """Whether a value is a tensor with its last two axes exchanged."""
    if _called(value) != "relax.permute_dims":
        return False
    rank, axes = value.struct_info.ndim, value.attrs.axes
    order = list(range(rank))[::-1] if axes is None else [int(a) % rank for a in axes]
    return rank >= 2 and order == [*range(rank - 2), rank - 1, rank - 2]
