"""The TensorRT-shaped back end: what it describes runs in numpy as the model does by default."""

from __future__ import annotations

import json
from functools import partial

import numpy as np
import pytest

import loopwright as lw
from loopwright import relax
from loopwright.relax.byoc import PartitionReport, partition
from loopwright.script import ir as I
from loopwright.script import relax as R
from loopwright.tvm.tensorrt.json import BACKEND, EMIT, tensorrt
from loopwright.tvm.tensorrt.network import LAYERS, Network
from tools import demo

from ...drawing import drawn

# A module that carries functions of this process has no text that says all of it.
pytestmark = pytest.mark.no_roundtrip

DIGITS = demo.BUNDLED


def numbers(rng, *shape):
    return rng.standard_normal(shape).astype("float32")


def constant(rng, *shape):
    return relax.const(numbers(rng, *shape))


def network_of(mod, **options):
    """The only region of a module, its description written and read."""
    trt = tensorrt(**options)
    made = relax.transform.RunCodegen(backends=[trt])(partition(mod, trt))
    (module,) = made.attrs["external_mods"]
    (network,) = module.networks.values()
    assert json.loads(module.get_source(network.description["name"])) == network.description
    assert json.loads(module.get_source("json")) == [network.description]
    return Network(json.loads(network.text()), network.weights)


def graph(build, *shapes):
    """A module whose main applies `build` to inputs of these shapes."""
    builder = relax.BlockBuilder()
    params = [
        relax.Var(f"x{k}", relax.TensorStructInfo(s, "float32")) for k, s in enumerate(shapes)
    ]
    with builder.function("main", params):
        with builder.dataflow():
            out = builder.emit_output(build(*params))
        builder.emit_func_output(out)
    return builder.get()


