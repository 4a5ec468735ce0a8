"""Options of the printer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...base.errors import LoopwrightError, explain


@dataclass
class PrinterConfig:
    """How to print. The names are TVM's.

    name: of the function or module printed. show_meta: print large constants too, as JSON.
    module_alias: the local name of the module in Relax functions ("" prints the module's name).
    buffer_dtype, int_dtype, float_dtype: literals and buffers of these types need no type.
    verbose_expr: print the definitions of an expression's free variables before it.
    num_context_lines: lines around an underlined one (-1: all). syntax_sugar: short forms such as
    T.grid and T.axis.remap. show_all_struct_info: annotate Relax variables even where their
    struct info follows from the value. path_to_*: paths such as "<root>.body.seq[1]"
    (`ir.assert_structural_equal` names them); obj_to_*: nodes.
    """

    name: str | None = None
    show_meta: bool = False
    ir_prefix: str = "I"
    tir_prefix: str = "T"
    relax_prefix: str = "R"
    module_alias: str = "cls"
    buffer_dtype: str = "float32"
    int_dtype: str = "int32"
    float_dtype: str = "void"
    verbose_expr: bool = False
    indent_spaces: int = 4
    print_line_numbers: bool = False
    num_context_lines: int | None = -1
    syntax_sugar: bool = True
    show_object_address: bool = False
    show_all_struct_info: bool = True
    path_to_underline: Sequence[Any] | None = None
    path_to_annotate: Mapping[Any, str] | None = None
    obj_to_underline: Sequence[Any] | None = None
    obj_to_annotate: Mapping[Any, str] | None = None
    binding_names: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        for which in ("ir_prefix", "tir_prefix", "relax_prefix", "module_alias"):
            text = getattr(self, which)
            if not text.isidentifier() and (text or which != "module_alias"):
                what = f"{which} must be an identifier"
                raise LoopwrightError(explain(what, got=repr(text), instead='use one like "T"'))
        if self.num_context_lines is None:
            self.num_context_lines = -1
        if self.name:
            self.binding_names.append(self.name)
