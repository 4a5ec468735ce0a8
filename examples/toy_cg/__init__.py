"""The back end toy_cg_thflow: a C library with two functions, `dense_bias` and `dense_bias_relu`.

A pattern says what a function takes, a kernel how it is called: that is all there is to say. The
tensors between the calls belong to the compiler, which plans them with all others.
"""

from __future__ import annotations

from pathlib import Path

import loopwright as lw
from loopwright.ir.target import register_target_kind
from loopwright.relax.byoc import Backend, register_backend
from loopwright.relax.dpl import is_op, wildcard
from loopwright.runtime import ExternLibrary
from loopwright.script import tir as T

NAME, HERE = "toy_cg_thflow", Path(__file__).parent
FUNCTIONS = ("dense_bias", "dense_bias_relu")
SIGNATURE = (
    "int32_t {}(const float *x, const float *weight, const float *bias, float *out, "
    "int32_t rows, int32_t depth, int32_t units)"
)
LIBRARY = ExternLibrary(
    NAME,
    [SIGNATURE.format(function) for function in FUNCTIONS],
    sources=[HERE / "toy_cg_thflow.c"],
    headers=['#include "toy_cg_thflow.h"'],
    include_dirs=[HERE],
)


def kernel(function: str):
    """A call of one of the library's functions, for any sizes. What it returns is checked."""
    failed = f"{NAME}: {function} failed"

    @T.prim_func(private=True)
    def call(x: T.handle, weight: T.handle, bias: T.handle, out: T.handle):
        rows, depth, units = T.int32(), T.int32(), T.int32()
        X = T.match_buffer(x, (rows, depth))
        W = T.match_buffer(weight, (depth, units))
        B = T.match_buffer(bias, (units,))
        O = T.match_buffer(out, (rows, units))
        status: T.int32 = T.call_extern(
            "int32", function, X.data, W.data, B.data, O.data, rows, depth, units
        )
        assert status == 0, failed
        T.evaluate(0)

    return call


dense = is_op("relax.add")(is_op("relax.matmul")(wildcard(), wildcard()), wildcard())
PATTERNS = {"dense_bias_relu": is_op("relax.nn.relu")(dense), "dense_bias": dense}

register_target_kind(NAME, ())
for function in PATTERNS:
    lw.register_legalize(f"{NAME}.{function}", tir=kernel(function), target=NAME)
BACKEND = register_backend(
    Backend(
        NAME,
        [(f"{NAME}.{function}", pattern) for function, pattern in PATTERNS.items()],
        target=NAME,
        libraries=[LIBRARY],
        bind_constants=False,
    )
)
