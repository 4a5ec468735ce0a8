"""The texts of the patterns that only Relay has; those of the others are `relax.dpl`'s."""

from __future__ import annotations

from ....relax.dpl.text import Writer, render
from . import nodes as nd

_TEXTS: dict[type, Writer] = {
    nd.DominatorPattern: lambda p, t: f"{t[2]}.dominates({t[0]}, {t[1]})",
    nd.IfPattern: lambda p, t: f"if {t[0]} then {t[1]} else {t[2]}",
    nd.LetPattern: lambda p, t: f"let {t[0]} = {t[1]} in {t[2]}",
    nd.TuplePattern: lambda p, t: "tuple(...)" if p.fields is None else f"tuple({', '.join(t)})",
    nd.TypePattern: lambda p, t: f"{t[0]}.has_type({p.type})",
}


def text_of(pattern: nd.DFPattern) -> str:
    """A pattern as text."""
    return render(pattern, _TEXTS)


nd.DFPattern._render = text_of
