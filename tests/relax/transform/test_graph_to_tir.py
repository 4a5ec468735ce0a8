"""GraphToTIR: planned graph functions as native ones, and what stays with the machine."""

from __future__ import annotations

import numpy as np
import pytest

from loopwright.driver import compile
from loopwright.ir import trace as tracing
from loopwright.relax.interpreter import Interpreter
from loopwright.script import ir as I
from loopwright.script import relax as R
from loopwright.script import tir as T
from loopwright.tir.function import PrimFunc
from loopwright.tir.signature import signature_of


def arrays(value):
    if isinstance(value, (list, tuple)):
        return [arrays(v) for v in value]
    return np.asarray(value.numpy() if hasattr(value, "numpy") else value)


def check(mod, *args, native=True, name="main"):
    """Compile, run, compare with the graph interpreter on the module as given."""
    exe = compile(mod)
    assert (name in exe.entries) is native, exe.machine
    want = arrays(Interpreter(mod)[name](*args))
    got = arrays(exe[name](*args))
    _same(got, want)
    return exe, got


def _same(got, want):
    if isinstance(want, list):
        assert isinstance(got, list) and len(got) == len(want)
        for g, w in zip(got, want, strict=True):
            _same(g, w)
        return
    assert got.shape == want.shape and got.dtype == want.dtype
    np.testing.assert_allclose(got, want, rtol=1e-5)


def ramp(*shape):
    return np.arange(np.prod(shape), dtype="float32").reshape(shape) / 7


def test_static_shapes_and_planned_storage():
    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor((4, 4), "float32")) -> R.Tensor((4, 4), "float32"):
            with R.dataflow():
                a = R.matmul(x, x)
                b = R.nn.softmax(a, axis=-1)
                c = R.matmul(b, x)
                d = R.nn.softmax(c, axis=0)
                R.output(d)
            return d

    exe, _ = check(Module, ramp(4, 4))
    main = exe.mod["main"]
    assert isinstance(main, PrimFunc)
    spec = signature_of(main)
    assert [p.name for p in spec.params] == ["x"] and spec.tree is None and spec.symbols == ()
    assert "workspace" in main.script()


@pytest.mark.parametrize("n", [0, 1, 5, 64])
def test_symbolic_shapes_share_one_binary(n):
    exe = compile(_SYMBOLIC)
    x, y = ramp(n, 3), ramp(n * 2)
    got = exe["main"](x, y)
    np.testing.assert_allclose(got.numpy(), np.exp(np.concatenate([x, x], 0)).sum(1) + y, rtol=1e-5)


@I.ir_module
class _SYMBOLIC:
    @R.function
    def main(x: R.Tensor(("n", 3), "float32"), y: R.Tensor(("n * 2",), "float32")) -> R.Tensor(
        ("n * 2",), "float32"
    ):
        with R.dataflow():
            a = R.concat((x, x), axis=0)
            b = R.exp(a)
            c = R.sum(b, axis=[1])
            d = R.add(c, y)
            R.output(d)
        return d


def test_nested_tuples_aliases_and_constants_as_results():
    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor(("n",), "float32"), w: R.Tensor((2,), "float32")):
            n = T.int64()
            with R.dataflow():
                a = R.add(x, x)
                b = R.reshape(a, R.shape([n, 1]))
                k = R.add(R.const([1.0, 2.0], "float32"), w)
                R.output(a, b, k)
            return (a, (b, x), (k, R.const(3.0, "float32")), a)

    x, w = ramp(5), ramp(2)
    exe, got = check(Module, x, w)
    assert [len(g) if isinstance(g, list) else 0 for g in got] == [0, 2, 2, 0]
    # A result is memory of its own, also where it is an input.
    out = exe["main"](x, w)
    x[...] = -1
    assert float(out[1][1].numpy()[0]) == 0.0


def test_an_input_as_the_only_result_is_a_copy():
    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
            return x

    x = ramp(3)
    exe, _ = check(Module, x)
    out = exe["main"](x)
    x[...] = 9
    np.testing.assert_array_equal(out.numpy(), ramp(3))


def test_match_cast_checks_and_says_what_is_wrong():
    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor(("n", "m"), "float32")):
            k = T.int64()
            y = R.match_cast(x, R.Tensor((k, 4), "float32"))
            z = R.add(y, y)
            return z

    exe, _ = check(Module, ramp(3, 4))
    with pytest.raises((ValueError, RuntimeError)) as info:
        exe["main"](ramp(3, 5))
    assert "main" in str(info.value) and "axis 1" in str(info.value)


def test_scalar_parameters_and_those_that_are_extents():
    @I.ir_module
    class Module:
        @R.function
        def main(k: R.Prim(value="n"), x: R.Tensor(("n", 2), "float32")):
            n = T.int64()
            y = R.add(x, R.full(R.shape([n, 2]), R.const(2.0, "float32"), dtype="float32"))
            return y

    exe = compile(Module)
    np.testing.assert_array_equal(exe["main"](3, ramp(3, 2)).numpy(), ramp(3, 2) + 2)
    with pytest.raises(ValueError, match=r"^main: argument 1 `x` has shape\[0\] = 3, expected 4$"):
        exe["main"](4, ramp(3, 2))


def test_what_stays_with_the_machine_says_why():
    @I.ir_module
    class Module:
        @R.function
        def main(c: R.Tensor((), "bool"), x: R.Tensor((4,), "float32")):
            if c:
                y = R.add(x, x)
            else:
                y = R.multiply(x, R.const(3.0, "float32"))
            return y

    with tracing.trace() as trace:
        exe = compile(Module)
    notes = [str(n) for n in trace.explain("main", "native")]
    assert notes and all("virtual machine" in n and "If" in n for n in notes)
    assert "main" not in exe.entries
    for flag in (True, False):
        got = exe["main"](np.array(flag), ramp(4)).numpy()
        np.testing.assert_allclose(got, ramp(4) * (2 if flag else 3))


def test_shapes_known_only_at_run_time():
    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor(dtype="float32", ndim=2)):
            y = R.add(x, x)
            return y

    exe = compile(Module)
    for shape in ((2, 3), (4, 1)):
        np.testing.assert_allclose(arrays(exe["main"](ramp(*shape))), ramp(*shape) * 2)


def test_recursion_and_calls_of_other_graph_functions():
    @I.ir_module
    class Module:
        @R.function(private=True)
        def twice(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
            y = R.add(x, x)
            return y

        @R.function
        def main(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
            cls = Module
            y = cls.twice(x)
            z = cls.twice(y)
            return z

    exe = compile(Module)
    np.testing.assert_allclose(arrays(exe["main"](ramp(4))), ramp(4) * 4)
