"""A model of gestures on microcontrollers without an operating system, in float32 and in int8.

python examples/bare_metal/build.py [FOLDER]

Each is exported as C, linked with `startup.c`, `main.c` and the compiler's own helper functions only, run by
qemu on a board with a Cortex-M3, M7 or M55, and compared with the model on this machine.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

import loopwright as lw

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))
import gestures  # noqa: E402

BOARDS = {"mps2-an385": "cortex-m3", "mps2-an500": "cortex-m7", "mps3-an547": "cortex-m55"}
FLAGS = ["-O3", "-std=c11", "-Wall", "-Wextra", "-Werror", "-ffp-contract=off"]
LINKING = ["-nostdlib", "-T", str(HERE / "memory.ld"), "-Wl,--gc-sections", "-lgcc"]
# Loops that copy stay loops: memcpy would call itself.
STARTUP = ["-fno-tree-loop-distribute-patterns", "-fno-builtin"]


def built(model: lw.CModel, sample: np.ndarray, output_bytes: int, folder: Path) -> Path:
    """The program of a model and one input."""
    model.write(folder, "gesture", project=True)
    numbers = ", ".join(map(str, sample.tobytes()))
    text = f"#define OUTPUT_BYTES {output_bytes}\n"
    text += f"static const unsigned char sample[] __attribute__((aligned(4))) = {{{numbers}}};\n"
    (folder / "sample.h").write_text(text)
    command, objects = model.compiler_command(), []
    sources = [
        HERE / "startup.c",
        HERE / "main.c",
        *(folder / f"gesture{e}.c" for e in ("", "_weights")),
    ]
    for source in sources:
        objects.append(str(folder / f"{source.stem}.o"))
        own = STARTUP if source.stem == "startup" else []
        options = [*FLAGS, *own, f"-I{folder}", "-c", source, "-o", objects[-1]]
        subprocess.run([*command, *options], check=True)
    program = folder / "gesture.elf"
    subprocess.run([*command, *objects, *LINKING, "-o", program], check=True)
    return program


def run(program: Path, board: str) -> tuple[bytes, int]:
    """The output of a program on a board, and the bytes of its stack."""
    command = ["qemu-system-arm", "-M", board, "-nographic", "-monitor", "none", "-serial", "none"]
    command += ["-semihosting-config", "enable=on,target=native", "-kernel", str(program)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    said = re.search(r"output (\w+)\nstack (\w+)", done.stdout + done.stderr)
    if done.returncode or said is None:
        raise RuntimeError(f"{board} ended with {done.returncode}: {done.stdout}{done.stderr}")
    return bytes.fromhex(said[1]), int(said[2], 16)


def main(folder: Path) -> None:
    for tool in ("arm-none-eabi-gcc", "qemu-system-arm"):
        if shutil.which(tool) is None:
            sys.exit(f"{tool} is not installed: make device-tools")
    real = gestures.fitted()
    models = {"float32": (real, np.float32), "int8": (gestures.quantized(real), np.int8)}
    scale = gestures.scale_of(models["int8"][0], "x")
    gesture, moved = gestures.motions(1, seed=5)[2]
    print("the motion is a", gestures.GESTURES[gesture])
    for kind, (model, dtype) in models.items():
        x = moved if kind == "float32" else np.rint(moved / scale).clip(-128, 127).astype("int8")
        here = lw.compile(model)["main"](x).numpy()
        for board, cpu in BOARDS.items():
            own = folder / f"{kind}-{cpu}"
            exported = lw.compile(model, target=f"c -mcpu={cpu}")
            said, stack = run(built(exported, x, here.nbytes, own), board)
            there = np.frombuffer(said, dtype).reshape(here.shape)
            apart = np.abs(there.astype("float64") - here).max()
            right = apart == 0 if kind == "int8" else apart < 1e-5
            print(
                f"{kind} on {cpu}: a {gestures.GESTURES[there.argmax()]}, {'right' if right else 'wrong'}"
                f" (apart by {apart:.1e}), stack {stack} bytes"
            )


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as temporary:
            main(Path(temporary))
