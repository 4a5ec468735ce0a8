"""Lowers regions to external calls: the implementation of `relax.transform.RunCodegen`.

At graph level a back end's code generator is given the functions of its regions, and calls of them
become calls of the generated packed functions or of C functions through pointers. At loop level a
region is legalized for the back end's target, and its kernels are called in place of the region:
the tensors between them take part in memory planning.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...base.errors import LoopwrightError, explain, suggest
from ...ir import trace
from ...ir.expr import Attrs, GlobalVar
from ...ir.literals import int_value
from ...ir.module import IRModule
from ...ir.prim_expr import Call as PrimCall
from ...ir.prim_expr import PrimExpr
from ...ir.prim_expr import StringImm as PrimString
from ...ir.prim_expr import Var as PrimVar
from ...ir.prim_op import cast
from ...ir.target import Target
from ...runtime.extern import EXTERNAL_MODS, ExternLibrary
from ...runtime.packed_func import get_global_func
from ...tir import stmt as st
from ...tir.buffer import decl_buffer
from ...tir.function import PrimFunc
from ..analysis import tir_vars_in_struct_info
from ..expr import Call, Constant, Expr, Function, Tuple, Var, VarBinding
from ..functor import GraphRewriter
from ..op.base import call_dps_packed, call_tir
from ..struct_info import (
    PrimStructInfo,
    ShapeStructInfo,
    StructInfo,
    TensorStructInfo,
    TupleStructInfo,
)
from ..transform.fuse.fuse_ops_by_pattern import CODEGEN, COMPOSITE, check_entries
from ..transform.graph.legalize import LegalizeOps
from ..transform.graph.merge_layout_changes import LAYOUT_CHANGES, MergeLayoutChanges
from ..transform.legalize_ops.common import LEGALIZATIONS, candidates
from ..transform.queries import called_functions
from .composite import as_its_body, attributes_of, composite_inputs, composite_op, inlined
from .registry import Backend, find_backend

_SCALARS = (ShapeStructInfo, PrimStructInfo)
_log = logging.getLogger(__name__)
CONSTANTS = "const_name_to_constant"


def run_codegen(
    mod: IRModule,
    options: Mapping[str, Any],
    entry_functions: Sequence[str] | None,
    backends: Mapping[str, Backend],
) -> IRModule:
    """The module with every region lowered that the entry functions call."""
    check_entries(mod, entry_functions)
    callers = [f for _, f in _callers(mod, entry_functions)]
    reachable = {gvar for func in callers for gvar in called_functions(func)}
    regions: dict[str, list[GlobalVar]] = {}
    for gvar, func in mod.functions.items():
        if isinstance(func, Function) and CODEGEN in func.attrs:
            if entry_functions is None or gvar in reachable:
                regions.setdefault(str(func.attrs[CODEGEN]), []).append(gvar)
    for name, gvars in regions.items():
        backend = _backend(name, backends, mod[gvars[0]])
        merged_options = {**backend.options, **dict(options.get(name) or {})}
        if backend.codegen is not None:
            mod = _graph_level(mod, backend, gvars, merged_options, entry_functions)
        else:
            mod = _loop_level(mod, backend, gvars, merged_options, entry_functions)
    return mod


def _backend(name: str, backends: Mapping[str, Backend], func: Function) -> Backend:
    backend = backends.get(name) or find_backend(name)
    if backend is None:
        what = f"the back end {name} has no code generator"
        hint = f'register_backend(Backend("{name}", ...)), or register_func("relax.ext.{name}", f)'
        raise LoopwrightError(explain(what, instead=hint, span=func.span))
    backend.check_level()
    backend.check_usable()
    return backend


def _composites(region: Function) -> dict[str, Function]:
    """The composites in a region, by the names of their patterns."""
    values = [b.value for block in region.body.blocks for b in block.bindings]
    functions = [f for f in values if isinstance(f, Function) and COMPOSITE in f.attrs]
    return {str(f.attrs[COMPOSITE]): f for f in functions}


def _callers(mod: IRModule, entry_functions: Sequence[str] | None) -> list[tuple[GlobalVar, Any]]:
    return [
        (g, f)
        for g, f in mod.functions.items()
        if isinstance(f, Function)
        and CODEGEN not in f.attrs
        and (entry_functions is None or g.name_hint in entry_functions)
    ]


def _replaced(
    work: GraphRewriter, changed: Mapping[GlobalVar, Any], gvars: Sequence[GlobalVar]
) -> IRModule:
    """The module with changed functions and without regions that are not called any more."""
    mod = work.builder.get().with_functions(changed)
    called = {v for f in mod.functions.values() for v in called_functions(f)}
    return mod.with_functions(remove=[g for g in gvars if g not in called])


# ---------------------------------------------------------------------- graph level


def _graph_level(
    mod: IRModule,
    backend: Backend,
    gvars: list[GlobalVar],
    options: Mapping[str, Any],
    entry_functions: Sequence[str] | None,
) -> IRModule:
    functions = [mod[g] for g in gvars]
    names = _constant_names(gvars, functions, backend.name)
    assert backend.codegen is not None
    with backend.named("codegen", ", ".join(g.name_hint for g in gvars), functions[0]):
        modules = backend.codegen(functions, dict(options), names)
    if not isinstance(modules, (list, tuple)):
        what = f"the code generator of {backend.name} returns a list of modules"
        raise LoopwrightError(explain(what, got=repr(modules), instead="[module]"))
    callees = {g: _callee(backend, g, mod[g], modules) for g in gvars}
    work = _Calls(mod, callees)
    changed = {g: work.function(f) for g, f in _callers(mod, entry_functions)}
    for gvar in gvars:
        composites = sorted(_composites(mod[gvar]))
        trace.note("codegen", gvar.name_hint, backend=backend.name, level="graph", of=composites)
    mod = _replaced(work, changed, gvars)
    constants = dict((mod.attrs or {}).get(CONSTANTS) or {})
    constants.update({name: constant.data for constant, name in names.items()})
    mod = mod.with_attr(CONSTANTS, constants) if constants else mod
    return attach_externals(mod, [*modules, *backend.libraries])


def _constant_names(
    gvars: list[GlobalVar], functions: list[Function], backend: str
) -> dict[Any, str]:
    """A name for every constant in the regions: SYMBOL_BACKEND_const_K."""
    names: dict[Any, str] = {}
    for gvar, func in zip(gvars, functions, strict=True):
        constants: list[Any] = []
        _constants(func, constants)
        for k, constant in enumerate(constants):
            names.setdefault(constant, f"{gvar.name_hint}_{backend}_const_{k}")
    return names


def _constants(value: Expr, constants: list[Any]) -> None:
    """The constants in a function and its local functions, in order."""
    if isinstance(value, Constant):
        if not any(value is f for f in constants):
            constants.append(value)
    elif isinstance(value, Function):
        for block in value.body.blocks:
            for binding in block.bindings:
                _constants(binding.value, constants)
        _constants(value.body.body, constants)
    elif isinstance(value, Call):
        for arg in value.args:
            _constants(arg, constants)
    elif isinstance(value, Tuple):
        for field in value.fields:
            _constants(field, constants)


def _callee(backend: Backend, gvar: GlobalVar, func: Function, modules: Sequence[Any]) -> Any:
    """The replacement callee of a region: a symbol, or the kernel that calls a C function."""
    symbol = gvar.name_hint
    brought: list[str] = []
    for module in modules:
        if isinstance(module, ExternLibrary):
            if symbol in module.prototypes:
                return _pointer_kernel(func, module, symbol)
            brought += list(module.prototypes)
        else:
            names = module.function_names() if hasattr(module, "function_names") else []
            if symbol in names:
                _check_arity(backend, func, symbol, module.get_function(symbol))
                return symbol
            brought += list(names)
    if get_global_func(symbol, allow_missing=True) is not None:
        return symbol
    what = f"the code generator of {backend.name} made no function {symbol}"
    got = ", ".join(brought) or "nothing"
    hint = 'a function for each region, under its attribute "global_symbol"'
    raise LoopwrightError(explain(what, got=got, instead=hint, span=func.span))


def _check_arity(
    backend: Backend, func: Function, symbol: str, function: Callable[..., Any]
) -> None:
    """Raise LoopwrightError if a Python function does not take the number of arguments that it
    will be called with."""
    results = len(_leaves(func.ret_struct_info))
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # its signature is unknown
        return
    try:
        signature.bind(*func.params, *range(results))
    except TypeError:
        inputs = ", ".join(p.name_hint for p in func.params)
        what = f"back end {backend.name} made a function of the wrong arguments for region {symbol}"
        hint = (
            f"take {len(func.params)} inputs ({inputs}), then {results} to fill: the region's own"
        )
        hint = f"{hint}, which may be several matches"
        raise LoopwrightError(explain(what, got=str(signature), instead=hint)) from None


def _pointer_kernel(func: Function, library: ExternLibrary, symbol: str) -> _PointerKernel:
    """A kernel that passes a region's tensors, then its symbolic extents, to a C function."""
    info_of = {p: p.struct_info for p in func.params}
    tensors = [k for k, i in enumerate(info_of.values()) if not isinstance(i, _SCALARS)]
    infos = [func.params[k].struct_info for k in tensors] + _leaves(func.ret_struct_info)
    buffers, params, symbols = [], [], {}
    defined: dict[Any, None] = {}
    for n, info in enumerate(infos):
        shape = info.get_shape() if isinstance(info, TensorStructInfo) else None
        if shape is None:
            what = f"the region {symbol} is called by pointers; its tensors need known shapes"
            raise LoopwrightError(explain(what, got=str(info), span=func.span))
        inside = n < len(tensors)
        label = func.params[tensors[n]].name_hint if inside else f"out{n - len(tensors)}"
        params.append(PrimVar(label, "handle"))
        buffers.append(decl_buffer(shape, info.dtype, label))
        symbols.update(dict.fromkeys(tir_vars_in_struct_info(info)))
        if inside:
            defined.update(dict.fromkeys(v for v in shape if isinstance(v, PrimVar)))
    scalars = [v for v in symbols if v not in defined]
    prototype = library.prototypes[symbol]
    kinds = prototype.params[len(buffers) :]
    extents = [cast(kind.dtype, v) for v, kind in zip(symbols, kinds, strict=False)]
    extents += list(symbols)[len(kinds) :]  # too many: reported where calls are checked
    args = [PrimString(symbol), *(b.data for b in buffers), *extents]
    call = PrimCall(prototype.result.dtype, "tir.call_extern", args, func.span)
    pairs = dict(zip(params, buffers, strict=True))
    kernel = PrimFunc(
        [*params, *scalars], st.Evaluate(call, span=func.span), buffer_map=pairs, span=func.span
    )
    return _PointerKernel(kernel, tensors, [_extent_source(v, func) for v in scalars])


