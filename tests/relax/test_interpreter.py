"""The interpreter: every kind of expression, symbolic shapes, errors."""

from __future__ import annotations

import numpy as np
import pytest

import loopwright as lw
from loopwright import relax, te, tir
from loopwright.base.errors import LoopwrightError
from loopwright.ir.expr import GlobalVar
from loopwright.ir.op import register_op
from loopwright.ir.prim_expr import Let, Not, Select
from loopwright.ir.prim_expr import Var as TirVar
from loopwright.ir.prim_op import const, floordiv, floormod, minimum
from loopwright.relax import BlockBuilder
from loopwright.relax.interpreter import Interpreter, evaluate_scalar, to_numpy, to_runtime
from loopwright.runtime.packed_func import register_func, remove_global_func
from loopwright.runtime.tensor import ShapeTuple, Tensor
from loopwright.script import ir as I
from loopwright.script import relax as R
from loopwright.script import tir as T
from loopwright.tir.function import PrimFunc
from loopwright.tir.stmt import Evaluate

from .support import TWICE, plus, tensor, twice, var

pytestmark = pytest.mark.no_roundtrip

ONES = np.ones((3, 4), "float32")


def one(emit, *params, pure=True):
    """A module with main(*params) that returns what `emit(bb)` returns."""
    bb = BlockBuilder()
    with bb.function("main", list(params), pure=pure):
        bb.emit_func_output(emit(bb))
    return bb.get()


def run(mod, *args, **options):
    return Interpreter(mod, **options)["main"](*args)


def test_operators_tuples_and_constants():
    n = TirVar("n", "int64")
    x = var("x", n, 4)
    mod = one(lambda bb: bb.emit((twice(x), plus(x, relax.const(2.0)))), x)
    first, second = run(mod, ONES)
    assert isinstance(first, Tensor)
    np.testing.assert_array_equal(first.numpy(), ONES * 2)
    np.testing.assert_array_equal(second.numpy(), ONES * 3)


def test_shapes_and_scalars():
    n = TirVar("n", "int64")
    x = var("x", n, 4)
    s = relax.Var("s", relax.ShapeStructInfo([n]))
    p = relax.Var("p", relax.PrimStructInfo("int64"))
    mod = one(lambda bb: (relax.op.shape_of(x), relax.ShapeExpr([n * 2, 1]), s, p), x, s, p)
    assert run(mod, ONES, (3,), 7) == ((3, 4), (6, 1), (3,), 7)
    with pytest.raises(ValueError, match="argument s of main: dimension 0 must be 3\n  got: 5"):
        run(mod, ONES, (5,), 7)


ENTRY_ERRORS = [
    ((ONES.astype("float64"),), ValueError, "argument x of main must have dtype float32"),
    ((ONES[0],), ValueError, "argument x of main must have ndim 2\n  got: 1, shape (4,)"),
    ((np.ones((3, 5), "float32"),), ValueError, "argument x of main: dimension 1 must be 4"),
    (("text",), TypeError, "argument x of main must be a tensor\n  got: str"),
    ((), TypeError, "main takes 1 arguments (x)\n  got: 0"),
]


@pytest.mark.parametrize(("args", "kind", "message"), ENTRY_ERRORS)
def test_entry_checks(args, kind, message):
    x = var("x", TirVar("n", "int64"), 4)
    with pytest.raises(kind) as error:
        run(one(lambda bb: x, x), *args)
    assert str(error.value).startswith(message)


def test_match_cast_solves_and_checks():
    n = TirVar("n", "int64")
    x = relax.Var("x", tensor(ndim=2))

    def emit(bb):
        bb.match_cast(x, tensor(n, n + 1))
        return relax.ShapeExpr([n])

    assert run(one(emit, x), ONES) == (3,)
    with pytest.raises(ValueError, match="dimension 1 must be 5\n  got: 4") as error:
        run(one(emit, x), np.ones((4, 4), "float32"))
    assert error.value.__notes__ == ["while running gv in main"]


