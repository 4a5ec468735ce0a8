"""Text of TensorIR: what is parsed from a text prints as that text; free-standing nodes, options."""

from __future__ import annotations

import re

import pytest

from loopwright import relax
from loopwright.base.errors import LoopwrightError
from loopwright.ir import prim_expr as pe
from loopwright.ir.dtype import DataType
from loopwright.ir.module import IRModule
from loopwright.ir.object_path import ObjectPath
from loopwright.ir.prim_op import const
from loopwright.script import from_source, printer
from loopwright.script.parser.frames import pointer_type
from loopwright.script.printer.doc import quote
from loopwright.tir import op
from loopwright.tir import stmt as ts
from loopwright.tir.buffer import BufferRegion, decl_buffer
from loopwright.tir.expr import BufferLoad, CommReducer, Reduce
from loopwright.tir.function import PrimFunc

HEADER = "# from loopwright.script import tir as T\n\n"

FUNCTIONS = {
    "handle_used_in_the_body": """
@T.prim_func
def main(a: T.handle, B: T.Buffer((256, 256), "float32")):
    A = T.match_buffer(a, (128, 128))
    T.evaluate(a)
""",
    "shared_data": """
@T.prim_func
def main(a: T.handle, b: T.handle):
    A = T.match_buffer(a, (128, 128))
    B = T.match_buffer(b, (256, 256), data=A.data)
    T.evaluate(0)
""",
    "remap": """
@T.prim_func
def main():
    # with T.block("root"):
    for i0, i1, i2, i3, i4, i5 in T.grid(128, 128, 128, 128, 128, 128):
        with T.block("update"):
            v0 = T.axis.spatial(128, i0 + 1)
            v1, v2 = T.axis.remap("SR", [i1, i2])
            v3 = T.axis.spatial(128, i3 - 1)
            v4, v5 = T.axis.remap("RS", [i4, i5])
            T.reads()
            T.writes()
            T.evaluate(0)
""",
    "root_block": """
@T.prim_func
def main():
    # with T.block("root"):
    a = T.alloc_buffer((128, 128))
    for i, j in T.grid(128, 128):
        with T.block(""):
            T.reads()
            T.writes()
            T.evaluate(0)
""",
    "return": """
@T.prim_func
def main():
    return 5
""",
    "vectors": """
@T.prim_func
def main(A: T.Buffer((16,), "float32"), B: T.Buffer((16,), "float32")):
    A[0:4] = T.call_llvm_pure_intrin("float32x4", "llvm.sqrt", B[0:4])
    A[0:8:2] = B[0:8:2] * T.Broadcast(T.float32(2.0), 4)
""",
    "statements": """
@T.prim_func(private=True)
def main(A: T.Buffer((128,), "float32"), n: T.int32) -> T.int32:
    T.func_attr({"a": [1, 2], "b": {"c": "d"}, "target": T.target({"keys": ["cpu"], "kind": "llvm", "tag": ""})})
    for i in T.parallel(n):
        for j in T.vectorized(4, annotations={"x": 1}):
            for k in T.unroll(2, 5):
                for bx in T.thread_binding(8, thread="blockIdx.x"):
                    for s in T.serial(n, annotations={"pragma_unroll_explicit": 1}):
                        for t in range(n - i):
                            if i < j and k < 2:
                                A[i] = A[j] + T.float32(1.0)
                            else:
                                if i < k:
                                    A[k] = T.float32(0.0)
    x: T.int32 = n + 1
    while x < 10:
        T.evaluate(x)
    assert x > 0, "bad"
    T.attr("pragma", "unroll", 1)
    B = T.decl_buffer((4,))
    C = T.allocate([16], "int32", "local")
    D = T.Buffer((16,), "int32", data=C, scope="local")
    D[0] = x
    T.call_extern("int32", "foo", A.data, C)
""",
    "symbolic_buffers": """
@T.prim_func
def main(a: T.handle, b: T.handle):
    n, m = T.int32(), T.int32()
    A = T.match_buffer(a, (n, m), "float16", strides=("s0", "s1"), elem_offset=8, scope="shared", align=128, offset_factor=16)
    B = T.match_buffer(b, (m,), offset_factor=1)
    for i in range(n):
        B[i] = T.Cast("float32", A[i, A.strides[0]]) + T.Cast("float32", B.elem_offset)
""",
    "match_buffer": """
@T.prim_func
def main(A: T.Buffer((128, 128), "float32")):
    with T.block("b"):
        T.reads(A[0:16, 0:16])
        T.writes()
        T.block_attr({"script_parsing_detect_access": 3})
        C = T.alloc_buffer((16,), scope="local")
        B = T.match_buffer(A[0:16, 0:16], (16, 16), strides=("s0", "s1"), offset_factor=1)
        T.evaluate(B.strides[0])
""",
    "thread_once": """
@T.prim_func
def main(A: T.Buffer((128,), "float32")):
    blockIdx_x = T.launch_thread("blockIdx.x", 128)
    A[blockIdx_x] = T.float32(1.0)
""",
    "thread_twice": """
@T.prim_func
def main(A: T.Buffer((128,), "float32")):
    threadIdx_x = T.env_thread("threadIdx.x")
    with T.launch_thread(threadIdx_x, 128):
        A[threadIdx_x] = T.float32(1.0)
    T.launch_thread(threadIdx_x, 128)
    A[threadIdx_x] = T.float32(1.0)
""",
    "kinds_of_axes": """
@T.prim_func
def main(A: T.Buffer((128,), "float32"), B: T.Buffer((), "float32")):
    # with T.block("root"):
    for i, j in T.grid(10, 13):
        with T.block("b"):
            vi = T.axis.spatial(128, i * 13 + j)
            vk = T.axis.reduce((2, 5), j)
            vs = T.axis.scan(13, j)
            vo = T.axis.opaque(13, j)
            T.where(i * 13 + j < 128)
            T.reads(A[vi], B[()])
            T.writes(B[()])
            with T.init():
                B[()] = T.float32(0.0)
            B[()] = B[()] + A[vi]
""",
    "scopes": """
@T.prim_func
def main(A: T.Buffer((8,), "float32")):
    for i in range(8):
        x: T.float32 = A[i]
        y: T.float32 = x * x
        A[i] = y
    with T.allocate([8], "float32", "global") as B:
        B_1 = T.Buffer((8,), data=B)
        B_1[0] = A[0]
    with T.decl_buffer((8,)) as C:
        C[0] = A[1]
    with T.LetStmt(A[2]) as z:
        A[3] = z
    with T.attr(0, "pragma", 1):
        A[4] = T.float32(0.0)
    with T.Assert(A[0] > T.float32(0.0), "positive"):
        A[5] = T.float32(0.0)
    A[0] = T.float32(0.0)
""",
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_prim_func(name: str) -> None:
    text = HEADER + FUNCTIONS[name].strip("\n")
    assert from_source(text).script() == text


def test_predicated_access() -> None:
    a, b = decl_buffer((128,), name="A"), decl_buffer((256,), name="B")
    mask = pe.Broadcast(const(False, "bool"), 4)
    value = BufferLoad(b, [pe.Ramp(0, 4, 4)], mask)
    assert ts.BufferStore(a, value, [pe.Ramp(0, 2, 4)], mask).script().splitlines()[-1] == (
        "A.vstore([T.Ramp(0, 2, 4)], B.vload([T.Ramp(0, 4, 4)], "
        "predicate=T.Broadcast(T.bool(False), 4)), predicate=T.Broadcast(T.bool(False), 4))"
    )


def test_module() -> None:
    text = HEADER.replace("tir as T", "ir as I").strip() + "\n" + HEADER
    text += """@I.ir_module
class Module:
    I.module_attrs({"attr": 10})
    I.module_global_infos({"dummy": [I.dummy_global_info(), I.dummy_global_info()]})
    @T.prim_func
    def host(A: T.Buffer((1,), "float32")):
        Module.zeta(A.data)

    @T.prim_func(private=True)
    def zeta(A: T.Buffer((1,), "float32")):
        A[0] = T.float32(1.0)

    @T.prim_func
    def main():
        T.evaluate(0)"""
    assert from_source(text).script() == text


def test_empty_module() -> None:
    text = "# from loopwright.script import ir as I\n\n@I.ir_module\nclass Module:\n    pass"
    assert IRModule({}).script() == text


x, y = pe.Var("x", "int32"), pe.Var("y", "int32")
f, b, c = pe.Var("f", "float32"), pe.Var("b", "bool"), pe.Var("c", "bool")
EXPRESSIONS = [
    (pe.EQ(pe.LT(x, y), pe.LT(y, x)), "(x < y) == (y < x)"),
    (pe.Not(pe.And(b, c)), "not (b and c)"),
    (pe.And(pe.Or(b, c), b), "(b or c) and b"),
    (pe.Or(pe.And(b, c), b), "b and c or b"),
    (pe.And(b, pe.And(b, c)), "b and (b and c)"),
    (x - (y - 1), "x - (y - 1)"),
    (x - y - 1, "x - y - 1"),
    (x * (y + 2) // 3 % 4, "x * (y + 2) // 3 % 4"),
    (x * (y * 3), "x * (y * 3)"),
    (x + (-1), "x + -1"),
    (pe.Div(f, f) * f, "f / f * f"),
    (pe.Div(x, y), "T.Div(x, y)"),
    (pe.Mod(x, y), "T.truncmod(x, y)"),
    (pe.Add(const(1, "int32"), const(2, "int32")), "T.Add(1, 2)"),
    (pe.Add(x, const(0, "int32")), "T.Add(x, 0)"),
    (pe.And(const(True, "bool"), b), "T.And(T.bool(True), b)"),
    (pe.Max(x, y), "T.max(x, y)"),
    (x & y, "T.bitwise_and(x, y)"),
    (x << 2, "T.shift_left(x, 2)"),
    (op.pow(f, f), "T.pow(f, f)"),
    (pe.FloatImm("float32", 0.1), "T.float32(0.10000000000000001)"),
    (pe.FloatImm("float32", 1e-5), "T.float32(1.0000000000000001e-05)"),
    (pe.FloatImm("float16", 1), "T.float16(1.0)"),
    (pe.FloatImm("float32", float("inf")), 'T.float32("inf")'),
    (pe.FloatImm("float64", float("-inf")), 'T.float64("-inf")'),
    (pe.FloatImm("float32", float("nan")), 'T.float32("nan")'),
    (pe.FloatImm("float32", -0.0), "T.float32(-0.0)"),
    (const(5, "int64"), "T.int64(5)"),
    (const(True, "bool"), "T.bool(True)"),
    (pe.StringImm('a"b\\c\t'), '"a\\"b\\\\c\\t"'),
    (pe.Select(b, x, y), "T.Select(b, x, y)"),
    (op.if_then_else(b, x, y), "T.if_then_else(b, x, y)"),
    (pe.Cast("float64", f), 'T.Cast("float64", f)'),
    (op.reinterpret("int32", f), 'T.reinterpret("int32", f)'),
    (pe.Ramp(x, 1, 32), "T.Ramp(x, 1, 32)"),
    (pe.Broadcast(const(0, "int32"), 4), "T.Broadcast(0, 4)"),
    (pe.Shuffle([x, y], [0]), "T.Shuffle([x, y], [0])"),
    (pe.Let(x, const(1, "int32"), x + 1), "T.Let(x + 1, where={x: 1})"),
    (op.exp(f), "T.exp(f)"),
    (op.call_packed("foo", x), 'T.call_packed("foo", x)'),
    (op.call_extern("int32", "foo", x), 'T.call_extern("int32", "foo", x)'),
    (op.tvm_struct_get(x, 0, 12, "handle"), 'T.tvm_struct_get(x, 0, 12, "handle")'),
    (pe.Range(0, 10), "I.Range(0, 10)"),
    (pe.IterVar((0, 8), x, 0), 'T.iter_var(x, T.Range(0, 8), "DataPar", "")'),
    (pe.PrimType(DataType("float32")), "T.float32"),
    (pe.PointerType("int32", "global"), 'T.handle("int32", "global")'),
    (pe.Var("R", "int32"), "R_1"),
    (pe.Var("lambda", "int32"), "lambda_1"),
    (pe.Var("a.b-c", "int32"), "a_b_c"),
]


@pytest.mark.parametrize(("node", "text"), EXPRESSIONS, ids=[t for _, t in EXPRESSIONS])
def test_expression(node: pe.PrimExpr, text: str) -> None:
    assert repr(node) == str(node) == node.script() == text


def test_reducer() -> None:
    p, q = pe.Var("p", "float32"), pe.Var("q", "float32")
    reducer = CommReducer((p,), (q,), (p + q,), (const(0, "float32"),))
    assert reducer.script() == "T.comm_reducer(lambda p, q: p + q, [T.float32(0.0)])"
    k = pe.IterVar((0, 4), "k", pe.IterVar.CommReduce)
    a = decl_buffer((4,), name="A")
    node = Reduce(reducer, (a[k.var],), (k,), const(True, "bool"), 0, ())
    assert str(node) == (
        "T.reduce(T.comm_reducer(lambda p, q: p + q, [T.float32(0.0)]), source=[A[k]], init=[], "
        'axis=[T.iter_var(k, T.Range(0, 4), "CommReduce", "")], condition=T.bool(True), '
        "value_index=0)"
    )


def _verbose(node: object, text: str) -> None:
    assert printer.script(node, verbose_expr=True) == text.strip("\n")


def test_free_standing() -> None:
    a = decl_buffer((128, 128), "float16", name="A")
    source, target = decl_buffer((128, 128), name="src"), decl_buffer((64, 64), name="tgt")
    region = BufferRegion(source, (pe.Range(64, 128), pe.Range(64, 128)))
    _verbose(a, 'A = T.Buffer((128, 128), "float16")\nA')
    _verbose(region, "src = T.Buffer((128, 128))\nsrc[64:128, 64:128]")
    _verbose(
        ts.MatchBufferRegion(target, region),
        "src = T.Buffer((128, 128))\ntgt = T.match_buffer(src[64:128, 64:128], (64, 64))",
    )
    _verbose(BufferLoad(a, [128, 128]), 'A = T.Buffer((128, 128), "float16")\nA[128, 128]')
    _verbose(
        ts.BufferStore(a, a[128, 128] + 1, [128, 128]),
        'A = T.Buffer((128, 128), "float16")\nA[128, 128] = A[128, 128] + T.float16(1.0)',
    )
    _verbose(pe.SizeVar("n", "int64"), "n = T.int64(is_size_var=True)\nn")
    _verbose(pe.IterVar((0, 8), "a"), 'a = T.int32()\nT.iter_var(a, T.Range(0, 8), "DataPar", "")')
    nothing = ts.Evaluate(0)
    _verbose(ts.While(x < 10, nothing), "x = T.int32()\nwhile x < 10:\n    T.evaluate(0)")
    _verbose(ts.IfThenElse(x < 10, nothing), "x = T.int32()\nif x < 10:\n    T.evaluate(0)")
    _verbose(ts.seq(ts.Evaluate(1), ts.Evaluate(2)), "T.evaluate(1)\nT.evaluate(2)")
    pointer = pe.Var("v", "handle", type_annotation=("float32", "global"))
    view = decl_buffer((10, 10), data=pointer)
    _verbose(
        ts.DeclBuffer(view, nothing),
        'v = T.handle("float32", "global")\n'
        "with T.decl_buffer((10, 10), data=v) as buffer:\n    T.evaluate(0)",
    )
    allocate = ts.Allocate(
        pointer, DataType("float32"), (const(4, "int32"),), const(True, "bool"), nothing
    )
    _verbose(allocate, 'with T.allocate([4], "float32", "global") as v:\n    T.evaluate(0)')
    _verbose(
        ts.AssertStmt(const(True, "bool"), pe.StringImm("no"), nothing),
        'with T.Assert(T.bool(True), "no"):\n    T.evaluate(0)',
    )


def test_free_standing_block() -> None:
    loops = [pe.Var(n, "int32") for n in "ijk"]
    axes = [
        pe.IterVar((0, n), name, kind)
        for n, name, kind in ((128, "vi", 0), (64, "vj", 0), (32, "vk", 2))
    ]
    block = ts.Block(axes, [], [], "block", ts.Evaluate(0))
    _verbose(
        block,
        """
with T.block("block", no_realize=True):
    vi = T.axis.spatial(128)
    vj = T.axis.spatial(64)
    vk = T.axis.reduce(32)
    T.reads()
    T.writes()
    T.evaluate(0)""",
    )
    _verbose(
        ts.BlockRealize(loops, True, block),
        """
i = T.int32()
j = T.int32()
k = T.int32()
with T.block("block"):
    vi = T.axis.spatial(128, i)
    vj = T.axis.spatial(64, j)
    vk = T.axis.reduce(32, k)
    T.reads()
    T.writes()
    T.evaluate(0)""",
    )


# ---------------------------------------------------------------------- options


def _evaluations() -> PrimFunc:
    body = ts.seq(*[ts.Evaluate(i) for i in range(8)])
    return PrimFunc([], body, attrs={"global_symbol": "main"})


def test_underline_objects() -> None:
    func = _evaluations()
    text = func.script(obj_to_underline=[func.body.seq[1], func.body.seq[3].value])
    lines = text.splitlines()
    assert lines[5:7] == ["    T.evaluate(1)", "    ^^^^^^^^^^^^^"]
    assert lines[8:10] == ["    T.evaluate(3)", "               ^"]
    assert sum("^" in line for line in lines) == 2


def test_underline_every_use_of_a_variable() -> None:
    a = pe.Var("a", "int32")
    func = PrimFunc([a], ts.seq(ts.Evaluate(a), ts.Evaluate(1), ts.Evaluate(a + a)))
    text = func.script(obj_to_underline=[a])
    assert text.splitlines()[3:] == [
        "def main(a: T.int32):",
        "    T.evaluate(a)",
        "               ^",
        "    T.evaluate(1)",
        "    T.evaluate(a + a)",
        "               ^   ^",
    ]


def test_underline_function_by_path() -> None:
    func = PrimFunc([], ts.Evaluate(0), attrs={"global_symbol": "func"})
    text = IRModule({"func": func}).script(path_to_underline=['<root>.functions["func"]'])
    assert text.splitlines()[5:] == [
        "    @T.prim_func",
        "    ^^^^^^^^^^^^",
        "    def func():",
        "    ^^^^^^^^^^^",
        "        T.evaluate(0)",
        "        ^^^^^^^^^^^^^",
    ]
    with pytest.raises(ValueError, match="ends at .nothing"):
        func.script(path_to_underline=["<root>.nothing"])


def test_underlined_block_in_its_context() -> None:
    text = HEADER + FUNCTIONS["remap"].strip("\n")
    func = from_source(text)
    block = func.body.block.body.body.body.body.body.body.body.block
    shown = func.script(obj_to_underline=[block], num_context_lines=1, print_line_numbers=True)
    lines = shown.splitlines()
    assert lines[0].strip() == "(... 5 lines skipped ...)"
    assert lines[1].startswith(" 6     for i0")
    assert lines[2:4] == ['  7         with T.block("update"):'[1:], " " * 11 + "^" * 23]


def test_lines_between_underlined_ones() -> None:
    """A single one is shown, as the line that says so is as long."""
    lines = [f"    T.evaluate({k})" for k in range(8)]
    func = from_source(HEADER + "\n".join(["@T.prim_func", "def main():", *lines]))
    for other, shown in ((1, []), (2, []), (3, ["(... 2 lines skipped ...)"])):
        marked = [func.body.seq[k] for k in (0, other)]
        text = func.script(obj_to_underline=marked, num_context_lines=0).splitlines()
        assert [line for line in text[2:-1] if "skipped" in line] == shown


def test_characters_without_a_picture() -> None:
    value = "a\x01\x7f\x85\u2028\U000e0001\n\\é"
    text = r'"a\x01\x7f\x85\u2028\U000e0001\n\\é"'
    assert quote(value) == text and eval(text) == value


def test_names_that_begin_with_a_digit() -> None:
    assert pe.Var("1st layer", "int32").script() == "v1st_layer"


@pytest.mark.parametrize(
    ("dtype", "scope", "annotation"),
    [
        ("bool", "", ("int8", "global")),
        ("boolx4", "shared", ("boolx4", "shared")),
        ("int8x4", "", ("int8x4", "global")),
    ],
)
def test_what_a_pointer_points_to(dtype: str, scope: str, annotation: tuple[str, str]) -> None:
    assert pointer_type(dtype, scope) == annotation


def test_underline_inner_loop_of_a_grid() -> None:
    func = from_source(HEADER + FUNCTIONS["remap"].strip("\n"))
    loop = func.body.block.body.body.body
    lines = func.script(obj_to_underline=[loop]).splitlines()
    assert lines[5].startswith("    for i0, i1, i2, i3")
    assert lines[6] == " " * 16 + "^^"


def test_annotate() -> None:
    func = _evaluations()
    notes = {func.body.seq[1]: "first", func.body.seq[7]: "last"}
    lines = func.script(obj_to_annotate=notes).splitlines()
    assert lines[5] == "    T.evaluate(1)  # first"
    assert lines[-1] == "    T.evaluate(7)  # last"
    assert func.script(path_to_annotate={"<root>.body.seq[1]": "first"}).count("# first") == 1


def test_names_of_dialects_and_functions() -> None:
    func = _evaluations()
    assert "@X.prim_func" in func.script(tir_prefix="X")
    assert "def main(" in func.without_attr("global_symbol").script()
    assert "def f(" in func.script(name="f")
    with pytest.raises(LoopwrightError, match="ir_prefix must be an identifier"):
        IRModule({}).script(ir_prefix="2I")
    with pytest.raises(TypeError, match="no_such_option"):
        func.script(no_such_option=1)


def test_types_of_literals_and_indents() -> None:
    a = decl_buffer((4,), "int64", name="A")
    store = ts.BufferStore(a, const(1, "int64"), [const(0, "int64")])
    text = PrimFunc([a], store).script(int_dtype="int64", indent_spaces=2)
    assert text.splitlines()[-1] == "  A[0] = 1"
    value = pe.FloatImm("float32", 1.0)
    assert value.script(float_dtype="float32") == "1.0"


def test_without_sugar() -> None:
    func = from_source(HEADER + FUNCTIONS["remap"].strip("\n"))
    text = func.script(syntax_sugar=False)
    assert "T.grid" not in text and "remap" not in text
    assert 'with T.block("root"):' in text and "# with" not in text
    assert "for i0 in range(128):" in text


def test_object_addresses() -> None:
    func = PrimFunc([pe.Var("a", "int32")], ts.Evaluate(0))
    assert re.search(r"def main\(a_0x[0-9a-f]+: T\.int32\)", func.script(show_object_address=True))


def test_names_are_free_again_after_their_scope() -> None:
    def loop() -> ts.For:
        i = pe.Var("i", "int32")
        return ts.For(i, 0, 4, 0, ts.Evaluate(i))

    inner = pe.Var("i", "int32")
    outer = pe.Var("i", "int32")
    twice = ts.For(outer, 0, 4, 1, ts.For(inner, 0, 4, 1, ts.Evaluate(outer + inner)))
    text = ts.seq(loop(), loop(), twice).script()
    assert text.count("for i in range(4):") == 2
    assert "for i_1 in T.parallel(4):" in text and "T.evaluate(i + i_1)" in text


def test_undefined_name_in_a_string_with_newline() -> None:
    node = pe.StringImm("a\nb")
    assert node.script().splitlines()[0] == 'metadata["tir.StringImm"][0]'
    assert node.script(show_meta=True).startswith('metadata = loopwright.ir.load_json("""')


def test_ill_formed_node_has_a_repr() -> None:
    assert repr(ts.Evaluate._make(object())).startswith("T.evaluate(")
    assert "cannot be printed" in repr(ts.For.__new__(ts.For))


def test_deep_programs() -> None:
    total = x
    for _ in range(20_000):  # more than Python's stack holds
        total = pe.Add(total, y)
    assert total.script().count("+") == 20_000
    stmt: ts.Stmt = ts.Evaluate(0)
    for i in range(1500):
        stmt = ts.LetStmt(pe.Var(f"v{i}", "int32"), const(i, "int32"), stmt)
    assert PrimFunc([], stmt).script().count(": T.int32 = ") == 1500


def test_show(capsys: pytest.CaptureFixture[str]) -> None:
    (x + 1).show()
    assert capsys.readouterr().out == "x + 1\n"
    (x + 1).show(style="light")
    assert "\x1b[" in capsys.readouterr().out


def test_the_header_is_not_underlined():
    func = from_source("@T.prim_func\ndef f(a: T.handle):\n    T.evaluate(0)\n")
    mod = IRModule({"f": func})
    (key,) = mod.functions
    path = ObjectPath.root().attr("functions").map_value(key)
    for text in (func.script(obj_to_underline=[func]), mod.script(path_to_underline=[path])):
        lines = text.splitlines()
        assert "^" not in lines[1]
        assert text.count("^^^") and lines[-1].strip("^ ") == ""


def test_an_expression_that_occurs_twice_has_the_names_of_each_place():
    i, other = pe.Var("i", "int32"), pe.Var("i", "int32")
    loop = ts.For(i, 0, 4, ts.ForKind.SERIAL, ts.Evaluate(i + 1))
    twice = ts.For(other, 0, 4, ts.ForKind.UNROLLED, loop)
    text = PrimFunc([], ts.SeqStmt([loop, twice])).script()
    assert text.count("T.evaluate(i + 1)") == 1
    assert text.count("T.evaluate(i_1 + 1)") == 1


def test_an_expression_of_both_dialects_has_the_text_of_each():
    size, zero = const(4, "int64"), ts.Evaluate(0)
    func = PrimFunc([], ts.Evaluate(size))
    graph = relax.Function([], relax.ShapeExpr([size]), relax.ShapeStructInfo([size]))
    text = IRModule(
        {"a": func, "b": graph, "c": PrimFunc([], ts.SeqStmt([zero, ts.Evaluate(size)]))}
    )
    assert text.script().count("T.int64(4)") == 2 and "R.shape([4])" in text.script()
