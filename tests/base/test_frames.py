"""Tracebacks without the frames of the package."""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import loopwright as lw
from loopwright.base.frames import boundary, full_tracebacks, hide_frames
from tools import demo

PACKAGE = Path(lw.__file__).parent


@pytest.fixture(autouse=True)
def hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOOPWRIGHT_TRACEBACK", "")


def frames_of(call: Callable[[], object]) -> list[str]:
    """The functions in the traceback of an error; of ours as FILE:NAME."""
    with pytest.raises(Exception) as caught:
        call()
    trace = traceback.extract_tb(caught.value.__traceback__)
    names = [(Path(f.filename), f.name) for f in trace]
    shown = [f"{p.name}:{n}" if PACKAGE in p.parents else n for p, n in names]
    return [name for name in shown if name != "frames_of"]


@lw.transform.module_pass(opt_level=0, name="OfAUser")
def of_a_user(mod, context):
    return mod["nothing"]


@lw.transform.module_pass(opt_level=0, name="Broken")
def broken(mod, context):
    return {}["a fault of the user"]


@pytest.mark.parametrize("user", [of_a_user, broken])
def test_a_pass_of_a_user(user):
    def compile_it():
        lw.compile(demo.BUNDLED, relax_pipeline=[user])

    own = [user.pass_func.__name__] if hasattr(user, "pass_func") else None
    found = frames_of(compile_it)
    assert found[0] == "compile_it" and len(found) == 2 and ":" not in found[1]
    assert own is None or found[1:] == own
    with full_tracebacks():
        assert len(frames_of(compile_it)) > 10
    os.environ["LOOPWRIGHT_TRACEBACK"] = "full"
    assert len(frames_of(compile_it)) > 10


def test_an_operator_of_a_user_in_a_script():
    """The decorator of a script is a boundary, too; between are frames of contextlib."""
    text = lw.script.relax

    def script():
        @text.function
        def main(x: text.Tensor((3, 8), "float32")):
            return text.add(x)

        return main

    shown = frames_of(script)
    assert shown == ["script"], shown
    with full_tracebacks():
        assert len(frames_of(script)) > 3


def test_wrong_feeds():
    exe = lw.compile(demo.BUNDLED)
    x = np.zeros((1, 1, 16, 16), "float32")
    takes = "main(image float32[n, 1, 16, 16]) -> "
    calls: list[Callable[[], object]] = [
        lambda: exe["main"](),
        lambda: exe["main"](x, x),
        lambda: exe["main"](x.astype("float64")),
        lambda: exe["main"](x[0]),
        lambda: exe["main"]("a"),
        lambda: exe["main"]([[1, 2], [3]]),
        lambda: exe.run({"image": x[:, :, 1:]}),
        lambda: exe.run({"img": x}),
        lambda: exe.run(x, more=x),
        lambda: exe["main"](x, out=[x, x]),
    ]
    for call in calls:
        assert frames_of(call) == ["<lambda>"]
        with pytest.raises(lw.CallError) as caught:
            call()
        expected = takes in str(caught.value) or "as out" in str(caught.value)
        assert expected and isinstance(caught.value, (ValueError, TypeError))


def test_feeds_of_the_machine():
    """A function of the virtual machine, whose errors have its signature as well."""
    text = """
from loopwright.script import ir as I, relax as R, tir as T
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor(("n", 4), "float32")) -> R.Tensor(dtype="float32"):
        y = R.unique(x)
        return R.nonzero(x)
"""
    from loopwright import relax
    from loopwright.relax import op

    x = relax.Var("x", relax.TensorStructInfo((lw.tir.Var("n", "int64"), 4), "float32"))
    bb = relax.BlockBuilder()
    with bb.function("main", [x]):
        bb.emit_func_output(bb.emit(op.nonzero(x)))
    exe = lw.compile(bb.get())
    assert text and "main" in exe.machine
    for wrong in (np.zeros(4, "float32"), np.zeros((2, 4)), "a"):
        with pytest.raises(lw.CallError, match=r"expected: main\(x float32\[n, 4\]\)"):
            exe["main"](wrong)


def test_a_fault_of_ours_keeps_its_frames():
    @boundary
    def public(call):
        return call()

    def own():
        {}["ours"]

    own.__code__ = own.__code__.replace(co_filename=str(PACKAGE / "module.py"))
    found = frames_of(lambda: public(own))
    assert found[-1] == "module.py:own" and "frames.py:call" in found


def test_errors_behind_an_error_lose_them_too():
    def explained():
        raise lw.LoopwrightError("what happened")

    explained.__code__ = explained.__code__.replace(co_filename=str(PACKAGE / "module.py"))

    def both():
        try:
            explained()
        except lw.LoopwrightError as error:
            raise ValueError("mine") from error

    with pytest.raises(ValueError, match="mine") as caught:
        both()
    hide_frames(caught.value)
    assert caught.value.__cause__ is not None
    names = [f.name for f in traceback.extract_tb(caught.value.__cause__.__traceback__)]
    assert names == ["both"]
