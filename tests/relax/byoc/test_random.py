"""Random graphs and random patterns: what is computed stays the same through every step."""

from __future__ import annotations

import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import loopwright as lw
from loopwright import relax
from loopwright.relax.byoc import Backend, register_backend, remove_backend
from loopwright.relax.dpl import is_const, is_op, is_tuple_get_item, wildcard
from loopwright.relax.interpreter import Interpreter
from loopwright.relax.transform import FuseOpsByPattern, MergeCompositeFunctions, RunCodegen
from loopwright.tir import Var

UNARY = ("sin", "nn.relu")
BINARY = ("add", "multiply")
OPS = {
    name: getattr(relax.op.nn if "." in name else relax.op, name.split(".")[-1])
    for name in (*UNARY, *BINARY)
}

steps = st.lists(
    st.tuples(
        st.sampled_from((*UNARY, *BINARY, "split", "const", "reshape")),
        st.integers(0, 6),
        st.integers(0, 6),
        st.booleans(),
    ),
    min_size=3,
    max_size=10,
)


def patterns_of(depth):
    if depth == 0:
        return st.just(None)
    inner = patterns_of(depth - 1)
    return st.one_of(
        st.none(),
        st.tuples(st.sampled_from(UNARY), inner),
        st.tuples(st.sampled_from(BINARY), inner, inner),
        st.tuples(st.just("split"), inner),
        st.just(("const",)),
        st.tuples(st.just("or"), inner, inner),
    )


roots = st.one_of(
    st.tuples(st.sampled_from(UNARY), patterns_of(1)),
    st.tuples(st.sampled_from(BINARY), patterns_of(1), patterns_of(1)),
    st.tuples(st.sampled_from(BINARY), patterns_of(2), patterns_of(1)),
    st.tuples(st.just("reshape"), patterns_of(2)),
)


def pattern(tree):
    if tree is None:
        return wildcard()
    kind, *parts = tree
    if kind == "const":
        return is_const()
    if kind == "or":
        return pattern(parts[0]) | pattern(parts[1])
    if kind == "split":
        return is_tuple_get_item(is_op("relax.split")(pattern(parts[0])), 0)
    made = [pattern(p) for p in parts]
    if kind == "reshape":
        made.append(wildcard())
    return is_op(f"relax.{kind}")(*made)


def graph(rows, symbolic):
    """A module whose `main` takes one (n, 4) tensor; some of its values are results."""
    bb = relax.BlockBuilder()
    n = Var("n", "int64") if symbolic else 6
    x = relax.Var("x", relax.TensorStructInfo((n, 4), "float32"))
    with bb.function("main", [x]):
        with bb.dataflow():
            values, results = [x], []
            for name, a, b, output in rows:
                first, second = values[-1 - a % len(values)], values[-1 - b % len(values)]
                if name == "const":
                    made = relax.op.add(first, relax.const(np.float32(b / 4)))
                elif name == "split":
                    halves = bb.emit(relax.op.split(first, 2, axis=1))
                    made = relax.op.concat([halves[1], halves[0]], axis=1)
                elif name == "reshape":
                    flat = bb.emit(relax.op.reshape(first, relax.ShapeExpr([n * 2, 2])))
                    made = relax.op.reshape(flat, relax.ShapeExpr([n, 4]))
                elif name in UNARY:
                    made = OPS[name](first)
                else:
                    made = OPS[name](first, second)
                var = bb.emit(made)
                values.append(var)
                if output:
                    results.append(bb.emit_output(var))
            results.append(bb.emit_output(values[-1]))
        bb.emit_func_output(relax.Tuple(results))
    return bb.finalize()


def run(mod, x):
    with np.errstate(all="ignore"):
        return [np.asarray(v) for v in Interpreter(mod)["main"](x)]


@settings(max_examples=60)
@given(
    steps,
    st.lists(st.tuples(st.sampled_from("ab"), roots), min_size=2, max_size=6),
    st.booleans(),
    st.booleans(),
)
def test_every_step_keeps_the_results(rows, trees, symbolic, bind_constants):
    mod = graph(rows, symbolic)
    wanted = [(f"{name}.p{k}", pattern(tree)) for k, (name, tree) in enumerate(trees)]
    try:
        fused = FuseOpsByPattern(wanted, bind_constants=bind_constants)(mod)
    except lw.TVMError as error:
        assert "A cyclic dependency detected" in str(error)
        assume(False)
    merged = MergeCompositeFunctions()(fused)
    for name in "ab":
        register_backend(Backend(name, target="llvm"), override=True)
    try:
        lowered = RunCodegen()(merged)
    finally:
        for name in "ab":
            remove_backend(name)
    x = np.linspace(-1, 1, 24, dtype="float32").reshape(6, 4)
    want = run(mod, x)
    for stage in (fused, merged, lowered):
        for a, b in zip(run(stage, x), want, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)
    assert not [v for v, f in lowered.functions.items() if "Codegen" in f.attrs]
