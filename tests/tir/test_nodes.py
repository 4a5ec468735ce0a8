"""TensorIR nodes: construction, conversion, buffers, substitution, functors."""

from __future__ import annotations

import pytest

from loopwright import tir
from loopwright.base.errors import LoopwrightError
from loopwright.ir.structural import assert_structural_equal, structural_equal, structural_hash
from loopwright.script import from_source
from loopwright.script import tir as T
from loopwright.tir import stmt_functor
from loopwright.tir.index_dtype import with_index_dtype
from loopwright.tvm.tir import functor


@T.prim_func
def scale(a: T.handle, b: T.handle, s: T.float32):
    n = T.int32()
    A = T.match_buffer(a, (n, 8))
    B = T.match_buffer(b, (n, 8))
    C = T.alloc_buffer((n, 8))
    for i, j in T.grid(n, 8):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = A[vi, vj] * s
    for i, j in T.grid(n, 8):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = C[vi, vj] + T.float32(1.0)


def test_buffer_indexing():
    a = tir.decl_buffer((4, 8), "float32", "A")
    assert isinstance(a[0, 1], tir.BufferLoad) and a[0, 1].dtype == "float32"
    region = a[0:2, 3]
    assert isinstance(region, tir.BufferRegion)
    assert [int(r.extent) for r in region.region] == [2, 1]
    vector = a[0, 0:8:2]
    assert vector.dtype == "float32x4" and isinstance(vector.indices[1], tir.Ramp)
    with pytest.raises(ValueError, match="buffer A has 2 dimensions"):
        a[0]
    with pytest.raises(ValueError, match="only the last index of buffer A may be a vector"):
        a[tir.Ramp(0, 1, 4), 0]
    with pytest.raises(TypeError, match="buffer A holds float32"):
        tir.BufferStore(a, tir.const(1, "int32"), [0, 0])
    assert tir.BufferStore(a, 1, [0, 0]).value.dtype == "float32"
    four, at = tir.decl_buffer((4,), "float32x4", "V"), [0, tir.Ramp(0, 1, 4)]
    assert tir.BufferStore(a, 1, at).value.dtype == "float32x4"
    assert tir.BufferStore(four, 1, [0]).value.dtype == "float32x4"
    one = tir.const(1.0, "float32")
    for buffer, value, where in (a, one, at), (four, one, [0]), (a, tir.Broadcast(one, 4), [0, 0]):
        with pytest.raises(TypeError, match="equal lanes"):
            tir.BufferStore(buffer, value, where)


def test_buffer_offsets():
    n = tir.Var("n", "int64")
    a = tir.decl_buffer((n, 8), "float32", "A")
    i = tir.Var("i", "int64")
    assert structural_equal(a.offset_of([i, 3])[0], i * 8 + 3)
    b = tir.decl_buffer((4, 8), "float32", "B", strides=[16, 2], elem_offset=5)
    assert int(b.offset_of([1, 1])[0]) == 16 + 2 + 5
    assert str(a.get_flattened_buffer().shape[0]) == "n * T.int64(8)"
    with pytest.raises(ValueError, match="one stride for each dimension"):
        tir.decl_buffer((4, 8), strides=[1])
    c = tir.decl_buffer((n, n), "float32", "C", elem_offset=tir.const(100, "int64"))
    assert str(c.offset_of([2, 3])[0]) == "n * T.int64(2) + T.int64(103)"


def test_the_type_of_a_pointer():
    kind = tir.PointerType(tir.PrimType("float"), "shared")
    pointer = tir.Var("p", kind)
    assert pointer.dtype == "handle" and pointer.type_annotation == kind
    assert pointer.type_annotation.storage_scope == "shared"
    assert kind.element_type.dtype == "float32" and kind.script() == 'T.handle("float32", "shared")'
    same = tir.Var("q", "handle", type_annotation=("float32", "shared"))
    assert isinstance(same.type_annotation, tir.PointerType) and same.type_annotation == kind


def test_scopes_and_pointers():
    a = tir.decl_buffer((4,), "float16", "A", scope="shared")
    assert a.scope() == "shared"
    assert a.data.type_annotation == ("float16", "shared")
    pointer = a.access_ptr("rw", offset=1)
    assert [int(x) for x in pointer.args[2:]] == [1, 3, 3]
    with pytest.raises(ValueError, match="unknown access mask"):
        a.access_ptr("q")


