"""Proxies of objects on another machine: its device, tensors, functions and modules."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterable, Mapping
from math import prod
from typing import Any

import numpy as np

from ...base.errors import LoopwrightError, explain
from ...runtime import BenchmarkResult, Device, ShapeTuple, Tensor
from ...runtime.dtype import numpy_dtype
from ...runtime.module import Timed
from ...runtime.tensor import as_array
from .message import CHUNK, PeerError, pack, unpack


class RemoteError(LoopwrightError):
    """A function on the other machine raised an exception; kind: the exception's name there."""

    def __init__(self, text: str, kind: str) -> None:
        super().__init__(text)
        self.kind = kind


class Link:
    """Requests to a session's serving side, one at a time; `exchange` sends bytes and returns the
    answer's."""

    def __init__(self, exchange: Callable[[bytes], Any], peer: str) -> None:
        self._exchange, self.peer = exchange, peer
        self._lock = threading.Lock()
        self._dropped: list[int] = []

    def request(self, do: str, *blobs: bytes, **values: Any) -> tuple[dict[str, Any], list[Any]]:
        """(head, blobs) of the answer. Raises RemoteError for an exception of the other side,
        PeerError where it is gone."""
        with self._lock:
            drop, self._dropped = self._dropped, []
            data = self._exchange(pack({"do": do, "drop": drop, **values}, *blobs))
        head, parts = unpack(data)
        if "error" in head:
            kind, message = str(head["error"]), str(head.get("message"))
            raise RemoteError(f"{kind} on {self.peer}: {message}", kind)
        return head, parts

    def own(self, owner: object, number: int) -> None:
        """Release an object there when `owner` is collected here; the next request reports it."""
        weakref.finalize(owner, self._dropped_later, number)

    def _dropped_later(self, number: int) -> None:
        self._dropped.append(number)

    # -- values ----------------------------------------------------------------------------------

    def departing(self, value: object) -> Any:
        """An argument as it crosses. Raises TypeError for what does not."""
        if value is None or isinstance(value, (bool, int, float, str)):
            return value
        if isinstance(value, np.generic) and value.ndim == 0:
            return value.item()
        if isinstance(value, (RemoteTensor, RemoteFunction, RemoteModule)):
            if value.link is not self:
                raise ValueError(explain("this belongs to another session", got=repr(value)))
            return {value.kind: value.number}
        if isinstance(value, ShapeTuple):
            return {"shape": list(value)}
        if isinstance(value, (list, tuple)):
            return {"list": [self.departing(v) for v in value]}
        if isinstance(value, Device):
            return {"device": value.index}
        what = "this argument does not cross between machines"
        hint = "numbers, texts, and tensors made with tensor(array, remote.cpu())"
        raise TypeError(explain(what, got=type(value).__name__, instead=hint))

    def arrived(self, value: str | float | Mapping[str, Any] | None) -> Any:
        """A result: tensors and functions are proxies of those of the other side."""
        if not isinstance(value, dict):
            return value
        if "tensor" in value:
            shape, dtype = tuple(map(int, value["shape"])), str(value["dtype"])
            return RemoteTensor(self, int(value["tensor"]), shape, dtype)
        if "function" in value:
            return RemoteFunction(self, int(value["function"]), "")
        if "shape" in value:
            return ShapeTuple(value["shape"])
        if "list" in value:
            return [self.arrived(v) for v in value["list"]]
        raise PeerError(
            explain(f"{self.peer} sent a value of no known kind", got=repr(value)[:100])
        )


class RemoteDevice(Device):
    """A device of the other machine: tensors made on it are there."""

    __slots__ = ("link",)

    def __init__(self, link: Link, device_type: int | str, device_id: int = 0) -> None:
        super().__init__(device_type, device_id)
        self.link = link

    @property
    def exist(self) -> bool:
        """Whether code can run there."""
        return self.type_code == Device.CPU

    def empty(self, shape: Iterable[int], dtype: str) -> Tensor:
        """A tensor there whose values are not set."""
        if not self.exist:
            what = "only the CPU of the other machine runs code"
            raise ValueError(explain(what, got=str(self), instead="remote.cpu()"))
        dims = tuple(int(n) for n in shape)
        head, _ = self.link.request("empty", shape=dims, dtype=dtype)
        return RemoteTensor(self.link, head["tensor"], dims, dtype)

    def put(self, array: np.ndarray, dtype: str) -> Tensor:
        """A tensor there with these values."""
        return self.empty(array.shape, dtype).copyfrom(array)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RemoteDevice) and self.link is other.link and super().__eq__(other)

    __hash__ = Device.__hash__

    def __str__(self) -> str:
        return f"remote {super().__str__()} of {self.link.peer}"

    __repr__ = __str__


