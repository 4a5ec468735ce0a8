"""Models trained by relax.training, beside the same training written in numpy."""

from __future__ import annotations

import numpy as np
import pytest

import loopwright as lw
from loopwright import relax, tir
from loopwright.base.errors import LoopwrightError
from loopwright.ir.module import IRModule
from loopwright.relax.interpreter import Interpreter
from loopwright.relax.struct_info import TensorStructInfo
from loopwright.relax.training import AppendLoss, SetupTrainer, Trainer
from loopwright.relax.training.loss import (
    CategoricalCrossEntropyLoss,
    CrossEntropyLoss,
    L1Loss,
    MSELoss,
)
from loopwright.relax.training.optimizer import SGD, Adam, MomentumSGD
from loopwright.script import ir as I
from loopwright.script import relax as R

from ...programs import graph

# ---------------------------------------------------------------- losses

N, C = 6, 5


def softmax(x):
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def class_loss(p, t, w, ignored=-100, mean=True):
    """The weighted mean or sum of -log(softmax) at the classes t."""
    w = np.where(t == ignored, 0, (np.ones(C) if w is None else w)[t])
    each = -w * np.log(softmax(p))[np.arange(N), t]
    return each.sum() / (w.sum() if mean else 1)


def one_hot(t):
    return np.eye(C)[t]


LOSSES = {
    "l1": (L1Loss(), lambda p, t: np.abs(p - t).mean()),
    "l1 sum": (L1Loss("sum"), lambda p, t: np.abs(p - t).sum()),
    "l1 none": (L1Loss("none"), lambda p, t: np.abs(p - t)),
    "mse": (MSELoss(), lambda p, t: ((p - t) ** 2).mean()),
    "mse sum": (MSELoss("sum"), lambda p, t: ((p - t) ** 2).sum()),
    "classes": (CrossEntropyLoss(), lambda p, t: class_loss(p, t, None)),
    "weighted classes": (CrossEntropyLoss(), class_loss),
    "ignored": (CrossEntropyLoss("sum", 2), lambda p, t, w: class_loss(p, t, w, 2, False)),
    "one hot": (
        CategoricalCrossEntropyLoss("sum"),
        lambda p, t, w: (-np.log(softmax(p)) * t * w).sum(),
    ),
    "one hot mean": (
        CategoricalCrossEntropyLoss(),
        lambda p, t: (-np.log(softmax(p)) * t).mean(),
    ),
    "one hot ignored": (
        CategoricalCrossEntropyLoss("mean", 1),
        lambda p, t: class_loss(p, t.argmax(axis=1), None, 1),
    ),
}


@pytest.mark.parametrize("name", LOSSES)
def test_losses(name):
    loss, meaning = LOSSES[name]
    rng = np.random.default_rng(1)
    classes = rng.integers(0, C, N)
    targets = rng.standard_normal((N, C)).astype("float32")
    if isinstance(loss, CrossEntropyLoss):
        targets = one_hot(classes).astype("float32") if "one hot" in name else classes
    weights = rng.uniform(0.5, 2, C).astype("float32")
    args = [rng.standard_normal((N, C)).astype("float32"), targets, weights]
    args = args[: meaning.__code__.co_argcount if meaning is not class_loss else 3]
    mod = IRModule({"main": loss(*(TensorStructInfo(a.shape, str(a.dtype)) for a in args))})
    got = Interpreter(mod)["main"](*args).numpy()
    np.testing.assert_allclose(got, meaning(*args), rtol=1e-5)


def test_losses_say_what_they_take():
    with pytest.raises(ValueError, match="one of mean, sum, none"):
        L1Loss("median")
    with pytest.raises(ValueError, match="takes the types of predictions, targets, weights"):
        MSELoss()(TensorStructInfo((2,), "float32"))


# ---------------------------------------------------------------- optimizers


def sgd(p, g, s, n):
    return p - 0.1 * (g + 0.01 * p), s


