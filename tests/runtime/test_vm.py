"""The virtual machine's programs: built by hand, run, and what goes wrong in them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import loopwright.testing.vm
from loopwright.base.errors import LoopwrightError
from loopwright.runtime import (
    ShapeTuple,
    VirtualMachine,
    cpu,
    cuda,
    get_global_func,
    load_module,
    register_func,
)
from loopwright.runtime.packed_func import remove_global_func
from loopwright.runtime.tensor import Tensor, tensor
from loopwright.runtime.vm import ExecBuilder, VMExecutable, VMFuncKind, VMInstrumentReturnKind
from loopwright.runtime.vm.bytecode import Ret
from loopwright.runtime.vm.saved import from_bytes, to_bytes
from loopwright.testing.vm import check_saved_func


def ramp(*shape: int) -> Tensor:
    return tensor(np.arange(np.prod(shape), dtype="float32").reshape(shape) + 1)


def machine(ib: ExecBuilder) -> VirtualMachine:
    return VirtualMachine(ib.get(), cpu())


def test_a_program_is_a_library(tmp_path: Path) -> None:
    program = power().get()
    loaded = load_module(program.export_library(tmp_path / "power.so"))
    assert loaded["as_text"]() == program.as_text()
    result = loaded["power"](ramp(2), 3)
    np.testing.assert_array_equal(result.numpy(), ramp(2).numpy() ** 3)


def power() -> ExecBuilder:
    """x to the power of n, by a jump back."""
    ib = ExecBuilder()
    with ib.function("power", 2, ["x", "n"]):
        ib.emit_call("vm.builtin.copy", [ib.r(0)], ib.r(2))
        ib.emit_call("test.vm.add_scalar", [ib.r(1), ib.imm(-1)], ib.r(1))
        ib.emit_if(ib.r(1), 3)
        ib.emit_call("test.vm.mul", [ib.r(2), ib.r(0)], ib.r(2))
        ib.emit_goto(-3)
        ib.emit_ret(ib.r(2))
    return ib


def test_jumps_lead_forward_and_back():
    vm = machine(power())
    for n in (1, 2, 5):
        np.testing.assert_array_equal(vm["power"](ramp(3), n).numpy(), ramp(3).numpy() ** n)
    check_saved_func(vm, "power", ramp(3), 3)


def test_a_program_says_what_it_is():
    program = power().get()
    assert program.as_text() == (
        "@power:\n"
        "  call  vm.builtin.copy  in: %0           dst: %2\n"
        "  call  test.vm.add_scalar in: %1, i-1      dst: %1\n"
        "  if    %1, 3\n"
        "  call  test.vm.mul      in: %2, %0       dst: %2\n"
        "  goto  -3\n"
        "  ret   %2\n"
    )
    made = ExecBuilder()
    text = program.as_python().replace("rx.Builder()", "made")
    exec(text, {"made": made})
    assert made.get().as_text() == program.as_text()
    assert "Globals (#1): [power]" in program.stats()
    assert program.function_names() == ["power"] and program.input_names("power") == ["x", "n"]


def test_registers_are_numbered_without_gaps():
    def program(first: int, second: int) -> VMExecutable:
        ib = ExecBuilder()
        with ib.function("f", num_inputs=1):
            ib.emit_call("test.vm.add", [ib.r(0), ib.r(0)], ib.r(first))
            ib.emit_call("test.vm.mul", [ib.r(0), ib.r(first)], ib.r(second))
            ib.emit_ret(ib.r(second))
        return ib.get()

    assert program(90, 40).as_text() == program(1, 2).as_text()


def test_equal_constants_are_kept_once():
    ib = ExecBuilder()
    with ib.function("f"):
        values = ["a", "a", ShapeTuple([1]), ShapeTuple([1]), ramp(2), ramp(2), ramp(3)]
        operands = [ib.convert_constant(v) for v in values]
        ib.emit_call("vm.builtin.make_tuple", [operands[4], (2, 3), "float32"], ib.r(0))
        ib.emit_ret(ib.r(0))
    assert [o.value for o in operands] == [0, 0, 1, 1, 2, 2, 3]
    first, shape, dtype = machine(ib)["f"]()
    np.testing.assert_array_equal(first.numpy(), [1, 2])
    assert shape == (2, 3) and dtype == "float32"


def test_mistakes_in_programs_are_named():
    ib = ExecBuilder()
    with pytest.raises(LoopwrightError, match="an instruction outside of a function"):
        ib.emit_ret(ib.r(0))
    with ib.function("unset", 1):
        ib.emit_call("test.vm.add", [ib.r(0), ib.r(1)], ib.r(1))
    with pytest.raises(LoopwrightError, match="unset: instruction 0 reads a register"):
        ib.get()
    ib = ExecBuilder()
    with ib.function("far"):
        ib.emit_goto(2)
    with pytest.raises(LoopwrightError, match="far: instruction 0 jumps out"):
        ib.get()
    with pytest.raises(ValueError, match="there already"), ib.function("far"):
        pass
    with pytest.raises(ValueError, match="takes 2 inputs"), ib.function("g", 2, ["x"]):
        pass
    for offset in (-2, 1):
        ib = ExecBuilder()
        with ib.function("far", 1):
            ib.emit_ret(ib.r(0))
            ib.emit_goto(offset)
        with pytest.raises(LoopwrightError, match="far: instruction 1 jumps out"):
            ib.get()
    ib = ExecBuilder()
    with ib.function("last", 1):
        ib.emit_call("vm.builtin.copy", [ib.r(0)], ib.r(1))
        ib.emit_if(ib.r(1), -1)  # where the condition holds, nothing follows
    with pytest.raises(LoopwrightError, match="last: instruction 1 jumps out"):
        ib.get()
    ib = ExecBuilder()
    with ib.function("end", 1):
        ib.emit_if(ib.r(0), 1)
        ib.emit_ret(ib.r(0))
    assert machine(ib)["end"](3) == 3


def test_mistakes_in_calls_are_named():
    vm = machine(power())
    with pytest.raises(TypeError, match=r"power takes 2 arguments \(x, n\)\n  got: 1"):
        vm["power"](ramp(3))
    with pytest.raises(KeyError, match="one of: power"):
        vm["root"]
    ib = ExecBuilder()
    with ib.function("f"):
        ib.location = "here.py:3"
        ib.emit_call("test.vm.unknown", [], ib.r(0))
        ib.emit_ret(ib.r(0))
    vm = machine(ib)
    with pytest.raises(ValueError, match="cannot find global function") as error:
        vm["f"]()
    assert error.value.__notes__ == ["while running f (here.py:3)"]
    register_func("test.vm.unknown", lambda: 7)  # looked up when it is called
    try:
        assert vm["f"]() == 7
    finally:
        remove_global_func("test.vm.unknown")


def test_closures_take_what_they_captured_last():
    ib = ExecBuilder()
    with ib.function("inner", 2):
        ib.emit_call("vm.builtin.make_tuple", [ib.r(0), ib.r(1)], ib.r(2))
        ib.emit_ret(ib.r(2))
    with ib.function("make", 1):
        ib.emit_call("vm.builtin.make_closure", [ib.vm_state(), ib.f("inner"), ib.r(0)], ib.r(1))
        ib.emit_ret(ib.r(1))
    with ib.function("call", 2):
        args = [ib.vm_state(), ib.r(0), ib.r(1)]
        ib.emit_call("vm.builtin.invoke_closure", args, ib.r(2))
        ib.emit_ret(ib.r(2))
    vm = machine(ib)
    closure = vm["make"](5)
    assert vm.invoke_closure(closure, 3) == [3, 5] == closure(3)
    assert vm["call"](closure, 4) == [4, 5]
    assert vm["call"](lambda x: x + 1, 4) == 5  # a user's function
    with pytest.raises(TypeError, match="expected a function"):
        vm["call"](3, 4)


def test_recursion_that_has_no_end_is_an_error():
    ib = ExecBuilder()
    with ib.function("f", 1):
        ib.emit_call("f", [ib.r(0)], ib.r(1))
        ib.emit_ret(ib.r(1))
    with pytest.raises(RecursionError, match="f calls itself too often"):
        machine(ib)["f"](1)


def test_tensors_that_come_back_are_those_that_went_in():
    ib = ExecBuilder()
    with ib.function("swap", 2):
        ib.emit_call("vm.builtin.make_tuple", [ib.r(1), ib.r(0)], ib.r(2))
        ib.emit_ret(ib.r(2))
    vm, x, y = machine(ib), ramp(2), ramp(3)
    a, b = vm["swap"](x, y)
    assert a is y and b is x
    vm.set_input("swap", y, x)
    vm.invoke_stateful("swap")
    assert vm.get_outputs("swap")[0] is x


def test_storage():
    ib = ExecBuilder()
    with ib.function("f"):
        args = [ib.vm_state(), (24,), ib.imm(0), "float32", "global"]
        ib.emit_call("vm.builtin.alloc_storage", args, ib.r(0))
        place = [ib.r(0), ib.imm(8), (2, 5), "float32"]
        ib.emit_call("vm.builtin.alloc_tensor", place, ib.r(1))
        ib.emit_ret(ib.r(1))
    got = machine(ib)["f"]()
    assert got.shape == (2, 5) and got.dtype == "float32" and got.data_ptr() % 64 == 8
    alloc = get_global_func("vm.builtin.alloc_tensor")
    storage = get_global_func("vm.builtin.alloc_storage")(None, ShapeTuple([3]), 0, "float32")
    with pytest.raises(ValueError, match="does not fit"):
        alloc(storage, 0, ShapeTuple([4]), "float32")


def test_instruments_see_calls_and_leave_them_out():
    ib = ExecBuilder()
    with ib.function("f", 1):
        ib.emit_call("test.vm.add", [ib.r(0), ib.r(0)], ib.r(1))
        ib.emit_call("test.vm.mul", [ib.r(1), ib.r(1)], ib.r(2))
        ib.emit_call("vm.builtin.make_tuple", [ib.r(1), ib.r(2)], ib.r(3))
        ib.emit_ret(ib.r(3))
    vm, seen = machine(ib), []

    def watch(function, name, before, result, *args):
        assert callable(function) and (result is None or not before)
        seen.append((name, before, len(args)))
        return VMInstrumentReturnKind.SKIP_RUN if name == "test.vm.mul" else None

    vm.set_instrument(watch)
    first, second = vm["f"](ramp(2))
    assert seen == [("test.vm.add", True, 2), ("test.vm.add", False, 2), ("test.vm.mul", True, 2)]
    np.testing.assert_array_equal(first.numpy(), [2, 4])
    assert second is None
    vm.set_instrument(None)
    profile = vm.profile("f", ramp(2))
    assert {"test.vm.add", "test.vm.mul"} <= {row.name for row in profile}


def test_kinds_of_functions():
    ib = ExecBuilder()
    ib.declare_function("test.vm.add", VMFuncKind.PACKED_FUNC)
    with ib.function("f", 2):
        ib.emit_call("test.vm.add", [ib.r(0), ib.r(1)], ib.r(2))
        ib.emit_ret(ib.r(2))
    kinds = {f.name: f.kind for f in ib.get().functions}
    assert kinds == {"test.vm.add": VMFuncKind.PACKED_FUNC, "f": VMFuncKind.VM_FUNC}
    assert loopwright.testing.vm.add(ramp(1), ramp(1)).numpy() == 2


HEAP = [5, 0, 7]


@pytest.mark.parametrize(
    ("name", "args", "expected"),
    [
        ("make_shape", (2, 0, 4, 1, 2), (4, 7)),
        ("make_prim_value", (1, 0), 5),
        ("make_prim_value", (0, 9), 9),
    ],
)
def test_numbers_from_the_shape_heap(name, args, expected):
    assert get_global_func(f"vm.builtin.{name}")(tensor(np.array(HEAP)), *args) == expected


def test_what_to_do_with_the_heap_may_be_in_registers():
    ib = ExecBuilder()
    with ib.function("f", 4, ["x", "store", "load", "call"]):
        x, store, load, call, heap, made = map(ib.r, range(6))
        numbers = [ib.imm(n) for n in range(4)]
        ib.emit_call("vm.builtin.alloc_shape_heap", [ib.vm_state(), numbers[3]], heap)
        for first, second in ((store, 2), (numbers[2], 1)):  # 1 stores an extent, 2 ignores it
            rest = [first, numbers[0], numbers[second], numbers[1], "here"]
            ib.emit_call("vm.builtin.match_shape", [x, heap, numbers[2], *rest], ib.void_arg())
        rest = [store, numbers[2], "here"]
        ib.emit_call("vm.builtin.match_prim_value", [ib.imm(9), heap, *rest], ib.void_arg())
        args = [load, numbers[0], load, numbers[1], load, numbers[2], numbers[0], ib.imm(7)]
        ib.emit_call("vm.builtin.make_shape", [heap, ib.imm(4), *args], made)
        ib.emit_call("vm.builtin.call_tir_dyn", [ib.vm_state(), call, x, made], made)
        ib.emit_ret(made)
    run = machine(ib)["f"]
    assert list(run(ramp(4, 3), 1, 1, lambda x, *rest: list(rest))) == [4, 3, 9, 7]
    with pytest.raises(ValueError, match="here .*2"):
        run(ramp(4), 1, 1, len)


def test_shapes_are_matched_with_the_heap():
    match = get_global_func("vm.builtin.match_shape")
    heap = tensor(np.array(HEAP))
    match(ramp(1, 2, 7), heap, 3, 0, 1, 1, 1, 3, 2, "")
    assert heap.numpy().tolist() == [5, 2, 7]
    match(ShapeTuple([9, 2]), heap, 2, 2, 0, 3, 1, "")
    with pytest.raises(ValueError, match=r"in f dimension 0 must be 5\n  got: 3"):
        match(ShapeTuple([3]), heap, 1, 3, 0, "in f")
    with pytest.raises(RuntimeError, match="must have ndim 2"):
        match(ShapeTuple([3]), heap, 2, 0, 3, 0, 3, "in f")
    one = get_global_func("vm.builtin.match_prim_value")
    one(4, heap, 1, 0, "")
    assert heap.numpy()[0] == 4
    with pytest.raises(ValueError, match="the value must be 4"):
        one(5, heap, 3, 0, "")


@pytest.mark.parametrize(
    ("name", "good", "bad", "error"),
    [
        ("tensor", (ramp(2, 3), 2, "float32", ""), (ramp(2), 2, "float32", "at"), "at .*ndim 2"),
        ("tensor", (ramp(2, 3), -1, ""), (ramp(2), 1, "int32", "at"), "at .*dtype int32"),
        ("tensor", (ramp(2), 1, "", ""), ([], 1, "at "), "at expected a tensor"),
        ("shape", (ShapeTuple([2]), 1, ""), (ShapeTuple([2]), 2, ""), "ndim 2"),
        ("shape", (ShapeTuple([2]), -1, ""), ([], 2, ""), "expected a shape"),
        ("tuple", ([ramp(1), 2], 2, ""), ([ramp(1)], 2, ""), "2 elements"),
        ("tuple", ([], 0, ""), (ramp(1), 2, ""), "expected a tuple"),
        ("func", (len, ""), (3, "at "), "at expected a function"),
        ("prim_value", (3, "int64", ""), (2.5, "int64", ""), "a number of int64"),
        ("prim_value", (2.5, "float32", ""), ("x", "float32", ""), "a number of float32"),
    ],
)
def test_checks(name, good, bad, error):
    check = get_global_func(f"vm.builtin.check_{name}_info")
    check(*good)
    with pytest.raises((ValueError, TypeError), match=error):
        check(*bad)


def test_views_and_conversions():
    call = {n: get_global_func(f"vm.builtin.{n}") for n in ("reshape", "tensor_to_shape", "copy")}
    x = ramp(2, 3)
    view = call["reshape"](x, ShapeTuple([3, 2]))
    view[0, 0] = 9
    assert x.numpy()[0, 0] == 9 and call["copy"](x) is x
    with pytest.raises(ValueError, match="6 elements cannot be reshaped"):
        call["reshape"](x, ShapeTuple([4]))
    assert call["tensor_to_shape"](tensor(np.array([2, 5]))) == (2, 5)
    part = get_global_func("runtime.TVMArrayCreateView")(x, ShapeTuple([2]), "float32", 4)
    np.testing.assert_array_equal(part.numpy(), [2, 3])
    for cond, held in ((tensor(np.array(True)), True), (tensor(np.array(0)), False), (1, True)):
        assert get_global_func("vm.builtin.read_if_cond")(cond) is held


def test_caches_grow_and_turn():
    call = {
        n: get_global_func(f"vm.builtin.attention_kv_cache_{n}")
        for n in ("create", "append", "view", "window_override", "window_override_with_sinks")
    }

    def row(*numbers: int) -> Tensor:
        return tensor(np.array(numbers, "int32").reshape(-1, 1))

    cache = call["create"](row(0), ShapeTuple([1, 1]), 0)
    for k in range(3):
        cache = call["append"](cache, row(k))
    assert call["view"](cache, ShapeTuple([3, 1])).numpy().ravel().tolist() == [0, 1, 2]
    cache = call["create"](row(0), ShapeTuple([4, 1]), 0)
    for k in range(1, 7):
        cache = call["window_override"](cache, row(k), 4)
    assert call["view"](cache, ShapeTuple([4, 1])).numpy().ravel().tolist() == [5, 6, 3, 4]
    cache = call["create"](row(0), ShapeTuple([4, 1]), 0)
    for k in range(1, 7):
        cache = call["window_override_with_sinks"](cache, row(k), 4, 1)
    assert call["view"](cache, ShapeTuple([4, 1])).numpy().ravel().tolist() == [1, 5, 6, 4]


def test_samples_are_drawn_by_sums_of_probabilities():
    draw = get_global_func("vm.builtin.multinomial_from_uniform")
    prob = tensor(np.array([[0.5, 0.25, 0.25]] * 3, "float32"))
    got = draw(prob, tensor(np.array([[0.0], [0.6], [1.0]], "float32")))
    assert got.dtype == "int64" and got.numpy().ravel().tolist() == [0, 1, 2]


def test_programs_are_written_and_read():
    ib = power()
    with ib.function("rest"):
        values = [ramp(2, 3), tensor(np.array([1, -2], "int8"), dtype="int4"), (4, 5), "text", 2.5]
        ib.emit_call("vm.builtin.make_tuple", values, ib.r(0))
        ib.emit_ret(ib.r(0))
    program = ib.get()
    again = from_bytes(to_bytes(program))
    assert again.as_text() == program.as_text() and again.stats() == program.stats()
    vm = VirtualMachine(again, cpu())
    np.testing.assert_array_equal(vm["power"](ramp(2), 3).numpy(), ramp(2).numpy() ** 3)
    first, packed, *plain = vm["rest"]()
    np.testing.assert_array_equal(first.numpy(), ramp(2, 3).numpy())
    assert packed.dtype == "int4" and packed.numpy().tolist() == [1, -2]
    assert plain == [(4, 5), "text", 2.5]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (b"loopwright vm", b"something els", "does not begin"),
        (b'["ret", 2]', b'["ret", 9]', "reads a register that was not set"),
        (b'["goto", -3]', b'["goto", -9]', "jumps out"),
        (b'["goto", -3]', b'["goto","f"]', "where a number is needed"),
        (b'["r", 2]', b'["c", 2]', "which is not there"),
        (b'["r", 2]', b'["x", 2]', "operand of kind x"),
        (b'"functions"', b'"funktions"', "functions"),
    ],
)
def test_programs_of_strangers_are_checked(old, new, message):
    content = to_bytes(power().get())
    assert old in content
    with pytest.raises(ValueError, match=f"not a program of the virtual machine(?s:.)*{message}"):
        from_bytes(content.replace(old, new))
    for end in range(0, len(content), 7):
        with pytest.raises(ValueError, match="not a program of the virtual machine"):
            from_bytes(content[:end])


def test_where_an_error_comes_from():
    """The notes name the innermost calls, four at most, and each one's instruction."""
    ib = ExecBuilder()
    for depth in range(6):
        with ib.function(f"f{depth}", 1):
            ib.location = f"here.py:{depth}"
            ib.emit_call("vm.builtin.make_tuple", [ib.r(0)], ib.r(1))
            ib.emit_if(ib.r(0), 3)
            ib.location = "" if depth == 4 else f"there.py:{depth}"
            callee = f"f{depth + 1}" if depth < 5 else "vm.builtin.check_func_info"
            ib.emit_call(callee, [ib.r(0)])
            ib.location = "behind.py"
            ib.emit_ret(ib.r(1))
            ib.emit_ret(ib.r(0))
    vm = machine(ib)
    assert vm["f0"](0) == 0
    with pytest.raises(TypeError, match="expected a function") as error:
        vm["f0"](1)
    calls = ["f5 (there.py:5)", "f4", "f3 (there.py:3)", "f2 (there.py:2)"]
    assert error.value.__notes__ == [f"while running {call}" for call in calls]
    program = ib.get()
    for func in program.functions:
        func.locations = func.locations[:2]
    with pytest.raises(TypeError) as error:
        VirtualMachine(program, cpu())["f5"](1)
    assert error.value.__notes__ == ["while running f5"]


