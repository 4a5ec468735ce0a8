"""x.shape[0], x.dtype.bits, ...: known ones are values, others are asked of the tensor at run time."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import loopwright as lw
from loopwright import relax
from loopwright.base.errors import LoopwrightError
from loopwright.ir import prim_expr as pe
from loopwright.ir.structural import assert_structural_equal
from loopwright.runtime import empty, tensor
from loopwright.script import ir as I
from loopwright.script import relax as R

from .support import var

FIELDS = {
    "type_code": lambda x, axis: x.dtype.type_code,
    "bits": lambda x, axis: x.dtype.bits,
    "lanes": lambda x, axis: x.dtype.lanes,
    "ndim": lambda x, axis: x.ndim,
    "shape": lambda x, axis: x.shape[axis],
    "strides": lambda x, axis: x.strides[axis],
    "byte_offset": lambda x, axis: x.byte_offset,
    "elem_offset": lambda x, axis: x.elem_offset,
}


def module(field, info):
    bb = relax.BlockBuilder()
    x, axis = relax.Var("x", info), relax.Var("axis", relax.PrimStructInfo("int64"))
    with bb.function("main", [x, axis]):
        bb.emit_func_output(bb.emit(FIELDS[field](x, axis)))
    return bb.get()


@pytest.mark.parametrize("dtype", ["int32", "float64", "bfloat16", "float8_e4m3fn"])
@pytest.mark.parametrize("field", FIELDS)
def test_at_run_time(field, dtype):
    whole = empty([6, 4], dtype)
    size = np.dtype(getattr(ml_dtypes, dtype, dtype)).itemsize
    part = whole._create_view([3, 4], relative_byte_offset=4 * size)
    kind = lw.DataType(dtype)
    expected = {
        "type_code": kind.type_code,
        "bits": kind.bits,
        "lanes": 1,
        "ndim": 2,
        "shape": 3,
        "strides": 4,
        "byte_offset": 4 * size,
        "elem_offset": 4,
    }
    mod = module(field, relax.TensorStructInfo(None, "void"))
    vm = relax.VirtualMachine(lw.compile(mod), lw.cpu())
    assert vm["main"](part, 0) == expected[field]
    if dtype != "bfloat16":
        array = np.ones((3, 4), getattr(ml_dtypes, dtype, dtype))
        run = relax.interpreter.Interpreter(mod)
        assert run["main"](array, 0) == (0 if "offset" in field else expected[field])


def test_what_is_known_is_a_value():
    n = pe.Var("n", "int64")
    x, bb = var("x", n, 4, dtype="float16"), relax.BlockBuilder()
    values = {name: bb.normalize(FIELDS[name](x, 0)) for name in FIELDS}
    assert all(isinstance(value, relax.PrimValue) for value in values.values())
    shown = {name: str(value.value) for name, value in values.items()}
    assert shown == {
        "type_code": "T.uint8(2)",
        "bits": "T.uint8(16)",
        "lanes": "T.uint16(1)",
        "ndim": "2",
        "shape": "n",
        "strides": "T.int64(4)",
        "byte_offset": "T.uint64(0)",
        "elem_offset": "T.uint64(0)",
    }
    assert bb.normalize(x.strides[1]).value.value == 1


def test_in_script():
    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor(ndim=2)) -> R.Prim("int64"):
            k = x.shape[1]
            return k

    (binding,) = Module["main"].body.blocks[0].bindings
    assert binding.value.op.name == "relax.inspect.tensor_shape_i"
    assert "R.inspect.tensor_shape_i(x, R.prim_value(1))" in Module.script()
    vm = relax.VirtualMachine(lw.compile(Module), lw.cpu())
    assert vm["main"](empty([2, 5])) == 5


def test_errors():
    bb = relax.BlockBuilder()
    x = var("x", 2, 3)
    with pytest.raises(ValueError, match=r"(?s)no axis 2.*2 dimensions"):
        bb.normalize(x.shape[2])
    with pytest.raises(TypeError, match="a scalar, the axis"):
        bb.normalize(x.shape[x])
    with pytest.raises(AttributeError, match=r"(?s)only a tensor.*R.Shape"):
        relax.Var("s", relax.ShapeStructInfo(ndim=2)).dtype.bits
    assert not hasattr(relax.Tuple([x]), "shape")
    mod = module("shape", relax.TensorStructInfo(None, "void"))
    vm = relax.VirtualMachine(lw.compile(mod), lw.cpu())
    with pytest.raises(ValueError, match=r"(?s)no axis 3.*2 dimensions"):
        vm["main"](empty([2, 3]), 3)


def test_views_of_memory():
    x = tensor(np.arange(12, dtype="int32").reshape(3, 4))
    part = x._create_view([2, 2], "int16", 8)
    np.testing.assert_array_equal(part.numpy(), [[2, 0], [3, 0]])
    again = part._create_view([1], "int32", 4)
    again[0] = 7
    assert x.numpy()[0, 3] == 7
    with pytest.raises(ValueError, match=r"(?s)beyond.*bytes 40 to 56 of 48"):
        x._create_view([4], relative_byte_offset=40)
    with pytest.raises(ValueError, match="strides"):
        lw.runtime.from_dlpack(x.numpy().T)._create_view([1])


def test_a_view_of_other_size_states_its_type():
    """The result's struct info is derived from the arguments, in the text as well."""

    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor((16,), "float32")) -> R.Tensor((8, 4), "int16"):
            y = R.memory.view(x, R.shape([8, 4]), R.dtype("int16"))
            return y

    low = relax.transform.LowerRuntimeBuiltin()(Module)
    text = low.script()
    assert 'R.Callable(derive_func="tvm.relax.struct_info.infer_view_sinfo", purity=True)' in text
    (binding,) = low["main"].body.blocks[0].bindings
    assert_structural_equal(binding.var.struct_info, Module["main"].ret_struct_info)
    unchanged = relax.op.memory.view(Module["main"].params[0])
    bb = relax.BlockBuilder()
    with bb.function("main", Module["main"].params):
        bb.emit_func_output(bb.emit(unchanged))
    low = relax.transform.LowerRuntimeBuiltin()(bb.get())
    assert low["main"].body.blocks[0].bindings[0].value is Module["main"].params[0]


