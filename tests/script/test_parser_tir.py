"""prim_func text becomes the TensorIR that it says."""

from __future__ import annotations

import time

import numpy as np
import pytest

from loopwright.base.errors import DiagnosticError
from loopwright.ir.functor import post_order_visit
from loopwright.ir.prim_expr import (
    EQ,
    LT,
    Add,
    And,
    Call,
    Cast,
    FloatImm,
    IntImm,
    IterVar,
    Not,
    PrimExpr,
    PrimType,
    Ramp,
    Var,
)
from loopwright.ir.structural import assert_structural_equal
from loopwright.script import from_source
from loopwright.script import ir as I
from loopwright.script import tir as T
from loopwright.tir.expr import BufferLoad
from loopwright.tir.function import PrimFunc
from loopwright.tir.interpreter import run
from loopwright.tir.stmt import (
    Allocate,
    AssertStmt,
    AttrStmt,
    BlockRealize,
    BufferStore,
    DeclBuffer,
    Evaluate,
    For,
    ForKind,
    IfThenElse,
    LetStmt,
    SeqStmt,
    While,
)

from ..programs import matmul

N = 8


def read(text: str, **names):
    return from_source(text, names)


def loops(func: PrimFunc) -> list[For]:
    found: list[For] = []
    post_order_visit(func.body, lambda n: found.append(n) if isinstance(n, For) else None)
    return found[::-1]


def blocks(func: PrimFunc) -> list[BlockRealize]:
    found: list[BlockRealize] = []
    post_order_visit(func.body, lambda n: found.append(n) if isinstance(n, BlockRealize) else None)
    return found[::-1]


def test_decorator_with_and_without_parentheses_reads_globals_and_closure():
    k = 4

    @T.prim_func
    def scale(A: T.Buffer((N,), "float32"), B: T.Buffer((N,), "float32")):
        for i in range(N):
            B[i] = A[i] * T.float32(k)

    @T.prim_func(private=True)
    def private(A: T.Buffer((N,), "float32"), B: T.Buffer((N,), "float32")):
        for i in range(N):
            B[i] = A[i] * T.float32(k)

    assert scale.attrs["global_symbol"] == "scale"
    assert "global_symbol" not in private.attrs
    assert_structural_equal(scale.without_attr("global_symbol"), private)
    store = scale.body.body
    assert isinstance(store, BufferStore)
    assert store.value.b.value == 4.0


def test_every_node_has_its_place():
    func = read(
        "@T.prim_func\n"
        'def f(A: T.Buffer((8,), "float32")):\n'
        "    for i in range(8):\n"
        "        A[i] = A[i] + T.float32(1)\n"
    )
    assert (func.body.span.line, func.body.span.column) == (3, 5)
    store = func.body.body
    assert (store.span.line, store.span.column) == (4, 9)
    assert (store.value.span.line, store.value.span.column) == (4, 16)
    assert store.value.b.span.column == 23
    missing = []

    def look(node):
        if node.span is None and isinstance(node, (Add, BufferLoad, FloatImm, For, BufferStore)):
            missing.append(node)

    post_order_visit(func.body, look)
    assert not missing


def test_products_of_fixed_point_numbers_are_integers():
    text = """
@T.prim_func
def main(A: T.Buffer((4,), "int32")):
    A[0] = 1 + T.q_multiply_shift(A[0], 3, 31, 0)
    A[1] = 1 + T.q_multiply_shift_per_axis(A[1], 3, 0, 1, 31, T.bool(False), T.bool(True))
"""
    func = from_source(text)
    assert func.body.seq[0].value.b.dtype == func.body.seq[1].value.b.dtype == "int32"
    assert "dtype" not in func.script().split("def main")[1].split("\n", 1)[1]


def test_blocks_axes_and_the_implicit_root():
    func = matmul(16, 16, 16)
    root, realize = blocks(func)
    assert root.block.name_hint == "root" and not root.block.iter_vars
    assert not root.block.reads and not root.block.writes
    block = realize.block
    kinds = [axis.iter_type for axis in block.iter_vars]
    assert kinds == [IterVar.DataPar, IterVar.DataPar, IterVar.CommReduce]
    assert [axis.var.name for axis in block.iter_vars] == ["vi", "vj", "vk"]
    assert [axis.dom.extent.value for axis in block.iter_vars] == [16, 16, 16]
    assert [region.buffer.name for region in block.reads] == ["A", "B"]
    assert [region.buffer.name for region in block.writes] == ["C"]
    assert isinstance(block.init, BufferStore) and block.init.value.dtype == "float32"
    assert [loop.loop_var.name for loop in loops(func)] == ["i", "j", "k"]


