"""Export: a module's methods become graph functions of one IRModule."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, ClassVar

from ... import relax
from ...base.errors import explain
from ...base.late import Slot
from ...base.names import as_identifier
from ...ir.module import IRModule
from ...relax import BlockBuilder
from ...relax.struct_info import (
    ObjectStructInfo,
    ShapeStructInfo,
    StructInfo,
    TensorStructInfo,
    TupleStructInfo,
)
from . import core, spec
from .effects import IOEffect
from .spec import MethodSpec, ModuleSpec
from .torch import TorchModule

COMPILE: Slot[Callable[..., Any]] = Slot("frontend.compile")


class Exporter:
    """Builds the functions of one module. `debug`: pass an effect through for printing.

    >>> type(nn.Exporter(debug=True).io_effect).__name__
    'IOEffect'
    """

    _stack: ClassVar[list[Exporter]] = []

    def __init__(self, debug: bool = False) -> None:
        self.builder = BlockBuilder()
        self.io_effect = IOEffect() if debug else None
        self.extern_mods: list[Any] = []

    @staticmethod
    def current() -> Exporter:
        """The current export. Raises RuntimeError outside an export."""
        if not Exporter._stack:
            what = "no module is being exported"
            raise RuntimeError(explain(what, instead="use it in a method that export_tvm exports"))
        return Exporter._stack[-1]

    def __enter__(self) -> Exporter:
        Exporter._stack.append(self)
        return self

    def __exit__(self, *_: object) -> None:
        Exporter._stack.pop()

    def add_external_module(self, mod: Any) -> None:
        """Let `mod` come along with the exported module."""
        if mod not in self.extern_mods:
            self.extern_mods.append(mod)

    @contextmanager
    def without_effect(self) -> Iterator[None]:
        """A subroutine, to which no effect is passed."""
        if self.io_effect is None:
            yield
            return
        effect, self.io_effect.effect = self.io_effect.effect, None
        yield
        self.io_effect.effect = effect

    def build(
        self, spec: ModuleSpec
    ) -> tuple[IRModule, list[tuple[str, core.Parameter]], list[Any]]:
        """(IRModule, [(path, parameter)], external modules)."""
        params = list(spec.module.named_parameters())
        effects = self._effects(spec.module)
        with self:
            if effects:
                self._initialize(effects)
            for name, method in zip(spec.method_names, spec.method_specs):
                _Method(self.builder, method, params, effects).emit(name)
        return self.builder.finalize(), params, self.extern_mods

    def _effects(self, module: core.Module) -> list[tuple[str, core.Effect]]:
        own = [] if self.io_effect is None else [("", self.io_effect)]
        return [*own, *((as_identifier(n), e) for n, e in module.named_effects())]

    def _initialize(self, effects: list[tuple[str, core.Effect]]) -> None:
        builder = self.builder
        with builder.function("_initialize_effect", []):
            with builder.dataflow():
                states = [v for name, e in effects for v in e.emit_init(name, builder)]
                out = builder.emit_output(builder.emit(relax.Tuple(states)))
            builder.emit_func_output(out)


class _Method:
    """One method being exported."""

    def __init__(
        self,
        builder: BlockBuilder,
        method: MethodSpec,
        params: list[tuple[str, core.Parameter]],
        effects: list[tuple[str, core.Effect]],
    ) -> None:
        self.builder = builder
        self.method = method
        self.params = params if method.param_mode != "none" else []
        self.effects = effects if method.effect_mode != "none" else []
        self.scope = core.Scope(builder)

    def emit(self, name: str) -> None:
        builder, method = self.builder, self.method
        inputs = [self._var(s, n) for n, s in zip(method.arg_names, method.arg_specs)]
        effects = [e.create(n) for n, e in self.effects]
        weights = [p.var_in(self.scope, as_identifier(n)) for n, p in self.params]
        effect_inputs = _passed(method.effect_mode, "packed_effects", _joined(effects))
        weight_inputs = _passed(method.param_mode, "packed_params", weights)
        count = len(inputs) + len(effect_inputs)
        all_inputs = [*inputs, *effect_inputs, *weight_inputs]
        with builder.function(name, all_inputs, attrs={"num_input": count}), self.scope:
            with builder.dataflow():
                self._unpack_effects(effects, effect_inputs)
                self._unpack_weights(weights, weight_inputs)
                args = [self._argument(s, v) for s, v in zip(method.arg_specs, inputs)]
                named = dict(zip(method.arg_names, args))
                result = returned(method.method(**named), name)
                if self.effects:
                    states = [v for _, e in self.effects for v in e.finalize()]
                    result = relax.Tuple([result, relax.Tuple(states)])
                out = builder.emit_output(result)
            builder.emit_func_output(out)

    def _unpack_effects(self, effects: list[list[relax.Var]], passed: list[relax.Var]) -> None:
        effect_vars = _joined(effects)
        if self.method.effect_mode == "packed" and effect_vars:
            effect_vars = [
                self._field(passed[0], i, v.name_hint) for i, v in enumerate(effect_vars)
            ]
        states = iter(effect_vars)
        for (_, effect), variables in zip(self.effects, effects):
            effect.set_state([next(states) for _ in variables])

    def _unpack_weights(self, weights: list[relax.Var], passed: list[relax.Var]) -> None:
        for i, ((_, param), var) in enumerate(zip(self.params, weights)):
            if self.method.param_mode == "packed":
                var = self._field(passed[0], i, var.name_hint)
            self.scope.define(param._value, var)

    def _field(self, value: relax.Var, index: int, name: str) -> relax.Var:
        return self.builder.emit(relax.TupleGetItem(value, index), name)

    def _info(self, arg: Any, name: str) -> StructInfo:
        if isinstance(arg, spec.Tensor):
            return TensorStructInfo([self.scope.dim(d) for d in arg.shape], arg.dtype)
        if isinstance(arg, spec.Int):
            return ShapeStructInfo([self.scope.symbol(name)])
        if isinstance(arg, spec.Object):
            return ObjectStructInfo()
        return TupleStructInfo([self._info(e, f"{name}_{i}") for i, e in enumerate(arg.elements)])

    def _var(self, arg: Any, name: str) -> relax.Var:
        return relax.Var(name, self._info(arg, name))

    def _argument(self, arg: Any, var: relax.Var) -> Any:
        """The method's argument for a parameter of the function."""
        if isinstance(arg, spec.Tensor):
            return core.Tensor(_expr=var)
        if isinstance(arg, spec.Int):
            return var.struct_info.values[0]
        if isinstance(arg, spec.Object):
            return arg.object_type(_expr=var, _name=var.name_hint)
        variables = []
        for i, element in enumerate(arg.elements):
            field = self._field(var, i, f"{var.name_hint}_{i}")
            variables.append(self._argument(element, field))
        return arg.kind(variables)


