"""RunCodegen: regions as packed functions, as C functions, as kernels of their own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import loopwright as lw
from loopwright import relax
from loopwright.ir.target import register_target_kind
from loopwright.relax.byoc import Backend, partition, register_backend, remove_backend
from loopwright.relax.dpl import is_const, is_op, wildcard
from loopwright.relax.interpreter import Interpreter
from loopwright.relax.transform import RunCodegen
from loopwright.runtime import ExternLibrary, Module
from loopwright.script import from_source
from loopwright.script import ir as I
from loopwright.script import relax as R
from loopwright.script import tir as T

from ...programs import graph
from ..byoc import graphs as g
from ..byoc.graphs import each, op

# A module that carries functions of this process has no text that says all of it.
pytestmark = pytest.mark.no_roundtrip

for _name in ("device1", "device2"):
    register_target_kind(_name, ())


def packed(functions: Any, *_: Any) -> list[Module]:
    """A code generator: each region is run by the interpreter."""
    made = {}
    for func in functions:
        run = Interpreter(lw.ir.IRModule({"main": func}))["main"]

        def call(*args: Any, run: Any = run, count: int = len(func.params)) -> None:
            got = run(*(np.from_dlpack(a) for a in args[:count]))
            got = got if isinstance(got, tuple) else (got,)
            for value, out in zip(got, args[count:], strict=True):
                np.copyto(np.from_dlpack(out), np.asarray(value))

        made[str(func.attrs["global_symbol"])] = call
    return [Module(made, kind="packed")]


def check(backends: Any, mod: Any, *inputs: Any, rtol: float = 1e-5) -> Any:
    """Compile with back ends; compare with the operators' meaning."""
    exe = lw.compile(mod, backends=backends)
    want, got = Interpreter(mod)["main"](*inputs), exe["main"](*inputs)
    pairs = zip(want, got, strict=True) if isinstance(want, tuple) else [(want, got)]
    for a, b in pairs:
        np.testing.assert_allclose(np.asarray(b), np.asarray(a), rtol=rtol)
    return exe


def calls(func: Any) -> list[str]:
    """What a function's bindings call, those of branches too."""
    found, work = [], [func.body]
    while work:
        seq = work.pop(0)
        for binding in (b for block in seq.blocks for b in block.bindings):
            value = binding.value
            if isinstance(value, relax.If):
                work += [value.true_branch, value.false_branch]
            elif isinstance(value, relax.Call):
                callee = value.args[0] if value.op.name.startswith("relax.call_") else value.op
                name = getattr(callee, "global_symbol", "") or getattr(callee, "name_hint", "")
                found.append(str(name or callee.name))
    return found


X = np.linspace(-1, 1, 4, dtype="float32")

# ---------------------------------------------------------------------- graph level, packed


def test_the_global_function_of_a_back_end():
    seen: list[Any] = []

    def codegen(functions, options, constants):
        seen.append(([f.attrs["global_symbol"] for f in functions], dict(options), constants))
        return packed(functions)

    lw.register_func("relax.ext.ext_test", codegen, override=True)
    dense = op("add", op("matmul", wildcard(), is_const()), is_const())
    patterns = [("ext_test.dense", dense), ("ext_test.mul", op("multiply", wildcard(), wildcard()))]
    mod = partition(g.Literals, "ext_test", patterns=patterns)
    made = RunCodegen({"ext_test": {"level": 3}, "another": {"level": 4}})(mod)
    symbol = "fused_relax_matmul_relax_add_relax_multiply_ext_test"
    ((symbols, options, constants),) = seen
    assert symbols == [symbol]
    assert options == {"level": 3}
    # The names are TVM's.
    names = [f"{symbol}_ext_test_const_{k}" for k in range(3)]
    assert list(constants.values()) == names
    assert [c.data.numpy().tolist() for c in constants] == [[[1, 2], [3, 4]], [1, 1], 2]
    assert {k: v.numpy().tolist() for k, v in made.attrs["const_name_to_constant"].items()} == dict(
        zip(names, [[[1, 2], [3, 4]], [1, 1], 2], strict=True)
    )
    assert calls(made["main"]) == [symbol]
    assert made["main"].body.blocks[0].bindings[0].value.op.name == "relax.call_dps_packed"
    assert [v.name_hint for v in made.functions] == ["main"]
    x = np.array([[1, 2], [3, 4]], "float32")
    exe = lw.compile(made)
    assert not exe.machine  # native code calls it
    np.testing.assert_array_equal(exe["main"](x).numpy(), (x @ np.array([[1, 2], [3, 4]]) + 1) * 2)
    np.testing.assert_array_equal(np.asarray(Interpreter(made)["main"](x)), exe["main"](x).numpy())


