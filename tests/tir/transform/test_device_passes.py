"""Passes for functions of several threads: regions, functions of their own, barriers."""

from __future__ import annotations

import re

import numpy as np
import pytest

import loopwright as lw
from loopwright import tir
from loopwright.base.errors import LoopwrightError
from loopwright.ir.module import IRModule
from loopwright.ir.serialize import make_node
from loopwright.ir.target import Target
from loopwright.ir.transform import PassContext, Sequential
from loopwright.runtime import Module, register_func, remove_global_func
from loopwright.runtime.extern import ExternLibrary
from loopwright.script import from_source
from loopwright.tir import analysis as ta
from loopwright.tir import transform as tt
from loopwright.tir.interpreter import run

from ...programs import nest, prim_func

TWO_KERNELS = """
@T.prim_func
def main(A: T.handle("float32", "global"), B: T.handle("float32", "global"), n: T.int32):
    T.func_attr({"target": T.target("cuda", host="llvm")})
    A_1 = T.Buffer((16,), data=A)
    B_1 = T.Buffer((16,), data=B)
    for k in range(2):
        with T.launch_thread("threadIdx.x", 16) as tx:
            B_1[tx] = A_1[tx] + T.Cast("float32", n + k)
        with T.launch_thread("threadIdx.x", 16) as ty:
            A_1[ty] = B_1[15 - ty]
"""


def test_host_and_device():
    mod = IRModule({"main": from_source(TWO_KERNELS)})
    made = tt.SplitHostDevice()(tt.AnnotateDeviceRegions()(mod))
    names = [v.name_hint for v in made.functions]
    assert names == ["main", "main_kernel", "main_kernel_1"]
    for func in made.functions.values():
        ta.verify_well_formed(func)
    kernel = made["main_kernel"]
    assert [p.name for p in kernel.params] == ["A", "B", "k", "n"]
    assert kernel.attrs["target"].kind.name == "cuda" and kernel.attrs["target"].host is None
    a = np.arange(16, dtype="float32")
    wanted, got = [a.copy(), np.zeros(16, "float32")], [a.copy(), np.zeros(16, "float32")]
    run(mod["main"], [*wanted, 3])
    run(made["main"], [*got, 3], made)
    np.testing.assert_array_equal(got, wanted)


def test_one_device_stays_whole():
    text = TWO_KERNELS.replace('T.target("cuda", host="llvm")', 'T.target("cuda")')
    mod = IRModule({"main": from_source(text)})
    assert tt.AnnotateDeviceRegions()(mod)["main"] is mod["main"]


SHARED = """
@T.prim_func
def main(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
    tx = T.launch_thread("threadIdx.x", 8)
    s = T.allocate([8], "float32", "{scope}")
    S = T.Buffer((8,), data=s, scope="{scope}")
    for k in range(3):
        S[tx] = A[tx]
        {between}
        B[tx] = B[tx] + S[7 - tx]
    A[tx] = B[tx]
"""


def barriers(scope, between="T.evaluate(0)"):
    func = from_source(SHARED.format(scope=scope, between=between))
    after = tt.ThreadSync("shared")(IRModule({"main": func}))["main"]
    ta.verify_well_formed(after)
    return after.script().count("tvm_storage_sync")


def test_barriers():
    assert barriers("shared") == 2  # between write and read, and before the next iteration's write
    assert barriers("local") == 0
    assert barriers("shared", 'T.evaluate(T.tvm_storage_sync("shared"))') == 2


def test_default_threads():
    """A reduction's rows run in threads; what has no spatial loop runs in one."""
    sums = prim_func(
        "A: T.Buffer((6, 8)), B: T.Buffer((6,)), C: T.Buffer(())",
        'T.func_attr({"target": T.target({"kind": "cuda", "max_threads_per_block": 4})})',
        nest("B", "B[vi] = B[vi] + A[vi, vk]", "B[vi] = 0.0", i=6, k=8),
        nest("C", "C[()] = C[()] + B[vk]", "C[()] = 0.0", k=6),
    )
    mod = IRModule({"main": sums})
    after = tt.DefaultGPUSchedule()(mod)
    assert tt.DefaultGPUSchedule()(after)["main"] is after["main"]
    shown = after.script()
    assert 'T.thread_binding(2, thread="blockIdx.x")' in shown and "T.where" in shown
    assert shown.count('T.thread_binding(1, thread="threadIdx.x")') == 1
    a = np.random.default_rng(0).standard_normal((6, 8)).astype("float32")
    b, c = np.zeros(6, "float32"), np.zeros((), "float32")
    run(after["main"], [a, b, c])
    np.testing.assert_allclose(b, a.sum(1), rtol=1e-5)
    np.testing.assert_allclose(c, a.sum(), rtol=1e-5)
    cpu = IRModule({"main": sums.with_attr("target", None)})
    assert tt.DefaultGPUSchedule()(cpu)["main"] is cpu["main"]


