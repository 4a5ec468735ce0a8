"""TVM 0.18's `contrib.debugger.debug_executor`: a graph executor that measures its kernels.

m = debug_executor.create(lib.get_graph_json(), lib.get_lib(), cpu())
m.set_input("x", x)
print(m.profile())
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ...base.errors import explain
from ...runtime.profiler import Profile
from ..graph_executor import GraphModule, GraphRuntime
from ..graph_executor import create as create_plain

if TYPE_CHECKING:
    import numpy as np

    from ...codegen.llvm.executable import Executable
    from ...runtime.device import Device


class GraphModuleDebug(GraphModule):
    """A model ready to run, kernel by kernel measured. device, graph_json_str, dump_root: accepted
    for compatibility; nothing is written to a folder."""

    def __init__(
        self,
        module: GraphRuntime,
        device: Device | None = None,
        graph_json_str: str = "",
        dump_root: Any = None,
    ) -> None:
        super().__init__(module)

    def _measured(self, number: int) -> Profile:
        runtime = self.module
        return runtime.model.profile(*runtime.values, function="main", number=number)

    def profile(
        self, collectors: Sequence[str] | None = None, **input_dict: np.ndarray[Any, Any]
    ) -> Profile:
        """Run once and measure each kernel; printed, it is a table. collectors: must be None."""
        if collectors:
            what = "collectors of other metrics are not supported"
            raise NotImplementedError(explain(what, got=str(collectors), instead="leave them out"))
        self.set_input(**input_dict)
        return self._measured(1)

    def run(  # TVM's too has other parameters than its base
        self, number: int = 10, repeat: int = 1, *, sort_by_time: bool = True, **options: Any
    ) -> None:
        """Compute the outputs of inputs that may be given here by name, and print the kernels' times.
        Options of measuring are accepted for compatibility."""
        self.set_input(**options)
        super().run()
        print(self._measured(number * repeat))

    def run_individual(self, number: int, repeat: int = 1, *rest: Any, **more: Any) -> Any:
        """The times of each kernel in seconds, one for each repeat: [[0.1, 0.1], ...]."""
        runs = [self._measured(number) for _ in range(repeat)]
        return [[run[entry.name].mean_us / 1e6 for run in runs] for entry in runs[0]]


def create(graph_json_str: str, libmod: Executable, device: Device, dump_root: Any = None) -> Any:
    """The executor of the results of `relay.build`."""
    plain = create_plain(graph_json_str, libmod, device)
    return GraphModuleDebug(plain.module, device, graph_json_str, dump_root)
