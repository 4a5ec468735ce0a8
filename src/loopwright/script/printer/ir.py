"""Texts of modules and their parts: attributes, global infos, targets."""

from __future__ import annotations

from typing import Any

from ...ir.expr import DictAttrs, GlobalVar
from ...ir.module import DummyGlobalInfo, IRModule, VDevice
from ...ir.op import Op
from ...ir.target import Target
from ...relax.expr import ExternFunc, Function
from ...tir.function import PrimFunc
from .core import IR, Printer, expr_of, mode_of, stmt_of
from .doc import Nest, quote

mode_of(IRModule, IR)

_ORDER = {PrimFunc: 1, ExternFunc: 2, Function: 3}


def _sort_key(item: tuple[GlobalVar, Any]) -> tuple[bool, int, str]:
    """Primitive functions, external ones, graph functions; `main` last."""
    gvar, func = item
    return (gvar.name_hint == "main", _ORDER.get(type(func), 4), gvar.name_hint)


@stmt_of(IRModule)
def _module(p: Printer, mod: IRModule, out: list) -> None:
    own_text = next(
        (f.module_text for f in mod.functions.values() if hasattr(f, "module_text")), None
    )
    if own_text is not None:  # functions of another language
        out.append(own_text(mod, show_meta_data=p.config.show_meta))
        return
    config = p.config
    name = config.binding_names[-1] if config.binding_names else "Module"
    with p.frame(mod, IR) as frame:
        p.names.used.add(name)
        p.module, p.module_name = mod, name
        stmts = frame.stmts
        if mod.attrs:
            stmts.append(f"{p.ir('module_attrs')}({p.mapping(mod.attrs.values)})")
        if mod.global_infos:
            stmts.append(f"{p.ir('module_global_infos')}({p.mapping(mod.global_infos)})")
        for gvar, func in sorted(mod.functions.items(), key=_sort_key):
            if isinstance(func, ExternFunc):
                stmts.append(f"{gvar.name_hint} = {p.expr(func)}")
                continue
            config.binding_names.append(gvar.name_hint)
            p.stmt(func, stmts)
            config.binding_names.pop()
    decorator = p.ir("ir_module")
    out.extend(p.with_header([Nest([f"@{decorator}", f"class {name}:"], stmts)]))


expr_of(DictAttrs)(lambda p, attrs: p.mapping(attrs.values))


@expr_of(VDevice)
def _vdevice(p: Printer, device: VDevice) -> str:
    target = "{}" if device.target is None else p.mapping(device.target.export())
    return f"{p.ir('vdevice')}({target}, {device.vdevice_id}, {quote(device.memory_scope)})"


expr_of(DummyGlobalInfo)(lambda p, _: f"{p.ir('dummy_global_info')}()")


expr_of(Target)(lambda p, target: f"{p.tir('target')}({p.mapping(target.export())})")


expr_of(Op)(lambda p, op: f"{p.ir('Op')}({quote(op.name)})")
