"""Make the bundled model: a small network that reads digits.

python -m tools.make_digits [FOLDER]     writes digits.onnx and digits.npz

Two convolutions with seeded random filters, then a linear layer fitted to noisy, shifted renderings
of the zoo's font (ridge regression: one solve, no training loop). The result is the same on every
run up to the last bits of the solver.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import onnx
from numpy.lib.stride_tricks import sliding_window_view
from onnx import TensorProto, helper, numpy_helper

from .zoo.inputs import FONT, GLYPH_HEIGHT, GLYPH_WIDTH, blur, generator

FOLDER = Path(__file__).parent.parent / "src" / "loopwright" / "driver" / "data"
SIZE = 16  # height and width of an image
FILTERS = (8, 16)
RENDERINGS = 200  # of each digit, to fit the last layer
RIDGE = 1.0
SHARPNESS = 12.0  # scale of the scores before softmax


def render(digit: int, rng: np.random.Generator) -> np.ndarray:
    """A (16, 16) image of `digit` in [0, 1]: dark on light, twice the font's size, shifted."""
    image = np.ones((SIZE, SIZE))
    top = rng.integers(0, SIZE - 2 * GLYPH_HEIGHT + 1)
    left = rng.integers(0, SIZE - 2 * GLYPH_WIDTH + 1)
    ink = np.kron(FONT[str(digit)], np.ones((2, 2)))
    image[top : top + ink.shape[0], left : left + ink.shape[1]] -= 0.9 * ink
    return np.clip(blur(image) + rng.normal(0, 0.05, image.shape), 0, 1)


def images(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """`count` images of each digit, (10 * count, 1, 16, 16) float32, and their labels."""
    rng = generator(seed)
    labels = np.tile(np.arange(10), count)
    pictures = np.stack([render(digit, rng) for digit in labels])
    return pictures[:, None].astype(np.float32), labels


def _conv_relu_pool(x: np.ndarray, weight: np.ndarray) -> np.ndarray:
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = sliding_window_view(padded, (3, 3), axis=(2, 3))
    y = np.maximum(np.einsum("nchwij,ocij->nohw", windows, weight, optimize=True), 0)
    n, c, h, w = y.shape
    return y.reshape(n, c, h // 2, 2, w // 2, 2).max(axis=(3, 5))


def weights() -> dict[str, np.ndarray]:
    """The initializers of the model."""
    rng = generator(7)
    first = rng.normal(0, 1 / 3, (FILTERS[0], 1, 3, 3)).astype(np.float32)
    second = rng.normal(0, 1 / np.sqrt(72), (FILTERS[1], FILTERS[0], 3, 3)).astype(np.float32)
    pictures, labels = images(RENDERINGS, seed=11)
    features = _conv_relu_pool(_conv_relu_pool(pictures, first), second).reshape(len(labels), -1)
    features = np.hstack([features, np.ones((len(labels), 1))])
    target = SHARPNESS * np.eye(10)[labels]
    gram = features.T @ features + RIDGE * np.eye(features.shape[1])
    solved = np.linalg.solve(gram, features.T @ target).astype(np.float32)
    return {
        "conv1.weight": first,
        "conv2.weight": second,
        "rows": np.array([-1, solved.shape[0] - 1], np.int64),
        "fc.weight": solved[:-1],
        "fc.bias": solved[-1],
    }


def model() -> onnx.ModelProto:
    """The network: image (n, 1, 16, 16) to probability (n, 10)."""

    def conv(number: int, source: str) -> list[onnx.NodeProto]:
        name = f"conv{number}"
        window = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "strides": [1, 1]}
        pool = {"kernel_shape": [2, 2], "strides": [2, 2]}
        return [
            helper.make_node("Conv", [source, f"{name}.weight"], [name], f"/{name}", **window),
            helper.make_node("Relu", [name], [f"relu{number}"], f"/relu{number}"),
            helper.make_node(
                "MaxPool", [f"relu{number}"], [f"pool{number}"], f"/pool{number}", **pool
            ),
        ]

    nodes = [
        *conv(1, "image"),
        *conv(2, "pool1"),
        helper.make_node("Reshape", ["pool2", "rows"], ["flat"], "/flatten"),
        helper.make_node("MatMul", ["flat", "fc.weight"], ["product"], "/fc/MatMul"),
        helper.make_node("Add", ["product", "fc.bias"], ["scores"], "/fc/Add"),
        helper.make_node("Softmax", ["scores"], ["probability"], "/softmax", axis=1),
    ]
    graph = helper.make_graph(
        nodes,
        "digits",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, ["n", 1, SIZE, SIZE])],
        [helper.make_tensor_value_info("probability", TensorProto.FLOAT, ["n", 10])],
        [numpy_helper.from_array(value, name) for name, value in weights().items()],
    )
    made = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 17)], producer_name="loopwright", ir_version=8
    )
    onnx.checker.check_model(made, full_check=True)
    return made


def main(folder: Path) -> None:
    """Write the model, and one image of each digit that it was not fitted to."""
    onnx.save(model(), folder / "digits.onnx")
    pictures, labels = images(1, seed=13)
    np.savez_compressed(folder / "digits.npz", image=pictures, label=labels)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER)
