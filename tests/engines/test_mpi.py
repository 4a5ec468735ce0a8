"""MPI: a llama's block and an MLP on two ranks are those of one process; a rank that dies ends all."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mpi4py")

LAUNCHER = Path(sys.executable).with_name("mpiexec.gforker")  # of the package mpich
ROOT = Path(__file__).resolve().parents[2]

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not LAUNCHER.exists(), reason="the package mpich is not installed"),
]


def run(what: str) -> Any:
    """Two ranks, which listen on loopback alone."""
    command = [
        str(LAUNCHER),
        "-n",
        "2",
        sys.executable,
        "-m",
        "mpi4py",
        "-m",
        "tests.engines.sharded",
    ]
    loopback = {"UCX_NET_DEVICES": "lo", "FI_TCP_IFACE": "lo", "PYTHONPATH": str(ROOT / "src")}
    return subprocess.run(
        [*command, what],
        cwd=ROOT,
        env={**os.environ, **loopback},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.budget(30)
@pytest.mark.parametrize("kind", ["mlp", "block"])
def test_two_ranks_compute_what_one_does(kind):
    done = run(kind)
    assert not done.returncode and f"{kind}: error " in done.stdout, done.stdout + done.stderr
    print(done.stdout)


@pytest.mark.budget(30)
@pytest.mark.parametrize(
    ("fault", "said"), [("raise", "this worker has a fault"), ("kill", "signaled with Killed")]
)
def test_a_rank_that_dies_ends_the_others(fault, said):
    done = run(fault)  # a hang runs into the timeout
    assert said in done.stdout + done.stderr
    assert done.returncode or fault == "kill"  # this launcher reports a kill in words