def momentum(p, g, s, n):
    g = g + 0.01 * p
    v = 0.9 * s[0] + (1 - 0.3) * g
    return p - 0.1 * (g + 0.9 * v), [v]


def adam(p, g, s, n):
    m, v = 0.8 * s[0] + 0.2 * g, 0.85 * s[1] + 0.15 * g * g
    return p - 0.1 * (m / (1 - 0.8**n)) / (np.sqrt(v / (1 - 0.85**n)) + 1e-6), [m, v]


def plain_momentum(p, g, s, n):
    v = 0.9 * s[0] + g
    return p - 0.1 * v, [v]


def decaying_adam(p, g, s, n):
    return adam(p, g + 0.01 * p, s, n)


OPTIMIZERS = {
    "sgd": (SGD(0.1, 0.01), sgd, 0),
    "momentum": (MomentumSGD(0.1, 0.9, 0.3, 0.01, nesterov=True), momentum, 1),
    "adam": (Adam(0.1, (0.8, 0.85), 1e-6), adam, 2),
    "plain momentum": (MomentumSGD(0.1, 0.9), plain_momentum, 1),
    "decaying adam": (Adam(0.1, (0.8, 0.85), 1e-6, 0.01), decaying_adam, 2),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_steps(name):
    optimizer, meaning, slots = OPTIMIZERS[name]
    shapes = [(3, 2), (2,)]
    variables = [
        relax.Var(f"p{k}", TensorStructInfo(shape, "float64")) for k, shape in enumerate(shapes)
    ]
    assert optimizer.init(variables) is optimizer
    run = Interpreter(IRModule({"main": optimizer.get_function()}))["main"]
    rng = np.random.default_rng(3)
    values = [rng.standard_normal(s) for s in shapes]
    params, state = tuple(map(lw.runtime.tensor, values)), optimizer.state
    kept = [[np.zeros(s)] * slots for s in shapes]
    for n in range(1, 5):
        grads = [rng.standard_normal(s) for s in shapes]
        params, state = run(params, tuple(map(lw.runtime.tensor, grads)), state)
        pairs = [meaning(p, g, s, n) for p, g, s in zip(values, grads, kept, strict=True)]
        values, kept = [p for p, _ in pairs], [s for _, s in pairs]
        for got, want in zip(params, values, strict=True):
            np.testing.assert_allclose(got.numpy(), want, rtol=1e-12)
        assert state[0].numpy() == n


def test_an_optimizer_of_nothing_that_can_be_moved():
    one = relax.Var("one", TensorStructInfo((2,), "float32"))
    cases = [
        ([one, one], "given twice"),
        ([one, relax.Var("b", TensorStructInfo((2,), "float64"))], "of one float type"),
        (
            [relax.Var("c", TensorStructInfo((tir.Var("n", "int64"),), "float32"))],
            "of known shapes",
        ),
        (relax.Tuple([one]), "takes a list of variables"),
    ]
    for rank in (-1, 2):
        of_rank = TensorStructInfo(dtype="float32", ndim=rank)
        cases.append(([relax.Var("d", of_rank)], "of known shapes"))
    cases.append(([relax.Var("e", TensorStructInfo((2,), "int32"))], "of one float type"))
    cases.append(([relax.Var("f", relax.ShapeStructInfo([2]))], "variables that are tensors"))
    cases.append(([relax.const(1.0)], "variables that are tensors"))
    for params, text in cases:
        with pytest.raises(ValueError, match=text):
            SGD(0.1).init(params)
    with pytest.raises(RuntimeError, match=r"call init\(\) for the optimizer before"):
        SGD(0.1).get_function()
    assert len(Adam(0.1).init(relax.Var("g", TensorStructInfo((), "float16"))).state) == 5


def test_an_optimizer_of_nothing_counts_steps():
    run = Interpreter(IRModule({"main": Adam(0.1).init([]).get_function()}))["main"]
    params, state = run((), (), Adam(0.1).init([]).state)
    assert len(params) == 0
    np.testing.assert_allclose([float(s.numpy()) for s in state], [1, 0.9, 0.999], rtol=1e-6)


def test_parameters_are_drawn_by_what_goes_in_and_out():
    """From sqrt(6 / (in + out)), of a filter times the size of its window."""
    limits = {(40, 20): 6 / 60, (16, 8, 3, 3): 6 / (24 * 9), (50,): 6 / 100, (0, 0): 6}
    variables = [relax.Var(f"p{k}", TensorStructInfo(s, "float64")) for k, s in enumerate(limits)]
    body = relax.SeqExpr([], relax.Tuple([]))
    mod = IRModule({"backbone": relax.Function(variables, body, relax.TupleStructInfo([]))})
    attrs = {"input_num": 0, "param_num": len(limits), "optim_state": []}
    trainer = Trainer(mod.with_attrs(attrs), None, lw.cpu())
    assert not np.any(trainer.export_params()["p0"].numpy())
    np.random.seed(0)
    trainer.xaiver_uniform_init_params()
    for drawn, (shape, square) in zip(
        trainer.export_params().values(), limits.items(), strict=True
    ):
        assert drawn.shape == shape and drawn.dtype == "float64"
        most = np.abs(drawn.numpy()).max(initial=0)
        assert most <= np.sqrt(square) and (0 in shape or most > 0.9 * np.sqrt(square))


# ---------------------------------------------------------------- whole models


@I.ir_module
class Layers:
    """Two layers: tanh(x @ w0 + b0) @ w1 + b1."""

    I.module_attrs({"param_num": 4, "state_num": 0})

    @R.function
    def backbone(
        x: R.Tensor((8, 4), "float32"),
        w0: R.Tensor((4, 16), "float32"),
        b0: R.Tensor((16,), "float32"),
        w1: R.Tensor((16, 3), "float32"),
        b1: R.Tensor((3,), "float32"),
    ):
        with R.dataflow():
            hidden = R.tanh(R.add(R.matmul(x, w0), b0))
            out = R.add(R.matmul(hidden, w1), b1)
            R.output(out)
        return out


OUT = TensorStructInfo((8, 3), "float32")
CLASSES = TensorStructInfo((8,), "int64")


def trained(mod, loss, optimizer, targets, **options):
    """The trainer of a model, compiled."""
    mod = SetupTrainer(loss, optimizer, [OUT, targets])(mod)
    vm = relax.VirtualMachine(lw.compile(mod), lw.cpu())
    return Trainer(mod, vm, lw.cpu(), **options)


def mse_gradient(out, y):
    return ((out - y) ** 2).mean(), 2 * (out - y) / out.size


def class_gradient(out, t):
    p = softmax(out)
    loss = -np.log(p[np.arange(len(t)), t]).mean()
    return loss, (p - np.eye(3)[t]) / len(t)


NETWORKS = {
    "sgd, mse": (SGD(0.1, 0.01), sgd, 0, MSELoss(), mse_gradient),
    "momentum, classes": (
        MomentumSGD(0.1, 0.9, 0.3, 0.01, nesterov=True), momentum, 1, CrossEntropyLoss(),
        class_gradient,
    ),
    "adam, classes": (
        Adam(0.1, (0.8, 0.85), 1e-6), adam, 2, CrossEntropyLoss(), class_gradient
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", NETWORKS)
def test_two_layers_in_a_hundred_steps(name):
    optimizer, meaning, slots, loss, gradient = NETWORKS[name]
    rng = np.random.default_rng(5)
    x = rng.standard_normal((8, 4)).astype("float32")
    by_class = gradient is class_gradient
    y = rng.integers(0, 3, 8) if by_class else rng.standard_normal((8, 3)).astype("float32")
    start = {
        v.name_hint: rng.normal(0, 0.3, [int(d) for d in v.struct_info.get_shape()])
        for v in Layers["backbone"].params[1:]
    }
    trainer = trained(Layers, loss, optimizer, CLASSES if by_class else OUT)
    trainer.load_params({k: v.astype("float32") for k, v in start.items()})
    values = {k: v.astype("float32").astype("float64") for k, v in start.items()}
    kept = {k: [np.zeros(v.shape)] * slots for k, v in values.items()}
    losses, wanted = [], []
    for n in range(1, 101):
        losses.append(float(trainer.update(x, y).numpy()))
        h = np.tanh(x @ values["w0"] + values["b0"])
        want, g = gradient(h @ values["w1"] + values["b1"], y)
        wanted.append(want)
        back = (g @ values["w1"].T) * (1 - h * h)
        grads = {"w0": x.T @ back, "b0": back.sum(0), "w1": h.T @ g, "b1": g.sum(0)}
        for key, grad in grads.items():
            values[key], kept[key] = meaning(values[key], grad, kept[key], n)
    assert wanted[-1] < wanted[0] / 3
    np.testing.assert_allclose(losses, wanted, rtol=0, atol=1e-5)


def test_batches_of_any_size():
    @I.ir_module
    class Model:
        I.module_attrs({"param_num": 1, "state_num": 0})

        @R.function
        def backbone(x: R.Tensor(("n", 4), "float32"), w: R.Tensor((4, 3), "float32")):
            with R.dataflow():
                out = R.matmul(x, w)
                R.output(out)
            return out

    info = TensorStructInfo((tir.Var("m", "int64"), 3), "float32")
    mod = SetupTrainer(MSELoss(), SGD(0.1), [info, info])(Model)
    trainer = Trainer(mod, relax.VirtualMachine(lw.compile(mod), lw.cpu()), lw.cpu())
    rng, w = np.random.default_rng(2), np.zeros((4, 3))
    for size in (5, 1, 8):
        x, y = (rng.standard_normal((size, k)).astype("float32") for k in (4, 3))
        loss = trainer.update(x, y)
        want, gradient = mse_gradient(x @ w, y)
        np.testing.assert_allclose(loss.numpy(), want, rtol=1e-5)
        w = w - 0.1 * x.T @ gradient
    np.testing.assert_allclose(trainer.export_params()["w"].numpy(), w, rtol=1e-5, atol=1e-7)


@I.ir_module
class Counting:
    """A model with a state, which each step moves by one."""

    I.module_attrs({"param_num": 1, "state_num": 1})

    @R.function
    def backbone(
        x: R.Tensor((8, 3), "float32"), w: R.Tensor((3,), "float32"), s: R.Tensor((), "float32")
    ):
        with R.dataflow():
            out = R.multiply(x, w)
            new = R.add(s, R.const(1, "float32"))
            R.output(out, new)
        return out, new


def test_states_are_kept():
    trainer = trained(Counting, MSELoss("sum"), SGD(0.1), OUT)
    x = np.ones((8, 3), "float32")
    for _ in range(3):
        trainer.update([x], [x])
    assert trainer.export_states()["s"].numpy() == 3
    assert trainer.predict([x]).shape == (8, 3)
    assert trainer.export_states()["s"].numpy() == 3
    trainer.load_states({"s": np.float32(7)})
    trainer.update(x, x)
    assert trainer.export_states()["s"].numpy() == 8
    with pytest.raises(ValueError, match="give s"):
        trainer.load_states({"t": np.float32(7)})
    mod = SetupTrainer(MSELoss("sum"), SGD(0.1), [OUT, OUT])(Counting)
    empty = Trainer(mod, trainer.vm, lw.cpu(), zero_init_param_state=False)
    empty.zero_init_params()
    with pytest.raises(
        LoopwrightError, match="(?s)states.*got: s\n.*zero_init_states or load_states"
    ):
        empty.predict(x)


def test_parameters_must_be_set():
    trainer = trained(Layers, MSELoss(), SGD(0.1), OUT, zero_init_param_state=False)
    x = np.ones((8, 4), "float32")
    with pytest.raises(LoopwrightError) as error:
        trainer.predict(x)
    assert str(error.value) == (
        "the parameters of the trainer are not set\n  got: w0, b0, w1, b1\n"
        "  instead: call zero_init_params, xaiver_uniform_init_params or load_params first"
    )
    trainer.xaiver_uniform_init_params()
    drawn = trainer.export_params()["w0"].numpy()
    assert np.abs(drawn).max() <= np.sqrt(6 / 20) and drawn.std() > 0.1
    with pytest.raises(ValueError, match="the model takes 1 inputs"):
        trainer.predict([x, x])
    w0, b0, w1, b1 = (p.numpy() for p in trainer.export_params().values())
    wanted = np.tanh(x @ w0 + b0) @ w1 + b1
    np.testing.assert_allclose(trainer.predict(x).numpy(), wanted, rtol=1e-5, atol=1e-6)
    assert "matmul" in str(trainer.profile_adjoint(x, np.ones((8, 3), "float32")))


def test_modules_that_cannot_be_trained():
    setup = SetupTrainer(MSELoss(), SGD(0.1), [OUT, OUT])
    with pytest.raises(LoopwrightError, match="the module has no attribute param_num"):
        setup(Layers.without_attr("param_num"))
    with pytest.raises(LoopwrightError, match="takes inputs, 4 parameters and 1 states"):
        setup(Layers.with_attr("state_num", 1))


# ---------------------------------------------------------------- AppendLoss


def test_a_loss_of_symbolic_shapes():
    @R.function
    def main(x: R.Tensor(("n", 3), "float32")):
        with R.dataflow():
            out = R.exp(x)
            R.output(out)
        return out

    @R.function
    def loss(p: R.Tensor(("m", "k"), "float32"), t: R.Tensor(("m", "k"), "float32")):
        with R.dataflow():
            out = R.sum(R.multiply(p, t))
            R.output(out)
        return out

    mod = AppendLoss("main", loss, new_func_name="total")(IRModule({"main": main}))
    assert [str(p.struct_info) for p in mod["total"].params] == [
        'R.Tensor((n, 3), dtype="float32")'
    ] * 2
    x = np.ones((2, 3), "float32")
    got = Interpreter(mod)["total"](x, x).numpy()
    np.testing.assert_allclose(got, 6 * np.e, rtol=1e-6)
    with pytest.raises(LoopwrightError, match="parameter t of the loss cannot be this result"):
        AppendLoss("main", loss, 2)(IRModule({"main": _two()}))


def _two():
    @R.function
    def main(x: R.Tensor((2, 3), "float32")):
        with R.dataflow():
            a = R.exp(x)
            b = R.sum(x)
            R.output(a, b)
        return a, b

    return main


UNFIT = {
    "takes": (
        "the loss is to take 2 results of the function\\n.*1 results, and a loss of 1 parameters",
        "out = R.sum(p)",
        "out",
        2,
    ),
    "no scalar": ("must return a scalar variable", "out = R.exp(p)", "out", 1),
    "no variable": ("must return a scalar variable", "out = R.sum(p)", "R.const(1.0)", 1),
    "a tuple": ("must return a scalar variable", "out = (p, p)", "out", 1),
}


@pytest.mark.parametrize("name", UNFIT)
def test_losses_that_do_not_fit(name):
    match, body, result, count = UNFIT[name]
    model = graph("out = R.exp(x)", x=(2, 3))
    loss = graph(body, result if result == "out" else "out", p=(2, 3))["main"]
    if result != "out":
        loss = loss.replace(body=loss.body.replace(body=relax.const(1.0)))
    with pytest.raises(LoopwrightError, match="(?s)" + match):
        AppendLoss("main", loss, count)(model)


def test_a_model_that_returns_no_variable():
    @R.function
    def main(x: R.Tensor((2, 3), "float32")):
        with R.dataflow():
            out = R.exp(x)
            R.output(out)
        return (out, R.const(1.0, "float32"))

    loss = graph("out = R.sum(p)", p=(2, 3))["main"]
    with pytest.raises(LoopwrightError, match="the function must return variables"):
        AppendLoss("main", loss)(IRModule({"main": main}))
