"""The variables and functions that a graph uses and defines, purity, liveness, recursion."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from ...base.errors import explain
from ...ir.expr import Attrs, BaseExpr, GlobalVar
from ...ir.functor import Visitor
from ...ir.module import IRModule, called_global_vars
from ...ir.op import Op
from ...ir.prim_expr import PrimExpr
from ...ir.prim_expr import Var as TirVar
from ...ir.variables import vars_in
from ...tir.function import PrimFunc
from .. import expr as rx
from ..relations import definable_tir_vars_in_struct_info, tir_vars_in_struct_info
from ..struct_info import FuncStructInfo, StructInfo, TensorStructInfo

Rewritten = TypeVar("Rewritten", rx.Function, rx.SeqExpr, rx.DataflowBlock)
Block = TypeVar("Block", bound=rx.BindingBlock)


class _Uses(Visitor):
    """Collects used and bound variables, in order."""

    def __init__(self) -> None:
        self.used: dict[rx.Var, None] = {}
        self.bound: dict[rx.Var, None] = {}

    def visit_Var(self, var: TirVar | rx.Var) -> None:
        if isinstance(var, rx.Var):
            self.used[var] = None

    def visit_Function(self, func: rx.Function) -> None:
        self.bound.update(dict.fromkeys(func.params))
        self.visit(func.body)

    def visit_VarBinding(self, binding: rx.VarBinding) -> None:
        self.visit(binding.value)
        self.bound[binding.var] = None

    def visit_MatchCast(self, binding: rx.MatchCast) -> None:
        self.visit(binding.value)
        self.bound[binding.var] = None

    def visit_StructInfo(self, info: StructInfo) -> None:
        """Shape variables in a struct info are not uses of graph values."""

    def visit_PrimExpr(self, expr: PrimExpr) -> None:
        """No graph variables inside."""

    def visit_PrimFunc(self, func: PrimFunc) -> None:
        """No graph variables inside."""

    def visit_Constant(self, const: rx.Constant) -> None:
        """A leaf."""


def _uses(expr: rx.Expr | rx.Binding) -> _Uses:
    uses = _Uses()
    uses.visit(expr)
    return uses


def used_vars(expr: rx.Expr | rx.Binding) -> list[rx.Var]:
    """The graph variables that occur in an expression or binding (not as definitions), each once."""
    return list(_uses(expr).used)


def bound_vars(expr: rx.Expr) -> list[rx.Var]:
    """The graph variables that an expression defines: parameters and bindings, in order."""
    return list(_uses(expr).bound)


def free_vars(expr: rx.Expr) -> list[rx.Var]:
    """The graph variables used in an expression that it does not define, in order of use."""
    uses = _uses(expr)
    return [v for v in uses.used if v not in uses.bound]


def all_vars(expr: rx.Expr) -> list[rx.Var]:
    """All graph variables of an expression, used or defined."""
    uses = _uses(expr)
    return list({**uses.bound, **uses.used})


def all_global_vars(expr: rx.Expr) -> list[GlobalVar]:
    """The global variables in an expression, each once, in order."""
    gvars: dict[GlobalVar, None] = {}

    class Collect(Visitor):
        def visit_GlobalVar(self, var: GlobalVar) -> None:
            gvars[var] = None

        def visit_PrimExpr(self, expr: PrimExpr) -> None:
            """No functions inside."""

    Collect().visit(expr)
    return list(gvars)


# ---------------------------------------------------------------- symbolic variables


class _Symbols(Visitor):
    def __init__(self) -> None:
        self.used: dict[TirVar, None] = {}
        self.defined: dict[TirVar, None] = {}

    def define(self, info: StructInfo | None) -> None:
        if info is not None:
            self.defined.update(dict.fromkeys(definable_tir_vars_in_struct_info(info)))
            self.use(info)

    def use(self, info: StructInfo | None) -> None:
        if info is not None:
            self.used.update(dict.fromkeys(tir_vars_in_struct_info(info)))

    def visit_Function(self, func: rx.Function) -> None:
        for param in func.params:
            self.define(param.struct_info)
        self.use(func.ret_struct_info)
        self.visit(func.body)

    def visit_VarBinding(self, binding: rx.VarBinding) -> None:
        self.visit(binding.value)
        self.use(binding.var.struct_info)

    def visit_MatchCast(self, binding: rx.MatchCast) -> None:
        self.visit(binding.value)
        self.define(binding.struct_info)

    def visit_StructInfo(self, info: StructInfo) -> None:
        self.use(info)

    def visit_Var(self, var: TirVar | rx.Var) -> None:
        if isinstance(var, TirVar):
            self.used[var] = None

    def visit_PrimExpr(self, expr: PrimExpr) -> None:
        self.used.update(dict.fromkeys(vars_in(expr)))

    def visit_PrimFunc(self, func: PrimFunc) -> None:
        """A PrimFunc has its own variables."""


def _symbols(func: rx.Expr | rx.Binding | StructInfo) -> _Symbols:
    symbols = _Symbols()
    symbols.visit(func)
    return symbols


def defined_symbolic_vars(func: rx.Function) -> list[TirVar]:
    """The symbolic variables that a function's parameters and match_casts define."""
    return list(_symbols(func).defined)


