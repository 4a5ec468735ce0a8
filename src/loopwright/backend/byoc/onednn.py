"""oneDNN: convolutions, matrix products, pooling (`pip install onednn-cpu-gomp`).

    exe = loopwright.compile(model, backends=["onednn"])

A loop-level back end with layouts of its own. Each match of a pattern is one oneDNN primitive, with
what follows it (bias, a second operand, an activation) as post-operations. The primitive is created
when the model is compiled and chooses the layouts of its tensors; weights are reordered into that
layout at compile time. Between two primitives a tensor keeps oneDNN's layout: a reorder to
row-major followed by its inverse is eliminated, so a chain of convolutions reorders only its first
input and its last result.

The kernel of a match calls oneDNN's C API: it wraps pointers into its own memory objects (so
that concurrent calls do not interfere), executes, and fails with an error if oneDNN does.
Handles of primitives are pointers of this process: such a program cannot be exported.

Supported are float32 and constant shapes (`relax.transform.BindSymbolicVars`).
OMP_NUM_THREADS sets the number of oneDNN's threads; Loopwright's own wait meanwhile.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from ctypes import c_void_p, cast
from dataclasses import dataclass, field
from functools import cache
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from ...ir.expr import Extent, GlobalVar
from ...ir.prim_expr import IntImm, PrimExpr, StringImm, Var
from ...ir.prim_op import const as number
from ...ir.target import register_target_kind
from ...relax import Call, Constant, Function, const
from ...relax.byoc import Backend, Cost, composite_inputs
from ...relax.dpl import DFPattern, is_const, is_op, wildcard
from ...relax.op import call_tir
from ...relax.struct_info import TensorStructInfo
from ...relax.transform.fuse.fuse_ops_by_pattern import PatternCheckContext
from ...relax.transform.legalize_ops.common import register_legalize
from ...runtime.extern import ExternLibrary, Prototype
from ...script import tir as T
from ...tir import stmt as st
from ...tir.buffer import Buffer, decl_buffer
from ...tir.function import PrimFunc
from . import dnnl
from .dnnl import Layout, Post, Primitive, Unsupported

if TYPE_CHECKING:
    from ...ir.module import IRModule
    from ...relax.block_builder import BlockBuilder
    from ...relax.expr import Expr

# ---------------------------------------------------------------------- matching

ELTWISE = {"nn.relu": "relu", "sigmoid": "sigmoid", "tanh": "tanh"}
ELTWISE |= {"nn.gelu": "gelu", "nn.gelu_tanh": "gelu_tanh", "nn.silu": "swish"}
POOLS = {"nn.max_pool2d": "max", "nn.avg_pool2d": "avg", "mean": "avg"}
ROOTS = ("nn.conv2d", "nn.conv2d_transpose", "matmul", "add", "multiply", *POOLS)


def patterns() -> list[Any]:
    """Each operator with an optional bias, an optional added tensor and an optional activation,
    the longest first."""
    yes, no = (True, False), (False,)
    rows = []
    for root in ROOTS:
        is_conv, is_pool = "conv" in root, root in POOLS
        scales = yes if root == "nn.conv2d_transpose" else no  # the remains of a batch_norm
        biases = yes if is_conv or root == "matmul" else no
        sides = ("left", "right", "") if is_conv else ("",)
        for parts in product(biases, scales, sides, no if is_pool else yes):
            pattern = _pattern(root, *parts)
            rows.append((f"onednn.{root.removeprefix('nn.')}", pattern, {}, _is_supported))
    return rows


def _pattern(root: str, bias: bool, scale: bool, side: str, activation: bool) -> DFPattern:
    operands = [wildcard() for _ in range(1 if root in POOLS else 2)]
    out: DFPattern = is_op(f"relax.{root}")(*operands)
    if scale:
        out = is_op("relax.multiply")(out, is_const())
    if bias:
        out = is_op("relax.add")(out, is_const())
    if side:
        out = is_op("relax.add")(*((out, wildcard()) if side == "left" else (wildcard(), out)))
    return _activated(out) if activation else out


def _activated(x: DFPattern) -> DFPattern:
    low, high = wildcard(), wildcard()
    add, multiply, clip = (is_op(f"relax.{n}") for n in ("add", "multiply", "clip"))
    gate = clip(add(x, is_const()), low, high)
    alternatives = is_op("relax.divide")(multiply(x, gate), is_const())  # x relu6(x + 3) / 6
    alternatives |= clip(add(multiply(x, is_const()), is_const()), low, high)  # hard sigmoid
    alternatives |= clip(x, low, high)
    for name in ELTWISE:
        alternatives |= is_op(f"relax.{name}")(x)
    return alternatives


def _is_supported(match: PatternCheckContext) -> bool:
    """Whether a match is one primitive: no inner value is used outside, and oneDNN supports it."""
    inside = match.matched_bindings
    root = match.value_to_bound_var[match.matched_expr]
    for var in inside:
        if var is not root and not all(user in inside for user in match.var_usages.get(var, ())):
            return False
    for value in (match.matched_expr, *inside.values()):
        info = value.struct_info
        if isinstance(info, TensorStructInfo) and str(info.dtype) != "float32":
            return match.refuse(f"{info.dtype} is not supported, only float32")
        if _extents(info) is None:
            return match.refuse("its extents are symbolic (relax.transform.BindSymbolicVars)")
    job = read(inside)
    if job is None:
        return False
    try:
        primitive = job.primitive([Layout.plain(o.dims) for o in job.inputs])
    except Unsupported as err:
        return match.refuse(str(err))
    return primitive is not None or match.refuse("no primitive has this form")


# ---------------------------------------------------------------------- descriptions of matches


@dataclass(frozen=True)
class Operand:
    """A tensor operand of a primitive: a variable or a constant, and its extents."""

    value: Any
    dims: tuple[int, ...]

    @property
    def array(self) -> np.ndarray | None:
        return self.value.data.numpy() if isinstance(self.value, Constant) else None


@dataclass
class Job:
    """One primitive: its operator, its tensors, its post-operations.

    tensors: execution argument -> operand. The result has the extents `dims`.
    """

    call: Call
    dims: tuple[int, ...]
    tensors: dict[int, Operand]
    post: list[Post] = field(default_factory=list)

    @property
    def inputs(self) -> list[Operand]:
        return list(self.tensors.values())

    def primitive(self, layouts: list[Layout]) -> Primitive | None:
        """The primitive for inputs in the given `layouts`; None if oneDNN does not support it."""
        return MAKERS[self.call.op.name.removeprefix("relax.")](self, layouts)


def read(bindings: Mapping[Any, Any]) -> Job | None:
    """The bindings of a match, in order, as a job; None for what oneDNN cannot express."""
    steps = list(bindings.items())
    var, call = steps.pop(0)
    operands = [o for o in map(_operand, call.args) if o is not None]
    dims = _extents(call.struct_info)
    if dims is None or len(operands) < len(call.args):
        return None
    arguments = (dnnl.SRC, dnnl.SRC_1 if _is_binary(call) else dnnl.WEIGHTS)
    tensors: dict[int, Operand] = dict(zip(arguments, operands, strict=False))
    job = Job(call, dims, tensors)
    while steps:
        post = _post(job, var, [value for _, value in steps])
        if not post:
            return None
        var = steps[post - 1][0]
        del steps[:post]
    return job


def _post(job: Job, x: Expr, calls: list[Any]) -> int:
    """Add the first use of `x` to a job; return how many calls it spans, 0 if it cannot be
    expressed."""
    call, name = calls[0], calls[0].op.name.removeprefix("relax.")
    names = [c.op.name.removeprefix("relax.") for c in calls[:4]]
    if names == ["add", "clip", "multiply", "divide"]:
        shift, scale = _scalar(calls[0], x), _scalar(calls[3], None)
        if shift and scale and calls[2].args[0] is x and _limits(calls[1]) == (0, scale):
            job.post.append(("eltwise", "hardswish", 1 / scale, shift / scale))
            return 4
        return 0
    if name in ELTWISE:
        job.post.append(("eltwise", ELTWISE[name], float(name == "nn.silu"), 0.0))
        return 1
    if name == "clip":
        job.post.append(("eltwise", "clip", *_limits(call)))
        return 1
    other = _operand(next((a for a in call.args if a is not x), x))
    if name not in dnnl.BINARY or other is None or len(other.dims) > len(job.dims):
        return 0
    scalar = _scalar(call, x)
    if scalar is not None:
        linear = (1.0, scalar) if name == "add" else (scalar, 0.0)
        job.post.append(("eltwise", "linear", *linear))
        return 1
    shape = (1,) * (len(job.dims) - len(other.dims)) + other.dims
    if any(a not in (1, b) for a, b in zip(shape, job.dims, strict=True)):
        return 0
    channel = -1 if job.call.op.name == "relax.matmul" else 1
    per_channel = math.prod(shape) == shape[channel] == job.dims[channel]
    first = not job.post and not _is_binary(job.call) and other.array is not None
    if name == "add" and first and per_channel:
        job.tensors[dnnl.BIAS] = Operand(other.value, other.dims)
    else:
        job.tensors[dnnl.post_argument(len(job.post))] = Operand(other.value, shape)
        job.post.append(("binary", name, shape))
    return 1


def _is_binary(call: Call) -> bool:
    return call.op.name in ("relax.add", "relax.multiply")


def _operand(value: Expr) -> Operand | None:
    dims = _extents(value.struct_info)
    return None if dims is None else Operand(value, dims)


def _extents(info: TensorStructInfo) -> tuple[int, ...] | None:
    """The extents of a float32 tensor with constant extents."""
    shape = info.get_shape() if isinstance(info, TensorStructInfo) else None
    if shape is None or str(info.dtype) != "float32":
        return None
    return tuple(d.value for d in shape) if all(isinstance(d, IntImm) for d in shape) else None


def _scalar(call: Call, x: Expr | None) -> float | None:
    """The scalar constant that a call takes besides `x`."""
    for a in call.args:
        if a is not x and isinstance(a, Constant) and a.data.numpy().size == 1:
            return float(a.data.numpy().reshape(()))
    return None


def _limits(call: Call) -> tuple[float, float]:
    low, high = (float(a.value.value) for a in call.args[1:])
    return low, high


# ---------------------------------------------------------------------- primitives


def _convolution(job: Job, layouts: list[Layout]) -> Primitive | None:
    attrs, src, weights = job.call.attrs, job.tensors[dnnl.SRC], job.tensors[dnnl.WEIGHTS]
    transposed = job.call.op.name == "relax.nn.conv2d_transpose"
    plain = str(attrs.data_layout) == "NCHW" and str(attrs.out_layout or "NCHW") == "NCHW"
    kernel = str(attrs.kernel_layout)
    if not plain or kernel != ("IOHW" if transposed else "OIHW") or weights.array is None:
        return None
    strides, dilation, padding = (_ints(attrs[k]) for k in ("strides", "dilation", "padding"))
    if transposed:  # output beyond the padding reduces the padding
        more = _ints(attrs.output_padding)
        padding = padding[:2] + tuple(p - m for p, m in zip(padding[2:], more, strict=True))
    if min(padding) < 0:
        return None
    dims = _weights(job).shape
    has_bias = dnnl.BIAS in job.tensors
    args = (src.dims, dims, job.dims, strides, dilation, padding, has_bias, tuple(job.post))
    return dnnl.convolution(*args, transposed)


def _weights(job: Job) -> np.ndarray:
    """A convolution's weights with oneDNN's axes: ([groups], out, in, ...)."""
    array = job.tensors[dnnl.WEIGHTS].array
    assert array is not None
    groups = int(job.call.attrs.groups)
    transposed = job.call.op.name == "relax.nn.conv2d_transpose"
    array = array.reshape(groups, array.shape[0] // groups, *array.shape[1:])
    array = array.swapaxes(1, 2) if transposed else array
    return array if groups > 1 else array[0]


def _matmul(job: Job, layouts: list[Layout]) -> Primitive | None:
    src, weights = job.tensors[dnnl.SRC], job.tensors[dnnl.WEIGHTS]
    if len(src.dims) < 2 or len(src.dims) != len(weights.dims):
        return None
    is_constant = weights.array is not None
    has_bias = dnnl.BIAS in job.tensors
    args = (src.dims, weights.dims, job.dims, has_bias, is_constant, tuple(job.post))
    return dnnl.matmul(*args)


def _pooling(job: Job, layouts: list[Layout]) -> Primitive | None:
    attrs, src = job.call.attrs, job.tensors[dnnl.SRC]
    if len(src.dims) != 4:
        return None
    if job.call.op.name == "relax.mean":
        axes = sorted(int(a) % 4 for a in attrs.axis or ())
        if axes != [2, 3] or not attrs.keepdims:
            return None
        window = src.dims[2:]
        return dnnl.pooling(
            "avg_include_padding", layouts[0], job.dims, window, (1, 1), (1, 1), (0,) * 4
        )
    if str(attrs.layout) != "NCHW" or attrs.ceil_mode:
        return None
    kind = "max"
    if job.call.op.name == "relax.nn.avg_pool2d":
        kind = f"avg_{'include' if attrs.count_include_pad else 'exclude'}_padding"
    keys = ("pool_size", "strides", "dilation", "padding")
    return dnnl.pooling(kind, layouts[0], job.dims, *(_ints(attrs[k]) for k in keys))


def _binary(job: Job, layouts: list[Layout]) -> Primitive | None:
    a, b = job.tensors[dnnl.SRC], job.tensors[dnnl.SRC_1]
    stretched = all(y in (1, x) for x, y in zip(a.dims, b.dims, strict=False))
    if len(a.dims) != 4 or len(b.dims) != 4 or a.dims != job.dims or not stretched:
        return None
    if a.array is not None or b.array is not None:
        return None
    return dnnl.binary(
        job.call.op.name.removeprefix("relax."), *layouts[:2], job.dims, tuple(job.post)
    )


def _ints(values: Sequence[Extent | int]) -> tuple[int, ...]:
    return tuple(int(v) for v in values)


MAKERS = {"nn.conv2d": _convolution, "nn.conv2d_transpose": _convolution, "matmul": _matmul}
MAKERS |= {"add": _binary, "multiply": _binary, **dict.fromkeys(POOLS, _pooling)}


# ---------------------------------------------------------------------- kernels

# Kernels that reorder a tensor to row-major -> the layout of their input.
_LEFT: dict[GlobalVar, Layout] = {}
PROTOTYPES = [
    "int dnnl_memory_create(void* memory, int64_t layout, int64_t engine, void* data)",
    "int dnnl_memory_destroy(int64_t memory)",
    "int dnnl_primitive_execute(int64_t primitive, int64_t stream, int count, void* arguments)",
    "int dnnl_stream_wait(int64_t stream)",
]


def lower(bb: BlockBuilder, call: Call) -> Any:
    """The rule: a call of a composite function becomes a call of its primitive's kernel."""
    composite = call.attrs["composite"]
    arg_of = dict(zip(composite_inputs(composite), call.args, strict=True))
    bindings = {b.var: b.value for block in composite.body.blocks for b in block.bindings}
    job = read(bindings)
    assert job is not None  # guaranteed by the pattern's check
    sources = [_source(bb, arg_of.get(o.value, o.value), o) for o in job.inputs]
    primitive = job.primitive([layout for _, layout in sources])
    assert primitive is not None
    tensors = []
    for argument, operand, (value, layout) in zip(job.tensors, job.inputs, sources, strict=True):
        array = operand.array
        if argument == dnnl.BIAS and array is not None:
            ones = (1,) * (len(job.dims) - 1) if job.call.op.name == "relax.matmul" else ()
            array = array.reshape(*ones, -1)
            value, layout = const(array), Layout.plain(array.shape)
        elif argument == dnnl.WEIGHTS and array is not None:
            array = _weights(job) if "conv" in job.call.op.name else array
            layout = primitive.layout(argument, array.shape)
            array = dnnl.reordered(array, Layout.plain(array.shape), layout)
            value = const(array.reshape(_shape(layout)))
        else:
            wish = primitive.layout(argument, operand.dims)
            if layout != wish:
                value, layout = bb.emit(_reordered(bb, value, layout, wish)), wish
        tensors.append((value, layout))
    # Arguments in the primitive's order; the result is the last.
    order = [list(job.tensors).index(a) for a in primitive.arguments[:-1]]
    tensors = [tensors[i] for i in order]
    out = primitive.layout(dnnl.DST, job.dims)
    result = _call(bb, primitive, tensors, out, call.op.name.split(".")[-1])
    row_major = Layout.plain(job.dims)
    return result if out == row_major else _reordered(bb, bb.emit(result), out, row_major)


