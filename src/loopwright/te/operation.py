"""The builders of tensor expressions."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ..base.errors import explain
from ..ir.dtype import DataType
from ..ir.functor import nodes_of
from ..ir.prim_expr import IntImm, IterVar, PrimExpr, Range, ScalarLike, SizeVar, Var
from ..ir.prim_op import const as _const
from ..ir.prim_op import convert
from ..ir.variables import substitute
from ..tir.buffer import Buffer, decl_buffer
from ..tir.expr import BufferLoad
from ..tir.function import PrimFunc
from ..tir.stmt import BufferStore, Evaluate, Stmt
from ..tir.stmt_functor import substitute_buffers
from .tensor import (
    BodyOperation,
    ComputeOp,
    ExternOp,
    Operation,
    PlaceholderOp,
    Tensor,
    TensorSlice,
)

if TYPE_CHECKING:
    from ..base.span import Span


def _dims(shape: Sequence[ScalarLike] | int) -> tuple[PrimExpr, ...]:
    if isinstance(shape, (int, PrimExpr)):
        shape = (shape,)
    values = getattr(shape, "values", shape)  # a relax ShapeExpr
    return tuple(convert(extent) for extent in values)


def current_tag(tag: str) -> str:
    """`tag`, or the open `te.tag_scope`'s if it is empty."""
    scope = Operation.scope_tag
    if scope is None:
        return tag
    if tag:
        what = "an operation has its own tag inside a tag scope"
        raise ValueError(explain(what, got=f"{tag!r} in scope {scope!r}", instead="drop one"))
    return scope


def placeholder(
    shape: Sequence[ScalarLike], dtype: str | None = None, name: str = "placeholder"
) -> Tensor:
    """An input tensor; dtype defaults to float32."""
    kind = "float32" if dtype is None else dtype
    return PlaceholderOp(name, _dims(shape), kind).output(0)


def compute(
    shape: Sequence[Any],
    fcompute: Callable[..., Any],
    name: str = "compute",
    tag: str = "",
    attrs: dict[str, Any] | None = None,
    varargs_names: Sequence[str] | None = None,
) -> Any:
    """A tensor whose element at (i, j, ...) is `fcompute(i, j, ...)`.

    Axes take the names of the function's parameters; those of `*args` are named i0, i1, ... or
    `varargs_names`. A function that returns several values results in a tuple of tensors. Raises
    ValueError if the function does not take one index per dimension.
    """
    dims = _dims(shape)
    names = _axis_names(fcompute, len(dims), varargs_names)
    axis = [_axis(n, extent) for n, extent in zip(names, dims, strict=False)]
    body = fcompute(*(a.var for a in axis))
    if isinstance(body, BodyOperation):
        rest = [_axis(f"ax{n}", e, IterVar.Opaque) for n, e in enumerate(dims[len(axis) :])]
        return body.operation(name, current_tag(tag), axis, rest).output(0)
    if len(axis) < len(dims):
        raise _wrong_rank(len(dims), len(axis))
    several = isinstance(body, (tuple, list))
    parts = [_element(name, part) for part in (body if several else [body])]
    op = ComputeOp(name, current_tag(tag), attrs, axis, parts)
    return tuple(op.output(n) for n in range(op.num_outputs)) if several else op.output(0)


def _axis(name: str, extent: PrimExpr, kind: int = IterVar.DataPar) -> IterVar:
    return IterVar(Range.upto(extent), Var(name, extent.dtype), kind)


def _wrong_rank(ndim: int, count: int) -> ValueError:
    what = f"fcompute do not match dimension, ndim={ndim}"
    got = f"a function of {count} indices"
    return ValueError(explain(what, got=got, instead="take one index for each dimension"))


def _element(name: str, value: PrimExpr) -> PrimExpr:
    if isinstance(value, Tensor) and value.ndim == 0:
        return value()
    element = value.asobject() if isinstance(value, TensorSlice) else convert(value)
    if not isinstance(element, PrimExpr):
        what = f"compute {name}: the function returns an element's value"
        raise TypeError(explain(what, got=type(value).__name__, instead="index the tensor"))
    return element


