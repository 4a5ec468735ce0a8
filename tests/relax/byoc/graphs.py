"""Graphs that are partitioned, and short ways to say patterns."""

from __future__ import annotations

from typing import Any

from loopwright.relax.dpl import is_op, wildcard
from loopwright.script import ir as I
from loopwright.script import relax as R
from loopwright.script import tir as T

from ...programs import graph


def op(name: str, *args: Any) -> Any:
    """The pattern of a call of relax.NAME; of one with anything as argument without `args`."""
    return is_op(f"relax.{name}")(*(args or (wildcard(),)))


def each(backend: str, *names: str) -> list[Any]:
    """A pattern for each operator alone."""
    binary = ("add", "multiply", "matmul", "broadcast_to", "reshape")
    return [
        (f"{backend}.{n}", op(n, *([wildcard(), wildcard()] if n in binary else []))) for n in names
    ]


CONV = op("nn.conv2d", wildcard(), wildcard())
CONV_RELU = op("nn.relu", CONV)
EXP_RELU = op("nn.relu", op("exp"))


TwoConvs = graph(
    """
    conv1 = R.nn.relu(R.nn.conv2d(data, weight1, padding=(1, 1)))
    conv2 = R.nn.relu(R.nn.conv2d(conv1, weight2, padding=(1, 1)))
    """,
    data=(1, 4, 8, 8),
    weight1=(4, 4, 3, 3),
    weight2=(4, 4, 3, 3),
)


Branching = graph(
    """
    c = R.nn.conv2d(data, weight, padding=(1, 1))
    r = R.nn.relu(c)
    g = R.nn.gelu(c)
    o = R.add(r, g)
    """,
    data=(1, 4, 8, 8),
    weight=(4, 4, 3, 3),
)


Dense = graph("m = R.matmul(x, w); a = R.add(m, b)", x=(2, 4), w=(4, 3), b=(3,))


@I.ir_module
class Reshaped:
    @R.function
    def main(x: R.Tensor(("n", 4), "float32"), y: R.Tensor(("n", "m"), "float32")):
        n = T.int64()
        with R.dataflow():
            a = R.exp(x)
            b = R.reshape(a, R.shape([n * 2, 2]))
            c = R.add(y, y)
            R.output(b, c)
        return (b, c)


@I.ir_module
class Broadcast:
    @R.function
    def main(x: R.Tensor(("n", 1), "float32"), s: R.Shape(["n", "m"])):
        n = T.int64()
        m = T.int64()
        with R.dataflow():
            b = R.broadcast_to(x, R.shape([n, m]))
            c = R.exp(b)
            R.output(c)
        return c


@I.ir_module
class If:
    @R.function
    def main(x: R.Tensor((4,), "float32"), c: R.Tensor((), "bool")) -> R.Tensor((4,), "float32"):
        if c:
            with R.dataflow():
                a = R.exp(x)
                b = R.nn.relu(a)
                R.output(b)
            z = b
        else:
            with R.dataflow():
                a = R.sin(x)
                b = R.nn.relu(a)
                R.output(b)
            z = b
        return z


Split = graph("s = R.split(x, 2, axis=0); a = s[0]; b = s[1]; c = R.add(a, b)", x=(4, 4))


Skip = graph("a = R.exp(x); b = R.sin(a); c = R.add(a, b)", x=(4,))
TwoResults = graph("a = R.exp(x); b = R.nn.relu(a)", "a, b", x=(4,))
Renamed = graph("a = R.exp(x); a1 = a; b = R.nn.relu(a1)", x=(4,))
Fields = graph(
    "a = x[0]; b = x[2]; c = R.add(a, b); d = R.nn.relu(c)",
    x='R.Tuple(R.Tensor((4,), "float32"), R.Tensor((4,), "float32"), R.Tensor((4,), "float32"))',
)
Concat = graph("c = R.concat((x, y), axis=0); d = R.nn.relu(c)", x=(4,), y=(4,))
Diamond = graph("a = R.exp(x); b = R.sin(a); c = R.cos(a); d = R.add(b, c)", x=(4,))
FarDiamond = graph("a = R.exp(x); b = R.tanh(a); c = R.sin(b); d = R.add(a, c)", x=(4,))
Parallel = graph(
    "a = R.exp(x); b = R.exp(y); c = R.sin(a); d = R.sin(b); e = R.add(c, d)", x=(4,), y=(4,)
)
StaticReshape = graph("a = R.exp(x); b = R.reshape(a, R.shape([4, 4])); c = R.exp(b)", x=(2, 8))
Fork = graph("a = R.exp(x); b = R.sin(a); c = R.cos(b)", "b, c", x=(4,))


@I.ir_module
class Calls:
    @T.prim_func(private=True)
    def inc(x: T.Buffer((T.int64(4),), "float32"), y: T.Buffer((T.int64(4),), "float32")):
        for i in range(T.int64(4)):
            with T.block("y"):
                v = T.axis.spatial(T.int64(4), i)
                y[v] = x[v] + T.float32(1)

    @R.function
    def main(x: R.Tensor((4,), "float32")):
        cls = Calls
        with R.dataflow():
            a = R.exp(x)
            b = R.call_tir(cls.inc, (a,), out_sinfo=R.Tensor((4,), "float32"))
            c = R.exp(b)
            R.output(c)
        return c


Literals = graph(
    """
    m = R.matmul(x, R.const([[1.0, 2.0], [3.0, 4.0]], "float32"))
    a = R.add(m, R.const([1.0, 1.0], "float32"))
    b = R.multiply(a, R.const(2.0, "float32"))
    """,
    x=(2, 2),
)


Chain = graph("a = R.exp(x); b = R.exp(a); c = R.exp(b)", x=(4,))


@I.ir_module
class NoDataflow:
    @R.function
    def main(x: R.Tensor((4,), "float32")):
        a = R.exp(x)
        b = R.nn.relu(a)
        return b
