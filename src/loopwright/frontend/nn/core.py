"""Values and modules: the parts of a model written as `nn.Module`s.

While a method is exported, a `Scope` is open: it knows which variable of the function being built
represents each parameter. Outside an export, operators build expressions that are not bound yet;
using one inside an export binds it there.
"""

from __future__ import annotations

import functools
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from ... import relax
from ...base.errors import UnknownName, explain
from ...base.late import Slot
from ...ir.dtype import DataType, numpy_dtype
from ...ir.prim_expr import IntImm, PrimExpr
from ...ir.prim_expr import Var as TirVar
from ...relax import BlockBuilder
from ...relax.expr import Expr
from ...relax.struct_info import StructInfo, TensorStructInfo, TupleStructInfo
from ...runtime.tensor import Tensor as RuntimeTensor
from ...runtime.tensor import tensor as runtime_tensor

# Exporting is in a layer above this file.
EXPORT: Slot[Callable[..., Any]] = Slot("frontend.nn_export")
JIT: Slot[Callable[..., Any]] = Slot("frontend.nn_jit")
CALL_SUBROUTINE: Slot[Callable[..., Any]] = Slot("frontend.nn_call_subroutine")

_default_dtype = "float32"


def get_default_dtype() -> str:
    """The dtype of parameters that name none."""
    return _default_dtype


def set_default_dtype(dtype: str) -> None:
    """Set the dtype of parameters that name none."""
    global _default_dtype
    _default_dtype = str(DataType(dtype))


# ---------------------------------------------------------------- scopes


class Scope:
    """A function being built: the variable in it for each variable made outside, and one symbolic
    variable for each name of a dimension."""

    _stack: ClassVar[list[Scope]] = []

    def __init__(self, builder: BlockBuilder) -> None:
        self.builder = builder
        self.symbols: dict[str, TirVar] = {}
        self._inside_of: dict[int, tuple[Any, Any]] = {}

    @staticmethod
    def current() -> Scope | None:
        """The scope of the function being built, or None."""
        return Scope._stack[-1] if Scope._stack else None

    def __enter__(self) -> Scope:
        Scope._stack.append(self)
        return self

    def __exit__(self, *_: object) -> None:
        Scope._stack.pop()

    def symbol(self, name: str) -> TirVar:
        """The function's symbolic variable of that name."""
        if not name.isidentifier():
            what = "a symbolic dimension is given by its name"
            raise ValueError(explain(what, got=repr(name), instead='write "n", or a tir.Var'))
        return self.symbols.setdefault(name, TirVar(name, "int64"))

    def dim(self, value: Any) -> Any:
        """A dimension as it is written in this function: names become its symbolic variables."""
        return self.symbol(value) if isinstance(value, str) else value

    def define(self, outside: Expr, inside: Any) -> None:
        """Let `inside` represent `outside` in this function."""
        self._inside_of[id(outside)] = (outside, inside)

    def resolve(self, expr: Expr) -> Any:
        """The value of `expr` in this function; bound there if it is not yet."""
        resolved = self._inside_of.get(id(expr))
        if resolved is not None:
            return resolved[1]
        if isinstance(expr, relax.Call):
            args = [self.resolve(a) for a in expr.args]
            bound = self.builder.emit(relax.Call(expr.op, args, expr.attrs, expr.sinfo_args))
        elif isinstance(expr, relax.TupleGetItem):
            bound = self.builder.emit(
                relax.TupleGetItem(self.resolve(expr.tuple_value), expr.index)
            )
        elif isinstance(expr, relax.Tuple):
            bound = relax.Tuple([self.resolve(f) for f in expr.fields])
        else:
            return expr
        self.define(expr, bound)
        return bound


def wrap_nested(expr: Expr, name: str) -> Any:
    """Bind an expression under `name` and wrap it: a tensor as Tensor, a tuple as a tuple of them.

    Outside an export it is normalized and stays unbound. Raises TypeError for any other expression.
    """
    builder = BlockBuilder.current()
    if builder is None:
        expr = BlockBuilder().normalize(expr) if expr.struct_info is None else expr
    elif not isinstance(expr, relax.DataflowVar):
        expr = builder.emit(expr, name)
    info = expr.struct_info
    if isinstance(info, TensorStructInfo):
        return Tensor(_expr=expr)
    if isinstance(info, TupleStructInfo):
        fields = [relax.TupleGetItem(expr, i) for i in range(len(info.fields))]
        return tuple(wrap_nested(f, f"{name}_{i}") for i, f in enumerate(fields))
    what = "an operator of nn returns a tensor or a tuple of tensors"
    raise TypeError(explain(what, got=str(info)))


