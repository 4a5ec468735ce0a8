"""Plain architectures in torch: random weights from a fixed seed, float32, static shapes.

`build(name)` gives a module in eval mode and its inputs; `export` writes it as ONNX (opset 18). The
transformers of `_HUGGING_FACE` need the package `transformers`; nothing is downloaded.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .models import MLP, mlp_input, mlp_weights


def conv_bn(
    inputs: int,
    outputs: int,
    kernel: int,
    stride: int = 1,
    groups: int = 1,
    activation: type[nn.Module] | None = None,
) -> nn.Sequential:
    """Convolution that keeps the size (over stride), batch norm, activation."""
    convolution = nn.Conv2d(
        inputs, outputs, kernel, stride, (kernel - 1) // 2, groups=groups, bias=False
    )
    layers: list[nn.Module] = [convolution, nn.BatchNorm2d(outputs)]
    if activation is not None:
        layers.append(activation())
    return nn.Sequential(*layers)


class Bottleneck(nn.Module):
    """ResNet's 1x1, 3x3, 1x1 block with its shortcut (He et al. 2015)."""

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        outputs = 4 * width
        self.body = nn.Sequential(
            conv_bn(inputs, width, 1, activation=nn.ReLU),
            conv_bn(width, width, 3, stride, activation=nn.ReLU),
            conv_bn(width, outputs, 1),
        )
        same = stride == 1 and inputs == outputs
        self.shortcut = nn.Identity() if same else conv_bn(inputs, outputs, 1, stride)

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.body(x) + self.shortcut(x))


class BasicBlock(nn.Module):
    """ResNet's two 3x3 with their shortcut, of the smaller networks."""

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            conv_bn(inputs, width, 3, stride, activation=nn.ReLU), conv_bn(width, width, 3)
        )
        same = stride == 1 and inputs == width
        self.shortcut = nn.Identity() if same else conv_bn(inputs, width, 1, stride)

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.body(x) + self.shortcut(x))


class Classifier(nn.Module):
    """Features, mean over the image, 1000 classes."""

    def __init__(self, features: list[nn.Module], channels: int) -> None:
        super().__init__()
        self.features = nn.Sequential(*features)
        self.fc = nn.Linear(channels, 1000)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(torch.flatten(F.adaptive_avg_pool2d(self.features(x), 1), 1))


def _resnet(block: type[nn.Module], counts: Sequence[int], factor: int) -> nn.Module:
    """factor: a block's outputs over its width."""
    layers: list[nn.Module] = [conv_bn(3, 64, 7, 2, activation=nn.ReLU), nn.MaxPool2d(3, 2, 1)]
    channels = 64
    for stage, count in enumerate(counts):
        for index in range(count):
            stride = 2 if stage and not index else 1
            layers.append(block(channels, 64 << stage, stride))
            channels = factor * (64 << stage)
    return Classifier(layers, channels)


def resnet18() -> nn.Module:
    return _resnet(BasicBlock, (2, 2, 2, 2), 1)


def resnet50() -> nn.Module:
    return _resnet(Bottleneck, (3, 4, 6, 3), 4)


class InvertedResidual(nn.Module):
    """MobileNetV2's block: widen, depthwise, narrow (Sandler et al. 2018)."""

    def __init__(self, inputs: int, outputs: int, stride: int, expansion: int) -> None:
        super().__init__()
        hidden = inputs * expansion
        widen = [conv_bn(inputs, hidden, 1, activation=nn.ReLU6)] if expansion != 1 else []
        self.body = nn.Sequential(
            *widen,
            conv_bn(hidden, hidden, 3, stride, groups=hidden, activation=nn.ReLU6),
            conv_bn(hidden, outputs, 1),
        )
        self.residual = stride == 1 and inputs == outputs

    def forward(self, x: Tensor) -> Tensor:
        return x + self.body(x) if self.residual else self.body(x)


