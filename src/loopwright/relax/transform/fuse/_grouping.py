"""Outlines groups of bindings into functions: shared by FuseOps and pattern-based fusion."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ....base.span import merge_spans
from ....ir import trace
from ....ir.expr import GlobalVar
from ....ir.module import IRModule
from ....ir.op import Op
from ....ir.prim_expr import Var as TirVar
from ... import expr as rx
from ...analysis import definable_tir_vars_in_struct_info, tir_vars_in_struct_info
from ...block_builder import BlockBuilder, NameSupply
from ...functor import GraphRewriter
from ...struct_info import ShapeStructInfo, StructInfo
from ..queries import is_tir_call, used_vars


@dataclass
class Group:
    """The bindings of one group in order; `attrs` of the function to build from them."""

    key: int
    bindings: list[Any] = field(default_factory=list)
    attrs: dict[str, Any] = field(default_factory=dict)
    outputs: list[rx.Var] = field(default_factory=list)
    name: str = "fused"

    # The function's parameters and the corresponding arguments of the caller.
    params: list[rx.Var] = field(default_factory=list)
    args: list[Any] = field(default_factory=list)
    func: rx.Function | None = None


class GroupedRewriter(GraphRewriter):
    """Replaces the groups of a dataflow block by calls of new functions.

    group_of: binding variable -> the index of its group; single bindings need none.
    """

    lift_constants = True
    lift_scalars = True  # among them those of rank 0
    lift_shapes = False  # pass symbolic shape operands as whole shapes

    def __init__(self, mod: IRModule | None) -> None:
        super().__init__(mod)
        self.symbols: dict[int, tuple[StructInfo, list[TirVar]]] = {}
        self.group_of: dict[rx.Var, int] = {}
        self.attrs_of: dict[int, dict[str, Any]] = {}
        self.sources: dict[
            GlobalVar, list[rx.Function]
        ] = {}  # the groups that each new function replaces

    def regroup(self, block: rx.DataflowBlock) -> rx.DataflowBlock:
        """The block with each group replaced by a call at the position of its last binding."""
        groups = self._collect(block)
        if not groups:
            return self.super_block(block)
        for group in groups.values():
            if group.outputs:
                _FunctionMaker(self, group).make()
        builder = self.builder
        builder._begin(True)
        outer = builder.span
        for binding in _in_group_order(block, groups, self.group_of):
            builder.span = binding.span or outer
            group = groups.get(self.group_of.get(binding.var, -1))
            if group is None:
                self.binding(binding)
            elif group.func is not None and binding is group.bindings[-1]:
                self._call_group(group)
        builder.span = outer
        return builder._end_block().with_span(block.span)

    def group_name(self, group: Group) -> str:
        """The name of a group's function."""
        return "_".join(["fused", *(n for n in map(name_of, group.bindings) if n)])

    def symbols_of(self, info: StructInfo) -> list[TirVar]:
        """The symbolic variables in a struct info; cached."""
        cached = self.symbols.get(id(info))
        if cached is None:
            cached = self.symbols[id(info)] = (info, tir_vars_in_struct_info(info))
        return cached[1]

    def super_block(self, block: Any) -> Any:
        """A block without groups."""
        return GraphRewriter.block(self, block)

    def _collect(self, block: rx.DataflowBlock) -> dict[int, Group]:
        groups: dict[int, Group] = {}
        for binding in block.bindings:
            key = self.group_of.get(binding.var)
            if key is not None:
                group = groups.setdefault(key, Group(key, attrs=self.attrs_of.get(key, {})))
                group.bindings.append(binding)
        outputs: dict[int, dict[rx.Var, None]] = {key: {} for key in groups}
        for binding in block.bindings:
            own = self.group_of.get(binding.var)
            if own is not None and not isinstance(binding.var, rx.DataflowVar):
                outputs[own].setdefault(binding.var)
            for var in used_vars(binding.value):
                producer = self.group_of.get(var)
                if producer is not None and producer != own and producer in outputs:
                    outputs[producer].setdefault(var)
        for key, group in groups.items():
            group.outputs = [b.var for b in group.bindings if b.var in outputs[key]]
        return groups

    def _add(self, group: Group) -> GlobalVar:
        """Add the function of a group to the module."""
        assert group.func is not None
        return self.builder.add_func(group.func, group.name)

    def _call_group(self, group: Group) -> None:
        builder = self.builder
        assert group.func is not None
        gvar = self._add(group)
        self.sources.setdefault(gvar, []).append(group.func)
        if trace.active() is not None:
            members = [n for n in map(name_of, group.bindings) if n]
            trace.note("group", gvar.name_hint, of=members)
        args = [builder.normalize_argument(self.value(a)) for a in group.args]
        call = rx.Call(gvar, args, span=group.func.span)
        escapes = any(not isinstance(v, rx.DataflowVar) for v in group.outputs)
        if len(group.outputs) == 1:
            var = builder.bind(builder.normalize(call), not escapes)
            self.var_map[group.outputs[0]] = var
            return
        whole = builder.emit(call)
        for i, old in enumerate(group.outputs):
            item = builder.normalize(rx.TupleGetItem(whole, i))
            var = builder.bind(item, isinstance(old, rx.DataflowVar))
            self.var_map[old] = var

    def placed(self) -> dict[GlobalVar, rx.Function]:
        """The new functions that replace several equal groups: their spans are merged from all."""
        mod = self.builder.get()
        several = {gvar: funcs for gvar, funcs in self.sources.items() if len(funcs) > 1}
        return {gvar: _with_spans(mod[gvar], funcs) for gvar, funcs in several.items()}


