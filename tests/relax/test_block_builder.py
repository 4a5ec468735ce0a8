"""BlockBuilder: names, blocks, normal form, inference, the module."""

from __future__ import annotations

import pytest

from loopwright import relax, te, topi
from loopwright.ir.expr import GlobalVar
from loopwright.ir.module import IRModule
from loopwright.ir.op import register_op
from loopwright.ir.prim_expr import Var as TirVar
from loopwright.ir.serialize import save_json
from loopwright.ir.structural import assert_structural_equal, structural_equal
from loopwright.relax import BlockBuilder
from loopwright.tir.byte_size import LIMIT

from ..programs import graph
from .support import TWICE, plus, tensor, twice, var

pytestmark = pytest.mark.no_roundtrip


def names(func: relax.Function) -> list[list[str]]:
    return [[b.var.name_hint for b in block.bindings] for block in func.body.blocks]


def te_add(a, b):
    return te.compute(a.shape, lambda *i: a(*i) + (b(*i) if isinstance(b, te.Tensor) else b), "s")


def test_names_kinds_and_blocks():
    bb, x = BlockBuilder(), var("x", 4)
    with bb.function("main", [x]):
        with bb.dataflow():
            assert bb.current_block_is_dataflow()
            a = bb.emit(twice(x))
            b = bb.emit(twice(a), name_hint="b")
            c = bb.emit(twice(b), name_hint="b")
            out = bb.emit_output(c)
        assert not bb.current_block_is_dataflow()
        d = bb.emit(twice(out))
        gvar = bb.emit_func_output(d)
    func = bb.get()["main"]
    assert gvar.name_hint == "main"
    assert names(func) == [["lv", "b", "b1", "gv"], ["gv1"]]
    kinds = [type(b.var) for block in func.body.blocks for b in block.bindings]
    assert kinds == [relax.DataflowVar] * 3 + [relax.Var] * 2
    assert isinstance(func.body.blocks[0], relax.DataflowBlock)
    assert not isinstance(func.body.blocks[1], relax.DataflowBlock)
    assert func.attrs["global_symbol"] == "main" and func.is_pure
    assert_structural_equal(func.ret_struct_info, tensor(4))
    assert_structural_equal(gvar.struct_info, relax.FuncStructInfo([tensor(4)], tensor(4)))


def test_nested_calls_are_bound_once():
    bb, x = BlockBuilder(), var("x", 4)
    shared = twice(x)
    with bb.function("main", [x], private=True, pure=False, attrs={"num_input": 1}):
        with bb.dataflow():
            a = bb.emit(plus(shared, twice(shared)))
            t = bb.emit((a, [twice(a)]))
            out = bb.emit_output(relax.TupleGetItem(t, 0))
        bb.emit_func_output((out, twice(out)))
    func = bb.get()["main"]
    assert names(func) == [["lv", "lv1", "lv2", "lv3", "lv4", "gv"], ["gv1"]]
    assert func.body.blocks[0].bindings[2].value.args[0].name_hint == "lv"
    assert isinstance(func.body.body, relax.Tuple)
    assert func.attrs.values == {"num_input": 1} and not func.is_pure
    assert_structural_equal(func.ret_struct_info, relax.TupleStructInfo([tensor(4), tensor(4)]))


def test_function_scope_errors_leave_the_builder_usable():
    bb, x = BlockBuilder(), var("x", 4)
    no_result = pytest.raises(RuntimeError, match="function main has no result")
    with no_result as error, bb.function("main", [x]):
        bb.emit(twice(x))
    assert "bb.emit_func_output(value)" in str(error.value)
    with pytest.raises(ZeroDivisionError), bb.function("main", [x]), bb.dataflow():
        raise ZeroDivisionError
    assert BlockBuilder.current() is None
    with bb.function("main", [x]):
        assert BlockBuilder.current() is bb
        with pytest.raises(RuntimeError, match="another BlockBuilder has a function open"):
            BlockBuilder().function("other", []).__enter__()
        with pytest.raises(RuntimeError, match="emit_output is for dataflow blocks"):
            bb.emit_output(x)
        with pytest.raises(RuntimeError, match="parameters of function main were given twice"):
            bb.emit_func_output(x, params=[x])
        bb.emit_func_output(x)
        with pytest.raises(RuntimeError, match="function main has its result already"):
            bb.emit_func_output(x)
    with pytest.raises(RuntimeError, match="no block is open in this builder"):
        bb.emit(x)
    with pytest.raises(RuntimeError, match="no function is open in this builder"):
        bb.emit_func_output(x)
    with pytest.raises(TypeError, match="each function parameter must be a relax.Var"):
        bb.function("f", [1])
    with pytest.raises(ValueError, match="global_symbol is set by the builder"):
        bb.function("f", [x], attrs={"global_symbol": "g"})


