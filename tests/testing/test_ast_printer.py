"""The tree of a Relax program as text."""

from __future__ import annotations

import pytest

from loopwright import relax, tir
from loopwright.ir import GlobalVar
from loopwright.script import relax as R
from loopwright.testing import dump_ast
from loopwright.testing.ast_printer import ASTPrinter


@R.function
def scaled(x: R.Tensor(("n", 2), "float32")) -> R.Tensor(("n", 2), "float32"):
    with R.dataflow():
        y = R.nn.softmax(x, axis=-1)
        z = R.multiply(y, R.const(2.0, "float32"))
        R.output(z)
    return z


TREE = """\
Function(
  params=[Var(name_hint="x")],
  body=SeqExpr(
    blocks=[
      DataflowBlock(
        bindings=[
          VarBinding(
            var=DataflowVar(name_hint="y"),
            value=Call(
              op=Op(name="relax.nn.softmax"),
              args=[Var(name_hint="x")],
              attrs={"axis": -1}
            )
          ),
          VarBinding(
            var=Var(name_hint="z"),
            value=Call(
              op=Op(name="relax.multiply"),
              args=[
                DataflowVar(name_hint="y"),
                Constant(data=2.0)
              ]
            )
          )
        ]
      )
    ],
    body=Var(name_hint="z")
  ),
  ret_struct_info=TensorStructInfo(
    dtype=float32,
    shape=ShapeExpr(
      values=[
        PrimExpr(value=`n`),
        PrimExpr(value=`T.int64(2)`)
      ]
    )
  ),
  is_pure=True,
  attrs={"global_symbol": "scaled"}
)"""


def test_function():
    assert dump_ast(scaled, "  ", include_struct_info_annotations=False) == TREE
    known = dump_ast(scaled)
    assert known.count("struct_info=TensorStructInfo(") > 5
    assert '"axis"' in known
    assert '"axis"' not in dump_ast(scaled, include_call_attrs=False)


def test_others():
    show = ASTPrinter(include_struct_info_annotations=False)
    condition = relax.Var("c", R.Tensor((), "bool"))
    one = relax.If(condition, relax.PrimValue(1), relax.StringImm("no"))
    text = show.visit_expr(one)
    assert 'cond=Var(name_hint="c")' in text
    assert 'body=StringImm(value="no")' in text
    assert show.visit_expr(GlobalVar("main")) == 'GlobalVar(name_hint="main")'
    assert show.visit_expr(relax.ExternFunc("f")) == 'ExternFunc(global_symbol="f")'
    assert show.visit_type_(relax.ObjectType()) == "ObjectType()"
    info = relax.FuncStructInfo([relax.ShapeStructInfo(ndim=1)], relax.PrimStructInfo("int64"))
    assert show.visit_struct_info_(info) == (
        "FuncStructInfo(\n    params=[ShapeStructInfo(ndim=1)],\n"
        "    ret=PrimStructInfo(dtype=int64),\n    purity=True\n)"
    )


def test_match_cast_takes_what_annotations_are():
    cast = relax.MatchCast(
        relax.Var("v", R.Tensor(ndim=1)), relax.const([1, 2]), R.Tensor((2,), "int32")
    )
    assert isinstance(cast.struct_info, relax.TensorStructInfo)
    assert "struct_info=TensorStructInfo(" in dump_ast(cast)


def test_other_things():
    with pytest.raises(TypeError, match="dump_ast prints nodes of Relax\n  got: int"):
        dump_ast(3)


def test_attributes_that_are_literals():
    attrs = {"yes": tir.IntImm("bool", 1), "two": tir.IntImm("int64", 2), "text": "t"}
    body = relax.SeqExpr([], relax.PrimValue(1))
    func = relax.Function([], body, R.Prim("int64"), attrs=attrs)
    text = dump_ast(func, include_struct_info_annotations=False)
    for part in ('"yes": True', '"two": 2', '"text": "t"'):
        assert part in text