def test_options_of_the_back_end_and_of_the_pass():
    seen = []

    def codegen(functions, options, constants):
        seen.append(dict(options))
        return packed(functions)

    backend = Backend("p", each("p", "exp"), codegen=codegen, options={"a": 1, "b": 2})
    mod = partition(g.Chain, backend)
    RunCodegen({"p": {"b": 3}}, backends=[backend])(mod)
    assert seen == [{"a": 1, "b": 3}]


def test_several_results():
    backend = Backend("p", each("p", "exp", "sin", "cos"), codegen=packed)
    exe = check([backend], g.Fork, X)
    assert calls_of_packed(exe) == {"fused_relax_exp_relax_sin_relax_cos_p"}


def calls_of_packed(exe: Any) -> set[str]:
    text = exe.lowered["main"].script()
    return {word for word in text.replace('"', " ").split() if word.startswith("fused_")}


def test_a_tuple_between_regions():
    backend = Backend("p", each("p", "split"), codegen=packed)
    check([backend], g.Split, np.arange(16, dtype="float32").reshape(4, 4))


def test_in_branches():
    backend = Backend("p", each("p", "exp", "sin"), codegen=packed)
    mod = partition(g.If, backend)
    made = RunCodegen(backends=[backend])(mod)
    assert calls(made["main"]) == [
        "fused_relax_exp1_p",
        "relax.nn.relu",
        "fused_relax_sin1_p",
        "relax.nn.relu",
    ]
    for cond in (True, False):
        check([backend], g.If, X, np.array(cond))


def test_two_back_ends():
    one = Backend("one", each("one", "exp", "add"), codegen=packed)
    two = Backend("two", each("two", "sin"), target="device1")
    exe = check([one, two], g.Parallel, X, X + 1)
    assert len(calls_of_packed(exe)) >= 2
    assert "sin" in exe.mod.script()


def test_entry_functions():
    other = relax.utils.copy_with_new_vars(g.Chain["main"]).with_attr("global_symbol", "other")
    mod = lw.ir.IRModule({"main": g.Fork["main"], "other": other})
    given: list[str] = []

    def codegen(functions, *_):
        given.extend(f.attrs["global_symbol"] for f in functions)
        return packed(functions)

    backend = Backend("p", each("p", "exp", "sin", "cos"), codegen=codegen)
    parted = partition(mod, backend)
    made = RunCodegen(entry_functions=["main"], backends=[backend])(parted)
    assert "fused_relax_exp_relax_exp_relax_exp_p" not in given
    left = [v.name_hint for v, f in made.functions.items() if "Codegen" in f.attrs]
    assert left == ["fused_relax_exp_relax_exp_relax_exp_p"]  # for `other`
    assert made["other"] is parted["other"]
    with pytest.raises(ValueError, match="entry_functions names a function that is not in the mod"):
        RunCodegen(entry_functions=["man"], backends=[backend])(parted)


def test_nothing_to_do():
    assert RunCodegen()(g.Chain)["main"] is g.Chain["main"]


# ---------------------------------------------------------------------- graph level, by pointers


