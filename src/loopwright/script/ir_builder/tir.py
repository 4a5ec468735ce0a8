"""The namespace `T` for an `IRBuilder`: that of scripts, and `prim_func` as a frame."""

from __future__ import annotations

from typing import Any

from .. import tir as _tir
from ..parser.frames import FuncFrame
from .base import IRBuilder


class PrimFuncFrame(FuncFrame):
    """`with T.prim_func()`: a function; without `T.func_name` it has no name."""

    def __init__(self, is_private: bool) -> None:
        super().__init__("", is_private)

    def __enter__(self) -> PrimFuncFrame:
        super().__enter__()
        return self

    def close(self) -> None:
        self.is_private = self.is_private or not self.name
        super().close()
        IRBuilder.current().add(self.name, self.result)


def prim_func(is_private: bool = False, private: bool = False) -> PrimFuncFrame:
    """A function."""
    return PrimFuncFrame(is_private or private)


def __getattr__(name: str) -> Any:
    return getattr(_tir, name)
