"""Texts of loops, blocks and the other statements, and of primitive functions.

A scope that TVMScript writes with `with` is written as a plain statement where it is the last one
of its surroundings: `B = T.allocate(...)` instead of `with T.allocate(...) as B:`.
"""

from __future__ import annotations

from typing import Any

from ...ir import prim_expr as pe
from ...ir.literals import int_value
from ...ir.node import Node
from ...ir.prim_op import add
from ...ir.structural import structural_equal
from ...runtime.tensor import Tensor
from ...tir import stmt as ts
from ...tir.buffer import Buffer
from ...tir.function import PrimFunc
from .core import TIR, Printer, call_text, dtype_text, expr_of, mode_of, stmt_of
from .doc import GAP, Nest, quote
from .naming import Frame
from .tir_buffer import annotation, declaration, define_buffer, is_simple, load_indices
from .tir_var import lowest_frame, var_type
from .uses import occurs

mode_of(ts.Stmt, TIR)
mode_of(PrimFunc, TIR)
mode_of(ts.MatchBufferRegion, TIR)

_AXES = {0: "spatial", 2: "reduce", 3: "scan", 4: "opaque"}
_KINDS = {
    ts.ForKind.SERIAL: "serial",
    ts.ForKind.PARALLEL: "parallel",
    ts.ForKind.VECTORIZED: "vectorized",
    ts.ForKind.UNROLLED: "unroll",
    ts.ForKind.THREAD_BINDING: "thread_binding",
}
_MOST_VALUES = 64  # of constant data, written in the text itself
_THREADS = ("thread_extent", "virtual_thread")


def _plain_scope(p: Printer, node: ts.Stmt) -> bool:
    """Whether a `with` scope may be written as a plain statement here."""
    return p.frames[-1].last and id(node) not in p.notes


def _emit_scope(out: list, plain: bool, line: str, name: str | None, body: list) -> None:
    """`name = line` and the body, or `with line as name:` around the body."""
    if plain:
        out.append(f"{name} = {line}" if name else line)
        out.extend(body)
    else:
        out.append(Nest([f"with {line} as {name}:" if name else f"with {line}:"], body))


@stmt_of(ts.SeqStmt)
def _seq(p: Printer, node: ts.SeqStmt, out: list) -> None:
    frame = p.frames[-1]
    if out is not frame.stmts:  # free-standing: definitions of free variables come between
        with p.frame(node) as frame:
            _seq_in(p, node, frame)
        out.extend(frame.stmts)
    else:
        _seq_in(p, node, frame)


def _seq_in(p: Printer, node: ts.SeqStmt, frame: Frame) -> None:
    final = len(node.seq) - 1
    for i, item in enumerate(node.seq):
        frame.last = i == final
        p.stmt(item, frame.stmts)


@stmt_of(ts.LetStmt)
def _let(p: Printer, node: ts.LetStmt, out: list) -> None:
    plain = _plain_scope(p, node) and node.var.dtype.code != "custom"  # not an annotation
    value = p.expr(node.value)
    defined = p.names.get(node.var) is not None
    with p.frame(node) as frame:
        if not defined:
            p.define(node.var, node.var.name or "v", frame)
        name = p.expr(node.var)
        p.body(node.body, frame)
    if defined:
        line = call_text(p.tir("LetStmt"), [value], {"var": name})
        out.append(Nest([f"with {line}:"], frame.stmts))
    elif plain:
        out.append(f"{name}: {var_type(p, node.var)} = {value}")
        out.extend(frame.stmts)
    else:
        out.append(Nest([f"with {p.tir('LetStmt')}({value}) as {name}:"], frame.stmts))


@stmt_of(ts.AttrStmt)
def _attr(p: Printer, node: ts.AttrStmt, out: list) -> None:
    inner = node.body
    if node.attr_key == "realize_scope" and isinstance(inner, ts.BufferRealize):
        if node.node is inner.buffer.data and isinstance(node.value, pe.StringImm):
            _realize_in(p, inner, node.value.value, out)
            return
    plain = _plain_scope(p, node)
    name = None
    launch = node.attr_key in _THREADS and isinstance(node.node, pe.IterVar)
    if not launch:  # the names in its line are defined before it
        args = [p.value(node.node), quote(node.attr_key), p.expr(node.value)]
    with p.frame(node) as frame:
        if launch:
            var = node.node.var
            extent = p.expr(node.value)
            if p.names.get(var) is not None:
                thread = p.expr(var)
            elif p.uses.is_above_all_uses(node, var):
                name = p.define(var, var.name or "v", frame)
                thread = quote(node.node.thread_tag)
            else:
                thread = _env_thread(p, node.node)
            line = call_text(p.tir("launch_thread"), [thread, extent])
        else:
            line = call_text(p.tir("attr"), args)
        p.body(node.body, frame)
    _emit_scope(out, plain, line, name, frame.stmts)


