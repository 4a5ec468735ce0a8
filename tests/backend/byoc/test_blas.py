"""BLAS as a back end: products in all forms beside numpy's."""

from __future__ import annotations

import shutil
import subprocess
import sys

import numpy as np
import pytest

import loopwright as lw
from loopwright import relax
from loopwright.backend.byoc import blas
from loopwright.relax.byoc import PartitionReport, get_backend, partition, plugins

from ...programs import graph

# A composite that stands as an operator while it is lowered has no text.
pytestmark = pytest.mark.no_roundtrip
needs_blas = pytest.mark.skipif(bool(blas.available()), reason=blas.available() or "-")
N = lw.tir.Var("n", "int64")


def swapped(rank):
    return [*range(rank - 2), rank - 1, rank - 2]


def model(a, b, transposed=(False, False), dtype="float32", activation=False):
    """matmul of two parameters, transposed where asked for; + 1 and relu."""
    bb = relax.BlockBuilder()
    params = [
        relax.Var(name, relax.TensorStructInfo(s, dtype))
        for name, s in (("a", a), ("b", b))
    ]  # fmt: skip
    with bb.function("main", params):
        with bb.dataflow():
            operands = [
                bb.emit(relax.op.permute_dims(p, swapped(len(s)))) if flag else p
                for p, s, flag in zip(params, (a, b), transposed, strict=True)
            ]
            out = bb.emit(relax.op.matmul(*operands))
            if activation:
                out = bb.emit(relax.op.add(out, relax.const(1.0, dtype)))
                out = bb.emit(relax.op.nn.relu(out))
            out = bb.emit_output(out)
        bb.emit_func_output(out)
    return bb.get()


def numbers(shape, dtype="float32", seed=0):
    concrete = [d if isinstance(d, int) else 7 for d in shape]
    return np.random.default_rng(seed).normal(size=concrete).astype(dtype)


def offloaded(mod):
    """The module with every product taken, and the report of that."""
    report = PartitionReport()
    return partition(mod, "blas", cost=None, report=report), report


FORMS = [
    ((5, 8), (8, 3), (False, False)),
    ((5, 8), (3, 8), (False, True)),
    ((8, 5), (8, 3), (True, False)),
    ((8, 5), (3, 8), (True, True)),
    ((1, 8), (8, 3), (False, False)),
    ((1, 8), (3, 8), (False, True)),
    ((8,), (8, 3), (False, False)),
    ((8,), (3, 8), (False, True)),
    ((5, 8), (8,), (False, False)),
    ((8, 5), (8,), (True, False)),
    ((2, 5, 8), (8,), (False, False)),
    ((8,), (8,), (False, False)),
    ((2, 3, 5, 8), (8, 4), (False, False)),
    ((2, 3, 5, 8), (4, 8), (False, True)),
    ((2, 3, 5, 8), (2, 3, 8, 4), (False, False)),
    ((2, 3, 5, 8), (2, 3, 4, 8), (False, True)),
    ((2, 8, 5), (2, 4, 8), (True, True)),
    ((N, 8), (8, 3), (False, False)),
    ((N, 8), (3, 8), (False, True)),
    ((8, N), (8, 3), (True, False)),
    ((2, N, 8), (2, 8, N), (False, False)),
]


@pytest.mark.sample(2)
@needs_blas
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("a, b, transposed", FORMS)
def test_products(a, b, transposed, dtype):
    mod, report = offloaded(model(a, b, transposed, dtype))
    assert [d.offloaded for d in report.decisions] == [True]
    assert not report.left
    exe = lw.compile(mod)
    x, y = numbers(a, dtype), numbers(b, dtype, 1)
    left, right = (np.swapaxes(t, -1, -2) if f else t for t, f in zip((x, y), transposed))
    wide = np.matmul(left.astype("float64"), right.astype("float64"))
    tolerance = 1e-5 if dtype == "float32" else 1e-13
    np.testing.assert_allclose(exe["main"](x, y).numpy(), wide, rtol=tolerance, atol=tolerance)
    assert "scipy_cblas_" in exe.lowered.script()


