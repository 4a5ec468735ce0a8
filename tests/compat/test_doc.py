"""TVM's documents of Python text."""

from __future__ import annotations

import ast

import pytest

from loopwright.compat.doc import (
    AssertDoc,
    AssignDoc,
    CallDoc,
    ClassDoc,
    CommentDoc,
    DictDoc,
    ExprStmtDoc,
    ForDoc,
    FunctionDoc,
    IdDoc,
    IfDoc,
    LambdaDoc,
    ListDoc,
    LiteralDoc,
    OperationDoc,
    OperationKind,
    ReturnDoc,
    ScopeDoc,
    SliceDoc,
    StmtBlockDoc,
    TupleDoc,
    WhileDoc,
    to_python_script,
)
from loopwright.ir.object_path import ObjectPath

X, Y, Z, ONE = IdDoc("x"), IdDoc("y"), IdDoc("z"), LiteralDoc(1)


def op(name, *operands):
    return OperationDoc(OperationKind[name], operands)


@pytest.mark.parametrize(
    ("doc", "text"),
    [
        (op("Mult", X, op("Add", Y, Z)), "x * (y + z)"),
        (op("Pow", op("USub", X), op("Pow", Y, Z)), "(-x) ** y ** z"),
        (op("Sub", X, op("Sub", Y, Z)), "x - (y - z)"),
        (op("Not", op("And", X, Y)), "not (x and y)"),
        (op("IfThenElse", X, op("IfThenElse", Y, Y, Y), ONE), "y if y else y if x else 1"),
        (op("IfThenElse", op("Or", X, Y), X, op("Or", X, Y)), "x if x or y else x or y"),
        (op("Or", op("IfThenElse", X, Y, Z), X), "(y if x else z) or x"),
        (LambdaDoc([X], op("Add", X, ONE)).call(Y), "(lambda x: x + 1)(y)"),
        (op("Add", X, Y)[SliceDoc(ONE), SliceDoc(step=ONE)].attr("a"), "(x + y)[1:, ::1].a"),
        (CallDoc(X, ListDoc([Y]), k=DictDoc({LiteralDoc("a\n"): Z})), 'x([y], k={"a\\n": z})'),
        (X[()], "x[()]"),
        (TupleDoc([X]), "(x,)"),
    ],
)
def test_expressions(doc, text):
    assert to_python_script(doc) == text
    ast.parse(text)


def test_statements():
    loop = ForDoc(TupleDoc([X, Y]), Z, [WhileDoc(X, [])])
    loop.comment = "twice\nnested"
    method = FunctionDoc(X, [AssignDoc(Y, ONE, IdDoc("int"))], [Z], LiteralDoc(None), [])
    method.comment = "What it does.\n\nHow."
    body = [method, FunctionDoc(Y, [], [], None, [ReturnDoc(X)])]
    branch = IfDoc(X, [ScopeDoc(Y, Z, [AssertDoc(X, ONE)])], [ExprStmtDoc(X)])
    noted = AssignDoc(X, Y)
    noted.comment = "beside"
    block = StmtBlockDoc([CommentDoc("top"), loop, branch, ClassDoc(Z, [X], body), noted])
    text = to_python_script(block)
    assert (
        text
        == '''\
# top
# twice
# nested
for x, y in z:
    while x:
        pass
if x:
    with z as y:
        assert x, 1
else:
    x
@x
class z:
    @z
    def x(y: int = 1) -> None:
        """
        What it does.

        How.
        """
        pass

    def y():
        return x

x = y  # beside'''
    )
    ast.parse(text)


def test_errors():
    for wrong in (
        lambda: AssignDoc(X, None),
        lambda: AssignDoc(TupleDoc([X]), Y, Z),
        lambda: IfDoc(X, [], []),
    ):
        with pytest.raises(ValueError):
            wrong()
    doc = ReturnDoc(X)
    doc.comment = "two\nlines"
    with pytest.raises(ValueError, match="cannot have newline"):
        to_python_script(doc)
    with pytest.raises(TypeError, match="document of an expression"):
        to_python_script(ReturnDoc(3))
    with pytest.raises(RuntimeError, match="has no items"):
        list(X)


def test_underline():
    path = ObjectPath.root().attr("body")
    shown = IdDoc("abc")
    shown.source_paths = [path]
    doc = StmtBlockDoc([ExprStmtDoc(X), ExprStmtDoc(op("Add", X, shown))])
    wanted = "x\nx + abc\n    ^^^"
    assert to_python_script(doc, path_to_underline=[path]) == wanted
    assert to_python_script(doc, path_to_underline=[path.array_index(1)]) == wanted