def test_inlined_functions():
    text = """
@I.ir_module
class Module:
    @T.prim_func
    def main(A: T.Buffer((4,), "float32"), n: T.int32):
        for i in range(4):
            Module.twice(A.data, i, n)

    @T.prim_func(private=True)
    def twice(A: T.Buffer((4,), "float32"), i: T.int32, n: T.int32):
        Module.scale(A.data, i, n)
        Module.scale(A.data, i, 3)

    @T.prim_func(private=True)
    def scale(A: T.handle("float32", "global"), i: T.int32, n: T.int32):
        A_1 = T.Buffer((4,), data=A)
        for j in range(n):
            A_1[i] = A_1[i] * T.float32(2)

    @T.prim_func(private=True)
    def itself(n: T.int32):
        Module.itself(n)
        with T.attr(0, "kept", Module.given(n)):
            T.evaluate(n)

    @T.prim_func(private=True)
    def given(n: T.int32):
        T.evaluate(n)
"""
    mod = from_source(text)
    made = tt.InlinePrivateFunctions()(mod)
    assert [v.name_hint for v in made.functions] == ["main", "itself", "given"]
    ta.verify_well_formed(made)
    for each in (mod, made):
        a = np.ones(4, "float32")
        run(each["main"], [a, 2], each)
        np.testing.assert_array_equal(a, np.full(4, 32, "float32"))


CALLS = [
    ("'f', A.data, T.int64(4)", "int32", ""),
    ("'f', p, T.int64(4)", "int32", ""),
    ("'f', T.address_of(A[2]), T.int64(4)", "int32", ""),
    ("'f', T.tvm_access_ptr(T.type_annotation('float32'), A.data, 0, 8, 1), T.int64(4)", "int32", ""),
    ("'f', T.call_extern('handle', 'room'), T.int64(4)", "int32", ""),  # of nothing that is known
    ("'f', B.data, T.int64(4)", "int32", ""),  # bytes may be anything
    ("'f', A.data, T.int64(4)", "void", ""),
    ("'unknown', 3", "int32", ""),
    ("'any', C.data", "handle", ""),
    ("'f', C.data, T.int64(4)", "int32", r"argument 1 is int8\*, the parameter const float32\*"),
    ("'f', T.address_of(C[2]), T.int64(4)", "int32", r"argument 1 is int8\*, the"),
    ("'f', T.tvm_access_ptr(T.type_annotation('int8'), C.data, 0, 8, 1), T.int64(4)", "int32", r"argument 1 is int8\*, the"),
    ("'f', T.float32(1), T.int64(4)", "int32", "argument 1 is float32, the parameter const float32"),
    ("'f', A.data, 4", "int32", "argument 2 is int32, the parameter int64"),
    ("'f', A.data, A.data", "int32", r"argument 2 is float32\*, the parameter int64"),
    ("'f', A.data, p", "int32", r"argument 2 is void\*, the parameter int64"),
    ("'f', A.data", "int32", "1 arguments for 2 parameters"),
    ("'f', A.data, T.int64(4)", "int64", "the result is taken as int64, it is int32"),
    ("'any', C.data", "int32", "the result is taken as int32, it is"),
]  # fmt: skip


@pytest.mark.no_roundtrip
@pytest.mark.parametrize(("args", "result", "said"), CALLS)
def test_calls_of_external_functions(args, result, said):
    func = from_source(f"""
@T.prim_func
def main(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "uint8"), C: T.Buffer((8,), "int8"), p: T.handle):
    T.evaluate(T.call_extern("{result}", {args}))
""")
    library = ExternLibrary("mine", ["int f(const float* x, int64_t n)", "float* any(void* p)"])
    mod = IRModule({"main": func}).with_attr("external_mods", [library, Module({}, kind="other")])
    if not said:
        assert tt.VerifyExterns()(mod)["main"] is func
        return
    with pytest.raises(LoopwrightError, match=said):
        tt.VerifyExterns()(mod)


@pytest.mark.no_roundtrip
def test_a_function_of_two_libraries_is_declared_alike():
    func = from_source("@T.prim_func\ndef main(n: T.int32):\n    T.evaluate(n)")
    one, same = (ExternLibrary(n, ["int f(int n)"]) for n in ("one", "same"))
    other = ExternLibrary("other", ["int f(float n)"])
    mod = IRModule({"main": func})
    assert tt.VerifyExterns()(mod.with_attr("external_mods", [one, same]))["main"] is func
    with pytest.raises(
        LoopwrightError,
        match=r"f is declared by two external libraries\n  got: one: int f\(int n\); other: int f\(float n\)",
    ):
        tt.VerifyExterns()(mod.with_attr("external_mods", [one, other]))


