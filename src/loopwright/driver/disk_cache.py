"""Compiled models kept on disk: the next process loads one without importing the compiler.

The key is a hash of all inputs: the content of the model file, the target and the
host CPU, the package's own sources, the versions of its dependencies. Only ONNX models compiled by
the default pipelines without instruments or customisation are kept. The folder is the
object cache's, with the same bound, digests and atomic writes; `LOOPWRIGHT_CACHE=0` disables
both.
"""

from __future__ import annotations

import hashlib
import json
import os
import struct
import sys
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, reduce
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, BinaryIO

import llvmlite
import numpy as np

from ..base.config import ENVIRONMENT, knob
from ..base.errors import LoopwrightError, explain
from ..base.host import host
from ..base.registry import customised
from ..codegen.llvm.cache import default_cache
from ..codegen.llvm.executable import Executable
from ..codegen.llvm.program import NativeProgram
from ..codegen.objects import is_sound
from ..runtime.profiler import Profile
from ..runtime.signature import Signature
from ..runtime.tensor import aligned_empty
from ..runtime.vm import VMExecutable
from ..runtime.vm.saved import from_bytes, to_bytes
from .options import DEFAULTS, CompileOptions, Described

if TYPE_CHECKING:
    from ..ir.target import Target
    from ..runtime.tensor import Tensor

_SUFFIXES = (".onnx", ".tflite")  # of files that are a whole model
_FORMAT = 3  # increase when `packed` writes something else
_ALIGN = 64  # bytes: constants are mapped, and native code assumes the alignment of `Tensor`
_CHUNK = 1 << 20  # bytes of a file read at once
_REFERENCE = b"location"  # the key of the field that names another file
_TICK = 2_000_000_000  # ns: more than the step of any file system's times
_PACKAGE = Path(__file__).resolve().parent.parent
# Knobs that do not affect compiled code.
_OTHER_KNOBS = (
    "LOOPWRIGHT_CACHE",
    "LOOPWRIGHT_CACHE_DIR",
    "LOOPWRIGHT_CACHE_MB",
    "LOOPWRIGHT_JOBS",
    "LOOPWRIGHT_TRACEBACK",
)


# ---------------------------------------------------------------------- the key


@dataclass(frozen=True)
class CacheEntry:
    """The cache entry of a model's executable."""

    key: str
    model: Any
    content: _Content

    def unchanged(self) -> bool:
        """Whether the model is still the one that the key was computed from."""
        if self.content.stamp is not None and _stamp(os.stat(self.model)) == self.content.stamp:
            return True
        now = _content(self.model)
        return now is not None and now.digest == self.content.digest


def entry_for(
    model: Any, target: Target | str | None, default_target: str, options: CompileOptions = DEFAULTS
) -> CacheEntry | None:
    """The entry of a model compiled for a target; None if it must not be cached."""
    if not options.is_default or not knob("LOOPWRIGHT_CACHE") or is_customised():
        return None
    words = target_text(target, default_target)
    content = _content(model) if words is not None else None
    if content is None or content.refers:
        return None
    parts = [_FORMAT, content.digest, words, *surroundings(), *knobs()]
    key = hashlib.blake2b("\0".join(map(str, parts)).encode(), digest_size=20).hexdigest()
    return CacheEntry(key, model, content)


@dataclass(frozen=True)
class _Content:
    """A model's bytes: their digest, whether they may refer to other files, and a stamp of the file
    that does not change as long as the file is not written."""

    digest: str
    refers: bool
    stamp: tuple[int, ...] | None = None


def _content(model: Any) -> _Content | None:
    """The content of an ONNX or TFLite model given as a path or a ModelProto, or of a described one; None for
    anything else, and for a model whose weights the cache would not take."""
    if isinstance(model, Described):
        return _Content(_digested([model.text.encode()]).digest, False)
    if isinstance(model, (str, os.PathLike)):
        if Path(model).suffix not in _SUFFIXES:
            return None
        try:
            with open(model, "rb") as stream:
                state = os.fstat(stream.fileno())
                if state.st_size > default_cache("executables").largest:
                    return None
                return _content_of_file(stream, _stamp(state))
        except OSError:
            return None  # the importer reports the error
    kind = type(model)
    if kind.__name__ == "ModelProto" and kind.__module__.partition(".")[0] == "onnx":
        try:
            return _digested([model.SerializeToString(deterministic=True)])
        except ValueError:
            return None  # too large for one message
    return None