def _joined(states: list[list[relax.Var]]) -> list[relax.Var]:
    return [var for state in states for var in state]


def _passed(mode: str, name: str, variables: list[relax.Var]) -> list[relax.Var]:
    """The function's parameters that hold these variables."""
    if mode != "packed":
        return variables
    return [relax.Var(name, TupleStructInfo([v.struct_info for v in variables]))]


def returned(value: object, name: str) -> Any:
    """The expression of a method's result: a Tensor, an Object, or a tuple of them."""
    if isinstance(value, (core.Tensor, core.Object)):
        return value._expr
    if isinstance(value, (list, tuple)):
        return relax.Tuple([returned(v, name) for v in value])
    what = f"{name} must return nn.Tensors or tuples of them"
    raise TypeError(explain(what, got=f"{type(value).__name__}: {value!r}"))


def export(
    module: core.Module, raw_spec: Mapping[str, Mapping[str, Any]], debug: bool, allow_extern: bool
) -> Any:
    """`Module.export_tvm`."""
    checked = spec.ModuleSpec.from_raw(raw_spec, module)
    mod, params, externs = Exporter(debug).build(checked)
    if allow_extern:
        return mod, params, externs
    if externs:
        what = "the module uses external modules"
        raise ValueError(explain(what, instead="pass allow_extern=True and link what it returns"))
    return mod, params


def add_extern(mod: Any) -> None:
    """Let an external module come along with the module that is being exported.

    >>> class Net(nn.Module):
    ...     def __init__(self):
    ...         self.library = nn.ExternModule({"scale": lambda x: x})
    ...     def forward(self, x):
    ...         nn.add_extern(self.library)
    ...         return self.library["scale"](x)
    >>> spec = {"forward": {"x": nn.spec.Tensor([2, 4], "float32")}}
    >>> mod, params, external = Net().export_tvm(spec, allow_extern=True)
    >>> len(external)
    1
    """
    Exporter.current().add_external_module(mod)


def jit(
    module: core.Module,
    raw_spec: Mapping[str, Mapping[str, Any]],
    device: str,
    pipeline: str,
    out_format: str,
    debug: bool,
) -> Any:
    """`Module.jit`."""
    if out_format not in ("torch", "tvm"):
        hint = 'use "torch" or "tvm"'
        raise ValueError(explain("unknown out_format", got=repr(out_format), instead=hint))
    checked = spec.ModuleSpec.from_raw(raw_spec, module)
    mod, params, _ = Exporter(debug).build(checked)
    unset = [name for name, p in params if p.data is None]
    if unset:
        what = "these parameters have no value"
        hint = "set .data, or use load_state_dict"
        raise ValueError(explain(what, got=", ".join(unset), instead=hint))
    exe = COMPILE.get()(mod, relax_pipeline=pipeline)
    return TorchModule(checked, exe, [p.data for _, p in params], out_format)
