import numpy as np
import pytest

from loopwright import te, tir
from loopwright.testing import workloads
from loopwright.tir.interpreter import run


def made(rng, operator, *args, **options):
    """The inputs and the output of an operator of small integers."""
    func = te.create_prim_func(operator(*args, **options))
    *inputs, out = (tuple(int(d) for d in b.shape) for b in func.buffer_map.values())
    arrays = [rng.integers(-3, 4, shape).astype("float32") for shape in inputs]
    result = np.empty(out, "float32")
    run(func, [*arrays, result])
    return arrays, result


def windows(data, kernel, stride, padding, dilation):
    """{tap: the data at it for each place of the output}, of data NHWC."""
    pads = [(0, 0), (padding, padding), (padding, padding), *[(0, 0)] * (data.ndim - 3)]
    padded = np.pad(data, pads)
    height, width = ((s - dilation * (kernel - 1) - 1) // stride + 1 for s in padded.shape[1:3])
    for y in range(kernel):
        for x in range(kernel):
            top, left = y * dilation, x * dilation
            rows = slice(top, top + (height - 1) * stride + 1, stride)
            yield (y, x), padded[:, rows, left : left + (width - 1) * stride + 1 : stride]


@pytest.mark.parametrize("groups", [1, 2])
def test_convolution(rng, groups):
    (data, weight), out = made(rng, workloads.conv2d_nhwc, 1, 7, 6, 4, 6, 3, 2, 1, 2, groups)
    size = 4 // groups, 6 // groups
    wanted = 0.0
    for tap, part in windows(data, 3, 2, 1, 2):
        wanted = wanted + np.concatenate(
            [
                part[..., g * size[0] : (g + 1) * size[0]]
                @ weight[tap][:, g * size[1] : (g + 1) * size[1]]
                for g in range(groups)
            ],
            axis=-1,
        )
    np.testing.assert_array_equal(out, wanted)


def test_depthwise_and_capsules(rng):
    (data, weight), out = made(rng, workloads.depthwise_conv2d_nhwc, 1, 6, 6, 3, 3, 2, 1)
    wanted = sum(part * weight[0][tap] for tap, part in windows(data, 3, 2, 1, 1))
    np.testing.assert_array_equal(out, wanted)
    (data, weight), out = made(rng, workloads.conv2d_capsule_nhwijc, 1, 4, 4, 2, 3, 3, 1, 1, 2)
    wanted = sum(
        np.einsum("nhwikc,kjcd->nhwijd", part, weight[tap])
        for tap, part in windows(data, 3, 1, 1, 1)
    )
    np.testing.assert_array_equal(out, wanted)


@pytest.mark.parametrize(("stride", "padding"), [(1, 0), (2, 1), (3, 1)])
def test_transposed_convolution(rng, stride, padding):
    (data, weight), out = made(
        rng, workloads.conv2d_transpose_nhwc, 1, 3, 4, 2, 3, 4, stride, padding
    )
    whole = np.zeros((1, (3 - 1) * stride + 4, (4 - 1) * stride + 4, 3))
    for h, w in np.ndindex(3, 4):
        top, left = h * stride, w * stride
        whole[:, top : top + 4, left : left + 4] += np.einsum(
            "nc,yxcd->nyxd", data[:, h, w], weight
        )
    end = (slice(padding, size - padding) for size in whole.shape[1:3])
    np.testing.assert_array_equal(out, whole[:, *end])


def test_products(rng):
    (a, b), out = made(rng, workloads.matmul_relu, 3, 4, 5)
    np.testing.assert_array_equal(out, np.maximum(a @ b, 0))
    (a, b), out = made(rng, workloads.batch_matmul_nkkm, 2, 3, 4, 5)
    np.testing.assert_array_equal(out, a @ b)
    (a, b), out = made(rng, workloads.transpose_batch_matmul, 2, 3, 2, 4)
    np.testing.assert_array_equal(out, np.einsum("bihd,bjhd->bhij", a, b))


def test_batch_norm(rng):
    (x, w, bias, offset, scale), out = made(
        rng, workloads.conv2d_nhwc_bn_relu, 1, 4, 4, 2, 3, 1, 1, 0
    )
    wanted = np.maximum((x @ w[0, 0] + bias) * scale + offset, 0)
    np.testing.assert_array_equal(out, wanted)
    (x, w, bias, scale, offset), out = made(
        rng, workloads.conv2d_nchw_bias_bn_relu, 1, 4, 4, 2, 3, 1, 1, 1, 0
    )
    wanted = np.einsum("nchw,oc->nohw", x, w[:, :, 0, 0])
    np.testing.assert_array_equal(out, np.maximum((wanted + bias) * scale + offset, 0))


@pytest.mark.parametrize("name", workloads.CONFIGS)
def test_sizes(name):
    for n in range(len(workloads.CONFIGS[name][1])):
        assert tir.analysis.estimate_tir_flops(workloads.create_te_workload(name, n)) > 0


def test_unknown():
    with pytest.raises(KeyError, match="unknown workload"):
        workloads.create_te_workload("XYZ", 0)


@pytest.mark.parametrize("padding", [0, 1])
def test_windows_of_a_pool(rng, padding):
    (data,), out = made(rng, workloads.max_pool2d_nchw, 2, 4, 5, 3, padding)
    last = np.moveaxis(data, 1, 3)
    last = np.pad(last, [(0, 0), *[(padding,) * 2] * 2, (0, 0)], constant_values=-np.inf)
    wanted = np.max([part for _, part in windows(last, 2, 1, 0, 1)], 0)
    np.testing.assert_array_equal(out, np.moveaxis(wanted, 3, 1))
