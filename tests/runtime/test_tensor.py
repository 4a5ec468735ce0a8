"""Tensors: both sides share memory, values go in and out, foreign arrays come without a copy."""

import pickle

import ml_dtypes
import numpy as np
import pytest

from loopwright import runtime
from loopwright.runtime import ShapeTuple, Tensor, empty, from_dlpack, tensor

DTYPES = ["float32", "float64", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"]
DTYPES += ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "bool"]


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_dtype_keeps_its_values_through_dlpack(dtype):
    values = np.array([[0, 1, 2], [3, 1, 0]]).astype(dtype)
    t = tensor(values)
    assert (t.dtype, t.shape, t.ndim, t.size) == (dtype, (2, 3), 2, 6)
    assert t.numpy().dtype == values.dtype
    again = Tensor.from_ffi(t.__tvm_ffi_object__())
    assert (again.dtype, again.shape, again.strides) == (dtype, (2, 3), (3, 1))
    np.testing.assert_array_equal(again.numpy().astype("float64"), values.astype("float64"))
    again.view()[0, 1] = values[1, 0]
    assert float(t[0, 1]) == 3.0 or dtype == "bool", "both sides are one memory"


def test_tensor_copies_and_view_does_not():
    source = np.arange(4, dtype="float32")
    t = tensor(source)
    source[0] = 9
    assert t.numpy()[0] == 0
    copy = t.numpy()
    copy[1] = 7
    assert float(t[1]) == 1
    np.asarray(t)[1] = 5
    assert float(t[1]) == 5


def test_lists_scalars_and_casts():
    assert tensor([1.5, 2]).dtype == "float64"
    assert tensor([[1], [2]]).shape == (2, 1)
    assert tensor(3, dtype="float32").item() == 3.0
    assert tensor(np.ones((2, 3)).T).strides == (2, 1)
    with pytest.raises(TypeError, match="numpy dtype"):
        tensor(["a", "b"])


def test_assignment_indexing_and_copies():
    t = empty((2, 3), "int32")
    t[:] = 4
    t[0] = [1, 2, 3]
    row = t[0]
    assert isinstance(row, Tensor) and row.shape == (3,)
    row[1] = 8
    assert t[0, 1] == 8 and [list(np.asarray(r)) for r in t] == [[1, 8, 3], [4, 4, 4]]
    other = empty((2, 3), "float32")
    assert other.copyfrom(t) is other and t.copyto(other) is other
    assert other.copyto(runtime.cpu()).numpy()[0, 1] == 8.0
    with pytest.raises(ValueError, match=r"\(3,\) does not match tensor shape \(2, 3\)"):
        other.copyfrom(np.zeros(3))


@pytest.mark.parametrize("shape", [(), (0,), (3, 0), (5,), (2, 1, 3)])
def test_empty_is_aligned(shape):
    t = empty(shape, "float32")
    assert t.shape == shape and (t.size == 0 or t.data_ptr() % 64 == 0)


def test_only_the_cpu_holds_tensors():
    with pytest.raises(ValueError, match="live on the cpu here, got cuda:0"):
        empty((2,), "float32", runtime.cuda())
    with pytest.raises(ValueError, match="no numpy type"):
        empty((2,), "handle")


def test_foreign_arrays_share_memory():
    array = np.arange(3, dtype="float32")
    assert np.shares_memory(from_dlpack(array).view(), array)
    t = tensor(array)
    assert np.shares_memory(np.from_dlpack(t), t.view())
    foreign = t.__tvm_ffi_object__()
    assert from_dlpack(foreign).data_ptr() == t.data_ptr()
    assert from_dlpack(t) is t


def test_a_torch_tensor_shares_memory():
    torch = pytest.importorskip("torch")
    source = torch.arange(4, dtype=torch.float32)
    t = from_dlpack(source)
    t[0] = 5
    assert source[0] == 5
    assert torch.from_dlpack(t).data_ptr() == source.data_ptr()


def test_read_only_and_extension_types_are_exported():
    frozen = np.arange(3, dtype="float32")
    frozen.flags.writeable = False
    assert from_dlpack(frozen).__tvm_ffi_object__().shape == (3,)
    half = np.ones(3, ml_dtypes.bfloat16)
    handle = from_dlpack(half).__tvm_ffi_object__()
    del half
    assert Tensor.from_ffi(handle).numpy().astype("float32").tolist() == [1, 1, 1]


def test_pickle_and_repr():
    t = tensor(np.arange(3, dtype="int32"))
    assert pickle.loads(pickle.dumps(t)).numpy().tolist() == [0, 1, 2]
    assert repr(t).startswith("<Tensor[3], cpu:0, int32>")


def test_shape_tuple():
    shape = ShapeTuple([1, np.int64(2)])
    assert shape == (1, 2) and repr(shape) == "ShapeTuple([1, 2])"
    with pytest.raises(TypeError):
        ShapeTuple([1.5])


def test_devices():
    assert runtime.device("cuda:1") == runtime.cuda(1) != runtime.cuda(0)
    assert runtime.device("llvm -mcpu=native") == runtime.cpu() == runtime.device(1)
    assert str(runtime.device("cpu", 2)) == "cpu:2" and hash(runtime.cpu()) == hash(runtime.cpu())
    assert runtime.cpu().exist and not runtime.cuda().exist
    with pytest.raises(ValueError, match="unknown device type 'abacus'"):
        runtime.device("abacus")
    with pytest.raises(ValueError, match="'cuda:1'"):
        runtime.device("cpu:x")
