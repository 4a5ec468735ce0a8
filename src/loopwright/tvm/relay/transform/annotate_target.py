"""AnnotateTarget: calls that a compiler supports are put between `compiler_begin` and
`compiler_end`.

before: nn.relu(%x)
after:  compiler_end(nn.relu(compiler_begin(%x, compiler="c")), compiler="c")

A compiler takes the calls for which the fact "target.<compiler>" of the operator says so, as f(call); and
those of a composite function whose name begins with the compiler's.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ....ir.module import IRModule
from ....ir.op import Op
from ..expr import Call, Expr, Function, If, Let, Tuple, TupleGetItem, Var
from ..op import annotation
from ..walk import rewrite
from .base import RelayPass

DEFAULT = "default"
BEGIN, END = annotation.compiler_begin.row.op, annotation.compiler_end.row.op


class AnnotateTarget(RelayPass):
    """Calls that a compiler supports are put between `compiler_begin` and `compiler_end`. targets:
    names of compilers; the first one that takes a call has it.
    include_non_call_ops: tuples and their fields belong to the compiler of what they are made of."""

    def __init__(self, targets: str | Iterable[str], include_non_call_ops: bool = True) -> None:
        self.targets = [targets] if isinstance(targets, str) else [str(t) for t in targets]
        self.include_non_call_ops = include_non_call_ops

    def run_function(self, func: Function, mod: IRModule) -> Function:
        return _Annotator(self.targets, self.include_non_call_ops).run(func)


def is_begin(node: Op | Expr) -> bool:
    """Whether an expression is the begin of a region."""
    return isinstance(node, Call) and node.op is BEGIN


def is_end(node: Op | Expr) -> bool:
    """Whether an expression is the end of a region."""
    return isinstance(node, Call) and node.op is END


class _Annotator:
    def __init__(self, targets: list[str], structures: bool) -> None:
        self.targets = targets
        self.structures = structures
        self.target: dict[int, str] = {}  # of what has one, by identity
        self.keep: list[Any] = []

    def run(self, func: Function) -> Function:
        def composite(node: Op | Expr) -> Any:
            inside = isinstance(node, Function) and "Composite" in node.attrs
            return node if inside else None

        return rewrite(func, self._visit, composite)

    def _visit(self, old: Op | Expr, new: Any) -> Any:
        if isinstance(old, Call):
            return self._call(old, new)
        if isinstance(old, (Tuple, TupleGetItem)):
            return self._structure(new)
        if isinstance(old, Function):
            return new.replace(body=self._ended(new.body))
        if isinstance(old, If):
            parts = (new.cond, new.true_branch, new.false_branch)
            return If(*map(self._ended, parts), span=new.span)
        if isinstance(old, Let):
            is_function = isinstance(new.value, Function)
            value = new.value if is_function else self._between([new.value])[1][0]
            return Let(new.var, value, self._ended(new.body), new.span)
        return None

    def _assigned(self, node: Expr, target: str) -> Any:
        self.target[id(node)] = target
        self.keep.append(node)
        return node

    # ------------------------------------------------------------------ calls

    def _call(self, old: Call, new: Call) -> Any:
        if is_begin(old):
            return new  # looked at with the call that has it as an argument
        if is_end(old):
            if id(new.args[0]) not in self.target:
                self._assigned(new.args[0], new.attrs.compiler)
            return new
        first: Any = old.args[0] if old.args else None
        if is_begin(first) and first.attrs.compiler != DEFAULT:
            return new  # by an earlier run
        if isinstance(old.op, Var) and not self.structures:
            return Call(new.op, [self._ended(a) for a in new.args], new.attrs, span=new.span)
        target = self._compiler_of(old)
        args = self._between(new.args, target)[1]
        return self._assigned(Call(new.op, args, new.attrs, span=new.span), target)

    def _compiler_of(self, call: Call) -> str:
        """The first compiler that takes a call."""
        if isinstance(call.op, Function):
            of, dot, _ = str(call.op.attrs.get("Composite", "")).partition(".")
            return of if dot and of in self.targets else DEFAULT
        if isinstance(call.op, Op):
            for target in self.targets:
                takes = call.op.get_attr(f"target.{target}")
                if takes is not None and takes(call):
                    return target
        return DEFAULT

    def _structure(self, new: Expr | Op) -> Any:
        """A tuple, or a field of one."""
        parts = new.fields if isinstance(new, Tuple) else (new.tuple_value,)
        if self.structures:
            target, parts = self._between(parts)
        else:
            target, parts = None, [self._ended(part) for part in parts]
        if isinstance(new, Tuple):
            result: Any = Tuple(parts, new.span)
        else:
            result = TupleGetItem(parts[0], new.index, new.span)
        return self._assigned(result, target) if target else result

    # ------------------------------------------------------------------ marks

    def _between(self, args: Sequence[Expr], target: str | None = None) -> tuple[str, list[Any]]:
        """The arguments, each ended for its own compiler and begun for that of their user: `target`,
        by default the one that all of them have."""
        ready: list[tuple[Any, bool]] = []  # an argument, and whether it is begun already
        seen: set[str] = set()
        for arg in args:
            own = DEFAULT
            if is_begin(arg):  # by an earlier run
                is_annotated = arg.attrs.compiler != DEFAULT
                ready.append((arg if is_annotated else arg.args[0], is_annotated))
                own = arg.args[0].attrs.compiler if is_end(arg.args[0]) else DEFAULT
            elif id(arg) in self.target:
                own = self.target[id(arg)]
                source = isinstance(arg, Call) and not arg.args  # such as zeros()
                ready.append((arg if source else annotation.compiler_end(arg, own), False))
            else:
                ready.append((arg, False))
            seen.add(own)
        if target is None:
            target = seen.pop() if len(seen) == 1 else DEFAULT if seen else ""
        begin = annotation.compiler_begin
        return target, [arg if begun else begin(arg, target) for arg, begun in ready]

    def _ended(self, node: Expr) -> Any:
        """An expression that is used by none of a region: ended for its own compiler."""
        if id(node) not in self.target and is_end(node) and node.attrs.compiler == DEFAULT:
            node = node.args[0]
        target = self.target.get(id(node))
        source = isinstance(node, Call) and not node.args
        source = source or (isinstance(node, Tuple) and not node.fields)
        if target is None or source:
            return node
        return self._assigned(annotation.compiler_end(node, target), target)
