"""Arrays that other libraries hold."""

from __future__ import annotations

import subprocess
import sys

HELD_TO_THE_END = """
import numpy as np
from loopwright.runtime import dlpack
from loopwright.runtime.tensor import Tensor

class Box:
    pass

array = np.arange(64, dtype="float32")
array.flags.writeable = False  # as a constant read from a file
box = Box()
box.itself, box.tensor = box, Tensor(array).__tvm_ffi_object__()
dlpack.box = box
"""


def test_a_read_only_array_outlives_the_modules_when_the_process_ends():
    """Its deleter is called when the module that defines it is gone."""
    done = subprocess.run([sys.executable, "-c", HELD_TO_THE_END], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
