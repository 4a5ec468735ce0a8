"""Registries: named tables that other modules and other packages add to.

    KINDS: Registry[str, TargetKind] = Registry("target kind", error=ValueError, compiles=True)
    KINDS.register("npu", kind)           # raises ValueError where the name is taken
    KINDS["npu"], KINDS.get("npu")        # a dict's reads, at a dict's speed
    KINDS.lookup("nqu")                   # ValueError: unknown target kind ... did you mean npu?
    KINDS.revision                        # grows with each change: what caches are keyed by
    with KINDS.snapshot(): ...            # for tests: registrations inside are undone

Every entry has an origin, the module or package that registered it. It is given, or that of the
plug-in being loaded (`registering`), or the module in which a registered function or class is
defined; "" is the running program. The package's own functions count as its own only while their
module is being imported: registered later, it is somebody else who registers them.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from types import FunctionType
from typing import Any, Generic, NoReturn, TypeVar
from weakref import WeakValueDictionary

from .errors import explain, suggest

K = TypeVar("K")
V = TypeVar("V")

PACKAGE = __name__.partition(".")[0]
_LOADING: ContextVar[str | None] = ContextVar("the plug-in being loaded", default=None)
_ALL: WeakValueDictionary[int, Registry[Any, Any]] = WeakValueDictionary()


@dataclass(frozen=True)
class Entry(Generic[K, V]):
    """One registration."""

    key: K
    value: V
    origin: str


class Registry(dict[K, V]):
    """Values by key, in the order of their registration, with who registered each.

    name: what an entry is, for messages: "target kind".
    add: what adds an entry, for messages: "register_target_kind".
    error: the exception for unknown keys and for keys in use.
    compiles: whether entries influence how a model is compiled: a compiled model is kept
        for other processes only while all of those are the package's own.
    """

    def __init__(
        self,
        name: str,
        *,
        add: str = "",
        error: type[Exception] = ValueError,
        compiles: bool = False,
    ) -> None:
        super().__init__()
        self.name = name
        self.add = add
        self.error = error
        self.compiles = compiles
        self.revision = 0
        self._origins: dict[K, str] = {}
        self._lost: dict[K, Entry[K, V]] = {}  # the package's own, which others replaced or removed
        _ALL[id(self)] = self

    def register(self, key: K, value: V, *, origin: str | None = None, override: bool = False) -> V:
        """Add an entry and return its value. Raises the registry's error where the key is taken
        and `override` is not given."""
        if key in self and not override:
            what = f"{self.name} {_quoted(key)} is registered already"
            got = f"one of {_shown(self._origins[key])}"
            hint = "take another name, or pass override=True to replace it"
            raise self.error(explain(what, got=got, instead=hint))
        origin = origin_of(value) if origin is None else origin
        if is_own(origin):
            self._lost.pop(key, None)
        else:
            self._lose(key)
        super().__setitem__(key, value)
        self._origins[key] = origin
        self.revision += 1
        return value

    def remove(self, key: K) -> None:
        """Forget an entry; an unknown key is left alone."""
        if key in self:
            self._lose(key)
            super().__delitem__(key)
            del self._origins[key]
            self.revision += 1

    def _lose(self, key: K) -> None:
        if is_own(self._origins.get(key, "")):
            self._lost[key] = Entry(key, self[key], self._origins[key])

    def lost(self, key: K) -> Entry[K, V] | None:
        """The package's own entry that another one replaced, or that was removed."""
        return self._lost.get(key)

    def lookup(self, key: Any) -> V:
        """The value of a key. Raises the registry's error, naming close ones."""
        if key not in self:
            hint = suggest(key, map(str, self))
            hint = f"{hint} ({self.add} adds one)" if self.add else hint
            raise self.error(explain(f"unknown {self.name}", got=key, instead=hint))
        return self[key]

    def origin(self, key: K) -> str:
        """Who registered an entry: a module or a package; "" for the running program."""
        return self._origins[key]

    def entries(self) -> list[Entry[K, V]]:
        """All entries with their origins."""
        return [Entry(key, value, self._origins[key]) for key, value in self.items()]

    def _own(self) -> dict[K, Entry[K, V]]:
        return {entry.key: entry for entry in self.entries() if is_own(entry.origin)}

    @property
    def is_customised(self) -> bool:
        """Whether any entry is not the package's own, or one of its own is not there any more."""
        return bool(self._lost) or not all(map(is_own, self._origins.values()))

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """Registrations and removals inside are undone at the end; those of the package itself
        stay, since its modules are imported once."""
        before, revision = (dict(self), dict(self._origins), dict(self._lost)), self.revision
        try:
            yield
        finally:
            if self.revision != revision:
                own = {k: e for k, e in self._own().items() if k not in before[0]}
                super().clear()
                super().update(before[0] | {key: entry.value for key, entry in own.items()})
                self._origins = before[1] | {key: entry.origin for key, entry in own.items()}
                self._lost = before[2]
                self.revision += 1

    def _refuse(self, *args: Any, **options: Any) -> NoReturn:
        what = f"the registry of each {self.name} is changed by register and remove only"
        raise TypeError(explain(what))

    __setitem__ = __delitem__ = __ior__ = _refuse
    pop = popitem = setdefault = update = clear = _refuse  # type: ignore[assignment]


def registries() -> list[Registry[Any, Any]]:
    """All registries, by name."""
    return sorted(_ALL.values(), key=lambda registry: registry.name)


def customised() -> list[Registry[Any, Any]]:
    """The registries with a say in compilation whose entries are not all the package's own."""
    return [r for r in registries() if r.compiles and r.is_customised]


@contextmanager
def registering(origin: str) -> Iterator[None]:
    """Registrations inside come from `origin`: the package whose plug-in is being loaded."""
    token = _LOADING.set(origin)
    try:
        yield
    finally:
        _LOADING.reset(token)


def is_own(origin: str) -> bool:
    """Whether an origin is this package."""
    return origin == PACKAGE or origin.startswith(f"{PACKAGE}.")


def being_imported(module: str) -> bool:
    """Whether a module is in the middle of its import."""
    spec = getattr(sys.modules.get(module), "__spec__", None)
    return bool(getattr(spec, "_initializing", False))


def origin_of(value: object) -> str:
    """Who registers a value now: the module of a function or class, or the plug-in being loaded."""
    module = (value.__module__ or "") if isinstance(value, (FunctionType, type)) else ""
    if is_own(module) and being_imported(module):
        return module  # also while a plug-in that needs the module is loaded
    loading = _LOADING.get()
    if loading is not None:
        return loading
    return "" if is_own(module) else module


def _shown(origin: str) -> str:
    return origin or "this program"


def _quoted(key: object) -> str:
    return repr(key) if isinstance(key, str) else str(key)
