"""Every operator on every type in C as in the interpreter, compiled with the strictest flags."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

import loopwright
from loopwright import tir
from loopwright.base.errors import LoopwrightError
from loopwright.ir.dtype import DataType, numpy_dtype
from loopwright.ir.module import IRModule
from loopwright.tir.interpreter import run
from loopwright.tir.stmt import seq

from .emitted import elementwise
from .matrix import SMALL, equal, table_function
from .test_emit_random import INTEGERS, Grower, check_loop_nests, padded
from .test_matrix import ALL, NOT_OF, ROUGH, TOLERANCE, casts, fixed_point, inputs, op, operators

pytestmark = [
    pytest.mark.no_roundtrip,
    pytest.mark.skipif(shutil.which("gcc") is None, reason="there is no gcc"),
]
SANITIZED = ("-O1", "-fsanitize=undefined", "-fno-sanitize-recover=all")


@pytest.mark.sample(12)
@pytest.mark.parametrize("dtype", ALL)
def test_numbers(dtype):
    fns = operators(dtype) | casts()
    arrays = inputs(dtype)
    func = table_function(fns, [dtype] * 2, 1).with_attr("global_symbol", "f")
    outs = func.buffers[2:]
    want = [np.zeros(arrays[0].size, numpy_dtype(o.dtype)) for o in outs]
    got = [o.copy() for o in want]
    run(func, [*arrays, *want])
    # No fused multiply-adds: numpy rounds twice.
    model = loopwright.compile(func, target="c")
    model.build(compiler="gcc", flags=SANITIZED)(*arrays, *got)
    wrong = []
    for name, a, b in zip(fns, want, got, strict=True):
        rough = name in ROUGH and DataType(dtype).is_float
        same = equal(a, b, max(TOLERANCE.get(dtype, 0.0), 3e-6) if rough else 0.0)
        if dtype in SMALL:
            same |= a == b
        if not same.all():
            k = int(np.flatnonzero(~same)[0])
            given = ", ".join(str(x[k]) for x in arrays)
            wrong.append(f"{name} of {given}: interpreted {a[k]}, in C {b[k]}")
    assert not wrong, "\n".join(wrong)


def test_fixed_point_numbers_at_the_ends():
    values = list(fixed_point())
    out = tir.decl_buffer((len(values),), "int32", "out")
    body = seq(*(tir.BufferStore(out, v, [k]) for k, v in enumerate(values)))
    func = tir.PrimFunc([out], body).with_attr("global_symbol", "f")
    want, got = np.zeros(len(values), "int32"), np.zeros(len(values), "int32")
    run(func, [want])
    loopwright.compile(func, target="c").build(compiler="gcc", flags=SANITIZED)(got)
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("dtype", sorted(NOT_OF["nextafter"]))
def test_nextafter_of_small_floats_is_refused(dtype):
    func = elementwise(lambda a: op("nextafter", a, a), dtype, lanes=1)
    with pytest.raises(LoopwrightError, match=f"nextafter has no C code for {dtype}"):
        loopwright.compile(func, target="c")


@pytest.mark.sample(4)
@pytest.mark.parametrize("dtype", [*INTEGERS, "float32", "float64"])
def test_random_expressions(dtype):
    made = {}
    for seed in range(40):
        grown = lambda a, b, c, s=seed: Grower(s, dtype).grow([a, b, c], 4)  # noqa: E731
        made[f"f{seed}"] = elementwise(grown, *[dtype] * 3, lanes=1, out_dtype=dtype)
    rng = np.random.default_rng(11)
    if dtype.startswith("float"):
        arrays = [padded(rng.integers(-32, 32, 64) / 4, dtype) for _ in range(3)]
    else:
        low = 0 if DataType(dtype).is_uint else -INTEGERS[dtype]
        arrays = [padded(rng.integers(low, INTEGERS[dtype], 64), dtype) for _ in range(3)]
    library = library_of(made)
    for name, func in made.items():
        want, got = np.zeros(64, dtype), np.zeros(64, dtype)
        run(func, [*arrays, want])
        library[name](*arrays, got)
        rtol = 1e-6 if dtype == "float32" else 0
        np.testing.assert_allclose(got, want, rtol=rtol, err_msg=func.script())


def test_random_loop_nests():
    check_loop_nests(60, library_of)


def library_of(functions):
    """Functions by name, compiled; compilers warn of what random code does (x < x)."""
    named = {n: f.with_attr("global_symbol", n) for n, f in functions.items()}
    flags = (*SANITIZED, "-Wno-error", "-w")
    return loopwright.compile(IRModule(named), target="c").build(compiler="gcc", flags=flags)


def test_products_of_integers_and_equal_terms_are_not_fused():
    """As in LLVM's code, with the flags that `build` gives."""
    rng = np.random.default_rng(0)
    numbers = rng.integers(-(2**23), 2**23, 256).astype("int32")
    scale, bias = rng.normal(size=(2, 256)).astype("float32")
    sizes = padded(numbers, "int32"), padded(scale, "float32"), padded(bias, "float32")
    func = elementwise(lambda a, b, c: a.astype(b.dtype) * b + c, "int32", "float32", "float32")
    loopwright.compile(func, target="c").build()(*sizes, got := np.zeros(256, "float32"))
    np.testing.assert_array_equal(got, numbers.astype("float32") * scale + bias)
    zero = elementwise(lambda a, b: tir.erf(a) * b - tir.erf(a) * b, "float32", "float32")
    loopwright.compile(zero, target="c").build()(*sizes[1:], got := np.ones(256, "float32"))
    assert not got.any()
