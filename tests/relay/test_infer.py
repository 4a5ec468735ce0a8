"""Types of Relay: from arguments to results, and from results to weights."""

import numpy as np
import pytest

import loopwright as lw
from loopwright import relay, tir
from loopwright.base.errors import DiagnosticError, LoopwrightError
from loopwright.ir.structural import structural_equal, structural_hash
from loopwright.relay.operators.tensor import broadcast
from loopwright.relay.translate import to_relax
from loopwright.tvm.tir.env_func import EnvFunc


def typed(*params: relay.Var, body: relay.Expr) -> relay.Function:
    """The function of a module of one, with its types."""
    mod = lw.IRModule({"main": relay.Function(params, body)})
    return relay.transform.InferType()(mod)["main"]


def test_forward() -> None:
    x, y = relay.var("x", shape=(2, 1, 3)), relay.var("y", shape=(4, 3))
    func = typed(x, y, body=relay.tanh(x + y) < x)
    assert func.ret_type == relay.TensorType((2, 4, 3), "bool")
    assert func.checked_type == relay.FuncType(
        [x.type_annotation, y.type_annotation], relay.TensorType((2, 4, 3), "bool")
    )


def test_a_weight_without_a_type() -> None:
    x, w = relay.var("x", shape=(2, 8)), relay.var("w")
    func = typed(x, w, body=relay.nn.dense(x, w, units=5))
    assert func.params[1].type_annotation == relay.TensorType((5, 8))
    assert func.ret_type == relay.TensorType((2, 5))


def test_a_call_waits_for_what_is_known_later() -> None:
    x, w, y = relay.var("x"), relay.var("w", shape=(5, 8)), relay.var("y")
    wait = relay.nn.relu(y)
    body = relay.Let(y, relay.nn.dense(x, w, units=5), wait)
    call = relay.Call(relay.Function([x], body), [relay.var("a", shape=(2, 8))])
    mod = lw.IRModule({"main": relay.Function([call.args[0]], call)})
    assert relay.transform.InferType()(mod)["main"].ret_type == relay.TensorType((2, 5))


def test_generic_functions() -> None:
    t = relay.TypeVar("t")
    a = relay.Var("a", t)
    identity = relay.Function([a], a, t, [t])
    x, y = relay.var("x", shape=(2,)), relay.var("y", shape=(3,), dtype="int32")
    func = typed(x, y, body=relay.Tuple([relay.Call(identity, [x]), relay.Call(identity, [y])]))
    assert func.ret_type == relay.TupleType([x.type_annotation, y.type_annotation])


def test_mismatch_names_both_places() -> None:
    x, y = relay.var("x", shape=(2,)), relay.var("y", shape=(3,))
    c = relay.var("c", shape=(), dtype="bool")
    with pytest.raises(DiagnosticError, match=r"unable to unify.*\n.*If and %y"):
        typed(c, x, y, body=relay.If(c, x, y))


def test_extents_that_only_the_run_knows() -> None:
    x = relay.var("x", shape=(relay.Any(), 3))
    y = relay.var("y", shape=(relay.Any(), 3))
    assert str(typed(x, y, body=x + y).ret_type.shape[1]) == "3"
    body = relay.concatenate([x, y], axis=0)
    assert typed(x, y, body=body).ret_type == relay.TensorType((relay.Any(), 3))


@pytest.mark.parametrize("length", [90_000])
def test_a_long_chain(length: int) -> None:
    x = relay.var("x", shape=(2,))
    body: relay.Expr = x
    for _ in range(length):
        body = relay.negative(body)
    func = typed(x, body=body)
    assert func.ret_type == relay.TensorType((2,))
    assert lw.ir.structural_equal(func, func.replace(body=relay.negative(func.body.args[0])))


def test_a_module_runs_as_relax() -> None:
    x, y = relay.var("x", shape=(2, 3)), relay.var("y", shape=(4, 3))
    c = relay.var("c", shape=(), dtype="bool")
    h = relay.var("h")
    body = relay.Let(h, relay.nn.dense(x, y), relay.If(c, relay.nn.relu(h), relay.negative(h)))
    mod = lw.IRModule({"main": relay.Function([x, y, c], body)})
    run = lw.compile(to_relax(mod), "llvm")
    a, b = np.random.default_rng(0).normal(size=(2, 3)), np.ones((4, 3))
    for flag, want in ((True, np.maximum(a @ b.T, 0)), (False, -(a @ b.T))):
        got = run(a.astype("float32"), b.astype("float32"), np.array(flag))
        np.testing.assert_allclose(got.numpy(), want, rtol=1e-5)


def test_a_users_operator():
    own = relay.op.register("user.swap", "axes swapped")
    own.set_num_inputs(1)
    own.add_argument("data", "Tensor", "a matrix")
    own.set_support_level(3)
    own.add_type_rel("swap", lambda types, attrs: relay.TensorType(types[0].shape[::-1]))
    assert (own.num_inputs, own.support_level, len(own.arguments)) == (1, 3, 1)
    assert relay.op.get("add").num_inputs == 2
    with pytest.raises(LoopwrightError, match="registered before"):
        relay.op.register("user.swap")
    x = relay.var("x", shape=(2, 3))
    y = relay.var("y")  # known once the rest is
    call = relay.Call(own, [y])
    assert str(relay.transform.InferTypeLocal(relay.Let(y, x, call))) == "Tensor[(3, 2), float32]"
    assert str(call.checked_type) == "Tensor[(3, 2), float32]"
    named = relay.op.register("user.plus")
    named.add_type_rel("Broadcast")
    found = relay.transform.InferTypeLocal(relay.Call(named, [x, relay.const([1.0, 2.0, 3.0])]))
    assert str(found) == "Tensor[(2, 3), float32]"
    named.add_type_rel("Nonsense")
    with pytest.raises(DiagnosticError, match="one of: Identity, Broadcast"):
        relay.transform.InferTypeLocal(relay.Call(named, [x, x]))


