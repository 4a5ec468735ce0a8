"""What scripts refuse, and forms that they rarely have."""

from __future__ import annotations

import pytest

from loopwright import relax, te, tir
from loopwright.base.errors import DiagnosticError
from loopwright.ir import assert_structural_equal
from loopwright.script import from_source
from loopwright.script import ir as I
from loopwright.script import relax as R
from loopwright.script import tir as T
from loopwright.script.ir_builder import IRBuilder
from loopwright.script.ir_builder import relax as BR


def kernel(*body: str, params: str = "A: T.Buffer((8,), 'float32'), n: T.int32", ret: str = ""):
    """A prim_func of these lines."""
    return f"@T.prim_func\ndef f({params}){ret}:\n" + "\n".join(f"    {line}" for line in body)


def graph(*body: str, params: str = "x: R.Tensor((2,), 'float32')", ret: str = ""):
    """A graph function of these lines."""
    return f"@R.function\ndef f({params}){ret}:\n" + "\n".join(f"    {line}" for line in body)


KERNELS = [
    (["T.serial(3)"], "is opened by a with or for statement"),
    (["T.float32"], "is not a statement"),
    (["x: 3 = n"], "an annotation in a prim_func is a scalar type"),
    (["A[0]: T.float32 = 1.0"], "an annotation in a prim_func is a scalar type"),
    (["return"], "must be a scalar expression"),
    (["@T.prim_func", "def g():", "    pass"], "holds no function but macros"),
    (["for i in range(0, n, 2):", "    A[i] = 0.0"], "a loop over range has step 1"),
    (["B = T.match_buffer(n)"], "needs a shape"),
    (["m = T.int32()", "B = T.match_buffer(m, (2,))"], "needs a parameter of the function"),
    (["T.evaluate(A)"], "a buffer is not a value"),
    (["for i in T.thread_binding(3):", "    A[i] = 0.0"], "needs the name of a thread axis"),
    (["with T.block('b'):", "    with T.init():", "        A[0] = 0.0", "    with T.init():", "        A[1] = 0.0"], "has a T.init already"),
    (["A.name = 3"], "this cannot be assigned to"),
    (["for i in range(4):", "    with T.block('b'):", "        v = T.axis.remap('SS', [i])", "        A[v] = 0.0"], "one letter, S or R, for each"),
    (["with T.block('b'):", "    v = T.axis.remap('S', [n])", "    A[v] = 0.0"], "binds variables of the loops around"),
]  # fmt: skip


@pytest.mark.parametrize(("body", "text"), KERNELS)
def test_refused_in_a_prim_func(body, text):
    with pytest.raises(DiagnosticError, match=text):
        from_source(kernel(*body))


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"params": "A: 3"}, "needs a type such as T.int32, T.handle or T.Buffer"),
        ({"ret": " -> T.Buffer((1,))"}, "returns a scalar or nothing"),
    ],
)
def test_refused_signatures_of_a_prim_func(given, text):
    with pytest.raises(DiagnosticError, match=text):
        from_source(kernel("T.evaluate(0)", **given))


GRAPHS = [
    (["return not x"], "negates a condition that is known"),
    (["return x and x"], "join scalar conditions"),
    (["y: R.Tensor((2,), 'float32')", "return x"], "an annotated name needs a value"),
    (["n = T.int64()", "n = T.int32()", "return x"], "symbolic variable n is defined twice"),
    (["assert 1 > 2, 'no'", "return x"], "assertion failed: no"),
    (["x", "return x"], "the value of this expression is not used"),
    (["3", "return x"], "is not a statement of a graph function"),
    (
        ["@I.ir_module", "def g():", "    return x", "return x"],
        "is not allowed in a graph function",
    ),
    (["y: R.Shape(3) = x", "return x"], "the values of R.Shape are a list"),
    (["y: R.Prim() = x", "return x"], "needs a dtype or a value"),
    (["y: R.Prim('int64', 3) = x", "return x"], "a dtype or a value, not both"),
    (["y: R.Tensor((1.5,), 'float32') = x", "return x"], "a dimension is an int, a string"),
    (["y: R.Callable((R.Tensor,)) = x", "return x"], "needs the struct info of its result"),
    (["y: 'a' + 'b' = x", "return x"], "a struct info is expected"),
    (["y = z = x", "return x"], "instead: write two assignments"),
    (["return x", "return x"], "second return statement"),
]


