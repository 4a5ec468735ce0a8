"""torch's own backend of TVM, which runs this package where it is called `tvm`."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch

_PROGRAM = """
import torch
from loopwright.frontend.torch import report

net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU()).eval()
x = torch.randn(2, 4)
torch.testing.assert_close(torch.compile(net, backend="tvm")(x), net(x))
print(report())
"""


@pytest.mark.budget(12)
@pytest.mark.skipif(
    torch.__version__ < (2, 14), reason="before 2.14 torch's backend is that of Relay"
)
def test_backend_of_tvm(tmp_path) -> None:
    script = tmp_path / "program.py"
    script.write_text(_PROGRAM)
    command = [sys.executable, "-m", "loopwright.compat", str(script)]
    out = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert out.strip() == "1 graphs, 0 parts in eager torch"
