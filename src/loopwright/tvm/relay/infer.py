"""Type inference: what each expression's value is, by unification and by the operators' rows.

A call of an operator whose arguments' types are known has the type that Relax infers of its body. Where
an argument's type is open (a weight without a shape), the row may infer it from the others; else
the call waits until the rest is known. Reference for unification: Robinson, "A Machine-Oriented
Logic Based on the Resolution Principle", 1965.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any as AnyValue

from ...base.errors import DiagnosticError, LoopwrightError, explain
from ...ir.expr import GlobalVar
from ...ir.module import IRModule
from ...ir.op import Op
from ...ir.prim_expr import IntImm
from ...relax import BlockBuilder
from ...relax import Var as RelaxVar
from ...runtime import register_func
from .expr import Call, Constant, Expr, Function, If, Let, Tuple, TupleGetItem, Var
from .operators.core import ROWS, Row, row_of
from .relax_types import Extents
from .types import Any, FuncType, IncompleteType, TensorType, TupleType, Type, TypeVar, same_type
from .walk import post_order, rebuilt


class Mismatch(Exception):
    """Two types cannot be one."""


class Unifier:
    """The facts inferred about the types that are open."""

    def __init__(self) -> None:
        self._bound: dict[int, Type] = {}
        self._keep: list[Type] = []

    def shallow(self, type_: AnyValue) -> AnyValue:
        """A type as far as it is known; its parts may be open."""
        while isinstance(type_, IncompleteType) and id(type_) in self._bound:
            type_ = self._bound[id(type_)]
        return type_

    def full(self, type_: AnyValue) -> AnyValue:
        """A type with all that is known of its parts."""
        type_ = self.shallow(type_)
        if isinstance(type_, TupleType):
            return type_.replace(fields=_mapped(self.full, type_.fields))
        if isinstance(type_, FuncType):
            args = _mapped(self.full, type_.arg_types)
            return type_.replace(arg_types=args, ret_type=self.full(type_.ret_type))
        return type_

    def is_open(self, type_: AnyValue) -> bool:
        """Whether something of a type is not known."""
        type_ = self.shallow(type_)
        if isinstance(type_, TupleType):
            return any(self.is_open(f) for f in type_.fields)
        if isinstance(type_, FuncType):
            return any(self.is_open(t) for t in (*type_.arg_types, type_.ret_type))
        return isinstance(type_, IncompleteType)

    def unify(self, a: AnyValue, b: AnyValue) -> Type:
        """The one type that both are. Raises Mismatch."""
        a, b = self.shallow(a), self.shallow(b)
        if a is b:
            return a
        if isinstance(a, IncompleteType) or isinstance(b, IncompleteType):
            open_, other = (a, b) if isinstance(a, IncompleteType) else (b, a)
            if self._occurs(open_, other):
                raise Mismatch("a type would contain itself")
            self._bound[id(open_)] = other
            self._keep.append(open_)
            return other
        if isinstance(a, TensorType) and isinstance(b, TensorType):
            return self._tensors(a, b)
        if isinstance(a, TupleType) and isinstance(b, TupleType) and len(a.fields) == len(b.fields):
            pairs = zip(a.fields, b.fields, strict=True)
            return TupleType([self.unify(x, y) for x, y in pairs])
        if isinstance(a, FuncType) and isinstance(b, FuncType):
            a, b = self.instance(a)[0], self.instance(b)[0]
            if len(a.arg_types) == len(b.arg_types):
                pairs = zip(a.arg_types, b.arg_types, strict=True)
                args = [self.unify(x, y) for x, y in pairs]
                return FuncType(args, self.unify(a.ret_type, b.ret_type))
        if same_type(a, b):
            return a
        raise Mismatch(f"{a} and {b} are not the same")

    def _tensors(self, a: TensorType, b: TensorType) -> Type:
        if a.dtype != b.dtype or len(a.shape) != len(b.shape):
            raise Mismatch(f"{a} and {b} are not the same")
        dims = []
        for x, y in zip(a.shape, b.shape, strict=True):
            if isinstance(x, Any) or isinstance(y, Any):
                dims.append(Any())
            elif isinstance(x, IntImm) and isinstance(y, IntImm) and x.value != y.value:
                raise Mismatch(f"{a} and {b} are not the same: {x} against {y}")
            else:
                dims.append(x)
        return (
            a
            if all(x is y for x, y in zip(dims, a.shape, strict=True))
            else a.replace(shape=tuple(dims))
        )

    def _occurs(self, open_: IncompleteType, type_: AnyValue) -> bool:
        type_ = self.shallow(type_)
        inside = [f for name in ("fields", "arg_types") for f in getattr(type_, name, ())]
        inside += [type_.ret_type] if isinstance(type_, FuncType) else []
        return type_ is open_ or any(self._occurs(open_, t) for t in inside)

    def instance(self, func: FuncType) -> tuple[FuncType, list[Type]]:
        """A generic function's type with fresh open types for its variables, and these."""
        if not func.type_params:
            return func, []
        fresh: list[Type] = [IncompleteType(p.kind) for p in func.type_params]
        table = {id(p): t for p, t in zip(func.type_params, fresh, strict=True)}
        args = [substituted(t, table) for t in func.arg_types]
        return FuncType(args, substituted(func.ret_type, table)), fresh


