"""Adding, removing and replacing bindings of a dataflow block."""

from __future__ import annotations

import pytest

from loopwright import relax
from loopwright.base.errors import TVMError
from loopwright.ir.module import IRModule
from loopwright.tvm.relax.binding_rewrite import DataflowBlockRewrite

from .support import plus, twice, var

pytestmark = pytest.mark.no_roundtrip


def build():
    """main(x): a = 2x; b = a + a; c = b + x (its result); unused = 2c in a second block."""
    bb, x = relax.BlockBuilder(), var("x", 4)
    with bb.function("main", [x]):
        with bb.dataflow():
            a = bb.emit(twice(x), name_hint="a")
            b = bb.emit(plus(a, a), name_hint="b")
            c = bb.emit_output(plus(b, x), name_hint="c")
        bb.emit(twice(c), name_hint="unused")
        bb.emit_func_output(c)
    return bb.get()


@pytest.fixture
def rewrite():
    func = build()["main"]
    return DataflowBlockRewrite(func.body.blocks[0], func)


def names(rewrite):
    return [[b.var.name_hint for b in block.bindings] for block in rewrite.root_fn.body.blocks]


def test_a_binding_stands_behind_what_it_uses(rewrite):
    a, b, _ = [b.var for b in rewrite.dfb.bindings]
    old = rewrite.root_fn
    rewrite.add(twice(a), is_dfvar=True)
    rewrite.add(twice(b))
    rewrite.add(twice(b), name="again")
    assert names(rewrite) == [["a", "tmp", "b", "again", "tmp1", "c"], ["unused"]]
    assert type(rewrite.dfb.bindings[1].var) is relax.DataflowVar
    assert type(rewrite.dfb.bindings[4].var) is relax.Var
    assert len(old.body.blocks[0].bindings) == 3
    assert rewrite.mutated_root_fn().body.blocks[0] is rewrite.mutated_dfb()
    relax.analysis.assert_well_formed(IRModule({"main": rewrite.root_fn}))


def test_uses_are_replaced_then_the_definition_goes(rewrite):
    a, b, _ = [b.var for b in rewrite.dfb.bindings]
    x = rewrite.root_fn.params[0]
    with pytest.raises(TVMError, match=r"(?s)a is used.*by b.*replace its uses first"):
        rewrite.remove_unused(a)
    rewrite.replace_all_uses(a, x)
    assert rewrite.dfb.bindings[1].value.args == (x, x)
    rewrite.remove_unused(a)
    assert names(rewrite) == [["b", "c"], ["unused"]]
    with pytest.raises(TVMError, match="does not define z"):
        rewrite.replace_all_uses(b, var("z", 4))


def test_unknown_variables(rewrite):
    unknown = var("z", 4)
    with pytest.raises(TVMError, match=r"(?s)does not bind z.*allow_undef"):
        rewrite.remove_unused(unknown)
    before = rewrite.root_fn
    rewrite.remove_unused(unknown, allow_undef=True)
    assert rewrite.mutated_root_fn() is before
    with pytest.raises(TVMError, match="not in the function"):
        DataflowBlockRewrite(build()["main"].body.blocks[0], before)
    binding = rewrite.dfb.bindings[0]
    with pytest.raises(TVMError, match="a is defined already"):
        rewrite.add_binding(binding)


def test_the_functions_result_is_a_use(rewrite):
    c = rewrite.dfb.bindings[-1].var
    rewrite.replace_all_uses(c, rewrite.root_fn.params[0])
    rewrite.remove_all_unused()
    assert names(rewrite) == []
    with pytest.raises(TVMError, match="removed is gone"):
        rewrite.add(twice(rewrite.root_fn.params[0]))


def test_all_unused_bindings_go_in_every_block(rewrite):
    rewrite.remove_all_unused()
    assert names(rewrite) == [["a", "b", "c"]]


def test_the_function_of_a_module(rewrite):
    mod = build()
    func = mod["main"]
    rewrite = DataflowBlockRewrite(func.body.blocks[0], func)
    rewrite.remove_all_unused()
    new = rewrite.mutate_irmodule(mod)
    assert new["main"] is rewrite.mutated_root_fn()
    assert mod["main"] is func
