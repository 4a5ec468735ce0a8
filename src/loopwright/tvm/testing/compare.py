"""A class of tests: a program before a pass, and the expected program after it."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from ...ir.module import IRModule
from ...ir.structural import assert_structural_equal
from ...script import from_source
from ...tir import PrimFunc
from ...tir.transform.optimize.simplify import Simplify

FIXTURE = type(pytest.fixture(lambda: None))


class CompareBeforeAfter:
    """A test of the pass `transform`: it makes `expected` of `before`, or raises it.

    before, expected: a PrimFunc or module; a function, whose body is read as a PrimFunc's; a class
    of such functions; a method that takes self, and fixtures, and returns one; or a fixture.
    expected may be a class of errors, or be what `before` is. transform: a pass, a method that
    returns one, or a fixture. The three may also be called Before, Expected.
    """

    check_well_formed = True

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        for name in ("before", "Before", "expected", "Expected", "transform"):
            member = vars(cls).get(name)
            if member is not None and not isinstance(member, FIXTURE):
                make = cls._applied if name == "transform" else cls._normalize_before
                setattr(cls, name.lower(), make(member))

    @classmethod
    def _normalize_before(cls, before: Callable[..., Any] | type) -> Any:
        """The fixture `before` or `expected` (TVM's name: its other bases of tests call it)."""
        if isinstance(before, staticmethod):
            before = before.__func__
        if inspect.isfunction(before) and "self" in inspect.signature(before).parameters:
            return pytest.fixture(before)

        def value(self: CompareBeforeAfter) -> Any:
            return cls._program(before)

        return pytest.fixture(value)

    @classmethod
    def _applied(cls, transform: Simplify | Callable[..., Any]) -> Any:
        """The fixture `transform`: a function that takes a module or a function."""
        if inspect.isfunction(transform):
            return pytest.fixture(lambda self: partial(apply, transform(self)))
        return pytest.fixture(lambda self: partial(apply, transform))

    @classmethod
    def _program(cls, program: Callable[..., Any] | type) -> Any:
        if inspect.isfunction(program):
            text = "@T.prim_func\n" + textwrap.dedent(inspect.getsource(program))
            return from_source(text, check_well_formed=cls.check_well_formed)
        if not inspect.isclass(program) or issubclass(program, BaseException):
            return program
        functions = {k: cls._program(v) for k, v in vars(program).items() if k[0] != "_"}
        return IRModule({k: v.with_attr("global_symbol", k) for k, v in functions.items()})

    def test_compare(
        self,
        before: IRModule | PrimFunc,
        expected: IRModule | PrimFunc | type[ValueError],
        transform: Callable[..., Any],
    ) -> None:
        """Apply the pass and compare."""
        if inspect.isclass(expected) and issubclass(expected, BaseException):
            with pytest.raises(expected):
                apply(transform, before)
        else:
            assert_structural_equal(named(apply(transform, before)), named(expected))


def named(program: IRModule | PrimFunc) -> Any:
    """A single function under the name that both sides of a comparison have."""
    return program.with_attr("global_symbol", "main") if isinstance(program, PrimFunc) else program


def apply(transform: Simplify | Callable[..., Any], program: Any) -> Any:
    """The result of a pass on a module, or on a function."""
    if isinstance(transform, partial) or not isinstance(program, PrimFunc):
        return transform(program)
    return transform(IRModule({"main": named(program)}))["main"]
