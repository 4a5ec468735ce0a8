"""`python -m loopwright.compat script.py ...`: run a script written for TVM."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

from . import alias

if len(sys.argv) < 2:
    sys.exit("usage: python -m loopwright.compat SCRIPT [ARGUMENT ...]")
alias("tvm")
sys.argv = sys.argv[1:]
sys.path[0] = str(Path(sys.argv[0]).resolve().parent)  # as `python script.py` has it
runpy.run_path(sys.argv[0], run_name="__main__")
