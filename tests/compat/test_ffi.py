"""TVM's `ffi`, and the functions of `testing` that check how values cross calls."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import loopwright as lw
from loopwright import relax, te, testing, tir
from loopwright.base import errors
from loopwright.compat import contrib, ffi, questions
from loopwright.compat.layout import update_struct_info
from loopwright.ir import Target, assert_structural_equal
from loopwright.runtime import get_global_func
from loopwright.script import relax as R
from loopwright.script import tir as T


def test_from_dlpack_checks_what_is_required():
    values = np.arange(12, dtype="float32").reshape(3, 4)
    assert ffi.from_dlpack(values).shape == (3, 4)
    with pytest.raises(RuntimeError, match="required_contiguous=False"):
        ffi.from_dlpack(values.T)
    turned = ffi.from_dlpack(values.T, required_contiguous=False, required_alignment=4)
    assert turned.strides == (1, 4)
    with pytest.raises(RuntimeError, match="aligned to 4096"):
        ffi.from_dlpack(values.reshape(-1)[1:], required_alignment=4096)


def test_the_library_is_there():
    assert ffi._LIB._name.endswith(".so")


def test_values_are_converted_where_a_function_takes_another_kind():
    one = get_global_func("testing.AcceptsPrimExpr")(1)
    assert isinstance(one, tir.IntImm) and one.dtype == "int32"
    yes = get_global_func("testing.AcceptsArrayOfPrimExpr")([1, True])[1]
    assert isinstance(yes, tir.IntImm) and yes.dtype == "bool"
    assert get_global_func("testing.AcceptsVariant")(3) == "ir.IntImm"
    with pytest.raises(TypeError, match="a text or an integer"):
        get_global_func("testing.AcceptsVariant")(0.5)


def test_errors_keep_their_kind_through_calls():
    with pytest.raises(NotImplementedError, match="my operator"):
        testing.test_raise_error("OpNotImplemented", "my operator")
    with pytest.raises(errors.InternalError, match="0 is not 1: why"):
        testing.test_check_eq_callback("InternalError: why")(0, 1)

    def fails() -> None:
        raise ValueError("inner")

    with pytest.raises(ValueError, match="inner"):
        testing.test_wrap_callback(testing.test_wrap_callback(fails))()


def test_functions_on_tensors_of_another_library():
    values = np.arange(4, dtype="float32")
    seen = []
    call = questions.convert_func(lambda *args: seen.extend(args), np.ndarray, lambda a: a)
    call(values, 3)
    assert isinstance(seen[0], lw.Tensor) and seen[1] == 3
    np.testing.assert_array_equal(lw.runtime.from_dlpack(seen[0].to_dlpack()).numpy(), values)


def test_thrust_is_asked_for_by_the_target():
    with_thrust = Target("cuda -libs=thrust")
    assert questions.can_use_thrust(with_thrust, "test.no_such_function") is None
    assert questions.can_use_thrust(with_thrust, "testing.echo") is not None
    assert questions.can_use_thrust(Target("cuda"), "testing.echo") is None
    assert questions.can_use_rocthrust(with_thrust, "testing.echo") is None


def test_archives(tmp_path):
    (tmp_path / "a.txt").write_text("a")
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "c.txt").write_text("c")
    files = [str(tmp_path / "a.txt"), str(tmp_path / "b" / "c.txt")]
    contrib.tar(tmp_path / "both.tar", files)
    with testing.files.tempdir() as folder:
        made = contrib.normalize_file_list_by_unpacking_tars(
            folder, [str(tmp_path / "both.tar"), files[0]]
        )
        assert [Path(name).read_text() for name in made] == ["a", "c", "a"]
    with pytest.raises(ValueError, match="two files of one name"):
        contrib.tar(tmp_path / "no.tar", [files[0], files[0]])


def test_containers_of_calls_are_fixed():
    assert ffi.convert([1, [2]]) == (1, (2,))


def test_attributes_by_name():
    attrs = lw.ir.make_node("ir.DictAttrs", x=1, pad=[0, 1])
    assert isinstance(attrs, lw.ir.DictAttrs) and (attrs.x, attrs["pad"]) == (1, [0, 1])
    a = te.placeholder((4, 2), name="a")
    made = lw.ir.make_node("te.Tensor", shape=a.shape, dtype="int8", op=a.op, value_index=0)
    assert made.op is a.op and made.dtype == "int8" and made.shape == a.shape
    with pytest.raises(TypeError, match="strides"):
        lw.ir.make_node("te.Tensor", strides=())


def test_the_struct_info_of_a_global_var_is_set():
    var, info = lw.GlobalVar("f"), relax.FuncStructInfo.opaque_func()
    update_struct_info(var, info)
    assert var.struct_info is info
    with pytest.raises(errors.TVMError, match="f takes 0 arguments"):
        closed = relax.FuncStructInfo([], relax.ObjectStructInfo())
        relax.analysis.derive_call_ret_struct_info(closed, relax.Call(var, [relax.const(1)]))


@T.prim_func
def fails(A: T.Buffer((4,), "float32")):
    assert 0 == 1, "never"
    A[0] = T.float32(0)


@T.prim_func
def fails_too(A: T.Buffer((4,), "float32")):
    assert T.bool(False), "never"
    A[0] = T.float32(0)


def test_an_assertion_that_is_false_fails_where_it_runs():
    assert_structural_equal(
        fails.without_attr("global_symbol"), fails_too.without_attr("global_symbol")
    )
    model = lw.compile(lw.IRModule({"fails": fails}), "llvm")
    assert model.entry_name == "fails" and model.implements_function("fails")
    assert not model.implements_function("main")
    with pytest.raises(ValueError, match="never"):
        model(lw.runtime.empty((4,)))
    with pytest.raises(RuntimeError, match=r"shape\[0\] = 5, expected 4") as error:
        model(lw.runtime.empty((5,)))
    assert isinstance(error.value, ValueError)


def test_a_kernel_may_have_another_symbol():
    @R.function
    def main(x: R.Tensor((4,), "float32")):
        return x

    mod = lw.IRModule({"main": main, "kernel": fails.with_attr("global_symbol", "other")})
    assert relax.analysis.well_formed(mod)
    assert not relax.analysis.well_formed(
        lw.IRModule({"kernel": main.with_attr("global_symbol", "other")})
    )


def test_views_name_the_bytes():
    with pytest.raises(
        ValueError, match="would occupy bytes 8 <= i_byte < 24, .* only contains 16"
    ):
        lw.runtime.empty((4,))._create_view((4,), relative_byte_offset=8)


def test_numbers_of_a_list_of_attributes_know_their_type():
    x = relax.Var("x", relax.TensorStructInfo([1, 3, 8], "float32"))
    strides = relax.op.nn.max_pool1d(x, pool_size=3, strides=2).attrs.strides
    assert strides == [2] and (strides[0].dtype, strides[0].value) == ("int64", 2)