def test_results_that_are_dropped_and_functions_that_return_none():
    ib, seen = ExecBuilder(), []
    register_func("test.vm.see", lambda *args: seen.append(args))
    with ib.function("f", 1):
        ib.emit_call("test.vm.see", [ib.r(0), ib.imm(-2), "text", True], ib.void_arg())
        ib.emit_call("test.vm.see", [ib.convert_constant(ShapeTuple([3]))])
    program = ib.get()
    try:
        assert VirtualMachine(program, cpu())["f"](5) is None
    finally:
        remove_global_func("test.vm.see")
    assert seen == [(5, -2, "text", True), ((3,),)]
    assert "in: c[2]         dst: %void" in program.as_text()
    assert program.functions[0].registers == 1


def test_conditions_are_read_again():
    """A register that held a bool holds a tensor later."""
    ib = ExecBuilder()
    with ib.function("f", 2):
        ib.emit_call("vm.builtin.read_bool", [ib.r(0)], ib.r(2))
        ib.emit_call("vm.builtin.copy", [ib.r(1)], ib.r(2))
        ib.emit_if(ib.r(2), 2)
        ib.emit_ret(ib.r(0))
        ib.emit_ret(ib.r(1))
    yes, no = (tensor(np.array(b)) for b in (True, False))
    vm = machine(ib)
    assert vm["f"](yes, no) is no and vm["f"](no, yes) is no
    assert vm["f"](yes, tensor(np.array([0]))).numpy() == [0]
    with pytest.raises(ValueError, match="a tensor of one number"):
        vm["f"](yes, ramp(2))


