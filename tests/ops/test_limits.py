"""The last size that an operator takes in one way, and the first that it takes in another, or refuses."""

from __future__ import annotations

import numpy as np
import pytest

from loopwright import relax, te
from loopwright.ir.module import IRModule
from loopwright.relax import op
from loopwright.relax.interpreter import Interpreter
from loopwright.relax.transform import AnnotateTIROpPattern, LegalizeOps


def tensor(*shape, dtype="float32"):
    return relax.Var("x", relax.TensorStructInfo(shape, dtype))


@pytest.mark.parametrize(("count", "kernels"), [(16, 1), (17, 3), (33, 4)])
def test_many_tensors_are_joined_in_groups(count, kernels):
    params = [tensor(n % 3 + 1, 2) for n in range(count)]
    bb = relax.BlockBuilder()
    with bb.function("main", params):
        bb.emit_func_output(bb.emit(op.concat(params, 0)))
    mod = LegalizeOps()(bb.get())
    values = [b.value for block in mod["main"].body.blocks for b in block.bindings]
    assert (
        sum(v.op.name == "relax.call_tir" for v in values if isinstance(v, relax.Call)) == kernels
    )
    arrays = [np.full((n % 3 + 1, 2), n, "float32") for n in range(count)]
    np.testing.assert_array_equal(Interpreter(mod)["main"](*arrays).numpy(), np.concatenate(arrays))


@pytest.mark.parametrize(("inputs", "kind"), [(15, 0), (16, 8)])
def test_a_kernel_of_many_buffers_is_fused_with_nothing(inputs, kind):
    given = [te.placeholder((4,), name=f"a{n}") for n in range(inputs)]
    total = te.compute((4,), lambda i: sum((a(i) for a in given[1:]), given[0](i)), name="total")
    mod = IRModule({"total": te.create_prim_func([*given, total])})
    assert AnnotateTIROpPattern()(mod)["total"].attrs["op_pattern"] == kind