def _extent_source(var: PrimVar, func: Function) -> tuple[int, int]:
    """The parameter of a region, and the position in it, that defines a symbolic extent."""
    for k, param in enumerate(func.params):
        info = param.struct_info
        values = info.values if isinstance(info, ShapeStructInfo) else None
        values = (info.value,) if isinstance(info, PrimStructInfo) else values
        for i, value in enumerate(values or ()):
            if value is var:
                return k, i
    what = f"no argument of the region defines its extent {var.name}"
    raise LoopwrightError(explain(what, span=func.span))


def _leaves(info: StructInfo | None) -> list[StructInfo]:
    if isinstance(info, TupleStructInfo):
        return [leaf for field in info.fields for leaf in _leaves(field)]
    return [] if info is None else [info]


@dataclass(frozen=True)
class _PointerKernel:
    """A kernel that calls a C function.

    tensors: the indices of the region's arguments that it takes. extents: its further arguments,
    each as an argument index and a position in it.
    """

    func: PrimFunc
    tensors: list[int]
    extents: list[tuple[int, int]]


class _Calls(GraphRewriter):
    """Replaces calls of regions by calls of their generated functions."""

    def __init__(self, mod: IRModule, callees: Mapping[GlobalVar, Any]) -> None:
        super().__init__(mod)
        self.callees = callees
        self.kernels: dict[GlobalVar, GlobalVar] = {}

    def call(self, call: Call) -> Any:
        callee = self.callees.get(call.op) if isinstance(call.op, GlobalVar) else None
        if callee is None:
            return call
        info = call.struct_info or self.builder.normalize(call).struct_info
        outs = list(info.fields) if isinstance(info, TupleStructInfo) else info
        args = Tuple(list(call.args))
        if isinstance(callee, str):
            return call_dps_packed(callee, args, outs).with_span(call.span)
        if call.op not in self.kernels:
            name = f"call_{call.op.name_hint}"
            self.kernels[call.op] = self.builder.add_func(callee.func, name)
        tensors = Tuple([call.args[k] for k in callee.tensors])
        extents = [_extent(call.args[k], i) for k, i in callee.extents]
        out = call_tir(self.kernels[call.op], tensors, outs, extents or None)
        return out.with_span(call.span)