def test_statements_convert_their_arguments():
    x = tir.Var("x", "int32")
    body = tir.Evaluate(0)
    assert isinstance(tir.LetStmt(x, 3, body).value, tir.IntImm)
    assert isinstance(tir.AssertStmt(True, "no", body).message, tir.StringImm)
    assert tir.IfThenElse(True, body).condition.dtype == "bool"
    assert tir.Allocate(x, "float32", [4], True, body).dtype.bits == 32
    assert tir.For(x, 0, 4, 0, body).extent.dtype == "int32"
    assert tir.BlockRealize([1], True, tir.Block([], [], [], "b", body)).predicate.dtype == "bool"


def test_sequences():
    one, two = tir.Evaluate(1), tir.Evaluate(2)
    nested = tir.stmt_seq(one, tir.SeqStmt([two, one]))
    assert tir.stmt_list(nested) == [one, two, one]
    assert tir.stmt_seq(one) is one


def test_reductions_overload_max_and_sum():
    x, y = tir.Var("x", "float32"), tir.Var("y", "float32")
    assert isinstance(tir.max(x, y), tir.Max) and isinstance(tir.min(x, 1.0), tir.Min)
    assert isinstance(tir.sum(x, y), tir.Add)


def test_with_body_and_attrs():
    made = scale.with_body(tir.Evaluate(0))
    assert made.params == scale.params and isinstance(made.body, tir.Evaluate)
    assert scale.with_attr("k", 1).attrs["k"] == 1 and "k" not in scale.attrs


# --------------------------------------------------------------------------------- substitution


def test_substitute():
    x, y = tir.Var("x", "int32"), tir.Var("y", "int32")
    expr = x * 2 + y
    assert structural_equal(stmt_functor.substitute(expr, {x: y + 1}), (y + 1) * 2 + y)
    assert stmt_functor.substitute(expr, {tir.Var("z"): y}) is expr
    three = stmt_functor.substitute(expr, lambda v: tir.const(3) if v is x else None)
    assert structural_equal(three, tir.Add(tir.Mul(tir.const(3), 2), y))


def test_a_choice_is_made_where_its_condition_becomes_known():
    x, y, c = tir.Var("x", "int32"), tir.Var("y", "int32"), tir.Var("c", "bool")
    choice, likely = tir.if_then_else(c, x, y), tir.likely(c)
    for value, made in ((True, x), (False, y)):
        literal = tir.const(value, "bool")
        known = stmt_functor.SubstituteStmt({c: literal})
        assert known.visit(choice) is made and known.visit(likely) is literal
    other = stmt_functor.SubstituteStmt({x: y}).visit(choice)
    assert structural_equal(other, tir.if_then_else(c, y, y))


def test_substitute_shape_variables_rebuilds_buffers_once():
    n = scale.buffers[0].shape[0]
    body = stmt_functor.substitute(scale.body, {n: tir.const(4)})
    seen = set()
    stmt_functor.post_order_visit(
        body, lambda node: seen.add(node) if isinstance(node, tir.Buffer) else None
    )
    assert len(seen) == 3 and {int(b.shape[0]) for b in seen} == {4}


def test_renew_defs_shares_nothing():
    copy = stmt_functor.renew_defs(scale)
    assert_structural_equal(copy, scale)

    def definitions(func):
        found = set()
        stmt_functor.post_order_visit(
            func, lambda n: found.add(n) if isinstance(n, (tir.Var, tir.Buffer)) else None
        )
        return found

    assert not definitions(copy) & definitions(scale)


def test_renew_defs_of_a_view():
    data = tir.Var("p", "handle", type_annotation=("float32", "global"))
    view = tir.decl_buffer((4,), "float32", "view", data=data)
    func = tir.PrimFunc([data], tir.DeclBuffer(view, tir.BufferStore(view, 1.0, [0])))
    copy = stmt_functor.renew_defs(func)
    assert copy.params[0] is not data and copy.body.buffer is not view
    assert copy.body.buffer is copy.body.body.buffer


def test_ir_transform():
    x = tir.Var("x", "int32")
    stmt = tir.For(x, 0, 4, 0, tir.Evaluate(x + 1))

    def double(node):
        return node.replace(extent=node.extent * 2) if isinstance(node, tir.For) else None

    assert int(stmt_functor.ir_transform(stmt, None, double).extent) == 8
    assert int(stmt_functor.ir_transform(stmt, None, double, ["tir.For"]).extent) == 8
    assert stmt_functor.ir_transform(stmt, None, double, ["tir.Evaluate"]) is stmt
    replaced = tir.Evaluate(7)
    assert stmt_functor.ir_transform(stmt, lambda n: replaced, None, ["tir.For"]) is replaced


