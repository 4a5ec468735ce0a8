"""Relay's texts: printed, parsed back the same, and refused with a place where they are wrong."""

from __future__ import annotations

import inspect
import itertools
import random
from typing import Any

import numpy as np
import pytest

import loopwright as lw
from loopwright import relay
from loopwright.base.errors import DiagnosticError
from loopwright.ir import GlobalVar, assert_structural_equal
from loopwright.ir.expr import Attrs
from loopwright.ir.prim_expr import FloatImm, IntImm, SizeVar
from loopwright.relay import literals, meta, stackless, walk
from loopwright.relay.operators import ROWS, Row
from loopwright.relay.operators.core import REQUIRED
from loopwright.script import tir as T

VERSION = '#[version = "0.0.5"]\n'
lw.ir.datatype.register("texttype", 170)


def again(expr: Any) -> str:
    """The text of an expression, that reads back the same."""
    text = expr.astext()
    read = relay.parse_expr(text)
    assert_structural_equal(read, expr, map_free_vars=True)
    assert read.astext() == text
    return text.removeprefix(VERSION)


def module_again(mod: lw.IRModule) -> str:
    """The text of a module, which reads back the same when its types are known."""
    mod = relay.transform.InferType()(mod)
    text = mod.astext()
    read = relay.parse(text)
    assert_structural_equal(read, mod)
    assert read.astext() == text
    return text.removeprefix(VERSION)


def typed(*params: relay.Var, body: Any, **attrs: Any) -> str:
    return module_again(lw.IRModule({"main": relay.Function(params, body, attrs=attrs)}))


# ---------------------------------------------------------------------- what is printed


def test_a_module() -> None:
    x, w = relay.var("x", shape=(1, 3)), relay.var("w", shape=(10, 3))
    dense = relay.nn.dense(x, w, units=10)
    assert (
        typed(x, w, body=relay.nn.relu(dense) + dense, Primitive=1)
        == """\
def @main(%x: Tensor[(1, 3), float32] /* ty=Tensor[(1, 3), float32] */, \
%w: Tensor[(10, 3), float32] /* ty=Tensor[(10, 3), float32] */, Primitive=1) \
-> Tensor[(1, 10), float32] {
  %0 = nn.dense(%x, %w, units=10) /* ty=Tensor[(1, 10), float32] */;
  %1 = nn.relu(%0) /* ty=Tensor[(1, 10), float32] */;
  add(%1, %0) /* ty=Tensor[(1, 10), float32] */
}
"""
    )


def test_let_if_and_functions() -> None:
    x, y, c = relay.var("x", "float32"), relay.var("y", "float32"), relay.var("c", "bool")
    v = relay.var("v")
    v2 = relay.var("v")
    twice = relay.Let(v2, y, v2)
    body = relay.If(c, relay.Let(v, x + x, v), twice + twice)
    assert (
        again(relay.Function([x, y, c], body, relay.scalar_type("float32")))
        == """\
fn (%x: float32, %y: float32, %c: bool) -> float32 {
  if (%c) {
    let %v = add(%x, %x);
    %v
  } else {
    %0 = (
      let %v1 = %y;
      %v1
    );
    add(%0, %0)
  }
}"""
    )


def test_arguments_stand_before_the_function() -> None:
    x, y = relay.var("x"), relay.var("y")
    inner = relay.Call(relay.Function([y], y), [relay.const(1)])
    text = again(relay.Call(relay.Function([x], x), [inner]))
    assert [line.split(" = ")[0] for line in text.splitlines() if line[0] == "%"] == [
        "%0", "%1", "%2", "%2(%1)",
    ]  # fmt: skip


def test_a_value_of_one_use_stands_in_its_place() -> None:
    pair, x = relay.Tuple([relay.const(0), relay.const(0)]), relay.var("x")
    assert again(relay.Let(x, pair, pair)) == "%0 = (0, 0);\nlet %x = %0;\n%0"
    assert again(relay.Let(x, pair, x)) == "let %x = (0, 0);\n%x"


