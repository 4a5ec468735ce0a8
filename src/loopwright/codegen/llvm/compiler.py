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

import os
import pickle
import re
import struct
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
def target_machine(triple: str, cpu: str, features: str) -> llvm.TargetMachine:
    """A cached target machine: position-independent code, code generation level 2."""
    if triple == llvm.get_process_triple():
        _initialize_native()
    else:
        _initialize_all()
    return llvm.Target.from_triple(triple).create_target_machine(
        cpu=cpu, features=features, opt=2, reloc="pic", codemodel="default"
    )


# Lines of a module for each of its loops, from which loop strength reduction is left out: it takes quadratic time,
# and an unrolled body has few addresses that change (mobilenet_v2, of which it took 0.8 of 1.6 s: 6.3 ms with and
# without it). Not where loops are short, which are up to 15 % slower without, nor where vectors are shorter: AVX2 has half as
# many registers for addresses and spills (centerface 7 % slower).
_WIDE = "<16 x float>"
_STRAIGHT = 640


def _set_options(text: str) -> None:
    # NewGVN's phis of operations give wrong values: tests/codegen/padded_conv.ll is a case.
    llvm.set_option("loopwright", "-enable-phi-of-ops=false")
    # Indented lines only: those of debug information must not change the code.
    straight = _WIDE in text and text.count("\n  ") > _STRAIGHT * max(text.count(" phi "), 1)
    llvm.set_option("loopwright", f"-disable-lsr={str(straight).lower()}")


def _optimize(module: llvm.ModuleRef, machine: llvm.TargetMachine, opt: str) -> None:
    if opt == "none":
        return
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
    described: tuple[str, ...],
    opt: str,
    verify: bool,
    finish: Callable[[llvm.TargetMachine, llvm.ModuleRef], Any],
) -> Any:
    triple, cpu, features = (*described, "", "", "")[:3]
    machine = target_machine(triple or llvm.get_process_triple(), cpu, features)
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
        _set_options(text)
        _optimize(module, machine, opt)
        return finish(machine, module)


# Prefixes of LLVM intrinsics that only some machines have.
_MACHINES = "aarch64|amdgcn|arm|bpf|dx|hexagon|loongarch|mips|nvvm|ppc|r600|riscv|s390|spv|ve|wasm|x86|xcore"
MACHINE_CALL = re.compile(rf"@(llvm\.(?:{_MACHINES})\.[\w.]+)")


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
    triple: str = "",
    cpu: str = "",
    features: str = "",
    opt: str = "short",
    verify: bool = False,
) -> bytes:
    """Compile one module's text to a relocatable object, by default for any CPU like this one's."""
    machine = (triple, cpu, features)
    return _optimized(text, machine, opt, verify, lambda tm, mod: tm.emit_object(mod))


def assembly(text: str, *machine: str, opt: str = "short", comments: bool = False) -> str:
    """The assembly for one module's text. `machine`: triple, CPU and features.
    comments: with LLVM's own, which name spills and loops."""

    def finish(tm: llvm.TargetMachine, mod: llvm.ModuleRef) -> str:
        tm.set_asm_verbosity(comments)  # machines are shared
        return tm.emit_assembly(mod)

    return _optimized(text, machine, opt, True, finish)


def optimized_ir(text: str, *machine: str, opt: str = "short") -> str:
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


# The kinds of jobs of a worker.
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