def _source(bb: BlockBuilder, value: Any, operand: Operand) -> tuple[Any, Layout]:
    """A tensor and its layout; the input of a kernel that reorders to row-major is used
    directly."""
    binding = bb.lookup_binding(value) if not isinstance(value, Constant) else None
    if isinstance(binding, Call) and binding.op.name == "relax.call_tir":
        layout = _LEFT.get(binding.args[0])
        if layout is not None and layout.dims == operand.dims:
            return binding.args[1].fields[0], layout
    return value, Layout.plain(operand.dims)


def _reordered(bb: BlockBuilder, value: Expr, source: Layout, target: Layout) -> Any:
    primitive = dnnl.reorder(source, target)
    return _call(bb, primitive, [(value, source)], target, "reorder")


def _call(
    bb: BlockBuilder,
    primitive: Primitive,
    tensors: list[tuple[Any, Layout]],
    out: Layout,
    name: str,
) -> Any:
    """A call of a primitive's kernel. Tensors not in row-major order are flat to other kernels."""
    layouts = [layout for _, layout in tensors] + [out]
    shapes = [_shape(layout) for layout in layouts]
    func = kernel(primitive, layouts, shapes)
    gvar = bb.add_func(func, f"onednn_{name}")
    if name == "reorder" and out == Layout.plain(out.dims):
        _LEFT[gvar] = layouts[0]
    return call_tir(gvar, [value for value, _ in tensors], TensorStructInfo(shapes[-1], "float32"))