# ---------------------------------------------------------------- values


def _operator(name: str, swapped: bool = False) -> Callable[[Any, Any], Tensor]:
    def method(self: Tensor, other: Tensor | float) -> Tensor:
        return self._build[name](other, self) if swapped else self._build[name](self, other)

    return method


class Tensor:
    """A tensor in the graph. Python's operators build nn operators on it. Raises TypeError for an expression
    that is not a tensor."""

    # op.py, in a layer above this file, fills these in: operator name -> function.
    _build: ClassVar[dict[str, Any]] = {}

    def __init__(self, *, _expr: Expr) -> None:
        if not isinstance(_expr.struct_info, TensorStructInfo):
            what = "nn.Tensor holds a tensor expression"
            raise TypeError(explain(what, got=f"{_expr} of {_expr.struct_info}"))
        self._value = _expr

    @property
    def _expr(self) -> Any:
        """The expression; while a function is built, the one that represents it there."""
        scope = Scope.current()
        return self._value if scope is None else scope.resolve(self._value)

    @staticmethod
    def from_const(data: np.ndarray[Any, Any]) -> Tensor:
        """A constant; numpy's float64 becomes float32."""
        wide = getattr(data, "dtype", None) == "float64"
        return Tensor(_expr=relax.const(data, "float32" if wide else None))

    @staticmethod
    def from_scalar(data: int | float, dtype: str) -> Tensor:
        """A 0-d constant."""
        return Tensor(_expr=relax.const(data, dtype))

    @staticmethod
    def from_struct_info(struct_info: TensorStructInfo, name: str = "tensor") -> Tensor:
        """A variable of that struct info."""
        return Tensor(_expr=relax.Var(name, struct_info))

    @staticmethod
    def placeholder(shape: Iterable[Any], dtype: str, name: str = "tensor") -> Tensor:
        """A variable of that shape (int, name of a symbolic dimension, or expression) and dtype."""
        scope = Scope.current() or Scope(BlockBuilder())
        dims = [scope.dim(d) for d in shape]
        return Tensor.from_struct_info(TensorStructInfo(dims, dtype), name)

    @property
    def shape(self) -> list[Any]:
        """The dimensions: ints, and expressions where they are symbolic."""
        dims = self._expr.struct_info.get_shape()
        if dims is None:
            what = "the shape of this tensor is known at run time only"
            raise ValueError(explain(what, got=str(self._expr.struct_info)))
        return [d.value if isinstance(d, IntImm) else d for d in dims]

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return self._expr.struct_info.ndim

    @property
    def dtype(self) -> str:
        """The dtype of the elements."""
        return str(self._expr.struct_info.dtype)

    def __repr__(self) -> str:
        dims = ", ".join(map(str, self.shape))
        return f'Tensor([{dims}], "{self.dtype}")'

    __add__ = __radd__ = _operator("add")
    __sub__, __rsub__ = _operator("subtract"), _operator("subtract", swapped=True)
    __mul__ = __rmul__ = _operator("multiply")
    __truediv__, __rtruediv__ = _operator("divide"), _operator("divide", swapped=True)
    __matmul__ = _operator("matmul")
    __lt__ = _operator("less")
    __le__ = _operator("less_equal")
    __gt__ = _operator("greater")
    __ge__ = _operator("greater_equal")

    def __neg__(self) -> Tensor:
        return self._build["negative"](self)

    def astype(self, dtype: str) -> Tensor:
        """Cast to `dtype`."""
        return self._build["astype"](self, dtype)

    def maximum(self, other: float) -> Tensor:
        """The greater of both, element by element."""
        return self._build["maximum"](self, other)

    def minimum(self, other: Tensor) -> Tensor:
        """The smaller of both, element by element."""
        return self._build["minimum"](self, other)

    def reshape(self, *shape: Any) -> Tensor:
        """The same elements in another shape; one -1 is worked out."""
        return self._build["reshape"](self, _only(shape))

    def permute_dims(self, *axes: int | Sequence[int]) -> Tensor:
        """The axes in another order (none: reversed)."""
        return self._build["permute_dims"](self, _only(axes) or None)

    def repeat(self, repeats: int, axis: int | None = None) -> Tensor:
        """Each element `repeats` times."""
        return self._build["repeat"](self, repeats, axis)


