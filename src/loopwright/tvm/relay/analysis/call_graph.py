"""Which functions of a module call which."""

from __future__ import annotations

from ....base.errors import explain
from ....ir.expr import GlobalVar
from ....ir.module import IRModule
from ..expr import Function
from ..walk import post_order


class CallGraph:
    """The functions of a module, and for each the functions that it names."""

    def __init__(self, module: IRModule) -> None:
        self.module = module
        self.called: dict[GlobalVar, list[GlobalVar]] = {}
        for gvar, func in module.functions.items():
            nodes = post_order(func) if isinstance(func, Function) else ()
            named = [node for node in nodes if isinstance(node, GlobalVar)]
            self.called[gvar] = list(dict.fromkeys(named))

    def ref_count(self, var: str | GlobalVar) -> int:
        """How many functions name this one."""
        gvar = self._gvar(var)
        return sum(gvar in called for called in self.called.values())

    def global_call_count(self, var: str | GlobalVar) -> int:
        """How many functions this one names."""
        return len(self.called[self._gvar(var)])

    def is_recursive(self, var: str | GlobalVar) -> bool:
        """Whether a function names itself."""
        gvar = self._gvar(var)
        return gvar in self.called[gvar]

    def print_var(self, var: str | GlobalVar) -> str:
        """The text of a function's entry."""
        gvar = self._gvar(var)
        name = gvar.name_hint
        lines = [f"Call graph node: {name},  #refs = {self.ref_count(gvar)}"]
        lines += [f"  call site: <{name}> calls {called.name_hint}" for called in self.called[gvar]]
        return "\n".join(lines) + "\n"

    def __str__(self) -> str:
        return "\n".join(map(self.print_var, self.called))

    def _gvar(self, var: str | GlobalVar) -> GlobalVar:
        if isinstance(var, str):
            var = self.module.get_global_var(var)
        if not isinstance(var, GlobalVar):
            raise TypeError(explain("a function's name or GlobalVar is expected", got=repr(var)))
        if var not in self.called:
            names = ", ".join(gvar.name_hint for gvar in self.called)
            what = "the module has no function of this name"
            raise ValueError(explain(what, got=var.name_hint, instead=f"one of: {names}"))
        return var
