"""Bring your own code generator: back ends that take over regions of a graph.

- registry.py: the record of a back end and the registry (plug-ins add more: base/plugins.py)
- patterns.py: patterns by name
- before_folding.py: the matches that folding would destroy
- nearest.py: why nothing matches
- partition.py: selects the regions of a back end that pay
- composite.py: a match as a function, and as an operator
- lower.py: lowers regions to external calls (the pass is `relax.transform.RunCodegen`)
"""

from ...base.plugins import Plugin, plugins
from .before_folding import FuseBeforeFolding
from .composite import composite_inputs
from .partition import PartitionFor, PartitionReport, partition
from .patterns import get_pattern, get_patterns_with_prefix, register_patterns
from .registry import Backend, Cost, get_backend, list_backends, register_backend, remove_backend