def test_parameters_at_the_end():
    n = TirVar("n", "int64")
    bb, x = BlockBuilder(), var("x", n, 4)
    with bb.function("main"):
        y = bb.emit(twice(x))
        bb.emit_func_output(y, params=x)
    assert_structural_equal(bb.get()["main"].ret_struct_info, tensor(n, 4))


def test_a_function_is_told_its_parameters():
    bb = BlockBuilder()
    refused = pytest.raises(RuntimeError, match="function main was given no parameters")
    with refused, bb.function("main"):
        bb.emit_func_output(relax.const(1.0))
    with bb.function("main", []):
        bb.emit_func_output(relax.const(1.0))
    assert bb.get()["main"].params == ()


def test_result_forgets_what_the_parameters_do_not_define():
    n, m = TirVar("n", "int64"), TirVar("m", "int64")
    bb, x = BlockBuilder(), var("x", n)
    with bb.function("main", [x]):
        y = bb.match_cast(relax.op.call_pure_packed("f", x, sinfo_args=tensor(ndim=1)), tensor(m))
        bb.emit_func_output((bb.emit(twice(y)), x))
    func = bb.get()["main"]
    assert_structural_equal(func.body.blocks[0].bindings[-1].var.struct_info, tensor(m))
    expected = relax.TupleStructInfo([tensor(ndim=1), tensor(n)])
    assert_structural_equal(func.ret_struct_info, expected)


def test_match_cast():
    n = TirVar("n", "int64")
    bb, x = BlockBuilder(), var("x", 4)
    with bb.function("main", [x]):
        y = bb.match_cast(twice(x), tensor(n), name_hint="y")
        with pytest.raises(ValueError, match="match_cast can never succeed"):
            bb.match_cast(x, tensor(4, 4))
        bb.emit_func_output(y)
    first, second = bb.get()["main"].body.blocks[0].bindings
    assert first.var.name_hint == "gv" and isinstance(second, relax.MatchCast)
    assert second.value is first.var and second.var.name_hint == "y"
    assert bb.lookup_binding(second.var) is first.var


def test_lookup_binding_follows_identity_not_object():
    bb, x = BlockBuilder(), var("x", 4)
    with bb.testing_scope([]):
        y = bb.emit(twice(x))
        assert bb.lookup_binding(y).op is TWICE
        assert bb.lookup_binding(relax.Var(y.vid, y.struct_info)).op is TWICE
        assert bb.lookup_binding(x) is None


def test_te_functions_are_named_deduplicated_and_keep_symbols():
    n = TirVar("n", "int64")
    bb, x = BlockBuilder(), var("x", n, 4)
    with bb.function("main", [x]):
        with bb.dataflow():
            a = bb.emit_te(te_add, x, x)
            b = bb.emit_te(te_add, a, x)
            c = bb.emit_te(topi.add, b, relax.const(2.0), primfunc_name_hint="add_two")
            d = bb.emit_te(topi.add, c, relax.const(3.0), primfunc_name_hint="add_two")
            out = bb.emit_output(d)
        bb.emit_func_output(out)
    mod = bb.get()
    assert [g.name_hint for g in mod.functions] == ["te_add", "add_two", "main"]
    func = mod["te_add"]
    assert func.attrs.values == {"tir.noalias": True}
    assert [p.name for p in func.params][::2] == ["var_x", "var_s"] and len(func.params) == 3
    first = mod["main"].body.blocks[0].bindings[0].value
    assert first.op.name == "relax.call_tir" and len(first.args) == 2
    assert_structural_equal(first.sinfo_args[0], tensor(n, 4))
    (dim, _) = func.buffer_map[func.params[0]].shape
    assert isinstance(dim, TirVar) and dim is not n and dim.name == "n"
    assert len(mod["add_two"].params) == 3  # the scalar is passed as a tensor


