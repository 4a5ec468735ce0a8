"""`InlinePrivateFunctions`: inlines calls of private functions.

Before (-) and after (+)::

      @I.ir_module
      class Module:
          @T.prim_func
          def main(A: T.Buffer((4,), "float32")):
              for i in range(4):
    -             Module.fill(A.data, i)
    -
    -     @T.prim_func(private=True)
    -     def fill(A: T.handle("float32", "global"), i: T.int32):
    -         A_1 = T.Buffer((4,), data=A)
    -         A_1[i] = T.Cast("float32", i)
    +             A_1 = T.Buffer((4,), data=A.data)
    +             A_1[i] = T.Cast("float32", i)

A function is not inlined if it is recursive (also indirectly), returns a value, or has symbolic
dimensions that its call does not define; functions without remaining calls are dropped.
"""

from __future__ import annotations

from typing import Any

from ...ir.expr import GlobalVar
from ...ir.functor import any_node, nodes_of
from ...ir.prim_expr import Call, Var
from ...ir.transform import IRModule, ModulePass, PassContext
from ...tir.buffer import Buffer
from ...tir.function import PrimFunc
from ...tir.op import is_call_to
from ...tir.stmt import Evaluate, Stmt
from ...tir.stmt_functor import ExprKeeper, renew_defs
from ...tir.transform.base import StmtRewriter, Substitute
from ...tir.transform.lower.unpack_signatures import symbolic_dims


def _called(node: Stmt) -> set[str]:
    return {var.name_hint for var in nodes_of(node, GlobalVar)}


def _returns(func: PrimFunc) -> bool:
    return any_node(func.body, lambda n: is_call_to(n, "ret"))


def _body(func: PrimFunc, args: tuple[Any, ...]) -> Stmt:
    """The body for these arguments; pointers are passed for buffers."""
    func = renew_defs(func)
    values: dict[Var, Any] = {}
    for param, arg in zip(func.params, args, strict=True):
        buffer = func.buffer_map.get(param)
        values[param if buffer is None else buffer.data] = arg
    buffers: dict[Buffer, Buffer] = {}
    for node in nodes_of(func.body, Buffer):
        if node.data in values:
            parts = {
                "data": values[node.data],
                "shape": tuple(Substitute(values).visit(e) for e in node.shape),
                "strides": tuple(Substitute(values).visit(e) for e in node.strides),
            }
            buffers[node] = node.replace(**parts)
    return Substitute(values, buffers).visit(func.body)


class _Inline(ExprKeeper, StmtRewriter):
    def __init__(self, bodies: dict[str, PrimFunc]) -> None:
        self.bodies = bodies

    def visit_Evaluate(self, node: Evaluate) -> Stmt:
        call = node.value
        if not isinstance(call, Call) or not isinstance(call.op, GlobalVar):
            return node
        func = self.bodies.get(call.op.name_hint)
        if func is None or len(func.params) != len(call.args):
            return node
        pointers = all(isinstance(a, Var) for a in call.args if a.dtype.is_handle)
        return self.visit(_body(func, call.args)) if pointers else node


class InlinePrivateFunctions(ModulePass):
    """Inlines calls of private functions."""

    name = "tir.InlinePrivateFunctions"

    def run(self, mod: IRModule, ctx: PassContext) -> IRModule:
        funcs = {v.name_hint: f for v, f in mod.functions.items() if isinstance(f, PrimFunc)}
        calls = {name: _called(func.body) for name, func in funcs.items()}

        def reaches(name: str, target: str, seen: set[str]) -> bool:
            for other in calls.get(name, set()) - seen:
                seen.add(other)
                if other == target or reaches(other, target, seen):
                    return True
            return False

        bodies = {
            name: func
            for name, func in funcs.items()
            if func.is_private
            and not symbolic_dims(func)
            and not _returns(func)
            and not reaches(name, name, set())
        }
        inline = _Inline(bodies)
        inlined = {
            v: f.replace(body=inline.visit(f.body)) if isinstance(f, PrimFunc) else f
            for v, f in mod.functions.items()
        }
        used: set[str] = set()
        for var, func in inlined.items():
            if var.name_hint not in bodies:
                used |= _called(func.body)
        functions = {
            v: f for v, f in inlined.items() if v.name_hint not in bodies or v.name_hint in used
        }
        return mod.replace(functions=functions)
