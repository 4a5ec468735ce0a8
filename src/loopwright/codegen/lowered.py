"""The input of a code generator: the lowered functions of a model and how they are called."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import count
from typing import Any

from ..arith import Analyzer
from ..base import progress
from ..base.errors import LoopwrightError, explain
from ..ir.dtype import DataType
from ..ir.expr import GlobalVar
from ..ir.functor import nodes_of, rewrite
from ..ir.literals import is_zero
from ..ir.prim_expr import Call, PrimExpr, SizeVar, Var
from ..ir.prim_op import cast, const, multiply
from ..ir.target import Target
from ..ir.transform import IRModule, Pass
from ..relax.expr import Function
from ..relax.transform.lower.graph_to_tir import NATIVE_PART, why_not_native
from ..runtime.extern import EXTERNAL_MODS, ExternLibrary
from ..runtime.signature import Argument, Signature
from ..tir import stmt as st
from ..tir.buffer import Buffer
from ..tir.function import PrimFunc
from ..tir.signature import signature_of
from ..tir.transform.lower.unpack_signatures import symbolic_dims

# Functions lowered together with the requested one: a pass has a fixed cost per module.
_FOLLOWING = 7


class Lowered:
    """A model after its loop passes.

    `graph` is the module after the graph passes, `module` after the loop passes. By name, `kernels`
    and `graphs` are its functions (`graphs`: native graph functions), `machine` those left for the
    virtual machine, `entries` their signatures. With `one_by_one`, functions are lowered lazily, so
    that a code generator can compile the first ones while the others are lowered; `silent` are those
    without `T.ret`, whose callers need not wait for them. `libraries` and
    `imports` are the C libraries and packed functions from external code generators. `threads` is
    how many threads the model uses, None if it follows the process's number. `seconds` is
    the time the loop passes took.
    """

    def __init__(
        self,
        graph: IRModule,
        passes: Pass,
        target: Target,
        *,
        one_by_one: bool = False,
        threads: int | None = None,
    ) -> None:
        self.graph, self.target, self.threads = graph, target, threads
        self._passes = passes
        self._done: IRModule | None = None
        self._one_by_one: dict[str, Any] = {}
        self.seconds = 0.0
        if not one_by_one:
            start = time.perf_counter()
            self._done = passes(graph)
            self.seconds = time.perf_counter() - start
        self._classify()
        functions = (graph if self._done is None else self._done).functions
        self.silent = {
            g.name_hint
            for g, f in functions.items()
            if isinstance(f, PrimFunc) and returned_type(f) is None
        }
        self.libraries, self.imports = externals(graph)

    def _lowered(self, name: str, following: Sequence[str] = ()) -> Any:
        """A function after its passes, which run on those that follow as well."""
        if self._done is not None:
            return self._done[name]
        if name not in self._one_by_one:
            start = time.perf_counter()
            names = [n for n in (name, *following[:_FOLLOWING]) if n not in self._one_by_one]
            part = self.graph.with_only(map(self.graph.get_global_var, names))
            total = len(self.graph.functions)
            with progress.step("kernel", name, len(self._one_by_one), total):
                done = self._passes(part)
            self._one_by_one.update((n, done[n]) for n in names)
            self.seconds += time.perf_counter() - start
        return self._one_by_one[name]

    @property
    def module(self) -> IRModule:
        """All functions, lowered."""
        if self._done is None:
            gvars = self.graph.functions
            self._done = self.graph.with_functions({g: self._lowered(g.name_hint) for g in gvars})
        return self._done

    def _classify(self) -> None:
        graph = self.graph if self._done is None else self._done
        self.entries: dict[str, Signature] = {}
        self.machine: dict[str, Function] = {}
        self.parts: set[str] = set()  # native functions that only the machine calls
        graphs: list[str] = []
        kernels: list[str] = []
        for gvar, func in graph.functions.items():
            name, entry = gvar.name_hint, signature_of(func)
            if isinstance(func, Function):
                self.machine[name] = func
            elif entry is not None:
                self.entries[name] = entry
                if NATIVE_PART in func.attrs:
                    self.parts.add(name)
                graphs.append(name)
            elif isinstance(func, PrimFunc):
                kernels.append(name)
        public = [name for name in kernels if "global_symbol" in self.graph[name].attrs]
        called = {name for func in self.machine.values() for name in _called(func)}
        for name in kernels:
            func = self.graph[name]
            alone = not (graphs or self.machine or public)
            if name in called or alone or "global_symbol" in func.attrs:
                self.entries[name] = kernel_entry(func)
                if not alone and "global_symbol" not in func.attrs:
                    self.parts.add(name)
        self.kernels: Mapping[str, PrimFunc] = _Named(kernels, self._lowered)
        self.graphs: Mapping[str, PrimFunc] = _Named(graphs, self._lowered)


def refuse_machine(what: str, graph: IRModule, machine: Mapping[str, Function]) -> None:
    """Raise LoopwrightError, with the reasons, where functions are left for the virtual machine."""
    if machine:
        got = "; ".join(f"{name}: {why_not_native(graph, name)}" for name in machine)
        hint = "run it in this process, compiled for LLVM"
        raise LoopwrightError(explain(what, got=got, instead=hint))


def _called(func: Function) -> set[str]:
    """The functions of the module that a graph function calls."""
    return {var.name_hint for var in nodes_of(func, GlobalVar)}


def returned_type(func: PrimFunc) -> DataType | None:
    """The type of the first T.ret; of a function of the packed convention, that is not 0."""
    packed = func.attrs.get("calling_conv")
    todo: list[Any] = [func.body]
    while todo:
        node = todo.pop()
        if isinstance(node, st.Evaluate):
            call = node.value
            if isinstance(call, Call) and getattr(call.op, "name", "") == "tir.ret":
                value = call.args[0]
                status = packed and is_zero(value)
                if not status and not value.dtype.is_handle:
                    return value.dtype
        elif isinstance(node, st.SeqStmt):
            todo += node.seq
        elif isinstance(node, st.IfThenElse):
            todo += (node.then_case, node.else_case)
        elif isinstance(node, st.BlockRealize):
            todo += (node.block.init, node.block.body)
        elif not isinstance(node, st.BufferStore) and node is not None:
            todo.append(getattr(node, "body", None))
    return None


class _Named(Mapping[str, Any]):
    """Functions by name, computed on access. look_up: given the name and those that follow it."""

    def __init__(self, names: Sequence[str], look_up: Callable[..., Any]) -> None:
        self.order = names
        self.names = {name: index for index, name in enumerate(names)}
        self.look_up = look_up

    def __getitem__(self, name: str) -> Any:
        return self.look_up(name, self.order[self.names[name] + 1 :])

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)


def named_apart(func: PrimFunc) -> PrimFunc:
    """The function with another name for each variable, and for each buffer that of its pointer:
    the text of its expressions is then no question of which is meant."""
    names: dict[Var, Var] = {}
    used: set[str] = set()

    def named(var: Var) -> Var:
        if var not in names:
            candidates = (f"{var.name}_{k}" if k else var.name for k in count())
            name = next(name for name in candidates if name not in used)
            used.add(name)
            names[var] = var if name == var.name else var.replace(name=name)
        return names[var]

    rules = {Var: named, SizeVar: named, Buffer: lambda b: b.replace(name=b.data.name)}
    params, body = rewrite((func.params, func.body), rules)
    return func.replace(params=params, body=body)


def externals(mod: IRModule) -> tuple[list[ExternLibrary], dict[str, Callable[..., Any]]]:
    """The C libraries and packed functions that external code generators attached to a module.

    Raises LoopwrightError if two of them define a function of the same name.
    """
    libraries: list[ExternLibrary] = []
    imports: dict[str, Callable[..., Any]] = {}
    for module in (mod.attrs or {}).get(EXTERNAL_MODS) or ():
        if isinstance(module, ExternLibrary):
            libraries.append(module)
            continue
        for name in module.function_names():
            if name in imports:
                what = f"two external modules bring a function {name}"
                raise LoopwrightError(explain(what, instead="give one of them another name"))
            imports[name] = module.get_function(name)
    return libraries, imports


def kernel_entry(func: PrimFunc) -> Signature:
    """The signature of a kernel called from outside: its buffers and scalars in order, no
    results."""
    params: list[Argument] = []
    for p in func.params:
        buffer = func.buffer_map.get(p)
        if buffer is None:
            params.append(Argument(p.name, str(p.dtype)))
        else:
            _check_compact(buffer, func)
            params.append(Argument(buffer.name, str(buffer.dtype), tuple(buffer.shape)))
    return Signature(tuple(params), (), tuple(symbolic_dims(func)))


def _check_compact(buffer: Buffer, func: PrimFunc) -> None:
    """Entries take contiguous tensors: a kernel with other strides would access memory out of
    bounds."""
    expected: PrimExpr = const(1, "int64")
    prove = Analyzer().can_prove_equal
    for extent, stride in zip(reversed(buffer.shape), reversed(buffer.strides), strict=False):
        if not prove(cast("int64", stride), expected):
            what = f"parameter {buffer.name} has strides, which compiled functions do not support"
            hint = "make the array contiguous and declare it without strides"
            got = ", ".join(str(s) for s in buffer.strides)
            raise LoopwrightError(explain(what, got=got, instead=hint, span=func.span))
        expected = multiply(expected, cast("int64", extent))