@pytest.mark.parametrize(
    ("build", "taken", "refused"),
    [
        (lambda n: op.split(tensor(20_000), n), (1, 10_000), (0, 10_001, -1)),
        (lambda n: op.nn.pixel_shuffle(tensor(1, 16, 2, 2), n), (1, 2, 4), (0, 3)),
        (lambda n: op.expand_dims(tensor(2, 3), n), (-3, 2), (-4, 3)),
        (lambda n: op.flip(tensor(2, 3), n), (-2, 1), (-3, 2)),
        (lambda n: op.permute_dims(tensor(2, 3), [0, n]), (1, -1), (0, 2, -3)),
        (
            lambda n: op.nn.batch_norm(tensor(2, 3, 4), *[tensor(4)] * 4, axis=n),
            (2, -1),
            (1, 3, -4),
        ),
        (lambda n: op.nn.softmax(tensor(2, 3), n), (-2, 1), (-3, 2)),
        (lambda n: op.topk(tensor(2, 3), 2, n), (-2, 1), (-3, 2)),
        (lambda n: op.stack([tensor(2, 3)] * 2, n), (-3, 2), (-4, 3)),
        (lambda n: op.nn.max_pool1d(tensor(1, 1, 4), n), (1, 4, 5), (6,)),  # 5: of no window
        (lambda n: op.nn.conv1d(tensor(1, 1, 4), tensor(1, 1, n)), (1, 4), (5,)),
        (lambda n: op.nn.conv1d(tensor(1, 4, 4), tensor(4, 4 // n, 1), groups=n), (1, 2, 4), (3,)),
    ],
)
def test_bounds(build, taken, refused):
    for n in taken:
        relax.BlockBuilder().normalize(build(n))
    for n in refused:
        with pytest.raises((ValueError, TypeError)):
            relax.BlockBuilder().normalize(build(n))


def test_what_attention_refuses():
    q = tensor(1, 2, 3, 4)
    assert op.nn.attention(q, q, q, causal_mask="TopLeft", window_size=1)
    with pytest.raises(ValueError, match="a window needs a causal_mask"):
        op.nn.attention(q, q, q, window_size=1)
    with pytest.raises(
        ValueError, match="unknown causal_mask\n  got: 'Top'\n  instead: did you mean TopLeft"
    ):
        op.nn.attention(q, q, q, causal_mask="Top")


def test_groups_of_no_channel_and_padding_below_nothing():
    x, g = tensor(2, 4, 8), tensor(4)
    normal = relax.BlockBuilder().normalize
    for groups in (0, -1):
        with pytest.raises(ValueError, match=f"a group of channels\n  got: {groups} groups"):
            normal(op.nn.group_norm(x, g, g, num_groups=groups, channel_axis=1, axes=[2]))
    with pytest.raises(
        ValueError, match="takes more than there is\n  got: 2 by 0 and 0, .*8 by -9"
    ):
        normal(op.nn.pad(x, [0, 0, 0, 0, -9, 0]))
    normal(op.nn.pad(x, [0, 0, 0, 0, -9, 1]))


@pytest.mark.parametrize("loss", [op.nn.nll_loss, op.grad.nll_loss_backward])
def test_reductions_of_losses(loss):
    given = [tensor(2, 4)] * (loss is op.grad.nll_loss_backward) + [tensor(2, 4)]
    with pytest.raises(ValueError, match="unknown reduction\n  got: 'average'"):
        loss(*given, tensor(2, dtype="int64"), reduction="average")


def test_attention_in_groups():
    q, k = tensor(1, 5, 6, 4), tensor(1, 7, 2, 4)
    normal = relax.BlockBuilder().normalize
    assert list(normal(op.nn.attention(q, k, tensor(1, 7, 2, 3))).struct_info.shape) == [1, 5, 6, 3]
    with pytest.raises(ValueError, match="heads must be a multiple of 4"):
        normal(op.nn.attention(q, *[tensor(1, 7, 4, 4)] * 2))
    with pytest.raises(ValueError, match="do not match"):
        normal(op.nn.attention(q, k, tensor(1, 7, 3, 4)))
    with pytest.raises(ValueError, match="heads must be a multiple of 0"):
        normal(op.nn.attention(q, *[tensor(1, 7, 0, 4)] * 2))


def test_the_border_of_a_crop_is_inside():
    x = np.arange(12, dtype=np.float32).reshape(1, 1, 3, 4)
    data = relax.Var("x", relax.TensorStructInfo(x.shape, "float32"))
    for last, kept in ((1.0, True), (1.1, False)):
        bb = relax.BlockBuilder()
        with bb.function("main", [data]):
            made = op.image.resize2d(
                data, (3, 4), [0, 0, last, 1.0], method="linear", extrapolation_value=-1,
                coordinate_transformation_mode="tf_crop_and_resize",
            )  # fmt: skip
            bb.emit_func_output(bb.emit(made))
        got = Interpreter(LegalizeOps()(bb.get()))["main"](x).numpy()
        assert (got[0, 0, -1] == (x[0, 0, -1] if kept else -1)).all(), got


def test_sequences_of_different_lengths_keep_what_is_no_number():
    """A query that is NaN is NaN; one that sees no key is 0; a start beyond the elements is an error."""
    q, s, n = tensor(1, 4, 1, 2), tensor(4, dtype="int32"), tensor(dtype="int32")
    bb = relax.BlockBuilder()
    names = [relax.Var(name, p.struct_info) for name, p in zip("qsn", (q, s, n), strict=True)]
    with bb.function("main", names):
        query, starts, most = names
        bb.emit_func_output(bb.emit(op.nn.attention_var_len(query, query, query, starts, most)))
    x = np.float32([[[[1, 2]], [[np.nan, 0]], [[3, 4]], [[5, 6]]]])
    main = Interpreter(LegalizeOps()(bb.get()))["main"]
    got = main(x, np.int32([0, 0, 2, 3]), np.int32(2)).numpy()[0, :, 0]
    assert np.isnan(got[:2]).all() and got[2].tolist() == [3, 4] and got[3].tolist() == [0, 0]
    with pytest.raises(IndexError, match="5"):
        main(x, np.int32([0, 1, 2, 5]), np.int32(2))


@pytest.mark.parametrize(
    "pool", [lambda x: op.nn.avg_pool1d(x, 3, 3), lambda x: op.nn.adaptive_avg_pool1d(x, 2)]
)
def test_means_of_bytes_do_not_wrap(pool):
    x = tensor(1, 1, 6, dtype="uint8")
    bb = relax.BlockBuilder()
    with bb.function("main", [x]):
        bb.emit_func_output(bb.emit(pool(x)))
    given = np.array([[[200, 200, 201, 1, 1, 4]]], np.uint8)
    made = Interpreter(LegalizeOps()(bb.get()))["main"](given).numpy()
    np.testing.assert_array_equal(made, np.array([[[200, 2]]], np.uint8))


@pytest.mark.parametrize("name", ["divide", "floor_divide", "mod", "floor_mod"])
def test_whole_numbers_by_the_literal_0_are_0(name):
    x = tensor(3, dtype="int32")
    bb = relax.BlockBuilder()
    with bb.function("main", [x]):
        bb.emit_func_output(bb.emit(getattr(op, name)(x, relax.const(0, "int32"))))
    for level in (bb.get(), LegalizeOps()(bb.get())):
        assert Interpreter(level)["main"](np.int32([-7, 0, 7])).numpy().tolist() == [0, 0, 0]