def _only(values: tuple[Any, ...]) -> Any:
    """`f(1, 2)` and `f((1, 2))` mean the same."""
    return values[0] if len(values) == 1 and isinstance(values[0], (list, tuple)) else values


class Parameter(Tensor):
    """A weight: a tensor whose value may be set. Dimensions given by name are one symbolic
    variable for each name and exported function."""

    def __init__(self, shape: Iterable[Any], dtype: str | None = None) -> None:
        self._dims = tuple(shape) if isinstance(shape, (list, tuple)) else (shape,)
        self._data: RuntimeTensor | None = None
        self.attrs: dict[str, Any] = {}
        self._set_dtype(_default_dtype if dtype is None else dtype)

    def _set_dtype(self, dtype: str) -> None:
        outside = Scope(BlockBuilder())
        info = TensorStructInfo([outside.dim(d) for d in self._dims], dtype)
        super().__init__(_expr=relax.Var("param", info))

    def var_in(self, scope: Scope, name: str) -> relax.Var:
        """A variable for this parameter in the function of `scope`."""
        info = TensorStructInfo([scope.dim(d) for d in self._dims], self._value.struct_info.dtype)
        return relax.Var(name, info)

    @property
    def data(self) -> RuntimeTensor | None:
        """The value, or None while it is not set."""
        return self._data

    @data.setter
    def data(self, data: Any) -> None:
        if data is None:
            self._data = None
            return
        if hasattr(data, "detach"):
            data = data.detach()  # a torch parameter
        tensor = data if isinstance(data, RuntimeTensor) else runtime_tensor(data)
        fits = len(tensor.shape) == len(self._dims) and all(
            not isinstance(d, int) or d == s for d, s in zip(self._dims, tensor.shape)
        )
        if not fits or str(tensor.dtype) != self.dtype:
            got = f"{tensor.dtype} of shape {tuple(tensor.shape)}"
            raise ValueError(explain(f"the value of {self!r} must fit it", got=got))
        self._data = tensor

    def to(self, dtype: str | None = None) -> None:
        """Change the dtype; a value that is set is cast."""
        if dtype is None:
            return
        self._set_dtype(dtype)
        if self._data is not None:
            cast = self._data.numpy().astype(numpy_dtype(dtype))
            self._data = runtime_tensor(cast)


class Object:
    """A value that is not a tensor (a cache, a handle)."""

    def __init__(self, *, _expr: Expr, _name: str) -> None:
        self._value = _expr if isinstance(_expr, relax.Var) else exporting().emit(_expr, _name)

    @property
    def _expr(self) -> Any:
        """The expression; while a function is built, the one that represents it there."""
        scope = Scope.current()
        return self._value if scope is None else scope.resolve(self._value)


def exporting() -> BlockBuilder:
    """The builder of the method that is exported; RuntimeError outside of an export."""
    builder = BlockBuilder.current()
    if builder is None:
        what = "an object is made while a method is exported"
        raise RuntimeError(explain(what, instead="make it, and call it, in forward"))
    return builder


class Effect:
    """State that each call takes and returns: printing, caches. A module's effects are made by
    the exported function `_initialize_effect`."""

    def emit_init(self, name_hint: str, builder: BlockBuilder) -> list[relax.Var]:
        """Bind the first state; returns its variables."""
        raise NotImplementedError

    def create(self, name_hint: str) -> list[relax.Var]:
        """The parameters that hold the state in an exported method."""
        raise NotImplementedError

    def set_state(self, state_vars: list[relax.Var]) -> None:
        """Take the state at the beginning of a method."""
        raise NotImplementedError

    def finalize(self) -> list[relax.Var]:
        """The state at the end of a method."""
        raise NotImplementedError

    def to(self, dtype: str | None = None) -> None:
        """Change the dtype of the state."""


