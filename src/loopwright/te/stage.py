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
    """How one operation is computed: its loops in order, `leaf_iter_vars`, and its placement.

    `op` is the operation as currently computed; `origin_op` is the original one,
    from which `cache_write` and `rfactor` have split off parts.
    """

    def __init__(self, op: Operation, in_scan: bool = False) -> None:
        self.origin_op = op
        self.op = op
        self.in_scan = in_scan  # its first axis is the scan's row, not a loop
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

    @property
    def is_scheduled(self) -> bool:
        """Whether anything says how the operation is computed."""
        moved = self.attach is not None or self.is_inline or self.doubled or bool(self.scope)
        return moved or bool(self.steps or self.notes) or self.predicate is not None

    # -- loops -----------------------------------------------------------------------------------

    def split(
        self,
        parent: IterVar,
        factor: Any = None,
        nparts: Any = None,
        disable_predication: Any = False,
    ) -> tuple[IterVar, IterVar]:
        """(outer, inner) loops: inner with `factor` iterations, or outer with `nparts`.

        `disable_predication` is TVM's and has no effect: iterations beyond the end never run.
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
        """One loop for several adjacent ones."""
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
        """Permute the given loops into this order."""
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
        """Store and compute the result in the order given by `mapping_function(*axes)`.

        Returns the loops of the new dimensions; `te.AXIS_SEPARATOR` among them groups the
        dimensions of memory. An argument of `lower` gets the new shape. Must precede the stage's
        other steps.
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
        """Vectorize a loop."""
        self.mark("vectorize", var)

    def parallel(self, var: IterVar) -> None:
        """Run a loop's iterations in parallel."""
        self.mark("parallel", var)

    def unroll(self, var: IterVar) -> None:
        """Unroll a loop."""
        self.mark("unroll", var)

    def bind(self, ivar: IterVar, thread_ivar: IterVar | str) -> None:
        """Bind a loop to threads."""
        self.mark("bind", ivar, thread_ivar)

    def pragma(self, var: IterVar, pragma_type: str, pragma_value: Any = None) -> None:
        """Annotate a loop for the passes."""
        value = 1 if pragma_value is None else pragma_value
        self.mark("annotate", var, f"pragma_{pragma_type}", value)

    def prefetch(self, tensor: Tensor, var: IterVar, offset: int) -> None:
        """A hint that what iteration `var + offset` reads of `tensor` is needed soon. It is kept as
        an annotation of the loop; no code is generated, because processors prefetch by
        themselves."""
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
        """Compute within a consumer's loop what one iteration needs."""
        if not isinstance(parent, Stage):
            what = "compute_at takes a stage"
            raise TypeError(explain(what, got=type(parent).__name__, instead="s[C]"))
        if parent is self:
            what = f"compute_at: {self.origin_op.name} cannot be computed inside of itself"
            raise ValueError(explain(what, instead="a stage that reads it"))
        parent.position(scope)
        self.attach, self.is_inline = (parent, scope), False

    def compute_inline(self) -> None:
        """Compute each element at its uses."""
        if self.op.reduce_axis:
            what = f"compute_inline: {self.origin_op.name} is a reduction"
            raise ValueError(
                explain(what, got="an element that takes a loop", instead="compute_at")
            )
        self.is_inline, self.attach = True, None

    def compute_root(self) -> None:
        """Compute everything before its consumers (the default)."""
        self.is_inline, self.attach = False, None

    # -- its memory ------------------------------------------------------------------------------

    def set_scope(self, scope: str) -> None:
        """Store the result in another memory scope."""
        self.scope = scope

    def storage_align(self, axis: IterVar, factor: int, offset: int) -> None:
        """Set the stride of dimension `axis` of the result to k * factor + offset."""
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
        """Compute the next iteration's part of the result while the current one is used: two
        buffers alternate. For a stage that is computed at a loop of its consumer."""
        self.doubled = True

    def rolling_buffer(self) -> None:
        """Keep the data shared by neighbouring iterations of the consumer's loop. After
        `compute_at`."""
        self.notes.append(("rolling_buffer", (0,)))

    def set_store_predicate(self, predicate: Any) -> None:
        """Store only if `predicate`, over the variables of the stage's loops, holds. Other elements
        keep their value."""
        self.predicate = convert(predicate)

    def env_threads(self, threads: Any) -> None:
        """Threads around a whole stage. Raises ValueError: loops are bound to threads here."""
        tags = [getattr(t, "thread_tag", str(t)) for t in threads]
        what = f"env_threads: no threads are launched around {self.origin_op.name}"
        hint = "bind the loops of the stages inside of it"
        raise ValueError(explain(what, got=", ".join(tags), instead=hint))

    # -- bookkeeping -----------------------------------------------------------------------------

    def position(self, var: Any) -> int:
        """The position of a loop. Raises ValueError if it is not a loop of this stage."""
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
            what = f"the rows of stage {self.origin_op.name} are iterated by the scan"
        raise ValueError(explain(what, got=var.var.name, instead=hint))

    def replace(self, at: int, count: int, *loops: IterVar) -> None:
        """Replace loops by new ones. Raises ValueError if a loop kind has already been set."""
        gone = self.leaf_iter_vars[at : at + count]
        for name, args in self.steps:
            if name not in MOVES and any(args[0] is v for v in gone):
                what = f"loop {args[0].var.name} of {self.origin_op.name} has its {name} already"
                hint = f"split, fuse and transform before {name}"
                raise ValueError(explain(what, instead=hint))
        self.leaf_iter_vars[at : at + count] = loops
        self.all_iter_vars += loops

    def mark(self, step: str, var: IterVar, *rest: Any) -> None:
        """Record a loop kind."""
        self.position(var)
        self.steps.append((step, (var, *rest)))

    def computes(self, op: Operation) -> None:
        """From now on the stage computes `op`, the rest of its original operation."""
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
