"""Passes on Relay: what each does to small programs, and that results stay."""

from typing import Any

import numpy as np
import pytest

import loopwright as lw
from loopwright import relax, relay
from loopwright.ir.transform import get_pass
from loopwright.relay import transform as passes
from loopwright.relay.testing.temp_op_attr import TempOpAttr
from loopwright.relay.transform import fold_constant
from loopwright.relay.translate import to_relax
from loopwright.relay.walk import free_vars, post_order

pytestmark = pytest.mark.no_roundtrip


def after(expr: relay.Expr, *steps: Any) -> relay.Function:
    """The function of an expression after passes."""
    mod = passes.InferType()(lw.IRModule.from_expr(expr))
    with passes.PassContext(opt_level=4):
        return passes.Sequential(steps)(mod)["main"]


def names(func: relay.Function) -> list[str]:
    """The operators that are called, in order of computation."""
    return [
        n.op.name for n in post_order(func) if isinstance(n, relay.Call) and hasattr(n.op, "name")
    ]


def agree(rng: np.random.Generator, expr: relay.Expr, *steps: Any) -> None:
    """The program computes after passes what it did before."""
    before, changed = after(expr), after(expr, *steps)
    feeds = [
        rng.uniform(0.5, 2, [d.value for d in p.type_annotation.shape]).astype(
            p.type_annotation.dtype
        )
        for p in before.params
    ]
    results = [
        lw.compile(to_relax(lw.IRModule({"main": f})), "llvm")(*feeds) for f in (before, changed)
    ]
    old, new = ([r] if isinstance(r, lw.Tensor) else list(r) for r in results)
    for a, b in zip(old, new, strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=2e-4, atol=1e-5)


x = relay.var("x", shape=(2, 8))
image = relay.var("image", shape=(1, 4, 6, 6))


def weights(count: int, *shape: int) -> list[relay.Var]:
    return [relay.var(f"w{i}", shape=shape) for i in range(count)]


def normed() -> relay.Expr:
    vectors = [relay.var(name, shape=(4,)) for name in ("gamma", "beta", "mean", "var")]
    return relay.nn.relu(relay.nn.batch_norm(image, *vectors)[0])


def branches(build: Any, ws: list[relay.Var]) -> relay.Expr:
    return relay.Tuple([relay.tanh(build(w)) for w in ws])


MEANING = {
    "SimplifyInference": (normed(), [passes.SimplifyInference()]),
    "CanonicalizeOps": (
        relay.nn.bias_add(image, relay.var("b", shape=(4,))),
        [passes.CanonicalizeOps()],
    ),
    "FuseOps": (relay.exp(x) + relay.sum(relay.tanh(x) * x, 1, True), [passes.FuseOps(2)]),
    "DefuseOps": (relay.exp(x) * relay.tanh(x), [passes.FuseOps(2), passes.DefuseOps()]),
    "EliminateCommonSubexpr": (relay.exp(x) * relay.exp(x), [passes.EliminateCommonSubexpr()]),
    "FoldConstant": (x + relay.const(2.0) * relay.const(3.0), [passes.FoldConstant()]),
    "DivToMul": (x / relay.const(4.0), [passes.DivToMul()]),
    "CombineParallelDense": (
        branches(lambda w: relay.nn.dense(x, w), weights(3, 5, 8)),
        [passes.CombineParallelDense()],
    ),
    "CombineParallelDense, flat": (
        branches(lambda w: relay.nn.dense(x, w), [*weights(2, 5, 8), relay.var("v", shape=(7, 8))]),
        [passes.CombineParallelDense(3, to_batch=False)],
    ),
    "CombineParallelConv2D": (
        branches(lambda w: relay.nn.conv2d(image, w), weights(3, 2, 4, 3, 3)),
        [passes.CombineParallelConv2D()],
    ),
    "FoldExplicitPadding": (
        relay.nn.conv2d(
            relay.nn.pad(image, ((0, 0), (0, 0), (1, 2), (0, 1))),
            relay.var("w", shape=(3, 4, 3, 3)),
        ),
        [passes.FoldExplicitPadding()],
    ),
    "SimplifyExpr": (
        relay.reshape(relay.transpose(relay.transpose(image)), (2, -1)) * relay.const(2.0),
        [passes.SimplifyExpr()],
    ),
    "SplitArgs": (relay.concatenate([relay.exp(x)] * 9, 0), [passes.SplitArgs(4)]),
}