def _mapped(
    fn: Callable[[AnyValue], AnyValue], items: tuple[AnyValue, ...]
) -> tuple[AnyValue, ...]:
    new = tuple([fn(item) for item in items])
    return items if all(a is b for a, b in zip(new, items, strict=True)) else new


def substituted(type_: AnyValue, table: dict[int, Type]) -> AnyValue:
    """A type with its variables replaced, by identity."""
    if isinstance(type_, TypeVar):
        return table.get(id(type_), type_)
    if isinstance(type_, TupleType):
        return type_.replace(fields=_mapped(lambda t: substituted(t, table), type_.fields))
    if isinstance(type_, FuncType):
        args = _mapped(lambda t: substituted(t, table), type_.arg_types)
        return type_.replace(arg_types=args, ret_type=substituted(type_.ret_type, table))
    return type_


def call_type(
    row: Row, types: list[Type], attrs: dict[str, AnyValue], args: tuple[AnyValue, ...]
) -> Type:
    """The type of a call of an operator. Raises what Relax's inference raises."""
    hook = row.hooks.get("infer")
    result = None
    if hook is not None:
        result = hook(types, attrs, args) if row.reads_values else hook(types, attrs)
    return relax_type(row, types, attrs) if result is None else result


def relax_type(row: Row, types: list[Type], attrs: dict[str, AnyValue]) -> Type:
    """The type that Relax infers of the row's body."""
    extents = Extents()
    args = [RelaxVar(f"arg{i}", extents.info(t)) for i, t in enumerate(types)]
    extents.keep(attrs.values())
    bb = BlockBuilder()
    with bb.testing_scope(def_vars=extents.variables()):
        return extents.type(bb.emit(row.apply(args, attrs, bb)).struct_info)


# Rules that users' operators name: the operator whose type they say; "": the first argument's.
TYPE_RELATIONS = {
    "Identity": "",
    "Broadcast": "add",
    "BroadcastComp": "less",
    "IdentityCompRel": "isnan",
}


def _relation(name: str) -> Callable[..., Type]:
    """A relation as a function of the arguments' types."""

    def relation(types: AnyValue, attrs: AnyValue = None) -> Type:
        row = ROWS.get(TYPE_RELATIONS[name])
        return types[0] if row is None else call_type(row, list(types), {}, ())

    return relation


for _name in TYPE_RELATIONS:
    register_func(f"tvm.relay.type_relation.{_name}", _relation(_name))


class _Seen(set[int]):
    """The identities of nodes that were met, besides those whose types are known; a copy of these for
    each function would take the square of their number."""

    def __init__(self, types: dict[int, AnyValue]) -> None:
        super().__init__()
        self.types = types

    def __contains__(self, key: object) -> bool:
        return key in self.types or super().__contains__(key)


