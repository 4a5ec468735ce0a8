"""Passes over the weights of a model: lifted, bundled, fetched one by one."""

from __future__ import annotations

import numpy as np
import pytest

from loopwright import tir
from loopwright.base.errors import LoopwrightError
from loopwright.ir.module import IRModule
from loopwright.ir.transform import PassContext
from loopwright.relax.analysis import assert_well_formed
from loopwright.relax.interpreter import Interpreter
from loopwright.relax.transform import (
    AttachAttrLayoutFreeBuffers,
    BundleModelParams,
    LazyGetInput,
    LazySetOutput,
    LazyTransformParams,
    LiftTransformParams,
    SplitLayoutRewritePreproc,
)
from loopwright.relax.transform.graph import split_layout_rewrite_preproc
from loopwright.runtime import register_func
from loopwright.script import ir as I
from loopwright.script import relax as R
from loopwright.script import tir as T

from .graphs import values


@I.ir_module
class Model:
    @R.function
    def main(
        x: R.Tensor(("n", 4), "float32"),
        w: R.Tensor((3, "m"), "float32"),
        bias: R.Tensor((3,), "float32"),
        scale: R.Tensor(("m",), "float32"),
    ):
        R.func_attr({"num_input": 1})
        n = T.int64()
        with R.dataflow():
            pair = (w, scale)
            own = pair[0]
            scaled = R.multiply(own, pair[1])
            w_t = R.permute_dims(scaled)
            y = R.matmul(x, w_t)
            z = R.add(y, bias)
            out = R.add(z, R.zeros((n, 3), "float32"))
            R.output(out)
        return out


def arrays() -> list:
    x, w, bias, scale = values((2, 4), (3, 4), (3,), (4,))
    return [x, w, bias, scale]


def run(mod: IRModule, *args, name: str = "main"):
    return Interpreter(mod)[name](*args)


@pytest.mark.parametrize("shared", [False, True, ["main"]], ids=str)
@pytest.mark.parametrize("consume", [False, True])
def test_lifted_weights_give_the_same_result(shared, consume):
    with PassContext(config={"relax.lift_transform_params.consume_params": consume}):
        after = LiftTransformParams(shared_transform=shared)(Model)
    assert_well_formed(after)
    name = "main_transform_params" if shared is False else "transform_params"
    assert "matmul" not in after[name].script()
    assert [p.name_hint for p in after["main"].params] == ["x", "bias", "w_t"]
    x, *weights = arrays()
    transformed = run(after, tuple(weights), name=name)
    np.testing.assert_array_equal(
        run(after, x, *transformed).numpy(), run(Model, x, *weights).numpy()
    )


def test_lifting_twice_changes_nothing_more():
    once = LiftTransformParams()(Model)
    twice = LiftTransformParams()(once)
    assert twice["main_transform_params"].script() == once["main_transform_params"].script()


def test_a_weight_whose_symbol_is_still_needed_stays():
    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor((4,), "float32"), w: R.Tensor(("m",), "float32")):
            R.func_attr({"num_input": 1})
            m = T.int64()
            s = R.sum(w)
            y = R.add(x, s)
            z = R.zeros((m,), "float32")
            return (y, z)

    after = LiftTransformParams()(Module)
    assert_well_formed(after)
    assert [p.name_hint for p in after["main"].params] == ["x", "w", "s"]
    x, w = values((4,), (3,))
    transformed = run(after, (w,), name="main_transform_params")
    for got, want in zip(run(after, x, *transformed), run(Module, x, w), strict=True):
        np.testing.assert_array_equal(got.numpy(), want.numpy())


def test_functions_that_share_need_the_same_weights():
    other = Model["main"].bind_symbolic_vars({"m": 4}).with_attr("global_symbol", "other")
    mod = IRModule({"main": Model["main"], "other": other})
    with pytest.raises(LoopwrightError, match="other cannot share transform_params with main"):
        LiftTransformParams(shared_transform=True)(mod)


def test_bundled_weights_give_the_same_result():
    after = BundleModelParams("weights")(Model)
    assert_well_formed(after)
    assert [p.name_hint for p in after["main"].params] == ["x", "weights"]
    x, *weights = arrays()
    want = run(Model, x, *weights).numpy()
    np.testing.assert_array_equal(run(after, x, tuple(weights)).numpy(), want)


