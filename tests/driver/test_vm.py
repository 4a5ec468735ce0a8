"""The virtual machine: TVM's interface, and graph functions that are not native code."""

from __future__ import annotations

import numpy as np
import pytest

import loopwright as lw
from loopwright.driver import VirtualMachine, compile
from loopwright.runtime.packed_func import register_func, remove_global_func
from loopwright.runtime.tensor import Tensor, tensor
from loopwright.script import from_source
from loopwright.script import ir as I
from loopwright.script import relax as R
from loopwright.script import tir as T


@I.ir_module
class Model:
    @R.function
    def main(x: R.Tensor(("n", 4), "float32"), w: R.Tensor((4,), "float32")) -> R.Tensor(
        ("n", 4), "float32"
    ):
        with R.dataflow():
            y = R.add(x, w)
            R.output(y)
        return y

    @R.function
    def parts(x: R.Tensor((4,), "float32")):
        with R.dataflow():
            a = R.add(x, x)
            b = R.exp(x)
            R.output(a, b)
        return (a, (b, x))


@pytest.fixture
def vm():
    return VirtualMachine(compile(Model), lw.cpu())


def ramp(*shape):
    return np.arange(np.prod(shape), dtype="float32").reshape(shape)


def test_functions_by_name(vm):
    x, w = ramp(3, 4), ramp(4)
    out = vm["main"](x, w)
    assert isinstance(out, Tensor)
    np.testing.assert_array_equal(out.numpy(), x + w)
    a, (b, c) = vm["parts"](w)
    np.testing.assert_allclose(b.numpy(), np.exp(w), rtol=1e-6)
    np.testing.assert_array_equal(a.numpy(), 2 * c.numpy())
    with pytest.raises(KeyError, match="no function of this name"):
        vm["nothing"]


def test_a_machine_needs_an_executable_and_a_cpu():
    with pytest.raises(TypeError, match="VirtualMachine takes an executable"):
        VirtualMachine("model", lw.cpu())
    with pytest.raises(lw.LoopwrightError, match="only the CPU can run code"):
        VirtualMachine(compile(Model), lw.cuda())


def test_stateful_calls(vm):
    x, w = ramp(2, 4), ramp(4)
    with pytest.raises(ValueError, match="no inputs were set for main"):
        vm.invoke_stateful("main")
    with pytest.raises(ValueError, match="main has not been invoked"):
        vm.get_outputs("main")
    vm.set_input("main", x, w)
    with pytest.raises(RuntimeError, match="set with set_input"):
        vm["main"]()
    vm.invoke_stateful("main")
    np.testing.assert_array_equal(vm.get_outputs("main").numpy(), x + w)
    vm.set_input("main", w=w, x=x + 1)
    with pytest.raises(ValueError, match="has not been invoked"):
        vm.get_outputs("main")
    vm.invoke_stateful("main")
    np.testing.assert_array_equal(vm.get_outputs("main").numpy(), x + 1 + w)
    vm.set_input("main", x, w=w)
    vm.invoke_stateful("main")
    np.testing.assert_array_equal(vm.get_outputs("main").numpy(), x + w)
    with pytest.raises(ValueError, match="main takes x, w"):
        vm.set_input("main", x, v=w)
    vm.set_input("parts", w)
    vm.invoke_stateful("parts")
    a, (b, c) = vm.get_outputs("parts")
    assert a.shape == b.shape == c.shape == (4,)


def test_saved_functions(vm):
    x, w = ramp(2, 4), ramp(4)
    vm.save_function("main", "saved", x, w)
    np.testing.assert_array_equal(vm["saved"]().numpy(), x + w)
    vm.save_function("main", "silent", x, w=w, include_return=False)
    assert vm["silent"]() is None
    with pytest.raises(ValueError, match="needs a name of its own"):
        vm.save_function("main", "main", x, w)


def test_time_evaluator(vm):
    result = vm.time_evaluator("main", lw.cpu(), number=2, repeat=3)(ramp(2, 4), ramp(4))
    assert len(result.results) == 3 and all(r > 0 for r in result.results)
    assert result.mean > 0
    calls = []
    prepare = lambda *args: calls.append(len(args))  # noqa: E731
    vm.time_evaluator("main", lw.cpu(), 1, 2, 0, 0, 1, prepare)(ramp(2, 4), ramp(4))
    assert calls == [2, 2]


def test_wrong_arguments_have_the_kinds_of_errors_that_tvm_documents(vm):
    with pytest.raises(ValueError, match="dtype"):
        vm["main"](ramp(2, 4).astype("float64"), ramp(4))
    with pytest.raises(ValueError, match="ndim"):
        vm["main"](ramp(4), ramp(4))
    with pytest.raises(TypeError):
        vm["main"]("x", ramp(4))


