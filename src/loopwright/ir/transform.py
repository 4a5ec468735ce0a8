"""Passes: named, pure functions from module to module, and the context they run in.

A pass of this package is a frozen dataclass, whose fields are its options, and named by its class:

    class FuseOps(ModulePass):
        fuse_opt_level: int = -1

        def run(self, mod, ctx):
            ...
            return mod.with_functions(changed)

A `FunctionPass` has `run_function(func, mod, ctx)`, called for each function of its
`function_type`. Users decorate a function or a class (`module_pass`, and what
`make_pass_decorator` makes for functions of one kind).
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, is_dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, dataclass_transform

from ..base import budget, progress
from ..base import config as knobs
from ..base.errors import explain, suggest
from ..base.foreign import note
from ..base.frames import boundary
from ..base.late import public_names as _public_names
from ..base.registry import Registry
from ..base.span import Span, source_line
from ..base.stack import roomy
from . import pass_options as pass_options  # fills the table that contexts are checked by
from . import trace as tracing
from .function import BaseFunc
from .functor import allow_deep_programs
from .instrument import DumpIR, call_hook
from .module import IRModule as IRModule
from .module import called_global_vars
from .pass_context import AFTER_PASS as AFTER_PASS
from .pass_context import PassContext as PassContext
from .pass_context import PassInfo as PassInfo
from .pass_context import unwatched as unwatched
from .structural import structural_hash

if TYPE_CHECKING:
    from .node import Node

_PACKAGE = __name__.partition(".")[0] + "."
PASSES: Registry[str, Callable[[], Pass]] = Registry("pass")


# ---------------------------------------------------------------------- passes


def register_pass(name: str, make: Callable[[], Pass]) -> None:
    """Let `required=[name]` and `get_pass(name)` find a pass."""
    PASSES.register(name, make, override=True)


def get_pass(name: str) -> Pass:
    """The registered pass of that name, made without arguments.

    Raises ValueError naming close names if no pass has it.
    """
    make = PASSES.get(name)
    if make is None:
        raise ValueError(_unknown_pass("no pass of this name is registered", name, PASSES))
    return make()


def _unknown_pass(what: str, name: str, registered: Iterable[str]) -> str:
    names = list(dict.fromkeys(registered))
    return explain(what, got=name, instead=suggest(name, names) if names else None)


_info = cache(PassInfo)


@dataclass_transform(frozen_default=True)
class Pass:
    """Base of passes. Subclasses have `run`, maybe `opt_level` and `required`. A user's pass has its
    `name`; one of this package has that of its class behind `prefix`, and is made a dataclass."""

    name: ClassVar[str] = ""
    prefix: ClassVar[str] = ""
    opt_level: ClassVar[int] = 0
    required: ClassVar[tuple[str, ...]] = ()
    traceable: ClassVar[bool] = False

    def __init_subclass__(cls, abstract: bool = False, repr: bool = True, **kwargs: Any) -> None:
        """abstract: whether it is a base of passes, and not one itself. repr: whether it is shown
        with its options."""
        super().__init_subclass__(**kwargs)
        is_decorated = "info" in cls.__dict__  # a user's function or class
        if cls.__module__.startswith(_PACKAGE) and not abstract and not is_decorated:
            if "name" not in cls.__dict__:
                cls.name = f"{cls.prefix}{cls.__name__}"
            if cls.__init__ is object.__init__ or is_dataclass(cls):
                dataclass(frozen=True, repr=repr)(cls)
        name = cls.__dict__.get("name")
        if isinstance(name, str) and name:
            register_pass(name, cls)

    @property
    def info(self) -> PassInfo:
        """Name, level and requirements."""
        name = self.name or type(self).__name__
        return _info(self.opt_level, name, tuple(self.required), self.traceable)

    def run(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """The new module; the same object when nothing changes."""
        raise NotImplementedError(f"{type(self).__name__} has no method run(self, mod, ctx)")

    @boundary
    @roomy
    def __call__(self, mod: IRModule) -> IRModule:
        """Run on a module: requirements first, watched by the context's instruments.

        Raises TypeError if `mod` is not a module, or the pass returns none.
        """
        allow_deep_programs()
        info, ctx = self.info, PassContext.current()
        budget.check(info.name)
        if not isinstance(mod, IRModule):
            what = f"pass {info.name!r} runs on an IRModule"
            hint = "wrap a function with IRModule.from_expr(func)"
            raise TypeError(explain(what, got=type(mod).__name__, instead=hint))
        for required in info.required:
            mod = get_pass(required)(mod)
        if not _may_run(mod, info, ctx):
            return mod
        for instrument in ctx.instruments:
            call_hook(instrument, "run_before_pass", mod, info, pass_name=info.name)
        result = self._traced(mod, info, ctx)
        for instrument in ctx.instruments:
            call_hook(instrument, "run_after_pass", result, info, pass_name=info.name)
        _dump(result, info)
        for notify in AFTER_PASS.values():
            notify(result, info)
        return result

    def _traced(self, mod: IRModule, info: PassInfo, ctx: PassContext) -> IRModule:
        recording = tracing.active()
        if recording is None:
            return self._checked_run(mod, info, ctx)
        record, start = recording.begin(info.name, mod), time.perf_counter()
        try:
            result = self._checked_run(mod, info, ctx)
        except BaseException as error:
            failure = f"{type(error).__name__}: {error}".splitlines()[0]
            recording.end(record, None, (time.perf_counter() - start) * 1e3, failure)
            raise
        recording.end(record, result, (time.perf_counter() - start) * 1e3)
        return result

    def _checked_run(self, mod: IRModule, info: PassInfo, ctx: PassContext) -> IRModule:
        before = structural_hash(mod) if ctx.option("testing.immutable_module") else None
        try:
            result = self.run(mod, ctx)
        except Exception as error:
            note(error, f"the pass {info.name!r}", self.user_code())
            raise
        if before is not None and structural_hash(mod) != before:
            what = f"pass {info.name!r} changed the module it was given"
            hint = "change a copy: mod.clone()"
            raise ValueError(explain(what, instead=hint, span=code_span(self.user_code())))
        if not isinstance(result, IRModule):
            raise wrong_result(info.name, result, IRModule, self.user_code())
        return result

    def user_code(self) -> Any:
        """The function whose source line an error about the result shows."""
        return type(self).run

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.info.name!r})"


def wrong_result(
    pass_name: str, result: BaseFunc | str | int | None, expected: type, code: Callable[..., Any]
) -> TypeError:
    """The error about a pass that returned something else than `expected`."""
    noun = "module" if issubclass(expected, IRModule) else "function"
    if result is None:
        what, got = f"pass {pass_name!r} returned None", "None"
    else:
        name = expected.__name__
        what = f"pass {pass_name!r} must return {'an' if name[0] in 'AEIOU' else 'a'} {name}"
        got = f"{result!r} of type {type(result).__name__}"
        got = got if len(got) < 200 else f"a value of type {type(result).__name__}"
    hint = f"return the (changed) {noun}"
    return TypeError(explain(what, got=got, instead=hint, span=code_span(code)))


def code_span(function: Callable[..., Any]) -> Span | None:
    """The line of a Python function's `def`."""
    function = getattr(function, "__wrapped__", function)
    code = getattr(getattr(function, "__func__", function), "__code__", None)
    if code is None:
        return None
    line = code.co_firstlineno  # of the first decorator, where there are some
    for number in range(line, line + 20):
        text = source_line(code.co_filename, number)
        if text is None:
            break
        match = re.match(r"\s*(?:async\s+)?def\s+(\w+)", text)
        if match:
            start, end = match.span(1)
            return Span(code.co_filename, number, number, start + 1, end + 1)
    return Span(code.co_filename, line, line, 1, 2)


