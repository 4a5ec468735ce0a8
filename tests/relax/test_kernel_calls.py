"""Graphs that pass a kernel what it does not take are not well formed."""

from __future__ import annotations

import pytest

from loopwright.relax.analysis import well_formed
from loopwright.relax.analysis.well_formed import find_violations
from loopwright.script import ir as I
from loopwright.script import relax as R
from loopwright.script import tir as T


def module(a, out, function=None):
    """main calls a kernel from 16 numbers to 16, or `function`."""

    @I.ir_module(check_well_formed=False)
    class Module:
        @T.prim_func(private=True)
        def add_one(A: T.Buffer(16, "float16"), B: T.Buffer(16, "float16")):
            for i in range(16):
                with T.block("compute"):
                    vi = T.axis.remap("S", [i])
                    B[vi] = A[vi] + T.float16(1.0)

        @T.prim_func(private=True)
        def flatten(a: T.handle, b: T.handle):
            m, n = T.int64(), T.int64()
            A = T.match_buffer(a, [m, n], dtype="float16")
            B = T.match_buffer(b, [m * n], dtype="float16")
            for i in range(m * n):
                with T.block("compute"):
                    vi = T.axis.remap("S", [i])
                    B[vi] = A[vi // n, vi % n]

        @R.function
        def one(A: R.Tensor(a, "float16")):
            B = R.call_tir(Module.add_one, A, out_sinfo=out)
            return B

        @R.function
        def flat(A: R.Tensor(a, "float16")):
            B = R.call_tir(Module.flatten, A, out_sinfo=out)
            return B

    del Module["flat" if function is None else "one"]
    return Module


@pytest.mark.parametrize(
    ("a", "out", "function", "text"),
    [
        ([4, 4], R.Tensor([16], "float16"), None, "A has 1 dimensions, not 2"),
        ([16], R.Tensor([4, 4], "float16"), None, "B has 1 dimensions, not 2"),
        ([32], R.Tensor([16], "float16"), None, "extent 0 of A is 16, not 32"),
        ([16], R.Tensor([32], "float16"), None, "extent 0 of B is 16, not 32"),
        ([16], R.Tensor([16], "float32"), None, "B is of float16, not float32"),
        ([8, 4], R.Tensor([64], "float16"), "flatten", "extent 0 of B is"),
    ],
)
def test_conflicts_are_named(a, out, function, text):
    mod = module(a, out, function)
    assert not well_formed(mod)
    assert text in "\n".join(map(str, find_violations(mod)))


@pytest.mark.parametrize(
    ("a", "out", "function"),
    [
        ([16], R.Tensor([16], "float16"), None),
        (["n"], R.Tensor([16], "float16"), None),
        ([8, 4], R.Tensor([32], "float16"), "flatten"),
        ([8, "n"], R.Tensor(["n * 8"], "float16"), "flatten"),
    ],
)
def test_what_may_fit_is_well_formed(a, out, function):
    assert well_formed(module(a, out, function))


@pytest.mark.parametrize(("n", "good"), [(15, True), (16, False)])
def test_a_number_that_is_passed_is_an_extent(n, good):
    @I.ir_module(check_well_formed=False)
    class Module:
        @T.prim_func(private=True)
        def more(n: T.int64, a: T.handle, b: T.handle):
            A = T.match_buffer(a, [n], dtype="float16")
            B = T.match_buffer(b, [n + 1], dtype="float16")
            for i in range(n):
                with T.block("compute"):
                    vi = T.axis.remap("S", [i])
                    B[vi] = A[vi]

        @R.function
        def main(A: R.Tensor(["m"], "float16")):
            B = R.call_tir(Module.more, (R.prim_value(n), A), out_sinfo=R.Tensor([16], "float16"))
            return B

    assert well_formed(Module) is good


@pytest.mark.parametrize("info", [R.Object, R.Tuple(R.Tensor([16], "float16"))])
def test_only_a_tensor_is_written_over(info):
    @I.ir_module(check_well_formed=False)
    class Module:
        @T.prim_func(private=True)
        def double(A: T.Buffer(16, "float16")):
            for i in range(16):
                A[i] = A[i] * T.float16(2.0)

        @R.function
        def main(A: info):
            B = R.call_tir_inplace(Module.double, [A], 0, R.Tensor([16], "float16"))
            return B

    assert not well_formed(Module)