def test_te_symbols_that_no_buffer_holds_are_passed():
    n = TirVar("n", "int64")
    bb, x = BlockBuilder(), var("x", n * 2)

    def scale(a, factor):
        return te.compute(a.shape, lambda i: a[i] + factor.astype("float32"), "s")

    with bb.testing_scope([n]):
        call = bb.normalize(bb.call_te(scale, x, n, primfunc_attrs={"op_pattern": 0}))
    func = bb.get()["scale"]
    assert len(func.params) == 3 and func.attrs["op_pattern"] == 0
    assert structural_equal(call.args[2], relax.ShapeExpr([n]))
    assert_structural_equal(call.struct_info, tensor(n * 2))


def test_te_argument_errors():
    bb = BlockBuilder()
    unknown = relax.Var("u", tensor(ndim=2))
    with pytest.raises(ValueError, match="a te tensor needs a tensor of known shape"):
        bb.call_te(te_add, unknown, unknown)
    with pytest.raises(TypeError, match="emit_te cannot pass this argument on"):
        bb.call_te(te_add, var("x", 4), object())
    with pytest.raises(TypeError, match="identity must return te tensors"):

        def identity(a):
            return [1]

        bb.call_te(identity, var("x", 4))


def test_te_with_grad():
    bb, x = BlockBuilder(), var("x", 4)
    call = bb.call_te_with_grad(te_add, x, x, te_grad_name="g", te_grad_kwargs={"k": 1})
    assert call.op.name == "relax.call_tir_with_grad"
    assert call.attrs.te_grad_name == "g" and call.attrs.te_grad_kwargs == {"k": 1}


def test_variables_and_functions_share_one_supply_of_names():
    bb, x = BlockBuilder(), var("x", 4)
    with bb.function("main", [x]):
        y = bb.emit(twice(x), name_hint="te_add")
        bb.emit_func_output(bb.emit_te(te_add, y, y))
    assert "te_add1" in bb.get() and "te_add" not in bb.get()
    assert bb.get_unique_name("te_add") == "te_add2"
    assert bb.get_unique_name("a.b c") == "a_b_c"


def test_get_does_not_see_later_changes_and_the_given_module_stays():
    bb, x = BlockBuilder(), var("x", 4)
    with bb.function("f", [x]):
        bb.emit_func_output(x)
    before = bb.get()
    other = BlockBuilder(before)
    assert other.get() is before
    other.update_func(before.get_global_var("f"), before["f"].with_attr("k", 1))
    gvar = other.add_func(before["f"], "g")
    assert "k" not in before["f"].attrs and "g" not in before
    assert other.get()["f"].attrs["k"] == 1 and gvar.name_hint == "g"
    assert other.add_func(before["f"], "h") == gvar  # structurally equal: the same function
    assert other.add_func(before["f"].with_attr("k", 2), "f").name_hint == "f1"


def test_finalize_gives_public_functions_their_symbol():
    x = var("x", 4)
    func = relax.Function([x], x, attrs={"global_symbol": "public"})
    private = relax.Function([x], x, attrs={"k": 1})
    bb = BlockBuilder(IRModule({"f": func, "public": private}))
    assert {g.name_hint: "k" in f.attrs for g, f in bb.finalize().functions.items()} == {
        "public": False,
        "public1": True,
    }


def test_sequences_are_flattened_and_neighbours_merged():
    x = var("x", 4)
    a, b, c, d = (relax.DataflowVar(n, tensor(4)) for n in "abcd")
    inner = relax.SeqExpr([relax.DataflowBlock([relax.VarBinding(a, twice(x))])], twice(a))
    blocks = [
        relax.DataflowBlock([relax.VarBinding(b, inner)]),
        relax.DataflowBlock([relax.VarBinding(c, twice(b))]),
        relax.BindingBlock([]),
        relax.DataflowBlock([relax.VarBinding(d, plus(twice(c), c))]),
    ]
    func = relax.Function([x], relax.SeqExpr(blocks, d), tensor(4))
    made = BlockBuilder().normalize(func)
    assert names(made) == [["a", "lv", "b", "c", "lv1", "d"]]
    assert BlockBuilder().normalize(made) is made


