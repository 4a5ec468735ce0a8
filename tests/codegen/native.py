"""Compiles LLVM text for the tests of this folder."""

from __future__ import annotations

from loopwright.codegen.llvm import jit, support
from loopwright.runtime import NativeFunction


def load(text: str, *exports: str, opt: str = "short") -> jit.Library:
    """The text with declarations of the support functions it uses, verified and loaded."""
    data = jit.compile_object(support.declarations(text) + text, opt=opt, verify=True)
    return jit.load_objects([data], support.symbols(), exports)


def function(text: str, name: str) -> NativeFunction:
    """The entry `name` of the text, callable."""
    library = load(text, name)
    return NativeFunction(library[name], name, library)