@pytest.mark.parametrize(("body", "text"), GRAPHS)
def test_refused_in_a_graph_function(body, text):
    with pytest.raises(DiagnosticError, match=text):
        from_source(graph(*body))


MODULE = "@I.ir_module\nclass M:\n    @R.function\n    def f(x: R.Tensor((2,), 'int8')):\n        return x\n"
MODULES = [
    ("    @T.macro\n    def g(x):\n        pass\n", "g is not allowed in a module"),
    ("    @R.function\n    def f(x: R.Object):\n        return x\n", "has a function 'f' already"),
    ("    a, b = 1, 2\n", "assigned to one name"),
    ("    a = b = 1\n", "assigned to one name"),
    ("    I.module_attrs({'a': 1})\n    I.module_attrs({'b': 1, 'a': 2})\n", r"the attributes \['a'\] already"),
]  # fmt: skip


@pytest.mark.parametrize(("more", "text"), MODULES)
def test_refused_in_a_module(more, text):
    with pytest.raises(DiagnosticError, match=text):
        from_source(MODULE + more)


def test_rare_statements_of_a_prim_func():
    @T.prim_func
    def rare(A: T.Buffer((8,), "float32"), n: T.int32) -> T.int32:
        pair = (n, "a name")
        m: T.int32 = n + 1
        A
        [T.call_extern("int32", "f", m), "text"]
        T.evaluate("text")
        assert 2 > 1, "known while it is read"
        for _ in range(2):
            A[pair[0]] += 1.0
        with T.LetStmt(m) as k:
            A[k] = 2.0
        return m

    @T.prim_func
    def plain(A: T.Buffer((8,), "float32"), n: T.int32) -> T.int32:
        m: T.int32 = n + 1
        T.evaluate(T.call_extern("int32", "f", m))
        T.evaluate(T.StringImm("text"))
        for _ in range(2):
            A[n] = A[n] + T.float32(1)
        with T.LetStmt(m) as k:
            A[k] = T.float32(2)
        T.evaluate(T.ret(m))

    assert_structural_equal(rare.with_attr("global_symbol", "plain"), plain)
    assert rare.ret_type.dtype == "int32"


def test_macros_bind_their_arguments_as_python_does():
    @T.macro
    def store(A, at, /, value=5, *rest, scale, offset=1, **more):
        A[at] = T.float32(value * scale + offset + sum(rest) + sum(more.values()))

    @T.prim_func
    def f(A: T.Buffer((8,), "float32")):
        store(A, 0, scale=2)
        store(A, 1, 6, scale=2, offset=3)
        store(A, 2, 6, 10, 20, scale=1)
        store(A, 3, value=7, scale=1, x=100)

    assert [s.value.value for s in f.body.seq] == [11, 15, 37, 108]


CALLS = [
    ("few(1, 2)", "takes 1 arguments"),
    ("few()", r"lacks \['a'\]"),
    ("few(1, b=2)", r"has no parameter \['b'\]"),
    ("few(1, a=2)", "got two values for 'a'"),
    ("named()", r"lacks \['key'\]"),
]


@pytest.mark.parametrize(("call", "text"), CALLS)
def test_macros_refuse_what_python_does(call, text):
    macros = "\n".join(
        f"@T.macro\ndef {n}:\n    T.evaluate(0)" for n in ("few(a)", "named(*, key)")
    )
    with pytest.raises(DiagnosticError, match=text):
        from_source(f"{macros}\n{kernel(call)}")


def test_macros_outside_of_scripts():
    @T.macro
    def one(A):
        A[0] = 1.0

    with pytest.raises(DiagnosticError, match="macro one is expanded inside a script"):
        one(3)
    with pytest.raises(ValueError, match="a macro is a Python function"):
        T.macro(hygienic=False)(3)


def test_a_macro_that_is_a_method():
    class Store:
        def __init__(self, value):
            self.value = value

        @T.macro
        def at(self, A, i):
            A[i] = T.float32(self.value)

    seven = Store(7)

    @T.prim_func
    def f(A: T.Buffer((8,), "float32")):
        seven.at(A, 2)
        Store.at(seven, A, 3)

    assert [(s.indices[0].value, s.value.value) for s in f.body.seq] == [(2, 7), (3, 7)]


