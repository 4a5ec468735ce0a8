"""Graph functions as programs of the virtual machine."""

from .bytecode import add_function as add_function
from .bytecode import program_of as program_of
from .tir import tir_function as tir_function
