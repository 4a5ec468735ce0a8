"""Variables, bindings, purity, recursion, dead code."""

from __future__ import annotations

import pytest

from loopwright import relax
from loopwright.ir.expr import GlobalVar
from loopwright.ir.module import IRModule
from loopwright.ir.prim_expr import Var as TirVar
from loopwright.relax import BlockBuilder, analysis, layout
from loopwright.relax.analysis.variables import overwritten
from loopwright.tir import layout as layout_of
from loopwright.tvm.relax.in_place import in_place_calls, liveness

from .support import plus, tensor, twice, var

pytestmark = pytest.mark.no_roundtrip


def build(pure: bool = True):
    """main(x): a = 2x; b = a + x (unused: c = 2b); returns b, printing it where impure."""
    bb, x = BlockBuilder(), var("x", 4)
    with bb.function("main", [x], pure=pure):
        with bb.dataflow():
            a = bb.emit(twice(x), name_hint="a")
            b = bb.emit_output(plus(a, x), name_hint="b")
            bb.emit(twice(b), name_hint="c")
        if not pure:
            bb.emit(relax.op.relax_print(b))
        bb.emit(twice(b), name_hint="d")
        bb.emit_func_output(b)
    return bb.get()["main"]


def names(variables):
    return [v.name_hint for v in variables]


def test_variables():
    func = build()
    assert names(analysis.bound_vars(func)) == ["x", "a", "b", "c", "d"]
    assert names(analysis.free_vars(func)) == []
    assert names(analysis.free_vars(func.body)) == ["x"]
    assert names(analysis.used_vars(func.body.blocks[0])) == ["x", "a", "b"]
    assert set(names(analysis.all_vars(func.body))) == {"x", "a", "b", "c", "d"}


def test_global_variables():
    call = relax.Call(GlobalVar("f"), [relax.op.call_tir(GlobalVar("k"), [], tensor(4))])
    assert names(analysis.all_global_vars(call)) == ["f", "k"]


def test_symbolic_variables():
    n, m, k = (TirVar(name, "int64") for name in "nmk")
    bb, x = BlockBuilder(), var("x", n, n * 2)
    with bb.function("main", [x]):
        bb.match_cast(x, tensor(m, 4))
        bb.emit_func_output(bb.emit(relax.op.call_dps_packed("f", x, tensor(k))))
    func = bb.get()["main"]
    assert analysis.defined_symbolic_vars(func) == [n, m]
    assert analysis.free_symbolic_vars(func) == [k]


def test_bindings():
    func = build()
    values = {v.name_hint: value for v, value in analysis.get_var2val(func).items()}
    assert list(values) == ["a", "b", "c", "d"]
    assert list(analysis.name_to_binding(func)) == ["a", "b", "c", "d"]
    chain = {v.name_hint: names(users) for v, users in analysis.udchain(func).items()}
    assert chain == {"a": ["b"], "x": ["a", "b"], "b": ["c", "d"], "c": [], "d": []}


def test_post_order():
    seen = []
    x = var("x", 4)
    analysis.post_order_visit(plus(twice(x), x), lambda e: seen.append(type(e).__name__))
    assert seen == ["Op", "Op", "Var", "Call", "Call"]


def test_purity():
    x = var("x", 4)
    assert not analysis.contains_impure_call(build())
    impure = build(pure=False)
    assert analysis.find_impure_call(impure).op.name == "relax.print"
    packed = relax.Call(relax.ExternFunc("f"), [x])
    assert analysis.contains_impure_call(packed)
    assert not analysis.contains_impure_call(relax.op.call_pure_packed("f", x, sinfo_args=[]))
    itself = relax.Call(GlobalVar("main"), [x])
    assert analysis.contains_impure_call(itself)
    assert not analysis.contains_impure_call(itself, own_name="main")


def test_remove_all_unused():
    def kept(func):
        new = analysis.remove_all_unused(func)
        return [b.var.name_hint for block in new.body.blocks for b in block.bindings]

    assert kept(build()) == ["a", "b"]
    assert kept(build(pure=False)) == ["a", "b", "gv"]
    clean = analysis.remove_all_unused(build())
    assert analysis.remove_all_unused(clean) is clean
    block = analysis.remove_all_unused(build().body.blocks[0])
    assert names([b.var for b in block.bindings]) == ["a", "b"]
    with pytest.raises(TypeError, match="takes a function, a sequence or a dataflow block"):
        analysis.remove_all_unused(3)


