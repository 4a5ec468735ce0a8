"""Parameters bound to compiled graphs: packed once, and again where they were written or replaced.

A graph of inference has its parameters as constants without values (`runtime.weights`). A binding is its
code with the values of the parameters of one model; a call compares the identities of its arguments with
those of the binding, their versions, their memory, and two words of each. The comparison is native code,
which reads the fields of torch's C++ objects at offsets that are searched for here; where they are not
as expected, Python compares.
"""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import torch

from ...codegen.llvm.jit import ObjectStream, load_objects
from ...runtime.ffi import ffi

_MOST = 64  # bindings of one graph: a layer's code is shared by all layers of its class
_DUMMY = np.zeros(1, np.int64)

# The words of a row of a table. A word at an address is compared with the field behind it.
_FIELDS = ["index", "object", "impl", "storage", "data", "offset", "counter", "version_at",
           "version", "at0", "word0", "at1", "word1"]  # fmt: skip
_ROW = len(_FIELDS)

# A function of tvm-ffi: (the list of arguments, the rows, their number) -> bool.
_TEXT = """
define i32 @unchanged(ptr %self, ptr %inputs, i32 %nargs, ptr %ret) nounwind {{
entry:
  %argsp = getelementptr i8, ptr %inputs, i64 8
  %rowsp = getelementptr i8, ptr %inputs, i64 24
  %countp = getelementptr i8, ptr %inputs, i64 40
  %args = load ptr, ptr %argsp
  %rows = load ptr, ptr %rowsp
  %count = load i64, ptr %countp
  %itemsp = getelementptr i8, ptr %args, i64 {items}
  %items = load ptr, ptr %itemsp
  %resultp = getelementptr i8, ptr %ret, i64 8
  store i64 {bool}, ptr %ret
  store i64 0, ptr %resultp
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %last ]
  %more = icmp slt i64 %i, %count
  br i1 %more, label %body, label %yes
body:
  %at = mul i64 %i, {row}
  %row = getelementptr i64, ptr %rows, i64 %at
{body}
last:
  %next = add i64 %i, 1
  br label %loop
yes:
  store i64 1, ptr %resultp
  ret i32 0
no:
  ret i32 0
}}
"""
_BOOL = 2  # kTVMFFIBool


class _Offsets(NamedTuple):
    """Where the fields of torch's objects are, in bytes."""

    impl: int  # in a Python object
    storage: int  # in a TensorImpl
    offset: int
    counter: int
    data: int  # in a StorageImpl
    version: int  # in a VersionCounter
    items: int  # in a list


def _words(address: int, count: int) -> list[int]:
    return list((ctypes.c_int64 * count).from_address(address))


def _find(values: Sequence[bool]) -> int:
    """The offset of the only word for which something holds. Raises ValueError."""
    (index,) = (k for k, holds in enumerate(values) if holds)
    return 8 * index


