"""The entry points: lower, compile, run.

Made by `python -m tools.make_stubs`.
"""

from loopwright.codegen.llvm.executable import Executable as Executable
from loopwright.driver.front import compile as compile
from loopwright.driver.steps import lower as lower, relax_build as relax_build
from loopwright.runtime.vm.virtual_machine import VirtualMachine as VirtualMachine