def test_a_cache_in_vtcm_needs_what_a_tile_uses():
    text = """
@T.prim_func
def main(A: T.Buffer((8, 16), "uint8"), B: T.Buffer((8, 16), "uint8")):
    V = T.alloc_buffer((8, 16), "uint8", scope="global.vtcm")
    for i in range(8):
        for j in range(16):
            with T.block("V"):
                vi, vj = T.axis.remap("SS", [i, j])
                V[vi, vj] = A[vi, vj]
        for j in range(16):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = V[vi, 15 - vj]
"""
    mod = IRModule({"main": from_source(text)})
    tt.VerifyVTCMLimit(8 * 16)(mod)
    after = Sequential(ta.get_vtcm_compaction_passes())(mod)
    tt.VerifyVTCMLimit(16)(after)
    with pytest.raises(RuntimeError, match="16 bytes, the limit is 15"):
        tt.VerifyVTCMLimit(15)(after)
    a, b = np.arange(128, dtype="uint8").reshape(8, 16), np.zeros((8, 16), "uint8")
    run(after["main"], [a, b])
    np.testing.assert_array_equal(b, a[:, ::-1])


def test_limits_of_special_memory():
    text = """
@T.prim_func
def main(A: T.Buffer((64,), "uint8")):
    v = T.allocate([64], "uint8", "global.vtcm")
    V = T.Buffer((64,), "uint8", data=v, scope="global.vtcm")
    V[0] = A[0]
"""
    mod = IRModule({"main": from_source(text)})
    assert tt.VerifyVTCMLimit()(mod)["main"] is mod["main"]
    with pytest.raises(RuntimeError, match="64 bytes, the limit is 63"):
        tt.VerifyVTCMLimit(63)(mod)
    info = make_node("target.MemoryInfo", unit_bits=8, max_num_bits=256, max_simd_bits=32)
    register_func("tvm.info.mem.global.vtcm", lambda: info, override=True)
    try:
        with pytest.raises(ValueError, match="512 bits, there are 256"):
            tt.StorageRewrite()(mod)
        unused = IRModule({"main": from_source(text.replace("V[0] = A[0]", "T.evaluate(0)"))})
        assert "allocate" not in tt.LowerDeviceStorageAccessInfo()(unused).script()
        larger = IRModule(
            {"main": from_source(text.replace("[64],", "[n],").replace("):", ", n: T.int32):", 1))}
        )
        after = tt.LowerDeviceStorageAccessInfo()(larger)["main"]  # of a size that is not known
        assert after.script() == larger["main"].script()
        pointed = text.replace(
            'V = T.Buffer((64,), "uint8", data=v, scope="global.vtcm")\n    V[0] = A[0]',
            'T.call_extern("void", "f", T.tvm_access_ptr(T.type_annotation("{}"), v, 5, 3, 1))',
        )
        for kind, of in (("uint8", "v_1[5]"), ("int16", "v_1[5]")):
            small = IRModule({"main": from_source(pointed.format(kind).replace("[64],", "[8],"))})
            made = tt.LowerDeviceStorageAccessInfo()(small)["main"]
            assert f"T.address_of({of})" in made.script()
            assert f'v_1 = T.Buffer((3,), "{kind}", data=v, scope="global.vtcm")' in made.script()
    finally:
        remove_global_func("tvm.info.mem.global.vtcm")


KERNEL = """
@I.ir_module
class Module:
    @T.prim_func
    def main(A: T.Buffer((4,), "float32")):
        T.func_attr({"target": T.target("llvm")})
        Module.kernel(A.data)

    @T.prim_func(private=True)
    def kernel(data: T.handle("float32")):
        T.func_attr({"target": T.target("cuda")})
        t = T.launch_thread("threadIdx.x", 4)
        X = T.decl_buffer((4,), "float32", scope="shared.dyn")
        Y = T.decl_buffer((4,), "float32", scope="shared{}")
        A = T.Buffer((4,), data=data)
        X[t] = T.float32(0)
        Y[t] = X[t]
        A[t] = Y[t]
"""


def test_dynamic_shared_memory_of_a_kernel_is_one_allocation():
    made = tt.LowerDeviceKernelLaunch()(from_source(KERNEL.replace("shared{}", "shared")))
    assert 'T.call_packed("kernel", A.data, 4, 16)' in made["main"].script()
    with pytest.raises(ValueError, match="one allocation of dynamic shared memory\n  got: Y"):
        tt.LowerDeviceKernelLaunch()(from_source(KERNEL.replace("shared{}", "shared.dyn")))


