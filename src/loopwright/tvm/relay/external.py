"""Functions for other compilers: what `Compiler="x"` and `Composite="x.name"` mean on the way down.

    Relay                                      Relax
    def @f(%a, Compiler="x") { ... }           a function with the attribute Codegen="x": a region
    fn (%a, Composite="x.name") { ... }(%b)    a local function with Composite="x.name", called

The back end x of `relax.byoc` generates code for its regions, or the packed function `relax.ext.x`; or
`relay.ext.x(function)`, which is given each function as it is in Relay and returns a module with a
function of its symbol, `f(*inputs, *results)`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...ir.expr import BaseExpr, GlobalVar
from ...ir.module import IRModule
from ...ir.op import Op
from ...relax.byoc import Backend
from ...relax.byoc.registry import find_backend
from ...relax.transform import RunCodegen
from ...relax.transform.fuse.fuse_ops_by_pattern import CODEGEN, COMPOSITE
from ...runtime.packed_func import PackedFunc, get_global_func
from .expr import Expr, Function
from .walk import post_order, rewrite

# What only Relay's passes read.
_DROPPED = ("global_symbol", "Primitive", "hash", "Compiler", "Inline", "PartitionedFromPattern")


def is_external(func: BaseExpr) -> bool:
    """Whether a function is for another compiler."""
    return isinstance(func, Function) and bool(func.attrs.get("Compiler"))


def is_composite(func: Op | Expr) -> bool:
    """Whether a function is the match of a pattern."""
    return isinstance(func, Function) and COMPOSITE in func.attrs


def relax_attrs(func: Function) -> dict[str, Any]:
    """A function's attributes in Relax; its name is the builder's."""
    attrs = {k: v for k, v in func.attrs.items() if k not in _DROPPED}
    return {**attrs, CODEGEN: str(func.attrs["Compiler"])} if is_external(func) else attrs


def lifted(mod: IRModule) -> IRModule:
    """The module in which functions for other compilers that are called where they are defined
    are functions of the module."""
    functions: dict[GlobalVar, Function] = {}
    by_identity: dict[int, GlobalVar] = {}

    def lift(func: Any) -> GlobalVar | None:
        if not is_external(func):
            return None
        if id(func) not in by_identity:
            name = str(func.attrs.get("global_symbol", func.attrs["Compiler"]))
            while name in mod or any(g.name_hint == name for g in functions):
                name += "_"
            by_identity[id(func)] = GlobalVar(name)
            functions[by_identity[id(func)]] = func
        return by_identity[id(func)]

    changed = {}
    for gvar, func in mod.functions.items():
        inside = isinstance(func, Function) and any(map(is_external, post_order(func.body)))
        if inside:
            changed[gvar] = func.replace(body=rewrite(func.body, pre=lift))
    return mod.with_functions({**changed, **functions}) if changed else mod


def generated(relay_mod: IRModule, mod: IRModule) -> IRModule:
    """The module in Relax with calls of generated code where `relay.ext.x` generates it."""
    by_name = {g.name_hint: f for g, f in relay_mod.functions.items() if is_external(f)}
    backends = []
    for name in dict.fromkeys(str(f.attrs["Compiler"]) for f in by_name.values()):
        make = get_global_func(f"relay.ext.{name}", allow_missing=True)
        if make is not None and find_backend(name) is None:
            backends.append(Backend(name, codegen=_codegen(make, by_name)))
    return RunCodegen(backends=backends)(mod) if backends else mod


def _codegen(make: PackedFunc, by_name: dict[str, Function]) -> Any:
    def codegen(
        functions: list[Any], options: Mapping[Any, Any], constant_names: Mapping[Any, Any]
    ) -> list[Any]:
        symbols = [str(f.attrs["global_symbol"]) for f in functions]
        return [make(by_name[s].with_attr("global_symbol", s)) for s in symbols]

    return codegen
