"""Outlines the matches that folding constants would destroy, before it does.

A pattern `matmul(x, permute_dims(w))` matches what `nn.Linear` exports, but with constant weights
the permute_dims is folded; so is the dequantize of weights, and a batch norm is folded into the
convolution before it. Where the folded graph has no match for what remains of such a match, it is
outlined before; all else is matched in the folded graph, where the patterns of libraries see
weights and biases as constants.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from copy import copy
from typing import Any

from ...base.errors import explain
from ...ir.transform import IRModule, ModulePass, Pass, PassContext, Sequential
from ..analysis.variables import bindings_of, used_vars
from ..expr import Binding, Call, Expr, Function, TupleGetItem, Var
from ..functor import GraphRewriter
from ..transform.fuse.fuse_ops_by_pattern import FuseOpsByPattern, MatchLog
from ..transform.queries import functions_of, is_outlined
from .nearest import Nearest, nearest_miss
from .registry import Backend, get_backend

_log = logging.getLogger(__name__)
_COPIES = 1000  # of shared values: chains that share again and again would take exponentially many


class FuseBeforeFolding(ModulePass, repr=False):
    """Outlines matches that folding would destroy. Warns about each back end whose patterns match nowhere.

    backends: back ends or their names, in order of preference. tidy: the passes that fold.
    """

    backends: Sequence[Any] = ()
    tidy: Sequence[Pass] = ()

    def run(self, mod: IRModule, ctx: PassContext) -> IRModule:
        chosen = list(map(get_backend, self.backends))
        for backend in chosen:
            backend.check_usable()
        patterns_of = [(backend, backend.fusion_patterns()) for backend in chosen]
        folded = Sequential(list(self.tidy))(mod)
        after = MatchLog()
        refused: dict[str, list[tuple[str, str]]] = {b.name: [] for b, _ in patterns_of}
        parted = folded
        for backend, patterns in patterns_of:
            parted = _fused(parted, backend, patterns, refused, after)
        fused = _Unshared(mod).run()
        lost = _Lost(fused, folded, after.matched)
        before = MatchLog(accepts=lost)
        for backend, patterns in patterns_of:
            fused = _fused(fused, backend, patterns, refused, before)
            lost.reserve(backend)
        final, log = folded, after
        if before.matched:
            log = MatchLog(dict(before.matched))
            final = parted = Sequential(list(self.tidy))(fused)
            for backend, patterns in patterns_of:
                parted = _fused(parted, backend, patterns, refused, log)
        for backend, patterns in patterns_of:
            if not _names(log, backend) and not has_regions(mod, backend):
                why = Nearest(0, "other back ends take what its patterns match")
                if not _names(after, backend):
                    why = nearest_miss([mod, folded], patterns, refused[backend.name])
                warn_of_nothing(backend, why)
        return final


def _names(log: MatchLog, backend: Backend) -> set[str]:
    """The patterns of a back end that have matched."""
    return {name for name in log.matched.values() if name.startswith(f"{backend.name}.")}


def _fused(
    mod: IRModule,
    backend: Backend,
    patterns: Sequence[Any],
    refused: dict[str, list[tuple[str, str]]],
    log: MatchLog,
) -> IRModule:
    fuse = FuseOpsByPattern(
        patterns, backend.bind_constants, refused=refused[backend.name], log=log
    )
    return fuse(mod)


def has_regions(mod: IRModule, backend: Backend) -> bool:
    """Whether a module has functions of a back end."""
    named = (
        str(f.attrs.get(a, "")) for _, f in functions_of(mod) for a in ("Composite", "Codegen")
    )
    return any(name.partition(".")[0] == backend.name for name in named)


def warn_of_nothing(backend: Backend, why: Nearest) -> None:
    """Warn that a requested back end matches nothing."""
    what = f"the back end {backend.name} takes no part of the model"
    hint = f'relax.byoc.partition(mod, "{backend.name}", report=PartitionReport()) reports each'
    _log.warning("%s", explain(what, got=why.text, instead=f"{hint} operator", span=why.span))


class _Lost:
    """Whether a match in a module is destroyed by folding, and not replaced by other matches.

    matched: the variables of matches in the folded module, and their patterns' names.
    """

    def __init__(self, mod: IRModule, folded: IRModule, matched: Mapping[Var, str]) -> None:
        self.before, self.after = _values(mod), _values(folded)
        self.matched = matched
        self.reserved: set[Var] = set()
        self.constant, self.users = _constants(self.before)

    def reserve(self, backend: Backend) -> None:
        """Reserve the matches of a back end in the folded module: later ones come after it."""
        prefix = f"{backend.name}."
        self.reserved.update(v for v, name in self.matched.items() if name.startswith(prefix))

    def __call__(self, members: set[Var]) -> bool:
        if members & self.reserved:
            return False
        destroyed, remains = False, set[Var]()
        for var in members:
            name = _operator(self.before[var])
            if name == _operator(self.after.get(var)):
                remains.add(var)
            elif var in self.constant:
                destroyed = True
            else:
                heirs = self.heirs(var)
                same = {h for h in heirs if _operator(self.after[h]) == name}
                destroyed = destroyed or not same
                remains |= same or heirs
        return destroyed and not remains <= self.matched.keys()

    def heirs(self, var: Var) -> set[Var]:
        """The folded module's values that replace a value: its own variable or those of its
        first users that are left, and new ones that these are computed from."""
        work, seen = [var], {var}
        heirs: set[Var] = set()
        while work:
            var = work.pop()
            if var in self.after:
                heirs.add(var)
                near = [v for v in used_vars(self.after[var]) if v not in self.before]
                near = [v for v in near if v in self.after]
            else:
                near = self.users.get(var, [])
            work += [v for v in near if v not in seen]
            seen.update(near)
        return heirs


class _Unshared(GraphRewriter):
    """Copies each value that depends on constants only for each of its users: the other users of a
    matched value are folded still, and other matches have their own."""

    def __init__(self, mod: IRModule) -> None:
        super().__init__(mod)
        self.bound = _values(mod)
        constant, users = _constants(self.bound)
        self.shared = {v for v in constant if len(users.get(v, ())) > 1}
        self.copies = 0

    def function(self, func: Function) -> Function:
        return func if is_outlined(func) or not self.shared else super().function(func)

    def binding(self, binding: Binding) -> None:
        own = {v: self.copied(v) for v in used_vars(binding.value) if v in self.shared}
        self.var_map.update(own)
        super().binding(binding)
        for var in own:
            del self.var_map[var]

    def copied(self, var: Var) -> Var:
        value = self.bound[var]
        self.copies += 1
        if self.copies > _COPIES:
            return var
        for part in used_vars(value):
            self.var_map[part] = self.copied(part)
        own = copy(self.value(value))  # matches distinguish values by identity
        new = self.builder.emit(own, var.name_hint)
        for part in used_vars(value):
            del self.var_map[part]
        return new


def _constants(values: Mapping[Var, Any]) -> tuple[set[Var], dict[Var, list[Var]]]:
    """The variables that depend on constants only, and the users of each variable."""
    constant: set[Var] = set()
    users: dict[Var, list[Var]] = {}
    for var, value in values.items():
        sources = list(dict.fromkeys(used_vars(value)))
        if all(v in constant for v in sources):
            constant.add(var)
        for source in sources:
            users.setdefault(source, []).append(var)
    return constant, users


def _values(mod: IRModule) -> dict[Var, Any]:
    """The calls and fields that are bound in the functions that patterns are matched in."""
    return {
        binding.var: binding.value
        for _, func in functions_of(mod)
        if not is_outlined(func)
        for binding in bindings_of(func)
        if isinstance(binding.value, (Call, TupleGetItem))
    }


def _operator(value: Expr | None) -> Any:
    """The key that distinguishes a call from another one; None without a value."""
    return value.op if isinstance(value, Call) else value and type(value)