# ---------------------------------------------------------------- modules


class Module:
    """Base of models and their parts.

    >>> class MLP(nn.Module):
    ...     def __init__(self):
    ...         self.fc = nn.Linear(784, 10)
    ...     def forward(self, x):
    ...         return nn.op.relu(self.fc(x))
    >>> spec = {"forward": {"x": nn.spec.Tensor(("n", 784), "float32")}}
    >>> mod, params = MLP().export_tvm(spec)
    >>> mod["forward"].ret_struct_info
    R.Tensor((n, 10), dtype="float32")

    With `define_subroutine = True` in a class, each use of it in an export becomes a call of a
    private function instead of its body.
    """

    define_subroutine: ClassVar[bool] = False

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        forward = vars(cls).get("forward")
        if forward is not None:
            cls.forward = _as_subroutine(forward)

    def __call__(self, *args: Tensor | float, **kwargs: Any) -> Any:
        forward = getattr(self, "forward", None)
        if forward is None:
            what = f"{type(self).__name__} has no forward"
            raise NotImplementedError(explain(what, instead="define forward(self, ...)"))
        return forward(*args, **kwargs)

    def _named(self, kind: type, prefix: str = "") -> Iterator[tuple[str, Any]]:
        """(path, member) of each member of that kind, in order of definition, parts included."""
        for name, value in vars(self).items():
            path = f"{prefix}.{name}" if prefix else name
            if isinstance(value, kind):
                yield path, value
            elif isinstance(value, Module):
                yield from value._named(kind, path)

    def named_parameters(self, prefix: str = "") -> Iterator[tuple[str, Parameter]]:
        """(path, parameter) of each parameter, in order of definition, those of parts included."""
        yield from self._named(Parameter, prefix)

    def named_effects(self, prefix: str = "") -> Iterator[tuple[str, Effect]]:
        """(path, effect) of each effect."""
        yield from self._named(Effect, prefix)

    def parameters(self) -> Iterator[Parameter]:
        """Each parameter."""
        for _, param in self.named_parameters():
            yield param

    def state_dict(
        self, *, prefix: str = "", destination: dict[str, Parameter] | None = None
    ) -> dict[str, Parameter]:
        """The parameters by path."""
        state: dict[str, Parameter] = OrderedDict() if destination is None else destination
        state.update(self.named_parameters(prefix))
        return state

    def load_state_dict(
        self, state_dict: dict[str, Any], strict: bool = True
    ) -> tuple[list[str], list[str]]:
        """Set the parameters' values from arrays or parameters; returns the paths that are missing
        and those that are unknown. Raises KeyError for either when `strict`."""
        own = self.state_dict()
        missing = [name for name in own if name not in state_dict]
        unknown = [name for name in state_dict if name not in own]
        if strict and (missing or unknown):
            what = f"the values do not match the parameters of {type(self).__name__}"
            parts = [f"missing {', '.join(missing)}"] if missing else []
            parts += [f"unknown {', '.join(unknown)}"] if unknown else []
            raise UnknownName(explain(what, got="; ".join(parts), instead="or pass strict=False"))
        for name, param in own.items():
            if name in state_dict:
                value = state_dict[name]
                param.data = value.data if isinstance(value, Parameter) else value
        return missing, unknown

    def to(self, dtype: str | None = None) -> Any:
        """Change the dtype of all parameters and effects; returns the module."""
        for value in vars(self).values():
            if isinstance(value, (Module, Parameter, Effect)):
                value.to(dtype)
        own = getattr(self, "dtype", None)
        if dtype is not None and isinstance(own, str):
            self.dtype = dtype
        return self

    def export_tvm(
        self, spec: Mapping[str, Mapping[str, Any]], debug: bool = False, allow_extern: bool = False
    ) -> Any:
        """The module as graph functions: (IRModule, [(path, parameter)]), and with `allow_extern`
        the external modules as a third.

        spec: {"method": {"argument": nn.spec.Tensor(shape, dtype), ...}}, or a ModuleSpec.
        Dimensions are ints, names (one symbolic variable for each name and method) or tir.Vars.
        debug: pass an effect through, so that `nn.op.print_` and `debug_func` work.
        """
        return EXPORT.get()(self, spec, debug, allow_extern)

    def jit(
        self,
        spec: Mapping[str, Mapping[str, Any]],
        device: str = "cpu",
        pipeline: str = "default",
        out_format: str = "torch",
        debug: bool = False,
    ) -> Any:
        """Compile with the parameters' values. `out_format`: "torch" for methods that take and
        return torch tensors, "tvm" for runtime tensors. Raises ValueError where a value is not set.
        """
        return JIT.get()(self, spec, device, pipeline, out_format, debug)


