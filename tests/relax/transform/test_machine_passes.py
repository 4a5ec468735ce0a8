"""Passes that prepare functions for the virtual machine."""

from __future__ import annotations

import numpy as np
import pytest

import loopwright as lw
from loopwright import relax
from loopwright.ir.module import IRModule
from loopwright.ir.structural import assert_structural_equal
from loopwright.relax import transform as rt
from loopwright.script import from_source
from loopwright.script import ir as I
from loopwright.script import relax as R
from loopwright.script import tir as T


def test_shapes_known_at_run_time_get_names_where_kernels_take_them():
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor(ndim=1, dtype="float32"), y: R.Tensor(ndim=1, dtype="float32")):
            with R.dataflow():
                z = R.exp(x)
                u = R.unique(y)
                R.output(z, u)
            return (z, u)

    @I.ir_module
    class Expected:
        @R.function
        def main(x: R.Tensor(ndim=1, dtype="float32"), y: R.Tensor(ndim=1, dtype="float32")):
            a, b = T.int64(), T.int64()
            x1 = R.match_cast(x, R.Tensor((a,), "float32"))
            y1 = R.match_cast(y, R.Tensor((b,), "float32"))
            with R.dataflow():
                z = R.exp(x1)
                u = R.unique(y1)
                R.output(z, u)
            return (z, u)

    after = rt.NameRuntimeShapes()(Before)
    assert_structural_equal(after, Expected)
    assert rt.NameRuntimeShapes()(after) is after


@pytest.mark.parametrize(("length", "named"), [("(2,)", 2), ("(0,)", 0), ("ndim=1", None)])
def test_shapes_of_a_known_rank_get_names(length, named):
    mod = from_source(f"""
@R.function
def main(x: R.Tensor({length}, dtype="int64"), y: R.Tensor((), "float32")):
    s = R.tensor_to_shape(x)
    z = R.broadcast_to(y, s)
    return z
""")
    after = rt.NameRuntimeShapes()(IRModule({"main": mod}))
    casts = [b for b in after["main"].body.blocks[0].bindings if isinstance(b, relax.MatchCast)]
    assert [len(b.struct_info.values) for b in casts] == ([] if named is None else [named])


def test_pure_bindings_become_dataflow_blocks_in_branches_too():
    @I.ir_module
    class Before:
        @R.function(pure=False)
        def main(c: R.Tensor((), "bool"), x: R.Tensor((4,), "float32")):
            a = R.exp(x)
            b = R.add(a, a)
            R.print(b)
            d = R.exp(b)
            if c:
                e = R.add(d, d)
                f = R.exp(e)
                r = R.add(f, e)
            else:
                r = d
            return r

    @I.ir_module
    class Expected:
        @R.function(pure=False)
        def main(c: R.Tensor((), "bool"), x: R.Tensor((4,), "float32")):
            with R.dataflow():
                a = R.exp(x)
                b = R.add(a, a)
                R.output(b)
            R.print(b)
            d = R.exp(b)
            if c:
                with R.dataflow():
                    e = R.add(d, d)
                    f = R.exp(e)
                    r1 = R.add(f, e)
                    R.output(r1)
                r = r1
            else:
                r = d
            return r

    after = rt.ConvertToDataflow()(Before)
    assert_structural_equal(after, Expected)
    assert rt.ConvertToDataflow(min_size=4)(Before) is Before


def test_bindings_join_the_dataflow_blocks_around_them():
    """A local function's body is converted too; its definition may flow."""

    @R.function(pure=False)
    def main(x: R.Tensor((2,), "float32")):
        @R.function
        def inner(y: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
            z = R.exp(y)
            return R.exp(z)

        with R.dataflow():
            a = R.exp(x)
            R.output(a)
        b = inner(a)
        _ = R.print(b)
        c = R.exp(b)
        return c

    after = rt.ConvertToDataflow()(IRModule({"main": main}))["main"]
    shape = [(type(b).__name__, len(b.bindings)) for b in after.body.blocks]
    assert shape == [("DataflowBlock", 3), ("BindingBlock", 2)]
    inner = after.body.blocks[0].bindings[0].value
    assert [type(b).__name__ for b in inner.body.blocks] == ["DataflowBlock"]


def parts(mod) -> dict[str, str]:
    """The texts of the native parts of a compiled module."""
    lowered = lw.lower(mod)
    last = lowered[len(lowered) - 1].after
    found = {g.name_hint: f for g, f in last.functions.items() if "_part" in g.name_hint}
    return {name: f.script() for name, f in found.items()}


def test_kernels_that_follow_each_other_are_one_native_part():
    @I.ir_module
    class Module:
        @R.function
        def main(c: R.Tensor((), "bool"), x: R.Tensor(("n", 4), "float32")):
            a = R.sum(x, axis=1)
            b = R.exp(a)
            if c:
                d = R.sum(b)
                r = R.add(x, d)
            else:
                r = x
            e = R.matmul(r, R.permute_dims(r))
            return e

    exe = lw.compile(Module)
    assert len(exe.machine_runner.program.functions) < 20
    x = np.arange(12, dtype="float32").reshape(3, 4) / 10
    for c in (True, False):
        r = x + np.exp(x.sum(1)).sum() if c else x
        np.testing.assert_allclose(exe["main"](np.array(c), x).numpy(), r @ r.T, rtol=1e-5)
    assert len(parts(Module)) == 3


def test_kernels_of_parameters_wait_for_their_readers():
    """Their results need no memory, and no way through the machine, until then."""

    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor((4,), "float32"), y: R.Tensor(("n",), "float32")):
            a = R.cumsum(x)
            b = R.cumsum(y)
            e = R.cumsum(a)
            u = R.unique(b)
            d = R.cumsum(R.cumsum(e))
            return (u, d)

    assert [text.count(" cumsum") for text in parts(Module).values()] == [1, 4]
    x, y = np.arange(4, dtype="float32"), np.array([1, 0, 2], "float32")
    u, d = lw.compile(Module)["main"](x, y)
    np.testing.assert_array_equal(u.numpy(), [1, 3])
    np.testing.assert_array_equal(d.numpy(), x.cumsum().cumsum().cumsum().cumsum())