def test_recursion():
    def calling(*targets):
        x = var("x", 4)
        bb = BlockBuilder(IRModule({t: relax.Function([x], x) for t in "abcd"}))
        with bb.function("f", [x], private=True):
            for target in targets:
                bb.emit(relax.Call(GlobalVar(target), [x]))
            bb.emit_func_output(x)
        return next(f for g, f in bb.get().functions.items() if g.name_hint == "f")

    edges = {"a": "b", "b": "a", "c": "c", "d": "abc"}
    mod = IRModule({name: calling(*targets) for name, targets in edges.items()})
    assert [names(group) for group in analysis.detect_recursion(mod)] == [["a", "b"], ["c"]]


def test_what_weights_alone_decide():
    bb, x, w = BlockBuilder(), var("x", 4), var("w", 4)
    with bb.function("main", [x, w], attrs={"num_input": 1}):
        with bb.dataflow():
            a = bb.emit(twice(w), name_hint="a")
            b = bb.emit(plus(a, relax.const([1.0] * 4)), name_hint="b")
            out = bb.emit_output(plus(x, b), name_hint="out")
        bb.emit_func_output(out)
    func = bb.get()["main"]
    assert names(analysis.computable_at_compile_time(func)) == ["w", "a", "b"]
    assert analysis.computable_at_compile_time(func.without_attr("num_input")) == []


def test_a_match_cast_of_a_weight_defines_symbols():
    n, m = (TirVar(name, "int64") for name in "nm")
    bb, x, w = BlockBuilder(), var("x", n), relax.Var("w", tensor(ndim=1))
    with bb.function("main", [x, w], attrs={"num_input": 1}):
        cast = bb.match_cast(w, tensor(m))
        bb.emit(twice(cast))
        bb.match_cast(w, tensor(n))  # compares with a dimension of the input
        bb.emit_func_output(bb.match_cast(x, tensor(m)))
    known = analysis.computable_at_compile_time(bb.get()["main"])
    assert names(known) == ["w", "gv", "gv1"]


def test_unused_bindings_of_a_body():
    body = build(pure=False).body
    swept = analysis.remove_all_unused(body)
    names_left = [b.var.name_hint for block in swept.blocks for b in block.bindings]
    assert names_left[:2] == ["a", "b"] and len(names_left) == 3  # and the printing
    assert swept.body is body.body


def test_what_calls_write_over():
    a, b, kernel = var("a", 4), var("b", 4), GlobalVar("k")
    both = relax.op.call_tir_inplace(kernel, [a, b], [1, -1], [tensor(4), tensor(4)])
    packed = {"inplace_indices": [1], "sinfo_args": [tensor(4)]}
    for call, written in (
        (both, [b]),
        (relax.op.call_tir_inplace(kernel, [a, b], [-1, 0], [tensor(4), tensor(4)]), [a]),
        (relax.op.call_inplace_packed("f", a, b, **packed), [b]),
        (relax.op.call_tir(kernel, [a, b], tensor(4)), []),
    ):
        assert names(overwritten(call)) == names(written)


def test_impure_calls_in_parts():
    x = var("x", 4)
    loud = relax.op.relax_print(x)
    for value in (relax.Tuple([x, loud]), relax.TupleGetItem(relax.Tuple([x, loud]), 0)):
        assert analysis.find_impure_call(value) is loud
    quiet = relax.SeqExpr([], x)
    branches = (quiet, relax.SeqExpr([], loud))
    for true, false in (branches, branches[::-1]):
        assert analysis.find_impure_call(relax.If(x, true, false)) is loud
    assert analysis.find_impure_call(relax.If(loud, quiet, quiet)) is loud
    assert analysis.find_impure_call(relax.If(x, quiet, quiet)) is None
    outer = relax.Call(relax.ExternFunc("f"), [loud])
    assert analysis.find_impure_call(outer) is loud
    inner = relax.Function([x], relax.SeqExpr([], loud), is_pure=False)
    held = relax.VarBinding(var("f"), inner)
    assert analysis.find_impure_call(relax.SeqExpr([relax.BindingBlock([held])], x)) is None
    assert analysis.find_impure_call(inner) is loud
    gvar = GlobalVar("main")
    assert analysis.find_impure_call(relax.Call(gvar, [x]), gvar) is None


def test_names_of_layouts():
    stored = {"ABCD": 4, "ACDB": 4, "ABCD16b": 4, "A": 1}
    assert [layout.rank(layout_of(name)) for name in stored] == list(stored.values())
    assert [layout.is_plain(layout_of(name)) for name in stored] == [True, False, False, True]
    assert layout.is_plain(None) and layout.plain(3) == "ABC"


