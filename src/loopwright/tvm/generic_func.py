"""Functions with a version for each kind of target: the version of the target in context is called."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, cast

from ..base.errors import explain
from ..base.registry import Registry
from ..ir.node import Node
from ..ir.target import Target

GENERIC: Registry[str, GenericFunc] = Registry("generic function")


class GenericFunc:
    """A function that has a default and versions by the keys of targets ("cpu", "x86", "cuda")."""

    def __init__(self, name: str, fdefault: Callable[..., Any] | None = None) -> None:
        self.__name__ = name
        self.fdefault = fdefault
        self.dispatch_dict: dict[str, Callable[..., Any]] = {}
        self.__doc__ = getattr(fdefault, "__doc__", None)

    def __repr__(self) -> str:
        return f"<generic function {self.__name__}, versions for {sorted(self.dispatch_dict)}>"

    def __call__(self, *args: Node | int | list[Node] | None) -> Any:
        target = Target.current(allow_none=True)
        return self.version_for(target)(*args)

    def version_for(self, target: Target | None) -> Callable[..., Any]:
        """The version of the first of the target's keys that has one, else the default.

        Raises RuntimeError where there is neither."""
        keys = [] if target is None else [*target.keys, target.kind.name]
        version = next((self.dispatch_dict[k] for k in keys if k in self.dispatch_dict), None)
        version = self.fdefault if version is None else version
        if version is None:
            what = f"{self.__name__} has no version for this target and no default"
            raise RuntimeError(
                explain(what, got=str(target), instead=f"{sorted(self.dispatch_dict)}")
            )
        return version

    def set_default(self, func: Callable[..., Any], allow_override: bool = False) -> None:
        """Set the default. Raises ValueError if there is one, unless that is allowed."""
        if self.fdefault is not None and not allow_override:
            raise ValueError(explain(f"{self.__name__} has a default already"))
        self.fdefault = func

    def register(
        self,
        key: str | Iterable[str] | Callable[..., Any],
        func: Any = None,
        override: bool = False,
    ) -> Any:
        """Set the version for one or several keys; without `func`, a decorator. The keys may come
        second."""
        if callable(key) and not isinstance(key, str):
            key, func = func, key
        keys = [key] if isinstance(key, str) else [str(k) for k in cast(Iterable[str], key)]

        def store(implementation: Callable[..., Any]) -> Callable[..., Any]:
            for name in keys:
                if name in self.dispatch_dict and not override:
                    what = f"{self.__name__} has a version for this key already"
                    raise ValueError(explain(what, got=name, instead="say override=True"))
                self.dispatch_dict[name] = implementation
            return implementation

        return store if func is None else store(func)

    def get_packed_func(self) -> GenericFunc:
        """The function itself."""
        return self


def generic_func(fdefault: Callable[..., Any]) -> GenericFunc:
    """Make a function generic, with itself as the default; a decorator."""
    return GenericFunc(fdefault.__name__, fdefault)


def get_native_generic_func(name: str) -> GenericFunc:
    """The generic function of that name, made when it is new."""
    func = GENERIC.get(name)
    return GENERIC.register(name, GenericFunc(name)) if func is None else func


def override_native_generic_func(func_name: str) -> Callable[[Callable[..., Any]], GenericFunc]:
    """A decorator that makes a function the default of the generic one of that name."""

    def decorate(fdefault: Callable[..., Any]) -> GenericFunc:
        func = get_native_generic_func(func_name)
        func.set_default(fdefault, allow_override=True)
        return func

    return decorate