def test_written_regions_are_kept_and_alloc_buffer_goes_to_the_root():
    @T.prim_func
    def f(A: T.Buffer((16,), "float32")):
        t = T.alloc_buffer((16,), scope="shared")
        for i in T.serial(16):
            with T.block("copy"):
                vi = T.axis.spatial(16, i)
                T.where(i < 15)
                T.reads(A[0:16])
                T.writes()
                T.block_attr({"note": 1})
                t[vi] = A[vi]

    root, realize = blocks(f)
    assert [b.name for b in root.block.alloc_buffers] == ["t"]
    assert root.block.alloc_buffers[0].scope() == "shared"
    assert isinstance(realize.predicate, LT)
    assert realize.block.reads[0].region[0].extent.value == 16
    assert not realize.block.writes
    assert realize.block.annotations == {"note": 1}


def test_a_function_without_blocks_has_no_root():
    @T.prim_func
    def f(A: T.Buffer((16,), "float32")):
        for i in T.parallel(16):
            A[i] = T.exp(A[i])

    assert isinstance(f.body, For) and f.body.kind is ForKind.PARALLEL


def test_explicit_root_is_not_doubled():
    @T.prim_func
    def f(A: T.Buffer((4,), "float32")):
        with T.block("root"):
            T.reads()
            T.writes()
            for i in range(4):
                with T.block("b"):
                    vi = T.axis.S(4, i)
                    A[vi] = 1.0

    assert [realize.block.name_hint for realize in blocks(f)] == ["root", "b"]


def test_symbolic_shapes_come_from_match_buffer():
    @T.prim_func
    def f(a: T.handle, b: T.handle, k: T.int64):
        n, m = T.int64(), T.int32(is_size_var=True)
        A = T.match_buffer(a, (n, T.int64(4)), "float16")
        B = T.match_buffer(b, (m,), strides=("s",), elem_offset="off", align=128, offset_factor=2)
        B[0] = T.cast(A[0, k], "float32")

    assert [p.dtype for p in f.params] == ["handle", "handle", "int64"]
    A, B = f.buffer_map[f.params[0]], f.buffer_map[f.params[1]]
    assert A.shape[0].name == "n" and A.shape[0].dtype == "int64" and A.dtype == "float16"
    assert B.strides[0].name == "s" and B.elem_offset.name == "off"
    assert (B.data_alignment, B.offset_factor) == (128, 2)
    assert isinstance(f.body.value, Cast)


def test_loop_kinds_and_annotations():
    @T.prim_func
    def f(A: T.Buffer((4, 4, 4, 8), "float32")):
        for bx in T.thread_binding(4, thread="blockIdx.x"):
            for i in T.unroll(1, 4):
                for j in T.serial(4, annotations={"pragma": 3}):
                    for k in T.vectorized(8):
                        A[bx, i, j, k] = T.float32(0)

    bx, i, j, k = loops(f)
    assert bx.kind is ForKind.THREAD_BINDING and bx.thread_binding.thread_tag == "blockIdx.x"
    assert (i.kind, i.min.value, i.extent.value) == (ForKind.UNROLLED, 1, 3)
    assert j.annotations == {"pragma": 3}
    assert k.kind is ForKind.VECTORIZED


