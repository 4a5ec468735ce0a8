"""One engine with one model, warm, in a process of its own.

python -m benchmarks.worker ENGINE NAME MODEL FEEDS.npz THREADS

Speaks JSON lines: says {"seconds": time until the first result, "version": ...} or
{"error": ...}, then answers each line on its input: "burst SECONDS" with the milliseconds of each
call, "outputs FILE" after writing the outputs there. Needs numpy and the engine only, so that it
also runs under another interpreter.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

PRECISION = os.environ.get("MATMUL_PRECISION", "float32")  # of loopwright's and openvino's products
Feeds = dict[str, np.ndarray]
Call = Callable[[], object]
Outputs = Callable[[], list[np.ndarray]]
Prepared = tuple[str, Call, Outputs]
"""An engine's version, the call that is measured, and its outputs as arrays."""


def loopwright(name: str, path: str, feeds: Feeds, threads: int) -> Prepared:
    import loopwright

    if path.endswith(".gguf"):
        return _language_model(name, path, feeds, threads)
    if "ids" in feeds:
        model = loopwright.compile(path, threads=threads)
        names = [model.names[f"{part}_names"] for part in ("input", "output")]
        run = lambda values, results: model.run(values, out=results)  # noqa: E731
        return loopwright.__version__, *_exported(name, path, feeds, *names, run)
    with loopwright.transform.PassContext(config={"relax.matmul_precision": PRECISION}):
        executable = loopwright.compile(path)

    def call() -> object:
        return executable.run(feeds)

    return loopwright.__version__, call, lambda: [v.numpy() for v in executable.run(feeds).values()]


def _language_model(name: str, path: str, feeds: Feeds, threads: int) -> Prepared:
    """A step behind feeds["ids"], then taken back, by `name`: of one token (decode), of eight sequences (batch), or
    the ids themselves (prefill)."""
    import loopwright
    from loopwright import llm

    ids, rng = feeds["ids"].tolist(), np.random.default_rng(0)
    model = llm.load(path, context=9 * len(ids) + 512, threads=threads)

    def prefill() -> list[np.ndarray]:
        return [
            model.prefill(rng.permutation(ids)).logits
        ]  # not those whose pages are there already

    states = [model.prefill(ids)]
    states += [model.fork(states[0]) for _ in range(7 if "batch" in name else 0)]

    def step() -> list[np.ndarray]:
        logits = model.decode(states, ids[: len(states)])
        for state in states:
            model.popn(state, 1)
        return list(logits[:1])

    call = prefill if "prefill" in name else step
    return loopwright.__version__, call, lambda: [model.decode(model.prefill(ids), ids[0])]


def _exported(
    name: str, path: str, feeds: Feeds, inputs: list[str], outputs: list[str],
    run: Callable[[Feeds, Feeds], object],
) -> tuple[Call, Outputs]:  # fmt: skip
    """The steps of `_language_model` by a model of onnxruntime-genai's builder, whose inputs are tokens, a mask and
    caches, its outputs logits and the same caches with new elements; both share memory."""
    ids = feeds["ids"][None]
    model = json.loads(Path(path).with_name("genai_config.json").read_text())["model"]
    sizes = model["decoder"]
    shape = 1, sizes["num_key_value_heads"], ids.size + 64, sizes["head_size"]
    caches = {n: np.zeros(shape, np.float32) for n in inputs[2:]}
    after = {o: caches[i] for o, i in zip(outputs[1:], inputs[2:], strict=True)}

    def step(tokens: np.ndarray, start: int) -> np.ndarray:
        mask = np.ones((1, start + tokens.size), np.int64)
        logits = np.empty((1, tokens.size, model["vocab_size"]), np.float32)
        run(dict(zip(inputs, (tokens, mask), strict=False)) | caches, {outputs[0]: logits, **after})
        return logits[0, -1:]

    one = lambda: step(ids[:, :1], ids.size)  # noqa: E731
    step(ids, 0)
    return (lambda: step(ids, 0)) if "prefill" in name else one, lambda: [one()]


def llama_cpp(name: str, path: str, feeds: Feeds, threads: int) -> Prepared:
    """llama.cpp by its Python package, built for this machine (CMAKE_ARGS=-DGGML_NATIVE=ON)."""
    import llama_cpp

    ids, rng = feeds["ids"].tolist(), np.random.default_rng(0)
    length = len(ids) + 64
    options = {"n_batch": 512, "logits_all": False, "verbose": False}
    model = llama_cpp.Llama(
        path, n_ctx=length, n_threads=threads, n_threads_batch=threads, **options
    )

    def prefill(tokens: list[int]) -> None:
        model.reset()
        model.eval(tokens)

    def step() -> np.ndarray:
        model.eval(ids[:1])
        model.n_tokens -= 1
        logits = model._ctx.get_logits()
        return np.ctypeslib.as_array(logits, shape=(model.n_vocab(),)).copy()

    def outputs() -> list[np.ndarray]:
        prefill(ids)
        return [step()]

    prefill(ids)
    call = (lambda: prefill(rng.permutation(ids).tolist())) if "prefill" in name else step
    return llama_cpp.__version__, call, outputs


def c(name: str, path: str, feeds: Feeds, threads: int) -> Prepared:
    """What Loopwright's target "c" writes, compiled by this machine's C compiler: one thread."""
    import loopwright

    library = loopwright.compile(path, target="c").build()
    main, values = library["main"], list(feeds.values())

    def outputs() -> list[np.ndarray]:
        got = main(*values)
        return [np.asarray(v) for v in (got if isinstance(got, (list, tuple)) else (got,))]

    return loopwright.__version__, lambda: main(*values), outputs


