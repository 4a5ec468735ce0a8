"""What Relay has in TVM and not here: an error names it and says what to use instead."""

from __future__ import annotations

from ..base.errors import explain

_PARTS: dict[str, str] = {
    "algebraic data types": """StaticTensorArrayOps TensorArrayOps Constructor TypeData Match Clause Pattern PatternConstructor PatternTuple
        PatternVar PatternWildcard prelude Prelude adt type extern match""",
    "references": "RefCreate RefRead RefWrite ref ref_read ref_write",
    "quantization": "quantize qnn attach_simulated_quantize QAnnotateKind",
    "differentiation": "gradient",
    "loops by recursion": "loops while_loop",
}
_INSTEAD: dict[str, str] = {
    "quantization": "quantize the model before it is imported",
    "differentiation": "relax.transform.Gradient, on a program in Relax",
}
LEFT_OUT: dict[str, str] = {name: part for part, names in _PARTS.items() for name in names.split()}


def refusal(name: str) -> tuple[str, str]:
    """What to say about a name of `LEFT_OUT`, and what to use instead."""
    part = LEFT_OUT[name]
    otherwise = "tuples and functions of tensors, or a program in Relax"
    return f"Relay's {part} are left out of Loopwright", _INSTEAD.get(part, otherwise)


def __getattr__(name: str) -> type:
    """A class or function of TVM's `relay.prelude`, `relay.adt` and `relay.quantize`: it may be
    named, and a call of it is refused."""
    if name not in LEFT_OUT:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def refuse(self: object, *args: object, **options: object) -> None:
        what, instead = refusal(name)
        raise NotImplementedError(explain(what, got=f"relay.{name}", instead=instead))

    made = type(name, (), {"__init__": refuse, "__doc__": "Left out."})
    globals()[name] = made
    return made


def refused(name: str) -> AttributeError:
    """The error for a name of `relay` that is left out."""
    what, instead = refusal(name)
    return AttributeError(explain(what, got=f"relay.{name}", instead=instead))
