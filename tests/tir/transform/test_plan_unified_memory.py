"""Memory of whole modules: what lives when, what is written over what, what the functions become."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

import loopwright as lw
from loopwright import Arena, LoopwrightError
from loopwright.ir.prim_expr import Var
from loopwright.relax import transform as rt
from loopwright.runtime import ExternLibrary, tensor
from loopwright.script import from_source
from loopwright.script import ir as I
from loopwright.script import relax as R
from loopwright.script import tir as T
from loopwright.tir import stmt as st
from loopwright.tir import transform as tt
from loopwright.tir.analysis import verify_well_formed
from loopwright.tir.analysis.in_place import can_overwrite
from loopwright.tir.memory_plan import Entry, plan_of

ENTRY = (
    'T.func_attr({"native_entry": {"params": [["x", "float32", [64]]], '
    '"results": [["out", "float32", [64]]], "symbols": []}})'
)
HEAD = """
@I.ir_module
class Module:
    @T.prim_func
    def main(x: T.handle("float32", "global"), out: T.handle("float32", "global")):
        {entry}
        {body}
"""
KERNEL = """
    @T.prim_func(private=True)
    def {name}(a: T.handle("float32", "global"), b: T.handle("float32", "global")):
        {attrs}
        A = T.Buffer((64,), data=a)
        B = T.Buffer((64,), data=b)
        {body}
"""
COPY = "for i in range(64):\n    B[i] = A[i] + T.float32(1)"
FLIP = "for i in range(64):\n    B[i] = A[63 - i] + T.float32(1)"


def indented(text, by=8):
    return text.strip().replace("\n", "\n" + " " * by)


def module(body, **kernels):
    """A main of some calls, and kernels of one input and one output, 64 floats each."""
    text = HEAD.format(entry=ENTRY, body=indented(body))
    for name, code in kernels.items():
        attrs, code = code if isinstance(code, tuple) else ("pass", code)
        attrs = 'T.func_attr({"tir.noalias": True})' if attrs == "pass" else attrs
        text += KERNEL.format(name=name, attrs=attrs, body=indented(code))
    return from_source(text)


def planned(mod, *arenas, **options):
    made = tt.PlanUnifiedMemory(arenas=arenas or None, **options)(mod)
    for func in made.functions.values():
        verify_well_formed(func)
    return made, plan_of(made["main"])


def run(mod, *arenas, **options):
    """What main makes of 0..63, its pools allocated."""
    step = tt.PlanUnifiedMemory(arenas=arenas or None, pools="allocate", **options)
    exe = lw.compile(mod, relax_pipeline=[], tir_pipeline=[step])
    return exe["main"](np.arange(64, dtype="float32")).numpy()


CHAIN = """
y = T.allocate([256], "uint8", "global")
Module.one(x, y)
z = T.allocate([256], "uint8", "global")
Module.one(y, z)
w = T.allocate([256], "uint8", "global")
Module.one(z, w)
Module.one(w, out)
"""


def lives(plan):
    return {e.name: (e.first, e.last) for e in plan.entries}


# ---------------------------------------------------------------------- the functions


def test_main_takes_a_pointer_to_each_pool_after_its_outputs():
    made, plan = planned(module(CHAIN, one=FLIP), Arena("sram"))
    main = made["main"]
    assert [p.name for p in main.params] == ["x", "out", "sram"]
    assert main.attrs["pools"] == [["sram", 512, 64]]
    assert plan.bytes == plan.bound == 512
    assert lives(plan) == {"y": (0, 1), "z": (1, 2), "w": (2, 3)}
    assert plan.steps == ("one",) * 4
    # A second run finds nothing to do.
    assert tt.PlanUnifiedMemory()(made) is made


def test_pools_stand_before_the_extents():
    text = HEAD.format(entry=ENTRY.replace('"symbols": []', '"symbols": []'), body=indented(CHAIN))
    text = text.replace(
        'out: T.handle("float32", "global"))', 'out: T.handle("float32", "global"), n: T.int64)'
    )
    text += KERNEL.format(name="one", attrs="pass", body=indented(FLIP))
    made, _ = planned(from_source(text.replace("pass\n", "T.evaluate(0)\n")))
    assert [p.name for p in made["main"].params] == ["x", "out", "workspace", "n"]


def test_the_plan_is_printed_and_parsed():
    made, plan = planned(module(CHAIN, one=FLIP), Arena("sram", "1KiB"))
    again = plan_of(from_source(made.script())["main"])
    assert again == plan
    assert again.report() == plan.report()
    assert "pool sram: 512 bytes of 1024 (1KiB), aligned to 64" in plan.report()


def test_in_place_results_are_equal():
    x = np.arange(64, dtype="float32")
    mod = module(CHAIN, one=COPY)
    _, plan = planned(mod)
    assert plan.bytes == plan.bound == 256
    assert [e.over for e in plan.entries] == ["", "y", "z"]
    np.testing.assert_array_equal(run(mod), x + 4)
    np.testing.assert_array_equal(run(module(CHAIN, one=FLIP)), x + 4)
    _, apart = planned(mod, in_place=False)
    assert apart.bytes == 512
    assert {e.over for e in apart.entries} == {""}


def test_a_kernel_whose_memory_overlaps_does_not_say_noalias():
    made, _ = planned(module(CHAIN, one=COPY))
    assert made["one"].attrs["tir.noalias"] is False
    made, _ = planned(module(CHAIN, one=FLIP))
    assert made["one"].attrs["tir.noalias"]


SCRATCH = """
room = T.allocate([2048], "float32", "global")
Room = T.Buffer((2048,), data=room)
for i in range(2048):
    Room[i] = A[i % 64]