class Typer:
    """Infers the types in a function; `mod` has the functions it calls."""

    def __init__(self, mod: IRModule | None = None) -> None:
        self.mod = IRModule() if mod is None else mod
        self.unifier = Unifier()
        self.types: dict[int, AnyValue] = {}
        self.type_args: dict[int, list[Type]] = {}
        self._globals: dict[GlobalVar, AnyValue] = {}
        self._waiting: list[tuple[Call | TupleGetItem, Type]] = []
        self._by_key: dict[AnyValue, Type | None] = {}
        self._lets: dict[int, list[Let]] = {}
        self._keep: list[AnyValue] = []

    # ------------------------------------------------------------------ the walk

    def run(self, expr: AnyValue) -> Type:
        """The type of an expression; those of its parts are in `types`."""
        self._keep.append(expr)
        for node in post_order(expr, self._enter, _Seen(self.types) if self.types else None):
            self.types[id(node)] = self._visit(node)
            for let in self._lets.pop(id(node), ()):
                self._bind(let)
        self._settle()
        return self.unifier.full(self.types[id(expr)])

    def _enter(self, node: AnyValue) -> bool:
        if isinstance(node, Let):
            if id(node.value) in self.types:
                self._bind(node)
            else:
                self._lets.setdefault(id(node.value), []).append(node)
        return True

    def _bind(self, let: Let) -> None:
        var = self._var(let.var)
        self._same(var, self.types[id(let.value)], let, let.value)

    def _var(self, var: Var) -> Type:
        type_ = self.types.get(id(var))
        if type_ is None:
            type_ = var.type_annotation
            type_ = IncompleteType() if type_ is None else type_
            self.types[id(var)] = type_
        return type_

    def _visit(self, node: AnyValue) -> AnyValue:
        if isinstance(node, Var):
            return self._var(node)
        if isinstance(node, Constant):
            return node.checked_type
        if isinstance(node, Op):
            return None
        if isinstance(node, Call):
            return self._call(node)
        if isinstance(node, Tuple):
            return TupleType([self.types[id(f)] for f in node.fields])
        if isinstance(node, TupleGetItem):
            return self._field(node)
        if isinstance(node, Function):
            return self._function(node)
        if isinstance(node, Let):
            return self.types[id(node.body)]
        if isinstance(node, If):
            cond = TensorType((), "bool")
            self._same(self.types[id(node.cond)], cond, node, node.cond)
            pair = (self.types[id(node.true_branch)], self.types[id(node.false_branch)])
            return self._same(*pair, node, node.false_branch)
        if isinstance(node, GlobalVar):
            return self._global(node)
        what = f"the type of a {type(node).__name__} cannot be inferred"
        raise DiagnosticError(explain(what, got=str(node), span=node.span))

    def _function(self, func: Function) -> Type:
        ret = self.types[id(func.body)]
        if func.ret_type is not None:
            ret = self._same(ret, func.ret_type, func, func.body)
        return FuncType([self.types[id(p)] for p in func.params], ret, func.type_params)

    def _global(self, gvar: GlobalVar) -> Type:
        if gvar in self._globals:
            return self._globals[gvar]
        if gvar not in self.mod:
            what = "the module has no function of this name"
            raise DiagnosticError(explain(what, got=f"@{gvar.name_hint}", span=gvar.span))
        func = self.mod[gvar]
        if not isinstance(func, Function):
            return self._globals.setdefault(gvar, IncompleteType())
        declared = func.checked_type_ or func.func_type_annotation()
        self._globals[gvar] = declared
        if self.unifier.is_open(declared):
            inferred = self.run(func) if id(func) not in self.types else self.types[id(func)]
            self._globals[gvar] = self._same(declared, inferred, func, func)
        return self._globals[gvar]

    # ------------------------------------------------------------------ calls

    def _field(self, node: TupleGetItem) -> Type:
        whole = self.unifier.shallow(self.types[id(node.tuple_value)])
        if isinstance(whole, IncompleteType):
            return self._wait(node)
        if not isinstance(whole, TupleType):
            raise self._error("only a tuple has fields", node, str(whole))
        if not 0 <= node.index < len(whole.fields):
            what = "the tuple has no field of this number"
            raise self._error(what, node, f"{node.index} of {len(whole.fields)} fields")
        return whole.fields[node.index]

    def _wait(self, node: AnyValue) -> Type:
        result = IncompleteType()
        self._waiting.append((node, result))
        return result

    def _call(self, call: Call) -> Type:
        if isinstance(call.op, Op):
            type_ = self._op_call(call)
            return self._wait(call) if type_ is None else type_
        callee = self.unifier.shallow(self.types[id(call.op)])
        args = [self.types[id(a)] for a in call.args]
        if isinstance(callee, IncompleteType):
            result = IncompleteType()
            self.unifier.unify(callee, FuncType(args, result))
            return result
        if not isinstance(callee, FuncType):
            raise self._error("only a function can be called", call, str(callee))
        func, fresh = self.unifier.instance(callee)
        if len(func.arg_types) != len(args):
            what = f"the function takes {len(func.arg_types)} arguments"
            raise self._error(what, call, f"{len(args)}")
        for want, have, arg in zip(func.arg_types, args, call.args, strict=True):
            self._same(have, want, call, arg)
        self.type_args[id(call)] = fresh
        return func.ret_type

    def _op_call(self, call: Call) -> Type | None:
        """The type of a call of an operator; None if not enough is known yet."""
        row = row_of(call.op)
        if row is None:
            types = [self.unifier.full(self.types[id(a)]) for a in call.args]
            return None if any(map(self.unifier.is_open, types)) else self._own_type(call, types)
        if len(call.args) > len(row.inputs):
            what = f"{row.name} takes {len(row.inputs)} arguments"
            raise self._error(what, call, f"{len(call.args)}")
        attrs = row.values_of(call)
        types = [self.unifier.full(self.types[id(a)]) for a in call.args]
        hook = row.hooks.get("arguments")
        if hook is not None and any(map(self.unifier.is_open, types)):
            arg_types = hook(types, attrs)
            for i, type_ in enumerate(arg_types or ()):
                if type_ is not None and i < len(types):
                    types[i] = self._same(types[i], type_, call, call.args[i])
        if any(map(self.unifier.is_open, types)):
            return None
        self.type_args[id(call)] = types
        key = _key(row, types, attrs)
        result = self._by_key.get(key) if key is not None else None
        if result is None:
            result = self._inferred(row, types, attrs, call)
            if key is not None:
                self._by_key[key] = result
        return result

    def _own_type(self, call: Call, types: list[Type]) -> Type | None:
        """The type of a call of a user's operator."""
        rule = call.op.get_attr("relay.type")
        if rule is None:
            what = f"the operator {call.op.name} has no type rule"
            hint = "relay.op.get(name).add_type_rel(name, f), f(types, attrs) -> type"
            raise self._error(explain(what, instead=hint), call, call.op.name)
        if not isinstance(rule, str):
            return rule(types, call.attrs)
        if rule not in TYPE_RELATIONS:
            what = f"unknown type relation {rule!r}"
            names = ", ".join(TYPE_RELATIONS)
            raise self._error(explain(what, instead=f"a function, or one of: {names}"), call, rule)
        row = ROWS.get(TYPE_RELATIONS[rule])
        return types[0] if row is None else self._inferred(row, types, {}, call)

    def _inferred(
        self, row: Row, types: list[Type], attrs: dict[str, AnyValue], call: Call
    ) -> Type | None:
        try:
            return call_type(row, types, attrs, call.args)
        except DiagnosticError:
            raise
        except (LoopwrightError, ValueError, TypeError, IndexError, KeyError) as error:
            listed = ", ".join(map(str, types))
            what = f"The Relay type checker is unable to type the call of {row.name}: {error}"
            raise self._error(what, call, listed) from error

    def _settle(self) -> None:
        """Try what waits until nothing more comes of it."""
        progress = True
        while self._waiting and progress:
            waiting, self._waiting, progress = self._waiting, [], False
            for node, result in waiting:
                if isinstance(node, Call):
                    inferred = self._op_call(node)
                else:
                    whole = self.unifier.shallow(self.types[id(node.tuple_value)])
                    inferred = None if isinstance(whole, IncompleteType) else self._field(node)
                if inferred is None:
                    self._waiting.append((node, result))
                else:
                    self._same(result, inferred, node, node)
                    progress = True

    def _same(self, a: AnyValue, b: AnyValue, node: AnyValue, other: AnyValue) -> Type:
        """The one type of two expressions of the program. Raises an error that names both."""
        try:
            return self.unifier.unify(a, b)
        except Mismatch as mismatch:
            what = f"unable to unify: `{self.unifier.full(a)}` and `{self.unifier.full(b)}`"
            where = f"{_position(node)} and {_position(other)}"
            raise self._error(f"{what} ({mismatch})", node, where) from None

    def _error(self, what: str, node: AnyValue, got: str) -> DiagnosticError:
        return DiagnosticError(explain(what, got=got, span=getattr(node, "span", None)))

    # ------------------------------------------------------------------ the result

    def typed(self, expr: AnyValue) -> AnyValue:
        """The expression with the types that were found."""
        new: dict[int, AnyValue] = {}
        for node in list(post_order(expr)):
            new[id(node)] = self._typed_node(node, new)
        return new[id(expr)]

    def _typed_node(self, node: AnyValue, new: dict[int, AnyValue]) -> AnyValue:
        if isinstance(node, (Op, GlobalVar, Constant)):
            return node
        type_ = self.types.get(id(node))
        type_ = None if type_ is None else self.unifier.full(type_)
        if isinstance(node, Var):
            closed = type_ is not None and not self.unifier.is_open(type_)
            said = node.type_annotation
            if closed and (said is None or self.unifier.full(said) is not said):
                node = Var(node.vid, type_, node.span)
            return _with_type(node, type_)
        copy = rebuilt(node, new)
        if isinstance(copy, Function) and isinstance(type_, FuncType):
            ret = type_.ret_type
            said = copy.ret_type
            if said is None or self.unifier.full(said) is not said:
                copy = copy.replace(ret_type=ret)
        elif isinstance(copy, Call) and id(node) in self.type_args:
            args = tuple(map(self.unifier.full, self.type_args[id(node)]))
            if len(args) != len(copy.type_args) or not all(map(same_type, args, copy.type_args)):
                copy = copy.replace(type_args=args)
        return _with_type(copy, type_)