def test_free_variables_and_names() -> None:
    names = ["x", "x", "1", "a/b", "layer1.0.weight", "", 'a "quoted" name', "ü", "let", "x1"]
    variables = [relay.var(name, shape=(2,)) for name in names]
    text = again(relay.Tuple(variables))
    assert 'free_var %"layer1.0.weight": Tensor[(2), float32];' in text
    assert "%v1:" in text and "%x1:" in text and "%x11:" in text
    read = relay.parse_expr(text)
    assert [v.name_hint for v in read.fields][3:7] == ["a/b", "layer1.0.weight", "v", names[6]]


def test_a_name_on_two_levels() -> None:
    f, x, y = relay.var("f"), relay.var("x"), relay.var("x")
    again(relay.Let(f, relay.Function([y], relay.Call(f, [y])), relay.Call(f, [x])))


def test_types() -> None:
    a = relay.TypeVar("A")
    n = relay.Any()
    texts = {
        "Tensor[(2, 3), float32]": relay.TensorType((2, 3)),
        "Tensor[(?), int8x4]": relay.TensorType((n,), "int8x4"),
        "bool": relay.TensorType((), "bool"),
        "()": relay.TupleType([]),
        "(float32,)": relay.TupleType([relay.TensorType(())]),
        "fn (int32) -> (int32, int32)": relay.FuncType(
            [relay.TensorType((), "int32")], relay.TupleType([relay.TensorType((), "int32")] * 2)
        ),
        "fn [A](A) -> A": relay.FuncType([a], a, [a]),
    }
    for text, kind in texts.items():
        assert str(kind) == repr(kind) == text
        assert kind.astext() == VERSION + text
        again(relay.Let(relay.var("v", kind), relay.Tuple([]), relay.Tuple([])))


def test_generic_functions() -> None:
    a, b = relay.TypeVar("A"), relay.TypeVar("A")
    shape = relay.TypeVar("S", relay.TypeKind.ShapeVar)
    x, y = relay.Var("x", a), relay.Var("y", b)
    inner = relay.Function([y], relay.Tuple([x, y]), None, [b])
    text = again(relay.Function([x], inner, None, [a, shape]))
    assert text.startswith("fn [A, S: Shape](%x: A) {\n  fn [A1](%y: A1)")


SCALARS = [
    (True, "bool", "True"), (-42, "int16", "-42i16"), (42, "int32", "42"),
    (2**31, "int64", "2147483648i64"), (3, "float16", "3f16"), (1e11, "float32", "1e+11f"),
    (0.1, "float32", "0.1f"), (0.1, "float64", "0.1f64"), (-np.inf, "float32", "-inff"),
    (np.inf, "float64", "inff64"), (-0.0, "float32", "-0f"), (1 / 3, "float32", "0.33333334f"),
]  # fmt: skip


@pytest.mark.parametrize(("value", "dtype", "text"), SCALARS)
def test_scalars(value: Any, dtype: str, text: str) -> None:
    assert again(relay.const(value, dtype)) == text
    assert str(np.array(literals.number(text)[0]) if dtype != "bool" else value) == str(
        np.array(value, "float64" if "float" in dtype else dtype)
    ) or dtype in ("float32", "float64", "float16")


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int16", "int32", "int64"])
def test_any_scalar_reads_back_as_its_bits(dtype: str) -> None:
    raw = np.random.default_rng(1).integers(0, 2**63, 300).view("uint8")
    for value in raw.view(dtype)[:300]:
        text = literals.scalar_text(value, dtype)
        if text is not None:
            number, kind = literals.number(text)
            assert (kind, np.array(number, dtype).tobytes()) == (dtype, value.tobytes()), text
        else:
            assert np.isnan(value)


# ---------------------------------------------------------------------- metadata


@pytest.mark.parametrize(
    "dtype", ["bool", "int8", "uint8", "int64", "float16", "float32", "float64", "bfloat16"]
)
def test_constants_are_metadata(dtype: str) -> None:
    array = np.arange(6).reshape(1, 3, 2).astype(lw.ir.dtype.numpy_dtype(dtype))
    constant = relay.const(array, dtype)
    text = again(relay.Tuple([constant, relay.const(array[:0]), constant]))
    assert text.startswith("(meta[relay.Constant][0], meta[relay.Constant][1], meta[relay.Const")
    assert relay.parse_expr(text).fields[0].data.dtype == dtype