def library(tmp_path: Any, name: str, prototypes: list[str], source: str) -> ExternLibrary:
    path = tmp_path / f"{name}.c"
    path.write_text("#include <stdint.h>\n#include <math.h>\n" + source)
    return ExternLibrary(name, prototypes, sources=[path], link=["-lm"])


def test_pointers(tmp_path):
    prototype = "int fused_relax_exp_relax_sin_relax_cos_c(const float* x, float* b, float* c)"
    source = (
        prototype
        + "{for (int i = 0; i < 4; i++) {b[i] = sinf(expf(x[i])); c[i] = cosf(b[i]);} return 0;}"
    )
    lib = library(tmp_path, "fork", [prototype], source)
    backend = Backend("c", each("c", "exp", "sin", "cos"), codegen=lambda *_: [lib])
    exe = check([backend], g.Fork, X)
    assert 'T.call_extern("int32", "fused_relax_exp_relax_sin_relax_cos_c"' in exe.mod.script()


def test_pointers_and_symbolic_extents(tmp_path):
    prototype = (
        "int fused_relax_broadcast_to_relax_exp_c(const float* x, float* o, int32_t n, int64_t m)"
    )
    source = (
        prototype
        + "{for (int i = 0; i < n; i++) for (int64_t j = 0; j < m; j++) o[i * m + j] = expf(x[i]); return 0;}"
    )
    lib = library(tmp_path, "bcast", [prototype], source)
    backend = Backend("c", each("c", "broadcast_to", "exp"), codegen=lambda *_: [lib])
    exe = lw.compile(g.Broadcast, backends=[backend])
    x = np.array([[1], [2]], "float32")
    # `m` is in no tensor of the region: it is passed as a number.
    np.testing.assert_allclose(
        exe["main"](x, (2, 3)).numpy(), np.broadcast_to(np.exp(x), (2, 3)), rtol=1e-6
    )


def test_pointers_need_shapes(tmp_path):
    @I.ir_module
    class Unknown:
        @R.function
        def main(x: R.Tensor(ndim=2, dtype="float32")):
            with R.dataflow():
                y = R.exp(x)
                R.output(y)
            return y

    lib = ExternLibrary("u", ["int fused_relax_exp1_c(const float* x, float* o)"])
    backend = Backend("c", each("c", "exp"), codegen=lambda *_: [lib])
    with pytest.raises(lw.TVMError) as error:
        lw.compile(Unknown, backends=[backend])
    assert str(error.value).startswith(
        "the region fused_relax_exp1_c is called by pointers; its tensors need known shapes\n"
        '  got: R.Tensor(dtype="float32", ndim=2)'
    )


@pytest.mark.parametrize(
    ("prototype", "got"),
    [
        (
            "int fused_relax_exp_relax_exp_relax_exp_c(const float* x)",
            "2 arguments for 1 parameters",
        ),
        (
            "int fused_relax_exp_relax_exp_relax_exp_c(const float* x, double* o)",
            "argument 2 is float32*, the parameter float64*",
        ),
        (
            "int fused_relax_exp_relax_exp_relax_exp_c(const float* x, float* o, int n)",
            "2 arguments for 3 parameters",
        ),
    ],
)
def test_a_function_with_a_wrong_signature(prototype, got):
    backend = Backend("c", each("c", "exp"), codegen=lambda *_: [ExternLibrary("lib", [prototype])])
    with pytest.raises(lw.TVMError) as error:
        lw.compile(g.Chain, backends=[backend])
    lines = str(error.value).splitlines()
    assert lines[0] == (
        "the call of fused_relax_exp_relax_exp_relax_exp_c in a kernel does not agree with its "
        "declaration"
    )
    assert lines[1:3] == [f"  got: {got}", f"  instead: external library lib declares: {prototype}"]


# ---------------------------------------------------------------------- loop level


