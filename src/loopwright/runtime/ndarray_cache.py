"""Parameters in files: a folder with raw shards and `ndarray-cache.json`, as TVM's users share them.

    dump_ndarray_cache({"weight": array}, "folder")
    params, metadata = load_ndarray_cache("folder")

The functions `vm.builtin.ndarray_cache.*` load such a folder into a cache of the process.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from loopwright.base.errors import explain
from loopwright.runtime.dtype import numpy_dtype
from loopwright.runtime.packed_func import register_func
from loopwright.runtime.tensor import Tensor, as_array, tensor

_INDEX = "ndarray-cache.json"
_BFLOAT16 = "f32-to-bf16"
_CACHE: dict[str, Tensor] = {}


def dump_ndarray_cache(
    params: Mapping[str, Any] | Iterable[tuple[str, Any]],
    cache_dir: str | Path,
    encode_format: str = _BFLOAT16,
    meta_data: Mapping[str, int] | type[dict] | None = None,
    shard_cap_mb: int = 32,
    show_progress: bool = True,
    update_if_exists: bool = False,
) -> None:
    """Write arrays into a folder, several to a file of at most `shard_cap_mb` MB.

    encode_format: "raw", or "f32-to-bf16" to keep float32 values as bfloat16.
    meta_data: what JSON can hold, or a function that returns it.
    show_progress: taken for TVM's sake; nothing is printed.
    update_if_exists: arrays of the folder of the same name and size are written over, and others
        stay; without, the folder's index is rebuilt.
    Raises ValueError for another format, and for an array that would change its size.
    """
    if encode_format not in ("raw", _BFLOAT16):
        hint = f"raw or {_BFLOAT16}"
        raise ValueError(explain("unknown encode_format", got=encode_format, instead=hint))
    folder = Path(cache_dir)
    folder.mkdir(parents=True, exist_ok=True)
    index = folder / _INDEX
    old = _read_index(index) if update_if_exists and index.exists() else {}
    shards = _Shards(folder, old.get("records", []), shard_cap_mb << 20)
    for name, value in dict(params).items():
        array = as_array(value)
        shards.add(name, array, _encoded(array, encode_format), encode_format)
    metadata = meta_data() if callable(meta_data) else meta_data
    records = shards.finish()
    content = {"metadata": old.get("metadata", {}) if metadata is None else metadata}
    index.write_text(json.dumps({**content, "records": records}, indent=4), encoding="utf-8")


def _encoded(array: np.ndarray, encode_format: str) -> bytes:
    """The bytes of an array; float32 as bfloat16, finite values staying finite, where that is requested."""
    if encode_format == _BFLOAT16 and array.dtype == np.float32:
        bfloat16 = numpy_dtype("bfloat16")
        most = np.float32(3.3895314e38)  # the largest bfloat16
        finite = np.where(np.isfinite(array), np.clip(array, -most, most), array)
        array = finite.astype(bfloat16)
    return array.tobytes()


def _convert_f32_to_bf16(value: np.ndarray) -> np.ndarray:
    """The bits of float32 values as bfloat16 (TVM's name, which scripts use)."""
    return np.frombuffer(_encoded(value, _BFLOAT16), "uint16").reshape(value.shape)


def _convert_bf16_to_f32(value: np.ndarray) -> np.ndarray:
    """float32 values from the bits of bfloat16."""
    return value.view(numpy_dtype("bfloat16")).astype("float32")


class _Shards:
    """The files of a folder: arrays are gathered until a file is full."""

    def __init__(self, folder: Path, records: list[dict[str, Any]], limit: int) -> None:
        self.folder, self.records, self.limit = folder, records, limit
        self.by_name = {r["name"]: (shard, r) for shard in records for r in shard["records"]}
        self.pending: list[dict[str, Any]] = []
        self.data = bytearray()
        self.changed: list[dict[str, Any]] = []

    def add(self, name: str, array: np.ndarray, data: bytes, encode_format: str) -> None:
        if name in self.by_name:
            self._write_over(name, data)
            return
        if self.data and len(self.data) + len(data) > self.limit:
            self._write()
        record = {"name": name, "shape": list(array.shape), "dtype": array.dtype.name}
        entry = {"format": encode_format, "nbytes": len(data), "byteOffset": len(self.data)}
        self.pending.append({**record, **entry})
        self.data += data

    def _write_over(self, name: str, data: bytes) -> None:
        shard, record = self.by_name[name]
        if record["nbytes"] != len(data):
            got = f"{len(data)} bytes, not {record['nbytes']}"
            raise ValueError(explain(f"array {name!r} has another size in the folder", got=got))
        with (self.folder / _plain(shard["dataPath"])).open("r+b") as file:
            file.seek(record["byteOffset"])
            file.write(data)
        self.changed.append(shard)

    def _write(self) -> None:
        path = f"params_shard_{len(self.records)}.bin"
        (self.folder / path).write_bytes(self.data)
        shard = {"dataPath": path, "format": "raw-shard", "nbytes": len(self.data)}
        self.records.append({**shard, "records": self.pending})
        self.changed.append(self.records[-1])
        self.pending, self.data = [], bytearray()

    def finish(self) -> list[dict[str, Any]]:
        if self.pending:
            self._write()
        for shard in self.changed:
            content = (self.folder / _plain(shard["dataPath"])).read_bytes()
            shard["md5sum"] = hashlib.md5(content, usedforsecurity=False).hexdigest()
        return self.records


def load_ndarray_cache(
    cachepath: str | Path, device: Any = None
) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """(arrays by name, metadata) of a folder, or of its index file.

    Raises ValueError where the index and the files do not fit together.
    """
    index = Path(cachepath)
    index = index if index.suffix == ".json" else index / _INDEX
    content = _read_index(index)
    arrays = {}
    for shard in content["records"]:
        data = (index.parent / _plain(shard["dataPath"])).read_bytes()
        if len(data) != shard["nbytes"]:
            got = f"{len(data)} bytes, not {shard['nbytes']}"
            raise ValueError(explain(f"the file {shard['dataPath']} is not the index's", got=got))
        for record in shard["records"]:
            arrays[record["name"]] = tensor(_array(record, data), device)
    return arrays, content["metadata"]


def _read_index(path: Path) -> dict[str, Any]:
    content = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(content, dict) or not {"records", "metadata"} <= content.keys():
        raise ValueError(explain("an index has records and metadata", got=str(path)))
    return content


def _plain(name: str) -> str:
    """The name of a file of the folder. Raises ValueError for a path that leaves it."""
    if Path(name).name != name:
        raise ValueError(explain("a shard is a file of the folder", got=repr(name)))
    return name


def _array(record: dict[str, Any], data: bytes) -> np.ndarray:
    name, shape, start = record["name"], tuple(record["shape"]), record["byteOffset"]
    kind = numpy_dtype(record["dtype"])
    as_bfloat16 = record["format"] == _BFLOAT16 and record["dtype"] == "float32"
    stored = numpy_dtype("bfloat16") if as_bfloat16 else kind
    part = data[start : start + record["nbytes"]] if start >= 0 else b""
    if len(part) != record["nbytes"] or len(part) != prod(shape) * stored.itemsize:
        got = f"{len(part)} bytes for {shape} of {stored}"
        raise ValueError(explain(f"array {name!r} does not fit its place", got=got))
    return np.frombuffer(part, stored).reshape(shape).astype(kind)


# ---------------------------------------------------------------------- the cache of the process


def _register(name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    return register_func(f"vm.builtin.{name}", override=True)


@_register("ndarray_cache.load")
def _load(path: str, device_type: int = 1, device_id: int = 0) -> None:
    _CACHE.update(load_ndarray_cache(path)[0])


@_register("ndarray_cache.update")
def _update(name: str, value: np.ndarray, is_override: bool = False) -> None:
    if is_override or name not in _CACHE:
        _CACHE[name] = tensor(value)


@_register("ndarray_cache.get")
def _get(name: str) -> Tensor | None:
    return _CACHE.get(name)


@_register("ndarray_cache.remove")
def _remove(name: str) -> None:
    _CACHE.pop(name, None)


@_register("ndarray_cache.clear")
def _clear() -> None:
    _CACHE.clear()


@_register("param_array_from_cache")
def _numbered(prefix: str, count: int = -1) -> list[Tensor]:
    """`prefix_0`, `prefix_1`, ...: `count` of them, or with -1 all."""
    tensors: list[Tensor] = []
    while f"{prefix}_{len(tensors)}" in _CACHE and len(tensors) != count:
        tensors.append(_CACHE[f"{prefix}_{len(tensors)}"])
    if count not in (-1, len(tensors)):
        what = f"the cache has no array {prefix}_{len(tensors)}"
        raise ValueError(explain(what, got=f"{count} arrays requested"))
    return tensors


@_register("param_array_from_cache_by_name")
def _named(names: Iterable[str]) -> list[Tensor]:
    missing = [name for name in names if name not in _CACHE]
    if missing:
        raise ValueError(explain("the cache has no array of this name", got=missing[0]))
    return [_CACHE[name] for name in names]