def _may_run(mod: IRModule, info: PassInfo, ctx: PassContext) -> bool:
    answers = [
        call_hook(instrument, "should_run", mod, info, pass_name=info.name)
        for instrument in ctx.instruments
        if info.name not in ctx.required_pass
    ]
    return all(answer is None or answer for answer in answers)


_DUMPS: dict[str, DumpIR] = {}


def _dump(mod: IRModule, info: PassInfo) -> None:
    folder = knobs.knob("LOOPWRIGHT_DUMP")
    if folder:
        if folder not in _DUMPS:
            _DUMPS[folder] = DumpIR(folder)
            _DUMPS[folder].enter_pass_ctx()
        _DUMPS[folder].run_after_pass(mod, info)


class ModulePass(Pass, abstract=True):
    """A pass on the whole module: `run(mod, ctx) -> mod`."""


class FunctionPass(Pass, abstract=True):
    """A pass on each function of `function_type`: `run_function(func, mod, ctx) -> func`."""

    function_type: ClassVar[type] = BaseFunc

    def run_function(self, func: Any, mod: IRModule, ctx: PassContext) -> Any:
        """The new function; the same object when nothing changes."""
        raise NotImplementedError(f"{type(self).__name__} has no method run_function")

    def takes(self, func: BaseFunc) -> bool:
        """Whether it runs on a function of the module."""
        return isinstance(func, self.function_type)

    def run(self, mod: IRModule, ctx: PassContext) -> IRModule:
        changed = {}
        for gvar, func in mod.functions.items():
            if self.takes(func):
                budget.check(self.info.name)
                result = self.run_function(func, mod, ctx)
                if not isinstance(result, self.function_type):
                    raise wrong_result(self.info.name, result, self.function_type, self.user_code())
                changed[gvar] = result
        return mod.with_functions(changed)

    def user_code(self) -> Any:
        return type(self).run_function


