"""A stage: how one operation of a schedule is computed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..base.errors import explain
from ..ir.dtype import DataType
from ..ir.prim_expr import IntImm, IterVar, PrimExpr, Range, Var
from ..ir.prim_op import ceildiv, const, convert, multiply
from ..tir.index_map import IndexMap
from .scan import ScanOp
from .tensor import Operation, Tensor

MOVES = ("split", "fuse", "reorder", "transform_layout")


class Stage:
    """How one operation is computed: its loops in order, `leaf_iter_vars`, and where it is placed.

    `op` is the operation as it is computed now; `origin_op` is the one the schedule began with,
    from which `cache_write` and `rfactor` have taken parts.
    """

    def __init__(self, op: Operation, in_scan: bool = False) -> None:
        self.origin_op = op
        self.op = op
        self.in_scan = in_scan  # its first axis is the row that a scan computes, no loop of it
        self.leaf_iter_vars: list[IterVar] = first_loops(op)[int(in_scan) :]
        self.all_iter_vars: list[IterVar] = list(self.leaf_iter_vars)
        self.attach: tuple[Stage, IterVar] | None = None
        self.is_inline = False
        self.scope = ""
        self.steps: list[tuple[str, tuple[Any, ...]]] = []
        self.notes: list[tuple[str, tuple[Any, ...]]] = []
        self.predicate: PrimExpr | None = None
        self.doubled = False

    def __repr__(self) -> str:
        return f"stage({self.origin_op.name})"

    # -- loops -----------------------------------------------------------------------------------

    def split(
        self,
        parent: IterVar,
        factor: Any = None,
        nparts: Any = None,
        disable_predication: Any = False,
    ) -> tuple[IterVar, IterVar]:
        """(outer, inner) loops for one: inner of `factor` iterations, or outer of `nparts`.

        `disable_predication` is TVM's and has no effect: iterations beyond the end are never run.
        """
        if (factor is None) == (nparts is None):
            what = "split takes the inner extent or the number of parts"
            raise ValueError(explain(what, got=f"factor={factor}, nparts={nparts}"))
        given = factor if nparts is None else nparts
        if isinstance(given, (int, IntImm)) and int(given) < 1:
            what = f"split of {parent.var.name}: the factor is 1 or more"
            raise ValueError(explain(what, got=str(given)))
        at = self.position(parent)
        kind, size = parent.var.dtype, parent.dom.extent
        part = convert(given).astype(kind) if isinstance(given, PrimExpr) else const(given, kind)
        rest = ceildiv(size, part)
        extents = (rest, part) if nparts is None else (part, rest)
        outer, inner = (
            _loop(f"{parent.var.name}_{what}", parent, extent)
            for what, extent in zip(("outer", "inner"), extents, strict=True)
        )
        self.replace(at, 1, outer, inner)
        self.steps.append(("split", (parent, outer, inner, factor, nparts)))
        return outer, inner

    def fuse(self, *args: IterVar) -> IterVar:
        """One loop for several that follow each other."""
        if not args:
            raise ValueError(explain("fuse takes loops", got="none"))
        at = self.position(args[0])
        if [id(v) for v in self.leaf_iter_vars[at : at + len(args)]] != [id(v) for v in args]:
            what = f"fuse takes loops of {self.origin_op.name} that follow each other"
            got = ", ".join(v.var.name for v in args)
            raise ValueError(explain(what, got=got, instead="reorder them before"))
        if len({v.iter_type for v in args}) > 1:
            what = f"fuse in {self.origin_op.name}: loops of the result, or of the reduction"
            got = ", ".join(v.var.name for v in args)
            raise ValueError(explain(what, got=got, instead="fuse each kind by itself"))
        name = "_".join(v.var.name for v in args) + "_fused"
        size = args[0].dom.extent
        for v in args[1:]:
            size = multiply(size, v.dom.extent)
        fused = _loop(name, args[0], size)
        self.replace(at, len(args), fused)
        self.steps.append(("fuse", (args, fused)))
        return fused

    def reorder(self, *args: IterVar) -> None:
        """The given loops take each other's places, in this order."""
        places = sorted({self.position(v) for v in args})
        if len(places) != len(args):
            what = f"reorder in {self.origin_op.name} names each loop once"
            raise ValueError(explain(what, got=", ".join(v.var.name for v in args)))
        for place, var in zip(places, args, strict=True):
            self.leaf_iter_vars[place] = var
        self.steps.append(("reorder", args))

    def tile(
        self, x_parent: IterVar, y_parent: IterVar, x_factor: int, y_factor: int
    ) -> tuple[IterVar, IterVar, IterVar, IterVar]:
        """(x outer, y outer, x inner, y inner)."""
        xo, xi = self.split(x_parent, x_factor)
        yo, yi = self.split(y_parent, y_factor)
        self.reorder(xo, yo, xi, yi)
        return xo, yo, xi, yi

    def transform_layout(self, mapping_function: Callable[..., Any]) -> list[IterVar]:
        """Store the result, and go over it, in the order that `mapping_function(*axes)` gives.

        The loops of the new dimensions; `te.AXIS_SEPARATOR` among them groups the dimensions of
        memory. An argument of `lower` gets the new shape. It comes before the stage's other steps.
        """
        if self.steps:
            what = f"transform_layout of {self.origin_op.name} comes before its other steps"
            raise ValueError(explain(what, got=", ".join(name for name, _ in self.steps)))
        if self.in_scan:
            what = f"transform_layout: {self.origin_op.name} is computed row by row"
            raise ValueError(explain(what, instead="transform the layout of the scan's readers"))
        axes = list(self.op.axis)
        index_map, _ = IndexMap.from_func_with_separators(mapping_function, ndim=len(axes))
        shape = index_map.map_shape([a.dom.extent for a in axes])
        names = [f"axis{n}" for n in range(len(shape))]
        loops = [_loop(name, axes[0], e) for name, e in zip(names, shape, strict=True)]
        self.replace(0, len(axes), *loops)
        self.steps.append(("transform_layout", (mapping_function, len(axes), loops)))
        return loops

    # -- how loops run ---------------------------------------------------------------------------

    def vectorize(self, var: IterVar) -> None:
        """Run a loop as one vector operation."""
        self.mark("vectorize", var)

    def parallel(self, var: IterVar) -> None:
        """Run a loop's iterations on several threads."""
        self.mark("parallel", var)

    def unroll(self, var: IterVar) -> None:
        """Repeat a loop's body in the code."""
        self.mark("unroll", var)

    def bind(self, ivar: IterVar, thread_ivar: IterVar | str) -> None:
        """Give a loop's iterations to threads."""
        self.mark("bind", ivar, thread_ivar)

    def pragma(self, var: IterVar, pragma_type: str, pragma_value: Any = None) -> None:
        """A note on a loop for the passes."""
        value = 1 if pragma_value is None else pragma_value
        self.mark("annotate", var, f"pragma_{pragma_type}", value)

    def prefetch(self, tensor: Tensor, var: IterVar, offset: int) -> None:
        """A hint: of `tensor`, what iteration `var + offset` reads is wanted soon. It is kept as
        a note on the loop; processors fetch ahead by themselves and no code comes of it."""
        if not isinstance(tensor, Tensor):
            what = f"prefetch in {self.origin_op.name} takes a tensor"
            raise TypeError(explain(what, got=type(tensor).__name__))
        self.mark("annotate", var, f"prefetch_{tensor.op.name}", offset)

    def tensorize(self, var: IterVar, tensor_intrin: Any) -> None:
        """Replace the loops from `var` inwards by a `te.decl_tensor_intrin`, a
        `tir.TensorIntrin`, or the name of one."""
        self.mark("tensorize", var, tensor_intrin)

    # -- where it is computed --------------------------------------------------------------------

    def compute_at(self, parent: Stage, scope: IterVar) -> None:
        """Compute what one iteration of a consumer's loop needs, within it."""
        if not isinstance(parent, Stage):
            what = "compute_at takes a stage"
            raise TypeError(explain(what, got=type(parent).__name__, instead="s[C]"))
        if parent is self:
            what = f"compute_at: {self.origin_op.name} cannot be computed inside of itself"
            raise ValueError(explain(what, instead="a stage that reads it"))
        parent.position(scope)
        self.attach, self.is_inline = (parent, scope), False

    def compute_inline(self) -> None:
        """Compute each element where it is used."""
        if self.op.reduce_axis:
            what = f"compute_inline: {self.origin_op.name} is a reduction"
            raise ValueError(
                explain(what, got="an element that takes a loop", instead="compute_at")
            )
        self.is_inline, self.attach = True, None

    def compute_root(self) -> None:
        """Compute all of it before its consumers; how stages begin."""
        self.is_inline, self.attach = False, None

    # -- its memory ------------------------------------------------------------------------------

    def set_scope(self, scope: str) -> None:
        """Keep the result in another memory."""
        self.scope = scope

    def storage_align(self, axis: IterVar, factor: int, offset: int) -> None:
        """Have the stride of dimension `axis` of the result be k * factor + offset."""
        dims = self.op.axis[1:] if self.in_scan else self.op.axis
        for n, own in enumerate(dims):
            if own is axis:
                self.notes.append(("storage_align", (0, n, factor, offset)))
                return
        what = f"storage_align takes an axis of the result of {self.origin_op.name}"
        known = ", ".join(v.var.name for v in dims)
        got = axis.var.name if isinstance(axis, IterVar) else type(axis).__name__
        raise ValueError(explain(what, got=got, instead=f"one of {known}"))

    def double_buffer(self) -> None:
        """Compute the next iteration's part of the result while this one's is used: two buffers
        take turns. For a stage that is computed at a loop of its consumer."""
        self.doubled = True

    def rolling_buffer(self) -> None:
        """Keep what neighbouring iterations of the consumer's loop share. After `compute_at`."""
        self.notes.append(("rolling_buffer", (0,)))

    def set_store_predicate(self, predicate: Any) -> None:
        """Store only where `predicate`, over the variables of the stage's loops, holds. What the
        others would have written is left as it was."""
        self.predicate = convert(predicate)

    def env_threads(self, threads: Any) -> None:
        """Threads around a whole stage. Raises ValueError: loops are given to threads here."""
        tags = [getattr(t, "thread_tag", str(t)) for t in threads]
        what = f"env_threads: no threads are launched around {self.origin_op.name}"
        hint = "bind the loops of the stages inside of it"
        raise ValueError(explain(what, got=", ".join(tags), instead=hint))

    # -- bookkeeping -----------------------------------------------------------------------------

    def position(self, var: Any) -> int:
        """Where a loop stands. Raises ValueError for one that is not a loop of this stage."""
        for n, leaf in enumerate(self.leaf_iter_vars):
            if leaf is var:
                return n
        known = ", ".join(v.var.name for v in self.leaf_iter_vars)
        hint = f"its loops are {known}" if known else "it has no loops"
        if not isinstance(var, IterVar):
            what = f"a step on stage {self.origin_op.name} takes one of its loops"
            raise TypeError(explain(what, got=type(var).__name__, instead=hint))
        gone = any(v is var for v in self.all_iter_vars)
        what = f"no loop of stage {self.origin_op.name}" + (
            " any more: it was split or fused" if gone else ""
        )
        if self.in_scan and var is self.op.axis[0]:
            what = f"the rows of stage {self.origin_op.name} are gone over by the scan"
        raise ValueError(explain(what, got=var.var.name, instead=hint))

    def replace(self, at: int, count: int, *loops: IterVar) -> None:
        """New loops in the place of some. Raises ValueError where it is said how those run."""
        gone = self.leaf_iter_vars[at : at + count]
        for name, args in self.steps:
            if name not in MOVES and any(args[0] is v for v in gone):
                what = f"loop {args[0].var.name} of {self.origin_op.name} has its {name} already"
                hint = f"split, fuse and transform before {name}"
                raise ValueError(explain(what, instead=hint))
        self.leaf_iter_vars[at : at + count] = loops
        self.all_iter_vars += loops

    def mark(self, step: str, var: IterVar, *rest: Any) -> None:
        """A step on how a loop runs."""
        self.position(var)
        self.steps.append((step, (var, *rest)))

    def computes(self, op: Operation) -> None:
        """From now on the stage computes `op`, the rest of what it did."""
        self.op = op
        kept = [v for v in self.leaf_iter_vars if v.iter_type != IterVar.CommReduce]
        self.leaf_iter_vars = [*kept, *op.reduce_axis]
        self.all_iter_vars += op.reduce_axis


def first_loops(op: Operation) -> list[IterVar]:
    """The loops of an operation before any step."""
    if isinstance(op, ScanOp):
        return [op.scan_axis]
    return [*op.axis, *op.reduce_axis]


def _loop(name: str, like: IterVar, extent: Any) -> IterVar:
    kind: DataType = like.var.dtype
    domain = Range.from_min_extent(const(0, kind), extent)
    return IterVar(domain, Var(name, kind), like.iter_type)


__all__ = ["MOVES", "Stage", "first_loops"]
