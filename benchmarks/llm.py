"""Steps of a language model beside llama.cpp: python -m benchmarks.llm [FORMAT ...] [options]

A random llama of 0.66 G weights (12 layers of 2048 / 5632, 32 heads, 4 of keys, 32,000 tokens), written as GGUF in
formats such as q4_0: a step of decoding behind contexts of some lengths, eight sequences at once, and prefill; interleaved
as in `benchmarks.run`. llama.cpp's Python package is built in an environment of its own, `--peer`, because its speed depends
on the compiler's flags:

    python -m venv .llama && CMAKE_ARGS=-DGGML_NATIVE=ON .llama/bin/pip install --no-binary :all: llama-cpp-python

A FORMAT that is a path of a model.onnx, made by onnxruntime-genai's builder from such a model, is measured beside
onnxruntime with shared caches. The last column is the share of a step in which this machine's memory delivers the weights.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path

import numpy as np

from loopwright.explore.machine import machine

from .models import Case
from .run import ROOT, Result, measure, table

LAYERS, WIDTH, HIDDEN, HEADS, KV_HEADS, TOKENS = 12, 2048, 5632, 32, 4, 32_000
PEER = "llama.cpp"
# Of all weights: that of the embedding, of which a step reads a row for each token.
EMBEDDING = 1 / (2 + LAYERS * (2 * WIDTH + 2 * WIDTH * KV_HEADS // HEADS + 3 * HIDDEN) / TOKENS)


def write(path: Path, form: str) -> None:
    """The model, in a format of the package `gguf`."""
    import gguf

    kind, rng = gguf.GGMLQuantizationType[form.upper()], np.random.default_rng(0)
    writer, head = gguf.GGUFWriter(path, "llama"), WIDTH // HEADS
    writer.add_context_length(4096)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(HIDDEN)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(head)
    writer.add_vocab_size(TOKENS)
    writer.add_tokenizer_model("llama")
    writer.add_token_list(["<unk>", "<s>", "</s>", *(f"t{k}" for k in range(TOKENS - 3))])
    writer.add_token_scores([0.0] * TOKENS)
    writer.add_token_types([2, 3, 3] + [1] * (TOKENS - 3))

    def matrix(name: str, rows: int, columns: int) -> None:
        values = rng.standard_normal((rows, columns), dtype=np.float32) * 0.02
        writer.add_tensor(f"{name}.weight", gguf.quantize(values, kind), raw_dtype=kind)

    def norm(name: str) -> None:
        writer.add_tensor(f"{name}.weight", np.ones(WIDTH, np.float32))

    matrix("token_embd", TOKENS, WIDTH)
    for k in range(LAYERS):
        at = f"blk.{k}."
        norm(f"{at}attn_norm")
        norm(f"{at}ffn_norm")
        for name, rows in (("q", WIDTH), ("k", KV_HEADS * head), ("v", KV_HEADS * head)):
            matrix(f"{at}attn_{name}", rows, WIDTH)
        matrix(f"{at}attn_output", WIDTH, WIDTH)
        matrix(f"{at}ffn_gate", HIDDEN, WIDTH)
        matrix(f"{at}ffn_up", HIDDEN, WIDTH)
        matrix(f"{at}ffn_down", WIDTH, HIDDEN)
    norm("output_norm")
    matrix("output", TOKENS, WIDTH)
    for step in (writer.write_header_to_file, writer.write_kv_data_to_file):
        step()
    writer.write_tensors_to_file()
    writer.close()


def cases(path: Path, form: str) -> list[Case]:
    """decode and prefill of some lengths."""
    rng = np.random.default_rng(1)
    rows = [("decode", n) for n in (32, 512, 1000)] + [("prefill", n) for n in (32, 512)]
    rows.append(("batch of 8", 32))
    ids = {n: rng.integers(3, TOKENS, n) for _, n in rows}
    return [Case(f"{form} {what} {n}", path, {"ids": ids[n]}) for what, n in rows]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.llm",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("formats", nargs="*", default=["q4_0"])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--seconds", type=float, default=0.5, help="length of a burst")
    parser.add_argument("--peer", default=str(ROOT / ".llama" / "bin" / "python"))
    options = parser.parse_args()
    measured: dict[str, dict[str, Result]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for form in options.formats:
            path, peer, python = Path(form), "onnxruntime", sys.executable
            if path.suffix != ".onnx":
                path, peer, python = Path(folder, f"{form}.gguf"), PEER, options.peer
                write(path, form)
            is_onnx = path.suffix == ".onnx"
            for case in cases(path, path.stem):
                engines = {"loopwright": sys.executable}
                if "batch" in case.name and is_onnx:
                    continue
                if os.path.exists(python) and "batch" not in case.name:
                    engines[peer] = python
                results, failures = measure(
                    case, engines, options.threads, options.rounds, options.seconds, peer
                )
                measured[case.name] = results
                for engine, why in failures.items():
                    print(f"{case.name}, {engine}: {why}")
                for engine, result in results.items():
                    read = path.stat().st_size * (1 - EMBEDDING)
                    floor = read / machine().gbs / 1e6 / result.median_ms
                    plain = is_onnx or "prefill" in case.name
                    share = "" if plain else f", {floor:.0%} of memory's speed"
                    first = f"first result after {result.first_result_s:.1f} s"
                    print(f"{case.name:22} {engine:12} {result.median_ms:8.2f} ms{share}; {first}")
            if not is_onnx:
                path.unlink()
    print(f"\n{table(measured, PEER)}")


if __name__ == "__main__":
    main()
