"""Struct infos: construction, which covers which, what covers both, what stays known."""

from __future__ import annotations

import pytest

from loopwright import relax
from loopwright.ir.module import VDevice
from loopwright.ir.prim_expr import PrimType
from loopwright.ir.prim_expr import Var as TirVar
from loopwright.ir.structural import assert_structural_equal
from loopwright.relax import (
    FuncStructInfo,
    ObjectStructInfo,
    PrimStructInfo,
    ShapeStructInfo,
    TensorStructInfo,
    TupleStructInfo,
)
from loopwright.relax.analysis import (
    BaseCheckResult,
    can_prove_shape_equal,
    definable_tir_vars_in_struct_info,
    erase_to_well_defined,
    get_static_type,
    struct_info_base_check,
    struct_info_lca,
    tir_vars_in_struct_info,
)
from loopwright.relax.relations import (
    derive_call_ret_struct_info,
    infer_by_sinfo_args,
    substitute,
)

from .support import tensor

n, m = TirVar("n", "int64"), TirVar("m", "int64")
anything = ObjectStructInfo()
unknown = TensorStructInfo(dtype="void")
L0, L1, L2, PASS = BaseCheckResult
CPU, THREE = VDevice("llvm"), relax.ShapeExpr([3])[0]


def test_construction():
    info = TensorStructInfo([n, 4])
    assert info.ndim == 2 and info.dtype == "float32" and info.shape.values[1].dtype == "int64"
    assert unknown.is_unknown_dtype() and unknown.is_unknown_ndim()
    assert TensorStructInfo(ndim=3).get_shape() is None
    assert PrimStructInfo(value=n).dtype == "int64"
    with pytest.raises(ValueError, match="ndim is not the rank of the shape"):
        TensorStructInfo([1, 2], ndim=3)
    with pytest.raises(ValueError, match="ndim is not the number of the values"):
        ShapeStructInfo([1, 2], ndim=3)
    assert PrimStructInfo(n).value is n and PrimStructInfo(n).dtype == "int64"
    assert PrimStructInfo("int8", 3).dtype == "int8"
    assert [ShapeStructInfo(ndim=d).is_unknown_ndim() for d in (-1, 0, 1)] == [True, False, False]
    assert [tensor(ndim=d).is_unknown_ndim() for d in (-1, 0, 1)] == [True, False, False]
    assert ShapeStructInfo([1, 2], ndim=2).ndim == 2 and TensorStructInfo([1, 2], ndim=2).ndim == 2
    with pytest.raises(TypeError, match="R.Prim needs a dtype or a value"):
        PrimStructInfo()
    with pytest.raises(TypeError, match="the dtype of R.Prim is a name\n  got: 3"):
        PrimStructInfo(3)
    with pytest.raises(TypeError, match="a dimension is an integer or an expression"):
        TensorStructInfo(["n"])


def test_a_shape_held_by_a_variable():
    s = relax.Var("s", ShapeStructInfo(ndim=2))
    info = TensorStructInfo(s, "float32")
    assert info.ndim == 2 and info.get_shape() is None and info.shape is s


