"""The core operators: what builders take, what is inferred, what is refused."""

from __future__ import annotations

import numpy as np
import pytest

import loopwright as lw
from loopwright import relax, te
from loopwright.ir.expr import GlobalVar
from loopwright.ir.module import VDevice
from loopwright.ir.op import Op, register_op
from loopwright.ir.prim_expr import Var as TirVar
from loopwright.ir.structural import assert_structural_equal
from loopwright.relax import (
    BlockBuilder,
    Call,
    ObjectStructInfo,
    PrimStructInfo,
    ShapeStructInfo,
    TensorStructInfo,
    TupleStructInfo,
    op,
)
from loopwright.relax.interpreter import Interpreter
from loopwright.script import relax as R
from loopwright.tvm.relax.te_gradient import TE_GRADIENTS, register_te_gradient

from .support import tensor, var

pytestmark = pytest.mark.no_roundtrip

n, x, k = TirVar("n", "int64"), var("x", 4), GlobalVar("k")
unknown = TensorStructInfo(None, "void")


def inferred(call: Call):
    bb = BlockBuilder()
    with bb.testing_scope([n]):
        return bb.normalize(call).struct_info


def test_results_that_calls_state():
    call = relax.Call(Op.get("relax.call_tir"), [k, relax.Tuple([x])])
    for infos in ((), (tensor(4), tensor(4))):
        with pytest.raises(ValueError, match=f"by one struct info\\n  got: {len(infos)}"):
            inferred(call.replace(sinfo_args=infos))
    with pytest.raises(TypeError, match="out_sinfo is a struct info or a list of them\\n  got: 3"):
        op.call_tir(k, [x], 3)
    with pytest.raises(ValueError, match="relax.call_tir takes its arguments as a tuple"):
        inferred(relax.Call(Op.get("relax.call_tir"), [k, x], None, [tensor(4)]))


STATED = [
    (None, []),
    (tensor(3), [tensor(3)]),
    ([tensor(3), ObjectStructInfo()], [tensor(3), ObjectStructInfo()]),
    (R.Object, [ObjectStructInfo()]),
    ((R.Tensor((3,), "float32"), R.Object), [tensor(3), ObjectStructInfo()]),
]


@pytest.mark.parametrize(("given", "expected"), STATED)
def test_struct_infos_of_packed_calls(given, expected):
    made = op.call_packed("f", x, sinfo_args=given)
    assert made.op.global_symbol == "f" and made.args == (x,) and made.attrs is None
    assert len(made.sinfo_args) == len(expected)
    for one, other in zip(made.sinfo_args, expected, strict=True):
        assert_structural_equal(one, other)


def test_what_call_builders_put_together():
    made = op.call_packed("f", x, size=3)
    assert made.attrs.key == "call_packed" and made.attrs.values == {"size": 3}
    assert op.call_packed("f", attrs_type_key="own", size=3).attrs.key == "own"
    for indices, kept in ((1, [1]), ((0, -1), [0, -1])):
        call = op.call_inplace_packed("f", x, x, inplace_indices=indices, sinfo_args=tensor(4))
        assert call.attrs.inplace_indices == kept and len(call.args) == 3
    assert op.call_tir(k, x, tensor(4)).args[1].fields == (x,)
    pair = relax.Var("pair", TupleStructInfo([tensor(4)]))
    assert op.call_tir(k, pair, tensor(4)).args[1] is pair
    assert len(op.call_tir(k, [x], tensor(4)).args) == 2
    assert op.call_tir(k, [x], tensor(4), tir_vars=[n]).args[2].values == (n,)
    shape = relax.Var("s", ShapeStructInfo(ndim=1))
    assert op.call_tir(k, [x], tensor(4), tir_vars=shape).args[2] is shape
    call = op.call_tir_with_grad(k, [x], tensor(4), "g")
    assert call.attrs.values == {"te_grad_name": "g", "te_grad_kwargs": {}}
    given = op.call_tir_with_grad(k, [x], tensor(4), "g", {"a": 1}, tir_vars=[n])
    assert given.attrs.te_grad_kwargs["a"] == 1 and given.args[2].values == (n,)
    closure = op.make_closure(x, [])
    assert [op.invoke_closure(closure, x, tensor(4)).args[1].fields] == [(x,)]
    for build, pure in ((op.invoke_closure, False), (op.invoke_pure_closure, True)):
        call = build(closure, [x], tensor(4))
        assert call.op.get_attr("FPurity") is pure and call.args[0] is closure