@pytest.mark.parametrize(("size", "constants"), [(1 << 16, 1), ((1 << 16) + 1, 2)])
def test_large_constants_are_not_compared(size, constants):
    ib = ExecBuilder()
    same = tensor(np.zeros(size, "int8"))
    operands = [ib.convert_constant(t) for t in (same, tensor(np.zeros(size, "int8")), same)]
    assert [o.value for o in operands] == [0, constants - 1, 0]


def test_what_builders_take():
    ib = ExecBuilder()
    kinds = [ib.convert_constant(v) for v in (np.float32(2), np.ones(2), [1, 2], None, 2.5, True)]
    assert [str(type(ib.constants[k.value]).__name__) for k in kinds] == [
        *("Tensor", "Tensor", "ShapeTuple", "NoneType", "float", "bool")
    ]
    assert ib.convert_constant(ib.c(3)) == ib.c(3)
    assert ib.declare_function("f").kind == VMFuncKind.PACKED_FUNC
    with ib.function("f", None, ["x"], VMFuncKind.VM_TIR_FUNC):
        assert (ib.emit(Ret(0)), ib.emit(Ret(0))) == (0, 1)
    assert ib.declare_function("f").kind == VMFuncKind.VM_TIR_FUNC
    program = ib.get()
    assert program.as_text() == "@f num_inputs=1 vm_tir_func;\n"
    assert "Constant shapes (# 6): [scalar, [2], (1, 2), None, 2.5, True]" in program.stats()
    assert "Packed functions (#0): []" in program.stats()