def mobilenet_v2() -> nn.Module:
    layers: list[nn.Module] = [conv_bn(3, 32, 3, 2, activation=nn.ReLU6)]
    channels = 32
    stages = (
        *((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2)),
        *((6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)),
    )
    for expansion, outputs, count, stride in stages:
        for index in range(count):
            step = stride if index == 0 else 1
            layers.append(InvertedResidual(channels, outputs, step, expansion))
            channels = outputs
    layers.append(conv_bn(channels, 1280, 1, activation=nn.ReLU6))
    return Classifier(layers, 1280)


class RMSNorm(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5) * self.weight


class DecoderBlock(nn.Module):
    """Llama's block for one new token at a fixed position, with a cache of the past."""

    def __init__(self, width: int, heads: int, hidden: int, position: int) -> None:
        super().__init__()
        self.heads, self.head_width = heads, width // heads

        def linear(inputs: int, outputs: int) -> nn.Linear:
            return nn.Linear(inputs, outputs, bias=False)

        self.norm1, self.norm2 = RMSNorm(width), RMSNorm(width)
        self.query, self.key, self.value = (linear(width, width) for _ in range(3))
        self.out = linear(width, width)
        self.gate, self.up = linear(width, hidden), linear(width, hidden)
        self.down = linear(hidden, width)
        half = torch.arange(0, self.head_width, 2).float() / self.head_width
        angle = (position * 10000**-half).repeat(2)
        self.register_buffer("cos", angle.cos())
        self.register_buffer("sin", angle.sin())

    def rotate(self, x: Tensor) -> Tensor:
        """Rotary position embedding (Su et al. 2021)."""
        first, second = x.chunk(2, -1)
        return x * self.cos + torch.cat([-second, first], -1) * self.sin

    def split(self, x: Tensor) -> Tensor:
        return x.view(1, 1, self.heads, self.head_width).transpose(1, 2)

    def forward(self, x: Tensor, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        h = self.norm1(x)
        query, key = self.rotate(self.split(self.query(h))), self.rotate(self.split(self.key(h)))
        value = self.split(self.value(h))
        keys, values = torch.cat([keys, key], 2), torch.cat([values, value], 2)
        scores = query @ keys.transpose(-1, -2) * self.head_width**-0.5
        mixed = torch.softmax(scores, -1) @ values
        x = x + self.out(mixed.transpose(1, 2).reshape(1, 1, -1))
        h = self.norm2(x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h)), key, value


