"""From Relay to Relax: `from_relay`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...base.errors import explain, suggest
from ...base.names import free_name
from ...ir.expr import GlobalVar
from ...ir.op import Op
from ...ir.target import Target
from ...ir.transform import IRModule, PassContext
from ...relax import expr as rx
from ...relax.block_builder import BlockBuilder
from ...relax.op.base import CALL_TIR
from ...relax.struct_info import TupleStructInfo
from ...relax.transform import LegalizeOps
from ...tir.function import PrimFunc
from ..relay.backend.compiling import as_relay_module, optimized
from ..relay.backend.kernels import kernel_origins, renamed
from ..relay.expr import Call, Function
from ..relay.operators.core import row_of
from ..relay.translate import to_relax
from ..relay.walk import post_order


def from_relay(
    func: Function, target: str, relay_params: Mapping[str, Any] | None = None, *,
    opt_level: int = 3, pass_config: dict[str, Any] | None = None,
    instruments: Sequence[Any] | None = None, disabled_pass: list[str] | None = None,
    translate_op_with_tir: Mapping[str, PrimFunc] | None = None, append_op_attrs: bool = False,
) -> IRModule:  # fmt: skip
    """A function of Relay as a module of Relax, after the passes on Relay.

    relay_params: values of parameters by name, which become constants.
    opt_level, pass_config, instruments, disabled_pass: the context in which the passes run.
    translate_op_with_tir: kernels by the names of Relay's operators, which their calls become: they
        take the arguments' tensors and the result.
    append_op_attrs: each operator becomes a kernel of its name, whose attribute "op_attrs" has the
        call's operator ("op_name") and attributes. Without it, operators stay Relax's, so that
        `relax.build` chooses kernels and layouts.

    Raises ValueError for a kernel that does not have the operator's parameters, or whose operator
    is not called.
    """
    chosen = target if isinstance(target, Target) else Target(target)
    options = {"config": pass_config, "instruments": instruments, "disabled_pass": disabled_pass}
    set_options = {name: value for name, value in options.items() if value is not None}
    choice = _Given(dict(translate_op_with_tir or {}))
    relay_mod = as_relay_module(func)
    with chosen, PassContext(opt_level=opt_level, **set_options):
        mod = to_relax(optimized(relay_mod, chosen, relay_params), choice.choose)
        choice.check(relay_mod)
        return with_op_attrs(LegalizeOps()(mod)) if append_op_attrs else mod


class _Given:
    """Calls kernels in the place of operators."""

    def __init__(self, kernels: dict[str, PrimFunc]) -> None:
        self.kernels = kernels
        self.used: set[str] = set()

    def check(self, before: IRModule) -> None:
        """Raise ValueError for a kernel that no call has become: the passes left none of its
        operator, or there was none."""
        funcs = [f for f in before.functions.values() if isinstance(f, Function)]
        called = {n.op.name for f in funcs for n in post_order(f)
                  if isinstance(n, Call) and isinstance(n.op, Op)}  # fmt: skip
        unused = sorted(called & set(self.kernels) - self.used)
        if unused:
            what = f"the passes replaced all calls of {', '.join(unused)}"
            hint = 'leave a pass out, as by disabled_pass=["CanonicalizeOps"]'
            raise ValueError(explain(what, got="a kernel for it", instead=hint))
        for name in sorted(self.kernels.keys() - called - self.used):
            what = (
                f"translate_op_with_tir has a kernel for {name}, which the function does not call"
            )
            raise ValueError(explain(what, instead=suggest(name, sorted(called), "it calls")))

    def choose(self, call: Call, args: list[Any], bb: BlockBuilder) -> Any:
        """The call of the operator's kernel; None if it has none."""
        name, row = call.op.name, row_of(call.op)
        kernel = self.kernels.get(name)
        if kernel is None or row is None:
            return None
        self.used.add(name)
        info = bb.normalize(row.apply(args, row.values_of(call), bb)).struct_info
        tensors = [tensor for arg in args for tensor in _tensors(arg)]
        results = len(info.fields) if isinstance(info, TupleStructInfo) else 1
        if len(kernel.params) != len(tensors) + results:
            what = f"the kernel for {name} takes {len(tensors)} tensors and {results} for results"
            got = f"{len(kernel.params)} parameters"
            raise ValueError(explain(what, got=got, span=call.span))
        symbol = name.replace(".", "_")
        gvar = bb.add_func(kernel.with_attr("global_symbol", symbol), symbol)
        return rx.Call(CALL_TIR, [gvar, rx.Tuple(tensors)], None, [info])


def _tensors(value: rx.Expr) -> list[Any]:
    """The tensors of an argument."""
    info = value.struct_info
    if not isinstance(info, TupleStructInfo):
        return [value]
    if isinstance(value, rx.Tuple):
        return [tensor for field in value.fields for tensor in _tensors(field)]
    return [rx.TupleGetItem(value, i) for i in range(len(info.fields))]


def with_op_attrs(mod: IRModule) -> IRModule:
    """The module with each kernel named after its operator of Relay, whose name and attributes are
    its attribute "op_attrs"."""
    used_names = {gvar.name_hint for gvar in mod.functions}
    names: dict[GlobalVar, GlobalVar] = {}
    marked: dict[GlobalVar, PrimFunc] = {}
    for gvar, calls in kernel_origins(mod).items():
        if not calls:
            continue
        call = calls[0]
        attrs = {} if call.attrs is None else dict(call.attrs.items())
        marked[gvar] = mod[gvar].with_attr("op_attrs", {"op_name": call.op.name, **attrs})
        leaf = call.op.name.rpartition(".")[2]
        used_names.discard(gvar.name_hint)
        name = free_name(leaf, used_names)
        used_names.add(name)
        names[gvar] = GlobalVar(name)
        names[gvar].struct_info = gvar.struct_info
    return renamed(mod.with_functions(marked), names)
