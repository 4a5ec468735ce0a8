"""Data types and intrinsics of the namespace `T`."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from ...base.errors import explain
from ...base.names import named
from ...ir.dtype import SMALL_FLOATS, DataType
from ...ir.prim_expr import Call, FloatImm, IterVar, PrimExpr, SizeVar, Var
from ...ir.prim_op import const as _const
from ...ir.prim_op import convert
from ...tir.buffer import Buffer as _Buffer
from .frames import pointer_type
from .region import as_operand


def dtype_constructor(name: str) -> Callable[..., PrimExpr]:
    dtype = DataType(name)

    def make(expr: PrimExpr | float | None = None, is_size_var: bool = False) -> PrimExpr:
        if expr is None:
            return SizeVar("", dtype) if is_size_var else Var("", dtype)
        if isinstance(expr, str):
            return FloatImm(dtype, float(expr)) if dtype.is_float else _const(int(expr), dtype)
        return _const(as_operand(expr), dtype)

    make.dtype = dtype
    return named(make, name, f"A {name} variable; with an argument, that value as {name}.")


DTYPES = [f"{kind}{bits}" for kind in ("int", "uint") for bits in (1, 2, 4, 8, 16, 32, 64)]
DTYPES += ["float16", "float32", "float64", "complex64", "complex128", "bfloat16", *SMALL_FLOATS]


def handle(
    dtype: str | Callable[..., Any] | None = None,
    storage_scope: str = "global",
    *,
    is_size_var: bool = False,
) -> Var:
    """A pointer variable; `dtype`: the type it points to."""
    kind = SizeVar if is_size_var else Var
    if dtype is None:
        return kind("", "handle")
    return kind("", "handle", type_annotation=(dtype_text(dtype), storage_scope))


def dtype_text(dtype: Any) -> str:
    return str(getattr(dtype, "dtype", None) or DataType(dtype))


def ptr(dtype: DataType | str, storage_scope: str = "global", is_size_var: bool = False) -> Var:
    """A pointer variable."""
    return handle(dtype, storage_scope, is_size_var=is_size_var)


def buffer_var(dtype: DataType | str, storage_scope: str = "global") -> Var:
    """The pointer variable of a buffer."""
    return Var("", "handle", type_annotation=pointer_type(dtype, storage_scope))


class _Ptr:
    """`T.Ptr[T.float32]`, `T.Ptr("float32", "shared")`: a pointer variable, as an annotation."""

    def __call__(self, dtype: Any, storage_scope: str = "global") -> Var:
        return handle(dtype, storage_scope)

    def __getitem__(self, args: Callable[..., Any]) -> Var:
        return self(*args) if isinstance(args, tuple) else self(args)


Ptr = _Ptr()


def void(expr: Any = None, *, is_size_var: bool = False) -> PrimExpr:
    """A variable of no type."""
    return dtype_constructor("void")(expr, is_size_var)


def var(dtype: DataType | str, name: str = "") -> Var:
    """A variable."""
    return Var(name, dtype)


def name_value(name: str, value: Any) -> None:
    """Give a fresh variable, axis or buffer the name it is bound to."""
    if isinstance(value, Var):
        if not value.name:
            value.name = name
    elif isinstance(value, IterVar):
        name_value(name, value.var)
    elif isinstance(value, _Buffer):
        if not value.name:
            value.name = name
        name_value(name, value.data)
        if isinstance(value.elem_offset, Var):
            name_value(f"{name}_elem_offset", value.elem_offset)
        for i, stride in enumerate(value.strides):
            if isinstance(stride, Var):
                name_value(f"{name}_s{i}", stride)


def with_regions(fn: Callable[..., Any]) -> Callable[..., Any]:
    """An intrinsic's builder that takes `A[0:4]` as a vector, and `T.float32` as a dtype.

    `dtype=` may be passed to any of them: it comes first where the builder takes one, and is
    redundant where the builder infers it from its arguments.
    """
    params = inspect.signature(fn).parameters
    names = [name for name in params if name != "span"]
    takes_dtype = "dtype" in names
    variadic = any(p.kind is p.VAR_POSITIONAL for p in params.values())

    @functools.wraps(fn)
    def build(*args: Any, **kwargs: str) -> Any:
        values = [plain_argument(a) for a in args]
        words = {name: plain_argument(value) for name, value in kwargs.items()}
        if "dtype" in words and (not takes_dtype or names[0] == "dtype"):
            dtype = words.pop("dtype")
            values = [dtype, *values] if takes_dtype else values
        if len(values) > len(names) and not variadic:
            what = f"T.{fn.__name__} takes {len(names)} arguments ({', '.join(names)})"
            raise TypeError(explain(what, got=len(values)))
        return fn(*values, **words)

    return build


def plain_argument(value: object) -> Any:
    if callable(value) and hasattr(value, "dtype"):
        return str(value.dtype)
    return as_operand(value)


def as_integer(value: PrimExpr | str | float, what: str) -> PrimExpr:
    """An integer expression. `what`: the subject of the TypeError for any other value."""
    expr = value if isinstance(value, str) else convert(value)
    if not isinstance(expr, PrimExpr) or not expr.dtype.is_integer or expr.dtype.lanes > 1:
        got = expr.dtype if isinstance(expr, PrimExpr) else type(value).__name__
        raise TypeError(explain(f"{what} is an integer", got=got))
    return expr


def intrinsic(name: str) -> Callable[..., Call]:
    """The builder of an intrinsic that has none in `tir.op`: its dtype is a keyword."""

    def build(*args: PrimExpr | int, dtype: DataType | str = "handle") -> Call:
        return Call(plain_argument(dtype), f"tir.{name}", [as_operand(a) for a in args])

    return named(build, name)
