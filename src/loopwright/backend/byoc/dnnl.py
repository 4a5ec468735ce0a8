"""oneDNN's C API through ctypes: the part that onednn.py needs.

The wheels contain no headers. Names, numbers and signatures are from the API reference of oneDNN 3
(https://uxlfoundation.github.io/oneDNN, dnnl.h and dnnl_types.h). Three kinds of objects:

- `Layout`: a memory descriptor: the extents of a float32 tensor and the placement of its elements
- `Primitive`: code for one operation, compiled for its extents and layouts, cached for the process
- engine and stream: the CPU; one of each

Argument descriptors are queried by execution argument (`Primitive.layout(SRC)`): for an argument
created with `Layout.any`, this is the layout that the primitive chose.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Mapping, Sequence
from ctypes import byref, c_float, c_int, c_int64, c_size_t, c_void_p
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from ...base.errors import LoopwrightError, explain
from ...runtime.threads import default_num_threads

# dnnl_types.h: execution arguments (DNNL_ARG_...), and enumerators by the name of their enum.
SRC, SRC_1, DST, WEIGHTS, BIAS, SCRATCHPAD = 1, 2, 17, 33, 41, 80
FROM, TO = 1, 17  # of a reorder
FLOAT32 = 3  # dnnl_data_type_t
FORWARD_INFERENCE = 96  # dnnl_prop_kind_t
FORMAT_ANY = 1  # dnnl_format_tag_t
QUERY_EXEC_ARG, QUERY_SCRATCHPAD = 255, 136  # dnnl_query_t: dnnl_query_..._md
SCRATCHPAD_USER = 1  # dnnl_scratchpad_mode_t
CONVOLUTION, DECONVOLUTION = 0x1, 0xA  # dnnl_alg_kind_t, and so below
POOLING = {"max": 0x1FF, "avg_include_padding": 0x2FF, "avg_exclude_padding": 0x3FF}
BINARY = {"add": 0x1FFF0, "multiply": 0x1FFF1}
ELTWISE = {"relu": 0x20, "tanh": 0x21, "linear": 0x26, "sigmoid": 0x29, "gelu_tanh": 0x2B}
ELTWISE |= {"swish": 0x2C, "clip": 0x2E, "gelu": 0x31, "hardswish": 0x34}
RUNTIME_SYCL = 0x200  # dnnl_version_t.cpu_runtime
# Post-operations: ("eltwise", name, alpha, beta) and ("binary", name, extents of the other operand).
Post = tuple[Any, ...]
Dims = tuple[int, ...]


def post_argument(index: int) -> int:
    """DNNL_ARG_ATTR_MULTIPLE_POST_OP(index) | DNNL_ARG_SRC_1."""
    return 32768 * (index + 1) | SRC_1


# ---------------------------------------------------------------------- the library


def library_path() -> Path | None:
    """The path of libdnnl.so.3: `pip install onednn-cpu-gomp` installs it into the environment's
    lib."""
    return next((p for p in Path(sys.prefix, "lib").glob("libdnnl.so.3")), None)


@cache
def library() -> Any:
    """The library, loaded. Raises LoopwrightError with the loader's message.

    It uses the same number of OpenMP threads as Loopwright, which sleep between primitives: spinning threads
    would take the cores from Loopwright's own kernels. PyPI's `onednn` (built for SYCL, with six
    times the call overhead) needs Intel's runtime libraries, which are installed with it.
    """
    path = library_path()
    if path is None:
        what = "oneDNN is not installed"
        raise LoopwrightError(explain(what, instead="pip install onednn-cpu-gomp"))
    os.environ.setdefault("OMP_NUM_THREADS", str(default_num_threads()))
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    os.environ.setdefault("OCL_ICD_FILENAMES", str(path.with_name("libintelocl.so")))
    needed = "hwloc.so.15 tbb.so.12 intlc.so.5 imf.so irng.so svml.so umf.so.1 OpenCL.so.1"
    for name in f"{needed} ur_loader.so.0 sycl.so.9".split():
        sibling = path.with_name(f"lib{name}")
        if sibling.exists():
            ctypes.CDLL(str(sibling), mode=ctypes.RTLD_GLOBAL)
    try:
        return ctypes.CDLL(str(path))
    except OSError as err:
        raise LoopwrightError(explain("oneDNN cannot be loaded", got=str(err))) from None


class _Version(ctypes.Structure):
    """dnnl_version_t."""

    _fields_ = [
        ("major", c_int),
        ("minor", c_int),
        ("patch", c_int),
        ("hash", ctypes.c_char_p),
        ("cpu_runtime", ctypes.c_uint),
        ("gpu_runtime", ctypes.c_uint),
    ]


class _Argument(ctypes.Structure):
    """dnnl_exec_arg_t."""

    _fields_ = [("arg", c_int), ("memory", c_void_p)]


@cache
def is_asynchronous() -> bool:
    """Whether a stream must be waited for: with the SYCL runtime."""
    lib = library()
    lib.dnnl_version.restype = ctypes.POINTER(_Version)
    return lib.dnnl_version().contents.cpu_runtime == RUNTIME_SYCL


class Unsupported(Exception):
    """oneDNN has no implementation, or rejects the description."""


def make(function: str, *args: Any) -> c_void_p:
    """The object that `dnnl_FUNCTION(&handle, ...)` creates. Raises Unsupported with its status."""
    handle = c_void_p()
    status = getattr(library(), f"dnnl_{function}")(byref(handle), *args)
    if status:
        raise Unsupported(f"dnnl_{function} answers {status}")
    return handle


@cache
def engine() -> c_void_p:
    """The CPU (dnnl_cpu)."""
    return make("engine_create", c_int(1), c_size_t(0))


@cache
def stream() -> c_void_p:
    """The stream that primitives run in, in order (dnnl_stream_in_order)."""
    return make("stream_create", engine(), c_int(1))


# ---------------------------------------------------------------------- layouts


class Layout:
    """A memory descriptor of a float32 tensor; equal if all elements are at equal offsets."""

    def __init__(self, dims: Dims, handle: c_void_p) -> None:
        self.dims = tuple(dims)
        self.handle = handle

    @staticmethod
    def any(dims: Dims) -> Layout:
        """A layout that the primitive chooses."""
        handle = make("memory_desc_create_with_tag", len(dims), _dims(dims), FLOAT32, FORMAT_ANY)
        return Layout(dims, handle)

    @staticmethod
    def plain(dims: Dims, strides: Dims | None = None) -> Layout:
        """Row-major, or with these strides in elements."""
        if strides is None:
            strides = tuple(int(np.prod(dims[i + 1 :])) for i in range(len(dims)))
        function = "memory_desc_create_with_strides"
        return Layout(dims, make(function, len(dims), _dims(dims), FLOAT32, _dims(strides)))

    @property
    def bytes(self) -> int:
        size = library().dnnl_memory_desc_get_size
        size.restype = c_size_t
        return size(self.handle)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Layout) or self.dims != other.dims:
            return False
        return bool(library().dnnl_memory_desc_equal(self.handle, other.handle))

    def __hash__(self) -> int:
        return hash(self.dims)


def _dims(values: Sequence[int]) -> Any:
    """dnnl_dims_t: twelve numbers."""
    return (c_int64 * 12)(*values)


# ---------------------------------------------------------------------- primitives


class Primitive:
    """Code for an operation; `arguments` are its execution arguments, without the scratchpad."""

    def __init__(
        self,
        description: c_void_p,
        arguments: Sequence[int],
        layouts: Mapping[int, Layout] | None = None,
    ) -> None:
        self.layouts = layouts or {}  # layouts of the operands of post-operations
        self.description = description  # owns the descriptors that `layout` returns
        self.handle = make("primitive_create", description)
        self.arguments = tuple(arguments)

    def layout(self, argument: int, dims: Dims) -> Layout:
        """The memory layout of an argument that oneDNN prefers."""
        return self.layouts.get(argument) or Layout(dims, self._query(QUERY_EXEC_ARG, argument))

    @property
    def scratchpad(self) -> Layout:
        """Memory that it needs while it runs."""
        return Layout((), self._query(QUERY_SCRATCHPAD, 0))

    def _query(self, what: int, index: int) -> c_void_p:
        query = library().dnnl_primitive_desc_query_md
        query.restype = c_void_p
        return c_void_p(query(self.description, c_int(what), c_int(index)))

    def run(self, arrays: Sequence[tuple[Layout, np.ndarray]]) -> None:
        """Run it now, on the arguments in order."""
        memories = [
            make("memory_create", layout.handle, engine(), c_void_p(array.ctypes.data))
            for layout, array in arrays
        ]
        scratch = np.empty(self.scratchpad.bytes, "uint8")
        pad = make("memory_create", self.scratchpad.handle, engine(), c_void_p(scratch.ctypes.data))
        pairs = zip((*self.arguments, SCRATCHPAD), (*memories, pad), strict=True)
        listed = (_Argument * (len(memories) + 1))(*(_Argument(a, m) for a, m in pairs))
        status = library().dnnl_primitive_execute(self.handle, stream(), len(listed), listed)
        library().dnnl_stream_wait(stream())
        for memory in (*memories, pad):
            library().dnnl_memory_destroy(memory)
        if status:
            raise Unsupported(f"dnnl_primitive_execute answers {status}")


def _attributes(
    post: Sequence[Post], dst: Layout | None = None
) -> tuple[c_void_p, dict[int, Layout]]:
    """Post-operations and a scratchpad of the caller's; the arguments that they add.

    dst: the result's layout, which operands of its extents then have too.
    """
    attributes, ops = make("primitive_attr_create"), make("post_ops_create")
    arguments: dict[int, Layout] = {}
    for index, (kind, name, *rest) in enumerate(post):
        if kind == "eltwise":
            alpha, beta = (c_float(v) for v in rest)
            library().dnnl_post_ops_append_eltwise(ops, c_int(ELTWISE[name]), alpha, beta)
        else:
            other = dst if dst is not None and dst.dims == rest[0] else Layout.plain(rest[0])
            library().dnnl_post_ops_append_binary(ops, c_int(BINARY[name]), other.handle)
            arguments[post_argument(index)] = other
    library().dnnl_primitive_attr_set_post_ops(attributes, ops)
    library().dnnl_primitive_attr_set_scratchpad_mode(attributes, c_int(SCRATCHPAD_USER))
    return attributes, arguments


@cache
def convolution(
    src: Dims, weights: Dims, dst: Dims, strides: Dims, dilation: Dims, padding: Dims,
    has_bias: bool, post: tuple[Post, ...], transposed: bool = False,
) -> Primitive:  # fmt: skip
    """A convolution, or its transposition; all layouts but the bias's are its own choice.

    weights: (O, I, ...), or (G, O/G, I/G, ...). padding: before, then after.
    """
    kind = "deconvolution" if transposed else "convolution"
    rank = len(strides)
    out = Layout.any(dst)
    if any(dst in p for p in post):  # the layout that it chooses without the second operand
        args = (src, weights, dst, strides, dilation, padding, has_bias, (), transposed)
        out = convolution(*args).layout(DST, dst)
    attributes, more = _attributes(post, out)
    bias = Layout.plain((dst[1],)).handle if has_bias else None
    description = make(
        f"{kind}_forward_primitive_desc_create",
        engine(),
        c_int(FORWARD_INFERENCE),
        c_int(DECONVOLUTION if transposed else CONVOLUTION),
        *(Layout.any(src).handle, Layout.any(weights).handle, bias, out.handle),
        *(_dims(strides), _dims([d - 1 for d in dilation])),
        *(_dims(padding[:rank]), _dims(padding[rank:]), attributes),
    )
    return Primitive(description, [SRC, WEIGHTS, *([BIAS] if has_bias else []), *more, DST], more)


@cache
def pooling(
    kind: str, src: Layout, dst: Dims, window: Dims, strides: Dims, dilation: Dims, padding: Dims
) -> Primitive:
    """The largest element or the mean of each window."""
    rank = len(strides)
    attributes, _ = _attributes(())
    description = make(
        "pooling_forward_primitive_desc_create",
        engine(),
        c_int(FORWARD_INFERENCE),
        c_int(POOLING[kind]),
        *(src.handle, Layout.any(dst).handle),
        *(_dims(strides), _dims(window), _dims([d - 1 for d in dilation])),
        *(_dims(padding[:rank]), _dims(padding[rank:]), attributes),
    )
    return Primitive(description, [SRC, DST])


@cache
def matmul(
    src: Dims, weights: Dims, dst: Dims, has_bias: bool, open_weights: bool, post: tuple[Post, ...]
) -> Primitive:
    """A product of matrices, or of batches of them; a bias has the extents (1, ..., N)."""
    attributes, more = _attributes(post)
    bias = Layout.plain((1,) * (len(dst) - 1) + dst[-1:]).handle if has_bias else None
    right = Layout.any(weights) if open_weights else Layout.plain(weights)
    handles = (Layout.plain(src).handle, right.handle, bias, Layout.plain(dst).handle)
    description = make("matmul_primitive_desc_create", engine(), *handles, attributes)
    return Primitive(description, [SRC, WEIGHTS, *([BIAS] if has_bias else []), *more, DST], more)


@cache
def binary(kind: str, a: Layout, b: Layout, dst: Dims, post: tuple[Post, ...]) -> Primitive:
    """a + b or a * b; extents of 1 in b are stretched."""
    attributes, more = _attributes(post)
    handles = (a.handle, b.handle, Layout.any(dst).handle)
    description = make(
        "binary_primitive_desc_create", engine(), c_int(BINARY[kind]), *handles, attributes
    )
    return Primitive(description, [SRC, SRC_1, *more, DST], more)


@cache
def reorder(source: Layout, target: Layout) -> Primitive:
    """A copy from one layout to another."""
    attributes, _ = _attributes(())
    description = make(
        "reorder_primitive_desc_create",
        source.handle,
        engine(),
        target.handle,
        engine(),
        attributes,
    )
    return Primitive(description, [FROM, TO])


def reordered(array: np.ndarray, source: Layout, target: Layout) -> np.ndarray:
    """An array's elements in another layout, as a flat array (with the layout's padding)."""
    out = np.zeros(target.bytes // 4, "float32")
    reorder(source, target).run([(source, np.ascontiguousarray(array)), (target, out)])
    return out
