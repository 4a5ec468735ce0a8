"""The entry points: lower, compile, run."""

from __future__ import annotations

from ..base.late import late_names, public_names
from ..codegen.llvm.executable import Executable
from .front import compile

__getattr__ = late_names(__name__)  # names that import the compiler
__dir__ = public_names(__name__)

__all__ = ["Executable", "VirtualMachine", "compile", "lower", "relax_build"]
