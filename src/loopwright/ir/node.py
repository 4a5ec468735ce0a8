"""Nodes: immutable records whose fields are declared once, each with a role.

    class For(Stmt):
        loop_var: Var = define()     # binds a variable for the fields that follow
        min: PrimExpr                # a use (the default role)
        kind: ForKind
        annotations: dict = field(default_factory=dict)
        comment: str = ignore(default="")  # not part of the node's meaning
        body: Stmt = field(converter=as_stmt)  # the constructor converts what it is passed
        dtype: DataType = derived()  # no field: filled by `_derive`

The metaclass makes `__slots__`, the constructor, and the table `__fields__` from the
annotations; structural equality, hashing, visiting, rewriting and JSON read that table. Every
node also has `span` (where it came from), the last parameter of each constructor. Type checkers
know constructors and fields by the same annotations (`dataclass_transform`); a class that inherits
a constructor written by hand says `init=False` for them.

A class whose arguments depend on each other writes `__init__` and ends in `self._set(...)`, which
takes the fields in order. `_derive(self)`, where defined, fills slots that follow from the fields
(`Add.dtype`). `Cls._make(*fields)` is the fast constructor used by rewriting: no conversion.
`type(x) in Cls.__kinds__` is `isinstance(x, Cls)` in half the time: Python calls a metaclass.
Nodes are immutable by convention; equality is identity unless a class says otherwise.
"""

from __future__ import annotations

import html
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, ClassVar, Literal, NamedTuple, TypeVar, dataclass_transform

from ..base.late import Slot
from ..base.registry import Registry
from ..base.span import Span

USE, DEF, IGNORE = "use", "def", "ignore"
Key = TypeVar("Key")
Item = TypeVar("Item")
_MISSING: Any = object()
_DERIVED: Any = object()


class Printer(NamedTuple):
    """The printer of nodes: as a text, on the screen, and as `repr`, which never raises."""

    script: Callable[..., str]
    show: Callable[..., None]
    text: Callable[[Node], str]


PRINTER: Slot[Printer] = Slot("ir.printer")


class Field:
    """One field of a node class: its name, its role and its default.

    plain: by its annotation, the field holds no node, so visitors pass it by. converter: of the
    constructor's argument.
    """

    __slots__ = ("converter", "default", "default_factory", "name", "plain", "role")

    def __init__(
        self,
        role: str,
        default: Any = _MISSING,
        default_factory: Callable[[], Any] | None = None,
        converter: Callable[[Any], Any] | None = None,
    ) -> None:
        self.name = ""
        self.plain = False
        self.role = role
        self.default = default
        self.default_factory = default_factory
        self.converter = converter

    def __repr__(self) -> str:
        return f"Field({self.name!r}, {self.role!r})"

    @property
    def optional(self) -> bool:
        return self.default is not _MISSING or self.default_factory is not None


def field(
    *,
    default: object = _MISSING,
    default_factory: Callable[[], Any] | None = None,
    converter: Callable[[Any], Any] | None = None,
    kw_only: bool = False,
) -> Any:
    """A field that the node uses (the role of a plain annotation), with a default or a converter."""
    return Field(USE, default, default_factory, converter)


def define(
    *,
    default: object = _MISSING,
    default_factory: Callable[[], Any] | None = None,
    converter: Callable[[Any], Any] | None = None,
) -> Any:
    """A field that defines the variables in it for the fields that follow."""
    return Field(DEF, default, default_factory, converter)


def ignore(
    *,
    default: object = _MISSING,
    default_factory: Callable[[], Any] | None = None,
    converter: Callable[[Any], Any] | None = None,
) -> Any:
    """A field that does not count in structural equality (a name hint, a comment)."""
    return Field(IGNORE, default, default_factory, converter)


def derived(*, init: Literal[False] = False) -> Any:
    """A slot that is not a field, for it follows from the fields: `_derive` fills it."""
    return _DERIVED


def as_tuple(items: Iterable[Item] | None) -> tuple[Item, ...]:
    """A converter of fields: the items as a tuple; None for none."""
    return tuple(items or ())


def as_dict(table: Mapping[Key, Item] | None) -> dict[Key, Item]:
    """A converter of fields: a copy of a table; None for an empty one."""
    return dict(table or {})


NODE_TYPES: Registry[str, type[Node]] = Registry("node type")
_PLAIN = frozenset(("int", "str", "float", "bool", "DataType", "Lanes"))


_new = object.__new__


