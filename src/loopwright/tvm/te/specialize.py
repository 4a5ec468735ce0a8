"""Conditions under which a specialization of an operator's strategy is used."""

from __future__ import annotations

from typing import ClassVar

from ...arith import Analyzer
from ...base.errors import explain
from ...base.span import Span
from ...ir.node import Node
from ...ir.prim_expr import GT, PrimExpr
from ...ir.prim_op import convert


class SpecializedCondition(Node):
    """The conjunction of `clauses`; as a context, a condition of the implementations added in it:

    Raises TypeError for a condition that is not a bool.

    >>> with te.SpecializedCondition(te.var("n") > 16):
    ...     te.SpecializedCondition.current().clauses
    (n > 16,)
    """

    clauses: tuple[PrimExpr, ...]
    _open: ClassVar[list[SpecializedCondition]] = []

    def __init__(self, conditions: GT | list[PrimExpr | int], span: Span | None = None) -> None:
        listed = conditions if isinstance(conditions, (list, tuple)) else [conditions]
        clauses = tuple(convert(c) for c in listed)
        for clause in clauses:
            if not isinstance(clause, PrimExpr) or clause.dtype != "bool":
                raise TypeError(explain("a condition is a bool expression", got=repr(clause)))
        self._set(clauses, span)

    @staticmethod
    def current() -> SpecializedCondition | None:
        """The condition of the innermost context, None outside of all."""
        return SpecializedCondition._open[-1] if SpecializedCondition._open else None

    def holds(self) -> bool:
        """Whether all clauses can be proved."""
        prove = Analyzer().can_prove
        return all(prove(clause) for clause in self.clauses)

    def __enter__(self) -> SpecializedCondition:
        SpecializedCondition._open.append(self)
        return self

    def __exit__(self, *_: object) -> None:
        SpecializedCondition._open.pop()
