"""SimplifyExpr: shapes, casts, transposes and arithmetic with constants in fewer steps.

before: reshape(reshape(%x, newshape=[4, 6]), newshape=[24])
after:  reshape(%x, newshape=[24])
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ....base.registry import Registry
from ....ir.dtype import DataType
from ....ir.expr import BaseExpr
from ....ir.prim_expr import IntImm
from ....ir.prim_op import max_value, min_value
from ....ir.structural import structural_equal
from ..expr import Call, Constant, Expr, TupleWrapper, const
from ..infer import with_types
from ..operators.core import VIEWS
from ..types import Any as AnyDim
from ..types import TensorType, same_type
from ..walk import name_of
from .base import RelayPass
from .fold_constant import folded

Rule = Callable[[Call], Any]
RULES: Registry[str, tuple[Rule, ...]] = Registry("simplification of Relay")


def rule(*names: str) -> Callable[[Rule], Rule]:
    """Offer a function that simplifies calls of some operators; None: it cannot."""

    def register(fn: Rule) -> Rule:
        for name in names:
            RULES.register(name, (*RULES.get(name, ()), fn), override=True)
        return fn

    return register


def _type(node: Expr) -> TensorType:
    return with_types(node).checked_type


def _static(type_: Any) -> list[int] | None:
    """The extents of a tensor's type, None where one is not known."""
    if not isinstance(type_, TensorType) or any(not isinstance(d, IntImm) for d in type_.shape):
        return None
    return [d.value for d in type_.shape if isinstance(d, IntImm)]


# ---------------------------------------------------------------------- shapes


@rule("reshape", "contrib_reverse_reshape")
def _reshapes(call: Call) -> Any:
    (inner,) = call.args
    if name_of(inner) not in ("reshape", "contrib_reverse_reshape"):
        return None
    dims = _static(_type(call))
    return None if dims is None else VIEWS["reshape"](inner.args[0], dims)


def _axes(call: Call) -> list[int]:
    """The axes of a transpose, counted from the first one."""
    rank = len(_type(call.args[0]).shape)
    axes = call.attrs.axes
    return [int(a) % rank for a in axes] if axes else list(range(rank))[::-1]


def _layouts(call: Call) -> tuple[str, str] | None:
    """The layouts that a `layout_transform` names; None of a transpose."""
    if name_of(call) == "layout_transform":
        return call.attrs.src_layout, call.attrs.dst_layout
    return None


@rule("transpose", "layout_transform")
def _moves(call: Call) -> Any:
    """A transpose or layout transform that moves nothing, and two in a row as one."""
    names = _layouts(call)
    if names is not None and names[0] == names[1]:
        return call.args[0]
    if names is None and _axes(call) == sorted(_axes(call)):
        return call.args[0]
    inner = call.args[0]
    if name_of(inner) not in ("transpose", "layout_transform"):
        return None
    first, second = _with_names(inner, call)
    if first is None or second is None or first[1] != second[0]:
        return None
    source, target = first[0], second[1]
    data = inner.args[0]
    if source == target:
        return data
    if sorted(source) == sorted(target) and source.isupper():
        return VIEWS["transpose"](data, [source.index(c) for c in target])
    return VIEWS["layout_transform"](data, source, target)


def _with_names(first: Call, second: Call) -> tuple[Any, Any]:
    """The layouts of two moves in a row; the axes of a transpose get letters that suit the other."""
    a, b = _layouts(first), _layouts(second)
    if a is None and b is None:
        letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"[: len(_axes(first))]
        a = (letters, "".join(letters[i] for i in _axes(first)))
    if a is None and b is not None:
        target = b[0]
        if not target.isupper():
            return None, None
        source = [""] * len(target)
        for position, axis in enumerate(_axes(first)):
            source[axis] = target[position]
        a = ("".join(source), target)
    if b is None and a is not None:
        if not a[1].isupper():
            return None, None
        b = (a[1], "".join(a[1][i] for i in _axes(second)))
    return a, b


# ---------------------------------------------------------------------- shapes of other tensors


def _concrete(name: str, build: Callable[[Call, list[int]], Any]) -> None:
    """Calls of an operator that takes the shape of another tensor, where that is known."""

    @rule(name)
    def _(call: Call) -> Any:
        dims = _static(_type(call))
        return None if dims is None else build(call, dims)


_concrete("reshape_like", lambda call, dims: VIEWS["reshape"](call.args[0], dims))
_concrete("zeros_like", lambda call, dims: VIEWS["zeros"](dims, str(_type(call).dtype)))
_concrete("ones_like", lambda call, dims: VIEWS["ones"](dims, str(_type(call).dtype)))
_concrete("full_like", lambda call, dims: VIEWS["full"](call.args[1], dims, str(_type(call).dtype)))
_concrete("collapse_sum_like", lambda call, dims: VIEWS["collapse_sum_to"](call.args[0], dims))
_concrete("broadcast_to_like", lambda call, dims: VIEWS["broadcast_to"](call.args[0], dims))