def test_while_if_assert_let_allocate_attr():
    @T.prim_func
    def f(A: T.Buffer((8,), "int32"), n: T.int32):
        T.func_attr({"tir.noalias": True, "target": T.target("llvm")})
        assert n > 0, "n must be positive"
        p = T.allocate([8], "int32", "global")
        w = T.decl_buffer((8,), "int32", data=p)
        x: T.int32 = n + 1
        T.attr(p, "mark", 1)
        w[0] = x
        while w[0] < 8:
            w[0] += 1
        if n == 3 and x != 2:
            A[0] = w[0]
        elif not n < 5:
            A[1] = 1
        else:
            T.evaluate(0)

    assert f.attrs["tir.noalias"] is True and f.attrs["target"].kind.name == "llvm"
    check = f.body
    assert isinstance(check, AssertStmt) and check.message.value == "n must be positive"
    assert isinstance(check.body, Allocate) and check.body.buffer_var.name == "p"
    assert isinstance(check.body.body, DeclBuffer)
    let = check.body.body.body
    assert isinstance(let, LetStmt) and let.var.name == "x"
    assert isinstance(let.body, AttrStmt) and let.body.attr_key == "mark"
    store, loop, branch = let.body.body.seq
    assert isinstance(store, BufferStore) and isinstance(loop, While)
    assert isinstance(branch, IfThenElse) and isinstance(branch.condition, And)
    assert isinstance(branch.condition.a, EQ)
    assert isinstance(branch.else_case, IfThenElse)
    assert isinstance(branch.else_case.condition, Not)
    assert isinstance(branch.else_case.else_case, Evaluate)


def test_with_forms_and_threads():
    @T.prim_func
    def f(A: T.Buffer((8,), "float32")):
        tx = T.env_thread("threadIdx.x")
        with T.launch_thread("blockIdx.x", 2) as bx, T.launch_thread(tx, 4):
            with T.allocate((1,), "float32", "local") as p:
                w = T.Buffer((1,), data=p, scope="local")
                w[0] = A[bx * 4 + tx]
            with T.let(T.int32(), 3) as three:
                A[three] = 1.0
            with T.attr(A.data, "k", "v"):
                T.evaluate(T.call_extern("int32", "g", A.data))

    assert isinstance(f.body, AttrStmt) and f.body.attr_key == "thread_extent"
    assert f.body.node.thread_tag == "blockIdx.x" and f.body.node.var.name == "bx"
    assert f.body.body.node.var.name == "tx" and f.body.body.node.dom.extent.value == 4
    assert isinstance(f.body.body.body, SeqStmt) and len(f.body.body.body) == 3


