"""An import: the inputs, weights and nodes of a model become a graph function.

A dialect derives its importer from `Importer`, and says what differs (see `walk.GraphWalk`).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from keyword import iskeyword
from typing import Any

from ...base.errors import LoopwrightError, explain
from ...base.names import as_identifier, free_name
from ...ir.dtype import DataType
from ...ir.expr import DictAttrs
from ...ir.module import IRModule
from ...ir.prim_expr import PrimExpr
from ...ir.prim_expr import Var as TirVar
from ...relax.analysis import remove_all_unused
from ...relax.expr import Constant, Tuple
from ...relax.expr import Var as RelaxVar
from ...relax.struct_info import TensorStructInfo
from .model import Model, Port
from .object_values import constant_texts
from .values import Value
from .walk import GraphWalk, Region

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


@dataclass(frozen=True)
class Options:
    """The options of an import.

    shapes: shapes of inputs by name, instead of the model's. dtypes: dtypes of inputs by name, or the one
    for inputs without one. keep_params: weights become parameters. sanitize: names of parameters become
    identifiers. in_file: large weights stay in the file until a pass or the result uses them.
    overridable: initializers that are inputs as well and become parameters (True: all of them).
    """

    shapes: Mapping[str, Any] = field(default_factory=dict)
    dtypes: str | Mapping[str, str] | None = None
    keep_params: bool = False
    sanitize: bool = True
    in_file: bool = False
    overridable: bool | Collection[str] = False


class Importer(GraphWalk):
    """One import."""

    def __init__(self, model: Model, options: Options = Options()) -> None:
        super().__init__(model)
        self.options = options
        self.dims: dict[str, TirVar] = {}
        self.symbols: set[str] = set()  # names of variables that are extents
        self.names: set[str] = set()

    def run(self) -> IRModule:
        """The module."""
        model, builder = self.model, self.builder
        converters = self.converters(model.nodes)
        overridable = self._overridable()
        self._check_names()
        inputs = [self._input(p) for p in model.inputs]
        weights = self._weights(overridable)
        params = [self.values[name].expr for name in weights]
        attrs: dict[str, Any] = {"num_input": len(inputs)}
        if self.options.keep_params or overridable:
            attrs["params"] = [constant.data for constant in weights.values()]
        with builder.function("main", [*inputs, *params], attrs):
            with builder.dataflow():
                for name in filter(model.holds_texts, self._used(overridable)):
                    self.values[name] = constant_texts(self.context, model.initializer(name))
                names = [p.name for p in model.outputs]
                outputs = self.nodes(model.nodes, converters, names, Region())
                builder.span = None
                returned = self.returned(outputs)
            builder.emit_func_output(returned)
        gvar = builder.get().get_global_var("main")
        # Values only read while importing (bounds, axes, shapes) leave no binding.
        builder.update_func(gvar, remove_all_unused(builder.get()[gvar]))
        folded = [p.name for p in model.overridable if p.name not in weights]
        names = {
            "input_names": [p.name for p in model.inputs] + list(weights),
            "output_names": [p.name for p in model.outputs],
        }
        names |= {"overridable_initializers": folded} if folded else {}
        return builder.finalize().with_attrs(DictAttrs(names))

    def returned(self, outputs: list[Value]) -> Any:
        """The result of the function, which can be used after the open dataflow block."""
        results = [value.output for value in outputs]
        return results[0] if len(results) == 1 else Tuple(results)

    # -- inputs --------------------------------------------------------------------------------

    def _check_names(self) -> None:
        names = [p.name for p in self.model.inputs]
        for table, what in (
            (self.options.shapes, "shape_dict"),
            (self.options.dtypes, "dtype_dict"),
        ):
            for name in table if isinstance(table, Mapping) else ():
                if name not in names:
                    text = f"{what} names an input that the model has not"
                    hint = f"the inputs are {', '.join(names) or 'none'}"
                    raise LoopwrightError(explain(text, got=name, instead=hint))

    def _overridable(self) -> set[str]:
        """The initializers that become parameters because a run may override them."""
        both = [p.name for p in self.model.overridable]
        asked = self.options.overridable
        if isinstance(asked, bool):
            return set(both) if asked else set()
        unknown = [name for name in asked if name not in both]
        if unknown:
            text = "overridable_initializers names what no run may give: no initializer that is an input"
            hint = f"those are {', '.join(both)}" if both else "it has none (from IR version 4 on)"
            raise LoopwrightError(explain(text, got=", ".join(unknown), instead=hint))
        return set(asked)

    def _input(self, port: Port) -> RelaxVar:
        dtype = port.dtype
        if port.kind is not None:
            return self._object_input(port)
        dtypes = self.options.dtypes
        if isinstance(dtypes, Mapping):
            dtype = dtypes.get(port.name, dtype)
        elif not dtype:
            dtype = dtypes or ""
        if not dtype:
            what = f"the element type of input {port.name} is not known"
            raise LoopwrightError(explain(what, instead="give it by dtype_dict"))
        dims = self.options.shapes.get(port.name, port.dims)
        name = self._param_name(port.name)
        if dims is None:
            info = TensorStructInfo(dtype=dtype)
        else:
            shape = [self._dim(d, f"{name}_dim{k}") for k, d in enumerate(dims)]
            info = TensorStructInfo(shape, dtype)
        var = RelaxVar(name, info)
        self.values[port.name] = Value(self.context, var)
        return var

    def unsaid_ranks(self) -> list[str]:
        """The inputs whose rank neither the file nor the caller specifies."""
        ports = [p for p in self.model.inputs if p.dims is None and p.kind is None]
        return [p.name for p in ports if p.name not in self.options.shapes]

    def _object_input(self, port: Port) -> RelaxVar:
        """An input that is not a tensor of numbers."""
        what = f"input {port.name} is not a tensor of numbers"
        raise LoopwrightError(explain(what, got=str(port.kind)))

    def _dim(self, dim: str | int | None, fresh: str) -> Any:
        if isinstance(dim, bool) or not isinstance(dim, (int, str, PrimExpr, type(None))):
            what = "a dimension is a number, a name or a tir.Var"
            raise LoopwrightError(explain(what, got=repr(dim)))
        if isinstance(dim, int) and dim >= 0:
            return dim
        if isinstance(dim, PrimExpr):
            if isinstance(dim, TirVar):
                self.context.analyzer.assume_nonnegative(dim)
            return dim
        # "?", "None" and similar names say nothing: each is a variable of its own.
        if not isinstance(dim, str) or iskeyword(dim) or not re.search("[A-Za-z]", dim):
            return self._symbol(self._fresh_dim(fresh))
        if dim not in self.dims:
            plain = bool(_IDENTIFIER.match(dim))
            self.dims[dim] = self._symbol(dim if plain else self._fresh_dim(_identifier(dim, "d")))
        return self.dims[dim]

    def _symbol(self, name: str) -> TirVar:
        symbol = TirVar(name, "int64")
        self.symbols.add(name)
        self.context.analyzer.assume_nonnegative(symbol)
        return symbol

    def _fresh_dim(self, name: str) -> str:
        used = {d for p in self.model.inputs for d in p.dims or () if isinstance(d, str)}
        used |= self.symbols
        while name in used:
            name += "_"
        return name

    def _param_name(self, name: str) -> str:
        """The name as a unique identifier among the parameters."""
        param = name
        if self.options.sanitize:
            param = _identifier(name, "input")
        param = free_name(param, self.names)
        self.names.add(param)
        return param

    def _used(self, overridable: Collection[str]) -> list[str]:
        """The initializers that nodes read or that are outputs, and those that may be overridden."""
        used = {name for node in self.model.nodes for name in node.reads}
        used |= {p.name for p in self.model.outputs} | set(overridable)
        return [name for name in self.model.initializers if name in used]

    def _weights(self, overridable: Collection[str] = ()) -> dict[str, Constant]:
        """Add a value for each numeric initializer that is used; {name: constant} of those that become
        parameters."""
        model, options = self.model, self.options
        params: dict[str, Constant] = {}
        ports = {p.name: p for p in model.overridable}
        for name in self._used(overridable):
            if model.holds_texts(name):
                continue
            dtype = model.initializer_dtype(name)
            stored = model.stored_initializer(name) if options.in_file else None
            weight = model.initializer(name) if stored is None else stored
            constant = self.context.constant(weight, dtype)
            if name in overridable:
                port = ports[name]
                self._input(port if port.dims is not None else replace(port, dims=[*weight.shape]))
                params[name] = constant
            elif options.keep_params and DataType(dtype).is_float:
                var = RelaxVar(self._param_name(name), constant.struct_info)
                self.context.remember(var, constant)
                self.values[name] = Value(self.context, var)
                params[name] = constant
            else:
                self.values[name] = Value(self.context, constant)
        return params


def _identifier(name: str, kind: str) -> str:
    """A name as an identifier, with the prefix `kind` where its first letter is not valid."""
    text = as_identifier(name)
    return text if _IDENTIFIER.match(text) else f"{kind}_{text}"