def test_inputs_one_by_one():
    vm = machine(power())
    x = ramp(2)
    with pytest.raises(ValueError, match="no inputs were set for power"):
        vm.invoke_stateful("power")
    vm.set_one_input("power", n=3)
    with pytest.raises(ValueError, match="not all inputs were set for power\n  got: without x"):
        vm.invoke_stateful("power")
    with pytest.raises(ValueError, match="power has not been invoked"):
        vm.get_outputs("power")
    vm.set_one_input("power", 0, x)
    vm.invoke_stateful("power")
    for got in (vm.get_outputs("power"), vm.get_outputs()[0], vm.invoke("power")):
        np.testing.assert_array_equal(got.numpy(), x.numpy() ** 3)
    with pytest.raises(RuntimeError, match="the inputs of power were set with set_input"):
        vm["power"]()
    assert vm["power"](x, 1).numpy().tolist() == x.numpy().tolist()
    for wrong in ((("x", x), {"n": 2}), ((), {}), ((), {"x": x, "n": 2}), (("x",), {})):
        with pytest.raises(ValueError, match="one input is set"):
            vm.set_one_input("power", *wrong[0], **wrong[1])
    for key in ("y", 2, -1):
        with pytest.raises(ValueError, match="power takes x, n"):
            vm.set_one_input("power", key, x)
    assert [vm.get_input_index(n, "power") for n in "xny"] == [0, 1, -1]
    for args, named, got in (
        ((x,), {}, r"takes 2 arguments \(x, n\)\n  got: 1"),
        ((x,), {"y": 2}, "takes x, n\n  got: y"),
        ((), {"x": x}, "takes x, n\n  got: missing n"),
        ((x,), {"x": x, "n": 2}, "takes x, n\n  got: x"),
    ):
        with pytest.raises((ValueError, TypeError), match=got):
            vm.set_input("power", *args, **named) if named else vm["power"](*args)
    assert vm.invoke("power", x, n=2).numpy().tolist() == [1, 4]
    out = ramp(2)
    vm.invoke_with_outputs("power", {"x": x, "n": 2}, [out])
    assert out.numpy().tolist() == [1, 4]
    with pytest.raises(ValueError, match="power has 1 results\n  got: 2 tensors for them"):
        vm.invoke_with_outputs("power", None, [out, out])


