"""Hostile ONNX files: by hand (`hostile`), and small models with a field or bytes changed.

A file ends in an error of ours within 5 s of computing and 1 GiB of memory, or in what onnxruntime
computes too.
"""

from __future__ import annotations

import argparse
import math
import os
import random
import re
import resource
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from google.protobuf.message import Message

import loopwright as lw
from loopwright.base.errors import DiagnosticError, InternalError
from loopwright.frontend.onnx import from_onnx
from loopwright.tir.schedule.machinery.errors import ScheduleError

from .hostile import HOSTILE
from .judge import Outcome, of_rounding
from .misfits import misfit
from .onnx_graphs import onnx_case
from .onnx_model import reference_of, to_onnx
from .report import FAULTS, Report
from .tolerance import arrays, differences, spread
from .workers import Limits, Pool

SECONDS, MEMORY = 5.0, 1 << 30
FRESH = 100 << 20  # bytes of a process that LLVM has been loaded into
NUMBERS = [
    0,
    1,
    -1,
    2,
    7,
    127,
    2**31 - 1,
    2**31,
    2**32,
    2**40,
    2**62,
    2**63 - 1,
    -(2**31),
    -(2**63),
]
TEXTS = [
    "",
    "x1",
    "v2",
    "Relu",
    "../../../etc/passwd",
    "\0",
    "%s%n{0}",
    "a" * 5000,
    "ai.onnx",
    "é\n\"'",
]


def data_of(item: int | str) -> bytes:
    """The file of a seed, or of that name in the table."""
    if isinstance(item, str):
        return Path(item).read_bytes() if item.endswith(".onnx") else HOSTILE[item]()
    rng = random.Random(item)
    if rng.random() < 0.4:
        return misfit(rng).SerializePartialToString()
    model = to_onnx(onnx_case(rng.randrange(5000)))
    if rng.random() < 0.6:
        for _ in range(rng.choice([1, 1, 1, 2, 3])):
            change_field(rng, model)
        return model.SerializePartialToString()
    data = bytearray(model.SerializeToString())
    if rng.random() < 0.2:
        return bytes(data[: rng.randrange(len(data))])
    for _ in range(rng.choice([1, 1, 2, 4, 16])):
        at = rng.randrange(len(data))
        way = rng.random()
        if way < 0.7:
            data[at] = rng.choice([0, 1, 0x7F, 0x80, 0xFF, data[at] ^ 1 << rng.randrange(8)])
        elif way < 0.85:
            del data[at : at + rng.choice([1, 1, 4, 20])]
        else:
            data[at:at] = data[at : at + rng.choice([1, 4, 20])]
        if not data:
            break
    return bytes(data)


def change_field(rng: random.Random, model: Message) -> None:
    """Change one field somewhere within a message."""
    places: list[tuple[Message, Any, int]] = []

    def visit(message: Message) -> None:
        for field, value in message.ListFields():
            values = value if field.is_repeated else [value]
            for index, one in enumerate(values):
                places.append((message, field, index))
                if field.type == field.TYPE_MESSAGE and not isinstance(one, (int, str)):
                    visit(one)

    visit(model)
    message, field, index = rng.choice(places)
    value = getattr(message, field.name)
    if field.is_repeated and rng.random() < 0.4:
        way = rng.random()
        if way < 0.4:
            del value[index]
        elif field.type == field.TYPE_MESSAGE:
            value.add().CopyFrom(value[index])
        else:
            value.append(value[index])
        return
    if field.type == field.TYPE_MESSAGE:
        if not field.is_repeated:
            message.ClearField(field.name)
        return
    new: Any = rng.choice(NUMBERS)
    if field.type == field.TYPE_STRING:
        new = rng.choice(TEXTS)
    elif field.type == field.TYPE_BYTES:
        old = value[index] if field.is_repeated else value
        new = rng.choice([old[:-1], old * 2, b"", b"\xff" * len(old)])
    elif field.type in (field.TYPE_FLOAT, field.TYPE_DOUBLE):
        new = rng.choice([float("nan"), float("inf"), -1.0, 0.0, 1e38])
    try:
        if field.is_repeated:
            value[index] = new
        else:
            setattr(message, field.name, new)
    except ValueError:  # a number that this field cannot hold
        message.ClearField(field.name)


