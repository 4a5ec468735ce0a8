"""Passes: contexts, decorators, sequences, and what is said when one goes wrong."""

from __future__ import annotations

import inspect
import subprocess
import sys
from dataclasses import dataclass

import pytest

from loopwright.base.config import PASS_OPTIONS, declare_pass_option
from loopwright.ir import GlobalVar, IRModule, transform
from loopwright.ir.prim_expr import Call
from loopwright.ir.transform import (
    ApplyPassToFunction,
    FunctionPass,
    ModulePass,
    PassContext,
    PrintIR,
    Sequential,
    get_pass,
    make_pass_decorator,
    module_pass,
    print_ir,
)

from .little import Func

pytestmark = [pytest.mark.no_roundtrip, pytest.mark.no_verify]


@dataclass(frozen=True)
class AddTo(FunctionPass):
    """Adds `by` to each body."""

    name = "test.AddTo"
    function_type = Func
    by: int = 1

    def run_function(self, func, mod, ctx):
        return func.replace(body=func.body + self.by)


@dataclass(frozen=True)
class Drop(ModulePass):
    """Takes a function out."""

    name = "test.Drop"
    opt_level = 3
    victim: str = "g"

    def run(self, mod, ctx):
        return mod.with_functions(remove=[self.victim])


@dataclass(frozen=True)
class NeedsAdd(ModulePass):
    name = "test.NeedsAdd"
    required = ("test.AddTo",)

    def run(self, mod, ctx):
        return mod


func_pass = make_pass_decorator(Func)


@pytest.fixture
def mod():
    return IRModule({"f": Func(body=1), "g": Func(body=2)})


def bodies(mod):
    return {var.name_hint: func.body for var, func in mod.functions_items()}


def line_of(function, text):
    """The number of the line of `function`'s source that contains `text`."""
    lines, first = inspect.getsourcelines(function)
    return first + next(i for i, line in enumerate(lines) if text in line)


# ---------------------------------------------------------------------- classes


def test_a_pass_is_its_options(mod):
    assert bodies(AddTo(by=10)(mod)) == {"f": 11, "g": 12}
    assert AddTo(3) == AddTo(by=3)
    assert AddTo().info == transform.PassInfo(0, "test.AddTo")
    assert bodies(mod) == {"f": 1, "g": 2}


def test_a_pass_that_changes_nothing_gives_the_same_module(mod):
    class Nothing(FunctionPass):
        def run_function(self, func, mod, ctx):
            return func

    assert Nothing()(mod) is mod
    assert Nothing().info.name == "Nothing"


def test_function_passes_see_only_their_type(mod):
    class Other(Func):
        pass

    mod["h"] = Other(body=5)

    class OnOthers(FunctionPass):
        function_type = Other

        def run_function(self, func, mod, ctx):
            return func.replace(body=0)

    assert bodies(OnOthers()(mod)) == {"f": 1, "g": 2, "h": 0}


def test_passes_are_registered_by_name():
    assert get_pass("test.AddTo") == AddTo()
    with pytest.raises(ValueError) as error:
        get_pass("test.AdTo")
    assert "did you mean test.AddTo" in str(error.value)


def test_required_passes_run_first(mod):
    assert bodies(NeedsAdd()(mod)) == {"f": 2, "g": 3}


def test_passes_run_on_modules():
    with pytest.raises(TypeError) as error:
        AddTo()(Func())
    assert str(error.value) == (
        "pass 'test.AddTo' runs on an IRModule\n"
        "  got: Func\n"
        "  instead: wrap a function with IRModule.from_expr(func)"
    )


def test_a_pass_without_run_says_so(mod):
    class Empty(ModulePass):
        pass

    with pytest.raises(NotImplementedError, match=r"Empty has no method run\(self, mod, ctx\)"):
        Empty()(mod)


# ---------------------------------------------------------------------- wrong results


def test_a_function_pass_that_returns_none(mod):
    @func_pass(opt_level=0)
    def print_tir(f, mod, ctx):
        str(f)

    with pytest.raises(TypeError) as error:
        print_tir(mod)
    line = line_of(test_a_function_pass_that_returns_none, "def print_tir")
    assert str(error.value) == (
        "pass 'print_tir' returned None\n"
        "  got: None\n"
        "  instead: return the (changed) function\n"
        f" --> {__file__}:{line}:9\n"
        f" {' ' * len(str(line))} |\n"
        f" {line} |     def print_tir(f, mod, ctx):\n"
        f" {' ' * len(str(line))} |         ^^^^^^^^^"
    )


