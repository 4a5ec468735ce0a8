"""`TensorIntrin`: what a hardware instruction computes, and how it is called."""

from __future__ import annotations

from typing import ClassVar

from ...base.errors import explain, suggest
from ..function import PrimFunc


class TensorIntrin:
    """A description `desc` (a PrimFunc in plain loops) and an implementation `impl` of the same
    signature, registered under a name."""

    _known: ClassVar[dict[str, TensorIntrin]] = {}

    def __init__(self, desc: PrimFunc, impl: PrimFunc) -> None:
        if len(desc.params) != len(impl.params):
            what = "desc and impl of an intrinsic have the same parameters"
            raise ValueError(explain(what, got=f"{len(desc.params)} and {len(impl.params)}"))
        for a, b in zip(desc.buffers, impl.buffers, strict=True):
            if a.dtype != b.dtype or len(a.shape) != len(b.shape):
                what = f"parameter {a.name} of the intrinsic differs between desc and impl"
                got = f"{a.dtype} with {len(a.shape)} dimensions, {b.dtype} with {len(b.shape)}"
                raise ValueError(explain(what, got=got))
        self.desc = desc
        self.impl = impl

    @staticmethod
    def register(name: str, desc: PrimFunc, impl: PrimFunc, override: bool = False) -> None:
        """Make an intrinsic known by name. Raises ValueError when the name is taken."""
        if name in TensorIntrin._known and not override:
            what = f"an intrinsic {name!r} is registered already"
            raise ValueError(explain(what, instead="another name, or override=True"))
        TensorIntrin._known[name] = TensorIntrin(desc, impl)

    @staticmethod
    def get(name: str, allow_missing: bool = False) -> TensorIntrin | None:
        """The intrinsic of that name. Raises ValueError when there is none."""
        found = TensorIntrin._known.get(name)
        if found is None and not allow_missing:
            hint = suggest(name, TensorIntrin._known)
            raise ValueError(explain("no such tensor intrinsic", got=name, instead=hint))
        return found
