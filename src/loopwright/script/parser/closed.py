"""The rules for an untrusted program: the closed set of names, attributes and calls that it may use.

`from_source(text)` reads a text under these `Rules`. The names that it may use are I, T and R, the
builtins below, the caller's `extra_vars`, and those that the text itself defines; from there,
the public names of I, T and R and the attributes in `READABLE`. So a text holds numbers, texts,
sequences, nodes, and functions that it may call. The values it may create are bounded, too: each expression
that is evaluated counts, and so does the size of each value that a name brings in again, because that
is how a short text would describe a program of any size.
"""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import FunctionType, ModuleType
from typing import Any

from ...base.errors import explain
from ...base.registry import PACKAGE, Registry
from ...ir.dtype import DataType
from ...ir.node import Node
from ...ir.op import Op
from ...ir.prim_expr import PrimExpr, Var
from ...tir.buffer import Buffer

MOST = 100_000  # items of a Python loop or sequence
STEPS, STEPS_PER_CHARACTER = 200_000, 4  # of evaluation; long texts may take more
DEPTH = 100  # of calls of the text's own functions
_BITS = 4_096  # of a Python integer
_NAMESPACES = tuple(
    f"{PACKAGE}.{part}" for part in ("script.ir", "script.tir", "script.relax", "relax.op")
)
_HINT = "pass run_python=True for text that you trust"
_OURS, _BASE = f"{PACKAGE}.", f"{PACKAGE}.base."
_LIGHT = frozenset((FunctionType, ModuleType, Var, Buffer))
_SIZED = (str, bytes, list, tuple, dict, set, frozenset)
_PLAIN = (type(None), bool, int, float, complex, slice, range, type(...), DataType, *_SIZED)


class Closed(PermissionError):
    """A use that a text is not allowed."""


def refuse(what: str, got: str) -> Closed:
    """An error that `eval` will locate."""
    return Closed(explain(what, got=got[:200], instead=_HINT))


# ---------------------------------------------------------------------- bounds on values


def bounded(items: Iterable[Any]) -> Iterator[Any]:
    """The items, at most MOST of them."""
    for count, item in enumerate(items):
        if count >= MOST:
            raise refuse(f"a Python loop of more than {MOST} items", type(items).__name__)
        yield item


