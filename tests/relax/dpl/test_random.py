"""Random graphs, and patterns cut out of them."""

from __future__ import annotations

from itertools import permutations

from hypothesis import given, settings
from hypothesis import strategies as st

from loopwright import relax
from loopwright.ir.structural import assert_structural_equal
from loopwright.relax.analysis import get_var2val, well_formed
from loopwright.relax.dpl import (
    AndPattern,
    CallPattern,
    DataTypePattern,
    DFPattern,
    NotPattern,
    OrPattern,
    PatternContext,
    ShapePattern,
    TupleGetItemPattern,
    TuplePattern,
    UnorderedTuplePattern,
    is_const,
    is_expr,
    is_op,
    is_tuple,
    is_tuple_get_item,
    is_var,
    match,
    rewrite_call,
    wildcard,
)
from loopwright.relax.dpl.rewrite import tidy
from loopwright.script import relax as R

UNARY = {"relax.exp": R.exp, "relax.nn.relu": R.nn.relu, "relax.negative": R.negative}
BINARY = {"relax.add": R.add, "relax.multiply": R.multiply, "relax.subtract": R.subtract}


@st.composite
def graphs(draw) -> relax.Function:
    """A function of 3 to 14 values: unary and binary operators, tuples and their fields."""
    bb = relax.BlockBuilder()
    params = [relax.Var(f"p{i}", R.Tensor((4,), "float32")) for i in range(2)]
    with bb.function("main", params):
        with bb.dataflow():
            values: list = [*params, relax.const([1.0, 2.0, 3.0, 4.0])]
            for _ in range(draw(st.integers(3, 14))):
                a, b = (draw(st.sampled_from(values)) for _ in range(2))
                kind = draw(st.integers(0, 3))
                if kind == 0:
                    made = UNARY[draw(st.sampled_from(sorted(UNARY)))](a)
                elif kind < 3:
                    made = BINARY[draw(st.sampled_from(sorted(BINARY)))](a, b)
                else:
                    pair = bb.emit(relax.Tuple([a, b]))
                    made = relax.TupleGetItem(pair, draw(st.integers(0, 1)))
                values.append(bb.emit(made))
            out = bb.emit_output(relax.Tuple([v for v in values if isinstance(v, relax.Var)]))
        bb.emit_func_output(out)
    return bb.get()["main"]


def cut(draw, expr, values, depth: int, known: dict) -> DFPattern:
    """A pattern of what `expr` is, down to some depth; it narrows and joins at random."""
    value = expr
    while value in values:
        value = values[value]
    if value in known:
        return known[value]
    made: DFPattern
    if depth == 0 or draw(st.integers(0, 5)) == 0:
        made = wildcard()
    elif isinstance(value, relax.Call):
        args = [cut(draw, a, values, depth - 1, known) for a in value.args]
        swap = value.op.name in ("relax.add", "relax.multiply") and draw(st.booleans())
        made = is_op(value.op.name)(*(args[::-1] if swap else args))
    elif isinstance(value, relax.Tuple):
        fields = [cut(draw, f, values, depth - 1, known) for f in value.fields]
        shuffled = draw(st.booleans())
        made = is_tuple(fields[::-1] if shuffled else fields, unordered=shuffled)
    elif isinstance(value, relax.TupleGetItem):
        inner = cut(draw, value.tuple_value, values, depth - 1, known)
        made = is_tuple_get_item(inner, draw(st.sampled_from([None, value.index])))
    elif isinstance(value, relax.Constant):
        made = draw(st.sampled_from([is_const(), is_expr(value)]))
    else:
        made = is_var(value.name_hint)
    extra = draw(st.integers(0, 7))
    if extra == 0:
        made = is_op("relax.sin")(wildcard()) | made
    elif extra == 1:
        made = made | wildcard()
    elif extra == 2:
        made = made & wildcard()
    elif extra == 3:
        made = made & ~is_op("relax.cos")(made)
    elif extra == 4 and not isinstance(value.struct_info, relax.TupleStructInfo):
        made = made.has_dtype("float32").has_shape([4])
    known[value] = made
    return made


def value_of(expr, values):
    while expr in values:
        expr = values[expr]
    return expr


@settings(max_examples=150)
@given(st.data())
def test_a_pattern_matches_where_it_was_taken_from(data):
    func = data.draw(graphs())
    values = get_var2val(func)
    var = data.draw(st.sampled_from(list(values)))
    known: dict = {}
    pattern = cut(data.draw, var, values, data.draw(st.integers(0, 5)), known)
    found = match(pattern, var, values)
    assert found is not None, f"{pattern}\nin\n{func}"
    assert found[pattern] is value_of(var, values)
    # Patterns of a call hold what they say: the operator, and the values of the arguments.
    for inner, value in found.items():
        if isinstance(inner, CallPattern):
            assert value.op is found[inner.op]
            args = sorted(id(value_of(a, values)) for a in value.args)
            assert sorted(id(found[a]) for a in inner.args) == args


@settings(max_examples=40)
@given(st.data())
def test_identity_changes_nothing(data):
    func = data.draw(graphs())
    values = get_var2val(func)
    var = data.draw(st.sampled_from(list(values)))
    pattern = cut(data.draw, var, values, 3, {})
    assert rewrite_call(pattern, lambda value, _: value, func) is func

    def rebuilt(value, _):
        return relax.Call(value.op, value.args, value.attrs) if _is_call(value) else value

    made = rewrite_call(pattern, rebuilt, func)
    assert_structural_equal(made, func if made is func else tidy(func, None))


