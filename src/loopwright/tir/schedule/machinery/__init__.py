"""The basis of the primitives: the program's state, random variables, the trace, and analyses that
several of them use."""

from .errors import ScheduleError as ScheduleError
from .random_variables import BlockArg as BlockArg
from .random_variables import BlockRV as BlockRV
from .random_variables import ExprRV as ExprRV
from .random_variables import LoopRV as LoopRV
from .refs import Ref as Ref
from .registration import primitive as primitive
from .registration import unrecorded as unrecorded
from .schedule_base import ScheduleBase as ScheduleBase