@T.prim_func(private=True)
def exp_with_scratch(x: T.handle, o: T.handle):
    n = T.int64()
    X = T.match_buffer(x, (n,))
    O = T.match_buffer(o, (n,))
    S = T.alloc_buffer((n,), "float32", align=64)
    T.evaluate(T.call_extern("int32", "lw_exp3", X.data, S.data, O.data, T.Cast("int32", n)))


lw.register_legalize("device1.exp", tir=exp_with_scratch, target="device1")


@pytest.fixture
def backend(tmp_path):
    """A back end whose kernels call a C function; they have scratch memory of their own."""
    prototype = "int lw_exp3(const float* x, float* scratch, float* o, int32_t n)"
    source = (
        prototype
        + """{
      if ((uintptr_t)scratch % 64) return 1;  /* nothing is written then */
      for (int i = 0; i < n; i++) scratch[i] = expf(x[i]);
      for (int i = 0; i < n; i++) o[i] = scratch[i];
      return 0;
    }"""
    )
    lib = library(tmp_path, "exp3", [prototype], source)

    return Backend(
        "device1", each("device1", "exp", "sin", "split"), target="device1", libraries=[lib]
    )


def test_kernels_of_the_back_end(backend):
    exe = check([backend], g.Fork, X)
    kernels = {g.name_hint: f for g, f in exe.mod.functions.items() if g.name_hint != "main"}
    called = [f for f in kernels.values() if "lw_exp3" in f.script()]
    assert len(called) == 1
    assert str(called[0].attrs["target"].kind.name) == "device1"


def test_symbolic_extents_in_kernels(backend):
    @I.ir_module
    class Sizes:
        @R.function
        def main(x: R.Tensor(("n",), "float32"), y: R.Tensor(("m",), "float32")):
            with R.dataflow():
                a = R.exp(R.sin(x))
                b = R.exp(R.sin(y))
                R.output(a, b)
            return (a, b)

    # Both regions are one function; each call has its own sizes.
    parted = partition(Sizes, backend)
    assert sum("Codegen" in f.attrs for f in parted.functions.values()) == 1
    check([backend], Sizes, X, np.linspace(0, 1, 9, dtype="float32"))


def test_an_operator_without_rule_is_lowered_with_the_others(backend):
    Partly = graph("a = R.exp(x); b = R.sin(a); c = R.exp(b)", x=(4,))

    exe = check([backend], Partly, X)
    assert sum("lw_exp3" in f.script() for f in exe.mod.functions.values()) == 1  # used twice
    assert "sin" in " ".join(v.name_hint for v in exe.mod.functions)


@pytest.mark.parametrize("size", [5, 1 << 12, 1 << 18])
def test_scratch_of_any_size_is_aligned(backend, size):
    bb = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorStructInfo((size,), "float32"))
    with bb.function("main", [x]):
        with bb.dataflow():
            out = bb.emit_output(relax.op.exp(relax.op.exp(x)))
        bb.emit_func_output(out)
    # The C function writes nothing where its scratch is not aligned as the kernel says.
    check([backend], bb.finalize(), np.linspace(-1, 1, size, dtype="float32"))


def test_tuples_of_a_region(backend):
    check([backend], g.Split, np.arange(16, dtype="float32").reshape(4, 4))


def test_in_branches_at_loop_level(backend):
    for cond in (True, False):
        check([backend], g.If, X, np.array(cond))