def test_a_value_of_a_macro():
    @T.macro
    def twice(x):
        return x * 2

    @T.prim_func
    def f(A: T.Buffer((8,), "float32")):
        A[1] = twice(A[0])

    assert_structural_equal(f.body.value, f.body.value.a * T.float32(2), map_free_vars=True)


def test_rare_forms_of_a_graph_function():
    @R.function
    def f(x: R.Tensor(("n",), "float32"), g: R.PackedFunc, p: R.Prim("int64"), t: R.Tuple):
        """A text."""
        n = T.int64()
        m: R.Prim("int64") = n * 2  # noqa: F841
        k: T.int64 = T.int64()
        q = T.meta_var(3)
        assert True
        R.match_cast(x, R.Tensor((k,), "float32"))
        y = R.add(x, R.const(q, "float32"))
        empty: R.Shape([n]) = R.shape([n])
        return (y, empty)

    names = [b.var.name_hint for block in f.body.blocks for b in block.bindings]
    assert names[0] == "m" and names[-2:] == ["y", "empty"]
    assert isinstance(f.params[1].struct_info, relax.FuncStructInfo)
    assert not f.params[3].struct_info.fields


def test_a_dataflow_block_without_output_gives_what_is_returned():
    @R.function
    def f(x: R.Tensor((2,), "float32")):
        with R.dataflow():
            a = R.exp(x)
            b = R.negative(a)
            return (a, b)

    (block,) = f.body.blocks
    kinds = [type(b.var) for b in block.bindings]
    assert kinds == [relax.Var, relax.Var]


def test_attributes_of_a_module():
    @I.ir_module
    class M:
        I.module_attrs({"a": 1})
        I.module_set_attr("b", I.module_get_attr("a"))
        I.module_set_attr("a", 5, True)
        I.module_set_attr("c", I.module_get_attrs())

    assert M.attrs["a"] == 5 and M.attrs["b"] == 1 and dict(M.attrs["c"]) == {"a": 5, "b": 1}


def test_steps_of_a_graph_function():
    closed = []
    with IRBuilder() as ib, BR.function() as frame:
        frame.add_callback(lambda: closed.append(1))
        BR.func_name("main")
        x = BR.arg("x", R.Tensor((2,), "float32"))
        y = BR.emit(R.exp(x), R.Tensor((2,), "float32"))
        z = BR.emit_match_cast(y, R.Tensor((2,), "float32"))
        double = BR.emit(BR.emit_te(lambda a: te.compute(a.shape, lambda i: a[i] * 2.0), z))
        BR.func_ret_value(double)
        assert not closed
    assert closed == [1]
    values = [type(b).__name__ for b in ib.get().body.blocks[0].bindings]
    assert values == ["VarBinding", "MatchCast", "VarBinding"]
    outside = pytest.raises(ValueError, match="R.output outside a dataflow block")
    with IRBuilder(), outside, BR.function():
        BR.output()
    with IRBuilder(), pytest.raises(ValueError, match="R.emit outside a function"):
        BR.emit(R.const(1))
    with pytest.raises(ValueError, match="R.emit outside a graph function"):
        R.emit(R.const(1))


def test_what_is_built_without_a_script():
    reducer = T.comm_reducer(lambda a, b, c, d: (a + c, b * d), [T.float32(0), T.int32(1)])
    assert [v.name for v in (*reducer.lhs, *reducer.rhs)] == list("abcd")
    assert [str(v.dtype) for v in reducer.lhs] == ["float32", "int32"]
    assert T.axis_separators(1, 2) == [1, 2]
    turned = T.index_map(lambda i, j: (j, i), inverse_index_map=lambda i, j: (j, i))
    assert turned.map_indices([1, 2])[0] == 2
    assert (
        str(T.cast("float32", T.int32(1)).dtype)
        == str(T.cast(T.int32(1), "float32").dtype)
        == "float32"
    )
    axis = T.iter_var(tir.Var("v", "int32"), (0, 4), "Ordered")
    assert axis.iter_type == 3
