"""Mistakes that a type checker finds; every line that ends in a comment is one."""

from __future__ import annotations

import loopwright as lw
from loopwright import relax, te, tir, topi
from loopwright.script import relax as R
from loopwright.script import tir as T

x = relax.Var("x", relax.TensorStructInfo((8, 8), "float32"))
n = tir.Var("n", "int64")

relax.op.nn.rellu(x)  # no such operator
relax.op.add(x)  # an argument is missing
relax.op.matmul("x", x)  # a string is not a tensor
relax.op.astype(x, dtype=32)  # nor is a number a dtype
relax.op.nn.softmax(x, axes=-1)  # no such attribute
R.emmit(x)  # no such name in a dialect
T.griid(4, 4)  # here either
topi.nn.reluu(te.placeholder((4,), name="p"))  # nor here
lw.compil("model.onnx")  # nor at the front door
relax.VarBinding(x)  # a field is missing
tir.Add(n, n, 1)  # one too many
relax.VarBinding(x, x).values  # no such field
