"""The serving side of a session: requests are methods of `Serving`, which keeps their objects."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ...base.errors import explain
from ...runtime import ShapeTuple, Tensor, cpu, empty, get_global_func, load_module, tensor
from ...runtime.dtype import elements_per_byte
from ...runtime.module import Timing
from .message import CHUNK, PeerError, pack, unpack


class Serving:
    """Answers the requests of one client, whose files are in a folder.

    A request `{"do": "upload", ...}` calls `do_upload` with the other values of the head; what it
    returns is the answer's head, and a blob if it is a pair. Exceptions are answers, too.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self._objects: dict[int, Any] = {}
        self._next = 0

    def answer(self, data: bytes) -> bytes:
        """The answer to a message."""
        try:
            head, blobs = unpack(data)
            for number in head.pop("drop", ()):
                self._objects.pop(number, None)
            name = head.pop("do", None)
            head.pop("sizes")
            method = getattr(self, f"do_{name}", None) if isinstance(name, str) else None
            if method is None:
                raise PeerError(explain("no such request", got=repr(name)))
            result = method(*blobs, **head)
            answer, *parts = result if isinstance(result, tuple) else (result,)
            return pack(answer or {}, *parts)
        except Exception as error:
            return pack({"error": type(error).__name__, "message": str(error)[:10_000]})

    # -- values ----------------------------------------------------------------------------------

    def _keep(self, value: Any) -> int:
        self._next += 1
        self._objects[self._next] = value
        return self._next

    def _object(self, number: Any, kind: type = object) -> Any:
        value = self._objects.get(number) if isinstance(number, int) else None
        if value is None or not isinstance(value, kind):
            raise PeerError(explain("no such object", got=repr(number)))
        return value

    def _arrived(self, value: Any) -> Any:
        """A value of a call as the called function takes it."""
        if not isinstance(value, dict):
            return value
        if len(value) == 1:
            ((key, item),) = value.items()
            if key in ("tensor", "function", "module"):
                return self._object(item)
            if key == "list":
                return [self._arrived(v) for v in item]
            if key == "shape":
                return ShapeTuple(item)
            if key == "device":
                return cpu(int(item))
        raise PeerError(explain("a value of no known kind", got=repr(value)[:100]))

    def _departing(self, value: object) -> Any:
        """A result as it crosses: tensors and functions stay here, and their numbers cross."""
        if value is None or isinstance(value, (bool, int, float, str)):
            return value
        if isinstance(value, np.generic) and value.ndim == 0:
            return value.item()
        if isinstance(value, np.ndarray):
            value = tensor(value)
        if isinstance(value, Tensor):
            return {
                "tensor": self._keep(value), "shape": list(value.shape), "dtype": value.dtype
            }  # fmt: skip
        if isinstance(value, ShapeTuple):
            return {"shape": list(value)}
        if isinstance(value, (list, tuple)):
            return {"list": [self._departing(v) for v in value]}
        if isinstance(value, Mapping):
            what = "a mapping does not cross between machines"
            raise TypeError(explain(what, instead="return a list"))
        if callable(value):
            return {"function": self._keep(value)}
        what = "this value does not cross between machines"
        hint = "arrays, numbers, texts, lists of them, and functions do"
        raise TypeError(explain(what, got=type(value).__name__, instead=hint))

    # -- functions -------------------------------------------------------------------------------

    def do_function(self, name: str) -> dict[str, Any]:
        """A function of this process's table."""
        return {"function": self._keep(get_global_func(name))}

    def do_module(self, file: str) -> dict[str, Any]:
        """Load an exported library that was uploaded."""
        module = load_module(self._path(file))
        names = module.function_names()
        signatures = getattr(module, "signatures", {})
        inputs = {n: module.input_names(n) for n in names if n in signatures}
        entry = module.entry_name if module.entry_name in names or len(names) != 1 else names[0]
        return {"module": self._keep(module), "names": names, "inputs": inputs, "entry": entry}

    def do_member(self, module: int, name: str) -> dict[str, Any]:
        """A function of a module."""
        return {"function": self._keep(self._object(module)[name])}

    def do_call(self, function: int, args: list[Any]) -> dict[str, Any]:
        """Call a function."""
        result = self._object(function)(*map(self._arrived, args))
        return {"result": self._departing(result)}

    def do_time(
        self, function: int, args: list[Any], timing: dict[str, Any], prepare: int | None
    ) -> dict[str, Any]:
        """Time a function, as `runtime.module.Timing` says; prepare: called before each repeat."""
        call, values = self._object(function), [self._arrived(a) for a in args]
        before = None if prepare is None else self._object(prepare)
        first = None if before is None else lambda: before(*values)
        return {"results": Timing(**timing).of(lambda: call(*values), first).results}

    # -- tensors ---------------------------------------------------------------------------------

    def do_empty(self, shape: list[int], dtype: str) -> dict[str, Any]:
        """A tensor whose values are not set."""
        if any(not isinstance(n, int) or n < 0 for n in shape):
            raise ValueError(explain("a shape has whole numbers", got=shape))
        if elements_per_byte(dtype) > 1:
            what = "tensors of parts of bytes do not cross between machines"
            raise ValueError(explain(what, got=dtype, instead="int8"))
        return {"tensor": self._keep(empty(shape, dtype))}

    def _bytes(self, number: int) -> np.ndarray:
        array = self._object(number, Tensor).view()
        return np.ascontiguousarray(array).reshape(-1).view(np.uint8)

    def do_write(self, blob: memoryview, tensor: int, at: int) -> None:
        """Set bytes of a tensor from a position on."""
        raw = self._bytes(tensor)
        if not 0 <= at <= at + len(blob) <= len(raw):
            raise ValueError(explain("the bytes do not fit the tensor", got=f"{at}+{len(blob)}"))
        raw[at : at + len(blob)] = np.frombuffer(blob, np.uint8)

    def do_read(self, tensor: int, at: int) -> tuple[dict[str, Any], bytes]:
        """Bytes of a tensor from a position on, up to the size of a message."""
        return {}, self._bytes(tensor)[at : at + CHUNK].tobytes()

    # -- files -----------------------------------------------------------------------------------

    def _path(self, name: str) -> Path:
        """A file of the session's folder. Raises ValueError for a name that leads elsewhere."""
        if Path(name).name != name or name == "..":
            what, hint = "a file of a session has a plain name", "give it without folders"
            raise ValueError(explain(what, got=repr(name), instead=hint))
        return self.folder / name

    def do_upload(self, blob: memoryview, name: str, at: int) -> None:
        """Write part of a file, of which `at` bytes are there."""
        path = self._path(name)
        with path.open("r+b" if at else "wb") as file:
            file.seek(at)
            file.write(blob)

    def do_download(self, name: str, at: int) -> tuple[dict[str, Any], bytes]:
        """Part of a file."""
        with self._path(name).open("rb") as file:
            file.seek(at)
            return {}, file.read(CHUNK)

    def do_remove(self, name: str) -> None:
        """Remove a file, if it is there."""
        self._path(name).unlink(missing_ok=True)

    def do_listdir(self) -> dict[str, Any]:
        """The names of the files."""
        return {"names": sorted(p.name for p in self.folder.iterdir())}
