"""The form of operators: builders, inference, errors, views."""

from __future__ import annotations

import inspect
from types import FunctionType

import numpy as np
import pytest

from loopwright import relax, te, tir, topi
from loopwright.ir.op import Op
from loopwright.ir.structural import assert_structural_equal, structural_equal
from loopwright.ops import OPERATORS, Tensor, find_operator, op
from loopwright.relax import op as R_op
from loopwright.script import relax as R
from loopwright.tir import interpreter

n = tir.Var("n", "int64")


def var(*shape, dtype="float32", ndim=-1):
    return relax.Var("x", relax.TensorStructInfo(shape or None, dtype, ndim=ndim))


def inferred(call):
    return relax.BlockBuilder().normalize(call).struct_info


def test_views_are_one():
    assert R.nn.relu is R_op.nn.relu
    assert R.add is R_op.add
    assert topi.nn.relu is find_operator("relax.nn.relu")
    assert Op.get("relax.add").get_attr("definition") is OPERATORS["relax.add"]


def test_signature_and_doc_are_the_bodys():
    signature = inspect.signature(R_op.nn.softmax)
    assert list(signature.parameters) == ["data", "axis"]
    assert signature.parameters["axis"].default == -1
    assert "exp(x - max)" in R_op.nn.softmax.__doc__


def functions_of(operator):
    """What an operator is made of: its body, numpy reference, inference and checks."""
    parts = [*operator.hooks.values(), operator.body, operator.op.get_attr("FNumpy")]
    parts = [p for p in parts if isinstance(p, FunctionType)]
    cells = [c.cell_contents for p in parts for c in p.__closure__ or ()]
    return [*parts, *(c for c in cells if isinstance(c, FunctionType))]


@pytest.mark.parametrize("operator", OPERATORS.values(), ids=str)
def test_defaults_of_an_operators_parts_are_its_own(operator):
    own = operator.signature.parameters
    for part in functions_of(operator):
        for name, param in inspect.signature(part).parameters.items():
            if name in own and param.default is not param.empty:
                assert repr(param.default) == repr(own[name].default), (part, name)


def test_wrong_arguments_say_what_is_taken():
    with pytest.raises(TypeError, match="relax.add: missing a required argument: 'x2'"):
        R_op.add(var(2))
    with pytest.raises(TypeError, match="relax.nn.softmax: attribute axis is of type Axis"):
        R_op.nn.softmax(var(2), axis="last")
    with pytest.raises(TypeError, match="argument x must be a Relax expression"):
        R_op.exp("x")


def test_unknown_operators_name_close_ones():
    with pytest.raises(AttributeError, match="did you mean"):
        R_op.nn.rellu
    with pytest.raises(AttributeError, match="R has no operator 'expp'"):
        R.expp


def test_errors_of_inference_say_what_was_got():
    with pytest.raises(ValueError, match="shapes do not broadcast") as caught:
        inferred(R_op.add(var(2, 3), var(4)))
    assert "got: (2, 3) and (4)" in str(caught.value)
    assert "dims must be equal or 1" in str(caught.value)
    with pytest.raises(ValueError, match="the inner dimensions differ: 3 and 4"):
        inferred(R_op.matmul(var(2, 3), var(4, 5)))
    with pytest.raises(TypeError, match="operands of different dtypes"):
        inferred(R_op.add(var(2), var(2, dtype="int32")))
    with pytest.raises(TypeError, match="relax.add: argument x1 must be a tensor"):
        inferred(R_op.add(relax.ShapeExpr([2]), var(2)))


def test_unknown_shapes_stay_unknown():
    assert_structural_equal(
        inferred(R_op.exp(var(ndim=2))), relax.TensorStructInfo(dtype="float32", ndim=2)
    )
    assert inferred(R_op.permute_dims(var())).ndim == -1
    assert inferred(R_op.nn.softmax(var(ndim=3))).ndim == 3
    assert str(inferred(R_op.add(var(2, dtype=""), var(2, dtype=""))).dtype) == "void"


def test_symbolic_shapes_are_computed():
    made = inferred(R_op.concat([var(n, 2), var(3, 2)], axis=0))
    assert structural_equal(made.shape, relax.ShapeExpr([n + 3, 2]))
    made = inferred(R_op.concat([var(3, 2), var(n, 2)], axis=0))
    assert structural_equal(made.shape, relax.ShapeExpr([3 + n, 2]))  # in the order of the tensors
    made = inferred(R_op.concat([var(3, 2), var(n, 2), var(4, 2), var(n, 2)], axis=0))
    assert structural_equal(made.shape, relax.ShapeExpr([n * 2 + 7, 2]))
    made = inferred(R_op.reshape(var(n, 4), (-1, 2)))
    assert structural_equal(made.shape, relax.ShapeExpr([n * 2, 2]))


