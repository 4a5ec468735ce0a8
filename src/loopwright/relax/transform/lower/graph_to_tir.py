"""GraphToTIR: turns a graph function with planned storage into one native function.

Pass::

    GraphToTIR()

Before (-) and after (+)::

      @I.ir_module
      class Module:
          @T.prim_func
          def exp(A: T.Buffer((T.int64(4),), "float32"), B: T.Buffer((T.int64(4),), "float32")):
              T.func_attr({"tir.noalias": True})
              for i in range(T.int64(4)):
                  with T.block("exp"):
                      vi = T.axis.spatial(T.int64(4), i)
                      B[vi] = T.exp(A[vi])

    -     @R.function
    -     def main(x: R.Tensor((4,), dtype="float32")) -> R.Tensor((4,), dtype="float32"):
    -         R.func_attr({"relax.force_pure": True})
    -         cls = Module
    -         alloc: R.Tensor((4,), dtype="float32") = R.builtin.alloc_tensor(R.shape([4]), R.dtype("float32"), R.prim_value(0), R.str("global"))
    -         cls.exp(x, alloc)
    -         return alloc
    +     @T.prim_func
    +     def main(x: T.handle("float32", "global"), out: T.handle("float32", "global")):
    +         T.func_attr({"native_entry": {"params": [["x", "float32", [4]]], "results": [["out", "float32", [4]]], "symbols": []}, "tir.noalias": False})
    +         Module.exp(x, out)
    +         T.evaluate(0)

The kernels are called in order with plain pointers; storage is placed in one workspace;
symbolic dimensions are parameters. Functions that need more (control flow, packed calls, closures,
shapes known only at run time) are left to the virtual machine, and the trace says why.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

from ....arith import Analyzer
from ....base.errors import explain
from ....base.names import free_name
from ....base.span import merge_spans
from ....ir import trace
from ....ir.dtype import DataType
from ....ir.expr import GlobalVar
from ....ir.functor import nodes_of
from ....ir.literals import is_zero
from ....ir.op import Op
from ....ir.prim_expr import Call as PrimCall
from ....ir.prim_expr import IntImm, PrimExpr, Range, StringImm, Var
from ....ir.prim_op import add, cast, const, equal, floordiv, multiply
from ....ir.transform import IRModule, ModulePass, PassContext
from ....ir.variables import substitute, vars_in
from ....runtime.signature import Argument, Signature
from ....tir import stmt as st
from ....tir.analysis.liveness import alignment_of
from ....tir.buffer import ALIGNMENT
from ....tir.byte_size import LIMIT, UPPER_BOUNDS, Sizes, within
from ....tir.function import PrimFunc
from ....tir.signature import NATIVE_ENTRY
from ... import expr as rx
from ...specialize import with_distinct_symbols
from ...struct_info import (
    PrimStructInfo,
    ShapeStructInfo,
    StructInfo,
    TensorStructInfo,
    TupleStructInfo,
)
from ._native_calls import Calls, callees_first
from ._native_values import (
    ByName,
    Nothing,
    NotNative,
    Steps,
    StorageAt,
    TensorAt,
    callers,
    expectation,
)

NATIVE_PART = "native_part"  # attribute of a part that a function of the machine calls


class GraphToTIR(ModulePass, repr=False):
    """Turns planned graph functions into native ones.

    workspace: "one" piece of memory that storages are placed in; "tensors": an allocation for each
        tensor, for `tir.transform.PlanUnifiedMemory` (then omit StaticPlanBlockMemory). Sizes
        are bounded by the function's attribute `tir_var_upper_bound` ({"n": 16}).
    """

    workspace: str = "one"

    def __post_init__(self) -> None:
        if self.workspace not in ("one", "tensors"):
            what = "unknown workspace of GraphToTIR"
            raise ValueError(explain(what, got=self.workspace, instead='"one" or "tensors"'))

    def run(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """Convert every public graph function that can be native."""
        functions: dict[GlobalVar, Any] = dict(mod.functions)
        for gvar, spans in callers(mod).items():
            functions[gvar] = mod[gvar].with_span(merge_spans(*spans))
        for gvar in callees_first(mod):
            try:
                functions[gvar] = _Converter(functions, gvar, mod[gvar], self.workspace).run()
            except NotNative as why:
                trace.note("native", gvar.name_hint, rule="virtual machine", why=str(why))
        if all(functions[g] is f for g, f in mod.functions.items()):
            return mod
        native = {g for g, f in mod.functions.items() if functions[g].__class__ is not f.__class__}
        for gvar, func in mod.functions.items():
            if isinstance(functions[gvar], rx.Function):
                functions[gvar] = ByName(native).function(func)
        return IRModule(functions, attrs=mod.attrs, global_infos=mod.global_infos)


def why_not_native(mod: IRModule, name: str) -> str:
    """Raised for a graph function that the virtual machine must run."""
    gvar = mod.get_global_var(name)
    try:
        _Converter(dict(mod.functions), gvar, mod[gvar]).run()
    except NotNative as why:
        return str(why)
    return "its caller runs on the machine"


class _Converter(Calls):
    def __init__(
        self, functions: Mapping[GlobalVar, Any], gvar: GlobalVar, func: rx.Function,
        workspace: str = "one",
    ) -> None:  # fmt: skip
        self.apart = workspace == "tensors"
        # Callers of a native function pass its symbols by name.
        self.name, self.func = gvar.name_hint, with_distinct_symbols(func)
        self.functions = functions  # those that it calls have been converted, if they could be
        self.env: dict[rx.Var, Any] = {}
        self.values: dict[rx.Var, Any] = {}
        self.symbols: dict[Var, PrimExpr] = {}
        self.state = Steps()
        self.workspace = Var("workspace", "handle", type_annotation=("uint8", "global"))
        self.total: PrimExpr = const(0, "int64")
        self.placed = False
        self.constants: dict[int, tuple[Any, Var]] = {}
        self.analyzer = Analyzer()
        self.outputs: dict[rx.Var, Var] = {}
        self.aliases: dict[Any, Any] = {}  # pointers, and those that may be the same
        self.last_uses: dict[rx.Var, list[rx.Var]] = {}
        self.free: list[rx.Var] = []  # results of graph functions that nothing reads any more
        self.scope_vars: list[Var] = []
        self.sizes = Sizes()
        kernels = [f for f in functions.values() if isinstance(f, PrimFunc)]
        # Of every tensor in the workspace, in bytes.
        self.alignment = max([ALIGNMENT, *map(alignment_of, kernels)])

    # -- signature -----------------------------------------------------------------------------

    def run(self) -> PrimFunc:
        """The native function."""
        func, blocks = self.func, self.func.body.blocks
        if any(isinstance(b, rx.DataflowBlock) for b in blocks):
            raise NotNative("it still has dataflow blocks")
        params, specs = self.parameters()
        symbols = tuple(v for v, source in self.symbols.items() if v is source)
        self.values = {b.var: b.value for block in blocks for b in block.bindings}
        self.last_uses = self.find_last_uses()
        leaves, tree = self.result_leaves()
        results = [self.result_spec(k, info, len(leaves)) for k, (_, info) in enumerate(leaves)]
        outs = [Var(r.name, "handle", type_annotation=(r.dtype, "global")) for r in results]
        self.claim_outputs(leaves, outs)
        for block in blocks:
            for binding in block.bindings:
                self.binding(binding)
                self.free += self.last_uses.get(binding.var, ())
        self.copy_results(leaves, outs)
        results = [self.bound_spec(r) for r in results]
        results = self.with_aliases(results, outs, params)
        body = self.sizes.checked(self.name, self.allocate(self.state.build()))
        body = within(self.name, self.limits, body)
        entry = Signature(tuple(specs), tuple(results), symbols, tree).as_lists()
        attrs = {"global_symbol": self.name, "tir.noalias": False, NATIVE_ENTRY: entry}
        for name in (UPPER_BOUNDS, NATIVE_PART):  # the first is for static memory
            if name in func.attrs:
                attrs[name] = func.attrs[name]
        return PrimFunc([*params, *outs, *symbols], body, attrs=attrs, span=func.span)

    def with_aliases(
        self, results: list[Argument], outs: list[Var], params: list[Var]
    ) -> list[Argument]:
        """Results that a kernel may write over a parameter, which is used for nothing else."""
        calls = nodes_of(self.state.build(), PrimCall)
        uses = Counter(a for call in calls for a in call.args if isinstance(a, Var))
        numbers: dict[Any, int] = {p: k for k, p in enumerate(params) if uses[p] == 1}
        over = [numbers.get(self.aliases.get(out), -1) for out in outs]
        return [replace(r, over=k) for r, k in zip(results, over, strict=True)]

    def parameters(self) -> tuple[list[Var], list[Argument]]:
        """The native parameters and their sources. The entry checks extents against
        numbers, expressions of symbols, and scalar parameters, which it knows by name."""
        params: list[Var] = []
        specs: list[Argument] = []
        scalars: list[Var] = []
        infos = [p.struct_info for p in self.func.params]
        own = {i.value for i in infos if isinstance(i, PrimStructInfo)}
        dims = [d for i in infos if isinstance(i, TensorStructInfo) for d in i.get_shape() or ()]
        names = {d.name for d in dims if isinstance(d, Var) and d not in own}
        for p in self.func.params:
            info = p.struct_info
            if isinstance(info, PrimStructInfo):
                var = Var(free_name(p.name_hint, names), info.dtype)
                names.add(var.name)
                self.env[p] = var
                scalars.append(var)
                if isinstance(info.value, Var):
                    self.symbols[info.value] = var
        for d in dims:
            if isinstance(d, Var):
                self.symbols.setdefault(d, d)
        self.scope_vars = [*self.symbols.values(), *scalars]
        for p in self.func.params:
            info = p.struct_info
            if isinstance(info, TensorStructInfo):
                dims = self.known_dims(info, f"parameter {p.name_hint}")
                for d in dims:
                    self.check_bound(d)
                var = Var(p.name_hint, "handle", type_annotation=(str(info.dtype), "global"))
                self.env[p] = TensorAt(var, dims, str(info.dtype), p)
                specs.append(Argument(p.name_hint, str(info.dtype), dims))
            elif isinstance(info, PrimStructInfo):
                var = self.env[p]
                specs.append(Argument(var.name, str(info.dtype)))
            else:
                raise NotNative(f"parameter {p.name_hint} is not a tensor or scalar: {info}")
            params.append(var)
        return params, specs

    def check_bound(self, dim: PrimExpr) -> None:
        """Reject a dimension that the caller cannot compute from the arguments."""
        for v in vars_in(dim):
            if not any(v is k for k in self.scope_vars):
                raise NotNative(f"dimension {v.name} is not the extent of a parameter's axis")

    def known_dims(self, info: TensorStructInfo, what: str) -> tuple[PrimExpr, ...]:
        dims = info.get_shape()
        if dims is None or info.dtype.is_void:
            raise NotNative(f"the shape or dtype of {what} is known only at run time: {info}")
        return tuple(self.bound(d) for d in dims)

    def bound(self, expr: PrimExpr) -> PrimExpr:
        """An expression with the symbols defined by match_cast replaced."""
        if isinstance(expr, IntImm) or not self.symbols:
            return expr
        return substitute(expr, self.symbols)

    # -- results -------------------------------------------------------------------------------

    def result_leaves(self) -> tuple[list[tuple[Any, TensorStructInfo]], Any]:
        leaves: list[tuple[Any, TensorStructInfo]] = []
        body = self.func.body.body
        tree = self.tree_of(body, body.struct_info, leaves)
        return leaves, None if isinstance(tree, int) else tree

    def tree_of(
        self, value: rx.Expr, info: StructInfo, leaves: list[tuple[Any, TensorStructInfo]]
    ) -> Any:
        """The indices of a value's tensors among the leaves, where they are added."""
        if isinstance(info, TensorStructInfo):
            leaves.append((value, info))
            return len(leaves) - 1
        if not isinstance(info, TupleStructInfo):
            raise NotNative(f"it returns {info}")
        parts = zip(self.tuple_fields(value, len(info.fields)), info.fields, strict=True)
        return [self.tree_of(v, i, leaves) for v, i in parts]

    def tuple_fields(self, value: rx.Expr, count: int) -> list[Any]:
        while isinstance(value, rx.Var) and value in self.values:
            value = self.values[value]
        if isinstance(value, rx.Tuple):
            return list(value.fields)
        raise NotNative(f"it returns a tuple that is not a tuple expression: {value}")

    def result_spec(self, k: int, info: TensorStructInfo, count: int) -> Argument:
        dims = info.get_shape()
        if dims is None or info.dtype.is_void:
            raise NotNative(f"the shape of result {k} is known only at run time: {info}")
        return Argument("out" if count == 1 else f"out{k}", str(info.dtype), tuple(dims))

    def bound_spec(self, spec: Argument) -> Argument:
        """A result whose shape the caller can compute from the parameters' symbols alone."""
        dims = tuple(self.bound(d) for d in spec.dims or ())
        for d in dims:
            self.check_bound(d)
        return replace(spec, dims=dims)

    def claim_outputs(self, leaves: list[Any], outs: list[Var]) -> None:
        """Let the caller allocate a returned tensor, unless it is already claimed."""
        for (value, _), out in zip(leaves, outs, strict=True):
            owner = self.owner(value)
            if owner is not None and owner not in self.outputs:
                self.outputs[owner] = out

    def owner(self, value: Any) -> rx.Var | None:
        """The variable whose allocation holds `value`, looking through views."""
        last: rx.Var | None = None
        while True:
            if isinstance(value, rx.Var):
                last, value = value, self.values.get(value)
                continue
            if isinstance(value, rx.TupleGetItem):
                inner = value.tuple_value
                while isinstance(inner, rx.Var) and inner in self.values:
                    inner = self.values[inner]
                if not isinstance(inner, rx.Tuple):
                    return None
                value = inner.fields[value.index]
                continue
            name = _op_name(value)
            if name in _VIEWS:
                value = value.args[0]
                continue
            own = name == "relax.builtin.alloc_tensor" or self.is_native_call(value)
            return last if own and isinstance(value.struct_info, TensorStructInfo) else None

    def copy_results(self, leaves: list[Any], outs: list[Var]) -> None:
        """Copy results that are not allocations of their own."""
        for (value, _), out in zip(leaves, outs, strict=True):
            tensor = self.value(value)
            if not isinstance(tensor, TensorAt):
                raise NotNative("a result is not a tensor")
            if tensor.pointer is out:
                continue
            size = self.bytes_of(tensor.dims, tensor.dtype)
            copy = PrimCall("handle", "tir.call_extern", ["memcpy", out, tensor.pointer, size])
            self.state.do(st.Evaluate(copy))

    # -- bindings ------------------------------------------------------------------------------

    def binding(self, binding: rx.Binding) -> None:
        if isinstance(binding, rx.MatchCast):
            self.match_cast(binding)
            return
        self.env[binding.var] = self.value(binding.value, binding.var)

    def value(self, value: rx.Expr, var: rx.Var | None = None) -> Any:
        if isinstance(value, rx.Var):
            native = self.env[value]
            if isinstance(native, Nothing):
                raise NotNative(f"it uses the result of the packed call {native.symbol}")
            return native
        if isinstance(value, rx.StringImm):
            return StringImm(value.value)
        if isinstance(value, rx.Constant):
            return self.constant(value)
        if isinstance(value, rx.Tuple):
            return [self.value(f) for f in value.fields]
        if isinstance(value, rx.TupleGetItem):
            parts = self.value(value.tuple_value)
            if not isinstance(parts, list):
                raise NotNative(f"a tuple known only at run time: {value}")
            return parts[value.index]
        if isinstance(value, rx.ShapeExpr):
            return tuple(self.bound(v) for v in value.values)
        if isinstance(value, rx.PrimValue):
            return self.bound(value.value)
        if isinstance(value, rx.Call):
            return self.call(value, var)
        raise NotNative(f"{type(value).__name__} needs the virtual machine")

    def call(self, call: rx.Call, var: rx.Var | None) -> Any:
        if isinstance(call.op, GlobalVar):
            if self.is_native_call(call):
                return self.graph_function(call, call.op, var)
            self.kernel(call.op, list(call.args), call.span)
            return []
        name = _op_name(call)
        if name == "relax.vm.call_tir_dyn":
            gvar, args = call.args
            self.kernel(gvar, list(args.fields), call.span)
            return []
        if isinstance(call.op, rx.ExternFunc) and not call.sinfo_args:
            return self.packed(call.op.global_symbol, list(call.args), call.span)
        handler = _HANDLERS.get(name)
        if handler is None:
            raise NotNative(f"call of {name or call.op}")
        return handler(self, call, var)

    # -- operators -----------------------------------------------------------------------------

    def alloc_storage(self, call: rx.Call, var: rx.Var | None) -> StorageAt:
        (size,) = self.value(call.args[0])
        return StorageAt(self.take(size, var.name_hint if var is not None else "storage"))

    def take(self, size: PrimExpr, name: str) -> PrimExpr:
        """A pointer to `size` new bytes of the workspace."""
        if self.apart:
            return self.own_memory(size, name)
        offset, self.placed = self.total, True
        step = self.alignment
        rounded = multiply(floordiv(add(size, step - 1), step), step)
        self.total = self.analyzer.simplify(add(self.total, self.analyzer.simplify(rounded)))
        pointer = Var(name, "handle", type_annotation=("uint8", "global"))
        at = PrimCall("handle", "tir.handle_add_byte_offset", [self.workspace, offset])
        self.state.let(pointer, at)
        return pointer

    def own_memory(self, size: PrimExpr, name: str) -> PrimExpr:
        """An allocation of at least `size` bytes; of constant size if it has a bound."""
        most = self.bounds.const_int_bound(size).max_value
        if most < 1 << 40:  # else the bound is that of int64: the symbols have none of their own
            size = const(max(most, 1), "int64")
        var = Var(name, "handle", type_annotation=("uint8", "global"))
        true = const(True, "bool")
        notes = self.notes()
        self.state.wrap(lambda rest: st.Allocate(var, "uint8", (size,), true, rest, notes))
        return var

    @cached_property
    def limits(self) -> dict[Var, int]:
        """The greatest values of the parameters' symbols, by `tir_var_upper_bound`."""
        limits = dict(self.func.attrs.get(UPPER_BOUNDS, {}).items())
        named = [(v, limits[s.name]) for s, v in self.symbols.items() if s.name in limits]
        return {v: int(getattr(most, "value", most)) for v, most in named if isinstance(v, Var)}

    @cached_property
    def bounds(self) -> Analyzer:
        """An analyzer with the ranges of the parameters' symbols that have `limits`."""
        analyzer = Analyzer()
        for var, most in self.limits.items():
            analyzer.bind(var, Range(const(0, var.dtype), const(most + 1, var.dtype)))
        return analyzer

    def alloc_tensor(self, call: rx.Call, var: rx.Var | None) -> TensorAt:
        storage, offset = self.value(call.args[0]), self.value(call.args[1])
        dims, dtype = self.value(call.args[2]), str(call.args[3].value)
        self.note_size(dims, dtype, var)
        pointer = storage.pointer
        if not is_zero(offset):
            pointer = PrimCall("handle", "tir.handle_add_byte_offset", [pointer, offset])
        return TensorAt(pointer, dims, dtype, var)

    def builtin_alloc_tensor(self, call: rx.Call, var: rx.Var | None) -> TensorAt:
        dims, dtype = self.value(call.args[0]), str(call.args[1].value)
        self.note_size(dims, dtype, var)
        out = self.outputs.get(var) if var is not None else None
        pointer: PrimExpr
        if out is not None:
            pointer = out
        else:
            pointer = self.take(self.bytes_of(dims, dtype), var.name_hint if var else "alloc")
        return TensorAt(pointer, dims, dtype, var)

    def note_size(self, dims: tuple[PrimExpr, ...], dtype: str, var: rx.Var | None) -> None:
        """Remember a tensor that may be too large at run time."""
        most = self.bounds.const_int_bound(self.bytes_of(dims, dtype)).max_value
        if most > LIMIT and var is not None:
            site = var.span or self.values[var].span
            self.sizes.add(dims, dtype, str(site or var.name_hint))

    def bytes_of(self, dims: tuple[PrimExpr, ...], dtype: str) -> PrimExpr:
        size: PrimExpr = const(DataType(dtype).lane_bytes, "int64")
        for d in dims:
            size = multiply(size, cast("int64", d))
        return self.analyzer.simplify(size)

    def view(self, call: rx.Call, var: rx.Var | None) -> TensorAt:
        source = self.value(call.args[0])
        info = call.struct_info
        if not isinstance(source, TensorAt) or not isinstance(info, TensorStructInfo):
            raise NotNative(f"a view of {type(source).__name__}")
        dims = self.known_dims(info, "a view")
        return TensorAt(source.pointer, dims, str(info.dtype), source.root)

    def memory_view(self, call: rx.Call, var: rx.Var | None) -> TensorAt:
        if len(call.args) > 3:
            offset = self.value(call.args[3]) if isinstance(call.args[3], rx.PrimValue) else None
            if offset is not None and not is_zero(offset):
                raise NotNative("a view with a byte offset")
        return self.view(call, var)

    def kill(self, call: rx.Call, var: rx.Var | None) -> list[Any]:
        return []

    def shape_of(self, call: rx.Call, var: rx.Var | None) -> tuple[PrimExpr, ...]:
        value = self.value(call.args[0])
        return value.dims

    def match_cast(self, binding: rx.MatchCast) -> None:
        value, info = self.value(binding.value), binding.struct_info
        if isinstance(value, TensorAt) and isinstance(info, TensorStructInfo):
            dims = info.get_shape()
            if dims is None:
                self.env[binding.var] = value
                return
            self.match_dims(value.dims, dims, binding)
            bound = tuple(self.bound(d) for d in dims)
            self.env[binding.var] = TensorAt(value.pointer, bound, value.dtype, value.root)
            return
        if isinstance(value, tuple) and isinstance(info, ShapeStructInfo):
            self.match_dims(value, info.values or (), binding)
            self.env[binding.var] = value
            return
        raise NotNative(f"match_cast of {binding.value}")

    def match_dims(
        self, have: Sequence[PrimExpr], want: Sequence[PrimExpr], binding: rx.MatchCast
    ) -> None:
        if len(have) != len(want):
            raise NotNative("a match_cast that changes the rank")
        for k, (a, b) in enumerate(zip(have, want, strict=True)):
            if isinstance(b, Var) and b not in self.symbols:
                self.symbols[b] = a
                continue
            b = self.bound(b)
            if self.analyzer.can_prove_equal(a, b):
                continue
            site = binding.span or binding.value
            axis = f"on axis {k} " if isinstance(binding.struct_info, TensorStructInfo) else ""
            said = StringImm(f"{self.name}: {expectation(a, b, f'{axis}at {site}')}")
            check = equal(a, b)
            self.state.wrap(lambda rest, c=check, m=said: st.AssertStmt(c, m, rest))

    def constant(self, value: rx.Constant) -> TensorAt:
        info = value.struct_info
        key = id(value.data)
        if key not in self.constants:
            kind = (str(info.dtype), "global")
            var = Var(f"const{len(self.constants)}", "handle", type_annotation=kind)
            self.constants[key] = (value.data, var)
        pointer = self.constants[key][1]
        dims = tuple(const(d, "int64") for d in value.data.shape)
        return TensorAt(pointer, dims, str(info.dtype), None)

    # -- memory --------------------------------------------------------------------------------

    def notes(self) -> dict[str, int]:
        """The annotations of allocated memory."""
        return {} if self.alignment == ALIGNMENT else {st.Allocate.ALIGNED: self.alignment}

    def allocate(self, body: st.Stmt) -> st.Stmt:
        if self.placed:  # also where all that is placed there is empty
            size = const(self.alignment, "int64") if is_zero(self.total) else self.total
            true, kind = const(True, "bool"), DataType("uint8")
            body = st.Allocate(self.workspace, kind, (size,), true, body, self.notes())
        for data, var in self.constants.values():
            extents = tuple(const(d, "int64") for d in data.shape)
            body = st.AllocateConst(var, DataType(data.dtype), extents, data, body)
        return body


def _op_name(value: Any) -> str:
    called = isinstance(value, rx.Call) and isinstance(value.op, Op)
    return value.op.name if called else ""


_VIEWS = {"relax.reshape", "relax.memory.view", "relax.memory.ensure_zero_offset"}
_HANDLERS: dict[str, Any] = {
    "relax.memory.alloc_storage": _Converter.alloc_storage,
    "relax.vm.alloc_storage": _Converter.alloc_storage,
    "relax.memory.alloc_tensor": _Converter.alloc_tensor,
    "relax.builtin.alloc_tensor": _Converter.builtin_alloc_tensor,
    "relax.reshape": _Converter.view,
    "relax.memory.view": _Converter.memory_view,
    "relax.memory.ensure_zero_offset": _Converter.view,
    "relax.memory.kill_tensor": _Converter.kill,
    "relax.memory.kill_storage": _Converter.kill,
    "relax.vm.kill_object": _Converter.kill,
    "relax.shape_of": _Converter.shape_of,
}
