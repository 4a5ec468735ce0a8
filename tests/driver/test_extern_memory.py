"""An external function with scratch memory, an alignment and a result that may lie over its input:
all of it is declared by the kernel that calls it, planned, and holds when it runs."""

from __future__ import annotations

import ctypes
import subprocess

import numpy as np
import pytest

import loopwright as lw
from loopwright.relax.byoc import Backend
from loopwright.relax.dpl import is_op, wildcard
from loopwright.runtime import ExternLibrary
from loopwright.runtime.c_compiler import find_compiler
from loopwright.script import tir as T

from ..programs import graph

# A module that carries a library of this process has no text that says all of it.
pytestmark = pytest.mark.no_roundtrip

SCRATCH, N = 1024, 300
SOURCE = """
#include <stdint.h>
#include <string.h>
int32_t calls, in_place, misaligned;

/* y = 2 x by pieces of 256, each through the scratch: 1 KiB, aligned to 64. y may be x. */
int32_t twice(const float* x, float* y, void* scratch, int64_t n) {
  float* piece = scratch;
  calls++;
  in_place += x == y;
  misaligned += (uintptr_t)scratch % 64 != 0;
  for (int64_t at = 0; at < n; at += 256) {
    int64_t count = n - at < 256 ? n - at : 256;
    memset(piece, 255, 1024); /* all of it is ours */
    for (int64_t i = 0; i < count; i++) piece[i] = 2 * x[at + i];
    memcpy(y + at, piece, (size_t)count * sizeof(float));
  }
  return 0;
}
"""
lw.ir.target.register_target_kind("twice_device", ())


class Counted(Backend):
    """A back end whose library counts what it sees."""

    def seen(self):
        """(calls, calls in place, calls with misaligned scratch) since the last time."""
        library = ctypes.CDLL(str(self.libraries[0].library))
        found = [ctypes.c_int32.in_dll(library, n) for n in ("calls", "in_place", "misaligned")]
        values = tuple(f.value for f in found)
        for f in found:
            f.value = 0
        return values


def kernel(may_alias):
    @T.prim_func(private=True)
    def call(x: T.handle, y: T.handle):
        T.func_attr({"alignment": 64, "may_alias": [["Y", "X"]] if may_alias else []})
        n = T.int64()
        X = T.match_buffer(x, (n,))
        Y = T.match_buffer(y, (n,))
        scratch = T.alloc_buffer((SCRATCH,), "uint8")
        T.evaluate(T.call_extern("int32", "twice", X.data, Y.data, scratch.data, n))

    return call


for option in (True, False):
    name = f"twice.{'over' if option else 'apart'}"
    lw.register_legalize(name, tir=kernel(option), target="twice_device")


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    folder = tmp_path_factory.mktemp("twice")
    (folder / "twice.c").write_text(SOURCE)
    command = [find_compiler(), "-O2", "-shared", "-fPIC", "-o", "libtwice.so", "twice.c"]
    subprocess.run(command, cwd=folder, check=True)
    prototype = "int32_t twice(const float* x, float* y, void* scratch, int64_t n)"
    return ExternLibrary("twice", [prototype], library=folder / "libtwice.so")


def backend(library, may_alias=True):
    pattern = is_op("relax.negative")(wildcard())  # what stands for it in the graphs here
    name = f"twice.{'over' if may_alias else 'apart'}"
    return Counted("twice", [(name, pattern)], target="twice_device", libraries=[library])


Dies = graph("a = R.exp(x); y = R.exp(R.negative(a))", x=(N,))


Lives = graph("a = R.exp(x); y = R.power(R.negative(a), a)", x=(N,))


Given = graph("y = R.exp(R.negative(x))", x=(N,))


CASES = {
    "dies": (Dies, lambda x: np.exp(2 * np.exp(x)), True),
    "lives on": (Lives, lambda x: (2 * np.exp(x)) ** np.exp(x), False),
    "is the caller's": (Given, lambda x: np.exp(2 * x), False),
}
X = np.linspace(-1, 1, N, dtype="float32")


