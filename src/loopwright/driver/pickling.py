"""Executables in pickles: the pieces that the disk cache stores of one, with its weights as arrays.

Protocol 5 passes arrays out of band, so that an object store has them once for all processes of a
machine; where they arrive aligned to 64 bytes, code reads them there. A pickle is native code: see
SECURITY.md.
"""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ..base import __version__
from ..base.errors import LoopwrightError, explain
from ..base.host import check_machine
from ..codegen.compiled import CompiledModel
from ..codegen.llvm.executable import Executable
from ..codegen.llvm.program import needs_of
from ..ir.target import Target
from ..runtime.profiler import Profile
from ..runtime.tensor import aligned_empty
from . import disk_cache

_FORMAT = f"{__version__}, format 1"  # increase when `reduced` writes something else
_ALIGNMENT = 64  # bytes: code assumes that of `Tensor`
_SMALL = 4096  # bytes: smaller constants are one array


def reduced(exe: Executable) -> tuple[Callable[..., Arrived], tuple[Any, ...]]:
    """For `Executable.__reduce__`: `arrived`, and its arguments."""
    constants = (a for a in exe.program.constants.values() if a.nbytes >= _SMALL)
    weights = {id(array): array for array in constants}
    pieces = disk_cache.packed(exe, {key: k for k, key in enumerate(weights)})
    if pieces is None:
        others = [x.name for x in exe.program.libraries] + list(exe.program.imports)
        what = "an executable is pickled where all that it calls is its own"
        hint = "export_library, and runtime.load_module where it runs"
        got = ", ".join(others) or "constants that only this process has"
        raise LoopwrightError(explain(what, got=got, instead=hint))
    code, data = (b"".join(map(bytes, part)) for part in pieces)
    facts = {
        "needs": exe.needs if isinstance(exe, Arrived) else needs_of(exe.target),
        "threads": exe.program.threads,
        "border": exe.border,
        "plan": exe.memory_plan,
        "graph_name": exe.graph_name,
    }
    arrays = [
        a.reshape(-1).view(np.uint8) for a in (np.frombuffer(data, np.uint8), *weights.values())
    ]
    return arrived, (_FORMAT, _digest(code), code, facts, arrays)


def arrived(
    form: str, digest: bytes, code: bytes, facts: Mapping[str, Any], arrays: Sequence[np.ndarray],
    again: Callable[[], Any] | None = None, threads: int | None = None,
) -> Arrived:  # fmt: skip
    """The executable of a pickle. again: returns the one that has its modules. threads: another number.

    Raises LoopwrightError where it is damaged, of another version, or for another machine.
    """
    what = "this pickle has no executable that can be loaded here"
    hint = "pickle it again, with the same version of Loopwright on both sides"
    if form != _FORMAT or _digest(code) != digest:
        got = f"one of version {form}" if form != _FORMAT else "damaged code"
        raise LoopwrightError(explain(what, got=f"{got}; here is {_FORMAT}", instead=hint))
    check_machine(facts["needs"])
    data, *values = map(_aligned, arrays)
    threads = facts["threads"] if threads is None else threads
    try:
        exe: Any = disk_cache.unpacked(code, data, again or _no_source, threads, values, Arrived)
    except (ValueError, TypeError, KeyError, IndexError) as error:
        raise LoopwrightError(explain(what, got=str(error), instead=hint)) from None
    exe.needs, exe.plan, exe.border = facts["needs"], facts["plan"], facts["border"]
    exe.graph_name, exe.target = facts["graph_name"], Target(exe._text)
    return exe


def copied(exe: Executable) -> Arrived:
    """For `Executable.__deepcopy__`."""
    function, args = reduced(exe)
    again = getattr(exe, "_again", None) or (lambda: exe)
    twin = function(*args, again=again)
    twin.border = copy.deepcopy(exe.border)
    return twin


class Arrived(disk_cache.Restored):
    """An executable from a pickle. needs: see `check_machine`."""

    needs: str
    plan: Any = None

    @property
    def memory_plan(self) -> Any:
        """The plan of the arenas it was compiled for; None without."""
        return self.plan

    def profile(self, *args: Any, function: str = "main", number: int = 1, **named: Any) -> Profile:
        """Call a function and measure it as a whole."""
        return CompiledModel.profile(self, *args, function=function, number=number, **named)


def _no_source() -> Any:
    what = "an executable from a pickle has no modules or texts"
    raise LoopwrightError(explain(what, instead="look at the one that was compiled"))


def _digest(code: bytes) -> bytes:
    return hashlib.blake2b(code, digest_size=16).digest()


def _aligned(array: np.ndarray) -> np.ndarray:
    """The array where it is, or a copy that is aligned."""
    if array.ctypes.data % _ALIGNMENT == 0 and array.flags.c_contiguous:
        return array
    copy = aligned_empty(array.shape, array.dtype)
    copy[...] = array
    return copy