@pytest.mark.sample(2)
@pytest.mark.parametrize("name", MEANING)
def test_results_stay(rng: np.random.Generator, name: str) -> None:
    expr, steps = MEANING[name]
    assert not lw.ir.structural_equal(after(expr), after(expr, *steps)) or "Defuse" in name
    agree(rng, expr, *steps)


def test_kernels_of_fusion() -> None:
    func = after(
        relay.nn.softmax(relay.nn.dense(relay.exp(x), relay.var("w", shape=(3, 8)))),
        passes.FuseOps(2),
    )
    kernels = [
        n for n in post_order(func) if isinstance(n, relay.Function) and n.attrs.get("Primitive")
    ]
    assert sorted(names(k) for k in kernels) == [["exp"], ["nn.dense"], ["nn.softmax"]]
    together = after(
        relay.exp(relay.nn.relu(relay.nn.dense(x, relay.var("w", shape=(3, 8))))), passes.FuseOps(2)
    )
    (kernel,) = [n for n in post_order(together.body) if isinstance(n, relay.Function)]
    assert names(kernel) == ["nn.dense", "nn.relu", "exp"]


def test_values_that_are_not_used_go() -> None:
    v, w = relay.var("v"), relay.var("w")
    body = relay.Let(v, relay.exp(x), relay.Let(w, relay.tanh(x), relay.add(w, w)))
    assert names(after(body, passes.DeadCodeElimination())) == ["tanh", "add"]
    once = relay.Let(v, relay.exp(x), relay.Let(w, relay.tanh(v), relay.add(w, x)))
    assert not any(
        isinstance(n, relay.Let) for n in post_order(after(once, passes.DeadCodeElimination(True)))
    )


def test_what_has_an_effect_stays(forgotten: None) -> None:
    relay.op.register("debug.mark").add_type_rel("Identity")

    def mark(value: Any) -> relay.Call:
        return relay.Call(relay.op.get("debug.mark"), [value])

    def bound(value: Any, body: Any) -> relay.Let:
        return relay.Let(v := relay.var("v"), value, body(v))

    v, y = relay.var("v", shape=(2, 8)), relay.var("y", shape=(2, 8))
    functions = {
        "marks": relay.Function([v], relay.exp(mark(v))),
        "calls": relay.Function([v], relay.Call(relay.GlobalVar("marks"), [v])),
        "pure": relay.Function([v], relay.exp(v)),
        "again": relay.Function([v], relay.Call(relay.GlobalVar("again"), [v])),
    }

    def left(body: Any, **options: bool) -> list[str]:
        mod = lw.IRModule({**functions, "main": relay.Function([x, y], body)})
        found = passes.DeadCodeElimination(**options).run_function(mod["main"], mod)
        return [
            getattr(n.op, "name", None) or getattr(n.op, "name_hint", "fn")
            for n in post_order(found.body)
            if isinstance(n, relay.Call)
        ]

    unused = {
        "debug.mark": mark(x),
        "exp": relay.exp(mark(x)),
        "fn": relay.Call(relay.Function([v], mark(v)), [x]),
        "marks": relay.Call(relay.GlobalVar("marks"), [x]),
        "calls": relay.Call(relay.GlobalVar("calls"), [x]),
    }
    for name, value in unused.items():
        assert name in left(bound(value, lambda _: y))
        assert left(bound(value, lambda _: y), ignore_impurity=True) == []
    for name in ("pure", "again", "elsewhere"):
        assert left(bound(relay.Call(relay.GlobalVar(name), [x]), lambda _: y)) == []
    assert left(bound(relay.Function([v], mark(v)), lambda _: y)) == []
    f = relay.var("f")

    def called(value: Any) -> Any:
        return bound(value, lambda g: bound(relay.Call(g, [x]), lambda _: y))

    again = relay.Function([v], relay.Call(f, [v]))
    aliased = relay.Function([v], bound(relay.Function([v], mark(v)), lambda g: relay.Call(g, [v])))
    local = [
        (called(relay.Function([v], mark(v))), ["debug.mark", "v"]),
        (called(relay.Function([v], relay.exp(v))), []),
        (called(relay.GlobalVar("calls")), ["v"]),
        (called(relay.GlobalVar("again")), []),
        (called(aliased), ["debug.mark", "v", "v"]),
        (relay.Let(f, again, bound(relay.Call(f, [x]), lambda _: y)), []),
        (relay.Function([f], bound(relay.Call(f, [x]), lambda _: y)), ["f"]),
        (bound(relay.Call(relay.If(relay.const(True), f, f), [x]), lambda _: y), ["fn"]),
    ]
    for body, calls in local:
        assert sorted(left(body)) == sorted(calls), body
        if not isinstance(body, relay.Function):
            assert left(body, ignore_impurity=True) == []
    bindings = [
        (bound(relay.exp(x), lambda b: bound(mark(x), lambda a: b + a)), 0),
        (bound(mark(x), lambda a: bound(relay.exp(x), lambda b: b + a)), 0),
        (bound(mark(x), relay.exp), 0),
        (bound(mark(x), lambda a: a + a), 1),
        (bound(mark(x), lambda a: bound(mark(y), lambda b: a + b)), 0),
        # the first mark would be the second
        (bound(mark(x), lambda a: bound(mark(y), lambda b: b + a)), 1),
        (bound(mark(x), lambda a: relay.If(relay.sum(a).astype("bool"), x, y)), 1),
        (bound(mark(relay.const(True)), lambda a: relay.If(a, x, y)), 0),
        (bound(mark(x), lambda a: relay.If(relay.const(True), a, y)), 1),
    ]
    inline = passes.DeadCodeElimination(inline_once=True)
    for body, lets in bindings:
        func = inline.run_function(relay.Function([x, y], body), lw.IRModule())
        assert sum(isinstance(n, relay.Let) for n in post_order(func)) == lets, body


