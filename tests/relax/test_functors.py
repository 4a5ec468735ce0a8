"""Visitors, mutators, the graph rewriter, and copies of functions."""

from __future__ import annotations

import numpy as np
import pytest

from loopwright import relax
from loopwright.base.errors import TVMError
from loopwright.base.span import Span
from loopwright.ir.expr import GlobalVar
from loopwright.ir.module import IRModule
from loopwright.ir.prim_expr import Range
from loopwright.ir.prim_expr import Var as TirVar
from loopwright.ir.structural import assert_structural_equal
from loopwright.relax import BlockBuilder, GraphRewriter, PyExprMutator, PyExprVisitor
from loopwright.relax.analysis import bound_vars, find_violations, free_symbolic_vars
from loopwright.relax.expr_functor import ExprFunctor, mutator, visitor
from loopwright.relax.relations import substitute
from loopwright.relax.specialize import copy_with_new_vars
from loopwright.tir.function import PrimFunc
from loopwright.tir.stmt import Evaluate

from .support import PLUS, TWICE, plus, tensor, twice, var

pytestmark = pytest.mark.no_roundtrip

HOOKS = sorted(
    name
    for name in vars(ExprFunctor)
    if name.startswith("visit_") and name.endswith("_") and not name.startswith("__")
)


def logging_class(base: type, deeper: bool) -> type:
    """A subclass of which every hook logs, then (deeper) does the default."""

    def make(name):
        def hook(self, node):
            self.log.append("  " * self.depth + name.removeprefix("visit_").removesuffix("_"))
            self.depth += 1
            result = getattr(base, name)(self, node) if deeper else node
            self.depth -= 1
            return result

        return hook

    return type("Log", (base,), {"log": [], "depth": 0, **{n: make(n) for n in HOOKS}})


def sample(n: TirVar) -> IRModule:
    bb, x, y = BlockBuilder(), var("x", n), var("y", n)
    with bb.function("main", [x, y]):
        with bb.dataflow():
            a = bb.emit(plus(x, y))
            b = bb.match_cast(a, tensor(TirVar("m", "int64")))
            c = bb.emit((a, b))
            out = bb.emit_output(c[1])
        bb.emit_func_output(out)
    return bb.get()


VISITED = """
function
  var_def
  var_def
  seq_expr
    dataflow_block
      var_binding
        call
          op
          var
            shape_expr
          var
            shape_expr
          shape_expr
        dataflow_var_def
      match_cast
        dataflow_var
          shape_expr
        shape_expr
        dataflow_var_def
      var_binding
        tuple
          dataflow_var
            shape_expr
          dataflow_var
            shape_expr
          shape_expr
          shape_expr
        dataflow_var_def
      var_binding
        tuple_getitem
          dataflow_var
            shape_expr
            shape_expr
          shape_expr
        var_def
    var
      shape_expr
    shape_expr
"""

MUTATED = """
function
  var_def
    shape_expr
  var_def
    shape_expr
  seq_expr
    dataflow_block
      var_binding
        call
          op
          var
          var
          shape_expr
        dataflow_var_def
          shape_expr
      match_cast
        dataflow_var_def
          shape_expr
        dataflow_var
        shape_expr
      var_binding
        tuple
          dataflow_var
          dataflow_var
        dataflow_var_def
          shape_expr
          shape_expr
      var_binding
        tuple_getitem
          dataflow_var
        var_def
          shape_expr
    var
"""


def test_order_of_a_visitor():
    func = sample(TirVar("n", "int64"))["main"]
    made = visitor(logging_class(PyExprVisitor, deeper=True))()
    made.visit_expr(func)
    assert "\n".join(made.log) == VISITED.strip()


def test_order_of_a_mutator_and_identity():
    mod = sample(TirVar("n", "int64"))
    made = mutator(logging_class(PyExprMutator, deeper=True))(mod)
    assert made.visit_expr(mod["main"]) is mod["main"]
    assert "\n".join(made.log) == MUTATED.strip()


