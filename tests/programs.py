"""Short ways to write the programs that tests of several folders start from."""

from __future__ import annotations

from textwrap import indent
from typing import Any

from loopwright.ir.module import IRModule
from loopwright.script import from_source
from loopwright.tir.function import PrimFunc


def graph(
    body: str, result: str = "", values: dict[str, Any] | None = None, **parameters: Any
) -> IRModule:
    """A module whose `main` has one dataflow block with the bindings of `body`, which ";" or the
    end of a line separates. It returns the last variable, or `result`. A parameter is given by the
    shape of a float32 tensor or by its annotation; `body` may use the `values` by name."""
    lines = [line.strip() for line in body.replace(";", "\n").strip().splitlines()]
    result = result or lines[-1].partition(" = ")[0]
    infos = {
        k: f'R.Tensor({v}, "float32")' if isinstance(v, tuple) else v for k, v in parameters.items()
    }
    block = indent("\n".join([*lines, f"R.output({result})"]), " " * 12)
    return from_source(
        f"""
@I.ir_module
class Module:
    @R.function
    def main({", ".join(f"{name}: {info}" for name, info in infos.items())}):
        with R.dataflow():
{block}
        return {result}
""",
        values,
    )


def pointwise(name: str, value: str, more: str = "") -> PrimFunc:
    """A kernel `name` over matrices of any size: Y is `value` of X[vi, vj], and `more` parameters."""
    return from_source(f"""
@T.prim_func
def {name}(x: T.handle, y: T.handle{more}):
    n, m = T.int64(), T.int64()
    X = T.match_buffer(x, (n, m))
    Y = T.match_buffer(y, (n, m))
    for i, j in T.grid(n, m):
        with T.block("{name}"):
            vi, vj = T.axis.remap("SS", [i, j])
            Y[vi, vj] = {value}
""")


def pointwise_convolution(name: str) -> PrimFunc:
    """A kernel `name`: a convolution of NCHW data with filters of one by one."""
    return from_source(f"""
@T.prim_func
def {name}(x: T.handle, w: T.handle, y: T.handle):
    n, c, h, v, o = T.int64(), T.int64(), T.int64(), T.int64(), T.int64()
    X = T.match_buffer(x, (n, c, h, v))
    W = T.match_buffer(w, (o, c, 1, 1))
    Y = T.match_buffer(y, (n, o, h, v))
    for b, f, i, j, k in T.grid(n, o, h, v, c):
        with T.block("{name}"):
            vb, vf, vi, vj, vk = T.axis.remap("SSSSR", [b, f, i, j, k])
            with T.init():
                Y[vb, vf, vi, vj] = 0.0
            Y[vb, vf, vi, vj] += X[vb, vk, vi, vj] * W[vf, vk, 0, 0]
""")


def nest(block: str, store: str, init: str = "", **loops: int | str) -> str:
    """Loops of these lengths around a block that does `store`: the axis of loop i is vi, and loops
    whose names begin with k are reductions, whose first value is set by `init`."""
    kinds = "".join("SR"[name.startswith("k")] for name in loops)
    axes = ", ".join(f"v{name}" for name in loops)
    lines = [f'{axes} = T.axis.remap("{kinds}", [{", ".join(loops)}])']
    lines += ["with T.init():", indent(init, "    ")] if init else []
    lines += store.splitlines()
    head = f"for {', '.join(loops)} in T.grid({', '.join(map(str, loops.values()))}):\n"
    return head + f'    with T.block("{block}"):\n' + indent("\n".join(lines), "        ")


def prim_func(parameters: str, *body: str) -> PrimFunc:
    """The function `main` of these statements."""
    return from_source(f"@T.prim_func\ndef main({parameters}):\n" + indent("\n".join(body), "    "))


def matmul(
    m: int, n: int, k: int, transposed: bool = False, more: str = "", **then: str
) -> PrimFunc:
    """C = A B, of float32; B has its columns first where it is `transposed`. Each of `then` is a
    matrix computed from those before it and parameters `more`; the last one is the result."""
    shape, at = (f"({n}, {k})", "vj, vk") if transposed else (f"({k}, {n})", "vk, vj")
    *inner, last = "C", *then
    product = f"C[vi, vj] = C[vi, vj] + A[vi, vk] * B[{at}]"
    return prim_func(
        f"A: T.Buffer(({m}, {k})), B: T.Buffer({shape}), {more} {last}: T.Buffer(({m}, {n}))",
        *(f"{name} = T.alloc_buffer(({m}, {n}))" for name in inner),
        nest("C", product, "C[vi, vj] = 0.0", i=m, j=n, k=k),
        *(nest(name, f"{name}[vi, vj] = {value}", i=m, j=n) for name, value in then.items()),
    )


def row_sums(m: int, n: int) -> PrimFunc:
    """B = the sums of the rows of A, of float32."""
    add = nest("B", "B[vi] = B[vi] + A[vi, vk]", "B[vi] = 0.0", i=m, k=n)
    return prim_func(f"A: T.Buffer(({m}, {n})), B: T.Buffer(({m},))", add)


def two_steps(m: int, n: int, first: str = "A[vi, vj] * T.float32(2)") -> PrimFunc:
    """B = `first` of A, then C = B + 1: matrices of float32."""
    return prim_func(
        f"A: T.Buffer(({m}, {n})), C: T.Buffer(({m}, {n}))",
        f"B = T.alloc_buffer(({m}, {n}))",
        nest("B", f"B[vi, vj] = {first}", i=m, j=n),
        nest("C", "C[vi, vj] = B[vi, vj] + T.float32(1)", i=m, j=n),
    )


def vectors(parameters: dict[str, int], *stores: str, **buffers: int) -> PrimFunc:
    """A loop with a block for each of the `stores`, in their order: it sets all elements vi of
    its buffer. Parameters, and intermediate `buffers`, are vectors of a length; I is of indices."""
    lengths = {**parameters, **buffers}
    dtypes = {name: "int32" if name == "I" else "float32" for name in lengths}
    params = ", ".join(f'{k}: T.Buffer(({n},), "{dtypes[k]}")' for k, n in parameters.items())
    body = [f"{name} = T.alloc_buffer(({n},))" for name, n in buffers.items()]
    for store in stores:
        name = store.partition("[")[0]
        body.append(nest(name, store, i=lengths[name]))
    return prim_func(params, *body)