def test_a_function_that_only_calls_itself_goes() -> None:
    f, v = relay.var("f"), relay.var("v", shape=(2, 8))
    step = relay.Function([v], relay.exp(relay.Call(f, [v])))
    run = passes.DeadCodeElimination().run_function
    for body, lets in ((x, 0), (relay.Call(f, [x]), 1)):
        func = run(relay.Function([x], relay.Let(f, step, body)), lw.IRModule())
        assert sum(isinstance(n, relay.Let) for n in post_order(func)) == lets


def test_functions_that_call_themselves_are_not_inlined() -> None:
    v = relay.var("v", shape=(2, 8))

    def calling(*callees: str) -> relay.Function:
        body: Any = v
        for name in callees:
            body = relay.Call(relay.GlobalVar(name), [body])
        return relay.Function([v], body, attrs={"Inline": 1})

    mod = lw.IRModule(
        {
            "itself": calling("itself"),
            "ping": calling("pong"),
            "pong": calling("leaf", "ping"),
            "leaf": calling(),
            "twice": calling("leaf", "leaf"),
            "main": calling("itself", "ping", "twice").with_attr("Inline", 0),
        }
    )
    made = passes.Inline()(mod)
    assert {g.name_hint for g in made.functions} == {"itself", "ping", "pong", "main"}
    called = [n.name_hint for n in post_order(made["main"]) if isinstance(n, relay.GlobalVar)]
    assert sorted(called) == ["itself", "ping"]


def test_a_function_with_arguments_in_it_has_their_variables() -> None:
    y, z = relay.var("y"), relay.var("z")
    func = relay.bind(relay.Function([x, y], x + y), {x: relay.exp(z) + y})
    assert [p.name_hint for p in func.params] == ["y", "z"]
    assert relay.bind(func, {x: z}) is func


def test_functions() -> None:
    a = relay.var("a", shape=(2, 8))
    f, g = relay.GlobalVar("f"), relay.GlobalVar("g")
    mod = lw.IRModule(
        {
            f: relay.Function([a], relay.exp(a)).with_attr("Inline", 1),
            g: relay.Function([a], relay.tanh(a)),
            "main": relay.Function([x], relay.Call(f, [x])),
        }
    )
    assert {v.name_hint for v in passes.Inline()(mod).functions} == {"g", "main"}
    assert {v.name_hint for v in passes.RemoveUnusedFunctions()(mod).functions} == {"f", "main"}


