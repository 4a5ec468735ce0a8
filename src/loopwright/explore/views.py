"""Views of traces and executables for lower layers, which reach them through one slot (`base.late.VIEWS`)."""

from .bisect import bisect as bisect
from .command import explore as explore
from .costs import Costs as Costs
from .costs import costs_of as costs_of
from .explored import Explored as Explored
from .page import notebook_executable as notebook_executable
from .page import notebook_trace as notebook_trace
from .page import page_of_executable as page_of_executable
from .page import page_of_trace as page_of_trace