@pytest.mark.parametrize(
    "given",
    [
        lw.runtime.tensor(2.5),
        lw.runtime.tensor(np.float32([[0, 1], [2, 3]]).T),
        lw.runtime.tensor([1, -2, 3], dtype="int4"),
        lw.runtime.tensor([[True, False]]),
    ],
)
def test_tensors_as_text(given: lw.runtime.Tensor) -> None:
    read = meta.read_tensor(meta.tensor_text(given))
    assert (read.dtype, read.shape) == (given.dtype, given.shape)
    np.testing.assert_array_equal(read.numpy(), given.numpy())


def test_extents_are_metadata() -> None:
    n = SizeVar("n", "int32")
    x, y = relay.var("x", shape=(n, 3)), relay.var("y", shape=(n, 3))
    text = again(relay.Function([x, y], x + y))
    assert text.count("meta[tir.SizeVar][0]") == 2 and '"type_key": "tir.SizeVar"' in text
    assert "type_key" not in str(x + y)
    again(relay.var("z", shape=(n * 2 + 1, n)))


def test_text_of_tvm_0_18() -> None:
    """JSON as TVM writes it: nodes before those they refer to, fields that are not kept here."""
    tensor = "P6G0lvBAXt0AAAAAAAAAAAEAAAAAAAAAAQAAAAIgAQACAAAAAAAAAAgAAAAAAAAAAACAPwAAAEA="
    nodes = """
    {"type_key": ""}, {"type_key": "Map", "keys": ["relay.Constant"], "data": [2]},
    {"type_key": "Array", "data": [3]}, {"type_key": "relay.Constant", "attrs": {
    "_checked_type_": "0", "data": "0", "span": "0", "virtual_device_": "0"}}"""
    text = f"""{VERSION}def @main(%x: Tensor[(2), float32]) {{ %x + meta[relay.Constant][0] }}
    #[metadata]
    {{"root": 1, "nodes": [{nodes}], "b64ndarrays": ["{tensor}"], "attrs": {{}}}}"""
    constant = relay.parse(text)["main"].body.args[1]
    assert constant.data.numpy().tolist() == [1.0, 2.0] and constant.data.dtype == "float32"


def test_given_metadata_are_behind_those_of_the_text() -> None:
    own, more = relay.const(np.arange(2)), relay.const(np.arange(3))
    text = again(own).replace("meta[relay.Constant][0]", "meta[relay.Constant][1]")
    head, _, section = text.partition("\n#[metadata]")
    text = f"{VERSION}def @main() {{ {head} }}\n#[metadata]{section}"
    mod = relay.parse(text, "given", None, {"relay.Constant": [more]})
    assert mod["main"].body is more


def test_a_kernel_beside_functions_of_relay() -> None:
    @T.prim_func
    def kernel(a: T.Buffer((4,), "float32")) -> None:  # pyright: ignore[reportInvalidTypeForm]
        for i in range(4):
            a[i] = a[i] * T.float32(2)

    x = relay.var("x", shape=(2,))
    text = module_again(lw.IRModule({"kernel": kernel, "main": relay.Function([x], x)}))
    assert "for i in range(4)" in text and "def @kernel = meta[tir.PrimFunc][0]" in text


# ---------------------------------------------------------------------- attributes


def test_values_of_attributes() -> None:
    values = {
        "none": None, "yes": True, "three": 3, "big": 2**40, "half": 0.5, "tiny": 1e-300,
        "low": float("-inf"), "text": 'a "b"\n\\', "list": (1, (2, "x"), ()), "wide": IntImm("int64", 1),
        "double": FloatImm("float64", 0.1), "g": GlobalVar("f"), "a.b": 1, "odd name": {"k": (1, 2.5)},
        "array": relay.const(np.arange(2)),
    }  # fmt: skip
    func = relay.Function([], relay.Tuple([]), attrs=values)
    text = again(func)
    assert "half=0.5f" in text and "a.b=1" in text and '"odd name"=meta[Map][0]' in text
    read = relay.parse_expr(text).attrs
    assert read["tiny"] == 1e-300 and read["list"] == (1, (2, "x"), ()) and read["low"] < 0
    assert read["odd name"] == {"k": (1, 2.5)} and read["wide"].dtype == "int64"