def test_kernels_do_not_wait_until_their_parameter_is_overwritten():
    @lw.register_func("test.machine_passes.clear", override=True)
    def clear(x):
        x.copyfrom(np.zeros(4, "float32"))
        return x

    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor((4,), "float32")):
            a = R.cumsum(x)
            y = R.call_inplace_packed(
                "test.machine_passes.clear",
                x,
                inplace_indices=0,
                sinfo_args=R.Tensor((4,), "float32"),
            )
            b = R.cumsum(a)
            return (y, b)

    x = np.arange(4, dtype="float32")
    expected = x.cumsum().cumsum()
    np.testing.assert_array_equal(lw.compile(Module)["main"](x)[1].numpy(), expected)


@pytest.mark.parametrize(("softmax", "options"), [("nn.softmax", "axis=0"), ("exp", "")])
def test_operators_of_an_unknown_rank_have_their_attributes(softmax, options):
    mod = from_source(f"""
@R.function
def main(x: R.Tensor(dtype="float32")):
    y = R.{softmax}(x, {options})
    return y
""")
    x = np.array([[1, 2], [3, 5]], "float32")
    want = np.exp(x) / (np.exp(x).sum(0) if options else 1)
    got = lw.compile(IRModule({"main": mod}))["main"](x)
    np.testing.assert_allclose(got.numpy(), want, rtol=1e-6)


def test_views_belong_to_the_part_that_makes_their_tensor():
    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor((4,), "float32"), y: R.Tensor((4,), "float32")):
            u = R.unique(y)
            a = R.cumsum(x)
            b = R.memory.view(a, R.shape([2, 2]))
            c = R.cumsum(b, axis=0)
            v = R.memory.view(u, R.shape([2]))
            d = R.cumsum(v)
            return (c, d)

    after = rt.OutlineNative()(rt.LegalizeOps()(Module))
    shown = {g.name_hint: f.script() for g, f in after.functions.items() if "part" in g.name_hint}
    assert [text.count("memory.view") for text in shown.values()] == [1]


def test_what_is_native_as_a_whole_is_not_taken_apart():
    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor(("n", 4), "float32")):
            a = R.sum(x, axis=1)
            return R.exp(a)

    assert lw.compile(Module).machine_runner is None
    assert parts(Module) == {}


def test_sizes_that_no_tensor_of_a_part_has_are_passed_as_numbers():
    @I.ir_module
    class Module:
        @R.function
        def main(c: R.Tensor((), "bool"), s: R.Shape(["n", "m"]), x: R.Tensor((4,), "float32")):
            n, m = T.int64(), T.int64()
            if c:
                r = R.broadcast_to(x, R.shape([n * m, 4]))
            else:
                r = R.broadcast_to(R.exp(x), R.shape([m * n, 4]))
            return r

    exe = lw.compile(Module)
    x = np.ones(4, "float32")
    assert exe["main"](np.array(True), (2, 3), x).shape == (6, 4)
    np.testing.assert_allclose(exe["main"](np.array(False), (2, 3), x).numpy(), np.e, rtol=1e-6)


def test_a_call_of_itself_at_the_end_is_a_jump():
    @I.ir_module
    class Module:
        @R.function
        def main(n: R.Tensor((), "int64"), x: R.Tensor(("k",), "float32")) -> R.Tensor(
            ndim=1, dtype="float32"
        ):
            c = R.equal(n, R.const(0, "int64"))
            if c:
                r = x
            else:
                m = R.subtract(n, R.const(1, "int64"))
                y = R.concat([x, x])
                r = Module.main(m, y)
            return r

    exe = lw.compile(Module)
    assert "goto" in exe.machine_runner.program.as_text()
    assert exe["main"](np.array(10), np.ones(3, "float32")).shape == (3 * 2**10,)


def test_symbols_of_one_name_stay_apart():
    """They were one in the native function's signature: results had the size of the other."""
    n, m = lw.tir.Var("n", "int64"), lw.tir.Var("n", "int64")
    x = lw.relax.Var("x", R.Tensor((n, 2), "float32"))
    y = lw.relax.Var("y", R.Tensor((m, 2), "float32"))
    bb = lw.relax.BlockBuilder()
    with bb.function("main", [x, y]):
        with bb.dataflow():
            out = bb.emit_output(lw.relax.op.concat([x, y], axis=0))
        bb.emit_func_output(out)
    exe = lw.compile(bb.get())
    got = exe["main"](np.zeros((3, 2), "float32"), np.ones((1, 2), "float32")).numpy()
    np.testing.assert_array_equal(got, [[0, 0], [0, 0], [0, 0], [1, 1]])
