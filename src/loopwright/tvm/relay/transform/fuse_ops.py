"""FuseOps: calls that become one kernel become a call of a function marked `Primitive=1`.

before: exp(add(%x, %y))
after:  fn (%p0, %p1, Primitive=1) { exp(add(%p0, %p1)) }(%x, %y)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ....ir.module import IRModule
from ....ir.op import Op
from ....ir.pass_context import PassContext
from ..expr import Call, Expr, Function, Tuple, TupleGetItem, Var
from ..walk import post_order, rebuilt
from .base import RelayPass
from .fusion import Group, Partition

# Groups of these alone move no data.
RESHAPES = {
    "reshape", "squeeze", "expand_dims", "reshape_like", "contrib_reverse_reshape",
    "nn.batch_flatten", "dyn.reshape",
}  # fmt: skip
# Operators that compute nothing stay outside of groups.
APART = ("memory.", "vm.", "on_device", "annotation.compiler")


class FuseOps(RelayPass):
    """Calls that become one kernel become a call of a function marked `Primitive=1`.
    fuse_opt_level: 0 makes a function of each call; -1: the level of the context."""

    fuse_opt_level: int = -1

    opt_level = 0

    def run_function(self, func: Function, mod: IRModule) -> Function:
        if func.attrs.get("Primitive") or func.attrs.get("Compiler"):
            return func
        context = PassContext.current()
        level = context.opt_level if self.fuse_opt_level < 0 else self.fuse_opt_level
        most = int(context.option("relay.FuseOps.max_depth"))
        linked = bool(context.option("relay.FuseOps.link_params"))
        return _Fuser(func, Partition(func, level, most, linked)).run()


class _Fuser:
    def __init__(self, func: Function, partition: Partition) -> None:
        self.func, self.partition = func, partition
        self.new: dict[int, Any] = {}
        self.params: dict[int, list[Var]] = {}  # by group
        self.args: dict[int, list[Any]] = {}
        self.allocated: dict[tuple[int, int], Var] = {}
        self.keep: list[Any] = []

    def run(self) -> Function:
        inside = [
            n
            for n in post_order(self.func, lambda n: not _is_primitive(n))
            if not isinstance(n, Op)
        ]
        for node in inside:
            self.new[id(node)] = self._visit(node)
        return self.new[id(self.func)]

    def _visit(self, node: Expr) -> Any:
        if (
            isinstance(node, Call)
            and isinstance(node.op, Op)
            and not node.op.name.startswith(APART)
        ):
            return self._grouped(node, node.args, lambda args: node.replace(args=tuple(args)))
        if isinstance(node, TupleGetItem) and not self._is_ungrouped(node):
            return self._grouped(
                node, (node.tuple_value,), lambda args: TupleGetItem(args[0], node.index)
            )
        if isinstance(node, Tuple):
            group = self.partition.of(node)
            if group.root is node:  # results of several kernels
                return rebuilt(node, self.new)
            return Tuple(self._arguments(node.fields, group))
        return rebuilt(node, self.new)

    def _is_ungrouped(self, node: TupleGetItem) -> bool:
        """Whether a field is taken of something that is in no group."""
        group = self.partition.of(node)
        return group.root is node and group is not self.partition.of(node.tuple_value)

    def _grouped(
        self, node: Call | TupleGetItem, args: Sequence[Expr], make: Callable[..., Any]
    ) -> Any:
        group = self.partition.of(node)
        result = make(self._arguments(args, group))
        if isinstance(node, Call) and isinstance(result, Call):
            result.span = node.span
        return self._kernel(group, result) if group.root is node else result

    def _arguments(self, args: Sequence[Expr], group: Group) -> list[Any]:
        """The arguments of a node of a group: nodes of the group, and parameters for all others."""
        new = []
        for arg in args:
            if id(arg) in self.partition.uses.by_id and self.partition.of(arg) is group:
                new.append(self.new[id(arg)])
            else:
                new.append(self._param(arg, group))
        return new

    def _param(self, arg: Expr, group: Group) -> Var:
        value = self.new[id(arg)]
        key = (id(group), id(value))
        if key not in self.allocated:
            params = self.params.setdefault(id(group), [])
            param = Var(f"p{len(params)}", arg.checked_type)
            params.append(param)
            self.args.setdefault(id(group), []).append(value)
            self.allocated[key] = param
            self.keep += [group, value]
        return self.allocated[key]

    def _kernel(self, group: Group, body: Expr) -> Any:
        params = self.params.get(id(group), [])
        calls = [n for n in post_order(body) if isinstance(n, Call)]
        attrs: dict[str, Any] = {"Primitive": 1 if calls else 0}
        if calls and all(c.op.name in RESHAPES for c in calls):
            attrs["relay.reshape_only"] = 1
        kernel = Function(params, body, group.root.checked_type, attrs=attrs)
        return Call(kernel, self.args.get(id(group), []))


def _is_primitive(node: Op | Expr) -> bool:
    return isinstance(node, Function) and bool(node.attrs.get("Primitive"))