@rule("cast_like")
def _cast_like(call: Call) -> Any:
    return VIEWS["cast"](call.args[0], str(_type(call).dtype))


# ---------------------------------------------------------------------- casts


@rule("cast")
def _casts(call: Call) -> Any:
    """A cast to the operand's own dtype, and one after another cast that loses nothing."""
    (inner,) = call.args
    have, want = _type(inner).dtype, DataType(call.attrs.dtype)
    if have == want:
        return inner
    if name_of(inner) == "cast":
        source = inner.args[0]
        if _widens(_type(source).dtype, have) or _in_range(source, have, want):
            return VIEWS["cast"](source, str(want))
    return None


def _widens(narrow: DataType, wide: DataType) -> bool:
    """Whether every value of one dtype is one of the other, which is wider."""
    if narrow.is_bool or wide.is_bool or wide.bits <= narrow.bits:
        return False
    return wide.is_float or narrow.is_uint or (narrow.is_int and wide.is_int)


def _in_range(source: Expr, have: DataType, want: DataType) -> bool:
    """Whether a value is clipped to the range of an integer dtype; of one that is not an integer,
    the second cast must drop the fraction that the first one drops."""
    if name_of(source) != "clip" or not have.is_integer:
        return False
    low, high = float(min_value(have).value), float(max_value(have).value)
    whole = not _type(source).dtype.is_float
    cut = have.bits <= 16 and want.is_integer and _widens(have, want)
    return source.attrs.a_min >= low and source.attrs.a_max <= high and (whole or cut)


@rule("clip")
def _clips(call: Call) -> Any:
    """A clip to bounds that include all values of its dtype."""
    dtype = _type(call.args[0]).dtype
    if not dtype.is_integer or dtype.is_bool:
        return None
    low, high = float(min_value(dtype).value), float(max_value(dtype).value)
    return call.args[0] if call.attrs.a_min <= low and call.attrs.a_max >= high else None


# ---------------------------------------------------------------------- arithmetic


def _fill(node: Expr) -> Any:
    """The one value that all elements of an expression have, None if that is not known."""
    if isinstance(node, Constant):
        values = node.data.numpy()
        return values.item() if values.size == 1 else None
    name = name_of(node)
    if name in ("zeros", "zeros_like"):
        return 0
    if name in ("ones", "ones_like"):
        return 1
    if name == "full":
        return _fill(node.args[0])
    return _fill(node.args[1]) if name == "full_like" else None


_NEUTRAL = {"add": 0, "subtract": 0, "multiply": 1, "divide": 1}
_STEPS = 100  # of one call: each is simpler than the last one, so this is a guard against rules that undo another


@rule("add", "subtract", "multiply", "divide")
def _with_fill(call: Call) -> Any:
    """An operand of one value: it is removed if it changes nothing, else becomes a scalar."""
    neutral, type_ = _NEUTRAL[name_of(call)], _type(call)
    for position, (fill, other) in enumerate((call.args, call.args[::-1])):
        value = _fill(fill)
        if value is None or not same_type(_type(other), type_) or _unknown(type_):
            continue
        if type_.dtype == "bool":
            value = int(bool(value))
        right = position == 1
        if value == neutral and (right or name_of(call) in ("add", "multiply")):
            return other
        if not isinstance(fill, Constant) and _static(_type(fill)):
            scalar = const(value, str(type_.dtype))
            args = (other, scalar) if right else (scalar, other)
            return Call(call.op, args, call.attrs)
    return None


def _unknown(type_: TensorType) -> bool:
    return any(isinstance(d, AnyDim) for d in type_.shape)


def _split(node: Expr, name: str) -> tuple[Any, Constant] | None:
    """(operand, constant) of a call of a commutative operator with a constant."""
    if name_of(node) != name:
        return None
    a, b = node.args
    if isinstance(b, Constant) and not isinstance(a, Constant):
        return a, b
    return (b, a) if isinstance(a, Constant) and not isinstance(b, Constant) else None


@rule("add")
def _add_add(call: Call) -> Any:
    """x + a + b = x + (a + b)"""
    outer = _split(call, "add")
    inner = None if outer is None else _split(outer[0], "add")
    if outer is None or inner is None:
        return None
    return VIEWS["add"](inner[0], folded(with_types(VIEWS["add"](inner[1], outer[1]))))


