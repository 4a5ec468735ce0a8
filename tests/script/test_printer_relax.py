"""Text of Relax: free-standing nodes, functions and modules, calls, options."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import loopwright.ir
from loopwright.ir.expr import Attrs, GlobalVar
from loopwright.ir.module import IRModule, VDevice
from loopwright.ir.op import Op, register_op
from loopwright.ir.prim_expr import FloatImm, IntImm, Max, Var
from loopwright.ir.structural import assert_structural_equal
from loopwright.relax import expr as rx
from loopwright.relax import struct_info as si
from loopwright.relax import types
from loopwright.script import from_source, printer

# What is tested here is one way: constructors make modules of operators that need not exist.
pytestmark = pytest.mark.no_roundtrip


def check(node: Any, text: str, **options: Any) -> None:
    assert printer.script(node, verbose_expr=True, **options) == text.strip("\n")


def tensor(*shape: Any, dtype: str = "float32") -> si.TensorStructInfo:
    return si.TensorStructInfo(shape, dtype)


def call(name: str, *args: Any, **attrs: Any) -> rx.Call:
    made = Attrs(f"relax.{name}", attrs) if attrs else None
    result = rx.Call(register_op(f"relax.{name}"), args, made)
    result._update_struct_info(getattr(args[0], "struct_info", None) if args else None)
    return result


def variables(*names: str) -> list[rx.Var]:
    x = Var("x", "int64")
    return [rx.Var(name, tensor(1, x, 3)) for name in names]


# ---------------------------------------------------------------------- struct infos and leaves


def test_struct_infos() -> None:
    a, b = Var("a", "int64"), Var("b", "int64")
    check(si.ObjectStructInfo(), "R.Object")
    check(si.PrimStructInfo("float32"), 'R.Prim("float32")')
    check(si.ShapeStructInfo(ndim=-1), "R.Shape(ndim=-1)")
    check(si.ShapeStructInfo([1, 2, 3]), "R.Shape([1, 2, 3])")
    check(si.ShapeStructInfo([1, a, 3]), "a = T.int64()\nR.Shape([1, a, 3])")
    check(tensor(1, a, 3), 'a = T.int64()\nR.Tensor((1, a, 3), dtype="float32")')
    check(si.TensorStructInfo(dtype="", ndim=2), "R.Tensor(ndim=2)")
    check(si.TensorStructInfo(dtype=""), "R.Tensor")
    check(si.TensorStructInfo((), "int32"), 'R.Tensor((), dtype="int32")')
    check(si.TupleStructInfo([]), "R.Tuple")
    fields = [si.PrimStructInfo("float32"), si.ObjectStructInfo(), si.ShapeStructInfo([1, a, 3])]
    text = 'a = T.int64()\nR.Tuple(R.Prim("float32"), R.Object, R.Shape([1, a, 3]))'
    check(si.TupleStructInfo(fields), text)
    func = si.FuncStructInfo([*fields, si.PrimStructInfo(value=b)], tensor(1, 2, 3))
    text = (
        "a = T.int64()\nb = T.int64()\n"
        'R.Callable((R.Prim("float32"), R.Object, R.Shape([1, a, 3]), R.Prim(value=b)), '
        'R.Tensor((1, 2, 3), dtype="float32"), True)'
    )
    check(func, text)
    check(si.FuncStructInfo.opaque_func(), "R.Callable")
    opaque = si.FuncStructInfo.opaque_func(ret=tensor(2), purity=True)
    check(opaque, 'R.Callable(ret=R.Tensor((2,), dtype="float32"), purity=True)')


def test_leaves() -> None:
    check(rx.PrimValue(1), "R.prim_value(1)")
    check(rx.PrimValue(IntImm("int32", 1)), "R.prim_value(T.int32(1))")
    check(rx.PrimValue(FloatImm("float32", 0.5)), "R.prim_value(T.float32(0.5))")
    check(rx.StringImm("hello"), 'R.str("hello")')
    check(rx.DataTypeImm("float32"), 'R.dtype("float32")')
    check(rx.ShapeExpr([1, 2, 3]), "R.shape([1, 2, 3])")
    n = Var("n", "int64")
    check(
        rx.ShapeExpr([n * 2, Max(n, IntImm("int64", 4))]),
        "n = T.int64()\nR.shape([n * 2, T.max(n, 4)])",
    )
    check(rx.Tuple([]), "R.tuple()")
    check(rx.ExternFunc("f"), 'R.ExternFunc("f")')
    info = si.FuncStructInfo([], si.TensorStructInfo(dtype="float32", ndim=2))
    text = 'R.ExternFunc("f", R.Callable((), R.Tensor(dtype="float32", ndim=2), True))'
    check(rx.ExternFunc("f", info), text)
    check(GlobalVar("f"), 'I.GlobalVar("f")')
    check(
        Op.get("relax.call_tir") if Op.find("relax.call_tir") else register_op("relax.call_tir"),
        'I.Op("relax.call_tir")',
    )


@pytest.mark.parametrize(
    ("value", "dtype", "text"),
    [
        (1.0, "float32", "1.0"),
        (1e-5, "float64", "1.0000000000000001e-05"),
        (1.5, "float16", "1.5"),
        (1.5, "bfloat16", "1.5"),
        (3, "int64", "3"),
        (255, "uint8", "255"),
        (True, "bool", "True"),
        (float("inf"), "float32", '"inf"'),
    ],
)
def test_scalar_constants(value: Any, dtype: str, text: str) -> None:
    assert str(rx.const(value, dtype)) == f'R.const({text}, "{dtype}")'


def test_tensor_constants() -> None:
    one, two = rx.const(np.arange(6, dtype="float32")), rx.const([1, 2])
    node = rx.Tuple([one, two, one])
    key = 'metadata["relax.expr.Constant"]'
    omitted = "# Metadata omitted. Use show_meta=True in script() method to show it."
    check(node, f"({key}[0], {key}[1], {key}[0])\n{omitted}")
    full = node.script(show_meta=True)
    names: dict[str, Any] = {"loopwright": loopwright}
    exec(full.rsplit("\n", 1)[0], names)
    assert_structural_equal(names["metadata"]["relax.expr.Constant"][1], two)


def test_free_variables() -> None:
    (a,) = variables("a")
    check(a, 'x = T.int64()\na: R.Tensor((1, x, 3), dtype="float32")\na')
    assert repr(a) == "a"
    b = rx.Var("b", tensor(1, Var("y", "int64"), 3))
    text = """