def _with_type(node: AnyValue, type_: AnyValue) -> AnyValue:
    """A node with its type; a copy where it has another one already."""
    old = node.struct_info
    if type_ is None or (old is not None and same_type(old, type_)):
        return node
    if old is not None and not isinstance(node, Var):
        node = type(node)._make(*node.field_values(), span=node.span)
    node.struct_info = type_
    return node


def _position(node: AnyValue) -> str:
    span = getattr(node, "span", None)
    text = type(node).__name__ if not isinstance(node, Call) else f"call of {node.op}"
    name = getattr(node, "name_hint", None)
    text = f"%{name}" if name else text
    return f"{text} at {span}" if span is not None else text


def _key(row: Row, types: list[Type], attrs: dict[str, AnyValue]) -> AnyValue:
    """The cache key of a call's type; None where an extent is not a number."""
    parts = [_type_key(t) for t in types]
    return None if row.reads_values or None in parts else (row.name, tuple(parts), repr(attrs))


def _type_key(type_: AnyValue) -> AnyValue:
    if isinstance(type_, TensorType):
        dims = tuple([d.value if isinstance(d, IntImm) else None for d in type_.shape])
        return None if None in dims else (dims, str(type_.dtype))
    if isinstance(type_, TupleType):
        parts = tuple([_type_key(f) for f in type_.fields])
        return None if None in parts else ("tuple", parts)
    return None


