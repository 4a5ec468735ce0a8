"""The project around C source: its program, its build files and figures, and sources of the user's."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest

import loopwright
from loopwright.base.errors import LoopwrightError
from loopwright.codegen.c.project import compiler_of, deepest, measured
from loopwright.ir.target import Target
from loopwright.runtime.extern import ExternLibrary
from loopwright.runtime.library import load_module

from .c_programs import run, tool
from .test_c import Chain, Sized, calling, random

pytestmark = pytest.mark.no_roundtrip


def outputs(program: Path, folder: Path, *inputs: np.ndarray) -> np.ndarray:
    """What a written program makes of inputs."""
    given = b"".join(x.tobytes() for x in inputs)
    done = subprocess.run([program], input=given, capture_output=True, cwd=folder, check=True)
    return np.frombuffer(done.stdout, "float32")


def test_cmake_builds_the_program_that_is_written(tmp_path: Path) -> None:
    cmake = tool("cmake")
    model = loopwright.compile(Chain, target="c")
    written = model.write(tmp_path, "net", project=True)
    assert [p.name for p in written[-3:]] == ["main.c", "CMakeLists.txt", "README.md"]
    run(cmake, "-S", tmp_path, "-B", tmp_path / "build", "-DCMAKE_C_FLAGS=-Wall -Wextra -Werror")
    run(cmake, "--build", tmp_path / "build")
    x = random(4, 64)
    got = outputs(tmp_path / "build/net_main", tmp_path, x)
    np.testing.assert_allclose(got[4:].reshape(4, 64), np.exp(x) * 2, rtol=1e-5)


@pytest.mark.parametrize("weights", ["arrays", "binary"])
def test_the_readme_says_how_to_build_and_what_it_takes(tmp_path: Path, weights: str) -> None:
    tool("gcc")
    model = loopwright.compile(Chain, target="c")
    model.write(tmp_path, "net", weights=weights, project=True)
    text = (tmp_path / "README.md").read_text()
    command = next(line for line in text.splitlines() if line.startswith("    cc ")).split()
    subprocess.run(command, cwd=tmp_path, check=True)
    x = random(4, 64)
    np.testing.assert_allclose(
        outputs(tmp_path / "net", tmp_path, x)[4:].reshape(4, 64), np.exp(x) * 2, rtol=1e-5
    )
    rows = dict(line.split(" | ")[:2] for line in text.splitlines() if line.startswith("| "))
    taken = {name[2:]: int(size) for name, size in list(rows.items()) if size.isdigit()}
    assert taken["flash: weights"] == 64 * 64 * 4
    assert taken["RAM: workspace"] == model.workspace_bytes > 0
    assert (taken["RAM: inputs"], taken["RAM: outputs"]) == (1024, 1024 + 16)
    assert taken["flash: code"] > 500 and 16 < taken["RAM: stack"] < 4096


def test_symbolic_sizes_are_those_of_the_bounds(tmp_path: Path) -> None:
    gcc = tool("gcc")
    written = loopwright.compile(Sized, target="c").write(tmp_path, "main", project=True)
    sources = [p for p in written if p.suffix == ".c"]
    assert [p.name for p in sources] == ["main_.c", "main.c"]
    run(gcc, "-Wall", "-Wextra", "-Werror", *sources, "-lm", "-o", tmp_path / "run")
    x, y = random(8, 4), random(16)
    got = outputs(tmp_path / "run", tmp_path, x, y)
    np.testing.assert_allclose(got, np.concatenate([np.exp(y), (x + x).ravel()]), rtol=1e-5)


def test_files_that_were_changed_stay(tmp_path: Path) -> None:
    model = loopwright.compile(Chain, target="c")
    model.write(tmp_path, project=True)
    (tmp_path / "main.c").write_text("int main(void) { return 7; }\n")
    written = model.write(tmp_path, project=True)
    assert [p.name for p in written[-2:]] == ["CMakeLists.txt", "README.md"]
    assert "return 7" in (tmp_path / "main.c").read_text()


def test_the_deepest_stack_is_that_of_a_path() -> None:
    graph = "\n".join(
        f'node: {{ title: "{n}" label: "{n}\\nm.c:1:1\\n{size} bytes (static)" }}'
        for n, size in (("run", 8), ("m.c:a", 100), ("m.c:b", 30), ("m.c:c", 90))
    )
    for a, b in (("run", "m.c:a"), ("run", "m.c:b"), ("m.c:b", "m.c:c"), ("m.c:a", "memset")):
        graph += f'\nedge: {{ sourcename: "{a}" targetname: "{b}" label: "m.c:2:2" }}'
    assert (deepest(graph, "run"), deepest(graph, "m.c:a")) == (8 + 30 + 90, 100)


@pytest.mark.parametrize(
    ("target", "compiler", "flags"),
    [
        ("c -mcpu=cortex-m3", "arm-none-eabi-gcc", "-mcpu=cortex-m3 -mthumb -mfloat-abi=soft"),
        ("c -mcpu=cortex-m7", "arm-none-eabi-gcc", "-mcpu=cortex-m7 -mthumb -mfloat-abi=hard"),
        ("c -mcpu=znver3 -mattr=-fma,+avx2", "cc", "-march=znver3 -mno-fma -mavx2"),
        ("c -mtriple=aarch64-linux-gnu -mattr=+neon,+dotprod", "aarch64-linux-gnu-gcc", "-march=armv8-a+dotprod"),
        ("c -mtriple=aarch64-unknown-linux-gnu -mcpu=cortex-a72", "aarch64-linux-gnu-gcc", "-mcpu=cortex-a72"),
    ],
)  # fmt: skip
def test_compilers_of_targets(target: str, compiler: str, flags: str) -> None:
    assert compiler_of(Target(target)) == (compiler, flags.split())


def test_without_the_compiler_nothing_is_measured(tmp_path: Path) -> None:
    model = loopwright.compile(Chain, target="c")
    model.write(tmp_path)
    files = model.files
    for compiler, flags, said in (
        ("no-such-gcc", [], "no-such-gcc is not installed"),
        (tool("gcc"), ["-march=nothing"], "nothing"),
    ):
        figures = measured(files, tmp_path, compiler, flags)
        assert figures.how.startswith("Not measured: ") and said in figures.how
        assert (figures.code, figures.stack) == ("?", "?")


PLAIN = """{include}
int scale(float* x, float* y, int n) {{
  int unused, k = n;
  for (k = 0; k < n; ++k) y[k] = x[k] * FACTOR;
  return 0;
}}
"""


def library(folder: Path, **options: object) -> ExternLibrary:
    """A library whose source does not compile with the flags of generated code."""
    source = folder / "scaling.c"
    source.write_text(PLAIN.format(include=options.pop("include", "")))
    prototype = "int scale(const float* x, float* y, int n)"
    return ExternLibrary("scaling", [prototype], sources=[source], **options)  # type: ignore[arg-type]


def test_sources_of_the_users_are_compiled_with_their_flags(tmp_path: Path) -> None:
    own = library(tmp_path, flags=["-DFACTOR=3"])
    model = loopwright.compile(calling(library=own), target="c")
    exported = load_module(model.export_library(tmp_path / "scaled.so"))["main"]
    x = random(8)
    for called in (model.build(), model["main"], exported):
        y = np.zeros(8, "float32")
        called(x, y)
        np.testing.assert_array_equal(y, x * 3)
    strict = library(tmp_path, flags=["-DFACTOR=3", "-Wall", "-Werror"])
    with pytest.raises(LoopwrightError, match="external library scaling[^§]*unused"):
        loopwright.compile(calling(library=strict), target="c").build()
    written = model.write(tmp_path / "out", "net", project=True)
    assert "net_scaling PRIVATE -DFACTOR=3" in (tmp_path / "out/CMakeLists.txt").read_text()
    assert "scaling.c" in {p.name for p in written}
    cmake = tool("cmake")
    run(cmake, "-S", tmp_path / "out", "-B", tmp_path / "build")
    run(cmake, "--build", tmp_path / "build")


@pytest.mark.parametrize("form", ["toy.h", '"toy.h"', '#include "toy.h"', "path", "<toy.h>"])
def test_headers_by_name_path_and_line(tmp_path: Path, form: str) -> None:
    """One in a folder of its own, which includes another next to it."""
    (tmp_path / "inc/sub").mkdir(parents=True)
    header = tmp_path / "inc/toy.h"
    header.write_text('#include "sub/factor.h"\nint scale(const float*, float*, int);\n')
    (tmp_path / "inc/sub/factor.h").write_text('#include "value.h"\n')
    (tmp_path / "inc/sub/value.h").write_text("#define FACTOR 5\n")
    own = library(
        tmp_path,
        headers=[header if form == "path" else form],
        include_dirs=[tmp_path / "inc"] * (form != "path"),
        include='#include "sub/factor.h"',
    )
    model = loopwright.compile(calling(library=own), target="c")
    assert "int scale(const float* x" not in model.source
    written = {str(p.relative_to(tmp_path / "out")) for p in model.write(tmp_path / "out")}
    copied = {"scaling.c", "sub/factor.h", "sub/value.h"} | ({"toy.h"} if form[0] != "<" else set())
    assert written == {"model.c", "model.h", *copied}
    x, y = random(8), np.zeros(8, "float32")
    model["main"](x, y)
    np.testing.assert_array_equal(y, x * 5)


def test_files_that_cannot_be_copied_are_refused(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "up.h").write_text("#define FACTOR 2\n")
    cases = [
        (library(tmp_path, headers=["toy.h"]), "no header of this name\n  got: toy.h"),
        (library(tmp_path / "deep", include='#include "../up.h"'), "cannot be in the folder"),
    ]
    for own, message in cases:
        with pytest.raises(LoopwrightError, match=message):
            loopwright.compile(calling(library=own), target="c").write(tmp_path / "out")
    (own,) = [library(tmp_path)]
    with pytest.raises(LoopwrightError, match="cannot be in the folder"):
        loopwright.compile(calling(library=own), target="c").write(tmp_path / "out", "scaling")