def test_a_module_pass_that_returns_none(mod):
    @module_pass(opt_level=0, name="Forgets")
    class Anything:
        def transform_module(self, mod, ctx):
            pass

    with pytest.raises(TypeError) as error:
        Anything()(mod)
    line = line_of(test_a_module_pass_that_returns_none, "def transform_module")
    assert str(error.value).startswith(
        "pass 'Forgets' returned None\n"
        "  got: None\n"
        "  instead: return the (changed) module\n"
        f" --> {__file__}:{line}:13\n"
    )


def test_a_pass_that_returns_another_type(mod):
    @func_pass
    def wrong(f, mod, ctx):
        return 3

    with pytest.raises(TypeError) as error:
        wrong(mod)
    assert str(error.value).startswith(
        "pass 'wrong' must return a Func\n"
        "  got: 3 of type int\n"
        "  instead: return the (changed) function\n"
    )

    class Wrong(ModulePass):
        def run(self, mod, ctx):
            return Func()

    with pytest.raises(TypeError, match="pass 'Wrong' must return an IRModule\n  got: .*Func"):
        Wrong()(mod)


# ---------------------------------------------------------------------- decorators


def test_module_pass_on_a_function(mod):
    @module_pass(opt_level=2)
    def drop_g(mod, ctx):
        """Takes g out."""
        assert ctx is PassContext.current()
        return mod.with_functions(remove=["g"])

    assert bodies(drop_g(mod)) == {"f": 1}
    assert drop_g.info == transform.PassInfo(2, "drop_g")
    assert isinstance(drop_g, ModulePass)
    assert drop_g.__doc__ == "Takes g out."


def test_module_pass_on_a_class_forwards_arguments(mod):
    @module_pass(opt_level=1, name="Renamed")
    class Drops:
        """Takes one out."""

        def __init__(self, victim, *, loud=False):
            self.victim, self.loud = victim, loud

        def helper(self):
            return self.victim

        def transform_module(self, mod, ctx):
            return mod.with_functions(remove=[self.helper()])

    made = Drops("f", loud=True)
    assert bodies(made(mod)) == {"g": 2}
    assert (made.loud, made.helper(), made.info.name) == (True, "f", "Renamed")
    assert isinstance(made, ModulePass)
    assert (Drops.__name__, Drops.__doc__) == ("Drops", "Takes one out.")


def test_function_pass_on_a_class(mod):
    @func_pass(opt_level=0)
    class Times:
        def __init__(self, factor):
            self.factor = factor

        def transform_function(self, func, mod, ctx):
            return func.replace(body=func.body * self.factor)

    assert bodies(Times(7)(mod)) == {"f": 7, "g": 14}
    assert Times(7).function_type is Func


def test_decorated_classes_need_the_hook():
    with pytest.raises(TypeError) as error:

        @module_pass(opt_level=0)
        class Nope:
            def transform_function(self, func, mod, ctx):
                return func

    assert str(error.value) == (
        "class Nope is decorated as a pass, but has no method transform_module\n"
        "  instead: define transform_module(self, ...)"
    )


def test_a_decorator_may_build_on_another_pass_class(mod):
    class OnBodies(FunctionPass):
        function_type = Func

        def run_function(self, func, mod, ctx):
            return func.replace(body=self.run_body(func.body, mod, ctx))

    body_pass = make_pass_decorator(OnBodies, "transform_body", "run_body")

    @body_pass
    def double(body, mod, ctx):
        return 2 * body

    assert bodies(double(mod)) == {"f": 2, "g": 4}


# ---------------------------------------------------------------------- contexts


def test_contexts_nest():
    assert PassContext.current().opt_level == 2
    with PassContext(opt_level=3) as outer:
        assert PassContext.current() is outer
        with PassContext(opt_level=0) as inner:
            assert PassContext.current() is inner
        assert PassContext.current() is outer
    assert PassContext.current().opt_level == 2


def test_a_sequence_runs_what_the_context_enables(mod):
    seq = Sequential([AddTo(), Drop()])
    assert bodies(seq(mod)) == {"f": 2, "g": 3}
    with PassContext(opt_level=3):
        assert bodies(seq(mod)) == {"f": 2}
    with PassContext(required_pass=["test.Drop"]):
        assert bodies(seq(mod)) == {"f": 2}
    with PassContext(opt_level=3, disabled_pass=["test.AddTo"]):
        assert bodies(seq(mod)) == {"f": 1}
    with PassContext(opt_level=0):
        assert bodies(Drop()(mod)) == {"f": 1}  # called directly, a pass runs


