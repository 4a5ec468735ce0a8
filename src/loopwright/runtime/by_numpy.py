"""Functions that programs of TVM's call by name, computed by numpy: products, random numbers, sorts.

Each writes its result into a tensor that it is given.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from loopwright.base.errors import explain
from loopwright.runtime.packed_func import register_func
from loopwright.runtime.tensor import Tensor, as_array
from loopwright.runtime.threads import num_threads, set_num_threads

_RANDOM = np.random.default_rng()


def _register(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def put(function: Callable[..., Any]) -> Callable[..., Any]:
        for name in names:
            register_func(name, function, override=True)
        return function

    return put


_BLAS = [f"tvm.contrib.{library}" for library in ("cblas", "mkl", "dnnl")]


@_register(*(f"{library}.matmul" for library in _BLAS))
@_register(*(f"{library}.batch_matmul" for library in _BLAS))
@_register(*(f"{library}.batch_matmul_iterative" for library in _BLAS))
def matmul(a: Tensor, b: Tensor, out: Tensor, transa: bool = False, transb: bool = False) -> None:
    """The product of matrices, or of batches of them; with either transposed in its last two axes."""
    left, right = (
        array.swapaxes(-1, -2) if transposed else array
        for array, transposed in ((as_array(a), transa), (as_array(b), transb))
    )
    out.copyfrom(np.matmul(left, right))


@_register("tvm.contrib.random.randint")
def randint(low: int, high: int, out: Tensor) -> None:
    """Integers from `low` up to, and without, `high`. Raises ValueError for an empty range."""
    if low >= high:
        raise ValueError(explain("randint needs a range", got=f"{low} to {high}"))
    out.copyfrom(_RANDOM.integers(low, high, out.shape))


@_register("tvm.contrib.random.uniform")
def uniform(low: float, high: float, out: Tensor) -> None:
    """Numbers from `low` to `high`."""
    out.copyfrom(_RANDOM.uniform(low, high, out.shape))


@_register("tvm.contrib.random.normal")
def normal(loc: float, scale: float, out: Tensor) -> None:
    """Numbers around `loc` with the standard deviation `scale`."""
    out.copyfrom(_RANDOM.normal(loc, scale, out.shape))


@_register("tvm.contrib.random.random_fill", "tvm.contrib.random.random_fill_for_measure")
def random_fill(out: Tensor) -> None:
    """Values to measure kernels with: none is 0, and products of few do not overflow."""
    if out.dtype == "bool":
        values: Any = np.ones(out.shape, bool)
    elif out.dtype.startswith(("int", "uint")):
        values = _RANDOM.integers(1, 4 if out.dtype[-1] in "12" else 8, out.shape)
    else:
        values = _RANDOM.uniform(0.25, 1, out.shape)
    out.copyfrom(values)


@_register("tvm.contrib.sort.argsort_nms")
def argsort_nms(
    data: Tensor, counts: Tensor, out: Tensor, axis: int, is_ascend: bool = False
) -> None:
    """The order of the first `counts` entries along an axis; those behind keep their positions."""
    values = np.moveaxis(as_array(data), axis, -1)
    length = values.shape[-1]
    order = np.broadcast_to(np.arange(length), values.shape).copy()
    for at in np.ndindex(values.shape[:-1]):
        count = min(int(as_array(counts)[at]), length)
        keys = values[at][:count]
        order[at][:count] = np.argsort(keys if is_ascend else -keys, kind="stable")
    out.copyfrom(np.moveaxis(order, -1, axis))


@_register("runtime.config_threadpool")
def config_threadpool(affinity_mode: int, threads: int) -> None:
    """Set the number of threads; 0 leaves it. The mode is taken for TVM's sake."""
    set_num_threads(threads or num_threads())
