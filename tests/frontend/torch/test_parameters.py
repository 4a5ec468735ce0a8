"""Parameters of `torch.compile`: bound and packed once, again where they changed, frozen, and kept on disk."""

from __future__ import annotations

import copy
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

from loopwright.frontend.torch import bound, report

T = torch.Tensor
# Weights have no values, which text and JSON would have to hold.
pytestmark = pytest.mark.no_roundtrip


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    torch._dynamo.reset()
    report(reset=True)
    torch.manual_seed(0)
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        yield
    assert not torch._inductor.config.freezing


@pytest.fixture
def packings(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Grows each time that parameters are packed."""
    seen: list[int] = []
    bind = bound.Binding.bind

    def counted(self: bound.Binding, args: list[object]) -> None:
        seen.append(1)
        bind(self, args)

    monkeypatch.setattr(bound.Binding, "bind", counted)
    return seen


class Net(torch.nn.Module):
    """A convolution, a batch norm that is folded into it, and a product."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 8, 3, padding=1)
        self.norm = torch.nn.BatchNorm2d(8)
        self.linear = torch.nn.Linear(8, 5)
        self.norm.running_mean.uniform_(-1, 1)
        self.norm.running_var.uniform_(0.5, 2)

    def forward(self, x: T) -> T:
        return self.linear(self.norm(self.conv(x)).relu().mean((2, 3)))


def compiled(net: Callable[..., T], **options: object) -> Callable[..., T]:
    return torch.compile(net, backend="loopwright", **options)


def agrees(run: Callable[..., T], net: Callable[..., T], *args: T) -> None:
    torch.testing.assert_close(run(*args), net(*args), rtol=1e-4, atol=1e-5)
    assert not report().eager, report()


CHANGES: dict[str, Callable[[Net], object]] = {
    "written": lambda net: net.conv.weight.add_(1),
    "buffer": lambda net: net.norm.running_mean.add_(1),
    "data written": lambda net: net.linear.weight.data.mul_(2),
    "data": lambda net: setattr(net.linear.weight, "data", net.linear.weight + 1),
    "replaced": lambda net: setattr(net.linear, "bias", torch.nn.Parameter(torch.ones(5))),
    "state": lambda net: net.load_state_dict(Net().eval().state_dict()),
}


@pytest.mark.parametrize("native", [True, False])
def test_a_change_is_seen(
    native: bool, packings: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    if not native:
        monkeypatch.setattr(bound, "_native", lambda: None)
    net, x = Net().eval(), torch.randn(2, 3, 6, 6)
    run = compiled(net)
    for k, (name, change) in enumerate(CHANGES.items(), 1):
        for _ in range(3):
            agrees(run, net, x)
        assert len(packings) == k, name
        if not native and name == "buffer":  # what comes next writes past the version
            break
        change(net)
    assert native or len(packings) == 2


def test_an_optimizer_writes() -> None:
    net, x = Net().eval(), torch.randn(2, 3, 6, 6)
    run, step = compiled(net), torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(3):
        agrees(run, net, x)
        with torch.enable_grad():
            net(x).sum().backward()
        step.step()


def test_modules_of_one_class_have_their_own(packings: list[int]) -> None:
    nets, x = [Net().eval() for _ in range(3)], torch.randn(2, 3, 6, 6)
    runs = [compiled(net) for net in nets]
    for _ in range(3):
        for run, net in zip(runs, nets, strict=True):
            agrees(run, net, x)
    assert len(packings) == 3 and report().graphs == 1


def test_a_new_object_at_the_old_address() -> None:
    x = torch.randn(2, 3, 6, 6)
    for _ in range(4):
        net = Net().eval()
        agrees(compiled(net), net, x)
        del net


def test_native_code_compares() -> None:
    assert bound._native() is not None, "the fields of this torch were not found"


def test_frozen() -> None:
    net, x = Net().eval(), torch.randn(2, 3, 6, 6)
    run, before = compiled(net, options={"freeze": True}), net(x)
    agrees(run, net, x)
    net.conv.weight.add_(1)
    torch.testing.assert_close(run(x), before, rtol=1e-4, atol=1e-5)
    other = Net().eval()
    agrees(compiled(other, options={"freeze": True}), other, x)


def test_with_gradients_nothing_is_frozen() -> None:
    net, x = Net().eval(), torch.randn(2, 3, 6, 6)
    run = compiled(net, options={"freeze": True})
    with torch.enable_grad():
        agrees(run, net, x)
        net.conv.weight.data.add_(1)
        agrees(run, net, x)


def test_unknown_options_are_named() -> None:
    with pytest.raises(Exception, match="loopwright has no such option"):
        compiled(torch.sin, options={"frozen": True})(torch.ones(3))


def test_buffers_that_calls_write() -> None:
    class Counter(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("seen", torch.zeros(4))

        def forward(self, x: T) -> T:
            self.seen += x
            return self.seen * 2

    net = Counter()
    own = copy.deepcopy(net)
    run = compiled(net)
    for _ in range(3):
        torch.testing.assert_close(run(torch.ones(4)), own(torch.ones(4)))
    torch.testing.assert_close(net.seen, own.seen)


# ---------------------------------------------------------------- on disk

_PROGRAM = """
import sys, torch
from loopwright.frontend.torch import parts, report
torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.BatchNorm2d(8), torch.nn.ReLU()).eval()
x = torch.randn(1, 3, 8, 8)
compile = parts.COMPILE.get()
def counted(*args):
    print("compiles")
    return compile(*args)
parts.COMPILE._value = counted
options = {"freeze": True} if "freeze" in sys.argv else None
def f(x):  # with a part in eager
    return torch.linalg.eigh(net(x)[0, 0]).eigenvectors.abs() * 2
with torch.no_grad():
    for fn in net, f:
        got = torch.compile(fn, backend="loopwright", options=options)(x)
        torch.testing.assert_close(got, fn(x), rtol=1e-3, atol=1e-4)
print(len(report().eager))
"""


@pytest.mark.budget(40)
@pytest.mark.parametrize("freeze", ["", "freeze"])
def test_a_second_process_compiles_nothing(
    freeze: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOOPWRIGHT_CACHE", "1")
    monkeypatch.setenv("LOOPWRIGHT_CACHE_DIR", str(tmp_path / "cache"))

    def lines() -> list[str]:
        command = [sys.executable, "-W", "ignore", "-c", _PROGRAM, freeze]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()

    first = lines()
    assert first[-1] == "1" and "compiles" in first
    assert lines() == ["1"]
    for entry in (tmp_path / "cache" / "executables").glob("*/*.o"):
        entry.write_bytes(entry.read_bytes()[:-7] + b"damaged")
    assert lines() == first
