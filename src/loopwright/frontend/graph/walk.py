"""The walk over a graph: each node is converted in order, its results named for the nodes after it.

Where a node's result has a rank that only the run decides, the walk forks: what follows the node is
converted once for each of two branches, of which a condition chooses.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, repeat
from types import MappingProxyType
from typing import Any, TypeVar

import numpy as np

from ...base import budget
from ...base.budget import BudgetError
from ...base.errors import LoopwrightError, explain, is_explained
from ...base.plugins import broken
from ...relax import op
from ...relax.block_builder import BlockBuilder
from ...relax.expr import If, StringImm, Tuple
from ...relax.struct_info import TensorStructInfo
from .context import Body, Context, LoopBuilder
from .loops import Loop
from .model import Model, Node
from .object_values import ObjectValue, constant_texts, form_of, info_of, joined
from .registry import REFUSALS, Entry, find_converter
from .values import UnknownRankError, Value

Branch = Callable[[], list[Value]]
T = TypeVar("T")
_OPTION = "for the command line in a file: --plugin FILE.py"


@dataclass
class Region:
    """Where a sequence of nodes is converted.

    decided: for forks of nodes further out, by the node's first output, the branch that is being
    converted. yields: whether its results are those of the node that holds it, so that a fork may be
    left to that node. fork: the condition and the node of a fork that was left to it.
    """

    decided: Mapping[str, int] = field(default_factory=dict)
    yields: bool = False
    fork: tuple[Value, str] | None = None


@dataclass
class Step:
    """The conversion of one node: the walk as its converter uses it (`context.Walk`).

    may_fork: whether the node is one of a graph, not part of another node's definition.
    pending: the condition and the branches for its outputs, of a fork.
    """

    graph: GraphWalk
    region: Region
    may_fork: bool = True
    pending: tuple[Value, tuple[Branch, ...]] | None = None

    def subgraph(
        self, graph: Any, feeds: Mapping[str, Value] = MappingProxyType({})
    ) -> list[Value]:
        return self.graph.subgraph(graph, feeds, Region(self.region.decided))

    def inline(self, graph: Any) -> list[Value]:
        region = Region(self.region.decided, yields=self.may_fork)
        results = self.graph.subgraph(graph, {}, region)
        if region.fork is not None:
            condition, name = region.fork
            regions = [Region({**self.region.decided, name: k}) for k in (0, 1)]
            self.fork(condition, *(partial(self.graph.subgraph, graph, {}, r) for r in regions))
        return results

    def choice(self, condition: Value, *graphs: Any) -> list[Value]:
        branches = [partial(self.subgraph, g) for g in graphs]
        results = self.graph.either(condition, branches, even=self.may_fork)
        if results is None:
            self.fork(condition, *branches)
            results = self.graph.placeholders(graphs[0].output)
        return results

    def fork(self, condition: Value, *branches: Branch) -> bool:
        if self.may_fork:
            self.pending = condition, branches
        return self.may_fork

    def part(self, node: Node, inputs: list[Value | None]) -> list[Any]:
        return self.graph.part(node, inputs, Step(self.graph, self.region, may_fork=False))

    @property
    def loop(self) -> LoopBuilder:
        return self.graph.loop

    def of_model(self, ask: Callable[[Any], T]) -> T:
        if ask not in self.graph.answers:
            self.graph.answers[ask] = ask(self.graph.model)
        return self.graph.answers[ask]

    def texts(self, array: np.ndarray) -> Value:
        return constant_texts(self.graph.context, array)


class GraphWalk:
    """A walk over a model. A dialect overrides the reading of graphs inside nodes (`subgraph`), the lookup
    and call of a converter (`find`, `call`), and the context of converters (`new_context`)."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.builder = BlockBuilder()
        self.context = self.new_context()
        self.values: dict[str, Value] = {}
        self.answers: dict[Callable[[Any], Any], Any] = {}  # of functions of the whole model

    def new_context(self) -> Context:
        """The context of converters."""
        return Context(self.builder)

    def find(self, node: Node) -> Entry | None:
        """The converter of a node, or None."""
        return find_converter(node.op_type, node.opset, node.domain)

    def call(self, node: Node, entry: Entry, inputs: list[Value | None]) -> Any:
        """The outputs of a node, as its converter returns them."""
        return entry.convert(self.context, node, *inputs)

    def check_inputs(self, node: Node, entry: Entry, inputs: list[Value | None]) -> None:
        """Raise ValueError unless a converter takes this number of inputs."""
        count, most = len(inputs), entry.most
        if entry.least <= count and (most is None or count <= most):
            names = chain(entry.names, repeat(entry.names[-1])) if entry.names else ()
            missing = [n for n, v in zip(names, inputs) if v is None and n not in entry.optional]
            if not missing:
                return
            raise ValueError(explain(f"input {missing[0]} is missing", got=", ".join(node.inputs)))
        many = f"{entry.least}" if most == entry.least else f"{entry.least} to {most}"
        many = f"{entry.least} or more" if most is None else many
        what = f"it takes {many} input{'' if many == '1' else 's'} ({', '.join(entry.names)})"
        raise ValueError(explain(what, got=f"{count}"))

    def subgraph(self, graph: Any, feeds: Mapping[str, Value], region: Region) -> list[Value]:
        """The outputs of a graph that a node holds. feeds: the values of its inputs."""
        what = "a node holds a graph, which its importer does not read"
        raise ValueError(explain(what, instead="override subgraph in the importer of the dialect"))

    def unsaid_ranks(self) -> list[str]:
        """The inputs of the model whose rank neither the file nor the caller specifies."""
        return []

    # -- nodes ---------------------------------------------------------------------------------

    def converters(self, nodes: Sequence[Node]) -> list[Entry]:
        """The converter of each node. Raises one LoopwrightError for all nodes without one."""
        entries = [self.find(n) for n in nodes]
        missing: dict[tuple[str, str, int], list[Node]] = defaultdict(list)
        for node, entry in zip(nodes, entries, strict=True):
            if entry is None:
                missing[node.domain, node.op_type, node.opset].append(node)
        if not missing:
            return [entry for entry in entries if entry is not None]
        count = sum(map(len, missing.values()))
        kinds = f"{len(missing)} kind{'' if len(missing) == 1 else 's'}"
        lines = [f"{count} nodes of {kinds}" if count > 1 else "1 node"]
        for (domain, op_type, _), those in sorted(missing.items()):
            names = ", ".join(n.title for n in those[:3])
            more = f", and {len(those) - 3} more" if len(those) > 3 else ""
            reason = REFUSALS.get((domain, op_type))
            lines.append(f"    {op_type} ({those[0].version}) x{len(those)}: {names}{more}")
            lines += [f"      {reason}"] if reason else []
        what = "operators of this model have no converter"
        hint = f"write converters for them and make them known: {missing[min(missing)][0].registration}"
        hint = "; ".join(filter(None, (hint, _OPTION, broken("loopwright.ops"))))
        raise LoopwrightError(explain(what, got="\n".join(lines), instead=hint))

    def nodes(
        self, nodes: Sequence[Node], entries: Sequence[Entry], names: list[str], region: Region
    ) -> list[Value]:
        """Convert nodes in order; the values of `names`."""
        for k, (node, entry) in enumerate(zip(nodes, entries, strict=True)):
            step = Step(self, region)
            self.convert(node, entry, step)
            if step.pending is None:
                continue
            (condition, branches), step.pending = step.pending, None  # they hold the step
            name = node.outputs[0]
            if name in region.decided:
                results = self.at(Step(self, region, False), branches[region.decided[name]])
                self.values.update(zip(node.outputs, results, strict=False))
                continue
            inner = Region(region.decided)

            def after(
                branch: Branch, node: Node = node, k: int = k, inner: Region = inner
            ) -> list[Value]:
                budget.spend(nodes=len(nodes) - k)
                results = self.at(Step(self, inner, False), branch)
                self.values.update(zip(node.outputs, results, strict=False))
                return self.nodes(nodes[k + 1 :], entries[k + 1 :], names, inner)

            rest = [partial(after, branch) for branch in branches]
            results = self.either(condition, rest, even=region.yields, lenient=True)
            if results is None:
                region.fork = condition, name
                return self.placeholders(names)
            return results
        return [self.values[name] for name in names]

    def placeholders(self, names: Sequence[Any]) -> list[Value]:
        """Placeholders for results that an outer fork converts again."""
        return [self.context.from_elements([0], "int64") for _ in names]

    def at(self, step: Step, run: Callable[[], T]) -> T:
        """Run a part of a node's conversion."""
        with self.context.converting(step):
            return run()

    def convert(self, node: Node, entry: Entry, step: Step) -> None:
        """Convert a node; its outputs become values."""
        self.builder.span = node.span
        try:
            budget.check()
            inputs = [self.values[name] if name else None for name in node.inputs]
            outputs = self.outputs(node, entry, inputs, step)
        except Exception as error:  # a broken model may fail anywhere: say in which node
            inputs = [self.values.get(name) for name in node.inputs]
            raise _located(node, error, inputs, self.unsaid_ranks()) from error
        for name, output in zip(node.outputs, outputs, strict=False):
            if name:
                self.values[name] = output

    def part(self, node: Node, inputs: list[Value | None], step: Step) -> list[Any]:
        """Convert a node of an operator's definition."""
        entry = None if node.captured else self.find(node)
        if entry is None:
            what = f"its definition uses {node.op_type}, which has no converter"
            raise ValueError(explain(what, instead="register_converter for either"))
        budget.spend(nodes=1)
        return self.outputs(node, entry, inputs, step)

    def outputs(
        self, node: Node, entry: Entry, inputs: list[Value | None], step: Step
    ) -> list[Any]:
        """The outputs of a node, checked."""
        while inputs and inputs[-1] is None:
            inputs.pop()
        self.check_inputs(node, entry, inputs)
        outputs = self.at(step, lambda: self.call(node, entry, inputs))
        node.check_attributes()
        parts = list(outputs) if isinstance(outputs, (list, tuple)) else [outputs]
        for k, name in enumerate(node.outputs):
            if name and (k >= len(parts) or parts[k] is None):
                what = f"output {k} ({name}) is not supported"
                raise ValueError(explain(what, instead="leave it out"))
        return [None if p is None else self.context.value(p) for p in parts]

    # -- loops and branches --------------------------------------------------------------------

    def loop(
        self, body: Body, limit: Value | None, go: Value | None, state: list[Value], collected: int
    ) -> list[Value]:
        """The outputs of a loop; see `Loop`."""
        for value in (limit, go, *state):
            if value is not None:
                _ = value.output
        for value in self.values.values():
            value.leave_block()

        def isolated(inputs: list[Value]) -> list[Value]:
            # Known integers that become tensors in the body do not in the graph around it.
            outer = self.values
            self.values = {name: value.copy() for name, value in outer.items()}
            results = body(inputs)
            self.values = outer
            return results

        with self.builder.between_dataflow():
            return Loop(self.context, isolated, limit, go).outputs(state, collected)

    def either(
        self,
        condition: Value,
        branches: Sequence[Branch],
        even: bool = False,
        lenient: bool = False,
    ) -> list[Value] | None:
        """The results of one of two branches, chosen at run time. An If is not part of a dataflow block:
        the open one ends before it, with all values so far as its outputs (the unused ones are removed
        later).

        even: None where the rank of a tensor depends on it. lenient: a branch that cannot be converted
        is an error of the run, unless neither can.
        """
        cond = condition.output
        for value in self.values.values():
            value.leave_block()
        forms: list[list[Any]] = []
        with self.builder.between_dataflow():
            sides = [self._side(b, forms, lenient) for b in branches]
            errors = [side for side in sides if isinstance(side, LoopwrightError)]
            if len(errors) == len(sides):
                raise errors[0]
            if errors:
                at = sides.index(errors[0])
                sides[at] = self.builder.branch(lambda: _refused(errors[0], forms[0]))
                forms *= 2
            kinds = [joined(a, b) for a, b in zip(*forms, strict=True)]
            if even and any(map(_is_uneven, kinds, *forms)):
                return None
            chosen = self.builder.emit(If(cond, *sides))
        parts = [chosen[k] for k in range(len(kinds))] if len(kinds) > 1 else [chosen]
        return [self._chosen(part, form) for part, form in zip(parts, kinds, strict=True)]

    def _side(self, branch: Branch, forms: list[list[Any]], lenient: bool) -> Any:
        """A branch with its values, or its error if that is allowed. forms: the forms of its values are appended."""
        span, outer = self.builder.span, self.values

        def inside() -> Any:
            with self.builder.dataflow():
                values = branch()
                results = [value.output for value in values]
            forms.append([form_of(value) for value in values])
            return results[0] if len(results) == 1 else Tuple(results)

        # Known integers that become tensors in a branch do not in the graph around it.
        self.values = {name: value.copy() for name, value in outer.items()}
        try:
            return self.builder.branch(inside)
        except BudgetError:
            raise
        except LoopwrightError as error:
            if not lenient:
                raise
            return error
        finally:
            self.builder.span, self.values = span, outer

    def _chosen(self, part: Any, form: Any) -> Value:
        """An output of one of two graphs, with new symbols for the dimensions in which they differ."""
        if not isinstance(form, TensorStructInfo):
            return ObjectValue(self.context, form, self.context.emit(part))
        value = self.context.value(part)
        if value.info.get_shape() is None and form.ndim >= 0:
            return self.context.of_shape(value.expr, *[None] * form.ndim)
        return value


