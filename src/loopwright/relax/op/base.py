"""The core operators: calls of kernels, external functions and closures; shapes; memory.

The graph level itself needs them, so they are defined here and not in `ops/`.
Each has a builder, "FInferStructInfo", "FPurity" and, where possible, "FNumpy".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...base.errors import explain
from ...base.examples import add_examples
from ...ir.expr import Attrs, GlobalVar
from ...ir.module import VDevice
from ...ir.op import Op, register_op, register_op_attr
from ...ir.prim_expr import IntImm, PrimExpr
from ...runtime.device import Device
from ...runtime.effects import require, say
from .. import expr as rx
from .. import struct_info as si
from ..relations import infer_by_sinfo_args
from . import register_view

Infer = Callable[[rx.Call, Any], si.StructInfo]


def define(
    name: str,
    infer: Infer,
    *,
    pure: bool = True,
    numpy: Callable[..., Any] | None = None,
    folds: bool = True,
) -> Op:
    """A core operator `relax.<name>` and its attributes. `folds`: whether a call of constants may
    be replaced by its value."""
    op = register_op(f"relax.{name}")
    op.set_attr("FInferStructInfo", infer, origin=__name__)
    op.set_attr("FPurity", pure, origin=__name__)
    op.set_attr("folds", folds, origin=__name__)
    if numpy is not None:
        op.set_attr("FNumpy", numpy, origin=__name__)  # which may be a numpy function
    return op


def object_info(call: rx.Call, bb: Any) -> si.StructInfo:
    """Infers an object of unknown type."""
    return si.ObjectStructInfo()


def void_info(call: rx.Call, bb: Any) -> si.StructInfo:
    """Infers the empty tuple, which represents no value."""
    return si.TupleStructInfo([])


def same_as_argument(call: rx.Call, bb: Any) -> si.StructInfo:
    """Infers the struct info of the first argument."""
    return call.args[0].struct_info


def _stated(call: rx.Call, bb: Any) -> si.StructInfo:
    """The struct info in the call's single `sinfo_args`."""
    if len(call.sinfo_args) != 1:
        what = f"{call.op.name} states its output by one struct info"
        raise ValueError(explain(what, got=f"{len(call.sinfo_args)}", instead="give out_sinfo"))
    return call.sinfo_args[0]


def _stated_all(call: rx.Call, bb: Any) -> si.StructInfo:
    return infer_by_sinfo_args(call)