def test_lower_has_the_last_word(tmp_path):
    prototype = "int lw_thrice(const float* x, float* o)"
    source = prototype + "{for (int i = 0; i < 4; i++) o[i] = expf(expf(expf(x[i]))); return 0;}"
    lib = library(tmp_path, "thrice", [prototype], source)
    seen = []

    def lower(kernels, options):
        seen.append(([v.name_hint for v in kernels.functions], dict(options)))

        @T.prim_func(private=True)
        def exp(x: T.Buffer((T.int64(4),), "float32"), o: T.Buffer((T.int64(4),), "float32")):
            T.evaluate(T.call_extern("int32", "lw_thrice", x.data, o.data))

        return lw.ir.IRModule({"tir_exp": exp}), [lib]

    backend = Backend(
        "device2", each("device2", "exp"), target="device2", lower=lower, options={"k": 1}
    )

    Once = graph("y = R.exp(x)", x=(4,))

    exe = lw.compile(Once, backends=[backend])
    assert seen == [(["tir_exp"], {"k": 1})]
    np.testing.assert_allclose(exe["main"](X).numpy(), np.exp(np.exp(np.exp(X))), rtol=1e-5)


def test_an_inplace_kernel():
    @T.prim_func(private=True)
    def inplace(x: T.Buffer((T.int64(4),), "float32")):
        for i in range(T.int64(4)):
            with T.block("x"):
                v = T.axis.spatial(T.int64(4), i)
                x[v] = x[v] + T.float32(1)

    def rule(bb, call):
        if call.args[0].name_hint == "x":
            return None  # the caller's own tensor
        gvar = bb.add_func(inplace, "inc")
        return relax.call_tir_inplace(gvar, [call.args[0]], 0, call.struct_info)

    lw.register_legalize("device2.inc", rule, target="device2")
    one = is_op("relax.add")(wildcard(), is_const())
    backend = Backend("device2", [("device2.inc", one), *each("device2", "exp")], target="device2")

    Inc = graph('a = R.exp(x); b = R.add(a, R.const(1, "float32"))', x=(4,))

    backend = Backend(
        "device2",
        [("device2.inc", one), *each("device2", "exp")],
        target="device2",
        bind_constants=True,
    )
    mod = RunCodegen(backends=[backend])(partition(Inc, backend))
    assert "R.call_tir_inplace" in mod.script()
    check([backend], Inc, X)


OWN = """
@I.ir_module
class Module:
    @R.function(private=True)
    def other(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        y = R.multiply(x, x)
        return y

    @R.function
    def region(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        R.func_attr({"Codegen": "own", "global_symbol": "region"})
        @R.function
        def local(y: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
            R.func_attr({"Composite": "own.exp"})
            z = R.exp(y)
            return z
        a = local(x)
        b = R.sin(a)
        d = R.call_dps_packed("test.twice", (b,), out_sinfo=R.Tensor((4,), "float32"))
        return d

    @R.function
    def main(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        cls = Module
        y = cls.other(x)
        z = cls.region(y)
        return z
"""


def test_a_region_of_ones_own(forgotten):
    """It calls composites, operators and packed functions; its caller, other functions too."""

    @lw.register_func("test.twice", override=True)
    def twice(x, out):
        out.copyfrom(2 * x.numpy())

    mod = from_source(OWN)
    made = RunCodegen(backends=[Backend("own", target="device1")])(mod)
    assert sorted(g.name_hint for g in made.functions) == [
        "main",
        "other",
        "tir_exp",
        "tir_sin",
    ]
    got = np.asarray(Interpreter(made)["main"](X))
    np.testing.assert_allclose(got, 2 * np.sin(np.exp(X * X)), rtol=1e-6)


def test_functions_that_the_code_generator_need_not_make(forgotten):
    """Those that are registered are called; the arguments of those without a signature are not checked."""
    symbol = "fused_relax_exp_relax_exp_relax_exp_p"
    for made in ([], [Module({symbol: min})]):
        if not made:
            lw.register_func(symbol, lambda x, out: None)
        backend = Backend("p", each("p", "exp"), codegen=lambda *_, made=made: made)
        assert calls(RunCodegen(backends=[backend])(partition(g.Chain, backend))["main"]) == [
            symbol
        ]


# ---------------------------------------------------------------------- modules from outside