def test_branches_and_recursion():
    x = relax.Var("x", tensor(dtype="int64"))
    limit = register_op("test.below_100")
    limit.set_attr("FInferStructInfo", lambda call, bb: tensor(dtype="bool"))
    limit.set_attr("FPurity", True)
    limit.set_attr("FNumpy", lambda v: np.asarray(v < 100))
    main = GlobalVar("main")
    main.struct_info = relax.FuncStructInfo([tensor(dtype="int64")], tensor(dtype="int64"))

    def emit(bb):
        cond = bb.emit(relax.Call(limit, [x]))
        return bb.emit(relax.If(cond, relax.Call(main, [twice(x)]), x))

    assert run(one(emit, x), np.asarray(3)).numpy() == 192


def test_closures_and_local_functions():
    x, y = var("x", 4), var("y", 4)

    def emit(bb):
        inner = bb.emit(relax.Function([y], relax.SeqExpr([], plus(x, y)), tensor(4)))
        direct = bb.emit(relax.Call(inner, [x]))
        closure = bb.emit(relax.op.make_closure(inner, [direct]))
        return bb.emit(relax.op.invoke_pure_closure(closure, [], tensor(4)))

    four = np.arange(4, dtype="float32")
    np.testing.assert_array_equal(run(one(emit, x), four).numpy(), four * 3)


@pytest.fixture
def packed():
    names = []

    def register(name, fn):
        names.append(name)
        register_func(name, fn)

    yield register
    for name in names:
        remove_global_func(name)


def test_packed_functions(packed):
    def add_into(a, b, out):
        np.asarray(out)[...] = a.numpy() + b.numpy()

    packed("test.add_into", add_into)
    packed("test.same", lambda a: a)
    x = var("x", 4)

    def emit(bb):
        a = bb.emit(relax.op.call_dps_packed("test.add_into", [x, x], tensor(4)))
        b = bb.emit(relax.op.call_pure_packed("test.same", a, sinfo_args=tensor(4)))
        return bb.emit(relax.Call(relax.ExternFunc("test.same"), [b], sinfo_args=[tensor(4)]))

    four = np.arange(4, dtype="float32")
    np.testing.assert_array_equal(run(one(emit, x, pure=False), four).numpy(), four * 2)
    with pytest.raises(ValueError, match="cannot find global function 'test.nowhere'"):
        call = relax.op.call_pure_packed("test.nowhere", x, sinfo_args=tensor(4))
        run(one(lambda bb: bb.emit(call), x), four)


def test_kernels_get_arguments_outputs_and_symbols_in_order():
    n = TirVar("n", "int64")
    x = var("x", n)
    kernel = PrimFunc([TirVar(name, "handle") for name in "abc"], Evaluate(0))
    seen = []

    def run_tir(func, args):
        assert func is kernel
        seen.append([a if isinstance(a, int) else a.shape for a in args])
        for i, out in enumerate(a for a in args if not isinstance(a, int)):
            out[...] = i

    bb = BlockBuilder()
    gvar = bb.add_func(kernel, "kernel")
    with bb.function("main", [x]):
        two = [tensor(n * 2), tensor(3)]
        a = bb.emit(relax.op.call_tir(gvar, [x], two, tir_vars=[n]))
        b = bb.emit(relax.op.call_tir_inplace(gvar, [x, a[0]], [1, -1], two))
        bb.emit_func_output((a, b))
    (a0, a1), (b0, b1) = run(bb.get(), np.ones(2, "float32"), run_tir=run_tir)
    assert seen == [[(2,), (4,), (3,), 2], [(2,), (4,), (3,)]]
    assert a0.numpy().tolist() == [1.0] * 4 == b0.numpy().tolist()
    assert a1.numpy().tolist() == [2.0] * 3 == b1.numpy().tolist()
    assert b0.data_ptr() == a0.data_ptr()


def test_kernels_run_in_the_tensorir_interpreter():
    n = TirVar("n", "int64")
    x = var("x", n, 4)

    def row_sums(a, scale):
        k = te.reduce_axis((0, a.shape[1]), "k")
        return te.compute((a.shape[0],), lambda i: te.sum(a[i, k] * scale, axis=k), "out")

    mod = one(lambda bb: bb.emit_te(row_sums, x, relax.const(2.0)), x)
    assert run(mod, ONES).numpy().tolist() == [8.0] * 3
    kernel = Interpreter(mod)["row_sums"]
    out = np.zeros(3, "float32")
    assert kernel(ONES, np.float32(2).reshape(()), out) is None and out.tolist() == [8.0] * 3