def _env_thread(p: Printer, axis: pe.IterVar) -> str:
    frame = lowest_frame(p, axis.var)
    name = p.define(axis.var, axis.var.name or "v", frame)
    frame.stmts.append(f"{name} = {p.tir('env_thread')}({quote(axis.thread_tag)})")
    return name


@stmt_of(ts.AssertStmt)
def _assert(p: Printer, node: ts.AssertStmt, out: list) -> None:
    plain = _plain_scope(p, node)
    condition, message = p.expr(node.condition), p.expr(node.message)
    with p.frame(node) as frame:
        p.body(node.body, frame)
    if plain:
        out.append(f"assert {condition}, {message}")
        out.extend(frame.stmts)
    else:
        line = f"with {p.tir('Assert')}({condition}, {message}):"
        out.append(Nest([line], frame.stmts))


@stmt_of(ts.BufferStore)
def _store(p: Printer, node: ts.BufferStore, out: list) -> None:
    name = p.expr(node.buffer)
    if node.predicate is not None:
        args = [f"[{p.exprs(node.indices)}]", p.expr(node.value)]
        out.append(call_text(f"{name}.vstore", args, {"predicate": p.expr(node.predicate)}))
        return
    indices = load_indices(p, node.indices)
    out.append(f"{name}[{indices}] = {p.expr(node.value)}")


@stmt_of(ts.BufferRealize)
def _realize(p: Printer, node: ts.BufferRealize, out: list) -> None:
    _realize_in(p, node, node.buffer.scope(), out)


def _realize_in(p: Printer, node: ts.BufferRealize, scope: str, out: list) -> None:
    plain = _plain_scope(p, node)
    name = p.expr(node.buffer)
    ranges = [f"{p.expr(r.min)}:{p.expr(add(r.min, r.extent))}" for r in node.bounds]
    args = [f"{name}[{', '.join(ranges) or '()'}]", quote(scope)]
    if int_value(node.condition) != 1:
        args.append(p.expr(node.condition))
    with p.frame(node) as frame:
        p.body(node.body, frame)
    _emit_scope(out, plain, call_text(p.tir("realize"), args), None, frame.stmts)


@stmt_of(ts.While)
def _while(p: Printer, node: ts.While, out: list) -> None:
    condition = p.expr(node.condition)
    with p.frame(node) as frame:
        p.body(node.body, frame)
    out.append(Nest([f"while {condition}:"], frame.stmts))


@stmt_of(ts.IfThenElse)
def _if(p: Printer, node: ts.IfThenElse, out: list) -> None:
    condition = p.expr(node.condition)
    with p.frame(node.then_case) as frame:
        p.body(node.then_case, frame)
    out.append(Nest([f"if {condition}:"], frame.stmts))
    if node.else_case is not None:
        with p.frame(node.else_case) as frame:
            p.body(node.else_case, frame)
        out.append(Nest(["else:"], frame.stmts))


@stmt_of(ts.Evaluate)
def _evaluate(p: Printer, node: ts.Evaluate, out: list) -> None:
    value = node.value
    if isinstance(value, pe.Call):
        if getattr(value.op, "name", "") == "tir.ret" and len(value.args) == 1:
            out.append(f"return {p.expr(value.args[0])}")
        else:
            out.append(p.expr(value))
    else:
        out.append(f"{p.tir('evaluate')}({p.expr(value)})")


@stmt_of(ts.Allocate)
def _allocate(p: Printer, node: ts.Allocate, out: list) -> None:
    if p.sugar and _is_declared_once(node) and isinstance(node.body, ts.DeclBuffer):
        _declare(p, node.body, out, node, own_data=True)
        return
    plain = _plain_scope(p, node)
    scope = node.buffer_var.type_annotation[1] if node.buffer_var.type_annotation else "global"
    args = [f"[{p.exprs(node.extents)}]", dtype_text(node.dtype), quote(scope)]
    keywords = {}
    if int_value(node.condition) != 1:
        keywords["condition"] = p.expr(node.condition)
    if node.annotations:
        keywords["annotations"] = p.mapping(node.annotations)
    with p.frame(node) as frame:
        name = p.define(node.buffer_var, node.buffer_var.name or "v", frame)
        p.body(node.body, frame)
    _emit_scope(out, plain, call_text(p.tir("allocate"), args, keywords), name, frame.stmts)