def test_shapes_that_become_known() -> None:
    y = relay.var("y", shape=(4, 4))
    func = after(
        relay.Function([x, y], relay.reshape(x, relay.shape_of(y))), passes.DynamicToStatic()
    )
    assert names(func) == ["reshape"] and func.ret_type == relay.TensorType((4, 4))


def test_what_fails_is_not_folded() -> None:
    zeros, ones = relay.const(np.zeros((1, 2), "float32")), relay.const(np.ones((1, 1), "int64"))
    call = relay.scatter_nd(zeros, ones, relay.const(np.ones((1, 2), "float32")))
    assert names(after(relay.Function([], call), passes.FoldConstant())) == ["scatter_nd"]


def test_a_rank_that_becomes_known() -> None:
    value, y = relay.var("v", shape=()), relay.var("y", shape=(4, 5))
    shape = relay.shape_of(y)
    shape = relay.strided_slice(shape, [0], relay.shape_of(shape))
    func = passes.DynamicToStatic()(
        lw.IRModule.from_expr(relay.Function([value, y], relay.full(value, shape, "float32")))
    )["main"]
    assert names(func) == ["full"] and func.ret_type == relay.TensorType((4, 5))
    flat = relay.var("f", shape=(relay.Any(),), dtype="int64")
    with pytest.raises(lw.base.errors.DiagnosticError, match="the rank of a tensor is not known"):
        body = relay.full(value, flat, "float32")
        passes.DynamicToStatic()(lw.IRModule.from_expr(relay.Function([value, flat], body)))


def test_a_branch_that_becomes_known() -> None:
    branches = [relay.reshape(x, shape) for shape in ((4, 4), (16, 1))]
    mod = lw.IRModule.from_expr(relay.Function([x], relay.If(relay.const(1), *branches)))
    func = passes.DynamicToStatic()(mod)["main"]
    assert names(func) == ["reshape"] and func.ret_type == relay.TensorType((4, 4))


def test_rules_of_users(forgotten: None) -> None:
    relay.op.register_legalize("exp", lambda attrs, inputs, types: relay.tanh(inputs[0]), 11)
    assert names(after(relay.exp(x), passes.Legalize())) == ["tanh"]
    assert names(after(relay.exp(relay.tanh(x)), passes.FastMath())) == ["fast_tanh", "fast_exp"]


def test_a_pass_of_a_user() -> None:
    @passes.function_pass(opt_level=1)
    class Twice:
        def transform_function(self, func: relay.Function, mod: lw.IRModule, ctx: Any) -> Any:
            return relay.Function(func.params, relay.add(func.body, func.body))

    assert after(relay.exp(x), Twice()).ret_type == relay.TensorType((2, 8))
    assert free_vars(relay.exp(x)) == [x]


def test_short_types() -> None:
    w = relay.var("w", shape=(4, 8))
    expr = relay.nn.softmax(relay.nn.relu(relay.nn.dense(x, w)) + relay.const(1.0))
    func = after(expr, passes.ToMixedPrecision())
    dense = next(
        n for n in post_order(func) if isinstance(n, relay.Call) and n.op.name == "nn.dense"
    )
    assert dense.checked_type.dtype == "float16" and func.ret_type.dtype == "float32"
    assert names(func).count("cast") == 4  # of both operands, the constant, and back
    assert after(relay.exp(x), passes.ToMixedPrecision()).body.op.name == "exp"
    kept = {"relay.ToMixedPrecision.keep_orig_output_dtype": True}
    with passes.PassContext(opt_level=4, config=kept):
        mod = passes.InferType()(lw.IRModule.from_expr(relay.nn.dense(x, w)))
        assert passes.ToMixedPrecision("bfloat16")(mod)["main"].ret_type.dtype == "float32"