SHAPES = [
    (op.shape_of, tensor(n, 4), ShapeStructInfo([n, 4])),
    (op.shape_of, tensor(ndim=2), ShapeStructInfo(ndim=2)),
    (op.shape_of, unknown, ShapeStructInfo(ndim=-1)),
    (op.tensor_to_shape, tensor(3, dtype="int64"), ShapeStructInfo(ndim=3)),
    (op.tensor_to_shape, tensor(n, dtype="int64"), ShapeStructInfo(ndim=-1)),
    (op.tensor_to_shape, tensor(ndim=1, dtype="int64"), ShapeStructInfo(ndim=-1)),
    (op.tensor_to_shape, unknown, ShapeStructInfo(ndim=-1)),
    (op.tensor_to_shape, tensor(3, dtype="int32"), "a tensor of one dimension and dtype int64"),
    (op.tensor_to_shape, tensor(3, 1, dtype="int64"), "a tensor of one dimension and dtype int64"),
    (op.tensor_to_shape, ShapeStructInfo([3]), "relax.tensor_to_shape takes a tensor"),
    (op.shape_to_tensor, ShapeStructInfo([n, 4]), tensor(2, dtype="int64")),
    (op.shape_to_tensor, ShapeStructInfo(ndim=0), TensorStructInfo((0,), "int64")),
    (op.shape_to_tensor, ShapeStructInfo(ndim=-1), tensor(ndim=1, dtype="int64")),
    (op.shape_to_tensor, tensor(4), "shape_to_tensor takes a shape"),
    (op.assert_op, TensorStructInfo((), "bool"), TupleStructInfo([])),
    (op.assert_op, PrimStructInfo("bool"), TupleStructInfo([])),
    (op.assert_op, tensor(1, dtype="bool"), "takes a boolean scalar"),
    (op.assert_op, PrimStructInfo("int64"), "takes a boolean scalar"),
    (op.assert_op, TensorStructInfo((), "int8"), "takes a boolean scalar"),
    (op.assert_op, ObjectStructInfo(), "takes a boolean scalar"),
    (op.assert_op, unknown, TupleStructInfo([])),
    (op.builtin.stop_lift_params, tensor(n), tensor(n)),
    (op.memory.ensure_zero_offset, tensor(n), tensor(n)),
]


@pytest.mark.parametrize(("build", "given", "expected"), SHAPES)
def test_inference(build, given, expected):
    call = build(relax.Var("v", given))
    if isinstance(expected, str):
        with pytest.raises((TypeError, ValueError), match=expected):
            inferred(call)
    else:
        assert_structural_equal(inferred(call), expected)


DEVICE = VDevice("llvm")
A = relax.Var("a", TensorStructInfo((2, 8), "float32", DEVICE))
SHAPE = relax.Var("s", ShapeStructInfo([4, 4]))
RANK = relax.Var("r", ShapeStructInfo(ndim=3))
DTYPE, OFFSET = relax.Var("t", ObjectStructInfo()), relax.Var("o", PrimStructInfo("int64"))
VIEWS = [
    ({}, TensorStructInfo((2, 8), "float32", DEVICE)),
    ({"shape": [16]}, TensorStructInfo((16,), "float32", DEVICE)),
    ({"shape": [17]}, "68 bytes, the tensor has 64"),
    ({"shape": [15], "relative_byte_offset": 4}, TensorStructInfo((15,), "float32", DEVICE)),
    ({"shape": [15], "relative_byte_offset": 5}, "65 bytes, the tensor has 64"),
    ({"shape": [64], "relative_byte_offset": OFFSET}, "256 bytes, the tensor has 64"),
    ({"shape": SHAPE}, TensorStructInfo((4, 4), "float32", DEVICE)),
    ({"shape": RANK}, TensorStructInfo(None, "float32", DEVICE, 3)),
    ({"shape": A}, "memory.view takes its shape as R.shape"),
    ({"dtype": "int8"}, TensorStructInfo((2, 8), "int8", DEVICE)),
    ({"dtype": "float64"}, "128 bytes, the tensor has 64"),
    ({"dtype": DTYPE}, TensorStructInfo((2, 8), "void", DEVICE)),
    ({"relative_byte_offset": 0}, TensorStructInfo((2, 8), "float32", DEVICE)),
    ({"relative_byte_offset": 1}, "65 bytes, the tensor has 64"),
    ({"relative_byte_offset": OFFSET}, TensorStructInfo((2, 8), "float32", DEVICE)),
]
PARTLY = [  # of a tensor whose size is not known
    (tensor(ndim=1), {"relative_byte_offset": 1}, "1 bytes further, the tensor has 0"),
    (tensor(ndim=1), {"relative_byte_offset": 0}, tensor(ndim=1)),
    (tensor(ndim=1), {"dtype": "float64"}, "8 bytes an element, the tensor has 4"),
    (tensor(ndim=1), {"dtype": "int32"}, tensor(ndim=1, dtype="int32")),
    (tensor(ndim=1), {"shape": [4]}, tensor(4)),
    (tensor(4, dtype="void"), {"shape": [5]}, "5 elements, the tensor has 4"),
    (tensor(4, dtype="void"), {"shape": [2, 2]}, tensor(2, 2, dtype="void")),
    (tensor(4, dtype="void"), {"dtype": "int8"}, tensor(4, dtype="int8")),
    (tensor(n), {"shape": [n + 1]}, r"\(n \+ 1\) \* 4 bytes, the tensor has 4 \* n"),
    (unknown, {"relative_byte_offset": 1}, "1 bytes further, the tensor has 0"),
    (tensor(3, dtype="int4"), {"shape": [3], "dtype": "int8"}, tensor(3, dtype="int8")),
]