def _content_of_file(stream: BinaryIO, stamp: tuple[int, ...] | None) -> _Content:
    """The content of an open file. Its digest is cached: a file that has not been written since is not read."""
    if stamp is None:
        return _digested(iter(lambda: stream.read(_CHUNK), b""))
    store, key = default_cache("digests"), hashlib.blake2b(repr(stamp).encode(), digest_size=20)
    stored = store.get(key.hexdigest())
    if stored is not None:
        return _Content(stored[1:].hex(), stored[:1] != b"0", stamp)
    content = _digested(iter(lambda: stream.read(_CHUNK), b""), stamp)
    store.put(key.hexdigest(), b"%d" % content.refers, bytes.fromhex(content.digest))
    return content


def _digested(chunks: Iterable[bytes], stamp: tuple[int, ...] | None = None) -> _Content:
    digest, refers, end = hashlib.blake2b(digest_size=20), False, b""
    for chunk in chunks:
        digest.update(chunk)
        # A file that refers to others is not the whole model.
        refers = refers or _REFERENCE in chunk or _REFERENCE in end + chunk[: len(_REFERENCE)]
        end = chunk[-len(_REFERENCE) :]
    return _Content(digest.hexdigest(), refers, stamp)


def _stamp(state: os.stat_result) -> tuple[int, ...] | None:
    """The stamp of a file's content from its state; None for one so new that a second write may leave the
    same time."""
    if time.time_ns() - state.st_mtime_ns < _TICK:
        return None
    return state.st_dev, state.st_ino, state.st_size, state.st_mtime_ns, state.st_ctime_ns


def target_text(target: str | Target | None, default: str) -> str | None:
    """The text of a `target` argument; None if it has none."""
    module = sys.modules.get("loopwright.ir.target")
    if target is None and module is not None:
        target = module.Target.current(allow_none=True)
    if target is None:
        return default
    if isinstance(target, str):
        return target
    return str(target) if module is not None and isinstance(target, module.Target) else None


def is_customised() -> bool:
    """Whether anything but the package and its defaults affects compilation."""
    if customised():
        return True
    passes = sys.modules.get("loopwright.ir.transform")
    return bool(knob("LOOPWRIGHT_DUMP")) if passes is None else not passes.unwatched()


def knobs() -> Iterator[str]:
    for name in sorted(ENVIRONMENT):
        if name not in _OTHER_KNOBS:
            yield f"{name}={knob(name)}"


def surroundings() -> tuple[str, ...]:
    """The host and the versions of the software involved."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    here = host()
    sizes = map(str, here.record.caches)
    return (here.triple, here.name, here.flags, *sizes, str(cores), *_software())


@cache
def _software() -> tuple[str, ...]:
    versions = (sys.version, np.__version__, llvmlite.__version__)
    others = (state_of(*_files_of(name)) for name in ("onnx", "tvm_ffi", "ml_dtypes"))
    # Installing a package changes its folder: it may contain plug-ins.
    folders = (Path(p) for p in sys.path if p.endswith(("site-packages", "dist-packages")))
    installed = state_of(*(f for f in folders if f.is_dir()))
    sources = sorted(_PACKAGE.rglob("*.[pl][yl]"))  # .py and .ll
    return (*versions, *others, installed, state_of(*sources))


def _files_of(package: str) -> list[Path]:
    """The top-level files of an installed package, without importing it."""
    spec = find_spec(package)
    if spec is None or spec.origin is None:
        return []
    return sorted(Path(spec.origin).parent.glob("*.py"))


def state_of(*paths: Path) -> str:
    """A hash of files' names, modification times and sizes, of those that exist."""
    digest = hashlib.blake2b(digest_size=16)
    for path in paths:
        try:
            stat = path.stat()
        except OSError:
            continue  # an editor's link to nowhere, a file that was just removed
        digest.update(f"{path}|{stat.st_mtime_ns}|{stat.st_size}\n".encode())
    return digest.hexdigest()


# ---------------------------------------------------------------------- serialization