def test_every_kind_of_expression_has_its_hook():
    c = relax.Var("c", tensor(dtype="bool"))
    kinds = {
        "constant": relax.const(1.0),
        "tuple": relax.Tuple([]),
        "var": var("x", 4),
        "dataflow_var": relax.DataflowVar("x", tensor(4)),
        "shape_expr": relax.ShapeExpr([1]),
        "extern_func": relax.ExternFunc("f"),
        "global_var": GlobalVar("f"),
        "call": twice(var("x", 4)),
        "if": relax.If(c, c, c),
        "op": TWICE,
        "prim_value": relax.PrimValue(1),
        "string_imm": relax.StringImm("s"),
        "data_type_imm": relax.DataTypeImm("int8"),
        "seq_expr": relax.SeqExpr([], c),
        "function": relax.Function([c], c),
        "tuple_getitem": relax.TupleGetItem(relax.Tuple([c]), 0),
    }
    for base in (PyExprVisitor, PyExprMutator):
        for name, expr in kinds.items():
            made = logging_class(base, deeper=False)()
            made.log = []
            made.visit_expr(expr)
            assert made.log == [name]
            base().visit_expr(expr)
    with pytest.raises(TypeError, match="this is not a Relax expression\n  got: int"):
        PyExprVisitor().visit_expr(3)
    with pytest.raises(NotImplementedError, match="ExprFunctor has no visit_op_"):
        ExprFunctor().visit_expr(TWICE)


def test_decorated_classes_are_closed():
    @visitor
    class Base(PyExprVisitor):
        """Counts calls."""

        def __init__(self):
            self.count = 0

        def visit_call_(self, op):
            self.count += 1
            super().visit_call_(op)

    assert Base.__name__ == "Base" and Base.__doc__ == "Counts calls."
    with pytest.raises(TypeError) as error:

        class Wrong(Base):
            pass

    assert str(error.value) == (
        "Inheritance from a decorated object `Base` is not allowed. "
        "Please inherit from `Base._cls`."
    )

    @visitor
    class Right(Base._cls):
        def visit_op_(self, op):
            self.count += 10

    made = Right()
    made.visit_expr(sample(TirVar("n", "int64"))["main"])
    assert made.count == 11
    with pytest.raises(TypeError, match="inherit from PyExprMutator"):
        mutator(Right._cls)


@mutator
class TwiceToPlus(PyExprMutator):
    """twice(x) -> plus(x, x), as the tutorial writes such a pass."""

    def visit_call_(self, call):
        if call.op is TWICE:
            return plus(call.args[0], call.args[0])
        return super().visit_call_(call)


class TwiceToPlusRewriter(GraphRewriter):
    def call(self, call):
        return plus(call.args[0], call.args[0]) if call.op is TWICE else call


def chain() -> IRModule:
    bb, x = BlockBuilder(), var("x", 4)
    with bb.function("other", [x]):
        bb.emit_func_output(x)
    with bb.function("main", [x]):
        with bb.dataflow():
            bb.span = Span("model", 3, 3, 1, 2)
            a = bb.emit(twice(x), name_hint="a")
            b = bb.emit(plus(a, x), name_hint="b")
            out = bb.emit_output(twice(b))
        bb.emit_func_output(out)
    return bb.get()


def run_mutator(mod):
    made = TwiceToPlus(mod)
    for gvar, func in mod.functions_items():
        made.builder_.update_func(gvar, made.visit_expr(func))
    return made.builder_.get()


@pytest.mark.parametrize("run", [run_mutator, lambda mod: TwiceToPlusRewriter(mod).run()])
def test_bindings_keep_names_and_spans(run):
    mod = chain()
    before = mod["main"]
    after = run(mod)
    assert mod["main"] is before
    assert after["other"] is mod["other"]
    (block,) = after["main"].body.blocks
    assert [b.var.name_hint for b in block.bindings] == ["a", "b", "gv"]
    assert [b.value.op for b in block.bindings] == [PLUS] * 3
    assert [b.var for b in block.bindings] == [b.var for b in before.body.blocks[0].bindings]
    assert block.bindings[0].span.line == 3
    assert find_violations(after) == []
    assert run(after)["main"] is after["main"]