def _is_call(value) -> bool:
    return isinstance(value, relax.Call)


@settings(max_examples=40)
@given(st.data())
def test_replacing_keeps_the_graph_valid(data):
    func = data.draw(graphs())
    x = wildcard()
    name = data.draw(st.sampled_from(sorted(UNARY)))
    made = rewrite_call(is_op(name)(x), lambda _, m: R.sin(R.cos(m[x])), func)
    assert well_formed(made)
    assert f"R.{name.removeprefix('relax.')}(" not in str(made)


@settings(max_examples=60)
@given(st.data())
def test_a_graph_of_patterns_matches_where_it_was_taken_from(data):
    func = data.draw(graphs())
    block = func.body.blocks[0]
    values = get_var2val(func)
    calls = {v: e for v, e in values.items() if isinstance(e, relax.Call)}
    if not calls:
        return
    chosen = data.draw(st.lists(st.sampled_from(list(calls)), min_size=1, max_size=4, unique=True))
    with PatternContext() as ctx:
        nodes: dict = {}
        for var in sorted(chosen, key=list(values).index):
            args = []
            for arg in values[var].args:
                args.append(nodes.setdefault(arg, wildcard()))
            nodes[var] = is_op(values[var].op.name)(*args)
        for var in chosen:
            for user in chosen:
                if any(a is var for a in values[user].args):
                    nodes[var] ^ nodes[user]
    found = ctx.match_dfb(block)
    assert found is not None
    for var in chosen:
        assert calls[found[nodes[var]]].op is calls[var].op
    places = [v for p, v in found.items() if p in ctx.nodes and isinstance(v, relax.Var)]
    assert len(set(places)) == len(places)


def every_solution(pattern: DFPattern, expr, values, env: dict):
    """The meaning of patterns, written down plainly: all ways to match."""
    value = value_of(expr, values)
    if pattern in env:
        if env[pattern] is value:
            yield env
        return
    env = {**env, pattern: value}

    def all_of(pairs, env):
        if not pairs:
            yield env
            return
        for found in every_solution(*pairs[0], values, env):
            yield from all_of(pairs[1:], found)

    def items(patterns, exprs):
        return list(zip(patterns, exprs, strict=False))

    if isinstance(pattern, CallPattern):
        if not isinstance(value, relax.Call) or value.op is not pattern.op.expr:
            return
        orders = [value.args]
        if value.op.name in ("relax.add", "relax.multiply"):
            orders.append(value.args[::-1])
        for args in orders:
            yield from all_of(items(pattern.args, args), env)
    elif isinstance(pattern, TuplePattern):
        if isinstance(value, relax.Tuple) and len(value) == len(pattern):
            yield from all_of(items(pattern.fields, value.fields), env)
    elif isinstance(pattern, UnorderedTuplePattern):
        if isinstance(value, relax.Tuple) and len(value) == len(pattern):
            for fields in permutations(value.fields):
                yield from all_of(items(pattern.fields, fields), env)
    elif isinstance(pattern, TupleGetItemPattern):
        if isinstance(value, relax.TupleGetItem) and pattern.index in (None, value.index):
            yield from all_of([(pattern.tuple, value.tuple_value)], env)
    elif isinstance(pattern, OrPattern):
        yield from every_solution(pattern.left, value, values, env)
        yield from every_solution(pattern.right, value, values, env)
    elif isinstance(pattern, AndPattern):
        yield from all_of([(pattern.left, value), (pattern.right, value)], env)
    elif isinstance(pattern, NotPattern):
        if next(every_solution(pattern.reject, value, values, env), None) is None:
            yield env
    elif isinstance(pattern, (DataTypePattern, ShapePattern)):
        if isinstance(value.struct_info, relax.TensorStructInfo):
            yield from all_of([(pattern.pattern, value)], env)
    elif match(pattern, value) is not None:  # a leaf
        yield env


@settings(max_examples=120)
@given(st.data())
def test_the_search_finds_what_there_is(data):
    """Against all ways to match, one by one; patterns are joined out of several places, so that
    they share parts and match in some places only."""
    func = data.draw(graphs())
    values = get_var2val(func)
    known: dict = {}
    places = list(values)[:-1]  # without the result, a long tuple
    variables = st.sampled_from(places)
    parts = [cut(data.draw, data.draw(variables), values, 2, known) for _ in range(3)]
    shared = data.draw(st.sampled_from(parts))
    pattern = data.draw(
        st.sampled_from(
            [
                (parts[0] | parts[1]) & (parts[2] | shared),
                is_op("relax.add")(parts[0] | parts[1], parts[2] | shared),
                is_op("relax.multiply")(wildcard() & shared, wildcard()) | parts[0],
                is_tuple([parts[0] | wildcard(), shared], unordered=True) | parts[1],
                is_op("relax.subtract")(shared, parts[1] | shared)
                | is_op("relax.add")(shared, shared),
                is_op("relax.add")(parts[0], ~shared),
            ]
        )
    )
    for var in places:
        expected = next(every_solution(pattern, var, values, {}), None)
        found = match(pattern, var, values)
        assert (found is not None) == (expected is not None), f"{pattern}\nat {var} in\n{func}"
        if found is not None:
            again = next(every_solution(pattern, var, values, {}))
            # The first solution, in the same order of choices.
            assert {p: id(v) for p, v in again.items()}.items() <= {
                p: id(v) for p, v in found.items()
            }.items()