def test_attributes_that_are_left_out() -> None:
    func = relay.fromtext(
        '#[version = "0.0.5"]\ndef @main(%x: Tensor[(2), int32]) { concatenate((%x, %x)) }'
    )
    assert func["main"].body.attrs.axis == 0


def test_attributes_of_a_call_of_a_function() -> None:
    x, y = relay.var("x"), relay.var("y")
    call = relay.Call(relay.Function([x], x), [y], Attrs("attrs.Mine", {"name": "n"}))
    assert again(call).endswith('%0(%y, name="n", attrs_type_key="attrs.Mine")')


# What a required attribute of an operator may be.
_EXAMPLES = (1, 0.5, "text", (1, 2), True)


@pytest.mark.parametrize("row", list(ROWS.values()), ids=lambda row: row.name)
def test_every_operator(row: Row) -> None:
    """A call with other values than by default, and one with as many defaults as there are."""
    rng = random.Random(row.name)
    args = [
        relay.Tuple([relay.var(n), relay.var("o")]) if kind.startswith("Inputs") else relay.var(n)
        for n, kind in row.inputs.items()
    ]
    for own in (True, False):
        values = {}
        for name in row.attr_names:
            default = row.defaults.get(name, REQUIRED)
            new = own or default is REQUIRED
            values[name] = rng.choice(_EXAMPLES) if new else default
            values[name] = tuple(values[name]) if isinstance(values[name], list) else values[name]
        attrs = Attrs(row.attrs_key, values) if values else None
        text = again(relay.Call(row.op, args, attrs))
        shown = text.rpartition(f"{row.name}(")[2]
        assert [n for n in row.attr_names if f"{n}=" not in shown] == [
            n for n in row.attr_names if str(values[n]) == str(row.defaults.get(n))
        ] or own
        assert inspect.signature(row.builder) == row.signature


# ---------------------------------------------------------------------- what is parsed


def test_names_of_operators_and_functions_have_texts() -> None:
    for text in ("@foo", "add", "nn.dense", '@"odd name"'):
        assert relay.parse_expr(text).astext() == VERSION + text


def test_what_is_left_out_says_so() -> None:
    with pytest.raises(
        AttributeError, match="left out of Loopwright: .*algebraic data types.*\n.*TypeData"
    ):
        _ = relay.op.TypeData


def test_long_chains_are_compared_in_linear_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """A path is put together only for an error."""
    put_together = []
    text = walk._Path.__str__
    monkeypatch.setattr(walk._Path, "__str__", lambda p: put_together.append(p) or text(p))
    x, one = relay.var("x"), relay.const(1.0)
    value: Any = x
    for _ in range(20_000):
        value = relay.nn.dense(value, one, units=1)
    other = relay.bind(value, {x: relay.var("y")})
    assert_structural_equal(value, other, map_free_vars=True)
    with pytest.raises(ValueError, match=r"at <root>(\.args\[0\]){20000}:"):
        assert_structural_equal(value, relay.bind(value, {x: one}), map_free_vars=True)
    assert len(put_together) <= 2


def test_operators_between_operands() -> None:
    def same(a: str, b: str) -> None:
        assert_structural_equal(relay.parse_expr(a), relay.parse_expr(b))

    same("1 * 1 + 1 < 1 == 1", "equal(less(add(multiply(1, 1), 1), 1), 1)")
    same("1 == 1 < 1 + 1 * 1", "1 == (1 < (1 + (1 * 1)))")
    same("1 - 2 - 3", "subtract(subtract(1, 2), 3)")
    same("1-2", "subtract(1, 2)")
    same("2 >= 1 != True", "not_equal(greater_equal(2, 1), True)")
    same("1 - -2", "subtract(1, -2)")
    assert relay.parse_expr("--10").data.numpy() == 10
    levels = [("*", "/"), ("+", "-"), ("<", "<=", ">", ">="), ("==", "!=")]
    for row, first in enumerate(levels):
        for a in first:
            for b in (op for level in levels[row:] for op in level):
                same(f"1 {a} 2 {b} 3", f"(1 {a} 2) {b} 3")
            for b in (op for level in levels[:row] for op in level):
                same(f"1 {a} 2 {b} 3", f"1 {a} (2 {b} 3)")