class Sequential(Pass, abstract=True):
    """Passes one after another, those that the context enables.

    It can be edited by the passes' names, in place, also within nested sequences:
    `seq.insert_before("FuseOps", my_pass)`; each edit returns the sequence.
    """

    def __init__(
        self,
        passes: Iterable[Callable[[IRModule], IRModule]] | None = None,
        opt_level: int = 0,
        name: str = "sequential",
        required: Iterable[str] | None = None,
        traceable: bool = False,
    ) -> None:
        self.passes = list(passes or [])
        for item in self.passes:
            _check_pass(item)
        self._info = PassInfo(opt_level, name, tuple(required or ()), bool(traceable))

    @property
    def info(self) -> PassInfo:
        return self._info

    def run(self, mod: IRModule, ctx: PassContext) -> IRModule:
        for number, item in enumerate(self.passes):
            if ctx.pass_enabled(item.info):
                with progress.step("pass", item.info.name, number, len(self.passes)):
                    mod = item(mod)
        return mod

    def names(self) -> list[str]:
        """The passes' names in order, nested sequences opened."""
        listed: list[str] = []
        for item in self.passes:
            listed += item.names() if isinstance(item, Sequential) else [item.info.name]
        return listed

    def insert_before(self, name: str, *passes: Pass) -> Sequential:
        """Put passes before the first one of that name. Raises ValueError if no pass has it."""
        return self._edit(name, lambda anchor: [*passes, anchor], first_only=True)

    def insert_after(self, name: str, *passes: Pass) -> Sequential:
        """Put passes after the last one of that name. Raises ValueError if no pass has it."""
        return self._edit(name, lambda anchor: [anchor, *passes], last_only=True)

    def replace(self, name: str, *passes: Pass) -> Sequential:
        """Put passes in the place of every one of that name. Raises ValueError when there is
        none."""
        return self._edit(name, lambda _: list(passes))

    def remove(self, name: str) -> Sequential:
        """Remove every pass of that name. Raises ValueError if no pass has it."""
        return self._edit(name, lambda _: [])

    def append(self, *passes: Pass) -> Sequential:
        """Put passes at the end."""
        for item in passes:
            _check_pass(item)
        self.passes += passes
        return self

    def _edit(
        self,
        name: str,
        change: Callable[[Any], list[Any]],
        first_only: bool = False,
        last_only: bool = False,
    ) -> Sequential:
        total = self._count(name)
        if not total:
            names_in = self.names()
            raise ValueError(
                _unknown_pass(f"{self.info.name} has no pass of this name", name, names_in)
            )
        occurrences = (
            range(1) if first_only else range(total - 1, total) if last_only else range(total)
        )
        self.passes, _ = self._edited(name, change, occurrences, 0)
        return self

    def _count(self, name: str) -> int:
        inner = sum(p._count(name) for p in self.passes if isinstance(p, Sequential))
        return inner + sum(p.info.name == name for p in self.passes)

    def _edited(
        self, name: str, change: Callable[[Any], list[Any]], occurrences: range, seen: int
    ) -> tuple[list[Any], int]:
        edited: list[Any] = []
        for item in self.passes:
            matches = item.info.name == name
            new: list[Any] = [item]
            if matches:
                if seen in occurrences:
                    new = change(item)
                    for one in new:
                        _check_pass(one)
                seen += 1
            elif isinstance(item, Sequential):
                inner, seen = item._edited(name, change, occurrences, seen)
                info = item.info
                new = [Sequential(inner, info.opt_level, info.name, info.required, info.traceable)]
            edited += new
        return edited, seen

    def user_code(self) -> Any:
        return None

    def __repr__(self) -> str:
        return f"Sequential({self.info.name!r}, {self.names()})"


