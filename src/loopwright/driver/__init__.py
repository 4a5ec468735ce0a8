"""The front door: lower, compile, run."""

from .build import compile, lower, relax_build
from .executable import Executable
from .vm import VirtualMachine

build = compile

__all__ = ["Executable", "VirtualMachine", "build", "compile", "lower", "relax_build"]
