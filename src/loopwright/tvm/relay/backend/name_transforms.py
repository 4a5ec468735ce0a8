"""How names of models are spelled in C: functions as "TVMGenModelRun", variables as "tvmgen_model"."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ....base.errors import TVMError, explain


def _prefixed(name: str, kind: str) -> str:
    if not name:
        raise TVMError(explain(f"{kind} name is empty"))
    if not name.startswith("TVM"):
        raise TVMError(explain(f"{kind} not TVM prefixed", got=name, instead="prefix_name(name)"))
    return name


def to_c_function_style(original_name: str) -> str:
    """A prefixed name with a capital at the start of each part: "TVM_woof" is "TVMWoof"."""
    parts = _prefixed(original_name, "Function").split("_")
    return "".join(part[:1].upper() + part[1:] for part in parts)


def to_c_variable_style(original_name: str) -> str:
    """A prefixed name in small letters."""
    return _prefixed(original_name, "Variable").lower()


def to_c_constant_style(original_name: str) -> str:
    """A prefixed name in capitals."""
    return _prefixed(original_name, "Constant").upper()


def _combined(names: str | Sequence[str]) -> str:
    if isinstance(names, str):
        if not names:
            raise TVMError(explain("Name is empty"))
        return names
    if not names:
        raise TVMError(explain("Name segments empty"))
    if not all(names):
        raise TVMError(explain("Name segment is empty", got=repr(list(names))))
    return "_".join(names)


def prefix_name(names: str | Sequence[str]) -> str:
    """A name, or its parts, below TVM's prefix."""
    return f"TVM_{_combined(names)}"


def prefix_generated_name(names: str | Sequence[str]) -> str:
    """A name, or its parts, below the prefix of generated code."""
    return f"TVMGen_{_combined(names)}"


def sanitize_name(original_name: str) -> str:
    """A name with an underscore in the place of each character that an identifier cannot have."""
    return re.sub(r"[^0-9A-Za-z_]", "_", _combined(original_name))