@pytest.mark.parametrize("base", [PyExprMutator, GraphRewriter])
def test_nested_results_become_bindings(base):
    class Nest(base):
        def rewritten(self, call):
            x = call.args[0]
            return plus(twice(plus(x, x)), x) if call.op is TWICE else call

        def call(self, call):
            return self.rewritten(call)

        def visit_call_(self, call):
            return self.rewritten(self.visit_expr_post_order(call))

    func = chain()["main"]
    made = Nest()
    new = made.visit_expr(func) if base is PyExprMutator else made.function(func)
    (block,) = new.body.blocks
    names = [b.var.name_hint for b in block.bindings]
    assert names == ["lv", "lv1", "a", "b", "lv2", "lv3", "gv"]
    assert isinstance(block.bindings[0].var, relax.DataflowVar)
    assert find_violations(new) == []


def test_changed_struct_infos_spread():
    class Shrink(GraphRewriter):
        def call(self, call):
            return relax.op.call_pure_packed("half", *call.args, sinfo_args=tensor(2))

    new = Shrink().function(chain()["main"])
    assert [b.var.struct_info.ndim for b in new.body.blocks[0].bindings] == [1, 1, 1]
    assert_structural_equal(new.ret_struct_info, tensor(2))
    assert find_violations(new) == []


def test_a_changed_parameter_is_seen_by_all_users():
    @mutator
    class Widen(PyExprMutator):
        def visit_var_def_(self, v):
            if v.name_hint != "x":
                return super().visit_var_def_(v)
            return relax.Var("wide", tensor(8))

    new = Widen().visit_expr(chain()["main"])
    assert new.params[0].name_hint == "wide"
    for binding in new.body.blocks[0].bindings:
        assert_structural_equal(binding.var.struct_info, tensor(8))
    assert_structural_equal(new.ret_struct_info, tensor(8))


def test_remap_lookup_and_with_struct_info():
    seen = []

    @mutator
    class Look(PyExprMutator):
        def visit_call_(self, call):
            seen.append(self.lookup_binding(call.args[0]))
            return super().visit_call_(call)

        def visit_var_binding_(self, binding):
            super().visit_var_binding_(binding)
            if binding.var.name_hint == "a":
                self.set_var_remap(binding.var.vid, self.x)

    made = Look()
    func = chain()["main"]
    made.x = func.params[0]
    new = made.visit_expr(func)
    assert [getattr(s, "op", None) for s in seen] == [None, TWICE, PLUS]
    assert new.body.blocks[0].bindings[1].value.args[0] is func.params[0]
    a = func.body.blocks[0].bindings[0].var
    assert made.get_var_remap(a.vid) is func.params[0]
    with pytest.raises(KeyError):
        made.get_var_remap(new.body.blocks[0].bindings[1].var.vid)
    same = made.with_struct_info(a, tensor(4))
    other = made.with_struct_info(a, tensor(5))
    assert same is a and other is not a and other.vid is a.vid
    assert isinstance(other, relax.DataflowVar)


def test_dropping_and_adding_bindings():
    class Double(GraphRewriter):
        def binding(self, binding):
            if binding.var.name_hint == "a":
                self.var_map[binding.var] = self.builder.emit(twice(twice(binding.value.args[0])))
            else:
                super().binding(binding)

    (block,) = Double().function(chain()["main"]).body.blocks
    assert [b.var.name_hint for b in block.bindings] == ["lv", "lv1", "b", "gv"]
    assert block.bindings[2].value.args[0] is block.bindings[1].var


def test_branches_are_rewritten_in_their_own_blocks():
    c, x = relax.Var("c", tensor(dtype="bool")), var("x", 4)
    bb = BlockBuilder()
    with bb.function("main", [c, x]):
        bb.emit_func_output(bb.emit(relax.If(c, twice(x), plus(x, x))))
    func = bb.get()["main"]
    for new in (TwiceToPlus().visit_expr(func), TwiceToPlusRewriter().function(func)):
        node = new.body.blocks[0].bindings[0].value
        assert node.true_branch.blocks[0].bindings[0].value.op is PLUS
        assert node.false_branch is func.body.blocks[0].bindings[0].value.false_branch
        assert find_violations(new) == []


# ---------------------------------------------------------------- copies