def _shape(layout: Layout) -> tuple[int, ...]:
    return layout.dims if layout == Layout.plain(layout.dims) else (layout.bytes // 4,)


def kernel(primitive: Primitive, layouts: list[Layout], shapes: Iterable[Any]) -> PrimFunc:
    """A PrimFunc that executes a primitive on its buffers: dnnl_primitive_execute with an array of
    dnnl_exec_arg_t, pairs of an argument's number and a memory object."""
    buffers = [decl_buffer(shape, "float32", f"t{i}") for i, shape in enumerate(shapes)]
    pairs = list(zip(primitive.arguments, layouts, buffers, strict=True))
    scratch: list[Buffer] = []
    if primitive.scratchpad.bytes:
        scratch = [decl_buffer((primitive.scratchpad.bytes,), "uint8", "scratch")]
        pairs.append((dnnl.SCRATCHPAD, primitive.scratchpad, scratch[0]))
    count = len(pairs)
    listed = decl_buffer((2 * count,), "int64", "arguments")
    engine, stream = (_handle(h) for h in (dnnl.engine(), dnnl.stream()))
    body: list[Any] = []
    for i, (argument, layout, buffer) in enumerate(pairs):
        body.append(st.BufferStore(listed, number(argument, "int64"), [2 * i]))
        memory = T.address_of(listed[2 * i + 1])
        args = ("dnnl_memory_create", memory, _handle(layout.handle), engine, buffer.data)
        body.append(_checked("dnnl_memory_create", *args[1:]))
    execute = (_handle(primitive.handle), stream, count, listed.data)
    body.append(_checked("dnnl_primitive_execute", *execute))
    if dnnl.is_asynchronous():
        body.append(_checked("dnnl_stream_wait", stream))
    for i in range(count):
        body.append(_checked("dnnl_memory_destroy", listed[2 * i + 1]))
    params = [Var(f"p{i}", "handle") for i in range(len(buffers))]
    block = st.Block([], [], [], "root", st.seq(*body), alloc_buffers=[listed, *scratch])
    pairs = dict(zip(params, buffers, strict=True))
    return PrimFunc(params, st.BlockRealize([], True, block), buffer_map=pairs)


def _checked(function: str, *args: PrimExpr | int) -> st.Stmt:
    """A call whose status must be dnnl_success."""
    status = T.call_extern("int32", function, *args)
    return st.AssertStmt(status == 0, StringImm(f"{function} failed"), st.Evaluate(0))


def _handle(value: Any) -> Any:
    return number(value.value, "int64")


# ---------------------------------------------------------------------- registration


# Seconds per call, ours and oneDNN's (memory objects, dispatch); multiply-adds per second in
# convolutions and products: one thread of an AVX-512 AMD core. Elsewhere: cost="measured".
OWN_CALL, CALL, OWN_RATE, RATE = 0.3e-6, 2.5e-6, 105e9, 120e9
PER_ELEMENT = 16  # multiply-adds in the time to read and write one element


def cost(func: Function) -> Cost | None:
    """Seconds of a primitive; small ones are not offloaded, because the call costs more than it
    saves."""
    job = read({b.var: b.value for block in func.body.blocks for b in block.bindings})
    if job is None:
        return None
    each = PER_ELEMENT
    if dnnl.WEIGHTS in job.tensors:
        dims = job.tensors[dnnl.WEIGHTS].dims
        kind = job.call.op.name
        each = dims[-2] if kind == "relax.matmul" else math.prod(dims[1:])
    elements = math.prod(job.dims)
    if job.call.op.name == "relax.nn.conv2d_transpose":  # every input times all weights
        elements = math.prod(job.tensors[dnnl.SRC].dims)
    work = elements * each
    return Cost(CALL + work / RATE, OWN_CALL + work / OWN_RATE)


def available() -> str:
    """Why oneDNN cannot be used here; "" if it can."""
    if dnnl.library_path() is None:
        return "oneDNN is not installed: pip install onednn-cpu-gomp"
    try:
        dnnl.engine()
    except Exception as err:
        return f"oneDNN does not start: {err}"
    return ""


@cache
def backend() -> Backend:
    """The back end, with its rules: the entry point of `loopwright.backends`."""
    register_target_kind("onednn", ("onednn", "cpu"))
    for root in ROOTS:
        register_legalize(f"onednn.{root.removeprefix('nn.')}", lower, target="onednn")
    return Backend(
        "onednn", patterns, target="onednn", lower=_with_library, cost=cost, available=available
    )


def _with_library(kernels: IRModule, options: Mapping[str, Any]) -> tuple[Any, list[ExternLibrary]]:
    """The kernels, and the addresses of the functions they call, resolved with the first region.

    Addresses, not a path: the handles in the kernels are also specific to this process.
    """
    names = [Prototype.parse(p).name for p in PROTOTYPES]
    addresses = {n: cast(getattr(dnnl.library(), n), c_void_p).value or 0 for n in names}
    return kernels, [ExternLibrary("onednn", PROTOTYPES, addresses=addresses)]
