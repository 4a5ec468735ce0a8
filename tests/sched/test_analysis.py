"""Facts about kernels: products, vectors, what is elementwise, stages; sizes of tiles."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from loopwright import te, tir
from loopwright.ir.functor import post_order_visit
from loopwright.ir.target import Target
from loopwright.sched import analysis as of
from loopwright.sched.machine import RuleSchedule
from loopwright.sched.reductions import prepare_reductions
from loopwright.sched.rows import widths_of
from loopwright.sched.tiles import FEW_ROWS, LEAST_STRIPS, tile_of
from loopwright.tir.function import PrimFunc
from loopwright.tir.stmt import BlockRealize

CPU = Target("llvm -mcpu=skylake-avx512")
LANES = CPU.vector_lanes("float32")


def kernel(shape: tuple[int, ...], element: Callable[..., Any], *inputs: Any) -> PrimFunc:
    out = te.compute(shape, element, name="out")
    return te.create_prim_func([*(inputs or out.op.input_tensors), out])


def last(func: PrimFunc) -> of.BlockInfo:
    blocks = of.blocks_of(func)
    assert blocks is not None
    return blocks[-1]


def array(*shape: int, dtype: str = "float32") -> te.Tensor:
    return te.placeholder(shape, dtype, name="A")


def over(extent: int) -> Any:
    return te.reduce_axis((0, extent), "k")


def matmul(rows: int, depth: int, columns: int, dtype: str = "float32", out: str = "") -> Any:
    a, b, k = array(rows, depth, dtype=dtype), array(depth, columns, dtype=dtype), over(depth)
    kind = out or dtype
    return last(
        kernel((rows, columns), lambda i, j: te.sum((a[i, k] * b[k, j]).astype(kind), axis=k), a, b)
    )


def test_products():
    a, b, k = array(8, 8), array(8, 8), over(8)
    found = {
        "product": lambda i, j: te.sum(a[i, k] * b[k, j], axis=k),
        "depthwise": lambda i, j: te.sum(a[i + k, j] * b[k, j], axis=k),
        "transposed": lambda i, j: te.sum(a[i, k] * b[k, i], axis=k),
        "sum": lambda i, j: te.sum(a[k, j] + b[k, j], axis=k),
        "max": lambda i, j: te.max(a[i, k] * b[k, j], axis=k),
        "no reduction": lambda i, j: a[i, j] * 2.0 + b[i, j],
        "no load": lambda i, j: te.sum((i * j + k).astype("float32"), axis=k),
    }
    kinds = {}
    for name, element in found.items():
        made = of.as_product(last(kernel((4, 4), element, a, b)))
        kinds[name] = None if made is None else made.depthwise
    assert kinds == {**dict.fromkeys(found), "product": False, "depthwise": True}


VECTORS = [
    (4, lambda a, k: lambda i, j: te.sum(a[i, k, j], axis=k), True),
    (3, lambda a, k: lambda i, j: te.sum(a[i, k, j], axis=k), False),
    (4, lambda a, k: lambda i, j: te.sum(a[i, j, k], axis=k), False),
    (4, lambda a, k: lambda i, j: te.sum(a[i, k, i], axis=k), True),
    (4, lambda a, k: lambda i, j: a[i, j, 0], False),
    (4, lambda a, k: lambda i, j: a[i, 0, j], True),
]


@pytest.mark.parametrize(("columns", "element", "expected"), VECTORS)
def test_where_vectors_fit(columns, element, expected):
    a, k = array(8, 8, 8), over(8)
    assert of.vectors_fit(last(kernel((8, columns), element(a, k), a))) is expected


def test_where_no_store_is_known():
    """Two stores, or a sum over no axis."""
    a = array(4, 4)
    func = kernel((4, 4), lambda i, j: a[i, j] * 2.0)
    info = last(func)
    store = info.store
    assert store is not None and of.elementwise_on(info, store.value.a.buffer)
    twice = info.block.replace(body=tir.SeqStmt([store, store]))
    none = of.BlockInfo("two", twice, info.loops)
    assert none.store is None and not of.vectors_fit(none)
    assert not of.elementwise_on(none, store.value.a.buffer)
    assert of.as_product(none) is None and not of._can_be_inlined(none, [none])
    assert of.BlockInfo("init", info.block.replace(init=store), []).store is None
    k = over(4)
    row = last(kernel((4,), lambda i: te.sum(a[i, k], axis=k), a))
    assert row.store is not None and row.is_reduction and not row.is_spatial


ELEMENTWISE = [
    ((4, 4), lambda a: lambda i, j: a[i, j], True),
    ((4, 4), lambda a: lambda i, j: a[j, i], False),
    ((4, 4), lambda a: lambda i, j: a[i, j] + a[j, i], False),
    ((4, 4), lambda a: lambda i, j: a[i, 0], False),
    ((4, 1), lambda a: lambda i, j: a[i, 0], True),
    ((4,), lambda a: lambda i: a[i, 0], False),
]


@pytest.mark.parametrize(("shape", "element", "expected"), ELEMENTWISE)
def test_what_is_elementwise(shape, element, expected):
    a = array(*(shape if len(shape) == 2 else (4, 4)))
    info = last(kernel(shape, element(a), a))
    (buffer,) = (r.buffer for r in info.block.reads)
    assert of.elementwise_on(info, buffer) is expected


def test_costly_functions_are_counted():
    a = array(4)
    info = last(kernel((4,), lambda i: te.exp(a[i]) + te.tanh(te.exp(a[i])) + te.sqrt(a[i])))
    assert of.costly_calls(info.block) == 3 and of.is_costly(info.block)
    assert not of.is_costly(last(kernel((4,), lambda i: te.sqrt(a[i]))).block)


@pytest.mark.parametrize("after_a_sum", [False, True])
@pytest.mark.parametrize("more", [0, 1])
def test_expressions_do_not_grow_for_ever(after_a_sum, more):
    """Each step reads the one before it twice: the first seven make 128 loads. The last block of a
    stage may have more where nothing before it is a sum."""
    a, k = array(4, 4), over(4)
    element = (lambda i: te.sum(a[i, k], axis=k)) if after_a_sum else lambda i: a[i, 0]
    x = te.compute((4,), element, name="first")
    for n in range((7 if after_a_sum else 8) + more):
        x = te.compute((4,), lambda i, x=x: x[i] * (x[i] + 1.0), name=f"x{n}")
    func = te.create_prim_func([a, x])
    made = of.split_stages(func, of.blocks_of(func) or [])
    assert made is not None and len(made) == 1 + more


def prepared(func: PrimFunc) -> PrimFunc:
    sch = tir.Schedule(func, enable_check=False)
    prepare_reductions(sch, CPU)
    return sch.func


def joined(size: tuple[int, ...], element: Callable[..., Any], *axes: Any) -> int:
    """The number of reduced axes that are left."""
    a = array(*size)
    func = kernel((2, 4), lambda i, j: te.sum(element(a, i, j, *axes), axis=[*axes]), a)
    return len(last(prepared(func)).reduce)


def test_axes_under_a_condition_stay_apart():
    y, x, a = te.reduce_axis((0, 7), "y"), te.reduce_axis((0, 7), "x"), array(5, 7, 7)
    func = kernel((5,), lambda i: te.sum(a[i, y, x], axis=[y, x]), a)
    for factor, left in ((5, 1), (3, 2)):
        sch = tir.Schedule(func)
        sch.split(sch.get_loops(sch.get_block("out"))[0], [None, factor])
        (realize,) = realizes(prepared(sch.mod["main"]).body, "out")
        kinds = [axis.iter_type for axis in realize.block.iter_vars]
        assert kinds.count(of.REDUCE) == left


def realizes(body: Any, name: str) -> list[Any]:
    found: list[Any] = []
    post_order_visit(body, lambda n: found.append(n) if isinstance(n, BlockRealize) else None)
    return [n for n in found if n.block.name_hint == name]


def test_axes_of_a_sum_are_joined():
    y, x = te.reduce_axis((0, 7), "y"), te.reduce_axis((0, 7), "x")
    part = te.reduce_axis((0, 6), "p")
    short, thin = te.reduce_axis((0, 3), "s"), te.reduce_axis((0, 3), "t")
    long = te.reduce_axis((0, 2 * LANES), "l")
    nearly = te.reduce_axis((0, 2 * LANES - 1), "n")
    image = (2, 4, 7, 7)
    turned = joined(
        (2, 7, 3, 7, 7), lambda a, i, j, s, y, x: a[i, y, s, 0, x] * a[j, 0, s, y, x], short, y, x
    )
    assert turned == 3
    assert joined((3, 4, 7, 7), lambda a, i, j, s, y, x: a[s, j, y, x], short, y, x) == 2
    assert joined(image, lambda a, i, j, y, x: a[i, j, y, x], y, x) == 1
    assert joined(image, lambda a, i, j, y, x: a[i, j, x, y], y, x) == 2
    assert joined(image, lambda a, i, j, y, x: a[i, j, y, x], part, x) == 1
    assert joined(image, lambda a, i, j, y, x: a[i, j, y, x], y, part) == 2
    assert joined(image, lambda a, i, j, y, x: a[i, j, y, x] + a[i, j, 0, 0], y, x) == 1
    assert joined(image, lambda a, i, j, y, x: a[i, j, y, x] + a[i, j, y, 0], y, x) == 2
    assert joined((2, 4, 3, 3), lambda a, i, j, y, x: a[i, j, y, x], short, thin) == 2
    assert joined((2, 4, 7, 2 * LANES), lambda a, i, j, y, x: a[i, j, y, x], y, long) == 2
    assert joined((2, 4, 7, 2 * LANES - 1), lambda a, i, j, y, x: a[i, j, y, x], y, nearly) == 1
    assert joined((2, 4, 49), lambda a, i, j, k: a[i, j, k], te.reduce_axis((0, 49), "k")) == 1


WIDTHS = [  # of rows in the order of memory: partial results
    (2 * LANES - 1, 0),
    (2 * LANES, LANES),
    (8 * LANES - 1, LANES),
    (8 * LANES, 4 * LANES),
]


@pytest.mark.parametrize(("extent", "width"), WIDTHS)
@pytest.mark.parametrize("fold", [te.sum, te.max, te.min])
def test_partial_results_of_rows(extent, width, fold):
    a, k = array(8, extent), over(extent)
    info = last(kernel((8,), lambda i: fold(a[i, k], axis=k), a))
    assert widths_of([info], CPU) == ({"out": width} if width else {})


def test_rows_without_partial_results():
    a, k = array(256, 256), over(256)
    prod = te.comm_reducer(lambda x, y: x * y, lambda t: te.const(1, t), name="prod")
    elements = {
        "across": lambda i: te.sum(a[k, i], axis=k),
        "folded": lambda i: prod(a[i, k], axis=k),
        "strided": lambda i: te.sum(a[i, k * 2 % 256], axis=k),
        "both": lambda i: te.sum(a[k, k], axis=k),
    }
    for element in elements.values():
        assert widths_of([last(kernel((8,), element, a))], CPU) == {}
    flat = lambda i: te.sum(a[i, k // 16 * 16 + k % 16], axis=k)  # noqa: E731
    assert widths_of([last(kernel((8,), flat, a))], CPU) == {"out": 4 * LANES}
    info = last(kernel((8,), lambda i: te.sum(a[i, k], axis=k), a))
    many = info.block.replace(init=tir.SeqStmt([info.block.init, info.block.init]))
    assert widths_of([of.BlockInfo("out", many, info.loops)], CPU) == {}


def schedule() -> RuleSchedule:
    """Any: it keeps the decisions."""
    return RuleSchedule(kernel((4,), lambda i: te.const(0.0, "float32")), CPU)


def tile(*sizes: int) -> tuple[Any, ...]:
    made = tile_of(schedule(), matmul(*sizes), True, CPU)
    return made.row, made.rows, made.vectors, made.lanes


def test_tiles_of_products():
    wide, few = 8 * LANES * LEAST_STRIPS, FEW_ROWS
    assert tile(1, 8, wide)[0] is None
    assert tile(64, 8, LANES)[2:] == (1, LANES) and tile(64, 8, 2 * LANES)[2:] == (2, LANES)
    assert tile(64, 8, 2 * LANES - 1)[2:] == (1, LANES) and tile(64, 8, 5)[2:] == (1, 5)
    assert tile(few, 8, wide)[2] in (4, 8) and tile(few + 1, 8, wide)[2] == 2
    assert [tile(rows, 8, wide)[2] for rows in (2, 3, 4)] == [8, 8, 4]
    assert [tile(3, 8, wide - k)[2] for k in (0, 1)] == [8, 4]
    assert [tile(3, 8, wide // 2 - k)[2] for k in (0, 1)] == [4, 2]
    assert tile(3, 8, wide)[:2] == (0, 3)


def test_a_tile_has_a_row_where_registers_are_few():
    few = Target("llvm -mcpu=haswell")
    wide = 8 * few.vector_lanes("float32") * LEAST_STRIPS
    made = tile_of(schedule(), matmul(3, 8, wide), True, few)
    assert few.num_vector_registers == 16 and (made.rows, made.vectors) == (1, 8)