def test_comments_and_blocks() -> None:
    text = "// a line\n/* a /* nested */ comment */ { let %x = 1; /**/ (%x,).0 } // end"
    assert again(relay.parse_expr(text)) == "let %x = 1;\n%0 = (%x,);\n%0.0"


@pytest.mark.parametrize(
    "text",
    [
        "fn (%x: _) { %x }",
        "fn (%x: Tensor[(2, 3), custom[texttype]32]) { %x }",
        "fn (%x: Tensor[(2, 3), float32]) { reshape(%x, newshape=[?, 3]) }",
    ],
)
def test_rare_forms(text: str) -> None:
    read = relay.parse_expr(VERSION + text)
    shown = again(read).replace("\n  ", " ").replace("\n}", " }").strip()
    assert shown == text.replace("%x: _", "%x")


def test_operators_as_text_and_places_of_numbers() -> None:
    named, called = (
        relay.parse_expr(f"{VERSION}fn (%x: Tensor[(2, 3), float32]) {{ {op}(%x) }}")
        for op in ('"exp"', "exp")
    )
    assert_structural_equal(named, called)
    total = relay.parse_expr(VERSION + "1f + 22f")
    assert [str(a.span) for a in total.args] == ["string:2:1", "string:2:6"]


def test_spans_are_places_in_the_text() -> None:
    source = f"{VERSION}def @main(%x: float32) {{\n  %0 = negative(%x);\n  abs(%0)\n}}\n"
    body = relay.parse(source, "model.rly")["main"].body
    assert str(body.span) == "model.rly:4:3" and str(body.args[0].span) == "model.rly:3:8"
    assert "span=" not in body.astext()
    assert relay.SpanCheck()(relay.parse(source)) is not None
    with pytest.raises(DiagnosticError, match="have no span"):
        relay.SpanCheck()(lw.IRModule.from_expr(relay.const(1) + relay.const(2)))


def test_annotate_spans() -> None:
    mod = lw.IRModule.from_expr(relay.abs(relay.var("x", shape=(2,))))
    new = relay.transform.AnnotateSpans()(mod)
    assert str(new["main"].body.span) == "GeneratedSource:3:3"
    assert_structural_equal(new, relay.transform.InferType()(mod))


def test_spans_from_elsewhere_are_comments() -> None:
    x = relay.var("x")
    call = relay.Call(relay.op.get("abs"), [x], span=relay.Span("onnx:/*/*/Abs_1"))
    text = call.astext()
    assert "abs(%x) /* span=onnx:/ * / * /Abs_1:0:0 */" in text
    assert_structural_equal(relay.parse_expr(text), call, map_free_vars=True)


def test_comments_of_the_caller() -> None:
    x = relay.var("x", shape=(2,))
    mod = relay.transform.InferType()(lw.IRModule.from_expr(relay.abs(x)))
    text = mod.astext(annotate=lambda e: str(e.checked_type.dtype) if e is mod["main"].body else "")
    assert "abs(%x) /* float32 */" in text and "ty=" not in text
    relay.parse(text)


def test_functions_that_are_there_before() -> None:
    first = relay.parse(f"{VERSION}def @f(%y: float32) -> float32 {{ negative(%y) }}")
    mod = relay.parse(f"{VERSION}def @main(%x: float32) {{ @f(@f(%x)) }}", "second", first)
    assert sorted(g.name_hint for g in mod.functions) == ["f", "main"]
    assert len(first.functions) == 1
    assert mod["main"].ret_type == relay.scalar_type("float32")


def test_virtual_devices_are_read() -> None:
    text = (
        "def @main(%x {virtual_device=meta[VirtualDevice][0]}: float32,"
        " virtual_device=meta[VirtualDevice][0]) { %x }"
    )
    mod = relay.parse(VERSION + text, "devices", None, {"VirtualDevice": [lw.cpu()]})
    assert not mod["main"].attrs


