"""What `partition` takes of a model with constant weights, `compile` takes; or says why not."""

from __future__ import annotations

import numpy as np
import pytest

import loopwright as lw
from loopwright.backend.llvm import library_dispatch_passes
from loopwright.ir.transform import Sequential
from loopwright.relax import const
from loopwright.relax.byoc import Backend, Cost, PartitionFor, PartitionReport, partition
from loopwright.relax.dpl import is_const, is_tuple_get_item, wildcard
from loopwright.runtime import Module

from ...programs import graph
from . import graphs as g
from .graphs import CONV, op

ANY = wildcard
NORM = ["scale", "shift", "mean", "var"]


def numbers(shape, low=0.5, high=1.5):
    return np.linspace(low, high, int(np.prod(shape)), dtype="float32").reshape(shape)


WEIGHT, KERNEL = numbers((3, 8)), numbers((4, 3, 3, 3), -1)
STATISTICS = {name: numbers((4,)) for name in NORM}
BYTES = np.arange(24, dtype="int8").reshape(8, 3)

LINEAR = graph(
    "wt = R.permute_dims(w, axes=[1, 0]); m = R.matmul(x, wt); y = R.nn.relu(m)",
    values={"w": const(WEIGHT)},
    x=(4, 8),
)
TIED = graph(
    "wt = R.permute_dims(w, axes=[1, 0]); a = R.matmul(x, wt); b = R.matmul(y, wt)",
    "a, b",
    values={"w": const(WEIGHT)},
    x=(4, 8),
    y=(4, 8),
)
QUANTIZED = graph(
    """
    d = R.dequantize(x, R.const(0.5, "float32"), R.const(0, "int8"), axis=-1, out_dtype="float32")
    w = R.dequantize(q, R.const(0.25, "float32"), R.const(0, "int8"), axis=-1, out_dtype="float32")
    m = R.matmul(d, w)
    """,
    values={"q": const(BYTES)},
    x='R.Tensor((4, 8), "int8")',
)
NORMALIZED = graph(
    """
    c = R.nn.conv2d(x, k, padding=(1, 1))
    n = R.nn.batch_norm(c, scale, shift, mean, var, axis=1, training=False)
    f = n[0]
    y = R.nn.relu(f)
    """,
    values={"k": const(KERNEL), **{n: const(v) for n, v in STATISTICS.items()}},
    x=(1, 3, 8, 8),
)
DENSE = op("matmul", ANY(), op("permute_dims"))
NORM_OF_CONV = is_tuple_get_item(op("nn.batch_norm", CONV, *(ANY() for _ in NORM)), 0)


def dequantized():
    return op("dequantize", ANY(), ANY(), ANY())


def backend(*patterns, **options):
    rows = [(f"mine.p{k}", p) for k, p in enumerate(patterns)]
    return Backend("mine", rows, target="llvm", **options)


def left(mod, made):
    """The operators that compilation leaves to the default."""
    *passes, _ = library_dispatch_passes(None, [made])
    mod = Sequential(list(passes))(mod)
    report = PartitionReport()
    partition(mod, Backend("nobody", target="llvm"), report=report)
    return report.left


@pytest.mark.parametrize(
    ("mod", "pattern", "rest"),
    [
        (LINEAR, DENSE, {"relax.nn.relu": 1}),
        (TIED, DENSE, {}),  # each match has the weight, which is folded for nobody
        (QUANTIZED, op("matmul", dequantized(), dequantized()), {}),
        (NORMALIZED, op("nn.relu", NORM_OF_CONV), {}),
        (NORMALIZED, NORM_OF_CONV, {"relax.nn.relu": 1}),
        # These match the folded graph, where the batch norm is in the weights.
        (NORMALIZED, op("nn.relu", op("add", CONV, is_const())), {}),
        (NORMALIZED, CONV, {"relax.add": 1, "relax.nn.relu": 1}),
        # What is constant as a whole is computed at compile time, as without a back end.
        (LINEAR, op("permute_dims") | op("nn.relu"), {"relax.matmul": 1}),
    ],
)
def test_what_compilation_leaves(mod, pattern, rest):
    assert left(mod, backend(pattern)) == rest