def test_names_are_lists():
    with pytest.raises(TypeError, match="disabled_pass is a list of names"):
        PassContext(disabled_pass="FuseOps")


@pytest.fixture
def options():
    with PASS_OPTIONS.snapshot():
        declare_pass_option("test.width", int, 4, "Lanes of a vector.")
        declare_pass_option("test.loud", bool, False, "Say more.")
        declare_pass_option("test.extra", list, None, "More passes.")
        declare_pass_option("test.ratio", float, 0.5, "A part.")
        yield


def test_config(options):
    with PassContext(config={"test.width": 8, "test.loud": 1, "test.ratio": 1}) as ctx:
        assert ctx.option("test.width") == 8
        assert ctx.option("test.loud") is True
        assert ctx.option("test.ratio") == 1.0
        assert ctx.option("test.extra") is None
        assert ctx.config["test.width"] == 8
    assert PassContext.current().option("test.width") == 4
    assert PassContext(config={"test.extra": (1, 2)}).config["test.extra"] == [1, 2]
    assert PassContext.list_configs()["test.width"] == {
        "type": "int",
        "default": "4",
        "doc": "Lanes of a vector.",
    }


def test_unknown_config(options):
    with pytest.raises(ValueError) as error:
        PassContext(config={"test.widht": 8})
    assert str(error.value) == (
        "PassContext has no config option\n  got: test.widht\n  instead: did you mean test.width?"
    )
    with pytest.raises(ValueError, match="no config option\n  got: zzzzzz"):
        PassContext.current().option("zzzzzz")


def test_config_of_a_wrong_type(options):
    with pytest.raises(TypeError) as error:
        PassContext(config={"test.width": "wide"})
    assert str(error.value) == (
        "config option 'test.width' needs a value of type int\n"
        "  got: 'wide' of type str\n"
        "  instead: Lanes of a vector."
    )
    with pytest.raises(TypeError, match="'test.width' needs a value of type int"):
        PassContext(config={"test.width": True})


# ---------------------------------------------------------------------- sequences


def named(name, by=0):
    @func_pass(name=name)
    def made(f, mod, ctx):
        return f.replace(body=f.body + by) if by else f

    return made


def test_edit_by_name():
    seq = Sequential([named("A"), named("B"), named("C")], name="pipeline")
    assert seq.insert_before("B", named("X"), named("Y")) is seq
    assert seq.names() == ["A", "X", "Y", "B", "C"]
    assert seq.insert_after("C", named("Z")).names() == ["A", "X", "Y", "B", "C", "Z"]
    assert seq.replace("X", named("W"), named("V")).names() == ["A", "W", "V", "Y", "B", "C", "Z"]
    assert seq.remove("Y").remove("V").names() == ["A", "W", "B", "C", "Z"]
    assert seq.append(named("End")).names()[-1] == "End"


def test_edit_passes_that_occur_twice():
    def made():
        return Sequential([named("A"), named("B"), named("A")])

    assert made().insert_before("A", named("X")).names() == ["X", "A", "B", "A"]
    assert made().insert_after("A", named("X")).names() == ["A", "B", "A", "X"]
    assert made().remove("A").names() == ["B"]


def test_edit_nested_sequences_without_touching_them():
    inner = Sequential([named("B"), named("C")], opt_level=1, name="inner")
    seq = Sequential([named("A"), inner, named("B")])
    seq.insert_before("C", named("X"))
    assert seq.names() == ["A", "B", "X", "C", "B"]
    assert inner.names() == ["B", "C"]
    assert seq.passes[1].info == inner.info
    assert seq.insert_after("B", named("Y")).names() == ["A", "B", "X", "C", "B", "Y"]
    assert seq.replace("inner", named("I")).names() == ["A", "I", "B", "Y"]


def test_edit_an_unknown_name():
    seq = Sequential([named("FuseOps"), named("FuseTIR")], name="pipeline")
    with pytest.raises(ValueError) as error:
        seq.insert_before("FuseOp", named("X"))
    assert str(error.value) == (
        "pipeline has no pass of this name\n  got: FuseOp\n  instead: did you mean FuseOps?"
    )
    with pytest.raises(ValueError, match="one of FuseOps, FuseTIR"):
        seq.remove("zzz")


