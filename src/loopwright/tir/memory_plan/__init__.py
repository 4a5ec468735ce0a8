"""Static memory planning: assigns memory to each tensor so that none is overwritten while it is
live.

Pure functions on sizes and live ranges, used by every pass that plans memory: `place` returns
offsets in pools (`PlanUnifiedMemory`, `MergeSharedMemoryAllocations`), `share` assigns whole
allocations to items in turn (`StaticPlanBlockMemory`, `StorageRewrite`). Also here: the plan that
`PlanUnifiedMemory` produces, with its report and pictures (`plan`, `picture`). Live ranges in a
module are computed by `tir.analysis.liveness`.
"""

from .algorithms import ALGORITHMS as ALGORITHMS
from .algorithms import greedy_by_conflicts as greedy_by_conflicts
from .algorithms import greedy_by_size as greedy_by_size
from .algorithms import hill_climb as hill_climb
from .algorithms import place as place
from .algorithms import place_in_order as place_in_order
from .picture import svg_picture as svg_picture
from .picture import text_picture as text_picture
from .plan import Entry as Entry
from .plan import MemoryPlan as MemoryPlan
from .plan import PlannedPool as PlannedPool
from .plan import plan_of as plan_of
from .plan import plan_of_module as plan_of_module
from .problem import Item as Item
from .problem import Placement as Placement
from .problem import Pool as Pool
from .problem import Problem as Problem
from .problem import lower_bound as lower_bound
from .share import share as share
