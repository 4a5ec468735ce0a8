"""LLVM's intrinsics by their names."""

from __future__ import annotations

import re

import llvmlite.binding as llvm

from ...base.errors import explain

_INTRINSICS: dict[str, int] = {"": 0}


def llvm_lookup_intrinsic_id(name: str) -> int:
    """A number that identifies an intrinsic in this process; 0 for a name that LLVM does not know."""
    if name not in _INTRINSICS and _is_intrinsic(name):
        _INTRINSICS[name] = len(_INTRINSICS)
    return _INTRINSICS.get(name, 0)


def llvm_get_intrinsic_name(intrin_id: int) -> str:
    """The name behind a number of `llvm_lookup_intrinsic_id`. Raises ValueError."""
    for name, number in _INTRINSICS.items():
        if number == intrin_id:
            return name
    what = "no intrinsic has this number"
    raise ValueError(explain(what, got=intrin_id, instead="one of llvm_lookup_intrinsic_id"))


def _is_intrinsic(name: str) -> bool:
    if not re.fullmatch(r"llvm(\.[\w]+)+", name):
        return False
    # LLVM replaces old intrinsics and asserts types of theirs; pointers pass, except for this one.
    if name.startswith("llvm.arm.mve.vctp64"):
        return True
    text = f"declare ptr @{name}({', '.join(['ptr'] * 8)})"
    with llvm.parse_assembly(text, llvm.create_context()) as module:
        if "Unknown intrinsic" not in str(module):
            return True
    # LLVM still reads the former names of those that are experimental no more.
    return ".experimental" in name and _is_intrinsic(name.replace(".experimental", ""))