def test_short_types_of_variables() -> None:
    w, v, f = relay.var("w", shape=(8, 8)), relay.var("v", shape=(2, 8)), relay.Var("f")
    func = after(relay.Let(v, relay.nn.dense(x, w), v + v), passes.ToMixedPrecision())
    assert func.body.var.type_annotation.dtype == func.ret_type.dtype == "float16"
    p = relay.var("p", shape=(2, 8))
    step = relay.Function([p], relay.nn.dense(p, w), relay.TensorType((2, 8)))
    func = after(relay.Let(f, step, f(f(x))), passes.ToMixedPrecision())
    assert func.ret_type.dtype == "float16" and names(func).count("cast") == 3


def test_a_clip_is_short_where_its_bounds_are() -> None:
    for bound, dtype in ((60000, "float16"), (70000, "float32")):
        func = after(relay.clip(x, -1, bound), passes.ToMixedPrecision())
        assert func.ret_type.dtype == dtype


def test_a_build_prefix_by_level() -> None:
    mod = lw.IRModule.from_expr(x * (relay.const(2.0) + relay.const(3.0)))
    counts = []
    for level in (0, 3):
        with passes.PassContext(opt_level=level):
            counts.append(names(relay.optimize(mod, "llvm")[0]["main"]))
    assert counts == [["add", "multiply"], ["multiply"]]
    kernels = relay.lower(mod, "llvm")
    assert [g.name_hint for g in kernels.functions] == ["tvmgen_default_fused_multiply"]


@pytest.mark.parametrize(
    ("joined", "branch"),
    [
        ("nn.dense", lambda w: relay.nn.dense(x, relay.var(w, shape=(4, 8)))),
        ("nn.conv2d", lambda w: relay.nn.conv2d(image, relay.var(w, shape=(4, 4, 1, 1)))),
        (
            "nn.batch_matmul",
            lambda w: relay.nn.batch_matmul(
                relay.reshape(x, (1, 2, 8)), relay.var(w, shape=(1, 4, 8))
            ),
        ),
    ],
)
def test_a_build_joins_three_layers_of_one_input(joined: str, branch: Any) -> None:
    for count in (2, 3):
        mod = lw.IRModule.from_expr(relay.Tuple([branch(f"w{k}") for k in range(count)]))
        with passes.PassContext(opt_level=4):
            found = names(relay.optimize(mod, "llvm")[0]["main"])
        made = "nn.batch_matmul" if joined == "nn.dense" and count == 3 else joined
        assert found.count(made) == (1 if count == 3 else 2)


def test_a_build_moves_factors_and_asks_for_layouts(rng: np.random.Generator) -> None:
    weight = relay.const(rng.uniform(size=(8, 4, 3, 3)).astype("float32"))
    expr = relay.multiply(
        relay.nn.conv2d(image, weight), relay.const(np.ones((8, 1, 1), "float32"))
    )
    mod = lw.IRModule.from_expr(expr)
    with passes.PassContext(opt_level=3):
        assert names(relay.optimize(mod, "llvm")[0]["main"]) == ["nn.conv2d"]

        def rule(attrs: Any, inputs: Any, infos: Any, out_type: Any) -> Any:
            return relay.nn.conv2d(*inputs, **{**dict(attrs), "data_layout": "NCHW2c"})

        with TempOpAttr("nn.conv2d", "FTVMAlterOpLayout", rule):
            calls = names(relay.optimize(mod, "llvm")[0]["main"])
        assert calls == ["layout_transform", "nn.conv2d", "layout_transform"]


a, b = relay.var("a", shape=(5,)), relay.var("b", shape=(5,))
two, six = relay.const(2.0), relay.const(6.0)
SUMS = {
    "a square": (a * a + two * a * b + b * b, ["add", "multiply"]),
    "in any order": (b * a * two + b * b + a * a, ["add", "multiply"]),
    "two factors": (
        six * a * a + a * relay.const(5.0) * b + b * b,
        ["multiply", "add", "multiply", "add", "multiply"],
    ),
    "no factors": (a * a + a * b + b * b, ["multiply"] * 2 + ["add", "multiply", "add"]),
    "other terms": (a * a + a * b + two * b, ["multiply"] * 2 + ["add", "multiply", "add"]),
}


@pytest.mark.parametrize("case", SUMS)
def test_sums_that_are_products(rng: np.random.Generator, case: str) -> None:
    expr, calls = SUMS[case]
    assert names(after(expr, passes.SimplifyExpr())) == calls
    agree(rng, expr, passes.SimplifyExpr())


