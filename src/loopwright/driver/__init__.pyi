"""The front door: lower, compile, run.

Made by `python -m tools.make_stubs`.
"""

from loopwright.driver.build import lower as lower, relax_build as relax_build
from loopwright.driver.executable import Executable as Executable
from loopwright.driver.front import compile as compile
from loopwright.driver.vm import VirtualMachine as VirtualMachine
