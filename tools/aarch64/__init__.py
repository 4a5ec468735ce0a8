"""Code for aarch64, run by qemu's user mode: models compiled for it are called as any others.

    with on(CPUS["i8mm"]):
        lw.compile(model)["main"](x)      # a library for aarch64, in a process of qemu-aarch64

Functions left for the virtual machine run here, and the kernels that they call there.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

import loopwright as lw
from loopwright.base.errors import LoopwrightError, explain
from loopwright.codegen.c.project import size_of
from loopwright.codegen.llvm import export, library
from loopwright.codegen.llvm.machine import resolve
from loopwright.codegen.llvm.program import Elsewhere, NativeProgram, compile_options
from loopwright.ir.variables import vars_in
from loopwright.runtime.arguments import leaves
from loopwright.runtime.dtype import elements_per_byte, numpy_dtype
from loopwright.runtime.tensor import PackedTensor, as_array, tensor

TRIPLE = "aarch64-linux-gnu"
ROOT = f"/usr/{TRIPLE}"
TOOLS = (f"{TRIPLE}-gcc", "qemu-aarch64")


@dataclass(frozen=True)
class Cpu:
    """Features that are compiled for, and a processor of qemu's that has them and no more of these."""

    features: str
    qemu: str

    @property
    def target(self) -> lw.Target:
        """The target."""
        return lw.Target(f"llvm -mtriple={TRIPLE} -mattr={self.features}")


CPUS = {
    "neon": Cpu("+neon", "cortex-a53"),
    "dotprod": Cpu("+neon,+dotprod", "cortex-a76"),
    "i8mm": Cpu("+neon,+dotprod,+i8mm", "max"),
}


def missing() -> list[str]:
    """The tools that are not installed: `make device-tools`."""
    return [name for name in TOOLS if shutil.which(name) is None]


@contextmanager
def on(cpu: Cpu) -> Iterator[None]:
    """Compile for a processor by default, and run there what is compiled for aarch64."""

    def run(function: Elsewhere, *args: Any, out: Any = None) -> Any:
        return _call(cpu, function, args, out)

    before, Elsewhere.simulator = Elsewhere.simulator, run
    try:
        with cpu.target:
            yield
    finally:
        Elsewhere.simulator = before


# ---------------------------------------------------------------------- libraries


@cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    """A folder with the runner, which goes with this process."""
    folder = tempfile.TemporaryDirectory(prefix="loopwright-aarch64-")
    source, made = Path(__file__).with_name("runner.c"), f"{folder.name}/runner"
    command = [TOOLS[0], "-O1", "-Wall", "-Wextra", str(source), "-ldl", "-o", made]
    subprocess.run(command, check=True)
    return folder


def _library(program: NativeProgram) -> Path:
    """The library of a program."""
    path = Path(_folder().name, f"{id(program)}.so")
    if not path.exists():
        if program.imports or program.libraries:
            names = [*program.imports, *(lib.name for lib in program.libraries)]
            what = "functions of this process are not there"
            raise LoopwrightError(explain(what, got=", ".join(names)))
        public = library.public_text(_like_executable(program), "m", False)
        machine, texts = resolve(*compile_options(program.target)), list(program.texts.values())
        objects = export.library_objects(
            texts, program.constants, "m", public, machine, shared=False
        )
        export.link_shared(objects, path, more=["-lm"], triple=TRIPLE)
        weakref.finalize(program, path.unlink, missing_ok=True)
    return path


def _like_executable(program: NativeProgram) -> Any:
    """What `codegen.llvm.library` reads of an executable."""
    entries = {name: f.signature for name, f in program.functions.items()}
    return SimpleNamespace(program=program, entries=entries)


# ---------------------------------------------------------------------- calls


