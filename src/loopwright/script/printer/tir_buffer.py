"""Texts of buffers: how they are declared, and indices and regions of them."""

from __future__ import annotations

from typing import Any, TypeGuard

from ...ir import prim_expr as pe
from ...ir.prim_op import add, const
from ...tir.buffer import Buffer, BufferRegion
from .core import TIR, Printer, call_text, dtype_text, expr_of, mode_of, tuple_text
from .doc import ADD, operand, quote
from .naming import Frame
from .tir_var import lowest_frame, var_creation

mode_of(Buffer, TIR)
mode_of(BufferRegion, TIR)

_ALIGNMENT = 64  # the default of declarations, not printed


@expr_of(Buffer)
def buffer_name(p: Printer, node: Buffer) -> str:
    """A buffer's name; a free one is declared first, in the scope that holds all its uses."""
    text = p.names.texts.get(id(node))
    if text is not None:
        return text
    frame = lowest_frame(p, node)
    name = define_buffer(p, node, frame)
    frame.stmts.append(f"{name} = {declaration(p, node, 'Buffer', [], frame, own_data=True)}")
    return name


def define_buffer(p: Printer, node: Buffer, frame: Frame) -> str:
    """A name for a buffer, visible until `frame` ends."""
    return p.define(node, node.name or "buffer", frame)


def is_simple(node: Buffer) -> bool:
    """Whether a parameter's buffer may be written as a `T.Buffer` annotation."""
    return (
        not node.strides
        and node.elem_offset is None
        and node.scope() == "global"
        and node.data_alignment == _ALIGNMENT
        and node.offset_factor == 1
        and node.buffer_type == "default"
        and not node.axis_separators
        and all(not _has_var(extent) for extent in node.shape)
    )


def _has_var(expr: pe.PrimExpr) -> bool:
    if isinstance(expr, pe.IntImm):
        return False
    return isinstance(expr, pe.Var) or any(_has_var(child) for child in expr.children())


def annotation(p: Printer, node: Buffer) -> str:
    """`T.Buffer((16, 16), "float32")` of a parameter; its pointer is called `A.data`."""
    p.names.define_as(node.data, f"{p.names.get(node)}.data", p.frames[-1])
    return call_text(p.tir("Buffer"), [p.tuple(node.shape), dtype_text(node.dtype)])


class _Declaration:
    """Collects the arguments of a buffer's declaration, and the variables that it defines."""

    def __init__(self, p: Printer, node: Buffer, frame: Frame) -> None:
        self.p, self.node, self.frame = p, node, frame
        self.names: list[str] = []
        self.makers: list[str] = []
        self.count: dict[int, int] = {}

    def is_new(self, expr: pe.PrimExpr | None) -> TypeGuard[pe.Var]:
        return isinstance(expr, pe.Var) and self.p.names.get(expr) is None

    def new_line(self, var: pe.Var) -> None:
        """Define a variable before the declaration."""
        p = self.p
        self.names.append(p.define(var, var.name or "v", self.frame))
        self.makers.append(var_creation(p, var))

    def inline(self, var: pe.Var, text: str) -> bool:
        """Call a variable by the buffer's field if nothing else in the buffer mentions it."""
        if self.occurrences(var) == 1:
            self.p.names.define_as(var, text, self.frame)
            return True
        self.new_line(var)
        return False

    def occurrences(self, var: pe.Var) -> int:
        if not self.count:
            node = self.node
            for expr in (node.data, node.elem_offset, *node.shape, *node.strides):
                if expr is not None:
                    _count(expr, self.count)
        return self.count.get(id(var), 0)

    def finish(self) -> None:
        if len(self.names) == 1:
            self.frame.stmts.append(f"{self.names[0]} = {self.makers[0]}")
        elif self.names:
            left, right = ", ".join(self.names), ", ".join(self.makers)
            self.frame.stmts.append(f"{left} = {right}")