for i in range(64):
    B[i] = Room[i * 32 + i % 2] + T.float32(1)
"""


def test_memory_of_kernels_is_given_to_them():
    mod = module(CHAIN, one=SCRATCH)
    made, plan = planned(mod)
    assert [p.name for p in made["one"].params] == ["a", "b", "room"]
    assert "allocate" not in made.script()
    names = [e.name for e in plan.entries if e.kind == "scratch"]
    assert names == ["one.room", "one.room#2", "one.room#3", "one.room#4"]
    # One input and the room; the output over the input, which is copied into the room first.
    assert plan.bytes == plan.bound == 8192 + 256
    i = np.arange(64)
    expected = i.astype("float32")
    for _ in range(4):
        expected = expected[(i * 32 + i % 2) % 64] + 1
    np.testing.assert_array_equal(run(mod), expected)
    np.testing.assert_array_equal(run(mod, in_place=False), expected)


def test_small_memory_of_kernels_stays():
    small = SCRATCH.replace("2048", "64").replace("i * 32 + i % 2", "63 - i")
    made, plan = planned(module(CHAIN, one=small))
    assert (
        "T.allocate([64]" in made["one"].script() or "T.decl_buffer((64,)" in made["one"].script()
    )
    assert plan.left == ()
    made, plan = planned(module(CHAIN, one=small), stack_bytes=255)
    assert next(e.name for e in plan.entries if e.kind == "scratch") == "one.room"
    np.testing.assert_array_equal(run(module(CHAIN, one=small), stack_bytes=0), np.arange(64) + 4)


def test_scratch_used_in_turn_shares_memory():
    twice = """
p = T.allocate([2048], "float32", "global")
q = T.allocate([2048], "float32", "global")
r = T.allocate([2048], "float32", "global")
P = T.Buffer((2048,), data=p)
Q = T.Buffer((2048,), data=q)
S = T.Buffer((2048,), data=r)
for i in range(2048):
    P[i] = A[i % 64]
for i in range(2048):
    Q[i] = P[2047 - i]
for i in range(2048):
    S[i] = Q[2047 - i]
for i in range(64):
    B[i] = S[i]
"""
    mod = module("Module.one(x, out)", one=twice)
    made, plan = planned(mod)
    assert plan.bytes == 2 * 8192
    assert plan["one.p"].offset == plan["one.r"].offset
    assert made["one"].attrs["tir.noalias"] is False
    np.testing.assert_array_equal(run(mod), np.arange(64))


def test_memory_used_in_a_loop_lives_as_long_as_it_runs():
    body = """
y = T.allocate([256], "uint8", "global")
z = T.allocate([256], "uint8", "global")
Module.one(x, y)
for k in range(3):
    Module.one(y, z)
    w = T.allocate([256], "uint8", "global")
    Module.one(z, w)
    v = T.allocate([256], "uint8", "global")
    Module.one(w, v)
    Module.one(v, out)
"""
    _, plan = planned(module(body, one=COPY))
    found = lives(plan)
    last = max(end for _, end in found.values())
    assert found["y"][1] == found["z"][1] == last  # y is read in the next round, too
    assert found["w"][1] < last
    assert plan["v"].over == "w"
    assert plan.bytes == 3 * 256
    np.testing.assert_array_equal(run(module(body, one=COPY)), np.arange(64) + 5)


def test_memory_in_parallel_loops_stays():
    apart = """
for i in T.parallel(64):
    room = T.allocate([2048], "float32", "global")
    Room = T.Buffer((2048,), data=room)
    for j in range(2048):
        Room[j] = A[i]
    B[i] = Room[i]
