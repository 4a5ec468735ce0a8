"""Networks in Relay after every pass, and translated to Relax."""

from __future__ import annotations

from typing import Any

import pytest

from loopwright.ir.module import IRModule
from loopwright.ir.transform import Pass, PassContext
from loopwright.relay import testing, transform
from loopwright.relay.translate import to_relax

from .stages import said

NETWORKS = {
    "mlp": lambda: testing.mlp.get_workload(1),
    "lenet": lambda: testing.lenet.get_workload(1),
    "mobilenet": lambda: testing.mobilenet.get_workload(image_shape=(3, 32, 32)),
    "squeezenet": lambda: testing.squeezenet.get_workload(image_shape=(3, 64, 64)),
    "dqn": lambda: testing.dqn.get_workload(1),
    "dcgan": lambda: testing.dcgan.get_workload(1, ngf=4, random_len=8),
    "lstm": lambda: testing.lstm.get_workload(2, 8),
    "synthetic": lambda: testing.synthetic.get_workload(),
}
PASSES = {
    name: made
    for name, made in vars(transform).items()
    if isinstance(made, type)
    and issubclass(made, Pass)
    and made.__module__.startswith(transform.__name__)
}


@pytest.mark.no_roundtrip
@pytest.mark.parametrize("network", NETWORKS)
def test_network(network: str, snapshot: Any) -> None:
    mod, _ = NETWORKS[network]()
    rows = {"as it is": {"": _texts(mod)}}
    for name, made in PASSES.items():
        with PassContext(opt_level=4):
            after = said(lambda made=made: _texts(made()(mod)))
        rows[name] = {"": after}
    snapshot(f"relay/{network}", rows)


def _texts(mod: IRModule) -> str:
    return f"{mod.astext(show_meta_data=False)}\n{to_relax(mod).script()}"