def test_if_gets_what_covers_both_branches():
    cond, x, y = relax.Var("c", tensor(dtype="bool")), var("x", 4), var("y", 5)
    bb = BlockBuilder()
    with bb.function("main", [cond, x, y]):
        z = bb.emit(relax.If(cond, twice(x), relax.SeqExpr([], twice(twice(y)))))
        bb.emit_func_output(z)
    node = bb.get()["main"].body.blocks[0].bindings[0].value
    assert_structural_equal(node.struct_info, tensor(ndim=1))
    assert [len(b.bindings) for b in node.false_branch.blocks] == [2]
    assert isinstance(node.true_branch.body, relax.Var)


def test_calls_of_functions_solve_symbolic_dimensions():
    n, m = TirVar("n", "int64"), TirVar("m", "int64")
    bb, x, y = BlockBuilder(), var("x", n), var("y", n)
    with bb.function("f", [x, y]):
        bb.emit_func_output(relax.op.call_dps_packed("g", [x, y], tensor(n + n)))
    z = var("z", m)
    gvar = bb.get().get_global_var("f")
    with bb.testing_scope([m]):
        call = bb.normalize(relax.Call(GlobalVar("f"), [z, z]))
        assert call.struct_info.ndim == 1
        assert structural_equal(call.struct_info, tensor(m * 2))
        with pytest.raises(ValueError, match="f takes 2 arguments\n  got: 1"):
            bb.normalize(relax.Call(gvar, [z]))
        with pytest.raises(ValueError, match="argument 1 of f does not fit its parameter"):
            bb.normalize(relax.Call(gvar, [var("a", 3), var("b", 4)]))
        with pytest.raises(ValueError, match="only a function can be called"):
            bb.normalize(relax.Call(z, [z]))


def test_only_scalars_are_conditions_and_only_functions_are_called():
    x = var("x", 4)
    with pytest.raises(ValueError, match="the condition of an if is a scalar\n  got: x with"):
        BlockBuilder().normalize(relax.If(x, x, x))
    perhaps = relax.Var("c", relax.TensorStructInfo(dtype="bool", ndim=1))  # of one element
    assert structural_equal(
        BlockBuilder().normalize(relax.If(perhaps, x, x)).struct_info, x.struct_info
    )
    with pytest.raises(TypeError, match="a call needs an operator or a function expression"):
        relax.Call(twice, [x])


def test_packed_functions_return_what_their_call_says():
    bb, x = BlockBuilder(), var("x", 4)
    f = relax.ExternFunc("f")
    assert_structural_equal(bb.normalize(relax.Call(f, [x])).struct_info, relax.ObjectStructInfo())
    one = bb.normalize(relax.Call(f, [x], sinfo_args=[tensor(3)]))
    assert_structural_equal(one.struct_info, tensor(3))
    two = bb.normalize(relax.Call(f, [x], sinfo_args=[tensor(3), tensor(4)]))
    assert_structural_equal(two.struct_info, relax.TupleStructInfo([tensor(3), tensor(4)]))


def test_an_operator_that_does_not_say_what_it_returns():
    op = register_op("test.mystery")
    with pytest.raises(ValueError) as error:
        BlockBuilder().normalize(relax.Call(op, []))
    assert str(error.value) == (
        "operator test.mystery has no rule for its result's struct info\n"
        '  instead: ir.register_op_attr("test.mystery", "FInferStructInfo", f) with f(call, bb)'
    )


def test_one_result_in_a_list_is_that_result():
    info = relax.TensorStructInfo((4,), "float32")
    assert relax.op.call_tir(GlobalVar("k"), [], [info]).sinfo_args == (info,)
    pair = relax.op.call_tir(GlobalVar("k"), [], relax.TupleStructInfo([info]))
    assert isinstance(pair.sinfo_args[0], relax.TupleStructInfo)
    bb, x = BlockBuilder(), var("x", 4)
    with bb.function("main", [x]):
        a = bb.emit_te(lambda a: [te.compute(a.shape, lambda i: a[i] * 2.0)], x)
        bb.emit_func_output(a)
    assert isinstance(a.struct_info, relax.TensorStructInfo)


def test_call_tir_unpacks_a_bound_tuple():
    bb, x = BlockBuilder(), var("x", 4)
    pair = relax.Var("pair", relax.TupleStructInfo([tensor(4), tensor(4)]))
    with bb.function("main", [x, pair]):
        with bb.dataflow():
            known = bb.emit((x, x))
            a = bb.emit(relax.op.call_tir(GlobalVar("k"), known, tensor(4)))
            bb.emit(relax.op.call_tir(GlobalVar("k"), pair, tensor(4)))
            out = bb.emit_output(a)
        bb.emit_func_output(out)
    values = [b.value for b in bb.get()["main"].body.blocks[0].bindings]
    assert values[1].args[1].fields == (x, x)
    assert [v.index for v in values[2:4]] == [0, 1]
    assert len(values[4].args[1].fields) == 2