class RemoteTensor(Tensor):
    """A tensor in the other machine's memory: `numpy()` fetches a copy, `copyfrom` sends values."""

    __slots__ = ("_dtype", "_shape", "link", "number")
    kind = "tensor"

    def __init__(self, link: Link, number: int, shape: tuple[int, ...], dtype: str) -> None:
        self._array, self._ffi = None, None
        self.link, self.number, self._shape, self._dtype = link, number, shape, dtype
        link.own(self, number)

    @property
    def shape(self) -> tuple[int, ...]:
        return self._shape

    @property
    def dtype(self) -> str:
        return self._dtype

    @property
    def strides(self) -> tuple[int, ...]:
        """Strides in elements, of the copy that `numpy` returns."""
        return tuple(prod(self._shape[k + 1 :]) for k in range(len(self._shape)))

    @property
    def device(self) -> Device:
        return RemoteDevice(self.link, "cpu")

    def numpy(self) -> np.ndarray:
        """A copy of the values."""
        array = np.empty(self._shape, numpy_dtype(self._dtype))
        raw, at = array.reshape(-1).view(np.uint8), 0
        while at < len(raw):
            _, (part,) = self.link.request("read", tensor=self.number, at=at)
            if not 0 < len(part) <= len(raw) - at:
                raise PeerError(explain(f"{self.link.peer} sent another array", got=len(part)))
            raw[at : at + len(part)] = np.frombuffer(part, np.uint8)
            at += len(part)
        return array

    def copyfrom(self, source: RemoteTensor | np.ndarray[Any, Any]) -> Tensor:
        """Send the values of an array of the same shape, cast to this dtype; returns self."""
        array = source.numpy() if isinstance(source, RemoteTensor) else as_array(source)
        if array.shape != self._shape:
            what = "copyfrom takes an array of the tensor's shape"
            raise ValueError(explain(what, got=f"{array.shape}, not {self._shape}"))
        array = np.ascontiguousarray(array.astype(numpy_dtype(self._dtype), copy=False))
        values = array.reshape(-1).view(np.uint8)
        for at in range(0, len(values), CHUNK):
            part = values[at : at + CHUNK].tobytes()
            self.link.request("write", part, tensor=self.number, at=at)
        return self

    def copyto(self, target: Tensor | Device) -> Tensor:
        """Copy the values into a tensor, or into a new one on a device; returns the target."""
        if isinstance(target, RemoteDevice):
            return target.put(self.numpy(), self._dtype)
        return Tensor(self.numpy()) if isinstance(target, Device) else target.copyfrom(self.numpy())

    def view(self) -> np.ndarray:
        """Raises ValueError: the memory is not here."""
        what = "this tensor is in the memory of another machine"
        raise ValueError(explain(what, got=self.link.peer, instead="tensor.numpy() fetches a copy"))

    def __tvm_ffi_object__(self) -> Any:
        return self.view()

    def item(self) -> Any:
        """The value of a tensor with one element, as a Python scalar."""
        return self.numpy().item()

    def __getitem__(self, index: slice | int | tuple[int, ...]) -> Any:
        """A copy of a part, or a numpy scalar for a single element."""
        value = self.numpy()[index]
        return Tensor(value) if isinstance(value, np.ndarray) else value

    def __float__(self) -> float:
        return float(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __bool__(self) -> bool:
        return bool(self.numpy())

    def __array__(self, dtype: np.dtype[Any] | None = None, copy: bool | None = None) -> np.ndarray:
        return np.asarray(self.numpy(), dtype=dtype)

    def __repr__(self) -> str:
        return f"<Tensor{list(self._shape)}, {self.device}, {self._dtype}>"

    def __reduce__(self) -> Any:
        return Tensor, (self.numpy(),)


class RemoteFunction:
    """A function of the other machine."""

    kind = "function"

    def __init__(self, link: Link, number: int, name: str) -> None:
        self.link, self.number, self.__name__ = link, number, name
        link.own(self, number)

    def __call__(self, *args: Any) -> Any:
        """Call it there. Tensors of results stay there. Raises RemoteError, PeerError."""
        values = [self.link.departing(a) for a in args]
        head, _ = self.link.request("call", function=self.number, args=values)
        return self.link.arrived(head.get("result"))

    def timed(
        self, args: Iterable[Any], timing: dict[str, Any], prepare: RemoteFunction | None
    ) -> BenchmarkResult:
        """How long it takes there; see `runtime.module.Timing`."""
        values = [self.link.departing(a) for a in args]
        first = None if prepare is None else prepare.number
        head, _ = self.link.request(
            "time", function=self.number, args=values, timing=timing, prepare=first
        )
        return BenchmarkResult([float(x) for x in head["results"]])

    def __repr__(self) -> str:
        return f"<function {self.__name__ or self.number} of {self.link.peer}>"


class RemoteModule(Timed):
    """An exported library that the other machine has loaded."""

    kind = "module"

    def __init__(self, link: Link, head: dict[str, Any]) -> None:
        self.link, self.number = link, int(head["module"])
        self._names, self._inputs = list(head["names"]), dict(head["inputs"])
        self.entry_name = str(head["entry"])
        self._functions: dict[str, RemoteFunction] = {}
        link.own(self, self.number)

    def function_names(self) -> list[str]:
        """The names of its functions."""
        return list(self._names)

    def input_names(self, name: str = "main") -> list[str]:
        """The names of a function's inputs, where the library reports them."""
        return list(self._inputs.get(name, ()))

    def get_function(self, name: str, query_imports: bool = False) -> RemoteFunction:
        """A function by name. Raises AttributeError, naming those there are."""
        if name not in self._names:
            have = ", ".join(self._names) or "none"
            raise AttributeError(f"module has no function {name!r}; it has: {have}")
        if name not in self._functions:
            head, _ = self.link.request("member", module=self.number, name=name)
            self._functions[name] = RemoteFunction(self.link, head["function"], name)
        return self._functions[name]

    def __getitem__(self, name: str) -> RemoteFunction:
        return self.get_function(name)

    def __contains__(self, name: str) -> bool:
        return name in self._names

    @property
    def entry_func(self) -> RemoteFunction:
        """`main`, or the only function."""
        return self.get_function(self.entry_name)

    def __call__(self, *args: RemoteTensor | int) -> Any:
        return self.entry_func(*args)

    def time_evaluator(
        self, func_name: str, dev: Device | str | None = None, number: int = 10, repeat: int = 1,
        min_repeat_ms: float = 0, limit_zero_time_iterations: int = 100,
        cooldown_interval_ms: float = 0, repeats_to_cooldown: int = 1, cache_flush_bytes: int = 0,
        f_preproc: str | Callable[..., Any] = "",
    ) -> Callable[..., BenchmarkResult]:  # fmt: skip
        """A function that times `func_name` on the other machine; see `runtime.module.Timing`.

        f_preproc: the name of one of its functions, called with the arguments before each repeat.
        """
        timing = {
            "number": number,
            "repeat": repeat,
            "min_repeat_ms": min_repeat_ms,
            "cooldown_interval_ms": cooldown_interval_ms,
            "repeats_to_cooldown": repeats_to_cooldown,
            "cache_flush_bytes": cache_flush_bytes,
        }
        function = self[func_name]
        prepare = self[f_preproc] if isinstance(f_preproc, str) and f_preproc else f_preproc or None
        if prepare is not None and not isinstance(prepare, RemoteFunction):
            what = "what runs before each repeat is a function of the other machine"
            raise TypeError(explain(what, got=type(prepare).__name__))
        return lambda *args: function.timed(args, timing, prepare)

    def __repr__(self) -> str:
        return f"<module of {self.link.peer}: {', '.join(self._names)}>"
