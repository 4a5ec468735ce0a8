"""LLVM IR text to object bytes.

This file imports llvmlite and nothing of Loopwright, because it also runs by path as the
compile worker process (`python compiler.py`), which has to start fast. The worker reads pickled
jobs from stdin and answers with pickled `(ok, result or message)` on stdout; see `workers`.

Optimisation levels:
- `none`: code generation only. Enough for kernels written as explicit vectors in SSA form.
- `short` (default): inlines `alwaysinline` functions, then SROA, InstCombine, SimplifyCFG, NewGVN,
  DCE. Promotes allocas and simplifies addresses.
- `O1`, `O2`, `O3`: LLVM's own pipelines, for scalar loops; vector code must not depend on them.
"""

from __future__ import annotations

import difflib
import os
import pickle
import re
import struct
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from typing import Any, BinaryIO

import llvmlite.binding as llvm

LEVELS = ("none", "short", "O1", "O2", "O3")


class CompileError(RuntimeError):
    """LLVM rejected a module: the text does not parse or verify."""


@cache
def _initialize_native() -> None:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    llvm.initialize_native_asmparser()  # inline assembly works for the host only


@cache
def _initialize_all() -> None:
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()


@cache
def host_triple() -> str:
    """The triple of objects for this process."""
    return llvm.get_process_triple()


@cache
def host_cpu() -> str:
    """LLVM's name of the host CPU, e.g. `znver4`."""
    return llvm.get_host_cpu_name()


@cache
def host_features() -> str:
    """The host's CPU features as LLVM writes them: `+avx2,-avx512f,...`."""
    return llvm.get_host_cpu_features().flatten()


@cache
def target_machine(triple: str, cpu: str, features: str) -> llvm.TargetMachine:
    """A cached target machine: position-independent code, code generation level 2."""
    if triple == host_triple():
        _initialize_native()
    else:
        _initialize_all()
    return llvm.Target.from_triple(triple).create_target_machine(
        cpu=cpu, features=features, opt=2, reloc="pic", codemodel="default"
    )


def resolve(
    triple: str | None = None, cpu: str | None = None, features: str | None = None
) -> tuple[str, str, str]:
    """Fill in the host's triple, cpu and features for those that are None."""
    if triple is None or triple == host_triple():
        if cpu in (None, "native"):
            return host_triple(), host_cpu(), host_features() if features is None else features
        return host_triple(), cpu, features or ""
    return triple, cpu or "", features or ""


@cache
def _set_options() -> None:
    # NewGVN's phis of operations give wrong values: tests/codegen/padded_conv.ll is a case.
    llvm.set_option("loopwright", "-enable-phi-of-ops=false")


def _optimize(module: llvm.ModuleRef, machine: llvm.TargetMachine, opt: str) -> None:
    if opt == "none":
        return
    _set_options()
    level = 1 if opt == "short" else int(opt[1])
    tuning = llvm.create_pipeline_tuning_options(speed_level=level)
    tuning.loop_vectorization = tuning.slp_vectorization = level >= 2
    builder = llvm.create_pass_builder(machine, tuning)
    if opt == "short":
        passes = llvm.create_new_module_pass_manager()
        passes.add_always_inliner_pass()
        passes.add_sroa_pass()
        passes.add_instruction_combine_pass()
        passes.add_simplify_cfg_pass()
        passes.add_new_gvn_pass()
        passes.add_dead_code_elimination_pass()
    else:
        passes = builder.getModulePassManager()
    passes.run(module, builder)


def _optimized(
    text: str,
    described: tuple[str | None, ...],
    opt: str,
    verify: bool,
    finish: Callable[[llvm.TargetMachine, llvm.ModuleRef], Any],
) -> Any:
    triple, cpu, features = resolve(*described)
    check_machine(triple, cpu, features)
    machine = target_machine(triple, cpu, features)
    context = llvm.create_context()
    try:
        module = llvm.parse_assembly(text, context)
    except RuntimeError as error:
        raise CompileError(_located(text, str(error))) from None
    with module:
        module.triple = machine.triple
        module.data_layout = str(machine.target_data)
        if verify:
            try:
                module.verify()
            except RuntimeError as error:
                raise CompileError(f"LLVM refuses the module: {error}") from None
        _optimize(module, machine, opt)
        return finish(machine, module)


# Prefixes of LLVM intrinsics that only some machines have.
_MACHINES = "aarch64|amdgcn|arm|bpf|dx|hexagon|loongarch|mips|nvvm|ppc|r600|riscv|s390|spv|ve|wasm|x86|xcore"
MACHINE_CALL = re.compile(rf"@(llvm\.(?:{_MACHINES})\.[\w.]+)")


