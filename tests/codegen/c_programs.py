"""C programs around exported models: inputs and outputs as files, cross compilers, sanitizers."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from loopwright.codegen.c.model import C_FLAGS
from loopwright.compat.contrib import find_clang
from loopwright.runtime.dtype import numpy_dtype

SANITIZERS = ("-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")

# Inputs and outputs are blocks of exactly their size, so that a sanitizer sees what is outside.
_MAIN = """#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "{p}.h"

static void* block(FILE* from, size_t size) {{
  void* made = calloc(size > 0 ? size : 1, 1);
  if (made == NULL) exit(9);
  if (from != NULL && fread(made, 1, size, from) != size) exit(8);
  return made;
}}

int main(int argc, char** argv) {{
  struct {s}_inputs inputs;
  struct {s}_outputs outputs;
  int code;
  FILE* in = fopen(argv[1], "rb");
  FILE* out = fopen(argv[2], "wb");
  if (argc < 3 || in == NULL || out == NULL) return 7;
{reads}
  code = {s}_run(&inputs, &outputs, {given});
  if (code != 0) return 100 + code;
  code = {s}_run(&inputs, &outputs, {given}); /* the workspace needs no preparation */
{writes}
  fclose(in);
  fclose(out);
  return code;
}}
"""


def tool(name, *flags):
    """A program that is there, and, of a compiler, links with the flags; else the test is skipped."""
    found = next(iter(find_clang(required=False)), None) if name == "clang" else shutil.which(name)
    if found is None:
        pytest.skip(f"there is no {name}")
    if flags and (said := refusal(found, *flags)):
        pytest.skip(f"{found} does not link with {' '.join(flags)}: {said}")
    return found


@cache
def refusal(compiler, *flags):
    """What a compiler says of an empty program with the flags; "" where it runs."""
    with tempfile.TemporaryDirectory() as folder:
        source, program = Path(folder, "empty.c"), Path(folder, "empty")
        source.write_text("int main(void) { return 0; }\n")
        for command in ([compiler, *flags, "-o", program, source], [program]):
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                return done.stderr.strip()[-300:] or f"exit code {done.returncode}"
    return ""


def run(*command):
    """Run a command that must succeed; gives what it printed."""
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command}: {done.returncode}\n{done.stdout}\n{done.stderr}"[
        :6000
    ]
    return done.stdout


def sizes(args, shapes):
    return [int(np.prod(shapes[a.name])) * numpy_dtype(a.dtype).itemsize for a in args]


class Program:
    """A model written into a folder with a `main` that reads and writes files."""

    def __init__(self, model, folder, arrays, results, name="main", **options):
        self.folder, self.results = Path(folder), results
        self.written = model.write(folder, "model", **options)
        files = model.render("model", **options)
        self.entry = entry = files.entries[name]
        inputs = [np.ascontiguousarray(a) for a in arrays]
        lines = [f"  memset(&inputs, 0, sizeof inputs);\n  memset(&outputs, 0, sizeof outputs);"]  # noqa: F541
        lines += [
            f"  inputs.{a.field} = block(in, {v.nbytes});"
            for a, v in zip(entry.inputs, inputs, strict=True)
        ]
        outs = list(zip(entry.outputs, results, strict=True))
        lines += [f"  outputs.{a.field} = block(NULL, {r.nbytes});" for a, r in outs]
        writes = [f"  fwrite(outputs.{a.field}, 1, {r.nbytes}, out);" for a, r in outs]
        writes += [f"  free(outputs.{a.field});" for a, _ in outs]
        writes += [f"  free((void*)inputs.{a.field});" for a in entry.inputs]
        given = ["NULL" for _ in entry.areas]
        (self.folder / "in.bin").write_bytes(b"".join(v.tobytes() for v in inputs))
        if files.weights:
            lines.append(f'  void* weights = block(fopen(argv[3], "rb"), {len(files.weights)});')
            writes.append("  free(weights);")
            given.append("weights")
        text = _MAIN.format(
            p="model",
            s=entry.symbol,
            reads="\n".join(lines),
            writes="\n".join(writes),
            given=", ".join(given),
        )
        (self.folder / "main.c").write_text(text, encoding="utf-8")

    def sources(self):
        return [p for p in self.written if p.suffix == ".c"]

    def outputs(self, compiler, *flags, under=()):
        """Compile with the strictest flags, run, and give the outputs."""
        program = self.folder / f"{Path(compiler).name}{len(flags)}"
        sources = [*self.sources(), self.folder / "main.c"]
        run(compiler, *C_FLAGS, *flags, "-o", program, *sources, "-lm")
        given = [self.folder / n for n in ("in.bin", "out.bin", "model.weights")]
        run(*under, program, *given)
        data, at, made = (self.folder / "out.bin").read_bytes(), 0, []
        for r in self.results:
            made.append(np.frombuffer(data, r.dtype, r.size, at).reshape(r.shape))
            at += r.nbytes
        return made
