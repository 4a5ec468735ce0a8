"""The parameters of an operator's function: annotations, signature, conversion of arguments."""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NewType

import numpy as np

from .. import relax
from ..base.errors import explain
from ..ir.dtype import DataType
from ..ir.prim_expr import IntImm, PrimExpr
from ..relax.expr import Expr, PrimValue, ShapeExpr, Tuple
from ..relax.struct_info import TensorStructInfo

if TYPE_CHECKING:  # a body gets different types for these, see `core`
    Tensor = Any
    Tensors = Any
    Shape = Any
    Prim = Any
    Prims = Any
    Callee = Any
    DType = Any
    Axis = Any
    Axes = Any
    Ints = Any
    Scalar = Any
    Operand = Any
    Value = Any
    Sections = Any
else:
    Tensor = NewType("Tensor", object)
    Scalar = NewType("Scalar", object)
    Operand = NewType("Operand", object)
    Value = NewType("Value", object)
    Tensors = NewType("Tensors", object)
    Shape = NewType("Shape", object)
    Prim = NewType("Prim", object)
    Prims = NewType("Prims", object)
    Callee = NewType("Callee", object)
    DType = NewType("DType", object)
    Axis = NewType("Axis", object)
    Axes = NewType("Axes", object)
    Ints = NewType("Ints", object)
    Sections = NewType("Sections", object)

_GRAPH_KINDS = {
    "Tensor": "Tensor",
    "Scalar": "Tensor",
    "Operand": "Tensor",
    "Value": "Tensor",
    "Tensors": "Tensors",
    "Shape": "Shape",
    "Prim": "Prim",
    "Prims": "Prims",
    "Callee": "Callee",
}


@dataclass(frozen=True)
class Param:
    """One parameter of an operator: `kind` is a graph kind or "attr", `annotation` its
    annotation."""

    name: str
    kind: str
    optional: bool
    default: Any
    annotation: str = ""


def read_params(name: str, body: Callable[..., Any]) -> list[Param]:
    """The parameters of an operator's function. Raises TypeError for one without annotation."""
    params = []
    for p in inspect.signature(body).parameters.values():
        text = p.annotation if isinstance(p.annotation, str) else str(p.annotation)
        base = text.split("|")[0].strip().rpartition(".")[2]
        if p.annotation is p.default is inspect.Parameter.empty:
            what = f"the parameter {p.name} of operator {name} has no annotation"
            hint = f"write {p.name}: Tensor, or for an attribute its type, such as {p.name}: int"
            raise TypeError(explain(what, instead=hint))
        optional = p.default is not inspect.Parameter.empty
        kind = _GRAPH_KINDS.get(base, "attr")
        params.append(Param(p.name, kind, optional, p.default, base))
    return params


def public_signature(body: Callable[..., Any], params: list[Param]) -> inspect.Signature:
    """The signature of the builder, which takes graph expressions for the graph's parameters."""
    names = {"Tensor": "Expr", "Tensors": "list[Expr]", "Shape": "ShapeExpr | list"}
    written = inspect.signature(body).parameters.values()
    return inspect.Signature(
        [
            old.replace(annotation=names.get(p.kind, old.annotation))
            for p, old in zip(params, written, strict=True)
        ]
    )


def graph_argument(name: str, p: Param, value: Any, siblings: list[Any]) -> Any:
    """The graph argument for a value given by the user. A Python number takes the dtype of the
    first tensor among `siblings`. Raises TypeError for other values."""
    if p.kind == "Shape" and isinstance(value, (list, tuple)):
        return ShapeExpr(value)
    if p.kind == "Prim":
        return value if isinstance(value, Expr) else PrimValue(value)
    if p.kind == "Prims":
        if isinstance(value, Expr):
            return value
        return Tuple([v if isinstance(v, Expr) else PrimValue(v) for v in value])
    if p.kind == "Tensors" and isinstance(value, (list, tuple)):
        return Tuple(list(value))
    if p.kind == "Tensor" and isinstance(value, (bool, int, float, np.ndarray, np.generic)):
        return relax.const(value, _sibling_dtype(siblings))
    if p.annotation == "Operand" and isinstance(value, PrimExpr):
        return PrimValue(value)
    is_expr = isinstance(value, Expr) or (p.kind != "Shape" and isinstance(value, PrimExpr))
    if p.kind == "Callee" or is_expr or hasattr(value, "struct_info"):
        return value
    what = f"{name}: argument {p.name} must be a Relax expression"
    raise TypeError(explain(what, got=f"{type(value).__name__}: {value!r}"))


def _sibling_dtype(siblings: list[Any]) -> str | None:
    for sibling in siblings:
        info = getattr(sibling, "struct_info", None)
        if isinstance(info, TensorStructInfo) and not info.dtype.is_void:
            return str(info.dtype)
    return None


def whole(value: Any) -> int:
    """A whole number given as an int or a literal. Raises TypeError for others."""
    if isinstance(value, IntImm):
        return value.value
    if not hasattr(value, "__index__"):
        raise TypeError(explain("a whole number is needed", got=repr(value)))
    return operator.index(value)


_ATTRIBUTES: dict[str, Callable[[Any], Any]] = {
    "DType": lambda v: DataType("void") if v is None else DataType(v),
    "Axis": lambda v: None if v is None else whole(v),
    "Axes": lambda v: None if v is None else [whole(x) for x in _listed(v)],
    "Ints": lambda v: None if v is None else [whole(x) for x in _listed(v)],
    "Sections": lambda v: [whole(x) for x in v] if isinstance(v, (list, tuple)) else whole(v),
    "int": lambda v: None if v is None else whole(v),
    "bool": lambda v: None if v is None else bool(v),
    "float": lambda v: None if v is None else float(v),
    "str": lambda v: None if v is None else str(v),
}


def _listed(value: int | Sequence[int]) -> Any:
    return value if isinstance(value, (list, tuple, np.ndarray)) else [value]


def attribute(operator: str, p: Param, value: object) -> Any:
    """A value converted according to its parameter's annotation. Raises TypeError if that fails."""
    convert = _ATTRIBUTES.get(p.annotation)
    if convert is None:
        return value
    try:
        return convert(value)
    except (TypeError, ValueError) as err:
        what = f"{operator}: attribute {p.name} is of type {p.annotation}"
        raise TypeError(explain(what, got=repr(value))) from err