@dataclass_transform(eq_default=False, field_specifiers=(field, define, ignore, derived))
class NodeMeta(type):
    """Makes slots, constructor and field table of a node class from its annotations."""

    __fields__: tuple[Field, ...]
    __kinds__: set[type]  # the class and those below it

    def __new__(
        mcls,
        name: str,
        bases: tuple[type, ...],
        namespace: dict[str, Any],
        key: str = "",
        init: bool = True,
    ) -> NodeMeta:
        own: list[Field] = []
        own_fields: list[str] = []
        for fname, annotation in namespace.get("__annotations__", {}).items():
            if str(annotation).startswith(("ClassVar", "typing.ClassVar")):
                continue
            value = namespace.pop(fname, _MISSING)
            if value is _DERIVED or fname == "span":
                own_fields.append(fname)
                continue
            entry = value if isinstance(value, Field) else Field(USE, value)
            entry.name = fname
            entry.plain = annotation in _PLAIN
            own.append(entry)
        inherited: list[Field] = []
        for base in bases:
            inherited += [f for f in getattr(base, "__fields__", ()) if f not in inherited]
        names = {f.name for f in own}
        fields = (*(f for f in inherited if f.name not in names), *own)
        existing = {f.name for f in inherited}
        existing |= {s for b in bases for k in b.__mro__ for s in getattr(k, "__slots__", ())}
        extra = tuple(namespace.get("__slots__", ()))
        named = (*own_fields, *(f.name for f in own))
        namespace["__slots__"] = (*extra, *(n for n in named if n not in existing))
        namespace["__fields__"] = fields
        namespace["_places"] = {f.name: index for index, f in enumerate(fields)}
        namespace |= _made_methods(name, fields, namespace, bases)
        init = namespace.pop("_init")
        if fields and "__init__" not in namespace and not _inherits_init(bases):
            namespace["__init__"] = init
        namespace["__kinds__"] = set()
        cls: Any = super().__new__(mcls, name, bases, namespace)
        for base in cls.__mro__:
            if isinstance(base, NodeMeta):
                base.__kinds__.add(cls)
        cls.node_key = key or _node_key(cls.__module__, name)
        NODE_TYPES.register(cls.node_key, cls, override=True)
        return cls


def _node_key(module: str, name: str) -> str:
    """ "ir.Range" for the house's own classes, "their.module.Name" for users' classes."""
    package, _, path = module.partition(".")
    if package != "loopwright":
        return f"{module}.{name}"
    return f"{path.removeprefix('tvm.').partition('.')[0]}.{name}"


def _inherits_init(bases: tuple[type, ...]) -> bool:
    """Whether a base wrote its own constructor (one that is not the generated `_init`)."""
    for base in bases:
        init = getattr(base, "__init__", object.__init__)
        if init is not object.__init__ and init.__name__ == "__init__":
            return True
    return False


def _made_methods(
    name: str, fields: tuple[Field, ...], namespace: dict[str, Any], bases: tuple[type, ...]
) -> dict[str, Any]:
    """`_init`, `_set`, `_make` and `field_values` of a class, as straight-line code."""
    params, body, scope = [], [], {"_MISSING": _MISSING, "_new": _new}
    must_default = False
    for f in fields:
        if not f.optional:
            params.append(f"{f.name}=_MISSING" if must_default else f.name)
            if must_default:  # a required field below an inherited optional one
                text = f"{name} needs a value for {f.name}"
                body.append(f" if {f.name} is _MISSING: raise TypeError({text!r})")
        elif f.default_factory is not None:
            must_default = True
            scope[f"_f_{f.name}"] = f.default_factory
            params.append(f"{f.name}=None")
            body.append(f" if {f.name} is None: {f.name} = _f_{f.name}()")
        else:
            must_default = True
            scope[f"_d_{f.name}"] = f.default
            params.append(f"{f.name}=_d_{f.name}")
        body.append(f" self.{f.name} = {f.name}")
    body.append(" self.span = span")
    if "_derive" in namespace or any(hasattr(base, "_derive") for base in bases):
        body.append(" self._derive()")
    args = "".join(f", {p}" for p in params)
    lines = "\n".join(body)
    values = "".join(f"self.{f.name}, " for f in fields)
    getter = f"def field_values(self):\n return [{values}]\n"
    setter = f"def _set(self{args}, span=None):\n{lines}\n"
    converters = {f.name: f.converter for f in fields if f.converter is not None}
    scope |= {f"_c_{n}": converter for n, converter in converters.items()}
    converted = "".join(f" {n} = _c_{n}({n})\n" for n in converters)
    init = f"def _init(self{args}, span=None):\n{converted}{lines}\n"
    maker = f"def _make(cls{args}, *, span=None):\n self = _new(cls)\n{lines}\n return self\n"
    exec(setter + init + maker + getter, scope)
    methods = {method: scope[method] for method in ("_init", "_set", "_make", "field_values")}
    for method, function in methods.items():
        function.__qualname__ = f"{name}.{method.replace('_init', '__init__')}"
    return {**methods, "_make": classmethod(methods["_make"])}


