"""Parameters and requirements of tests, for pytest."""

from __future__ import annotations

import importlib.util
import inspect
import sys
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import pytest

fixture = pytest.fixture


def parameter(
    *values: Any, ids: Sequence[str] | None = None, by_dict: dict[str, Any] | None = None
) -> Any:
    """A fixture, called as the variable it is assigned to, that takes each of the values:

    size = parameter(1, 7)
    def test(size): ...
    """
    if by_dict is not None:
        if values or ids:
            raise ValueError("parameter takes values, or by_dict={id: value}, not both")
        ids, values = list(by_dict), tuple(by_dict.values())

    def value(request: pytest.FixtureRequest) -> Any:
        return request.param

    return pytest.fixture(params=list(values), ids=ids)(value)


class Requirement:
    """A decorator of tests that need something; `marks()` gives it for `pytestmark`."""

    def __init__(self, what: str, present: Callable[[], bool]) -> None:
        self.what = what
        self.present = present

    def marks(self) -> list[pytest.MarkDecorator]:
        """The marks that skip a test where the requirement is not met."""
        return [pytest.mark.skipif(not self.present(), reason=f"needs {self.what}")]

    def __call__(self, test: Any) -> Any:
        for mark in self.marks():
            test = mark(test)
        return test


requires_llvm = Requirement("llvmlite", lambda: importlib.util.find_spec("llvmlite") is not None)
requires_gpu = Requirement("a code generator for GPUs", lambda: False)
requires_cuda = Requirement("a code generator for CUDA", lambda: False)


def requires_package(*packages: str) -> Requirement:
    """What needs Python packages, by name."""
    missing = [p for p in packages if importlib.util.find_spec(p) is None]
    return Requirement(" and ".join(missing or packages), lambda: not missing)


def main() -> NoReturn:
    """Run the tests of the file that calls this."""
    frame = inspect.currentframe()
    caller = frame.f_back if frame is not None else None
    path = inspect.getsourcefile(caller) if caller is not None else None
    sys.exit(pytest.main([path or sys.argv[0], *sys.argv[1:]]))