def test_python_operators_build():
    x, y = var(2), var(2)
    for call, name in (
        (x + y, "add"),
        (1 - x, "subtract"),
        (x * 2, "multiply"),
        (x / y, "divide"),
        (x // y, "floor_divide"),
        (x**2, "power"),
        (-x, "negative"),
        (x < y, "less"),
        (x @ y, "matmul"),
        (x.astype("int32"), "astype"),
    ):
        assert call.op.name == f"relax.{name}"
    assert str((x + 1).args[1].struct_info.dtype) == "float32"


def test_tensor_expressions_with_python_operators():
    a = te.placeholder((2, 3), "float32", "a")
    func = te.create_prim_func([a, (a + 1) * a])
    x = np.arange(6, dtype="float32").reshape(2, 3)
    out = np.empty_like(x)
    interpreter.run(func, [x, out])
    np.testing.assert_array_equal(out, (x + 1) * x)


def run_te(result, *inputs):
    """What a tensor expression computes; `inputs` are (placeholder, array)."""
    func = te.create_prim_func([*(p for p, _ in inputs), result])
    out = np.empty([int(d) for d in result.shape], str(result.dtype))
    interpreter.run(func, [*(a for _, a in inputs), out])
    return out


def test_topi_signatures():
    rng = np.random.default_rng(3)
    image, kernel = rng.normal(size=(1, 2, 5, 5)), rng.normal(size=(3, 2, 3, 3))
    image, kernel = image.astype("float32"), kernel.astype("float32")
    a, w = te.placeholder(image.shape, name="a"), te.placeholder(kernel.shape, name="w")
    same = OPERATORS["relax.nn.conv2d"].op.get_attr("FNumpy")
    expected = same(image, kernel, strides=[1, 1], padding=[1, 1, 1, 1], dilation=[1, 1],
                    groups=1, data_layout="NCHW", kernel_layout="OIHW", out_layout="NCHW",
                    out_dtype=None)  # fmt: skip
    got = run_te(topi.nn.conv2d(a, w, 1, [1, 1, 1, 1], 1), (a, image), (w, kernel))
    np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5)
    pooled = topi.nn.pool2d(a, [2, 2], [2, 2], [1, 1], [0, 0, 0, 0], "max")
    windows = image[:, :, :4, :4].reshape(1, 2, 2, 2, 2, 2).max((3, 5))
    np.testing.assert_array_equal(run_te(pooled, (a, image)), windows)
    x, y = te.placeholder((2, 3), name="x"), te.placeholder((4, 3), name="y")
    u, v = rng.normal(size=(2, 3)).astype("float32"), rng.normal(size=(4, 3)).astype("float32")
    np.testing.assert_allclose(run_te(topi.nn.dense(x, y), (x, u), (y, v)), u @ v.T, rtol=1e-4)
    np.testing.assert_array_equal(run_te(topi.trilu(x, 0, True), (x, u)), np.triu(u))
    assert run_te(topi.full((2,), "int32", 7)).tolist() == [7, 7]


def test_an_operator_is_defined_once():
    with pytest.raises(RuntimeError, match="operator relax.add is defined twice"):

        @op("relax.add")
        def add(x: Tensor):
            return x


def test_a_new_operator_in_a_few_lines():
    @op("relax.test_form.cube")
    def cube(x: Tensor):
        """x to the power 3."""
        return te.compute(x.shape, lambda *i: x(*i) * x(*i) * x(*i), "cube")

    try:
        cube.numpy(lambda x: x**3)
        bb = relax.BlockBuilder()
        x = relax.Var("x", relax.TensorStructInfo((n, 2), "float32"))
        with bb.function("main", [x]):
            bb.emit_func_output(bb.emit(R_op.test_form.cube(x)))
        mod = bb.get()
        array = np.arange(4, dtype="float32").reshape(2, 2)
        lowered = relax.transform.LegalizeOps()(mod)
        for stage in (mod, lowered):
            got = relax.interpreter.Interpreter(stage)["main"](array).numpy()
            np.testing.assert_array_equal(got, array**3)
    finally:
        OPERATORS.remove("relax.test_form.cube")


def test_an_operator_without_a_body_is_left_to_its_hooks():
    with OPERATORS.snapshot():

        @op("testform.outside", body=False)
        def outside(x: Tensor): ...

        @outside.infer
        def _(x):
            return relax.TensorStructInfo((7,), x.dtype)

        @op("testform.forgotten")
        def forgotten(x: Tensor): ...

    call = relax.BlockBuilder().normalize(outside.builder(var(2)))
    assert call.struct_info.get_shape()[0] == 7
    assert not Op.get("testform.outside").has_attr("FLegalize")
    with pytest.raises(TypeError, match="(?s)returns no tensor expression.*body=False"):
        inferred(forgotten.builder(var(2)))


def test_a_constant_scalar_becomes_a_literal():
    """The other way, a variable, is read from memory by the loops."""
    scalar = relax.Var("x", relax.TensorStructInfo((), "float32"))
    for value, arguments in ((relax.const(1.5, "float32"), 0), (scalar, 1)):
        bb = relax.BlockBuilder()
        with bb.function("main", [value] if isinstance(value, relax.Var) else []):
            bb.emit_func_output(bb.emit(R_op.full([2, 3], value)))
        lowered = relax.transform.LegalizeOps()(bb.get())
        (loops,) = [f for f in lowered.functions.values() if isinstance(f, tir.PrimFunc)]
        assert len(loops.params) == arguments + 1


@pytest.mark.parametrize(
    ("shape", "repeats"), [((2, 3), (2,)), ((3,), (2, 3)), ((2, 3), (3, 2)), ((), (2,))]
)
def test_tile_of_other_counts_than_axes(shape, repeats):
    info = inferred(R_op.tile(var(*shape) if shape else relax.const(1.0), list(repeats)))
    assert tuple(int(d) for d in info.shape.values) == np.tile(np.zeros(shape), repeats).shape
