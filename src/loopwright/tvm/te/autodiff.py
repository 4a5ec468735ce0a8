"""Gradients of tensor expressions, in reverse mode.

What an element of a tensor adds to a result is found read by read. A read at indices f(y, r), for the
element y of a reduction over r, adds head[y] times its slope to the gradient at x = f(y, r): these
equations are solved for those of y and r that they determine, and the gradient is a sum over the
others.
Reference: Griewank and Walther, "Evaluating Derivatives", 2008, ch. 3.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import reduce as fold
from typing import Any

from ...arith import Analyzer
from ...arith.pattern import detect_linear_equation
from ...base.errors import explain
from ...ir.literals import is_one
from ...ir.op import Op
from ...ir.prim_expr import (
    Add,
    Call,
    Cast,
    ConstExpr,
    Div,
    IntImm,
    IterVar,
    Max,
    Min,
    Mul,
    PrimExpr,
    Range,
    Select,
    Sub,
    Var,
)
from ...ir.prim_op import add, cast, const, equal, logical_and, multiply, subtract
from ...ir.variables import uses_any
from ...te.operation import compute
from ...te.prim_func import in_order
from ...te.tensor import ComputeOp, Operation, PlaceholderOp, Tensor
from ...tir import op as tir_op
from ...tir.derivatives import DERIVATIVES
from ...tir.expr import CommReducer, ProducerLoad, Reduce
from ...tir.reduction import sum as reduce_sum
from ...tir.stmt_functor import substitute

Slopes = Iterator[tuple[Any, PrimExpr]]


def _float(value: float, like: PrimExpr) -> PrimExpr:
    return const(float(value), like.dtype)


# The slopes of other calls for each of their arguments, of the call and the arguments.
_CALLS: dict[str, Callable[..., list[PrimExpr]]] = {
    "fabs": lambda y, x: [Select(x >= _float(0, x), _float(1, x), _float(-1, x))],
    "pow": lambda y, a, b: [b * tir_op.power(a, b - _float(1, b)), y * tir_op.log(a)],
    **{name: lambda y, x: [] for name in ("floor", "ceil", "trunc", "round", "nearbyint")},
}


def _slopes(expr: PrimExpr, seed: PrimExpr, leaf: Callable[[Any], bool]) -> Slopes:
    """(leaf, slope times `seed`) for each occurrence of a leaf in an expression."""
    if leaf(expr):
        yield expr, seed
        return
    if isinstance(expr, (ConstExpr, Var, ProducerLoad)) or not expr.dtype.is_float:
        return
    for part, slope in _parts(expr, seed):
        yield from _slopes(part, slope, leaf)


def _parts(expr: PrimExpr, seed: PrimExpr) -> list[tuple[PrimExpr, PrimExpr]]:
    """The operands of an expression, and what their changes are multiplied by."""
    zero = const(0, seed.dtype)
    if isinstance(expr, Cast):
        return [(expr.value, cast(expr.value.dtype, seed))]
    if isinstance(expr, (Add, Sub)):
        return [(expr.a, seed), (expr.b, seed if isinstance(expr, Add) else -seed)]
    if isinstance(expr, Mul):
        return [(expr.a, seed * expr.b), (expr.b, seed * expr.a)]
    if isinstance(expr, Div):
        return [(expr.a, seed / expr.b), (expr.b, -seed * expr / expr.b)]
    if isinstance(expr, (Max, Min)):
        first = expr.a >= expr.b if isinstance(expr, Max) else expr.a <= expr.b
        return [(expr.a, Select(first, seed, zero)), (expr.b, Select(first, zero, seed))]
    if isinstance(expr, Select):
        test, chosen = expr.condition, (expr.true_value, expr.false_value)
        return [(chosen[0], Select(test, seed, zero)), (chosen[1], Select(test, zero, seed))]
    if isinstance(expr, Call) and isinstance(expr.op, Op):
        name = expr.op.name.removeprefix("tir.")
        if name == "if_then_else":
            test, yes, no = expr.args
            choose = tir_op.if_then_else
            return [(yes, choose(test, seed, zero)), (no, choose(test, zero, seed))]
        if name in DERIVATIVES:
            (x,) = expr.args
            slope = DERIVATIVES[name](tir_op, lambda value: _float(value, x), x, expr)
            return [(x, seed * slope)]
        if name in _CALLS:
            slopes = _CALLS[name](expr, *expr.args)
            return [(a, seed * s) for a, s in zip(expr.args, slopes, strict=False)]
    what = "te.gradient knows no derivative of this expression"
    raise ValueError(explain(what, got=str(expr), instead="write it in +, -, *, / and functions"))


# ---------------------------------------------------------------------- equations of indices


def _solved(
    indices: Sequence[PrimExpr],
    at: Sequence[Any],
    shape: Sequence[PrimExpr],
    axes: Sequence[IterVar],
) -> tuple[dict[Var, PrimExpr], list[PrimExpr], list[IterVar]]:
    """(values of axes that `indices == at` determines, further conditions, the other axes), at a
    point of a tensor of that shape."""
    ana = Analyzer()
    free = {a.var: a for a in axes}
    for var, dim in zip(at, shape, strict=True):
        ana.bind(var, Range(const(0, var.dtype), cast(var.dtype, dim)))
    for axis in axes:
        ana.bind(axis.var, axis.dom)
    values: dict[Var, PrimExpr] = {}
    tests: list[PrimExpr] = []

    def count(pair: Sequence[PrimExpr]) -> int:
        return sum(uses_any(pair[0], {v}) for v in free)

    for expr, point in sorted(zip(indices, at, strict=True), key=count):
        index = substitute(expr, values)
        point = cast(index.dtype, point)
        for var, axis in list(free.items()):
            linear = detect_linear_equation(index, [var]) if uses_any(index, {var}) else []
            if not linear or not isinstance(linear[0], IntImm) or abs(linear[0].value) != 1:
                continue
            value = ana.simplify(multiply(subtract(point, linear[1]), linear[0]))
            values = {v: substitute(e, {var: value}) for v, e in values.items()}
            values[var] = cast(var.dtype, value)
            low, extent = axis.dom.min, axis.dom.extent
            tests += [values[var] >= low, values[var] < add(low, extent)]
            del free[var]
            break
        else:
            tests.append(equal(index, point))
    tests = [substitute(t, values) for t in tests]
    return values, [t for t in tests if not ana.can_prove(t)], list(free.values())


def _fresh(axes: Sequence[IterVar]) -> tuple[list[IterVar], dict[Var, PrimExpr]]:
    """Axes of a reduction over the same ranges."""
    copies = [IterVar(a.dom, a.var.copy_with_suffix(""), IterVar.CommReduce) for a in axes]
    return copies, {old.var: new.var for old, new in zip(axes, copies, strict=True)}


# ---------------------------------------------------------------------- one operation


def _is_sum(reduced: Reduce) -> bool:
    combiner = reduced.combiner
    return len(combiner.result) == 1 and isinstance(combiner.result[0], Add)


def _contributions(result: Tensor, head: Tensor, dependent: set[Tensor]) -> Iterator[Any]:
    """(tensor, the contribution of the gradient of `result` to its gradient) for those it reads."""
    op: Any = result.op
    body, reduced = op.body[result.value_index], ()
    condition: PrimExpr = const(True, "bool")
    if isinstance(body, Reduce):
        if not _is_sum(body):
            yield from _by_jacobian(result, body, head, dependent)
            return
        reduced, condition = body.axis, body.condition
        body = body.source[0]
    one = const(1, result.dtype)
    for load, slope in _slopes(body, one, lambda n: _reads(n, dependent)):
        axes = [*op.axis, *reduced]
        yield load.producer, _gathered(result, head, load, slope, condition, axes)


def _reads(node: PrimExpr, dependent: set[Tensor]) -> bool:
    return isinstance(node, ProducerLoad) and node.producer in dependent


def _gathered(
    result: Tensor,
    head: Tensor,
    load: PrimExpr,
    slope: PrimExpr,
    condition: PrimExpr,
    axes: Sequence[IterVar],
) -> Tensor:
    """The gradient that one read makes: a sum over the axes that its indices do not determine."""
    target, op = load.producer, result.op
    width = len(head.shape) - len(result.shape)

    def element(*at: PrimExpr) -> PrimExpr:
        outer, inner = at[:width], at[width:]
        values, tests, left = _solved(load.indices, inner, target.shape, axes)
        fresh, renamed = _fresh(left)
        table: dict[Any, Any] = {v: substitute(e, renamed) for v, e in values.items()} | renamed
        read = head(*outer, *[table[a.var] for a in op.axis])
        product = multiply(read, cast(head.dtype, substitute(slope, table)))
        tests = [substitute(t, renamed) for t in tests]
        if not is_one(condition):
            tests.append(substitute(condition, table))
        if tests:
            holds = fold(logical_and, tests)
            product = tir_op.if_then_else(holds, product, const(0, product.dtype))
        product = cast(target.dtype, product)
        return reduce_sum(product, fresh) if fresh else product

    shape = (*head.shape[:width], *target.shape)
    return compute(shape, element, name=f"{target.op.name}_grad_of_{op.name}")


def _by_jacobian(
    result: Tensor, body: Reduce, head: Tensor, dependent: set[Tensor]
) -> Iterator[Any]:
    """The same for other reductions: the reduction and its derivative for each element are computed
    together."""
    op: Any = result.op
    if len(body.source) != 1 or body.init:
        what = "te.gradient knows reductions of one value, and no init of others than sums"
        raise ValueError(explain(what, got=op.name))
    width = len(head.shape) - len(result.shape)
    one, zero = const(1, result.dtype), const(0, result.dtype)
    loads: dict[Tensor, list[Any]] = {}
    for load, slope in _slopes(body.source[0], one, lambda n: _reads(n, dependent)):
        loads.setdefault(load.producer, []).append((load.indices, slope))
    combiner = body.combiner
    sides = (combiner.lhs[0], combiner.rhs[0])
    moves = [Var(f"{v.name}_move", v.dtype) for v in sides]
    moved = zero
    for var, slope in _slopes(combiner.result[0], one, lambda n: n in sides):
        moved = add(moved, multiply(slope, moves[sides.index(var)]))
    pair = CommReducer(
        (sides[0], moves[0]),
        (sides[1], moves[1]),
        (combiner.result[0], moved),
        (combiner.identity_element[0], zero),
    )
    for target, uses in loads.items():
        own = [
            IterVar(Range(0, d), Var(f"x{n}", d.dtype), IterVar.DataPar)
            for n, d in enumerate(target.shape)
        ]
        change = zero
        for indices, slope in uses:
            same = [equal(i, a.var) for i, a in zip(indices, own, strict=True)]
            here = fold(logical_and, same, const(True, "bool"))
            change = add(change, Select(here, slope, zero))
        sources = (body.source[0], change)
        values = [Reduce(pair, sources, body.axis, body.condition, k) for k in (0, 1)]
        each = ComputeOp(f"{op.name}_slopes", "", {}, [*op.axis, *own], values).output(1)

        def element(*at: PrimExpr, each: Tensor = each) -> PrimExpr:
            fresh, _ = _fresh(op.axis)
            of = [a.var for a in fresh]
            product = multiply(head(*at[:width], *of), each(*of, *at[width:]))
            return reduce_sum(product, fresh) if fresh else product

        shape = (*head.shape[:width], *target.shape)
        yield target, compute(shape, element, name=f"{target.op.name}_grad_of_{op.name}")


# ---------------------------------------------------------------------- the whole


def _identity(output: Tensor) -> Tensor:
    width = len(output.shape)

    def element(*at: PrimExpr) -> PrimExpr:
        pairs = zip(at[:width], at[width:], strict=True)
        same = fold(logical_and, [equal(a, b) for a, b in pairs], const(True, "bool"))
        return Select(same, const(1, output.dtype), const(0, output.dtype))

    return compute((*output.shape, *output.shape), element, name="identity")


def _total(parts: list[Tensor]) -> Tensor:
    if len(parts) == 1:
        return parts[0]

    def element(*at: PrimExpr) -> PrimExpr:
        return fold(add, [part(*at) for part in parts])

    return compute(parts[0].shape, element, name=f"{parts[0].op.name}_sum")


def _between(order: list[Operation], inputs: list[Tensor]) -> set[Tensor]:
    """The tensors of floats that are inputs or computed from them."""
    dependent = set(inputs)
    for op in order:
        if any(t in dependent for t in op.input_tensors):
            dependent |= {op.output(n) for n in range(op.num_outputs)}
    return {t for t in dependent if t.dtype.is_float}


def gradient(
    output: Tensor, inputs: Tensor | Sequence[Tensor], head: Tensor | None = None
) -> list[Tensor]:
    """The gradients of a tensor for each of `inputs`: sums over the elements of `output`, each times
    its `head`.

    head: shape (..., *output.shape); by default the identity, which results in whole Jacobians. A
    gradient has the leading axes of `head` and those of its input; it is 0 where the output does
    not depend on the input. Raises ValueError for expressions without a known derivative, and for
    operations that are not a `te.compute`.

    >>> x = te.placeholder((4,), name="x")
    >>> y = te.compute((4,), lambda i: x[i] * x[i], "y")
    >>> te.gradient(y, x)
    [Tensor(shape=[4, 4], op.name=...)]
    """
    listed = [inputs] if isinstance(inputs, Tensor) else list(inputs)
    head = _identity(output) if head is None else head
    width = len(head.shape) - len(output.shape)
    order = in_order([output])
    dependent = _between(order, listed)
    parts: dict[Tensor, list[Tensor]] = {output: [head]}
    done: dict[Tensor, Tensor] = {}
    for op in reversed(order):
        for result in (op.output(n) for n in range(op.num_outputs)):
            if result not in parts or result not in dependent:
                continue
            done[result] = _total(parts[result])
            if isinstance(op, PlaceholderOp):
                continue
            if not isinstance(op, ComputeOp):
                what = "te.gradient differentiates computes only"
                raise ValueError(explain(what, got=f"{op.name}: {type(op).__name__}"))
            for target, part in _contributions(result, done[result], dependent):
                parts.setdefault(target, []).append(part)

    def zeros(tensor: Tensor) -> Tensor:
        shape = (*head.shape[:width], *tensor.shape)
        zero = const(0, tensor.dtype)
        return compute(shape, lambda *_: zero, name=f"{tensor.op.name}_grad")

    return [done[t] if t in done else zeros(t) for t in listed]