def test_planned_memory():
    x = var("x", 4)

    def emit(bb):
        op = relax.op
        storage = bb.emit(op.memory.alloc_storage([16], 0, "global", "uint8"))
        made = bb.emit(op.memory.alloc_tensor(storage, 8, [2], "float32"))
        bb.emit(op.call_packed("test.fill", made))
        bb.emit(op.memory.kill_tensor(made))
        return bb.emit(op.memory.view(made, [1, 2]))

    register_func("test.fill", lambda t: np.asarray(t).fill(5), override=True)
    assert run(one(emit, x, pure=False), np.ones(4, "float32")).numpy().tolist() == [[5.0, 5.0]]
    remove_global_func("test.fill")


def test_effects(capsys):
    x = var("x", 2)

    def emit(bb):
        bb.emit(relax.op.relax_print(x, format="x is {}"))
        bb.emit(relax.op.assert_op(relax.const(False), [x], format="no: {}"))
        return x

    with pytest.raises(AssertionError, match=r"no: \[1. 1.\]"):
        run(one(emit, x, pure=False), np.ones(2, "float32"))
    assert capsys.readouterr().out == "x is [1. 1.]\n"


def test_observer_sees_every_binding():
    x = var("x", 4)
    seen = []
    mod = one(lambda bb: bb.emit(plus(twice(x), x)), x)
    run(
        mod, np.ones(4, "float32"), observer=lambda f, b, v: seen.append((f, b.var.name_hint, v[0]))
    )
    assert seen == [("main", "gv", 2.0), ("main", "gv1", 3.0)]


def test_results_are_what_the_struct_info_says():
    x = var("x", 4)
    mod = one(lambda bb: bb.emit(twice(x)), x)
    meaning = TWICE.get_attr("FNumpy")
    try:
        TWICE.set_attr("FNumpy", lambda v: (v + v).astype("float64"))
        assert run(mod, np.ones(4, "float32")).dtype == "float32"
        TWICE.set_attr("FNumpy", lambda v: v[:2])
        with pytest.raises(ValueError, match=r"test.twice \(gv\): dimension 0 must be 4"):
            run(mod, np.ones(4, "float32"))
        TWICE.set_attr("FNumpy", lambda v: v > 0)
        with pytest.raises(LoopwrightError, match="must give float32\n  got: bool"):
            run(mod, np.ones(4, "float32"))
    finally:
        TWICE.set_attr("FNumpy", meaning)


def test_operators_without_meaning():
    op = register_op("test.meaningless")
    op.set_attr("FInferStructInfo", lambda call, bb: tensor(4))
    with pytest.raises(LoopwrightError, match="operator test.meaningless has no numpy definition"):
        run(one(lambda bb: bb.emit(relax.Call(op, [])), pure=False))


def test_scalar_expressions():
    n, v = TirVar("n", "int64"), TirVar("v", "int64")
    cases = {
        n * 3 - 1: 20,
        floordiv(-n, 2): -4,
        floormod(-n, 4): 1,
        minimum(n, 5): 5,
        (n + 1).astype("float32"): 8.0,
        Select(n > 3, n, const(0, "int64")): 7,
        Select(n > 7, n, const(0, "int64")): 0,
        Not(n > 3): False,
        Let(v, n + 1, v * n): 56,
        tir.if_then_else(n < 7, n, 2): 2,
        tir.if_then_else(n <= 7, n, 2): 7,
        tir.sqrt((n + 2).astype("float32")): 3.0,
        tir.Div(-n, const(2, "int64")): -3,
        tir.Mod(-n, const(4, "int64")): -3,
        const(0.1, "float32") * 3.0: float(np.float32(0.1) * np.float32(3)),
    }
    for expr, expected in cases.items():
        assert evaluate_scalar(expr, {n: 7}) == expected
    with pytest.raises(LoopwrightError, match="this scalar expression has no value here"):
        evaluate_scalar(tir.call_extern("int64", "f", n), {n: 7})


def test_closures_take_what_they_captured_last():
    """As LambdaLift orders parameters; captured values came first."""

    @I.ir_module
    class Module:
        @R.function(private=True)
        def inner(x: R.Tensor((2,), "float32"), held: R.Tensor((2,), "float32")):
            y = R.subtract(x, held)
            return y

        @R.function
        def main(x: R.Tensor((2,), "float32"), held: R.Tensor((2,), "float32")):
            made = R.make_closure(Module.inner, (held,))
            y = R.invoke_pure_closure(made, (x,), sinfo_args=R.Tensor((2,), "float32"))
            return y

    x, held = np.array([5, 5], "float32"), np.array([1, 2], "float32")
    np.testing.assert_array_equal(Interpreter(Module)["main"](x, held).numpy(), [4, 3])
    np.testing.assert_array_equal(lw.compile(Module)["main"](x, held).numpy(), [4, 3])