def free_symbolic_vars(func: rx.Expr | rx.Binding | StructInfo) -> list[TirVar]:
    """The symbolic variables used but not defined in a function, a binding or a struct info."""
    symbols = _symbols(func)
    return [v for v in symbols.used if v not in symbols.defined]


# ---------------------------------------------------------------- bindings


def bindings_of(func: rx.BindingBlock | rx.Expr) -> Iterator[rx.Binding]:
    """All bindings of a function, block or sequence in order, including those of branches and local
    functions."""
    if isinstance(func, rx.Function):
        yield from bindings_of(func.body)
    elif isinstance(func, rx.SeqExpr):
        for block in func.blocks:
            yield from bindings_of(block)
    elif isinstance(func, rx.BindingBlock):
        for binding in func.bindings:
            yield binding
            value = binding.value
            if isinstance(value, rx.If):
                yield from bindings_of(value.true_branch)
                yield from bindings_of(value.false_branch)
            elif isinstance(value, (rx.Function, rx.SeqExpr)):
                yield from bindings_of(value)


def get_var2val(func: rx.Function) -> dict[rx.Var, Any]:
    """The value of each variable that a function binds."""
    return {b.var: b.value for b in bindings_of(func)}


def name_to_binding(func: rx.Function) -> dict[str, list[rx.Binding]]:
    """The bindings of a function by the names of their variables."""
    bindings: dict[str, list[rx.Binding]] = {}
    for binding in bindings_of(func):
        bindings.setdefault(binding.var.name_hint, []).append(binding)
    return bindings


def udchain(dfb: rx.DataflowBlock | rx.Function) -> dict[rx.Var, list[rx.Var]]:
    """The users of each variable: the variables whose values use it, in order (a use-def chain)."""
    chains: dict[rx.Var, dict[rx.Var, None]] = {}
    for binding in bindings_of(dfb):
        var, value = binding.var, binding.value
        chains.setdefault(var, {})
        for used in used_vars(value):
            chains.setdefault(used, {})[var] = None
    return {var: list(users) for var, users in chains.items()}


def post_order_visit(expr: rx.Expr, fvisit: Callable[[Any], Any]) -> None:
    """Call `fvisit` on every graph expression inside `expr` in post-order, once per object."""
    _PostOrder(fvisit).visit(expr)


class _PostOrder(Visitor):
    def __init__(self, fvisit: Callable[[Any], Any]) -> None:
        self.fvisit = fvisit
        self.seen: dict[int, Any] = {}

    def visit_BaseExpr(self, expr: BaseExpr) -> None:
        if id(expr) in self.seen:
            return
        self.seen[id(expr)] = expr
        self.visit_default(expr)
        self.fvisit(expr)

    def visit_Var(self, var: TirVar | rx.Var) -> None:
        if isinstance(var, rx.Var) and id(var) not in self.seen:
            self.seen[id(var)] = var
            self.fvisit(var)

    def visit_VarBinding(self, binding: rx.VarBinding) -> None:
        self.visit(binding.value)
        self.visit(binding.var)

    def visit_StructInfo(self, info: StructInfo) -> None:
        """Not part of the graph."""

    def visit_PrimExpr(self, expr: PrimExpr) -> None:
        """Not a graph expression."""

    def visit_Attrs(self, attrs: Attrs) -> None:
        """Not part of the graph."""


def computable_at_compile_time(func: rx.Function) -> list[rx.Var]:
    """The variables that depend on weights only: on the parameters after the first `num_input` (a
    function attribute; without it all parameters are inputs) and on constants."""
    inputs = func.attrs.get("num_input")
    count = len(func.params) if inputs is None else int(inputs)
    computable = dict.fromkeys(func.params[count:])
    symbols: set[TirVar] = set()
    defined: set[TirVar] = set()
    for n, param in enumerate(func.params):
        new = definable_tir_vars_in_struct_info(param.struct_info)
        defined.update(new)
        symbols.update(new if n >= count else ())
    for binding in bindings_of(func):
        var, value = binding.var, binding.value
        matched: set[TirVar] = set()  # by a match_cast
        if isinstance(binding, rx.MatchCast):
            matched.update(definable_tir_vars_in_struct_info(binding.struct_info))
            matched -= defined
            defined |= matched
        needed = {*tir_vars_in_struct_info(var.struct_info)} - matched
        if all(v in computable for v in used_vars(value)) and symbols.issuperset(needed):
            if not contains_impure_call(value):
                computable[var] = None
                symbols.update(matched)
    return list(computable)


