"""Operators: a name and a table of facts about it (its legalization, its kind, its printer name).

Lower layers query `Op`; the definitions live above, in `ops/` and in `tir/op.py`.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence
from enum import IntEnum
from typing import Any, ClassVar, NamedTuple

from ..base.errors import explain
from ..base.late import Slot
from ..base.plugins import load_group, warn_of_broken
from ..base.registry import Registry, origin_of
from .expr import BaseExpr


class Fact(NamedTuple):
    """A fact about an operator under some key, and its priority."""

    value: Any
    level: int


OPS: Registry[str, Op] = Registry("operator")
FACTS: Registry[tuple[str, str], Fact] = Registry("fact of operators", compiles=True)
# The package's own definitions: they are there once the slot is filled.
DEFINITIONS: Slot[object] = Slot("ir.definitions")


class CallEffectKind(IntEnum):
    """The effect of a call of an intrinsic, with TVM's numbers: the fact "TCallEffectKind"."""

    ExprAnnotation = 0
    Pure = 1
    ReadState = 2
    UpdateState = 3
    Opaque = 3
    SpecialCallArg = 4
    EmbedInfo = 5
    ControlJump = 6


# Our words for them, the fact "effect".
_EFFECTS = ("annotation", "pure", "read", "opaque", "annotation", "annotation", "control")


class Op(BaseExpr):
    """An operator, unique by name. Compared by identity.

    >>> lw.Op.get("relax.nn.relu").has_attr("FNumpy")
    True
    """

    name: str
    bound_by_identity: ClassVar[bool] = False

    def __reduce__(self) -> tuple[Any, ...]:
        return (Op.get, (self.name,))

    @staticmethod
    def get(op_name: str) -> Op:
        """The operator of that name. Raises AttributeError for an unknown name."""
        op = OPS.get(op_name)
        if op is None and load_definitions():
            op = OPS.get(op_name)
        if op is None:
            close = _close_names(op_name)
            hint = f"did you mean {close}?" if close else "register it with ir.register_op_attr"
            raise AttributeError(explain("no operator of this name", got=op_name, instead=hint))
        return op

    @staticmethod
    def find(name: str) -> Op | None:
        """The operator of that name, or None."""
        return OPS.get(name)

    @staticmethod
    def list_op_names() -> list[str]:
        """All names, sorted."""
        return sorted(OPS)

    def has_attr(self, attr_name: str) -> bool:
        """Whether a fact of that name is known."""
        return (self.name, attr_name) in FACTS

    def get_attr(self, attr_name: str, default: int | Sequence[Any] | None = None) -> Any:
        """The fact of that name, or `default`."""
        fact = FACTS.get((self.name, attr_name))
        return default if fact is None else fact.value

    @property
    def effect(self) -> str:
        """The effect of a call: "pure", "read", "update", "opaque", "control" or "annotation"; for
        user-defined intrinsics, according to "TCallEffectKind"."""
        kind = self.get_attr("effect")
        if kind is None:
            kind = _EFFECTS[int(self.get_attr("TCallEffectKind", CallEffectKind.Opaque))]
        return kind

    def level_of(self, key: str) -> int:
        """The level at which a fact was stored."""
        fact = FACTS.get((self.name, key))
        return 10 if fact is None else fact.level

    def set_attr(
        self, attr_name: str, value: Any, plevel: int = 10, *, origin: str | None = None
    ) -> None:
        """Store a fact; one of a higher level than `plevel` stays. origin: the package that sets
        it, if that is not `base.registry.origin_of(value)`; a fact that comes back is its own again."""
        key = self.name, attr_name
        fact, lost = FACTS.get(key), FACTS.lost(key)
        if fact is None or plevel >= fact.level:
            if origin is None and lost is not None and lost.value.value is value:
                origin = lost.origin
            origin = origin_of(value) if origin is None else origin
            FACTS.register(key, Fact(value, plevel), origin=origin, override=True)

    def reset_attr(self, attr_name: str) -> None:
        """Forget a fact."""
        FACTS.remove((self.name, attr_name))

    def set_num_inputs(self, n: int) -> None:
        """Say how many arguments a call has; -1: any number."""
        self.set_attr("num_inputs", int(n))

    @property
    def num_inputs(self) -> int:
        """How many arguments a call has, -1 where that is not known."""
        return self.get_attr("num_inputs", -1)

    def set_support_level(self, level: int) -> None:
        """Say how common the operator is: 1 is the most common. Nothing here depends on it."""
        self.set_attr("support_level", int(level))

    @property
    def support_level(self) -> int:
        """The level set by `set_support_level`, or 10."""
        return self.get_attr("support_level", 10)

    def set_attrs_type_key(self, key: str) -> None:
        """Say of which class the attributes of a call are, by the name of the class."""
        self.set_attr("attrs_type_key", str(key))

    def add_argument(self, name: str, type: str, description: str) -> None:
        """Document an argument."""
        arguments = self.get_attr("arguments", ())
        self.set_attr("arguments", (*arguments, (str(name), str(type), str(description))))

    @property
    def arguments(self) -> tuple[tuple[str, str, str], ...]:
        """(name, type, description) of each argument that is documented."""
        return self.get_attr("arguments", ())

    def add_type_rel(self, rel_name: str, type_rel_func: Callable[..., Any] | None = None) -> None:
        """Set the type relation of calls in Relay: `f(types of arguments, attributes)`, or by
        the name of a known rule ("Identity", "Broadcast", "BroadcastComp")."""
        self.set_attr("relay.type", rel_name if type_rel_func is None else type_rel_func)

    def structural_compare(self, other: Op, comparer: Any, path: str, defining: bool) -> None:
        """Operators are equal when they are the same one."""
        if self is not other:
            comparer.fail(path, self, other, "different operators")

    def structural_hash(self, hasher: Any, defining: bool) -> int:
        """By name."""
        return hash(("Op", self.name))


def _close_names(name: str) -> str:
    return ", ".join(difflib.get_close_matches(name, OPS, 3))


def register_op(name: str) -> Op:
    """The operator of that name, made when it is new."""
    op = OPS.get(name)
    return OPS.register(name, Op(name)) if op is None else op


def register_op_attr(op_name: str, attr_key: str, value: object = None, level: int = 10) -> Any:
    """Store a fact about an operator (made when new); without `value`, a decorator."""
    op = register_op(op_name)
    if value is not None:
        op.set_attr(attr_key, value, level)
        return value

    def decorate(fn: Callable[..., Any]) -> Any:
        op.set_attr(attr_key, fn, level)
        return fn

    return decorate


def register_intrin_lowering(
    op_name: str, target: str, *, f: Callable[[Any], Any] | None = None, level: int = 10
) -> Any:
    """How calls of an operator are lowered for targets of kind `target`: `f(call)` returns the
    expression in its place. Stored as the fact "<target>.FLowerIntrinsic"; without `f`, a
    decorator."""
    return register_op_attr(op_name, f"{target}.FLowerIntrinsic", f, level)


def load_definitions() -> bool:
    """Load what defines operators: the package's own modules and plug-ins. Called where a name is
    unknown, which is then worth another look; False in the middle of their import."""
    if DEFINITIONS.find() is None:
        return False
    load_group("loopwright.ops")
    warn_of_broken("loopwright.ops")
    return True


class Builders(dict):
    """Builders of operators by name; loads the definitions when one is unknown."""

    def __missing__(self, name: str) -> Any:
        if load_definitions() and name in self:
            return self[name]
        raise KeyError(name)

    def get(self, name: str, default: int | None = None) -> Any:
        """The builder, or `default`."""
        try:
            return self[name]
        except KeyError:
            return default
