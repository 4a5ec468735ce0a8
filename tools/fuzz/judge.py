"""One graph, computed by everyone who can: onnxruntime, numpy, the loops' interpreter, LLVM, C."""

from __future__ import annotations

import re
import tempfile
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any
from unittest import mock

import numpy as np

import loopwright as lw
from loopwright.base.errors import LoopwrightError
from loopwright.base.host import host
from loopwright.frontend.onnx import from_onnx
from loopwright.relax.interpreter import Interpreter
from loopwright.relax.transform import BindSymbolicVars, LegalizeOps

from . import tolerance
from .case import Case
from .onnx_model import doubled, in_functions, port, reference, to_onnx
from .relax_module import to_module
from .rounding import inner_spread
from .tolerance import arrays, differences, spread

C_FLAGS = ("-O1", host().c_flag)  # as quick to compile as is of use
LOOPS_EVERY, C_EVERY = 3, 4  # cases of which one also goes through the loops' interpreter, and C
FUNCTIONS_EVERY = 5  # cases of which one has nodes in functions of the model
GIVEN_EVERY = 7  # cases of which one gets its weights from the run
# What these add up is near 1 before a logarithm or a product: its rounding is one of 1, not of the
# result. onnxruntime rounds more than we do.
OF_ONE = {
    "LogSoftmax",
    "ReduceLogSumExp",
    "ReduceLogSum",
    "Gelu",
    "com.microsoft::FastGelu",
    "com.microsoft::QuickGelu",
    "com.microsoft::BiasGelu",
}
OF_ONE |= {"Mish", "DFT", "STFT", *tolerance.OF_ONE}
# onnxruntime's squares cancel, x² + y² - 2xy; it leaves out the last number of an odd head.
OPEN_THERE = {"com.microsoft::CDist", "com.microsoft::RotaryEmbedding"}
# Of integers that overflow in Pow, which wrap here as numpy's.
LEAST = tuple(f"not {np.iinfo(kind).min}" for kind in ("int32", "int64"))
# What the virtual machine runs: sizes from data, branches.
NOT_IN_C = {
    "NonMaxSuppression",
    "Unique",
    "com.microsoft::Unique",
    "NonZero",
    "Compress",
    "If",
    "Loop",
    "relax.unique",
    "relax.nonzero",
}
NOT_IN_C |= {"relax.dynamic_strided_slice", "CenterCropPad"}
ULPS_OF_OTHERS = 512
GIVEN = "LLVM, weights given"
LOOPS_ELEMENTS = 600  # of inputs; that interpreter takes microseconds for each step


@dataclass
class Outcome:
    """What became of a case: "right", "wrong", "refused", "invalid" (by all), "doubt" (only
    onnxruntime differs, on NaN or infinities or from itself; or rounding alone makes results as
    different), "crash", "hang"; who, and in which words."""

    kind: str
    stage: str = ""
    message: str = ""
    operators: str = ""

    def group(self) -> str:
        """The outcome without the numbers and names that differ from case to case."""
        text = re.sub(r"/tmp/\S*", "FILE", self.message.strip().split("\n")[0])
        text = re.sub(r"'[^']*'|\"[^\"]*\"", "'…'", text)
        text = re.sub(r"-?\d+(\.\d+)?(e[-+]?\d+)?", "N", text)
        if self.kind == "wrong":
            text = f"{self.message.split(':')[0]} [{self.operators}]"
        return f"{self.kind} | {self.stage} | {text}"[:300]


class _Failed(Exception):
    """A stage that raised."""

    def __init__(self, stage: str, error: Exception) -> None:
        name = "" if isinstance(error, LoopwrightError) else f"{type(error).__name__}: "
        super().__init__(f"{name}{error}")
        self.stage = stage


def in_c(case: Case) -> bool:
    """Whether C has all that a case needs: no values of the run steer it."""
    steered = any("values" in spec for spec in case.inputs.values())
    return not (steered or NOT_IN_C & {node[0] for node in case.nodes})


def judge(
    case: Case, say: Callable[[str], None] = lambda stage: None, full: bool = False
) -> Outcome:
    """Compute a case at all levels and compare. `say` hears of each stage before it starts (the
    last one heard is where a process died). full: at no level only every so often."""
    outcome = _judge(case, say, full)
    outcome.operators = case.operators()
    return outcome


