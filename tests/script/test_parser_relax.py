"""Graph function text becomes the Relax that it says, the same as BlockBuilder makes."""

# ruff: noqa: F841  (the names are those of a script)

from __future__ import annotations

import re
import textwrap
import typing
from pathlib import Path
from typing import Annotated

import numpy as np
import pytest

import loopwright.ops  # noqa: F401  (fills R)
from loopwright import relax, tir
from loopwright.base.errors import DiagnosticError
from loopwright.ir.expr import GlobalVar
from loopwright.ir.module import IRModule
from loopwright.ir.structural import assert_structural_equal, structural_equal, structural_hash
from loopwright.script import from_source
from loopwright.script import ir as I
from loopwright.script import relax as R
from loopwright.script import tir as T

SEED = Path(__file__).parents[2] / "docs" / "seeds" / "2-relax-transformation-tutorial.rst"


def read(text: str, **names):
    return from_source(textwrap.dedent(text), names)


def seed_modules() -> list[str]:
    text = SEED.read_text()
    parts = re.finditer(r"(?m)^    @I\.ir_module\n(?:    .*\n|\n)+", text)
    return [textwrap.dedent(part.group(0)).strip() for part in parts]


@pytest.mark.parametrize("index", range(4))
def test_the_printed_modules_of_the_tutorial_round_trip(index: int):
    text = seed_modules()[index]
    mod = from_source(text)
    printed = mod.script()
    assert printed[printed.index("@I") :].strip() == text
    assert_structural_equal(mod, from_source(printed))


def check(func: relax.Function, bb: relax.BlockBuilder) -> None:
    """The parsed function is what the builder made, and so is its text read again."""
    expected = bb.get()["foo"]
    assert_structural_equal(func, expected)
    assert_structural_equal(from_source(func.script()), expected)


def test_a_simple_function():
    @R.function
    def foo(x: R.Tensor((128, 128), "float32")) -> R.Tensor("float32", ndim=2):
        R.func_attr({"Primitive": True})
        gv0 = R.add(x, x)
        return gv0

    x = relax.Var("x", relax.TensorStructInfo((128, 128), "float32"))
    bb = relax.BlockBuilder()
    with bb.function("foo", [x], attrs={"Primitive": True}):
        bb.emit_func_output(bb.emit(relax.op.add(x, x)))
    check(foo, bb)
    assert foo.attrs["Primitive"] is True and foo.is_pure


def test_symbolic_shapes_by_string_and_by_declaration():
    @R.function
    def foo(x: R.Tensor(("n", "n * 2"), "float32"), s: R.Shape(["n", "m"])) -> R.Tensor(
        ("n", "n * 2"), "float32"
    ):
        n, m = T.int64(), T.int64()
        y: R.Tensor((n, n * 2), "float32") = R.add(x, x)
        return y

    n, m = tir.Var("n", "int64"), tir.Var("m", "int64")
    x = relax.Var("x", relax.TensorStructInfo((n, n * 2), "float32"))
    s = relax.Var("s", relax.ShapeStructInfo((n, m)))
    bb = relax.BlockBuilder()
    with bb.function("foo", [x, s]):
        bb.emit_func_output(bb.emit(relax.op.add(x, x)))
    check(foo, bb)
    assert foo.params[0].struct_info.shape[0] is foo.params[1].struct_info.values[0]


def test_dataflow_blocks_hide_their_locals():
    @R.function
    def foo(x: R.Tensor((2, 3), "float32")):
        with R.dataflow():
            lv0 = R.add(x, x)
            gv = R.multiply(lv0, x)
            R.output(gv)
        return gv

    x = relax.Var("x", relax.TensorStructInfo((2, 3), "float32"))
    bb = relax.BlockBuilder()
    with bb.function("foo", [x]):
        with bb.dataflow():
            lv0 = bb.emit(relax.op.add(x, x))
            gv = bb.emit_output(relax.op.multiply(lv0, x))
        bb.emit_func_output(gv)
    check(foo, bb)
    kinds = [type(b.var) for b in foo.body.blocks[0].bindings]
    assert kinds == [relax.DataflowVar, relax.Var]