def _extent(arg: Expr, index: int) -> Any:
    """A dimension of a shape argument, or a scalar argument, of a region."""
    info = arg.struct_info
    return info.value if isinstance(info, PrimStructInfo) else info.values[index]


# ---------------------------------------------------------------------- loop level


def _loop_level(
    mod: IRModule,
    backend: Backend,
    gvars: list[GlobalVar],
    options: Mapping[str, Any],
    entry_functions: Sequence[str] | None,
) -> IRModule:
    target = backend.target if isinstance(backend.target, Target) else Target(backend.target)
    opened = {g: _opened(mod, mod[g], target) for g in gvars}
    if backend.lower is None:
        composites = {k: f for g in gvars for k, f in _composites(mod[g]).items()}
        for missing in filter(None, (_missing_rule(f, target) for f in composites.values())):
            _log.warning(missing)
    inside = IRModule(opened)
    with target:
        # The code after one call's result and that before the next one's input become adjacent.
        inside = MergeLayoutChanges()(LegalizeOps(keep=LAYOUT_CHANGES)(inside))
        inside = LegalizeOps()(inside)
    kernels = {g: f for g, f in inside.functions.items() if isinstance(f, PrimFunc)}
    marked = {
        g: f if "target" in f.attrs else f.with_attr("target", target) for g, f in kernels.items()
    }
    libraries = list(backend.libraries)
    if backend.lower is not None:
        marked, more = _lowered(backend, marked, options)
        libraries += more
    work = _Inliner(mod, {g: inside[g] for g in gvars}, marked)
    changed = {g: work.function(f) for g, f in _callers(mod, entry_functions)}
    for gvar in gvars:
        composites = sorted(_composites(mod[gvar]))
        facts = {"backend": backend.name, "level": "loops", "of": composites, "target": str(target)}
        trace.note("codegen", gvar.name_hint, **facts)
    replaced = _replaced(work, changed, gvars)
    return attach_externals(replaced, libraries)