def _is_declared_once(node: ts.Allocate) -> bool:
    """Whether an allocation is followed by the declaration of its whole as one buffer."""
    inner = node.body
    return (
        isinstance(inner, ts.DeclBuffer)
        and inner.buffer.data is node.buffer_var
        and inner.buffer.dtype == node.dtype
        and int_value(node.condition) == 1
        and not node.annotations
        and len(node.extents) == len(inner.buffer.shape)
        and structural_equal(node.extents, inner.buffer.shape)
    )


@stmt_of(ts.AllocateConst)
def _allocate_const(p: Printer, node: ts.AllocateConst, out: list) -> None:
    plain = _plain_scope(p, node)
    args = [_values(p, node.data), dtype_text(node.dtype), f"[{p.exprs(node.extents)}]"]
    keywords = {"annotations": p.mapping(node.annotations)} if node.annotations else None
    with p.frame(node) as frame:
        name = p.define(node.buffer_var, node.buffer_var.name or "v", frame)
        p.body(node.body, frame)
    _emit_scope(out, plain, call_text(p.tir("allocate_const"), args, keywords), name, frame.stmts)


def _values(p: Printer, data: Tensor) -> str:
    """Few values as a list, many as a reference into the metadata."""
    if data.size > _MOST_VALUES:
        return p.meta("runtime.NDArray", data)
    return p.value(data.numpy().reshape(-1).tolist())


@stmt_of(ts.DeclBuffer)
def _decl_buffer(p: Printer, node: ts.DeclBuffer, out: list) -> None:
    _declare(p, node, out, node, own_data=False)


def _declare(p: Printer, node: ts.DeclBuffer, out: list, scope: ts.Stmt, own_data: bool) -> None:
    plain = _plain_scope(p, scope)
    outer = p.frames[-1]
    with p.frame(scope) as frame:
        name = define_buffer(p, node.buffer, frame)
        # The variables that the declaration mentions are defined before it, not in its scope.
        line = declaration(p, node.buffer, "decl_buffer", [], outer, own_data)
        p.body(node.body, frame)
    _emit_scope(out, plain, line, name, frame.stmts)


@stmt_of(ts.For)
def _for(p: Printer, node: ts.For, out: list) -> None:
    nest = _grid(node) if p.sugar else []
    if len(nest) > 1:
        extents = [p.expr(loop.extent) for loop in nest]
        with p.frame(node) as frame:
            names = [p.define(loop.loop_var, _hint(loop), frame) for loop in nest]
            p.body(nest[-1].body, frame)
        # The first loop's underline covers the whole statement, an inner one's its variable.
        names[1:] = [p.mark(loop, n) for loop, n in zip(nest[1:], names[1:], strict=True)]
        head = f"for {', '.join(names)} in {p.tir('grid')}({', '.join(extents)}):"
        out.append(Nest([head], frame.stmts))
        return
    domain = _domain(p, node)
    with p.frame(node) as frame:
        name = p.define(node.loop_var, _hint(node), frame)
        p.body(node.body, frame)
    out.append(Nest([f"for {name} in {domain}:"], frame.stmts))


def _hint(loop: ts.For) -> str:
    return loop.loop_var.name or "v"


def _grid(node: ts.For) -> list[ts.For]:
    """The perfectly nested plain loops from `node` on, none depending on another."""
    nest: list[ts.For] = []
    seen: set[int] = set()
    loop: Any = node
    while isinstance(loop, ts.For):
        special = loop.kind is not ts.ForKind.SERIAL or loop.annotations or loop.thread_binding
        extent = loop.extent
        depends = not isinstance(extent, pe.IntImm) and seen and occurs(extent, seen)
        if special or int_value(loop.min) != 0 or depends:
            break
        nest.append(loop)
        seen.add(id(loop.loop_var))
        loop = loop.body
    return nest


def _domain(p: Printer, node: ts.For) -> str:
    if int_value(node.min) == 0:
        args = [p.expr(node.extent)]
    else:
        args = [p.expr(node.min), p.expr(add(node.min, node.extent))]
    keywords = {}
    if node.thread_binding is not None:
        keywords["thread"] = quote(node.thread_binding.thread_tag)
    if node.annotations:
        keywords["annotations"] = p.mapping(node.annotations)
    plain = node.kind is ts.ForKind.SERIAL and not node.annotations
    return call_text("range" if plain else p.tir(_KINDS[node.kind]), args, keywords)


# ---------------------------------------------------------------------- blocks


@stmt_of(ts.BlockRealize)
def _block_realize(p: Printer, node: ts.BlockRealize, out: list) -> None:
    start = len(out)
    _block_text(p, node.block, node, out)
    p.decorate(node.block, out, start)