_APART = """
import sys
sys.path[:] = {path!r}
import llvmlite.binding as llvm
llvm.initialize_all_targets()
llvm.initialize_all_asmprinters()
target = llvm.Target.from_triple({triple!r})
"""


def run_apart(triple: str, program: str, text: str = "") -> subprocess.CompletedProcess[str]:
    """Run a program with LLVM's `target` in a process of its own, which LLVM may end."""
    command = [sys.executable, "-S", "-c", _APART.format(path=sys.path, triple=triple) + program]
    return subprocess.run(command, input=text, capture_output=True, text=True, check=False)


@cache
def known_names(triple: str) -> tuple[list[str], list[str]]:
    """The processors and features that LLVM knows for a triple: it prints them for `help`, on stderr
    and once in a process."""
    text = run_apart(triple, "target.create_target_machine(cpu='help')").stderr
    processors, _, features = text.partition("Available features")
    row = re.compile(r"^  (\S+) +- ", re.MULTILINE)
    return row.findall(processors), row.findall(features)


def check_machine(triple: str, cpu: str, features: str) -> None:
    """Raise CompileError where LLVM does not know a triple, a processor or a feature: it would go on
    with another, or end the process."""
    if (triple, cpu) == (host_triple(), host_cpu()) and features in ("", host_features()):
        return
    try:
        _initialize_all()
        llvm.Target.from_triple(triple)
    except RuntimeError as error:
        raise CompileError(f"unknown target triple\n  got: {triple!r}, {error}") from None
    processors, known = known_names(triple)
    _check_name("processor", cpu, processors, triple)
    for feature in filter(None, features.split(",")):
        _check_name("feature", feature.lstrip("+-"), known, triple)


def _check_name(what: str, name: str, known: list[str], triple: str) -> None:
    if name and known and name not in known:
        close = difflib.get_close_matches(name, known, 3)
        hint = f"did you mean {' or '.join(close)}?" if close else "give the triple it belongs to"
        got = f"{name!r} for {triple}"
        raise CompileError(f"LLVM knows no such {what}\n  got: {got}\n  instead: {hint}")


def _located(text: str, message: str) -> str:
    """LLVM's parse error with the name of the enclosing function."""
    parts = message.split(":")
    for index, part in enumerate(parts):
        if part.strip().isdigit():
            lines = text.splitlines()[: int(part)]
            name = next((x for x in reversed(lines) if x.startswith("define")), None)
            where = f" in `{name.split('@')[1].split('(')[0]}`" if name and "@" in name else ""
            return f"invalid LLVM IR{where}, line {':'.join(parts[index:])}"
    return f"invalid LLVM IR: {message}"


def compile_object(
    text: str,
    triple: str | None = None,
    cpu: str | None = None,
    features: str | None = None,
    opt: str = "short",
    verify: bool = False,
) -> bytes:
    """Compile one module's text to a relocatable object. Defaults describe the host."""
    machine = (triple, cpu, features)
    return _optimized(text, machine, opt, verify, lambda tm, mod: tm.emit_object(mod))


def assembly(text: str, *machine: str | None, opt: str = "short", comments: bool = False) -> str:
    """The assembly for one module's text. `machine`: triple, CPU and features, else the host's.
    comments: with LLVM's own, which name spills and loops."""

    def finish(tm: llvm.TargetMachine, mod: llvm.ModuleRef) -> str:
        tm.set_asm_verbosity(comments)  # machines are shared
        return tm.emit_assembly(mod)

    return _optimized(text, machine, opt, True, finish)


def optimized_ir(text: str, *machine: str | None, opt: str = "short") -> str:
    """The module's text after `opt`'s passes."""
    return _optimized(text, machine, opt, True, lambda tm, mod: str(mod))


# The worker protocol: an 8-byte little-endian length, then a pickle.


def send(stream: BinaryIO, value: object) -> None:
    data = pickle.dumps(value, protocol=pickle.HIGHEST_PROTOCOL)
    stream.write(struct.pack("<Q", len(data)) + data)
    stream.flush()


def receive(stream: BinaryIO) -> Any:
    header = stream.read(8)
    if len(header) < 8:
        raise EOFError("the compile worker closed its pipe")
    return pickle.loads(stream.read(struct.unpack("<Q", header)[0]))


# What a worker can be asked for.
JOBS: dict[str, Callable[..., Any]] = {
    "object": compile_object,
    "assembly": assembly,
    "ir": optimized_ir,
}


def _serve() -> None:
    # stdout carries the protocol; stray output is redirected to stderr.
    source, sink = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    while True:
        try:
            kind, job, options = receive(source)
        except EOFError:
            return
        try:
            answer = (True, JOBS[kind](*job, **options))
        except Exception as error:
            answer = (False, str(error))
        send(sink, answer)


if __name__ == "__main__":
    _serve()