def test_inplace_indices_are_checked():
    x = var("x", 4)
    make = relax.op.call_tir_inplace
    assert make(GlobalVar("k"), [x], 0, tensor(4)).attrs.inplace_indices == [0]
    with pytest.raises(ValueError, match="one entry for each output"):
        make(GlobalVar("k"), [x], [0, -1], tensor(4))
    with pytest.raises(ValueError, match="distinct argument positions"):
        make(GlobalVar("k"), [x], [1], tensor(4))
    with pytest.raises(ValueError, match="names no argument\n  instead: use call_tir"):
        make(GlobalVar("k"), [x], [-1], tensor(4))


def test_memory_operators_infer():
    bb = BlockBuilder()

    def info(call):
        return bb.normalize(call).struct_info

    with bb.testing_scope([]):
        storage = bb.emit(relax.op.memory.alloc_storage([64], 0, "global", "uint8"))
        assert isinstance(storage.struct_info, relax.ObjectStructInfo)
        made = relax.op.memory.alloc_tensor(storage, 0, [4, 4], "float32")
        assert_structural_equal(info(made), tensor(4, 4))
        made = relax.op.builtin.alloc_tensor([2], "int8", 0)
        assert_structural_equal(info(made), tensor(2, dtype="int8"))
        x = var("x", 2, 8)
        assert_structural_equal(info(relax.op.memory.view(x, [16])), tensor(16))
        as_int = relax.op.memory.view(x, dtype="int32")
        assert_structural_equal(info(as_int), tensor(2, 8, dtype="int32"))
        with pytest.raises(ValueError, match="may not reach beyond the tensor"):
            info(relax.op.memory.view(x, dtype="int64"))
        shape = info(relax.op.shape_of(x))
        assert_structural_equal(shape, relax.ShapeStructInfo([2, 8]))
        as_tensor = relax.op.shape_to_tensor(relax.ShapeExpr([2, 8]))
        assert_structural_equal(info(as_tensor), tensor(2, dtype="int64"))
        back = relax.op.tensor_to_shape(relax.const([2, 8], "int64"))
        assert_structural_equal(info(back), relax.ShapeStructInfo(ndim=2))
        with pytest.raises(ValueError, match="tensor_to_shape takes a tensor of one dimension"):
            info(relax.op.tensor_to_shape(x))
        with pytest.raises(TypeError, match="assert_op takes a boolean scalar as condition"):
            info(relax.op.assert_op(x))
        assert info(relax.op.assert_op(True)).fields == ()


def test_unknown_operator_names():
    with pytest.raises(AttributeError) as error:
        relax.op.memory.alloc_tensr
    assert str(error.value) == (
        "relax.op.memory has no operator 'alloc_tensr'\n"
        "  instead: did you mean alloc_tensor, kill_tensor, alloc_storage?"
    )
    from loopwright.relax.op.memory import alloc_tensor

    assert alloc_tensor is relax.op.memory.alloc_tensor


def test_of_a_binding_the_value_is_compared_first():
    """What is inferred from it differs too, and says less."""
    x = var("x", 4)

    def binding(value):
        bb = BlockBuilder()
        with bb.function("main", [x]):
            bb.emit_func_output(bb.emit(value))
        return bb.get()["main"]

    left, right = binding(relax.op.exp(x)), binding(relax.op.sum(x))
    with pytest.raises(ValueError, match=r"bindings\[0\].value.op: different operators"):
        assert_structural_equal(left, right)


def test_a_pass_leaves_the_variables_of_functions_as_they_are():
    """They belong to the module before it too."""
    mod = graph("a = R.add(x, x)", x=(2,))
    for name in ("LegalizeOps", "ToNonDataflow", "RemovePurityChecking", "CallTIRRewrite"):
        step, before = getattr(relax.transform, name)(), save_json(mod)
        after = step(mod)
        assert after is not mod and save_json(mod) == before
        mod = after


