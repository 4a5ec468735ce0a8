"""A part of a graph of dynamo as a function: compiled, or loaded from disk, with its parameters bound."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any

import torch
from torch import fx
from torch.utils._pytree import tree_leaves

from ...base.late import Slot
from ...ir.module import IRModule
from ...relax.weights import transform_module
from ...runtime.native import NativeFunction
from ...runtime.weights import UnknownValues, Weight, Weights
from .bound import Binding, Bindings
from .dtypes import DTYPES
from .importer import TorchImporter
from .model import as_tensor, output_nodes
from .views import without_views

Pipeline = Callable[[IRModule], IRModule] | None
Built = tuple[dict[str, Any], Callable[[], Any], Any]  # facts, code to be loaded, its transform
Note = Callable[[Exception], None]
COMPILE: Slot[Callable[..., Any]] = Slot("frontend.compile")
STORE: Slot[Any] = Slot("frontend.graph_store")

STATIC = (
    "loopwright_static"  # in the meta of placeholders: a parameter or buffer, which no call writes
)


class NotConverted(Exception):
    """An operator cannot be converted: `node` is its name."""

    def __init__(self, node: str, reason: str) -> None:
        super().__init__(reason)
        self.node = node


class Part(torch.nn.Module):
    """A graph as a function of torch's tensors and sizes. Inputs that are results are passed on, and results that
    are views of inputs, or of other results, are so here.

    Raises NotConverted. note: is called with an error that the data of a call cause; they run in eager.
    """

    def __init__(self, gm: fx.GraphModule, pipeline: Pipeline, freeze: bool, note: Note) -> None:
        super().__init__()
        self.eager, self.note = gm.forward, note
        self.inputs = [n for n in gm.graph.nodes if n.op == "placeholder"]
        self.weights = [n for n in self.inputs if _is_static(n)]
        self.single = not isinstance(gm.graph.output_node().args[0], (list, tuple))
        values = tree_leaves(gm.graph.output_node().args, is_leaf=lambda x: x is None)
        gm, views, self.views = without_views(gm)
        names, own = [n.name for n in self.inputs], _computed(gm)
        self.takes, self.bound = [], None
        if own:
            self._compile(gm, pipeline)
        self.check = self.bound is None and not freeze
        computed = {n.name: k for k, n in enumerate(own)}
        self.results = [_result(v, computed, names, views) for v in values]
        self.viewed = [_result(n, computed, names, views) for n in dict.fromkeys(own)]
        self.count = len(own)
        # Converted before each call; others only where the native code refuses them.
        conversions = [(k, _conversion(self.inputs[i])) for k, i in enumerate(self.takes)]
        self.conversions = [(k, convert) for k, convert in conversions if convert is not None]

    # -- compilation ---------------------------------------------------------------------------

    def _compile(self, gm: fx.GraphModule, pipeline: Pipeline) -> None:
        store, key = STORE.get(), None
        if pipeline is None:
            constants = _attributes(gm)
            arrays = [as_tensor(t).view() for t in constants.values()]
            key = store.key_of(self._text(gm), arrays)
        stored = store.load(key)
        if stored is None:
            self._bind(*self._built(gm, pipeline, key))
        elif "fails" in stored.facts:
            raise NotConverted(*stored.facts["fails"])
        else:
            self._bind(stored.facts, stored.instance, stored.transform())

    def _built(self, gm: fx.GraphModule, pipeline: Pipeline, key: str | None) -> Built:
        """The graph compiled, and stored. Where something depends on the values of parameters, these are
        inputs."""
        try:
            return self._build(gm, pipeline, key, self.weights)
        except UnknownValues:
            return self._build(gm, pipeline, key, [])
        except NotConverted as error:
            STORE.get().save(key, {"fails": [error.node, str(error)]})
            raise

    def _build(
        self, gm: fx.GraphModule, pipeline: Pipeline, key: str | None, weights: list[fx.Node]
    ) -> Built:
        family, store = Weights(), STORE.get()
        roots = {n.name: _root(n, family) for n in weights}
        inputs = [n for n in self.inputs if n.name not in roots]
        importer = TorchImporter(gm.graph, inputs, {**_attributes(gm), **roots}, computed_only=True)
        try:
            mod = importer.run()
        except Exception as error:
            if family.were_read:
                raise UnknownValues(str(error)) from error
            if importer.at_node is None:
                raise
            raise NotConverted(importer.at_node.name, str(error)) from error
        try:
            exe = COMPILE.get()(mod if pipeline is None else pipeline(mod))
        except Exception as error:
            raise (UnknownValues(str(error)) if family.were_read else error) from error
        used = family.stored()
        derived = [w for w in used if w.recipe is not None]
        transform = (
            COMPILE.get()(transform_module(list(roots.values()), derived)) if derived else None
        )
        names, order = [n.name for n in self.inputs], list(roots.values())
        facts = {
            "takes": [names.index(p.name) for p in importer.model.inputs],
            "weights": [order.index(w) if w.recipe is None else -1 for w in used],
            "bound": bool(weights),
        }
        code = store.pack(exe, used, transform)
        if code is None and weights:
            raise UnknownValues("this executable is loaded once")
        store.save(key, facts, code)
        first = [(exe, {k: w.storage() for k, w in enumerate(used)})]
        return facts, lambda: first.pop() if first else store.instance(code), transform

    def _bind(self, facts: dict[str, Any], instance: Callable[[], Any], transform: Any) -> None:
        self.takes, numbers = facts["takes"], facts["weights"]
        weights = self.weights if facts["bound"] else []
        positions = [self.inputs.index(n) for n in weights]

        def make() -> Binding:
            exe, arrays = instance()

            def set_values(parameters: list[Any]) -> None:
                values = [as_tensor(p) for p in parameters]
                for k, root in enumerate(numbers):
                    if root >= 0:
                        arrays[k][...] = values[root].view()
                packed = [arrays[k] for k, root in enumerate(numbers) if root < 0]
                if packed:
                    transform["main"](*values, out=packed if len(packed) > 1 else packed[0])

            return Binding(_function(exe), set_values, positions)

        self.bindings = Bindings(make)
        self.bound = None if positions else make()
        if self.bound is not None:
            self.bound.set_values([])
            self.bindings.all.append(self.bound)

    def _text(self, gm: fx.GraphModule) -> str:
        """All that conversion depends on but the values of constants."""
        weights = " ".join(n.name for n in self.weights)
        return f"{torch.__version__} {weights}\n{_described(gm)}"

    # -- calls ---------------------------------------------------------------------------------

    def forward(self, *args: Any) -> Any:
        return self.run(list(args))

    def run(self, args: list[Any]) -> Any:
        """The results of a list of arguments, as a tuple or alone, as the graph has them."""
        try:
            values = [args[k] for k in self.takes]
            for k, convert in self.conversions:
                values[k] = convert(values[k])
            out = self._called(self._function(args), values) if self.count else ()
        except Exception as error:  # data that ours refuses: eager says so, or does it
            self.note(error)
            return self.eager(*args)
        own = () if self.views is None else self.views(*args, *_values(self.viewed, args, out))
        results = _values(self.results, args, out, own)
        return results[0] if self.single else tuple(results)

    def _function(self, args: list[Any]) -> Any:
        """The native code with the parameters among the arguments."""
        bound = self.bound
        if bound is None or (self.check and not bound.fits(args)):
            bound = self.bound = self.bindings.of(args)
        return bound.function

    def boxed(self) -> Callable[[list[Any]], Any]:
        """A function of a list of arguments, which it clears, so that nothing keeps them alive."""
        run, tensor = self.run, torch.Tensor

        def call(args: list[Any]) -> Any:
            results = run(args)
            args.clear()
            return results

        alone = self.results == [("tensor", 0)] and not self.single
        if not alone or not self.takes:
            return call
        first, *others = self.takes
        pick = itemgetter(*self.takes) if others else lambda args: (args[first],)
        function, check, conversions = self._function, self.check, self.conversions
        bindings = self.bindings.all

        def call_simple(args: list[Any]) -> Any:
            """The same for one result: without steps in Python."""
            values = pick(args)
            if conversions:
                values = list(values)
                for k, convert in conversions:
                    values[k] = convert(values[k])
            try:
                out = (function(args) if check else bindings[0].function)(*values)
            except Exception:
                return call(args)
            if type(out) is not tensor:
                return call(args)
            args.clear()
            return (out,)

        return call_simple

    def _called(self, function: Any, values: list[Any]) -> Any:
        try:
            out = function(*values)
        except (BufferError, TypeError, ValueError):
            out = function(*map(_taken, values))
        return [_as_torch(v) for v in out] if self.count > 1 else [_as_torch(out)]


def _function(exe: Any) -> Any:
    """The function that takes and returns tensors of torch, or of tvm-ffi, without a conversion by us."""
    main = exe["main"]
    return main.raw if type(main) is NativeFunction else main


def _as_torch(value: Any) -> torch.Tensor:
    return value if type(value) is torch.Tensor else torch.from_dlpack(value)


_AS: dict[str, Callable[[Any], Any]] = {
    "tensor": lambda value: value,
    "pair": torch.view_as_complex,
    "size": torch.Tensor.item,
}


def _values(
    results: list[tuple[str, Any]], args: list[Any], out: Sequence[Any], views: Sequence[Any] = ()
) -> list[Any]:
    """The values of results, from those of the arguments, of the native code, and of the views."""
    return [
        _AS[kind](out[source])
        if kind in _AS
        else args[source]
        if kind == "input"
        else views[source]
        if kind == "view"
        else source
        for kind, source in results
    ]


def _computed(gm: fx.GraphModule) -> list[fx.Node]:
    return [n for n in output_nodes(gm.graph) if n.op != "placeholder"]


def _result(
    value: Any, computed: dict[str, int], inputs: list[str], views: dict[str, int]
) -> tuple[str, Any]:
    """The kind of a result, and its number among the computed ones, the inputs, or the views, or itself."""
    if not isinstance(value, fx.Node):
        return "constant", value
    if value.name in views:
        return "view", views[value.name]
    if value.op == "placeholder":
        return "input", inputs.index(value.name)
    fake = value.meta.get("val")
    tensor = "pair" if isinstance(fake, torch.Tensor) and fake.is_complex() else "tensor"
    return tensor if isinstance(fake, torch.Tensor) else "size", computed[value.name]


def _taken(value: Any) -> Any:
    """A value as native code takes it: a contiguous tensor; complex numbers as pairs."""
    if not isinstance(value, torch.Tensor):
        return torch.tensor([] if value is None else value)  # None: a token, which orders effects
    value = value.detach().resolve_conj().resolve_neg()
    return (torch.view_as_real(value) if value.is_complex() else value).contiguous()


def _conversion(node: fx.Node) -> Callable[[Any], Any] | None:
    """The conversion of an input to one that native code takes, as its compilation sees it."""
    fake = node.meta.get("val")
    if not isinstance(fake, torch.Tensor) or fake.is_complex() or fake.is_neg():
        return _taken
    return None if fake.is_contiguous() else torch.Tensor.contiguous


# -- parameters --------------------------------------------------------------------------------


def _is_static(node: fx.Node) -> bool:
    return bool(node.meta.get(STATIC)) and _may_be_weight(node.meta.get("val"))


def _may_be_weight(value: Any) -> bool:
    return (
        isinstance(value, torch.Tensor)
        and value.dtype in DTYPES
        and value.layout == torch.strided
        and value.device.type == "cpu"
        and all(isinstance(s, int) for s in value.shape)
        and value.numel() > 1
    )


def _root(node: fx.Node, family: Weights) -> Weight:
    fake = node.meta["val"]
    return Weight(family, tuple(fake.shape), DTYPES[fake.dtype])


def _attributes(gm: fx.GraphModule) -> dict[str, torch.Tensor]:
    """The tensors among a graph's attributes, by the names of their nodes."""
    nodes = [n for n in gm.graph.nodes if n.op == "get_attr"]
    return {n.name: n.meta["val"] for n in nodes if isinstance(n.meta.get("val"), torch.Tensor)}


def _described(value: Any) -> str:
    """What converters see of the (fake) value of a node."""
    if isinstance(value, torch.Tensor):
        sizes = [str(s) for s in value.shape]
        return f"{value.dtype}{sizes}{value.layout}{value.device.type}"
    if isinstance(value, (list, tuple)):
        return f"({', '.join(map(_described, value))})"
    if isinstance(value, torch.SymInt):
        return f"{value.node.expr}"
    if isinstance(value, fx.GraphModule):
        facts = [(n, _described(n.meta.get("val"))) for n in value.graph.nodes]
        return "\n".join(f"{n.op} {n} {n.target} {n.args} {n.kwargs} {d}" for n, d in facts)
    return repr(value)