def test_roots_that_are_no_integers_stay() -> None:
    i, j = (relay.var(n, shape=(5,), dtype="int32") for n in "ij")
    expr = i * i + relay.const(3) * i * j + j * j
    assert names(after(expr, passes.SimplifyExpr())) == names(after(expr))


def test_integers_within_bounds_are_cast_once(rng: np.random.Generator) -> None:
    whole = relay.var("whole", shape=(4, 8), dtype="int32")
    clipped = relay.clip(whole, 0.0, 255.0)
    back = relay.cast(relay.cast(clipped, "uint8"), "int32")
    assert names(after(back, passes.SimplifyExpr())) == ["clip"]
    all_of_them = relay.clip(relay.cast(whole, "uint8"), 0.0, 255.0)
    assert names(after(all_of_them, passes.SimplifyExpr())) == ["cast"]
    agree(rng, back, passes.SimplifyExpr())


@pytest.mark.parametrize(
    ("dtype", "bounds", "first", "last", "calls"),
    [
        ("float32", (0, 255), "uint8", "int32", ["clip", "cast"]),
        ("float32", (0, 255), "uint8", "float32", ["clip", "cast", "cast"]),
        ("float32", (0, 255), "uint8", "bool", ["clip", "cast", "cast"]),
        ("float32", (0, 127), "int8", "uint8", ["clip", "cast", "cast"]),
        ("float32", (0, 1), "bool", "int32", ["clip", "cast", "cast"]),
        ("float32", (0, 9), "int16", "int32", ["clip", "cast"]),
        ("float32", (0, 9), "int32", "int64", ["clip", "cast", "cast"]),
        ("int32", (0, 255), "uint8", "float32", ["clip", "cast"]),
        ("int32", (0, 256), "uint8", "float32", ["clip", "cast", "cast"]),
        ("int32", (-1, 255), "uint8", "float32", ["clip", "cast", "cast"]),
        ("int32", (-9, 9), "float16", "int32", ["clip", "cast", "cast"]),
        ("float16", None, "bfloat16", "float32", ["cast", "cast"]),
        ("bfloat16", None, "float32", "float16", ["cast"]),
        ("int8", None, "float16", "float32", ["cast"]),
        ("uint8", None, "int8", "int16", ["cast", "cast"]),
        ("uint8", None, "int16", "int32", ["cast"]),
        ("int8", None, "uint16", "int32", ["cast", "cast"]),
        ("int8", None, "int16", "int32", ["cast"]),
        ("uint8", None, "uint16", "int32", ["cast"]),
        ("bool", None, "int8", "int32", ["cast", "cast"]),
        ("float16", None, "int32", "int64", ["cast", "cast"]),
        ("int16", None, "float16", "float32", ["cast", "cast"]),
        ("float16", None, "int32", "float16", ["cast", "cast"]),
    ],
)
def test_casts_in_a_row(dtype: str, bounds: Any, first: str, last: str, calls: Any) -> None:
    value: Any = relay.var("v", shape=(4,), dtype=dtype)
    value = value if bounds is None else relay.clip(value, *map(float, bounds))
    found = after(relay.cast(relay.cast(value, first), last), passes.SimplifyExpr())
    assert names(found) == calls
    assert found.body.checked_type.dtype == last


def test_recast() -> None:
    x, w, v = (relay.var(n, shape=(1, 1, 3, 3)) for n in "xwv")
    first = relay.nn.conv2d(x, w, padding=1, out_dtype="float32")
    both = relay.Function([x, w, v], relay.nn.conv2d(relay.nn.relu(first), v, padding=1))

    def narrow(data: Any, weight: Any, **options: Any) -> Any:
        args = [relay.cast(a, "int8") for a in (data, weight)]
        made = relay.nn.conv2d(*args, padding=1, out_dtype="int32", **options)
        return relay.cast(made, "float32")

    want = relay.Function([x, w, v], relay.nn.conv2d(relay.nn.relu(narrow(x, w)), v, padding=1))
    found = relay.transform.recast(both, "int8", "int32", skip_layers=[-1])
    lw.ir.assert_structural_equal(found, want)
    mod = relay.transform.recast(lw.IRModule({"main": both}), "int8", "int32", skip_layers=[0])
    want = relay.Function([x, w, v], narrow(relay.nn.relu(first), v))
    lw.ir.assert_structural_equal(mod["main"], want)
    pair = relay.concatenate([x, w], 1)
    found = relay.transform.recast(pair, "float16", "", ops=["concatenate"])
    parts = [relay.cast(p, "float16") for p in (x, w)]
    lw.ir.assert_structural_equal(found, relay.cast(relay.concatenate(parts, 1), "float32"))


