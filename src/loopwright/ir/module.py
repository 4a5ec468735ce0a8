"""IRModule: functions by name, attributes, and facts about the whole program.

Functions are immutable; only a module is updated in place (`mod["f"] = g`), as
in TVM. Passes return a new module: `mod.with_functions({gv: f})`, `mod.clone()`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..base.errors import explain, suggest
from ..base.registry import Registry
from .expr import DictAttrs, GlobalVar
from .function import BaseFunc, as_attrs
from .functor import nodes_of, rewrite
from .node import Node, field
from .target import Target

if TYPE_CHECKING:
    from .structural import _Comparer, _Hasher

# Called with each module made; the test suite's round trip listens here.
ON_CREATE: Registry[str, Callable[[IRModule], None]] = Registry("listener to modules")


class GlobalInfo(Node):
    """A fact about a whole module."""


class DummyGlobalInfo(GlobalInfo):
    """A fact without content, for tests."""

    def __init__(self, span: Any = None) -> None:
        self._set(span)


class VDevice(GlobalInfo):
    """A device on which tensors are stored: a target, the number of the device, and the memory
    scope."""

    target: Target | None
    vdevice_id: int
    memory_scope: str

    def __init__(
        self,
        target: str | Mapping[str, str | Sequence[str]] | None = None,
        vdevice_id: int = 0,
        memory_scope: str = "global",
        span: Any = None,
    ) -> None:
        converted = None if target is None else Target(target)
        self._set(converted, int(vdevice_id), memory_scope, span)


class IRModule(Node):
    """A program: `functions` maps a `GlobalVar` to its function, in order of addition.

    Keys of the constructor may be names. `mod["main"]` looks a function up,
    `mod["main"] = f` sets it in place. Raises ValueError for two functions of one name.

    >>> A = te.placeholder((4,), name="A")
    >>> f = te.create_prim_func([A, te.compute((4,), lambda i: A[i] + 1.0, "B")])
    >>> lw.IRModule({"add_one": f}).get_global_vars()
    [I.GlobalVar("add_one")]
    """

    __slots__ = ("__name__",)  # of the class that it was read from

    functions: dict[GlobalVar, Any]
    attrs: DictAttrs = field(default_factory=DictAttrs)
    global_infos: dict[str, list[GlobalInfo]] = field(default_factory=dict)

    def __init__(
        self,
        functions: Mapping[Any, Any] | None = None,
        attrs: DictAttrs | Mapping[str, Any] | None = None,
        global_infos: Mapping[str, Iterable[GlobalInfo]] | None = None,
        span: Any = None,
    ) -> None:
        infos = {name: list(items) for name, items in (global_infos or {}).items()}
        table: dict[GlobalVar, Any] = {}
        for name, func in (functions or {}).items():
            gvar = _as_global_var(name)
            if gvar in table:
                what = f"two functions are named {gvar.name_hint!r}"
                raise ValueError(explain(what, instead="rename one of them"))
            table[gvar] = _checked(gvar, func)
        self._set(table, as_attrs(attrs), infos, span)

    def _derive(self) -> None:
        for notify in ON_CREATE.values():
            notify(self)

    # ------------------------------------------------------------------ looking up

    def __getitem__(self, var: str | GlobalVar) -> Any:
        """The function of that name. Raises ValueError if the module has none."""
        return self.functions[self._known(var)]

    def __contains__(self, var: object) -> bool:
        name = var.name_hint if isinstance(var, GlobalVar) else var
        return isinstance(name, str) and GlobalVar(name) in self.functions

    def get(self, var: str | GlobalVar, default: int | None = None) -> Any:
        """The function of that name, or `default`."""
        name = var.name_hint if isinstance(var, GlobalVar) else var
        return self.functions.get(GlobalVar(name), default)

    def get_global_var(self, name: str) -> GlobalVar:
        """The variable of that name. Raises ValueError if the module has none."""
        return self._known(name)

    def get_global_vars(self) -> list[GlobalVar]:
        """All global variables, in order of addition."""
        return list(self.functions)

    def functions_items(self) -> list[tuple[GlobalVar, Any]]:
        """(variable, function) pairs, sorted by name."""
        return sorted(self.functions.items(), key=lambda item: item[0].name_hint)

    def _known(self, var: str | GlobalVar) -> GlobalVar:
        if isinstance(var, GlobalVar) and var in self.functions:
            return var
        name = var.name_hint if isinstance(var, GlobalVar) else var
        for gvar in self.functions:
            if gvar.name_hint == name:
                return gvar
        names = sorted(gvar.name_hint for gvar in self.functions)
        hint = suggest(name, names, "it has:")
        what = "the module has no function of this name"
        raise ValueError(explain(what, got=name, instead=hint if names else "the module is empty"))

    # ------------------------------------------------------------------ changing in place

    def __setitem__(self, var: str | GlobalVar, func: BaseFunc) -> None:
        if isinstance(var, str) and var in self:
            var = self._known(var)
        self.update_func(_as_global_var(var), func)

    def __delitem__(self, var: str | GlobalVar) -> None:
        self.remove(var)

    def update_func(self, var: GlobalVar, func: BaseFunc) -> None:
        """Set the function of `var`, which is added when it is new."""
        self.functions[var] = _checked(var, func)

    def _add(self, var: str | GlobalVar, val: BaseFunc, update: bool = False) -> None:
        """Add a function; one of that name may be there only with `update`."""
        if not update and var in self:
            name = var if isinstance(var, str) else var.name_hint
            what = f"the module has a function {name} already"
            raise ValueError(explain(what, instead="update=True"))
        self[var] = val

    def update(self, other: IRModule | Mapping[Any, Any]) -> None:
        """Take over all functions of another module or mapping."""
        source = other.functions if isinstance(other, IRModule) else other
        for var, func in source.items():
            self[var] = func

    def remove(self, var: str | GlobalVar) -> None:
        """Remove a function. Raises ValueError if none has that name."""
        del self.functions[self._known(var)]

    def update_global_info(self, name: str, global_info: Sequence[GlobalInfo]) -> None:
        """Set the list of facts stored under `name`."""
        one = isinstance(global_info, GlobalInfo)
        self.global_infos[name] = [global_info] if one else list(global_info)

    # ------------------------------------------------------------------ copies

    def clone(self) -> IRModule:
        """A copy to change in place; the functions are shared."""
        return self._copy(self.functions, self.attrs)

    def frozen_copy(self) -> IRModule:
        """A copy without listeners, for traces."""
        copied = IRModule.__new__(IRModule)
        copied.functions, copied.attrs = dict(self.functions), self.attrs
        copied.global_infos, copied.span = dict(self.global_infos), self.span
        return copied

    def _copy(self, functions: dict[GlobalVar, Any], attrs: DictAttrs) -> IRModule:
        infos = {name: list(items) for name, items in self.global_infos.items()}
        return self._make(dict(functions), attrs, infos, span=self.span)

    def with_functions(
        self, updates: Mapping[GlobalVar, Any] | None = None, remove: Iterable[str | GlobalVar] = ()
    ) -> IRModule:
        """A copy with some functions set and some taken out; this module if nothing changes."""
        current = self.functions
        removed = {self._known(var) for var in remove}
        changed = {g: f for g, f in (updates or {}).items() if current.get(g) is not f}
        if not changed and not removed:
            return self
        remaining = {g: changed.get(g, f) for g, f in current.items() if g not in removed}
        added = {g: f for g, f in changed.items() if g not in current}
        return self._copy(
            {**remaining, **{g: _checked(g, f) for g, f in added.items()}}, self.attrs
        )

    def with_only(self, gvars: Iterable[GlobalVar]) -> IRModule:
        """A copy with some of the functions."""
        return self._copy({gvar: self.functions[gvar] for gvar in gvars}, self.attrs)

    def with_attr(self, attr_key: str, attr_value: Any = None) -> IRModule:
        """A copy with one attribute (key, value) or several (a dict) set."""
        return self.with_attrs(attr_key if isinstance(attr_key, dict) else {attr_key: attr_value})

    def with_attrs(self, attr_map: DictAttrs | dict[str, Any]) -> IRModule:
        """A copy with these attributes set."""
        return self._copy(
            self.functions, DictAttrs({**self.attrs.values, **dict(attr_map.items())})
        )

    def without_attr(self, attr_key: str) -> IRModule:
        """A copy without an attribute."""
        attrs = {k: v for k, v in self.attrs.items() if k != attr_key}
        return self._copy(self.functions, DictAttrs(attrs))

    def get_attr(self, attr_key: str, default: str | None = None) -> Any:
        """The attribute, or `default`."""
        return self.attrs.get(attr_key, default)

    def replace_global_vars(self, replacements: Mapping[Any, Any]) -> IRModule:
        """A copy in which global variables are renamed, in the calls and `global_symbol` too."""
        table = {self._known(old): new for old, new in replacements.items()}
        if not table:
            return self
        fresh = {old: GlobalVar(new) if isinstance(new, str) else new for old, new in table.items()}

        def renamed(node: GlobalVar) -> Any:
            return fresh.get(node)

        functions: dict[GlobalVar, Any] = {}
        for gvar, func in self.functions.items():
            renamed_func = rewrite(func, {GlobalVar: renamed})
            new = fresh.get(gvar, gvar)
            if new is not gvar and "global_symbol" in getattr(renamed_func, "attrs", ()):
                renamed_func = renamed_func.with_attr("global_symbol", new.name_hint)
            if new in functions:
                what = f"two functions would be named {new.name_hint!r}"
                raise ValueError(explain(what, instead="choose names that are free"))
            functions[new] = _checked(new, renamed_func)
        return self._copy(functions, self.attrs)

    @staticmethod
    def from_expr(expr: Any, functions: Mapping[Any, Any] | None = None) -> IRModule:
        """A module of one function, named by its `global_symbol`, else "main"."""
        if hasattr(expr, "as_function"):  # an expression of Relay: its free variables are given
            expr = expr.as_function()
        if not isinstance(expr, BaseFunc):
            what = "a module is made of functions"
            hint = "wrap the expression in a function"
            raise TypeError(explain(what, got=type(expr).__name__, instead=hint))
        module = IRModule(functions)
        module[expr.attrs.get("global_symbol", "main")] = expr
        return module

    def astext(
        self, show_meta_data: bool = True, annotate: Callable[..., Any] | None = None
    ) -> str:
        """The text, of functions of Relay with the version of its format; see `relay.astext`."""
        for func in self.functions.values():
            if hasattr(func, "module_text"):
                options = {"show_meta_data": show_meta_data, "annotate": annotate, "header": True}
                return func.module_text(self, **options)
        return self.script(show_meta=show_meta_data)

    # ------------------------------------------------------------------ structure

    def structural_compare(
        self, other: IRModule, comparer: _Comparer, path: str, defining: bool
    ) -> None:
        """Functions are matched by name, whatever their order."""
        own = {gvar.name_hint: func for gvar, func in self.functions_items()}
        others = {gvar.name_hint: func for gvar, func in other.functions_items()}
        comparer.dicts(own, others, f"{path}.functions", defining)
        comparer.compare(self.attrs, other.attrs, f"{path}.attrs", defining)
        comparer.compare(self.global_infos, other.global_infos, f"{path}.global_infos", defining)

    def structural_hash(self, hasher: _Hasher, defining: bool) -> int:
        """Of the functions by name, the attributes and the global infos."""
        named = {gvar.name_hint: func for gvar, func in self.functions_items()}
        return hasher.hash([named, self.attrs, self.global_infos], defining)


def called_global_vars(func: BaseFunc) -> set[GlobalVar]:
    """The global variables that occur in a function."""
    return set(nodes_of(func, GlobalVar))


def _as_global_var(name: GlobalVar | str | int) -> GlobalVar:
    if isinstance(name, GlobalVar):
        return name
    if isinstance(name, str):
        return GlobalVar(str(name))
    what = "functions of a module are keyed by name or GlobalVar"
    raise TypeError(explain(what, got=f"{name!r} of type {type(name).__name__}"))


def _checked(gvar: GlobalVar, func: BaseFunc | int) -> Any:
    # Relax's ExternFunc is a member of modules but not always a BaseFunc: test for a node.
    if not isinstance(func, Node):
        what = f"function {gvar.name_hint!r} of a module must be an IR function"
        hint = "decorate it with R.function or T.prim_func, or leave it out of the module"
        raise TypeError(explain(what, got=f"{func!r} of type {type(func).__name__}", instead=hint))
    struct_info = func.extras().get("struct_info")
    if gvar.struct_info is None and struct_info is not None:
        gvar.struct_info = struct_info
    return func
