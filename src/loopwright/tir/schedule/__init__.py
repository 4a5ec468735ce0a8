"""Schedules: how a program runs, changed step by step, never what it computes."""

from .machinery import state as state
from .machinery import trace as trace
from .machinery.errors import ScheduleError as ScheduleError
from .machinery.instruction import Instruction as Instruction
from .machinery.instruction import InstructionKind as InstructionKind
from .machinery.random_variables import BlockRV as BlockRV
from .machinery.random_variables import ExprRV as ExprRV
from .machinery.random_variables import LoopRV as LoopRV
from .machinery.refs import Ref as Ref
from .machinery.refs import Ref as StmtSRef
from .machinery.scope import BlockScope as BlockScope
from .machinery.scope import Dependency as Dependency
from .machinery.scope import DepKind as DepKind
from .machinery.state import BlockDependenceInfo as BlockDependenceInfo
from .machinery.state import ScheduleDebugMask as ScheduleDebugMask
from .machinery.state import ScheduleState as ScheduleState
from .machinery.trace import Trace as Trace
from .schedule import Schedule as Schedule
