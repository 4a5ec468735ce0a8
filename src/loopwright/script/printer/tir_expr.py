"""Texts of primitive expressions, and of the types of scalars and pointers."""

from __future__ import annotations

from typing import Any

from ...ir import prim_expr as pe
from ...ir.expr import GlobalVar
from ...ir.op import Op
from ...ir.prim_op import add, fold_binary
from ...tir import op as tir_op
from ...tir import op_target
from ...tir.expr import BufferLoad, CommReducer, ProducerLoad, Reduce
from ...tir.index_map import IndexMap
from .core import TIR, Printer, call_of, call_text, dtype_text, expr_of, mode_of
from .doc import ADD, AND, COMPARE, LAMBDA, MULTIPLY, NOT, OR, loose, number, operand, quote
from .tir_buffer import load_indices

mode_of(pe.PrimExpr, TIR)
mode_of(CommReducer, TIR)
mode_of(pe.PrimType, TIR)
mode_of(pe.PointerType, TIR)

# Operators: sign, precedence, and the name of the function used where the operator would fold.
_OPERATORS: dict[type, tuple[str, int, str]] = {
    pe.Add: (" + ", ADD, "Add"),
    pe.Sub: (" - ", ADD, "Sub"),
    pe.Mul: (" * ", MULTIPLY, "Mul"),
    pe.FloorDiv: (" // ", MULTIPLY, "FloorDiv"),
    pe.FloorMod: (" % ", MULTIPLY, "FloorMod"),
    pe.LT: (" < ", COMPARE, "LT"),
    pe.LE: (" <= ", COMPARE, "LE"),
    pe.GT: (" > ", COMPARE, "GT"),
    pe.GE: (" >= ", COMPARE, "GE"),
    pe.EQ: (" == ", COMPARE, "EQ"),
    pe.NE: (" != ", COMPARE, "NE"),
}
# Those that are functions, which fold as operators do.
_FUNCTIONS = {pe.Mod: "truncmod", pe.Min: "min", pe.Max: "max"}
_ITER_TYPES = (
    *("DataPar", "ThreadIndex", "CommReduce", "Ordered", "Opaque", "Unrolled", "Vectorized"),
    *("Parallelized", "Tensorized"),
)
# Intrinsics whose text has the result's dtype as first or as last argument.
_DTYPE_FIRST = {
    *op_target.TYPED,
    *("call_extern", "call_pure_extern", "call_llvm_intrin", "call_llvm_pure_intrin"),
    *("call_spirv_pure_glsl450", "reinterpret", "get_active_lane_mask", "type_annotation"),
    *("vectorlow", "vectorhigh", "vectorcombine"),
}
_DTYPE_LAST = {"tvm_struct_get"}
# Intrinsics that TVMScript writes without their old prefix.
_PACKED = ("call_packed", "call_cpacked", "call_packed_lowered", "call_cpacked_lowered")
_SCRIPT_NAMES = {f"tvm_{name}": name for name in _PACKED}
# The type that an intrinsic's function infers for its result.
_RESULTS = {
    **op_target.RESULTS,
    **dict.fromkeys(_SCRIPT_NAMES.values(), "int32"),
    "tvm_throw_last_error": "handle",
}
_HAVE_BUILDERS = {*tir_op.__all__, *op_target.__all__, "vscale"}  # T makes others as handles


@expr_of(pe.IntImm)
def _int(p: Printer, node: pe.IntImm) -> str:
    dtype = node.dtype
    if dtype == p.int_dtype:
        return str(node.value)
    if dtype.is_bool:
        return f"{p.tir('bool')}({bool(node.value)})"
    return f"{p.tir(dtype)}({node.value})"


@expr_of(pe.FloatImm)
def _float(p: Printer, node: pe.FloatImm) -> str:
    text = number(node.value)
    if node.dtype.code == "custom":
        return call_text(p.tir("FloatImm"), [quote(str(node.dtype)), text])
    return text if node.dtype == p.config.float_dtype else f"{p.tir(node.dtype)}({text})"


@expr_of(pe.StringImm)
def _string(p: Printer, node: pe.StringImm) -> str:
    return p.meta("tir.StringImm", node) if "\n" in node.value else quote(node.value)


expr_of(pe.PrimType)(lambda p, node: "None" if node.dtype.is_void else p.tir(node.dtype))


@expr_of(pe.PointerType)
def _pointer_type(p: Printer, node: pe.PointerType) -> str:
    element, scope = node
    return call_text(p.tir("handle"), [dtype_text(element)] + [quote(s) for s in [scope] if s])


expr_of(pe.Range)(lambda p, n: f"{p.ir('Range')}({p.expr(n.min)}, {p.expr(add(n.min, n.extent))})")


