"""The signature of a native graph function, stored in its attribute "native_entry"."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..runtime.signature import Signature
from .function import PrimFunc

if TYPE_CHECKING:
    from ..ir.function import BaseFunc

NATIVE_ENTRY = "native_entry"


def signature_of(func: BaseFunc) -> Signature | None:
    """The signature of a function built by GraphToTIR; None for any other."""
    lists = func.attrs.get(NATIVE_ENTRY) if isinstance(func, PrimFunc) else None
    return None if lists is None else Signature.from_lists(lists)
