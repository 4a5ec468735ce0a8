"""`LowerDeviceStorageAccessInfo`: puts memory of special scopes at the address that their
definition returns and makes pointers into it plain.

Before (-) and after (+)::

      @T.prim_func
      def main(A: T.Buffer((16,), "float32")):
    -     v = T.allocate([16], "float32", "local.scratch")
    +     v: T.handle("float32", "local.scratch") = T.call_pure_extern("handle", "scratch_memory")
          V = T.Buffer((16,), data=v, scope="local.scratch")
          for i in range(16):
              V[i] = A[i]
    -     T.call_extern("int32", "work", T.tvm_access_ptr(T.type_annotation("float32"), v, 4, 12, 1))
    +     T.call_extern("int32", "work", T.address_of(V[4]))

Pass::

    for_example("local.scratch", "scratch_memory")

The global function `tvm.info.mem.<scope>` describes a scope: it returns a `MemoryInfo`, or a dict,
with `head_address`, the expression of its address, or None where code on the CPU cannot reach it:
then an allocation without uses is removed. `StorageRewrite` refuses more than `max_num_bits`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ....base.errors import explain
from ....ir.prim_expr import Call, IntImm, Var
from ....runtime.packed_func import get_global_func, register_func
from ...buffer import decl_buffer
from ...expr import BufferLoad
from ...op import address_of, call_pure_extern, is_call_to
from ...stmt import Allocate, BufferStore, DeclBuffer, LetStmt, Stmt
from ..base import RewriterPass, StmtRewriter, occurs


def memory_info(scope: str) -> Any:
    """The description of a scope with a tag; None without one."""
    if "." not in scope or scope == "shared.dyn":
        return None
    describe = get_global_func(f"tvm.info.mem.{scope}", allow_missing=True)
    return None if describe is None else describe()


def _field(info: Mapping[str, int], name: str) -> Any:
    return info.get(name) if isinstance(info, dict) else getattr(info, name, None)


def check_size(node: Allocate) -> None:
    """Raise ValueError for an allocation of more bits than its scope's memory has."""
    kind = node.buffer_var.type_annotation
    info = None if kind is None else memory_info(kind[1])
    most = None if info is None else _field(info, "max_num_bits")
    bits = node.dtype.bits * node.dtype.lanes
    for extent in node.extents:
        if not isinstance(extent, IntImm):
            return
        bits *= extent.value
    if most is not None and bits > int(most):
        what = f"buffer {node.buffer_var.name} does not fit its memory"
        got = f"{bits} bits, there are {most}"
        hint = "keep a smaller tile of it"
        raise ValueError(explain(what, got=got, instead=hint, span=node.span))


class _Lower(StmtRewriter):
    def __init__(self) -> None:
        self.special: set[Var] = set()
        self.buffers: dict[Var, Any] = {}

    def visit_Allocate(self, node: Allocate) -> Stmt:
        kind = node.buffer_var.type_annotation
        info = None if kind is None else memory_info(kind[1])
        if info is None:
            return self.visit_default(node)
        self.special.add(node.buffer_var)
        body = self.visit(node.body)
        head = _field(info, "head_address")
        if head is not None:
            return LetStmt(node.buffer_var, head, body, span=node.span)
        inner = body.body if isinstance(body, DeclBuffer) else body
        return node.replace(body=body) if occurs(node.buffer_var, inner) else inner

    def visit_BufferStore(self, node: BufferStore) -> Stmt:
        self.buffers.setdefault(node.buffer.data, node.buffer)
        return self.visit_default(node)

    visit_DeclBuffer = visit_BufferStore

    def visit_Call(self, node: Call) -> Any:
        if is_call_to(node, "tvm_access_ptr") and node.args[1] in self.special:
            tag, data, offset, extent = node.args[:4]
            memory = self.buffers.get(data)
            kind = tag.dtype.element
            if memory is None or memory.dtype != kind or len(memory.shape) != 1:
                size = extent if isinstance(extent, IntImm) else 1
                scope = data.type_annotation[1]
                memory = decl_buffer((size,), kind, data.name, data, scope=scope)
                self.buffers[data] = memory
            return address_of(BufferLoad(memory, [self.visit(offset)]))
        return self.visit_default(node)


def for_example(scope: str, function: str) -> LowerDeviceStorageAccessInfo:
    """The pass, with a scope whose memory a C function provides."""
    head = call_pure_extern("handle", function)
    info = {"head_address": head, "max_num_bits": 1 << 20}
    register_func(f"tvm.info.mem.{scope}", lambda: info, override=True)
    return LowerDeviceStorageAccessInfo()


class LowerDeviceStorageAccessInfo(RewriterPass):
    """Puts memory of special scopes at the address that their definition returns and makes pointers
    into it plain."""

    rewriter = _Lower
