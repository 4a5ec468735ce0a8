"""`VerifyExterns`: checks calls of external C functions against their declarations.

Before (-) and after (+)::

      @T.prim_func
      def main(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
          T.evaluate(T.call_extern("int32", "scale", A.data, B.data, 8))

The declarations are those of the `ExternLibrary`s in the module's attribute "external_mods"; calls
of undeclared functions pass. If the number of arguments, a scalar's dtype, the type
a pointer points to, or the result differs, a LoopwrightError names the call, the declaration and the argument.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ....base.errors import LoopwrightError, explain
from ....ir.dtype import DataType
from ....ir.functor import post_order_visit
from ....ir.prim_expr import Call, PrimExpr, StringImm, Var
from ....runtime.extern import EXTERNAL_MODS, CType, ExternLibrary, Prototype
from ...expr import BufferLoad
from ...function import PrimFunc
from ..base import PrimFuncPass

if TYPE_CHECKING:
    from ....ir.module import IRModule
    from ....ir.node import Node
    from ....ir.pass_context import PassContext

_CALLS = ("tir.call_extern", "tir.call_pure_extern")


class VerifyExterns(PrimFuncPass):
    """Checks calls of external C functions against their declarations."""

    def run_function(self, func: PrimFunc, mod: IRModule, ctx: PassContext) -> PrimFunc:
        externs = prototypes_of(mod)
        if externs:
            post_order_visit(func.body, lambda node: _check(node, externs, func))
        return func


def prototypes_of(mod: object) -> dict[str, tuple[Prototype, ExternLibrary]]:
    """The declared functions of a module's external libraries. Raises LoopwrightError if two
    libraries declare one name differently."""
    prototypes: dict[str, tuple[Prototype, ExternLibrary]] = {}
    attrs = getattr(mod, "attrs", None) or {}
    for library in attrs.get(EXTERNAL_MODS) or ():
        if not isinstance(library, ExternLibrary):
            continue
        for name, prototype in library.prototypes.items():
            other = prototypes.setdefault(name, (prototype, library))
            if other[1] is not library and other[0].text != prototype.text:
                what = f"{name} is declared by two external libraries"
                got = f"{other[1].name}: {other[0].text}; {library.name}: {prototype.text}"
                raise LoopwrightError(explain(what, got=got, instead="rename one of them"))
    return prototypes


def _check(
    node: Node, externs: Mapping[str, tuple[Prototype, ExternLibrary]], func: PrimFunc
) -> None:
    if not isinstance(node, Call) or getattr(node.op, "name", "") not in _CALLS:
        return
    name, args = node.args[0], node.args[1:]
    if not isinstance(name, StringImm) or name.value not in externs:
        return
    prototype, library = externs[name.value]
    problem = _problem(node, args, prototype)
    if problem:
        what = f"the call of {name.value} in {func.attrs.get('global_symbol', 'a kernel')} does not agree with its declaration"
        hint = f"external library {library.name} declares: {prototype.text}"
        span = node.span if node.span is not None else func.span
        raise LoopwrightError(explain(what, got=problem, instead=hint, span=span))


def _problem(node: Call, args: Sequence[PrimExpr], prototype: Prototype) -> str:
    if len(args) != len(prototype.params):
        return f"{len(args)} arguments for {len(prototype.params)} parameters"
    for k, (arg, param) in enumerate(zip(args, prototype.params, strict=True), 1):
        got, wrong = _mismatch(arg, param)
        if wrong:
            return f"argument {k} is {got}, the parameter {param}"
    result = prototype.result
    want = "handle" if result.pointer else result.dtype
    if str(node.dtype) not in (want, "void"):
        return f"the result is taken as {node.dtype}, it is {result}"
    return ""


def _mismatch(arg: PrimExpr, param: CType) -> tuple[str, bool]:
    """A description of an argument, and whether it cannot be passed for a parameter."""
    if not arg.dtype.is_handle:
        return str(arg.dtype), param.pointer or str(arg.dtype) != param.dtype
    element = _pointee(arg)
    shown = f"{element or 'void'}*"
    if not param.pointer:
        return shown, True
    unknown = element in ("", "void") or param.dtype == "void"
    # Raw bytes (workspace) may become anything.
    return shown, not unknown and element != param.dtype and element != "uint8"


def _pointee(arg: PrimExpr) -> str:
    """The dtype that a pointer is declared to point to; "" if undeclared."""
    if isinstance(arg, Var):
        annotation = arg.type_annotation
        return str(DataType(annotation[0])) if annotation else ""
    if isinstance(arg, Call) and arg.args:
        if arg.op.name == "tir.address_of" and isinstance(arg.args[0], BufferLoad):
            return str(arg.args[0].buffer.dtype)
        if arg.op.name == "tir.tvm_access_ptr" and len(arg.args) > 1:
            return _pointee(arg.args[1])
    return ""