x = T.int64()
a: R.Tensor((1, x, 3), dtype="float32")
y = T.int64()
b: R.Tensor((1, y, 3), dtype="float32")
"""
    check(rx.Tuple([a, b]), text + "(a, b)")
    check(rx.TupleGetItem(rx.Tuple([a, b]), 0), text + "(a, b)[0]")


def test_names_of_dialects_are_avoided() -> None:
    r, t = variables("R", "T")
    text = """
x = T.int64()
R_1: R.Tensor((1, x, 3), dtype="float32")
T_1: R.Tensor((1, x, 3), dtype="float32") = R.sin(R_1)
"""
    check(rx.VarBinding(t, call("sin", r)), text)


# ---------------------------------------------------------------------- calls


def test_call_tir() -> None:
    (a,) = variables("a")
    x = a.struct_info.shape.values[1]
    head = 'x = T.int64()\na: R.Tensor((1, x, 3), dtype="float32")\n'
    args = [GlobalVar("tir_func"), rx.Tuple([a]), rx.ShapeExpr([x])]
    node = rx.Call(register_op("relax.call_tir"), args, None, [a.struct_info])
    text = 'R.call_tir(tir_func, (a,), out_sinfo=R.Tensor((1, x, 3), dtype="float32"), tir_vars=R.shape([x]))'
    check(node, head + text)
    dps = register_op("relax.call_dps_packed")
    node = rx.Call(dps, [rx.ExternFunc("f"), rx.Tuple([a])], None, [a.struct_info])
    check(
        node, head + 'R.call_dps_packed("f", (a,), out_sinfo=R.Tensor((1, x, 3), dtype="float32"))'
    )


def test_call_tir_with_grad_and_inplace() -> None:
    v = rx.Var("v0", tensor(54, 96))
    x = Var("x", "int64")
    attrs = Attrs(
        "relax.call_tir_with_grad", {"te_grad_name": "g", "te_grad_kwargs": {"k": 1.0, "x": x}}
    )
    callee = GlobalVar("tir_func")
    node = rx.Call(
        register_op("relax.call_tir_with_grad"), [callee, rx.Tuple([v])], attrs, [tensor(54, 96)]
    )
    head = 'v0: R.Tensor((54, 96), dtype="float32")\nx = T.int64()\n'
    text = (
        'R.call_tir_with_grad(tir_func, (v0,), out_sinfo=R.Tensor((54, 96), dtype="float32"), '
        'te_grad_name="g", te_grad_kwargs={"k": 1.0, "x": x})'
    )
    check(node, head + text)
    attrs = Attrs("relax.call_tir_inplace", {"inplace_indices": [-1, 0]})
    out = si.TupleStructInfo([tensor(2), tensor(3)])
    args = [callee, rx.Tuple([v]), rx.ShapeExpr([x])]
    node = rx.Call(register_op("relax.call_tir_inplace"), args, attrs, [out])
    text = (
        'R.call_tir_inplace(tir_func, (v0,), out_sinfo=[R.Tensor((2,), dtype="float32"), '
        'R.Tensor((3,), dtype="float32")], inplace_indices=[-1, 0], tir_vars=R.shape([x]))'
    )
    check(node, head + text)


def test_attributes_and_hooks() -> None:
    (a,) = variables("a")
    attrs = {"axes": None, "eps": 1e-5, "out_dtype": "void", "list": [1, (2, -1)], "flag": True}
    text = 'R.nn.thing(a, axes=None, eps=1.0000000000000001e-05, out_dtype="void", list=[1, [2, -1]], flag=True)'
    assert str(call("nn.thing", a, **attrs)) == text
    register_op("relax.test_hooked").set_attr(
        "FPrinter", lambda node, p: f"H({p.expr(node.args[0])})"
    )
    assert str(call("test_hooked", a)) == "H(a)"
    register_op("relax.test_renamed").set_attr("printer_name", "relax.better.name")
    assert str(call("test_renamed", a)) == "R.better.name(a)"
    assert str(rx.Call(register_op("custom_op.f"), [a])) == "custom_op.f(a)"


def test_print_and_assert() -> None:
    (a,) = variables("a")
    assert str(call("print", rx.StringImm("x: {}"), a)) == 'R.print(a, format=R.str("x: {}"))'
    node = call("assert_op", rx.const(False), rx.StringImm("x"), a)
    assert str(node) == 'R.assert_op(R.const(False, "bool"), a, format=R.str("x"))'


def test_packed_calls() -> None:
    (a,) = variables("a")
    node = rx.Call(rx.ExternFunc("bar"), [a], None, [si.TensorStructInfo(dtype="")])
    assert str(node) == 'R.call_packed("bar", a, sinfo_args=(R.Tensor,))'
    node = rx.Call(
        register_op("relax.call_pure_packed"),
        [rx.ExternFunc("f"), a, rx.PrimValue(1)],
        None,
        [tensor(2)],
    )
    assert str(node) == (
        'R.call_pure_packed("f", a, R.prim_value(1), sinfo_args=(R.Tensor((2,), dtype="float32"),))'
    )


# ---------------------------------------------------------------------- bindings and blocks


def test_blocks() -> None:
    a, c = variables("a", "c")
    b = rx.DataflowVar("b", a.struct_info)
    c._update_struct_info(a.struct_info)
    bindings = [rx.VarBinding(b, call("sin", a)), rx.VarBinding(c, call("sin", b))]
    head = 'x = T.int64()\na: R.Tensor((1, x, 3), dtype="float32")\n'
    flow = """with R.dataflow():
    b: R.Tensor((1, x, 3), dtype="float32") = R.sin(a)
    c: R.Tensor((1, x, 3), dtype="float32") = R.sin(b)
    R.output(c)"""
    check(rx.DataflowBlock(bindings), head + flow)
    check(rx.SeqExpr([rx.DataflowBlock(bindings)], c), head + flow + "\nc")
    plain = """b: R.Tensor((1, x, 3), dtype="float32") = R.sin(a)
