"""Statements of an instruction in C: calls of its function, which is defined in the file."""

from __future__ import annotations

from typing import cast

from ...arith import Analyzer
from ...base.errors import LoopwrightError, explain
from ...ir import prim_expr as pe
from ...ir.dtype import DataType
from ...ir.prim_op import subtract
from ...tir import stmt as st
from ...tir.expr import BufferLoad
from ...tir.op import is_call_to
from ...tir.tensor_intrin.c_text import FUNCTION, loops
from ...tir.tensor_intrin.instructions import texts_of
from .expr import element
from .function_text import FunctionText, Program
from .functions import definition
from .types import c_type, identifier


def is_dot(value: pe.PrimExpr) -> bool:
    """Whether a value is a dot product by the function of a record."""
    return is_call_to(value, "call_pure_extern") and str(value.args[0].value) == FUNCTION


def store_dot(ctx: FunctionText, node: st.BufferStore) -> None:
    """Add a dot product to the sums that are stored."""
    record, _, left, right = node.value.args[1:]
    _check_adjacent(right)
    sums = BufferLoad(node.buffer, node.indices)
    pointers = (_pointer(ctx, load) for load in (sums, left, right.vectors[0]))
    ctx.emit(f"{function_of(ctx.module, record.value)}({', '.join(pointers)});")


def _first(load: BufferLoad) -> pe.PrimExpr:
    (index,) = load.indices
    return index.base if isinstance(index, pe.Ramp) else index


def _pointer(ctx: FunctionText, load: BufferLoad) -> str:
    return f"&{element(ctx, load.buffer, (_first(load),))}"


def _check_adjacent(rows: pe.Shuffle) -> None:
    """Raise LoopwrightError for rows that are not one behind the other."""
    first, *others = cast("tuple[BufferLoad, ...]", rows.vectors)
    size, simplify = first.dtype.lanes, Analyzer().simplify
    for k, row in enumerate(others, 1):
        step = simplify(subtract(_first(row), _first(first)))
        if row.buffer is not first.buffer or not (
            isinstance(step, pe.IntImm) and step.value == k * size
        ):
            what = "an instruction in C reads rows that are one behind the other"
            raise LoopwrightError(explain(what, got=f"{first}, {row}", span=row.span))


def function_of(module: Program, record: str) -> str:
    """The name of the function of an instruction's record, which is defined."""
    name = f"lw_{identifier(record)}"
    if name not in module.helpers:
        spec, texts = texts_of(record)
        kinds = (c_type(DataType(t)) for t in (spec.c, spec.a, spec.b))
        params = "{}* c, const {}* a, const {}* b".format(*kinds)
        includes, lines, word = [], [], "#if"
        for text in texts:
            condition = f"{word} !defined({module.macro}_PLAIN) && {text.condition}"
            includes += [condition, f"#include <{text.header}>"]
            lines += [condition, *text.lines(spec)]
            word = "#elif"
        if texts:
            includes.append("#endif\n")
            lines = [*lines, "#else", *loops(spec), "#endif"]
        body = definition("void", name, params, *(lines or loops(spec)))
        module.helpers[name] = "\n".join([*includes, body.replace("  #", "#")])
    return name