ERRORS = [
    ("nn.rel(%x)", "no operator of this name.*did you mean nn.relu", 1),
    ("let x = 1; ()", "expected a variable", 5),
    ("let @x = 1; ()", "expected a variable", 5),
    ("if (True) { let %x = (); () } else { %x }", "not defined here", 38),
    ("%1", "not defined above", 1),
    ("(1,).0f", "expected", 7),
    ("(1,).inff", "number of a field", 6),
    (f"(1,).{'9' * 5000}", "number of a field", 6),
    ("9" * 5000, "limit", 1),
    ("2147483648i32", "does not fit int32", 1),
    ("65505f16", "65505 does not fit float16", 1),
    ("3.40283e+38f32", "does not fit float32", 1),
    ("1.5", "ends in f", 1),
    ("meta[relay.Constant][0]", "the text has no metadata", 1),
    ("match (1) { _ => 1 }", "left out of Loopwright: .*algebraic data types.*instead", 1),
    ("ref(1)", "left out of Loopwright: .*references", 1),
    ("let %x: List[int32] = (); ()", "this is not a type", 9),
    ("let %x: Tensor[(-1), float32] = (); ()", "an extent is", 17),
    ("nn.softmax(1, axi=2)", "no attribute of this name.*did you mean axis", 15),
    ("abs(1", "expected `,`", 6),
    ("(1, 2", "expected `,`", 6),
    ("1 +", "expected an expression", 4),
    ("1 1", "end of the expression", 3),
    ("/* open", "does not end", 1),
    ('"open', "close the string", 1),
    ("fn [A: Kin](%x: A) { %x }", "this is not a kind", 8),
    ("abs(1).x", "the number of a field", 8),
    ("(fn (%x) { %x })(1, a=2)", "not known what attributes", 1),
    ("%\u00fc", "not a word", 1),
    ("#[metadata]\n[]", "the metadata are not JSON", 12),
]


@pytest.mark.parametrize(("text", "what", "column"), ERRORS)
def test_errors_have_a_place(text: str, what: str, column: int) -> None:
    if "softmax" in text and "nn.softmax" not in ROWS:
        text, column = "nn.dense(1, 2, unit=2)", 16
        what = what.replace("axis", "units")
    with pytest.raises(DiagnosticError, match="(?s)" + what) as raised:
        relay.parse_expr(text)
    span = raised.value.span
    assert span is not None and span.source == "string"
    line = text.splitlines()[span.line - 1] if span.line > 1 else text
    assert (span.column if span.line == 1 else column) == column, line


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("def @main() { () }", "expected the version"),
        ('#[version = "9.9"]\ndef @main() { () }', "version of the text format is not known"),
        (VERSION + "type List[A] { Nil }", "left out of Loopwright: .*algebraic data types"),
        (VERSION + "def @f() { () }\ndef @f() { () }", "defined before"),
        (VERSION + "def @f(%x: Tensor[(2), float32]) { nn.dense(%x, 1) }", "nn.dense"),
        (VERSION + "def @f() { @g() }", "no function of this name"),
    ],
)
def test_errors_of_modules(text: str, what: str) -> None:
    with pytest.raises(DiagnosticError, match=what):
        relay.parse(text)


def test_hostile_texts_give_errors() -> None:
    """Parts of a good text taken out, doubled and swapped: an error with a place, or a program."""
    x, w = relay.var("x", shape=(2, 3)), relay.var("w", shape=(4, 3))
    body = relay.If(relay.const(True), relay.nn.dense(x, w, units=4), relay.const(np.ones((2, 4))))
    kind = relay.FuncType([relay.scalar_type("float32")], relay.TupleType([]))
    bound = relay.Let(relay.var("v", kind), relay.Function([], body, attrs={"k": (1, 0.5)}), x)
    good = relay.Function([x, w], bound).astext()
    rng = random.Random(7)
    words = [good[i : i + 3] for i in range(0, len(good), 3)]
    read = 0
    for _ in range(600):
        mixed = list(words)
        for _ in range(rng.randint(1, 3)):
            i, j = rng.randrange(len(mixed)), rng.randrange(len(mixed))
            change = rng.randrange(3)
            mixed[i] = "" if change == 0 else mixed[i] * 2 if change == 1 else mixed[j]
        try:
            relay.parse_expr("".join(mixed))
            read += 1
        except DiagnosticError as error:
            assert error.span is not None
    assert read < 600