c: R.Tensor((1, x, 3), dtype="float32") = R.sin(b)"""
    check(rx.BindingBlock(bindings), head + plain)


def test_match_cast() -> None:
    (a,) = variables("a")
    b = rx.Var("b", tensor(1, 5, 3))
    head = 'x = T.int64()\na: R.Tensor((1, x, 3), dtype="float32")\n'
    node = rx.MatchCast(b, a, b.struct_info)
    text = 'R.match_cast(a, R.Tensor((1, 5, 3), dtype="float32"))'
    check(node, f'{head}b: R.Tensor((1, 5, 3), dtype="float32") = {text}')
    check(node, f"{head}b = {text}", show_all_struct_info=False)


def test_if() -> None:
    cond = rx.Var("a", tensor(dtype="bool"))
    b, c = rx.Var("b", tensor(1, 2)), rx.Var("c", tensor(1, 2))
    text = """
a: R.Tensor((), dtype="bool")
if a:
    b: R.Tensor((1, 2), dtype="float32")
    b
else:
    c: R.Tensor((1, 2), dtype="float32")
    c
"""
    check(rx.If(cond, rx.SeqExpr([], b), rx.SeqExpr([], c)), text)


def test_if_in_a_function() -> None:
    cond, x = rx.Var("cond", tensor(dtype="bool")), rx.Var("x", tensor(2))
    w, y = rx.Var("w", tensor(2)), rx.Var("y", tensor(2))
    true = rx.SeqExpr([rx.BindingBlock([rx.VarBinding(w, call("add", x, x))])], call("exp", w))
    false = rx.SeqExpr([], call("sin", x))
    body = rx.SeqExpr([rx.BindingBlock([rx.VarBinding(y, rx.If(cond, true, false))])], y)
    text = """