"""
    made, plan = planned(module("Module.one(x, out)", one=apart))
    assert plan.entries == ()
    assert plan.bytes == 0
    assert "pools" in made["main"].attrs and made["main"].attrs["pools"] == []
    assert len(made["main"].params) == 2
    serial = tt.ConvertForLoopsToSerial()(module("Module.one(x, out)", one=apart))
    assert planned(serial)[1].bytes == 8192


NESTED = """
    @T.prim_func(private=True)
    def outer(a: T.handle("float32", "global"), b: T.handle("float32", "global")):
        t = T.allocate([64], "float32", "global")
        Module.one(a, t)
        u = T.allocate([64], "float32", "global")
        Module.one(t, u)
        Module.one(u, b)
"""


def nested():
    text = HEAD.format(entry=ENTRY, body=indented(CHAIN.replace("one", "outer")))
    text += NESTED + KERNEL.format(
        name="one", attrs='T.func_attr({"k": 1})', body=indented(SCRATCH)
    )
    return from_source(text)


def test_calls_in_calls():
    made, plan = planned(nested())
    outer = made["outer"]
    names = ["a", "b", "t", "room", "u", "room", "room"]
    assert [p.name for p in outer.params] == names
    assert len(plan.entries) == 3 + 4 * 5
    # outer reads a only once, but what it is called with lives during its whole call
    assert plan.bytes == plan.bound
    i = np.arange(64)
    expected = i.astype("float32")
    for _ in range(12):
        expected = expected[(i * 32 + i % 2) % 64] + 1
    np.testing.assert_array_equal(run(nested()), expected)


def test_a_public_kernel_keeps_its_form():
    text = HEAD.format(entry=ENTRY, body="Module.one(x, out)")
    text += KERNEL.format(name="one", attrs='T.func_attr({"k": 1})', body=indented(SCRATCH))
    text = text.replace("@T.prim_func(private=True)", "@T.prim_func")
    made, _ = planned(from_source(text))
    assert sorted(g.name_hint for g in made.functions) == ["main", "one", "one_planned"]
    assert len(made["one"].params) == 2
    assert "global_symbol" not in made["one_planned"].attrs
    assert "Module.one_planned(x, out, " in made.script()


def test_what_has_no_size_stays():
    body = """