def test_weights_are_asked_for_by_number_and_name():
    after = LazyGetInput()(Model)
    assert_well_formed(after)
    x, *weights = arrays()
    asked = []

    def fetch(index, name):
        asked.append((int(index), str(name)))
        return weights[int(index)]

    want = run(Model, x, *weights).numpy()
    np.testing.assert_array_equal(run(after, x, fetch).numpy(), want)
    assert sorted(asked) == [(0, "w"), (1, "bias"), (2, "scale")]


def test_results_are_handed_out_once_each():
    lifted = LiftTransformParams()(Model)
    after = LazySetOutput()(lifted)
    assert_well_formed(after)
    _, *weights = arrays()
    got = {}

    def store(index, value):
        assert int(index) not in got
        got[int(index)] = value
        return ()

    want = run(lifted, tuple(weights), name="main_transform_params")
    run(after, store, tuple(weights), name="main_transform_params")
    assert sorted(got) == [0, 1]
    for index, value in got.items():
        np.testing.assert_array_equal(value.numpy(), want[index].numpy())


def test_weights_are_transformed_one_by_one():
    lifted = LiftTransformParams()(Model)
    after = LazyTransformParams("test.get_weight", "test.set_weight")(lifted)
    assert_well_formed(after)
    _, *weights = arrays()
    got = {}
    register_func("test.get_weight", lambda i: weights[int(i)], override=True)
    register_func("test.set_weight", lambda i, v: got.update({int(i): v}), override=True)
    want = run(lifted, tuple(weights), name="main_transform_params")
    run(after, name="main_transform_params")
    assert sorted(got) == [0, 1]
    for index, value in got.items():
        np.testing.assert_array_equal(value.numpy(), want[index].numpy())