def test_branches_on_values_known_at_run_time(tmp_path):
    @I.ir_module
    class Module:
        @R.function
        def main(c: R.Tensor((), "bool"), x: R.Tensor(("n",), "float32")):
            if c:
                y = R.add(x, x)
            else:
                z = R.exp(x)
                y = R.multiply(z, x)
            return y

    exe = compile(Module)
    assert "main" in exe.machine and "main" not in exe.entries
    vm = VirtualMachine(exe, lw.cpu())
    for n in (1, 5):
        np.testing.assert_allclose(vm["main"](np.array(True), ramp(n)).numpy(), 2 * ramp(n))
        got = vm["main"](np.array(False), ramp(n)).numpy()
        np.testing.assert_allclose(got, np.exp(ramp(n)) * ramp(n), rtol=1e-6)
    profile = exe.profile(np.array(True), ramp(5))
    assert "main" not in {row.name for row in profile} and profile.total_us > 0
    for loaded in (exe, lw.runtime.load_module(exe.export_library(tmp_path / "model.so"))):
        by_name = loaded.profile({"c": np.array(True), "x": ramp(5)}, number=2)
        assert {row.name for row in by_name} == {row.name for row in profile}
        assert len(loaded.profile(np.array(True), x=ramp(5))) == len(profile)
        with pytest.raises(ValueError, match="missing c(.|\n)*unknown d"):
            loaded.profile({"d": np.array(True), "x": ramp(5)})


def test_packed_functions_from_graphs():
    register_func("test.graph.scale", lambda x: tensor(x.numpy() * 3), override=True)

    @I.ir_module
    class Module:
        @R.function(pure=False)
        def main(x: R.Tensor((4,), "float32")):
            y = R.call_packed("test.graph.scale", x, sinfo_args=R.Tensor((4,), "float32"))
            z = R.add(y, x)
            return z

    try:
        vm = VirtualMachine(compile(Module), lw.cpu())
        np.testing.assert_array_equal(vm["main"](ramp(4)).numpy(), ramp(4) * 4)
    finally:
        remove_global_func("test.graph.scale")


def test_functions_written_by_hand_into_destinations():
    def fill(x, out):
        out.copyfrom(x.numpy() + 10)

    register_func("test.graph.fill", fill, override=True)

    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor((4,), "float32")):
            y = R.call_dps_packed("test.graph.fill", (x,), R.Tensor((4,), "float32"))
            z = R.add(y, y)
            return z

    try:
        vm = VirtualMachine(compile(Module), lw.cpu())
        np.testing.assert_array_equal(vm["main"](ramp(4)).numpy(), (ramp(4) + 10) * 2)
    finally:
        remove_global_func("test.graph.fill")


