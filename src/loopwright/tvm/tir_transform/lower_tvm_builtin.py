"""`LowerTVMBuiltin`: packed calls put their arguments on the stack, large memory comes from the
runtime.

Before (-) and after (+)::

      @T.prim_func
      def main(A: T.Buffer((1024,), "float32"), n: T.int32):
          T.func_attr({"target": T.target("llvm")})
    -     m = T.allocate([1024], "float32", "global")
    +     stack: T.handle = T.tvm_stack_alloca("tvm_ffi_any", 3)
    +     m: T.handle("float32", "global") = T.TVMBackendAllocWorkspace(1, 0, T.uint64(4096), 2, 32)
    +     T.attr(m, "storage_alignment", 64)
    +     if T.isnullptr(m):
    +         T.Call("int32", "tir.tvm_throw_last_error", [])
          M = T.Buffer((1024,), data=m)
          M[0] = A[0]
    -     T.call_packed("report", M.data, n)
    +     T.tvm_struct_set(stack, 0, 13, 4)
    +     T.tvm_struct_set(stack, 0, 14, 0)
    +     T.tvm_struct_set(stack, 0, 15, M.data)
    +     T.tvm_struct_set(stack, 1, 13, 1)
    +     T.tvm_struct_set(stack, 1, 14, 0)
    +     T.tvm_struct_set(stack, 1, 15, T.Cast("int64", n))
    +     T.call_packed_lowered("report", stack, 0, 2)
    +     if T.TVMBackendFreeWorkspace(1, 0, m) != 0:
    +         T.Call("int32", "tir.tvm_throw_last_error", [])

The memory belongs to the device that attributes `device_type` and `device_id` around it name, else to
the function's target (and its first device). Shapes and DLTensors of `T.tvm_stack_make_shape` and `T.tvm_stack_make_array` have their own
stacks, and so does each parallel loop's body. Device memory, and constant memory of at most
`max_stack_alloca` bytes, stays an allocation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...base.errors import LoopwrightError, explain
from ...ir.module import IRModule
from ...ir.pass_context import PassContext
from ...ir.prim_expr import NE, Call, IntImm, PrimExpr, StringImm, Var
from ...ir.prim_op import cast, const, multiply
from ...runtime.dtype import dl_dtype
from ...tir import stmt as st
from ...tir.buffer import ALIGNMENT, decl_buffer
from ...tir.expr import BufferLoad
from ...tir.function import PrimFunc
from ...tir.op import (
    address_of,
    is_call_to,
    isnullptr,
    tvm_stack_alloca,
    tvm_struct_get,
    tvm_struct_set,
)
from ...tir.transform.base import PrimFuncPass, StmtRewriter
from .make_packed_api import (
    BITS,
    BOOL,
    BYTE_OFFSET,
    CODE,
    DATA,
    DEVICE_TYPE,
    DLTENSOR_PTR,
    FLOAT,
    INT,
    LANES,
    NDIM,
    SHAPE,
    STRIDES,
    TYPE_INDEX,
    VALUE,
)

_ADDRESS, _DEVICE_ID, _PADDING = 0, 9, 14
_POINTER, _STRING = 4, 8
_CPU = 1
_PACKED = {
    "tir.call_packed": "tir.call_packed_lowered",
    "tir.call_cpacked": "tir.call_cpacked_lowered",
}


@dataclass
class _Stacks:
    """The stacks of one function or parallel body, and their required sizes."""

    values: Var = field(default_factory=lambda: Var("stack", "handle"))
    shapes: Var = field(
        default_factory=lambda: Var("shapes", "handle", type_annotation=("int64", "global"))
    )
    tensors: Var = field(default_factory=lambda: Var("tensors", "handle"))
    most: dict[str, int] = field(default_factory=lambda: {"value": 0, "shape": 0, "array": 0})
    used: dict[str, int] = field(default_factory=lambda: {"value": 0, "shape": 0, "array": 0})

    def take(self, kind: str, count: int) -> int:
        first = self.used[kind]
        self.used[kind] += count
        self.most[kind] = max(self.most[kind], self.used[kind])
        return first

    def around(self, body: st.Stmt) -> st.Stmt:
        for var, kind, text in (
            (self.tensors, "array", "array"),
            (self.shapes, "shape", "shape"),
            (self.values, "value", "tvm_ffi_any"),
        ):
            if self.most[kind]:
                body = st.LetStmt(var, tvm_stack_alloca(text, self.most[kind]), body)
        return body


class _Lower(StmtRewriter):
    def __init__(self, limit: int, device_type: int | None) -> None:
        self.limit = limit
        self.stacks = _Stacks()
        self.before: list[st.Stmt] = []  # statements to run before the current one
        self.device: tuple[int | None, ...] = (device_type, None)

    def scope(self, visit: Callable[[], st.Stmt]) -> st.Stmt:
        """A body with its own stacks."""
        outer, self.stacks = self.stacks, _Stacks()
        stmt = self.stacks.around(visit())
        self.stacks = outer
        return stmt

    def leaf(self, node: st.Stmt, **parts: PrimExpr | Sequence[PrimExpr]) -> st.Stmt:
        """A statement preceded by what its expressions need."""
        outer, self.before = self.before, []
        self.stacks.used = dict.fromkeys(self.stacks.used, 0)
        changed = {name: self.visit(part) for name, part in parts.items() if part is not None}
        before, self.before = self.before, outer
        same = all(changed[name] is parts[name] for name in changed)
        stmt = node if same else node.replace(**changed)
        return st.seq(*before, stmt) if before else stmt

    # ------------------------------------------------------------------ statements

    def visit_Evaluate(self, node: st.Evaluate) -> st.Stmt:
        return self.leaf(node, value=node.value)

    def visit_BufferStore(self, node: st.BufferStore) -> st.Stmt:
        return self.leaf(node, value=node.value, indices=node.indices)

    def visit_LetStmt(self, node: st.LetStmt) -> st.Stmt:
        return self.leaf(node.replace(body=self.visit(node.body)), value=node.value)

    def visit_AssertStmt(self, node: st.AssertStmt) -> st.Stmt:
        return self.leaf(node.replace(body=self.visit(node.body)), condition=node.condition)

    def visit_IfThenElse(self, node: st.IfThenElse) -> st.Stmt:
        other = self.visit(node.else_case)
        new = node.replace(then_case=self.visit(node.then_case), else_case=other)
        return self.leaf(new, condition=node.condition)

    def visit_For(self, node: st.For) -> st.Stmt:
        if node.kind == st.ForKind.PARALLEL:
            body = self.scope(lambda: self.visit(node.body))
        else:
            body = self.visit(node.body)
        return self.leaf(node.replace(body=body), min=node.min, extent=node.extent)

    def visit_AttrStmt(self, node: st.AttrStmt) -> st.Stmt:
        keys = {"device_type": 0, "device_id": 1}
        at = keys.get(node.attr_key)
        if at is None or not isinstance(node.value, IntImm):
            return node.replace(body=self.visit(node.body))
        outer = self.device
        self.device = tuple(node.value.value if k == at else v for k, v in enumerate(outer))
        body = self.visit(node.body)
        self.device = outer
        return body

    def device_pair(self, node: st.Allocate | None = None) -> list[PrimExpr]:
        """Type and number of the device."""
        kind, number = self.device
        if number is None and kind == _CPU:
            number = 0
        if kind is None or number is None:
            name = "device_type" if kind is None else "device_id"
            memory = "a tensor" if node is None else f"memory {node.buffer_var.name}"
            what = f"it is not known which device {memory} belongs to"
            hint = f'set it around: T.attr("default", "{name}", number)'
            span = None if node is None else node.span
            raise LoopwrightError(explain(what, got=f"no {name}", instead=hint, span=span))
        return [const(kind, "int32"), const(number, "int32")]

    def visit_Allocate(self, node: st.Allocate) -> st.Stmt:
        body = self.visit(node.body)
        kind = node.buffer_var.type_annotation
        scope = "global" if kind is None else kind[1]
        size: PrimExpr = const(node.dtype.lane_bytes * node.dtype.lanes, "uint64")
        for extent in node.extents:
            size = multiply(size, cast("uint64", extent))
        small = isinstance(size, IntImm) and size.value <= self.limit and self.device[0] == _CPU
        if small or scope not in ("global", ""):
            return node.replace(body=body)
        code, bits, _ = dl_dtype(str(node.dtype.element))
        device_args = self.device_pair(node)
        hints = [const(n, "int32") for n in (code, bits)]
        pointer = node.buffer_var
        allocation = Call("handle", "tir.TVMBackendAllocWorkspace", [*device_args, size, *hints])
        back = Call("int32", "tir.TVMBackendFreeWorkspace", [*device_args, pointer])
        throw = st.Evaluate(Call("int32", "tir.tvm_throw_last_error", []))
        declared: list[st.DeclBuffer] = []
        while isinstance(body, st.DeclBuffer):
            declared.append(body)
            body = body.body
        body = st.seq(body, st.IfThenElse(NE(back, const(0, "int32")), throw))
        for item in reversed(declared):
            body = item.replace(body=body)
        body = st.seq(st.IfThenElse(isnullptr(pointer), throw), body)
        aligned = const(ALIGNMENT, "int32")
        body = st.AttrStmt(pointer, "storage_alignment", aligned, body, span=node.span)
        return st.LetStmt(pointer, allocation, body, span=node.span)

    # ------------------------------------------------------------------ expressions

    def set(self, stack: Var, index: int, code: int, value: PrimExpr) -> None:
        self.before.append(st.Evaluate(tvm_struct_set(stack, index, code, value)))

    def visit_Call(self, node: Call) -> Any:
        name = getattr(node.op, "name", "")
        if name in _PACKED:
            return self.packed(node, _PACKED[name])
        if name == "tir.tvm_stack_make_shape":
            return self.shape([self.visit(a) for a in node.args])
        if name == "tir.tvm_stack_make_array":
            return self.array(node)
        return self.visit_default(node)

    def packed(self, node: Call, lowered: str) -> Call:
        first = self.stacks.take("value", len(node.args))  # the last element is the result
        stack = self.stacks.values
        for k, arg in enumerate(node.args[1:]):
            tensor = is_call_to(arg, "tvm_stack_make_array")
            index, value = _as_any(self.visit(arg), tensor)
            self.set(stack, first + k, TYPE_INDEX, const(index, "int32"))
            self.set(stack, first + k, _PADDING, const(0, "int32"))
            self.set(stack, first + k, VALUE, value)
        end = const(first + len(node.args) - 1, "int32")
        return node.replace(
            op=Call(node.dtype, lowered, []).op,
            args=(node.args[0], stack, const(first, "int32"), end),
        )

    def shape(self, dims: list[PrimExpr]) -> PrimExpr:
        first = self.stacks.take("shape", max(len(dims), 1))
        array = decl_buffer((first + max(len(dims), 1),), "int64", "shape", self.stacks.shapes)
        for k, dim in enumerate(dims):
            self.before.append(st.BufferStore(array, cast("int64", dim), [first + k]))
        return address_of(BufferLoad(array, [first]))

    def array(self, node: Call) -> PrimExpr:
        data, shape, strides, rank, kind, offset = (self.visit(a) for a in node.args)
        index, stack = self.stacks.take("array", 1), self.stacks.tensors
        code, bits, lanes = dl_dtype(str(kind.dtype))
        size = kind.dtype.lane_bytes * kind.dtype.lanes
        null = Call("handle", "tir.reinterpret", [IntImm("uint64", 0)])
        kind_of_device, number = self.device_pair()
        fields = {
            DATA: data,
            SHAPE: shape,
            STRIDES: null if isinstance(strides, IntImm) else strides,
            NDIM: rank,
            CODE: const(code, "uint8"),
            BITS: const(bits, "uint8"),
            LANES: const(lanes, "uint16"),
            BYTE_OFFSET: cast("uint64", multiply(offset, const(size, offset.dtype))),
            _DEVICE_ID: number,
            DEVICE_TYPE: kind_of_device,
        }
        for code, value in fields.items():
            self.set(stack, index, code, value)
        return tvm_struct_get(stack, index, _ADDRESS, "handle")


def _as_any(value: PrimExpr, tensor: bool) -> tuple[int, PrimExpr]:
    """(type index, 8-byte value) of a packed argument."""
    if isinstance(value, StringImm):
        return _STRING, value
    dtype = value.dtype
    if dtype.is_handle:
        return (DLTENSOR_PTR if tensor else _POINTER), value
    if dtype.is_float:
        return FLOAT, cast("float64", value)
    return (BOOL if dtype.is_bool else INT), cast("int64", value)


class LowerTVMBuiltin(PrimFuncPass):
    """Packed calls put their arguments on the stack, large memory comes from the runtime.
    Device-only functions are not changed. Raises LoopwrightError where it needs a device that
    nothing names."""

    max_stack_alloca: int = 1024

    def run_function(self, func: PrimFunc, mod: IRModule, ctx: PassContext) -> PrimFunc:
        if func.attrs.get("calling_conv") == 2:
            return func
        target = func.attrs.get("target")
        kind = (
            None if func.attrs.get("tir.is_host_func") else _CPU
        )  # a host's memory is any device's
        if target is not None:
            kind = target.get_target_device_type()
        lower = _Lower(self.max_stack_alloca, kind)
        return func.replace(body=lower.scope(lambda: lower.visit(func.body)))
