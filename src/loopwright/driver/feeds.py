"""Inputs and outputs of a model on the command line: inputs from a file, or random ones; files of
results."""

from __future__ import annotations

import contextlib
import io
import json
import sys
import time
import zipfile
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count, takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from ..base.errors import LoopwrightError, explain, suggest
from ..codegen.compiled import CompiledModel
from ..ir.dtype import numpy_dtype
from .sizes import BATCH, Described, Size, find_input, fixed, open_sizes, resolved

if TYPE_CHECKING:
    from ..runtime.tensor import Tensor

_OBJECT = "object"  # the dtype that sequences and maps are described by
PIPE = Path("-")
# Sizes that models take where they refuse others: of images, of windows of sound, of lengths.
_SIZES = (32, 48, 64, 96, 112, 128, 160, 192, 256, 320, 384, 512, 640, 1024)
_SEARCH_SECONDS = 5.0
Range = tuple[float, float]
Feed = np.ndarray | list[np.ndarray]  # an input: a tensor, or a sequence of them
Arrays = dict[str, Feed]
Dims = Annotated[
    str,
    typer.Option("--dims", "--size", help="Symbolic sizes: n=1,height=32, or one number for all."),
]


@dataclass(frozen=True)
class Inputs:
    """The options of a command that runs a model: its inputs."""

    feeds: Annotated[
        Path | None,
        typer.Option("--feeds", help="Arrays by input name (.npz, .json, - for a pipe)."),
    ] = None
    shape: Annotated[
        list[str] | None, typer.Option("--shape", help="An input's: image=1,3,224,224; several.")
    ] = None
    dims: Dims = ""
    fill: Annotated[
        list[str] | None,
        typer.Option("--fill", help="An input's value, mask=1, or range, ids=0:30000; several."),
    ] = None
    seed: Annotated[int, typer.Option("--seed", min=0, help="Of random inputs.")] = 0

    def of(
        self, exe: CompiledModel, model: object = None, overriding: bool = False, batch: int = 0
    ) -> Feeds:
        """The inputs of `main`: those of a file, or random ones of the sizes that `sizes.resolved`
        finds. model: the file, for its metadata. overriding: the feeds may have initializers that a
        run may override. batch: the size of each axis of batches. Raises LoopwrightError for a file
        without them, and for a sequence or a map without a file."""
        ports = [(n, *port[1:]) for n, port in zip(exe.input_names(), exe.inputs(), strict=True)]
        if self.feeds is not None:
            dtypes = {name: dtype for name, dtype, _ in ports}
            arrays = _load(self.feeds, dtypes, exe.overridable_names(), overriding)
            sources = dict.fromkeys(arrays, f"from {self.feeds}")
            return Feeds(arrays, {}, ports, sources, lambda _: arrays)
        path = model if isinstance(model, (str, Path)) else None
        sizes = resolved(ports, self.shape or (), self.dims, path)
        if batch:
            axes = [name for name, kind in open_sizes(ports).items() if kind == BATCH]
            if not axes:
                what = "the model has no symbolic size of batches"
                hint = suggest("", sizes, "it has:") if sizes else "all of its sizes are fixed"
                raise LoopwrightError(explain(what, got=f"--batch {batch}", instead=hint))
            sizes |= dict.fromkeys(axes, Size(batch, "--batch"))
        fills = dict(_filled(text, [name for name, *_ in ports]) for text in self.fill or ())
        return self._random(ports, sizes, fills)

    def _random(
        self, ports: Sequence[Described], sizes: Mapping[str, Size], fills: Mapping[str, Range]
    ) -> Feeds:
        """Inputs of these sizes, at random: in the ranges that `--fill` says, else by their dtypes."""
        values = {name: size.value for name, size in sizes.items()}
        rng = np.random.default_rng(self.seed)
        arrays, sources = dict[str, Feed](), dict[str, str]()
        for name, dtype, shape in ports:
            if dtype == _OBJECT:
                what = f"the input {name} is a sequence or a map, which is not made at random"
                raise LoopwrightError(explain(what, instead=f"--feeds FILE.npz with {name}.0, ..."))
            random, kind = rng.standard_normal(fixed(shape, values)), "random"
            if name in fills:
                low, high = fills[name]
                random = rng.uniform(low, high, random.shape)
            elif dtype in ("int8", "uint8"):
                random = random * 64 + 128 * (dtype == "uint8")
            elif dtype.startswith(("int", "uint", "bool")):  # indices and masks
                random, kind = random > 0, "0 or 1 at random"
            with np.errstate(invalid="ignore"):
                arrays[name] = np.asarray(random, numpy_dtype(dtype))
            kind = "--fill" if name in fills else kind
            drawn = name not in fills or len({*fills[name]}) > 1
            sources[name] = f"{kind}, seed {self.seed}" if drawn else kind

        def others(changed: Mapping[str, Size]) -> Arrays:
            return self._random(ports, {**sizes, **changed}, fills).arrays

        return Feeds(arrays, dict(sizes), ports, sources, others)