def test_modules_that_are_attached(tmp_path):
    Scaled = graph(
        'y = R.call_dps_packed("scale", (x,), out_sinfo=R.Tensor((4,), "float32"))', x=(4,)
    )

    def scale(x, out):
        np.copyto(np.from_dlpack(out), 3 * np.from_dlpack(x))

    class Loads:
        def load(self):
            return made

    made = Module({"scale": scale})
    lib = ExternLibrary("l", ["int f(void)"], addresses={"f": 1})
    attach = relax.transform.AttachExternModules
    mod = attach([Loads(), made, lib])(Scaled)
    assert list(mod.attrs["external_mods"]) == [made, lib]
    assert list(attach([lib])(mod).attrs["external_mods"]) == [made, lib]
    assert attach([])(Scaled).attrs.get("external_mods") is None
    np.testing.assert_array_equal(lw.compile(mod)["main"](X).numpy(), 3 * X)
    with pytest.raises(TypeError) as error:
        attach(["libm.so"])
    assert str(error.value) == (
        "an external module is a runtime.Module or an ExternLibrary\n  got: 'libm.so'"
    )


# ---------------------------------------------------------------------- errors


def error_of(backend: Any, mod: Any = g.Chain) -> str:
    with pytest.raises(lw.TVMError) as error:
        RunCodegen(backends=[backend])(partition(mod, backend))
    return str(error.value)


SYMBOL = "fused_relax_exp_relax_exp_relax_exp_p"


def test_a_code_generator_that_makes_another_symbol():
    backend = Backend(
        "p", each("p", "exp"), codegen=lambda *_: [Module({"other": print, "more": print})]
    )
    assert error_of(backend).startswith(
        f"the code generator of p made no function {SYMBOL}\n"
        "  got: other, more\n"
        '  instead: a function for each region, under its attribute "global_symbol"'
    )
    nothing = Backend("p", each("p", "exp"), codegen=lambda *_: [])
    assert "\n  got: nothing\n" in error_of(nothing)
    c = Backend("p", each("p", "exp"), codegen=lambda *_: [ExternLibrary("l", ["int f(void)"])])
    assert "\n  got: f\n" in error_of(c)


def test_a_code_generator_whose_function_takes_other_arguments():
    def codegen(functions, options, names):
        return [Module({f.attrs["global_symbol"]: lambda x, y, out: None for f in functions})]

    assert error_of(Backend("p", each("p", "exp"), codegen=codegen)) == (
        f"back end p made a function of the wrong arguments for region {SYMBOL}\n"
        "  got: (x, y, out)\n"
        "  instead: take 1 inputs (x), then 1 to fill: the region's own, which may be several "
        "matches"
    )


def test_a_composite_without_a_rule(caplog):
    backend = Backend("p", each("p", "exp"), target="device1")
    mod = RunCodegen(backends=[backend])(partition(g.Chain, backend))
    assert any(isinstance(f, relax.Function) for f in mod.functions.values())
    (record,) = caplog.records
    assert record.getMessage() == (
        "no rule for p.exp under target device1: it is compiled from its operators\n"
        '  instead: register_legalize("p.exp", tir=kernel, target="device1")'
    )


def test_a_back_end_that_generates_nothing():
    assert error_of(Backend("p", each("p", "exp"))).startswith(
        "back end p has neither a codegen nor a target"
    )


def test_a_code_generator_that_returns_no_list():
    assert error_of(Backend("p", each("p", "exp"), codegen=lambda *_: 3)).startswith(
        "the code generator of p returns a list of modules\n  got: 3\n  instead: [module]"
    )
    assert error_of(Backend("p", each("p", "exp"), codegen=lambda *_: None)).startswith(
        "the code generator of p returns a list of modules\n  got: None\n"
    )


def test_a_region_of_nobody():
    register_backend(Backend("gone", each("gone", "exp"), codegen=packed))
    mod = partition(g.Chain, "gone")
    remove_backend("gone")
    with pytest.raises(lw.TVMError) as error:
        RunCodegen()(mod)
    assert str(error.value).startswith(
        "the back end gone has no code generator\n"
        '  instead: register_backend(Backend("gone", ...)), or '
        'register_func("relax.ext.gone", f)'
    )