IMAGE = (1, 4, 9, 7)
OPERATORS = {
    "conv2d": (lambda rng, x: R.nn.conv2d(x, constant(rng, 6, 4, 3, 3)), IMAGE),
    "conv2d strided, padded": (
        lambda rng, x: R.nn.conv2d(
            x, constant(rng, 6, 4, 3, 2), strides=(2, 1), padding=(1, 0, 2, 1)
        ),
        IMAGE,
    ),
    "conv2d grouped, dilated, biased": (
        lambda rng, x: R.nn.relu(
            R.add(
                R.nn.conv2d(x, constant(rng, 8, 2, 3, 3), dilation=(2, 1), groups=2),
                constant(rng, 1, 8, 1, 1),
            )
        ),
        IMAGE,
    ),
    "conv2d, leakyrelu": (
        lambda rng, x: R.nn.leakyrelu(R.nn.conv2d(x, constant(rng, 6, 4, 1, 1)), 0.2),
        IMAGE,
    ),
    "conv2d_transpose": (
        lambda rng, x: R.nn.conv2d_transpose(
            x, constant(rng, 4, 3, 3, 2), strides=(2, 3), padding=(1, 0), groups=2, dilation=(2, 1)
        ),
        IMAGE,
    ),
    "batch_norm": (
        lambda rng, x: R.nn.batch_norm(
            x,
            constant(rng, 4),
            constant(rng, 4),
            constant(rng, 4),
            relax.const(np.float32([1, 2, 3, 4])),
            axis=1,
            training=False,
        )[0],
        IMAGE,
    ),
    "matmul of two": (lambda rng, x, y: R.matmul(x, y), (2, 3, 4), (4, 5)),
    "matmul, bias, clip": (
        lambda rng, x: R.clip(R.add(R.matmul(x, constant(rng, 4, 5)), constant(rng, 5)), -1, 1),
        (3, 4),
    ),
    "max_pool2d": (
        lambda rng, x: R.nn.max_pool2d(x, (3, 2), strides=(2, 2), padding=(1, 1)),
        IMAGE,
    ),
    "max_pool2d, rounded up": (
        lambda rng, x: R.nn.max_pool2d(x, (2, 2), strides=(2, 2), ceil_mode=True),
        IMAGE,
    ),
    "avg_pool2d": (
        lambda rng, x: R.nn.avg_pool2d(x, (3, 3), strides=(2, 2), padding=(1, 1)),
        IMAGE,
    ),
    "avg_pool2d, padding counted": (
        lambda rng, x: R.nn.avg_pool2d(x, (3, 3), padding=(1, 1), count_include_pad=True),
        IMAGE,
    ),
    "avg_pool2d, rounded up": (
        lambda rng, x: R.nn.avg_pool2d(x, (2, 2), strides=(2, 2), ceil_mode=True),
        IMAGE,
    ),
    "global average": (lambda rng, x: R.nn.adaptive_avg_pool2d(x, (1, 1)), IMAGE),
    "softmax": (lambda rng, x: R.nn.softmax(x, axis=1), IMAGE),
    "concat": (lambda rng, x, y: R.concat((x, y, constant(rng, 2, 1)), axis=-1), (2, 3), (2, 2)),
    "reshape": (lambda rng, x: R.reshape(x, (7, 36)), IMAGE),
    "flatten": (lambda rng, x: R.flatten(x), IMAGE),
    "squeeze": (lambda rng, x: R.squeeze(x, [0]), IMAGE),
    "expand_dims": (lambda rng, x: R.expand_dims(x, [1]), (3, 4)),
    "permute_dims": (lambda rng, x: R.permute_dims(x, [0, 2, 3, 1]), IMAGE),
    "transposed": (lambda rng, x: R.permute_dims(x), (3, 4)),
    "sum": (lambda rng, x: R.sum(x, axis=[1, -1]), IMAGE),
    "mean of all": (lambda rng, x: R.mean(x), IMAGE),
    "max, kept": (lambda rng, x: R.max(x, axis=2, keepdims=True), IMAGE),
    "min": (lambda rng, x: R.min(x, axis=0), IMAGE),
    "unary": (
        lambda rng, x: R.exp(R.negative(R.abs(R.floor(R.ceil(R.sqrt(R.log(R.exp(R.exp(x))))))))),
        (3, 4),
    ),
    "erf": (lambda rng, x: R.erf(x), (3, 4)),
    "activations": (lambda rng, x: R.tanh(R.sigmoid(R.nn.relu(x))), (3, 4)),
    "elementwise": (
        lambda rng, x, y: R.minimum(
            R.maximum(R.divide(R.subtract(x, y), R.exp(y)), y), constant(rng, 1)
        ),
        (2, 3, 4),
        (4,),
    ),
    "power": (lambda rng, x: R.power(R.multiply(x, x), R.const(1.5, "float32")), (3, 4)),
}


@pytest.mark.sample(4)
@pytest.mark.parametrize("name", OPERATORS)
def test_an_operator_means_the_same(rng, name):
    build, *shapes = OPERATORS[name]
    mod = graph(partial(build, rng), *shapes)
    inputs = [numbers(rng, *s) for s in shapes]
    expected = lw.compile(mod)["main"](*inputs).numpy()
    network = network_of(mod)
    np.testing.assert_allclose(network.run(*inputs)[0], expected, rtol=2e-5, atol=2e-5)
    exe = lw.compile(mod, backends=[tensorrt(reference=True)])
    assert "T.call_packed(" in exe.lowered["main"].script()
    np.testing.assert_allclose(exe["main"](*inputs).numpy(), expected, rtol=2e-5, atol=2e-5)


def test_every_operator_of_the_table_is_tested(rng):
    used = set()
    for build, *shapes in OPERATORS.values():
        main = graph(partial(build, rng), *shapes)["main"]
        values = [b.value for b in main.body.blocks[0].bindings]
        used |= {v.op.name for v in values if isinstance(v, relax.Call)}
    assert set(EMIT) - used == set()


def test_a_network_is_two_files(rng, tmp_path):
    build, *shapes = OPERATORS["batch_norm"]
    network = network_of(graph(partial(build, rng), *shapes))
    path = network.save(tmp_path / "new")
    assert {p.suffix for p in path.parent.iterdir()} == {".json", ".npz"}
    x = numbers(rng, *IMAGE)
    np.testing.assert_array_equal(Network.load(path).run(x)[0], network.run(x)[0])


