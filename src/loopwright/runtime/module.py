"""Runtime modules: functions by name, ready to call, and how long they take."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from loopwright.base.errors import CallError, CallValueError, explain, with_signature
from loopwright.base.frames import boundary, hide_frames
from loopwright.base.names import as_identifier
from loopwright.runtime.arguments import in_order, leaves
from loopwright.runtime.device import Device
from loopwright.runtime.device import device as make_device
from loopwright.runtime.tensor import Tensor


class BenchmarkResult:
    """Times of one function, in seconds per call: one for each repeat."""

    def __init__(self, results: list[float]) -> None:
        self.results = tuple(results)
        self.mean = statistics.fmean(results)
        self.median = statistics.median(results)
        self.min = min(results)
        self.max = max(results)
        self.std = statistics.pstdev(results)

    def __repr__(self) -> str:
        return f"BenchmarkResult(min={self.min}, mean={self.mean}, median={self.median}, max={self.max}, std={self.std}, results={self.results})"

    def __str__(self) -> str:
        names = ("mean", "median", "max", "min", "std")
        head = "".join(f"{name + ' (ms)':^14}" for name in names)
        row = "".join(f"{getattr(self, name) * 1e3:^14.4f}" for name in names)
        return f"Execution time summary:\n{head.rstrip()}\n{row.rstrip()}"


@dataclass(frozen=True)
class Timing:
    """How to measure: `repeat` times, each the mean of `number` calls, or more until
    `min_repeat_ms` have passed; before each repeat, untimed, a walk through `cache_flush_bytes` of memory."""

    number: int = 10
    repeat: int = 1
    min_repeat_ms: float = 0
    cooldown_interval_ms: float = 0
    repeats_to_cooldown: int = 1
    cache_flush_bytes: int = 0

    def of(
        self, call: Callable[[], Any], prepare: Callable[[], Any] | None = None
    ) -> BenchmarkResult:
        """The times of `call`. `prepare` runs before each repeat, untimed."""
        number = self.number
        if number < 1 or self.repeat < 1:
            got = f"got {number} and {self.repeat}"
            raise ValueError(f"number and repeat must be positive, {got}")
        flush = np.zeros(max(self.cache_flush_bytes // 8, 0), np.float64)
        call()  # a warm-up: work that is done only once is not measured
        results = []
        for index in range(self.repeat):
            if index and self.cooldown_interval_ms > 0 and index % self.repeats_to_cooldown == 0:
                time.sleep(self.cooldown_interval_ms / 1e3)
            while True:
                if prepare is not None:
                    prepare()
                if flush.size:
                    flush += 1.0
                start = time.perf_counter()
                for _ in range(number):
                    call()
                seconds = time.perf_counter() - start
                if seconds * 1e3 >= self.min_repeat_ms:
                    break
                grow = self.min_repeat_ms / max(seconds * 1e3, 1e-6) * 1.2
                number = max(int(number * min(grow, 100.0)), number + 1)
            results.append(seconds / number)
        return BenchmarkResult(results)


def measure(call: Callable[[], Any], **timing: Any) -> BenchmarkResult:
    """Time `call`, as the fields of `Timing` say."""
    return Timing(**timing).of(call)


class Timed:
    """A base of classes with functions by name, which are attributes too and can be timed."""

    entry_name = "main"
    _functions: dict[str, Any]

    def __getitem__(self, name: str) -> Callable[..., Any]:
        raise NotImplementedError

    @property
    def entry_func(self) -> Callable[..., Any]:
        """`main`, or the only function."""
        if self.entry_name not in self._functions and len(self._functions) == 1:
            return next(iter(self._functions.values()))
        return self[self.entry_name]

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            functions = vars(self).get("_functions", ())
            if name in functions:
                return functions[name]
            if functions and name == "main":
                return self.entry_func
            if name == "entry_func":  # the property has raised: raise its error
                return self[self.entry_name]
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def time_evaluator(
        self, func_name: str, dev: Device | str | None = None, number: int = 10, repeat: int = 1,
        min_repeat_ms: float = 0, limit_zero_time_iterations: int = 100,
        cooldown_interval_ms: float = 0, repeats_to_cooldown: int = 1, cache_flush_bytes: int = 0,
        f_preproc: str | Callable[..., Any] = "",
    ) -> Callable[..., BenchmarkResult]:  # fmt: skip
        """A function that times `func_name` on the arguments it is given; see `Timing`.

        f_preproc: a function, or the name of one, that is called with them before each repeat.
        limit_zero_time_iterations: accepted for compatibility; a CPU's clock always moves.

        Raises ValueError for a device that runs no code here.
        """
        pauses = (cooldown_interval_ms, repeats_to_cooldown, cache_flush_bytes)
        function, how = self[func_name], Timing(number, repeat, min_repeat_ms, *pauses)
        where = make_device("cpu" if dev is None else dev)
        if not where.exist:
            raise ValueError(f"cannot measure on {where}: only the cpu runs code here")
        prepare = self[f_preproc] if isinstance(f_preproc, str) and f_preproc else f_preproc

        def evaluate(*args: Any) -> BenchmarkResult:
            before = (lambda: prepare(*args)) if callable(prepare) else None
            return how.of(lambda: function(*args), before)

        return evaluate


class Module(Timed):
    """Functions by name: `mod["main"](x)`. The library they are in lives as long as the module.

    >>> lw.Module({"twice": lambda x: 2 * x})["twice"](3)
    6
    """

    is_binary_serializable = False
    is_runnable = True
    is_dso_exportable = False  # whether it can become part of the library of another module

    def __init__(
        self,
        functions: Mapping[str, Callable[..., Any]],
        *,
        kind: str = "library",
        sources: Mapping[str, str] | None = None,
        keep_alive: Any = None,
    ) -> None:
        self._functions = dict(functions)
        self._sources = dict(sources or {})
        self._keep_alive = keep_alive
        self.kind = kind
        self.imported_modules: list[Module] = []

    def get_function(self, name: str, query_imports: bool = False) -> Callable[..., Any]:
        """The function `name`; with `query_imports` also looks into imported modules.

        Raises AttributeError, naming the functions there are.
        """
        function = self._find(name, query_imports)
        if function is None:
            have = ", ".join(sorted(self._functions)) or "none"
            raise AttributeError(f"module has no function {name!r}; it has: {have}")
        return function

    def _find(self, name: str, imports: bool) -> Callable[..., Any] | None:
        function = self._functions.get(name)
        if function is None and imports:
            for module in self.imported_modules:
                function = module._find(name, True)
                if function is not None:
                    break
        return function

    def __getitem__(self, name: str) -> Callable[..., Any]:
        return self.get_function(name, query_imports=True)

    def __contains__(self, name: str) -> bool:
        return self.implements_function(name, query_imports=True)

    def implements_function(self, name: str, query_imports: bool = False) -> bool:
        """Whether there is a function of that name."""
        return self._find(name, query_imports) is not None

    def function_names(self) -> list[str]:
        """The names of this module's own functions."""
        return list(self._functions)

    def __call__(self, *args: int, **options: bool) -> Any:
        return self.entry_func(*args, **options)

    def import_module(self, module: Module) -> None:
        """Make another module's functions reachable from this one."""
        self.imported_modules.append(module)

    def clear_imports(self) -> None:
        """Forget the imported modules."""
        self.imported_modules.clear()

    @property
    def type_key(self) -> str:
        return self.kind

    def get_source(self, fmt: str = "") -> str:
        """The source in a format the module was made with (`ll`, `asm`, `c`...); "" is the first."""
        if not fmt and self._sources:
            return next(iter(self._sources.values()))
        if fmt not in self._sources:
            have = ", ".join(self._sources) or "none"
            raise ValueError(f"this module has no source of format {fmt!r}; it has: {have}")
        return self._sources[fmt]

    inspect_source = get_source

    def __repr__(self) -> str:
        return f"<Module {self.kind}: {', '.join(self._functions)}>"


