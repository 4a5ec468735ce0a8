"""Tensors computed by registered functions: products, random numbers, sorts."""

from __future__ import annotations

import numpy as np
import pytest

import loopwright as lw
from loopwright import te, tir
from loopwright.compat import external
from loopwright.runtime import get_global_func, num_threads, set_num_threads


def built(inputs, out):
    return lw.compile(te.create_prim_func([*inputs, out]), target="llvm")


@pytest.mark.parametrize("transa", [False, True])
@pytest.mark.parametrize("transb", [False, True])
@pytest.mark.parametrize("batches", [(), (3, 3), (3, 1), (1, 3)])
def test_products(rng, transa, transb, batches):
    lead = [(b,) for b in batches] or [(), ()]
    shapes = (lead[0] + ((4, 2) if transa else (2, 4)), lead[1] + ((5, 4) if transb else (4, 5)))
    A, B = (te.placeholder(shape, name=name) for shape, name in zip(shapes, "AB", strict=True))
    product = external.batch_matmul if batches else external.matmul
    C = product(A, B, transa, transb)
    total = te.compute(C.shape, lambda *i: C(*i) + 1.0, name="D")
    a, b = (rng.random(shape, "float32") for shape in shapes)
    out = np.zeros([int(n) for n in C.shape], "float32")
    built([A, B], total)(a, b, out)
    left, right = a.swapaxes(-1, -2) if transa else a, b.swapaxes(-1, -2) if transb else b
    np.testing.assert_allclose(out, left @ right + 1, rtol=1e-6)


def test_random_numbers():
    def drawn(tensor, dtype="float32"):
        out = np.zeros((500, 500), dtype)
        built([], tensor)(out)
        return out

    whole = drawn(external.randint(-3, 4, (500, 500)), "int32")
    assert (whole.min(), whole.max()) == (-3, 3)
    even = drawn(external.uniform(2, 4, (500, 500)))
    assert 2 <= even.min() < 2.01 < 3.99 < even.max() <= 4
    bell = drawn(external.normal(3, 4, (500, 500)))
    assert abs(bell.mean() - 3) < 0.1
    assert abs(bell.std() - 4) < 0.1
    with pytest.raises(ValueError, match="randint makes integers\n  got: float32"):
        external.randint(0, 2, (3,), "float32")
    with pytest.raises(ValueError, match="randint needs a range"):
        get_global_func("tvm.contrib.random.randint")(2, 2, lw.nd.empty((2,), "int32"))


@pytest.mark.parametrize("dtype", ["bool", "int2", "int4", "uint8", "int64", "float16", "float64"])
def test_random_fill(dtype):
    out = lw.nd.empty((64, 64), dtype)
    get_global_func("tvm.contrib.random.random_fill")(out)
    values = out.numpy().astype("float64")
    assert np.count_nonzero(values) == 64 * 64
    assert np.isfinite(values * values + values).all()


@pytest.mark.parametrize("ascending", [True, False])
def test_argsort_of_the_first_entries(rng, ascending):
    data = te.placeholder((2, 5, 3), name="data")
    counts = te.placeholder((2, 3), "int32", name="counts")
    out = te.extern(
        data.shape,
        [data, counts],
        lambda ins, outs: tir.call_packed(
            "tvm.contrib.sort.argsort_nms", *ins, outs[0], 1, ascending
        ),
        dtype="int32",
    )
    values = rng.integers(0, 4, (2, 5, 3)).astype("float32")
    first = np.array([[0, 1, 3], [5, 4, 9]], "int32")
    result = np.zeros((2, 5, 3), "int32")
    built([data, counts], out)(values, first, result)
    for i, k in np.ndindex(2, 3):
        n = min(first[i, k], 5)
        keys = values[i, :n, k] if ascending else -values[i, :n, k]
        order = [*sorted(range(n), key=keys.__getitem__), *range(n, 5)]
        assert result[i, :, k].tolist() == order


def test_threads():
    before = num_threads()
    try:
        get_global_func("runtime.config_threadpool")(1, 1)
        assert num_threads() == 1
        get_global_func("runtime.config_threadpool")(1, 0)
        assert num_threads() == 1
    finally:
        set_num_threads(before)
