"""What functions of users raise within the compiler names them, what they were called for, and where."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

import loopwright as lw
from loopwright import relax, te
from loopwright.backend.base import TargetBackend, register_target
from loopwright.base.errors import LoopwrightError
from loopwright.base.foreign import RuleError, named_errors, note
from loopwright.ops import Tensor, op
from loopwright.relax.byoc import Backend
from loopwright.relax.dpl import is_op, wildcard
from loopwright.relax.interpreter import Interpreter
from loopwright.script import ir as I
from loopwright.script import relax as R

EXP = is_op("relax.exp")(wildcard())


@I.ir_module
class Model:
    @R.function
    def main(x: R.Tensor((4, 4), "float32")):
        with R.dataflow():
            y = R.negative(R.exp(x))
            R.output(y)
        return y


# The operators that tests define are gone when the modules are printed.
pytestmark = [pytest.mark.no_roundtrip, pytest.mark.usefixtures("forgotten")]


def fails(*args, **kwargs):
    raise KeyError("lost")


def backend(patterns=(("b.exp", EXP),), **options):
    options = options if "target" in options else {"codegen": lambda *_: [], **options}
    return lambda: lw.compile(Model, backends=[Backend("b", patterns, **options)])


def rule(**options):
    def run():
        given = [] if "tir" in options else [options.pop("rule", lambda bb, call: call)]
        lw.register_legalize("relax.exp", *given, target="llvm", **options)
        lw.compile(Model)

    return run


def schedule():
    lw.sched.register_schedule_rule("mine", "llvm", first=True)(fails)
    lw.compile(Model)


def body():
    asked = []

    @op("test.foreign.body")
    def operator(x: Tensor):
        asked.append(x)
        if len(asked) > 1:  # not yet in type inference
            fails()
        return te.compute(x.shape, lambda *i: x(*i))

    bb = relax.BlockBuilder()
    x = relax.Var("x", R.Tensor((4,), "float32"))
    with bb.function("main", [x]):
        bb.emit_func_output(bb.emit(relax.op.test.foreign.body(x)))
    lw.compile(bb.get())


def layout():
    @op("test.foreign.layout")
    def operator(x: Tensor):
        return te.compute(x.shape, lambda *i: x(*i))

    operator.layout(fails)

    @R.function
    def main(x: R.Tensor((1, 16, 8, 8), "float32"), w: R.Tensor((16, 16, 3, 3), "float32")):
        with R.dataflow():
            y = R.test.foreign.layout(R.nn.conv2d(x, w))
            R.output(y)
        return y

    lw.compile(main)


def gradient():
    @op("test.foreign.gradient")
    def operator(x: Tensor):
        return te.compute(x.shape, lambda *i: x(*i))

    operator.grad(fails)

    @R.function
    def main(x: R.Tensor((), "float32")):
        with R.dataflow():
            y = R.test.foreign.gradient(x)
            R.output(y)
        return y

    relax.transform.Gradient("main")(lw.ir.IRModule({"main": main}))


EXP_SHOWN, LINE = "R.exp(x)", "y = R.negative(R.exp(x))"
CASES = {
    "rule": (
        rule(rule=fails),
        f"the rule of relax.exp (target llvm: {__name__}.fails) failed",
        LINE,
    ),
    "predicate": (rule(when=fails), "the predicate of a rule of relax.exp failed", LINE),
    "kernel": (
        rule(tir=fails),
        "the function that makes the kernel fails of relax.exp failed",
        LINE,
    ),
    "schedule": (
        schedule,
        'the schedule rule "mine" (target llvm) of the kernel fused_tir_exp_tir_negative failed',
        LINE,
    ),
    "check": (backend([("b.exp", EXP, {}, fails)]), "the check of the pattern b.exp failed", LINE),
    "attributes": (
        backend([("b.exp", EXP, {}, None, fails)]),
        "the function for attributes of b.exp failed",
        "",
    ),
    "patterns": (backend(fails), "the function patterns of back end b failed", ""),
    "available": (backend(available=fails), "the function available of back end b failed", ""),
    "cost": (
        backend(cost=fails),
        "the function cost of back end b, called for b.exp, failed",
        LINE,
    ),
    "codegen": (
        backend(codegen=fails),
        "the function codegen of back end b, called for fused_relax_exp1_b, failed",
        LINE,
    ),
    "lower": (
        backend(target="llvm", lower=fails),
        "the function lower of back end b, called for tir_exp, failed",
        "",
    ),
    "body": (body, "the body of test.foreign.body failed", ""),
    "gradient": (
        gradient,
        "the gradient of test.foreign.gradient failed",
        "R.test.foreign.gradient(x)",
    ),
    "layout": (layout, "the hook layout of test.foreign.layout failed", "R.nn.conv2d(x, w)"),
}


@pytest.mark.parametrize("name", CASES)
def test_a_function_that_fails_is_named(name):
    run, what, line = CASES[name]
    with pytest.raises(RuleError) as error:
        run()
    text = str(error.value)
    assert text.startswith(f"{what}\n  got: KeyError: 'lost'")
    assert isinstance(error.value, LoopwrightError)
    assert isinstance(error.value.__cause__, KeyError), "the rule's own error, with its traceback"
    assert line in text and ("test_foreign.py" in text or not line)


@pytest.mark.parametrize("hook", ["infer", "body"])
def test_type_inference_that_fails_names_its_operator(hook):
    @op("test.foreign.infer", body=hook == "body")
    def operator(x: Tensor):
        fails()

    if hook == "infer":
        operator.infer(fails)
    call = relax.op.test.foreign.infer(relax.const(np.ones(3, "float32")))
    with pytest.raises(LoopwrightError) as error:
        relax.BlockBuilder().normalize(call)
    assert str(error.value) == (
        "test.foreign.infer: KeyError: 'lost'\n  got: R.Tensor((3,), dtype=\"float32\")"
    )
    assert isinstance(error.value.__cause__, KeyError)


def test_a_numpy_definition_that_fails_is_noted():
    @op("test.foreign.numpy")
    def operator(x: Tensor):
        return te.compute(x.shape, lambda *i: x(*i))

    operator.numpy(fails)

    @R.function
    def main(x: R.Tensor((), "float32")):
        return R.test.foreign.numpy(x)

    with pytest.raises(KeyError) as error:
        Interpreter(lw.ir.IRModule({"main": main}))["main"](np.ones((), "float32"))
    assert error.value.__notes__[0] == "in the numpy definition of test.foreign.numpy"


def test_passes_and_code_generators_are_noted():
    """They speak for themselves: their exceptions keep their types."""
    mine = relax.transform.function_pass(fails, opt_level=0, name="Mine")
    with pytest.raises(KeyError) as error:
        mine(Model)
    assert error.value.__notes__ == ["in the pass 'Mine'"]
    steps = lambda target, **options: relax.pipeline.zero_pipeline()  # noqa: E731
    made = TargetBackend("foreign", steps, fails, object, native_graphs=False, keys=())
    register_target(made)
    with pytest.raises(KeyError) as error:
        lw.compile(Model, "foreign")
    assert error.value.__notes__ == ["in the code generator of target foreign"]


def test_the_innermost_is_named():
    with (
        pytest.raises(RuleError) as error,
        named_errors("outer", fails),
        named_errors("inner", fails),
    ):
        fails()
    assert str(error.value).startswith("inner failed")


def test_own_functions_keep_their_errors():
    with pytest.raises(KeyError) as error, named_errors("the function", lw.compile):
        fails()
    assert error.value.__notes__ == ["in the function"]


@pytest.mark.parametrize(
    ("function", "notes"),
    [
        (np.exp, 1),
        (partial(partial(np.exp)), 1),
        (named_errors, 0),
        (partial(named_errors), 0),
        (None, 0),
    ],
)
def test_errors_in_the_package_get_no_note(function, notes):
    error = KeyError(1)
    note(error, "a rule", function)
    assert getattr(error, "__notes__", []) == ["in a rule"] * notes
