"""Names of built modules."""

from __future__ import annotations

from ....base.errors import explain


def mangle_module_name(mod_name: str | None) -> str:
    """The prefix of what belongs to a built module: "tvmgen_default". Raises ValueError for a name
    that is not ASCII."""
    if not mod_name:
        return "tvmgen"
    if not mod_name.isascii():
        what = "the name of a module has to be ASCII"
        raise ValueError(explain(what, got=repr(mod_name)))
    return f"tvmgen_{mod_name}"