def _check_pass(item: Any) -> None:
    if not isinstance(item, Pass):
        what, got = "a Sequential is made of passes", f"{item!r} of type {type(item).__name__}"
        is_class = isinstance(item, type) and issubclass(item, Pass)
        hint = f"call it: {item.__name__}()" if is_class else "decorate a function with module_pass"
        raise TypeError(explain(what, got=got, instead=hint))


# ---------------------------------------------------------------------- decorators


def make_pass_decorator(
    base: type, hook: str = "transform_function", method: str = "run_function"
) -> Callable[..., Any]:
    """A decorator that makes passes on the functions of one class.

    base: the functions' class (PrimFunc), or the FunctionPass subclass to build on.
    hook: the name of a decorated class's method; method: its name in the base.

    The decorator takes `(pass_func=None, opt_level=0, name=None, required=None,
    traceable=False)`. A decorated function `f(func, mod, ctx)` becomes a pass; a decorated class
    with `transform_function(self, func, mod, ctx)` becomes a class of passes, whose arguments are
    passed to the class's constructor.
    """
    if not issubclass(base, Pass):
        members = {"function_type": base, "__doc__": f"A pass on each {base.__name__}."}
        base = type(f"{base.__name__}Pass", (FunctionPass,), members, abstract=True)

    def decorator(
        pass_func: Callable[..., Any] | None = None,
        opt_level: int | None = None,
        name: str | None = None,
        required: Iterable[str] | None = None,
        traceable: bool = False,
    ) -> Any:
        def decorate(what: Any) -> Any:
            made_name = name or what.__name__
            facts = (opt_level or 0, made_name, tuple(required or ()), bool(traceable))
            wrap = _wrap_class if isinstance(what, type) else _wrap_function
            decorated = wrap(what, base, hook, method, PassInfo(*facts))
            if made_name not in PASSES:
                register_pass(
                    made_name, decorated if isinstance(decorated, type) else lambda: decorated
                )
            return decorated

        return decorate if pass_func is None else decorate(pass_func)

    parts = "func, " if method != "run" else ""
    decorator.__doc__ = f"""Makes a pass of a function `f({parts}mod, ctx)`, or of a class with such a method `{hook}`.

    opt_level: the least level of the PassContext at which it runs. name: by default the function's.
    required: names of passes that run before. traceable: whether a database of tuning may record it.
    A class becomes a class of passes; its constructor takes the arguments of a pass."""
    return decorator