def _axis_names(fn: Callable[..., Any], ndim: int, varargs: Sequence[str] | None) -> list[str]:
    code = getattr(fn, "__code__", None)
    if code is not None and not inspect.ismethod(fn):
        names = list(code.co_varnames[: code.co_argcount])
        optional = len(fn.__defaults__ or ())
        rest = bool(code.co_flags & inspect.CO_VARARGS)
    else:
        names, optional, rest = _from_signature(fn)
    if ndim < len(names) and ndim >= len(names) - optional:
        names = names[:ndim]
    extra = ndim - len(names)
    if extra < 0:
        raise _wrong_rank(ndim, len(names))
    if not rest:  # fewer: only for an intrinsic, which computes the other dimensions
        return names
    if rest and varargs is not None:
        if len(varargs) != extra:
            what = f"varargs_names names {len(varargs)} axes"
            raise RuntimeError(explain(what, got=f"{extra} axes to name"))
        return names + list(varargs)
    return names + [f"i{n}" for n in range(extra)]


def _from_signature(fn: Callable[..., Any]) -> tuple[list[str], int, bool]:
    names, optional, rest = [], 0, False
    for p in inspect.signature(fn).parameters.values():
        if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD):
            names.append(p.name)
            optional += p.default is not p.empty
        rest = rest or p.kind is p.VAR_POSITIONAL
    return names, optional, rest


def extern(
    shape: int | Sequence[Any], inputs: Sequence[Tensor], fcompute: Callable[..., Any],
    name: str = "extern", dtype: str | Sequence[str] | None = None,
    in_buffers: Buffer | Sequence[Buffer] | str | None = None,
    out_buffers: Buffer | list[Buffer] | str | None = None, tag: str = "",
    attrs: dict[str, Any] | None = None,
) -> Any:  # fmt: skip
    """Tensors computed by statements: `fcompute(ins, outs)` is given the buffers of the inputs and
    results and returns a statement, or an expression to evaluate.

    shape: one shape, or a list of shapes for several results (then a list of tensors is returned). Raises
    ValueError without a dtype and inputs, and for buffers and a body that do not fit, RuntimeError for another number
    of buffers than inputs.
    """
    shapes, single = _extern_shapes(shape)
    if not inputs and dtype is None and out_buffers is None:
        what = f"extern {name} has no input to take its dtype from"
        raise ValueError(explain(what, instead="pass dtype="))
    sources = [_input_tensor(name, t) for t in inputs]
    in_bufs = _buffer_list(in_buffers)
    if in_bufs is None:
        in_bufs = [_view_of(t.shape, t.dtype, t.op.name) for t in sources]
    elif len(in_bufs) != len(sources):
        what = f"extern {name} needs one of in_buffers for each input"
        raise RuntimeError(explain(what, got=f"{len(in_bufs)} for {len(sources)}"))
    out_bufs = _buffer_list(out_buffers)
    if out_bufs is None:
        kinds = _extern_dtypes(name, dtype, sources, len(shapes))
        pairs = zip(shapes, kinds, strict=True)
        out_bufs = [_view_of(dims, kind, name) for dims, kind in pairs]
    _check_buffers(name, sources, in_bufs, out_bufs)
    value = fcompute(in_bufs, out_bufs)
    if not isinstance(value, Stmt | PrimExpr):
        what = f"fcompute of {name} must return a statement or an expression"
        hint = "of a PrimFunc: te.extern_primfunc"
        raise ValueError(explain(what, got=type(value).__name__, instead=hint))
    body = value if isinstance(value, Stmt) else Evaluate(value)
    op = ExternOp(name, current_tag(tag), attrs, sources, in_bufs, out_bufs, body)
    outputs = [op.output(n) for n in range(op.num_outputs)]
    return outputs[0] if single else outputs