def test_a_return_inside_a_dataflow_block():
    foo = read("""
        @R.function
        def foo(x: R.Tensor((2, 3), "float32")):
            with R.dataflow():
                gv = R.add(x, x)
                R.output(gv)
                return gv
    """)
    assert foo.body.body is foo.body.blocks[0].bindings[0].var


def test_names_and_rebinding_are_kept():
    @R.function
    def foo(x: R.Tensor((2, 3), "float32")):
        x = R.add(x, x)
        x = R.add(x, x)
        return x

    assert [b.var.name_hint for b in foo.body.blocks[0].bindings] == ["x", "x"]
    assert foo.body.blocks[0].bindings[1].value.args[0] is foo.body.blocks[0].bindings[0].var


def test_python_operators_tuples_constants_and_nested_calls():
    @R.function
    def foo(x: R.Tensor((2, 3), "float32"), y: R.Tensor((2, 3), "float32")):
        a = x + y * 2.0 - -x
        t = (a, (x, y))
        b, (c, d) = t
        e = t[0]
        f = R.const(np.ones((2, 3)), "float32")
        g = ()
        h = 3
        return (b, c, d, e, f, g, h)

    values = {b.var.name_hint: b.value for b in foo.body.blocks[0].bindings}
    assert values["a"].op.name == "relax.subtract"
    assert isinstance(values["t"], relax.Tuple)
    assert isinstance(values["e"], relax.TupleGetItem) and values["e"].index == 0
    assert isinstance(values["f"], relax.Constant)
    assert values["g"].fields == ()
    assert values["h"].struct_info.dtype == "int32"
    assert (
        isinstance(foo.ret_struct_info, relax.TupleStructInfo)
        and len(foo.ret_struct_info.fields) == 7
    )


def test_unpacking_a_call_evaluates_it_once():
    @R.function
    def foo(x: R.Tensor((4, 3), "float32")):
        a, b = R.split(x, 2)
        return R.add(a, b)

    bindings = foo.body.blocks[0].bindings
    calls = [b.value for b in bindings if isinstance(b.value, relax.Call)]
    assert [c.op.name for c in calls] == ["relax.split", "relax.add"]


def test_match_cast():
    @R.function
    def foo(x: R.Tensor("float32"), y: R.Tensor("float32")):
        n, m = T.int64(), T.int64()
        x0 = R.match_cast(x, R.Tensor((n, m), "float32"))
        with R.dataflow():
            y0 = R.match_cast(y, R.Tensor((n,), "float32"))
            gv = y0
            R.output(gv)
        return (x0, gv, R.shape([m, n * 2]))

    first, second = foo.body.blocks[0].bindings[0], foo.body.blocks[1].bindings[0]
    assert isinstance(first, relax.MatchCast) and isinstance(second, relax.MatchCast)
    assert first.struct_info.shape[0] is second.struct_info.shape[0]
    assert isinstance(second.var, relax.DataflowVar)
    assert_structural_equal(foo, from_source(foo.script()))


def test_a_tuple_without_fields_is_annotated_as_what_is_returned():
    @R.function
    def foo(x: R.Tensor((2,), "float32")) -> R.Tuple:
        return (x, R.add(x, x))

    info = foo.params[0].struct_info
    assert_structural_equal(foo.struct_info.ret, relax.TupleStructInfo([info, info]))