def _missing_rule(func: Function, target: Target) -> str:
    """The message for a composite without a rule for it or its operators: the kernel is
    registered under a misspelt name, or not at all."""
    name, registered = str(func.attrs[COMPOSITE]), LEGALIZATIONS.subjects()
    calls = [b.value for block in func.body.blocks for b in block.bindings]
    inside = {getattr(getattr(c, "op", None), "name", "") for c in calls}
    if any(LEGALIZATIONS.candidates(target, op) for op in (name, *inside)):
        return ""
    kind = target.kind_name
    what = f"no rule for {name} under target {kind}: it is compiled from its operators"
    close = suggest(name, registered, "") if name not in registered else ""
    fix = f'register_legalize("{name}", tir=kernel, target="{kind}")'
    return explain(what, instead=f"{close} {fix}" if close.startswith("did") else fix)


def attach_externals(mod: IRModule, externals: Iterable[Any]) -> IRModule:
    """The module with additional external libraries and modules, each once."""
    modules = list((mod.attrs or {}).get(EXTERNAL_MODS) or ())
    for module in externals:
        if not any(module is k for k in modules):
            modules.append(module)
    return mod.with_attr(EXTERNAL_MODS, modules) if modules else mod


def _opened(mod: IRModule, func: Function, target: Target) -> Function:
    """A region with its composites as operators if they have a rule, else inlined."""
    return _Opener(mod, target).function(func.without_attr(CODEGEN))