# ---------------------------------------------------------------- purity, liveness, recursion

CALL_TIR = ("relax.call_tir", "relax.call_tir_inplace", "relax.call_tir_with_grad")
_INPLACE = ("relax.call_tir_inplace", "relax.call_inplace_packed")


def is_impure_call(call: rx.Call) -> bool:
    """Whether a call may have side effects."""
    op = call.op
    if isinstance(op, Op):
        return not op.get_attr("FPurity", False)
    info = getattr(op, "struct_info", None)
    return not (isinstance(info, FuncStructInfo) and info.purity)


def overwritten(call: rx.Call) -> list[Any]:
    """The arguments that an in-place call overwrites with its results."""
    if not isinstance(call.op, Op) or call.op.name not in _INPLACE:
        return []
    args = call.args[1:]
    if call.op.name == "relax.call_tir_inplace":
        args = args[0].fields if isinstance(args[0], rx.Tuple) else args[:1]
    indices = call.attrs.inplace_indices
    return [args[min(i, len(args) - 1)] for i in indices if i >= 0]


class _Bindings(Visitor):
    def __init__(self) -> None:
        self.bindings: list[rx.Binding] = []

    def visit_Binding(self, binding: rx.Binding) -> None:
        if not isinstance(binding.value, rx.Call):  # arguments of calls contain no bindings
            self.visit(binding.value)
        self.bindings.append(binding)


def overwritten_vars(func: rx.Function) -> set[rx.Var]:
    """The variables whose memory in-place calls overwrite. A value that is not computed by a kernel
    (a reshape, a tuple) may share the memory of its arguments, which are then overwritten, too."""
    walk = _Bindings()
    walk.visit(func)
    written: set[rx.Var] = set()
    for binding in reversed(walk.bindings):
        value = binding.value
        if isinstance(value, rx.Call):
            written.update(v for arg in overwritten(value) for v in _uses(arg).used)
        kernel = isinstance(value, rx.Call) and getattr(value.op, "name", "") in CALL_TIR
        if binding.var in written and not kernel:
            written.update(_uses(value).used)
    return written


def find_impure_call(
    expr: BaseExpr, own_name: GlobalVar | rx.Var | str | None = None
) -> rx.Call | None:
    """The first call with side effects, or None; calls of `own_name` (the function itself, if it
    is recursive) do not count, nor do calls inside local functions."""
    name = getattr(own_name, "name_hint", own_name)

    def search(node: BaseExpr) -> rx.Call | None:
        if isinstance(node, rx.Function):
            return search(node.body)
        if isinstance(node, rx.SeqExpr):
            for block in node.blocks:
                for binding in block.bindings:
                    value = binding.value
                    impure = None if isinstance(value, rx.Function) else search(value)
                    if impure is not None:
                        return impure
            return search(node.body)
        if isinstance(node, rx.If):
            parts = (node.cond, node.true_branch, node.false_branch)
            return next((f for f in map(search, parts) if f is not None), None)
        if isinstance(node, (rx.Tuple, rx.TupleGetItem)):
            parts = node.fields if isinstance(node, rx.Tuple) else (node.tuple_value,)
            return next((f for f in map(search, parts) if f is not None), None)
        if isinstance(node, rx.Call):
            inner = next((f for f in map(search, node.args) if f is not None), None)
            recursive = name is not None and getattr(node.op, "name_hint", None) == name
            return inner or (node if is_impure_call(node) and not recursive else None)
        return None

    return search(expr)


def contains_impure_call(expr: BaseExpr, own_name: GlobalVar | rx.Var | str | None = None) -> bool:
    """Whether a function or expression makes a call that may have side effects, except of `own_name`
    (see `find_impure_call`)."""
    return find_impure_call(expr, own_name) is not None