N = pe.Var("n", "int64")


@pytest.mark.parametrize(
    ("shape", "dtype", "view", "match"),
    [
        ((16,), "float32", {"shape": [17]}, "68 bytes, the tensor has 64"),
        ((16,), "void", {"shape": [4, 5]}, "20 elements, the tensor has 16"),
        ((N,), "float32", {"shape": [N // 4 + 1, 4]}, "bytes"),
        (None, "uint8", {"dtype": "float16"}, "2 bytes an element, the tensor has 1"),
        (None, "void", {"relative_byte_offset": 16}, "16 bytes further, the tensor has 0"),
        ((16,), "float32", {"shape": [16], "relative_byte_offset": 4}, "68 bytes"),
    ],
)
def test_views_that_reach_beyond_the_tensor(shape, dtype, view, match):
    x = relax.Var("x", relax.TensorStructInfo(shape, dtype))
    with pytest.raises(ValueError, match=match):
        relax.BlockBuilder().normalize(relax.op.memory.view(x, **view))


@pytest.mark.parametrize(
    ("shape", "dtype", "view", "expected"),
    [
        (None, "void", {"dtype": "float32"}, R.Tensor("float32")),
        (None, "uint32", {"dtype": "uint8"}, R.Tensor("uint8")),
        ((N,), "float32", {"shape": [(N + 3) // 4, 4]}, R.Tensor(((N + 3) // 4, 4), "float32")),
        ((8,), "float32", {"relative_byte_offset": 0}, R.Tensor((8,), "float32")),
    ],
)
def test_views_that_may_fit(shape, dtype, view, expected):
    x = relax.Var("x", relax.TensorStructInfo(shape, dtype))
    found = relax.BlockBuilder().normalize(relax.op.memory.view(x, **view)).struct_info
    assert_structural_equal(found, relax.expr.as_struct_info(expected))


@pytest.mark.parametrize(
    ("given", "want"),
    [
        ({"dtype": "int32"}, lambda x: x.view("int32")),
        ({"shape": R.shape([2, 6])}, lambda x: x.reshape(2, 6)),
        ({"shape": R.shape([2]), "relative_byte_offset": 8}, lambda x: x.reshape(-1)[2:4]),
    ],
)
def test_a_view_states_what_is_not_given(given, want):
    x = relax.Var("x", relax.TensorStructInfo((3, 4), "float32"))
    bb = relax.BlockBuilder()
    with bb.function("main", [x]):
        bb.emit_func_output(bb.emit(relax.op.memory.view(x, **given)))
    low = relax.transform.LowerRuntimeBuiltin()(bb.get())
    (binding,) = low["main"].body.blocks[0].bindings
    shape, dtype, offset = binding.value.args[1:]
    data = np.arange(12, dtype="float32").reshape(3, 4)
    array = want(data)
    assert [int(d) for d in shape.values] == list(array.shape)
    assert (str(dtype.value), int(offset.value)) == (
        str(array.dtype),
        given.get("relative_byte_offset", 0),
    )
    np.testing.assert_array_equal(lw.compile(bb.get(), "llvm")["main"](data).numpy(), array)


def test_a_view_of_what_is_known_at_run_time():
    x = relax.Var("x", relax.TensorStructInfo(ndim=2, dtype="float32"))
    bb = relax.BlockBuilder()
    with bb.function("main", [x]):
        bb.emit_func_output(bb.emit(relax.op.memory.view(x, dtype="int32")))
    ready = relax.transform.RemovePurityChecking()(bb.get())
    assert "vm.builtin.shape_of" in relax.transform.LowerRuntimeBuiltin()(ready).script()
    x = relax.Var("x", relax.TensorStructInfo((4,), "void"))
    bb = relax.BlockBuilder()
    with bb.function("main", [x]):
        bb.emit_func_output(bb.emit(relax.op.memory.view(x, R.shape([2, 2]))))
    with pytest.raises(LoopwrightError, match="data type is not known"):
        relax.transform.LowerRuntimeBuiltin()(bb.get())
