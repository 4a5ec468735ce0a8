"""Whether code for a GPU stays within the limits of its device."""

from __future__ import annotations

from typing import Any

from ...base.errors import explain
from ...ir.functor import Visitor
from ...ir.prim_expr import IntImm
from ..expr import BufferLoad
from ..function import PrimFunc
from ..stmt import Allocate, AttrStmt, BufferStore

_LIMITS = {
    "max_shared_memory_per_block": "bytes of shared memory",
    "max_local_memory_per_block": "bytes of local memory",
    "max_threads_per_block": "threads in a block",
    "max_thread_x": "threads along x",
    "max_thread_y": "threads along y",
    "max_thread_z": "threads along z",
    "max_vthread": "virtual threads",
    "max_vector_bytes": "bytes in a vector",
    "max_kernels": "kernels",
}


# Threads that run at the same time for all users of a buffer of the scope.
_SHARED_BY: dict[str, tuple[str, ...]] = {
    "global": ("blockIdx.", "threadIdx.", "vthread"),
    "shared": ("threadIdx.", "vthread"),
    "warp": ("threadIdx.x",),
    "wmma": ("threadIdx.x",),
}


def sharing_threads(scope: str) -> tuple[str, ...]:
    """Prefixes of the tags of the threads that share a buffer of a scope ("shared.dyn")."""
    return _SHARED_BY.get(scope.split(".")[0], ())


class _Use(Visitor):
    """The most of each that one kernel of a function uses."""

    def __init__(self) -> None:
        self.most = dict.fromkeys(_LIMITS, 0)
        self.now: dict[str, int] = {}
        self.threads: dict[str, int] = {}
        self.depth = 0

    def note(self, limit: str, value: int) -> None:
        self.most[limit] = max(self.most[limit], value)

    def visit_AttrStmt(self, node: AttrStmt) -> None:
        if node.attr_key not in ("thread_extent", "virtual_thread"):
            self.visit_default(node)
            return
        if self.depth == 0:
            self.most["max_kernels"] += 1
            self.now, self.threads = {}, {}
        tag = getattr(node.node, "thread_tag", "")
        extent = node.value.value if isinstance(node.value, IntImm) else 1
        self.thread(tag, extent)
        self.depth += 1
        self.visit(node.body)
        self.depth -= 1

    def thread(self, tag: str, extent: int) -> None:
        if tag.startswith("threadIdx."):
            self.threads[tag] = extent
            self.note(f"max_thread_{tag[-1]}", extent)
            total = 1
            for each in self.threads.values():
                total *= each
            self.note("max_threads_per_block", total)
        elif tag.startswith(("vthread", "cthread")):
            self.note("max_vthread", extent)

    def visit_Allocate(self, node: Allocate) -> None:
        kind = node.buffer_var.type_annotation
        scope = kind[1].split(".")[0] if kind else "global"
        size = node.dtype.lane_bytes * node.dtype.lanes
        for extent in node.extents:
            size *= extent.value if isinstance(extent, IntImm) else 1
        if scope in ("shared", "local"):
            self.now[scope] = self.now.get(scope, 0) + size
            self.note(f"max_{scope}_memory_per_block", self.now[scope])
        self.visit(node.body)

    def visit_BufferLoad(self, node: BufferLoad) -> None:
        self.note("max_vector_bytes", node.dtype.lane_bytes * node.dtype.lanes)
        self.visit_default(node)

    def visit_BufferStore(self, node: BufferStore) -> None:
        dtype = node.value.dtype
        self.note("max_vector_bytes", dtype.lane_bytes * dtype.lanes)
        self.visit_default(node)


def gpu_code_errors(func: PrimFunc, constraints: dict[str, Any]) -> list[str]:
    """A text for each limit of `constraints` ("max_threads_per_block": 1024, ...) that a function
    with flat buffers and launched threads breaks. Raises ValueError for an unknown limit."""
    unknown = sorted(set(constraints) - set(_LIMITS))
    if unknown:
        what = "unknown limits of GPU code"
        raise ValueError(explain(what, got=", ".join(unknown), instead=", ".join(_LIMITS)))
    walk = _Use()
    walk.visit(func.body)
    limits = {name: int(getattr(v, "value", v)) for name, v in constraints.items()}
    over = [name for name, most in limits.items() if walk.most[name] > most]
    return [explain(f"at most {limits[n]} {_LIMITS[n]}", got=walk.most[n]) for n in over]


def verify_gpu_code(func: PrimFunc, constraints: dict[str, Any]) -> bool:
    """Whether a function stays within the limits of a device; see `gpu_code_errors`."""
    return not gpu_code_errors(func, constraints)