def test_index_dtype():
    wide = with_index_dtype(scale, "int64")
    assert {b.shape[0].dtype for b in wide.buffers} == {"int64"}
    loops = []
    stmt_functor.post_order_visit(
        wide.body, lambda n: loops.append(n) if isinstance(n, tir.For) else None
    )
    assert {(f.loop_var.dtype, f.extent.dtype) for f in loops} == {("int64", "int64")}
    tir.analysis.verify_well_formed(wide)
    assert with_index_dtype(wide, "int64") is wide
    assert_structural_equal(with_index_dtype(wide, "int32"), scale)


def test_index_dtype_of_allocations():
    @T.prim_func
    def f(n: T.int32):
        data = T.allocate([n * 2, 4], "float32")
        A = T.Buffer((n * 8,), data=data)
        A[n] = T.float32(0)

    for given, dtype, force in (
        (f, "int64", True),
        (with_index_dtype(f, "int64", True), "int32", True),
    ):
        made = with_index_dtype(given, dtype, force)
        assert {made.params[0].dtype, *(e.dtype for e in made.body.extents)} == {dtype}
        tir.analysis.verify_well_formed(made)


def test_index_dtype_of_vectors():
    @T.prim_func
    def f(X: T.Buffer((12,), "float32"), Y: T.Buffer((12,), "float32")):
        for i in range(3):
            Y[T.Ramp(i * 4, 1, 4)] = X[T.Ramp(i, 3, 4)] + X[T.Broadcast(i, 4)]

    wide = with_index_dtype(f, "int64")
    tir.analysis.verify_well_formed(wide)
    indices = []
    stmt_functor.post_order_visit(
        wide.body, lambda n: indices.append(n) if isinstance(n, (tir.Ramp, tir.Broadcast)) else None
    )
    assert [str(n.dtype) for n in indices] == ["int64x4"] * 3
    assert with_index_dtype(wide, "int64") is wide


# -------------------------------------------------------------------------------------- functors


def test_visitor():
    @functor.visitor
    class Count(functor.PyStmtExprVisitor):
        def __init__(self):
            self.loads, self.literals = [], 0

        def visit_buffer_load_(self, op):
            self.loads.append(op.buffer.name)
            super().visit_buffer_load_(op)

        def visit_float_imm_(self, op):
            self.literals += 1

    count = Count()
    count.visit_stmt(scale.body)
    assert count.loads == ["A", "C"] and count.literals == 1


def test_mutator():
    @functor.mutator
    class AddToSub(functor.PyStmtExprMutator):
        def visit_add_(self, op):
            op = super().visit_add_(op)
            return tir.Sub(op.a, op.b)

        def visit_for_(self, op):
            op = super().visit_for_(op)
            return op.replace(annotations={"seen": 1})

    body = AddToSub().visit_stmt(scale.body)
    text = scale.with_body(body).script()
    assert "C[vi, vj] - T.float32(1.0)" in text
    assert functor.PyStmtExprMutator().visit_stmt(scale.body) is scale.body
    with pytest.raises(TypeError, match="derive it from PyStmtExprVisitor"):
        functor.visitor(dict)
    with pytest.raises(TypeError, match="PyStmtExprVisitor has no method for this\n  got: int"):
        functor.PyStmtExprVisitor().visit_stmt(3)


def test_what_a_view_is_of_is_visited():
    func = from_source("""
@T.prim_func
def main(A: T.Buffer((8, 4), "float32"), n: T.int32, m: T.int32):
    with T.block("b"):
        T.reads()
        T.writes()
        X = T.match_buffer(A[n:n + 4, 0:m], (4, m), offset_factor=1)
        X[0, 0] = T.float32(1)
""")
    seen = []

    class Names(functor.PyStmtExprVisitor):
        def visit_var_(self, op):
            seen.append(op.name)

    Names().visit_stmt(func.body)
    assert "n" in seen and "m" in seen
    assert tir.analysis.undefined_vars(func.body) == list(func.params[1:])


# ------------------------------------------------------------------- specialization, intrinsics


