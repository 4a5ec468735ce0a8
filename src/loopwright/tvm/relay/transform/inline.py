"""Inline: calls of functions that are marked `Inline=1` become their bodies.

    before: def @f(%a, Inline=1) { add(%a, %a) }  def @main(%x) { @f(%x) }
    after:  def @main(%x) { add(%x, %x) }

A function that calls itself stays, and one for an external compiler, which is put in place as it is.
"""

from __future__ import annotations

from typing import Any

from ....ir.expr import BaseExpr, GlobalVar
from ....ir.module import IRModule
from ....ir.pass_context import PassContext
from ..expr import Call, Function
from ..walk import bind, post_order, rewrite
from .base import RelayPass


def called(func: Function) -> list[str]:
    """The names of the functions that one refers to."""
    return [n.name_hint for n in post_order(func) if isinstance(n, GlobalVar)]


class Inline(RelayPass):
    """Calls of functions that are marked `Inline=1` become their bodies."""

    opt_level = 1

    def run(self, mod: IRModule, ctx: PassContext) -> IRModule:
        funcs = {g.name_hint: f for g, f in mod.functions.items() if isinstance(f, Function)}
        calls = {name: called(f) for name, f in funcs.items()}
        small = {n for n, f in funcs.items() if f.attrs.get("Inline") and not _recursive(n, calls)}
        done: dict[str, Function] = {}
        for name in _leaves_first(calls):
            done[name] = _inlined(funcs[name], small, done)
        used = {c for name in done if name not in small for c in called(done[name])}
        reached = {c for names in calls.values() for c in names}
        changed = {
            mod.get_global_var(n): f for n, f in done.items() if n not in small or n not in reached
        }
        inlined = [n for n in small if n in reached and n not in used]
        return mod.with_functions(changed, inlined)


def _recursive(name: str, calls: dict[str, list[str]]) -> bool:
    seen: set[str] = set()
    waiting = list(calls[name])
    while waiting:
        at = waiting.pop()
        if at == name:
            return True
        if at not in seen:
            seen.add(at)
            waiting += calls.get(at, [])
    return False


def _leaves_first(calls: dict[str, list[str]]) -> list[str]:
    order: list[str] = []
    seen: set[str] = set()

    def visit(name: str) -> None:
        if name in seen or name not in calls:
            return
        seen.add(name)
        for callee in calls[name]:
            visit(callee)
        order.append(name)

    for name in calls:
        visit(name)
    return order


def _inlined(func: Function, small: set[str], done: dict[str, Function]) -> Function:
    """A function with the calls of small ones replaced, whose own are replaced already."""

    def post(old: Any, new: BaseExpr) -> Any:
        if isinstance(new, GlobalVar) and new.name_hint in small:
            return done[new.name_hint]
        if isinstance(new, Call) and isinstance(old.op, GlobalVar) and new.op is not old.op:
            callee = new.op
            if callee.attrs.get("Compiler"):
                return None
            return bind(callee.body, dict(zip(callee.params, new.args, strict=True)))
        return None

    return rewrite(func, post)