@dataclass(frozen=True)
class Feeds:
    """Inputs by name, the sizes that were open, and the source of the values."""

    arrays: Arrays
    sizes: dict[str, Size]
    ports: Sequence[Described]
    sources: Mapping[str, str]
    others: Callable[[Mapping[str, Size]], Arrays]  # of other sizes

    @property
    def batch(self) -> int:
        """The open size of the batch; 0 where no axis has one, or inputs have different ones."""
        kinds = open_sizes(self.ports)
        batches = {size.value for name, size in self.sizes.items() if kinds[name] == BATCH}
        return batches.pop() if len(batches) == 1 else 0

    def lines(self) -> Iterator[str]:
        """A line for each input, and one of the sizes that were open."""
        for name, array in self.arrays.items():
            shown = f"{array.dtype}{list(array.shape)}" if hasattr(array, "dtype") else "a sequence"
            value = f" = {array.item()}" if getattr(array, "size", 0) == 1 else ""
            yield f"{name} {shown}{value}, {self.sources[name]}"
        if self.sizes:
            yield f"open sizes: {', '.join(f'{n}={size}' for n, size in self.sizes.items())}"

    @contextlib.contextmanager
    def explained(self, run: Callable[[Arrays], object]) -> Iterator[None]:
        """Within it, an error of a run says which sizes were open, and ones that the model takes: those
        of a few calls of `run`."""
        try:
            yield
        except (LoopwrightError, ValueError) as error:
            good = self._taken(run)
            if not good and not any(size.is_default for size in self.sizes.values()):
                raise
            values = {n: size.value for n, size in self.sizes.items()}
            values |= {n: sizes[0] for n, sizes in good.items()}
            name, shape = next((n, s) for n, _, s in self.ports if {*s} & {*(good or values)})
            hint = f"--shape {name}={','.join(map(str, fixed(shape, values)))}"
            those = "; ".join(f"{n}={' or '.join(map(str, sizes))}" for n, sizes in good.items())
            hint += f", as it takes {those}" if good else " with the sizes that it takes"
            got = ", ".join(f"{n}={size}" for n, size in self.sizes.items())
            what = "these sizes" if good else "this, where not all sizes were given"
            text = explain(f"the model refuses {what}\n{error}", got=got, instead=hint)
            raise LoopwrightError(text) from error

    def _taken(self, run: Callable[[Arrays], object]) -> dict[str, list[int]]:
        """Other values of one open size that the model takes, those that were not given first. Any batch
        is as good as another."""
        end, kinds = time.monotonic() + _SEARCH_SECONDS, open_sizes(self.ports)
        names = [name for name in self.sizes if kinds[name] != BATCH]
        for name in sorted(names, key=lambda n: not self.sizes[n].is_default):
            good = []
            for value in _SIZES:
                if time.monotonic() > end:
                    break
                with contextlib.suppress(LoopwrightError, ValueError):
                    run(self.others({name: Size(value, "tried")}))
                    good.append(value)
            if good:
                return {name: good}
        return {}


def _filled(text: str, names: Iterable[str]) -> tuple[str, Range]:
    """The input and the range of a text such as mask=1 or ids=0:30000, whose end is not in it."""
    name, _, numbers = text.rpartition("=")
    low, _, high = numbers.partition(":")
    try:
        return find_input(name, names), (float(low), float(high or low))
    except ValueError:
        what, hint = (
            "an input is filled with a number, or from a range",
            "--fill mask=1 or ids=0:30000",
        )
        raise LoopwrightError(explain(what, got=text, instead=hint)) from None


def _load(
    path: Path, dtypes: Mapping[str, str], initializers: Collection[str], overriding: bool
) -> Arrays:
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
    data = sys.stdin.buffer.read() if path == PIPE else b""
    if path.suffix == ".json" or data[:1] == b"{":
        content = json.loads(data or path.read_text(encoding="utf-8"))
        if not isinstance(content, dict):
            raise ValueError("not an object")
        return content
    loaded = np.load(io.BytesIO(data) if path == PIPE else path)
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
    """Write results: nested lists to a .json file, else the arrays of `parts` as .npz, to a pipe too."""
    if path.suffix == ".json":
        text = json.dumps({name: _plain(name, value) for name, value in results.items()})
        path.write_text(text + "\n", encoding="utf-8")
        return
    file: Any = sys.stdout.buffer if path == PIPE else path
    with zipfile.ZipFile(file, "w") as archive:  # numpy.savez has parameters of its own
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
