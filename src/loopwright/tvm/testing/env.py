"""Whether code for a device is compiled: for CPUs, and not for those of `marks.ABSENT`."""

from __future__ import annotations

from .marks import ABSENT


def has_llvm() -> bool:
    """Whether code for CPUs is compiled."""
    return True


def _absent() -> bool:
    """Whether there is code for it: no."""
    return False


globals().update({f"has_{name}": _absent for name in ABSENT})
