"""Large weights are read from their places in the file, and no broken file is taken for a whole one."""

from __future__ import annotations

import os
import pickle

import numpy as np
import onnx
import pytest
from google.protobuf.message import DecodeError
from onnx import TensorProto, helper, numpy_helper

import loopwright as lw
from loopwright.base.errors import LoopwrightError
from loopwright.frontend.onnx import from_onnx
from loopwright.frontend.onnx.importer import from_path_or_proto
from loopwright.frontend.onnx.reader import load, read
from loopwright.frontend.onnx.stored import LEAST, Stored, without_weights
from loopwright.frontend.onnx.tensors import dtype_of

from ...drawing import drawn

TABLE = drawn("test_stored")
WEIGHTS = {
    "large": TABLE.standard_normal((128, 300)).astype("float32"),
    "bytes": TABLE.integers(-128, 128, LEAST, dtype=np.int8),
    "small": TABLE.standard_normal(3).astype("float32"),
    "half": TABLE.standard_normal((2, LEAST)).astype("float16"),
}


def model(weights=WEIGHTS) -> onnx.ModelProto:
    nodes = [helper.make_node("Identity", [name], [f"{name}_out"]) for name in weights]
    made = [
        helper.make_tensor_value_info(f"{n}_out", helper.np_dtype_to_tensor_dtype(w.dtype), w.shape)
        for n, w in weights.items()
    ]
    given = [numpy_helper.from_array(w, n) for n, w in weights.items()]
    return helper.make_model(helper.make_graph(nodes, "g", [], made, given))


@pytest.fixture
def path(tmp_path):
    file = tmp_path / "model.onnx"
    onnx.save(model(), file)
    return file


def test_weights_are_those_of_the_file(path):
    found = read(load(path))
    assert sorted(found.stored) == ["bytes", "half", "large"]
    for name, wanted in WEIGHTS.items():
        got = found.initializer(name)
        assert got.dtype == wanted.dtype and not got.flags.writeable
        np.testing.assert_array_equal(got, wanted)
    assert all(found.initializer(name).ctypes.data % 64 == 0 for name in found.stored)
    assert from_onnx(path).script() == from_onnx(model()).script()


def test_a_link_to_the_file(path, tmp_path):
    link = tmp_path / "link.onnx"
    link.symlink_to(path)
    np.testing.assert_array_equal(read(load(link)).initializer("large"), WEIGHTS["large"])