# What compiled models raise: the function, node or value, then the number that was got.
AT_RUN_TIME = re.compile(
    r"\S.*: index -?\d+ is out of range for an axis of extent \d+"
    r"|\S+: result \S+: cannot allocate a tensor of \d+ (bytes|elements or more)"
    r"|no memory for buffer \S+: \d+ bytes"
    r"|\S+: \S.*: a tensor of shape \(.*\) would take \d+ bytes or more"
)


UNFORESEEN = re.compile(r"the inputs or attributes do not fit \((?!ValueError)")


def clear(error: Exception) -> bool:
    """Whether an error is one that we raise: it says what was got, or what to do instead."""
    said = str(error)
    # Not of what the user wrote.
    if isinstance(error, (InternalError, ScheduleError)) or UNFORESEEN.search(said):
        return False
    if isinstance(error, (lw.LoopwrightError, DiagnosticError)):
        return True
    ours = any(word in said for word in ("\n  got: ", "\n  instead: ", "; give "))
    return ours or AT_RUN_TIME.fullmatch(said) is not None


def feed(inputs: list[tuple[str, str, tuple[Any, ...]]]) -> list[np.ndarray]:
    """Ones for inputs of floats, by which a quotient is a number; for others zeros: indices that are
    in range. Unknown extents are 2. Raises ValueError for more than the memory that a model may take."""
    from loopwright.ir.dtype import numpy_dtype

    kinds = [numpy_dtype(dtype) for _, dtype, _ in inputs]
    shapes = [
        [int(d) if str(d).lstrip("-").isdigit() else 2 for d in dims] for _, _, dims in inputs
    ]
    size = sum(kind.itemsize * math.prod(s) for s, kind in zip(shapes, kinds, strict=True))
    if size > MEMORY:
        raise ValueError(f"its inputs take {size >> 20} MiB")
    return [
        np.full(s, kind.kind not in "biuO", kind) for s, kind in zip(shapes, kinds, strict=True)
    ]


def judge_file(item: int | str, say: Callable[[str], None]) -> Outcome:
    """Compile and run a file in a folder of its own."""
    say("make")
    data = data_of(item)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.onnx")
        path.write_bytes(data)
        outcome = _judge(path, say)
        beside = sorted(p.name for p in Path(folder).iterdir() if p != path)
    if beside:
        outcome = Outcome("wrong", "files", f"written: {beside}")
    return outcome


def _judge(path: Path, say: Callable[[str], None]) -> Outcome:
    started, before = spent(), peak()
    stage, outcome = "compile", None
    say(stage)
    got: list[np.ndarray] = []
    try:
        exe = lw.compile(str(path))
        stage = "run"
        say(stage)
        try:
            feeds = feed(exe.inputs())
        except (ValueError, MemoryError) as error:
            return Outcome("error", "feed", str(error))
        found = exe.run(feeds)
        got = arrays([found[name] for name in exe.output_names()])  # one may be named twice
    except Exception as error:
        text = f"{type(error).__name__}: {error}"
        outcome = Outcome("error" if clear(error) else "raw", stage, text)
    seconds, memory = spent() - started, peak() - before
    if seconds > SECONDS:
        return Outcome("slow", stage, f"{seconds:.1f} s; {outcome.message if outcome else ''}")
    if memory > MEMORY:
        return Outcome("memory", stage, f"{memory >> 20} MiB; {outcome.message if outcome else ''}")
    if outcome is not None:
        return outcome
    say("onnxruntime")
    try:
        expected = reference_of(path.read_bytes(), [feeds])[0]
    except Exception as error:
        if re.search("bounds|invalid ind|outside|out of range", str(error)):
            return Outcome("wrong", "onnxruntime", f"index: it refuses what we compute: {error}")
        return Outcome("accepted", "onnxruntime refuses", str(error))
    if any(e is None for e in expected):
        return Outcome("accepted", "onnxruntime", "an optional result without a value")
    # A byte is often a number rounded, between two of them.
    slack = [np.full(e.shape, 1 / 6 if e.dtype in (np.uint8, np.int8) else 1e-4) for e in expected]
    what = differences(got, expected, slack)
    if not what:
        return Outcome("right")
    odd = what.startswith(("inf/", "nan/")) or _is_open(path, what)
    mod = from_onnx(str(path))
    slack = spread(mod, feeds, got)
    far = odd or not differences(got, expected, slack)
    doubt = far or of_rounding(mod, feeds, got, expected, slack)
    return Outcome("doubt" if doubt else "wrong", "onnxruntime", what)