def detect_recursion(mod: IRModule) -> list[list[GlobalVar]]:
    """The groups of relax functions that call themselves or each other, sorted by name."""
    calls: dict[GlobalVar, list[GlobalVar]] = {}
    graphs = {g: f for g, f in mod.functions.items() if isinstance(f, rx.Function)}
    for gvar, func in graphs.items():
        calls[gvar] = sorted(
            (g for g in called_global_vars(func) if g in graphs), key=lambda g: g.name_hint
        )
    groups: list[list[GlobalVar]] = []
    for group in _components(calls):
        if len(group) > 1 or group[0] in calls[group[0]]:
            groups.append(sorted(group, key=lambda g: g.name_hint))
    return sorted(groups, key=lambda g: g[0].name_hint)


def _components(graph: dict[Any, list[Any]]) -> list[list[Any]]:
    """Strongly connected components (Tarjan's algorithm, without recursion)."""
    index: dict[Any, int] = {}
    low: dict[Any, int] = {}
    stack: list[Any] = []
    on_stack: set[Any] = set()
    components: list[list[Any]] = []
    for root in graph:
        if root in index:
            continue
        index[root] = low[root] = len(index)
        stack.append(root)
        on_stack.add(root)
        work = [(root, iter(graph[root]))]
        while work:
            node, rest = work[-1]
            for succ in rest:
                if succ not in index:
                    index[succ] = low[succ] = len(index)
                    stack.append(succ)
                    on_stack.add(succ)
                    work.append((succ, iter(graph[succ])))
                    break
                if succ in on_stack:
                    low[node] = min(low[node], index[succ])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    at = stack.index(node)
                    components.append(stack[at:])
                    on_stack.difference_update(stack[at:])
                    del stack[at:]
    return components


def remove_all_unused(func: Rewritten) -> Rewritten:
    """The function, sequence or dataflow block without its unused bindings; those whose value has
    side effects and match_casts, which are checks, stay. Raises TypeError for another object."""
    if not isinstance(func, (rx.Function, rx.SeqExpr, rx.DataflowBlock)):
        what = "remove_all_unused takes a function, a sequence or a dataflow block"
        raise TypeError(explain(what, got=type(func).__name__))
    if isinstance(func, rx.SeqExpr):
        return _Sweeper().seq(func, set())
    if isinstance(func, rx.DataflowBlock):
        outputs = {b.var for b in func.bindings if type(b.var) is rx.Var}
        return _Sweeper().block(func, outputs, in_dataflow=True)
    body = _Sweeper().seq(func.body, set())
    return func if body is func.body else func.replace(body=body)


class _Sweeper:
    """Visits the bindings from the last to the first and retains those whose variables are live."""

    def seq(self, seq: rx.SeqExpr, live: set[rx.Var]) -> rx.SeqExpr:
        live = live | set(used_vars(seq.body)) | _shape_uses(seq.body)
        blocks = []
        for block in reversed(seq.blocks):
            changed = self.block(block, live, isinstance(block, rx.DataflowBlock))
            if changed.bindings:
                blocks.append(changed)
        blocks.reverse()
        same = len(blocks) == len(seq.blocks)
        if same and all(a is b for a, b in zip(blocks, seq.blocks, strict=True)):
            return seq
        new = rx.SeqExpr._make(tuple(blocks), seq.body, span=seq.span)
        new._update_struct_info(seq.struct_info)
        return new

    def block(self, block: Block, live: set[rx.Var], in_dataflow: bool) -> Block:
        remaining: list[rx.Binding] = []
        for binding in reversed(block.bindings):
            new = self.binding(binding, live)
            if new is not None:
                remaining.append(new)
        remaining.reverse()
        same = len(remaining) == len(block.bindings)
        if same and all(a is b for a, b in zip(remaining, block.bindings, strict=True)):
            return block
        return type(block)(remaining, span=block.span)

    def binding(self, binding: rx.Binding, live: set[rx.Var]) -> rx.Binding | None:
        var, value = binding.var, binding.value
        if var not in live and _removable(binding):
            return None
        new = value
        if type(value) is rx.If:
            true, false = self.seq(value.true_branch, set()), self.seq(value.false_branch, set())
            new = value.with_branches(true, false)
        elif type(value) is rx.Function:
            new = remove_all_unused(value)
        live.update(used_vars(new))
        live.update(_shape_uses(var))
        return binding if new is value else binding.replace(value=new)


def _shape_uses(expr: rx.Expr) -> set[rx.Var]:
    """Graph variables that represent a tensor's shape."""
    info = expr.struct_info
    is_var = isinstance(info, TensorStructInfo) and isinstance(info.shape, rx.Var)
    return {info.shape} if is_var else set()


def _removable(binding: rx.Binding) -> bool:
    # A match_cast is a run-time check and may define symbolic variables.
    if isinstance(binding, rx.MatchCast):
        return False
    value = binding.value
    return isinstance(value, rx.Expr) and not contains_impure_call(value)
