"""Schedules: how a program runs, changed step by step, never what it computes."""

from . import analysis as analysis
from . import testing as testing
from . import transform as transform
from .error import ScheduleError as ScheduleError
from .primitive import InstructionKind as InstructionKind
from .rv import BlockRV as BlockRV
from .rv import ExprRV as ExprRV
from .rv import LoopRV as LoopRV
from .schedule import Schedule as Schedule
from .scope import BlockScope as BlockScope
from .scope import Dependency as Dependency
from .scope import DepKind as DepKind
from .state import BlockDependenceInfo as BlockDependenceInfo
from .state import Ref as Ref
from .state import Ref as StmtSRef
from .state import ScheduleDebugMask as ScheduleDebugMask
from .state import ScheduleState as ScheduleState
from .trace import Instruction as Instruction
from .trace import Trace as Trace