class Node(metaclass=NodeMeta):
    """Base of everything in the IR."""

    __fields__: ClassVar[tuple[Field, ...]] = ()
    _places: ClassVar[dict[str, int]]  # of each field
    node_key: ClassVar[str] = ""
    span: Span | None = field(default=None, kw_only=True)

    # How structural equality treats the class (see structural.py).
    bound_by_identity: ClassVar[bool] = False
    compare_when_free: ClassVar[bool] = False
    opens_scope: ClassVar[bool] = False
    structural_compare: ClassVar[Any] = None
    structural_hash: ClassVar[Any] = None
    attr_literal: ClassVar[Any] = None  # the plain value of a literal, which attributes compare

    _set: ClassVar[Callable[..., None]]

    # The fields' values in declared order.
    field_values: ClassVar[Callable[..., list[Any]]]

    # Build from field values in order, without the constructor's conversions.
    _make: ClassVar[Callable[..., Any]]

    def replace(self, **changes: Any) -> Any:
        """A copy with some fields (or `span`) changed; the same object if nothing changes."""
        span = changes.pop("span", self.span)
        values, indices, same = self.field_values(), self._places, span is self.span
        for name, value in changes.items():
            index = indices.get(name)
            if index is None:
                unknown = sorted(changes.keys() - indices.keys())
                have = list(indices)
                raise TypeError(f"{type(self).__name__} has no field {unknown}; it has {have}")
            if values[index] is not value:
                values[index], same = value, False
        if same:
            return self
        return self._make(*values, span=span)

    def with_span(self, span: Span | None) -> Any:
        """The same node, said to come from `span`."""
        return self if span is None or span is self.span else self.replace(span=span)

    def extras(self) -> dict[str, Any]:
        """Attributes that are set in addition to the fields and cannot be derived from them:
        `struct_info`."""
        values = ((name, getattr(self, name, None)) for name in _extra_slots(type(self)))
        return {name: value for name, value in values if value is not None}

    def __reduce__(self) -> tuple[Any, ...]:
        reduced = (type(self), tuple(self.field_values()), self.span)
        return _rebuild, reduced, self.__getstate__()

    def __getstate__(self) -> tuple[None, dict[str, Any]]:
        if self.__fields__:
            return None, self.extras()
        slots = (s for k in type(self).__mro__ for s in getattr(k, "__slots__", ()))
        return None, {s: getattr(self, s) for s in slots if s != "span" and hasattr(self, s)}

    def __setstate__(self, state: tuple[None, dict[str, Any]]) -> None:
        for name, value in state[1].items():
            object.__setattr__(self, name, value)

    def same_as(self, other: object) -> bool:
        """Whether `other` is this very object."""
        return self is other

    def children(self) -> Iterator[Any]:
        """The nodes directly inside this one, looking through lists, tuples and dicts."""
        for f in self.__fields__:
            yield from _nodes_in(getattr(self, f.name))

    def script(self, **options: bool | Sequence[Node]) -> str:
        """This node as TVMScript. Options: see `loopwright.script.printer`."""
        printer = PRINTER.find()
        return self._plain_repr() if printer is None else printer.script(self, **options)

    def show(self, style: str | None = None, **options: Any) -> None:
        """Print this node as TVMScript, coloured when the output is a terminal."""
        printer = PRINTER.find()
        if printer is None:
            print(self._plain_repr())
        else:
            printer.show(self, style=style, **options)

    def __repr__(self) -> str:
        printer = PRINTER.find()
        return self._plain_repr() if printer is None else printer.text(self)

    def _repr_html_(self) -> str:
        """The text of the node in a notebook."""
        return f"<pre>{html.escape(repr(self))}</pre>"

    __str__ = __repr__

    def _plain_repr(self) -> str:
        inner = ", ".join(f"{f.name}={getattr(self, f.name, None)!r}" for f in self.__fields__)
        return f"{type(self).__name__}({inner})"


@cache
def _extra_slots(cls: type[Node]) -> tuple[str, ...]:
    """Public slots that are not fields, without those that `_derive` always fills."""
    names = {f.name for f in cls.__fields__} | {"span", "dtype"}
    slots = (s for k in cls.__mro__ for s in getattr(k, "__slots__", ()))
    return tuple(s for s in slots if s not in names and s[0] != "_")


def _rebuild(cls: type[Node], values: tuple[Any, ...], span: Span | None) -> Node:
    return cls._make(*values, span=span)


def _nodes_in(value: object) -> Iterator[Any]:
    if isinstance(value, Node):
        yield value
    elif isinstance(value, (tuple, list)):
        for item in value:
            yield from _nodes_in(item)
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _nodes_in(key)
            yield from _nodes_in(item)


def plain_attr(value: object) -> Any:
    """An attribute's plain value: IntImm, bool and int are equal, and so are strings."""
    literal = getattr(value, "attr_literal", None)
    return value if literal is None else literal


def same(a: object, b: object) -> bool:
    """Identity; used in this package where `==` would build an expression."""
    return a is b