def test_another_batch_size() -> None:
    x, w = relay.var("x", shape=(1, 4)), relay.var("w", shape=(3, 4))
    mod = lw.IRModule({"main": relay.Function([x, w], relay.nn.relu(relay.nn.dense(x, w)))})
    mod = relay.transform.InferType()(mod)
    found = relay.transform.ChangeBatch({mod["main"].params[0]: 0}, batch_size=7)(mod)["main"]
    assert str(found.checked_type.ret_type) == "Tensor[(7, 3), float32]"
    assert str(found.params[1].checked_type) == "Tensor[(3, 4), float32]"
    with pytest.raises(ValueError, match="x has no axis 2"):
        relay.transform.ChangeBatch({mod["main"].params[0]: 2})(mod)


def test_constants_are_linked_into_kernels() -> None:
    x = relay.var("x", shape=(4,))
    expr = x + relay.const(np.ones(4, "float32"))
    kernels = []
    for linked in (False, True):
        with passes.PassContext(config={"relay.FuseOps.link_params": linked}):
            call: Any = passes.FuseOps(2)(lw.IRModule.from_expr(after(expr)))["main"].body
        kernels.append((len(call.args), len(call.op.params)))
    assert kernels == [(2, 2), (1, 1)]


@pytest.mark.parametrize(
    ("dtype", "most"),
    [("float32", 16), ("float64", 8), ("float16", 32), ("int8", 64), ("bool", 64)],
)
def test_large_results_are_not_folded(monkeypatch, dtype: str, most: int) -> None:
    monkeypatch.setattr(fold_constant, "LARGEST", 64)
    for count, left in ((most, []), (most + 1, ["broadcast_to"])):
        call = relay.broadcast_to(relay.const(1, dtype), (count,))
        assert names(after(relay.Function([], call), passes.FoldConstant())) == left
    halves = relay.split(relay.broadcast_to(relay.const(1, dtype), (most,)), 2).astuple()
    assert names(after(relay.Function([], halves), passes.FoldConstant())) == []


def test_results_of_extents_that_are_not_known_are_folded() -> None:
    found = relay.argwhere(relay.const([0.0, 2.0, 3.0]))
    func = after(relay.Function([], found), passes.FoldConstant())
    assert func.body.data.numpy().tolist() == [[1], [2]]


def test_passes_of_the_name_of_one_of_relax_have_another_name() -> None:
    for name in ("FoldConstant", "FuseOps", "EliminateCommonSubexpr"):
        assert type(get_pass(name)) is getattr(relax.transform, name)
        assert type(get_pass(f"relay.{name}")) is getattr(passes, name)
    assert type(get_pass("FoldScaleAxis")) is passes.FoldScaleAxis


LEVELS = {
    0: "FuseOps InferType SimplifyExpr SimplifyInference ToMixedPrecision FlattenAtrousConv",
    1: "DeadCodeElimination Inline Legalize RemoveUnusedFunctions ToANormalForm"
    " ToBasicBlockNormalForm ToGraphNormalForm",
    2: "DynamicToStatic FoldConstant",
    3: "AlterOpLayout BackwardFoldScaleAxis CanonicalizeCast CanonicalizeOps ConvertLayout"
    " EliminateCommonSubexpr FoldScaleAxis ForwardFoldScaleAxis",
    4: "CombineParallelBatchMatmul CombineParallelConv2D CombineParallelDense FastMath",
}


@pytest.mark.parametrize("level", LEVELS)
def test_levels_are_tvm_s(level: int) -> None:
    for name in LEVELS[level].split():
        assert getattr(passes, name).opt_level == level, name
