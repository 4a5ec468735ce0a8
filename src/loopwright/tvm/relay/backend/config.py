"""What runs a built module, and on which runtime, with their options: `Executor`, `Runtime`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from ....base.errors import TVMError, explain

# TVM's names of the options' types.
_TYPES = {"runtime.BoxBool": bool, "runtime.String": str, "runtime.BoxInt": int}


class _Configured:
    """A choice by name, with options. `table`: per name its options: TVM's type, and the default."""

    table: ClassVar[dict[str, dict[str, tuple[str, Any]]]] = {}

    def __init__(self, name: str, options: Mapping[str, Any] | None = None) -> None:
        table = self._options(name)
        kind = type(self).__name__
        for key, value in (options or {}).items():
            if key not in table:
                what = f'Attribute "{key}" is not available on this {kind}'
                raise TVMError(explain(what, instead=f"one of: {', '.join(table)}"))
            expected = table[key][0]
            if type(value) is not _TYPES[expected]:
                actual = next((n for n, t in _TYPES.items() if t is type(value)), type(value))
                what = (
                    f'Attribute "{key}" should have type "{expected}" but instead found "{actual}"'
                )
                raise TVMError(what)
        self.name = name
        defaults = {k: default for k, (_, default) in table.items() if default is not None}
        self.attrs = {**defaults, **(options or {})}

    @classmethod
    def _options(cls, name: str) -> dict[str, tuple[str, Any]]:
        if name not in cls.table:
            what = f'{cls.__name__} "{name}" is not defined'
            raise TVMError(explain(what, instead=f"one of: {', '.join(cls.table)}"))
        return cls.table[name]

    @classmethod
    def list_registered(cls) -> list[str]:
        """The names there are."""
        return list(cls.table)

    @classmethod
    def list_registered_options(cls, name: Executor | str) -> dict[str, str]:
        """The options of a name, with TVM's names of their types."""
        return {key: kind for key, (kind, _) in cls._options(str(name)).items()}

    def __contains__(self, key: str) -> bool:
        return key in self.attrs

    def __getitem__(self, key: str) -> Any:
        return self.attrs[key]

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and vars(other) == vars(self)

    def __hash__(self) -> int:
        return hash((self.name, *self.attrs.items()))

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}, {self.attrs})"


class Executor(_Configured):
    """How a built module is run: "graph" or "aot"; both are native code here."""

    table: ClassVar[dict[str, dict[str, tuple[str, Any]]]] = {
        "graph": {"link-params": ("runtime.BoxBool", False)},
        "aot": {
            "link-params": ("runtime.BoxBool", True),
            "unpacked-api": ("runtime.BoxBool", None),
            "interface-api": ("runtime.String", None),
            "workspace-byte-alignment": ("runtime.BoxInt", None),
            "constant-byte-alignment": ("runtime.BoxInt", None),
        },
    }


class Runtime(_Configured):
    """The runtime below: "cpp", or "crt" without an operating system."""

    table: ClassVar[dict[str, dict[str, tuple[str, Any]]]] = {
        "cpp": {"system-lib": ("runtime.BoxBool", None)},
        "crt": {"system-lib": ("runtime.BoxBool", None)},
    }
