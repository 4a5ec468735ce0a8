"""Parameters in files, and the cache that programs load them into."""

from __future__ import annotations

import hashlib
import json

import numpy as np
import pytest

from loopwright.runtime import dump_ndarray_cache, get_global_func, load_ndarray_cache
from loopwright.runtime.dtype import numpy_dtype

from ..drawing import drawn

TABLE = drawn("test_ndarray_cache")
MANY = {
    name: TABLE.integers(0, 2, (3, 5)).astype(numpy_dtype(name))
    for name in ("bool", "int8", "uint64", "float16", "float64", "bfloat16", "float8_e4m3fn")
}


def test_every_dtype_returns(tmp_path):
    dump_ndarray_cache(MANY, tmp_path, meta_data={"n": 1})
    arrays, metadata = load_ndarray_cache(tmp_path)
    assert metadata == {"n": 1}
    assert list(arrays) == list(MANY)
    for name, array in MANY.items():
        assert arrays[name].dtype == array.dtype.name
        np.testing.assert_array_equal(arrays[name].numpy(), array)


def test_float32(tmp_path):
    values = np.array([1.0, -2.5, 1e-3, 3.4e38, np.inf, np.nan], "float32")
    dump_ndarray_cache(iter([("x", values)]), tmp_path / "exact", "raw")
    exact = load_ndarray_cache(tmp_path / "exact" / "ndarray-cache.json")[0]["x"]
    np.testing.assert_array_equal(exact.numpy(), values)
    dump_ndarray_cache({"x": values}, tmp_path, meta_data=dict)
    short = load_ndarray_cache(tmp_path)[0]["x"]
    assert short.dtype == "float32"
    np.testing.assert_allclose(short.numpy(), values, rtol=2**-8)
    assert (tmp_path / "params_shard_0.bin").stat().st_size == 2 * len(values)


def test_shards_and_update(tmp_path):
    params = {f"p_{i}": np.full(3 << 17, i, "float32") for i in range(3)}  # 1.5 MB each
    dump_ndarray_cache(params, tmp_path, "raw", {"kept": True}, shard_cap_mb=3)
    assert len(list(tmp_path.glob("*.bin"))) == 2
    params = {"p_1": np.full(3 << 17, 7, "float32"), "p_3": np.zeros(2, "float32")}
    dump_ndarray_cache(params, tmp_path, "raw", update_if_exists=True)
    arrays, metadata = load_ndarray_cache(tmp_path)
    assert metadata == {"kept": True}
    assert [a.numpy()[0] for a in arrays.values()] == [0, 7, 2, 0]
    with pytest.raises(ValueError, match="array 'p_3' has another size in the folder"):
        dump_ndarray_cache({"p_3": np.zeros(3)}, tmp_path, "raw", update_if_exists=True)


def test_functions_of_programs(tmp_path):
    dump_ndarray_cache({f"w_{i}": np.full(2, i, "int32") for i in range(3)}, tmp_path)
    call = {
        name: get_global_func(f"vm.builtin.ndarray_cache.{name}")
        for name in ("load", "get", "update", "remove", "clear")
    }
    call["clear"]()
    call["load"](str(tmp_path), 1, 0)
    numbered = get_global_func("vm.builtin.param_array_from_cache")
    assert [t.numpy()[0] for t in numbered("w", -1)] == [0, 1, 2]
    assert len(numbered("w", 2)) == 2
    call["update"]("w_0", np.full(2, 9), False)
    assert call["get"]("w_0").numpy()[0] == 0
    call["update"]("w_0", np.full(2, 9), True)
    named = get_global_func("vm.builtin.param_array_from_cache_by_name")
    assert [t.numpy()[0] for t in named(["w_2", "w_0"])] == [2, 9]
    call["remove"]("w_0")
    assert call["get"]("w_0") is None
    with pytest.raises(ValueError, match="the cache has no array w_0"):
        numbered("w", 3)
    with pytest.raises(ValueError, match="no array of this name\n  got: w_0"):
        named(["w_0"])
    call["clear"]()


def test_what_does_not_fit_is_refused(tmp_path):
    with pytest.raises(ValueError, match="unknown encode_format\n  got: zip"):
        dump_ndarray_cache({}, tmp_path, "zip")
    dump_ndarray_cache({"x": np.zeros(4, "int32")}, tmp_path)
    index = tmp_path / "ndarray-cache.json"
    good = json.loads(index.read_text())

    def refused(message, **changes):
        shard = {**good["records"][0], **changes}
        index.write_text(json.dumps({**good, "records": [shard]}))
        with pytest.raises(ValueError, match=message):
            load_ndarray_cache(tmp_path)

    record = good["records"][0]["records"][0]
    refused("a shard is a file of the folder", dataPath="../x.bin")
    refused("is not the index's\n  got: 16 bytes, not 17", nbytes=17)
    refused("array 'x' does not fit its place", records=[{**record, "byteOffset": 4}])
    refused("array 'x' does not fit its place", records=[{**record, "byteOffset": -16}])
    refused("array 'x' does not fit its place", records=[{**record, "shape": [5]}])
    refused("array 'x' does not fit its place", records=[{**record, "nbytes": 8}])
    index.write_text("[]")
    with pytest.raises(ValueError, match="an index has records and metadata"):
        load_ndarray_cache(tmp_path)


def test_an_index_is_made_anew(tmp_path):
    folder = tmp_path / "deep" / "er"
    dump_ndarray_cache({"x": np.zeros(2)}, folder, meta_data={"n": 1}, update_if_exists=True)
    dump_ndarray_cache({"y": np.ones(2)}, folder)
    arrays, metadata = load_ndarray_cache(folder)
    assert list(arrays) == ["y"] and metadata == {}
    index = json.loads((folder / "ndarray-cache.json").read_text())
    (shard,) = index["records"]
    content = (folder / shard["dataPath"]).read_bytes()
    assert shard["md5sum"] == hashlib.md5(content).hexdigest()
    assert shard["records"][0]["byteOffset"] == 0 and shard["format"] == "raw-shard"


def test_large_arrays_have_files_of_their_own(tmp_path):
    params = {n: np.zeros(size << 18, "float32") for n, size in (("a", 1), ("b", 2), ("c", 1))}
    dump_ndarray_cache(params, tmp_path, "raw", shard_cap_mb=1)
    index = json.loads((tmp_path / "ndarray-cache.json").read_text())
    found = [[r["name"] for r in shard["records"]] for shard in index["records"]]
    assert found == [["a"], ["b"], ["c"]]