def infer_function(func: AnyValue, mod: IRModule | None = None) -> AnyValue:
    """An expression with all types that can be inferred. Raises DiagnosticError where types do not
    match."""
    return _typed(Typer(mod), func)


def types_so_far(func: AnyValue, mod: IRModule) -> AnyValue:
    """An expression with the types that it has already: a pass is to make it one that has all."""
    return _typed(_PatientTyper(mod), func)


def _typed(typer: Typer, func: AnyValue) -> AnyValue:
    typer.run(func)
    return typer.typed(func)


class _PatientTyper(Typer):
    """Leaves open what has no type, as long as it may still change."""

    def _inferred(self, *args: AnyValue) -> AnyValue:
        try:
            return super()._inferred(*args)
        except DiagnosticError:
            return None

    def _same(self, a: AnyValue, b: AnyValue, node: AnyValue, other: AnyValue) -> Type:
        try:
            return super()._same(a, b, node, other)
        except DiagnosticError:
            return a


class _LocalTyper(Typer):
    """Takes the types that nodes have as they are."""

    def _enter(self, node: AnyValue) -> bool:
        return getattr(node, "struct_info", None) is None and super()._enter(node)

    def _visit(self, node: AnyValue) -> AnyValue:
        info = getattr(node, "struct_info", None)
        return super()._visit(node) if info is None else info


def with_types(expr: AnyValue, mod: IRModule | None = None) -> AnyValue:
    """An expression made of others whose types are known, with its type and those of its new
    parts."""
    if getattr(expr, "struct_info", None) is not None:
        return expr
    typer = _LocalTyper(mod)
    typer.run(expr)
    for node in post_order(expr, lambda n: getattr(n, "struct_info", None) is None):
        if isinstance(node, Expr) and node.struct_info is None:
            node.struct_info = typer.unifier.full(typer.types[id(node)])
    return expr
