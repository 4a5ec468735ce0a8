"""Tensors of integers below 8 bits: packed as in DLPack, unpacked in numpy."""

from __future__ import annotations

import pickle

import ml_dtypes
import numpy as np
import pytest

from loopwright.runtime import Tensor, empty, from_dlpack, tensor
from loopwright.runtime.dtype import elements_per_byte, pack_bits, unpack_bits

TYPES = ["int4", "uint4", "int2", "uint2", "int1", "uint1"]


def every_value(dtype, shape):
    bits = int(dtype[-1])
    low = -(1 << bits - 1) if dtype[0] == "i" else 0
    return np.resize(np.arange(low, low + (1 << bits)), shape)


@pytest.mark.parametrize("shape", [(), (1,), (7,), (3, 5), (4, 4), (0, 3)])
@pytest.mark.parametrize("dtype", TYPES)
def test_values_shape_and_bytes(dtype, shape):
    values = every_value(dtype, shape)
    t = tensor(values, dtype=dtype)
    assert (t.dtype, t.shape, t.size) == (dtype, shape, values.size)
    assert t.nbytes == -(-values.size * int(dtype[-1]) // 8)
    np.testing.assert_array_equal(t.numpy().astype(int), values)
    np.testing.assert_array_equal(t.view().astype(int), values)
    assert tuple(t.__tvm_ffi_object__().__dlpack_device__()) == (1, 0)
    again = Tensor.from_ffi(t.__tvm_ffi_object__())
    assert (again.dtype, again.shape, again.strides) == (dtype, shape, t.strides)
    np.testing.assert_array_equal(np.asarray(again).astype(int), values)
    restored = pickle.loads(pickle.dumps(t))
    assert restored.dtype == dtype and (restored.bytes() == t.bytes()).all()


def test_the_first_element_lies_in_the_low_bits():
    t = tensor(np.array([1, -2, 3], ml_dtypes.int4))
    assert t.dtype == "int4" and t.numpy().dtype == ml_dtypes.int4
    assert [hex(b) for b in t.bytes()] == ["0xe1", "0x3"]
    assert from_dlpack(np.array([1, 2], ml_dtypes.uint4)).bytes().tolist() == [0x21]


def test_assignment_indexing_and_copies():
    t = empty((2, 3), "int4")
    assert t.nbytes == 3
    t[:] = -1
    t[0] = [1, 2, 3]
    assert int(t[0, 1]) == 2 and [int(v) for v in t[1].numpy()] == [-1, -1, -1]
    shared = Tensor.from_ffi(t.__tvm_ffi_object__())
    shared[1, 2] = 5
    assert int(t[1, 2]) == 5, "both sides are one memory"
    assert int(tensor(t)[1, 2]) == 5
    wide = empty((2, 3), "float32").copyfrom(t)
    assert wide.numpy().tolist() == [[1, 2, 3], [-1, -1, 5]]
    assert t.copyfrom(wide) is t and int(t.copyto(t.device)[0, 2]) == 3
    with pytest.raises(
        ValueError, match=r"array shape \(3,\) does not match tensor shape \(2, 3\)"
    ):
        t.copyfrom(np.zeros(3))


def test_packing_wraps_around_and_comes_back():
    assert elements_per_byte("int4") == 2 and elements_per_byte("float4_e2m1fn") == 1
    assert elements_per_byte("bool") == 1 and elements_per_byte("uint8") == 1
    for dtype in TYPES:
        bits = int(dtype[-1])
        wide = np.arange(-128, 128)
        back = unpack_bits(pack_bits(wide, dtype), dtype, (256,))
        want = wide & (1 << bits) - 1
        if dtype[0] == "i":
            want = np.where(want >> bits - 1, want - (1 << bits), want)
        np.testing.assert_array_equal(back, want)


def test_widths_that_share_no_byte():
    for name in ("int0", "int3", "uint7"):
        with pytest.raises(ValueError, match="integers below 8 bits have 1, 2 or 4"):
            tensor([1], dtype=name)


def test_copies_into_other_tensors():
    t = tensor([1, 2, 3], dtype="int4")
    shared = from_dlpack(t)
    t[0] = 5
    assert [int(v) for v in shared.numpy()] == [5, 2, 3]
    wide = empty((3,), "int32")
    assert t.copyto(wide) is wide and wide.numpy().tolist() == [5, 2, 3]


def test_packed_memory_with_strides_is_refused():
    from loopwright.runtime.tensor import PackedTensor, capsule_of, ffi

    data = np.zeros(8, np.uint8)
    plain = ffi().from_dlpack(capsule_of(data, "int4", (4, 4), (4, 1)))
    assert PackedTensor.on(plain).shape == (4, 4)
    one = ffi().from_dlpack(capsule_of(data, "int4", (1, 4), (9, 1)))  # of one row: no matter
    assert PackedTensor.on(one).shape == (1, 4)
    turned = ffi().from_dlpack(capsule_of(data, "int4", (4, 4), (1, 4)))
    with pytest.raises(ValueError, match=r"int4 with strides \(1, 4\) cannot be read"):
        PackedTensor.on(turned)


def test_vectors():
    made = empty((3, 2), "float32x4")
    assert (made.shape, made.dtype, made.nbytes, made.view().shape) == (
        (3, 2),
        "float32x4",
        96,
        (3, 2, 4),
    )
    made.view()[...] = np.arange(24).reshape(3, 2, 4)
    np.testing.assert_array_equal(made._create_view((24,), "float32").numpy(), np.arange(24))
    last = made._create_view((2,), "float32x4", 64)
    np.testing.assert_array_equal(last.numpy(), np.arange(16, 24).reshape(2, 4))
    with pytest.raises(ValueError, match="may not reach beyond"):
        made._create_view((7,), "float32x4")