def _offsets() -> _Offsets:
    """The offsets in this build of torch. Raises ValueError where a field is not found once."""
    base, start = torch.zeros(1 << 16), 12_345
    t, other = base[start : start + 8], torch.zeros(8)
    alias, storage = t.detach(), t.untyped_storage()
    impl, second, third = (_words(x._cdata, 22) for x in (t, alias, other))
    own = storage._cdata
    counter = _find(
        [
            bool(a) and a == b != c and a != own
            for a, b, c in zip(impl[:10], second, third, strict=False)
        ]
    )
    before = _words(impl[counter // 8], 3)
    base.add_(1)
    after = _words(impl[counter // 8], 3)
    args = [t, alias, other]
    listed = [id(x) for x in args]
    words = _words(id(args), 5)
    return _Offsets(
        impl=_find([w == t._cdata for w in _words(id(t), 4)]),
        storage=_find([w == own for w in impl]),
        offset=_find([w == start for w in impl]),
        counter=counter,
        data=8 * _words(own, 4).index(storage.data_ptr()),
        version=_find([b == a + 1 for a, b in zip(before, after, strict=True)]),
        items=_find([k == 3 and _words(w, 3) == listed for k, w in enumerate(words)]),
    )


def _text(at: _Offsets) -> str:
    """The native loop."""
    lines: list[str] = []

    def load(name: str, base: str, offset: int | str, kind: str = "i64") -> str:
        lines.append(f"  %{name}.p = getelementptr i8, ptr {base}, i64 {offset}")
        lines.append(f"  %{name} = load {kind}, ptr %{name}.p")
        return f"%{name}"

    def field(name: str) -> str:
        return load(f"f.{name}", "%row", 8 * _FIELDS.index(name))

    def differs(name: str, value: str, kind: str = "i64") -> str:
        """The bits in which a value differs from the field of a name."""
        expected = field(name)
        if kind == "ptr":
            lines.append(f"  %{name}.i = ptrtoint ptr {value} to i64")
            value = f"%{name}.i"
        elif kind == "i32":
            lines.append(f"  %{name}.i = zext i32 {value} to i64")
            value = f"%{name}.i"
        lines.append(f"  %{name}.bits = xor i64 {value}, {expected}")
        return f"%{name}.bits"

    def check(label: str, *bits: str) -> None:
        """Leave where one of them is set: what comes next follows pointers that are known then."""
        whole = bits[0]
        for k, other in enumerate(bits[1:]):
            lines.append(f"  %{label}.{k} = or i64 {whole}, {other}")
            whole = f"%{label}.{k}"
        lines.append(f"  %{label}.same = icmp eq i64 {whole}, 0")
        lines.append(f"  br i1 %{label}.same, label %{label}.ok, label %no")
        lines.append(f"{label}.ok:")

    def word(name: str, at: str, kind: str) -> str:
        lines.append(f"  %{at}.w = inttoptr i64 {field(at)} to ptr")
        return differs(name, load(f"{name}.v", f"%{at}.w", 0, kind), kind)

    index = field("index")
    lines.append(f"  %in.bytes = shl i64 {index}, 3")
    item = load("item", "%items", "%in.bytes", "ptr")
    check("first", differs("object", item, "ptr"))
    impl = load("impl.v", item, at.impl, "ptr")
    storage = load("storage.v", impl, at.storage, "ptr")
    check(
        "second",
        differs("impl", impl, "ptr"),
        differs("storage", storage, "ptr"),
        differs("data", load("data.v", storage, at.data)),
        differs("offset", load("offset.v", impl, at.offset)),
        differs("counter", load("counter.v", impl, at.counter)),
    )
    samples = (word(f"word{k}", f"at{k}", "i64") for k in (0, 1))
    check("third", word("version", "version_at", "i32"), *samples)
    lines.append("  br label %last")
    return _TEXT.format(items=at.items, row=_ROW, bool=_BOOL, body="\n".join(lines))


Check = Callable[[int, int, int], bool]


@cache
def _native() -> tuple[Check, _Offsets] | None:
    """The native comparison; None where it does not see what it has to."""
    try:
        at = _offsets()
        with ObjectStream(jobs=1) as stream:
            key = stream.add(_text(at), name="unchanged")
            objects = stream.finish()
        library = load_objects([objects[key]], exports=["unchanged"])
        check = ffi().Function.__from_extern_c__(library["unchanged"], keep_alive_object=library)
        check.release_gil = False  # it takes less time than that would
        return (check, at) if _sees_changes(check, at) else None
    except Exception:
        return None


def _sees_changes(check: Check, at: _Offsets) -> bool:
    """Whether each kind of change is seen, and nothing else."""
    t = torch.nn.Parameter(torch.rand(64), requires_grad=False)
    args = [None, t]

    def same() -> bool:
        return check(id(args), table.ctypes.data, 1)

    table = _table([(1, t)], at)
    answers = [same()]
    for change in (
        lambda: t.add_(1),
        lambda: t.data.mul_(2),
        lambda: setattr(t, "data", t.data.clone()),
        lambda: args.__setitem__(1, torch.nn.Parameter(t.data)),
    ):
        change()
        answers.append(same())
        table = _table([(1, args[1])], at)
        answers.append(same())
    return answers == [True, *[False, True] * 4]


def _table(rows: Sequence[tuple[int, torch.Tensor]], at: _Offsets) -> np.ndarray:
    table = np.empty((len(rows), _ROW), np.int64)
    dummy = _DUMMY.ctypes.data
    for k, (index, t) in enumerate(rows):
        storage = t.untyped_storage()
        counter = _words(t._cdata + at.counter, 1)[0]
        size, start = t.numel() * t.element_size() if t.is_contiguous() else 0, t.data_ptr()
        fits = size >= 8
        first, second = (start, start + (size - 8) // 16 * 8) if fits else (dummy, dummy)
        version_at = counter + at.version if counter else dummy
        version = ctypes.c_uint32.from_address(version_at).value
        values = (index, id(t), t._cdata, storage._cdata, storage.data_ptr(), t.storage_offset())
        samples = (first, _words(first, 1)[0], second, _words(second, 1)[0])
        table[k] = (*values, counter, version_at, version, *samples)
    return table


class _State(NamedTuple):
    """What Python compares."""

    tensor: Any  # a weak reference
    version: int
    data: int


def _state(t: torch.Tensor) -> _State:
    return _State(weakref.ref(t), -1 if t.is_inference() else t._version, t.data_ptr())


class Binding:
    """Code with the values of the parameters of one model.

    function: the native code; set_values: computes its constants from the parameters. positions: where these
    are among the arguments of a call.
    """

    def __init__(
        self, function: Any, set_values: Callable[[list[Any]], None], positions: list[int]
    ) -> None:
        self.function, self.set_values, self.positions = function, set_values, positions
        self.count = len(positions)
        self.native = _native()
        self.table = np.zeros((0, _ROW), np.int64)
        self.address = 0
        self.states: list[_State] = []
        self.references: list[Any] = []

    def bind(self, args: Sequence[Any]) -> None:
        """Take the values of the parameters among the arguments."""
        weights = [args[k] for k in self.positions]
        if self.native is None:
            states, table = [_state(w) for w in weights], self.table
        else:
            states = []
            table = _table(list(zip(self.positions, weights, strict=True)), self.native[1])
        # An object may be freed, and another be at its address.
        references = [weakref.ref(w, lambda _: table.fill(0)) for w in weights]
        self.set_values(weights)  # where this fails, the binding does not fit the next call either
        self.table, self.address = table, table.ctypes.data
        self.states, self.references = states, references

    def fits(self, args: list[Any]) -> bool:
        """Whether these are the parameters that it is bound to, not written since."""
        if self.native is not None:
            return self.native[0](id(args), self.address, self.count)
        now = [_state(args[k]) for k in self.positions]
        return now == self.states and all(s.tensor() is not None for s in self.states)

    def is_of(self, args: Sequence[Any]) -> bool:
        """Whether it is bound to these parameters, whatever their values."""
        pairs = zip(self.references, self.positions, strict=True)
        return all(ref() is args[k] for ref, k in pairs)


class Bindings:
    """The bindings of one graph. make: makes one that is not bound yet."""

    def __init__(self, make: Callable[[], Binding]) -> None:
        self.make = make
        self.all: list[Binding] = []  # the last used first

    def of(self, args: list[Any]) -> Binding:
        """The binding of the parameters among the arguments, up to date."""
        bound = next((b for b in self.all if b.fits(args)), None)
        if bound is None:
            dead = [b for b in self.all if any(r() is None for r in b.references)]
            full = self.all[-1:] if len(self.all) >= _MOST else []
            own = [b for b in self.all if b.is_of(args)]
            bound = next(iter([*own, *dead, *full]), None) or self.make()
            bound.bind(args)
        self.all[:] = [bound, *(b for b in self.all if b is not bound)]
        return bound