def test_external_functions_are_added_once():
    bb = BlockBuilder()
    first = bb.add_func(relax.ExternFunc("f"), "f")
    assert bb.add_func(relax.ExternFunc("f"), "again") is first
    other = bb.add_func(relax.ExternFunc("g"), "f")
    assert [g.name_hint for g in bb.get().functions] == ["f", "f1"] and other is not first


def test_bindings_that_are_in_normal_form():
    bb, x = BlockBuilder(), var("x", 4)
    binding = relax.VarBinding(relax.DataflowVar("d", tensor(4)), x)
    with bb.function("main", [x]):
        with pytest.raises(ValueError, match="bound in a dataflow block only\n  got: d"):
            bb.emit_normalized(binding)
        with bb.dataflow():
            bb.emit_normalized(binding)
            assert bb.lookup_binding(binding.var) is x
            out = bb.emit_output(binding.var)
        bb.emit_func_output(out)
    assert names(bb.get()["main"]) == [["d", "gv"]]


def test_what_cannot_be_normalized():
    bb, x = BlockBuilder(), var("x", 4)
    with pytest.raises(ValueError, match="can only be normalized where it can be bound"):
        bb.normalize(twice(twice(x)))
    with pytest.raises(ValueError, match="a tuple's field has no struct info\n  got: u"):
        bb.normalize(relax.Tuple([x, relax.Var("u")]))
    with pytest.raises(ValueError, match="a field can be taken of a tuple of known length only"):
        bb.normalize(relax.TupleGetItem(relax.Var("t", relax.ObjectStructInfo()), 0))
    unknown = relax.Var("f", relax.ObjectStructInfo())
    with pytest.raises(ValueError, match="only a function can be called\n  got: f with R.Object"):
        bb.normalize(relax.Call(unknown, [x]))
    mystery = relax.Call(register_op("test.mystery"), [], sinfo_args=[tensor(3)])
    assert_structural_equal(bb.normalize(mystery).struct_info, tensor(3))


def test_functions_without_a_stated_result():
    x = var("x", 4)
    plain = relax.SeqExpr([], x)
    plain._update_struct_info(tensor(4))
    bb = BlockBuilder()
    known = relax.Function([x], plain, tensor(4))
    assert bb.normalize(known) is known
    wide = relax.Function([x], relax.SeqExpr([], twice(x)), relax.ObjectStructInfo())
    made = bb.normalize(wide)  # what is stated stays
    assert isinstance(made.ret_struct_info, relax.ObjectStructInfo) and made is not wide
    nothing = relax.Function._make((x,), plain, None, True, known.attrs)
    for func in (nothing, nothing.replace(body=relax.SeqExpr([], twice(x)))):
        assert_structural_equal(bb.normalize(func).ret_struct_info, tensor(4))


def test_variables_get_the_struct_info_of_their_values():
    x = var("x", 4)
    a, b = relax.Var("a"), relax.Var("b")
    block = relax.BindingBlock(
        [relax.VarBinding(a, twice(x)), relax.MatchCast(b, a, tensor(TirVar("n", "int64")))]
    )
    func = BlockBuilder().normalize(relax.Function([x], relax.SeqExpr([block], b), tensor(ndim=1)))
    first, second = func.body.blocks[0].bindings
    assert_structural_equal(first.var.struct_info, tensor(4))
    assert second.var.struct_info is second.struct_info


def test_results_that_no_memory_holds():
    bb, op = BlockBuilder(), register_op("test.huge")
    largest, larger = (tensor(size, dtype="int8") for size in (LIMIT, LIMIT + 1))
    assert bb.normalize(relax.Call(op, [], sinfo_args=[largest])).struct_info is largest
    for info in (larger, relax.TupleStructInfo([tensor(4), larger])):
        with pytest.raises(ValueError, match="the result of test.huge is too large"):
            bb.normalize(relax.Call(op, [], sinfo_args=[info]))


@pytest.mark.parametrize(
    ("info", "kind", "message"),
    [
        (relax.ShapeStructInfo(ndim=2), ValueError, "a shape of known dimensions only"),
        (relax.ObjectStructInfo(), TypeError, "emit_te cannot pass this expression on"),
    ],
)
def test_kernels_of_what_cannot_be_passed_on(info, kind, message):
    bb, given = BlockBuilder(), relax.Var("given", info)
    with pytest.raises(kind, match=message), bb.function("main", [given]):
        bb.emit_te(lambda a: te.compute((2,), lambda i: i), given)
