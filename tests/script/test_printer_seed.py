"""The four modules that the transformation tutorial (seed 2) prints, built by hand; the goldens
are the tutorial's own text, the package's name in the header apart."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from loopwright.ir.expr import Attrs, GlobalVar
from loopwright.ir.module import IRModule
from loopwright.ir.op import register_op
from loopwright.ir.prim_expr import FloatImm, IntImm, IterVar, Max, Range, Var
from loopwright.relax import expr as rx
from loopwright.relax.struct_info import TensorStructInfo
from loopwright.script import printer
from loopwright.tir.buffer import Buffer, BufferRegion, decl_buffer
from loopwright.tir.function import PrimFunc
from loopwright.tir.stmt import Block, BlockRealize, BufferStore, For, seq

NOALIAS = {"tir.noalias": True}


def long(value: int) -> IntImm:
    return IntImm("int64", value)


def buffer(name: str, *shape: Any) -> Buffer:
    return decl_buffer([long(s) if isinstance(s, int) else s for s in shape], "float32", name)


def function(
    body: Any, *params: tuple[str, Buffer], alloc: tuple[Buffer, ...] = (), attrs: Any = None
) -> PrimFunc:
    """Parameters are (name of the handle, buffer); the body gets its root block."""
    root = BlockRealize([], True, Block([], [], [], "root", body, alloc_buffers=alloc))
    handles = [(Var(name, "handle"), view) for name, view in params]
    return PrimFunc([h for h, _ in handles], root, None, dict(handles), attrs or NOALIAS)


def nest(
    name: str,
    axes: dict[str, Any],
    compute: Callable[..., Any],
    writes: Callable[..., Any],
    init: Any = None,
    reads: Callable[..., list] | None = None,
) -> For:
    """Loops over `axes` around one block; an axis called `k` reduces."""
    loops = {n: Var(n, "int64") for n in axes}
    iters = {
        n: IterVar(Range(long(0), extent), Var("v_" + n, "int64"), 2 if n == "k" else 0)
        for n, extent in axes.items()
    }
    v = [axis.var for axis in iters.values()]
    target, indices = writes(*v)
    points = [(b, i) for b, i in reads(*v)]
    body = BufferStore(target, compute(*v), indices)
    start = None if init is None else BufferStore(target, init, indices)
    block = Block(
        list(iters.values()),
        [BufferRegion.from_point(b, i) for b, i in points],
        [BufferRegion.from_point(target, indices)],
        name,
        body,
        start,
    )
    stmt: Any = BlockRealize(list(loops.values()), True, block)
    for n in reversed(axes):
        stmt = For(loops[n], long(0), axes[n], 0, stmt)
    return stmt


def extents(*sizes: Any) -> list[Any]:
    return [long(s) if isinstance(s, int) else s for s in sizes]


def add_nest(a: Buffer, b: Buffer, out: Buffer) -> For:
    return nest(
        "T_add",
        dict(zip(("ax0", "ax1"), out.shape, strict=True)),
        lambda i, j: a[i, j] + b[j],
        lambda i, j: (out, [i, j]),
        reads=lambda i, j: [(a, [i, j]), (b, [j])],
    )


def matmul_nest(a: Buffer, b: Buffer, out: Buffer) -> For:
    return nest(
        "matmul",
        dict(zip(("i0", "i1", "k"), (*out.shape, b.shape[0]), strict=True)),
        lambda i, j, k: out[i, j] + a[i, k] * b[k, j],
        lambda i, j, k: (out, [i, j]),
        FloatImm("float32", 0.0),
        reads=lambda i, j, k: [(a, [i, k]), (b, [k, j])],
    )


def relu_nest(a: Buffer, out: Buffer) -> For:
    return nest(
        "compute",
        dict(zip(("i0", "i1"), out.shape, strict=True)),
        lambda i, j: Max(a[i, j], FloatImm("float32", 0.0)),
        lambda i, j: (out, [i, j]),
        reads=lambda i, j: [(a, [i, j])],
    )


def add_func(a: str, b: str, width: int) -> PrimFunc:
    n = Var("n", "int64")
    x, y, z = buffer(a, n, width), buffer(b, width), buffer("T_add", n, width)
    return function(add_nest(x, y, z), ("var_" + a, x), (b, y), ("var_T_add", z))


def matmul_func(a: str, b: str, inner: int, width: int) -> PrimFunc:
    n = Var("n", "int64")
    x, y, z = buffer(a, n, inner), buffer(b, inner, width), buffer("matmul", n, width)
    return function(matmul_nest(x, y, z), ("var_" + a, x), (b, y), ("var_matmul", z))


def relu_func() -> PrimFunc:
    n = Var("n", "int64")
    x, z = buffer("add", n, 128), buffer("compute", n, 128)
    return function(relu_nest(x, z), ("var_add", x), ("var_compute", z))


def transpose_func(a: str, rows: int, columns: int, attrs: Any = None) -> PrimFunc:
    x, z = buffer(a, rows, columns), buffer("T_transpose", columns, rows)
    body = nest(
        "T_transpose",
        dict(zip(("ax0", "ax1"), z.shape, strict=True)),
        lambda i, j: x[j, i],
        lambda i, j: (z, [i, j]),
        reads=lambda i, j: [(x, [j, i])],
    )
    return function(body, (a, x), ("T_transpose", z), attrs=attrs)


def fused_matmul1_add1() -> PrimFunc:
    n = Var("n", "int64")
    x, w, b = buffer("relu", n, 128), buffer("permute_dims1", 128, 10), buffer("fc2_bias", 10)
    out, mid = buffer("T_add_intermediate", n, 10), buffer("matmul_intermediate", n, 10)
    body = seq(matmul_nest(x, w, mid), add_nest(mid, b, out))
    params = (("p_relu", x), ("permute_dims1", w), ("fc2_bias", b), ("p_output0", out))
    return function(body, *params, alloc=(mid,))


def fused_matmul_add_relu() -> PrimFunc:
    n = Var("n", "int64")
    x, w, b = buffer("x", n, 784), buffer("permute_dims", 784, 128), buffer("fc1_bias", 128)
    out = buffer("compute_intermediate", n, 128)
    mid, total = buffer("matmul_intermediate", n, 128), buffer("T_add_intermediate", n, 128)
    body = seq(matmul_nest(x, w, mid), add_nest(mid, b, total), relu_nest(total, out))
    params = (("p_x", x), ("permute_dims", w), ("fc1_bias", b), ("p_output0", out))
    return function(body, *params, alloc=(mid, total))


# ---------------------------------------------------------------------- the graph


def tensor(*shape: Any) -> TensorStructInfo:
    return TensorStructInfo(shape, "float32")


class Graph:
    """The function `forward`, its bindings still to come."""

    def __init__(self) -> None:
        self.n = Var("n", "int64")
        shapes = {
            "x": (self.n, 784),
            "fc1_weight": (128, 784),
            "fc1_bias": (128,),
            "fc2_weight": (10, 128),
            "fc2_bias": (10,),
        }
        self.vars = {name: rx.Var(name, tensor(*shape)) for name, shape in shapes.items()}
        self.params = list(self.vars.values())
        self.bindings: list[rx.VarBinding] = []

    def bind(self, name: str, value: Any, *shape: Any, output: bool = False) -> None:
        kind = rx.Var if output else rx.DataflowVar
        var = kind(name.rstrip("_"), tensor(*shape))
        self.vars[name] = var
        self.bindings.append(rx.VarBinding(var, value))

    def op(self, name: str, *args: str, **attrs: Any) -> rx.Call:
        made = Attrs(f"relax.{name}", attrs) if attrs else None
        return rx.Call(register_op(f"relax.{name}"), [self.vars[a] for a in args], made)

    def call_tir(self, callee: str, args: tuple[str, ...], *shape: Any) -> rx.Call:
        packed = rx.Tuple([self.vars[a] for a in args])
        op = register_op("relax.call_tir")
        return rx.Call(op, [GlobalVar(callee), packed], None, [tensor(*shape)])

    def function(self) -> rx.Function:
        body = rx.SeqExpr([rx.DataflowBlock(self.bindings)], self.vars["gv"])
        attrs = {"global_symbol": "forward", "num_input": 1}
        return rx.Function(self.params, body, tensor(self.n, 10), attrs=attrs)


def high_level(activation: str) -> rx.Function:
    g = Graph()
    n = g.n
    g.bind("permute_dims", g.op("permute_dims", "fc1_weight", axes=None), 784, 128)
    g.bind("matmul", g.op("matmul", "x", "permute_dims", out_dtype="void"), n, 128)
    g.bind("add", g.op("add", "matmul", "fc1_bias"), n, 128)
    g.bind("relu", g.op(activation, "add"), n, 128)
    g.bind("permute_dims1", g.op("permute_dims", "fc2_weight", axes=None), 128, 10)
    g.bind("matmul1", g.op("matmul", "relu", "permute_dims1", out_dtype="void"), n, 10)
    g.bind("add1", g.op("add", "matmul1", "fc2_bias"), n, 10)
    g.bind("gv", g.vars["add1"], n, 10, output=True)
    return g.function()


def legalized() -> IRModule:
    g = Graph()
    n = g.n
    steps = [
        ("permute_dims", "transpose", ("fc1_weight",), (784, 128)),
        ("matmul", "matmul", ("x", "permute_dims"), (n, 128)),
        ("add", "add", ("matmul", "fc1_bias"), (n, 128)),
        ("relu", "relu", ("add",), (n, 128)),
        ("permute_dims1", "transpose1", ("fc2_weight",), (128, 10)),
        ("matmul1", "matmul1", ("relu", "permute_dims1"), (n, 10)),
        ("add1", "add1", ("matmul1", "fc2_bias"), (n, 10)),
    ]
    for name, callee, args, shape in steps:
        g.bind(name, g.call_tir(callee, args, *shape), *shape)
    g.bind("gv", g.vars["add1"], n, 10, output=True)
    return IRModule(
        {
            "forward": g.function(),
            "transpose": transpose_func("fc1_weight", 128, 784),
            "matmul": matmul_func("x", "permute_dims", 784, 128),
            "add": add_func("matmul", "fc1_bias", 128),
            "relu": relu_func(),
            "transpose1": transpose_func("fc2_weight", 10, 128),
            "matmul1": matmul_func("relu", "permute_dims1", 128, 10),
            "add1": add_func("matmul1", "fc2_bias", 10),
        }
    )


def fused() -> IRModule:
    g = Graph()
    n = g.n
    steps = [
        ("permute_dims", "transpose", ("fc1_weight",), (784, 128)),
        ("lv", "fused_matmul_add_relu", ("x", "permute_dims", "fc1_bias"), (n, 128)),
        ("permute_dims1", "transpose1", ("fc2_weight",), (128, 10)),
        ("gv", "fused_matmul1_add1", ("lv", "permute_dims1", "fc2_bias"), (n, 10)),
    ]
    for name, callee, args, shape in steps:
        g.bind(name, g.call_tir(callee, args, *shape), *shape, output=name == "gv")
    annotated = {"op_pattern": 2, "tir.noalias": True}
    return IRModule(
        {
            "forward": g.function(),
            "fused_matmul_add_relu": fused_matmul_add_relu(),
            "fused_matmul1_add1": fused_matmul1_add1(),
            "transpose": transpose_func("fc1_weight", 128, 784, annotated),
            "transpose1": transpose_func("fc2_weight", 10, 128, annotated),
        }
    )


def test_exported(golden: Callable[[str, str], None]) -> None:
    golden("seed2/export.txt", printer.script(IRModule({"forward": high_level("nn.relu")})))


def test_legalized(golden: Callable[[str, str], None]) -> None:
    golden("seed2/legalized.txt", printer.script(legalized()))


def test_fused(golden: Callable[[str, str], None]) -> None:
    golden("seed2/fused.txt", printer.script(fused()))


def test_rewritten_to_gelu(golden: Callable[[str, str], None]) -> None:
    golden("seed2/gelu.txt", printer.script(IRModule({"forward": high_level("nn.gelu")})))
