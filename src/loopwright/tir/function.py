"""Primitive functions: loops over buffers, with the buffers of parameters."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

from ..base.errors import explain, suggest
from ..base.late import Slot
from ..base.registry import Registry
from ..ir.expr import DictAttrs
from ..ir.function import BaseFunc, as_attrs
from ..ir.functor import Rewriter, rewrite
from ..ir.node import Node, define, field
from ..ir.prim_expr import BinaryOpExpr, IntImm, PrimExpr, PrimType, Var
from ..ir.prim_op import cast, convert, fold_binary
from ..ir.structural import structural_equal
from ..ir.variables import substitute
from .buffer import Buffer
from .stmt import DeclBuffer, LetStmt, Stmt

if TYPE_CHECKING:
    from ..base.span import Span

STRUCT_INFO: Slot[Callable[[Any], Any]] = Slot("tir.struct_info")


class PrimFunc(BaseFunc):
    """A function of scalars and buffers. A parameter in `buffer_map` is the handle of a buffer,
    whose shape may define variables (`n` in `(n, 128)`)."""

    params: tuple[Var, ...] = define()
    buffer_map: dict[Var, Buffer] = define()
    body: Stmt
    ret_type: Any = field(default=None)
    attrs: DictAttrs = field(default_factory=DictAttrs)

    def __init__(
        self,
        params: list[Var | Buffer] | list[Var] | tuple[Var, Var, Var, Var],
        body: Stmt,
        ret_type: PrimType | None = None,
        buffer_map: dict[Var, Buffer] | None = None,
        attrs: dict[str, Any] | DictAttrs | None = None,
        span: Span | None = None,
    ) -> None:
        variables: list[Var] = []
        views = dict(buffer_map or {})
        for item in params:
            param = convert(item)
            if isinstance(param, Buffer) and param is not item:  # a pointer of `tir.ir_builder`
                param = param.data
            if isinstance(param, Buffer):
                var = Var(param.name, "handle")
                views[var] = param
                variables.append(var)
            elif isinstance(param, Var):
                variables.append(param)
            else:
                what = "a PrimFunc's parameter is a Var or a Buffer"
                raise TypeError(explain(what, got=type(item).__name__))
        self._set(tuple(variables), views, body, ret_type, as_attrs(attrs), span)

    def with_body(self, new_body: Stmt, span: Span | None = None) -> PrimFunc:
        """The same signature with another body."""
        return self.replace(body=new_body, span=span or self.span)

    def specialize(self, param_map: dict[Var, Any]) -> PrimFunc:
        """A copy for known parameters: `{param: value}` for scalars, which are then no longer
        parameters, and `{param: buffer}` for buffers, whose shape defines the shape variables.

        Raises ValueError if a buffer does not fit the declared one, or a value its parameter.
        """
        bindings: dict[Var, Any] = {}
        for param, value in param_map.items():
            if param not in self.params:
                names = ", ".join(p.name for p in self.params)
                what = "specialize takes parameters of the function"
                raise ValueError(explain(what, got=param.name, instead=f"one of {names}"))
            if isinstance(value, Buffer):
                declared = self.buffer_map.get(param)
                _match(declared, value, bindings)
                if declared is not None and value in self.buffer_map.values():  # one memory
                    bindings[declared.data] = value.data
            elif param in self.buffer_map:
                what = f"parameter {param.name} is a buffer"
                raise ValueError(explain(what, got=value, instead="pass a Buffer"))
            else:
                scalar = _scalar(param, value)
                if not structural_equal(bindings.setdefault(param, scalar), scalar):
                    what = f"parameter {param.name}: a dimension is {bindings[param]}"
                    raise ValueError(explain(what, got=str(scalar)))
        params = tuple(p for p in self.params if p not in bindings)
        func = self if len(params) == len(self.params) else self.replace(params=params)
        addresses = {
            v: e for v, e in bindings.items() if v.dtype.is_handle and not isinstance(e, Var)
        }
        func = substitute(func, {v: e for v, e in bindings.items() if v not in addresses})
        return rewrite(_BindPointers(addresses).visit(func) if addresses else func, _folded)

    @property
    def struct_info(self) -> Any:
        """The function's signature as a graph sees it: buffers are tensors, pointers objects; pure
        where it writes to its own memory only. Inferred at each access."""
        return STRUCT_INFO.get()(self)

    @struct_info.setter
    def struct_info(self, info: Any) -> None:
        """A derived struct info is not stored."""

    def extras(self) -> dict[str, Any]:
        return {}

    @property
    def __name__(self) -> str:
        """Its `global_symbol`."""
        if self.is_private:
            raise AttributeError(explain("a private PrimFunc has no name"))
        return str(self.attrs["global_symbol"])

    @property
    def buffers(self) -> list[Buffer]:
        """The parameters' buffers in the order of the parameters."""
        return [self.buffer_map[p] for p in self.params if p in self.buffer_map]

    @property
    def is_private(self) -> bool:
        """Whether other modules cannot call it (no `global_symbol`)."""
        return "global_symbol" not in self.attrs


