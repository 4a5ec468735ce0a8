"""PrimFuncs compiled and interpreted on the same inputs, for the tests of the code generator."""

from __future__ import annotations

import numpy as np

from loopwright import tir
from loopwright.codegen.llvm.build import build_program
from loopwright.codegen.lowered import kernel_entry
from loopwright.ir.dtype import DataType, numpy_dtype
from loopwright.ir.module import IRModule
from loopwright.ir.target import Target
from loopwright.runtime import tensor
from loopwright.runtime.dtype import elements_per_byte
from loopwright.tir.interpreter import run
from loopwright.tir.transform import default_tir_pipeline

LANES = 8
VECTORIZED, PARALLEL = tir.ForKind.VECTORIZED, tir.ForKind.PARALLEL


def program(functions, together=False):
    """The native program of PrimFuncs by name: a module of LLVM each, or one of all."""
    mod = functions if isinstance(functions, IRModule) else IRModule(functions)
    named = {g.name_hint: f for g, f in mod.functions.items()}
    lowered = default_tir_pipeline()(mod)
    kernels = {g.name_hint: f for g, f in lowered.functions.items()}
    entries = {name: kernel_entry(f) for name, f in named.items()}
    modules = ({}, kernels) if together else (kernels, {})
    return build_program(*modules, entries, Target("llvm"), jobs=1)


def compiled(functions):
    """The loaded entries by name."""
    return program(functions, together=True).load()


def both(func, arrays, mod=None):
    """(arrays after the interpreter, arrays after the compiled function)."""
    name = func.attrs.get("global_symbol", "f")
    native = compiled({name: func} if mod is None else mod)[name]
    interpreted, made = copies(arrays), copies(arrays)
    run(func, interpreted, mod)
    call(native, func, made)
    return interpreted, made


def call(native, func, args):
    """Call compiled code; int8 arrays of int4 buffers are packed for it and unpacked after."""
    buffers = [func.buffer_map.get(p) for p in func.params]
    given = [as_stored(a, b) for a, b in zip(args, buffers, strict=True)]
    result = native(*given)
    for array, passed in zip(args, given, strict=True):
        if passed is not array:
            array[...] = passed.numpy().astype(array.dtype)
    return result


def as_stored(array, buffer):
    """What compiled code takes for a buffer: a packed tensor for int4."""
    dtype = None if buffer is None else str(buffer.dtype)
    return array if dtype is None or elements_per_byte(dtype) == 1 else tensor(array, dtype=dtype)


def agree(func, *arrays, mod=None, rtol=0.0, atol=0.0):
    """Compile and interpret; every array must end up the same."""
    interpreted, made = both(func, arrays, mod)
    for want, got in zip(interpreted, made, strict=True):
        if isinstance(want, np.ndarray):
            same(got, want, rtol, atol)
    return made


def same(got, want, rtol=0.0, atol=0.0):
    """Equal arrays (NaN equals NaN), of small floats too."""
    if got.dtype.kind not in "biuf" or (got.dtype.itemsize < 2 and got.dtype.kind == "f"):
        got, want = got.astype("float32"), want.astype("float32")
    if rtol or atol:
        np.testing.assert_allclose(got, want, rtol=rtol, atol=atol)
    else:
        np.testing.assert_array_equal(got, want)


def copies(arrays):
    return [a.copy() if isinstance(a, np.ndarray) else a for a in arrays]


def elementwise(fn, *dtypes, lanes=LANES, out_dtype=None, kind=VECTORIZED):
    """out[i] = fn(a[i], ...) for i in [0, n), in vectors of `lanes` (1: scalars)."""
    n = tir.Var("n", "int64")
    ins = [tir.decl_buffer((n,), dtype, f"a{k}") for k, dtype in enumerate(dtypes)]
    probe = fn(*(tir.Var("x", dtype) for dtype in dtypes))
    out = tir.decl_buffer((n,), out_dtype or probe.dtype, "out")
    i, j = tir.Var("i", "int64"), tir.Var("j", "int64")
    at = i * lanes + j if lanes > 1 else i
    body = tir.BufferStore(out, fn(*(b[at] for b in ins)), [at])
    if lanes > 1:
        body = tir.For(j, tir.const(0, "int64"), tir.const(lanes, "int64"), kind, body)
    count = tir.floordiv(n, lanes) if lanes > 1 else n
    loop = tir.For(i, tir.const(0, "int64"), count, tir.ForKind.SERIAL, body)
    return tir.PrimFunc([*ins, out], loop)


def padded(values, dtype, lanes=LANES):
    """An array of a multiple of `lanes` values."""
    array = np.asarray(values)
    array = np.resize(array, -(-array.size // lanes) * lanes)
    with np.errstate(all="ignore"):
        return array.astype(numpy_dtype(dtype))


def apply(fns, *arrays, dtypes=None, rtol=0.0, atol=0.0, lanes=(1, LANES)):
    """Every fn over whole arrays, as scalars and as vectors, against the interpreter.

    Returns what the scalar version gave, by name.
    """
    dtypes = dtypes or [DataType(a.dtype.name) for a in arrays]
    functions = {
        f"{name}_x{width}": elementwise(fn, *dtypes, lanes=width)
        for name, fn in fns.items()
        for width in lanes
    }
    entries, results = compiled(functions), {}
    for name, func in functions.items():
        kind = numpy_dtype(func.buffers[-1].dtype)
        want, got = np.zeros(arrays[0].size, kind), np.zeros(arrays[0].size, kind)
        run(func, [*arrays, want])
        call(entries[name], func, [*arrays, got])
        try:
            same(got, want, rtol, atol)
        except AssertionError as error:
            raise AssertionError(f"{name}: {error}") from None
        results.setdefault(name.rsplit("_x", 1)[0], got)
    return results
