"""`te.hybrid.build`: a schedule as the source of a hybrid script, which can be saved, loaded, run on numpy
arrays and called on tensors."""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ...base.errors import CallValueError, explain
from ...base.names import free_name
from ...ir import prim_expr as pe
from ...te.tensor import Tensor
from ...tir import stmt as st
from ...tir.buffer import DataProducer
from ...tir.expr import ProducerLoad
from .hybrid_parser import HybridScript
from .producer import ProducerRealize, ProducerStore

_INFIX: dict[type, str] = {
    pe.Add: "+", pe.Sub: "-", pe.Mul: "*", pe.Div: "/", pe.FloorDiv: "//", pe.FloorMod: "%",
    pe.Mod: "%", pe.EQ: "==", pe.NE: "!=", pe.LT: "<", pe.LE: "<=", pe.GT: ">", pe.GE: ">=",
    pe.And: "and", pe.Or: "or",
}  # fmt: skip
_LOOPS = {
    st.ForKind.SERIAL: "range",
    st.ForKind.PARALLEL: "parallel",
    st.ForKind.VECTORIZED: "vectorize",
    st.ForKind.UNROLLED: "unroll",
}


class Source:
    """Writes statements on tensors as the lines of a hybrid script. names: of its variables and tensors;
    used: all names that are in use; depth: of the indentation."""

    def __init__(self) -> None:
        self.names: dict[Any, str] = {}
        self.used: set[str] = {"tvm"}
        self.lines: list[str] = []
        self.depth = 1

    def name(self, of: pe.Var | DataProducer, hint: str) -> str:
        """The name of a tensor or a variable, chosen like `hint` at its first use."""
        if of not in self.names:
            name = free_name(re.sub(r"\W", "_", hint), self.used)
            self.used.add(name)
            self.names[of] = name
        return self.names[of]

    def line(self, text: str) -> None:
        """Add a line at the current indentation."""
        self.lines.append("    " * self.depth + text)

    def block(self, head: str, body: st.Stmt) -> None:
        """Add a compound statement: its head, and its body indented below."""
        self.line(head)
        self.depth += 1
        count = len(self.lines)
        self.stmt(body)
        if len(self.lines) == count:
            self.line("pass")
        self.depth -= 1

    def stmt(self, node: st.Stmt) -> None:
        """Write a statement. Raises ValueError for one that hybrid scripts do not have."""
        if isinstance(node, st.SeqStmt):
            for part in node.seq:
                self.stmt(part)
        elif isinstance(node, ProducerRealize):
            if node.producer not in self.names:
                tensor: Any = node.producer
                name = self.name(tensor, tensor.name)
                ends = [self.expr(r.min + r.extent) for r in node.bounds]
                self.line(f'{name} = allocate(({", ".join(ends)},), "{tensor.dtype}")')
            self.stmt(node.body)
        elif isinstance(node, ProducerStore):
            self.line(f"{self.element(node.producer, node.indices)} = {self.expr(node.value)}")
        elif isinstance(node, st.For):
            kind = _LOOPS.get(node.kind)
            if kind is None:
                raise self.unknown(node)
            name = self.name(node.loop_var, node.loop_var.name)
            end = self.expr(node.min + node.extent)
            self.block(f"for {name} in {kind}({self.expr(node.min)}, {end}):", node.body)
        elif isinstance(node, st.IfThenElse):
            self.block(f"if {self.expr(node.condition)}:", node.then_case)
            if node.else_case is not None:
                self.block("else:", node.else_case)
        elif isinstance(node, st.AssertStmt):
            self.line(f"assert {self.expr(node.condition)}, {self.expr(node.message)}")
            self.stmt(node.body)
        elif isinstance(node, st.AttrStmt) and node.attr_key == "thread_extent":
            name, tag = self.name(node.node.var, node.node.var.name), node.node.thread_tag
            self.block(f'for {name} in bind("{tag}", {self.expr(node.value)}):', node.body)
        elif isinstance(node, st.Evaluate):
            if not isinstance(node.value, pe.IntImm):
                raise self.unknown(node)
        else:
            raise self.unknown(node)

    def unknown(self, node: st.Stmt | pe.PrimExpr) -> CallValueError:
        """The error for a node that hybrid scripts do not have."""
        what = f"a hybrid script has no {type(node).__name__}"
        return CallValueError(explain(what, got=str(node)[:80], instead="te.build"))

    def element(self, tensor: Any, indices: Sequence[Any]) -> str:
        """An element of a tensor as Python."""
        return f"{self.name(tensor, tensor.name)}[{', '.join(map(self.expr, indices))}]"

    def expr(self, node: pe.PrimExpr) -> str:
        """An expression as Python. Raises ValueError for one that hybrid scripts do not have."""
        if isinstance(node, pe.IntImm):
            return str(bool(node.value)) if node.dtype.is_bool else str(node.value)
        if isinstance(node, (pe.FloatImm, pe.StringImm)):
            return repr(node.value)
        if isinstance(node, pe.Var):
            return self.name(node, node.name)
        if isinstance(node, ProducerLoad):
            return self.element(node.producer, node.indices)
        if type(node) in _INFIX:
            return f"({self.expr(node.a)} {_INFIX[type(node)]} {self.expr(node.b)})"
        if isinstance(node, (pe.Min, pe.Max)):
            return f"{type(node).__name__.lower()}({self.expr(node.a)}, {self.expr(node.b)})"
        if isinstance(node, pe.Not):
            return f"(not {self.expr(node.a)})"
        if isinstance(node, pe.Cast):
            return f"{node.dtype}({self.expr(node.value)})"
        if isinstance(node, pe.Select):
            parts = (node.true_value, node.condition, node.false_value)
            yes, test, no = map(self.expr, parts)
            return f"({yes} if {test} else {no})"
        if isinstance(node, pe.Call):
            name = getattr(node.op, "name", "").removeprefix("tir.").replace("pow", "power")
            return f"{name}({', '.join(map(self.expr, node.args))})"
        raise self.unknown(node)