class _BindPointers(Rewriter):
    """Replaces pointers by expressions; a buffer that is declared on one needs a variable for it."""

    def __init__(self, values: dict[Var, PrimExpr]) -> None:
        self.values = values
        self.bound: set[Var] = set()

    def visit_Var(self, node: Var) -> PrimExpr:
        return node if node in self.bound else self.values.get(node, node)

    def visit_DeclBuffer(self, node: DeclBuffer) -> Stmt:
        data = node.buffer.data
        if data not in self.values or data in self.bound:
            return self.visit_default(node)
        self.bound.add(data)
        let = LetStmt(data, self.values[data], self.visit_default(node))
        self.bound.remove(data)
        return let


def _folded(node: Node) -> Any:
    """The value of an operation on literals."""
    return fold_binary(type(node), node.a, node.b) if isinstance(node, BinaryOpExpr) else None


def _scalar(param: Var, value: Any) -> Any:
    """A value converted to the parameter's type; raises for a fraction if that is an integer."""
    converted = convert(value)
    scalar = isinstance(converted, PrimExpr) and converted.dtype.is_handle == param.dtype.is_handle
    if not scalar or (converted.dtype.is_float and not param.dtype.is_float):
        what = f"parameter {param.name} is {param.dtype}"
        got = str(converted.dtype) if isinstance(converted, PrimExpr) else type(value).__name__
        raise ValueError(explain(what, got=f"{value} ({got})"))
    return cast(param.dtype, converted)


def _match(declared: Buffer | None, actual: Buffer, bindings: dict[Var, Any]) -> None:
    """Bind the variables of a declared buffer to those of a given one."""
    if declared is None:
        what, hint = "a Buffer is given for a parameter that is not a Buffer", "pass a value"
        raise ValueError(explain(what, got=actual.name, instead=hint))
    same_rank = len(declared.shape) == len(actual.shape)
    if not same_rank or declared.dtype != actual.dtype:
        what = f"buffer {declared.name} is {declared.dtype} with {len(declared.shape)} dimensions"
        got = f"{actual.dtype} with {len(actual.shape)} dimensions"
        raise ValueError(explain(what, got=got))
    pairs = list(zip(declared.shape, actual.shape, strict=True))
    if len(declared.strides) != len(actual.strides):
        which = "strides" if declared.strides else "no strides"
        what = f"buffer {declared.name} is declared with {which}"
        hint = "declare both with strides, or neither"
        raise ValueError(explain(what, got=f"{len(actual.strides)} strides", instead=hint))
    pairs += zip(declared.strides, actual.strides, strict=True)
    if isinstance(declared.elem_offset, Var) and actual.elem_offset is not None:
        pairs.append((declared.elem_offset, actual.elem_offset))
    for old, new in pairs:
        if isinstance(old, Var) and old not in bindings:
            bindings[old] = cast(old.dtype, new)
        else:
            expected = bindings.get(old, old) if isinstance(old, Var) else old
            if (
                isinstance(expected, IntImm)
                and isinstance(new, IntImm)
                and expected.value != new.value
            ):
                what = f"buffer {declared.name}: a dimension is {expected}"
                raise ValueError(explain(what, got=str(new)))


class TensorIntrin(Node):
    """A computation `desc` and an equivalent one for special hardware, `impl`."""

    desc: PrimFunc
    impl: PrimFunc

    @staticmethod
    def register(name: str, desc: PrimFunc, impl: PrimFunc, override: bool = False) -> None:
        """Register an intrinsic as `name`. Raises ValueError if the name is taken, or if the
        two functions have different parameters."""
        _OTHERS.find()
        if name in INTRINSICS and not override:
            hint = "pass override=True to replace it"
            raise ValueError(explain("tensor intrinsic exists", got=name, instead=hint))
        if len(desc.params) != len(impl.params):
            what = "description and implementation take the same parameters"
            got = f"{len(desc.params)} and {len(impl.params)}"
            raise ValueError(explain(what, got=got))
        for a, b in zip(desc.params, impl.params, strict=True):
            if a not in desc.buffer_map or b not in impl.buffer_map:
                what = "all parameters of a tensor intrinsic are buffers"
                raise ValueError(explain(what, got=a.name))
        intrin = TensorIntrin(desc, impl)
        INTRINSICS.register(name, lambda: intrin, override=override)

    @staticmethod
    def register_maker(name: str, make: Callable[[], TensorIntrin]) -> None:
        """Register an intrinsic as `name`, created on first access."""
        INTRINSICS.register(name, cache(make), override=True)

    @staticmethod
    def get(name: str, allow_missing: bool = False) -> TensorIntrin | None:
        """The intrinsic of that name. Raises ValueError for an unknown name."""
        if name not in INTRINSICS:
            _OTHERS.find()
        make = INTRINSICS.get(name)
        if make is None and not allow_missing:
            similar = suggest(name, sorted(INTRINSICS))
            raise ValueError(explain("no tensor intrinsic of this name", got=name, instead=similar))
        return None if make is None else make()


# Loaded for a name that is not registered: intrinsics of processors without a code generator.
_OTHERS: Slot[object] = Slot("tir.tensor_intrin")
INTRINSICS: Registry[str, Callable[[], TensorIntrin]] = Registry("tensor intrinsic")