def onnxruntime(name: str, path: str, feeds: Feeds, threads: int) -> Prepared:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    if "ids" in feeds:

        def run(values: Feeds, results: Feeds) -> None:
            binding = session.io_binding()
            for bind, arrays in ((binding.bind_input, values), (binding.bind_output, results)):
                for key, a in arrays.items():
                    bind(key, "cpu", 0, a.dtype, a.shape, a.ctypes.data)
            session.run_with_iobinding(binding)

        ports = session.get_inputs()
        names = [p.name for p in ports], [p.name for p in session.get_outputs()]
        return onnxruntime.__version__, *_exported(name, path, feeds, *names, run)

    def call() -> object:
        return session.run(None, feeds)

    return onnxruntime.__version__, call, call


def openvino(name: str, path: str, feeds: Feeds, threads: int) -> Prepared:
    import openvino

    core = openvino.Core()
    model = core.read_model(path)
    # Its best form of a model: the input's shapes fixed, so that it may choose kernels for them.
    model.reshape({key: list(value.shape) for key, value in feeds.items()})
    options = {
        "INFERENCE_PRECISION_HINT": {"float32": "f32", "bfloat16": "bf16"}[PRECISION],
        "INFERENCE_NUM_THREADS": threads,
        "PERFORMANCE_HINT": "LATENCY",
    }
    request = core.compile_model(model, "CPU", options).create_infer_request()
    inputs = [feeds[next(n for n in feeds if n in port.names)] for port in model.inputs]
    for at, value in enumerate(inputs):
        request.set_input_tensor(at, openvino.Tensor(value, shared_memory=True))

    def call() -> object:
        return request.infer()

    def outputs() -> list[np.ndarray]:
        return [np.array(value) for value in request.infer().to_tuple()]

    return openvino.__version__.split("-")[0], call, outputs


def numpy(name: str, path: str, feeds: Feeds, threads: int) -> Prepared:
    if not name.startswith("mlp_"):
        raise NotImplementedError("written by hand for the MLPs only")
    from .models import mlp_weights

    weights = mlp_weights()
    first, second = weights["fc1.weight"].T.copy(), weights["fc2.weight"].T.copy()
    x = feeds["x"]

    def call() -> list[np.ndarray]:
        hidden = np.maximum(x @ first + weights["fc1.bias"], 0)
        return [hidden @ second + weights["fc2.bias"]]

    return np.__version__, call, call


def torch(name: str, path: str, feeds: Feeds, threads: int) -> Prepared:
    import torch

    from .torch_models import build

    torch.set_num_threads(threads)
    model, _ = build(name)
    inputs = [torch.from_numpy(value) for value in feeds.values()]

    def call() -> object:
        with torch.inference_mode():
            return model(*inputs)

    def outputs() -> list[np.ndarray]:
        got = call()
        return [value.numpy() for value in (got if isinstance(got, tuple) else (got,))]

    return torch.__version__, call, outputs


def tvm(name: str, path: str, feeds: Feeds, threads: int) -> Prepared:
    import onnx
    import tvm
    from tvm import relax
    from tvm.relax.frontend.onnx import from_onnx

    target = tvm.target.Target.from_device("cpu")  # this machine's instructions, as for the others
    version = tvm.__version__

    def compiled(shapes: dict[str, tuple[int, ...]] | None) -> relax.VirtualMachine:
        module = from_onnx(onnx.load(path), shape_dict=shapes, keep_params_in_input=False)
        return relax.VirtualMachine(tvm.compile(module, target), tvm.cpu())

    try:
        machine = compiled(None)
    except Exception:  # not with this model's dynamic shapes: the input's instead
        machine = compiled({key: value.shape for key, value in feeds.items()})
        version += " with fixed shapes"
    inputs = [tvm.runtime.tensor(value) for value in feeds.values()]

    def call() -> object:
        return machine["main"](*inputs)

    def outputs() -> list[np.ndarray]:
        got = call()
        return [value.numpy() for value in ([got] if hasattr(got, "numpy") else got)]

    return version, call, outputs


ENGINES = {
    "loopwright": loopwright,
    "c": c,
    "onnxruntime": onnxruntime,
    "llama.cpp": llama_cpp,
    "openvino": openvino,
    "tvm": tvm,
    "torch": torch,
    "numpy": numpy,
}


def burst(call: Call, seconds: float) -> list[float]:
    """Milliseconds of each call, after two calls that are not counted; at least three."""
    call(), call()
    times: list[float] = []
    end = time.perf_counter() + seconds
    while len(times) < 3 or time.perf_counter() < end:
        start = time.perf_counter_ns()
        call()
        times.append((time.perf_counter_ns() - start) / 1e6)
    return times


def main() -> None:
    """Prepare the engine, then answer commands until the input ends."""
    engine, name, path, feeds_path, threads = sys.argv[1:]
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: int(threads)])
    feeds = dict(np.load(feeds_path))
    # What an engine prints must not mix with the answers.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def answer(value: object) -> None:
        print(json.dumps(value), file=answers, flush=True)

    start = time.perf_counter()
    try:
        version, call, outputs = ENGINES[engine](name, path, feeds, int(threads))
        call()
    except Exception as error:
        answer({"error": f"{type(error).__name__}: {error}".splitlines()[0]})
        return
    answer({"version": version, "seconds": time.perf_counter() - start})
    with contextlib.suppress(KeyboardInterrupt):
        for line in sys.stdin:
            command, argument = line.split(maxsplit=1)
            if command == "burst":
                answer(burst(call, float(argument)))
            else:
                np.savez(argument.strip(), *outputs())
                answer("written")


if __name__ == "__main__":
    main()
