"""The kinds of Relay's types, and what an expression is made of."""

from __future__ import annotations

from enum import IntEnum
from typing import Any

from ....base.errors import DiagnosticError, explain
from ....ir.module import IRModule
from ....ir.op import Op
from ..expr import Call, Constant, Expr, Function, GlobalVar, If, Let, Tuple, TupleGetItem, Var
from ..types import FuncType, RelayRefType, TupleType, Type, TypeCall, TypeKind, TypeRelation
from ..walk import children, free_vars, post_order


def check_kind(t: Type, mod: IRModule | None = None) -> TypeKind:
    """The kind of a type. Raises DiagnosticError where a part of it has a kind that cannot be there."""

    def check(part: Any, want: TypeKind, what: str) -> None:
        kind = check_kind(part, mod)
        if kind != want:
            text = f"Incorrect kind for a {what}: a {want.name} is needed"
            got = f"{part} of the kind {kind.name}, inside {t}"
            raise DiagnosticError(explain(text, got=got, span=part.span))

    if isinstance(t, TupleType):
        for part in t.fields:
            check(part, TypeKind.Type, "tuple member")
    elif isinstance(t, FuncType):
        for part in t.arg_types:
            check(part, TypeKind.Type, "function type parameter")
        check(t.ret_type, TypeKind.Type, "function return type")
        for part in t.type_constraints:
            check(part, TypeKind.Constraint, "function type constraint")
    elif isinstance(t, RelayRefType):
        check(t.value, TypeKind.Type, "ref contents")
    elif isinstance(t, TypeRelation):
        for part in t.args:
            check(part, TypeKind.Type, "argument to type relation")
        return TypeKind.Constraint
    elif isinstance(t, TypeCall):
        check(t.func, TypeKind.AdtHandle, "type call function")
        what = "no module can define such a type: algebraic data types are left out"
        raise DiagnosticError(explain(what, got=str(t), instead="tuples of tensors"))
    return TypeKind(getattr(t, "kind", TypeKind.Type))


def check_constant(expr: Expr) -> bool:
    """Whether an expression is a constant, or a tuple of constants."""
    return all(isinstance(node, (Constant, Tuple)) for node in post_order(expr))


class Feature(IntEnum):
    """Features that a program may use. Those of references and of algebraic data types are never
    met."""

    fVar = 0
    fGlobalVar = 1
    fConstant = 2
    fTuple = 3
    fTupleGetItem = 4
    fFunction = 5
    fOp = 6
    fCall = 7
    fLet = 8
    fIf = 9
    fRefCreate = 10
    fRefRead = 11
    fRefWrite = 12
    fConstructor = 13
    fMatch = 14
    fGraph = 15  # something that is more than a name or a constant is shared
    fLetRec = 16  # a variable is used in its own value


_OF_KIND = {
    kind: Feature[f"f{kind.__name__}"]
    for kind in (Var, GlobalVar, Constant, Tuple, TupleGetItem, Function, Op, Call, Let, If)
}
_ATOMS = (Var, GlobalVar, Constant, Op)


def detect_feature(a: IRModule | Expr, b: Any = None) -> set[Feature]:
    """What an expression, a module, or one of each uses."""
    features: set[Feature] = set()
    for part in (a, b):
        if isinstance(part, IRModule):
            funcs = [f for f in part.functions.values() if isinstance(f, Function)]
            features = features.union(*map(detect_feature, funcs))
        elif part is not None:
            features |= _features(part)
    return features


def _features(expr: Expr) -> set[Feature]:
    features: set[Feature] = set()
    used: set[int] = set()
    for node in post_order(expr):
        features.add(_OF_KIND[type(node)])
        if isinstance(node, Let) and any(v is node.var for v in free_vars(node.value)):
            features.add(Feature.fLetRec)
        for child in children(node):
            if id(child) in used and not isinstance(child, _ATOMS):
                features.add(Feature.fGraph)
            used.add(id(child))
    return features
