"""`Predictor`: a model as a function of batches, as engines call one.

ray.data:  dataset.map_batches(Predictor, fn_constructor_args=("model.so",), concurrency=2)
dask:      array.map_blocks(Predictor("model.so"), dtype="float32")
spark:     predict_batch_udf(lambda: Predictor("model.so"), ...)
"""

from __future__ import annotations

import hashlib
import os
import pickle
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from ..base.errors import LoopwrightError, explain
from ..base.late import Slot
from ..runtime.dtype import numpy_dtype
from ..runtime.library import load_module
from ..runtime.signature import Argument

_MODELS = (".onnx", ".tflite")  # suffixes of files to compile; others are libraries
_LOADED: dict[tuple[str, int | None], Any] = {}  # by content and threads, for the whole process
_LOCK = threading.Lock()
COMPILE: Slot[Callable[..., Any]] = Slot(
    "serve.compile"
)  # a worker with a library runs without LLVM


class Predictor:
    """A model, loaded once in a process, as a function of batches.

    model: the path of a library or of a model that `compile` takes, or what `compile` or `load_module`
        returned. A path stays a path in a pickle.
    threads: the size of its thread pool, one by default, since engines start a worker for each core; of a
        loaded library it is the library's.
    outputs: the names of the results, all by default; others are columns of the batch, passed on.
    function: the function of the model.

    A batch is a dict of arrays, a pandas DataFrame, an Arrow table, or the arrays one after another; the
    result is of the same kind. Of tables, columns are inputs by name; the columns of a table with another
    names are the second axis of the only input, in their order. Arrays that are contiguous and of
    the input's dtype are read where they are; others of the same kind are converted. A model that was
    compiled for one number of rows takes any: the rest of the last part is filled up with copies of the last row.

    Raises ValueError for missing columns, other dtypes and shapes, and LoopwrightError for a model whose
    calls write buffers.

    >>> from loopwright.serve import Predictor
    >>> Predictor("model.onnx")({"image": np.zeros((3, 1, 16, 16), "float32")})["probability"].shape
    (3, 10)
    """

    def __init__(
        self, model: Any, threads: int | None = 1, outputs: Sequence[str] | None = None, *,
        function: str = "",
    ) -> None:  # fmt: skip
        self._path = str(model) if isinstance(model, (str, os.PathLike)) else None
        self._pickle: tuple[str, bytes, list[np.ndarray]] | None = None
        self._threads, self._key = threads, ""
        if self._path is None:
            self._bind(_with_threads(model, threads), outputs, function)
        else:
            self._key, load = _of_file(Path(self._path))
            self._bind(self._loaded(load), outputs, function)

    def _loaded(self, load: Callable[[int | None], Any]) -> Any:
        """The model of this key that the process has, or else the one that `load` returns."""
        with _LOCK:
            key = self._key, self._threads
            return _LOADED[key] if key in _LOADED else _LOADED.setdefault(key, load(key[1]))

    def _bind(self, model: Any, outputs: Sequence[str] | None, function: str) -> None:
        if getattr(getattr(model, "border", None), "state", None) is not None:
            what = (
                "the calls of this model write its buffers, so that results depend on their order"
            )
            raise LoopwrightError(explain(what, instead="a model without buffers that are written"))
        self.model, names = model, model.function_names()
        self.function = function or ("main" if "main" in names or len(names) != 1 else names[0])
        self.inputs = [Argument(*i) for i in model.inputs(self.function)]
        self.results = [Argument(*o) for o in model.outputs(self.function)]
        self.outputs = [r.name for r in self.results] if outputs is None else list(outputs)
        rows = {a.dims[0] if a.dims else "" for a in (*self.inputs, *self.results)}
        self.rows = rows.pop() if len(rows) == 1 else ""  # their number, or its symbol

    def unload(self) -> None:
        """Forget the model, which the process has for others to come until then."""
        _LOADED.pop((self._key, self._threads), None)

    # -- calls ---------------------------------------------------------------------------------

    def __call__(self, *batch: Any) -> Any:
        """The results of a batch."""
        first = batch[0] if batch else {}
        if len(batch) == 1 and isinstance(first, Mapping):
            return self._selected(first)
        kind = type(first).__module__.partition(".")[0]
        if kind == "pandas" and hasattr(first, "columns"):
            columns = {str(name): first[name].to_numpy() for name in first.columns}
            table = self._selected(self._joined(columns))
            return type(first)({n: _column(v) for n, v in table.items()}, index=first.index)
        if kind == "pyarrow" and hasattr(first, "column_names"):
            columns = {name: _of_arrow(first.column(name)) for name in first.column_names}
            table = self._selected(self._joined(columns))
            return type(first).from_pydict({n: _column(v) for n, v in table.items()})
        if len(batch) != len(self.inputs):
            got = f"{len(batch)} arrays"
            raise ValueError(explain(f"the model has {len(self.inputs)} inputs", got=got))
        table = self._selected(dict(zip((a.name for a in self.inputs), batch, strict=True)))
        return table if len(table) > 1 else next(iter(table.values()))

    def run(self, columns: Mapping[str, Any]) -> dict[str, np.ndarray]:
        """All results by name, for inputs by name; other columns are not looked at."""
        missing = [a.name for a in self.inputs if a.name not in columns]
        if missing:
            what = f"the model's inputs are {', '.join(map(str, self.inputs))}"
            raise ValueError(explain(what, got=f"no {', '.join(missing)} in {', '.join(columns)}"))
        feeds = {a.name: _array(a, columns[a.name]) for a in self.inputs}
        if isinstance(self.rows, int) and feeds:
            return self._in_parts(self.rows, feeds)
        return self._run(feeds)

    def _run(self, feeds: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        results = self.model.run(dict(feeds), function=self.function)
        return {name: np.asarray(value) for name, value in results.items()}

    def _in_parts(self, rows: int, feeds: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """The results of a model of a fixed number of rows for another one."""
        counts = {len(a) if a.ndim else 0 for a in feeds.values()}
        count = counts.pop()
        if count == rows or counts:  # others of different lengths are refused
            return self._run(feeds)
        parts = []
        for start in range(0, max(count, 1), rows):
            part = {n: _filled(a[start : start + rows], rows) for n, a in feeds.items()}
            parts.append(self._run(part))
        return {n: np.concatenate([p[n] for p in parts])[:count] for n in parts[0]}

    def _selected(self, columns: Mapping[str, Any]) -> dict[str, Any]:
        results = self.run(columns)
        unknown = [n for n in self.outputs if n not in results and n not in columns]
        if unknown:
            what = f"the model's outputs are {', '.join(results)}"
            raise ValueError(
                explain(what, got=f"{', '.join(unknown)}, which the batch does not have, either")
            )
        return {n: results[n] if n in results else columns[n] for n in self.outputs}

    def _joined(self, columns: dict[str, Any]) -> dict[str, Any]:
        """The columns of a table, and where none is the only input, this one with all of them."""
        if len(self.inputs) == 1 and self.inputs[0].name not in columns:
            data = [v for n, v in columns.items() if n not in self.outputs]
            columns = {**columns, self.inputs[0].name: np.stack(data, axis=1)} if data else columns
        return columns

    # -- pickles -------------------------------------------------------------------------------

    def __reduce__(self) -> Any:
        options = (self._threads, self.outputs, self.function)
        if self._path is not None:
            return _of_path, (self._path, *options)
        if self._pickle is None:
            self._pickle = self._key, *_ = _pickled(self.model)
            self._loaded(lambda _: self.model)
        return _arrived, (*self._pickle, *options)

    def __repr__(self) -> str:
        return f"Predictor({self.model!r})"


def _of_path(path: str, threads: int | None, outputs: Sequence[str], function: str) -> Predictor:
    return Predictor(path, threads, outputs, function=function)


def _arrived(
    key: str, data: bytes, arrays: list[np.ndarray], threads: int | None,
    outputs: Sequence[str], function: str,
) -> Predictor:  # fmt: skip
    """The predictor of a pickle. Where the process has the model already, this one is not loaded."""
    predictor = object.__new__(Predictor)
    predictor._path, predictor._threads, predictor._key = None, threads, key
    predictor._pickle = key, data, arrays
    model = predictor._loaded(lambda _: pickle.loads(data, buffers=arrays))
    predictor._bind(model, outputs, function)
    return predictor


def _of_file(path: Path) -> tuple[str, Callable[[int | None], Any]]:
    """The key of a file's content, and a function that loads it."""
    if not path.is_file():
        raise FileNotFoundError(f"no such model: {path}")
    state = path.stat()
    key = _digest_of_file(path.absolute(), state.st_mtime_ns, state.st_size)
    load = COMPILE.get() if path.suffix in _MODELS else load_module
    return key, lambda threads: load(path, threads=threads)


@lru_cache
def _digest_of_file(path: Path, changed: int, size: int) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "blake2b").hexdigest()


def _with_threads(model: Any, threads: int | None) -> Any:
    """A model, loaded once more where it has another number of threads. Raises TypeError for another value."""
    if not (hasattr(model, "run") and hasattr(model, "inputs")):
        what = "a predictor is made of a path or a compiled model"
        raise TypeError(explain(what, got=type(model).__name__, instead="loopwright.compile"))
    own = getattr(getattr(model, "program", None), "threads", threads)
    if threads not in (None, own):
        rebuild, args = model.__reduce__()
        return rebuild(*args, threads=threads)
    return model


def _pickled(model: Any) -> tuple[str, bytes, list[np.ndarray]]:
    """The key of a model's content, its pickle, and the arrays that this has out of band."""
    buffers: list[pickle.PickleBuffer] = []
    data = pickle.dumps(model, protocol=5, buffer_callback=buffers.append)
    arrays = [np.frombuffer(b.raw(), np.uint8) for b in buffers]
    digest = hashlib.blake2b(data)
    for array in arrays:
        digest.update(array.data)
    return digest.hexdigest(), data, arrays


# ---------------------------------------------------------------------- columns


def _array(argument: Argument, value: Any) -> np.ndarray:
    """A column as the array of an input. Raises ValueError."""
    array, kind = np.asarray(value), numpy_dtype(argument.dtype)
    if array.dtype == object and array.size:  # a column of lists, as tables have them
        array = np.stack([np.asarray(row) for row in array])
    if array.dtype != kind and not np.can_cast(array.dtype, kind, "same_kind"):
        what = f"input `{argument.name}` takes {argument.dtype}"
        raise ValueError(explain(what, got=f"values of {array.dtype}", instead=str(argument)))
    dims: tuple[Any, ...] = argument.dims or ()
    if array.ndim == len(dims) - 1 and dims[-1] == 1:
        array = array[..., None]
    return np.ascontiguousarray(array, kind).reshape(array.shape)


def _filled(array: np.ndarray, rows: int) -> np.ndarray:
    """An array of this number of rows: copies of the last one, or zeros, follow."""
    if len(array) == rows:
        return array
    if not len(array):
        return np.zeros((rows, *array.shape[1:]), array.dtype)
    return np.concatenate([array, np.repeat(array[-1:], rows - len(array), axis=0)])


def _column(value: Any) -> Any:
    """An array as a column of a table: of several dimensions, a list for each row."""
    return list(value) if getattr(value, "ndim", 1) > 1 else value


def _of_arrow(column: Any) -> np.ndarray:
    """A column of Arrow as an array, without a copy where it has one part and no nulls."""
    parts = getattr(column, "chunks", [column])
    arrays = [_of_arrow_part(part) for part in parts]
    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays) if arrays else np.empty(0)


def _of_arrow_part(part: Any) -> np.ndarray:
    width = getattr(part.type, "list_size", None)
    if width is not None:
        return _of_arrow_part(part.flatten()).reshape(-1, width)
    return part.to_numpy(zero_copy_only=False)