@rule("multiply")
def _mul_mul(call: Call) -> Any:
    """x * a * b = x * (a * b), and (x + a) * b = x * b + a * b"""
    outer = _split(call, "multiply")
    if outer is None:
        return None
    inner = _split(outer[0], "multiply")
    if inner is not None:
        product = folded(with_types(VIEWS["multiply"](inner[1], outer[1])))
        return VIEWS["multiply"](inner[0], product)
    inner = _split(outer[0], "add")
    if inner is None:
        return None
    product = folded(with_types(VIEWS["multiply"](inner[1], outer[1])))
    return VIEWS["add"](VIEWS["multiply"](inner[0], outer[1]), product)


@rule("add")
def _twice(call: Call) -> Any:
    """x + x = x * 2"""
    a, b = call.args
    if a is not b and not (isinstance(a, Call) and structural_equal(a, b)):
        return None
    return VIEWS["multiply"](a, const(2.0 if _type(a).dtype.is_float else 2, str(_type(a).dtype)))


@rule("add")
def _binomial(call: Call) -> Any:
    """a x x + b x y + c y y with a = 1 or c = 1 as a product of two sums, where it has factors."""
    dtype = _type(call).dtype
    terms = _operands(call, "add", 3)
    parts = [_product(term) for term in terms]
    squares = [p for p in parts if p is not None and p[1] is p[2]]
    mixed = [p for p in parts if p is not None and p[1] is not p[2]]
    if len(terms) != 3 or len(squares) != 2 or len(mixed) != 1:
        return None
    (c, y, _), (a, x, _) = sorted(squares, key=lambda p: p[0] == 1)
    b, *both = mixed[0]
    if a != 1 or {id(x), id(y)} != {id(f) for f in both} or b * b < 4 * c:
        return None
    root = math.sqrt(b * b - 4 * c)
    factors = ((b + root) / 2, (b - root) / 2)
    if not dtype.is_float and any(not f.is_integer() for f in factors):
        return None
    if len({str(_type(f)) for f in (x, y, call)}) != 1:
        return None
    scaled = [y if f == 1 else VIEWS["multiply"](y, const(f, str(dtype))) for f in factors]
    first = VIEWS["add"](x, scaled[0])
    second = first if factors[0] == factors[1] else VIEWS["add"](x, scaled[1])
    return VIEWS["multiply"](first, second)


def _operands(node: Expr, name: str, most: int) -> list[Any]:
    """The operands of a tree of calls of one operator; no more than `most` and one."""
    operands, rest = [], [node]
    while rest and len(operands) + len(rest) <= most + 1:
        one = rest.pop()
        if name_of(one) == name and len(operands) + len(rest) < most:
            rest += reversed(one.args)
        else:
            operands.append(one)
    return operands + rest


def _product(node: Expr) -> tuple[float, Any, Any] | None:
    """(k, x, y) of k * x * y in any order, with a scalar k or none."""
    factors = _operands(node, "multiply", 3)
    scalars = [f for f in factors if isinstance(f, Constant) and not f.data.shape]
    values = [f for f in factors if not isinstance(f, Constant) or f.data.shape]
    if len(scalars) > 1 or len(values) != 2:
        return None
    return (float(_fill(scalars[0])) if scalars else 1.0, values[0], values[1])


@rule("divide")
def _by_root(call: Call) -> Any:
    """a / sqrt(x) = a * rsqrt(x)"""
    top, root = call.args
    if name_of(root) != "sqrt":
        return None
    inverse = VIEWS["rsqrt"](root.args[0])
    return inverse if _fill(top) == 1 else VIEWS["multiply"](top, inverse)


class SimplifyExpr(RelayPass):
    """Shapes, casts, transposes and arithmetic with constants in fewer steps."""

    def replaced(self, old: Any, new: Any) -> Any:
        return _simplified(old, new)


def _simplified(old: BaseExpr, new: BaseExpr) -> Any:
    if not isinstance(new, Call) or name_of(new) not in RULES:
        return None
    if new.struct_info is None:
        new.struct_info = old.struct_info
    current, changed = new, False
    for _ in range(_STEPS):
        steps = (step(current) for step in RULES.get(name_of(current), ()))
        simpler = next((s for s in steps if s is not None), None)
        if simpler is None:
            break
        simpler = simpler.tuple_value if isinstance(simpler, TupleWrapper) else simpler
        current, changed = _inner(with_types(simpler)), True
    return current if changed else None


def _inner(expr: Expr) -> Any:
    """The operands that a step made, simplified too."""
    if not isinstance(expr, Call):
        return expr
    args = [_simplified(a, a) or a if isinstance(a, Call) else a for a in expr.args]
    same = all(a is b for a, b in zip(args, expr.args, strict=True))
    return expr if same else with_types(Call(expr.op, args, expr.attrs, span=expr.span))