class Rules:
    """The rules of one reading. `extra`: more values that the caller lets a text use."""

    def __init__(self, characters: int, extra: Iterable[Any] = ()) -> None:
        self.extra = tuple(extra)
        self.most = self.left = STEPS + STEPS_PER_CHARACTER * characters
        self.depth = 0
        self._read: set[tuple[str, str]] = set()  # names of modules that were read before
        self._sizes: dict[int, tuple[Any, int]] = {}  # with the value, whose id is taken then

    def spend(self, steps: int) -> None:
        """Count steps. Raises Closed once there are too many."""
        self.left -= steps
        if self.left < 0:
            what = "a program as text whose description takes this long to follow"
            raise refuse(what, f"more than {self.most} steps")

    def counted(self, value: Any) -> Any:
        """The value of an expression: its evaluation is one step, and so are 16 of its items."""
        self.left -= 1
        if self.left < 0 or type(value) in _SIZED:
            self.spend(len(value) >> 4 if type(value) in _SIZED else 0)
        return value

    def named(self, value: object) -> Any:
        """The value of a name: each node in it counts again."""
        if type(value) in _LIGHT:
            self.left -= 1
        elif type(value) in _SIZED or isinstance(value, Node):
            self.spend(self._size(value))
        return value

    def _size(self, value: Any) -> int:
        sizes, stack = self._sizes, [(value, False)]
        while stack:
            item, below = stack.pop()
            if id(item) in sizes:
                continue
            parts = [p for p in _parts(item) if not isinstance(p, (str, int, float))]
            if below or not parts:
                size = 1 + sum(sizes[id(p)][1] if id(p) in sizes else 1 for p in parts)
                sizes[id(item)] = item, size + (len(item) >> 4 if type(item) in _SIZED else 0)
            else:
                stack += [(item, True), *((p, False) for p in parts)]
        return sizes[id(value)][1]

    def items(self, values: Iterable[Any]) -> Iterator[Any]:
        """The items of a loop, a comprehension or a starred value."""
        for item in bounded(values):
            self.spend(1)
            yield item

    @contextmanager
    def inside(self, names: int) -> Iterator[None]:
        """A call of a function of the text, which sees this many names."""
        self.spend(names)
        if self.depth >= DEPTH:
            raise refuse("a program as text whose functions call each other", f"{DEPTH} deep")
        self.depth += 1
        try:
            yield
        finally:
            self.depth -= 1

    # ------------------------------------------------------------------ attributes, calls

    def attribute(self, owner: object, name: str) -> Any:
        """The attribute of an object, where a text may read it."""
        space = (owner.__name__, name) if type(owner) is ModuleType else ("", "")
        if space in self._read:
            return getattr(owner, name)
        reads = READABLE.get(type(owner))
        own = reads is not None and not name.startswith("__") and reads(owner, name)
        if name.startswith("_") and not own:
            raise refuse("a program as text reads public attributes only", name)
        if any(owner is item for item in self.extra):
            return getattr(owner, name)
        if not (own or _readable(owner, name)):
            what = "a program as text reads attributes of nodes and of I, T and R only"
            kind = owner.__name__ if isinstance(owner, (type, ModuleType)) else type(owner).__name__
            raise refuse(what, f"{name} of {kind}")
        value = self.checked(getattr(owner, name), name)
        if space[0]:
            self._read.add(space)
        return value

    def checked(self, value: object, name: str) -> Any:
        """A value that an attribute or an item holds, if a text may have it."""
        if isinstance(value, ModuleType):
            allowed = value.__name__.startswith(_NAMESPACES)
        elif isinstance(value, _PLAIN) or value is Any:
            allowed = True
        else:
            kind = value if hasattr(value, "__qualname__") else type(value)
            allowed = _is_ours(kind) and kind.__module__ not in _INSIDE
            allowed = allowed or any(value is item for item in self.extra)
            allowed = allowed or isinstance(getattr(value, "dialect", None), str)  # a decorator
        if not allowed:
            raise refuse("a program as text reaches nodes and functions of I, T and R only", name)
        return value

    def call(self, function: Any, args: list[Any]) -> None:
        """Raise Closed unless a text may call a function."""
        if type(function) is FunctionType and _is_ours(function):
            return
        if id(function) in _CALLABLE:
            self.spend(sum(len(a) >> 4 for a in args if type(a) in _SIZED))
        elif isinstance(getattr(function, "dialect", None), str):
            if args:
                what = "a program as text has definitions under @, which are not called"
                raise refuse(what, type(function).__name__)
        elif not any(function is item for item in self.extra):
            owner = getattr(function, "__self__", function)
            if not (_is_ours(function) or _is_ours(type(owner)) or _is_ours(owner)):
                raise refuse("a program as text calls functions of I, T and R only", repr(function))

    def operation(
        self, kind: type[ast.operator], left: PrimExpr | int, right: PrimExpr | float
    ) -> None:
        """Raise Closed for an operation whose result is too large, and for one on anything but
        numbers, texts, sequences and nodes."""
        for value in (left, right):
            if not (isinstance(value, _PLAIN) or _is_ours(type(value)) or value is Any):
                raise refuse("an operation on this value", f"{kind.__name__} of {type(value)}")
        large = False
        if isinstance(left, int) and isinstance(right, int):
            if kind is ast.Pow:
                large = left.bit_length() * abs(right) > _BITS
            elif kind is ast.LShift:
                large = left.bit_length() + right > _BITS
            elif kind is ast.Mult:
                large = left.bit_length() + right.bit_length() > _BITS
        elif kind is ast.Mult:
            for items, count in ((left, right), (right, left)):
                if isinstance(items, (str, bytes, list, tuple)) and isinstance(count, int):
                    large |= len(items) * count > MOST or self._size(items) * count > MOST
        elif kind is ast.Add and isinstance(left, (str, bytes, list, tuple)):
            large = isinstance(right, type(left)) and len(left) + len(right) > MOST
        elif kind is ast.Mod and isinstance(left, (str, bytes)):
            large = True
        if large:
            raise refuse("a Python value of this size", f"{type(left).__name__} {kind.__name__}")


