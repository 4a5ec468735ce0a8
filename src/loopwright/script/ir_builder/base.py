"""`IRBuilder` collects the functions and statements that are created inside it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from ...base.errors import explain
from ...ir.prim_expr import IterVar
from ...ir.prim_expr import Var as TirVar
from ...relax.expr import Function
from ...relax.expr import Var as RelaxVar
from ...tir.buffer import Buffer
from ...tir.function import PrimFunc
from ..parser.frames import Frame, body_of
from ..parser.tir_values import name_value

Named = TypeVar("Named")


class _Open(threading.local):
    def __init__(self) -> None:
        self.builders: list[IRBuilder] = []


_OPEN = _Open()


class IRBuilder(Frame):
    """Collects the parts of a program: a module, a function, or statements."""

    title = "an IRBuilder"

    def __init__(self) -> None:
        super().__init__()
        self.results: list[Any] = []
        self.module: Any = None  # the I.ir_module that is open

    def __enter__(self) -> IRBuilder:
        super().__enter__()
        _OPEN.builders.append(self)
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        _OPEN.builders.remove(self)
        super().__exit__(kind, error, trace)

    def close(self) -> None:
        if self.stmts:
            self.results.append(body_of(self.stmts))

    def get(self) -> Any:
        """The result. Raises ValueError unless it is a single one."""
        if len(self.results) != 1:
            what = "an IRBuilder builds one module, function or statement"
            raise ValueError(explain(what, got=f"{len(self.results)} of them"))
        return self.results[0]

    def add(self, name: str, function: Function | PrimFunc | None) -> None:
        """Take a function: into the module that is open, else as the result."""
        if self.module is not None:
            self.module.define(name, function)
        else:
            self.results.append(function)

    @staticmethod
    def current() -> IRBuilder:
        """The builder that is open. Raises ValueError outside of all builders."""
        if not _OPEN.builders:
            raise ValueError(explain("no IRBuilder is open", instead="with IRBuilder() as ib: ..."))
        return _OPEN.builders[-1]

    @staticmethod
    def is_in_scope() -> bool:
        """Whether a builder is open."""
        return bool(_OPEN.builders)

    @staticmethod
    def name(s: str, v: Named) -> Named:
        """Name a variable, an axis or a buffer."""
        if isinstance(v, RelaxVar):
            v.name_hint = s
        elif isinstance(v, (TirVar, IterVar, Buffer)):
            for holder in (v.data, v) if isinstance(v, Buffer) else (v,):
                (holder.var if isinstance(holder, IterVar) else holder).name = ""
            name_value(s, v)
        return v

    @staticmethod
    def name_many(s: Sequence[str], vs: Sequence[Named]) -> list[Named]:
        """Name several."""
        return [IRBuilder.name(name, value) for name, value in zip(s, vs, strict=True)]


class IRBuilderFrame:
    """A frame of a module or of a graph function. Callbacks run when it closes."""

    def __init__(self) -> None:
        self.callbacks: list[Callable[[], None]] = []

    def add_callback(self, callback: Callable[[], None]) -> None:
        """Run `callback` when the frame closes."""
        self.callbacks.append(callback)

    def __enter__(self) -> Any:
        self.open()
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        for callback in self.callbacks:
            callback()
        self.close(failed=kind is not None)

    def open(self) -> None:
        """Called by `with`."""

    def close(self, failed: bool) -> None:
        """Called at the end of `with`."""