def test_every_layer_type_can_come_from_a_graph(rng):
    made = set()
    for build, *shapes in OPERATORS.values():
        made |= {
            la["type"]
            for la in network_of(graph(partial(build, rng), *shapes)).description["layers"]
        }
    assert made == set(LAYERS)


def test_a_whole_model_of_any_batch(rng):
    report = PartitionReport()
    partition(lw.lower(DIGITS)["FoldConstant"].after, BACKEND, report=report)
    assert {d.pattern for d in report.decisions} >= {
        "tensorrt.conv2d_relu",
        "tensorrt.softmax",
    }
    exe = lw.compile(DIGITS, backends=[tensorrt(reference=True)])
    (module,) = exe.mod.attrs["external_mods"]
    assert '"shape": ["n", 1, 16, 16]' in module.get_source("json")
    assert all(len(name) < 140 for name in module.function_names())  # of fourteen operators
    plain = lw.compile(DIGITS)
    for n in (1, 3):
        x = numbers(rng, n, 1, 16, 16)
        np.testing.assert_allclose(exe["main"](x).numpy(), plain["main"](x).numpy(), atol=1e-5)


# ---------------------------------------------------------------------- the description

TABLE = drawn("classifier")
KERNEL, BIAS = constant(TABLE, 4, 3, 3, 3), constant(TABLE, 1, 4, 1, 1)
WEIGHT, OFFSET = constant(TABLE, 64, 10), constant(TABLE, 10)


@I.ir_module
class Classifier:
    @R.function
    def main(x: R.Tensor((1, 3, 8, 8), "float32")):
        with R.dataflow():
            a = R.nn.relu(R.add(R.nn.conv2d(x, KERNEL, padding=1), BIAS))
            b = R.nn.max_pool2d(a, (2, 2), strides=(2, 2))
            c = R.nn.softmax(R.add(R.matmul(R.reshape(b, (1, 64)), WEIGHT), OFFSET))
            R.output(c)
        return c


def test_the_description_of_a_classifier():
    network = network_of(Classifier, fp16=True, max_workspace=4096)
    made = json.loads(network.text())
    assert made["builder"] == {"flags": ["FP16"], "max_workspace": 4096}
    assert [la["type"] for la in made["layers"]] == [
        "CONVOLUTION",
        "ACTIVATION",
        "POOLING",
        "SHUFFLE",
        "CONSTANT",
        "MATRIX_MULTIPLY",
        "CONSTANT",
        "ELEMENTWISE",
        "SOFTMAX",
    ]
    convolution = made["layers"][0]
    assert convolution["params"] == {
        "maps": 4,
        "kernel_size": [3, 3],
        "stride": [1, 1],
        "pre_padding": [1, 1],
        "post_padding": [1, 1],
        "dilation": [1, 1],
        "groups": 1,
    }
    assert made["tensors"][convolution["outputs"][0]] == {"dtype": "float32", "shape": [1, 4, 8, 8]}
    names = convolution["weights"]
    np.testing.assert_array_equal(network.weights[names["kernel"]], KERNEL.data.numpy())
    np.testing.assert_array_equal(network.weights[names["bias"]], BIAS.data.numpy().ravel())
    assert made["inputs"] == ["x"] and made["outputs"] == [made["layers"][-1]["outputs"][0]]


def test_a_layer_whose_weights_do_not_fit_float16_keeps_its_precision():
    mod = graph(lambda x: R.exp(R.add(x, R.const(np.float32([1e6])))), (3, 1))
    network = network_of(mod, fp16=True)
    by_type = {la["type"]: la["precision"] for la in network.description["layers"]}
    assert by_type == {"CONSTANT": "float32", "ELEMENTWISE": "float16", "UNARY": "float16"}