def _with_spans(func: rx.Function, equal: list[rx.Function]) -> rx.Function:
    """A group's function; the span of each binding is merged from those of that binding in all equal ones."""
    rows = zip(*(f.body.blocks[0].bindings for f in equal), strict=True)
    spans = (merge_spans(*(b.span or b.value.span for b in row)) for row in rows)
    bindings = [b.with_span(s) for b, s in zip(func.body.blocks[0].bindings, spans, strict=True)]
    block = func.body.blocks[0].replace(bindings=tuple(bindings))
    body = func.body.replace(blocks=(block,))
    body.struct_info = func.body.struct_info
    return func.replace(body=body, span=merge_spans(*(f.span for f in equal)))


def _in_group_order(
    block: rx.DataflowBlock, groups: dict[int, Group], group_of: dict[rx.Var, int]
) -> list[rx.Binding]:
    """The bindings reordered so that the inputs of a group's call precede its last binding, and
    the users of its results follow it."""
    position = {b.var: n for n, b in enumerate(block.bindings)}
    last = {key: position[g.bindings[-1].var] for key, g in groups.items()}
    moved = False
    for n, binding in enumerate(block.bindings):
        own = group_of.get(binding.var)
        at = n if own is None else last.get(own, n)
        for var in used_vars(binding.value):
            producer = group_of.get(var)
            if producer in last and producer != own and last[producer] > at:
                moved = True
    return _sorted_by_group(block, groups, group_of) if moved else list(block.bindings)


def _sorted_by_group(
    block: rx.DataflowBlock, groups: dict[int, Group], group_of: dict[rx.Var, int]
) -> list[rx.Binding]:
    """A topological order of groups and single bindings, as close to the given one as possible."""
    unit_of: dict[rx.Var, int] = {}
    units: list[list[Any]] = []
    index: dict[int, int] = {}
    for binding in block.bindings:
        key = group_of.get(binding.var)
        if key in groups and key in index:
            units[index[key]].append(binding)
        else:
            if key in groups:
                index[key] = len(units)
            units.append([binding])
        unit_of[binding.var] = index[key] if key in groups else len(units) - 1
    done: set[int] = set()
    order: list[Any] = []

    def visit(unit: int) -> None:
        stack = [(unit, False)]
        while stack:
            at, ready = stack.pop()
            if at in done:
                continue
            if ready:
                done.add(at)
                order.extend(units[at])
                continue
            stack.append((at, True))
            needed = {
                unit_of[v]
                for b in units[at]
                for v in used_vars(b.value)
                if v in unit_of and unit_of[v] != at
            }
            stack.extend((n, False) for n in sorted(needed, reverse=True) if n not in done)

    for unit in range(len(units)):
        visit(unit)
    return order


