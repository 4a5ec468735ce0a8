"""Inputs of a model on the command line: from a file, or random; and the sizes that are symbolic."""

from __future__ import annotations

import contextlib
import zipfile
import zlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np

from ..base.errors import LoopwrightError, UnknownName, explain, suggest
from ..codegen.compiled import CompiledModel
from ..ir.dtype import numpy_dtype


def read_dims(text: str, known: Iterable[str]) -> dict[str, int]:
    """The sizes of a text such as "n=4,height=32", or "4" for all of `known`. Raises LoopwrightError
    for what is no size, and for a name that is not known."""
    names, values = list(dict.fromkeys(known)), {}
    for part in filter(None, text.split(",")):
        name, given, number = (word.strip() for word in part.rpartition("="))
        if not number.isdecimal():
            hint = "--dims n=1,height=32, or one number for all"
            raise LoopwrightError(explain("a size is a whole number", got=part, instead=hint))
        for size in [name] if given else names:
            if size not in names:
                what = "the model has no symbolic size of this name"
                hint = suggest(size, names, "it has:") if names else "all of its sizes are fixed"
                raise UnknownName(explain(what, got=size, instead=hint))
            values[size] = int(number)
    return values


def make_feeds(
    exe: CompiledModel, path: Path | None, dims: str, overriding: bool = False
) -> dict[str, np.ndarray]:
    """The inputs of `main`: those of a file, or random ones, where symbolic sizes are 1 unless
    `dims` gives them. overriding: the file may have initializers that a run may give; else it is
    refused."""
    if path is not None:
        return _load(path, exe.input_names(), exe.overridable_names(), overriding)
    shapes = dict(zip(exe.input_names(), exe.inputs(), strict=True))
    sizes = read_dims(dims, (d for *_, dims in shapes.values() for d in dims if isinstance(d, str)))
    rng = np.random.default_rng(0)
    return {
        name: rng.standard_normal(_fixed(shape, sizes)).astype(numpy_dtype(dtype))
        for name, (_, dtype, shape) in shapes.items()
    }


def _fixed(shape: Iterable[int | str], sizes: Mapping[str, int]) -> list[int]:
    return [d if isinstance(d, int) else sizes.get(d, 1) for d in shape]


def _load(
    path: Path, names: list[str], initializers: Sequence[str], overriding: bool
) -> dict[str, np.ndarray]:
    """The arrays of a .npz file; one of a .npy file where there is one input."""
    what = f"{path}: inputs come from a .npz file with an array for each"
    hint = f"numpy.savez(FILE, {', '.join(f'{name}=...' for name in names)})"
    try:
        loaded = np.load(path)
        if isinstance(loaded, np.ndarray):
            have, arrays = ["one array"], {names[0]: loaded} if len(names) == 1 else {}
        else:
            with contextlib.closing(loaded):
                have = loaded.files
                more = [name for name in initializers if name in have]
                arrays = {name: loaded[name] for name in [*names, *more] if name in have}
    except (ValueError, EOFError, zipfile.BadZipFile, zlib.error):
        raise LoopwrightError(explain(what, got="another file", instead=hint)) from None
    missing = [name for name in names if name not in arrays]
    if missing:
        got = f"{', '.join(have) or 'nothing'}, without {', '.join(missing)}"
        raise LoopwrightError(explain(what, got=got, instead=hint))
    if len(arrays) > len(names) and not overriding:
        what = f"{path}: this command takes the model's own initializers"
        got = ", ".join(name for name in arrays if name not in names)
        raise LoopwrightError(explain(what, got=got, instead="leave them out, or `loopwright run`"))
    return arrays


__all__ = ["make_feeds", "read_dims"]
