"""Compiled graphs of `torch.compile`, kept on disk by content: a second process compiles nothing.

An entry is the executable of a graph, the one that computes its weights, and a few facts in JSON; or the
reason why a graph is not compiled as a whole. Weights are not stored: they are the model's.
"""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..base.config import knob
from ..base.errors import LoopwrightError, explain
from ..codegen.llvm.cache import default_cache
from ..codegen.llvm.executable import Executable
from ..runtime.tensor import aligned_empty
from ..runtime.weights import Weight
from . import disk_cache
from .front import DEFAULT_TARGET

_FORMAT = 1  # increase when `pack` writes something else
_KIND = "executables"


class Graph(NamedTuple):
    """A graph that was compiled. facts: the caller's; code: for `instance` and `transform`."""

    facts: dict[str, Any]
    code: list[bytes]

    def instance(self) -> tuple[Any, Mapping[int, np.ndarray]]:
        """The executable, loaded once more, and the memory of its weights by number."""
        return instance(self.code)

    def transform(self) -> Any:
        """The executable that computes weights from parameters; None without such."""
        return _loaded(*self.code[2:4]) if len(self.code) > 2 else None


def key_of(text: str, constants: Sequence[np.ndarray]) -> str | None:
    """The key of a graph: its text and the values of its constants; None where nothing is kept."""
    if not knob("LOOPWRIGHT_CACHE") or disk_cache.is_customised():
        return None
    target = disk_cache.target_text(None, DEFAULT_TARGET)
    if target is None:
        return None
    parts = (_FORMAT, target, *disk_cache.surroundings(), *disk_cache.knobs(), text)
    digest = hashlib.blake2b("\0".join(map(str, parts)).encode(), digest_size=20)
    for array in constants:
        digest.update(array.tobytes())
    return digest.hexdigest()


def pack(
    exe: Executable, weights: Sequence[Weight], transform: Executable | None
) -> list[bytes] | None:
    """A compiled graph in pieces of bytes, None for one that cannot be written."""
    numbers = {id(w.storage()): k for k, w in enumerate(weights)}
    pieces = [disk_cache.packed(exe, numbers)]
    if transform is not None:
        pieces.append(disk_cache.packed(transform))
    code = [b"".join(map(bytes, part)) for pair in pieces if pair is not None for part in pair]
    return None if None in pieces else code


def instance(code: Sequence[bytes]) -> tuple[Any, Mapping[int, np.ndarray]]:
    """The executable of a packed graph, loaded once more, and the memory of its weights by number."""
    exe = _loaded(*code[:2])
    return exe, exe.weights


def save(key: str | None, facts: Mapping[str, Any], code: Sequence[bytes] | None = ()) -> None:
    """Keep a graph under a key, if it has one."""
    if key is not None and code is not None:
        text = json.dumps([dict(facts), [len(c) for c in code]]).encode()
        default_cache(_KIND).put(key, struct.pack("<Q", len(text)), text, *code)


def load(key: str | None) -> Graph | None:
    """What `save` stored; None for whatever else is there."""
    if key is None:
        return None
    store = default_cache(_KIND)
    data = store.get(key)
    if data is None:
        return None
    try:
        (length,) = struct.unpack_from("<Q", data)
        facts, sizes = json.loads(data[8 : 8 + length])
        code, start = [], 8 + length
        for size in sizes:
            code.append(data[start : start + size])
            start += size
        if start != len(data) or not isinstance(facts, dict):
            raise ValueError("not a graph")
        return Graph(facts, code)
    except Exception:
        store.remove(key)
        return None


def _loaded(code: bytes, data: bytes) -> Any:
    room = aligned_empty((len(data),), np.dtype(np.uint8))
    room[:] = np.frombuffer(data, np.uint8)
    return disk_cache.unpacked(code, room, _again)


def _again() -> Any:
    what = "a graph of torch.compile has no module or text to show"
    raise LoopwrightError(explain(what, instead="loopwright.compile(exported_program)"))