# from loopwright.script import relax as R

@R.function(private=True)
def main(cond: R.Tensor((), dtype="bool"), x: R.Tensor((2,), dtype="float32")) -> R.Tensor((2,), dtype="float32"):
    if cond:
        w: R.Tensor((2,), dtype="float32") = R.add(x, x)
        y: R.Tensor((2,), dtype="float32") = R.exp(w)
    else:
        y: R.Tensor((2,), dtype="float32") = R.sin(x)
    return y
"""
    check(rx.Function([cond, x], body, tensor(2)), text)


def _function(*bindings: rx.VarBinding, params: list[rx.Var], result: Any, **options: Any) -> Any:
    body = rx.SeqExpr([rx.BindingBlock(bindings)], result)
    return rx.Function(params, body, result.struct_info, **options)


def test_void_bindings() -> None:
    x = rx.Var("x", tensor(dtype="int32"))
    void = rx.Var("_", si.TupleStructInfo([]))
    node = call("print", rx.StringImm("hi"))
    node._update_struct_info(si.TupleStructInfo([]))
    func = _function(rx.VarBinding(void, node), params=[x], result=x, is_pure=False)
    assert func.script().splitlines()[4:] == ['    R.print(format=R.str("hi"))', "    return x"]
    func = _function(rx.VarBinding(void, node), params=[x], result=void, is_pure=False)
    assert func.script().splitlines()[4:] == [
        '    _: R.Tuple = R.print(format=R.str("hi"))',
        "    return _",
    ]


def test_tuples() -> None:
    x = rx.Var("x", tensor(2))
    one, two = rx.Tuple([x]), rx.Tuple([x, x])
    bindings = [
        rx.VarBinding(rx.Var("a", one.struct_info), one),
        rx.VarBinding(rx.Var("b", two.struct_info), two),
    ]
    lines = _function(*bindings, params=[x], result=two).script().splitlines()
    assert lines[4].endswith(" = (x,)")
    assert lines[5].endswith(" = x, x")
    assert lines[6] == "    return (x, x)"


def test_inferable_annotations_are_hidden() -> None:
    a, b = rx.Var("A", tensor(10, 20)), rx.Var("B", si.TensorStructInfo(ndim=2))
    loose = call("add", a, b)
    loose._update_struct_info(b.struct_info)
    c, d, e = (rx.Var(n, a.struct_info) for n in "CDE")
    bindings = [
        rx.VarBinding(c, call("add", a, a)),
        rx.VarBinding(d, c),
        rx.VarBinding(e, loose),
    ]
    text = _function(*bindings, params=[a, b], result=e).script(show_all_struct_info=False)
    assert text.splitlines()[4:] == [
        "    C = R.add(A, A)",
        "    D = C",
        '    E: R.Tensor((10, 20), dtype="float32") = R.add(A, B)',
        "    return E",
    ]


# ---------------------------------------------------------------------- functions and modules


def test_symbolic_signature() -> None:
    n, m = Var("n", "int64"), Var("m", "int64")
    x = rx.Var("x", tensor(n * 2, 3))
    s = rx.Var("s", si.ShapeStructInfo([n, m]))
    p = rx.Var("p", si.PrimStructInfo(value=m))
    func = rx.Function([x, s, p], x, x.struct_info, attrs={"global_symbol": "f", "k": 1})
    text = """