BASE_CHECKS = [
    (anything, tensor(4), PASS),
    (tensor(4), anything, L1),
    (tensor(4), ShapeStructInfo([4]), L0),
    (PrimStructInfo("int64"), PrimStructInfo(value=n), PASS),
    (PrimStructInfo(value=n), PrimStructInfo("int64"), L2),
    (PrimStructInfo("int64"), PrimStructInfo("int32"), L0),
    (ShapeStructInfo(ndim=-1), ShapeStructInfo([n]), PASS),
    (ShapeStructInfo(ndim=1), ShapeStructInfo(ndim=-1), L1),
    (ShapeStructInfo(ndim=1), ShapeStructInfo(ndim=2), L0),
    (ShapeStructInfo([n]), ShapeStructInfo(ndim=1), L2),
    (ShapeStructInfo([n]), ShapeStructInfo([n]), PASS),
    (ShapeStructInfo([n]), ShapeStructInfo([m]), L2),
    (ShapeStructInfo([3]), ShapeStructInfo([4]), L0),
    (unknown, tensor(4), PASS),
    (tensor(4), unknown, L1),
    (tensor(ndim=1), tensor(4), PASS),
    (tensor(4), tensor(ndim=1), L2),
    (tensor(4), tensor(ndim=2), L0),
    (tensor(n), tensor(n), PASS),
    (tensor(n * 2), tensor(n + n), PASS),
    (tensor(n + 1), tensor(n), L2),
    (tensor(4), tensor(4, dtype="int8"), L0),
    (TensorStructInfo([4], "void"), tensor(4), PASS),
    (tensor(4), TensorStructInfo([4], "void"), L1),
    (TupleStructInfo([tensor(4), anything]), TupleStructInfo([tensor(4), tensor(5)]), PASS),
    (TupleStructInfo([tensor(n)]), TupleStructInfo([tensor(m)]), L2),
    (TupleStructInfo([tensor(4)]), TupleStructInfo([]), L0),
    (FuncStructInfo.opaque_func(), FuncStructInfo([tensor(4)], tensor(4)), PASS),
    (FuncStructInfo([tensor(4)], tensor(4)), FuncStructInfo.opaque_func(), L0),
    (FuncStructInfo([tensor(4)], tensor(4), False), FuncStructInfo.opaque_func(), L2),
    (FuncStructInfo([tensor(n)], tensor(n)), FuncStructInfo([tensor(m)], tensor(m)), PASS),
    (FuncStructInfo([tensor(4)], anything), FuncStructInfo([tensor(4)], tensor(4)), PASS),
    (FuncStructInfo([], anything), FuncStructInfo([tensor(4)], tensor(4)), L0),
    (tensor(4), TensorStructInfo(dtype="float32"), L1),
    (tensor(4), TensorStructInfo(dtype="void", ndim=1), L1),
    (TensorStructInfo(dtype="float32"), TensorStructInfo(dtype="void", ndim=2), L1),
    (TensorStructInfo(dtype="float32"), tensor(4), PASS),
    (TensorStructInfo([4], "float32", CPU), tensor(ndim=1), L1),
    (TensorStructInfo(dtype="float32", vdevice=CPU), tensor(4), L1),
    (TensorStructInfo([4], "float32", CPU), tensor(5), L0),
    (TupleStructInfo([]), TupleStructInfo([]), PASS),
    (ShapeStructInfo([n, 3]), ShapeStructInfo([m, 4]), L0),
    (PrimStructInfo(value=THREE), PrimStructInfo(value=THREE + 1), L0),
    (PrimStructInfo(value=THREE), PrimStructInfo(value=THREE), PASS),
    (FuncStructInfo([tensor(4)], tensor(4), False), FuncStructInfo([tensor(4)], tensor(4)), PASS),
    (FuncStructInfo([tensor(4)], tensor(4)), FuncStructInfo([tensor(4)], tensor(4), False), L0),
    (FuncStructInfo([tensor(4)], tensor(4)), FuncStructInfo([tensor(4)], tensor(5)), L0),
    (FuncStructInfo([tensor(4)], tensor(4)), FuncStructInfo([tensor(n)], tensor(4)), L2),
    (FuncStructInfo([tensor(n), tensor(n)], anything),
     FuncStructInfo([tensor(m), tensor(4)], anything), L2),
    (FuncStructInfo.opaque_func(purity=True), FuncStructInfo([], anything, False), L0),
    (FuncStructInfo.opaque_func(purity=True), FuncStructInfo([], anything), PASS),
]  # fmt: skip


@pytest.mark.parametrize(("base", "derived", "expected"), BASE_CHECKS)
def test_base_check(base, derived, expected):
    assert struct_info_base_check(base, derived) is expected
    assert base.is_base_of(derived) == (expected is PASS)


def test_places_count():
    cpu, other = VDevice("llvm"), VDevice("llvm", 1)
    on_cpu = TensorStructInfo([4], "float32", cpu)
    assert struct_info_base_check(on_cpu, TensorStructInfo([4], "float32", other)) is L0
    assert struct_info_base_check(on_cpu, tensor(4)) is L1
    assert tensor(4).is_base_of(on_cpu)
    assert struct_info_lca(on_cpu, TensorStructInfo([4], "float32", other)).vdevice is None


