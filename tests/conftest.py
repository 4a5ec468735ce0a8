"""What every test gets: goldens, and the round trip and verification of all the modules it makes."""

from __future__ import annotations

import difflib
import gc
import os
import random
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import hypothesis
import numpy as np
import pytest

from loopwright.base.registry import registries
from loopwright.ir.function import BaseFunc
from loopwright.ir.module import ON_CREATE, IRModule
from loopwright.ir.structural import assert_structural_equal
from loopwright.ir.transform import AFTER_PASS, PassInfo
from loopwright.relax.analysis import well_formed
from loopwright.runtime.collective import COMMUNICATOR, Alone
from loopwright.script import from_source
from loopwright.tir.analysis import verify_well_formed
from loopwright.tir.function import PrimFunc

from .accounting import *  # noqa: F403 (hooks)
from .drawing import seeded

# Operators between workers run with one.
COMMUNICATOR.set(Alone())
GOLDEN = Path(__file__).parent / "golden"
MODULES_PER_TEST = 20
# Bounds on the time of round trips and of verifying: one test in SHARE, and characters of a test's
# modules. The tests of passes and of schedules, in these folders, are all verified.
SHARE, TEXT_PER_TEST = 4, 16_000
VERIFIED = {"transform", "sched", "schedule"}
os.environ.setdefault("LOOPWRIGHT_TRACEBACK", "full")  # our own frames: failures are read by us
SAMPLE = os.environ.get("SAMPLE")  # 1: all cases of every table, and all round trips

# Examples are the same on every run, and a slow machine fails nothing.
EXAMPLES = 50 if SAMPLE else 20
hypothesis.settings.register_profile(
    "house", deadline=None, derandomize=True, max_examples=EXAMPLES
)
hypothesis.settings.load_profile("house")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden", action="store_true", help="write what tests print to tests/golden"
    )
    parser.addoption("--texts", metavar="DIR", help="write the texts of tests/replay to DIR")
    parser.addoption("--against", metavar="DIR", help="compare those texts with the ones in DIR")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Of a test that is marked `sample(n)`, all cases but one in n are slow: always the same ones."""
    cases: dict[str, list[pytest.Item]] = {}
    for item in items if not SAMPLE else ():
        if item.get_closest_marker("sample"):
            cases.setdefault(item.nodeid.partition("[")[0], []).append(item)
    for name, group in cases.items():
        mark = group[0].get_closest_marker("sample")
        assert mark is not None
        count = -(-len(group) // mark.args[0])
        for item in set(group).difference(random.Random(name).sample(group, count)):
            item.add_marker(pytest.mark.slow)


def pytest_collection_finish() -> None:
    """The garbage collector leaves the tests alone, and comes less often: compilers make many nodes."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(500_000, 20)


@pytest.fixture
def rng(request: pytest.FixtureRequest) -> np.random.Generator:
    """Random numbers that the test's name seeds."""
    return seeded(request.node.name)


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """`golden(name, text)`: `text` must equal the file tests/golden/NAME."""

    def check(name: str, text: str) -> None:
        path = GOLDEN / name
        text = text.rstrip("\n") + "\n"
        if request.config.getoption("--update-golden"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            return
        if not path.exists():
            pytest.fail(f"no golden file {path}; make it with pytest --update-golden")
        expected = path.read_text(encoding="utf-8")
        if text != expected:
            lines = difflib.unified_diff(
                expected.splitlines(), text.splitlines(), f"golden/{name}", "got", lineterm=""
            )
            note = "if this is meant: pytest --update-golden"
            pytest.fail("\n".join([*lines, note]), pytrace=False)

    return check


@pytest.fixture(autouse=True)
def round_trip(request: pytest.FixtureRequest) -> Iterator[None]:
    """Print, parse back and compare the modules that a test makes (the first distinct ones)."""
    if request.node.get_closest_marker("no_roundtrip") or not _has_turn(request.node):
        yield
        return
    made: list = []

    def collect(module: object) -> None:
        if len(made) < MODULES_PER_TEST:
            made.append(module)

    ON_CREATE.register("collect", collect)
    try:
        yield
    finally:
        ON_CREATE.remove("collect")
    seen: set[str] = set()
    budget = TEXT_PER_TEST
    for module in made:
        if _has_own_text(module):  # asked now: functions may have been added
            continue
        text = module.script(show_meta=True)
        budget -= len(text)
        if budget < 0:
            return
        if text not in seen:
            _check_round_trip(text, module)
        seen.add(text)


def _has_turn(item: pytest.Item) -> bool:
    """Whether a test is one of those whose modules are looked at: always the same ones."""
    return bool(SAMPLE) or zlib.crc32(item.nodeid.encode()) % SHARE == 0


def _has_own_text(module: object) -> bool:
    """Whether the module is one of Relay, whose text tests/relay/test_text.py is about."""
    return any(hasattr(f, "module_text") for f in module.functions.values())


def _check_round_trip(text: str, module: object) -> None:
    try:
        # Within a pass, functions and their calls may disagree for a while.
        assert_structural_equal(from_source(text, check_well_formed=False), module)
    except Exception as error:
        pytest.fail(f"printed and parsed, this module is another: {error}\n{text}", pytrace=False)


@pytest.fixture
def forgotten() -> Iterator[None]:
    """What a test registers is forgotten at its end."""
    with ExitStack() as stack:
        for registry in registries():
            stack.enter_context(registry.snapshot())
        yield


@pytest.fixture(autouse=True)
def verified(request: pytest.FixtureRequest) -> Iterator[None]:
    """Every pass that a test runs must leave a valid module."""
    node = request.node
    wanted = not VERIFIED.isdisjoint(node.path.parts) or _has_turn(node)
    if node.get_closest_marker("no_verify") or not wanted:
        yield
        return

    # Nodes do not change, so what was checked stays valid: loops alone, graphs beside the rest.
    loops: dict[int, PrimFunc] = {}
    graphs: dict[frozenset[tuple[str, int]], list[BaseFunc]] = {}

    def verify(module: IRModule, info: PassInfo) -> None:
        parts = frozenset((g.name_hint, id(f)) for g, f in module.functions.items())
        if parts in graphs:
            return
        assert well_formed(module), f"not a valid graph after pass {info.name!r}"
        graphs[parts] = list(module.functions.values())
        for func in module.functions.values():
            if isinstance(func, PrimFunc) and id(func) not in loops:
                valid = verify_well_formed(func, once=False)
                assert valid, f"not valid loops after pass {info.name!r}"
                loops[id(func)] = func

    AFTER_PASS.register("verify", verify)
    try:
        yield
    finally:
        AFTER_PASS.remove("verify")