def packed(
    exe: Executable, weights: Mapping[int, int] = MappingProxyType({})
) -> tuple[list[Any], list[Any]] | None:
    """An executable as two lists of pieces of bytes: a length, JSON and its objects; its constants.
    None for one that calls functions of others, or has constants that are not written.

    weights: the numbers of constants without values, by the identities of their arrays.
    """
    program = exe.program
    if program.libraries or program.imports:
        return None
    data, code = _Pieces(), _Pieces()
    constants = []
    for name, array in program.constants.items():
        if _dtype(array.dtype.name) != array.dtype:
            return None
        if id(array) in weights:
            constants.append(
                [name, array.dtype.name, list(array.shape), -1 - weights[id(array)], 0]
            )
            continue
        offset = data.put(array.reshape(-1).view(np.uint8), array.nbytes)
        constants.append([name, array.dtype.name, list(array.shape), offset, array.nbytes])
    objects = [[name, code.put(o, len(o)), len(o)] for name, o in program.objects.items()]
    machine = []
    if exe.machine_runner is not None:
        try:
            bytecode = to_bytes(exe.machine_runner.program)
        except (TypeError, ValueError, LoopwrightError):  # of constants that are not numbers
            return None
        signatures = {name: s.plain().as_lists() for name, s in exe.machine_signatures.items()}
        parts = [name for name in program.entries if name not in exe]
        machine = [code.put(bytecode, len(bytecode)), len(bytecode), signatures, parts]
    header = {
        "machine": machine,
        "constants": constants,
        "data": [data.end, _checksum(data.parts)],
        "objects": objects,
        "entries": {name: exe.entries[name].plain().as_lists() for name in program.entries},
        "names": exe.names,
        "target": exe._target_text(),
    }
    text = json.dumps(header).encode()
    return [struct.pack("<Q", len(text)), text, *code.parts], data.parts