LCA = [
    (tensor(4), tensor(4), tensor(4)),
    (tensor(4), tensor(5), tensor(ndim=1)),
    (tensor(4), tensor(4, 4), TensorStructInfo(dtype="float32")),
    (tensor(4), tensor(4, dtype="int8"), TensorStructInfo([4], "void")),
    (tensor(n + n), tensor(n * 2), tensor(n + n)),
    (tensor(n), tensor(m), tensor(ndim=1)),
    (tensor(4), ShapeStructInfo([4]), anything),
    (ShapeStructInfo([n, 4]), ShapeStructInfo([n, 4]), ShapeStructInfo([n, 4])),
    (ShapeStructInfo([n]), ShapeStructInfo([4]), ShapeStructInfo(ndim=1)),
    (ShapeStructInfo([n]), ShapeStructInfo(ndim=2), ShapeStructInfo(ndim=-1)),
    (PrimStructInfo("int64"), PrimStructInfo("int32"), anything),
    (PrimStructInfo(value=n), PrimStructInfo(value=m), PrimStructInfo("int64")),
    (
        TupleStructInfo([tensor(4), anything]),
        TupleStructInfo([tensor(5), tensor(4)]),
        TupleStructInfo([tensor(ndim=1), anything]),
    ),
    (TupleStructInfo([]), TupleStructInfo([anything]), anything),
    (
        FuncStructInfo([tensor(4)], tensor(4)),
        FuncStructInfo([tensor(4)], tensor(5), False),
        FuncStructInfo([tensor(4)], tensor(ndim=1), False),
    ),
    (
        FuncStructInfo([tensor(4)], tensor(4)),
        FuncStructInfo([tensor(5)], tensor(4)),
        FuncStructInfo([tensor(ndim=1)], tensor(4)),
    ),
    (
        FuncStructInfo([tensor(4)], tensor(4)),
        FuncStructInfo([], tensor(5)),
        FuncStructInfo.opaque_func(ret=tensor(ndim=1), purity=True),
    ),
    (
        FuncStructInfo.opaque_func(ret=tensor(4)),
        FuncStructInfo([], tensor(4)),
        FuncStructInfo.opaque_func(ret=tensor(4)),
    ),
    (PrimStructInfo("int64"), PrimStructInfo(value=n), PrimStructInfo("int64")),
    (PrimStructInfo(value=n + n), PrimStructInfo(value=n * 2), PrimStructInfo(value=n + n)),
    (ShapeStructInfo(ndim=2), ShapeStructInfo([n, 4]), ShapeStructInfo(ndim=2)),
    (ShapeStructInfo([n]), ShapeStructInfo([m, 4]), ShapeStructInfo(ndim=-1)),
    (tensor(ndim=1), tensor(4), tensor(ndim=1)),
    (tensor(ndim=1), tensor(4, 4), TensorStructInfo(dtype="float32")),
    (TensorStructInfo([4], "float32", CPU), tensor(4), tensor(4)),
]


@pytest.mark.parametrize(("a", "b", "expected"), LCA)
def test_lca_covers_both(a, b, expected):
    made = struct_info_lca(a, b)
    assert_structural_equal(made, expected)
    assert made.is_base_of(a) and made.is_base_of(b)
    swapped = struct_info_lca(b, a)
    assert swapped.is_base_of(made) and made.is_base_of(swapped)


def test_erase():
    both = TupleStructInfo([tensor(n, 4), tensor(m), ShapeStructInfo([n + 1]), anything])
    erased = erase_to_well_defined(both, {n: n})
    expected = TupleStructInfo([tensor(n, 4), tensor(ndim=1), ShapeStructInfo([n + 1]), anything])
    assert_structural_equal(erased, expected)
    assert erase_to_well_defined(both, {n: n, m: m}) is both
    assert_structural_equal(erase_to_well_defined(tensor(n, 4)), tensor(ndim=2))
    assert_structural_equal(erase_to_well_defined(tensor(n + 2), {n: n * 0 + 3}), tensor(5))
    assert_structural_equal(erase_to_well_defined(PrimStructInfo(value=n)), PrimStructInfo("int64"))
    s = relax.Var("s", ShapeStructInfo(ndim=2))
    held = TensorStructInfo(s, "float32")
    assert_structural_equal(erase_to_well_defined(held), tensor(ndim=2))
    assert erase_to_well_defined(held, None, {s: s}) is held


def test_symbolic_variables():
    info = TupleStructInfo([tensor(n * m, n), ShapeStructInfo([m + 1])])
    assert tir_vars_in_struct_info(info) == [n, m]
    assert definable_tir_vars_in_struct_info(info) == [n]
    assert definable_tir_vars_in_struct_info(PrimStructInfo(value=m)) == [m]


def test_numbers_in_the_map_of_an_erasure():
    made = relax.analysis.erase_to_well_defined(tensor(n * 2 + 1, m), {n: 4, m: m})
    assert_structural_equal(made, tensor(9, m))


def test_expressions_that_are_not_negative():
    info = relax.FuncStructInfo([tensor(16, n, m - 2), tensor(m)], relax.ShapeStructInfo([n]))
    found = relax.analysis.collect_non_negative_expressions(info)
    assert [str(e) for e in found] == ["n", "m - T.int64(2)", "m"]


def test_substitute_folds():
    made = substitute(tensor(n * 2 + 1, m), {n: relax.ShapeExpr([4])[0]})
    assert_structural_equal(made, tensor(9, m))
    assert substitute(made, {n: m}) is made


def test_static_type_and_shape_equality():
    info = relax.TupleStructInfo(
        [tensor(n, 4), relax.ShapeStructInfo([n]), relax.ObjectStructInfo()]
    )
    fields = [relax.TensorType(2, "float32"), relax.ShapeType(1), relax.ObjectType()]
    assert_structural_equal(get_static_type(info), relax.TupleType(fields))
    func = relax.FuncStructInfo([relax.PrimStructInfo("int8")], tensor(n))
    expected = relax.FuncType([PrimType("int8")], relax.TensorType(1, "float32"))
    assert_structural_equal(get_static_type(func), expected)
    assert_structural_equal(
        get_static_type(relax.FuncStructInfo.opaque_func()), relax.PackedFuncType()
    )
    assert can_prove_shape_equal(relax.ShapeExpr([n, 4]), [n, relax.ShapeExpr([4])[0]])
    assert not can_prove_shape_equal(relax.ShapeExpr([n]), relax.ShapeExpr([m]))
    assert not can_prove_shape_equal(relax.ShapeExpr([n]), None)