@stmt_of(ts.Block)
def _block(p: Printer, node: ts.Block, out: list) -> None:
    _block_text(p, node, None, out)


def _block_text(p: Printer, block: ts.Block, realize: ts.BlockRealize | None, out: list) -> None:
    with p.frame(block) as frame:
        stmts = frame.stmts
        _axes(p, block, realize, frame)
        if realize is not None and int_value(realize.predicate) != 1:
            stmts.append(f"{p.tir('where')}({p.expr(realize.predicate)})")
        stmts.append(f"{p.tir('reads')}({p.exprs(block.reads)})")
        stmts.append(f"{p.tir('writes')}({p.exprs(block.writes)})")
        if block.annotations:
            stmts.append(f"{p.tir('block_attr')}({p.mapping(block.annotations)})")
        _alloc_buffers(p, block, frame)
        for match in block.match_buffers:
            p.stmt(match, stmts)
        if block.init is not None:
            with p.frame(block.init) as init:
                p.body(block.init, init)
            stmts.append(Nest([f"with {p.tir('init')}():"], init.stmts))
        p.body(block.body, frame)
    keywords = {"no_realize": "True"} if realize is None else None
    head = call_text(p.tir("block"), [quote(block.name_hint)], keywords)
    out.append(Nest([f"with {head}:"], stmts))


def _alloc_buffers(p: Printer, block: ts.Block, frame: Frame) -> None:
    for buffer in block.alloc_buffers:
        name = define_buffer(p, buffer, frame)
        line = declaration(p, buffer, "alloc_buffer", [], frame, own_data=True)
        frame.stmts.append(f"{name} = {line}")


def _axes(p: Printer, block: ts.Block, realize: ts.BlockRealize | None, frame: Frame) -> None:
    loops: dict[int, ts.For] = _loops_around(p) if realize is not None and p.sugar else {}
    group: list[int] = []
    for i, axis in enumerate(block.iter_vars):
        loop = loops.get(id(realize.iter_values[i])) if realize is not None else None
        if loop is not None and axis.iter_type in (0, 2) and _same_domain(loop, axis):
            group.append(i)
            continue
        _remap(p, block, realize, group, frame)
        group = []
        _axis(p, block, realize, i, frame)
    _remap(p, block, realize, group, frame)


def _loops_around(p: Printer) -> dict[int, ts.For]:
    loops: dict[int, ts.For] = {}
    for frame in p.frames:
        loop = frame.node
        while isinstance(loop, ts.For):
            loops[id(loop.loop_var)] = loop
            loop = loop.body
    return loops


def _same_domain(loop: ts.For, axis: pe.IterVar) -> bool:
    return _same(loop.min, axis.dom.min) and _same(loop.extent, axis.dom.extent)


def _same(a: pe.PrimExpr, b: pe.PrimExpr) -> bool:
    if a is b:
        return True
    if isinstance(a, pe.IntImm) and isinstance(b, pe.IntImm):
        return a.value == b.value and a.dtype == b.dtype
    return type(a) is type(b) and structural_equal(a, b)


def _remap(p: Printer, block: ts.Block, realize: Any, group: list[int], frame: Frame) -> None:
    if len(group) == 1:
        _axis(p, block, realize, group[0], frame)
    elif group:
        kinds = "".join("S" if block.iter_vars[i].iter_type == 0 else "R" for i in group)
        values = p.exprs([realize.iter_values[i] for i in group])
        axes = [block.iter_vars[i].var for i in group]
        names = [p.define(v, v.name or "v", frame) for v in axes]
        line = f'{p.tir("axis.remap")}("{kinds}", [{values}])'
        frame.stmts.append(f"{', '.join(names)} = {line}")


def _axis(
    p: Printer, block: ts.Block, realize: ts.BlockRealize | None, i: int, frame: Frame
) -> None:
    axis = block.iter_vars[i]
    low, extent = axis.dom.min, axis.dom.extent
    if int_value(low) == 0:
        domain = p.expr(extent)
    else:
        domain = f"({p.expr(low)}, {p.expr(add(low, extent))})"
    args = [domain] if realize is None else [domain, p.expr(realize.iter_values[i])]
    name = p.define(axis.var, axis.var.name or "v", frame)
    kind = p.tir(f"axis.{_AXES.get(axis.iter_type, 'opaque')}")
    frame.stmts.append(f"{name} = {call_text(kind, args)}")