class _FunctionMaker:
    """Builds the function of a group."""

    def __init__(self, owner: GroupedRewriter, group: Group) -> None:
        self.owner = owner
        self.group = group
        self.inside = {b.var for b in group.bindings}
        self.map: dict[Any, Any] = {}
        self.fields: dict[tuple[rx.Expr, int], rx.Var] = {}
        self.partial: set[rx.Var] = set()

    def make(self) -> None:
        group = self.group
        group.name = self.owner.group_name(group)
        self.partial = self._partly_used()
        for binding in group.bindings:
            self.collect(binding.value)
        self._shape_param()
        builder = BlockBuilder(self.owner.mod)
        bindings: list[Any] = []
        names = NameSupply()
        for var in group.params:
            names.fresh(var.name_hint)
        with builder.scope(group.params):
            for binding in group.bindings:
                param = self._field_param(binding.value)
                if param is not None and binding.var not in group.outputs:
                    self.map[binding.var] = param
                else:
                    bindings.append(self._binding(builder, names, binding))
            body: Any = rx.Tuple([self.map[v] for v in group.outputs])
            if len(group.outputs) == 1:
                body = body.fields[0]
            seq = builder.normalize(rx.SeqExpr([rx.DataflowBlock(bindings)], body))
        span = merge_spans(*(b.span or b.value.span for b in group.bindings))
        attrs = {"Primitive": True, **group.attrs}
        group.func = rx.Function(group.params, seq, None, True, attrs, span)

    def _field_param(self, value: Any) -> rx.Var | None:
        """The parameter for this field of a tuple from outside."""
        if type(value) is not rx.TupleGetItem:
            return None
        return self.fields.get((value.tuple_value, value.index))

    def _binding(self, builder: BlockBuilder, names: NameSupply, binding: rx.VarBinding) -> Any:
        value = builder.normalize(self.substituted(binding.value))
        old = binding.var
        output = old in self.group.outputs
        hint = names.fresh("gv") if output else old.name_hint
        new = (rx.Var if output else rx.DataflowVar)._make(hint, value.struct_info, span=old.span)
        self.map[old] = new
        return rx.VarBinding._make(new, value, span=binding.span)

    # ------------------------------------------------------------------ parameters

    def collect(self, value: rx.Call | rx.TupleGetItem) -> None:
        """Collect the inputs of a value; no group has other kinds."""
        if isinstance(value, rx.TupleGetItem):
            source = value.tuple_value
            if isinstance(source, rx.Var) and source in self.partial:
                self.need_field(source, value.index)
            else:
                self.need(source)
            return
        for arg in value.args[1:] if is_tir_call(value) else value.args:
            self.need(arg)

    def need(self, arg: rx.Expr) -> None:
        if type(arg) is rx.Tuple:
            for item in arg.fields:
                self.need(item)
        elif isinstance(arg, rx.Var):
            if arg not in self.inside and arg not in self.map:
                self._param(arg, arg.name_hint, arg.struct_info)
        elif isinstance(arg, rx.Constant) and self.owner.lift_constants:
            scalar = arg.struct_info.ndim == 0 and not self.owner.lift_scalars
            if arg not in self.map and not scalar:
                self._param(arg, f"param_{len(self.group.params)}", arg.struct_info)
        elif isinstance(arg, (rx.ShapeExpr, rx.PrimValue)) and self.owner.lift_shapes:
            if arg not in self.map and self.owner.symbols_of(arg.struct_info):
                self._param(arg, f"param_{len(self.group.params)}", arg.struct_info)

    def need_field(self, source: rx.Var, index: int) -> None:
        if (source, index) not in self.fields:
            info = source.struct_info.fields[index]
            param = rx.Var(f"{source.name_hint}_{index}", info)
            self.fields[source, index] = param
            self.group.params.append(param)
            self.group.args.append(rx.TupleGetItem(source, index))

    def _param(self, outside: rx.Expr, name: str, info: StructInfo) -> None:
        param = rx.Var(name, info, outside.span)
        self.map[outside] = param
        self.group.params.append(param)
        self.group.args.append(outside)

    def _partly_used(self) -> set[rx.Var]:
        """Tuples from outside of which the group uses only some fields."""
        used: dict[rx.Var, set[int]] = {}
        whole: set[rx.Var] = set()
        for binding in self.group.bindings:
            value = binding.value
            if type(value) is rx.TupleGetItem and isinstance(value.tuple_value, rx.Var):
                if value.tuple_value not in self.inside:
                    used.setdefault(value.tuple_value, set()).add(value.index)
            else:
                whole.update(used_vars(value))
        return {
            var
            for var, fields in used.items()
            if var not in whole and len(fields) < len(var.struct_info.fields)
        }

    def _shape_param(self) -> None:
        """Symbolic variables that no parameter defines are passed as a shape."""
        defined: set[TirVar] = set()
        for param in self.group.params:
            defined.update(definable_tir_vars_in_struct_info(param.struct_info))
        needed: dict[TirVar, None] = {}
        for binding in self.group.bindings:
            for info in _infos_in(binding.value):
                needed.update(dict.fromkeys(self.owner.symbols_of(info)))
        for param in self.group.params:
            needed.update(dict.fromkeys(self.owner.symbols_of(param.struct_info)))
        missing = [v for v in needed if v not in defined]
        if missing:
            self.group.params.append(rx.Var("tir_vars", ShapeStructInfo(missing)))
            self.group.args.append(rx.ShapeExpr(missing))

    # ------------------------------------------------------------------ the body

    def substituted(self, value: Any) -> Any:
        kind = type(value)
        if kind is rx.Call:
            args = tuple(self.substituted(a) for a in value.args)
            same = all(a is b for a, b in zip(args, value.args, strict=True))
            return value if same else value.replace(args=args)
        if kind is rx.Tuple:
            return rx.Tuple([self.substituted(f) for f in value.fields])
        if kind is rx.TupleGetItem:
            param = self._field_param(value)
            if param is not None:
                return param
            return rx.TupleGetItem(self.substituted(value.tuple_value), value.index, value.span)
        if isinstance(value, (rx.Var, rx.Constant, rx.ShapeExpr, rx.PrimValue)):
            return self.map.get(value, value)
        return value


def _infos_in(value: rx.Expr) -> list[StructInfo]:
    """The struct infos in which an expression mentions symbolic variables."""
    infos: list[StructInfo] = [] if value.struct_info is None else [value.struct_info]
    if type(value) is rx.Call:
        infos += value.sinfo_args
        for arg in value.args:
            if isinstance(arg, (rx.ShapeExpr, rx.PrimValue)):
                infos.append(arg.struct_info)
            elif type(arg) is rx.Tuple:
                infos += [f.struct_info for f in arg.fields]
    return infos


def name_of(binding: rx.Binding) -> str:
    """A binding's contribution to its group's name: the name of its kernel or operator."""
    value = binding.value
    if type(value) is not rx.Call:
        return ""
    if is_tir_call(value) and isinstance(value.args[0], GlobalVar):
        return value.args[0].name_hint
    if isinstance(value.op, Op):
        return value.op.name.replace(".", "_")
    return value.op.name_hint if isinstance(value.op, GlobalVar) else ""