# from loopwright.script import tir as T
# from loopwright.script import relax as R

@R.function
def f(x: R.Tensor(("n * 2", 3), dtype="float32"), s: R.Shape(["n", "m"]), p: R.Prim(value="m")) -> R.Tensor(("n * 2", 3), dtype="float32"):
    n = T.int64()
    m = T.int64()
    R.func_attr({"k": 1})
    return x
"""
    check(func, text)


def test_order_of_functions() -> None:
    def make(name: str) -> rx.Function:
        x = rx.Var("x", tensor(2))
        return rx.Function([x], x, tensor(2), attrs={"global_symbol": name})

    functions = {n: make(n) for n in ("main", "zeta", "alpha")}
    mod = IRModule({**functions, "ext": rx.ExternFunc("sym")})
    text = mod.script()
    places = [
        text.index(t) for t in ('ext = R.ExternFunc("sym")', "def alpha", "def zeta", "def main")
    ]
    assert places == sorted(places)
    renamed = IRModule({"other": make("main")}).script()
    assert 'R.func_attr({"global_symbol": "main"})' in renamed


MODULES = {
    "calls": """
# from loopwright.script import ir as I
# from loopwright.script import tir as T
# from loopwright.script import relax as R

@I.ir_module
class Module:
    @T.prim_func(private=True)
    def sub(A: T.Buffer((T.int64(4),), "float32"), B: T.Buffer((T.int64(4),), "float32")):
        B[0] = A[0]

    @R.function
    def main(x: R.Tensor((4, "n"), dtype="float32"), y: R.Tensor(dtype="float32"), t: R.Tuple(R.Tensor, R.Object), f: R.Callable((R.Object,), R.Object, True)) -> R.Tensor((4,), dtype="float32"):
        n = T.int64()
        cls = Module
        q = T.int64()
        with R.dataflow():
            e = R.call_tir(cls.sub, (x,), out_sinfo=R.Tensor((4,), dtype="float32"))
            w: R.Tensor((q, q + 1), dtype="float32") = R.match_cast(y, R.Tensor((q, q + 1), dtype="float32"))
            k: R.Tensor = t[0]
            e3: R.Tensor((4, n), dtype="float32") = R.call_tir_inplace(cls.sub, (x,), out_sinfo=R.Tensor((4, n), dtype="float32"), inplace_indices=[0])
            e4 = R.call_tir(cls.sub, R.tuple(), out_sinfo=[R.Tensor((4,), dtype="float32"), R.Tensor((n,), dtype="int32")], tir_vars=R.shape([n, q]))
            R.output(e, k)
        return e
