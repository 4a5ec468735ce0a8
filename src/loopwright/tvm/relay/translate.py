"""The one way down: a module of Relay as a module of Relax.

A function for another compiler (`Compiler="x"`) becomes a region of the back end x, as `relax.byoc` makes
them: see `external`.

Each call becomes the body of its operator's row. A call's replacement may be chosen: an
operator strategy's kernel, a function given at the place of the translation. See `Choice`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ...base.errors import LoopwrightError, explain
from ...base.span import Span
from ...ir.expr import BaseExpr, GlobalVar
from ...ir.module import IRModule
from ...ir.op import Op
from ...relax import BlockBuilder
from ...relax import expr as rx
from ...relax.transform.graph.dead_code import DeadCodeElimination
from .expr import Call, Constant, Expr, Function, If, Let, Tuple, TupleGetItem, Var
from .external import is_composite, is_external, lifted, relax_attrs
from .infer import infer_function
from .operators.core import row_of
from .relax_types import Extents
from .types import FuncType, IncompleteType
from .walk import post_order

# (call, its arguments in Relax, the builder) -> the value in Relax, None to leave it to the row.
Choice = Callable[[Call, list[Any], BlockBuilder], Any]


class CallSpan(Span):
    """Where a Relax binding came from: a call of an operator of Relay, at its position. Each call
    has its own, so that a binding built from two calls of one operator names both."""

    __slots__ = ("call",)

    def __init__(self, call: Call) -> None:
        self.call, span = call, call.span
        if span is None:
            super().__init__(f"relay:{call.op.name}")
        else:
            bounds = (span.line, span.end_line, span.column, span.end_column)
            super().__init__(str(span) if span.line == 0 else span.source, *bounds)

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return id(self)


@dataclass(frozen=True)
class Closure:
    """A function as a value, and the scopes that its free variables are of."""

    func: Function
    scopes: list[dict[int, Any]]


class Translator:
    """Builds the Relax functions of a module."""

    def __init__(
        self, mod: IRModule, choice: Choice | None = None, bb: BlockBuilder | None = None
    ) -> None:
        self.mod = mod
        self.choice = choice
        self.bb = BlockBuilder() if bb is None else bb
        self.regions: dict[str, GlobalVar] = {}  # the external functions
        self.composites: dict[int, rx.Function] = {}  # of an external function, by identity
        self.extents = Extents()
        self.scopes: list[dict[int, Any]] = []
        self.keep: list[Any] = []
        self.dataflow = False

    def module(self) -> IRModule:
        """All functions of Relay; what else the module has is kept."""
        others = {}
        for gvar, func in self.mod.functions.items():
            if is_external(func):  # known before they are called: they are pure
                work = Translator(self.mod, bb=self.bb)
                self.regions[gvar.name_hint] = work.function(gvar.name_hint, func)
        for gvar, func in self.mod.functions.items():
            if gvar.name_hint in self.regions:
                continue
            if isinstance(func, Function):
                self.function(gvar.name_hint, func)
            else:
                others[gvar] = func
        return self.bb.finalize().with_functions(others).with_attrs(dict(self.mod.attrs.items()))

    def function(self, name: str, func: Function) -> GlobalVar:
        """A function whose types are inferred."""
        if not isinstance(func.checked_type_, FuncType):
            func = infer_function(func, self.mod)
        nodes = list(post_order(func))
        self.extents = Extents()
        params = [self._param(p) for p in func.params]
        if is_external(func):
            self.composites = {id(n): self._composite(n) for n in nodes if is_composite(n)}
        self.dataflow = not (self.composites or any(map(self._has_effects, nodes)))
        self.keep.append(nodes)
        self.scopes = [{id(p): new for p, new in zip(func.params, params, strict=True)}]
        with self.bb.function(name, params, attrs=relax_attrs(func), private=is_composite(func)):
            if self.dataflow:
                with self.bb.dataflow():
                    out = self.bb.emit_output(self.value(func.body))
            else:
                out = self.bb.emit(self.value(func.body))
            self.bb.span = None
            return self.bb.emit_func_output(out)

    def _composite(self, func: Function) -> rx.Function:
        """A match in a region, as a function of its own."""
        work = Translator(self.mod)
        gvar = work.function("composite", func)
        return work.bb.get()[gvar]

    def _has_effects(self, node: BaseExpr) -> bool:
        """Whether a node may not be part of a dataflow block."""
        if isinstance(node, GlobalVar):
            return not (node in self.mod and is_external(self.mod[node]))
        return isinstance(node, If)

    def _param(self, param: Var) -> rx.Var:
        if isinstance(param.checked_type, IncompleteType):
            what = "the type of a parameter is not known"
            hint = (
                "give it one, or set the attributes that imply it (units, channels and kernel_size)"
            )
            got = f"%{param.name_hint}"
            raise LoopwrightError(explain(what, got=got, instead=hint, span=param.span))
        return rx.Var(param.name_hint, self.extents.info(param.checked_type))

    # ------------------------------------------------------------------ values

    def met(self, node: Expr) -> Any:
        """The value of a node that was met, None before."""
        return next((s[id(node)] for s in reversed(self.scopes) if id(node) in s), None)

    def value(self, root: Expr) -> Any:
        """The value of an expression, whose calls are emitted; the graph is walked without
        recursion, except for branches."""
        if isinstance(root, GlobalVar):
            return root
        seen = {key for scope in self.scopes for key in scope}
        for node in post_order(root, self._enter, seen):
            if not isinstance(node, (Op, GlobalVar)):
                self.scopes[-1][id(node)] = self._visit(node)
        return self.met(root)

    def _enter(self, node: BaseExpr) -> bool:
        return not isinstance(node, (If, Function, Let))

    def _visit(self, node: Any) -> Any:
        of_operator = isinstance(node, Call) and isinstance(node.op, Op)
        self.bb.span = CallSpan(node) if of_operator else node.span
        if isinstance(node, Call):
            return self._call(node)
        if isinstance(node, Constant):
            return rx.Constant(node.data)
        if isinstance(node, Tuple):
            return rx.Tuple([self.met(f) for f in node.fields])
        if isinstance(node, TupleGetItem):
            whole = self.met(node.tuple_value)
            if isinstance(whole, rx.Tuple):
                return whole.fields[node.index]
            return self.bb.emit(rx.TupleGetItem(whole, node.index))
        if isinstance(node, Let):
            return self._lets(node)
        if isinstance(node, If):
            return self._if(node)
        if isinstance(node, Function):
            return Closure(node, list(self.scopes))  # called where it is applied
        if isinstance(node, Var):
            what = "a variable is free: no parameter and no let binds it"
            hint = "relay.Function(relay.analysis.free_vars(body), body)"
            raise LoopwrightError(explain(what, got=f"%{node.name_hint}", instead=hint))
        what = f"a {type(node).__name__} has no meaning in Relax"
        got = getattr(node, "name_hint", str(node))
        raise LoopwrightError(explain(what, got=got, span=node.span))

    def _lets(self, node: Let) -> Any:
        """A chain of `let`s, one after another."""
        while isinstance(node, Let) and self.met(node) is None:
            self.scopes[-1][id(node.var)] = self.value(node.value)
            node = node.body
        return self.value(node)

    def _if(self, node: If) -> Any:
        cond = self.value(node.cond)

        def branch(body: Expr) -> Any:
            def build() -> Any:
                self.scopes.append({})
                result = self.value(body)
                self.scopes.pop()
                return result

            return self.bb.branch(build)

        then, other = branch(node.true_branch), branch(node.false_branch)
        return self.bb.emit(rx.If(cond, then, other))

    # ------------------------------------------------------------------ calls

    def _call(self, call: Call) -> Any:
        args = [self.met(a) if not isinstance(a, GlobalVar) else a for a in call.args]
        if isinstance(call.op, GlobalVar):
            return self.bb.emit(self._global_call(call, args))
        if isinstance(call.op, Op):
            return self._emit(self._operator(call, args))
        callee = self.met(call.op)
        if isinstance(callee, Closure) and id(callee.func) in self.composites:
            local = self.bb.emit(self.composites[id(callee.func)])
            return self.bb.emit(rx.Call(local, args))
        if isinstance(callee, Closure):
            return self._applied(callee, args)
        what = "a function as a value has no meaning in Relax here"
        hint = "call it directly, or write the program in Relax"
        raise LoopwrightError(explain(what, got=str(call.op), instead=hint, span=call.span))

    def _global_call(self, call: Call, args: list[Any]) -> Any:
        result = rx.Call(self.regions.get(call.op.name_hint, call.op), args)
        if isinstance(self.mod[call.op], Function):
            type_ = call.checked_type_ or infer_function(call, self.mod).checked_type
            result.struct_info = self.extents.info(type_)
        return result

    def _emit(self, value: rx.Expr) -> Any:
        """Bind a value; a tuple's fields each."""
        if isinstance(value, rx.Tuple):
            return rx.Tuple([self._emit(f) for f in value.fields])
        leaf = isinstance(value, (rx.Var, rx.Constant))
        return value if leaf else self.bb.emit(value)

    def _operator(self, call: Call, args: list[Any]) -> Any:
        chosen = self.choice(call, args, self.bb) if self.choice is not None else None
        if chosen is not None:
            return chosen
        row = row_of(call.op)
        if row is None:
            what = f"the operator {call.op.name} has no meaning in Relax"
            hint = "give it one: relay.op.register_compute, or a strategy"
            raise LoopwrightError(explain(what, got=call.op.name, instead=hint, span=call.span))
        try:
            return row.apply(args, row.values_of(call), self.bb)
        except (ValueError, TypeError) as error:
            raise LoopwrightError(explain(f"{row.name}: {error}", span=call.span)) from error

    def _applied(self, closure: Closure, args: list[Any]) -> Any:
        """The body of a function that is called where it is defined, with its parameters bound."""
        func = closure.func
        around, pairs = self.scopes, zip(func.params, args, strict=True)
        self.scopes = [*closure.scopes, {id(p): a for p, a in pairs}]
        result = self.value(func.body)
        self.scopes = around
        return result


def to_relax(mod: IRModule, choice: Choice | None = None) -> IRModule:
    """A module of Relay as one of Relax; types are inferred where they are not known."""
    return DeadCodeElimination()(Translator(lifted(mod), choice).module())