def _parts(value: Node | tuple[PrimExpr, ...]) -> Iterable[Any]:
    """The parts of a value, as far as it is walked when a program is checked or printed."""
    if isinstance(value, Node):
        info = getattr(value, "struct_info", None)
        return value.children() if info is None else (info, *value.children())
    if isinstance(value, dict):
        return (*value, *value.values())
    return value if type(value) in _SIZED and not isinstance(value, (str, bytes)) else ()


def _is_ours(value: Any) -> bool:
    name = getattr(value, "__module__", None) or ""
    return name.startswith(_OURS) and not name.startswith(_BASE)


# The parser itself, and modules that would change the meaning of all programs.
_INSIDE = {f"{PACKAGE}.ir.op", f"{PACKAGE}.relax.dpl.rewrite"}
_INSIDE |= {
    f"{PACKAGE}.script.parser.{name}"
    for name in ("core", "entry", "evaluator", "frames", "macro", "scope", "source")
}
# Methods of nodes that make other nodes.
_METHODS = {"access_ptr", "astype", "offset_of", "scope", "vload", "vstore"}
_METHODS |= {"from_func", "from_func_with_separators", "from_min_extent"}
_METHODS |= {"inverse", "map_indices", "map_shape"}
# Further objects, by type: whether a text may read a name of one.
READABLE: Registry[type, Callable[[Any, str], bool]] = Registry("object that texts read")


class Package:
    """The part of this package that a text can use by its name: `tvm.ir.load_json`, `tvm.script.tir`."""

    def __init__(self, **parts: Any) -> None:
        vars(self).update(parts)


READABLE.register(Package, lambda package, name: name in vars(package))


def _readable(owner: object, name: str) -> bool:
    if isinstance(owner, ModuleType):
        return owner.__name__.startswith(_NAMESPACES) and not name.startswith("register")
    if isinstance(owner, Op):
        return name == "name"
    if isinstance(owner, type):
        plain = isinstance(vars(owner).get(name), _PLAIN)
        return _is_ours(owner) and (plain or name in _METHODS)
    if isinstance(owner, Node):
        slots = (slot for base in type(owner).__mro__ for slot in vars(base).get("__slots__", ()))
        return name in _METHODS or name in slots
    return False


# ---------------------------------------------------------------------- builtins, operations


def _over(make: Callable[..., Any], many: bool = False) -> Callable[..., Any]:
    @functools.wraps(make)
    def call(*args: Any, **kwargs: Callable[..., Any]) -> Any:
        if len(args) == 1 or many:
            args = tuple(bounded(a) if isinstance(a, Iterable) else a for a in args)
        return make(*args, **kwargs)

    return call


def _round(number: float, digits: int | None = None) -> Any:
    if isinstance(digits, int) and abs(digits) > 400:
        raise refuse("a rounding to this many digits", str(digits))
    return round(number, digits)


def short_range(*bounds: int) -> range:
    """A range that a text may loop over."""
    result = range(*bounds)
    if len(result[: MOST + 1]) > MOST:
        raise refuse(f"a Python range of more than {MOST} items", str(result))
    return result


BUILTINS: dict[str, Any] = {
    **{f.__name__: f for f in (abs, bool, float, int, isinstance, len, slice, str)},
    **{f.__name__: _over(f) for f in (all, any, dict, enumerate, list, max, min, set, sorted)},
    **{f.__name__: _over(f, many=True) for f in (sum, tuple, zip)},
    "range": short_range,
    "reversed": lambda items: reversed(tuple(bounded(items))),
    "round": _round,
    "print": lambda *_: None,
}
_CALLABLE = {id(function) for function in BUILTINS.values()}


def check_format(value: str | int, spec: str) -> None:
    """Raise Closed for a format of something other than a number, text or node, or for a too wide one."""
    if not (isinstance(value, (int, float, str)) or _is_ours(type(value))):
        raise refuse("an f-string shows numbers, texts and nodes", type(value).__name__)
    if any(len(digits) > 3 for digits in re.findall(r"\d+", spec)):
        raise refuse("a format of this width", spec)