y = T.allocate([n * T.int64(4)], "uint8", "global")
Module.one(x, y)
Module.one(y, out)
"""
    text = HEAD.format(entry=ENTRY, body=indented(body)).replace(
        'out: T.handle("float32", "global"))', 'out: T.handle("float32", "global"), n: T.int64)'
    )
    text += KERNEL.format(name="one", attrs='T.func_attr({"k": 1})', body=indented(COPY))
    _, plan = planned(from_source(text))
    assert plan.left == (("main.y", "its size is known only at run time (n * 4)"),)
    assert plan.report().endswith("not planned: main.y: its size is known only at run time (n * 4)")


# ---------------------------------------------------------------------- pools


def test_preference_limits_and_kinds():
    mod = module(CHAIN, one=SCRATCH)
    fast, slow = Arena("fast", "8KiB", kinds="scratch"), Arena("slow", alignment=128)
    made, plan = planned(mod, fast, slow)
    assert [p.name for p in made["main"].params] == ["x", "out", "fast", "slow"]
    assert {e.pool for e in plan.entries if e.kind == "scratch"} == {"fast"}
    assert {e.pool for e in plan.entries if e.kind == "tensor"} == {"slow"}
    assert made["main"].attrs["pools"] == [["fast", 8192, 64], ["slow", 256, 128]]
    _, plan = planned(mod, Arena("fast", 300), slow)
    assert {e.pool for e in plan.entries if e.kind == "scratch"} == {"slow"}
    assert {e.pool for e in plan.entries if e.kind == "tensor"} == {"fast"}
    _, plan = planned(mod, Arena("fast", only="y"), slow)
    assert [e.name for e in plan.entries if e.pool == "fast"] == ["y"]


def test_an_empty_pool_is_no_parameter():
    made, _ = planned(module(CHAIN, one=COPY), "fast", "slow")
    assert [p.name for p in made["main"].params] == ["x", "out", "fast"]


def test_constants_in_a_pool():
    plain = module(CHAIN, one=FLIP)
    gvar, data = plain.get_global_var("main"), tensor(np.full(64, 2, "float32"))
    var = Var("weights", "handle", type_annotation=("float32", "global"))
    body = st.AllocateConst(var, "float32", (64,), data, plain[gvar].body)
    mod = plain.with_functions({gvar: plain[gvar].replace(body=body)})
    made, plan = planned(mod)
    assert [e.kind for e in plan.entries] == ["tensor"] * 3
    assert "allocate_const" in made.script()
    made, plan = planned(mod, "sram", Arena("flash", kinds="constant"))
    assert plan["weights"] == Entry("weights", "constant", 256, "flash", 0, 0, 3)
    assert plan.bytes == 512
    assert plan.ratio == 1.0
    assert "allocate_const" not in made.script()
    (pool, offset, stored) = made["main"].attrs["pool_constants"][0]
    assert (pool, offset) == ("flash", 0)
    np.testing.assert_array_equal(stored.numpy(), np.full(64, 2))
    assert re.search(r"weights +constant +256 +flash +0 +always", plan.report())


def test_bounded_symbols_are_planned():
    @I.ir_module
    class Model:
        @R.function
        def main(x: R.Tensor(("n", 4), "float32")):
            R.func_attr({"tir_var_upper_bound": {"n": 16}})
            with R.dataflow():
                y = R.exp(x)
                z = R.permute_dims(y)
                w = R.matmul(z, y)
                R.output(w)
            return w

    exe = lw.compile(Model, arenas=["ram"])
    assert exe.memory_plan.left == ()
    assert max(e.bytes for e in exe.memory_plan.entries) == 16 * 4 * 4
    x = np.random.default_rng(0).uniform(size=(7, 4)).astype("float32")
    np.testing.assert_allclose(exe["main"](x).numpy(), np.exp(x).T @ np.exp(x), rtol=1e-5)


def padded(n, attrs):
    """Two convolutions, whose kernels copy an image into memory of their own."""

    @I.ir_module
    class Padded:
        @R.function
        def main(
            x: R.Tensor((n, 3, 16, 16), "float32"),
            w: R.Tensor((8, 3, 3, 3), "float32"),
            v: R.Tensor((8, 8, 3, 3), "float32"),
        ):
            R.func_attr(attrs)
            with R.dataflow():
                y = R.nn.conv2d(R.nn.relu(R.nn.conv2d(x, w, padding=1)), v, padding=1)
                R.output(y)
            return y

    return Padded


@pytest.mark.parametrize("options", [{"target": "c"}, {"arenas": ["ram"]}])
def test_memory_of_kernels_whose_sizes_are_bounded(options):
    """It is planned as if the sizes were their bounds; C code needs nothing besides the plan."""
    bounded = lw.compile(padded("n", {"tir_var_upper_bound": {"n": 4}}), **options)
    fixed = lw.compile(padded(4, {}), **options)
    plans = [exe.memory_plan for exe in (bounded, fixed)]
    pools = [[p.bytes for p in plan.pools] for plan in plans]
    assert pools[0] == pools[1] and {e.kind for e in plans[0].entries} >= {"scratch"}
    if "target" in options:
        assert [exe.workspace_bytes for exe in (bounded, fixed)] == [p[0] for p in pools]
        return
    rng = np.random.default_rng(0)
    x, w, v = (
        rng.uniform(size=s).astype("float32") for s in ((4, 3, 16, 16), (8, 3, 3, 3), (8, 8, 3, 3))
    )
    want = fixed["main"](x, w, v).numpy()
    for n in (4, 1, 0):
        np.testing.assert_allclose(bounded["main"](x[:n], w, v).numpy(), want[:n], rtol=1e-5)


def test_memory_of_unbounded_sizes_is_listed():
    plan = lw.compile(padded("n", {}), arenas=["ram"]).memory_plan
    assert plan.entries == () and {name.split(".")[0] for name, _ in plan.left} == {
        "main", "fused_conv2d_relu", "conv2d1"
    }  # fmt: skip
    assert all(
        re.match(r"its size is known only at run time \(n \* \d+\)", why) for _, why in plan.left
    )


def test_limits_of_unbounded_sizes_are_refused():
    limited = Arena("ram", "1KiB")
    with pytest.raises(LoopwrightError, match="(?s)limit of arena ram cannot be checked.*n<=8"):
        lw.compile(padded("n", {}), arenas=[limited])
    bounded = padded("n", {"tir_var_upper_bound": {"n": 2}})
    with pytest.raises(LoopwrightError, match="does not fit arena ram"):
        lw.compile(bounded, arenas=[limited])
    assert lw.compile(bounded, arenas=[Arena("ram", "1MiB")]).memory_plan.left == ()
    assert lw.compile(padded("n", {}), arenas=[limited, Arena("rest")]).memory_plan.left


@pytest.mark.parametrize("options", [{}, {"arenas": ["ram"]}])
def test_a_size_beyond_its_bound_is_refused(options):
    exe = lw.compile(padded("n", {"tir_var_upper_bound": {"n": 2}}), **options)
    x, w, v = (np.zeros(s, "float32") for s in ((3, 3, 16, 16), (8, 3, 3, 3), (8, 8, 3, 3)))
    with pytest.raises(ValueError, match="main: n must be from 0 to 2\n  got: 3\n"):
        exe["main"](x, w, v)


def test_a_size_beyond_the_bound_of_a_loop_function_is_refused():
    @T.prim_func
    def main(x: T.handle, n: T.int64):
        T.func_attr({"global_symbol": "main", "tir_var_upper_bound": {"n": 2}})
        X = T.match_buffer(x, (4,), "float32")
        room = T.alloc_buffer((n,), "float32")
        for i in range(n):
            room[i] = X[i]
        for i in range(n):
            X[i] = room[n - 1 - i]

    exe = lw.compile(main, arenas=["ram"])
    assert [e.bytes for e in exe.memory_plan.entries] == [8]
    values = lw.runtime.tensor(np.arange(4, dtype="float32"))
    exe["main"](values, 2)
    assert values.numpy().tolist() == [1, 0, 2, 3]
    for n in (3, -1):
        with pytest.raises(ValueError, match=f"main: n must be from 0 to 2\n  got: {n}\n"):
            exe["main"](values, n)


# ---------------------------------------------------------------------- errors


def test_too_small():
    with pytest.raises(lw.LoopwrightError) as error:
        planned(module(CHAIN, one=SCRATCH), Arena("sram", "8KiB"))
    assert str(error.value) == (
        "the memory of main does not fit arena sram (8KiB)\n"
        "  got: 8448 bytes live at once in one (step 1), 8192 are there:\n"
        "    one.room: 8192 bytes, one .. one\n"
        "    y: 256 bytes, one .. one\n"
        '  instead: give sram 8448 bytes, or add an arena that takes y, z, w: Arena("more")'
    )
    with pytest.raises(lw.LoopwrightError) as error:
        planned(module(CHAIN, one=FLIP), Arena("fast", 256), Arena("slow", 128))
    assert str(error.value) == (
        "the memory of main does not fit arena fast (256B), slow (128B)\n"
        "  got: 512 bytes live at once in one (step 1), 384 are there:\n"
        "    y: 256 bytes, one .. one\n"
        "    z: 256 bytes, one .. one\n"
        '  instead: give slow 256 bytes, or add an arena that takes z: Arena("more")'
    )
    with pytest.raises(lw.LoopwrightError, match="give sram 256 bytes"):
        planned(module(CHAIN, one=COPY), Arena("sram", 255))


def test_no_arena_takes_it():
    with pytest.raises(lw.LoopwrightError) as error:
        planned(module(CHAIN, one=COPY), Arena("a", kinds="scratch"))
    assert str(error.value) == (
        "no arena takes y of main\n"
        "  got: tensor, 256 bytes; arenas: a (scratch)\n"
        '  instead: add a last one that takes all: Arena("rest")'
    )


def test_options_that_do_not_go():
    mod = module(CHAIN, one=COPY)
    with pytest.raises(ValueError, match='unknown way to get the pools\n  got: heap\n  instead: "'):
        planned(mod, pools="heap")
    with pytest.raises(lw.LoopwrightError) as error:
        planned(mod, Arena("a", alignment=8192), pools="allocate")
    assert str(error.value) == (
        "arena a is allocated at run time, aligned to 4096 bytes at most\n"
        "  got: 8192\n"
        '  instead: use pools="parameters" and give memory of your own'
    )
    with pytest.raises(lw.LoopwrightError, match="takes constants, and is allocated at run time"):
        planned(mod, Arena("a", kinds="constant"), pools="allocate")
    with pytest.raises(lw.LoopwrightError) as error:
        lw.compile(mod, target="c", arenas=[Arena("a", kinds="constant")])
    assert str(error.value) == (
        "arena a takes constants, which are const arrays in C\n"
        '  instead: use kinds=("tensor", "scratch")'
    )
    with pytest.raises(ValueError, match="unknown workspace of GraphToTIR"):
        rt.GraphToTIR(workspace="two")


def test_blocks_are_not_planned():
    @I.ir_module
    class Module:
        @T.prim_func
        def main(A: T.Buffer((4,), "float32")):
            for i in range(4):
                with T.block("a"):
                    vi = T.axis.spatial(4, i)
                    A[vi] = T.float32(0)

    with pytest.raises(lw.LoopwrightError) as error:
        tt.PlanUnifiedMemory()(Module)
    assert str(error.value) == (
        "memory is planned when loops are lowered: main has a BlockRealize\n"
        "  instead: run tir.transform.default_tir_pipeline() first"
    )


# ---------------------------------------------------------------------- external functions

SOURCE = """
#include <stdint.h>
int lib_twice(const float* x, float* y, float* room, int64_t n) {
  for (int64_t i = 0; i < n; i++) room[i] = x[i];
  for (int64_t i = 0; i < n; i++) y[i] = 2 * room[n - 1 - i];
  return 0;
}
"""


@I.ir_module
class External:
    @T.prim_func(private=True)
    def twice(x: T.Buffer((64,), "float32"), y: T.Buffer((64,), "float32")):
        room = T.alloc_buffer((64,), "float32")
        with T.block("twice"):
            T.reads(x[0:64])
            T.writes(y[0:64])
            T.evaluate(T.call_extern("int32", "lib_twice", x.data, y.data, room.data, T.int64(64)))

    @R.function
    def main(x: R.Tensor((64,), "float32")):
        cls = External
        with R.dataflow():
            a = R.call_tir(cls.twice, (x,), out_sinfo=R.Tensor((64,), "float32"))
            b = R.call_tir(cls.twice, (a,), out_sinfo=R.Tensor((64,), "float32"))
            c = R.call_tir(cls.twice, (b,), out_sinfo=R.Tensor((64,), "float32"))
            R.output(c)
        return c


def external(tmp_path, **attrs):
    """Three calls of a C function with declared scratch memory."""
    source = tmp_path / "twice.c"
    source.write_text(SOURCE)
    prototype = "int lib_twice(const float* x, float* y, float* room, int64_t n)"
    library = ExternLibrary("twice", [prototype], sources=[source])
    gvar = External.get_global_var("twice")
    made = External.with_functions({gvar: External[gvar].with_attrs(attrs)})
    return made.with_attr("external_mods", [library])


@pytest.mark.no_roundtrip
def test_scratch_of_external_functions_is_planned(tmp_path):
    exe = lw.compile(external(tmp_path), arenas=["ram"])
    plan = exe.memory_plan
    kinds = [e.kind for e in plan.entries]
    assert kinds.count("scratch") == 3
    assert kinds.count("tensor") == 2
    assert plan.bytes == plan.bound == 3 * 256
    x = np.arange(64, dtype="float32")
    np.testing.assert_array_equal(exe["main"](x).numpy(), 8 * x[::-1])


@pytest.mark.no_roundtrip
def test_an_external_function_may_say_that_it_works_in_place(tmp_path):
    exe = lw.compile(external(tmp_path, may_alias=[["y", "x"]]), arenas=["ram"])
    assert exe.memory_plan.bytes == exe.memory_plan.bound == 2 * 256
    assert [e.over for e in exe.memory_plan.entries if e.over] == ["alloc"]
    x = np.arange(64, dtype="float32")
    np.testing.assert_array_equal(exe["main"](x).numpy(), 8 * x[::-1])
    by_number = lw.compile(external(tmp_path, may_alias=[[1, 0]]), arenas=["ram"])
    assert by_number.memory_plan == exe.memory_plan
    with pytest.raises(lw.LoopwrightError) as error:
        lw.compile(external(tmp_path, may_alias=[["z", "x"]]), arenas=["ram"])
    assert str(error.value).startswith(
        '"may_alias" names pairs [written, read] of parameters\n  got: z\n  instead: of x'
    )


@pytest.mark.no_roundtrip
def test_an_external_function_says_how_memory_is_aligned(tmp_path):
    mod = external(tmp_path, alignment=256)
    model = lw.compile(mod, target="c", arenas=["ram"])
    plan = plan_of(model.lowered["main"])
    assert [e.offset % 256 for e in plan.entries] == [0] * 5
    assert plan.pools[0].alignment == 256
    text = lw.compile(mod, arenas=["ram"]).as_python()
    assert "annotations={'alignment': 256}" in text.replace('"', "'")


# ---------------------------------------------------------------------- compiled models


def test_a_model_in_arenas_is_the_same():
    @I.ir_module
    class Model:
        @R.function
        def main(x: R.Tensor((16, 32), "float32"), w: R.Tensor((32, 32), "float32")):
            with R.dataflow():
                a = R.nn.relu(R.matmul(x, w))
                b = R.nn.softmax(R.matmul(a, w))
                c = R.add(a, b)
                d = R.nn.layer_norm(
                    c, R.const(np.ones(32, "float32")), R.const(np.zeros(32, "float32")), axes=[1]
                )
                e = R.add(R.matmul(d, w), c)
                R.output(e)
            return e

    rng = np.random.default_rng(0)
    x, w = rng.normal(size=(16, 32)).astype("float32"), rng.normal(size=(32, 32)).astype("float32")
    plain = lw.compile(Model)
    assert plain.memory_plan is None
    exe = lw.compile(Model, arenas=[Arena("sram", "2KiB"), Arena("dram")])
    np.testing.assert_array_equal(exe["main"](x, w).numpy(), plain["main"](x, w).numpy())
    plan = exe.memory_plan
    assert [p.name for p in plan.pools] == ["sram", "dram"]
    assert plan.pools[0].bytes <= 2048
    with ThreadPoolExecutor(4) as pool:  # each thread has its own arenas
        results = list(pool.map(lambda k: exe["main"](x * k, w).numpy(), range(32)))
    for k, got in enumerate(results):
        np.testing.assert_array_equal(got, plain["main"](x * k, w).numpy())
    with pytest.raises(lw.LoopwrightError, match="does not fit arena sram"):
        lw.compile(Model, arenas=[Arena("sram", "1KiB")])


def test_arenas_show_in_the_trace():
    @R.function
    def main(x: R.Tensor((64,), "float32")):
        with R.dataflow():
            y = R.sum(R.exp(x), keepdims=True)
            z = R.add(x, y)
            R.output(z)
        return z

    trace = lw.driver.lower(main, arenas="ram")
    assert "tir.PlanUnifiedMemory" in trace.names()
    (pool,) = plan_of(trace["tir.PlanUnifiedMemory"].after["main"]).pools
    assert pool.name == "ram"
    with pytest.raises(ValueError, match="two arenas have one name"):
        lw.compile(main, arenas=["ram", Arena("ram")])


# ---------------------------------------------------------------------- in place


@some.composite
def kernels(draw):
    """A kernel from a to b, of 24 elements, that may or may not work in place."""
    n, m = draw(some.sampled_from([(4, 6), (24, 1), (2, 12), (3, 8)]))
    indices = [
        f"i * {m} + j",
        f"(({n} - 1) - i) * {m} + j",
        f"j * {n} + i",
        f"(i * {m} + j) // 2",
        f"T.min(i * {m} + j + 1, 23)",
        f"(i * {m} + j + 5) % 24",
        f"23 - (i * {m} + j)",
    ]
    some_index = some.sampled_from(indices)
    kind = draw(some.sampled_from(["range", "T.parallel"]))
    lines, out = [], draw(some_index)
    same = draw(some.booleans())
    source = out if same else draw(some_index)
    more = draw(some.sampled_from(["", f" + A[{out}]", f" * A[{draw(some_index)}]"]))
    if draw(some.booleans()):
        lines += ["for i in range(24):", "    S[i] = A[23 - i]"]
        more += draw(some.sampled_from(["", f" - S[{out}]"]))
    lines += [f"for i in {kind}({n}):", f"    for j in range({m}):"]
    if draw(some.integers(0, 2)) == 0:  # rows: first all reads of one, then its writes
        lines += [f"        S[{out}] = A[{source}]{more}", f"    for j in range({m}):"]
        lines += [f"        B[{draw(some_index)}] = S[{out}]"]
    elif draw(some.integers(0, 3)) == 0:
        lines += [f"        B[{out}] = T.float32(3)"]
        lines += [f"        B[{out}] = B[{out}] + A[{source}]{more}"]
    elif draw(some.integers(0, 3)) == 0:
        lines += [f"        B[{out}] = S[{source}]"]
    else:
        lines += [f"        B[{out}] = A[{source}]{more} + T.float32(1)"]
    if draw(some.integers(0, 3)) == 0:
        lines += ["for i in range(24):", f"    B[i] = B[i] + {draw(some.sampled_from('AS'))}[i]"]
    return "\n".join(lines)


FORM = """
@T.prim_func
def main(a: T.handle("float32", "global"), b: T.handle("float32", "global"), s: T.handle("float32", "global")):
    A = T.Buffer((24,), data=a)
    B = T.Buffer((24,), data=b)
    S = T.Buffer((24,), data=s)
    {body}
