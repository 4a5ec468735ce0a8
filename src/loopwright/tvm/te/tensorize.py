"""Which parts of tensors an intrinsic in place of loops works on, and whether it computes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...arith import Analyzer
from ...arith.int_set import union_interval
from ...base.errors import CallValueError, explain
from ...ir.functor import nodes_of, rewrite
from ...ir.node import Node
from ...ir.prim_expr import Cast, IntImm, IterVar, PrimExpr, Range, Var
from ...ir.prim_op import add, const, subtract
from ...ir.structural import structural_equal
from ...ir.variables import substitute, vars_in
from ...te.tensor import ComputeOp, Tensor
from ...tir.buffer import Buffer
from ...tir.expr import ProducerLoad, Reduce
from .relations import Sets, Values, is_const, pass_up_sets, point, whole
from .stage import Stage
from .tensor_intrin import TensorIntrin

Bind = tuple[Buffer, Tensor, Sequence[Range]]


class Tensorized:
    """The loops of a stage from `at` on, as one part of its result; `values` are those of the loops
    around them."""

    def __init__(
        self, stage: Stage, doms: Mapping[IterVar, Range], at: int, values: Values
    ) -> None:
        op = stage.op
        assert isinstance(op, ComputeOp)
        self.stage, self.op = stage, op
        sets: Sets = {v: point(values[v]) for v in stage.leaf_iter_vars[:at]}
        sets.update({v: whole(doms[v]) for v in stage.leaf_iter_vars[at:]})
        pass_up_sets(stage, dict(doms), sets)
        self.ana = Analyzer()
        for v in stage.leaf_iter_vars[:at]:
            self.ana.bind(v.var, doms[v])
        self.domain = {v: self.simple(sets[v].cover_range(v.dom)) for v in op.root_iter_vars}
        self.reads = self.read()

    def simple(self, rng: Range) -> Range:
        ends = (self.ana.simplify(e) for e in (rng.min, rng.extent))
        return Range.from_min_extent(*ends)

    def read(self) -> dict[Tensor, list[Range]]:
        """The part of each input that is read."""
        inside = {v.var: rng for v, rng in self.domain.items()}
        dims_of: dict[Tensor, list[list[Any]]] = {
            t: [[] for _ in t.shape] for t in self.op.input_tensors
        }
        for node in nodes_of(self.op.body, ProducerLoad):
            tensor: Any = node.producer
            for dim, index in zip(dims_of[tensor], node.indices, strict=True):
                dim.append(self.ana.int_set(index, inside))
        from_sets = {}
        for tensor, dims in dims_of.items():
            ranges = []
            for sets, extent in zip(dims, tensor.shape, strict=True):
                total = sets[0]
                for one in sets[1:]:
                    total = union_interval(self.ana, total, one)
                ranges.append(self.simple(total.cover_range(Range.upto(extent))))
            from_sets[tensor] = ranges
        return from_sets

    def binds(self, intrin: TensorIntrin) -> list[Bind]:
        """The regions that the intrinsic's buffers are bound to. Raises ValueError if it computes
        something else."""
        inputs = self.op.input_tensors
        intrin_inputs = intrin.op.input_tensors
        if len(inputs) != len(intrin_inputs):
            self.refuse(intrin, f"{len(inputs)} tensors are read", f"{len(intrin_inputs)}")
        self.match(intrin)
        out = [self.domain[a] for a in self.op.axis]
        pairs = zip(intrin.buffers, inputs, strict=False)
        return [
            *((view, t, self.reads[t]) for view, t in pairs),
            (intrin.buffers[-1], self.op.output(0), out),
        ]

    def match(self, intrin: TensorIntrin) -> None:
        """Compare the elements of the part with those of the intrinsic."""
        bodies = self.op.body
        moved: dict[Var, PrimExpr] = {}
        axes = zip((self.op.axis, self.op.reduce_axis), (intrin.op.axis, intrin.op.reduce_axis))
        for own_axes, intrin_axes in axes:
            self.align(intrin, own_axes, intrin_axes, moved)
        tensors = dict(zip(self.op.input_tensors, intrin.op.input_tensors, strict=True))
        body = self.inside(intrin, bodies[0], moved, tensors)
        pattern: Any = intrin.op.body[0]
        ana = Analyzer()
        for a in intrin.op.root_iter_vars:
            ana.bind(a.var, a.dom)
        if isinstance(body, Reduce) != isinstance(pattern, Reduce):
            self.refuse(intrin, str(body), str(pattern))
        if isinstance(body, Reduce):
            same = structural_equal(body.combiner, pattern.combiner)
            pairs = [*zip(body.source, pattern.source), (body.condition, pattern.condition)]
        else:
            same, pairs = True, [(body, pattern)]
        for a, b in pairs:
            left, right = (ana.simplify(_narrow(e)) for e in (a, b))
            if not same or not structural_equal(left, right):
                self.refuse(intrin, str(left), str(right))

    def align(
        self,
        intrin: TensorIntrin,
        own_axes: Sequence[IterVar],
        intrin_axes: Sequence[IterVar],
        moved: dict[Var, PrimExpr],
    ) -> None:
        """Give the last axes the intrinsic's; the others are at one value."""
        count = len(own_axes) - len(intrin_axes)
        if count < 0:
            self.refuse(intrin, f"{len(own_axes)} axes", f"{len(intrin_axes)}")
        for n, axis in enumerate(own_axes):
            rng = self.domain[axis]
            if n < count:
                if not is_const(rng.extent, 1):
                    got = f"{rng.extent} in the program along {axis.var.name}"
                    self.refuse(intrin, got, "1 in the intrinsic")
                moved[axis.var] = rng.min
                continue
            other = intrin_axes[n - count]
            if not self.ana.can_prove_equal(rng.extent, other.dom.extent):
                got = f"{rng.extent} in the program along {axis.var.name}"
                self.refuse(intrin, got, f"{other.dom.extent} in the intrinsic")
            moved[axis.var] = add(rng.min, subtract(other.var, other.dom.min))

    def inside(
        self,
        intrin: TensorIntrin,
        expr: PrimExpr,
        moved: dict[Var, PrimExpr],
        tensors: Mapping[Tensor, Tensor],
    ) -> PrimExpr:
        """An element by the intrinsic's axes, reading its tensors from the parts' begin."""

        def post(node: Node) -> Any:
            if not isinstance(node, ProducerLoad):
                return None
            tensor: Any = node.producer
            other, ranges = tensors[tensor], self.reads[tensor]
            start = len(ranges) - other.ndim
            if start < 0 or any(not is_const(r.extent, 1) for r in ranges[:start]):
                got = f"{[str(r.extent) for r in ranges]} of {tensor.op.name}"
                self.refuse(intrin, got, f"{other.ndim} dimensions of {other.op.name}")
            indices = [
                subtract(i, r.min)
                for i, r in zip(node.indices[start:], ranges[start:], strict=True)
            ]
            return ProducerLoad._make(other, tuple(indices))

        return substitute(rewrite(expr, post), moved)

    def refuse(self, intrin: TensorIntrin, got: str, expected: str) -> None:
        """Raise the error of an intrinsic that does not fit."""
        what = f"tensorize of {self.stage.origin_op.name}: {intrin.name} computes something else"
        raise CallValueError(explain(what, got=got, instead=expected))


def _narrow(expr: PrimExpr) -> PrimExpr:
    """An element whose indices are int32 where their variables are: how wide an index is computed
    does not change which element it is."""

    def short(node: PrimExpr) -> Any:
        if isinstance(node, IntImm):
            return const(node.value, "int32")
        whole = isinstance(node, Cast) and node.dtype.is_int and node.value.dtype.is_int
        return node.value if whole else None

    def post(node: PrimExpr | Tensor) -> Any:
        if not isinstance(node, ProducerLoad):
            return None
        indices = [
            rewrite(i, short) if all(v.dtype == "int32" for v in vars_in(i)) else i
            for i in node.indices
        ]
        return ProducerLoad._make(node.producer, tuple(indices))

    return rewrite(expr, post)
