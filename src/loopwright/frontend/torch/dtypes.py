"""torch's element types and ours."""

from __future__ import annotations

import torch

from ...base.errors import explain

DTYPES: dict[torch.dtype, str] = {
    getattr(torch, name): name
    for name in (
        *("bool", "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64"),
        *("float16", "bfloat16", "float32", "float64", "float8_e4m3fn", "float8_e5m2"),
    )
}
TORCH = {name: dtype for dtype, name in DTYPES.items()}

# Complex numbers are pairs of these.
PARTS = {torch.complex32: "float16", torch.complex64: "float32", torch.complex128: "float64"}


def dtype_of(kind: torch.dtype) -> str:
    """Our name of an element type, that of the parts of complex numbers. Raises ValueError for one that has
    no counterpart here."""
    try:
        return PARTS.get(kind) or DTYPES[kind]
    except KeyError:
        raise ValueError(explain("tensors of this type are not supported", got=kind)) from None