"""


def simulated(body, in_place):
    """What the kernel leaves in b, iterations of parallel loops in order or in reverse."""
    results = []
    for backwards in (False, True):
        a = np.linspace(1, 2, 24).astype("float32")
        b = a if in_place else np.full(24, np.nan, "float32")
        code = body.replace("T.float32", "").replace("T.min", "min")
        code = code.replace("T.parallel(", "turned(")
        turned = lambda n, r=backwards: reversed(range(n)) if r else range(n)  # noqa: E731
        exec(code, {"A": a, "B": b, "S": np.zeros(24, "float32"), "turned": turned, "min": min})
        results.append(b)
    return results


@given(body=kernels())
@settings(max_examples=150)
def test_what_works_in_place_makes_the_same(body):
    func = from_source(FORM.format(body=indented(body, 4)))
    a, b, _ = func.params
    if can_overwrite(func, a, b):
        apart, over = simulated(body, False), simulated(body, True)
        # A parallel loop that races by itself says nothing.
        if np.array_equal(*apart, equal_nan=True):
            written = ~np.isnan(apart[0])
            np.testing.assert_array_equal(apart[0][written], over[0][written])
            np.testing.assert_array_equal(apart[1][written], over[1][written])


ROWS = """
for i in range(4):
    for j in range(6):
        S[j] = A[i * 6 + 5 - j]
    for j in range(6):
        B[i * 6 + j] = S[j]