@I.ir_module
class Packed:
    """A kernel that reads its second and third input from blocks of 2 x 2."""

    @T.prim_func(private=True)
    def add(
        x: T.Buffer((4, 4), "float32"),
        w: T.Buffer((4, 4), "float32"),
        v: T.Buffer((4, 4), "float32"),
        y: T.Buffer((4, 4), "float32"),
    ):
        a = T.alloc_buffer((2, 2, 2, 2))
        b = T.alloc_buffer((2, 2, 2, 2))
        for i, j in T.grid(4, 4):
            with T.block("b"):
                vi, vj = T.axis.remap("SS", [i, j])
                T.block_attr({"meta_schedule.layout_rewrite_preproc": True})
                b[vi // 2, vj // 2, vi % 2, vj % 2] = v[vi, vj]
        for i, j in T.grid(4, 4):
            with T.block("a"):
                vi, vj = T.axis.remap("SS", [i, j])
                T.block_attr({"meta_schedule.layout_rewrite_preproc": True})
                a[vi // 2, vj // 2, vi % 2, vj % 2] = w[vi, vj]
        for i, j in T.grid(4, 4):
            with T.block("y"):
                vi, vj = T.axis.remap("SS", [i, j])
                y[vi, vj] = (
                    x[vi, vj]
                    + a[vi // 2, vj // 2, vi % 2, vj % 2] * b[vj // 2, vi // 2, vj % 2, vi % 2]
                )

    @R.function
    def main(x: R.Tensor((4, 4), "float32"), w: R.Tensor((4, 4), "float32")):
        R.func_attr({"num_input": 1})
        cls = Packed
        with R.dataflow():
            y = R.call_tir(cls.add, (x, w, w), out_sinfo=R.Tensor((4, 4), "float32"))
            R.output(y)
        return y


def test_packed_weights_are_lifted():
    marked = AttachAttrLayoutFreeBuffers()(Packed)
    assert [list(f.attrs["layout_free_buffers"]) for f in kernels_of(marked)] == [[1, 2]]
    split = SplitLayoutRewritePreproc()(marked)
    assert_well_formed(split)
    x, w = values((4, 4), (4, 4))
    want = run(Packed, x, w).numpy()
    np.testing.assert_array_equal(run(split, x, w).numpy(), want)
    lifted = LiftTransformParams()(split)
    transformed = run(lifted, (w,), name="main_transform_params")
    assert [t.shape for t in transformed] == [(2, 2, 2, 2)] * 2
    np.testing.assert_array_equal(run(lifted, x, *transformed).numpy(), want)


def kernels_of(mod: IRModule) -> list:
    return [func for func in mod.functions.values() if isinstance(func, tir.PrimFunc)]


def test_an_input_that_is_read_elsewhere_too_is_not_split_off():
    kernel = Packed["add"]
    _, w, _, y = kernel.params
    assert split_layout_rewrite_preproc.split(kernel) is not None
    body = kernel.body.block.body
    extra = tir.BufferStore(
        kernel.buffer_map[y], tir.BufferLoad(kernel.buffer_map[w], [0, 0]), [0, 0]
    )
    block = kernel.body.block.replace(body=tir.SeqStmt([*body.seq, extra]))
    other = kernel.replace(body=kernel.body.replace(block=block))
    assert split_layout_rewrite_preproc.split(other) is None


# ---------------------------------------------------------------- what is rare


@I.ir_module
class Stopped:
    @R.function
    def main(
        x: R.Tensor((4,), "float32"),
        w: R.Tensor((4,), "float32"),
        up: R.Tensor((), "bool"),
        s: R.Shape(["k"]),
        p: R.Prim(value="q"),
    ):
        R.func_attr({"num_input": 1})
        k, q = T.int64(), T.int64()
        scaled = R.multiply(w, R.const(2.0, "float32"))
        end = R.builtin.stop_lift_params(scaled)
        later = R.exp(end)
        if up:
            part = R.negative(scaled)
        else:
            part = R.abs(scaled)
        y = R.add(x, R.add(later, part))
        z = R.zeros((k, q), "float32")
        return (y, z)


@pytest.mark.parametrize("consume", [False, True])
def test_what_is_not_lifted(consume):
    with PassContext(config={"relax.lift_transform_params.consume_params": consume}):
        after = LiftTransformParams()(Stopped)
    assert_well_formed(after)
    lifted, rest = after["main_transform_params"].script(), after["main"].script()
    for name, place in (("multiply", lifted), ("exp", rest), ("negative", rest), ("abs", rest)):
        assert [f"R.{name}(" in text for text in (lifted, rest)] == [place is lifted, place is rest]
    assert "stop_lift_params" not in lifted + rest
    assert [p.name_hint for p in after["main"].params] == ["x", "up", "s", "p", "scaled"]
    (x, w), up = values((4,), (4,)), np.array(False)
    transformed = run(after, (w, up, (2,), 3), name="main_transform_params")
    for got, want in zip(run(after, x, *transformed), run(Stopped, x, w, up, (2,), 3), strict=True):
        np.testing.assert_array_equal(got.numpy(), want.numpy())


@I.ir_module
class Plain:
    """Weights that are results, constants that are, and a weight of another name."""

    @R.function
    def transform_params(w: R.Tensor((4,), "float32"), v: R.Tensor((4,), "float32")):
        R.func_attr({"num_input": 0})
        own = w
        a = R.exp(own)
        return (v, a, R.const(3.0, "float32"), a)


def test_results_that_are_no_bindings_are_handed_out_too():
    weights = dict(enumerate(values((4,), (4,))))
    want = run(Plain, *weights.values(), name="transform_params")
    got = {}

    def store(index, value):
        got[int(index)] = value.numpy()
        return ()

    after = LazySetOutput()(Plain)
    assert_well_formed(after)
    run(after, store, *weights.values(), name="transform_params")
    register_func("test.get_one", lambda i: weights[int(i)], override=True)
    register_func("test.set_one", store, override=True)
    one_by_one = LazyTransformParams("test.get_one", "test.set_one")(Plain)
    assert_well_formed(one_by_one)
    for index, value in enumerate(want):
        np.testing.assert_array_equal(got.pop(index), value.numpy())
    assert not got
    run(one_by_one, name="transform_params")
    for index, value in enumerate(want):
        np.testing.assert_array_equal(got.pop(index), value.numpy())
    returned = LazyTransformParams("test.get_one", None)(Plain)
    for a, b in zip(run(returned, name="transform_params"), want, strict=True):
        np.testing.assert_array_equal(a.numpy(), b.numpy())


def test_a_weight_of_another_name_comes_out_of_the_bundle():
    after = BundleModelParams()(Plain)
    assert_well_formed(after)
    assert [p.name_hint for p in after["transform_params"].params] == ["model_params"]
    weights = values((4,), (4,))
    want = run(Plain, *weights, name="transform_params")
    for a, b in zip(run(after, tuple(weights), name="transform_params"), want, strict=True):
        np.testing.assert_array_equal(a.numpy(), b.numpy())
