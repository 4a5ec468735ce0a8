"""Tensors: both sides share memory, values go in and out, foreign arrays come without a copy."""

import pickle

import ml_dtypes
import numpy as np
import pytest

from loopwright import runtime
from loopwright.runtime import ShapeTuple, Tensor, empty, from_dlpack, tensor
from loopwright.runtime.device import VirtualDevice
from loopwright.runtime.dtype import dl_dtype, dtype_name, numpy_dtype
from loopwright.runtime.tensor import aligned, aligned_empty, aligned_zeros

DTYPES = ["float32", "float64", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"]
DTYPES += ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "bool"]


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_dtype_keeps_its_values_through_dlpack(dtype):
    values = np.array([[0, 1, 2], [3, 1, 0]]).astype(dtype)
    t = tensor(values)
    assert (t.dtype, t.shape, t.ndim, t.size) == (dtype, (2, 3), 2, 6)
    assert t.numpy().dtype == values.dtype
    assert tuple(t.__tvm_ffi_object__().__dlpack_device__()) == (1, 0)
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


@pytest.mark.parametrize(
    ("dtype", "code"),
    [
        ("float32", (2, 32, 1)),
        ("int8x4", (0, 8, 4)),
        ("boolx2", (6, 8, 2)),
        ("bfloat16x8", (4, 16, 8)),
        ("complex64", (5, 64, 1)),
        ("complex128", (5, 128, 1)),
        ("handle", (3, 64, 1)),
        ("float8_e8m0fnu", (14, 8, 1)),
        ("float4_e2m1fnx2", (17, 4, 2)),
    ],
)
def test_codes_of_dtypes(dtype, code):
    assert dl_dtype(dtype) == code and dtype_name(*code) == dtype.replace("handle", "handle64")


@pytest.mark.parametrize("dtype", ["int8x", "int8xq", "int8x-2", "abacus8", "int", "float_8"])
def test_dtypes_that_are_none(dtype):
    if dtype == "int8x":
        assert dl_dtype(dtype) == (0, 8, 1)
        return
    with pytest.raises(ValueError, match="unknown dtype"):
        dl_dtype(dtype)


def test_dtypes_of_other_names():
    assert dl_dtype("custom[posit]16") == (1, 16, 1) and dl_dtype("bfloat") == (4, 16, 1)
    assert numpy_dtype("custom[posit]16") == np.uint16
    assert numpy_dtype("bfloat") == ml_dtypes.bfloat16


def test_bytes_and_views():
    t = tensor(np.arange(6, dtype="float32").reshape(2, 3))
    assert t.nbytes == 24 and tensor(np.zeros(3, "bool")).nbytes == 3
    assert t.bytes().shape == (24,)
    with pytest.raises(ValueError, match="has no bytes in a row"):
        from_dlpack(np.zeros((2, 3)).T).bytes()
    assert t._create_view((3, 2)).numpy().tolist() == [[0, 1], [2, 3], [4, 5]]
    assert t._create_view((2,), None, 16).numpy().tolist() == [4, 5]
    assert t._create_view((12,), "int16", 0).dtype == "int16"
    assert t._create_view((7,), "int4", 20).shape == (7,)  # four bytes
    assert t._create_view((0,), "int8", 24).size == 0
    for shape, dtype, start in (
        ((2,), "float32", 20),
        ((7,), None, 0),
        ((9,), "int4", 20),
        ((1,), "int8", -1),
        ((1,), "int8", 24),
    ):
        with pytest.raises(ValueError, match="may not reach beyond the tensor"):
            t._create_view(shape, dtype, start)


def test_what_tensors_answer():
    t = tensor([[1, 2]])
    assert (len(t), t.ndim, int(t[0, 1]), float(t[0, 0]), bool(t[0, 0])) == (1, 2, 2, 1.0, True)
    assert t.same_as(t) and not t.same_as(tensor([[1, 2]])) and t.__dlpack_device__() == (1, 0)
    with pytest.raises(TypeError, match="0-dimensional"):
        len(tensor(3))
    shared, copied = np.from_dlpack(t), np.from_dlpack(t, copy=True)
    t[0, 0] = 9
    assert shared.tolist() == [[9, 2]] and copied.tolist() == [[1, 2]]
    with pytest.raises(ValueError, match="live on the cpu here, got cuda:0"):
        t.copyto(runtime.cuda())
    with pytest.raises(TypeError, match="cannot make a tensor from values of numpy dtype"):
        tensor(np.array(["2020-01-01"], "M8[D]"))


@pytest.mark.parametrize("shift", [0, 4, 64])
def test_alignment(shift):
    """Memory of its own at a multiple of 64 stays; else it is copied there."""
    block = np.zeros(64 * 3, np.uint8)
    start = -block.ctypes.data % 64 + shift
    part = block[start : start + 64].view("float32")
    assert aligned(part).ctypes.data % 64 == 0 and not np.shares_memory(aligned(part), part)
    own = aligned_empty((16,), np.dtype("float32"))
    assert aligned(own) is own
    turned = aligned(np.arange(6).reshape(2, 3).T)
    assert turned.flags.c_contiguous and turned.tolist() == [[0, 3], [1, 4], [2, 5]]
    zeros = aligned_zeros((2, 3), np.dtype("int16"))
    assert zeros.ctypes.data % 64 == 0 and zeros.tolist() == [[0] * 3] * 2


def test_where_values_are_to_be():
    anywhere = VirtualDevice()
    assert anywhere == (-1, -1, None, "") and anywhere.device_type_int == -1
    assert VirtualDevice(runtime.cuda(3), "cuda", "shared") == (2, 3, "cuda", "shared")


def test_scalars_and_older_names():
    assert int(tensor(3)) == 3 and float(tensor(1.5)) == 1.5
    assert bool(tensor(1)) and not tensor(0)
    copy = (t := tensor([1, 2])).asnumpy()
    copy[0] = 9
    assert t.numpy().tolist() == [1, 2]
    assert len(tensor([[1, 2]])) == 1 and tensor(np.ones((2, 3))).nbytes == 48


def test_devices_of_other_kinds():
    kinds = {"cuda": 2, "opencl": 4, "vulkan": 7, "metal": 8, "rocm": 10}
    for name, code in kinds.items():
        made = getattr(runtime, name)()
        assert (made.type, made.index, made.type_code) == (name, 0, code)
        assert made == runtime.device(name) and getattr(runtime, name)(1).index == 1
        assert made != runtime.cpu() and made != name and not made.exist
        assert repr(made) == f"device(type={name!r}, index=0)" and str(made) == f"{name}:0"