def test_annotations_win_over_inference():
    @R.function(pure=False)
    def foo(x: R.Tensor):
        o: R.Object = R.call_packed("f", x, x, flag=1, sinfo_args=R.Tensor)
        t: R.Tuple(R.Tensor, R.Tuple(R.Shape, R.Object())) = R.call_packed("g", x)
        c: R.Callable((R.Tensor,), R.Tensor, True) = R.call_packed("h")
        u: R.Object = R.add(x, x)
        return (o, t, c, u)

    infos = {b.var.name_hint: b.var.struct_info for b in foo.body.blocks[0].bindings}
    assert type(infos["o"]) is relax.ObjectStructInfo and type(infos["u"]) is relax.ObjectStructInfo
    assert infos["t"].fields[1].fields[0].ndim == -1
    assert infos["c"].purity is True
    assert not foo.is_pure


def test_prim_values_and_shapes():
    @R.function
    def foo(
        x: R.Prim(value="n"), y: R.Prim("float32"), s: R.Shape(ndim=2), f: R.Callable
    ) -> R.Prim("int64"):
        n = T.int64()
        m = n * 2
        k = R.prim_value(n + 1)
        t = R.dtype("float32")
        u = R.str("text")
        return m

    bindings = foo.body.blocks[0].bindings
    assert isinstance(foo.params[0].struct_info, relax.PrimStructInfo)
    assert foo.params[0].struct_info.value.name == "n"
    assert foo.params[2].struct_info.ndim == 2
    assert isinstance(foo.params[3].struct_info, relax.FuncStructInfo)
    assert [type(b.value).__name__ for b in bindings] == [
        "PrimValue",
        "PrimValue",
        "DataTypeImm",
        "StringImm",
    ]


def test_if_else():
    @R.function
    def foo(cond: R.Tensor((), "bool"), x: R.Tensor((1,), "float32")):
        if cond:
            w = R.add(x, x)
            y = R.multiply(w, w)
        else:
            y = x
        return y

    (binding,) = foo.body.blocks[0].bindings
    assert binding.var.name_hint == "y" and isinstance(binding.value, relax.If)
    true, false = binding.value.true_branch, binding.value.false_branch
    assert [b.var.name_hint for b in true.blocks[0].bindings] == ["w", "y_then"]
    assert true.body is true.blocks[0].bindings[1].var
    assert not false.blocks and false.body is foo.params[1]
    assert_structural_equal(foo, from_source(foo.script()))


@pytest.mark.parametrize(
    "leaf",
    [
        relax.const(np.ones(2, "float32")),
        relax.const(1.0, "float32"),
        relax.PrimValue(3),
        relax.ShapeExpr([1, 2]),
        relax.StringImm("a"),
        relax.Tuple([relax.const(1), relax.const(2)]),
    ],
    ids=lambda leaf: type(leaf).__name__,
)
def test_a_branch_whose_result_is_no_variable(leaf):
    """What is printed as `y = leaf` is read as the result, not as a binding before it."""
    cond = relax.Var("cond", relax.TensorStructInfo((), "bool"))
    bb = relax.BlockBuilder()
    with bb.function("main", [cond]):
        bb.emit_func_output(bb.emit(relax.If(cond, leaf, leaf)))
    again = from_source(bb.get().script(show_meta=True))
    assert_structural_equal(again, bb.get())
    assert not again["main"].body.blocks[0].bindings[0].value.true_branch.blocks


def test_if_on_scalars_and_in_python():
    @R.function
    def foo(x: R.Tensor(("n",), "float32"), p: R.Prim("bool")):
        n = T.int64()
        if n > 4:
            y = R.add(x, x)
        elif p:
            y = x
        else:
            y = R.multiply(x, x)
        if True:
            z = y
        else:
            z = x
        return z

    value = foo.body.blocks[0].bindings[0].value
    assert isinstance(value.cond, relax.PrimValue)
    inner = value.false_branch.blocks[0].bindings[0].value
    assert isinstance(inner, relax.If) and inner.cond is foo.params[1]


def test_python_loops_repeat_their_body():
    @R.function
    def foo(x: R.Tensor((2,), "float32")):
        for _ in range(3):
            x = R.add(x, x)
        return x

    assert len(foo.body.blocks[0].bindings) == 3


