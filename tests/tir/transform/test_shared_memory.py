"""`MergeSharedMemoryAllocations`: where each buffer lies in the merged memory, however it is accessed."""

from __future__ import annotations

import pytest

from loopwright.ir.module import IRModule
from loopwright.script import from_source
from loopwright.tir import transform as tt

TEXT = """
@T.prim_func
def main(A: T.Buffer((16,), "float32"), n: T.int32):
    t = T.launch_thread("threadIdx.x", 4)
    a = T.allocate([{first}], "{kind}", "{scope}")
    b = T.allocate([8], "float32", "shared.dyn")
    X = T.Buffer(({first},), "{kind}", data=a, scope="{scope}")
    Y = T.Buffer((8,), "float32", data=b, scope="shared.dyn")
    X[t] = T.Cast("{kind}", A[t])
    Y[t] = A[t + 4]
    A[t] = Y[t] + T.Cast("float32", X[t])
    T.evaluate(T.call_extern("int32", "f", Y.access_ptr("r", offset=2), b))
"""


def merged(**given: str) -> str:
    usual = {"first": "3", "kind": "float16", "scope": "shared.dyn"}
    mod = IRModule({"main": from_source(TEXT.format(**{**usual, **given}))})
    return tt.MergeSharedMemoryAllocations()(mod)["main"].script()


@pytest.mark.no_roundtrip
def test_places() -> None:
    for first, kind, at in (("3", "float16", 16), ("9", "float16", 32), ("8", "float32", 32)):
        text = merged(first=first, kind=kind)
        assert text.count("T.allocate(") == 1 and f"T.allocate([{at + 32}]" in text
        assert f"[t + {at // 4}]" in text  # of Y
        assert f"T.handle_add_byte_offset(shared_memory, {at})" in text
        assert f", {at // 4 + 2}, " in text  # of the pointer to its third element


def test_what_is_not_merged() -> None:
    for given in ({"first": "n"}, {"scope": "shared"}):
        assert merged(**given).count("T.allocate(") == 2
