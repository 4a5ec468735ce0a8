"""Tensors in other layouts: the query that passes send to an operator's hook `layout`, and its answer.

A layout names the axes of the plain tensor A, B, C, ... in the order in which they are stored: an
NCHW tensor stored as NHWC has the layout "ACDB", stored as NCHW16c "ABCD16b". The hook,

    @softmax.layout
    def _(call, query):
        ...  # (Call, LayoutQuery) -> LayoutPlan | None

is the fact "FRelaxInferLayout" of the operator; `ops.layout_rules` has those of families. BlockedLayout and
ConvertLayout query it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from ..base.foreign import named_errors
from ..ir.module import IRModule
from ..ir.op import Op
from ..tir import Layout
from ..tir import layout as layout_of
from .expr import Binding, BindingBlock, Call, DataflowVar, Expr, Function, Tuple, Var, VarBinding
from .functor import GraphRewriter
from .struct_info import TensorStructInfo

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
# The plain layouts of a convolution's data and weight.
PLAIN_CONVOLUTIONS = ("NCW", "OIW"), ("NCHW", "OIHW"), ("NCDHW", "OIDHW")


@dataclass(frozen=True)
class LayoutQuery:
    """The facts that a pass knows about a call.

    inputs: the layout in which each tensor among the arguments is available; None: plain.
    desired: names of layouts that the user requests for this operator: ("NHWC", "OHWI").
    block: the length of the requested channel blocks, 0 for none. The last block is padded
        with zeros: operators that may compute NaN or infinity from these answer None.
    """

    inputs: tuple[Layout | None, ...]
    desired: tuple[str, ...] = ()
    block: int = 0


@dataclass(frozen=True)
class LayoutPlan:
    """How a call is computed on tensors in other layouts.

    inputs: the layout that each tensor among the arguments must have; None: plain.
    outputs: the layout of each result.
    attrs: attributes with other values.
    args: arguments to be replaced, by index.
    moves_nothing: the result is the first tensor as it is stored, in another layout.
    elementwise: the loops are those of the plain call, over another shape.
    pixels: whether rows and columns may be one axis: "apart", "any", or "merged" where that is
        faster.
    """

    inputs: tuple[Layout | None, ...]
    outputs: tuple[Layout | None, ...]
    attrs: dict[str, Any] = field(default_factory=dict)
    args: dict[int, Any] = field(default_factory=dict)
    moves_nothing: bool = False
    elementwise: bool = False
    pixels: str = "apart"


Hook = Callable[[Call, LayoutQuery], LayoutPlan | None]


def plain(ndim: int) -> Layout:
    """The layout of a plain tensor: "ABCD"."""
    return layout_of(LETTERS[:ndim])


def rank(layout: Layout) -> int:
    """The rank of the plain tensor."""
    return sum(letter.isupper() for letter in layout)


def is_plain(layout: Layout | None) -> bool:
    """Whether a tensor of this layout is stored as its axes are numbered."""
    return layout is None or layout == LETTERS[: len(layout)]


def tensor_arguments(call: Call) -> list[Any]:
    """The tensors among a call's arguments, with the fields of tuples written in place."""
    tensors = []
    for arg in call.args:
        for leaf in arg.fields if isinstance(arg, Tuple) else (arg,):
            if isinstance(leaf.struct_info, TensorStructInfo):
                tensors.append(leaf)
    return tensors


def with_tensors(call: Call, tensors: list[Any], plan: LayoutPlan) -> Call:
    """The call with other tensors and with the plan's attributes and arguments."""
    rest = iter(tensors)
    args = []
    for index, arg in enumerate(call.args):
        if isinstance(arg, Tuple):
            fields = [
                next(rest) if isinstance(f.struct_info, TensorStructInfo) else f for f in arg.fields
            ]
            arg = Tuple(fields)
        elif isinstance(arg.struct_info, TensorStructInfo):
            arg = next(rest)
        args.append(plan.args.get(index, arg))
    if not plan.attrs:
        return call.replace(args=tuple(args))
    values = {**call.attrs.values, **plan.attrs}
    return call.replace(args=tuple(args), attrs=call.attrs.replace(values=values))


def _asked(hook: Hook, call: Call, query: LayoutQuery) -> LayoutPlan | None:
    with named_errors(lambda: f"the hook layout of {call.op.name}", hook, lambda: call.span):
        return hook(call, query)


class LayoutRewriter(GraphRewriter):
    """Keeps tensors in other layouts from one call to the next.

    Override `laid_out`, which returns the form of a variable in another layout, and `restore`,
    which returns the plain tensor of that; it is emitted where it is first needed.
    """

    def __init__(self, mod: IRModule) -> None:
        super().__init__(mod)
        self.laid: dict[Var, Any] = {}  # by the old variable
        self.plain: dict[Var, Any] = {}
        self.packed: dict[Any, Any] = {}  # plain tensors brought into a layout

    def laid_out(self, binding: VarBinding) -> Any:
        """The form of a bound value in another layout; an expression where its result is
        plain, None where the binding remains unchanged."""
        raise NotImplementedError

    def restore(self, laid: Any) -> Any:
        """The expression of the plain tensor."""
        raise NotImplementedError

    def plain_name(self, name: str) -> str:
        """The name of the plain tensor of a variable."""
        return f"{name}_plain"

    def hook(self, call: Call) -> Hook | None:
        """The called operator's hook, or None."""
        hook = call.op.get_attr("FRelaxInferLayout") if isinstance(call.op, Op) else None
        return None if hook is None else partial(_asked, hook)

    def function(self, func: Function) -> Function:
        self.laid, self.plain, self.packed = {}, {}, {}
        return super().function(func)

    def block(self, block: BindingBlock) -> BindingBlock:
        # These tensors are visible in this block only: later blocks see its outputs.
        outer = self.laid, self.plain, self.packed
        self.laid, self.plain, self.packed = (dict(table) for table in outer)
        rewritten = super().block(block)
        self.laid, self.plain, self.packed = outer
        return rewritten

    def binding(self, binding: Binding) -> None:
        laid = self.laid_out(binding) if isinstance(binding, VarBinding) else None
        if laid is None:
            super().binding(binding)
        elif isinstance(laid, Expr):
            self.emit(binding, laid)
        else:
            self.laid[binding.var] = laid
            if not isinstance(binding.var, DataflowVar):
                self.emit(binding, self.restore(laid))
                self.plain[binding.var] = self.var_map.get(binding.var, binding.var)

    def value(self, expr: Any) -> Any:
        if type(expr) in Var.__kinds__ and expr in self.laid:
            if expr not in self.plain:
                restored = self.restore(self.laid[expr])
                self.plain[expr] = self.builder.emit(restored, self.plain_name(expr.name_hint))
            return self.plain[expr]
        return super().value(expr)