def call_main(info, *args):
    """What main(x) gives of a parameter of this struct info: the parameter."""
    p = relax.Var("p", info)
    return run(one(lambda bb: p, p), *args)


N = TirVar("n", "int64")
PRIM = relax.PrimStructInfo(value=N * 2)
SHAPES = relax.TupleStructInfo([relax.ShapeStructInfo([N]), relax.PrimStructInfo(value=N + 1)])
ARGUMENT_ERRORS = [
    (relax.ShapeStructInfo(ndim=2), 3, TypeError, "argument p of main must be a shape\n  got: int"),
    (relax.ShapeStructInfo(ndim=2), (3,), ValueError, "must have 2 dims\n  got: (3,)"),
    (relax.PrimStructInfo("int64"), ONES, TypeError, "must be a int64 scalar\n  got: a tensor"),
    (SHAPES, 3, TypeError, "must be 2 values\n  got: int"),
    (SHAPES, ((3,), 4, 5), TypeError, "must be 2 values\n  got: 3 fields"),
    (SHAPES, ((3,), 5), ValueError, "field 1 of argument p of main must be 4\n  got: 5"),
    (SHAPES, (3, 4), TypeError, "field 0 of argument p of main must be a shape\n  got: int"),
    (relax.FuncStructInfo.opaque_func(), 3, TypeError, "must be a function\n  got: int"),
    (relax.TensorStructInfo(dtype="int8", ndim=1), 3, TypeError, "must be a tensor\n  got: int"),
]


@pytest.mark.parametrize(("info", "value", "kind", "message"), ARGUMENT_ERRORS)
def test_arguments_that_do_not_fit(info, value, kind, message):
    with pytest.raises(kind) as error:
        call_main(info, value)
    assert message in str(error.value)


def test_arguments_that_fit():
    assert call_main(relax.ShapeStructInfo(ndim=2), (3, 4)) == (3, 4)
    assert call_main(relax.ShapeStructInfo(ndim=-1), (3,)) == (3,)
    assert call_main(SHAPES, ((3,), 4)) == ((3,), 4)
    assert call_main(relax.PrimStructInfo(value=N), 4) == 4
    scalar = relax.TensorStructInfo((), "int8")
    for given in (3, True, 3.0):
        made = call_main(scalar, given)
        assert made.dtype == "int8" and made.numpy() == given
    assert call_main(relax.TensorStructInfo(None, "void"), ONES).shape == (3, 4)
    n = relax.Var("n", relax.PrimStructInfo(value=N))
    assert run(one(lambda bb: relax.ShapeExpr([N, N + 1]), n), 3) == (3, 4)


class Shared:
    """An array of another library."""

    def __init__(self, array):
        self.__dlpack__, self.__dlpack_device__ = array.__dlpack__, array.__dlpack_device__


def test_arrays_of_other_libraries_share_their_memory():
    array = np.zeros(4, "float32")
    made = to_numpy(Shared(array))
    array[1] = 5
    assert made.tolist() == [0, 5, 0, 0]
    assert to_numpy([array, (array, "text", None, 3)])[1][1:] == ("text", None, 3)
    assert to_numpy(np.float32(3)).shape == ()


def test_values_for_callers():
    assert isinstance(to_runtime((1, 2)), ShapeTuple)
    assert to_runtime(()) == () and not isinstance(to_runtime(()), ShapeTuple)
    for mixed in ((1, 2.0), (1, True), ((1,), 2)):
        assert not isinstance(to_runtime(mixed), ShapeTuple)
    assert isinstance(to_runtime((np.zeros(2), 1))[0], Tensor)


def test_values_that_are_not_there():
    x, stranger = var("x", 4), var("stranger", 4)
    mod = one(lambda bb: bb.emit(twice(stranger)), x)
    with pytest.raises(LoopwrightError, match="variable stranger has no value in main"):
        run(mod, np.ones(4, "float32"))
    made = one(lambda bb: relax.ShapeExpr([N]), x)
    with pytest.raises(LoopwrightError, match="symbolic variable n has no value in main"):
        run(made, np.ones(4, "float32"))
    unknown = relax.op.call_dps_packed("test.fill", x, tensor(ndim=1))
    with pytest.raises(LoopwrightError, match="in destination-passing style needs a known shape"):
        run(one(lambda bb: bb.emit(unknown), x), np.ones(4, "float32"))


