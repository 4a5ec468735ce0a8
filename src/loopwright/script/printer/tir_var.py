"""Texts of scalar variables, and where free ones are defined."""

from __future__ import annotations

from ...ir import prim_expr as pe
from ...tir.buffer import Buffer
from .core import RELAX, TIR, Printer, call_text, dtype_text, expr_of
from .doc import quote
from .naming import Frame


@expr_of(pe.Var)
def var(p: Printer, node: pe.Var) -> str:
    """A variable's name; a free one is defined first, in the scope that holds all its uses."""
    text = p.names.texts.get(id(node))
    if text is None:
        if p.mode == RELAX:
            return _symbolic(p, node)
        frame = lowest_frame(p, node)
        text = p.define(node, node.name or "v", frame)
        frame.stmts.append(f"{text} = {var_creation(p, node)}")
    return text


def _symbolic(p: Printer, node: pe.Var) -> str:
    """A symbolic variable of a Relax function is defined at the function's top."""
    relax = [f for f in p.frames if f.mode == RELAX]
    frame = next((f for f in relax if f.is_func), relax[0] if relax else p.frames[0])
    if frame.func_vars is not None:
        frame.func_vars.add(id(node))
    text = p.define(node, node.name or "v", frame)
    frame.stmts.append(f"{text} = {var_creation(p, node)}")
    return text


def lowest_frame(p: Printer, obj: pe.PrimExpr | Buffer) -> Frame:
    """The innermost open scope that holds all uses of a free variable or buffer."""
    open_frames = {id(f.node): f for f in p.frames if f.node is not None and f.mode == TIR}
    for scope in reversed(p.uses.common_scopes(obj)):
        frame = open_frames.get(id(scope))
        if frame is not None:
            return frame
    return next((f for f in p.frames if f.mode == TIR), p.frames[0])


def var_creation(p: Printer, node: pe.Var) -> str:
    """The text that creates a variable of this type: `T.int64()`, `T.handle("float32", "global")`."""
    size = {"is_size_var": "True"} if isinstance(node, pe.SizeVar) else None
    if node.type_annotation is not None:
        element, scope = node.type_annotation
        args = [dtype_text(element), *([quote(scope)] if scope else [])]
        return call_text(p.tir("handle"), args, size)
    return call_text(p.tir(node.dtype), [], size)


def var_type(p: Printer, node: pe.Var) -> str:
    """A variable's type as an annotation."""
    if node.type_annotation is not None:
        element, scope = node.type_annotation
        args = [dtype_text(element), *([quote(scope)] if scope else [])]
        return call_text(p.tir("handle"), args)
    return p.tir(node.dtype)