def test_a_back_end_that_cannot_be_used_here():
    usable = Backend("p", each("p", "exp"), codegen=packed)
    mod = partition(g.Chain, usable)
    missing = Backend("p", codegen=packed, available=lambda: "libp.so is not installed")
    with pytest.raises(lw.TVMError) as error:
        RunCodegen(backends=[missing])(mod)
    assert str(error.value) == (
        "the back end p cannot be used here\n"
        "  got: libp.so is not installed\n"
        "  instead: compile without partitioning for it"
    )


@pytest.mark.parametrize(
    ("lower", "text"),
    [
        (
            lambda kernels, options: None,
            "lower of back end device2 returns an IRModule, or a pair (IRModule, libraries)\n"
            "  got: None",
        ),
        (
            lambda kernels, options: lw.ir.IRModule({}),
            "lower of back end device2 lost kernels\n"
            "  got: tir_exp\n"
            "  instead: return every function under its name",
        ),
        (
            lambda kernels, options: lw.ir.IRModule({"tir_exp": _two_results}),
            "lower of back end device2 changed the signature of tir_exp\n"
            "  got: (float32[4], float32[4], float32[4])\n"
            "  instead: keep its parameters: (float32[4], float32[4])",
        ),
        (
            lambda kernels, options: lw.ir.IRModule({"tir_exp": _halves}),
            "lower of back end device2 changed the signature of tir_exp\n"
            "  got: (float16[4], float32[4])\n"
            "  instead: keep its parameters: (float32[4], float32[4])",
        ),
    ],
    ids=["nothing", "a lost kernel", "another count", "another dtype"],
)
def test_what_lower_returns(lower, text):
    backend = Backend("device2", each("device2", "exp"), target="device2", lower=lower)
    assert error_of(backend) == text


# What is said of a kernel: the shapes of its buffers, its further parameters.
SIZES = {
    "(float32[n0, n0], float32[n0, n0])": ("n, n", "n, n", ""),
    "(float32[n0, 2], float32[n0, n1])": ("n, 2", "n, m", ""),
    "(float32[n0, ?], float32[n0, n1])": ("n, n + 1", "n, m", ""),
    "(float32[n0, n1], float32[n0, n1], int64)": ("n, m", "n, m", ", k: T.int64"),
    "Function": None,
}


@pytest.mark.parametrize("got", SIZES)
def test_what_lower_makes_of_symbolic_sizes(got):
    mod = graph("y = R.exp(x)", x=("n", "m"))
    kernel = mod["main"]
    if (given := SIZES[got]) is not None:
        kernel = from_source(f"""
@T.prim_func(private=True)
def tir_exp(x: T.handle, y: T.handle{given[2]}):
    n, m = T.int64(), T.int64()
    X = T.match_buffer(x, ({given[0]}))
    Y = T.match_buffer(y, ({given[1]}))
    T.evaluate(0)
""")
    backend = Backend(
        "device2",
        each("device2", "exp"),
        target="device2",
        lower=lambda kernels, options: lw.ir.IRModule({"tir_exp": kernel}),
    )
    assert error_of(backend, mod) == (
        "lower of back end device2 changed the signature of tir_exp\n"
        f"  got: {got}\n"
        "  instead: keep its parameters: (float32[n0, n1], float32[n0, n1])"
    )


@T.prim_func(private=True)
def _two_results(
    x: T.Buffer((T.int64(4),), "float32"),
    o: T.Buffer((T.int64(4),), "float32"),
    p: T.Buffer((T.int64(4),), "float32"),
):
    T.evaluate(0)


@T.prim_func(private=True)
def _halves(x: T.Buffer((T.int64(4),), "float16"), o: T.Buffer((T.int64(4),), "float32")):
    T.evaluate(0)