@expr_of(pe.IterVar)
def _iter_var(p: Printer, node: pe.IterVar) -> str:
    dom = "None"
    name = p.expr(node.var)
    if node.dom is not None:
        low, high = node.dom.min, add(node.dom.min, node.dom.extent)
        dom = f"{p.tir('Range')}({p.expr(low)}, {p.expr(high)})"
    kind = quote(_ITER_TYPES[node.iter_type])
    return call_text(p.tir("iter_var"), [name, dom, kind, quote(node.thread_tag)])


@expr_of(*_OPERATORS)
def _binary(p: Printer, node: Any) -> str:
    if type(node.a) not in _OPERATORS or id(node.a) in p.texts:
        return _operation(p, node, p.expr(node.a))
    spine = [node]  # `a + b + c + ...` nests to the left, sometimes deeply
    while type(spine[-1].a) in _OPERATORS and id(spine[-1].a) not in p.texts:
        spine.append(spine[-1].a)
    text = p.expr(spine[-1].a)
    for inner in reversed(spine[1:]):
        text = p.cached(inner, _operation(p, inner, text))
    return _operation(p, node, text)


def _operation(p: Printer, node: pe.BinaryOpExpr, a: str) -> str:
    sign, level, name = _OPERATORS[type(node)]
    b = p.expr(node.b)
    if _unreadable(node):
        return f"{p.tir(name)}({a}, {b})"
    # A comparison of comparisons needs parentheses on both sides: Python would chain them.
    left = operand(a, level + 1 if level == COMPARE else level)
    return loose(f"{left}{sign}{operand(b, level + 1)}", level)


def _unreadable(node: pe.BinaryOpExpr) -> bool:
    """Whether the operator or function would not give the node back: it folds, or refuses a
    division by 0. The node's own name does."""
    kind, a, b = type(node), node.a, node.b
    if type(a) not in _LITERALS and type(b) not in _LITERALS and a is not b:
        return False
    if kind in _DIVISIONS and type(b) is pe.IntImm and b.value == 0:
        return True
    return fold_binary(kind, a, b) is not None


_LITERALS = (pe.IntImm, pe.FloatImm)
_DIVISIONS = (pe.Div, pe.Mod, pe.FloorDiv, pe.FloorMod)


@expr_of(pe.Div)
def _div(p: Printer, node: pe.Div) -> str:
    a, b = p.expr(node.a), p.expr(node.b)
    if node.a.dtype.is_integer or _unreadable(node):
        return f"{p.tir('Div')}({a}, {b})"
    return loose(f"{operand(a, MULTIPLY)} / {operand(b, MULTIPLY + 1)}", MULTIPLY)


@expr_of(*_FUNCTIONS)
def _function(p: Printer, node: pe.BinaryOpExpr) -> str:
    kind = type(node)
    name = kind.__name__ if _unreadable(node) else _FUNCTIONS[kind]
    return f"{p.tir(name)}({p.expr(node.a)}, {p.expr(node.b)})"


def _is_evaluated(p: Printer) -> bool:
    """Whether Python evaluates the text, not the parser: an index map is a function, where `and` needs
    a truth value."""
    return bool(p.frames) and isinstance(p.frames[-1].node, IndexMap)


@expr_of(pe.And, pe.Or)
def _logical(p: Printer, node: pe.BinaryOpExpr) -> str:
    both = type(node) is pe.And
    a, b = p.expr(node.a), p.expr(node.b)
    literal = isinstance(node.a, pe.IntImm) or isinstance(node.b, pe.IntImm)
    if literal or node.dtype.lanes > 1 or _is_evaluated(p):
        return f"{p.tir('And' if both else 'Or')}({a}, {b})"
    level = AND if both else OR
    sign = " and " if both else " or "
    return loose(f"{operand(a, level)}{sign}{operand(b, level + 1)}", level)


@expr_of(pe.Not)
def _not(p: Printer, node: pe.Not) -> str:
    if isinstance(node.a, pe.IntImm) or _is_evaluated(p):
        return f"{p.tir('Not')}({p.expr(node.a)})"
    return loose(f"not {operand(p.expr(node.a), NOT)}", NOT)


def lanes(p: Printer, node: pe.Ramp | pe.Broadcast) -> str:
    """The lanes of a vector."""
    return str(node.lanes) if isinstance(node.lanes, int) else p.expr(node.lanes)


call_of(pe.Cast, "tir.Cast", lambda p, node: f"{dtype_text(node.dtype)}, {p.expr(node.value)}")
call_of(pe.Select, "tir.Select", lambda p, n: p.exprs((n.condition, n.true_value, n.false_value)))
call_of(pe.Ramp, "tir.Ramp", lambda p, n: f"{p.expr(n.base)}, {p.expr(n.stride)}, {lanes(p, n)}")
call_of(pe.Broadcast, "tir.Broadcast", lambda p, node: f"{p.expr(node.value)}, {lanes(p, node)}")
call_of(pe.Shuffle, "tir.Shuffle", lambda p, n: f"[{p.exprs(n.vectors)}], [{p.exprs(n.indices)}]")


