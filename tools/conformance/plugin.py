"""The pytest plugin of a run: Loopwright is `tvm`, and each event is a line of $CONFORMANCE_LOG."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from loopwright import compat

compat.alias("tvm")

from loopwright.testing.plugin import (  # noqa: E402  (under the alias)
    dev,
    pytest_collection_modifyitems,
    pytest_generate_tests,
)

LOG = Path(os.environ["CONFORMANCE_LOG"])
DONE = set(json.loads(os.environ.get("CONFORMANCE_DONE", "[]")))
MARKS = ("exclude_targets", "known_failing_targets", "mark_parameterizations", "gpu", "slow")
WELL_FORMED = ("before", "after")


def say(**event: Any) -> None:
    """Add an event to the log; it is there even if the interpreter dies next."""
    with LOG.open("a") as log:
        log.write(json.dumps(event) + "\n")


def pytest_configure(config: pytest.Config) -> None:
    for name in (*MARKS, *(f"skip_well_formed_check_{w}_transform" for w in WELL_FORMED)):
        config.addinivalue_line("markers", name)


def pytest_collection_finish(session: pytest.Session) -> None:
    say(event="collected", tests=[item.nodeid for item in session.items])
    session.items[:] = [item for item in session.items if item.nodeid not in DONE]


def pytest_collectreport(report: pytest.CollectReport) -> None:
    if report.failed:
        say(event="no collection", message=str(report.longrepr)[-1500:])
    elif report.skipped:
        say(event="skipped file")


def pytest_runtest_logstart(nodeid: str) -> None:
    say(event="start", test=nodeid)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.when != "call" and report.outcome == "passed":
        return
    crash = getattr(report.longrepr, "reprcrash", None)
    message = crash.message if crash else str(report.longrepr)[-600:]
    expected = hasattr(report, "wasxfail")
    outcome = "passed" if expected else report.outcome
    failed = outcome == "failed"
    say(event=outcome, test=report.nodeid, message=message[:600] if failed else "")


@pytest.fixture(autouse=True)
def _well_formed(request: pytest.FixtureRequest) -> Any:
    """The modules of the tests of Relax are checked before and after each pass."""
    if "/relax/" not in request.node.nodeid and "relax" not in Path(request.node.path).parts:
        yield
        return
    from tvm.ir.transform import PassContext  # type: ignore[import-not-found]
    from tvm.relax.ir.instrument import WellFormedInstrument  # type: ignore[import-not-found]

    marks = {m.name for m in request.node.iter_markers()}
    before, after = (f"skip_well_formed_check_{w}_transform" not in marks for w in WELL_FORMED)
    if not (before or after):
        yield
        return
    current = PassContext.current()
    checks = WellFormedInstrument(validate_before_transform=before)
    with PassContext(
        opt_level=current.opt_level,
        required_pass=current.required_pass,
        disabled_pass=current.disabled_pass,
        instruments=[*(current.instruments or []), checks],
        config=current.config,
    ):
        yield


__all__ = ["dev", "pytest_collection_modifyitems", "pytest_generate_tests"]