def pair(n: TirVar) -> relax.Function:
    bb, x, y = BlockBuilder(), var("x", n, 4), var("y", n, 4)
    with bb.function("pair", [x, y]):
        with bb.dataflow():
            out = bb.emit_output(twice(plus(x, y)))
        bb.emit_func_output(out)
    return bb.get()["pair"]


def test_copy_with_new_vars():
    func = pair(TirVar("n", "int64"))
    copy = copy_with_new_vars(func)
    assert_structural_equal(copy, func)
    assert not set(bound_vars(copy)) & set(bound_vars(func))
    assert copy.params[0].struct_info.shape[0] is not func.params[0].struct_info.shape[0]
    assert free_symbolic_vars(copy) == []


def test_bound_dimensions_are_simplified_and_must_stay_defined():
    n, m = TirVar("n", "int64"), TirVar("m", "int64")
    bb, x = BlockBuilder(), var("x", n, m)
    with bb.function("main", [x]):
        bb.emit_func_output(bb.emit(relax.op.call_dps_packed("f", x, tensor(2 * m * n))))
    func = bb.get()["main"]
    (binding,) = func.bind_symbolic_vars({"n": 16}).body.blocks[0].bindings
    assert str(binding.var.struct_info.shape.values[0]) == "m * T.int64(32)"
    other = TirVar("k", "int64")
    made = func.bind_symbolic_vars({"n": other * 2, "m": other})
    assert made.params[0].struct_info.shape.values[1] is other
    with pytest.raises(TVMError, match=r"(?s)no parameter defines.*got: k"):
        func.bind_symbolic_vars({"n": other * 2})


def test_what_is_known_of_a_bound_parameter_is_known_of_what_follows():
    bb, x = BlockBuilder(), relax.Var("x", relax.TensorStructInfo(None, "void"))
    with bb.function("main", [x]):
        alias = bb.emit(x)
        bb.emit_func_output(bb.emit(plus(alias, alias)))
    made = bb.get()["main"].bind_params({"x": np.zeros((3, 4), "float32")})
    infos = [b.var.struct_info for b in made.body.blocks[0].bindings]
    for info in (*infos, made.ret_struct_info):
        assert_structural_equal(info, tensor(3, 4))


def test_bind_symbolic_vars():
    n = TirVar("n", "int64")
    func = pair(n)
    for key in ("n", n):
        made = func.bind_symbolic_vars({key: 3})
        assert_structural_equal(made.ret_struct_info, tensor(3, 4))
        assert find_violations(made) == []
    assert func.bind_symbolic_vars({}) is func
    with pytest.raises(ValueError) as error:
        func.bind_symbolic_vars({"k": 3})
    assert str(error.value) == (
        "the function has no symbolic variable 'k'\n  instead: its symbolic variables are: n"
    )
    with pytest.raises(TypeError, match="'n' needs an integer or an expression\n  got: I.Range"):
        func.bind_symbolic_vars({"n": Range(0, 3)})
    with pytest.raises(ValueError, match="'n' is bound twice"):
        func.bind_symbolic_vars({"n": 3, n: 3})


def test_bind_params_solves_symbols():
    func = pair(TirVar("n", "int64"))
    data = np.zeros((3, 4), "float32")
    made = func.bind_params({"y": data})
    assert [p.name_hint for p in made.params] == ["x"]
    assert_structural_equal(made.params[0].struct_info, tensor(3, 4))
    assert_structural_equal(made.ret_struct_info, tensor(3, 4))
    call = made.body.blocks[0].bindings[0].value
    assert isinstance(call.args[1], relax.Constant) and find_violations(made) == []
    assert made.attrs["global_symbol"] == "pair"
    with pytest.raises(ValueError, match="the function has no parameter 'z'"):
        func.bind_params({"z": data})
    with pytest.raises(ValueError, match="parameter y cannot be this value"):
        func.bind_params({"y": np.zeros(3, "float32")})