def _check_buffers(
    name: str, inputs: list[Tensor], in_bufs: list[Buffer], out_bufs: list[Buffer]
) -> None:
    shared = [b.name for b in out_bufs if any(b is other for other in in_bufs)]
    if shared:
        what, hint = f"extern {name} writes a buffer that it reads", "a buffer of its own"
        instead = f"{hint} for each result"
        raise ValueError(explain(what, got=", ".join(shared), instead=instead))
    for tensor, buffer in zip(inputs, in_bufs, strict=True):
        if tensor.dtype != buffer.dtype or tensor.ndim != len(buffer.shape):
            what = f"{tensor.op.name}, {tensor.dtype} with {tensor.ndim} dimensions"
            got = f"{buffer.name}, {buffer.dtype} with {len(buffer.shape)}"
            raise ValueError(explain(f"extern {name} sees {what}, by another buffer", got=got))
        for n, (extent, seen) in enumerate(zip(tensor.shape, buffer.shape, strict=True)):
            if (
                isinstance(extent, IntImm)
                and isinstance(seen, IntImm)
                and extent.value != seen.value
            ):
                what = f"extern {name}: buffer {buffer.name} has {seen} elements in dimension {n}"
                raise ValueError(explain(what, got=f"{extent} of {tensor.op.name}"))


def _extern_shapes(shape: int | Sequence[Any]) -> tuple[list[tuple[PrimExpr, ...]], bool]:
    if isinstance(shape, (int, PrimExpr)):
        return [_dims(shape)], True
    items = list(getattr(shape, "values", shape))
    if not items or isinstance(items[0], (int, PrimExpr)) or not hasattr(items[0], "__len__"):
        return [_dims(items)], True
    return [_dims(s) for s in items], len(items) == 1


def _input_tensor(name: str, value: Tensor) -> Tensor:
    if not isinstance(value, Tensor):
        raise ValueError(explain(f"extern {name} reads tensors", got=type(value).__name__))
    return value


def _buffer_list(buffers: Any) -> list[Buffer] | None:
    if buffers is None:
        return None
    return [buffers] if isinstance(buffers, Buffer) else list(buffers)


def _view_of(shape: Sequence[PrimExpr], dtype: str, name: str) -> Buffer:
    offset = Var("elem_offset", "int32")
    return decl_buffer(shape, dtype, name, elem_offset=offset, offset_factor=1)


def _extern_dtypes(
    name: str, dtype: str | Sequence[str] | None, inputs: list[Tensor], count: int
) -> list[Any]:
    if dtype is None:
        kinds = {t.dtype for t in inputs}
        if len(kinds) != 1:
            what = f"extern {name}: the inputs differ in dtype"
            raise ValueError(explain(what, got=", ".join(sorted(kinds)), instead="pass dtype="))
        return list(kinds) * count
    return [dtype] * count if isinstance(dtype, str) else list(dtype)