def test_what_the_builder_cannot_take_is_left_to_the_default():
    @I.ir_module
    class Mixed:
        @R.function
        def main(
            x: R.Tensor((1, 3, 8, 8), "float32"),
            w: R.Tensor((4, 3, 3, 3), "float32"),
            y: R.Tensor("float32", ndim=2),
        ):
            with R.dataflow():
                a = R.nn.conv2d(x, w)  # TensorRT wants the weights when it builds
                e = R.nn.relu(y)  # of no known shape
                b = R.astype(R.nn.relu(a), "int32")
                c = R.add(b, b)  # no floats
                d = R.nn.conv2d(x, KERNEL, data_layout="NCHW", out_layout="NHWC")
                R.output(c, d, e)
            return c, d, e

    report = PartitionReport()
    partition(Mixed, BACKEND, report=report)
    assert [d.pattern for d in report.decisions] == ["tensorrt.relu"]
    assert report.left == {
        "relax.nn.conv2d": 2,
        "relax.astype": 1,
        "relax.add": 1,
        "relax.nn.relu": 1,
    }


# ---------------------------------------------------------------------- running it


def test_without_a_runner_the_call_says_what_to_do(rng):
    exe = lw.compile(Classifier, backends=[BACKEND])
    with pytest.raises(lw.LoopwrightError) as error:
        exe["main"](numbers(rng, 1, 3, 8, 8))
    assert "needs TensorRT, which is not installed" in str(error.value)
    assert "instead: tensorrt(runner=...) to build and run it" in str(error.value)


def test_a_runner_gets_the_description_and_the_weights(rng):
    seen = {}

    def runner(description, weights):
        seen.update(description=description, weights=weights)
        return lambda x: np.full((1, 10), x.sum(), "float32")

    exe = lw.compile(Classifier, backends=[tensorrt(runner=runner, fp16=True)])
    x = numbers(rng, 1, 3, 8, 8)
    np.testing.assert_allclose(exe["main"](x).numpy(), np.full((1, 10), x.sum()), rtol=1e-6)
    assert seen["description"]["builder"]["flags"] == ["FP16"]
    assert set(seen["weights"]) == set(seen["description"]["weights"])


def test_an_unknown_option():
    with pytest.raises(lw.LoopwrightError) as error:
        lw.compile(Classifier, backends=[tensorrt(fp_16=True)])
    expected = "the back end tensorrt has no option fp_16\n  instead: did you mean fp16?"
    assert str(error.value) == expected


# ---------------------------------------------------------------------- descriptions that are none


def broken(change):
    network = network_of(Classifier)
    made = json.loads(network.text())
    weights = dict(network.weights)
    change(made, weights)
    with pytest.raises(lw.LoopwrightError) as error:
        Network(made, weights)
    return str(error.value).splitlines()


def test_descriptions_that_are_none():
    def no_layers(made, weights):
        del made["layers"]

    def other_format(made, weights):
        made["version"] = 7

    def unknown_type(made, weights):
        made["layers"][0]["type"] = "CONVOLUTON"

    def missing_tensor(made, weights):
        made["layers"][1]["inputs"] = ["nothing"]

    def wrong_parameter(made, weights):
        made["layers"][0]["params"]["stride"] = [1]

    def wrong_op(made, weights):
        made["layers"][1]["params"]["op"] = "RELU7"

    def missing_weight(made, weights):
        weights.clear()

    def without_bias_role(made, weights):
        made["layers"][0]["weights"] = {"bias": made["layers"][0]["weights"]["bias"]}

    what = "this is not a network description: "
    assert broken(no_layers)[0] == what + "the description has layers"
    assert broken(other_format) == [what + "version is 1", "  got: 7"]
    assert broken(unknown_type) == [
        "layer convolution_0: unknown type CONVOLUTON",
        "  instead: did you mean CONVOLUTION?",
    ]
    assert broken(missing_tensor) == [
        what + "layer activation_1 reads tensors that are there by then",
        "  got: nothing",
    ]
    assert broken(wrong_parameter)[0] == what + "layer convolution_0: stride is two integers"
    assert broken(wrong_op)[0].startswith(what + "layer activation_1: op is one of RELU, SIGMOID")
    assert broken(missing_weight)[0].startswith(what + "the values of weight ")
    assert broken(without_bias_role)[0] == what + "the weights of layer convolution_0 has kernel"