def test_closures():
    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor((4,), "float32"), w: R.Tensor((4,), "float32")):
            @R.function
            def inner(y: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
                z = R.add(y, w)
                return z

            a = inner(x)
            b = inner(a)
            return b

    vm = VirtualMachine(compile(Module), lw.cpu())
    got = vm["main"](ramp(4), np.ones(4, "float32")).numpy()
    np.testing.assert_array_equal(got, ramp(4) + 2)


def test_recursion():
    @I.ir_module
    class Module:
        @R.function
        def main(n: R.Tensor((), "int32"), x: R.Tensor((3,), "float32")) -> R.Tensor(
            (3,), "float32"
        ):
            c = R.equal(n, R.const(0, "int32"))
            if c:
                out = x
            else:
                m = R.subtract(n, R.const(1, "int32"))
                y = R.add(x, x)
                out = Module.main(m, y)
            return out

    vm = VirtualMachine(compile(Module), lw.cpu())
    np.testing.assert_array_equal(vm["main"](np.array(4, "int32"), ramp(3)).numpy(), ramp(3) * 16)


VECTOR, FOUR = 'R.Tensor(("m",), "float32")', 'R.Tensor((4,), "float32")'
ANY = 'R.Tensor("float32", ndim=1)'
MATRIX = 'R.Tensor(("m", "k"), "float32")'
PAIR = 'R.Tuple(R.Tensor(("m",), "float32"), R.Tensor(("k",), "float32"))'


def longer(v):
    return np.append(v, 9 + np.float32(len(v)))


# What a function that calls itself takes, what it gives itself, what makes that, its sizes at the end.
THEMSELVES = {
    "known": (FOUR, FOUR, lambda v: 2 * v + 1, "4"),
    "an object": ("R.Object", FOUR, lambda v: 2 * v + 1, "4"),
    "rank": (ANY, ANY, longer, "0"),
    "the same": (VECTOR, 'R.Tensor((m,), "float32")', lambda v: 2 * v + 1, "m"),
    "one more": (VECTOR, 'R.Tensor((m + 1,), "float32")', longer, "m"),
    "some more": (VECTOR, ANY, longer, "m"),
    "more than said": (VECTOR, 'R.Tensor((m,), "float32")', longer, "m"),
    "transposed": (MATRIX, 'R.Tensor((k, m), "float32")', lambda v: v.T.copy(), "m, k"),
    "swapped": (
        PAIR,
        'R.Tuple(R.Tensor((k,), "float32"), R.Tensor((m,), "float32"))',
        lambda v: v[::-1],
        "m, k",
    ),
    "grown": (PAIR, f"R.Tuple({ANY}, {ANY})", lambda v: (longer(v[1]), v[0]), "m, k"),
}
CALLS_ITSELF = """
@I.ir_module
class Module:
    @R.function
    def main(i: R.Tensor((), "int64"), s: R.Tensor((), "int64"), v: {takes}) -> R.Object:
        again = R.less(i, s)
        if again:
            following = R.add(i, R.const(1, "int64"))
            given = R.call_pure_packed("test.given", v, sinfo_args=({gives},))
            result = Module.main({first}, given)
        else:
            result = (i, s, v, R.shape([{sizes}]))
        return result
"""


def plain(value):
    """Tensors, arrays and tuples of them as lists."""
    if isinstance(value, (tuple, list)):
        return [plain(v) for v in value]
    return (value.numpy() if isinstance(value, Tensor) else np.asarray(value)).tolist()


@pytest.fixture
def calls_itself():
    """`calls_itself(takes, gives, make, sizes, first)`: the compiled function, and its meaning."""

    def build(takes, gives, make, sizes, first="following, s"):
        def given(v):
            pair = isinstance(v, (list, tuple))
            made = make([x.numpy() for x in v] if pair else v.numpy())
            return tuple(map(tensor, made)) if pair else tensor(made)

        def meaning(i, s, v):
            while i < s:
                i, s = eval(first, {"following": i + 1, "s": s, "i": i})
                v = make(v)
            extents = [len(part) for part in v] if isinstance(v, tuple) else v.shape
            return i, s, v, extents if "m" in sizes else [int(sizes)]

        register_func("test.given", given, override=True)
        text = CALLS_ITSELF.format(takes=takes, gives=gives, first=first, sizes=sizes)
        return VirtualMachine(compile(from_source(text)), lw.cpu())["main"], meaning

    yield build
    remove_global_func("test.given")


@pytest.mark.sample(2)
@pytest.mark.parametrize("first", ["following, s", "s, following", "s, i"])
@pytest.mark.parametrize("name", THEMSELVES)
def test_functions_that_call_themselves(calls_itself, name, first):
    """Each call has its own sizes, and its arguments are those before any of them is set."""
    run, meaning = calls_itself(*THEMSELVES[name], first)
    v = {PAIR: (ramp(4), ramp(2)), MATRIX: ramp(4, 2)}.get(THEMSELVES[name][0], ramp(4))
    for start in (0, 2, 3):
        got = run(np.array(start), np.array(3), v)
        assert plain(got) == plain(meaning(start, 3, v))


@pytest.mark.parametrize(
    ("takes", "gives", "message"),
    [
        (FOUR, ANY, "must be 4"),
        (PAIR.replace('"k"', '"m"'), f"R.Tuple({ANY}, {ANY})", "must be 4"),
    ],
)
def test_what_a_function_gives_itself_is_checked(calls_itself, takes, gives, message):
    def make(v):
        return (v[0], longer(v[1])) if "Tuple" in takes else longer(v)

    run, _ = calls_itself(takes, gives, make, "0")
    with pytest.raises(ValueError, match=message):
        run(np.array(0), np.array(3), (ramp(4), ramp(4)) if "Tuple" in takes else ramp(4))


def test_data_dependent_shapes():
    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor((6,), "float32")):
            y = R.unique(x, sorted=True)
            z = R.add(y, y)
            return z

    vm = VirtualMachine(compile(Module), lw.cpu())
    got = vm["main"](np.array([3, 1, 3, 2, 1, 1], "float32")).numpy()
    np.testing.assert_array_equal(got, [2, 4, 6])


def test_shapes_as_arguments_and_results():
    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor(("n", "m"), "float32")):
            n, m = T.int64(), T.int64()
            s = R.shape([m, n])
            return s

    vm = VirtualMachine(compile(Module), lw.cpu())
    got = vm["main"](ramp(2, 5))
    assert tuple(got) == (5, 2) and got[0] == 5
