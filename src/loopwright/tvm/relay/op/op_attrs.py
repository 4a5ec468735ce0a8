"""The kinds of attributes that calls have: `isinstance(call.attrs, op_attrs.Conv2DAttrs)`."""

from __future__ import annotations

import difflib
from functools import cache
from typing import Any

from ....base.errors import explain
from ....ir.expr import Attrs
from ..operators import ROWS

_PLACE = "relay.attrs."


class _Kind(type(Attrs)):
    """A class whose instances are the attributes of one key."""

    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, Attrs) and value.key == f"{_PLACE}{cls.__name__}"


@cache
def _kind(name: str) -> type:
    return _Kind(name, (), {"__doc__": "The attributes of operators.", "__slots__": ()})


def __getattr__(name: str) -> Any:
    if not name.endswith("Attrs"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    names = {row.attrs_key.removeprefix(_PLACE) for row in ROWS.values()}
    if name in names:
        return _kind(name)
    close = difflib.get_close_matches(name, names, 3)
    hint = f"did you mean {', '.join(close)}?" if close else None
    raise AttributeError(
        explain("no operator of Relay has such attributes", got=name, instead=hint)
    )