def test_vectors_by_slices_and_ramp():
    @T.prim_func
    def f(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
        B[0:4] = A[0:4] * T.Broadcast(T.float32(2), 4)
        B[4:12:2] = T.exp(A[T.Ramp(4, 2, 4)])
        B[12:16] = 0.0

    first, second, third = f.body.seq
    assert isinstance(first.indices[0], Ramp) and first.value.dtype == "float32x4"
    assert second.indices[0].stride.value == 2 and second.value.dtype == "float32x4"
    assert third.value.dtype == "float32x4"


def test_expressions():
    @T.prim_func
    def f(A: T.Buffer((8,), "float32"), i: T.int32, b: T.bool) -> T.int32:
        A[0] = T.if_then_else(i < 4, A[1], T.float32("inf"))
        A[1] = T.Select(b, T.float32(1), T.max(A[2], T.float32(0)))
        A[2] = A[3] if 0 <= i < 8 else A[4]
        A[3] = T.Cast("float32", T.Let(v + 1, where={v: i}) if False else i)
        T.evaluate(T.call_packed("f", A, i))
        T.evaluate(T.tvm_struct_get(A.data, 0, 1, dtype="handle"))
        T.call_extern("void", "g", T.address_of(A[0]), "text")
        return i

    assert f.ret_type == PrimType("int32") or f.ret_type.dtype == "int32"
    stores = f.body.seq
    assert stores[0].value.op.name == "tir.if_then_else"
    assert isinstance(stores[2].value, Call) and isinstance(stores[2].value.args[0], And)
    assert stores[-1].value.op.name == "tir.ret"
    assert stores[-2].value.op.name == "tir.call_extern"


def test_dtype_constructors():
    assert isinstance(T.int64(), Var) and T.int64().dtype == "int64"
    assert isinstance(T.float16(1.5), FloatImm) and T.float16(1.5).dtype == "float16"
    assert T.float32("nan").value != T.float32("nan").value
    assert isinstance(T.bool(True), IntImm) and T.bool(True).dtype == "bool"
    assert T.handle("float32", "shared").type_annotation == ("float32", "shared")
    assert T.float32x4(T.Broadcast(T.int32(1), 4)).dtype == "float32x4"
    with pytest.raises(
        AttributeError, match=r"T has no 'flaot32'\n  instead: did you mean T.float32"
    ):
        T.flaot32


def test_python_loops_and_branches_are_unrolled_while_reading():
    @T.prim_func
    def f(A: T.Buffer((8,), "float32")):
        for name, i in [("a", 0), ("b", 1)]:
            if name == "a":
                A[i] = 1.0
            else:
                A[i] = 2.0

    assert [s.value.value for s in f.body.seq] == [1.0, 2.0]


def test_helpers_and_macros():
    def twice(x):
        return x * T.float32(2)

    c = 3

    @T.macro
    def store(A, i, value=1):
        A[i] = twice(T.float32(value + c))

    @T.macro(hygienic=False)
    def capture():
        A[2] = T.float32(c)

    @T.prim_func
    def f(A: T.Buffer((8,), "float32")):
        store(A, 0)
        store(A, i=1, value=2)
        c = T.meta_var(7)  # noqa: F841  (the macro reads it)
        capture()

    assert [s.value.value for s in f.body.seq] == [8.0, 10.0, 7.0]


def test_regions_of_buffers_on_constants_are_inferred():
    @T.prim_func
    def func(B: T.Buffer((4,), "int32")):
        table = T.allocate_const([3, 1, 4, 1], "int32", [4])
        C = T.Buffer((4,), "int32", data=table)
        for i in range(4):
            with T.block("b"):
                v = T.axis.spatial(4, i)
                B[v] = C[v]

    assert "T.reads(C[v])" in func.script()


def test_match_buffer_of_a_region():
    @T.prim_func
    def f(A: T.Buffer((16, 16), "float32")):
        for i in range(4):
            with T.block("b"):
                vi = T.axis.spatial(4, i)
                S = T.match_buffer(A[vi * 4 : vi * 4 + 4, 0:16], (4, 16), offset_factor=1)
                S[0, 0] = 1.0

    match = blocks(f)[1].block.match_buffers[0]
    assert match.buffer.name == "S" and match.source.buffer.name == "A"
    assert [r.extent.value for r in match.source.region] == [4, 16]


def test_match_buffer_of_another_shape_is_refused_at_its_line():
    for shape in ("(5,)", "(2, 4)", "(1, 1, 4)"):
        text = f"""
@T.prim_func
def f(A: T.Buffer((8, 8), "float32")):
    with T.block("b"):
        S = T.match_buffer(A[2, 0:4], {shape})
        S[0] = 1.0
"""
        with pytest.raises(DiagnosticError, match="not that of the region") as error:
            from_source(text)
        assert error.value.span.line == 5


def test_a_root_block_has_no_regions_but_written_ones():
    body = """
@T.prim_func
def f(A: T.Buffer((8,), "float32")):
    with T.block("b"):
        {}
        for i in range(8):
            with T.block("c"):
                vi = T.axis.spatial(8, i)
                A[vi] = 1.0
"""
    plain, written = (from_source(body.format(t)) for t in ("pass", "T.writes(A[0:8])"))
    assert not plain.body.block.reads and not plain.body.block.writes
    assert [str(r) for r in written.body.block.writes] == ["A[0:8]"]
    assert len(blocks(plain)[1].block.writes) == 1


def test_comm_reducer_and_iter_var():
    reducer = T.comm_reducer(lambda x, y: x + y, [T.float32(0)])
    assert len(reducer.lhs) == 1 and isinstance(reducer.result[0], Add)
    axis = T.iter_var(T.int32(), T.Range(0, 4), "ThreadIndex", "threadIdx.x")
    assert axis.iter_type == IterVar.ThreadIndex


def test_index_map_as_an_annotation():
    @T.prim_func
    def f(A: T.Buffer((4, 4), "float32")):
        for i in range(4):
            with T.block("b"):
                vi = T.axis.spatial(4, i)
                T.block_attr({"layout": T.index_map(lambda i, j: (j, i // 2))})
                A[vi, vi] = 1.0

    made = blocks(f)[1].block.annotations["layout"]
    assert [str(e) for e in made.map_indices([T.int64(6), T.int64(1)])] == [
        "T.int64(1)",
        "T.int64(3)",
    ]


def test_a_module_calls_its_own_functions():
    @I.ir_module
    class Module:
        I.module_attrs({"k": 1})
        I.module_global_infos({"dummy": [I.dummy_global_info()]})

        @T.prim_func
        def main(A: T.Buffer((N,), "int32")):
            A[0] = Module.helper(A.data, 3)

        @T.prim_func(private=True)
        def helper(p: T.handle, x: T.int32) -> T.int32:
            return x

    assert [g.name_hint for g in Module.functions] == ["main", "helper"]
    assert Module.attrs["k"] == 1 and len(Module.global_infos["dummy"]) == 1
    call = Module["main"].body.value
    assert call.op.name_hint == "helper" and call.dtype == "int32"


def test_dtype_keywords_and_dtype_callables():
    x = T.float32()
    assert T.exp(x, dtype="float32").dtype == "float32"
    assert T.call_extern("f", x, dtype="int32").dtype == "int32"
    assert T.reinterpret(T.int32, x).dtype == "int32"
    assert T.cast(x, T.float16).dtype == "float16"
    assert T.undef(dtype="float32").dtype == "float32"
    assert T.tvm_warp_activemask(dtype="uint32").op.name == "tir.tvm_warp_activemask"


def test_a_macro_loops_over_a_symbolic_range():
    @T.macro
    def fill(A, n):
        for i in range(n):
            A[i] = T.float32(0)

    @T.prim_func
    def f(A: T.Buffer((8,), "float32"), n: T.int32):
        fill(A, n)

    assert isinstance(f.body, For) and f.body.extent is f.params[1]


def test_a_tuple_of_variables_makes_no_lets():
    @T.prim_func
    def f(A: T.Buffer((4, 4), "float32")):
        for i, j in T.grid(4, 4):
            ij = (j, i)
            A[ij] = 1.0

    inner = f.body.body.body
    assert isinstance(inner, BufferStore) and inner.indices[0] is f.body.body.loop_var


def test_newer_spellings():
    @T.prim_func
    def f(A: T.Buffer(8, "float32")):
        t = T.sblock_alloc_buffer((8,))
        for i in range(8):
            with T.sblock("b"):
                vi = T.axis.spatial(8, i)
                t[vi] = A[vi]

    assert [realize.block.name_hint for realize in blocks(f)] == ["root", "b"]


def error(text: str, **names) -> str:
    with pytest.raises(DiagnosticError) as caught:
        read(text, **names)
    return str(caught.value)


HEAD = '@T.prim_func\ndef f(A: T.Buffer((8,), "float32"), n: T.int32):\n    '


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("A[0] = undefined", "undefined variable 'undefined'"),
        ("a = b = n", "consequential assignments like `a = b = c` are not supported"),
        ("del A", "unsupported statement `Delete` in a prim_func"),
        ("T.reads(A[0])", "T.reads belongs directly in a T.block"),
        ("A[0] = T.exp()", "exp() missing 1 required positional argument: 'x'"),
        ("A[0] = T.exp(A[0], 1)", "T.exp takes 1 arguments (x)"),
        ("A[0, 1] = 1.0", "buffer A has 1 dimensions"),
        ("T.alloc_bufer((8,))", "T has no 'alloc_bufer'"),
        ("with T.block(n): A[0] = 1.0", "the name of a block is a string"),
        ("with n: pass", "invalid context expression in a with statement"),
        ("for i in n: pass", "a for loop iterates over T.grid, T.serial, T.parallel, range, ..."),
        ("x: T.int64 = n", "variable x is annotated as int64"),
        ("n[0] = 1", "only buffers are stored to"),
        ("T.block('b')", "a T.block is opened by a with or for statement"),
        ("T.axis.remap('S', [n])", "T.axis belongs directly in a T.block"),
        ("return None", "the value returned by a prim_func must be a scalar expression"),
        ("T.func_attr(3)", "'int' object is not iterable"),
        ("x, y = T.grid(2, 3, 4), 1", "a loop is opened by a with statement"),
        ("T.evaluate(A)", "a buffer is not a value"),
        ("T.alloc_buffer('(8,)')", "an extent of a buffer is an integer or an expression of one"),
        ("for i in T.serial('1'): pass", "a bound of a loop is an integer"),
        ("with T.block('b') as x: pass", "a T.block has nothing to name"),
    ],
)
def test_errors_name_the_problem_and_the_place(line: str, message: str):
    text = error(HEAD + line)
    assert text.splitlines()[0] == message
    assert ":3:" in text and "^" in text


def test_the_whole_text_of_an_error():
    text = error(HEAD + "A[0] = A[n] + undefinde", undefined=1)
    shown = text.split(" --> ")[1].split(":", 1)[1]
    assert text.startswith(
        "undefined variable 'undefinde'\n  instead: did you mean undefined?\n --> <script "
    )
    assert shown == (
        "3:19\n   |\n 3 |     A[0] = A[n] + undefinde\n   |                   ^^^^^^^^^"
    )


def test_syntax_errors_are_located():
    text = error("@T.prim_func\ndef f(:\n  pass\n")
    assert text.splitlines()[0].startswith("syntax error: ")
    assert " 2 | def f(:" in text


@pytest.mark.parametrize(
    ("head", "message"),
    [
        ("def f(a): pass", "type annotation required for function parameter 'a'"),
        ("def f(a: 3): pass", "parameter 'a' needs a type such as T.int32, T.handle or T.Buffer"),
        ("def f(*a: T.int32): pass", "a script's function has plain parameters only"),
        ("def f(a: T.int32 = 1): pass", "parameters of a script's function have no default values"),
    ],
)
def test_parameter_errors(head: str, message: str):
    assert error("@T.prim_func\n" + head).splitlines()[0] == message


def test_private_functions_have_no_global_symbol():
    text = '@T.prim_func(private=True)\ndef f(n: T.int32):\n    T.func_attr({"global_symbol": "x"})'
    assert error(text).splitlines()[0] == "a private function has no global_symbol"


def test_programs_are_verified_unless_told_otherwise():
    text = HEAD + (
        "for i in range(8):\n"
        '        with T.block("b"):\n'
        "            vi = T.axis.spatial(8, i)\n"
        "            A[vi] = A[i]\n"
    )
    assert error(text).startswith("the program is not well formed: block-boundary")
    unchecked = text.replace("@T.prim_func", "@T.prim_func(check_well_formed=False)")
    assert isinstance(read(unchecked), PrimFunc)
    assert isinstance(from_source(text, check_well_formed=False), PrimFunc)


def test_names_end_with_their_scope():
    text = HEAD + "for i in range(4):\n        x: T.int32 = i\n    A[0] = T.float32(x)"
    assert error(text).splitlines()[0] == "undefined variable 'x'"


def test_a_program_defines_one_thing():
    assert "a program defines one module or one function" in error("x = 1\n")
    assert error("def f(): pass").splitlines()[0] == "f needs exactly one decorator"
    with pytest.raises(TypeError, match="a program is given as text"):
        from_source(test_a_program_defines_one_thing)


def test_a_failed_read_leaves_no_open_frame():
    error(HEAD + "for i in range(4):\n        A[i] = undefined")
    with pytest.raises(ValueError, match="is outside a function"):
        T.evaluate(0)


def test_non_ascii_columns_count_characters():
    text = error(HEAD + '"é"; A[0] = nope')
    assert text.splitlines()[-1].index("^") - text.splitlines()[-2].index("nope") == 0


def many_blocks(count):
    lines = ["@T.prim_func", 'def f(A: T.Buffer((128, 128), "float32")):']
    for b in range(count):
        lines += [
            "    for i, j in T.grid(128, 128):",
            f'        with T.block("b{b}"):',
            '            vi, vj = T.axis.remap("SS", [i, j])',
            "            T.reads(A[vi, vj])",
            "            T.writes(A[vi, vj])",
            "            A[vi, vj] = A[vi, vj] * T.float32(2.0) + T.float32(1.0)",
        ]
    return "\n".join(lines)


def test_reading_takes_time_in_proportion_to_the_text():
    times = {}
    for count in (16, 128) * 3:
        start = time.perf_counter()
        func = read(many_blocks(count))
        times[count] = min(times.get(count, 1e9), time.perf_counter() - start)
        assert len(blocks(func)) == count + 1
    assert times[128] < 8 * 3 * times[16]
    assert isinstance(func.body, BlockRealize) and not isinstance(func.body, PrimExpr)


def test_range_with_annotations_is_a_loop():
    func = read(HEAD + "for i in range(8, annotations={'grain': 2}):\n        A[i] = 0.0\n")
    assert func.body.annotations["grain"] == 2


@pytest.mark.parametrize("extent", ["2.5", "T.evaluate(0)", '"n"', "None"])
def test_extents_of_buffers_are_integers(extent):
    text = f'@T.prim_func\ndef f(A: T.Buffer((16, {extent}), "float32")):\n    A[0, 0] = 0.0'
    assert "an extent of a buffer is an integer" in error(text)


AXES = HEAD + "for i, j in T.grid(8, 8):\n        with T.block('b'):\n            "


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["v = T.axis.S(8, i)", "v = T.axis.S(8, j)"], "the block has an axis 'v' already"),
        (["v, v = T.axis.remap('SS', [i, j])"], "the block has an axis 'v' already"),
        (["v = T.axis.S(8, A)"], "the binding of an axis is an integer"),
        (["v = T.axis.S(8.5, i)"], "the domain of an axis is an integer"),
        (
            ["T.block_attr({'key': 1})", "T.block_attr({'key': 2})"],
            "the block has the annotation 'key' already",
        ),
    ],
)
def test_errors_in_blocks(lines, message):
    text = AXES + "\n            ".join([*lines, "A[0] = 0.0"]) + "\n"
    assert error(text).startswith(message)


