"""Objects on disk, keyed by a hash of all their inputs.

The folder is `LOOPWRIGHT_CACHE_DIR`, by default `~/.cache/loopwright` (XDG respected);
`LOOPWRIGHT_CACHE=0` disables it. Writes are atomic (temporary file, then rename). An entry
contains its own digest, so a truncated or foreign file is a miss and is removed. When the folder
exceeds its bound, the least recently used entries are evicted.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from contextlib import suppress
from functools import cache
from pathlib import Path

import llvmlite
import llvmlite.binding as llvm

from loopwright.base.config import knob

_MAGIC = b"LWOBJ1\0\0"
_VERSION = "1"  # increase when the same text must compile differently
_DIGEST = 16


@cache
def _versions() -> str:
    return f"{_VERSION}|{llvmlite.__version__}|{'.'.join(map(str, llvm.llvm_version_info))}"


def _digest(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=_DIGEST).digest()


def object_key(text: str, triple: str, cpu: str, features: str, opt: str) -> str:
    """The cache key: a hash of the IR, the machine, the passes and the versions involved."""
    head = "\0".join((_versions(), triple, cpu, features, opt, text))
    return hashlib.blake2b(head.encode(), digest_size=20).hexdigest()


class ObjectCache:
    """A folder of compiled objects of at most `max_bytes`. `folder=None` keeps nothing."""

    def __init__(self, folder: Path | None, max_bytes: int = 1 << 30) -> None:
        self.folder = folder
        self.max_bytes = max_bytes
        self._written = 0

    def _path(self, key: str) -> Path:
        assert self.folder is not None
        return self.folder / key[:2] / f"{key[2:]}.o"

    def get(self, key: str) -> bytes | None:
        """The object stored under `key`, or None."""
        if self.folder is None:
            return None
        path = self._path(key)
        try:
            data = path.read_bytes()
        except OSError:
            return None
        start = len(_MAGIC) + _DIGEST
        body = data[start:]
        if data[: len(_MAGIC)] != _MAGIC or data[len(_MAGIC) : start] != _digest(body):
            path.unlink(missing_ok=True)
            return None
        with suppress(OSError):  # a read-only cache still works
            os.utime(path)  # marks it as recently used
        return body

    def put(self, key: str, data: bytes) -> None:
        """Store `data`. Does nothing if the folder cannot be written."""
        if self.folder is None:
            return
        path = self._path(key)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            handle, temporary = tempfile.mkstemp(dir=path.parent, suffix=".tmp")
            with os.fdopen(handle, "wb") as stream:
                stream.write(_MAGIC + _digest(data) + data)
            os.replace(temporary, path)
        except OSError:
            return
        # Scanning the whole folder is rare: the first time, and after each 64th of the bound.
        if self._written == 0 or self._written > self.max_bytes // 64:
            self._written = 0
            self.evict()
        self._written += len(data)

    def evict(self) -> None:
        """Remove the least recently used entries until the folder is within its bound."""
        if self.folder is None:
            return
        entries = []
        for path in self.folder.glob("??/*"):
            try:
                stat = path.stat()
            except OSError:
                continue  # another process removed it
            entries.append((stat.st_mtime, stat.st_size, path))
        total = sum(size for _, size, _ in entries)
        for _, size, path in sorted(entries):
            if total <= self.max_bytes:
                return
            path.unlink(missing_ok=True)
            total -= size

    def clear(self) -> None:
        """Remove every entry."""
        if self.folder is not None:
            for path in self.folder.glob("??/*"):
                path.unlink(missing_ok=True)


def default_cache(kind: str = "objects") -> ObjectCache:
    """The user's cache of one kind of object, as the environment sets it now."""
    if not knob("LOOPWRIGHT_CACHE"):
        return ObjectCache(None)
    folder = knob("LOOPWRIGHT_CACHE_DIR")
    if not folder:
        base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
        folder = os.path.join(base, "loopwright")
    return _cache_in(folder, kind, knob("LOOPWRIGHT_CACHE_MB") << 20)


@cache
def _cache_in(folder: str, kind: str, max_bytes: int) -> ObjectCache:
    return ObjectCache(Path(folder) / kind, max_bytes)