class LlamaDecode(nn.Module):
    """One step of decoding: token id and cache to logits and the new keys and values."""

    def __init__(self, width: int, heads: int, hidden: int, past: int, words: int, layers: int):
        super().__init__()
        self.embedding = nn.Embedding(words, width)
        self.blocks = nn.ModuleList(DecoderBlock(width, heads, hidden, past) for _ in range(layers))
        self.norm = RMSNorm(width)
        self.head = nn.Linear(width, words, bias=False)

    def forward(self, ids: Tensor, pk: Tensor, pv: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        x = self.embedding(ids)
        keys, values = [], []
        for index, block in enumerate(self.blocks):
            x, key, value = block(x, pk[index], pv[index])
            keys.append(key)
            values.append(value)
        return self.head(self.norm(x)), torch.stack(keys), torch.stack(values)


class FirstOutput(nn.Module):
    """A transformers model with one named input and its first output."""

    def __init__(self, model: nn.Module, argument: str, **options: bool) -> None:
        super().__init__()
        self.model, self.argument, self.options = model, argument, options

    def forward(self, x: Tensor) -> Tensor:
        return self.model(**{self.argument: x}, return_dict=False, **self.options)[0]


def mlp() -> nn.Module:
    """The MLP with the weights of its ONNX file."""
    layers = nn.Sequential()
    layers.add_module("fc1", nn.Linear(784, 128))
    layers.add_module("relu", nn.ReLU())
    layers.add_module("fc2", nn.Linear(128, 10))
    layers.load_state_dict({k: torch.from_numpy(v) for k, v in mlp_weights().items()})
    return layers


def _mlp_input(batch: int) -> dict[str, Tensor]:
    return {name: torch.from_numpy(value) for name, value in mlp_input(batch).items()}


def bert_base() -> nn.Module:
    from transformers import BertConfig, BertModel

    return FirstOutput(BertModel(BertConfig(attn_implementation="eager")), "input_ids")


def bert_tiny() -> nn.Module:
    """BERT of 2 layers of width 128 (Turc et al. 2019)."""
    from transformers import BertConfig, BertModel

    sizes = {"hidden_size": 128, "intermediate_size": 512}
    counts = {"num_hidden_layers": 2, "num_attention_heads": 2}
    config = BertConfig(**sizes, **counts, attn_implementation="eager")
    return FirstOutput(BertModel(config), "input_ids")


def vit_b16() -> nn.Module:
    from transformers import ViTConfig, ViTForImageClassification

    config = ViTConfig(attn_implementation="eager", num_labels=1000)
    return FirstOutput(ViTForImageClassification(config), "pixel_values")


def gpt2_s64() -> nn.Module:
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(attn_implementation="eager", use_cache=False)
    return FirstOutput(GPT2LMHeadModel(config), "input_ids", use_cache=False)


def _image() -> dict[str, Tensor]:
    return {"x": torch.randn(1, 3, 224, 224)}


def _words(vocabulary: int, length: int) -> dict[str, Tensor]:
    return {"x": torch.randint(0, vocabulary, (1, length))}


def _decode_step() -> dict[str, Tensor]:
    cache = (4, 1, 16, 128, 64)
    return {
        "ids": torch.randint(0, 8192, (1, 1)),
        "pk": torch.randn(cache),
        "pv": torch.randn(cache),
    }


_BUILDERS: dict[str, tuple[Callable[[], nn.Module], Callable[[], dict[str, Tensor]]]] = {
    **{name: (mlp, partial(_mlp_input, batch)) for name, batch in MLP.items()},
    "resnet18": (resnet18, _image),
    "resnet50": (resnet50, _image),
    "mobilenet_v2": (mobilenet_v2, _image),
    "bert_tiny": (bert_tiny, lambda: _words(30000, 128)),
    "bert_base": (bert_base, lambda: _words(30000, 128)),
    "vit_b16": (vit_b16, _image),
    "gpt2_s64": (gpt2_s64, lambda: _words(50000, 64)),
    "llama_decode": (lambda: LlamaDecode(1024, 16, 2816, 128, 8192, 4), _decode_step),
}


def _calibrate(model: nn.Module) -> None:
    """One pass that sets the batch norms, so that activations of random weights stay near 1."""
    norms = [layer for layer in model.modules() if isinstance(layer, nn.BatchNorm2d)]
    if not norms:
        return
    for layer in norms:
        layer.momentum = 1.0
    model.train()
    with torch.no_grad():
        model(torch.randn(4, 3, 224, 224))


def build(name: str) -> tuple[nn.Module, dict[str, Tensor]]:
    """The module and its inputs by name, the same on every run."""
    make, inputs = _BUILDERS[name]
    torch.manual_seed(0)
    model = make()
    _calibrate(model)
    return model.eval(), inputs()


def export(name: str, path: Path, inputs: Path, sizes: Sequence[str] = ()) -> None:
    """Write the model as ONNX, and its inputs as npz. sizes: names of the first dimensions of its one
    input, which are then symbolic."""
    model, feeds = build(name)
    dims = {"dynamic_shapes": ({k: torch.export.Dim(s) for k, s in enumerate(sizes)},)}
    if sizes:  # an extent of 1 would be taken for a constant
        feeds = {k: v.repeat(2, *[1] * (v.ndim - 1)) for k, v in feeds.items()}
    outputs = ["y", "nk", "nv"] if name == "llama_decode" else ["y"]
    program = torch.onnx.export(
        model,
        tuple(feeds.values()),
        dynamo=True,
        opset_version=18,
        input_names=list(feeds),
        output_names=outputs,
        verbose=False,
        **(dims if sizes else {}),
    )
    program.optimize()
    program.save(path, external_data=False)
    np.savez(inputs, **{key: value.numpy() for key, value in feeds.items()})