def _count(expr: pe.PrimExpr, counts: dict[int, int]) -> None:
    if isinstance(expr, pe.Var):
        counts[id(expr)] = counts.get(id(expr), 0) + 1
    else:
        for child in expr.children():
            _count(child, counts)


def declaration(
    p: Printer,
    node: Buffer,
    callee: str,
    args: list[str],
    frame: Frame,
    own_data: bool,
    own_layout: bool = False,
) -> str:
    """`T.<callee>(args, shape, dtype, ...)`, defaults left out.

    own_data: the declaration makes the pointer, which is called `A.data`. own_layout: it also
    makes the variables of its strides and offset (`A.strides[0]`, `A.elem_offset`).
    """
    decl = _Declaration(p, node, frame)
    name = p.names.get(node) or node.name
    for extent in node.shape:
        if decl.is_new(extent):
            decl.new_line(extent)
    positional = [*args, p.tuple(node.shape)]
    if node.dtype != p.config.buffer_dtype:
        positional.append(dtype_text(node.dtype))
    keywords: dict[str, str] = {}
    data = node.data
    if not (decl.is_new(data) and own_data and decl.inline(data, f"{name}.data")):
        if decl.is_new(data):
            decl.new_line(data)
        keywords["data"] = p.expr(data)
    if node.strides:
        keywords["strides"] = _strides(p, node, decl, name)
    offset = node.elem_offset
    offset_is_own = False
    if decl.is_new(offset):
        offset_is_own = True
        decl.inline(offset, f"{name}.elem_offset")
    elif offset is not None:
        keywords["elem_offset"] = p.expr(offset)
    if node.scope() != "global":
        keywords["scope"] = quote(node.scope())
    if node.data_alignment != _ALIGNMENT:
        keywords["align"] = str(node.data_alignment)
    if offset is None and node.offset_factor != 1:
        keywords["elem_offset"] = "0"  # not its own
    if node.offset_factor != 1 or offset_is_own:
        keywords["offset_factor"] = str(node.offset_factor)
    if node.buffer_type != "default":
        keywords["buffer_type"] = quote(node.buffer_type)
    if node.axis_separators:
        keywords["axis_separators"] = p.value(list(node.axis_separators))
    decl.finish()
    return call_text(p.tir(callee), positional, keywords)


def _strides(p: Printer, node: Buffer, decl: _Declaration, name: str) -> str:
    texts = []
    for i, stride in enumerate(node.strides):
        if decl.is_new(stride) and decl.inline(stride, f"{name}.strides[{i}]"):
            texts.append(quote(stride.name))
        else:
            texts.append(p.expr(stride))
    return tuple_text(texts)


def load_indices(p: Printer, indices: tuple[Any, ...]) -> str:
    """Indices of an access; a vector index prints as a slice."""
    if not indices:
        return "()"
    return ", ".join([_index(p, i) for i in indices])


def _index(p: Printer, index: pe.PrimExpr) -> str:
    if type(index) is not pe.Ramp or not isinstance(index.stride, pe.IntImm):
        return p.expr(index)
    step, base = index.stride.value, p.expr(index.base)
    count = index.lanes if step == 1 else index.lanes * step
    if isinstance(index.base, pe.IntImm) or not isinstance(count, int):
        text = f"{base}:{p.expr(add(index.base, count))}"
    else:  # a sum that does not fold
        text = f"{base}:{operand(base, ADD)} + {p.expr(const(count, index.base.dtype))}"
    return text if step == 1 else f"{text}:{p.expr(index.stride)}"


@expr_of(BufferRegion)
def region(p: Printer, node: BufferRegion) -> str:
    """`A[i, 0:16]`"""
    name = p.expr(node.buffer)
    if not node.region:
        return f"{name}[()]"
    return f"{name}[{', '.join([_slice(p, r) for r in node.region])}]"


def _slice(p: Printer, r: pe.Range) -> str:
    low = p.expr(r.min)
    if isinstance(r.extent, pe.IntImm) and r.extent.value == 1:
        return low
    return f"{low}:{p.expr(add(r.min, r.extent))}"
