"""Objects on disk, keyed by a hash of all their inputs.

The folder is `LOOPWRIGHT_CACHE_DIR`, by default `~/.cache/loopwright` (XDG respected);
`LOOPWRIGHT_CACHE=0` disables it. Its objects are code, so a folder in which others could write is not
used. Writes are atomic (temporary file, then rename). An entry contains a digest of its key and its
content, so a truncated, renamed or foreign file is a miss and is removed; large data that is not code
is mapped instead of read, and its checksum is the caller's. When the folder exceeds its bound, the
least recently used entries are evicted.
"""

from __future__ import annotations

import hashlib
import mmap
import os
import re
import stat
import tempfile
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import llvmlite
import llvmlite.binding as llvm

from loopwright.base.config import knob
from loopwright.base.errors import explain
from loopwright.base.trusted import is_open, lock, weakness

if TYPE_CHECKING:
    import numpy as np

_MAGIC = b"LWOBJ2\0\0"
_VERSION = "2"  # increase when the same text must compile differently
_DIGEST = 16  # bytes of the digest in an entry's head
_HEAD = len(_MAGIC) + _DIGEST
_READ = mmap.ACCESS_READ
_KINDS = "objects", "executables", "constants", "digests"
# Neither a link is followed nor a pipe waited for, where the system has such flags.
_PLAIN = sum(getattr(os, f"O_{name}", 0) for name in ("NOFOLLOW", "NONBLOCK", "BINARY"))
_ENTRY = re.compile(r"[0-9a-f]{2}/([0-9a-f]{38}\.o|tmp\w+\.tmp)")


@cache
def _versions() -> str:
    return f"{_VERSION}|{llvmlite.__version__}|{'.'.join(map(str, llvm.llvm_version_info))}"


def _head(key: str, parts: Iterable[Any]) -> bytes:
    """The head of an entry."""
    digest = hashlib.blake2b(digest_size=_DIGEST, key=key.encode())
    for part in parts:
        digest.update(part)
    return _MAGIC + digest.digest()


def object_key(text: str, triple: str, cpu: str, features: str, opt: str) -> str:
    """The cache key: a hash of the IR, the machine, the passes and the versions involved."""
    head = "\0".join((_versions(), triple, cpu, features, opt, text))
    return hashlib.blake2b(head.encode(), digest_size=20).hexdigest()


class ObjectCache:
    """Objects of one kind in a folder of at most `max_bytes`. `root=None` keeps nothing."""

    def __init__(self, root: Path | None, max_bytes: int = 1 << 30, kind: str = "objects") -> None:
        self.root = root
        self.folder = None if root is None else root / kind
        self.max_bytes = max_bytes

    @property
    def _step(self) -> int:
        """The mean number of bytes that all processes write between two evictions, which take a third of a
        second in a large folder. An entry's key decides whether it evicts; one of this size always does."""
        return self.max_bytes // 64

    @property
    def largest(self) -> int:
        """The bytes of the largest object that is kept: a quarter of the bound."""
        return 0 if self.root is None else self.max_bytes // 4 - _HEAD

    def _path(self, key: str) -> Path:
        assert self.folder is not None
        return self.folder / key[:2] / f"{key[2:]}.o"

    def get(self, key: str) -> bytes | None:
        """What `put` stored under `key`, or None."""
        data = self._take(key, lambda stream, _: stream.read())
        if data is None:
            return None
        if data[:_HEAD] != _head(key, [data[_HEAD:]]):
            self.remove(key)
            return None
        return data[_HEAD:]

    def put(self, key: str, *parts: bytes | bytes) -> None:
        """Store bytes, or arrays of bytes one after the other. Does nothing if the folder cannot be
        written, or for more than `largest`."""
        self._put(key, [_head(key, parts), *parts])

    def map(self, key: str) -> mmap.mmap | None:
        """What `put_data` stored under `key`, unchecked and to be read only, or None."""
        return self._take(key, lambda stream, size: mmap.mmap(stream.fileno(), size, access=_READ))

    def put_data(self, key: str, *parts: np.ndarray | bytes) -> bool:
        """As `put`, for `map`: without a digest. Returns whether it was stored."""
        return self._put(key, parts)

    def _take(self, key: str, read: Callable[[Any, int], Any]) -> Any:
        if self.folder is None:
            return None
        path = self._path(key)
        try:
            with open(os.open(path, os.O_RDONLY | _PLAIN), "rb") as stream:
                state = os.fstat(stream.fileno())
                if not self._is_entry(state) or not _is_own(path.parent):
                    self.remove(key)
                    return None
                data = read(stream, state.st_size)
        except (OSError, ValueError):  # an empty file cannot be mapped
            return None
        with suppress(OSError):  # a read-only cache still works
            os.utime(path)  # marks it as recently used
        return data

    def _is_entry(self, state: os.stat_result) -> bool:
        is_plain = stat.S_ISREG(state.st_mode) and not is_open(state)
        return is_plain and state.st_size <= self.max_bytes

    def _put(self, key: str, parts: Sequence[Any]) -> bool:
        size = sum(map(len, parts))
        if self.root is None or size - _HEAD > self.largest:
            return False
        path = self._path(key)
        with suppress(OSError):
            make_folder(path.parent)
            if not _is_own(path.parent):
                return False
            if int(key[:8], 16) * self._step < size << 32:
                self.evict(size)
            _write(path, parts)
            return True
        return False

    def remove(self, key: str) -> None:
        """Remove an entry that is of no use."""
        with suppress(OSError):
            self._path(key).unlink()

    def evict(self, room: int) -> None:
        """Make room for `room` bytes: remove the least recently used entries, of all kinds, until
        the folder is within its bound by what may be written before the next call, and the leftovers of
        killed processes."""
        entries = []
        for entry in self._entries():
            with suppress(OSError):  # another process removed it, or writes it
                if entry.name.endswith(".tmp"):
                    _remove_left(entry.path)
                else:
                    state = entry.stat(follow_symlinks=False)
                    entries.append((state.st_mtime, state.st_size, entry.path))
        total = sum(size for _, size, _ in entries)
        if total + room > self.max_bytes - 4 * self._step:
            for _, size, path in sorted(entries):
                if total + room <= self.max_bytes - 8 * self._step:
                    break
                with suppress(FileNotFoundError):
                    os.unlink(path)
                total -= size

    def clear(self) -> None:
        """Remove every entry, of all kinds."""
        for entry in self._entries():
            with suppress(OSError):
                os.unlink(entry.path)

    def _entries(self) -> Iterator[os.DirEntry[str]]:
        """The files of this cache, and no others that are in its folder. Each process that writes looks
        through tens of thousands: pathlib takes ten times as long."""
        root = self.root
        for folder in () if root is None else (root / kind for kind in _KINDS):
            for part in _listed(folder):
                files = _listed(part.path) if len(part.name) == 2 else ()
                yield from (f for f in files if _ENTRY.fullmatch(f"{part.name}/{f.name}"))