def _judge(case: Case, say: Callable[[str], None], full: bool) -> Outcome:
    runs, names = range(len(case.sizes)), {node[0] for node in case.nodes}
    feeds = [case.feeds(run) for run in runs]
    theirs, why = None, ""
    if case.kind == "onnx":
        model = to_onnx(case)
        say("onnxruntime")
        try:
            theirs = reference(model, feeds)
        except Exception as error:
            why = f"onnxruntime: {error}"
    try:
        mod = _stage(say, "import", lambda: _module(case))
        call = Interpreter(mod)["main"]
        ours = [_stage(say, "interpreter", lambda f=f: arrays(call(*f))) for f in feeds]
        slack = [spread(mod, f, o) for f, o in zip(feeds, ours)]
        results = {"LLVM": _llvm(say, mod, feeds)}
        small = sum(a.size for a in feeds[0]) <= LOOPS_ELEMENTS
        if full or (small and case.seed // 2 % LOOPS_EVERY == 0):
            lowered = _stage(say, "legalize", lambda: LegalizeOps()(mod))
            loops = Interpreter(lowered)["main"]
            results["loops"] = [_stage(say, "loops", lambda f=f: arrays(loops(*f))) for f in feeds]
        if (full or case.seed // 2 % C_EVERY == 0) and in_c(case):
            results["C"] = _c(say, mod, case, feeds)
        if case.kind == "onnx" and case.seed // 2 % GIVEN_EVERY == 0:
            results[GIVEN] = _given(say, case, feeds)
    except _Failed as failed:
        if why:
            return Outcome("invalid", failed.stage, f"{failed} / {why}")
        return Outcome("refused", failed.stage, str(failed))
    say("compare")
    ulps = 64 if OF_ONE & names else 0
    odd = any(s.get("draw") == "special" for t in (case.inputs, case.weights) for s in t.values())
    for name, result in results.items():
        for run, got in enumerate(result):
            if got is None:
                continue
            wider = name == "loops"  # which keeps the float32 steps of an expression in float64
            same = partial(differences, ulps=ulps, overflows=odd, wider=wider)
            what = same(got, ours[run], slack[run])
            if what:  # a float64 step does not underflow where one of float32 does
                of_order = (
                    odd and what.startswith(("inf/", "nan/")) and _overflows(call, feeds[run])
                )
                # Where a size comes with the run, other taps of weight 0 meet an infinity.
                no_number = what.startswith(("inf/", "nan/"))
                doubt = (odd and (wider or (name == GIVEN and no_number))) or of_order
                doubt = doubt or _rounded(case, run, got, ours[run], slack[run], same)
                kind = "doubt" if doubt else "wrong"
                return Outcome(kind, f"{name} × numpy", f"{what} (run {run})")
    for run, expected in enumerate(theirs or []):
        same = partial(differences, ulps=ULPS_OF_OTHERS, single=True, overflows=odd)
        what = same(ours[run], expected, slack[run])
        if what:
            output = re.search(r"output (\d+)", what)
            part = case.only([case.outputs[int(output[1])]]) if output else case
            needed = {node[0] for node in part.nodes}
            doubt = odd or what.startswith(("inf/", "nan/")) or bool(OPEN_THERE & needed)
            doubt = doubt or ("Pow" in needed and what.endswith(LEAST))
            doubt = doubt or _wavers(model, feeds, theirs)
            if not doubt and _nearer(model, feeds[run], ours[run], slack[run]):
                continue
            doubt = doubt or _rounded(case, run, ours[run], expected, slack[run], same)
            return Outcome(
                "doubt" if doubt else "wrong", "numpy × onnxruntime", f"{what} (run {run})"
            )
    return Outcome("right", "" if theirs or case.kind == "relax" else "without onnxruntime", why)


def _module(case: Case) -> Any:
    if case.kind != "onnx":
        return to_module(case)
    model = to_onnx(case)
    wrapped = case.seed // 2 % FUNCTIONS_EVERY == 0
    return from_onnx(in_functions(model, case.seed) if wrapped else model)


def _overflows(call: Callable[..., Any], feeds: list[Any]) -> bool:
    """Whether a sum overflows in numpy: added up in another order, it may be a number."""
    quiet = np.errstate

    def heard(**given: Any) -> Any:
        return quiet(**{**given, "over": "warn"})

    with mock.patch.object(np, "errstate", heard), warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        call(*feeds)
    return any(re.search("overflow .* in (reduce|matmul)", str(w.message)) for w in said)


def _rounded(case: Case, run: int, a: list[Any], b: list[Any], slack: list[Any], same: Any) -> bool:
    """Whether rounding within the operators explains the outputs that differ; only what these need is
    measured."""
    if len(a) != len(b):
        return False
    apart = [k for k, (x, y, s) in enumerate(zip(a, b, slack)) if same([x], [y], [s])]
    part = case.only([case.outputs[k] for k in apart])
    a, b, slack = ([values[k] for k in apart] for values in (a, b, slack))
    return of_rounding(_module(part), part.feeds(run), a, b, slack, same)


def of_rounding(
    mod: Any,
    feeds: list[Any],
    a: list[Any],
    b: list[Any],
    slack: list[Any],
    same: Any = differences,
) -> bool:
    """Whether rounding within the operators moves results as far as these two are apart, where what is
    known to be allowed (`slack`) does not explain it: both are measured by chance, number by number."""
    inner = inner_spread(mod, feeds)
    return inner is not None and not same(a, b, [*map(np.maximum, slack, inner)])


def _nearer(model: Any, feeds: list[Any], ours: Any, slack: Any) -> bool:
    """Whether onnxruntime itself, with float64 for float32, agrees with us."""
    wide = [f.astype("float64") if f.dtype == np.float32 else f for f in feeds]
    try:
        ((*theirs,),) = reference(doubled(model), [wide])
    except Exception:  # it has no such kernels
        return False
    pairs = zip(theirs, ours, strict=True)
    same = [t.astype("float32") if o.dtype == np.float32 else t for t, o in pairs]
    return not differences(ours, same, slack, ULPS_OF_OTHERS, single=True)


def _wavers(model: Any, feeds: list[Any], theirs: Any) -> bool:
    """Whether onnxruntime computes other results in a second try (MatMulInteger of nothing) or when
    the runs come in another order (training BatchNormalization writes over its weights)."""
    for _ in range(4):
        again, backwards = reference(model, feeds), reference(model, feeds[::-1])[::-1]
        pairs = zip(again + backwards, theirs * 2, strict=True)
        if any(differences(a, b, [np.zeros(())] * len(b)) for a, b in pairs):
            return True
    return False


def _stage(say: Callable[[str], None], name: str, do: Callable[[], Any]) -> Any:
    say(name)
    try:
        return do()
    except Exception as error:
        raise _Failed(name, error) from error


def _llvm(say: Any, mod: Any, feeds: list[list[np.ndarray]]) -> list[Any]:
    main = _stage(say, "compile", lambda: lw.compile(mod))["main"]
    return [_stage(say, "run", lambda f=f: arrays(main(*f))) for f in feeds]


def _given(say: Any, case: Case, feeds: list[list[np.ndarray]]) -> list[Any]:
    """The results of the first run where weights are inputs with a default; one may hold numbers that an
    operator has to know. Products that may be of bytes are so where the weights are constants."""
    floats = {n: s for n, s in case.weights.items() if s["dtype"].startswith("float")}
    model, results = to_onnx(case), [None] * len(feeds)
    if any("accuracy_level" in attrs for *_, attrs in case.nodes):
        return results
    model.graph.input.extend(port(name, spec) for name, spec in floats.items())
    say("import, weights given")
    try:
        mod = from_onnx(model, overridable_initializers=[*floats])
    except LoopwrightError:
        return results
    given = mod.attrs["input_names"][len(feeds[0]) :]
    (results[0],) = _llvm(say, mod, [[*feeds[0], *(case.array(n, floats[n]) for n in given)]])
    return results


def _c(say: Any, mod: Any, case: Case, feeds: list[list[np.ndarray]]) -> list[Any]:
    """The result of one run: C has no sizes that are not known."""
    run = case.seed // C_EVERY % len(feeds)
    used = {d for spec in case.inputs.values() for d in spec["shape"] if isinstance(d, str)}
    sizes = {n: v for n, v in case.sizes[run].items() if n in used}
    bound = BindSymbolicVars(sizes)(mod) if sizes else mod
    model = _stage(say, "compile for C", lambda: lw.compile(bound, target="c"))
    results: list[Any] = [None] * len(feeds)
    with tempfile.TemporaryDirectory() as folder:
        library = _stage(say, "C compiler", lambda: model.build(folder, flags=C_FLAGS))
        results[run] = _stage(say, "run C", lambda: arrays(library["main"](*feeds[run])))
    return results
