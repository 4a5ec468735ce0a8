"""`NativeProgram`: compiled modules and the data they refer to; loads without the compiler."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from ...runtime.native import NativeFunction
from . import jit, support

if TYPE_CHECKING:
    from ...ir.target import Target

ENTRY_PREFIX = "__tvm_ffi_"
GRAPH = "graph functions"  # the name of the module of graph functions and entries
LEVEL = "short"


@dataclass
class NativeProgram:
    """Native code: the text and object of each module, and the data that it refers to."""

    texts: Mapping[str, str]
    objects: dict[str, bytes]
    constants: dict[str, Any]
    entries: list[str]
    target: Target
    library: Any = None
    functions: dict[str, NativeFunction] = field(default_factory=dict)

    def text(self, name: str) -> str:
        """The LLVM text of a kernel; of the graph functions and entries for `GRAPH`."""
        return self.texts[name]

    def assembly(self, name: str) -> str:
        """The assembly of a kernel; of the graph functions and entries for `GRAPH`."""
        return jit.assembly(self.texts[name], *compile_options(self.target), opt=LEVEL)

    def load(self) -> dict[str, NativeFunction]:
        """Load into this process: the entries by name."""
        if self.library is None:
            symbols = dict(support.symbols())
            for name, data in self.constants.items():
                symbols[name] = data.ctypes.data
            names = [f"{ENTRY_PREFIX}{e}" for e in self.entries]
            self.library = jit.load_objects(list(self.objects.values()), symbols, exports=names)
            keep = (self.library, self.constants)
            for e in self.entries:
                address = self.library[f"{ENTRY_PREFIX}{e}"]
                self.functions[e] = NativeFunction(address, e, keep_alive=keep)
        return self.functions


def compile_options(target: Target) -> tuple[str | None, str | None, str | None]:
    """(triple, cpu, features) for LLVM; None means this machine's."""
    triple = target.attrs.get("mtriple") or None
    cpu = target.attrs.get("mcpu") or None
    features = target.attrs.get("mattr") or None
    if cpu == "native":
        cpu = None
    if isinstance(features, (list, tuple)):
        features = ",".join(features)
    if triple is None and cpu is None and not features:
        return None, None, None
    return triple, cpu, features


def aligned(array: np.ndarray) -> np.ndarray:
    """The array, or a copy of it, with its memory beginning at a multiple of 64 bytes."""
    if array.ctypes.data % 64 == 0:
        return array
    room = np.empty(array.nbytes + 64, np.uint8)
    start = -room.ctypes.data % 64
    made = room[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    made[...] = array
    return made