@expr_of(pe.Let)
def _let(p: Printer, node: pe.Let) -> str:
    where = f"{{{p.expr(node.var)}: {p.expr(node.value)}}}"
    return call_text(p.tir("Let"), [p.expr(node.body)], {"where": where})


# Functions that give a literal for literals.
_FOLDING = frozenset(
    f"tir.{name}"
    for name in ("shift_left", "shift_right")
    + tuple(f"bitwise_{name}" for name in ("and", "or", "xor", "not"))
)


@expr_of(pe.Call)
def _call(p: Printer, node: pe.Call) -> str:
    op = node.op
    if not isinstance(op, Op):
        callee = global_name(p, op) if isinstance(op, GlobalVar) else p.expr(op)
        return f"{callee}({p.exprs(node.args)})"
    name = op.get_attr("printer_name") or op.name.removeprefix("tir.")
    name = _SCRIPT_NAMES.get(name, name)
    dtype, args = dtype_text(node.dtype), [p.expr(a) for a in node.args]
    if not _has_builder(node, op, name):
        return f"{p.tir('Call')}({dtype}, {quote(op.name)}, [{', '.join(args)}])"
    if name in _DTYPE_FIRST:
        args.insert(0, dtype)
    elif name in _DTYPE_LAST:
        args.append(dtype)
    return f"{p.tir(name)}({', '.join(args)})"


def _has_builder(node: pe.Call, op: Op, name: str) -> bool:
    """Whether the function `T.<name>` makes this call of its arguments."""
    if op.name in _FOLDING and all(isinstance(a, pe.IntImm) for a in node.args[-1:]):
        shift = op.name.startswith("tir.shift") and not 0 <= node.args[1].value < node.dtype.bits
        return not shift and not isinstance(node.args[0], pe.IntImm)  # else folded, or refused
    if len(node.args) not in op_target.COUNTS.get(name, (len(node.args),)):
        return False
    usual = node.dtype if name in _HAVE_BUILDERS else "handle"
    return name in _DTYPE_FIRST | _DTYPE_LAST or node.dtype == _RESULTS.get(name, usual)


def global_name(p: Printer, node: GlobalVar) -> str:
    """A member of the module being printed, or just the name."""
    if p.module is None or node not in p.module.functions:
        return node.name_hint
    return f"{p.module_name}.{node.name_hint}"


@expr_of(BufferLoad)
def _load(p: Printer, node: BufferLoad) -> str:
    name = p.expr(node.buffer)
    if node.predicate is not None:
        args = [f"[{p.exprs(node.indices)}]"]
        return call_text(f"{name}.vload", args, {"predicate": p.expr(node.predicate)})
    return f"{name}[{load_indices(p, node.indices)}]"


@expr_of(ProducerLoad)
def _producer_load(p: Printer, node: ProducerLoad) -> str:
    name = getattr(node.producer, "name", None) or getattr(node.producer, "name_hint", "tensor")
    return f"{name}[{load_indices(p, node.indices)}]"


@expr_of(CommReducer)
def _comm_reducer(p: Printer, node: CommReducer) -> str:
    with p.frame(node) as frame:
        params = [p.define(v, v.name or "v", frame) for v in (*node.lhs, *node.rhs)]
        results = [p.expr(r) for r in node.result]
    body = results[0] if len(results) == 1 else f"({', '.join(results)})"
    text = f"lambda {', '.join(params)}: {body}"
    return f"{p.tir('comm_reducer')}({text}, [{p.exprs(node.identity_element)}])"


@expr_of(Reduce)
def _reduce(p: Printer, node: Reduce) -> str:
    keywords = {
        "source": f"[{p.exprs(node.source)}]",
        "init": f"[{p.exprs(node.init)}]",
        "axis": f"[{p.exprs(node.axis)}]",
        "condition": p.expr(node.condition),
        "value_index": str(node.value_index),
    }
    return call_text(p.tir("reduce"), [p.expr(node.combiner)], keywords)


@expr_of("tir.IndexMap")
def _index_map(p: Printer, node: IndexMap) -> str:
    with p.frame(node) as frame:
        params = [p.define(v, v.name or "v", frame) for v in node.initial_indices]
        results = p.tuple(node.final_indices)
    text = loose(f"lambda {', '.join(params)}: {results}", LAMBDA)
    inverse = getattr(node, "inverse_index_map", None)
    keywords = {"inverse_index_map": p.expr(inverse)} if inverse is not None else {}
    dtype = str(node.initial_indices[0].dtype) if node.initial_indices else "int64"
    if dtype != "int64":
        keywords["index_dtype"] = quote(dtype)
    return call_text(p.tir("index_map"), [text], keywords)