class _Pieces:
    """Pieces of bytes one after the other, each aligned."""

    def __init__(self) -> None:
        self.parts: list[Any] = []
        self.end = 0

    def put(self, piece: Any, size: int) -> int:
        """Append a piece; returns its offset."""
        start = -(-self.end // _ALIGN) * _ALIGN
        self.parts += (bytes(start - self.end), piece)
        self.end = start + size
        return start


def _checksum(parts: Iterable[Any]) -> int:
    """CRC-32 of the parts as one: finds damage, at more bytes a second than a digest."""
    return reduce(lambda crc, part: zlib.crc32(part, crc), parts, 0)


def unpacked(
    code: bytes, data: Any, again: Callable[[], Any], threads: int | None = None,
    values: Sequence[np.ndarray] | None = None, kind: type | None = None,
) -> Restored:  # fmt: skip
    """The executable that `packed` wrote, loaded, with `threads` threads; its constants stay in `data`,
    and those that were packed as weights in `values`, aligned bytes of each. `again` recompiles it.
    kind: the class of the executable. Raises an exception of some kind for any other bytes."""
    (length,) = struct.unpack_from("<Q", code)
    header = json.loads(code[8 : 8 + length])
    start = 8 + length
    if header["data"] != [len(data), _checksum([data])]:
        raise ValueError("these are not the executable's constants")
    room = np.frombuffer(data, np.uint8) if len(data) else np.empty(0, np.uint8)
    constants: dict[str, Any] = {}
    weights: dict[int, Any] = {}
    for name, dtype, shape, offset, count in header["constants"]:
        if offset < 0 and values is not None:
            constants[name] = values[-1 - offset].view(_dtype(dtype)).reshape(shape)
        elif offset < 0:
            constants[name] = weights[-1 - offset] = aligned_empty(tuple(shape), _dtype(dtype))
        else:
            constants[name] = room[offset : offset + count].view(_dtype(dtype)).reshape(shape)
    objects = {n: code[start + offset : start + offset + c] for n, offset, c in header["objects"]}
    entries = {n: _signature(lists) for n, lists in header["entries"].items()}
    names = header["names"]
    texts = all(isinstance(n, str) for listed in names.values() for n in listed)
    if not (objects and entries and texts and all(map(is_sound, objects.values()))):
        raise ValueError("the entry is not an executable")
    program = RestoredProgram(objects, constants, list(entries), again, threads)
    restored: Any = (kind or Restored)(program, entries, names, str(header["target"]), again)
    restored.weights = weights
    if header["machine"] != []:
        offset, count, described, parts = header["machine"]
        signatures = {n: _signature(lists) for n, lists in described.items()}
        restored.run_on(
            from_bytes(code[start + offset : start + offset + count]), signatures, parts
        )
    return restored


def _signature(lists: int | Sequence[Sequence[Any]] | Mapping[str, Any] | None) -> Signature:
    """A signature from JSON. Raises ValueError for another value."""
    signature = Signature.from_lists(lists)
    for argument in (*signature.params, *signature.results):
        texts = isinstance(argument.name, str) and isinstance(argument.dtype, str)
        if not texts or not all(isinstance(d, (int, str)) for d in argument.dims or ()):
            raise ValueError(f"no argument of a function: {argument}")
    count = len(signature.results)
    if signature.tree is not None and not all(0 <= k < count for k in _leaves(signature.tree)):
        raise ValueError(f"no nesting of the results: {signature.tree}")
    return signature


def _leaves(tree: int | Sequence[int | Sequence[int | Sequence[Any]]]) -> list[Any]:
    return [leaf for t in tree for leaf in _leaves(t)] if isinstance(tree, list) else [tree]


def _dtype(name: str) -> np.dtype:
    return np.dtype(name)


class RestoredProgram(NativeProgram):
    """A program whose text is regenerated on access."""

    is_foreign: Any = False  # such programs are not kept

    def __init__(
        self,
        objects: dict[str, bytes],
        constants: dict[str, Any],
        entries: list[str],
        again: Callable[[], Any],
        threads: int | None = None,
    ) -> None:
        self._again = again
        self.threads = threads
        self.objects = objects
        self.constants = constants
        self.entries = entries
        self.library = None
        self.functions = {}
        self.imports = {}

    def __getattr__(self, name: str) -> Any:
        if name in ("texts", "target"):
            return getattr(self._again().program, name)
        raise AttributeError(name)


class Restored(Executable):
    """An executable read from disk. Its modules and texts are regenerated on access. weights: the memory
    of constants without values, by number."""

    weights: Mapping[int, np.ndarray] = MappingProxyType({})

    def __init__(
        self,
        program: NativeProgram,
        entries: Mapping[str, Signature],
        names: Mapping[str, Any],
        target_text: str,
        again: Callable[[], Any],
    ) -> None:
        self._again = again
        self._text = target_text
        self._describe(entries, names, {})
        self._load(program)

    def run_on(
        self, program: VMExecutable, signatures: Mapping[str, Signature], parts: Iterable[str]
    ) -> None:
        """Add the functions of a program of the virtual machine, whose native parts are its own.
        Raises an error of some kind where a function that it calls is not there."""
        for part in parts:
            self._functions.pop(part, None)
        del self.machine  # is regenerated on access
        self.machine_signatures = dict(signatures)
        self.add_machine(program)
        assert self.machine_runner is not None
        self.machine_runner.link()

    def __getattr__(self, name: str) -> Any:
        if name in ("mod", "lowered", "target", "machine"):
            return getattr(self._again(), name)
        return super().__getattr__(name)

    def _target_text(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return super().__repr__().replace(type(self).__name__, Executable.__name__, 1)

    @property
    def memory_plan(self) -> None:
        """None: models compiled for arenas are not kept."""
        return None

    def profile(
        self,
        *args: np.ndarray[Any, Any] | Tensor | tuple[Tensor, ...],
        function: str = "main",
        number: int = 1,
        **named: np.ndarray[Any, Any],
    ) -> Profile:
        return self._again().profile(*args, function=function, number=number, **named)


# ---------------------------------------------------------------------- reading, writing


def find(
    entry: CacheEntry, recompile: Callable[[], Any], threads: int | None = None
) -> Restored | None:
    """The cached executable of an entry, loaded; None if it is missing or cannot be loaded."""
    store = default_cache("executables")
    code = store.get(entry.key)
    if code is None:
        return None

    @cache
    def again() -> Any:
        if not entry.unchanged():
            what = "the model is not the one that was compiled"
            hint = "compile it again to look at its modules and texts"
            raise LoopwrightError(explain(what, got=entry.model, instead=hint))
        return recompile()

    try:
        data = default_cache("constants").map(entry.key)
        return unpacked(code, b"" if data is None else data, again, threads)
    except Exception:  # whatever is in the entry: the model is compiled
        store.remove(entry.key)
        return None


def keep(entry: CacheEntry, exe: Executable) -> None:
    """Keep an executable for other processes, unless something has changed since `entry_for`."""
    own = not is_customised() and entry.unchanged() and not exe.program.is_foreign
    pieces = packed(exe) if own else None
    if pieces is not None:
        code, data = pieces
        if default_cache("constants").put_data(entry.key, *data):
            default_cache("executables").put(entry.key, *code)