def _is_uneven(form: Any, *sides: Any) -> bool:
    """Whether a tensor has a known rank in both branches, and they differ."""
    tensors = all(isinstance(f, TensorStructInfo) for f in (form, *sides))
    return tensors and form.ndim < 0 and all(f.ndim >= 0 for f in sides)


def _refused(error: LoopwrightError, forms: list[Any]) -> Any:
    """Values of some forms whose computation always fails at run time."""
    results = [
        op.call_pure_packed("relax.run.refused", StringImm(str(error)), sinfo_args=info_of(form))
        for form in forms
    ]
    return results[0] if len(results) == 1 else Tuple(results)


def _located(
    node: Node, error: Exception, values: list[Value | None], unsaid: Sequence[str] = ()
) -> LoopwrightError:
    """The error of a node: its own text where that explains, else the inputs of the node. unsaid: inputs
    of the model without a rank."""
    inputs = ", ".join("none" if v is None else str(v.expr.struct_info) for v in values[:8])
    inputs = f"inputs {inputs or 'none'}{', ...' * (len(values) > 8)}"
    if isinstance(error, RecursionError):
        hint = "give the extents that it depends on by shape_dict"
        text = explain(
            "an expression nests too deep",
            got="more levels than Python calls may have",
            instead=hint,
        )
    elif isinstance(error, UnknownRankError) and unsaid:
        shapes = ", ".join(f"{name!r}: [None, ...]" for name in unsaid)
        text = explain(
            "the rank of an input is not known",
            got=f"a model that says none of {', '.join(unsaid)}, whose operators take several",
            instead=f"shape_dict={{{shapes}}}, a number, name or None for each axis",
        )
    elif is_explained(error):
        text = str(error)
        if "\n" not in text:
            text = explain(text, got=inputs)
    else:
        what = f"the inputs or attributes do not fit ({type(error).__name__}: {error})"
        if isinstance(error, ZeroDivisionError):  # converters divide by the model's numbers alone
            what = "it divides by an extent, a rank or an attribute that is 0"
            zeros = [n for n, v in node.attributes.items() if isinstance(v, (int, float)) and not v]
            inputs += "".join(f", {name}=0" for name in zeros)
        hint = "inputs that the operator's definition allows; report a model that is valid"
        text = explain(what, got=inputs, instead=hint)
    kind = BudgetError if isinstance(error, BudgetError) else LoopwrightError
    return kind(f"{node.op_type}: {text}\n{node.location}")