def ordered_inputs(
    function: str,
    names: Sequence[str],
    feeds: np.ndarray | Sequence[Any] | Mapping[str, Any],
    named: Mapping[str, Any],
    also: Sequence[str] | None = None,
) -> list[Any]:
    """Inputs in the order of `names`, from a dict, a list, one array, and keywords; `also` has
    other names of the same inputs. Raises ValueError naming those that are missing or unknown."""
    by_name = isinstance(feeds, Mapping)
    by_input = {**feeds, **named} if by_name else dict(named)
    args = [] if by_name else [feeds] if isinstance(feeds, (np.ndarray, Tensor)) else list(feeds)
    if not by_input and not (by_name and names):
        return args
    left = list(zip(names, also or names, strict=True))[len(args) :]
    aliases = {name for pair in left for name in pair}
    others = {n: as_identifier(n) for n in by_input if n not in aliases}  # fc1.weight is fc1_weight
    by_input = {n if others.get(n) not in aliases else others[n]: v for n, v in by_input.items()}
    missing = [name for name, other in left if name not in by_input and other not in by_input]
    unknown = [name for name in by_input if name not in aliases]
    if missing or unknown:
        parts = [f"missing {', '.join(missing)}"] if missing else []
        parts += [f"unknown {', '.join(unknown)}"] if unknown else []
        what = f"the inputs of {function} are {', '.join(names)}"
        raise CallValueError(explain(what, got="; ".join(parts)))
    return [*args, *(by_input[n] if n in by_input else by_input[other] for n, other in left)]


def call_args(
    model: Any, function: str, args: tuple[Any, ...], named: Mapping[str, Any]
) -> tuple[Any, ...]:
    """The arguments of a call of a function: in order, or by name, in a dict or as keywords, as
    `run` takes them."""
    by_name = len(args) == 1 and isinstance(args[0], Mapping)
    if not (by_name or named):
        return args
    return tuple(_ordered(model, function, args[0] if by_name else args, named))


def _ordered(
    model: Any, function: str, feeds: Any, named: Mapping[str, Any], also: Any = None
) -> list[Any]:
    """`ordered_inputs` of a model, whose errors have its signature."""
    try:
        return ordered_inputs(function, model.input_names(function), feeds, named, also)
    except CallError as error:
        described = getattr(model, "described", model.signature)(function)
        with_signature(error, described.text(function, 32))
        hide_frames(error)
        raise


@boundary
def run_by_name(
    model: Any,
    function: str,
    feeds: np.ndarray | Sequence[Any] | Mapping[str, Any],
    named: Mapping[str, Any],
    also: Sequence[str] | None = None,
) -> dict[str, Any]:
    """Call a function of a model with inputs by name or in order; its results by name. `out` in
    `named` is memory for them, unless an input is called so."""
    names, outputs = model.input_names(function), model.output_names(function)
    out = None
    if "out" in named and "out" not in names:
        named = {**named}
        out = in_order(outputs, named.pop("out"))
    args = _ordered(model, function, feeds, named, also)
    call = model[function]
    opened = model.signature(function).leaves
    results = opened(call(*args)) if out is None else leaves(call(*args, out=out))
    return dict(zip(outputs, results, strict=True))
