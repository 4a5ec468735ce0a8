"""Programs of the virtual machine made from graphs: step by step, exported, watched."""

from __future__ import annotations

import numpy as np
import pytest

import loopwright as lw
from benchmarks.machine_steps import Model as Loops
from benchmarks.machine_steps import steps
from loopwright import relax, runtime
from loopwright.driver import vm_build
from loopwright.ir.structural import assert_structural_equal
from loopwright.runtime.packed_func import register_func, remove_global_func
from loopwright.runtime.vm import VMInstrumentReturnKind, load, save
from loopwright.script import ir as I
from loopwright.script import relax as R
from loopwright.script import tir as T

MODES = ["bytecode", "compiled"]


@I.ir_module
class Written:
    @R.function
    def main(x: R.Tensor((3,), "float32"), y: R.Tensor((3,), "float32")):
        _ = R.call_pure_packed("test.build.write", x, y, sinfo_args=R.Tensor((3,), "float32"))
        return y


@pytest.mark.parametrize("mode", MODES)
def test_a_packed_function_that_writes_stays_though_its_result_is_unused(mode):
    register_func("test.build.write", lambda x, y: y.copyfrom(x))
    try:
        x, y = runtime.tensor(np.ones(3, "float32")), runtime.tensor(np.zeros(3, "float32"))
        relax.VirtualMachine(relax.build(Written, exec_mode=mode), lw.cpu())["main"](x, y)
        assert y.numpy().tolist() == [1, 1, 1]
    finally:
        remove_global_func("test.build.write")
    asked = relax.transform.DeadCodeElimination()(Written)
    assert "call_pure_packed" in Written.script() and "call_pure_packed" not in asked.script()


@pytest.fixture(autouse=True)
def sums():
    register_func("test.build.sum", lambda a, b: runtime.tensor(a.numpy() + b.numpy()))
    yield
    remove_global_func("test.build.sum")


