"""Whether the host accesses memory of a device."""

from __future__ import annotations

from typing import Any

from ...base.errors import explain
from ...ir.functor import Visitor
from ...ir.module import IRModule
from ..buffer import Buffer
from ..expr import BufferLoad
from ..function import PrimFunc
from ..stmt import Allocate, AttrStmt, BufferStore, For, ForKind

_GPU_TYPES = {"cuda", "rocm", "opencl", "metal", "vulkan", "webgpu"}
_THREADS = ("thread_extent", "device_scope", "virtual_thread")


class _HostAccesses(Visitor):
    """Accesses outside of thread loops; memory that the function allocates for the host is fine."""

    def __init__(self) -> None:
        self.errors: list[str] = []
        self.own: set[Any] = set()

    def visit_For(self, node: For) -> None:
        if node.kind != ForKind.THREAD_BINDING:
            self.visit_default(node)

    def visit_AttrStmt(self, node: AttrStmt) -> None:
        if node.attr_key not in _THREADS:
            self.visit_default(node)

    def visit_Allocate(self, node: Allocate) -> None:
        if not node.buffer_var.type_annotation or node.buffer_var.type_annotation[1] == "global":
            self.own.add(node.buffer_var)
        self.visit(node.body)

    def visit_BufferLoad(self, node: BufferLoad) -> None:
        self.visit(node.indices)
        self.access(node.buffer, node, "reads")

    def visit_BufferStore(self, node: BufferStore) -> None:
        self.visit(node.indices)
        self.visit(node.value)
        self.access(node.buffer, node, "writes")

    def access(self, buffer: Buffer, node: BufferLoad | BufferStore, does: str) -> None:
        if buffer.data in self.own:
            return
        what = f"the host {does} {buffer.name}, which is memory of the device"
        hint = "bind a loop around it to a thread axis"
        self.errors.append(explain(what, instead=hint, span=node.span))


def host_access_errors(func: PrimFunc) -> list[str]:
    """A text for each access of a GPU function outside of its threads; none for a CPU."""
    target = func.attrs.get("target")
    if target is None or str(target.kind.name) not in _GPU_TYPES:
        return []
    if "calling_conv" in func.attrs and int(func.attrs["calling_conv"]) == 2:
        return []  # the function itself runs on the device
    walk = _HostAccesses()
    walk.visit(func.body)
    return walk.errors


def verify_memory(func: PrimFunc | IRModule) -> bool:
    """Whether no PrimFunc for a GPU accesses the device's memory outside of its threads."""
    functions = [func] if isinstance(func, PrimFunc) else list(func.functions.values())
    return not any(host_access_errors(f) for f in functions if isinstance(f, PrimFunc))
