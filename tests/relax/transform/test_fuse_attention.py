"""Attention as one kernel: the same numbers beside separate ones, for each shape, mask and thread count."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import loopwright as lw
from loopwright import relax
from loopwright.ir.module import IRModule
from loopwright.ir.prim_expr import Var
from loopwright.relax import op
from loopwright.relax.transform import FuseAttention
from loopwright.relax.transform.legalize_ops.common import LEGALIZATIONS, register_legalize
from loopwright.runtime import threads
from loopwright.script import relax as R

from ...codegen.c_programs import SANITIZERS, Program, tool

INF = np.float32(np.inf)


def network(
    shape: list[Any], keys: Any, size: int, mask: list[Any] | None = None, **how: Any
) -> lw.IRModule:
    """Attention over queries of `shape` and keys of a number and a size of values. how: `transposed`
    keys are permuted in the graph; `between` is what is done to the scores; `groups` of queries share keys; `axis` of the softmax."""
    *batch, _, width = shape
    shapes = [shape, [*batch, width, keys], [*batch, keys, size]]
    order = [*range(len(batch)), len(batch) + 1, len(batch)]
    if how.get("groups"):  # of queries that share keys and values
        shapes[1:] = [[*batch[:-1], 1, *s[-2:]] for s in shapes[1:]]
    if how.get("transposed"):
        shapes[1] = [*batch, keys, width]
    if mask is not None:
        shapes.append(mask)
    given = [
        relax.Var(n, relax.TensorStructInfo(s, "float32"))
        for n, s in zip("qkvm", shapes, strict=False)
    ]
    bb = relax.BlockBuilder()
    with bb.function("main", given):
        with bb.dataflow():
            q, k, v = given[:3]
            if how.get("transposed"):
                k = bb.emit(op.permute_dims(k, order))
            scores = bb.emit(op.matmul(q, k))
            if how.get("between"):
                scores = bb.emit(how["between"](scores))
            if mask is not None:
                scores = bb.emit(op.add(scores, given[3]))
            weights = bb.emit(op.nn.softmax(scores, how.get("axis", -1)))
            made = bb.emit_output(op.matmul(weights, v))
        bb.emit_func_output(made)
    return bb.get()


def scaled(scores: Any) -> Any:
    return op.multiply(scores, relax.const(0.25, "float32"))


def is_fused(mod: lw.IRModule) -> bool:
    return any(g.name_hint == "attention" for g in FuseAttention()(mod).functions)


def given(rng: np.random.Generator, *shapes: Any) -> list[np.ndarray]:
    return [rng.standard_normal(s).astype("float32") for s in shapes]


def inputs(rng: np.random.Generator, mod: lw.IRModule) -> list[np.ndarray]:
    return given(rng, *([int(d) for d in p.struct_info.shape] for p in mod["main"].params))


def apart(mod: lw.IRModule, *arrays: np.ndarray) -> np.ndarray:
    """The result of separate kernels."""
    with lw.ir.transform.PassContext(disabled_pass=["FuseAttention"]):
        exe = lw.compile(mod)
    assert "attention" not in exe.program.texts
    return exe(*arrays).numpy()


CASES = {
    "scaled": ({"shape": [2, 3, 16, 24], "keys": 32, "size": 16, "between": scaled}, None),
    "plain": ({"shape": [1, 2, 13, 20], "keys": 64, "size": 24}, None),
    "odd": ({"shape": [3, 29, 7], "keys": 77, "size": 19, "between": scaled}, None),
    "transposed": (
        {"shape": [2, 2, 24, 16], "keys": 48, "size": 32, "transposed": True, "between": scaled},
        None,
    ),
    "transposed_odd": ({"shape": [1, 2, 30, 16], "keys": 45, "size": 64, "transposed": True}, None),
    "long": ({"shape": [2, 20, 16], "keys": 2000, "size": 16}, None),
    "shared": ({"shape": [2, 3, 24, 16], "keys": 40, "size": 16, "groups": True}, None),
    "mask": ({"shape": [2, 2, 24, 16], "keys": 40, "size": 32, "between": scaled}, [2, 1, 1, 40]),
    "square_mask": (
        {"shape": [2, 2, 21, 16], "keys": 43, "size": 16, "between": scaled},
        [1, 1, 21, 43],
    ),
}


@pytest.mark.sample(8)
@pytest.mark.parametrize("target", ["llvm -mcpu=native", "llvm -mcpu=haswell"])
@pytest.mark.parametrize("case", CASES)
def test_the_same_numbers(rng: np.random.Generator, case: str, target: str) -> None:
    how, mask = CASES[case]
    mod = network(**how, mask=mask)
    assert is_fused(mod)
    arrays = inputs(rng, mod)
    got = lw.compile(mod, target)(*arrays).numpy()
    np.testing.assert_allclose(got, apart(mod, *arrays), rtol=0, atol=1e-5)


@pytest.mark.sample(2)
@pytest.mark.parametrize("case", ["transposed_odd", "square_mask"])
def test_the_same_numbers_in_c(rng: np.random.Generator, case: str, tmp_path: Any) -> None:
    how, mask = CASES[case]
    mod = network(**how, mask=mask)
    arrays = inputs(rng, mod)
    want = apart(mod, *arrays)
    program = Program(lw.compile(mod, "c"), tmp_path, arrays, [want])
    (got,) = program.outputs(tool("gcc", *SANITIZERS), *SANITIZERS)
    np.testing.assert_allclose(got, want, rtol=0, atol=1e-5)


@pytest.mark.slow
@pytest.mark.budget(8)
@pytest.mark.sample(2)
@pytest.mark.parametrize("transposed", [False, True])
def test_sizes_known_only_at_run_time(rng: np.random.Generator, transposed: bool) -> None:
    n, m = Var("n", "int64"), Var("m", "int64")
    mod = network([2, 2, n, 16], m, 24, [1, 1, n, m], transposed=transposed, between=scaled)
    assert is_fused(mod)
    exe = lw.compile(mod)
    for rows, keys in ((1, 1), (1, 33), (3, 0), (0, 4), (8, 32), (21, 50), (64, 64)):
        k = (2, 2, keys, 16) if transposed else (2, 2, 16, keys)
        arrays = given(rng, (2, 2, rows, 16), k, (2, 2, keys, 24), (1, 1, rows, keys))
        want = apart(mod, *arrays)
        np.testing.assert_allclose(exe(*arrays).numpy(), want, rtol=0, atol=1e-5)


def test_a_masked_key_has_no_part_and_a_masked_row_is_nan(rng: np.random.Generator) -> None:
    mod = network([1, 2, 16, 16], 40, 16, [1, 1, 16, 40], between=scaled)
    q, k, v = given(rng, (1, 2, 16, 16), (1, 2, 16, 40), (1, 2, 40, 16))
    mask = np.where(np.tril(np.ones((16, 40)), 2) > 0, np.float32(0), -INF)[None, None]
    mask[..., 5, :] = -INF
    want = apart(mod, q, k, v, mask)
    assert np.isnan(want[:, :, 5]).all() and np.isfinite(np.delete(want, 5, 2)).all()
    got = lw.compile(mod)(q, k, v, mask).numpy()
    np.testing.assert_allclose(got, want, rtol=0, atol=1e-5)


@pytest.mark.sample(4)
@pytest.mark.parametrize("value", [np.nan, INF, -INF])
@pytest.mark.parametrize("where", ["q", "k", "v"])
def test_values_that_are_no_numbers(rng: np.random.Generator, where: str, value: float) -> None:
    mod = network([1, 1, 24, 16], 37, 16, between=scaled)
    arrays = given(rng, (1, 1, 24, 16), (1, 1, 16, 37), (1, 1, 37, 16))
    arrays["qkv".index(where)][0, 0, 3, 5] = value
    with np.errstate(invalid="ignore"):
        np.testing.assert_allclose(
            lw.compile(mod)(*arrays).numpy(), apart(mod, *arrays), rtol=0, atol=1e-5
        )


def test_every_number_of_threads_gives_the_same_bits(rng: np.random.Generator) -> None:
    mod = network([1, 6, 100, 32], 100, 32, between=scaled)
    arrays = given(rng, (1, 6, 100, 32), (1, 6, 32, 100), (1, 6, 100, 32))
    exe, before = lw.compile(mod), threads.num_threads()
    try:
        results = []
        for count in (1, 2, 4):
            threads.set_num_threads(count)
            results.append(exe(*arrays).numpy())
    finally:
        threads.set_num_threads(before)
    assert all(np.array_equal(r, results[0]) for r in results)


def test_no_buffer_holds_all_scores() -> None:
    mod = network([1, 4, 512, 32], 512, 32, between=scaled)
    trace = lw.lower(mod, "llvm -mcpu=skylake-avx512")
    assert [n.facts["rule"] for n in trace.explain("attention", "schedule")] == ["attention"]
    text = trace[len(trace) - 1].after["attention"].script()
    sizes = [int(x.split(")")[0]) for x in text.split("decl_buffer((T.int64(")[1:]]
    assert sizes and max(sizes) == 4 * 32 * 512  # the keys in strips; of the scores 8 rows


@pytest.mark.parametrize(
    "how",
    [
        {"shape": [1, 4, 16], "keys": 64, "size": 16},  # few queries
        {"shape": [1, 64, 16], "keys": 8, "size": 16},  # few keys
        {"shape": [1, 64, 16], "keys": 64, "size": 4},  # few values
        {"shape": [1, 64, 16], "keys": 64, "size": 16, "axis": 1},
        {"shape": [1, 64, 16], "keys": 64, "size": 16, "between": op.exp},
    ],
)
def test_others_stay_apart(how: dict[str, Any]) -> None:
    assert not is_fused(network(**how))


def test_scores_that_something_else_uses_are_stored() -> None:
    shapes = ([1, 64, 16], [1, 16, 64], [1, 64, 16])
    for use in ("scores", "weights"):
        params = [
            relax.Var(n, relax.TensorStructInfo(s, "float32"))
            for n, s in zip("qkv", shapes, strict=True)
        ]
        bb = relax.BlockBuilder()
        with bb.function("main", params):
            with bb.dataflow():
                scores = bb.emit(op.matmul(*params[:2]))
                weights = bb.emit(op.nn.softmax(scores))
                mixed = bb.emit(op.matmul(weights, params[2]))
                other = bb.emit(op.sum(scores if use == "scores" else weights))
                made = bb.emit_output(op.add(mixed, other))
            bb.emit_func_output(made)
        assert not is_fused(bb.get())


def test_values_of_a_shape_that_only_the_run_tells():
    @R.function
    def main(q: R.Tensor((2, 64, 64), "float32"), v: R.Tensor(dtype="float32", ndim=3)):
        with R.dataflow():
            s = R.nn.softmax(R.matmul(q, q))
            y = R.matmul(s, v)
            R.output(y)
        return y

    mod = IRModule({"main": main})
    assert FuseAttention()(mod)["main"].struct_info == main.struct_info


@pytest.mark.parametrize("name", ["nn.softmax", "matmul", "multiply"])
def test_a_kernel_of_the_users_is_not_taken_apart(name: str) -> None:
    mod = network([2, 64, 16], 64, 16, between=scaled)
    with LEGALIZATIONS.registry.snapshot(), lw.Target("llvm"):
        assert is_fused(mod)
        register_legalize(f"relax.{name}", lambda bb, call: None, target="llvm")
        assert not is_fused(mod)