@I.ir_module
class Branch:
    @T.prim_func
    def double(A: T.Buffer((3,), "float32"), B: T.Buffer((3,), "float32")):
        T.func_attr({"global_symbol": "double"})
        for i in range(3):
            with T.block("double"):
                vi = T.axis.spatial(3, i)
                B[vi] = A[vi] * T.float32(2)

    @R.function(pure=False)
    def main(c: R.Tensor((), "bool"), x: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
        R.func_attr({"global_symbol": "main"})
        storage = R.vm.alloc_storage(R.shape([12]), R.prim_value(0), R.dtype("uint8"))
        y = R.vm.alloc_tensor(storage, R.prim_value(0), R.shape([3]), R.dtype("float32"))
        _ = Branch.double(x, y)
        if c:
            r = R.call_packed("test.build.sum", x, y, sinfo_args=R.Tensor((3,), "float32"))
        else:
            r = y
        return r


def built(mod, mode):
    builder = relax.ExecBuilder()
    return vm_build._vmlink(builder, "llvm", vm_build._vmcodegen(builder, mod, mode))


@pytest.mark.parametrize("mode", MODES)
def test_graphs_become_programs(mode, tmp_path):
    program = built(Branch, mode)
    vm = relax.VirtualMachine(program, lw.cpu())
    x = np.ones(3, "float32")
    for c, want in ((True, 3), (False, 2)):
        np.testing.assert_array_equal(vm["main"](np.array(c), x).numpy(), np.full(3, want))
    assert ("vm_tir_func" in program.as_text()) == (mode == "compiled")
    save(program, tmp_path / "branch.vm")
    again = load(tmp_path / "branch.vm")
    again.natives.update(program.natives)
    got = relax.VirtualMachine(again)["main"](np.array(True), x)
    np.testing.assert_array_equal(got.numpy(), [3, 3, 3])
    with pytest.raises(ValueError, match="unknown exec_mode\n  got: fast"):
        built(Branch, "fast")


def test_compiled_functions_as_tir():
    @I.ir_module
    class Module:
        @R.function(pure=False)
        def main(c: R.Tensor((), "bool"), x: R.Tensor) -> R.Tensor:
            R.func_attr({"global_symbol": "main"})
            if c:
                r = R.call_packed("test.build.sum", x, R.const([1, 2]), sinfo_args=R.Tensor)
            else:
                r = x
            return r

    @T.prim_func
    def expected(ctx_ptr: T.handle, r: T.handle, c: T.handle, f: T.handle):
        T.func_attr({"global_symbol": "__vmtir__main"})
        if T.Call("bool", "tir.call_packed", ["vm.builtin.read_if_cond", T.anylist_getitem(r, 0)]):
            T.anylist_setitem_call_packed(
                r, 4, "test.build.sum", T.anylist_getitem(r, 1), T.anylist_getitem(c, 0)
            )
            T.anylist_setitem_call_packed(r, 3, "vm.builtin.copy", T.anylist_getitem(r, 4))
        else:
            T.anylist_setitem_call_packed(r, 3, "vm.builtin.copy", T.anylist_getitem(r, 1))
        T.anylist_setitem_call_packed(r, 2, "vm.builtin.copy", T.anylist_getitem(r, 3))

    rest = vm_build._vmcodegen(relax.ExecBuilder(), Module, "compiled")
    assert_structural_equal(rest["__vmtir__main"], expected)


def test_a_library_has_the_program_too(tmp_path):
    exe = lw.compile(Loops)
    exe.export_library(tmp_path / "loops.so")
    with pytest.raises(lw.LoopwrightError, match="only native functions"):
        exe.export_library(tmp_path / "loops.a")
    library = runtime.load_module(tmp_path / "loops.so")
    x = np.array([0, 2, 0, -3], "float32")
    feeds = (np.array(True), np.array(4), x)
    np.testing.assert_array_equal(library["main"](*feeds).numpy(), [2, 7])
    np.testing.assert_array_equal(exe["main"](*feeds).numpy(), [2, 7])
    assert exe.function_names() == ["main"]
    vm = relax.VirtualMachine(library, lw.cpu())
    vm.set_input("main", *feeds)
    vm.invoke_stateful("main")
    assert vm.get_outputs("main").shape == (2,)
    assert "relax.run.nonzero" in str(vm.profile("main"))


def test_nested_results_of_libraries(tmp_path):
    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor((2,), "float32")):
            y = R.exp(x)
            return ((y, (x,)), R.add(x, x))

    exe = lw.compile(Module)
    exe.export_library(tmp_path / "nested.so")
    for run in (exe["main"], runtime.load_module(tmp_path / "nested.so")["main"]):
        (a, (b,)), c = run(np.ones(2, "float32"))
        assert [t.numpy()[0] for t in (b, c)] == [1, 2] and abs(a.numpy()[0] - np.e) < 1e-6


def test_a_tuple_of_one_result_is_a_tuple(tmp_path):
    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor((2,), "float32")):
            return (R.add(x, x),)

    exe = lw.compile(Module)
    exe.export_library(tmp_path / "one.so")
    x, out = np.ones(2, "float32"), np.zeros(2, "float32")
    for run in (exe["main"], exe, runtime.load_module(tmp_path / "one.so")["main"]):
        (got,) = run(x)
        np.testing.assert_array_equal(got.numpy(), [2, 2])
    exe["main"](x, out=[out])
    np.testing.assert_array_equal(out, [2, 2])
    assert list(exe.run([x])) == ["out"]


def test_compiled_programs_are_watched():
    exe = lw.compile(Loops)
    vm, seen = relax.VirtualMachine(exe, lw.cpu()), []

    def watch(function, name, before, result, *args):
        seen.append((name, before))
        return VMInstrumentReturnKind.NO_OP

    vm.set_instrument(watch)
    vm["main"](np.array(False), np.array(2), np.ones(3, "float32"))
    assert [n for n, before in seen if before].count("relax.run.nonzero") == 1
    assert sum(n.startswith("loop_part") and before for n, before in seen) == 5
    native = lw.compile(lw.IRModule({"_plain": _plain}))
    with pytest.raises(lw.LoopwrightError, match="without calls that an instrument could observe"):
        relax.VirtualMachine(native).set_instrument(watch)


@R.function
def _plain(x: R.Tensor((2,), "float32")):
    return R.exp(x)


def test_steps_are_measured():
    times = steps(size=6, turns=3)
    assert len(times["loop_part1"]) == 20 * 3 and min(map(min, times.values())) >= 0