def test_members_must_be_passes():
    with pytest.raises(TypeError) as error:
        Sequential([AddTo])
    assert str(error.value).endswith("instead: call it: AddTo()")
    with pytest.raises(TypeError, match="instead: decorate a function with module_pass"):
        Sequential([lambda mod: mod])


def test_inserted_pass_runs(mod):
    seq = Sequential([named("A", 1), named("B", 10)])
    seq.insert_before("B", named("X", 100))
    assert bodies(seq(mod)) == {"f": 112, "g": 113}


# ---------------------------------------------------------------------- small passes


def test_print_ir(mod, capsys):
    assert PrintIR("after fusion")(mod) is mod
    assert capsys.readouterr().err == f"# PrintIR(after fusion):\n{mod.script()}\n"
    assert Sequential([print_ir])(mod) is mod
    assert capsys.readouterr().err == f"# PrintIR():\n{mod.script()}\n"


def test_apply_pass_to_function(mod):
    assert bodies(ApplyPassToFunction(AddTo(), "f")(mod)) == {"f": 2, "g": 2}
    assert bodies(ApplyPassToFunction(AddTo(), ".*")(mod)) == {"f": 2, "g": 3}
    assert ApplyPassToFunction(AddTo(), "z")(mod) is mod
    with pytest.raises(ValueError) as error:
        ApplyPassToFunction(AddTo(), "z", True)(mod)
    assert str(error.value) == "no function's name matches\n  got: z\n  instead: it has: f, g"


def test_apply_pass_to_function_keeps_what_is_called(mod):
    @module_pass
    def outline(mod, ctx):
        made = mod.clone()
        for var in mod.get_global_vars():
            callee = GlobalVar(f"{var.name_hint}_part")
            made[callee] = mod[var]
            made[var] = Func([], Call("int32", callee, []))
        return made

    made = ApplyPassToFunction(outline, "f")(mod)
    assert [v.name_hint for v, _ in made.functions_items()] == ["f", "f_part", "g"]
    assert made["g"] is mod["g"]

    mod["main"] = Func([], Call("int32", GlobalVar("g"), []))
    assert "g" in ApplyPassToFunction(Drop("g"), "g")(mod)  # main still calls it
    assert "f" not in ApplyPassToFunction(Drop("f"), "f")(mod)


TVM_OPTIONS = {
    "relax.backend.use_cuda_graph": True,
    "relax.FuseOps.max_depth": 8,
    "relax.fallback_device_type": 0,
    "tir.InjectDoubleBuffer": {"split_loop": 1},
    "tir.ReduceBranchingThroughOvercompute": {},
    "tir.UnrollLoop": {"auto_max_step": 16},
    "tir.detect_global_barrier": False,
    "tir.merge_static_smem": True,
    "tir.noalias": True,
    "tir.use_async_copy": 1,
    "tir.vtcm_capacity": 1 << 20,
}


def test_options_of_tvm_are_known_before_any_pass_is() -> None:
    code = (
        "from loopwright.ir.transform import PassContext\n"
        f"ctx = PassContext(config={TVM_OPTIONS!r})\n"
        "assert ctx.option('tir.use_async_copy') is True\n"
        "text = PassContext.list_configs()['tir.use_async_copy']['doc']\n"
        "assert text.startswith('Accepted, no effect: '), text\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    with pytest.raises(TypeError, match=r"'tir.vtcm_capacity' needs a value of type int"):
        PassContext(config={"tir.vtcm_capacity": "many"})


def test_texts_of_passes_and_contexts():
    assert repr(Sequential([AddTo(), Drop()], name="both")) == (
        "Sequential('both', ['test.AddTo', 'test.Drop'])"
    )
    with PassContext(opt_level=3, required_pass=["a"], disabled_pass=["b"]) as ctx:
        assert repr(ctx) == (
            "PassContext(opt_level=3, required_pass=['a'], disabled_pass=['b'], config={})"
        )

    @module_pass(name="Named")
    def plain(mod, ctx):
        return mod

    assert repr(plain).endswith("('Named')")


def test_what_a_pass_of_another_kind_returns_is_short(mod):
    @func_pass
    def wrong(f, mod, ctx):
        return "x" * 300

    with pytest.raises(TypeError, match="got: a value of type str\n"):
        wrong(mod)
