"""`dump_ast`: the tree of a Relax program as text, node by node, under TVM's names of fields.

>>> from loopwright import relax
>>> x = relax.Var("x", relax.TensorStructInfo(ndim=1, dtype="float32"))
>>> print(dump_ast(relax.TupleGetItem(relax.Tuple([x]), 0), include_struct_info_annotations=False))
TupleGetItem(
    tuple_value=Tuple(fields=[Var(name_hint="x")]),
    index=0
)
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping

from ... import relax
from ...ir.expr import Attrs, GlobalVar
from ...ir.node import Node
from ...ir.op import Op
from ...ir.prim_expr import IntImm, PrimExpr
from ...relax import struct_info, types
from ...relax.expr import Function, MatchCast
from ...runtime import Tensor

# The fields shown of each kind of node, in this order; names and texts are quoted.
_FIELDS: dict[type, str] = {
    relax.Var: "name_hint",
    relax.DataflowVar: "name_hint",
    GlobalVar: "name_hint",
    relax.ExternFunc: "global_symbol",
    Op: "name",
    relax.Constant: "data",
    relax.PrimValue: "value",
    relax.StringImm: "value",
    relax.DataTypeImm: "value",
    relax.ShapeExpr: "values",
    relax.Tuple: "fields",
    relax.TupleGetItem: "tuple_value index",
    relax.Call: "op args sinfo_args attrs",
    relax.If: "cond true_branch false_branch",
    relax.SeqExpr: "blocks body",
    relax.Function: "params body ret_struct_info is_pure attrs",
    relax.BindingBlock: "bindings",
    relax.DataflowBlock: "bindings",
    relax.VarBinding: "var value",
    relax.MatchCast: "var value struct_info",
    struct_info.ObjectStructInfo: "",
    struct_info.PrimStructInfo: "dtype",
    struct_info.ShapeStructInfo: "ndim values",
    struct_info.TensorStructInfo: "dtype shape ndim",
    struct_info.TupleStructInfo: "fields",
    struct_info.FuncStructInfo: "params ret purity",
    types.ShapeType: "ndim",
    types.ObjectType: "",
    types.PackedFuncType: "",
    types.TensorType: "ndim dtype",
    types.TupleType: "fields",
    types.FuncType: "arg_types ret_type",
}
_QUOTED = {(kind, field) for kind in _FIELDS for field in ("name_hint", "global_symbol", "name")}
_QUOTED.add((relax.StringImm, "value"))
_WITHOUT_STRUCT_INFO = (relax.MatchCast, relax.ExternFunc)  # MatchCast has it as a field


class ASTPrinter:
    """Prints nodes; with or without struct infos, and attributes of calls."""

    def __init__(
        self,
        indent_str: str = "    ",
        include_struct_info_annotations: bool = True,
        include_call_attrs: bool = True,
    ) -> None:
        self.indent_str = indent_str
        self.include_struct_info_annotations = include_struct_info_annotations
        self.include_call_attrs = include_call_attrs

    def visit_expr(self, node: Node | int) -> str:
        """The text of an expression, a binding, a block, a type or struct info. Raises TypeError."""
        if isinstance(node, PrimExpr):
            return f"PrimExpr(value=`{node}`)"
        kind = next((k for k in type(node).__mro__ if k in _FIELDS), None)
        if kind is None:
            raise TypeError(f"dump_ast prints nodes of Relax\n  got: {type(node).__name__}")
        parts = [f"{name}={text}" for name, text in self._fields(kind, node)]
        block = isinstance(node, relax.BindingBlock)
        return self._list(parts, f"{kind.__name__}(", ")", apart=block or "\n" in "".join(parts))

    visit_type_ = visit_struct_info_ = visit_expr

    def _fields(self, kind: type, node: Node | int) -> Iterable[tuple[str, str]]:
        for name in _FIELDS[kind].split():
            value = getattr(node, name)
            if value is None or (name == "ndim" and getattr(node, "shape", None) is not None):
                continue
            if name in ("attrs", "sinfo_args") and not value:
                continue
            if name != "attrs" or kind is not relax.Call or self.include_call_attrs:
                yield name, f'"{value}"' if (kind, name) in _QUOTED else self._value(value)
        if self.include_struct_info_annotations and kind not in _WITHOUT_STRUCT_INFO:
            info = getattr(node, "struct_info", None)
            if info is not None:
                yield "struct_info", self.visit_expr(info)

    def _value(self, value: object) -> str:
        if isinstance(value, (Mapping, Attrs)):
            items = (f'"{key}": {self._attribute(item)}' for key, item in value.items())
            return self._list(items, "{", "}")
        if isinstance(value, (list, tuple)):
            return self._list(map(self._value, value), "[", "]")
        if isinstance(value, Tensor):
            return str(value.numpy())
        return self.visit_expr(value) if isinstance(value, Node) else str(value)

    def _attribute(self, value: IntImm | str | int) -> str:
        if isinstance(value, IntImm):
            value = bool(value.value) if value.dtype == "bool" else value.value
        return f'"{value}"' if isinstance(value, str) else str(value)

    def _list(self, items: Iterable[str], start: str, end: str, apart: bool = False) -> str:
        parts = list(items)
        if not parts or (len(parts) == 1 and not apart and "\n" not in parts[0]):
            return start + "".join(parts) + end
        body = textwrap.indent(",\n".join(parts), self.indent_str)
        return f"{start}\n{body}\n{end}"


def dump_ast(
    exp: Function | MatchCast | int,
    indent_str: str = "    ",
    include_struct_info_annotations: bool = True,
    include_call_attrs: bool = True,
) -> str:
    """The tree below an expression, a binding or a block as text. Raises TypeError."""
    return ASTPrinter(indent_str, include_struct_info_annotations, include_call_attrs).visit_expr(
        exp
    )