def test_inline_functions():
    n = TirVar("n", "int64")
    inner = pair(TirVar("k", "int64"))
    bb, x = BlockBuilder(IRModule({"pair": inner})), var("x", n, 4)
    with bb.function("main", [x]):
        with bb.dataflow():
            a = bb.emit(relax.Call(GlobalVar("pair"), [x, x]))
            out = bb.emit_output(relax.Call(GlobalVar("pair"), [a, x]))
        bb.emit_func_output(out)
    new = bb.get()["main"].inline_functions({"pair": inner})
    (block,) = new.body.blocks
    assert [getattr(b.value, "op", None) for b in block.bindings].count(TWICE) == 2
    assert_structural_equal(new.ret_struct_info, tensor(n, 4))
    assert find_violations(new) == []


def test_a_copy_with_local_functions_renames_what_they_capture():
    k, a = TirVar("k", "int64"), TirVar("a", "int64")
    bb, x, y, z = BlockBuilder(), var("x", k), var("y", k), var("z", a)
    with bb.function("main", [x]):
        captures = bb.emit(relax.Function([y], relax.SeqExpr([], plus(x, y)), tensor(k)))
        own = bb.emit(relax.Function([z], relax.SeqExpr([], twice(z)), tensor(a)))
        out = bb.emit(relax.Call(own, [relax.Call(captures, [x])]))
        bb.emit_func_output(out)
    func = bb.get()["main"]
    assert_structural_equal(func.ret_struct_info, tensor(k))
    copy = copy_with_new_vars(func)
    assert_structural_equal(copy, func)
    assert free_symbolic_vars(copy) == [] and find_violations(copy) == []
    assert PyExprMutator().visit_expr(func) is func is GraphRewriter().function(func)


def test_the_struct_info_of_a_cast_is_that_of_its_variable():
    n, m = TirVar("n", "int64"), TirVar("m", "int64")
    bb, x = BlockBuilder(), relax.Var("x", tensor(ndim=1))
    with bb.function("main", [x]):
        bb.emit_func_output(bb.match_cast(x, tensor(n)))
    func = bb.get()["main"]

    @mutator
    class Renamed(PyExprMutator):
        def visit_prim_expr(self, expr):
            return m if expr is n else expr

    changed = Renamed().visit_expr(func).body.blocks[0].bindings[0]
    for binding, size in ((changed, m), (func.body.blocks[0].bindings[0], n)):
        assert binding.struct_info.shape[0] is size and binding.var.struct_info.shape[0] is size


def scalars(n: TirVar) -> relax.Function:
    """A function with scalars in all kinds of struct infos."""
    s = relax.Var("s", relax.ShapeStructInfo([n, n + 1]))
    p = relax.Var("p", relax.PrimStructInfo(value=n * 2))
    t = relax.Var("t", relax.TupleStructInfo([relax.PrimStructInfo(value=n * 3)]))
    f = relax.Var("f", relax.FuncStructInfo([tensor(n * 4)], tensor(n * 5), False))
    unknown = [relax.Var("u", relax.ShapeStructInfo(ndim=2)), relax.Var("v", tensor(ndim=1))]
    unknown += [relax.Var("w", relax.PrimStructInfo("int64"))]
    bb = BlockBuilder()
    with bb.function("main", [s, p, t, f, *unknown]):
        bb.emit_func_output(bb.emit(relax.Tuple([s, p, t, f, *unknown, relax.PrimValue(n * 6)])))
    return bb.get()["main"]


def test_what_a_call_says_of_its_result_is_visited():
    class Infos(PyExprVisitor):
        def visit_struct_info(self, struct_info):
            seen.append(struct_info)

    seen: list[relax.StructInfo] = []
    infos = [tensor(2), tensor(3)]
    Infos().visit_call_(relax.Call(relax.ExternFunc("f"), [var("x", 2)], sinfo_args=infos))
    assert all(i in seen for i in infos)

    class Longer(PyExprMutator):
        def visit_struct_info(self, struct_info):
            return tensor(4) if struct_info == infos[0] else struct_info

    call = relax.Call(relax.ExternFunc("f"), [var("x", 2)], sinfo_args=infos)
    made = Longer().visit_call_(call)
    assert list(made.sinfo_args) == [tensor(4), infos[1]] and made.op is call.op


