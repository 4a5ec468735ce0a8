"""Expressions: fields, dimensions, calls, what is converted, what is refused."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from loopwright import relax, runtime
from loopwright.ir.dtype import DataType
from loopwright.ir.expr import GlobalVar
from loopwright.ir.prim_expr import Call as PrimCall
from loopwright.ir.prim_expr import Var as TirVar
from loopwright.ir.structural import assert_structural_equal
from loopwright.relax.expr import get_shape_of
from loopwright.relax.utils import convert_to_expr

from .support import tensor, twice, var

x, y = var("x", 4), var("y", 4)
PAIR = relax.Var("pair", relax.TupleStructInfo([tensor(4), tensor(5)]))
n = TirVar("n", "int64")


def test_fields_of_a_tuple():
    both = relax.Tuple([x, y])
    assert len(both) == 2 and [both[i] for i in (0, 1, -1, -2)] == [x, y, y, x]
    assert [PAIR[i].index for i in (0, 1, -1, -2)] == [0, 1, 1, 0]
    assert [(f.tuple_value, f.index) for f in PAIR] == [(PAIR, 0), (PAIR, 1)]
    assert_structural_equal(PAIR[1].struct_info, tensor(5))
    for value in (both, PAIR):
        for index in (2, -3):
            with pytest.raises(IndexError, match=f"out of range\n  got: {index} of 2 fields"):
                value[index]
        with pytest.raises(TypeError, match="indexed by a Python int .*\n  got: 'a'"):
            value["a"]
    with pytest.raises(TypeError, match="only a tuple of known length can be unpacked"):
        iter(x)
    unknown = relax.Var("t", relax.ObjectStructInfo())[3]
    assert unknown.index == 3 and unknown.struct_info is None
    assert relax.Tuple([x, relax.Var("u")]).struct_info is None


def test_dimensions_of_a_shape():
    shape = relax.ShapeExpr([n, 4])
    assert len(shape) == 2 and list(shape) == [shape[0], shape[1]]
    assert shape[0] is n and shape[-2] is n and shape[-1] == 4
    for index in (2, -3):
        with pytest.raises(IndexError, match=f"out of range\n  got: {index} of 2 dimensions"):
            shape[index]


def test_names_of_the_struct_info():
    call = relax.Call(relax.ExternFunc("f"), [x])
    assert call.struct_info_ is None and call.checked_type is None
    assert call.with_struct_info(tensor(4)) is call
    call.with_struct_info(tensor(5))  # it has one
    assert_structural_equal(call.struct_info_, tensor(4))
    assert call.checked_type is call.struct_info_ is call.struct_info


def test_shape_of_an_expression():
    shape = relax.Var("s", relax.ShapeStructInfo(ndim=1))
    assert get_shape_of(x) is x.struct_info.shape
    assert get_shape_of(relax.Var("x", relax.TensorStructInfo(shape, "float32"))) is shape
    for info in (tensor(ndim=1), relax.ObjectStructInfo(), None):
        asked = get_shape_of(of := relax.Var("x", info))
        assert asked.op.name == "relax.shape_of" and asked.args == (of,)


def test_calls():
    f = relax.ExternFunc("f")
    assert f(x).attrs is None and f(x, y).args == (x, y)
    assert f(x, attrs={"a": 1}).attrs.values == {"a": 1}
    assert relax.Call(f, [], sinfo_args=tensor(4)).sinfo_args == (tensor(4),)
    with pytest.raises(ValueError, match="only a function can be called\n  got: x with"):
        x(y)
    main = GlobalVar("main")
    scalars = main(1, n)
    assert isinstance(scalars, PrimCall) and scalars.dtype == "int32" and scalars.args[1] is n
    for args in ((), (x,), (x, 1), (1, x)):
        call = main(*args)
        assert isinstance(call, relax.Call) and call.op is main and len(call.args) == len(args)
    other_graph = SimpleNamespace(call_global=lambda func, args: (func, args))
    assert main(1, other_graph) == (main, (1, other_graph))


def test_parameters_have_a_struct_info():
    with pytest.raises(TypeError, match="parameter is a relax.Var\n  got: GlobalVar"):
        relax.Function([x, GlobalVar("g")], x)
    with pytest.raises(ValueError, match="parameter u has no struct info"):
        relax.Function([relax.Var("u")], x)


def test_a_signature_without_a_body():
    made = relax.Function.create_empty([x], tensor(7))
    assert made.is_pure and not made.attrs and len(made.body.body) == 0
    assert_structural_equal(
        made.struct_info, relax.FuncStructInfo([x.struct_info], tensor(7), True)
    )
    other = relax.Function.create_empty([], tensor(7), is_pure=False, attrs={"a": 1})
    assert not other.is_pure and other.attrs["a"] == 1


CONVERTED = [
    (x, relax.Var, x),
    ((x, 1), relax.Tuple, relax.Tuple([x, 1])),
    ([], relax.Tuple, relax.Tuple([])),
    (DataType("int8"), relax.DataTypeImm, relax.DataTypeImm("int8")),
    ("text", relax.StringImm, relax.StringImm("text")),
    (3, relax.PrimValue, relax.PrimValue(3)),
    (0.5, relax.PrimValue, relax.PrimValue(0.5)),
    (n, relax.PrimValue, relax.PrimValue(n)),
]


@pytest.mark.parametrize(("value", "kind", "expected"), CONVERTED)
def test_what_becomes_an_expression(value, kind, expected):
    made = convert_to_expr(value)
    assert type(made) is kind
    assert_structural_equal(made, expected, map_free_vars=False)


def test_numbers_of_the_graph():
    assert relax.PrimValue(3).struct_info.dtype == "int64"
    assert relax.PrimValue(True).struct_info.dtype == "bool"
    with pytest.raises(TypeError, match="this is not a Relax expression"):
        convert_to_expr({})


CONSTANTS = [
    (True, None, "bool"),
    (3, None, "int32"),
    ([1.5], None, "float32"),
    (np.float64(3), None, "float64"),
    (np.arange(2), None, "int64"),
    (3, "int8", "int8"),
    (np.arange(2), "float16", "float16"),
    (runtime.tensor(np.arange(2, dtype="int16")), None, "int16"),
    (runtime.tensor(np.arange(2, dtype="int16")), "float32", "float32"),
]


@pytest.mark.parametrize(("value", "dtype", "expected"), CONSTANTS)
def test_types_of_constants(value, dtype, expected):
    made = relax.const(value, dtype)
    assert made.data.dtype == made.struct_info.dtype == expected
    given = value.numpy() if isinstance(value, runtime.Tensor) else value
    np.testing.assert_array_equal(made.data.numpy(), given)


def test_a_constant_of_a_tensor_shares_its_memory():
    data = runtime.tensor(np.arange(2, dtype="int16"))
    assert relax.const(data).data is data and relax.const(data, "int16").data is data
    assert relax.Constant(data, tensor(2, dtype="int8")).struct_info.dtype == "int8"


def test_hashes_of_constants_tell_their_first_elements():
    def key(values):
        return relax.const(np.asarray(values, "int32")).structural_hash(None, True)

    start = np.arange(64)
    assert key(start) == key(start.copy()) != key(start + 1)
    for place, same in ((63, False), (64, True)):
        longer = np.arange(70)
        longer[place] = -1
        assert (key(longer) == key(np.arange(70))) is same


def test_branches_keep_what_is_known():
    node = relax.If(relax.Var("c", tensor(dtype="bool")), x, y)
    node._update_struct_info(tensor(4))
    assert node.with_branches(node.true_branch, node.false_branch) is node
    for branches in (
        (relax.SeqExpr([], y), node.false_branch),
        (node.true_branch, relax.SeqExpr([], x)),
    ):
        new = node.with_branches(*branches)
        assert (new.true_branch, new.false_branch) == branches and new.cond is node.cond
        assert new.struct_info is node.struct_info


def test_operators_with_a_number_have_the_type_of_the_tensor():
    half = relax.Var("h", tensor(4, dtype="float16"))
    unknown = relax.Var("u", relax.TensorStructInfo(None, "void"))
    assert [(half * 2).args[1].struct_info.dtype, (2 * half).args[0].struct_info.dtype] == [
        "float16",
        "float16",
    ]
    assert (unknown * 2).args[1].struct_info.dtype == "int32"
    assert (twice(x) * 2).args[1].struct_info.dtype == "int32"  # not yet known
