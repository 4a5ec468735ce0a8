"""The virtual machine: bytecode, its builder, the machine that runs it."""

from . import dynamic_sizes as dynamic_sizes
from . import kv_state as kv_state
from . import numbers as numbers
from . import paged_cache as paged_cache
from . import paths as paths
from . import pictures as pictures
from . import rnn_state as rnn_state
from . import sequences as sequences
from . import steering as steering
from . import texts as texts
from .builder import ExecBuilder as ExecBuilder
from .bytecode import VMExecutable as VMExecutable
from .bytecode import VMFuncKind as VMFuncKind
from .executable import Executable as Executable
from .machine import Machine as Machine
from .machine import VMInstrumentReturnKind as VMInstrumentReturnKind
from .saved import load as load
from .saved import save as save
from .virtual_machine import VirtualMachine as VirtualMachine