def extern_primfunc(input_tensors: Sequence[Tensor], primfunc: PrimFunc, **kwargs: Any) -> Any:
    """Tensors computed by a PrimFunc. Results are the buffers that it writes and does not read; if
    there are none, the last buffer that it both reads and writes; the last buffers if that does not
    fit the inputs.

    Its symbolic shapes are bound by the input tensors. The body, including blocks, is used
    unchanged, on the function's own buffers where these have no symbolic shapes.

    kwargs: as for `extern`.
    """
    buffers = primfunc.buffers
    ins, outs = _roles(primfunc, buffers, len(input_tensors))
    dims: dict[Var, PrimExpr] = {}
    for tensor, view in zip(input_tensors, ins, strict=True):
        for extent, declared in zip(tensor.shape, view.shape, strict=True):
            if isinstance(declared, Var):
                dims.setdefault(declared, extent)
    shapes = [[substitute(e, dims) for e in b.shape] for b in outs]

    def inlined(in_bufs: list[Buffer], out_bufs: list[Buffer]) -> Stmt:
        body = substitute_buffers(
            primfunc.body, dict(zip([*ins, *outs], in_bufs + out_bufs, strict=True))
        )
        return substitute(body, dims)

    kwargs.setdefault("name", str(primfunc.attrs.get("global_symbol", "extern_primfunc")))
    kwargs.setdefault("dtype", [str(b.dtype) for b in outs])
    kinds = kwargs["dtype"]
    if not dims:
        body = primfunc.body
        kwargs.setdefault("in_buffers", ins)
        kwargs.setdefault("out_buffers", outs)
        return extern(shapes, input_tensors, lambda *_: body, **kwargs)
    in_bufs = [decl_buffer(t.shape, t.dtype, t.op.name) for t in input_tensors]
    out_bufs = [
        decl_buffer(s, k, kwargs["name"] if len(outs) == 1 else b.name)
        for s, k, b in zip(shapes, kinds, outs, strict=True)
    ]
    return extern(
        shapes, input_tensors, inlined, in_buffers=in_bufs, out_buffers=out_bufs, **kwargs
    )


def _roles(
    primfunc: PrimFunc, buffers: list[Buffer], count: int
) -> tuple[list[Buffer], list[Buffer]]:
    """(inputs, results) of a function of `count` inputs, by what it does with its buffers."""
    accesses = nodes_of(primfunc.body, BufferLoad, BufferStore)
    read = {node.buffer for node in accesses if isinstance(node, BufferLoad)}
    written = {node.buffer for node in accesses if isinstance(node, BufferStore)}
    outs = [b for b in buffers if b in written and b not in read]
    outs = outs or [b for b in buffers if b in written][-1:]
    ins = [b for b in buffers if b in read and b not in outs]
    if len(ins) == count and len(ins) + len(outs) == len(buffers):
        return ins, outs
    return buffers[:count], buffers[count:]


def var(name: str = "tindex", dtype: str = "int32", span: Span | None = None) -> Var:
    """A scalar variable."""
    return Var(name, dtype, span)


def size_var(name: str = "size", dtype: str = "int32", span: Span | None = None) -> SizeVar:
    """A non-negative variable."""
    return SizeVar(name, dtype, span)


def const(
    value: float | PrimExpr | Tensor, dtype: str = "int32", span: Span | None = None
) -> PrimExpr:
    """A literal."""
    return _const(value, dtype, span)


def _axis_range(dom: Range | int | tuple[ScalarLike, ScalarLike]) -> Range:
    if isinstance(dom, Range):
        return dom
    if isinstance(dom, (tuple, list)):
        if len(dom) != 2:
            what = "an axis runs over (begin, end)"
            raise TypeError(explain(what, got=repr(dom), instead="te.reduce_axis((0, n))"))
        return Range(*dom)
    return Range(dom)


def reduce_axis(
    dom: Range | int | tuple[ScalarLike, ScalarLike],
    name: str = "rv",
    thread_tag: str = "",
    span: Span | None = None,
) -> IterVar:
    """An axis to reduce over: `dom` is (begin, end)."""
    domain = _axis_range(dom)
    var = Var(name, domain.extent.dtype)
    return IterVar(domain, var, IterVar.CommReduce, thread_tag, span)


def thread_axis(
    dom: Any = None, tag: str = "", name: str = "", span: Span | None = None
) -> IterVar:
    """An axis over the threads named by `tag` ("threadIdx.x"), of the extent or range `dom` (None: any).
    Raises ValueError without a tag."""
    if isinstance(dom, str):
        dom, tag = None, dom
    if not tag:
        raise ValueError(explain("a thread axis needs a tag", instead='pass "threadIdx.x"'))
    domain = None if dom is None else _axis_range(dom)
    kind = DataType("int32") if domain is None else domain.extent.dtype
    return IterVar(domain, Var(name or tag, kind), IterVar.ThreadIndex, tag, span)
