"""BlockBuilder: builds graph functions binding by binding, and their module."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from ..base import budget
from ..base.errors import explain
from ..base.span import Span
from ..ir.expr import GlobalVar
from ..ir.function import BaseFunc
from ..ir.module import IRModule
from ..ir.prim_expr import Max
from ..ir.prim_expr import Var as TirVar
from ..ir.structural import structural_equal
from . import expr as rx
from .fingerprint import fingerprint
from .normalize import Normalizer
from .op.base import call_tir, call_tir_with_grad
from .relations import (
    Analyzer,
    BaseCheckResult,
    collect_non_negative_expressions,
    definable_tir_vars_in_struct_info,
    erase_to_well_defined,
    function_struct_info,
    struct_info_base_check,
    tir_vars_in_struct_info,
)
from .struct_info import ObjectStructInfo, ShapeStructInfo, StructInfo, TensorStructInfo
from .te_call import gen_call_tir_inputs


class NameSupply:
    """Fresh names: `add`, `add1`, `add2`... Characters not allowed in identifiers become `_`."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}

    def fresh(self, prefix: str) -> str:
        """`prefix` if it is free, else with the first free number appended."""
        name = "".join(c if c.isalnum() or c == "_" else "_" for c in prefix)
        if name not in self.counts:
            self.counts[name] = 0
            return name
        unique = name
        while unique in self.counts:
            self.counts[name] += 1
            unique = f"{name}{self.counts[name]}"
        self.counts[unique] = 0
        return unique


class _Frame:
    """A block being built. `normalized`: id -> (expression, the variable it was bound to)."""

    __slots__ = ("bindings", "is_dataflow", "normalized")

    def __init__(self, is_dataflow: bool) -> None:
        self.is_dataflow = is_dataflow
        self.bindings: list[rx.Binding] = []
        self.normalized: dict[int, tuple[Any, Any]] = {}


class _Scope:
    """The definitions of a function or branch; `outer`: the scope whose definitions hold in it, too."""

    __slots__ = ("infos", "outer")

    def __init__(self, outer: _Scope | None = None) -> None:
        self.outer = outer
        self.infos: list[StructInfo] = []  # of the variables

    def defined(self, symbols: Iterable[TirVar]) -> set[TirVar]:
        """Those of the symbols that are defined; computed on request, which is rare."""
        scope: _Scope | None = self
        defined, left = set[TirVar](), set(symbols)
        while left and scope is not None:
            for info in scope.infos:
                defined.update(left.intersection(definable_tir_vars_in_struct_info(info)))
                left -= defined
                if not left:
                    break
            scope = scope.outer
        return defined


class FunctionScope:
    """`with bb.function(...)`: a function being built."""

    def __init__(
        self,
        block_builder: BlockBuilder,
        name: str,
        params: list[rx.Var] | None,
        attrs: dict[str, Any],
        is_pure: bool,
    ) -> None:
        self._bb = block_builder
        self._name = name
        self._params = params
        self._attrs = attrs
        self._is_pure = is_pure
        self._blocks: list[rx.BindingBlock] = []
        self._done = False

    def __enter__(self) -> FunctionScope:
        self._bb._enter_function(self)
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        self._bb._exit_function(self, failed=kind is not None)


class DataflowScope:
    """`with bb.dataflow()`: a dataflow block being built."""

    def __init__(self, block_builder: BlockBuilder) -> None:
        self._bb = block_builder

    def __enter__(self) -> DataflowScope:
        self._bb._close_into_function()
        self._bb._begin_dataflow_block()
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if kind is None:
            self._bb._close_into_function()
            self._bb._begin_binding_block()


class TestingScope:
    """`with bb.testing_scope(def_vars=[n])`: a scope and block whose contents are discarded."""

    __test__ = False  # not a test class for pytest

    def __init__(self, block_builder: BlockBuilder, def_vars: Iterable[TirVar]) -> None:
        self._bb = block_builder
        self._def_vars = list(def_vars)

    def __enter__(self) -> TestingScope:
        self._bb.begin_scope([rx.Var("scope_vars", ShapeStructInfo(self._def_vars))])
        self._bb._begin_dataflow_block()
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        self._bb._end_block()
        self._bb.end_scope()