""",
    "nested": f"""
# from loopwright.script import ir as I
# from loopwright.script import relax as R

@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((), dtype="int32")) -> R.Tensor((), dtype="int32"):
        # from loopwright.script import relax as R
{" " * 8}
        @R.function
        def nested(y: R.Tensor((), dtype="int32")) -> R.Tensor((), dtype="int32"):
            return y

        z: R.Tensor((), dtype="int32") = nested(x)
        return z
""",
    "devices": """
# from loopwright.script import ir as I
# from loopwright.script import tir as T
# from loopwright.script import relax as R

@I.ir_module
class Module:
    I.module_attrs({"attr": 10})
    I.module_global_infos({"vdevice": [I.vdevice({"keys": ["cpu"], "kind": "llvm", "tag": ""}, 0, "global"), I.vdevice({"keys": ["cpu"], "kind": "llvm", "tag": ""}, 1, "shared")]})
    my_ext = R.ExternFunc("my_ext")
    @R.function
    def f(x: R.Tensor((4, "n"), dtype="float32", vdevice="llvm:1")) -> R.Tensor((4, "n"), dtype="float32", vdevice="llvm:1"):
        n = T.int64()
        return x
""",
    "bound_extern": """
# from loopwright.script import relax as R

@R.function
def func(x: R.Tensor((128, 128), dtype="float32")) -> R.Tensor((128, 128), dtype="float32"):
    extern_func: R.Callable = R.ExternFunc("extern_func")
    y = R.call_dps_packed(extern_func, (x,), out_sinfo=R.Tensor((128, 128), dtype="float32"))
    z = R.call_dps_packed("other", (y,), out_sinfo=R.Tensor((128, 128), dtype="float32"))
    return z
""",
}


@pytest.mark.parametrize("name", MODULES)
def test_parsed_text_prints_the_same(name: str) -> None:
    text = MODULES[name].strip("\n")
    assert from_source(text, check_well_formed=False).script() == text


def test_module_alias() -> None:
    mod = from_source(MODULES["calls"].strip("\n"), check_well_formed=False)
    text = mod.script(module_alias="")
    assert "cls" not in text and "R.call_tir(Module.sub, (x,)" in text
    assert "class Other:" in mod.script(name="Other") and "cls = Other" in mod.script(name="Other")


def test_vdevice_alone() -> None:
    text = 'I.vdevice({"keys": ["cpu"], "kind": "llvm", "tag": ""}, 0, "global")'
    assert str(VDevice("llvm")) == text


def test_types_are_printed_as_the_struct_infos_that_they_come_from():
    shape, anything = types.ShapeType(3), types.ObjectType()
    assert types.TensorType().script() == 'R.Tensor(ndim=-1, dtype="float32")'
    assert types.PackedFuncType().script() == "R.PackedFunc"
    assert types.TupleType([shape, anything]).script() == "R.Tuple(R.Shape(ndim=3), R.Object)"
    expected = "R.Callable((R.Object,), R.Shape(ndim=3))"
    assert types.FuncType([anything], shape).script() == expected