def test_buffers_allocated_in_loops_live_in_the_block_around():
    func = read(
        HEAD
        + "with T.block('b'):\n        for i in range(8):\n            B = T.alloc_buffer((8,))\n"
        + "            B[i] = A[i]\n"
    )
    (made,) = blocks(func)[-1].block.alloc_buffers
    assert made.name == "B"


def test_annotations_of_two_dictionaries_are_one():
    func = read(
        HEAD
        + "with T.block('b'):\n        T.block_attr({'key': {'a': 1}})\n"
        + "        T.block_attr({'key': {'b': 2}})\n        A[0] = 0.0\n"
    )
    assert blocks(func)[-1].block.annotations == {"key": {"a": 1, "b": 2}}


def test_conditions_of_vectors_are_joined_lane_by_lane():
    func = read(HEAD + "T.evaluate((A[0:4] > 0) and (A[4:8] > 0) or True)\n")
    assert func.body.value.op.name == "tir.bitwise_or"
    assert func.body.value.args[0].op.name == "tir.bitwise_and"
    both = And(func.body.value.args[0].args[0], func.body.value.args[0].args[1])
    assert " and " not in both.script() and "T.And(" in both.script()


def test_the_storage_scope_of_a_realized_region_is_kept():
    text = HEAD + "B = T.decl_buffer((8,))\n    with T.realize(B[0:8], ''):\n        A[0] = B[0]\n"
    func = read(text)
    attr = func.body.body.body
    assert attr.attr_key == "realize_scope" and attr.value.value == ""
    assert 'T.realize(B[0:8], "")' in func.script()
    assert error(HEAD + "T.realize(A, '')\n").startswith("T.realize takes a region")