def test_impure_functions_asserts_and_void_calls():
    @R.function(pure=False)
    def foo(x: R.Tensor((), "bool")):
        R.print(x, format="{}")
        assert x, "no"
        return x

    names = [b.value.op.name for b in foo.body.blocks[0].bindings]
    assert names == ["relax.print", "relax.assert_op"]
    assert_structural_equal(foo, from_source(foo.script()))


def test_force_pure_allows_effects():
    @R.function
    def foo(x: R.Tensor((), "bool")):
        R.func_attr({"relax.force_pure": True})
        R.print(x, format="{}")
        return x

    assert foo.is_pure


def test_local_functions_and_closures():
    @R.function
    def foo(x: R.Tensor((2,), "float32")):
        @R.function
        def inner(y: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
            return R.add(x, y)

        @R.function
        def recurse(y: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
            return recurse(y)

        return inner(recurse(x))

    first = foo.body.blocks[0].bindings[0]
    assert isinstance(first.value, relax.Function) and "global_symbol" not in first.value.attrs
    assert first.var.name_hint == "inner"
    assert isinstance(first.var.struct_info, relax.FuncStructInfo)
    assert_structural_equal(foo, from_source(foo.script()))


def test_a_module_calls_functions_before_they_are_defined():
    @I.ir_module
    class Module:
        I.module_attrs({"attr": 10})

        @R.function
        def main(x: R.Tensor(("n", 4), "float32")) -> R.Tensor(("n", 4), "float32"):
            cls = Module
            n = T.int64()
            a = R.call_tir(cls.double, (x,), out_sinfo=R.Tensor((n, 4), "float32"))
            b = Module.other(a)
            c = R.call_dps_packed("ext", (b,), out_ty=R.Tensor((n, 4), "float32"))
            return c

        @R.function(private=True)
        def other(x: R.Tensor(("n", 4), "float32")) -> R.Tensor(("n", 4), "float32"):
            return x

        @T.prim_func(private=True)
        def double(a: T.handle, b: T.handle):
            n = T.int64()
            A = T.match_buffer(a, (n, T.int64(4)))
            B = T.match_buffer(b, (n, T.int64(4)))
            for i, j in T.grid(n, T.int64(4)):
                with T.block("double"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    B[vi, vj] = A[vi, vj] * T.float32(2)

        ext = R.ExternFunc("my_extern")

    assert [g.name_hint for g in Module.functions] == ["ext", "main", "other", "double"]
    calls = [b.value for b in Module["main"].body.blocks[0].bindings]
    assert calls[0].args[0].same_as(Module.get_global_var("double"))
    assert isinstance(calls[1].op, GlobalVar) and calls[1].struct_info.ndim == 2
    assert "global_symbol" not in Module["other"].attrs
    assert Module.attrs["attr"] == 10
    assert_structural_equal(Module, from_source(Module.script()))


def test_functions_as_values_and_direct_calls_of_prim_funcs():
    @I.ir_module
    class Module:
        ext = R.ExternFunc("ext", R.Callable((R.Tensor,), R.Tensor(ndim=1), False))

        @R.function(pure=False)
        def main(x: R.Tensor((4,), "float32")):
            inner = Module.double
            y = inner(x)
            out = R.builtin.alloc_tensor(R.shape([4]), dtype="float32", runtime_device_index=0)
            Module.copy(y, out)
            z = Module.ext(out)
            return (y, z)

        @R.function
        def double(x: R.Tensor((4,), "float32")):
            y = R.add(x, x)
            return y

        @T.prim_func
        def copy(A: T.Buffer((T.int64(4),), "float32"), B: T.Buffer((T.int64(4),), "float32")):
            for i in range(T.int64(4)):
                B[i] = A[i]

    found = {b.var.name_hint: b.var.struct_info for b in Module["main"].body.blocks[0].bindings}
    assert found["inner"].ret.shape.values[0].value == 4
    assert found["y"].dtype == "float32" and found["z"].ndim == 1
    assert found["_"].fields == ()


def test_results_of_later_functions_are_known():
    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor(("n", 4), "float32")):
            y = Module.other(x)
            return y

        @R.function
        def other(x: R.Tensor(("k", 4), "float32")):
            y = R.add(x, x)
            return y

        @R.function
        def forever(x: R.Tensor((4,), "float32")):
            y = Module.forever(x)
            return y

    assert [g.name_hint for g in Module.functions] == ["main", "other", "forever"]
    info = Module["main"].ret_struct_info
    assert info.shape[0] is Module["main"].params[0].struct_info.shape[0]


def test_call_tir_forms():
    @I.ir_module
    class Module:
        @T.prim_func(private=True)
        def k(a: T.handle, b: T.handle, n: T.int64):
            A = T.match_buffer(a, (4,))
            B = T.match_buffer(b, (4,))
            B[0] = A[n]

        @T.prim_func(private=True)
        def update(a: T.handle, n: T.int64):
            A = T.match_buffer(a, (4,))
            A[n] = 1.0

        @R.function(pure=False)
        def main(x: R.Tensor((4,), "float32"), s: R.Shape(["n"])):
            n = T.int64()
            cls = Module
            a = R.call_tir(cls.k, x, R.Tensor((4,), "float32"), tir_vars=R.shape([n]))
            b = R.call_tir_inplace(cls.update, (a,), 0, R.Tensor((4,), "float32"), (n,))
            c = R.call_tir_with_grad(
                cls.k, (b,), R.Tensor((4,), "float32"), te_grad_name="g", tir_vars=(n,)
            )
            d = R.call_pure_packed("f", c, sinfo_args=(R.Tensor((4,), "float32"),))
            e = R.call_packed("f", c, sinfo_args=[R.Tensor(("n",), "float32")])
            return (d, e)

    values = {b.var.name_hint: b.value for b in Module["main"].body.blocks[0].bindings}
    assert values["a"].args[2].values == values["b"].args[2].values
    assert values["b"].attrs.inplace_indices == [0]
    assert values["c"].attrs.te_grad_name == "g"
    assert values["d"].struct_info.dtype == "float32"
    assert values["e"].struct_info.shape[0] is Module["main"].params[1].struct_info.values[0]


def test_vdevices_by_name():
    @I.ir_module
    class Module:
        I.module_global_infos(
            {"vdevice": [I.vdevice("llvm"), I.vdevice("cuda", 0), I.vdevice("cuda", 1)]}
        )

        @R.function
        def main(
            x: R.Tensor((2,), "float32", "cuda:1"), y: R.Tensor((2,), "float32", vdevice="llvm")
        ):
            z = R.to_vdevice(y, "cuda")
            return (x, z)

    devices = Module.global_infos["vdevice"]
    x, y = Module["main"].params
    assert x.struct_info.vdevice is devices[2] and y.struct_info.vdevice is devices[0]
    assert Module["main"].body.blocks[0].bindings[0].value.attrs.dst_vdevice is devices[1]


def test_macros():
    @R.macro
    def double(x):
        y = R.add(x, x)
        return y

    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor((2,), "float32")):
            z = double(x)
            return z

    assert [b.var.name_hint for b in Module["main"].body.blocks[0].bindings] == ["y", "z"]


def test_emit_te():
    from loopwright import te

    def scale(x):
        return te.compute(x.shape, lambda i: x[i] * 2.0, "scaled")

    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor(("n",), "float32")):
            y = R.emit_te(scale, x)
            z = R.emit_te(scale, y)
            return z

    assert sorted(g.name_hint for g in Module.functions) == ["main", "scale"]
    first, second = Module["main"].body.blocks[0].bindings
    assert first.value.args[0] == second.value.args[0]