@stmt_of(ts.MatchBufferRegion)
def _match_buffer(p: Printer, node: ts.MatchBufferRegion, out: list) -> None:
    source = p.expr(node.source)
    frame = p.frames[-1]
    name = define_buffer(p, node.buffer, frame)
    line = declaration(p, node.buffer, "match_buffer", [source], frame, True, own_layout=True)
    out.append(f"{name} = {line}")


# ---------------------------------------------------------------------- functions


@stmt_of(PrimFunc)
def _prim_func(p: Printer, func: PrimFunc, out: list) -> None:
    name = p.function_name(func)
    with p.frame(func, TIR, is_func=True) as frame:
        params, inlined = _params(p, func, frame)
        attrs = dict(func.attrs.items())
        if attrs.get("global_symbol") == name:
            del attrs["global_symbol"]
        if attrs:
            frame.stmts.append(f"{p.tir('func_attr')}({p.mapping(attrs)})")
        for param in func.params:
            buffer = func.buffer_map.get(param)
            if buffer is not None and id(buffer) not in inlined:
                handle = p.expr(param)
                left = define_buffer(p, buffer, frame)
                line = declaration(
                    p, buffer, "match_buffer", [handle], frame, True, own_layout=True
                )
                frame.stmts.append(f"{left} = {line}")
        root = _implicit_root(func.body) if p.sugar else None
        if root is not None:
            frame.stmts.append(f'# with {p.tir("block")}("root"):')
            _alloc_buffers(p, root, frame)
            p.body(root.body, frame)
        else:
            p.body(func.body, frame)
        returns = _returns(p, func.ret_type)
    private = {} if "global_symbol" in func.attrs else {"private": "True"}
    decorator = call_text(p.tir("prim_func"), [], private) if private else p.tir("prim_func")
    heads = [f"@{decorator}", f"def {name}({', '.join(params)}){returns}:"]
    lines: list = [Nest(heads, frame.stmts), GAP]
    out.extend(lines if p.module is not None else p.with_header(lines))


def _returns(p: Printer, kind: Any) -> str:
    if kind is None or getattr(kind, "dtype", kind) == "void":
        return ""
    return f" -> {p.expr(kind) if isinstance(kind, Node) else p.tir(str(kind))}"


def _params(p: Printer, func: PrimFunc, frame: Frame) -> tuple[list[str], set[int]]:
    """The parameters' texts, and the buffers (by id) that are written as annotations."""
    views = func.buffer_map
    pointers: dict[int, int] = {}
    for buffer in views.values():
        pointers[id(buffer.data)] = pointers.get(id(buffer.data), 0) + 1
    in_body = occurs(func.body, {id(v) for v in views}) if p.sugar else set()
    texts: list[str] = []
    inlined: set[int] = set()
    for param in func.params:
        buffer: Buffer | None = views.get(param) if p.sugar else None
        if (
            buffer is not None
            and id(param) not in in_body
            and pointers[id(buffer.data)] == 1
            and is_simple(buffer)
        ):
            name = define_buffer(p, buffer, frame)
            texts.append(f"{name}: {annotation(p, buffer)}")
            inlined.add(id(buffer))
        else:
            name = p.define(param, param.name or "v", frame)
            texts.append(f"{name}: {var_type(p, param)}")
    return texts, inlined


def _implicit_root(body: ts.Stmt) -> ts.Block | None:
    """The root block, where it says nothing that its comment does not."""
    if not isinstance(body, ts.BlockRealize) or body.iter_values:
        return None
    block = body.block
    says_more = block.annotations or block.match_buffers or block.reads or block.writes
    if int_value(body.predicate) != 1 or says_more or block.init is not None:
        return None
    inner = block.body
    if block.alloc_buffers:
        return block
    if isinstance(inner, ts.BlockRealize):
        return block if inner.block.iter_vars else None
    return block if _has_block(inner) else None


def _has_block(node: ts.Stmt) -> bool:
    stack = [node]
    while stack:
        stmt = stack.pop()
        if isinstance(stmt, ts.BlockRealize):
            return True
        if isinstance(stmt, ts.SeqStmt):
            stack.extend(reversed(stmt.seq))
        elif isinstance(stmt, ts.IfThenElse):
            stack.extend(s for s in (stmt.then_case, stmt.else_case) if s is not None)
        elif isinstance(stmt, ts.Stmt) and hasattr(stmt, "body"):
            stack.append(stmt.body)
    return False


@expr_of(ts.Stmt)
def _stmt_as_expr(p: Printer, node: ts.Stmt) -> str:
    """A statement as the value of an attribute."""
    with p.frame(node) as frame:
        p.body(node, frame)
    return quote(p.render(frame.stmts))