@pytest.mark.no_roundtrip  # the name of the kernel is not that of a function in the module
def test_calls_of_other_modules_stay():
    mod = from_source(KERNEL.replace("shared{}", "shared"))
    mod = IRModule({"main": mod["main"]})
    assert tt.LowerDeviceKernelLaunch()(mod)["main"].script() == mod["main"].script()


def test_functions_of_relax_stay():
    mod = from_source("""
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        return x
""")
    assert tt.SplitHostDevice()(mod)["main"] is mod["main"]


def test_blocks_with_threads_keep_them():
    func = prim_func(
        "A: T.Buffer((8, 6)), B: T.Buffer((8, 6)), C: T.Buffer((8, 6))",
        nest("B", "B[vi, vj] = A[vi, vj]", i=8, j=6),
        nest("C", "C[vi, vj] = B[vi, vj]", i=8, j=6),
    )
    sch = tir.Schedule(func)
    sch.bind(sch.get_loops("B")[1], "threadIdx.y")
    with Target("cuda"):
        after = tt.DefaultGPUSchedule()(sch.mod)["main"].script()
    assert after.count("threadIdx.y") == 1 == after.count("threadIdx.x")


def test_other_code_generators_for_one_device():
    text = """
@I.ir_module
class Module:
    @T.prim_func
    def main(A: T.Buffer((4,), "float32")):
        T.func_attr({"target": T.target("llvm")})
        Module.kernel(A.data)

    @T.prim_func(private=True)
    def kernel(data: T.handle("float32")):
        T.func_attr({"target": T.target("c")})
        A = T.Buffer((4,), data=data)
        A[0] = T.float32(0)
"""
    made = tt.LowerDeviceKernelLaunch()(from_source(text))
    assert 'T.call_extern("void", "kernel", A.data)' in made["main"].script()
    attrs = made["kernel"].attrs
    assert "calling_conv" not in attrs and attrs["tir.is_global_func"]


def test_conditions_on_threads_are_hoisted_if_asked() -> None:
    func = from_source("""
@T.prim_func
def main(A: T.Buffer((32,), "float32"), n: T.int32):
    tx = T.launch_thread("threadIdx.x", 32)
    for i in range(n):
        for j in range(n):
            if n < 4:
                if tx < 3:
                    A[tx] = A[tx] + T.float32(1)
""")
    asked = {"tir.HoistIfThenElse": {"support_block_scope_hoisting": True}}
    for config, outside in (({}, ["n < 4"]), (asked, ["n < 4", "threadIdx_x < 3"])):
        with PassContext(config=config):
            made = tt.HoistIfThenElse()(IRModule({"main": func}))["main"]
        lines = [line.strip() for line in made.script().splitlines()]
        loop = next(n for n, line in enumerate(lines) if line.startswith("for "))
        before = [line for line in lines[:loop] if line.startswith("if ")]
        assert len(before) == len(outside)


PROFILED = """
@T.prim_func
def main(A: T.Buffer((4, 8), "float32")):
    for i in range(4):
        for j, k in T.grid(8, 1):
            A[i, j] = T.float32(0)
        for j in T.parallel(8):
            for k in range(2):
                A[i, j] = A[i, j] + T.float32(1)
"""


@pytest.mark.parametrize(
    ("options", "numbers"),
    [
        ({}, [0, 2, 4]),
        ({"tir.lwp_disable_func_prof": True}, [2, 4]),
        ({"tir.instr_siblings": False}, [0, 1, 2, 4]),
        ({"tir.instr_siblings": False, "tir.lwp_max_depth": 1}, [0, 1]),
        ({"tir.instr_siblings": False, "tir.lwp_min_height": 0}, [0, 1, 2, 3, 4]),
        ({"tir.lwp_min_height": 2}, [0]),
    ],
)
def test_calls_of_a_profiler(options: dict[str, object], numbers: list[int]) -> None:
    mod = IRModule({"one": from_source(PROFILED), "two": from_source(PROFILED)})
    for again in (False, True):
        with PassContext(config={**options, "tir.reset_start_id": again}):
            made = tt.InstrumentProfileIntrinsics()(mod)
        for name, first in (("one", 0), ("two", 0 if again else 6)):
            text = made[name].script()
            for call in ("start", "end"):
                found = re.findall(rf"T.{call}_profile_intrinsic\((\d+)\)", text)
                assert sorted(map(int, found)) == [first + n for n in numbers]


@pytest.mark.parametrize("target", ["llvm", "c"])
def test_calls_of_a_profiler_are_nothing_on_a_cpu(target: str) -> None:
    data = np.ones((4, 8), "float32")
    with PassContext(config={"tir.instrument_lwp": True}):
        lw.compile(from_source(PROFILED), target=target)["main"](data)
    np.testing.assert_array_equal(data, np.full((4, 8), 2, "float32"))