def test_functions_from_outside_are_members():
    x = relax.Var("x", relax.TensorStructInfo((2,), "float32"))
    made = relax.Function([x], x, attrs={"global_symbol": "f"})

    @I.ir_module
    class Module:
        f = made

        @R.function
        def main(x: R.Tensor((2,), "float32")):
            return Module.f(x)

    assert isinstance(Module, IRModule) and Module["f"].params[0] is x


def test_proxies_outside_a_script():
    info = R.Tensor(("n", "n + 1"), "float32").as_struct_info()
    assert info.shape[1].a is info.shape[0]
    assert R.Tensor("int8").as_struct_info().dtype == "int8"
    assert R.Tuple(R.Shape(["n"]), R.Prim(value="m")).get_symbolic_vars() == {"n", "m"}
    assert relax.Var("x", R.Tensor((2, 3))).struct_info.dtype == "void"
    with pytest.raises(AttributeError, match=r"R has no operator 'ad'"):
        R.ad
    for wrong in ((3,), ({"a": 1},), ((2.5,),), ((2,), "nodtype"), ((2,), "int8", None, 3)):
        with pytest.raises((TypeError, ValueError)):
            R.Tensor(*wrong)


# ---------------------------------------------------------------------- errors

HEAD = """\
@R.function
def f(x: R.Tensor((2, 3), "float32"), c: R.Tensor((), "bool")):
"""


