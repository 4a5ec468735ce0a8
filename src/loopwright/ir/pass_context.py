"""The context that passes run in, with its level, options and instruments."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from ..base import config as knobs
from ..base.errors import explain, suggest
from ..base.registry import Registry
from . import pass_options as pass_options  # fills the table that contexts are checked by
from . import trace as tracing
from .instrument import call_hook
from .module import IRModule
from .node import plain_attr


@dataclass(frozen=True)
class PassInfo:
    """Facts about a pass: the level from which it runs, its name, the passes it requires."""

    opt_level: int
    name: str
    required: tuple[str, ...] = ()
    traceable: bool = False

    def __str__(self) -> str:
        required = ", ".join(self.required)
        return f"pass name: {self.name}, opt_level: {self.opt_level}, required passes: [{required}]"


# Called with the result of each pass that ran; the test suite verifies modules here.
AFTER_PASS: Registry[str, Callable[[IRModule, PassInfo], None]] = Registry("listener to passes")


class NoOption(ValueError, AttributeError):
    """A name that is not one of the options."""


class NoEntry(ValueError, TypeError):
    """A name that is not one of the entries of an option."""


class WrongOption(TypeError, AttributeError):
    """An option whose value is of another type."""


class Entries(dict[str, Any]):
    """The value of an option that is a dict; entries are attributes, too, those that are not given
    with their defaults."""

    def __init__(self, entries: Mapping[str, Any], defaults: Mapping[str, Any]) -> None:
        super().__init__(entries)
        self._defaults = defaults

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name] if name in self else self.__dict__["_defaults"][name]
        except KeyError:
            what = "the option has no entry of this name"
            hint = f"one of {', '.join(self._defaults)}"
            raise AttributeError(explain(what, got=name, instead=hint)) from None


class PassContext:
    """The context that passes run in: `with PassContext(opt_level=3, config={...}): ...`.

    opt_level: in a `Sequential`, passes of a higher level are left out.
    required_pass, disabled_pass: names that run, or do not, whatever their level.
    config: the options of `ir.pass_options`, and what `base.config.declare_pass_option` adds; an
        unknown key is an error.
    """

    def __init__(
        self,
        opt_level: int = 2,
        required_pass: Iterable[str] | None = None,
        disabled_pass: Iterable[str] | None = None,
        instruments: Iterable[Any] | None = None,
        config: Mapping[str, Any] | None = None,
    ) -> None:
        self.opt_level = int(opt_level)
        self.required_pass = _names("required_pass", required_pass)
        self.disabled_pass = _names("disabled_pass", disabled_pass)
        self.instruments = list(instruments or [])
        self.config = {key: _option(key, value) for key, value in (config or {}).items()}

    def __enter__(self) -> PassContext:
        _CONTEXTS.set((*_CONTEXTS.get(), self))
        try:
            self._enter_instruments()
        except BaseException:
            _CONTEXTS.set(_CONTEXTS.get()[:-1])
            raise
        return self

    def __exit__(self, *_: object) -> None:
        _CONTEXTS.set(_CONTEXTS.get()[:-1])
        self._exit_instruments(self.instruments)

    def _enter_instruments(self) -> None:
        """Enter all; when one raises, those entered are left and none stays."""
        entered: list[Any] = []
        for instrument in self.instruments:
            try:
                call_hook(instrument, "enter_pass_ctx")
            except BaseException:
                self.instruments = []
                self._exit_instruments(entered)
                raise
            entered.append(instrument)

    @staticmethod
    def _exit_instruments(instruments: list[Any]) -> None:
        for instrument in instruments:
            call_hook(instrument, "exit_pass_ctx")

    def override_instruments(self, instruments: Iterable[Any] | None) -> None:
        """Leave the instruments of this context and enter these instead."""
        self._exit_instruments(self.instruments)
        self.instruments = list(instruments or [])
        self._enter_instruments()

    @staticmethod
    def current() -> PassContext:
        """The context of the innermost `with`, else the default one (opt_level 2)."""
        stack = _CONTEXTS.get()
        return stack[-1] if stack else _DEFAULT_CONTEXT

    @property
    def trace(self) -> tracing.Trace | None:
        """The trace that records now, or None."""
        return tracing.active()

    def option(self, name: str) -> Any:
        """The value of a config option, or its default; entries of a dict are attributes, too.

        Raises ValueError when no such option is declared.
        """
        declared, value = _declared(name), self.config.get(name)
        if value is None and declared.fields:
            return Entries({}, declared.fields)
        return declared.default if value is None else value

    @staticmethod
    def list_configs() -> dict[str, dict[str, str]]:
        """The declared options: name -> {"type", "default", "doc"}."""
        return {
            name: {"type": k.kind.__name__, "default": repr(k.default), "doc": k.doc}
            for name, k in sorted(knobs.PASS_OPTIONS.items())
        }

    def pass_enabled(self, info: PassInfo) -> bool:
        """Whether a `Sequential` runs this pass."""
        if info.name in self.disabled_pass:
            return False
        return info.name in self.required_pass or self.opt_level >= info.opt_level

    def __repr__(self) -> str:
        return (
            f"PassContext(opt_level={self.opt_level}, required_pass={self.required_pass}, "
            f"disabled_pass={self.disabled_pass}, config={self.config})"
        )


_CONTEXTS: ContextVar[tuple[PassContext, ...]] = ContextVar("pass contexts", default=())


def _names(what: str, names: Iterable[str] | None) -> list[str]:
    if isinstance(names, str):
        raise TypeError(
            explain(f"{what} is a list of names", got=repr(names), instead=f"[{names!r}]")
        )
    return list(names or [])


def _declared(key: str) -> knobs.Knob:
    knob = knobs.PASS_OPTIONS.get(key)
    if knob is None:
        hint = suggest(key, knobs.PASS_OPTIONS)
        raise NoOption(explain("PassContext has no config option", got=key, instead=hint))
    return knob


def _option(key: str, value: Any) -> Any:
    """The value of an option in the form that passes read. Raises TypeError and ValueError."""
    knob = _declared(key)
    value = _typed(knob, value)
    for name in value if knob.fields and value else ():
        if name not in knob.fields:
            what = f"config option {key!r} has no entry of this name"
            raise NoEntry(explain(what, got=name, instead=suggest(name, knob.fields)))
    if knob.refused and value:
        why, instead = knob.refused
        what = f"config option {key!r} has no effect in Loopwright: {why}"
        raise ValueError(explain(what, got=repr(value), instead=instead))
    return value


def _typed(knob: knobs.Knob, value: object) -> Any:
    kind = knob.kind
    plain = plain_attr(value)  # an IntImm for an int, as in TVM's scripts
    if kind is object or value is None:
        return value
    if kind is bool and isinstance(plain, int):
        return bool(plain)
    if kind is float and isinstance(plain, int) and not isinstance(plain, bool):
        return float(plain)
    if kind is list and isinstance(plain, tuple):
        return list(plain)
    if not isinstance(plain, kind) or (kind is int and isinstance(plain, bool)):
        what = f"config option {knob.name!r} needs a value of type {kind.__name__}"
        got = f"{value!r} of type {type(value).__name__}"
        raise WrongOption(explain(what, got=got, instead=knob.doc))
    return Entries(plain, knob.fields) if isinstance(plain, dict) else plain


_DEFAULT_CONTEXT = PassContext()


def unwatched() -> bool:
    """Whether passes run in the default context and no instrument or trace reads the modules in
    between."""
    ctx = PassContext.current()
    if ctx.instruments or ctx.config or ctx.required_pass or ctx.disabled_pass:
        return False
    if ctx.opt_level != _DEFAULT_CONTEXT.opt_level or AFTER_PASS:
        return False
    return tracing.active() is None and not knobs.knob("LOOPWRIGHT_DUMP")
