"""The files of loaded libraries, in pickles: their bytes, and the instruction sets that they need."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ..base.errors import LoopwrightError, explain
from ..base.late import Slot

# Looks at the processor by LLVM, which the runtime does without.
CHECK_MACHINE: Slot[Callable[[str], None]] = Slot("runtime.check_machine")


@dataclass(frozen=True)
class LibraryFile:
    """The file that a library was loaded from. needs: the architecture and the instruction sets of its
    code, one a line; "" where they are not known. stream: what keeps a file open that was removed."""

    path: Path
    suffix: str
    state: tuple[int, int]
    needs: str = field(default="", repr=False)
    stream: Any = field(default=None, repr=False)

    @staticmethod
    def of(path: Path, suffix: str = "", needs: str = "", stream: Any = None) -> LibraryFile:
        """A file as it is now."""
        return LibraryFile(path.absolute(), suffix or path.suffix, _state(path), needs, stream)

    def pickled(self) -> tuple[np.ndarray, str, bytes, str]:
        """The arguments of `loaded_from`, except `load`. Raises LoopwrightError for a file that is not
        the one that was loaded."""
        if not self.path.exists() or _state(self.path) != self.state:
            what = "a library is pickled with the bytes of its file"
            hint = "keep the file, or load it again"
            got = f"{self.path}, which was removed or written since it was loaded"
            raise LoopwrightError(explain(what, got=got, instead=hint))
        data = np.fromfile(self.path, np.uint8)
        return data, self.suffix, _digest(data), self.needs


def loaded_from(
    data: np.ndarray, suffix: str, digest: bytes, needs: str, load: Callable[[Path], Any]
) -> tuple[Any, LibraryFile | None]:
    """What `load` returns for a file with the bytes of a pickle, and that file, which is removed with
    this process. Raises LoopwrightError where they are damaged, or code for another machine."""
    if _digest(np.ascontiguousarray(data)) != digest:
        what = "this pickle has no library that can be loaded here"
        raise LoopwrightError(explain(what, got="damaged bytes", instead="pickle it again"))
    CHECK_MACHINE.get()(needs)
    with tempfile.TemporaryDirectory(prefix="loopwright-") as folder:
        path = Path(folder, f"library{suffix}")
        data.tofile(path)
        loaded = load(path)
        # An open file has a name in /proc after it was removed.
        stream = path.open("rb")
    still = Path(f"/proc/self/fd/{stream.fileno()}")
    return loaded, LibraryFile.of(still, suffix, needs, stream) if still.exists() else None


def _digest(data: np.ndarray) -> bytes:
    return hashlib.blake2b(data.data, digest_size=16).digest()


def _state(path: Path) -> tuple[int, int]:
    state = path.stat()
    return state.st_mtime_ns, state.st_size