def error(body: str, head: str = HEAD) -> str:
    text = head + textwrap.indent(textwrap.dedent(body).strip(), "    ")
    with pytest.raises(DiagnosticError) as caught:
        from_source(text)
    assert "^" in str(caught.value)
    return str(caught.value).splitlines()[0]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("a = b = x\nreturn a", "consequential assignments like `a = b = c` are not supported"),
        ("R.add(x, x)\nreturn x", "the value of this expression is not used"),
        ("y = R.add(x, x)", "function f has no return statement"),
        ("return x\nreturn x", "function f has a second return statement"),
        ("return y", "undefined variable 'y'"),
        (
            "@T.prim_func\ndef g(A: T.Buffer((2,))):\n    A[0] = T.float32(0)\nreturn x",
            "g is not allowed in a graph function",
        ),
        (
            "y: R.Tensor((2,), 'float32') = R.add(x, x)\nreturn y",
            "the annotation contradicts the value",
        ),
        ("y: R.Tensor((4, 3), 'float32') = x\nreturn y", "the annotation contradicts the value"),
        ("y: R.Shape = x\nreturn y", "the annotation contradicts the value"),
        (
            "if c:\n    a = x\nelse:\n    b = x\nreturn x",
            "both branches of an if end by binding the same name",
        ),
        ("if c:\n    a = x\nreturn x", "an if in a graph function needs an else"),
        ("if c:\n    pass\nelse:\n    a = x\nreturn x", "the then branch of an if binds nothing"),
        ("if c:\n    return x\nelse:\n    a = x\nreturn x", "a branch has no return statement"),
        (
            "with R.dataflow():\n    a = x\n    R.output(a)\n    b = a\nreturn a",
            "a dataflow block ends with R.output",
        ),
        (
            "with R.dataflow():\n    a = x\n    R.output(a)\n    R.output(a)\nreturn a",
            "R.output twice in a dataflow block",
        ),
        ("R.output(x)\nreturn x", "R.output outside a dataflow block"),
        (
            "y = x\nwith R.dataflow():\n    R.output(y)\nreturn y",
            "R.output names variables that its dataflow block binds",
        ),
        (
            "with R.dataflow():\n    a = x\n    b = a\n    R.output(b)\nreturn a",
            "undefined variable 'a'",
        ),
        (
            "with R.dataflow():\n    if c:\n        a = x\n    else:\n        a = x\n    R.output(a)\nreturn a",
            "a dataflow block has no control flow",
        ),
        ("y: R.Tensor((n,), 'float32') = x\nreturn y", "undefined variable 'n'"),
        ("y: R.Tensor(('n', 3), 'float32') = x\nreturn y", "undefined symbolic variable 'n'"),
        ("R.print(x)\nreturn x", "a pure function makes a call that has side effects"),
        ("assert c\nreturn x", "a pure function makes a call that has side effects"),
        (
            "y = R.add(x, R.call_packed('f'))\nreturn y",
            "a pure function makes a call that has side effects",
        ),
        (
            "y = T.int64(1, 2, 3)\nreturn x",
            "int64() takes from 0 to 2 positional arguments but 3 were given",
        ),
        ("while c:\n    pass\nreturn x", "unsupported statement `While` in a graph function"),
        ("for i in x:\n    pass\nreturn x", "a graph function has no loops"),
        ("a, b = x\nreturn a", "only a tuple of known length can be unpacked"),
        ("y = R.ad(x, x)\nreturn y", "R has no operator 'ad'"),
        (
            "y = x if c else x\nreturn y",
            "`a if c else b` needs a condition that is known while the script is read",
        ),
        (
            "y = R.match_cast(x, R.Tensor((2,), 'float32'))\nreturn y",
            "the annotation contradicts the value",
        ),
        ("with x:\n    pass\nreturn x", "invalid context expression in a with statement"),
        ("def g():\n    pass\nreturn x", "g needs exactly one decorator"),
    ],
)
def test_errors(body: str, message: str):
    assert error(body) == message


