"""Inputs and outputs of a model on the command line: inputs from a file, or random ones; sizes that
are symbolic; files of results."""

from __future__ import annotations

import contextlib
import json
import zipfile
import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import count, takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..base.errors import LoopwrightError, UnknownName, explain, suggest
from ..codegen.compiled import CompiledModel
from ..ir.dtype import numpy_dtype

if TYPE_CHECKING:
    from ..runtime.tensor import Tensor

_OBJECT = "object"  # the dtype that sequences and maps are described by


def read_dims(text: str, dims: Iterable[str]) -> dict[str, int]:
    """The sizes of a text such as "n=4,height=32", or "4" for all of `dims`. Raises LoopwrightError
    for a text that is not a size, and for an unknown name."""
    names, values = list(dict.fromkeys(dims)), {}
    for part in filter(None, text.split(",")):
        name, equals, number = (word.strip() for word in part.rpartition("="))
        if not number.isdecimal():
            hint = "--dims n=1,height=32, or one number for all"
            raise LoopwrightError(explain("a size is a whole number", got=part, instead=hint))
        for size in [name] if equals else names:
            if size not in names:
                what = "the model has no symbolic size of this name"
                hint = suggest(size, names, "it has:") if names else "all of its sizes are fixed"
                raise UnknownName(explain(what, got=size, instead=hint))
            values[size] = int(number)
    return values


def make_feeds(
    exe: CompiledModel, path: Path | None, dims: str, overriding: bool = False
) -> dict[str, Any]:
    """The inputs of `main`: those of a file, or random ones, where symbolic sizes are 1 unless
    `dims` sets them. overriding: the file may have initializers that a run may override. Raises
    LoopwrightError for a file that does not hold them, and for a sequence or a map without a file."""
    shapes = dict(zip(exe.input_names(), exe.inputs(), strict=True))
    if path is not None:
        dtypes = {name: dtype for name, (_, dtype, _) in shapes.items()}
        return _load(path, dtypes, exe.overridable_names(), overriding)
    sizes = read_dims(dims, (d for *_, dims in shapes.values() for d in dims if isinstance(d, str)))
    rng = np.random.default_rng(0)
    for name, (_, dtype, _) in shapes.items():
        if dtype == _OBJECT:
            what = f"the input {name} is a sequence or a map, which is not made at random"
            raise LoopwrightError(explain(what, instead=f"--feeds FILE.npz with {name}.0, ..."))
    return {
        name: rng.standard_normal(_fixed(shape, sizes)).astype(numpy_dtype(dtype))
        for name, (_, dtype, shape) in shapes.items()
    }


def _fixed(shape: Iterable[int | str], sizes: Mapping[str, int]) -> list[int]:
    return [d if isinstance(d, int) else sizes.get(d, 1) for d in shape]


def _load(
    path: Path, dtypes: Mapping[str, str], initializers: Collection[str], overriding: bool
) -> dict[str, Any]:
    """The inputs that a .npz or .json file has, as `save` writes them; that of a .npy file where
    there is one input."""
    what = f"{path}: inputs come from a .npz file with an array for each, or from JSON"
    hint = f"numpy.savez(FILE, {', '.join(f'{name}=...' for name in dtypes)})"
    try:
        have = _read(path, list(dtypes))
        feeds = {n: _whole(n, dtype, have) for n, dtype in dtypes.items()}
    except (ValueError, EOFError, zipfile.BadZipFile, zlib.error):
        raise LoopwrightError(explain(what, got="another file", instead=hint)) from None
    missing = [name for name, value in feeds.items() if value is None]
    if missing:
        got = f"{', '.join(have) or 'nothing'}, without {', '.join(missing)}"
        raise LoopwrightError(explain(what, got=got, instead=hint))
    more = {name: have[name] for name in initializers if name in have}
    if more and not overriding:
        what = f"{path}: this command takes the model's own initializers"
        hint = "leave them out, or `loopwright run`"
        raise LoopwrightError(explain(what, got=", ".join(more), instead=hint))
    return {**feeds, **more}


def _read(path: Path, names: list[str]) -> dict[str, Any]:
    """The arrays of a file by name. Raises ValueError and others for another kind of file."""
    if path.suffix == ".json":
        content = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(content, dict):
            raise ValueError("not an object")
        return content
    loaded = np.load(path)
    if isinstance(loaded, np.ndarray):
        return {names[0] if len(names) == 1 else "one array": loaded}
    with contextlib.closing(loaded):
        return {name: loaded[name] for name in loaded.files}


def _whole(name: str, dtype: str, have: Mapping[str, Any]) -> Any:
    """One input: an array, or the arrays NAME.0, NAME.1, ... of a sequence; None where it is not
    there."""
    if dtype != _OBJECT:
        value = have.get(name)
        return np.asarray(value, numpy_dtype(dtype)) if isinstance(value, list) else value
    if name in have:
        return have[name]
    return [
        have[f"{name}.{k}"] for k in takewhile(lambda k: f"{name}.{k}" in have, count())
    ] or None


# ---------------------------------------------------------------------- results


def parts(name: str, value: Any) -> Iterator[tuple[str, np.ndarray]]:
    """The arrays of a value under names: NAME, NAME.0 of a sequence, NAME.KEY of a map; nothing for
    an optional without a value."""
    if isinstance(value, (list, tuple)):
        value = dict(enumerate(value))
    if isinstance(value, Mapping):
        for key, part in value.items():
            yield from parts(f"{name}.{key}", part)
    elif value is not None:
        array = np.asarray(value)
        yield name, array.astype(str) if array.dtype == object else array  # texts, without pickle


def save(path: Path, results: Mapping[str, Any]) -> None:
    """Write results: nested lists to a .json file, else the arrays of `parts` as .npz."""
    if path.suffix == ".json":
        text = json.dumps({name: _plain(name, value) for name, value in results.items()})
        path.write_text(text + "\n", encoding="utf-8")
        return
    with zipfile.ZipFile(path, "w") as archive:  # numpy.savez has parameters of its own
        for name, array in (p for n, value in results.items() for p in parts(n, value)):
            with archive.open(f"{name}.npy", "w", force_zip64=True) as file:
                np.lib.format.write_array(file, array, allow_pickle=False)


def _plain(name: str, value: Tensor | Sequence[Tensor]) -> Any:
    if value is None:
        return None
    if isinstance(value, (list, tuple)):
        return [_plain(name, part) for part in value]
    if isinstance(value, Mapping):
        return {str(key): _plain(name, part) for key, part in value.items()}
    array = np.asarray(value)
    if array.dtype.kind == "c":
        what = f"the output {name} is complex, which JSON does not have"
        raise LoopwrightError(explain(what, got=str(array.dtype), instead="-o FILE.npz"))
    return (array.astype(np.float32) if array.dtype.kind == "V" else array).tolist()