def test_scalars_of_all_struct_infos_are_visited():
    @visitor
    class Scalars(PyExprVisitor):
        def visit_prim_expr(self, expr):
            seen.append(str(expr))

    seen: list[str] = []
    func = scalars(TirVar("n", "int64"))
    Scalars().visit_expr(func.body.blocks[0].bindings[0].value)
    expected = ["n", "n + T.int64(1)", "n * T.int64(2)", "n * T.int64(3)", "n * T.int64(6)"]
    assert list(dict.fromkeys(seen)) == expected


def test_scalars_of_all_struct_infos_are_rewritten():
    n, m = TirVar("n", "int64"), TirVar("m", "int64")

    @mutator
    class Rename(PyExprMutator):
        def visit_prim_expr(self, expr):
            return substitute(expr, {n: m})

    func = scalars(n)
    assert_structural_equal(Rename().visit_expr(func), scalars(m))
    derive = "vm.builtin.some_function"
    info = relax.FuncStructInfo([tensor(n)], tensor(n), False, derive)
    new = Rename().visit_struct_info(info)
    assert new.derive_func == derive and not new.purity
    assert_structural_equal(new.params[0], tensor(m), map_free_vars=False)
    assert_structural_equal(new.ret, tensor(m), map_free_vars=False)
    for same in (tensor(m), relax.PrimStructInfo("int64"), relax.FuncStructInfo.opaque_func()):
        assert Rename().visit_struct_info(same) is same
    span = Span("file", 1, 1)
    assert Rename().visit_span(span) is span


VISITED_BRANCHES = """
seq_expr
  binding_block
    var_binding
      if
        var
        seq_expr
          binding_block
            var_binding
              call
                op
                var
                  shape_expr
                shape_expr
              var_def
          var
            shape_expr
          shape_expr
        seq_expr
          var
            shape_expr
          shape_expr
        shape_expr
      var_def
  var
    shape_expr
  shape_expr
"""


def test_branches_and_plain_blocks_are_visited():
    c, x = relax.Var("c", tensor(dtype="bool")), var("x", 4)
    bb = BlockBuilder()
    with bb.function("main", [c, x]):
        bb.emit_func_output(bb.emit(relax.If(c, twice(x), x)))
    made = logging_class(PyExprVisitor, deeper=True)()
    made.log = []
    made.visit_expr(bb.get()["main"].body)
    assert "\n".join(made.log) == VISITED_BRANCHES.strip()


def test_kernels_are_not_entered():
    kernel = PrimFunc([], Evaluate(0))
    assert PyExprMutator().visit_expr(kernel) is kernel


def test_a_mutator_that_does_not_call_the_constructor():
    @mutator
    class Own(PyExprMutator):
        def __init__(self):
            self.count = 0

    x = var("x", 4)
    func = relax.Function([x], relax.SeqExpr([], x), tensor(4))
    assert Own().visit_expr(func).params == (x,)
    with pytest.raises(AttributeError, match="'Own' object has no attribute 'other'"):
        _ = Own().other


def test_new_values_give_their_struct_info():
    made, bare = PyExprMutator(), relax.Var("v")
    assert made.with_struct_info(bare, tensor(4)) is bare
    assert_structural_equal(bare.struct_info, tensor(4))
    assert made.with_struct_info(bare, tensor(4)) is bare
    other = made.with_struct_info(bare, tensor(5))
    assert other is not bare and other.vid is bare.vid

    @mutator
    class Lost(PyExprMutator):
        def visit_call_(self, call):
            return relax.Var("lost")

    x = var("x", 4)
    bb = BlockBuilder()
    with bb.function("main", [x]):
        bb.emit_func_output(bb.emit(twice(x), name_hint="y"))
    with pytest.raises(ValueError, match="the new value of y has no struct info"):
        Lost().visit_expr(bb.get()["main"])


def test_a_recursive_function_is_not_inlined():
    x, gvar = var("x", 2), GlobalVar("main")
    gvar.struct_info = relax.FuncStructInfo([tensor(2)], tensor(2))
    bb = BlockBuilder()
    with bb.function("main", [x]):
        bb.emit_func_output(bb.emit(relax.Call(gvar, [x])))
    func = bb.get()["main"]
    with pytest.raises(
        ValueError, match="(?s)a recursive function cannot be inlined.*main -> main"
    ):
        func.inline_functions({gvar: func})