@pytest.mark.parametrize(
    ("head", "body", "message"),
    [
        (
            "@R.function\ndef f(x):\n",
            "return x",
            "type annotation required for function parameter 'x'",
        ),
        (
            '@R.function\ndef f(x: R.Tensor(("n + 1",), "float32")):\n',
            "return x",
            "undefined symbolic variable 'n'",
        ),
        (
            "@R.function(private=True)\ndef f(x: R.Tensor):\n",
            'R.func_attr({"global_symbol": "g"})\nreturn x',
            'a private function has no attribute "global_symbol"',
        ),
        ("@R.function\ndef f(x: 3):\n", "return x", "a struct info is expected"),
        (
            "@R.function\ndef f(x: R.Tensor((2,), ndim=3)):\n",
            "return x",
            "R.Tensor: ndim is not the rank of the shape",
        ),
        (
            "@R.function(pure=False)\ndef f(x: R.Tensor):\n",
            "with R.dataflow():\n    _ = R.print(x)\n    y = x\n    R.output(y)\nreturn y",
            "a dataflow block makes a call that has side effects",
        ),
    ],
)
def test_errors_of_the_signature(head: str, body: str, message: str):
    assert error(body, head) == message


def test_a_result_that_contradicts_its_annotation_is_a_warning():
    """As in TVM, whose own programs have such: the body is right."""
    with pytest.warns(UserWarning, match="the result of function f contradicts its annotation"):
        function = from_source(
            "@R.function\ndef f(x: R.Tensor((2,))) -> R.Tensor((3,)):\n    return x"
        )
    assert structural_equal(function.ret_struct_info, function.params[0].struct_info)


def test_errors_in_modules_name_the_missing_function():
    text = """
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor):
            return M.nope(x)
    """
    with pytest.raises(DiagnosticError, match=r"module M has no function 'nope'\n.*main"):
        read(text)


def test_a_dataflow_local_says_what_to_do():
    with pytest.raises(DiagnosticError, match=r"add it to R.output"):
        from_source(
            HEAD
            + "    with R.dataflow():\n        a = x\n        b = a\n        R.output(b)\n    return a"
        )


def test_unchecked_programs_may_be_ill_formed():
    text = "@R.function(check_well_formed=False)\ndef f(x: R.Tensor):\n    R.print(x)\n    return x"
    assert from_source(text).is_pure


def test_struct_infos_as_they_are_written_are_compared():
    tensor = relax.TensorStructInfo((2, 3), "int8")
    assert structural_equal(R.Tensor((2, 3), "int8"), tensor)
    assert structural_hash(R.Tensor((2, 3), "int8")) == structural_hash(tensor)
    assert not structural_equal(tensor, R.Object())
    assert_structural_equal(relax.Var("x", R.Tensor((2, 3), "int8")).struct_info, tensor)