@needs_blas
def test_what_follows_is_one_own_kernel():
    mod, report = offloaded(model((5, 8), (8, 3), activation=True))
    assert report.left == {"relax.add": 1, "relax.nn.relu": 1}
    exe = lw.compile(mod)
    text = exe.lowered["main"].script()
    assert "matmul_kernel(" in text and "fused_add_relu(" in text
    a, b = numbers((5, 8)), numbers((8, 3))
    np.testing.assert_allclose(exe["main"](a, b).numpy(), np.maximum(a @ b + 1, 0), rtol=1e-5)


@needs_blas
def test_one_tensor_as_both_operands():
    mod, report = offloaded(graph("t = R.permute_dims(x); y = R.matmul(x, t)", x=(5, 8)))
    assert report.decisions[0].pattern == "blas.matmul_nt"
    value = numbers((5, 8))
    np.testing.assert_allclose(lw.compile(mod)["main"](value).numpy(), value @ value.T, rtol=1e-5)


@needs_blas
@pytest.mark.parametrize(
    "dtype, a, b, reason",
    [
        ("float16", (4, 4), (4, 4), "BLAS has no product of float16"),
        ("float32", (2, 4, 4), (3, 2, 4, 4), "its batches are broadcast, which BLAS cannot do"),
    ],
)
def test_what_is_not_taken(dtype, a, b, reason):
    _, report = offloaded(model(a, b, dtype=dtype))
    assert not report.decisions
    assert report.refused["relax.matmul"].startswith(reason)
    assert f"relax.matmul: {reason}" in str(report)


@needs_blas
def test_a_transposition_that_is_used_elsewhere_stays():
    body = "t = R.permute_dims(a); product = R.matmul(a, t); total = R.exp(t)"
    _, report = offloaded(graph(body, "product, total", a=(4, 8)))
    assert [d.pattern for d in report.decisions] == ["blas.matmul"]
    assert report.left == {"relax.permute_dims": 1, "relax.exp": 1}


@needs_blas
def test_declared_costs_decide():
    def decided(a, b):
        report = PartitionReport()
        partition(model(a, b), "blas", report=report)
        return report.decisions[0].offloaded

    assert decided((1, 1024), (1024, 1024))  # a vector and a large matrix
    assert not decided((1, 8), (8, 8))  # a small one
    assert not decided((64, 64), (64, 64))  # what own kernels do faster
    assert decided((N, 8), (8, 8))  # undecidable


@needs_blas
def test_measured_costs_decide():
    report = PartitionReport()
    partition(model((1, 256), (256, 256)), "blas", cost="measured", report=report)
    assert report.decisions[0].reason.startswith("measured: ")


@needs_blas
def test_an_exported_library_finds_openblas(tmp_path):
    mod, _ = offloaded(model((5, 8), (8, 3)))
    path = lw.compile(mod).export_library(tmp_path / "model.so")
    code = f"""
import numpy as np
from loopwright.runtime import load_module
a, b = np.ones((5, 8), "float32"), np.ones((8, 3), "float32")
main = load_module({str(path)!r})["main"]
print(main(a, b).numpy().sum())
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert float(done.stdout) == 120


@needs_blas
@pytest.mark.skipif(not shutil.which("cc"), reason="needs a C compiler")
def test_c_code_calls_it():
    model_c = lw.compile(offloaded(model((5, 8), (8, 3), activation=True))[0], target="c")
    assert "scipy_cblas_sgemm(101, 111, 111, 5, 3, 8," in model_c.source
    a, b = numbers((5, 8)), numbers((8, 3))
    out = model_c.build()(a, b)
    np.testing.assert_allclose(out, np.maximum(a @ b + 1, 0), rtol=1e-5)


def test_it_is_a_plug_in():
    assert get_backend("blas") is blas.backend()
    assert "blas" in {name for p in plugins() for name in p.brings}


def test_a_missing_package_is_named(monkeypatch):
    monkeypatch.setattr(blas, "library_path", lambda: None)
    with pytest.raises(lw.LoopwrightError) as error:
        partition(model((5, 8), (8, 3)), "blas")
    assert str(error.value) == (
        "the back end blas cannot be used here\n"
        "  got: OpenBLAS is not installed: pip install scipy-openblas32\n"
        "  instead: compile without partitioning for it"
    )