def test_hashes_tell_programs_apart():
    x, y, z = (relay.var(n, shape=s) for n, s in (("x", (2,)), ("y", (2,)), ("z", (3,))))
    once = relay.exp(x)
    programs = [
        relay.Function([x], relay.exp(x)),
        relay.Function([z], relay.exp(z)),
        relay.Function([x], once + once),
        relay.Function([x], relay.exp(x) + relay.exp(x)),
        relay.Function([x], relay.Let(y, x, y)),
        relay.Function([x], relay.Let(relay.Var("y"), x, x)),
    ]
    assert len({structural_hash(p) for p in programs}) == len(programs)
    assert structural_hash(programs[0]) == structural_hash(relay.Function([y], relay.exp(y)))


def test_split_into_one_part_is_a_tuple():
    (part,) = relay.split(relay.var("x", shape=(2,)), 1)
    assert str(relay.transform.InferTypeLocal(part)) == "Tensor[(2), float32]"


def test_a_type_that_is_said_to_be_open_is_filled_in():
    x, open_ = relay.var("x", shape=(2,)), relay.Var("y", relay.IncompleteType())
    func = typed(x, body=relay.Let(open_, relay.exp(x), open_))
    assert func.body.var.type_annotation == relay.TensorType((2,))
    inner = relay.Function([x], relay.exp(x), relay.IncompleteType())
    assert typed(x, body=inner(x)).body.op.ret_type == relay.TensorType((2,))


def test_a_constant_of_a_types_dtype():
    kind = relay.scalar_type("int8")
    assert relay.const(3, kind).checked_type == kind


def test_extents_that_are_always_the_same_number():
    n, m = lw.te.var("n"), lw.te.size_var("m")
    x = relay.var("x", shape=(n, m))
    twice = typed(x, body=relay.concatenate((x, x), axis=1)).ret_type
    assert twice == relay.TensorType((n, m + m)) == relay.TensorType((n, m * 2))
    assert len({twice, relay.TensorType((n, m + m)), relay.TensorType((n, m * 2))}) == 1
    assert relay.TensorType((n, m - m + 3)) == relay.TensorType((n, 3))
    assert twice != relay.TensorType((n, m * 3)) and twice != relay.TensorType((m, m * 2))
    assert relay.TensorType((relay.Any() * 2,)) == relay.TensorType((relay.Any() * 2,))
    a, b = relay.TensorType((n, n + m)), relay.TensorType((m, n + m))
    assert not structural_equal(a, b, map_free_vars=True)


def test_a_known_axis_of_a_concatenation_stays_known():
    parts = [relay.var("x", shape=(n, relay.Any())) for n in (1, 2)]
    func = typed(*parts, body=relay.concatenate(parts, axis=0))
    assert func.ret_type == relay.TensorType((3, relay.Any()))
    func = typed(*parts, body=relay.concatenate([parts[0], parts[0]], axis=1))
    assert func.ret_type == relay.TensorType((1, relay.Any()))


def test_relations_are_functions_of_the_registry():
    broadcast = EnvFunc.get("tvm.relay.type_relation.Broadcast")
    types = [relay.TensorType((2, 1)), relay.TensorType((3,))]
    assert broadcast(types) == relay.TensorType((2, 3))
    assert EnvFunc.get("tvm.relay.type_relation.Identity")(types) == types[0]
    relation = relay.TypeRelation(broadcast, types, 2, None)
    assert lw.ir.load_json(lw.ir.save_json(relation)).func.func is broadcast.func
    with pytest.raises(ValueError, match="cannot find global function"):
        EnvFunc.get("tvm.relay.type_relation.NoSuch")


def test_what_no_type_can_have() -> None:
    x = relay.var("x", shape=(2,))
    twice = relay.Call(relay.op.get("nn.relu"), [x, x])
    with pytest.raises(DiagnosticError, match="nn.relu takes 1 arguments(.|\n)*got: 2"):
        relay.transform.InferType()(lw.IRModule.from_expr(twice))
    with pytest.raises(TypeError, match="an extent is an int"):
        relay.var("y", shape=(1, "n"))


def test_which_extent_a_broadcast_takes() -> None:
    """The one that is a number; of two symbols the first."""
    n, m = tir.Var("n", "int64"), tir.Var("m", "int64")
    three, one = tir.IntImm("int32", 3), tir.IntImm("int32", 1)
    for a, b, wanted in ((n, three, three), (three, n, three), (n, m, n), (n, one, n), (one, n, n)):
        assert broadcast((a,), (b,)) == (wanted,)
    assert broadcast((n, three), (m,)) == (n, three) == broadcast((m,), (n, three))


def test_the_like_of_another_type() -> None:
    x, y = relay.var("x", shape=(2, 3)), relay.var("y", shape=(1, 3), dtype="int8")
    made = typed(x, y, body=relay.collapse_sum_like(x, y)).body.checked_type
    assert made == relay.TensorType((1, 3), "float32")
    made = typed(x, y, body=relay.broadcast_to_like(y, x)).body.checked_type
    assert made == relay.TensorType((2, 3), "int8")