def test_a_dimension_that_is_known_may_have_a_name():
    @R.function(private=True)
    def main(x: R.Tensor("float32", ndim=2)):
        n, c = T.int64(), T.int64(16)
        y = R.match_cast(x, R.Tensor((n, c), "float32"))
        return y

    (binding,) = main.body.blocks[0].bindings
    assert int(binding.struct_info.get_shape()[1]) == 16


def test_a_declaration_may_name_the_variable():
    """`n = T.Var("n", "int64")` is the n of the signature."""

    @R.function(private=True)
    def plain(x: R.Tensor(("n",), "float32")) -> R.Tensor(("n",), "float32"):
        n = T.int64()
        return R.call_dps_packed("f", (x,), out_sinfo=R.Tensor((n,), "float32"))

    @R.function(private=True)
    def named(x: R.Tensor(("n",), "float32")) -> R.Tensor(("n",), "float32"):
        n = T.Var("n", "int64")
        return R.call_dps_packed("f", (x,), out_sinfo=R.Tensor((n,), "float32"))

    assert_structural_equal(named, plain)


def test_unchecked_programs_may_contradict_their_annotations():
    """So that `well_formed` can say so."""
    text = (
        "@R.function(check_well_formed=False)\ndef f(x: R.Tensor((2,), 'float32')):\n"
        "    y: R.Tensor((2,), 'int32') = R.add(x, x)\n    return y"
    )
    assert not relax.analysis.well_formed(from_source(text))


def test_a_kernel_without_effects_may_be_called_by_pure_functions():
    @I.ir_module
    class Module:
        @T.prim_func
        def nothing(a: T.handle):
            T.evaluate(0)

        @R.function
        def main(x: R.Tensor((2,), "float32")):
            cls = Module
            cls.nothing(x)
            return x

    assert Module["main"].is_pure


def test_a_tuple_of_one_list():
    text = """
    @R.function
    def f(x: R.Tensor((2,), "float32"), y: R.Tensor((2,), "float32")):
        return R.tuple({fields})
    """
    one, apart = (read(text.format(fields=fields)) for fields in ("(x, y)", "x, y"))
    assert_structural_equal(one, apart)
    assert len(one.ret_struct_info.fields) == 2


def test_a_function_from_outside_is_a_member_and_stays_private():
    inner = read("""
    @R.function(private=True)
    def inner(x: R.Tensor((2,), "float32")):
        return x
    """)
    mod = read("@I.ir_module\nclass M:\n    h = inner\n    k = shown", inner=inner,
               shown=inner.with_attr("global_symbol", "shown"))  # fmt: skip
    assert "global_symbol" not in mod["h"].attrs
    assert mod["k"].attrs["global_symbol"] == "k"


def test_attributes_of_a_module_are_given_once():
    text = "@I.ir_module\nclass M:\n    I.module_attrs({'a': 1, 'b': 2})\n    I.module_attrs("
    with pytest.raises(DiagnosticError, match=r"the module has the attributes \['a'\] already"):
        read(text + "{'a': 3})")
    assert read(text + "{'a': 3}, allow_overwrite=True)").attrs["a"] == 3
    assert set(read(text + "{'c': 3})").attrs) == {"a", "b", "c"}


def test_annotations_that_type_checkers_understand():
    @R.function
    def main(
        x: Annotated[R.Tensor, (2, 3), "float32"], y: typing.Annotated[R.Tensor, (2,)]
    ) -> typing.Annotated[R.Tensor, (2, 3), "float32"]:
        return x

    @R.function(private=True)
    def wanted(x: R.Tensor((2, 3), "float32"), y: R.Tensor((2,))) -> R.Tensor((2, 3), "float32"):
        return x

    assert_structural_equal(main.without_attr("global_symbol"), wanted)