def _is_open(path: Path, what: str) -> bool:
    """Whether a weight is NaN, infinite or so large that its square overflows: what then is greatest or a
    sign, or a sum that overflows, is each engine's own. Of an empty word, and of a product of bytes over an
    empty axis, onnxruntime's result is not written. What a loop has gathered without a turn has one axis
    there unless the body declares its shape."""
    from onnx import load, numpy_helper

    graph = load(path).graph
    if any(node.op_type == "WordConvEmbedding" for node in graph.node):
        return True
    weights = [numpy_helper.to_array(t) for t in graph.initializer]
    of_bytes = any(node.op_type == "MatMulInteger" for node in graph.node)
    if of_bytes and any(not w.size for w in weights):
        return True
    if what.startswith("shape") and what.endswith("not (0,)"):
        bodies = [a.g for node in graph.node for a in node.attribute if node.op_type == "Loop"]
        return any(not p.type.tensor_type.HasField("shape") for b in bodies for p in b.output)
    weights += [np.array(a.floats) for node in graph.node for a in node.attribute if a.floats]
    return any(not np.isfinite(w).all() for w in weights if w.dtype.kind == "f") or any(
        np.abs(w.astype(np.float64)).max(initial=0) ** 2 > np.iinfo(w.dtype).max
        for w in weights
        if w.dtype in (np.int32, np.int64)
    )


def spent() -> float:
    """The seconds that this process and its children, in which LLVM runs, have computed."""
    fields = [_text(f"/proc/{pid}/stat").rpartition(")")[2].split() for pid in children()]
    ticks = sum(int(n) for f in fields for n in f[11:13])
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + ended.ru_utime + ended.ru_stime + ticks / os.sysconf("SC_CLK_TCK")


def peak() -> int:
    """The most memory, in bytes, that this process has had, and its children beyond their first."""
    own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
    words = [
        dict(re.findall(r"(\w+):\s+(\d+)", _text(f"/proc/{pid}/status"))) for pid in children()
    ]
    return own + sum(max(0, (int(w.get("VmHWM", 0)) << 10) - FRESH) for w in words)


def children() -> list[int]:
    """The processes that this one has started."""
    tasks = Path("/proc/self/task").glob("*/children")
    return [int(pid) for task in tasks for pid in _text(task).split()]


def _text(path: str | Path) -> str:
    """A file of /proc; its process or thread may have ended."""
    try:
        return Path(path).read_text()
    except OSError:
        return ""


def search(options: argparse.Namespace) -> int:
    """The files by hand first, then changed ones."""
    report = Report("files")
    items: list[int | str] = [*HOSTILE] if options.seed == 0 else []
    items += range(options.seed, options.seed + max(0, options.count - len(items)))
    limits = Limits(seconds=6 * SECONDS, memory=4 << 30)
    for item, outcome, _ in Pool(judge_file, options.processes, limits).run(items):
        if report.add(item, outcome) and outcome.kind in FAULTS and outcome.kind != "tool":
            path = (
                Path(options.save)
                / f"{outcome.kind}-{str(item).replace(' ', '-').replace('/', '-')}.onnx"
            )
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data_of(item))
            print(f"{path}: {outcome.group()}", flush=True)
    print(report.text())
    return 1 if report.faults() else 0