def test_saved_calls():
    vm, x = machine(power()), ramp(2)
    vm.save_function("power", "cube", x, n=3)
    vm.save_function("power", "quiet", x, 3, include_return=False)
    assert vm["cube"]().numpy().tolist() == [1, 8] and vm["quiet"]() is None
    assert len(vm.time_evaluator("cube", number=1, repeat=2)().results) == 2
    with pytest.raises(ValueError, match="a name of its own\n  got: power"):
        vm.save_function("power", "power", x, 3)
    assert len(vm.benchmark(cpu(), x, 2, func_name="power", number=1).results) == 5
    vm.set_input("power", x, 2)
    assert {e.name: e.calls for e in vm.profile("power")}["test.vm.mul"] == 1


def test_machines_take_programs_of_the_cpu():
    with pytest.raises(TypeError, match="takes an executable\n  got: int"):
        VirtualMachine(3)
    for devices in (cuda(), [cpu(), cuda(1)]):
        with pytest.raises(LoopwrightError, match="only the CPU can run code\n  got: cuda"):
            VirtualMachine(power().get(), devices)
    vm = VirtualMachine(power().get())
    vm.set_input("power", ramp(2), 2)
    vm["invoke_stateful"]("power")
    assert vm["get_outputs"]("power").numpy().tolist() == [1, 4]