class BlockBuilder:
    """Builds functions of a module, normalizing the emitted expressions.

        bb = BlockBuilder()
        with bb.function("main", [x]):
            with bb.dataflow():
                y = bb.emit(relax.op.add(x, x))
                out = bb.emit_output(y)
            bb.emit_func_output(out)
        mod = bb.finalize()

    mod: a module to start from; it is copied before it is changed.
    """

    _stack: list[BlockBuilder] = []

    def __init__(self, mod: IRModule | None = None) -> None:
        self._mod = IRModule() if mod is None else mod
        self._owned = mod is None
        self._names = NameSupply()
        self._frames: list[_Frame] = []
        self._scopes: list[_Scope] = []
        self._values: dict[rx.Id, Any] = {}
        self._functions: list[FunctionScope] = []
        self._by_hash: dict[Any, list[GlobalVar]] | None = None
        self.applies_fnormalize = True  # whether operators' FNormalize is part of the normal form
        self.analyzer = Analyzer()
        # The source position of the code being built; bindings without a span get it.
        self.span: Span | None = None

    # ------------------------------------------------------------------ contexts

    @staticmethod
    def current() -> BlockBuilder | None:
        """The builder whose `function` scope is open, or None."""
        return BlockBuilder._stack[-1] if BlockBuilder._stack else None

    def function(
        self,
        name: str,
        params: rx.Var | list[rx.Var] | tuple[rx.Var, ...] | None = None,
        attrs: dict[str, Any] | None = None,
        private: bool = False,
        pure: bool = True,
    ) -> FunctionScope:
        """The scope of a new function. A public one (`private=False`) gets its `global_symbol`.

        `params` may instead be passed at the end, to `emit_func_output`.
        """
        variables = [params] if isinstance(params, rx.Var) else params
        for param in variables or ():
            if not isinstance(param, rx.Var):
                what = "each function parameter must be a relax.Var"
                raise TypeError(explain(what, got=f"{type(param).__name__}: {param!r}"))
        values = dict(attrs or {})
        if values.get("global_symbol", name) != name:
            what = "global_symbol is set by the builder from the function's name"
            got = f"{values['global_symbol']!r} for {name!r}"
            raise ValueError(explain(what, got=got, instead="leave it out, or say private=True"))
        if not private:
            values["global_symbol"] = name
        return FunctionScope(
            self, name, None if variables is None else list(variables), values, pure
        )

    def dataflow(self) -> DataflowScope:
        """The scope of a dataflow block in the function that is open."""
        return DataflowScope(self)

    def testing_scope(self, def_vars: Iterable[TirVar]) -> TestingScope:
        """A scope in which `def_vars` are defined, for experiments."""
        return TestingScope(self, def_vars)

    def _enter_function(self, scope: FunctionScope) -> None:
        current = BlockBuilder.current()
        if current is not None and current is not self:
            what = "another BlockBuilder has a function open"
            raise RuntimeError(explain(what, instead="finish it first, or use that builder"))
        BlockBuilder._stack.append(self)
        self._functions.append(scope)
        self.begin_scope(scope._params)
        self._begin_binding_block()

    def _exit_function(self, scope: FunctionScope, failed: bool) -> None:
        BlockBuilder._stack.pop()
        self._functions.pop()
        if failed:
            # After an error the builder stays usable.
            if not self._functions:
                self._frames.clear()
                self._scopes.clear()
            return
        if not scope._done:
            self._frames.pop()
            self.end_scope()
            what = f"function {scope._name} has no result"
            hint = "call bb.emit_func_output(value) inside `with bb.function(...)`"
            raise RuntimeError(explain(what, instead=hint))

    def _function(self) -> FunctionScope:
        if not self._functions:
            what = "no function is open in this builder"
            raise RuntimeError(
                explain(what, instead='use it inside `with bb.function("name", ...)`')
            )
        return self._functions[-1]

    def _close_into_function(self) -> None:
        """End the current block and add it to the function unless it is empty."""
        function = self._function()
        block, blocks = self._end_block(), function._blocks
        if block.bindings and blocks and type(blocks[-1]) is type(block) is rx.BindingBlock:
            blocks[-1] = rx.BindingBlock([*blocks[-1].bindings, *block.bindings])
        elif block.bindings:
            blocks.append(block)

    # ------------------------------------------------------------------ blocks and scopes

    def _begin(self, is_dataflow: bool) -> None:
        self._frames.append(_Frame(is_dataflow))

    def _begin_dataflow_block(self) -> None:
        self._begin(True)

    def _begin_binding_block(self) -> None:
        self._begin(False)

    def _end_block(self) -> rx.BindingBlock:
        frame = self._frames.pop()
        return (rx.DataflowBlock if frame.is_dataflow else rx.BindingBlock)(frame.bindings)

    def _frame(self) -> _Frame:
        if not self._frames:
            what = "no block is open in this builder"
            hint = "emit inside `with bb.function(...)`, `bb.dataflow()` or `bb.testing_scope(...)`"
            raise RuntimeError(explain(what, instead=hint))
        return self._frames[-1]

    def current_block_is_dataflow(self) -> bool:
        """Whether the block that is open is a dataflow block."""
        return self._frame().is_dataflow

    def begin_scope(self, params: Iterable[rx.Var] | None = None) -> None:
        """Open a scope in which only the parameters' symbolic variables are defined."""
        self._scopes.append(_Scope())
        for param in params or ():
            self._define(param)

    def end_scope(self) -> None:
        """Close the innermost scope."""
        self._scopes.pop()

    @contextmanager
    def scope(self, params: Iterable[rx.Var] | None = None) -> Iterator[None]:
        """`begin_scope` and `end_scope` as a context."""
        self.begin_scope(params)
        try:
            yield
        finally:
            self.end_scope()

    @contextmanager
    def inner_scope(self) -> Iterator[None]:
        """A scope (a branch) that inherits the enclosing definitions."""
        self._scopes.append(_Scope(self._scopes[-1] if self._scopes else None))
        try:
            yield
        finally:
            self.end_scope()

    @contextmanager
    def between_dataflow(self) -> Iterator[None]:
        """The open dataflow block ends, and another one begins afterwards."""
        self._close_into_function()
        self._begin_binding_block()
        yield
        self._close_into_function()
        self._begin_dataflow_block()

    def branch(self, build: Callable[[], Any]) -> rx.SeqExpr:
        """The bindings that `build` emits and its result, as a branch of an If."""
        function, depth = self._function(), len(self._frames)
        outer, function._blocks = function._blocks, []
        try:
            with self.inner_scope():
                self._begin_binding_block()
                result = build()
                result = result if isinstance(result, rx.Var) else self.emit(result)
                self._close_into_function()
                return self.normalize(rx.SeqExpr(function._blocks, result))
        finally:
            function._blocks = outer
            del self._frames[depth:]  # frames that an error left open

    def _define(self, var: rx.Var) -> None:
        if self._scopes and var.struct_info is not None:
            self._scopes[-1].infos.append(var.struct_info)

    def erase_in_scope(self, info: StructInfo) -> StructInfo:
        """A struct info reduced to the variables defined in the current scope."""
        symbols = tir_vars_in_struct_info(info)
        defined = self._scopes[-1].defined(symbols) if self._scopes else ()
        return erase_to_well_defined(info, {v: v for v in defined}, lambda var: var)

    def sized(self, info: StructInfo) -> StructInfo:
        """A tensor's struct info without the bounds of extents at 0 that the sizes in scope never
        reach: `T.max(n, 0)` is n where a tensor has n rows."""
        shape = info.shape if isinstance(info, TensorStructInfo) else None
        if not isinstance(shape, rx.ShapeExpr) or not any(type(d) is Max for d in shape.values):
            return info
        ana, symbols = Analyzer(), set(tir_vars_in_struct_info(info))
        scope = self._scopes[-1] if self._scopes else None
        while scope is not None:
            tensors = [i for i in scope.infos if isinstance(i, TensorStructInfo)]
            for size in (e for i in tensors for e in collect_non_negative_expressions(i)):
                # Computed extents may be below 0, as may the values of a shape (of paddings).
                if isinstance(size, TirVar) and size in symbols:
                    ana.assume_nonnegative(size)
            scope = scope.outer
        return info.replace(shape=rx.ShapeExpr([ana.simplify(d) for d in shape.values]))

    # ------------------------------------------------------------------ emitting

    def emit(self, expr: Any, name_hint: str = "") -> rx.Var:
        """Bind `expr` (an expression, a list or tuple of them) to a fresh variable.

        Its name is `name_hint`, else `lv` in a dataflow block and `gv` outside; a number is
        appended if that is taken.
        """
        frame = self._frame()
        return self.bind(self.normalize(expr), frame.is_dataflow, name_hint)

    def bind(self, value: rx.Expr, is_dataflow: bool | None = None, name_hint: str = "") -> rx.Var:
        """Bind an expression already in normal form; `emit` without normalization."""
        frame = self._frame()
        dataflow = frame.is_dataflow if is_dataflow is None else is_dataflow
        span = value.span or self.span
        budget.check(span)
        var = self._fresh_var(dataflow, name_hint, value.struct_info, span)
        frame.bindings.append(rx.VarBinding._make(var, value, span=span))
        self._values[var.vid] = value
        self._define(var)
        return var

    def _fresh_var(
        self, dataflow: bool, name_hint: str, info: StructInfo | None, span: Span | None
    ) -> rx.Var:
        name = self._names.fresh(name_hint or ("lv" if dataflow else "gv"))
        return (rx.DataflowVar if dataflow else rx.Var)._make(name, info, span=span)

    def call_te(self, func: Callable[..., Any], *args: Any, **kwargs: Any) -> rx.Call:
        """A `call_tir` of the PrimFunc generated from the tensor expression function `func`.

        Tensor arguments become te tensors, shapes and scalars become expressions. The keywords
        `primfunc_name_hint` and `primfunc_attrs` are taken here, others are passed to `func`.
        """
        name = kwargs.pop("primfunc_name_hint", None) or getattr(func, "__name__", "te_func")
        prim_func, call_args, out_sinfo, tir_vars = gen_call_tir_inputs(func, *args, **kwargs)
        gvar = self.add_func(prim_func, name)
        return call_tir(gvar, call_args, out_sinfo, tir_vars)

    def call_te_with_grad(
        self,
        func: Callable[..., Any],
        *args: Any,
        te_grad_name: str,
        te_grad_kwargs: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> rx.Call:
        """`call_te` whose gradient is the te function registered as `te_grad_name`."""
        name = kwargs.pop("primfunc_name_hint", None) or getattr(func, "__name__", "te_func")
        prim_func, call_args, out_sinfo, tir_vars = gen_call_tir_inputs(func, *args, **kwargs)
        gvar = self.add_func(prim_func, name)
        return call_tir_with_grad(
            gvar, call_args, out_sinfo, te_grad_name, te_grad_kwargs, tir_vars
        )

    def emit_te(self, func: Callable[..., Any], *args: rx.Expr | float, **kwargs: Any) -> rx.Var:
        """`emit(call_te(...))`; keyword `name_hint` names the variable."""
        name_hint = kwargs.pop("name_hint", "")
        if "te_grad_name" in kwargs:
            return self.emit(self.call_te_with_grad(func, *args, **kwargs), name_hint)
        return self.emit(self.call_te(func, *args, **kwargs), name_hint)

    @property
    def _normalizer(self) -> Normalizer:
        """Created on each access: in a field, it would keep the builder, and all its state, in a cycle."""
        return Normalizer(self)

    def match_cast(self, value: rx.Expr, struct_info: StructInfo, name_hint: str = "") -> rx.Var:
        """Bind `value`, checked at run time against `struct_info`; its new symbolic variables
        are defined from here on. Raises ValueError if the check can never succeed."""
        frame = self._frame()
        source = self._normalizer.argument(rx.as_expr(value))
        info = rx.as_struct_info(struct_info)
        if struct_info_base_check(source.struct_info, info) is BaseCheckResult.FAIL_L0:
            what = "match_cast can never succeed"
            got = f"a value of {source.struct_info} cast to {info}"
            raise ValueError(explain(what, got=got, instead="cast to a struct info that fits"))
        span = self.span
        var = self._fresh_var(frame.is_dataflow, name_hint, info, span)
        frame.bindings.append(rx.MatchCast._make(var, source, info, span=span))
        self._values[var.vid] = source
        self._define(var)
        return var

    def emit_output(self, output: rx.Expr, name_hint: str = "") -> rx.Var:
        """Bind an output of the dataflow block, visible after the block."""
        if not self._frame().is_dataflow:
            what = "emit_output is for dataflow blocks"
            hint = "use it inside `with bb.dataflow()`; outside, emit is enough"
            raise RuntimeError(explain(what, instead=hint))
        return self.bind(self.normalize(output), False, name_hint)

    def emit_normalized(self, binding: rx.Binding) -> None:
        """Add a binding that is already in normal form."""
        frame = self._frame()
        var = binding.var
        if type(var) is rx.DataflowVar and not frame.is_dataflow:
            what = "a DataflowVar can be bound in a dataflow block only"
            raise ValueError(explain(what, got=var.name_hint, instead="use a relax.Var"))
        frame.bindings.append(binding)
        self._values[var.vid] = binding.value
        self._define(var)

    def emit_func_output(
        self, output: rx.Expr, params: rx.Var | list[rx.Var] | tuple[rx.Var, ...] | None = None
    ) -> GlobalVar:
        """Finish the open function with its result, and add it to the module."""
        scope = self._function()
        if scope._done:
            what = f"function {scope._name} has its result already"
            raise RuntimeError(explain(what, instead="call emit_func_output once, at its end"))
        if params is not None:
            if scope._params is not None:
                what = f"the parameters of function {scope._name} were given twice"
                hint = "give them to bb.function or to bb.emit_func_output, not to both"
                raise RuntimeError(explain(what, instead=hint))
            scope._params = [params] if isinstance(params, rx.Var) else list(params)
            for param in scope._params:
                self._define(param)
        if scope._params is None:
            what = f"function {scope._name} was given no parameters"
            hint = f'bb.function("{scope._name}", []) for one that takes none'
            raise RuntimeError(explain(what, instead=hint))
        scope._done = True
        result = self._normalizer.argument(rx.as_expr(output))
        block = self._end_block()
        if block.bindings:
            scope._blocks.append(block)
        body = self.normalize(rx.SeqExpr(scope._blocks, result))
        self.end_scope()
        func = rx.Function(scope._params, body, None, scope._is_pure, scope._attrs, self.span)
        return self.add_func(func, scope._name)

    def normalize(self, expr: rx.Expr) -> Any:
        """`expr` in normal form with its struct info; nested calls are bound in the open block."""
        return self._normalizer.visit(rx.as_expr(expr))

    def normalize_argument(self, expr: rx.Expr) -> Any:
        """`expr` as an argument: a nested call is bound to a variable first."""
        return self._normalizer.argument(rx.as_expr(expr))

    def lookup_binding(self, var: rx.Var) -> Any:
        """The value bound to `var`, or None."""
        return self._values.get(var.vid)

    def get_unique_name(self, name_prefix: str) -> str:
        """A name that this builder has not used yet."""
        return self._names.fresh(name_prefix)

    # ------------------------------------------------------------------ the module

    def get(self) -> IRModule:
        """The current module; later additions do not change it."""
        self._owned = False
        return self._mod

    def finalize(self) -> IRModule:
        """The module, with every public function renamed to its `global_symbol`."""
        mod = self.get()
        names: dict[str, str] = {}
        for gvar, func in mod.functions.items():
            symbol = getattr(func, "attrs", {}).get("global_symbol")
            if symbol is not None and symbol != gvar.name_hint:
                names[gvar.name_hint] = symbol
        if not names:
            return mod
        # A private function whose name a public one needs is renamed.
        for symbol in list(names.values()):
            if symbol in mod and symbol not in names:
                used = {g.name_hint for g in mod.functions} - names.keys() | {*names.values()}
                name = self._names.fresh(symbol)
                while name in used:
                    name = self._names.fresh(symbol)
                names[symbol] = name
        renamed = mod.replace_global_vars(names)
        graphs = {g: f for g, f in renamed.functions.items() if isinstance(f, rx.Function)}
        normalize = BlockBuilder(renamed).normalize  # the calls of the renamed functions
        return renamed.with_functions({g: normalize(f) for g, f in graphs.items()})

    def _writable(self) -> IRModule:
        if not self._owned:
            self._mod = self._mod.clone()
            self._owned = True
        return self._mod

    def add_func(self, func: BaseFunc, func_name: str) -> GlobalVar:
        """Add a function as `func_name`, with a number appended if that is taken. If the module has
        a structurally equal function, that one is returned instead."""
        table = self._dedup_table()
        key = fingerprint(func)
        candidates = sorted(table.get(key, ()), key=lambda g: g.name_hint)
        of = self._mod.functions
        for candidate in [g for g in candidates if of[g] is func] or candidates:
            if structural_equal(of[candidate], func):
                return candidate
        name = self._names.fresh(func_name)
        while name in self._mod:
            name = self._names.fresh(func_name)
        gvar = GlobalVar(name)
        gvar.struct_info = function_struct_info(func)
        self._writable().update_func(gvar, func)
        table.setdefault(key, []).append(gvar)
        return gvar

    def _dedup_table(self) -> dict[Any, list[GlobalVar]]:
        if self._by_hash is None:
            self._by_hash = {}
            for gvar, func in self._mod.functions.items():
                self._by_hash.setdefault(fingerprint(func), []).append(gvar)
        return self._by_hash

    def update_func(self, gv: GlobalVar, updated_func: BaseFunc) -> None:
        """Replace the function of `gv`, or add it."""
        if self._by_hash is not None:
            for gvars in self._by_hash.values():
                if gv in gvars:
                    gvars.remove(gv)
            self._by_hash.setdefault(fingerprint(updated_func), []).append(gv)
        info = function_struct_info(updated_func)
        if not structural_equal(gv.struct_info, info):  # other modules have this variable too
            gv.struct_info = info
        self._writable().update_func(gv, updated_func)

    def _struct_info_of_global(self, var: GlobalVar) -> StructInfo:
        func = self._mod.get(var)
        return ObjectStructInfo() if func is None else function_struct_info(func)