def _as_subroutine(forward: Callable[..., Any]) -> Callable[..., Any]:
    """`forward`, exported as a function of its own where the module's class requests it."""

    @functools.wraps(forward)
    def call(self: Module, *args: Tensor | float, **kwargs: Any) -> Any:
        if self.define_subroutine and Scope.current() is not None:
            return CALL_SUBROUTINE.get()(self, forward, args, kwargs)
        return forward(self, *args, **kwargs)

    return call


class ModuleList(Module):
    """Modules in a row, called one after the other."""

    def __init__(self, modules: Iterable[Module]) -> None:
        self.modules = list(modules)

    def _named(self, kind: type, prefix: str = "") -> Iterator[tuple[str, Any]]:
        yield from _named_items(enumerate(self.modules), kind, prefix)

    def __iter__(self) -> Iterator[Module]:
        return iter(self.modules)

    def __getitem__(self, index: slice | int) -> Any:
        return self.modules[index]

    def __setitem__(self, index: int, module: Module) -> None:
        self.modules[index] = module

    def __len__(self) -> int:
        return len(self.modules)

    def append(self, module: Module) -> None:
        """Add a module at the end."""
        self.modules.append(module)

    def to(self, dtype: str | None = None) -> ModuleList:
        """Change the dtype of all modules."""
        for module in self.modules:
            module.to(dtype)
        return self

    def forward(self, x: Tensor) -> Any:
        """The last module of the one before of ... of `x`."""
        for module in self.modules:
            x = module(x)
        return x


class ModuleDict(Module):
    """Modules by name."""

    def __init__(self, modules: dict[str, Module] | None = None) -> None:
        self.modules = dict(modules or {})

    def _named(self, kind: type, prefix: str = "") -> Iterator[tuple[str, Any]]:
        yield from _named_items(self.modules.items(), kind, prefix)

    def __iter__(self) -> Iterator[Module]:
        return iter(self.modules.values())

    def __getitem__(self, key: str) -> Module:
        return self.modules[key]

    def __setitem__(self, key: str, module: Module) -> None:
        self.modules[key] = module

    def __len__(self) -> int:
        return len(self.modules)

    def __contains__(self, key: str) -> bool:
        return key in self.modules

    def keys(self) -> Any:
        """The names."""
        return self.modules.keys()

    def values(self) -> Any:
        """The modules."""
        return self.modules.values()

    def items(self) -> Any:
        """(name, module) pairs."""
        return self.modules.items()

    def to(self, dtype: str | None = None) -> ModuleDict:
        """Change the dtype of all modules."""
        for module in self.modules.values():
            module.to(dtype)
        return self


def _named_items(items: Iterable[Any], kind: type, prefix: str) -> Iterator[tuple[str, Any]]:
    for name, value in items:
        path = f"{prefix}.{name}" if prefix else str(name)
        if isinstance(value, kind):
            yield path, value
        elif isinstance(value, Module):
            yield from value._named(kind, path)


def as_operand(value: object, like: Tensor | str | float | None = None) -> Any:
    """The expression of a Tensor; a number becomes a constant of the other operand's dtype."""
    if isinstance(value, (Tensor, Object)):
        return value._expr
    if isinstance(value, (bool, int, float, np.generic)):
        return relax.const(value, like.dtype if isinstance(like, Tensor) else None)
    if isinstance(value, (relax.Expr, PrimExpr, StructInfo)):
        return value
    what = "operators of nn take nn.Tensors and numbers"
    raise TypeError(explain(what, got=f"{type(value).__name__}: {value!r}"))