def _call(cpu: Cpu, function: Elsewhere, args: tuple[Any, ...], out: Any) -> Any:
    """Call a function with tensors and numbers: with memory for results behind None, as `NativeFunction` does."""
    spec, path = function.signature, _library(function.program)
    count = len(spec.params)
    outs = list(args[count + 1 :]) or (list(leaves(out)) if out is not None else [])
    sizes: dict[Any, int] = {}
    arrays, numbers, passed = [], [], {}
    for param, value in zip(spec.params, args[:count], strict=True):
        if param.dims is None:
            numbers.append(np.asarray(value, numpy_dtype(param.dtype)))
            passed[param.name] = numbers[-1]
            continue
        arrays.append(_stored(value, param.dtype))
        shape = np.shape(value)
        if len(shape) != len(param.dims):
            raise ValueError(f"{function.name}: {param.name} has {len(param.dims)} axes")
        for dim, size in zip(param.dims, shape, strict=True):
            if not isinstance(dim, int):
                sizes.setdefault(dim, size)
    for dim in (d for r in spec.results for d in r.dims or () if not isinstance(d, int)):
        named = (v for v in vars_in(dim) if v.name in passed)  # sizes that the caller passes
        sizes = {v: int(passed[v.name]) for v in named} | sizes
    shapes = [tuple(size_of(d, sizes) for d in r.dims or ()) for r in spec.results]
    for result, shape in zip(spec.results, shapes, strict=True):
        arrays.append(_stored(np.zeros(shape, numpy_dtype(result.dtype)), result.dtype))
    numbers += [np.int64(sizes[v]) for v in spec.symbols]
    said = _run(cpu, path, function, arrays, numbers)
    if not spec.results:  # a kernel writes its arguments
        tensors = [v for p, v in zip(spec.params, args, strict=True) if p.dims is not None]
        for value, array in zip(tensors, said, strict=True):
            _bytes_of(value)[...] = array.reshape(-1).view("uint8")
        return None
    made = said[len(said) - len(shapes) :]
    results = [
        tensor(PackedTensor(a, r.dtype, shape) if elements_per_byte(r.dtype) > 1 else a)
        for a, r, shape in zip(made, spec.results, shapes, strict=True)
    ]
    for value, array in zip(outs, made):
        _bytes_of(value)[...] = array.reshape(-1).view("uint8")
    if out is not None:
        return out
    return results[0] if len(results) == 1 else results


def _run(
    cpu: Cpu, path: Path, function: Elsewhere, arrays: list[np.ndarray], numbers: list[Any]
) -> list[np.ndarray]:
    """The tensors after a call by the runner."""
    parts: list[int] = []
    tensors, values = iter(range(len(arrays))), iter(numbers)
    for param in library._params(_like_executable(function.program), function.name):
        if param.kind == "ptr":
            parts += [0, next(tensors)]
            continue
        value = np.asarray(next(values))
        is_real = value.dtype.kind == "f"
        bits = value.view(f"u{value.itemsize}") if is_real else value
        parts += [2 if is_real else 1, int(bits)]
    head = [len(arrays), len(parts) // 2, *(a.nbytes for a in arrays), *parts]
    request = np.array(head, "int64").tobytes() + b"".join(a.tobytes() for a in arrays)
    symbol = f"m_{library.c_name(function.name)}"
    command = [TOOLS[1], "-L", ROOT, "-cpu", cpu.qemu, f"{_folder().name}/runner"]
    command += [str(path), symbol, "m_last_error"]
    done = subprocess.run(command, input=request, capture_output=True, check=False)
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip()
        kind = RuntimeError if done.returncode == 1 else LoopwrightError
        raise kind(said or f"{function.name} ended with {done.returncode}")
    results, at = [], 0
    for array in arrays:
        raw = done.stdout[at : at + array.nbytes]
        results.append(np.frombuffer(bytearray(raw), array.dtype).reshape(array.shape))
        at += array.nbytes
    return results


def _stored(value: Any, dtype: str) -> np.ndarray:
    """The memory of a tensor."""
    if isinstance(value, PackedTensor):
        return value.bytes()
    array = as_array(value)
    if elements_per_byte(dtype) > 1:
        return PackedTensor.of(array, dtype).bytes()
    return np.ascontiguousarray(array, numpy_dtype(dtype)).reshape(array.shape)


def _bytes_of(value: Any) -> np.ndarray:
    """The memory of a tensor that is written to."""
    array = value.bytes() if isinstance(value, PackedTensor) else as_array(value)
    return array.reshape(-1).view("uint8")