@pytest.mark.parametrize(
    ("names", "values", "used", "want"),
    [
        ("a, *b, c", "1, 2, 3, 4", "a + b[0] * 10 + b[1] * 100 + c * 1000", 4321),
        ("*a, b", "1, 2, 3", "a[0] + a[1] * 10 + b * 100", 321),
        ("a, *b", "1, 2, 3", "a + b[0] * 10 + b[1] * 100", 321),
        ("a, b, *c, d", "1, 2, 3", "a + b * 10 + d * 100", 321),
        ("*a, b, c", "1, 2, 3, 4", "a[0] + a[1] * 10 + b * 100 + c * 1000", 4321),
    ],
)
def test_values_are_unpacked_around_a_star(names: str, values: str, used: str, want: int):
    text = "@T.prim_func\ndef f(A: T.Buffer((1,), 'int32')):\n    "
    got = np.zeros(1, "int32")
    run(from_source(f"{text}{names} = {values}\n    A[0] = {used}\n"), [got])
    assert got == want
    with pytest.raises(DiagnosticError, match="cannot unpack 1 values into"):
        from_source(f"{text}a, *b, c = (3,)\n    A[0] = a\n")


def test_regions_are_given_one_by_one_or_as_a_list():
    text = """
@T.prim_func
def f(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
    for i in range(8):
        with T.block("b"):
            vi = T.axis.remap("S", [i])
            T.reads(A[vi], B[7 - vi])
            T.writes(B[vi])
            B[vi] = A[vi] + B[7 - vi]
"""
    wanted = from_source(text)
    listed = text.replace("A[vi], B[7 - vi])", "[A[vi], B[7 - vi]])").replace(
        "(B[vi])", "((B[vi],))"
    )
    assert_structural_equal(from_source(listed), wanted)