@pytest.mark.parametrize(
    "text", ["(" * 5_000, "fn () {" * 5_000, "if (" * 5_000, "abs(" * 5_000, "[" * 5_000]
)
def test_deep_nesting_is_no_crash(text: str) -> None:
    with pytest.raises(DiagnosticError):
        relay.parse_expr(text)
    with pytest.raises(DiagnosticError):
        relay.parse_expr(f"let %x: {text}")


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"root": 1}', '{"root": 1, "nodes": [{}, {"type_key": "Array"}]}',
             '{"root": 1, "nodes": [{}, {"type_key": "Array", "data": [1]}]}', "[" * 100_000,
             '{"root": 1, "nodes": [0, {"type_key": "Map", "keys": ["a"], "data": []}]}']
)  # fmt: skip
def test_hostile_metadata(text: str) -> None:
    with pytest.raises(ValueError, match="not JSON as astext writes it"):
        meta.read(text)


# ---------------------------------------------------------------------- any graph, any length


def random_graph(rng: random.Random, size: int) -> relay.Function:
    """A function over scalars with shared values, tuples, branches, bindings and closures."""
    params = [relay.var(f"p{i}", "float32") for i in range(3)]

    def grow(values: list[Any], size: int) -> Any:
        values = list(values)
        for _ in range(size):
            a, b, c = (rng.choice(values) for _ in range(3))
            made: list[Any] = [
                a + b,
                relay.negative(a),
                relay.TupleGetItem(relay.Tuple([a, b, c]), rng.randrange(3)),
                relay.const(rng.random(), "float32"),
                relay.maximum(a, relay.const(rng.randrange(9), "float32")),
            ]
            if rng.random() < 0.2:
                small = rng.randrange(3)
                made = [relay.If(relay.less(a, b), grow(values, small), grow(values, small))]
            elif rng.random() < 0.2:
                v = relay.var(rng.choice("vw"), rng.choice([None, "float32"]))
                made = [relay.Let(v, a, grow([*values, v], 2))]
            elif rng.random() < 0.1:
                v = relay.var("q", "float32")
                made = [relay.Call(relay.Function([v], grow([v, a], 2)), [b])]
            values.append(rng.choice(made))
        return values[-1]

    return relay.Function(params, grow(params, size))


@pytest.mark.parametrize("seed", range(40))
def test_random_graphs(seed: int) -> None:
    func = random_graph(random.Random(seed), 5 + seed)
    again(func)
    module_again(lw.IRModule({"main": func}))


def chain(kind: str, length: int) -> Any:
    """`length` calls after one another: of lines, or of bindings."""
    x = relay.var("x", shape=(2,))
    value: Any = x
    if kind == "lines":
        for _ in range(length):
            value = relay.Call(relay.op.get("abs"), [value])
        return relay.Function([x], value)
    variables = [x, *(relay.var("v") for _ in range(length))]
    value = variables[-1]
    for i in range(length, 0, -1):
        call = relay.Call(relay.op.get("abs"), [variables[i - 1]])
        value = relay.Let(variables[i], call, value)
    return relay.Function([x], value)


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Counts the steps of each text that is printed or parsed, of which there is one list."""
    counts: list[int] = []

    def run(step: Any) -> Any:
        count = 0

        def counted(step: Any) -> Any:
            nonlocal count
            value = None
            while True:
                count += 1
                try:
                    below = step.send(value)
                except StopIteration as done:
                    return done.value
                value = yield counted(below)

        result = stackless.run(counted(step))
        counts.append(count)
        return result

    monkeypatch.setattr(relay.text, "run", run)
    monkeypatch.setattr(relay.parser, "run", run)
    return counts


@pytest.mark.parametrize(
    ("kind", "lengths"), [("lines", (4_000, 8_000, 16_000)), ("bindings", (1_000, 2_000, 4_000))]
)
def test_a_long_chain_takes_linear_work(
    kind: str, lengths: tuple[int, ...], steps: list[int]
) -> None:
    for length in lengths:
        text = chain(kind, length).astext()
        assert relay.parse_expr(text).astext() == text and text.count("abs(") == length
    for before, after in itertools.pairwise(zip(*[iter(steps)] * 3, strict=True)):
        assert all(b <= 2 * a for a, b in zip(before, after, strict=True))
    assert max(steps) < 25 * lengths[-1]
