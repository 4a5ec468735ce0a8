"""StaticPlanBlockMemory: tensors with disjoint live ranges share memory.

In every block, tensors that are allocated and used only there, by kernels, are placed in
storages; a storage is reused by a later tensor of its dtype and scope after the last use of the
earlier one. Values that escape (a result, an argument of a graph function, a value used in
another block) keep their own allocation.

The function attribute `tir_var_upper_bound` ({"n": 16}) bounds symbolic sizes, which makes the
plan static; without it a symbolic size is reused only for the same size. With
`relax.memory_plan_dynamic_func_output`, results of dynamic shape get storages too, one each.

Before (-) and after (+)::

      @I.ir_module
      class Module:
          @T.prim_func
          def exp(x: T.Buffer((T.int64(4),), "float32"), y: T.Buffer((T.int64(4),), "float32")):
              for i in range(T.int64(4)):
                  with T.block("y"):
                      vi = T.axis.spatial(T.int64(4), i)
                      y[vi] = T.exp(x[vi])

          @R.function
          def main(x: R.Tensor((4,), dtype="float32")) -> R.Tensor((4,), dtype="float32"):
              R.func_attr({"relax.force_pure": True})
              cls = Module
    -         alloc: R.Tensor((4,), dtype="float32") = R.builtin.alloc_tensor(R.shape([4]), R.dtype("float32"), R.prim_value(0), R.str("global"))
    +         storage: R.Object = R.memory.alloc_storage(R.shape([16]), R.prim_value(0), R.str("global"), R.dtype("float32"))
    +         alloc: R.Tensor((4,), dtype="float32") = R.memory.alloc_tensor(storage, R.prim_value(0), R.shape([4]), R.dtype("float32"))
              cls.exp(x, alloc)
    -         alloc1: R.Tensor((4,), dtype="float32") = R.builtin.alloc_tensor(R.shape([4]), R.dtype("float32"), R.prim_value(0), R.str("global"))
    +         storage1: R.Object = R.memory.alloc_storage(R.shape([16]), R.prim_value(0), R.str("global"), R.dtype("float32"))
    +         alloc1: R.Tensor((4,), dtype="float32") = R.memory.alloc_tensor(storage1, R.prim_value(0), R.shape([4]), R.dtype("float32"))
              cls.exp(alloc, alloc1)
    -         alloc2: R.Tensor((4,), dtype="float32") = R.builtin.alloc_tensor(R.shape([4]), R.dtype("float32"), R.prim_value(0), R.str("global"))
    +         alloc2: R.Tensor((4,), dtype="float32") = R.memory.alloc_tensor(storage, R.prim_value(0), R.shape([4]), R.dtype("float32"))
              cls.exp(alloc1, alloc2)
              alloc3: R.Tensor((4,), dtype="float32") = R.builtin.alloc_tensor(R.shape([4]), R.dtype("float32"), R.prim_value(0), R.str("global"))
              cls.exp(alloc2, alloc3)
              return alloc3
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ....arith import Analyzer
from ....base.errors import explain
from ....ir import trace
from ....ir.dtype import DataType
from ....ir.expr import GlobalVar
from ....ir.op import Op
from ....ir.prim_expr import IntImm, Mul, PrimExpr, Range
from ....ir.prim_expr import Var as TirVar
from ....ir.prim_op import const, multiply
from ....ir.structural import StructuralKey
from ....ir.transform import IRModule, ModulePass, PassContext
from ....ir.variables import vars_in
from ....tir.byte_size import UPPER_BOUNDS
from ....tir.function import PrimFunc
from ....tir.memory_plan import Item, share
from ...analysis import defined_symbolic_vars
from ...expr import BindingBlock, Call, Expr, Function, Tuple, TupleGetItem, Var, VarBinding
from ...functor import GraphRewriter
from ...op.storage import (
    BUILTIN_ALLOC_TENSOR,
    ENSURE_ZERO_OFFSET,
    MEMORY_VIEW,
    VM_CALL_TIR_DYN,
    memory_alloc_storage,
    memory_alloc_tensor,
)
from ...struct_info import ShapeStructInfo
from ..queries import used_vars

_WINDOW = 16  # a storage is reused for sizes that differ by at most this factor, as in TVM
_PLAN_OUTPUT = "relax.memory_plan_dynamic_func_output"


class StaticPlanBlockMemory(ModulePass):
    """Share memory between tensors of a block with disjoint live ranges."""

    def run(self, mod: IRModule, ctx: PassContext) -> IRModule:
        changed = {}
        for gvar, func in mod.functions.items():
            if isinstance(func, Function):
                plan = _Planner(mod, func).plan()
                if plan:
                    new = _Rewriter(mod, plan).function(func)
                    changed[gvar] = new.without_attr(_PLAN_OUTPUT)
                    _note(gvar.name_hint, plan)
        return mod.with_functions(changed)


@dataclass(eq=False)
class Storage:
    """Memory for a sequence of tensors. `bytes` is the size of the largest."""

    bytes: PrimExpr
    call: Call
    tensors: int = 0
    var: Any = None


@dataclass(eq=False)
class _Token:
    """A tensor that may be planned: its definition and last use."""

    call: Call
    block: Any
    last: int
    escapes: bool = False
    is_output: bool = False


def _note(name: str, plan: dict[Var, Storage]) -> None:
    if trace.active() is None:
        return
    storages = dict.fromkeys(plan.values())
    sizes = [s.bytes.value if isinstance(s.bytes, IntImm) else str(s.bytes) for s in storages]
    trace.note("memory plan", name, tensors=len(plan), storages=len(storages), bytes=sizes)


# ---------------------------------------------------------------------- assignment


class _Planner:
    """Assigns storages to the allocations of one function."""

    def __init__(self, mod: IRModule, func: Function) -> None:
        self.mod = mod
        self.func = func
        self.limits: dict[PrimExpr, int | None] = {}
        self.values: dict[Var, Any] = {}  # variable -> token, or list of them for a tuple
        self.tokens: dict[Var, _Token] = {}
        self.blocks: list[tuple[Any, list[Var]]] = []
        self.bounds = self._read_bounds()
        self.sizes: dict[Any, PrimExpr] = {}  # dtype and dimensions -> bytes
        self.plan_output = bool(func.attrs.get(_PLAN_OUTPUT, False))

    def _read_bounds(self) -> dict[TirVar, int]:
        attribute = self.func.attrs.get(UPPER_BOUNDS)
        if attribute is None:
            return {}
        bounds: dict[str, int] = {}
        for name, value in dict(attribute.items()).items():
            plain = getattr(value, "value", value)
            if isinstance(plain, bool) or not isinstance(plain, int):
                what = f"the attribute {UPPER_BOUNDS} maps names to integers"
                raise TypeError(explain(what, got=f"{name}: {value!r}"))
            if plain < 0:
                what = f"an upper bound in {UPPER_BOUNDS} is not negative"
                raise ValueError(explain(what, got=f"{name}: {plain}"))
            bounds[str(name)] = plain
        symbols = defined_symbolic_vars(self.func)
        return {v: bounds[v.name] for v in symbols if v.name in bounds}

    def plan(self) -> dict[Var, Storage]:
        """The storage of each planned variable."""
        for block in self.func.body.blocks:
            self._collect(block)
        for token in self._tokens_in(self.func.body.body):
            token.is_output = True
            dynamic = any(not isinstance(d, IntImm) for d in token.call.args[0].struct_info.values)
            if not (self.plan_output and dynamic):
                token.escapes = True
        plan: dict[Var, Storage] = {}
        for block, variables in self.blocks:
            self._assign(block, variables, plan)
        return plan

    # ------------------------------------------------------------------ lives

    def _collect(self, block: BindingBlock) -> None:
        own: list[Var] = []
        self.blocks.append((block, own))
        for n, binding in enumerate(block.bindings):
            var, value = binding.var, binding.value
            if isinstance(value, Call):
                self.values[var] = self._call(value, block, n, var, own)
            elif isinstance(value, (Var, Tuple, TupleGetItem)) and type(binding) is VarBinding:
                self.values[var] = self._look(value)
                self._use(value, block, n)
            else:
                self._discard(value)
                for inner in (
                    getattr(value, "true_branch", None),
                    getattr(value, "false_branch", None),
                ):
                    for nested in inner.blocks if inner is not None else ():
                        self._collect(nested)
                    if inner is not None:
                        self._discard(inner.body)

    def _call(self, call: Call, block: BindingBlock, n: int, var: Var, own: list[Var]) -> Any:
        if call.op is BUILTIN_ALLOC_TENSOR:
            literal = call.args[0].struct_info.values is not None
            if not literal or call.struct_info is None:
                return None
            token = self.tokens[var] = _Token(call, block, n)
            own.append(var)
            return token
        op = call.op
        if isinstance(op, Op) and (
            op in (MEMORY_VIEW, ENSURE_ZERO_OFFSET) or op.name == "relax.reshape"
        ):
            self._use(call.args[0], block, n)
            return self._look(call.args[0])
        foreign = type(op).__name__ == "ExternFunc" or op is VM_CALL_TIR_DYN
        if foreign or (isinstance(op, GlobalVar) and isinstance(self.mod.get(op), PrimFunc)):
            for arg in call.args:
                self._use(arg, block, n)
            return None
        self._discard(call)
        return None

    def _look(self, expr: GlobalVar | Expr) -> Any:
        if isinstance(expr, Var):
            return self.values.get(expr)
        if isinstance(expr, Tuple):
            return [self._look(f) for f in expr.fields]
        if isinstance(expr, TupleGetItem):
            whole = self._look(expr.tuple_value)
            return whole[expr.index] if isinstance(whole, list) else whole
        return None

    def _tokens_in(self, expr: GlobalVar | Expr) -> Iterator[_Token]:
        yield from _flat(self._look(expr))

    def _use(self, expr: GlobalVar | Expr, block: BindingBlock, n: int) -> None:
        for token in self._tokens_in(expr):
            if token.block is not block:
                token.escapes = True
            token.last = max(token.last, n)

    def _discard(self, expr: Expr) -> None:
        for var in used_vars(expr):
            for token in self._tokens_in(var):
                token.escapes = True

    # ------------------------------------------------------------------ storages

    def _assign(self, block: BindingBlock, variables: list[Var], plan: dict[Var, Storage]) -> None:
        position = {b.var: n for n, b in enumerate(block.bindings)}
        planned = [v for v in variables if not self.tokens[v].escapes]
        sizes = [self._size(self.tokens[v].call) for v in planned]
        items: list[Item] = []
        kinds: list[Any] = []
        for var, size in zip(planned, sizes, strict=True):
            token = self.tokens[var]
            last = len(block.bindings) if token.is_output else token.last
            # Sizes of equal dimensions are built in the same manner, so structural equality matches them.
            symbolic = None if isinstance(size, IntImm) else StructuralKey(size, False)
            literal = size.value if isinstance(size, IntImm) else 0
            items.append(Item(var.name_hint, literal, position[var], last))
            own = var if token.is_output else None  # a result shares with nothing
            kinds.append((_kind(token.call), symbolic, own))
        storages: dict[int, Storage] = {}
        pieces = share(items, kinds, _WINDOW)
        for var, piece, size in zip(planned, pieces, sizes, strict=True):
            storage = storages.setdefault(piece, Storage(size, self.tokens[var].call))
            storage.tensors += 1
            capacity = storage.bytes
            if (
                isinstance(size, IntImm)
                and isinstance(capacity, IntImm)
                and size.value > capacity.value
            ):
                storage.bytes = size
            plan[var] = storage

    def _size(self, call: Call) -> PrimExpr:
        """The bytes of an allocation, or an upper bound."""
        dims = (d.value if isinstance(d, IntImm) else d for d in call.args[0].struct_info.values)
        key = (call.args[1].value, *dims)
        if key not in self.sizes:
            self.sizes[key] = self._computed_size(call)
        return self.sizes[key]

    def _computed_size(self, call: Call) -> PrimExpr:
        """Bytes of an element times the bounded dimensions, times the product of the others."""
        dtype: DataType = call.args[1].value
        nbytes = (dtype.bits * dtype.lanes + 7) // 8
        others: PrimExpr | None = None
        for dim in call.args[0].struct_info.values:
            most = self._most(dim)
            if most is not None:
                nbytes *= most
            else:
                others = dim if others is None else multiply(others, dim)
        literal = const(nbytes, "int64")
        return literal if others is None else Mul(literal, others)

    def _most(self, dim: PrimExpr) -> int | None:
        """The greatest value of a dimension, or None."""
        if isinstance(dim, IntImm):
            return dim.value
        if dim not in self.limits:
            variables = vars_in(dim)
            bounded = all(v in self.bounds for v in variables)
            self.limits[dim] = self._upper_bound(dim, variables) if bounded else None
        return self.limits[dim]

    def _upper_bound(self, dim: PrimExpr, variables: Iterable[TirVar]) -> int | None:
        analyzer = Analyzer()
        for var in variables:
            greatest = const(self.bounds[var] + 1, "int64")
            analyzer.bind(var, Range.from_min_extent(const(0, "int64"), greatest))
        most = analyzer.const_int_bound(analyzer.simplify(dim)).max_value
        return None if most >= 2**62 else int(most)


def _flat(value: _Token | Sequence[_Token | Sequence[_Token] | None] | None) -> Iterator[_Token]:
    if isinstance(value, _Token):
        yield value
    elif isinstance(value, list):
        for item in value:
            yield from _flat(item)


def _kind(call: Call) -> tuple[Any, ...]:
    """The key that tensors sharing a storage must agree on."""
    _, dtype, device, scope = call.args
    return str(dtype.value), getattr(device.value, "value", str(device.value)), scope.value


# ---------------------------------------------------------------------- the new function


class _Rewriter(GraphRewriter):
    def __init__(self, mod: IRModule, plan: dict[Var, Storage]) -> None:
        super().__init__(mod)
        self.plan = plan

    def binding(self, binding: VarBinding) -> None:
        storage = self.plan.get(binding.var)
        if storage is None:
            super().binding(binding)
            return
        call = binding.value
        shape, dtype, device, scope = call.args
        if storage.var is None:
            alloc = memory_alloc_storage([storage.bytes], device, scope, dtype)
            storage.var = self.builder.emit(alloc.with_span(call.span), "storage")
        tensor = memory_alloc_tensor(storage.var, 0, shape, dtype).with_span(call.span)
        self.emit(binding, tensor)


def nbytes(shape: Expr, dtype: DataType) -> PrimExpr:
    """The number of bytes of a compact tensor. Raises ValueError if the shape is unknown."""
    info = shape.struct_info
    if not isinstance(info, ShapeStructInfo) or info.values is None:
        what = "an allocation needs a shape of known dimensions"
        raise ValueError(explain(what, got=str(info), instead="R.match_cast the shape first"))
    size: PrimExpr = const((dtype.bits * dtype.lanes + 7) // 8, "int64")
    for dim in info.values:
        size = multiply(size, dim)
    return size
