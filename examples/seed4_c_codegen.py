"""Seed 4: a network on a vendor's C library, as C, with planned memory between the calls.

python examples/seed4_c_codegen.py
"""

import subprocess
import tempfile
from pathlib import Path

import numpy as np
from toy_cg import BACKEND

import loopwright as lw
from loopwright.script import ir as I
from loopwright.script import relax as R

rng = np.random.default_rng(0)
X = rng.standard_normal((64, 800), "float32")
W1, B1 = rng.standard_normal((500, 800), "float32") / 28, rng.standard_normal(500, "float32")
W2, B2 = rng.standard_normal((10, 500), "float32") / 22, rng.standard_normal(10, "float32")
PROGRAM = """#include <stdio.h>
#include "model.h"
static float x[64 * 800], y[64 * 10];
int main(void) {
  struct model_main_inputs in = {x};
  struct model_main_outputs out = {y};
  if (fread(x, sizeof x, 1, stdin) != 1 || model_main_run(&in, &out, NULL) != 0) return 1;
  return fwrite(y, sizeof y, 1, stdout) != 1;
}
"""


@I.ir_module
class Network:
    @R.function
    def main(x: R.Tensor((64, 800), "float32")):
        with R.dataflow():
            h = R.add(R.matmul(x, R.permute_dims(R.const(W1))), R.const(B1))
            y = R.add(R.matmul(R.nn.relu(h), R.permute_dims(R.const(W2))), R.const(B2))
            R.output(y)
        return y


expected = np.maximum(X @ W1.T + B1, 0) @ W2.T + B2
exe = lw.compile(Network, backends=[BACKEND])
print("LLVM: max error", np.abs(exe["main"](X).numpy() - expected).max())

model = lw.compile(Network, target="c", backends=[BACKEND])
print("int32_t model_main(" + model.source.split("int32_t model_main(")[1].split("\n}")[0])
with tempfile.TemporaryDirectory() as folder:
    model.write(folder)
    Path(folder, "run.c").write_text(PROGRAM)
    gcc = "gcc -std=c99 -Wall -Wextra -Werror -pedantic -O2"
    library = f"{gcc} -c toy_cg_thflow.c && ar rcs libtoy_cg_thflow.a toy_cg_thflow.o"
    link = f"{gcc} run.c model.c model_weights.c -L. -ltoy_cg_thflow -lm -o run"
    subprocess.run(f"{library} && {link}", shell=True, cwd=folder, check=True)
    made = subprocess.run(f"{folder}/run", input=X.tobytes(), capture_output=True, check=True)
print(
    "C: max error", np.abs(np.frombuffer(made.stdout, "float32").reshape(64, 10) - expected).max()
)