def compiled(mod, used, target, arenas=("workspace",)):
    """A function of an array, and the plan (None where there is none)."""
    exe = lw.compile(mod, target=target, backends=[used], arenas=list(arenas))
    if target == "c":
        return exe.build(flags=["-O1"]), None
    return exe["main"], exe.memory_plan


@pytest.mark.parametrize("target", ["llvm -mcpu=native", "c"])
@pytest.mark.parametrize("case", CASES)
def test_the_result_lies_over_the_input_where_that_dies(case, target, library):
    mod, meaning, over = CASES[case]
    used = backend(library)
    run, plan = compiled(mod, used, target)
    before = X.copy()
    np.testing.assert_allclose(np.asarray(run(X)), meaning(X), rtol=1e-4)
    np.testing.assert_array_equal(X, before)
    assert used.seen() == (1, int(over), 0)
    if plan is not None:
        (scratch,) = [e for e in plan.entries if e.kind == "scratch"]
        assert scratch.bytes == SCRATCH and scratch.offset % 64 == 0
        assert any(e.over for e in plan.entries) == over
        # The function may use all its memory at once: nothing of the call is in the scratch.
        tensors = [e for e in plan.entries if e.kind == "tensor" and e.last >= scratch.first]
        end = scratch.offset + scratch.bytes
        for e in (e for e in tensors if e.first <= scratch.last):
            assert e.offset >= end or e.offset + e.bytes <= scratch.offset


@pytest.mark.parametrize("target", ["llvm -mcpu=native", "c"])
def test_a_function_that_does_not_say_so_is_never_called_in_place(target, library):
    used = backend(library, may_alias=False)
    run, _ = compiled(Dies, used, target)
    np.testing.assert_allclose(np.asarray(run(X)), np.exp(2 * np.exp(X)), rtol=1e-4)
    assert used.seen() == (1, 0, 0)


@pytest.mark.parametrize("target", ["llvm -mcpu=native", "c"])
def test_without_arenas_the_scratch_is_aligned_too(target, library):
    used = backend(library)
    run, _ = compiled(Dies, used, target, arenas=())
    for _ in range(3):
        np.testing.assert_allclose(np.asarray(run(X)), np.exp(2 * np.exp(X)), rtol=1e-4)
    calls, _, misaligned = used.seen()
    assert (calls, misaligned) == (3, 0)


def test_the_scratch_counts_against_the_limit(library):
    small = lw.Arena("sram", limit=2048)
    with pytest.raises(lw.LoopwrightError) as error:
        compiled(Dies, backend(library), "llvm -mcpu=native", [small])
    assert "does not fit arena sram" in str(error.value)
    assert f"scratch: {SCRATCH} bytes" in str(error.value)


def test_an_alias_of_something_that_is_no_parameter(library):
    @T.prim_func(private=True)
    def call(x: T.handle, y: T.handle):
        T.func_attr({"may_alias": [["Y", "Z"]]})
        X = T.match_buffer(x, (N,))
        Y = T.match_buffer(y, (N,))
        scratch = T.alloc_buffer((SCRATCH,), "uint8")
        T.evaluate(T.call_extern("int32", "twice", X.data, Y.data, scratch.data, T.int64(N)))

    lw.register_legalize("twice.wrong", tir=call, target="twice_device")
    wrong = Backend(
        "twice",
        [("twice.wrong", is_op("relax.negative")(wildcard()))],
        target="twice_device",
        libraries=[library],
    )
    with pytest.raises(lw.LoopwrightError) as error:
        lw.compile(Dies, backends=[wrong], arenas=["workspace"])
    assert str(error.value).startswith(
        '"may_alias" names pairs [written, read] of parameters\n  got: Z\n  instead: of X, Y'
    )
