"""A model as C source: planned workspace, a program that calls it, built with the strictest flags.

python examples/c_export.py
"""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

import numpy as np

import loopwright as lw
from loopwright.frontend.onnx import from_path_or_proto
from loopwright.relax.transform import BindSymbolicVars

BUNDLED = Path(lw.__file__).parent / "driver/data/digits.onnx"

MAIN = """#include <stdio.h>
#include "digits.h"

static uint8_t workspace[DIGITS_WORKSPACE_BYTES];
static float image[1 * 16 * 16], probability[10];

int main(void) {
  struct digits_main_inputs inputs = {image};
  struct digits_main_outputs outputs = {probability};
  if (fread(image, sizeof image, 1, stdin) != 1) return 1;
  if (digits_main_run(&inputs, &outputs, workspace) != 0) return 2;
  return fwrite(probability, sizeof probability, 1, stdout) == 1 ? 0 : 3;
}
"""


def main() -> None:
    model = BindSymbolicVars({"n": 1})(from_path_or_proto(str(BUNDLED)))
    exported = lw.compile(model, target="c")
    print(exported.memory_plan.report().splitlines()[2].strip())
    image = np.load(BUNDLED.with_suffix(".npz"))["image"][:1]
    with tempfile.TemporaryDirectory() as folder:
        written = exported.write(folder, "digits")
        print(", ".join(path.name for path in written))
        Path(folder, "main.c").write_text(MAIN, encoding="utf-8")
        flags = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic", "-O2"]
        sources = ["main.c", *(path.name for path in written if path.suffix == ".c")]
        subprocess.run(["cc", *flags, *sources, "-lm", "-o", "main"], cwd=folder, check=True)
        printed = subprocess.run([f"{folder}/main"], input=image.tobytes(), capture_output=True)
    probability = np.frombuffer(printed.stdout, "float32")
    same = np.allclose(probability, lw.compile(model)["main"](image).numpy(), atol=1e-5)
    print(f"the C program reads a {probability.argmax()}; as in Python: {same}")


if __name__ == "__main__":
    main()
