"""What passes on Relay share: their names, and functions as passes."""

from __future__ import annotations

from collections.abc import Container
from typing import Any, ClassVar

from ....ir.module import IRModule
from ....ir.pass_context import PassContext, PassInfo
from ....ir.transform import (  # noqa: F401
    PASSES,
    FunctionPass,
    ModulePass,
    Pass,
    make_pass_decorator,
    register_pass,
)
from ..expr import Function
from ..infer import Typer, infer_function
from ..walk import name_of, rewrite


class RelayPass(ModulePass, abstract=True):
    """A pass on the functions of Relay in a module.

    A subclass is named "relay.FoldConstant" in the table of passes, where Relax may have one of the
    same name; contexts and instruments know it as "FoldConstant". It defines one of
    `replaced(old, new) -> node | None`, for each node and its copy with replaced parts,
    `run_function(func, mod) -> func`, and `run`; the first two are not given functions for other compilers.
    operators: the operators whose calls may be replaced; None: all nodes may. typed: whether functions come with their types, and whether they are inferred again after it.
    """

    prefix = "relay."
    typed: ClassVar[bool] = True
    operators: ClassVar[Container[str] | None] = None

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        plain = cls.name.removeprefix("relay.")
        if plain != cls.name and plain not in PASSES:
            register_pass(plain, cls)

    @property
    def info(self) -> PassInfo:
        name = self.name.removeprefix("relay.")
        return PassInfo(self.opt_level, name, tuple(self.required), self.traceable)

    def run_function(self, func: Function, mod: IRModule) -> Function:
        """The new function; the same object when nothing changes."""

        def post(old: Any, new: Any) -> Any:
            may_change = self.operators is None or name_of(new) in self.operators
            return self.replaced(old, new) if may_change else None

        return rewrite(func, post)

    def replaced(self, old: Any, new: Any) -> Any:
        """What replaces a node; None: its copy."""
        raise NotImplementedError(f"{type(self).__name__} has no method replaced")

    def run(self, mod: IRModule, ctx: PassContext) -> IRModule:
        changed: dict[Any, Any] = {}
        for gvar, func in mod.functions.items():
            if isinstance(func, Function) and not func.attrs.get("Compiler"):
                before = infer_function(func, mod) if self.typed else func
                after = self.run_function(before, mod)
                if after is not before:
                    changed[gvar] = infer_function(after, mod) if self.typed else after
                elif before is not func:
                    changed[gvar] = before
        return mod.with_functions(changed)


class UserFunctionPass(FunctionPass, abstract=True):
    """A user's pass on each function of Relay that is not for another compiler; the types are inferred
    again after it."""

    function_type = Function

    def takes(self, func: Function) -> bool:
        """Whether a function is one of Relay, and this compiler's."""
        return isinstance(func, Function) and not func.attrs.get("Compiler")

    def run(self, mod: IRModule, ctx: PassContext) -> IRModule:
        new = super().run(mod, ctx)
        names = {g.name_hint for g, f in new.functions.items() if isinstance(f, Function)}
        typer = Typer(new)
        for name in names:
            typer.run(new[name])
        return new.with_functions(
            {new.get_global_var(name): typer.typed(new[name]) for name in sorted(names)}
        )


function_pass = make_pass_decorator(UserFunctionPass)