def view_as(name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Make a function the builder `relax.op.<name>`."""
    return lambda fn: register_view(name, fn)


# ---------------------------------------------------------------- calls of loops


def argument_tuple(args: rx.Expr | Sequence[rx.Expr]) -> rx.Expr:
    """Call arguments as one tuple: a list is converted, a tuple unchanged, a tensor wrapped."""
    if isinstance(args, (list, tuple)):
        return rx.Tuple(args)
    packed = rx.as_expr(args)
    if isinstance(packed, rx.Tuple) or isinstance(packed.struct_info, si.TupleStructInfo):
        return packed
    return rx.Tuple([packed])


def _out_sinfo(out_sinfo: object) -> si.StructInfo:
    if isinstance(out_sinfo, (list, tuple)):
        listed = [rx.as_struct_info(s) for s in out_sinfo]
        return listed[0] if len(listed) == 1 else si.TupleStructInfo(listed)
    infos = rx.as_struct_info(out_sinfo)
    if not isinstance(infos, si.StructInfo):
        what = "out_sinfo is a struct info or a list of them"
        hint = 'write R.Tensor((2, 3), dtype="float32")'
        raise TypeError(explain(what, got=repr(out_sinfo), instead=hint))
    return infos


def _tir_args(
    func: GlobalVar,
    args: rx.Expr | Sequence[rx.Expr],
    tir_vars: rx.Expr | Sequence[PrimExpr] | None,
) -> list[Any]:
    operands = [_callee(func), argument_tuple(args)]
    if tir_vars is not None:
        operands.append(rx.ShapeExpr(tir_vars) if isinstance(tir_vars, (list, tuple)) else tir_vars)
    return operands


def _callee(func: Any) -> Any:
    return rx.ExternFunc(func) if isinstance(func, str) else func


def _inline_tuple(bb: Any, call: rx.Call) -> rx.Call:
    """call_tir takes an inline tuple of arguments: unpack one held by a variable."""
    args = call.args[1]
    if isinstance(args, rx.Tuple):
        return call
    info = args.struct_info
    if not isinstance(info, si.TupleStructInfo):
        what = f"{call.op.name} takes its arguments as a tuple"
        raise ValueError(explain(what, got=f"{args} with {info}", span=call.span))
    bound = bb.lookup_binding(args)
    if isinstance(bound, rx.Tuple):
        fields = bound
    else:
        fields = rx.Tuple([rx.TupleGetItem(args, i) for i in range(len(info.fields))])
    return call.replace(args=(call.args[0], fields, *call.args[2:]))


CALL_TIR = define("call_tir", _stated, folds=False)
CALL_TIR_INPLACE = define("call_tir_inplace", _stated, folds=False)
CALL_TIR_WITH_GRAD = define("call_tir_with_grad", _stated, folds=False)
CALL_DPS_PACKED = define("call_dps_packed", _stated, folds=False)
for _op in (CALL_TIR, CALL_TIR_INPLACE, CALL_TIR_WITH_GRAD):
    _op.set_attr("FNormalize", _inline_tuple)


@view_as("call_tir")
def call_tir(
    gvar: GlobalVar,
    args: rx.Expr | Sequence[rx.Expr],
    out_sinfo: Any,
    tir_vars: rx.Expr | Sequence[PrimExpr] | None = None,
) -> rx.Call:
    """Call a PrimFunc in destination-passing style: outputs of `out_sinfo` are allocated and
    passed after `args`, then `tir_vars`."""
    return rx.Call(CALL_TIR, _tir_args(gvar, args, tir_vars), None, [_out_sinfo(out_sinfo)])


@view_as("call_tir_with_grad")
def call_tir_with_grad(
    gvar: GlobalVar,
    args: rx.Expr | Sequence[rx.Expr],
    out_sinfo: Any,
    te_grad_name: str,
    te_grad_kwargs: dict[str, Any] | None = None,
    tir_vars: Sequence[PrimExpr] | None = None,
) -> rx.Call:
    """`call_tir` whose gradient is the te function registered as `te_grad_name`. out_sinfo: as for `call_tir`."""
    values = {"te_grad_name": te_grad_name, "te_grad_kwargs": dict(te_grad_kwargs or {})}
    attrs = Attrs("relax.call_tir_with_grad", values)
    infos = [_out_sinfo(out_sinfo)]
    return rx.Call(CALL_TIR_WITH_GRAD, _tir_args(gvar, args, tir_vars), attrs, infos)


@view_as("call_tir_inplace")
def call_tir_inplace(
    gvar: GlobalVar,
    args: Sequence[rx.Expr],
    inplace_indices: int | Sequence[int],
    out_sinfo: Any,
    tir_vars: rx.Expr | Sequence[PrimExpr] | None = None,
) -> rx.Call:
    """`call_tir` that writes output i, of `out_sinfo[i]`, over argument `inplace_indices[i]` (-1: allocate it).

    Raises ValueError if an index is out of range, duplicated, or of another shape or dtype.
    """
    indices = [inplace_indices] if isinstance(inplace_indices, int) else list(inplace_indices)
    indices = [int(i) for i in indices]
    call_args = _tir_args(gvar, args, tir_vars)
    out = _out_sinfo(out_sinfo)
    outs = out.fields if isinstance(out, si.TupleStructInfo) else (out,)
    _check_inplace(indices, call_args[1], outs)
    attrs = Attrs("relax.call_tir_inplace", {"inplace_indices": indices})
    return rx.Call(CALL_TIR_INPLACE, call_args, attrs, [out])


def _check_inplace(indices: list[int], args: rx.Tuple, outs: tuple[si.StructInfo, ...]) -> None:
    what = "call_tir_inplace: inplace_indices"
    count = len(args.fields) if isinstance(args, rx.Tuple) else len(args.struct_info.fields)
    if len(indices) != len(outs):
        raise ValueError(explain(f"{what} has one entry for each output", got=f"{indices}"))
    if all(i == -1 for i in indices):
        raise ValueError(explain(f"{what} names no argument", instead="use call_tir"))
    used = [i for i in indices if i != -1]
    if any(not 0 <= i < count for i in used) or len(set(used)) != len(used):
        got = f"{indices} for {count} arguments"
        raise ValueError(explain(f"{what} are distinct argument positions, or -1", got=got))
    if isinstance(args, rx.Tuple) and any(isinstance(args.fields[i], rx.Constant) for i in used):
        raise ValueError(explain(f"{what} names a constant", instead="use call_tir"))


@view_as("call_dps_packed")
def call_dps_packed(func: rx.Expr | str, args: rx.Expr | Sequence[Any], out_sinfo: Any) -> rx.Call:
    """Call an external function (by name) in destination-passing style. out_sinfo: the struct info of its result,
    which is allocated for it; a list for several."""
    return rx.Call(
        CALL_DPS_PACKED, [_callee(func), argument_tuple(args)], None, [_out_sinfo(out_sinfo)]
    )


# ---------------------------------------------------------------- other calls

CALL_PURE_PACKED = define("call_pure_packed", _stated_all, folds=False)
CALL_INPLACE_PACKED = define("call_inplace_packed", _stated_all, folds=False)
CALL_BUILTIN_WITH_CTX = define("call_builtin_with_ctx", _stated_all, pure=False, folds=False)
MAKE_CLOSURE = define("make_closure", object_info)
INVOKE_CLOSURE = define("invoke_closure", _stated_all, pure=False)
INVOKE_PURE_CLOSURE = define("invoke_pure_closure", _stated_all)
NULL_VALUE = define("null_value", object_info, numpy=lambda: None, folds=False)


def _sinfo_args(sinfo_args: object) -> list[si.StructInfo]:
    if sinfo_args is None:
        return []
    many = sinfo_args if isinstance(sinfo_args, (list, tuple)) else [sinfo_args]
    return [rx.as_struct_info(s() if callable(s) else s) for s in many]  # `R.Tensor` alone: any


def call_packed(
    func: str | None,
    *args: rx.Expr,
    sinfo_args: Any = None,
    attrs_type_key: str = "call_packed",
    **attrs: int,
) -> rx.Call:
    """Call an external function by name; `sinfo_args` is its result's struct info, `attrs_type_key`
    the kind of the other keywords, its attributes."""
    attributes = Attrs(attrs_type_key, attrs) if attrs else None
    return rx.Call(_callee(func), args, attributes, _sinfo_args(sinfo_args))


@view_as("call_pure_packed")
def call_pure_packed(func: rx.Var | str, *args: rx.Expr | float, sinfo_args: Any) -> rx.Call:
    """Call an external function that is known to have no side effect. sinfo_args: the struct info of its result."""
    return rx.Call(CALL_PURE_PACKED, [_callee(func), *args], None, _sinfo_args(sinfo_args))


@view_as("call_inplace_packed")
def call_inplace_packed(
    func: str, *args: rx.Expr, inplace_indices: int | Sequence[int], sinfo_args: Any
) -> rx.Call:
    """Call an external function whose only effect is on arguments that are not used later. inplace_indices: of the
    argument that each result is written over; sinfo_args: the struct info of the results."""
    indices = [inplace_indices] if isinstance(inplace_indices, int) else list(inplace_indices)
    attrs = Attrs("relax.call_inplace_packed", {"inplace_indices": [int(i) for i in indices]})
    return rx.Call(CALL_INPLACE_PACKED, [_callee(func), *args], attrs, _sinfo_args(sinfo_args))


@view_as("call_builtin_with_ctx")
def call_builtin_with_ctx(
    func: str,
    args: rx.Expr | Sequence[rx.Expr],
    *,
    sinfo_args: si.ObjectStructInfo | Sequence[Any] | None = None,
) -> rx.Call:
    """Call a builtin of the virtual machine, which gets the machine as first argument."""
    call_args = [_callee(func), argument_tuple(args)]
    return rx.Call(CALL_BUILTIN_WITH_CTX, call_args, None, _sinfo_args(sinfo_args))


@view_as("make_closure")
def make_closure(func: GlobalVar | rx.Expr, args: Sequence[rx.Expr]) -> rx.Call:
    """A closure: a function with its first arguments fixed."""
    return rx.Call(MAKE_CLOSURE, [func, argument_tuple(args)])


@view_as("invoke_closure")
def invoke_closure(
    closure: rx.Expr, args: rx.Expr | Sequence[rx.Expr], sinfo_args: si.StructInfo
) -> rx.Call:
    """Call a closure."""
    return rx.Call(INVOKE_CLOSURE, [closure, argument_tuple(args)], None, _sinfo_args(sinfo_args))


@view_as("invoke_pure_closure")
def invoke_pure_closure(closure: rx.Expr, args: Sequence[rx.Expr], sinfo_args: Any) -> rx.Call:
    """Call a closure that is known to have no side effect. sinfo_args: the struct info of its result."""
    return rx.Call(
        INVOKE_PURE_CLOSURE, [closure, argument_tuple(args)], None, _sinfo_args(sinfo_args)
    )


@view_as("null_value")
def null_value() -> rx.Call:
    """A null value, for optional arguments."""
    return rx.Call(NULL_VALUE, [])


# ---------------------------------------------------------------- shapes


def tensor_argument(call: rx.Call, index: int = 0) -> si.TensorStructInfo:
    """The struct info of a tensor argument. Raises TypeError for another kind."""
    info = call.args[index].struct_info
    if not isinstance(info, si.TensorStructInfo):
        raise TypeError(explain(f"{call.op.name} takes a tensor", got=str(info), span=call.span))
    return info


def _infer_shape_of(call: rx.Call, bb: Any) -> si.StructInfo:
    info = tensor_argument(call)
    dims = info.get_shape()
    return si.ShapeStructInfo(ndim=info.ndim) if dims is None else si.ShapeStructInfo(dims)


def _infer_tensor_to_shape(call: rx.Call, bb: Any) -> si.StructInfo:
    info = tensor_argument(call)
    if info.ndim not in (-1, 1) or str(info.dtype) not in ("int64", "handle", "void"):
        what = "tensor_to_shape takes a tensor of one dimension and dtype int64"
        raise ValueError(explain(what, got=str(info), span=call.span))
    dims = info.get_shape()
    extent = None if dims is None else dims[0]
    return si.ShapeStructInfo(ndim=extent.value if isinstance(extent, IntImm) else -1)


def _infer_shape_to_tensor(call: rx.Call, bb: Any) -> si.StructInfo:
    info = call.args[0].struct_info
    if not isinstance(info, si.ShapeStructInfo):
        raise TypeError(explain("shape_to_tensor takes a shape", got=str(info), span=call.span))
    if info.ndim == -1:
        return si.TensorStructInfo(None, "int64", ndim=1)
    return si.TensorStructInfo([info.ndim], "int64")


SHAPE_OF = define("shape_of", _infer_shape_of, numpy=lambda x: tuple(x.shape))
TENSOR_TO_SHAPE = define(
    "tensor_to_shape", _infer_tensor_to_shape, numpy=lambda x: tuple(int(v) for v in x)
)
SHAPE_TO_TENSOR = define(
    "shape_to_tensor", _infer_shape_to_tensor, numpy=lambda s: np.array(s, "int64")
)


@view_as("shape_of")
def shape_of(expr: rx.Expr) -> rx.Call:
    """The shape of a tensor."""
    return rx.Call(SHAPE_OF, [expr])


@view_as("tensor_to_shape")
def tensor_to_shape(expr: rx.Expr) -> rx.Call:
    """A shape from a 1-d int64 tensor."""
    return rx.Call(TENSOR_TO_SHAPE, [expr])


@view_as("shape_to_tensor")
def shape_to_tensor(expr: rx.Expr) -> rx.Call:
    """A 1-d int64 tensor from a shape."""
    return rx.Call(SHAPE_TO_TENSOR, [expr])


# ---------------------------------------------------------------- effects


def _infer_assert(call: rx.Call, bb: Any) -> si.StructInfo:
    info = call.args[0].struct_info if call.args else None
    scalar = isinstance(info, (si.PrimStructInfo, si.TensorStructInfo))
    dims = info.get_shape() if isinstance(info, si.TensorStructInfo) else ()
    typed = scalar and str(info.dtype) not in ("handle", "void")
    if not scalar or dims or (typed and not info.dtype.is_bool):
        what = "assert_op takes a boolean scalar as condition"
        raise TypeError(explain(what, got=str(info), span=call.span))
    return si.TupleStructInfo([])


PRINT = define("print", void_info, pure=False, numpy=say)
ASSERT = define("assert_op", _infer_assert, pure=False, numpy=require)


@view_as("print")
def relax_print(
    *values: rx.Expr | Sequence[rx.Expr | Sequence[Any]], format: rx.StringImm | str = ""
) -> rx.Call:
    """Print values at run time; `format` is a Python format string."""
    return rx.Call(PRINT, [as_text(format), *(_scalar(v) for v in values)])


@view_as("assert_op")
def assert_op(
    condition: rx.Expr | bool,
    format_args: rx.Expr | tuple[rx.Expr, ...] | None = None,
    format: rx.StringImm | str = "",
) -> rx.Call:
    """Fail at run time unless `condition` holds; `format` and `format_args` make the message."""
    if format_args is None:
        values = []
    else:
        values = list(format_args) if isinstance(format_args, (list, tuple)) else [format_args]
    return rx.Call(ASSERT, [_scalar(condition), as_text(format), *(_scalar(v) for v in values)])


def as_text(value: rx.StringImm | str) -> Any:
    """A Python string as an expression."""
    return rx.StringImm(value) if isinstance(value, str) else value


def _scalar(value: Any) -> Any:
    return (
        rx.const(value) if isinstance(value, (bool, int, float, np.generic)) else rx.as_expr(value)
    )


# ---------------------------------------------------------------- devices


def _infer_to_vdevice(call: rx.Call, bb: Any) -> si.StructInfo:
    info = tensor_argument(call)
    return si.TensorStructInfo(info.shape, info.dtype, call.attrs.dst_vdevice, info.ndim)


TO_VDEVICE = define("to_vdevice", _infer_to_vdevice, numpy=lambda x, dst_vdevice: x)
HINT_ON_DEVICE = define("hint_on_device", same_as_argument, numpy=lambda x, **_: x)


@view_as("to_vdevice")
def to_vdevice(data: rx.Expr, dst_vdevice: VDevice) -> rx.Call:
    """Copy a tensor to another virtual device."""
    return rx.Call(TO_VDEVICE, [data], Attrs("relax.to_vdevice", {"dst_vdevice": dst_vdevice}))


@view_as("hint_on_device")
def hint_on_device(data: rx.Expr, dst_vdevice: Device, memory_scope: str = "global") -> rx.Call:
    """Request a device for a tensor; RealizeVDevice inserts the copies."""
    values = {
        "device_type": int(dst_vdevice.device_type),
        "index": int(dst_vdevice.index),
        "memory_scope": memory_scope,
    }
    return rx.Call(HINT_ON_DEVICE, [data], Attrs("relax.hint_on_device", values))


def register_gradient(
    op_name: str, fgradient: Callable[..., Any] | None = None, level: int = 10
) -> Any:
    """Set an operator's gradient: (orig_var, orig_call, output_grad, ctx) -> list."""
    return register_op_attr(op_name, "FPrimalGradient", fgradient, level)


add_examples(
    globals(),
    """
    x = relax.Var("x", R.Tensor((2, 3), "float32"));
    f = lw.GlobalVar("f");
    s = relax.Var("s", R.Shape([2, 3]));
    out = R.Tensor((2, 3), "float32");
    closure = relax.Var("closure", R.Object())
    """,
    """
    call_tir: relax.op.call_tir(f, [x], out)  # R.call_tir(f, (x,), out_sinfo=R.Tensor((2, 3), dtype="float32"))
    call_tir_inplace: relax.op.call_tir_inplace(f, [x], [0], out)  # R.call_tir_inplace(f, (x,), out_sinfo=R.Tensor((2, 3), dtype="float32"), inplace_indices=[0])
    call_tir_with_grad: relax.op.call_tir_with_grad(f, [x], out, te_grad_name="f_grad")  # R.call_tir_with_grad(f, (x,), out_sinfo=R.Tensor((2, 3), dtype="float32"), te_grad_name="f_grad")
    call_dps_packed: relax.op.call_dps_packed("my_function", [x], out)  # R.call_dps_packed("my_function", (x,), out_sinfo=R.Tensor((2, 3), dtype="float32"))
    call_packed: relax.op.call_packed("my_function", x, sinfo_args=out)  # R.call_packed("my_function", x, sinfo_args=(R.Tensor((2, 3), dtype="float32"),))
    call_pure_packed: relax.op.call_pure_packed("my_function", x, sinfo_args=out)  # R.call_pure_packed("my_function", x, sinfo_args=(R.Tensor((2, 3), dtype="float32"),))
    call_inplace_packed: relax.op.call_inplace_packed("my_function", x, inplace_indices=0, sinfo_args=out)  # R.call_inplace_packed("my_function", x, inplace_indices=[0], sinfo_args=(R.Tensor((2, 3), dtype="float32"),))
    call_builtin_with_ctx: relax.op.call_builtin_with_ctx("vm.builtin.alloc_tensor", [x], sinfo_args=out)  # R.call_builtin_with_ctx("vm.builtin.alloc_tensor", (x,), sinfo_args=(R.Tensor((2, 3), dtype="float32"),))
    relax.op.make_closure(f, [x])  # R.make_closure(f, (x,))
    relax.op.invoke_closure(closure, [x], out)  # R.invoke_closure(closure, (x,), sinfo_args=(R.Tensor((2, 3), dtype="float32"),))
    relax.op.invoke_pure_closure(closure, [x], out)  # R.invoke_pure_closure(closure, (x,), sinfo_args=(R.Tensor((2, 3), dtype="float32"),))
    relax.op.null_value()  # R.null_value()
    relax.op.shape_of(x)  # R.shape_of(x)
    relax.op.tensor_to_shape(relax.Var("d", R.Tensor((2,), "int64")))  # R.tensor_to_shape(d)
    relax.op.shape_to_tensor(s)  # R.shape_to_tensor(s)
    relax_print: relax.op.print(x, format="x is {}")  # R.print(x, format=R.str("x is {}"))
    relax.op.assert_op(relax.const(True), format="it does not hold")  # R.assert_op(R.const(True, "bool"), format=R.str("it does not hold"))
    relax.op.to_vdevice(x, lw.ir.module.VDevice("llvm"))  # R.to_vdevice(x, dst_vdevice="llvm:-1")
    relax.op.hint_on_device(x, lw.cpu())  # R.hint_on_device(x, R.device(1, 0))
    register_gradient: callable(relax.op.register_gradient("relax.my_op", lambda orig_var, orig_call, grad, ctx: [grad]))  # True
    """,
)

__all__ = [
    "assert_op",
    "call_builtin_with_ctx",
    "call_dps_packed",
    "call_inplace_packed",
    "call_packed",
    "call_pure_packed",
    "call_tir",
    "call_tir_inplace",
    "call_tir_with_grad",
    "hint_on_device",
    "invoke_closure",
    "invoke_pure_closure",
    "make_closure",
    "null_value",
    "register_gradient",
    "relax_print",
    "shape_of",
    "shape_to_tensor",
    "tensor_to_shape",
    "to_vdevice",
]