def test_errors_of_operators_are_told_once():
    """What an operator says with `got` is left as it is; another error is said of the operator."""
    x, op = var("x", 4), register_op("test.raises")
    op.set_attr("FInferStructInfo", lambda call, bb: tensor(4))
    errors = {
        ValueError("wrong\n  got: 3"): (ValueError, r"^wrong\n  got: 3"),
        IndexError("beyond"): (IndexError, r"test.raises cannot be computed: beyond\n  got: float"),
        TypeError("kind"): (TypeError, "test.raises cannot be computed: kind"),
        UnicodeError("text"): (ValueError, "test.raises cannot be computed: text"),
        KeyError("key"): (KeyError, "key"),
    }
    for error, (kind, message) in errors.items():

        def raises(*_, error=error):
            raise error

        op.set_attr("FNumpy", raises)
        with pytest.raises(kind, match=message) as caught:
            run(one(lambda bb: bb.emit(relax.Call(op, [x])), x, pure=False), np.ones(4, "float32"))
        of_op = "in the numpy definition of test.raises" in caught.value.__notes__
        assert of_op is isinstance(error, KeyError)


def test_functions_passed_to_functions(packed):
    packed("test.negated", lambda a: Tensor(-a.numpy()))
    packed("test.context", lambda machine, a: (isinstance(machine, Interpreter), a))
    x, f = var("x", 4), relax.Var("f", relax.FuncStructInfo([tensor(4)], tensor(4), False))
    mod = one(lambda bb: bb.emit(relax.Call(f, [x])), x, f, pure=False)
    four = np.arange(4, dtype="float32")
    extern = relax.ExternFunc("test.negated")
    assert run(mod, four, extern).numpy().tolist() == [0, -1, -2, -3]
    assert run(mod, four, lambda a: Tensor(a.numpy() * 2)).numpy().tolist() == [0, 2, 4, 6]
    bb = BlockBuilder(mod)
    bb.add_func(extern, "external")
    assert Interpreter(bb.get())["external"](four).numpy().tolist() == [0, -1, -2, -3]
    call = relax.op.call_builtin_with_ctx("test.context", [x], sinfo_args=relax.ObjectStructInfo())
    known, same = run(one(lambda bb: bb.emit(call), x, pure=False), four)
    assert known is True and same.numpy().tolist() == four.tolist()


def test_bound_arguments_of_closures_add_up():
    x, y, z = (var(name, 4) for name in "xyz")

    def emit(bb):
        inner = bb.emit(relax.Function([x, y, z], relax.SeqExpr([], plus(x, twice(y))), tensor(4)))
        first = bb.emit(relax.op.make_closure(inner, [y]))
        second = bb.emit(relax.op.make_closure(first, [z]))
        return bb.emit(relax.op.invoke_closure(second, [x], tensor(4)))

    ones = np.ones(4, "float32")
    mod = one(emit, x, y, z, pure=False)
    assert run(mod, ones, ones * 10, ones * 100).numpy().tolist() == [21.0] * 4


def test_kernels_that_the_machine_calls_without_symbols():
    """The last of the arguments may be the numbers of a shape; without one all are tensors."""

    @T.prim_func
    def double(a: T.Buffer((2,), "float32"), b: T.Buffer((2,), "float32")):
        for i in range(2):
            with T.block("b"):
                vi = T.axis.spatial(2, i)
                b[vi] = a[vi] * T.float32(2)

    bb = relax.BlockBuilder()
    gvar = bb.add_func(double, "double")
    x = relax.Var("x", R.Tensor((2,), "float32"))
    with bb.function("main", [x]):
        out = bb.emit(relax.op.builtin.alloc_tensor(relax.ShapeExpr([2]), "float32", 0))
        bb.emit(relax.op.vm.call_tir_dyn(gvar, relax.Tuple([x, out])))
        bb.emit_func_output(out)
    assert Interpreter(bb.get())["main"](np.float32([1, 4])).numpy().tolist() == [2, 8]