def _wrap_class(cls: type, base: type, hook: str, method: str, info: PassInfo) -> type:
    if not callable(getattr(cls, hook, None)):
        what = f"class {cls.__name__} is decorated as a pass, but has no method {hook}"
        raise TypeError(explain(what, instead=f"define {hook}(self, ...)"))

    def __init__(self: Any, *args: str | int, **kwargs: bool) -> None:
        self._instance = cls(*args, **kwargs)

    def __getattr__(self: Any, name: str) -> Any:
        if name == "_instance":  # not yet made, while unpickling or copying
            raise AttributeError(name)
        return getattr(self._instance, name)

    def call(self: Any, *args: PassContext | Node) -> Any:
        return getattr(self._instance, hook)(*args)

    members = {
        "__init__": __init__,
        "__getattr__": __getattr__,
        method: call,
        "info": property(lambda self: info),
        "user_code": lambda self: getattr(cls, hook),
        "__doc__": cls.__doc__,
        "__module__": cls.__module__,
        "__qualname__": cls.__qualname__,
    }
    return type(cls.__name__, (base,), members)


def _wrap_function(
    function: Callable[..., Any], base: type, hook: str, method: str, info: PassInfo
) -> Any:
    members = {
        method: lambda self, *args: function(*args),
        "info": property(lambda self: info),
        "user_code": lambda self: function,
        "__doc__": function.__doc__,
        "__module__": function.__module__,
        "__wrapped__": staticmethod(function),
    }
    return type(info.name, (base,), members)()


module_pass = make_pass_decorator(ModulePass, "transform_module", "run")


# ---------------------------------------------------------------------- small passes


class PrintIR(ModulePass):
    """Prints the module on the standard error, below `header` when it is given, and leaves it as it
    is."""

    def __init__(self, header: str = "", show_meta_data: bool = False) -> None:
        self.header = header
        self.show_meta_data = show_meta_data

    def run(self, mod: IRModule, ctx: PassContext) -> IRModule:
        text = mod.script(show_meta=True) if self.show_meta_data else mod.script()
        print(f"# PrintIR({self.header}):\n{text}", file=sys.stderr)
        return mod


print_ir = PrintIR()


class ApplyPassToFunction(ModulePass):
    """Applies a pass and keeps its result only for the functions whose name matches a regular
    expression as a whole, with the functions that these newly call."""

    def __init__(
        self,
        transform: Pass,
        func_name_regex: str,
        error_if_no_function_matches_regex: bool = False,
    ) -> None:
        self.transform = transform
        self.pattern = re.compile(func_name_regex)
        self.must_match = error_if_no_function_matches_regex

    def run(self, mod: IRModule, ctx: PassContext) -> IRModule:
        chosen = {g for g in mod.functions if self.pattern.fullmatch(g.name_hint)}
        if not chosen:
            if self.must_match:
                names = ", ".join(sorted(g.name_hint for g in mod.functions))
                what = "no function's name matches"
                raise ValueError(
                    explain(what, got=self.pattern.pattern, instead=f"it has: {names}")
                )
            return mod
        result = self.transform(mod)
        changed = {g: f for g, f in result.functions.items() if g in chosen}
        removed = {g for g in chosen if g not in result.functions}
        others = {g: f for g, f in mod.functions.items() if g not in chosen}
        pending = [*changed.values(), *others.values()]
        while pending:
            for gvar in called_global_vars(pending.pop()):
                removed.discard(gvar)
                if gvar not in mod.functions and gvar not in changed and gvar in result.functions:
                    changed[gvar] = result.functions[gvar]
                    pending.append(changed[gvar])
        return mod.with_functions(changed, remove=removed)


__dir__ = _public_names(__name__)