def test_symbols_of_the_first_weight_are_known():
    n, m = (TirVar(name, "int64") for name in "nm")
    bb, x, w = BlockBuilder(), var("x", n), var("w", m)
    with bb.function("main", [x, w], attrs={"num_input": 1}):
        with bb.dataflow():
            a = bb.emit(twice(w), name_hint="a")
            bb.emit(relax.op.zeros([m], "float32"), name_hint="b")
            bb.emit(relax.op.zeros([n], "float32"), name_hint="c")
            out = bb.emit_output(a)
        bb.emit_func_output(out)
    known = analysis.computable_at_compile_time(bb.get()["main"])
    assert names(known) == ["w", "a", "b", "gv"]


def test_local_functions_are_swept():
    x, y = var("x", 4), var("y", 4)
    bb = BlockBuilder()
    with bb.function("main", [x]):
        inner = relax.Function([y], relax.SeqExpr([], y), tensor(4))
        unused = relax.VarBinding(var("unused", 4), bb.normalize(twice(y)))
        inner = inner.replace(body=inner.body.replace(blocks=(relax.BindingBlock([unused]),)))
        f = bb.emit(inner)
        bb.emit_func_output(bb.emit(relax.Call(f, [x])))
    swept = analysis.remove_all_unused(bb.get()["main"])
    local, call = swept.body.blocks[0].bindings
    assert local.value.body.blocks == () and call.value.op is local.var
    with pytest.raises(TypeError, match="takes a function, a sequence or a dataflow block"):
        analysis.remove_all_unused(x)


def flow(*values, inputs=(), outputs=1) -> relax.DataflowBlock:
    """A dataflow block; the last variables are its outputs."""
    bindings = []
    for n, make in enumerate(values):
        value = BlockBuilder().normalize(make(*(b.var for b in bindings)))
        kind = relax.DataflowVar if n < len(values) - outputs else relax.Var
        bindings.append(relax.VarBinding(kind(f"v{n}", value.struct_info), value))
    return relax.DataflowBlock(bindings)


X, Y = var("x", 4), var("y", 4)
ADD, EXP = relax.op.add, relax.op.exp
PAIR = relax.TupleStructInfo([tensor(4), tensor(4)])


def packed(*args, info=PAIR):
    return relax.op.call_pure_packed("f", *args, sinfo_args=info)


IN_PLACE = {
    "of its own": (flow(lambda: EXP(X), lambda a: EXP(a)), [(1, (0,))]),
    "an input": (flow(lambda: EXP(X)), []),
    "used later": (flow(lambda: EXP(X), lambda a: EXP(a), lambda a, b: ADD(a, b)), [(2, (0, 1))]),
    "both": (flow(lambda: EXP(X), lambda a: ADD(a, a)), [(1, (0, 1))]),
    "an output": (flow(lambda: EXP(X), lambda a: EXP(a), outputs=2), []),
    "another type": (
        flow(lambda: EXP(X), lambda a: relax.op.astype(a, "int32"), lambda a, b: EXP(a)),
        [(2, (0,))],
    ),
    "broadcast": (flow(lambda: EXP(var("r", 1)), lambda a: ADD(a, X)), []),
    "a field that lives on": (
        flow(
            lambda: EXP(X),
            lambda a: relax.Tuple([a, a]),
            lambda a, t: EXP(a),
            lambda a, t, b: relax.TupleGetItem(t, 0),
        ),
        [],
    ),
    "perhaps a view": (
        flow(
            lambda: EXP(X),
            lambda a: packed(a),
            lambda a, t: EXP(a),
            lambda a, t, b: relax.TupleGetItem(t, 1),
        ),
        [],
    ),
    "of a packed call": (flow(lambda: packed(X, info=tensor(4)), lambda a: EXP(a)), []),
    "of unknown shape": (
        flow(lambda: EXP(relax.Var("u", tensor(ndim=1))), lambda a: EXP(a)),
        [],
    ),
}


@pytest.mark.parametrize("name", IN_PLACE)
def test_calls_that_may_write_over_an_argument(name):
    block, expected = IN_PLACE[name]
    assert [tuple(found) for found in in_place_calls(block, [X, Y])] == expected


def test_how_long_variables_live():
    block = flow(lambda: EXP(X), lambda a: ADD(a, X), lambda a, b: EXP(b), lambda *v: EXP(X))
    ranges = {var.name_hint: ends for var, ends in liveness(block).items()}
    assert ranges == {"x": (-1, 4), "v0": (0, 1), "v1": (1, 2), "v2": (2, 2), "v3": (3, 4)}