class _Opener(GraphRewriter):
    def __init__(self, mod: IRModule, target: Target) -> None:
        super().__init__(mod)
        self.target = target
        self.local: dict[Var, Function] = {}

    def binding(self, binding: VarBinding) -> None:
        if isinstance(binding.value, Function) and COMPOSITE in binding.value.attrs:
            self.local[binding.var] = binding.value
            return
        super().binding(binding)

    def call(self, call: Call) -> Any:
        func = self.local.get(call.op) if isinstance(call.op, Var) else None
        if func is None:
            return call
        op = composite_op(str(func.attrs[COMPOSITE]))
        if any(c.rule is not as_its_body for c in candidates(op, self.target, {})):
            attrs = Attrs(op.name, {**attributes_of(func), "composite": func})
            info = self.builder.normalize(call).struct_info  # in the region's symbols
            arg_of: dict[Any, Any] = dict(zip(func.params, call.args, strict=True))
            args = [arg_of.get(tensor, tensor) for tensor in composite_inputs(func)]
            return Call(op, args, attrs, [info], call.span)
        return inlined(self, func, call.args)


def _lowered(
    backend: Backend, kernels: dict[GlobalVar, Any], options: Mapping[str, Any]
) -> tuple[dict[GlobalVar, Any], list[ExternLibrary]]:
    """The result of a back end's `lower` on its regions' kernels."""
    assert backend.lower is not None
    with backend.named("lower", ", ".join(g.name_hint for g in kernels)):
        lowered = backend.lower(IRModule(kernels), dict(options))
    libraries: Sequence[Any] = ()
    if isinstance(lowered, tuple) and len(lowered) == 2:
        lowered, libraries = lowered
    if not isinstance(lowered, IRModule):
        what = (
            f"lower of back end {backend.name} returns an IRModule, or a pair (IRModule, libraries)"
        )
        raise LoopwrightError(explain(what, got=repr(lowered)))
    by_name = {g.name_hint: f for g, f in lowered.functions.items()}
    missing = [g.name_hint for g in kernels if g.name_hint not in by_name]
    if missing:
        what = f"lower of back end {backend.name} lost kernels"
        hint = "return every function under its name"
        raise LoopwrightError(explain(what, got=", ".join(missing), instead=hint))
    for g, old in kernels.items():
        new = by_name[g.name_hint]
        was, now = _signature(old), _signature(new)
        if was != now:
            what = f"lower of back end {backend.name} changed the signature of {g.name_hint}"
            raise LoopwrightError(explain(what, got=now, instead=f"keep its parameters: {was}"))
    return {g: by_name[g.name_hint] for g in kernels}, list(libraries)


def _signature(func: Function | PrimFunc) -> str:
    """A kernel's parameters as text; symbolic extents are numbered."""
    if not isinstance(func, PrimFunc):
        return type(func).__name__
    numbers: dict[Any, str] = {}

    def dim(extent: PrimExpr) -> str:
        if isinstance(extent, PrimVar):
            return numbers.setdefault(extent, f"n{len(numbers)}")
        value = int_value(extent)
        return "?" if value is None else str(value)

    shown = []
    for param in func.params:
        buffer = func.buffer_map.get(param)
        if buffer is None:
            shown.append(str(param.dtype))
        else:
            shown.append(f"{buffer.dtype}[{', '.join(map(dim, buffer.shape))}]")
    return f"({', '.join(shown)})"


class _Inliner(GraphRewriter):
    """Inlines calls of regions."""

    def __init__(
        self, mod: IRModule, regions: Mapping[GlobalVar, Any], kernels: Mapping[GlobalVar, Any]
    ) -> None:
        super().__init__(mod)
        self.regions = regions
        self.kernels = kernels
        self.names: dict[GlobalVar, GlobalVar] = {}

    def call(self, call: Call) -> Any:
        if isinstance(call.op, GlobalVar) and call.op in self.regions:
            return inlined(self, self.renamed(self.regions[call.op]), call.args)
        return call

    def renamed(self, func: Function) -> Function:
        """A region whose calls of kernels use the names in this module."""
        for gvar, kernel in self.kernels.items():
            if gvar not in self.names:
                self.names[gvar] = self.builder.add_func(kernel, gvar.name_hint)
        work = _Renamer(self.names)
        return work.function(func)


class _Renamer(GraphRewriter):
    def __init__(self, names: Mapping[GlobalVar, GlobalVar]) -> None:
        super().__init__(None)
        self.names = names

    def call(self, call: Call) -> Any:
        if call.args and isinstance(call.args[0], GlobalVar):
            new = self.names.get(call.args[0], call.args[0])
            return call if new is call.args[0] else call.replace(args=(new, *call.args[1:]))
        return call