"""
IN_PLACE = [
    ("for i in range(24):\n    B[i] = A[i] * A[i]", True),
    ("for i in T.parallel(24):\n    B[i] = A[i] + T.float32(1)", True),
    ("for i in range(12):\n    B[i * 2] = A[i * 2]\n    B[i * 2 + 1] = A[i * 2 + 1]", True),
    ("for i in range(3):\n    B[i * 8:i * 8 + 8] = A[i * 8:i * 8 + 8] * S[0:8]", True),
    ("for i in range(24):\n    S[i] = A[23 - i]\nfor i in range(24):\n    B[i] = S[i]", True),
    (ROWS, True),
    (
        "for i in range(24):\n    S[0] = S[0] + A[i]\nfor i in range(24):\n    B[i] = A[i] / S[0]",
        True,
    ),
    (ROWS.replace("B[i * 6 + j]", "B[i * 6 + 5 - j]"), True),
    (ROWS.replace("B[i * 6 + j]", "B[(3 - i) * 6 + j]"), False),
    (ROWS.replace("B[i * 6 + j]", "B[j]"), False),
    ("for i in range(12):\n    B[i * 2 + 1] = A[i * 2 + 1]\n    B[i * 2] = A[i * 2 + 1]", False),
    ("for i in range(24):\n    B[i] = A[23 - i]", False),
    ("for i in range(24):\n    B[i // 2] = A[i // 2]", False),
    ("for i in range(24):\n    B[i] = T.float32(0)\n    B[i] = B[i] + A[i]", False),
    ("for i in range(24):\n    A[i] = T.float32(0)\n    B[i] = A[i]", False),
    ("for i in range(24):\n    B[i] = A[i]\n    T.call_extern('int32', 'f', a)", False),
    ("for i in range(24):\n    B[T.Cast('int32', S[i])] = A[T.Cast('int32', S[i])]", False),
    ("while B[0] < T.float32(3):\n    B[0] = A[0]", False),
    # other views of the memory, of which elements may overwrite others that are read later
    ("V = T.Buffer((23,), data=b, elem_offset=1)\nfor i in range(23):\n    V[i] = A[i]", False),
    ("V = T.Buffer((12,), data=b, strides=(2,))\nfor i in range(12):\n    V[i] = A[i]", False),
    ("V = T.Buffer((4, 6), data=b)\nU = T.Buffer((6, 4), data=a)\nfor i, j in T.grid(4, 4):\n    V[i, j] = U[i, j]", False),
    ("V = T.Buffer((4, 6), data=b)\nU = T.Buffer((4, 6), data=a)\nfor i, j in T.grid(4, 6):\n    V[i, j] = U[i, j]", True),
    ("for i in range(24):\n    B[T.Cast('int64', i)] = A[T.Cast('int64', i)]", True),
    ("for i in range(24):\n    B[T.Cast('int64', i)] = A[23 - T.Cast('int64', i)]", False),
    ("for i in range(3):\n    B[T.Broadcast(i * 8, 8) + T.Ramp(0, 1, 8)] = A[T.Broadcast(i * 8, 8) + T.Ramp(0, 1, 8)]", True),
    ("for i in range(3):\n    B[T.Broadcast(i * 8, 8) + T.Ramp(0, 1, 8)] = A[T.Broadcast(16 - i * 8, 8) + T.Ramp(0, 1, 8)]", False),
]  # fmt: skip


@pytest.mark.parametrize(("body", "expected"), IN_PLACE)
def test_in_place_analysis(body, expected):
    func = from_source(FORM.format(body=indented(body, 4)))
    assert can_overwrite(func, func.params[0], func.params[1]) is expected