def test_the_code_generator_gets_what_matched():
    seen = []

    def codegen(functions, options, names):
        (func,) = functions
        local = next(b.value for block in func.body.blocks for b in block.bindings)
        bindings = [b.value for block in local.body.blocks for b in block.bindings]
        seen.extend(value.op.name for value in bindings)

        def run(x, out):
            np.copyto(np.from_dlpack(out), np.from_dlpack(x) @ WEIGHT.T)

        return [Module({func.attrs["global_symbol"]: run})]

    exe = lw.compile(LINEAR, backends=[Backend("mine", [("mine.dense", DENSE)], codegen=codegen)])
    assert seen == ["relax.permute_dims", "relax.matmul"]
    x = numbers((4, 8), -1)
    np.testing.assert_allclose(exe["main"](x), np.maximum(x @ WEIGHT.T, 0), rtol=1e-5)


@pytest.mark.parametrize(
    ("mod", "made", "reason"),
    [
        (
            LINEAR,
            backend(op("matmul", op("permute_dims"), ANY())),
            "relax.matmul (m) comes nearest to mine.p0: relax.permute_dims(*) is wanted where "
            "x, float32 (4, 8), is",
        ),
        (
            QUANTIZED,
            backend(op("matmul", dequantized().has_attr({"axis": 0}), ANY())),
            "relax.matmul (m) comes nearest to mine.p0: relax.dequantize(*, *, *).has_attr(axis=0) "
            "is wanted where relax.dequantize with axis=-1 is",
        ),
        (
            LINEAR,
            backend(op("nn.gelu", DENSE)),
            "no operator in it is the last of a pattern, as in mine.p0: "
            "relax.nn.gelu(relax.matmul(*, relax.permute_dims(*)))",
        ),
        (
            LINEAR,
            Backend(
                "mine", [("mine.p0", DENSE, {}, lambda c: c.refuse("too small"))], target="llvm"
            ),
            "relax.matmul matches, but too small",
        ),
        (
            LINEAR,
            backend(DENSE, cost=lambda func: Cost(offloaded=2.0, default=1.0)),
            "mine.p0 does not pay (declared: 2 against 1)",
        ),
        (LINEAR, backend(), "it has no patterns, and the model no regions of it"),
        (
            g.NoDataflow,
            backend(op("exp")),
            "no function in it has a call in a dataflow block; "
            "relax.transform.ConvertToDataflow makes them",
        ),
    ],
)
def test_a_back_end_that_takes_nothing_says_why(mod, made, reason, caplog):
    left(mod, made)
    (record,) = caplog.records
    what, got, *_ = record.getMessage().splitlines()
    assert what == "the back end mine takes no part of the model"
    assert got == f"  got: {reason}"


def test_a_pass_of_its_own_says_it_too(caplog):
    PartitionFor(backend(op("nn.gelu")))(LINEAR)
    assert "mine takes no part of the model" in caplog.text
    caplog.clear()
    PartitionFor(backend(op("nn.relu")))(LINEAR)
    assert caplog.text == ""


def test_the_report_names_the_nearest_match():
    report = PartitionReport()
    partition(LINEAR, backend(op("nn.relu", CONV)), report=report)
    assert report.reasons == {
        "relax.permute_dims": "no pattern matches it",
        "relax.matmul": "no pattern matches it",
        "relax.nn.relu": "no pattern matches it; relax.nn.relu (y) comes nearest to mine.p0: "
        "relax.nn.conv2d(*, *) is wanted where relax.matmul is",
    }


def test_the_order_of_back_ends_counts():
    # The second one's match needs what the first one takes of the folded graph.
    first = Backend("first", [("first.relu", op("nn.relu"))], target="llvm")
    *passes, _ = library_dispatch_passes(None, [first, backend(op("nn.relu", NORM_OF_CONV))])
    parted = Sequential(list(passes))(NORMALIZED)
    regions = [f.attrs["Codegen"] for f in parted.functions.values() if "Codegen" in f.attrs]
    assert regions == ["first"]


def test_back_ends_and_a_pipeline_of_ones_own():
    with pytest.raises(ValueError, match="backends are for the default relax_pipeline"):
        lw.compile(LINEAR, backends=["blas"], relax_pipeline=[])