@pytest.mark.parametrize(("data", "options", "expected"), [*((A, *v) for v in VIEWS), *PARTLY])
def test_views_of_memory(data, options, expected):
    data = data if isinstance(data, relax.Var) else relax.Var("a", data)
    call = op.memory.view(data, **options)
    if isinstance(expected, str):
        with pytest.raises((TypeError, ValueError), match=expected):
            inferred(call)
    else:
        assert_structural_equal(inferred(call), expected, map_free_vars=False)


def test_the_type_of_a_view_may_be_bound():
    bb = BlockBuilder()
    with bb.testing_scope([]):
        kind = bb.emit(relax.DataTypeImm("int8"))
        assert bb.normalize(op.memory.view(A, dtype=kind)).struct_info.dtype == "int8"


def run(*calls, **options):
    bb = BlockBuilder()
    with bb.function("main", [], pure=False):
        bb.emit_func_output([bb.emit(c) if isinstance(c, Call) else bb.emit(c(bb)) for c in calls])
    return [v.numpy() for v in Interpreter(bb.get())["main"]()]


def test_values_of_views_and_memory():
    data = np.arange(6, dtype="int16")
    c = relax.const(data)
    whole, part, typed, moved = run(
        op.memory.view(c),
        op.memory.view(c, [2, 2], relative_byte_offset=4),
        op.memory.view(c, [3], "int32"),
        op.memory.ensure_zero_offset(c),
    )
    assert whole.tolist() == moved.tolist() == data.tolist() and part.tolist() == [[2, 3], [4, 5]]
    assert typed.tolist() == data.view("int32").tolist()

    def inside(offset, shape):
        def emit(bb):
            storage = bb.emit(op.memory.alloc_storage([16], 0, "global", "uint8"))
            return op.memory.alloc_tensor(storage, offset, shape, "float32")

        return emit

    assert [v.shape for v in run(inside(8, [2]), inside(0, [4]))] == [(2,), (4,)]
    for offset, shape, size in ((8, [3], 12), (9, [2], 8), (0, [5], 20)):
        with pytest.raises(ValueError, match=f"{size} bytes at {offset} of 16"):
            run(inside(offset, shape))
    with pytest.raises(TypeError, match=r"takes its dtype as R.dtype\(...\)"):
        inferred(op.builtin.alloc_tensor([2], relax.StringImm("int8")))


def test_memory_of_the_virtual_machine():
    storage = relax.Var("m", ObjectStructInfo())
    for build, known in ((op.vm.alloc_tensor, False), (op.memory.alloc_tensor, True)):
        made = inferred(build(storage, 0, SHAPE, "int8"))
        assert made.ndim == 2 and (made.shape is SHAPE) is known
        assert_structural_equal(inferred(build(storage, 0, [4], "int8")), tensor(4, dtype="int8"))
    made = op.builtin.alloc_tensor([2], "int8")
    assert made.args[2].value == 0 and made.args[3].value == "global"
    assert op.vm.alloc_storage([2], 1, "int8").args[3].value == "global"


def test_places():
    on, device = VDevice("llvm"), lw.cpu(0)
    to = op.to_vdevice(A, on)
    assert_structural_equal(inferred(to), TensorStructInfo((2, 8), "float32", on))
    hint = op.hint_on_device(A, device)
    assert hint.attrs.values == {
        "device_type": int(device.device_type), "index": 0, "memory_scope": "global",
    }  # fmt: skip
    assert_structural_equal(inferred(hint), A.struct_info)


def test_gradients_are_registered():
    made = register_op("test.with_gradient")
    assert made.get_attr("FPrimalGradient") is None
    op.register_gradient("test.with_gradient", gradient := (lambda *args: []))
    assert made.get_attr("FPrimalGradient") is gradient

    @register_te_gradient("test.decorated")
    def decorated(output_grad, a):
        return [te.compute(a.shape, lambda *i: output_grad[i])]

    register_te_gradient("test.given", decorated)
    assert TE_GRADIENTS["test.decorated"] is TE_GRADIENTS["test.given"] is decorated
    for name in ("test.decorated", "test.given"):
        TE_GRADIENTS.remove(name)
