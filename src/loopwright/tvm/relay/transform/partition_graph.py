"""PartitionGraph: each region for a compiler becomes a function of the module.

before: def @main(%x) { compiler_end(nn.relu(compiler_begin(%x, compiler="c")), compiler="c") }
after:  def @main(%x) { @tvmgen_default_c_main_0(%x) }
        def @tvmgen_default_c_main_0(%c_0_i0, Primitive=1, Compiler="c", Inline=1) { nn.relu(%c_0_i0) }
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ....ir.expr import GlobalVar
from ....ir.module import IRModule
from ....ir.op import Op
from ....ir.pass_context import PassContext
from ....runtime import get_global_func
from ..annotated_regions import AnnotatedRegion, AnnotatedRegionSet
from ..backend.name_transforms import sanitize_name
from ..expr import Call, Constant, Expr, Function, Tuple, TupleGetItem, Var
from ..infer import infer_function
from ..op import annotation
from ..walk import bind, children, post_order, rebuilt, rewrite
from .annotate_target import BEGIN, DEFAULT, END, is_begin, is_end
from .base import RelayPass
from .infer_type import InferType


class PartitionGraph(RelayPass):
    """Each region for a compiler becomes a function of the module. mod_name: the model's name, in
    those of the functions. bind_constants: whether constants are part of the functions, and no
    arguments."""

    mod_name: str = "default"
    bind_constants: bool = True

    def run(self, mod: IRModule, ctx: PassContext) -> IRModule:
        functions: dict[GlobalVar, Function] = {}
        names = {gvar.name_hint for gvar in mod.functions}
        for gvar, func in mod.functions.items():
            if isinstance(func, Function) and not func.attrs.get("Compiler"):
                marked = infer_function(_plain_marks(func), mod)
                work = _Partitioner(self, names, gvar.name_hint, marked)
                functions[gvar] = marked.replace(body=work.body())
                functions.update(work.functions)
        return InferType()(mod.with_functions(functions))


def _plain_marks(func: Function) -> Function:
    """No marks for what no compiler takes; the end of a tuple is one for each field."""

    def post(old: Op | Expr, new: Op | Expr) -> Any:
        if not (is_begin(new) or is_end(new)):
            return None
        inside = new.args[0]
        if new.attrs.compiler == DEFAULT:
            return inside
        if is_end(new) and isinstance(inside, Tuple):
            ends = [annotation.compiler_end(part, new.attrs.compiler) for part in inside.fields]
            return Tuple(ends, inside.span)
        return None

    return rewrite(func, post)


@dataclass(eq=False)
class _RegionFunction:
    """The function of a region: the numbers of its marks of begin, and the values that leave it,
    each once, by identity; its parameters with their arguments, by the values that they replace;
    and the expressions that replace its results outside."""

    numbers: dict[int, int]
    leaving: dict[int, Any]
    params: dict[int, tuple[Var, Any]] = field(default_factory=dict)
    results: dict[int, Any] = field(default_factory=dict)


def _region_function(region: AnnotatedRegion) -> _RegionFunction:
    numbers = {id(mark): i for i, mark in enumerate(region.args)}
    return _RegionFunction(numbers, {id(mark.args[0]): mark.args[0] for mark in region.rets})


class _Partitioner:
    def __init__(self, options: PartitionGraph, names: set[str], name: str, func: Function) -> None:
        self.options, self.func = options, func
        self.regions = AnnotatedRegionSet(func, BEGIN, END, name)
        self.region_functions = {region.id: _region_function(region) for region in self.regions}
        self.names = names
        self.functions: dict[GlobalVar, Function] = {}
        self.new: dict[int, Any] = {}

    def body(self) -> Any:
        """The body of the function, with calls in the place of regions."""
        for node in post_order(self.func.body, parts=self._parts):
            if is_begin(node):
                new = self._parameter(node)
            elif is_end(node):
                new = self._result(node)
            else:
                new = rebuilt(node, self.new)
            self.new[id(node)] = new
        return self.new[id(self.func.body)]

    def _parts(self, node: Op | Expr) -> tuple[Any, ...]:
        """Where a region ends, all that leaves it belongs to the same call."""
        if not is_end(node):
            return children(node)
        region: Any = self.regions.get_region(node)
        return (node.args[0], *self.region_functions[region.id].leaving.values())

    def _parameter(self, begin: Call) -> Var:
        region: Any = self.regions.get_region(begin)
        source = begin.args[0]
        while is_begin(source) or is_end(source):
            source = source.args[0]
        region_function = self.region_functions[region.id]
        if id(source) not in region_function.params:
            name = f"{region.target}_{region.id}_i{region_function.numbers[id(begin)]}"
            var = Var(name, begin.checked_type)
            region_function.params[id(source)] = (var, self.new[id(begin.args[0])])
        return region_function.params[id(source)][0]

    def _result(self, end: Call) -> Any:
        region: Any = self.regions.get_region(end)
        region_function = self.region_functions[region.id]
        if not region_function.results:
            call = self._call(region, [self.new[key] for key in region_function.leaving])
            single = len(region_function.leaving) == 1
            region_function.results = {
                key: call if single else TupleGetItem(call, i)
                for i, key in enumerate(region_function.leaving)
            }
        return region_function.results[id(end.args[0])]

    def _call(self, region: AnnotatedRegion, results: list[Any]) -> Call:
        """Make the function of a region, and a call of it."""
        params = list(self.region_functions[region.id].params.values())
        func = Function(
            [var for var, _ in params], results[0] if len(results) == 1 else Tuple(results)
        )
        if self.options.bind_constants:
            func = bind(func, {var: value for var, value in params if _is_constant(value)})
            params = [(var, value) for var, value in params if not _is_constant(value)]
        optimize = get_global_func(f"relay.ext.{region.target}.optimize", allow_missing=True)
        if optimize is not None:
            func = optimize(InferType()(IRModule.from_expr(func)))["main"]
        name = f"{region.target}_{region.func_name}_{region.id}"
        name = sanitize_name(f"tvmgen_{self.options.mod_name}_{name}")
        while name in self.names:
            name += "_"
        self.names.add(name)
        attrs = {"global_symbol": name, "Primitive": 1, "Compiler": region.target, "Inline": 1}
        gvar = GlobalVar(name)
        self.functions[gvar] = func.with_attrs(attrs)
        return Call(gvar, [value for _, value in params])


def _is_constant(value: Expr) -> bool:
    parts = value.fields if isinstance(value, Tuple) else (value,)
    return all(isinstance(part, Constant) for part in parts)