def test_functions_that_are_equal_keep_what_computes_their_result():
    one, other = (FuncStructInfo.opaque_func(derive_func="some.function") for _ in range(2))
    assert struct_info_lca(one, other).derive_func == "some.function"
    assert struct_info_lca(one, FuncStructInfo.opaque_func()).derive_func is None


def test_shapes_of_variables_are_compared():
    s, t = (relax.Var(name, ShapeStructInfo([n, 4])) for name in "st")
    assert can_prove_shape_equal(s, t) and can_prove_shape_equal(s, relax.ShapeExpr([n, 4]))
    assert can_prove_shape_equal(ShapeStructInfo([n]), [n])
    unknown = relax.Var("u", ShapeStructInfo(ndim=2))
    assert can_prove_shape_equal(unknown, unknown) and not can_prove_shape_equal(s, unknown)
    assert not can_prove_shape_equal(unknown, s)
    assert not can_prove_shape_equal(s, relax.Var("o", anything))
    assert not can_prove_shape_equal(relax.Var("t", tensor(4)), s)


def test_shapes_held_by_parameters_are_those_of_the_arguments():
    s = relax.Var("s", ShapeStructInfo(ndim=1))
    info = FuncStructInfo([TensorStructInfo(s, "float32")], TensorStructInfo(s, "int8"))
    callee = relax.Var("f", info)
    known = relax.Call(callee, [relax.Var("x", tensor(n + 1))])
    assert_structural_equal(
        derive_call_ret_struct_info(info, known), tensor(n + 1, dtype="int8"), map_free_vars=False
    )
    unknown = relax.Call(callee, [relax.Var("x", tensor(ndim=1))])
    assert_structural_equal(
        derive_call_ret_struct_info(info, unknown), TensorStructInfo(None, "int8", ndim=1)
    )


def test_results_of_calls():
    f = relax.Var("f", FuncStructInfo([tensor(n), anything], tensor(n * 2)))
    x, fixed = relax.Var("x", tensor(4)), FuncStructInfo([tensor(5)], anything)
    call = relax.Call(f, [x, x])
    assert_structural_equal(derive_call_ret_struct_info(f.struct_info, call), tensor(8))
    with pytest.raises(ValueError, match="f takes 2 arguments\n  got: 1"):
        derive_call_ret_struct_info(f.struct_info, relax.Call(f, [x]))
    with pytest.raises(ValueError, match="argument 0 of f does not fit its parameter"):
        derive_call_ret_struct_info(fixed, call.replace(args=(x,)))
    with pytest.raises(ValueError, match="argument 0 of the function does not fit"):
        derive_call_ret_struct_info(fixed, relax.Call(relax.Function([x], x, tensor(4)), [x]))
    with pytest.raises(ValueError, match="argument 0 of packed does not fit"):
        derive_call_ret_struct_info(fixed, relax.Call(relax.ExternFunc("packed"), [x]))
    may_fit = relax.Call(f, [relax.Var("x", tensor(m)), x])  # is checked when it runs
    derived = derive_call_ret_struct_info(FuncStructInfo([tensor(5), anything], anything), may_fit)
    assert derived is not None
    assert isinstance(infer_by_sinfo_args(call), ObjectStructInfo)
    one, two = (call.replace(sinfo_args=(tensor(4),) * k) for k in (1, 2))
    assert_structural_equal(infer_by_sinfo_args(one), tensor(4))
    assert_structural_equal(infer_by_sinfo_args(two), TupleStructInfo([tensor(4)] * 2))
    asked = FuncStructInfo.opaque_func(derive_func=lambda call, ctx: (call, ctx))
    assert derive_call_ret_struct_info(asked, call, "context") == (call, "context")
    opaque = FuncStructInfo.opaque_func(ret=tensor(3))
    assert_structural_equal(derive_call_ret_struct_info(opaque, call), tensor(3))
    assert_structural_equal(derive_call_ret_struct_info(opaque, one), tensor(4))


def test_expressions_of_parts_that_are_not_negative():
    whole = TupleStructInfo([tensor(n, 3), TupleStructInfo([ShapeStructInfo([m]), anything])])
    opaque = FuncStructInfo.opaque_func(ret=tensor(n))
    found = [relax.analysis.collect_non_negative_expressions(i) for i in (whole, opaque)]
    assert found == [[n, m], [n]]