def make_folder(folder: Path) -> None:
    """Make a folder, and those above it, for this user alone."""
    for part in (*reversed(folder.parents), folder):
        if not part.exists():
            part.mkdir(mode=0o700, exist_ok=True)


def _is_own(folder: Path) -> bool:
    state = folder.lstat()
    return stat.S_ISDIR(state.st_mode) and not is_open(state)


def _write(path: Path, parts: Iterable[Any]) -> None:
    """Write a file atomically: readers never see a part of it, and nothing remains where it fails. The
    temporary file is locked as long as its process lives."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, suffix=".tmp")
    try:
        with open(handle, "wb") as stream:
            with suppress(OSError):  # not every file system has locks
                lock(handle)
            stream.writelines(parts)
            stream.flush()
            os.replace(temporary, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise


def _listed(folder: str | Path) -> list[os.DirEntry[str]]:
    """The entries of a folder; empty if it does not exist."""
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except OSError:
        return []


def _remove_left(path: str) -> None:
    """Remove a temporary file whose process was killed. Raises OSError while one is writing it."""
    with open(path, "rb") as stream:
        lock(stream.fileno())
        os.unlink(path)


def default_cache(kind: str = "objects") -> ObjectCache:
    """The user's cache of one kind of object, as the environment sets it now."""
    if not knob("LOOPWRIGHT_CACHE"):
        return ObjectCache(None)
    folder = knob("LOOPWRIGHT_CACHE_DIR")
    if not folder:
        base = os.environ.get("XDG_CACHE_HOME") or os.path.join("~", ".cache")
        folder = os.path.join(base, "loopwright")
    folder = os.path.expanduser(folder)
    if folder.startswith("~"):  # this user has no home directory
        return ObjectCache(None)
    return _cache_in(_own(os.path.abspath(folder)), kind, knob("LOOPWRIGHT_CACHE_MB") << 20)


@cache
def _own(folder: str) -> Path | None:
    """The folder; None, and a warning, where others could write in it."""
    try:
        why = next(filter(None, (weakness(Path(folder) / kind) for kind in _KINDS)), None)
    except OSError:
        return None  # it cannot be read or written
    if why is None:
        return Path(folder)
    what = f"the cache folder {folder} is not used: {why}, and cached code is executed"
    hint = "restrict it with `chmod 700`, or set LOOPWRIGHT_CACHE_DIR to a folder of yours"
    warnings.warn(explain(what, instead=hint), RuntimeWarning, stacklevel=4)
    return None


@cache
def _cache_in(folder: Path | None, kind: str, max_bytes: int) -> ObjectCache:
    return ObjectCache(folder, max_bytes, kind)