class HybridModule:
    """A hybrid script with its source: called like a `HybridScript`, saved and loaded as text.

    src: the source of one function, which is executed here. name: instead of the function's. Raises
    ValueError for another number of functions; a call raises it if no source is loaded.
    """

    def __init__(self, src: str | None = None, name: str | None = None) -> None:
        self.name = name
        self.src_ = ""
        self.script: HybridScript | None = None
        if src is not None:
            self.read(src)

    def read(self, text: str) -> None:
        """Replace the source and execute it. Raises ValueError if it is not of one function."""
        nodes = [n for n in ast.parse(text).body if isinstance(n, ast.FunctionDef)]
        if len(nodes) != 1:
            what = "a hybrid module is the source of one function"
            raise CallValueError(explain(what, got=f"{len(nodes)} functions"))
        (node,) = nodes
        node.decorator_list = []
        source = ast.unparse(node)
        scope: dict[str, Any] = {}
        exec(compile(source, f"<{node.name}>", "exec"), scope)  # the user's own script
        self.src_, self.name = text, self.name or node.name
        self.script = HybridScript(scope[node.name], source)

    def __call__(self, *args: Tensor | np.ndarray[Any, Any]) -> Any:
        if self.script is None:
            raise CallValueError(explain("the module has no source", instead="load one"))
        return self.script(*args)

    def get_source(self) -> str:
        """The source."""
        return self.src_

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the source to a file; ".py" is appended to another name."""
        name = os.fspath(path)
        Path(name if name.endswith(".py") else f"{name}.py").write_text(self.src_, encoding="utf-8")

    def load(self, path: str | os.PathLike[str]) -> None:
        """Replace the source by a file's and execute it."""
        self.read(Path(path).read_text(encoding="utf-8"))


def source_of(
    body: st.Stmt, inputs: Sequence[Any], outputs: Sequence[Tensor], name: str
) -> HybridModule:
    """The hybrid module `name` of a schedule's statements, from input to output tensors."""
    source = Source()
    params = [source.name(a, a.name) for a in inputs]
    for tensor in outputs:
        shape = ", ".join(map(source.expr, tensor.shape))
        label = source.name(tensor, tensor.name)
        source.line(f'{label} = output_tensor(({shape},), "{tensor.dtype}")')
    source.stmt(body)
    source.line(f"return {', '.join(source.names[t] for t in outputs)}")
    head = f"@tvm.te.hybrid.script\ndef {name}({', '.join(params)}):\n"
    text = "import tvm\n" + head + "\n".join(source.lines) + "\n"
    return HybridModule(text, name)