def test_specialize():
    a, _, s = scale.params
    made = scale.specialize({a: tir.decl_buffer((4, 8)), s: 2.0})
    assert [p.name for p in made.params] == ["a", "b"]
    assert [int(x) for x in made.buffers[1].shape] == [4, 8]
    assert "T.float32(2.0)" in made.script() and "for i, j in T.grid(4, 8)" in made.script()
    with pytest.raises(ValueError, match="a dimension is 8"):
        scale.specialize({a: tir.decl_buffer((4, 9))})
    with pytest.raises(ValueError, match="with 2 dimensions"):
        scale.specialize({a: tir.decl_buffer((4,))})
    with pytest.raises(ValueError, match="takes parameters"):
        scale.specialize({tir.Var("x"): 1})


def test_specialize_folds_what_becomes_literal():
    @T.prim_func
    def func(a: T.handle, b: T.handle):
        n = T.int32()
        A = T.match_buffer(a, (n // 8, 8))
        B = T.match_buffer(b, (n,))
        for i in range(n - 1):
            B[i] = A[i // 8, i % 8]

    made = func.specialize({func.params[1]: tir.decl_buffer((16,))})
    assert [int(x) for x in made.buffers[0].shape] == [2, 8] and made.body.extent.value == 15


def test_specialize_to_another_parameter_is_one_memory():
    @T.prim_func
    def func(A: T.Buffer((4,)), B: T.Buffer((4,))):
        flat = T.decl_buffer((4,), data=B.data)
        flat[0] = A[0]

    made = func.specialize({func.params[1]: func.buffers[0]})
    assert made.buffers[1].data is made.buffers[0].data
    assert made.body.buffer.data is made.buffers[0].data


def test_specialize_to_a_place_in_memory_binds_a_pointer():
    @T.prim_func(private=True)
    def before(a: T.handle("float32"), b: T.Ptr[T.float32]):
        A = T.decl_buffer(32, "float32", data=a)
        B = T.decl_buffer(16, "float32", data=b)
        for i in range(16):
            B[i] = A[i] * 2.0

    @T.prim_func(private=True)
    def after(a: T.handle("float32")):
        A = T.decl_buffer(32, "float32", data=a)
        b: T.Ptr[T.float32] = T.address_of(A[16])
        B = T.decl_buffer(16, "float32", data=b)
        for i in range(16):
            B[i] = A[i] * 2.0

    made = before.specialize({before.params[1]: tir.address_of(before.body.buffer[16])})
    assert_structural_equal(made, after)


def test_tensor_intrinsics():
    @T.prim_func
    def desc(A: T.Buffer((4,)), B: T.Buffer((4,))):
        for i in range(4):
            with T.block("add"):
                vi = T.axis.spatial(4, i)
                B[vi] = A[vi] + T.float32(1)

    tir.TensorIntrin.register("test.nodes.add", desc, desc, override=True)
    assert tir.TensorIntrin.get("test.nodes.add").desc is desc
    with pytest.raises(ValueError, match="override=True"):
        tir.TensorIntrin.register("test.nodes.add", desc, desc)
    with pytest.raises(ValueError, match="no tensor intrinsic of this name"):
        tir.TensorIntrin.get("test.nodes.none")
    assert tir.TensorIntrin.get("test.nodes.none", allow_missing=True) is None
    with pytest.raises(ValueError, match="same parameters"):
        tir.TensorIntrin.register("test.nodes.bad", desc, scale)


# --------------------------------------------------------------------------- target intrinsics


def test_calls_of_target_intrinsics():
    v = tir.Var("v", "float32")
    shuffled = tir.tvm_warp_shuffle(0xFFFF, v, 0, 32, 32)
    assert shuffled.dtype == "float32" and shuffled.op.name == "tir.tvm_warp_shuffle"
    assert tir.ptx_commit_group().dtype == "void"
    assert tir.q_multiply_shift(v.astype("int32"), 3, 31, 1).op.get_attr("effect") == "pure"
    mask = tir.get_active_lane_mask("boolx4", tir.Var("i"), 10)
    assert mask.dtype.lanes == 4
    quad = tir.Broadcast(tir.const(1, "int8"), 4)
    assert tir.dp4a(quad, quad).dtype == "int32"


def test_specialize_takes_what_fits():
    text = """
@T.prim_func
def main(a: T.handle, b: T.handle, n: T.int32):
    m = T.int32()
    s = T.int32()
    A = T.match_buffer(a, (m, n), "float32")
    B = T.match_buffer(b, (m, n), "float32", strides=(s, 1))
    for i, j in T.grid(m, n):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj]
"""
    func = from_source(text)
    a, b, n = func.params
    known = func.specialize({a: tir.decl_buffer((4, 8))})
    assert [str(e) for e in known.buffer_map[b].shape] == ["4", "8"]
    assert len(func.specialize({n: 8}).params) == 2
    q = tir.Var("q", "int32")
    assert "q * 2" in func.specialize({n: q * 2}).script()
    strided = func.specialize({b: tir.decl_buffer((4, 8), strides=(16, 1))})
    assert [str(e) for e in strided.buffer_map[b].strides] == ["16", "1"]
    refused = [
        ({a: 3}, "parameter a is a buffer"),
        ({n: 2.5}, "parameter n is int32"),
        ({n: "x"}, "parameter n is int32"),
        ({a: tir.decl_buffer((4, 8), "float16")}, "buffer A is float32 with 2 dimensions"),
        ({b: tir.decl_buffer((4, 8))}, "buffer B is declared with strides"),
        ({a: tir.decl_buffer((4, 8), strides=(8, 1))}, "buffer A is declared with no strides"),
        ({a: tir.decl_buffer((4, 8)), n: 9}, "a dimension is 8"),
    ]
    for given, message in refused:
        with pytest.raises(ValueError, match=message):
            func.specialize(given)


def test_access_pointers_of_strided_buffers():
    m, n = tir.Var("m", "int32"), tir.Var("n", "int32")
    buffer = tir.decl_buffer((m, n), "float32", strides=[n + 1, 1])
    pointer = buffer.access_ptr("rw", offset=100)
    assert structural_equal(pointer.args[3], buffer.strides[0] * m - 100)
    assert int(pointer.args[4]) == tir.Buffer.READ | tir.Buffer.WRITE


def test_axis_separators_are_within_the_shape():
    assert tir.decl_buffer((4, 4), axis_separators=[1]).axis_separators == (1,)
    for wrong in ([3], [1, 0], [-1]):
        with pytest.raises(ValueError, match="axis separators of buffer b"):
            tir.decl_buffer((4, 4), name="b", axis_separators=wrong)


def test_what_a_node_cannot_hold_is_a_type_error_of_the_library():
    x, y = tir.Var("x", "float32"), tir.Var("y", "int32")
    refused = [
        lambda: tir.Let(x, y, x),
        lambda: tir.FloatImm("int32", 1.0),
        lambda: x << 1.0,
        lambda: ~x,
        lambda: tir.Var("z", "float7"),
        lambda: y << 32,
    ]
    for build in refused:
        with pytest.raises(LoopwrightError) as caught:
            build()
        assert isinstance(caught.value, (TypeError, ValueError))
    assert tir.Let(x, 1, x).value.dtype == "float32"


def test_a_condition_of_nothing_is_refused():
    for build in (tir.any, tir.all):
        with pytest.raises(ValueError, match="a condition of nothing"):
            build()


def test_masks_have_a_truth_value_for_each_lane():
    a = tir.decl_buffer((24,), "int32")
    for lanes in (4, 4 * tir.vscale()):
        at = tir.Ramp(0, 1, lanes)
        assert tir.BufferLoad(a, [at], tir.Broadcast(tir.const(True), lanes)).predicate is not None
        with pytest.raises(ValueError, match="must be boolean values, but got int32"):
            tir.BufferStore(a, tir.Broadcast(1, lanes), [at], tir.Broadcast(1, lanes))
    with pytest.raises(ValueError, match="must both be scalable"):
        tir.BufferLoad(a, [at], tir.Broadcast(tir.const(True), 4))
    with pytest.raises(ValueError, match="mask with 8 lanes, but trying to load a vector with 4"):
        tir.BufferLoad(a, [tir.Ramp(0, 1, 4)], tir.Broadcast(tir.const(True), 8))


def test_what_has_no_number():
    with pytest.raises(LoopwrightError, match="Can't cast a handle"):
        tir.StringImm("s").astype("int32")
    with pytest.raises(TypeError, match="the name of a variable"):
        tir.Var(1, "int32")
    with pytest.raises(LoopwrightError, match="needs boolean operands"):
        tir.all(tir.const(True), tir.Var("x", "int32"))


def test_signed_and_unsigned_are_unsigned():
    a, b = tir.Var("a", "int32"), tir.Var("b", "uint32")
    assert (a + b).dtype == (b * a).dtype == "uint32"
    assert (a + tir.Var("c", "uint8")).dtype == "int32"


def test_what_a_graph_sees_of_a_function():
    info = scale.struct_info
    assert [str(p) for p in info.params[2:]] == ['R.Prim("float32")'] and not info.purity
    assert info.params[0].dtype == "float32" and info.params[0].ndim == 2 and info.ret.fields == ()
    total = from_source("""
@T.prim_func(private=True)
def main(A: T.Buffer((8,), "float32"), p: T.handle) -> T.float32:
    S = T.decl_buffer((), "float32")
    S[()] = A[0]
    T.ret(S[()])
""")
    info = total.struct_info
    assert (
        info.purity and str(info.ret) == 'R.Prim("float32")' and str(info.params[1]) == "R.Object"
    )
    assert scale.__name__ == "scale"
    with pytest.raises(AttributeError, match="no name"):
        _ = total.__name__


def test_bits_that_keep_their_type_stay():
    x = tir.Var("x", "float32")
    assert tir.reinterpret("float32", x) is x
    assert tir.reinterpret("int32", x).dtype == "int32"


def test_lanes_given_as_a_literal_have_its_type() -> None:
    for vector in (
        tir.Ramp(0, 1, tir.IntImm("int64", 4)),
        tir.Broadcast(0, tir.IntImm("int64", 4)),
    ):
        assert vector.lanes == 4 and vector.lanes.dtype == "int32" and vector.dtype == "int32x4"


def test_rare_forms_of_buffers():
    a = tir.decl_buffer((4, 8), "float32", "A", elem_offset=tir.const(0, "int64"))
    assert a.ndim == 2 and a.elem_offset is None
    vector = tir.decl_buffer((8,), "float32", "V").vload(2, "float32x4")
    assert structural_equal(vector.indices[0], tir.Ramp(2, 1, 4))
    assert vector.dtype == "float32x4"
    pair = tir.decl_buffer((8,), "float32", "V").vload(2, "float32x2")
    assert structural_equal(pair.indices[0], tir.Ramp(2, 1, 2))
    assert structural_equal(vector.buffer.vload(2).indices[0], tir.const(2))
    apart = tir.decl_buffer((4, 8), "float32", "B", elem_offset=5, axis_separators=[1])
    with pytest.raises(ValueError, match="has axis separators, and then no elem_offset"):
        apart.offset_of([0, 0])
    outside = tir.Var("p", "handle", type_annotation=("float32", "global"))
    view = tir.decl_buffer((4,), "float32", "view", data=outside)
    stmt = tir.DeclBuffer(view, tir.BufferStore(view, 1.0, [0]))
    copy = stmt_functor.renew_defs(stmt)
    assert copy.buffer is not view and copy.buffer is copy.body.buffer
    assert copy.buffer.data is outside


def test_rare_forms_of_calls_and_reductions():
    x = tir.Var("x", "float32")
    made = tir.call_intrin("float32", "exp", x)
    assert structural_equal(made, tir.call_intrin("float32", "tir.exp", x))

    def total(name):
        k = tir.IterVar((0, 4), name, tir.IterVar.CommReduce)
        combine = tir.comm_reducer(lambda a, b: a + b, lambda t: tir.const(0, t))
        return combine(k.var.astype("float32") * x, k)

    a, b = total("k"), total("j")
    assert structural_equal(a, b) and structural_hash(a) == structural_hash(b)
    assert structural_hash(a) != structural_hash(total("k").replace(condition=x > 1))
    again = tir.Reduce(a.combiner, [a.source[0]], a.axis, None)
    assert isinstance(again.source, tuple) and structural_equal(a, again)
    pair = tir.comm_reducer(lambda a, b: (a[0], b[1]), lambda s, t: (tir.const(0, s),))
    with pytest.raises(ValueError, match="2 values, 2 results, 1 identities"):
        pair((x, x), tir.IterVar((0, 4), "k", tir.IterVar.CommReduce))


def test_specialized_parameters():
    text = """
@T.prim_func
def f(a: T.handle, n: T.int32):
    o = T.int32()
    A = T.match_buffer(a, (8,), elem_offset=o)
    A[o % 8] = T.Cast("float32", n)
"""
    f = from_source(text)
    given = tir.decl_buffer((8,), "float32", "G", elem_offset=3)
    made = f.specialize({f.params[0]: given})
    assert "[3]" in made.script() and "o %" not in made.script()
    with pytest.raises(ValueError, match="a Buffer is given for a parameter that is not a Buffer"):
        f.specialize({f.params[1]: given})
    with pytest.raises(ValueError, match="all parameters of a tensor intrinsic are buffers"):
        tir.TensorIntrin.register("test_of_scalars", f, f)