def test_types_below_a_byte(tmp_path):
    packed = helper.make_tensor(
        "w", TensorProto.INT4, [4 * LEAST], bytes(range(256)) * (LEAST // 128), raw=True
    )
    made = helper.make_tensor_value_info("y", TensorProto.INT4, [4 * LEAST])
    graph = helper.make_graph(
        [helper.make_node("Identity", ["w"], ["y"])], "g", [], [made], [packed]
    )
    onnx.save(helper.make_model(graph), tmp_path / "m.onnx")
    found = read(load(tmp_path / "m.onnx"))
    assert "w" in found.stored
    wanted = numpy_helper.to_array(packed).astype(np.int8)
    np.testing.assert_array_equal(found.initializer("w").astype(np.int8), wanted)


def test_the_rest_is_the_same_message(path):
    data, stored = without_weights(path)
    assert len(data) < path.stat().st_size - sum(s.size for s in stored.values()) + 100
    short, whole = onnx.ModelProto.FromString(data), model()
    for tensor in whole.graph.initializer:
        if tensor.name in stored:
            tensor.ClearField("raw_data")
    assert short == whole


def test_two_weights_of_one_name_are_refused(tmp_path):
    proto = model()
    proto.graph.initializer[1].name = "large"
    onnx.save(proto, tmp_path / "m.onnx")
    assert without_weights(tmp_path / "m.onnx")[1] == {}
    with pytest.raises(LoopwrightError, match="initializers of the same name"):
        from_onnx(tmp_path / "m.onnx")


def test_a_file_that_ends_early(path):
    data = path.read_bytes()
    for end in (1, 10, LEAST, len(data) // 2, len(data) - 1):
        path.write_bytes(data[:end])
        assert without_weights(path) == (data[:end], {})
        with pytest.raises(LoopwrightError, match="no ONNX model"):
            from_onnx(path)


def test_changed_bytes_give_what_protobuf_gives(rng, path):
    """The message without its weights, given them back, is the one that protobuf reads."""
    data = bytearray(path.read_bytes())
    for at in (*range(64), *rng.integers(0, len(data), 60)):
        changed = data.copy()
        changed[at] ^= 1 << int(rng.integers(8))
        path.write_bytes(changed)
        short, stored = without_weights(path)
        try:
            wanted = onnx.ModelProto.FromString(bytes(changed))
        except DecodeError:
            with pytest.raises(DecodeError):
                onnx.ModelProto.FromString(short)
            continue
        got = onnx.ModelProto.FromString(short)
        for tensor in got.graph.initializer:
            if tensor.name in stored:
                tensor.raw_data = stored[tensor.name].read().tobytes()
        assert got == wanted


def test_a_file_that_changes_meanwhile(path):
    found = read(load(path))
    os.truncate(path, LEAST)
    with pytest.raises(
        LoopwrightError, match=r"initializer large: .*has changed while it was read"
    ):
        found.initializer("large")


def test_a_compiled_file_reads_each_weight_once(rng, tmp_path, monkeypatch):
    """A weight that is packed does not lie in memory beside what it becomes."""
    weight = rng.standard_normal((300, 320)).astype("float32")
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["h"]),
        helper.make_node("MatMul", ["h", "v"], ["y"]),
    ]
    ports = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [64, 300]) for n in "xy"]
    arrays = [numpy_helper.from_array(a, n) for n, a in (("w", weight), ("v", weight.T.copy()))]
    graph = helper.make_graph(nodes, "g", ports[:1], ports[1:], arrays)
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), tmp_path / "m.onnx"
    )
    read_: list[int] = []
    whole = Stored.read
    monkeypatch.setattr(Stored, "read", lambda self: read_.append(self.offset) or whole(self))
    mod = from_path_or_proto(tmp_path / "m.onnx")
    assert mod is not None and not read_
    exe = lw.compile(mod)
    assert len(read_) == len(set(read_)) == 2
    x = rng.standard_normal((64, 300)).astype("float32")
    np.testing.assert_allclose(exe["main"](x), x @ weight @ weight.T, rtol=1e-3, atol=1e-2)


def test_a_weight_in_its_file(path):
    found = read(load(path))
    stored = found.stored_initializer("large")
    wanted = WEIGHTS["large"]
    assert stored is not None
    assert (stored.shape, stored.dtype, stored.strides) == ((128, 300), "float32", (300, 1))
    assert stored.nbytes == wanted.nbytes and found.stored_initializer("small") is None
    for values in (stored.numpy(), np.asarray(stored), np.from_dlpack(stored), stored[3:5]):
        np.testing.assert_array_equal(
            np.asarray(values), wanted[3:5] if len(values) == 2 else wanted
        )
    held = np.asarray(stored)
    assert np.asarray(stored) is held and not held.flags.writeable
    address = stored.data_ptr()
    assert address == np.asarray(stored).ctypes.data == stored.data_ptr()
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(stored)).numpy(), wanted)


@pytest.mark.no_roundtrip  # the weights are gone
def test_a_file_that_changes_before_its_weights_are_read(path):
    mod = from_path_or_proto(path)
    os.utime(path, ns=(1, 1))
    with pytest.raises(LoopwrightError, match="has changed while it was read"):
        lw.compile(mod)
    path.unlink()
    with pytest.raises(LoopwrightError, match=r"a weight of .*model\.onnx: .*No such file"):
        lw.compile(mod)


@pytest.mark.parametrize("number", sorted({*TensorProto.DataType.values()} - {0, 8}))
def test_numbers_of_element_types(number):
    """Those of onnx.proto but undefined and strings, by numpy's and ml_dtypes' names."""
    assert dtype_of(number) == str(helper.tensor_dtype_to_np_dtype(number))
